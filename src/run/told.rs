//! How the engines came to their answers, in lines for people (`kyvtest run -v`).

use kyvtest_apiserver::{Answer, PolicyVerdict};
use kyvtest_cel::story::Evaluation;
use kyvtest_kyverno::response::RuleResponse;
use kyvtest_model::verdict::Trace;

/// What is told about a case, by engine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Told {
    /// Of Kyverno's engine.
    pub kyverno: Vec<String>,
    /// Of the API server's.
    pub vap: Vec<String>,
}

/// What expressions came to, each with its parts below it. What is asked again is told once.
pub(super) fn evaluations(found: Vec<Evaluation>) -> impl Iterator<Item = String> {
    let mut once: Vec<Evaluation> = Vec::new();
    for evaluation in found {
        if !once.contains(&evaluation) {
            once.push(evaluation);
        }
    }
    once.into_iter().flat_map(|Evaluation { text, value, parts }| {
        let parts = parts.into_iter().map(|(text, value)| format!("    {text} = {value}"));
        std::iter::once(format!("{text} = {value}")).chain(parts)
    })
}

/// What decided the answers of rules.
pub(super) fn rules(answers: &[RuleResponse]) -> impl Iterator<Item = String> {
    answers.iter().map(|answer| {
        let rule = if answer.rule.is_empty() {
            String::new()
        } else {
            format!("rule `{}`: ", answer.rule)
        };
        format!("{rule}{}, decided by {}", answer.status, part(answer.trace))
    })
}

/// What decided the answers of bindings.
pub(super) fn bindings(answer: &Answer) -> impl Iterator<Item = String> {
    answer.verdicts.iter().map(|said: &PolicyVerdict| {
        let binding = said.binding.as_ref().map(|binding| format!("binding `{binding}`: "));
        let param = said.param.as_ref().map(|param| format!("params `{param}`: "));
        format!(
            "{}{}{}, decided by {}",
            binding.unwrap_or_default(),
            param.unwrap_or_default(),
            said.verdict.status,
            part(said.verdict.trace)
        )
    })
}

fn part(trace: Trace) -> String {
    let erred = if trace.erred { " (error)" } else { "" };
    format!("{}{erred}", trace.part)
}
