//! GeneratingPolicy and NamespacedGeneratingPolicy.
//!
//! Upstream counterpart: `pkg/cel/policies/gpol/{compiler,engine,template}` (Kyverno 1.19). A policy with an expression
//! that cannot be compiled is rejected as a whole. What becomes of the objects depends on where the policy runs: the
//! caller gives a `Placement`.
//!
//! Known deviations: plain scalars of templates that look like timestamps stay strings.

mod compile;
mod evaluate;
mod placement;
mod template;

pub use placement::in_cluster;
pub(crate) use placement::{Placement, as_given};

use crate::{
    cel_policy::{Exception, Identity, Slots},
    constraints::applies,
    input::Input,
    response::RuleResponse,
};
use kyvtest_cel::{composite::Composite, env::Env, host::Host, program::Program};
use kyvtest_go_compat::value::Document;
use kyvtest_model::{
    policy::{MatchConstraints, PolicyId},
    verdict::{Part, Status, Trace},
};
use template::Template;

/// A policy that is ready for evaluation.
#[derive(Debug)]
pub(crate) struct CompiledGeneratingPolicy {
    identity: Identity,
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
    /// The policy's identity. Its namespace is the one as written.
    pub(crate) fn id(&self) -> &PolicyId {
        &self.identity.id
    }

    /// Evaluates the policy on a request. `None` if it does not match; without constraints no request does.
    pub(crate) fn evaluate(&self, input: &Input<'_>, placement: &Placement<'_>, host: &dyn Host) -> Option<Generated> {
        let constraints = self.constraints.as_ref()?;
        let cell = input.request.cell();
        let mut facts = input.cel_facts();
        if !self.identity.admits(input.lens, &cell, &mut facts) {
            return None;
        }
        match applies(constraints, &cell, &mut facts) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => {
                let message = format!("failed to execute matching: {error}");
                return Some(
                    RuleResponse::new(&self.id().name, Status::Error, message, Trace::error(Part::Match)).into(),
                );
            }
        }
        evaluate::evaluate(self, input.policy().values(), placement, &self.identity.host(host))
    }
}
