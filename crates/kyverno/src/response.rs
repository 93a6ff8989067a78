//! The response of a rule.

use std::fmt;

use kyvtest_model::verdict::{Effect, Part, Status, Trace, Verdict};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleResponse {
    /// The rule's name; for a CEL policy, empty or the stage at which evaluation ended.
    pub rule: String,
    /// The status; `warn` is for reports to make of `fail`, see [`RuleResponse::verdict`].
    pub status: Status,
    pub message: String,
    /// What it does to the request.
    pub effect: Effect,
    /// How it came about.
    pub trace: Trace,
    /// The exceptions that were applied, `namespace/name`.
    pub exceptions: Vec<String>,
    /// Texts for the report: audit annotations, and the place of the validation that failed.
    pub(crate) properties: Vec<(String, String)>,
    /// Whether upstream panics instead of answering.
    pub panics: bool,
    /// What it owes to a registry.
    pub registry: RegistryUse,
}

/// What a result owes to a registry of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum RegistryUse {
    /// It was decided without one.
    #[default]
    NotAsked,
    /// A mock replaced the registry.
    Mocked,
    /// Only a registry can decide it, and none is available.
    Unanswered,
}

impl RuleResponse {
    /// A response that has no effect on the request.
    pub fn new(rule: &str, status: Status, message: impl Into<String>, trace: Trace) -> Self {
        Self {
            rule: rule.to_owned(),
            status,
            message: message.into(),
            effect: Effect::Admit,
            trace,
            exceptions: Vec::new(),
            properties: Vec::new(),
            panics: false,
            registry: RegistryUse::NotAsked,
        }
    }

    pub(crate) fn unsupported(rule: &str, what: Unsupported) -> Self {
        let message = format!("{what}: {}", what.explanation());
        Self::new(rule, Status::Unsupported, message, Trace::of(Part::RuleType))
    }

    /// The API server denies the request before Kyverno sees it: a match condition of the webhook cannot be evaluated.
    pub fn denied_by_condition(rule: &str, error: &str) -> Self {
        Self {
            effect: Effect::Deny,
            ..Self::new(rule, Status::Error, error, Trace::error(Part::WebhookCondition(0)))
        }
    }

    /// Whether the rule decided: what ends a policy with `applyRules: One`.
    pub(crate) fn applied(&self) -> bool {
        matches!(self.status, Status::Pass | Status::Fail)
    }

    /// The response as a report shows it: a violation of a policy that is not scored is a warning.
    pub fn verdict(&self, scored: bool) -> Verdict {
        Verdict {
            status: match self.status {
                Status::Fail if !scored => Status::Warn,
                status => status,
            },
            effect: self.effect,
            message: self.message.clone(),
            trace: self.trace,
        }
    }
}

/// What is recognised and not decided. Kyverno 1.19 refuses such policies, so that only callers which do not validate them
/// meet it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Unsupported {
    /// `validate.assert`
    Assert,
    /// `validate` with nothing in it that decides.
    Empty,
}

impl Unsupported {
    pub(crate) const fn code(self) -> &'static str {
        match self {
            Self::Assert => "unsupported-assert",
            Self::Empty => "unsupported-empty",
        }
    }

    const fn explanation(self) -> &'static str {
        match self {
            Self::Empty => "the rule has nothing that is evaluated",
            Self::Assert => "rules of this type are not evaluated",
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.code())
    }
}
