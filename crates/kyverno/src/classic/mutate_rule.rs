//! A mutate rule on one request: context, preconditions, exceptions, patches.
//!
//! Upstream counterpart: `invokeRuleHandler` of `pkg/engine/engine.go` and
//! `pkg/engine/handlers/mutation/{mutate_resource,mutate_existing}.go` (1.19). One JSON context serves all rules of a policy.

use super::{
    context::{Context, Outside},
    mutation::Mutation,
    mutator::{Mutated, Mutator},
    rule::{RuleContext, RuleResult, granted, lifted_by, start},
    target::{Targets, mutate_targets, success},
    variables::substitute_all,
};
use crate::{input::Input, mutate::MutateResult, response::RuleResponse, rule_set::PreparedRule};
use kyvtest_go_compat::value::{Data, Document};
use kyvtest_model::verdict::{Part, Status, Trace};

pub(crate) type MutateRule = PreparedRule<Mutation>;

/// What a rule did.
pub(crate) struct RuleOutcome {
    pub(crate) results: Vec<MutateResult>,
    /// The object of the request after the rule, null if the rule lost it; `None` if it stays as it was.
    pub(crate) resource: Option<Document>,
}

/// The rules of a policy at work on one request.
pub(crate) struct RuleMutator<'d> {
    input: &'d Input<'d>,
    context: Context<'d>,
    new: Data,
}

impl<'d> RuleMutator<'d> {
    /// Sets up the context of a policy.
    pub(crate) fn new(input: &'d Input<'_>, policy: &str, outside: &'d dyn Outside) -> Self {
        let (mut context, new, _) = start(input, policy, outside);
        context.checkpoint();
        Self { input, context, new }
    }

    /// The object of the request, as values of a suite may have changed it; null if absent.
    pub(crate) fn resource(&self) -> Document {
        self.new.to_document()
    }

    /// Evaluates a rule that matches. `resource` is the object after the rules before.
    pub(crate) fn run(
        &mut self,
        rule: &MutateRule,
        rule_context: RuleContext<'_>,
        outside: &'d dyn Outside,
        resource: &Document,
        targets: Option<&dyn Targets>,
    ) -> RuleOutcome {
        self.context.set_outside(outside);
        self.context.checkpoint();
        let outcome = self.handle(rule, rule_context, resource, targets);
        self.context.restore();
        let after = outcome.resource.as_ref().unwrap_or(resource);
        if !after.root().is_null() {
            self.context.add_resource(after);
        }
        outcome
    }

    fn handle(
        &mut self,
        rule: &MutateRule,
        rule_context: RuleContext<'_>,
        resource: &Document,
        targets: Option<&dyn Targets>,
    ) -> RuleOutcome {
        let name = rule_context.rule;
        if let Some(result) = rule.prelude.unmet(&mut self.context) {
            return unchanged(name, result.into(), Part::Precondition(0), &rule.properties);
        }
        let properties = self.properties(&rule.properties);
        let request = self.input.request;
        let lifted = granted(
            &mut self.context,
            &request.cell(),
            &mut self.input.facts(),
            rule_context,
        );
        if !lifted.is_empty() {
            return unchanged(name, lifted_by(&lifted), Part::Exception, &properties);
        }
        if let (true, Some(targets)) = (rule.body.has_targets(), targets) {
            let namespace = rule_context.selection.policy_namespace;
            let results = mutate_targets(&rule.body, &mut self.context, targets, namespace);
            let results = results.into_iter().map(|result| MutateResult {
                response: RuleResponse {
                    panics: result.panics,
                    ..response(name, result.status, result.message, &properties)
                },
                target: result.target,
            });
            return RuleOutcome {
                results: results.collect(),
                resource: None,
            };
        }
        let mut mutator = Mutator {
            context: &mut self.context,
            elements: 0,
        };
        let (status, message, resource, panics) = match mutator.mutate(&rule.body, resource) {
            Mutated::Pass(patched) => (Status::Pass, success(patched.root()), Some(patched), false),
            Mutated::Skip(message) => (Status::Skip, message, None, false),
            // The object is lost with the error: Kyverno goes on with an empty one.
            Mutated::Error(failure) => (Status::Error, failure.message, Some(Document::null()), failure.panics),
        };
        let mut response = response(name, status, message, &properties);
        response.panics = panics;
        RuleOutcome {
            results: vec![response.into()],
            resource,
        }
    }

    /// The report properties, with variables where all of them have values.
    fn properties(&mut self, properties: &[(String, String)]) -> Vec<(String, String)> {
        if properties.is_empty() {
            return Vec::new();
        }
        let written = properties.iter();
        let written: Data = written
            .map(|(key, value)| (key.as_str().into(), Data::from(value.as_str())))
            .collect();
        let Ok(Data::Map(entries)) = substitute_all(&written, &mut self.context) else {
            return properties.to_vec();
        };
        let texts = entries.iter();
        let texts: Option<Vec<(String, String)>> = texts
            .map(|(key, value)| Some((key.to_string(), value.as_str()?.to_owned())))
            .collect();
        texts.unwrap_or_else(|| properties.to_vec())
    }
}

fn unchanged(rule: &str, result: RuleResult, part: Part, properties: &[(String, String)]) -> RuleOutcome {
    let trace = if result.status == Status::Error {
        Trace::error(part)
    } else {
        Trace::of(part)
    };
    let mut response = RuleResponse::new(rule, result.status, result.message, trace);
    response.exceptions = result.exceptions;
    response.properties = properties.to_vec();
    RuleOutcome {
        results: vec![response.into()],
        resource: None,
    }
}

fn response(rule: &str, status: Status, message: String, properties: &[(String, String)]) -> RuleResponse {
    let trace = if status == Status::Error {
        Trace::error(Part::All)
    } else {
        Trace::of(Part::All)
    };
    let mut response = RuleResponse::new(rule, status, message, trace);
    response.properties = properties.to_vec();
    response
}
