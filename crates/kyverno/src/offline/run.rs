//! The stages of `kyverno test` on one resource: mutation, then validation, each on what the one before left.
//!
//! Upstream counterpart: `ApplyPoliciesOnResource` and `makePolicyContext` of
//! `cmd/cli/kubectl-kyverno/processor/policy_processor.go` (1.19).

use std::sync::Arc;

use super::{
    case::Case,
    objects::Objects,
    observed::{Observed, PolicyResponse, RuleType},
    values::GivenValues,
};
use crate::{
    autogen::{all_rules, variants},
    classic_policy::CompiledPolicy,
    exception::CompiledException,
    input::Input,
    lens::Lens,
    mutate::{CompiledMutation, MutateResult},
    validating_policy::{Answer, CompiledValidatingPolicy},
};
use kyvtest_cel::host::Host;
use kyvtest_go_compat::value::{Data, Document, Value};
use kyvtest_model::{
    kube::{Discovery, GroupVersionKind, Operation, Request, Resource as Served, World},
    policy::{ClassicPolicy, Loaded, MatchConstraints, Refusal, validate},
};

/// Evaluates all policies of a test on its resource.
pub fn run(case: &Case, host: &dyn Host) -> Observed {
    if let Some(refused) = case.policies.refused {
        return Observed::failed(refusal(&case.policies, refused.reason));
    }
    let dropped = case.policies.dropped.iter();
    let mut observed = Observed {
        printed: dropped
            .map(|dropped| format!("ERROR: policies.yaml: failed to validate resource ({})", dropped.name))
            .collect(),
        ..Observed::default()
    };
    let mut accepted = Vec::new();
    for policy in case.policies.classic() {
        match validate(policy, &all_rules(policy)).error {
            Some(error) => observed.invalid.push((policy.metadata.name.value.clone(), error)),
            None => accepted.push(policy),
        }
    }
    if accepted.iter().any(|policy| has_webhook_conditions(policy)) {
        let text = "`kyverno test` panics: conditions of a webhook configuration need a cluster";
        return Observed::failed(text.to_owned());
    }
    let stages = Stages::new(case, host);
    let mut resource = (*case.resource.object).clone();
    stages.mutate(&accepted, &mut resource, &mut observed);
    stages.validate(&accepted, &resource, &mut observed);
    let rest = stages
        .mutating_policies(&mut resource, &mut observed)
        .and_then(|()| stages.validating_policies(&resource, &mut observed));
    match rest {
        Ok(()) => observed,
        Err(error) => {
            let name = &case.resource.name;
            Observed::failed(format!("failed to apply policies on resource {name} ({error})"))
        }
    }
}

/// The text with which the loader ends a run; upstream's for unknown fields.
fn refusal(loaded: &Loaded, reason: Refusal) -> String {
    let problems: Vec<String> = match reason {
        Refusal::UnknownField => {
            let paths = loaded.unknown_fields.iter();
            paths
                .map(|path| format!("{path}: Invalid value: value provided for unknown field"))
                .collect()
        }
        Refusal::Kind | Refusal::Exception => {
            let diagnostics = loaded.diagnostics.iter();
            diagnostics.map(|diagnostic| diagnostic.message.clone()).collect()
        }
    };
    let problems = problems.join("\n");
    format!("error: failed to load policies (failed to load file policies.yaml: failed to parse document ({problems}))")
}

fn has_webhook_conditions(policy: &ClassicPolicy) -> bool {
    let webhook = policy.spec.webhook.as_ref();
    webhook.is_some_and(|webhook| !webhook.match_conditions.is_empty())
}

/// What all stages share.
pub(super) struct Stages<'c> {
    pub(super) case: &'c Case,
    pub(super) host: &'c dyn Host,
    pub(super) world: World,
    pub(super) discovery: Discovery,
    served: Arc<Served>,
    objects: Objects,
    exceptions: Vec<CompiledException>,
}

/// A policy's identity in responses.
fn identity(policy: &ClassicPolicy) -> (String, String) {
    let namespace = policy.metadata.namespace.as_ref();
    (
        policy.metadata.name.value.clone(),
        namespace.map(|text| text.value.clone()).unwrap_or_default(),
    )
}

impl<'c> Stages<'c> {
    fn new(case: &'c Case, host: &'c dyn Host) -> Self {
        let mut world = World::new();
        case.values.describe_namespaces(&mut world);
        let mut discovery = Discovery::kubernetes();
        let served = served(case, &mut discovery);
        let exceptions = case.exceptions.exceptions.iter();
        Self {
            case,
            host,
            world,
            discovery,
            served,
            objects: Objects::new(std::iter::once(&case.resource).chain(&case.targets)),
            exceptions: exceptions.map(|exception| CompiledException::new(exception)).collect(),
        }
    }

    /// The request about an object, null if it is lost.
    pub(super) fn request(&self, object: &Document) -> Request {
        let operation = self.case.values.operation;
        let mut request = Request::about(operation, Arc::clone(&self.served), object.clone());
        if operation == Operation::Update {
            request.old_object = object.clone();
        }
        request.user = self.case.user.clone();
        request.roles.clone_from(&self.case.roles);
        request.cluster_roles.clone_from(&self.case.cluster_roles);
        request
    }

    /// The values for an object, found by its name.
    fn values(&self, object: &Document) -> GivenValues {
        let name = object.root().at(&["metadata", "name"]).and_then(Value::as_str);
        let mut values = self.case.values.clone();
        name.unwrap_or_default().clone_into(&mut values.resource);
        values
    }

    fn mutate(&self, policies: &[&Arc<ClassicPolicy>], resource: &mut Document, observed: &mut Observed) {
        for policy in policies {
            let Some(compiled) = CompiledMutation::new(policy) else {
                continue;
            };
            let (request, values) = (self.request(resource), self.values(resource));
            let input = Input::new(&request, &self.world, &self.discovery, Lens::CLI).with_values(&values);
            let response = compiled.evaluate(&input, &self.exceptions, Some(&self.objects), self.host);
            let (name, namespace) = identity(policy);
            observed.responses.push(PolicyResponse {
                policy: name,
                kind: policy.kind.name(),
                policy_namespace: namespace,
                rule_type: RuleType::Mutation,
                rules: response.rules,
                is_unchanged: !resource.root().is_null() && same(resource, &response.patched),
                patched: Some(response.patched.clone()),
            });
            *resource = response.patched;
        }
    }

    fn validate(&self, policies: &[&Arc<ClassicPolicy>], resource: &Document, observed: &mut Observed) {
        for policy in policies {
            let rules = all_rules(policy);
            if rules.iter().all(|rule| rule.validate.is_none()) {
                continue;
            }
            let compiled = CompiledPolicy::new(Arc::clone(policy));
            let (request, values) = (self.request(resource), self.values(resource));
            let input = Input::new(&request, &self.world, &self.discovery, Lens::CLI).with_values(&values);
            let decided = compiled.decide(&input, &self.exceptions, self.host);
            let validates = |name: &str| {
                let mut rules = rules.iter().filter(|rule| rule.validate.is_some());
                rules.any(|rule| rule.name.value == name)
            };
            let results = decided.rules.into_iter().filter(|response| validates(&response.rule));
            let results: Vec<MutateResult> = results.map(MutateResult::from).collect();
            let mutates = rules.iter().any(|rule| rule.mutate.is_some());
            let (name, namespace) = identity(policy);
            observed.responses.push(PolicyResponse {
                policy: name,
                kind: policy.kind.name(),
                policy_namespace: namespace,
                rule_type: RuleType::Validation,
                patched: (results.is_empty() && mutates).then(|| resource.clone()),
                is_unchanged: !resource.root().is_null(),
                rules: results,
            });
        }
    }

    fn validating_policies(&self, resource: &Document, observed: &mut Observed) -> Result<(), String> {
        let exceptions = self.case.exceptions.cel_exceptions.iter().map(|exception| &**exception);
        for policy in self.case.policies.validating() {
            let generated = variants(policy);
            let rewritten = generated.iter().map(|variant| &variant.policy);
            for variant in std::iter::once(&**policy).chain(rewritten) {
                let name = variant.metadata.name.value.clone();
                let compiled = CompiledValidatingPolicy::compile(variant, exceptions.clone())
                    .map_err(|error| format!("failed to compile policy {name} ({error})"))?;
                if resource.root().is_null() {
                    continue;
                }
                let request = self.request(resource);
                let input = Input::new(&request, &self.world, &self.discovery, Lens::CLI);
                let rules = match compiled.decide(&input, self.host) {
                    Answer::Rule(response) => vec![response.into()],
                    Answer::NoMatch(_) if is_plain(variant.spec.match_constraints.as_ref()) => continue,
                    Answer::NoMatch(_) => Vec::new(),
                };
                let namespace = variant.metadata.namespace.as_ref();
                observed.responses.push(PolicyResponse {
                    policy: name,
                    kind: variant.kind(),
                    policy_namespace: namespace.map(|text| text.value.clone()).unwrap_or_default(),
                    rule_type: RuleType::Validation,
                    rules,
                    patched: None,
                    is_unchanged: true,
                });
            }
        }
        Ok(())
    }
}

/// Whether the response of a policy that does not match is left out: its constraints are one rule without names, selectors
/// and exclusions (`hasSelector` of `cmd/cli/kubectl-kyverno/processor/policy_processor.go`).
pub(super) fn is_plain(constraints: Option<&MatchConstraints>) -> bool {
    let Some(constraints) = constraints else { return false };
    let [rule] = constraints.resource_rules.as_slice() else {
        return false;
    };
    rule.resource_names.is_empty()
        && constraints.exclude_resource_rules.is_empty()
        && constraints
            .namespace_selector
            .as_ref()
            .is_none_or(|selector| selector.is_empty())
        && constraints
            .object_selector
            .as_ref()
            .is_none_or(|selector| selector.is_empty())
}

/// The resource that the API serves the object as.
fn served(case: &Case, discovery: &mut Discovery) -> Arc<Served> {
    let resource = &case.resource;
    if let Some(([group, version, kind, plural], sub, namespaced)) =
        case.values.parent_of(&resource.api_version, &resource.kind)
    {
        let parent = GroupVersionKind::new(group, version, kind);
        let known = discovery.subresource(&parent, &sub).cloned();
        return known.unwrap_or_else(|| Arc::new(Served::main(&parent, &plural, namespaced).sub(&sub, &resource.kind)));
    }
    let kind = GroupVersionKind::from_api_version(&resource.api_version, &resource.kind);
    discovery.add_guess(&kind, !resource.namespace.is_empty());
    let known = discovery.by_object(&resource.api_version, &resource.kind).cloned();
    known.unwrap_or_else(|| Arc::new(Discovery::guess(&kind, !resource.namespace.is_empty())))
}

/// Whether two objects are equal as JSON.
pub(super) fn same(a: &Document, b: &Document) -> bool {
    Data::from(a.root()).with_doubles() == Data::from(b.root()).with_doubles()
}
