//! What mutating policies make of the object of a request.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/admission/plugin/policy/mutating/{dispatcher,reinvocationcontext}.go` and
//! `pkg/admission/reinvocation.go` (0.36).
//!
//! Everything is selected first; then the invocations (policy, binding, parameter) run in sequence on one object, which is
//! decoded and defaulted after each mutation. The chain runs at most twice.
//!
//! Known deviations: policies, bindings and parameters run in the order of their names, where a server has none; of
//! webhooks between the passes nothing is known.

mod pass;
mod patch;

use std::collections::BTreeSet;

use super::{
    mutating::CompiledMutatingPolicy,
    policy::Binding,
    response::{AdmissionResponse, Details, PolicyVerdict, object_name, verdict_of},
};
use kyvtest_go_compat::value::{Document, Value};
use kyvtest_model::{
    kube::{Environment, GroupVersionKind, Operation, Request},
    verdict::{Effect, Status, Verdict},
};
use kyvtest_normalise::{Cluster, Kind, Operation as Writes, Refused, Request as Target, plugins_again};
use pass::{Key, Pass};

/// The result of the mutating phase.
#[derive(Debug, Clone)]
pub struct Mutated {
    /// The object at the end of the phase; if the request is denied, after the last mutation.
    pub object: Document,
    /// Why the request is denied.
    pub refusal: Option<MutationDenial>,
    /// What each policy did with each of its bindings and parameters; errors of the second pass come last.
    pub verdicts: Vec<PolicyVerdict>,
    /// The policies whose second run changed the object: they are not idempotent.
    pub(crate) changed_again: Vec<String>,
}

/// A refusal of the mutating phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MutationDenial {
    pub by: DeniedBy,
    pub code: u16,
    pub reason: String,
    pub message: String,
    /// The messages of all errors.
    pub(crate) causes: Vec<String>,
}

/// The source of a denial in the mutating phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeniedBy {
    /// A policy whose errors are not ignored.
    Policy,
    /// The server, regardless of the failure policy.
    Server,
    /// A plugin of the server that runs again, or the check of the object's kind.
    Later,
    /// No response: upstream panics and closes the connection.
    Panic,
}

/// Why a mutation cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
enum MutationError {
    /// Subject to the failure policy.
    Evaluation(String),
    /// Refuses the request at once.
    Server(String),
    /// Upstream panics.
    Panic(String),
}

impl Mutated {
    fn unchanged(request: &Request) -> Self {
        Self {
            object: request.object.clone(),
            refusal: None,
            verdicts: Vec::new(),
            changed_again: Vec::new(),
        }
    }

    /// What one policy did with all of its bindings and parameters, see `AdmissionResponse::of_policy`.
    pub fn of_policy(&self, policy: &str) -> Option<Verdict> {
        verdict_of(&self.verdicts, policy)
    }

    /// The response to the client, if the request is denied.
    pub fn response(&self, request: &Request) -> Option<AdmissionResponse> {
        let refusal = self.refusal.as_ref()?;
        let mut response = AdmissionResponse::admitted(request);
        response.verdicts.clone_from(&self.verdicts);
        response.summarise();
        response.allowed = false;
        response.status = Status::Error;
        response.effect = Effect::Deny;
        response.code = refusal.code;
        response.reason.clone_from(&refusal.reason);
        response.message.clone_from(&refusal.message);
        response.details = Some(Details {
            group: request.resource.group.clone(),
            kind: request.resource.plural.clone(),
            name: object_name(request),
            cause: refusal.causes.first().cloned().unwrap_or_default(),
        });
        Some(response)
    }
}

impl MutationDenial {
    fn server(error: &str) -> Self {
        Self {
            by: DeniedBy::Server,
            code: 500,
            reason: "InternalError".to_owned(),
            message: format!("Internal error occurred: {error}"),
            causes: vec![error.to_owned()],
        }
    }

    fn panic(error: &str) -> Self {
        let message = format!("the API server panics and closes the connection: {error}");
        Self {
            by: DeniedBy::Panic,
            code: 500,
            reason: "InternalError".to_owned(),
            causes: vec![message.clone()],
            message,
        }
    }
}

/// Which invocations run in the second pass.
///
/// Upstream counterpart: `policyReinvokeContext`.
#[derive(Debug, Default)]
struct Reinvocation {
    /// Invocations that may run again if something changes after them.
    invoked: BTreeSet<Key>,
    /// Invocations that run again.
    due: BTreeSet<Key>,
    /// Whether there is a second pass.
    requested: bool,
}

impl Reinvocation {
    /// Schedules all earlier invocations again because something changed.
    fn require(&mut self) {
        self.due.append(&mut self.invoked);
    }
}

/// Runs the mutating phase. `cluster` is what the server knows when it completes objects.
pub(super) fn mutate(
    policies: &[CompiledMutatingPolicy],
    bindings: &[Binding],
    request: &Request,
    environment: Environment<'_>,
    cluster: &Cluster,
) -> Mutated {
    let mut outcome = Mutated::unchanged(request);
    if policies.is_empty() || request.operation == Operation::Delete || !request.resource.reaches_native_policies() {
        return outcome;
    }
    let mut reinvocation = Reinvocation::default();
    let first = Pass {
        policies,
        bindings,
        environment,
        cluster,
        second: false,
    };
    first.run(request.clone(), &mut reinvocation, &mut outcome);
    if outcome.refusal.is_some() || !reinvocation.requested {
        return outcome;
    }
    let left = outcome.object.clone();
    match rerun_plugins(request, &outcome.object, cluster) {
        Ok(object) => outcome.object = object,
        Err(refused) => {
            outcome.refusal = Some(MutationDenial {
                by: DeniedBy::Later,
                code: refused.code(),
                reason: refused.stage.reason().to_owned(),
                message: refused.message.clone(),
                causes: vec![refused.message],
            });
            return outcome;
        }
    }
    if outcome.object != left {
        reinvocation.require();
    }
    let again = Request {
        object: outcome.object.clone(),
        ..request.clone()
    };
    Pass { second: true, ..first }.run(again, &mut reinvocation, &mut outcome);
    outcome
}

/// Runs the plugins again on an object that was changed after they saw the request.
///
/// # Errors
/// The plugin's reason to reject the object.
pub fn rerun_plugins(request: &Request, object: &Document, cluster: &Cluster) -> Result<Document, Refused> {
    let operation = match request.operation {
        Operation::Create => Writes::Create,
        Operation::Update => Writes::Update,
        Operation::Connect | Operation::Delete => return Ok(object.clone()),
    };
    if !request.resource.subresource.is_empty() {
        return Ok(object.clone());
    }
    let api_version = request.resource.object_kind.api_version();
    let kind = Kind {
        api_version: &api_version,
        name: &request.resource.object_kind.kind,
    };
    let target = Target {
        operation,
        namespace: &request.namespace,
        ..Target::default()
    };
    plugins_again(kind, &request.object, object, target, cluster)
}

/// The server's error if an object is of another kind than the request's.
fn foreign(object: Value<'_>, request: &Request, cluster: &Cluster) -> Foreign {
    let wanted = &request.resource.object_kind;
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let found = GroupVersionKind::from_api_version(text("apiVersion"), text("kind"));
    if found == *wanted {
        return Foreign::No;
    }
    let is_custom = cluster.definitions.iter().any(|definition| {
        let text = |path: &[&str]| definition.root().at(path).and_then(Value::as_str);
        text(&["spec", "group"]) == Some(&wanted.group) && text(&["spec", "names", "kind"]) == Some(&wanted.kind)
    });
    if !is_custom {
        let (from, to) = (patch::go_type(&found), patch::go_type(wanted));
        return Foreign::Inconvertible(format!(
            "failed to convert object: converting ({from}) to ({to}): unknown conversion"
        ));
    }
    if found.group != wanted.group {
        return Foreign::Inconvertible(format!(
            "failed to convert object: {} is unstructured and is not suitable for converting to \"{}\"",
            patch::go(&found),
            wanted.api_version()
        ));
    }
    if found.kind != wanted.kind {
        let name = object
            .at(&["metadata", "name"])
            .and_then(Value::as_str)
            .unwrap_or_default();
        return Foreign::Invalid(format!(
            "{}.{} \"{name}\" is invalid: kind: Invalid value: \"{}\": must be {}",
            found.kind, found.group, found.kind, wanted.kind
        ));
    }
    Foreign::Version
}

enum Foreign {
    No,
    /// Another served version of the kind.
    Version,
    /// Refused by validation.
    Invalid(String),
    /// Refused by the server at once.
    Inconvertible(String),
}
