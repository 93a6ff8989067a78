//! Rules as Go writes them into its error texts: fields in the order of the Go types, defaults of the schema, HTML escapes.

use std::fmt::Write;

use crate::{
    text::float,
    value::{Document, Value},
    yaml::{Items, Node},
};

/// How a part is written.
enum Shape {
    /// As a value: keys sorted.
    Any,
    /// A text, even if it is empty.
    Text,
    /// A Go struct: its fields in order.
    Struct(&'static [Field]),
    /// A list of structs.
    List(&'static [Field]),
}

/// A field of a Go struct.
struct Field {
    name: &'static str,
    shape: Shape,
    /// What is written where the field is absent.
    default: &'static str,
}

const fn any(name: &'static str) -> Field {
    Field {
        name,
        shape: Shape::Any,
        default: "",
    }
}

const fn text(name: &'static str) -> Field {
    Field {
        name,
        shape: Shape::Text,
        default: "\"\"",
    }
}

const fn with_default(name: &'static str, default: &'static str) -> Field {
    Field {
        name,
        shape: Shape::Any,
        default,
    }
}

const fn part(name: &'static str, fields: &'static [Field], default: &'static str) -> Field {
    Field {
        name,
        shape: Shape::Struct(fields),
        default,
    }
}

const fn list(name: &'static str, fields: &'static [Field]) -> Field {
    Field {
        name,
        shape: Shape::List(fields),
        default: "",
    }
}

const RULE: &[Field] = &[
    any("name"),
    list("context", CONTEXT),
    any("reportProperties"),
    part("match", MATCH, "{\"resources\":{}}"),
    part("exclude", MATCH, ""),
    any("imageExtractors"),
    any("preconditions"),
    list("celPreconditions", NAMED),
    any("mutate"),
    part("validate", VALIDATE, ""),
    part("generate", GENERATE, ""),
    any("verifyImages"),
    with_default("skipBackgroundRequests", "true"),
];

const GENERATE: &[Field] = &[
    any("generateExisting"),
    any("synchronize"),
    any("orphanDownstreamOnPolicyDelete"),
    any("apiVersion"),
    any("kind"),
    any("namespace"),
    any("name"),
    any("uid"),
    any("data"),
    part("clone", &[any("namespace"), any("name")], "{}"),
    part(
        "cloneList",
        &[any("namespace"), any("kinds"), part("selector", SELECTOR, "")],
        "{}",
    ),
    any("foreach"),
];

const CONTEXT: &[Field] = &[
    any("name"),
    part("configMap", &[text("name"), any("namespace")], ""),
    part("apiCall", API_CALL, ""),
    part(
        "imageRegistry",
        &[text("reference"), any("jmesPath"), any("imageRegistryCredentials")],
        "",
    ),
    part("variable", &[any("value"), any("jmesPath"), any("default")], ""),
    part("globalReference", &[text("name"), any("jmesPath")], ""),
];

const API_CALL: &[Field] = &[
    text("urlPath"),
    with_default("method", "\"GET\""),
    any("data"),
    part("service", &[text("url"), any("headers"), text("caBundle")], ""),
    any("jmesPath"),
    any("default"),
];

const MATCH: &[Field] = &[
    list("any", FILTER),
    list("all", FILTER),
    any("roles"),
    any("clusterRoles"),
    list("subjects", SUBJECT),
    part("resources", RESOURCES, "{}"),
];

const FILTER: &[Field] = &[
    any("roles"),
    any("clusterRoles"),
    list("subjects", SUBJECT),
    part("resources", RESOURCES, "{}"),
];

const SUBJECT: &[Field] = &[any("kind"), any("apiGroup"), any("name"), any("namespace")];

const RESOURCES: &[Field] = &[
    any("kinds"),
    any("name"),
    any("names"),
    any("namespaces"),
    any("annotations"),
    part("selector", SELECTOR, ""),
    part("namespaceSelector", SELECTOR, ""),
    any("operations"),
];

const SELECTOR: &[Field] = &[any("matchLabels"), list("matchExpressions", REQUIREMENT)];

const REQUIREMENT: &[Field] = &[any("key"), any("operator"), any("values")];

const NAMED: &[Field] = &[any("name"), any("expression")];

const VALIDATE: &[Field] = &[
    any("failureAction"),
    list(
        "failureActionOverrides",
        &[
            any("action"),
            any("namespaces"),
            part("namespaceSelector", SELECTOR, ""),
        ],
    ),
    with_default("allowExistingViolations", "true"),
    any("message"),
    any("manifests"),
    any("foreach"),
    any("pattern"),
    any("anyPattern"),
    any("deny"),
    any("podSecurity"),
    part("cel", CEL, ""),
    any("assert"),
];

const CEL: &[Field] = &[
    with_default("generate", "false"),
    list(
        "expressions",
        &[
            any("expression"),
            any("message"),
            any("reason"),
            any("messageExpression"),
        ],
    ),
    part("paramKind", &[any("apiVersion"), any("kind")], ""),
    part(
        "paramRef",
        &[
            any("name"),
            any("namespace"),
            part("selector", SELECTOR, ""),
            any("parameterNotFoundAction"),
        ],
        "",
    ),
    list("auditAnnotations", &[any("key"), any("valueExpression")]),
    list("variables", NAMED),
];

/// Fields that are written even if they are empty.
const ALWAYS: [&str; 4] = ["expression", "key", "valueExpression", "operator"];

/// A rule.
pub(super) fn rule(node: Node<'_>, v2beta1: bool) -> String {
    let mut out = String::new();
    fields(node, RULE, v2beta1, &mut out);
    out
}

/// The `validate` part of a rule, without the conditions of `deny`.
pub(super) fn validate(node: Node<'_>, v2beta1: bool) -> String {
    let mut out = String::new();
    fields(node, VALIDATE, v2beta1, &mut out);
    if node.get("deny").is_some() {
        // The conditions are not looked into, so nothing of them may be found.
        let mut rest = String::new();
        let kept: Vec<&Field> = VALIDATE.iter().filter(|field| field.name != "deny").collect();
        object(node, kept.into_iter(), v2beta1, &mut rest);
        return rest;
    }
    out
}

const IMAGE: &[Field] = &[
    any("failureAction"),
    any("type"),
    any("image"),
    any("imageReferences"),
    any("skipImageReferences"),
    list("attestors", ATTESTORS),
    any("attestations"),
    any("repository"),
    with_default("mutateDigest", "true"),
    with_default("verifyDigest", "true"),
    with_default("validate", "{}"),
    with_default("required", "true"),
    any("imageRegistryCredentials"),
    with_default("useCache", "true"),
];

const ATTESTORS: &[Field] = &[any("count"), list("entries", ATTESTOR)];

const ATTESTOR: &[Field] = &[
    part("keys", KEYS, ""),
    any("certificates"),
    any("keyless"),
    any("attestor"),
    any("annotations"),
    any("repository"),
    with_default("signatureAlgorithm", "\"sha256\""),
];

const KEYS: &[Field] = &[
    any("publicKeys"),
    with_default("signatureAlgorithm", "\"sha256\""),
    any("kms"),
    any("secret"),
    any("rekor"),
    any("ctlog"),
];

fn shaped(node: Node<'_>, shape: &'static [Field]) -> String {
    let mut out = String::new();
    fields(node, shape, false, &mut out);
    out
}

/// An entry of `verifyImages`.
pub(super) fn image(node: Node<'_>) -> String {
    shaped(node, IMAGE)
}

/// A set of attestors.
pub(super) fn attestors(node: Node<'_>) -> String {
    shaped(node, ATTESTORS)
}

/// An attestor.
pub(super) fn attestor(node: Node<'_>) -> String {
    shaped(node, ATTESTOR)
}

/// The keys of an attestor.
pub(super) fn keys(node: Node<'_>) -> String {
    shaped(node, KEYS)
}

/// Any value, with sorted keys.
pub(super) fn value(node: Node<'_>) -> String {
    let mut out = String::new();
    any_value(Document::from(node).root(), &mut out);
    out
}

/// A label selector.
pub(super) fn selector(node: Node<'_>) -> String {
    let mut out = String::new();
    fields(node, SELECTOR, false, &mut out);
    out
}

/// A subject.
pub(super) fn subject(node: Node<'_>) -> String {
    let mut out = String::new();
    fields(node, SUBJECT, false, &mut out);
    out
}

/// Any part, as Go keeps it in memory: an empty text is an absent one, an empty list is not.
pub(super) fn reflected(node: Node<'_>) -> serde_json::Value {
    prune(Document::from(node).root().to_serde())
}

fn prune(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value as Json;
    match value {
        Json::Object(map) => {
            let mut kept = serde_json::Map::new();
            for (key, value) in map {
                let value = prune(value);
                let empty = value.is_null()
                    || value.as_str() == Some("")
                    || (key == "resources" && value.as_object().is_some_and(serde_json::Map::is_empty));
                if !empty {
                    kept.insert(key, value);
                }
            }
            Json::Object(kept)
        }
        Json::Array(list) => list.into_iter().map(prune).collect(),
        value => value,
    }
}

fn fields(node: Node<'_>, shape: &'static [Field], v2beta1: bool, out: &mut String) {
    object(node, shape.iter(), v2beta1, out);
}

fn object<'f>(node: Node<'_>, shape: impl Iterator<Item = &'f Field>, v2beta1: bool, out: &mut String) {
    out.push('{');
    let mut first = true;
    for field in shape {
        let mut text = String::new();
        match node.get(field.name).filter(|value| !value.is_null()) {
            Some(value) => match &field.shape {
                Shape::Struct(shape) => fields(value, shape, v2beta1, &mut text),
                Shape::List(shape) => {
                    let items = value.as_seq();
                    let items = items.into_iter().flat_map(Items::iter);
                    for (i, item) in items.enumerate() {
                        text.push(if i == 0 { '[' } else { ',' });
                        fields(item, shape, v2beta1, &mut text);
                    }
                    if !text.is_empty() {
                        text.push(']');
                    }
                }
                Shape::Text => any_value(Document::from(value).root(), &mut text),
                Shape::Any => {
                    let document = Document::from(value);
                    let empty = match document.root() {
                        Value::String(text) => text.is_empty() && !ALWAYS.contains(&field.name),
                        Value::List(list) => list.is_empty(),
                        Value::Map(map) => map.is_empty() && !["pattern", "deny", "mutate"].contains(&field.name),
                        _ => false,
                    };
                    if !empty {
                        any_value(document.root(), &mut text);
                    }
                }
            },
            None if v2beta1 && field.name == "allowExistingViolations" => {}
            None => text.push_str(field.default),
        }
        if text.is_empty() {
            continue;
        }
        if !first {
            out.push(',');
        }
        first = false;
        out.push('"');
        out.push_str(field.name);
        out.push_str("\":");
        out.push_str(&text);
    }
    out.push('}');
}

/// A value with sorted keys.
fn any_value(value: Value<'_>, out: &mut String) {
    match value {
        Value::String(text) => string(text, out),
        Value::Double(double) => out.push_str(float::json(double).as_deref().unwrap_or("null")),
        Value::List(list) => {
            out.push('[');
            for (i, item) in list.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                any_value(item, out);
            }
            out.push(']');
        }
        Value::Map(map) => {
            let mut entries: Vec<(&str, Value<'_>)> = map.iter().map(|(key, value)| (key.text(), value)).collect();
            entries.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (i, (key, item)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                string(key, out);
                out.push(':');
                any_value(item, out);
            }
            out.push('}');
        }
        scalar => out.push_str(&scalar.to_json()),
    }
}

/// A string with the escapes of `encoding/json`.
fn string(text: &str, out: &mut String) {
    for c in serde_json::Value::from(text).to_string().chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
}
