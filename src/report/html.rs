//! One self-contained HTML file: counts, a filter box, and each case with both verdicts side by side.

use std::fmt::Write as _;

use super::{CaseStatus, ReportInput, Run, analysis, case_status::reason, human, one_line};
use crate::run::{Case, CaseVerdict, SuiteRun, source_map};
use kyvtest_go_compat::diagnostic::{Severity, Sources, Span, render as written};

/// The page.
pub fn render(view: &ReportInput<'_>) -> String {
    let mut body = String::new();
    totals(view, &mut body);
    for run in super::ranked(view.runs) {
        suite(run, view, &mut body);
    }
    let style = include_str!("html/style.css");
    let script = include_str!("html/script.js");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>kyvtest</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{style}</style>\n</head>\n<body>\n{body}<script>\n{script}</script>\n\
         </body>\n</html>\n"
    )
}

fn totals(view: &ReportInput<'_>, body: &mut String) {
    let summary = view.summary;
    body.push_str("<header>\n<h1>kyvtest</h1>\n<ul class=\"totals\">\n");
    for (name, count, class) in [
        ("suites", summary.suites, ""),
        ("cases", summary.cases, ""),
        ("pass", summary.pass.saturating_sub(summary.diverging), "good"),
        ("fail", summary.fail, "bad"),
        ("error", summary.error, "bad"),
        ("unmatched", summary.unmatched, "bad"),
        ("diverge", summary.diverging, "bad"),
        ("needs registry", summary.needs_registry, "odd"),
        ("unsupported", summary.unsupported, "odd"),
        ("broken suites", summary.broken, "bad"),
    ] {
        let shown = match name {
            "suites" | "cases" | "broken suites" if count == 1 => name.trim_end_matches('s'),
            _ => name,
        };
        if count > 0 || matches!(name, "suites" | "cases" | "pass") {
            let _ = writeln!(body, "<li class=\"{class}\"><b>{count}</b> {shown}</li>");
        }
    }
    let _ = writeln!(body, "<li>clock {}</li>", escaped(&view.times.now));
    if let Some(stopped) = view.stopped {
        let _ = writeln!(body, "<li class=\"bad\">stopped: {stopped}</li>");
    }
    body.push_str(
        "</ul>\n<p><label>Filter <input id=\"filter\" type=\"search\" autocomplete=\"off\"></label>\n\
         <label>Outcome <select id=\"outcome\"><option value=\"\">all</option>\n",
    );
    for standing in CaseStatus::ALL {
        let name = standing.column(false);
        let _ = writeln!(body, "<option value=\"{}\">{name}</option>", name.to_lowercase());
    }
    body.push_str(
        "</select></label>\n\
         <label class=\"check\"><input id=\"problems\" type=\"checkbox\"> problems only</label>\n\
         <output id=\"shown\"></output></p>\n</header>\n",
    );
}

fn suite((run, sources): &Run<'_>, view: &ReportInput<'_>, body: &mut String) {
    let _ = writeln!(body, "<section>\n<h2>{}</h2>", escaped(&run.path));
    for found in run
        .diagnostics
        .iter()
        .filter(|found| found.severity >= Severity::Warning)
    {
        let class = if found.severity == Severity::Error {
            "bad"
        } else {
            "odd"
        };
        let text = escaped(&written::full(found, sources, false));
        let _ = writeln!(body, "<pre class=\"{class}\">{}</pre>", text.trim_end());
    }
    for case in super::ranked_cases(&run.cases) {
        let standing = CaseStatus::of(case);
        let class = match standing {
            CaseStatus::Pass => "good",
            CaseStatus::Fail | CaseStatus::Error | CaseStatus::Unmatched | CaseStatus::Diverge => "bad",
            CaseStatus::NeedsRegistry | CaseStatus::Unsupported | CaseStatus::Skip => "odd",
        };
        let _ = writeln!(
            body,
            "<details class=\"case {class}\" data-outcome=\"{}\" id=\"{}\"><summary><b>{}</b> {} <span>{}</span></summary>",
            standing.column(false).to_lowercase(),
            source_map::id(run, case),
            standing.column(view.compat),
            escaped(&one_line(&case.title())),
            escaped(&reason(case)),
        );
        answers(case, body);
        let details = human::details(case, sources);
        if !details.trim().is_empty() {
            let _ = writeln!(body, "<pre>{}</pre>", escaped(details.trim_end()));
        }
        for (name, span) in [
            ("expectation", case.place),
            ("policy", run.source_map.policy(case)),
            ("resource", run.source_map.resource(case)),
        ] {
            place(name, span, sources, body);
        }
        body.push_str("</details>\n");
    }
    proofs(run, body);
    coverage(run, sources, body);
    body.push_str("</section>\n");
}

/// The proof labels of the suite's policies.
fn proofs(run: &SuiteRun, body: &mut String) {
    if run.proofs.is_empty() {
        return;
    }
    body.push_str("<table class=\"proofs\"><tr><th>policy</th><th>label</th><th>why</th></tr>\n");
    for cells in analysis::proof_cells(run) {
        let [policy, label, why] = cells.map(|cell| escaped(&one_line(&cell)));
        let _ = writeln!(body, "<tr><td>{policy}</td><td>{label}</td><td>{why}</td></tr>");
    }
    body.push_str("</table>\n");
}

/// The coverage of the suite's policies.
fn coverage(run: &SuiteRun, sources: &Sources, body: &mut String) {
    for policy in run.coverage.iter().flat_map(|coverage| &coverage.policies) {
        let score = policy.score();
        let _ = writeln!(
            body,
            "<details class=\"coverage\"><summary><b>coverage {} %</b> {} <span>{} of {}</span></summary>",
            score.percent(),
            escaped(&one_line(&policy.name)),
            score.seen,
            score.total
        );
        for item in &policy.items {
            if let Some(missing) = super::coverage::missing(item) {
                place(&escaped(&one_line(&missing)), Some(item.span), sources, body);
            }
        }
        body.push_str("</details>\n");
    }
}

/// The expected result and both verdicts, side by side.
fn answers(case: &Case, body: &mut String) {
    let cell = |answer: Option<&CaseVerdict>| match answer {
        Some(answer) => format!(
            "<td>{} ({})<br>{}</td>",
            answer.status,
            answer.effect,
            escaped(&answer.message)
        ),
        None => "<td>–</td>".to_owned(),
    };
    let native = case.vap.as_ref().map(|native| &native.answer);
    let _ = writeln!(
        body,
        "<table><tr><th>expected</th><th>Kyverno</th><th>native policy</th></tr><tr><td>{}</td>{}{}</tr></table>",
        if case.expected.is_empty() { "–" } else { case.expected },
        cell(case.kyverno.as_ref()),
        cell(native),
    );
}

fn place(name: &str, span: Option<Span>, sources: &Sources, body: &mut String) {
    if let (Some(file), Some(line), _) = super::place(span, sources) {
        let _ = writeln!(body, "<p class=\"place\">{name}: {}:{line}</p>", escaped(file));
    }
}

/// Escapes text for HTML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
