//! The run as events, one JSON object per line: `run-begin`, then for each suite `suite-begin`, its `diagnostic`s, its
//! `case`s and `suite-end`, finally `run-end` with the counts. Cases and diagnostics are those of the JSON report.

use serde_json::{Value, json};

use super::{ReportInput, Run, json as whole};
use crate::run::SuiteRun;

/// All events, in order, one per line.
pub fn render(view: &ReportInput<'_>) -> String {
    let mut text = String::new();
    let mut tell = |event: Value| {
        text.push_str(&event.to_string());
        text.push('\n');
    };
    tell(
        json!({"event": "run-begin", "version": 1, "kyvtest": env!("CARGO_PKG_VERSION"), "now": view.times.now, "suites": view.runs.len()}),
    );
    for run in view.runs {
        for event in suite(run, view) {
            tell(event);
        }
    }
    tell(json!({"event": "run-end", "stopped": view.stopped, "exit": view.exit, "summary": view.summary.json()}));
    text
}

/// The events of one suite.
fn suite((run, sources): &Run<'_>, view: &ReportInput<'_>) -> Vec<Value> {
    let named = |event: &str, run: &SuiteRun| json!({"event": event, "suite": run.path, "doc": run.doc});
    let mut events = Vec::with_capacity(run.cases.len() + 2);
    let mut begin = named("suite-begin", run);
    begin["name"] = run.name.as_str().into();
    events.push(begin);
    let mut tell = |event: &str, value: Value| {
        let mut line = named(event, run);
        if let (Some(line), Value::Object(more)) = (line.as_object_mut(), value) {
            line.extend(more);
        }
        events.push(line);
    };
    for found in &run.diagnostics {
        tell("diagnostic", whole::diagnostic(found, sources));
    }
    for case in &run.cases {
        for finding in &case.findings {
            tell("diagnostic", whole::diagnostic(finding, sources));
        }
        tell("case", whole::case(case, run, sources, view.compat));
    }
    let problems = run.cases.iter().filter(|case| super::CaseStatus::of(case).is_problem());
    tell(
        "suite-end",
        json!({"cases": run.cases.len(), "problems": problems.count(), "broken": run.is_broken()}),
    );
    events
}
