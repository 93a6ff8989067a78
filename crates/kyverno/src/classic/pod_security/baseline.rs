//! The checks of the baseline level, seccomp aside.
//!
//! Upstream counterpart: `policy/check_*.go` of `k8s.io/pod-security-admission`.

use std::collections::BTreeSet;

use super::{
    check::{BadValue, FieldError, Finding, Gathered, containers_text, plural, quoted},
    pod::Pod,
    text_at,
};
use kyvtest_go_compat::{text::quote::quote, value::Data};

/// Capabilities that the baseline lets containers add.
pub const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// The name of a container, volume or setting.
pub(super) fn name(part: &Data) -> &str {
    text_at(part, &["name"])
}

pub(super) fn app_armor(pod: &Pod) -> Finding {
    const PROFILE: [&str; 2] = ["securityContext", "appArmorProfile"];
    let allowed = |kind: &str| matches!(kind, "RuntimeDefault" | "Localhost");
    let mut setters = Gathered::default();
    let mut values = BTreeSet::new();
    let mut bad = |owner: &Data, place: String| {
        let kind = owner.at(&PROFILE).map(|profile| text_at(profile, &["type"]))?;
        if allowed(kind) {
            return None;
        }
        values.insert(kind.to_owned());
        Some(FieldError::text(
            format!("{place}.securityContext.appArmorProfile.type"),
            kind,
        ))
    };
    if let Some(error) = bad(&pod.spec, "spec".to_owned()) {
        setters.add("pod", [error]);
    }
    let mut containers = Gathered::default();
    for (place, container) in pod.containers() {
        if let Some(error) = bad(container, place) {
            containers.add(name(container), [error]);
        }
    }
    setters.add_containers(containers);
    let mut annotations = Gathered::default();
    for (key, value) in pod.annotations() {
        let allowed = value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
        if key.starts_with("container.apparmor.security.beta.kubernetes.io/") && !allowed {
            let error = FieldError::text(format!("metadata.annotations[{key}]"), value);
            annotations.add(format!("{key}={}", quote(value)), [error]);
        }
    }
    let mut values: Vec<String> = values.into_iter().collect();
    if !annotations.is_empty() {
        let count = annotations.names.len();
        annotations.names.sort();
        values.extend(annotations.names);
        setters.add(plural("annotation", "annotations", count), annotations.errors);
    }
    if setters.is_empty() {
        return None;
    }
    let reason = plural(
        "forbidden AppArmor profile",
        "forbidden AppArmor profiles",
        values.len(),
    );
    let detail = format!(
        "{} must not set AppArmor profile type to {}",
        setters.names.join(" and "),
        quoted(&values)
    );
    Some((reason, detail, Some(setters.errors)))
}

pub(super) fn capabilities(pod: &Pod) -> Finding {
    let mut containers = Gathered::default();
    let mut all = BTreeSet::new();
    for (place, container) in pod.containers() {
        let bad: BTreeSet<String> = added(container)
            .filter(|capability| !CAPABILITIES.contains(capability))
            .map(str::to_owned)
            .collect();
        if !bad.is_empty() {
            let values = BadValue::Texts(bad.iter().cloned().collect());
            let field = format!("{place}.securityContext.capabilities.add");
            containers.add(name(container), [FieldError::forbidden(field, values)]);
            all.extend(bad);
        }
    }
    if containers.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not include {} in securityContext.capabilities.add",
        containers_text(&containers.names),
        quoted(&all)
    );
    Some(("non-default capabilities", detail, Some(containers.errors)))
}

/// The capabilities that a container adds.
pub(super) fn added(container: &Data) -> impl Iterator<Item = &str> {
    capability_list(container, "add")
}

/// The capabilities in one of the two lists of a container.
pub(super) fn capability_list<'d>(container: &'d Data, list: &str) -> impl Iterator<Item = &'d str> {
    let list = container.at(&["securityContext", "capabilities", list]);
    let list = list.and_then(Data::as_list).unwrap_or_default();
    list.iter().map(|capability| capability.as_str().unwrap_or_default())
}

pub(super) fn host_namespaces(pod: &Pod) -> Finding {
    let mut found = Gathered::default();
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        if pod.spec.get(field) == Some(&Data::Bool(true)) {
            let error = FieldError::forbidden(format!("spec.{field}"), BadValue::Bool(true));
            found.add(format!("{field}=true"), [error]);
        }
    }
    (!found.is_empty()).then(|| ("host namespaces", found.names.join(", "), Some(found.errors)))
}

pub(super) fn volumes(pod: &Pod) -> impl Iterator<Item = (usize, &Data)> {
    let volumes = pod.spec.get("volumes").and_then(Data::as_list);
    volumes.unwrap_or_default().iter().enumerate()
}

pub(super) fn host_path_volumes(pod: &Pod) -> Finding {
    let mut found = Gathered::default();
    for (i, volume) in volumes(pod) {
        if let Some(host) = volume.get("hostPath") {
            let error = FieldError::text(format!("spec.volumes[{i}].hostPath"), text_at(host, &["path"]));
            found.add(name(volume), [error]);
        }
    }
    if found.is_empty() {
        return None;
    }
    let word = plural("volume", "volumes", found.names.len());
    let detail = format!("{word} {}", quoted(&found.names));
    Some(("hostPath volumes", detail, Some(found.errors)))
}

pub(super) fn host_ports(pod: &Pod) -> Finding {
    let mut containers = Gathered::default();
    let mut all = BTreeSet::new();
    for (place, container) in pod.containers() {
        let ports = container.get("ports").and_then(Data::as_list).unwrap_or_default();
        let errors: Vec<FieldError> = ports
            .iter()
            .enumerate()
            .filter_map(|(i, port)| match port.get("hostPort") {
                Some(Data::Int(number)) if *number != 0 => {
                    all.insert(number.to_string());
                    let field = format!("{place}.ports[{i}].hostPort");
                    Some(FieldError::forbidden(field, BadValue::Int(*number)))
                }
                _ => None,
            })
            .collect();
        if !errors.is_empty() {
            containers.add(name(container), errors);
        }
    }
    if containers.is_empty() {
        return None;
    }
    let count = containers.names.len();
    let ports: Vec<&str> = all.iter().map(String::as_str).collect();
    let detail = format!(
        "{} {} {} {}",
        containers_text(&containers.names),
        plural("uses", "use", count),
        plural("hostPort", "hostPorts", ports.len()),
        ports.join(", ")
    );
    Some(("hostPort", detail, Some(containers.errors)))
}

pub(super) fn host_probes(pod: &Pod) -> Finding {
    const HANDLERS: [&[&str]; 5] = [
        &["livenessProbe"],
        &["readinessProbe"],
        &["startupProbe"],
        &["lifecycle", "postStart"],
        &["lifecycle", "preStop"],
    ];
    let mut containers: BTreeSet<String> = BTreeSet::new();
    let mut hosts = BTreeSet::new();
    for (_, container) in pod.containers() {
        for handler in HANDLERS.iter().filter_map(|path| container.at(path)) {
            for action in ["httpGet", "tcpSocket"] {
                let host = text_at(handler, &[action, "host"]);
                if !host.is_empty() {
                    containers.insert(name(container).to_owned());
                    hosts.insert(host.to_owned());
                }
            }
        }
    }
    if containers.is_empty() {
        return None;
    }
    let names: Vec<String> = containers.into_iter().collect();
    let detail = format!(
        "{} {} {} {}",
        containers_text(&names),
        plural("uses", "use", names.len()),
        plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len()),
        quoted(&hosts)
    );
    Some(("probe or lifecycle host", detail, None))
}

pub(super) fn privileged(pod: &Pod) -> Finding {
    let mut containers = Gathered::default();
    for (place, container) in pod.containers() {
        if container.at(&["securityContext", "privileged"]) == Some(&Data::Bool(true)) {
            let field = format!("{place}.securityContext.privileged");
            containers.add(name(container), [FieldError::forbidden(field, BadValue::Bool(true))]);
        }
    }
    if containers.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not set securityContext.privileged=true",
        containers_text(&containers.names)
    );
    Some(("privileged", detail, Some(containers.errors)))
}

pub(super) fn proc_mount(pod: &Pod) -> Finding {
    let mut containers = Gathered::default();
    let mut all = BTreeSet::new();
    for (place, container) in pod.containers() {
        let Some(kind) = container.at(&["securityContext", "procMount"]).and_then(Data::as_str) else {
            continue;
        };
        if kind != "Default" {
            let field = format!("{place}.securityContext.procMount");
            containers.add(name(container), [FieldError::text(field, kind)]);
            all.insert(kind.to_owned());
        }
    }
    if containers.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not set securityContext.procMount to {}",
        containers_text(&containers.names),
        quoted(&all)
    );
    Some(("procMount", detail, Some(containers.errors)))
}

pub(super) fn se_linux_1_0(pod: &Pod) -> Finding {
    se_linux(pod, &["", "container_t", "container_init_t", "container_kvm_t"])
}

pub(super) fn se_linux_1_31(pod: &Pod) -> Finding {
    let types = [
        "",
        "container_t",
        "container_init_t",
        "container_kvm_t",
        "container_engine_t",
    ];
    se_linux(pod, &types)
}

fn se_linux(pod: &Pod, types: &[&str]) -> Finding {
    let mut bad_types = BTreeSet::new();
    let (mut user, mut role) = (false, false);
    let mut errors = |owner: &Data, place: &str| {
        let mut errors = Vec::new();
        let Some(options) = owner.at(&["securityContext", "seLinuxOptions"]) else {
            return errors;
        };
        let mut add = |part: &str, value: &str| {
            let field = format!("{place}.securityContext.seLinuxOptions.{part}");
            errors.push(FieldError::text(field, value));
        };
        let kind = text_at(options, &["type"]);
        if !types.contains(&kind) {
            bad_types.insert(kind.to_owned());
            add("type", kind);
        }
        for (part, seen) in [("user", &mut user), ("role", &mut role)] {
            let value = text_at(options, &[part]);
            if !value.is_empty() {
                *seen = true;
                add(part, value);
            }
        }
        errors
    };
    let mut setters = Gathered::default();
    let own = errors(&pod.spec, "spec");
    if !own.is_empty() {
        setters.add("pod", own);
    }
    let mut containers = Gathered::default();
    for (place, container) in pod.containers() {
        let found = errors(container, &place);
        if !found.is_empty() {
            containers.add(name(container), found);
        }
    }
    setters.add_containers(containers);
    if setters.is_empty() {
        return None;
    }
    let mut data = Vec::new();
    if !bad_types.is_empty() {
        let word = plural("type", "types", bad_types.len());
        data.push(format!("{word} {}", quoted(&bad_types)));
    }
    if user {
        data.push("user may not be set".to_owned());
    }
    if role {
        data.push("role may not be set".to_owned());
    }
    let detail = format!(
        "{} set forbidden securityContext.seLinuxOptions: {}",
        setters.names.join(" and "),
        data.join("; ")
    );
    Some(("seLinuxOptions", detail, Some(setters.errors)))
}

/// The settings of the kernel that are allowed, in the order in which they became so.
pub const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

pub(super) fn sysctls_1_0(pod: &Pod) -> Finding {
    sysctls(pod, 5)
}

pub(super) fn sysctls_1_27(pod: &Pod) -> Finding {
    sysctls(pod, 6)
}

pub(super) fn sysctls_1_29(pod: &Pod) -> Finding {
    sysctls(pod, 10)
}

pub(super) fn sysctls_1_32(pod: &Pod) -> Finding {
    sysctls(pod, 12)
}

fn sysctls(pod: &Pod, allowed: usize) -> Finding {
    let mut found = Gathered::default();
    let list = pod.spec.at(&["securityContext", "sysctls"]).and_then(Data::as_list);
    for (i, setting) in list.unwrap_or_default().iter().enumerate() {
        let setting = name(setting);
        if !SYSCTLS.iter().take(allowed).any(|known| *known == setting) {
            let field = format!("spec.securityContext.sysctls[{i}].name");
            found.add(setting, [FieldError::text(field, setting)]);
        }
    }
    (!found.is_empty()).then(|| ("forbidden sysctls", found.names.join(", "), Some(found.errors)))
}

pub(super) fn windows_host_process(pod: &Pod) -> Finding {
    let error = |owner: &Data, place: &str| {
        let set = owner.at(&["securityContext", "windowsOptions", "hostProcess"]) == Some(&Data::Bool(true));
        let field = format!("{place}.securityContext.windowsOptions.hostProcess");
        set.then(|| FieldError::forbidden(field, BadValue::Bool(true)))
    };
    let setters = Gathered::of_pod_and_containers(pod, error);
    if setters.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not set securityContext.windowsOptions.hostProcess=true",
        setters.names.join(" and ")
    );
    Some(("hostProcess", detail, Some(setters.errors)))
}
