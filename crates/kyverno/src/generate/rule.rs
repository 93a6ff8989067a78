//! A generate rule as its policy writes it.
//!
//! Upstream counterpart: `Generation`, `GeneratePattern` and `ForEachGeneration` of `api/kyverno/v1/common_types.go` (1.19).

use crate::{
    classic::{condition::Conditions, context::Entry, validation::conditions},
    rule_set::{PreparedRule, RuleBody},
};
use kyvtest_go_compat::value::{Data, List, Value};
use kyvtest_model::policy::Rule;

/// The `generate` block of a rule.
#[derive(Debug)]
pub struct GenerateBody {
    pub(super) synchronize: bool,
    pub(super) objects: Objects,
}

pub type GenerateRule = PreparedRule<GenerateBody>;

/// What a rule generates.
#[derive(Debug)]
pub(super) enum Objects {
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

impl RuleBody for GenerateBody {
    fn read(rule: &Rule) -> Option<Self> {
        let generate = rule.generate.as_ref()?.document();
        let root = generate.root();
        root.as_map()?;
        let objects = match root.get("foreach").filter(|foreach| !foreach.is_null()) {
            Some(foreach) => {
                let loops = foreach.as_list().into_iter().flat_map(List::iter);
                Objects::Foreach(loops.map(Loop::read).collect())
            }
            None => Objects::Once(pattern(root)),
        };
        Some(Self {
            synchronize: root.get("synchronize").and_then(Value::as_bool) == Some(true),
            objects,
        })
    }
}

impl GenerateRule {
    /// Whether the rule copies an object, `clone` not being empty.
    pub(crate) fn clones(&self) -> bool {
        match &self.body.objects {
            Objects::Once(pattern) => pattern
                .get("clone")
                .and_then(Data::as_map)
                .is_some_and(|clone| !clone.is_empty()),
            Objects::Foreach(_) => false,
        }
    }

    /// The kinds of `cloneList`; `None` if there are none.
    pub(crate) fn clone_list(&self) -> Option<CloneList> {
        let Objects::Once(pattern) = &self.body.objects else {
            return None;
        };
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
