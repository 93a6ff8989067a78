//! The webhooks of ValidatingPolicies: one for each policy with conditions that the API server can evaluate, with a timeout,
//! or with `matchPolicy: Exact`; the others share one for each pair of selectors.
//!
//! Upstream counterpart: `buildWebhookRules` of `pkg/controllers/webhook/validating.go` and `match_conditions.go` (1.19).

use super::{
    mentions_namespace, name, offloadable,
    registration::{Registered, Rule, sorted},
    selectors,
};
use crate::autogen::{self, Target, Variant};
use kyvtest_model::{
    kube::{self, LabelSelector, ResourcePattern, Scope},
    policy::{FailurePolicy, MatchCondition, MatchConstraints, MatchPolicy, ValidatingPolicy},
};

/// What a policy for Pods is about.
const PODS: Target = Target {
    group: "",
    version: "v1",
    resource: "pods",
    kind: "Pod",
};

/// The webhooks of the policies of one of the two kinds.
pub(super) fn webhooks(policies: &[&ValidatingPolicy], namespaced: bool) -> Vec<Registered> {
    let served = policies
        .iter()
        .copied()
        .filter(|policy| policy.namespaced == namespaced && policy.spec.evaluation.admission);
    let (fine, basic): (Vec<&ValidatingPolicy>, Vec<&ValidatingPolicy>) = served.partition(|policy| is_fine(policy));
    let (base, root) = if namespaced {
        ("nvpol.validate.kyverno.svc", "/nvpol")
    } else {
        ("vpol.validate.kyverno.svc", "/vpol")
    };
    let mut webhooks: Vec<Registered> = fine.iter().map(|policy| own(policy, base, root)).collect();
    webhooks.extend(shared(&basic, base, root));
    for webhook in &mut webhooks {
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
    !offloadable(&policy.spec.match_conditions).is_empty() || is_exact(policy) || policy.spec.timeout_seconds.is_some()
}

/// The conditions that the API server evaluates: it has no `namespaceObject` for them.
fn offloaded(conditions: &[MatchCondition]) -> Vec<(String, String)> {
    let kept = offloadable(conditions)
        .iter()
        .filter(|condition| !mentions_namespace(condition.expression.text()));
    kept.map(|condition| (condition.name.value.clone(), condition.expression.text().to_owned()))
        .collect()
}

/// Conditions that count for some kinds only.
fn guarded(prefix: &str, targets: &[Target], conditions: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut tests: Vec<String> = targets
        .iter()
        .map(|target| {
            let group = if target.group.is_empty() {
                String::new()
            } else {
                format!("{}/", target.group)
            };
            format!(
                "(object.apiVersion == '{group}{}' && object.kind =='{}')",
                target.version, target.kind
            )
        })
        .collect();
    tests.sort_unstable();
    tests.dedup();
    let test = tests.join(" || ");
    let guard =
        |(name, expression): (String, String)| (format!("{prefix}-{name}"), format!("!({test}) || ({expression})"));
    conditions.into_iter().map(guard).collect()
}

fn rules(constraints: Option<&MatchConstraints>) -> Vec<Rule> {
    let listed = constraints.into_iter().flat_map(|block| &block.resource_rules);
    listed.map(|named| rule(&named.rule)).collect()
}

fn rule(rule: &kube::RuleWithOperations) -> Rule {
    let resource = |pattern: &ResourcePattern| match pattern.subresource.as_str() {
        "" => pattern.resource.clone(),
        subresource => format!("{}/{subresource}", pattern.resource),
    };
    Rule {
        groups: rule.api_groups.clone(),
        versions: rule.api_versions.clone(),
        resources: rule.resources.iter().map(resource).collect(),
        operations: rule.operations.clone(),
        scope: match rule.scope {
            Scope::Cluster => "Cluster",
            Scope::Namespaced => "Namespaced",
            Scope::All | Scope::Unknown => "*",
        }
        .to_owned(),
    }
}

/// The labels that a namespace must have: a policy for one namespace asks for its name.
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
fn own(policy: &ValidatingPolicy, base: &str, root: &str) -> Registered {
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
    } in autogen::variants(policy)
    {
        let own = offloaded(&policy.spec.match_conditions);
        conditions.extend(guarded(&format!("autogen-{}", config.name()), &targets, own));
        rules.extend(self::rules(policy.spec.match_constraints.as_ref()));
    }
    let is_ignore = ignores(policy);
    let own = &policy.metadata.name.value;
    let namespace = policy.metadata.namespace.as_ref();
    let namespace = namespace.map(|text| format!("{}-", text.value)).unwrap_or_default();
    Registered {
        name: name(base, !is_ignore, Some(&format!("{namespace}{own}"))),
        path: format!("{root}/{own}"),
        is_ignore,
        rules,
        match_conditions: conditions,
        match_policy: is_exact(policy).then_some("Exact"),
        timeout_seconds: policy.spec.timeout_seconds.as_ref().map(|seconds| seconds.value),
        namespace_selector: namespace_selector(policy),
        object_selector: object_selector(policy),
    }
}

/// Policies that share a webhook, with the digest of their selectors.
type Group<'p> = (String, Vec<&'p ValidatingPolicy>);

/// The webhooks that several policies share.
fn shared(policies: &[&ValidatingPolicy], base: &str, root: &str) -> Vec<Registered> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for policy in policies {
        let key = selectors(policy);
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
            let mut rules = Vec::new();
            for policy in members.iter().filter(|policy| ignores(policy) == is_ignore) {
                // Upstream forgets the generated ones of policies for one namespace.
                let variants = if policy.namespaced {
                    Vec::new()
                } else {
                    autogen::variants(policy)
                };
                for variant in &variants {
                    rules.extend(self::rules(variant.policy.spec.match_constraints.as_ref()));
                }
                rules.extend(self::rules(policy.spec.match_constraints.as_ref()));
            }
            let Some(first) = members.first().filter(|_| !rules.is_empty()) else {
                continue;
            };
            webhooks.push(Registered {
                name: format!("{}{suffix}", name(base, !is_ignore, None)),
                path: format!("{root}/{}", names.join("/")),
                is_ignore,
                rules,
                namespace_selector: namespace_selector(first),
                object_selector: object_selector(first),
                ..Registered::default()
            });
        }
    }
    webhooks
}
