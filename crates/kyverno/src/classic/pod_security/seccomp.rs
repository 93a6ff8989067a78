//! The checks of seccomp profiles, of both levels.
//!
//! Upstream counterpart: `policy/check_seccompProfile_{baseline,restricted}.go` of `k8s.io/pod-security-admission`.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    baseline::name,
    check::{FieldError, Finding, Gathered, containers_text, plural, quoted},
    pod::Pod,
    text_at,
};
use kyvtest_go_compat::{text::quote::quote, value::Data};

/// Before the fields there were annotations.
pub(super) fn annotations(pod: &Pod) -> Finding {
    let allowed =
        |value: &str| matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
    let mut found: BTreeMap<String, Vec<FieldError>> = BTreeMap::new();
    let mut look = |wanted: &str| {
        let annotation = pod.annotations().find(|(key, _)| *key == wanted);
        if let Some((key, value)) = annotation.filter(|(_, value)| !allowed(value)) {
            let error = FieldError::text(format!("metadata.annotations[{key}]"), value);
            found.entry(format!("{key}={}", quote(value))).or_default().push(error);
        }
    };
    look("seccomp.security.alpha.kubernetes.io/pod");
    for (_, container) in pod.containers() {
        look(&format!(
            "container.seccomp.security.alpha.kubernetes.io/{}",
            name(container)
        ));
    }
    if found.is_empty() {
        return None;
    }
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    let detail = format!(
        "forbidden {} {}",
        plural("annotation", "annotations", names.len()),
        names.join(", ")
    );
    Some(("seccompProfile", detail, Some(found.into_values().flatten().collect())))
}

pub(super) fn baseline(pod: &Pod) -> Finding {
    look(pod, false)
}

pub(super) fn restricted(pod: &Pod) -> Finding {
    look(pod, true)
}

pub(super) fn restricted_except_windows(pod: &Pod) -> Finding {
    if pod.is_windows() { None } else { restricted(pod) }
}

/// A profile as far as it is set.
enum Profile<'p> {
    Unset,
    Allowed,
    Forbidden(&'p str),
}

fn profile(owner: &Data) -> Profile<'_> {
    match owner.at(&["securityContext", "seccompProfile"]) {
        None => Profile::Unset,
        Some(profile) => match text_at(profile, &["type"]) {
            "Localhost" | "RuntimeDefault" => Profile::Allowed,
            kind => Profile::Forbidden(kind),
        },
    }
}

fn look(pod: &Pod, must_be_set: bool) -> Finding {
    let mut setters = Gathered::default();
    let mut values = BTreeSet::new();
    let mut pod_is_set = false;
    let field = |place: &str| format!("{place}.securityContext.seccompProfile.type");
    match profile(&pod.spec) {
        Profile::Unset => {}
        Profile::Allowed => pod_is_set = true,
        Profile::Forbidden(kind) => {
            setters.add("pod", [FieldError::text(field("spec"), kind)]);
            values.insert(kind);
        }
    }
    let mut explicit = Gathered::default();
    let mut implicit = Gathered::default();
    for (place, container) in pod.containers() {
        match profile(container) {
            Profile::Allowed => {}
            Profile::Unset if pod_is_set || !must_be_set => {}
            Profile::Unset => implicit.add(name(container), [FieldError::required(field(&place))]),
            Profile::Forbidden(kind) => {
                explicit.add(name(container), [FieldError::text(field(&place), kind)]);
                values.insert(kind);
            }
        }
    }
    setters.add_containers(explicit);
    if !setters.is_empty() {
        let detail = format!(
            "{} must not set securityContext.seccompProfile.type to {}",
            setters.names.join(" and "),
            quoted(&values)
        );
        return Some(("seccompProfile", detail, Some(setters.errors)));
    }
    if implicit.is_empty() {
        return None;
    }
    let detail = format!(
        r#"pod or {} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost""#,
        containers_text(&implicit.names)
    );
    Some(("seccompProfile", detail, Some(implicit.errors)))
}
