//! The webhook of a MutatingPolicy: its own if the API server can evaluate its conditions, else the one that such policies
//! share.
//!
//! Upstream counterpart: `buildWebhookRules` of `pkg/controllers/webhook/mutating.go` (1.19).
//!
//! Known deviations: policies that share a webhook upstream have one each of the same name here, without the digest of
//! selectors that upstream adds if there are several.

use super::{RegisteredCondition, Webhook, mentions_namespace, name, offloadable, registration::sorted};
use crate::autogen::{Target, mutating_variants};
use kyvtest_model::{
    kube::{self, LabelSelector, RuleWithOperations},
    policy::{FailurePolicy, MatchCondition, MatchConstraints, MutatingPolicy},
};

const PODS: Target = Target {
    group: "",
    version: "v1",
    resource: "pods",
    kind: "Pod",
};

impl Webhook {
    /// The webhook that delivers requests to a MutatingPolicy.
    pub fn of_mutating_policy(policy: &MutatingPolicy) -> Self {
        let base = if policy.namespaced {
            "nmpol.validate.kyverno.svc"
        } else {
            "mpol.validate.kyverno.svc"
        };
        let spec = &policy.spec;
        let constraints = spec.match_constraints.as_ref();
        let mut conditions = offloaded(&spec.match_conditions);
        if constraints.is_some_and(MatchConstraints::is_pods_only) {
            conditions = guarded("autogen", &[PODS], conditions);
        }
        let mut all = rules(constraints);
        for variant in mutating_variants(policy) {
            let own = offloaded(&variant.policy.spec.match_conditions);
            let prefix = format!("autogen-{}", variant.config.name());
            conditions.extend(guarded(&prefix, &variant.targets, own));
            all.extend(rules(variant.policy.spec.match_constraints.as_ref()));
        }
        let ignores = spec
            .failure_policy
            .as_ref()
            .is_some_and(|word| word.value == FailurePolicy::Ignore);
        let own = policy.metadata.name.value.as_str();
        Self {
            name: name(base, !ignores, (!conditions.is_empty()).then_some(own)),
            path: format!("/mpol/{own}"),
            fails: !ignores,
            rules: sorted(all),
            match_conditions: conditions,
            namespace_selector: namespace_selector(policy),
            object_selector: constraints
                .and_then(|block| block.object_selector.as_ref())
                .map(|selector| selector.value.clone()),
            ..Self::default()
        }
        .compile()
    }
}

/// The conditions that the API server evaluates: it has no `namespaceObject` for them.
fn offloaded(conditions: &[MatchCondition]) -> Vec<RegisteredCondition> {
    let kept = offloadable(conditions)
        .iter()
        .filter(|condition| !mentions_namespace(condition.expression.text()));
    kept.map(RegisteredCondition::plain).collect()
}

/// Conditions that decide for some kinds only.
fn guarded(prefix: &str, targets: &[Target], conditions: Vec<RegisteredCondition>) -> Vec<RegisteredCondition> {
    let guard = |condition: RegisteredCondition| RegisteredCondition {
        name: format!("{prefix}-{}", condition.name),
        guard: targets.to_vec(),
        ..condition
    };
    conditions.into_iter().map(guard).collect()
}

fn rules(constraints: Option<&MatchConstraints>) -> Vec<RuleWithOperations> {
    let listed = constraints.into_iter().flat_map(|block| &block.resource_rules);
    listed.map(|named| named.rule.clone()).collect()
}

/// The labels that a namespace must have: a policy for one namespace demands its name.
fn namespace_selector(policy: &MutatingPolicy) -> Option<LabelSelector> {
    if let Some(namespace) = policy.metadata.namespace.as_ref().filter(|_| policy.namespaced) {
        let expression = kube::Expression {
            key: kube::NAME_LABEL.to_owned(),
            operator: "In".to_owned(),
            values: vec![namespace.value.clone()],
        };
        return Some(LabelSelector::new([], [expression]));
    }
    let constraints = policy.spec.match_constraints.as_ref()?;
    constraints
        .namespace_selector
        .as_ref()
        .map(|selector| selector.value.clone())
}
