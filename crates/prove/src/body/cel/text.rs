//! Functions on texts of documents: predicates, parts, positions and texts made from them.
//!
//! Upstream counterpart: cel-go `ext/strings.go` and `common/stdlib`, by way of `kyvtest_cel::library`.

use std::{rc::Rc, sync::Arc};

use kyvtest_go_compat::regex::quote_meta;

use super::{
    Reader,
    call::{single, text_shape},
    compare::boolean,
};
use crate::body::{
    formula::{Formula, Place},
    shape::{Inner, Kind, Shape},
    text::{Predicate, slice},
    value::{Edit, Offset, Part, Result, Sym, Truth, Value, Wildcards, Words, unsupported},
};
use crate::language::Base;

/// The largest position in a text that is modelled.
const POSITIONS: i64 = 256;

impl Reader<'_, '_> {
    /// `substring`, from one position up to another, or to the end; a text that is too short is an error.
    pub(super) fn substring(&mut self, sym: &Sym, from: i64, to: Option<i64>) -> Result<Value> {
        if from < 0 || to.is_some_and(|to| to < from) {
            return Ok(Value::error());
        }
        if to.unwrap_or(from) > POSITIONS {
            return unsupported("a part of a text far from its start");
        }
        let from = usize::try_from(from).unwrap_or_default();
        let to = to.map(|to| usize::try_from(to).unwrap_or_default());
        self.part(sym, from, to)
    }

    /// `charAt`: one character, or none at the very end.
    pub(super) fn character(&mut self, sym: &Sym, position: i64) -> Result<Value> {
        if position < 0 {
            return Ok(Value::error());
        }
        if position >= POSITIONS {
            return unsupported("a character far from the start of a text");
        }
        let from = usize::try_from(position).unwrap_or_default();
        let one = self.part(sym, from, Some(from + 1))?;
        let rest = self.part(sym, from, None)?;
        let mut cases = Vec::new();
        let mut short = Vec::new();
        for (guard, sym) in one.0 {
            match sym {
                Sym::Error => short.push(guard),
                sym => cases.push((guard, sym)),
            }
        }
        let short = self.arena.or(short);
        for (guard, sym) in rest.0 {
            let sym = match sym {
                Sym::Error => Sym::Error,
                _ => Sym::Text(Arc::from("")),
            };
            cases.push((self.arena.and([short, guard]), sym));
        }
        Ok(self.arena.value(cases))
    }

    /// The characters from one position up to another, or to the end; an error if the text is too short.
    fn part(&mut self, sym: &Sym, from: usize, to: Option<usize>) -> Result<Value> {
        if let Sym::Text(text) = sym {
            return Ok(slice(text, from, to).map_or_else(Value::error, |part| Value::text(&part)));
        }
        let long = self.tested(sym, Predicate::Length(to.unwrap_or(from)), "substring")?;
        let Truth { yes, .. } = self.arena.truth(&long);
        let short = self.arena.not(yes);
        let cut = self.edited(sym, Edit::Slice(from, to))?;
        let mut cases = vec![(short, Sym::Error)];
        for (guard, sym) in cut.0 {
            cases.push((self.arena.and([yes, guard]), sym));
        }
        Ok(self.arena.value(cases))
    }

    /// Whether a value can only be a text.
    pub(super) fn is_text_alone(&self, sym: &Sym) -> bool {
        match sym {
            Sym::Text(_) | Sym::Words(..) => true,
            Sym::At(place) => !self.arena.shape(*place).kinds.has(Kind::List),
            _ => false,
        }
    }

    /// That a text begins at a position or behind it: the first occurrence, or the last one.
    pub(super) fn begins_at_least(&mut self, position: &Offset, least: i64) -> Result<Formula> {
        if least < 0 {
            return Ok(Formula::TRUE);
        }
        if least > POSITIONS {
            return unsupported("a position far from the start of a text");
        }
        let needle = quote_meta(&position.needle);
        let mut has = |predicate: Predicate| -> Result<Formula> {
            let predicate = position.words.before(predicate)?;
            if !predicate.is_regular() {
                return unsupported("a position in a computed text");
            }
            Ok(self.arena.text(position.place, predicate))
        };
        if position.last {
            return has(Predicate::Matches(Arc::from(format!("(?s)^.{{{least},}}{needle}"))));
        }
        let anywhere = has(Predicate::Contains(Arc::clone(&position.needle)))?;
        if least == 0 {
            return Ok(anywhere);
        }
        let before = format!("(?s)^.{{0,{}}}{needle}", least - 1);
        let before = has(Predicate::Matches(Arc::from(before)))?;
        let not = self.arena.not(before);
        Ok(self.arena.and([anywhere, not]))
    }

    /// `indexOf` and `lastIndexOf` with a constant.
    pub(super) fn position_of(&mut self, sym: &Sym, needle: &Arc<str>, last: bool) -> Result<Value> {
        let (place, words) = match sym {
            Sym::Text(text) => {
                let found = if last {
                    text.rfind(&**needle)
                } else {
                    text.find(&**needle)
                };
                let characters = found.map(|at| text[..at].chars().count());
                let position = characters.and_then(|count| i64::try_from(count).ok()).unwrap_or(-1);
                return Ok(Value::of(Sym::Int(position)));
            }
            Sym::At(place) => (*place, Words::default()),
            Sym::Words(place, words) => (*place, words.clone()),
            Sym::Constant(_) | Sym::Variables => return unsupported("a position in a library's value"),
            _ => return Ok(Value::error()),
        };
        if needle.is_empty() {
            return unsupported("the position of an empty text");
        }
        let is_text = self.arena.is_kind(place, Kind::Text);
        let other = self.arena.not(is_text);
        let position = Offset {
            place,
            words,
            needle: Arc::clone(needle),
            last,
        };
        Ok(self
            .arena
            .value([(is_text, Sym::Offset(Rc::new(position))), (other, Sym::Error)]))
    }

    /// The steps by which a text with wildcards becomes a regular expression, and a constant that it is applied to.
    pub(super) fn regex_of_wildcards(&mut self, name: &str, args: &[Sym]) -> Result<Option<Value>> {
        let step = |place: &Place, words: &Words, step| {
            let words = words.then(Edit::Wildcards(step));
            Some(Value::of(Sym::Words(*place, words)))
        };
        let is = |sym: &Sym, text: &str| matches!(sym, Sym::Text(own) if &**own == text);
        let ends = |words: &Words, step| words.0.last() == Some(&Edit::Wildcards(step));
        Ok(match (name, args) {
            ("regex.replace", [text, pattern, with]) if is(pattern, SPECIAL) && is(with, r"\\\0") => {
                let (place, words) = match text {
                    Sym::At(place) => (*place, Words::default()),
                    Sym::Words(place, words) => (*place, words.clone()),
                    _ => return Ok(None),
                };
                let is_text = self.arena.is_kind(place, Kind::Text);
                let other = self.arena.not(is_text);
                let words = words.then(Edit::Wildcards(Wildcards::Escaped));
                Some(
                    self.arena
                        .value([(is_text, Sym::Words(place, words)), (other, Sym::Error)]),
                )
            }
            ("replace", [Sym::Words(place, words), old, new])
                if ends(words, Wildcards::Escaped) && is(old, "*") && is(new, ".*") =>
            {
                step(place, words, Wildcards::Any)
            }
            ("replace", [Sym::Words(place, words), old, new])
                if ends(words, Wildcards::Any) && is(old, "?") && is(new, ".") =>
            {
                step(place, words, Wildcards::One)
            }
            ("matches", [Sym::Text(text), Sym::Words(place, words)]) => match words.wildcards() {
                Some(words) => {
                    let predicate = words.before(Predicate::PatternOf(Arc::clone(text)))?;
                    Some(Value::of(Sym::Bool(self.arena.text(*place, predicate))))
                }
                None => None,
            },
            _ => None,
        })
    }

    /// Whether a text has a predicate; anything but a string is an error.
    pub(super) fn tested(&mut self, sym: &Sym, predicate: Predicate, name: &str) -> Result<Value> {
        let (place, words) = match sym {
            Sym::Text(text) => return Ok(Value::bool(predicate.holds(text))),
            Sym::At(place) => (*place, Words::default()),
            Sym::Words(place, words) => (*place, words.clone()),
            Sym::Constant(_) | Sym::Variables => return unsupported(format!("`{name}` of a library's value")),
            _ => return Ok(Value::error()),
        };
        let is_text = self.arena.is_kind(place, Kind::Text);
        if !predicate.is_regular() {
            let value = self.unknown(&format!("{name} {predicate:?}"), std::slice::from_ref(sym), boolean())?;
            let Truth { yes, .. } = self.arena.truth(&value);
            let not = self.arena.not(yes);
            let (yes, no) = (self.arena.and([is_text, yes]), self.arena.and([is_text, not]));
            return Ok(Truth { yes, no }.value(self.arena));
        }
        let holds = self.arena.text(place, words.before(predicate)?);
        let not = self.arena.not(holds);
        let (yes, no) = (self.arena.and([is_text, holds]), self.arena.and([is_text, not]));
        Ok(Truth { yes, no }.value(self.arena))
    }

    /// A relation of two texts of documents.
    pub(super) fn text_relation(&mut self, name: &str, a: &Sym, b: &Sym) -> Result<Value> {
        let mut texts = Vec::new();
        for sym in [a, b] {
            match sym {
                Sym::At(place) | Sym::Words(place, _) => texts.push(self.arena.is_kind(*place, Kind::Text)),
                Sym::Text(_) => {}
                Sym::Constant(_) | Sym::Variables => return unsupported(format!("`{name}` of a library's value")),
                _ => return Ok(Value::error()),
            }
        }
        let both = self.arena.and(texts);
        let value = self.unknown(name, &[a.clone(), b.clone()], boolean())?;
        let Truth { yes, .. } = self.arena.truth(&value);
        let not = self.arena.not(yes);
        let (yes, no) = (self.arena.and([both, yes]), self.arena.and([both, not]));
        Ok(Truth { yes, no }.value(self.arena))
    }

    pub(super) fn edited(&mut self, sym: &Sym, edit: Edit) -> Result<Value> {
        match sym {
            Sym::Text(text) => Ok(Value::text(&match edit {
                Edit::Lower => text.to_ascii_lowercase(),
                Edit::Upper => text.to_ascii_uppercase(),
                Edit::Replaced(old, new) => text.replace(old, &new),
                Edit::Trimmed => text.trim().to_owned(),
                _ => return unsupported("a text"),
            })),
            Sym::At(place) => {
                let is_text = self.arena.is_kind(*place, Kind::Text);
                let other = self.arena.not(is_text);
                let sym = Sym::Words(*place, Words(vec![edit]));
                Ok(self.arena.value([(is_text, sym), (other, Sym::Error)]))
            }
            Sym::Words(place, words) => Ok(Value::of(Sym::Words(*place, words.then(edit)))),
            Sym::Constant(_) | Sym::Variables => unsupported("a case of a library's value"),
            _ => Ok(Value::error()),
        }
    }

    /// The pieces of a text with another text between them.
    pub(super) fn joined(&mut self, list: Place, rest: &[Sym]) -> Result<Value> {
        let between = match rest {
            [] => Arc::from(""),
            [Sym::Text(text)] => Arc::clone(text),
            _ => return unsupported("`join` with a computed separator"),
        };
        match self.arena.split_of(list) {
            Some((text, separator)) if single(&separator).is_some() => {
                let old = single(&separator).unwrap_or_default();
                self.edited(&Sym::At(text), Edit::Replaced(old, between))
            }
            _ => unsupported("`join`"),
        }
    }

    /// `format` with one value that is a text, or an integer in plain digits.
    pub(super) fn formatted(&mut self, format: &str, values: &Rc<[Part]>, args: &[Sym]) -> Result<Value> {
        let plain = || {
            let (before, after) = format.split_once('%')?;
            let verb = after.chars().next().filter(|verb| matches!(verb, 's' | 'd'))?;
            let after = &after[1..];
            let [Part::One(Formula::TRUE, value)] = &**values else {
                return None;
            };
            (!after.contains('%')).then(|| (before, verb, after, value.clone()))
        };
        let Some((before, verb, after, value)) = plain() else {
            return self.unknown("format", args, Shape::of(Kind::Text, Inner::Text(Vec::new())));
        };
        self.each(&value, |reader, sym| {
            let is = |reader: &Self, place: &Place, kind: Kind| {
                let kinds = reader.arena.shape(*place).kinds;
                kinds.is_single() && kinds.has(kind)
            };
            let text = match (verb, sym) {
                (_, Sym::Int(number)) => Value::text(&number.to_string()),
                ('s', Sym::Text(text)) => Value::text(text),
                ('s', Sym::Words(..)) => Value::of(sym.clone()),
                ('s', Sym::At(place)) if is(reader, place, Kind::Text) => Value::of(sym.clone()),
                (_, Sym::At(place)) if is(reader, place, Kind::Int) => {
                    reader.unknown("string", std::slice::from_ref(sym), text_shape())?
                }
                _ => return reader.unknown("format", args, text_shape()),
            };
            let start = Sym::Text(Arc::from(before));
            let whole = reader.each(&text, |reader, text| reader.surrounded(&start, text))?;
            let end = Sym::Text(Arc::from(after));
            reader.each(&whole, |reader, text| reader.surrounded(text, &end))
        })
    }

    /// Two texts one after the other, of which one may be empty or an error.
    fn surrounded(&mut self, first: &Sym, second: &Sym) -> Result<Value> {
        let is_empty = |sym: &Sym| matches!(sym, Sym::Text(text) if text.is_empty());
        match (first, second) {
            (Sym::Error, _) | (_, Sym::Error) => Ok(Value::error()),
            _ if is_empty(first) => Ok(Value::of(second.clone())),
            _ if is_empty(second) => Ok(Value::of(first.clone())),
            _ => self.add(first, second),
        }
    }

    /// `matches` with an expression made from a text of letters, digits and `-`, which all stand for themselves.
    pub(super) fn matched(&mut self, text: &Sym, place: Place, words: &Words, args: &[Sym]) -> Result<Value> {
        let kinds = |place: Place| self.arena.shape(place).kinds;
        let is_text = match text {
            Sym::At(at) => kinds(*at).is_single() && kinds(*at).has(Kind::Text),
            text => matches!(text, Sym::Text(_)),
        };
        let plain = is_text && self.arena.shape(place).inner == Inner::Text(vec![Predicate::In(Base::DnsLabel)]);
        let parts = match words.0.as_slice() {
            [Edit::Between(before, after)] if plain => literal_around(before, after),
            [] if plain => literal_around("", ""),
            _ => None,
        };
        let Some((relation, before, after)) = parts else {
            return self.unknown("matches", args, boolean());
        };
        let words = Words::default().then(Edit::Between(Arc::from(before), Arc::from(after)));
        let part = if words.0.is_empty() {
            Sym::At(place)
        } else {
            Sym::Words(place, words)
        };
        if relation == "==" {
            let equal = self.equal(text, &part)?;
            return Ok(Value::of(Sym::Bool(equal)));
        }
        self.text_relation(relation, text, &part)
    }
}

/// The characters of texts with wildcards that regular expressions read otherwise.
const SPECIAL: &str = r"[\\.+^$()|{}\[\]]";

/// The relation of a text to the literal that an expression is, without its anchors; `None` if it is not a literal.
fn literal_around<'t>(before: &'t str, after: &'t str) -> Option<(&'static str, &'t str, &'t str)> {
    let (start, before) = before.strip_prefix('^').map_or((false, before), |rest| (true, rest));
    let (end, after) = after.strip_suffix('$').map_or((false, after), |rest| (true, rest));
    let plain = |text: &str| {
        text.chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_/:@ ,=".contains(c))
    };
    let relation = match (start, end) {
        (true, true) => "==",
        (true, false) => "startsWith",
        (false, true) => "endsWith",
        (false, false) => "contains",
    };
    (plain(before) && plain(after)).then_some((relation, before, after))
}
