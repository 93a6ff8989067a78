//! Checks that Kyverno can only make in a cluster.

use std::borrow::Cow;

use super::{Checked, has, validate};
use crate::{
    kube::Discovery,
    policy::{ClassicPolicy, KindSelector, PolicyException, Rule, UserFilter},
};
use kyvtest_cel::{
    admission::{Declarations, Environment, Expression, Returns},
    profile::Profile,
};
use kyvtest_go_compat::text::wildcard;

/// Checks a policy as the webhook for policies does; [`validate`] does what the command line does.
pub fn validate_in_cluster(policy: &ClassicPolicy, rules: &[Cow<'_, Rule>], discovery: &Discovery) -> Checked {
    let mut checked = validate(policy, rules);
    if checked.error.is_none() {
        checked.error = conditions(policy)
            .or_else(|| subresources(policy, rules, discovery))
            .or_else(|| ambiguous_kind(policy, discovery));
    }
    checked
}

/// The reason why Kyverno rejects an exception: one that also applies to background scans cannot depend on the user.
///
/// Upstream counterpart: `api/kyverno/v2` (1.19), `PolicyException.Validate`.
pub fn validate_exception(exception: &PolicyException) -> Option<String> {
    if !exception.background {
        return None;
    }
    let mut errors = super::Errors::default();
    for (list, filters) in [("any", &exception.matches.any), ("all", &exception.matches.all)] {
        for (i, filter) in filters.iter().enumerate() {
            for field in user_fields(&filter.user) {
                errors.forbidden(
                    &format!("spec.match.{list}[{i}].{field}"),
                    "Usage of user info is forbidden",
                );
            }
        }
    }
    errors.finish().err()
}

fn user_fields(user: &UserFilter) -> impl Iterator<Item = &'static str> {
    let given = |length: Option<usize>| length.is_some_and(|length| length > 0);
    [
        ("roles", given(user.roles.as_ref().map(Vec::len))),
        ("clusterRoles", given(user.cluster_roles.as_ref().map(Vec::len))),
        ("subjects", given(user.subjects.as_ref().map(Vec::len))),
    ]
    .into_iter()
    .filter_map(|(name, given)| given.then_some(name))
}

/// Match conditions of the webhook that do not compile.
fn conditions(policy: &ClassicPolicy) -> Option<String> {
    let webhook = policy.spec.webhook.as_ref()?;
    let declarations = Declarations {
        params: false,
        authorizer: false,
        variables: true,
    };
    let environment = Environment::new(Profile::kyverno_classic(), declarations, []);
    let errors: Vec<String> = webhook
        .match_conditions
        .iter()
        .filter_map(|condition| {
            let expression = Expression::compile(condition.expression.text(), &environment, Returns::Bool, false);
            expression.flaw().map(|flaw| flaw.text.clone())
        })
        .collect();
    (!errors.is_empty()).then(|| format!("match conditions compilation errors: [{}]", errors.join(" ")))
}

/// A kind that selects several resources: Kyverno builds a native policy to check the expressions, even if the policy
/// does not request one (`CanGenerateVAP` with `validate`, `pkg/validation/policy/validate.go`), and fails there.
///
/// Known deviations: only the plainest form of such a policy is checked (one rule with one match block); a kind that
/// selects no resource is assumed to be added to the cluster later; a subresource that is served in several versions is
/// accepted, while upstream's decision is random.
fn ambiguous_kind(policy: &ClassicPolicy, discovery: &Discovery) -> Option<String> {
    let [rule] = &policy.spec.rules[..] else { return None };
    rule.validate.as_ref()?.cel.as_ref()?;
    let block = &rule.matches;
    let filters = block.filters();
    let is_plain = rule.exclude.is_none()
        && filters.len() == 1
        && filters.iter().all(|filter| user_fields(&filter.user).next().is_none());
    if !is_plain {
        return None;
    }
    let mut kinds = block.kinds().filter(|kind| kind.text != "*");
    let ambiguous = kinds.find(|kind| {
        let mut served = discovery.iter().filter(|resource| {
            wildcard::matches(&kind.group, &resource.group)
                && wildcard::matches(&kind.version, &resource.version)
                && wildcard::matches(&kind.kind, &resource.kind)
                && wildcard::matches(&kind.subresource, &resource.subresource)
        });
        let Some(first) = served.next() else { return false };
        served.any(|other| kind.subresource.is_empty() || other.group != first.group || other.name() != first.name())
    });
    ambiguous.map(|kind| format!("no unique match for kind {}", kind.kind))
}

/// Subresources are not part of background scans.
fn subresources(policy: &ClassicPolicy, rules: &[Cow<'_, Rule>], discovery: &Discovery) -> Option<String> {
    let serves = |selector: &KindSelector| {
        discovery.iter().any(|resource| {
            !resource.subresource.is_empty()
                && wildcard::matches(&selector.group, &resource.group)
                && wildcard::matches(&selector.version, &resource.version)
                && wildcard::matches(&selector.kind, &resource.kind)
                && wildcard::matches(&selector.subresource, &resource.subresource)
        })
    };
    for (i, rule) in rules.iter().enumerate() {
        if !policy.spec.background || !has(rule, "validate") {
            continue;
        }
        for (name, block) in [("match", Some(&rule.matches)), ("exclude", rule.exclude.as_ref())] {
            let Some(block) = block else { continue };
            for (place, filter) in block.located_filters() {
                let kinds = &filter.resources.kinds;
                if kinds.iter().any(|kind| kind.text == "*") {
                    continue;
                }
                if let Some(kind) = kinds.iter().find(|kind| serves(&kind.value)) {
                    let text = format!("background scan enabled with subresource {}", kind.text);
                    return Some(format!("path: spec.rules[{i}].{name}{place}.kinds: {text}"));
                }
            }
        }
    }
    None
}
