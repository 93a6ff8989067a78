//! The stage of the `verifyImages` rules.
//!
//! Upstream counterpart: the part of `ApplyPoliciesOnResource` of `cmd/cli/kubectl-kyverno/processor/policy_processor.go` about
//! image verification (1.19).

use std::sync::Arc;

use super::{
    effect,
    observed::{Observed, PolicyResponse, RuleResult, RuleType},
    stages::{Stages, identity},
};
use crate::{
    autogen::all_rules,
    classic::rule::outside,
    verify_images::{CompiledImageRules, ImageResult, ImageRuleType},
};
use kyvtest_go_compat::value::{Data, Document};
use kyvtest_model::policy::ClassicPolicy;

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
            let verified = compiled.verify(&input, &self.exceptions, &*outside, self.host.registry());
            let verified = verified.map_err(|text| format!("`kyverno test` panics: {text}"))?;
            let patched = verified.patched(&Data::from(resource.root()));
            let patched = patched.map(|object| object.to_document());
            if let Some(patched) = &patched {
                *resource = patched.clone();
            }
            let mut rules: Vec<RuleResult> = verified.results.into_iter().map(rule_result).collect();
            if self.case.in_cluster {
                effect::of_image_rules(policy, &all_rules(policy), &input, &mut rules);
            }
            observed.responses.push(PolicyResponse {
                patched,
                ..PolicyResponse::new(self.key.clone(), policy.kind.name(), (name, namespace.clone()), rules)
            });
        }
        Ok(())
    }
}
