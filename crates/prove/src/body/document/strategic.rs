//! Strategic merges: patches whose anchors have become conditions.
//!
//! Upstream counterpart: kyaml's `merge2`, by way of `kyvtest_patch::strategic`: a null removes a field, a map without anything in
//! it is not a patch, elements that are patched come first in lists with a key.
//!
//! Known limits: lists with several keys, lists of which elements may have the same name, `$patch`.

use std::{rc::Rc, sync::Arc};

use kyvtest_patch::strategic::merge_keys;

use super::{
    super::{
        changed::{Changed, Entry},
        formula::{Arena, Formula, Place},
        shape::Kind,
        value::{Part, Result, Sym, Value, unsupported},
    },
    Errors, Patched, each_case,
    structured::{has_key, on, unique},
};

/// A patch.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::body) enum Patch {
    Scalar(Value),
    Null,
    /// Keys, each with the condition on which it is part of the patch.
    Map(Vec<(Arc<str>, Formula, Patch)>),
    List(Vec<Patch>),
    Elements(Box<Element>),
}

/// A patch for elements of a list that are there.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::body) struct Element {
    /// That the list is there.
    pub(in crate::body) present: Formula,
    pub(in crate::body) list: Place,
    pub(in crate::body) bound: Place,
    /// Which elements are patched.
    pub(in crate::body) applies: Formula,
    /// Whether it is the element of a loop that names the element of the patch.
    pub(in crate::body) of_loop: bool,
    pub(in crate::body) patch: Patch,
}

impl Patch {
    /// That something of the patch is left once its anchors are resolved.
    fn is_left(&self, arena: &mut Arena) -> Formula {
        match self {
            Self::Scalar(_) | Self::Null | Self::List(_) => Formula::TRUE,
            Self::Map(entries) => {
                let mut ways = Vec::new();
                for (_, active, patch) in entries {
                    let left = patch.is_left(arena);
                    ways.push(arena.and([*active, left]));
                }
                arena.or(ways)
            }
            Self::Elements(element) => {
                let left = element.patch.is_left(arena);
                let patched = arena.and([element.applies, left]);
                let some = arena.at_least(element.list, element.bound, patched, 1);
                arena.and([element.present, some])
            }
        }
    }
}

/// Merges a patch into an object of a kind.
pub(in crate::body) fn merge(
    arena: &mut Arena,
    object: &Value,
    patch: &Patch,
    (api_version, kind): (&str, &str),
) -> Result<Patched> {
    let mut merge = Merge {
        arena,
        api_version,
        kind,
        path: Vec::new(),
        errors: Errors(Vec::new()),
    };
    let merged = merge.entry(&Entry::of(object.clone()), patch, Formula::TRUE)?;
    let error = merge.arena.or(merge.errors.0);
    Ok(Patched {
        object: merged.value,
        error,
    })
}

struct Merge<'a> {
    arena: &'a mut Arena,
    api_version: &'a str,
    kind: &'a str,
    /// The path; `*` is an element of a list.
    path: Vec<Arc<str>>,
    errors: Errors,
}

impl Merge<'_> {
    fn entry(&mut self, target: &Entry, patch: &Patch, guard: Formula) -> Result<Entry> {
        match patch {
            Patch::Null => Ok(Entry::absent()),
            Patch::Scalar(value) => {
                self.only(
                    target,
                    guard,
                    |kind| !matches!(kind, Kind::List | Kind::Map),
                    "a value in place of a map or list",
                )?;
                // A variable that is null removes the field.
                let nulls = value.0.iter().filter(|(_, sym)| *sym == Sym::Null);
                let null = self.arena.or(nulls.map(|(guard, _)| *guard));
                Ok(Entry {
                    present: self.arena.not(null),
                    value: value.clone(),
                })
            }
            Patch::Map(entries) => self.map(target, entries, patch, guard),
            Patch::List(items) => {
                self.only(
                    target,
                    guard,
                    |kind| matches!(kind, Kind::List | Kind::Null),
                    "a list in place of something else",
                )?;
                self.list(target, items, guard)
            }
            Patch::Elements(element) => self.elements(target, element, guard),
        }
    }

    /// Refuses values of other kinds than the patch expects, which are errors.
    fn only(&mut self, target: &Entry, guard: Formula, fits: impl Fn(Kind) -> bool, what: &str) -> Result<()> {
        for (own, kind, sym) in self.arena.by_kind(&target.value) {
            let here = self.arena.and([guard, target.present, own]);
            let kind = kind.unwrap_or(match sym {
                Sym::List(_) => Kind::List,
                Sym::Map(_) | Sym::Changed(_) => Kind::Map,
                Sym::Null => Kind::Null,
                _ => Kind::Text,
            });
            if here != Formula::FALSE && !fits(kind) {
                return unsupported(what);
            }
        }
        Ok(())
    }

    fn map(
        &mut self,
        target: &Entry,
        entries: &[(Arc<str>, Formula, Patch)],
        patch: &Patch,
        guard: Formula,
    ) -> Result<Entry> {
        let left = patch.is_left(self.arena);
        if left == Formula::FALSE {
            return Ok(target.clone());
        }
        self.only(
            target,
            guard,
            |kind| matches!(kind, Kind::Map | Kind::Null),
            "a map in place of something else",
        )?;
        let cases = self.arena.by_kind(&target.value);
        let kinds: Vec<Option<Kind>> = cases.iter().map(|(_, kind, _)| *kind).collect();
        let split = Entry {
            present: target.present,
            value: Value(cases.into_iter().map(|(guard, _, sym)| (guard, sym)).collect()),
        };
        let made = self.merged_map(&Changed::default(), entries, guard)?;
        let (api_version, kind, path) = (self.api_version, self.kind, self.path.clone());
        let mut errors = std::mem::replace(&mut self.errors, Errors(Vec::new()));
        let present = each_case(self.arena, &split, guard, |arena, at, sym, within| {
            let base = match (kinds[at], sym) {
                (Some(Kind::Null), _) | (None, Sym::Null) => return Ok(made.clone()),
                (Some(Kind::Map), Sym::At(place)) => Changed {
                    base: Some(*place),
                    ..Changed::default()
                },
                _ => match arena.as_changed(sym) {
                    Some(changed) => changed,
                    None => return unsupported("a map in place of something else"),
                },
            };
            let mut inner = Merge {
                arena,
                api_version,
                kind,
                path: path.clone(),
                errors: Errors(Vec::new()),
            };
            let merged = inner.merged_map(&base, entries, within)?;
            errors.0.append(&mut inner.errors.0);
            Ok(merged)
        })?;
        self.errors = errors;
        // What was absent is made if there is something in it. What was there stays as it is if there is nothing.
        let absent = self.arena.not(target.present);
        let made = self.arena.either_entry(left, &made, &Entry::absent());
        Ok(self.arena.either_entry(absent, &made, &present))
    }

    fn merged_map(&mut self, base: &Changed, entries: &[(Arc<str>, Formula, Patch)], guard: Formula) -> Result<Entry> {
        let mut map = base.clone();
        for (key, active, patch) in entries {
            let before = self
                .arena
                .entry_of(&Sym::Changed(Rc::new(base.clone())), key)
                .unwrap_or_else(Entry::absent);
            let left = patch.is_left(self.arena);
            let patched = self.arena.and([*active, left]);
            let within = self.arena.and([guard, patched]);
            if within == Formula::FALSE {
                continue;
            }
            self.path.push(Arc::clone(key));
            // What is added where it is missing is merged with nothing.
            let there = self.arena.and([patched, before.present]);
            let merged_with = if there == Formula::FALSE {
                Entry::absent()
            } else {
                before.clone()
            };
            let after = self.entry(&merged_with, patch, within)?;
            self.path.pop();
            let after = self.arena.either_entry(*active, &after, &before);
            map.set(key, after);
        }
        Ok(Entry::of(Value::of(Sym::Changed(Rc::new(map)))))
    }

    /// The keys by which the list is merged; `None` if it is replaced.
    fn keys(&self) -> Option<Vec<&'static str>> {
        let path: Vec<&str> = self.path.iter().map(|step| &**step).collect();
        merge_keys(self.api_version, self.kind, &path)
    }

    /// A list of elements that are written out.
    fn list(&mut self, target: &Entry, items: &[Patch], guard: Formula) -> Result<Entry> {
        self.path.push(Arc::from("*"));
        let mut made = Vec::new();
        for item in items {
            let entry = self.entry(&Entry::absent(), item, guard)?;
            if entry.present != Formula::TRUE {
                return unsupported("an element of a list that may be missing");
            }
            made.push(entry.value);
        }
        self.path.pop();
        let whole = |made: &[Value]| {
            let parts = made.iter().map(|value| Part::One(Formula::TRUE, value.clone()));
            Entry::of(Value::of(Sym::List(parts.collect())))
        };
        let keys = self
            .keys()
            .filter(|_| target.present != Formula::FALSE || made.len() > 1);
        let Some(keys) = keys else {
            return Ok(whole(&made));
        };
        let [key] = keys[..] else {
            return unsupported("a strategic merge of a list with several keys, or of scalars");
        };
        let mut names: Vec<Arc<str>> = Vec::new();
        for value in &made {
            let name = match value.single().and_then(|sym| self.arena.entry_of(sym, key)) {
                Some(entry) if entry.present == Formula::TRUE => entry.value,
                _ => return unsupported("an element without the key of its list"),
            };
            match name.single() {
                Some(Sym::Text(name)) if !name.is_empty() && !names.contains(name) => names.push(Arc::clone(name)),
                _ => return unsupported("an element without a constant key of its own"),
            }
        }
        if target.present == Formula::FALSE {
            return Ok(whole(&made));
        }
        let merged = self.named(target, key, (items, &made, &names), guard)?;
        let absent = self.arena.not(target.present);
        Ok(self.arena.either_entry(absent, &whole(&made), &merged))
    }

    /// Elements with names merged into a list: first these, then all others.
    fn named(
        &mut self,
        target: &Entry,
        key: &str,
        (items, made, names): (&[Patch], &[Value], &[Arc<str>]),
        guard: Formula,
    ) -> Result<Entry> {
        let Some(sym) = target.value.single() else {
            return unsupported("a list that differs from case to case");
        };
        let Some(parts) = self.arena.parts_of(sym) else {
            return unsupported("a list that may be something else");
        };
        let [part] = parts.as_slice() else {
            return unsupported("a list that has changed");
        };
        let Some((list, bound, value)) = part.of_all() else {
            return unsupported("a list that has changed");
        };
        if !unique(self.arena, list, key) {
            return unsupported("a strategic merge of a list whose elements may have the same key");
        }
        let mut merged = Vec::new();
        let mut others = Vec::new();
        self.path.push(Arc::from("*"));
        for ((item, new), name) in items.iter().zip(made).zip(names) {
            let is_named = has_key(self.arena, value, key, name)?;
            let outside = std::mem::replace(&mut self.errors, Errors(Vec::new()));
            let after = self.entry(&Entry::of(value.clone()), item, is_named)?;
            let inside = std::mem::replace(&mut self.errors, outside);
            self.errors.add_each(self.arena, (list, bound), guard, inside);
            merged.push(part.with(is_named, after.value));
            let some = self.arena.at_least(list, bound, is_named, 1);
            merged.push(Part::One(self.arena.not(some), new.clone()));
            others.push(self.arena.not(is_named));
        }
        self.path.pop();
        let other = self.arena.and(others);
        merged.push(part.with(other, value.clone()));
        Ok(Entry::of(Value::of(Sym::List(Rc::from(merged)))))
    }

    /// Elements that are there, patched.
    fn elements(&mut self, target: &Entry, element: &Element, guard: Formula) -> Result<Entry> {
        if self.keys().as_deref() != Some(&["name"][..]) {
            return unsupported("anchors in a list that is not merged by names");
        }
        if target.present == Formula::FALSE {
            return Ok(target.clone());
        }
        let (arena, list, bound) = (&mut *self.arena, element.list, element.bound);
        let Some(sym) = target.value.single() else {
            return unsupported("a list that differs from case to case");
        };
        let Some(parts) = arena.parts_of(sym) else {
            return unsupported("a list that may be something else");
        };
        let [part] = parts.as_slice() else {
            return unsupported("a list that has changed");
        };
        if part.of_all().is_none() || !unique(arena, list, "name") {
            return unsupported("a strategic merge of a list whose elements may have the same key");
        }
        let part = on(arena, part, list, bound)?;
        let left = element.patch.is_left(arena);
        let patched = arena.and([element.applies, left]);
        let before = Entry::of(part.value().clone());
        let outside = std::mem::replace(&mut self.errors, Errors(Vec::new()));
        self.path.push(Arc::from("*"));
        let after = self.entry(&before, &element.patch, patched)?;
        self.path.pop();
        let inside = std::mem::replace(&mut self.errors, outside);
        self.errors.add_each(self.arena, (list, bound), guard, inside);
        let others = self.arena.not(patched);
        if !self.arena.mentions(patched, bound) {
            // All of them or none.
            let value = self.arena.either(patched, &after.value, &before.value);
            let all = part.with(Formula::TRUE, value);
            return Ok(Entry {
                present: target.present,
                value: Value::of(Sym::List(Rc::from([all]))),
            });
        }
        let mut parts = vec![part.with(patched, after.value)];
        if others != Formula::FALSE {
            parts.push(part.with(others, before.value));
        }
        Ok(Entry {
            present: target.present,
            value: Value::of(Sym::List(Rc::from(parts))),
        })
    }
}
