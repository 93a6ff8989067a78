//! The annotations `kyvtest.dev/…` of a suite: an alternative to the sidecar that needs no second file.
//!
//! `kyvtest.dev/old-resources` is a comma-separated list of paths. `kyvtest.dev/<field>` applies to every row and
//! `kyvtest.dev/rows.<n>.<field>` to one row, counted from 0; the fields are those of [`FIELDS`].

use super::{
    sidecar::{
        CLASSES, EFFECTS, Expectation, ExpectedDivergence, ExpectedMessage, OldObject, RowExpectation, RowSelector,
        is_day,
    },
    test::Test,
};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Span, nearest};
use kyvtest_model::policy::{Spanned, Text, decode::choice};

/// The prefix of our annotations.
const PREFIX: &str = "kyvtest.dev/";

/// The fields for rows.
const FIELDS: [&str; 9] = [
    "old-object",
    "effect",
    "message",
    "message-contains",
    "matches",
    "divergence",
    "divergence-code",
    "divergence-reason",
    "divergence-expires",
];

/// The settings in a suite's annotations.
#[derive(Debug, Default)]
pub(crate) struct Annotated {
    pub(crate) old_resources: Vec<Text>,
    pub(crate) rows: Vec<RowExpectation>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// The annotations of one row, before they are merged.
#[derive(Debug, Default)]
struct Words<'a> {
    row: Option<usize>,
    /// Field, value, key.
    fields: Vec<(&'a str, &'a Text, &'a Text)>,
}

impl<'a> Words<'a> {
    fn get(&self, field: &str) -> Option<&'a Text> {
        let found = self.fields.iter().find(|(name, ..)| *name == field);
        found.map(|(_, text, _)| *text)
    }
}

/// Reads the annotations.
pub(crate) fn read(test: &Test) -> Annotated {
    let mut annotated = Annotated::default();
    let mut words: Vec<Words<'_>> = Vec::new();
    for (key, value) in &test.metadata.annotations {
        let Some(name) = key.value.strip_prefix(PREFIX) else {
            continue;
        };
        if name == "old-resources" {
            let paths = value.split(',').map(str::trim).filter(|path| !path.is_empty());
            annotated
                .old_resources
                .extend(paths.map(|path| Spanned::new(path.to_owned(), value.span)));
            continue;
        }
        let (row, field) = match name.strip_prefix("rows.").and_then(|rest| rest.split_once('.')) {
            Some((row, field)) => match row.parse::<usize>() {
                Ok(row) => (Some(row), field),
                Err(_) => (None, name),
            },
            None => (None, name),
        };
        if !FIELDS.contains(&field) {
            let message = format!("unknown annotation `{}`", key.value);
            let mut diagnostic = Diagnostic::at(Code::UnknownField, key.span, message);
            let known = FIELDS.into_iter().chain(["old-resources"]);
            if let [near, ..] = nearest(field, known).as_slice() {
                diagnostic = diagnostic.with_help(format!("did you mean `{near}`?"));
            }
            annotated.diagnostics.push(diagnostic);
            continue;
        }
        if row.is_some_and(|row| row >= test.results.len()) {
            let message = format!(
                "`{}` refers to a row that does not exist: the suite has {}, numbered from 0",
                key.value,
                test.results.len()
            );
            annotated
                .diagnostics
                .push(Diagnostic::at(Code::UnknownRow, key.span, message));
            continue;
        }
        let place = match words.iter().position(|words| words.row == row) {
            Some(place) => place,
            None => {
                words.push(Words {
                    row,
                    fields: Vec::new(),
                });
                words.len() - 1
            }
        };
        words[place].fields.push((field, value, key));
    }
    for words in words {
        let row = expectation(&words, &mut annotated.diagnostics);
        annotated.rows.extend(row);
    }
    annotated
}

fn expectation(words: &Words<'_>, diagnostics: &mut Vec<Diagnostic>) -> Option<RowExpectation> {
    let span = words.fields.first().map(|(_, _, key)| key.span)?;
    let mut word = |field: &str, known: &[&str]| -> Option<(usize, Span)> {
        let (_, text, key) = words.fields.iter().find(|(name, ..)| *name == field)?;
        let found = known.iter().position(|known| *known == text.value);
        if found.is_none() {
            let message = format!("`{}`: invalid value `{}`", key.value, text.value);
            let help = format!("write {}", choice(known));
            diagnostics.push(Diagnostic::at(Code::BadValue, text.span, message).with_help(help));
        }
        found.map(|found| (found, text.span))
    };
    let effect = word("effect", &EFFECTS.map(|(name, _)| name));
    let matches = word("matches", &["false", "true"]);
    let class = word("divergence", &CLASSES.map(|(name, _)| name));
    let expires = words.get("divergence-expires");
    if let Some(day) = expires.filter(|day| !is_day(&day.value)) {
        let message = format!("invalid date `{}`", day.value);
        diagnostics.push(Diagnostic::at(Code::BadValue, day.span, message).with_help("write dates as `2027-03-31`"));
    }
    let divergence = match (class, words.get("divergence-reason")) {
        (Some((class, span)), Some(reason)) => Some(ExpectedDivergence {
            class: Spanned::new(CLASSES[class].1, span),
            code: words.get("divergence-code").cloned(),
            reason: reason.clone(),
            expires: expires.cloned(),
        }),
        (Some((_, span)), None) => {
            let message = "an expected divergence needs a reason";
            diagnostics.push(
                Diagnostic::at(Code::MissingReason, span, message)
                    .with_help("also add the annotation `divergence-reason`"),
            );
            None
        }
        (None, _) => None,
    };
    let (exact, part) = (words.get("message"), words.get("message-contains"));
    if let (Some(exact), Some(part)) = (exact, part) {
        diagnostics.push(
            Diagnostic::at(
                Code::Contradiction,
                part.span,
                "`message` and `message-contains` are mutually exclusive",
            )
            .with_label(exact.span, "the whole message is expected here"),
        );
    }
    Some(RowExpectation {
        selector: RowSelector {
            row: words.row.map(|row| Spanned::new(row, span)),
            ..RowSelector::default()
        },
        expectation: Expectation {
            old_object: words.get("old-object").cloned().map(OldObject::File),
            effect: effect.map(|(effect, span)| Spanned::new(EFFECTS[effect].1, span)),
            message: exact
                .cloned()
                .map(ExpectedMessage::Exact)
                .or(part.cloned().map(ExpectedMessage::Contains)),
            matches: matches.map(|(matches, span)| Spanned::new(matches == 1, span)),
            divergence,
        },
        span,
    })
}
