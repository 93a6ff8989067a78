//! Pods, pod templates and their containers.
//!
//! Upstream counterpart: `ValidatePodCreate`, `ValidatePodTemplateSpec` and `ValidatePodSpec` in
//! `pkg/apis/core/validation/validation.go`.
//!
//! Known deviation: the deprecated annotations for seccomp are not compared with the fields that replaced them.

use super::{Checker, Path, TypeCheck, format, meta, pod_parts, pod_resources, pod_scheduling, pod_security, volume};
use crate::{Reason, node::Node};

pub(super) fn check(name: &str) -> Option<TypeCheck> {
    Some(match name {
        "core.v1.Pod" => pod,
        "core.v1.PodSpec" => |_, _, _| {},
        "core.v1.PodTemplateSpec" => template,
        "core.v1.EnvFromSource" => pod_parts::env_from,
        "core.v1.SecurityContext" => pod_security::security_context,
        "core.v1.PodSecurityContext" => pod_security::pod_security_context,
        "core.v1.SeccompProfile" => pod_security::seccomp,
        "core.v1.AppArmorProfile" => pod_security::app_armor,
        "core.v1.WindowsSecurityContextOptions" => pod_security::windows_options,
        "core.v1.Toleration" => pod_scheduling::toleration,
        "core.v1.NodeSelectorTerm" => pod_scheduling::node_selector_term,
        "core.v1.PreferredSchedulingTerm" | "core.v1.WeightedPodAffinityTerm" => pod_scheduling::weight,
        "core.v1.PodAffinityTerm" => pod_scheduling::affinity_term,
        "core.v1.TopologySpreadConstraint" => pod_scheduling::spread_constraint,
        "core.v1.HTTPGetAction" => pod_parts::http_get,
        _ => return None,
    })
}

fn pod(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let (Some(metadata), Some(spec)) = (node.get("metadata"), node.get("spec")) else {
        return;
    };
    annotations(checker, metadata, spec, &path.field("metadata"));
    let path = path.field("spec");
    pod_spec(checker, spec, Some(metadata), &path);
    if checker.create {
        if !spec.list("ephemeralContainers").is_empty() {
            checker.forbidden(&path.field("ephemeralContainers"), "cannot be set on create");
        }
        if !spec.str("nodeName").is_empty() && !spec.list("schedulingGates").is_empty() {
            checker.forbidden(
                &path.field("nodeName"),
                "cannot be set until all schedulingGates have been cleared",
            );
        }
    }
    if spec.str("serviceAccountName").is_empty() {
        let volumes = path.field("volumes");
        for (index, volume) in spec.list("volumes").iter().enumerate() {
            let Some(projected) = volume.get("projected") else {
                continue;
            };
            let path = volumes.index(index);
            let path = path.field("projected");
            for (index, source) in projected.list("sources").iter().enumerate() {
                if source.has("serviceAccountToken") {
                    let detail = "must not be specified when serviceAccountName is not set";
                    checker.forbidden(&path.field("sources").index(index).field("serviceAccountToken"), detail);
                }
            }
        }
    }
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        for (index, container) in spec.list(field).iter().enumerate() {
            let image = container.str("image");
            if image.trim() != image {
                let detail = "must not have leading or trailing whitespace";
                checker.invalid(&path.field(field).index(index).field("image"), image, detail);
            }
        }
    }
}

fn annotations(checker: &mut Checker<'_>, metadata: &Node<'_>, spec: &Node<'_>, path: &Path<'_>) {
    const MIRROR: &str = "kubernetes.io/config.mirror";
    const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    let path = path.field("annotations");
    let Some(annotations) = metadata.get("annotations") else {
        return;
    };
    if annotations.has(MIRROR) && spec.str("nodeName").is_empty() {
        checker.invalid(
            &path.key(MIRROR),
            "",
            "must set spec.nodeName if mirror pod annotation is set",
        );
    }
    if let Some(cost) = annotations.get(COST).map(Node::as_str) {
        let number = cost.parse::<i32>().is_ok()
            && !cost.starts_with('+')
            && (cost == "0" || !cost.trim_start_matches('-').starts_with('0'));
        if !number {
            checker.invalid(&path.key(COST), cost, "must be a 32bit integer");
        }
    }
    app_armor_annotations(checker, annotations, spec, &path);
}

fn app_armor_annotations(checker: &mut Checker<'_>, annotations: &Node<'_>, spec: &Node<'_>, path: &Path<'_>) {
    const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
    for (key, value) in annotations.entries() {
        let Some(container) = key.strip_prefix(PREFIX) else {
            continue;
        };
        let named = ["containers", "initContainers", "ephemeralContainers"]
            .iter()
            .any(|field| spec.list(field).iter().any(|own| own.str("name") == container));
        if !named {
            checker.invalid(&path.key(key), container, "container not found");
        }
        let profile = value.as_str();
        if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with("localhost/") {
            checker.invalid(&path.key(key), profile, "invalid AppArmor profile name");
        }
    }
}

/// Checks a pod template below a workload.
fn template(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let (Some(metadata), Some(spec)) = (node.get("metadata"), node.get("spec")) else {
        return;
    };
    meta::labels(checker, metadata.map("labels"), &path.field("labels"));
    meta::annotations(checker, metadata.map("annotations"), &path.field("annotations"));
    annotations(checker, metadata, spec, path);
    let path = path.field("spec");
    pod_spec(checker, spec, None, &path);
    checker.object("core.v1.PodSpec", spec, &path);
    if !spec.list("ephemeralContainers").is_empty() {
        checker.forbidden(
            &path.field("ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        );
    }
}

/// Checks combinations of fields of a pod; single fields are in the table.
fn pod_spec(checker: &mut Checker<'_>, spec: &Node<'_>, metadata: Option<&Node<'_>>, path: &Path<'_>) {
    volume::volumes(checker, spec, metadata, path);
    pod_resources::resource_claims(checker, spec, &path.field("resourceClaims"));
    containers(checker, spec, path);
    init_containers(checker, spec, path);
    ephemeral_containers(checker, spec, path);
    pod_resources::pod_resources(checker, spec, &path.field("resources"));
    host_network(checker, spec, path);
    pod_scheduling::dns_config(checker, spec, &path.field("dnsConfig"));
    pod_scheduling::scheduling_gates(checker, spec, &path.field("schedulingGates"));
    pod_scheduling::repeated_constraints(checker, spec, &path.field("topologySpreadConstraints"));
    pod_security::host_process(checker, spec, path);
    host_users(checker, spec, path);
    host_name(checker, spec, path);
    if spec.bool("shareProcessNamespace") && spec.bool("hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        checker.invalid(
            &path.field("securityContext").field("shareProcessNamespace"),
            "true",
            detail,
        );
    }
    if let Some(overhead) = spec.get("overhead") {
        let mut requirements = Node::EMPTY;
        requirements.set("limits", overhead.to_owned());
        pod_resources::resources(checker, &requirements, &path.field("overhead"));
    }
    pod_security::operating_system(checker, spec, path);
    file_keys(checker, spec, path);
}

fn host_network(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    if !spec.bool("hostNetwork") {
        return;
    }
    let path = path.field("containers");
    for (index, container) in spec.list("containers").iter().enumerate() {
        let path = path.index(index);
        let path = path.field("ports");
        for (index, port) in container.list("ports").iter().enumerate() {
            let (host, own) = (
                port.int("hostPort").unwrap_or(0),
                port.int("containerPort").unwrap_or(0),
            );
            if (checker.is_pod || host != 0) && host != own {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                checker.invalid(&path.index(index).field("hostPort"), &host.to_string(), detail);
            }
        }
    }
}

fn host_users(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    if spec.get("hostUsers") != Some(&Node::Bool(false)) {
        return;
    }
    for (field, name) in [
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ] {
        if spec.bool(field) {
            checker.forbidden(&path.field(name), "when `hostUsers` is false");
        }
    }
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in spec.list(field).iter().enumerate() {
            if !container.list("volumeDevices").is_empty() {
                let at = path.field(field);
                checker.forbidden(&at.index(index).field("volumeDevices"), "when `hostUsers` is false");
            }
        }
    }
}

fn host_name(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    let Some(name) = spec.get("hostnameOverride").map(Node::as_str) else {
        return;
    };
    let path = path.field("hostnameOverride");
    if spec.bool("setHostnameAsFQDN") {
        checker.forbidden(&path, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec.bool("hostNetwork") {
        checker.forbidden(&path, "may not be specified when hostNetwork is true");
    }
    if name.len() > 64 {
        checker.fail(&path, Reason::TooLong, "may not be more than 64 bytes");
    }
    checker.problems(&path, name, &format::subdomain(name));
}

/// Volumes that hold environment variables must exist and be empty directories.
fn file_keys(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        let at = path.field(field);
        for (index, container) in spec.list(field).iter().enumerate() {
            let at = at.index(index);
            let at = at.field("env");
            for (index, env) in container.list("env").iter().enumerate() {
                let Some(reference) = env.at(&["valueFrom", "fileKeyRef"]) else {
                    continue;
                };
                let name = reference.str("volumeName");
                let at = at.index(index);
                let at = at.field("valueFrom");
                let at = at.field("fileKeyRef");
                let at = at.field("volumeName");
                match spec.list("volumes").iter().find(|volume| volume.str("name") == name) {
                    None => checker.not_found(&at, name),
                    Some(volume) if !volume.has("emptyDir") => {
                        checker.invalid(&at, name, "referenced volume must be of type emptyDir");
                    }
                    Some(_) => {}
                }
            }
        }
    }
}

fn containers(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    let path = path.field("containers");
    let containers = spec.list("containers");
    if containers.is_empty() {
        return checker.required(&path, "");
    }
    for (index, container) in containers.iter().enumerate() {
        let path = path.index(index);
        pod_parts::container(checker, container, spec, &path);
        let name = container.str("name");
        if containers[..index].iter().any(|other| other.str("name") == name) {
            checker.duplicate(&path.field("name"), name);
        }
        pod_parts::lifecycle_and_probes(checker, container, spec, &path);
        pod_parts::restart_policy(checker, container, &path);
    }
    host_ports(checker, containers.iter().enumerate(), &path);
}

fn host_ports<'n>(checker: &mut Checker<'_>, containers: impl Iterator<Item = (usize, &'n Node<'n>)>, path: &Path<'_>) {
    let mut known: Vec<String> = Vec::new();
    for (index, container) in containers {
        let path = path.index(index);
        let path = path.field("ports");
        for (index, port) in container.list("ports").iter().enumerate() {
            let Some(number) = port.int("hostPort").filter(|number| *number != 0) else {
                continue;
            };
            let key = format!("{}/{}/{number}", port.str("protocol"), port.str("hostIP"));
            if known.contains(&key) {
                checker.duplicate(&path.index(index).field("hostPort"), &key);
            } else {
                known.push(key);
            }
        }
    }
}

fn init_containers(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    let path = path.field("initContainers");
    let containers = spec.list("initContainers");
    for (index, container) in containers.iter().enumerate() {
        let path_of_list = &path;
        let path = path.index(index);
        pod_parts::container(checker, container, spec, &path);
        let name = container.str("name");
        let same = |other: &Node<'_>| other.str("name") == name;
        if spec.list("containers").iter().any(same) || (!name.is_empty() && containers[..index].iter().any(same)) {
            checker.duplicate(&path.field("name"), name);
        }
        let always = container.str("restartPolicy") == "Always";
        if container.has("restartPolicy") || !container.list("restartPolicyRules").is_empty() {
            pod_parts::restart_policy(checker, container, &path);
        }
        host_ports(checker, std::iter::once((0, container)), path_of_list);
        if always {
            pod_parts::lifecycle_and_probes(checker, container, spec, &path);
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if container.has(field) {
                    let detail = "may not be set for init containers without restartPolicy=Always";
                    checker.forbidden(&path.field(field), detail);
                }
            }
            for (index, policy) in container.list("resizePolicy").iter().enumerate() {
                if policy.str("restartPolicy") == "RestartContainer" {
                    let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                    let at = path.field("resizePolicy");
                    checker.invalid(&at.index(index).field("restartPolicy"), "RestartContainer", detail);
                }
            }
        }
    }
}

fn ephemeral_containers(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    /// Fields that an ephemeral container may not have.
    const FORBIDDEN: &[&str] = &[
        "ports",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
        "resources",
        "resizePolicy",
        "restartPolicy",
        "restartPolicyRules",
    ];
    let path = path.field("ephemeralContainers");
    let containers = spec.list("ephemeralContainers");
    for (index, container) in containers.iter().enumerate() {
        let path = path.index(index);
        pod_parts::container(checker, container, spec, &path);
        let others = || spec.list("containers").iter().chain(spec.list("initContainers"));
        let name = container.str("name");
        let same = |other: &Node<'_>| other.str("name") == name;
        if others().any(same) || containers[..index].iter().any(same) {
            checker.duplicate(&path.field("name"), name);
        }
        let target = container.str("targetContainerName");
        if !target.is_empty() && !others().any(|other| other.str("name") == target) {
            checker.not_found(&path.field("targetContainerName"), target);
        }
        for field in FORBIDDEN {
            if container.get(field).is_some_and(|value| !value.is_empty()) {
                checker.forbidden(&path.field(field), "cannot be set for an Ephemeral Container");
            }
        }
        for (index, mount) in container.list("volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !mount.str(field).is_empty() {
                    let at = path.field("volumeMounts");
                    checker.forbidden(
                        &at.index(index).field(field),
                        "cannot be set for an Ephemeral Container",
                    );
                }
            }
        }
    }
}
