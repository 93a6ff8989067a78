//! The facts about the request and the cluster that normalisation needs.
//!
//! Upstream counterpart: the informers of admission plugins and the registry of custom resources.

use std::sync::Arc;

use kyvtest_go_compat::value::{Document, Value};

use crate::{Cause, RuleCheck};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    #[default]
    Create,
    Update,
}

/// A mutating admission plugin of kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    NamespaceLifecycle,
    LimitRanger,
    ServiceAccount,
    TaintNodesByCondition,
    Priority,
    DefaultTolerationSeconds,
    DefaultStorageClass,
    StorageObjectInUseProtection,
    PodGroupProtection,
    RuntimeClass,
    DefaultIngressClass,
    PodTopologyLabels,
}

impl Plugin {
    /// All plugins that kube-apiserver enables by default and that can change an object, in their order.
    pub const DEFAULT: [Plugin; 12] = [
        Plugin::NamespaceLifecycle,
        Plugin::ServiceAccount,
        Plugin::TaintNodesByCondition,
        Plugin::LimitRanger,
        Plugin::Priority,
        Plugin::DefaultTolerationSeconds,
        Plugin::DefaultStorageClass,
        Plugin::StorageObjectInUseProtection,
        Plugin::PodGroupProtection,
        Plugin::RuntimeClass,
        Plugin::DefaultIngressClass,
        Plugin::PodTopologyLabels,
    ];

    /// The plugin's name on kube-apiserver's command line.
    pub fn name(self) -> &'static str {
        match self {
            Plugin::NamespaceLifecycle => "NamespaceLifecycle",
            Plugin::LimitRanger => "LimitRanger",
            Plugin::ServiceAccount => "ServiceAccount",
            Plugin::TaintNodesByCondition => "TaintNodesByCondition",
            Plugin::Priority => "Priority",
            Plugin::DefaultTolerationSeconds => "DefaultTolerationSeconds",
            Plugin::DefaultStorageClass => "DefaultStorageClass",
            Plugin::StorageObjectInUseProtection => "StorageObjectInUseProtection",
            Plugin::PodGroupProtection => "PodGroupProtection",
            Plugin::RuntimeClass => "RuntimeClass",
            Plugin::DefaultIngressClass => "DefaultIngressClass",
            Plugin::PodTopologyLabels => "PodTopologyLabels",
        }
    }

    /// The plugin of a name; `None` if it is unknown or changes nothing.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::DEFAULT.into_iter().find(|plugin| plugin.name() == name)
    }
}

#[derive(Debug)]
pub struct Cluster {
    /// Enabled plugins; they run in kube-apiserver's order, regardless of the order here.
    pub plugins: Vec<Plugin>,
    /// Objects that plugins look up: LimitRange, PriorityClass, StorageClass, RuntimeClass, IngressClass, ServiceAccount.
    pub objects: Vec<Document>,
    /// Whether `objects` is complete. If so, a reference to a missing object is rejected as on a real server; otherwise
    /// it is a warning.
    pub complete: bool,
    /// Existing namespaces; `None` means that every namespace exists.
    pub namespaces: Option<Vec<String>>,
    /// CustomResourceDefinitions.
    pub definitions: Vec<Arc<Document>>,
    /// Evaluates the rules of definitions; `None` skips them.
    pub rules: Option<RuleCheck>,
    /// Compiles the expressions of admission policies; `None` skips them.
    pub expressions: Option<ExpressionCheck>,
    /// Range of cluster addresses (CIDR, IPv4); `None` means that any address is accepted.
    pub service_range: Option<String>,
    /// Time of the request (RFC 3339, UTC, whole seconds).
    pub now: String,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            plugins: Plugin::DEFAULT.to_vec(),
            objects: Vec::new(),
            complete: false,
            namespaces: None,
            definitions: Vec::new(),
            rules: None,
            expressions: None,
            service_range: None,
            now: "2026-01-01T00:00:00Z".to_owned(),
        }
    }
}

impl Cluster {
    pub(crate) fn has(&self, plugin: Plugin) -> bool {
        self.plugins.contains(&plugin)
    }

    /// The objects of a kind.
    pub(crate) fn of_kind<'c>(&'c self, kind: &'c str) -> impl Iterator<Item = Value<'c>> {
        self.objects
            .iter()
            .map(Document::root)
            .filter(move |object| object.get("kind").and_then(Value::as_str) == Some(kind))
    }

    /// The object of a kind and name, of a namespace if it is not empty.
    pub(crate) fn named<'c>(&'c self, kind: &'c str, namespace: &str, name: &str) -> Option<Value<'c>> {
        let text = |object: Value<'c>, field| object.at(&["metadata", field]).and_then(Value::as_str).unwrap_or("");
        self.of_kind(kind).find(|object| {
            text(*object, "name") == name && (namespace.is_empty() || text(*object, "namespace") == namespace)
        })
    }
}

/// Returns the errors of the CEL expressions of an admission policy.
pub type ExpressionCheck = fn(Value<'_>) -> Vec<Cause>;

/// The parts of the request outside its body.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'r> {
    pub operation: Operation,
    /// Namespace of the URL; empty means that of the object, else `default`.
    pub namespace: &'r str,
    /// Name of the URL, for UPDATE and subresources; empty means that of the object.
    pub name: &'r str,
    /// `status`, `scale`, `eviction`, …; empty for the object itself.
    pub subresource: &'r str,
    /// Whether nothing is to be stored.
    pub dry_run: bool,
}
