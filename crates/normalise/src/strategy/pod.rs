//! Strategy of pods: status, and label keys that become selectors.
//!
//! Upstream counterpart: `pkg/registry/core/pod/strategy.go`, `pkg/apis/core/helper/qos`.

use kyvtest_go_compat::text::quantity::Quantity;

use crate::node::Node;

pub(super) fn create(node: &mut Node<'_>, now: &str) {
    let class = quality_of_service(node.child("spec"));
    let gated = !node.child("spec").list("schedulingGates").is_empty();
    let status = node.child("status");
    status.set("phase", "Pending");
    status.set("qosClass", class);
    if gated {
        let mut condition = Node::EMPTY;
        condition.set("type", "PodScheduled");
        condition.set("status", "False");
        condition.set("lastTransitionTime", now.to_owned());
        condition.set("reason", "SchedulingGated");
        condition.set("message", "Scheduling is blocked due to non-empty scheduling gates");
        status.set("conditions", Node::List(vec![condition]));
    }
    let labels = node.at(&["metadata", "labels"]).cloned().unwrap_or(Node::EMPTY);
    affinity(node.child("spec"), &labels);
    app_armor(node);
}

/// What a status update keeps of the stored pod.
pub(super) fn status(node: &mut Node<'_>, old: &Node<'_>) {
    let metadata = node.child("metadata");
    metadata.remove("deletionTimestamp");
    metadata.remove("ownerReferences");
    if let Some(owners) = old.at(&["metadata", "ownerReferences"]) {
        metadata.set("ownerReferences", owners.to_owned());
    }
    let status = node.child("status");
    for field in ["qosClass", "observedGeneration"] {
        let value = old.at(&["status", field]).cloned();
        if let (Some(value), true) = (value, status.get(field).is_none_or(Node::is_empty)) {
            status.set(field, value.to_owned());
        }
    }
    keep_condition_generations(status, old);
}

/// Conditions without a generation keep that of the stored condition of their type, in order.
fn keep_condition_generations(status: &mut Node<'_>, old: &Node<'_>) {
    let stored = old.get("status").map_or(&[][..], |status| status.list("conditions"));
    let mut used = vec![false; stored.len()];
    for condition in status.list_mut("conditions") {
        let same = |at: &usize| !used[*at] && stored[*at].str("type") == condition.str("type");
        let Some(at) = (0..stored.len()).find(same) else {
            continue;
        };
        used[at] = true;
        if condition.int("observedGeneration").unwrap_or(0) == 0
            && let Some(generation) = stored[at].int("observedGeneration")
        {
            condition.set("observedGeneration", generation);
        }
    }
}

/// Sum of the positive amounts of each of `cpu` and `memory`.
#[derive(Default)]
struct Totals {
    cpu: Option<Quantity>,
    memory: Option<Quantity>,
}

impl Totals {
    /// Adds amounts; returns whether both resources were among them.
    fn add(&mut self, resources: &Node<'_>, field: &str) -> bool {
        let mut both = 0;
        for (name, amount) in resources.map(field) {
            let total = match name.as_ref() {
                "cpu" => &mut self.cpu,
                "memory" => &mut self.memory,
                _ => continue,
            };
            let Ok(amount) = Quantity::parse(amount.as_str()) else {
                continue;
            };
            if amount.sign() > 0 {
                both += 1;
                *total = Some(total.take().map_or_else(|| amount.clone(), |total| total.add(&amount)));
            }
        }
        both == 2
    }
}

pub(crate) fn quality_of_service(spec: &Node<'_>) -> &'static str {
    let (mut requests, mut limits) = (Totals::default(), Totals::default());
    let mut guaranteed = true;
    if let Some(resources) = spec.get("resources") {
        requests.add(resources, "requests");
        if !resources.map("limits").is_empty() {
            guaranteed = limits.add(resources, "limits");
        }
    } else {
        for container in spec.list("containers").iter().chain(spec.list("initContainers")) {
            let Some(resources) = container.get("resources") else {
                continue;
            };
            requests.add(resources, "requests");
            guaranteed &= limits.add(resources, "limits");
        }
    }
    let none = |totals: &Totals| totals.cpu.is_none() && totals.memory.is_none();
    if none(&requests) && none(&limits) {
        "BestEffort"
    } else if guaranteed && requests.cpu == limits.cpu && requests.memory == limits.memory {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Turns `matchLabelKeys` and `mismatchLabelKeys` into requirements of the selector.
fn affinity(spec: &mut Node<'_>, labels: &Node<'_>) {
    if let Some(affinity) = spec.get_mut("affinity") {
        for kind in ["podAffinity", "podAntiAffinity"] {
            let Some(affinity) = affinity.get_mut(kind) else {
                continue;
            };
            for preferred in affinity.list_mut("preferredDuringSchedulingIgnoredDuringExecution") {
                if let Some(term) = preferred.get_mut("podAffinityTerm") {
                    apply_label_keys(term, labels);
                }
            }
            for term in affinity.list_mut("requiredDuringSchedulingIgnoredDuringExecution") {
                apply_label_keys(term, labels);
            }
        }
    }
    for constraint in spec.list_mut("topologySpreadConstraints") {
        apply_label_keys(constraint, labels);
    }
}

fn apply_label_keys(term: &mut Node<'_>, labels: &Node<'_>) {
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys: Vec<String> = term.list(field).iter().map(|key| key.as_str().to_owned()).collect();
        let Some(selector) = term.get_mut("labelSelector") else {
            return;
        };
        for key in keys {
            let Some(value) = labels.get(&key) else { continue };
            let mut requirement = Node::EMPTY;
            requirement.set("key", key);
            requirement.set("operator", operator);
            requirement.set("values", Node::List(vec![value.to_owned()]));
            selector.child_list("matchExpressions").push(requirement);
        }
    }
}

/// Copies the deprecated annotations of AppArmor into the fields that replace them.
fn app_armor(node: &mut Node<'_>) {
    const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
    let Some(annotations) = node.at(&["metadata", "annotations"]).cloned() else {
        return;
    };
    if !annotations.entries().iter().any(|(key, _)| key.starts_with(PREFIX)) {
        return;
    }
    let spec = node.child("spec");
    if spec.at(&["os", "name"]).is_some_and(|name| name.as_str() == "windows") {
        return;
    }
    let of_pod = spec.at(&["securityContext", "appArmorProfile"]).cloned();
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.list_mut(field) {
            let key = format!("{PREFIX}{}", container.str("name"));
            let Some(annotation) = annotations.get(&key) else {
                continue;
            };
            if container.at(&["securityContext", "appArmorProfile"]).is_some() {
                continue;
            }
            let mut profile = Node::EMPTY;
            match annotation.as_str() {
                "unconfined" => profile.set("type", "Unconfined"),
                "runtime/default" | "" => profile.set("type", "RuntimeDefault"),
                text => match text.strip_prefix("localhost/") {
                    Some(name) if !name.trim().is_empty() && name == name.trim() => {
                        profile.set("type", "Localhost");
                        profile.set("localhostProfile", name.to_owned());
                    }
                    _ => continue,
                },
            }
            if of_pod.as_ref().is_none_or(|of_pod| !of_pod.same(&profile)) {
                container.child("securityContext").set("appArmorProfile", profile);
            }
        }
    }
}
