//! The CEL parser against cel-go 0.29.2: accept or reject, the tree, and the error messages.

use kyvtest::cel::{
    issue::Issues,
    syntax::{Macros, ParseOptions, parse, print, print_with_offsets},
};
use serde::Deserialize;

use crate::support::{Gate, fixture, jsonl, read, shared};

#[derive(Deserialize)]
struct Input {
    expr: String,
}

struct Row {
    id: String,
    expr: String,
    answer: String,
}

/// The environment of the reference data: Kubernetes 1.37 plus cel-go's bindings and math.
fn options() -> ParseOptions {
    ParseOptions::cel_go_0_29(Macros {
        bind: true,
        math: true,
        ..Macros::KUBERNETES
    })
}

fn rows() -> Option<Vec<Row>> {
    let inputs = jsonl::<Input>(&shared("golden/cel/parse_in.jsonl")?);
    let answers = read(&shared("golden/cel/parse_go.txt")?);
    let rows = inputs.into_iter().zip(answers.lines()).enumerate();
    Some(
        rows.map(|(i, (input, answer))| Row {
            id: format!("line {}", i + 1),
            expr: input.expr,
            answer: serde_json::from_str(answer).expect("a JSON string"),
        })
        .collect(),
    )
}

fn compare(expected: &str, actual: &str, expr: &str) -> Result<(), String> {
    if expected == actual {
        return Ok(());
    }
    Err(format!("{expr:?}\n    expected {expected:?}\n    actual   {actual:?}"))
}

#[test]
fn trees() {
    let Some(rows) = rows() else { return };
    Gate::new("cel_parse", 7760).run(
        &rows,
        |row| row.id.clone(),
        |row| {
            let actual =
                parse(&row.expr, &options()).map_or_else(|_| "ERR".to_owned(), |ast| format!("OK {}", print(&ast)));
            let expected = if row.answer.starts_with("ERR ") {
                "ERR"
            } else {
                &row.answer
            };
            compare(expected, &actual, &row.expr)
        },
    );
}

fn error_gate(gate: &Gate<'_>, text: impl Fn(&Issues) -> String + Sync, expected: impl Fn(&str) -> String + Sync) {
    let Some(rows) = rows() else { return };
    let rows: Vec<Row> = rows.into_iter().filter(|row| row.answer.starts_with("ERR ")).collect();
    gate.run(
        &rows,
        |row| row.id.clone(),
        |row| {
            let actual = parse(&row.expr, &options()).map_or_else(|issues| text(&issues), |_| "OK".to_owned());
            compare(&expected(&row.answer[4..]), &actual, &row.expr)
        },
    );
}

#[test]
fn first_line_of_errors() {
    let gate = Gate::new("cel_parse_error", 2280);
    let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    error_gate(&gate, Issues::first_line, first);
}

#[test]
fn whole_text_of_errors() {
    let gate = Gate::new("cel_parse_text", 2280);
    error_gate(&gate, Issues::to_string, str::to_owned);
}

/// An own row: cel-go's result, with the location of every node.
#[derive(Deserialize)]
struct OwnRow {
    id: u32,
    cel_go: String,
    macros: Vec<String>,
    expr: String,
    tree: Option<String>,
    error: Option<String>,
}

impl OwnRow {
    fn options(&self) -> ParseOptions {
        let on = |name: &str| self.macros.iter().any(|listed| listed == name);
        let macros = Macros {
            opt_map: on("opt"),
            opt_flat_map: on("opt"),
            two_variable: on("two"),
            bind: on("bind"),
            sort_by: on("lists"),
            math: on("math"),
            protos: on("protos"),
            or_value_compat: on("orvalue"),
            ..Macros::STANDARD
        };
        let options = match self.cel_go.as_str() {
            "0.26.0" => ParseOptions::cel_go_0_26(macros),
            "0.29.2" => ParseOptions::cel_go_0_29(macros),
            "0.30.0" => ParseOptions::cel_go_0_30(macros),
            other => panic!("row {}: no cel-go {other}", self.id),
        };
        ParseOptions {
            optional_syntax: on("opt"),
            ..options
        }
    }
}

#[test]
fn own_rows() {
    let rows = jsonl::<OwnRow>(&fixture("cel/parse.jsonl"));
    Gate::new("cel_parse_own", 350).run(
        &rows,
        |row| row.id.to_string(),
        |row| {
            let expected = match (&row.tree, &row.error) {
                (Some(tree), None) => format!("OK {tree}"),
                (None, Some(error)) => format!("ERR {error}"),
                _ => return Err("a row has a tree or an error".to_owned()),
            };
            let actual = match parse(&row.expr, &row.options()) {
                Ok(ast) => format!("OK {}", print_with_offsets(&ast)),
                Err(issues) => format!("ERR {issues}"),
            };
            compare(&expected, &actual, &row.expr)
        },
    );
}

#[test]
fn size_limit() {
    let limit = options().code_point_limit;
    assert!(parse(&"é".repeat(limit), &options()).is_err_and(|issues| issues.list()[0].location.line == 1));
    let issues = parse(&"x".repeat(limit + 1), &options()).expect_err("too long");
    assert_eq!(
        issues.to_string(),
        "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100001, limit 100000"
    );
}
