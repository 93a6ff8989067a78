//! What the webhook of a ValidatingPolicy or MutatingPolicy is built from, and how such policies share webhooks: a policy
//! with conditions that the API server can evaluate, with a timeout, or with `matchPolicy: Exact` has its own webhook; the
//! others share one for each pair of selectors.
//!
//! Upstream counterpart: `buildWebhookRules` of `pkg/controllers/webhook/{validating,mutating}.go` and
//! `match_conditions.go` (Kyverno 1.19).

use super::{
    RegisteredCondition, Webhook, digest, mentions_namespace, name, offloadable,
    registration::{Members, sorted},
};
use crate::autogen::{Config, Target};
use kyvtest_go_compat::yaml::Node;
use kyvtest_model::{
    kube::{self, LabelSelector, RuleWithOperations},
    policy::{FailurePolicy, MatchCondition, MatchConstraints, MatchPolicy, Metadata, Spanned, Text},
};

/// What a policy for Pods is about.
const PODS: Target = Target {
    group: "",
    version: "v1",
    resource: "pods",
    kind: "Pod",
};

/// A policy, reduced to what its webhook is built from.
pub(super) struct Subject<'p> {
    name: &'p str,
    /// The namespace that a namespaced policy is for.
    namespace: Option<&'p Text>,
    constraints: Option<&'p MatchConstraints>,
    pub ignores_errors: bool,
    pub timeout_seconds: Option<i64>,
    /// Conditions of the policy and of its autogen variants, as the API server gets them.
    pub conditions: Vec<RegisteredCondition>,
    /// Rules of the policy and of its autogen variants.
    pub rules: Vec<RuleWithOperations>,
    /// The rules without those of autogen.
    own_rules: Vec<RuleWithOperations>,
    has_conditions_to_offload: bool,
}

/// The parts of a policy that a [`Subject`] is made from.
pub(super) struct Source<'p> {
    pub metadata: &'p Metadata,
    pub constraints: Option<&'p MatchConstraints>,
    pub match_conditions: &'p [MatchCondition],
    /// The policy's `spec` as written.
    pub spec: Node<'p>,
    pub failure_policy: Option<Spanned<FailurePolicy>>,
    pub timeout_seconds: Option<Spanned<i64>>,
}

impl<'p> Subject<'p> {
    pub(super) fn new(source: &Source<'p>) -> Self {
        let offloaded_conditions = offloaded(source.match_conditions);
        let conditions = if source.constraints.is_some_and(MatchConstraints::is_pods_only) {
            guarded("autogen", &[PODS], offloaded_conditions)
        } else {
            offloaded_conditions
        };
        // Upstream tests the offloaded list for nil, so a list that is written and empty counts.
        let is_empty_list = source.match_conditions.is_empty() && {
            let written = source.spec.get("matchConditions");
            written.is_some_and(|node| node.as_seq().is_some())
        };
        let rules = rules(source.constraints);
        Self {
            name: &source.metadata.name.value,
            namespace: source.metadata.namespace.as_ref(),
            constraints: source.constraints,
            ignores_errors: source
                .failure_policy
                .is_some_and(|word| word.value == FailurePolicy::Ignore),
            timeout_seconds: source.timeout_seconds.map(|seconds| seconds.value),
            conditions,
            own_rules: rules.clone(),
            rules,
            has_conditions_to_offload: is_empty_list || !offloadable(source.match_conditions).is_empty(),
        }
    }

    /// Adds the conditions and rules of a policy that autogen makes of this one.
    pub(super) fn add_variant(
        &mut self,
        config: Config,
        targets: &[Target],
        match_conditions: &[MatchCondition],
        constraints: Option<&MatchConstraints>,
    ) {
        let prefix = format!("autogen-{}", config.name());
        self.conditions
            .extend(guarded(&prefix, targets, offloaded(match_conditions)));
        self.rules.extend(rules(constraints));
    }

    /// Removes the rules of autogen.
    pub(super) fn without_variants(mut self) -> Self {
        self.rules.clone_from(&self.own_rules);
        self
    }

    /// Whether the policy matches its resources in the requested version alone.
    pub(super) fn is_exact(&self) -> bool {
        let word = self.constraints.and_then(|block| block.match_policy.as_ref());
        word.is_some_and(|word| word.value == MatchPolicy::Exact)
    }

    /// Whether the policy has a webhook to itself (`fineGrained` upstream).
    pub(super) fn is_fine_grained(&self) -> bool {
        self.has_conditions_to_offload || self.is_exact() || self.timeout_seconds.is_some()
    }

    /// The labels that a namespace must have: a policy for one namespace requires its name.
    pub(super) fn namespace_selector(&self) -> Option<LabelSelector> {
        if let Some(namespace) = self.namespace {
            let expression = kube::Expression {
                key: kube::NAME_LABEL.to_owned(),
                operator: "In".to_owned(),
                values: vec![namespace.value.clone()],
            };
            return Some(LabelSelector::new([], [expression]));
        }
        let selector = self.constraints?.namespace_selector.as_ref();
        selector.map(|selector| selector.value.clone())
    }

    pub(super) fn object_selector(&self) -> Option<LabelSelector> {
        let selector = self.constraints?.object_selector.as_ref();
        selector.map(|selector| selector.value.clone())
    }

    /// The webhook of this policy alone.
    pub(super) fn own_webhook(self, base: &str, root: &str) -> Webhook {
        let namespace = self.namespace.map(|text| format!("{}-", text.value));
        let own = format!("{}{}", namespace.unwrap_or_default(), self.name);
        Webhook {
            name: name(base, !self.ignores_errors, Some(&own)),
            path: format!("{root}/{}", self.name),
            fails: !self.ignores_errors,
            timeout_seconds: self.timeout_seconds,
            namespace_selector: self.namespace_selector(),
            object_selector: self.object_selector(),
            rules: sorted(self.rules),
            match_conditions: self.conditions,
            ..Webhook::default()
        }
    }
}

/// The webhooks that policies share: one for each pair of selectors and each treatment of errors.
pub(super) fn shared(policies: &[(usize, Subject<'_>)], base: &str, root: &str) -> Vec<Members> {
    let mut groups: Vec<(String, Vec<&(usize, Subject<'_>)>)> = Vec::new();
    for policy in policies {
        let key = digest(policy.1.namespace, policy.1.constraints);
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
        let mut names: Vec<&str> = members.iter().map(|(_, policy)| policy.name).collect();
        names.sort_unstable();
        for ignores_errors in [false, true] {
            let of_word = || members.iter().filter(|(_, one)| one.ignores_errors == ignores_errors);
            let rules: Vec<RuleWithOperations> = of_word().flat_map(|(_, policy)| policy.rules.clone()).collect();
            let Some((_, first)) = of_word().next().filter(|_| !rules.is_empty()) else {
                continue;
            };
            let webhook = Webhook {
                name: format!("{}{suffix}", name(base, !ignores_errors, None)),
                path: format!("{root}/{}", names.join("/")),
                fails: !ignores_errors,
                rules: sorted(rules),
                namespace_selector: first.namespace_selector(),
                object_selector: first.object_selector(),
                ..Webhook::default()
            };
            webhooks.push((webhook, of_word().map(|(number, _)| *number).collect()));
        }
    }
    webhooks
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
