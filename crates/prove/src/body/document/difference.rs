//! When two changed documents differ, as the API server decodes them.
//!
//! The formula may also hold where they do not: what cannot be compared counts as a difference, so that only its absence says
//! something.

use super::{
    super::{
        changed::{Changed, Entry},
        formula::{Arena, Formula, Place},
        shape::{Inner, Kind, Shape},
        text::Predicate,
        value::{Part, Result, Sym, Value, unsupported},
    },
    each_case,
};

/// How deep documents are compared.
const DEPTH: u32 = 60;

/// The condition under which two values of a shape differ at a path of keys.
pub(in crate::body) fn difference(
    arena: &mut Arena,
    [a, b]: [&Value; 2],
    shape: &Shape,
    path: &[&str],
) -> Result<Formula> {
    let (mut a, mut b) = (Entry::of(a.clone()), Entry::of(b.clone()));
    let (mut shape, mut drops) = (shape.clone(), false);
    for key in path {
        let below = |arena: &mut Arena, entry: &Entry| {
            each_case(arena, entry, Formula::TRUE, |arena, _, sym, _| {
                match arena.entry_of(sym, key) {
                    Some(entry) => Ok(entry),
                    None => unsupported("a difference below anything but a map"),
                }
            })
        };
        (a, b) = (below(arena, &a)?, below(arena, &b)?);
        (shape, drops) = match shape.field(key, false) {
            Some((below, _)) => {
                let drops = below.nonzero;
                (below, drops)
            }
            None => (Shape::any(), false),
        };
    }
    let mut comparison = Comparison {
        arena,
        depth: 0,
        guard: Formula::TRUE,
    };
    comparison.entries(&a, &b, &shape, drops)
}

struct Comparison<'a> {
    arena: &'a mut Arena,
    depth: u32,
    /// The condition under which values are compared.
    guard: Formula,
}

impl Comparison<'_> {
    /// `drops` says that the server leaves out a value that is empty.
    fn entries(&mut self, a: &Entry, b: &Entry, shape: &Shape, drops: bool) -> Result<Formula> {
        if a == b {
            return Ok(Formula::FALSE);
        }
        if self.depth > DEPTH {
            return Ok(Formula::TRUE);
        }
        self.depth += 1;
        let [first, second] = [a, b].map(|entry| {
            let empty = if drops {
                self.is_empty(&entry.value)
            } else {
                Formula::FALSE
            };
            let filled = self.arena.not(empty);
            self.arena.and([entry.present, filled])
        });
        let (not_first, not_second) = (self.arena.not(first), self.arena.not(second));
        let mut ways = vec![self.arena.and([first, not_second]), self.arena.and([not_first, second])];
        let both = self.arena.and([first, second]);
        for (own, left) in &a.value.0 {
            for (other, right) in &b.value.0 {
                let here = self.arena.and([both, *own, *other]);
                if here == Formula::FALSE {
                    continue;
                }
                let outer = self.guard;
                self.guard = self.arena.and([outer, here]);
                let differ = if self.guard == Formula::FALSE {
                    Formula::FALSE
                } else {
                    self.syms(left, right, shape)?
                };
                self.guard = outer;
                ways.push(self.arena.and([here, differ]));
            }
        }
        self.depth -= 1;
        Ok(self.arena.or(ways))
    }

    /// That a value is a list or a map without anything in it, or null. What is not known to be empty counts as filled.
    fn is_empty(&mut self, value: &Value) -> Formula {
        let mut ways = Vec::new();
        for (guard, sym) in &value.0 {
            let empty = match sym {
                Sym::Null => Formula::TRUE,
                Sym::List(parts) => {
                    let some: Vec<Formula> = parts.iter().map(|part| self.some(part)).collect();
                    let some = self.arena.or(some);
                    self.arena.not(some)
                }
                Sym::Map(entries) => Formula::of(entries.is_empty()),
                // Entries over those of a map: what a field of a document drops is not empty if it is there.
                Sym::Changed(changed) if changed.base.is_none() => {
                    let some: Vec<Formula> = changed.entries.iter().map(|(_, entry)| entry.present).collect();
                    let some = self.arena.or(some);
                    self.arena.not(some)
                }
                _ => Formula::FALSE,
            };
            ways.push(self.arena.and([*guard, empty]));
        }
        self.arena.or(ways)
    }

    /// That a part of a list has an element.
    fn some(&mut self, part: &Part) -> Formula {
        self.arena.count(&[(part, Formula::TRUE)], 1)
    }

    fn syms(&mut self, a: &Sym, b: &Sym, shape: &Shape) -> Result<Formula> {
        if a == b {
            return Ok(Formula::FALSE);
        }
        if let (Some(a), Some(b)) = (self.arena.as_changed(a), self.arena.as_changed(b)) {
            return self.maps(&a, &b, shape);
        }
        if let (Some(a), Some(b)) = (self.list_of(a), self.list_of(b)) {
            return self.lists(&a, &b, shape);
        }
        Ok(match (a, b) {
            (Sym::Bool(a), Sym::Bool(b)) => {
                let not = self.arena.not(*b);
                self.arena.choose(*a, not, *b)
            }
            (Sym::At(place), constant) | (constant, Sym::At(place)) => self.is_other(*place, constant),
            // Constants that are not the same.
            _ => Formula::TRUE,
        })
    }

    /// A list; a place counts if it can be nothing else.
    fn list_of(&mut self, sym: &Sym) -> Option<Vec<Part>> {
        if let Sym::At(place) = sym {
            let kinds = self.arena.shape(*place).kinds;
            if !kinds.is_single() || !kinds.has(Kind::List) {
                return None;
            }
        }
        self.arena.parts_of(sym)
    }

    /// That the value of a place is not a constant.
    fn is_other(&mut self, place: Place, constant: &Sym) -> Formula {
        let equal = match constant {
            Sym::Text(text) => {
                let is_text = self.arena.is_kind(place, Kind::Text);
                let equal = self.arena.text(place, Predicate::Is(text.clone()));
                self.arena.and([is_text, equal])
            }
            Sym::Bool(truth) => {
                let is_bool = self.arena.is_kind(place, Kind::Bool);
                let own = self.arena.is_true(place);
                let not = self.arena.not(*truth);
                let same = self.arena.choose(own, *truth, not);
                self.arena.and([is_bool, same])
            }
            Sym::Int(number) => {
                let is_int = self.arena.is_kind(place, Kind::Int);
                let most = self.arena.at_most(place, *number);
                let less = match number.checked_sub(1) {
                    Some(less) => self.arena.at_most(place, less),
                    None => Formula::FALSE,
                };
                let not = self.arena.not(less);
                self.arena.and([is_int, most, not])
            }
            Sym::Null => self.arena.is_kind(place, Kind::Null),
            _ => Formula::FALSE,
        };
        self.arena.not(equal)
    }

    fn maps(&mut self, a: &Changed, b: &Changed, shape: &Shape) -> Result<Formula> {
        let mut keys: Vec<&str> = a.entries.iter().chain(&b.entries).map(|(key, _)| &**key).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut ways = Vec::new();
        for key in &keys {
            let own = self.entry(a, key);
            let other = self.entry(b, key);
            let (below, drops) = match shape.field(key, false) {
                Some((below, _)) => {
                    let drops = below.nonzero;
                    (below, drops)
                }
                None => (Shape::any(), false),
            };
            ways.push(self.entries(&own, &other, &below, drops)?);
        }
        ways.push(match (a.base, b.base) {
            (None, None) => Formula::FALSE,
            (Some(a), Some(b)) if a == b => Formula::FALSE,
            (Some(base), None) | (None, Some(base)) => self.has_others(base, &keys),
            (Some(_), Some(_)) => Formula::TRUE,
        });
        Ok(self.arena.or(ways))
    }

    fn entry(&mut self, map: &Changed, key: &str) -> Entry {
        match (map.get(key), map.base) {
            (Some(entry), _) => entry.clone(),
            (None, Some(base)) => self.arena.entry_at(base, key),
            (None, None) => Entry::absent(),
        }
    }

    /// That a map of a document has other entries than these.
    fn has_others(&mut self, map: Place, keys: &[&str]) -> Formula {
        if let Inner::Struct(own) = self.arena.shape(map).inner.clone() {
            let mut ways = Vec::new();
            for name in own.fields().filter(|name| !keys.contains(name)) {
                if let Some(field) = self.arena.field(map, name) {
                    ways.push(self.arena.present(field));
                }
            }
            return self.arena.or(ways);
        }
        let Some(bound) = self.arena.bound(map, 0) else {
            return Formula::TRUE;
        };
        let Some(key) = self.arena.entry_key(bound) else {
            return Formula::TRUE;
        };
        let mut other = Vec::new();
        for own in keys {
            let is = self.arena.text(key, Predicate::Is((*own).into()));
            other.push(self.arena.not(is));
        }
        let other = self.arena.and(other);
        self.arena.at_least(map, bound, other, 1)
    }

    /// Lists are compared part by part: parts that do not correspond count as a difference.
    fn lists(&mut self, a: &[Part], b: &[Part], shape: &Shape) -> Result<Formula> {
        let [a, b] = [a, b].map(|parts| -> Vec<Part> {
            let mut kept = Vec::new();
            for part in parts {
                if self.arena.and([self.guard, part.keep()]) != Formula::FALSE {
                    kept.push(part.clone());
                }
            }
            kept
        });
        let item = shape.item();
        if a.len() != b.len() {
            let mut ways = Vec::new();
            for part in a.iter().chain(&b) {
                ways.push(self.some(part));
            }
            return Ok(self.arena.or(ways));
        }
        let mut ways = Vec::new();
        for (own, other) in a.iter().zip(&b) {
            let way = match (own, other) {
                (Part::One(first, left), Part::One(second, right)) => {
                    let entry = |present: Formula, value: &Value| Entry {
                        present,
                        value: value.clone(),
                    };
                    self.entries(&entry(*first, left), &entry(*second, right), &item, false)?
                }
                (
                    Part::Each {
                        outer,
                        list,
                        bound,
                        keep,
                        value,
                    },
                    Part::Each {
                        outer: around,
                        list: theirs,
                        ..
                    },
                ) if outer.is_empty() && around.is_empty() && list == theirs => {
                    let Some((other_keep, other_value)) = self.about(other, *bound) else {
                        return Ok(Formula::TRUE);
                    };
                    let own = Entry {
                        present: *keep,
                        value: value.clone(),
                    };
                    let other = Entry {
                        present: other_keep,
                        value: other_value,
                    };
                    let differ = self.entries(&own, &other, &item, false)?;
                    self.arena.at_least(*list, *bound, differ, 1)
                }
                _ => {
                    let (first, second) = (self.some(own), self.some(other));
                    self.arena.or([first, second])
                }
            };
            ways.push(way);
        }
        Ok(self.arena.or(ways))
    }

    /// A part about another name for the element.
    fn about(&mut self, part: &Part, wanted: Place) -> Option<(Formula, Value)> {
        let Part::Each { bound, keep, value, .. } = part else {
            return None;
        };
        if *bound == wanted {
            return Some((*keep, value.clone()));
        }
        if self.arena.mentions(*keep, wanted) {
            return None;
        }
        let keep = self.arena.substitute(*keep, *bound, wanted);
        let value = super::super::cel::substituted(self.arena, value, *bound, wanted);
        Some((keep, value))
    }
}
