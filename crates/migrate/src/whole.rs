//! All new policies together, compared with the policy that they replace.
//!
//! Rules are proven one by one; what a policy adds to its rules (which rules Kyverno generates, in which order they are
//! evaluated) shows only here.

use kyvtest_model::{
    kube::Discovery,
    policy::{ApplyRules, ClassicPolicy, Rule},
};
use kyvtest_prove::{
    Label,
    body::{self, Side, compare_sides},
};
use serde_json::{Value as Json, json};

use crate::{Existing, MigratedRule, Options, RefusalCode, RuleLabel, migrate::cut};

/// How many requests of each class are tried: each rule has been compared before.
const TRIES: u64 = 8;

/// How many cases one question may have: only a difference counts here, which is found early or not at all.
const CASES: u64 = 200;

/// Takes back the translations of all rules if they decide a request differently together.
pub(crate) fn check(policy: &ClassicPolicy, migrated: &mut [MigratedRule], discovery: &Discovery, options: &Options) {
    let pairs = policy.spec.rules.iter().zip(migrated.iter());
    let rules: Vec<&Rule> = pairs
        .filter(|(rule, migrated)| rule.validate.is_some() && !migrated.objects.is_empty())
        .map(|(rule, _)| rule)
        .collect();
    if rules.len() < 2 {
        return;
    }
    let mut original = cut(policy, &rules);
    if let Some(apply) = &policy.spec.apply_rules
        && apply.value == ApplyRules::One
    {
        original["spec"]["applyRules"] = json!("One");
    }
    if options.existing == Existing::Drop {
        for rule in original["spec"]["rules"].as_array_mut().into_iter().flatten() {
            rule["validate"]["allowExistingViolations"] = json!(false);
        }
    }
    let validate = |rule: &&MigratedRule| rules.iter().any(|own| own.name.value == rule.name);
    let objects: Vec<Json> = migrated
        .iter()
        .filter(validate)
        .flat_map(|rule| &rule.objects)
        .map(admitting)
        .collect();
    let left = Side::from_objects(std::slice::from_ref(&original), discovery);
    let right = Side::from_objects(&objects, discovery);
    let (left, right) = match (left, right) {
        (Ok(left), Ok(right)) => (left, right),
        (Err(problem), _) | (_, Err(problem)) => {
            let reason = format!("all rules together could not be compared: {problem}");
            return weaken(migrated, &reason);
        }
    };
    let proof = body::Options {
        tries: TRIES.min(options.proof.tries),
        checks: 1,
        cases: CASES.min(options.proof.cases),
        ..options.proof.clone()
    };
    let comparison = compare_sides(&left, &right, discovery, &proof);
    if !matches!(comparison.label, Label::Refuted(_)) && !comparison.fault {
        return;
    }
    let names: Vec<&str> = rules.iter().map(|rule| rule.name.value.as_str()).collect();
    let compared = |rule: &&mut MigratedRule| !rule.objects.is_empty() && names.contains(&rule.name.as_str());
    for rule in migrated.iter_mut().filter(compared) {
        rule.label = RuleLabel::NotMigrated(RefusalCode::Refuted);
        "the new policies decide a request differently together; they are not written".clone_into(&mut rule.reason);
        rule.rejected = std::mem::take(&mut rule.objects);
        rule.variants.clear();
        rule.counterexample.clone_from(&comparison.counterexample);
    }
}

/// A policy that is evaluated at admission, as its original is for the comparison.
pub(crate) fn admitting(object: &Json) -> Json {
    let mut object = object.clone();
    if let Some(evaluation) = object["spec"]["evaluation"].as_object_mut() {
        evaluation.remove("admission");
    }
    object
}

/// Calls no rule proven.
fn weaken(migrated: &mut [MigratedRule], reason: &str) {
    let proven = |rule: &&mut MigratedRule| matches!(rule.label, RuleLabel::Proven | RuleLabel::Bounded(_));
    for rule in migrated.iter_mut().filter(proven) {
        rule.label = RuleLabel::Tested(0);
        reason.clone_into(&mut rule.reason);
    }
}
