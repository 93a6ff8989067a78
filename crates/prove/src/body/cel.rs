//! CEL expressions about all requests at once: walks planned programs as the evaluator does, over symbolic values.
//!
//! Upstream counterpart: cel-go `interpreter`, by way of `kyvtest_cel::eval`; every node is read as that module evaluates it,
//! errors included. What is not modelled is an unknown value of its arguments, or ends the reading.
//!
//! Known deviation: costs are not modelled.

mod attribute;
mod call;
mod compare;
mod equal;
mod fold;
mod made;
mod moment;
mod outside;
mod text;

pub(super) use self::{
    fold::{renamed, substitute as substituted},
    outside::{kind_of, lookup, object, plural_of},
};

use std::{rc::Rc, sync::Arc};

use kyvtest_cel::program::{Constant, Node, NodeId, Operator, Program};
use kyvtest_cel::val::Val;
use rustc_hash::FxHashMap;

use super::{
    formula::{Arena, Formula, Place},
    shape::{Kind, Shape},
    value::{Part, Result, Steps, Sym, Truth, Value, unsupported},
};

/// How deep expressions may be.
const DEPTH: u32 = 200;

/// What the variables of a policy's expressions are.
pub(super) struct Surroundings<'a> {
    /// Values by name: `object`, `oldObject`, `request` and so on.
    pub(super) roots: FxHashMap<&'static str, Value>,
    /// The programs of `variables`; `None` for one that cannot be compiled.
    pub(super) variables: FxHashMap<String, Option<&'a Program>>,
    /// Variables that were evaluated before.
    pub(super) known: FxHashMap<String, Value>,
    /// Whether what is made is written to an object, so that the order of its lists counts.
    pub(super) is_ordered: bool,
}

impl<'a> Surroundings<'a> {
    pub(super) fn new(
        roots: FxHashMap<&'static str, Value>,
        variables: FxHashMap<String, Option<&'a Program>>,
    ) -> Self {
        Self {
            roots,
            variables,
            known: FxHashMap::default(),
            is_ordered: false,
        }
    }
}

/// The values of a comprehension's second variable, by those of the first.
enum Seconds {
    /// The elements of a list, by their positions.
    Items(Place),
    /// The values of a map with constant keys.
    Entries(Rc<[(Arc<str>, Value)]>),
}

/// Reads one program.
pub(super) struct Reader<'a, 's> {
    pub(super) arena: &'s mut Arena,
    program: &'a Program,
    surroundings: &'s Surroundings<'a>,
    slots: Vec<Option<Value>>,
    /// The elements that quantifiers around are about.
    bound: Vec<Place>,
    /// What the second variable of the innermost comprehension goes through.
    seconds: Option<Seconds>,
    depth: u32,
}

/// Whether a program is true, false or an error.
pub(super) fn truth<'a>(arena: &mut Arena, program: &'a Program, surroundings: &Surroundings<'a>) -> Result<Truth> {
    let value = value(arena, program, surroundings, (0, Vec::new()))?;
    Ok(arena.truth(&value))
}

/// What the program of a mutation makes.
pub(super) fn made<'a>(arena: &mut Arena, program: &'a Program, surroundings: &Surroundings<'a>) -> Result<Value> {
    value(arena, program, surroundings, (0, Vec::new()))
}

/// Whether the value of a program is a text, or also null.
pub(super) fn is_text<'a>(
    arena: &mut Arena,
    program: &'a Program,
    surroundings: &Surroundings<'a>,
    or_null: bool,
) -> Result<Formula> {
    let value = value(arena, program, surroundings, (0, Vec::new()))?;
    let mut texts = Vec::new();
    for (guard, sym) in value.0 {
        match sym {
            Sym::Text(_) | Sym::Words(..) => texts.push(guard),
            Sym::Null if or_null => texts.push(guard),
            Sym::At(place) => {
                let is_text = arena.is_kind(place, Kind::Text);
                let is_null = if or_null {
                    arena.is_kind(place, Kind::Null)
                } else {
                    Formula::FALSE
                };
                let fits = arena.or([is_text, is_null]);
                texts.push(arena.and([guard, fits]));
            }
            _ => {}
        }
    }
    Ok(arena.or(texts))
}

fn value<'a>(
    arena: &mut Arena,
    program: &'a Program,
    surroundings: &Surroundings<'a>,
    (depth, bound): (u32, Vec<Place>),
) -> Result<Value> {
    let mut reader = Reader {
        arena,
        program,
        surroundings,
        slots: vec![None; program.slots as usize],
        bound,
        seconds: None,
        depth,
    };
    reader.read(program.root)
}

impl Reader<'_, '_> {
    pub(super) fn read(&mut self, id: NodeId) -> Result<Value> {
        if self.depth >= DEPTH {
            return unsupported("an expression is nested too deeply");
        }
        self.depth += 1;
        let value = self.node(id);
        self.depth -= 1;
        value
    }

    fn truth_of(&mut self, id: NodeId) -> Result<Truth> {
        let value = self.read(id)?;
        Ok(self.arena.truth(&value))
    }

    fn node(&mut self, id: NodeId) -> Result<Value> {
        let program = self.program;
        match &program.nodes[id.0 as usize] {
            Node::Constant(constant) => constant_value(constant),
            Node::Attribute(attribute) => self.attribute(attribute),
            Node::And(terms) => {
                let truths = terms
                    .iter()
                    .map(|term| self.truth_of(*term))
                    .collect::<Result<Vec<_>>>()?;
                let truth = self.arena.all(&truths);
                Ok(truth.value(self.arena))
            }
            Node::Or(terms) => {
                let truths = terms
                    .iter()
                    .map(|term| self.truth_of(*term))
                    .collect::<Result<Vec<_>>>()?;
                let truth = self.arena.any(&truths);
                Ok(truth.value(self.arena))
            }
            Node::Equal(a, b) => self.equality(*a, *b, true),
            Node::NotEqual(a, b) => self.equality(*a, *b, false),
            Node::Not(a) => {
                let Truth { yes, no } = self.truth_of(*a)?;
                Ok(Truth { yes: no, no: yes }.value(self.arena))
            }
            Node::NotStrictlyFalse(a) => {
                let Truth { no, .. } = self.truth_of(*a)?;
                let yes = self.arena.not(no);
                Ok(Truth { yes, no }.value(self.arena))
            }
            Node::Negate(a) => {
                let value = self.read(*a)?;
                self.each(&value, |reader, sym| match sym {
                    Sym::Int(number) => Ok(number.checked_neg().map_or(Value::error(), |n| Value::of(Sym::Int(n)))),
                    Sym::Double(number) => Ok(Value::of(Sym::Double(-number))),
                    Sym::Error | Sym::Bool(_) | Sym::Text(_) | Sym::Null => Ok(Value::error()),
                    sym => reader.unknown("-", std::slice::from_ref(sym), Shape::any()),
                })
            }
            Node::Binary(operator, a, b, _) => {
                let (a, b) = (self.read(*a)?, self.read(*b)?);
                if *operator == Operator::Add
                    && a.0.len() + b.0.len() > 2
                    && let Some((first, left)) = self.as_list(&a)?
                    && let Some((second, right)) = self.as_list(&b)?
                {
                    let fine = self.arena.and([first, second]);
                    let error = self.arena.not(fine);
                    let joined: Vec<Part> = left.into_iter().chain(right).collect();
                    return Ok(self
                        .arena
                        .value([(fine, Sym::List(Rc::from(joined))), (error, Sym::Error)]));
                }
                self.both(&a, &b, |reader, a, b| reader.binary(*operator, a, b))
            }
            Node::Member(needle, constants) => {
                let needle = self.read(*needle)?;
                let constants = constants.iter().map(constant_value).collect::<Result<Vec<_>>>()?;
                self.each(&needle, |reader, sym| {
                    if *sym == Sym::Error {
                        return Ok(Value::error());
                    }
                    let mut hits = Vec::new();
                    for constant in &constants {
                        for (guard, other) in &constant.0 {
                            let equal = reader.equal(sym, other)?;
                            hits.push(reader.arena.and([*guard, equal]));
                        }
                    }
                    let hit = reader.arena.or(hits);
                    Ok(Value::of(Sym::Bool(hit)))
                })
            }
            Node::Call(call) => self.call(call),
            Node::List { elements, optional } => self.list(elements, optional),
            Node::Map { entries } => self.map(entries),
            Node::Struct { name, fields } => self.object(name, fields),
            Node::Fold(fold) => self.fold(fold),
            Node::Bind { slot, body } => {
                let outer = self.slots[slot.0 as usize].take();
                let value = self.read(*body);
                self.slots[slot.0 as usize] = outer;
                value
            }
            Node::OptionalOr(a, b) => self.optional_or(*a, *b, false),
            Node::OptionalOrValue(a, b) => self.optional_or(*a, *b, true),
            Node::Unbound(_) | Node::UnknownCall { .. } => Ok(Value::error()),
        }
    }

    /// Applies a function to each case of a value.
    pub(super) fn each(
        &mut self,
        value: &Value,
        mut apply: impl FnMut(&mut Self, &Sym) -> Result<Value>,
    ) -> Result<Value> {
        let mut cases = Vec::new();
        for (guard, sym) in &value.0 {
            for (inner, sym) in apply(self, sym)?.0 {
                cases.push((self.arena.and([*guard, inner]), sym));
            }
        }
        let whole = self.arena.value(cases);
        self.arena.each(&whole, |_, sym| Ok(Value::of(sym.clone())))
    }

    /// Applies a function to each pair of cases; an error on either side is an error.
    fn both(
        &mut self,
        a: &Value,
        b: &Value,
        mut apply: impl FnMut(&mut Self, &Sym, &Sym) -> Result<Value>,
    ) -> Result<Value> {
        self.each(a, |reader, a| {
            reader.each(b, |reader, b| {
                if *a == Sym::Error || *b == Sym::Error {
                    return Ok(Value::error());
                }
                apply(reader, a, b)
            })
        })
    }

    fn equality(&mut self, a: NodeId, b: NodeId, wanted: bool) -> Result<Value> {
        let (a, b) = (self.read(a)?, self.read(b)?);
        self.both(&a, &b, |reader, a, b| {
            let equal = reader.equal(a, b)?;
            let truth = if wanted { equal } else { reader.arena.not(equal) };
            Ok(Value::of(Sym::Bool(truth)))
        })
    }

    fn optional_or(&mut self, a: NodeId, b: NodeId, unwraps: bool) -> Result<Value> {
        let first = self.read(a)?;
        let needs_optional = self.program.profile.behaviour.or_value_needs_optional;
        self.each(&first, |reader, sym| match sym {
            Sym::Optional(None) => reader.read(b),
            Sym::Optional(Some(inner)) if unwraps => Ok((**inner).clone()),
            Sym::Error => Ok(Value::error()),
            Sym::Optional(_) => Ok(Value::of(sym.clone())),
            _ if needs_optional => Ok(Value::error()),
            other => Ok(Value::of(other.clone())),
        })
    }

    fn list(&mut self, elements: &[NodeId], optional: &[bool]) -> Result<Value> {
        let mut parts = Vec::new();
        let mut errors = Vec::new();
        for (element, optional) in elements.iter().zip(optional) {
            let value = self.read(*element)?;
            let mut kept = Vec::new();
            let mut keep = Vec::new();
            for (guard, sym) in value.0 {
                match sym {
                    Sym::Error => errors.push(guard),
                    Sym::Optional(None) if *optional => {}
                    Sym::Optional(Some(inner)) if *optional => {
                        keep.push(guard);
                        for (own, sym) in &inner.0 {
                            kept.push((self.arena.and([guard, *own]), sym.clone()));
                        }
                    }
                    _ if *optional => errors.push(guard),
                    sym => {
                        keep.push(guard);
                        kept.push((guard, sym));
                    }
                }
            }
            let keep = self.arena.or(keep);
            parts.push(Part::One(keep, self.arena.value(kept)));
        }
        // Whether an element is an error is decided before it is kept.
        let error = self.arena.or(errors);
        let fine = self.arena.not(error);
        Ok(self
            .arena
            .value([(fine, Sym::List(Rc::from(parts))), (error, Sym::Error)]))
    }

    fn map(&mut self, entries: &[(NodeId, NodeId, bool)]) -> Result<Value> {
        if entries.iter().any(|(.., optional)| *optional) {
            return self.optional_entries(entries);
        }
        let mut made: Vec<(Arc<str>, Value)> = Vec::new();
        let mut errors = Vec::new();
        for (key, value, _) in entries {
            let key = self.read(*key)?;
            let Some(Sym::Text(key)) = key.single() else {
                return unsupported("a map literal with computed keys");
            };
            if made.iter().any(|(known, _)| known == key) {
                return unsupported("a map literal with a key twice");
            }
            let value = self.read(*value)?;
            let mut kept = Vec::new();
            for (guard, sym) in value.0 {
                if sym == Sym::Error {
                    errors.push(guard);
                } else {
                    kept.push((guard, sym));
                }
            }
            made.push((Arc::clone(key), Value(kept)));
        }
        let error = self.arena.or(errors);
        let fine = self.arena.not(error);
        Ok(self
            .arena
            .value([(fine, Sym::Map(Rc::from(made))), (error, Sym::Error)]))
    }

    /// The value of an expression that is not modelled: anything, but the same for the same arguments.
    pub(super) fn unknown(&mut self, name: &str, args: &[Sym], shape: Shape) -> Result<Value> {
        unknown(self.arena, name, args, shape)
    }

    fn binary(&mut self, operator: Operator, a: &Sym, b: &Sym) -> Result<Value> {
        if operator != Operator::Add && (made::is_made(a) || made::is_made(b)) {
            return unsupported("an operation on a made value");
        }
        match operator {
            Operator::Less => self.order(a, b, false, "<"),
            Operator::LessEquals => self.order(a, b, true, "<="),
            Operator::Greater => self.order(b, a, false, "<"),
            Operator::GreaterEquals => self.order(b, a, true, "<="),
            Operator::In => self.contains(a, b),
            Operator::Add => self.add(a, b),
            Operator::Subtract => self.subtract(a, b),
            Operator::Multiply => self.multiply(a, b),
            Operator::Divide => self.divide(a, b),
            Operator::Modulo => self.arithmetic("%", a, b, i64::checked_rem),
        }
    }

    fn arithmetic(&mut self, name: &str, a: &Sym, b: &Sym, apply: fn(i64, i64) -> Option<i64>) -> Result<Value> {
        match (a, b) {
            (Sym::Int(a), Sym::Int(b)) => Ok(apply(*a, *b).map_or(Value::error(), |n| Value::of(Sym::Int(n)))),
            _ => self.unknown(name, &[a.clone(), b.clone()], Shape::any()),
        }
    }
}

impl Reader<'_, '_> {
    fn multiply(&mut self, a: &Sym, b: &Sym) -> Result<Value> {
        let steps = match (a, b) {
            (Sym::At(first), Sym::At(second)) if first == second && self.is_within(*first, 1 << 31) => {
                Some((*first, Steps::Square))
            }
            (Sym::At(place), Sym::Int(factor)) | (Sym::Int(factor), Sym::At(place))
                if *factor != 0 && factor.unsigned_abs() < 1 << 30 && self.is_within(*place, 1 << 32) =>
            {
                Some((*place, Steps::Times(*factor)))
            }
            _ => None,
        };
        match steps {
            Some((place, steps)) => Ok(Value::of(Sym::Steps(place, steps))),
            None => self.arithmetic("*", a, b, i64::checked_mul),
        }
    }

    fn divide(&mut self, a: &Sym, b: &Sym) -> Result<Value> {
        match (a, b) {
            (Sym::At(place), Sym::Int(divisor))
                if (1..1 << 30).contains(divisor) && self.is_within(*place, 1 << 32) =>
            {
                Ok(Value::of(Sym::Steps(*place, Steps::Over(*divisor))))
            }
            _ => self.arithmetic("/", a, b, i64::checked_div),
        }
    }
}

pub(super) fn unknown(arena: &mut Arena, name: &str, args: &[Sym], shape: Shape) -> Result<Value> {
    let mut places = Vec::new();
    let mut text = name.to_owned();
    for arg in args {
        text.push(' ');
        text.push_str(&describe(arg, &mut places)?);
    }
    let Some(found) = arena.term(&text, &places, shape) else {
        return unsupported(format!("`{name}` of elements of two lists"));
    };
    let failure = Shape::of(Kind::Bool, super::shape::Inner::Unknown);
    let Some(failure) = arena.term(&format!("error of {text}"), &places, failure) else {
        return unsupported(format!("`{name}` of elements of two lists"));
    };
    let error = arena.is_true(failure);
    let fine = arena.not(error);
    Ok(arena.value([(fine, Sym::At(found)), (error, Sym::Error)]))
}

/// A value as an argument of an unknown function: its text, and the places that it reads.
fn describe(sym: &Sym, places: &mut Vec<Place>) -> Result<String> {
    Ok(match sym {
        Sym::Null => "null".to_owned(),
        Sym::Bool(truth) if *truth == Formula::TRUE => "true".to_owned(),
        Sym::Bool(truth) if *truth == Formula::FALSE => "false".to_owned(),
        Sym::Int(number) => format!("{number}"),
        Sym::Uint(number) => format!("{number}u"),
        Sym::Double(number) => format!("{number:?}"),
        Sym::Text(text) => format!("{text:?}"),
        Sym::Constant(text) => text.to_string(),
        Sym::At(place) => {
            places.push(*place);
            "$".to_owned()
        }
        Sym::Plus(place, number) => {
            places.push(*place);
            format!("$+{number}")
        }
        Sym::Minus(a, b) => {
            places.extend([*a, *b]);
            "$-$".to_owned()
        }
        Sym::Words(place, words) => {
            places.push(*place);
            format!("{words:?}$")
        }
        Sym::Length(measure) => {
            places.push(measure.place);
            match &measure.replaced {
                Some((old, new)) => format!("length {old:?}->{new:?} $+{}", measure.plus),
                None if measure.plus == 0 => "length $".to_owned(),
                None => format!("length $+{}", measure.plus),
            }
        }
        Sym::Offset(position) => {
            places.push(position.place);
            format!("{:?} {:?} {}", position.words, position.needle, position.last)
        }
        Sym::Quantity(super::value::Sized::At(place)) => {
            places.push(*place);
            "quantity $".to_owned()
        }
        Sym::Quantity(super::value::Sized::Constant(amount)) => format!("quantity {}", amount.0),
        Sym::Quantity(super::value::Sized::Sum(amount, place, minus)) => {
            places.push(*place);
            format!("quantity {}{}$", amount.0, if *minus { "-" } else { "+" })
        }
        Sym::Moment(moment) => {
            places.extend(moment.at);
            let kind = if moment.duration { "duration" } else { "time" };
            let base = if moment.at.is_some() { "$" } else { "" };
            format!("{kind} {base}{:+}", moment.plus)
        }
        Sym::Steps(place, steps) => {
            places.push(*place);
            format!("{steps:?} $")
        }
        Sym::Optional(None) => "none".to_owned(),
        Sym::Optional(Some(inner)) => match inner.single() {
            Some(inner) => format!("some {}", describe(inner, places)?),
            None => return unsupported("an unknown function of an optional value"),
        },
        Sym::List(parts) | Sym::Size(parts) => {
            let mut text = "[".to_owned();
            for part in parts.iter() {
                match part {
                    Part::One(Formula::TRUE, value) => match value.single() {
                        Some(inner) => text.push_str(&describe(inner, places)?),
                        None => return unsupported("an unknown function of a list with conditions"),
                    },
                    part => match part.all_of() {
                        Some(list) => {
                            places.push(list);
                            text.push_str("*$");
                        }
                        None => return unsupported("an unknown function of a computed list"),
                    },
                }
                text.push(',');
            }
            text.push(']');
            if matches!(sym, Sym::Size(_)) {
                text.insert_str(0, "size ");
            }
            text
        }
        Sym::Bool(_) | Sym::Map(_) | Sym::Variables | Sym::Error => {
            return unsupported("an unknown function of a computed value");
        }
        Sym::Changed(_) | Sym::Position(..) | Sym::Pointer(_) => {
            return unsupported("an unknown function of a computed value");
        }
    })
}

pub(super) fn constant_value(constant: &Constant) -> Result<Value> {
    Ok(match constant {
        Constant::Plain(value) => Value::of(match value {
            Val::Null => Sym::Null,
            Val::Bool(truth) => Sym::Bool(Formula::of(*truth)),
            Val::Int(number) => Sym::Int(*number),
            Val::Uint(number) => Sym::Uint(*number),
            Val::Double(number) => Sym::Double(*number),
            Val::Duration(nanoseconds) => moment::span(*nanoseconds),
            Val::Timestamp(time) => {
                moment::timestamp(*time).unwrap_or_else(|| Sym::Constant(Arc::from(format!("timestamp {time}"))))
            }
            Val::Optional(None) => Sym::Optional(None),
            Val::Error(_) => Sym::Error,
            _ => return unsupported("a constant of a library's type"),
        }),
        Constant::Text(text) => Value::text(text),
        Constant::Bytes(bytes) => Value::of(Sym::Constant(Arc::from(format!("bytes {bytes:?}")))),
        Constant::Type(name) => Value::of(Sym::Constant(Arc::from(format!("type {name}")))),
        Constant::Document(document) => json_value(&document.root().to_serde())?,
        Constant::List(items) => {
            let items = items
                .iter()
                .map(|item| Ok(Part::One(Formula::TRUE, constant_value(item)?)))
                .collect::<Result<Vec<_>>>()?;
            Value::of(Sym::List(Rc::from(items)))
        }
        Constant::Map(_) => return unsupported("a map constant"),
    })
}

/// A JSON value as a constant.
pub(super) fn json_value(json: &serde_json::Value) -> Result<Value> {
    Ok(Value::of(match json {
        serde_json::Value::Null => Sym::Null,
        serde_json::Value::Bool(truth) => Sym::Bool(Formula::of(*truth)),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), _, _) => Sym::Int(number),
            (_, Some(number), _) => Sym::Uint(number),
            (_, _, Some(number)) => Sym::Double(number),
            _ => return unsupported("a number"),
        },
        serde_json::Value::String(text) => Sym::Text(Arc::from(text.as_str())),
        serde_json::Value::Array(items) => {
            let items = items
                .iter()
                .map(|item| Ok(Part::One(Formula::TRUE, json_value(item)?)))
                .collect::<Result<Vec<_>>>()?;
            Sym::List(Rc::from(items))
        }
        serde_json::Value::Object(entries) => {
            let entries = entries
                .iter()
                .map(|(key, value)| Ok((Arc::from(key.as_str()), json_value(value)?)))
                .collect::<Result<Vec<_>>>()?;
            Sym::Map(Rc::from(entries))
        }
    }))
}
