//! Scalars of patterns as tests in CEL: alternatives, comparisons, ranges, quantities, wildcards.
//!
//! Upstream counterpart: `pkg/engine/pattern/pattern.go`, by way of `kyvtest_pattern::scalar`. The type of the value decides
//! which of its many comparisons can apply; a value of unknown type is tested for its type first.

use kyvtest_go_compat::{
    text::{duration, quantity::Quantity, wildcard},
    value::Data,
};
use kyvtest_pattern::scalar::{Operator, satisfies};

use crate::{
    Expr, Refusal, RefusalCode,
    known::{Known, Type},
};

/// A test of one value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scalar {
    form: Form,
    /// What is tested, for finding values that pass and values that do not.
    pattern: Data,
    kind: Type,
    negated: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Form {
    Known(bool),
    /// Equal to one of these literals.
    OneOf(Vec<Expr>),
    /// `value operator literal`
    Relation(&'static str, Expr),
    /// A pattern with wildcards.
    Glob(String),
    /// A regular expression.
    Matches(String),
    /// `quantity(value) operator quantity(literal)`, if the value is a quantity.
    Quantity(&'static str, String, Guard),
    /// The value has a type.
    Is(&'static str),
    All(Vec<Form>),
    Any(Vec<Form>),
    Not(Box<Form>),
}

/// Whether it must be asked first that a value is a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guard {
    Needed,
    Known,
    /// The value is neither a quantity nor a duration: a percentage or the name of a port.
    Never,
}

/// Which texts a value may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    Any,
    Labels,
    /// Not the pattern's own text.
    Others,
}

impl Values {
    fn may_be(self, text: &str) -> bool {
        let label = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        match self {
            Self::Any => true,
            Self::Labels => text.chars().all(label),
            Self::Others => false,
        }
    }
}

impl Form {
    fn all(parts: Vec<Self>) -> Self {
        let mut kept = Vec::new();
        for part in parts {
            match part {
                Self::Known(true) => {}
                Self::Known(false) => return Self::Known(false),
                part => kept.push(part),
            }
        }
        match kept.len() {
            0 => Self::Known(true),
            1 => kept.swap_remove(0),
            _ => Self::All(kept),
        }
    }

    /// One of these; equalities are put together.
    fn any(parts: Vec<Self>) -> Self {
        let mut kept: Vec<Self> = Vec::new();
        for part in parts {
            match part {
                Self::Known(false) => {}
                Self::Known(true) => return Self::Known(true),
                Self::OneOf(more) => {
                    let list = kept.iter_mut().find_map(|other| match other {
                        Self::OneOf(list) => Some(list),
                        _ => None,
                    });
                    match list {
                        Some(list) => list.extend(more),
                        None => kept.push(Self::OneOf(more)),
                    }
                }
                part if kept.contains(&part) => {}
                part => kept.push(part),
            }
        }
        match kept.len() {
            0 => Self::Known(false),
            1 => kept.swap_remove(0),
            _ => Self::Any(kept),
        }
    }

    fn not(self) -> Self {
        match self {
            Self::Known(known) => Self::Known(!known),
            Self::Not(inner) => *inner,
            Self::Relation(operator, other) => Self::Relation(opposite(operator), other),
            Self::Quantity(operator, other, Guard::Known) => Self::Quantity(opposite(operator), other, Guard::Known),
            other => Self::Not(Box::new(other)),
        }
    }

    fn render(&self, value: &Expr) -> Expr {
        match self {
            Self::Known(known) => Expr::bool(*known),
            Self::OneOf(list) => match list.as_slice() {
                [one] => value.relation("==", one),
                list => {
                    // Literals of a list are of one type.
                    let (texts, others): (Vec<&Expr>, Vec<&Expr>) =
                        list.iter().partition(|literal| literal.as_str().starts_with('\''));
                    let texts = match texts.as_slice() {
                        [] => None,
                        [one] => Some(value.relation("==", one)),
                        texts => Some(value.relation("in", &Expr::list(texts.iter().copied().cloned()))),
                    };
                    Expr::any(
                        texts
                            .into_iter()
                            .chain(others.iter().map(|other| value.relation("==", other))),
                    )
                }
            },
            Self::Relation(operator, other) => value.relation(operator, other),
            Self::Glob(pattern) => glob(value, pattern),
            Self::Matches(regex) => value.call("matches", [Expr::string(regex)]),
            Self::Quantity(operator, other, guard) => {
                let amount = |expr: Expr| Expr::function("quantity", [expr]);
                let other = amount(Expr::string(other));
                let order = amount(value.clone()).call("compareTo", [other]);
                let compared = order.relation(operator, &Expr::int(0));
                match guard {
                    Guard::Known | Guard::Never => compared,
                    Guard::Needed => {
                        let is = Expr::function("isQuantity", [value.clone()]);
                        Expr::all([is, compared])
                    }
                }
            }
            Self::Is(kind) => Expr::function("type", [value.clone()]).relation("==", &Expr::primary(*kind)),
            Self::All(parts) => Expr::all(parts.iter().map(|part| part.render(value))),
            Self::Any(parts) => Expr::any(parts.iter().map(|part| part.render(value))),
            Self::Not(inner) => match &**inner {
                Self::OneOf(list) if list.len() == 1 => value.relation("!=", &list[0]),
                Self::Is(kind) => Expr::function("type", [value.clone()]).relation("!=", &Expr::primary(*kind)),
                inner => inner.render(value).negate(),
            },
        }
    }
}

fn opposite(operator: &'static str) -> &'static str {
    match operator {
        "<" => ">=",
        "<=" => ">",
        ">" => "<=",
        ">=" => "<",
        "==" => "!=",
        _ => "==",
    }
}

/// A pattern with wildcards, on a value that is a text.
pub(crate) fn glob(value: &Expr, pattern: &str) -> Expr {
    if pattern == "?*" || pattern == "*?" {
        return value.relation("!=", &Expr::string(""));
    }
    let inner = pattern.trim_matches('*');
    if inner.is_empty() {
        return Expr::bool(true);
    }
    if !wildcard::has_wildcard(inner) {
        let method = match (pattern.starts_with('*'), pattern.ends_with('*')) {
            (true, true) => "contains",
            (true, false) => "endsWith",
            (false, true) => "startsWith",
            (false, false) => return value.relation("==", &Expr::string(inner)),
        };
        return value.call(method, [Expr::string(inner)]);
    }
    // A dot is any character, line ends included.
    let mut regex = String::from("(?s)^");
    for c in pattern.chars() {
        match c {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            c if c.is_ascii_punctuation() && !matches!(c, '-' | '_' | ':' | '/' | '@') => regex.extend(['\\', c]),
            c => regex.push(c),
        }
    }
    regex.push('$');
    value.call("matches", [Expr::string(&regex)])
}

impl Scalar {
    /// The test of a value of a type that is not a list.
    pub(crate) fn new(pattern: &Data, known: &Known) -> Result<Self, Refusal> {
        Self::of_values(pattern, known, Values::Any)
    }

    /// The test of a value of a type that is not a list, if its texts may be restricted.
    pub(crate) fn of_values(pattern: &Data, known: &Known, values: Values) -> Result<Self, Refusal> {
        let kind = known.kind();
        let form = match kind {
            Type::Bool => bools(pattern),
            Type::Int => ints(pattern)?,
            Type::Text => {
                let values = match (pattern.as_str(), known.choices.as_slice()) {
                    (Some(text), choices @ [_, ..]) if !choices.contains(&text) => Values::Others,
                    _ => values,
                };
                texts(pattern, Guard::Needed, known.nonzero, values)?
            }
            Type::Quantity => texts(pattern, Guard::Known, true, values)?,
            Type::IntOrText => Form::any(vec![
                // `kyverno test` shows numbers as doubles, so `int` is not asked for.
                Form::all(vec![Form::Is("string").not(), ints(pattern)?]),
                Form::all(vec![Form::Is("string"), texts(pattern, Guard::Never, true, values)?]),
            ]),
            Type::List | Type::Map => Form::Known(false),
            Type::Unknown => unknown(pattern)?,
        };
        let form = match form {
            // Whatever the type is.
            Form::Any(parts) if kind == Type::IntOrText && parts == [Form::Is("string").not(), Form::Is("string")] => {
                Form::Known(true)
            }
            form => form,
        };
        Ok(Self {
            form,
            pattern: pattern.clone(),
            kind,
            negated: false,
        })
    }

    /// The result, if it is the same for every value.
    pub(crate) fn as_known(&self) -> Option<bool> {
        match self.form {
            Form::Known(known) => Some(known),
            _ => None,
        }
    }

    pub(crate) fn negate(self) -> Self {
        Self {
            form: self.form.not(),
            negated: !self.negated,
            ..self
        }
    }

    pub(crate) fn render(&self, value: &Expr) -> Expr {
        self.form.render(value)
    }

    /// A literal that stands for an absent value: the test gives `wanted` for it.
    pub(crate) fn default(&self, wanted: bool) -> Option<Expr> {
        let mut candidates: Vec<(Data, Expr)> = Vec::new();
        let bools = [false, true].map(|value| (Data::Bool(value), Expr::bool(value)));
        let text = |text: &str| (Data::String(text.into()), Expr::string(text));
        let int = |number: i64| (Data::Int(number), Expr::int(number));
        match self.kind {
            Type::Bool => candidates.extend(bools),
            Type::Int => {
                candidates.push(int(0));
                for number in self.numbers() {
                    candidates.extend([number, number + 1, number - 1].map(int));
                }
            }
            Type::Quantity => candidates.extend(["0", "1P"].map(text)),
            Type::Text => {
                candidates.push(text(""));
                if let Data::String(pattern) = &self.pattern {
                    let atoms = pattern.split(['|', '&', '!']).map(|atom| atom.trim_matches(' '));
                    candidates.extend(atoms.filter(|atom| !wildcard::has_wildcard(atom)).map(text));
                }
            }
            _ => {}
        }
        let found = candidates
            .into_iter()
            .find(|(value, _)| (satisfies(value, &self.pattern) != self.negated) == wanted);
        found.map(|(_, literal)| literal)
    }

    /// The integers in the pattern.
    fn numbers(&self) -> Vec<i64> {
        match &self.pattern {
            Data::Int(number) => vec![*number],
            Data::String(text) => {
                let parts = text.split(|c: char| !c.is_ascii_digit());
                parts
                    .filter_map(|part| part.parse::<i32>().ok())
                    .map(i64::from)
                    .collect()
            }
            _ => Vec::new(),
        }
    }
}

/// All values are tried.
fn bools(pattern: &Data) -> Form {
    let fits = |value: bool| satisfies(&Data::Bool(value), pattern);
    match (fits(true), fits(false)) {
        (true, true) => Form::Known(true),
        (true, false) => Form::OneOf(vec![Expr::bool(true)]),
        (false, true) => Form::OneOf(vec![Expr::bool(false)]),
        (false, false) => Form::Known(false),
    }
}

fn refuse(reason: impl Into<String>) -> Refusal {
    Refusal::new(RefusalCode::Pattern, reason)
}

/// The alternatives of a text pattern, atom by atom.
fn atoms(pattern: &str, mut compare: impl FnMut(Operator<'_>, &str) -> Result<Form, Refusal>) -> Result<Form, Refusal> {
    let mut ways = Vec::new();
    for alternative in pattern.split('|') {
        let mut all = Vec::new();
        for atom in alternative.trim_matches(' ').split('&') {
            all.push(match Operator::read(atom.trim_matches(' ')) {
                (Operator::InRange(from, to), _) => Form::all(vec![
                    compare(Operator::MoreEqual, from)?,
                    compare(Operator::LessEqual, to)?,
                ]),
                (Operator::NotInRange(from, to), _) => {
                    Form::any(vec![compare(Operator::Less, from)?, compare(Operator::More, to)?])
                }
                (operator, operand) => compare(operator, operand.trim())?,
            });
        }
        ways.push(Form::all(all));
    }
    Ok(Form::any(ways))
}

fn word(operator: Operator<'_>) -> &'static str {
    match operator {
        Operator::NotEqual => "!=",
        Operator::More => ">",
        Operator::MoreEqual => ">=",
        Operator::Less => "<",
        Operator::LessEqual => "<=",
        Operator::Equal | Operator::InRange(..) | Operator::NotInRange(..) => "==",
    }
}

fn ints(pattern: &Data) -> Result<Form, Refusal> {
    let number = match pattern {
        Data::Null => 0,
        Data::Int(number) => *number,
        Data::Double(number) if number.fract() == 0.0 && number.abs() < 1e15 => *number as i64,
        Data::String(text) => return atoms(text, int_atom),
        _ => return Ok(Form::Known(false)),
    };
    Ok(Form::Relation("==", Expr::int(number)))
}

fn int_atom(operator: Operator<'_>, operand: &str) -> Result<Form, Refusal> {
    let as_duration = duration::parse(operand).is_ok();
    if let Ok(quantity) = Quantity::parse(operand) {
        if as_duration && operand != "0" {
            return Err(refuse(format!(
                "`{operand}` is a duration and a quantity; the value is a number"
            )));
        }
        let Some(number) = quantity.as_i64() else {
            return Err(refuse(format!("the fraction `{operand}` is compared with an integer")));
        };
        return Ok(Form::Relation(word(operator), Expr::int(number)));
    }
    if as_duration {
        return Err(refuse(format!("the duration `{operand}` is compared with a number")));
    }
    // A value that is not a number is compared as a text.
    let matched = if operand == "*" || operand == "?*" {
        true
    } else if wildcard::has_wildcard(operand) && operand.bytes().all(|b| b.is_ascii_digit() || b"-*?".contains(&b)) {
        return Err(refuse(format!("the wildcard `{operand}` is compared with a number")));
    } else {
        false
    };
    Ok(Form::Known(match operator {
        Operator::Equal => matched,
        Operator::NotEqual => !matched,
        _ => false,
    }))
}

fn texts(pattern: &Data, guard: Guard, nonzero: bool, values: Values) -> Result<Form, Refusal> {
    let text = match pattern {
        Data::Null => {
            return Ok(if nonzero {
                Form::Known(false)
            } else {
                Form::OneOf(vec![Expr::string("")])
            });
        }
        Data::Int(number) => {
            let sign = match number.signum() {
                -1 => "-",
                0 => "[+-]?",
                _ => "[+]?",
            };
            // An integer is read from the text, leading zeros included.
            return Ok(Form::Matches(format!("^{sign}0*{}$", number.unsigned_abs())));
        }
        Data::String(text) => text,
        Data::Double(_) | Data::Uint(_) => return Err(refuse("a fraction is compared with a text")),
        Data::Bool(_) | Data::List(_) | Data::Map(_) => return Ok(Form::Known(false)),
    };
    let form = atoms(text, |operator, operand| text_atom(operator, operand, guard, nonzero))?;
    // A text that is the pattern itself fits, whatever its operators say. A trailing space leaves only these.
    let operators = Data::String(format!("{text} ").into());
    let possible = guard != Guard::Known && values.may_be(text);
    if !possible || satisfies(&Data::String(text.clone()), &operators) {
        return Ok(form);
    }
    Ok(Form::any(vec![form, Form::OneOf(vec![Expr::string(text)])]))
}

fn text_atom(operator: Operator<'_>, operand: &str, guard: Guard, nonzero: bool) -> Result<Form, Refusal> {
    if duration::parse(operand).is_ok() && guard == Guard::Needed {
        return Err(refuse(format!("`{operand}` is compared as a duration")));
    }
    let matched = if wildcard::has_wildcard(operand) {
        if operand.chars().all(|c| c == '*') || nonzero && operand == "?*" {
            Form::Known(true)
        } else {
            Form::Glob(operand.to_owned())
        }
    } else {
        Form::OneOf(vec![Expr::string(operand)])
    };
    let as_text = match operator {
        Operator::Equal => matched,
        Operator::NotEqual => matched.not(),
        _ => Form::Known(false),
    };
    if guard == Guard::Never || Quantity::parse(operand).is_err() {
        return Ok(as_text);
    }
    let compared = Form::Quantity(word(operator), operand.to_owned(), guard);
    Ok(match (guard, operator) {
        (Guard::Known | Guard::Never, _) => compared,
        // A text that is equal is a quantity as well.
        (Guard::Needed, Operator::NotEqual) => Form::Quantity("==", operand.to_owned(), guard).not(),
        (Guard::Needed, _) => compared,
    })
}

/// A value of unknown type: what a text must be, and numbers and booleans where they can fit.
fn unknown(pattern: &Data) -> Result<Form, Refusal> {
    let text = texts(pattern, Guard::Needed, false, Values::Any)?;
    let int = ints(pattern)?;
    let bool = bools(pattern);
    let typed = |name: &'static str, form: Form| Form::all(vec![Form::Is(name), form]);
    // A literal equals values of its own type only.
    let text = match text {
        Form::OneOf(list) => Form::OneOf(list),
        form => typed("string", form),
    };
    let int = match int {
        Form::Relation("==", number) => Form::Relation("==", number),
        form => Form::any(vec![typed("int", form.clone()), typed("double", form)]),
    };
    let bool = match bool {
        Form::OneOf(list) => Form::OneOf(list),
        form => typed("bool", form),
    };
    Ok(match pattern {
        Data::Bool(_) => bool,
        _ => Form::any(vec![text, int, bool]),
    })
}
