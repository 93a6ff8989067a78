//! The patches of a mutate rule on one object: once, or for each element of lists.
//!
//! Upstream counterpart: `pkg/engine/mutate/mutation.go` and `pkg/engine/handlers/mutation/common.go` (1.19), texts
//! included.
//!
//! Known deviations: a patch at which upstream panics is an error of the rule with a mark, and loops end at [`ELEMENTS`].

use super::{
    context::Context,
    mutation::{MutateLoop, Mutation, Patches},
    validator::evaluate,
    variables::substitute_all,
};
use crate::mutate::Failure;
use kyvtest_go_compat::value::{Data, Document, Value, go_json};
use kyvtest_patch::classic::{self as patch, Error as PatchError};

/// How many elements all loops of a rule together may have.
const ELEMENTS: usize = 20_000;

/// What the patches of a rule did to an object.
#[derive(Debug)]
pub(super) enum Mutated {
    /// The object after the patches.
    Pass(Document),
    /// Nothing changed; holds the message.
    Skip(String),
    /// The object is lost.
    Error(Failure),
}

impl Mutated {
    fn error(message: String) -> Self {
        Self::Error(message.into())
    }
}

/// Applies the patches of a rule. Null is an empty object.
pub(super) struct Mutator<'m, 'o> {
    pub(super) context: &'m mut Context<'o>,
    pub(super) elements: usize,
}

impl Mutator<'_, '_> {
    pub(super) fn mutate(&mut self, mutation: &Mutation, resource: &Document) -> Mutated {
        match &mutation.foreach {
            Some(blocks) => self.foreach(blocks, resource, 0),
            None => self.once(mutation, resource),
        }
    }

    fn once(&mut self, mutation: &Mutation, resource: &Document) -> Mutated {
        let rule = match substitute_all(&mutation.rule, self.context) {
            Ok(rule) => rule,
            Err(error) => return Mutated::error(format!("variable substitution failed: {error}")),
        };
        let block = rule.get("mutate").cloned().unwrap_or_default();
        if let Some(found) = block.get("patchesJson6902").and_then(not_text) {
            return Mutated::error(format!(
                "variable substitution failed: json: cannot unmarshal {found} into Go struct field \
                 Mutation.mutate.patchesJson6902 of type string"
            ));
        }
        let patched = apply(resource, &Patches::read(&block));
        if let (true, Mutated::Pass(target)) = (mutation.has_targets(), &patched) {
            self.context.set_target_resource(target);
        }
        patched
    }

    fn foreach(&mut self, blocks: &[MutateLoop], resource: &Document, nesting: usize) -> Mutated {
        let mut current = resource.clone();
        let mut applied = 0;
        for block in blocks {
            let elements = match self.context.query(&block.list) {
                Ok(Data::List(elements)) => elements.to_vec(),
                Ok(single) => vec![single],
                Err(error) => {
                    let list = &block.list;
                    return Mutated::error(format!("failed to evaluate list {list}: {error}: {error}"));
                }
            };
            self.context.checkpoint();
            let patched = self.elements(block, &elements, &current, nesting);
            self.context.restore();
            match patched {
                Err(failure) => {
                    return Mutated::Error(Failure {
                        message: format!("failed to mutate elements: {}", failure.message),
                        ..failure
                    });
                }
                Ok(patched) if Data::from(patched.root()) == Data::from(current.root()) => {}
                Ok(patched) => {
                    applied += 1;
                    self.context.add_resource(&patched);
                    current = patched;
                }
            }
        }
        if applied == 0 {
            Mutated::Skip("0 elements processed".to_owned())
        } else {
            Mutated::Pass(current)
        }
    }

    /// Patches a resource for each element of a list.
    fn elements(
        &mut self,
        block: &MutateLoop,
        elements: &[Data],
        resource: &Document,
        nesting: usize,
    ) -> Result<Document, Failure> {
        let mut order: Vec<usize> = (0..elements.len()).collect();
        if block.descending {
            order.reverse();
        }
        let mut current = resource.clone();
        for index in order {
            let Some(element) = elements.get(index).filter(|element| !element.is_null()) else {
                continue;
            };
            self.elements += 1;
            if self.elements > ELEMENTS {
                return Err(format!("more than {ELEMENTS} elements").into());
            }
            self.context.reset();
            self.context.add_element(&element.with_doubles(), index, nesting);
            if let Err(error) = self.context.load_entries(&block.entries) {
                return Err(format!("failed to load to mutate.foreach[{index}].context: {error}").into());
            }
            let holds = match &block.preconditions {
                Some(conditions) => evaluate(conditions, self.context)
                    .map_err(|error| format!("failed to evaluate mutate.foreach[{index}].preconditions: {error}"))?,
                None => (true, String::new()),
            };
            if !holds.0 {
                continue;
            }
            let patched = if block.inner.is_empty() {
                self.element(block, &current)
            } else {
                self.foreach(&block.inner, &current, nesting + 1)
            };
            match patched {
                Mutated::Pass(patched) => current = patched,
                Mutated::Skip(_) => {}
                Mutated::Error(failure) => return Err(failure),
            }
        }
        Ok(current)
    }

    fn element(&mut self, block: &MutateLoop, resource: &Document) -> Mutated {
        match substitute_all(&block.patches, self.context) {
            Ok(patches) => apply(resource, &Patches::read(&patches)),
            Err(error) => Mutated::error(format!("variable substitution failed: {error}")),
        }
    }
}

/// The JSON type of a value that is not a string; `None` for strings and null.
fn not_text(value: &Data) -> Option<&'static str> {
    match value {
        Data::String(_) | Data::Null => None,
        Data::Bool(_) => Some("bool"),
        Data::List(_) => Some("array"),
        Data::Map(_) => Some("object"),
        _ => Some("number"),
    }
}

fn apply(resource: &Document, patches: &Patches) -> Mutated {
    let merge = patches.merge.root();
    let patched = match patch::patch(resource.root(), Some(merge), &patches.json) {
        Ok(patched) => patched,
        Err(error @ PatchError::Empty) => return Mutated::error(error.to_string()),
        Err(error) => {
            return Mutated::Error(Failure {
                panics: error.is_panic(),
                message: format!("failed to patch resource: {error}"),
            });
        }
    };
    if !patched.changed {
        return Mutated::Skip("no patches applied".to_owned());
    }
    match missing_kind(patched.document.root(), !merge.is_null()) {
        Some(error) => Mutated::error(format!("failed to unmarshal patched resource: {error}")),
        None => Mutated::Pass(patched.document),
    }
}

/// Why Kubernetes does not decode a value as an object; `None` if it does.
pub(crate) fn missing_kind(value: Value<'_>, escape_html: bool) -> Option<String> {
    if value
        .get("kind")
        .and_then(Value::as_str)
        .is_some_and(|kind| !kind.is_empty())
    {
        return None;
    }
    let mut json = String::new();
    if !escape_html || go_json::write_value(&mut json, value).is_err() {
        json = value.to_json();
    }
    Some(format!("Object 'Kind' is missing in '{json}'"))
}
