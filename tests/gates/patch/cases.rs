//! The cases in `fixtures/patch/*.yaml`: structured merges, and JSON patches of the API server.

use kyvtest_go_compat::value::{Document, Value, go_json};
use kyvtest_patch::{
    json6902::{Options, Patch, Version},
    structured::{self, Atomics, Schema},
};

use kyvtest_gates::{fixture, read};

fn yaml(name: &str) -> Document {
    Document::from_yaml(&read(&fixture(&format!("patch/{name}")))).expect("valid YAML")
}

fn sorted(value: Value<'_>) -> String {
    let mut out = String::new();
    go_json::write_value(&mut out, value).expect("finite numbers");
    out
}

fn text<'a>(case: Value<'a>, key: &str) -> &'a str {
    case.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Compares the result of every case with its `want` or `error`.
fn run(file: &str, apply: impl Fn(Value<'_>) -> Result<Document, String>) {
    let document = yaml(file);
    let cases = document.root().as_list().expect("a list of cases");
    assert!(!cases.is_empty(), "{file} has cases");
    for case in cases.iter() {
        let note = text(case, "note");
        match (apply(case), case.get("want")) {
            (Ok(ours), Some(want)) => assert_eq!(sorted(ours.root()), sorted(want), "{note}"),
            (Err(ours), None) => assert_eq!(ours, text(case, "error"), "{note}"),
            (ours, want) => panic!("{note}: {ours:?}, expected {want:?}"),
        }
    }
}

#[test]
fn structured_merges() {
    let widget = yaml("widget.yaml");
    let widget = Schema::custom("example.dev/v1", "Widget", Some(widget.root()));
    run("structured.yaml", |case| {
        let object = case.get("object").expect("an object");
        let config = case.get("config").expect("a configuration");
        let schema = if text(case, "schema") == "widget" {
            &widget
        } else {
            Schema::builtin()
        };
        let ty = schema.kind(text(object, "apiVersion"), text(object, "kind"));
        let merged = ty.and_then(|ty| structured::apply(ty, object, &config.into(), Atomics::Reject));
        merged.map_err(|error| error.to_string())
    });
}

#[test]
fn json_patches_of_the_api_server() {
    run("json4.yaml", |case| {
        let object = case.get("object").expect("an object");
        let patch = Patch::from_json(text(case, "patch"), Version::V4);
        let patched = patch.and_then(|patch| patch.apply(object, &Options::v4()));
        patched
            .map(|patched| patched.document)
            .map_err(|error| error.to_string())
    });
}

#[test]
fn atomic_lists_are_replaced_if_the_caller_allows_it() {
    let pod = Document::from_json(
        r#"{"apiVersion":"v1","kind":"Pod","spec":{"tolerations":[{"key":"a"}],"nodeSelector":{"a":"b"}}}"#,
    );
    let pod = pod.expect("valid JSON");
    let config = Document::from_json(r#"{"spec":{"tolerations":[{"key":"b"}],"nodeSelector":{"c":"d"}}}"#);
    let config = config.expect("valid JSON");
    let ty = Schema::builtin().kind("v1", "Pod").expect("a built-in kind");
    let merged = structured::apply(ty, pod.root(), &config.root().into(), Atomics::Replace).expect("a valid merge");
    assert_eq!(
        sorted(merged.root()),
        r#"{"apiVersion":"v1","kind":"Pod","spec":{"nodeSelector":{"c":"d"},"tolerations":[{"key":"b"}]}}"#
    );
}

#[test]
fn kinds_without_a_schema_are_named() {
    let error = Schema::builtin()
        .kind("autoscaling/v1", "Scale")
        .expect_err("no schema");
    assert_eq!(
        error.to_string(),
        "failed to convert patch object to typed object: no corresponding type for autoscaling/v1, Kind=Scale"
    );
    let error = Schema::builtin().kind("v1", "PodExecOptions").expect_err("no schema");
    assert!(
        error
            .to_string()
            .ends_with("no corresponding type for /v1, Kind=PodExecOptions")
    );
}

#[test]
fn deeply_nested_values_are_patched() {
    const DEPTH: usize = 900;
    let nested = |leaf: &str| {
        let text = format!(
            r#"{{"apiVersion":"example.dev/v1","kind":"Widget","spec":{{"free":{}{leaf}{}}}}}"#,
            r#"{"a":"#.repeat(DEPTH),
            "}".repeat(DEPTH)
        );
        go_json::read(&text).expect("valid JSON")
    };
    let (object, patch) = (nested("1"), nested("2"));
    let merged = kyvtest_patch::strategic::merge(object.root(), patch.root()).expect("a valid merge");
    assert!(merged.changed);
    let widget = yaml("widget.yaml");
    let widget = Schema::custom("example.dev/v1", "Widget", Some(widget.root()));
    let ty = widget.kind("example.dev/v1", "Widget").expect("the custom kind");
    let merged = structured::apply(ty, object.root(), &patch.root().into(), Atomics::Reject).expect("a valid merge");
    assert!(sorted(merged.root()) == sorted(patch.root()));
    let path = format!("/spec/free{}", "/a".repeat(DEPTH));
    let text = format!(r#"[{{"op":"replace","path":"{path}","value":2}}]"#);
    let patched = kyvtest_patch::json6902::apply_text(object.root(), &text).expect("a valid patch");
    assert!(sorted(patched.document.root()) == sorted(patch.root()));
}
