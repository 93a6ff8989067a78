//! Gate `yaml`: the results of Kyverno's YAML stack for a file, row by row, and the locations of our spans and errors.

use std::path::Path;

use kyvtest::yaml::{Kind, Limits, Mode, Node, Number, Span, Stream, read};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::support::{self, Gate, fixture, jsonl, shared};

#[derive(Deserialize)]
struct Row {
    id: String,
    yaml: String,
    docs: Vec<Doc>,
}

#[derive(Deserialize)]
struct Doc {
    #[serde(default)]
    text: Option<String>,
    /// Absent if there is an error; a document may also be null.
    #[serde(default, deserialize_with = "present")]
    json: Option<Value>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    strict_error: Option<String>,
    #[serde(default)]
    kinds: Option<Vec<String>>,
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The rows; some nest deeper than the common helper reads.
fn rows<R: serde::de::DeserializeOwned>(path: &Path) -> Vec<R> {
    let text = support::read(path);
    text.lines()
        .map(|line| {
            let mut deserializer = serde_json::Deserializer::from_str(line);
            deserializer.disable_recursion_limit();
            R::deserialize(&mut deserializer).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        })
        .collect()
}

fn lax(yaml: &str) -> Stream {
    read(yaml, Mode::Lax, &Limits::default())
}

/// The JSON of a node, numbers as Go writes them.
fn json(node: Node<'_>) -> Value {
    match node.kind() {
        Kind::Null => Value::Null,
        Kind::Bool(bool) => bool.into(),
        Kind::Int(int) => int.into(),
        Kind::Uint(uint) => uint.into(),
        Kind::Float(float) => match node.number() {
            Some(Number::Int(int)) => int.into(),
            _ => float.into(),
        },
        Kind::Str(text) => text.into(),
        Kind::Seq(items) => items.iter().map(json).collect(),
        Kind::Map(entries) => entries
            .iter()
            .map(|entry| (entry.key.to_owned(), json(entry.value)))
            .collect(),
    }
}

/// Equal values; a number is compared as the number it is, since the reference file may write `1e+30` as an integer.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left == right,
            (None, None) => left.as_f64() == right.as_f64(),
            // Go writes `-0`, which its own decoder takes for an integer and serde_json for a float.
            (Some(left), None) => left == 0 && right.as_f64() == Some(0.0),
            (None, Some(_)) => false,
        },
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, left)| right.get(key).is_some_and(|right| same(left, right)))
        }
        _ => left == right,
    }
}

fn kinds(node: Node<'_>, path: &str, out: &mut Vec<String>) {
    match node.kind() {
        Kind::Seq(items) => items.iter().for_each(|item| kinds(item, &format!("{path}/-"), out)),
        Kind::Map(entries) => {
            for entry in entries.iter() {
                kinds(entry.value, &format!("{path}/{}", entry.key), out);
            }
        }
        _ => {
            if let Some(number) = node.number() {
                let kind = match number {
                    Number::Int(_) => "int64",
                    Number::Float(_) => "float64",
                };
                out.push(format!("{path}={kind}"));
            }
        }
    }
}

/// The line number in a Go error text.
fn go_line(text: &str) -> Option<u32> {
    let rest = &text[text.find("line ")? + 5..];
    rest[..rest.find(':')?].parse().ok()
}

fn check(row: &Row) -> Result<(), String> {
    let stream = lax(&row.yaml);
    let strict = read(&row.yaml, Mode::Strict, &Limits::default());
    if stream.documents().len() != row.docs.len() {
        return Err(format!(
            "{} documents, expected {}",
            stream.documents().len(),
            row.docs.len()
        ));
    }
    for ((document, strict), doc) in stream.documents().iter().zip(strict.documents()).zip(&row.docs) {
        let span = document.span();
        let text = &stream.source()[span.start as usize..span.end as usize];
        let expected = doc.text.as_ref().unwrap_or(&row.yaml);
        // The splitter removes the carriage returns; ours preserves the text.
        if text.replace('\r', "").trim_end() != expected.replace('\r', "").trim_end() {
            return Err(format!("document {text:?}, expected {expected:?}"));
        }
        match (document.tree(), &doc.json, &doc.error) {
            (Ok(tree), Some(expected), _) => {
                let found = json(tree.root());
                if !same(&found, expected) {
                    return Err(format!("{found}, expected {expected}"));
                }
                if let Some(expected) = &doc.kinds {
                    let mut found = Vec::new();
                    kinds(tree.root(), "", &mut found);
                    let mut expected = expected.clone();
                    found.sort();
                    expected.sort();
                    if found != expected {
                        return Err(format!("kinds {found:?}, expected {expected:?}"));
                    }
                }
            }
            (Err(found), None, Some(expected)) => {
                if found.go_line() != go_line(expected) {
                    return Err(format!(
                        "{found} in Go's line {:?}, expected {expected}",
                        found.go_line()
                    ));
                }
            }
            (found, expected, error) => {
                let found = found.map(|tree| json(tree.root()).to_string());
                return Err(format!("{found:?}, expected {expected:?} {error:?}"));
            }
        }
        match (strict.tree(), &doc.strict_error, &doc.error) {
            (Ok(_), None, None) | (Err(_), None, Some(_)) => {}
            (Err(found), Some(expected), _) => {
                if found.go_line() != go_line(expected) || found.related().is_none() {
                    return Err(format!("strict: {found:?}, expected {expected}"));
                }
            }
            (found, expected, _) => return Err(format!("strict: {:?}, expected {expected:?}", found.err())),
        }
    }
    Ok(())
}

#[test]
fn yaml() {
    let own: Vec<Row> = rows(&fixture("yaml/vectors.jsonl"));
    let gate = Gate::new("yaml", 663);
    gate.run(&own, |row| row.id.clone(), check);
    if let Some(path) = shared("golden/yaml/vectors.jsonl") {
        gate.run(&rows::<Row>(&path), |row| row.id.clone(), check);
    }
}

/// The locations in one row, as `line:column` (from 1, in code points; the end is after the last character).
#[derive(Deserialize, Serialize)]
struct Places {
    id: String,
    docs: Vec<DocPlaces>,
}

#[derive(Deserialize, Serialize, PartialEq, Debug)]
#[serde(rename_all = "lowercase")]
enum DocPlaces {
    /// Each node by its path, `#key` for the key of an entry.
    Nodes(Vec<(String, String)>),
    /// The location of the error, and the second one that it names.
    Error(String, Option<String>),
}

fn place(stream: &Stream, span: Span) -> String {
    let (start, end) = (stream.lines().position(span.start), stream.lines().position(span.end));
    format!("{}:{}-{}:{}", start.line, start.column, end.line, end.column)
}

fn nodes(stream: &Stream, node: Node<'_>, path: &str, out: &mut Vec<(String, String)>) {
    out.push((path.to_owned(), place(stream, node.span())));
    match node.kind() {
        Kind::Seq(items) => {
            for (n, item) in items.iter().enumerate() {
                nodes(stream, item, &format!("{path}/{n}"), out);
            }
        }
        Kind::Map(entries) => {
            for entry in entries.iter() {
                let path = format!("{path}/{}", entry.key);
                out.push((format!("{path}#key"), place(stream, entry.key_span)));
                nodes(stream, entry.value, &path, out);
            }
        }
        _ => {}
    }
}

/// The locations of a row. A row that only strict mode rejects shows the strict error.
fn places(row: &Row) -> Places {
    let strict = row.docs.iter().any(|doc| doc.strict_error.is_some());
    let mode = if strict { Mode::Strict } else { Mode::Lax };
    let stream = read(&row.yaml, mode, &Limits::default());
    let docs = stream.documents().iter().map(|document| match document.tree() {
        Ok(tree) => {
            let mut found = Vec::new();
            nodes(&stream, tree.root(), "", &mut found);
            DocPlaces::Nodes(found)
        }
        Err(error) => {
            let related = error.related().map(|(span, _)| place(&stream, span));
            DocPlaces::Error(place(&stream, error.span()), related)
        }
    });
    Places {
        id: row.id.clone(),
        docs: docs.collect(),
    }
}

#[test]
fn yaml_places() {
    let path = fixture("yaml/places.jsonl");
    let vectors: Vec<Row> = rows(&fixture("yaml/vectors.jsonl"));
    let expected: Vec<Places> = jsonl(&path);
    let row = |id: &str| {
        vectors
            .iter()
            .find(|row| row.id == id)
            .unwrap_or_else(|| panic!("no row {id}"))
    };
    if std::env::var_os("KYVTEST_UPDATE").is_some_and(|v| v == "1") {
        let lines = expected
            .iter()
            .map(|old| serde_json::to_string(&places(row(&old.id))).expect("JSON") + "\n");
        std::fs::write(&path, lines.collect::<String>()).expect("the fixture can be written");
        return;
    }
    Gate::new("yaml-places", 190).run(
        &expected,
        |places| places.id.clone(),
        |expected| {
            let found = places(row(&expected.id));
            if found.docs == expected.docs {
                return Ok(());
            }
            Err(format!("{:?}, expected {:?}", found.docs, expected.docs))
        },
    );
}
