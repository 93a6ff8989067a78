//! What expressions came to and why, for people: each evaluation with the values of its parts, as assertions of test
//! frameworks show them.
//!
//! A plain run has no [`Trace`]. With one, the parts of an expression are evaluated once more after it, on the same values;
//! nothing of that is counted, and none of it changes what was decided.

use std::{fmt::Write as _, sync::Mutex};

use super::{print, val::Val};
use kyvtest_go_compat::text::float;

/// How much of a value is shown.
const WIDTH: usize = 120;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluation {
    /// The expression.
    pub text: String,
    /// What it came to.
    pub value: String,
    /// Parts of it with what they came to, each before its own parts.
    pub parts: Vec<(String, String)>,
}

/// Records evaluations, in the order in which it happens.
#[derive(Debug, Default)]
pub struct Trace {
    told: Mutex<Vec<Evaluation>>,
}

impl Trace {
    /// Adds an evaluation.
    pub fn tell(&self, evaluation: Evaluation) {
        if let Ok(mut told) = self.told.lock() {
            told.push(evaluation);
        }
    }

    /// What was told since the last time.
    pub fn take(&self) -> Vec<Evaluation> {
        self.told
            .lock()
            .map(|mut told| std::mem::take(&mut *told))
            .unwrap_or_default()
    }
}

/// The evaluations in lines, each with its parts below it. One that is repeated is shown once.
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

/// A value in one line, the end of a long one left out.
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
    // What does not fit is not made.
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
