//! Records the results of expressions: each evaluation with the values of its parts, as assertions of test frameworks
//! show them.
//!
//! A plain run has no [`Trace`]. With one, the parts of an expression are evaluated again after it, on the same values;
//! this costs nothing in the accounting and does not change the decision.

use std::{fmt::Write as _, sync::Mutex};

use super::{print, val::Val};
use kyvtest_go_compat::text::float;

/// The maximum length of a displayed value.
const WIDTH: usize = 120;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluation {
    pub text: String,
    pub value: String,
    /// Source text and value of each part, each before its own parts.
    pub parts: Vec<(String, String)>,
}

/// Records evaluations, in the order in which they happen.
#[derive(Debug, Default)]
pub struct Trace {
    evaluations: Mutex<Vec<Evaluation>>,
}

impl Trace {
    /// Adds an evaluation.
    pub fn record(&self, evaluation: Evaluation) {
        if let Ok(mut evaluations) = self.evaluations.lock() {
            evaluations.push(evaluation);
        }
    }

    /// Removes and returns the evaluations recorded so far.
    pub fn take(&self) -> Vec<Evaluation> {
        self.evaluations
            .lock()
            .map(|mut evaluations| std::mem::take(&mut *evaluations))
            .unwrap_or_default()
    }
}

/// Formats the evaluations, each with its parts below it. A repeated one is shown once.
pub fn lines(evaluations: Vec<Evaluation>) -> impl Iterator<Item = String> {
    let mut once: Vec<Evaluation> = Vec::new();
    for evaluation in evaluations {
        if !once.contains(&evaluation) {
            once.push(evaluation);
        }
    }
    once.into_iter().flat_map(|Evaluation { text, value, parts }| {
        let parts = parts.into_iter().map(|(text, value)| format!("    {text} = {value}"));
        std::iter::once(format!("{text} = {value}")).chain(parts)
    })
}

/// A value on one line; a long one is truncated.
pub(super) fn shown(value: Val<'_>) -> String {
    let mut text = String::new();
    write(&mut text, value);
    if let Some((end, _)) = text.char_indices().nth(WIDTH) {
        text.truncate(end);
        text.push('…');
    }
    text.replace(['\n', '\r'], " ")
}

fn write(out: &mut String, value: Val<'_>) {
    // Values beyond the limit are not formatted further.
    if out.len() > 4 * WIDTH {
        return;
    }
    match value {
        Val::Error(text) => {
            let _ = write!(out, "error: {text}");
        }
        Val::Int(number) => {
            let _ = write!(out, "{number}");
        }
        Val::Double(number) => out.push_str(&float::display(number)),
        Val::Optional(None) => out.push_str("none"),
        Val::Optional(Some(inner)) => {
            out.push_str("optional(");
            write(out, *inner);
            out.push(')');
        }
        list if list.is_list() => {
            out.push('[');
            for (number, item) in list.list_iter().enumerate() {
                if number > 0 {
                    out.push_str(", ");
                }
                write(out, item);
                if out.len() > 4 * WIDTH {
                    break;
                }
            }
            out.push(']');
        }
        map if map.is_map() => {
            out.push('{');
            for (number, (key, item)) in map.map_iter().enumerate() {
                if number > 0 {
                    out.push_str(", ");
                }
                write(out, key);
                out.push_str(": ");
                write(out, item);
                if out.len() > 4 * WIDTH {
                    break;
                }
            }
            out.push('}');
        }
        other => out.push_str(&print::notation(other)),
    }
}
