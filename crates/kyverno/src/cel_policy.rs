//! What the policy kinds with CEL share: ValidatingPolicies, MutatingPolicies, GeneratingPolicies, DeletingPolicies and
//! ImageValidatingPolicies.
//!
//! Upstream counterpart: `pkg/cel/compiler` (Kyverno 1.19).

pub(crate) mod compile;
pub(crate) mod evaluate;

pub use compile::{CompileErrors, FieldError, Problem};

use crate::lens::Lens;
use kyvtest_cel::{
    env::Env,
    host::{Host, Wrapped},
    program::Program,
    val::Val,
};
use kyvtest_go_compat::value::Value;
use kyvtest_model::{
    kube::{Atom, Facts, Pattern, RequestClass, Text},
    policy::{PolicyId, PolicySpec, ReportResult, ScopedPolicy},
};

/// The numbers of the variables of policies on requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slots {
    pub(crate) object: u32,
    pub(crate) old_object: u32,
    pub(crate) namespace: u32,
    pub(crate) request: u32,
    pub(crate) variables: u32,
    pub(crate) exceptions: u32,
}

impl Slots {
    /// The values of an evaluation: `object`, `oldObject`, `request` and `namespaceObject`.
    pub(crate) fn bind<'a>(self, env: &Env, documents: [Value<'a>; 4]) -> Vec<Option<Val<'a>>> {
        let mut values = env.initial_values();
        let slots = [self.object, self.old_object, self.request, self.namespace];
        for (slot, document) in slots.into_iter().zip(documents) {
            values[slot as usize] = Some(Val::from(document));
        }
        values
    }
}

/// A validation with its message.
#[derive(Debug)]
pub(crate) struct Validation {
    pub(crate) program: Program,
    pub(crate) message: String,
    pub(crate) message_expression: Option<Program>,
}

/// An exception to a policy.
#[derive(Debug)]
pub(crate) struct Exception {
    key: String,
    priority: i64,
    images: Vec<String>,
    values: Vec<String>,
    report: ReportResult,
    conditions: Vec<Program>,
}

impl Exception {
    /// The exception's `namespace/name`.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    pub(crate) fn conditions(&self) -> &[Program] {
        &self.conditions
    }

    /// Whether it lifts the policy as a whole.
    pub(crate) fn is_full(&self) -> bool {
        self.images.is_empty() && self.values.is_empty()
    }
}

/// Which policy a compiled one is, and the namespace that it is for.
#[derive(Debug)]
pub(crate) struct Identity {
    /// The namespace in it is the one as written. Kyverno's compilers look at it and not at the kind.
    pub(crate) id: PolicyId,
    /// The namespace that the requests of a namespaced kind are in.
    confined_to: Option<String>,
}

impl Identity {
    pub(crate) fn of<S: PolicySpec>(policy: &ScopedPolicy<S>) -> Self {
        let id = policy.id();
        Self {
            confined_to: policy.namespaced.then(|| match policy.namespace() {
                "" => "default".to_owned(),
                namespace => namespace.to_owned(),
            }),
            id,
        }
    }

    /// Whether the policy is evaluated on the requests of a class, as far as its namespace decides.
    pub(crate) fn admits<'p>(&'p self, lens: Lens, cell: &RequestClass<'_>, facts: &mut impl Facts<'p>) -> bool {
        let confined = self.confined_to.as_deref().filter(|_| lens.namespaced_policies);
        confined.is_none_or(|namespace| is_in_namespace(namespace, cell, facts))
    }

    /// The namespace that requests are in; empty for a cluster-wide kind.
    pub(crate) fn confined_to(&self) -> &str {
        self.confined_to.as_deref().unwrap_or_default()
    }

    /// The host of the policy's expressions.
    pub(crate) fn host<'h>(&'h self, host: &'h dyn Host) -> Wrapped<'h> {
        Wrapped::in_namespace(host, &self.id.namespace)
    }
}

/// Whether a policy for one namespace is evaluated on a request (`ValidateNamespaced` of
/// `pkg/webhooks/resource/vpol/handler.go`): a Namespace is in itself.
pub fn is_in_namespace<'p>(namespace: &'p str, cell: &RequestClass<'_>, facts: &mut impl Facts<'p>) -> bool {
    let text = if cell.is_core_namespace() {
        Text::RequestName
    } else {
        Text::Namespace
    };
    facts.ask(Atom::Text(text, Pattern::Exact(namespace)))
}
