//! `exclude` of a rule and `podSecurity` of an exception: controls, images, fields and values that are let through.
//!
//! Upstream counterpart: `exemptExclusions` and what it calls in `pkg/pss/evaluate.go`, `pkg/pss/utils/mapping.go`. Each
//! field of a Pod made for the exclusion takes away one field of the violations, no more. Upstream leaves what remains in
//! random order; here it stays in the order of the checks.

use super::{
    Level, Version,
    check::{BadValue, FieldError, Violation, violations},
    pod::{CONTAINERS, Pod},
    text_at,
};
use kyvtest_go_compat::{
    text::wildcard,
    value::{Data, List, Value},
};

/// A control that is let through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exclusion {
    pub control_name: String,
    /// The images of the containers that it is about; without any it is about the Pod.
    pub images: Vec<String>,
    /// The field that it is about; empty for all.
    pub restricted_field: String,
    /// The values that are let through; without any, all.
    pub values: Vec<String>,
}

impl Exclusion {
    /// Reads an entry as a policy or an exception writes it.
    pub(crate) fn read(value: Value<'_>) -> Self {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let texts = |name: &str| -> Vec<String> {
            let items = value.get(name).and_then(Value::as_list).into_iter();
            let items = items.flat_map(List::iter).filter_map(Value::as_str);
            items.map(str::to_owned).collect()
        };
        Self {
            control_name: text("controlName"),
            images: texts("images"),
            restricted_field: text("restrictedField"),
            values: texts("values"),
        }
    }

    /// Reads a list of entries.
    pub fn list(value: Option<Value<'_>>) -> Vec<Self> {
        let items = value.and_then(Value::as_list).into_iter().flat_map(List::iter);
        items.map(Self::read).collect()
    }

    /// The checks of its control.
    fn checks(&self) -> &'static [&'static str] {
        match self.control_name.as_str() {
            "Capabilities" => &["capabilities_baseline", "capabilities_restricted"],
            "Seccomp" => &["seccompProfile_baseline", "seccompProfile_restricted"],
            "Privileged Containers" => &["privileged"],
            "Host Ports" => &["hostPorts"],
            "/proc Mount Type" => &["procMount"],
            "HostProcess" => &["windowsHostProcess"],
            "SELinux" => &["seLinuxOptions"],
            "Host Namespaces" => &["hostNamespaces"],
            "HostPath Volumes" => &["hostPathVolumes"],
            "Sysctls" => &["sysctls"],
            "AppArmor" => &["appArmorProfile"],
            "Privilege Escalation" => &["allowPrivilegeEscalation"],
            "Running as Non-root" => &["runAsNonRoot"],
            "Running as Non-root user" => &["runAsUser"],
            "Volume Types" => &["restrictedVolumes"],
            _ => &[],
        }
    }

    /// The Pod whose violations are let through: the Pod without its containers, or those containers without their Pod.
    fn pod(&self, pod: &Pod) -> Pod {
        if self.images.is_empty() {
            let fake: Data = [("name".into(), Data::from("fake"))].into_iter().collect();
            let mut spec = pod.spec.as_map().cloned().unwrap_or_default();
            for list in CONTAINERS {
                spec.remove(list);
            }
            spec.insert("containers".into(), [fake].into_iter().collect());
            return Pod {
                metadata: pod.metadata.clone(),
                spec: spec.into_iter().collect(),
            };
        }
        let matching = |list: &str| -> Data {
            let containers = pod.spec.get(list).and_then(Data::as_list).unwrap_or_default();
            let matches = |container: &&Data| fits(&self.images, text_at(container, &["image"]));
            containers.iter().filter(matches).cloned().collect()
        };
        Pod {
            metadata: Data::Null,
            spec: CONTAINERS
                .into_iter()
                .map(|list| (list.into(), matching(list)))
                .collect(),
        }
    }

    /// Whether it lets a field through.
    fn covers(&self, error: &FieldError) -> bool {
        if !self.restricted_field.is_empty() && self.restricted_field != general(&error.field) {
            return false;
        }
        if self.values.is_empty() {
            return true;
        }
        match &error.bad_value {
            BadValue::Text(text) => text.is_empty() || fits(&self.values, text),
            BadValue::Bool(value) => fits(&self.values, &value.to_string()),
            BadValue::Int(value) => fits(&self.values, &value.to_string()),
            BadValue::Texts(texts) => texts.iter().all(|text| fits(&self.values, text)),
        }
    }
}

/// Takes away what exclusions let through.
pub(super) fn apply(
    exclusions: &[Exclusion],
    level: Level,
    version: Version,
    pod: &Pod,
    mut remaining: Vec<Violation>,
) -> Vec<Violation> {
    for exclusion in exclusions {
        let by_container = !exclusion.images.is_empty();
        let excluded = exclusion.pod(pod);
        for violation in violations(level, version, &excluded) {
            if !exclusion.checks().contains(&violation.id) {
                continue;
            }
            for error in violation
                .errors
                .iter()
                .flatten()
                .filter(|error| exclusion.covers(error))
            {
                let Some(at) = remaining.iter().position(|other| other.id == violation.id) else {
                    break;
                };
                let Some(errors) = remaining.get_mut(at).and_then(|other| other.errors.as_mut()) else {
                    break;
                };
                let same = |other: &FieldError| {
                    general(&other.field) == general(&error.field)
                        && (!by_container || container_name(pod, other) == container_name(&excluded, error))
                };
                if let Some(found) = errors.iter().position(same) {
                    errors.swap_remove(found);
                }
                if errors.is_empty() {
                    remaining.remove(at);
                }
            }
        }
    }
    remaining
}

fn fits(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| wildcard::matches(pattern, text))
}

/// A path with `*` in place of each number.
fn general(field: &str) -> String {
    let mut out = String::new();
    let mut in_number = false;
    for c in field.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !in_number {
            out.push('*');
        }
        in_number = c.is_ascii_digit();
    }
    out
}

/// The name of the container that a field belongs to, if it belongs to one.
fn container_name<'p>(pod: &'p Pod, error: &FieldError) -> Option<&'p str> {
    let place = error.field.strip_prefix("spec.")?;
    let (list, rest) = place.split_once('[')?;
    let (index, _) = rest.split_once(']')?;
    if !CONTAINERS.contains(&list) {
        return None;
    }
    let containers = pod.spec.get(list).and_then(Data::as_list)?;
    Some(text_at(containers.get(index.parse::<usize>().ok()?)?, &["name"]))
}
