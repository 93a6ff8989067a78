//! Lookups outside of the request: objects, entries of the global context, services.
//!
//! Upstream counterpart: the libraries `resource`, `globalContext` and `http` of Kyverno's CEL. Classic context entries and
//! parameters of policies find the same unknowns.

use std::sync::Arc;

use super::unknown;
use crate::body::{
    formula::{Arena, Formula},
    lookup::{Lookup, Source},
    shape::{Inner, Kind, Shape},
    value::{Result, Sym, Value, unsupported},
};

/// What a lookup outside of the request finds: anything, but the same for the same lookup, however it is written. `args` begin
/// with the receiver of CEL's function.
pub(in crate::body) fn lookup(arena: &mut Arena, name: &str, args: &[Sym]) -> Result<Value> {
    lookup_as(arena, name, args, None)
}

/// A lookup of an object whose kind is known.
fn lookup_as(arena: &mut Arena, name: &str, args: &[Sym], own_kind: Option<&str>) -> Result<Value> {
    let [Sym::Constant(receiver), rest @ ..] = args else {
        return unknown(arena, name, args, Shape::any());
    };
    let (shape, source) = match (&**receiver, name, rest) {
        ("resource", "Get", [Sym::Text(version), Sym::Text(plural), namespace, name]) => {
            let (mut shape, kind) = kind_of(version, plural);
            // An object that is not there is null.
            shape.kinds = shape.kinds.with(Kind::Null);
            let source = Source::Object {
                api_version: Arc::clone(version),
                kind: Arc::from(own_kind.unwrap_or(kind)),
                namespace: namespace.clone(),
                name: name.clone(),
            };
            (shape, Some(source))
        }
        ("resource", "List", [Sym::Text(version), Sym::Text(plural), namespace]) => {
            let (object, kind) = kind_of(version, plural);
            let items = Shape::of(Kind::List, Inner::List(Box::new(object)));
            let source = Source::List {
                api_version: Arc::clone(version),
                kind: Arc::from(kind),
                namespace: namespace.clone(),
            };
            let record = Inner::Record(Arc::from([("items", items, false)]));
            (Shape::of(Kind::Map, record), Some(source))
        }
        ("globalContext", "Get", [Sym::Text(name), Sym::Text(projection)]) => {
            let source = Source::Global {
                name: Arc::clone(name),
                projection: Arc::clone(projection),
            };
            (Shape::any(), Some(source))
        }
        ("http", "Get", [url, ..]) => (Shape::any(), Some(Source::Service { url: url.clone() })),
        _ => (Shape::any(), None),
    };
    let value = unknown(arena, name, args, shape)?;
    if let (Some(source), Some((fine, Sym::At(place)))) = (source, value.0.first()) {
        let (fine, place) = (*fine, *place);
        arena.note_lookup(Lookup { place, fine, source });
    }
    Ok(value)
}

/// The object that a name means for everyone who looks it up, with the condition that it exists. Where a lookup fails for one,
/// it fails for all.
pub(in crate::body) fn object(
    arena: &mut Arena,
    (api_version, plural, kind): (&str, &str, &str),
    namespace: Sym,
    name: &str,
) -> Result<(Formula, Value)> {
    let args = [
        Sym::Constant(Arc::from("resource")),
        Sym::Text(Arc::from(api_version)),
        Sym::Text(Arc::from(plural)),
        namespace,
        Sym::Text(Arc::from(name)),
    ];
    let found = lookup_as(arena, "Get", &args, Some(kind))?;
    let Some((fine, Sym::At(place))) = found.0.first() else {
        return unsupported("an object that is looked up");
    };
    let (fine, place) = (*fine, *place);
    let absent = arena.is_kind(place, Kind::Null);
    let present = arena.not(absent);
    Ok((arena.and([fine, present]), Value::of(Sym::At(place))))
}

/// What is known of the objects of a resource that is looked up, and their kind if it is built in.
pub(in crate::body) fn kind_of(version: &str, plural: &str) -> (Shape, &'static str) {
    let mut kinds = KINDS.iter();
    match kinds.find(|(own, resource, _)| *own == version && *resource == plural) {
        Some((_, _, kind)) => (Shape::object(version, kind), kind),
        None => (Shape::of(Kind::Map, Inner::Custom), "Sample"),
    }
}

/// The resource of a built-in kind that policies look up.
pub(in crate::body) fn plural_of(version: &str, kind: &str) -> Option<&'static str> {
    let mut kinds = KINDS.iter();
    let found = kinds.find(|(own, _, other)| *own == version && *other == kind);
    found.map(|(_, plural, _)| *plural)
}

/// Built-in kinds that policies look up: version, resource, kind.
const KINDS: [(&str, &str, &str); 27] = [
    ("v1", "configmaps", "ConfigMap"),
    ("v1", "secrets", "Secret"),
    ("v1", "namespaces", "Namespace"),
    ("v1", "pods", "Pod"),
    ("v1", "services", "Service"),
    ("v1", "serviceaccounts", "ServiceAccount"),
    ("v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    ("apps/v1", "deployments", "Deployment"),
    ("apps/v1", "statefulsets", "StatefulSet"),
    ("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy"),
    ("networking.k8s.io/v1", "ingresses", "Ingress"),
    ("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    ("v1", "resourcequotas", "ResourceQuota"),
    ("v1", "limitranges", "LimitRange"),
    ("v1", "nodes", "Node"),
    ("v1", "persistentvolumes", "PersistentVolume"),
    ("apps/v1", "daemonsets", "DaemonSet"),
    ("apps/v1", "replicasets", "ReplicaSet"),
    ("batch/v1", "jobs", "Job"),
    ("batch/v1", "cronjobs", "CronJob"),
    ("autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    ("rbac.authorization.k8s.io/v1", "roles", "Role"),
    ("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole"),
    (
        "rbac.authorization.k8s.io/v1",
        "clusterrolebindings",
        "ClusterRoleBinding",
    ),
    ("storage.k8s.io/v1", "storageclasses", "StorageClass"),
    ("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass"),
];
