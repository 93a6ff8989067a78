//! The default lens: a row must be met by an answer, not by silence.

use super::{Answer, Case, Key, Outcome, Response, Responses, compat};
use crate::{
    diagnostic::nearest,
    kube::Operation,
    suite::{Row, Suite},
    verdict::Status,
};

/// Judges all rows.
pub(super) fn judge(suite: &Suite, responses: &Responses) -> Vec<Case> {
    let mut cases = Vec::new();
    for (number, row) in suite.rows().iter().enumerate() {
        let judge = Judge { number, row, responses };
        judge.row(&mut cases);
    }
    cases
}

struct Judge<'s> {
    number: usize,
    row: &'s Row,
    responses: &'s Responses,
}

impl Judge<'_> {
    fn run(&self) -> Option<Operation> {
        self.row.operation.as_ref().map(|operation| operation.value)
    }

    fn keys(&self) -> Vec<&Key> {
        let mut keys: Vec<&Key> = self.responses.keys.iter().collect();
        keys.sort();
        keys.dedup();
        keys
    }

    fn case(&self, rule: Option<String>, key: Key, operation: Operation, outcome: Outcome, reason: String) -> Case {
        Case {
            row: self.number,
            policy: self.row.policy_name().to_owned(),
            rule: rule.or_else(|| self.row.rule.as_ref().map(|rule| rule.value.clone())),
            resource: key,
            operation,
            expected: self.row.result.value.as_str(),
            outcome,
            reason,
            kyverno: None,
        }
    }

    fn row(&self, cases: &mut Vec<Case>) {
        let keys = self.keys();
        let operation = self.run().unwrap_or(Operation::Create);
        let mut selected: Vec<&Key> = Vec::new();
        for name in self.row.resources.iter().flatten() {
            let named: Vec<&Key> = keys
                .iter()
                .copied()
                .filter(|key| compat::names(&name.value, key))
                .collect();
            if named.is_empty() {
                let near = nearest(&name.value, keys.iter().map(|key| key.name.as_str()));
                let hint = near
                    .first()
                    .map(|near| format!("; did you mean `{near}`?"))
                    .unwrap_or_default();
                let key = Key {
                    name: name.value.clone(),
                    ..Key::default()
                };
                let reason = format!("no resource is called `{}`{hint}", name.value);
                cases.push(self.case(None, key, operation, Outcome::Unmatched, reason));
            }
            selected.extend(named);
        }
        if self.row.resources.is_none() || !self.row.resource_specs.is_empty() {
            selected.extend(compat::selected(self.row, &keys));
        }
        selected.sort();
        selected.dedup();
        for key in selected {
            self.key(key, operation, cases);
        }
    }

    fn key(&self, key: &Key, operation: Operation, cases: &mut Vec<Case>) {
        let policy = self.row.policy_name();
        let run = self.run();
        let of_policy = |response: &&Response| {
            response.policy == policy && response.key == *key && (response.run == run || response.key.kind.is_empty())
        };
        let answers: Vec<&Response> = self.responses.list.iter().filter(of_policy).collect();
        if answers.is_empty() {
            let (outcome, reason) = self.no_policy(policy);
            cases.push(self.case(None, key.clone(), operation, outcome, reason));
            return;
        }
        let mut met = false;
        for response in &answers {
            let wanted = response
                .rules
                .iter()
                .filter(|answer| compat::answers_for(self.row, response, &answer.rule));
            for answer in wanted {
                met = true;
                let verdict = answer.verdict(response.scored);
                let expected = self.row.result.value.as_str();
                let (outcome, reason) = match verdict.status {
                    Status::Unsupported => (Outcome::Unsupported, verdict.message.clone()),
                    status if status.as_str() == expected => (Outcome::Pass, String::new()),
                    status => (Outcome::Fail, format!("expected {expected}, got {status}")),
                };
                let mut case = self.case(
                    Some(answer.rule.clone()),
                    key.clone(),
                    response.operation,
                    outcome,
                    reason,
                );
                case.kyverno = Some(Answer {
                    status: verdict.status,
                    effect: verdict.effect,
                    message: verdict.message,
                });
                cases.push(case);
            }
        }
        if !met {
            let (outcome, reason) = self.no_rule(&answers);
            cases.push(self.case(None, key.clone(), operation, outcome, reason));
        }
    }

    fn no_policy(&self, policy: &str) -> (Outcome, String) {
        if let Some((_, kind)) = self.responses.unsupported.iter().find(|(name, _)| name == policy) {
            return (Outcome::Unsupported, format!("policies of kind {kind} are not decided"));
        }
        if let Some((_, error)) = self.responses.refused.iter().find(|(name, _)| name == policy) {
            return (Outcome::Error, format!("the policy is refused: {error}"));
        }
        let near = nearest(
            policy,
            self.responses.list.iter().map(|response| response.policy.as_str()),
        );
        let hint = near
            .first()
            .map(|near| format!("; did you mean `{near}`?"))
            .unwrap_or_default();
        (Outcome::Unmatched, format!("no policy is called `{policy}`{hint}"))
    }

    /// Nothing answered: a wrong rule name, or a policy that does not match. `skip` is also met by the latter.
    fn no_rule(&self, answers: &[&Response]) -> (Outcome, String) {
        let Some(rule) = self
            .row
            .rule
            .as_ref()
            .map(|rule| rule.value.as_str())
            .filter(|rule| !rule.is_empty())
        else {
            return self.no_match("the policy does not match the resource");
        };
        let rules = self
            .responses
            .rules
            .iter()
            .find(|(policy, _)| policy == self.row.policy_name());
        let known: Vec<&str> = rules.iter().flat_map(|(_, names)| names).map(String::as_str).collect();
        let exists = known.iter().any(|name| compat::answers_for(self.row, answers[0], name));
        if answers.iter().any(|response| response.has_rules) && !exists {
            let near = nearest(rule, known.iter().copied());
            let hint = near
                .first()
                .map(|near| format!("; did you mean `{near}`?"))
                .unwrap_or_default();
            return (Outcome::Unmatched, format!("the policy has no rule `{rule}`{hint}"));
        }
        self.no_match(&format!("rule `{rule}` does not match the resource"))
    }

    fn no_match(&self, reason: &str) -> (Outcome, String) {
        if self.row.result.value.as_str() == "skip" {
            (Outcome::Pass, reason.to_owned())
        } else {
            (Outcome::Unmatched, reason.to_owned())
        }
    }
}
