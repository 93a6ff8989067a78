//! `patchStrategicMerge` with its anchors, as an apply configuration and JSON patches.
//!
//! Upstream counterpart: `pkg/engine/mutate/patch/strategicPreprocessing.go` and kyaml's `merge2` (Kyverno 1.19).
//!
//! An apply configuration merges maps as a strategic merge does. What it does differently is written as a JSON patch: maps that
//! structured merge replaces as a whole, values that are removed, and the order of lists (a strategic merge puts the elements
//! that it patches first). Conditions outside of lists stop the whole patch, so they become match conditions.

use std::{collections::BTreeMap, sync::Arc};

use kyvtest_go_compat::value::Data;
use kyvtest_pattern::{Anchor, AnchorKind};

use super::{
    anchors::{conditions_of, has_anchor, has_condition, plain_tree},
    place::Place,
    pointer::{Pointer, operation},
};
use crate::{
    Expr, Refusal, RefusalCode, Subject, literal,
    names::Names,
    pattern,
    query::{self, Value},
};

pub(super) type Entries = BTreeMap<Arc<str>, Data>;

/// What becomes of a patch.
#[derive(Debug, Clone, Default)]
pub(super) struct Overlay {
    /// What must hold for anything to change.
    pub(super) conditions: Vec<Expr>,
    /// An apply configuration.
    pub(super) apply: Option<Expr>,
    /// JSON patches behind it, in order.
    pub(super) patches: Vec<Expr>,
    /// Whether the apply configuration replaces lists and maps that structured merge takes as a whole.
    pub(super) replaces: bool,
    /// Differences to what an author would expect.
    pub(super) notes: Vec<String>,
}

/// A loop of `foreach` whose elements the patch is for.
#[derive(Debug, Clone)]
pub(super) struct Loop {
    pub(super) list: Value,
    /// The name of the loop variable.
    pub(super) variable: String,
    /// The preconditions of an element.
    pub(super) filter: Option<Expr>,
}

/// The walk over a patch.
pub(super) struct Walker<'w, 'n> {
    pub(super) names: &'w mut Names<'n>,
    /// The loop of `foreach`, until the patch has reached its list.
    pub(super) element: Option<Loop>,
    pub(super) out: Overlay,
    /// Orders of lists, which follow the apply configuration.
    pub(super) order: Vec<Expr>,
}

/// A field of an apply configuration.
struct Field {
    key: Expr,
    value: Expr,
    optional: bool,
}

/// The list around an element, while its parts are translated.
#[derive(Clone)]
pub(super) struct Around {
    /// The list, which is known to be there.
    pub(super) list: Expr,
    pub(super) variable: String,
    pub(super) pointer: Pointer,
    /// Only some elements are patched.
    pub(super) partial: bool,
}

pub(super) fn refused<T>(reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(RefusalCode::Pattern, reason))
}

impl<'w, 'n> Walker<'w, 'n> {
    pub(super) fn new(names: &'w mut Names<'n>, element: Option<Loop>) -> Self {
        Self {
            names,
            element,
            out: Overlay::default(),
            order: Vec::new(),
        }
    }

    /// Translates a patch for an object.
    pub(super) fn object(mut self, patch: &Data, place: &Place<'_>) -> Result<Overlay, Refusal> {
        let Some(entries) = patch.as_map() else {
            return refused("the patch is not a map");
        };
        self.conditions(patch, &subject(place))?;
        if place.has_schema() {
            self.out.apply = self.configuration(entries, place, None)?;
        } else {
            let patches = self.operations(entries, place)?;
            self.out.patches.extend(patches.map(|patches| patches.0));
        }
        self.out.patches.append(&mut self.order);
        Ok(self.out)
    }

    /// Collects the conditions outside of lists, and those of whole lists.
    fn conditions(&mut self, patch: &Data, subject: &Subject) -> Result<(), Refusal> {
        for condition in conditions_of(patch)? {
            let test = pattern::translate(&condition, subject, &self.names.scope)?;
            self.out.conditions.push(test);
        }
        let mut path = Vec::new();
        self.global(patch, subject, &mut path)
    }

    /// Lists whose elements have global conditions: one of the elements must meet them.
    fn global(&mut self, data: &Data, subject: &Subject, path: &mut Vec<String>) -> Result<(), Refusal> {
        match data {
            Data::Map(entries) => {
                for (key, value) in entries.iter().filter(|(key, _)| Anchor::parse(key).is_none()) {
                    path.push(key.to_string());
                    self.global(value, subject, path)?;
                    path.pop();
                }
                Ok(())
            }
            Data::List(items) => {
                for item in items.iter().filter(|item| has_anchor(item, AnchorKind::Global)) {
                    let conditions = conditions_of(item)?;
                    if has_anchor(item, AnchorKind::AddIfNotPresent) {
                        return refused("`+()` beside a global condition in a list has no effect; remove it");
                    }
                    let object = Value::new(
                        subject.expr.clone(),
                        query::Type::of_kinds(self.names.scope.kinds(), query::Seen::Unvalidated),
                    );
                    let object = object.with_path(subject.path.clone());
                    let list = path.iter().fold(object, |value, step| value.field(step));
                    let (scope, variable) = self.names.scope.enter(&word(&list));
                    let element = Subject {
                        expr: Expr::primary(variable.clone()),
                        path: list.element(&variable).path,
                    };
                    let tests = conditions
                        .iter()
                        .map(|condition| pattern::translate(condition, &element, &scope))
                        .collect::<Result<Vec<_>, _>>()?;
                    let test = Expr::all(tests);
                    let exists = list.list_or_empty().call("exists", [Expr::primary(variable), test]);
                    self.out.conditions.push(exists);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// An apply configuration for a map; `None` if it is empty.
    pub(super) fn configuration(
        &mut self,
        entries: &Entries,
        place: &Place<'_>,
        around: Option<&Around>,
    ) -> Result<Option<Expr>, Refusal> {
        let mut fields = Vec::new();
        for (written, value) in entries {
            fields.extend(self.field(written, value, place, around)?);
        }
        if fields.is_empty() {
            return Ok(None);
        }
        let open = place.is_open_map()?;
        Ok(Some(rendered(&fields, (!open).then_some(place.type_name.as_str()))))
    }

    fn field(
        &mut self,
        written: &str,
        value: &Data,
        place: &Place<'_>,
        around: Option<&Around>,
    ) -> Result<Option<Field>, Refusal> {
        let anchor = Anchor::parse(written);
        let (key, added) = match anchor {
            None => (written, false),
            Some(anchor) => match anchor.kind {
                AnchorKind::AddIfNotPresent => (anchor.key, true),
                AnchorKind::Condition | AnchorKind::Global => return Ok(None),
                _ => {
                    return refused(format!(
                        "`{written}` is not an anchor of patches: Kyverno writes it as it is"
                    ));
                }
            },
        };
        if key != key.trim() {
            return refused(format!("the key `{key}` has spaces around it"));
        }
        let open = place.is_open_map()?;
        let shown = literal::key(key, self.names)?;
        let own = place.field(key);
        let name = if open { shown } else { Expr::primary(key) };
        let decider = own.decider.as_ref().or(own.value.as_ref());
        if added && decider.is_some_and(Value::is_always_present) {
            return Ok(None);
        }
        let decider = decider.cloned().filter(|_| added);
        let Some(decider) = decider else {
            let made = self.value(value, &own, around)?;
            return Ok(made.map(|(value, optional)| Field {
                key: name,
                value,
                optional,
            }));
        };
        let is_scalar = !matches!(value, Data::Map(_) | Data::List(_));
        if is_scalar && own.decider.is_none() {
            // The value that is there stays.
            let made = literal::scalar(value, self.names)?;
            let optional = !made.is_always_present() && !made.fails_if_read();
            let value = if optional {
                decider.as_optional().call("or", [made.as_optional()])
            } else {
                decider.or_else(made.plain())
            };
            return Ok(Some(Field {
                key: name,
                value,
                optional,
            }));
        }
        let Some((made, optional)) = self.value(value, &own.absent(), around)? else {
            return Ok(None);
        };
        let made = if optional {
            made
        } else {
            Expr::function("optional.of", [made])
        };
        let value = decider.present().choose(&Expr::function("optional.none", []), &made);
        Ok(Some(Field {
            key: name,
            value,
            optional: true,
        }))
    }

    /// The value of a field, and whether it is optional; `None` if nothing is to be set by an apply configuration.
    pub(super) fn value(
        &mut self,
        value: &Data,
        place: &Place<'_>,
        around: Option<&Around>,
    ) -> Result<Option<(Expr, bool)>, Refusal> {
        match value {
            Data::Map(entries) => {
                let atomic = place.is_atomic()?;
                if atomic && place.value.is_some() {
                    if around.is_some() {
                        return refused(format!(
                            "structured merge replaces `{}` as a whole; patch it by hand",
                            place.steps.join(".")
                        ));
                    }
                    let patches = self.operations(entries, place)?;
                    self.out.patches.extend(patches.map(|patches| patches.0));
                    return Ok(None);
                }
                self.out.replaces |= atomic;
                Ok(self.configuration(entries, place, around)?.map(|made| (made, false)))
            }
            Data::List(items) => self.list(items, place, around),
            Data::Null => {
                let Some(before) = &place.value else { return Ok(None) };
                if around.is_some() {
                    return refused("a null removes a field of an element; write a JSON patch by hand");
                }
                let remove = Expr::list([operation("remove", &place.pointer, None)]);
                let patch = if before.is_always_present() {
                    remove
                } else {
                    before.present().choose(&remove, &Expr::list([]))
                };
                self.out.patches.push(patch);
                Ok(None)
            }
            scalar => {
                let made = literal::scalar(scalar, self.names)?;
                if made.is_always_present() || made.fails_if_read() {
                    return Ok(Some((made.plain().clone(), false)));
                }
                Ok(Some((made.as_optional(), true)))
            }
        }
    }

    /// JSON patches for a map: each key if the map is there, else the whole map.
    fn operations(&mut self, entries: &Entries, place: &Place<'_>) -> Result<Option<(Expr, bool)>, Refusal> {
        let Some(before) = &place.value else {
            return refused("a value that is known to be absent");
        };
        let mut parts: Vec<Expr> = Vec::new();
        let mut plain: Vec<Expr> = Vec::new();
        let mut whole: Entries = Entries::new();
        for (written, value) in entries {
            let anchor = Anchor::parse(written);
            let (key, added) = match anchor.map(|anchor| (anchor.kind, anchor.key)) {
                None => (&**written, false),
                Some((AnchorKind::AddIfNotPresent, key)) => (key, true),
                Some((AnchorKind::Condition | AnchorKind::Global, _)) => continue,
                Some(_) => return refused(format!("`{written}` is not an anchor of patches")),
            };
            whole.insert(key.into(), value.clone());
            let own = place.field(key);
            let Some(there) = &own.value else { continue };
            let set = |expr: &Expr| operation("add", &own.pointer, Some(expr));
            let patch = match value {
                Data::Map(inner) if !added => {
                    if let Some((inner, _)) = self.operations(inner, &own)? {
                        parts.push(inner);
                    }
                    continue;
                }
                Data::Null => {
                    let remove = Expr::list([operation("remove", &own.pointer, None)]);
                    parts.push(there.present().choose(&remove, &Expr::list([])));
                    continue;
                }
                Data::List(items) if items.iter().any(has_condition) => {
                    return refused("conditions in a list of a kind without a schema");
                }
                value => set(&literal::json(&plain_tree(value), self.names)?),
            };
            if added {
                let test = there.present();
                parts.push(test.choose(&Expr::list([]), &Expr::list([patch])));
            } else {
                plain.push(patch);
            }
        }
        if !plain.is_empty() {
            parts.insert(0, Expr::list(plain));
        }
        let mut parts = parts.into_iter();
        let Some(first) = parts.next() else { return Ok(None) };
        let all = parts.fold(first, |sum, part| sum.sum("+", &part));
        if before.is_always_present() {
            return Ok(Some((all, true)));
        }
        let whole = literal::json(&plain_tree(&Data::Map(whole.into())), self.names)?;
        let create = Expr::list([operation("add", &place.pointer, Some(&whole))]);
        Ok(Some((before.present().choose(&all, &create), false)))
    }
}

fn subject(place: &Place<'_>) -> Subject {
    let expr = place
        .value
        .as_ref()
        .map_or_else(|| Expr::primary("object"), |value| value.plain().clone());
    let path = Some(place.steps.clone());
    Subject { expr, path }
}

/// A word for the elements of a list.
pub(super) fn word(list: &Value) -> String {
    list.hint.clone().unwrap_or_else(|| "item".to_owned())
}

/// `Type{a: 1, ?b: 2}`, or a map.
fn rendered(fields: &[Field], type_name: Option<&str>) -> Expr {
    let texts = fields.iter().map(|field| {
        let mark = if field.optional { "?" } else { "" };
        format!("{mark}{}: {}", field.key, field.value)
    });
    let texts: Vec<String> = texts.collect();
    Expr::primary(format!("{}{{{}}}", type_name.unwrap_or_default(), texts.join(", ")))
}
