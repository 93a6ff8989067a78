//! Both sides of a proof as functions of facts: which of their expressions are asked about a request, and what a violation
//! does.
//!
//! Matching itself is the engines' own: `kyverno::matching`, `kyverno::constraints`, `kyverno::failure_action`,
//! `kyverno::webhook` and `vap::matching`. Here stands only the order in which they are asked; that it is the engines' order
//! shows when a witness is replayed.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Layer, Target,
    condition::{Condition, Reader, Tri},
};
use crate::{
    convert::Exceptions,
    kube::{Atom, Cell, Discovery, Facts, Pattern, Resource, Text},
    kyverno::{
        autogen,
        config::Config,
        constraints,
        exception::CompiledException,
        failure_action::Actions,
        matching::{self, Selection},
        webhook::Webhook,
    },
    pair::Original,
    policy::{
        ApplyRules, MatchCondition, MatchConstraints, MatchResources, Policy, PolicyKind, Rule,
        ValidatingAdmissionPolicyBinding, ValidatingPolicy, ValidationAction, validate_exception,
    },
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

fn text_of(conditions: &[MatchCondition]) -> Vec<String> {
    let texts = conditions.iter().map(|condition| condition.expression.text().trim());
    texts.map(str::to_owned).collect()
}

fn effect_of(actions: impl IntoIterator<Item = ValidationAction>) -> Effect {
    let effects = actions.into_iter().map(|action| match action {
        ValidationAction::Deny => Effect::Deny,
        ValidationAction::Audit => Effect::Audit,
        ValidationAction::Warn => Effect::Warn,
    });
    effects.max().unwrap_or(Effect::Admit)
}

/// All expressions, each once.
#[derive(Default)]
struct Bodies(Vec<Body>);

impl Bodies {
    fn number(&mut self, body: Body) -> usize {
        if let Some(at) = self.0.iter().position(|other| *other == body) {
            return at;
        }
        self.0.push(body);
        self.0.len() - 1
    }
}

fn classic_body(rule: &Rule) -> Body {
    let Some(cel) = rule.validate.as_ref().and_then(|validate| validate.cel.as_ref()) else {
        return Body {
            opaque: Some("a rule without `validate.cel`"),
            ..Body::default()
        };
    };
    let text = |text: &str| text.trim().to_owned();
    Body {
        conditions: Vec::new(),
        variables: cel
            .variables
            .iter()
            .map(|variable| (variable.name.value.clone(), text(variable.expression.text())))
            .collect(),
        validations: cel
            .expressions
            .iter()
            .map(|part| text(part.expression.text()))
            .collect(),
        annotations: cel
            .audit_annotations
            .iter()
            .map(|part| (part.key.value.clone(), text(part.value_expression.text())))
            .collect(),
        params: cel
            .param_kind
            .as_ref()
            .map(|kind| format!("{}/{}", kind.api_version, kind.kind)),
        opaque: if rule.preconditions.is_some() || rule.context.is_some() {
            Some("`preconditions` or `context`")
        } else {
            None
        },
    }
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
                        Ok(false) => continue,
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

fn native(target: &Target, bodies: &mut Bodies) -> Vec<Native> {
    let bindings_of = |name: &str| {
        let own = target
            .bindings
            .iter()
            .filter(|binding| binding.policy_name.value == name);
        own.map(|binding| (binding.match_resources.clone(), binding_effect(binding)))
            .collect()
    };
    let text = |text: &str| text.trim().to_owned();
    let policies = target.policies.iter();
    policies
        .map(|policy| Native {
            constraints: policy.match_constraints.clone(),
            bindings: bindings_of(&policy.metadata.name.value),
            texts: text_of(&policy.match_conditions),
            asked: Asked {
                conditions: Vec::new(),
                ignores_errors: policy
                    .failure_policy
                    .as_ref()
                    .is_some_and(|word| word.value == "Ignore"),
            },
            body: bodies.number(Body {
                conditions: Vec::new(),
                variables: policy
                    .variables
                    .iter()
                    .map(|variable| (variable.name.value.clone(), text(variable.expression.text())))
                    .collect(),
                validations: policy
                    .validations
                    .iter()
                    .map(|part| text(part.expression.text()))
                    .collect(),
                annotations: policy
                    .audit_annotations
                    .iter()
                    .map(|part| (part.key.value.clone(), text(part.value_expression.text())))
                    .collect(),
                params: policy
                    .param_kind
                    .as_ref()
                    .map(|kind| format!("{}/{}", kind.api_version, kind.kind)),
                opaque: None,
            }),
        })
        .collect()
}

fn binding_effect(binding: &ValidatingAdmissionPolicyBinding) -> Effect {
    let actions = binding.validation_actions.iter();
    effect_of(actions.filter_map(|action| ValidationAction::from_text(&action.value)))
}

fn classic(policy: &Policy, exceptions: Exceptions<'_>, bodies: &mut Bodies, inexact: &mut Vec<String>) -> Kyverno {
    let usable = exceptions
        .classic
        .iter()
        .filter(|exception| validate_exception(exception).is_none());
    let compiled: Vec<(CompiledException, bool)> = usable
        .map(|exception| (CompiledException::new(exception), exception.conditions.is_some()))
        .collect();
    let key = policy.key();
    let webhook = policy.spec.webhook.as_ref();
    let conditions = webhook.map_or(&[][..], |webhook| &webhook.match_conditions);
    let mut make = |rule: &Rule| {
        let own = compiled
            .iter()
            .filter(|(exception, _)| exception.names(&key, &rule.name.value));
        if own.clone().any(|(_, conditional)| *conditional) {
            inexact.push("an exception has conditions".to_owned());
        }
        let mut texts = text_of(conditions);
        texts.extend(text_of(&rule.cel_preconditions));
        ClassicRule {
            matches: rule.matches.clone(),
            exclude: rule.exclude.clone(),
            exceptions: own.map(|(exception, _)| exception.matches().clone()).collect(),
            actions: Actions::new(policy, rule.validate.as_ref()),
            texts,
            asked: Asked::default(),
            body: bodies.number(classic_body(rule)),
        }
    };
    let mut rules = BTreeMap::new();
    for kind in autogen::controllers(policy) {
        let own = autogen::rules_for(policy, &kind);
        rules.insert(kind, own.iter().map(|rule| make(rule)).collect::<Vec<_>>());
    }
    rules.insert(String::new(), policy.spec.rules.iter().map(&mut make).collect());
    let own = policy
        .metadata
        .namespace
        .as_ref()
        .map(|namespace| namespace.value.clone());
    let apply = policy.spec.apply_rules.as_ref();
    let only_one = apply.is_some_and(|apply| apply.value == ApplyRules::One);
    if only_one && policy.spec.rules.len() > 1 {
        inexact.push("`applyRules: One` with several rules".to_owned());
    }
    Kyverno::Classic {
        rules,
        policy_namespace: own.clone().unwrap_or_default(),
        namespace: (policy.kind == PolicyKind::Policy).then(|| own.unwrap_or_else(|| "default".to_owned())),
        only_one,
    }
}

fn validating(
    policy: &ValidatingPolicy,
    exceptions: Exceptions<'_>,
    bodies: &mut Bodies,
    inexact: &mut Vec<String>,
) -> Kyverno {
    let own = exceptions.cel.iter().filter(|exception| {
        let mut refs = exception.policy_refs.iter();
        refs.any(|named| named.name.value == policy.metadata.name.value && named.kind.value == policy.kind())
    });
    let mut lifting: Vec<Vec<Condition>> = Vec::new();
    for exception in own {
        if !exception.images.is_empty() || !exception.allowed_values.is_empty() || exception.expires_at.is_some() {
            inexact.push("an exception is for some values or for some time only".to_owned());
        }
        let texts = text_of(&exception.match_conditions);
        let conditions: Vec<Condition> = texts
            .iter()
            .filter_map(|text| Condition::read(text, Reader::Validating))
            .collect();
        if conditions.len() < texts.len() {
            inexact.push("a condition of an exception is beyond the fragment that is decided".to_owned());
        }
        lifting.push(conditions);
    }
    let generated = autogen::variants(policy);
    let all = std::iter::once(policy).chain(generated.iter().map(|variant| &variant.policy));
    let text = |text: &str| text.trim().to_owned();
    let variants = all
        .map(|policy| {
            let spec = &policy.spec;
            let actions = spec.validation_actions.as_ref();
            Variant {
                constraints: spec.match_constraints.clone(),
                effect: actions.map_or(Effect::Deny, |list| effect_of(list.iter().map(|action| action.value))),
                texts: text_of(&spec.match_conditions),
                asked: Asked {
                    conditions: Vec::new(),
                    ignores_errors: ignores(policy),
                },
                exceptions: lifting.clone(),
                body: bodies.number(Body {
                    conditions: Vec::new(),
                    variables: spec
                        .variables
                        .iter()
                        .map(|variable| (variable.name.value.clone(), text(variable.expression.text())))
                        .collect(),
                    validations: spec
                        .validations
                        .iter()
                        .map(|part| text(part.expression.text()))
                        .collect(),
                    annotations: spec
                        .audit_annotations
                        .iter()
                        .map(|part| (part.key.value.clone(), text(part.value_expression.text())))
                        .collect(),
                    params: None,
                    opaque: None,
                }),
            }
        })
        .collect();
    let own = policy
        .metadata
        .namespace
        .as_ref()
        .map(|namespace| namespace.value.clone());
    Kyverno::Validating {
        variants,
        namespace: own.filter(|_| policy.namespaced),
    }
}

/// Whether a ValidatingPolicy ignores errors.
pub fn ignores(policy: &ValidatingPolicy) -> bool {
    let word = policy.spec.failure_policy.as_ref();
    word.is_some_and(|word| word.value == crate::policy::FailurePolicy::Ignore)
}
