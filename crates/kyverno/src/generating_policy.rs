//! GeneratingPolicy and NamespacedGeneratingPolicy.
//!
//! Upstream counterpart: `pkg/cel/policies/gpol/{compiler,engine,template}` (Kyverno 1.19). A policy with an expression
//! that cannot be compiled is rejected as a whole. What becomes of the objects depends on where the policy runs: the
//! caller gives a [`Placement`].
//!
//! Known deviations: plain scalars of templates that look like timestamps stay strings.

mod compile;
mod evaluate;
mod placement;
mod template;

pub use placement::{Placement, as_given, in_cluster};

use crate::{
    cel_policy::{Exception, Slots, is_in_namespace},
    constraints::applies,
    input::Input,
    response::RuleResponse,
};
use kyvtest_cel::{
    composite::Composite,
    env::Env,
    host::{Host, Wrapped},
    program::Program,
};
use kyvtest_go_compat::value::Document;
use kyvtest_model::{
    policy::MatchConstraints,
    verdict::{Part, Status, Trace},
};
use template::Template;

/// A policy that is ready for evaluation.
#[derive(Debug)]
pub struct CompiledGeneratingPolicy {
    name: String,
    kind: &'static str,
    /// The policy's namespace; empty for one of the whole cluster.
    namespace: String,
    constraints: Option<MatchConstraints>,
    env: Env,
    slots: Slots,
    match_conditions: Vec<Program>,
    composite: Composite,
    entries: Vec<Entry>,
    audit_annotations: Vec<(String, Program)>,
    exceptions: Vec<Exception>,
}

/// An entry of `generate`.
#[derive(Debug)]
enum Entry {
    Expression(Program),
    Template(Template),
}

/// What a policy makes of a request.
#[derive(Debug, Clone)]
pub struct Generated {
    pub response: RuleResponse,
    /// The objects, in the order of the calls; none after an exception or an error.
    pub objects: Vec<Document>,
}

impl From<RuleResponse> for Generated {
    fn from(response: RuleResponse) -> Self {
        Self {
            response,
            objects: Vec::new(),
        }
    }
}

impl CompiledGeneratingPolicy {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kind as objects write it.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The policy's namespace; empty for one of the whole cluster.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Evaluates the policy on a request. `None` if it does not match; without constraints no request does.
    pub fn evaluate(&self, input: &Input<'_>, placement: &Placement<'_>, host: &dyn Host) -> Option<Generated> {
        let constraints = self.constraints.as_ref()?;
        let cell = input.request.cell();
        let mut facts = input.cel_facts();
        if input.lens.namespaced_policies
            && !self.namespace.is_empty()
            && !is_in_namespace(&self.namespace, &cell, &mut facts)
        {
            return None;
        }
        match applies(constraints, &cell, &mut facts) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => {
                let message = format!("failed to execute matching: {error}");
                return Some(RuleResponse::new(&self.name, Status::Error, message, Trace::error(Part::Match)).into());
            }
        }
        let values = input.policy().values();
        if self.namespace.is_empty() {
            evaluate::evaluate(self, values, placement, host)
        } else {
            evaluate::evaluate(self, values, placement, &Wrapped::in_namespace(host, &self.namespace))
        }
    }
}
