//! Objects between the mutations of mutating policies: read back into their type and defaulted after each of them, and
//! shown to the plugins again before the second pass.
//!
//! Upstream counterpart: `dispatchOne` of `k8s.io/apiserver/pkg/admission/plugin/policy/mutating/dispatcher.go`, the strict
//! JSON serializer of apimachinery, `runtime.DefaultUnstructuredConverter`, and
//! `k8s.io/apiserver/pkg/admission/reinvocation.go` (0.36).
//!
//! Known deviations: `serviceAccount` follows `serviceAccountName` after each mutation, upstream at the end of a pass; keys of maps are not part of the paths of unknown fields.

use kyvtest_go_compat::value::{Builder, Document, Value, go_json};

use crate::{
    Cluster, Refused, Request,
    custom::{self, Custom},
    decode::{self as typed, Decoder, Mode},
    defaults,
    encode::{self, Form},
    node::Node,
    plugins,
    step::{Kind, Raw, decode},
    table::{Served, TABLE},
};

/// How a mutation made its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// An apply configuration was merged: the result is an untyped object that fits the schema.
    Merged,
    /// A JSON patch was applied: the result is JSON text that is decoded strictly.
    Patched,
    /// The patch of a webhook was applied: unknown fields are dropped.
    PatchedByWebhook,
}

/// Reads the result of a mutation of an object of `kind` and applies the defaults of its version.
///
/// Custom resources are not decoded, so unknown fields stay; kinds without a table pass unchanged.
///
/// # Errors
/// Upstream's message.
pub fn mutated(kind: Kind<'_>, object: Value<'_>, how: Mutation, cluster: &Cluster) -> Result<Document, String> {
    if let Some(served) = TABLE.kind(kind.api_version, kind.name) {
        return match how {
            Mutation::Merged => merged(served, object),
            Mutation::Patched => decoded(kind, object, Mode::Strict),
            Mutation::PatchedByWebhook => decoded(kind, object, Mode::Body),
        };
    }
    match custom::find(&cluster.definitions, kind) {
        Some(custom) => defaulted(custom, object, how),
        None => Ok(object.to_document()),
    }
}

fn merged(served: Served, object: Value<'_>) -> Result<Document, String> {
    let node = Decoder::with_mode(Mode::Converted).object(served.type_id, object, None)?;
    Ok(finished(served, node, false))
}

/// Decodes into the type that the document names, or that of the object before if it names none.
fn decoded(kind: Kind<'_>, object: Value<'_>, mode: Mode) -> Result<Document, String> {
    if object.as_map().is_some() {
        typed::type_meta(object)?;
    }
    let text = |key: &str| object.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let api_version = text("apiVersion").unwrap_or(kind.api_version);
    let name = text("kind").unwrap_or(kind.name);
    let Some(served) = TABLE.kind(api_version, name) else {
        return Err(format!(
            "no kind \"{name}\" is registered for version \"{api_version}\" in scheme \"pkg/api/legacyscheme/scheme.go:30\""
        ));
    };
    let mut decoder = Decoder::with_mode(mode);
    let node = decoder.object(served.type_id, object, None)?;
    let unknown = decoder.into_unknown();
    if unknown.is_empty() {
        return Ok(finished(served, node, mode == Mode::Body));
    }
    let fields: Vec<String> = unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect();
    Err(format!("strict decoding error: {}", fields.join(", ")))
}

/// Applies defaults. `is_internal` says whether the object is converted to the internal type as well, which folds
/// `stringData` into `data`.
fn finished(served: Served, mut node: Node<'_>, is_internal: bool) -> Document {
    node.set("apiVersion", served.api_version);
    node.set("kind", served.kind);
    let keeps_texts = served.kind == "Secret" && !is_internal;
    let texts = keeps_texts.then(|| node.remove("stringData")).flatten();
    defaults::apply(served.type_id, &mut node);
    if let Some(texts) = texts {
        node.set("stringData", texts);
    }
    encode::document(served.type_id, &node, Form::Seen).0
}

fn defaulted(custom: Custom<'_>, object: Value<'_>, how: Mutation) -> Result<Document, String> {
    let named = object.get("kind").and_then(Value::as_str);
    if named.is_none_or(str::is_empty) {
        let mut json = String::new();
        if go_json::write_value(&mut json, object).is_err() {
            json = object.to_json();
        }
        return Err(format!("Object 'Kind' is missing in '{json}'"));
    }
    let mut node = Node::of(object);
    if how == Mutation::PatchedByWebhook {
        read_back(&mut node);
    }
    if let Some(schema) = custom.schema {
        custom::default(schema, &mut node, true);
    }
    let mut out = Builder::new();
    node.write(&mut out);
    Ok(out.finish())
}

/// Converts numbers as a round trip through JSON does: integral floats lose their point.
fn read_back(node: &mut Node<'_>) {
    match node {
        Node::Double(value) if value.fract() == 0.0 && value.abs() < 9e18 => *node = Node::Int(*value as i64),
        Node::List(items) => items.iter_mut().for_each(read_back),
        Node::Map(entries) => entries.iter_mut().for_each(|(_, value)| read_back(value)),
        _ => {}
    }
}

/// Converts a mutated object to the internal type and back, as at the end of a pass.
pub fn settled(kind: Kind<'_>, object: &Document) -> Document {
    match TABLE.kind(kind.api_version, kind.name) {
        Some(_) => decoded(kind, object.root(), Mode::Body).unwrap_or_else(|_| object.clone()),
        None => object.clone(),
    }
}

/// Runs the mutating plugins again, on an object that policies have changed since.
///
/// A plugin runs only if it had nothing to do on `before`, the object that the first policy saw: otherwise it never saw
/// that object, which was given.
///
/// # Errors
/// The plugin's reason to reject the object.
pub fn plugins_again(
    kind: Kind<'_>,
    before: &Document,
    object: &Document,
    request: Request<'_>,
    cluster: &Cluster,
) -> Result<Document, Refused> {
    if TABLE.kind(kind.api_version, kind.name).is_none() {
        return Ok(object.clone());
    }
    let (Ok(before), Ok(mut decoded)) = (
        decode(kind, Raw::from(before), cluster),
        decode(kind, Raw::from(object), cluster),
    ) else {
        // An object of another kind has no plugins.
        return Ok(object.clone());
    };
    plugins::run_settled(&before, &mut decoded, request, cluster)?;
    Ok(decoded.object())
}
