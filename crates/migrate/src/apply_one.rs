//! `applyRules: One`: a request concerns only the first rule that applies to it.
//!
//! Upstream counterpart: `pkg/engine/validation.go` (Kyverno 1.19), which stops after the first rule that passes or fails. Policies do not
//! know of each other, so the policies of a later rule leave out the requests that earlier rules apply to. Each rule is compared
//! together with those before it: this detects rules that apply by more than `match` and preconditions.

use kyvtest_model::{
    kube::Discovery,
    policy::{ApplyRules, ClassicPolicy, Rule},
};
use kyvtest_prove::{
    Label,
    body::{Comparison, Side, compare_sides},
};
use serde_json::{Value as Json, json};

use crate::{
    Existing, MigratedRule, Options, RefusalCode, RuleLabel, layout::layout, migrate::cut, settings::are_disjoint,
};

/// Whether a policy stops at the first rule that applies, and that changes anything.
pub(crate) fn is_about(policy: &ClassicPolicy, discovery: &Discovery) -> bool {
    let apply = policy.spec.apply_rules.as_ref();
    apply.is_some_and(|apply| apply.value == ApplyRules::One)
        && policy.spec.rules.len() > 1
        && !are_disjoint(policy, discovery)
}

/// Adds the conditions to the policies of later rules, and compares them.
pub(crate) fn apply(policy: &ClassicPolicy, migrated: &mut [MigratedRule], discovery: &Discovery, options: &Options) {
    if !is_about(policy, discovery) || migrated.len() != policy.spec.rules.len() {
        return;
    }
    // The policies of the rules so far, without the conditions that are added here.
    let mut earlier: Vec<(String, Json)> = Vec::new();
    for number in 0..migrated.len() {
        let name = migrated[number].name.clone();
        let alone = migrated[number].objects.clone();
        let mut is_idle = false;
        if number > 0 && !alone.is_empty() {
            let result = match restrict(&mut migrated[number].objects, &earlier) {
                Ok(None) => compare(policy, migrated, number, (discovery, options)),
                Ok(Some(other)) => {
                    is_idle = is_idle_after(policy, migrated, number, (discovery, options));
                    Err(if is_idle {
                        format!(
                            "`applyRules: One`: the rule never applies, because `{other}` applies to all of its requests; \
                             delete it"
                        )
                    } else {
                        unclear(&other, MORE)
                    })
                }
                Err(reason) => Err(reason),
            };
            if let Err(reason) = result {
                refuse(&mut migrated[number], &reason);
            }
        }
        if migrated[number].objects.is_empty() && !is_idle {
            // What is left of the policy would apply to more requests than before.
            let reason = format!("`applyRules: One`: the rules depend on each other, and `{name}` is not migrated");
            for rule in migrated {
                refuse(rule, &reason);
            }
            return;
        }
        if !is_idle {
            earlier.extend(alone.into_iter().map(|object| (name.clone(), object)));
        }
    }
}

/// What a rule may depend on besides its `match` and preconditions: anchors and exceptions that skip it.
const MORE: &str = "more than `match` and preconditions";

fn refuse(rule: &mut MigratedRule, reason: &str) {
    if rule.objects.is_empty() {
        // It has a reason of its own.
        return;
    }
    rule.label = RuleLabel::NotMigrated(RefusalCode::Setting);
    reason.clone_into(&mut rule.reason);
    rule.rejected = std::mem::take(&mut rule.objects);
    rule.variants.clear();
}

/// Leaves out what earlier rules apply to. Returns an earlier rule that seems to apply to all requests of a policy.
fn restrict(objects: &mut [Json], earlier: &[(String, Json)]) -> Result<Option<String>, String> {
    for object in objects {
        for (name, other) in earlier {
            let Some(applies) = applies(other, object).map_err(|what| unclear(name, what))? else {
                continue;
            };
            if applies.is_empty() {
                return Ok(Some(name.clone()));
            }
            let conditions = &mut object["spec"]["matchConditions"];
            if conditions.is_null() {
                *conditions = json!([]);
            }
            let Some(list) = conditions.as_array_mut() else {
                continue;
            };
            let free = format!("after-{}", list.len() + 1);
            let text = match applies.as_slice() {
                [one] if !one.contains([' ', '!']) => format!("!{one}"),
                [one] => format!("!({one})"),
                all => {
                    let all: Vec<String> = all.iter().map(|text| operand(text)).collect();
                    format!("!({})", all.join(" && "))
                }
            };
            list.push(json!({"name": free, "expression": layout(&text)}));
        }
        in_order(object);
    }
    Ok(None)
}

fn unclear(name: &str, what: &str) -> String {
    format!(
        "`applyRules: One` stops at the first rule that applies, and whether `{name}` applies depends on {what}; \
         leave out with preconditions what earlier rules match, and remove the setting"
    )
}

/// Writes `matchConditions` where people look for them.
fn in_order(object: &mut Json) {
    let Some(spec) = object["spec"].as_object_mut() else {
        return;
    };
    let Some(conditions) = spec.shift_remove("matchConditions") else {
        return;
    };
    let at = spec.keys().position(|key| key == "matchConstraints");
    spec.shift_insert(at.map_or(0, |at| at + 1), "matchConditions".to_owned(), conditions);
}

/// When a policy is about a request that another one is about, as conditions in CEL; `None` if never.
///
/// # Errors
/// What the answer depends on that no condition sees.
fn applies(policy: &Json, other: &Json) -> Result<Option<Vec<String>>, &'static str> {
    let constraints = &policy["spec"]["matchConstraints"];
    for (key, what) in [
        ("namespaceSelector", "labels of the namespace"),
        ("objectSelector", "labels of the object before and after"),
        ("excludeResourceRules", "rules that exclude resources"),
    ] {
        if !constraints[key].is_null() {
            return Err(what);
        }
    }
    let (own, theirs) = (resources(constraints)?, resources(&other["spec"]["matchConstraints"])?);
    let shared: Vec<&Resource> = own.iter().filter(|own| theirs.contains(own)).collect();
    if shared.is_empty() {
        return Ok(None);
    }
    let mut conditions = Vec::new();
    if !theirs.iter().all(|one| own.contains(one)) {
        let operations: Vec<&str> = distinct(shared.iter().map(|resource| resource.operation.as_str()));
        let kinds: Vec<String> = distinct(shared.iter().map(|resource| resource.path()));
        if kinds.len() * operations.len() != shared.len() || kinds.iter().any(|kind| kind.matches('/').count() != 1) {
            return Err("its resources and operations");
        }
        let named = |words: &[String]| {
            words
                .iter()
                .map(|word| format!("'{word}'"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let all = |wanted: &dyn Fn(&Resource) -> bool| theirs.iter().all(wanted);
        if !all(&|one| kinds.contains(&one.path())) {
            let kinds = named(&kinds);
            conditions.push(format!(
                "request.resource.group + '/' + request.resource.resource in [{kinds}]"
            ));
        }
        if !all(&|one| operations.contains(&one.operation.as_str())) {
            let operations: Vec<String> = operations.iter().map(|word| (*word).to_owned()).collect();
            conditions.push(format!("request.operation in [{}]", named(&operations)));
        }
    }
    let own = policy["spec"]["matchConditions"].as_array();
    for condition in own.into_iter().flatten() {
        let text = condition["expression"].as_str().unwrap_or_default().trim();
        let loose = [" || ", "||\n", " ? ", " ?\n"]
            .iter()
            .any(|operator| text.contains(operator));
        conditions.push(if loose { format!("({text})") } else { text.to_owned() });
    }
    Ok(Some(conditions))
}

/// A condition as an operand of `&&`.
fn operand(text: &str) -> String {
    let loose = [" || ", "||\n", " ? ", " ?\n"]
        .iter()
        .any(|operator| text.contains(operator));
    if loose { format!("({text})") } else { text.to_owned() }
}

fn distinct<T: PartialEq>(words: impl Iterator<Item = T>) -> Vec<T> {
    let mut kept = Vec::new();
    for word in words {
        if !kept.contains(&word) {
            kept.push(word);
        }
    }
    kept
}

/// One combination that `matchConstraints` list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Resource {
    group: String,
    version: String,
    plural: String,
    operation: String,
}

impl Resource {
    fn path(&self) -> String {
        format!("{}/{}", self.group, self.plural)
    }
}

/// All combinations of `matchConstraints`.
fn resources(constraints: &Json) -> Result<Vec<Resource>, &'static str> {
    let mut all = Vec::new();
    for rule in constraints["resourceRules"].as_array().into_iter().flatten() {
        if !rule["resourceNames"].is_null() {
            return Err("names of resources");
        }
        let list = |key: &str| -> Vec<String> {
            let words = rule[key].as_array().into_iter().flatten();
            words.filter_map(Json::as_str).map(str::to_owned).collect()
        };
        for group in list("apiGroups") {
            for version in list("apiVersions") {
                for plural in list("resources") {
                    for operation in list("operations") {
                        if [&group, &version, &plural, &operation]
                            .iter()
                            .any(|word| word.contains('*'))
                        {
                            return Err("wildcards in its resources");
                        }
                        let (group, version, plural) = (group.clone(), version.clone(), plural.clone());
                        all.push(Resource {
                            group,
                            version,
                            plural,
                            operation,
                        });
                    }
                }
            }
        }
    }
    Ok(all)
}

/// Compares the rules up to this one with their policies.
///
/// # Errors
/// Why the rule is not migrated.
fn compare(
    policy: &ClassicPolicy,
    migrated: &mut [MigratedRule],
    number: usize,
    (discovery, options): (&Discovery, &Options),
) -> Result<(), String> {
    let comparison = compared(policy, &migrated[..=number], (discovery, options))?;
    let rule = &mut migrated[number];
    match comparison.label {
        Label::Refuted(_) => {
            rule.counterexample = comparison.counterexample;
            return Err(unclear("an earlier rule", MORE));
        }
        _ if comparison.fault => return Err(unclear("an earlier rule", MORE)),
        Label::Proven => {}
        Label::Bounded { k } if !matches!(rule.label, RuleLabel::Tested(_)) => rule.label = RuleLabel::Bounded(k),
        _ => rule.label = RuleLabel::Tested(comparison.requests),
    }
    if comparison.label != Label::Proven {
        rule.reason = comparison.reason;
    }
    Ok(())
}

/// Whether a rule makes no difference after those before it.
fn is_idle_after(
    policy: &ClassicPolicy,
    migrated: &[MigratedRule],
    number: usize,
    cluster: (&Discovery, &Options),
) -> bool {
    let mut rules = migrated[..=number].to_vec();
    rules[number].objects.clear();
    compared(policy, &rules, cluster).is_ok_and(|comparison| comparison.label == Label::Proven)
}

/// Compares the first rules of a policy with their policies.
fn compared(
    policy: &ClassicPolicy,
    migrated: &[MigratedRule],
    (discovery, options): (&Discovery, &Options),
) -> Result<Comparison, String> {
    let rules: Vec<&Rule> = policy.spec.rules.iter().take(migrated.len()).collect();
    let mut original = cut(policy, &rules);
    original["spec"]["applyRules"] = json!("One");
    if options.existing == Existing::Drop {
        for rule in original["spec"]["rules"].as_array_mut().into_iter().flatten() {
            rule["validate"]["allowExistingViolations"] = json!(false);
        }
    }
    let objects: Vec<Json> = migrated.iter().flat_map(|rule| rule.objects.clone()).collect();
    let left = Side::from_objects(std::slice::from_ref(&original), discovery)?;
    let right = Side::from_objects(&objects, discovery)?;
    Ok(compare_sides(&left, &right, discovery, &options.proof))
}
