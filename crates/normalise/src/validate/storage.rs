//! Persistent volumes, claims, storage classes and CSI objects.
//!
//! Upstream counterpart: `ValidatePersistentVolumeSpec`, `ValidatePersistentVolumeClaimSpec` in
//! `pkg/apis/core/validation/validation.go`, `pkg/apis/storage/validation/validation.go`.

use kyvtest_go_compat::text::quantity::Quantity;

use super::{Checker, Path, TypeCheck, format, volume};
use crate::{Reason, node::Node};

pub(super) fn check(name: &str) -> Option<TypeCheck> {
    Some(match name {
        "core.v1.PersistentVolume" => persistent_volume,
        "core.v1.PersistentVolumeClaimSpec" => claim,
        "core.v1.TypedLocalObjectReference" | "core.v1.TypedObjectReference" => data_source,
        "core.v1.CSIPersistentVolumeSource" => csi,
        "core.v1.LocalVolumeSource" => local,
        "core.v1.GlusterfsPersistentVolumeSource" => glusterfs,
        "storage.v1.StorageClass" => storage_class,
        "storage.v1.CSIDriverSpec" => csi_driver_spec,
        "storage.v1.CSINodeSpec" => csi_node,
        "storage.v1.CSIStorageCapacity" => capacity,
        "storage.v1.VolumeAttachmentSpec" => attachment,
        "storage.v1.VolumeAttributesClass" => attributes_class,
        _ => return None,
    })
}

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

fn access_modes(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let path = path.field("accessModes");
    let modes = node.list("accessModes");
    if modes.is_empty() {
        checker.required(&path, "at least 1 access mode is required");
    }
    for mode in modes.iter().filter(|mode| !ACCESS_MODES.contains(&mode.as_str())) {
        checker.unsupported(&path, mode.as_str(), ACCESS_MODES);
    }
    let pod = |mode: &Node<'_>| mode.as_str() == "ReadWriteOncePod";
    let other = |mode: &Node<'_>| !pod(mode) && ACCESS_MODES.contains(&mode.as_str());
    if modes.iter().any(pod) && modes.iter().any(other) {
        checker.forbidden(&path, "may not use ReadWriteOncePod with other access modes");
    }
}

fn persistent_volume(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let Some(spec) = node.get("spec") else { return };
    let name = node.at(&["metadata", "name"]).map_or("", Node::as_str);
    volume_spec(checker, spec, name, false, &path.field("spec"));
}

fn volume_spec(checker: &mut Checker<'_>, spec: &Node<'_>, name: &str, inline: bool, path: &Path<'_>) {
    access_modes(checker, spec, path);
    if inline {
        inline_volume(checker, spec, path);
    } else {
        volume_capacity(checker, spec, &path.field("capacity"));
        match spec.str("persistentVolumeReclaimPolicy") {
            "" | "Retain" | "Delete" | "Recycle" => {}
            other => {
                let allowed = ["Delete", "Recycle", "Retain"];
                checker.unsupported(&path.field("persistentVolumeReclaimPolicy"), other, &allowed);
            }
        }
        if let Some(mode) = spec.get("volumeMode").map(Node::as_str)
            && !matches!(mode, "Block" | "Filesystem")
        {
            checker.unsupported(&path.field("volumeMode"), mode, &["Block", "Filesystem"]);
        }
        let class = spec.str("storageClassName");
        if !class.is_empty() {
            checker.problems(&path.field("storageClassName"), class, &format::subdomain(class));
        }
        if let Some(affinity) = spec.get("nodeAffinity") {
            let at = path.field("nodeAffinity");
            match affinity.get("required") {
                Some(required) => checker.object("core.v1.NodeSelector", required, &at.field("required")),
                None => checker.required(&at.field("required"), "must specify required node constraints"),
            }
        }
    }
    sources(checker, spec, name, path);
    attributes(checker, spec, path);
}

fn inline_volume(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    let detail = "may not be specified in the context of inline volumes";
    for field in ["claimRef", "capacity", "nodeAffinity", "storageClassName"] {
        if spec
            .get(field)
            .is_some_and(|value| field == "claimRef" || field == "nodeAffinity" || !value.is_empty())
        {
            checker.forbidden(&path.field(field), detail);
        }
    }
    if !spec.has("csi") {
        checker.required(
            &path.field("csi"),
            "has to be specified in the context of inline volumes",
        );
    }
    if !matches!(spec.str("persistentVolumeReclaimPolicy"), "" | "Retain") {
        checker.forbidden(&path.field("persistentVolumeReclaimPolicy"), detail);
    }
    if !matches!(spec.str("volumeMode"), "" | "Filesystem") {
        checker.forbidden(&path.field("volumeMode"), detail);
    }
}

fn volume_capacity(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    let capacity = spec.map("capacity");
    if capacity.is_empty() {
        checker.required(path, "");
    }
    if capacity.len() > 1 || !capacity.iter().any(|(name, _)| name == "storage") {
        checker.unsupported(path, "", &["storage"]);
    }
    for (name, amount) in capacity {
        let Ok(quantity) = Quantity::parse(amount.as_str()) else {
            continue;
        };
        if quantity.sign() < 0 {
            checker.invalid(&path.key(name), amount.as_str(), "must be a valid resource quantity");
        }
        if quantity.sign() <= 0 {
            checker.invalid(&path.key(name), amount.as_str(), "must be greater than zero");
        }
    }
}

fn sources(checker: &mut Checker<'_>, spec: &Node<'_>, name: &str, path: &Path<'_>) {
    const ORDER: &[&str] = &[
        "hostPath",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "flocker",
        "nfs",
        "rbd",
        "quobyte",
        "cephfs",
        "iscsi",
        "cinder",
        "fc",
        "flexVolume",
        "azureFile",
        "vsphereVolume",
        "photonPersistentDisk",
        "portworxVolume",
        "azureDisk",
        "scaleIO",
        "local",
        "storageos",
        "csi",
    ];
    let mut found = false;
    for field in ORDER.iter().filter(|field| spec.has(field)) {
        let (_, forbidden, own) = volume::SOURCES
            .iter()
            .find(|(name, _, _)| name == field)
            .copied()
            .unwrap_or((field, field, field));
        if found && *field != "flexVolume" {
            checker.forbidden(&path.field(forbidden), "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        checker.field_as("core.v1.PersistentVolumeSpec", spec, field, &path.field(own));
        if *field == "local" && !spec.has("nodeAffinity") {
            checker.required(&path.field("nodeAffinity"), "Local volume requires node affinity");
        }
        if *field == "iscsi"
            && let Some(iscsi) = spec.get("iscsi")
            && iscsi.has("initiatorName")
            && name.len() + 1 + iscsi.str("targetPortal").len() > 64
        {
            checker.invalid(
                &path.field("iscsi").field("targetportal"),
                "",
                "<volume name>:<iscsi.targetPortal> is too long",
            );
        }
    }
    if !found {
        checker.required(path, "must specify a volume type");
    }
    let root = spec
        .at(&["hostPath", "path"])
        .is_some_and(|own| own.as_str().trim_matches(['/', '.']).is_empty() && own.as_str().starts_with('/'));
    if root && spec.str("persistentVolumeReclaimPolicy") == "Recycle" {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        checker.forbidden(&path.field("persistentVolumeReclaimPolicy"), detail);
    }
}

fn attributes(checker: &mut Checker<'_>, spec: &Node<'_>, path: &Path<'_>) {
    let Some(class) = spec.get("volumeAttributesClassName").map(Node::as_str) else {
        return;
    };
    let at = path.field("volumeAttributesClassName");
    if class.is_empty() {
        checker.required(&at, "an empty string is disallowed");
    } else {
        checker.problems(&at, class, &format::subdomain(class));
    }
    if !spec.has("csi") {
        checker.required(
            &path.field("csi"),
            "has to be specified when using volumeAttributesClassName",
        );
    }
}

fn claim(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    access_modes(checker, node, path);
    let at = path.field("resources");
    let at = at.key("storage");
    match node
        .at(&["resources", "requests", "storage"])
        .map(|amount| Quantity::parse(amount.as_str()))
    {
        None => checker.required(&at, ""),
        Some(Ok(amount)) if amount.sign() <= 0 => {
            checker.invalid(&at, &amount.to_string(), "must be greater than zero");
        }
        Some(_) => {}
    }
    for field in ["storageClassName", "volumeAttributesClassName"] {
        if let Some(class) = node.get(field).map(Node::as_str).filter(|class| !class.is_empty()) {
            checker.problems(&path.field(field), class, &format::subdomain(class));
        }
    }
    if let (Some(source), Some(reference)) = (node.get("dataSource"), node.get("dataSourceRef")) {
        let same = ["apiGroup", "kind", "name"]
            .iter()
            .all(|field| source.str(field) == reference.str(field));
        if !same {
            checker.invalid(path, "dataSource", "must match dataSourceRef");
        }
    }
}

fn data_source(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    for field in ["name", "kind"] {
        if node.str(field).is_empty() {
            checker.required(&path.field(field), "");
        }
    }
    match node.str("apiGroup") {
        "" if node.str("kind") != "PersistentVolumeClaim" => {
            let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            checker.invalid(path, node.str("kind"), detail);
        }
        "" => {}
        group => checker.problems(&path.field("apiGroup"), group, &format::subdomain(group)),
    }
}

fn csi(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    volume::csi_driver(checker, node.str("driver"), &path.field("driver"));
    for field in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let Some(secret) = node.get(field) else { continue };
        let at = path.field(field);
        match secret.str("name") {
            "" => checker.required(&at.field("name"), ""),
            name => checker.problems(&at.field("name"), name, &format::subdomain(name)),
        }
        match secret.str("namespace") {
            "" => checker.required(&at.field("namespace"), ""),
            name => checker.problems(&at.field("namespace"), name, &format::label(name)),
        }
    }
}

fn local(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    match node.str("path") {
        "" => checker.required(&path.field("path"), ""),
        own => volume::no_dots(checker, own, &path.field("path")),
    }
}

fn glusterfs(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    if let Some(namespace) = node.get("endpointsNamespace").map(Node::as_str) {
        checker.problems(&path.field("endpointsNamespace"), namespace, &format::label(namespace));
    }
}

/// A provisioner or driver: a qualified name, ignoring case.
fn provisioner(checker: &mut Checker<'_>, name: &str, path: &Path<'_>) {
    if name.is_empty() {
        checker.required(path, "");
    } else {
        checker.problems(path, name, &format::qualified(&name.to_lowercase()));
    }
}

fn parameters(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let parameters = node.map("parameters");
    if parameters.len() > 512 {
        return checker.fail(path, Reason::TooLong, "may not be more than 512 bytes");
    }
    for (key, _) in parameters.iter().filter(|(key, _)| key.is_empty()) {
        checker.invalid(path, key, "field can not be empty.");
    }
}

fn storage_class(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    provisioner(checker, node.str("provisioner"), &path.field("provisioner"));
    parameters(checker, node, &path.field("parameters"));
    let path = path.field("allowedTopologies");
    let terms = node.list("allowedTopologies");
    for (index, term) in terms.iter().enumerate() {
        let path = path.index(index);
        let at = path.field("matchLabelExpressions");
        let expressions = term.list("matchLabelExpressions");
        for (index, own) in expressions.iter().enumerate() {
            let at = at.index(index);
            let values = own.list("values");
            if values.is_empty() {
                checker.required(&at.field("values"), "");
            }
            for (index, value) in values.iter().enumerate() {
                if values[..index].contains(value) {
                    checker.duplicate(&at.field("values").index(index), value.as_str());
                }
            }
            let key = own.str("key");
            checker.problems(&at.field("key"), key, &format::qualified(key));
            if expressions[..index].iter().any(|other| other.str("key") == key) {
                checker.duplicate(&at.field("key"), key);
            }
        }
        // Upstream compares each term with as many empty ones as there are terms, and with those before it.
        let copies = if expressions.is_empty() { terms.len() } else { 0 };
        let before = terms[..index].iter().filter(|other| same_topology(other, term)).count();
        for _ in 0..copies + before {
            checker.duplicate(&at, "");
        }
    }
}

fn same_topology(a: &Node<'_>, b: &Node<'_>) -> bool {
    let set = |term: &Node<'_>| {
        let mut keys: Vec<(String, Vec<String>)> = term
            .list("matchLabelExpressions")
            .iter()
            .map(|own| {
                let mut values: Vec<String> = own
                    .list("values")
                    .iter()
                    .map(|value| value.as_str().to_owned())
                    .collect();
                values.sort();
                (own.str("key").to_owned(), values)
            })
            .collect();
        keys.sort();
        keys
    };
    set(a) == set(b)
}

fn csi_driver_spec(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    for mode in node.list("volumeLifecycleModes") {
        if !matches!(mode.as_str(), "Persistent" | "Ephemeral") {
            checker.unsupported(
                &path.field("volumeLifecycleModes"),
                mode.as_str(),
                &["Ephemeral", "Persistent"],
            );
        }
    }
    let requests = node.list("tokenRequests");
    let at = path.field("tokenRequests");
    for (index, request) in requests.iter().enumerate() {
        let at = at.index(index);
        if requests[..index]
            .iter()
            .any(|other| other.str("audience") == request.str("audience"))
        {
            checker.duplicate(&at.field("audience"), request.str("audience"));
            continue;
        }
        if let Some(seconds) = request
            .int("expirationSeconds")
            .filter(|own| !(600..=1 << 32).contains(own))
        {
            checker.invalid(
                &at.field("expirationSeconds"),
                &seconds.to_string(),
                "may not specify such a duration",
            );
        }
    }
    if node.has("serviceAccountTokenInSecrets") && requests.is_empty() {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        checker.invalid(&path.field("serviceAccountTokenInSecrets"), "", detail);
    }
    if let Some(period) = node
        .int("nodeAllocatableUpdatePeriodSeconds")
        .filter(|period| *period < 10)
    {
        let at = path.field("nodeAllocatableUpdatePeriodSeconds");
        checker.invalid(&at, &period.to_string(), "must be greater than or equal to 10 seconds");
    }
}

fn csi_node(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let path = path.field("drivers");
    let drivers = node.list("drivers");
    for (index, driver) in drivers.iter().enumerate() {
        let path = path.index(index);
        let name = driver.str("name");
        volume::csi_driver(checker, name, &path.field("name"));
        match driver.str("nodeID") {
            "" => checker.required(&path.field("nodeID"), ""),
            id if id.len() > 256 => checker.invalid(&path.field("nodeID"), id, "must be 256 characters or less"),
            _ => {}
        }
        if let Some(count) = driver
            .get("allocatable")
            .and_then(|own| own.int("count"))
            .filter(|count| *count < 0)
        {
            let at = path.field("allocatable");
            checker.invalid(
                &at.field("count"),
                &count.to_string(),
                "must be greater than or equal to 0",
            );
        }
        if drivers[..index].iter().any(|other| other.str("name") == name) {
            checker.duplicate(&path.field("name"), name);
        }
        let keys = driver.list("topologyKeys");
        for (index, key) in keys.iter().enumerate() {
            if key.is_empty() {
                checker.required(&path, "");
            }
            if keys[..index].contains(key) {
                checker.duplicate(&path, key.as_str());
            }
            checker.problems(&path, key.as_str(), &format::qualified(key.as_str()));
        }
    }
}

fn capacity(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let class = node.str("storageClassName");
    checker.problems(&path.field("storageClassName"), class, &format::subdomain(class));
    if Quantity::parse(node.str("capacity")).is_ok_and(|amount| amount.sign() < 0) {
        checker.invalid(
            &path.field("capacity"),
            node.str("capacity"),
            "must be greater than or equal to 0",
        );
    }
}

fn attachment(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    volume::csi_driver(checker, node.str("attacher"), &path.field("attacher"));
    let name = node.str("nodeName");
    checker.problems(&path.field("nodeName"), name, &format::subdomain(name));
    let path = path.field("source");
    let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let Some(source) = node.get("source") else { return };
    let volume = source.get("persistentVolumeName").map(Node::as_str);
    match (source.get("inlineVolumeSpec"), volume) {
        (None, None) => checker.required(&path, detail),
        (Some(_), Some(_)) => checker.forbidden(&path, detail),
        (None, Some(name)) => {
            if name.is_empty() {
                checker.required(
                    &path.field("persistentVolumeName"),
                    "must specify non empty persistentVolumeName",
                );
            }
        }
        (Some(spec), None) => volume_spec(checker, spec, "", true, &path.field("inlineVolumeSpec")),
    }
    if let Some(name) = volume {
        checker.problems(&path.field("persistentVolumeName"), name, &format::subdomain(name));
    }
}

fn attributes_class(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    provisioner(checker, node.str("driverName"), &path.field("driverName"));
    parameters(checker, node, &path.field("parameters"));
    if node.map("parameters").is_empty() {
        checker.required(&path.field("parameters"), "must contain at least one key/value pair");
    }
}
