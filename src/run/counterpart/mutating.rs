//! A MutatingPolicy and the MutatingAdmissionPolicy that Kyverno would generate from it.
//!
//! Each policy is compared alone, on the object as sent. A policy that cannot be converted only because of autogen for
//! pod controllers is compared with autogen disabled on both sides, unless it requests a native policy.

use std::sync::Arc;

use super::{CaseVerdict, Counterpart, NativeCaseVerdict, Note, SuiteCluster};
use kyvtest_apiserver as apiserver;
use kyvtest_cel::time::Timestamp;
use kyvtest_convert::{Conversion, Exceptions, Options, Outcome, RefusalCode, convert};
use kyvtest_kyverno::mutating_controller::MutatingController;
use kyvtest_model::{
    kube::{Discovery, Environment, Request},
    policy::{MutatingPolicy, Policy, PolicyId},
};
use kyvtest_prove::mutation::{Phases, Prepared, installable, missing_counterpart};

pub(super) struct MutatingPair {
    id: PolicyId,
    is_marked: bool,
    without_autogen: bool,
    controller: MutatingController,
    conversion: Conversion,
    /// The server with the generated policy, if it accepts it.
    native: Option<apiserver::Server>,
}

impl MutatingPair {
    pub(super) fn new(
        policy: &Arc<MutatingPolicy>,
        exceptions: Exceptions<'_>,
        discovery: &Discovery,
        now: Option<Timestamp>,
    ) -> Self {
        let options = Options { force: true, now };
        let generate = |policy: &Arc<MutatingPolicy>| {
            convert(&Policy::Mutating(Arc::clone(policy)), exceptions, discovery, options)
        };
        let requested = policy.spec.autogen.native_policy.as_ref();
        let is_marked = requested.is_some_and(|enabled| enabled.value);
        let mut conversion = generate(policy);
        let mut compared = Arc::clone(policy);
        let covers_controllers =
            matches!(&conversion.outcome, Outcome::Refused(refusal) if refusal.code == RefusalCode::Autogen);
        if covers_controllers && !is_marked {
            Arc::make_mut(&mut compared).spec.autogen.pod_controllers = Some(Vec::new());
            conversion = generate(&compared);
        }
        let without_autogen = !Arc::ptr_eq(policy, &compared);
        // A policy that Kyverno rejects is reported where it is evaluated.
        let (controller, _) = MutatingController::new(&[compared], exceptions.cel);
        let native = installable(&conversion).map(|generated| {
            let lens = apiserver::Lens::ApiServer;
            apiserver::Server::new([], [], lens).with_mutation([&*generated.map.model], [&*generated.binding.model])
        });
        Self {
            id: policy.id(),
            is_marked,
            without_autogen,
            controller,
            conversion,
            native,
        }
    }

    pub(super) fn id(&self) -> &PolicyId {
        &self.id
    }

    /// Notes on the comparison as a whole, with the name of the policy.
    pub(super) fn notes(&self) -> Vec<(String, Note)> {
        let mut notes = Vec::new();
        if !self.is_marked {
            notes.push((self.id.name.clone(), Note::NotMarked));
        }
        if self.without_autogen {
            notes.push((self.id.name.clone(), Note::PodControllersOff));
        }
        notes
    }

    /// Sends a request as written through both sides.
    pub(super) fn evaluate(
        &self,
        written: &Request,
        cluster: &SuiteCluster,
        environment: Environment<'_>,
    ) -> Counterpart {
        let (Some(native), Some(generated)) = (&self.native, installable(&self.conversion)) else {
            return Counterpart {
                native: None,
                divergence: missing_counterpart(&self.conversion).map(Arc::new),
                trace: Vec::new(),
            };
        };
        let prepared = Prepared::new(cluster.server(), written, cluster.data());
        let phases = Phases {
            server: cluster.server(),
            prepared: &prepared,
            environment,
        };
        let kyverno = phases.kyverno(&self.controller, None, None);
        let theirs = phases.native(native);
        let divergence = phases.compare(&kyverno, &theirs, std::slice::from_ref(&self.conversion));
        Counterpart {
            native: Some(Arc::new(NativeCaseVerdict {
                answer: CaseVerdict {
                    status: theirs.verdict.status,
                    effect: theirs.verdict.effect,
                    message: theirs.verdict.message,
                },
                policy: generated.map.model.metadata.name.value.clone(),
                binding: generated.binding.model.metadata.name.value.clone(),
            })),
            divergence: divergence.map(Arc::new),
            trace: theirs.answer.trace(environment),
        }
    }
}
