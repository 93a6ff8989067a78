//! Markdown tables: the counts, the problems of suites, and Kyverno's columns for each suite.

use std::fmt::Write as _;

use super::{
    CaseStatus, ReportInput, Run,
    case_status::{cells, columns},
    one_line,
};
use crate::run::Outcome;
use kyvtest_go_compat::diagnostic::{Severity, render};

/// The whole report.
pub fn render(view: &ReportInput<'_>) -> String {
    let mut text = heading(view);
    for run in super::ranked(view.runs) {
        suite(run, view, usize::MAX, &mut text);
    }
    super::analysis::proofs_markdown(view.runs, &mut text);
    if view.runs.iter().any(|(run, _)| run.coverage.is_some()) {
        text.push_str("\n## Coverage\n");
        super::coverage::table(view.runs, &mut text);
    }
    text
}

/// A digest for the page of a CI job: the counts, and at most `most` problem lines.
pub fn digest(view: &ReportInput<'_>, most: usize) -> String {
    let mut text = heading(view);
    let mut left = most;
    for (run, sources) in super::ranked(view.runs) {
        let problems = run.cases.iter().filter(|case| CaseStatus::of(case).is_problem());
        let count = problems.clone().count();
        if count == 0 && !run.is_broken() {
            continue;
        }
        if left == 0 {
            text.push_str("\nMore problems are in the other reports.\n");
            break;
        }
        let mut short = ReportInput {
            fail_only: true,
            ..*view
        };
        short.detailed = false;
        suite(&(*run, *sources), &short, left, &mut text);
        left = left.saturating_sub(count.max(1));
    }
    text
}

fn heading(view: &ReportInput<'_>) -> String {
    let summary = view.summary;
    let mut text = String::from("# kyvtest\n\n");
    let mut head = String::from("| suites | cases | pass |");
    let mut rule = String::from("|---|---|---|");
    // A case that passes and diverges is counted once, as diverging.
    let pass = summary.pass.saturating_sub(summary.diverging);
    let mut line = format!("| {} | {} | {pass} |", summary.suites, summary.cases);
    for (name, count) in [
        ("fail", summary.fail),
        ("error", summary.error),
        ("unmatched", summary.unmatched),
        ("diverge", summary.diverging),
        ("needs registry", summary.needs_registry),
        ("unsupported", summary.unsupported),
        ("broken suites", summary.broken),
    ] {
        if count > 0 {
            let _ = write!(head, " {name} |");
            rule.push_str("---|");
            let _ = write!(line, " {count} |");
        }
    }
    let _ = write!(text, "{head}\n{rule}\n{line}\n\nClock: {}\n", view.times.now);
    text
}

fn suite((run, sources): &Run<'_>, view: &ReportInput<'_>, most: usize, text: &mut String) {
    let cases = run.cases.iter().filter(|case| case.outcome != Outcome::Silent);
    let cases = cases.filter(|case| !view.fail_only || CaseStatus::of(case).is_problem());
    let cases = super::ranked_cases(cases);
    let mut diagnostics = run
        .diagnostics
        .iter()
        .filter(|found| found.severity >= Severity::Warning)
        .peekable();
    if cases.is_empty() && diagnostics.peek().is_none() {
        return;
    }
    let _ = write!(text, "\n## {}\n\n", escaped(&run.path));
    let mut any = false;
    for found in diagnostics {
        let _ = writeln!(text, "- {}", escaped(&render::concise(found, sources)));
        any = true;
    }
    if cases.is_empty() {
        return;
    }
    if any {
        text.push('\n');
    }
    let columns = columns(view.detailed);
    let _ = writeln!(text, "| ID | {} |", columns.join(" | "));
    let _ = writeln!(text, "|---{}|", "|---".repeat(columns.len()));
    for (number, case) in cases.iter().take(most).enumerate() {
        let cells = cells(case, view.compat, view.detailed);
        let cells: Vec<String> = cells.iter().map(|cell| escaped(cell)).collect();
        let _ = writeln!(text, "| {} | {} |", number + 1, cells.join(" | "));
    }
}

/// Escapes text for Markdown.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in one_line(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '~' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}
