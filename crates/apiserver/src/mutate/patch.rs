//! One mutation of one object: evaluate, patch, decode, default.
//!
//! Upstream counterpart: `dispatchOne` of `k8s.io/apiserver/pkg/admission/plugin/policy/mutating/dispatcher.go` and the
//! patchers below `patch`.
//!
//! Known deviation: an apply configuration for a kind whose schema is not known is an error of our own; upstream has the
//! schema of every served kind.

use std::{cell::RefCell, rc::Rc};

use super::MutationError;
use crate::mutating::CompiledMutatingPolicy;
use kyvtest_cel::{
    admission::{Inputs, PatchKind},
    context::{Context, Scratch},
    host::{Attributes, Host},
    profile::Profile,
    val::Val,
};
use kyvtest_go_compat::value::{Document, Value};
use kyvtest_model::kube::GroupVersionKind;
use kyvtest_normalise::{Cluster, Kind, Mutation, mutated};
use kyvtest_patch::{
    expression::{self, JsonPatchError},
    structured::{self, Atomics, Schema},
};

/// Makes mutations with what one server knows.
pub(super) struct Patcher<'c> {
    cluster: &'c Cluster,
    host: &'c dyn Host,
    /// The schemas of custom kinds, by version and kind; `None` if it has no definition.
    schemas: RefCell<Vec<(GroupVersionKind, Option<Rc<Schema>>)>>,
}

impl<'c> Patcher<'c> {
    pub(super) fn new(cluster: &'c Cluster, host: &'c dyn Host) -> Self {
        Self {
            cluster,
            host,
            schemas: RefCell::default(),
        }
    }

    /// The object after mutation number `index` of a policy. `matched` is the kind as which the request is matched.
    pub(super) fn mutate(
        &self,
        (policy, index): (&CompiledMutatingPolicy, usize),
        inputs: &Inputs<'_>,
        attributes: &Attributes,
        matched: &GroupVersionKind,
    ) -> Result<Document, MutationError> {
        let kind = policy.mutator.mutations().nth(index);
        let scratch = Scratch::new();
        let object = inputs.object;
        let (patched, how) = policy
            .mutator
            .evaluate(index, inputs, attributes, self.host, &scratch, |value| {
                let value = value.map_err(MutationError::Evaluation)?;
                match kind {
                    Some(PatchKind::JsonPatch) => {
                        let context = Context::new(&scratch, Profile::kubernetes_mutating(), self.host);
                        let patched = json_patch(value, object, &context)?;
                        Ok((patched, Mutation::Patched))
                    }
                    _ => Ok((self.apply(value, object, matched)?, Mutation::Merged)),
                }
            })?;
        // A failed `test` leaves the object as it is, with its defaults.
        let Some(patched) = patched else {
            return Ok(object.to_document());
        };
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let before = Kind {
            api_version: text("apiVersion"),
            name: text("kind"),
        };
        mutated(before, patched.root(), how, self.cluster).map_err(|error| match how {
            Mutation::Merged => {
                let kind = GroupVersionKind::from_api_version(before.api_version, before.name);
                MutationError::Evaluation(format!(
                    "unable to convert unstructured object to {}: {error}",
                    go(&kind)
                ))
            }
            Mutation::Patched | Mutation::PatchedByWebhook => MutationError::Server(error),
        })
    }

    fn apply(
        &self,
        value: Val<'_>,
        object: Value<'_>,
        matched: &GroupVersionKind,
    ) -> Result<Option<Document>, MutationError> {
        let config = expression::apply_configuration(value).map_err(MutationError::Evaluation)?;
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let merge = |schema: &Schema| {
            let ty = schema.kind(text("apiVersion"), text("kind"))?;
            structured::apply(ty, object, &config, Atomics::Reject)
        };
        let merged = if Schema::builtin().has_version(&matched.api_version()) {
            merge(Schema::builtin())
        } else if let Some(schema) = self.custom_schema(matched) {
            merge(&schema)
        } else {
            return Err(MutationError::Server(format!(
                "the schema of {} is not known: an ApplyConfiguration needs the CustomResourceDefinition",
                go(matched)
            )));
        };
        match merged {
            Ok(merged) => Ok(Some(merged)),
            Err(error) => Err(MutationError::Evaluation(format!("error applying patch: {error}"))),
        }
    }

    fn custom_schema(&self, kind: &GroupVersionKind) -> Option<Rc<Schema>> {
        let mut schemas = self.schemas.borrow_mut();
        if let Some((_, schema)) = schemas.iter().find(|(known, _)| known == kind) {
            return schema.clone();
        }
        let definitions = self.cluster.definitions.iter();
        let schema = definitions
            .filter_map(|definition| version(definition.root(), kind))
            .map(|version| {
                let open_api = version.at(&["schema", "openAPIV3Schema"]);
                Rc::new(Schema::custom(&kind.api_version(), &kind.kind, open_api))
            })
            .next();
        schemas.push((kind.clone(), schema.clone()));
        schema
    }
}

fn json_patch<'a>(value: Val<'a>, object: Value<'_>, context: &Context<'a>) -> Result<Option<Document>, MutationError> {
    expression::json_patch(value, object, context).map_err(|error| match error {
        JsonPatchError::Invalid(error) => MutationError::Evaluation(error),
        JsonPatchError::Panic(error) => MutationError::Panic(error),
    })
}

/// The version of a kind in its definition.
fn version<'d>(definition: Value<'d>, kind: &GroupVersionKind) -> Option<Value<'d>> {
    let text = |value: Value<'d>, path: &[&str]| value.at(path).and_then(Value::as_str);
    let spec = definition.get("spec")?;
    if text(spec, &["group"]) != Some(&kind.group) || text(spec, &["names", "kind"]) != Some(&kind.kind) {
        return None;
    }
    let versions = spec.get("versions").and_then(Value::as_list)?;
    versions.iter().find(|own| text(*own, &["name"]) == Some(&kind.version))
}

/// The Go type of a kind, as the conversion of objects prints it.
pub(super) fn go_type(kind: &GroupVersionKind) -> String {
    format!("{}.{}", kind.version, kind.kind)
}

/// A kind as Go prints it.
pub(super) fn go(kind: &GroupVersionKind) -> String {
    format!("{}/{}, Kind={}", kind.group, kind.version, kind.kind)
}
