//! Places in a policy: a readable path, and its location in the source.

use std::fmt::Write as _;

use kyvtest_go_compat::{
    diagnostic::Span,
    yaml::{Kind, Node},
};
use kyvtest_model::policy::{Subtree, place};

#[derive(Debug, Clone, Copy)]
enum Step {
    Key(&'static str),
    Item(usize),
}

/// A part of a policy or exception, there or not.
#[derive(Debug, Clone)]
pub(super) struct At<'p> {
    root: &'p Subtree,
    /// The prefix of the path: the exception's name, if the place is in an exception.
    owner: String,
    steps: Vec<Step>,
}

impl<'p> At<'p> {
    /// The spec of a policy.
    pub(super) fn spec(spec: &'p Subtree) -> Self {
        Self {
            root: spec,
            owner: String::new(),
            steps: Vec::new(),
        }
    }

    pub(super) fn exception(spec: &'p Subtree, namespace: Option<&str>, name: &str) -> Self {
        let namespace = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        Self {
            owner: format!("PolicyException {namespace}{name}: "),
            ..Self::spec(spec)
        }
    }

    /// Whether it is a part of an exception.
    pub(super) fn is_exception(&self) -> bool {
        !self.owner.is_empty()
    }

    /// A field of it.
    pub(super) fn key(&self, key: &'static str) -> Self {
        let mut at = self.clone();
        at.steps.push(Step::Key(key));
        at
    }

    /// A chain of fields.
    pub(super) fn keys(&self, keys: &[&'static str]) -> Self {
        let mut at = self.clone();
        at.steps.extend(keys.iter().copied().map(Step::Key));
        at
    }

    pub(super) fn item(&self, place: usize) -> Self {
        let mut at = self.clone();
        at.steps.push(Step::Item(place));
        at
    }

    /// The path: `spec.rules[0].match`.
    pub(super) fn path(&self) -> String {
        let mut path = format!("{}spec", self.owner);
        for step in &self.steps {
            let _ = match step {
                Step::Key(key) => write!(path, ".{key}"),
                Step::Item(place) => write!(path, "[{place}]"),
            };
        }
        path
    }

    /// The node, if it is there and not null.
    pub(super) fn node(&self) -> Option<Node<'p>> {
        let node = self.steps.iter().try_fold(self.root.node(), |node, step| match step {
            Step::Key(key) => node.get(key),
            Step::Item(place) => node.as_seq()?.get(*place),
        });
        node.filter(|node| !node.is_null())
    }

    /// The location: of a scalar itself, else of the key; if absent, of the nearest part around it.
    pub(super) fn span(&self) -> Span {
        let mut node = self.root.node();
        let mut span = first_key(node);
        for step in &self.steps {
            let next = match step {
                Step::Key(key) => node.as_map().and_then(|map| map.get(key)).map(|entry| {
                    let is_block = matches!(entry.value.kind(), Kind::Seq(_) | Kind::Map(_));
                    let span = if is_block { entry.key_span } else { entry.value.span() };
                    (entry.value, span)
                }),
                Step::Item(place) => node
                    .as_seq()
                    .and_then(|items| items.get(*place))
                    .map(|item| (item, first_key(item))),
            };
            let Some(next) = next else { break };
            (node, span) = next;
        }
        place(self.root.file(), span)
    }
}

/// The first key of a map, else the whole.
fn first_key(node: Node<'_>) -> kyvtest_go_compat::yaml::Span {
    let first = node.as_map().and_then(|map| map.at(0));
    first.map_or(node.span(), |entry| entry.key_span)
}
