//! MutatingPolicies as objects.
//!
//! Upstream counterpart: the types of `api/policies.kyverno.io/v1`. Fields are written in the order in which people read them.

use kyvtest_model::policy::ClassicPolicy;
use serde_json::{Value as Json, json};

use super::{Draft, Mutation, layout::layout};
use crate::{
    assemble::{constraints, only_pods},
    kinds::{numbered, object, webhook},
    layout::layout as conditions_layout,
};

/// The policies of the drafts of one rule. `base` is the name of the first.
pub(super) fn objects(policy: &ClassicPolicy, base: &str, drafts: &[Draft]) -> Vec<Json> {
    let mut names = Vec::new();
    let mut objects = Vec::new();
    for draft in drafts {
        for scope in &draft.scopes {
            let name = match draft.suffix {
                "" => base.to_owned(),
                suffix => format!("{base}-{suffix}"),
            };
            let name = numbered(name, &mut names);
            let mut spec = json!({});
            webhook(policy, &mut spec);
            if draft.replaces {
                spec["evaluation"]["useServerSideApply"] = json!(true);
            }
            spec["matchConstraints"] = constraints(&scope.constraints);
            let mut taken = Vec::new();
            let own = scope.condition.iter().map(|text| ("match".to_owned(), text.clone()));
            let conditions: Vec<Json> = own
                .chain(draft.conditions.iter().cloned())
                .map(|(name, text)| {
                    let name = numbered(name, &mut taken);
                    json!({"name": name, "expression": conditions_layout(&text)})
                })
                .collect();
            if !conditions.is_empty() {
                spec["matchConditions"] = Json::Array(conditions);
            }
            let variables = draft.variables.iter();
            let variables: Vec<Json> = variables
                .map(|(name, text)| json!({"name": name, "expression": conditions_layout(text)}))
                .collect();
            if !variables.is_empty() {
                spec["variables"] = Json::Array(variables);
            }
            let mutations = draft.mutations.iter().map(|mutation| match mutation {
                Mutation::Apply(text) => json!({
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {"expression": layout(text)},
                }),
                Mutation::Patch(text) => json!({
                    "patchType": "JSONPatch",
                    "jsonPatch": {"expression": layout(text)},
                }),
            });
            spec["mutations"] = mutations.collect();
            if only_pods(&scope.constraints) {
                // Rules for pod controllers are written out or unwanted.
                spec["autogen"] = json!({"podControllers": {"controllers": []}});
            }
            objects.push(object(policy, "MutatingPolicy", &name, spec));
        }
    }
    objects
}
