//! Rules of classic policies: exceptions, preconditions, and each rule's check.
//!
//! Upstream counterpart: `kyvtest_kyverno::{classic_policy, cel_rule, classic}`.

use std::sync::Arc;

use serde_json::Value as Json;

use kyvtest_kyverno::{
    autogen,
    cel_rule::CompiledRule,
    exception::{self, CompiledException},
    lens::Lens,
    matching::{self, Selection},
    select::{Stage, Step},
};
use kyvtest_model::{
    kube::{Discovery, Operation, RequestClass, Resource},
    policy::{ClassicPolicy, Rule},
};

use super::{Expressions, Side, kyverno::Modelling, parameters::Parameters};
use crate::body::{
    classic::lifts,
    formula::{Arena, Formula},
    request::{Request, Viewer, paths},
    value::{Result, unsupported},
};

/// The rules of a policy by kind; the empty kind is for all others.
pub(super) struct ClassicRules {
    policy: Arc<ClassicPolicy>,
    rules: Vec<(String, Vec<ClassicRule>)>,
}

struct ClassicRule {
    rule: Arc<Rule>,
    cel: Option<CompiledRule>,
}

impl ClassicRules {
    pub(super) fn new(policy: &Arc<ClassicPolicy>, lens: Lens) -> Self {
        let make = |rule: Rule| ClassicRule {
            cel: CompiledRule::compile(&rule),
            rule: Arc::new(rule),
        };
        let mut rules = Vec::new();
        for kind in autogen::kinds_at(policy, lens) {
            let own = autogen::rules_for(policy, &kind).into_iter();
            let own = own.map(|rule| make(rule.into_owned())).collect();
            rules.push((kind, own));
        }
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

impl<'p> Modelling<'_, 'p, '_> {
    /// Adds the effects of a rule that is evaluated on some requests.
    pub(super) fn rule(&mut self, rules: &'p ClassicRules, step: &Step<'p>, requests: Formula) -> Result<()> {
        let Some(rule) = rules.of_kind(&self.request.seen.kind).get(step.number) else {
            return unsupported("a rule that was not read");
        };
        let lifted = self.lifted(rule, step)?;
        step.stages().decide(requests, |stage, reached| match stage {
            Stage::Preconditions if lifted != Formula::FALSE && rule.may_fail_before() => {
                unsupported("an exception to a rule with `context` or `preconditions`, whose errors come first")
            }
            Stage::Exceptions => Ok(self.without(reached, lifted)),
            Stage::Check => self.check(rules, rule, step, reached).map(|()| None),
            _ => Ok(Some(reached)),
        })
    }

    /// Returns the requests among those that reach a rule on which it passes or fails, so that `applyRules: One` ends with it. A
    /// rule that is skipped or errs is not the last one.
    pub(super) fn applied(&mut self, rules: &'p ClassicRules, step: &Step<'p>, reached: Formula) -> Result<Formula> {
        let Some(rule) = rules.of_kind(&self.request.seen.kind).get(step.number) else {
            return unsupported("a rule that was not read");
        };
        let mut applied = Formula::FALSE;
        let lifted = self.lifted(rule, step)?;
        step.stages().decide(reached, |stage, reached| match stage {
            Stage::Exceptions => Ok(self.without(reached, lifted)),
            Stage::Check => {
                let outcome = self.outcome(rules, rule, step.number)?;
                let Some(idle) = outcome.idle.filter(|_| outcome.either == Formula::FALSE) else {
                    return unsupported("`applyRules: One` after a rule that may be skipped");
                };
                let idle = self.arena.or([idle, outcome.error]);
                let decides = self.arena.not(idle);
                applied = self.arena.and([reached, decides]);
                Ok(None)
            }
            _ => Ok(Some(reached)),
        })?;
        Ok(applied)
    }

    /// The requests for which one of the matching exceptions lifts a rule.
    fn lifted(&mut self, rule: &ClassicRule, step: &Step<'p>) -> Result<Formula> {
        let mut lifted = Vec::new();
        for exception in &step.exceptions {
            lifted.push(rule.lifted_by(self.side, self.arena, self.request, exception)?);
        }
        Ok(self.arena.or(lifted))
    }

    /// The requests among those that reach a rule for which it is not lifted; `None` if there is none.
    fn without(&mut self, reached: Formula, lifted: Formula) -> Option<Formula> {
        let not = self.arena.not(lifted);
        Some(self.arena.and([reached, not])).filter(|left| *left != Formula::FALSE)
    }

    fn outcome(&mut self, rules: &ClassicRules, rule: &ClassicRule, number: usize) -> Result<Outcome> {
        if let Some((_, outcome)) = self.known.iter().find(|(known, _)| *known == number) {
            return Ok(*outcome);
        }
        let outcome = rule.outcome(self.side, self.arena, &rules.policy, self.request, self.discovery)?;
        self.known.push((number, outcome));
        Ok(outcome)
    }

    fn check(&mut self, rules: &ClassicRules, rule: &ClassicRule, step: &Step<'_>, reached: Formula) -> Result<()> {
        let Outcome {
            fail, error, either, ..
        } = self.outcome(rules, rule, step.number)?;
        self.add([reached, fail], step.fail);
        self.add([reached, error], step.error);
        if either != Formula::FALSE && step.fail != step.error {
            return unsupported("a pattern whose failures may be errors");
        }
        self.add([reached, either], step.fail);
        Ok(())
    }
}

/// When a rule that matches fails, and when it is an error.
#[derive(Clone, Copy)]
pub(in crate::body) struct Outcome {
    pub(in crate::body) fail: Formula,
    pub(in crate::body) error: Formula,
    /// One of the two, and it is not known which.
    pub(in crate::body) either: Formula,
    /// The rule is skipped, or says nothing; `None` if that is not known.
    pub(in crate::body) idle: Option<Formula>,
}

impl ClassicRule {
    /// Whether something is evaluated before the rule's exceptions.
    fn may_fail_before(&self) -> bool {
        let parts = [&self.rule.context, &self.rule.preconditions];
        let mut parts = parts.into_iter().flatten();
        parts.any(|part| !part.node().is_null())
    }

    /// The requests for which an exception that matches lifts the rule.
    fn lifted_by(
        &self,
        side: &Side,
        arena: &mut Arena,
        request: &Request<'_>,
        exception: &CompiledException,
    ) -> Result<Formula> {
        if exception.is_plain() {
            return Ok(Formula::TRUE);
        }
        let position = side.exceptions.iter().position(|own| own.key() == exception.key());
        let written = position.and_then(|position| side.loaded.exceptions.get(position));
        let Some(written) = written.filter(|written| written.pod_security.is_none()) else {
            return unsupported("an exception for some Pod Security controls");
        };
        let conditions = written.conditions.as_ref();
        let conditions = conditions.map_or(Json::Null, |part| part.document().root().to_serde());
        lifts(arena, &self.rule, request, &conditions)
    }

    /// The requests that created the old object and for which an exception lifts the rule.
    fn lifted_then(
        &self,
        side: &Side,
        arena: &mut Arena,
        policy: &ClassicPolicy,
        creation: &Request<'_>,
    ) -> Result<Formula> {
        let key = policy.key();
        let about = (key.as_str(), self.rule.name.value.as_str());
        let found = paths(arena, creation, |facts| {
            let matching = exception::matching(&side.exceptions, about, &creation.cell, facts);
            matching.iter().map(|own| own.key().to_owned()).collect::<Vec<_>>()
        });
        let Some(found) = found else {
            return unsupported("matching has too many paths");
        };
        let mut lifted = Vec::new();
        for (condition, keys) in found {
            for exception in side
                .exceptions
                .iter()
                .filter(|own| keys.iter().any(|key| key == own.key()))
            {
                let holds = self.lifted_by(side, arena, creation, exception)?;
                lifted.push(arena.and([condition, holds]));
            }
        }
        Ok(arena.or(lifted))
    }

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
                let (creation, matches) = self.creation(arena, policy, request, main)?;
                let is_security = rule.validate.as_ref().is_some_and(|own| own.pod_security.is_some());
                if !is_security {
                    return Ok((creation, matches));
                }
                // A Pod Security rule that was lifted then was not violated.
                let lifted = self.lifted_then(side, arena, policy, &creation)?;
                let not = arena.not(lifted);
                Ok((creation, arena.and([matches, not])))
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
        let mut parameters = Parameters::None;
        if let Some(kind) = &text.param_kind {
            let reference = text.param_ref.as_ref();
            if reference.is_some_and(|reference| reference.selector.is_some()) && !rule.cel_preconditions.is_empty() {
                return unsupported(
                    "`celPreconditions` with parameters by a selector: the first that is skipped decides",
                );
            }
            parameters = side.parameters(arena, request, discovery, kind, reference)?;
        }
        if let Some(value) = parameters.value() {
            expressions.parameter(&value);
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
            fail: parameters.any(arena, violated),
            error: parameters.error(arena, text.param_ref.as_ref()),
            either: Formula::FALSE,
            idle: rule.cel_preconditions.is_empty().then_some(Formula::FALSE),
        })
    }
}
