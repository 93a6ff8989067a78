//! The webhooks of ValidatingPolicies: one for each policy with conditions that the API server can evaluate, with a timeout,
//! or with `matchPolicy: Exact`; the others share one for each pair of selectors.
//!
//! Upstream counterpart: `buildWebhookRules` of `pkg/controllers/webhook/validating.go` and `match_conditions.go` (1.19).

use super::{
    RegisteredCondition, Webhook, mentions_namespace, name, offloadable,
    registration::{Members, sorted},
    selectors,
};
use crate::{
    autogen::{self, Target, Variant},
    lens::Lens,
};
use kyvtest_model::{
    kube::{self, LabelSelector, RuleWithOperations},
    policy::{FailurePolicy, MatchCondition, MatchConstraints, MatchPolicy, ValidatingPolicy},
};

/// What a policy for Pods is about.
const PODS: Target = Target {
    group: "",
    version: "v1",
    resource: "pods",
    kind: "Pod",
};

/// A policy with its index among all.
type Numbered<'p> = (usize, &'p ValidatingPolicy);

/// The webhooks of the policies of one of the two kinds.
pub(super) fn webhooks(policies: &[&ValidatingPolicy], namespaced: bool, lens: Lens) -> Vec<Members> {
    let is_on = |policy: &ValidatingPolicy| policy.spec.evaluation.admission || !lens.admission_switch;
    let served = policies
        .iter()
        .copied()
        .enumerate()
        .filter(|(_, policy)| policy.namespaced == namespaced && is_on(policy));
    let (fine, basic): (Vec<Numbered<'_>>, Vec<Numbered<'_>>) = served.partition(|(_, policy)| is_fine(policy));
    let (base, root) = if namespaced {
        ("nvpol.validate.kyverno.svc", "/nvpol")
    } else {
        ("vpol.validate.kyverno.svc", "/vpol")
    };
    let fine = fine
        .iter()
        .map(|(number, policy)| (own(policy, base, root, lens), vec![*number]));
    let mut webhooks: Vec<Members> = fine.collect();
    webhooks.extend(shared(&basic, base, root, lens));
    for (webhook, _) in &mut webhooks {
        webhook.rules = sorted(std::mem::take(&mut webhook.rules));
    }
    webhooks
}

fn ignores(policy: &ValidatingPolicy) -> bool {
    policy
        .spec
        .failure_policy
        .is_some_and(|word| word.value == FailurePolicy::Ignore)
}

fn is_exact(policy: &ValidatingPolicy) -> bool {
    let constraints = policy.spec.match_constraints.as_ref();
    let word = constraints.and_then(|block| block.match_policy.as_ref());
    word.is_some_and(|word| word.value == MatchPolicy::Exact)
}

fn is_fine(policy: &ValidatingPolicy) -> bool {
    let conditions = &policy.spec.match_conditions;
    // Upstream tests the offloaded list for nil, so a list that is written and empty counts.
    let lists_none = conditions.is_empty() && {
        let written = policy.spec.source.node().get("matchConditions");
        written.is_some_and(|node| node.as_seq().is_some())
    };
    lists_none || !offloadable(conditions).is_empty() || is_exact(policy) || policy.spec.timeout_seconds.is_some()
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

/// The labels that a namespace must have: a policy for one namespace requires its name.
fn namespace_selector(policy: &ValidatingPolicy) -> Option<LabelSelector> {
    if let Some(namespace) = &policy.metadata.namespace {
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

fn object_selector(policy: &ValidatingPolicy) -> Option<LabelSelector> {
    let constraints = policy.spec.match_constraints.as_ref()?;
    constraints
        .object_selector
        .as_ref()
        .map(|selector| selector.value.clone())
}

/// The webhook of one policy.
fn own(policy: &ValidatingPolicy, base: &str, root: &str, lens: Lens) -> Webhook {
    let constraints = policy.spec.match_constraints.as_ref();
    let mut conditions = offloaded(&policy.spec.match_conditions);
    if constraints.is_some_and(MatchConstraints::is_pods_only) {
        conditions = guarded("autogen", &[PODS], conditions);
    }
    let mut rules = rules(constraints);
    for Variant {
        config,
        targets,
        policy,
    } in autogen::variants_at(policy, lens)
    {
        let own = offloaded(&policy.spec.match_conditions);
        conditions.extend(guarded(&format!("autogen-{}", config.name()), &targets, own));
        rules.extend(self::rules(policy.spec.match_constraints.as_ref()));
    }
    let is_ignore = ignores(policy);
    let own = &policy.metadata.name.value;
    let namespace = policy.metadata.namespace.as_ref();
    let namespace = namespace.map(|text| format!("{}-", text.value)).unwrap_or_default();
    Webhook {
        name: name(base, !is_ignore, Some(&format!("{namespace}{own}"))),
        path: format!("{root}/{own}"),
        fails: !is_ignore,
        rules,
        match_conditions: conditions,
        match_policy: is_exact(policy).then_some("Exact"),
        timeout_seconds: policy.spec.timeout_seconds.as_ref().map(|seconds| seconds.value),
        namespace_selector: namespace_selector(policy),
        object_selector: object_selector(policy),
        ..Webhook::default()
    }
}

/// Policies that share a webhook, with the digest of their selectors.
type Group<'p> = (String, Vec<Numbered<'p>>);

/// The webhooks that several policies share.
fn shared(policies: &[Numbered<'_>], base: &str, root: &str, lens: Lens) -> Vec<Members> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (number, policy) in policies {
        let key = selectors(policy);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, members)) => members.push((*number, policy)),
            None => groups.push((key, vec![(*number, policy)])),
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
            .map(|(_, policy)| policy.metadata.name.value.as_str())
            .collect();
        names.sort_unstable();
        for is_ignore in [false, true] {
            let own: Vec<&Numbered<'_>> = members
                .iter()
                .filter(|(_, policy)| ignores(policy) == is_ignore)
                .collect();
            let rules: Vec<RuleWithOperations> = own.iter().flat_map(|(_, policy)| basic_rules(policy, lens)).collect();
            let Some((_, first)) = members.first().filter(|_| !rules.is_empty()) else {
                continue;
            };
            let webhook = Webhook {
                name: format!("{}{suffix}", name(base, !is_ignore, None)),
                path: format!("{root}/{}", names.join("/")),
                fails: !is_ignore,
                rules,
                namespace_selector: namespace_selector(first),
                object_selector: object_selector(first),
                ..Webhook::default()
            };
            webhooks.push((webhook, own.iter().map(|(number, _)| *number).collect()));
        }
    }
    webhooks
}

/// The rules that a policy adds to a shared webhook. Upstream omits what autogen generates from policies for one namespace.
fn basic_rules(policy: &ValidatingPolicy, lens: Lens) -> Vec<RuleWithOperations> {
    let variants = if policy.namespaced {
        Vec::new()
    } else {
        autogen::variants_at(policy, lens)
    };
    let generated = variants
        .iter()
        .map(|variant| variant.policy.spec.match_constraints.as_ref());
    let own = std::iter::once(policy.spec.match_constraints.as_ref());
    generated.chain(own).flat_map(rules).collect()
}
