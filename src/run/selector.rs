//! Kyverno's `--test-case-selector`: `policy=…,rule=…,resource=…` with wildcards.
//!
//! Upstream counterpart: `cmd/cli/kubectl-kyverno/test/filter`, and `commands/test/command.go` for the treatment of the
//! selected rows.

use super::{Case, source_map};
use crate::suite::Suite;
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, FileId, Span},
    text::wildcard,
};
use kyvtest_model::policy::Spanned;

/// Selects rows. All patterns must match.
#[derive(Debug, Clone, Default)]
pub struct Selector {
    policies: Vec<String>,
    rules: Vec<String>,
    resources: Vec<Spanned<String>>,
    /// Whether `resource=` also replaces the resources of the selected rows.
    replaces: bool,
}

impl Selector {
    /// Parses a selector. Kyverno reports invalid parts and continues with the others.
    pub fn parse(text: &str, file: FileId) -> (Self, Vec<Diagnostic>) {
        let mut selector = Self::default();
        let mut problems = Vec::new();
        let mut at = 0;
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let span = Span::new(file, at as u32, (at + part.len()) as u32);
            at += part.len() + 1;
            let pair: Vec<&str> = part.split('=').map(str::trim).collect();
            let [key, value] = pair[..] else {
                let message = format!("`{part}` does not have the form `key=value`");
                problems.push(Diagnostic::at(Code::BadFilter, span, message));
                continue;
            };
            match key {
                "policy" => selector.policies.push(value.to_owned()),
                "rule" => selector.rules.push(value.to_owned()),
                "resource" => selector.resources.push(Spanned::new(value.to_owned(), span)),
                _ => {
                    let message = format!("unknown selector `{key}`");
                    let help = "use `policy`, `rule` or `resource`";
                    problems.push(Diagnostic::at(Code::BadFilter, span, message).with_help(help));
                }
            }
        }
        selector.replaces = problems.is_empty();
        (selector, problems)
    }

    /// Keeps the rows of a suite that `kyverno test` would judge, changed as it would, and returns their indices.
    ///
    /// A pattern for resources replaces the selected rows' resources, so one with wildcards names none of them.
    pub fn apply(&self, suite: &mut Suite) -> Vec<usize> {
        let Some(test) = &mut suite.test else { return Vec::new() };
        let fits = |patterns: &[String], text: &str| {
            text.is_empty() || patterns.iter().all(|pattern| wildcard::matches(pattern, text))
        };
        let mut kept = Vec::new();
        let mut rows = Vec::new();
        for (number, mut row) in std::mem::take(&mut test.results).into_iter().enumerate() {
            let named = row.resources.as_deref().unwrap_or_default();
            let resources = named.is_empty()
                || self
                    .resources
                    .iter()
                    .all(|pattern| named.iter().any(|name| wildcard::matches(&pattern.value, &name.value)));
            let rule = row.rule.as_ref().map_or("", |rule| rule.value.as_str());
            if !(resources && fits(&self.policies, &row.policy.value) && fits(&self.rules, rule)) {
                continue;
            }
            let given: Vec<_> = self
                .resources
                .iter()
                .take_while(|pattern| self.replaces && pattern.value != "*")
                .map(|pattern| Spanned::new(pattern.value.clone(), row.span))
                .collect();
            if !given.is_empty() {
                row.resources = Some(given);
            }
            kept.push(number);
            rows.push(row);
        }
        test.results = rows;
        kept
    }

    /// Whether a case is selected; a rule from autogen counts as its original.
    pub fn selects(&self, case: &Case) -> bool {
        let rule = case.rule.as_deref().unwrap_or_default();
        let fits = |pattern: &String, text: &str| wildcard::matches(pattern, text);
        let key = &case.resource;
        let full = format!("{}/{}", key.namespace, key.name);
        self.policies.iter().all(|pattern| fits(pattern, &case.policy))
            && self
                .rules
                .iter()
                .all(|pattern| rule.is_empty() || fits(pattern, rule) || fits(pattern, source_map::written(rule)))
            && self
                .resources
                .iter()
                .all(|pattern| fits(&pattern.value, &key.name) || fits(&pattern.value, &full))
    }
}
