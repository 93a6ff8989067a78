//! Both sides of a proof as functions of facts: which of their expressions are asked about a request, and what a violation
//! does.
//!
//! Matching itself is the engines' own: `kyverno::matching`, `kyverno::constraints`, `kyverno::failure_action`,
//! `kyverno::webhook` and `vap::matching`. Here stands only the order in which they are asked; that it is the engines' order
//! shows when a witness is replayed.

mod build;
mod called;

use std::collections::BTreeMap;

pub(super) use self::build::ignores;
use self::build::{LoweredRules, classic, native, validating};
use self::called::Called;
use super::{
    Layer, Target,
    condition::{Condition, Tri},
};
use kyvtest_apiserver::matching::{self as native_matching, Match};
use kyvtest_convert::Exceptions;
use kyvtest_kyverno::{
    config::Config,
    constraints,
    failure_action::Actions,
    matching::{self, Selection},
    validating_policy::is_in_namespace,
    webhook::{Delivery, Registration, Webhook},
};
use kyvtest_model::policy::Policy;
use kyvtest_model::{
    kube::{Atom, Discovery, Facts, Pattern, RequestClass, Resource, Text},
    policy::{MatchConstraints, MatchResources},
    verdict::{Effect, Status},
};

/// Expressions that decide, their match conditions aside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoweredRule {
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
    pub opaque: Option<&'static str>,
}

impl LoweredRule {
    /// Whether no request can violate it: it has no conditions or validations that could fail.
    pub(crate) fn never_objects(&self) -> bool {
        let fixed = self.conditions.is_empty() && self.validations.is_empty() && self.annotations.is_empty();
        fixed && self.params.is_none() && self.opaque.is_none()
    }
}

/// The number of what cannot be evaluated at all.
pub const BROKEN: usize = usize::MAX;

/// Which expressions are asked, and what a violation of them does; sorted.
pub type SelectedRules = Vec<(usize, Effect)>;

/// What both sides say on a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerSide {
    /// Kyverno.
    pub kyverno: SelectedRules,
    /// The API server.
    pub native: SelectedRules,
}

/// Match conditions that are asked one by one.
#[derive(Debug, Clone, Default)]
struct MatchConditions {
    conditions: Vec<Condition>,
    /// Whether an error leaves the request alone.
    ignores_errors: bool,
}

/// A rule of a classic policy.
#[derive(Debug)]
struct ClassicRule {
    matches: MatchResources,
    exclude: Option<MatchResources>,
    exceptions: Vec<MatchResources>,
    actions: Actions,
    conditions: MatchConditions,
    body: usize,
}

/// A ValidatingPolicy, or what autogen makes of it.
#[derive(Debug)]
struct Variant {
    constraints: Option<MatchConstraints>,
    effect: Effect,
    conditions: MatchConditions,
    exceptions: Vec<MatchConditions>,
    body: usize,
}

#[derive(Debug)]
enum Kyverno {
    Classic {
        /// By kind; the empty kind stands for all others.
        rules: BTreeMap<String, Vec<ClassicRule>>,
        policy_namespace: String,
        /// The namespace that requests must be in.
        namespace: Option<String>,
        only_one: bool,
    },
    Validating {
        variants: Vec<Variant>,
        namespace: Option<String>,
    },
}

/// A native policy with its bindings.
#[derive(Debug)]
struct Native {
    constraints: Option<MatchConstraints>,
    bindings: Vec<(Option<MatchConstraints>, Effect)>,
    conditions: MatchConditions,
    /// The conditions outside the decidable fragment.
    unread: Vec<String>,
    body: usize,
}

/// Both sides.
#[derive(Debug)]
pub struct LoweredSides {
    /// All expressions.
    pub bodies: Vec<LoweredRule>,
    /// What is not exact about the match part.
    pub inexact: Vec<String>,
    kyverno: Kyverno,
    registration: Registration,
    called: Called,
    config: Config,
    native: Vec<Native>,
    layer: Layer,
    admission: bool,
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
        let mut bodies = LoweredRules::default();
        let mut inexact = Vec::new();
        let native = native(target, &mut bodies);
        let registration = match original {
            Policy::Classic(policy) => Registration::of_policy(policy, discovery),
            Policy::Validating(policy) => Registration::of_validating_policy(policy, discovery),
            _ => Registration::new(&[], &[], discovery),
        };
        let webhook = registration.only().filter(|_| layer != Layer::Rule);
        let called = Called::new(webhook, &mut bodies, &mut inexact);
        let unread = called.unguarded();
        let (kyverno, admission) = match original {
            Policy::Classic(policy) => (
                classic(policy, exceptions, &unread, &mut bodies, &mut inexact),
                policy.spec.admission,
            ),
            Policy::Validating(policy) => (
                validating(policy, exceptions, &mut bodies, &mut inexact),
                policy.spec.evaluation.admission,
            ),
            _ => (
                Kyverno::Validating {
                    variants: Vec::new(),
                    namespace: None,
                },
                false,
            ),
        };
        let mut sides = Self {
            called,
            bodies: bodies.0,
            inexact,
            kyverno,
            registration,
            config: config.clone(),
            native,
            layer,
            admission,
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
            Kyverno::Classic { rules, .. } => rules.values().flatten().map(|rule| rule.body).collect(),
            Kyverno::Validating { variants, .. } => variants.iter().map(|variant| variant.body).collect(),
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
        equivalents: &[&'d Resource],
        discovery: &'d Discovery,
        facts: &mut impl Facts<'p>,
    ) -> PerSide {
        let mut kyverno = self.kyverno(cell, discovery, facts);
        let mut native = self.native(cell, equivalents, facts);
        for said in [&mut kyverno, &mut native] {
            // What cannot object has no effect.
            said.retain(|(body, _)| self.bodies.get(*body).is_none_or(|body| !body.never_objects()));
            said.sort_unstable();
            // One body may be asked twice: the strongest effect counts.
            said.reverse();
            said.dedup_by_key(|(body, _)| *body);
            said.reverse();
        }
        PerSide { kyverno, native }
    }

    /// Whether the two sides see the objects of a request class in different versions: Kyverno registers its rules sorted,
    /// a native policy takes them as written.
    pub fn converts_differently(
        &self,
        cell: &RequestClass<'_>,
        equivalents: &[&Resource],
        discovery: &Discovery,
    ) -> bool {
        let Some(webhook) = self.registration.only() else {
            return false;
        };
        let kyverno: &Resource = match webhook.route(cell, discovery) {
            Delivery::None => return false,
            Delivery::AsIs => cell.resource,
            Delivery::As(resource) => resource,
        };
        let constraints = self.native.iter().filter_map(|native| native.constraints.as_ref());
        let mut matched =
            constraints.filter_map(|constraints| native_matching::listed_as(constraints, cell, equivalents));
        matched.any(|native| native.gvr() != kyverno.gvr())
    }

    fn kyverno<'p, 'd>(
        &'p self,
        cell: &RequestClass<'d>,
        discovery: &'d Discovery,
        facts: &mut impl Facts<'p>,
    ) -> SelectedRules {
        let webhook = self.registration.only();
        let delivery = delivered(webhook, self.layer, cell, discovery, facts);
        let Some(delivered) = delivery.of_cell(cell) else {
            return SelectedRules::new();
        };
        if self.layer != Layer::Rule && (!self.admission || !self.config.judges_cell(&delivered, facts)) {
            return SelectedRules::new();
        }
        let requested = cell.resource;
        let cell = &delivered;
        let mut said = match self.called.on(cell, requested, facts) {
            called::Outcome::NotCalled => return SelectedRules::new(),
            called::Outcome::Denied => return vec![(BROKEN, Effect::Deny)],
            called::Outcome::Called(refusing) => refusing,
        };
        match &self.kyverno {
            Kyverno::Classic {
                rules,
                policy_namespace,
                namespace,
                only_one,
            } => {
                let own_namespace = namespace.as_deref();
                if !own_namespace.is_none_or(|own| facts.ask(Atom::Text(Text::Namespace, Pattern::Exact(own)))) {
                    return said;
                }
                let own = rules.get(&cell.resource.kind).or_else(|| rules.get(""));
                for rule in own.into_iter().flatten() {
                    let selection = Selection {
                        matches: &rule.matches,
                        exclude: rule.exclude.as_ref(),
                        policy_namespace,
                    };
                    if !matching::applies(selection, cell, facts)
                        || rule
                            .exceptions
                            .iter()
                            .any(|exception| matching::exempts(exception, cell, facts))
                    {
                        continue;
                    }
                    let effect = rule.actions.effect(Status::Fail, cell, facts);
                    match rule.conditions.hold(cell, requested, facts) {
                        Tri::False => continue,
                        Tri::Error => said.push((BROKEN, effect)),
                        Tri::True => said.push((rule.body, effect)),
                    }
                    if *only_one {
                        break;
                    }
                }
            }
            Kyverno::Validating { variants, namespace } => {
                let own_namespace = namespace.as_deref();
                if !own_namespace.is_none_or(|own| is_in_namespace(own, cell, facts)) {
                    return said;
                }
                for variant in variants {
                    let Some(constraints) = &variant.constraints else {
                        continue;
                    };
                    match constraints::applies(constraints, cell, facts) {
                        Ok(false) => {}
                        Err(_) => said.push((BROKEN, variant.effect)),
                        Ok(true) => match variant.said(cell, requested, facts) {
                            Tri::False => {}
                            Tri::Error => said.push((BROKEN, variant.effect)),
                            Tri::True => said.push((variant.body, variant.effect)),
                        },
                    }
                }
            }
        }
        said
    }

    fn native<'p>(
        &'p self,
        cell: &RequestClass<'_>,
        equivalents: &[&Resource],
        facts: &mut impl Facts<'p>,
    ) -> SelectedRules {
        let mut said = SelectedRules::new();
        if !cell.resource.reaches_native_policies() {
            return said;
        }
        for native in &self.native {
            if native.bindings.is_empty() {
                continue;
            }
            let Some(constraints) = &native.constraints else {
                said.push((BROKEN, Effect::Deny));
                continue;
            };
            let matched = match native_matching::matches(constraints, cell, equivalents, facts) {
                Ok(Match::No(_)) => continue,
                Ok(Match::Yes(resource)) => RequestClass { resource, ..*cell },
                Err(_) => {
                    said.push((BROKEN, Effect::Deny));
                    continue;
                }
            };
            for (block, effect) in &native.bindings {
                match block
                    .as_ref()
                    .map(|block| native_matching::matches(block, cell, equivalents, facts))
                {
                    None | Some(Ok(Match::Yes(_))) => match native.conditions.hold(&matched, cell.resource, facts) {
                        Tri::False => {}
                        Tri::Error => said.push((BROKEN, *effect)),
                        Tri::True => {
                            said.push((native.body, *effect));
                            // An error in a condition outside the decidable fragment.
                            let same = self.called.refusing_with(&native.unread);
                            said.extend(same.map(|body| (body, *effect)));
                        }
                    },
                    Some(Ok(Match::No(_))) => {}
                    Some(Err(_)) => said.push((BROKEN, Effect::Deny)),
                }
            }
        }
        said
    }
}

impl Variant {
    /// Whether its validations are asked. Exceptions come first; an error in one counts unless one before it lifts the policy.
    fn said<'p>(&'p self, cell: &RequestClass<'_>, requested: &Resource, facts: &mut impl Facts<'p>) -> Tri {
        for exception in &self.exceptions {
            match exception.hold(cell, requested, facts) {
                Tri::True => return Tri::False,
                Tri::False => {}
                Tri::Error => return Tri::Error,
            }
        }
        self.conditions.hold(cell, requested, facts)
    }
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

/// As what Kyverno gets a request. A single rule is asked about everything, but gets what it lists in the version that it
/// lists.
pub fn delivered<'p, 'd>(
    webhook: Option<&'p Webhook>,
    layer: Layer,
    cell: &RequestClass<'d>,
    discovery: &'d Discovery,
    facts: &mut impl Facts<'p>,
) -> Delivery<'d> {
    match webhook.map_or(Delivery::None, |webhook| webhook.delivers(cell, discovery, facts)) {
        Delivery::None if layer == Layer::Rule => Delivery::AsIs,
        delivery => delivery,
    }
}
