//! The verdict of an engine on one request: a status for the report, an effect for the user of the cluster, and the
//! part of the policy that decided.
//!
//! The statuses are those of Kyverno's reports, plus `no-match`, `needs-registry` and `unsupported`.

use std::fmt;

/// The status in a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Every validation holds.
    Pass,
    /// A validation does not hold.
    Fail,
    /// A validation does not hold, and the policy is not scored.
    Warn,
    /// The evaluation failed.
    Error,
    /// The policy matches, but a condition or an exception skips its validation.
    Skip,
    /// The policy does not match.
    NoMatch,
    /// Only an image registry can decide, and no mock states its answer.
    NeedsRegistry,
    /// No release of Kyverno's command line evaluates the rule.
    Unsupported,
}

impl Status {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Skip => "skip",
            Self::NoMatch => "no-match",
            Self::NeedsRegistry => "needs-registry",
            Self::Unsupported => "unsupported",
        }
    }

    /// Whether the policy was not decided: such a verdict never counts as a pass.
    pub const fn is_undecided(self) -> bool {
        matches!(self, Self::NeedsRegistry | Self::Unsupported)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The effect on a user of the cluster: the first of deny, audit and warn that applies, else admit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// The request is admitted silently.
    Admit,
    /// The request is admitted with a warning.
    Warn,
    /// The request is admitted and the violation recorded in the report or the audit event.
    Audit,
    /// The request is denied.
    Deny,
}

impl Effect {
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

/// The part of a policy that decided. Numbers are indices into the policy's lists, from 0.
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
    Exception,
    ExceptionCondition,
    /// A precondition or match condition.
    Precondition(usize),
    /// The bindings of a native policy: it has none, or none selects the request.
    Binding,
    /// The parameters.
    Params,
    Validation(usize),
    AuditAnnotation(usize),
    Mutation(usize),
    /// The cost budget of all expressions together.
    Budget,
    /// All validations: none objects.
    All,
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
            Self::Mutation(i) => write!(f, "mutation {i}"),
            Self::AuditAnnotation(i) => write!(f, "audit annotation {i}"),
            Self::Budget => f.write_str("cost budget"),
            Self::All => f.write_str("all validations"),
            Self::RuleType => f.write_str("type of the rule"),
        }
    }
}

/// The part of a policy that produced a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Trace {
    /// The part that decided.
    pub part: Part,
    /// Whether an evaluation error decided, even if the status is not `error`.
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

impl fmt::Display for Trace {
    /// Describes the deciding part for users.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let erred = if self.erred { " (error)" } else { "" };
        write!(f, "{}{erred}", self.part)
    }
}

/// The verdict of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub status: Status,
    pub effect: Effect,
    pub message: String,
    pub trace: Trace,
}

impl Status {
    /// The rank of a status when the verdicts of several rules are combined: errors rank highest.
    pub const fn strength(self) -> u8 {
        match self {
            Self::Error => 7,
            Self::Fail => 6,
            Self::Warn => 5,
            // A rule that was not verified does not pass because another rule does.
            Self::NeedsRegistry => 4,
            Self::Pass => 3,
            Self::Skip => 2,
            Self::NoMatch => 1,
            Self::Unsupported => 0,
        }
    }
}

impl Verdict {
    /// The verdict of a policy that neither objects nor reports anything.
    pub fn silent(status: Status, part: Part) -> Self {
        Self {
            status,
            effect: Effect::Admit,
            message: String::new(),
            trace: Trace::of(part),
        }
    }

    /// Combines several verdicts: the strongest effect and the strongest status, the messages of the verdicts that have
    /// both, and the trace of the first of them. Without any verdict, nothing matched.
    pub fn strongest(verdicts: Vec<Self>) -> Self {
        let effect = verdicts.iter().map(|verdict| verdict.effect).max();
        let effect = effect.unwrap_or(Effect::Admit);
        let with_effect = || verdicts.iter().filter(|verdict| verdict.effect == effect);
        let status = with_effect()
            .map(|verdict| verdict.status)
            .max_by_key(|status| status.strength());
        let status = status.unwrap_or(Status::NoMatch);
        let mut texts: Vec<&str> = Vec::new();
        for verdict in with_effect().filter(|verdict| verdict.status == status) {
            if !verdict.message.is_empty() && !texts.contains(&verdict.message.as_str()) {
                texts.push(&verdict.message);
            }
        }
        let first = with_effect().find(|verdict| verdict.status == status);
        Self {
            status,
            effect,
            message: texts.join("; "),
            trace: Trace {
                part: first.map_or(Part::Match, |verdict| verdict.trace.part),
                erred: verdicts.iter().any(|verdict| verdict.trace.erred),
            },
        }
    }
}

/// The differences between the two engines' verdicts on one request, in the order in which the classes are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DivergenceClass {
    /// There is no native policy: none was generated, or the API server rejects it.
    NotConvertible,
    /// The native policy admits a request that Kyverno denies or objects to.
    Weaker,
    /// The native policy denies or objects to a request that Kyverno admits.
    Stricter,
    /// Both object, with different effects.
    Action,
    /// Both admit, and the objects after admission differ.
    Changed,
    /// The same effect, but one side could not evaluate its expressions.
    Error,
    /// The same effect, but only one side matched the request.
    Scope,
    /// The same effect with another message.
    Message,
}

impl DivergenceClass {
    /// In the order of the classes.
    pub const ALL: [Self; 8] = [
        Self::NotConvertible,
        Self::Weaker,
        Self::Stricter,
        Self::Action,
        Self::Changed,
        Self::Error,
        Self::Scope,
        Self::Message,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotConvertible => "not-convertible",
            Self::Weaker => "weaker",
            Self::Stricter => "stricter",
            Self::Action => "action",
            Self::Changed => "changed",
            Self::Error => "error",
            Self::Scope => "scope",
            Self::Message => "message",
        }
    }

    /// Whether it fails a run unless it is expected.
    pub const fn fails(self) -> bool {
        !matches!(self, Self::Message | Self::NotConvertible)
    }
}

impl fmt::Display for DivergenceClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
