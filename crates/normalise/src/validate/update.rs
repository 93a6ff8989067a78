//! Changes that an UPDATE may not make.
//!
//! Upstream counterpart: the `Validate…Update` functions below `pkg/apis/*/validation`.

use kyvtest_go_compat::{
    text::quantity::Quantity,
    value::{Document, Value},
};

use super::{Checker, Path};
use crate::{
    Cause,
    encode::{self, Form},
    node::Node,
    table::Served,
};

/// Fields that stay as they were created: kind, path, and whether a change is forbidden rather than invalid.
const IMMUTABLE: &[(&str, &[&str], bool)] = &[
    ("ControllerRevision", &["data"], false),
    ("CustomResourceDefinition", &["spec", "scope"], false),
    ("CustomResourceDefinition", &["spec", "group"], false),
    ("CSIDriver", &["spec", "volumeLifecycleModes"], false),
    ("CSIStorageCapacity", &["nodeTopology"], false),
    ("CSIStorageCapacity", &["storageClassName"], false),
    ("DaemonSet", &["spec", "selector"], false),
    ("Deployment", &["spec", "selector"], false),
    ("EndpointSlice", &["addressType"], false),
    ("IPAddress", &["spec", "parentRef"], false),
    ("IngressClass", &["spec", "controller"], false),
    ("Job", &["spec", "backoffLimitPerIndex"], false),
    ("Job", &["spec", "completionMode"], false),
    ("Job", &["spec", "managedBy"], false),
    ("Job", &["spec", "podFailurePolicy"], false),
    ("Job", &["spec", "selector"], false),
    ("Job", &["spec", "successPolicy"], false),
    ("PriorityClass", &["value"], true),
    ("PriorityClass", &["preemptionPolicy"], false),
    ("ReplicaSet", &["spec", "selector"], false),
    ("ResourceClaim", &["spec"], false),
    ("ResourceClaimTemplate", &["spec"], false),
    ("ResourceQuota", &["spec", "scopes"], false),
    ("RuntimeClass", &["handler"], false),
    ("Secret", &["type"], false),
    ("StorageClass", &["parameters"], false),
    ("StorageClass", &["provisioner"], false),
    ("StorageClass", &["reclaimPolicy"], false),
    ("StorageClass", &["volumeBindingMode"], false),
    ("VolumeAttachment", &["spec"], false),
    ("VolumeAttributesClass", &["driverName"], true),
    ("VolumeAttributesClass", &["parameters"], true),
];

/// Whether the values of an UPDATE are checked; those of other kinds cannot change.
pub(super) fn revalidates(kind: &str) -> bool {
    !matches!(kind, "PriorityClass" | "ResourceClaim" | "ResourceClaimTemplate")
}

/// Both objects, and their written forms.
struct Pair<'n, 'a> {
    served: Served,
    new: &'n Node<'a>,
    old: &'n Node<'a>,
    new_document: Document,
    old_document: Document,
}

impl Pair<'_, '_> {
    fn differs(&self, path: &[&str]) -> bool {
        value(&self.new_document, path) != value(&self.old_document, path)
    }

    /// Whether two versions of a part of the object are written differently.
    fn specs_differ(&self, new: &Node<'_>, old: &Node<'_>) -> bool {
        let write = |spec: &Node<'_>| {
            let mut object = Node::EMPTY;
            object.set("spec", spec.to_owned());
            encode::document(self.served.type_id, &object, Form::Stored).0
        };
        write(new) != write(old)
    }
}

fn value<'d>(document: &'d Document, path: &[&str]) -> Option<Value<'d>> {
    document.root().at(path)
}

impl<'n, 'a> Pair<'n, 'a> {
    fn new(served: Served, new: &'n Node<'a>, old: &'n Node<'a>) -> Self {
        Self {
            served,
            new,
            old,
            new_document: encode::document(served.type_id, new, Form::Stored).0,
            old_document: encode::document(served.type_id, old, Form::Stored).0,
        }
    }
}

/// Checks the changes of metadata alone.
pub(super) fn metadata_of(checker: &mut Checker<'_>, served: Served, new: &Node<'_>, old: &Node<'_>) {
    let (new, old) = (&new.to_owned(), &old.to_owned());
    metadata(checker, &Pair::new(served, new, old));
}

pub(super) fn run(checker: &mut Checker<'_>, served: Served, new: &Node<'_>, old: &Node<'_>) {
    let (new, old) = (&new.to_owned(), &old.to_owned());
    let pair = Pair::new(served, new, old);
    metadata(checker, &pair);
    for (_, path, forbidden) in IMMUTABLE.iter().filter(|(kind, _, _)| *kind == served.kind) {
        if pair.differs(path) {
            let text = path.join(".");
            let at = Path::root(&text);
            if *forbidden {
                checker.forbidden(&at, "updates are forbidden.");
            } else {
                checker.invalid(&at, "", "field is immutable");
            }
        }
    }
    match served.kind {
        "Pod" => pod(checker, &pair),
        "StatefulSet" => stateful_set(checker, &pair),
        "Job" => job(checker, &pair),
        "Service" => service(checker, &pair),
        "ConfigMap" | "Secret" => immutable_data(checker, &pair),
        "PersistentVolumeClaim" => {
            storage_class_annotation(checker, &pair);
            claim(checker, &pair);
        }
        "PersistentVolume" => volume(checker, &pair),
        "RoleBinding" | "ClusterRoleBinding" if pair.differs(&["roleRef"]) => {
            checker.invalid(&Path::root("roleRef"), "", "cannot change roleRef");
        }
        "CSIDriver" if pair.differs(&["spec", "attachRequired"]) => {
            checker.invalid(&Path::root("spec.attachedRequired"), "", "field is immutable");
        }
        "Node" => node(checker, &pair),
        "CSINode" => csi_node(checker, &pair),
        _ => {}
    }
}

fn metadata(checker: &mut Checker<'_>, pair: &Pair<'_, '_>) {
    let root = Path::root("metadata");
    let name = |document: &Document| {
        value(document, &["metadata", "name"])
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    if let Some(name) = name(&pair.new_document).filter(|_| pair.differs(&["metadata", "name"])) {
        checker.invalid(&root.field("name"), &name, "field is immutable");
        checker.invalid(&root.field("name"), &name, "field is immutable");
    }
    for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let path = ["metadata", field];
        // Omitting the deletion timestamp does not remove it.
        if value(&pair.new_document, &path).is_some() && pair.differs(&path) {
            // Upstream checks metadata for all kinds, and again for each.
            checker.invalid(&root.field(field), "", "field is immutable");
            checker.invalid(&root.field(field), "", "field is immutable");
        }
    }
}

/// Annotations that tie a pod to a static pod or to AppArmor profiles stay as they were created.
fn pod_annotations(checker: &mut Checker<'_>, pair: &Pair<'_, '_>) {
    const PROFILE: &str = "container.apparmor.security.beta.kubernetes.io/";
    const MIRROR: &str = "kubernetes.io/config.mirror";
    let path = Path::root("metadata");
    let path = path.field("annotations");
    let empty = Node::EMPTY;
    let annotations = |object: &'_ Node<'_>| object.at(&["metadata", "annotations"]).unwrap_or(&empty).to_owned();
    let (new, old) = (annotations(pair.new), annotations(pair.old));
    // The new annotations were checked with the pod already.
    let again = checker
        .errors
        .iter()
        .filter(|cause| cause.field.starts_with("metadata.annotations["));
    let again: Vec<Cause> = again.cloned().collect();
    checker.errors.extend(again);
    for (key, value) in old.entries() {
        let kept = new.get(key).is_some_and(|own| own.same(value));
        if !kept && key.starts_with(PROFILE) {
            checker.forbidden(&path.key(key), "may not remove or update AppArmor annotations");
        }
        if !kept && key == MIRROR {
            checker.forbidden(&path.key(key), "may not remove or update mirror pod annotation");
        }
    }
    for (key, _) in new.entries().iter().filter(|(key, _)| !old.has(key)) {
        if key.starts_with(PROFILE) {
            checker.forbidden(&path.key(key), "may not add AppArmor annotations");
        }
        if key == MIRROR {
            checker.forbidden(&path.key(key), "may not add mirror pod annotation");
        }
    }
}

fn pod(checker: &mut Checker<'_>, pair: &Pair<'_, '_>) {
    pod_annotations(checker, pair);
    let (Some(new), Some(old)) = (pair.new.get("spec"), pair.old.get("spec")) else {
        return;
    };
    let path = Path::root("spec");
    for field in ["containers", "initContainers"] {
        if new.list(field).len() != old.list(field).len() {
            return checker.forbidden(&path.field(field), "pod updates may not add or remove containers");
        }
        for (index, container) in new.list(field).iter().enumerate() {
            let image = container.str("image");
            if image.is_empty() {
                checker.required(&path.field(field).index(index).field("image"), "");
            } else if image.trim() != image {
                let detail = "must not have leading or trailing whitespace";
                checker.invalid(&path.field(field).index(index).field("image"), image, detail);
            }
        }
    }
    let at = path.field("activeDeadlineSeconds");
    match (new.int("activeDeadlineSeconds"), old.int("activeDeadlineSeconds")) {
        (Some(new), Some(old)) if old < new => {
            return checker.invalid(&at, &new.to_string(), "must be less than or equal to previous value");
        }
        (None, Some(_)) => checker.invalid(&at, "", "must not update from a positive integer to nil value"),
        _ => {}
    }
    pod_tolerations(checker, new, old, &path.field("tolerations"));
    let gates = |spec: &Node<'_>| {
        spec.list("schedulingGates")
            .iter()
            .map(|gate| gate.str("name").to_owned())
            .collect::<Vec<_>>()
    };
    let (gates_new, gates_old) = (gates(new), gates(old));
    for gate in gates_new.iter().filter(|gate| !gates_old.contains(gate)) {
        let _ = gate;
        checker.forbidden(
            &path.field("schedulingGates"),
            "only deletion is allowed, but found new scheduling gates",
        );
    }
    let mut munged = new.clone();
    for field in ["containers", "initContainers"] {
        for (own, before) in munged.list_mut(field).iter_mut().zip(old.list(field)) {
            own.set("image", before.get("image").cloned().unwrap_or(Node::Null));
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        munged.set(field, old.get(field).cloned().unwrap_or(Node::Null));
    }
    if pair.specs_differ(&munged, old) {
        checker.forbidden(
            &path,
            "pod updates may not change fields other than images, deadlines and tolerations",
        );
    }
}

fn pod_tolerations(checker: &mut Checker<'_>, new: &Node<'_>, old: &Node<'_>, path: &Path<'_>) {
    for before in old.list("tolerations") {
        let kept = new.list("tolerations").iter().any(|own| {
            ["key", "operator", "value", "effect"]
                .iter()
                .all(|field| own.str(field) == before.str(field))
        });
        if !kept {
            return checker.forbidden(
                path,
                "existing toleration can not be modified except its tolerationSeconds",
            );
        }
    }
    // The new tolerations were checked with the pod already.
    let again = checker
        .errors
        .iter()
        .filter(|cause| cause.field.starts_with("spec.tolerations["));
    let again: Vec<Cause> = again.cloned().collect();
    checker.errors.extend(again);
}

fn stateful_set(checker: &mut Checker<'_>, pair: &Pair<'_, '_>) {
    let (Some(new), Some(old)) = (pair.new.get("spec"), pair.old.get("spec")) else {
        return;
    };
    let mut munged = new.clone();
    for field in [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ] {
        munged.set(field, old.get(field).cloned().unwrap_or(Node::Null));
    }
    if pair.specs_differ(&munged, old) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                      'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                      'minReadySeconds' are forbidden";
        checker.forbidden(&Path::root("spec"), detail);
    }
}

fn job(checker: &mut Checker<'_>, pair: &Pair<'_, '_>) {
    let path = Path::root("spec");
    let (Some(new), Some(old)) = (pair.new.get("spec"), pair.old.get("spec")) else {
        return;
    };
    if pair.differs(&["spec", "completions"]) {
        let indexed = new.str("completionMode") == "Indexed";
        if !indexed {
            checker.invalid(&path.field("completions"), "", "field is immutable");
        } else if new.has("completions") && new.int("completions") != new.int("parallelism") {
            checker.invalid(
                &path.field("completions"),
                "",
                "can only be modified in tandem with spec.parallelism",
            );
        }
    }
    let before = old.get("template").cloned().unwrap_or(Node::EMPTY);
    let own = new.get("template").cloned().unwrap_or(Node::EMPTY);
    let (own, before) = (own.to_owned(), before.to_owned());
    let suspended = old.bool("suspend");
    let (own, before) = if suspended {
        suspended_template(&own, before)
    } else {
        (own, before)
    };
    let wrap = |template: Node<'static>| {
        let mut spec = Node::EMPTY;
        spec.set("template", template);
        spec
    };
    if pair.specs_differ(&wrap(own), &wrap(before)) {
        let path = path.field("template");
        let path = if suspended { path.field("spec") } else { path };
        checker.invalid(&path, "", "field is immutable");
    }
}

/// Both templates of a suspended job without the parts that may change: metadata, scheduling and resources.
fn suspended_template(own: &Node<'static>, mut before: Node<'static>) -> (Node<'static>, Node<'static>) {
    let mut own = own.clone();
    own.set("metadata", Node::EMPTY);
    before.set("metadata", Node::EMPTY);
    let spec = own.child("spec").clone();
    let old = before.child("spec");
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        old.set(field, spec.get(field).cloned().unwrap_or(Node::Null));
    }
    match (spec.get("affinity"), old.get_mut("affinity")) {
        (None, Some(affinity)) => {
            affinity.remove("nodeAffinity");
            if affinity.is_empty() {
                old.remove("affinity");
            }
        }
        (Some(affinity), _) => {
            let nodes = affinity.get("nodeAffinity").cloned().unwrap_or(Node::Null);
            old.child("affinity").set("nodeAffinity", nodes);
        }
        (None, None) => {}
    }
    for field in ["containers", "initContainers"] {
        let new = spec.list(field);
        if new.len() == old.list(field).len() {
            for (container, own) in old.list_mut(field).iter_mut().zip(new) {
                if container.str("name") == own.str("name") {
                    container.set("resources", own.get("resources").cloned().unwrap_or(Node::Null));
                }
            }
        }
    }
    (own, before)
}

/// Drivers of a node that stay may only change what they can allocate.
fn csi_node(checker: &mut Checker<'_>, pair: &Pair<'_, '_>) {
    let drivers = |node: &Node<'_>| {
        let spec = node.get("spec").map(Node::to_owned);
        let drivers = spec.map_or_else(Vec::new, |spec: Node<'static>| spec.list("drivers").to_vec());
        drivers.into_iter().map(|mut driver| {
            driver.remove("allocatable");
            if driver.list("topologyKeys").is_empty() {
                driver.remove("topologyKeys");
            }
            driver
        })
    };
    for old in drivers(pair.old) {
        for new in drivers(pair.new).filter(|new| new.str("name") == old.str("name")) {
            if !new.same(&old) {
                checker.invalid(&Path::root("spec.drivers"), "", "field is immutable");
            }
        }
    }
}

fn service(checker: &mut Checker<'_>, pair: &Pair<'_, '_>) {
    let (Some(new), Some(old)) = (pair.new.get("spec"), pair.old.get("spec")) else {
        return;
    };
    let external = |spec: &Node<'_>| spec.str("type") == "ExternalName";
    let headless = |spec: &Node<'_>| spec.str("clusterIP") == "None";
    let path = Path::root("spec");
    let exempt = external(new) || external(old) || (headless(new) && headless(old));
    if !exempt {
        let at = path.field("clusterIPs");
        let (new, old) = (new.list("clusterIPs"), old.list("clusterIPs"));
        if new.is_empty() && !old.is_empty() {
            checker.invalid(&at.index(0), "", "primary clusterIP can not be unset");
        }
        let compared = if new.len() == old.len() { old.len() } else { 1 };
        for (index, (new, old)) in new.iter().zip(old).take(compared).enumerate() {
            if new != old {
                checker.invalid(&at.index(index), new.as_str(), "may not change once set");
            }
        }
    }
    let balanced = |spec: &Node<'_>| spec.str("type") == "LoadBalancer";
    if balanced(new) && balanced(old) && pair.differs(&["spec", "loadBalancerClass"]) {
        checker.invalid(&path.field("loadBalancerClass"), "", "may not change once set");
    }
}

fn immutable_data(checker: &mut Checker<'_>, pair: &Pair<'_, '_>) {
    if !pair.old.bool("immutable") {
        return;
    }
    if !pair.new.bool("immutable") {
        checker.forbidden(&Path::root("immutable"), "field is immutable when `immutable` is set");
    }
    for field in ["data", "binaryData"] {
        if pair.differs(&[field]) {
            checker.forbidden(&Path::root(field), "field is immutable when `immutable` is set");
        }
    }
}

const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The annotation stays, unless the field takes over its value.
fn storage_class_annotation(checker: &mut Checker<'_>, pair: &Pair<'_, '_>) {
    let annotation = |object: &Node<'_>| {
        let value = object.at(&["metadata", "annotations", STORAGE_CLASS]);
        value.map(|value| value.as_str().to_owned())
    };
    let class = |object: &Node<'_>| {
        let value = object.at(&["spec", "storageClassName"]);
        value.map(|value| value.as_str().to_owned())
    };
    let (new, old) = (annotation(pair.new), annotation(pair.old));
    let is_upgrade =
        old.is_some() && class(pair.old).is_none() && class(pair.new) == old && (new.is_none() || new == old);
    if !is_upgrade && new.unwrap_or_default() != old.unwrap_or_default() {
        let path = Path::root("metadata");
        let path = path.field("annotations");
        checker.invalid(&path.field(STORAGE_CLASS), "", "field is immutable");
    }
}

fn claim(checker: &mut Checker<'_>, pair: &Pair<'_, '_>) {
    let (Some(new), Some(old)) = (pair.new.get("spec"), pair.old.get("spec")) else {
        return;
    };
    let (mut own, mut before) = (new.clone(), old.clone());
    let take = |to: &mut Node<'_>, from: &Node<'_>, field: &'static str| {
        to.set(field, from.get(field).map_or(Node::Null, Node::to_owned));
    };
    if before.str("volumeName").is_empty() {
        take(&mut before, new, "volumeName");
    }
    let annotated = pair.old.at(&["metadata", "annotations", STORAGE_CLASS]).is_some();
    if !annotated && !old.has("storageClassName") && new.has("storageClassName") {
        take(&mut own, old, "storageClassName");
    }
    if pair
        .new
        .at(&["status", "phase"])
        .is_some_and(|phase| phase.as_str() == "Bound")
    {
        take(&mut own, old, "volumeAttributesClassName");
        let size = old.at(&["resources", "requests", "storage"]).cloned();
        if let (Some(requests), Some(size)) = (own.at_mut(&["resources", "requests"]), size) {
            requests.set("storage", size);
        }
    }
    let path = Path::root("spec");
    if pair.specs_differ(&own, &before) {
        let detail =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        checker.forbidden(&path, detail);
    }
    let size = |spec: &Node<'_>| {
        let size = spec.at(&["resources", "requests", "storage"]).map_or("0", Node::as_str);
        Quantity::parse(size).ok()
    };
    let capacity = pair
        .old
        .at(&["status", "capacity", "storage"])
        .map_or("0", Node::as_str);
    let capacity = Quantity::parse(capacity).ok();
    if let (Some(new), Some(old)) = (size(new), size(old))
        && new < old
        && capacity.is_some_and(|capacity| new <= capacity)
    {
        let at = path.field("resources");
        let at = at.field("requests");
        checker.forbidden(&at.field("storage"), "field can not be less than status.capacity");
    }
    if pair.differs(&["spec", "volumeMode"]) {
        checker.invalid(&Path::root("volumeMode"), "", "field is immutable");
    }
}

fn volume(checker: &mut Checker<'_>, pair: &Pair<'_, '_>) {
    const OTHERS: &[&str] = &[
        "capacity",
        "accessModes",
        "claimRef",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "mountOptions",
        "volumeMode",
        "nodeAffinity",
        "volumeAttributesClassName",
    ];
    let (Some(new), Some(old)) = (pair.new.get("spec"), pair.old.get("spec")) else {
        return;
    };
    let source = |spec: &Node<'_>| {
        let mut source = spec.to_owned();
        for field in OTHERS {
            source.remove(field);
        }
        source
    };
    let (mut own, before) = (source(new), source(old));
    if before.at(&["csi", "controllerExpandSecretRef"]).is_none()
        && let Some(csi) = own.get_mut("csi")
    {
        csi.remove("controllerExpandSecretRef");
    }
    if pair.specs_differ(&own, &before) {
        let detail = "spec.persistentvolumesource is immutable after creation";
        checker.forbidden(&Path::root("spec.persistentvolumesource"), detail);
    }
    if pair.differs(&["spec", "volumeMode"]) {
        checker.invalid(&Path::root("volumeMode"), "", "field is immutable");
    }
    if old.has("nodeAffinity") && pair.differs(&["spec", "nodeAffinity"]) {
        checker.invalid(&Path::root("nodeAffinity"), "", "field is immutable");
    }
    if old.has("volumeAttributesClassName") && !new.has("volumeAttributesClassName") {
        let detail = "update from non-nil value to nil is forbidden";
        checker.forbidden(&Path::root("spec.volumeAttributesClassName"), detail);
    }
}

fn node(checker: &mut Checker<'_>, pair: &Pair<'_, '_>) {
    // Taints are checked with the node and with its update.
    let again = checker
        .errors
        .iter()
        .filter(|cause| cause.field.starts_with("metadata.taints"));
    let again: Vec<Cause> = again.cloned().collect();
    checker.errors.extend(again);
    let (Some(new), Some(old)) = (pair.new.get("spec"), pair.old.get("spec")) else {
        return;
    };
    let path = Path::root("spec");
    let (ranges, before) = (new.list("podCIDRs"), old.list("podCIDRs"));
    let changes = if ranges.len() == before.len() {
        ranges.iter().zip(before).filter(|(new, old)| new != old).count()
    } else {
        1
    };
    for _ in 0..changes {
        if !before.is_empty() {
            checker.forbidden(
                &path.field("podCIDRs"),
                "node updates may not change podCIDR except from \"\" to valid",
            );
        }
    }
    let provider = old.str("providerID");
    if !provider.is_empty() && provider != new.str("providerID") {
        checker.forbidden(
            &path.field("providerID"),
            "node updates may not change providerID except from \"\" to valid",
        );
    }
}
