//! The stage of the MutatingPolicies: all of them on the resource, then those that change existing objects on the targets.
//!
//! Upstream counterpart: `ApplyPoliciesOnResource` of `cmd/cli/kubectl-kyverno/processor/policy_processor.go`, `Handle` and
//! `Evaluate` of `pkg/cel/policies/mpol/engine/engine.go` (1.19).

use std::{collections::BTreeSet, sync::Arc};

use super::{
    observed::{Observed, PolicyResponse, RuleResult},
    resource::Resource,
    stages::{Stages, is_plain, same},
};
use crate::{
    input::Input,
    lens::{Lens, Numbers},
    mutate::MutateResult,
    mutating_policy::{CompiledMutatingPolicy, Evaluated},
};
use kyvtest_cel::host::{Gvr, Mocks};
use kyvtest_go_compat::value::{Document, Value};
use kyvtest_model::{
    kube::{Discovery, GroupVersionKind, Operation, Request, Resource as Served},
    verdict::Status,
};

/// The request is decoded again, so that its numbers are those of the API server.
const LENS: Lens = Lens {
    numbers: Numbers::Decoded,
    ..Lens::CLI
};

impl Stages<'_> {
    /// Evaluates the MutatingPolicies. Every response carries the object after all of them.
    ///
    /// # Errors
    /// The text with which the run ends.
    pub(super) fn mutating_policies(&self, resource: &mut Document, observed: &mut Observed) -> Result<(), String> {
        let exceptions = self.case.exceptions.cel_exceptions.iter().map(|exception| &**exception);
        let mut policies = Vec::new();
        for policy in self.case.policies.mutating() {
            let compiled = CompiledMutatingPolicy::compile_all(policy, exceptions.clone());
            let name = &policy.metadata.name.value;
            policies.extend(compiled.map_err(|error| format!("failed to compile policy {name} ({error})"))?);
        }
        if policies.is_empty() || resource.root().is_null() {
            return Ok(());
        }
        let mut request = self.request(resource);
        if !self.case.in_cluster && !request.resource.subresource.is_empty() {
            // `kyverno test` takes the kind of a subresource for a kind of its own.
            request.resource = self.served_kind(resource);
        }
        let input = Input::new(&request, &self.world, &self.discovery, self.lens());
        let mut current = request.object.clone();
        let mut evaluated = Vec::new();
        for policy in &policies {
            let result = policy.evaluate(&input, &current, self.cel_host);
            if let Some(patched) = result.as_ref().and_then(|result| result.patched.clone()) {
                current = patched;
            }
            evaluated.push((policy, result));
        }
        let is_unchanged = !current.root().is_null() && same(resource, &current);
        for (policy, result) in evaluated {
            if result.is_none() && is_plain(policy.constraints()) {
                continue;
            }
            let rules = result
                .into_iter()
                .map(|result| MutateResult::from(result.response).into());
            observed.responses.push(PolicyResponse {
                patched: Some(current.clone()),
                is_unchanged,
                ..self.policy_response(policy, rules.collect())
            });
        }
        *resource = current;
        self.existing(&policies, &input, resource, observed)
    }

    /// In a cluster, a NamespacedMutatingPolicy changes objects of its own namespace only.
    fn lens(&self) -> Lens {
        Lens {
            namespaced_policies: self.case.in_cluster,
            ..LENS
        }
    }

    /// Evaluates the policies that change existing objects on each target.
    fn existing(
        &self,
        policies: &[CompiledMutatingPolicy],
        trigger: &Input<'_>,
        resource: &Document,
        observed: &mut Observed,
    ) -> Result<(), String> {
        if self.case.targets.is_empty() {
            return Ok(());
        }
        let mocks = self.target_mocks();
        let policies: Vec<&CompiledMutatingPolicy> =
            policies.iter().filter(|policy| policy.mutates_existing()).collect();
        let mut selected = Vec::new();
        for policy in &policies {
            let keys = policy.selected_targets(resource, &mocks).transpose();
            let keys = keys.map_err(|error| format!("failed to discover CEL targets: {error}"))?;
            selected.push(keys.map(BTreeSet::from_iter));
        }
        for target in &self.case.targets {
            self.target(&policies, &selected, trigger, target, observed);
        }
        Ok(())
    }

    fn target(
        &self,
        policies: &[&CompiledMutatingPolicy],
        selected: &[Option<BTreeSet<String>>],
        trigger: &Input<'_>,
        target: &Resource,
        observed: &mut Observed,
    ) {
        let mut request = Request::about(Operation::Create, self.served_as(target), (*target.object).clone());
        let key = match target.namespace.as_str() {
            "" => target.name.clone(),
            namespace => format!("{namespace}/{}", target.name),
        };
        let mut results: Vec<(&CompiledMutatingPolicy, Evaluated)> = Vec::new();
        let mut patched = None;
        for (policy, selected) in policies.iter().zip(selected) {
            let input = Input::new(&request, &self.world, &self.discovery, self.lens());
            let is_selected = match selected {
                Some(keys) => keys.contains(&key),
                None => policy.selects_target(&input),
            };
            if !is_selected {
                continue;
            }
            let result = policy.evaluate_target(trigger, &request, self.cel_host);
            if let Some(object) = &result.patched {
                request.object = object.clone();
                patched = Some(object.clone());
            }
            results.push((policy, result));
        }
        let patched = patched.unwrap_or_else(|| request.object.clone());
        for (policy, result) in results {
            let passed = result.response.status == Status::Pass;
            let rule = RuleResult::from(MutateResult {
                response: result.response,
                target: passed.then(|| patched.clone()),
            });
            observed.responses.push(PolicyResponse {
                // Upstream fills the object in only with a target.
                patched: (!passed).then(Document::null),
                ..self.policy_response(policy, vec![rule])
            });
        }
    }

    fn served_as(&self, target: &Resource) -> Arc<Served> {
        let known = self.discovery.by_object(&target.api_version, &target.kind).cloned();
        known.unwrap_or_else(|| {
            let kind = GroupVersionKind::from_api_version(&target.api_version, &target.kind);
            Arc::new(Discovery::guess(&kind, !target.namespace.is_empty()))
        })
    }

    /// The resource that the API serves objects of a kind as.
    fn served_kind(&self, object: &Document) -> Arc<Served> {
        let text = |key: &str| object.root().get(key).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let known = self.discovery.by_object(api_version, kind).cloned();
        known.unwrap_or_else(|| {
            let kind = GroupVersionKind::from_api_version(api_version, kind);
            Arc::new(Discovery::guess(&kind, true))
        })
    }

    /// A host whose `resource` library finds the targets.
    fn target_mocks(&self) -> Mocks {
        let mut mocks = Mocks::new();
        for target in &self.case.targets {
            let served = self.served_as(target).gvr();
            let gvr = Gvr {
                group: served.group,
                version: served.version,
                resource: served.resource,
            };
            mocks.add_resource(gvr, (*target.object).clone());
        }
        mocks
    }

    /// A response without an object.
    fn policy_response(&self, policy: &CompiledMutatingPolicy, rules: Vec<RuleResult>) -> PolicyResponse {
        PolicyResponse::new(
            self.key.clone(),
            policy.id().kind,
            (policy.id().name.clone(), policy.id().namespace.clone()),
            rules,
        )
    }
}
