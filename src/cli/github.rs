//! GitHub Actions: annotations, and a summary on the job's page, when a run is a workflow step.

use std::{env, fs::OpenOptions, io::Write as _};

use super::{input::reason, output::Output};
use crate::report::{Format, ReportInput, github, markdown};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic};

/// The maximum number of problem lines on the job's page.
const LINES: usize = 500;

/// Writes annotations and the job summary, if the process runs in GitHub Actions. Annotations go to standard error,
/// which GitHub also reads: standard output is the report.
pub(super) fn annotate(view: &ReportInput<'_>, format: Format, output: &mut Output) -> Result<(), Diagnostic> {
    if env::var_os("GITHUB_ACTIONS").is_none_or(|value| value != "true") {
        return Ok(());
    }
    if format != Format::Github {
        output.remark(&github::render(view));
    }
    let Some(path) = env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    // Commands of the same step write to the same file.
    let text = markdown::digest(view, LINES);
    let file = OpenOptions::new().append(true).create(true).open(&path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| {
            let message = format!("cannot write `{}`: {}", path.display(), reason(&error));
            Diagnostic::new(Code::OutputFailed, message)
        })
}
