//! The sidecar and the annotations: settings for kyvtest that Kyverno ignores.

use std::sync::Arc;

use super::{Loader, Missing};
use crate::suite::{
    OldObject, SIDECAR, Sidecar, Test, annotations,
    files::{join, resolve},
};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Span, nearest},
    yaml::{Mode, Node},
};
use kyvtest_model::policy::{
    Text,
    decode::{Decoder, Style},
};

impl Loader<'_> {
    /// Loads the settings for kyvtest, which do not affect Kyverno's behaviour.
    pub(super) fn extensions(&mut self, test: &Test, documents: usize) {
        let upstream = self.suite.upstream;
        let annotated = annotations::read(test);
        self.suite.diagnostics.extend(annotated.diagnostics);
        let mut old = annotated.old_resources;
        self.suite.expectations = annotated.rows;
        if self.options.sidecar {
            for sidecar in self.sidecars(test, documents) {
                old.extend(sidecar.old_resources);
                for row in sidecar.rows {
                    if row.selector.rows(test).next().is_none() {
                        let start = Span::point(row.span.file, row.span.start);
                        let diagnostic = row.selector.why_none(test, start);
                        self.say(diagnostic);
                    }
                    self.suite.expectations.push(row);
                }
                self.suite.cases.extend(sidecar.cases);
                self.suite.image_mocks.extend(sidecar.images);
                for name in &sidecar.attestors {
                    self.attestor(name);
                }
            }
        }
        let mut resources = Vec::new();
        for at in &old {
            let path = resolve(&self.directory, &at.value);
            self.resource_file(at, &path, Missing::GoesOn, &mut resources);
        }
        self.suite.old_resources = resources;
        self.old_objects();
        self.suite.upstream = upstream;
    }

    /// Reports a mock's attestor that no policy has: it would never be accepted.
    fn attestor(&mut self, name: &Text) {
        let policies = self.suite.policies.image_validating();
        let known: Vec<&str> = policies
            .flat_map(|policy| &policy.spec.attestors)
            .map(|attestor| attestor.name.value.as_str())
            .collect();
        if known.contains(&name.value.as_str()) {
            return;
        }
        let message = format!("no ImageValidatingPolicy of the suite has an attestor `{}`", name.value);
        let diagnostic = Diagnostic::at(Code::UnknownAttestor, name.span, message);
        let near = nearest(&name.value, known.iter().copied());
        let diagnostic = match near.first() {
            Some(near) => diagnostic.with_help(format!("did you mean `{near}`?")),
            None => diagnostic
                .with_help("attestors of `verifyImages` rules have no names: write `key`, or `subject` and `issuer`"),
        };
        self.say(diagnostic);
    }

    /// Reads old objects from separate files.
    fn old_objects(&mut self) {
        let rows = self.suite.expectations.iter().map(|row| &row.expectation);
        let cases = self.suite.cases.iter().map(|case| &case.expectation);
        let paths = rows
            .chain(cases)
            .filter_map(|expectation| match &expectation.old_object {
                Some(OldObject::File(path)) => Some(path.clone()),
                Some(OldObject::Inline(_)) | None => None,
            });
        let paths: Vec<Text> = paths.collect();
        for at in paths {
            let path = resolve(&self.directory, &at.value);
            let mut resources = Vec::new();
            let before = self.suite.diagnostics.len();
            self.resource_file(&at, &path, Missing::GoesOn, &mut resources);
            match (resources.pop(), resources.is_empty()) {
                (Some(resource), true) => self.suite.old_objects.push((at.value, resource)),
                (None, _) if self.suite.diagnostics.len() > before => {}
                _ => {
                    let message = format!("`{}` must contain exactly one object", at.value);
                    self.say(Diagnostic::at(Code::BadValue, at.span, message));
                }
            }
        }
    }

    /// The documents of the sidecar for this suite.
    fn sidecars(&mut self, test: &Test, documents: usize) -> Vec<Sidecar> {
        let path = join(&self.directory, SIDECAR);
        let Ok(bytes) = self.files.read(&path) else {
            return Vec::new();
        };
        let (stream, file) = self.stream(&bytes, &path, Mode::Strict);
        let mut sidecars = Vec::new();
        for document in stream.into_documents() {
            let tree = match document.into_tree() {
                Ok(tree) => Arc::new(tree),
                Err(error) => {
                    self.say(Diagnostic::from_yaml(file, &error));
                    continue;
                }
            };
            // Another suite of the same directory reads its own documents and their errors.
            let named = tree.root().get("suite").and_then(Node::as_str);
            if named.is_some_and(|named| named != test.name()) && documents > 1 {
                continue;
            }
            let mut decoder = Decoder::new(&tree, file, Style::Schema);
            let sidecar = Sidecar::decode(&mut decoder, tree.root());
            let findings = decoder.finish();
            self.suite.diagnostics.extend(findings.diagnostics);
            let Some(sidecar) = sidecar.filter(|_| !findings.invalid && !findings.unknown) else {
                continue;
            };
            match &sidecar.suite {
                Some(name) if name.value != test.name() => {
                    let message = format!("the suite beside this file is `{}`, not `{}`", test.name(), name.value);
                    self.say(Diagnostic::at(Code::UnknownRow, name.span, message));
                }
                None if documents > 1 => {
                    let message = "the test file has several suites: specify which one is meant";
                    let start = Span::point(sidecar.span.file, sidecar.span.start);
                    let help = format!("add `suite: {}`", test.name());
                    self.say(Diagnostic::at(Code::MissingField, start, message).with_help(help));
                }
                Some(_) | None => sidecars.push(sidecar),
            }
        }
        sidecars
    }
}
