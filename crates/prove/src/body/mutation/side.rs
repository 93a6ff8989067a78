//! One side of a comparison: the policies of any kind that change objects, as engines and as units that apply to requests.
//!
//! Upstream counterpart: the order of evaluation of `kyvtest_kyverno::mutating_controller` and `kyvtest_apiserver`'s mutating
//! phase.

use std::{borrow::Cow, sync::Arc};

use kyvtest_apiserver::{self as vap, matching::listed_as};
use kyvtest_cel::{admission::PatchKind, observe::Place, program::Program};
use kyvtest_go_compat::value::Document;
use kyvtest_kyverno::{
    autogen::{all_rules, mutating_variants},
    exception::CompiledException,
    mutate::CompiledMutation,
    mutating_controller::MutatingController,
    mutating_policy::CompiledMutatingPolicy,
    webhook::{Delivery, Webhook},
};
use kyvtest_model::{
    compare::Mutation as Outcome,
    kube::{Discovery, RequestClass, Resource},
    policy::{
        ClassicPolicy, FailurePolicy, Loaded, MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingPolicy,
        Mutation, Policy, Rule, Variable, validate_admission, validate_in_cluster,
    },
    verdict::Verdict,
};
use serde_json::Value as Json;

use super::guards::{Engine, UnitText};
use crate::{
    Layer,
    mutation::{Phases, at_layer},
};

/// A set of policies that change objects.
pub struct MutatingSide {
    loaded: Loaded,
    controller: MutatingController,
    native: Option<vap::Server>,
    pub(super) policies: Vec<KyvernoUnits>,
    pub(super) natives: Vec<NativeUnit>,
    pub(super) rules: Vec<RuleUnits>,
    /// The exceptions to mutate rules.
    pub(super) exceptions: Vec<CompiledException>,
}

/// The mutate rules of a policy, those that autogen makes included.
pub(super) struct RuleUnits {
    pub(super) policy: Arc<ClassicPolicy>,
    pub(super) webhook: Webhook,
    /// Rules that change the object of the request.
    pub(super) rules: Vec<Rule>,
}

/// A MutatingPolicy with what autogen makes of it.
pub(super) struct KyvernoUnits {
    pub(super) policy: Arc<MutatingPolicy>,
    pub(super) webhook: Webhook,
    pub(super) variants: Vec<(CompiledMutatingPolicy, UnitText)>,
}

/// A MutatingAdmissionPolicy with its bindings.
pub(super) struct NativeUnit {
    pub(super) number: usize,
    pub(super) policy: Arc<MutatingAdmissionPolicy>,
    pub(super) bindings: Vec<Arc<MutatingAdmissionPolicyBinding>>,
    pub(super) text: UnitText,
}

impl std::fmt::Debug for MutatingSide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MutatingSide").finish_non_exhaustive()
    }
}

/// What a side makes of a request.
pub(super) struct After {
    pub(super) verdict: Verdict,
    /// The object after admission; `None` if the request is refused.
    pub(super) object: Option<Document>,
    pub(super) changed: bool,
}

impl After {
    pub(super) fn outcome(&self) -> Outcome<'_> {
        Outcome {
            verdict: &self.verdict,
            object: self.object.as_ref(),
            changed: self.changed,
        }
    }
}

/// Whether a rule changes the object of the request.
fn changes(rule: &Rule) -> bool {
    let targets = |rule: &Rule| {
        rule.mutate
            .as_ref()
            .and_then(|mutate| mutate.node().get("targets").map(|_| ()))
    };
    rule.mutate.is_some() && targets(rule).is_none()
}

impl MutatingSide {
    /// Whether one of the policies changes the objects of requests.
    pub fn concerns(loaded: &Loaded) -> bool {
        !loaded.mutating_bindings.is_empty()
            || loaded.policies.iter().any(|policy| match policy {
                Policy::Classic(policy) => policy.spec.rules.iter().any(changes),
                other => other.as_mutating().is_some() || other.as_native_mutating().is_some(),
            })
    }

    /// Prepares a side. Policies that change no object are left out.
    ///
    /// # Errors
    /// Why Kyverno or the API server rejects one of the policies.
    pub fn new(mut loaded: Loaded, discovery: &Discovery, layer: Layer) -> Result<Self, String> {
        loaded.policies.retain(|policy| match policy {
            Policy::Classic(policy) => policy.spec.rules.iter().any(changes),
            other => other.as_mutating().is_some() || other.as_native_mutating().is_some(),
        });
        for policy in &mut loaded.policies {
            *policy = at_layer(policy, layer);
        }
        let rules: Vec<Arc<ClassicPolicy>> = loaded.classic().cloned().collect();
        for policy in &rules {
            if let Some(message) = validate_in_cluster(policy, &all_rules(policy), discovery).error {
                let name = &policy.metadata.name.value;
                return Err(format!("Kyverno rejects policy `{name}`: {message}"));
            }
        }
        let maps = loaded.native_mutating().map(|policy| &policy.source);
        for source in maps.chain(loaded.mutating_bindings.iter().map(|binding| &binding.source)) {
            let checked = validate_admission(source.document().root());
            if !checked.errors.is_empty() {
                return Err(format!("the API server rejects an object: {}", checked.message));
            }
        }
        let policies: Vec<Arc<MutatingPolicy>> = loaded.mutating().cloned().collect();
        let (controller, mut refused) = MutatingController::new(&policies, &loaded.cel_exceptions);
        if let Some((policy, errors)) = refused.pop() {
            let name = &policy.metadata.name.value;
            return Err(format!("Kyverno rejects policy `{name}`: {errors}"));
        }
        let controller = controller.with_rules(&rules, &loaded.exceptions, discovery);
        let has_native = loaded.native_mutating().next().is_some();
        if has_native && !controller.is_empty() {
            return Err("native policies and Kyverno's on one side are not compared".to_owned());
        }
        let native = has_native.then(|| {
            vap::Server::new([], [], vap::Lens::ApiServer).with_mutation(
                loaded.native_mutating().map(|policy| &**policy),
                loaded.mutating_bindings.iter().map(|binding| &**binding),
            )
        });
        let mut side = Self {
            controller,
            native,
            policies: Vec::new(),
            natives: natives(&loaded),
            rules: Vec::new(),
            exceptions: loaded
                .exceptions
                .iter()
                .map(|own| CompiledException::new(own))
                .collect(),
            loaded,
        };
        for policy in policies {
            side.policies.push(kyverno_units(&policy, &side.loaded)?);
        }
        let registered = rules
            .into_iter()
            .filter(|policy| CompiledMutation::new(policy).is_some());
        side.rules = registered
            .filter_map(|policy| {
                let webhook = Webhook::of_mutate_rules(&policy, discovery)?;
                let rules = all_rules(&policy).into_iter().map(Cow::into_owned).filter(changes);
                Some(RuleUnits {
                    rules: rules.collect(),
                    webhook,
                    policy,
                })
            })
            .collect();
        Ok(side)
    }

    /// The policies.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Whether a request of a class may reach one of the policies.
    pub fn may_see(&self, cell: &RequestClass<'_>, discovery: &Discovery) -> bool {
        let own = self.policies.iter().map(|policy| &policy.webhook);
        let mut webhooks = own.chain(self.rules.iter().map(|rules| &rules.webhook));
        if webhooks.any(|webhook| webhook.route(cell, discovery) != Delivery::None) {
            return true;
        }
        let equivalents: Vec<&Resource> = discovery.equivalents(cell.resource).map(|other| &**other).collect();
        self.natives.iter().any(|unit| {
            let constraints = unit.policy.match_constraints.as_ref();
            constraints.is_some_and(|constraints| listed_as(constraints, cell, &equivalents).is_some())
        })
    }

    /// The programs of a native policy.
    pub(super) fn native_programs(&self, number: usize) -> Vec<(Place, &Program)> {
        let policies = self.native.as_ref().map_or(&[][..], vap::Server::mutating_policies);
        policies
            .get(number)
            .map(vap::CompiledMutatingPolicy::programs)
            .unwrap_or_default()
    }

    /// Whether a rule of the side merges strategically.
    pub(super) fn merges(&self) -> bool {
        let is_merge = |block: &Json| !block["patchStrategicMerge"].is_null();
        self.rules.iter().flat_map(|rules| &rules.rules).any(|rule| {
            let mutate = rule.mutate.as_ref().map(|mutate| mutate.document().root().to_serde());
            let mutate = mutate.unwrap_or_default();
            is_merge(&mutate) || mutate["foreach"].as_array().into_iter().flatten().any(is_merge)
        })
    }

    /// The mutate rules of the side.
    pub(super) fn rules(&self) -> impl Iterator<Item = &Rule> {
        let rules = self.rules.iter().flat_map(|rules| &rules.policy.spec.rules);
        rules.filter(|rule| changes(rule))
    }

    /// Whether two sides have the same policies, but for their names: what happens is then the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.specs() == other.specs()
            && self.loaded.exceptions.is_empty()
            && self.loaded.cel_exceptions.is_empty()
            && other.loaded.exceptions.is_empty()
            && other.loaded.cel_exceptions.is_empty()
    }

    /// The specs of all policies with their kinds and namespaces; bindings belong to the policies that they name.
    fn specs(&self) -> Vec<Json> {
        let mut specs = Vec::new();
        for policy in &self.loaded.policies {
            let (spec, bindings) = match policy {
                Policy::Classic(policy) => (policy.spec.source.document().root().to_serde(), Vec::new()),
                Policy::Mutating(policy) => (policy.spec.source.document().root().to_serde(), Vec::new()),
                Policy::NativeMutating(policy) => {
                    let name = &policy.metadata.name.value;
                    let own = self.loaded.mutating_bindings.iter();
                    let own = own.filter(|binding| binding.policy_name.value == *name).map(|binding| {
                        let mut spec = binding.source.document().root().to_serde()["spec"].clone();
                        spec["policyName"] = Json::Null;
                        spec
                    });
                    (
                        policy.source.document().root().to_serde()["spec"].clone(),
                        own.collect(),
                    )
                }
                _ => (Json::Null, Vec::new()),
            };
            specs.push(serde_json::json!([policy.kind(), policy.namespace(), spec, bindings]));
        }
        specs
    }

    /// The policies as JSON, for the words and constants in them.
    pub fn sources(&self) -> Vec<Json> {
        let specs = self.specs().into_iter();
        let exceptions = self.loaded.cel_exceptions.iter().map(|exception| {
            let conditions = exception.match_conditions.iter();
            Json::from(
                conditions
                    .map(|condition| condition.expression.text())
                    .collect::<Vec<_>>(),
            )
        });
        let lifted = self.loaded.exceptions.iter();
        let lifted = lifted.map(|exception| exception.source.document().root().to_serde());
        specs
            .map(|spec| spec[2].clone())
            .chain(exceptions)
            .chain(lifted)
            .collect()
    }

    /// The verdict on a prepared request, the object after admission and whether it changed.
    pub(crate) fn review(&self, phases: Phases<'_>) -> (Verdict, Option<Document>, bool) {
        let After {
            verdict,
            object,
            changed,
        } = self.run(phases);
        (verdict, object, changed)
    }

    /// Sends a prepared request through the mutating phase and what follows it.
    pub(super) fn run(&self, phases: Phases<'_>) -> After {
        match &self.native {
            Some(native) => {
                let side = phases.native(native);
                After {
                    object: phases.completed(&side),
                    verdict: side.verdict,
                    changed: side.changed,
                }
            }
            None => {
                let side = phases.kyverno(&self.controller, None, None);
                After {
                    object: phases.completed(&side),
                    verdict: side.verdict,
                    changed: side.changed,
                }
            }
        }
    }
}

fn natives(loaded: &Loaded) -> Vec<NativeUnit> {
    let unit = |(number, policy): (usize, &Arc<MutatingAdmissionPolicy>)| {
        let name = &policy.metadata.name.value;
        let bindings = loaded.mutating_bindings.iter();
        let bindings = bindings.filter(|binding| binding.policy_name.value == *name).cloned();
        let ignores = policy
            .failure_policy
            .as_ref()
            .is_some_and(|word| word.value == "Ignore");
        let conditions = policy.match_conditions.iter();
        NativeUnit {
            number,
            bindings: bindings.collect(),
            text: UnitText {
                engine: Engine::Native,
                mutations: mutations(&policy.rules.mutations),
                variables: variables(&policy.variables),
                conditions: conditions
                    .map(|condition| condition.expression.text().to_owned())
                    .collect(),
                ignores,
                runs_again: policy
                    .rules
                    .reinvocation_policy
                    .as_ref()
                    .is_some_and(|word| word.value == "IfNeeded"),
                has_annotations: false,
                replaces_atomics: false,
            },
            policy: Arc::clone(policy),
        }
    };
    loaded.native_mutating().enumerate().map(unit).collect()
}

fn kyverno_units(policy: &Arc<MutatingPolicy>, loaded: &Loaded) -> Result<KyvernoUnits, String> {
    let exceptions = || loaded.cel_exceptions.iter().map(|exception| &**exception);
    let policy = &Arc::new(policy.as_stored().into_owned());
    let compiled = CompiledMutatingPolicy::compile_all(policy, exceptions()).map_err(|errors| errors.to_string())?;
    let generated = mutating_variants(policy);
    let specs = std::iter::once(&policy.spec).chain(generated.iter().map(|variant| &variant.policy.spec));
    let texts = specs.map(|spec| {
        let failure = spec.failure_policy.as_ref();
        let conditions = spec.match_conditions.iter();
        UnitText {
            engine: Engine::Kyverno,
            mutations: mutations(&spec.mutations),
            variables: variables(&spec.variables),
            conditions: conditions
                .map(|condition| condition.expression.text().to_owned())
                .collect(),
            ignores: failure.is_some_and(|word| word.value == FailurePolicy::Ignore),
            runs_again: false,
            has_annotations: !spec.audit_annotations.is_empty(),
            replaces_atomics: spec.evaluation.use_server_side_apply,
        }
    });
    Ok(KyvernoUnits {
        policy: Arc::clone(policy),
        webhook: Webhook::of_mutating_policy(policy),
        variants: compiled.into_iter().zip(texts).collect(),
    })
}

fn mutations(all: &[Mutation]) -> Vec<(PatchKind, String)> {
    let known = all.iter().filter_map(|mutation| {
        let (kind, body) = match mutation.patch_type.value.as_str() {
            "ApplyConfiguration" => (PatchKind::ApplyConfiguration, &mutation.apply_configuration),
            "JSONPatch" => (PatchKind::JsonPatch, &mutation.json_patch),
            _ => return None,
        };
        Some((kind, body.as_ref()?.text().to_owned()))
    });
    known.collect()
}

fn variables(all: &[Variable]) -> Vec<(String, String)> {
    let named = all.iter();
    named
        .map(|variable| (variable.name.value.clone(), variable.expression.text().to_owned()))
        .collect()
}
