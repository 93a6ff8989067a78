//! Kinds that the cluster description does not have: assumed to be served under the plural that the API machinery guesses.
//!
//! A classic policy names kinds, a ValidatingPolicy resources. For a custom kind without a description the translation rests on
//! the guess, and says so.

use kyvtest_model::{
    kube::{Discovery, GroupVersionKind, Resource},
    policy::{ClassicPolicy, KindSelector, MatchResources, Rule},
};
use kyvtest_prove::symbolic::ASSUMED_GROUP;
use serde_json::{Value as Json, json};

use crate::draft::plural;

/// The version of kinds of which the policy does not say more.
const ANY_VERSION: &str = "v1";

/// A cluster with the kinds of a policy, and what is assumed about each that was not there.
pub(crate) fn with_kinds(policy: &ClassicPolicy, discovery: &Discovery) -> (Discovery, Vec<Guess>) {
    let mut all = discovery.clone();
    let mut guesses: Vec<Guess> = Vec::new();
    let rules = policy.spec.rules.iter();
    let blocks = rules.flat_map(|rule| std::iter::once(&rule.matches).chain(rule.exclude.as_ref()));
    let selectors: Vec<&KindSelector> = blocks
        .flat_map(MatchResources::kinds)
        .map(|kind| &kind.value)
        .filter(|kind| is_plain(kind))
        .collect();
    // A kind that is named with its group is also meant where it is not.
    for named in [true, false] {
        for selector in selectors
            .iter()
            .filter(|selector| selector.group.contains('*') != named)
        {
            if !all
                .find(&selector.group, &selector.version, &selector.kind, "")
                .is_empty()
            {
                continue;
            }
            let concrete = |word: &str, other: &str| {
                if word.contains('*') {
                    other.to_owned()
                } else {
                    word.to_owned()
                }
            };
            let gvk = GroupVersionKind::new(
                concrete(&selector.group, ASSUMED_GROUP),
                concrete(&selector.version, ANY_VERSION),
                &selector.kind,
            );
            all.add(Resource::main(&gvk, &plural(&selector.kind), true));
            guesses.push(Guess {
                kind: (*selector).clone(),
                plural: plural(&selector.kind),
                group: gvk.group,
                version: gvk.version,
            });
        }
    }
    (all, guesses)
}

/// Whether a selector names one kind and no subresource.
fn is_plain(selector: &KindSelector) -> bool {
    !selector.kind.is_empty()
        && selector.subresource.is_empty()
        && !selector.kind.contains(['*', '?'])
        && selector.kind.chars().next().is_some_and(|c| c.is_ascii_uppercase())
}

/// A kind with an assumed resource.
#[derive(Debug, Clone)]
pub(crate) struct Guess {
    kind: KindSelector,
    plural: String,
    group: String,
    version: String,
}

impl Guess {
    /// The assumption, for people.
    pub(crate) fn note(&self) -> String {
        format!(
            "assumes that `{}` is a custom resource, served as the namespaced resource `{}`; describe the kind with `--crds` to be sure",
            self.kind.text, self.plural
        )
    }

    /// Whether a rule names the kind.
    pub(crate) fn is_named_by(&self, rule: &Rule) -> bool {
        let blocks = std::iter::once(&rule.matches).chain(rule.exclude.as_ref());
        blocks
            .flat_map(MatchResources::kinds)
            .any(|kind| kind.value == self.kind)
    }

    /// Whether a rule of `matchConstraints` is about the kind.
    fn is_about(&self, rule: &Json) -> bool {
        let lists = |key: &str, text: &str| rule[key].as_array().is_some_and(|list| list.contains(&json!(text)));
        lists("resources", &self.plural) && lists("apiGroups", &self.group) && lists("apiVersions", &self.version)
    }
}

/// Leaves open in `matchConstraints` what the policy leaves open.
pub(crate) fn widen(constraints: &mut Json, guesses: &[Guess]) {
    for key in ["resourceRules", "excludeResourceRules"] {
        for rule in constraints[key].as_array_mut().into_iter().flatten() {
            let found: Vec<&Guess> = guesses.iter().filter(|guess| guess.is_about(rule)).collect();
            if let Some(guess) = found.first() {
                if guess.kind.group.contains('*') {
                    rule["apiGroups"] = json!([guess.kind.group]);
                }
                if guess.kind.version.contains('*') {
                    rule["apiVersions"] = json!([guess.kind.version]);
                }
            }
        }
        if constraints[key].is_null()
            && let Some(map) = constraints.as_object_mut()
        {
            map.remove(key);
        }
    }
}
