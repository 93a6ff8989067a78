//! JUnit XML in the dialect that CI servers agree on: one document per run, one test suite per test file, one test case
//! per case.
//!
//! Jenkins splits class names at dots, so they have none; GitLab keeps only the first of several cases with the same
//! name, so names are unique; it also shows the text of an element and not its `message`, so the text has all details.
//! Annotators read `file` and `line`, which strict schemas reject: [`Dialect`] chooses. Characters that XML cannot
//! represent are omitted.
//!
//! A case that meets its expectation passes, even if there is no native policy to compare with: the missing side is a
//! property of the test case.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    time::Duration,
};

use chrono::DateTime;
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite, XmlString};

use super::{ReportInput, Run, human};
use crate::run::{Case, DivergenceClass, Outcome};
use kyvtest_go_compat::diagnostic::{Diagnostic, Severity, Sources, Span, render};

/// The attributes and elements of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// Test cases have `file`, `line` and properties, as GitLab and annotators read them.
    #[default]
    Annotated,
    /// Only what the schema of Jenkins' xUnit plugin (`junit-10.xsd`) allows.
    Strict,
}

/// The unit of a test case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Per {
    /// A case, with both engines in its text.
    #[default]
    Case,
    /// The verdict of one engine on a case: Kyverno's is compared with the expectation, the native policy's with
    /// Kyverno's.
    Engine,
}

/// The report of a run.
pub fn render(view: &ReportInput<'_>) -> String {
    let (runs, times) = (view.runs, view.times);
    let mut report = Report::new(
        view.shard
            .map_or_else(|| NAME.to_owned(), |shard| format!("{NAME} shard {shard}")),
    );
    report.set_time(times.elapsed);
    report.timestamp = DateTime::from_timestamp(times.begin.0, times.begin.1).map(|begin| begin.fixed_offset());
    let mut names = Names::default();
    let mut numbered = runs.iter().enumerate().peekable();
    while let Some((first, run)) = numbered.next() {
        let path = run.0.path.as_str();
        let mut file = File::new(path, view);
        file.add(run, &mut names);
        let mut elapsed = times.suites.get(first).copied().unwrap_or_default();
        while let Some((number, run)) = numbered.next_if(|(_, (run, _))| run.path == path) {
            file.add(run, &mut names);
            elapsed += times.suites.get(number).copied().unwrap_or_default();
        }
        report.add_test_suite(file.finish(elapsed));
    }
    written(report, view.junit_dialect)
}

/// The name of every report; in a shard, followed by its part.
pub(super) const NAME: &str = "kyvtest";

/// The text of a report in a dialect.
pub(super) fn written(mut report: Report, dialect: Dialect) -> String {
    // Writing into memory does not fail.
    match dialect {
        Dialect::Annotated => report.to_string().unwrap_or_default(),
        Dialect::Strict => {
            report.timestamp = None;
            let text = report.to_string().unwrap_or_default();
            without_skipped(&text)
        }
    }
}

/// Removes `skipped` from the root, which the strict schema does not know and the library always writes.
fn without_skipped(text: &str) -> String {
    let Some((before, root, after)) = text.split_once("<testsuites").and_then(|(before, rest)| {
        let (root, after) = rest.split_once('>')?;
        Some((before, root, after))
    }) else {
        return text.to_owned();
    };
    let kept: Vec<&str> = root.split(' ').filter(|part| !part.starts_with("skipped=")).collect();
    format!("{before}<testsuites{}>{after}", kept.join(" "))
}

/// Makes the names of test cases unique.
#[derive(Default)]
struct Names {
    used: HashSet<String>,
    /// The last number appended to a repeated name.
    last: HashMap<String, usize>,
}

impl Names {
    fn unique(&mut self, name: &str) -> String {
        let name = line(name);
        if self.used.insert(name.clone()) {
            return name;
        }
        let number = self.last.entry(name.clone()).or_insert(1);
        loop {
            *number += 1;
            let numbered = format!("{name} #{number}");
            if self.used.insert(numbered.clone()) {
                return numbered;
            }
        }
    }
}

/// The suites of one test file.
struct File {
    suite: TestSuite,
    class: String,
    remarks: String,
    per: Per,
    dialect: Dialect,
}

impl File {
    fn new(path: &str, view: &ReportInput<'_>) -> Self {
        let mut suite = TestSuite::new(line(path));
        let lens = if view.compat { "kyverno test" } else { "cluster" };
        suite.add_properties([
            Property::new("kyvtest", env!("CARGO_PKG_VERSION")),
            Property::new("kyverno", "1.19"),
            Property::new("kubernetes", "1.36"),
            Property::new("lens", lens),
            Property::new("now", view.times.now.as_str()),
        ]);
        Self {
            suite,
            class: class(path),
            remarks: String::new(),
            per: view.junit_per,
            dialect: view.junit_dialect,
        }
    }

    fn add(&mut self, (run, sources): &Run<'_>, names: &mut Names) {
        for [policy, label, _] in super::analysis::proof_cells(run) {
            let property = Property::new(format!("proof:{}", line(&policy)), line(&label));
            self.suite.add_property(property);
        }
        for diagnostic in &run.diagnostics {
            if diagnostic.severity == Severity::Error {
                let name = names.unique(&format!("{} :: {}", diagnostic.code, diagnostic.message));
                let mut case = TestCase::new(name, problem(diagnostic, sources));
                case.set_time(Duration::ZERO);
                self.place(&mut case, diagnostic.primary, sources);
                self.suite.add_test_case(case);
            } else {
                let _ = writeln!(self.remarks, "{}", render::concise(diagnostic, sources));
            }
        }
        for case in &run.cases {
            let tests = match self.per {
                Per::Case => vec![(title(case), status(case, sources))],
                Per::Engine => per_engine(case, sources),
            };
            for (number, (name, status)) in tests.into_iter().enumerate() {
                let mut test = TestCase::new(names.unique(&name), status);
                // The time covers both engines: count it once.
                test.set_time(case.elapsed.filter(|_| number == 0).unwrap_or_default());
                self.place(&mut test, case.place, sources);
                if let Some(code) = missing_native(case).filter(|_| self.per == Per::Case) {
                    match self.dialect {
                        Dialect::Annotated => {
                            test.add_property(Property::new(NATIVE, line(code)));
                        }
                        Dialect::Strict => {
                            test.set_system_out(block(&format!("{NATIVE}: {code}")));
                        }
                    }
                }
                self.suite.add_test_case(test);
            }
        }
    }

    fn place(&self, case: &mut TestCase, span: Option<Span>, sources: &Sources) {
        case.set_classname(self.class.as_str());
        let Some(span) = span.filter(|_| self.dialect == Dialect::Annotated) else {
            return;
        };
        if let (Some(name), Some(position)) = (sources.name(span.file), sources.position(span.file, span.start)) {
            case.extra.insert("file".into(), line(name).into());
            case.extra.insert("line".into(), position.line.to_string().into());
        }
    }

    fn finish(mut self, elapsed: Duration) -> TestSuite {
        self.suite.set_time(elapsed);
        if !self.remarks.is_empty() {
            self.suite.set_system_err(block(&self.remarks));
        }
        self.suite
    }
}

/// The property of a case without a native policy.
const NATIVE: &str = "native";

/// The reason why there is no native policy to compare with, as a code.
fn missing_native(case: &Case) -> Option<&str> {
    let found = case.divergence.as_ref();
    let found = found.filter(|found| found.class == DivergenceClass::NotConvertible)?;
    Some(found.code.as_deref().unwrap_or(found.class.as_str()))
}

/// The path without its extension and without dots.
fn class(path: &str) -> String {
    let (directory, file) = path
        .rsplit_once('/')
        .map_or(("", path), |(directory, file)| (directory, file));
    let stem = file
        .rsplit_once('.')
        .map_or(file, |(stem, _)| if stem.is_empty() { file } else { stem });
    let parts = directory.split('/').filter(|part| !matches!(*part, "" | "." | ".."));
    let parts: Vec<String> = parts.chain([stem]).map(|part| part.replace('.', "_")).collect();
    line(&parts.join("/"))
}

/// `policy/rule :: apiVersion/Kind namespace/name [OPERATION]`
fn title(case: &Case) -> String {
    let mut text = case.policy.clone();
    if let Some(rule) = case.rule.as_deref().filter(|rule| !rule.is_empty()) {
        let _ = write!(text, "/{rule}");
    }
    text.push_str(" :: ");
    let key = &case.resource;
    if !key.kind.is_empty() {
        let _ = write!(text, "{}/{} ", key.api_version, key.kind);
    }
    if !key.namespace.is_empty() {
        let _ = write!(text, "{}/", key.namespace);
    }
    let _ = write!(text, "{} [{}]", key.name, case.operation);
    if case.mocked {
        text.push_str(" (mocked)");
    }
    text
}

/// A test case for Kyverno, and one for the native policy if it was evaluated.
fn per_engine(case: &Case, sources: &Sources) -> Vec<(String, TestCaseStatus)> {
    let title = title(case);
    let kyverno = Case {
        vap: None,
        divergence: None,
        ..case.clone()
    };
    let mut tests = vec![(format!("{title} [kyverno]"), status(&kyverno, sources))];
    if case.vap.is_some() || case.divergence.is_some() {
        let native = Case {
            outcome: Outcome::Pass,
            findings: Vec::new(),
            ..case.clone()
        };
        let status = match missing_native(case) {
            Some(code) => {
                let mut status = TestCaseStatus::skipped();
                status.set_message(line(code));
                status
            }
            None => status(&native, sources),
        };
        tests.push((format!("{title} [vap]"), status));
    }
    tests
}

fn status(case: &Case, sources: &Sources) -> TestCaseStatus {
    let details = human::details(case, sources);
    let not = |kind, ty: &str, message: &str| {
        let mut status = TestCaseStatus::non_success(kind);
        status
            .set_type(ty)
            .set_message(line(message))
            .set_description(block(&details));
        status
    };
    let skipped = |message: &str| {
        let mut status = TestCaseStatus::skipped();
        status.set_message(line(message)).set_description(block(&details));
        status
    };
    match case.outcome {
        Outcome::Fail => not(NonSuccessKind::Failure, "expectation.mismatch", &case.reason),
        Outcome::Unmatched => not(NonSuccessKind::Failure, "expectation.unmatched", &case.reason),
        Outcome::Error => not(NonSuccessKind::Error, "policy.refused", &case.reason),
        Outcome::NeedsRegistry | Outcome::Unsupported | Outcome::Skip => match case.findings.first() {
            Some(finding) => skipped(&format!("{}: {}", finding.code, finding.message)),
            None => skipped(&case.reason),
        },
        Outcome::Silent => skipped("no line"),
        Outcome::Pass => match &case.divergence {
            Some(found) if case.diverges() => {
                let ty = format!("divergence.{}", found.class.as_str());
                not(NonSuccessKind::Failure, &ty, &found.cause)
            }
            Some(_) | None => TestCaseStatus::success(),
        },
    }
}

/// The problems of a suite.
fn problem(diagnostic: &Diagnostic, sources: &Sources) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    status
        .set_type(diagnostic.code.id())
        .set_message(line(&diagnostic.message))
        .set_description(block(&render::full(diagnostic, sources, false)));
    status
}

/// A single-line string that XML can represent.
fn line(text: &str) -> String {
    let visible = block(text);
    let mut line = String::with_capacity(visible.len());
    for c in visible.chars() {
        line.push(if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
            ' '
        } else {
            c
        });
    }
    line.trim().to_owned()
}

/// A multi-line string that XML can represent. The library treats tabs as terminal control characters, and does not
/// know that two further characters are invalid in XML.
fn block(text: &str) -> String {
    let text = text.replace('\t', "    ").replace(['\u{fffe}', '\u{ffff}'], "");
    // XML readers trim blanks at the ends; without them a report survives being read and written.
    XmlString::new(text).as_str().trim().to_owned()
}
