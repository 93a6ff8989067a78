//! The webhooks of MutatingPolicies.
//!
//! Upstream counterpart: `buildWebhookRules` of `pkg/controllers/webhook/mutating.go` (Kyverno 1.19).
//!
//! Known deviations: in evaluation, policies that share a webhook upstream have one each of the same name, without the digest
//! of selectors that upstream adds if there are several; [`webhooks`] has them as upstream registers them.

use super::{
    Webhook, name,
    subject::{Source, Subject, shared},
};
use crate::autogen::mutating_variants;
use kyvtest_model::policy::MutatingPolicy;

impl Webhook {
    /// The webhook that delivers requests to a MutatingPolicy.
    pub fn of_mutating_policy(policy: &MutatingPolicy) -> Self {
        let (base, _) = kind_names(policy.namespaced);
        let own = policy.metadata.name.value.as_str();
        let subject = subject(policy);
        let own_name = (!subject.conditions.is_empty()).then_some(own);
        Self {
            name: name(base, !subject.ignores_errors, own_name),
            path: format!("/mpol/{own}"),
            timeout_seconds: None,
            ..subject.own_webhook(base, "/mpol")
        }
        .compile()
    }
}

/// The start of the webhooks' names and of their paths.
fn kind_names(namespaced: bool) -> (&'static str, &'static str) {
    if namespaced {
        ("nmpol.validate.kyverno.svc", "/nmpol")
    } else {
        ("mpol.validate.kyverno.svc", "/mpol")
    }
}

fn subject(policy: &MutatingPolicy) -> Subject<'_> {
    let spec = &policy.spec;
    let mut subject = Subject::new(&Source {
        metadata: &policy.metadata,
        constraints: spec.match_constraints.as_ref(),
        match_conditions: &spec.match_conditions,
        spec: spec.source.node(),
        failure_policy: spec.failure_policy,
        timeout_seconds: spec.timeout_seconds,
    });
    for variant in mutating_variants(policy) {
        let spec = &variant.policy.spec;
        let constraints = spec.match_constraints.as_ref();
        subject.add_variant(variant.config, &variant.targets, &spec.match_conditions, constraints);
    }
    subject
}

/// The webhooks of the policies of one of the two kinds, as they are registered. They do not carry `matchPolicy: Exact`.
pub(super) fn webhooks(policies: &[&MutatingPolicy], namespaced: bool) -> Vec<Webhook> {
    let (base, root) = kind_names(namespaced);
    let served = policies
        .iter()
        .enumerate()
        .filter(|(_, policy)| policy.namespaced == namespaced && policy.spec.evaluation.admission)
        .map(|(number, policy)| (number, subject(policy)));
    let (fine, basic): (Vec<_>, Vec<_>) = served.partition(|(_, policy)| policy.is_fine_grained());
    let fine = fine.into_iter().map(|(_, policy)| policy.own_webhook(base, root));
    let mut webhooks: Vec<Webhook> = fine.collect();
    webhooks.extend(shared(&basic, base, root).into_iter().map(|(webhook, _)| webhook));
    webhooks
}
