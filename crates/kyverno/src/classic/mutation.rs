//! The `mutate` block of a classic rule, read once from the policy.
//!
//! Upstream counterpart: `Mutation`, `ForEachMutation` and `TargetResourceSpec` of `api/kyverno/v1` (1.19). A rule without
//! `foreach` is kept as a whole, because Kyverno substitutes variables in all of it before it reads the patches.

use super::{condition::Conditions, context::Entry, validation::conditions};
use crate::rule_set::RuleBody;
use kyvtest_go_compat::value::{Data, Document, Value};
use kyvtest_model::policy::Rule;

/// How deep loops may nest.
const DEPTH: usize = 32;

/// What a mutate rule does.
#[derive(Debug)]
pub(crate) struct Mutation {
    /// Existing objects to change instead of the resource of the request; `None` if the rule has no `targets`.
    pub(super) targets: Option<Vec<Target>>,
    /// The loops of `foreach`; `None` if the rule patches once.
    pub(super) foreach: Option<Vec<MutateLoop>>,
    /// The whole rule, in which the patches are found after substitution.
    pub(super) rule: Data,
}

/// A block of `foreach`.
#[derive(Debug)]
pub(super) struct MutateLoop {
    pub(super) list: String,
    /// Whether elements come in reverse order.
    pub(super) descending: bool,
    pub(super) entries: Vec<Entry>,
    pub(super) preconditions: Option<Conditions>,
    /// `patchStrategicMerge` and `patchesJson6902`, as Kyverno substitutes variables in them.
    pub(super) patches: Data,
    /// Inner blocks, which replace the patches.
    pub(super) inner: Vec<MutateLoop>,
}

/// An entry of `targets`.
#[derive(Debug)]
pub(super) struct Target {
    /// `apiVersion`, `kind`, `namespace`, `name`, `uid` and `selector`, before substitution.
    pub(super) selector: Data,
    pub(super) entries: Vec<Entry>,
    pub(super) preconditions: Option<Conditions>,
}

impl RuleBody for Mutation {
    /// An empty block counts as none.
    fn read(rule: &Rule) -> Option<Self> {
        let document = rule.mutate.as_ref()?.document();
        let mutate = document.root();
        if mutate.as_map()?.iter().all(|(_, value)| value.is_null()) {
            return None;
        }
        let list = |key: &str| mutate.get(key).and_then(Value::as_list);
        Some(Self {
            targets: list("targets").map(|targets| targets.iter().map(Target::read).collect()),
            foreach: list("foreach").map(|blocks| blocks.iter().map(|block| MutateLoop::read(block, 0)).collect()),
            rule: Data::from(rule.source.document().root()).with_doubles(),
        })
    }
}

impl Mutation {
    /// Whether the rule changes existing objects.
    pub(crate) fn has_targets(&self) -> bool {
        self.targets.is_some()
    }
}

impl MutateLoop {
    fn read(value: Value<'_>, depth: usize) -> Self {
        let part = |name: &str| value.get(name).unwrap_or(Value::Null);
        let merge = part("patchStrategicMerge");
        let inner = part("foreach").as_list().filter(|_| depth < DEPTH);
        let json = part("patchesJson6902").as_str().unwrap_or_default();
        Self {
            list: part("list").as_str().unwrap_or_default().to_owned(),
            descending: match part("order").as_str() {
                Some(order) => order == "Descending",
                None => !merge.is_null(),
            },
            entries: Entry::read_all(&Data::from(part("context"))),
            preconditions: conditions(part("preconditions")),
            patches: Data::from_iter([
                ("patchStrategicMerge".into(), Data::from(merge).with_doubles()),
                ("patchesJson6902".into(), Data::from(json)),
            ]),
            inner: inner.map_or_else(Vec::new, |blocks| {
                blocks.iter().map(|block| Self::read(block, depth + 1)).collect()
            }),
        }
    }
}

impl Target {
    fn read(value: Value<'_>) -> Self {
        const SELECTOR: [&str; 6] = ["apiVersion", "kind", "namespace", "name", "uid", "selector"];
        let part = |name: &str| value.get(name).unwrap_or(Value::Null);
        let selector = SELECTOR.iter().filter_map(|key| {
            let value = value.get(key).filter(|value| !value.is_null())?;
            Some(((*key).into(), Data::from(value)))
        });
        Self {
            selector: selector.collect(),
            entries: Entry::read_all(&Data::from(part("context"))),
            preconditions: conditions(part("preconditions")),
        }
    }
}

/// The patches of a rule or block after substitution.
pub(super) struct Patches {
    pub(super) merge: Document,
    pub(super) json: String,
}

impl Patches {
    /// Reads them from a `mutate` block or a block of `foreach`. JSON patches that are not text count as none.
    pub(super) fn read(block: &Data) -> Self {
        Self {
            merge: block
                .get("patchStrategicMerge")
                .map_or_else(Document::null, Data::to_document),
            json: block
                .get("patchesJson6902")
                .and_then(Data::as_str)
                .unwrap_or_default()
                .to_owned(),
        }
    }
}
