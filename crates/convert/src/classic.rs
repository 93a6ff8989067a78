//! ClusterPolicies.

use std::sync::Arc;

use super::{
    Generated, Item, Options, Refusal, RefusalCode,
    build::{Rule, Rules},
    check::{check, exception_at},
    object::{Maker, Owner, kept_labels, object},
    place::At,
    refusal::{CREATES, VERIFIES},
};
use kyvtest_go_compat::yaml::{Edited, NodeId};
use kyvtest_model::{
    kube::{Discovery, Operation},
    policy::{
        Cel, ClassicPolicy, FailureAction, PolicyException, PolicyKind, ResourceDescription, ResourceFilter,
        Rule as PolicyRule, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    },
};

/// A ClusterPolicy that passed the checks, with everything that is known of its conversion.
pub(super) struct Plan<'p> {
    pub(super) policy: &'p ClassicPolicy,
    pub(super) rule: &'p PolicyRule,
    pub(super) cel: &'p Cel,
    pub(super) exceptions: Vec<&'p Arc<PolicyException>>,
    pub(super) matched: Rules<'p>,
    pub(super) excluded: Rules<'p>,
    /// The match filters that count, each with its place.
    pub(super) filters: Vec<(&'p ResourceDescription, At<'p>)>,
    /// The spec.
    pub(super) at: At<'p>,
}

impl<'p> Plan<'p> {
    /// The one rule.
    pub(super) fn rule_at(&self) -> At<'p> {
        self.at.key("rules").item(0)
    }

    /// Its `validate.cel`.
    pub(super) fn cel_at(&self) -> At<'p> {
        self.rule_at().keys(&["validate", "cel"])
    }

    /// What a violation means: the rule's word, else the policy's.
    pub(super) fn action(&self) -> FailureAction {
        let validate = self.rule.validate.as_ref();
        let own = validate.and_then(|validate| validate.failure_action.as_ref());
        own.map_or(self.policy.spec.validation_failure_action, |action| action.value)
    }

    /// The name of the policy to be generated.
    pub(super) fn name(&self) -> String {
        name(self.policy)
    }
}

fn name(policy: &ClassicPolicy) -> String {
    format!("cpol-{}", policy.metadata.name.value)
}

pub(super) fn convert(
    policy: &ClassicPolicy,
    exceptions: &[Arc<PolicyException>],
    discovery: &Discovery,
    options: Options,
    report: &mut Vec<Item>,
) -> Result<Generated, Refusal> {
    let spec = At::spec(&policy.spec.source);
    if policy.kind == PolicyKind::Policy {
        return Err(Refusal::silent(RefusalCode::NamespacedPolicy, &spec));
    }
    let rules = &policy.spec.rules;
    let first = rules.iter().find(|rule| rule.validate.is_some()).and(rules.first());
    let Some(first) = first else {
        let mut refusal = Refusal::silent(RefusalCode::NoValidateRule, &spec.key("rules"));
        let all = |has: fn(&PolicyRule) -> bool| !rules.is_empty() && rules.iter().all(has);
        if all(|rule| rule.generate.is_some()) {
            CREATES.clone_into(&mut refusal.help);
        } else if all(|rule| rule.verify_images.is_some()) {
            VERIFIES.clone_into(&mut refusal.help);
        }
        return Err(refusal);
    };
    let named = |exception: &&Arc<PolicyException>| exception.names(&policy.metadata.name.value, &first.name.value);
    let exceptions: Vec<&Arc<PolicyException>> = exceptions.iter().filter(named).collect();
    let (rule, cel) = check(policy, &exceptions, options.force)?;
    let plan = plan(policy, rule, cel, exceptions, discovery)?;
    super::detect::classic(&plan, discovery, report);
    generate(&plan, report).ok_or_else(Refusal::invalid)
}

/// Resolves the kinds.
fn plan<'p>(
    policy: &'p ClassicPolicy,
    rule: &'p PolicyRule,
    cel: &'p Cel,
    exceptions: Vec<&'p Arc<PolicyException>>,
    discovery: &Discovery,
) -> Result<Plan<'p>, Refusal> {
    let at = At::spec(&policy.spec.source);
    let name = name(policy);
    let rule_at = at.key("rules").item(0);
    let mut filters = Vec::new();
    let block = rule_at.key("match");
    if !rule.matches.inline.resources.is_empty() {
        filters.push((&rule.matches.inline.resources, block.key("resources")));
    }
    listed(&rule.matches.any, &block.key("any"), &mut filters);
    listed(&rule.matches.all, &block.key("all"), &mut filters);
    let mut matched = Rules::default();
    for (filter, at) in &filters {
        matched.add(filter, true, at, discovery, &name)?;
    }
    let mut others = Vec::new();
    if let Some(exclude) = &rule.exclude {
        let block = rule_at.key("exclude");
        if !exclude.inline.resources.is_empty() {
            others.push((&exclude.inline.resources, block.key("resources")));
        }
        listed(&exclude.any, &block.key("any"), &mut others);
        listed(&exclude.all, &block.key("all"), &mut others);
    }
    for exception in &exceptions {
        let block = exception_at(exception).key("match");
        listed(&exception.matches.any, &block.key("any"), &mut others);
        listed(&exception.matches.all, &block.key("all"), &mut others);
    }
    let mut excluded = Rules::default();
    for (filter, at) in &others {
        excluded.add(filter, false, at, discovery, &name)?;
    }
    Ok(Plan {
        policy,
        rule,
        cel,
        exceptions,
        matched,
        excluded,
        filters,
        at,
    })
}

fn listed<'p>(filters: &'p [ResourceFilter], at: &At<'p>, all: &mut Vec<(&'p ResourceDescription, At<'p>)>) {
    let filters = filters.iter().enumerate();
    all.extend(filters.map(|(i, filter)| (&filter.resources, at.item(i).key("resources"))));
}

fn generate(plan: &Plan<'_>, report: &mut Vec<Item>) -> Option<Generated> {
    let policy = plan.policy;
    let name = plan.name();
    let owner = Owner {
        api_version: "kyverno.io/v1",
        kind: "ClusterPolicy",
        name: &policy.metadata.name.value,
    };
    let edit = |_: &mut Edited| {};
    let mut maker = Maker::new(&plan.at, &edit)?;
    let cel = plan.cel_at();
    let mut spec = Vec::new();
    spec.extend(maker.field("paramKind", &cel.key("paramKind")));
    spec.push(("matchConstraints", match_constraints(&mut maker, plan)));
    for (key, at) in [
        ("matchConditions", plan.rule_at().key("celPreconditions")),
        ("variables", cel.key("variables")),
        ("validations", cel.key("expressions")),
        ("auditAnnotations", cel.key("auditAnnotations")),
    ] {
        spec.extend(maker.field(key, &at));
    }
    let spec = maker.map(&spec);
    let vap = maker.finish(
        "ValidatingAdmissionPolicy",
        &owner,
        &name,
        kept_labels(&policy.metadata),
        spec,
    );

    let mut maker = Maker::new(&plan.at, &edit)?;
    let mut spec = vec![("policyName", maker.text(&name))];
    spec.extend(maker.field("paramRef", &cel.key("paramRef")));
    let actions: &[&str] = match plan.action() {
        FailureAction::Enforce => &["Deny"],
        FailureAction::Audit => &["Audit", "Warn"],
    };
    spec.push(("validationActions", maker.texts(actions.iter().copied())));
    let spec = maker.map(&spec);
    let binding = format!("{name}-binding");
    let binding = maker.finish("ValidatingAdmissionPolicyBinding", &owner, &binding, &[], spec);
    Some(Generated {
        audit_warnings: plan.action() == FailureAction::Audit && !policy.spec.emit_warning,
        vap: object(vap, policy.origin, report, ValidatingAdmissionPolicy::read)?,
        bindings: vec![object(
            binding,
            policy.origin,
            report,
            ValidatingAdmissionPolicyBinding::read,
        )?],
    })
}

fn match_constraints<'p>(maker: &mut Maker<'p>, plan: &Plan<'p>) -> NodeId {
    let mut constraints = Vec::new();
    // Each filter overwrites the result of the one before it.
    if let Some((last, at)) = plan.filters.last() {
        if last.namespaces.is_empty() {
            constraints.extend(maker.field("namespaceSelector", &at.key("namespaceSelector")));
        } else {
            let key = maker.text("kubernetes.io/metadata.name");
            let operator = maker.text("In");
            let values = maker.texts(last.namespaces.iter().map(|text| text.value.as_str()));
            let expression = maker.map(&[("key", key), ("operator", operator), ("values", values)]);
            let expressions = maker.list(&[expression]);
            constraints.push(("namespaceSelector", maker.map(&[("matchExpressions", expressions)])));
        }
        constraints.extend(maker.field("objectSelector", &at.key("selector")));
    }
    for (key, rules) in [
        ("resourceRules", &plan.matched),
        ("excludeResourceRules", &plan.excluded),
    ] {
        if !rules.list.is_empty() {
            let list: Vec<NodeId> = rules.list.iter().map(|rule| named_rule(maker, rule)).collect();
            constraints.push((key, maker.list(&list)));
        }
    }
    maker.map(&constraints)
}

fn named_rule(maker: &mut Maker<'_>, rule: &Rule) -> NodeId {
    let mut entries = vec![
        ("apiGroups", maker.texts([rule.group.as_str()])),
        ("apiVersions", maker.texts([rule.version.as_str()])),
        (
            "operations",
            maker.texts(rule.operations.iter().map(|operation| Operation::as_str(*operation))),
        ),
        ("resources", maker.texts(rule.resources.iter().map(String::as_str))),
    ];
    if !rule.resource_names.is_empty() {
        let names = maker.texts(rule.resource_names.iter().map(String::as_str));
        entries.push(("resourceNames", names));
    }
    maker.map(&entries)
}
