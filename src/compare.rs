//! Two verdicts on one request: one class of divergence, with its first cause.
//!
//! The classes stand in the order in which they are tried; the first that holds is the answer. A side *objects* if its
//! effect is not to admit. What the texts of the hazards say comes from the caller: nothing here knows how a native policy
//! was made.

use std::fmt;

use crate::verdict::{Effect, Part, Status, Verdict};

/// How the two sides differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// There is no native policy: none was built, or the API server refuses it.
    NotConvertible,
    /// The native policy admits what Kyverno refuses or objects to.
    Weaker,
    /// The native policy refuses or objects to what Kyverno admits.
    Stricter,
    /// Both object, with different effects.
    Action,
    /// The same effect, but one side could not evaluate its expressions.
    Error,
    /// The same effect, but only one side looked at the request.
    Scope,
    /// The same effect with another text.
    Message,
    /// No difference.
    Equal,
}

impl Class {
    /// All of them, in the order in which they are tried.
    pub const ALL: [Self; 8] = [
        Self::NotConvertible,
        Self::Weaker,
        Self::Stricter,
        Self::Action,
        Self::Error,
        Self::Scope,
        Self::Message,
        Self::Equal,
    ];

    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotConvertible => "not-convertible",
            Self::Weaker => "weaker",
            Self::Stricter => "stricter",
            Self::Action => "action",
            Self::Error => "error",
            Self::Scope => "scope",
            Self::Message => "message",
            Self::Equal => "equal",
        }
    }

    /// The class with a name.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == word)
    }

    /// Whether it lets a run fail if nobody expects it.
    pub const fn fails(self) -> bool {
        matches!(
            self,
            Self::Weaker | Self::Stricter | Self::Action | Self::Error | Self::Scope
        )
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Which way a known cause moves the native side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tendency {
    /// It admits more.
    Weaker,
    /// It refuses more.
    Stricter,
    /// Either.
    Either,
    /// It says something else.
    Text,
}

/// Something in the policy that may make the two sides differ.
#[derive(Debug, Clone, Copy)]
pub struct Suspect<'s> {
    /// Its code.
    pub code: &'s str,
    /// Which way.
    pub tendency: Tendency,
    /// The part of the policy: `spec.rules[0].exclude.any[0]`.
    pub path: &'s str,
    /// What is the matter and what to write instead.
    pub text: &'s str,
}

/// The difference on one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// The class.
    pub class: Class,
    /// The code of the cause: a hazard's, or that of the refusal.
    pub code: Option<String>,
    /// The cause for people.
    pub cause: String,
}

/// The class of two verdicts.
pub fn class(kyverno: &Verdict, native: &Verdict) -> Class {
    let (ours, theirs) = (kyverno.effect, native.effect);
    let evaluated = |verdict: &Verdict| {
        !matches!(verdict.status, Status::NoMatch | Status::Skip | Status::Unsupported) || verdict.trace.erred
    };
    if ours == Effect::Deny && theirs != Effect::Deny || ours.objects() && !theirs.objects() {
        Class::Weaker
    } else if theirs == Effect::Deny && ours != Effect::Deny || theirs.objects() && !ours.objects() {
        Class::Stricter
    } else if ours != theirs {
        Class::Action
    } else if kyverno.trace.erred != native.trace.erred {
        Class::Error
    } else if evaluated(kyverno) != evaluated(native) {
        Class::Scope
    } else if ours.objects() && kyverno.message != native.message {
        Class::Message
    } else {
        Class::Equal
    }
}

/// The difference with its first cause; `None` if there is none.
pub fn compare(kyverno: &Verdict, native: &Verdict, suspects: &[Suspect<'_>]) -> Option<Divergence> {
    let class = class(kyverno, native);
    if class == Class::Equal {
        return None;
    }
    let suspect = first_cause(class, kyverno, native, suspects);
    let cause = match suspect {
        Some(suspect) => suspect.text.to_owned(),
        None => format!(
            "Kyverno: {} by {}; native policy: {} by {}",
            kyverno.status, kyverno.trace.part, native.status, native.trace.part
        ),
    };
    Some(Divergence {
        class,
        code: suspect.map(|suspect| suspect.code.to_owned()),
        cause,
    })
}

/// The first suspect that moves the native side this way, best one that is about the part where the sides part.
fn first_cause<'s>(
    class: Class,
    kyverno: &Verdict,
    native: &Verdict,
    suspects: &'s [Suspect<'s>],
) -> Option<&'s Suspect<'s>> {
    let fits = |suspect: &&Suspect<'_>| match class {
        Class::Weaker => matches!(suspect.tendency, Tendency::Weaker | Tendency::Either),
        Class::Stricter => matches!(suspect.tendency, Tendency::Stricter | Tendency::Either),
        Class::Message => suspect.tendency == Tendency::Text,
        // Whether one side looks or can evaluate shows in no effect here, but comes from the same causes.
        Class::Action | Class::Error | Class::Scope => suspect.tendency != Tendency::Text,
        Class::NotConvertible | Class::Equal => false,
    };
    let words = [words_of(kyverno.trace.part), words_of(native.trace.part)];
    let is_about = |suspect: &&Suspect<'_>| {
        words
            .iter()
            .flat_map(|words| words.iter())
            .any(|word| suspect.path.contains(word))
    };
    let mut fitting = suspects.iter().filter(fits);
    fitting.clone().find(is_about).or_else(|| fitting.next())
}

/// What the paths of a part have in them.
const fn words_of(part: Part) -> &'static [&'static str] {
    match part {
        Part::Namespace => &["metadata.namespace"],
        Part::WebhookCondition(_) => &["webhookConfiguration"],
        // Without a match in one of them nothing is known of the others.
        Part::Match => &["match"],
        Part::Exclude => &["exclude"],
        Part::Exception | Part::ExceptionCondition => &["exception"],
        Part::Precondition(_) => &["celPreconditions", "preconditions", "matchConditions"],
        Part::Params => &["param"],
        Part::Binding => &["failureAction", "validationActions"],
        Part::AuditAnnotation(_) => &["auditAnnotations"],
        Part::Validation(_) | Part::Budget | Part::All | Part::RuleType => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Trace;

    fn verdict(status: Status, effect: Effect, message: &str, erred: bool) -> Verdict {
        Verdict {
            status,
            effect,
            message: message.to_owned(),
            trace: Trace {
                part: Part::Validation(0),
                erred,
            },
        }
    }

    #[test]
    fn the_first_class_that_holds() {
        use Effect::{Admit, Audit, Deny, Warn};
        use Status::{Error, Fail, NoMatch, Pass, Skip};
        let rows = [
            ((Fail, Deny, "", false), (Pass, Admit, "", false), Class::Weaker),
            ((Fail, Deny, "", false), (Fail, Audit, "", false), Class::Weaker),
            ((Fail, Audit, "", false), (NoMatch, Admit, "", false), Class::Weaker),
            ((NoMatch, Admit, "", false), (Fail, Deny, "", false), Class::Stricter),
            ((Fail, Warn, "", false), (Error, Deny, "", true), Class::Stricter),
            ((Fail, Audit, "", false), (Fail, Warn, "", false), Class::Action),
            ((Fail, Deny, "x", false), (Error, Deny, "y", true), Class::Error),
            ((Skip, Admit, "", false), (Pass, Admit, "", false), Class::Scope),
            ((Fail, Deny, "x", false), (Fail, Deny, "y", false), Class::Message),
            ((Pass, Admit, "x", false), (Pass, Admit, "", false), Class::Equal),
            ((Skip, Admit, "", false), (NoMatch, Admit, "", false), Class::Equal),
        ];
        for ((s1, e1, m1, r1), (s2, e2, m2, r2), expected) in rows {
            assert_eq!(class(&verdict(s1, e1, m1, r1), &verdict(s2, e2, m2, r2)), expected);
        }
    }

    #[test]
    fn every_class_has_its_name() {
        for class in Class::ALL {
            assert_eq!(Class::named(class.as_str()), Some(class));
        }
    }
}
