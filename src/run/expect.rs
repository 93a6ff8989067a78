//! Expectations besides results: effects, messages, matches, accepted divergences.
//!
//! They come from the sidecar and the annotations (`docs/sidecar.md`), which Kyverno ignores.

use std::time::Duration;

use super::{Case, Outcome};
use crate::suite::{Expectation, ExpectedDivergence, ExpectedMessage, OldObject};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic};
use kyvtest_model::{policy::Spanned, verdict::Effect};

/// The expectations for one resource, merged.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MergedExpectation<'s> {
    pub(super) old_object: Option<&'s OldObject>,
    pub(super) effect: Option<Spanned<Effect>>,
    pub(super) message: Option<&'s ExpectedMessage>,
    pub(super) matches: Option<Spanned<bool>>,
    pub(super) divergence: Option<&'s ExpectedDivergence>,
}

impl<'s> MergedExpectation<'s> {
    /// Merges later expectations, which take precedence field by field.
    pub(super) fn add(&mut self, later: &'s Expectation) {
        self.old_object = later.old_object.as_ref().or(self.old_object);
        self.effect = later.effect.or(self.effect);
        self.message = later.message.as_ref().or(self.message);
        self.matches = later.matches.or(self.matches);
        self.divergence = later.divergence.as_ref().or(self.divergence);
    }

    pub(super) fn is_empty(&self) -> bool {
        let Self {
            old_object,
            effect,
            message,
            matches,
            divergence,
        } = self;
        old_object.is_none() && effect.is_none() && message.is_none() && matches.is_none() && divergence.is_none()
    }

    /// Whether the policy is expected not to match the resource.
    pub(super) fn no_match(&self) -> bool {
        self.matches.is_some_and(|matches| !matches.value)
    }

    /// Judges the cases of one row on one resource; `matched` says whether a rule had a result. The effect of the
    /// request is the strongest of the results, and any of them may have the message.
    pub(super) fn judge(&self, cases: &mut [Case], matched: bool) {
        for case in cases.iter_mut() {
            case.expected_divergence = self.divergence.cloned().map(Box::new);
        }
        let undecided = |case: &Case| case.outcome.is_undecided() || case.outcome == Outcome::Error;
        if cases.iter().any(undecided) {
            return;
        }
        let effect = |case: &Case| case.kyverno.as_ref().map_or(Effect::Admit, |answer| answer.effect);
        let got = cases.iter().map(effect).max().unwrap_or(Effect::Admit);
        let mut findings = Vec::new();
        if let Some(matches) = self.matches
            && matches.value != matched
        {
            let message = if matched {
                "the policy matches a resource that it should not match"
            } else {
                "the policy does not match a resource that it should match"
            };
            findings.push(Diagnostic::at(Code::UnexpectedMatch, matches.span, message));
        }
        if let Some(wanted) = self.effect
            && wanted.value != got
        {
            let message = format!("expected the effect {}, got {got}", wanted.value);
            findings.push(Diagnostic::at(Code::UnexpectedEffect, wanted.span, message));
        }
        findings.extend(self.message.and_then(|wanted| message(wanted, cases)));
        let strongest = cases.iter_mut().find(|case| effect(case) == got);
        if let Some(case) = strongest {
            for finding in findings {
                case.add_finding(finding);
            }
        }
    }
}

/// Reports the messages if none of them is as expected.
fn message(wanted: &ExpectedMessage, cases: &[Case]) -> Option<Diagnostic> {
    let found = || cases.iter().filter_map(|case| case.kyverno.as_ref());
    let (text, met, what) = match wanted {
        ExpectedMessage::Exact(text) => (
            text,
            found().any(|answer| answer.message == text.value),
            "expected the message",
        ),
        ExpectedMessage::Contains(text) => (
            text,
            found().any(|answer| answer.message.contains(&text.value)),
            "expected a message that contains",
        ),
    };
    if met {
        return None;
    }
    let message = format!("{what} `{}`", text.value);
    let mut diagnostic = Diagnostic::at(Code::UnexpectedMessage, text.span, message);
    for answer in found() {
        diagnostic = diagnostic.with_note(format!("got `{}`", answer.message));
    }
    Some(if found().next().is_none() {
        diagnostic.with_note("no rule produced a result")
    } else {
        diagnostic
    })
}

impl Case {
    /// Adds an unmet expectation: a passing case then fails.
    pub(super) fn add_finding(&mut self, finding: Diagnostic) {
        if self.outcome == Outcome::Pass {
            self.outcome = Outcome::Fail;
            self.reason.clone_from(&finding.message);
        }
        self.findings.push(finding);
    }

    /// Accepts the divergence, if its class or its code is named.
    pub fn accept(&mut self, names: &[String], reason: &str) {
        let named = self.divergence.as_ref().is_some_and(|found| {
            let is = |name: &String| name == found.class.as_str() || Some(name) == found.code.as_ref();
            names.iter().any(is)
        });
        if named {
            self.accepted = Some(reason.to_owned());
        }
    }

    /// Turns a case that exceeded its time limit into an error.
    pub fn limit(&mut self, limit: Duration) {
        if self.elapsed.is_none_or(|elapsed| elapsed <= limit) {
            return;
        }
        // The actual time differs in every run and is not reported.
        let limit = format!("{limit:?}");
        let (number, unit) = limit.split_at(limit.find(char::is_alphabetic).unwrap_or(limit.len()));
        let message = format!("case exceeded the time limit of {number} {unit}");
        let finding = match self.place {
            Some(place) => Diagnostic::at(Code::Timeout, place, message),
            None => Diagnostic::new(Code::Timeout, message),
        };
        self.outcome = Outcome::Error;
        self.reason.clone_from(&finding.message);
        self.findings.push(finding);
    }

    /// The reason for accepting the divergence: the suite's, or the configuration's.
    pub fn accepted_because(&self) -> Option<&str> {
        let class = self.divergence.as_ref()?.class;
        let expected = self.expected_divergence.as_ref();
        let expected = expected.filter(|expected| expected.class.value == class);
        self.accepted
            .as_deref()
            .or(expected.map(|expected| expected.reason.value.as_str()))
    }

    /// Whether the engines diverge in a way that fails a run and that the suite does not expect.
    pub fn diverges(&self) -> bool {
        let found = self.divergence.as_ref();
        found.is_some_and(|found| found.class.fails()) && self.accepted_because().is_none()
    }
}

/// Judges the expected divergence of a case, once its native verdict and its divergence are known: it must occur, so
/// that lists of accepted divergences stay current.
pub fn settle(case: &mut Case) {
    let Some(wanted) = case.expected_divergence.clone() else {
        return;
    };
    let class = wanted.class.value.as_str();
    let message = match &case.divergence {
        None => format!("the expected divergence `{class}` does not occur: the engines agree"),
        Some(found) if found.class != wanted.class.value => {
            format!("expected the divergence `{class}`, found `{}`", found.class.as_str())
        }
        Some(found) => match (&wanted.code, &found.code) {
            (Some(code), Some(got)) if code.value != *got => {
                format!("expected a divergence with the code `{}`, found `{got}`", code.value)
            }
            _ => return,
        },
    };
    let finding = Diagnostic::at(Code::StaleDivergence, wanted.class.span, message)
        .with_note(format!("accepted because: {}", wanted.reason.value))
        .with_help("remove the entry if the difference is gone");
    case.add_finding(finding);
}

/// Fails the cases whose accepted divergence has expired; the time is in seconds since 1970. A run itself has no clock.
pub fn expire(cases: &mut [Case], now: i64) {
    let Ok(now) = jiff::Timestamp::from_second(now) else {
        return;
    };
    let today = now.to_zoned(jiff::tz::TimeZone::UTC).date().to_string();
    for case in cases {
        let wanted = case.expected_divergence.as_ref();
        let Some((day, reason)) =
            wanted.and_then(|wanted| Some((wanted.expires.clone()?, wanted.reason.value.clone())))
        else {
            continue;
        };
        // Dates in this form sort as strings.
        if day.value < today {
            let message = format!("accepted divergence expired on {}", day.value);
            let finding = Diagnostic::at(Code::ExpiredDivergence, day.span, message)
                .with_note(format!("accepted because: {reason}"))
                .with_help("repair the difference, or accept it until a later day");
            case.add_finding(finding);
        }
    }
}
