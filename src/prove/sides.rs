//! Both sides of a proof as functions of facts: which of their expressions are asked about a request, and what a violation
//! does.
//!
//! Matching itself is the engines' own: `kyverno::matching`, `kyverno::constraints`, `kyverno::failure_action`,
//! `kyverno::webhook` and `vap::matching`. Here stands only the order in which they are asked; that it is the engines' order
//! shows when a witness is replayed.

mod build;

use std::{collections::BTreeMap, sync::Arc};

pub(super) use self::build::ignores;
use self::build::{Bodies, classic, native, validating};
use super::{
    Layer, Target,
    condition::{Condition, Reader, Tri},
};
use crate::{
    convert::Exceptions,
    kube::{Atom, Cell, Discovery, Facts, Pattern, Resource, Text},
    kyverno::{
        config::Config,
        constraints,
        failure_action::Actions,
        matching::{self, Selection},
        webhook::Webhook,
    },
    pair::Original,
    policy::{MatchConstraints, MatchResources},
    vap::matching::{self as native_matching, Match},
    verdict::{Effect, Status},
};

/// Expressions that decide, their match conditions aside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Body {
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

/// The number of what cannot be evaluated at all.
pub const BROKEN: usize = usize::MAX;

/// Which expressions are asked, and what a violation of them does; sorted.
pub type Said = Vec<(usize, Effect)>;

/// What both sides say on a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Both {
    /// Kyverno.
    pub kyverno: Said,
    /// The API server.
    pub native: Said,
}

/// Match conditions that are asked one by one.
#[derive(Debug, Default)]
struct Asked {
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
    texts: Vec<String>,
    asked: Asked,
    body: usize,
}

/// A ValidatingPolicy, or what autogen makes of it.
#[derive(Debug)]
struct Variant {
    constraints: Option<MatchConstraints>,
    effect: Effect,
    texts: Vec<String>,
    asked: Asked,
    exceptions: Vec<Vec<Condition>>,
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
    texts: Vec<String>,
    asked: Asked,
    body: usize,
}

/// Both sides.
#[derive(Debug)]
pub struct Sides {
    /// All expressions.
    pub bodies: Vec<Body>,
    /// What is not exact about the match part.
    pub inexact: Vec<String>,
    kyverno: Kyverno,
    webhook: Webhook,
    config: Config,
    native: Vec<Native>,
    layer: Layer,
    admission: bool,
}

impl Sides {
    /// Prepares both sides.
    pub fn new(
        original: &Original,
        exceptions: Exceptions<'_>,
        target: &Target,
        config: &Config,
        layer: Layer,
    ) -> Self {
        let mut bodies = Bodies::default();
        let mut inexact = Vec::new();
        let native = native(target, &mut bodies);
        let (kyverno, webhook, admission) = match original {
            Original::Policy(policy) => (
                classic(policy, exceptions, &mut bodies, &mut inexact),
                Webhook::of_policy(policy),
                policy.spec.admission,
            ),
            Original::ValidatingPolicy(policy) => (
                validating(policy, exceptions, &mut bodies, &mut inexact),
                Webhook::of_validating_policy(policy),
                policy.spec.evaluation.admission,
            ),
        };
        let mut sides = Self {
            bodies: bodies.0,
            inexact,
            kyverno,
            webhook,
            config: config.clone(),
            native,
            layer,
            admission,
        };
        sides.share_conditions(original);
        sides
    }

    /// Conditions that can be asked are asked. Others belong to the body, if they are the same wherever one is asked.
    fn share_conditions(&mut self, original: &Original) {
        let reader = match original {
            Original::Policy(_) => Reader::Classic,
            Original::ValidatingPolicy(_) => Reader::Validating,
        };
        let mut lists: Vec<&Vec<String>> = self.native.iter().map(|native| &native.texts).collect();
        let mut lifted = false;
        match &self.kyverno {
            Kyverno::Classic { rules, .. } => lists.extend(rules.values().flatten().map(|rule| &rule.texts)),
            Kyverno::Validating { variants, .. } => {
                lists.extend(variants.iter().map(|variant| &variant.texts));
                lifted = variants.iter().any(|variant| !variant.exceptions.is_empty());
            }
        }
        let unreadable = lists
            .iter()
            .flat_map(|list| list.iter())
            .find(|text| Condition::read(text, reader).is_none());
        if let Some(text) = unreadable {
            if let Some(first) = lists.first().copied()
                && !lifted
                && lists.iter().all(|list| *list == first)
            {
                let shared = first.clone();
                for body in &mut self.bodies {
                    body.conditions.clone_from(&shared);
                }
                return;
            }
            self.inexact.push(format!(
                "the match condition `{text}` is beyond the fragment that is decided"
            ));
        }
        let read = |texts: &[String], reader: Reader| -> Vec<Condition> {
            texts.iter().filter_map(|text| Condition::read(text, reader)).collect()
        };
        for native in &mut self.native {
            native.asked.conditions = read(&native.texts, Reader::Native);
        }
        match &mut self.kyverno {
            Kyverno::Classic { rules, .. } => {
                for rule in rules.values_mut().flatten() {
                    rule.asked.conditions = read(&rule.texts, reader);
                }
            }
            Kyverno::Validating { variants, .. } => {
                for variant in variants {
                    variant.asked.conditions = read(&variant.texts, reader);
                }
            }
        }
    }

    /// What both sides say about the requests of a cell.
    pub fn run<'p>(
        &'p self,
        cell: &Cell<'_>,
        equivalents: &[&Resource],
        discovery: &Discovery,
        facts: &mut impl Facts<'p>,
    ) -> Both {
        let mut kyverno = self.kyverno(cell, discovery, facts);
        let mut native = self.native(cell, equivalents, facts);
        for said in [&mut kyverno, &mut native] {
            said.sort_unstable();
            // One body may be asked twice: the strongest effect counts.
            said.reverse();
            said.dedup_by_key(|(body, _)| *body);
            said.reverse();
        }
        Both { kyverno, native }
    }

    fn kyverno<'p>(&'p self, cell: &Cell<'_>, discovery: &Discovery, facts: &mut impl Facts<'p>) -> Said {
        let Some(resource) = delivered(&self.webhook, self.layer, cell, discovery, facts) else {
            return Said::new();
        };
        if self.layer != Layer::Rule && (!self.admission || !self.config.judges_cell(cell, facts)) {
            return Said::new();
        }
        let cell = &Cell {
            resource: &resource,
            ..*cell
        };
        let mut in_namespace = |namespace: &'p Option<String>| {
            let own = namespace.as_deref();
            own.is_none_or(|own| facts.ask(Atom::Text(Text::Namespace, Pattern::Exact(own))))
        };
        let mut said = Said::new();
        match &self.kyverno {
            Kyverno::Classic {
                rules,
                policy_namespace,
                namespace,
                only_one,
            } => {
                if !in_namespace(namespace) {
                    return said;
                }
                let own = rules.get(&resource.kind).or_else(|| rules.get(""));
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
                    match rule.asked.hold(cell, facts) {
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
                if !in_namespace(namespace) {
                    return said;
                }
                for variant in variants {
                    let Some(constraints) = &variant.constraints else {
                        continue;
                    };
                    match constraints::applies(constraints, cell, facts) {
                        Ok(false) => {}
                        Err(_) => said.push((BROKEN, variant.effect)),
                        Ok(true) => match variant.asked.hold(cell, facts) {
                            Tri::False => {}
                            Tri::Error => said.push((BROKEN, variant.effect)),
                            Tri::True => {
                                let mut exceptions = variant.exceptions.iter();
                                let lifted = exceptions.any(|conditions| {
                                    let mut conditions = conditions.iter();
                                    conditions.all(|condition| condition.ask(cell, facts) == Tri::True)
                                });
                                if !lifted {
                                    said.push((variant.body, variant.effect));
                                }
                            }
                        },
                    }
                }
            }
        }
        said
    }

    fn native<'p>(&'p self, cell: &Cell<'_>, equivalents: &[&Resource], facts: &mut impl Facts<'p>) -> Said {
        let mut said = Said::new();
        if native_matching::is_exempt(cell.resource) {
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
            match native_matching::matches(constraints, cell, equivalents, facts) {
                Ok(Match::No(_)) => continue,
                Ok(Match::Yes(_)) => {}
                Err(_) => {
                    said.push((BROKEN, Effect::Deny));
                    continue;
                }
            }
            for (block, effect) in &native.bindings {
                match block
                    .as_ref()
                    .map(|block| native_matching::matches(block, cell, equivalents, facts))
                {
                    None | Some(Ok(Match::Yes(_))) => match native.asked.hold(cell, facts) {
                        Tri::False => {}
                        Tri::Error => said.push((BROKEN, *effect)),
                        Tri::True => said.push((native.body, *effect)),
                    },
                    Some(Ok(Match::No(_))) => {}
                    Some(Err(_)) => said.push((BROKEN, Effect::Deny)),
                }
            }
        }
        said
    }
}

impl Asked {
    /// Whether all conditions hold: a false one decides, also where another cannot be evaluated.
    fn hold<'p>(&'p self, cell: &Cell<'_>, facts: &mut impl Facts<'p>) -> Tri {
        let mut all = Tri::True;
        for condition in &self.conditions {
            match condition.ask(cell, facts) {
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
pub fn delivered<'p>(
    webhook: &'p Webhook,
    layer: Layer,
    cell: &Cell<'_>,
    discovery: &Discovery,
    facts: &mut impl Facts<'p>,
) -> Option<Arc<Resource>> {
    let delivered = webhook.delivers(cell, discovery, facts);
    if layer == Layer::Rule && delivered.is_none() {
        return Some(Arc::new(cell.resource.clone()));
    }
    delivered
}
