//! Normalises the lines of a file of JSON objects.
//!
//! Upstream counterpart: none. The cluster of a line has only the objects of the line: references to missing objects
//! are rejected, and cluster addresses are from 10.0.0.0/24.

use std::{path::Path, sync::Arc};

use serde_json::{Map, Value as Json, json};

use super::super::{Exit, Failure, input, output::Output};
use kyvtest_go_compat::{
    diagnostic::Code,
    value::{Document, Value},
};
use kyvtest_normalise::{
    Cluster, Kind, Normalised, Operation, Plugin, Raw, Refused, Request, Stage, Text, kind_named, normalise,
    stored_object,
};
use kyvtest_prove::server::{check_expressions, check_rule};

/// The keys that a line may have.
const KEYS: [&str; 12] = [
    "id",
    "operation",
    "apiVersion",
    "kind",
    "namespace",
    "name",
    "subresource",
    "raw",
    "raw_text",
    "old",
    "plugins",
    "objects",
];

pub(super) fn run(path: &Path, definitions: &[Arc<Document>], output: &mut Output) -> Result<Exit, Failure> {
    input::answer_lines(path, output, |line| {
        let problem = |message| (0, Code::BadValue, message);
        answer(line, definitions).map_err(problem)
    })
}

/// A parsed line.
struct Line<'l> {
    row: &'l Map<String, Json>,
    kind: &'l str,
    api_version: String,
    operation: Operation,
}

impl Line<'_> {
    fn text(&self, key: &str) -> &str {
        self.row.get(key).and_then(Json::as_str).unwrap_or_default()
    }

    fn kind(&self) -> Kind<'_> {
        Kind {
            api_version: &self.api_version,
            name: self.kind,
        }
    }

    fn request(&self) -> Request<'_> {
        Request {
            operation: self.operation,
            namespace: self.text("namespace"),
            name: self.text("name"),
            subresource: self.text("subresource"),
            ..Request::default()
        }
    }
}

fn answer(line: &str, definitions: &[Arc<Document>]) -> Result<Json, String> {
    let row: Json = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let Json::Object(row) = row else {
        return Err("a line must be a JSON object".to_owned());
    };
    if let Some(unknown) = row.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!("unknown key `{unknown}`; a line has {}", KEYS.join(", ")));
    }
    let id = row.get("id").cloned().unwrap_or(Json::Null);
    let kind = row
        .get("kind")
        .and_then(Json::as_str)
        .ok_or("expected the key `kind`")?;
    let operation = match row.get("operation").and_then(Json::as_str) {
        None | Some("CREATE") => Operation::Create,
        Some("UPDATE") => Operation::Update,
        Some(other) => return Err(format!("unknown operation `{other}`; expected CREATE or UPDATE")),
    };
    let line = Line {
        row: &row,
        kind,
        api_version: api_version(&row, kind),
        operation,
    };
    let cluster = cluster(&row, definitions)?;
    Ok(match normalise_line(&line, &cluster)? {
        Ok(found) => accepted(&id, &found),
        Err(refused) => rejected(&id, &refused),
    })
}

/// The version of the request: the named one, that of the object, or the only one of the kind.
fn api_version(row: &Map<String, Json>, kind: &str) -> String {
    let named = row.get("apiVersion").and_then(Json::as_str);
    let of_object = row
        .get("raw")
        .and_then(|raw| raw.get("apiVersion"))
        .and_then(Json::as_str);
    named
        .or(of_object)
        .or_else(|| kind_named(kind))
        .unwrap_or("v1")
        .to_owned()
}

fn document(value: &Json) -> Result<Document, String> {
    Document::from_json(&value.to_string()).map_err(|error| error.to_string())
}

fn cluster(row: &Map<String, Json>, definitions: &[Arc<Document>]) -> Result<Cluster, String> {
    let plugins = match row.get("plugins").and_then(Json::as_array) {
        None => Plugin::DEFAULT
            .into_iter()
            .filter(|plugin| *plugin != Plugin::ServiceAccount)
            .collect(),
        // Other plugins have no visible effect here.
        Some(names) => names
            .iter()
            .filter_map(Json::as_str)
            .filter_map(Plugin::from_name)
            .collect(),
    };
    let objects = row
        .get("objects")
        .and_then(Json::as_array)
        .map_or(&[][..], Vec::as_slice);
    let objects = objects.iter().map(document).collect::<Result<Vec<_>, _>>()?;
    let is_definition =
        |object: &Document| object.root().get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition");
    let (own, objects): (Vec<_>, Vec<_>) = objects.into_iter().partition(is_definition);
    Ok(Cluster {
        plugins,
        objects,
        complete: true,
        definitions: own
            .into_iter()
            .map(Arc::new)
            .chain(definitions.iter().cloned())
            .collect(),
        rules: Some(check_rule),
        expressions: Some(check_expressions),
        service_range: Some("10.0.0.0/24".to_owned()),
        ..Cluster::default()
    })
}

fn normalise_line(line: &Line<'_>, cluster: &Cluster) -> Result<Result<Normalised, Refused>, String> {
    let (kind, request) = (line.kind(), line.request());
    if let Some(text) = line.row.get("raw_text").and_then(Json::as_str) {
        return Ok(match Text::parse(text) {
            Ok(text) => normalise(kind, Raw::Text(&text), None, request, cluster, false),
            Err(message) => Err(Refused {
                stage: Stage::Decode,
                message: format!("couldn't get version/kind; json parse error: {message}"),
                errors: Vec::new(),
            }),
        });
    }
    let raw = line
        .row
        .get("raw")
        .ok_or("expected one of the keys `raw` and `raw_text`")?;
    let old = line
        .row
        .get("old")
        .filter(|old| !old.is_null())
        .map(document)
        .transpose()?;
    let raw = match &old {
        Some(old) => document(&resolve(raw, old, line, cluster))?,
        None => document(raw)?,
    };
    Ok(normalise(
        kind,
        (&raw).into(),
        old.as_ref().map(Into::into),
        request,
        cluster,
        false,
    ))
}

/// Replaces `@stored` in the metadata by the value of the stored object.
fn resolve(raw: &Json, old: &Document, line: &Line<'_>, cluster: &Cluster) -> Json {
    let mut raw = raw.clone();
    let Some(metadata) = raw.get_mut("metadata").and_then(Json::as_object_mut) else {
        return raw;
    };
    if !metadata.values().any(|value| value == "@stored") {
        return raw;
    }
    let stored = stored_object(line.kind(), old.into(), line.request(), cluster).map(|stored| stored.object());
    for (field, value) in metadata.iter_mut().filter(|(_, value)| **value == "@stored") {
        let found = stored
            .as_ref()
            .ok()
            .and_then(|stored| stored.root().at(&["metadata", field]).map(Value::to_serde));
        *value = found.unwrap_or(Json::Null);
    }
    raw
}

fn accepted(id: &Json, found: &Normalised) -> Json {
    let mut answer = json!({"id": id, "object": found.object.root().to_serde()});
    if let (Some(stored), Some(answer)) = (&found.stored, answer.as_object_mut()) {
        answer.insert("stored".to_owned(), stored.root().to_serde());
    }
    answer
}

fn rejected(id: &Json, refused: &Refused) -> Json {
    let causes: Vec<Json> = refused
        .errors
        .iter()
        .map(|cause| json!({"field": cause.field, "reason": cause.reason.name()}))
        .collect();
    json!({"id": id, "rejected": {
        "stage": refused.stage.name(),
        "code": refused.code(),
        "causes": causes,
        "message": refused.message,
    }})
}
