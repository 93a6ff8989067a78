//! Values of expressions about all requests at once: which value an expression has under which condition.

use std::rc::Rc;
use std::sync::Arc;

use kyvtest_go_compat::text::quantity::Quantity;

use super::{
    changed::{Changed, Piece},
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
    /// The number of characters of a text.
    Length(Measure),
    /// The position of a text within another one, -1 if it is not there.
    Offset(Rc<Offset>),
    /// The number of elements of a list.
    Size(Rc<[Part]>),
    List(Rc<[Part]>),
    /// A map with constant keys.
    Map(Rc<[(Arc<str>, Value)]>),
    /// A map that is made or changed, of which some entries may be absent.
    Changed(Rc<Changed>),
    /// The position of an element in its list, with the element.
    Position(Place, Rc<Value>),
    /// A text with positions in it.
    Pointer(Rc<[Piece]>),
    Optional(Option<Rc<Value>>),
    Variables,
    Quantity(Sized),
    Moment(Moment),
    /// Whole steps of a duration, or of a point in time.
    Steps(Place, Steps),
}

/// A duration or a point in time: an unknown one plus a constant, or the constant alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Moment {
    /// Whether it is a duration, in nanoseconds; otherwise a point in time, in half seconds since 1970.
    pub(super) duration: bool,
    pub(super) at: Option<Place>,
    pub(super) plus: i64,
}

/// The number of characters of a text of a document, or of one made from it, plus a constant.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measure {
    pub(super) place: Place,
    pub(super) plus: i64,
    /// The replacement of each occurrence of a character.
    pub(super) replaced: Option<(char, Arc<str>)>,
}

impl Measure {
    pub(super) fn of(place: Place) -> Self {
        Self {
            place,
            plus: 0,
            replaced: None,
        }
    }

    /// How many characters more each occurrence of the replaced character makes.
    pub(super) fn growth(&self) -> i64 {
        let characters = |text: &Arc<str>| i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        self.replaced.as_ref().map_or(0, |(_, new)| characters(new) - 1)
    }

    /// That the text has at least so many characters.
    pub(super) fn at_least(&self, count: i64) -> Predicate {
        let count = usize::try_from(count.saturating_sub(self.plus)).unwrap_or_default();
        match &self.replaced {
            Some((old, new)) if count > 0 => {
                Predicate::Replaced(*old, Arc::clone(new), Box::new(Predicate::Length(count)))
            }
            _ => Predicate::Length(count),
        }
    }
}

/// Where a constant begins in a text of a document, or in one made from it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Offset {
    pub(super) place: Place,
    pub(super) words: Words,
    /// Not empty.
    pub(super) needle: Arc<str>,
    /// Whether the last occurrence counts, and not the first one.
    pub(super) last: bool,
}

/// What steps are counted in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Steps {
    /// The square of an integer.
    Square,
    /// An integer multiplied by a constant, which is not 0.
    Times(i64),
    /// An integer divided by a positive constant.
    Over(i64),
    /// So many nanoseconds of a duration.
    Unit(i64),
    /// Calendar years of a point in time.
    Year,
}

/// How a value is read from a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conversion {
    Integer,
    Duration,
    Time,
}

/// A quantity.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Sized {
    Constant(Amount),
    At(Place),
    /// A constant plus a quantity of a document, or minus it.
    Sum(Amount, Place, bool),
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
    /// ASCII letters in lower case.
    Lower,
    /// ASCII letters in upper case.
    Upper,
    /// All letters in lower case, as Go has them.
    GoLower,
    /// All letters in upper case, as Go has them.
    GoUpper,
    Between(Arc<str>, Arc<str>),
    /// Another text in place of each occurrence of a character.
    Replaced(char, Arc<str>),
    /// The piece at a position between separators of one character.
    Piece(Arc<str>, u32),
    /// The characters from one position up to another, or to the end, of a text that has them.
    Slice(usize, Option<usize>),
    /// The text without white space at its ends.
    Trimmed,
    /// One step of making a regular expression of a text with wildcards.
    Wildcards(Wildcards),
}

/// How a text with wildcards becomes a regular expression, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wildcards {
    /// What regular expressions read otherwise is escaped, the wildcards aside.
    Escaped,
    /// `*` has become `.*`.
    Any,
    /// `?` has become `.`.
    One,
}

/// White space, as Go has it, at an end of a text.
const PADDED: &str = r"^[\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]|[\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]$";

impl Words {
    /// The predicate that the original text has if the result has the given one.
    pub(super) fn before(&self, predicate: Predicate) -> Result<Predicate> {
        self.0.iter().rev().try_fold(predicate, |inner, edit| {
            Ok(match edit {
                Edit::Lower => Predicate::Lower(Box::new(inner)),
                Edit::Upper => Predicate::Upper(Box::new(inner)),
                Edit::GoLower => Predicate::GoLower(Box::new(inner)),
                Edit::GoUpper => Predicate::GoUpper(Box::new(inner)),
                Edit::Between(before, after) => {
                    Predicate::Between(Arc::clone(before), Box::new(inner), Arc::clone(after))
                }
                Edit::Replaced(old, new) => Predicate::Replaced(*old, Arc::clone(new), Box::new(inner)),
                Edit::Piece(separator, position) => match separator.chars().next() {
                    Some(separator) => Predicate::Piece(separator, *position, Box::new(inner)),
                    None => return unsupported("pieces between no separators"),
                },
                Edit::Slice(from, to) => Predicate::Slice(*from, *to, Box::new(inner)),
                Edit::Trimmed => Predicate::Trimmed(Box::new(inner)),
                Edit::Wildcards(_) => return unsupported("a regular expression made from a text"),
            })
        })
    }

    /// The predicate of the texts that differ from the result; `None` if it is not modelled.
    pub(super) fn changed(&self) -> Option<Predicate> {
        let [edit] = self.0.as_slice() else { return None };
        let matches = |pattern: &str| Some(Predicate::Matches(Arc::from(pattern)));
        match edit {
            Edit::Lower => matches("[A-Z]"),
            Edit::Upper => matches("[a-z]"),
            Edit::Trimmed => matches(PADDED),
            Edit::Replaced(old, new) if **new != *old.to_string() => {
                Some(Predicate::Contains(Arc::from(old.to_string())))
            }
            _ => None,
        }
    }

    /// The number of characters of the text; `None` if that is not modelled.
    pub(super) fn measure(&self, place: Place) -> Option<Measure> {
        let mut measure = Measure::of(place);
        for edit in &self.0 {
            match edit {
                Edit::Lower | Edit::Upper if measure.replaced.is_none() => {}
                Edit::Between(before, after) => {
                    let added = before.chars().count() + after.chars().count();
                    measure.plus += i64::try_from(added).ok()?;
                }
                Edit::Replaced(old, new) if self.0.len() == 1 => {
                    measure.replaced = Some((*old, Arc::clone(new)));
                }
                _ => return None,
            }
        }
        Some(measure)
    }

    /// The text whose wildcards became a regular expression that is anchored at both ends.
    pub(super) fn wildcards(&self) -> Option<Self> {
        use Wildcards::{Any, Escaped, One};
        let made = [Escaped, Any, One].map(Edit::Wildcards);
        let anchored = Edit::Between(Arc::from("(?s)^"), Arc::from("$"));
        let rest = self.0.strip_suffix([anchored].as_slice())?;
        let rest = rest.strip_suffix(made.as_slice())?;
        Some(Self(rest.to_vec()))
    }

    pub(super) fn then(&self, edit: Edit) -> Self {
        let mut edits = self.0.clone();
        match (edits.last_mut(), edit) {
            // However a text is put together, it is one edit.
            (Some(Edit::Between(before, after)), Edit::Between(further, beyond)) => {
                *before = Arc::from(format!("{further}{before}"));
                *after = Arc::from(format!("{after}{beyond}"));
            }
            (_, Edit::Between(before, after)) if before.is_empty() && after.is_empty() => {}
            (_, edit) => edits.push(edit),
        }
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
        /// Lists with their elements whose elements' lists these are, outermost first; mostly none.
        outer: Rc<[(Place, Place)]>,
        list: Place,
        bound: Place,
        keep: Formula,
        value: Value,
    },
}

impl Part {
    /// The elements of a list.
    pub(super) fn each(list: Place, bound: Place) -> Self {
        Self::Each {
            outer: Rc::from([]),
            list,
            bound,
            keep: Formula::TRUE,
            value: Value::of(Sym::At(bound)),
        }
    }

    /// One element made from each element of a list, whatever it is; `None` if some are left out or the list is one of several.
    pub(super) fn of_all(&self) -> Option<(Place, Place, &Value)> {
        match self {
            Self::Each {
                outer,
                list,
                bound,
                keep: Formula::TRUE,
                value,
            } if outer.is_empty() => Some((*list, *bound, value)),
            _ => None,
        }
    }

    /// The list whose elements these are, all of them and as they are.
    pub(super) fn all_of(&self) -> Option<Place> {
        let (list, bound, value) = self.of_all()?;
        (value.single() == Some(&Sym::At(bound))).then_some(list)
    }

    pub(super) fn value(&self) -> &Value {
        match self {
            Self::One(_, value) | Self::Each { value, .. } => value,
        }
    }

    pub(super) fn keep(&self) -> Formula {
        match self {
            Self::One(keep, _) | Self::Each { keep, .. } => *keep,
        }
    }

    /// The elements of lists that the part is about, outermost first.
    pub(super) fn bounds(&self) -> Vec<Place> {
        match self {
            Self::One(..) => Vec::new(),
            Self::Each { outer, bound, .. } => {
                let outer = outer.iter().map(|(_, bound)| *bound);
                outer.chain([*bound]).collect()
            }
        }
    }

    /// The part with other elements in place of its own.
    pub(super) fn with(&self, keep: Formula, value: Value) -> Self {
        match self {
            Self::One(..) => Self::One(keep, value),
            Self::Each { outer, list, bound, .. } => Self::Each {
                outer: Rc::clone(outer),
                list: *list,
                bound: *bound,
                keep,
                value,
            },
        }
    }

    /// What another part adds for each element of this one, if the formula holds.
    fn around(&self, keep: Formula, inner: &Self) -> Self {
        match (self, inner) {
            (_, Self::One(_, value)) => self.with(keep, value.clone()),
            (Self::One(..), _) => inner.with(keep, inner.value().clone()),
            (
                Self::Each { outer, list, bound, .. },
                Self::Each {
                    outer: between,
                    list: inner_list,
                    bound: inner_bound,
                    value,
                    ..
                },
            ) => {
                let outer = outer.iter().copied().chain([(*list, *bound)]);
                Self::Each {
                    outer: outer.chain(between.iter().copied()).collect(),
                    list: *inner_list,
                    bound: *inner_bound,
                    keep,
                    value: value.clone(),
                }
            }
        }
    }
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
        // Mostly one is the opposite of the other, whatever they are made of.
        let known = arena.reduced(known);
        arena.not(known)
    }

    pub(super) fn value(self, arena: &mut Arena) -> Value {
        let error = self.error(arena);
        let (yes, no) = (Sym::Bool(Formula::TRUE), Sym::Bool(Formula::FALSE));
        arena.value([(self.yes, yes), (self.no, no), (error, Sym::Error)])
    }
}

impl Arena {
    /// The elements of a list of a document, under a name that is not in use, or written out if their number is limited.
    pub(super) fn elements_of(&mut self, list: Place, bound: Place) -> Vec<Part> {
        let Some(limit) = self.limit() else {
            return vec![Part::each(list, bound)];
        };
        self.write_out(list);
        let bound = self.bound(list, 0).unwrap_or(bound);
        let mut parts = Vec::new();
        for position in 0..limit {
            let there = self.at_least(list, bound, Formula::TRUE, position + 1);
            parts.push(Part::One(there, Value::of(Sym::At(self.item(list, position)))));
        }
        parts
    }

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

    /// The value as a Boolean; any other value is an error.
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
            Part::Each {
                outer,
                list,
                bound,
                keep,
                ..
            } => {
                let body = self.and([*keep, *body]);
                let chain: Vec<(Place, Place)> = outer.iter().copied().chain([(*list, *bound)]).collect();
                let mut ways = Vec::new();
                for own in 0..=count {
                    let here = self.count_within(&chain, body, own);
                    let others = self.count(rest, count - own);
                    ways.push(self.and([here, others]));
                }
                self.or(ways)
            }
        }
    }

    /// At least `count` elements of lists within lists have a property. So it is if and only if, for some partition of the
    /// number, the number of outer elements with at least that many inner ones is the number of parts of at least that size.
    fn count_within(&mut self, chain: &[(Place, Place)], body: Formula, count: u32) -> Formula {
        let Some(((list, bound), inner)) = chain.split_first() else {
            return Formula::FALSE;
        };
        if inner.is_empty() || count == 0 {
            return self.at_least(*list, *bound, body, count);
        }
        let mut ways = Vec::new();
        for partition in partitions(count, count) {
            let mut all = Vec::new();
            for size in 1..=partition.first().copied().unwrap_or_default() {
                let within = self.count_within(inner, body, size);
                let parts = partition.iter().filter(|part| **part >= size).count();
                let parts = u32::try_from(parts).unwrap_or(u32::MAX);
                all.push(self.at_least(*list, *bound, within, parts));
            }
            ways.push(self.and(all));
        }
        self.or(ways)
    }

    /// A list in which the elements that are lists give way to their elements. `fresh` names the element of a list.
    pub(super) fn flatten(
        &mut self,
        parts: &[Part],
        mut fresh: impl FnMut(&mut Self, Place) -> Result<Place>,
    ) -> Result<Vec<Part>> {
        let mut flat = Vec::new();
        for part in parts {
            let mut rest = Vec::new();
            let mut kept = Vec::new();
            for (guard, sym) in &part.value().0 {
                let keep = self.and([part.keep(), *guard]);
                let inner = match sym {
                    Sym::List(inner) => inner.to_vec(),
                    Sym::At(place) if self.shape(*place).kinds.has(super::shape::Kind::List) => {
                        let is_list = self.is_kind(*place, super::shape::Kind::List);
                        let other = self.not(is_list);
                        let other = self.and([*guard, other]);
                        if other != Formula::FALSE {
                            rest.push((other, sym.clone()));
                            kept.push(other);
                        }
                        let bound = fresh(self, *place)?;
                        vec![Part::each(*place, bound).with(is_list, Value::of(Sym::At(bound)))]
                    }
                    sym => {
                        rest.push((*guard, sym.clone()));
                        kept.push(*guard);
                        continue;
                    }
                };
                for one in &inner {
                    let keep = self.and([keep, one.keep()]);
                    flat.push(part.around(keep, one));
                }
            }
            if !rest.is_empty() {
                let kept = self.or(kept);
                let keep = self.and([part.keep(), kept]);
                flat.push(part.with(keep, Value(rest)));
            }
        }
        Ok(flat)
    }
}

/// All ways to write a number as a sum of numbers up to a limit, the largest first.
fn partitions(number: u32, limit: u32) -> Vec<Vec<u32>> {
    if number == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for first in (1..=number.min(limit)).rev() {
        for rest in partitions(number - first, first) {
            all.push([first].into_iter().chain(rest).collect());
        }
    }
    all
}
