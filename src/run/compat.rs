//! The verdicts that `kyverno test` prints, quirks included.
//!
//! Upstream counterpart: `commands/test/output.go` (`printTestResult`), `commands/test/command.go` (`checkResult`).

use super::{Case, CaseTrace, CaseVerdict, CheckId, Key, Outcome, Response, Responses, Settings, objects};
use crate::suite::{Resource, ResourceSpec, Row, Suite, Upstream};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Severity, Span},
    value::{Document, Value},
};
use kyvtest_kyverno::{offline::RuleType, response::RuleResponse};
use kyvtest_model::{
    kube::{Discovery, Operation},
    policy::{PolicyKind, Spanned, Text},
};

/// The reason of a row that passes because no rule had a result.
pub const EXCLUDED: &str = "Excluded";

/// Judges all rows.
pub(super) fn judge(suite: &Suite, responses: &Responses, settings: &Settings) -> Vec<Case> {
    let mut cases = Vec::new();
    for (number, row) in suite.rows().iter().enumerate() {
        if settings.is_stopped() {
            break;
        }
        let run: Option<Operation> = row.operation.as_ref().map(|operation| operation.value);
        for key in selected(row, run, responses) {
            let judge = Judge {
                number,
                row,
                run,
                key,
                responses,
            };
            judge.all(&mut cases);
        }
    }
    cases
}

/// Adjusts the problems of a suite to the behaviour of `kyverno test`: those that it survives are warnings, and a crash
/// is an error.
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
            if let Some(resource) = first_resource_in_missing_namespace(suite) {
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
        // A suite without rows is skipped.
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

/// The first condition of a webhook, which its static validation cannot check without a cluster
/// (`pkg/validation/policy/validate.go` `Validate`). A ClusterPolicy in a namespace is rejected earlier.
fn crashing_condition(suite: &Suite) -> Option<&Text> {
    let policies = suite.policies.classic();
    let mut checked =
        policies.filter(|policy| policy.kind == PolicyKind::Policy || policy.metadata.namespace.is_none());
    checked.find_map(|policy| Some(&policy.spec.webhook.as_ref()?.match_conditions.first()?.name))
}

/// The first object of the context whose kind Kyverno's mapper does not know; CEL policies then cannot be evaluated
/// (`cmd/cli/kubectl-kyverno/processor/utils.go` `NewContextProvider`).
fn unmapped(suite: &Suite) -> Option<&Spanned<Document>> {
    let needs_context = suite.cluster.is_none() && suite.policies.validating().next().is_some();
    let context = suite.context.as_ref().filter(|_| needs_context)?;
    let discovery = Discovery::kubernetes();
    context.resources.iter().find(|object| {
        let text = |key: &str| object.value.root().get(key).and_then(Value::as_str).unwrap_or_default();
        discovery.mapped(text("apiVersion"), text("kind")).is_none()
    })
}

/// The first resource whose namespace `kyverno test` does not find in its cluster
/// (`cmd/cli/kubectl-kyverno/processor/policy_processor.go`): that has the cluster's objects, the resources, targets
/// and parameters.
fn first_resource_in_missing_namespace(suite: &Suite) -> Option<&Resource> {
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

/// Warns about rows that pass for the wrong reason: one warning per row.
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

/// The resources of a row: those that it names; all of them if it names none that exists. The pass for an operation has
/// no payloads.
fn selected<'k>(row: &Row, run: Option<Operation>, responses: &'k Responses) -> Vec<&'k Key> {
    let named = row.resources.iter().flatten().map(|text| text.value.as_str());
    let mut found: Vec<&Key> = Vec::new();
    // Existing objects count only if a policy changed them.
    let patched: Vec<&Key> = responses.patched_keys();
    for name in named {
        found.extend(patched.iter().copied().filter(|key| names(name, key)));
        found.extend(responses.named(name));
    }
    if row.resources.is_some() {
        for spec in &row.resource_specs {
            let all = patched.iter().copied().chain(&responses.keys);
            found.extend(all.filter(|key| describes(spec, key)));
        }
    }
    let exists = |key: &&Key| run.is_none() || !key.kind.is_empty();
    found.retain(exists);
    // A resource named twice is checked twice.
    found.sort();
    if found.is_empty() {
        patched.into_iter().chain(&responses.keys).filter(exists).collect()
    } else {
        found
    }
}

/// `name` matches any kind and namespace, `namespace/name` any kind; a payload is named by its path.
pub(crate) fn names(text: &str, key: &Key) -> bool {
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

/// Checks one row on one resource.
struct Judge<'s> {
    number: usize,
    row: &'s Row,
    run: Option<Operation>,
    key: &'s Key,
    responses: &'s Responses,
}

impl Judge<'_> {
    fn all(&self, cases: &mut Vec<Case>) {
        let policy = self.row.policy_name();
        let answers: Vec<&Response> = self
            .responses
            .about(CheckId::Row(self.number), self.run, self.key)
            .filter(|response| response.policy.name == policy)
            .collect();
        let trace: Vec<String> = answers.iter().flat_map(|response| response.trace.clone()).collect();
        let before = cases.len();
        // A row whose expected object is missing prints nothing.
        let mut vanished = false;
        for response in &answers {
            self.response(response, cases, &mut vanished);
            // A missing result is printed only if nothing was printed for the resource before.
            if cases.len() == before && !vanished {
                let rule = self.row.rule.as_ref().map(|rule| rule.value.clone());
                cases.push(self.case(rule, response.operation, Outcome::Pass, EXCLUDED, None));
            }
        }
        self.targets(cases);
        if cases.len() == before {
            cases.push(self.nothing(vanished));
        }
        for case in &mut cases[before..] {
            case.trace.kyverno.clone_from(&trace);
        }
    }

    /// The rules of a response that the row tests.
    fn response(&self, response: &Response, cases: &mut Vec<Case>, vanished: &mut bool) {
        let rule = self.row.rule.as_ref().map(|rule| rule.value.as_str());
        let empty = Document::from(&serde_json::Value::Null);
        for (number, answer) in response.rules.iter().enumerate() {
            if !answers_for(rule, response, &answer.rule) {
                continue;
            }
            let objects = response.objects.as_deref();
            let made = objects.and_then(|objects| objects.rules.get(number));
            let rule_type = made.map_or(RuleType::Validation, |made| made.rule_type);
            let generated = made.map_or(&[][..], |made| &made.generated);
            let mut add = |key: &Key, object: Option<&Document>| {
                let checked = self.check(response, answer, object);
                if checked.is_missing && !self.row.fail_on_missing_resources && rule_type != RuleType::Generation {
                    *vanished = true;
                    return;
                }
                let mut case = self.checked(response, answer, checked);
                case.resource = key.clone();
                cases.push(case);
            };
            match rule_type {
                RuleType::Generation if generated.is_empty() => add(self.key, None),
                RuleType::Generation => {
                    for object in generated {
                        let name = object.root().at(&["metadata", "name"]).and_then(Value::as_str);
                        let key = Key::named(name.unwrap_or_default());
                        add(&key, Some(object));
                    }
                }
                // Responses about existing objects have no patched one, and an empty object is compared in its place.
                RuleType::Mutation => {
                    let patched = objects.map(|objects| objects.patched.as_ref().unwrap_or(&empty));
                    add(self.key, patched);
                }
                RuleType::Validation | RuleType::Deletion | RuleType::ImageVerify => {
                    add(self.key, objects.map(|objects| &objects.resource));
                }
            }
        }
    }

    /// The responses that changed the object as an existing one, regardless of the row's policy and rule.
    fn targets(&self, cases: &mut Vec<Case>) {
        for (response, number) in self.responses.patched(self.key) {
            let made = response
                .objects
                .as_deref()
                .and_then(|objects| objects.rules.get(number));
            let object = made.and_then(|made| made.target.as_ref());
            if let Some(answer) = response.rules.get(number) {
                let checked = self.check(response, answer, object);
                cases.push(self.checked(response, answer, checked));
            }
        }
    }

    /// Compares the result of a rule with the row: first the object, if there is one, then the status.
    fn check(&self, response: &Response, answer: &RuleResponse, object: Option<&Document>) -> Checked {
        if let Some(object) = object {
            let patched = self.row.patched_resources.iter().map(|path| path.value.as_str());
            for path in patched {
                if let Some(problem) = self.differs(path, object, "PatchedResources") {
                    return problem;
                }
            }
            let several = self.row.generated_resources.as_deref().unwrap_or_default();
            if !several.is_empty() {
                let problems: Option<Vec<Checked>> = several
                    .iter()
                    .map(|path| self.differs(&path.value, object, "GeneratedResources"))
                    .collect();
                // A difference is more informative than an unusable file; of several, the last counts.
                if let Some(mut problems) = problems {
                    let at = problems.iter().rposition(|problem| problem.reason == DIFF);
                    let at = at.unwrap_or(problems.len() - 1);
                    return problems.swap_remove(at);
                }
            } else if let Some(path) = &self.row.generated_resource
                && let Some(problem) = self.differs(&path.value, object, "GeneratedResource")
            {
                return problem;
            }
        }
        let status = answer.verdict(response.scored).status;
        let expected = self.row.unknown_result.as_deref();
        let expected = expected.unwrap_or_else(|| self.row.result.value.as_str());
        let (outcome, reason) = match status.as_str() {
            _ if status.is_undecided() => (Outcome::Unsupported, "Unsupported".to_owned()),
            got if got == expected => (Outcome::Pass, "Ok".to_owned()),
            got => (Outcome::Fail, format!("Want {expected}, got {got}")),
        };
        Checked {
            outcome,
            reason,
            message: None,
            is_missing: false,
        }
    }

    /// Compares an object with the one in a file.
    fn differs(&self, path: &str, object: &Document, what: &str) -> Option<Checked> {
        let fail = |reason: &str, message: String, is_missing| Checked {
            outcome: Outcome::Fail,
            reason: reason.to_owned(),
            message: Some(message),
            is_missing,
        };
        let failed = |why: &str, is_missing| {
            let message = format!("error: failed to load {what} resource ({why})");
            Some(fail("Resource error", message, is_missing))
        };
        let Some(file) = self.responses.expected(path) else {
            return failed("the file was not read", false);
        };
        if let Some(problem) = &file.problem {
            return failed(problem, false);
        }
        let Some(expected) = objects::expected_for(object, &file.objects) else {
            let name = object.root().at(&["metadata", "name"]).and_then(Value::as_str);
            let name = name.unwrap_or_default();
            return failed(&format!("resource with name {name} not found in manifest"), true);
        };
        let differences = objects::differences(&expected.object, object);
        (!differences.is_empty()).then(|| {
            let about = match what {
                "PatchedResources" => "Patched resource didn't match the patched resource in the test result",
                "GeneratedResource" => "Patched resource didn't match the generated resource in the test result",
                _ => "Generated resource didn't match any of the expected generated resources in the test result",
            };
            fail(DIFF, format!("{about}{}", objects::describe(&differences)), false)
        })
    }

    fn checked(&self, response: &Response, answer: &RuleResponse, checked: Checked) -> Case {
        let verdict = answer.verdict(response.scored);
        let answered = CaseVerdict {
            status: verdict.status,
            effect: verdict.effect,
            message: checked.message.unwrap_or(verdict.message),
        };
        self.case(
            Some(answer.rule.clone()),
            response.operation,
            checked.outcome,
            &checked.reason,
            Some(answered),
        )
    }

    /// The case of a resource for which nothing is printed, or that no policy has a result for.
    fn nothing(&self, vanished: bool) -> Case {
        let policy = self.row.policy_name();
        let (outcome, reason) = if vanished {
            (Outcome::Silent, "the expected object is missing from its file")
        } else if self.responses.refused.iter().any(|(name, _)| name == policy) {
            (Outcome::Skip, "Invalid Policy")
        } else {
            (Outcome::Fail, "Not found")
        };
        let rule = self.row.rule.as_ref().map(|rule| rule.value.clone());
        self.case(rule, self.run.unwrap_or(Operation::Create), outcome, reason, None)
    }

    fn case(
        &self,
        rule: Option<String>,
        operation: Operation,
        outcome: Outcome,
        reason: &str,
        kyverno: Option<CaseVerdict>,
    ) -> Case {
        Case {
            row: Some(self.number),
            name: None,
            policy: column(&self.row.policy.value),
            rule,
            resource: self.key.clone(),
            operation,
            expected: self.row.result.value.as_str(),
            outcome,
            reason: reason.to_owned(),
            kyverno,
            vap: None,
            divergence: None,
            expected_divergence: None,
            mocked: false,
            accepted: None,
            elapsed: None,
            trace: CaseTrace::default(),
            data: None,
            place: Some(self.row.span),
            findings: Vec::new(),
        }
    }
}

/// The policy of a row as the table shows it: of a text with slashes the first two parts
/// (`cmd/cli/kubectl-kyverno/output/color/color.go` `Policy`).
fn column(policy: &str) -> String {
    let mut parts = policy.split('/');
    match (parts.next(), parts.next()) {
        (Some(""), Some(name)) => name.to_owned(),
        (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
        _ => policy.to_owned(),
    }
}

/// The reason of a row whose expected object differs.
const DIFF: &str = "Resource diff";

/// The comparison of a rule's result with a row.
struct Checked {
    outcome: Outcome,
    reason: String,
    /// Replaces the rule's message.
    message: Option<String>,
    /// Whether the expected object is missing in its file.
    is_missing: bool,
}

/// Whether a row selects a rule's result: all of them if it names no rule, else the rule or those that autogen made of
/// it.
pub(super) fn answers_for(wanted: Option<&str>, response: &Response, rule: &str) -> bool {
    let Some(wanted) = wanted.filter(|rule| !rule.is_empty()) else {
        return true;
    };
    !response.has_rules
        || rule == wanted
        || rule.strip_prefix("autogen-").is_some_and(|rest| rest == wanted)
        || rule.strip_prefix("autogen-cronjob-").is_some_and(|rest| rest == wanted)
}
