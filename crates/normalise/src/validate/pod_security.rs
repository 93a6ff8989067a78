//! Security contexts and operating systems of pods.
//!
//! Upstream counterpart: the helpers of `ValidatePodSpec` in `pkg/apis/core/validation/validation.go`.

use super::{Checker, Path, format, volume};
use crate::{Reason, node::Node};

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
}
