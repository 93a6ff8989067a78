//! One renderer per format over the same run.
//!
//! Shared by all formats: [`Summary`] counts, [`CaseStatus`] classifies a case, and [`event`] turns the run into the
//! events that `jsonl` writes.

pub mod analysis;
mod case_status;
pub mod coverage;
pub mod event;
mod failures;
pub mod github;
pub mod groups;
pub mod html;
pub mod human;
pub mod json;
pub mod junit;
mod level;
pub mod markdown;
pub mod merge;
pub mod sarif;
mod summary;
pub mod table;
pub mod tap;

pub use case_status::CaseStatus;
pub use json::{Run, place, resource as key};
pub use junit::{Dialect, Per};
pub use level::Level;
pub use summary::Summary;

use anstream::adapter::strip_str;

use crate::run::{Case, Shard, Times};
use kyvtest_go_compat::value::Document;

/// A report format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Human-readable: the problems, and counts.
    #[default]
    Human,
    /// Kyverno's table.
    Table,
    /// One JSON object.
    Json,
    /// The same in YAML.
    Yaml,
    /// Events, one JSON object per line.
    Jsonl,
    /// JUnit XML.
    Junit,
    Sarif,
    /// GitHub's workflow commands.
    Github,
    /// Tables in Markdown.
    Markdown,
    /// The Test Anything Protocol, version 14.
    Tap,
    /// One page for a browser.
    Html,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Human,
        Self::Table,
        Self::Json,
        Self::Yaml,
        Self::Jsonl,
        Self::Junit,
        Self::Sarif,
        Self::Github,
        Self::Markdown,
        Self::Tap,
        Self::Html,
    ];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Table => "table",
            Self::Json => "json",
            Self::Yaml => "yaml",
            Self::Jsonl => "jsonl",
            Self::Junit => "junit",
            Self::Sarif => "sarif",
            Self::Github => "github",
            Self::Markdown => "markdown",
            Self::Tap => "tap",
            Self::Html => "html",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// The contents of a report, and its options.
#[derive(Debug, Clone, Copy)]
pub struct ReportInput<'r> {
    /// The suites.
    pub runs: &'r [Run<'r>],
    /// The counts of the whole run, which may include more than `runs`.
    pub summary: &'r Summary,
    /// The closing lines, which also cover the whole run.
    pub closing: &'r str,
    pub look: human::HumanOptions<'r>,
    /// The reason for an early end: `interrupted`, `max-fail`.
    pub stopped: Option<&'static str>,
    /// Whether to use the words of `kyverno test`.
    pub compat: bool,
    /// Whether to list every response of every policy.
    pub all_responses: bool,
    /// Whether to show messages and passing cases in formats that omit them by default.
    pub detailed: bool,
    /// Whether to put failing lines into one list.
    pub fail_only: bool,
    pub times: &'r Times,
    /// The unit of a JUnit test case.
    pub junit_per: Per,
    /// The attributes of a JUnit report.
    pub junit_dialect: Dialect,
    /// The shard, if the run was split.
    pub shard: Option<Shard>,
    /// The exit code of the run's cases and diagnostics.
    pub exit: u8,
}

/// Renders a run.
pub fn render(format: Format, view: &ReportInput<'_>) -> String {
    match format {
        Format::Human => {
            let look = human::HumanOptions {
                color: false,
                ..view.look
            };
            let (suites, mut shown) = (view.runs.iter(), human::Shown::default());
            let mut text: String = suites
                .map(|(run, sources)| human::suite(run, sources, look, &mut shown))
                .collect();
            text.push_str(&human::divergences(view.runs, look));
            text.push_str(view.closing);
            strip_str(&text).to_string()
        }
        Format::Table => table::render(view),
        Format::Json => format!("{}\n", json::render(view)),
        Format::Yaml => Document::from(&json::render(view)).root().to_yaml(),
        Format::Jsonl => event::render(view),
        Format::Junit => junit::render(view),
        Format::Sarif => sarif::render(view),
        Format::Github => github::render(view),
        Format::Markdown => markdown::render(view),
        Format::Tap => tap::render(view),
        Format::Html => html::render(view),
    }
}

/// The runs in reading order: suites with failures, then those with divergences, then all others.
fn ranked<'v, 'r>(runs: &'v [Run<'r>]) -> Vec<&'v Run<'r>> {
    let mut ranked: Vec<&Run<'r>> = runs.iter().collect();
    ranked.sort_by_key(|(run, _)| {
        let least = run.cases.iter().map(|case| CaseStatus::of(case).rank()).min();
        if run.is_broken() { 0 } else { least.unwrap_or(u8::MAX) }
    });
    ranked
}

/// The cases of a run in reading order: failures, divergences, all others.
fn ranked_cases<'c>(cases: impl IntoIterator<Item = &'c Case>) -> Vec<&'c Case> {
    let mut ranked: Vec<&Case> = cases.into_iter().collect();
    ranked.sort_by_key(|case| CaseStatus::of(case).rank());
    ranked
}

/// Replaces line breaks and control characters.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.trim().chars() {
        let odd = c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        line.push(if odd { ' ' } else { c });
    }
    line
}
