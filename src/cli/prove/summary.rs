//! A summary of the labels of many policies.

use std::fmt::Write as _;

use super::{HEADING, Label, Row};

/// The maximum number of policies named in a summary line.
const NAMED: usize = 5;

/// The labels of many policies, one line per label.
pub(super) fn table(rows: &[Row]) -> String {
    let mut labels: Vec<(String, Vec<&str>)> = Vec::new();
    for row in rows {
        let label = match &row.proof.label {
            Label::Refuted(kind) => format!("REFUTED ({})", kind.as_str()),
            Label::NotConvertible { code } => format!("NOT-CONVERTIBLE ({code})"),
            other => other.as_str().to_owned(),
        };
        match labels.iter_mut().find(|(known, _)| *known == label) {
            Some((_, names)) => names.push(row.original.name()),
            None => labels.push((label, vec![row.original.name()])),
        }
    }
    labels.sort();
    let width = labels.iter().map(|(label, _)| label.len()).max().unwrap_or_default();
    let digits = rows.len().to_string().len();
    let mut text = format!("{HEADING}{} policies{HEADING:#}\n", rows.len());
    for (label, names) in labels {
        let shown = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = match names.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(", {more} more"),
        };
        let _ = writeln!(text, "  {label:<width$}  {:>digits$}  {shown}{more}", names.len());
    }
    text
}
