//! Gates `patch-apply` and `patch-json4`: objects after admission by one policy with one literal mutation.
//!
//! The API server decodes and defaults the object after a mutation. That is not done here: fields that only the server's
//! result has do not count, and rows whose fields decoding changes disagree.

use std::collections::BTreeSet;

use kyvtest_go_compat::value::{Document, go_json};
use kyvtest_patch::{
    json6902::{self, Operation, Options, Patch},
    structured::{self, Atomics, Schema},
};
use serde_json::Value;

use crate::{
    literal::{self, Literal},
    support::{Gate, jsonl, shared},
};

struct Case {
    id: String,
    literal: Literal,
    seen: Document,
    observed: Value,
    is_unordered: bool,
}

/// Reads the rows of areas in which the policy matches, if the mutation is literal and the result is one of this stage.
fn cases(rows: &[Value], patch_type: &str, body: &str) -> Vec<Case> {
    const AREAS: [&str; 11] = [
        "apply", "kinds", "crd", "blob", "jp", "meta", "dflt", "inv", "conn", "rand", "seq",
    ];
    let mut cases = Vec::new();
    for row in rows {
        let id = row["id"].as_str().expect("an id");
        let area = id.split('-').next().unwrap_or_default();
        let spec = &row["policies"][0]["spec"];
        let is_single = row["policies"].as_array().is_some_and(|policies| policies.len() == 1)
            && row["bindings"].as_array().is_some_and(|bindings| bindings.len() == 1)
            && row["params"].as_array().is_none_or(Vec::is_empty)
            && spec["mutations"]
                .as_array()
                .is_some_and(|mutations| mutations.len() == 1)
            && spec["matchConditions"].is_null()
            && ["objectSelector", "namespaceSelector"].iter().all(|selector| {
                spec["matchConstraints"][selector]
                    .as_object()
                    .is_none_or(serde_json::Map::is_empty)
            })
            && spec["reinvocationPolicy"] == "Never";
        let mutation = &spec["mutations"][0];
        if !AREAS.contains(&area) || !is_single || mutation["patchType"] != patch_type || row["seen"].is_null() {
            continue;
        }
        let observed = row["observed"].clone();
        let message = observed["message"].as_str().unwrap_or_default();
        let is_ours = message.contains("error applying patch: ") || message.contains("JSON Patch: ");
        if observed["mutated"].is_null() && !is_ours {
            continue;
        }
        let Some(literal) = literal::parse(mutation[body]["expression"].as_str().unwrap_or_default()) else {
            continue;
        };
        cases.push(Case {
            id: id.to_owned(),
            literal,
            seen: Document::from(&row["seen"]),
            is_unordered: row["message_order_undefined"] == true,
            observed,
        });
    }
    cases
}

fn sorted(document: &Document) -> String {
    let mut value = document.root().to_serde();
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    let mut out = String::new();
    go_json::write_value(&mut out, Document::from(&value).root()).expect("finite numbers");
    out
}

fn compare(case: &Case, ours: Result<Document, String>, prefix: &str) -> Result<(), String> {
    let message = case.observed["message"].as_str().unwrap_or_default();
    let expected = message.split_once(prefix).map(|(_, text)| text);
    match (ours, expected) {
        (Err(ours), Some(expected)) if ours == expected => Ok(()),
        (Err(ours), Some(expected)) if case.is_unordered => {
            let parts = |text: &str| -> BTreeSet<String> { text.split([',', ' ', '\n']).map(str::to_owned).collect() };
            if parts(&ours) == parts(expected) {
                return Ok(());
            }
            Err(format!("{ours:?}, expected {expected:?}"))
        }
        (Err(ours), expected) => Err(format!("{ours:?}, expected {expected:?}")),
        (Ok(ours), Some(expected)) => Err(format!("{}, expected {expected:?}", sorted(&ours))),
        (Ok(ours), None) => {
            let expected = Document::from(&case.observed["mutated"]);
            let (ours, expected) = (sorted(&ours), sorted(&expected));
            let value = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
            if is_within(&value(&ours), &value(&expected)) {
                return Ok(());
            }
            Err(format!("{ours}, expected {expected}"))
        }
    }
}

/// Whether two values are equal but for fields that only the second has.
fn is_within(ours: &Value, expected: &Value) -> bool {
    match (ours, expected) {
        (Value::Object(ours), Value::Object(expected)) => ours
            .iter()
            .all(|(key, ours)| expected.get(key).is_some_and(|expected| is_within(ours, expected))),
        (Value::Array(ours), Value::Array(expected)) => {
            ours.len() == expected.len()
                && ours
                    .iter()
                    .zip(expected)
                    .all(|(ours, expected)| is_within(ours, expected))
        }
        _ => ours == expected,
    }
}

fn custom(crds: &[Value], api_version: &str, kind: &str) -> Option<Schema> {
    let (group, version) = api_version.split_once('/')?;
    let crd = crds
        .iter()
        .find(|crd| crd["spec"]["group"] == group && crd["spec"]["names"]["kind"] == kind)?;
    let versions = crd["spec"]["versions"].as_array()?;
    let open_api = &versions.iter().find(|entry| entry["name"] == version)?["schema"]["openAPIV3Schema"];
    let open_api = Document::from(open_api);
    Some(Schema::custom(api_version, kind, Some(open_api.root())))
}

fn apply(crds: &[Value], case: &Case) -> Result<(), String> {
    let text = |key: &str| {
        case.seen
            .root()
            .get(key)
            .and_then(kyvtest_go_compat::value::Value::as_str)
            .unwrap_or_default()
    };
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let schema = custom(crds, api_version, kind);
    let schema = schema.as_ref().unwrap_or_else(|| Schema::builtin());
    let config = case.literal.config();
    let ours = schema
        .kind(api_version, kind)
        .and_then(|ty| structured::apply(ty, case.seen.root(), &config, Atomics::Reject));
    compare(case, ours.map_err(|error| error.to_string()), "error applying patch: ")
}

fn json4(case: &Case) -> Result<(), String> {
    let Literal::List(operations) = &case.literal else {
        return Err("not a list".to_owned());
    };
    let values: Vec<Option<Document>> = operations
        .iter()
        .map(|operation| field(operation, "value").map(Literal::document))
        .collect();
    let operations = operations.iter().zip(&values).map(|(operation, value)| {
        let text = |name: &str| match field(operation, name) {
            Some(Literal::Text(text)) => text.as_str(),
            _ => "",
        };
        Operation {
            op: text("op"),
            path: text("path"),
            from: text("from"),
            value: value.as_ref().map(Document::root),
        }
    });
    let ours = match Patch::from_operations(operations).apply(case.seen.root(), &Options::v4()) {
        Ok(patched) => Ok(patched.document),
        Err(json6902::Error::Test(_)) => Ok(case.seen.clone()),
        Err(error) => Err(error.to_string()),
    };
    compare(case, ours, "JSON Patch: ")
}

fn field<'l>(operation: &'l Literal, name: &str) -> Option<&'l Literal> {
    let Literal::Object(fields) = operation else {
        return None;
    };
    fields.iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

#[test]
fn api_server_vectors() {
    let (Some(rows), Some(crds)) = (shared("golden/map/vectors.jsonl"), shared("golden/map/crds.jsonl")) else {
        return;
    };
    let (rows, crds): (Vec<Value>, Vec<Value>) = (jsonl(&rows), jsonl(&crds));
    let gate = Gate {
        name: "patch-apply",
        agree: 185,
    };
    let cases_apply = cases(&rows, "ApplyConfiguration", "applyConfiguration");
    gate.run(&cases_apply, |case| &case.id, |case| apply(&crds, case));
    let gate = Gate {
        name: "patch-json4",
        agree: 122,
    };
    gate.run(&cases(&rows, "JSONPatch", "jsonPatch"), |case| &case.id, json4);
}
