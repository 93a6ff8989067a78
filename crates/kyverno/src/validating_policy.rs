//! ValidatingPolicy and NamespacedValidatingPolicy.
//!
//! Upstream counterpart: `pkg/cel/policies/vpol/{compiler,engine}` and `pkg/cel/compiler` (1.19). A policy with an
//! expression that cannot be compiled is rejected as a whole. Known deviation: upstream evaluates audit annotations in
//! the order of a Go map, we in the order in which they are written.

mod compile;
mod evaluate;

use super::{
    cel_policy::{Exception, Identity, Slots, Validation},
    constraints::applies,
    input::Input,
    lens::Lens,
    response::RuleResponse,
    select::{Selected, Stages, Step},
};
use kyvtest_cel::{
    composite::Composite,
    env::Env,
    host::{Host, Wrapped},
    observe::Place,
    program::Program,
};
use kyvtest_go_compat::value::Value;
use kyvtest_model::{
    kube::{Facts, InvalidSelector, RequestClass},
    policy::{MatchConstraints, Mode, ValidationAction},
    verdict::{Effect, Part, Status, Trace},
};

#[derive(Debug)]
pub struct CompiledValidatingPolicy {
    identity: Identity,
    mode: Mode,
    admission: bool,
    scored: bool,
    constraints: Option<MatchConstraints>,
    ignores_errors: bool,
    actions: Vec<ValidationAction>,
    env: Env,
    slots: Slots,
    match_conditions: Vec<Program>,
    composite: Composite,
    validations: Vec<Validation>,
    audit_annotations: Vec<(String, Program)>,
    exceptions: Vec<Exception>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PolicyResult {
    /// It does not match, because of this part.
    NoMatch(Part),
    /// The policy is evaluated.
    Rule(RuleResponse),
}

impl CompiledValidatingPolicy {
    pub fn name(&self) -> &str {
        &self.identity.id.name
    }

    /// The kind of input that it looks at.
    pub fn mode(&self) -> &Mode {
        &self.mode
    }

    /// What violations mean.
    pub(crate) fn actions(&self) -> &[ValidationAction] {
        &self.actions
    }

    /// Whether its violations count: without that they are warnings in reports.
    pub(crate) fn is_scored(&self) -> bool {
        self.scored
    }

    /// The policy's match block, if it has one.
    pub fn constraints(&self) -> Option<&MatchConstraints> {
        self.constraints.as_ref()
    }

    /// The programs of the policy, for observers; exceptions have none.
    pub fn programs(&self) -> Vec<(Place, &Program)> {
        let conditions = self.match_conditions.iter().enumerate();
        let conditions = conditions.map(|(i, program)| (Place::MatchCondition(i), program));
        let validations = self.validations.iter().enumerate().flat_map(|(i, validation)| {
            let message = validation.message_expression.iter();
            std::iter::once((Place::Validation(i), &validation.program))
                .chain(message.map(move |program| (Place::Message(i), program)))
        });
        let annotations = self.audit_annotations.iter().enumerate();
        let annotations = annotations.map(|(i, (_, program))| (Place::Annotation(i), program));
        let variables = self.composite.places();
        variables
            .chain(conditions)
            .chain(validations)
            .chain(annotations)
            .collect()
    }

    /// Whether an error in a match condition means that the policy does not apply.
    pub fn ignores_errors(&self) -> bool {
        self.ignores_errors
    }

    /// The conditions of each exception, and whether it lifts the policy as a whole.
    pub fn exception_programs(&self) -> impl Iterator<Item = (bool, &[Program])> {
        let exceptions = self.exceptions.iter();
        exceptions.map(|exception| (exception.is_full(), exception.conditions()))
    }

    /// Whether the policy is evaluated on the requests of a cell, and with which effects.
    pub fn select<'p>(
        &'p self,
        number: usize,
        cell: &RequestClass<'_>,
        facts: &mut impl Facts<'p>,
        lens: Lens,
    ) -> Step<'p> {
        if lens.admission_switch && !self.admission || self.mode == Mode::Json {
            return Step::unselected(number, Part::Match);
        }
        if !self.identity.admits(lens, cell, facts) {
            return Step::unselected(number, Part::Namespace);
        }
        let Some(constraints) = &self.constraints else {
            return Step::unselected(number, Part::Match);
        };
        match applies(constraints, cell, facts) {
            Ok(true) => Step::new(number, Stages::CEL, [self.effect(); 2]),
            Ok(false) => Step::unselected(number, Part::Match),
            Err(InvalidSelector { error }) => Step::invalid(number, error, self.effect()),
        }
    }

    /// Answers a request.
    pub(crate) fn decide(&self, input: &Input<'_>, host: &dyn Host) -> PolicyResult {
        let step = self.select(0, &input.request.cell(), &mut input.cel_facts(), input.lens);
        self.respond(&step, input, host)
    }

    /// Answers a request by what is selected.
    pub(super) fn respond(&self, step: &Step<'_>, input: &Input<'_>, host: &dyn Host) -> PolicyResult {
        match step.selected {
            Selected::No(part) => PolicyResult::NoMatch(part),
            Selected::Invalid(error) => {
                let message = format!("failed to execute matching: {}", InvalidSelector { error });
                let response = RuleResponse::new("match", Status::Error, message, Trace::error(Part::Match));
                PolicyResult::Rule(self.with_effect(response))
            }
            Selected::Yes => PolicyResult::Rule(self.evaluate(input.policy().values(), host)),
        }
    }

    /// Answers about a payload: only `object` has a value.
    pub(crate) fn decide_payload(&self, payload: Value<'_>, host: &dyn Host) -> RuleResponse {
        self.evaluate([payload, Value::Null, Value::Null, Value::Null], host)
    }

    fn evaluate(&self, documents: [Value<'_>; 4], host: &dyn Host) -> RuleResponse {
        let host = Wrapped::in_namespace(host, self.identity.confined_to());
        let response = evaluate::evaluate(self, documents, &host);
        self.with_effect(response)
    }

    /// The effect of a violation or error: deny, report or warn, by the policy's actions.
    pub fn effect(&self) -> Effect {
        let has = |action| self.actions.contains(&action);
        if has(ValidationAction::Deny) {
            Effect::Deny
        } else if has(ValidationAction::Audit) {
            Effect::Audit
        } else {
            Effect::Warn
        }
    }

    fn with_effect(&self, mut response: RuleResponse) -> RuleResponse {
        if matches!(response.status, Status::Fail | Status::Error) {
            response.effect = self.effect();
        }
        response
    }
}
