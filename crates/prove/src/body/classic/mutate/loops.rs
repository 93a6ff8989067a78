//! `foreach` in mutate rules: one loop over the elements of one list of the object, which it patches.
//!
//! Upstream counterpart: `pkg/engine/handlers/mutation/common.go`, by way of `kyvtest_kyverno::classic::mutator`. A strategic merge
//! begins with the last element and puts each that it patches first, so that they come first in their order.
//!
//! Known limits: several loops, loops within loops, patches of anything but the elements.

use serde_json::Value as Json;

use super::{
    super::{
        condition::Conditions,
        query::{Context, Written, query},
    },
    Reader,
};
use crate::body::{
    changed::Entry,
    document::{Operation, Patch, Patched, apply_operations, merge_strategic},
    formula::{Arena, Formula, Place},
    shape::Kind,
    value::{Part, Result, Sym, Value, unsupported},
};

/// A list that a loop goes through.
struct Looped {
    guard: Formula,
    part: Part,
    list: Place,
    bound: Place,
}

impl<'r, 'c> Reader<'_, '_, 'r, 'c> {
    /// The blocks of `foreach`.
    pub(super) fn blocks(&mut self, blocks: &[Json], object: Value) -> Result<Patched> {
        let [block] = blocks else {
            return unsupported("several loops");
        };
        if !block["foreach"].is_null() {
            return unsupported("loops within loops");
        }
        let text = block["list"].as_str().unwrap_or_default();
        let (lists, failed) = self.looped(text)?;
        let mut patched = Patched {
            object: object.clone(),
            error: failed,
        };
        for list in lists {
            let own = self.elements_patched(block, &list, &object)?;
            let error = self.arena.and([list.guard, own.error]);
            patched.error = self.arena.or([patched.error, error]);
            patched.object = self.arena.either(list.guard, &own.object, &patched.object);
        }
        Ok(patched)
    }

    /// The lists that a loop goes through, each with its condition, and when there is none.
    fn looped(&mut self, text: &str) -> Result<(Vec<Looped>, Formula)> {
        let found = query(self.arena, self.context, text, Written::Alone)?;
        let mut failed = vec![found.failed];
        let mut lists = Vec::new();
        for (guard, kind, sym) in self.arena.by_kind(&found.value) {
            let parts = match (kind, &sym) {
                (_, Sym::Error) => {
                    failed.push(guard);
                    continue;
                }
                (Some(Kind::Null), _) | (_, Sym::Null) => continue,
                (Some(Kind::List), Sym::At(place)) => self.context.elements(self.arena, *place)?,
                (None, Sym::List(parts)) => parts.to_vec(),
                _ => return unsupported("a loop over something that may be no list"),
            };
            let [part] = parts.as_slice() else {
                return unsupported("a loop over several lists");
            };
            let Some((list, bound, value)) = part.of_all() else {
                return unsupported("a loop over a computed list");
            };
            let is_map = |place: Place| {
                let kinds = self.arena.shape(place).kinds;
                kinds.is_single() && kinds.has(Kind::Map)
            };
            if value.single() != Some(&Sym::At(bound)) || !is_map(bound) {
                return unsupported("a loop over a computed list");
            }
            // The element has the name that anchors in the list give it.
            let Some(wanted) = self.arena.bound(list, 0) else {
                return unsupported("a loop over a structure");
            };
            if wanted != bound {
                return unsupported("a loop over elements under another name");
            }
            lists.push(Looped {
                guard,
                part: part.clone(),
                list,
                bound,
            });
        }
        Ok((lists, self.arena.or(failed)))
    }

    /// The object after the patches for the elements of a list.
    fn elements_patched(&mut self, block: &Json, looped: &Looped, object: &Value) -> Result<Patched> {
        let Looped { part, list, bound, .. } = looped;
        let mut context: Context<'r, 'c> = self.context.with_element(part.value().clone(), part);
        context.entries = context.entries.with(&block["context"], context.element.as_ref())?;
        let (met, unknown) = if block["preconditions"].is_null() {
            (Formula::TRUE, Formula::FALSE)
        } else {
            let truth = Conditions::read(&block["preconditions"]).evaluate(self.arena, &context)?;
            (truth.yes, truth.error(self.arena))
        };
        let mut reader = Reader {
            arena: self.arena,
            context: &context,
            kind: self.kind,
            condition: Formula::TRUE,
            element: Some((*list, *bound)),
            in_list: false,
            errors: Vec::new(),
        };
        let mut patched = if let Some(merge) = block["patchStrategicMerge"].as_object() {
            if !matches!(block["order"].as_str(), None | Some("Descending")) {
                return unsupported("a loop that turns the list round");
            }
            let resource = Entry::of(object.clone());
            let mut patch = reader.map(merge, &resource)?;
            if reader.condition != Formula::TRUE || !is_for_elements(&mut patch, *list, met, reader.arena) {
                return unsupported("a loop that patches more than its elements");
            }
            merge_strategic(reader.arena, object, &patch, reader.kind)?
        } else {
            let text = block["patchesJson6902"].as_str().unwrap_or_default();
            let operations = reader.operations(text)?;
            let operations: Vec<(Part, Operation)> = operations
                .into_iter()
                .map(|operation| (part.with(met, Value(Vec::new())), operation))
                .collect();
            if operations.is_empty() {
                return unsupported("a loop without a patch");
            }
            apply_operations(reader.arena, object, &operations, true)?
        };
        let errors = reader.errors;
        let errors = self.arena.or(errors);
        let failed = self.arena.and([met, errors]);
        let failed = self.arena.or([unknown, failed]);
        let some = self.arena.at_least(*list, *bound, failed, 1);
        patched.error = self.arena.or([patched.error, some]);
        Ok(patched)
    }
}

/// Whether a patch is for elements of the list of a loop alone; they must meet the loop's preconditions.
fn is_for_elements(patch: &mut Patch, list: Place, met: Formula, arena: &mut Arena) -> bool {
    match patch {
        Patch::Map(entries) => {
            entries.len() == 1
                && entries
                    .iter_mut()
                    .all(|(_, active, below)| *active == Formula::TRUE && is_for_elements(below, list, met, arena))
        }
        Patch::Elements(element) => {
            element.applies = arena.and([element.applies, met]);
            element.list == list && element.of_loop
        }
        _ => false,
    }
}
