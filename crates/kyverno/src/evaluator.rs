//! The oracle of a run: it evaluates the stages of a selection on one request.

use std::convert::Infallible;

use super::{
    input::Input,
    select::{Oracle, Selection, Step},
    webhook::{Call, Webhook},
};
use kyvtest_cel::host::Host;

/// Evaluates what is selected of a policy on a request.
pub(super) struct Evaluator<'e, A, S> {
    input: &'e Input<'e>,
    host: &'e dyn Host,
    call: Call,
    /// Evaluates the conditions of the webhook as Kyverno does; whether it goes on.
    again: A,
    /// Evaluates a step; whether it applied.
    step: S,
    applied: bool,
}

impl<'e, A: FnMut() -> bool, S> Evaluator<'e, A, S> {
    pub(super) const fn new(input: &'e Input<'e>, host: &'e dyn Host, again: A, step: S) -> Self {
        Self {
            input,
            host,
            call: Call::Made,
            again,
            step,
            applied: false,
        }
    }

    /// Evaluates a selection. The steps are evaluated if the API server calls Kyverno.
    pub(super) fn evaluate<'p>(&mut self, selection: &Selection<'p, bool>) -> Call
    where
        S: FnMut(&Step<'p>) -> bool,
    {
        let Ok(()) = selection.decide(self);
        std::mem::replace(&mut self.call, Call::Made)
    }
}

impl<'p, A: FnMut() -> bool, S: FnMut(&Step<'p>) -> bool> Oracle<'p> for Evaluator<'_, A, S> {
    type Requests = bool;
    type Error = Infallible;

    fn both(&mut self, a: bool, b: bool) -> bool {
        a && b
    }

    fn is_empty(&self, requests: bool) -> bool {
        !requests
    }

    fn webhook(&mut self, webhook: &'p Webhook, requests: bool) -> Result<bool, Infallible> {
        self.call = webhook.call(self.input, self.host);
        Ok(requests && self.call == Call::Made)
    }

    fn webhook_again(&mut self, requests: bool) -> Result<bool, Infallible> {
        Ok(requests && (self.again)())
    }

    fn step(&mut self, step: &Step<'p>, _: bool) -> Result<(), Infallible> {
        self.applied = (self.step)(step);
        Ok(())
    }

    fn unapplied(&mut self, _: &Step<'p>, requests: bool) -> Result<bool, Infallible> {
        Ok(requests && !self.applied)
    }
}
