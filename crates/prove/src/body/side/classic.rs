//! Classic policies: webhook, rules after autogen, exceptions, preconditions, and each rule's check.
//!
//! Upstream counterpart: `kyvtest_kyverno::{classic_policy, cel_rule, classic}`.

use std::sync::Arc;

use kyvtest_kyverno::{
    autogen,
    cel_rule::CompiledRule,
    failure_action::Actions,
    matching::{self, Selection},
};
use kyvtest_model::{
    kube::{Atom, Discovery, Facts, Operation, Pattern, RequestClass, Resource, Text},
    policy::{ApplyRules, ClassicPolicy, PolicyKind, Rule},
    verdict::{Effect, Status},
};

use super::{Effects, Expressions, Side};
use crate::body::{
    formula::{Arena, Formula},
    request::{Request, Viewer, paths},
    value::{Result, unsupported},
};
use crate::{Layer, sides::delivered};

/// The rules of a policy by kind; the empty kind is for all others.
pub(super) struct ClassicRules {
    policy: Arc<ClassicPolicy>,
    rules: Vec<(String, Vec<ClassicRule>)>,
}

struct ClassicRule {
    rule: Arc<Rule>,
    actions: Actions,
    cel: Option<CompiledRule>,
}

impl ClassicRules {
    pub(super) fn new(policy: &Arc<ClassicPolicy>) -> Self {
        let make = |rule: Arc<Rule>| ClassicRule {
            actions: Actions::new(policy, rule.validate.as_ref()),
            cel: CompiledRule::compile(&rule),
            rule,
        };
        let mut rules = Vec::new();
        for kind in autogen::controllers(policy) {
            let generated = autogen::rules_for(policy, &kind);
            let own = generated.iter().map(|rule| make(Arc::new((**rule).clone()))).collect();
            rules.push((kind, own));
        }
        let written = policy.spec.rules.iter().map(|rule| make(Arc::new(rule.clone())));
        rules.push((String::new(), written.collect()));
        Self {
            policy: Arc::clone(policy),
            rules,
        }
    }

    fn of_kind(&self, kind: &str) -> &[ClassicRule] {
        let found = self.rules.iter().find(|(own, _)| own == kind || own.is_empty());
        found.map_or(&[], |(_, rules)| rules.as_slice())
    }
}

/// A rule that matches, and what its statuses do.
struct Matched {
    rule: usize,
    fail: Effect,
    error: Effect,
}

impl Side {
    pub(super) fn classic_policy<'d>(
        &self,
        arena: &mut Arena,
        request: &Request<'d>,
        discovery: &'d Discovery,
        number: usize,
        effects: &mut Effects,
    ) -> Result<()> {
        let ClassicRules { policy, .. } = &self.classic[number];
        let layer = self.setting.layer;
        let webhook = self.registration.classic(number);
        if !policy.spec.admission || webhook.is_none() && layer != Layer::Rule {
            return Ok(());
        }
        let cell = &request.cell;
        let rules = self.classic[number].of_kind(&request.seen.kind);
        let key = policy.key();
        let own = policy
            .metadata
            .namespace
            .as_ref()
            .map(|namespace| namespace.value.as_str());
        let own_namespace = (policy.kind == PolicyKind::Policy).then(|| own.unwrap_or("default"));
        let found = paths(arena, request, |facts| {
            let delivered = delivered(webhook, layer, cell, discovery, facts).of_cell(cell)?;
            if !self.config.judges_cell(&delivered, facts) {
                return None;
            }
            let as_is = delivered.resource.gvr() == request.seen.gvr();
            let mut matched = Vec::new();
            if own_namespace.is_none_or(|own| facts.ask(Atom::Text(Text::Namespace, Pattern::Exact(own)))) {
                for (at, rule) in rules.iter().enumerate() {
                    let selection = Selection {
                        matches: &rule.rule.matches,
                        exclude: rule.rule.exclude.as_ref(),
                        policy_namespace: own.unwrap_or_default(),
                    };
                    if !matching::applies(selection, &delivered, facts) {
                        continue;
                    }
                    let mut exceptions = self.exceptions.iter();
                    let lifted = exceptions.any(|exception| {
                        exception.names(&key, &rule.rule.name.value)
                            && matching::exempts(exception.matches(), &delivered, facts)
                    });
                    if !lifted {
                        matched.push(Matched {
                            rule: at,
                            fail: rule.actions.effect(Status::Fail, &delivered, facts),
                            error: rule.actions.effect(Status::Error, &delivered, facts),
                        });
                    }
                }
            }
            Some((as_is, matched))
        });
        let Some(found) = found else {
            return unsupported("matching has too many paths");
        };
        let mut delivered = Vec::new();
        let mut applied: Vec<(Matched, Formula)> = Vec::new();
        let mut by_request: Vec<(Formula, Vec<usize>)> = Vec::new();
        for (condition, outcome) in found {
            let Some((as_is, matched)) = outcome else { continue };
            if !as_is {
                return unsupported("objects that are converted to another version");
            }
            delivered.push(condition);
            by_request.push((condition, matched.iter().map(|matched| matched.rule).collect()));
            applied.extend(matched.into_iter().map(|matched| (matched, condition)));
        }
        let delivered = arena.or(delivered);
        if delivered == Formula::FALSE {
            return Ok(());
        }
        if policy
            .spec
            .webhook
            .as_ref()
            .is_some_and(|own| !own.match_conditions.is_empty())
        {
            return unsupported("match conditions of a classic policy's webhook");
        }
        let called = self.called(arena, webhook, request)?;
        effects.add(arena.and([delivered, called.denied]), Effect::Deny);
        let only_one = policy
            .spec
            .apply_rules
            .as_ref()
            .is_some_and(|apply| apply.value == ApplyRules::One);
        self.check_exceptions(&key, rules)?;
        let mut known: Vec<Option<Outcome>> = rules.iter().map(|_| None).collect();
        for (Matched { rule: at, fail, error }, condition) in applied {
            if fail == Effect::Admit && error == Effect::Admit {
                continue;
            }
            let mut before = Vec::new();
            if only_one {
                let matched = by_request.iter().find(|(own, _)| *own == condition);
                before.extend(
                    matched
                        .into_iter()
                        .flat_map(|(_, rules)| rules)
                        .filter(|rule| **rule < at),
                );
            }
            for rule in before.iter().copied().chain([&at]) {
                if known[*rule].is_none() {
                    known[*rule] = Some(rules[*rule].outcome(self, arena, policy, request, discovery)?);
                }
            }
            let mut applies = vec![called.called, condition];
            for outcome in before.iter().filter_map(|rule| known[**rule].as_ref()) {
                // A rule that passes or fails is the last one; one that is skipped or errs is not.
                let Some(idle) = outcome.idle.filter(|_| outcome.either == Formula::FALSE) else {
                    return unsupported("`applyRules: One` after a rule that may be skipped");
                };
                applies.push(arena.or([idle, outcome.error]));
            }
            if let Some(outcome) = &known[at] {
                let applies = arena.and(applies);
                effects.add(arena.and([applies, outcome.fail]), fail);
                effects.add(arena.and([applies, outcome.error]), error);
                if outcome.either != Formula::FALSE && fail != error {
                    return unsupported("a pattern whose failures may be errors");
                }
                effects.add(arena.and([applies, outcome.either]), fail);
            }
        }
        Ok(())
    }

    /// Exceptions that are more than a match block are not modelled.
    fn check_exceptions(&self, key: &str, rules: &[ClassicRule]) -> Result<()> {
        for (exception, source) in self.exceptions.iter().zip(
            self.loaded
                .exceptions
                .iter()
                .filter(|exception| kyvtest_model::policy::validate_exception(exception).is_none()),
        ) {
            let concerned = rules.iter().any(|rule| exception.names(key, &rule.rule.name.value));
            if concerned && (source.conditions.is_some() || source.pod_security.is_some()) {
                return unsupported("an exception with conditions");
            }
        }
        Ok(())
    }
}

/// When a rule that matches fails, and when it is an error.
pub(in crate::body) struct Outcome {
    pub(in crate::body) fail: Formula,
    pub(in crate::body) error: Formula,
    /// One of the two, and it is not known which.
    pub(in crate::body) either: Formula,
    /// The rule is skipped, or says nothing; `None` if that is not known.
    pub(in crate::body) idle: Option<Formula>,
}

impl ClassicRule {
    /// Whether the rule would have matched when the old object was created, and that request.
    fn creation<'d>(
        &self,
        arena: &mut Arena,
        policy: &ClassicPolicy,
        request: &Request<'_>,
        resource: &'d Resource,
    ) -> Result<(Request<'d>, Formula)> {
        let creation = request.creation(arena, RequestClass::new(resource, Operation::Create, false));
        let namespace = policy.metadata.namespace.as_ref();
        let found = paths(arena, &creation, |facts| {
            let selection = Selection {
                matches: &self.rule.matches,
                exclude: self.rule.exclude.as_ref(),
                policy_namespace: namespace.map_or("", |namespace| namespace.value.as_str()),
            };
            matching::applies(selection, &creation.cell, facts)
        });
        let Some(found) = found else {
            return unsupported("matching has too many paths");
        };
        let matches = arena.or(found
            .into_iter()
            .filter(|(_, matches)| *matches)
            .map(|(condition, _)| condition));
        Ok((creation, matches))
    }

    fn outcome<'d>(
        &self,
        side: &Side,
        arena: &mut Arena,
        policy: &ClassicPolicy,
        request: &Request<'d>,
        discovery: &'d Discovery,
    ) -> Result<Outcome> {
        let rule = &*self.rule;
        let has_context = rule.context.as_ref().is_some_and(|part| !part.node().is_null());
        if has_context && (self.cel.is_some() || policy.metadata.namespace.is_some()) {
            return unsupported("`context` of a rule in CEL, or of a policy with a namespace");
        }
        let Some(cel) = &self.cel else {
            let resource = request.seen;
            if resource.object_kind.kind != resource.kind {
                return unsupported("a subresource of another kind");
            }
            let main = discovery.by_kind(&resource.group, &resource.version, &resource.kind);
            let main = main.map_or(resource, |main| &**main);
            return super::super::classic::outcome(arena, policy, rule, request, |arena| {
                self.creation(arena, policy, request, main)
            });
        };
        if rule.preconditions.is_some() {
            return unsupported("`preconditions` of a rule in CEL");
        }
        let resource = request.seen;
        if resource.object_kind.kind != resource.kind {
            return unsupported("a subresource of another kind");
        }
        let text = rule.validate.as_ref().and_then(|validate| validate.cel.as_ref());
        let Some(text) = text else {
            return unsupported("a rule without `validate.cel`");
        };
        let programs = cel.programs();
        let mut expressions = Expressions::new(&programs, request, Viewer::Classic, resource);
        let mut exists = Formula::TRUE;
        if let Some(kind) = &text.param_kind {
            let (found, value) = side.parameter(arena, discovery, kind, text.param_ref.as_ref())?;
            expressions.parameter(&value);
            exists = found;
        }
        expressions.declare(text.variables.iter().map(|variable| variable.name.value.clone()));
        let conditions = expressions.conditions(arena, rule.cel_preconditions.len())?;
        let mut bad = Vec::new();
        for truth in expressions.validations(arena, text.expressions.len())? {
            bad.push(arena.not(truth.yes));
        }
        let bad = arena.or(bad);
        let violated = arena.and([conditions.holds, bad]);
        let violated = arena.or([violated, conditions.error]);
        Ok(Outcome {
            fail: arena.and([exists, violated]),
            // A parameter that is not there is an error whatever the reference says.
            error: arena.not(exists),
            either: Formula::FALSE,
            idle: rule.cel_preconditions.is_empty().then_some(Formula::FALSE),
        })
    }
}
