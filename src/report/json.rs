//! The JSON report: one object per run, every key always there, lists in input order.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    diagnostic::{Diagnostic, Sources},
    run::{Answer, Case, Divergence, Key, NativeAnswer, Outcome, Response, SuiteRun},
};

/// A suite's run with the texts that its diagnostics refer to.
pub type Run<'r> = (&'r SuiteRun, &'r Sources);

/// The report of a run.
pub fn render(runs: &[Run<'_>], compat: bool, all_responses: bool) -> Value {
    let cases = || runs.iter().flat_map(|(run, _)| &run.cases);
    let count = |outcome: Outcome| cases().filter(|case| case.outcome == outcome).count();
    let mut divergences: BTreeMap<&str, usize> = BTreeMap::new();
    for divergence in cases().filter_map(|case| case.divergence.as_ref()) {
        *divergences.entry(divergence.class.as_str()).or_default() += 1;
    }
    json!({
        "version": 1,
        "summary": {
            "suites": runs.len(),
            "cases": cases().count(),
            "pass": count(Outcome::Pass) + count(Outcome::Skip),
            "fail": count(Outcome::Fail),
            "error": count(Outcome::Error),
            "unsupported": count(Outcome::Unsupported),
            "unmatched": count(Outcome::Unmatched),
            "divergences": divergences,
        },
        "suites": runs.iter().map(|run| suite(run, compat, all_responses)).collect::<Vec<_>>(),
    })
}

fn suite((run, sources): &Run<'_>, compat: bool, all_responses: bool) -> Value {
    let responses: Vec<Value> = if all_responses {
        run.responses.iter().flat_map(response).collect()
    } else {
        Vec::new()
    };
    json!({
        "path": run.path,
        "doc": run.doc,
        "name": run.name,
        "diagnostics": run.all_diagnostics().map(|found| diagnostic(found, sources)).collect::<Vec<_>>(),
        "cases": run.cases.iter().map(|found| case(found, compat)).collect::<Vec<_>>(),
        "responses": responses,
    })
}

fn diagnostic(diagnostic: &Diagnostic, sources: &Sources) -> Value {
    let place = diagnostic
        .primary
        .map(|span| (sources.name(span.file), sources.position(span.file, span.start)));
    let (file, position) = place.unwrap_or_default();
    json!({
        "code": diagnostic.code.id(),
        "severity": diagnostic.severity.name(),
        "message": diagnostic.message,
        "file": file,
        "line": position.map(|position| position.line),
        "column": position.map(|position| position.column),
        "help": diagnostic.help,
    })
}

fn resource(key: &Key) -> Value {
    let text = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
    json!({
        "apiVersion": text(&key.api_version),
        "kind": text(&key.kind),
        "namespace": text(&key.namespace),
        "name": text(&key.name),
    })
}

fn case(case: &Case, compat: bool) -> Value {
    let text = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
    json!({
        "row": case.row,
        "name": case.name,
        "policy": case.policy,
        "rule": case.rule,
        "resource": resource(&case.resource),
        "operation": case.operation.as_str(),
        "expected": text(case.expected),
        "outcome": if compat { case.outcome.printed() } else { case.outcome.as_str() },
        "reason": case.reason,
        "kyverno": case.kyverno.as_ref().map(answer),
        "vap": case.vap.as_ref().map(native),
        "divergence": case.divergence.as_ref().map(divergence),
    })
}

fn answer(answer: &Answer) -> Value {
    json!({
        "status": answer.status.as_str(),
        "effect": answer.effect.as_str(),
        "message": answer.message,
    })
}

fn native(native: &NativeAnswer) -> Value {
    json!({
        "status": native.answer.status.as_str(),
        "effect": native.answer.effect.as_str(),
        "message": native.answer.message,
        "policy": native.policy,
        "binding": native.binding,
    })
}

fn divergence(divergence: &Divergence) -> Value {
    json!({
        "class": divergence.class.as_str(),
        "code": divergence.code,
        "cause": divergence.cause,
    })
}

fn response(response: &Response) -> Vec<Value> {
    let line = |rule: Option<&str>, status: &str, message: &str| {
        json!({
            "policy": response.policy,
            "policyKind": response.policy_kind,
            "rule": rule,
            "resource": resource(&response.key),
            "operation": response.operation.as_str(),
            "status": status,
            "message": message,
        })
    };
    if response.rules.is_empty() {
        return vec![line(None, "none", "")];
    }
    let rules = response.rules.iter();
    rules
        .map(|answer| line(Some(&answer.rule), answer.status.as_str(), &answer.message))
        .collect()
}
