//! ImageValidatingPolicies for pod controllers.
//!
//! Upstream counterpart: `pkg/cel/policies/ivpol/autogen` (Kyverno 1.19). All texts of the spec are rewritten, as for
//! ValidatingPolicies.

use super::{
    rewrite,
    validating::{Config, Target, for_controllers, match_constraints, regenerate},
};
use kyvtest_go_compat::yaml::Edited;
use kyvtest_model::policy::{ImageValidatingPolicy, ImageValidatingPolicySpec, MatchConstraints};

/// The policies that are generated from a policy: that for CronJobs, then that for the others. Upstream's order is random.
pub fn image_variants(policy: &ImageValidatingPolicy) -> Vec<ImageValidatingPolicy> {
    let constraints = policy.spec.match_constraints.as_ref();
    if !constraints.is_some_and(MatchConstraints::is_pods_only) {
        return Vec::new();
    }
    for_controllers(policy.spec.pod_controllers.as_deref(), |config, targets| {
        let spec = spec(&policy.spec, config, &targets)?;
        Some(ImageValidatingPolicy { spec, ..policy.clone() })
    })
}

fn spec(spec: &ImageValidatingPolicySpec, config: Config, targets: &[Target]) -> Option<ImageValidatingPolicySpec> {
    let edit = |text: &mut Edited| rewrite::validating(config.template(), text);
    regenerate(&spec.source, &edit, |graft, field, value| {
        Some(match field {
            "matchConstraints" => match_constraints(graft, value, targets),
            _ => graft.copy(value),
        })
    })
}
