//! CEL expressions under construction: text that knows how tightly it binds.
//!
//! Parentheses are written where the grammar of cel-go needs them and nowhere else, so that generated expressions read as if a
//! person had written them.

mod lists;

use std::fmt;

/// How tightly an expression binds, loosest first; the levels of cel-go's grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Conditional,
    Or,
    And,
    Relation,
    Sum,
    Product,
    Unary,
    Postfix,
}

/// A CEL expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expr {
    text: String,
    level: Level,
    /// The negation, if it needs no `!` in front: of `==` the same with `!=`, of `exists` the same with `all`.
    opposite: Option<String>,
    /// Of `&&` and `||`: the operands.
    operands: Vec<Self>,
}

impl Expr {
    /// A variable, a constant or another primary expression, as it is written.
    pub fn primary(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            level: Level::Postfix,
            opposite: None,
            operands: Vec::new(),
        }
    }

    /// A string literal.
    pub fn string(text: &str) -> Self {
        let mut literal = String::with_capacity(text.len() + 2);
        literal.push('\'');
        for c in text.chars() {
            match c {
                '\'' => literal.push_str("\\'"),
                '\\' => literal.push_str("\\\\"),
                '\n' => literal.push_str("\\n"),
                '\r' => literal.push_str("\\r"),
                '\t' => literal.push_str("\\t"),
                c if c.is_control() => {
                    let _ = fmt::Write::write_fmt(&mut literal, format_args!("\\u{:04x}", u32::from(c)));
                }
                c => literal.push(c),
            }
        }
        literal.push('\'');
        Self::primary(literal)
    }

    /// An integer literal.
    pub(crate) fn int(value: i64) -> Self {
        Self::primary(value.to_string())
    }

    /// `true` or `false`.
    pub fn bool(value: bool) -> Self {
        Self::primary(if value { "true" } else { "false" })
    }

    /// A list literal.
    pub fn list(items: impl IntoIterator<Item = Self>) -> Self {
        let items: Vec<String> = items.into_iter().map(|item| item.text).collect();
        Self::primary(format!("[{}]", items.join(", ")))
    }

    /// Whether this is the constant `true` (`false`).
    pub(crate) fn is_bool(&self, value: bool) -> bool {
        self.text == if value { "true" } else { "false" }
    }

    /// `self.field`; a name that is not an identifier is written as `self['field']`.
    pub fn field(&self, field: &str) -> Self {
        if is_identifier(field) {
            return Self::primary(format!("{}.{field}", self.at(Level::Postfix)));
        }
        self.index(&Self::string(field))
    }

    /// `self.?field`: absent where the field is.
    pub fn optional(&self, field: &str) -> Self {
        let operand = self.at(Level::Postfix);
        if is_identifier(field) {
            return Self::primary(format!("{operand}.?{field}"));
        }
        Self::primary(format!("{operand}[?{}]", Self::string(field).text))
    }

    /// `self[index]`.
    pub fn index(&self, index: &Self) -> Self {
        Self::primary(format!("{}[{}]", self.at(Level::Postfix), index.text))
    }

    /// `self[?index]`: absent where the index is out of range.
    pub(crate) fn optional_index(&self, index: &Self) -> Self {
        Self::primary(format!("{}[?{}]", self.at(Level::Postfix), index.text))
    }

    /// `self.method(args)`; macros such as `all` take the variable as their first argument.
    pub(crate) fn call(&self, method: &str, args: impl IntoIterator<Item = Self>) -> Self {
        let args: Vec<Self> = args.into_iter().collect();
        if let Some(fused) = self.fused(method, &args) {
            return fused;
        }
        let opposite = self.opposite_loop(method, &args);
        Self {
            opposite,
            ..Self::primary(format!("{}.{method}({})", self.at(Level::Postfix), join(args)))
        }
    }

    /// `function(args)`.
    pub fn function(function: &str, args: impl IntoIterator<Item = Self>) -> Self {
        Self::primary(format!("{function}({})", join(args)))
    }

    /// `has(self)`.
    pub(crate) fn has(&self) -> Self {
        Self::primary(format!("has({})", self.text))
    }

    /// `!self`; the negation of a negation is what was negated.
    pub(crate) fn negate(&self) -> Self {
        if self.is_bool(true) || self.is_bool(false) {
            return Self::bool(self.is_bool(false));
        }
        if self.level == Level::Unary
            && let Some(inner) = self.text.strip_prefix('!')
        {
            let level = Level::Postfix;
            let text = inner.to_owned();
            return Self {
                text,
                level,
                opposite: None,
                operands: Vec::new(),
            };
        }
        Self {
            text: format!("!{}", self.at(Level::Postfix)),
            level: Level::Unary,
            opposite: None,
            operands: Vec::new(),
        }
    }

    /// The negation, with the opposite relation in place of a `!` in front: `a != b`.
    pub(crate) fn negated_relation(&self) -> Self {
        match &self.opposite {
            Some(opposite) => Self {
                text: opposite.clone(),
                level: Level::Relation,
                opposite: Some(self.text.clone()),
                operands: Vec::new(),
            },
            // `!(!a && !b)` is `a || b`, errors included.
            None if self.reads_negated() && self.level == Level::And => {
                Self::any(self.operands.iter().map(Self::negated_relation))
            }
            None if self.reads_negated() && self.level == Level::Or => {
                Self::all(self.operands.iter().map(Self::negated_relation))
            }
            None => self.negate(),
        }
    }

    /// The expression as one whose type is known to be `bool`, which match conditions must be: a field may be anything.
    pub(crate) fn as_bool(&self) -> Self {
        let is_path = !self.text.contains('(') && !self.is_bool(true) && !self.is_bool(false);
        let is_default = [".orValue(false)", ".orValue(true)"]
            .iter()
            .any(|end| self.text.ends_with(end));
        if self.level == Level::Postfix && (is_path || is_default) {
            return self.relation("==", &Self::bool(true));
        }
        self.clone()
    }

    /// Whether the negation needs no further `!`.
    fn reads_negated(&self) -> bool {
        let is_negation = self.level == Level::Unary && self.text.starts_with('!');
        let all = !self.operands.is_empty() && self.operands.iter().all(Self::reads_negated);
        self.opposite.is_some() || is_negation || all
    }

    /// `self == other`, and the other relations: `!=`, `<`, `<=`, `>`, `>=`, `in`.
    pub(crate) fn relation(&self, operator: &str, other: &Self) -> Self {
        if let Some(exists) = self.counted(operator, other) {
            return exists;
        }
        let (left, right) = (self.at(Level::Sum), other.at(Level::Sum));
        // Integers are in order: doubles may be no numbers.
        let is_integer = |text: &str| text.ends_with(".size()") || text.parse::<i64>().is_ok();
        let ordered = self.level == Level::Postfix && is_integer(&left) && is_integer(&right);
        let opposite = match operator {
            "==" => Some("!="),
            "!=" => Some("=="),
            ">" if ordered => Some("<="),
            "<=" if ordered => Some(">"),
            "<" if ordered => Some(">="),
            ">=" if ordered => Some("<"),
            _ => None,
        };
        Self {
            opposite: opposite.map(|operator| format!("{left} {operator} {right}")),
            text: format!("{left} {operator} {right}"),
            level: Level::Relation,
            operands: Vec::new(),
        }
    }

    /// `self + other` and `self - other`.
    pub(crate) fn sum(&self, operator: &str, other: &Self) -> Self {
        Self {
            text: format!("{} {operator} {}", self.at(Level::Sum), other.at(Level::Product)),
            level: Level::Sum,
            opposite: None,
            operands: Vec::new(),
        }
    }

    /// `self * other`, `self / other` and `self % other`.
    pub(crate) fn product(&self, operator: &str, other: &Self) -> Self {
        Self {
            text: format!("{} {operator} {}", self.at(Level::Product), other.at(Level::Unary)),
            level: Level::Product,
            opposite: None,
            operands: Vec::new(),
        }
    }

    /// All of them; without any, `true`. Constants are folded.
    pub fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        Self::join_bools(parts, "&&", Level::And, true)
    }

    /// Any of them; without any, `false`. Constants are folded.
    pub fn any(parts: impl IntoIterator<Item = Self>) -> Self {
        Self::join_bools(parts, "||", Level::Or, false)
    }

    /// `self ? yes : no`.
    pub(crate) fn choose(&self, yes: &Self, no: &Self) -> Self {
        Self {
            text: format!("{} ? {} : {}", self.at(Level::Or), yes.at(Level::Or), no.text),
            level: Level::Conditional,
            opposite: None,
            operands: Vec::new(),
        }
    }

    /// The expression as it is written in a policy.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    fn join_bools(parts: impl IntoIterator<Item = Self>, operator: &str, level: Level, neutral: bool) -> Self {
        let mut kept: Vec<Self> = Vec::new();
        let flat = |part: Self| {
            if part.level == level && !part.operands.is_empty() {
                part.operands
            } else {
                vec![part]
            }
        };
        for part in parts.into_iter().flat_map(flat) {
            if part.is_bool(!neutral) {
                return Self::bool(!neutral);
            }
            if !part.is_bool(neutral) && !kept.contains(&part) {
                kept.push(part);
            }
        }
        match kept.len() {
            0 => Self::bool(neutral),
            1 => kept.swap_remove(0),
            _ => {
                let texts: Vec<String> = kept.iter().map(|part| part.at(level)).collect();
                Self {
                    text: texts.join(&format!(" {operator} ")),
                    level,
                    opposite: None,
                    operands: kept,
                }
            }
        }
    }

    /// The text as an operand of something that binds as tightly as `level`.
    fn at(&self, level: Level) -> String {
        if self.level < level {
            format!("({})", self.text)
        } else {
            self.text.clone()
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn join(args: impl IntoIterator<Item = Expr>) -> String {
    let args: Vec<String> = args.into_iter().map(|arg| arg.text).collect();
    args.join(", ")
}

/// Whether a name can be selected with a dot.
fn is_identifier(name: &str) -> bool {
    // Other reserved words may follow a dot: `object.metadata.namespace`.
    const RESERVED: [&str; 4] = ["false", "in", "null", "true"];
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    first && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_') && !RESERVED.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::Expr;

    #[test]
    fn parentheses_only_where_the_grammar_needs_them() {
        let [a, b, c] = ["a", "b", "c"].map(Expr::primary);
        let either = Expr::any([a.clone(), b.clone()]);
        assert_eq!(Expr::all([either.clone(), c.clone()]).as_str(), "(a || b) && c");
        assert_eq!(
            Expr::any([Expr::all([a.clone(), b.clone()]), c.clone()]).as_str(),
            "a && b || c"
        );
        assert_eq!(a.relation("==", &b).negate().as_str(), "!(a == b)");
        assert_eq!(either.negate().negate().as_str(), "(a || b)");
        assert_eq!(a.choose(&b, &c).call("size", []).as_str(), "(a ? b : c).size()");
    }

    #[test]
    fn fields_and_keys() {
        let object = Expr::primary("object");
        assert_eq!(object.field("spec").as_str(), "object.spec");
        assert_eq!(object.field("namespace").as_str(), "object.namespace");
        assert_eq!(object.field("in").as_str(), "object['in']");
        assert_eq!(
            object.optional("app.kubernetes.io/name").as_str(),
            "object[?'app.kubernetes.io/name']"
        );
    }
}
