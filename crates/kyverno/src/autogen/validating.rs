//! ValidatingPolicies for pod controllers.

use std::collections::{BTreeMap, BTreeSet};

use super::rewrite::{self, Template};
use kyvtest_go_compat::yaml::{Edited, Graft, Node, NodeId};
use kyvtest_model::policy::{
    MatchConstraints, NamedRule, PolicySpec, Subtree, Text, ValidatingPolicy, ValidatingPolicySpec,
};

/// Which of the two policies that may be generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Config {
    /// For CronJobs.
    Cronjobs,
    /// For the other controllers.
    Defaults,
}

impl Config {
    /// The name under which Kyverno keeps it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cronjobs => "cronjobs",
            Self::Defaults => "defaults",
        }
    }

    /// The path of the pod template.
    pub(super) fn template_path(self) -> String {
        self.template().path().join(".")
    }

    pub(super) const fn template(self) -> Template {
        match self {
            Self::Cronjobs => Template::CronJob,
            Self::Defaults => Template::Pod,
        }
    }
}

/// A kind of pod controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// The API group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The plural, by which `controllers` names it.
    pub resource: &'static str,
    /// The kind.
    pub kind: &'static str,
}

impl Target {
    /// Group and version as objects write them.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// What was generated from a ValidatingPolicy.
#[derive(Debug, Clone)]
pub struct Variant {
    /// Which of the two.
    pub config: Config,
    /// What it is about, sorted by group, version and resource.
    pub targets: Vec<Target>,
    /// The policy: name and all else as in the original, the spec rewritten.
    pub policy: ValidatingPolicy,
}

/// The controllers in the order of their group, version and resource.
const TARGETS: [(Config, Target); 6] = [
    (Config::Defaults, target("apps", "daemonsets", "DaemonSet")),
    (Config::Defaults, target("apps", "deployments", "Deployment")),
    (Config::Defaults, target("apps", "replicasets", "ReplicaSet")),
    (Config::Defaults, target("apps", "statefulsets", "StatefulSet")),
    (Config::Cronjobs, target("batch", "cronjobs", "CronJob")),
    (Config::Defaults, target("batch", "jobs", "Job")),
];

const fn target(group: &'static str, resource: &'static str, kind: &'static str) -> Target {
    Target {
        group,
        version: "v1",
        resource,
        kind,
    }
}

/// The policies that are generated from a policy, in Kyverno's order: that for CronJobs, then that for the others. Kyverno
/// decides each of them like a policy of its own with the same name.
pub fn variants(policy: &ValidatingPolicy) -> Vec<Variant> {
    let Some(constraints) = policy
        .spec
        .match_constraints
        .as_ref()
        .filter(|block| block.is_pods_only())
    else {
        return Vec::new();
    };
    for_controllers(policy.spec.autogen.pod_controllers.as_deref(), |config, targets| {
        let spec = spec(&policy.spec, constraints, config, &targets)?;
        Some(Variant {
            config,
            targets,
            policy: ValidatingPolicy { spec, ..policy.clone() },
        })
    })
}

/// What is generated for CronJobs, then for the other controllers; `wanted` are the plurals that the policy names, `None`
/// means all.
pub(super) fn for_controllers<T>(
    wanted: Option<&[Text]>,
    mut generate: impl FnMut(Config, Vec<Target>) -> Option<T>,
) -> Vec<T> {
    let configs = [Config::Cronjobs, Config::Defaults].into_iter();
    configs
        .filter_map(|config| {
            let targets = targets(config, wanted);
            (!targets.is_empty()).then(|| generate(config, targets))?
        })
        .collect()
}

fn targets(config: Config, wanted: Option<&[Text]>) -> Vec<Target> {
    let wanted = |target: &Target| wanted.is_none_or(|wanted| wanted.iter().any(|name| name.value == target.resource));
    let all = TARGETS.iter().filter(|(of, target)| *of == config && wanted(target));
    all.map(|(_, target)| *target).collect()
}

fn spec(
    spec: &ValidatingPolicySpec,
    constraints: &MatchConstraints,
    config: Config,
    targets: &[Target],
) -> Option<ValidatingPolicySpec> {
    let edit = |text: &mut Edited| rewrite::validating(config.template(), text);
    let has_operations = |rule: &NamedRule| !rule.rule.operations.is_empty();
    let is_empty = !constraints.resource_rules.iter().any(has_operations);
    regenerate(&spec.source, &edit, |graft, field, value| match field {
        "matchConstraints" => (!is_empty).then(|| match_constraints(graft, value, targets)),
        _ => Some(graft.copy(value)),
    })
}

/// A spec with other values of its fields; a field without a value is left out.
pub(super) fn regenerate<'t, S: PolicySpec>(
    source: &'t Subtree,
    edit: &'t dyn Fn(&mut Edited),
    mut value_of: impl FnMut(&mut Graft<'t>, &str, Node<'t>) -> Option<NodeId>,
) -> Option<S> {
    let (node, file) = (source.node(), source.file());
    let mut graft = Graft::new(node.tree(), edit);
    let mut made = Vec::new();
    for entry in node.as_map()?.iter() {
        if let Some(value) = value_of(&mut graft, entry.key, entry.value) {
            made.push((entry.key, entry.key_span, value));
        }
    }
    let root = graft.map(node.span(), &made);
    S::read(graft.finish(root), file)
}

/// One rule for each group and version, with the operations of the rule for Pods; of the rest only the namespace selector
/// is kept.
pub(super) fn match_constraints(graft: &mut Graft<'_>, node: Node<'_>, targets: &[Target]) -> NodeId {
    let rule = node
        .get("resourceRules")
        .and_then(Node::as_seq)
        .and_then(|rules| rules.get(0))
        .unwrap_or(node);
    let span = rule.span();
    let mut groups: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for target in targets {
        groups
            .entry((target.group, target.version))
            .or_default()
            .insert(target.resource);
    }
    let mut rules = Vec::new();
    for ((group, version), resources) in groups {
        let mut list = |texts: &mut dyn Iterator<Item = &str>| {
            let items: Vec<NodeId> = texts.map(|text| graft.string(span, text)).collect();
            graft.list(span, &items)
        };
        let groups = list(&mut [group].into_iter());
        let versions = list(&mut [version].into_iter());
        let resources = list(&mut resources.into_iter());
        let mut made = vec![
            ("apiGroups", span, groups),
            ("apiVersions", span, versions),
            ("resources", span, resources),
        ];
        if let Some(operations) = rule.get("operations") {
            made.push(("operations", operations.span(), graft.copy(operations)));
        }
        rules.push(graft.map(span, &made));
    }
    let rules = graft.list(span, &rules);
    let mut made = vec![("resourceRules", span, rules)];
    if let Some(selector) = node.get("namespaceSelector") {
        made.push(("namespaceSelector", selector.span(), graft.copy(selector)));
    }
    graft.map(node.span(), &made)
}
