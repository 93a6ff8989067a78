//! The stages of a pass over a resource, and what they share: the described cluster, the request, the values.
//!
//! Upstream counterpart: `makePolicyContext` and the stages of `ApplyPoliciesOnResource` of
//! `cmd/cli/kubectl-kyverno/processor/policy_processor.go` (1.19).

use std::{cell::Cell, sync::Arc};

use super::{
    case::Case,
    deleting::{cleanup_policies, deleting_policies},
    effect,
    host::CaseHost,
    objects::GivenObjects,
    observed::{Observed, PolicyResponse, RuleResult, RuleType},
    resource::Resource,
    values::GivenValues,
    verify_images::rule_result,
};
use crate::{
    autogen::{all_rules, variants},
    classic::rule::outside,
    classic_policy::CompiledClassicPolicy,
    exception::CompiledException,
    input::Input,
    lens::Lens,
    mutate::CompiledMutation,
    response::RegistryUse,
    validating_policy::{CompiledValidatingPolicy, PolicyResult},
    verify_images::CompiledImageRules,
};
use kyvtest_go_compat::value::{Data, Document, Value};
use kyvtest_model::{
    kube::{Discovery, Environment, GroupVersionKind, Namespace, Operation, Request, Resource as Served, World},
    policy::{ClassicPolicy, MatchConstraints},
    verdict::Effect,
};

/// What a pass is about.
#[derive(Clone, Copy)]
pub(super) struct Subject<'s> {
    pub(super) resource: &'s Resource,
    /// The object of the request.
    pub(super) object: &'s Document,
    /// The operation of a test row; `None` in the default pass.
    pub(super) operation: Option<Operation>,
    /// The request and its cluster, if the caller reviews one: it is already mutated then.
    pub(super) request: Option<(&'s Request, Environment<'s>)>,
}

/// What all stages share.
pub(super) struct Stages<'c> {
    pub(super) case: &'c Case,
    /// Who answers for context entries of classic rules.
    pub(super) host: &'c CaseHost<'c>,
    /// Who answers for expressions of policies on requests.
    pub(super) cel_host: &'c CaseHost<'c>,
    /// Who answers for expressions of other CEL policies.
    pub(super) unmocked_host: &'c CaseHost<'c>,
    /// What CEL policies know of namespaces.
    pub(super) world: World,
    /// What classic policies know of namespaces.
    classic_world: World,
    pub(super) discovery: Discovery,
    /// `apiVersion,kind,namespace,name` of the resource.
    pub(super) key: String,
    /// The namespace of the resource.
    pub(super) namespace: &'c str,
    values: GivenValues,
    /// The operation of the test row; `None` in the default pass.
    row_operation: Option<Operation>,
    served: Arc<Served>,
    objects: GivenObjects<'c>,
    pub(super) exceptions: Vec<CompiledException>,
    /// The request under review, if it is one of a cluster.
    given: Option<&'c Request>,
    pub(super) lens: Lens,
    /// Whether the validating phase refuses the request.
    pub(super) refused: Cell<bool>,
}

/// Which rules of a policy are validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    All,
    /// Those that check images.
    Images,
}

/// A policy's identity in responses.
pub(super) fn identity(policy: &ClassicPolicy) -> (String, String) {
    let namespace = policy.metadata.namespace.as_ref();
    (
        policy.metadata.name.value.clone(),
        namespace.map(|text| text.value.clone()).unwrap_or_default(),
    )
}

impl<'c> Stages<'c> {
    pub(super) fn new(
        case: &'c Case,
        subject: Subject<'c>,
        [host, cel_host, unmocked_host]: &'c [CaseHost<'c>; 3],
    ) -> Result<Self, String> {
        let Subject {
            resource, operation, ..
        } = subject;
        let exceptions = case.exceptions.exceptions.iter();
        let (world, classic_world, discovery, served) = match subject.request {
            Some((request, Environment { world, discovery, .. })) => {
                let served = Arc::clone(&request.resource);
                (world.clone(), world.clone(), discovery.clone(), served)
            }
            None => described(case, resource)?,
        };
        Ok(Self {
            case,
            host,
            cel_host,
            unmocked_host,
            world,
            classic_world,
            discovery,
            key: resource.key(),
            namespace: &resource.namespace,
            values: case.values.for_resource(&resource.name, operation),
            row_operation: operation,
            served,
            objects: GivenObjects::new(case),
            exceptions: exceptions.map(|exception| CompiledException::new(exception)).collect(),
            given: subject.request.map(|(request, _)| request),
            lens: if subject.request.is_some() {
                Lens::CLUSTER
            } else {
                Lens::CLI
            },
            refused: Cell::new(false),
        })
    }

    /// Whether a request of a cluster is under review.
    pub(super) fn is_request(&self) -> bool {
        self.given.is_some()
    }

    /// Whether images are verified: in a cluster, those of objects that are created or updated.
    pub(super) fn has_images(&self) -> bool {
        let writes = |request: &Request| matches!(request.operation, Operation::Create | Operation::Update);
        self.given.is_none_or(writes)
    }

    /// Whether the request under review is refused; a test goes on with all stages.
    pub(super) fn is_refused(&self, observed: &Observed) -> bool {
        let mut rules = observed.responses.iter().flat_map(|response| &response.rules);
        let denies = |rule: &RuleResult| {
            rule.response.effect == Effect::Deny && rule.response.registry != RegistryUse::Unanswered
        };
        self.is_request() && (self.refused.get() || rules.any(denies))
    }

    /// Policies that delete: they are not about requests, and take part in the default pass only.
    pub(super) fn delete(
        &self,
        subject: Subject<'_>,
        object: &Document,
        observed: &mut Observed,
    ) -> Result<(), String> {
        let removed =
            |request: &Request| request.operation == Operation::Delete || !request.resource.subresource.is_empty();
        if subject.operation.is_some() || self.given.is_some_and(removed) {
            return Ok(());
        }
        // A cluster stores the object as admission leaves it.
        let stored = Resource {
            object: if self.is_request() {
                Arc::new(object.clone())
            } else {
                Arc::clone(&subject.resource.object)
            },
            ..subject.resource.clone()
        };
        let discovery = self.is_request().then_some(&self.discovery);
        let deleting = deleting_policies(self.case, &self.key, &stored.object, discovery, self.unmocked_host)?;
        observed.responses.extend(deleting);
        if self.case.in_cluster {
            observed
                .responses
                .extend(cleanup_policies(self.case, &stored, self.host));
        }
        Ok(())
    }

    /// A Namespace among all objects of the test.
    pub(super) fn given_namespace(&self, name: &str) -> Option<Namespace> {
        given_namespace(self.case, name)
    }

    /// The input of classic policies.
    pub(super) fn classic_input<'r>(&'r self, request: &'r Request, values: &'r GivenValues) -> Input<'r> {
        let input = Input::new(request, &self.classic_world, &self.discovery, self.lens);
        if self.is_request() {
            input
        } else {
            input.with_values(values)
        }
    }

    /// The request about an object, null if it is lost.
    pub(super) fn request(&self, object: &Document) -> Request {
        self.request_for(self.values.operation, object)
    }

    fn request_for(&self, operation: Operation, object: &Document) -> Request {
        if let Some(given) = self.given {
            let mut request = given.clone();
            if given.operation != Operation::Delete {
                request.object = object.clone();
            }
            return request;
        }
        let mut request = Request::about(operation, Arc::clone(&self.served), object.clone());
        if operation == Operation::Update {
            request.old_object = object.clone();
        }
        request.user = self.case.user.clone();
        request.roles.clone_from(&self.case.roles);
        request.cluster_roles.clone_from(&self.case.cluster_roles);
        request
    }

    /// The request about an object for policies that read the operation of the test row, not that of the values.
    pub(super) fn request_of_row(&self, object: &Document) -> Request {
        let operation = self.row_operation.unwrap_or(Operation::Create);
        self.request_for(operation, object)
    }

    /// The values for an object, found by its name.
    pub(super) fn values(&self, object: &Document) -> GivenValues {
        let name = object.root().at(&["metadata", "name"]).and_then(Value::as_str);
        let mut values = self.values.clone();
        name.unwrap_or_default().clone_into(&mut values.resource);
        values
    }

    pub(super) fn mutate(&self, policies: &[&Arc<ClassicPolicy>], resource: &mut Document, observed: &mut Observed) {
        for policy in policies {
            let Some(compiled) = CompiledMutation::new(policy) else {
                continue;
            };
            let (request, values) = (self.request(resource), self.values(resource));
            let input = self.classic_input(&request, &values);
            let response = compiled.evaluate(&input, &self.exceptions, Some(&self.objects), self.host);
            let (name, namespace) = identity(policy);
            observed.responses.push(PolicyResponse {
                is_unchanged: !resource.root().is_null() && same(resource, &response.patched),
                patched: Some(response.patched.clone()),
                ..PolicyResponse::new(
                    self.key.clone(),
                    policy.kind.name(),
                    (name, namespace),
                    response.rules.into_iter().map(RuleResult::from).collect(),
                )
            });
            *resource = response.patched;
        }
    }

    pub(super) fn validate(
        &self,
        policies: &[&Arc<ClassicPolicy>],
        resource: &Document,
        observed: &mut Observed,
    ) -> Result<(), String> {
        self.validate_rules(policies, Rules::All, resource, observed)
    }

    pub(super) fn validate_rules(
        &self,
        policies: &[&Arc<ClassicPolicy>],
        which: Rules,
        resource: &Document,
        observed: &mut Observed,
    ) -> Result<(), String> {
        for policy in policies {
            let rules = all_rules(policy);
            let images = CompiledImageRules::new(policy).filter(CompiledImageRules::has_checks);
            if images.is_none() && rules.iter().all(|rule| rule.validate.is_none()) {
                continue;
            }
            let compiled = CompiledClassicPolicy::new(Arc::clone(policy));
            let (request, values) = (self.request(resource), self.values(resource));
            let input = self.classic_input(&request, &values);
            let decided = compiled.decide(&input, &self.exceptions, self.host);
            let validates = |name: &str| {
                let mut rules = rules.iter().filter(|rule| rule.validate.is_some());
                which == Rules::All && rules.any(|rule| rule.name.value == name)
            };
            let results = decided.rules.into_iter().filter(|response| validates(&response.rule));
            let mut results: Vec<RuleResult> = results
                .map(|response| RuleResult::new(RuleType::Validation, response))
                .collect();
            if let Some(images) = &images {
                let namespace = identity(policy).1;
                let outside = outside(&input, &policy.key(), "", &namespace, self.host);
                let checked = images.check(&input, &self.exceptions, &*outside);
                let checked = checked.map_err(|text| format!("`kyverno test` panics: {text}"))?;
                let checked = checked.into_iter().flat_map(|(_, results)| results);
                // What a mock verified is checked here.
                let owes = |rule: &str| registry_use(observed, &identity(policy), rule);
                let checked = checked.map(|(rule_type, mut response)| {
                    response.registry = owes(&response.rule);
                    (rule_type, response)
                });
                results.extend(checked.map(rule_result));
                if self.case.in_cluster {
                    effect::of_image_rules(policy, &rules, &input, &mut results);
                }
                // The results of both kinds of rules are in the order of the rules.
                let place = |name: &str| rules.iter().position(|rule| rule.name.value == name);
                results.sort_by_key(|result| place(&result.response.rule));
            }
            let mutates = rules.iter().any(|rule| rule.mutate.is_some());
            let (name, namespace) = identity(policy);
            observed.responses.push(PolicyResponse {
                patched: (results.is_empty() && mutates).then(|| resource.clone()),
                is_unchanged: !resource.root().is_null(),
                ..PolicyResponse::new(self.key.clone(), policy.kind.name(), (name, namespace), results)
            });
        }
        Ok(())
    }

    pub(super) fn validating_policies(&self, resource: &Document, observed: &mut Observed) -> Result<(), String> {
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
                let rules = match compiled.decide(&input, self.cel_host) {
                    PolicyResult::Rule(response) => vec![RuleResult::new(RuleType::Validation, response)],
                    PolicyResult::NoMatch(_) if is_plain(variant.spec.match_constraints.as_ref()) => continue,
                    PolicyResult::NoMatch(_) => Vec::new(),
                };
                let namespace = variant.metadata.namespace.as_ref();
                observed.responses.push(PolicyResponse {
                    is_unchanged: true,
                    ..PolicyResponse::new(
                        self.key.clone(),
                        variant.kind(),
                        (name, namespace.map(|text| text.value.clone()).unwrap_or_default()),
                        rules,
                    )
                });
            }
        }
        Ok(())
    }
}

/// What the results of a rule in earlier stages owe to a registry.
fn registry_use(observed: &Observed, (policy, namespace): &(String, String), rule: &str) -> RegistryUse {
    let responses = observed.responses.iter();
    let responses = responses.filter(|response| response.policy == *policy && response.policy_namespace == *namespace);
    let rules = responses.flat_map(|response| &response.rules);
    let rules = rules.filter(|result| result.rule_type == RuleType::ImageVerify && result.response.rule == rule);
    rules.map(|result| result.response.registry).max().unwrap_or_default()
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
fn served(case: &Case, resource: &Resource, discovery: &mut Discovery) -> Arc<Served> {
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

/// What a test describes: the namespaces for CEL policies and for classic ones, the served kinds, and the resource.
type Described = (World, World, Discovery, Arc<Served>);

fn described(case: &Case, resource: &Resource) -> Result<Described, String> {
    let mut world = World::new();
    case.values.describe_namespaces(&mut world);
    let mut classic_world = World::new();
    case.values.describe_namespaces(&mut classic_world);
    if let Some(stored) = stored_namespace(case, resource, &world)? {
        classic_world.add_namespace(stored);
    }
    let mut discovery = Discovery::kubernetes();
    for definition in &case.surroundings.definitions {
        // A definition that says too little is a matter of the loader's diagnostics.
        let _ = discovery.add_crd(definition.root());
    }
    let served = served(case, resource, &mut discovery);
    Ok((world, classic_world, discovery, served))
}

/// A Namespace among all objects of a test.
fn given_namespace(case: &Case, name: &str) -> Option<Namespace> {
    let suite = case.resources.iter().chain(&case.targets);
    let cluster = case.surroundings.cluster.iter().flatten();
    let mut objects = suite.map(|resource| &*resource.object).chain(cluster);
    let found = objects.find(|object| {
        let root = object.root();
        let text = |path: &[&str]| root.at(path).and_then(Value::as_str);
        text(&["apiVersion"]) == Some("v1")
            && text(&["kind"]) == Some("Namespace")
            && text(&["metadata", "name"]) == Some(name)
    });
    found.map(|object| Namespace { object: object.clone() })
}

/// The namespace of a resource as the cluster resources have it, if classic rules read its labels from there.
///
/// # Errors
/// In cluster mode, if there is no such namespace.
fn stored_namespace(case: &Case, resource: &Resource, described: &World) -> Result<Option<Namespace>, String> {
    if case.surroundings.cluster.is_none() {
        return Ok(None);
    }
    let name = resource.namespace.as_str();
    let has_labels = |namespace: &Namespace| namespace.labels().is_some_and(|labels| !labels.is_empty());
    if resource.kind == "Namespace" || name.is_empty() || described.namespace(name).is_some_and(has_labels) {
        return Ok(None);
    }
    match given_namespace(case, name) {
        Some(namespace) => Ok(Some(namespace)),
        None => Err(format!(
            "failed to get the resource's namespace (namespaces {name:?} not found)"
        )),
    }
}

/// Whether two objects are equal as JSON.
pub(super) fn same(a: &Document, b: &Document) -> bool {
    Data::from(a.root()).with_doubles() == Data::from(b.root()).with_doubles()
}
