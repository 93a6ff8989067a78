//! Existing objects that a mutate rule changes.
//!
//! Upstream counterpart: `pkg/engine/handlers/mutation/{mutate_existing,load_targets}.go` and `GetResources` of
//! `pkg/clients/dclient/helpers.go` (1.19).

use super::{
    context::Context,
    mutation::{Mutation, Target},
    mutator::{Mutated, Mutator},
    validator::unmet,
    variables::substitute_all,
};
use kyvtest_go_compat::{
    text::wildcard,
    value::{Data, Document, Value},
};
use kyvtest_model::verdict::Status;

/// Which objects a target means, after substitution.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetQuery {
    /// `group/version` of the kind, as written.
    pub api_version: String,
    /// The kind; a subresource follows a slash.
    pub kind: String,
    /// The namespace, wildcards allowed; empty means any.
    pub namespace: String,
    /// The name, wildcards allowed; empty means any.
    pub name: String,
    /// A label selector, or null.
    pub(crate) selector: Data,
}

impl TargetQuery {
    /// Whether Kyverno gets one object; otherwise it lists all and selects.
    pub(crate) fn is_single(&self) -> bool {
        let exact = |text: &str| !text.is_empty() && !text.contains(['*', '?']);
        exact(&self.namespace) && exact(&self.name)
    }

    /// Whether an object in the list is meant, its labels aside.
    pub fn selects(&self, namespace: &str, name: &str) -> bool {
        let fits = |pattern: &str, text: &str| pattern.is_empty() || wildcard::matches(pattern, text);
        fits(&self.namespace, namespace) && fits(&self.name, name)
    }
}

/// Finds the existing objects of mutate rules.
pub trait Targets {
    /// Returns the objects that a target means, in the order in which they are changed.
    ///
    /// # Errors
    /// The text of the client's error, for example if a single object is missing.
    fn find(&self, query: &TargetQuery) -> Result<Vec<Document>, String>;
}

/// One result of a rule with targets.
pub(super) struct TargetResult {
    pub(super) status: Status,
    pub(super) message: String,
    /// Whether upstream panics instead.
    pub(super) panics: bool,
    /// The target after the patches, if they changed it.
    pub(super) target: Option<Document>,
}

/// Changes all targets of a rule. `namespace` is that of the policy; empty for one of the whole cluster.
pub(super) fn mutate_targets(
    mutation: &Mutation,
    context: &mut Context<'_>,
    targets: &dyn Targets,
    namespace: &str,
) -> Vec<TargetResult> {
    let mut results = Vec::new();
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for (i, target) in mutation.targets.iter().flatten().enumerate() {
        let query = match resolve(i, target, context, namespace) {
            Ok(query) => query,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        match targets.find(&query) {
            Ok(objects) => found.extend(objects.into_iter().map(|object| (target, object))),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        results.push(TargetResult {
            status: Status::Error,
            // Upstream gives no text before the colon.
            message: format!(": {}", errors.join("; ")),
            panics: false,
            target: None,
        });
    }
    for (target, object) in found {
        results.push(mutate_target(mutation, target, &object, context));
    }
    results
}

fn resolve(i: usize, target: &Target, context: &mut Context<'_>, namespace: &str) -> Result<TargetQuery, String> {
    let selector = substitute_all(&target.selector, context)
        .map_err(|error| format!("failed to substitute variables in target[{i}]: {error}"))?;
    for key in ["apiVersion", "kind", "namespace", "name"] {
        if let Some(value) = selector
            .get(key)
            .filter(|value| value.as_str().is_none() && !value.is_null())
        {
            let found = match value {
                Data::Bool(_) => "bool",
                Data::List(_) => "array",
                Data::Map(_) => "object",
                _ => "number",
            };
            return Err(format!(
                "json: cannot unmarshal {found} into Go struct field TargetSelector.{key} of type string"
            ));
        }
    }
    let text = |key: &str| selector.get(key).and_then(Data::as_str).unwrap_or_default().to_owned();
    Ok(TargetQuery {
        api_version: text("apiVersion"),
        kind: text("kind"),
        namespace: if namespace.is_empty() {
            text("namespace")
        } else {
            namespace.to_owned()
        },
        name: text("name"),
        selector: selector.get("selector").cloned().unwrap_or_default(),
    })
}

fn mutate_target(mutation: &Mutation, target: &Target, object: &Document, context: &mut Context<'_>) -> TargetResult {
    let result = |status, message| TargetResult {
        status,
        message,
        panics: false,
        target: None,
    };
    context.set_target_resource(object);
    if let Err(error) = context.load_entries(&target.entries) {
        return result(Status::Error, format!("failed to load context: {error}"));
    }
    if let Some((status, message)) = unmet(target.preconditions.as_ref(), context) {
        return result(status, message);
    }
    match (Mutator { context, elements: 0 }).mutate(mutation, object) {
        Mutated::Pass(patched) => TargetResult {
            status: Status::Pass,
            message: success(patched.root()),
            panics: false,
            target: mutation
                .targets
                .as_ref()
                .is_some_and(|targets| !targets.is_empty())
                .then_some(patched),
        },
        Mutated::Skip(message) => result(Status::Skip, message),
        Mutated::Error(failure) => TargetResult {
            panics: failure.panics,
            ..result(Status::Error, failure.message)
        },
    }
}

/// The message of a rule that changed an object.
pub(super) fn success(object: Value<'_>) -> String {
    let text = |path: &[&str]| object.at(path).and_then(Value::as_str).unwrap_or_default();
    let (kind, name) = (text(&["kind"]), text(&["metadata", "name"]));
    match text(&["metadata", "namespace"]) {
        "" => format!("mutated {kind}/{name}"),
        namespace => format!("mutated {kind}/{name} in namespace {namespace}"),
    }
}
