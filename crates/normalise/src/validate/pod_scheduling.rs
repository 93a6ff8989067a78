//! The placement of pods: affinity, tolerations, spread constraints, gates; and their DNS.
//!
//! Upstream counterpart: the helpers of `ValidatePodSpec` in `pkg/apis/core/validation/validation.go`.

use super::{Checker, Path, format};
use crate::node::Node;

pub(super) fn toleration(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let (key, operator, value) = (node.str("key"), node.str("operator"), node.str("value"));
    if !key.is_empty() {
        checker.problems(&path.field("key"), key, &format::qualified(key));
    } else if operator != "Exists" {
        let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        checker.invalid(&path.field("operator"), operator, detail);
    }
    let effect = node.str("effect");
    if node.has("tolerationSeconds") && effect != "NoExecute" {
        checker.invalid(
            &path.field("effect"),
            effect,
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        );
    }
    match operator {
        "Equal" | "" => {
            if !format::label_value(value).is_empty() {
                checker.invalid(&path.field("operator"), value, "a valid label is required");
            }
        }
        "Exists" => {
            if !value.is_empty() {
                checker.invalid(
                    &path.field("operator"),
                    value,
                    "value must be empty when `operator` is 'Exists'",
                );
            }
        }
        other => checker.unsupported(&path.field("operator"), other, &["Equal", "Exists"]),
    }
    if !effect.is_empty() {
        taint_effect(checker, effect, &path.field("effect"));
    }
}

pub(super) fn taint_effect(checker: &mut Checker<'_>, effect: &str, path: &Path<'_>) {
    if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
        checker.unsupported(path, effect, &["NoExecute", "NoSchedule", "PreferNoSchedule"]);
    }
}

pub(super) fn node_selector_term(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    // Only required terms check the values of labels; preferred ones are below `preference`.
    let lenient = matches!(path.step, super::Step::Field("preference"));
    let expressions = path.field("matchExpressions");
    for (index, own) in node.list("matchExpressions").iter().enumerate() {
        let path = expressions.index(index);
        let values = own.list("values");
        match own.str("operator") {
            "In" | "NotIn" if values.is_empty() => {
                checker.required(
                    &path.field("values"),
                    "must be specified when `operator` is 'In' or 'NotIn'",
                );
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                checker.forbidden(&path.field("values"), detail);
            }
            "Gt" | "Lt" if values.len() != 1 => {
                checker.required(
                    &path.field("values"),
                    "must be specified single value when `operator` is 'Lt' or 'Gt'",
                );
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => checker.invalid(&path.field("operator"), other, "not a valid selector operator"),
        }
        checker.problems(&path.field("key"), own.str("key"), &format::qualified(own.str("key")));
        for (index, value) in values.iter().enumerate().filter(|_| !lenient) {
            let problems = format::label_value(value.as_str());
            checker.problems(&path.field("values").index(index), value.as_str(), &problems);
        }
    }
    let fields = path.field("matchFields");
    for (index, own) in node.list("matchFields").iter().enumerate() {
        let path = fields.index(index);
        match own.str("operator") {
            "In" | "NotIn" => {
                if own.list("values").len() != 1 {
                    let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                    checker.required(&path.field("values"), detail);
                }
            }
            other => checker.invalid(&path.field("operator"), other, "not a valid selector operator"),
        }
        if own.str("key") != "metadata.name" {
            checker.invalid(&path.field("key"), own.str("key"), "not a valid field selector key");
        } else {
            for (index, value) in own.list("values").iter().enumerate() {
                let problems = format::subdomain(value.as_str());
                checker.problems(&path.field("values").index(index), value.as_str(), &problems);
            }
        }
    }
}

pub(super) fn weight(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let weight = node.int("weight").unwrap_or(0);
    if !(1..=100).contains(&weight) {
        checker.invalid(&path.field("weight"), &weight.to_string(), "must be in the range 1-100");
    }
}

pub(super) fn affinity_term(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    for namespace in node.list("namespaces") {
        let name = namespace.as_str();
        checker.problems(&path.field("namespace"), name, &format::label(name));
    }
    label_keys(checker, node, path);
}

/// Checks `matchLabelKeys` and `mismatchLabelKeys`.
fn label_keys(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let at = path.field(field);
        let keys = node.list(field);
        if !keys.is_empty() && !node.has("labelSelector") {
            checker.forbidden(&at, "must not be specified when labelSelector is not set");
            continue;
        }
        for (index, key) in keys.iter().enumerate() {
            checker.problems(&at.index(index), key.as_str(), &format::qualified(key.as_str()));
        }
    }
    let mismatch = node.list("mismatchLabelKeys");
    for (index, key) in node.list("matchLabelKeys").iter().enumerate() {
        if mismatch.iter().any(|other| other.as_str() == key.as_str()) {
            let at = path.field("matchLabelKeys");
            checker.invalid(
                &at.index(index),
                key.as_str(),
                "exists in both matchLabelKeys and mismatchLabelKeys",
            );
        }
        let in_labels = node.at(&["labelSelector", "matchLabels", key.as_str()]).is_some();
        let expressions = node
            .get("labelSelector")
            .map_or(&[][..], |own| own.list("matchExpressions"));
        let count = expressions.iter().filter(|own| own.str("key") == key.as_str()).count();
        if count + usize::from(in_labels) > 1 {
            checker.invalid(
                &path.index(index),
                key.as_str(),
                "exists in both matchLabelKeys and labelSelector",
            );
        }
    }
}

pub(super) fn spread_constraint(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    for field in ["maxSkew", "minDomains"] {
        let set = field == "maxSkew" || node.has(field);
        let value = node.int(field).unwrap_or(0);
        if set && value <= 0 {
            checker.invalid(&path.field(field), &value.to_string(), "must be greater than zero");
        }
    }
    if node.has("minDomains") && node.str("whenUnsatisfiable") != "DoNotSchedule" {
        let detail = "can only use minDomains if whenUnsatisfiable=DoNotSchedule";
        checker.invalid(&path.field("minDomains"), "", detail);
    }
    label_keys(checker, node, path);
}

pub(super) fn repeated_constraints(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    let constraints = spec.list("topologySpreadConstraints");
    let key = |own: &Node<'_>| {
        (
            own.str("topologyKey").to_owned(),
            own.str("whenUnsatisfiable").to_owned(),
        )
    };
    for (index, own) in constraints.iter().enumerate() {
        if constraints[index + 1..].iter().any(|other| key(other) == key(own)) {
            let (topology, action) = key(own);
            let value = format!("{{{topology}, {action}}}");
            checker.duplicate(&path.index(index).field("{topologyKey, whenUnsatisfiable}"), &value);
        }
    }
}

pub(super) fn scheduling_gates(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    let gates = spec.list("schedulingGates");
    for (index, gate) in gates.iter().enumerate() {
        let name = gate.str("name");
        checker.problems(&path.index(index), name, &format::qualified(name));
        if gates[..index].iter().any(|other| other.str("name") == name) {
            checker.duplicate(&path.index(index), name);
        }
    }
}

pub(super) fn dns_config(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    let config = spec.get("dnsConfig");
    if spec.str("dnsPolicy") == "None" {
        match config {
            None => return checker.required(path, "must provide `dnsConfig` when `dnsPolicy` is None"),
            Some(config) if config.list("nameservers").is_empty() => {
                let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
                return checker.required(&path.field("nameservers"), detail);
            }
            Some(_) => {}
        }
    }
    let Some(config) = config else { return };
    let servers = path.field("nameservers");
    if config.list("nameservers").len() > 3 {
        checker.invalid(&servers, "", "must not have more than 3 nameservers");
    }
    for (index, server) in config.list("nameservers").iter().enumerate() {
        if !format::is_ip(server.as_str()) {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            checker.invalid(&servers.index(index), server.as_str(), detail);
        }
    }
    let searches = path.field("searches");
    if config.list("searches").len() > 32 {
        checker.invalid(&searches, "", "must not have more than 32 search paths");
    }
    for (index, search) in config.list("searches").iter().enumerate() {
        let own = search.as_str();
        let plain = own.strip_suffix('.').unwrap_or(own).replace('_', "a");
        if own != "." {
            checker.problems(&searches.index(index), own, &format::subdomain(&plain));
        }
    }
    for (index, option) in config.list("options").iter().enumerate() {
        if option.str("name").is_empty() {
            checker.required(&path.field("options").index(index), "must not be empty");
        }
    }
}
