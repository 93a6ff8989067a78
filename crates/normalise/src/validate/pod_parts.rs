//! Containers: ports, environment, mounts, probes, restart policies.
//!
//! Upstream counterpart: the helpers of `ValidatePodSpec` in `pkg/apis/core/validation/validation.go`.

use super::{Checker, Path, format, pod_resources, volume};
use crate::{Reason, node::Node};

/// Checks the common part of all sorts of containers.
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
        pod_resources::resources(checker, own, &path.field("resources"));
    }
    pod_resources::resize_policy(checker, node, spec.str("restartPolicy"), &path.field("resizePolicy"));
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
    let allowed: &[&str] = if matches!(resource, "limits.cpu" | "requests.cpu") {
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
