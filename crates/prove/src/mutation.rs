//! The mutating and the validating phase of one request on each side, and the differences between the objects after
//! admission.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/endpoints/handlers/{create,update}.go` (0.36) with the admission chain.
//!
//! Known deviations: the entry of the requester in `managedFields` names no fields, and its manager is always `client`.

mod difference;
mod proof;

use std::sync::Arc;

use kyvtest_apiserver::{self as vap, AdmissionResponse};
use kyvtest_convert::{Conversion, GeneratedMutation, Outcome, hazard::Direction};
use kyvtest_go_compat::value::{Document, Value};
use kyvtest_kyverno::{
    controller::{Controller, Review},
    mutating_controller::MutatingController,
    offline::Beside,
    refusal::Refusal,
};
use kyvtest_model::{
    compare::{CandidateCause, Divergence, Mutation, Tendency, compare_mutations},
    kube::{Environment, Operation, Request},
    policy::{Policy, Spanned, autogen::ANNOTATION},
    verdict::{DivergenceClass, Effect, Status, Verdict},
};
use serde_json::json;

use crate::{
    Layer,
    pair::NativeVerdict,
    server::{Data, Refused, Server},
};

pub use difference::{Difference, differences};
pub use proof::{MutatingTarget, prove_mutating};

/// The maximum number of listed differences between two objects.
const SHOWN: usize = 5;

/// The result of one side.
#[derive(Debug)]
pub struct Side<T> {
    pub answer: T,
    pub verdict: Verdict,
    /// The object in the response; `None` if the request is refused.
    pub object: Option<Document>,
    pub changed: bool,
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

/// A request as mutating policies see it.
#[derive(Debug)]
pub struct Prepared {
    pub request: Request,
    /// The refusal of the server before any policy: the policies then see the object as it is.
    pub refused: Option<Refused>,
    /// Whether the server completes and validates objects after the mutating phase.
    completes: bool,
    /// Whether `managedFields` are not those of the request.
    is_managed: bool,
}

impl Prepared {
    /// Prepares a request as it was sent.
    pub fn new(server: &Server, sent: &Request, data: Data) -> Self {
        let mut request = sent.clone();
        let refused = match data {
            Data::Raw => None,
            Data::Normalised => server.prepare(&mut request).err(),
        };
        let completes = data == Data::Normalised && refused.is_none();
        let is_managed = completes && add_manager(server, &mut request);
        Self {
            request,
            refused,
            completes,
            is_managed,
        }
    }

    /// The object without the entry that [`add_manager`] added.
    fn unmanaged(&self, object: Document) -> Document {
        if self.is_managed {
            without_manager(&object)
        } else {
            object
        }
    }
}

/// The two sides of a request.
#[derive(Clone, Copy)]
pub struct Phases<'p> {
    pub server: &'p Server,
    pub prepared: &'p Prepared,
    pub environment: Environment<'p>,
}

impl std::fmt::Debug for Phases<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Phases")
            .field("prepared", self.prepared)
            .finish_non_exhaustive()
    }
}

impl Phases<'_> {
    /// The API server with native policies.
    pub fn native(self, native: &vap::Server) -> Side<AdmissionResponse> {
        let request = &self.prepared.request;
        let mutated = native.mutate(request, self.environment, self.server.cluster());
        let changed = mutated.object != request.object;
        let side = |answer: AdmissionResponse, object: Option<Document>| Side {
            verdict: NativeVerdict::of(answer.clone()).verdict,
            answer,
            object,
            changed,
        };
        if let Some(answer) = mutated.response(request) {
            return side(answer, None);
        }
        let mut after = Request {
            object: self.prepared.unmanaged(mutated.object),
            ..request.clone()
        };
        let mut returned = after.object.clone();
        if self.prepared.completes {
            match self.server.complete(&mut after) {
                Ok(object) => returned = object,
                Err(refused) => return side(refused_later(request, &refused), None),
            }
        }
        let mut answer = native.review(&after, self.environment);
        let mut verdicts = mutated.verdicts;
        verdicts.append(&mut answer.verdicts);
        answer.verdicts = verdicts;
        answer.summarise();
        let object = answer.allowed.then_some(returned);
        side(answer, object)
    }

    /// Kyverno's mutating webhooks, then its validating ones; `beside` are policies of other kinds.
    pub fn kyverno(
        self,
        mutating: &MutatingController,
        controller: Option<&Controller>,
        beside: Option<&Beside>,
    ) -> Side<Review> {
        let request = &self.prepared.request;
        let complete = |object: &Document| self.server.patched(request, object);
        let mut mutated = mutating.review(request, self.environment, &complete);
        let mut changed = mutated.object != request.object;
        let mut review = Review {
            responses: mutated.responses,
            refusal: mutated.refusal,
            warnings: Vec::new(),
            silent: Vec::new(),
        };
        let mut after = Request {
            object: mutated.object.clone(),
            ..request.clone()
        };
        let mut returned = after.object.clone();
        if review.refusal.is_none() {
            let current = after.clone();
            let mut validate = |object: &mut Document, review: &mut Review| {
                changed |= *object != request.object;
                after.object = object.clone();
                match self.complete_kyverno(&mut after, changed) {
                    Ok(object) => returned = object,
                    Err(refused) => {
                        review.refusal = Some(Refusal {
                            code: refused.code(),
                            message: refused.message,
                        });
                    }
                }
                object.clone_from(&after.object);
                if let (None, Some(controller)) = (&review.refusal, controller) {
                    let mut validated = controller.review(&after, self.environment);
                    review.responses.append(&mut validated.responses);
                    review.warnings.append(&mut validated.warnings);
                    review.silent.append(&mut validated.silent);
                    review.refusal = validated.refusal;
                }
                review.refusal.is_none()
            };
            match beside {
                Some(beside) => beside.review(&current, self.environment, &mut review, &mut validate),
                None => {
                    validate(&mut mutated.object, &mut review);
                }
            }
        }
        Side {
            verdict: review.verdict(),
            object: review.refusal.is_none().then_some(returned),
            answer: review,
            changed,
        }
    }

    /// The API server's part between Kyverno's webhooks. Returns the object of the response.
    fn complete_kyverno(self, after: &mut Request, changed: bool) -> Result<Document, Refused> {
        if changed {
            after.object = self.server.reinvoke(&self.prepared.request, &after.object)?;
        }
        after.object = self.prepared.unmanaged(after.object.clone());
        if self.prepared.completes {
            self.server.complete(after)
        } else {
            Ok(after.object.clone())
        }
    }

    /// The object of a side with defaults: a side that changes nothing leaves it as it was given, the other one completes it.
    pub fn completed<T>(self, side: &Side<T>) -> Option<Document> {
        let object = side.object.as_ref()?;
        let patched = self.server.patched(&self.prepared.request, object);
        Some(patched.unwrap_or_else(|_| object.clone()))
    }

    /// The difference of the two sides, with its first cause among the hazards of the conversions.
    pub fn compare(
        self,
        kyverno: &Side<Review>,
        native: &Side<AdmissionResponse>,
        conversions: &[Conversion],
    ) -> Option<Divergence> {
        let (ours, theirs) = (self.completed(kyverno), self.completed(native));
        divergence(
            Mutation {
                object: ours.as_ref(),
                ..kyverno.mutation()
            },
            Mutation {
                object: theirs.as_ref(),
                ..native.mutation()
            },
            conversions,
        )
    }
}

/// The difference of what the two sides made of a request, with its first cause among the hazards of the conversions.
pub fn divergence(kyverno: Mutation<'_>, native: Mutation<'_>, conversions: &[Conversion]) -> Option<Divergence> {
    let texts = suspects(conversions);
    let suspects: Vec<CandidateCause<'_>> = texts
        .iter()
        .filter(|(code, ..)| may_explain(code, kyverno.verdict, native.verdict))
        .map(|(code, tendency, path, text)| CandidateCause {
            code,
            tendency: *tendency,
            path,
            text,
        })
        .collect();
    let mut divergence = compare_mutations(kyverno, native, &suspects)?;
    if let (Some(ours), Some(theirs)) = (kyverno.object, native.object) {
        divergence
            .cause
            .push_str(&named_places(ours, theirs, ["Kyverno", "native policy"]));
    }
    Some(divergence)
}

/// The places at which two objects differ, with both values, as the end of a sentence.
pub fn named_places(ours: &Document, theirs: &Document, [left, right]: [&str; 2]) -> String {
    let found = differences(&ours.root().to_serde(), &theirs.root().to_serde());
    let show = |value: &Option<serde_json::Value>| match value {
        Some(value) => value.to_string(),
        None => "nothing".to_owned(),
    };
    let mut parts: Vec<String> = found
        .iter()
        .take(SHOWN)
        .map(|Difference { path, expected, actual }| {
            format!("; `{path}`: {left} {}, {right} {}", show(expected), show(actual))
        })
        .collect();
    if found.len() > SHOWN {
        parts.push(format!("; and {} more places", found.len() - SHOWN));
    }
    parts.concat()
}

/// What was generated from a MutatingPolicy, if the API server accepts it.
pub fn installable(conversion: &Conversion) -> Option<&GeneratedMutation> {
    match &conversion.outcome {
        Outcome::Mutating(generated) => Some(&**generated).filter(|generated| generated.is_installable()),
        Outcome::Generated(_) | Outcome::Refused(_) => None,
    }
}

/// Why a MutatingPolicy has no native counterpart; `None` if it has one.
pub fn missing_counterpart(conversion: &Conversion) -> Option<Divergence> {
    if installable(conversion).is_some() {
        return None;
    }
    let (code, cause) = match &conversion.outcome {
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

/// The hazards of conversions that may make the sides differ: code, tendency, path and message.
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

/// Whether a hazard that affects only one error may explain the errors of the two sides.
fn may_explain(code: &str, kyverno: &Verdict, native: &Verdict) -> bool {
    match code {
        "M14" => native.message.contains("strict decoding error"),
        "M15" => kyverno.message.contains("Object 'Kind' is missing"),
        _ => true,
    }
}

/// The response of a server that rejects the object after mutation.
fn refused_later(request: &Request, refused: &Refused) -> AdmissionResponse {
    let mut answer = AdmissionResponse::admitted(request);
    answer.allowed = false;
    answer.status = Status::Error;
    answer.effect = Effect::Deny;
    answer.code = refused.code();
    refused.stage.reason().clone_into(&mut answer.reason);
    answer.message.clone_from(&refused.message);
    answer
}

/// Adds the entry of the requester to `managedFields`, which the server does before the mutating phase. Returns whether
/// it did: existing entries are kept.
fn add_manager(server: &Server, request: &mut Request) -> bool {
    let resource = &request.resource;
    let api_version = resource.object_kind.api_version();
    let writes = matches!(request.operation, Operation::Create | Operation::Update);
    let root = request.object.root();
    if !writes
        || !resource.subresource.is_empty()
        || !server.knows(&api_version, &resource.object_kind.kind)
        || root
            .at(&["metadata", "managedFields"])
            .is_some_and(|fields| !fields.is_null())
    {
        return false;
    }
    let mut object = root.to_serde();
    let Some(metadata) = object.get_mut("metadata").and_then(|metadata| metadata.as_object_mut()) else {
        return false;
    };
    let entry = json!({
        "manager": "client", "operation": "Update", "apiVersion": api_version, "time": server.cluster().now,
        "fieldsType": "FieldsV1", "fieldsV1": {},
    });
    metadata.insert("managedFields".to_owned(), json!([entry]));
    request.object = Document::from(&object);
    true
}

fn without_manager(object: &Document) -> Document {
    let managed = object.root().at(&["metadata", "managedFields"]);
    if managed.is_none_or(Value::is_null) {
        return object.clone();
    }
    let mut object = object.root().to_serde();
    if let Some(metadata) = object.get_mut("metadata").and_then(|metadata| metadata.as_object_mut()) {
        metadata.remove("managedFields");
    }
    Document::from(&object)
}

/// The policy with what counts at a layer: the mutating engines have no lens for it.
pub(crate) fn at_layer(original: &Policy, layer: Layer) -> Policy {
    if layer != Layer::Rule {
        return original.clone();
    }
    match original {
        Policy::Classic(policy) => {
            let mut policy = (**policy).clone();
            policy.spec.admission = true;
            if let Some(webhook) = &mut policy.spec.webhook {
                webhook.match_conditions.clear();
            }
            let span = policy.metadata.name.span;
            let annotations = &mut policy.metadata.annotations;
            annotations.retain(|(key, _)| key.value != ANNOTATION);
            annotations.push((
                Spanned::new(ANNOTATION.to_owned(), span),
                Spanned::new("none".to_owned(), span),
            ));
            Policy::Classic(Arc::new(policy))
        }
        Policy::Validating(policy) => {
            let mut policy = (**policy).clone();
            policy.spec.autogen.pod_controllers = Some(Vec::new());
            policy.spec.evaluation.admission = true;
            Policy::Validating(Arc::new(policy))
        }
        Policy::Mutating(policy) => {
            let mut policy = (**policy).clone();
            policy.spec.autogen.pod_controllers = Some(Vec::new());
            policy.spec.evaluation.admission = true;
            Policy::Mutating(Arc::new(policy))
        }
        _ => original.clone(),
    }
}
