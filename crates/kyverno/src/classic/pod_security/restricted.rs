//! The checks of the restricted level, seccomp aside.
//!
//! Upstream counterpart: `policy/check_*.go` of `k8s.io/pod-security-admission`.

use std::collections::BTreeSet;

use super::{
    baseline::{added, capability_list, name, volumes as volumes_of},
    check::{BadValue, FieldError, Finding, Gathered, containers_text, plural, quoted},
    pod::Pod,
};
use kyvtest_go_compat::value::Data;

pub(super) fn privilege_escalation(pod: &Pod) -> Finding {
    let mut containers = Gathered::default();
    for (place, container) in pod.containers() {
        let field = format!("{place}.securityContext.allowPrivilegeEscalation");
        let error = match container.get("securityContext") {
            None => FieldError::required(field),
            Some(context) => match context.get("allowPrivilegeEscalation") {
                None => FieldError::text(field, "nil"),
                Some(Data::Bool(true)) => FieldError::forbidden(field, BadValue::Bool(true)),
                Some(_) => continue,
            },
        };
        containers.add(name(container), [error]);
    }
    if containers.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must set securityContext.allowPrivilegeEscalation=false",
        containers_text(&containers.names)
    );
    Some(("allowPrivilegeEscalation != false", detail, Some(containers.errors)))
}

pub(super) fn privilege_escalation_except_windows(pod: &Pod) -> Finding {
    if pod.is_windows() {
        None
    } else {
        privilege_escalation(pod)
    }
}

pub(super) fn capabilities(pod: &Pod) -> Finding {
    let mut missing = Gathered::default();
    let mut adding = Gathered::default();
    let mut all = BTreeSet::new();
    for (place, container) in pod.containers() {
        let field = format!("{place}.securityContext.capabilities.drop");
        if container.at(&["securityContext", "capabilities"]).is_none() {
            missing.add(name(container), [FieldError::required(field)]);
            continue;
        }
        let dropped: BTreeSet<&str> = capability_list(container, "drop").collect();
        if dropped.is_empty() {
            missing.add(name(container), [FieldError::required(field)]);
        } else if !dropped.contains("ALL") {
            let values = BadValue::Texts(dropped.into_iter().map(str::to_owned).collect());
            missing.add(name(container), [FieldError::forbidden(field, values)]);
        }
        let bad: BTreeSet<String> = added(container)
            .filter(|capability| *capability != "NET_BIND_SERVICE")
            .map(str::to_owned)
            .collect();
        if !bad.is_empty() {
            let field = format!("{place}.securityContext.capabilities.add");
            let values = BadValue::Texts(bad.iter().cloned().collect());
            adding.add(name(container), [FieldError::forbidden(field, values)]);
            all.extend(bad);
        }
    }
    let mut details = Vec::new();
    if !missing.is_empty() {
        let containers = containers_text(&missing.names);
        details.push(format!(
            r#"{containers} must set securityContext.capabilities.drop=["ALL"]"#
        ));
    }
    if !adding.is_empty() {
        let containers = containers_text(&adding.names);
        let values = quoted(&all);
        details.push(format!(
            "{containers} must not include {values} in securityContext.capabilities.add"
        ));
    }
    if details.is_empty() {
        return None;
    }
    let mut errors = missing.errors;
    errors.extend(adding.errors);
    Some(("unrestricted capabilities", details.join("; "), Some(errors)))
}

pub(super) fn capabilities_except_windows(pod: &Pod) -> Finding {
    if pod.is_windows() { None } else { capabilities(pod) }
}

/// The volume types that are allowed.
pub const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// The others, in the order in which a volume with several is named after one.
const FORBIDDEN: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

pub(super) fn volumes(pod: &Pod) -> Finding {
    let mut found = Gathered::default();
    let mut types = BTreeSet::new();
    for (i, volume) in volumes_of(pod) {
        let has = |kind: &&&str| volume.get(kind).is_some();
        if VOLUMES.iter().any(|kind| has(&kind)) {
            continue;
        }
        let kind = FORBIDDEN.iter().find(has).copied().unwrap_or("unknown");
        types.insert(kind);
        let error = FieldError::text(format!("spec.volumes[{i}].{kind}"), "");
        found.add(name(volume), [error]);
    }
    if found.is_empty() {
        return None;
    }
    let count = found.names.len();
    let detail = format!(
        "{} {} {} {} {}",
        plural("volume", "volumes", count),
        quoted(&found.names),
        plural("uses", "use", count),
        plural("restricted volume type", "restricted volume types", types.len()),
        quoted(&types)
    );
    Some(("restricted volume types", detail, Some(found.errors)))
}

pub(super) fn run_as_non_root(pod: &Pod) -> Finding {
    const FIELD: [&str; 2] = ["securityContext", "runAsNonRoot"];
    let bad = |place: &str| {
        let field = format!("{place}.securityContext.runAsNonRoot");
        FieldError::forbidden(field, BadValue::Bool(false))
    };
    let mut setters = Gathered::default();
    let mut pod_is_set = false;
    match pod.spec.at(&FIELD) {
        Some(Data::Bool(true)) => pod_is_set = true,
        Some(_) => setters.add("pod", [bad("spec")]),
        None => {}
    }
    let mut explicit = Gathered::default();
    let mut implicit = Gathered::default();
    for (place, container) in pod.containers() {
        match container.at(&FIELD) {
            Some(Data::Bool(true)) => {}
            Some(_) => explicit.add(name(container), [bad(&place)]),
            None if pod_is_set => {}
            None => {
                let error = FieldError::required(format!("{place}.securityContext.runAsNonRoot"));
                implicit.add(name(container), [error]);
            }
        }
    }
    setters.add_containers(explicit);
    let mut details = Vec::new();
    if !setters.is_empty() {
        let names = setters.names.join(" and ");
        details.push(format!("{names} must not set securityContext.runAsNonRoot=false"));
    }
    if !implicit.is_empty() {
        let containers = containers_text(&implicit.names);
        details.push(format!(
            "pod or {containers} must set securityContext.runAsNonRoot=true"
        ));
    }
    if details.is_empty() {
        return None;
    }
    let mut errors = setters.errors;
    errors.extend(implicit.errors);
    Some(("runAsNonRoot != true", details.join("\n"), Some(errors)))
}

pub(super) fn run_as_user(pod: &Pod) -> Finding {
    let error = |owner: &Data, place: &str| {
        let root = owner.at(&["securityContext", "runAsUser"]) == Some(&Data::Int(0));
        let field = format!("{place}.securityContext.runAsUser");
        root.then(|| FieldError::forbidden(field, BadValue::Int(0)))
    };
    let setters = Gathered::of_pod_and_containers(pod, error);
    if setters.is_empty() {
        return None;
    }
    let detail = format!("{} must not set runAsUser=0", setters.names.join(" and "));
    Some(("runAsUser=0", detail, Some(setters.errors)))
}
