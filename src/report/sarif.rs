//! SARIF 2.1.0 for code scanning: the problems of suites and policies, unmet expectations, and divergences.
//!
//! The location of a result is the policy's rule if known; the expectation and the resource are related locations. The
//! fingerprint of a case does not depend on line numbers.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{CaseStatus, ReportInput, Run, case_status::reason};
use crate::run::{Case, source_map};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Severity, Sources, Span};

/// The log.
pub fn render(view: &ReportInput<'_>) -> String {
    let mut log = Log::default();
    for run in view.runs {
        log.suite(run);
    }
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "kyvtest", "version": env!("CARGO_PKG_VERSION"), "rules": log.rules}},
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": view.summary.broken == 0 && view.stopped.is_none(),
                "exitCode": view.exit,
                "properties": {"now": view.times.now},
            }],
            "results": log.results,
        }],
    });
    format!("{log}\n")
}

/// The description of divergences without a known hazard.
const DIFFERS: &str = "Kyverno and the API server decide the same request differently: the generated ValidatingAdmissionPolicy does not \
                       have the same effect as the Kyverno policy.";

/// The advice for them.
const NEXT: &str = "run the case again with `-v` to see which expressions decided, or print a native policy that is \
                    proven equivalent with `kyvtest convert --repair`";

/// The first paragraph of an explanation, without its heading.
fn first_paragraph(markdown: &str) -> String {
    let paragraphs = markdown.split("\n\n").map(str::trim);
    let first = paragraphs
        .into_iter()
        .find(|text| !text.is_empty() && !text.starts_with('#'));
    first.unwrap_or_default().replace('\n', " ")
}

#[derive(Default)]
struct Log {
    rules: Vec<Value>,
    results: Vec<Value>,
}

/// One result before it is formatted.
struct Entry<'e> {
    rule: usize,
    severity: Severity,
    message: String,
    place: Option<Span>,
    related: Vec<(Span, &'e str)>,
    fingerprint: String,
}

impl Log {
    fn suite(&mut self, (run, sources): &Run<'_>) {
        for found in &run.diagnostics {
            let file = found.primary.and_then(|span| sources.name(span.file));
            let parts = [
                run.path.as_str(),
                file.unwrap_or_default(),
                found.code.id(),
                &found.message,
            ];
            let entry = Entry {
                rule: self.code(found.code),
                severity: found.severity,
                message: text(found),
                place: found.primary,
                related: Vec::new(),
                fingerprint: format!("{:016x}", source_map::fingerprint(&parts)),
            };
            self.add(&entry, sources, &run.path);
        }
        for case in &run.cases {
            let standing = CaseStatus::of(case);
            if !standing.is_problem() {
                continue;
            }
            let id = source_map::id(run, case);
            let title = case.title();
            let policy = run.source_map.policy(case);
            let related = |expectation: Option<Span>| {
                let resource = run.source_map.resource(case).map(|span| (span, "the resource"));
                let mut related: Vec<(Span, &str)> =
                    expectation.map(|span| (span, "the expectation")).into_iter().collect();
                related.extend(resource);
                related
            };
            for found in &case.findings {
                let entry = Entry {
                    rule: self.code(found.code),
                    severity: found.severity,
                    message: format!("{title}: {}", text(found)),
                    place: policy.or(found.primary),
                    related: related(found.primary.or(case.place)),
                    fingerprint: format!("{id}/{}", found.code.id()),
                };
                self.add(&entry, sources, &run.path);
            }
            let rule = match standing {
                CaseStatus::Diverge => Some(self.divergence(case)),
                // `kyverno test` has no findings.
                _ if case.findings.is_empty() => Some(self.code(match standing {
                    CaseStatus::Unmatched => Code::NoMatch,
                    CaseStatus::Error => Code::PolicyRefused,
                    _ => Code::UnexpectedResult,
                })),
                _ => None,
            };
            if let Some(rule) = rule {
                let entry = Entry {
                    rule,
                    severity: Severity::Error,
                    message: format!("{title}: {}", reason(case)),
                    place: policy.or(case.place),
                    related: related(case.place),
                    fingerprint: format!("{id}/{}", standing.problem(case)),
                };
                self.add(&entry, sources, &run.path);
            }
        }
    }

    /// The index of a rule, which is added if new.
    fn rule(&mut self, id: &str, make: impl FnOnce() -> Value) -> usize {
        let known = self.rules.iter().position(|rule| rule["id"] == id);
        known.unwrap_or_else(|| {
            self.rules.push(make());
            self.rules.len() - 1
        })
    }

    fn code(&mut self, code: Code) -> usize {
        self.rule(code.id(), || {
            json!({
                "id": code.id(),
                "shortDescription": {"text": code.title()},
                "fullDescription": {"text": first_paragraph(code.explanation())},
                "help": {"text": code.explanation(), "markdown": code.explanation()},
                "defaultConfiguration": {"level": code.severity().name()},
            })
        })
    }

    fn divergence(&mut self, case: &Case) -> usize {
        let id = match case.divergence.as_ref().and_then(|found| found.code.clone()) {
            Some(code) => code,
            None => CaseStatus::Diverge.problem(case),
        };
        self.rule(&id, || {
            let hazard = kyvtest_convert::hazard::find(&id);
            let short = hazard.map_or("the native policy decides differently from Kyverno", |hazard| hazard.title);
            let full = hazard.map_or(DIFFERS, |hazard| hazard.explanation);
            let advice = hazard.map_or(NEXT, |hazard| hazard.advice);
            json!({
                "id": id,
                "shortDescription": {"text": short},
                "fullDescription": {"text": full},
                "help": {"text": format!("{full}\n\nWhat to do: {advice}"), "markdown": format!("{full}\n\n**What to do:** {advice}")},
                "defaultConfiguration": {"level": "error"},
            })
        })
    }

    fn add(&mut self, entry: &Entry<'_>, sources: &Sources, path: &str) {
        let id = self
            .rules
            .get(entry.rule)
            .map_or(Value::Null, |rule| rule["id"].clone());
        let related = entry.related.iter().enumerate().map(|(number, (span, message))| {
            let mut place = location(*span, sources);
            place["id"] = number.into();
            place["message"] = json!({"text": message});
            place
        });
        // Code scanning rejects results without a location.
        let nowhere = || json!({"physicalLocation": {"artifactLocation": {"uri": uri(path)}}});
        let place = entry.place.map_or_else(nowhere, |span| location(span, sources));
        self.results.push(json!({
            "ruleId": id,
            "ruleIndex": entry.rule,
            "level": entry.severity.name(),
            "message": {"text": entry.message},
            "locations": [place],
            "relatedLocations": related.collect::<Vec<_>>(),
            "partialFingerprints": {"kyvtest/v1": entry.fingerprint},
        }));
    }
}

fn text(diagnostic: &Diagnostic) -> String {
    let mut text = diagnostic.message.clone();
    for (word, line) in diagnostic
        .notes
        .iter()
        .map(|note| ("note", note))
        .chain(diagnostic.help.iter().map(|help| ("help", help)))
    {
        let _ = write!(text, "\n{word}: {line}");
    }
    text
}

fn location(span: Span, sources: &Sources) -> Value {
    let name = sources.name(span.file).unwrap_or_default();
    let mut place = json!({"artifactLocation": {"uri": uri(name)}});
    if let Some(start) = sources.position(span.file, span.start) {
        let mut region = json!({"startLine": start.line, "startColumn": start.column});
        if let Some(end) = sources.position(span.file, span.end).filter(|end| *end > start) {
            region["endLine"] = end.line.into();
            region["endColumn"] = end.column.into();
        }
        place["region"] = region;
    }
    json!({"physicalLocation": place})
}

/// A path as a URI reference: other characters are percent-encoded.
fn uri(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    if path.starts_with('/') {
        text.push_str("file://");
    }
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}
