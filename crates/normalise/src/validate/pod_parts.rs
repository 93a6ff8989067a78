//! Parts of pods: containers, probes, resources, security, scheduling.
//!
//! Upstream counterpart: the helpers of `ValidatePodSpec` in `pkg/apis/core/validation/validation.go`.

use kyvtest_go_compat::text::quantity::Quantity;

use super::{Checker, Path, format, meta, volume};
use crate::{Reason, node::Node};

/// Checks what all sorts of containers have in common.
pub(super) fn container(checker: &mut Checker<'_>, node: &Node<'_>, spec: &Node<'_>, path: &Path<'_>) {
    match node.str("name") {
        "" => checker.required(&path.field("name"), ""),
        name => checker.problems(&path.field("name"), name, &format::label(name)),
    }
    if node.str("image").is_empty() {
        checker.required(&path.field("image"), "");
    }
    checker.object("core.v1.Container", node, path);
    ports(checker, node, &path.field("ports"));
    env(checker, node, &path.field("env"));
    mounts(checker, node, &path.field("volumeMounts"));
    devices(checker, node, &path.field("volumeDevices"));
    if let Some(own) = node.get("resources") {
        resources(checker, own, &path.field("resources"));
    }
    resize_policy(checker, node, spec.str("restartPolicy"), &path.field("resizePolicy"));
    let host_users = spec.get("hostUsers") != Some(&Node::Bool(false));
    let unmasked = node
        .at(&["securityContext", "procMount"])
        .is_some_and(|mount| mount.as_str() == "Unmasked");
    if host_users && unmasked {
        let at = path.field("securityContext");
        checker.invalid(
            &at.field("procMount"),
            "Unmasked",
            "`hostUsers` must be false to use `Unmasked`",
        );
    }
}

fn ports(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let mut names: Vec<&str> = Vec::new();
    for (index, port) in node.list("ports").iter().enumerate() {
        let path = path.index(index);
        let name = port.str("name");
        if !name.is_empty() {
            let problems = format::port_name(name);
            checker.problems(&path.field("name"), name, &problems);
            if problems.is_empty() && names.contains(&name) {
                checker.duplicate(&path.field("name"), name);
            }
            names.push(name);
        }
        for (field, required) in [("containerPort", true), ("hostPort", false)] {
            match port.int(field).unwrap_or(0) {
                0 if required => checker.required(&path.field(field), ""),
                number if number != 0 && !(1..=65_535).contains(&number) => {
                    checker.invalid(
                        &path.field(field),
                        &number.to_string(),
                        "must be between 1 and 65535, inclusive",
                    );
                }
                _ => {}
            }
        }
        match port.str("protocol") {
            "" => checker.required(&path.field("protocol"), ""),
            "TCP" | "UDP" | "SCTP" => {}
            other => checker.unsupported(&path.field("protocol"), other, &["SCTP", "TCP", "UDP"]),
        }
    }
}

fn env(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    for (index, variable) in node.list("env").iter().enumerate() {
        let path = path.index(index);
        match variable.str("name") {
            "" => checker.required(&path.field("name"), ""),
            name => checker.problems(&path.field("name"), name, &format::env_name(name)),
        }
        if let Some(source) = variable.get("valueFrom") {
            value_from(
                checker,
                source,
                !variable.str("value").is_empty(),
                &path.field("valueFrom"),
            );
        }
    }
}

fn value_from(checker: &mut Checker<'_>, node: &Node<'_>, has_value: bool, path: &Path<'_>) {
    let mut count = 0;
    if let Some(field) = node.get("fieldRef") {
        count += 1;
        field_ref(checker, field, false, &path.field("fieldRef"));
    }
    if let Some(resource) = node.get("resourceFieldRef") {
        count += 1;
        resource_field_ref(checker, resource, false, &path.field("resourceFieldRef"));
    }
    for name in ["configMapKeyRef", "secretKeyRef"] {
        let Some(key) = node.get(name) else { continue };
        count += 1;
        let path = path.field(name);
        checker.problems(
            &path.field("name"),
            key.str("name"),
            &format::subdomain(key.str("name")),
        );
        match key.str("key") {
            "" => checker.required(&path.field("key"), ""),
            own => checker.problems(&path.field("key"), own, &format::config_key(own)),
        }
    }
    if let Some(file) = node.get("fileKeyRef") {
        count += 1;
        checker.object("core.v1.FileKeySelector", file, &path.field("fileKeyRef"));
    }
    match count {
        0 => checker.invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        ),
        _ if has_value => checker.invalid(path, "", "may not be specified when `value` is not empty"),
        1 => {}
        _ => checker.invalid(path, "", "may not have more than one field specified at a time"),
    }
}

/// Checks a reference to a field of the pod.
pub(super) fn field_ref(checker: &mut Checker<'_>, node: &Node<'_>, volume: bool, path: &Path<'_>) {
    const COMMON: &[&str] = &["metadata.name", "metadata.namespace", "metadata.uid"];
    const ENV: &[&str] = &[
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    const VOLUME: &[&str] = &["metadata.labels", "metadata.annotations"];
    for field in ["apiVersion", "fieldPath"] {
        if node.str(field).is_empty() {
            return checker.required(&path.field(field), "");
        }
    }
    let own = node.str("fieldPath");
    if let Some((base, key)) = own.strip_suffix("']").and_then(|own| own.split_once("['")) {
        return match base {
            "metadata.annotations" => checker.problems(path, key, &format::qualified(&key.to_lowercase())),
            "metadata.labels" => checker.problems(path, key, &format::qualified(key)),
            _ => checker.invalid(
                &path.field("fieldPath"),
                own,
                "error converting fieldPath: field label does not support subscript",
            ),
        };
    }
    let known = |list: &[&str]| list.contains(&own);
    let anywhere = known(COMMON) || known(ENV) || known(VOLUME);
    if !anywhere || node.str("apiVersion") != "v1" {
        let detail = "error converting fieldPath: field label not supported";
        return checker.invalid(&path.field("fieldPath"), own, detail);
    }
    let here = if volume { VOLUME } else { ENV };
    if !known(COMMON) && !known(here) {
        checker.unsupported(&path.field("fieldPath"), own, here);
    }
}

pub(super) fn resource_field_ref(checker: &mut Checker<'_>, node: &Node<'_>, volume: bool, path: &Path<'_>) {
    const RESOURCES: &[&str] = &[
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
    ];
    let resource = node.str("resource");
    let huge = resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if volume && node.str("containerName").is_empty() {
        checker.required(&path.field("containerName"), "");
    } else if resource.is_empty() {
        checker.required(&path.field("resource"), "");
    } else if !RESOURCES.contains(&resource) && !huge {
        checker.unsupported(&path.field("resource"), resource, RESOURCES);
    }
    let divisor = node.str("divisor");
    if matches!(divisor, "" | "0") {
        return;
    }
    let allowed: &[&str] = if resource.ends_with(".cpu") {
        &["1m", "1"]
    } else {
        &[
            "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
        ]
    };
    if (RESOURCES.contains(&resource) || huge) && !allowed.contains(&divisor) {
        checker.invalid(
            &path.field("divisor"),
            resource,
            "divisor is not supported with the resource",
        );
    }
}

pub(super) fn env_from(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let list = path.parent.unwrap_or(path);
    match (node.has("configMapRef"), node.has("secretRef")) {
        (false, false) => checker.invalid(list, "", "must specify one of: `configMapRef` or `secretRef`"),
        (true, true) => checker.invalid(list, "", "may not have more than one field specified at a time"),
        _ => {}
    }
}

fn mounts(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let mut paths: Vec<&str> = Vec::new();
    for (index, mount) in node.list("volumeMounts").iter().enumerate() {
        let at = path.index(index);
        let (name, target) = (mount.str("name"), mount.str("mountPath"));
        if name.is_empty() {
            checker.required(&at.field("name"), "");
        }
        if !checker.volumes.iter().any(|(known, _)| known == name) {
            checker.not_found(&at.field("name"), name);
        }
        if target.is_empty() {
            checker.required(&at.field("mountPath"), "");
        }
        if paths.contains(&target) {
            checker.invalid(&at.field("mountPath"), target, "must be unique");
        }
        paths.push(target);
        let devices = node.list("volumeDevices");
        if devices.iter().any(|device| device.str("name") == name) {
            checker.invalid(&at.field("name"), name, "must not already exist in volumeDevices");
        }
        if devices.iter().any(|device| device.str("devicePath") == target) {
            checker.invalid(
                &at.field("mountPath"),
                target,
                "must not already exist as a path in volumeDevices",
            );
        }
        mount_options(checker, node, mount, &at, path);
    }
}

/// Checks a mount's options; upstream reports most of them at the list.
fn mount_options(checker: &mut Checker<'_>, node: &Node<'_>, mount: &Node<'_>, at: &Path<'_>, list: &Path<'_>) {
    for field in ["subPath", "subPathExpr"] {
        let own = mount.str(field);
        if own.starts_with('/') {
            checker.invalid(&list.field(field), own, "must be a relative path");
        }
        volume::no_dots(checker, own, &list.field(field));
    }
    if !mount.str("subPathExpr").is_empty() && !mount.str("subPath").is_empty() {
        checker.invalid(
            &at.field("subPathExpr"),
            mount.str("subPathExpr"),
            "subPathExpr and subPath are mutually exclusive",
        );
    }
    if let Some(mode) = mount.get("mountPropagation").map(Node::as_str) {
        let path = list.field("mountPropagation");
        let privileged = node
            .get("securityContext")
            .is_some_and(|context| context.bool("privileged"));
        if !matches!(mode, "Bidirectional" | "HostToContainer" | "None") {
            checker.unsupported(&path, mode, &["Bidirectional", "HostToContainer", "None"]);
        } else if mode == "Bidirectional" && !privileged {
            checker.forbidden(
                &path,
                "Bidirectional mount propagation is available only to privileged containers",
            );
        }
    }
    if let Some(mode) = mount.get("recursiveReadOnly").map(Node::as_str) {
        let path = list.field("recursiveReadOnly");
        match mode {
            "Disabled" => {}
            "Enabled" | "IfPossible" => {
                if !mount.bool("readOnly") {
                    checker.forbidden(&path, "may only be specified when readOnly is true");
                }
                if !matches!(mount.str("mountPropagation"), "" | "None") {
                    checker.forbidden(
                        &path,
                        "may only be specified when mountPropagation is None or not specified",
                    );
                }
            }
            other => checker.unsupported(&path, other, &["Disabled", "Enabled", "IfPossible"]),
        }
    }
}

fn devices(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let devices = node.list("volumeDevices");
    for (index, device) in devices.iter().enumerate() {
        let path = path.index(index);
        let (name, own) = (device.str("name"), device.str("devicePath"));
        let volume = checker
            .volumes
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, block)| *block);
        if name.is_empty() {
            checker.required(&path.field("name"), "");
        } else if devices[..index].iter().any(|other| other.str("name") == name) {
            checker.invalid(&path.field("name"), name, "must be unique");
        }
        match volume {
            Some(false) => {
                let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                checker.invalid(&path.field("name"), name, detail);
            }
            None => checker.not_found(&path.field("name"), name),
            Some(true) => {}
        }
        if own.is_empty() {
            checker.required(&path.field("devicePath"), "");
        }
        if devices[..index].iter().any(|other| other.str("devicePath") == own) {
            checker.invalid(&path.field("devicePath"), own, "must be unique");
        }
        if own.split('/').any(|part| part == "..") {
            checker.invalid(&path.field("devicePath"), own, "can not contain backsteps ('..')");
        }
        let mounts = node.list("volumeMounts");
        if mounts.iter().any(|mount| mount.str("name") == name) {
            checker.invalid(&path.field("name"), name, "must not already exist in volumeMounts");
        }
        if mounts.iter().any(|mount| mount.str("mountPath") == own) {
            checker.invalid(
                &path.field("devicePath"),
                own,
                "must not already exist as a path in volumeMounts",
            );
        }
    }
}

fn resize_policy(checker: &mut Checker<'_>, node: &Node<'_>, restart: &str, path: &Path<'_>) {
    let policies = node.list("resizePolicy");
    for (index, policy) in policies.iter().enumerate() {
        let name = policy.str("resourceName");
        if policies[..index].iter().any(|other| other.str("resourceName") == name) {
            checker.duplicate(&path.index(index), name);
        }
        for (value, allowed) in [
            (name, &["cpu", "memory"]),
            (policy.str("restartPolicy"), &["NotRequired", "RestartContainer"]),
        ] {
            if value.is_empty() {
                checker.required(path, "");
            } else if !allowed.contains(&value) {
                checker.unsupported(path, value, allowed);
            }
        }
        if restart == "Never" && policy.str("restartPolicy") != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            checker.invalid(path, policy.str("restartPolicy"), detail);
        }
    }
}

/// Checks requests, limits and claims.
pub(super) fn resources(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    requirements(checker, node, path, super::core::container_resource);
    claims(checker, node, &path.field("claims"));
}

fn requirements(
    checker: &mut Checker<'_>,
    node: &Node<'_>,
    path: &Path<'_>,
    name_check: fn(&mut Checker<'_>, &str, &Path<'_>),
) {
    let (mut compute, mut huge) = (false, false);
    for field in ["limits", "requests"] {
        let at = path.field(field);
        for (name, amount) in node.map(field) {
            let key = at.key(name);
            name_check(checker, name, &key);
            super::core::resource_amount(checker, name, amount.as_str(), &key);
            compute |= matches!(name.as_ref(), "cpu" | "memory");
            huge |= name.starts_with("hugepages-");
            if field == "requests" {
                request(checker, node, name, amount.as_str(), path);
            }
        }
    }
    if huge && !compute {
        checker.forbidden(path, "HugePages require cpu or memory");
    }
}

fn request(checker: &mut Checker<'_>, node: &Node<'_>, name: &str, amount: &str, path: &Path<'_>) {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    let overcommit = native && !name.starts_with("hugepages-");
    let at = path.field("requests");
    match node.at(&["limits", name]) {
        Some(limit) => {
            let (Ok(amount), Ok(limit)) = (Quantity::parse(amount), Quantity::parse(limit.as_str())) else {
                return;
            };
            if amount != limit && !overcommit {
                checker.invalid(
                    &at,
                    &amount.to_string(),
                    &format!("must be equal to {name} limit of {limit}"),
                );
            } else if amount > limit {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                checker.invalid(&at, &amount.to_string(), &detail);
            }
        }
        None if !overcommit => {
            checker.required(
                &path.field("limits"),
                "Limit must be set for non overcommitable resources",
            );
        }
        None => {}
    }
}

fn claims(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let mut known: Vec<String> = Vec::new();
    for (index, claim) in node.list("claims").iter().enumerate() {
        let path = path.index(index);
        let (name, request) = (claim.str("name"), claim.str("request"));
        if name.is_empty() {
            checker.required(&path, "");
            continue;
        }
        if !request.is_empty() {
            checker.problems(&path.field("request"), request, &format::label(request));
        }
        let key = if request.is_empty() {
            name.to_owned()
        } else {
            format!("{name}/{request}")
        };
        let taken = known.iter().any(|other| {
            *other == key || *other == name || (request.is_empty() && other.starts_with(&format!("{name}/")))
        });
        if taken {
            checker.duplicate(&path, &key);
        }
        known.push(key);
        if !checker.claims.iter().any(|known| known == name) {
            checker.not_found(&path, name);
        }
    }
}

/// Checks the resource claims of a pod and remembers their names.
pub(super) fn resource_claims(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    checker.claims.clear();
    let mut known: Vec<&str> = Vec::new();
    for (index, claim) in spec.list("resourceClaims").iter().enumerate() {
        let path = path.index(index);
        let name = claim.str("name");
        if name.is_empty() {
            checker.required(&path.field("name"), "");
        } else if known.contains(&name) {
            checker.duplicate(&path.field("name"), name);
        } else {
            checker.problems(&path.field("name"), name, &format::label(name));
            known.push(name);
        }
        match (claim.has("resourceClaimName"), claim.has("resourceClaimTemplateName")) {
            (true, true) => checker.invalid(
                &path,
                name,
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            ),
            (false, false) => checker.invalid(
                &path,
                name,
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ),
            _ => {}
        }
        for field in ["resourceClaimName", "resourceClaimTemplateName"] {
            if let Some(own) = claim.get(field) {
                checker.problems(&path.field(field), own.as_str(), &format::subdomain(own.as_str()));
            }
        }
        checker.claims.push(name.to_owned());
    }
}

pub(super) fn pod_resources(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    let Some(own) = spec.get("resources") else { return };
    if spec.at(&["os", "name"]).is_some_and(|name| name.as_str() == "windows") {
        return checker.forbidden(path, "may not be set for a windows pod");
    }
    if own.has("claims") {
        checker.forbidden(
            &path.field("claims"),
            "claims may not be set for Resources at pod-level",
        );
    }
    requirements(checker, own, path, |checker, name, path| {
        let before = checker.errors.len();
        super::core::resource_name(checker, name, path);
        if checker.errors.len() == before && !matches!(name, "cpu" | "memory") && !name.starts_with("hugepages-") {
            checker.unsupported(path, name, &["cpu", "hugepages-", "memory"]);
        }
    });
    for (name, limit) in own.map("limits") {
        for (index, container) in spec.list("containers").iter().enumerate() {
            let Some(used) = container.at(&["resources", "limits", name]) else {
                continue;
            };
            if let (Ok(used), Ok(limit)) = (Quantity::parse(used.as_str()), Quantity::parse(limit.as_str()))
                && used > limit
            {
                let at = path.field("containers");
                let at = at.index(index);
                let detail = format!("must be less than or equal to pod limits of {limit}");
                checker.invalid(&at.key(name).field("limits"), &used.to_string(), &detail);
            }
        }
    }
}

pub(super) fn lifecycle_and_probes(checker: &mut Checker<'_>, node: &Node<'_>, spec: &Node<'_>, path: &Path<'_>) {
    let grace = spec.int("terminationGracePeriodSeconds");
    if let Some(lifecycle) = node.get("lifecycle") {
        let path = path.field("lifecycle");
        for field in ["postStart", "preStop"] {
            if let Some(own) = lifecycle.get(field) {
                handler(checker, own, grace, &path.field(field));
            }
        }
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = node.get(field) else { continue };
        let path = path.field(field);
        handler(checker, probe, grace, &path);
        checker.object("core.v1.Probe", probe, &path);
        if field == "readinessProbe" {
            if let Some(seconds) = probe.int("terminationGracePeriodSeconds") {
                let at = path.field("terminationGracePeriodSeconds");
                checker.invalid(&at, &seconds.to_string(), "must not be set for readinessProbes");
            }
        } else if probe.int("successThreshold") != Some(1) {
            checker.invalid(&path.field("successThreshold"), "", "must be 1");
        }
    }
}

fn handler(checker: &mut Checker<'_>, node: &Node<'_>, grace: Option<i64>, path: &Path<'_>) {
    let mut found = false;
    for (field, type_name) in [
        ("exec", "core.v1.ExecAction"),
        ("httpGet", "core.v1.HTTPGetAction"),
        ("tcpSocket", "core.v1.TCPSocketAction"),
        ("grpc", "core.v1.GRPCAction"),
        ("sleep", "core.v1.SleepAction"),
    ] {
        let Some(action) = node.get(field) else { continue };
        let path = path.field(field);
        if found {
            checker.forbidden(&path, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        checker.object(type_name, action, &path);
        let seconds = action.int("seconds").unwrap_or(0);
        if field == "sleep" && grace.is_some_and(|grace| seconds < 0 || seconds > grace) {
            let detail = "must be non-negative and less than terminationGracePeriodSeconds";
            checker.invalid(&path, &seconds.to_string(), detail);
        }
    }
    if !found {
        checker.required(path, "must specify a handler type");
    }
}

pub(super) fn http_get(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    for header in node.list("httpHeaders") {
        let name = header.str("name");
        checker.problems(&path.field("httpHeaders"), name, &format::http_header(name));
    }
    if !node.has("port") {
        checker.invalid(&path.field("port"), "0", "must be between 1 and 65535, inclusive");
    }
}

pub(super) fn restart_policy(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let rules = node.list("restartPolicyRules");
    match node.get("restartPolicy").map(Node::as_str) {
        None if rules.is_empty() => return,
        None => checker.required(
            &path.field("restartPolicy"),
            "must specify restartPolicy when restart rules are used",
        ),
        Some("Always" | "Never" | "OnFailure") => {}
        Some(other) => checker.unsupported(&path.field("restartPolicy"), other, &["Always", "Never", "OnFailure"]),
    }
    let path = path.field("restartPolicyRules");
    if rules.len() > 20 {
        checker.fail(&path, Reason::TooMany, "must have at most 20 items");
    }
    for (index, rule) in rules.iter().enumerate() {
        checker.object("core.v1.ContainerRestartRule", rule, &path.index(index));
    }
}

pub(super) fn security_context(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    if node.get("allowPrivilegeEscalation") != Some(&Node::Bool(false)) {
        return;
    }
    if node.bool("privileged") {
        checker.invalid(
            path,
            "",
            "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
        );
    }
    for capability in node.get("capabilities").map_or(&[][..], |own| own.list("add")) {
        if capability.as_str() == "CAP_SYS_ADMIN" {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            checker.invalid(path, "", detail);
        }
    }
}

pub(super) fn pod_security_context(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let path = path.field("sysctls");
    let sysctls = node.list("sysctls");
    for (index, sysctl) in sysctls.iter().enumerate() {
        let path = path.index(index);
        let path = path.field("name");
        let name = sysctl.str("name");
        if name.is_empty() {
            checker.required(&path, "");
        } else if !is_sysctl(name) {
            checker.invalid(&path, name, "must have at most 253 characters and match regex");
        } else if sysctls[..index].iter().any(|other| other.str("name") == name) {
            checker.duplicate(&path, name);
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    name.len() <= 253
        && name.split(['.', '/']).all(|part| {
            let edge = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
            let bytes = part.as_bytes();
            edge(bytes.first())
                && edge(bytes.last())
                && bytes
                    .iter()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(b))
        })
}

pub(super) fn seccomp(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let profile = node.get("localhostProfile").map(Node::as_str);
    let at = path.field("localhostProfile");
    match node.str("type") {
        "Localhost" => match profile {
            None => checker.required(&at, "must be set when seccomp type is Localhost"),
            Some(own) => {
                if own.starts_with('/') {
                    checker.invalid(&at, own, "must be a relative path");
                }
                volume::no_dots(checker, own, &at);
            }
        },
        kind => {
            if kind.is_empty() {
                checker.required(&path.field("type"), "type is required when seccompProfile is set");
            } else if !matches!(kind, "RuntimeDefault" | "Unconfined") {
                checker.unsupported(
                    &path.field("type"),
                    kind,
                    &["Localhost", "RuntimeDefault", "Unconfined"],
                );
            }
            if let Some(own) = profile {
                checker.invalid(&at, own, "can only be set when seccomp type is Localhost");
            }
        }
    }
}

pub(super) fn app_armor(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let profile = node.get("localhostProfile").map(Node::as_str);
    let at = path.field("localhostProfile");
    match (node.str("type"), profile) {
        ("Localhost", None) => checker.required(&at, "must be set when AppArmor type is Localhost"),
        ("Localhost", Some(own)) => {
            if own.trim() != own {
                checker.invalid(&at, own, "must not be padded with whitespace");
            } else if own.is_empty() {
                checker.required(&at, "must be set when AppArmor type is Localhost");
            }
            if own.len() > 4095 {
                checker.fail(&at, Reason::TooLong, "may not be more than 4095 bytes");
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(own)) => {
            checker.invalid(&at, own, "can only be set when AppArmor type is Localhost");
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => checker.required(&path.field("type"), "type is required when appArmorProfile is set"),
        (other, _) => checker.unsupported(
            &path.field("type"),
            other,
            &["Localhost", "RuntimeDefault", "Unconfined"],
        ),
    }
}

pub(super) fn windows_options(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    if let Some(name) = node.get("gmsaCredentialSpecName").map(Node::as_str) {
        checker.problems(&path.field("gmsaCredentialSpecName"), name, &format::subdomain(name));
    }
    if let Some(spec) = node.get("gmsaCredentialSpec").map(Node::as_str)
        && (spec.is_empty() || spec.len() > 64 * 1024)
    {
        checker.invalid(
            &path.field("gmsaCredentialSpec"),
            spec,
            "gmsaCredentialSpec cannot be an empty string",
        );
    }
    if let Some(name) = node.get("runAsUserName").map(Node::as_str) {
        for problem in user_name_problems(name) {
            checker.invalid(&path.field("runAsUserName"), name, problem);
        }
    }
}

fn user_name_problems(name: &str) -> Vec<&'static str> {
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string"];
    }
    if name.chars().any(char::is_control) {
        return vec!["runAsUserName cannot contain control characters"];
    }
    let parts: Vec<&str> = name.split('\\').collect();
    let (domain, user) = match parts[..] {
        [user] => (None, user),
        [domain, user] => (Some(domain), user),
        _ => return vec!["runAsUserName cannot contain more than one backslash"],
    };
    let mut problems = Vec::new();
    if let Some(domain) = domain {
        if domain.len() >= 256 {
            problems.push("runAsUserName's Domain length must be under 256 characters");
        }
        let fits = !domain.is_empty() && !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|']);
        if !fits {
            problems.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
        }
    }
    if user.is_empty() {
        problems.push("runAsUserName's User cannot be empty");
    } else if user.len() > 104 {
        problems.push("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| c == '.' || c == ' ') {
        problems.push("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains([
        '"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']',
    ]) {
        problems.push("runAsUserName's User contains forbidden characters");
    }
    problems
}

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

/// Checks Windows host process containers.
pub(super) fn host_process(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    let flag = |node: &Node<'_>| match node.at(&["securityContext", "windowsOptions", "hostProcess"]) {
        Some(Node::Bool(value)) => Some(*value),
        _ => None,
    };
    let of_pod = flag(spec);
    let (mut all, mut process) = (0, 0);
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in spec.list(field).iter().enumerate() {
            all += 1;
            let own = flag(container);
            if let (Some(of_pod), Some(own)) = (of_pod, own)
                && of_pod != own
            {
                let at = path.field(field);
                let at = at.index(index);
                let at = at.field("securityContext");
                let at = at.field("windowsOptions");
                checker.invalid(
                    &at.field("hostProcess"),
                    "",
                    "pod hostProcess value must be identical if both are specified",
                );
            }
            process += usize::from(own.or(of_pod).unwrap_or(false));
        }
    }
    if process > 0 {
        if process != all {
            checker.invalid(
                path,
                "",
                "If pod contains any hostProcess containers then all containers must be HostProcess containers",
            );
        }
        if !spec.bool("hostNetwork") {
            let detail = "hostNetwork must be true if pod contains any hostProcess containers";
            checker.invalid(&path.field("hostNetwork"), "false", detail);
        }
    }
}

/// Fields that a pod with another operating system may not set.
pub(super) fn operating_system(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    const POD: &[&str] = &[
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "sysctls",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "seLinuxChangePolicy",
    ];
    const CONTAINER: &[&str] = &[
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    let Some(system) = spec.get("os") else { return };
    let (of_pod, of_container, detail): (&[&str], &[&str], _) = match system.str("name") {
        "" => return checker.required(&path.field("os").field("name"), ""),
        "linux" => (
            &["windowsOptions"],
            &["windowsOptions"],
            "windows options cannot be set for a linux pod",
        ),
        "windows" => (POD, CONTAINER, "cannot be set for a windows pod"),
        other => return checker.unsupported(&path.field("os"), other, &["linux", "windows"]),
    };
    let set = |node: &Node<'_>, field: &str| match node.get(field) {
        Some(Node::List(items)) if field == "sysctls" => !items.is_empty(),
        value => value.is_some(),
    };
    if let Some(context) = spec.get("securityContext") {
        for field in of_pod.iter().filter(|field| set(context, field)) {
            checker.forbidden(&path.field("securityContext").field(field), detail);
        }
    }
    if system.str("name") == "windows" {
        for field in ["hostUsers", "shareProcessNamespace"] {
            if spec.has(field) {
                checker.forbidden(&path.field(field), detail);
            }
        }
        for field in ["hostPID", "hostIPC"] {
            if spec.bool(field) {
                checker.forbidden(&path.field(field), detail);
            }
        }
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in spec.list(list).iter().enumerate() {
            let Some(context) = container.get("securityContext") else {
                continue;
            };
            let at = path.field(list);
            let at = at.index(index);
            let at = at.field("securityContext");
            for field in of_container.iter().filter(|field| set(context, field)) {
                checker.forbidden(&at.field(field), detail);
            }
        }
    }
    let _ = meta::matches;
}
