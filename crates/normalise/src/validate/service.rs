//! Services.
//!
//! Upstream counterpart: `validateService` in `pkg/apis/core/validation/validation.go`.

use super::{Checker, Path, TypeCheck, format};
use crate::{Cause, node::Node};

pub(super) fn check(name: &str) -> Option<TypeCheck> {
    Some(match name {
        "core.v1.Service" => service,
        "core.v1.ServicePort" => port,
        _ => return None,
    })
}

/// Checks addresses and families before allocation.
pub(crate) fn service_addresses(spec: &Node<'_>) -> Vec<Cause> {
    let mut checker = Checker::empty();
    addresses(&mut checker, spec, &Path::root("spec"));
    checker.errors
}

fn addresses(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    if spec.str("type") == "ExternalName" {
        return;
    }
    let (own, list) = (spec.str("clusterIP"), spec.list("clusterIPs"));
    let at = path.field("clusterIPs");
    match list.first() {
        None if !own.is_empty() => checker.required(&at, ""),
        Some(first) if !own.is_empty() && first.as_str() != own => {
            checker.invalid(&at, own, "first value must match `clusterIP`");
        }
        Some(_) if own.is_empty() => checker.invalid(&at, own, "must be empty when `clusterIP` is not specified"),
        _ => {}
    }
    let families = spec.list("ipFamilies");
    for (index, family) in families.iter().enumerate() {
        let at = path.field("ipFamilies");
        let name = family.as_str();
        if !matches!(name, "IPv4" | "IPv6") {
            checker.unsupported(&at.index(index), name, &["IPv4", "IPv6"]);
        }
        if families[..index].iter().any(|other| other.as_str() == name) {
            checker.duplicate(&at.index(index), name);
        }
    }
    if let Some(policy) = spec.get("ipFamilyPolicy").map(Node::as_str) {
        let allowed = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        if !allowed.contains(&policy) {
            checker.unsupported(&path.field("ipFamilyPolicy"), policy, &allowed);
        }
    }
    let mut wrong = false;
    for (index, address) in list.iter().enumerate() {
        let address = address.as_str();
        if index == 0 && address == "None" {
            if list.len() > 1 {
                wrong = true;
                checker.invalid(&at, address, "'None' must be the first and only value");
            }
        } else if !format::is_ip(address) {
            wrong = true;
            checker.invalid(
                &at.index(index),
                address,
                "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            );
        }
    }
    if list.len() > 2 {
        checker.invalid(&at, own, "may only hold up to 2 values");
    }
    if wrong {
        return;
    }
    let six = |address: &Node<'_>| address.as_str().contains(':');
    if list.len() > 1 && six(&list[0]) == six(&list[1]) {
        checker.invalid(&at, own, "may specify no more than one IP for each IP family");
    }
    if own != "None" {
        for (index, (address, family)) in list.iter().zip(families).enumerate() {
            if six(address) != (family.as_str() == "IPv6") {
                let detail = format!(
                    "expected an {} value as indicated by `ipFamilies[{index}]`",
                    family.as_str()
                );
                checker.invalid(&at.index(index), address.as_str(), &detail);
            }
        }
    }
}

fn service(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let Some(spec) = node.get("spec") else { return };
    let path = path.field("spec");
    let kind = spec.str("type");
    let headless = spec.str("clusterIP") == "None";
    let ports = spec.list("ports");
    if ports.is_empty() && !headless && kind != "ExternalName" {
        checker.required(&path.field("ports"), "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            let detail = format!("may not be set to 'None' for {kind} services");
            checker.invalid(&path.field("clusterIPs").index(0), "None", &detail);
        }
        "ExternalName" => external_name(checker, spec, &path),
        "ClusterIP" | "LoadBalancer" | "NodePort" => {}
        "" => checker.required(&path.field("type"), ""),
        other => {
            let allowed = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
            checker.unsupported(&path.field("type"), other, &allowed);
        }
    }
    service_ports(checker, ports, kind, &path.field("ports"));
    super::meta::labels(checker, spec.map("selector"), &path.field("selector"));
    session_affinity(checker, spec, &path);
    addresses(checker, spec, &path);
    for (index, address) in spec.list("externalIPs").iter().enumerate() {
        let at = path.field("externalIPs");
        let at = at.index(index);
        if format::is_ip(address.as_str()) {
            super::core::endpoint_ip(checker, address.as_str(), &at);
        } else {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            checker.invalid(&at, address.as_str(), detail);
        }
    }
    load_balancer(checker, node, spec, kind, &path);
    traffic(checker, spec, kind, &path);
}

fn external_name(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if spec.get(field).is_some_and(|value| !value.is_empty()) {
            checker.forbidden(&path.field(field), "may not be set for ExternalName services");
        }
    }
    let name = spec.str("externalName");
    match name.strip_suffix('.').unwrap_or(name) {
        "" => checker.required(&path.field("externalName"), ""),
        name => checker.problems(&path.field("externalName"), name, &format::subdomain(name)),
    }
}

fn service_ports(checker: &mut Checker<'_>, ports: &[Node<'_>], kind: &str, path: &Path<'_>) {
    for (index, own) in ports.iter().enumerate() {
        let at = path.index(index);
        let name = own.str("name");
        if name.is_empty() {
            if ports.len() > 1 {
                checker.required(&at.field("name"), "");
            }
        } else {
            checker.problems(&at.field("name"), name, &format::label(name));
            if ports[..index].iter().any(|other| other.str("name") == name) {
                checker.duplicate(&at.field("name"), name);
            }
        }
        checker.object("core.v1.ServicePort", own, &at);
        let number = own.int("nodePort").unwrap_or(0);
        if kind == "ClusterIP" && number != 0 {
            checker.forbidden(&at.field("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
        let protocol = own.str("protocol");
        let same = |field: &str, value: i64| {
            ports[..index]
                .iter()
                .any(|other| other.str("protocol") == protocol && other.int(field).unwrap_or(0) == value)
        };
        if number != 0 && same("nodePort", number) {
            checker.duplicate(&at.field("nodePort"), &number.to_string());
        }
        if same("port", own.int("port").unwrap_or(0)) {
            checker.duplicate(&at, protocol);
        }
    }
}

/// Checks the target of a port; the port's own fields are in the table.
fn port(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    if !node.has("targetPort") {
        checker.invalid(&path.field("targetPort"), "0", "must be between 1 and 65535, inclusive");
    }
}

fn session_affinity(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    let at = path.field("sessionAffinityConfig");
    match spec.str("sessionAffinity") {
        "ClientIP" => match spec
            .at(&["sessionAffinityConfig", "clientIP", "timeoutSeconds"])
            .and_then(Node::as_int)
        {
            None => checker.required(&at, "when session affinity type is ClientIP"),
            Some(seconds) if !(1..=86_400).contains(&seconds) => {
                let at = at.field("clientIP");
                let detail = "must be greater than 0 and less than 86400";
                checker.invalid(&at.field("timeoutSeconds"), &seconds.to_string(), detail);
            }
            Some(_) => {}
        },
        "None" => {
            if spec.has("sessionAffinityConfig") {
                checker.forbidden(&at, "must not be set when session affinity is None");
            }
        }
        "" => checker.required(&path.field("sessionAffinity"), ""),
        other => checker.unsupported(&path.field("sessionAffinity"), other, &["ClientIP", "None"]),
    }
}

fn load_balancer(checker: &mut Checker<'_>, node: &Node<'_>, spec: &Node<'_>, kind: &str, path: &Path<'_>) {
    const ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    const DETAIL: &str = "may only be used when `type` is 'LoadBalancer'";
    let wrong = |text: &str| !format::is_cidr(text.trim());
    let ranges = spec.list("loadBalancerSourceRanges");
    let annotation = node.at(&["metadata", "annotations", ANNOTATION]).map(Node::as_str);
    if !ranges.is_empty() {
        let at = path.field("LoadBalancerSourceRanges");
        if kind != "LoadBalancer" {
            checker.forbidden(&at, DETAIL);
        }
        for (index, range) in ranges.iter().enumerate().filter(|(_, range)| wrong(range.as_str())) {
            let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            checker.invalid(&at.index(index), range.as_str(), detail);
        }
    } else if let Some(ranges) = annotation {
        let root = Path::root("metadata");
        let at = root.field("annotations");
        let at = at.key(ANNOTATION);
        if kind != "LoadBalancer" {
            checker.forbidden(&at, DETAIL);
        }
        for range in ranges
            .split(',')
            .filter(|range| !ranges.trim().is_empty() && wrong(range))
        {
            checker.invalid(
                &at,
                range,
                "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            );
        }
    }
    if kind != "LoadBalancer" && spec.has("allocateLoadBalancerNodePorts") {
        checker.forbidden(&path.field("allocateLoadBalancerNodePorts"), DETAIL);
    }
    if let Some(class) = spec.get("loadBalancerClass").map(Node::as_str) {
        if kind == "LoadBalancer" {
            checker.problems(&path.field("loadBalancerClass"), class, &format::qualified(class));
        } else {
            checker.forbidden(&path.field("loadBalancerClass"), DETAIL);
        }
    }
}

fn traffic(checker: &mut Checker<'_>, spec: &Node<'_>, kind: &str, path: &Path<'_>) {
    let external =
        matches!(kind, "LoadBalancer" | "NodePort") || (kind == "ClusterIP" && !spec.list("externalIPs").is_empty());
    let at = path.field("externalTrafficPolicy");
    match spec.str("externalTrafficPolicy") {
        "" if external => checker.required(&at, ""),
        "" => {}
        policy if !external => checker.invalid(&at, policy, "may only be set for externally-accessible services"),
        "Cluster" | "Local" => {}
        other => checker.unsupported(&at, other, &["Cluster", "Local"]),
    }
    let health = kind == "LoadBalancer" && spec.str("externalTrafficPolicy") == "Local";
    let number = spec.int("healthCheckNodePort").unwrap_or(0);
    let at = path.field("healthCheckNodePort");
    if !health && number != 0 {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        checker.invalid(&at, &number.to_string(), detail);
    } else if health && number == 0 {
        checker.required(&at, "");
    }
    let at = path.field("internalTrafficPolicy");
    match spec.get("internalTrafficPolicy").map(Node::as_str) {
        None if matches!(kind, "NodePort" | "LoadBalancer" | "ClusterIP") => checker.required(&at, ""),
        None | Some("Cluster" | "Local") => {}
        Some(other) => checker.unsupported(&at, other, &["Cluster", "Local"]),
    }
    if let Some(mode) = spec.get("trafficDistribution").map(Node::as_str) {
        let allowed = ["PreferClose", "PreferSameNode", "PreferSameZone"];
        if !allowed.contains(&mode) {
            checker.unsupported(&path.field("trafficDistribution"), mode, &allowed);
        }
    }
}
