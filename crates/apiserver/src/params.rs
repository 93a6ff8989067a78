//! The parameters that a binding selects.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go` `CollectParams`. Several
//! parameters come in the order of namespace and name, where upstream has none.

use std::collections::BTreeSet;

use super::{input::Input, policy::ParamRef};
use kyvtest_go_compat::value::{Document, Value};
use kyvtest_model::{
    kube::{Discovery, Resource, convert, parse_api_version},
    policy::ParamKind,
};

/// What the parameters of a policy are served as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Served<'d> {
    /// The policy has none.
    None,
    /// The kind's resource.
    As(&'d Resource),
    /// The API version is none, so that the server passes over the policy.
    Unreadable,
    /// Nothing serves the kind, in the server's words.
    Unknown(String),
}

/// Finds the resource of a policy's parameters.
pub(super) fn served<'d>(kind: Option<&ParamKind>, discovery: &'d Discovery) -> Served<'d> {
    let Some(kind) = kind else {
        return Served::None;
    };
    let (group, version) = parse_api_version(&kind.api_version);
    if version.contains('/') {
        return Served::Unreadable;
    }
    match discovery.by_kind(group, version, &kind.kind) {
        Some(resource) => Served::As(resource),
        None => Served::Unknown(format!(
            "failed to find resource referenced by paramKind: '{group}/{version}, Kind={}'",
            kind.kind
        )),
    }
}

/// The parameters of a binding, of the resource that the policy's parameters have; `None` of them is the one evaluation with
/// `params` null.
///
/// # Errors
/// The server's text.
pub(super) fn collect(
    resource: Option<&Resource>,
    reference: Option<&ParamRef>,
    input: &Input<'_>,
) -> Result<Vec<Option<Document>>, String> {
    let (Some(resource), Some(reference)) = (resource, reference) else {
        return Ok(vec![None]);
    };
    let fail = |text: &str| Err(text.to_owned());
    let own = input.request.namespace.as_str();
    let namespace = match (resource.namespaced, reference.namespace.as_str()) {
        (true, "") if own.is_empty() => {
            return fail("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources");
        }
        (true, "") => own,
        (true, namespace) => namespace,
        (false, "") => "",
        (false, _) => return fail("paramRef.namespace must not be provided for a cluster-scoped `paramKind`"),
    };
    let mut found = candidates(resource, namespace, input);
    match (reference.name.as_str(), &reference.selector) {
        ("", None) => return fail("one of name or selector must be provided"),
        ("", Some(selector)) => {
            if let Some(error) = selector.error() {
                return fail(error);
            }
            found.retain(|object| selector.selects(object.root()));
        }
        (_, Some(_)) => return fail("paramRef.name and paramRef.selector are mutually exclusive"),
        (name, None) => found.retain(|object| metadata(object, "name") == name),
    }
    if found.is_empty() && reference.deny_if_missing {
        return fail("no params found for policy binding with `Deny` parameterNotFoundAction");
    }
    found.sort_by(|a, b| metadata(a, "name").cmp(metadata(b, "name")));
    Ok(found.into_iter().map(Some).collect())
}

/// The objects of a kind in a namespace, each once, in the requested version.
fn candidates(resource: &Resource, namespace: &str, input: &Input<'_>) -> Vec<Document> {
    let world = input.world;
    let wanted = &resource.object_kind;
    let mut found: Vec<Document> = Vec::new();
    let mut names = BTreeSet::new();
    let namespaces = world.namespaces().map(|namespace| &namespace.object);
    for object in world.params.iter().chain(&world.objects).chain(namespaces) {
        let root = object.root();
        let text = |key: &str| root.get(key).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = parse_api_version(text("apiVersion"));
        if group != wanted.group || text("kind") != wanted.kind || metadata(object, "namespace") != namespace {
            continue;
        }
        if !names.insert(metadata(object, "name")) {
            continue;
        }
        let mut given = resource.clone();
        version.clone_into(&mut given.object_kind.version);
        found.push(convert(root, &given, resource));
    }
    found
}

/// `namespace/name`, or `name` of a cluster-scoped parameter.
pub(super) fn label(param: &Document) -> String {
    let (namespace, name) = (metadata(param, "namespace"), metadata(param, "name"));
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

/// A text of an object's metadata.
pub(super) fn metadata<'d>(object: &'d Document, field: &str) -> &'d str {
    let text = object.root().at(&["metadata", field]).and_then(Value::as_str);
    text.unwrap_or_default()
}
