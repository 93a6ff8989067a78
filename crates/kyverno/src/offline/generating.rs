//! The stage of the GeneratingPolicies.
//!
//! Upstream counterpart: the part of `ApplyPoliciesOnResource` of `cmd/cli/kubectl-kyverno/processor/policy_processor.go`
//! about generating policies (1.19). All exceptions count for all policies, whatever they refer to.

use super::{
    observed::{Observed, PolicyResponse, RuleResult, RuleType},
    resource::{BuiltInScopes, Scopes},
    stages::Stages,
};
use crate::{
    generating_policy::{CompiledGeneratingPolicy, as_given, in_cluster},
    input::Input,
};
use kyvtest_go_compat::value::{Data, Document};
use kyvtest_model::kube::parse_api_version;

impl Stages<'_> {
    /// Evaluates the GeneratingPolicies.
    ///
    /// # Errors
    /// The text with which the run ends.
    pub(super) fn generating_policies(&self, resource: &Document, observed: &mut Observed) -> Result<(), String> {
        let exceptions = self.case.exceptions.cel_exceptions.iter().map(|exception| &**exception);
        let mut policies = Vec::new();
        for policy in self.case.policies.generating() {
            let compiled = CompiledGeneratingPolicy::compile(policy, exceptions.clone());
            let name = &policy.metadata.name.value;
            policies.push(compiled.map_err(|error| format!("failed to compile policy {name} ({error})"))?);
        }
        if policies.is_empty() || resource.root().is_null() {
            return Ok(());
        }
        let request = self.request(resource);
        let input = Input::new(&request, &self.world, &self.discovery, self.lens);
        let has_cluster = self.is_request() || self.case.surroundings.cluster.is_some();
        for policy in &policies {
            let is_namespaced_policy = policy.id().kind == "NamespacedGeneratingPolicy";
            if is_namespaced_policy && !self.is_request() {
                let text = "`kyverno test` panics: invalid memory address or nil pointer dereference";
                return Err(text.to_owned());
            }
            let placement = |namespace: &str, objects: Vec<Data>| {
                if has_cluster {
                    in_cluster(namespace, objects, &policy.id().namespace, &is_namespaced)
                } else {
                    as_given(namespace, objects)
                }
            };
            let Some(generated) = policy.evaluate(&input, &placement, self.cel_host) else {
                continue;
            };
            observed.responses.push(PolicyResponse::new(
                self.key.clone(),
                policy.id().kind,
                (policy.id().name.clone(), policy.id().namespace.clone()),
                vec![RuleResult {
                    generated: generated.objects,
                    ..RuleResult::new(RuleType::Generation, generated.response)
                }],
            ));
        }
        Ok(())
    }
}

/// Whether the command's own tables have a kind in namespaces; unknown kinds are.
fn is_namespaced(api_version: &str, kind: &str) -> bool {
    let (group, _) = parse_api_version(api_version);
    !BuiltInScopes.is_cluster_wide(group, kind)
}
