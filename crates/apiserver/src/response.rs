//! The admission response to a client, and the verdicts behind it.

use std::collections::BTreeMap;

use kyvtest_go_compat::{text::quote::quote, value::Value};
use kyvtest_model::{
    kube::{Operation, Request},
    verdict::{Effect, Status, Verdict},
};

/// The reason of a denial that names none.
pub const INVALID: &str = "Invalid";

/// The API server's response to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionResponse {
    /// Whether the request is admitted.
    pub allowed: bool,
    /// The strongest status of all policies.
    pub status: Status,
    /// The strongest effect of all policies.
    pub effect: Effect,
    /// HTTP status; for an admitted request, that of the completed operation.
    pub code: u16,
    /// The reason of the refusal; empty if admitted.
    pub reason: String,
    /// The text of the refusal; empty if admitted.
    pub message: String,
    /// What the refusal is about.
    pub(crate) details: Option<Details>,
    /// The warnings that the client gets.
    pub warnings: Vec<String>,
    /// The warnings that no header can carry, because there is a line break or control character in them.
    pub(crate) lost_warnings: Vec<String>,
    /// The annotations of the audit event.
    pub audit: BTreeMap<String, String>,
    /// The verdicts of each policy with each of its bindings and parameters, in the order of evaluation.
    pub verdicts: Vec<PolicyVerdict>,
}

/// The `details` of a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Details {
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural of the resource.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// The message of the only cause.
    pub cause: String,
}

/// The verdict of one policy with one of its bindings and one of its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyVerdict {
    /// The policy's name.
    pub policy: String,
    /// The binding's name; `None` where the policy as a whole decided.
    pub binding: Option<String>,
    /// The parameter, `namespace/name` or `name`; `None` without one.
    pub(crate) param: Option<String>,
    pub verdict: Verdict,
}

/// The HTTP status of a completed operation.
pub const fn admitted_code(operation: Operation) -> u16 {
    match operation {
        Operation::Create => 201,
        Operation::Update | Operation::Delete | Operation::Connect => 200,
    }
}

/// One refusal of a policy.
#[derive(Debug, Clone)]
pub(super) struct Denial {
    pub(super) policy: String,
    pub(super) binding: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) message: String,
}

impl Denial {
    fn text(&self) -> String {
        let Self {
            policy,
            binding,
            message,
            ..
        } = self;
        match binding {
            Some(binding) => {
                format!("ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {message}")
            }
            None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {message}"),
        }
    }
}

impl AdmissionResponse {
    /// The response to a request that no policy denies.
    pub fn admitted(request: &Request) -> Self {
        Self {
            allowed: true,
            status: Status::NoMatch,
            effect: Effect::Admit,
            code: if request.operation == Operation::Create {
                201
            } else {
                200
            },
            reason: String::new(),
            message: String::new(),
            details: None,
            warnings: Vec::new(),
            lost_warnings: Vec::new(),
            audit: BTreeMap::new(),
            verdicts: Vec::new(),
        }
    }

    /// Makes it a refusal.
    pub(super) fn deny(&mut self, request: &Request, denial: &Denial) {
        let resource = &request.resource;
        let cause = denial.text();
        let name = object_name(request);
        let dot = if resource.group.is_empty() { "" } else { "." };
        let shown = format!("{}{dot}{}", resource.plural, resource.group);
        let reason = denial
            .reason
            .as_deref()
            .filter(|reason| !reason.is_empty())
            .unwrap_or(INVALID);
        self.allowed = false;
        self.code = match reason {
            "Forbidden" => 403,
            "Unauthorized" => 401,
            "RequestEntityTooLarge" => 413,
            _ => 422,
        };
        reason.clone_into(&mut self.reason);
        self.message = format!("{shown} {} is forbidden: {cause}", quote(&name));
        self.details = Some(Details {
            group: resource.group.clone(),
            kind: resource.plural.clone(),
            name,
            cause,
        });
    }

    /// Takes the strongest of all verdicts.
    pub fn summarise(&mut self) {
        let verdicts = || self.verdicts.iter().map(|verdict| &verdict.verdict);
        let status = verdicts()
            .map(|verdict| verdict.status)
            .max_by_key(|status| status.strength());
        let effect = verdicts().map(|verdict| verdict.effect).max();
        self.status = status.unwrap_or(Status::NoMatch);
        self.effect = effect.unwrap_or(Effect::Admit);
    }

    /// The combined verdict of one policy with all of its bindings and parameters: the first one with the strongest
    /// effect, with the strongest status.
    pub(crate) fn of_policy(&self, policy: &str) -> Option<Verdict> {
        verdict_of(&self.verdicts, policy)
    }
}

/// See [`AdmissionResponse::of_policy`].
pub(super) fn verdict_of(verdicts: &[PolicyVerdict], policy: &str) -> Option<Verdict> {
    let verdicts = || verdicts.iter().filter(|verdict| verdict.policy == policy);
    let effect = verdicts().map(|verdict| verdict.verdict.effect).max()?;
    let status = verdicts()
        .map(|verdict| verdict.verdict.status)
        .max_by_key(|status| status.strength())?;
    let of_effect = || verdicts().filter(|verdict| verdict.verdict.effect == effect);
    let first = of_effect()
        .find(|verdict| verdict.verdict.status == status)
        .or_else(|| of_effect().next())?;
    Some(Verdict {
        status,
        ..first.verdict.clone()
    })
}

/// The name in a refusal.
pub(super) fn object_name(request: &Request) -> String {
    if !request.name.is_empty() {
        return request.name.clone();
    }
    let object = request.object.root();
    if !object.is_null() && request.operation == Operation::Connect {
        return "Unknown/errorGettingName".to_owned();
    }
    let text = |field: &str| {
        let text = object.at(&["metadata", field]).and_then(Value::as_str);
        text.filter(|text| !text.is_empty())
    };
    text("name")
        .or_else(|| text("generateName"))
        .unwrap_or("Unknown")
        .to_owned()
}
