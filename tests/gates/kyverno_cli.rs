//! The results and output of the Kyverno 1.19 CLI on the public suites: `kyvtest run --compat`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::LazyLock,
};

use kyvtest::{
    cel::time::Timestamp,
    kube::Operation,
    run::{self, Case, Key, Response, Settings, SuiteRun, objects},
    suite::{self, BuiltInScopes, Disk, Options},
    value::Document,
};
use rayon::prelude::*;
use serde::Deserialize;
use serde_json::Value;

use crate::support::{Gate, jsonl, shared};

/// One answer of the engine.
#[derive(Debug, Deserialize)]
struct Line {
    suite: String,
    doc: usize,
    op: Option<String>,
    key: String,
    pol: Option<String>,
    rule: Option<String>,
    st: String,
    #[serde(default)]
    msg: String,
    /// The object after the policy.
    patched: Option<Value>,
    /// The existing object after the rule.
    target: Option<Value>,
    /// The objects that the rule generates, sorted.
    generated: Option<Vec<Value>>,
    #[serde(default)]
    unstable: bool,
}

/// One printed line.
#[derive(Debug, Deserialize)]
struct Check {
    suite: String,
    doc: usize,
    row: usize,
    rule: Option<String>,
    shown_rule: Option<String>,
    key: String,
    #[serde(default)]
    result: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    unstable: bool,
}

/// The suites of the corpus, run once for all gates, by path below the corpus and document.
static RUNS: LazyLock<BTreeMap<(String, usize), SuiteRun>> = LazyLock::new(|| {
    let Some(corpus) = shared("corpus") else {
        return BTreeMap::new();
    };
    // Paths of suites are written without detours.
    let corpus = corpus.canonicalize().expect("the corpus is there");
    let settings = Settings {
        now: Timestamp::parse("2026-11-16T00:00:00Z"),
        ..Settings::new(true)
    };
    let options = Options {
        file_name: "kyverno-test.yaml",
        accept_file: false,
        scopes: &BuiltInScopes,
        own_crds: false,
        sidecar: false,
    };
    let files = suite::discover(&Disk, &corpus.display().to_string(), &options).expect("the corpus is a folder");
    files
        .par_iter()
        .flat_map_iter(|file| suite::load(&Disk, file, &options))
        .map(|suite| {
            let path = Path::new(&suite.path)
                .strip_prefix(&corpus)
                .unwrap_or(Path::new(&suite.path));
            (
                (path.display().to_string(), suite.document),
                run::run(&suite, &settings),
            )
        })
        .collect()
});

/// Whether a resource is the recorded one. Payloads are recorded by their path from the directory of all suites.
fn is_key(key: &Key, recorded: &str) -> bool {
    let own = key.to_string();
    own == recorded || key.kind.is_empty() && own.ends_with(recorded)
}

type Answers<'r> = Vec<(&'r str, &'r str, &'r str)>;

/// Our responses to the check of a line.
fn responses(line: &Line) -> impl Iterator<Item = &'static Response> {
    let run = RUNS.get(&(line.suite.clone(), line.doc));
    let responses = run.into_iter().flat_map(|run| &run.responses);
    responses.filter(|response| {
        response.run.map(Operation::as_str) == line.op.as_deref()
            && Some(response.policy.name.as_str()) == line.pol.as_deref()
            && is_key(&response.key, &line.key)
    })
}

/// Our results for the check of a line: rule, status, message.
fn answers(line: &Line) -> Answers<'static> {
    responses(line)
        .flat_map(|response| &response.rules)
        .map(|answer| (answer.rule.as_str(), answer.status.as_str(), answer.message.as_str()))
        .collect()
}

impl Line {
    /// Whether the policy has no result for the resource.
    fn is_silent(&self) -> bool {
        self.st == "none" || self.st == "nothing"
    }

    /// The question that the line answers, without the rule.
    fn question(&self) -> (&str, usize, Option<&str>, Option<&str>, &str) {
        let (op, policy) = (self.op.as_deref(), self.pol.as_deref());
        (&self.suite, self.doc, op, policy, &self.key)
    }
}

/// All lines that are the same in every run, with their names.
fn all_lines() -> Option<Vec<(String, Line)>> {
    let path = shared("golden/kyverno-cli/engine.jsonl")?;
    let lines: Vec<Line> = jsonl(&path);
    let mut seen = BTreeMap::new();
    let lines = lines
        .into_iter()
        .filter(|line| !line.unstable)
        .map(|line| {
            let id = format!(
                "{}#{} {} {} {} {}",
                line.suite,
                line.doc,
                line.op.as_deref().unwrap_or("-"),
                line.pol.as_deref().unwrap_or("-"),
                line.rule.as_deref().unwrap_or("-"),
                line.key
            );
            let count = seen.entry(id.clone()).and_modify(|n| *n += 1).or_insert(0);
            (if *count == 0 { id } else { format!("{id} ({count})") }, line)
        })
        .collect();
    Some(lines)
}

/// The lines with a result.
fn lines() -> Option<Vec<(String, Line)>> {
    let mut lines = all_lines()?;
    lines.retain(|(_, line)| !line.is_silent());
    Some(lines)
}

/// A policy without a result has none here either: the rules with results are among those that were recorded for the same question,
/// in whatever pass.
#[test]
fn engine_silence() {
    let Some(lines) = all_lines() else { return };
    let mut recorded: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for (_, line) in lines.iter().filter(|(_, line)| !line.is_silent()) {
        let rule = line.rule.as_deref().unwrap_or_default();
        recorded.entry(line.question()).or_default().insert(rule);
    }
    let silent: Vec<&(String, Line)> = lines.iter().filter(|(_, line)| line.is_silent()).collect();
    Gate::new("kyverno-cli-silence", 1040).run(
        &silent,
        |(id, _)| id.clone(),
        |(_, line)| {
            let known = recorded.get(&line.question());
            let answers = answers(line);
            let mut extra = answers
                .iter()
                .filter(|answer| known.is_none_or(|rules| !rules.contains(answer.0)));
            match extra.next() {
                None => Ok(()),
                Some((rule, status, _)) => Err(format!("want no result, got {status} of rule `{rule}`")),
            }
        },
    );
}

#[test]
fn engine_status() {
    let Some(lines) = lines() else { return };
    Gate::new("kyverno-cli-status", 4539).run(
        &lines,
        |(id, _)| id.clone(),
        |(_, line)| {
            let rule = line.rule.as_deref().unwrap_or_default();
            let ours: BTreeSet<&str> = answers(line).iter().filter(|a| a.0 == rule).map(|a| a.1).collect();
            if ours.contains(line.st.as_str()) {
                return Ok(());
            }
            Err(format!("want {} ({}), got {ours:?}", line.st, line.msg))
        },
    );
}

#[test]
fn engine_message() {
    let Some(lines) = lines() else { return };
    Gate::new("kyverno-cli-message", 4539).run(
        &lines,
        |(id, _)| id.clone(),
        |(_, line)| {
            let rule = line.rule.as_deref().unwrap_or_default();
            let ours: Vec<&str> = answers(line).iter().filter(|a| a.0 == rule).map(|a| a.2).collect();
            // The network's message was not recorded: messages agree up to it.
            let agrees = |ours: &&str| match line.msg.split_once("(network error)") {
                Some((before, _)) => ours.starts_with(before),
                None => *ours == line.msg,
            };
            if ours.iter().any(agrees) {
                return Ok(());
            }
            Err(format!("want {:?}, got {ours:?}", line.msg))
        },
    );
}

/// The objects after the policies.
#[test]
fn engine_patched() {
    let Some(lines) = lines() else { return };
    let lines: Vec<(String, Line)> = lines.into_iter().filter(|(_, line)| line.patched.is_some()).collect();
    Gate::new("kyverno-cli-patched", 142).run(
        &lines,
        |(id, _)| id.clone(),
        |(_, line)| {
            let ours: Vec<Value> = responses(line)
                .filter_map(|response| response.objects.as_deref()?.patched.as_ref())
                .map(|patched| patched.root().to_serde())
                .collect();
            let want = line.patched.as_ref().expect("filtered");
            let same = |one: &&Value| objects::differences(&Document::from(*one), &Document::from(want)).is_empty();
            if ours.iter().any(|one| same(&one)) {
                return Ok(());
            }
            Err(format!("want {want}, got {ours:?}"))
        },
    );
}

/// The existing objects that rules change, and the objects that rules generate.
#[test]
fn engine_objects() {
    let Some(lines) = lines() else { return };
    let has_objects = |line: &Line| line.target.is_some() || line.generated.is_some();
    let lines: Vec<(String, Line)> = lines.into_iter().filter(|(_, line)| has_objects(line)).collect();
    Gate::new("kyverno-cli-objects", 34).run(
        &lines,
        |(id, _)| id.clone(),
        |(_, line)| {
            let rule = line.rule.as_deref().unwrap_or_default();
            let of_rule = || {
                responses(line).flat_map(|response| {
                    let objects = response.objects.iter().flat_map(|objects| &objects.rules);
                    let rules = response.rules.iter().zip(objects);
                    rules.filter(|(own, _)| own.rule == rule).map(|(_, objects)| objects)
                })
            };
            let same = |ours: &Document, want: &Value| objects::differences(ours, &Document::from(want)).is_empty();
            if let Some(want) = &line.target
                && !of_rule()
                    .filter_map(|rule| rule.target.as_ref())
                    .any(|target| same(target, want))
            {
                return Err(format!("no target of rule `{rule}` is {want}"));
            }
            for want in line.generated.iter().flatten() {
                if !of_rule()
                    .flat_map(|rule| &rule.generated)
                    .any(|generated| same(generated, want))
                {
                    return Err(format!("rule `{rule}` does not generate {want}"));
                }
            }
            Ok(())
        },
    );
}

#[test]
fn checks() {
    let Some(path) = shared("golden/kyverno-cli/checks.jsonl") else {
        return;
    };
    let checks: Vec<Check> = jsonl(&path);
    // `Excluded` beside another line of the same row and resource depends on Go's map order.
    let answered: BTreeSet<(String, usize, usize, String)> = checks
        .iter()
        .filter(|check| check.reason != "Excluded")
        .map(|check| (check.suite.clone(), check.doc, check.row, check.key.clone()))
        .collect();
    let mut seen = BTreeMap::new();
    let checks: Vec<(String, Check)> = checks
        .into_iter()
        .filter(|check| !check.unstable)
        .filter(|check| {
            let place = (check.suite.clone(), check.doc, check.row, check.key.clone());
            check.reason != "Excluded" || !answered.contains(&place)
        })
        .map(|check| {
            let rule = check.shown_rule.as_deref().or(check.rule.as_deref()).unwrap_or("-");
            let id = format!("{}#{} {} {rule} {}", check.suite, check.doc, check.row, check.key);
            let count = seen.entry(id.clone()).and_modify(|n| *n += 1).or_insert(0);
            (if *count == 0 { id } else { format!("{id} ({count})") }, check)
        })
        .collect();
    Gate::new("kyverno-cli-checks", 3638).run(
        &checks,
        |(id, _)| id.clone(),
        |(_, check)| {
            let Some(run) = RUNS.get(&(check.suite.clone(), check.doc)) else {
                return Err("the suite was not run".to_owned());
            };
            let of_row = || run.cases.iter().filter(|case| case.row == Some(check.row));
            // Lines about generated objects have the objects' names, and were recorded with the resource.
            let has_own = of_row().any(|case| case.resource.to_string() == check.key);
            let is_own = |case: &&Case| {
                let own = case.resource.to_string() == check.key;
                own || !has_own && case.resource.kind.is_empty()
            };
            let ours: Vec<(&str, &str)> = of_row()
                .filter(is_own)
                // A row that prints nothing has no reason either.
                .map(|case| match case.outcome.printed() {
                    "" => ("", ""),
                    printed => (printed, case.reason.as_str()),
                })
                .collect();
            let want = (check.result.as_str(), check.reason.as_str());
            if ours.contains(&want) || (ours.is_empty() && check.result.is_empty()) {
                return Ok(());
            }
            Err(format!("want {want:?}, got {ours:?}"))
        },
    );
}
