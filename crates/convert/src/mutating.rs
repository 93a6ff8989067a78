//! MutatingPolicies.
//!
//! Upstream counterpart: `pkg/controllers/admissionpolicygenerator/{mpol,generate-map}.go` and
//! `BuildMutatingAdmissionPolicy` of `pkg/admissionpolicy/builder.go` (Kyverno 1.19).
//!
//! Known deviation: the generator reads the status that another controller writes; here pod controllers always count.

use std::sync::Arc;

use super::{
    GeneratedMutation, Item, Options, Refusal, RefusalCode,
    object::{Maker, kept_labels, object},
    place::At,
    validating::{CelPlan, counting_exceptions},
};
use kyvtest_go_compat::yaml::Edited;
use kyvtest_model::policy::{
    CelPolicyException, MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingPolicy, MutatingPolicySpec,
};

/// A MutatingPolicy that passed the checks.
pub(super) type Plan<'p> = CelPlan<'p, MutatingPolicySpec>;

pub(super) fn convert(
    policy: &MutatingPolicy,
    exceptions: &[Arc<CelPolicyException>],
    options: Options,
    report: &mut Vec<Item>,
) -> Result<GeneratedMutation, Refusal> {
    let at = At::spec(&policy.spec.source);
    if policy.namespaced {
        return Err(Refusal::silent(RefusalCode::NamespacedMutation, &at));
    }
    let enabled = &policy.spec.autogen.native_policy;
    if !options.force && !enabled.as_ref().is_some_and(|enabled| enabled.value) {
        let at = at.keys(&["autogen", "mutatingAdmissionPolicy", "enabled"]);
        return Err(Refusal::silent(RefusalCode::NotMarked, &at));
    }
    if policy.spec.evaluation.use_server_side_apply {
        let text = "skip generating MutatingAdmissionPolicy: useServerSideApply is enabled, which mutates atomic fields \
                    that a native MutatingAdmissionPolicy rejects.";
        let at = at.keys(&["evaluation", "useServerSideApply"]);
        return Err(Refusal::new(RefusalCode::ServerSideApply, text, &at));
    }
    if policy.spec.has_autogen() {
        let text = "skip generating MutatingAdmissionPolicy: pod controllers autogen is enabled.";
        let at = at.keys(&["autogen", "podControllers", "controllers"]);
        return Err(Refusal::new(RefusalCode::MutatingAutogen, text, &at));
    }
    if policy.spec.match_constraints.is_none() {
        return Err(Refusal::silent(RefusalCode::MutationWithoutConstraints, &at));
    }
    let exceptions = counting_exceptions(&policy.metadata.name.value, exceptions, options);
    let plan = CelPlan { policy, exceptions, at };
    super::detect::mutating(&plan, report);
    generate(&plan, report).ok_or_else(Refusal::invalid)
}

fn generate(plan: &Plan<'_>, report: &mut Vec<Item>) -> Option<GeneratedMutation> {
    let policy = plan.policy;
    let name = format!("mpol-{}", policy.metadata.name.value);
    let owner = plan.owner();
    let edit = |_: &mut Edited| {};
    let mut maker = Maker::new(&plan.at, &edit)?;
    let rules = maker.field("resourceRules", &plan.at.keys(&["matchConstraints", "resourceRules"]));
    let mut spec = vec![("matchConstraints", maker.map(rules.as_slice()))];
    let mut conditions = plan.exclusions(&mut maker);
    conditions.extend(maker.items(&plan.at.key("matchConditions")));
    if !conditions.is_empty() {
        spec.push(("matchConditions", maker.list(&conditions)));
    }
    for key in ["variables", "mutations", "failurePolicy"] {
        spec.extend(maker.field(key, &plan.at.key(key)));
    }
    let reinvocation = policy.spec.reinvocation_policy.as_ref();
    let reinvocation = reinvocation
        .map(|text| text.value.as_str())
        .filter(|text| !text.is_empty());
    spec.push(("reinvocationPolicy", maker.text(reinvocation.unwrap_or("Never"))));
    let spec = maker.map(&spec);
    let map = maker.finish(
        "MutatingAdmissionPolicy",
        &owner,
        &name,
        kept_labels(&policy.metadata),
        spec,
    );

    let mut maker = Maker::new(&plan.at, &edit)?;
    let policy_name = maker.text(&name);
    let spec = maker.map(&[("policyName", policy_name)]);
    let binding = format!("{name}-binding");
    let binding = maker.finish("MutatingAdmissionPolicyBinding", &owner, &binding, &[], spec);
    Some(GeneratedMutation {
        map: object(map, policy.origin, report, MutatingAdmissionPolicy::read)?,
        binding: object(binding, policy.origin, report, MutatingAdmissionPolicyBinding::read)?,
    })
}
