//! Apply configurations: typed objects of expressions, merged by the schema of the kind.
//!
//! Upstream counterpart: structured-merge-diff, by way of `kyvtest_patch::structured`. Lists with one key are merged if the
//! configuration has one element for each element of the list, or elements with constant keys.
//!
//! Known limits: sets, lists with several keys, values of unknown type.

use std::{rc::Rc, sync::Arc};

use kyvtest_go_compat::value::Value as Plain;
use kyvtest_patch::{
    strategic::merge_keys,
    structured::{Schema, Type},
};

use super::{
    super::{
        cel::substituted,
        changed::{Changed, Entry},
        formula::{Arena, Formula, Place, Step},
        shape::{Inner, Kind},
        text::Predicate,
        value::{Part, Result, Sym, Value, unsupported},
    },
    Errors, Patched, each_case,
};

/// What happens to lists and maps that are replaced as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::body) enum Atomics {
    Reject,
    Replace,
}

/// How deep schemas are followed.
const DEPTH: u32 = 40;

/// Merges an apply configuration into an object of a kind.
pub(in crate::body) fn apply(
    arena: &mut Arena,
    object: &Value,
    configuration: &Value,
    (api_version, kind): (&str, &str),
    atomics: Atomics,
) -> Result<Patched> {
    let Ok(ty) = Schema::builtin().kind(api_version, kind) else {
        return unsupported("an apply configuration for a kind without a schema");
    };
    let mut merge = Merge {
        arena,
        atomics,
        errors: Errors(Vec::new()),
    };
    let mut typed = Vec::new();
    for (guard, sym) in &configuration.0 {
        match sym {
            Sym::Changed(changed) if changed.type_name.is_some() => {
                let mut own = (**changed).clone();
                own.entries.retain(|(key, _)| !matches!(&**key, "apiVersion" | "kind"));
                typed.push((*guard, Sym::Changed(Rc::new(own))));
            }
            Sym::Error => merge.errors.0.push(*guard),
            _ => return unsupported("an apply configuration that may be no object"),
        }
    }
    let right = Entry {
        present: merge.arena.or(typed.iter().map(|(guard, _)| *guard)),
        value: Value(typed),
    };
    merge.unkeyed(ty, object)?;
    let merged = merge.entry(ty, &Entry::of(object.clone()), &right, Formula::TRUE)?;
    let error = merge.arena.or(merge.errors.0);
    Ok(Patched {
        object: merged.value,
        error,
    })
}

struct Merge<'a> {
    arena: &'a mut Arena,
    atomics: Atomics,
    errors: Errors,
}

impl Merge<'_> {
    /// Merges two values of a type. The errors are those under a condition.
    fn entry(&mut self, ty: Type<'_>, left: &Entry, right: &Entry, guard: Formula) -> Result<Entry> {
        if right.present == Formula::FALSE {
            return Ok(left.clone());
        }
        let guard = self.arena.and([guard, right.present]);
        let right_value = self.value(ty, &right.value, guard)?;
        let mut made = Vec::new();
        for (own, sym) in &right_value.0 {
            let within = self.arena.and([guard, *own]);
            if within != Formula::FALSE {
                made.push((*own, self.sym(ty, left, sym, within)?));
            }
        }
        // Nothing of the configuration leaves the value as it was.
        let mut merged = left.clone();
        for (own, entry) in made.into_iter().rev() {
            let here = self.arena.and([right.present, own]);
            merged = self.arena.either_entry(here, &entry, &merged);
        }
        Ok(merged)
    }

    /// A part of a configuration without the types of expressions, checked against the schema.
    fn value(&mut self, ty: Type<'_>, value: &Value, within: Formula) -> Result<Value> {
        let mut cases = Vec::new();
        for (guard, kind, sym) in self.arena.by_kind(value) {
            let here = self.arena.and([within, guard]);
            let sym = match sym {
                Sym::Changed(changed) => Sym::Changed(Rc::new(self.map(ty, &changed, here)?)),
                Sym::Map(_) => {
                    let Some(changed) = self.arena.as_changed(&sym) else {
                        return unsupported("a map");
                    };
                    Sym::Changed(Rc::new(self.map(ty, &changed, here)?))
                }
                Sym::List(parts) => Sym::List(self.list(ty, &parts, here)?),
                sym => {
                    fits(ty, kind, &sym)?;
                    sym
                }
            };
            cases.push((guard, sym));
        }
        Ok(self.arena.value(cases))
    }

    fn map(&mut self, ty: Type<'_>, map: &Changed, within: Formula) -> Result<Changed> {
        if map.base.is_some() {
            return unsupported("a map of the object in an apply configuration");
        }
        if ty.is_atomic() && self.atomics == Atomics::Reject {
            return unsupported("an apply configuration of an atomic map");
        }
        let mut made = Changed::default();
        for (key, entry) in &map.entries {
            let present = entry.present;
            let Some(below) = ty.field(key) else {
                // The schema does not have the field.
                self.errors.add(self.arena, [within, present]);
                continue;
            };
            let here = self.arena.and([within, present]);
            let value = self.value(below, &entry.value, here)?;
            made.set(key, Entry { present, value });
        }
        Ok(made)
    }

    fn list(&mut self, ty: Type<'_>, parts: &Rc<[Part]>, within: Formula) -> Result<Rc<[Part]>> {
        let Some(item) = ty.item() else {
            return unsupported("a list where the schema has none");
        };
        if ty.is_atomic() && self.atomics == Atomics::Reject {
            return unsupported("an apply configuration of an atomic list");
        }
        let is_single = matches!(&**parts, [Part::One(..)]);
        if !ty.is_atomic() && !is_single && ty.keys().len() != 1 {
            return unsupported("an apply configuration of a set, or of a list with several keys");
        }
        let mut made = Vec::new();
        for part in parts.iter() {
            let outside = std::mem::replace(&mut self.errors, Errors(Vec::new()));
            let value = self.value(item, part.value(), part.keep())?;
            let inside = std::mem::replace(&mut self.errors, outside);
            match part {
                Part::One(..) => {
                    let error = self.arena.or(inside.0);
                    self.errors.add(self.arena, [within, error]);
                }
                Part::Each { outer, list, bound, .. } if outer.is_empty() => {
                    self.errors.add_each(self.arena, (*list, *bound), within, inside);
                }
                Part::Each { .. } => return unsupported("an apply configuration of lists of lists"),
            }
            made.push(part.with(part.keep(), value));
        }
        Ok(Rc::from(made))
    }

    /// Merges a checked part of a configuration into a value.
    fn sym(&mut self, ty: Type<'_>, left: &Entry, right: &Sym, guard: Formula) -> Result<Entry> {
        let replaced = Entry::of(Value::of(right.clone()));
        match right {
            Sym::Changed(right) if !ty.is_atomic() => {
                let left = left.clone();
                let absent = self.arena.not(left.present);
                let merged = self.present_map(ty, &left, right, guard)?;
                Ok(self.arena.either_entry(absent, &replaced, &merged))
            }
            Sym::List(right) if !ty.is_atomic() => {
                if self.arena.and([guard, left.present]) == Formula::FALSE {
                    self.unique_constants(ty, right)?;
                    return Ok(replaced);
                }
                let absent = self.arena.not(left.present);
                // An empty list is null in the merged object, which the server leaves out like an empty one.
                let merged = self.present_list(ty, left, right, guard)?;
                self.unique_constants(ty, right)?;
                Ok(self.arena.either_entry(absent, &replaced, &merged))
            }
            _ => Ok(replaced),
        }
    }

    fn present_map(&mut self, ty: Type<'_>, left: &Entry, right: &Changed, guard: Formula) -> Result<Entry> {
        let own = self.arena.by_kind(&left.value);
        let left = Entry {
            present: left.present,
            value: Value(own.iter().map(|(guard, _, sym)| (*guard, sym.clone())).collect()),
        };
        let kinds: Vec<Option<Kind>> = own.iter().map(|(_, kind, _)| *kind).collect();
        let errors = std::mem::replace(&mut self.errors, Errors(Vec::new()));
        let atomics = self.atomics;
        let mut all = errors;
        let merged = each_case(self.arena, &left, guard, |arena, at, sym, within| {
            if kinds[at] == Some(Kind::Null) {
                return Ok(Entry::of(Value::of(Sym::Changed(Rc::new(right.clone())))));
            }
            let base = match sym {
                Sym::At(place) if kinds[at] == Some(Kind::Map) => Changed {
                    base: Some(*place),
                    ..Changed::default()
                },
                sym => match arena.as_changed(sym) {
                    Some(changed) => changed,
                    None => return unsupported("an apply configuration of a map in place of something else"),
                },
            };
            let mut inner = Merge {
                arena,
                atomics,
                errors: Errors(Vec::new()),
            };
            let mut made = base.clone();
            for (key, entry) in &right.entries {
                let Some(below) = ty.field(key) else {
                    return unsupported(format!("`{key}`, which the schema does not have"));
                };
                let before = inner
                    .arena
                    .entry_of(&Sym::Changed(Rc::new(base.clone())), key)
                    .unwrap_or_else(Entry::absent);
                let after = inner.entry(below, &before, entry, within)?;
                made.set(key, after);
            }
            all.0.append(&mut inner.errors.0);
            Ok(Entry::of(Value::of(Sym::Changed(Rc::new(made)))))
        })?;
        self.errors = all;
        Ok(merged)
    }

    fn present_list(&mut self, ty: Type<'_>, left: &Entry, right: &Rc<[Part]>, guard: Formula) -> Result<Entry> {
        let (atomics, mut all) = (self.atomics, std::mem::replace(&mut self.errors, Errors(Vec::new())));
        let merged = each_case(self.arena, left, guard, |arena, _, sym, within| {
            if let Sym::At(place) = sym {
                let kinds = arena.shape(*place).kinds;
                if !kinds.is_single() || !kinds.has(Kind::List) {
                    return unsupported("an apply configuration of a list in place of something else");
                }
            }
            let Some(parts) = arena.parts_of(sym) else {
                return unsupported("an apply configuration of a list in place of something else");
            };
            let mut inner = Merge {
                arena,
                atomics,
                errors: Errors(Vec::new()),
            };
            let made = inner.lists(ty, &parts, right, within)?;
            all.0.append(&mut inner.errors.0);
            Ok(Entry::of(Value::of(Sym::List(Rc::from(made)))))
        })?;
        self.errors = all;
        Ok(merged)
    }

    /// The list whose elements a part is made from, if their keys are different.
    fn named<'p>(&self, part: &'p Part, key: &str) -> Result<(Place, Place, &'p Value)> {
        match part.of_all() {
            Some(all) if unique(self.arena, all.0, key) => Ok(all),
            Some(_) => unsupported("an apply configuration for elements that may have the same name"),
            None => unsupported("an apply configuration of a list whose order is not modelled"),
        }
    }

    /// Merges each element of a list; its errors are those of some element.
    fn each_element(
        &mut self,
        item: Type<'_>,
        (list, bound, value): (Place, Place, &Value),
        right: &Entry,
        guard: Formula,
    ) -> Result<Value> {
        let outside = std::mem::replace(&mut self.errors, Errors(Vec::new()));
        let merged = self.entry(item, &Entry::of(value.clone()), right, Formula::TRUE)?;
        let inside = std::mem::replace(&mut self.errors, outside);
        self.errors.add_each(self.arena, (list, bound), guard, inside);
        Ok(merged.value)
    }

    /// Merges lists by their key.
    fn lists(&mut self, ty: Type<'_>, left: &[Part], right: &[Part], guard: Formula) -> Result<Vec<Part>> {
        let (Some(item), &[key]) = (ty.item(), ty.keys().as_slice()) else {
            return unsupported("an apply configuration of a list with several keys");
        };
        let right: Vec<&Part> = right.iter().filter(|part| part.keep() != Formula::FALSE).collect();
        match (left, right.as_slice()) {
            (_, []) => Ok(left.to_vec()),
            ([own], [theirs @ Part::Each { .. }]) if theirs.bounds().len() == 1 => {
                let (list, bound, value) = self.named(own, key)?;
                let theirs = on(self.arena, theirs, list, bound)?;
                let same_key = |sym: &Entry| sym.present == Formula::TRUE && sym.value.single().is_some();
                let given = key_of(self.arena, theirs.value(), key)?;
                let known = key_of(self.arena, value, key)?;
                if !same_key(&given) || given != known {
                    return unsupported("an apply configuration for elements with other names");
                }
                let right = Entry {
                    present: theirs.keep(),
                    value: theirs.value().clone(),
                };
                let merged = self.each_element(item, (list, bound, value), &right, guard)?;
                Ok(vec![own.with(Formula::TRUE, merged)])
            }
            ([own], [Part::One(Formula::TRUE, theirs)]) => {
                let (list, bound, value) = self.named(own, key)?;
                let named = constant_key(self.arena, theirs, key)?;
                let is_named = has_key(self.arena, value, key, &named)?;
                let right = Entry {
                    present: is_named,
                    value: theirs.clone(),
                };
                let merged = self.each_element(item, (list, bound, value), &right, guard)?;
                let some = self.arena.at_least(list, bound, is_named, 1);
                let none = self.arena.not(some);
                Ok(vec![own.with(Formula::TRUE, merged), Part::One(none, theirs.clone())])
            }
            _ => unsupported("an apply configuration of a list whose order is not modelled"),
        }
    }

    /// That the elements of a new list have different constant keys.
    fn unique_constants(&mut self, ty: Type<'_>, parts: &[Part]) -> Result<()> {
        if let [Part::One(_, value)] = parts {
            let mut all = ty.keys().into_iter();
            return all.try_for_each(|key| constant_key(self.arena, value, key).map(|_| ()));
        }
        let [key] = ty.keys()[..] else {
            return unsupported("an apply configuration of a list with several keys");
        };
        let mut seen: Vec<Arc<str>> = Vec::new();
        for part in parts {
            match part {
                Part::One(_, value) => {
                    let own = constant_key(self.arena, value, key)?;
                    if seen.contains(&own) {
                        return unsupported("an apply configuration with an element twice");
                    }
                    seen.push(own);
                }
                Part::Each { list, .. } if parts.len() == 1 && unique(self.arena, *list, key) => {}
                Part::Each { .. } => {
                    return unsupported("an apply configuration of elements that may have the same name");
                }
            }
        }
        Ok(())
    }

    /// Elements of the object that have none of the keys of their lists are an error of any merge.
    fn unkeyed(&mut self, ty: Type<'_>, object: &Value) -> Result<()> {
        let Some(changed) = object.single().and_then(|sym| self.arena.as_changed(sym)) else {
            return unsupported("an object that may be something else");
        };
        let Some(root) = changed.base else {
            return unsupported("an object that is made");
        };
        let found = without_keys(self.arena, ty, root, DEPTH)?;
        self.errors.0.push(found);
        Ok(())
    }
}

/// Lists whose elements have different keys, as validation requires: owner, field, key.
const UNIQUE: [(&str, &str, &str); 6] = [
    ("core.v1.PodSpec", "containers", "name"),
    ("core.v1.PodSpec", "initContainers", "name"),
    ("core.v1.PodSpec", "ephemeralContainers", "name"),
    ("core.v1.PodSpec", "volumes", "name"),
    ("core.v1.Container", "volumeMounts", "mountPath"),
    ("core.v1.EphemeralContainer", "volumeMounts", "mountPath"),
];

/// Whether the elements of a list have different keys: because validation requires it, or because a strategic merge goes through
/// the object, of which proofs assume that it changes nothing but what its patch names.
pub(in crate::body) fn unique(arena: &Arena, list: Place, key: &str) -> bool {
    let mut path: Vec<&str> = Vec::new();
    let mut at = list;
    while let Some(above) = arena.parent(at) {
        path.push(match arena.step(at) {
            Step::Field(name) => name,
            Step::Bound(_) | Step::Item(_) | Step::Some(_) => "*",
            _ => return false,
        });
        at = above;
    }
    // Objects that were stored earlier may be older than the requirement.
    if !matches!(arena.step(at), Step::Root(name) if &**name == "object") {
        return false;
    }
    path.reverse();
    let is_merged = |(version, kind): (&str, &str)| merge_keys(version, kind, &path).as_deref() == Some(&[key][..]);
    if arena.merged().is_some_and(is_merged) {
        return true;
    }
    let Some(Inner::Struct(owner)) = arena.parent(list).map(|owner| arena.shape(owner).inner.clone()) else {
        return false;
    };
    UNIQUE.iter().any(|(own, field, by)| {
        *own == owner.name() && *by == key && *arena.step(list) == Step::Field(Arc::from(*field))
    })
}

/// A part for the elements of a list under another name; an error if it is for another list.
pub(super) fn on(arena: &mut Arena, part: &Part, list: Place, wanted: Place) -> Result<Part> {
    let Part::Each {
        list: own,
        bound,
        keep,
        value,
        ..
    } = part
    else {
        return unsupported("a single element");
    };
    if *own != list {
        return unsupported("elements of another list");
    }
    if *bound == wanted {
        return Ok(part.clone());
    }
    if arena.mentions(*keep, wanted) {
        return unsupported("elements of two lists");
    }
    Ok(Part::Each {
        outer: Rc::from([]),
        list,
        bound: wanted,
        keep: arena.substitute(*keep, *bound, wanted),
        value: substituted(arena, value, *bound, wanted),
    })
}

/// The key of an element; one entry whatever the case.
fn key_of(arena: &mut Arena, element: &Value, key: &str) -> Result<Entry> {
    let mut found: Option<Entry> = None;
    for (_, sym) in &element.0 {
        let Some(entry) = arena.entry_of(sym, key) else {
            return unsupported("an element that may be no map");
        };
        match &found {
            Some(other) if *other != entry => return unsupported("an element whose key differs from case to case"),
            _ => found = Some(entry),
        }
    }
    Ok(found.unwrap_or_else(Entry::absent))
}

fn constant_key(arena: &mut Arena, element: &Value, key: &str) -> Result<Arc<str>> {
    let entry = key_of(arena, element, key)?;
    match entry.value.single() {
        Some(Sym::Text(text)) if entry.present == Formula::TRUE => Ok(Arc::clone(text)),
        _ => unsupported("an element whose key is not constant"),
    }
}

/// That an element has a key with a text.
pub(super) fn has_key(arena: &mut Arena, element: &Value, key: &str, text: &Arc<str>) -> Result<Formula> {
    let entry = key_of(arena, element, key)?;
    let Some(sym) = entry.value.single() else {
        return unsupported("an element whose key differs from case to case");
    };
    let is = match sym {
        Sym::At(place) => {
            let is_text = arena.is_kind(*place, Kind::Text);
            let equal = arena.text(*place, Predicate::Is(Arc::clone(text)));
            arena.and([is_text, equal])
        }
        Sym::Text(own) => Formula::of(own == text),
        _ => return unsupported("an element whose key is made"),
    };
    Ok(arena.and([entry.present, is]))
}

/// Whether a scalar fits a type, whatever its value.
fn fits(ty: Type<'_>, kind: Option<Kind>, sym: &Sym) -> Result<()> {
    let sample = match (kind, sym) {
        (Some(Kind::Text), _) | (_, Sym::Text(_) | Sym::Words(..)) => Plain::String("x"),
        (Some(Kind::Int), _) | (_, Sym::Int(_)) => Plain::Int(1),
        (Some(Kind::Bool), _) | (_, Sym::Bool(_)) => Plain::Bool(true),
        _ => return unsupported("a value of unknown type in an apply configuration"),
    };
    if ty.accepts(sample) {
        Ok(())
    } else {
        unsupported("a value of another type than the field in an apply configuration")
    }
}

/// That some element of a keyed list below a place has none of its keys.
fn without_keys(arena: &mut Arena, ty: Type<'_>, place: Place, depth: u32) -> Result<Formula> {
    if depth == 0 {
        return Ok(Formula::FALSE);
    }
    let mut ways = Vec::new();
    let keys = ty.keys();
    if let (true, Some(item)) = (ty.is_list(), ty.item()) {
        if ty.is_atomic() || !arena.shape(place).kinds.has(Kind::List) {
            return Ok(Formula::FALSE);
        }
        let Some(bound) = arena.bound(place, DEPTH) else {
            return Ok(Formula::FALSE);
        };
        if !keys.is_empty() && ty.default_keys().is_empty() {
            let mut absent = Vec::new();
            for key in &keys {
                let entry = arena.entry_at(bound, key);
                absent.push(arena.not(entry.present));
            }
            ways.push(arena.and(absent));
        }
        ways.push(without_keys(arena, item, bound, depth - 1)?);
        let any = arena.or(ways);
        return Ok(arena.at_least(place, bound, any, 1));
    }
    for (name, below) in ty.fields() {
        if !has_keyed_lists(below, depth) {
            continue;
        }
        if let Some(field) = arena.field(place, name) {
            let present = arena.present(field);
            let inner = without_keys(arena, below, field, depth - 1)?;
            ways.push(arena.and([present, inner]));
        }
    }
    Ok(arena.or(ways))
}

/// Whether lists of which elements may lack all keys are below a type.
fn has_keyed_lists(ty: Type<'_>, depth: u32) -> bool {
    if depth == 0 {
        return false;
    }
    match ty.item() {
        Some(item) if ty.is_list() => {
            !ty.is_atomic()
                && (!ty.keys().is_empty() && ty.default_keys().is_empty() || has_keyed_lists(item, depth - 1))
        }
        _ => ty.fields().any(|(_, below)| has_keyed_lists(below, depth - 1)),
    }
}
