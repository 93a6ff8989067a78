//! Kinds, names, operations and namespaces of filters as the rules of a native policy.
//!
//! Upstream counterpart: `constructValidatingAdmissionPolicyRules` and `translateResource` of
//! `pkg/admissionpolicy/builder.go` (1.19). A kind joins the first rule of its group and version and loses the operations
//! and names of its own filter by that.

use super::{Refusal, RefusalCode, place::At};
use kyvtest_go_compat::diagnostic::nearest;
use kyvtest_model::{
    kube::{Discovery, Operation, Resource},
    policy::{KindSelector, ResourceDescription},
};

/// The operations of a filter that names none, in upstream's order.
pub(super) const OPERATIONS: [Operation; 4] = [
    Operation::Create,
    Operation::Update,
    Operation::Connect,
    Operation::Delete,
];

/// A rule in the making.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) resource_names: Vec<String>,
    pub(super) group: String,
    pub(super) version: String,
    pub(super) operations: Vec<Operation>,
    pub(super) resources: Vec<String>,
    /// Whether it represents namespaces that are excluded by name.
    pub(super) is_namespaces: bool,
}

/// A kind that was merged into a rule whose other fields differ from its own filter.
#[derive(Debug, Clone)]
pub(super) struct Merge<'p> {
    /// The kind.
    pub(super) at: At<'p>,
    /// The kind as written.
    pub(super) kind: String,
    /// The rule that it joined, as it was.
    pub(super) rule: Rule,
    /// The operations of its own filter.
    pub(super) operations: Vec<Operation>,
    /// The names of its own filter.
    pub(super) names: Vec<String>,
}

/// Rules of one side: `match`, or `exclude` and exceptions together.
#[derive(Debug, Default)]
pub(super) struct Rules<'p> {
    pub(super) list: Vec<Rule>,
    pub(super) merges: Vec<Merge<'p>>,
}

impl<'p> Rules<'p> {
    /// Adds a filter. `name` is the name of the generated policy.
    pub(super) fn add(
        &mut self,
        filter: &ResourceDescription,
        is_match: bool,
        at: &At<'p>,
        discovery: &Discovery,
        name: &str,
    ) -> Result<(), Refusal> {
        let operations = operations(filter);
        let names = names(filter);
        for (i, kind) in filter.kinds.iter().enumerate() {
            let at = at.key("kinds").item(i);
            if kind.text == "*" {
                self.list.push(Rule {
                    resource_names: names.clone(),
                    group: "*".to_owned(),
                    version: "*".to_owned(),
                    operations: operations.clone(),
                    resources: vec!["*".to_owned()],
                    is_namespaces: false,
                });
                continue;
            }
            let found = discovery.find(&kind.group, &kind.version, &kind.kind, &kind.subresource);
            let [resource] = found.as_slice() else {
                return Err(unresolved(kind, &found, discovery, &at, name));
            };
            let mut resources = vec![resource.name()];
            if resources[0] == "pods" {
                resources.push("pods/ephemeralcontainers".to_owned());
            }
            let same = |rule: &&mut Rule| rule.group == resource.group && rule.version == resource.version;
            if let Some(rule) = self.list.iter_mut().find(same) {
                if rule.operations != operations || rule.resource_names != names {
                    self.merges.push(Merge {
                        at,
                        kind: kind.text.clone(),
                        rule: rule.clone(),
                        operations: operations.clone(),
                        names: names.clone(),
                    });
                }
                rule.resources.append(&mut resources);
                rule.resources.sort_unstable();
            } else {
                self.list.push(Rule {
                    resource_names: names.clone(),
                    group: resource.group.clone(),
                    version: resource.version.clone(),
                    operations: operations.clone(),
                    resources,
                    is_namespaces: false,
                });
            }
        }
        if !is_match && filter.kinds.is_empty() && !filter.namespaces.is_empty() {
            self.list.push(Rule {
                resource_names: filter.namespaces.iter().map(|text| text.value.clone()).collect(),
                group: String::new(),
                version: "v1".to_owned(),
                operations,
                resources: vec!["namespaces".to_owned()],
                is_namespaces: true,
            });
        }
        Ok(())
    }
}

pub(super) fn operations(filter: &ResourceDescription) -> Vec<Operation> {
    let known: Vec<Operation> = filter.operations.iter().filter_map(|text| text.parse().ok()).collect();
    if known.is_empty() { OPERATIONS.to_vec() } else { known }
}

fn names(filter: &ResourceDescription) -> Vec<String> {
    let names = filter.names.iter().chain(&filter.name);
    names.map(|text| text.value.clone()).collect()
}

/// A kind that no resource of the cluster fits, or several.
fn unresolved(
    kind: &KindSelector,
    found: &[std::sync::Arc<Resource>],
    discovery: &Discovery,
    at: &At<'_>,
    name: &str,
) -> Refusal {
    let before = format!("failed to build validatingadmissionpolicy {name}");
    if found.is_empty() {
        let mut refusal = Refusal::new(RefusalCode::UnknownKind, format!("{before}: resource not found"), at);
        let known = discovery.iter().map(|resource| resource.kind.as_str());
        let mut near = nearest(&kind.kind, known);
        near.dedup();
        if let Some(near) = near.first().filter(|near| **near != kind.kind) {
            refusal.help = format!("did you mean `{near}`?");
        }
        return refusal;
    }
    let message = format!("{before}: no unique match for kind {}", kind.kind);
    let mut refusal = Refusal::new(RefusalCode::AmbiguousKind, message, at);
    let mut fits: Vec<String> = found
        .iter()
        .take(3)
        .map(|resource| match resource.subresource.as_str() {
            "" => format!("`{}`", resource.gvk()),
            subresource => format!("`{}/{subresource}`", resource.gvk()),
        })
        .collect();
    if found.len() > fits.len() {
        fits.push("…".to_owned());
    }
    refusal.help = format!(
        "it matches {}: specify the kind with its group and version",
        fits.join(", ")
    );
    refusal
}
