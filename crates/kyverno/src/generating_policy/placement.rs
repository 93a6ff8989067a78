//! What becomes of the objects that a policy hands over.
//!
//! Upstream counterpart: `GenerateResources` of `pkg/cel/libs/{context,fake_context}.go` (1.19).

use crate::generate::object::{remove, set_metadata, text};
use kyvtest_go_compat::value::Data;

/// Turns the objects of one call into those that are generated, given the namespace of the call.
pub(crate) type Placement<'p> = dyn Fn(&str, Vec<Data>) -> Result<Vec<Data>, String> + 'p;

/// Sets the namespace and leaves everything else alone, as `kyverno test` does without cluster resources.
///
/// # Errors
/// If an item of a list is not an object.
pub(crate) fn as_given(namespace: &str, objects: Vec<Data>) -> Result<Vec<Data>, String> {
    let mut placed = items(objects)?;
    for object in &mut placed {
        set_metadata(object, "namespace", namespace);
    }
    Ok(placed)
}

/// Removes what a server fills in, as `kyverno test` does with cluster resources. `is_namespaced` gets API version and kind;
/// `policy_namespace` is empty for a policy of the whole cluster.
///
/// # Errors
/// If an item of a list is not an object, or a policy of a namespace generates a cluster-wide object.
pub fn in_cluster(
    namespace: &str,
    objects: Vec<Data>,
    policy_namespace: &str,
    is_namespaced: &dyn Fn(&str, &str) -> bool,
) -> Result<Vec<Data>, String> {
    let mut placed = items(objects)?;
    for object in &mut placed {
        let (api_version, kind) = (text(object, &["apiVersion"]), text(object, &["kind"]));
        let target = if is_namespaced(api_version, kind) {
            namespace
        } else if namespace.is_empty() || policy_namespace.is_empty() {
            ""
        } else {
            return Err(format!(
                "cross-scope generation denied: a policy scoped to namespace {namespace:?} cannot generate cluster-scoped \
                 resource {api_version}/{kind}"
            ));
        };
        let source = text(object, &["metadata", "namespace"]);
        if !source.is_empty() && source != target {
            remove(object, &["metadata", "ownerReferences"]);
        }
        for field in [
            "uid",
            "managedFields",
            "annotations",
            "resourceVersion",
            "creationTimestamp",
        ] {
            remove(object, &["metadata", field]);
        }
        set_metadata(object, "namespace", target);
    }
    Ok(placed)
}

/// The objects, with lists taken apart.
fn items(objects: Vec<Data>) -> Result<Vec<Data>, String> {
    let mut all = Vec::new();
    for object in objects {
        match object.get("items").and_then(Data::as_list) {
            None => all.push(object),
            Some(items) => {
                for item in items {
                    if item.as_map().is_none() {
                        return Err(format!("items member is not an object: {}", item.go_type()));
                    }
                    all.push(item.clone());
                }
            }
        }
    }
    Ok(all)
}
