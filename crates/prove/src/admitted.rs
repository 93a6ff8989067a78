//! Whether an API server would accept the objects of a witness, and what admission would then see.
//!
//! A difference that shows only on objects that a server refuses, or changes before admission, is none that a cluster can
//! show: such a witness is printed as `data=raw`. No upstream counterpart; the server's part is the crate `normalise`.
//!
//! Known deviation: objects of subresources are taken as they are.

use std::sync::LazyLock;

use super::witness::Situation;
use kyvtest_go_compat::value::Document;
use kyvtest_model::kube::Operation;
use kyvtest_normalise::{Cluster, Kind, Operation as Writes, Plugin, Raw, Request, normalise, schema, stored_object};

/// The plugins of a server, without the one that needs accounts and mounts their tokens.
static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| Cluster {
    plugins: Plugin::DEFAULT
        .into_iter()
        .filter(|plugin| *plugin != Plugin::ServiceAccount)
        .collect(),
    ..Cluster::default()
});

/// Returns the request with its objects as admission sees them; `None` if the API server refuses one.
pub(super) fn admitted(situation: &Situation) -> Option<Situation> {
    let request = &situation.request;
    let resource = &request.resource;
    if request.operation == Operation::Connect || !resource.subresource.is_empty() {
        return Some(situation.clone());
    }
    let api_version = resource.object_kind.api_version();
    let kind = Kind {
        api_version: &api_version,
        name: &resource.object_kind.kind,
    };
    let of = |operation| Request {
        operation,
        namespace: if resource.namespaced { &request.namespace } else { "" },
        name: "",
    };
    let mut admitted = situation.clone();
    match request.operation {
        Operation::Create => {
            let raw = Raw::from(&request.object);
            admitted.request.object = normalise(kind, raw, None, of(Writes::Create), &CLUSTER, false)
                .ok()?
                .object;
        }
        Operation::Update => {
            // A stored object has a version, which some kinds demand of an update.
            let (new, old) = (versioned(&request.object), versioned(&request.old_object));
            let sent = of(Writes::Update);
            let stored = stored_object(kind, Raw::from(&old), sent, &CLUSTER).ok()?.object();
            let seen = normalise(kind, Raw::from(&new), Some(Raw::from(&old)), sent, &CLUSTER, false).ok()?;
            (admitted.request.object, admitted.request.old_object) = (seen.object, stored);
        }
        Operation::Delete => {
            let raw = Raw::from(&request.old_object);
            // What is stored was valid when it was created.
            normalise(kind, raw, None, of(Writes::Create), &CLUSTER, false).ok()?;
            let stored = stored_object(kind, raw, of(Writes::Create), &CLUSTER).ok()?;
            admitted.request.old_object = stored.object();
        }
        Operation::Connect => {}
    }
    Some(admitted)
}

/// Returns the request with its objects as a server decodes them; `None` if it cannot. Objects of subresources are not
/// validated.
pub(super) fn decoded(situation: &Situation) -> Option<Situation> {
    let request = &situation.request;
    let resource = &request.resource;
    if resource.subresource.is_empty() {
        return admitted(situation);
    }
    let api_version = resource.object_kind.api_version();
    let kind = Kind {
        api_version: &api_version,
        name: &resource.object_kind.kind,
    };
    if schema::of_kind(&api_version, &resource.object_kind.kind).is_none() {
        return Some(situation.clone());
    }
    let sent = Request {
        operation: Writes::Update,
        namespace: if resource.namespaced { &request.namespace } else { "" },
        name: "",
    };
    let decode = |object: &Document| {
        if object.root().is_null() {
            return Some(Document::null());
        }
        let stored = stored_object(kind, Raw::from(object), sent, &CLUSTER).ok()?;
        Some(stored.object())
    };
    let mut seen = situation.clone();
    seen.request.object = decode(&request.object)?;
    seen.request.old_object = decode(&request.old_object)?;
    Some(seen)
}

fn versioned(object: &Document) -> Document {
    let mut json = object.root().to_serde();
    if let Some(metadata) = json.get_mut("metadata").and_then(|metadata| metadata.as_object_mut()) {
        metadata.insert("resourceVersion".to_owned(), "1".into());
    }
    Document::from(&json)
}
