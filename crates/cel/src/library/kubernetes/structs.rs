//! The structures that Kubernetes declares for admission: `request` and `namespaceObject`.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/admission/plugin/cel/compile.go` `BuildRequestType` and
//! `BuildNamespaceType`. Upstream does not declare `uid`, `object` and `oldObject` of a request, nor the managed fields
//! and owner references of a namespace; it spells a namespace's `UID` in capitals.

use crate::types::{StructType, Type};

/// The type of `request`.
pub const ADMISSION_REQUEST: &str = "kubernetes.AdmissionRequest";
/// The type of `namespaceObject`.
pub const NAMESPACE: &str = "kubernetes.Namespace";

/// All declared structures, nested ones included.
pub(crate) fn structs() -> Vec<StructType> {
    let strings = || Type::list(Type::String);
    let texts = || Type::map(Type::String, Type::String);
    let kind = || Type::structure("kubernetes.GroupVersionKind");
    let resource = || Type::structure("kubernetes.GroupVersionResource");
    vec![
        structure(
            ADMISSION_REQUEST,
            [
                ("kind", kind()),
                ("resource", resource()),
                ("subResource", Type::String),
                ("requestKind", kind()),
                ("requestResource", resource()),
                ("requestSubResource", Type::String),
                ("name", Type::String),
                ("namespace", Type::String),
                ("operation", Type::String),
                ("userInfo", Type::structure("kubernetes.UserInfo")),
                ("dryRun", Type::Bool),
                ("options", Type::Dyn),
            ],
        ),
        structure(
            "kubernetes.GroupVersionKind",
            [
                ("group", Type::String),
                ("version", Type::String),
                ("kind", Type::String),
            ],
        ),
        structure(
            "kubernetes.GroupVersionResource",
            [
                ("group", Type::String),
                ("version", Type::String),
                ("resource", Type::String),
            ],
        ),
        structure(
            "kubernetes.UserInfo",
            [
                ("username", Type::String),
                ("uid", Type::String),
                ("groups", strings()),
                ("extra", Type::map(Type::String, strings())),
            ],
        ),
        structure(
            NAMESPACE,
            [
                ("metadata", Type::structure("kubernetes.NamespaceMetadata")),
                ("spec", Type::structure("kubernetes.NamespaceSpec")),
                ("status", Type::structure("kubernetes.NamespaceStatus")),
            ],
        ),
        structure(
            "kubernetes.NamespaceMetadata",
            [
                ("name", Type::String),
                ("generateName", Type::String),
                ("namespace", Type::String),
                ("labels", texts()),
                ("annotations", texts()),
                ("UID", Type::String),
                ("creationTimestamp", Type::Timestamp),
                ("deletionGracePeriodSeconds", Type::Int),
                ("deletionTimestamp", Type::Timestamp),
                ("generation", Type::Int),
                ("resourceVersion", Type::String),
                ("finalizers", strings()),
            ],
        ),
        structure("kubernetes.NamespaceSpec", [("finalizers", strings())]),
        structure(
            "kubernetes.NamespaceStatus",
            [
                (
                    "conditions",
                    Type::list(Type::structure("kubernetes.NamespaceCondition")),
                ),
                ("phase", Type::String),
            ],
        ),
        structure(
            "kubernetes.NamespaceCondition",
            [
                ("status", Type::String),
                ("type", Type::String),
                ("lastTransitionTime", Type::Timestamp),
                ("message", Type::String),
                ("reason", Type::String),
            ],
        ),
    ]
}

fn structure<const N: usize>(name: &str, fields: [(&str, Type); N]) -> StructType {
    StructType {
        name: name.into(),
        fields: fields.into_iter().map(|(name, t)| (name.into(), t)).collect(),
    }
}
