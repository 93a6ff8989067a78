//! RBAC, priorities, flow control, device claims, runtime classes, API services, leases.
//!
//! Upstream counterpart: `validation.go` below `pkg/apis/{rbac,scheduling,flowcontrol,resource,node,coordination}` and of
//! kube-aggregator.

use super::{Checker, Path, TypeCheck, core, format, meta, pod_resources, pod_scheduling, volume};
use crate::node::Node;

pub(super) fn check(name: &str) -> Option<TypeCheck> {
    Some(match name {
        "rbac.v1.PolicyRule" => policy_rule,
        "rbac.v1.AggregationRule" => aggregation,
        "rbac.v1.RoleRef" => role_ref,
        "rbac.v1.Subject" => subject,
        "scheduling.v1.PriorityClass" => priority_class,
        "flowcontrol.v1.FlowSchema" => flow_schema,
        "flowcontrol.v1.PolicyRulesWithSubjects" => flow_rules,
        "flowcontrol.v1.Subject" => flow_subject,
        "flowcontrol.v1.ResourcePolicyRule" => flow_resources,
        "flowcontrol.v1.NonResourcePolicyRule" => flow_urls,
        "flowcontrol.v1.PriorityLevelConfiguration" => priority_level,
        "flowcontrol.v1.LimitResponse" => limit_response,
        "flowcontrol.v1.QueuingConfiguration" => queuing,
        "resource.v1.DeviceClaim" => device_claim,
        "resource.v1.DeviceClassSpec" => device_class,
        "resource.v1.DeviceRequest" => device_request,
        "resource.v1.ExactDeviceRequest" | "resource.v1.DeviceSubRequest" => exact_request,
        "resource.v1.DeviceToleration" => device_toleration,
        "resource.v1.OpaqueDeviceConfiguration" => opaque,
        "node.v1.RuntimeClass" => runtime_class,
        "apiregistration.v1.APIService" => api_service,
        _ => return None,
    })
}

fn device_class(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    if let Some(name) = node.get("extendedResourceName").map(Node::as_str)
        && !core::is_extended(name)
    {
        let path = path.field("extendedResourceName");
        checker.invalid(&path, name, "must be a valid extended resource name");
    }
}

fn policy_rule(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    if node.list("verbs").is_empty() {
        checker.required(&path.field("verbs"), "verbs must contain at least one value");
    }
    let some = |field: &str| !node.list(field).is_empty();
    let at = path.field("nonResourceURLs");
    if some("nonResourceURLs") {
        if checker.kind == "Role" {
            checker.invalid(&at, "", "namespaced rules cannot apply to non-resource URLs");
        }
        if some("apiGroups") || some("resources") || some("resourceNames") {
            checker.invalid(
                &at,
                "",
                "rules cannot apply to both regular resources and non-resource URLs",
            );
        }
        return;
    }
    if !some("apiGroups") {
        checker.required(
            &path.field("apiGroups"),
            "resource rules must supply at least one api group",
        );
    }
    if !some("resources") {
        checker.required(
            &path.field("resources"),
            "resource rules must supply at least one resource",
        );
    }
}

fn aggregation(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let path = path.field("clusterRoleSelectors");
    let selectors = node.list("clusterRoleSelectors");
    if selectors.is_empty() {
        checker.required(
            &path,
            "at least one clusterRoleSelector required if aggregationRule is non-nil",
        );
    }
    for (index, selector) in selectors.iter().enumerate() {
        meta::selector(checker, selector, &path.index(index));
        if meta::matches(selector, &Node::EMPTY).is_none() {
            checker.invalid(&path.index(index), "", "invalid label selector.");
        }
    }
}

fn role_ref(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    if node.str("apiGroup") != GROUP {
        checker.unsupported(&path.field("apiGroup"), node.str("apiGroup"), &[GROUP]);
    }
    let allowed: &[&str] = if checker.kind == "RoleBinding" {
        &["ClusterRole", "Role"]
    } else {
        &["ClusterRole"]
    };
    if !allowed.contains(&node.str("kind")) {
        checker.unsupported(&path.field("kind"), node.str("kind"), allowed);
    }
    match node.str("name") {
        "" => checker.required(&path.field("name"), ""),
        name => checker.problems(&path.field("name"), name, &format::path_segment(name)),
    }
}

fn subject(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let (name, group) = (node.str("name"), node.str("apiGroup"));
    if name.is_empty() {
        checker.required(&path.field("name"), "");
    }
    match node.str("kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                checker.problems(&path.field("name"), name, &format::subdomain(name));
            }
            if !group.is_empty() {
                checker.unsupported(&path.field("apiGroup"), group, &[""]);
            }
            if checker.kind == "ClusterRoleBinding" && node.str("namespace").is_empty() {
                checker.required(&path.field("namespace"), "");
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                checker.unsupported(&path.field("apiGroup"), group, &[GROUP]);
            }
        }
        other => checker.unsupported(&path.field("kind"), other, &["Group", "ServiceAccount", "User"]),
    }
}

fn priority_class(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let name = node.at(&["metadata", "name"]).map_or("", Node::as_str);
    let value = node.int("value").unwrap_or(0);
    if name.starts_with("system-") {
        let known = [
            ("system-node-critical", 2_000_001_000),
            ("system-cluster-critical", 2_000_000_000),
        ];
        if !known.contains(&(name, value)) || node.bool("globalDefault") {
            let detail = "priority class names with 'system-' prefix are reserved for system use only";
            checker.forbidden(&path.field("metadata").field("name"), detail);
        }
    } else if value > 1_000_000_000 {
        checker.forbidden(
            &path.field("value"),
            "maximum allowed value of a user defined priority is 1000000000",
        );
    }
    match node.get("preemptionPolicy").map(Node::as_str) {
        None | Some("Never" | "PreemptLowerPriority") => {}
        Some("") => checker.required(&path.field("preemptionPolicy"), ""),
        Some(other) => checker.unsupported(
            &path.field("preemptionPolicy"),
            other,
            &["Never", "PreemptLowerPriority"],
        ),
    }
}

fn flow_schema(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let Some(spec) = node.get("spec") else { return };
    let path = path.field("spec");
    let precedence = spec.int("matchingPrecedence").unwrap_or(0);
    let at = path.field("matchingPrecedence");
    if !(1..=10_000).contains(&precedence) {
        checker.invalid(&at, &precedence.to_string(), "must be between 1 and 10000");
    }
    if precedence == 1
        && node
            .at(&["metadata", "name"])
            .is_none_or(|name| name.as_str() != "exempt")
    {
        checker.invalid(&at, "1", "only the schema named 'exempt' may have matchingPrecedence 1");
    }
    if let Some(method) = spec.get("distinguisherMethod")
        && !matches!(method.str("type"), "ByNamespace" | "ByUser")
    {
        let at = path.field("distinguisherMethod");
        checker.unsupported(&at.field("type"), method.str("type"), &["ByNamespace", "ByUser"]);
    }
    let level = spec
        .at(&["priorityLevelConfiguration", "name"])
        .map_or("", Node::as_str);
    let at = path.field("priorityLevelConfiguration");
    match level {
        "" => checker.required(&at.field("name"), "must reference a priority level"),
        name => checker.problems(&at.field("name"), name, &format::subdomain(name)),
    }
}

fn flow_rules(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    if node.list("subjects").is_empty() {
        checker.required(&path.field("subjects"), "subjects must contain at least one value");
    }
    if node.list("resourceRules").is_empty() && node.list("nonResourceRules").is_empty() {
        checker.required(
            path,
            "at least one of resourceRules and nonResourceRules has to be non-empty",
        );
    }
}

fn flow_subject(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let kind = node.str("kind");
    let fields = [
        ("ServiceAccount", "serviceAccount"),
        ("User", "user"),
        ("Group", "group"),
    ];
    let Some((_, own)) = fields.iter().find(|(name, _)| *name == kind) else {
        return checker.unsupported(&path.field("kind"), kind, &["Group", "ServiceAccount", "User"]);
    };
    let at = path.field(own);
    match node.get(own) {
        None => checker.required(&at, &format!("{own} is required when subject kind is '{kind}'")),
        Some(subject) => {
            match subject.str("name") {
                "" => checker.required(&at.field("name"), ""),
                name if *own == "serviceAccount" && name != "*" => {
                    checker.problems(&at.field("name"), name, &format::subdomain(name));
                }
                _ => {}
            }
            if *own == "serviceAccount" {
                match subject.str("namespace") {
                    "" => checker.required(&at.field("namespace"), "must specify namespace for service account"),
                    name => checker.problems(&at.field("namespace"), name, &format::label(name)),
                }
            }
        }
    }
    for (name, field) in fields.iter().filter(|(name, field)| *name != kind && node.has(field)) {
        let _ = name;
        checker.forbidden(
            &path.field(field),
            &format!("{field} is forbidden when subject kind is not '{name}'"),
        );
    }
}

const VERBS: &[&str] = &[
    "get",
    "list",
    "create",
    "update",
    "delete",
    "deletecollection",
    "patch",
    "watch",
    "proxy",
];

fn flow_verbs(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let path = path.field("verbs");
    let verbs = node.list("verbs");
    if verbs.is_empty() {
        checker.required(&path, "verbs must contain at least one value");
    } else if verbs.iter().any(|verb| verb.as_str() == "*") {
        if verbs.len() > 1 {
            checker.invalid(&path, "*", "if '*' is present, must not specify other verbs");
        }
    } else if !verbs.iter().all(|verb| VERBS.contains(&verb.as_str())) {
        checker.unsupported(&path, "", VERBS);
    }
}

fn flow_resources(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    flow_verbs(checker, node, path);
    let wild = |list: &[Node<'_>]| list.iter().any(|item| item.as_str() == "*");
    for (field, detail) in [
        ("apiGroups", "resource rules must supply at least one api group"),
        ("resources", "resource rules must supply at least one resource"),
    ] {
        let list = node.list(field);
        if list.is_empty() {
            checker.required(&path.field(field), detail);
        } else if list.len() > 1 && wild(list) {
            checker.invalid(&path.field(field), "*", "if '*' is present, must not specify others");
        }
    }
    let namespaces = node.list("namespaces");
    let at = path.field("namespaces");
    if namespaces.is_empty() && !node.bool("clusterScope") {
        checker.required(
            &at,
            "resource rules that are not cluster scoped must supply at least one namespace",
        );
    } else if wild(namespaces) {
        if namespaces.len() > 1 {
            checker.invalid(&at, "*", "if '*' is present, must not specify other namespaces");
        }
    } else {
        for (index, namespace) in namespaces.iter().enumerate() {
            checker.problems(&at.index(index), namespace.as_str(), &format::label(namespace.as_str()));
        }
    }
}

fn flow_urls(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    flow_verbs(checker, node, path);
    let path = path.field("nonResourceURLs");
    let urls = node.list("nonResourceURLs");
    if urls.is_empty() {
        checker.required(&path, "nonResourceURLs must contain at least one value");
    } else if urls.iter().any(|url| url.as_str() == "*") {
        if urls.len() > 1 {
            checker.invalid(
                &path,
                "*",
                "if '*' is present, must not specify other non-resource URLs",
            );
        }
    } else {
        for (index, url) in urls.iter().enumerate() {
            let own = url.as_str();
            let wrong = !own.starts_with('/')
                || own.contains(' ')
                || own.contains("//")
                || own.trim_end_matches('*').contains('*')
                || (own.ends_with('*') && !own.ends_with("/*"));
            if own.is_empty() {
                checker.invalid(&path.index(index), own, "must not be empty");
            } else if wrong {
                checker.invalid(&path.index(index), own, "is not a valid non-resource URL");
            }
        }
    }
}

fn priority_level(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let Some(spec) = node.get("spec") else { return };
    let path = path.field("spec");
    let name = node.at(&["metadata", "name"]).map_or("", Node::as_str);
    let kind = spec.str("type");
    if (name == "exempt") != (kind == "Exempt") {
        checker.invalid(
            &path.field("type"),
            kind,
            "must be 'Exempt' if and only if `name` is 'exempt'",
        );
    }
    match kind {
        "Exempt" => {
            if spec.has("limited") {
                checker.forbidden(&path.field("limited"), "must be nil if the type is not Limited");
            }
            checker.field_as(
                "flowcontrol.v1.PriorityLevelConfigurationSpec",
                spec,
                "exempt",
                &path.field("exempt"),
            );
        }
        "Limited" => {
            if spec.has("exempt") {
                checker.forbidden(&path.field("exempt"), "must be nil if the type is Limited");
            }
            if !spec.has("limited") {
                checker.required(&path.field("limited"), "must not be empty when type is Limited");
            }
            checker.field_as(
                "flowcontrol.v1.PriorityLevelConfigurationSpec",
                spec,
                "limited",
                &path.field("limited"),
            );
        }
        "" => checker.required(&path.field("type"), ""),
        other => checker.unsupported(&path.field("type"), other, &["Exempt", "Limited"]),
    }
}

fn limit_response(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let at = path.field("queuing");
    match (node.str("type"), node.get("queuing")) {
        ("Reject", Some(_)) => checker.forbidden(&at, "must be nil if limited.limitResponse.type is not Limited"),
        ("Reject", None) => {}
        ("Queue", None) => checker.required(&at, "must not be empty if limited.limitResponse.type is Limited"),
        ("Queue", Some(own)) => checker.object("flowcontrol.v1.QueuingConfiguration", own, &at),
        ("", _) => checker.required(&path.field("type"), ""),
        (other, _) => checker.unsupported(&path.field("type"), other, &["Queue", "Reject"]),
    }
}

fn queuing(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let (queues, hand) = (node.int("queues").unwrap_or(0), node.int("handSize").unwrap_or(0));
    if node.int("queueLengthLimit").unwrap_or(0) <= 0 {
        checker.invalid(&path.field("queueLengthLimit"), "", "must be positive");
    }
    if !(1..=10_000_000).contains(&queues) {
        checker.invalid(&path.field("queues"), &queues.to_string(), "must be positive");
    }
    let bits = (queues.max(2) as f64).log2() * hand as f64;
    if hand <= 0 || hand > queues || bits > 60.0 + f64::from(u32::from(bits > 60.0)) {
        checker.invalid(&path.field("handSize"), &hand.to_string(), "is not within bounds");
    }
}

fn device_claim(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let requests = node.list("requests");
    for (index, request) in requests.iter().enumerate() {
        let name = request.str("name");
        if requests[..index].iter().any(|other| other.str("name") == name) {
            checker.duplicate(&path.field("requests").index(index), name);
        }
    }
    let known = |name: &str| {
        requests.iter().any(|request| {
            let own = request.str("name");
            name == own
                || request
                    .list("firstAvailable")
                    .iter()
                    .any(|sub| name == format!("{own}/{}", sub.str("name")))
        })
    };
    for field in ["constraints", "config"] {
        for (index, own) in node.list(field).iter().enumerate() {
            let at = path.field(field);
            let at = at.index(index);
            for (index, name) in own.list("requests").iter().enumerate() {
                let at = at.field("requests");
                let name = name.as_str();
                for part in name.split('/').take(2) {
                    checker.problems(&at.index(index), part, &format::label(part));
                }
                if !known(name) {
                    checker.invalid(&at.index(index), name, "must be the name of a request in the claim");
                }
            }
            if field == "constraints" && !own.has("matchAttribute") && !own.has("distinctAttribute") {
                checker.required(
                    &at,
                    "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required",
                );
            }
            for attribute in ["matchAttribute", "distinctAttribute"] {
                if let Some(name) = own.get(attribute).map(Node::as_str) {
                    attribute_name(checker, name, &at.field(attribute));
                }
            }
            if field == "config" && !own.has("opaque") {
                checker.required(&at.field("opaque"), "");
            }
        }
    }
}

/// A domain and a C identifier, separated by a slash.
fn attribute_name(checker: &mut Checker<'_>, name: &str, path: &Path<'_>) {
    let Some((domain, own)) = name.split_once('/') else {
        return checker.invalid(
            path,
            name,
            "a fully qualified name must be a domain and a name separated by a slash",
        );
    };
    checker.problems(path, domain, &format::subdomain(domain));
    let word = own.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && own.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !word {
        checker.invalid(path, own, "a valid C identifier is required");
    }
}

fn device_request(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    checker.problems(&path.field("name"), node.str("name"), &format::label(node.str("name")));
    let available = node.list("firstAvailable");
    match (node.get("exactly"), available.is_empty()) {
        (None, true) => checker.required(path, "exactly one of `exactly` or `firstAvailable` is required"),
        (Some(_), false) => {
            checker.invalid(
                path,
                "null",
                "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
            );
        }
        (Some(exactly), true) => checker.object("resource.v1.ExactDeviceRequest", exactly, &path.field("exactly")),
        (None, false) => {
            for (index, sub) in available.iter().enumerate() {
                let at = path.field("firstAvailable");
                let at = at.index(index);
                checker.problems(&at.field("name"), sub.str("name"), &format::label(sub.str("name")));
                checker.object("resource.v1.DeviceSubRequest", sub, &at);
            }
        }
    }
}

fn exact_request(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    match node.str("deviceClassName") {
        "" => checker.required(&path.field("deviceClassName"), ""),
        name => checker.problems(&path.field("deviceClassName"), name, &format::subdomain(name)),
    }
    let count = node.int("count").unwrap_or(0);
    match node.str("allocationMode") {
        "All" if count != 0 => checker.invalid(
            &path.field("count"),
            &count.to_string(),
            "must not be specified when allocationMode is 'All'",
        ),
        "ExactCount" if count <= 0 => {
            checker.invalid(&path.field("count"), &count.to_string(), "must be greater than zero");
        }
        "All" | "ExactCount" => {}
        other => checker.unsupported(&path.field("allocationMode"), other, &["All", "ExactCount"]),
    }
}

fn device_toleration(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let (key, value) = (node.str("key"), node.str("value"));
    if !key.is_empty() {
        checker.problems(&path.field("key"), key, &format::qualified(key));
    }
    match node.str("operator") {
        "Exists" if !value.is_empty() => {
            checker.invalid(&path.field("value"), value, "must be empty for operator `Exists`");
        }
        "Equal" => checker.problems(&path.field("value"), value, &format::label_value(value)),
        "Exists" => {}
        "" => checker.required(&path.field("operator"), ""),
        other => checker.unsupported(&path.field("operator"), other, &["Equal", "Exists"]),
    }
    match node.str("effect") {
        "" | "NoSchedule" | "NoExecute" | "None" => {}
        other => checker.unsupported(&path.field("effect"), other, &["NoExecute", "NoSchedule", "None"]),
    }
}

fn opaque(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    volume::csi_driver(checker, node.str("driver"), &path.field("driver"));
    match node.get("parameters") {
        None => checker.required(&path.field("parameters"), ""),
        Some(Node::Map(_)) => {}
        Some(_) => checker.invalid(&path.field("parameters"), "", "must be a valid JSON object"),
    }
}

fn runtime_class(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    match node.str("handler") {
        "" => checker.required(&path.field("handler"), ""),
        name => checker.problems(&path.field("handler"), name, &format::label(name)),
    }
    if let Some(overhead) = node.get("overhead") {
        let mut requirements = Node::EMPTY;
        if let Some(fixed) = overhead.get("podFixed") {
            requirements.set("limits", fixed.to_owned());
        }
        pod_resources::resources(checker, &requirements, &path.field("overhead"));
    }
    let Some(scheduling) = node.get("scheduling") else {
        return;
    };
    let path = path.field("scheduling");
    meta::labels(checker, scheduling.map("nodeSelector"), &path.field("nodeSelector"));
    let tolerations = scheduling.list("tolerations");
    for (index, own) in tolerations.iter().enumerate() {
        let at = path.field("tolerations");
        let at = at.index(index);
        pod_scheduling::toleration(checker, own, &at);
        let same = |other: &Node<'_>| {
            ["key", "operator", "value", "effect"]
                .iter()
                .all(|field| other.str(field) == own.str(field))
        };
        if tolerations[..index].iter().any(same) {
            checker.duplicate(&at, own.str("key"));
        }
    }
}

fn api_service(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let Some(spec) = node.get("spec") else { return };
    let name = node.at(&["metadata", "name"]).map_or("", Node::as_str);
    let (group, version) = (spec.str("group"), spec.str("version"));
    if !name.is_empty() && format::path_segment(name).is_empty() && name != format!("{version}.{group}") {
        checker.invalid(
            &path.field("metadata").field("name"),
            name,
            "must be `spec.version+\".\"+spec.group`",
        );
    }
    let path = path.field("spec");
    if group.is_empty() && version != "v1" {
        checker.required(
            &path.field("group"),
            "only v1 may have an empty group and it better be legacy kube",
        );
    }
    if !group.is_empty() {
        checker.problems(&path.field("group"), group, &format::subdomain(group));
    }
    checker.problems(&path.field("version"), version, &format::dns1035(version));
    for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
        let value = spec.int(field).unwrap_or(0);
        if !(1..=most).contains(&value) {
            checker.invalid(
                &path.field(field),
                &value.to_string(),
                &format!("must be positive and less than {most}"),
            );
        }
    }
    let bundle = !spec.str("caBundle").is_empty();
    let Some(service) = spec.get("service") else {
        if bundle {
            checker.invalid(&path.field("caBundle"), "", "local APIServices may not have a caBundle");
        }
        if spec.bool("insecureSkipTLSVerify") {
            checker.invalid(
                &path.field("insecureSkipTLSVerify"),
                "true",
                "local APIServices may not have insecureSkipTLSVerify",
            );
        }
        return;
    };
    let at = path.field("service");
    for field in ["namespace", "name"] {
        if service.str(field).is_empty() {
            checker.required(&at.field(field), "");
        }
    }
    let port = service.int("port").unwrap_or(0);
    if !(1..=65_535).contains(&port) {
        checker.invalid(
            &at.field("port"),
            &port.to_string(),
            "port is not valid: must be between 1 and 65535, inclusive",
        );
    }
    if spec.bool("insecureSkipTLSVerify") && bundle {
        checker.invalid(
            &path.field("insecureSkipTLSVerify"),
            "true",
            "may not be true if caBundle is present",
        );
    }
}
