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
    /// The budget of cost for all expressions together.
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

impl fmt::Display for Trace {
    /// The part that decided, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let erred = if self.erred { " (error)" } else { "" };
        write!(f, "{}{erred}", self.part)
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

impl Status {
    /// How much a status says about a policy as a whole, of which each rule has one: errors most.
    pub const fn strength(self) -> u8 {
        match self {
            Self::Error => 6,
            Self::Fail => 5,
            Self::Warn => 4,
            Self::Pass => 3,
            Self::Skip => 2,
            Self::NoMatch => 1,
            Self::Unsupported => 0,
        }
    }
}

impl Verdict {
    /// Several verdicts as one: the strongest effect and the strongest status, the texts of those that have both, and how the
    /// first of them came about. Without any, nothing matched.
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

/// How the answers of the two engines to one request differ, in the order in which the classes are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DivergenceClass {
    /// There is no native policy: none was built, or the API server refuses it.
    NotConvertible,
    /// The native policy admits what Kyverno refuses or objects to.
    Weaker,
    /// The native policy refuses or objects to what Kyverno admits.
    Stricter,
    /// Both object, with different effects.
    Action,
    /// Both admit, and the objects after admission differ.
    Changed,
    /// The same effect, but one side could not evaluate its expressions.
    Error,
    /// The same effect, but only one side looked at the request.
    Scope,
    /// The same effect with another text.
    Message,
}

impl DivergenceClass {
    /// All of them, in order.
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

    /// The word.
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
