//! One side of a comparison: any set of policies with their bindings, exceptions and parameters, once as engines that decide
//! about a request and once as formulas about all requests of a class.
//!
//! Order and matching are the engines' own: `Controller::select` and `Server::select` with symbolic facts. What expressions say
//! is left to the oracles here, which turn each stage into formulas. That the formulas say what the engines do is checked
//! whenever a request goes through the engines.

mod classic;
mod kyverno;
mod native;
mod parameters;
mod validating;

use std::sync::Arc;

use kyvtest_apiserver::{self as vap, matching::listed_as};
use kyvtest_cel::{host::Mocks, observe::Place as Where, program::Program};
use kyvtest_go_compat::value::Document;
use kyvtest_kyverno::{
    autogen,
    config::Config,
    controller::{Controller, Installed, Review},
    exception::CompiledException,
    lens::Lens,
    webhook::{Delivery, Webhook},
};
use kyvtest_model::{
    kube::{Discovery, Environment, Operation, RequestClass, Resource},
    policy::{Loaded, Policy, ValidatingAdmissionPolicy, validate_admission, validate_in_cluster},
    verdict::{Effect, Verdict},
};

use self::classic::ClassicRules;
pub(super) use self::classic::Outcome as RuleOutcome;
use super::{
    cel::{self, Surroundings},
    formula::{Arena, Formula},
    request::{Request, Viewer},
    value::{Result, Sym, Truth, Value},
};
use crate::{Layer, pair::NativeVerdict, witness::Scenario};

/// How much of Kyverno counts, and with which configuration.
#[derive(Debug, Clone, Default)]
pub struct Setting {
    /// How much counts.
    pub layer: Layer,
    /// Kyverno's configuration, which counts at the layer `cluster` alone.
    pub config: Config,
}

impl Setting {
    const fn lens(&self) -> Lens {
        Lens::at(self.layer)
    }
}

/// A set of policies.
pub struct Side {
    setting: Setting,
    loaded: Loaded,
    /// Objects that belong to the side, such as parameters.
    objects: Vec<Document>,
    controller: Option<Controller>,
    /// In the order of the controller's policies.
    classic: Vec<ClassicRules>,
    /// The exceptions of classic rules, in the order of `loaded`.
    exceptions: Vec<CompiledException>,
    natives: Vec<Arc<ValidatingAdmissionPolicy>>,
    server: vap::Server,
}

impl std::fmt::Debug for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Side")
            .field("objects", &self.objects.len())
            .finish_non_exhaustive()
    }
}

impl Side {
    /// Prepares a side.
    ///
    /// # Errors
    /// Why Kyverno or the API server rejects one of the policies.
    pub fn new(loaded: Loaded, objects: Vec<Document>, discovery: &Discovery) -> std::result::Result<Self, String> {
        Self::with_setting(loaded, objects, discovery, &Setting::default())
    }

    /// Prepares a side with more or less of Kyverno.
    ///
    /// # Errors
    /// Why Kyverno or the API server rejects one of the policies.
    pub fn with_setting(
        loaded: Loaded,
        objects: Vec<Document>,
        discovery: &Discovery,
        setting: &Setting,
    ) -> std::result::Result<Self, String> {
        let compared = |policy: &&Policy| policy.validates() || policy.as_native().is_some();
        if let Some(other) = loaded.policies.iter().find(|policy| !compared(policy)) {
            return Err(format!("policies of kind `{}` are not compared", other.kind()));
        }
        for policy in loaded.classic() {
            let checked = validate_in_cluster(policy, &autogen::all_rules(policy), discovery);
            if let Some(message) = checked.error {
                return Err(format!(
                    "Kyverno rejects policy `{}`: {message}",
                    policy.metadata.name.value
                ));
            }
        }
        let vaps = loaded.native().map(|policy| &policy.source);
        let bindings = loaded.bindings.iter().map(|binding| &binding.source);
        for source in vaps.chain(bindings) {
            let checked = validate_admission(source.document().root());
            if !checked.errors.is_empty() {
                return Err(format!("the API server rejects an object: {}", checked.message));
            }
        }
        let installed = Installed {
            policies: &loaded.policies,
            exceptions: &loaded.exceptions,
            cel_exceptions: &loaded.cel_exceptions,
        };
        let (controller, mut refused) = Controller::new(installed, setting.config.clone(), setting.lens(), discovery);
        if let Some(refused) = refused.pop() {
            return Err(format!(
                "Kyverno rejects policy `{}`: {}",
                refused.id.name, refused.errors
            ));
        }
        let has_kyverno = loaded.policies.iter().any(Policy::validates);
        Ok(Self {
            controller: has_kyverno.then_some(controller),
            classic: loaded
                .classic()
                .map(|policy| ClassicRules::new(policy, setting.lens()))
                .collect(),
            exceptions: loaded
                .exceptions
                .iter()
                .map(|own| CompiledException::new(own))
                .collect(),
            natives: loaded.native().cloned().collect(),
            server: vap::Server::new(
                loaded.native().map(|policy| &**policy),
                loaded.bindings.iter().map(|binding| &**binding),
                vap::Lens::ApiServer,
            ),
            loaded,
            objects,
            setting: setting.clone(),
        })
    }

    /// How much of Kyverno counts.
    pub(crate) fn setting(&self) -> &Setting {
        &self.setting
    }

    /// The policies.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// The objects that belong to the side.
    pub fn objects(&self) -> &[Document] {
        &self.objects
    }

    /// Evaluates a request: the strongest verdict of all policies.
    pub fn decide(&self, scenario: &Scenario, discovery: &Discovery, mocks: &Mocks) -> Verdict {
        let (review, answer) = self.review(scenario, discovery, mocks);
        let kyverno = review.map(|review| review.verdict());
        let native = answer.map(|answer| NativeVerdict::of(answer).verdict);
        Verdict::strongest(kyverno.into_iter().chain(native).collect())
    }

    /// Evaluates a request: what Kyverno and the API server say, if they have policies.
    pub(super) fn review(
        &self,
        scenario: &Scenario,
        discovery: &Discovery,
        mocks: &Mocks,
    ) -> (Option<Review>, Option<vap::AdmissionResponse>) {
        let Scenario { request, world, .. } = scenario;
        let own;
        let world = if self.objects.is_empty() {
            world
        } else {
            let mut with = world.clone();
            // The side's own objects are there instead of others of the same name.
            with.params
                .retain(|given| !self.objects.iter().any(|own| same_object(own, given)));
            with.params.extend(self.objects.iter().cloned());
            own = with;
            &own
        };
        let environment = Environment::new(world, discovery, mocks);
        let review = self.controller.as_ref();
        let review = review.map(|controller| controller.review(request, environment));
        let has_native = !self.server.policies().is_empty();
        let answer = has_native.then(|| self.server.review(request, environment));
        (review, answer)
    }

    /// Whether a request of a class may reach one of the policies.
    pub(super) fn may_see(&self, cell: &RequestClass<'_>, discovery: &Discovery) -> bool {
        if cell.operation == Operation::Connect && cell.resource.subresource.is_empty() {
            return false;
        }
        if self.setting.layer == Layer::Rule && self.controller.is_some() {
            return true;
        }
        let controller = self.controller.iter();
        let mut webhooks = controller.flat_map(|controller| {
            let policies = controller.policies().iter();
            policies.filter_map(|policy| controller.webhook(policy))
        });
        if webhooks.any(|webhook| webhook.route(cell, discovery) != Delivery::None) {
            return true;
        }
        let equivalents: Vec<&Resource> = discovery.equivalents(cell.resource).map(|other| &**other).collect();
        self.loaded.native().any(|policy| {
            policy
                .match_constraints
                .as_ref()
                .is_none_or(|constraints| listed_as(constraints, cell, &equivalents).is_some())
        })
    }

    /// The conditions under which the side has its effects on the requests of a class.
    pub(super) fn model<'d>(
        &self,
        arena: &mut Arena,
        request: &Request<'d>,
        discovery: &'d Discovery,
    ) -> Result<Effects> {
        let mut effects = Effects::default();
        if let Some(controller) = &self.controller {
            let mut classic = self.classic.iter();
            for policy in controller.policies() {
                let rules = if policy.is_cel() { None } else { classic.next() };
                self.kyverno_policy(arena, (request, discovery), (controller, policy, rules), &mut effects)?;
            }
        }
        for number in 0..self.server.policies().len() {
            self.native_policy(arena, request, discovery, number, &mut effects)?;
        }
        Ok(effects)
    }

    /// Whether the API server calls Kyverno, and whether it denies the request because it cannot tell.
    fn called(arena: &mut Arena, webhook: &Webhook, request: &Request<'_>) -> Result<Called> {
        let count = webhook.match_conditions().len();
        if count == 0 {
            return Ok(Called {
                called: Formula::TRUE,
                denied: Formula::FALSE,
            });
        }
        let programs = webhook.programs();
        let expressions = Expressions::new(&programs, request, Viewer::Webhook, request.seen);
        let conditions = expressions.conditions(arena, count)?;
        let refused = conditions.error;
        Ok(Called {
            called: conditions.holds,
            denied: if webhook.fails() { refused } else { Formula::FALSE },
        })
    }
}

/// Whether two objects are of the same kind, name and namespace.
fn same_object(a: &Document, b: &Document) -> bool {
    let paths: [&[&str]; 4] = [
        &["apiVersion"],
        &["kind"],
        &["metadata", "name"],
        &["metadata", "namespace"],
    ];
    paths.iter().all(|path| a.root().at(path) == b.root().at(path))
}

/// Adds objects to those of a cluster, which has only one of each kind, name and namespace: the first.
pub(super) fn add_objects(known: &mut Vec<Document>, objects: Vec<Document>) {
    for object in objects {
        if !known.iter().any(|other| same_object(other, &object)) {
            known.push(object);
        }
    }
}

struct Called {
    called: Formula,
    denied: Formula,
}

/// The conditions of the effects of a side; the strongest counts.
#[derive(Debug, Default, Clone)]
pub(super) struct Effects {
    causes: Vec<(Formula, Effect)>,
}

impl Effects {
    fn add(&mut self, condition: Formula, effect: Effect) {
        if condition != Formula::FALSE && effect != Effect::Admit {
            self.causes.push((condition, effect));
        }
    }

    /// The condition that the effect is the given one or a stronger one.
    pub(super) fn at_least(&self, arena: &mut Arena, effect: Effect) -> Formula {
        let causes = self.causes.iter().filter(|(_, own)| *own >= effect);
        arena.or(causes.map(|(condition, _)| *condition))
    }
}

/// The compiled expressions of a policy on a request.
struct Expressions<'a> {
    surroundings: Surroundings<'a>,
    /// What match conditions see, where that is something else: the API server's validator shows them no namespace.
    of_conditions: Option<Surroundings<'a>>,
    conditions: Vec<(usize, &'a Program)>,
    validations: Vec<(usize, &'a Program)>,
    annotations: Vec<(usize, &'a Program)>,
}

/// What match conditions come to together.
pub(super) struct Conditions {
    pub(super) holds: Formula,
    /// None is false, and one cannot be evaluated.
    pub(super) error: Formula,
}

impl<'a> Expressions<'a> {
    fn new(programs: &[(Where, &'a Program)], request: &Request<'_>, viewer: Viewer, matched: &Resource) -> Self {
        let mut expressions = Self {
            surroundings: Surroundings::new(request.roots(viewer, matched), rustc_hash::FxHashMap::default()),
            conditions: Vec::new(),
            validations: Vec::new(),
            annotations: Vec::new(),
            of_conditions: None,
        };
        for (place, program) in programs {
            match place {
                Where::MatchCondition(i) => expressions.conditions.push((*i, program)),
                Where::Validation(i) => expressions.validations.push((*i, program)),
                Where::Annotation(i) => expressions.annotations.push((*i, program)),
                Where::Variable(name) => {
                    expressions.surroundings.variables.insert(name.clone(), Some(program));
                }
                Where::Message(_) => {}
            }
        }
        if viewer != Viewer::Validating {
            let mut roots = expressions.surroundings.roots.clone();
            roots.insert("namespaceObject", Value::of(Sym::Null));
            let variables = expressions.surroundings.variables.clone();
            expressions.of_conditions = Some(Surroundings::new(roots, variables));
        }
        expressions
    }

    /// Shows the expressions a parameter.
    fn parameter(&mut self, value: &Value) {
        if let Some(conditions) = &mut self.of_conditions {
            conditions.roots.insert("params", value.clone());
        }
        self.surroundings.roots.insert("params", value.clone());
    }

    /// Declares a variable that may be one that cannot be compiled.
    fn declare(&mut self, names: impl Iterator<Item = String>) {
        for name in names {
            if let Some(conditions) = &mut self.of_conditions {
                conditions.variables.entry(name.clone()).or_insert(None);
            }
            self.surroundings.variables.entry(name).or_insert(None);
        }
    }

    /// Evaluates all of a kind; what cannot be compiled is an error.
    fn truths(
        arena: &mut Arena,
        surroundings: &Surroundings<'a>,
        own: &[(usize, &'a Program)],
        count: usize,
    ) -> Result<Vec<Truth>> {
        let mut truths = Vec::new();
        for i in 0..count {
            truths.push(match own.iter().find(|(at, _)| *at == i) {
                Some((_, program)) => cel::truth(arena, program, surroundings)?,
                None => Truth::ERROR,
            });
        }
        Ok(truths)
    }

    fn conditions(&self, arena: &mut Arena, count: usize) -> Result<Conditions> {
        let surroundings = self.of_conditions.as_ref().unwrap_or(&self.surroundings);
        let truths = Self::truths(arena, surroundings, &self.conditions, count)?;
        Ok(together(arena, &truths))
    }

    fn validations(&self, arena: &mut Arena, count: usize) -> Result<Vec<Truth>> {
        Self::truths(arena, &self.surroundings, &self.validations, count)
    }

    /// Whether an annotation cannot be evaluated; `None` if there is none.
    fn annotation_error(&self, arena: &mut Arena, count: usize, null_is_text: bool) -> Result<Formula> {
        let mut errors = Vec::new();
        for i in 0..count {
            match self.annotations.iter().find(|(at, _)| *at == i) {
                Some((_, program)) => {
                    let text = cel::is_text(arena, program, &self.surroundings, null_is_text)?;
                    errors.push(arena.not(text));
                }
                None => errors.push(Formula::TRUE),
            }
        }
        Ok(arena.or(errors))
    }
}

/// Conditions together: a false one decides, then one that cannot be evaluated.
pub(super) fn together(arena: &mut Arena, truths: &[Truth]) -> Conditions {
    let Truth { yes, no } = arena.all(truths);
    let known = arena.or([yes, no]);
    Conditions {
        holds: yes,
        error: arena.not(known),
    }
}
