//! Kyverno's table, one per suite; with `--fail-only` one for all.
//!
//! Upstream counterpart: `cmd/cli/kubectl-kyverno/output/table`.
//!
//! Deviation: long cells are not wrapped, and standard output shows no progress.

use std::fmt::Write as _;

use super::{
    ReportInput,
    case_status::{cells, columns},
};
use crate::run::{Case, Outcome};

/// From this number of lines on, the first heading includes it.
const MANY: usize = 10;

/// The tables.
pub fn render(view: &ReportInput<'_>) -> String {
    let printed = |case: &&Case| case.outcome != Outcome::Silent;
    if view.fail_only {
        let cases = view.runs.iter().flat_map(|(run, _)| &run.cases).filter(printed);
        return format!("{}{}", table(cases, view), clock(view));
    }
    let mut text = String::new();
    for (run, _) in view.runs {
        let table = table(run.cases.iter().filter(printed), view);
        if table.is_empty() {
            continue;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = write!(text, "{}\n{table}", super::one_line(&run.path));
    }
    text + &clock(view)
}

/// The line with the clock; `kyverno test` has none.
fn clock(view: &ReportInput<'_>) -> String {
    if view.compat {
        String::new()
    } else {
        format!("\nClock: {}\n", view.times.now)
    }
}

/// One table; nothing if there are no lines.
fn table<'c>(cases: impl Iterator<Item = &'c Case>, view: &ReportInput<'_>) -> String {
    let numbered = cases.enumerate().map(|(number, case)| {
        let mut line = vec![(number + 1).to_string()];
        line.extend(cells(case, view.compat, view.detailed));
        line
    });
    let lines: Vec<Vec<String>> = numbered.collect();
    if lines.is_empty() {
        return String::new();
    }
    let first = if lines.len() > MANY {
        format!("ID ({})", lines.len())
    } else {
        "ID".to_owned()
    };
    let named = columns(view.detailed).iter().map(|&name| name.to_owned());
    let heading: Vec<String> = [first].into_iter().chain(named).collect();
    let width = |column: usize| {
        let cells = lines.iter().chain([&heading]).filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let rule = || {
        let parts: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        format!("│{}│\n", parts.join("│"))
    };
    let line = |cells: &[String]| {
        let mut text = String::from("│");
        for (cell, width) in cells.iter().zip(&widths) {
            let _ = write!(text, " {cell:<width$} │");
        }
        text.push('\n');
        text
    };
    let body: String = lines.iter().map(|cells| line(cells)).collect();
    [rule(), line(&heading), rule(), body, rule()].concat()
}
