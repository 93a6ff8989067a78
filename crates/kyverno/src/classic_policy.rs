//! ClusterPolicy and Policy: gates, rules in order, exceptions, actions.
//!
//! Upstream counterpart: `pkg/engine/engine.go`, `pkg/engine/validation.go`, `pkg/engine/internal/match.go` (1.19). Rules that
//! do not validate have no result here; those with assertion trees are `unsupported` if they match.

use std::{
    convert::Infallible,
    sync::{Arc, OnceLock},
};

use super::{
    autogen::{controllers, rules_for},
    cel_rule::CompiledRule,
    classic::{
        observe::Parts,
        rule::{ClassicRule, Driver, Prelude, RuleContext, RuleResult, lifted_by, outside},
    },
    evaluator::Evaluator,
    exception::{self, CompiledException},
    failure_action::Actions,
    input::Input,
    lens::Lens,
    matching::{self, explain, filter_that_applies, mismatch},
    observe::WatchedRule,
    response::{RuleResponse, Unsupported},
    select::{Selection, Stage, Stages, Step},
    webhook::Call,
};
use kyvtest_cel::{
    admission::{Cause, Decision, Declarations, Outcome, Parts as Texts, Validator},
    context::Scratch,
    host::{Attributes, Host, NoHost},
    observe::Observer,
    profile::Profile,
};
use kyvtest_go_compat::value::Value;
use kyvtest_model::{
    kube::{Atom, Facts, Operation, Pattern, RequestClass, Text},
    policy::{ClassicPolicy, MatchResources, PolicyKind, Rule},
    verdict::{Part, Status, Trace},
};

#[derive(Debug)]
pub struct CompiledClassicPolicy {
    policy: Arc<ClassicPolicy>,
    key: String,
    /// The namespace that requests must be in; `None` for a ClusterPolicy.
    namespace: Option<String>,
    conditions: Option<Validator>,
    /// The rules for the kinds that the policy generates rules for, compiled when the first request needs them.
    generated: Vec<(String, OnceLock<Vec<Compiled>>)>,
    /// The rules for all other kinds.
    written: OnceLock<Vec<Compiled>>,
    lens: Lens,
}

#[derive(Debug)]
struct Compiled {
    name: String,
    matches: MatchResources,
    exclude: Option<MatchResources>,
    actions: Actions,
    prelude: Prelude,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Cel(Box<CompiledRule>),
    Classic(Box<ClassicRule>),
    Unsupported(Unsupported),
    /// The rule does not validate: other stages evaluate it.
    Elsewhere,
}

/// The responses of a policy to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyResponse {
    /// The responses of the rules that match, in order.
    pub rules: Vec<RuleResponse>,
    /// The last part that kept a rule out, or all of them.
    pub part: Option<Part>,
}

impl CompiledClassicPolicy {
    /// Prepares a policy with everything that belongs to it.
    pub fn new(policy: Arc<ClassicPolicy>) -> Self {
        Self::with_lens(policy, Lens::CLUSTER)
    }

    /// Prepares what counts of a policy with a lens.
    pub(crate) fn with_lens(policy: Arc<ClassicPolicy>, lens: Lens) -> Self {
        let own = policy
            .metadata
            .namespace
            .as_ref()
            .map(|namespace| namespace.value.clone());
        let conditions = policy
            .spec
            .webhook
            .as_ref()
            .map(|webhook| webhook.match_conditions.as_slice());
        let conditions = conditions
            .filter(|conditions| lens.webhook_conditions && !conditions.is_empty())
            .map(|conditions| {
                let parts = Texts {
                    match_conditions: conditions
                        .iter()
                        .map(|condition| (condition.name.value.as_str(), condition.expression.text()))
                        .collect(),
                    ..Texts::default()
                };
                let declarations = Declarations {
                    params: false,
                    authorizer: false,
                    variables: true,
                };
                Validator::compile(Profile::kyverno_classic(), declarations, &parts)
            });
        Self {
            key: policy.key(),
            namespace: (policy.kind == PolicyKind::Policy).then(|| own.unwrap_or_else(|| "default".to_owned())),
            conditions,
            generated: if lens.autogen {
                let kinds = controllers(&policy).into_iter();
                kinds.map(|kind| (kind, OnceLock::new())).collect()
            } else {
                Vec::new()
            },
            written: OnceLock::new(),
            lens,
            policy,
        }
    }

    pub fn policy(&self) -> &Arc<ClassicPolicy> {
        &self.policy
    }

    /// Whether its violations count: without that they are warnings in reports.
    pub(crate) fn is_scored(&self) -> bool {
        let scored = self.policy.metadata.annotation("policies.kyverno.io/scored");
        scored.is_none_or(|value| value.value != "false")
    }

    /// The rules in force for a kind.
    fn rules(&self, kind: &str) -> &[Compiled] {
        let compile = |kind: &str| {
            let rules = rules_for(&self.policy, kind);
            let compiled = rules.iter().map(|rule| Compiled::new(&self.policy, rule, self.lens));
            compiled.collect()
        };
        match self.generated.iter().find(|(known, _)| known == kind) {
            Some((_, rules)) => rules.get_or_init(|| compile(kind)),
            None => self.written.get_or_init(|| compile("")),
        }
    }

    /// The names, `match` and `exclude` of the rules in force for a kind.
    pub(super) fn selections(
        &self,
        kind: &str,
    ) -> impl Iterator<Item = (&str, &MatchResources, Option<&MatchResources>)> {
        let rules = self.rules(kind).iter();
        rules.map(|rule| (rule.name.as_str(), &rule.matches, rule.exclude.as_ref()))
    }

    /// Returns its rules with the results of their parts: the written rules, and the generated ones that were
    /// evaluated.
    pub fn watched(&self, observer: &Observer) -> Vec<WatchedRule<'_>> {
        let generated = self.generated.iter().filter_map(|(_, rules)| rules.get());
        let rules = self.rules("").iter().chain(generated.flatten());
        rules
            .map(|rule| {
                let mut parts = Parts {
                    observer,
                    found: Vec::new(),
                };
                rule.prelude.parts(&mut parts);
                if let Body::Classic(classic) = &rule.body {
                    classic.parts(&mut parts);
                }
                WatchedRule {
                    rule: &rule.name,
                    programs: match &rule.body {
                        Body::Cel(cel) => cel.programs(),
                        Body::Classic(_) | Body::Unsupported(_) | Body::Elsewhere => Vec::new(),
                    },
                    parts: parts.found,
                }
            })
            .collect()
    }

    /// Explains in human-readable lines which filter makes a rule match a request, and why the other rules do not
    /// match.
    pub fn explain(&self, input: &Input<'_>) -> Vec<String> {
        if let Some(part) = self.gate(input) {
            return vec![format!("the policy is not evaluated because of its {part}")];
        }
        let cell = input.request.cell();
        let rules = self.rules(&input.request.resource.kind).iter();
        let one = |rule: &Compiled| {
            let mut facts = input.facts();
            match explain(self.matching_of(rule), &cell, &mut facts) {
                Ok(()) => {
                    let filter = filter_that_applies(&rule.matches, &cell, &mut facts);
                    format!("rule `{}`: match.{filter} selects the request", rule.name)
                }
                Err(mismatch) => mismatch.text(&rule.name),
            }
        };
        rules.map(one).collect()
    }

    /// Which rules are evaluated on the requests of a cell, and with which effects.
    pub fn select<'p>(
        &'p self,
        cell: &RequestClass<'_>,
        facts: &mut impl Facts<'p>,
        exceptions: &'p [CompiledException],
        lens: Lens,
    ) -> Selection<'p, bool> {
        let closed = self.closed(facts, lens);
        let mut selection = Selection {
            webhook: None,
            delivered: true,
            open: closed.is_none(),
            closed,
            evaluates_again: self.conditions.is_some(),
            only_one: self.policy.spec.applies_one_rule(),
            steps: Vec::new(),
        };
        if selection.open {
            let rules = self.rules(&cell.resource.kind).iter().enumerate();
            let steps = rules.map(|(number, rule)| (self.step(number, rule, cell, facts, exceptions), true));
            selection.steps.extend(steps);
        }
        selection
    }

    fn step<'p>(
        &'p self,
        number: usize,
        rule: &'p Compiled,
        cell: &RequestClass<'_>,
        facts: &mut impl Facts<'p>,
        exceptions: &'p [CompiledException],
    ) -> Step<'p> {
        if let Some(part) = mismatch(self.matching_of(rule), cell, facts) {
            return Step::unselected(number, part);
        }
        let exceptions = exception::matching(exceptions, (&self.key, &rule.name), cell, facts);
        let effects = [Status::Fail, Status::Error].map(|status| rule.actions.effect(status, cell, facts));
        Step::new(number, Stages::CLASSIC, effects).with_exceptions(exceptions)
    }

    fn matching_of<'p>(&'p self, rule: &'p Compiled) -> matching::Selection<'p> {
        let own = self.policy.metadata.namespace.as_ref();
        matching::Selection {
            matches: &rule.matches,
            exclude: rule.exclude.as_ref(),
            policy_namespace: own.map_or("", |namespace| namespace.value.as_str()),
        }
    }

    /// Evaluates a request, regardless of the webhook.
    pub fn decide(&self, input: &Input<'_>, exceptions: &[CompiledException], host: &dyn Host) -> PolicyResponse {
        let selection = self.select(&input.request.cell(), &mut input.facts(), exceptions, input.lens);
        self.evaluate(selection, input, exceptions, host).1
    }

    /// Evaluates what is selected of the policy on a request.
    pub(super) fn evaluate<'p>(
        &'p self,
        mut selection: Selection<'p, bool>,
        input: &Input<'_>,
        exceptions: &'p [CompiledException],
        host: &dyn Host,
    ) -> (Call, PolicyResponse) {
        if selection.open && self.has_moved(input) {
            selection.open = false;
            selection.closed = Some(Part::Namespace);
        }
        let kind = &input.request.resource.kind;
        let (mut rules, mut unmet) = (Vec::new(), None);
        let mut evaluator = Evaluator::new(
            input,
            host,
            || {
                unmet = self.unmet(input);
                unmet.is_none()
            },
            |step: &Step<'p>| {
                let Some(rule) = self.rules(kind).get(step.number) else {
                    return false;
                };
                let context = RuleContext {
                    policy: &self.key,
                    rule: &rule.name,
                    selection: self.matching_of(rule),
                    exceptions,
                };
                let Some(mut result) = rule.decide(step, context, input, host) else {
                    return false;
                };
                result.effect = step.effect(result.status);
                let applied = result.applied();
                rules.push(result);
                applied
            },
        );
        let call = evaluator.evaluate(&selection);
        let part = unmet.or_else(|| selection.last_part());
        (call, PolicyResponse { rules, part })
    }

    /// The part that keeps the policy from being evaluated, as far as facts decide.
    fn closed<'p>(&'p self, facts: &mut impl Facts<'p>, lens: Lens) -> Option<Part> {
        if lens.admission_switch && !self.policy.spec.admission {
            return Some(Part::Match);
        }
        let namespace = self.namespace.as_deref()?;
        let inside = facts.ask(Atom::Text(Text::Namespace, Pattern::Exact(namespace)));
        (!inside).then_some(Part::Namespace)
    }

    /// What keeps the policy from being evaluated on a request.
    pub(crate) fn gate(&self, input: &Input<'_>) -> Option<Part> {
        let closed = self.closed(&mut input.facts(), input.lens);
        let closed = closed.or_else(|| self.has_moved(input).then_some(Part::Namespace));
        closed.or_else(|| self.unmet(input))
    }

    /// Whether the old object is in another namespace than that of the policy.
    fn has_moved(&self, input: &Input<'_>) -> bool {
        let own = self.namespace.as_deref();
        own.is_some_and(|namespace| !is_old_object_in(namespace, input))
    }

    /// The condition of the webhook that does not hold when Kyverno evaluates it again.
    fn unmet(&self, input: &Input<'_>) -> Option<Part> {
        let conditions = self.conditions.as_ref()?;
        let inputs = input.webhook().inputs(Value::Null);
        match conditions.validate(&inputs, &Attributes::default(), &NoHost, &Scratch::new()) {
            Outcome::Unmatched(condition) => Some(Part::WebhookCondition(condition.index)),
            Outcome::Decided { decisions, .. } => decisions.iter().find_map(|decision| match decision {
                Decision::Error {
                    cause: Cause::MatchCondition(index),
                    ..
                } => Some(Part::WebhookCondition(*index)),
                Decision::Error { .. } => Some(Part::Budget),
                Decision::Admit | Decision::Deny { .. } => None,
            }),
        }
    }
}

impl Compiled {
    fn new(policy: &ClassicPolicy, rule: &Rule, lens: Lens) -> Self {
        let body = match (&rule.validate, unsupported(rule)) {
            (None, _) => Body::Elsewhere,
            (Some(_), Some(what)) => Body::Unsupported(what),
            (Some(_), None) => match (CompiledRule::compile(rule), ClassicRule::new(policy, rule)) {
                (Some(cel), _) => Body::Cel(Box::new(cel)),
                (None, Some(classic)) => Body::Classic(Box::new(classic)),
                (None, None) => Body::Unsupported(Unsupported::Empty),
            },
        };
        Self {
            name: rule.name.value.clone(),
            matches: rule.matches.clone(),
            exclude: rule.exclude.clone(),
            actions: Actions::new(policy, rule.validate.as_ref(), lens),
            prelude: Prelude::new(rule),
            body,
        }
    }

    /// Evaluates a request that the rule matches; `None` if the rule produces no response.
    fn decide(
        &self,
        step: &Step<'_>,
        context: RuleContext<'_>,
        input: &Input<'_>,
        host: &dyn Host,
    ) -> Option<RuleResponse> {
        match &self.body {
            Body::Elsewhere => return None,
            Body::Unsupported(what) => return Some(RuleResponse::unsupported(&self.name, *what)),
            Body::Cel(_) | Body::Classic(_) => {}
        }
        // Most rules in CEL have nothing to do before the check.
        if let (Body::Cel(cel), true, []) = (&self.body, self.prelude.is_empty(), step.exceptions.as_slice()) {
            return Some(cel.decide(input, host));
        }
        let namespace = context.selection.policy_namespace;
        let outside = outside(input, context.policy, context.rule, namespace, host);
        let mut driver = Driver::new(input, context, &*outside);
        let mut lifted = Vec::new();
        let mut result = None;
        let Ok(()) = step.stages().decide((), |stage, ()| {
            result = match stage {
                Stage::Preconditions => {
                    let result = driver.prepare(&self.prelude);
                    result.map(|result| self.response(result, Part::Precondition(0)))
                }
                Stage::Exceptions => {
                    lifted = driver.granted(&step.exceptions);
                    let is_whole = match &self.body {
                        Body::Classic(rule) => rule.is_lifted_as_a_whole(input.request.operation),
                        Body::Cel(_) | Body::Unsupported(_) | Body::Elsewhere => true,
                    };
                    (is_whole && !lifted.is_empty()).then(|| self.response(lifted_by(&lifted), Part::Exception))
                }
                Stage::Check => match &self.body {
                    Body::Cel(cel) => Some(cel.decide(input, host)),
                    Body::Classic(rule) => self.checked(driver.check(rule, &lifted)),
                    Body::Unsupported(_) | Body::Elsewhere => None,
                },
                Stage::Conditions | Stage::InvalidSelector => None,
            };
            Ok::<_, Infallible>(result.is_none().then_some(()))
        });
        result
    }

    fn checked(&self, result: Option<RuleResult>) -> Option<RuleResponse> {
        let result = result?;
        let part = match result.status {
            Status::Pass => Part::All,
            _ if result.exceptions.is_empty() => Part::Validation(0),
            _ => Part::Exception,
        };
        Some(self.response(result, part))
    }

    fn response(&self, result: RuleResult, part: Part) -> RuleResponse {
        let trace = if result.status == Status::Error {
            Trace::error(part)
        } else {
            Trace::of(part)
        };
        let mut response = RuleResponse::new(&self.name, result.status, result.message, trace);
        response.exceptions = result.exceptions;
        response
    }
}

/// What is in a rule that is not decided, in the order in which upstream looks for it.
fn unsupported(rule: &Rule) -> Option<Unsupported> {
    let validate = rule.validate.as_ref()?;
    let other = validate.pod_security.is_some() || validate.cel.is_some() || validate.manifests.is_some();
    let classic = [
        &validate.deny,
        &validate.pattern,
        &validate.any_pattern,
        &validate.foreach,
    ];
    let decided = other || classic.into_iter().any(Option::is_some);
    (!decided && validate.assert.is_some()).then_some(Unsupported::Assert)
}

/// Whether the old object, if any, is in a namespace. An API server never moves an object by an update; a test may.
fn is_old_object_in(namespace: &str, input: &Input<'_>) -> bool {
    let old = input.request.old_object.root();
    let own = old.at(&["metadata", "namespace"]).and_then(Value::as_str);
    input.request.operation != Operation::Update || old.is_null() || own == Some(namespace)
}
