//! Object metadata, labels and label selectors.
//!
//! Upstream counterpart: `ValidateObjectMeta` of apimachinery and of `pkg/apis/core/validation`,
//! `pkg/apis/meta/v1/validation`.

use super::{Checker, Path, format};
use crate::{
    Reason,
    node::{Name, Node},
    table::Served,
};

/// Which names a kind allows.
enum NameRule {
    Subdomain,
    Label,
    PathSegment,
    Address,
}

fn name_rule(kind: &str) -> NameRule {
    match kind {
        "Namespace" | "StatefulSet" | "Service" => NameRule::Label,
        "Role"
        | "ClusterRole"
        | "RoleBinding"
        | "ClusterRoleBinding"
        | "PodDisruptionBudget"
        | "Event"
        | "APIService"
        | "CertificateSigningRequest" => NameRule::PathSegment,
        "IPAddress" => NameRule::Address,
        _ => NameRule::Subdomain,
    }
}

/// Kinds that are validated by apimachinery alone, which accepts finalizers without a domain. Other kinds have the
/// validation of `pkg/apis/core`.
const PLAIN: [&str; 12] = [
    "APIService",
    "CustomResourceDefinition",
    "Event",
    "Lease",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "PodDisruptionBudget",
    "RuntimeClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];

/// Kinds whose metadata is only validated if there are no other errors.
pub(super) fn is_validated_last(kind: &str) -> bool {
    matches!(kind, "PodDisruptionBudget" | "Event")
}

/// Checks the metadata of an object.
pub(super) fn object(checker: &mut Checker<'_>, served: Served, node: &Node<'_>, path: &Path<'_>) {
    metadata(checker, &name_rule(served.kind), served.namespaced, node, path);
    if let (false, Some(metadata)) = (PLAIN.contains(&served.kind), node.get("metadata")) {
        let path = path.field("metadata");
        let path = path.field("finalizers");
        for (index, finalizer) in metadata.list("finalizers").iter().enumerate() {
            kube_finalizer(checker, finalizer.as_str(), &path.index(index));
        }
    }
}

/// Checks the metadata of a custom resource.
pub(super) fn custom_object(checker: &mut Checker<'_>, namespaced: bool, node: &Node<'_>) {
    metadata(checker, &NameRule::Subdomain, namespaced, node, &Path::root(""));
}

fn metadata(checker: &mut Checker<'_>, rule: &NameRule, namespaced: bool, node: &Node<'_>, path: &Path<'_>) {
    let Some(metadata) = node.get("metadata") else { return };
    let path = path.field("metadata");
    let (name, prefix) = (metadata.str("name"), metadata.str("generateName"));
    if name.is_empty() {
        if prefix.is_empty() {
            checker.required(&path.field("name"), "name or generateName is required");
        }
    } else {
        checker.problems(&path.field("name"), name, &name_problems(rule, name));
    }
    if !prefix.is_empty() {
        // A prefix may end where a name may not.
        let probe = match prefix.strip_suffix('-') {
            Some(rest) => format!("{rest}a"),
            None => prefix.to_owned(),
        };
        checker.problems(&path.field("generateName"), prefix, &name_problems(rule, &probe));
    }
    let namespace = metadata.str("namespace");
    if namespaced && !namespace.is_empty() {
        checker.problems(&path.field("namespace"), namespace, &format::label(namespace));
    }
    if metadata.int("generation").is_some_and(|generation| generation < 0) {
        checker.invalid(&path.field("generation"), "", "must be greater than or equal to 0");
    }
    let at = path.field("labels");
    for label in metadata.map("labels") {
        // A namespace gets the label for a generated name after validation.
        let is_late = label.0 == "kubernetes.io/metadata.name" && label.1.as_str() == name && !prefix.is_empty();
        if !is_late {
            labels(checker, std::slice::from_ref(label), &at);
        }
    }
    annotations(checker, metadata.map("annotations"), &path.field("annotations"));
    owners(
        checker,
        metadata.list("ownerReferences"),
        &path.field("ownerReferences"),
    );
    finalizers(checker, metadata.list("finalizers"), &path.field("finalizers"));
}

fn name_problems(rule: &NameRule, name: &str) -> Vec<String> {
    match rule {
        NameRule::Subdomain => format::subdomain(name),
        NameRule::Label => format::label(name),
        NameRule::PathSegment => format::path_segment(name),
        NameRule::Address if !format::is_ip(name) => vec!["must be a valid IP address".to_owned()],
        NameRule::Address => Vec::new(),
    }
}

/// Checks keys and values of labels.
pub(super) fn labels(checker: &mut Checker<'_>, labels: &[(Name<'_>, Node<'_>)], path: &Path<'_>) {
    for (key, value) in labels {
        checker.problems(path, key, &format::qualified(key));
        checker.problems(path, value.as_str(), &format::label_value(value.as_str()));
    }
}

pub(super) fn annotations(checker: &mut Checker<'_>, annotations: &[(Name<'_>, Node<'_>)], path: &Path<'_>) {
    let mut size = 0;
    for (key, value) in annotations {
        size += key.len() + value.as_str().len();
        if key.bytes().any(|b| b.is_ascii_uppercase()) {
            checker.problems(path, key, &format::qualified(&key.to_lowercase()));
        } else {
            checker.problems(path, key, &format::qualified(key));
        }
    }
    if size > 256 * 1024 {
        checker.fail(path, Reason::TooLong, "may not be more than 262144 bytes");
    }
}

fn owners(checker: &mut Checker<'_>, owners: &[Node<'_>], path: &Path<'_>) {
    let mut controllers = 0;
    for owner in owners {
        let (api_version, kind) = (owner.str("apiVersion"), owner.str("kind"));
        if api_version.split('/').next_back().unwrap_or_default().is_empty() {
            checker.invalid(&path.field("apiVersion"), api_version, "version must not be empty");
        }
        for (field, value) in [("kind", kind), ("name", owner.str("name")), ("uid", owner.str("uid"))] {
            if value.is_empty() {
                checker.invalid(&path.field(field), value, "must not be empty");
            }
        }
        if api_version == "v1" && kind == "Event" {
            checker.invalid(path, "", "/v1, Kind=Event is disallowed from being an owner");
        }
        if owner.bool("controller") {
            controllers += 1;
            if controllers == 2 {
                checker.invalid(path, "", "Only one reference can have Controller set to true");
            }
        }
    }
}

fn finalizers(checker: &mut Checker<'_>, finalizers: &[Node<'_>], path: &Path<'_>) {
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer.as_str() == name);
    for finalizer in finalizers {
        let name = finalizer.as_str();
        checker.problems(path, name, &format::qualified(name));
    }
    if has("orphan") && has("foregroundDeletion") {
        checker.invalid(path, "", "finalizer orphan and foregroundDeletion cannot be both set");
    }
}

/// A finalizer without a domain must be one of Kubernetes' own.
pub(super) fn kube_finalizer(checker: &mut Checker<'_>, name: &str, path: &Path<'_>) {
    if !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
        checker.invalid(
            path,
            name,
            "name is neither a standard finalizer name nor is it fully qualified",
        );
    }
}

/// Checks a label selector.
pub(super) fn selector(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    labels(checker, node.map("matchLabels"), &path.field("matchLabels"));
    let expressions = path.field("matchExpressions");
    for (index, requirement) in node.list("matchExpressions").iter().enumerate() {
        let path = expressions.index(index);
        let values = requirement.list("values");
        match requirement.str("operator") {
            "In" | "NotIn" => {
                if values.is_empty() {
                    checker.required(
                        &path.field("values"),
                        "must be specified when `operator` is 'In' or 'NotIn'",
                    );
                }
            }
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                    checker.forbidden(&path.field("values"), detail);
                }
            }
            other => checker.invalid(&path.field("operator"), other, "not a valid selector operator"),
        }
        let key = requirement.str("key");
        checker.problems(&path.field("key"), key, &format::qualified(key));
        for (index, value) in values.iter().enumerate() {
            let problems = format::label_value(value.as_str());
            checker.problems(&path.field("values").index(index), value.as_str(), &problems);
        }
    }
}

/// Whether the selector of a workload matches labels; `None` if it is not a valid selector.
pub(super) fn matches(selector: &Node<'_>, labels: &Node<'_>) -> Option<bool> {
    let value = |key: &str| labels.get(key).map(Node::as_str);
    let is_label = |(key, value): &(Name<'_>, Node<'_>)| {
        format::qualified(key).is_empty() && format::label_value(value.as_str()).is_empty()
    };
    if !selector.map("matchLabels").iter().all(is_label) {
        return None;
    }
    let mut all = selector
        .map("matchLabels")
        .iter()
        .all(|(key, wanted)| value(key) == Some(wanted.as_str()));
    for requirement in selector.list("matchExpressions") {
        let own = value(requirement.str("key"));
        let listed = own.is_some_and(|own| requirement.list("values").iter().any(|value| value.as_str() == own));
        let values = !requirement.list("values").is_empty();
        if !format::qualified(requirement.str("key")).is_empty() {
            return None;
        }
        all &= match requirement.str("operator") {
            "In" if values => listed,
            "NotIn" if values => !listed,
            "Exists" if !values => own.is_some(),
            "DoesNotExist" if !values => own.is_none(),
            _ => return None,
        };
    }
    Some(all)
}
