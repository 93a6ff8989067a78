//! Changes that an UPDATE may not make.
//!
//! Upstream counterpart: the `Validate…Update` functions below `pkg/apis/*/validation`.

use kyvtest_go_compat::{
    text::quantity::Quantity,
    value::{Document, Value},
};

use super::{Checker, Path};
use crate::{
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

pub(super) fn run(checker: &mut Checker<'_>, served: Served, new: &Node<'_>, old: &Node<'_>) {
    let (new, old) = (&new.to_owned(), &old.to_owned());
    let pair = Pair {
        served,
        new,
        old,
        new_document: encode::document(served.type_id, new, Form::Stored).0,
        old_document: encode::document(served.type_id, old, Form::Stored).0,
    };
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
        "PersistentVolumeClaim" => claim(checker, &pair),
        "PersistentVolume" => volume(checker, &pair),
        "RoleBinding" | "ClusterRoleBinding" if pair.differs(&["roleRef"]) => {
            checker.invalid(&Path::root("roleRef"), "", "cannot change roleRef");
        }
        "CSIDriver" if pair.differs(&["spec", "attachRequired"]) => {
            checker.invalid(&Path::root("spec.attachedRequired"), "", "field is immutable");
        }
        "Node" => node(checker, &pair),
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
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        let path = ["metadata", field];
        // Omitting the deletion timestamp does not remove it.
        if value(&pair.new_document, &path).is_some() && pair.differs(&path) {
            // Upstream checks metadata for all kinds, and again for each.
            checker.invalid(&root.field(field), "", "field is immutable");
            checker.invalid(&root.field(field), "", "field is immutable");
        }
    }
}

fn pod(checker: &mut Checker<'_>, pair: &Pair<'_, '_>) {
    let (Some(new), Some(old)) = (pair.new.get("spec"), pair.old.get("spec")) else {
        return;
    };
    let path = Path::root("spec");
    for field in ["containers", "initContainers"] {
        if new.list(field).len() != old.list(field).len() {
            return checker.forbidden(&path.field(field), "pod updates may not add or remove containers");
        }
        for (index, container) in new.list(field).iter().enumerate() {
            if container.str("image").is_empty() {
                checker.required(&path.field(field).index(index).field("image"), "");
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
    let mut before = old.get("template").cloned().unwrap_or(Node::EMPTY);
    let own = new.get("template").cloned().unwrap_or(Node::EMPTY);
    if old.bool("suspend") && old.has("suspend") {
        for field in ["labels", "annotations"] {
            let value = own.at(&["metadata", field]).cloned().unwrap_or(Node::Null);
            before.child("metadata").set(field, value);
        }
        for field in ["nodeSelector", "tolerations", "schedulingGates", "affinity"] {
            let value = own.at(&["spec", field]).cloned().unwrap_or(Node::Null);
            before.child("spec").set(field, value);
        }
    }
    let wrap = |template: Node<'static>| {
        let mut spec = Node::EMPTY;
        spec.set("template", template);
        spec
    };
    if pair.specs_differ(&wrap(own.to_owned()), &wrap(before.to_owned())) {
        checker.invalid(&path.field("template"), "", "field is immutable");
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

fn claim(checker: &mut Checker<'_>, pair: &Pair<'_, '_>) {
    const ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
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
    let annotated = pair.old.at(&["metadata", "annotations", ANNOTATION]).is_some();
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
        spec.at(&["resources", "requests", "storage"])
            .and_then(|size| Quantity::parse(size.as_str()).ok())
    };
    let capacity = pair
        .old
        .at(&["status", "capacity", "storage"])
        .and_then(|size| Quantity::parse(size.as_str()).ok());
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
