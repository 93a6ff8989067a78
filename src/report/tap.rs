//! The Test Anything Protocol, version 14: one line per case, with a YAML block for each problem.

use std::fmt::Write as _;

use serde_json::json;

use super::{CaseStatus, ReportInput, Run, case_status::reason, human, one_line};
use kyvtest_go_compat::{
    diagnostic::{Severity, Sources, Span, render},
    value::Document,
};

/// The whole stream.
pub fn render(view: &ReportInput<'_>) -> String {
    let mut points = Vec::new();
    for run in view.runs {
        suite(run, &mut points);
    }
    let mut text = format!("TAP version 14\n1..{}\n# now: {}\n", points.len(), view.times.now);
    for (number, point) in points.iter().enumerate() {
        let word = if point.ok { "ok" } else { "not ok" };
        let _ = write!(text, "{word} {} - {}", number + 1, escaped(&point.title));
        if let Some(skipped) = &point.skipped {
            let _ = write!(text, " # SKIP {}", escaped(skipped));
        }
        text.push('\n');
        for line in point.block.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

#[derive(Default)]
struct Point {
    ok: bool,
    title: String,
    skipped: Option<String>,
    block: String,
}

fn suite((run, sources): &Run<'_>, points: &mut Vec<Point>) {
    for found in run.diagnostics.iter().filter(|found| found.severity == Severity::Error) {
        let block = block(found.code.id(), &found.message, found.primary, sources, None);
        points.push(Point {
            title: format!("{} :: {}", run.path, render::concise(found, sources)),
            block,
            ..Point::default()
        });
    }
    for case in &run.cases {
        let standing = CaseStatus::of(case);
        let problem = standing.is_problem();
        let skipped = matches!(
            standing,
            CaseStatus::NeedsRegistry | CaseStatus::Unsupported | CaseStatus::Skip
        )
        .then(|| reason(case));
        let details = || human::details(case, sources);
        let text = if problem {
            block(
                &standing.problem(case),
                &reason(case),
                case.place,
                sources,
                Some(details()),
            )
        } else {
            String::new()
        };
        points.push(Point {
            ok: !problem,
            title: format!("{} :: {}", run.path, case.title()),
            skipped,
            block: text,
        });
    }
}

/// The YAML block between `---` and `...`.
fn block(kind: &str, message: &str, place: Option<Span>, sources: &Sources, details: Option<String>) -> String {
    let at = super::json::place(place, sources);
    let value = json!({
        "message": message,
        "severity": "fail",
        "type": kind,
        "file": at.0,
        "line": at.1,
        "column": at.2,
        "details": details,
    });
    format!("---\n{}...\n", Document::from(&value).root().to_yaml())
}

/// Escapes directives in a description.
fn escaped(text: &str) -> String {
    one_line(text).replace('\\', "\\\\").replace('#', "\\#")
}
