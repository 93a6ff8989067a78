//! JSON patches whose paths are constant, but for the positions of the elements of one list.
//!
//! Upstream counterpart: the two versions of evanphx/json-patch, by way of `kyvtest_patch::json6902`: version 4 applies what
//! expressions return, version 5 creates missing parents, forgives the removal of what is missing, and replaces only what is there.
//!
//! Known limits: constant positions in lists, `move`, `copy` and `test`.

use std::{rc::Rc, sync::Arc};

use super::{
    super::{
        changed::{Changed, Entry, Piece},
        formula::{Arena, Formula, Place},
        shape::Kind,
        value::{Part, Result, Sym, Value, unsupported},
    },
    Errors, Patched, each_case,
    structured::on,
};

/// A step of a path.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::body) enum Step {
    /// A key, or `-`, with the text as it is written.
    Key(Arc<str>, Arc<str>),
    /// The position of the element of a list.
    Position(Place),
}

/// What an operation does with the value at its path.
#[derive(Debug, Clone, PartialEq)]
enum Action {
    Add(Value),
    Replace(Value),
    Remove,
}

/// An operation.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::body) struct Operation {
    action: Action,
    path: Vec<Step>,
}

impl Operation {
    pub(in crate::body) fn new(op: &str, path: Vec<Step>, value: Option<Value>) -> Result<Self> {
        let Some(value) = value.or_else(|| (op == "remove").then(|| Value(Vec::new()))) else {
            return unsupported("an operation without a value");
        };
        let action = match op {
            "add" => Action::Add(value),
            "replace" => Action::Replace(value),
            "remove" => Action::Remove,
            _ => return unsupported(format!("the operation `{op}`")),
        };
        Ok(Self { action, path })
    }
}

/// Reads the steps of a path.
pub(in crate::body) fn pointer(pieces: &[Piece]) -> Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    let mut open: Option<String> = None;
    for piece in pieces {
        match piece {
            Piece::Text(text) => {
                for (number, part) in text.split('/').enumerate() {
                    if number == 0 {
                        match &mut open {
                            Some(own) => own.push_str(part),
                            None if part.is_empty() => {}
                            None => return unsupported("a path that does not begin with `/`"),
                        }
                        continue;
                    }
                    if let Some(own) = open.take() {
                        steps.push(key(&own));
                    }
                    open = Some(part.to_owned());
                }
            }
            Piece::Position(bound) => {
                if open.take().is_none_or(|own| !own.is_empty()) {
                    return unsupported("a position inside of a key");
                }
                steps.push(Step::Position(*bound));
            }
        }
    }
    if let Some(own) = open {
        steps.push(key(&own));
    }
    match steps.as_slice() {
        [] => unsupported("an operation on the whole object"),
        _ => Ok(steps),
    }
}

fn key(written: &str) -> Step {
    let decoded = written.replace("~1", "/").replace("~0", "~");
    Step::Key(Arc::from(decoded), Arc::from(written))
}

/// Operations, each with the part of the list that it belongs to: a single one, or one for each element of a list.
pub(in crate::body) type Operations = Vec<(Part, Operation)>;

/// The operations of a list that an expression returns, with the part of the list that each belongs to.
pub(in crate::body) fn operations(arena: &mut Arena, list: &Value) -> Result<Vec<(Formula, Operations)>> {
    let mut all = Vec::new();
    for (guard, sym) in &list.0 {
        let Sym::List(parts) = sym else {
            return unsupported("a JSON patch that may be no list");
        };
        let mut own = Vec::new();
        for part in parts.iter() {
            for (case, sym) in &part.value().0 {
                let keep = arena.and([part.keep(), *case]);
                if keep != Formula::FALSE {
                    own.push((part.with(keep, Value(Vec::new())), operation(sym)?));
                }
            }
        }
        all.push((*guard, own));
    }
    Ok(all)
}

fn operation(sym: &Sym) -> Result<Operation> {
    let Sym::Changed(changed) = sym else {
        return unsupported("an operation that may be no JSONPatch");
    };
    if changed.type_name.as_deref() != Some("JSONPatch") {
        return unsupported("an operation that is not a JSONPatch");
    }
    let field = |name: &str| changed.get(name).filter(|entry| entry.present == Formula::TRUE);
    if changed.entries.iter().any(|(_, entry)| entry.present != Formula::TRUE) {
        return unsupported("an operation with optional fields");
    }
    let (Some(op), Some(path)) = (field("op"), field("path")) else {
        return unsupported("an operation without `op` or `path`");
    };
    let Some(Sym::Text(op)) = op.value.single() else {
        return unsupported("an operation that is known only at run time");
    };
    let steps = match path.value.single() {
        Some(Sym::Text(text)) => pointer(&[Piece::Text(Arc::clone(text))])?,
        Some(Sym::Pointer(pieces)) => pointer(pieces)?,
        _ => return unsupported("a path that is known only at run time"),
    };
    let value = match field("value") {
        Some(entry) => Some(plain(&entry.value)?),
        None => None,
    };
    Operation::new(op, steps, value)
}

/// The value of an operation: no typed objects.
fn plain(value: &Value) -> Result<Value> {
    for (_, sym) in &value.0 {
        match sym {
            Sym::Changed(changed) if changed.type_name.is_some() => {
                return unsupported("an `Object` in a JSONPatch");
            }
            Sym::Changed(changed) => {
                for (_, entry) in &changed.entries {
                    plain(&entry.value)?;
                }
            }
            Sym::Map(entries) => {
                for (_, value) in entries.iter() {
                    plain(value)?;
                }
            }
            Sym::List(parts) => {
                for part in parts.iter() {
                    plain(part.value())?;
                }
            }
            Sym::Null | Sym::Bool(_) | Sym::Int(_) | Sym::Text(_) | Sym::Words(..) | Sym::At(_) => {}
            _ => return unsupported("a value of a JSONPatch that is not JSON"),
        }
    }
    Ok(value.clone())
}

/// Applies operations in order. `creates` says whether missing parents are created, as classic rules do.
pub(in crate::body) fn apply(
    arena: &mut Arena,
    object: &Value,
    operations: &[(Part, Operation)],
    creates: bool,
) -> Result<Patched> {
    let mut errors = Errors(Vec::new());
    let mut current = Entry::of(object.clone());
    for (part, operation) in operations {
        let mut editor = Editor {
            arena,
            action: &operation.action,
            creates,
            each: None,
            errors: Errors(Vec::new()),
        };
        let guard = match part {
            Part::One(keep, _) => *keep,
            Part::Each { list, bound, outer, .. } if outer.is_empty() => {
                // Operations on elements of their own do not depend on each other's order.
                if !operation.path.contains(&Step::Position(*bound)) {
                    return unsupported("an operation for each element on the same value");
                }
                editor.each = Some((*list, *bound, part.keep()));
                editor.arena.at_least(*list, *bound, part.keep(), 1)
            }
            Part::Each { .. } => return unsupported("operations for elements of nested lists"),
        };
        let changed = editor.edit(&current, &operation.path, guard)?;
        errors.0.append(&mut editor.errors.0);
        current = arena.either_entry(guard, &changed, &current);
    }
    Ok(Patched {
        object: current.value,
        error: arena.or(errors.0),
    })
}

struct Editor<'a> {
    arena: &'a mut Arena,
    action: &'a Action,
    creates: bool,
    /// The list that the operation is made for, with the element and the condition about it.
    each: Option<(Place, Place, Formula)>,
    errors: Errors,
}

impl Editor<'_> {
    /// Changes a value on a path; `guard` is the condition under which errors count.
    fn edit(&mut self, entry: &Entry, path: &[Step], guard: Formula) -> Result<Entry> {
        let Some((step, rest)) = path.split_first() else {
            return unsupported("an empty path");
        };
        let cases = self.arena.by_kind(&entry.value);
        let kinds: Vec<Option<Kind>> = cases.iter().map(|(_, kind, _)| *kind).collect();
        let split = Entry {
            present: entry.present,
            value: Value(cases.into_iter().map(|(guard, _, sym)| (guard, sym)).collect()),
        };
        let absent = self.arena.not(entry.present);
        let forgives = self.creates && *self.action == Action::Remove;
        if !forgives {
            self.errors.add(self.arena, [guard, absent]);
        }
        let (action, creates, each) = (self.action, self.creates, self.each);
        let mut all = std::mem::replace(&mut self.errors, Errors(Vec::new()));
        let changed = each_case(self.arena, &split, guard, |arena, at, sym, within| {
            let mut inner = Editor {
                arena,
                action,
                creates,
                each,
                errors: Errors(Vec::new()),
            };
            let made = inner.within(sym, kinds[at], (step, rest), within);
            all.0.append(&mut inner.errors.0);
            made
        })?;
        self.errors = all;
        Ok(changed)
    }

    fn within(
        &mut self,
        sym: &Sym,
        kind: Option<Kind>,
        (step, rest): (&Step, &[Step]),
        guard: Formula,
    ) -> Result<Entry> {
        if let (Sym::At(place), Some(Kind::Map)) = (sym, kind) {
            let changed = Changed {
                base: Some(*place),
                ..Changed::default()
            };
            return self.in_map(&changed, step, rest, guard);
        }
        if kind.is_none_or(|kind| kind == Kind::List)
            && let Some(parts) = self.arena.parts_of(sym)
        {
            return self.in_list(&parts, step, rest, guard);
        }
        match (kind, self.arena.as_changed(sym)) {
            (None, Some(changed)) => self.in_map(&changed, step, rest, guard),
            // A null on the way is refused by one version and replaced by the other.
            (Some(Kind::Null), _) | (_, None) if matches!(sym, Sym::Null | Sym::At(_)) => {
                unsupported("a path through what may be null or no container")
            }
            _ => unsupported("a path through a value"),
        }
    }

    fn in_map(&mut self, map: &Changed, step: &Step, rest: &[Step], guard: Formula) -> Result<Entry> {
        let Step::Key(key, written) = step else {
            return unsupported("a position in a map");
        };
        if key.is_empty() {
            return unsupported("an empty key");
        }
        let before = self
            .arena
            .entry_of(&Sym::Changed(Rc::new(map.clone())), key)
            .unwrap_or_else(Entry::absent);
        let absent = self.arena.not(before.present);
        let after = if rest.is_empty() {
            match self.action {
                Action::Add(value) => Entry::of(value.clone()),
                Action::Replace(value) => {
                    if self.creates {
                        self.errors.add(self.arena, [guard, absent]);
                    }
                    Entry::of(value.clone())
                }
                Action::Remove => {
                    if !self.creates {
                        self.errors.add(self.arena, [guard, absent]);
                    }
                    Entry::absent()
                }
            }
        } else if self.creates && matches!(self.action, Action::Add(_)) {
            if key != written && absent != Formula::FALSE {
                return unsupported("a missing parent whose key is escaped");
            }
            let there = if absent == Formula::FALSE {
                before
            } else {
                let made = Entry::of(missing(&rest[0])?);
                self.arena.either_entry(before.present, &before, &made)
            };
            self.edit(&there, rest, guard)?
        } else {
            self.edit(&before, rest, guard)?
        };
        let mut map = map.clone();
        map.set(key, after);
        Ok(Entry::of(Value::of(Sym::Changed(Rc::new(map)))))
    }

    fn in_list(&mut self, parts: &[Part], step: &Step, rest: &[Step], guard: Formula) -> Result<Entry> {
        match (step, self.action, self.each) {
            (Step::Key(key, _), Action::Add(value), _) if &**key == "-" && rest.is_empty() => {
                let mut parts = parts.to_vec();
                parts.push(Part::One(Formula::TRUE, value.clone()));
                Ok(Entry::of(Value::of(Sym::List(Rc::from(parts)))))
            }
            (Step::Position(own), _, Some((list, bound, keep))) if *own == bound && !rest.is_empty() => {
                let [part] = parts else {
                    return unsupported("a position in a list that has changed");
                };
                if part.of_all().is_none() {
                    return unsupported("a position in a list that has changed");
                }
                let part = on(self.arena, part, list, bound)?;
                let mut inner = Editor {
                    arena: self.arena,
                    action: self.action,
                    creates: self.creates,
                    each: None,
                    errors: Errors(Vec::new()),
                };
                let before = Entry::of(part.value().clone());
                let changed = inner.edit(&before, rest, keep)?;
                let of_elements = inner.errors;
                self.errors.add_each(self.arena, (list, bound), guard, of_elements);
                let after = self.arena.either_entry(keep, &changed, &before);
                let part = part.with(Formula::TRUE, after.value);
                Ok(Entry::of(Value::of(Sym::List(Rc::from([part])))))
            }
            _ => unsupported("a position in a list"),
        }
    }
}

/// What is created for a missing parent.
fn missing(next: &Step) -> Result<Value> {
    match next {
        Step::Key(key, _) if &**key == "-" => Ok(Value::of(Sym::List(Rc::from([])))),
        Step::Key(key, _) if key.parse::<i64>().is_err() => Ok(Value::of(Sym::Changed(Rc::new(Changed::default())))),
        _ => unsupported("a position in a list that may be missing"),
    }
}
