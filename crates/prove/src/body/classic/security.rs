//! `validate.podSecurity` at the baseline level, with controls that are excluded as a whole.
//!
//! Upstream counterpart: `pkg/pss` and `policy/check_*.go` of `k8s.io/pod-security-admission`, by way of
//! `kyvtest_kyverno::classic::pod_security`.
//!
//! Known limits: the checks of AppArmor, SELinux, seccomp, `/proc`, sysctls and Windows must be excluded.

use kyvtest_kyverno::classic::pod_security::CAPABILITIES;
use serde_json::Value as Json;

use crate::body::{
    formula::{Arena, Formula, Place},
    request::Request,
    shape::Kind,
    text::Predicate,
    value::{Result, unsupported},
};

/// A control, and whether it looks at pods, at containers, or at both.
const CONTROLS: [(&str, bool, bool); 11] = [
    ("HostProcess", true, true),
    ("Host Namespaces", true, false),
    ("Privileged Containers", false, true),
    ("Capabilities", false, true),
    ("HostPath Volumes", true, false),
    ("Host Ports", false, true),
    ("AppArmor", true, true),
    ("SELinux", true, true),
    ("/proc Mount Type", false, true),
    ("Seccomp", true, true),
    ("Sysctls", true, false),
];

/// Whether an object violates the standards.
pub(super) fn violated(arena: &mut Arena, security: &Json, request: &Request<'_>) -> Result<Formula> {
    let text = |name: &str| security[name].as_str().unwrap_or_default();
    if text("level") != "baseline" || !matches!(text("version"), "" | "latest") {
        return unsupported("Pod Security Standards of another level or version");
    }
    let Some(object) = request.object else {
        return Ok(Formula::FALSE);
    };
    let spec: &[&str] = match request.seen.object_kind.kind.as_str() {
        "Pod" => &["spec"],
        "Deployment" | "DaemonSet" | "StatefulSet" | "ReplicaSet" | "Job" | "ReplicationController" => {
            &["spec", "template", "spec"]
        }
        "CronJob" => &["spec", "jobTemplate", "spec", "template", "spec"],
        _ => return unsupported("Pod Security Standards for other kinds"),
    };
    let Some((there, spec)) = follow(arena, object, spec) else {
        return unsupported("Pod Security Standards for other kinds");
    };
    if there != Formula::TRUE {
        return unsupported("Pod Security Standards for objects without a Pod");
    }
    let mut found = vec![some_container(arena, spec, probes)?];
    for (control, of_pod, of_containers) in CONTROLS {
        if is_excluded(security, control, of_pod, of_containers)? {
            continue;
        }
        found.push(match control {
            "Host Namespaces" => {
                let mut ways = Vec::new();
                for field in ["hostNetwork", "hostPID", "hostIPC"] {
                    ways.push(is_set(arena, spec, &[field])?);
                }
                arena.or(ways)
            }
            "Privileged Containers" => some_container(arena, spec, |arena, container| {
                is_set(arena, container, &["securityContext", "privileged"])
            })?,
            "Capabilities" => some_container(arena, spec, capabilities)?,
            "HostPath Volumes" => some(arena, spec, &["volumes"], |arena, volume| {
                Ok(match follow(arena, volume, &["hostPath"]) {
                    Some((there, _)) => there,
                    None => Formula::FALSE,
                })
            })?,
            "Host Ports" => some_container(arena, spec, |arena, container| {
                some(arena, container, &["ports"], |arena, port| {
                    let Some((there, number)) = follow(arena, port, &["hostPort"]) else {
                        return Ok(Formula::FALSE);
                    };
                    // A port of 0 is left out by the server.
                    let (most, less) = (arena.at_most(number, 0), arena.at_most(number, -1));
                    let not = arena.not(less);
                    let zero = if arena.shape(number).nonzero {
                        Formula::FALSE
                    } else {
                        arena.and([most, not])
                    };
                    let other = arena.not(zero);
                    Ok(arena.and([there, other]))
                })
            })?,
            _ => return unsupported(format!("the control `{control}`")),
        });
    }
    Ok(arena.or(found))
}

/// Whether exclusions take away all that a control finds.
fn is_excluded(security: &Json, control: &str, of_pod: bool, of_containers: bool) -> Result<bool> {
    let entries = security["exclude"].as_array().into_iter().flatten();
    let own: Vec<&Json> = entries.filter(|entry| entry["controlName"] == control).collect();
    if own.is_empty() {
        return Ok(false);
    }
    let (mut pod, mut containers) = (!of_pod, !of_containers);
    for entry in own {
        if !entry["restrictedField"].is_null() || !entry["values"].is_null() {
            return unsupported("an exclusion of some values");
        }
        match entry["images"].as_array() {
            None => pod = true,
            Some(images) if images.iter().any(|image| image == "*") => containers = true,
            Some(_) => return unsupported("an exclusion of some images"),
        }
    }
    if pod && containers {
        return Ok(true);
    }
    unsupported("an exclusion of a part of a control")
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

fn capabilities(arena: &mut Arena, container: Place) -> Result<Formula> {
    let path = ["securityContext", "capabilities", "add"];
    some(arena, container, &path, |arena, capability| {
        let mut allowed = Vec::new();
        for name in CAPABILITIES {
            allowed.push(arena.text(capability, Predicate::Is(name.into())));
        }
        let allowed = arena.or(allowed);
        Ok(arena.not(allowed))
    })
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
