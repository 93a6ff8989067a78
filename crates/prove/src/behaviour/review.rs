//! The engines that behaviours are searched with.
//!
//! No upstream counterpart.

use super::{RequestOutcome, Side};
use crate::{pair::Pair, replay::Engines, witness::Scenario};
use kyvtest_go_compat::value::Document;
use kyvtest_model::{
    compare::Divergence,
    verdict::{Part, Status, Verdict},
};

/// What becomes of a request.
pub(super) struct Reviewed {
    pub(super) kyverno: Verdict,
    pub(super) native: Verdict,
    /// What mutation made of the object; `None` if the policy validates.
    pub(super) mutation: Option<Mutation>,
}

/// What mutation made of an object.
pub(super) struct Mutation {
    pub(super) changed: bool,
    /// The object after admission; `None` if the request is refused.
    pub(super) object: Option<Document>,
}

impl Reviewed {
    /// What becomes of the request on a side; `None` if that is not decided.
    pub(super) fn fate(&self, side: Side) -> Option<RequestOutcome> {
        let verdict = match side {
            Side::Kyverno => &self.kyverno,
            Side::Native => &self.native,
        };
        let Some(mutation) = &self.mutation else {
            return RequestOutcome::of(verdict);
        };
        match verdict.status {
            Status::Error | Status::Fail | Status::Warn => Some(RequestOutcome::Fails(verdict.effect)),
            Status::NoMatch => Some(RequestOutcome::LeftAlone),
            Status::Pass | Status::Skip if mutation.changed => Some(RequestOutcome::Changed),
            Status::Pass => Some(RequestOutcome::Unchanged),
            // A rule without anything to change is skipped as well.
            Status::Skip => Some(match verdict.trace.part {
                Part::Precondition(_) | Part::Exception | Part::ExceptionCondition => RequestOutcome::Skipped,
                _ => RequestOutcome::Unchanged,
            }),
            Status::NeedsRegistry | Status::Unsupported => None,
        }
    }

    /// The request with the object that mutation made of it, if it changed.
    pub(super) fn after(&self, scenario: &Scenario) -> Option<Scenario> {
        let mutation = self.mutation.as_ref().filter(|mutation| mutation.changed)?;
        let mut scenario = scenario.clone();
        scenario.request.object = mutation.object.clone()?;
        Some(scenario)
    }

    /// Whether the same becomes of another request.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let same = |a: &Verdict, b: &Verdict| (a.status, a.effect) == (b.status, b.effect);
        let changed = |reviewed: &Self| reviewed.mutation.as_ref().map(|mutation| mutation.changed);
        same(&self.kyverno, &other.kyverno) && same(&self.native, &other.native) && changed(self) == changed(other)
    }
}

/// Sends requests to engines.
pub(super) trait Reviewer {
    fn review(&self, scenario: &Scenario) -> Reviewed;

    /// The difference between the two sides; `None` if they agree, or if there is one side only.
    fn divergence(&self, scenario: &Scenario, reviewed: &Reviewed) -> Option<Divergence>;

    /// Whether objects are changed, not validated.
    fn mutates(&self) -> bool;

    /// How many outcomes of a group are searched for; `None` for examples, of which one that complies and one that violates
    /// are wanted.
    fn wanted(&self) -> Option<usize>;
}

/// A validating policy and its native counterpart.
pub(super) struct Validation<'v, 'u> {
    pub(super) engines: &'v Engines<'u>,
    pub(super) pair: &'v Pair,
    pub(super) has_native: bool,
    pub(super) is_example: bool,
}

impl Reviewer for Validation<'_, '_> {
    fn review(&self, scenario: &Scenario) -> Reviewed {
        let (kyverno, native) = self.engines.ask(scenario);
        Reviewed {
            kyverno,
            native,
            mutation: None,
        }
    }

    fn divergence(&self, scenario: &Scenario, reviewed: &Reviewed) -> Option<Divergence> {
        let cause = || self.pair.cause(&reviewed.kyverno, &reviewed.native, &scenario.request);
        self.has_native.then(cause).flatten()
    }

    fn mutates(&self) -> bool {
        false
    }

    fn wanted(&self) -> Option<usize> {
        (!self.is_example).then_some(2)
    }
}
