//! The whole way of a request through both sides: the mutating phase, completion by the API server, the validating phase.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/endpoints/handlers/{create,update}.go` (0.36) with the admission chain.
//!
//! With [`Data::Raw`] the object of the request is the one that the first policy sees, and what a mutation leaves is what
//! validating policies see; the server completes and validates it with [`Data::Normalised`] only.

use kyvtest_apiserver::{Answer, admitted_code};
use kyvtest_go_compat::value::Document;
use kyvtest_model::{
    kube::Request,
    verdict::{Effect, Status},
};
use kyvtest_prove::server::{Data, Refused, Server};

use super::{Answers, Evaluator};

impl Evaluator {
    /// Evaluates a request as it was sent. The refusal is that of the server before any policy: the policies then see the
    /// object as it is.
    pub fn evaluate(&self, request: &Request, data: Data) -> (Answers, Option<Refused>) {
        let server = Server::new(&self.cluster.discovery, self.cluster.world.params.clone());
        self.evaluate_on(&server, request, data)
    }

    /// The same with a server that completes objects in its own way.
    pub fn evaluate_on(&self, server: &Server, request: &Request, data: Data) -> (Answers, Option<Refused>) {
        let mut seen = request.clone();
        if !self.mutates() {
            let refused = match data {
                Data::Raw => None,
                Data::Normalised => server.admit(&mut seen).err(),
            };
            return (self.decide(&seen), refused);
        }
        let refused = match data {
            Data::Raw => None,
            Data::Normalised => server.prepare(&mut seen).err(),
        };
        let completes = data == Data::Normalised && refused.is_none();
        let (vap, vap_object) = self.native_side(server, &seen, completes);
        let answers = Answers {
            kyverno: None,
            vap,
            generated: false,
            divergence: None,
            kyverno_object: None,
            vap_object,
        };
        (answers, refused)
    }

    /// Whether a policy may change objects.
    fn mutates(&self) -> bool {
        let native = self.native.as_ref();
        native.is_some_and(|native| !native.server.mutating_policies().is_empty())
    }

    fn native_side(&self, server: &Server, request: &Request, completes: bool) -> (Option<Answer>, Option<Document>) {
        let Some(native) = &self.native else {
            return (None, None);
        };
        let environment = self.cluster.environment();
        let mutated = native.server.mutate(request, environment, server.cluster());
        if let Some(answer) = mutated.answer(request) {
            return (Some(answer), None);
        }
        let mut after = Request {
            object: mutated.object,
            ..request.clone()
        };
        if completes && let Err(refused) = server.complete(&mut after) {
            return (Some(refused_later(request, &refused)), None);
        }
        let mut answer = native.server.review(&after, environment);
        let mut verdicts = mutated.verdicts;
        verdicts.append(&mut answer.verdicts);
        answer.verdicts = verdicts;
        answer.summarise();
        let object = (answer.allowed && !after.object.root().is_null()).then_some(after.object);
        (Some(answer), object)
    }
}

/// The answer of a server that refuses what the policies made of an object.
fn refused_later(request: &Request, refused: &Refused) -> Answer {
    let mut answer = Answer::admitted(request);
    debug_assert_eq!(answer.code, admitted_code(request.operation), "an admitted request");
    answer.allowed = false;
    answer.status = Status::Error;
    answer.effect = Effect::Deny;
    answer.code = refused.code();
    refused.stage.reason().clone_into(&mut answer.reason);
    answer.message.clone_from(&refused.message);
    answer
}
