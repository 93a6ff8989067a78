//! What the rules of a policy decide about the resources of a test file, also rules that no row is about.
//!
//! Upstream counterpart: none. A new policy that replaces several rules reports on a resource once. What its row expects depends
//! on all of these rules: the original test file runs once more, with each row repeated for the other rules.

use std::{cell::LazyCell, collections::BTreeMap};

use kyvtest_go_compat::{value::Document, yaml};
use kyvtest_migrate::{Migration, Replaced, Reported};
use serde_json::{Value as Json, json};

use super::{Rewriter, of_status};
use crate::run::run;

/// The decisions by row, rule and resource.
type Decided = BTreeMap<(usize, String, String), Reported>;

/// The decisions about the resources of all rows, evaluated when the first is needed.
pub(super) struct Decisions<'d>(LazyCell<Decided, Box<dyn FnOnce() -> Decided + 'd>>);

impl<'d> Decisions<'d> {
    pub(super) fn new(rewriter: &'d Rewriter<'_>, text: &'d str, policies: &'d [Replaced]) -> Self {
        Self(LazyCell::new(Box::new(move || {
            decided(rewriter, text, policies).unwrap_or_default()
        })))
    }

    /// What a rule decides about a resource of a row; `None` if it reports nothing.
    pub(super) fn get(&self, row: usize, rule: &str, resource: &str) -> Option<Reported> {
        let name = resource.rsplit('/').next().unwrap_or(resource);
        self.0.get(&(row, rule.to_owned(), name.to_owned())).copied()
    }
}

fn decided(rewriter: &Rewriter<'_>, text: &str, policies: &[Replaced]) -> Option<Decided> {
    let tree = yaml::read_first(text, yaml::Mode::Lax, &yaml::Limits::default()).ok()?;
    let mut test = Document::from(tree.root()).root().to_serde();
    let (rows, origins) = repeated(&test, policies);
    test["results"] = Json::Array(rows);
    let text = Document::from(&test).root().to_yaml();
    let settings = rewriter.settings();
    let suites = rewriter.suites(&text, Vec::new());
    let mut decided = Decided::new();
    for case in suites.iter().flat_map(|suite| run(suite, &settings).cases) {
        let Some((row, rule)) = case.row.and_then(|row| origins.get(row)) else {
            continue;
        };
        let Some(verdict) = &case.kyverno else { continue };
        let key = (*row, rule.clone(), case.resource.name.clone());
        let found = of_status(verdict.status);
        decided
            .entry(key)
            .and_modify(|known| *known = stronger(*known, found))
            .or_insert(found);
    }
    Some(decided)
}

/// Each row once for every other rule that shares a policy with its own; the number of the row, and the rule.
fn repeated(test: &Json, policies: &[Replaced]) -> (Vec<Json>, Vec<(usize, String)>) {
    let mut rows = Vec::new();
    let mut origins = Vec::new();
    for (number, row) in test["results"].as_array().into_iter().flatten().enumerate() {
        let replaced = policies.iter().find(|replaced| row["policy"] == replaced.key.as_str());
        let own = row["rule"].as_str();
        let Some((replaced, own)) = replaced.zip(own) else {
            continue;
        };
        for rule in partners(&replaced.migration, own) {
            let mut row = row.clone();
            row["rule"] = json!(rule);
            rows.push(row);
            origins.push((number, rule));
        }
    }
    (rows, origins)
}

/// The rules that share a policy with a rule, which may have the name that Kyverno generates for controllers.
pub(super) fn partners(migration: &Migration, own: &str) -> Vec<String> {
    let plain = own.strip_prefix("autogen-").unwrap_or(own);
    let plain = plain.strip_prefix("cronjob-").unwrap_or(plain);
    let of_own = migration.rules.iter().filter(|rule| rule.name == plain);
    let shared = of_own
        .flat_map(|rule| &rule.objects)
        .flat_map(|object| migration.rules_of(object));
    let mut names: Vec<String> = Vec::new();
    for rule in shared.filter(|rule| rule.name != plain) {
        if !names.contains(&rule.name) {
            names.push(rule.name.clone());
        }
    }
    names
}

/// A row may name several resources of the same name.
fn stronger(one: Reported, other: Reported) -> Reported {
    let rank = |reported: Reported| match reported {
        Reported::Nothing => 0,
        Reported::Skip => 1,
        Reported::Pass => 2,
        Reported::Error => 3,
        Reported::Fail => 4,
    };
    if rank(one) >= rank(other) { one } else { other }
}
