//! Updates failing expectations to Kyverno's results: changes to the text of a suite and its sidecar that preserve
//! comments and layout.
//!
//! A row without a result is never updated, and a divergence only if it is accepted by name.
//!
//! Upstream counterpart: none.

mod objects;
mod sidecar;

use std::collections::BTreeMap;

use crate::run::{Case, Outcome, SuiteRun, compat};
use crate::suite::{ExpectedMessage, Row, Suite};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Sources, Span},
    yaml::{self, Edits, emit::quote},
};
use kyvtest_model::verdict::{DivergenceClass, Effect, Status};

pub(super) use objects::{made, plain, reconciled};
pub use sidecar::Addition;

/// The divergences to accept, and the reason.
#[derive(Debug, Clone, Default)]
pub struct Acceptance {
    /// Classes and codes.
    pub names: Vec<String>,
    pub reason: String,
    /// The last day of acceptance.
    pub expires: Option<String>,
}

impl Acceptance {
    fn has(&self, class: DivergenceClass, code: Option<&String>) -> bool {
        let is = |name: &String| name == class.as_str() || Some(name) == code;
        self.names.iter().any(is)
    }
}

/// An edit of a file.
#[derive(Debug, Clone)]
pub enum Edit {
    /// Replaces text.
    Replace { span: Span, text: String },
    /// Records an accepted divergence in the sidecar.
    Accept(Addition),
}

#[derive(Debug, Clone)]
pub struct Change {
    /// A description of the change.
    pub text: String,
    pub edit: Edit,
}

/// The changes of a suite, and the failures that remain.
#[derive(Debug, Default)]
pub struct Update {
    pub changes: Vec<Change>,
    /// Failures that are not updated, with the reason.
    pub left: Vec<Diagnostic>,
}

/// A file with its text before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    pub path: String,
    /// Empty for a new file.
    pub before: String,
    pub after: String,
}

/// Finds changes that meet the expectations of a suite, for rows and cases with at least one `wanted` case.
pub fn update(suite: &Suite, run: &SuiteRun, acceptance: &Acceptance, wanted: impl Fn(&Case) -> bool) -> Update {
    let mut update = Update::default();
    let mut groups: Vec<(Option<Span>, Vec<&Case>)> = Vec::new();
    for case in &run.cases {
        match groups.iter_mut().find(|(place, _)| *place == case.place) {
            Some((_, group)) => group.push(case),
            None => groups.push((case.place, vec![case])),
        }
    }
    let mut values: BTreeMap<(u32, u32, u32), Met> = BTreeMap::new();
    let mut texts = objects::Texts::default();
    let files: Vec<_> = suite.sources.files().collect();
    let number = |span: Span| files.iter().position(|file| *file == span.file).unwrap_or_default() as u32;
    for (place, group) in &groups {
        if !group.iter().any(|case| wanted(case)) {
            continue;
        }
        let silent = group.iter().find(|case| case.outcome == Outcome::Unmatched);
        if let Some(silent) = silent {
            let finding = silent.findings.first();
            let at = finding.and_then(|finding| finding.primary).or(*place);
            let what = "no rule produced a result, so there is nothing to expect";
            let mut diagnostic = left(at, what.to_owned());
            diagnostic.notes.extend(finding.map(|finding| finding.message.clone()));
            update.left.push(diagnostic);
            continue;
        }
        if group
            .iter()
            .any(|case| case.outcome == Outcome::Error || case.outcome.is_undecided())
        {
            if group.iter().any(|case| case.outcome == Outcome::Error) {
                update.left.push(left(*place, "this could not be decided".to_owned()));
            }
            continue;
        }
        texts.note(suite, run, group, &mut update);
        let row = group.first().and_then(|case| suite.rows().get(case.row?));
        for (span, old, new, what) in met(suite, group, row, &mut update.left) {
            let key = (number(span), span.start, span.end);
            values.entry(key).or_default().push((span, old, new, what));
        }
        sidecar::accept(suite, *place, group, acceptance, &mut update);
    }
    for wanted in values.into_values() {
        let Some((span, old, new, what)) = wanted.first().cloned() else {
            continue;
        };
        if wanted.iter().any(|(_, _, other, _)| *other != new) {
            let message = format!("this {what} applies to cases with different ones");
            update.left.push(left(Some(span), message));
            continue;
        }
        if !is_written(&suite.sources, span, &old) {
            let message = format!("this {what} is written in a form that cannot be changed in place");
            update.left.push(left(Some(span), message));
            continue;
        }
        let line = suite.sources.position(span.file, span.start).map_or(0, |at| at.line);
        let name = suite.sources.name(span.file).unwrap_or_default();
        update.changes.push(Change {
            text: format!("{name}:{line}: change the {what} from `{old}` to `{new}`"),
            edit: Edit::Replace {
                span,
                text: quote(&new),
            },
        });
    }
    texts.finish(&mut update);
    update
}

fn left(at: Option<Span>, message: String) -> Diagnostic {
    match at {
        Some(span) => Diagnostic::at(Code::NotUpdated, span, message),
        None => Diagnostic::new(Code::NotUpdated, message),
    }
}

/// Whether a location holds just a scalar, not an alias or a merged key.
fn is_written(sources: &Sources, span: Span, value: &str) -> bool {
    let text = sources.text(span.file);
    let written = text.and_then(|text| text.get(span.start as usize..span.end as usize));
    let Some(written) = written else { return false };
    let stream = yaml::read(written.as_bytes(), yaml::Mode::Lax, &yaml::Limits::default());
    let mut documents = stream.documents().iter();
    let tree = documents.next().and_then(|document| document.tree().ok());
    tree.is_some_and(|tree| {
        tree.root()
            .string_field()
            .is_some_and(|text| text.trim_end() == value.trim_end())
    })
}

/// The location, the old text, the new text, and a description.
type Met = Vec<(Span, String, String, &'static str)>;

/// Finds the values that meet the expectations of one row.
fn met(suite: &Suite, group: &[&Case], row: Option<&Row>, left_alone: &mut Vec<Diagnostic>) -> Met {
    let mut met = Met::new();
    let findings = |code: Code| {
        let all = group
            .iter()
            .flat_map(|case| case.findings.iter().map(move |finding| (*case, finding)));
        all.filter(move |(_, finding)| finding.code == code && !objects::is_about(finding, row))
    };
    let mut statuses: Vec<Status> = group
        .iter()
        .filter_map(|case| case.kyverno.as_ref().map(|answer| answer.status))
        .collect();
    // `skip` also matches a policy that does not match.
    if group.iter().any(|case| case.kyverno.is_none()) {
        statuses.push(Status::Skip);
    }
    statuses.sort_unstable_by_key(|status| status.as_str());
    statuses.dedup();
    if let Some((case, finding)) = findings(Code::UnexpectedResult).next() {
        match (statuses.as_slice(), finding.primary) {
            ([status], Some(span)) => {
                met.push((span, case.expected.to_owned(), status.as_str().to_owned(), "result"));
            }
            (_, at) => {
                let words: Vec<&str> = statuses.iter().map(|status| status.as_str()).collect();
                let message = format!("the results of this row differ: {}", words.join(", "));
                left_alone.push(left(at, message).with_help("write a row for each of them"));
            }
        }
    }
    let same = |case: &Case| -> Vec<&Case> {
        let mut own = group.to_vec();
        own.retain(|other| other.resource == case.resource && other.operation == case.operation);
        own
    };
    for (case, finding) in findings(Code::UnexpectedEffect) {
        let effects = same(case);
        let effects = effects
            .iter()
            .map(|one| one.kyverno.as_ref().map_or(Effect::Admit, |answer| answer.effect));
        let got = effects.max().unwrap_or(Effect::Admit);
        if let Some(span) = finding.primary {
            let old = expected_value(suite, span);
            met.push((span, old, got.as_str().to_owned(), "effect"));
        }
    }
    for (case, finding) in findings(Code::UnexpectedMessage) {
        let mut messages: Vec<String> = same(case)
            .iter()
            .filter_map(|one| one.kyverno.as_ref().map(|answer| answer.message.clone()))
            .collect();
        messages.sort();
        messages.dedup();
        match (messages.as_slice(), finding.primary) {
            ([message], Some(span)) if !message.is_empty() => {
                met.push((span, expected_value(suite, span), message.clone(), "message"));
            }
            (_, at) => left_alone.push(left(at, "there is no single message to expect".to_owned())),
        }
    }
    met
}

/// The expected effect or message at a location; empty if there is none.
fn expected_value(suite: &Suite, span: Span) -> String {
    let rows = suite.expectations.iter().map(|row| &row.expectation);
    let cases = suite.cases.iter().map(|case| &case.expectation);
    let value = rows.chain(cases).find_map(|expectation| {
        let effect = expectation.effect.as_ref().filter(|effect| effect.span == span);
        let message = expectation.message.as_ref().map(|message| match message {
            ExpectedMessage::Exact(text) | ExpectedMessage::Contains(text) => text,
        });
        effect
            .map(|effect| effect.value.as_str().to_owned())
            .or_else(|| message.filter(|text| text.span == span).map(|text| text.value.clone()))
    });
    value.unwrap_or_default()
}

/// The reference to a resource in a row.
fn written(suite: &Suite, case: &Case) -> Option<String> {
    let row = suite.rows().get(case.row?)?;
    match &row.resources {
        Some(list) => {
            let mut names = list.iter();
            names
                .find(|name| compat::names(&name.value, &case.resource))
                .map(|name| name.value.clone())
        }
        None if row.resource_specs.is_empty() => Some(if case.resource.namespace.is_empty() {
            case.resource.name.clone()
        } else {
            format!("{}/{}", case.resource.namespace, case.resource.name)
        }),
        None => None,
    }
}

/// Applies changes to the files of a test file's suites; each change is paired with its suite.
pub fn apply(changes: &[(&Suite, &Change)], documents: usize) -> Vec<Changed> {
    let mut files: BTreeMap<String, (String, Vec<(yaml::Span, String)>)> = BTreeMap::new();
    let mut additions: Vec<(&Suite, &Addition)> = Vec::new();
    for (suite, change) in changes {
        match &change.edit {
            Edit::Replace { span, text } => {
                let sources = &suite.sources;
                let (Some(name), Some(before)) = (sources.name(span.file), sources.text(span.file)) else {
                    continue;
                };
                let entry = files.entry(name.to_owned());
                let (_, edits) = entry.or_insert_with(|| (before.to_string(), Vec::new()));
                edits.push((yaml::Span::new(span.start, span.end), text.clone()));
            }
            Edit::Accept(addition) => additions.push((suite, addition)),
        }
    }
    sidecar::write(&additions, documents, &mut files);
    let files = files.into_iter().map(|(path, (before, changes))| {
        let mut edits = Edits::new(&before);
        for (span, text) in changes {
            edits.replace(span, text);
        }
        Changed {
            after: edits.finish(),
            path,
            before: before.clone(),
        }
    });
    files.collect()
}
