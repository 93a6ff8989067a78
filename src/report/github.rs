//! GitHub's workflow commands: `::error file=…,line=…,col=…,title=…::message`.
//!
//! GitHub shows ten annotations of a kind per step and silently drops the rest. So the rest is counted here, failures
//! come first, and failures and divergences of a policy with the same cause share one annotation.

use std::fmt::Write as _;

use super::{CaseStatus, ReportInput, case_status::reason, failures::failures, groups::groups, human};
use crate::run::SuiteRun;
use kyvtest_go_compat::diagnostic::{Severity, Sources, Span, render};

/// The number of annotations of a kind that GitHub shows.
const SHOWN: usize = 10;

/// The commands, one per line.
pub fn render(view: &ReportInput<'_>) -> String {
    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    for (run, sources) in view.runs {
        for found in &run.diagnostics {
            let (word, list) = match found.severity {
                Severity::Error => ("error", &mut errors),
                Severity::Warning => ("warning", &mut warnings),
                Severity::Note => continue,
            };
            let title = format!("{} {}", found.code, found.code.title());
            let mut message = if found.primary.is_some() {
                found.message.clone()
            } else {
                render::concise(found, sources)
            };
            for help in &found.help {
                let _ = write!(message, "\nhelp: {help}");
            }
            let command = command(word, found.primary, sources, &title, &message);
            // Suites share files, whose problems are reported once.
            if !list.contains(&command) {
                list.push(command);
            }
        }
        for group in failures(run) {
            let case = group.first;
            let more = match group.others.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let title = format!("{}: {}{more}", CaseStatus::of(case).column(view.compat), case.title());
            let message = format!("{}\n{}", reason(case), human::details(case, sources));
            errors.push(command("error", case.place, sources, &title, message.trim_end()));
        }
    }
    let sources_of = |run: &SuiteRun| {
        let of = view.runs.iter().find(|(other, _)| std::ptr::eq(*other, run));
        of.map(|(_, sources)| *sources)
    };
    for group in groups(view.runs.iter().map(|(run, _)| *run)) {
        for (policy, cases) in &group.policies {
            let Some((run, case)) = cases.first() else { continue };
            let Some(sources) = sources_of(run) else { continue };
            let title = match cases.len() {
                1 => format!("Diverge: {}", case.title()),
                more => format!("Diverge: {policy}: {} in {more} cases", group.class.as_str()),
            };
            let message = format!("{}\n{}", reason(case), human::details(case, sources));
            errors.push(command("error", case.place, sources, &title, message.trim_end()));
        }
    }
    let mut text = format!("::debug::clock: {}\n", view.times.now);
    for (word, list) in [("error", errors), ("warning", warnings)] {
        text.extend(list.iter().take(SHOWN).map(String::as_str));
        let rest = list.len().saturating_sub(SHOWN);
        if rest > 0 {
            let _ = writeln!(text, "::notice title=kyvtest::{rest} more {word} annotations");
        }
    }
    text
}

fn command(word: &str, place: Option<Span>, sources: &Sources, title: &str, message: &str) -> String {
    let mut properties = Vec::new();
    if let (Some(file), line, column) = super::json::place(place, sources) {
        properties.push(format!("file={}", property(file)));
        properties.extend(line.map(|line| format!("line={line}")));
        properties.extend(column.map(|column| format!("col={column}")));
    }
    properties.push(format!("title={}", property(title)));
    format!("::{word} {}::{}\n", properties.join(","), data(message))
}

fn data(text: &str) -> String {
    let shown = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\r'));
    let text: String = shown.collect();
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
