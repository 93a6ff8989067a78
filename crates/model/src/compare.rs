//! Compares two verdicts on one request: one class of divergence, with its first cause.
//!
//! The classes are tried in order; the first that holds is the result. A side *objects* if its effect is not to admit.
//! The caller provides the hazards with their messages: nothing here knows how a native policy was generated.
//!
//! Upstream counterpart: none.

use crate::verdict::{DivergenceClass, Effect, Part, Status, Verdict};
use kyvtest_go_compat::value::{Document, Value};

/// The direction in which a known cause moves the native side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tendency {
    /// The native side admits more.
    Weaker,
    /// The native side denies more.
    Stricter,
    Either,
    /// The native side reports another message.
    Text,
}

/// A feature of the policy that may make the two sides differ.
#[derive(Debug, Clone, Copy)]
pub struct CandidateCause<'s> {
    pub code: &'s str,
    pub tendency: Tendency,
    /// The path in the policy: `spec.rules[0].exclude.any[0]`.
    pub path: &'s str,
    pub text: &'s str,
}

/// A difference on one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    pub class: DivergenceClass,
    /// The code of a hazard, or of the conversion's refusal.
    pub code: Option<String>,
    /// Human-readable.
    pub cause: String,
}

/// The class of two verdicts; `None` if they agree.
pub fn class(kyverno: &Verdict, native: &Verdict) -> Option<DivergenceClass> {
    let (ours, theirs) = (kyverno.effect, native.effect);
    // A rule that an exception exempts is not evaluated, even if it is reported as passed.
    let lifted = |verdict: &Verdict| matches!(verdict.trace.part, Part::Exception | Part::ExceptionCondition);
    let evaluated = |verdict: &Verdict| {
        let spoke = !matches!(verdict.status, Status::NoMatch | Status::Skip) && !verdict.status.is_undecided();
        spoke && !lifted(verdict) || verdict.trace.erred
    };
    if ours == Effect::Deny && theirs != Effect::Deny || ours.objects() && !theirs.objects() {
        Some(DivergenceClass::Weaker)
    } else if theirs == Effect::Deny && ours != Effect::Deny || theirs.objects() && !ours.objects() {
        Some(DivergenceClass::Stricter)
    } else if ours != theirs {
        Some(DivergenceClass::Action)
    } else if kyverno.trace.erred != native.trace.erred {
        Some(DivergenceClass::Error)
    } else if evaluated(kyverno) != evaluated(native) {
        Some(DivergenceClass::Scope)
    } else if ours.objects() && kyverno.message != native.message {
        Some(DivergenceClass::Message)
    } else {
        None
    }
}

/// One side of a mutation: its verdict, and the object after admission.
#[derive(Debug, Clone, Copy)]
pub struct Mutation<'m> {
    pub verdict: &'m Verdict,
    /// `None` if the request is denied.
    pub object: Option<&'m Document>,
    /// Whether the side changed the object.
    pub changed: bool,
}

/// Compares two mutations and finds the first cause; `None` if both deny, or admit the same object. Refusals with different
/// texts differ if a cause explains the texts. The order of keys does not count, that of list items does.
pub fn compare_mutations(
    kyverno: Mutation<'_>,
    native: Mutation<'_>,
    suspects: &[CandidateCause<'_>],
) -> Option<Divergence> {
    let class = match (kyverno.object, native.object) {
        (None, None) => return compare_refusals(kyverno.verdict, native.verdict, suspects),
        (None, Some(_)) => DivergenceClass::Weaker,
        (Some(_), None) => DivergenceClass::Stricter,
        (Some(ours), Some(theirs)) if same_object(ours.root(), theirs.root()) => return None,
        (Some(_), Some(_)) => DivergenceClass::Changed,
    };
    let suspect = first_cause(class, kyverno.verdict, native.verdict, suspects);
    let what = match (class, kyverno.changed, native.changed) {
        (DivergenceClass::Weaker, ..) => format!("Kyverno denies the request: {}", kyverno.verdict.message),
        (DivergenceClass::Stricter, ..) => {
            format!("the API server denies the request: {}", native.verdict.message)
        }
        (_, true, false) => "only Kyverno changes the object".to_owned(),
        (_, false, true) => "only the native policy changes the object".to_owned(),
        _ => "both sides change the object, differently".to_owned(),
    };
    Some(Divergence {
        class,
        code: suspect.map(|suspect| suspect.code.to_owned()),
        cause: match suspect {
            Some(suspect) => format!("{what}; {}", suspect.text),
            None => what,
        },
    })
}

fn compare_refusals(kyverno: &Verdict, native: &Verdict, suspects: &[CandidateCause<'_>]) -> Option<Divergence> {
    let class = DivergenceClass::Message;
    let suspect = first_cause(class, kyverno, native, suspects).filter(|_| kyverno.message != native.message)?;
    Some(Divergence {
        class,
        code: Some(suspect.code.to_owned()),
        cause: format!("both sides refuse the request, with different texts; {}", suspect.text),
    })
}

fn same_object(a: Value<'_>, b: Value<'_>) -> bool {
    match (a, b) {
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, value)| b.get_key(key).is_some_and(|other| same_object(value, other)))
        }
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same_object(a, b))
        }
        (a, b) => a == b,
    }
}

/// Compares two verdicts and finds the first cause; `None` if they agree.
pub fn compare(kyverno: &Verdict, native: &Verdict, suspects: &[CandidateCause<'_>]) -> Option<Divergence> {
    let class = class(kyverno, native)?;
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

/// The first candidate that moves the native side in this direction. Prefers candidates with only this direction, and
/// those about the part where the sides differ.
fn first_cause<'s>(
    class: DivergenceClass,
    kyverno: &Verdict,
    native: &Verdict,
    suspects: &'s [CandidateCause<'s>],
) -> Option<&'s CandidateCause<'s>> {
    let fits = |suspect: &&CandidateCause<'_>| match class {
        DivergenceClass::Weaker => matches!(suspect.tendency, Tendency::Weaker | Tendency::Either),
        DivergenceClass::Stricter => matches!(suspect.tendency, Tendency::Stricter | Tendency::Either),
        DivergenceClass::Message => suspect.tendency == Tendency::Text,
        // A side that skips the request or fails to evaluate has no visible effect here, but the causes are the same.
        DivergenceClass::Action | DivergenceClass::Changed | DivergenceClass::Error | DivergenceClass::Scope => {
            suspect.tendency != Tendency::Text
        }
        DivergenceClass::NotConvertible => false,
    };
    let words = [words_of(kyverno.trace.part), words_of(native.trace.part)];
    let is_about = |suspect: &&CandidateCause<'_>| {
        words
            .iter()
            .flat_map(|words| words.iter())
            .any(|word| suspect.path.contains(word))
    };
    let plain = |suspect: &&CandidateCause<'_>| suspect.tendency != Tendency::Either;
    let fitting: Vec<&CandidateCause<'_>> = suspects.iter().filter(fits).collect();
    let rank = |suspect: &&&CandidateCause<'_>| (!is_about(suspect), !plain(suspect));
    // The first of equal rank.
    fitting.iter().min_by_key(rank).copied()
}

/// The words that occur in the paths of a part.
const fn words_of(part: Part) -> &'static [&'static str] {
    match part {
        Part::Namespace => &["metadata.namespace"],
        Part::WebhookCondition(_) => &["webhookConfiguration"],
        // Without a match on one side nothing is known of the other parts.
        Part::Match => &["match"],
        Part::Exclude => &["exclude"],
        Part::Exception | Part::ExceptionCondition => &["exception"],
        Part::Precondition(_) => &["celPreconditions", "preconditions", "matchConditions"],
        Part::Params => &["param"],
        Part::Binding => &["failureAction", "validationActions"],
        Part::AuditAnnotation(_) => &["auditAnnotations"],
        Part::Validation(_) | Part::Mutation(_) | Part::Budget | Part::All | Part::RuleType => &[],
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
            (
                (Fail, Deny, "", false),
                (Pass, Admit, "", false),
                Some(DivergenceClass::Weaker),
            ),
            (
                (Fail, Deny, "", false),
                (Fail, Audit, "", false),
                Some(DivergenceClass::Weaker),
            ),
            (
                (Fail, Audit, "", false),
                (NoMatch, Admit, "", false),
                Some(DivergenceClass::Weaker),
            ),
            (
                (NoMatch, Admit, "", false),
                (Fail, Deny, "", false),
                Some(DivergenceClass::Stricter),
            ),
            (
                (Fail, Warn, "", false),
                (Error, Deny, "", true),
                Some(DivergenceClass::Stricter),
            ),
            (
                (Fail, Audit, "", false),
                (Fail, Warn, "", false),
                Some(DivergenceClass::Action),
            ),
            (
                (Fail, Deny, "x", false),
                (Error, Deny, "y", true),
                Some(DivergenceClass::Error),
            ),
            (
                (Skip, Admit, "", false),
                (Pass, Admit, "", false),
                Some(DivergenceClass::Scope),
            ),
            (
                (Fail, Deny, "x", false),
                (Fail, Deny, "y", false),
                Some(DivergenceClass::Message),
            ),
            ((Pass, Admit, "x", false), (Pass, Admit, "", false), None),
            ((Skip, Admit, "", false), (NoMatch, Admit, "", false), None),
        ];
        for ((s1, e1, m1, r1), (s2, e2, m2, r2), expected) in rows {
            assert_eq!(class(&verdict(s1, e1, m1, r1), &verdict(s2, e2, m2, r2)), expected);
        }
    }
}
