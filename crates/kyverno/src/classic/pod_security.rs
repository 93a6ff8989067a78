//! `validate.podSecurity`: the Pod Security Standards.
//!
//! Upstream counterpart: `pkg/engine/handlers/validation/validate_pss.go`, `pkg/pss`. Exceptions and updates of objects that
//! violated before are the driver's matter.

mod baseline;
mod check;
mod exclude;
mod pod;
mod restricted;
mod seccomp;

pub use baseline::{CAPABILITIES, SYSCTLS};
pub use check::{BadValue, Fault, FieldError, Violation};
pub use exclude::Exclusion;
pub use pod::Pod;
pub use restricted::VOLUMES;

use kyvtest_go_compat::{
    text::number,
    value::{Data, Value},
};

/// A level; every other word counts as restricted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Known ways to escape are closed.
    Baseline,
    /// All checks, those of the baseline as well.
    Restricted,
}

/// A version of the standards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The newest.
    Latest,
    /// That of Kubernetes 1 with this minor version.
    Minor(u64),
}

impl Version {
    /// Reads a version; empty is the newest.
    ///
    /// # Errors
    /// In upstream's words.
    pub fn parse(text: &str) -> Result<Self, String> {
        if matches!(text, "" | "latest") {
            return Ok(Self::Latest);
        }
        let minor = text.strip_prefix("v1.").filter(|digits| {
            let leading_zero = digits.len() > 1 && digits.starts_with('0');
            !leading_zero && digits.bytes().all(|b| b.is_ascii_digit())
        });
        minor
            .and_then(|digits| number::atoi(digits).ok())
            .and_then(|minor| u64::try_from(minor).ok())
            .map(Self::Minor)
            .ok_or_else(|| r#"must be "latest" or "v1.x""#.to_owned())
    }

    fn is_at_least(self, minor: u64) -> bool {
        match self {
            Self::Latest => true,
            Self::Minor(own) => own >= minor,
        }
    }
}

/// `validate.podSecurity` of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSecurity {
    /// The level as written.
    pub level: String,
    /// The version as written.
    pub version: String,
    /// What is let through.
    pub exclude: Vec<Exclusion>,
}

impl PodSecurity {
    /// Reads it as a policy writes it.
    pub fn read(value: Value<'_>) -> Self {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            level: text("level"),
            version: text("version"),
            exclude: Exclusion::list(value.get("exclude")),
        }
    }

    /// Looks at a resource.
    ///
    /// # Errors
    /// Where the resource or the version cannot be read.
    pub fn evaluate(&self, kind: &str, resource: &Data) -> Result<Evaluation, String> {
        let pod = Pod::read(kind, resource).map_err(|error| format!("Error while getting new resource: {error}"))?;
        let version = Version::parse(&self.version)
            .map_err(|error| format!("failed to parse pod security api version: {error}"))?;
        let level = if self.level == "baseline" {
            Level::Baseline
        } else {
            Level::Restricted
        };
        let mut evaluation = Evaluation {
            violations: check::violations(level, version, &pod),
            pod,
            level,
            version,
        };
        evaluation.exclude(&self.exclude);
        Ok(evaluation)
    }

    /// The message of a violated rule.
    pub fn message(&self, rule: &str, kind: &str, evaluation: &Evaluation) -> String {
        let parts: String = evaluation
            .violations
            .iter()
            .map(|violation| part(violation, kind))
            .collect();
        format!(
            "Validation rule '{rule}' failed. It violates PodSecurity \"{}:{}\": {parts}",
            self.level, self.version
        )
    }
}

/// What a resource violates.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The checks that are violated.
    pub violations: Vec<Violation>,
    pod: Pod,
    level: Level,
    version: Version,
}

impl Evaluation {
    /// Takes away what exclusions let through.
    pub fn exclude(&mut self, exclusions: &[Exclusion]) {
        let violations = std::mem::take(&mut self.violations);
        self.violations = exclude::apply(exclusions, self.level, self.version, &self.pod, violations);
    }
}

fn part(violation: &Violation, kind: &str) -> String {
    let errors = violation.errors.iter().flatten();
    let errors: Vec<String> = errors.map(|error| describe(error, kind)).collect();
    format!(
        "(Forbidden reason: {}, field error list: [{}])",
        violation.reason,
        errors.join(", ")
    )
}

fn describe(error: &FieldError, kind: &str) -> String {
    let place = match kind {
        "DaemonSet" | "Deployment" | "Job" | "StatefulSet" | "ReplicaSet" | "ReplicationController" => {
            error.field.replace("spec", "spec.template.spec")
        }
        "CronJob" => error.field.replace("spec", "spec.jobTemplate.spec.template.spec"),
        _ => error.field.clone(),
    };
    // Of Pods as well, as upstream.
    let place = place.replace("metadata", "spec.template.metadata");
    let value = match &error.bad_value {
        BadValue::Text(text) => text.clone(),
        BadValue::Bool(value) => value.to_string(),
        BadValue::Int(value) => value.to_string(),
        BadValue::Texts(texts) => format!("[{}]", texts.join(" ")),
    };
    match error.fault {
        Fault::Required => format!("{place}: Required value"),
        Fault::Forbidden if value.is_empty() => format!("{place}: Forbidden"),
        Fault::Forbidden => format!("{place} is forbidden, forbidden values found: {value}"),
    }
}

/// The text at the end of a chain of fields, or none.
fn text_at<'d>(data: &'d Data, path: &[&str]) -> &'d str {
    data.at(path).and_then(Data::as_str).unwrap_or_default()
}
