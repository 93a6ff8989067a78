//! The webhooks of ValidatingPolicies.
//!
//! Upstream counterpart: `buildWebhookRules` of `pkg/controllers/webhook/validating.go` (Kyverno 1.19).

use super::{
    Webhook,
    registration::Members,
    subject::{Source, Subject, shared},
};
use crate::{autogen, lens::Lens};
use kyvtest_model::policy::ValidatingPolicy;

/// The webhooks of the policies of one of the two kinds.
pub(super) fn webhooks(policies: &[&ValidatingPolicy], namespaced: bool, lens: Lens) -> Vec<Members> {
    let (base, root) = if namespaced {
        ("nvpol.validate.kyverno.svc", "/nvpol")
    } else {
        ("vpol.validate.kyverno.svc", "/vpol")
    };
    let is_on = |policy: &ValidatingPolicy| policy.spec.evaluation.admission || !lens.admission_switch;
    let served = policies
        .iter()
        .enumerate()
        .filter(|(_, policy)| policy.namespaced == namespaced && is_on(policy))
        .map(|(number, policy)| (number, subject(policy, lens)));
    let (fine, basic): (Vec<_>, Vec<_>) = served.partition(|(_, policy)| policy.is_fine_grained());
    let own = fine.into_iter().map(|(number, policy)| {
        let match_policy = policy.is_exact().then_some("Exact");
        let webhook = Webhook {
            match_policy,
            ..policy.own_webhook(base, root)
        };
        (webhook, vec![number])
    });
    let mut webhooks: Vec<Members> = own.collect();
    // In a shared webhook, upstream omits what autogen generates from policies for one namespace.
    let basic = basic.into_iter().map(|(number, policy)| {
        let policy = if namespaced { policy.without_variants() } else { policy };
        (number, policy)
    });
    webhooks.extend(shared(&basic.collect::<Vec<_>>(), base, root));
    webhooks
}

fn subject(policy: &ValidatingPolicy, lens: Lens) -> Subject<'_> {
    let spec = &policy.spec;
    let mut subject = Subject::new(&Source {
        metadata: &policy.metadata,
        constraints: spec.match_constraints.as_ref(),
        match_conditions: &spec.match_conditions,
        spec: spec.source.node(),
        failure_policy: spec.failure_policy,
        timeout_seconds: spec.timeout_seconds,
    });
    for variant in autogen::variants_at(policy, lens) {
        let spec = &variant.policy.spec;
        let constraints = spec.match_constraints.as_ref();
        subject.add_variant(variant.config, &variant.targets, &spec.match_conditions, constraints);
    }
    subject
}
