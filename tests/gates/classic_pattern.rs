//! `validate.pattern`: patterns with anchors against resources, results, paths and texts.

use std::sync::Arc;

use kyvtest::{
    kyverno::classic::pattern::match_pattern,
    value::{Data, Document},
};
use proptest::{
    prelude::*,
    test_runner::{RngSeed, TestRunner},
};
use serde_json::Value;

use crate::support::{Gate, id, same, text};

/// A resource as the command line reads it: all numbers are doubles.
pub(crate) fn doubles(value: Data) -> Data {
    match value {
        Data::Int(value) => Data::Double(value as f64),
        Data::Uint(value) => Data::Double(value as f64),
        Data::List(items) => items.iter().cloned().map(doubles).collect(),
        Data::Map(entries) => entries
            .iter()
            .map(|(key, value)| (key.clone(), doubles(value.clone())))
            .collect(),
        value => value,
    }
}

/// A value of a row.
pub(crate) fn data(value: &Value) -> Data {
    Data::from(Document::from(value).root())
}

fn check(row: &Value) -> Result<(), String> {
    let pattern = data(&row["pattern"]);
    let resource = doubles(data(&row["resource"]));
    let ours = match match_pattern(&resource, &pattern) {
        Ok(()) => ("pass", String::new(), String::new()),
        Err(error) => {
            let result = match (error.skip, error.path.is_empty()) {
                (true, _) => "skip",
                (false, true) => "error",
                (false, false) => "fail",
            };
            (result, error.path, error.message)
        }
    };
    let theirs = (
        text(row, "result"),
        text(row, "path").to_owned(),
        text(row, "message").to_owned(),
    );
    same(&ours, &theirs)
}

#[test]
fn classic_pattern() {
    Gate::new("classic-pattern", 8419).shared("golden/classic/pattern.jsonl", id, check);
    Gate::new("classic-pattern-own", 440).fixture("classic/pattern.jsonl", id, check);
}

/// Any value, with keys and strings that are significant in patterns.
fn any_data() -> impl Strategy<Value = Data> {
    let texts = prop::sample::select(vec![
        "", "*", "?*", "a", "b*", "!a", ">1", "<=1Gi", "1-5", "1!-5", "|", "a|b", "a&!b", "1h", "-1h-2h", "1e400", "é",
    ]);
    let leaf = prop_oneof![
        Just(Data::Null),
        any::<bool>().prop_map(Data::Bool),
        any::<i64>().prop_map(Data::Int),
        any::<f64>().prop_map(Data::Double),
        texts.prop_map(Data::from),
        ".*".prop_map(Data::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        let keys = prop::sample::select(vec![
            "a",
            "b",
            "(a)",
            "<(a)",
            "X(a)",
            "^(a)",
            "=(b)",
            "+(b)",
            "metadata",
            "(metadata)",
            "labels",
            "=(labels)",
            "a*",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Data::from_iter),
            prop::collection::vec((keys.prop_map(Arc::<str>::from), inner), 0..5).prop_map(Data::from_iter),
        ]
    })
}

#[test]
fn patterns_end_on_anything() {
    let config = ProptestConfig {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::with_cases(2000)
    };
    let mut runner = TestRunner::new(config);
    runner
        .run(&(any_data(), any_data()), |(resource, pattern)| {
            let _ = match_pattern(&resource, &pattern);
            prop_assert!(match_pattern(&resource, &Data::from("*")).is_ok() || !matches!(resource, Data::String(_)));
            Ok(())
        })
        .expect("no panic");
}

#[test]
fn expensive_patterns_return_soon() {
    let nested = |depth: usize| {
        (0..depth).fold(Data::from("x"), |inner, _| {
            [(Arc::from("a"), inner)].into_iter().collect()
        })
    };
    let error = match_pattern(&nested(300), &nested(300)).expect_err("too deep");
    assert!(error.message.contains("levels of nesting"), "{error}");
    let fits = |value: &str, pattern: &str| {
        let wrap = |text: &str| -> Data { [(Arc::from("k"), Data::from(text))].into_iter().collect() };
        match_pattern(&wrap(value), &wrap(pattern)).is_ok()
    };
    // Huge ranges and quantities, many alternatives, many wildcards: each must return soon.
    assert!(!fits("5", "1e999999999-9e999999999"));
    assert!(fits("5", "1-99999999999999999999999999999999999999999999Ei"));
    assert!(!fits("x", &"a|".repeat(100_000)));
    assert!(!fits(&"a".repeat(2000), &("*a".repeat(500) + "b")));
    assert!(!fits(&"1".repeat(100_000), &">2".repeat(10_000)));
}
