//! Allocation of cluster addresses, node ports and address families of services.
//!
//! Upstream counterpart: `pkg/registry/core/service/storage/{alloc,storage}.go`.
//!
//! Known deviations: the cluster has one IPv4 range; the address is always `10.0.0.10`, node ports are those
//! that a dry run shows.

use kyvtest_go_compat::text::ip;

use crate::{Cause, Cluster, Reason, Refused, node::Node, validate};

const ADDRESS: &str = "10.0.0.10";

fn cause(field: impl Into<String>, detail: impl Into<String>) -> Cause {
    Cause {
        field: field.into(),
        reason: Reason::Invalid,
        detail: detail.into(),
    }
}

fn is_external_name(spec: &Node<'_>) -> bool {
    spec.str("type") == "ExternalName"
}

fn needs_node_port(spec: &Node<'_>) -> bool {
    matches!(spec.str("type"), "NodePort" | "LoadBalancer")
}

fn needs_health_check(spec: &Node<'_>) -> bool {
    spec.str("type") == "LoadBalancer" && spec.str("externalTrafficPolicy") == "Local"
}

/// Fills in the values that the server allocates. `old` is the stored service of an UPDATE, whose values are kept.
pub(super) fn allocate(node: &mut Node<'_>, old: Option<&Node<'_>>, cluster: &Cluster) -> Result<(), Refused> {
    let name = node.at(&["metadata", "name"]).map_or("", Node::as_str).to_owned();
    let old = old.and_then(|old| old.get("spec"));
    let spec = node.child("spec");
    if let Some(old) = old {
        keep(spec, old);
    }
    match_addresses(spec, old);
    let result = families(spec, old)
        .and_then(|()| addresses(spec, cluster))
        .and_then(|()| node_ports(spec));
    result.map_err(|errors| Refused::invalid("Service", &name, errors))
}

/// Takes over allocated values that the client left out.
fn keep(spec: &mut Node<'_>, old: &Node<'_>) {
    if !is_external_name(spec) && !is_external_name(old) {
        if spec.str("clusterIP").is_empty()
            && let Some(address) = old.get("clusterIP")
        {
            spec.set("clusterIP", address.to_owned());
        }
        if spec.list("clusterIPs").is_empty()
            && let Some(addresses) = old.get("clusterIPs")
        {
            spec.set("clusterIPs", addresses.to_owned());
        }
    }
    if needs_node_port(spec) && needs_node_port(old) {
        let number = |port: &Node<'_>| port.int("nodePort").unwrap_or(0);
        let used: Vec<i64> = spec
            .list("ports")
            .iter()
            .map(number)
            .filter(|number| *number != 0)
            .collect();
        for port in spec.list_mut("ports") {
            let before = old
                .list("ports")
                .iter()
                .find(|other| other.str("name") == port.str("name"))
                .map_or(0, number);
            if number(port) == 0 && before != 0 && !used.contains(&before) {
                port.set("nodePort", before);
            }
        }
    }
    if needs_health_check(spec) && needs_health_check(old) && spec.int("healthCheckNodePort").unwrap_or(0) == 0 {
        spec.set("healthCheckNodePort", old.int("healthCheckNodePort").unwrap_or(0));
    }
}

/// Makes `clusterIPs` follow `clusterIP`.
fn match_addresses(spec: &mut Node<'_>, old: Option<&Node<'_>>) {
    let address = spec.get("clusterIP").filter(|address| !address.is_empty()).cloned();
    let Some(old) = old else {
        if let (Some(address), true) = (address, spec.list("clusterIPs").is_empty()) {
            spec.set("clusterIPs", Node::List(vec![address]));
        }
        return;
    };
    let same = match (old.get("clusterIPs"), spec.get("clusterIPs")) {
        (Some(old), Some(new)) => old.same(new),
        (None, None) => true,
        _ => false,
    };
    if old.str("clusterIP") != spec.str("clusterIP") && same {
        match address {
            Some(address) => spec.set("clusterIPs", Node::List(vec![address])),
            None => {
                spec.remove("clusterIPs");
            }
        }
    }
}

fn families(spec: &mut Node<'_>, old: Option<&Node<'_>>) -> Result<(), Vec<Cause>> {
    if is_external_name(spec) {
        return Ok(());
    }
    let open = spec.str("clusterIP") == "None" && spec.map("selector").is_empty();
    let default = old.and_then(|old| old.get("ipFamilyPolicy")).map(Node::to_owned);
    let default = default.unwrap_or(Node::text(if open { "RequireDualStack" } else { "SingleStack" }));
    spec.set_default("ipFamilyPolicy", default);
    let errors = validate::service_addresses(spec);
    if !errors.is_empty() {
        return Err(errors);
    }
    let single = spec.str("ipFamilyPolicy") == "SingleStack";
    let mut errors = Vec::new();
    for field in ["clusterIPs", "ipFamilies"] {
        if single && spec.list(field).len() == 2 {
            let detail = "must be 'RequireDualStack' or 'PreferDualStack' when multiple values are specified";
            errors.push(cause("spec.ipFamilyPolicy", detail));
        }
    }
    for index in 0..spec.list("clusterIPs").len() {
        let address = spec.list("clusterIPs")[index].as_str();
        if address == "None" {
            break;
        }
        if index >= spec.list("ipFamilies").len() {
            if address.contains(':') {
                errors.push(cause(
                    format!("spec.clusterIPs[{index}]"),
                    "IPv6 is not configured on this cluster",
                ));
            } else {
                spec.child_list("ipFamilies").push(Node::text("IPv4"));
            }
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    if spec.list("ipFamilies").is_empty() && open {
        spec.child_list("ipFamilies").push(Node::text("IPv4"));
    }
    if open {
        if spec.list("ipFamilies").len() == 1 && !single {
            let first = spec.list("ipFamilies")[0].as_str();
            let second = if first == "IPv4" { "IPv6" } else { "IPv4" };
            spec.child_list("ipFamilies").push(Node::text(second));
        }
        return Ok(());
    }
    if spec.str("ipFamilyPolicy") == "RequireDualStack" {
        errors.push(cause(
            "spec.ipFamilyPolicy",
            "this cluster is not configured for dual-stack services",
        ));
    }
    for (index, family) in spec.list("ipFamilies").iter().enumerate() {
        if family.as_str() != "IPv4" {
            errors.push(cause(
                format!("spec.ipFamilies[{index}]"),
                "not configured on this cluster",
            ));
        }
    }
    if spec.list("ipFamilies").is_empty() {
        spec.child_list("ipFamilies").push(Node::text("IPv4"));
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn addresses(spec: &mut Node<'_>, cluster: &Cluster) -> Result<(), Vec<Cause>> {
    if is_external_name(spec)
        || spec
            .list("clusterIPs")
            .first()
            .is_some_and(|address| address.as_str() == "None")
    {
        return Ok(());
    }
    let range = cluster
        .service_range
        .as_ref()
        .and_then(|range| ip::parse_prefix(range.as_bytes()).ok());
    match spec.list("clusterIPs").first().filter(|address| !address.is_empty()) {
        Some(address) => {
            let own = ip::parse_addr(address.as_str().as_bytes()).ok();
            if let (Some(range), Some(own)) = (range, own)
                && !range.contains(own)
            {
                let own = address.as_str();
                let detail = format!("failed to allocate IP {own}: the provided IP ({own}) is not in the valid range");
                return Err(vec![cause("spec.clusterIPs", detail)]);
            }
            let address = address.clone();
            spec.set("clusterIP", address);
        }
        None => {
            spec.set("clusterIPs", Node::List(vec![Node::text(ADDRESS)]));
            spec.set("clusterIP", ADDRESS);
        }
    }
    Ok(())
}

/// A dry run allocates no port of the range: it shows the number after the last one, beginning above the range
/// (upstream `portallocator/operation.go` `AllocateNext`).
const NO_PORT: i64 = 32_768;

fn node_ports(spec: &mut Node<'_>) -> Result<(), Vec<Cause>> {
    let health = needs_health_check(spec);
    let mut errors = Vec::new();
    if needs_node_port(spec) {
        let allocate = spec.str("type") == "NodePort" || spec.bool("allocateLoadBalancerNodePorts");
        let mut given: Vec<(i64, i64)> = Vec::new();
        let numbers = |port: &Node<'_>| (port.int("port").unwrap_or(0), port.int("nodePort").unwrap_or(0));
        let requested: Vec<(i64, i64)> = spec
            .list("ports")
            .iter()
            .map(numbers)
            .filter(|(_, node)| *node != 0)
            .collect();
        for (index, port) in spec.list_mut("ports").iter_mut().enumerate() {
            let own = port.int("port").unwrap_or(0);
            match port.int("nodePort").unwrap_or(0) {
                0 if allocate => {
                    // One number serves both protocols of a port; a later entry may request it.
                    let mut candidates = given.iter().chain(&requested);
                    let known = candidates.find(|(known, _)| *known == own).map(|(_, number)| *number);
                    let last = given.iter().map(|(_, number)| *number).max();
                    let number = known.unwrap_or(last.unwrap_or(NO_PORT) + 1);
                    port.set("nodePort", number);
                    given.push((own, number));
                }
                0 => {}
                number if (30_000..=32_767).contains(&number) => given.push((own, number)),
                _ => {
                    let detail = "provided port is not in the valid range. The range of valid ports is 30000-32767";
                    errors.push(cause(format!("spec.ports[{index}].nodePort"), detail));
                    break;
                }
            }
        }
    }
    if health && spec.int("healthCheckNodePort").unwrap_or(0) == 0 {
        spec.set("healthCheckNodePort", 32_000);
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}
