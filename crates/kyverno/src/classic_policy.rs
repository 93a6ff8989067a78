//! ClusterPolicy and Policy: gates, rules in order, exceptions, actions.
//!
//! Upstream counterpart: `pkg/engine/engine.go`, `pkg/engine/validation.go`, `pkg/engine/internal/match.go` (1.19). Rules that
//! do not validate, and those about manifests or with assertion trees, answer `unsupported` where they match.

use std::sync::{Arc, OnceLock};

use super::{
    autogen::{controllers, rules_for},
    cel_rule::CompiledRule,
    classic::{
        observe::Parts,
        rule::{ClassicRule, Driver, Prelude, RuleContext, RuleResult, lifted_by, outside},
    },
    exception::CompiledException,
    failure_action::Actions,
    input::{Documents, Input},
    matching::{Selection, applies, explain, filter_that_applies},
    observe::WatchedRule,
    response::{RuleResponse, Unsupported},
};
use kyvtest_cel::{
    admission::{Cause, Decision, Declarations, Inputs, Outcome, Parts as Texts, Validator},
    context::Scratch,
    host::{Attributes, Host, NoHost},
    observe::Observer,
    profile::Profile,
};
use kyvtest_go_compat::value::Value;
use kyvtest_model::{
    kube::{Atom, Facts, Operation, Pattern, Text},
    policy::{ApplyRules, ClassicPolicy, MatchResources, PolicyKind, Rule},
    verdict::{Part, Status, Trace},
};

/// A policy that is ready to be asked.
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
}

/// A rule that is ready to be asked.
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
}

/// What a policy answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyResponse {
    /// The answers of the rules that match, in order.
    pub rules: Vec<RuleResponse>,
    /// Why the others, or all of them, do not match: name and part. The name is empty for the policy itself.
    pub unmatched: Vec<(String, Part)>,
}

impl CompiledClassicPolicy {
    /// Prepares a policy.
    pub fn new(policy: Arc<ClassicPolicy>) -> Self {
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
            .filter(|conditions| !conditions.is_empty())
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
            generated: controllers(&policy)
                .into_iter()
                .map(|kind| (kind, OnceLock::new()))
                .collect(),
            written: OnceLock::new(),
            policy,
        }
    }

    /// The policy.
    pub fn policy(&self) -> &Arc<ClassicPolicy> {
        &self.policy
    }

    /// Whether its violations count: without that they are warnings in reports.
    pub fn is_scored(&self) -> bool {
        let scored = self.policy.metadata.annotation("policies.kyverno.io/scored");
        scored.is_none_or(|value| value.value != "false")
    }

    /// The rules in force for a kind.
    fn rules(&self, kind: &str) -> &[Compiled] {
        let compile = |kind: &str| {
            let rules = rules_for(&self.policy, kind);
            rules.iter().map(|rule| Compiled::new(&self.policy, rule)).collect()
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

    /// Its rules with what their parts came to: those that are written, and those that are generated and were asked.
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
                        Body::Classic(_) | Body::Unsupported(_) => Vec::new(),
                    },
                    parts: parts.found,
                }
            })
            .collect()
    }

    /// Which rules match a request by which filter, and why the others do not, for people.
    pub fn explain(&self, input: &Input<'_>) -> Vec<String> {
        if let Some(part) = self.gate(input) {
            return vec![format!("the policy is not asked because of its {part}")];
        }
        let cell = input.request.cell();
        let own = self.policy.metadata.namespace.as_ref();
        let rules = self.rules(&input.request.resource.kind).iter();
        let one = |rule: &Compiled| {
            let mut facts = input.facts();
            let selection = Selection {
                matches: &rule.matches,
                exclude: rule.exclude.as_ref(),
                policy_namespace: own.map_or("", |namespace| namespace.value.as_str()),
            };
            match explain(selection, &cell, &mut facts) {
                Ok(()) => {
                    let filter = filter_that_applies(&rule.matches, &cell, &mut facts);
                    format!("rule `{}`: match.{filter} selects the request", rule.name)
                }
                Err(mismatch) => mismatch.text(&rule.name),
            }
        };
        rules.map(one).collect()
    }

    /// Answers a request.
    pub fn decide(&self, input: &Input<'_>, exceptions: &[CompiledException], host: &dyn Host) -> PolicyResponse {
        let mut response = PolicyResponse {
            rules: Vec::new(),
            unmatched: Vec::new(),
        };
        if let Some(part) = self.gate(input) {
            response.unmatched.push((String::new(), part));
            return response;
        }
        let cell = input.request.cell();
        let own = self.policy.metadata.namespace.as_ref();
        let policy_namespace = own.map_or("", |namespace| namespace.value.as_str());
        for rule in self.rules(&input.request.resource.kind) {
            let mut facts = input.facts();
            let selection = Selection {
                matches: &rule.matches,
                exclude: rule.exclude.as_ref(),
                policy_namespace,
            };
            if !applies(selection, &cell, &mut facts) {
                let matched = Selection {
                    exclude: None,
                    ..selection
                };
                let part = if applies(matched, &cell, &mut facts) {
                    Part::Exclude
                } else {
                    Part::Match
                };
                response.unmatched.push((rule.name.clone(), part));
                continue;
            }
            let asked = RuleContext {
                policy: &self.key,
                rule: &rule.name,
                selection,
                exceptions,
            };
            let Some(mut answer) = rule.decide(asked, input, host) else {
                continue;
            };
            answer.effect = rule.actions.effect(answer.status, &cell, &mut facts);
            let applied = answer.applied();
            response.rules.push(answer);
            let one = self
                .policy
                .spec
                .apply_rules
                .as_ref()
                .is_some_and(|apply| apply.value == ApplyRules::One);
            if one && applied {
                break;
            }
        }
        response
    }

    /// What keeps the policy from being asked at all.
    pub(crate) fn gate(&self, input: &Input<'_>) -> Option<Part> {
        if input.lens.admission_switch && !self.policy.spec.admission {
            return Some(Part::Match);
        }
        if let Some(namespace) = &self.namespace {
            let asked = Atom::Text(Text::Namespace, Pattern::Exact(namespace));
            if !input.facts().ask(asked) || !is_old_object_in(namespace, input) {
                return Some(Part::Namespace);
            }
        }
        let conditions = self.conditions.as_ref()?;
        let Documents {
            object,
            old_object,
            request,
            namespace,
        } = input.webhook();
        let inputs = Inputs {
            object: object.root(),
            old_object: old_object.root(),
            request: request.root(),
            condition_request: request.root(),
            namespace: namespace.root(),
            params: Value::Null,
        };
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
    fn new(policy: &ClassicPolicy, rule: &Rule) -> Self {
        let body = match unsupported(rule) {
            Some(what) => Body::Unsupported(what),
            None => match (CompiledRule::compile(rule), ClassicRule::new(policy, rule)) {
                (Some(cel), _) => Body::Cel(Box::new(cel)),
                (None, Some(classic)) => Body::Classic(Box::new(classic)),
                (None, None) => Body::Unsupported(Unsupported::Empty),
            },
        };
        Self {
            name: rule.name.value.clone(),
            matches: rule.matches.clone(),
            exclude: rule.exclude.clone(),
            actions: Actions::new(policy, rule.validate.as_ref()),
            prelude: Prelude::new(rule),
            body,
        }
    }

    /// The answer to a request that the rule matches; `None` where it has nothing to say.
    fn decide(&self, asked: RuleContext<'_>, input: &Input<'_>, host: &dyn Host) -> Option<RuleResponse> {
        if let Body::Unsupported(what) = &self.body {
            return Some(RuleResponse::unsupported(&self.name, *what));
        }
        let is_named = asked
            .exceptions
            .iter()
            .any(|exception| exception.names(asked.policy, asked.rule));
        if let (Body::Cel(cel), true, false) = (&self.body, self.prelude.is_empty(), is_named) {
            return Some(cel.decide(input, host));
        }
        let namespace = asked.selection.policy_namespace;
        let outside = outside(input, asked.policy, asked.rule, namespace, host);
        let mut driver = Driver::new(input, asked, &*outside);
        if let Some(said) = driver.prepare(&self.prelude) {
            return Some(self.response(said, Part::Precondition(0)));
        }
        match &self.body {
            Body::Cel(cel) => {
                let lifted = driver.exceptions();
                if lifted.is_empty() {
                    return Some(cel.decide(input, host));
                }
                Some(self.response(lifted_by(&lifted), Part::Exception))
            }
            Body::Classic(rule) => {
                let said = driver.check(rule)?;
                let part = match said.status {
                    Status::Pass => Part::All,
                    _ if said.exceptions.is_empty() => Part::Validation(0),
                    _ => Part::Exception,
                };
                Some(self.response(said, part))
            }
            Body::Unsupported(_) => None,
        }
    }

    fn response(&self, said: RuleResult, part: Part) -> RuleResponse {
        let trace = if said.status == Status::Error {
            Trace::error(part)
        } else {
            Trace::of(part)
        };
        let mut response = RuleResponse::new(&self.name, said.status, said.message, trace);
        response.exceptions = said.exceptions;
        response
    }
}

/// What is in a rule that is not decided, in the order in which upstream looks for it.
fn unsupported(rule: &Rule) -> Option<Unsupported> {
    let Some(validate) = &rule.validate else {
        return if rule.mutate.is_some() {
            Some(Unsupported::Mutate)
        } else if rule.generate.is_some() {
            Some(Unsupported::Generate)
        } else {
            rule.verify_images.is_some().then_some(Unsupported::VerifyImages)
        };
    };
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

/// Whether the old object, if there is one, stands in a namespace. At an API server an update moves no object; in a test it
/// may.
fn is_old_object_in(namespace: &str, input: &Input<'_>) -> bool {
    let old = input.request.old_object.root();
    let own = old.at(&["metadata", "namespace"]).and_then(Value::as_str);
    input.request.operation != Operation::Update || old.is_null() || own == Some(namespace)
}
