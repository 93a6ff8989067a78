//! Both sides of a proof as functions of facts: which of their expressions decide about a request, and what a violation
//! does.
//!
//! Order and matching are the engines' own: [`Controller::select`] and [`Server::select`] with symbolic facts. Here is only
//! the oracle that decides the stages: match conditions within the decidable fragment by facts, all other expressions by
//! number, so that the same expressions on both sides decide alike.

mod build;
mod called;
mod oracle;

use std::collections::BTreeMap;

pub(super) use self::build::ignores;
use self::build::{LoweredRules, classic, native, validating};
use self::called::Called;
use self::oracle::PathOracle;
use super::{
    Layer, Target,
    condition::{Condition, Tri},
};
use kyvtest_apiserver::{self as vap, Server, Step, matching::listed_as};
use kyvtest_convert::Exceptions;
use kyvtest_kyverno::{
    config::Config,
    controller::{Controller, Installed},
    lens::{Lens, Route},
    webhook::{Delivery, Webhook},
};
use kyvtest_model::policy::Policy;
use kyvtest_model::{
    kube::{Discovery, Facts, RequestClass, Resource},
    verdict::Effect,
};

/// Expressions that decide, their match conditions aside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LoweredRule {
    /// Match conditions that are the same on both sides.
    pub conditions: Vec<String>,
    /// Named values.
    pub variables: Vec<(String, String)>,
    /// What must hold.
    pub validations: Vec<String>,
    /// Annotations of the audit event.
    pub annotations: Vec<(String, String)>,
    /// The parameters.
    pub params: Option<String>,
    /// What is in it that is not CEL.
    pub(crate) opaque: Option<&'static str>,
}

impl LoweredRule {
    /// Whether no request can violate it: it has no conditions or validations that could fail.
    pub(crate) fn never_objects(&self) -> bool {
        let fixed = self.conditions.is_empty() && self.validations.is_empty() && self.annotations.is_empty();
        fixed && self.params.is_none() && self.opaque.is_none()
    }
}

/// The index of a rule that cannot be evaluated at all.
pub(crate) const BROKEN: usize = usize::MAX;

/// The rules whose expressions are evaluated, each with the effect of a violation; sorted.
pub(crate) type SelectedRules = Vec<(usize, Effect)>;

/// What each side selects on a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerSide {
    pub kyverno: SelectedRules,
    /// The API server.
    pub native: SelectedRules,
}

/// Match conditions that are decided one by one.
#[derive(Debug, Clone, Default)]
struct MatchConditions {
    conditions: Vec<Condition>,
    /// Whether the policy ignores requests on which a condition fails to evaluate.
    ignores_errors: bool,
}

/// A rule of a classic policy.
#[derive(Debug)]
struct ClassicRule {
    /// Whether it has `context` or `preconditions`, whose errors come before its exceptions.
    may_fail_before: bool,
    conditions: MatchConditions,
    body: usize,
}

/// A ValidatingPolicy, or what autogen makes of it.
#[derive(Debug)]
struct Variant {
    conditions: MatchConditions,
    exceptions: Vec<MatchConditions>,
    body: usize,
}

/// The expressions of Kyverno's side, in the order of the lowered policy.
#[derive(Debug)]
enum Kyverno {
    /// By kind; the empty kind is for all others.
    Classic(BTreeMap<String, Vec<ClassicRule>>),
    Validating(Vec<Variant>),
}

/// The expressions of a native policy.
#[derive(Debug)]
struct Native {
    conditions: MatchConditions,
    /// The conditions outside the decidable fragment.
    unread: Vec<String>,
    body: usize,
}

/// Both sides.
#[derive(Debug)]
pub struct LoweredSides {
    /// All expressions.
    pub(crate) bodies: Vec<LoweredRule>,
    /// What is not exact about the match part.
    pub(crate) inexact: Vec<String>,
    controller: Controller,
    kyverno: Kyverno,
    called: Called,
    server: Server,
    native: Vec<Native>,
}

impl LoweredSides {
    /// Prepares both sides.
    pub fn new(
        original: &Policy,
        exceptions: Exceptions<'_>,
        target: &Target,
        config: &Config,
        layer: Layer,
        discovery: &Discovery,
    ) -> Self {
        let lens = Lens::at(layer);
        let installed = Installed {
            policies: std::slice::from_ref(original),
            exceptions: exceptions.classic,
            cel_exceptions: exceptions.cel,
        };
        // A policy that Kyverno rejects decides nothing.
        let (controller, _) = Controller::new(installed, config.clone(), lens, discovery);
        let mut bodies = LoweredRules::default();
        let mut inexact = Vec::new();
        let native = native(target, &mut bodies);
        let webhook = webhook(&controller).filter(|_| lens.route == Route::Webhooks);
        let called = Called::new(webhook, &mut bodies, &mut inexact);
        let unread = called.unguarded();
        let kyverno = match original {
            Policy::Classic(policy) => classic(policy, exceptions, lens, &unread, &mut bodies, &mut inexact),
            Policy::Validating(policy) => validating(policy, exceptions, lens, &mut bodies, &mut inexact),
            _ => Kyverno::Validating(Vec::new()),
        };
        if controller.config().has_wild_roles() {
            inexact.push("Kyverno's configuration contains roles with wildcards".to_owned());
        }
        let mut sides = Self {
            called,
            bodies: bodies.0,
            inexact,
            controller,
            kyverno,
            server: Server::new(
                target.policies.iter().map(|policy| &**policy),
                target.bindings.iter().map(|binding| &**binding),
                vap::Lens::ApiServer,
            ),
            native,
        };
        sides.compare_conditions();
        sides
    }

    /// Whether each side has conditions beyond the fragment that the other does not have.
    fn compare_conditions(&mut self) {
        let mut theirs: Vec<&[String]> = Vec::new();
        for native in &self.native {
            theirs.extend(self.bodies.get(native.body).map(|body| body.conditions.as_slice()));
        }
        let bodies: Vec<usize> = match &self.kyverno {
            Kyverno::Classic(rules) => rules.values().flatten().map(|rule| rule.body).collect(),
            Kyverno::Validating(variants) => variants.iter().map(|variant| variant.body).collect(),
        };
        let ours: Vec<&[String]> = bodies
            .iter()
            .filter_map(|body| self.bodies.get(*body))
            .map(|body| body.conditions.as_slice())
            .collect();
        let lone = |own: &[&[String]], other: &[&[String]]| -> Option<String> {
            let lone = own.iter().find(|conditions| !other.contains(conditions))?;
            lone.first().cloned()
        };
        if let Some(text) = lone(&ours, &theirs).or_else(|| lone(&theirs, &ours)) {
            self.inexact
                .push(format!("match condition `{text}` is too complex to decide"));
        }
    }

    /// What both sides say about the requests of a cell.
    pub fn run<'p, 'd>(
        &'p self,
        cell: &RequestClass<'d>,
        discovery: &'d Discovery,
        facts: &mut impl Facts<'p>,
    ) -> PerSide {
        let mut kyverno = self.kyverno(cell, discovery, facts);
        let mut native = self.native(cell, discovery, facts);
        for said in [&mut kyverno, &mut native] {
            // A rule that never objects has no effect.
            said.retain(|(body, _)| self.bodies.get(*body).is_none_or(|body| !body.never_objects()));
            said.sort_unstable();
            // A rule may be selected twice; keep its strongest effect.
            said.reverse();
            said.dedup_by_key(|(body, _)| *body);
            said.reverse();
        }
        PerSide { kyverno, native }
    }

    /// Whether the two sides see the objects of a request class in different versions: Kyverno registers its rules sorted,
    /// a native policy takes them as written.
    pub(crate) fn converts_differently(
        &self,
        cell: &RequestClass<'_>,
        equivalents: &[&Resource],
        discovery: &Discovery,
    ) -> bool {
        let Some(webhook) = webhook(&self.controller) else {
            return false;
        };
        let kyverno: &Resource = match webhook.route(cell, discovery) {
            Delivery::None => return false,
            Delivery::AsIs => cell.resource,
            Delivery::As(resource) => resource,
        };
        let policies = self.server.policies().iter();
        let constraints = policies.filter_map(|policy| policy.constraints());
        let mut matched = constraints.filter_map(|constraints| listed_as(constraints, cell, equivalents));
        matched.any(|native| native.gvr() != kyverno.gvr())
    }

    fn kyverno<'p, 'd>(
        &'p self,
        cell: &RequestClass<'d>,
        discovery: &'d Discovery,
        facts: &mut impl Facts<'p>,
    ) -> SelectedRules {
        let selected = self.controller.policies().first();
        let selected = selected.and_then(|policy| self.controller.select(policy, cell, discovery, facts));
        let Some((delivered, selection)) = selected else {
            return SelectedRules::new();
        };
        let mut oracle = PathOracle {
            sides: self,
            cell: &delivered,
            requested: cell.resource,
            facts,
            selected: SelectedRules::new(),
            applied: false,
        };
        let Ok(()) = selection.decide(&mut oracle);
        oracle.selected
    }

    fn native<'p>(
        &'p self,
        cell: &RequestClass<'_>,
        discovery: &Discovery,
        facts: &mut impl Facts<'p>,
    ) -> SelectedRules {
        let mut said = SelectedRules::new();
        for (policy, native) in self.server.policies().iter().zip(&self.native) {
            for step in self.server.select(policy, *cell, discovery, facts) {
                let (binding, matched) = match step {
                    Step::Unselected(..) => continue,
                    Step::Misconfigured(..) => {
                        let effect = policy.misconfiguration_effect();
                        said.extend((effect != Effect::Admit).then_some((BROKEN, effect)));
                        continue;
                    }
                    Step::Bound { binding, matched, .. } => (binding, matched),
                };
                let effect = binding.effect();
                let as_matched = RequestClass {
                    resource: matched,
                    ..*cell
                };
                match native.conditions.hold(&as_matched, cell.resource, facts) {
                    Tri::False => {}
                    Tri::Error => said.push((BROKEN, effect)),
                    Tri::True => {
                        said.push((native.body, effect));
                        // An error in a condition outside the decidable fragment.
                        let same = self.called.refusing_with(&native.unread);
                        said.extend(same.map(|body| (body, effect)));
                    }
                }
            }
        }
        said
    }
}

/// The webhook of the only policy.
fn webhook(controller: &Controller) -> Option<&Webhook> {
    controller
        .policies()
        .first()
        .and_then(|policy| controller.webhook(policy))
}

impl MatchConditions {
    /// Whether all conditions hold: a false one decides, also where another cannot be evaluated.
    fn hold<'p>(&'p self, cell: &RequestClass<'_>, requested: &Resource, facts: &mut impl Facts<'p>) -> Tri {
        let mut all = Tri::True;
        for condition in &self.conditions {
            match condition.ask(cell, requested, facts) {
                Tri::False => return Tri::False,
                Tri::Error => all = Tri::Error,
                Tri::True => {}
            }
        }
        if all == Tri::Error && self.ignores_errors {
            Tri::False
        } else {
            all
        }
    }
}
