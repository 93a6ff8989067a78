//! The finite part of all requests: what a cluster serves, what can be done to it, two unknown kinds, and the kind of
//! Kyverno's own that Kyverno never evaluates, which every cluster with Kyverno serves.

use kyvtest_model::kube::{Discovery, GroupVersionKind, Operation, RequestClass, Resource};

/// What a cluster serves, with a custom kind in namespaces and one outside of them.
pub fn with_unknown(discovery: &Discovery) -> Discovery {
    let mut all = discovery.clone();
    for (kind, plural, namespaced) in [
        ("UnknownNamespaced", "unknownnamespaceds", true),
        ("UnknownCluster", "unknownclusters", false),
    ] {
        all.add(Resource::main(
            &GroupVersionKind::new("example.com", "v1", kind),
            plural,
            namespaced,
        ));
    }
    let update_request = GroupVersionKind::new("kyverno.io", "v2", "UpdateRequest");
    if all.by_object("kyverno.io/v2", "UpdateRequest").is_none() {
        let main = Resource::main(&update_request, "updaterequests", true);
        all.add(main.sub("status", "UpdateRequest"));
        all.add(main);
    }
    all
}

/// Every cell, in the order in which witnesses are looked for: the best known kinds and the simplest operations first.
pub fn cells(discovery: &Discovery) -> Vec<RequestClass<'_>> {
    let mut cells = Vec::new();
    for resource in discovery.iter() {
        for operation in resource.operations.iter() {
            cells.push(RequestClass::new(resource, operation, false));
            let is_namespace = resource.group.is_empty() && resource.plural == "namespaces";
            if operation == Operation::Delete && resource.subresource.is_empty() && !is_namespace {
                cells.push(RequestClass::new(resource, operation, true));
            }
        }
    }
    cells.sort_by_cached_key(rank);
    cells
}

/// Kinds that everybody knows, best known first.
const POPULAR: [&str; 8] = [
    "pods",
    "deployments",
    "configmaps",
    "services",
    "secrets",
    "statefulsets",
    "daemonsets",
    "namespaces",
];

fn rank(cell: &RequestClass<'_>) -> (bool, usize, u8, bool) {
    let known = POPULAR.iter().position(|plural| *plural == cell.resource.plural);
    let operation = match cell.operation {
        Operation::Create => 0,
        Operation::Update => 1,
        Operation::Delete => 2,
        Operation::Connect => 3,
    };
    let is_sub = !cell.resource.subresource.is_empty();
    (is_sub, known.unwrap_or(POPULAR.len()), operation, cell.collection)
}

/// A cell for people: `CREATE deployments.apps`, `DELETE (collection) pods`.
pub fn name(cell: &RequestClass<'_>) -> String {
    let (operation, resource) = words(cell);
    format!("{operation} {resource}")
}

/// What is done, and to what.
pub(super) fn words(cell: &RequestClass<'_>) -> (String, String) {
    let mode = if cell.collection { " (collection)" } else { "" };
    let resource = cell.resource;
    let group = if resource.group.is_empty() {
        String::new()
    } else {
        format!(".{}", resource.group)
    };
    (
        format!("{}{mode}", cell.operation.as_str()),
        format!("{}{group}", resource.name()),
    )
}
