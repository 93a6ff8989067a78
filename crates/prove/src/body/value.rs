//! Values of expressions about all requests at once: which value an expression has under which condition.

use std::rc::Rc;
use std::sync::Arc;

use kyvtest_go_compat::text::quantity::Quantity;

use super::{
    formula::{Amount, Arena, Formula, Place},
    text::Predicate,
};

/// How many cases one value may have.
const CASES: usize = 48;

/// Why an expression is not modelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unsupported(pub(super) String);

pub(super) type Result<T> = std::result::Result<T, Unsupported>;

pub(super) fn unsupported<T>(what: impl Into<String>) -> Result<T> {
    Err(Unsupported(what.into()))
}

/// A value in one case.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Sym {
    Error,
    Null,
    Bool(Formula),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Arc<str>),
    /// A value of a library's own type that is constant, by its expression.
    Constant(Arc<str>),
    /// A value of a document, which is there.
    At(Place),
    /// An integer of a document plus a constant.
    Plus(Place, i64),
    /// The difference of two integers of documents, which cannot overflow.
    Minus(Place, Place),
    /// A text made from a text of a document.
    Words(Place, Words),
    /// The number of characters of a text of a document.
    Length(Place),
    /// The number of elements of a list.
    Size(Rc<[Part]>),
    List(Rc<[Part]>),
    /// A map with constant keys.
    Map(Rc<[(Arc<str>, Value)]>),
    Optional(Option<Rc<Value>>),
    Variables,
    Quantity(Sized),
}

/// A quantity.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Sized {
    Constant(Amount),
    At(Place),
}

impl Sized {
    pub(super) fn constant(quantity: Quantity) -> Self {
        Self::Constant(Amount(quantity))
    }
}

/// How a text is made from another one, innermost first.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Words(pub(super) Vec<Edit>);

/// One change of a text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Edit {
    Lower,
    Upper,
    Between(Arc<str>, Arc<str>),
}

impl Words {
    /// The predicate that the original text has if the result has the given one.
    pub(super) fn before(&self, predicate: Predicate) -> Predicate {
        self.0.iter().rev().fold(predicate, |inner, edit| match edit {
            Edit::Lower => Predicate::Lower(Box::new(inner)),
            Edit::Upper => Predicate::Upper(Box::new(inner)),
            Edit::Between(before, after) => Predicate::Between(Arc::clone(before), Box::new(inner), Arc::clone(after)),
        })
    }

    pub(super) fn then(&self, edit: Edit) -> Self {
        let mut edits = self.0.clone();
        edits.push(edit);
        Self(edits)
    }
}

/// A part of a list.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Part {
    /// One element, if the formula holds.
    One(Formula, Value),
    /// For each element of a list of a document for which the formula holds, one element made from it.
    Each {
        list: Place,
        bound: Place,
        keep: Formula,
        value: Value,
    },
}

/// A value: its cases exclude each other and leave nothing out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Value(pub(super) Vec<(Formula, Sym)>);

impl Value {
    pub(super) fn of(sym: Sym) -> Self {
        Self(vec![(Formula::TRUE, sym)])
    }

    pub(super) fn text(text: &str) -> Self {
        Self::of(Sym::Text(Arc::from(text)))
    }

    pub(super) fn bool(value: bool) -> Self {
        Self::of(Sym::Bool(Formula::of(value)))
    }

    pub(super) fn error() -> Self {
        Self::of(Sym::Error)
    }

    /// The only case, if there is one.
    pub(super) fn single(&self) -> Option<&Sym> {
        match self.0.as_slice() {
            [(_, sym)] => Some(sym),
            _ => None,
        }
    }
}

/// Whether a Boolean expression is true, false, or neither, which is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Truth {
    pub(super) yes: Formula,
    pub(super) no: Formula,
}

impl Truth {
    pub(super) const YES: Self = Self {
        yes: Formula::TRUE,
        no: Formula::FALSE,
    };
    pub(super) const ERROR: Self = Self {
        yes: Formula::FALSE,
        no: Formula::FALSE,
    };

    pub(super) fn error(self, arena: &mut Arena) -> Formula {
        let known = arena.or([self.yes, self.no]);
        arena.not(known)
    }

    pub(super) fn value(self, arena: &mut Arena) -> Value {
        let known = arena.or([self.yes, self.no]);
        let error = arena.not(known);
        arena.value([(known, Sym::Bool(self.yes)), (error, Sym::Error)])
    }
}

impl Arena {
    /// A value of cases: impossible ones are dropped, equal ones merged.
    pub(super) fn value(&mut self, cases: impl IntoIterator<Item = (Formula, Sym)>) -> Value {
        let mut merged: Vec<(Formula, Sym)> = Vec::new();
        for (guard, sym) in cases {
            if guard == Formula::FALSE {
                continue;
            }
            if let Sym::Bool(truth) = sym
                && let Some((own, Sym::Bool(other))) =
                    merged.iter_mut().find(|(_, other)| matches!(other, Sym::Bool(_)))
            {
                // Both are the same value, true under either condition.
                let (first, second) = (self.and([*own, *other]), self.and([guard, truth]));
                *other = self.or([first, second]);
                *own = self.or([*own, guard]);
                continue;
            }
            match merged.iter_mut().find(|(_, other)| *other == sym) {
                Some((own, _)) => *own = self.or([*own, guard]),
                None => merged.push((guard, sym)),
            }
        }
        Value(merged)
    }

    /// Applies a function to each case.
    pub(super) fn each(
        &mut self,
        value: &Value,
        mut apply: impl FnMut(&mut Self, &Sym) -> Result<Value>,
    ) -> Result<Value> {
        let mut cases = Vec::new();
        for (guard, sym) in &value.0 {
            for (inner, sym) in apply(self, sym)?.0 {
                cases.push((self.and([*guard, inner]), sym));
            }
        }
        let merged = self.value(cases);
        if merged.0.len() > CASES {
            return unsupported("an expression has too many cases");
        }
        Ok(merged)
    }

    /// The value as a Boolean; what is no Boolean is an error.
    pub(super) fn truth(&mut self, value: &Value) -> Truth {
        let (mut yes, mut no) = (Vec::new(), Vec::new());
        for (guard, sym) in &value.0 {
            match sym {
                Sym::Bool(truth) => {
                    let not = self.not(*truth);
                    yes.push(self.and([*guard, *truth]));
                    no.push(self.and([*guard, not]));
                }
                Sym::At(place) => {
                    let is_bool = self.is_kind(*place, super::shape::Kind::Bool);
                    let truth = self.is_true(*place);
                    let not = self.not(truth);
                    yes.push(self.and([*guard, is_bool, truth]));
                    no.push(self.and([*guard, is_bool, not]));
                }
                _ => {}
            }
        }
        Truth {
            yes: self.or(yes),
            no: self.or(no),
        }
    }

    /// `a && b && …`: a false one decides, then an error.
    pub(super) fn all(&mut self, truths: &[Truth]) -> Truth {
        Truth {
            yes: self.and(truths.iter().map(|truth| truth.yes)),
            no: self.or(truths.iter().map(|truth| truth.no)),
        }
    }

    /// `a || b || …`
    pub(super) fn any(&mut self, truths: &[Truth]) -> Truth {
        Truth {
            yes: self.or(truths.iter().map(|truth| truth.yes)),
            no: self.and(truths.iter().map(|truth| truth.no)),
        }
    }

    /// At least `count` elements of a list have a property, which is given for each part.
    pub(super) fn count(&mut self, parts: &[(&Part, Formula)], count: u32) -> Formula {
        if count == 0 {
            return Formula::TRUE;
        }
        let Some(((part, body), rest)) = parts.split_first() else {
            return Formula::FALSE;
        };
        match part {
            Part::One(keep, _) => {
                let here = self.and([*keep, *body]);
                let not = self.not(here);
                let (with, without) = (self.count(rest, count - 1), self.count(rest, count));
                let (yes, no) = (self.and([here, with]), self.and([not, without]));
                self.or([yes, no])
            }
            Part::Each { list, bound, keep, .. } => {
                let body = self.and([*keep, *body]);
                let mut ways = Vec::new();
                for own in 0..=count {
                    let here = self.at_least(*list, *bound, body, own);
                    let others = self.count(rest, count - own);
                    ways.push(self.and([here, others]));
                }
                self.or(ways)
            }
        }
    }
}
