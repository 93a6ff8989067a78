//! One policy for several rules: new policies that differ only in their validations and variables, put together.
//!
//! No upstream counterpart. Kyverno stops at the first validation that fails or cannot be evaluated, so an error may hide a
//! violation that a policy of its own would report. It is proven that this happens for no request: where a validation cannot be
//! evaluated, all later ones hold. One policy then reports a violation, an error or a pass as several policies do, whatever the
//! actions are.
//!
//! Policies stay apart if an exception lifts only some of their rules: a new exception lifts a whole policy.

use kyvtest_model::{kube::Discovery, policy::ClassicPolicy};
use kyvtest_prove::{
    Label,
    body::{self, Side, compare_sides},
};
use serde_json::{Value as Json, json};

use crate::{
    MigratedRule, Options, RuleLabel, apply_one, exception::lifts, layout::outside_texts, migrate::identifier, names,
    whole::admitting,
};

/// A new policy of a rule: the numbers of the rule and of the policy among those of the rule.
type Member = (usize, usize);

/// Puts the new policies of several rules together where that changes nothing.
pub(crate) fn unite(policy: &ClassicPolicy, migrated: &mut [MigratedRule], discovery: &Discovery, options: &Options) {
    if options.split || apply_one::is_about(policy, discovery) {
        return;
    }
    for group in groups(migrated) {
        if is_lifted_in_part(policy, migrated, &group, options) {
            continue;
        }
        let apart: Vec<Json> = group.iter().map(|at| member(migrated, *at).clone()).collect();
        let names: Vec<&str> = group.iter().map(|(rule, _)| migrated[*rule].name.as_str()).collect();
        let mut united = united(&apart, &names);
        if !is_same(&united, &apart, &group, migrated, (discovery, options)) {
            continue;
        }
        if let Some(name) = short_name(policy, migrated, group[0]) {
            united["metadata"]["name"] = json!(name);
        }
        for (rule, object) in group {
            migrated[rule].objects[object].clone_from(&united);
        }
    }
}

fn member(migrated: &[MigratedRule], (rule, object): Member) -> &Json {
    &migrated[rule].objects[object]
}

/// Policies that differ only in their validations and variables, in the order of the rules; at least two.
fn groups(migrated: &[MigratedRule]) -> Vec<Vec<Member>> {
    let mut groups: Vec<(Json, Vec<Member>)> = Vec::new();
    for (number, rule) in migrated.iter().enumerate() {
        for (index, object) in rule.objects.iter().enumerate() {
            let Some(mut rest) = without_checks(object) else {
                continue;
            };
            rest["variants"] = json!(rule.variants.get(index));
            match groups.iter_mut().find(|(known, _)| *known == rest) {
                // Policies of one rule differ in what they match.
                Some((_, members)) if members.iter().all(|(other, _)| *other != number) => {
                    members.push((number, index));
                }
                _ => groups.push((rest, vec![(number, index)])),
            }
        }
    }
    let several = groups.into_iter().filter(|(_, members)| members.len() > 1);
    several.map(|(_, members)| members).collect()
}

/// A policy without its validations, variables and name; `None` if it is never put together with others.
fn without_checks(object: &Json) -> Option<Json> {
    let kind = object["kind"].as_str()?;
    let validates = matches!(kind, "ValidatingPolicy" | "NamespacedValidatingPolicy");
    // The API server computes audit annotations of a policy whichever validation fails.
    if !validates || !object["spec"]["auditAnnotations"].is_null() {
        return None;
    }
    let mut rest = object.clone();
    for (part, fields) in [("metadata", &["name"][..]), ("spec", &["variables", "validations"])] {
        for field in fields {
            rest[part].as_object_mut()?.shift_remove(*field);
        }
    }
    Some(rest)
}

/// Whether an exception names a rule of a group and not all of them.
fn is_lifted_in_part(policy: &ClassicPolicy, migrated: &[MigratedRule], group: &[Member], options: &Options) -> bool {
    let key = policy.key();
    options.exceptions.iter().any(|exception| {
        let lifted = |(rule, object): &Member| -> Vec<bool> {
            let rule = &migrated[*rule];
            let variants = rule.variants.get(*object).map_or(&[][..], Vec::as_slice);
            let each = variants.iter();
            each.map(|variant| lifts(exception, &key, &rule.name, variant))
                .collect()
        };
        let mut all = group.iter().map(lifted);
        let first = all.next();
        all.any(|other| Some(other) != first)
    })
}

/// One policy with the variables and validations of all. `rules` are the names of the rules that they come from.
fn united(apart: &[Json], rules: &[&str]) -> Json {
    let mut united = apart[0].clone();
    let mut variables: Vec<(String, String)> = Vec::new();
    let mut validations: Vec<Json> = Vec::new();
    for (object, rule) in apart.iter().zip(rules) {
        // Old and new names, where they differ.
        let mut renamed: Vec<(String, String)> = Vec::new();
        let text = |value: &Json, renamed: &[(String, String)]| {
            let text = value.as_str().unwrap_or_default().to_owned();
            let each = renamed.iter();
            each.fold(text, |text, (old, new)| rename(&text, old, new))
        };
        for variable in object["spec"]["variables"].as_array().into_iter().flatten() {
            let name = variable["name"].as_str().unwrap_or_default();
            let expression = text(&variable["expression"], &renamed);
            let same = variables.iter().find(|(_, known)| *known == expression);
            let own = match same {
                Some((known, _)) => known.clone(),
                None => {
                    let own = free_name(name, rule, &variables);
                    variables.push((own.clone(), expression));
                    own
                }
            };
            if own != name {
                renamed.push((name.to_owned(), own));
            }
        }
        for validation in object["spec"]["validations"].as_array().into_iter().flatten() {
            let mut validation = validation.clone();
            for field in ["expression", "messageExpression"] {
                if !validation[field].is_null() {
                    validation[field] = json!(text(&validation[field], &renamed));
                }
            }
            if !validations.contains(&validation) {
                validations.push(validation);
            }
        }
    }
    if let Some(spec) = united["spec"].as_object_mut() {
        let each = variables.iter();
        let named: Vec<Json> = each
            .map(|(name, text)| json!({"name": name, "expression": text}))
            .collect();
        spec.shift_remove("variables");
        if !named.is_empty() {
            let at = spec.keys().position(|key| key == "validations").unwrap_or(spec.len());
            spec.shift_insert(at, "variables".to_owned(), Json::Array(named));
        }
        spec.insert("validations".to_owned(), Json::Array(validations));
    }
    united
}

/// A name for a variable of a rule that no other expression has.
fn free_name(name: &str, rule: &str, variables: &[(String, String)]) -> String {
    let is_taken = |name: &str| variables.iter().any(|(taken, _)| taken == name);
    if !is_taken(name) {
        return name.to_owned();
    }
    let (first, rest) = name.split_at(name.len().min(1));
    let of_rule = names::identifier(&format!("{rule}-{}{rest}", first.to_ascii_uppercase()));
    let numbered = (2..).map(|number| format!("{of_rule}{number}"));
    let mut names = std::iter::once(of_rule.clone()).chain(numbered);
    names.find(|name| !is_taken(name)).unwrap_or(of_rule)
}

/// An expression that reads a variable by another name.
fn rename(text: &str, old: &str, new: &str) -> String {
    let read = format!("variables.{old}");
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut out = String::new();
    let mut done = 0;
    for (at, _, _) in outside_texts(text) {
        if !text[at..].starts_with(&read) {
            continue;
        }
        let before = text[..at].chars().next_back();
        let after = text[at + read.len()..].chars().next();
        if !before.is_some_and(|c| is_word(c) || c == '.') && !after.is_some_and(is_word) {
            out.push_str(&text[done..at]);
            out.push_str("variables.");
            out.push_str(new);
            done = at + read.len();
        }
    }
    out.push_str(&text[done..]);
    out
}

/// Whether the united policy decides as the policies of the rules do, and no error hides a violation, both as well known as the
/// labels of the rules.
fn is_same(
    united: &Json,
    apart: &[Json],
    group: &[Member],
    migrated: &[MigratedRule],
    (discovery, options): (&Discovery, &Options),
) -> bool {
    let labels = || group.iter().map(|(rule, _)| &migrated[*rule].label);
    let needs_proof = labels().any(|label| *label == RuleLabel::Proven);
    let proof = body::Options {
        // The rules have been compared before.
        checks: 1,
        tries: if needs_proof { 0 } else { options.proof.tries },
        cases: options.proof.cases / 8,
        ..options.proof.clone()
    };
    let is_known = |left: &[Json], right: &[Json]| {
        let [left, right] = [left, right].map(|objects| {
            let objects: Vec<Json> = objects.iter().map(denying).collect();
            Side::from_objects(&objects, discovery)
        });
        let (Ok(left), Ok(right)) = (left, right) else {
            return false;
        };
        let comparison = compare_sides(&left, &right, discovery, &proof);
        if comparison.fault {
            return false;
        }
        match comparison.label {
            Label::Proven => true,
            Label::Refuted(_) => false,
            Label::Bounded { k } => labels().all(|label| match label {
                RuleLabel::Bounded(own) => *own <= k,
                label => matches!(label, RuleLabel::Tested(_)),
            }),
            _ => labels().all(|label| matches!(label, RuleLabel::Tested(_))),
        }
    };
    let hidden = with_validations(united, hiding(united));
    let nothing = with_validations(united, vec!["true".to_owned()]);
    is_known(&[hidden], &[nothing]) && is_known(apart, std::slice::from_ref(united))
}

/// Expressions that cannot be evaluated, or are false, if an error of a validation may hide that a later one is violated.
fn hiding(united: &Json) -> Vec<String> {
    let validations = united["spec"]["validations"].as_array().into_iter().flatten();
    let texts: Vec<String> = validations
        .filter_map(|validation| validation["expression"].as_str())
        .map(|text| format!("({text})"))
        .collect();
    let pairs = texts.iter().enumerate().skip(1);
    // `error || true` is true, `error || false` is an error.
    let hidden = pairs.map(|(at, _)| {
        let (own, later) = (&texts[at - 1], texts[at..].join(" && "));
        format!("{own} || !{own} || ({later})")
    });
    hidden.collect()
}

fn with_validations(object: &Json, expressions: Vec<String>) -> Json {
    let mut object = object.clone();
    let each = expressions.into_iter();
    object["spec"]["validations"] = each.map(|text| json!({"expression": text})).collect();
    object
}

/// A policy that denies violations and errors.
fn denying(object: &Json) -> Json {
    let mut object = admitting(object);
    object["spec"]["validationActions"] = json!(["Deny"]);
    object
}

/// The name of a united policy: that of the old policy, and the words behind the name of the rule; `None` if it is taken.
fn short_name(policy: &ClassicPolicy, migrated: &[MigratedRule], first: Member) -> Option<String> {
    let own = &policy.metadata.name.value;
    let name = member(migrated, first)["metadata"]["name"].as_str()?;
    let base = format!("{own}-{}", identifier(&migrated[first.0].name));
    let short = format!("{own}{}", name.strip_prefix(&base)?);
    let mut objects = migrated.iter().flat_map(|rule| &rule.objects);
    objects
        .all(|object| object["metadata"]["name"] != short.as_str())
        .then_some(short)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::{rename, united};

    fn policy(variables: &[(&str, &str)], validation: &str) -> Json {
        let variables: Vec<Json> = variables
            .iter()
            .map(|(name, text)| json!({"name": name, "expression": text}))
            .collect();
        json!({"spec": {"variables": variables, "validations": [{"expression": validation}]}})
    }

    #[test]
    fn variables_with_the_same_name_and_other_expressions_are_named_after_their_rule() {
        let first = policy(&[("pods", "object.a"), ("old", "1")], "variables.pods == variables.old");
        let second = policy(
            &[("pods", "object.a"), ("old", "2"), ("sum", "variables.old + 1")],
            "variables.sum == variables.old && variables.older != 'variables.old'",
        );
        let spec = &united(&[first, second], &["first", "second-rule"])["spec"];
        let names: Vec<&str> = spec["variables"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|variable| variable["name"].as_str())
            .collect();
        assert_eq!(names, ["pods", "old", "secondRuleOld", "sum"]);
        assert_eq!(spec["variables"][3]["expression"], "variables.secondRuleOld + 1");
        assert_eq!(
            spec["validations"][1]["expression"],
            "variables.sum == variables.secondRuleOld && variables.older != 'variables.old'"
        );
    }

    #[test]
    fn only_whole_names_outside_of_texts_are_renamed() {
        assert_eq!(
            rename("variables.a + x.variables.a", "a", "b"),
            "variables.b + x.variables.a"
        );
    }
}
