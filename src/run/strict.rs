//! The default lens: a row must be met by a result, not by a missing match.

use std::{collections::BTreeSet, time::Duration};

use super::{
    Case, CaseTrace, CaseVerdict, Key, Outcome, Response, Responses, Settings,
    check::Check,
    compat,
    expect::{MergedExpectation, settle},
    lens, objects,
};
use crate::suite::{Expected, Suite};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Span, nearest},
    value::{Document, Value},
};
use kyvtest_kyverno::{
    offline::RuleType,
    response::{RegistryUse, RuleResponse},
};
use kyvtest_model::{kube::Operation, policy::Text, verdict::Status};

/// Judges all rows, and the cases of the sidecar.
pub(super) fn judge(suite: &Suite, responses: &Responses, settings: &Settings) -> Vec<Case> {
    let named = Check::all(suite).map(|check| check.resources.map_or(1, <[_]>::len));
    let mut cases = Vec::with_capacity(named.sum());
    for check in Check::all(suite) {
        if settings.is_stopped() {
            break;
        }
        let judge = Judge {
            suite,
            check,
            responses,
        };
        judge.all(&mut cases);
    }
    cases
}

struct Judge<'s> {
    suite: &'s Suite,
    check: Check<'s>,
    responses: &'s Responses,
}

/// The advice about an image that requires a registry.
const MOCKS: &str = "state what the registry would answer in `images` of the sidecar `kyvtest.yaml`";

/// The maximum number of listed differences of an object.
const SHOWN: usize = 10;

/// The reason why there is no result.
enum Silence {
    /// The policy and the rule exist, but do not match.
    NoMatch(Diagnostic),
    /// Any other reason.
    Other(Outcome, Option<Diagnostic>, String),
}

impl Judge<'_> {
    fn case(&self, rule: Option<String>, key: &Key, operation: Operation, outcome: Outcome, reason: &str) -> Case {
        let check = &self.check;
        Case {
            row: check.row(),
            name: check.name.map(|name| name.value.clone()),
            policy: check.policy_name().to_owned(),
            rule: rule.or_else(|| check.rule.map(|rule| rule.value.clone())),
            resource: key.clone(),
            operation,
            expected: check.expected(),
            outcome,
            reason: reason.to_owned(),
            kyverno: None,
            vap: None,
            divergence: None,
            expected_divergence: None,
            accepted: None,
            elapsed: None,
            trace: CaseTrace::default(),
            data: None,
            mocked: false,
            place: Some(check.span),
            findings: Vec::new(),
        }
    }

    /// A case without a result.
    fn unmatched(&self, key: &Key, finding: Diagnostic) -> Case {
        let mut reason = finding.message.clone();
        for help in &finding.help {
            reason.push_str("; ");
            reason.push_str(help);
        }
        let mut case = self.case(None, key, self.operation(), Outcome::Unmatched, &reason);
        case.findings.push(finding);
        case
    }

    fn operation(&self) -> Operation {
        self.check.operation.unwrap_or(Operation::Create)
    }

    fn all(&self, cases: &mut Vec<Case>) {
        let keys = &self.responses.keys;
        let before = cases.len();
        let unknown = |text: &str, span: Span| {
            let near = nearest(text, keys.iter().map(|key| key.name.as_str()));
            let message = format!("resource `{text}` not found");
            let key = Key::named(text);
            self.unmatched(
                &key,
                suggest(Diagnostic::at(Code::NoSuchResource, span, message), &near),
            )
        };
        for name in self.check.resources.into_iter().flatten() {
            if self.responses.named(&name.value).next().is_none() && !self.existing(name, cases) {
                cases.push(unknown(&name.value, name.span));
            }
        }
        for spec in self.check.specs {
            if !keys.iter().any(|key| compat::describes(spec, key)) {
                cases.push(unknown(&spec.name, spec.span));
            }
        }
        let keys = self.check.keys(self.responses);
        for key in keys.iter().filter(|key| self.responses.is_wanted(key)) {
            self.key(key, cases);
        }
        if keys.is_empty() && cases.len() == before {
            let span = Span::point(self.check.span.file, self.check.span.start);
            let finding = Diagnostic::at(Code::NothingChecked, span, "the row applies to no resource");
            cases.push(self.unmatched(&Key::default(), finding));
        }
    }

    /// Checks the existing objects of a name, as rules of the row changed them. Returns `false` if there is none of the name.
    fn existing(&self, name: &Text, cases: &mut Vec<Case>) -> bool {
        let targets = self.responses.targets.iter();
        let named: Vec<&Key> = targets.filter(|key| key.references().contains(&name.value)).collect();
        for key in &named {
            let before = cases.len();
            for (response, number) in self.responses.changes(key) {
                let Some(answer) = response.rules.get(number) else {
                    continue;
                };
                let is_own = response.policy.is_named(&self.check.policy.value)
                    && compat::answers_for(self.check.rule_name(), response, &answer.rule);
                if is_own {
                    let wanted = self.check.wanted(self.suite, key);
                    let first = cases.len();
                    cases.push(self.compared(key, response, number, answer));
                    wanted.judge(&mut cases[first..], true);
                    settle(&mut cases[first]);
                }
            }
            if cases.len() == before {
                let message = format!("no rule of this row changed the existing object `{}`", name.value);
                let finding = Diagnostic::at(Code::NoMatch, name.span, message);
                cases.push(self.unmatched(key, finding));
            }
        }
        !named.is_empty()
    }

    fn key(&self, key: &Key, cases: &mut Vec<Case>) {
        let wanted = self.check.wanted(self.suite, key);
        let policy = self.check.policy.value.as_str();
        let answers: Vec<&Response> = self
            .responses
            .about(self.check.id, self.check.operation, key)
            .filter(|response| response.policy.is_named(policy))
            .collect();
        let before = cases.len();
        for response in &answers {
            let rules = response.rules.iter().enumerate();
            let selected =
                rules.filter(|(_, answer)| compat::answers_for(self.check.rule_name(), response, &answer.rule));
            for (number, answer) in selected {
                cases.push(self.compared(key, response, number, answer));
            }
        }
        let matched = cases.len() > before;
        if !matched {
            cases.push(self.silent(key, &answers, &wanted));
        }
        wanted.judge(&mut cases[before..], matched);
        let elapsed = answers
            .iter()
            .map(|response| response.elapsed)
            .sum::<Option<Duration>>();
        if let Some(finding) = self.uncompared(&answers)
            && let Some(case) = cases.get_mut(before)
        {
            case.add_finding(finding);
        }
        let counterpart = answers.iter().find_map(|response| response.counterpart.as_deref());
        for case in &mut cases[before..] {
            case.data = lens::describe(case, &answers, self.check.rule_name());
            case.elapsed = elapsed.filter(|_| !answers.is_empty());
            case.trace.kyverno = answers.iter().flat_map(|response| response.trace.clone()).collect();
            if let Some(counterpart) = counterpart {
                case.trace.vap.clone_from(&counterpart.trace);
                case.vap.clone_from(&counterpart.native);
                case.divergence.clone_from(&counterpart.divergence);
            }
            settle(case);
        }
    }

    /// The case of a rule's result, with the comparison of its object.
    fn compared(&self, key: &Key, response: &Response, number: usize, answer: &RuleResponse) -> Case {
        let verdict = answer.verdict(response.scored);
        let mut case = self.answered(
            key,
            response.operation,
            &answer.rule,
            CaseVerdict {
                status: verdict.status,
                effect: verdict.effect,
                message: verdict.message,
            },
        );
        case.mocked = answer.registry == RegistryUse::Mocked;
        if let Some(finding) = self.object_finding(response, number) {
            case.reason.clone_from(&finding.message);
            case.outcome = Outcome::Fail;
            case.findings.push(finding);
        }
        case
    }

    fn answered(&self, key: &Key, operation: Operation, rule: &str, answer: CaseVerdict) -> Case {
        let expected = self.check.expected();
        let status = answer.status;
        let (outcome, reason) = match (status, self.check.result) {
            (Status::NeedsRegistry, _) => (Outcome::NeedsRegistry, answer.message.clone()),
            (Status::Unsupported, _) => (Outcome::Unsupported, answer.message.clone()),
            (_, None) => (Outcome::Pass, String::new()),
            (_, Some(_)) if status.as_str() == expected => (Outcome::Pass, String::new()),
            (_, Some(_)) => (Outcome::Fail, format!("expected {expected}, got {status}")),
        };
        let mut case = self.case(Some(rule.to_owned()), key, operation, outcome, &reason);
        if outcome.is_undecided() {
            let span = self.check.rule.map_or(self.check.policy.span, |rule| rule.span);
            let finding = |code| Diagnostic::at(code, span, answer.message.clone());
            case.findings.push(match outcome {
                Outcome::NeedsRegistry => finding(Code::NeedsRegistry).with_help(MOCKS),
                _ => finding(Code::UnsupportedRule),
            });
        }
        if let (Outcome::Fail, Some(result)) = (outcome, self.check.result) {
            case.findings
                .push(Diagnostic::at(Code::UnexpectedResult, result.span, reason));
        }
        case.kyverno = Some(answer);
        case
    }

    /// Reports a file with expected objects if the row's rules have results, and none of them is of the type that makes such objects.
    fn uncompared(&self, answers: &[&Response]) -> Option<Diagnostic> {
        let row = self.check.row().and_then(|row| self.suite.rows().get(row))?;
        let mut types = Vec::new();
        for response in answers {
            for (number, answer) in response.rules.iter().enumerate() {
                if !compat::answers_for(self.check.rule_name(), response, &answer.rule) {
                    continue;
                }
                let objects = response.objects.as_deref();
                let made = objects.and_then(|objects| objects.rules.get(number));
                types.push(made.map_or(RuleType::Validation, |made| made.rule_type));
            }
        }
        let has = |wanted: &[RuleType]| types.iter().any(|of| wanted.contains(of));
        let generated = row.generated_resources.iter().flatten().next();
        let generated = generated.or(row.generated_resource.as_ref());
        let changes = [RuleType::Mutation, RuleType::ImageVerify];
        let (path, what) = match (&row.patched_resources, generated) {
            _ if types.is_empty() => return None,
            (Some(path), _) if !has(&changes) => (path, "changes"),
            (_, Some(path)) if !has(&[RuleType::Generation]) => (path, "generates"),
            _ => return None,
        };
        let message = format!(
            "nothing is compared with `{}`: no rule of this row {what} objects",
            path.value
        );
        Some(Diagnostic::at(Code::UnexpectedResult, path.span, message))
    }

    /// Checks the objects of a rule's result, if the row expects any.
    fn object_finding(&self, response: &Response, number: usize) -> Option<Diagnostic> {
        let row = self.check.row().and_then(|row| self.suite.rows().get(row))?;
        let objects = response.objects.as_deref()?;
        let made = objects.rules.get(number)?;
        match made.rule_type {
            RuleType::Mutation => {
                let path = row.patched_resources.as_ref()?;
                let object = made.target.as_ref().or(objects.patched.as_ref());
                self.object_differs(path, object.filter(|object| !object.root().is_null()))
            }
            RuleType::Generation => {
                let several = row.generated_resources.iter().flatten();
                let paths: Vec<&Text> = several.chain(&row.generated_resource).collect();
                let first = *paths.first()?;
                if made.generated.is_empty() {
                    return self.object_differs(first, None);
                }
                let problem = |object: &Document| {
                    let mut problems = paths.iter().map(|path| self.object_differs(path, Some(object)));
                    let first = problems.next()??;
                    problems.all(|problem| problem.is_some()).then_some(first)
                };
                made.generated.iter().find_map(problem)
            }
            // Of the results about images, those with an object are compared.
            RuleType::ImageVerify => {
                let (path, object) = (row.patched_resources.as_ref()?, objects.patched.as_ref()?);
                self.object_differs(path, Some(object))
            }
            RuleType::Validation | RuleType::Deletion => None,
        }
    }

    /// Compares an object with the one in a file.
    fn object_differs(&self, path: &Text, object: Option<&Document>) -> Option<Diagnostic> {
        let finding = |message: String| Some(Diagnostic::at(Code::UnexpectedResult, path.span, message));
        let Some(object) = object else {
            return finding(format!("no object to compare with `{}`", path.value));
        };
        let file = self.responses.expected(&path.value)?;
        let Some(expected) = objects::expected_for(object, &file.objects) else {
            let name = object.root().at(&["metadata", "name"]).and_then(Value::as_str);
            let message = format!("`{}` does not contain `{}`", path.value, name.unwrap_or_default());
            return finding(message);
        };
        let differences = objects::differences(&expected.object, object);
        if differences.is_empty() {
            return None;
        }
        let count = differences.len();
        let places = if count == 1 {
            "one place".to_owned()
        } else {
            format!("{count} places")
        };
        let mut found = finding(format!("the object differs from `{}` in {places}", path.value))?;
        for difference in differences.iter().take(SHOWN) {
            found = found.with_note(difference.to_string());
        }
        let start = Span::point(expected.origin.file, expected.origin.span.start);
        Some(found.with_label(start, "the expected object"))
    }

    fn silent(&self, key: &Key, answers: &[&Response], wanted: &MergedExpectation<'_>) -> Case {
        let silence = if answers.is_empty() {
            self.no_policy(key)
        } else {
            self.no_rule(answers, key)
        };
        match silence {
            Silence::NoMatch(finding) => {
                let skips = self.check.result.is_some_and(|result| result.value == Expected::Skip);
                if skips || self.check.result.is_none() && wanted.no_match() {
                    return self.case(None, key, self.operation(), Outcome::Pass, &finding.message);
                }
                self.unmatched(key, finding)
            }
            Silence::Other(Outcome::Unmatched, Some(finding), _) => self.unmatched(key, finding),
            Silence::Other(outcome, finding, reason) => {
                let mut case = self.case(None, key, self.operation(), outcome, &reason);
                case.findings.extend(finding);
                case
            }
        }
    }

    fn no_policy(&self, key: &Key) -> Silence {
        let policy = self.check.policy_name();
        let span = self.check.policy.span;
        if let Some((_, error)) = self.responses.refused.iter().find(|(name, _)| name == policy) {
            let reason = format!("the policy is rejected: {error}");
            let finding = Diagnostic::at(Code::PolicyRefused, span, reason.clone());
            return Silence::Other(Outcome::Error, Some(finding), reason);
        }
        if self.responses.policies.iter().any(|name| name == policy) {
            return no_match(&format!("policy `{policy}`"), key, span);
        }
        let near = nearest(policy, self.responses.policies.iter().map(String::as_str));
        let finding = Diagnostic::at(Code::NoSuchPolicy, span, format!("policy `{policy}` not found"));
        Silence::Other(Outcome::Unmatched, Some(suggest(finding, &near)), String::new())
    }

    /// Finds the reason for a missing result: a wrong rule name, or a policy that does not match. The latter also meets
    /// `skip`.
    fn no_rule(&self, answers: &[&Response], key: &Key) -> Silence {
        let (Some(rule), Some(name)) = (self.check.rule_name(), self.check.rule) else {
            let policy = format!("policy `{}`", self.check.policy_name());
            return no_match(&policy, key, self.check.policy.span);
        };
        let policy = self.check.policy_name();
        let rules = self.responses.rules.iter().filter(|(of, _)| of == policy);
        let known: Vec<&str> = rules.flat_map(|(_, names)| names).map(String::as_str).collect();
        let with_rules = answers.iter().find(|response| response.has_rules);
        let exists = |response: &Response| known.iter().any(|name| compat::answers_for(Some(rule), response, name));
        if with_rules.is_some_and(|response| !exists(response)) {
            let near = nearest(rule, known.iter().copied());
            let finding = Diagnostic::at(Code::NoSuchRule, name.span, format!("the policy has no rule `{rule}`"));
            return Silence::Other(Outcome::Unmatched, Some(suggest(finding, &near)), String::new());
        }
        no_match(&format!("rule `{rule}`"), key, name.span)
    }
}

/// Warns about rows whose `kind` none of their resources has. The kind of a row is never used, so a wrong one goes
/// unnoticed.
pub(super) fn unfitting_kinds(suite: &Suite, responses: &Responses) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (check, row) in Check::all(suite).zip(suite.rows()) {
        let Some(kind) = row.kind.as_ref().filter(|kind| !kind.value.contains('*')) else {
            continue;
        };
        let wanted = kind.value.rsplit('/').next().unwrap_or_default();
        let keys = check.keys(responses);
        let keys = keys.into_iter().filter(|key| !key.kind.is_empty());
        let kinds: BTreeSet<&str> = keys.map(|key| key.kind.as_str()).collect();
        if kinds.is_empty() || kinds.contains(wanted) {
            continue;
        }
        let message = format!("no resource of this row has the kind `{}`", kind.value);
        let finding = Diagnostic::at(Code::NoSuchKind, kind.span, message);
        let near = nearest(wanted, kinds.iter().copied());
        let listed: Vec<String> = kinds.iter().map(|kind| format!("`{kind}`")).collect();
        found.push(match near.first() {
            Some(near) => finding.with_help(format!("did you mean `{near}`?")),
            None => finding.with_help(format!("the resources have the kind {}", listed.join(", "))),
        });
    }
    found
}

fn no_match(who: &str, key: &Key, span: Span) -> Silence {
    let mut resource = String::new();
    if !key.kind.is_empty() {
        resource.push_str(&key.kind);
        resource.push(' ');
    }
    let slash = if key.namespace.is_empty() { "" } else { "/" };
    let message = format!("{who} does not match {resource}`{}{slash}{}`", key.namespace, key.name);
    let finding = Diagnostic::at(Code::NoMatch, span, message);
    Silence::NoMatch(finding.with_help("expect `skip` if that is intended"))
}

fn suggest(finding: Diagnostic, near: &[&str]) -> Diagnostic {
    match near.first() {
        Some(near) => finding.with_help(format!("did you mean `{near}`?")),
        None => finding,
    }
}
