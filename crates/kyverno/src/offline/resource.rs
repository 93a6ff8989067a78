//! Resources: documents as Kyverno's loader hands them to the engines.
//!
//! Counterpart: `cmd/cli/kubectl-kyverno/resource/resource.go` (1.19): the namespace `default` if it is absent and
//! the kind is not known to be cluster-wide, null maps of well-known names become empty ones. Lists are taken apart,
//! where Kyverno panics.

use std::sync::Arc;

use kyvtest_go_compat::{
    value::{Builder, Document},
    yaml::{Kind, Node},
};
use kyvtest_model::{kube::Discovery, policy::Origin};

/// An object of the API as a suite gives it.
#[derive(Debug, Clone)]
pub struct Resource {
    /// The object, namespace filled in.
    pub object: Arc<Document>,
    /// The API version; empty if absent.
    pub api_version: String,
    pub kind: String,
    /// The namespace; empty for cluster-wide kinds.
    pub namespace: String,
    /// The name; empty if absent.
    pub name: String,
    /// Whether the namespace was filled in.
    pub namespace_defaulted: bool,
    /// Where it comes from.
    pub origin: Origin,
}

impl Resource {
    /// `apiVersion,kind,namespace,name`, by which `kyverno test` keeps responses.
    pub fn key(&self) -> String {
        let Self {
            api_version,
            kind,
            namespace,
            name,
            ..
        } = self;
        format!("{api_version},{kind},{namespace},{name}")
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// Which kinds have no namespace.
pub trait Scopes: Sync {
    /// Whether the kind is known to be cluster-wide.
    fn is_cluster_wide(&self, group: &str, kind: &str) -> bool;
}

impl Scopes for Discovery {
    fn is_cluster_wide(&self, group: &str, kind: &str) -> bool {
        let mut served = self.kinds(kind).filter(|resource| resource.group == group);
        served.next().is_some_and(|resource| !resource.namespaced)
    }
}

/// The kinds that Kyverno's command line knows.
///
/// Counterpart: `cmd/cli/kubectl-kyverno/data/api-group-resources.json` (1.19).
#[derive(Debug, Clone, Copy, Default)]
pub struct BuiltInScopes;

impl Scopes for BuiltInScopes {
    fn is_cluster_wide(&self, group: &str, kind: &str) -> bool {
        let kinds: &[&str] = match group {
            "" => &["ComponentStatus", "Namespace", "Node", "PersistentVolume"],
            "admissionregistration.k8s.io" => &[
                "MutatingWebhookConfiguration",
                "ValidatingAdmissionPolicy",
                "ValidatingAdmissionPolicyBinding",
                "ValidatingWebhookConfiguration",
            ],
            "apiextensions.k8s.io" => &["CustomResourceDefinition"],
            "apiregistration.k8s.io" => &["APIService"],
            "authentication.k8s.io" => &["SelfSubjectReview", "TokenReview"],
            "authorization.k8s.io" => &[
                "SelfSubjectAccessReview",
                "SelfSubjectRulesReview",
                "SubjectAccessReview",
            ],
            "certificates.k8s.io" => &["CertificateSigningRequest"],
            "flowcontrol.apiserver.k8s.io" => &["FlowSchema", "PriorityLevelConfiguration"],
            "networking.k8s.io" => &["IPAddress", "IngressClass", "ServiceCIDR"],
            "node.k8s.io" => &["RuntimeClass"],
            "rbac.authorization.k8s.io" => &["ClusterRole", "ClusterRoleBinding"],
            "resource.k8s.io" => &["DeviceClass", "ResourceSlice"],
            "scheduling.k8s.io" => &["PriorityClass"],
            "storage.k8s.io" => &[
                "CSIDriver",
                "CSINode",
                "StorageClass",
                "VolumeAttachment",
                "VolumeAttributesClass",
            ],
            _ => &[],
        };
        kinds.contains(&kind)
    }
}

/// What an item of a list is called where it does not say so itself.
#[derive(Debug, Clone, Copy)]
pub struct Fallback<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
}

/// Makes a resource from an object. `None` where it has no kind.
pub fn resource(
    node: Node<'_>,
    fallback: Option<Fallback<'_>>,
    cluster_wide: &dyn Fn(&str, &str) -> bool,
    origin: Origin,
) -> Option<Resource> {
    let text = |key: &str| node.get(key).and_then(Node::as_str).filter(|text| !text.is_empty());
    let kind = text("kind").or(fallback.map(|fallback| fallback.kind))?;
    let api_version = text("apiVersion").or(fallback.map(|fallback| fallback.api_version));
    let api_version = api_version.unwrap_or_default();
    let metadata = node.get("metadata");
    let member = |key: &str| {
        let found = metadata.and_then(|metadata| metadata.get(key)).and_then(Node::as_str);
        found.unwrap_or_default()
    };
    let group = match api_version.split('/').collect::<Vec<_>>().as_slice() {
        [group, _] => *group,
        _ => "",
    };
    let written = member("namespace");
    // Go leaves `metadata` alone where it is something else than a map.
    let writable = metadata.is_none_or(|metadata| metadata.as_map().is_some());
    let defaulted = written.is_empty() && writable && !cluster_wide(group, kind);
    let namespace = if defaulted { "default" } else { written };
    let fill = fallback.filter(|_| text("kind").is_none());
    Some(Resource {
        object: Arc::new(build(node, fill, defaulted.then_some(namespace))),
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: member("name").to_owned(),
        namespace_defaulted: defaulted,
        origin,
    })
}

/// The object with what the loader fills in.
fn build(node: Node<'_>, fill: Option<Fallback<'_>>, namespace: Option<&str>) -> Document {
    let mut builder = Builder::new();
    builder.begin_map();
    if let Some(fallback) = fill {
        builder.key("apiVersion");
        builder.string(fallback.api_version);
        builder.key("kind");
        builder.string(fallback.kind);
    }
    let filled = |key: &str| fill.is_some() && matches!(key, "apiVersion" | "kind");
    for entry in node
        .as_map()
        .into_iter()
        .flat_map(kyvtest_go_compat::yaml::Entries::iter)
    {
        if filled(entry.key) {
            continue;
        }
        builder.key(entry.key);
        match (entry.key, entry.value.as_map(), namespace) {
            ("metadata", Some(metadata), Some(namespace)) => {
                builder.begin_map();
                for entry in metadata.iter().filter(|entry| entry.key != "namespace") {
                    builder.key(entry.key);
                    member(&mut builder, entry.key, entry.value);
                }
                builder.key("namespace");
                builder.string(namespace);
                builder.end();
            }
            _ => member(&mut builder, entry.key, entry.value),
        }
    }
    if let Some(namespace) = namespace
        && node.get("metadata").is_none()
    {
        builder.key("metadata");
        builder.begin_map();
        builder.key("namespace");
        builder.string(namespace);
        builder.end();
    }
    builder.end();
    let mut object = builder.finish();
    // Resources are kept until the run ends.
    object.shrink_to_fit();
    object
}

/// Adds a member of a map; null is an empty map under well-known names.
fn member(builder: &mut Builder, key: &str, value: Node<'_>) {
    let maps = [
        "annotations",
        "labels",
        "matchLabels",
        "nodeSelector",
        "data",
        "stringData",
    ];
    match value.kind() {
        Kind::Null if maps.contains(&key) => {
            builder.begin_map();
            builder.end();
        }
        Kind::Map(_) => map(builder, value),
        Kind::Seq(items) => {
            builder.begin_list();
            for item in items.iter() {
                if item.as_map().is_some() {
                    map(builder, item);
                } else {
                    builder.yaml(item);
                }
            }
            builder.end();
        }
        _ => builder.yaml(value),
    }
}

fn map(builder: &mut Builder, node: Node<'_>) {
    builder.begin_map();
    for entry in node
        .as_map()
        .into_iter()
        .flat_map(kyvtest_go_compat::yaml::Entries::iter)
    {
        builder.key(entry.key);
        member(builder, entry.key, entry.value);
    }
    builder.end();
}

/// Returns the items of a list kind and the kind of items that name none. `None` if the node is not a list.
pub fn list_items(node: Node<'_>) -> Option<(Vec<Node<'_>>, Option<Fallback<'_>>)> {
    let kind = node.get("kind").and_then(Node::as_str)?;
    let single = kind.strip_suffix("List")?;
    let items = node.get("items")?.as_seq()?;
    let api_version = node.get("apiVersion").and_then(Node::as_str).unwrap_or_default();
    let fallback = (!single.is_empty()).then_some(Fallback {
        api_version,
        kind: single,
    });
    Some((items.iter().collect(), fallback))
}
