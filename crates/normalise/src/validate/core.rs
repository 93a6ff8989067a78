//! Namespaces, nodes, quotas, limit ranges, secrets, config maps, endpoints, events; names and amounts of resources.
//!
//! Upstream counterpart: `pkg/apis/core/validation/{validation,events}.go`, `pkg/apis/core/helper/helpers.go`.

use kyvtest_go_compat::{
    text::{base64, quantity::Quantity},
    value::Document,
};

use super::{Checker, Path, TypeCheck, format, meta, pod_scheduling};
use crate::{Reason, node::Node};

pub(super) fn check(name: &str) -> Option<TypeCheck> {
    Some(match name {
        "core.v1.Namespace" => namespace,
        "core.v1.Node" => node,
        "core.v1.LimitRangeSpec" => limit_ranges,
        "core.v1.LimitRangeItem" => limit_range,
        "core.v1.ResourceQuotaSpec" => quota,
        "core.v1.Secret" => secret,
        "core.v1.ConfigMap" => config_map,
        "core.v1.EndpointSubset" => subset,
        "core.v1.EndpointAddress" => address,
        "core.v1.Event" => event,
        "events.v1.Event" => new_event,
        _ => return None,
    })
}

const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

const INTEGER: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-") || name.starts_with("requests.hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

pub(super) fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && format::qualified(&format!("requests.{name}")).is_empty()
}

pub(super) fn resource_name(checker: &mut Checker<'_>, name: &str, path: &Path<'_>) {
    let problems = format::qualified(name);
    checker.problems(path, name, &problems);
    if problems.is_empty() && !name.contains('/') && !STANDARD.contains(&name) && !is_huge(name) {
        checker.invalid(path, name, "must be a standard resource type or fully qualified");
    }
}

pub(super) fn container_resource(checker: &mut Checker<'_>, name: &str, path: &Path<'_>) {
    resource_name(checker, name, path);
    if !name.contains('/') {
        if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !name.starts_with("hugepages-") {
            checker.invalid(path, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        checker.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

pub(super) fn resource_amount(checker: &mut Checker<'_>, name: &str, amount: &str, path: &Path<'_>) {
    let Ok(quantity) = Quantity::parse(amount) else { return };
    if quantity.sign() < 0 {
        checker.invalid(path, amount, "must be greater than or equal to 0");
    }
    if (INTEGER.contains(&name) || is_extended(name)) && quantity.milli_value() % 1000 != 0 {
        checker.invalid(path, amount, "must be an integer");
    }
}

fn namespace(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let path = path.field("spec");
    let path = path.field("finalizers");
    for finalizer in node.get("spec").map_or(&[][..], |spec| spec.list("finalizers")) {
        let name = finalizer.as_str();
        checker.problems(&path, name, &format::qualified(name));
        meta::kube_finalizer(checker, name, &path);
    }
}

fn node(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let (Some(spec), Some(status)) = (node.get("spec"), node.get("status")) else {
        return;
    };
    taints(checker, spec.list("taints"), &path.field("metadata").field("taints"));
    for field in ["capacity", "allocatable"] {
        let at = path.field("status");
        let at = at.field(field);
        for (name, amount) in status.map(field) {
            resource_amount(checker, name, amount.as_str(), &at.key(name));
        }
    }
    let features = status.list("declaredFeatures");
    let at = path.field("status");
    let at = at.field("declaredFeatures");
    for (index, feature) in features.iter().enumerate() {
        let name = feature.as_str();
        let camel = name.split('/').all(|part| {
            part.starts_with(|c: char| c.is_ascii_uppercase()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
        });
        if !camel {
            checker.invalid(&at.index(index), name, "invalid feature name");
        }
        if let Some(before) = index.checked_sub(1).map(|before| features[before].as_str()) {
            if before == name {
                checker.duplicate(&at.index(index), name);
            } else if before > name {
                checker.invalid(&at.index(index), name, "list must be sorted alphabetically");
            }
        }
    }
    let ranges = spec.list("podCIDRs");
    let at = path.field("spec");
    let at = at.field("podCIDRs");
    for (index, range) in ranges
        .iter()
        .enumerate()
        .filter(|(_, range)| !format::is_cidr(range.as_str()))
    {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        checker.invalid(&at.index(index), range.as_str(), detail);
    }
    let six = |range: &Node<'_>| range.as_str().contains(':');
    if ranges.len() > 2 || (ranges.len() == 2 && six(&ranges[0]) == six(&ranges[1])) {
        checker.invalid(&at, "", "may specify no more than one CIDR for each IP family");
    }
}

fn taints(checker: &mut Checker<'_>, taints: &[Node<'_>], path: &Path<'_>) {
    for (index, taint) in taints.iter().enumerate() {
        let path = path.index(index);
        let (key, effect) = (taint.str("key"), taint.str("effect"));
        checker.problems(&path.field("key"), key, &format::qualified(key));
        if !format::label_value(taint.str("value")).is_empty() {
            checker.invalid(&path.field("value"), taint.str("value"), "a valid label is required");
        }
        match effect {
            "" => checker.required(&path.field("effect"), ""),
            effect => pod_scheduling::taint_effect(checker, effect, &path.field("effect")),
        }
        if taints[..index]
            .iter()
            .any(|other| other.str("key") == key && other.str("effect") == effect)
        {
            checker.duplicate(&path, key);
        }
    }
}

fn limit_ranges(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let limits = node.list("limits");
    for (index, limit) in limits.iter().enumerate() {
        if limits[..index]
            .iter()
            .any(|other| other.str("type") == limit.str("type"))
        {
            let at = path.field("limits");
            checker.duplicate(&at.index(index).field("type"), limit.str("type"));
        }
    }
}

fn limit_range(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let kind = node.str("type");
    let problems = format::qualified(kind);
    checker.problems(&path.field("type"), kind, &problems);
    if problems.is_empty() && !kind.contains('/') && !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim") {
        checker.invalid(
            &path.field("type"),
            kind,
            "must be a standard limit type or fully qualified",
        );
    }
    let mut names: Vec<&str> = Vec::new();
    for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        let at = path.field(field);
        if kind == "Pod" && field.starts_with("default") {
            if !node.map(field).is_empty() {
                checker.forbidden(&at, "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for (name, _) in node.map(field) {
            match kind {
                "Pod" | "Container" => container_resource(checker, name, &at.key(name)),
                _ => resource_name(checker, name, &at.key(name)),
            }
            if !names.contains(&name.as_ref()) {
                names.push(name);
            }
        }
    }
    if kind == "PersistentVolumeClaim" {
        let storage = |field: &str| node.at(&[field, "storage"]).is_some();
        if !storage("min") && !storage("max") {
            checker.required(
                &path.field("limits"),
                "either minimum or maximum storage value is required, but neither was provided",
            );
        }
    }
    for name in names {
        limit_amounts(checker, node, name, path);
    }
}

fn limit_amounts(checker: &mut Checker<'_>, node: &Node<'_>, name: &str, path: &Path<'_>) {
    let amount = |field: &str| {
        node.at(&[field, name])
            .and_then(|value| Quantity::parse(value.as_str()).ok())
    };
    let (least, most, default, request) = (
        amount("min"),
        amount("max"),
        amount("default"),
        amount("defaultRequest"),
    );
    let mut compare = |low: &Option<Quantity>, high: &Option<Quantity>, field: &'static str| {
        if let (Some(low), Some(high)) = (low, high)
            && low > high
        {
            checker.invalid(
                &path.field(field).key(name),
                &low.to_string(),
                &format!("{low} is greater than {high}"),
            );
        }
    };
    compare(&least, &most, "min");
    compare(&least, &request, "defaultRequest");
    compare(&request, &most, "defaultRequest");
    compare(&request, &default, "defaultRequest");
    compare(&least, &default, "default");
    compare(&default, &most, "default");
    if let Some(ratio) = amount("maxLimitRequestRatio") {
        let at = path.field("maxLimitRequestRatio");
        if ratio < Quantity::new(1, kyvtest_go_compat::text::quantity::Format::DecimalSi) {
            checker.invalid(
                &at.key(name),
                &ratio.to_string(),
                &format!("ratio {ratio} is less than 1"),
            );
        }
        if let (Some(least), Some(most)) = (&least, &most)
            && ratio.approximate() > most.approximate() / least.approximate()
        {
            checker.invalid(
                &at.key(name),
                &ratio.to_string(),
                &format!("ratio {ratio} is greater than max/min"),
            );
        }
    }
    let overcommit = is_native(name) && !name.starts_with("hugepages-");
    if let (false, Some(default), Some(request)) = (overcommit, &default, &request)
        && default != request
    {
        let detail = "default value must equal to defaultRequest value";
        checker.invalid(&path.field("defaultRequest").key(name), &request.to_string(), detail);
    }
}

const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

fn quota(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let hard = path.field("hard");
    for (name, amount) in node.map("hard") {
        let at = hard.key(name);
        resource_name(checker, name, &at);
        let standard = STANDARD.contains(&name.as_ref()) && name != "storage" || is_huge(name);
        if !name.contains('/') && !standard {
            checker.invalid(&at, name, "must be a standard resource for quota");
        }
        resource_amount(checker, name, amount.as_str(), &at);
    }
    let fits = |scope: &str, name: &str| match scope {
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            matches!(
                name,
                "pods"
                    | "cpu"
                    | "memory"
                    | "requests.cpu"
                    | "requests.memory"
                    | "limits.cpu"
                    | "limits.memory"
                    | "ephemeral-storage"
                    | "requests.ephemeral-storage"
                    | "limits.ephemeral-storage"
            ) || is_huge(name)
        }
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    };
    let misfits = |scope: &str| {
        node.map("hard")
            .iter()
            .filter(|(name, _)| STANDARD.contains(&name.as_ref()) && name != "storage" && !fits(scope, name))
            .count()
    };
    let conflict = |scopes: &[&str]| {
        let has = |scope: &str| scopes.contains(&scope);
        usize::from(has("BestEffort") && has("NotBestEffort"))
            + usize::from(has("Terminating") && has("NotTerminating"))
    };
    let at = path.field("scopes");
    let scopes: Vec<&str> = node.list("scopes").iter().map(Node::as_str).collect();
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            checker.invalid(&at, scope, "unsupported scope");
        }
        for _ in 0..misfits(scope) {
            checker.invalid(&at, scope, "unsupported scope applied to resource");
        }
    }
    for _ in 0..conflict(&scopes) {
        checker.invalid(&at, "", "conflicting scopes");
    }
    let Some(selector) = node.get("scopeSelector") else {
        return;
    };
    let at = path.field("scopeSelector");
    let at = at.field("matchExpressions");
    let expressions = selector.list("matchExpressions");
    for own in expressions {
        let (scope, operator) = (own.str("scopeName"), own.str("operator"));
        if !SCOPES.contains(&scope) {
            checker.invalid(&at.field("scopeName"), scope, "unsupported scope");
        }
        for _ in 0..misfits(scope) {
            checker.invalid(&at, scope, "unsupported scope applied to resource");
        }
        let plain = !matches!(scope, "PriorityClass" | "VolumeAttributesClass") && SCOPES.contains(&scope);
        if plain && operator != "Exists" {
            checker.invalid(
                &at.field("operator"),
                operator,
                "must be 'Exists' when scope is a pod scope",
            );
        }
        match operator {
            "In" | "NotIn" if own.list("values").is_empty() => {
                checker.required(&at.field("values"), "must be at least one value");
            }
            "Exists" | "DoesNotExist" if !own.list("values").is_empty() => {
                checker.invalid(&at.field("values"), "", "must be no value");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => checker.invalid(&at.field("operator"), other, "not a valid selector operator"),
        }
    }
    let scopes: Vec<&str> = expressions.iter().map(|own| own.str("scopeName")).collect();
    for _ in 0..conflict(&scopes) {
        checker.invalid(&at, "", "conflicting scopes");
    }
}

fn secret(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let data = path.field("data");
    for (key, _) in node.map("data") {
        checker.problems(&data.key(key), key, &format::config_key(key));
    }
    let size: usize = node
        .map("data")
        .iter()
        .map(|(_, value)| value.as_str().len() / 4 * 3)
        .sum();
    if size > 1024 * 1024 {
        checker.fail(&data, Reason::TooLong, "may not be more than 1048576 bytes");
    }
    let has = |key: &str| {
        node.at(&["data"])
            .is_some_and(|data| data.entries().iter().any(|(name, _)| name == key))
    };
    match node.str("type") {
        "kubernetes.io/service-account-token" => {
            const KEY: &str = "kubernetes.io/service-account.name";
            if node.at(&["metadata", "annotations", KEY]).is_none_or(Node::is_empty) {
                checker.required(&path.field("metadata").field("annotations").key(KEY), "");
            }
        }
        "kubernetes.io/dockercfg" => docker_config(checker, node, ".dockercfg", &data),
        "kubernetes.io/dockerconfigjson" => docker_config(checker, node, ".dockerconfigjson", &data),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            checker.required(&data.key("username"), "");
            checker.required(&data.key("password"), "");
        }
        "kubernetes.io/ssh-auth" if node.at(&["data", "ssh-privatekey"]).is_none_or(Node::is_empty) => {
            checker.required(&data.key("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"].into_iter().filter(|key| !has(key)) {
                checker.required(&data.key(key), "");
            }
        }
        _ => {}
    }
}

fn docker_config(checker: &mut Checker<'_>, node: &Node<'_>, key: &str, path: &Path<'_>) {
    let Some(config) = node.at(&["data", key]) else {
        return checker.required(&path.key(key), "");
    };
    let bytes = base64::decode(config.as_str().as_bytes(), true).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let object = Document::from_json(&text)
        .is_ok_and(|document| document.root().as_map().is_some() || document.root().is_null());
    if !object {
        checker.invalid(&path.key(key), "<secret contents redacted>", "invalid JSON");
    }
}

fn config_map(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let binary = node.map("binaryData");
    for (key, _) in node.map("data") {
        let at = path.field("data");
        checker.problems(&at.key(key), key, &format::config_key(key));
        if binary.iter().any(|(other, _)| other == key) {
            checker.invalid(&at.key(key), key, "duplicate of key present in binaryData");
        }
    }
    for (key, _) in binary {
        let at = path.field("binaryData");
        checker.problems(&at.key(key), key, &format::config_key(key));
    }
    let text: usize = node.map("data").iter().map(|(_, value)| value.as_str().len()).sum();
    let bytes: usize = binary.iter().map(|(_, value)| value.as_str().len() / 4 * 3).sum();
    if text + bytes > 1024 * 1024 {
        checker.fail(&Path::root(""), Reason::TooLong, "may not be more than 1048576 bytes");
    }
}

fn subset(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    if node.list("addresses").is_empty() && node.list("notReadyAddresses").is_empty() {
        checker.required(path, "must specify `addresses` or `notReadyAddresses`");
    }
    let ports = node.list("ports");
    for (index, port) in ports.iter().enumerate() {
        if ports.len() > 1 && port.str("name").is_empty() {
            let at = path.field("ports");
            checker.required(&at.index(index).field("name"), "");
        }
    }
}

fn address(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let own = node.str("ip");
    if !format::is_ip(own) {
        checker.invalid(
            &path.field("ip"),
            own,
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        );
    }
    endpoint_ip(checker, own, &path.field("ip"));
}

/// An address that endpoints may have: not unspecified, loopback or link-local.
pub(super) fn endpoint_ip(checker: &mut Checker<'_>, text: &str, path: &Path<'_>) {
    let Some(addr) = format::parse_ip(text) else {
        return checker.invalid(path, text, "must be a valid IP address");
    };
    for (wrong, detail) in [
        (addr.is_unspecified(), "may not be unspecified"),
        (addr.is_loopback(), "may not be in the loopback range"),
        (addr.is_link_local_unicast(), "may not be in the link-local range"),
        (
            addr.is_link_local_multicast(),
            "may not be in the link-local multicast range",
        ),
    ] {
        if wrong {
            checker.invalid(path, text, detail);
        }
    }
}

fn event(checker: &mut Checker<'_>, node: &Node<'_>, _: &Path<'_>) {
    event_fields(checker, node, "involvedObject", "reportingComponent");
}

fn event_fields(checker: &mut Checker<'_>, node: &Node<'_>, object: &str, controller: &str) {
    let namespace = node.at(&["metadata", "namespace"]).map_or("", Node::as_str);
    let of_object = node.at(&[object, "namespace"]).map_or("", Node::as_str);
    let root = Path::root("involvedObject");
    let at = root.field("namespace");
    if !node.has("eventTime") {
        let fits = if of_object.is_empty() {
            matches!(namespace, "" | "default")
        } else {
            namespace == of_object
        };
        if !fits {
            checker.invalid(&at, of_object, "does not match event.namespace");
        }
        return;
    }
    if of_object.is_empty() && !matches!(namespace, "default" | "kube-system") {
        checker.invalid(&at, of_object, "does not match event.namespace");
    }
    let own = node.str(controller);
    if own.is_empty() {
        checker.required(&Path::root(controller), "");
    }
    checker.problems(&Path::root(controller), own, &format::qualified(own));
    for (field, limit) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
        let own = node.str(field);
        if own.is_empty() {
            checker.required(&Path::root(field), "");
        } else if own.len() > limit {
            checker.invalid(&Path::root(field), own, "is too long");
        }
    }
    for field in ["message", "note"] {
        if node.str(field).len() > 1024 {
            checker.invalid(&Path::root("message"), "", "can have at most 1024 characters");
        }
    }
}

fn new_event(checker: &mut Checker<'_>, node: &Node<'_>, _: &Path<'_>) {
    event_fields(checker, node, "regarding", "reportingController");
    if !node.has("eventTime") {
        checker.required(&Path::root("eventTime"), "");
    }
    if !matches!(node.str("type"), "Normal" | "Warning") {
        checker.invalid(&Path::root("type"), "", "has invalid value");
    }
    for (field, name) in [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
    ] {
        if node.has(field) {
            checker.invalid(&Path::root(name), "", "needs to be unset");
        }
    }
    if node.int("deprecatedCount").unwrap_or(0) != 0 {
        checker.invalid(&Path::root("count"), "", "needs to be unset");
    }
    if node.get("deprecatedSource").is_some_and(|source| !source.is_empty()) {
        checker.invalid(&Path::root("source"), "", "needs to be unset");
    }
}
