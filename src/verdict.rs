//! What an engine says about one request: a status for the report, an effect for the user of the cluster, and which part
//! of the policy decided.
//!
//! The words are those of Kyverno's reports, with `no-match` and `unsupported` besides them.

use std::fmt;

/// What a report shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Everything holds.
    Pass,
    /// Something does not hold.
    Fail,
    /// Something does not hold, and the policy is not scored.
    Warn,
    /// It could not be decided.
    Error,
    /// The policy matches and does not look further.
    Skip,
    /// The policy does not match.
    NoMatch,
    /// The rule is of a type that is not decided here.
    Unsupported,
}

impl Status {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Skip => "skip",
            Self::NoMatch => "no-match",
            Self::Unsupported => "unsupported",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a user of the cluster feels: the first of deny, audit and warn that is taken, else admit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// Nothing.
    Admit,
    /// A warning.
    Warn,
    /// A note in the report or the audit event.
    Audit,
    /// The request is refused.
    Deny,
}

impl Effect {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Warn => "warn",
            Self::Audit => "audit",
            Self::Deny => "deny",
        }
    }

    /// Whether the side objects to the request.
    pub const fn objects(self) -> bool {
        !matches!(self, Self::Admit)
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The part of a policy that decided. Numbers are places in the policy's lists, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// The policy is for another namespace.
    Namespace,
    /// A condition of the webhook configuration.
    WebhookCondition(usize),
    /// `match`, or `matchConstraints`.
    Match,
    /// `exclude`.
    Exclude,
    /// An exception.
    Exception,
    /// A condition of an exception.
    ExceptionCondition,
    /// A precondition or match condition.
    Precondition(usize),
    /// The bindings of a native policy: it has none, or none selects the request.
    Binding,
    /// The parameters.
    Params,
    /// A validation.
    Validation(usize),
    /// An audit annotation.
    AuditAnnotation(usize),
    /// The budget of cost for all expressions together.
    Budget,
    /// All validations: none objects.
    All,
    /// The type of the rule.
    RuleType,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace => f.write_str("namespace of the policy"),
            Self::WebhookCondition(i) => write!(f, "webhook match condition {i}"),
            Self::Match => f.write_str("match"),
            Self::Exclude => f.write_str("exclude"),
            Self::Exception => f.write_str("exception"),
            Self::ExceptionCondition => f.write_str("condition of an exception"),
            Self::Precondition(i) => write!(f, "precondition {i}"),
            Self::Binding => f.write_str("bindings"),
            Self::Params => f.write_str("params"),
            Self::Validation(i) => write!(f, "validation {i}"),
            Self::AuditAnnotation(i) => write!(f, "audit annotation {i}"),
            Self::Budget => f.write_str("cost budget"),
            Self::All => f.write_str("all validations"),
            Self::RuleType => f.write_str("type of the rule"),
        }
    }
}

/// How a verdict came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Trace {
    /// The part that decided.
    pub part: Part,
    /// Whether an evaluation error decided, also where the status is another one.
    pub erred: bool,
}

impl Trace {
    /// Decided by a part, without an error.
    pub const fn of(part: Part) -> Self {
        Self { part, erred: false }
    }

    /// Decided by an error in a part.
    pub const fn error(part: Part) -> Self {
        Self { part, erred: true }
    }
}

/// What an engine says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What a report shows.
    pub status: Status,
    /// What a user of the cluster feels.
    pub effect: Effect,
    /// The text.
    pub message: String,
    /// How it came about.
    pub trace: Trace,
}
