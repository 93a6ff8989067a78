//! Kyverno's errors and warnings when a ClusterPolicy or Policy is created, beyond its schema.
//!
//! Upstream counterpart: `pkg/validation/policy`, `pkg/policy/validate` and the `Validate` methods of `api/kyverno/v1`
//! (Kyverno 1.19), as its command line runs them: without a cluster. Messages are upstream's. Like upstream,
//! expressions are not compiled: a bad one shows when the rule is applied.
//!
//! Known deviation: the conditions of `webhookConfiguration`, for which upstream needs a cluster, are not compiled.

mod action;
mod admission;
mod block;
mod cluster;
mod conditions;
mod conflict;
mod context;
mod generate;
mod json;
mod mutate;
mod overrides;
mod pattern;
mod pod_security;
mod references;
mod variables;
mod verify_images;

pub use admission::{AdmissionChecked, FieldError, admission_diagnostics, validate_admission};

use std::{borrow::Cow, collections::BTreeSet};

pub use cluster::{validate_exception, validate_in_cluster};
pub use generate::undecodable;

use super::{ClassicPolicy, MatchResources, PolicyKind, Rule, autogen, kind_selector::split_kind};
use kyvtest_go_compat::yaml::{Items, Kind, Node, Number};

/// Kyverno's findings about a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// The reason why Kyverno rejects the policy.
    pub error: Option<String>,
    /// Warnings to the author.
    pub warnings: Vec<String>,
}

/// Checks a policy. `rules` are all effective rules, including generated ones.
pub fn validate(policy: &ClassicPolicy, rules: &[Cow<'_, Rule>]) -> Checked {
    let mut warnings = Vec::new();
    let error = check(policy, rules, &mut warnings).err();
    Checked { error, warnings }
}

/// Errors that are collected and reported together, each with the path of its field.
#[derive(Default)]
struct Errors(Vec<String>);

impl Errors {
    fn invalid(&mut self, path: &str, value: &str, detail: &str) {
        self.0.push(format!("{path}: Invalid value: {value}: {detail}"));
    }

    fn forbidden(&mut self, path: &str, detail: &str) {
        self.0.push(format!("{path}: Forbidden: {detail}"));
    }

    fn required(&mut self, path: &str, detail: &str) {
        let colon = if detail.is_empty() { "" } else { ": " };
        self.0.push(format!("{path}: Required value{colon}{detail}"));
    }

    /// A single error alone, several as a list without repetitions.
    fn finish(self) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        let mut all: Vec<String> = self.0.into_iter().filter(|text| seen.insert(text.clone())).collect();
        match all.len() {
            0 => Ok(()),
            1 => Err(all.remove(0)),
            _ => Err(format!("[{}]", all.join(", "))),
        }
    }
}

fn check(policy: &ClassicPolicy, rules: &[Cow<'_, Rule>], warnings: &mut Vec<String>) -> Result<(), String> {
    let spec = &policy.spec;
    if policy.kind == PolicyKind::ClusterPolicy && policy.metadata.namespace.is_some() {
        let text = "A clusterpolicy should not have the namespace defined";
        warnings.push(text.to_owned());
        return Err(text.to_owned());
    }
    old_spellings(spec.source.node(), "validationFailureAction", warnings);
    for rule in &spec.rules {
        if let Some(validate) = rule.source.node().get("validate")
            && validate.get("failureAction").is_some_and(|action| !action.is_null())
        {
            old_spellings(validate, "failureAction", warnings);
        }
    }
    variables::check(policy, rules)?;
    fields(policy, warnings)?;
    if policy.kind == PolicyKind::ClusterPolicy {
        for (i, rule) in spec.rules.iter().enumerate() {
            let own = rule.validate.as_ref();
            if let Some(own) = own.and_then(|validate| validate.failure_action_overrides.as_ref()) {
                overrides::check(
                    own,
                    &format!("spec.rules[{i}].validate.validationFailureActionOverrides"),
                )?;
            }
        }
        overrides::check(
            &spec.validation_failure_action_overrides,
            "spec.validationFailureActionOverrides",
        )?;
    }
    if !spec.admission && !spec.background {
        return Err("disabling both admission and background processing is not allowed".to_owned());
    }
    if !spec.admission && !spec.rules.iter().all(is_validation) {
        return Err("disabling admission processing is only allowed with validation policies".to_owned());
    }
    for (i, rule) in rules.iter().enumerate() {
        action::kinds(rule, i, spec.background)?;
    }
    for (i, rule) in rules.iter().enumerate() {
        in_force(policy, rules, i, rule, warnings)?;
    }
    Ok(())
}

/// Checks an effective rule, written or generated.
fn in_force(
    policy: &ClassicPolicy,
    rules: &[Cow<'_, Rule>],
    i: usize,
    rule: &Rule,
    warnings: &mut Vec<String>,
) -> Result<(), String> {
    mutate::patches(rule, i)?;
    if mutate::patches_pods(rule) {
        warnings.push(
            "Pods managed by workload controllers should not be directly mutated using policies. Use the autogen feature \
             or write policies that match Pod controllers."
                .to_owned(),
        );
    }
    block::check(rule, i)?;
    conditions::check(rule, i)?;
    variables::element(rule)?;
    let has_context = rule
        .context
        .as_ref()
        .is_some_and(|context| context.node().as_seq().is_some_and(|list| !list.is_empty()));
    let is_cel = rule.validate.as_ref().is_some_and(|validate| validate.cel.is_some());
    if has_context && is_cel {
        return Err(format!(
            "path: spec.rules[{i}]: context variables are not supported for CEL expressions in validate rules"
        ));
    }
    context::check(rule).map_err(|error| format!("path: spec.rules[{i}]: {error}"))?;
    verify_images::extractors(rule).map_err(|error| format!("path: spec.rules[{i}]: {error}"))?;
    if rule
        .matches
        .filters()
        .iter()
        .any(|filter| filter.resources.kinds.is_empty())
    {
        return Err(action::no_kind(rule));
    }
    mutate::check(rule, i)?;
    action::check(rule, i)?;
    if has(rule, "generate") {
        generate::check(rule)?;
    }
    verify_images::check(policy, rule, i)?;
    let kinds: BTreeSet<String> = rule
        .matches
        .kinds()
        .map(|kind| {
            let (_, kind) = split_kind(&kind.text);
            kind.split('/').next().unwrap_or_default().to_owned()
        })
        .collect();
    if kinds.iter().eq(["Pod"]) && leaves_controllers_out(policy) {
        warnings.push(
            "Policies that match Pods apply to all Pods including those created and managed by controllers excluded \
             from autogen. Use preconditions to exclude the Pods managed by controllers which are excluded from autogen. \
             Refer to https://kyverno.io/docs/policy-types/cluster-policy/autogen/ for details."
                .to_owned(),
        );
    }
    pattern::texts(rule)?;
    if let Some(validate) = rule.source.node().get("validate").filter(|_| has(rule, "validate")) {
        subresources(rule, &json::validate(validate, policy.is_v2beta1()), false, warnings);
    }
    if let Some(mutate) = rule.mutate.as_ref().filter(|_| has(rule, "mutate")) {
        subresources(rule, &json::mutate(mutate.node()), true, warnings);
        if mutate::existing(rule).unwrap_or_else(|| mutate::all_existing(policy)) {
            variables::on_update(policy, rules)?;
        }
    }
    verify_images::deprecated(rule, warnings);
    for json in verify_images::validations(rule) {
        subresources(rule, &json, false, warnings);
    }
    conditions::deprecated(rule, warnings);
    Ok(())
}

fn is_validation(rule: &Rule) -> bool {
    !(has(rule, "mutate") || has(rule, "generate") || has(rule, "verifyImages"))
}

/// Whether a rule has a non-empty section.
pub(super) fn has(rule: &Rule, section: &str) -> bool {
    let Some(node) = rule.source.node().get(section) else {
        return false;
    };
    // The schema gives `validate` a default, so that it is never empty.
    match node.kind() {
        Kind::Map(_) if section == "validate" => true,
        Kind::Map(entries) => entries.iter().any(|entry| is_set(entry.key, entry.value)),
        Kind::Seq(list) => !list.is_empty(),
        _ => false,
    }
}

/// Whether a field of `mutate` or `generate` has a value other than Go's zero value.
fn is_set(name: &str, value: Node<'_>) -> bool {
    match value.kind() {
        Kind::Null => false,
        Kind::Str(text) => !text.is_empty() || ["data", "patchStrategicMerge"].contains(&name),
        Kind::Bool(flag) => flag || !["synchronize", "orphanDownstreamOnPolicyDelete"].contains(&name),
        Kind::Map(entries) if ["clone", "cloneList"].contains(&name) => {
            entries.iter().any(|entry| is_set(entry.key, entry.value))
        }
        _ => true,
    }
}

/// Warns about `enforce` and `audit`, at most once.
fn old_spellings(owner: Node<'_>, field: &str, warnings: &mut Vec<String>) {
    let is_old = |node: Option<Node<'_>>| matches!(node.and_then(Node::as_str), Some("enforce" | "audit"));
    let overrides = owner.get(&format!("{field}Overrides")).and_then(Node::as_seq);
    let mut overrides = overrides.into_iter().flat_map(Items::iter);
    if is_old(owner.get(field)) || overrides.any(|item| is_old(item.get("action"))) {
        warnings.push("Validation failure actions enforce/audit are deprecated, use Enforce/Audit instead.".to_owned());
    }
}

/// The checks of the API types' methods.
fn fields(policy: &ClassicPolicy, warnings: &mut Vec<String>) -> Result<(), String> {
    let spec = policy.spec.source.node();
    let there = |node: Node<'_>, key: &str| node.get(key).is_some_and(|value| !value.is_null());
    let webhook = spec.get("webhookConfiguration").filter(|node| !node.is_null());
    let mut errors = Errors::default();
    if policy
        .metadata
        .annotation(autogen::ANNOTATION)
        .is_some_and(|text| text.value == "all")
    {
        errors.forbidden(
            "metadata.annotations",
            "Autogen annotation does not support 'all' anymore, remove the annotation or set it to a valid value",
        );
    }
    if policy.metadata.name.value.len() > 63 {
        errors
            .0
            .push("name: Too long: may not be more than 63 bytes".to_owned());
    }
    if there(spec, "webhookTimeoutSeconds") && webhook.is_some_and(|node| there(node, "timeoutSeconds")) {
        errors.forbidden(
            "spec.webhookTimeoutSeconds",
            "remove the deprecated field and use spec.webhookConfiguration.timeoutSeconds instead",
        );
    }
    if there(spec, "failurePolicy") && webhook.is_some_and(|node| there(node, "failurePolicy")) {
        errors.forbidden(
            "spec.failurePolicy",
            "remove the deprecated field and use spec.webhookConfiguration.failurePolicy instead",
        );
    }
    if there(spec, "generateExistingOnPolicyUpdate") {
        errors.forbidden(
            "spec.generateExistingOnPolicyUpdate",
            "remove the deprecated field and use spec.generate[*].generateExisting instead",
        );
    }
    for (i, rule) in policy
        .spec
        .rules
        .iter()
        .enumerate()
        .filter(|(_, rule)| has(rule, "mutate"))
    {
        let targets = rule.mutate.as_ref().and_then(|mutate| mutate.node().get("targets"));
        let targets = targets
            .and_then(Node::as_seq)
            .is_some_and(|targets| !targets.is_empty());
        let existing = mutate::existing(rule) == Some(true) || mutate::all_existing(policy);
        if existing && !targets {
            let detail =
                format!("rules[{i}].mutate.targets has to be specified when mutateExistingOnPolicyUpdate is set");
            errors.forbidden("spec.mutateExistingOnPolicyUpdate", &detail);
        }
    }
    for (owner, path, key) in [
        (Some(spec), "spec.webhookTimeoutSeconds", "webhookTimeoutSeconds"),
        (webhook, "spec.webhookConfiguration.timeoutSeconds", "timeoutSeconds"),
    ] {
        let seconds = owner.and_then(|owner| owner.get(key)).and_then(Node::number);
        if let Some(Number::Int(seconds)) = seconds
            && !(1..=30).contains(&seconds)
        {
            errors.invalid(
                path,
                &seconds.to_string(),
                "the timeout value must be between 1 and 30 seconds",
            );
        }
    }
    let mut names = BTreeSet::new();
    for (i, rule) in policy.spec.rules.iter().enumerate() {
        if !names.insert(&rule.name.value) {
            let json = json::rule(rule.source.node(), policy.is_v2beta1());
            let detail = format!("Duplicate rule name: '{}'", rule.name.value);
            errors.invalid(&format!("spec.rules[{i}].name"), &json, &detail);
        }
    }
    for (i, rule) in policy.spec.rules.iter().enumerate() {
        let path = format!("spec.rules[{i}]");
        rule_type(rule, &path, policy.is_v2beta1(), &mut errors);
        if conflict::is_empty_set(rule) {
            let json = json::rule(rule.source.node(), policy.is_v2beta1());
            errors.invalid(&path, &json, "Rule is matching an empty set");
        }
        let namespaced = policy.kind == PolicyKind::Policy;
        block::fields(rule, "match", Some(&rule.matches), &path, namespaced, &mut errors);
        block::fields(rule, "exclude", rule.exclude.as_ref(), &path, namespaced, &mut errors);
        if namespaced {
            mutate::target_namespaces(policy, rule, &path, &mut errors);
        }
        pod_security::check(rule, &path, &mut errors);
        if has(rule, "generate") {
            generate::fields(policy, rule, &path, &mut errors, warnings);
        }
    }
    if policy.kind == PolicyKind::Policy && !policy.spec.validation_failure_action_overrides.is_empty() {
        errors.forbidden(
            "spec.validationFailureActionOverrides",
            "Use of validationFailureActionOverrides is supported only with ClusterPolicy",
        );
    }
    errors.finish()
}

/// A rule has one type.
fn rule_type(rule: &Rule, path: &str, v2beta1: bool, errors: &mut Errors) {
    let name = &rule.name.value;
    let json = || json::rule(rule.source.node(), v2beta1);
    let sections = ["mutate", "validate", "generate", "verifyImages"];
    match sections.iter().filter(|section| has(rule, section)).count() {
        0 => errors.invalid(
            path,
            &json(),
            &format!(
                "No operation defined in the rule '{name}'.(supported operations: mutate,validate,generate,verifyImages)"
            ),
        ),
        1 => {}
        _ => errors.invalid(
            path,
            &json(),
            &format!(
                "Multiple operations defined in the rule '{name}', only one operation \
                 (mutate,validate,generate,verifyImages) is allowed per rule"
            ),
        ),
    }
    if rule.image_extractors.is_some() && !has(rule, "verifyImages") {
        let detail =
            format!("Invalid rule spec for rule '{name}', imageExtractors can only be defined for verifyImages rule");
        errors.invalid(&format!("{path}.imageExtractors"), &json(), &detail);
    }
}

/// Whether the annotation names controllers other than the original five.
fn leaves_controllers_out(policy: &ClassicPolicy) -> bool {
    let Some(text) = policy
        .metadata
        .annotation(autogen::ANNOTATION)
        .filter(|text| text.value != "none")
    else {
        return false;
    };
    let lower = text.value.to_lowercase();
    let mut listed: Vec<&str> = lower.split(',').collect();
    listed.sort_unstable();
    listed != ["cronjob", "daemonset", "deployment", "job", "statefulset"]
}

/// A rule that reads `replicas` or a status in a section, and does not match the subresource that changes it.
fn subresources(rule: &Rule, json: &str, targets: bool, warnings: &mut Vec<String>) {
    let blocks = [Some(&rule.matches), rule.exclude.as_ref()];
    let kinds = blocks.into_iter().flatten().flat_map(MatchResources::kinds);
    let mut kinds: Vec<String> = kinds.map(|kind| kind.text.to_lowercase()).collect();
    if let Some(mutate) = rule.mutate.as_ref().filter(|_| targets) {
        let targets = mutate.node().get("targets").and_then(Node::as_seq);
        for target in targets.into_iter().flat_map(Items::iter) {
            kinds.extend(target.get("kind").and_then(Node::as_str).map(str::to_lowercase));
        }
    }
    let names = |word: &str| kinds.iter().any(|kind| kind.contains(word));
    if json.contains("replicas") && !names("scale") {
        warnings.push("You are matching on replicas but not including the scale subresource in the policy.".to_owned());
    }
    if (json.contains(".status") || json.contains("\"status\":")) && !names("status") {
        warnings.push("You are matching on status but not including the status subresource in the policy.".to_owned());
    }
}
