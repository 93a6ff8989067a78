//! Coverage reports: human-readable, as JSON, as Markdown. `docs/coverage.md` describes the format.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Value, json};

use super::{Run, place};
use crate::run::{
    Coverage, Shard, SuiteRun,
    coverage::{Item, ItemKind, PolicyCoverage, Score},
};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Sources, Span, render};

/// The `kind` of a coverage report.
pub const KIND: &str = "coverage";

/// The coverage of runs that have one.
fn covered<'r>(runs: &'r [Run<'r>]) -> impl Iterator<Item = (&'r SuiteRun, &'r Sources, &'r Coverage)> {
    runs.iter()
        .filter_map(|(run, sources)| Some((*run, *sources, run.coverage.as_ref()?)))
}

/// The total coverage of all suites: a part of a policy is covered if any suite exercises it.
pub fn total(runs: &[Run<'_>]) -> Score {
    let mut union = Union::default();
    for (_, sources, coverage) in covered(runs) {
        for policy in &coverage.policies {
            let file = sources.name(policy.file).unwrap_or_default();
            for (number, item) in policy.items.iter().enumerate() {
                let outcomes = item.outcomes.iter().enumerate();
                for (outcome, found) in outcomes.filter(|(_, outcome)| outcome.wanted) {
                    union.add((file.to_owned(), policy.doc as u64, number, outcome), found.count > 0);
                }
            }
        }
    }
    union.score()
}

/// Outcomes of all suites by file, document, item and location.
#[derive(Debug, Default)]
pub(super) struct Union(BTreeMap<(String, u64, usize, usize), bool>);

impl Union {
    pub(super) fn add(&mut self, key: (String, u64, usize, usize), seen: bool) {
        *self.0.entry(key).or_default() |= seen;
    }

    pub(super) fn score(&self) -> Score {
        Score {
            seen: self.0.values().filter(|seen| **seen).count() as u64,
            total: self.0.len() as u64,
        }
    }
}

/// A score as JSON has it.
pub(super) fn score(score: Score) -> Value {
    json!({"seen": score.seen, "total": score.total, "percent": score.permille() as f64 / 10.0})
}

/// The whole report. `now` is the clock of the run, `shard` its part if it was split.
pub fn json(runs: &[Run<'_>], now: &str, shard: Option<Shard>) -> Value {
    let suites: Vec<Value> = covered(runs)
        .map(|(run, sources, coverage)| {
            json!({
                "path": run.path,
                "doc": run.doc,
                "name": run.name,
                "score": score(coverage.score()),
                "policies": coverage.policies.iter().map(|found| policy(found, sources)).collect::<Vec<_>>(),
                "unreferenced": coverage.unreferenced.iter().map(|(key, span)| {
                    let (file, line, column) = place(Some(*span), sources);
                    json!({"resource": super::key(key), "file": file, "line": line, "column": column})
                }).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "version": 1,
        "kind": KIND,
        "now": now,
        "shard": shard.map(|shard| json!({"part": shard.part, "of": shard.of})),
        "summary": score(total(runs)),
        "suites": suites,
    })
}

fn policy(policy: &PolicyCoverage, sources: &Sources) -> Value {
    json!({
        "name": policy.name,
        "kind": policy.kind,
        "file": sources.name(policy.file),
        "doc": policy.doc,
        "score": score(policy.score()),
        "items": policy.items.iter().map(|found| item(found, sources)).collect::<Vec<_>>(),
    })
}

fn item(item: &Item, sources: &Sources) -> Value {
    let (file, line, column) = place(Some(item.span), sources);
    let text = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
    json!({
        "kind": item.kind.as_str(),
        "rule": item.rule,
        "path": text(&item.path),
        "text": text(&item.text),
        "file": file,
        "line": line,
        "column": column,
        "outcomes": item.outcomes.iter().map(|outcome| {
            json!({"name": outcome.name, "count": outcome.count, "wanted": outcome.wanted})
        }).collect::<Vec<_>>(),
    })
}

/// Describes an item.
fn subject(item: &Item) -> String {
    match item.kind {
        ItemKind::Rule => match &item.rule {
            Some(rule) => format!("rule `{rule}`"),
            None => "the policy".to_owned(),
        },
        ItemKind::Branch(fork) if fork.is_quantifier() || fork.as_str() == "has" => {
            format!("`{}`", shortened(&item.text))
        }
        ItemKind::Branch(fork) => format!("{} `{}`", fork.as_str().replace('-', " "), shortened(&item.text)),
        kind => format!("{} `{}`", kind.as_str().replace('-', " "), item.path),
    }
}

/// Shortens a string to fit into a line.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 60;
    let line = super::one_line(text);
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= LONGEST {
        return line;
    }
    let start: String = line.chars().take(LONGEST - 1).collect();
    format!("{start}…")
}

/// Describes the missing outcomes of an item; `None` if there are none.
pub fn missing(item: &Item) -> Option<String> {
    let missing: Vec<String> = item
        .missing()
        .map(|outcome| format!("never {}", outcome.name))
        .collect();
    if missing.is_empty() {
        return None;
    }
    let names: Vec<&str> = item.missing().map(|outcome| outcome.name).collect();
    match (item.kind, names.as_slice()) {
        (ItemKind::Rule, _) if !item.is_unreached() => {
            return Some(format!("no test makes {} {}", subject(item), names.join(" or ")));
        }
        (ItemKind::Filter, ["matched"]) => {
            return Some(format!("no test covers a request that {} matches", subject(item)));
        }
        (ItemKind::Filter, ["passed over"]) => {
            return Some(format!(
                "no test covers a request that {} does not match",
                subject(item)
            ));
        }
        _ => {}
    }
    let what = if item.is_unreached() {
        "never reached".to_owned()
    } else {
        missing.join(", ")
    };
    Some(format!("{}: {what}", subject(item)))
}

/// A diagnostic for the missing outcomes of an item; `None` if there are none.
fn finding(item: &Item, sources: &Sources) -> Option<Diagnostic> {
    let message = missing(item)?;
    Some(Diagnostic::at(
        Code::NotCovered,
        first_line(item.span, sources),
        message,
    ))
}

/// The part of a span in its first line: excerpts of whole blocks add nothing.
fn first_line(span: Span, sources: &Sources) -> Span {
    let (start, end) = (span.start as usize, span.end as usize);
    let text = sources.text(span.file).and_then(|text| text.get(start..end));
    let length = text
        .and_then(|text| text.find('\n'))
        .unwrap_or(end.saturating_sub(start));
    let length = text
        .and_then(|text| text.get(..length))
        .map_or(length, |line| line.trim_end().len());
    Span::new(
        span.file,
        span.start,
        span.start + u32::try_from(length).unwrap_or_default(),
    )
}

/// The missing outcomes, and a line of counts for every policy. Items inside an unreached one are not listed.
pub fn human(runs: &[Run<'_>], color: bool) -> String {
    let mut text = String::new();
    for (run, sources, coverage) in covered(runs) {
        for policy in &coverage.policies {
            let score = policy.score();
            let _ = writeln!(
                text,
                "{} :: {}  {} % ({} of {})",
                run.path,
                policy.name,
                score.percent(),
                score.seen,
                score.total
            );
            for item in listed_items(policy) {
                if let Some(finding) = finding(item, sources) {
                    text.push_str(&render::full(&finding, sources, color));
                }
            }
        }
    }
    let all = total(runs);
    let suites = covered(runs).count();
    let noun = if suites == 1 { "suite" } else { "suites" };
    let _ = writeln!(
        text,
        "coverage {} % ({} of {}) in {suites} {noun}",
        all.percent(),
        all.seen,
        all.total
    );
    text
}

/// The items to list: skips the branches of an unreached expression, and the parts of an unreached rule.
fn listed_items(policy: &PolicyCoverage) -> impl Iterator<Item = &Item> {
    let unreached = |item: &&Item| item.is_unreached();
    let dead_rules: Vec<&Option<String>> = policy
        .items
        .iter()
        .filter(|item| item.kind == ItemKind::Rule)
        .filter(|item| {
            item.outcomes
                .iter()
                .all(|outcome| outcome.count == 0 || outcome.name == "no match")
        })
        .map(|item| &item.rule)
        .collect();
    let dead: Vec<(&Option<String>, &str)> = policy
        .items
        .iter()
        .filter(unreached)
        .filter(|item| !matches!(item.kind, ItemKind::Branch(_)))
        .map(|item| (&item.rule, item.path.as_str()))
        .collect();
    policy.items.iter().filter(move |item| match item.kind {
        ItemKind::Rule | ItemKind::Filter => true,
        ItemKind::Branch(_) => !dead_rules.contains(&&item.rule) && !dead.contains(&(&item.rule, item.path.as_str())),
        _ => !dead_rules.contains(&&item.rule),
    })
}

/// The resources that no row tests.
pub fn unreferenced(coverage: &Coverage) -> impl Iterator<Item = Diagnostic> {
    coverage.unreferenced.iter().map(|(key, span)| {
        let message = format!("no row tests {} `{}`", key.kind, key.name);
        Diagnostic::at(Code::UnreferencedResource, *span, message)
    })
}

/// Tables: the policies with their counts, and the missing outcomes.
pub fn markdown(runs: &[Run<'_>]) -> String {
    let all = total(runs);
    let mut text = format!("# Coverage: {} %\n", all.percent());
    table(runs, &mut text);
    text
}

/// The tables alone.
pub(super) fn table(runs: &[Run<'_>], text: &mut String) {
    let escaped = super::markdown::escaped;
    text.push_str("\n| suite | policy | covered | of | % |\n|---|---|---|---|---|\n");
    for (run, _, coverage) in covered(runs) {
        for policy in &coverage.policies {
            let score = policy.score();
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                escaped(&run.path),
                escaped(&policy.name),
                score.seen,
                score.total,
                score.percent()
            );
        }
    }
    let mut rows = String::new();
    for (_, sources, coverage) in covered(runs) {
        for item in coverage.policies.iter().flat_map(listed_items) {
            let Some(missing) = missing(item) else { continue };
            let (file, line, _) = place(Some(item.span), sources);
            let at = format!("{}:{}", file.unwrap_or_default(), line.unwrap_or_default());
            let _ = writeln!(rows, "| {} | {} |", escaped(&at), escaped(&missing));
        }
    }
    if !rows.is_empty() {
        let _ = write!(text, "\n| location | not covered |\n|---|---|\n{rows}");
    }
}
