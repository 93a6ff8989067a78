//! The mutating admission plugins that kube-apiserver enables by default.
//!
//! Upstream counterpart: `plugin/pkg/admission/*` of Kubernetes 1.36.
//!
//! Known deviations: TaintNodesByCondition, PodGroupProtection and PodTopologyLabels do only what shows on the objects
//! themselves; LimitRanger applies defaults and does not check minima and maxima.

use crate::{
    Cause, Cluster, Operation, Plugin, Reason, Refused, Request,
    node::Node,
    step::{Decoded, Known},
};

mod pod;
mod service_account;

/// Runs the enabled plugins in the order of kube-apiserver; `after` is called after each that applies to the kind.
pub(crate) fn run<'a>(
    decoded: &mut Decoded<'a>,
    request: Request<'_>,
    cluster: &Cluster,
    after: &mut dyn FnMut(&Decoded<'a>, Plugin),
) -> Result<(), Refused> {
    // The plugins ignore subresources.
    if !request.subresource.is_empty() {
        return Ok(());
    }
    for plugin in Plugin::DEFAULT {
        if cluster.has(plugin) && run_one(plugin, decoded, request, cluster)? {
            after(decoded, plugin);
        }
    }
    Ok(())
}

/// Runs the enabled plugins that would leave `before` unchanged.
pub(crate) fn run_settled<'a>(
    before: &Decoded<'a>,
    decoded: &mut Decoded<'a>,
    request: Request<'_>,
    cluster: &Cluster,
) -> Result<(), Refused> {
    // A copy that a plugin left unchanged serves the next one.
    let mut unchanged: Option<Decoded<'a>> = None;
    for plugin in Plugin::DEFAULT {
        if !cluster.has(plugin) {
            continue;
        }
        let mut tried = unchanged.take().unwrap_or_else(|| before.clone());
        match run_one(plugin, &mut tried, request, cluster) {
            Ok(false) => unchanged = Some(tried),
            Ok(true) if tried.node == before.node => {
                run_one(plugin, decoded, request, cluster)?;
                unchanged = Some(tried);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Runs a plugin; `false` if it does not apply to the kind or the operation.
fn run_one(
    plugin: Plugin,
    decoded: &mut Decoded<'_>,
    request: Request<'_>,
    cluster: &Cluster,
) -> Result<bool, Refused> {
    let Known::BuiltIn(served) = decoded.known else {
        return Ok(false);
    };
    let create = request.operation == Operation::Create;
    match (plugin, served.kind) {
        (Plugin::ServiceAccount, "Pod") if create => service_account::admit(decoded, cluster)?,
        (Plugin::TaintNodesByCondition, "Node") if create => taint_node(&mut decoded.node),
        (Plugin::LimitRanger, "Pod") if create => pod::limit_ranges(&mut decoded.node, cluster),
        (Plugin::Priority, "Pod") => pod::priority(decoded, cluster, create)?,
        (Plugin::DefaultTolerationSeconds, "Pod") => pod::tolerations(&mut decoded.node),
        (Plugin::RuntimeClass, "Pod") if create => pod::runtime_class(decoded, cluster)?,
        (Plugin::DefaultStorageClass, "PersistentVolumeClaim") if create => {
            storage_class(&mut decoded.node, cluster);
        }
        (Plugin::StorageObjectInUseProtection, "PersistentVolumeClaim") if create => {
            add_finalizer(&mut decoded.node, "kubernetes.io/pvc-protection");
        }
        (Plugin::StorageObjectInUseProtection, "PersistentVolume") if create => {
            add_finalizer(&mut decoded.node, "kubernetes.io/pv-protection");
        }
        (Plugin::StorageObjectInUseProtection, "VolumeAttributesClass") if create => {
            add_finalizer(&mut decoded.node, "kubernetes.io/vac-protection");
        }
        (Plugin::DefaultIngressClass, "Ingress") if create => ingress_class(&mut decoded.node, cluster),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Checks of the same plugins that come after validation.
pub(crate) fn validate(decoded: &Decoded<'_>, request: Request<'_>, cluster: &Cluster) -> Result<(), Refused> {
    let Known::BuiltIn(served) = decoded.known else {
        return Ok(());
    };
    if !request.subresource.is_empty() {
        return Ok(());
    }
    if served.kind == "Pod" && request.operation == Operation::Create && cluster.has(Plugin::RuntimeClass) {
        pod::check_overhead(&decoded.node)?;
    }
    if served.kind == "Namespace" && request.operation == Operation::Create {
        let errors = pod_security_labels(&decoded.node);
        if !errors.is_empty() {
            let name = decoded.node.at(&["metadata", "name"]).map_or("", Node::as_str);
            return Err(Refused::invalid("Namespace", name, errors));
        }
    }
    Ok(())
}

/// The PodSecurity labels of a new namespace that the plugin rejects.
///
/// Upstream: `k8s.io/pod-security-admission/api/helpers.go` `PolicyToEvaluate`.
fn pod_security_labels(node: &Node<'_>) -> Vec<Cause> {
    let is_level = |text: &str| matches!(text, "privileged" | "baseline" | "restricted");
    let is_version = |text: &str| {
        let minor = text.strip_prefix("v1.");
        let is_number = |digits: &str| {
            let plain = digits == "0" || !digits.starts_with('0');
            plain && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        text == "latest" || minor.is_some_and(is_number)
    };
    let mut errors = Vec::new();
    let mut check = |suffix: &str, is_valid: &dyn Fn(&str) -> bool, text: &str| {
        let label = format!("pod-security.kubernetes.io/{suffix}");
        let value = node.at(&["metadata", "labels", &label]).map(Node::as_str);
        if let Some(value) = value.filter(|value| !is_valid(value)) {
            errors.push(Cause {
                field: format!("metadata.labels[{label}]"),
                reason: Reason::Invalid,
                detail: format!("\"{value}\": {text}"),
            });
        }
    };
    for mode in ["enforce", "audit", "warn"] {
        check(mode, &is_level, "must be one of privileged, baseline, restricted");
        check(
            &format!("{mode}-version"),
            &is_version,
            "must be \"latest\" or \"v1.x\"",
        );
    }
    errors
}

fn add_finalizer(node: &mut Node<'_>, name: &'static str) {
    let finalizers = node.child("metadata").child_list("finalizers");
    if !finalizers.iter().any(|known| known.as_str() == name) {
        finalizers.push(Node::text(name));
    }
}

fn taint_node(node: &mut Node<'_>) {
    let taints = node.child("spec").child_list("taints");
    let known =
        |taint: &Node<'_>| taint.str("key") == "node.kubernetes.io/not-ready" && taint.str("effect") == "NoSchedule";
    if !taints.iter().any(known) {
        let mut taint = Node::EMPTY;
        taint.set("key", "node.kubernetes.io/not-ready");
        taint.set("effect", "NoSchedule");
        taints.push(taint);
    }
}

fn storage_class(node: &mut Node<'_>, cluster: &Cluster) {
    let Some(spec) = node.get_mut("spec") else { return };
    if spec.has("storageClassName") {
        return;
    }
    if let Some(name) = default_class(cluster, "StorageClass", "storageclass.kubernetes.io/is-default-class") {
        spec.set("storageClassName", name);
    }
}

fn ingress_class(node: &mut Node<'_>, cluster: &Cluster) {
    let annotated = node
        .at(&["metadata", "annotations", "kubernetes.io/ingress.class"])
        .is_some();
    let Some(spec) = node.get_mut("spec") else { return };
    if spec.has("ingressClassName") || annotated {
        return;
    }
    if let Some(name) = default_class(cluster, "IngressClass", "ingressclass.kubernetes.io/is-default-class") {
        spec.set("ingressClassName", name);
    }
}

/// The class that is marked as the default; of several the last by creation, then the first by name.
fn default_class(cluster: &Cluster, kind: &str, annotation: &str) -> Option<String> {
    let marked = cluster.of_kind(kind).filter_map(|class| {
        let text = |path: &[&str]| class.at(path).and_then(kyvtest_go_compat::value::Value::as_str);
        let mark = text(&["metadata", "annotations", annotation])?;
        (mark == "true").then(|| {
            (
                text(&["metadata", "creationTimestamp"]).unwrap_or("").to_owned(),
                text(&["metadata", "name"]).unwrap_or("").to_owned(),
            )
        })
    });
    let mut marked: Vec<(String, String)> = marked.collect();
    marked.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    marked.into_iter().next().map(|(_, name)| name)
}
