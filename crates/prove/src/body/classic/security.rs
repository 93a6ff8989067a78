//! `validate.podSecurity` of both levels, with controls that are excluded for the Pod, for all containers, or for the containers
//! of some images.
//!
//! Upstream counterpart: `pkg/pss` and `policy/check_*.go` of `k8s.io/pod-security-admission`, by way of
//! `kyvtest_kyverno::classic::pod_security`. The check of hosts in probes belongs to no control, so no exclusion lifts it.
//!
//! Known limits: exclusions of some values, versions before 1.25, and exclusions of a part of a control whose findings at
//! the Pod and at containers depend on each other. Containers have different names, as validation requires: an
//! exclusion finds them by name.

use kyvtest_kyverno::classic::pod_security::{CAPABILITIES, SYSCTLS, VOLUMES, Version};
use serde_json::Value as Json;

use crate::body::{
    formula::{Arena, Formula, Place},
    request::Request,
    shape::Kind,
    text::Predicate,
    value::{Result, unsupported},
};

/// The controls of the baseline, then those of the restricted level.
const CONTROLS: [&str; 15] = [
    "HostProcess",
    "Host Namespaces",
    "Privileged Containers",
    "Capabilities",
    "HostPath Volumes",
    "Host Ports",
    "AppArmor",
    "SELinux",
    "/proc Mount Type",
    "Seccomp",
    "Sysctls",
    "Privilege Escalation",
    "Running as Non-root",
    "Running as Non-root user",
    "Volume Types",
];

/// How many of the controls the baseline has.
const OF_BASELINE: usize = 11;

/// The oldest version whose checks are modelled.
const OLDEST: u64 = 25;

/// The Pod that an object is or makes, and which checks apply to it.
struct Pod {
    spec: Place,
    metadata: Option<Place>,
    /// When the metadata is there.
    has_metadata: Formula,
    restricted: bool,
    version: Version,
}

/// What a control forbids: of the Pod as a whole, and of each container.
struct Control {
    of_pod: Formula,
    /// When the container at a place has what the control forbids; `None` if it does not look at containers.
    of_container: Option<Forbidden>,
}

/// When what is at a place has something that a control forbids.
type Forbidden = fn(&mut Arena, &Pod, Place) -> Result<Formula>;

/// Which findings exclusions take away.
#[derive(Default)]
struct Excluded {
    pod: bool,
    all_containers: bool,
    images: Vec<String>,
}

impl Excluded {
    /// Whether what is left of a control depends on more than the Pod and each container by themselves.
    fn depends(&self, control: &str, restricted: bool) -> bool {
        if !restricted {
            return false;
        }
        match control {
            // A container without a setting of its own is judged by that of the Pod, and only if no other one is wrong.
            "Running as Non-root" | "Seccomp" => self.pod || self.all_containers || !self.images.is_empty(),
            // Without images an empty container is looked at, which lacks what the restricted level requires.
            "Capabilities" | "Privilege Escalation" => self.pod,
            _ => false,
        }
    }
}

/// Whether an object violates the standards.
pub(super) fn violated(arena: &mut Arena, security: &Json, request: &Request<'_>) -> Result<Formula> {
    let text = |name: &str| security[name].as_str().unwrap_or_default();
    let Ok(version) = Version::parse(text("version")) else {
        return unsupported("Pod Security Standards of an unknown version");
    };
    if matches!(version, Version::Minor(minor) if minor < OLDEST) {
        return unsupported("Pod Security Standards of an old version");
    }
    let Some(object) = request.object else {
        return Ok(Formula::FALSE);
    };
    let (spec, metadata): (&[&str], &[&str]) = match request.seen.object_kind.kind.as_str() {
        "Pod" => (&["spec"], &["metadata"]),
        "Deployment" | "DaemonSet" | "StatefulSet" | "ReplicaSet" | "Job" | "ReplicationController" => {
            (&["spec", "template", "spec"], &["spec", "template", "metadata"])
        }
        "CronJob" => (
            &["spec", "jobTemplate", "spec", "template", "spec"],
            &["spec", "jobTemplate", "metadata"],
        ),
        _ => return unsupported("Pod Security Standards for other kinds"),
    };
    let Some((there, spec)) = follow(arena, object, spec) else {
        return unsupported("Pod Security Standards for other kinds");
    };
    if there != Formula::TRUE {
        return unsupported("Pod Security Standards for objects without a Pod");
    }
    let metadata = follow(arena, object, metadata);
    let pod = Pod {
        spec,
        metadata: metadata.map(|(_, place)| place),
        has_metadata: metadata.map_or(Formula::FALSE, |(there, _)| there),
        // Every other word counts as restricted.
        restricted: text("level") != "baseline",
        version,
    };
    let mut found = vec![some_container(arena, spec, |arena, container| {
        probes(arena, container)
    })?];
    let count = if pod.restricted { CONTROLS.len() } else { OF_BASELINE };
    for control in &CONTROLS[..count] {
        let excluded = excluded(security, control)?;
        let Control { of_pod, of_container } = forbidden(arena, &pod, control)?;
        let whole = excluded.pod && excluded.all_containers;
        if whole || of_container.is_none() && excluded.pod || of_pod == Formula::FALSE && excluded.all_containers {
            continue;
        }
        if excluded.depends(control, pod.restricted) {
            return unsupported("an exclusion of a part of a control");
        }
        if !excluded.pod {
            found.push(of_pod);
        }
        if let Some(of_container) = of_container.filter(|_| !excluded.all_containers) {
            found.push(some_container(arena, spec, |arena, container| {
                let bad = of_container(arena, &pod, container)?;
                let exempt = has_image(arena, container, &excluded.images)?;
                let counts = arena.not(exempt);
                Ok(arena.and([bad, counts]))
            })?);
        }
    }
    Ok(arena.or(found))
}

/// Which findings of a control exclusions take away.
fn excluded(security: &Json, control: &str) -> Result<Excluded> {
    let entries = security["exclude"].as_array().into_iter().flatten();
    let mut excluded = Excluded::default();
    for entry in entries.filter(|entry| entry["controlName"] == control) {
        if !entry["restrictedField"].is_null() || !entry["values"].is_null() {
            return unsupported("an exclusion of some values");
        }
        match entry["images"].as_array() {
            None => excluded.pod = true,
            Some(images) if images.is_empty() => excluded.pod = true,
            Some(images) => {
                let images = images.iter().filter_map(|image| image.as_str());
                excluded.images.extend(images.map(str::to_owned));
            }
        }
    }
    if excluded.images.iter().any(|image| image == "*") {
        excluded.all_containers = true;
        excluded.images.clear();
    }
    Ok(excluded)
}

/// Whether a container's image fits one of several patterns.
fn has_image(arena: &mut Arena, container: Place, images: &[String]) -> Result<Formula> {
    if images.is_empty() {
        return Ok(Formula::FALSE);
    }
    let Some((there, image)) = follow(arena, container, &["image"]) else {
        return unsupported("Pod Security Standards for untyped objects");
    };
    let mut ways = Vec::new();
    for pattern in images {
        let fits = arena.text(image, Predicate::Glob(pattern.as_str().into()));
        let there = if Predicate::Glob(pattern.as_str().into()).holds("") {
            Formula::TRUE
        } else {
            there
        };
        ways.push(arena.and([there, fits]));
    }
    Ok(arena.or(ways))
}

fn forbidden(arena: &mut Arena, pod: &Pod, control: &str) -> Result<Control> {
    let spec = pod.spec;
    let nothing = Formula::FALSE;
    let (of_pod, of_container): (Formula, Option<Forbidden>) = match control {
        "HostProcess" => (host_process(arena, pod, spec)?, Some(host_process)),
        "Host Namespaces" => {
            let mut ways = Vec::new();
            for field in ["hostNetwork", "hostPID", "hostIPC"] {
                ways.push(is_set(arena, spec, &[field])?);
            }
            (arena.or(ways), None)
        }
        "Privileged Containers" => (nothing, Some(privileged)),
        "Capabilities" => (nothing, Some(capabilities)),
        "HostPath Volumes" => (
            some(arena, spec, &["volumes"], |arena, volume| {
                Ok(follow(arena, volume, &["hostPath"]).map_or(nothing, |(there, _)| there))
            })?,
            None,
        ),
        "Host Ports" => (nothing, Some(host_ports)),
        "AppArmor" => {
            let profile = app_armor(arena, pod, spec)?;
            let annotated = app_armor_annotations(arena, pod)?;
            (arena.or([profile, annotated]), Some(app_armor))
        }
        "SELinux" => (se_linux(arena, pod, spec)?, Some(se_linux)),
        "/proc Mount Type" => (nothing, Some(proc_mount)),
        "Seccomp" => {
            let (set, allowed) = profile(arena, spec, "seccompProfile")?;
            let other = arena.not(allowed);
            (arena.and([set, other]), Some(seccomp))
        }
        "Sysctls" => (sysctls(arena, pod)?, None),
        "Privilege Escalation" => (nothing, Some(escalation)),
        "Running as Non-root" => {
            let Some((there, value)) = follow(arena, spec, &["securityContext", "runAsNonRoot"]) else {
                return unsupported("Pod Security Standards for untyped objects");
            };
            let holds = arena.is_true(value);
            let not = arena.not(holds);
            (arena.and([there, not]), Some(as_root))
        }
        "Running as Non-root user" => (root_user(arena, pod, spec)?, Some(root_user)),
        _ => (restricted_volumes(arena, spec)?, None),
    };
    Ok(Control { of_pod, of_container })
}

/// A field at the end of a path of typed fields, and when all of them are there.
fn follow(arena: &mut Arena, from: Place, path: &[&str]) -> Option<(Formula, Place)> {
    let mut at = from;
    let mut there = Vec::new();
    for key in path {
        at = arena.field(at, key)?;
        there.push(arena.present(at));
    }
    Some((arena.and(there), at))
}

fn is_set(arena: &mut Arena, from: Place, path: &[&str]) -> Result<Formula> {
    let Some((there, at)) = follow(arena, from, path) else {
        return Ok(Formula::FALSE);
    };
    if arena.is_kind(at, Kind::Bool) != Formula::TRUE {
        return unsupported("Pod Security Standards for untyped objects");
    }
    let truth = arena.is_true(at);
    Ok(arena.and([there, truth]))
}

/// Whether some element of a list has a property.
fn some(
    arena: &mut Arena,
    from: Place,
    path: &[&str],
    property: impl FnOnce(&mut Arena, Place) -> Result<Formula>,
) -> Result<Formula> {
    let Some((there, list)) = follow(arena, from, path) else {
        return Ok(Formula::FALSE);
    };
    let Some(bound) = arena.bound(list, 0) else {
        return unsupported("Pod Security Standards for untyped objects");
    };
    let holds = property(arena, bound)?;
    let some = arena.at_least(list, bound, holds, 1);
    Ok(arena.and([there, some]))
}

fn some_container(
    arena: &mut Arena,
    spec: Place,
    property: impl Fn(&mut Arena, Place) -> Result<Formula>,
) -> Result<Formula> {
    let mut ways = Vec::new();
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        ways.push(some(arena, spec, &[list], &property)?);
    }
    Ok(arena.or(ways))
}

fn host_process(arena: &mut Arena, _: &Pod, owner: Place) -> Result<Formula> {
    is_set(arena, owner, &["securityContext", "windowsOptions", "hostProcess"])
}

fn privileged(arena: &mut Arena, _: &Pod, container: Place) -> Result<Formula> {
    is_set(arena, container, &["securityContext", "privileged"])
}

fn host_ports(arena: &mut Arena, _: &Pod, container: Place) -> Result<Formula> {
    some(arena, container, &["ports"], |arena, port| {
        let Some((there, number)) = follow(arena, port, &["hostPort"]) else {
            return Ok(Formula::FALSE);
        };
        let zero = is_zero(arena, number);
        let other = arena.not(zero);
        Ok(arena.and([there, other]))
    })
}

/// Whether a number is 0; one that the server would leave out is not.
fn is_zero(arena: &mut Arena, number: Place) -> Formula {
    if arena.shape(number).nonzero {
        return Formula::FALSE;
    }
    let (most, less) = (arena.at_most(number, 0), arena.at_most(number, -1));
    let not = arena.not(less);
    arena.and([most, not])
}

/// Whether a text is one of several; an absent one is empty.
fn is_one_of(arena: &mut Arena, from: Place, path: &[&str], allowed: &[&str]) -> Result<Formula> {
    let Some((there, text)) = follow(arena, from, path) else {
        return unsupported("Pod Security Standards for untyped objects");
    };
    let mut ways = Vec::new();
    for one in allowed {
        ways.push(arena.text(text, Predicate::Is((*one).into())));
    }
    let fits = arena.or(ways);
    let is = arena.and([there, fits]);
    if allowed.contains(&"") {
        let absent = arena.not(there);
        return Ok(arena.or([absent, is]));
    }
    Ok(is)
}

/// Whether a profile is set, and whether its type is one that is allowed.
fn profile(arena: &mut Arena, owner: Place, name: &str) -> Result<(Formula, Formula)> {
    let Some((set, profile)) = follow(arena, owner, &["securityContext", name]) else {
        return unsupported("Pod Security Standards for untyped objects");
    };
    let allowed = is_one_of(arena, profile, &["type"], &["RuntimeDefault", "Localhost"])?;
    Ok((set, allowed))
}

fn app_armor(arena: &mut Arena, _: &Pod, owner: Place) -> Result<Formula> {
    let (set, allowed) = profile(arena, owner, "appArmorProfile")?;
    let other = arena.not(allowed);
    Ok(arena.and([set, other]))
}

/// Before the fields there were annotations, which still count.
fn app_armor_annotations(arena: &mut Arena, pod: &Pod) -> Result<Formula> {
    let Some(metadata) = pod.metadata else {
        return Ok(Formula::FALSE);
    };
    let found = some(arena, metadata, &["annotations"], |arena, entry| {
        let (Some(key), Some(value)) = (arena.entry_key(entry), arena.entry_value(entry)) else {
            return unsupported("Pod Security Standards for untyped objects");
        };
        let prefix = "container.apparmor.security.beta.kubernetes.io/";
        let key = arena.text(key, Predicate::StartsWith(prefix.into()));
        let mut allowed = vec![arena.text(value, Predicate::StartsWith("localhost/".into()))];
        for one in ["", "runtime/default"] {
            allowed.push(arena.text(value, Predicate::Is(one.into())));
        }
        let allowed = arena.or(allowed);
        let other = arena.not(allowed);
        Ok(arena.and([key, other]))
    })?;
    Ok(arena.and([pod.has_metadata, found]))
}

fn se_linux(arena: &mut Arena, pod: &Pod, owner: Place) -> Result<Formula> {
    let Some((set, options)) = follow(arena, owner, &["securityContext", "seLinuxOptions"]) else {
        return unsupported("Pod Security Standards for untyped objects");
    };
    let mut types = vec!["", "container_t", "container_init_t", "container_kvm_t"];
    if is_at_least(pod.version, 31) {
        types.push("container_engine_t");
    }
    let mut fine = vec![is_one_of(arena, options, &["type"], &types)?];
    for field in ["user", "role"] {
        fine.push(is_one_of(arena, options, &[field], &[""])?);
    }
    let fine = arena.and(fine);
    let bad = arena.not(fine);
    Ok(arena.and([set, bad]))
}

fn proc_mount(arena: &mut Arena, _: &Pod, container: Place) -> Result<Formula> {
    let Some((there, kind)) = follow(arena, container, &["securityContext", "procMount"]) else {
        return unsupported("Pod Security Standards for untyped objects");
    };
    let usual = arena.text(kind, Predicate::Is("Default".into()));
    let other = arena.not(usual);
    Ok(arena.and([there, other]))
}

fn seccomp(arena: &mut Arena, pod: &Pod, container: Place) -> Result<Formula> {
    let (set, allowed) = profile(arena, container, "seccompProfile")?;
    let other = arena.not(allowed);
    let forbidden = arena.and([set, other]);
    if !pod.restricted {
        return Ok(forbidden);
    }
    let (pod_sets, pod_allowed) = profile(arena, pod.spec, "seccompProfile")?;
    let pod_is_set = arena.and([pod_sets, pod_allowed]);
    let (unset, open) = (arena.not(set), arena.not(pod_is_set));
    let windows = is_windows(arena, pod)?;
    let linux = arena.not(windows);
    let missing = arena.and([unset, open, linux]);
    Ok(arena.or([forbidden, missing]))
}

fn sysctls(arena: &mut Arena, pod: &Pod) -> Result<Formula> {
    let allowed = match pod.version {
        version if is_at_least(version, 32) => 12,
        version if is_at_least(version, 29) => 10,
        version if is_at_least(version, 27) => 6,
        _ => 5,
    };
    some(arena, pod.spec, &["securityContext", "sysctls"], |arena, setting| {
        let fine = is_one_of(arena, setting, &["name"], &SYSCTLS[..allowed])?;
        Ok(arena.not(fine))
    })
}

fn is_at_least(version: Version, minor: u64) -> bool {
    match version {
        Version::Latest => true,
        Version::Minor(own) => own >= minor,
    }
}

fn is_windows(arena: &mut Arena, pod: &Pod) -> Result<Formula> {
    is_one_of(arena, pod.spec, &["os", "name"], &["windows"])
}

fn escalation(arena: &mut Arena, pod: &Pod, container: Place) -> Result<Formula> {
    let path = ["securityContext", "allowPrivilegeEscalation"];
    let Some((there, value)) = follow(arena, container, &path) else {
        return unsupported("Pod Security Standards for untyped objects");
    };
    let allows = arena.is_true(value);
    let not = arena.not(allows);
    let forbids = arena.and([there, not]);
    let windows = is_windows(arena, pod)?;
    let fine = arena.or([forbids, windows]);
    Ok(arena.not(fine))
}

fn as_root(arena: &mut Arena, pod: &Pod, container: Place) -> Result<Formula> {
    let path = ["securityContext", "runAsNonRoot"];
    let (Some((own, value)), Some((pods, pod_value))) =
        (follow(arena, container, &path), follow(arena, pod.spec, &path))
    else {
        return unsupported("Pod Security Standards for untyped objects");
    };
    let (holds, pod_holds) = (arena.is_true(value), arena.is_true(pod_value));
    let set = arena.and([own, holds]);
    let unset = arena.not(own);
    let inherited = arena.and([unset, pods, pod_holds]);
    let fine = arena.or([set, inherited]);
    Ok(arena.not(fine))
}

fn root_user(arena: &mut Arena, _: &Pod, owner: Place) -> Result<Formula> {
    let Some((there, user)) = follow(arena, owner, &["securityContext", "runAsUser"]) else {
        return unsupported("Pod Security Standards for untyped objects");
    };
    let zero = is_zero(arena, user);
    Ok(arena.and([there, zero]))
}

fn restricted_volumes(arena: &mut Arena, spec: Place) -> Result<Formula> {
    some(arena, spec, &["volumes"], |arena, volume| {
        let mut allowed = Vec::new();
        for kind in VOLUMES {
            allowed.extend(follow(arena, volume, &[kind]).map(|(there, _)| there));
        }
        let allowed = arena.or(allowed);
        Ok(arena.not(allowed))
    })
}

fn capabilities(arena: &mut Arena, pod: &Pod, container: Place) -> Result<Formula> {
    let list = |list: &'static str| ["securityContext", "capabilities", list];
    let adds = |arena: &mut Arena, allowed: &[&str]| {
        some(arena, container, &list("add"), |arena, capability| {
            let fine = is_one_of(arena, capability, &[], allowed)?;
            Ok(arena.not(fine))
        })
    };
    let bad = adds(arena, &CAPABILITIES)?;
    if !pod.restricted {
        return Ok(bad);
    }
    let more = adds(arena, &["NET_BIND_SERVICE"])?;
    let drops = some(arena, container, &list("drop"), |arena, capability| {
        is_one_of(arena, capability, &[], &["ALL"])
    })?;
    let keeps = arena.not(drops);
    let windows = is_windows(arena, pod)?;
    let linux = arena.not(windows);
    let open = arena.or([more, keeps]);
    let open = arena.and([linux, open]);
    Ok(arena.or([bad, open]))
}

/// Hosts in probes and lifecycle hooks, which newer versions forbid and no exclusion lets through.
fn probes(arena: &mut Arena, container: Place) -> Result<Formula> {
    let handlers: [&[&str]; 5] = [
        &["livenessProbe"],
        &["readinessProbe"],
        &["startupProbe"],
        &["lifecycle", "postStart"],
        &["lifecycle", "preStop"],
    ];
    let mut ways = Vec::new();
    for handler in handlers {
        for action in ["httpGet", "tcpSocket"] {
            let path: Vec<&str> = handler.iter().copied().chain([action, "host"]).collect();
            if let Some((there, host)) = follow(arena, container, &path) {
                let filled = arena.text(host, Predicate::Length(1));
                ways.push(arena.and([there, filled]));
            }
        }
    }
    Ok(arena.or(ways))
}
