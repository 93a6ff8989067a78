//! Which parts of a policy decide about a request, and in which order.
//!
//! Upstream counterpart: `pkg/webhooks/resource/{validation,vpol}`, `pkg/engine/{engine,validation}.go` and
//! `pkg/cel/policies/vpol/{engine,compiler}` (1.19), after the API server's webhook plugin.
//!
//! The order is written once, for runs and for proofs. What [`Facts`](kyvtest_model::kube::Facts) decide is a
//! [`Selection`]: the webhook, the policy's own switches, and one [`Step`] for each rule with its effects and
//! exceptions. What only expressions decide is left to an [`Oracle`], which [`Selection::decide`] leads through the
//! stages: the engine evaluates them on one request, a proof turns them into truth values or formulas about many. A set
//! of requests is a boolean in a run and on a path of a proof, and a formula in a proof that unites its paths.

use super::{exception::CompiledException, webhook::Webhook};
use kyvtest_model::verdict::{Effect, Part, Status};

/// One part of a rule or CEL policy that is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// `context` and `preconditions` of a classic rule.
    Preconditions,
    /// The exceptions: those of kyverno.io that match, under their conditions; those of policies.kyverno.io.
    Exceptions,
    /// The match conditions of a CEL policy.
    Conditions,
    /// What remains. To a classic rule in CEL that includes `celPreconditions`, which it evaluates for each parameter.
    Check,
    /// A selector that Kubernetes rejects: the policy is an error.
    InvalidSelector,
}

/// Stages in the order of evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stages(&'static [Stage]);

impl Stages {
    /// Those of a rule of a ClusterPolicy or Policy.
    pub(crate) const CLASSIC: Self = Self(&[Stage::Preconditions, Stage::Exceptions, Stage::Check]);
    /// Those of a ValidatingPolicy.
    pub(crate) const CEL: Self = Self(&[Stage::Exceptions, Stage::Conditions, Stage::Check]);
    const INVALID: Self = Self(&[Stage::InvalidSelector]);
    const NONE: Self = Self(&[]);

    /// Evaluates the stages one after the other: each gets the requests that the one before let through.
    ///
    /// # Errors
    /// That of the first stage that has one.
    pub fn decide<R: Copy, E>(
        self,
        requests: R,
        mut stage: impl FnMut(Stage, R) -> Result<Option<R>, E>,
    ) -> Result<(), E> {
        let mut reached = requests;
        for one in self.0 {
            match stage(*one, reached)? {
                Some(requests) => reached = requests,
                None => break,
            }
        }
        Ok(())
    }
}

/// Whether facts select a rule or CEL policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selected<'p> {
    /// They do.
    Yes,
    /// They do not, because of this part.
    No(Part),
    /// They would, but for a selector that Kubernetes rejects, with its message.
    Invalid(&'p str),
}

/// A rule of a classic policy, or a CEL policy as written or generated, with the part that facts decide.
#[derive(Debug, Clone)]
pub struct Step<'p> {
    /// Its index among the rules for the kind of the request, or among the policies that autogen makes.
    pub number: usize,
    /// Whether it is evaluated.
    pub(crate) selected: Selected<'p>,
    /// The exceptions of kyverno.io that match; their conditions are still to be evaluated.
    pub exceptions: Vec<&'p CompiledException>,
    /// What a violation does.
    pub fail: Effect,
    pub error: Effect,
    stages: Stages,
}

impl<'p> Step<'p> {
    /// One that is not evaluated.
    pub(super) const fn unselected(number: usize, part: Part) -> Self {
        Self {
            number,
            selected: Selected::No(part),
            exceptions: Vec::new(),
            fail: Effect::Admit,
            error: Effect::Admit,
            stages: Stages::NONE,
        }
    }

    /// One that is evaluated in stages.
    pub(super) const fn new(number: usize, stages: Stages, [fail, error]: [Effect; 2]) -> Self {
        Self {
            number,
            selected: Selected::Yes,
            exceptions: Vec::new(),
            fail,
            error,
            stages,
        }
    }

    /// The same with exceptions that match.
    pub(super) fn with_exceptions(mut self, exceptions: Vec<&'p CompiledException>) -> Self {
        self.exceptions = exceptions;
        self
    }

    /// One with an invalid selector.
    pub(super) fn invalid(number: usize, message: &'p str, effect: Effect) -> Self {
        Self {
            selected: Selected::Invalid(message),
            ..Self::new(number, Stages::INVALID, [effect, effect])
        }
    }

    /// The stages that are evaluated.
    pub const fn stages(&self) -> Stages {
        self.stages
    }

    /// Whether anything is evaluated.
    pub(crate) const fn is_evaluated(&self) -> bool {
        !matches!(self.selected, Selected::No(_))
    }

    /// What a status does to the request.
    pub const fn effect(&self, status: Status) -> Effect {
        match status {
            Status::Fail => self.fail,
            Status::Error => self.error,
            _ => Effect::Admit,
        }
    }

    /// Whether two steps are the same to an oracle.
    fn is_like(&self, other: &Self) -> bool {
        let exceptions = self.exceptions.iter().zip(&other.exceptions);
        self.number == other.number
            && self.selected == other.selected
            && (self.fail, self.error) == (other.fail, other.error)
            && self.exceptions.len() == other.exceptions.len()
            && exceptions.into_iter().all(|(a, b)| std::ptr::eq(*a, *b))
    }
}

/// The steps of a policy that facts select for the requests of a class.
#[derive(Debug, Clone)]
pub struct Selection<'p, R> {
    /// The webhook whose match conditions the API server evaluates before it calls Kyverno.
    pub webhook: Option<&'p Webhook>,
    /// The requests that the webhook lists.
    pub delivered: R,
    /// The requests that the policy looks at.
    pub(crate) open: R,
    /// What keeps all rules out, if something does.
    pub(crate) closed: Option<Part>,
    /// Whether Kyverno evaluates the conditions of the webhook a second time.
    pub(crate) evaluates_again: bool,
    /// Whether the first rule that applies is the last: `applyRules: One`.
    pub(crate) only_one: bool,
    /// The rules in order, each with the requests that it is evaluated on.
    pub steps: Vec<(Step<'p>, R)>,
}

/// Evaluates what facts do not decide.
pub trait Oracle<'p> {
    /// A set of requests.
    type Requests: Copy;
    /// Why something cannot be evaluated.
    type Error;

    /// Returns what is in both sets.
    fn both(&mut self, a: Self::Requests, b: Self::Requests) -> Self::Requests;

    /// Whether a set of requests is empty.
    fn is_empty(&self, requests: Self::Requests) -> bool;

    /// Evaluates the match conditions of the webhook; returns the requests that Kyverno is called for.
    ///
    /// # Errors
    /// If a condition cannot be decided.
    fn webhook(&mut self, webhook: &'p Webhook, requests: Self::Requests) -> Result<Self::Requests, Self::Error>;

    /// Evaluates them as Kyverno does once more; returns the requests on which all of them hold.
    ///
    /// # Errors
    /// If a condition cannot be decided.
    fn webhook_again(&mut self, requests: Self::Requests) -> Result<Self::Requests, Self::Error>;

    /// Evaluates a step, in the order of [`Step::stages`].
    ///
    /// # Errors
    /// If a stage cannot be decided.
    fn step(&mut self, step: &Step<'p>, requests: Self::Requests) -> Result<(), Self::Error>;

    /// Returns the requests on which the step that was just evaluated did not apply.
    ///
    /// # Errors
    /// If that cannot be decided.
    fn unapplied(&mut self, step: &Step<'p>, requests: Self::Requests) -> Result<Self::Requests, Self::Error>;
}

impl<'p, R: Copy> Selection<'p, R> {
    /// Leads an oracle through everything that is evaluated, in order.
    ///
    /// # Errors
    /// The first error of the oracle.
    pub fn decide<O>(&self, oracle: &mut O) -> Result<(), O::Error>
    where
        O: Oracle<'p, Requests = R>,
    {
        let mut open = self.delivered;
        if let Some(webhook) = self.webhook {
            open = oracle.webhook(webhook, open)?;
        }
        open = oracle.both(open, self.open);
        if self.evaluates_again && !oracle.is_empty(open) {
            open = oracle.webhook_again(open)?;
        }
        let mut steps = self.steps.iter().filter(|(step, _)| step.is_evaluated()).peekable();
        while let Some((step, requests)) = steps.next() {
            let reached = oracle.both(open, *requests);
            if !oracle.is_empty(reached) {
                oracle.step(step, reached)?;
            }
            if self.only_one && steps.peek().is_some() {
                open = oracle.unapplied(step, open)?;
            }
            if oracle.is_empty(open) {
                break;
            }
        }
        Ok(())
    }

    /// Unites the selections on the paths of a proof, each with the requests of its path; `None` if there is none. `either`
    /// unites sets of requests.
    pub fn united(
        paths: impl IntoIterator<Item = (R, Selection<'p, bool>)>,
        nothing: R,
        mut either: impl FnMut(Vec<R>) -> R,
    ) -> Option<Self> {
        let mut first: Option<Selection<'p, bool>> = None;
        let (mut delivered, mut open) = (Vec::new(), Vec::new());
        let mut steps: Vec<(Step<'p>, Vec<R>)> = Vec::new();
        for (requests, mut path) in paths {
            delivered.push(requests);
            if path.open {
                open.push(requests);
            }
            for (step, _) in std::mem::take(&mut path.steps) {
                match steps.iter_mut().find(|(other, _)| other.is_like(&step)) {
                    Some((_, all)) => all.push(requests),
                    None => steps.push((step, vec![requests])),
                }
            }
            first.get_or_insert(path);
        }
        let first = first?;
        let mut unite = |all: Vec<R>| if all.is_empty() { nothing } else { either(all) };
        // Steps come in the order of rules, whichever path has them first.
        steps.sort_by_key(|(step, _)| step.number);
        Some(Self {
            webhook: first.webhook,
            delivered: unite(delivered),
            open: unite(open),
            closed: first.closed,
            evaluates_again: first.evaluates_again,
            only_one: first.only_one,
            steps: steps.into_iter().map(|(step, all)| (step, unite(all))).collect(),
        })
    }
}

impl Selection<'_, bool> {
    /// The last part that kept a rule out.
    pub(super) fn last_part(&self) -> Option<Part> {
        let parts = self.steps.iter().rev().map(|(step, _)| step.selected);
        let mut parts = parts.filter_map(|selected| match selected {
            Selected::No(part) => Some(part),
            Selected::Yes | Selected::Invalid(_) => None,
        });
        self.closed.or_else(|| parts.next())
    }
}
