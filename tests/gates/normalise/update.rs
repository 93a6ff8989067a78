//! Gate `normalise-update`: UPDATE, from the body and the stored object to the object of validating admission.

use std::path::Path;

use kyvtest_go_compat::value::Document;
use kyvtest_normalise::{Cluster, Kind, Normalised, Operation, Refused, Request, normalise, stored_object};
use serde::Deserialize;
use serde_json::Value;

use super::{create::cluster, support, support::Rejected};

#[derive(Deserialize)]
struct Row {
    id: String,
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    old: Value,
    raw: Value,
    #[serde(default)]
    request_name: Option<String>,
    #[serde(default)]
    stored: Option<Value>,
    #[serde(default)]
    seen: Option<Value>,
    #[serde(default)]
    rejected: Option<Rejected>,
    #[serde(default)]
    generation: Option<(i64, i64)>,
    #[serde(default)]
    assigned: Vec<String>,
}

/// Puts the metadata of the stored object where a row refers to it.
fn resolve(raw: &Value, stored: &Document) -> Value {
    let mut raw = raw.clone();
    let Some(metadata) = raw.get_mut("metadata").and_then(Value::as_object_mut) else {
        return raw;
    };
    for (field, value) in metadata {
        if value == "@stored" {
            let found = stored
                .root()
                .at(&["metadata", field])
                .map(kyvtest_go_compat::value::Value::to_serde);
            *value = found.unwrap_or(Value::Null);
        }
    }
    raw
}

fn run(row: &Row, cluster: &Cluster) -> Result<Normalised, Refused> {
    let kind = Kind {
        api_version: &row.api_version,
        name: &row.kind,
    };
    let old_name = row
        .old
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let old_namespace = row
        .old
        .pointer("/metadata/namespace")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let request = Request {
        operation: Operation::Update,
        namespace: old_namespace,
        name: row.request_name.as_deref().unwrap_or(old_name),
        ..Request::default()
    };
    let old = Document::from_json(&row.old.to_string()).expect("a row's old object");
    let stored = stored_object(kind, (&old).into(), request, cluster)
        .expect("a stored object")
        .object();
    let raw = Document::from_json(&resolve(&row.raw, &stored).to_string()).expect("a row's raw object");
    let old = row.request_name.is_none().then_some((&old).into());
    normalise(kind, (&raw).into(), old, request, cluster, false)
}

fn check(row: &Row, cluster: &Cluster) -> Result<(), String> {
    match (run(row, cluster), &row.rejected) {
        (Ok(found), None) => {
            let mut ignore = row.assigned.clone();
            ignore.extend(support::CLOCK.iter().map(|&pointer| pointer.to_owned()));
            let mut stored = row.stored.clone().expect("an accepted row has a stored object");
            let mut seen = row.seen.clone().unwrap_or_else(|| stored.clone());
            support::blank(&mut seen, &ignore);
            support::blank(&mut stored, &ignore);
            if let Some((_, after)) = row.generation {
                let generation = found
                    .object
                    .root()
                    .at(&["metadata", "generation"])
                    .map(kyvtest_go_compat::value::Value::to_json);
                if generation != Some(after.to_string()) {
                    return Err(format!("generation {generation:?} instead of {after}"));
                }
            }
            let object = support::comparable(&found.object, &ignore);
            let own = found
                .stored
                .as_ref()
                .map_or_else(|| object.clone(), |own| support::comparable(own, &ignore));
            match support::difference(&object, &seen).or_else(|| support::difference(&own, &stored)) {
                None => Ok(()),
                Some(difference) => Err(difference),
            }
        }
        (Err(refused), Some(rejected)) => {
            let mut expected = rejected.causes.clone();
            expected.sort();
            let same = refused.stage.name() == rejected.stage
                && refused.code() == rejected.code
                && support::causes(&refused) == expected;
            if same {
                Ok(())
            } else {
                Err(format!("{} instead of {}", refused.message, rejected.message))
            }
        }
        (Ok(_), Some(rejected)) => Err(format!("accepted instead of {}: {}", rejected.stage, rejected.message)),
        (Err(refused), None) => Err(format!("refused: {}", refused.message)),
    }
}

/// Compares every row of a file.
pub(crate) fn gate(name: &str, path: &Path) {
    let cluster = cluster();
    let rows: Vec<Row> = kyvtest_gates::jsonl(path);
    let disagreements: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            check(row, &cluster)
                .err()
                .map(|difference| format!("{} {}: {difference}", row.id, row.kind))
        })
        .collect();
    kyvtest_gates::at_least(name, rows.len(), &disagreements, rows.len());
}
