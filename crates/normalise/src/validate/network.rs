//! Network policies, ingresses, ingress classes, endpoint slices, service ranges.
//!
//! Upstream counterpart: `pkg/apis/{networking,discovery}/validation/validation.go`.

use super::{Checker, Path, TypeCheck, core, format};
use crate::{Reason, node::Node};

pub(super) fn check(name: &str) -> Option<TypeCheck> {
    Some(match name {
        "networking.v1.NetworkPolicyPort" => policy_port,
        "networking.v1.NetworkPolicyPeer" => policy_peer,
        "networking.v1.IPBlock" => ip_block,
        "networking.v1.NetworkPolicySpec" => policy_spec,
        "networking.v1.Ingress" => ingress,
        "networking.v1.IngressSpec" => ingress_spec,
        "networking.v1.IngressRule" => ingress_rule,
        "networking.v1.IngressTLS" => ingress_tls,
        "networking.v1.HTTPIngressPath" => ingress_path,
        "networking.v1.IngressClassSpec" => class_spec,
        "networking.v1.IngressClassParametersReference" => class_parameters,
        "networking.v1.ServiceCIDRSpec" => service_range,
        "networking.v1.IPAddressSpec" => ip_address,
        "discovery.v1.EndpointSlice" => endpoint_slice,
        "discovery.v1.Endpoint" => endpoint,
        _ => return None,
    })
}

fn policy_port(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let end = node.int("endPort");
    let at = path.field("endPort");
    match node.get("port") {
        Some(Node::Int(port)) => {
            if !(1..=65_535).contains(port) {
                checker.invalid(
                    &path.field("port"),
                    &port.to_string(),
                    "must be between 1 and 65535, inclusive",
                );
            }
            if let Some(end) = end {
                if end < *port {
                    checker.invalid(&at, &port.to_string(), "must be greater than or equal to `port`");
                }
                if !(1..=65_535).contains(&end) {
                    checker.invalid(&at, &end.to_string(), "must be between 1 and 65535, inclusive");
                }
            }
        }
        Some(port) => {
            if end.is_some() {
                checker.invalid(&at, "", "may not be specified when `port` is non-numeric");
            }
            checker.problems(&path.field("port"), port.as_str(), &format::port_name(port.as_str()));
        }
        None if end.is_some() => checker.invalid(&at, "", "may not be specified when `port` is not specified"),
        None => {}
    }
}

fn policy_peer(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let selectors = usize::from(node.has("podSelector")) + usize::from(node.has("namespaceSelector"));
    match (selectors, node.has("ipBlock")) {
        (0, false) => checker.required(path, "must specify a peer"),
        (1.., true) => checker.forbidden(path, "may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn prefix(text: &str) -> Option<kyvtest_go_compat::text::ip::Prefix> {
    let (address, bits) = text.rsplit_once('/')?;
    let plain = format::parse_ip(address).is_some().then(|| {
        address
            .split('.')
            .map(|part| {
                if address.contains(':') {
                    part.to_owned()
                } else {
                    part.trim_start_matches('0').to_owned()
                }
            })
            .map(|part| {
                if part.is_empty() && !address.contains(':') {
                    "0".to_owned()
                } else {
                    part
                }
            })
            .collect::<Vec<_>>()
            .join(".")
    })?;
    kyvtest_go_compat::text::ip::parse_prefix(format!("{plain}/{bits}").as_bytes()).ok()
}

fn cidr(checker: &mut Checker<'_>, text: &str, path: &Path<'_>) {
    match prefix(text) {
        None => checker.invalid(
            path,
            text,
            "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        ),
        Some(prefix) => {
            let leading = text
                .split(['.', '/'])
                .any(|part| part.len() > 1 && part.starts_with('0') && !text.contains(':'));
            if leading {
                checker.invalid(path, text, "must not have leading 0s in IP");
            }
            if prefix.masked().addr() != prefix.addr() {
                checker.invalid(path, text, "must not have bits set beyond the prefix length");
            }
        }
    }
}

fn ip_block(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let own = node.str("cidr");
    if own.is_empty() {
        return checker.required(&path.field("cidr"), "");
    }
    cidr(checker, own, &path.field("cidr"));
    let Some(block) = prefix(own) else { return };
    for (index, except) in node.list("except").iter().enumerate() {
        let at = path.field("except");
        let at = at.index(index);
        cidr(checker, except.as_str(), &at);
        if let Some(inner) = prefix(except.as_str())
            && (!block.contains(inner.masked().addr()) || block.len() >= inner.len())
        {
            checker.invalid(&at, except.as_str(), "must be a strict subset of `cidr`");
        }
    }
}

fn policy_spec(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let path = path.field("policyTypes");
    let types = node.list("policyTypes");
    if types.len() > 2 {
        return checker.invalid(&path, "", "may not specify more than two policyTypes");
    }
    for (index, kind) in types.iter().enumerate() {
        if !matches!(kind.as_str(), "Ingress" | "Egress") {
            checker.unsupported(&path.index(index), kind.as_str(), &["Egress", "Ingress"]);
        }
    }
}

fn ingress(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    const KEY: &str = "kubernetes.io/ingress.class";
    let annotation = node.at(&["metadata", "annotations", KEY]).map(Node::as_str);
    let class = node.at(&["spec", "ingressClassName"]).map(Node::as_str);
    if let (Some(annotation), Some(class), true) = (annotation, class, checker.create)
        && annotation != class
    {
        let detail = "must match `ingressClassName` when both are specified";
        checker.invalid(&path.field("annotations").field(KEY), annotation, detail);
    }
}

fn ingress_spec(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    if node.list("rules").is_empty() && !node.has("defaultBackend") {
        checker.invalid(path, "", "either `defaultBackend` or `rules` must be specified");
    }
    if let Some(own) = node.get("defaultBackend") {
        backend(checker, own, &path.field("defaultBackend"));
    }
}

fn host(checker: &mut Checker<'_>, host: &str, path: &Path<'_>) {
    let problems = if host.contains('*') {
        format::wildcard(host)
    } else {
        format::subdomain(host)
    };
    checker.problems(path, host, &problems);
}

fn ingress_rule(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let own = node.str("host");
    if !own.is_empty() {
        if format::is_ip(own) {
            checker.invalid(&path.field("host"), own, "must be a DNS name, not an IP address");
        }
        host(checker, own, &path.field("host"));
    }
}

fn ingress_tls(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    for (index, own) in node.list("hosts").iter().enumerate() {
        host(checker, own.as_str(), &path.field("hosts").index(index));
    }
}

fn ingress_path(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let own = node.str("path");
    let at = path.field("path");
    match node.get("pathType").map(Node::as_str) {
        None => return checker.required(&path.field("pathType"), "pathType must be specified"),
        Some("Exact" | "Prefix") => {
            if !own.starts_with('/') {
                checker.invalid(&at, own, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"]
                .into_iter()
                .filter(|part| own.contains(part))
            {
                checker.invalid(&at, own, &format!("must not contain '{part}'"));
            }
            for end in ["/..", "/."].into_iter().filter(|end| own.ends_with(end)) {
                checker.invalid(&at, own, &format!("cannot end with '{end}'"));
            }
        }
        Some("ImplementationSpecific") => {
            if !own.is_empty() && !own.starts_with('/') {
                checker.invalid(&at, own, "must be an absolute path");
            }
        }
        Some(other) => {
            let allowed = ["Exact", "ImplementationSpecific", "Prefix"];
            checker.unsupported(&path.field("pathType"), other, &allowed);
        }
    }
    if let Some(own) = node.get("backend") {
        backend(checker, own, &path.field("backend"));
    }
}

fn backend(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    match (node.get("resource"), node.get("service")) {
        (Some(_), Some(_)) => checker.invalid(path, "", "cannot set both resource and service backends"),
        (Some(resource), None) => typed_reference(checker, resource, &path.field("resource")),
        (None, Some(service)) => {
            let at = path.field("service");
            match service.str("name") {
                "" => checker.required(&at.field("name"), ""),
                name => checker.problems(&at.field("name"), name, &format::label(name)),
            }
            let port = service.get("port");
            let name = port.map_or("", |port| port.str("name"));
            let number = port.and_then(|port| port.int("number")).unwrap_or(0);
            let at = at.field("port");
            match (name.is_empty(), number) {
                (false, 0) => checker.problems(&at.field("name"), name, &format::port_name(name)),
                (false, _) => checker.invalid(path, "", "cannot set both port name & port number"),
                (true, 0) => checker.required(path, "port name or number is required"),
                (true, 1..=65_535) => {}
                (true, _) => checker.invalid(&at.field("number"), "", "must be between 1 and 65535, inclusive"),
            }
        }
        (None, None) => checker.invalid(path, "", "resource or service backend is required"),
    }
}

fn typed_reference(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    if let Some(group) = node.get("apiGroup").map(Node::as_str) {
        checker.problems(&path.field("apiGroup"), group, &format::subdomain(group));
    }
    for field in ["kind", "name"] {
        match node.str(field) {
            "" => checker.required(&path.field(field), ""),
            own => checker.problems(&path.field(field), own, &format::path_segment(own)),
        }
    }
}

/// A domain followed by a path, such as `example.com/controller`.
pub(super) fn domain_path(checker: &mut Checker<'_>, text: &str, path: &Path<'_>) {
    if text.is_empty() {
        return checker.required(path, "");
    }
    let Some((domain, rest)) = text.split_once('/') else {
        return checker.invalid(path, text, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    if domain.is_empty() || rest.is_empty() {
        return checker.invalid(path, text, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    }
    checker.problems(path, domain, &format::subdomain(domain));
    if !rest
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:@".contains(&b))
    {
        checker.invalid(path, rest, "Invalid path");
    }
}

fn class_spec(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let controller = node.str("controller");
    if controller.len() > 250 {
        checker.fail(
            &path.field("controller"),
            Reason::TooLong,
            "may not be more than 250 bytes",
        );
    }
    domain_path(checker, controller, &path.field("controller"));
}

fn class_parameters(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    typed_reference(checker, node, path);
    let namespace = node.get("namespace").map(Node::as_str);
    let at = path.field("namespace");
    match (node.get("scope").map(Node::as_str), namespace) {
        (None, _) => checker.required(&path.field("scope"), ""),
        (Some("Namespace"), None) => checker.required(&at, "`parameters.scope` is set to 'Namespace'"),
        (Some("Namespace"), Some(own)) => checker.problems(&at, own, &format::label(own)),
        (Some("Cluster"), Some(_)) => checker.forbidden(&at, "`parameters.scope` is set to 'Cluster'"),
        (Some("Cluster"), None) => {}
        (Some(other), _) => checker.unsupported(&path.field("scope"), other, &["Cluster", "Namespace"]),
    }
}

fn service_range(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let path = path.field("cidrs");
    let ranges = node.list("cidrs");
    if ranges.is_empty() {
        checker.required(&path, "at least one CIDR required");
    }
    if ranges.len() > 2 {
        checker.invalid(&path, "", "may only hold up to 2 values");
    }
    for (index, range) in ranges.iter().enumerate() {
        cidr(checker, range.as_str(), &path.index(index));
    }
}

fn ip_address(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let path = path.field("parentRef");
    let Some(parent) = node.get("parentRef") else {
        return checker.required(&path, "");
    };
    for field in ["resource", "name"] {
        if parent.str(field).is_empty() {
            checker.required(&path.field(field), "");
        }
    }
}

fn endpoint_slice(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let ports = node.list("ports");
    let at = path.field("ports");
    for (index, port) in ports.iter().enumerate() {
        if ports[..index].iter().any(|other| other.str("name") == port.str("name")) {
            checker.duplicate(&at.index(index).field("name"), port.str("name"));
        }
        let name = port.str("name");
        if !name.is_empty() {
            checker.problems(&at.index(index).field("name"), name, &format::label(name));
        }
    }
    let kind = node.str("addressType");
    for (index, endpoint) in node.list("endpoints").iter().enumerate() {
        let at = path.field("endpoints");
        let at = at.index(index);
        let at = at.field("addresses");
        let own = endpoint.list("addresses");
        if own.is_empty() {
            checker.required(&at, "must contain at least 1 address");
        } else if own.len() > 100 {
            checker.fail(&at, Reason::TooMany, "must have at most 100 items");
        }
        for (index, address) in own.iter().enumerate() {
            addresses(checker, kind, address.as_str(), &at, index);
        }
    }
}

fn addresses(checker: &mut Checker<'_>, kind: &str, text: &str, list: &Path<'_>, index: usize) {
    let at = list.index(index);
    match kind {
        "IPv4" | "IPv6" => {
            if !format::is_ip(text) {
                return checker.invalid(
                    &at,
                    text,
                    "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                );
            }
            if text.contains(':') != (kind == "IPv6") {
                checker.invalid(list, text, &format!("must be an {kind} address"));
            }
            core::endpoint_ip(checker, text, &at);
        }
        "FQDN" => {
            let name = text.strip_suffix('.').unwrap_or(text);
            if text.is_empty() {
                checker.required(&at, "");
            } else {
                checker.problems(&at, text, &format::subdomain(name));
                if format::subdomain(name).is_empty() && !name.contains('.') {
                    checker.invalid(
                        &at,
                        text,
                        "should be a domain with at least two segments separated by dots",
                    );
                }
            }
        }
        _ => {}
    }
}

fn endpoint(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let Some(hints) = node.get("hints") else { return };
    let path = path.field("hints");
    for field in ["forZones", "forNodes"] {
        let at = path.field(field);
        let list = hints.list(field);
        for (index, hint) in list.iter().enumerate() {
            let at = at.index(index);
            let at = at.field("name");
            let name = hint.str("name");
            if list[..index].iter().any(|other| other.str("name") == name) {
                checker.duplicate(&at, name);
            }
            let problems = if field == "forZones" {
                format::label_value(name)
            } else {
                format::subdomain(name)
            };
            checker.problems(&at, name, &problems);
        }
    }
}
