//! The JSON report: one object per run, every key always present, lists in input order.

use serde_json::{Value, json};

use super::ReportInput;
use crate::run::{Case, CaseVerdict, Divergence, Key, NativeCaseVerdict, Response, SuiteRun, source_map};
use kyvtest_go_compat::diagnostic::{Diagnostic, Sources, Span};
use kyvtest_kyverno::response::RegistryUse;

/// A suite's run with the sources of its diagnostics.
pub type Run<'r> = (&'r SuiteRun, &'r Sources);

/// The report of a run.
pub fn render(view: &ReportInput<'_>) -> Value {
    json!({
        "version": 1,
        "now": view.times.now,
        "shard": view.shard.map(|shard| json!({"part": shard.part, "of": shard.of})),
        "stopped": view.stopped,
        "exit": view.exit,
        "summary": view.summary.json(),
        "suites": view.runs.iter().map(|run| suite(run, view)).collect::<Vec<_>>(),
    })
}

fn suite((run, sources): &Run<'_>, view: &ReportInput<'_>) -> Value {
    let responses: Vec<Value> = if view.all_responses {
        run.responses.iter().flat_map(response).collect()
    } else {
        Vec::new()
    };
    json!({
        "path": run.path,
        "doc": run.doc,
        "name": run.name,
        "diagnostics": run.all_diagnostics().map(|found| diagnostic(found, sources)).collect::<Vec<_>>(),
        "notes": run.notes.iter().map(|(policy, note)| json!({"policy": policy, "note": note.as_str()})).collect::<Vec<_>>(),
        "cases": run.cases.iter().map(|found| case(found, run, sources, view.compat)).collect::<Vec<_>>(),
        "responses": responses,
        "proofs": super::analysis::proofs_json(run, sources),
    })
}

pub(super) fn diagnostic(diagnostic: &Diagnostic, sources: &Sources) -> Value {
    let (file, line, column) = place(diagnostic.primary, sources);
    json!({
        "code": diagnostic.code.id(),
        "severity": diagnostic.severity.name(),
        "message": diagnostic.message,
        "file": file,
        "line": line,
        "column": column,
        "help": diagnostic.help,
    })
}

/// File, line and column of a span.
pub fn place(span: Option<Span>, sources: &Sources) -> (Option<&str>, Option<usize>, Option<usize>) {
    let Some(span) = span else { return (None, None, None) };
    let position = sources.position(span.file, span.start);
    (
        sources.name(span.file),
        position.map(|position| position.line),
        position.map(|position| position.column),
    )
}

/// A resource as an object.
pub fn resource(key: &Key) -> Value {
    let text = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
    json!({
        "apiVersion": text(&key.api_version),
        "kind": text(&key.kind),
        "namespace": text(&key.namespace),
        "name": text(&key.name),
    })
}

pub(super) fn case(case: &Case, run: &SuiteRun, sources: &Sources, compat: bool) -> Value {
    let text = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
    let (file, line, column) = place(case.place, sources);
    let mut json = json!({
        "id": source_map::id(run, case),
        "file": file,
        "line": line,
        "column": column,
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
        "vap": case.vap.as_deref().map(native),
        "divergence": case.divergence.as_ref().map(|found| divergence(found, case.accepted_because())),
        "diverges": case.diverges(),
    });
    if let Some(data) = &case.data {
        json["data"] = data.as_str().into();
    }
    if case.mocked {
        json["mocked"] = true.into();
    }
    json
}

fn answer(answer: &CaseVerdict) -> Value {
    json!({
        "status": answer.status.as_str(),
        "effect": answer.effect.as_str(),
        "message": answer.message,
    })
}

fn native(native: &NativeCaseVerdict) -> Value {
    json!({
        "status": native.answer.status.as_str(),
        "effect": native.answer.effect.as_str(),
        "message": native.answer.message,
        "policy": native.policy,
        "binding": native.binding,
    })
}

fn divergence(divergence: &Divergence, accepted: Option<&str>) -> Value {
    json!({
        "class": divergence.class.as_str(),
        "code": divergence.code,
        "cause": divergence.cause,
        "accepted": accepted,
    })
}

fn response(response: &Response) -> Vec<Value> {
    let line = |rule: Option<&str>, status: &str, message: &str, mocked: bool| {
        let mut line = json!({
            "policy": response.policy.name,
            "policyKind": response.policy.kind,
            "rule": rule,
            "resource": resource(&response.key),
            "operation": response.operation.as_str(),
            "status": status,
            "message": message,
        });
        if mocked {
            line["mocked"] = true.into();
        }
        line
    };
    if response.rules.is_empty() {
        return vec![line(None, "none", "", false)];
    }
    let rules = response.rules.iter();
    rules
        .map(|answer| {
            let mocked = answer.registry == RegistryUse::Mocked;
            line(Some(&answer.rule), answer.status.as_str(), &answer.message, mocked)
        })
        .collect()
}
