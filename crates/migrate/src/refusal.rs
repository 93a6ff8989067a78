//! Why a rule is not translated: a code, the construct, its place, and what to do by hand.

use kyvtest_go_compat::diagnostic::Span;

/// The constructs that have no translation. The words are part of the JSON output and of the docs table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusalCode {
    /// A function of JMESPath that CEL does not have.
    Function,
    /// A form of JMESPath that has no CEL form of the same meaning.
    Query,
    /// A variable outside the parts of a request that CEL sees.
    Variable,
    /// Roles and cluster roles of the user.
    Roles,
    /// A context entry without a counterpart among Kyverno's CEL libraries.
    Context,
    /// A pattern, anchor or operator whose meaning CEL cannot express.
    Pattern,
    /// An operator of conditions on values whose types are not known.
    Condition,
    /// A form of `match` or `exclude`.
    Match,
    /// A control or version of pod security.
    PodSecurity,
    /// A rule of another type: mutate, generate, verifyImages.
    RuleType,
    /// A setting of the policy or the rule.
    Setting,
    /// The rule does not work as it is: Kyverno rejects the policy, or an expression does not compile.
    Invalid,
    /// The translation decides a request differently; it is not written.
    Refuted,
    /// No request shows that the translation is right; it is not written.
    Untested,
}

impl RefusalCode {
    /// The word in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Query => "query",
            Self::Variable => "variable",
            Self::Roles => "roles",
            Self::Context => "context",
            Self::Pattern => "pattern",
            Self::Condition => "condition",
            Self::Match => "match",
            Self::PodSecurity => "pod-security",
            Self::RuleType => "rule-type",
            Self::Setting => "setting",
            Self::Invalid => "invalid",
            Self::Refuted => "refuted",
            Self::Untested => "untested",
        }
    }
}

/// A construct that is not translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Which kind of construct.
    pub code: RefusalCode,
    /// The construct and what to do by hand, in one sentence each.
    pub reason: String,
    /// Where it is in the source.
    pub span: Option<Span>,
}

impl Refusal {
    /// A refusal whose place is added by the caller (`Refusal::at`).
    pub fn new(code: RefusalCode, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        let span = None;
        Self { code, reason, span }
    }

    /// Adds the place, unless a more exact one is there.
    pub(crate) fn at(mut self, span: Span) -> Self {
        self.span.get_or_insert(span);
        self
    }
}
