//! The stage of the `verifyImages` rules.
//!
//! Upstream counterpart: the part of `ApplyPoliciesOnResource` of `cmd/cli/kubectl-kyverno/processor/policy_processor.go` about
//! image verification (1.19). No registry is asked: every question ends where the network would fail.

use std::sync::Arc;

use super::{
    host::unreachable_registry,
    observed::{Observed, PolicyResponse, RuleResult, RuleType},
    run::{Stages, identity},
};
use crate::{
    classic::rule::outside,
    verify_images::{CompiledImageRules, ImageRegistry, ImageResult, ImageRuleType, RegistryError},
};
use kyvtest_go_compat::value::{Data, Document};
use kyvtest_model::policy::ClassicPolicy;

/// A registry that cannot be reached.
struct Unreachable;

impl ImageRegistry for Unreachable {
    fn digest(&self, image: &str) -> Result<String, RegistryError> {
        Err(RegistryError::Network(unreachable_registry(image)))
    }

    fn verify(&self, image: &str, attestor: &Data, bundle: bool) -> Result<String, RegistryError> {
        let key = attestor
            .at(&["keys", "publicKeys"])
            .and_then(Data::as_str)
            .unwrap_or_default();
        // Keys are read before the network is asked; what is no key in PEM is taken for the name of a file.
        if !key.is_empty() && !key.trim_start().starts_with("-----BEGIN PUBLIC KEY-----") && !key.contains("://") {
            return Err(RegistryError::Refused(format!(
                "failed to load public key from {key}: open {key}: no such file or directory"
            )));
        }
        let error = unreachable_registry(image);
        Err(RegistryError::Network(if bundle {
            format!("failed to fetch bundles: {image}: {error}")
        } else {
            error
        }))
    }
}

pub(super) fn rule_result((rule_type, response): ImageResult) -> RuleResult {
    let rule_type = match rule_type {
        ImageRuleType::Mutation => RuleType::Mutation,
        ImageRuleType::Validation => RuleType::Validation,
        ImageRuleType::ImageVerify => RuleType::ImageVerify,
    };
    RuleResult::new(rule_type, response)
}

impl Stages<'_> {
    /// Verifies images and writes the outcome into the resource.
    ///
    /// # Errors
    /// What upstream panics about.
    pub(super) fn verify_images(
        &self,
        policies: &[&Arc<ClassicPolicy>],
        resource: &mut Document,
        observed: &mut Observed,
    ) -> Result<(), String> {
        for policy in policies {
            let Some(compiled) = CompiledImageRules::new(policy) else {
                continue;
            };
            let (request, values) = (self.request(resource), self.values(resource));
            let input = self.classic_input(&request, &values);
            let (name, namespace) = identity(policy);
            let outside = outside(&input, &policy.key(), "", &namespace, self.host);
            let verified = compiled.verify(&input, &self.exceptions, &*outside, &Unreachable);
            let verified = verified.map_err(|text| format!("`kyverno test` panics: {text}"))?;
            let patched = verified.patched(&Data::from(resource.root()));
            let patched = patched.map(|object| object.to_document());
            if let Some(patched) = &patched {
                *resource = patched.clone();
            }
            observed.responses.push(PolicyResponse {
                resource: self.key.clone(),
                policy: name,
                kind: policy.kind.name(),
                policy_namespace: namespace.clone(),
                rules: verified.results.into_iter().map(rule_result).collect(),
                patched,
                is_unchanged: false,
            });
        }
        Ok(())
    }
}
