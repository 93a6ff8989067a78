//! Context entries of a rule: available names, and the required fields of each kind of entry.
//!
//! Upstream counterpart: `validateRuleContext` and its callees in `pkg/validation/policy/validate.go`.

use crate::policy::Rule;
use kyvtest_go_compat::{
    text::{image_info::ImageInfo, variable::has_variable},
    yaml::{Items, Node},
};
use kyvtest_jmespath as jmespath;

const TAKEN: [&str; 6] = [
    "images",
    "request",
    "serviceAccountName",
    "serviceAccountNamespace",
    "element",
    "elementIndex",
];

/// Checks the entries of a rule.
///
/// # Errors
/// The first error, with upstream's message.
pub(super) fn check(rule: &Rule) -> Result<(), String> {
    let entries = rule.context.as_ref().and_then(|context| context.node().as_seq());
    for entry in entries.into_iter().flat_map(Items::iter) {
        let name = text(entry, "name");
        if name.is_empty() {
            return Err("a name is required for context entries".to_owned());
        }
        for word in TAKEN {
            if name == word || name.strip_prefix(word).is_some_and(|rest| rest.starts_with('.')) {
                return Err(format!(
                    "entry name {name} is invalid as it conflicts with a pre-defined variable {word}"
                ));
            }
        }
        let part = |name: &str| entry.get(name).filter(|part| !part.is_null());
        if let Some(map) = part("configMap") {
            config_map(map)?;
        } else if let Some(call) = part("apiCall") {
            if !text(call, "urlPath").is_empty() && call.get("service").is_some_and(|service| !service.is_null()) {
                return Err("a URLPath cannot be used for service API calls".to_owned());
            }
            query(call)?;
        } else if let Some(reference) = part("globalReference") {
            if text(reference, "name").is_empty() {
                return Err("a name is required for globalReference context entry".to_owned());
            }
            query(reference)?;
        } else if let Some(registry) = part("imageRegistry") {
            image_registry(registry)?;
        } else if let Some(variable) = part("variable") {
            query(variable)?;
            let has = |name: &str| variable.get(name).is_some_and(|value| !value.is_null());
            let has_query = !text(variable, "jmesPath").is_empty();
            if !has("value") && !has_query {
                return Err("a variable must define a value or a jmesPath expression".to_owned());
            }
            if has("default") && !has_query {
                let error = "a variable must define a default value only when a jmesPath expression is defined";
                return Err(error.to_owned());
            }
        }
    }
    Ok(())
}

fn text<'t>(node: Node<'t>, name: &str) -> &'t str {
    node.get(name).and_then(Node::as_str).unwrap_or_default()
}

fn config_map(map: Node<'_>) -> Result<(), String> {
    for field in ["name", "namespace"] {
        if text(map, field).is_empty() {
            return Err(format!("a {field} is required for configMap context entry"));
        }
    }
    Ok(())
}

fn image_registry(registry: Node<'_>) -> Result<(), String> {
    let reference = text(registry, "reference");
    if reference.is_empty() {
        return Err("a ref is required for imageRegistry context entry".to_owned());
    }
    if !has_variable(reference) && ImageInfo::parse(reference).is_err() {
        return Err(format!("bad image: {reference}: invalid reference format"));
    }
    query(registry)
}

/// A query with variables cannot be checked before substitution.
fn query(part: Node<'_>) -> Result<(), String> {
    let query = text(part, "jmesPath");
    if query.is_empty() || has_variable(query) {
        return Ok(());
    }
    match jmespath::Expression::parse(query) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("failed to parse JMESPath {query}: {error}")),
    }
}
