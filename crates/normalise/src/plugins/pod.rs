//! Plugins that change pods.
//!
//! Upstream counterpart: `plugin/pkg/admission/{limitranger,priority,defaulttolerationseconds,runtimeclass}`.

use std::borrow::Cow;

use kyvtest_go_compat::value::Value;

use crate::{Cluster, Refused, Stage, node::Node, step::Decoded};

fn forbidden(node: &Node<'_>, message: &str) -> Refused {
    let name = node.at(&["metadata", "name"]).map_or("", Node::as_str);
    Refused::new(Stage::Admission, format!("pods \"{name}\" is forbidden: {message}"))
}

/// Default requests and limits of the namespace.
pub(super) fn limit_ranges(node: &mut Node<'_>, cluster: &Cluster) {
    let namespace = node.at(&["metadata", "namespace"]).map_or("", Node::as_str).to_owned();
    for range in cluster.of_kind("LimitRange") {
        let own = range
            .at(&["metadata", "namespace"])
            .and_then(Value::as_str)
            .unwrap_or("default");
        if own != namespace {
            continue;
        }
        let limits = range.at(&["spec", "limits"]).and_then(Value::as_list);
        let items = limits.into_iter().flat_map(kyvtest_go_compat::value::List::iter);
        for item in items.filter(|item| item.get("type").and_then(Value::as_str) == Some("Container")) {
            limit_containers(node, item);
        }
    }
}

fn limit_containers(node: &mut Node<'_>, item: Value<'_>) {
    let amounts = |field: &str| -> Vec<(String, Node<'static>)> {
        let entries = item.get(field).and_then(Value::as_map);
        let entries = entries.into_iter().flat_map(kyvtest_go_compat::value::Map::iter);
        entries
            .map(|(key, value)| (key.text().to_owned(), Node::of(value).to_owned()))
            .collect()
    };
    let (most, least) = (amounts("max"), amounts("min"));
    let mut limits = amounts("default");
    for (name, value) in most {
        if !limits.iter().any(|(known, _)| *known == name) {
            limits.push((name, value));
        }
    }
    let mut requests = amounts("defaultRequest");
    for (name, value) in limits.iter().cloned().chain(least) {
        if !requests.iter().any(|(known, _)| *known == name) {
            requests.push((name, value));
        }
    }
    let Some(spec) = node.get_mut("spec") else { return };
    for field in ["containers", "initContainers"] {
        for container in spec.list_mut(field) {
            let resources = container.child("resources");
            for (field, defaults) in [("limits", &limits), ("requests", &requests)] {
                for (name, value) in defaults {
                    if resources.at(&[field, name]).is_none() {
                        resources.child(field).set(Cow::Owned(name.clone()), value.clone());
                    }
                }
            }
        }
    }
}

/// Resolves the priority class.
pub(super) fn priority(decoded: &mut Decoded<'_>, cluster: &Cluster, create: bool) -> Result<(), Refused> {
    let node = &decoded.node;
    let Some(spec) = node.get("spec") else { return Ok(()) };
    let name = spec.str("priorityClassName").to_owned();
    if !create && spec.has("priority") {
        return Ok(());
    }
    let int = |class: Value<'_>| match class.get("value") {
        Some(Value::Int(value)) => value,
        _ => 0,
    };
    let policy = |class: Value<'_>| {
        let policy = class.get("preemptionPolicy").and_then(Value::as_str);
        policy.unwrap_or("PreemptLowerPriority").to_owned()
    };
    let (value, policy, class) = match name.as_str() {
        "" => {
            let default = cluster
                .of_kind("PriorityClass")
                .filter(|class| class.get("globalDefault").and_then(Value::as_bool) == Some(true))
                .min_by_key(|class| int(*class));
            match default {
                Some(class) => {
                    let name = class.at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or("");
                    (int(class), policy(class), Some(name.to_owned()))
                }
                None => (0, "PreemptLowerPriority".to_owned(), None),
            }
        }
        "system-cluster-critical" => (2_000_000_000, "PreemptLowerPriority".to_owned(), None),
        "system-node-critical" => (2_000_001_000, "PreemptLowerPriority".to_owned(), None),
        name => match cluster.named("PriorityClass", "", name) {
            Some(class) => (int(class), policy(class), None),
            None if cluster.complete => {
                return Err(forbidden(node, &format!("no PriorityClass with name {name} was found")));
            }
            None => {
                decoded
                    .warnings
                    .push(format!("PriorityClass `{name}` not found; priority left unset"));
                return Ok(());
            }
        },
    };
    check_priority(node, spec, value, &policy)?;
    let spec = decoded.node.child("spec");
    if let Some(class) = class {
        spec.set("priorityClassName", class);
    }
    spec.set("priority", value);
    spec.set("preemptionPolicy", policy);
    Ok(())
}

fn check_priority(node: &Node<'_>, spec: &Node<'_>, value: i64, policy: &str) -> Result<(), Refused> {
    if let Some(own) = spec.int("priority").filter(|own| *own != value) {
        return Err(forbidden(
            node,
            &format!(
                "the integer value of priority ({own}) must not be provided in pod spec; priority admission controller \
                 computed {value} from the given PriorityClass name"
            ),
        ));
    }
    match spec.str("preemptionPolicy") {
        own if own.is_empty() || own == policy => Ok(()),
        own => Err(forbidden(
            node,
            &format!(
                "the string value of PreemptionPolicy ({own}) must not be provided in pod spec; priority admission \
                 controller computed {policy} from the given PriorityClass name"
            ),
        )),
    }
}

/// Tolerates nodes that are not ready or unreachable for five minutes.
pub(super) fn tolerations(node: &mut Node<'_>) {
    let Some(spec) = node.get_mut("spec") else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = spec.list("tolerations").iter().any(|toleration| {
            matches!(toleration.str("key"), own if own == key || own.is_empty())
                && matches!(toleration.str("effect"), "NoExecute" | "")
        });
        if !tolerated {
            let mut toleration = Node::EMPTY;
            toleration.set("key", key);
            toleration.set("operator", "Exists");
            toleration.set("effect", "NoExecute");
            toleration.set("tolerationSeconds", 300);
            spec.child_list("tolerations").push(toleration);
        }
    }
}

/// Adds overhead and scheduling constraints of the runtime class.
pub(super) fn runtime_class(decoded: &mut Decoded<'_>, cluster: &Cluster) -> Result<(), Refused> {
    let node = &decoded.node;
    let Some(name) = node
        .at(&["spec", "runtimeClassName"])
        .map(|name| name.as_str().to_owned())
    else {
        return Ok(());
    };
    if name.is_empty() {
        return Err(Refused::new(Stage::Other, "resource name may not be empty"));
    }
    let Some(class) = cluster.named("RuntimeClass", "", &name) else {
        if cluster.complete {
            return Err(forbidden(
                node,
                &format!("pod rejected: RuntimeClass \"{name}\" not found"),
            ));
        }
        decoded
            .warnings
            .push(format!("RuntimeClass `{name}` not found; overhead left unset"));
        return Ok(());
    };
    let spec = decoded.node.child("spec");
    if let Some(overhead) = class.at(&["overhead", "podFixed"]) {
        spec.set("overhead", Node::of(overhead).to_owned());
    }
    let selector = class.at(&["scheduling", "nodeSelector"]).and_then(Value::as_map);
    for (key, value) in selector.into_iter().flat_map(kyvtest_go_compat::value::Map::iter) {
        spec.child("nodeSelector")
            .set(key.text().to_owned(), Node::of(value).to_owned());
    }
    let tolerations = class.at(&["scheduling", "tolerations"]).and_then(Value::as_list);
    for toleration in tolerations.into_iter().flat_map(kyvtest_go_compat::value::List::iter) {
        let toleration = Node::of(toleration).to_owned();
        let known = spec.list("tolerations").iter().any(|known| known.same(&toleration));
        if !known {
            spec.child_list("tolerations").push(toleration);
        }
    }
    Ok(())
}

/// Rejects an overhead that no runtime class defines.
pub(super) fn check_overhead(node: &Node<'_>) -> Result<(), Refused> {
    let Some(spec) = node.get("spec") else { return Ok(()) };
    if spec.has("overhead") && !spec.has("runtimeClassName") {
        let message = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
        return Err(forbidden(node, message));
    }
    Ok(())
}
