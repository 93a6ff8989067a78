//! The verdicts that `kyverno test` prints, quirks included.
//!
//! Upstream counterpart: `commands/test/output.go` (`printTestResult`), `commands/test/command.go` (`checkResult`).

use super::{Answer, Asker, Case, CaseTrace, Key, Outcome, Response, Responses, Settings};
use crate::suite::{Resource, ResourceSpec, Row, Suite, Upstream};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Severity, Span},
    value::{Document, Value},
};
use kyvtest_model::{
    kube::{Discovery, Operation},
    policy::{PolicyKind, Spanned, Text},
};

/// The reason of a row that passes because no rule answered.
pub const EXCLUDED: &str = "Excluded";

/// Judges all rows.
pub(super) fn judge(suite: &Suite, responses: &Responses, settings: &Settings) -> Vec<Case> {
    let mut cases = Vec::new();
    for (number, row) in suite.rows().iter().enumerate() {
        if settings.is_stopped() {
            break;
        }
        let run: Option<Operation> = row.operation.as_ref().map(|operation| operation.value);
        for key in selected(row, responses) {
            judge_key(number, row, run, key, responses, &mut cases);
        }
    }
    cases
}

/// Looks at the mistakes of a suite with the eyes of `kyverno test`: those that it survives are warnings, and a crash is an
/// error.
pub(super) fn reconsider(suite: &Suite, diagnostics: &mut Vec<Diagnostic>) {
    if matches!(suite.upstream, Upstream::Runs | Upstream::Skips) {
        for diagnostic in diagnostics.iter_mut() {
            diagnostic.severity = diagnostic.severity.min(Severity::Warning);
        }
    }
    match suite.upstream {
        Upstream::Runs => {
            if let Some(entry) = crashing_entry(suite) {
                let message = format!("`kyverno test` crashes at `{}`", entry.value);
                let help = "in a suite with payloads, rows must use resource names without a namespace";
                diagnostics.push(Diagnostic::at(Code::UpstreamCrash, entry.span, message).with_help(help));
            }
            if let Some(condition) = crashing_condition(suite) {
                let message = "`kyverno test` crashes: it queries the version of a cluster that does not exist";
                let help = "a policy with `webhookConfiguration.matchConditions` cannot be tested with it";
                diagnostics.push(Diagnostic::at(Code::UpstreamCrash, condition.span, message).with_help(help));
            }
            if let Some(object) = unmapped(suite) {
                let start = Span::point(object.span.file, object.span.start);
                let message = "`kyverno test` does not know this kind, which it needs for `context`";
                diagnostics.push(Diagnostic::at(Code::BadValue, start, message));
            }
            if let Some(resource) = homeless(suite) {
                let start = Span::point(resource.origin.file, resource.origin.span.start);
                let message = format!("namespace `{}` is missing from `clusterResources`", resource.namespace);
                let help = "add the Namespace, or give it labels in the values file";
                diagnostics.push(Diagnostic::at(Code::NoSuchNamespace, start, message).with_help(help));
            }
        }
        Upstream::Panics => {
            let message = format!("`kyverno test` crashes on `{}`", suite.name());
            diagnostics.push(Diagnostic::new(Code::UpstreamCrash, message));
        }
        // What has no rows is not looked at.
        Upstream::Skips | Upstream::Undecodable | Upstream::Deprecated | Upstream::Aborts => {}
    }
}

/// `namespace/name` in a suite with payloads, whose keys have one part.
fn crashing_entry(suite: &Suite) -> Option<&Text> {
    let payloads = [&suite.json_payloads, &suite.http_payloads, &suite.envoy_payloads];
    if payloads.iter().all(|payloads| payloads.is_empty()) {
        return None;
    }
    let mut entries = suite.rows().iter().flat_map(|row| row.resources.iter().flatten());
    entries.find(|entry| entry.value.matches('/').count() == 1)
}

/// The first condition of a webhook, which its static validation cannot check without a cluster (`pkg/validation/policy/validate.go`
/// `Validate`). A ClusterPolicy in a namespace is refused before.
fn crashing_condition(suite: &Suite) -> Option<&Text> {
    let policies = suite.policies.classic();
    let mut asked = policies.filter(|policy| policy.kind == PolicyKind::Policy || policy.metadata.namespace.is_none());
    asked.find_map(|policy| Some(&policy.spec.webhook.as_ref()?.match_conditions.first()?.name))
}

/// The first object of the context of which Kyverno's mapper does not know the kind; CEL policies cannot be asked then
/// (`cmd/cli/kubectl-kyverno/processor/utils.go` `NewContextProvider`).
fn unmapped(suite: &Suite) -> Option<&Spanned<Document>> {
    let asked = suite.cluster.is_none() && suite.policies.validating().next().is_some();
    let context = suite.context.as_ref().filter(|_| asked)?;
    let discovery = Discovery::kubernetes();
    context.resources.iter().find(|object| {
        let text = |key: &str| object.value.root().get(key).and_then(Value::as_str).unwrap_or_default();
        discovery.mapped(text("apiVersion"), text("kind")).is_none()
    })
}

/// The first resource whose namespace `kyverno test` looks for in a cluster that does not have it
/// (`cmd/cli/kubectl-kyverno/processor/policy_processor.go`): it has the cluster's objects, the resources, targets and parameters.
fn homeless(suite: &Suite) -> Option<&Resource> {
    let cluster = suite.cluster.as_ref()?;
    let has_labels = |name: &str| {
        let mut entries = suite.values.namespace_selectors.iter();
        entries.any(|entry| entry.name.value == name && !entry.labels.is_empty())
    };
    let given = suite.resources.iter().chain(&suite.targets).chain(&suite.params);
    let given = given.map(|resource| resource.object.root());
    let stored = cluster.resources.iter().map(|object| object.value.root());
    let namespaces: Vec<&str> = given
        .chain(stored)
        .filter(|object| {
            let is = |key: &str, text: &str| object.get(key).and_then(Value::as_str) == Some(text);
            is("apiVersion", "v1") && is("kind", "Namespace")
        })
        .filter_map(|object| object.at(&["metadata", "name"]).and_then(Value::as_str))
        .collect();
    suite.resources.iter().find(|resource| {
        let name = resource.namespace.as_str();
        !name.is_empty() && resource.kind != "Namespace" && !has_labels(name) && !namespaces.contains(&name)
    })
}

/// What is green for the wrong reason: one warning a row.
pub(super) fn vacuous(suite: &Suite, cases: &[Case]) -> Vec<Diagnostic> {
    let rows = suite.rows().iter().enumerate();
    rows.filter_map(|(number, row)| {
        let of_row = || cases.iter().filter(|case| case.row == Some(number));
        let excluded = of_row().filter(|case| case.reason == EXCLUDED).count();
        let skipped = of_row().filter(|case| case.outcome == Outcome::Skip).count();
        let plural = |count: usize| if count == 1 { "check passes" } else { "checks pass" };
        let message = if excluded > 0 {
            format!("{excluded} {} although no rule matched", plural(excluded))
        } else if skipped > 0 {
            format!("{skipped} {} although the policy is invalid", plural(skipped))
        } else {
            return None;
        };
        Some(Diagnostic::at(Code::VacuousPass, row.policy.span, message))
    })
    .collect()
}

/// The resources of a row: those that it names; all of them where it names none that exists.
fn selected<'k>(row: &Row, responses: &'k Responses) -> Vec<&'k Key> {
    let named = row.resources.iter().flatten().map(|text| text.value.as_str());
    let mut found: Vec<&Key> = Vec::new();
    for name in named {
        found.extend(responses.named(name));
    }
    for spec in &row.resource_specs {
        found.extend(responses.keys.iter().filter(|key| describes(spec, key)));
    }
    // What is named twice is checked twice.
    found.sort();
    if found.is_empty() {
        responses.keys.iter().collect()
    } else {
        found
    }
}

/// `name` fits any kind and namespace, `namespace/name` any kind; a payload is named by its path.
pub(super) fn names(text: &str, key: &Key) -> bool {
    if key.kind.is_empty() {
        return text == key.name;
    }
    let parts: Vec<&str> = text.split('/').collect();
    match parts[..] {
        [name] => name == key.name,
        [namespace, name] => name == key.name && namespace == key.namespace,
        _ => false,
    }
}

pub(super) fn describes(spec: &ResourceSpec, key: &Key) -> bool {
    let api_version = if spec.group.is_empty() {
        spec.version.clone()
    } else {
        format!("{}/{}", spec.group, spec.version)
    };
    api_version == key.api_version && spec.namespace == key.namespace && spec.name == key.name
}

fn judge_key(
    number: usize,
    row: &Row,
    run: Option<Operation>,
    key: &Key,
    responses: &Responses,
    cases: &mut Vec<Case>,
) {
    let policy = row.policy_name();
    let answers: Vec<&Response> = responses
        .about(Asker::Row(number), run, key)
        .filter(|response| response.policy.name == policy)
        .collect();
    let rule = row.rule.as_ref().map(|rule| rule.value.clone());
    let case = |rule: Option<String>, operation, outcome, reason: &str, kyverno| Case {
        row: Some(number),
        name: None,
        policy: policy.to_owned(),
        rule,
        resource: key.clone(),
        operation,
        expected: row.result.value.as_str(),
        outcome,
        reason: reason.to_owned(),
        kyverno,
        vap: None,
        divergence: None,
        expected_divergence: None,
        accepted: None,
        elapsed: None,
        trace: CaseTrace {
            kyverno: answers.iter().flat_map(|response| response.trace.clone()).collect(),
            vap: Vec::new(),
        },
        data: None,
        place: Some(row.span),
        findings: Vec::new(),
    };
    let operation = run.unwrap_or(Operation::Create);
    if answers.is_empty() {
        let (outcome, reason) = if responses.unsupported.iter().any(|(name, _)| name == policy) {
            (Outcome::Unsupported, "Unsupported")
        } else if responses.refused.iter().any(|(name, _)| name == policy) {
            (Outcome::Skip, "Invalid Policy")
        } else {
            (Outcome::Fail, "Not found")
        };
        cases.push(case(rule, operation, outcome, reason, None));
        return;
    }
    // Silence is printed only where nothing of the resource was printed before.
    let before = cases.len();
    for response in &answers {
        let mut selected = response
            .rules
            .iter()
            .filter(|answer| {
                answers_for(
                    row.rule.as_ref().map(|rule| rule.value.as_str()),
                    response,
                    &answer.rule,
                )
            })
            .peekable();
        if selected.peek().is_none() && cases.len() == before {
            cases.push(case(rule.clone(), response.operation, Outcome::Pass, EXCLUDED, None));
        }
        for answer in selected {
            let verdict = answer.verdict(response.scored);
            let expected = row.result.value.as_str();
            let got = verdict.status.as_str();
            let (outcome, reason) = if verdict.status == kyvtest_model::verdict::Status::Unsupported {
                (Outcome::Unsupported, "Unsupported".to_owned())
            } else if got == expected {
                (Outcome::Pass, "Ok".to_owned())
            } else {
                (Outcome::Fail, format!("Want {expected}, got {got}"))
            };
            let answered = Answer {
                status: verdict.status,
                effect: verdict.effect,
                message: verdict.message,
            };
            cases.push(case(
                Some(answer.rule.clone()),
                response.operation,
                outcome,
                &reason,
                Some(answered),
            ));
        }
    }
}

/// Whether a rule's answer is one that is asked for: all of them where no rule is named, else the rule or what autogen made
/// of it.
pub(super) fn answers_for(wanted: Option<&str>, response: &Response, rule: &str) -> bool {
    let Some(wanted) = wanted.filter(|rule| !rule.is_empty()) else {
        return true;
    };
    !response.has_rules
        || rule == wanted
        || rule.strip_prefix("autogen-").is_some_and(|rest| rest == wanted)
        || rule.strip_prefix("autogen-cronjob-").is_some_and(|rest| rest == wanted)
}
