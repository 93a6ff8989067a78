//! A generate rule as its policy writes it.
//!
//! Upstream counterpart: `Generation`, `GeneratePattern` and `ForEachGeneration` of `api/kyverno/v1/common_types.go` (1.19).

use crate::classic::{
    condition::Conditions,
    context::Entry,
    validation::{conditions, conditions_of, entries_of},
};
use kyvtest_go_compat::value::{Data, List, Value};
use kyvtest_model::policy::{MatchResources, Rule};

/// A generate rule, ready for evaluation.
#[derive(Debug)]
pub struct GenerateRule {
    pub name: String,
    pub(super) matches: MatchResources,
    pub(super) exclude: Option<MatchResources>,
    pub(super) entries: Vec<Entry>,
    pub(super) preconditions: Option<Conditions>,
    pub(super) properties: Vec<(String, String)>,
    pub(super) synchronize: bool,
    pub(super) body: Body,
}

/// What a rule generates.
#[derive(Debug)]
pub(super) enum Body {
    Once(Data),
    Foreach(Vec<Loop>),
}

/// An entry of `foreach`.
#[derive(Debug)]
pub(super) struct Loop {
    pub(super) list: String,
    pub(super) entries: Vec<Entry>,
    pub(super) preconditions: Option<Conditions>,
    pub(super) pattern: Data,
}

/// The kinds that a rule clones from a namespace, as written: `v1/Secret`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloneList {
    pub kinds: Vec<String>,
}

/// The parts of a rule that are substituted, in one tree.
const PATTERN: [&str; 7] = ["apiVersion", "kind", "namespace", "name", "data", "clone", "cloneList"];

fn pattern(value: Value<'_>) -> Data {
    let parts = PATTERN.iter().filter_map(|key| {
        let part = value.get(key).filter(|part| !part.is_null())?;
        Some(((*key).into(), Data::from(part)))
    });
    parts.collect()
}

impl GenerateRule {
    /// Reads a rule; `None` if it does not generate.
    pub(super) fn new(rule: &Rule) -> Option<Self> {
        let generate = rule.generate.as_ref()?.document();
        let root = generate.root();
        root.as_map()?;
        let body = match root.get("foreach").filter(|foreach| !foreach.is_null()) {
            Some(foreach) => {
                let loops = foreach.as_list().into_iter().flat_map(List::iter);
                Body::Foreach(loops.map(Loop::read).collect())
            }
            None => Body::Once(pattern(root)),
        };
        Some(Self {
            name: rule.name.value.clone(),
            matches: rule.matches.clone(),
            exclude: rule.exclude.clone(),
            entries: entries_of(rule.context.as_ref()),
            preconditions: conditions_of(rule.preconditions.as_ref()),
            properties: rule.properties(),
            synchronize: root.get("synchronize").and_then(Value::as_bool) == Some(true),
            body,
        })
    }

    /// Whether the rule copies an object, `clone` not being empty.
    pub fn clones(&self) -> bool {
        match &self.body {
            Body::Once(pattern) => pattern
                .get("clone")
                .and_then(Data::as_map)
                .is_some_and(|clone| !clone.is_empty()),
            Body::Foreach(_) => false,
        }
    }

    /// The kinds of `cloneList`; `None` if there are none.
    pub fn clone_list(&self) -> Option<CloneList> {
        let Body::Once(pattern) = &self.body else { return None };
        let kinds = pattern.at(&["cloneList", "kinds"]).and_then(Data::as_list)?;
        let kinds: Vec<String> = kinds
            .iter()
            .filter_map(|kind| kind.as_str().map(str::to_owned))
            .collect();
        (!kinds.is_empty()).then_some(CloneList { kinds })
    }
}

impl Loop {
    fn read(value: Value<'_>) -> Self {
        let part = |name: &str| value.get(name).unwrap_or(Value::Null);
        Self {
            list: part("list").as_str().unwrap_or_default().to_owned(),
            entries: Entry::read_all(&Data::from(part("context"))),
            preconditions: conditions(part("preconditions")),
            pattern: pattern(value),
        }
    }
}
