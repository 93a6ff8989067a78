//! The whole way of a request through both sides: the mutating phase, completion by the API server, the validating phase.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/endpoints/handlers/{create,update}.go` (0.36) with the admission chain.
//!
//! With [`Data::Raw`] the object of the request is the one that the first policy sees, and what a mutation leaves is what
//! validating policies see; the server completes and validates it with [`Data::Normalised`] only.
//!
//! Known deviation: mutate rules of ClusterPolicies and Policies are not evaluated here.

use kyvtest_apiserver::Answer;
use kyvtest_convert::{Conversion, Outcome, hazard::Direction};
use kyvtest_go_compat::value::Document;
use kyvtest_kyverno::{controller::Review, refusal::Refusal};
use kyvtest_model::{
    compare::{Divergence, Mutation, Suspect, Tendency, compare_mutations},
    kube::Request,
    verdict::{DivergenceClass, Effect, Status, Verdict},
};
use kyvtest_prove::{
    pair::NativeVerdict,
    server::{Data, Refused, Server},
};

use super::{Answers, Evaluator, installable, kyverno_answer};

/// What one side made of a request.
struct Side<T> {
    answer: T,
    verdict: Verdict,
    /// The object in the response; `None` if the request is refused.
    object: Option<Document>,
    changed: bool,
}

impl<T> Side<T> {
    fn mutation(&self) -> Mutation<'_> {
        Mutation {
            verdict: &self.verdict,
            object: self.object.as_ref(),
            changed: self.changed,
        }
    }
}

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
        let kyverno = self.kyverno_side(server, &seen, completes);
        let native = self.native_side(server, &seen, completes);
        let divergence = match (&kyverno, &native) {
            (Some(kyverno), Some(native)) => self.mutation_divergence(server, &seen, kyverno, native),
            (Some(_), None) => self.missing_counterpart(),
            (None, _) => None,
        };
        let answers = Answers {
            divergence,
            generated: self.native.as_ref().is_some_and(|native| native.generated),
            kyverno_object: kyverno.as_ref().and_then(|side| side.object.clone()),
            vap_object: native.as_ref().and_then(|side| side.object.clone()),
            kyverno: kyverno.map(|side| kyverno_answer(&seen, side.answer)),
            vap: native.map(|side| side.answer),
        };
        (answers, refused)
    }

    /// Whether a policy may change objects.
    fn mutates(&self) -> bool {
        let native = self.native.as_ref();
        !self.mutating.is_empty() || native.is_some_and(|native| !native.server.mutating_policies().is_empty())
    }

    fn native_side(&self, server: &Server, request: &Request, completes: bool) -> Option<Side<Answer>> {
        let native = self.native.as_ref()?;
        let environment = self.cluster.environment();
        let mutated = native.server.mutate(request, environment, server.cluster());
        let changed = mutated.object != request.object;
        let side = |answer: Answer, object: Option<Document>| Side {
            verdict: NativeVerdict::of(answer.clone()).verdict,
            answer,
            object,
            changed,
        };
        if let Some(answer) = mutated.answer(request) {
            return Some(side(answer, None));
        }
        let mut after = Request {
            object: mutated.object,
            ..request.clone()
        };
        let mut returned = after.object.clone();
        if completes {
            match server.complete(&mut after) {
                Ok(object) => returned = object,
                Err(refused) => return Some(side(refused_later(request, &refused), None)),
            }
        }
        let mut answer = native.server.review(&after, environment);
        let mut verdicts = mutated.verdicts;
        verdicts.append(&mut answer.verdicts);
        answer.verdicts = verdicts;
        answer.summarise();
        let object = answer.allowed.then_some(returned);
        Some(side(answer, object))
    }

    fn kyverno_side(&self, server: &Server, request: &Request, completes: bool) -> Option<Side<Review>> {
        if self.mutating.is_empty() && self.controller.is_none() {
            return None;
        }
        let environment = self.cluster.environment();
        let complete = |object: &Document| server.patched(request, object);
        let mutated = self.mutating.review(request, environment, &complete);
        let changed = mutated.object != request.object;
        let mut review = Review {
            answers: mutated.answers,
            refusal: mutated.refusal,
            warnings: Vec::new(),
            silent: Vec::new(),
        };
        let mut after = Request {
            object: mutated.object,
            ..request.clone()
        };
        let mut returned = after.object.clone();
        if review.refusal.is_none() {
            match complete_kyverno(server, request, &mut after, (changed, completes)) {
                Ok(object) => returned = object,
                Err(refused) => {
                    review.refusal = Some(Refusal {
                        code: refused.code(),
                        message: refused.message,
                    });
                }
            }
        }
        if let (None, Some(controller)) = (&review.refusal, &self.controller) {
            let mut validated = controller.review(&after, environment);
            review.answers.append(&mut validated.answers);
            review.warnings.append(&mut validated.warnings);
            review.silent.append(&mut validated.silent);
            review.refusal = validated.refusal;
        }
        Some(Side {
            verdict: review.verdict(),
            object: review.refusal.is_none().then_some(returned),
            answer: review,
            changed,
        })
    }

    fn mutation_divergence(
        &self,
        server: &Server,
        request: &Request,
        kyverno: &Side<Review>,
        native: &Side<Answer>,
    ) -> Option<Divergence> {
        if let Some(missing) = self.missing_counterpart() {
            return Some(missing);
        }
        // A side that changes nothing leaves the object as it was given, the other one gets defaults with it.
        let complete = |object: &Option<Document>| {
            let object = object.as_ref()?;
            Some(server.patched(request, object).unwrap_or_else(|_| object.clone()))
        };
        let (ours, theirs) = (complete(&kyverno.object), complete(&native.object));
        let texts = suspects(&self.mutating_conversions);
        let suspects: Vec<Suspect<'_>> = texts
            .iter()
            .map(|(code, tendency, path, text)| Suspect {
                code,
                tendency: *tendency,
                path,
                text,
            })
            .collect();
        let difference = compare_mutations(
            Mutation {
                object: ours.as_ref(),
                ..kyverno.mutation()
            },
            Mutation {
                object: theirs.as_ref(),
                ..native.mutation()
            },
            &suspects,
        );
        if difference.is_some() || self.controller.is_none() {
            return difference;
        }
        // The objects are the same, so validating policies see the same on both sides.
        let object = ours?;
        self.decide(&Request {
            object,
            ..request.clone()
        })
        .divergence
    }

    /// Why a MutatingPolicy has no native counterpart, if the native policies are the generated ones.
    fn missing_counterpart(&self) -> Option<Divergence> {
        let given = self
            .loaded
            .policies
            .iter()
            .any(kyvtest_model::policy::Policy::is_native);
        let missing = self
            .mutating_conversions
            .iter()
            .find(|one| installable(one).is_none())?;
        if given {
            return None;
        }
        let (code, cause) = match &missing.outcome {
            Outcome::Refused(refusal) => {
                let advice = refusal.code.advice().to_owned();
                (refusal.code.as_str(), refusal.message.clone().unwrap_or(advice))
            }
            Outcome::Mutating(generated) => {
                let checked = [&generated.map.checked, &generated.binding.checked];
                let refused = checked.into_iter().find(|checked| !checked.errors.is_empty());
                let message = refused.map(|checked| checked.message.clone());
                ("map-invalid", message.unwrap_or_default())
            }
            Outcome::Generated(_) => return None,
        };
        Some(Divergence {
            class: DivergenceClass::NotConvertible,
            code: Some(code.to_owned()),
            cause,
        })
    }
}

/// What the API server does with the object between Kyverno's webhooks. Returns the object of the response.
fn complete_kyverno(
    server: &Server,
    request: &Request,
    after: &mut Request,
    (changed, completes): (bool, bool),
) -> Result<Document, Refused> {
    if changed {
        after.object = server.reinvoke(request, &after.object)?;
    }
    if completes {
        server.complete(after)
    } else {
        Ok(after.object.clone())
    }
}

/// The hazards of conversions that may make the sides differ: code, tendency, path and text.
fn suspects(conversions: &[Conversion]) -> Vec<(&'static str, Tendency, &str, String)> {
    let items = conversions.iter().flat_map(|conversion| &conversion.report);
    items
        .filter_map(|item| {
            let hazard = item.hazard?;
            let tendency = match hazard.direction {
                Direction::Weaker => Tendency::Weaker,
                Direction::Stricter => Tendency::Stricter,
                Direction::Either => Tendency::Either,
                Direction::Text => Tendency::Text,
                Direction::NotInstallable | Direction::Offline | Direction::Equal => return None,
            };
            let text = format!("{}; {}", hazard.title, hazard.advice);
            Some((hazard.code, tendency, item.path.as_str(), text))
        })
        .collect()
}

/// The answer of a server that refuses what the policies made of an object.
fn refused_later(request: &Request, refused: &Refused) -> Answer {
    let mut answer = Answer::admitted(request);
    answer.allowed = false;
    answer.status = Status::Error;
    answer.effect = Effect::Deny;
    answer.code = refused.code();
    refused.stage.reason().clone_into(&mut answer.reason);
    answer.message.clone_from(&refused.message);
    answer
}
