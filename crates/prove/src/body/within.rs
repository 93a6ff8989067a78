//! What a comparison is limited to, and what policies read outside of requests. No upstream counterpart.

use kyvtest_model::{
    kube::{Concrete, Facts, RequestClass, Resource},
    policy::Policy,
};

use super::hunt::lookups_of;
use crate::{solver::Literal, witness::Scenario};

/// Some requests of one class: those of which facts hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Within<'w> {
    pub(crate) class: RequestClass<'w>,
    pub(crate) facts: &'w [Literal<'w>],
}

impl Within<'_> {
    pub(super) fn is_about(&self, class: &RequestClass<'_>) -> bool {
        let is_same = |a: &Resource, b: &Resource| (a.gvr(), &a.subresource) == (b.gvr(), &b.subresource);
        is_same(self.class.resource, class.resource)
            && (self.class.operation, self.class.collection) == (class.operation, class.collection)
    }

    pub(super) fn has(&self, scenario: &Scenario) -> bool {
        let namespace = scenario.world.namespace(&scenario.request.namespace);
        let mut facts = Concrete::new(&scenario.request, namespace);
        self.facts.iter().all(|(atom, holds)| facts.ask(*atom) == *holds)
    }
}

/// What a policy reads outside of the request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reads {
    /// Objects, parameters, entries of the global context or services.
    pub any: bool,
    /// Objects, parameters aside.
    pub objects: bool,
}

/// What a policy reads outside of the request.
pub fn reads(policy: &Policy) -> Reads {
    let lookups = lookups_of(policy);
    Reads {
        any: !lookups.is_empty(),
        objects: lookups.reads_others(),
    }
}
