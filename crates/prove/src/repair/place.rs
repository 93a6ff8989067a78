//! The places of requests that a classic rule tells apart: resources that a kind selector names, and all others together.

use kyvtest_kyverno::matching::kind_matches;
use kyvtest_model::{
    kube::{Discovery, GroupVersionKind, Operation, Resource},
    policy::KindSelector,
};

/// A resource, or all resources that no rule names.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The resource; for all others one that no selector names.
    pub(super) resource: Resource,
    /// How a rule lists all others: `*`, `*/*`, `*/scale`.
    pub(super) others: Option<String>,
}

/// How Kyverno reads what a filter says about namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// The object is in a namespace.
    Namespaced,
    /// It is in none.
    Cluster,
    Namespace,
}

/// A word that no kind, group or version is.
const UNNAMED: &str = "\u{1}";

fn unnamed(subresource: &str, namespaced: bool) -> Resource {
    let mut resource = Resource::main(&GroupVersionKind::new(UNNAMED, UNNAMED, UNNAMED), UNNAMED, namespaced);
    subresource.clone_into(&mut resource.subresource);
    resource
}

/// How a rule lists all that a selector of all kinds means.
fn others(selector: &KindSelector) -> Option<String> {
    let sub = match selector.subresource.as_str() {
        "*" | "" => "",
        sub => sub,
    };
    if !kind_matches(selector, &unnamed(sub, true), false) {
        return None;
    }
    match selector.subresource.as_str() {
        "" => Some("*".to_owned()),
        sub if sub != "*" && sub.contains(['*', '?']) => None,
        sub => Some(format!("*/{sub}")),
    }
}

impl Place {
    /// The places that selectors tell apart: those of `match`, and of what is taken from it. With `webhook` only what Kyverno's
    /// webhook lists counts: ephemeral containers come with Pods, not with other subresources of theirs.
    pub(super) fn all(
        matched: &[&KindSelector],
        excluded: &[&KindSelector],
        discovery: &Discovery,
        webhook: bool,
    ) -> Vec<Self> {
        let mut wide: Vec<String> = Vec::new();
        for pattern in matched.iter().filter_map(|selector| others(selector)) {
            if !wide.contains(&pattern) {
                wide.push(pattern);
            }
        }
        if wide.iter().any(|pattern| pattern == "*/*") {
            wide.retain(|pattern| pattern == "*/*");
        }
        let mut places: Vec<Self> = Vec::new();
        for pattern in &wide {
            let sub = pattern.strip_prefix("*/").filter(|sub| *sub != "*").unwrap_or_default();
            places.extend([true, false].map(|namespaced| Self {
                resource: unnamed(sub, namespaced),
                others: Some(pattern.clone()),
            }));
        }
        for resource in discovery.iter() {
            let named = |selectors: &[&KindSelector]| {
                let mut narrow = selectors.iter().filter(|selector| others(selector).is_none());
                narrow.any(|selector| kind_matches(selector, resource, true))
            };
            let special = !wide.is_empty() && (named(excluded) || is_ephemeral(resource))
                || places
                    .iter()
                    .any(|place| place.covers(resource) && is_namespace(resource));
            let mut listing = matched.iter();
            let unlisted = webhook
                && is_ephemeral(resource)
                && !listing.any(|selector| {
                    let pods = Resource {
                        subresource: String::new(),
                        ..(**resource).clone()
                    };
                    kind_matches(selector, resource, false) || kind_matches(selector, &pods, false)
                });
            if (named(matched) || special) && !unlisted {
                places.push(Self {
                    resource: (**resource).clone(),
                    others: None,
                });
            }
        }
        places
    }

    /// How namespaces are read.
    pub(super) fn class(&self) -> Class {
        if is_namespace(&self.resource) {
            Class::Namespace
        } else if self.resource.namespaced {
            Class::Namespaced
        } else {
            Class::Cluster
        }
    }

    /// What can be done there. Only subresources are connected to.
    pub(super) fn operations(&self) -> Vec<Operation> {
        let main = [Operation::Create, Operation::Update, Operation::Delete];
        match &self.others {
            Some(pattern) if pattern == "*" => main.to_vec(),
            Some(_) => Operation::ALL.to_vec(),
            None if self.resource.subresource.is_empty() => main.to_vec(),
            None => self.resource.operations.iter().collect(),
        }
    }

    /// Whether the rule for all others lists a resource, too.
    pub(super) fn covers(&self, resource: &Resource) -> bool {
        let Some(pattern) = &self.others else { return false };
        let listed = match pattern.as_str() {
            "*" => resource.subresource.is_empty(),
            "*/*" => true,
            other => other.strip_prefix("*/") == Some(&resource.subresource),
        };
        listed && self.resource.namespaced == resource.namespaced
    }
}

fn is_ephemeral(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == "pods" && resource.subresource == "ephemeralcontainers"
}

fn is_namespace(resource: &Resource) -> bool {
    resource.object_kind.kind == "Namespace"
}
