//! Rules of ClusterPolicies and Policies, each as native policies.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::{
    Refused,
    classic::Source,
    code,
    formula::{Entries, Formula, Need},
    group::{Group, Lack, Scope, groups},
    object::{Conditions, Objects, bindings, validations},
    place::{Class, Place},
    steps::{Construct, Steps},
};
use crate::{Layer, inline::inline};
use kyvtest_convert::Exceptions;
use kyvtest_go_compat::value::Value;
use kyvtest_kyverno::{autogen, lens::Lens, matching::kind_matches};
use kyvtest_model::{
    kube::{Discovery, NAME_LABEL, Operation},
    policy::{ClassicPolicy, MatchResources, PolicyException, PolicyKind, Rule, validate_exception},
};

/// The object that a native policy looks at: the API server shows null where there is none.
const EITHER: &str = "(object != null ? object : oldObject)";

/// Adds the native policies of all rules. A rule that applies to nothing has none.
pub(super) fn add(
    policy: &ClassicPolicy,
    exceptions: Exceptions<'_>,
    (discovery, layer): (&Discovery, Layer),
    objects: &mut Objects<'_>,
    steps: &mut Steps,
) -> Result<(), Refused> {
    let rules = autogen::rules_at(policy, Lens::at(layer));
    steps.note(rules.len() > policy.spec.rules.len(), Construct::Autogen);
    steps.note(policy.spec.rules.len() > 1, Construct::Rules);
    let known = rules.iter().flat_map(|rule| rule.matches.kinds()).any(|kind| {
        let mut served = discovery.iter();
        served.any(|resource| kind_matches(kind, resource, false))
    });
    let names: Vec<&str> = rules
        .iter()
        .flat_map(|rule| rule.matches.kinds())
        .map(|kind| kind.text.as_str())
        .collect();
    if !known && let Some(first) = names.first() {
        let reason = format!("the cluster serves no `{first}`: what is a custom kind must be known to be converted");
        return Err(Refused::new(code::UNKNOWN_KIND, reason));
    }
    for rule in &rules {
        add_rule(policy, rule, exceptions, (discovery, layer), objects, steps)?;
    }
    Ok(())
}

fn add_rule(
    policy: &ClassicPolicy,
    rule: &Rule,
    exceptions: Exceptions<'_>,
    (discovery, layer): (&Discovery, Layer),
    objects: &mut Objects<'_>,
    steps: &mut Steps,
) -> Result<(), Refused> {
    let name = &rule.name.value;
    let cel = rule.validate.as_ref().and_then(|validate| validate.cel.as_ref());
    let Some(cel) = cel else {
        let reason = format!("rule `{name}` has no `validate.cel`");
        return Err(Refused::new(code::NOT_CEL, reason));
    };
    if rule.preconditions.is_some() || rule.context.is_some() {
        let reason = format!("rule `{name}` has `preconditions` or `context`, which are JMESPath");
        return Err(Refused::new(code::JMESPATH, reason));
    }
    let source = Source {
        policy,
        rule,
        exceptions: lifting(policy, rule, exceptions)?,
        own_namespace: true,
    };
    let places = Place::all(&source.matched(), &source.excluded(), discovery, layer != Layer::Rule);
    let groups = match groups(&source, &places, &Operation::ALL, true) {
        Ok(groups) => groups,
        Err(Lack::Nothing) => return Ok(()),
        Err(Lack::Hidden(what)) => {
            let reason = format!("rule `{name}` reads {what}, which no native policy can see");
            return Err(Refused::new(code::HIDDEN, reason));
        }
        Err(Lack::TooMany) => {
            let reason = format!("rule `{name}` needs more native policies than are worth having");
            return Err(Refused::new(code::TOO_MANY, reason));
        }
    };
    steps.note(!source.exceptions.is_empty(), Construct::Exceptions);
    steps.note(groups.len() > 1, Construct::Split);
    steps.note(policy.kind == PolicyKind::Policy, Construct::OwnNamespace);
    let written = rule.source.document();
    let written = written
        .root()
        .at(&["validate", "cel"])
        .unwrap_or(Value::Null)
        .to_serde();
    let variables: Vec<(String, String)> = cel
        .variables
        .iter()
        .map(|variable| (variable.name.value.clone(), variable.expression.text().to_owned()))
        .collect();
    for group in &groups {
        let scope = group.scope(&places, discovery, EITHER);
        note(group, &scope, &places, &source, steps);
        let mut conditions = Conditions::default();
        if let Some(condition) = &scope.condition {
            conditions.add("kyverno-match", condition, steps);
        }
        let webhook = policy
            .spec
            .webhook
            .as_ref()
            .filter(|_| Lens::at(layer).webhook_conditions);
        let of_webhook = webhook.map_or(&[][..], |webhook| &webhook.match_conditions);
        steps.note(!of_webhook.is_empty(), Construct::WebhookConditions);
        for condition in of_webhook.iter().chain(&rule.cel_preconditions) {
            let text = condition.expression.text().trim();
            let inlined = inline(text, &variables);
            steps.note(inlined != text, Construct::Inlined);
            conditions.add(&condition.name.value, &inlined, steps);
        }
        let mut spec = json!({"failurePolicy": "Fail"});
        if !written["paramKind"].is_null() {
            spec["paramKind"] = written["paramKind"].clone();
        }
        spec["matchConstraints"] = scope.constraints.clone();
        if let Some(conditions) = conditions.json() {
            spec["matchConditions"] = conditions;
        }
        if !cel.variables.is_empty() {
            spec["variables"] = written["variables"].clone();
        }
        spec["validations"] = validations(&written["expressions"], steps);
        steps.note(!cel.audit_annotations.is_empty(), Construct::NoAnnotations);
        let bindings = bindings(&scope.bindings, policy.spec.emit_warning);
        let param_ref: &Json = &written["paramRef"];
        objects
            .add(&spec, &bindings, param_ref)
            .ok_or_else(|| Refused::new(code::INVALID, "the candidate cannot be read"))?;
    }
    Ok(())
}

/// The exceptions that lift a rule.
fn lifting<'p>(
    policy: &ClassicPolicy,
    rule: &Rule,
    exceptions: Exceptions<'p>,
) -> Result<Vec<&'p MatchResources>, Refused> {
    let key = policy.key();
    let usable = |exception: &&PolicyException| {
        validate_exception(exception).is_none() && exception.names(&key, &rule.name.value)
    };
    let own: Vec<&PolicyException> = exceptions.classic.iter().map(AsRef::as_ref).filter(usable).collect();
    if own.iter().any(|exception| exception.conditions.is_some()) {
        let reason = "an exception has conditions, which are JMESPath";
        return Err(Refused::new(code::EXCEPTION, reason));
    }
    Ok(own.into_iter().map(|exception| &exception.matches).collect())
}

/// Notes what a native policy is made of.
fn note(group: &Group, scope: &Scope, places: &[Place], source: &Source<'_>, steps: &mut Steps) {
    let by_name = |need: &Need| need.key == NAME_LABEL;
    let needs = group.needs();
    steps.note(needs.iter().any(by_name), Construct::NamespaceNames);
    steps.note(needs.iter().any(|need| !by_name(need)), Construct::NamespaceLabels);
    steps.note(scope.bindings.len() > 1, Construct::Bindings);
    for (construct, has) in [
        (
            Construct::NamespaceCondition,
            &(|leaf: &Formula| matches!(leaf, Formula::Namespace(_))) as &dyn Fn(&Formula) -> bool,
        ),
        (Construct::NameCondition, &|leaf| matches!(leaf, Formula::Name(_))),
        (Construct::LabelCondition, &|leaf| {
            matches!(leaf, Formula::Label(_) | Formula::Pair(Entries::Labels, ..))
        }),
        (Construct::AnnotationCondition, &|leaf| {
            matches!(leaf, Formula::Pair(Entries::Annotations, ..))
        }),
        (Construct::UserCondition, &|leaf| {
            matches!(leaf, Formula::User(_) | Formula::Group(_))
        }),
    ] {
        steps.note(group.mentions(&has), construct);
    }
    let rules = scope.constraints["resourceRules"].as_array().map_or(0, Vec::len);
    steps.note(rules > 1, Construct::OwnRules);
    steps.note(
        !scope.constraints["excludeResourceRules"].is_null(),
        Construct::ExcludedRules,
    );
    steps.note(!scope.constraints["matchPolicy"].is_null(), Construct::Versions);
    let wide = places.iter().any(|place| place.others.is_some());
    let ephemeral = |place: &Place| place.resource.subresource == "ephemeralcontainers";
    steps.note(wide && places.iter().any(ephemeral), Construct::Ephemeral);
    let classes: BTreeSet<u8> = places.iter().map(|place| place.class() as u8).collect();
    let speaks = |block: &MatchResources| {
        let mut filters = block.filters().iter();
        filters.any(|filter| !filter.resources.namespaces.is_empty() || filter.resources.namespace_selector.is_some())
    };
    let outside = classes.iter().any(|class| *class != Class::Namespaced as u8);
    steps.note(outside && speaks(&source.rule.matches), Construct::Scopes);
    let excludes = source.rule.exclude.as_ref();
    let operations = excludes.is_some_and(|block| {
        let mut filters = block.filters().iter();
        filters.any(|filter| !filter.resources.operations.is_empty())
    });
    steps.note(operations, Construct::Operations);
}
