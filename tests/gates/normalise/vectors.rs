//! Gates over the vectors of other areas: from the object as sent to the object that policies see.
//!
//! `normalise-admission`, `normalise-live`: the object of validating policies. `normalise-mutating`: the object of
//! mutating policies, before the strategy of the kind.

use std::sync::Arc;

use kyvtest_go_compat::value::Document;
use kyvtest_normalise::{Cluster, Kind, Operation, Refused, Request, decode, normalise, plugins};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{create, support};

#[derive(Deserialize)]
struct Row {
    id: String,
    request: Option<Sent>,
    #[serde(default)]
    seen: Option<Value>,
}

#[derive(Deserialize)]
struct Sent {
    operation: String,
    #[serde(default)]
    via: Option<Value>,
    #[serde(default, rename = "subResource")]
    subresource: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    object: Option<Value>,
    #[serde(default, rename = "oldObject")]
    old: Option<Value>,
}

/// Values that the server makes up.
const ASSIGNED: &[&str] = &[
    "/spec/clusterIP",
    "/spec/clusterIPs/0",
    "/metadata/labels/controller-uid",
    "/metadata/labels/batch.kubernetes.io~1controller-uid",
    "/spec/template/metadata/labels/controller-uid",
    "/spec/template/metadata/labels/batch.kubernetes.io~1controller-uid",
    "/spec/selector/matchLabels/batch.kubernetes.io~1controller-uid",
];

/// Custom kinds without a schema, as the vectors of `apiserver` use them.
fn open_definitions() -> Vec<Document> {
    [
        ("Widget", "Namespaced"),
        ("ClusterWidget", "Cluster"),
        ("Param", "Namespaced"),
        ("ClusterParam", "Cluster"),
    ]
    .into_iter()
    .map(|(kind, scope)| {
        let version = |name: &str| {
            json!({
                "name": name, "served": true, "storage": name == "v1", "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            })
        };
        let definition = json!({"spec": {
            "group": "example.kyvtest.dev", "scope": scope,
            "names": {"kind": kind, "plural": format!("{}s", kind.to_lowercase())},
            "versions": [version("v1"), version("v2")],
        }});
        Document::from_json(&definition.to_string()).expect("a definition")
    })
    .collect()
}

/// The requests that a gate compares: bodies as sent, of whole objects.
fn is_compared(row: &Row) -> bool {
    row.seen.is_some()
        && row.request.as_ref().is_some_and(|sent| {
            matches!(sent.operation.as_str(), "CREATE" | "UPDATE")
                && sent.via.is_none()
                && sent.subresource.as_deref().unwrap_or("").is_empty()
        })
}

/// The object that a policy sees, and the returned one, which some vectors recorded instead.
type See = fn(Kind<'_>, &Document, Option<&Document>, Request<'_>, &Cluster) -> Result<Vec<Document>, Refused>;

fn validating(
    kind: Kind<'_>,
    raw: &Document,
    old: Option<&Document>,
    request: Request<'_>,
    cluster: &Cluster,
) -> Result<Vec<Document>, Refused> {
    let found = normalise(kind, raw.into(), old.map(Into::into), request, cluster, false)?;
    Ok([found.object].into_iter().chain(found.stored).collect())
}

fn mutating(
    kind: Kind<'_>,
    raw: &Document,
    _: Option<&Document>,
    request: Request<'_>,
    cluster: &Cluster,
) -> Result<Vec<Document>, Refused> {
    let mut decoded = decode(kind, raw.into(), cluster)?;
    plugins(&mut decoded, request, cluster)?;
    Ok(vec![decoded.object()])
}

fn check(row: &Row, cluster: &Cluster, see: See) -> Result<(), String> {
    let sent = row.request.as_ref().expect("a request");
    let object = sent.object.as_ref().expect("an object");
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let kind = Kind {
        api_version: text("/apiVersion"),
        name: text("/kind"),
    };
    let update = sent.operation == "UPDATE";
    let request = Request {
        operation: if update { Operation::Update } else { Operation::Create },
        namespace: sent.namespace.as_deref().unwrap_or_default(),
        name: if update {
            sent.name.as_deref().unwrap_or_default()
        } else {
            ""
        },
        ..Request::default()
    };
    let document = |value: &Value| Document::from_json(&value.to_string()).expect("an object");
    let old = sent.old.as_ref().map(document);
    let mut raw = object.clone();
    // The vectors were sent with the version that they replace.
    if let (true, Some(version)) = (
        update,
        sent.old
            .as_ref()
            .and_then(|old| old.pointer("/metadata/resourceVersion")),
    ) {
        raw["metadata"]["resourceVersion"] = version.clone();
    }
    let found = see(kind, &document(&raw), old.as_ref(), request, cluster)
        .map_err(|refused| format!("refused: {}", refused.message))?;
    let mut ignore: Vec<String> = support::CLOCK
        .iter()
        .chain(ASSIGNED)
        .map(|&pointer| pointer.to_owned())
        .collect();
    if object.pointer("/metadata/generateName").is_some() {
        ignore.push("/metadata/name".to_owned());
    }
    let expected = support::comparable(&document(row.seen.as_ref().expect("a seen object")), &ignore);
    let differences = found
        .iter()
        .map(|found| support::difference(&support::comparable(found, &ignore), &expected));
    differences.min_by_key(Option::is_some).flatten().map_or(Ok(()), Err)
}

fn gate(name: &str, file: &str, definitions: Vec<Document>, see: See, least: usize) {
    let Some(path) = kyvtest_gates::shared(file) else {
        return;
    };
    let cluster = Cluster {
        plugins: create::plugins(),
        complete: true,
        definitions: definitions.into_iter().map(Arc::new).collect(),
        ..Cluster::default()
    };
    let rows: Vec<Row> = kyvtest_gates::jsonl::<Row>(&path)
        .into_iter()
        .filter(is_compared)
        .collect();
    let disagreements: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            check(row, &cluster, see)
                .err()
                .map(|difference| format!("{}: {difference}", row.id))
        })
        .collect();
    kyvtest_gates::at_least(name, rows.len(), &disagreements, least);
}

#[test]
fn validating_policies_see_these_objects() {
    gate(
        "normalise-admission",
        "golden/apiserver/vectors.jsonl",
        open_definitions(),
        validating,
        1_441,
    );
}

#[test]
fn live_policies_see_these_objects() {
    gate(
        "normalise-live",
        "golden/kyverno-live/vectors.jsonl",
        open_definitions(),
        validating,
        1_221,
    );
}

#[test]
fn mutating_policies_see_these_objects() {
    let Some(path) = kyvtest_gates::shared("golden/map/crds.jsonl") else {
        return;
    };
    let definitions: Vec<Value> = kyvtest_gates::jsonl(&path);
    let definitions = definitions
        .iter()
        .map(|value| Document::from_json(&value.to_string()).expect("a definition"))
        .collect();
    gate(
        "normalise-mutating",
        "golden/map/vectors.jsonl",
        definitions,
        mutating,
        859,
    );
}
