//! Texts about a Pod, rewritten into texts about the pod template of a controller.
//!
//! Replacement knows nothing of CEL or JMESPath: it finds bytes, also in messages and names, and applies its lines one
//! after the other.

use kyvtest_go_compat::yaml::Edited;

/// Where a controller keeps its pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Template {
    /// `spec.template`.
    Pod,
    /// `spec.jobTemplate.spec.template`.
    CronJob,
}

impl Template {
    /// The way to the pod template.
    pub(super) const fn path(self) -> &'static [&'static str] {
        match self {
            Self::Pod => &["spec", "template"],
            Self::CronJob => &["spec", "jobTemplate", "spec", "template"],
        }
    }
}

/// Rewrites a text of a rule with variables.
pub(super) fn variables(template: Template, text: &mut Edited) {
    for field in ["spec", "metadata"] {
        for object in ["request.object", "request.oldObject"] {
            replace(template, object, field, text, |_| false);
        }
    }
}

/// Rewrites a text of a `validate.cel` rule.
pub(super) fn cel(template: Template, text: &mut Edited) {
    for field in ["spec", "metadata"] {
        for object in ["object", "oldObject"] {
            replace(template, object, field, text, |_| false);
        }
    }
}

/// Rewrites a text of a ValidatingPolicy: there the namespace remains that of the controller.
pub(super) fn validating(template: Template, text: &mut Edited) {
    for field in ["spec", "metadata"] {
        for object in ["object", "oldObject"] {
            replace(template, object, field, text, is_namespace);
        }
    }
}

fn replace(template: Template, object: &str, field: &str, text: &mut Edited, keep: impl Fn(&str) -> bool) {
    let from = format!("{object}.{field}");
    let to = format!("{object}.{}.{field}", template.path().join("."));
    text.replace(&from, &to, keep);
}

/// Whether what follows selects `namespace`.
fn is_namespace(rest: &str) -> bool {
    rest.strip_prefix(".namespace")
        .is_some_and(|rest| !rest.starts_with(|c: char| c == '_' || c.is_ascii_alphanumeric()))
}
