//! Updates expected objects to the results of mutation and generation, in their files.
//!
//! Only the differing fields of an expected document change, so that omitted fields stay omitted; its comments and
//! layout are lost. A missing document is added, as the resource with the changes made to it.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use super::{Change, Edit, Update, left};
use crate::{
    author::suite_writer::yaml,
    run::{Case, SuiteRun, objects::expected_for},
    suite::{Resource, Row, Suite},
};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Span},
    value::Document,
};
use kyvtest_kyverno::offline::RuleType;

/// Whether a finding is about the expected object of a row.
pub(super) fn is_about(finding: &Diagnostic, row: Option<&Row>) -> bool {
    let patched = row.and_then(|row| row.patched_resources.as_ref());
    finding.code == Code::UnexpectedResult && patched.is_some_and(|path| finding.primary == Some(path.span))
}

/// New texts of documents, by location.
#[derive(Default)]
pub(super) struct Texts(BTreeMap<(u32, u32), (Span, Vec<String>, String)>);

impl Texts {
    /// Records the objects of a row's cases that differ from the expected ones.
    pub(super) fn note(&mut self, suite: &Suite, run: &SuiteRun, group: &[&Case], update: &mut Update) {
        let row = |case: &Case| suite.rows().get(case.row?);
        for case in group {
            let Some(row) = row(case).filter(|row| case.findings.iter().any(|finding| is_about(finding, Some(row))))
            else {
                continue;
            };
            let Some(path) = &row.patched_resources else { continue };
            let Some((given, object)) = made(run, row, case) else {
                update
                    .left
                    .push(left(Some(path.span), "there is no object to expect".to_owned()));
                continue;
            };
            match text(suite, run, path.value.as_str(), (given, object)) {
                Some((span, text, what)) => {
                    let key = (span.start, span.end);
                    let entry = self.0.entry(key).or_insert_with(|| (span, Vec::new(), what));
                    if !entry.1.contains(&text) {
                        entry.1.push(text);
                    }
                }
                None => {
                    let message = format!("`{}` cannot be changed in place", path.value);
                    update.left.push(left(Some(path.span), message));
                }
            }
        }
    }

    /// Adds the changes of all rows.
    pub(super) fn finish(self, update: &mut Update) {
        for (span, texts, what) in self.0.into_values() {
            let [text] = texts.as_slice() else {
                let message = "this object is expected by rows with different ones".to_owned();
                update.left.push(left(Some(span), message));
                continue;
            };
            update.changes.push(Change {
                text: what,
                edit: Edit::Replace {
                    span,
                    text: text.clone(),
                },
            });
        }
    }
}

/// The location of the expected object, its new text, and a description of the change.
fn text(
    suite: &Suite,
    run: &SuiteRun,
    path: &str,
    (given, object): (&Document, &Document),
) -> Option<(Span, String, String)> {
    let written = suite.expected.iter().find(|file| file.path == path)?;
    let decoded = run.expected.iter().find(|file| file.path == path)?;
    let actual = plain(object);
    let name = |file| suite.sources.name(file).unwrap_or_default().to_owned();
    if let (Some(own), Some(complete)) = (
        expected_for(object, &written.objects),
        expected_for(object, &decoded.objects),
    ) {
        let span = own.origin.span;
        // A document nested in another one is indented.
        let position = suite.sources.position(span.file, span.start)?;
        if position.column != 1 {
            return None;
        }
        let text = reconciled(Some(&plain(&own.object)), &plain(&complete.object), &actual);
        let what = format!("{}:{}: change the expected object", name(span.file), position.line);
        return Some((span, yaml(&text).trim_end().to_owned(), what));
    }
    let last = written.objects.last()?.origin.span;
    let end = suite.sources.text(last.file)?.trim_end().len();
    let end = u32::try_from(end).ok()?;
    let source: Option<&Resource> = expected_for(given, &suite.resources);
    let source = source.map(|resource| plain(&resource.object));
    let text = reconciled(source.as_ref(), &plain(given), &actual);
    let span = Span {
        start: end,
        end,
        ..last
    };
    let what = format!("{}: add an expected object", name(last.file));
    Some((span, format!("\n---\n{}", yaml(&text).trim_end()), what))
}

/// The object before and after the rule of a case.
pub(in crate::author) fn made<'r>(run: &'r SuiteRun, row: &Row, case: &Case) -> Option<(&'r Document, &'r Document)> {
    let operation = row.operation.as_ref().map(|operation| operation.value);
    let mut responses = run.responses.iter().filter(|response| {
        response.key == case.resource && response.run == operation && response.policy.is_named(&row.policy.value)
    });
    responses.find_map(|response| {
        let objects = response.objects.as_deref()?;
        let number = response
            .rules
            .iter()
            .position(|rule| Some(&rule.rule) == case.rule.as_ref())?;
        let made = objects
            .rules
            .get(number)
            .filter(|made| made.rule_type == RuleType::Mutation)?;
        let object = made.target.as_ref().or(objects.patched.as_ref())?;
        (!object.root().is_null()).then_some((&objects.resource, object))
    })
}

/// An object with integers in plain notation.
pub(in crate::author) fn plain(object: &Document) -> Json {
    fn whole(value: Json) -> Json {
        match value {
            Json::Number(number) => match number.as_f64() {
                Some(double) if number.is_f64() && double.fract() == 0.0 && double.abs() < 9e15 => {
                    Json::from(double as i64)
                }
                _ => Json::Number(number),
            },
            Json::Array(items) => items.into_iter().map(whole).collect(),
            Json::Object(entries) => entries.into_iter().map(|(key, value)| (key, whole(value))).collect(),
            other => other,
        }
    }
    whole(object.root().to_serde())
}

/// Updates `written` as a person would: applies the changes that lead from `complete`, its form with defaults, to
/// `actual`.
pub(in crate::author) fn reconciled(written: Option<&Json>, complete: &Json, actual: &Json) -> Json {
    match (written, complete, actual) {
        (Some(written), complete, actual) if complete == actual => written.clone(),
        (Some(Json::Object(written)), Json::Object(complete), Json::Object(actual)) => {
            let mut out = Map::new();
            for (key, value) in written.iter().filter(|(key, _)| actual.contains_key(*key)) {
                let complete = complete.get(key).unwrap_or(value);
                out.insert(key.clone(), reconciled(Some(value), complete, &actual[key]));
            }
            for (key, value) in actual {
                if !written.contains_key(key) && complete.get(key) != Some(value) {
                    out.insert(key.clone(), value.clone());
                }
            }
            Json::Object(out)
        }
        (Some(Json::Array(written)), Json::Array(complete), Json::Array(actual))
            if written.len() == actual.len() && complete.len() == actual.len() =>
        {
            let items = written.iter().zip(complete).zip(actual);
            items
                .map(|((written, complete), actual)| reconciled(Some(written), complete, actual))
                .collect()
        }
        (_, _, actual) => actual.clone(),
    }
}
