//! ValidatingPolicies.

use std::{cell::Cell, sync::Arc};

use super::{
    Action, Generated, Item, Options, Refusal, RefusalCode,
    object::{Maker, Owner, kept_labels, object},
    place::At,
    report::Report,
};
use kyvtest_cel::time::Timestamp;
use kyvtest_go_compat::yaml::{Edited, Node, NodeId};
use kyvtest_model::policy::{
    CelPolicyException, PolicySpec, ScopedPolicy, Text, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingPolicy, ValidatingPolicySpec, ValidationAction,
};

/// A CEL policy that passed the checks, with the exceptions that count: one that names the policy twice counts twice.
pub(super) struct CelPlan<'p, S> {
    pub(super) policy: &'p ScopedPolicy<S>,
    pub(super) exceptions: Vec<&'p CelPolicyException>,
    /// The spec.
    pub(super) at: At<'p>,
}

pub(super) type Plan<'p> = CelPlan<'p, ValidatingPolicySpec>;

impl<'p, S: PolicySpec> CelPlan<'p, S> {
    /// The owner of what is generated. The controller reads policies as v1beta1, regardless of the version they were
    /// written in.
    pub(super) fn owner(&self) -> Owner<'p> {
        Owner {
            api_version: "policies.kyverno.io/v1beta1",
            kind: S::KINDS[0],
            name: &self.policy.metadata.name.value,
        }
    }

    /// The match conditions that keep out what exceptions exempt.
    pub(super) fn exclusions(&self, maker: &mut Maker<'_>) -> Vec<NodeId> {
        let conditions = self.exceptions.iter().flat_map(|exception| &exception.match_conditions);
        let negated = conditions.map(|condition| {
            let expression = format!("!({})", condition.expression.text());
            named(maker, &condition.name, &expression)
        });
        negated.collect()
    }

    /// Reports an exception for another kind, and one that expires.
    pub(super) fn report_exception(
        &self,
        exception: &CelPolicyException,
        [other_kind, expires]: [&'static str; 2],
        report: &mut Vec<Item>,
    ) {
        let at = exception_at(exception);
        let name = &self.policy.metadata.name.value;
        for (i, reference) in exception.policy_refs.iter().enumerate() {
            if reference.name.value == *name && reference.kind.value != self.policy.kind() {
                let at = at.key("policyRefs").item(i).key("kind");
                let text = format!(
                    "the exception is for a `{}`, but also counts for this policy",
                    reference.kind.value
                );
                report.hazard(other_kind, Action::Narrowed, &at, text);
            }
        }
        if exception.expires_at.is_some() {
            let text = "the native policy keeps the exemption";
            report.hazard(expires, Action::Narrowed, &at.key("expiresAt"), text);
        }
    }
}

/// The spec of an exception.
pub(super) fn exception_at(exception: &CelPolicyException) -> At<'_> {
    let namespace = exception.metadata.namespace.as_ref();
    let namespace = namespace.map(|text| text.value.as_str());
    At::exception(&exception.source, namespace, &exception.metadata.name.value)
}

pub(super) fn convert(
    policy: &ValidatingPolicy,
    exceptions: &[Arc<CelPolicyException>],
    options: Options,
    report: &mut Vec<Item>,
) -> Result<Generated, Refusal> {
    let at = At::spec(&policy.spec.source);
    if policy.namespaced {
        return Err(Refusal::silent(RefusalCode::NamespacedPolicy, &at));
    }
    let enabled = &policy.spec.autogen.native_policy;
    if !options.force && !enabled.as_ref().is_some_and(|enabled| enabled.value) {
        let text = "skip generating ValidatingAdmissionPolicy: not enabled.";
        let at = at.keys(&["autogen", "validatingAdmissionPolicy", "enabled"]);
        return Err(Refusal::new(RefusalCode::NotMarked, text, &at));
    }
    if policy.spec.has_autogen() {
        let text = "skip generating ValidatingAdmissionPolicy: pod controllers autogen is enabled.";
        let at = at.keys(&["autogen", "podControllers", "controllers"]);
        return Err(Refusal::new(RefusalCode::Autogen, text, &at));
    }
    if policy.spec.match_constraints.is_none() {
        return Err(Refusal::silent(RefusalCode::NoMatchConstraints, &at));
    }
    let exceptions = counting_exceptions(&policy.metadata.name.value, exceptions, options);
    let plan = CelPlan { policy, exceptions, at };
    super::detect::validating(&plan, report);
    generate(&plan, report).ok_or_else(Refusal::invalid)
}

/// The exceptions that name a policy and have not expired: one that names it twice counts twice. Without a time none has
/// expired.
pub(super) fn counting_exceptions<'e>(
    name: &str,
    exceptions: &'e [Arc<CelPolicyException>],
    options: Options,
) -> Vec<&'e CelPolicyException> {
    let has_expired = |exception: &CelPolicyException| {
        let end = exception.expires_at.as_ref().and_then(|text| Timestamp::parse(text));
        end.zip(options.now)
            .is_some_and(|(end, now)| end.instant() < now.instant())
    };
    let current = exceptions.iter().filter(|exception| !has_expired(exception));
    let named = current.flat_map(|exception| {
        let references = exception.policy_refs.iter();
        let to_policy = references.filter(|reference| reference.name.value == name);
        to_policy.map(|_| &**exception)
    });
    named.collect()
}

fn generate(plan: &Plan<'_>, report: &mut Vec<Item>) -> Option<Generated> {
    let policy = plan.policy;
    let name = format!("vpol-{}", policy.metadata.name.value);
    let owner = plan.owner();
    let replacing = Cell::new(false);
    let edit = |text: &mut Edited| {
        if replacing.get() {
            text.replace("exceptions.allowedImages", "variables.allowedImages", |_| false);
            text.replace("exceptions.allowedValues", "variables.allowedValues", |_| false);
        }
    };
    let mut maker = Maker::new(&plan.at, &edit)?;
    let mut spec = vec![("matchConstraints", maker.copy(&plan.at.key("matchConstraints"))?)];
    let mut conditions = maker.items(&plan.at.key("matchConditions"));
    let mut variables = maker.items(&plan.at.key("variables"));
    conditions.extend(plan.exclusions(&mut maker));
    for exception in &plan.exceptions {
        for (variable, values) in [
            ("allowedImages", &exception.images),
            ("allowedValues", &exception.allowed_values),
        ] {
            if !values.is_empty() {
                variables.push(named(&mut maker, variable, &list_literal(values)));
            }
        }
    }
    if !conditions.is_empty() {
        spec.push(("matchConditions", maker.list(&conditions)));
    }
    if !variables.is_empty() {
        spec.push(("variables", maker.list(&variables)));
    }
    let validations = validations(&mut maker, plan, &replacing);
    spec.extend(validations.map(|node| ("validations", node)));
    spec.extend(maker.field("auditAnnotations", &plan.at.key("auditAnnotations")));
    let spec = maker.map(&spec);
    let vap = maker.finish(
        "ValidatingAdmissionPolicy",
        &owner,
        &name,
        kept_labels(&policy.metadata),
        spec,
    );

    let mut maker = Maker::new(&plan.at, &edit)?;
    let policy_name = maker.text(&name);
    let actions: Vec<&str> = actions(policy).into_iter().map(ValidationAction::as_str).collect();
    let actions = maker.texts(actions);
    let spec = maker.map(&[("policyName", policy_name), ("validationActions", actions)]);
    let binding = format!("{name}-binding");
    let binding = maker.finish("ValidatingAdmissionPolicyBinding", &owner, &binding, &[], spec);
    Some(Generated {
        audit_warnings: false,
        vap: object(vap, policy.origin, report, ValidatingAdmissionPolicy::read)?,
        bindings: vec![object(
            binding,
            policy.origin,
            report,
            ValidatingAdmissionPolicyBinding::read,
        )?],
    })
}

/// What a violation means: as written, or a refusal of the request.
pub(super) fn actions(policy: &ValidatingPolicy) -> Vec<ValidationAction> {
    let written = policy.spec.validation_actions.as_deref().unwrap_or_default();
    if written.is_empty() {
        return vec![ValidationAction::Deny];
    }
    written.iter().map(|action| action.value).collect()
}

/// A condition or variable.
pub(super) fn named(maker: &mut Maker<'_>, name: &str, expression: &str) -> NodeId {
    let name = maker.text(name);
    let expression = maker.text(expression);
    maker.map(&[("name", name), ("expression", expression)])
}

/// A list of texts in CEL, quotes in them left as they are.
fn list_literal(values: &[Text]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("'{}'", value.value)).collect();
    format!("[{}]", quoted.join(", "))
}

/// The validations; only their expressions are rewritten.
fn validations<'p>(maker: &mut Maker<'p>, plan: &Plan<'p>, replacing: &Cell<bool>) -> Option<NodeId> {
    let at = plan.at.key("validations");
    let items: Vec<NodeId> = (0..plan.policy.spec.validations.len())
        .map(|i| {
            let at = at.item(i);
            replacing.set(true);
            let expression = maker.copy(&at.key("expression"));
            replacing.set(false);
            let mut entries: Vec<(&str, NodeId)> = expression.into_iter().map(|node| ("expression", node)).collect();
            for key in ["message", "messageExpression", "reason"] {
                let at = at.key(key);
                let is_empty = key != "reason" && at.node().and_then(Node::as_str) == Some("");
                let node = maker.copy(&at).filter(|_| !is_empty);
                entries.extend(node.map(|node| (key, node)));
            }
            maker.map(&entries)
        })
        .collect();
    (!items.is_empty()).then(|| maker.list(&items))
}
