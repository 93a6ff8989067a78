//! Requests of a cluster through the stages of a test: the policies that neither mutate nor validate.
//!
//! Upstream counterpart: `pkg/webhooks/resource/{imageverification,ivpol,generation,gpol}` and the controllers behind them
//! (1.19). Images are verified before the validating phase; objects are generated, and policies that delete look at the object,
//! once the request is admitted.
//!
//! Known deviations: mutate rules and MutatingPolicies come before images, as in
//! [`crate::mutating_controller::MutatingController`]; filters of Kyverno's configuration do not count.

use std::sync::Arc;

use super::{
    Surroundings,
    case::{Case, CloneSource},
    observed::{PolicyResponse, RuleType},
    resource::Resource,
    run::request_pass,
    values::GivenValues,
};
use crate::{
    classic::context::{Api, Given},
    controller::Review,
    deleting_policy::CompiledDeletingPolicy,
    generating_policy::CompiledGeneratingPolicy,
    input::Input,
    lens::Lens,
    refusal::{Refusal, RuleReview},
    response::RuleResponse,
    schedule,
    webhook::{Call, Webhook},
};
use kyvtest_go_compat::{
    diagnostic::{Sources, Span},
    value::{Document, Value},
};
use kyvtest_model::{
    kube::{Discovery, Environment, Operation, Request, UserInfo},
    policy::{ClassicPolicy, FailurePolicy, Loaded, Origin, Policy, PolicyId, ValidationAction},
    verdict::{Part, Status, Trace},
};
use serde_json::json;

/// The policies of a cluster beside those that mutate and validate.
#[derive(Debug)]
pub struct Beside {
    case: Case,
    /// The classic policies that verify images or generate, each with its mutating webhook if it has one.
    classic: Vec<(Arc<ClassicPolicy>, Option<Webhook>)>,
}

impl Beside {
    /// Prepares the policies of a cluster with its objects, and returns those that Kyverno refuses with the reason; `None` if there is no
    /// policy of these kinds. `accepted` are the classic policies that Kyverno accepts.
    pub fn new<'p>(
        loaded: &Loaded,
        accepted: impl IntoIterator<Item = &'p Arc<ClassicPolicy>>,
        objects: &[Document],
        surroundings: Surroundings,
        discovery: &Discovery,
    ) -> (Option<Self>, Vec<(PolicyId, String)>) {
        let beside = |policy: &&Arc<ClassicPolicy>| {
            let mut rules = policy.spec.rules.iter();
            rules.any(|rule| rule.verify_images.is_some() || rule.generate.is_some())
        };
        let classic = accepted.into_iter().filter(beside);
        let classic: Vec<_> = classic
            .map(|policy| (Arc::clone(policy), Webhook::of_mutate_rules(policy, discovery)))
            .collect();
        let mut policies = loaded.clone();
        let mut refused = Vec::new();
        policies.policies.retain(|policy| match compile(policy, loaded) {
            Some(Ok(())) => true,
            Some(Err(error)) => {
                refused.push((policy.id(), error));
                false
            }
            None => false,
        });
        if classic.is_empty() && policies.policies.is_empty() {
            return (None, refused);
        }
        policies.refused = None;
        (
            Some(Self {
                case: case(policies, loaded.clone(), objects, surroundings),
                classic,
            }),
            refused,
        )
    }

    /// Reviews a request that the mutating policies have changed. `validate` completes the object and adds the results of
    /// the validating phase to the review; it returns whether that phase admits the request.
    pub fn review(
        &self,
        request: &Request,
        environment: Environment<'_>,
        review: &mut Review,
        validate: &mut dyn FnMut(&mut Document, &mut Review) -> bool,
    ) {
        let mut called = Vec::new();
        for (policy, webhook) in &self.classic {
            match call(webhook.as_ref(), request, environment) {
                Call::Made => called.push(policy),
                Call::NotMade(_) => {}
                Call::Refused(error) => {
                    review.refusal = Some(Refusal::by_condition(request, &error));
                    return;
                }
            }
        }
        let resource = resource(request);
        let passed = request_pass(&self.case, (&resource, request, environment), &called, &mut |object| {
            validate(object, review)
        });
        let responses = passed.unwrap_or_else(|error| vec![failed(&resource, error)]);
        let mut undecided = Vec::new();
        let before = review.responses.len();
        for mut response in responses {
            response.mark_undecided(&mut undecided);
            self.add(response, review);
        }
        if review.refusal.is_none() {
            review.refusal = Refusal::of(request, review.responses.get(before..).unwrap_or_default());
        }
    }

    fn add(&self, response: PolicyResponse, review: &mut Review) {
        let (id, is_classic) = Self::identity(&response);
        let warns = self.warns(&id);
        for result in response.rules {
            let word = match result.response.status {
                Status::Fail => "failed",
                _ => "error",
            };
            if warns && matches!(result.response.status, Status::Fail | Status::Error) {
                let warning = format!("Policy {} {word}: {}", id.name, result.response.message);
                review.warnings.push(warning);
            }
            let webhook = self.webhook(&id, result.rule_type);
            review.responses.push(RuleReview {
                webhook,
                id: id.clone(),
                policy: response.policy.clone(),
                is_cel_policy: !is_classic,
                response: result.response,
                generated: result.generated,
            });
        }
    }

    /// Whether an ImageValidatingPolicy warns the client.
    fn warns(&self, id: &PolicyId) -> bool {
        let mut policies = self.case.policies.image_validating();
        let policy = policies.find(|policy| policy.id() == *id);
        let actions = policy.and_then(|policy| policy.spec.validation_actions.as_deref());
        let mut actions = actions.unwrap_or_default().iter();
        actions.any(|action| action.value == ValidationAction::Warn)
    }

    fn identity(response: &PolicyResponse) -> (PolicyId, bool) {
        let is_classic = matches!(response.kind, "ClusterPolicy" | "Policy");
        let group = if is_classic || response.kind.ends_with("CleanupPolicy") {
            "kyverno.io"
        } else {
            "policies.kyverno.io"
        };
        let id = PolicyId {
            group,
            kind: response.kind,
            namespace: response.policy_namespace.clone(),
            name: response.policy.clone(),
        };
        (id, is_classic)
    }

    /// The name of the webhook through which a result came.
    fn webhook(&self, id: &PolicyId, rule_type: RuleType) -> String {
        if rule_type == RuleType::Validation {
            let own = self.classic.iter().find(|(policy, _)| policy.id() == *id);
            let webhook = own.and_then(|(_, webhook)| webhook.as_ref());
            let ignores = webhook.is_some_and(|webhook| !webhook.fails());
            return format!("validate.kyverno.svc-{}", if ignores { "ignore" } else { "fail" });
        }
        if id.kind.ends_with("ImageValidatingPolicy") {
            let mut policies = self.case.policies.image_validating();
            let policy = policies.find(|policy| policy.metadata.name.value == id.name);
            let word = policy.and_then(|policy| policy.spec.failure_policy.as_ref());
            let ignores = word.is_some_and(|word| word.value == FailurePolicy::Ignore);
            return format!("ivpol.validate.kyverno.svc-{}", if ignores { "ignore" } else { "fail" });
        }
        let own = self.classic.iter().find(|(policy, _)| policy.id() == *id);
        let webhook = own.and_then(|(_, webhook)| webhook.as_ref());
        webhook.map(|webhook| webhook.name().to_owned()).unwrap_or_default()
    }
}

/// Whether a policy is of a kind beside mutation and validation, and what does not compile.
fn compile(policy: &Policy, loaded: &Loaded) -> Option<Result<(), String>> {
    let exceptions = loaded.cel_exceptions.iter().map(|exception| &**exception);
    match policy {
        Policy::Generating(policy) => {
            let compiled = CompiledGeneratingPolicy::compile(&policy.as_stored(), exceptions);
            Some(compiled.map(drop).map_err(|error| error.to_string()))
        }
        Policy::Deleting(policy) => {
            if let Err(error) = schedule::check(&policy.spec.schedule.value) {
                return Some(Err(error));
            }
            let compiled = CompiledDeletingPolicy::compile(&policy.as_stored(), exceptions);
            Some(compiled.map(drop).map_err(|error| error.to_string()))
        }
        Policy::Cleanup(policy) => Some(schedule::check(&policy.spec.schedule.value)),
        Policy::ImageValidating(_) => Some(Ok(())),
        _ => None,
    }
}

fn case(policies: Loaded, exceptions: Loaded, objects: &[Document], surroundings: Surroundings) -> Case {
    let namespaces = objects.iter().map(|object| object.root().to_serde());
    let namespaces: Vec<_> = namespaces
        .filter(|object| object["apiVersion"] == "v1" && object["kind"] == "Namespace")
        .collect();
    let given = Given {
        api: Api::Server,
        ..surroundings.given()
    };
    Case {
        file: "policy.yaml",
        applies: false,
        policies,
        exceptions,
        resources: Vec::new(),
        in_cluster: true,
        payload: None,
        targets: Vec::new(),
        clone_sources: vec![CloneSource {
            rule: None,
            objects: objects.iter().map(stored).collect(),
        }],
        values: GivenValues::new(Document::from(&json!({"namespaces": namespaces})).root(), given),
        surroundings,
        operation: None,
        user: UserInfo::default(),
        roles: None,
        cluster_roles: None,
    }
}

/// Whether the API server calls Kyverno for a policy.
fn call(webhook: Option<&Webhook>, request: &Request, environment: Environment<'_>) -> Call {
    let Some(webhook) = webhook else { return Call::Made };
    let Environment { world, discovery, host } = environment;
    webhook.call(&Input::new(request, world, discovery, Lens::CLUSTER), host)
}

/// An error that ends the evaluation of all policies.
fn failed(resource: &Resource, error: String) -> PolicyResponse {
    let response = RuleResponse::new("", Status::Error, error, Trace::error(Part::All));
    PolicyResponse {
        resource: resource.key(),
        rules: vec![super::RuleResult::new(RuleType::Validation, response)],
        ..PolicyResponse::default()
    }
}

/// The resource of a request: its object, or the old one of a deletion.
fn resource(request: &Request) -> Resource {
    let object = if request.operation == Operation::Delete {
        &request.old_object
    } else {
        &request.object
    };
    Resource {
        name: request.name.clone(),
        namespace: if request.resource.namespaced {
            request.namespace.clone()
        } else {
            String::new()
        },
        ..stored(object)
    }
}

/// An object of the cluster.
fn stored(object: &Document) -> Resource {
    let file = Sources::new().add("object.json", "");
    let root = object.root();
    let text = |path: &[&str]| root.at(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    Resource {
        api_version: text(&["apiVersion"]),
        kind: text(&["kind"]),
        namespace: text(&["metadata", "namespace"]),
        name: text(&["metadata", "name"]),
        namespace_defaulted: false,
        origin: Origin {
            file,
            document: 0,
            span: Span::point(file, 0),
        },
        object: Arc::new(object.clone()),
    }
}
