//! Migration reports: human-readable, as JSON, and for pull requests.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Value as Json, json};

use super::{ExceptionRow, Outcome, Row, documents};
use crate::cli::{
    color::{HEADING, LITERAL},
    prove::comparison_witness,
};
use kyvtest_go_compat::diagnostic::{Sources, Span};
use kyvtest_line_diff::unified;
use kyvtest_migrate::{MigratedRule, RuleLabel};
use kyvtest_prove::body::Counterexample;

/// Differences of every migration, reported once: codes and texts.
const DIFFERENCES: [(&str, &str); 4] = [
    (
        "C01",
        "a request that a rule skips is reported as `pass`, or not at all, by a ValidatingPolicy",
    ),
    (
        "C02",
        "denials read `Policy NAME failed: MESSAGE`, without the rule and the path of the violation",
    ),
    ("C03", "a policy stops at the first validation that fails"),
    (
        "C04",
        "an expression of `validate.cel` that cannot be evaluated is reported as `error`, not as `fail`",
    ),
];

/// What follows if rules share a policy.
const SHARED: (&str, &str) = (
    "C05",
    "an exception lifts a policy with all rules that it replaces; `--split` writes a policy for each rule",
);

/// The differences that concern the new policies.
fn differences(rows: &[Row]) -> Vec<(&'static str, &'static str)> {
    let kinds = rows.iter().flat_map(|row| &row.objects).map(|object| &object["kind"]);
    let validates = kinds
        .filter_map(Json::as_str)
        .any(|kind| kind.ends_with("ValidatingPolicy"));
    let shared = rows.iter().any(|row| {
        let mut objects = row.migration.objects();
        objects.any(|object| row.migration.rules_of(object).count() > 1)
    });
    let all = DIFFERENCES.into_iter().filter(|_| validates);
    all.chain(Some(SHARED).filter(|_| shared)).collect()
}

fn place(span: Span, sources: &Sources) -> Json {
    let position = sources.position(span.file, span.start);
    json!({
        "file": sources.name(span.file),
        "line": position.map(|position| position.line),
        "column": position.map(|position| position.column),
    })
}

fn place_text(span: Span, sources: &Sources) -> String {
    let name = sources.name(span.file).unwrap_or_default();
    match sources.position(span.file, span.start) {
        Some(position) => format!("{name}:{}:{}", position.line, position.column),
        None => name.to_owned(),
    }
}

/// The label with its details.
fn label(rule: &MigratedRule) -> String {
    match &rule.label {
        RuleLabel::Proven => "PROVEN".to_owned(),
        RuleLabel::Bounded(k) => format!("BOUNDED({k})"),
        RuleLabel::Tested(requests) => format!("TESTED({requests})"),
        RuleLabel::NotMigrated(code) => format!("NOT-MIGRATED({})", code.as_str()),
    }
}

/// The names of a rule's new policies, which other rules may share.
fn names(rule: &MigratedRule) -> Vec<&str> {
    let objects = rule.objects.iter();
    objects
        .filter_map(|object| object["metadata"]["name"].as_str())
        .collect()
}

/// The JSON report.
pub(super) fn json(outcome: &Outcome, sources: &Sources) -> Json {
    let policies = outcome.rows.iter().map(|row| {
        let rules = row.rules().iter().map(|rule| {
            let mut json = json!({
                "name": rule.name,
                "label": rule.label.as_str(),
                "code": rule.label.code(),
                "reason": (!rule.reason.is_empty()).then_some(&rule.reason),
                "place": place(rule.place, sources),
                "objects": names(rule),
                "notes": rule.notes,
            });
            if let RuleLabel::Tested(requests) = rule.label {
                json["requests"] = json!(requests);
            }
            if let Some(example) = &rule.counterexample {
                json["witness"] = comparison_witness(example);
            }
            if !rule.rejected.is_empty() {
                json["rejected"] = json!(rule.rejected);
            }
            json
        });
        let metadata = row.policy.metadata();
        json!({
            "source": {
                "apiVersion": row.policy.api_version(),
                "kind": row.policy.kind(),
                "name": metadata.name.value,
                "namespace": metadata.namespace.as_ref().map(|text| &text.value),
                "place": place(row.policy.origin().span, sources),
            },
            "rules": rules.collect::<Vec<_>>(),
            "objects": row.objects,
            "notes": row.notes,
        })
    });
    let exceptions = outcome.exceptions.iter().map(|row| exception(row, sources));
    let suites = outcome.suites().map(|suite| {
        json!({
            "file": suite.file,
            "changed": suite.changed,
            "notes": suite.notes,
            "code": suite.refusal.as_ref().map(|refusal| refusal.code.as_str()),
            "reason": suite.refusal.as_ref().map(|refusal| &refusal.reason),
        })
    });
    let differences = differences(&outcome.rows).into_iter();
    let differences = differences.map(|(code, text)| json!({"code": code, "text": text}));
    json!({
        "version": 1,
        "differences": differences.collect::<Vec<_>>(),
        "policies": policies.collect::<Vec<_>>(),
        "exceptions": exceptions.collect::<Vec<_>>(),
        "suites": suites.collect::<Vec<_>>(),
    })
}

fn exception(row: &ExceptionRow, sources: &Sources) -> Json {
    let metadata = &row.exception.metadata;
    let span = row.exception.origin.span;
    let mut json = json!({
        "source": {
            "apiVersion": row.exception.api_version,
            "kind": "PolicyException",
            "name": metadata.name.value,
            "namespace": metadata.namespace.as_ref().map(|text| &text.value),
            "place": place(span, sources),
        },
        "object": null,
        "remaining": [],
        "code": null,
        "reason": null,
    });
    match &row.result {
        Ok(Some(migrated)) => {
            json["object"] = migrated.object.clone();
            json["remaining"] = json!(migrated.remaining);
        }
        Ok(None) => json["reason"] = json!(NAMES_NOTHING),
        Err(refusal) => {
            json["code"] = json!(refusal.code.as_str());
            json["reason"] = json!(refusal.reason);
            json["source"]["place"] = place(refusal.span.unwrap_or(span), sources);
        }
    }
    json
}

const NAMES_NOTHING: &str = "it names no rule that was migrated";

/// One line for each exception, and for each test file with changes or notes.
fn companions(outcome: &Outcome, sources: &Sources) -> Vec<String> {
    let mut lines = Vec::new();
    for row in &outcome.exceptions {
        let name = &row.exception.metadata.name.value;
        lines.push(match &row.result {
            Ok(Some(migrated)) if migrated.remaining.is_empty() => format!("exception `{name}`: rewritten"),
            Ok(Some(migrated)) => format!(
                "exception `{name}`: rewritten; the old one is still needed for {}",
                migrated.remaining.join(", ")
            ),
            Ok(None) => format!("exception `{name}`: unchanged; {NAMES_NOTHING}"),
            Err(refusal) => format!(
                "exception `{name}`: NOT-MIGRATED({}), {}, at {}",
                refusal.code.as_str(),
                refusal.reason,
                place_text(refusal.span.unwrap_or(row.exception.origin.span), sources)
            ),
        });
    }
    for suite in outcome.suites() {
        if let Some(refusal) = &suite.refusal {
            let (code, reason) = (refusal.code.as_str(), &refusal.reason);
            lines.push(format!("test file `{}`: NOT-REWRITTEN({code}), {reason}", suite.file));
        }
    }
    for suite in outcome.suites().filter(|suite| suite.changed) {
        lines.push(format!("test file `{}`: rewritten", suite.file));
        lines.extend(suite.notes.iter().map(|note| format!("`{}`: {note}", suite.file)));
    }
    lines
}

/// How often each label occurs, the best first.
fn totals(rows: &[Row]) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<(u8, String), usize> = BTreeMap::new();
    for rule in rows.iter().flat_map(Row::rules) {
        let (rank, word) = match &rule.label {
            RuleLabel::Proven => (0, "PROVEN".to_owned()),
            RuleLabel::Bounded(_) => (1, label(rule)),
            RuleLabel::Tested(_) => (2, "TESTED".to_owned()),
            RuleLabel::NotMigrated(_) => (3, label(rule)),
        };
        *counts.entry((rank, word)).or_default() += 1;
    }
    counts.into_iter().map(|((_, word), count)| (word, count)).collect()
}

/// The human-readable report.
pub(super) fn human(outcome: &Outcome, sources: &Sources, explain: bool) -> String {
    let rows = &outcome.rows;
    let mut text = String::new();
    for row in rows {
        let kind = row.policy.kind();
        let _ = writeln!(text, "{HEADING}{kind} {}{HEADING:#}", row.key());
        for rule in row.rules() {
            let _ = writeln!(text, "  {LITERAL}{}{LITERAL:#}  {}", label(rule), rule.name);
            let refused = matches!(rule.label, RuleLabel::NotMigrated(_));
            if !rule.reason.is_empty() && (explain || refused) {
                let _ = writeln!(text, "    {}", rule.reason);
            }
            if refused {
                let _ = writeln!(text, "    at {}", place_text(rule.place, sources));
            }
            for note in &rule.notes {
                let _ = writeln!(text, "    note: {note}");
            }
            if let Some(example) = rule.counterexample.as_deref().filter(|_| explain || !refused) {
                text.push_str(&request(example));
            }
            if explain && !rule.rejected.is_empty() {
                text.push_str("    the translation that is not written:\n");
                for line in documents(&rule.rejected).lines() {
                    let _ = writeln!(text, "      {line}");
                }
            }
        }
        for note in &row.notes {
            let _ = writeln!(text, "  note: {note}");
        }
    }
    for line in companions(outcome, sources) {
        let _ = writeln!(text, "{line}");
    }
    let rules = rows.iter().map(|row| row.rules().len()).sum::<usize>();
    let _ = writeln!(text, "\npolicies {}, rules {rules}", rows.len());
    for (word, count) in totals(rows) {
        let _ = writeln!(text, "{count:>6}  {word}");
    }
    let differences = differences(rows);
    if !differences.is_empty() {
        text.push_str("\nKyverno's new engine reports differently:\n");
        for (code, line) in differences {
            let _ = writeln!(text, "{code}  {line}");
        }
    }
    text
}

/// A request that the sides decide differently.
fn request(example: &Counterexample) -> String {
    let request = &example.scenario().request;
    let [first, second] = example.verdicts();
    let mut text = format!(
        "    {} {}: the rule decides {}, the translation {}\n",
        request.operation.as_str(),
        request.resource.name(),
        first.effect,
        second.effect
    );
    for (name, document) in [("object", &request.object), ("oldObject", &request.old_object)] {
        if !document.root().is_null() {
            let _ = writeln!(text, "      {name}:");
            for line in document.root().to_yaml().lines() {
                let _ = writeln!(text, "        {line}");
            }
        }
    }
    text
}

/// The report for a pull request.
pub(super) fn markdown(outcome: &Outcome, sources: &Sources, explain: bool) -> String {
    let rows = &outcome.rows;
    let mut text = String::from("# Migration to ValidatingPolicy\n\n| label | rules |\n|---|---|\n");
    for (word, count) in totals(rows) {
        let _ = writeln!(text, "| {word} | {count} |");
    }
    text.push_str("\n| policy | rule | label | new policies | remarks |\n|---|---|---|---|---|\n");
    for row in rows {
        for rule in row.rules() {
            let names: Vec<String> = names(rule).iter().map(|name| format!("`{name}`")).collect();
            let mut remarks: Vec<String> = Vec::new();
            if !rule.reason.is_empty() {
                remarks.push(rule.reason.clone());
            }
            if matches!(rule.label, RuleLabel::NotMigrated(_)) {
                remarks.push(format!("at {}", place_text(rule.place, sources)));
            }
            remarks.extend(rule.notes.iter().cloned());
            let remarks = remarks.join("; ").replace('|', "\\|").replace('\n', " ");
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {remarks} |",
                row.key(),
                rule.name,
                label(rule),
                names.join(", ")
            );
        }
    }
    let lines = companions(outcome, sources);
    if !lines.is_empty() {
        text.push_str("\n## Exceptions and test files\n\n");
        for line in lines {
            let _ = writeln!(text, "- {line}");
        }
    }
    let differences = differences(rows);
    if !differences.is_empty() {
        text.push_str("\n## Differences\n\nThe decisions are the same where a rule is PROVEN. Kyverno's new engine reports differently:\n\n");
        for (code, line) in differences {
            let _ = writeln!(text, "- {code}: {line}");
        }
    }
    text.push_str("\n## Replay\n\n```sh\n");
    let mut files: Vec<&str> = rows.iter().filter_map(|row| sources.name(row.file())).collect();
    files.dedup();
    for file in files {
        let _ = writeln!(text, "kyvtest migrate {file} --explain");
    }
    text.push_str("```\n");
    if explain {
        for row in rows.iter().filter(|row| !row.objects.is_empty()) {
            let _ = writeln!(text, "\n## {}\n\n```yaml\n{}```", row.key(), row.yaml());
        }
    }
    text
}

/// The changes of all documents: policies, exceptions and test files.
pub(super) fn diff(outcome: &Outcome, sources: &Sources) -> String {
    let mut text = String::new();
    for row in &outcome.rows {
        let name = sources.name(row.file()).unwrap_or_default();
        text.push_str(&change(name, source(row.policy.origin().span, sources), &row.yaml()));
    }
    for row in &outcome.exceptions {
        let after = row.yaml();
        if !after.is_empty() {
            let name = sources.name(row.exception.origin.file).unwrap_or_default();
            text.push_str(&change(name, source(row.exception.origin.span, sources), &after));
        }
    }
    for suite in outcome.suites() {
        if let Some((before, after)) = &suite.texts {
            text.push_str(&change(&suite.file, before, after));
        }
    }
    text
}

/// A document as it is written.
fn source(span: Span, sources: &Sources) -> &str {
    let text = sources.text(span.file).map_or("", |text| text);
    text.get(span.start as usize..span.end as usize).unwrap_or_default()
}

fn change(name: &str, before: &str, after: &str) -> String {
    let before = format!("{}\n", before.trim_end());
    unified(&before, after, [name; 2], 3)
}
