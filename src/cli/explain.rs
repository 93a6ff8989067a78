//! `kyvtest explain`: explains diagnostic codes, hazards, divergence classes and proof labels.

mod topics;

use std::{fmt::Write as _, io::Write as _};

use super::{
    Exit, Failure,
    color::{HEADING, LITERAL},
    output::Output,
};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Group, Sources, nearest};

/// Explain codes and terms of reports
///
/// Prints what a diagnostic code (KT001), a conversion hazard (H27, V01), a divergence class (weaker) or a proof label
/// (UNKNOWN) means and what to do about it, in Markdown. Without an argument, lists all of them.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Codes or terms to explain, in upper or lower case
    #[arg(value_name = "CODE")]
    codes: Vec<String>,
}

impl Args {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        if self.codes.is_empty() {
            output.styled(&list())?;
            return Ok(Exit::Success);
        }
        let mut known = Vec::new();
        let mut problems = Vec::new();
        for text in &self.codes {
            match (text.parse::<Code>(), topics::explain(text)) {
                (Ok(code), _) => known.push(code.explanation().to_owned()),
                (Err(_), Some(topic)) => known.push(topic),
                (Err(_), None) => problems.push(unknown(text)),
            }
        }
        if !problems.is_empty() {
            return Err(Failure::Input(problems, Sources::new()));
        }
        output.artefact().write_all(known.join("\n").as_bytes())?;
        Ok(Exit::Success)
    }
}

fn list() -> String {
    let mut text = String::new();
    for (digit, group) in Group::ALL.into_iter().enumerate() {
        let codes: Vec<Code> = Code::ALL.iter().copied().filter(|code| code.group() == group).collect();
        if codes.is_empty() {
            continue;
        }
        let gap = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{gap}{HEADING}KT{digit}: {}{HEADING:#}", group.name());
        for code in codes {
            let _ = writeln!(text, "  {LITERAL}{code}{LITERAL:#}  {}", code.title());
        }
    }
    for (heading, words) in topics::all() {
        let _ = writeln!(text, "\n{HEADING}{heading}{HEADING:#}");
        let width = words.iter().map(|(word, _)| word.len()).max().unwrap_or_default();
        for (word, title) in words {
            let _ = writeln!(text, "  {LITERAL}{word:<width$}{LITERAL:#}  {title}");
        }
    }
    text
}

fn unknown(text: &str) -> Diagnostic {
    let diagnostic = Diagnostic::new(Code::UnknownCode, format!("unknown code or term `{text}`"));
    let codes = Code::ALL.iter().map(|code| (code.id(), code.title()));
    let topics = topics::all().into_iter().flat_map(|(_, words)| words);
    let known: Vec<(&str, &str)> = codes.chain(topics).collect();
    let near = nearest(text, known.iter().map(|(word, _)| *word));
    let near: Vec<String> = near
        .into_iter()
        .filter_map(|word| known.iter().find(|(known, _)| *known == word))
        .map(|(word, title)| format!("`{word}` ({title})"))
        .collect();
    if near.is_empty() {
        diagnostic.with_help("`kyvtest explain` lists all codes and terms")
    } else {
        diagnostic.with_help(format!("did you mean {}?", near.join(", ")))
    }
}
