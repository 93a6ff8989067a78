//! MutatingPolicy and NamespacedMutatingPolicy.
//!
//! Upstream counterpart: `pkg/cel/policies/mpol/{compiler,engine}` (Kyverno 1.19). A policy with an expression that
//! cannot be compiled is rejected as a whole.
//!
//! Known deviations: the built-in schemas are those of Kubernetes 1.36, upstream's offline ones those of 1.32; what upstream
//! computes in the order of a Go map (annotations, type mismatches) comes in written order.

mod compile;
mod evaluate;
mod patch;

use crate::{
    cel_policy::{Exception, Identity, Slots},
    constraints::applies,
    input::{Documents, Input},
    lens::Route,
    response::RuleResponse,
};
use kyvtest_cel::{admission::PatchKind, composite::Composite, env::Env, host::Host, observe::Place, program::Program};
use kyvtest_go_compat::value::{Document, Value};
use kyvtest_model::{
    kube::{Concrete, Discovery, GroupVersionKind, Namespace, Operation, Request},
    policy::{MatchConstraints, PolicyId},
    verdict::{Part, Status, Trace},
};
use kyvtest_patch::structured::{Atomics, Schema};

/// A policy that is ready for evaluation.
#[derive(Debug)]
pub struct CompiledMutatingPolicy {
    identity: Identity,
    admission: bool,
    mutate_existing: bool,
    atomics: Atomics,
    constraints: Option<MatchConstraints>,
    target_constraints: Option<MatchConstraints>,
    env: Env,
    slots: Slots,
    composite: Composite,
    match_conditions: Vec<Program>,
    target_conditions: Vec<Program>,
    target_expression: Option<Program>,
    patchers: Vec<Patcher>,
    audit_annotations: Vec<(String, Program)>,
    exceptions: Vec<Exception>,
}

/// A mutation.
#[derive(Debug)]
enum Patcher {
    ApplyConfiguration(Program),
    JsonPatch(Program),
}

/// What a policy makes of an object.
#[derive(Debug, Clone)]
pub struct Evaluated {
    /// Status, message and audit annotations.
    pub response: RuleResponse,
    /// The object after the policy, changed or not; `None` after a skip, an exception or an error.
    pub patched: Option<Document>,
}

impl From<RuleResponse> for Evaluated {
    fn from(response: RuleResponse) -> Self {
        Self {
            response,
            patched: None,
        }
    }
}

impl CompiledMutatingPolicy {
    /// The policy's identity. Its namespace is the one as written.
    pub fn id(&self) -> &PolicyId {
        &self.identity.id
    }

    /// Whether the policy also changes existing objects.
    pub(crate) fn mutates_existing(&self) -> bool {
        self.mutate_existing
    }

    /// Whether the policy changes other objects than that of the request.
    pub(crate) fn has_targets(&self) -> bool {
        self.target_constraints.is_some()
    }

    /// The match block, if there is one.
    pub fn constraints(&self) -> Option<&MatchConstraints> {
        self.constraints.as_ref()
    }

    /// The programs of match conditions and variables, for observers.
    pub fn programs(&self) -> Vec<(Place, &Program)> {
        let conditions = self.match_conditions.iter().enumerate();
        let conditions = conditions.map(|(i, program)| (Place::MatchCondition(i), program));
        self.composite.places().chain(conditions).collect()
    }

    /// The programs of the mutations, in order.
    pub fn mutations(&self) -> impl Iterator<Item = (PatchKind, &Program)> {
        self.patchers.iter().map(|patcher| match patcher {
            Patcher::ApplyConfiguration(program) => (PatchKind::ApplyConfiguration, program),
            Patcher::JsonPatch(program) => (PatchKind::JsonPatch, program),
        })
    }

    /// The conditions of each exception, and whether it lifts the policy as a whole.
    pub fn exception_programs(&self) -> impl Iterator<Item = (bool, &[Program])> {
        let exceptions = self.exceptions.iter();
        exceptions.map(|exception| (exception.is_full(), exception.conditions()))
    }

    /// Evaluates the policy on a request. `object` is the request's object after the policies before it, and null for
    /// DELETE. `None` if the policy does not match.
    pub fn evaluate(&self, input: &Input<'_>, object: &Document, host: &dyn Host) -> Option<Evaluated> {
        if input.lens.admission_switch && !self.admission {
            return None;
        }
        let mut request = input.request.clone();
        if !object.root().is_null() {
            request.object = object.clone();
        }
        let matched = Input::new(&request, input.world, input.discovery, input.lens);
        let mut facts = matched.cel_facts();
        let cell = request.cell();
        if !self.identity.admits(input.lens, &cell, &mut facts) {
            return None;
        }
        // Without constraints every request matches.
        let matches = self
            .constraints
            .as_ref()
            .map_or(Ok(true), |block| applies(block, &cell, &mut facts));
        match matches {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => {
                let message = format!("failed to execute matching: {error}");
                return Some(RuleResponse::new("match", Status::Error, message, Trace::error(Part::Match)).into());
            }
        }
        let Documents {
            object: _,
            old_object,
            request: described,
            namespace,
        } = input.policy();
        let namespace = namespace.root();
        let empty = Document::from(&serde_json::json!({}));
        let values = evaluate::Values {
            object: if object.root().is_null() { &empty } else { object },
            old_object: old_object.root(),
            request: described.root(),
            // In a cluster the namespace of what is in none is null.
            namespace: if namespace.is_null() && input.lens.route != Route::Webhooks {
                empty.root()
            } else {
                namespace
            },
            api_version: input.request.resource.object_kind.api_version(),
            custom: custom_schema(input.discovery, &input.request.resource.object_kind),
        };
        Some(self.run(values, evaluate::Purpose::Request, host))
    }

    /// Evaluates the policy on an existing object. `trigger` is the request that led to it.
    pub(crate) fn evaluate_target(&self, trigger: &Input<'_>, target: &Request, host: &dyn Host) -> Evaluated {
        let Documents { request, .. } = trigger.policy();
        let empty = Document::from(&serde_json::json!({}));
        let values = evaluate::Values {
            object: &target.object,
            old_object: Value::Null,
            request: request.root(),
            namespace: empty.root(),
            api_version: target.resource.object_kind.api_version(),
            custom: custom_schema(trigger.discovery, &target.resource.object_kind),
        };
        self.run(values, evaluate::Purpose::Target, host)
    }

    /// Whether an existing object is one of those that the policy changes by its constraints. Operations do not count.
    pub(crate) fn selects_target(&self, target: &Input<'_>) -> bool {
        let own = self
            .target_constraints
            .as_ref()
            .filter(|block| !block.resource_rules.is_empty());
        let Some(constraints) = own.or(self.constraints.as_ref()) else {
            return false;
        };
        let mut constraints = constraints.clone();
        for rule in &mut constraints.resource_rules {
            rule.rule.operations = vec!["*".to_owned()];
        }
        debug_assert_eq!(
            target.request.operation,
            Operation::Create,
            "targets are given as new objects"
        );
        // Upstream knows nothing of the namespaces of targets.
        let namespace = Namespace::minimal(&target.request.namespace);
        let mut facts = Concrete::new(target.request, Some(&namespace));
        applies(&constraints, &target.request.cell(), &mut facts) == Ok(true)
    }

    /// The keys (`namespace/name`) of the existing objects that the policy's expression selects for a trigger; `None` if it
    /// has no expression.
    ///
    /// # Errors
    /// The message with which upstream ends the run.
    pub(crate) fn selected_targets(&self, trigger: &Document, host: &dyn Host) -> Option<Result<Vec<String>, String>> {
        let program = self.target_expression.as_ref()?;
        Some(evaluate::targets(self, program, trigger, &self.identity.host(host)))
    }

    fn run(&self, values: evaluate::Values<'_>, purpose: evaluate::Purpose, host: &dyn Host) -> Evaluated {
        evaluate::evaluate(self, &values, purpose, &self.identity.host(host))
    }
}

/// The schema of a custom kind, which Kyverno reads from the API server, and `kyverno test` from the suite's definitions.
fn custom_schema(discovery: &Discovery, kind: &GroupVersionKind) -> Option<Schema> {
    let text = |value: Value<'_>, path: &[&str], wanted: &str| value.at(path).and_then(Value::as_str) == Some(wanted);
    let versions = discovery.definitions().iter().filter_map(|definition| {
        let spec = definition.root().get("spec")?;
        if !text(spec, &["group"], &kind.group) || !text(spec, &["names", "kind"], &kind.kind) {
            return None;
        }
        let versions = spec.get("versions").and_then(Value::as_list)?;
        versions.iter().find(|version| text(*version, &["name"], &kind.version))
    });
    let open_api = |version: Value<'_>| {
        let schema = version.at(&["schema", "openAPIV3Schema"]);
        Schema::custom(&kind.api_version(), &kind.kind, schema)
    };
    versions.map(open_api).next()
}
