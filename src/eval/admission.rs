//! The complete admission of a request on both sides: the mutating phase, completion by the API server, the validating
//! phase.
//!
//! Upstream counterpart: see [`kyvtest_prove::mutation`].
//!
//! With [`Data::Raw`] the first policy sees the object of the request unchanged, and validating policies see the result
//! of mutation; the server completes and validates objects with [`Data::Normalised`] only.

use kyvtest_apiserver::AdmissionResponse;
use kyvtest_kyverno::controller::Review;
use kyvtest_model::{compare::Divergence, kube::Request};
use kyvtest_prove::{
    mutation::{Phases, Prepared, Side, missing_counterpart},
    server::{Data, Refused, Server},
};

use super::{BothResponses, Evaluator, kyverno_answer};

impl Evaluator {
    /// Evaluates a request as sent. The second value is the server's error before any policy: the policies then see the
    /// object unchanged.
    pub fn evaluate(&self, request: &Request, data: Data) -> (BothResponses, Option<Refused>) {
        let server = Server::new(&self.cluster.discovery, self.cluster.world.params.clone());
        self.evaluate_on(&server, request, data)
    }

    /// Like [`Evaluator::evaluate`], with a server that completes objects in its own way.
    pub fn evaluate_on(&self, server: &Server, request: &Request, data: Data) -> (BothResponses, Option<Refused>) {
        if !self.mutates() {
            return self.evaluate_unchanged(server, request, data);
        }
        let prepared = Prepared::new(server, request, data);
        let phases = Phases {
            server,
            prepared: &prepared,
            environment: self.cluster.environment(),
        };
        let controller = self.controller.as_ref();
        let has_kyverno = !self.mutating.is_empty() || controller.is_some() || self.beside.is_some();
        let kyverno = has_kyverno.then(|| phases.kyverno(&self.mutating, controller, self.beside.as_ref()));
        let native = self.native.as_ref().map(|native| phases.native(&native.server));
        let divergence = match (&kyverno, &native) {
            (Some(kyverno), Some(native)) => self.mutation_divergence(phases, kyverno, native),
            (Some(_), None) => self.missing_counterpart(),
            (None, _) => None,
        };
        let divergence = divergence.or_else(|| self.without_counterpart());
        let answers = BothResponses {
            divergence,
            generated: self.native.as_ref().is_some_and(|native| native.generated),
            kyverno_object: kyverno.as_ref().and_then(|side| side.object.clone()),
            vap_object: native.as_ref().and_then(|side| side.object.clone()),
            kyverno: kyverno.map(|side| kyverno_answer(&prepared.request, side.answer)),
            vap: native.map(|side| side.answer),
        };
        (answers, prepared.refused)
    }

    /// Evaluates a request that no mutating policy changes.
    fn evaluate_unchanged(&self, server: &Server, request: &Request, data: Data) -> (BothResponses, Option<Refused>) {
        let mut seen = request.clone();
        let refused = match data {
            Data::Raw => None,
            Data::Normalised => server.admit(&mut seen).err(),
        };
        if self.beside.is_none() {
            return (self.decide(&seen), refused);
        }
        let prepared = Prepared::new(server, request, data);
        let phases = Phases {
            server,
            prepared: &prepared,
            environment: self.cluster.environment(),
        };
        let side = phases.kyverno(&self.mutating, self.controller.as_ref(), self.beside.as_ref());
        let mut answers = self.respond(&seen, Some(side.answer));
        answers.kyverno_object = side.object.filter(|object| !object.root().is_null());
        answers.divergence = answers.divergence.or_else(|| self.without_counterpart());
        (answers, refused)
    }

    /// The reason why a policy of another kind has no native counterpart, if the native policies are generated ones.
    fn without_counterpart(&self) -> Option<Divergence> {
        let mut policies = self.loaded.policies.iter();
        if policies.any(kyvtest_model::policy::Policy::is_native) {
            return None;
        }
        self.other_conversions.iter().find_map(missing_counterpart)
    }

    /// Whether a policy may change objects.
    fn mutates(&self) -> bool {
        let native = self.native.as_ref();
        !self.mutating.is_empty() || native.is_some_and(|native| !native.server.mutating_policies().is_empty())
    }

    fn mutation_divergence(
        &self,
        phases: Phases<'_>,
        kyverno: &Side<Review>,
        native: &Side<AdmissionResponse>,
    ) -> Option<Divergence> {
        if let Some(missing) = self.missing_counterpart() {
            return Some(missing);
        }
        let difference = phases.compare(kyverno, native, &self.mutating_conversions);
        if difference.is_some() || self.controller.is_none() {
            return difference;
        }
        // The objects are the same, so validating policies see the same on both sides.
        let object = phases.completed(kyverno)?;
        self.decide(&Request {
            object,
            ..phases.prepared.request.clone()
        })
        .divergence
    }

    /// The reason why a MutatingPolicy has no native counterpart, if the native policies are generated ones.
    fn missing_counterpart(&self) -> Option<Divergence> {
        let mut policies = self.loaded.policies.iter();
        if policies.any(kyvtest_model::policy::Policy::is_native) {
            return None;
        }
        self.mutating_conversions.iter().find_map(missing_counterpart)
    }
}
