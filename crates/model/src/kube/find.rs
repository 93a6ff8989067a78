//! The resources that a kind selector selects.
//!
//! Upstream counterpart: `FindResources` of Kyverno's `pkg/clients/dclient/discovery.go` (1.19). Group, version, kind
//! and subresource are case-sensitive patterns. A subresource is looked up by the plural of its parent in every group.
//!
//! Known deviation: if several parents have the same plural, upstream assigns a subresource to a random one; here it
//! belongs to the one of its own group and version.

use std::sync::Arc;

use super::{Discovery, Resource};
use kyvtest_go_compat::text::wildcard;

impl Discovery {
    /// The resources that a kind selector selects, each once: without a subresource the resources themselves, with one
    /// the subresources, with `*` for both kind and subresource all of them.
    pub fn find(&self, group: &str, version: &str, kind: &str, subresource: &str) -> Vec<Arc<Resource>> {
        let main = self.iter().filter(|resource| resource.subresource.is_empty());
        let parents: Vec<&Arc<Resource>> = main
            .filter(|resource| {
                wildcard::matches(group, &resource.group)
                    && wildcard::matches(version, &resource.version)
                    && wildcard::matches(kind, &resource.kind)
            })
            .collect();
        let mut found: Vec<Arc<Resource>> = if subresource.is_empty() || (kind == "*" && subresource == "*") {
            parents.iter().map(|parent| Arc::clone(parent)).collect()
        } else {
            Vec::new()
        };
        if subresource.is_empty() {
            return found;
        }
        for resource in self.iter().filter(|resource| !resource.subresource.is_empty()) {
            let name = resource.name();
            let mut named = parents
                .iter()
                .filter(|parent| wildcard::matches(&format!("{}/{subresource}", parent.plural), &name));
            let own = named.clone().find(|parent| parent.gvr() == resource.gvr());
            let Some(parent) = own.or_else(|| named.next()) else {
                continue;
            };
            let found_before =
                |other: &Arc<Resource>| other.gvr() == parent.gvr() && other.subresource == resource.subresource;
            if !found.iter().any(found_before) {
                found.push(Arc::new(Resource {
                    group: parent.group.clone(),
                    version: parent.version.clone(),
                    kind: parent.kind.clone(),
                    ..Resource::clone(resource)
                }));
            }
        }
        found
    }
}
