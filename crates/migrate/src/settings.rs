//! Settings of policies and rules without a counterpart: refused if they change decisions, otherwise named as differences.
//!
//! Upstream counterpart: `Spec` and `Rule` of `api/kyverno/v1` (Kyverno 1.19). `skipBackgroundRequests` is about rules that
//! generate resources or mutate existing ones.

use std::collections::BTreeSet;

use kyvtest_cel::observe::Place;
use kyvtest_kyverno::{autogen, cel_rule::CompiledRule};
use kyvtest_model::{
    kube::{Discovery, GroupVersionKind, Operation},
    policy::{ClassicPolicy, Rule},
};
use kyvtest_prove::repair::{NoScope, rule_scopes};

use crate::{Refusal, RefusalCode, apply_one};

/// Settings of a policy that rules which validate do not read.
const WITHOUT_EFFECT: [&str; 5] = [
    "schemaValidation",
    "mutateExistingOnPolicyUpdate",
    "generateExistingOnPolicyUpdate",
    "generateExisting",
    "useServerSideApply",
];

/// Refuses settings that would be lost.
pub(crate) fn check(policy: &ClassicPolicy, rule: &Rule, discovery: &Discovery) -> Result<(), Refusal> {
    if let Some(apply) = &policy.spec.apply_rules
        && apply_one::is_about(policy, discovery)
        && policy.spec.rules.iter().any(|rule| rule.validate.is_none())
    {
        let reason = "`applyRules: One` in a policy with rules of several types; write a policy for each type";
        return Err(Refusal::new(RefusalCode::Setting, reason).at(apply.span));
    }
    let in_cel = rule.validate.as_ref().is_some_and(|validate| validate.cel.is_some());
    if let Some(condition) = rule.cel_preconditions.first()
        && !in_cel
    {
        let reason = "`celPreconditions` of a rule that is not in CEL";
        return Err(Refusal::new(RefusalCode::Setting, reason).at(condition.name.span));
    }
    does_compile(rule)?;
    if let Some(extractors) = &rule.image_extractors {
        let written = rule.source.document().root().to_json();
        if written.contains("images.") {
            let reason = "`imageExtractors` change what `images` contains; read the fields of the resource instead";
            return Err(Refusal::new(RefusalCode::Context, reason).at(extractors.span()));
        }
    }
    Ok(())
}

/// Refuses expressions that do not compile: Kyverno stores such a rule and fails every request that it matches.
fn does_compile(rule: &Rule) -> Result<(), Refusal> {
    let (Some(compiled), Some(cel)) = (
        CompiledRule::compile(rule),
        rule.validate.as_ref().and_then(|validate| validate.cel.as_ref()),
    ) else {
        return Ok(());
    };
    let programs = compiled.programs();
    let compiles = |number: usize| programs.iter().any(|(place, _)| *place == Place::Validation(number));
    match (0..cel.expressions.len()).find(|number| !compiles(*number)) {
        None => Ok(()),
        Some(number) => {
            let text = cel.expressions[number].expression.text().trim();
            let reason = format!(
                "`{text}` does not compile, so Kyverno fails every request that the rule matches; mend the expression first"
            );
            Err(Refusal::new(RefusalCode::Invalid, reason).at(cel.span))
        }
    }
}

/// Names what is dropped although no decision depends on it.
pub(crate) fn notes(policy: &ClassicPolicy, rule: &Rule) -> Vec<String> {
    let mut notes = Vec::new();
    if !rule.report_properties.is_empty() {
        notes.push("`reportProperties` are dropped; `auditAnnotations` add properties to reports".to_owned());
    }
    let cel = rule.validate.as_ref().and_then(|validate| validate.cel.as_ref());
    if cel.is_some_and(|cel| cel.generate) {
        notes.push(
            "`cel.generate` is dropped; `spec.autogen.validatingAdmissionPolicy` makes Kyverno write a native policy"
                .to_owned(),
        );
    }
    let written = policy.spec.source.document();
    let dropped = WITHOUT_EFFECT
        .into_iter()
        .filter(|name| written.root().get(name).is_some());
    notes.extend(dropped.map(|name| format!("`{name}` is dropped; it has no effect on rules that validate")));
    notes
}

/// Whether no request concerns two rules, so that stopping at the first changes nothing.
pub(crate) fn are_disjoint(policy: &ClassicPolicy, discovery: &Discovery) -> bool {
    let mut seen: BTreeSet<GroupVersionKind> = BTreeSet::new();
    for rule in &autogen::all_rules(policy) {
        let scopes = match rule_scopes(policy, rule, &Operation::ALL, discovery) {
            Ok(scopes) => scopes,
            Err(NoScope::Nothing) => continue,
            Err(_) => return false,
        };
        let kinds: BTreeSet<GroupVersionKind> = scopes.iter().flat_map(|scope| scope.kinds.iter().cloned()).collect();
        if scopes.iter().any(|scope| scope.others) || kinds.iter().any(|kind| seen.contains(kind)) {
            return false;
        }
        seen.extend(kinds);
    }
    true
}
