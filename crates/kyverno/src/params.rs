//! The parameters of a `validate.cel` rule.
//!
//! Upstream counterpart: `pkg/admissionpolicy/utils.go` `CollectParams`. A parameter that is named and missing is an
//! error regardless of `parameterNotFoundAction`; that field counts only if a selector finds nothing.

use super::input::Input;
use kyvtest_go_compat::value::{Document, Value};
use kyvtest_model::{
    kube::{self, Resource, parse_api_version},
    policy::{LabelSelector, ParamKind, ParamRef, Text},
};

/// Which parameters a rule wants.
#[derive(Debug, Clone)]
pub(super) struct Params {
    kind: ParamKind,
    name: String,
    namespace: String,
    selector: Option<kube::LabelSelector>,
    deny_if_missing: bool,
}

impl Params {
    pub(super) fn new(kind: &ParamKind, reference: Option<&ParamRef>) -> Self {
        let text = |text: Option<&Text>| text.map(|text| text.value.clone()).unwrap_or_default();
        Self {
            kind: kind.clone(),
            name: text(reference.and_then(|reference| reference.name.as_ref())),
            namespace: text(reference.and_then(|reference| reference.namespace.as_ref())),
            selector: reference
                .and_then(|reference| reference.selector.clone())
                .map(LabelSelector::compile),
            deny_if_missing: reference
                .and_then(|reference| reference.parameter_not_found_action.as_ref())
                .is_some_and(|action| action.value == "Deny"),
        }
    }

    /// The parameters for a request.
    ///
    /// # Errors
    /// Upstream's message.
    pub(super) fn collect<'w>(&self, input: &Input<'w>) -> Result<Vec<&'w Document>, String> {
        let (group, version) = parse_api_version(&self.kind.api_version);
        if version.contains('/') {
            return Err("can't parse the parameter resource group version".to_owned());
        }
        let resource = input
            .discovery
            .by_kind(group, version, &self.kind.kind)
            .ok_or("failed to check if resource is namespaced or not (resource not found)")?;
        let namespaced = resource.namespaced && !input.lens.cluster_wide_params;
        let namespace = match (namespaced, self.namespace.as_str()) {
            (true, "") => match input.object_namespace() {
                "" => return Err("can't use namespaced paramRef to match cluster-scoped resources".to_owned()),
                own => own,
            },
            (true, namespace) => namespace,
            (false, "") => "",
            (false, _) => {
                return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
            }
        };
        // The fake client lists cluster-wide what it does not find by name.
        let everywhere = input.lens.cluster_wide_params && self.name.is_empty();
        let mut found = self.objects(input, (!everywhere).then_some(namespace));
        if !self.name.is_empty() {
            let named = found.into_iter().find(|object| metadata(object, "name") == self.name);
            return named
                .map(|object| vec![object])
                .ok_or_else(|| not_found(resource, &self.name));
        }
        match &self.selector {
            Some(selector) => {
                if let Some(error) = selector.error() {
                    return Err(error.to_owned());
                }
                found.retain(|object| selector.selects(object.root()));
            }
            None => found.clear(),
        }
        if found.is_empty() && self.deny_if_missing {
            return Err("no params found".to_owned());
        }
        found.sort_by_key(|object| metadata(object, "name"));
        Ok(found)
    }

    /// The objects of a namespace, or of all.
    fn objects<'w>(&self, input: &Input<'w>, namespace: Option<&str>) -> Vec<&'w Document> {
        let is_one = |object: &&'w Document| {
            let root = object.root();
            root.get("apiVersion").and_then(Value::as_str) == Some(self.kind.api_version.as_str())
                && root.get("kind").and_then(Value::as_str) == Some(self.kind.kind.as_str())
                && namespace.is_none_or(|namespace| metadata(object, "namespace") == namespace)
        };
        let params: Vec<&Document> = input.world.params.iter().filter(is_one).collect();
        if params.is_empty() {
            return input.world.objects.iter().filter(is_one).collect();
        }
        params
    }
}

fn metadata<'d>(object: &'d Document, field: &str) -> &'d str {
    let text = object.root().at(&["metadata", field]).and_then(Value::as_str);
    text.unwrap_or_default()
}

fn not_found(resource: &Resource, name: &str) -> String {
    let dot = if resource.group.is_empty() { "" } else { "." };
    format!("{}{dot}{} \"{name}\" not found", resource.plural, resource.group)
}
