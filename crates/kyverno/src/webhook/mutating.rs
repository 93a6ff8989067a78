//! The webhook of a MutatingPolicy: its own if the API server can evaluate its conditions, else the one that such policies
//! share.
//!
//! Upstream counterpart: `buildWebhookRules` of `pkg/controllers/webhook/mutating.go` (1.19).
//!
//! Known deviations: in evaluation, policies that share a webhook upstream have one each of the same name, without the digest
//! of selectors that upstream adds if there are several; [`webhooks`] has them as upstream registers them.

use super::{RegisteredCondition, Webhook, digest, mentions_namespace, name, offloadable, registration::sorted};
use crate::autogen::{Target, mutating_variants};
use kyvtest_go_compat::yaml::Number;
use kyvtest_model::{
    kube::{self, LabelSelector, RuleWithOperations},
    policy::{FailurePolicy, MatchCondition, MatchConstraints, MatchPolicy, MutatingPolicy},
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

fn ignores(policy: &MutatingPolicy) -> bool {
    let word = policy.spec.failure_policy.as_ref();
    word.is_some_and(|word| word.value == FailurePolicy::Ignore)
}

fn timeout(policy: &MutatingPolicy) -> Option<i64> {
    let node = policy.spec.source.node().get("webhookConfiguration")?;
    match node.get("timeoutSeconds")?.number()? {
        Number::Int(seconds) => Some(seconds),
        Number::Float(_) => None,
    }
}

/// Whether a policy has a webhook to itself. `matchPolicy: Exact` counts, although the webhook does not carry it.
fn is_fine(policy: &MutatingPolicy) -> bool {
    let conditions = &policy.spec.match_conditions;
    // Upstream tests the offloaded list for nil, so a list that is written and empty counts.
    let lists_none = conditions.is_empty() && {
        let written = policy.spec.source.node().get("matchConditions");
        written.is_some_and(|node| node.as_seq().is_some())
    };
    let constraints = policy.spec.match_constraints.as_ref();
    let word = constraints.and_then(|block| block.match_policy.as_ref());
    let is_exact = word.is_some_and(|word| word.value == MatchPolicy::Exact);
    lists_none || !offloadable(conditions).is_empty() || is_exact || timeout(policy).is_some()
}

/// The webhooks of the policies of one of the two kinds, as they are registered.
pub(super) fn webhooks(policies: &[&MutatingPolicy], namespaced: bool) -> Vec<Webhook> {
    let (base, root) = if namespaced {
        ("nmpol.validate.kyverno.svc", "/nmpol")
    } else {
        ("mpol.validate.kyverno.svc", "/mpol")
    };
    let served = policies.iter().copied();
    let served = served.filter(|policy| policy.namespaced == namespaced && policy.spec.evaluation.admission);
    let (fine, basic): (Vec<&MutatingPolicy>, Vec<&MutatingPolicy>) = served.partition(|policy| is_fine(policy));
    let mut webhooks: Vec<Webhook> = fine.into_iter().map(|policy| own(policy, base, root)).collect();
    webhooks.extend(shared(&basic, base, root));
    webhooks
}

/// The webhook of one policy.
fn own(policy: &MutatingPolicy, base: &str, root: &str) -> Webhook {
    let own = policy.metadata.name.value.as_str();
    let namespace = policy.metadata.namespace.as_ref().filter(|_| policy.namespaced);
    let namespace = namespace.map(|text| format!("{}-", text.value)).unwrap_or_default();
    Webhook {
        name: name(base, !ignores(policy), Some(&format!("{namespace}{own}"))),
        path: format!("{root}/{own}"),
        timeout_seconds: timeout(policy),
        ..Webhook::of_mutating_policy(policy)
    }
}

/// The webhooks that several policies share: one for each pair of selectors and each word about errors.
fn shared(policies: &[&MutatingPolicy], base: &str, root: &str) -> Vec<Webhook> {
    let mut groups: Vec<(String, Vec<&MutatingPolicy>)> = Vec::new();
    for policy in policies {
        let namespace = policy.metadata.namespace.as_ref().filter(|_| policy.namespaced);
        let key = digest(namespace, policy.spec.match_constraints.as_ref());
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, members)) => members.push(policy),
            None => groups.push((key, vec![policy])),
        }
    }
    groups.sort_by(|(a, _), (b, _)| a.cmp(b));
    let several = groups.len() > 1;
    let mut webhooks = Vec::new();
    for (key, members) in &groups {
        let suffix = if several {
            format!("-{}", key.get(..8).unwrap_or(key))
        } else {
            String::new()
        };
        let mut names: Vec<&str> = members
            .iter()
            .map(|policy| policy.metadata.name.value.as_str())
            .collect();
        names.sort_unstable();
        for is_ignore in [false, true] {
            let own = members.iter().filter(|policy| ignores(policy) == is_ignore);
            let made: Vec<Webhook> = own.map(|policy| Webhook::of_mutating_policy(policy)).collect();
            let rules: Vec<RuleWithOperations> = made.iter().flat_map(|webhook| webhook.rules.clone()).collect();
            let Some(first) = made.into_iter().next().filter(|_| !rules.is_empty()) else {
                continue;
            };
            webhooks.push(Webhook {
                name: format!("{}{suffix}", name(base, !is_ignore, None)),
                path: format!("{root}/{}", names.join("/")),
                rules: sorted(rules),
                match_conditions: Vec::new(),
                ..first
            });
        }
    }
    webhooks
}
