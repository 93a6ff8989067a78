//! When a classic rule applies, as the `matchConstraints` and match conditions of ValidatingPolicies.
//!
//! The same constructions as for native policies, with two differences: Kyverno shows an empty map where there is no object,
//! and a ValidatingPolicy has one set of actions, so that each action needs a policy of its own.

use serde_json::Value as Json;

use super::{
    cel::Names,
    classic::Source,
    formula::Formula,
    group::{Lack, groups},
    place::{Class, Place},
};
use kyvtest_go_compat::text::wildcard;
use kyvtest_kyverno::matching::kind_matches;
use kyvtest_model::{
    kube::{Discovery, GroupVersionKind, Operation},
    policy::{ClassicPolicy, Rule},
};

/// The object of a request, whatever is done to it.
const EITHER: &str = "(request.operation == 'DELETE' ? oldObject : object)";

/// One policy's share of the requests that a rule applies to.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleScope {
    /// `matchConstraints`.
    pub constraints: Json,
    /// What else must hold.
    pub condition: Option<String>,
    /// Whether a violation refuses the request.
    pub denies: bool,
    /// The kinds of the objects, without those that only `*` covers.
    pub kinds: Vec<GroupVersionKind>,
    /// Whether kinds are covered that are not in the list.
    pub others: bool,
}

/// Why a ValidatingPolicy cannot select a rule's requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoScope {
    /// It applies to no request.
    Nothing,
    /// The cluster serves no such kind.
    UnknownKind(String),
    /// It reads what no ValidatingPolicy sees.
    Hidden(String),
    /// It would take too many policies.
    TooMany,
}

/// Returns the scopes of the policies that replace a rule, with these operations only. What a namespaced policy says about its
/// own namespace is left to the namespaced kind.
pub fn rule_scopes(
    policy: &ClassicPolicy,
    rule: &Rule,
    operations: &[Operation],
    discovery: &Discovery,
) -> Result<Vec<RuleScope>, NoScope> {
    let source = Source {
        policy,
        rule,
        exceptions: Vec::new(),
        own_namespace: false,
    };
    let places = Place::all(&source.matched(), &source.excluded(), discovery, true);
    for kind in rule.matches.kinds() {
        let known = discovery.iter().any(|resource| kind_matches(kind, resource, false));
        if !known && kind.kind != "*" {
            return Err(NoScope::UnknownKind(kind.text.clone()));
        }
    }
    let groups = groups(&source, &places, operations, false).map_err(|lack| match lack {
        Lack::Nothing => NoScope::Nothing,
        Lack::Hidden(what) => NoScope::Hidden(what),
        Lack::TooMany => NoScope::TooMany,
    })?;
    let scopes = groups.iter().map(|group| {
        let scope = group.scope(&places, discovery, EITHER);
        let used = || group.places().filter_map(|at| places.get(at));
        let mut kinds: Vec<GroupVersionKind> = Vec::new();
        for place in used().filter(|place| place.others.is_none()) {
            let kind = place.resource.object_kind.clone();
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        RuleScope {
            constraints: scope.constraints,
            condition: scope.condition,
            denies: scope.bindings.iter().any(|bound| bound.denies),
            kinds,
            others: used().any(|place| place.others.is_some()),
        }
    });
    Ok(scopes.collect())
}

/// Whether the rule would have applied to the creation of the old object of an update to which it applies, by the user that
/// Kyverno assumes for it: a condition on `oldObject`. `None` if that depends on the kind or cannot be expressed.
pub fn applied_before(policy: &ClassicPolicy, rule: &Rule, discovery: &Discovery) -> Option<Before> {
    let source = Source {
        policy,
        rule,
        exceptions: Vec::new(),
        own_namespace: false,
    };
    let mut found: Option<Formula> = None;
    for place in Place::all(&source.matched(), &source.excluded(), discovery, true) {
        if !place.operations().contains(&Operation::Update) {
            continue;
        }
        let now = source.applies(&place, Operation::Update);
        if now == Formula::FALSE {
            continue;
        }
        // For a subresource, Kyverno looks at the main resource.
        let main = discovery.by_kind(&place.resource.group, &place.resource.version, &place.resource.kind);
        let main = match main {
            Some(main) if place.others.is_none() => Place {
                resource: (**main).clone(),
                others: None,
            },
            _ => place.clone(),
        };
        let then = as_nobody(source.applies(&main, Operation::Create));
        let then = given(then, &now);
        if place.class() == Class::Namespace && mentions_namespace(&then) {
            return None;
        }
        match &found {
            None => found = Some(then),
            Some(other) if *other == then => {}
            Some(_) => return None,
        }
    }
    let found = found.unwrap_or(Formula::FALSE);
    if found.hidden().is_some() || mentions_namespace(&found) {
        return None;
    }
    Some(match found {
        Formula::Known(known) => Before::Known(known),
        formula => {
            let names = Names {
                subject: "oldObject",
                in_namespace: true,
            };
            Before::If(names.expression(&formula))
        }
    })
}

/// Whether a rule applied to an object before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    /// Always, or never.
    Known(bool),
    /// Under a condition on `oldObject`.
    If(String),
}

fn mentions_namespace(formula: &Formula) -> bool {
    formula.mentions(&|leaf| matches!(leaf, Formula::NamespaceLabel(_)))
}

/// What is left of a formula for the user whom Kyverno invents.
fn as_nobody(formula: Formula) -> Formula {
    match formula {
        Formula::All(parts) => Formula::all(parts.into_iter().map(as_nobody)),
        Formula::Any(parts) => Formula::any(parts.into_iter().map(as_nobody)),
        Formula::Not(inner) => as_nobody(*inner).negate(),
        Formula::User(pattern) => Formula::Known(wildcard::matches(&pattern, "kyverno:kyverno-invalid-controller")),
        Formula::Group(pattern) => Formula::Known(wildcard::matches(&pattern, "kyverno:invalidgroup")),
        other => other,
    }
}

/// What is left of a formula where another one holds, of whose parts only those count that are the same before and after.
fn given(formula: Formula, known: &Formula) -> Formula {
    let fixed = |part: &Formula| {
        !part.mentions(&|leaf| {
            !matches!(
                leaf,
                Formula::Name(_) | Formula::Namespace(_) | Formula::NamespaceLabel(_)
            )
        })
    };
    let held: Vec<&Formula> = match known {
        Formula::All(parts) => parts.iter().collect(),
        other => vec![other],
    };
    let is_held = |part: &Formula| fixed(part) && held.contains(&part);
    match formula {
        formula if is_held(&formula) => Formula::TRUE,
        Formula::All(parts) => Formula::all(parts.into_iter().filter(|part| !is_held(part))),
        other => other,
    }
}
