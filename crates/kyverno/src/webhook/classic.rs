//! The webhooks of ClusterPolicies and Policies: one for all that fail on errors, one for all that ignore them, and one for
//! each policy with conditions of its own.
//!
//! Upstream counterpart: `buildForPoliciesValidation`, `buildForPoliciesMutation`, `mergeWebhook` and
//! `collectResourceDescriptions` of `pkg/controllers/webhook` (1.19).

use std::collections::{BTreeMap, BTreeSet};

use super::{
    RegisteredCondition, Webhook, name,
    registration::{Members, sorted},
};
use crate::{autogen, lens::Lens};
use kyvtest_go_compat::yaml::{Items, Node, Number};
use kyvtest_model::{
    kube::{Discovery, LabelSelector, Operation, ResourcePattern, RuleWithOperations, Scope},
    policy::{self, ClassicPolicy, FailurePolicy, KindSelector, PolicyKind},
};

/// The phase of admission that webhooks belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Mutating,
    Validating,
}

impl Phase {
    /// How the names begin.
    const fn base(self) -> &'static str {
        match self {
            Self::Mutating => "mutate.kyverno.svc",
            Self::Validating => "validate.kyverno.svc",
        }
    }

    /// How the paths begin.
    const fn root(self) -> &'static str {
        match self {
            Self::Mutating => "/mutate",
            Self::Validating => "/validate",
        }
    }

    /// The operations of a filter that names none.
    const fn operations(self) -> &'static [Operation] {
        match self {
            Self::Mutating => &[Operation::Create, Operation::Update],
            Self::Validating => &Operation::ALL,
        }
    }

    /// Whether a policy is registered for the phase at all.
    fn registers(self, policy: &ClassicPolicy) -> bool {
        match self {
            Self::Mutating => {
                let mut rules = policy.spec.rules.iter();
                rules.any(|rule| changes_object(rule) || rule.verify_images.is_some())
            }
            Self::Validating => true,
        }
    }
}

/// The time that a webhook gets, and the most that it may get, in seconds.
const TIMEOUT: i64 = 10;
const LONGEST_TIMEOUT: i64 = 30;

/// The operations of what a rule generates.
const GENERATED: [Operation; 3] = [Operation::Create, Operation::Update, Operation::Delete];

type Kinds = BTreeMap<String, BTreeSet<Operation>>;

/// One entry of a webhook's rules.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    operation: Operation,
}

/// What a policy contributes to its webhook.
#[derive(Default)]
struct Listed {
    entries: BTreeSet<Entry>,
    unknown: Vec<(KindSelector, Vec<Operation>)>,
}

pub(super) fn webhooks(policies: &[&ClassicPolicy], discovery: &Discovery, lens: Lens, phase: Phase) -> Vec<Members> {
    let is_on = |policy: &ClassicPolicy| (policy.spec.admission || !lens.admission_switch) && phase.registers(policy);
    let shared = |is_ignore| (is_ignore, Listed::default(), TIMEOUT, Vec::new());
    let mut shared = [shared(false), shared(true)];
    let mut own = Vec::new();
    for (number, policy) in policies.iter().enumerate().filter(|(_, policy)| is_on(policy)) {
        let listed = listed(policy, discovery, lens, phase);
        let timeout = timeout(policy).unwrap_or(0).max(TIMEOUT);
        let is_ignore = ignores(policy);
        let conditions = policy.spec.webhook.as_ref().map(|webhook| &webhook.match_conditions);
        match conditions.filter(|conditions| lens.webhook_conditions && !conditions.is_empty()) {
            Some(conditions) => {
                let key = policy.key();
                let word = word(is_ignore);
                let conditions = conditions.iter();
                let webhook = listed.webhook(timeout, phase).map(|webhook| Webhook {
                    name: name(phase.base(), !is_ignore, Some(&key.replace('/', "-"))),
                    path: format!("{}/{word}/finegrained/{key}", phase.root()),
                    fails: !is_ignore,
                    match_conditions: conditions.map(RegisteredCondition::plain).collect(),
                    ..webhook
                });
                own.extend(webhook.map(|webhook| (webhook, vec![number])));
            }
            None => {
                let (_, all, longest, members) = &mut shared[usize::from(is_ignore)];
                all.entries.extend(listed.entries);
                all.unknown.extend(listed.unknown);
                *longest = timeout.max(*longest);
                members.push(number);
            }
        }
    }
    let shared = shared.into_iter().filter_map(|(is_ignore, listed, timeout, members)| {
        let word = word(is_ignore);
        let webhook = listed.webhook(timeout, phase).map(|webhook| Webhook {
            name: name(phase.base(), !is_ignore, None),
            path: format!("{}/{word}", phase.root()),
            fails: !is_ignore,
            ..webhook
        });
        webhook.map(|webhook| (webhook, members))
    });
    shared.chain(own).collect()
}

impl Listed {
    /// Returns a webhook without its name; `None` if it lists nothing.
    fn webhook(self, timeout: i64, phase: Phase) -> Option<Webhook> {
        if self.entries.is_empty() && self.unknown.is_empty() {
            return None;
        }
        Some(Webhook {
            rules: rules(&self.entries),
            unknown_kinds: self.unknown,
            match_policy: Some("Equivalent"),
            timeout_seconds: Some(timeout.min(LONGEST_TIMEOUT)),
            object_selector: Some(LabelSelector::default()),
            reinvocation: (phase == Phase::Mutating).then_some("IfNeeded"),
            ..Webhook::default()
        })
    }
}

fn word(is_ignore: bool) -> &'static str {
    if is_ignore { "ignore" } else { "fail" }
}

/// Whether the policy ignores errors: the field of its webhook configuration takes precedence over its own.
fn ignores(policy: &ClassicPolicy) -> bool {
    let webhook = policy.spec.webhook.as_ref().and_then(|webhook| webhook.failure_policy);
    let word = webhook.or(policy.spec.failure_policy);
    word.is_some_and(|word| word.value == FailurePolicy::Ignore)
}

fn timeout(policy: &ClassicPolicy) -> Option<i64> {
    let webhook = policy.spec.webhook.as_ref().and_then(|webhook| webhook.timeout_seconds);
    webhook.map(|seconds| seconds.value).or_else(|| {
        let node = policy.spec.source.node().get("webhookTimeoutSeconds")?;
        match node.number()? {
            Number::Int(seconds) => Some(seconds),
            Number::Float(_) => None,
        }
    })
}

fn listed(policy: &ClassicPolicy, discovery: &Discovery, lens: Lens, phase: Phase) -> Listed {
    let mut kinds = Kinds::new();
    for rule in autogen::rules_at(policy, lens) {
        if belongs(&rule, phase) {
            collect(&rule, phase, &mut kinds);
        }
    }
    let scope = match policy.kind {
        PolicyKind::ClusterPolicy => "*",
        PolicyKind::Policy => "Namespaced",
    };
    let mut listed = Listed::default();
    for (kind, operations) in &kinds {
        let selector = KindSelector::parse(kind);
        let found: Vec<(String, String, String, String, &'static str)> = if selector.kind == "*" {
            let KindSelector {
                group,
                version,
                kind,
                subresource,
                ..
            } = selector;
            vec![(group, version, kind, subresource, scope)]
        } else {
            let found = discovery.find(
                &selector.group,
                &selector.version,
                &selector.kind,
                &selector.subresource,
            );
            let all = found.iter().map(|resource| {
                let scope = if resource.namespaced { "Namespaced" } else { "*" };
                let (group, version) = (resource.group.clone(), resource.version.clone());
                (
                    group,
                    version,
                    resource.plural.clone(),
                    resource.subresource.clone(),
                    scope,
                )
            });
            all.collect()
        };
        if found.is_empty() {
            listed
                .unknown
                .push((KindSelector::parse(kind), operations.iter().copied().collect()));
        }
        for (group, version, resource, subresource, scope) in found {
            listed.entries.extend(operations.iter().map(|operation| Entry {
                group: group.clone(),
                version: version.clone(),
                resource: resource.clone(),
                subresource: subresource.clone(),
                scope,
                operation: *operation,
            }));
        }
    }
    listed
}

/// Whether a rule changes existing objects.
fn changes_others(rule: &policy::Rule) -> bool {
    rule.mutate.as_ref().is_some_and(|mutate| {
        let targets = mutate.node().get("targets").and_then(Node::as_seq);
        targets.is_some_and(|targets| !targets.is_empty())
    })
}

/// Whether a rule changes the object of the request.
fn changes_object(rule: &policy::Rule) -> bool {
    rule.mutate.is_some() && !changes_others(rule)
}

/// Whether the kinds of a rule are listed in the webhooks of a phase.
fn belongs(rule: &policy::Rule, phase: Phase) -> bool {
    let has_manifests = || {
        let manifests = rule.validate.as_ref().and_then(|validate| validate.manifests.as_ref());
        let attestors = manifests.and_then(|manifests| manifests.node().get("attestors"));
        attestors
            .and_then(Node::as_seq)
            .is_some_and(|attestors| !attestors.is_empty())
    };
    let phased = match phase {
        Phase::Validating => rule.validate.is_some() || changes_others(rule),
        Phase::Mutating => changes_object(rule) || has_manifests(),
    };
    phased || rule.verify_images.is_some() || rule.generate.is_some()
}

fn collect(rule: &policy::Rule, phase: Phase, kinds: &mut Kinds) {
    let mut own = Kinds::new();
    let block = &rule.matches;
    for filter in std::iter::once(&block.inline).chain(&block.all).chain(&block.any) {
        let filter = &filter.resources;
        for kind in &filter.kinds {
            let listed = filter.operations.iter().filter_map(|text| text.parse().ok());
            let all = if filter.operations.is_empty() {
                if rule.generate.is_some() {
                    &Operation::ALL[..]
                } else {
                    phase.operations()
                }
            } else {
                &[]
            };
            own.entry(kind.text.clone())
                .or_default()
                .extend(listed.chain(all.iter().copied()));
        }
    }
    // Only filters with kinds and operations alone are left out here; the engine does the rest.
    for filter in rule.exclude.iter().flat_map(|block| &block.any) {
        let wanted = &filter.resources;
        let has_more = wanted.name.is_some()
            || !wanted.names.is_empty()
            || !wanted.namespaces.is_empty()
            || wanted.annotations.as_ref().is_some_and(|all| !all.is_empty())
            || wanted.selector.is_some()
            || wanted.namespace_selector.is_some();
        if !filter.user.is_empty() || has_more {
            continue;
        }
        let listed: Vec<Operation> = wanted.operations.iter().filter_map(|text| text.parse().ok()).collect();
        for (kind, operations) in &mut own {
            if wanted.kinds.is_empty() || wanted.kinds.iter().any(|other| other.text == *kind) {
                operations.retain(|operation| !wanted.operations.is_empty() && !listed.contains(operation));
            }
        }
    }
    if let Some(generate) = &rule.generate {
        generated(generate.node(), &mut own);
        let items = generate.node().get("foreach").and_then(Node::as_seq);
        for item in items.into_iter().flat_map(Items::iter) {
            generated(item, &mut own);
        }
    }
    for (kind, operations) in own {
        kinds.entry(kind).or_default().extend(operations);
    }
}

/// The kinds of what is generated.
fn generated(node: Node<'_>, kinds: &mut Kinds) {
    let kind = node.get("kind").and_then(Node::as_str).filter(|kind| !kind.is_empty());
    let cloned = node
        .get("cloneList")
        .and_then(|list| list.get("kinds"))
        .and_then(Node::as_seq);
    let cloned = cloned.into_iter().flat_map(Items::iter).filter_map(Node::as_str);
    let all: Vec<&str> = kind.map_or_else(|| cloned.collect(), |kind| vec![kind]);
    for kind in all {
        kinds.entry(kind.to_owned()).or_default().extend(GENERATED);
    }
}

/// The entries as rules: those that another entry covers are left out, resources with the same operations are joined.
fn rules(entries: &BTreeSet<Entry>) -> Vec<RuleWithOperations> {
    let mut by_version: BTreeMap<(&str, &str, &str), BTreeMap<String, BTreeSet<Operation>>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| !is_covered(entry, entries)) {
        let resource = match entry.subresource.as_str() {
            "" => entry.resource.clone(),
            subresource => format!("{}/{subresource}", entry.resource),
        };
        let resources = by_version
            .entry((&entry.group, &entry.version, entry.scope))
            .or_default();
        resources.entry(resource).or_default().insert(entry.operation);
    }
    let mut rules = Vec::new();
    for ((group, version, scope), resources) in by_version {
        let mut by_operations: BTreeMap<BTreeSet<Operation>, BTreeSet<String>> = BTreeMap::new();
        for (resource, operations) in resources {
            by_operations.entry(operations).or_default().insert(resource);
        }
        for (operations, mut resources) in by_operations {
            let is_core = matches!(group, "" | "*") && matches!(version, "v1" | "*");
            if is_core && (resources.contains("pods") || resources.contains("*")) {
                resources.insert("pods/ephemeralcontainers".to_owned());
            }
            rules.push(RuleWithOperations {
                api_groups: vec![group.to_owned()],
                api_versions: vec![version.to_owned()],
                resources: resources.iter().map(|text| ResourcePattern::from_text(text)).collect(),
                operations: operations
                    .iter()
                    .map(|operation| operation.as_str().to_owned())
                    .collect(),
                scope: Scope::from_text(scope),
            });
        }
    }
    sorted(rules)
}

/// A word and `*`, which covers it.
fn either(word: &str) -> Vec<&str> {
    if word == "*" { vec!["*"] } else { vec![word, "*"] }
}

/// Whether another entry is about everything that this one is about.
fn is_covered(entry: &Entry, entries: &BTreeSet<Entry>) -> bool {
    let scopes = either(entry.scope);
    let resource = entry.resource.as_str();
    let resources: Vec<(&str, &str)> = match entry.subresource.as_str() {
        "" if resource == "*" => vec![("*", ""), ("*", "*")],
        "" => vec![(resource, ""), ("*", ""), ("*", "*")],
        subresource => {
            let mut all = vec![(resource, subresource), (resource, "*"), ("*", subresource), ("*", "*")];
            all.dedup();
            all
        }
    };
    for scope in scopes {
        for group in either(&entry.group) {
            for version in either(&entry.version) {
                for (resource, subresource) in &resources {
                    let other = Entry {
                        group: group.to_owned(),
                        version: version.to_owned(),
                        resource: (*resource).to_owned(),
                        subresource: (*subresource).to_owned(),
                        scope,
                        operation: entry.operation,
                    };
                    if other != *entry && entries.contains(&other) {
                        return true;
                    }
                }
            }
        }
    }
    false
}
