//! Native objects as trees: made from parts of a policy, each at its place in the source.
//!
//! What is copied is copied as Go writes a typed value: null and empty fields are left out.

use std::sync::Arc;

use super::{
    Action, Item, Object,
    hazard::{self, Direction},
    place::At,
};
use kyvtest_go_compat::{
    value::{Document, Value},
    yaml::{Edited, Graft, Items, Kind, Node, NodeId, Span, Tree},
};
use kyvtest_model::policy::{Metadata, Origin, place, validate_admission};

/// The label of objects that Kyverno made.
const MANAGED: (&str, &str) = ("app.kubernetes.io/managed-by", "kyverno");

/// The label of policies, and of what is generated from them, that no report is made for.
const NO_REPORTS: &str = "reports.kyverno.io/disabled";

/// The labels that a native policy takes over from a policy.
pub(super) fn kept_labels(metadata: &Metadata) -> &'static [&'static str] {
    match metadata.label(NO_REPORTS) {
        Some(_) => &[NO_REPORTS],
        None => &[],
    }
}

/// An object in the making.
pub(super) struct Maker<'t> {
    graft: Graft<'t>,
    /// The place of what comes from nowhere in particular.
    here: Span,
}

/// Strings that Go leaves out where they are empty.
const OMIT_EMPTY: [&str; 5] = ["message", "messageExpression", "apiVersion", "kind", "namespace"];

impl<'t> Maker<'t> {
    /// Starts an object made from a policy. Every string that is copied passes through `edit`.
    pub(super) fn new(policy: &At<'t>, edit: &'t dyn Fn(&mut Edited)) -> Option<Self> {
        let node = policy.node()?;
        let span = policy.span();
        Some(Self {
            graft: Graft::new(node.tree(), edit),
            here: Span {
                start: span.start,
                end: span.start,
            },
        })
    }

    /// A string.
    pub(super) fn text(&mut self, text: &str) -> NodeId {
        self.graft.string(self.here, text)
    }

    /// A list of strings.
    pub(super) fn texts<'s>(&mut self, texts: impl IntoIterator<Item = &'s str>) -> NodeId {
        let items: Vec<NodeId> = texts.into_iter().map(|text| self.text(text)).collect();
        self.list(&items)
    }

    /// A list.
    pub(super) fn list(&mut self, items: &[NodeId]) -> NodeId {
        self.graft.list(self.here, items)
    }

    /// A map.
    pub(super) fn map(&mut self, entries: &[(&str, NodeId)]) -> NodeId {
        let here = self.here;
        let entries: Vec<(&str, Span, NodeId)> = entries.iter().map(|(key, value)| (*key, here, *value)).collect();
        self.graft.map(here, &entries)
    }

    /// A part of the policy, without what is empty in it; `None` where it is not there or empty itself.
    pub(super) fn copy(&mut self, at: &At<'t>) -> Option<NodeId> {
        let node = at.node()?;
        if node.as_seq().is_some_and(Items::is_empty) {
            return None;
        }
        Some(self.pruned(node))
    }

    /// A field with a copied value, if the policy has it.
    pub(super) fn field(&mut self, key: &'static str, at: &At<'t>) -> Option<(&'static str, NodeId)> {
        self.copy(at).map(|node| (key, node))
    }

    /// The items of a list of the policy, each without what is empty in it.
    pub(super) fn items(&mut self, at: &At<'t>) -> Vec<NodeId> {
        let items = at.node().and_then(Node::as_seq);
        items
            .into_iter()
            .flat_map(|items| items.iter().collect::<Vec<_>>())
            .map(|node| self.pruned(node))
            .collect()
    }

    /// The depth is that of the policy's tree, which the reader has bounded.
    fn pruned(&mut self, node: Node<'_>) -> NodeId {
        match node.kind() {
            Kind::Seq(items) => {
                let items: Vec<NodeId> = items.iter().map(|item| self.pruned(item)).collect();
                self.graft.list(node.span(), &items)
            }
            Kind::Map(entries) => {
                let mut kept = Vec::with_capacity(entries.len());
                for entry in entries.iter() {
                    let is_empty = match entry.value.kind() {
                        Kind::Null => true,
                        Kind::Seq(items) => items.is_empty(),
                        Kind::Map(entries) => entries.is_empty() && entry.key == "matchLabels",
                        // A condition or variable has its name, a reference leaves an empty one out.
                        Kind::Str("") if entry.key == "name" => entries.get("expression").is_none(),
                        Kind::Str("") => OMIT_EMPTY.contains(&entry.key),
                        _ => false,
                    };
                    if is_empty {
                        continue;
                    }
                    let value = match entry.key {
                        "matchLabels" => self.labels(entry.value),
                        "applyConfiguration" | "jsonPatch" => self.patch(entry.value),
                        _ => self.pruned(entry.value),
                    };
                    kept.push((entry.key, entry.key_span, value));
                }
                self.graft.map(node.span(), &kept)
            }
            _ => self.graft.copy(node),
        }
    }

    /// The body of a mutation: its type omits an empty expression, unlike those of conditions, variables and validations.
    fn patch(&mut self, node: Node<'_>) -> NodeId {
        match node.get("expression").map(Node::kind) {
            Some(Kind::Str("")) => self.graft.map(node.span(), &[]),
            _ => self.pruned(node),
        }
    }

    /// Labels: null is the empty string.
    fn labels(&mut self, node: Node<'_>) -> NodeId {
        let mut kept = Vec::new();
        for entry in node.as_map().into_iter().flat_map(|map| map.iter().collect::<Vec<_>>()) {
            let value = if entry.value.is_null() {
                self.graft.string(entry.value.span(), "")
            } else {
                self.graft.copy(entry.value)
            };
            kept.push((entry.key, entry.key_span, value));
        }
        self.graft.map(node.span(), &kept)
    }

    /// The whole object with its head.
    pub(super) fn finish(mut self, kind: &str, owner: &Owner<'_>, name: &str, labels: &[&str], spec: NodeId) -> Tree {
        let mut pairs = vec![(MANAGED.0, self.text(MANAGED.1))];
        for label in labels {
            pairs.push((label, self.text("true")));
        }
        let labels = self.map(&pairs);
        let reference = [
            ("apiVersion", self.text(owner.api_version)),
            ("kind", self.text(owner.kind)),
            ("name", self.text(owner.name)),
        ];
        let reference = self.map(&reference);
        let owners = self.list(&[reference]);
        let metadata = [
            ("name", self.text(name)),
            ("labels", labels),
            ("ownerReferences", owners),
        ];
        let metadata = self.map(&metadata);
        let object = [
            ("apiVersion", self.text("admissionregistration.k8s.io/v1")),
            ("kind", self.text(kind)),
            ("metadata", metadata),
            ("spec", spec),
        ];
        let root = self.map(&object);
        self.graft.finish(root)
    }
}

/// The policy that an object was generated from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner<'p> {
    pub(super) api_version: &'p str,
    pub(super) kind: &'p str,
    pub(super) name: &'p str,
}

/// Decodes a tree as an object. Problems for which the API server would reject it are reported at their location in the
/// policy.
pub(super) fn object<T>(
    tree: Tree,
    origin: Origin,
    report: &mut Vec<Item>,
    read: impl Fn(Tree, Origin) -> Option<T>,
) -> Option<Object<T>> {
    let document = Document::from(tree.root());
    let kind = document.root().get("kind").and_then(Value::as_str).unwrap_or_default();
    let checked = validate_admission(document.root());
    for error in &checked.errors {
        let known = report.iter().filter_map(|item| item.hazard);
        let known = known.rev().find(|hazard| hazard.direction == Direction::NotInstallable);
        let (code, general) = if kind.starts_with("Mutating") {
            // Kyverno accepted the expression.
            let is_expression = error.field.ends_with(".expression");
            ("map-invalid", hazard::find("M20").filter(|_| is_expression))
        } else {
            ("vap-invalid", hazard::find("H58"))
        };
        report.push(Item {
            code,
            hazard: known.or(general),
            action: Action::Dropped,
            path: format!("{kind}: {}", error.field),
            span: Some(place(origin.file, span(&tree, &error.field))),
            text: error.text.lines().next().unwrap_or_default().to_owned(),
        });
    }
    Some(Object {
        document,
        model: Arc::new(read(tree, origin)?),
        checked,
    })
}

/// The location of a field of an object, or of the nearest part around it.
fn span(tree: &Tree, field: &str) -> Span {
    let mut node = tree.root();
    for step in field.split(['.', '[']) {
        let next = match step.strip_suffix(']') {
            Some(index) => index.parse().ok().and_then(|index| node.as_seq()?.get(index)),
            None => node.get(step),
        };
        let Some(next) = next else { break };
        node = next;
    }
    node.span()
}
