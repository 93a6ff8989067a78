//! Allocation of cluster addresses, node ports and address families of services.
//!
//! Upstream counterpart: `pkg/registry/core/service/storage/alloc.go`.
//!
//! Known deviations: the cluster has one IPv4 range; the address is always `10.0.0.10`, node ports count from 30000.

use crate::node::Node;

const ADDRESS: &str = "10.0.0.10";

pub(super) fn create(node: &mut Node<'_>) {
    let spec = node.child("spec");
    if spec.str("type") == "ExternalName" {
        return;
    }
    let address = spec.list("clusterIPs").first().cloned().or_else(|| spec.get("clusterIP").cloned());
    let address = address.filter(|address| !address.is_empty()).unwrap_or(Node::text(ADDRESS));
    let headless = address.as_str() == "None";
    families(spec, headless);
    spec.set("clusterIP", address.clone());
    if spec.list("clusterIPs").is_empty() {
        spec.set("clusterIPs", Node::List(vec![address]));
    }
    node_ports(spec);
}

fn families(spec: &mut Node<'_>, headless: bool) {
    let both = headless && spec.map("selector").is_empty() && !spec.has("ipFamilyPolicy");
    if both {
        spec.set("ipFamilyPolicy", "RequireDualStack");
    }
    spec.set_default("ipFamilyPolicy", "SingleStack");
    if spec.list("ipFamilies").is_empty() {
        spec.child_list("ipFamilies").push(Node::text("IPv4"));
    }
    let dual = matches!(spec.str("ipFamilyPolicy"), "RequireDualStack" | "PreferDualStack");
    if headless && dual && spec.map("selector").is_empty() && spec.list("ipFamilies").len() == 1 {
        let first = spec.list("ipFamilies")[0].as_str();
        let second = if first == "IPv4" { "IPv6" } else { "IPv4" };
        spec.child_list("ipFamilies").push(Node::text(second));
    }
}

fn node_ports(spec: &mut Node<'_>) {
    let kind = spec.str("type");
    let allocate = match kind {
        "NodePort" => true,
        "LoadBalancer" => spec.bool("allocateLoadBalancerNodePorts"),
        _ => false,
    };
    let health = kind == "LoadBalancer" && spec.str("externalTrafficPolicy") == "Local";
    if allocate {
        let mut next = 30_000;
        let mut given: Vec<(i64, i64)> = Vec::new();
        for port in spec.list_mut("ports") {
            if port.int("nodePort").unwrap_or(0) != 0 {
                continue;
            }
            // One number serves both protocols of a port.
            let own = port.int("port").unwrap_or(0);
            let number = match given.iter().find(|(known, _)| *known == own) {
                Some((_, number)) => *number,
                None => next,
            };
            given.push((own, number));
            port.set("nodePort", number);
            next += 1;
        }
    }
    if health && spec.int("healthCheckNodePort").unwrap_or(0) == 0 {
        spec.set("healthCheckNodePort", 32_000);
    }
}
