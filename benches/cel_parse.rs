//! Parsing CEL: all expressions of the corpus, and our own fixtures with and without errors.

use std::{fs, path::Path};

use divan::{Bencher, black_box};
use kyvtest::cel::syntax::{Macros, ParseOptions, parse};
use serde_json::Value;

fn main() {
    divan::main();
}

fn options() -> ParseOptions {
    ParseOptions::cel_go_0_29(Macros::KUBERNETES)
}

fn rows(path: &str) -> Vec<Value> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn run(bencher: Bencher, expressions: &[String]) {
    let options = options();
    bencher.counter(expressions.len()).bench_local(|| {
        for expression in expressions {
            let _ = black_box(parse(black_box(expression), &options));
        }
    });
}

fn expressions(rows: &[Value], wanted: impl Fn(&Value) -> bool) -> Vec<String> {
    rows.iter()
        .filter(|row| wanted(row))
        .filter_map(|row| row["expr"].as_str().map(str::to_owned))
        .collect()
}

/// The expressions of public policies, where the shared reference data is at hand.
#[divan::bench]
fn corpus(bencher: Bencher) {
    let rows = rows("../shared/golden/cel/parse_in.jsonl");
    run(bencher, &expressions(&rows, |row| row["set"] == "corpus"));
}

#[divan::bench]
fn fixtures_accepted(bencher: Bencher) {
    let rows = rows("fixtures/cel/parse.jsonl");
    run(bencher, &expressions(&rows, |row| row.get("tree").is_some()));
}

#[divan::bench]
fn fixtures_rejected(bencher: Bencher) {
    let rows = rows("fixtures/cel/parse.jsonl");
    run(bencher, &expressions(&rows, |row| row.get("error").is_some()));
}
