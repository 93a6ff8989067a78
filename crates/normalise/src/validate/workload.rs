//! Workloads of `apps`, replication controllers, disruption budgets.
//!
//! Upstream counterpart: `pkg/apis/{apps,policy}/validation/validation.go`.

use super::{Checker, Path, TypeCheck, format, meta};
use crate::node::Node;

pub(super) fn check(name: &str) -> Option<TypeCheck> {
    Some(match name {
        "apps.v1.DeploymentSpec" => deployment,
        "apps.v1.DeploymentStrategy" => deployment_strategy,
        "apps.v1.DaemonSetSpec" => daemon_set,
        "apps.v1.DaemonSetUpdateStrategy" => daemon_set_strategy,
        "apps.v1.StatefulSetSpec" => stateful_set,
        "apps.v1.ReplicaSetSpec" => replica_set,
        "apps.v1.ControllerRevision" => revision,
        "core.v1.ReplicationControllerSpec" => replication_controller,
        "policy.v1.PodDisruptionBudgetSpec" => disruption_budget,
        _ => return None,
    })
}

/// Checks selector and template of a workload that keeps pods running.
fn selector_and_template(checker: &mut Checker<'_>, node: &Node<'_>, kind: &str, path: &Path<'_>) {
    let at = path.field("selector");
    let selector = node.get("selector");
    match selector {
        None if kind != "daemonset" => checker.required(&at, ""),
        None => {}
        Some(own) => {
            meta::selector(checker, own, &at);
            if own.map("matchLabels").is_empty() && own.list("matchExpressions").is_empty() {
                checker.invalid(&at, "", &format!("empty selector is invalid for {kind}"));
            }
        }
    }
    let template = path.field("template");
    let Some(own) = node.get("template") else { return };
    let empty = Node::EMPTY;
    let labels = own.at(&["metadata", "labels"]).unwrap_or(&empty);
    let matches = match selector {
        // A missing selector matches nothing; an empty one is not compared.
        None => Some(false),
        Some(selector)
            if kind != "daemonset"
                && selector.map("matchLabels").is_empty()
                && selector.list("matchExpressions").is_empty() =>
        {
            Some(true)
        }
        Some(selector) => meta::matches(selector, labels),
    };
    match matches {
        Some(true) => {}
        Some(false) => {
            let at = template.field("metadata");
            checker.invalid(&at.field("labels"), "", "`selector` does not match template `labels`");
        }
        None if kind != "daemonset" => {
            return checker.invalid(&at, "", "invalid label selector");
        }
        None => {}
    }
    checker.object("core.v1.PodTemplateSpec", own, &template);
    always_restarts(checker, own, &template);
}

fn always_restarts(checker: &mut Checker<'_>, template: &Node<'_>, path: &Path<'_>) {
    let path = path.field("spec");
    let Some(spec) = template.get("spec") else { return };
    if spec.str("restartPolicy") != "Always" {
        checker.unsupported(&path.field("restartPolicy"), spec.str("restartPolicy"), &["Always"]);
    }
    if spec.has("activeDeadlineSeconds") {
        checker.forbidden(
            &path.field("activeDeadlineSeconds"),
            "activeDeadlineSeconds is not supported",
        );
    }
}

fn deployment(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    selector_and_template(checker, node, "deployment", path);
    if let Some(deadline) = node.int("progressDeadlineSeconds")
        && deadline <= node.int("minReadySeconds").unwrap_or(0)
    {
        let at = path.field("progressDeadlineSeconds");
        checker.invalid(&at, &deadline.to_string(), "must be greater than minReadySeconds");
    }
}

fn replica_set(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    selector_and_template(checker, node, "deployment", path);
}

fn daemon_set(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    selector_and_template(checker, node, "daemonset", path);
}

/// A number that is not negative, or a percentage.
fn int_or_percent(checker: &mut Checker<'_>, value: Option<&Node<'_>>, path: &Path<'_>) {
    match value {
        Some(Node::Int(number)) if *number < 0 => {
            checker.invalid(path, &number.to_string(), "must be greater than or equal to 0");
        }
        Some(Node::Text(text)) if !format::is_percent(text) => {
            let detail = "a valid percent string must be a numeric string followed by an ending '%'";
            checker.invalid(path, text, detail);
        }
        _ => {}
    }
}

fn at_most_100_percent(checker: &mut Checker<'_>, value: Option<&Node<'_>>, path: &Path<'_>) {
    if let Some(Node::Text(text)) = value
        && format::is_percent(text)
        && text
            .trim_end_matches('%')
            .parse::<i64>()
            .is_ok_and(|percent| percent > 100)
    {
        checker.invalid(path, text, "must not be greater than 100%");
    }
}

/// The number, or that of the percentage; zero for anything else.
fn amount(value: Option<&Node<'_>>) -> i64 {
    match value {
        Some(Node::Int(number)) => *number,
        Some(Node::Text(text)) if format::is_percent(text) => text.trim_end_matches('%').parse().unwrap_or(0),
        _ => 0,
    }
}

fn deployment_strategy(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let at = path.field("rollingUpdate");
    match (node.str("type"), node.get("rollingUpdate")) {
        ("Recreate", Some(_)) => checker.forbidden(&at, "may not be specified when strategy `type` is 'Recreate'"),
        ("Recreate", None) => {}
        ("RollingUpdate", None) => checker.required(&at, "this should be defaulted and never be nil"),
        ("RollingUpdate", Some(update)) => {
            let (unavailable, surge) = (update.get("maxUnavailable"), update.get("maxSurge"));
            int_or_percent(checker, unavailable, &at.field("maxUnavailable"));
            int_or_percent(checker, surge, &at.field("maxSurge"));
            if amount(unavailable) == 0 && amount(surge) == 0 {
                checker.invalid(&at.field("maxUnavailable"), "0", "may not be 0 when `maxSurge` is 0");
            }
            at_most_100_percent(checker, unavailable, &at.field("maxUnavailable"));
        }
        (other, _) => checker.unsupported(path, other, &["Recreate", "RollingUpdate"]),
    }
}

fn daemon_set_strategy(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let at = path.field("rollingUpdate");
    match (node.str("type"), node.get("rollingUpdate")) {
        ("OnDelete", _) => {}
        ("RollingUpdate", None) => checker.required(&at, ""),
        ("RollingUpdate", Some(update)) => {
            let (unavailable, surge) = (update.get("maxUnavailable"), update.get("maxSurge"));
            for (value, field) in [(unavailable, "maxUnavailable"), (surge, "maxSurge")] {
                int_or_percent(checker, value, &at.field(field));
                at_most_100_percent(checker, value, &at.field(field));
            }
            match (amount(unavailable) != 0, amount(surge) != 0) {
                (true, true) => checker.invalid(
                    &at.field("maxSurge"),
                    "",
                    "may not be set when maxUnavailable is non-zero",
                ),
                (false, false) => checker.required(&at.field("maxUnavailable"), "cannot be 0 when maxSurge is 0"),
                _ => {}
            }
        }
        (other, _) => checker.unsupported(path, other, &["OnDelete", "RollingUpdate"]),
    }
}

fn stateful_set(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    match node.str("podManagementPolicy") {
        "" => checker.required(&path.field("podManagementPolicy"), ""),
        "OrderedReady" | "Parallel" => {}
        other => checker.invalid(
            &path.field("podManagementPolicy"),
            other,
            "must be 'OrderedReady' or 'Parallel'",
        ),
    }
    let at = path.field("updateStrategy");
    let strategy = node.get("updateStrategy");
    let update = strategy.and_then(|strategy| strategy.get("rollingUpdate"));
    match strategy.map_or("", |strategy| strategy.str("type")) {
        "" => checker.required(&at, ""),
        "OnDelete" => {
            if update.is_some() {
                checker.invalid(
                    &at.field("rollingUpdate"),
                    "",
                    "only allowed for updateStrategy 'RollingUpdate'",
                );
            }
        }
        "RollingUpdate" => {
            if let Some(partition) = update.and_then(|update| update.int("partition")).filter(|own| *own < 0) {
                let at = at.field("rollingUpdate");
                checker.invalid(
                    &at.field("partition"),
                    &partition.to_string(),
                    "must be greater than or equal to 0",
                );
            }
        }
        other => checker.invalid(&at, other, "must be 'RollingUpdate' or 'OnDelete'"),
    }
    if let Some(start) = node
        .get("ordinals")
        .and_then(|own| own.int("start"))
        .filter(|start| *start < 0)
    {
        checker.invalid(
            &path.field("ordinals.start"),
            &start.to_string(),
            "must be greater than or equal to 0",
        );
    }
    if let Some(template) = node.get("template") {
        stateful_template(checker, template, &path.field("template"));
    }
    // Claims cannot change, so only those of new objects are checked.
    let claims = if checker.create {
        node.list("volumeClaimTemplates")
    } else {
        &[]
    };
    for (index, claim) in claims.iter().enumerate() {
        if let Some(spec) = claim.get("spec") {
            let at = path.field("volumeClaimTemplates");
            let at = at.index(index);
            checker.object("core.v1.PersistentVolumeClaimSpec", spec, &at.field("spec"));
        }
    }
    let with_claims = template_with_claims(node);
    selector_and_template(checker, with_claims.as_ref().unwrap_or(node), "statefulset", path);
}

/// Upstream checks the metadata of a stateful set's template once more, at paths without `metadata`.
fn stateful_template(checker: &mut Checker<'_>, template: &Node<'_>, path: &Path<'_>) {
    let Some(metadata) = template.get("metadata") else {
        return;
    };
    meta::labels(checker, metadata.map("labels"), &path.field("labels"));
    meta::annotations(checker, metadata.map("annotations"), &path.field("annotations"));
}

/// The set with the volumes that its claims add to the template, which mounts may refer to.
fn template_with_claims<'a>(node: &Node<'a>) -> Option<Node<'a>> {
    let claims = node.list("volumeClaimTemplates");
    let spec = node.at(&["template", "spec"])?;
    if claims.is_empty() && spec.str("subdomain").is_empty() && spec.str("hostname").is_empty() {
        return None;
    }
    let mut copy = node.clone();
    let spec = copy.at_mut(&["template", "spec"])?;
    spec.remove("subdomain");
    spec.remove("hostname");
    if claims.is_empty() {
        return Some(copy);
    }
    let name = |claim: &Node<'a>| claim.at(&["metadata", "name"]).cloned().unwrap_or(Node::text(""));
    let mut volumes: Vec<Node<'a>> = Vec::new();
    for claim in claims {
        let mut source = Node::EMPTY;
        source.set("claimName", name(claim));
        let mut volume = Node::EMPTY;
        volume.set("name", name(claim));
        volume.set("persistentVolumeClaim", source);
        if !volumes.iter().any(|other| other.str("name") == volume.str("name")) {
            volumes.push(volume);
        }
    }
    let own: Vec<Node<'a>> = spec
        .list("volumes")
        .iter()
        .filter(|volume| !volumes.iter().any(|other| other.str("name") == volume.str("name")))
        .cloned()
        .collect();
    volumes.extend(own);
    spec.set("volumes", Node::List(volumes));
    Some(copy)
}

fn revision(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    // The data cannot change.
    if !checker.create {
        return;
    }
    match node.get("data") {
        None => checker.required(&path.field("data"), "data is mandatory"),
        Some(Node::Map(_)) => {}
        Some(_) => checker.required(&path.field("data"), "data must be a valid JSON object"),
    }
}

fn replication_controller(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    if node.map("selector").is_empty() {
        checker.required(&path.field("selector"), "");
    }
    let at = path.field("template");
    let Some(template) = node.get("template") else {
        return checker.required(&at, "");
    };
    let label = |key: &str| template.at(&["metadata", "labels", key]).map(Node::as_str);
    if !node
        .map("selector")
        .iter()
        .all(|(key, value)| label(key) == Some(value.as_str()))
    {
        let at = at.field("metadata");
        checker.invalid(&at.field("labels"), "", "`selector` does not match template `labels`");
    }
    checker.object("core.v1.PodTemplateSpec", template, &at);
    always_restarts(checker, template, &at);
}

fn disruption_budget(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    if node.has("minAvailable") && node.has("maxUnavailable") {
        checker.invalid(path, "", "minAvailable and maxUnavailable cannot be both set");
    }
    for field in ["minAvailable", "maxUnavailable"] {
        int_or_percent(checker, node.get(field), &path.field(field));
        at_most_100_percent(checker, node.get(field), &path.field(field));
    }
}
