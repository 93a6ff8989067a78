//! The checks of the Pod Security Standards: which there are, of which level, since which version.
//!
//! Upstream counterpart: `policy/{checks,violations}.go` of `k8s.io/pod-security-admission`, in the fork that Kyverno pins,
//! and `evaluatePSS` in `pkg/pss/evaluate.go`: what a restricted check overrides still runs, and the first revision of a check
//! applies to versions before it, too. Relaxation for user namespaces is off.

use super::{Level, Version, baseline, pod::Pod, restricted, seccomp};
use kyvtest_go_compat::value::Data;

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It has a value that it must not have.
    Forbidden,
    /// It has no value.
    Required,
}

/// The value that a field must not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadValue {
    /// A text; empty if there is none to speak of.
    Text(String),
    Bool(bool),
    /// A number.
    Int(i64),
    /// Texts, sorted.
    Texts(Vec<String>),
}

/// A field that violates a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// What is wrong.
    pub fault: Fault,
    /// Where.
    pub field: String,
    pub bad_value: BadValue,
}

impl FieldError {
    /// A field with a value that it must not have.
    pub(super) fn forbidden(field: impl Into<String>, bad_value: BadValue) -> Self {
        Self {
            fault: Fault::Forbidden,
            field: field.into(),
            bad_value,
        }
    }

    /// The same with a text.
    pub(super) fn text(field: impl Into<String>, value: &str) -> Self {
        Self::forbidden(field, BadValue::Text(value.to_owned()))
    }

    /// A field without a value.
    pub(super) fn required(field: impl Into<String>) -> Self {
        Self {
            fault: Fault::Required,
            field: field.into(),
            bad_value: BadValue::Text(String::new()),
        }
    }
}

/// A check that a Pod violates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The check's name.
    pub id: &'static str,
    /// The reason, in short.
    pub reason: &'static str,
    pub detail: String,
    /// The fields at fault; `None` if the check does not list them.
    pub errors: Option<Vec<FieldError>>,
}

/// What a check finds: reason, details, fields.
pub(super) type Finding = Option<(&'static str, String, Option<Vec<FieldError>>)>;

/// Since which minor version a check looks like this, and how it looks.
type Revision = (u64, fn(&Pod) -> Finding);

struct Check {
    id: &'static str,
    level: Level,
    /// Since which minor version of Kubernetes 1, and how.
    revisions: &'static [Revision],
}

const fn check(id: &'static str, level: Level, revisions: &'static [Revision]) -> Check {
    Check { id, level, revisions }
}

/// In the order of upstream's files.
const CHECKS: [Check; 18] = [
    check(
        "allowPrivilegeEscalation",
        Level::Restricted,
        &[
            (8, restricted::privilege_escalation),
            (25, restricted::privilege_escalation_except_windows),
        ],
    ),
    check("appArmorProfile", Level::Baseline, &[(0, baseline::app_armor)]),
    check("capabilities_baseline", Level::Baseline, &[(0, baseline::capabilities)]),
    check(
        "capabilities_restricted",
        Level::Restricted,
        &[
            (22, restricted::capabilities),
            (25, restricted::capabilities_except_windows),
        ],
    ),
    check("hostNamespaces", Level::Baseline, &[(0, baseline::host_namespaces)]),
    check("hostPathVolumes", Level::Baseline, &[(0, baseline::host_path_volumes)]),
    check("hostPorts", Level::Baseline, &[(0, baseline::host_ports)]),
    check(
        "hostProbesAndHostLifecycle",
        Level::Baseline,
        &[(34, baseline::host_probes)],
    ),
    check("privileged", Level::Baseline, &[(0, baseline::privileged)]),
    check("procMount", Level::Baseline, &[(0, baseline::proc_mount)]),
    check("restrictedVolumes", Level::Restricted, &[(0, restricted::volumes)]),
    check("runAsNonRoot", Level::Restricted, &[(0, restricted::run_as_non_root)]),
    check("runAsUser", Level::Restricted, &[(23, restricted::run_as_user)]),
    check(
        "seLinuxOptions",
        Level::Baseline,
        &[(0, baseline::se_linux_1_0), (31, baseline::se_linux_1_31)],
    ),
    check(
        "seccompProfile_baseline",
        Level::Baseline,
        &[(0, seccomp::annotations), (19, seccomp::baseline)],
    ),
    check(
        "seccompProfile_restricted",
        Level::Restricted,
        &[(19, seccomp::restricted), (25, seccomp::restricted_except_windows)],
    ),
    check(
        "sysctls",
        Level::Baseline,
        &[
            (0, baseline::sysctls_1_0),
            (27, baseline::sysctls_1_27),
            (29, baseline::sysctls_1_29),
            (32, baseline::sysctls_1_32),
        ],
    ),
    check(
        "windowsHostProcess",
        Level::Baseline,
        &[(0, baseline::windows_host_process)],
    ),
];

/// The checks that a Pod violates. Every level other than the baseline has them all.
pub(super) fn violations(level: Level, version: Version, pod: &Pod) -> Vec<Violation> {
    CHECKS
        .iter()
        .filter(|check| level != Level::Baseline || check.level == Level::Baseline)
        .filter_map(|check| {
            let newest = check
                .revisions
                .iter()
                .rev()
                .find(|(since, _)| version.is_at_least(*since));
            let (_, revision) = newest.or(check.revisions.first())?;
            let (reason, detail, errors) = revision(pod)?;
            Some(Violation {
                id: check.id,
                reason,
                detail,
                errors,
            })
        })
        .collect()
}

/// Names and fields that are gathered.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) names: Vec<String>,
    pub(super) errors: Vec<FieldError>,
}

impl Gathered {
    /// What a check finds at the pod itself and at its containers.
    pub(super) fn of_pod_and_containers(pod: &Pod, error: impl Fn(&Data, &str) -> Option<FieldError>) -> Self {
        let mut setters = Self::default();
        if let Some(error) = error(&pod.spec, "spec") {
            setters.add("pod", [error]);
        }
        let mut containers = Self::default();
        for (place, container) in pod.containers() {
            if let Some(error) = error(container, &place) {
                containers.add(baseline::name(container), [error]);
            }
        }
        setters.add_containers(containers);
        setters
    }

    pub(super) fn add(&mut self, name: impl Into<String>, errors: impl IntoIterator<Item = FieldError>) {
        self.names.push(name.into());
        self.errors.extend(errors);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Adds the containers that were gathered as one name.
    pub(super) fn add_containers(&mut self, containers: Self) {
        if !containers.is_empty() {
            let name = containers_text(&containers.names);
            self.add(name, containers.errors);
        }
    }
}

/// One word or the other.
pub(super) fn plural<'t>(one: &'t str, many: &'t str, count: usize) -> &'t str {
    if count == 1 { one } else { many }
}

/// Texts in quotes, as they are.
pub(super) fn quoted<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| format!("\"{}\"", text.as_ref())).collect();
    texts.join(", ")
}

pub(super) fn containers_text(names: &[String]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names))
}
