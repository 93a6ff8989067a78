//! Whether a ClusterPolicy can be converted, in Kyverno's order and words.
//!
//! Upstream counterpart: `CanGenerateVAP` of `pkg/admissionpolicy/kyvernopolicy_checker.go` (1.19). The first test that
//! fails decides.

use std::sync::Arc;

use super::{Refusal, RefusalCode, place::At};
use kyvtest_model::policy::{
    Cel, ClassicPolicy, FailureActionOverride, PolicyException, ResourceDescription, ResourceFilter, Rule, UserFilter,
};

/// How the texts begin.
const SKIP: &str = "skip generating ValidatingAdmissionPolicy";

type Result<T = ()> = std::result::Result<T, Refusal>;

fn refuse(code: RefusalCode, text: &str, at: &At<'_>) -> Result {
    Err(Refusal::new(code, format!("{SKIP}: {text}"), at))
}

/// The one rule and its expressions, if nothing speaks against a conversion.
pub(super) fn check<'p>(
    policy: &'p ClassicPolicy,
    exceptions: &[&Arc<PolicyException>],
    force: bool,
) -> Result<(&'p Rule, &'p Cel)> {
    let spec = At::spec(&policy.spec.source);
    let rules = spec.key("rules");
    let [rule] = policy.spec.rules.as_slice() else {
        let text = format!("{SKIP}: multiple rules are not applicable.");
        return Err(Refusal::new(
            RefusalCode::MultipleRules,
            text,
            &rules.item(1).key("name"),
        ));
    };
    let at = rules.item(0);
    let validate = at.key("validate");
    // The schema sets `generate`, so that a `cel` block is never empty when the controller sees it.
    let Some((validation, cel)) = rule
        .validate
        .as_ref()
        .and_then(|validation| Some((validation, validation.cel.as_ref()?)))
    else {
        let text = format!("{SKIP} for non CEL rules.");
        return Err(Refusal::new(RefusalCode::NotCel, text, &validate));
    };
    if !cel.generate && !force {
        let text = "validate.cel.generate is not set to true.";
        refuse(RefusalCode::NotMarked, text, &validate.keys(&["cel", "generate"]))?;
    }
    let policy_overrides = &policy.spec.validation_failure_action_overrides;
    overrides(policy_overrides, &spec.key("validationFailureActionOverrides"))?;
    let rule_overrides = validation.failure_action_overrides.as_deref().unwrap_or_default();
    overrides(rule_overrides, &validate.key("failureActionOverrides"))?;
    block(rule, &at)?;
    for exception in exceptions {
        check_exception(exception)?;
    }
    Ok((rule, cel))
}

fn overrides(overrides: &[FailureActionOverride], at: &At<'_>) -> Result {
    if overrides.len() > 1 {
        let text = "multiple validationFailureActionOverrides are not applicable.";
        return refuse(RefusalCode::OverridesMultiple, text, at);
    }
    match overrides.first() {
        Some(first) if !first.namespaces.is_empty() => {
            let text = "Namespaces in validationFailureActionOverrides is not applicable.";
            refuse(RefusalCode::OverridesNamespaces, text, &at.item(0).key("namespaces"))
        }
        _ => Ok(()),
    }
}

/// The `match` and `exclude` blocks.
fn block(rule: &Rule, at: &At<'_>) -> Result {
    let sides = [
        (Some(&rule.matches), "match", true),
        (rule.exclude.as_ref(), "exclude", false),
    ];
    for (block, side, is_match) in sides {
        let Some(block) = block else { continue };
        let at = at.key(side);
        user(&block.inline.user, &at)?;
        resources(&block.inline.resources, is_match, &at.key("resources"))?;
        filters(&block.any, is_match, &at.key("any"))?;
        if block.all.len() > 1 {
            let text = format!("multiple 'all' in the {side} block is not applicable.");
            refuse(RefusalCode::MultipleAll, &text, &at.key("all"))?;
        }
        filters(&block.all, is_match, &at.key("all"))?;
    }
    Ok(())
}

fn check_exception(exception: &PolicyException) -> Result {
    let at = exception_at(exception);
    for (i, rules) in exception.exceptions.iter().enumerate() {
        if rules.rule_names.len() > 1 {
            let text = "multiple ruleNames in PolicyException is not applicable.";
            refuse(
                RefusalCode::ExceptionRules,
                text,
                &at.key("exceptions").item(i).key("ruleNames"),
            )?;
        }
    }
    if exception.conditions.is_some() {
        let text = "Conditions in PolicyException is not applicable.";
        refuse(RefusalCode::ExceptionConditions, text, &at.key("conditions"))?;
    }
    let block = &exception.matches;
    let at = at.key("match");
    filters(&block.any, false, &at.key("any"))?;
    if block.all.len() > 1 {
        let text = "multiple 'all' in the PolicyException's match block is not applicable.";
        refuse(RefusalCode::MultipleAll, text, &at.key("all"))?;
    }
    filters(&block.all, false, &at.key("all"))
}

/// The spec of an exception.
pub(super) fn exception_at(exception: &PolicyException) -> At<'_> {
    let namespace = exception.metadata.namespace.as_ref();
    let namespace = namespace.map(|text| text.value.as_str());
    At::exception(&exception.source, namespace, &exception.metadata.name.value)
}

fn filters(filters: &[ResourceFilter], is_match: bool, at: &At<'_>) -> Result {
    let mut selected = None;
    for (i, filter) in filters.iter().enumerate() {
        let at = at.item(i);
        user(&filter.user, &at)?;
        let at = at.key("resources");
        resources(&filter.resources, is_match, &at)?;
        let keys = [
            (filter.resources.namespace_selector.is_some(), "namespaceSelector"),
            (filter.resources.selector.is_some(), "selector"),
        ];
        let key = keys.into_iter().find(|(there, _)| *there).map(|(_, key)| key);
        selected = selected.or(key.map(|key| at.key(key)));
    }
    match selected {
        Some(at) if !is_match => {
            let text = "NamespaceSelector / ObjectSelector in the exclude block is not applicable.";
            refuse(RefusalCode::ExcludeSelector, text, &at)
        }
        Some(at) if filters.len() > 1 => {
            let text =
                "NamespaceSelector / ObjectSelector across multiple resources in the match block are not applicable.";
            refuse(RefusalCode::SelectorAcrossFilters, text, &at)
        }
        _ => Ok(()),
    }
}

fn user(user: &UserFilter, at: &At<'_>) -> Result {
    if user.is_empty() {
        return Ok(());
    }
    let keys = ["subjects", "roles", "clusterRoles"];
    let key = keys
        .into_iter()
        .find(|key| at.key(key).node().is_some())
        .unwrap_or("subjects");
    let text = "Roles / ClusterRoles / Subjects in `any/all` is not applicable.";
    refuse(RefusalCode::UserInfo, text, &at.key(key))
}

fn resources(resources: &ResourceDescription, is_match: bool, at: &At<'_>) -> Result {
    if !is_match && !resources.kinds.is_empty() && !resources.namespaces.is_empty() {
        let text = "excluding a resource within a namespace is not applicable.";
        refuse(RefusalCode::ExcludeKindInNamespace, text, &at.key("namespaces"))?;
    }
    if resources
        .annotations
        .as_ref()
        .is_some_and(|annotations| !annotations.is_empty())
    {
        let text = "Annotations in resource description is not applicable.";
        refuse(RefusalCode::Annotations, text, &at.key("annotations"))?;
    }
    let wild = |text: &str| text.contains(['*', '?']);
    if resources.name.as_ref().is_some_and(|name| wild(name)) {
        let text = "wildcards in resource name is not applicable.";
        refuse(RefusalCode::NameWildcard, text, &at.key("name"))?;
    }
    if let Some(i) = resources.names.iter().position(|name| wild(name)) {
        let text = "wildcards in resource name is not applicable.";
        refuse(RefusalCode::NameWildcard, text, &at.key("names").item(i))?;
    }
    if let Some(i) = resources.namespaces.iter().position(|name| wild(name)) {
        let text = "wildcards in namespace name is not applicable.";
        refuse(RefusalCode::NamespaceWildcard, text, &at.key("namespaces").item(i))?;
    }
    Ok(())
}
