//! The view for people: failing cases one by one, then a line of counts.

use std::fmt::Write as _;

use crate::{
    diagnostic::{Sources, render},
    run::{Answer, Case, Outcome, SuiteRun},
    verdict::DivergenceClass,
};

/// The cases of a suite that people must look at, and with `all` the others too.
pub fn suite(run: &SuiteRun, sources: &Sources, all: bool) -> String {
    let mut text = String::new();
    let seen = |case: &&Case| all || case.outcome.fails() || case.diverges();
    for case in run.cases.iter().filter(seen) {
        let _ = writeln!(text, "{} {} :: {}", word(case), run.path, title(case));
        for line in details(case, sources).lines() {
            let _ = writeln!(text, "    {line}");
        }
    }
    text.push_str(&super::found::proofs_human(run));
    text
}

/// Why a case is as it is: what was expected and where, and what was answered.
pub(super) fn details(case: &Case, sources: &Sources) -> String {
    let mut text = String::new();
    if let Some(name) = &case.name {
        let _ = writeln!(text, "{name}");
    }
    if case.findings.is_empty() && !case.reason.is_empty() {
        let _ = writeln!(text, "{}", case.reason);
    }
    for finding in &case.findings {
        let _ = writeln!(text, "{}", render::concise(finding, sources));
        let notes = finding.notes.iter().map(|note| ("note", note));
        for (word, line) in notes.chain(finding.help.iter().map(|help| ("help", help))) {
            let _ = writeln!(text, "  {word}: {line}");
        }
    }
    let looked_at = case.outcome.fails() || case.diverges();
    if let Some(answer) = case.kyverno.as_ref().filter(|_| looked_at) {
        if !case.expected.is_empty() {
            let _ = writeln!(text, "expected: {}", case.expected);
        }
        said(&mut text, "kyverno:", answer);
    }
    if let Some(divergence) = &case.divergence {
        if let Some(native) = case.vap.as_ref().filter(|_| looked_at) {
            said(&mut text, "vap:", &native.answer);
        }
        let code = divergence.code.as_deref().map(|code| format!(" [{code}]"));
        let (class, cause) = (divergence.class.as_str(), &divergence.cause);
        let _ = writeln!(text, "diverges: {class}{}: {cause}", code.unwrap_or_default());
    }
    text
}

/// What one side answers.
fn said(text: &mut String, who: &str, answer: &Answer) {
    let _ = writeln!(text, "{who:<9} {} ({})", answer.status, answer.effect);
    for line in answer.message.lines() {
        let _ = writeln!(text, "          {line}");
    }
}

/// The closing line.
pub fn summary(runs: &[&SuiteRun]) -> String {
    let count = |wanted: Outcome| {
        let cases = runs.iter().flat_map(|run| &run.cases);
        cases.filter(|case| case.outcome == wanted).count()
    };
    let total: usize = runs.iter().map(|run| run.cases.len()).sum();
    let mut text = format!("run {total} in {} suites · pass {}", runs.len(), count(Outcome::Pass));
    for outcome in [
        Outcome::Fail,
        Outcome::Error,
        Outcome::Unmatched,
        Outcome::Unsupported,
        Outcome::Skip,
    ] {
        let count = count(outcome);
        if count > 0 {
            let _ = write!(text, " · {} {count}", outcome.as_str());
        }
    }
    let cases = || runs.iter().flat_map(|run| &run.cases);
    let diverging = cases().filter(|case| case.diverges());
    let classes: Vec<String> = DivergenceClass::ALL
        .into_iter()
        .filter_map(|class| {
            let same = |case: &&Case| case.divergence.as_ref().is_some_and(|found| found.class == class);
            let count = diverging.clone().filter(same).count();
            (count > 0).then(|| format!("{count} {}", class.as_str()))
        })
        .collect();
    if !classes.is_empty() {
        let _ = write!(text, " · diverge {} ({})", diverging.count(), classes.join(", "));
    }
    let differs = |case: &&Case| case.divergence.as_ref().is_some_and(|found| found.class.fails()) && !case.diverges();
    let accepted = cases().filter(differs).count();
    if accepted > 0 {
        let _ = write!(text, " · accepted differences {accepted}");
    }
    let broken = runs.iter().filter(|run| run.is_broken()).count();
    if broken > 0 {
        let _ = write!(text, " · broken suites {broken}");
    }
    text.push('\n');
    text
}

fn word(case: &Case) -> &'static str {
    match case.outcome {
        Outcome::Pass if case.diverges() => "DIVERGE",
        Outcome::Pass => "PASS",
        Outcome::Fail => "FAIL",
        Outcome::Error => "ERROR",
        Outcome::Unsupported => "UNSUPPORTED",
        Outcome::Unmatched => "UNMATCHED",
        Outcome::Skip => "SKIP",
        Outcome::Silent => "SILENT",
    }
}

/// `policy/rule  Kind namespace/name [OPERATION]`
pub fn title(case: &Case) -> String {
    let mut text = case.policy.clone();
    if let Some(rule) = case.rule.as_deref().filter(|rule| !rule.is_empty()) {
        let _ = write!(text, "/{rule}");
    }
    let key = &case.resource;
    text.push(' ');
    if !key.kind.is_empty() {
        let _ = write!(text, " {} ", key.kind);
    }
    if !key.namespace.is_empty() {
        let _ = write!(text, "{}/", key.namespace);
    }
    let _ = write!(text, "{} [{}]", key.name, case.operation);
    text
}
