//! Crate `jmespath` and the variables of classic rules on arbitrary input: no panic, bounded time, the same result
//! twice.
//!
//! `fixtures/classic/bombs.jsonl` has expressions (`expr`) and strings with variables (`text`) that would take forever
//! or fill the memory; parts in brackets are repeated. Rows with `value` or `nests` still have a result.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use kyvtest::{
    cel::host::{Gvr, Mocks},
    jmespath::{Context, Expression},
    kyverno::classic::{
        context::{Context as Variables, Entry, Given, NoOutside, SuiteSources},
        variables::substitute_all,
    },
    value::{Data, Document},
};
use proptest::{collection::vec, prelude::*, sample::select};
use serde::Deserialize;
use serde_json::Value;

fn json(text: &str) -> Data {
    Data::from(Document::from_json(text).expect("valid JSON").root()).with_doubles()
}

fn document() -> Data {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/classic/document.json");
    json(&fs::read_to_string(path).expect("the fixture is there"))
}

#[derive(Deserialize)]
struct Bomb {
    name: String,
    expr: Option<Vec<Piece>>,
    text: Option<Vec<Piece>>,
    value: Option<Value>,
    nests: Option<usize>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Piece {
    Once(String),
    Repeated(String, usize),
}

fn assemble(pieces: &[Piece]) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Once(text) => text.clone(),
        Piece::Repeated(text, count) => text.repeat(*count),
    };
    pieces.iter().map(piece).collect()
}

fn depth(data: &Data) -> usize {
    match data {
        Data::List(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

#[test]
fn expensive_expressions_are_bounded() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/classic/bombs.jsonl");
    let rows = fs::read_to_string(path).expect("the fixture is there");
    for line in rows.lines() {
        let row: Bomb = serde_json::from_str(line).expect("a row");
        let start = Instant::now();
        let answer = match (&row.expr, &row.text) {
            (Some(pieces), _) => Expression::parse(&assemble(pieces))
                .and_then(|expression| expression.search(&document(), &Context::default()))
                .map_err(|error| error.to_string()),
            (_, Some(pieces)) => {
                let tree = Data::from_iter([
                    ("a".into(), Data::from(assemble(pieces))),
                    ("b".into(), Data::from("x")),
                ]);
                let mut context = Variables::from_data(document(), &NoOutside);
                substitute_all(&tree, &mut context).map_err(|error| error.to_string())
            }
            _ => panic!("{}: nothing to do", row.name),
        };
        let took = start.elapsed();
        assert!(took < Duration::from_secs(20), "{} took {took:?}", row.name);
        if let Some(value) = &row.value {
            assert_eq!(
                answer.as_ref().map(Data::to_json),
                Ok(json(&value.to_string()).to_json()),
                "{}",
                row.name
            );
        }
        if let Some(nests) = row.nests {
            assert_eq!(answer.as_ref().map(depth), Ok(nests), "{}", row.name);
        }
    }
}

#[derive(Deserialize)]
#[serde(default)]
struct Loading {
    name: String,
    entries: Value,
    http: BTreeMap<String, Value>,
    global: BTreeMap<String, Value>,
    objects: Vec<Value>,
    values: BTreeMap<String, Value>,
    resource: Value,
    queries: Vec<(String, Value)>,
    error: Option<String>,
}

impl Default for Loading {
    fn default() -> Self {
        Self {
            name: String::new(),
            entries: Value::Null,
            http: BTreeMap::new(),
            global: BTreeMap::new(),
            objects: Vec::new(),
            values: BTreeMap::new(),
            resource: Value::Null,
            queries: Vec::new(),
            error: None,
        }
    }
}

fn parsed(value: &Value) -> Document {
    Document::from_json(&value.to_string()).expect("valid JSON")
}

#[test]
fn context_entries_are_loaded_when_they_are_named() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/classic/context.jsonl");
    for line in fs::read_to_string(path).expect("the fixture is there").lines() {
        let row: Loading = serde_json::from_str(line).expect("a row");
        let mut mocks = Mocks::new();
        for (call, answer) in &row.http {
            mocks.add_http(call, parsed(answer));
        }
        for (name, value) in &row.global {
            mocks.add_global(name, parsed(value));
        }
        for object in &row.objects {
            let gvr = Gvr {
                group: String::new(),
                version: "v1".to_owned(),
                resource: "configmaps".to_owned(),
            };
            mocks.add_resource(gvr, parsed(object));
        }
        let values = row.values.iter();
        let answers = SuiteSources {
            host: &mocks,
            values: values
                .map(|(key, value)| (key.clone(), json(&value.to_string())))
                .collect(),
            namespace: "",
            given: Given {
                cluster: !row.objects.is_empty(),
                api_calls: !row.http.is_empty(),
                global_context: !row.global.is_empty(),
                ..Given::default()
            },
        };
        let mut context = Variables::from_data(document(), &answers);
        if !row.resource.is_null() {
            context.add_images(json(&row.resource.to_string()));
        }
        let entries = Entry::read_all(&Data::from(parsed(&row.entries).root()));
        // Entries loaded inside a loop are gone after it, and can be loaded again.
        context.checkpoint();
        for _ in 0..2 {
            let loaded = context.load_entries(&entries);
            assert_eq!(loaded.err(), row.error, "{}", row.name);
            for (query, expected) in &row.queries {
                let ours = context.query(query);
                match expected.get("error").and_then(Value::as_str) {
                    Some(error) => assert_eq!(ours.unwrap_err().to_string(), error, "{}: {query}", row.name),
                    None => assert_eq!(ours, Ok(json(&expected.to_string())), "{}: {query}", row.name),
                }
            }
            context.reset();
        }
        context.restore();
        assert_eq!(context.data(), &document(), "{}", row.name);
    }
}

/// Words of which expressions are made.
const WORDS: [&str; 60] = [
    "a",
    "b",
    "c",
    "list",
    "name",
    "\"q r\"",
    ".",
    ".",
    ".",
    "[0]",
    "[-1]",
    "[*]",
    "[]",
    "[?",
    "]",
    "[1:]",
    "[::-1]",
    "*",
    "@",
    "|",
    "||",
    "&&",
    "!",
    "==",
    "<",
    ">=",
    "(",
    ")",
    "{",
    "}",
    "[",
    ":",
    ",",
    "&",
    "`1`",
    "`[1,2]`",
    "`{\"a\":null}`",
    "'x'",
    "'1Gi'",
    "'1h'",
    "length(",
    "to_string(",
    "map(&",
    "sort_by(",
    "max_by(",
    "items(",
    "keys(",
    "sum(",
    "add(",
    "divide(",
    "join(",
    "split(",
    "regex_match(",
    "replace_all(",
    "time_add(",
    "parse_yaml(",
    "base64_decode(",
    "merge(",
    "lookup(",
    "truncate(",
];

fn words() -> impl Strategy<Value = String> {
    vec(select(&WORDS[..]), 0..24).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn any_words_are_an_expression_or_an_error(text in words()) {
        if let Ok(expression) = Expression::parse(&text) {
            let first = expression.search(&document(), &Context::default());
            let second = expression.search(&document(), &Context::default());
            prop_assert_eq!(format!("{first:?}"), format!("{second:?}"));
        }
    }

    #[test]
    fn any_text_is_an_expression_or_an_error(text in "\\PC{0,40}") {
        if let Ok(expression) = Expression::parse(&text) {
            let _ = expression.search(&document(), &Context::default());
        }
    }

    #[test]
    fn any_text_with_variables(parts in vec(select(&["{{", "}}", "{{ ", " }}", "{{-", "{", "}", "\\", "$(", ")", "./", "../", "/b", "name", "loop", "@", " ", "é", "|", "'x'", "self"][..]), 0..16)) {
        let tree = Data::from_iter([("a".into(), Data::from(parts.concat())), ("b".into(), Data::from("x"))]);
        let mut context = Variables::from_data(document(), &NoOutside);
        let _ = substitute_all(&tree, &mut context);
    }
}
