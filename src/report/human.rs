//! The view for people: failing cases one by one, then a line of counts.

use std::fmt::Write as _;

use crate::run::{Case, Outcome, SuiteRun};

/// The cases of a suite that people must look at, and with `all` the others too.
pub fn suite(run: &SuiteRun, all: bool) -> String {
    let mut text = String::new();
    for case in run.cases.iter().filter(|case| all || case.outcome.fails()) {
        let _ = writeln!(text, "{} {} :: {}", word(case), run.path, title(case));
        if !case.reason.is_empty() {
            let _ = writeln!(text, "    {}", case.reason);
        }
        if let Some(answer) = &case.kyverno
            && case.outcome.fails()
        {
            let _ = writeln!(text, "    expected: {}", case.expected);
            let _ = writeln!(text, "    kyverno:  {} ({})", answer.status, answer.effect);
            for line in answer.message.lines() {
                let _ = writeln!(text, "              {line}");
            }
        }
    }
    text
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
    let broken = runs.iter().filter(|run| run.is_broken()).count();
    if broken > 0 {
        let _ = write!(text, " · broken suites {broken}");
    }
    text.push('\n');
    text
}

fn word(case: &Case) -> &'static str {
    match case.outcome {
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
