//! `kyvtest explain`: what a diagnostic code means.

use std::{fmt::Write as _, io::Write as _};

use super::{
    Exit, Failure,
    color::{HEADING, LITERAL},
    output::Output,
};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Group, Sources, nearest};

/// Explain diagnostic codes
///
/// Every diagnostic carries a code such as KT001. This command prints what the code means, with an example and a way out, in
/// Markdown. Without a code it lists them all.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Codes to explain, in upper or lower case
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
            match text.parse::<Code>() {
                Ok(code) => known.push(code),
                Err(error) => problems.push(unknown(text, &error.to_string())),
            }
        }
        if !problems.is_empty() {
            return Err(Failure::Input(problems, Sources::new()));
        }
        let texts: Vec<&str> = known.into_iter().map(Code::explanation).collect();
        output.artefact().write_all(texts.join("\n").as_bytes())?;
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
    text
}

fn unknown(text: &str, message: &str) -> Diagnostic {
    let diagnostic = Diagnostic::new(Code::UnknownCode, message);
    let near = nearest(text, Code::ALL.iter().map(|code| code.id()));
    let near: Vec<String> = near
        .into_iter()
        .filter_map(|id| id.parse::<Code>().ok())
        .map(|code| format!("`{code}` ({})", code.title()))
        .collect();
    if near.is_empty() {
        diagnostic.with_help("`kyvtest explain` lists all codes")
    } else {
        diagnostic.with_help(format!("did you mean {}?", near.join(", ")))
    }
}
