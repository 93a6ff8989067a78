//! One renderer per format over the same run.
//!
//! What all of them share: [`Summary`] counts, [`CaseStatus`] says in which light a case is shown, and [`event`] gives the
//! run as the line of events that `jsonl` writes.

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

/// How a run can be written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// For people: what they must look at, and counts.
    #[default]
    Human,
    /// Kyverno's table.
    Table,
    /// One JSON object.
    Json,
    /// The same in YAML.
    Yaml,
    /// Events, one JSON object a line.
    Jsonl,
    /// JUnit XML.
    Junit,
    /// SARIF 2.1.0.
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

    /// The word on the command line.
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

    /// The format of a word.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// What is written down, and how much of it.
#[derive(Debug, Clone, Copy)]
pub struct ReportInput<'r> {
    /// The suites.
    pub runs: &'r [Run<'r>],
    /// The counts of the whole run, which may be more than `runs` still has.
    pub summary: &'r Summary,
    /// The closing lines for people, which are about the whole run, too.
    pub closing: &'r str,
    /// How people are shown cases.
    pub look: human::HumanOptions<'r>,
    /// Why the run ended before its end: `interrupted`, `max-fail`.
    pub stopped: Option<&'static str>,
    /// Whether the words are those of `kyverno test`.
    pub compat: bool,
    /// Whether every answer of every policy is listed.
    pub all_responses: bool,
    /// Whether messages and passing cases are shown where a format can do without.
    pub detailed: bool,
    /// Whether lines that fail stand in one list.
    pub fail_only: bool,
    /// The clock.
    pub times: &'r Times,
    /// What a JUnit test case represents.
    pub junit_per: Per,
    /// Which attributes a JUnit report may have.
    pub junit_dialect: Dialect,
    /// The part of the run, if it was split.
    pub shard: Option<Shard>,
    /// The exit code that the cases and diagnostics of the run call for.
    pub exit: u8,
}

/// Writes a run down.
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

/// The runs in the order for readers: suites with failures, then those with divergences, then all others.
fn ranked<'v, 'r>(runs: &'v [Run<'r>]) -> Vec<&'v Run<'r>> {
    let mut ranked: Vec<&Run<'r>> = runs.iter().collect();
    ranked.sort_by_key(|(run, _)| {
        let least = run.cases.iter().map(|case| CaseStatus::of(case).rank()).min();
        if run.is_broken() { 0 } else { least.unwrap_or(u8::MAX) }
    });
    ranked
}

/// The cases of a run in the order for readers: failures, divergences, all others.
fn ranked_cases<'c>(cases: impl IntoIterator<Item = &'c Case>) -> Vec<&'c Case> {
    let mut ranked: Vec<&Case> = cases.into_iter().collect();
    ranked.sort_by_key(|case| CaseStatus::of(case).rank());
    ranked
}

/// A text of one line without characters that control anything.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.trim().chars() {
        let odd = c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        line.push(if odd { ' ' } else { c });
    }
    line
}
