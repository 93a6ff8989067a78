//! Volumes of pods, and the sources that persistent volumes share with them.
//!
//! Upstream counterpart: `validateVolumeSource` and its helpers in `pkg/apis/core/validation/validation.go`.

use kyvtest_go_compat::text::quantity::Quantity;

use super::{Checker, Path, TypeCheck, format};
use crate::node::Node;

pub(super) fn check(name: &str) -> Option<TypeCheck> {
    Some(match name {
        "core.v1.HostPathVolumeSource" => host_path,
        "core.v1.EmptyDirVolumeSource" => empty_dir,
        "core.v1.ISCSIVolumeSource" => iscsi,
        "core.v1.ISCSIPersistentVolumeSource" => iscsi_persistent,
        "core.v1.FCVolumeSource" => fibre_channel,
        "core.v1.NFSVolumeSource" => nfs,
        "core.v1.QuobyteVolumeSource" => quobyte,
        "core.v1.FlockerVolumeSource" => flocker,
        "core.v1.KeyToPath" => key_to_path,
        "core.v1.DownwardAPIVolumeSource" => downward_source,
        "core.v1.ProjectedVolumeSource" => projected,
        "core.v1.FlexVolumeSource" | "core.v1.FlexPersistentVolumeSource" => flex,
        "core.v1.AzureDiskVolumeSource" => azure_disk,
        "core.v1.CSIVolumeSource" => csi,
        "core.v1.ImageVolumeSource" => image,
        _ => return None,
    })
}

/// Sources of volumes in upstream's order: field, name in "more than one" errors, name in other errors.
pub(super) const SOURCES: &[(&str, &str, &str)] = &[
    ("hostPath", "hostPath", "hostPath"),
    ("gitRepo", "gitRepo", "gitRepo"),
    ("gcePersistentDisk", "gcePersistentDisk", "persistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore"),
    ("secret", "secret", "secret"),
    ("nfs", "nfs", "nfs"),
    ("iscsi", "iscsi", "iscsi"),
    ("glusterfs", "glusterfs", "glusterfs"),
    ("flocker", "flocker", "flocker"),
    (
        "persistentVolumeClaim",
        "persistentVolumeClaim",
        "persistentVolumeClaim",
    ),
    ("rbd", "rbd", "rbd"),
    ("cinder", "cinder", "cinder"),
    ("cephfs", "cephFS", "cephfs"),
    ("quobyte", "quobyte", "quobyte"),
    ("downwardAPI", "downwarAPI", "downwardAPI"),
    ("fc", "fc", "fc"),
    ("flexVolume", "flexVolume", "flexVolume"),
    ("configMap", "configMap", "configMap"),
    ("azureFile", "azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk", "azureDisk"),
    ("storageos", "storageos", "storageos"),
    ("projected", "projected", "projected"),
    ("scaleIO", "scaleIO", "scaleIO"),
    ("csi", "csi", "csi"),
    ("ephemeral", "ephemeral", "ephemeral"),
    ("image", "image", "image"),
];

/// Checks the volumes of a pod and remembers the valid ones.
pub(super) fn volumes(checker: &mut Checker<'_>, spec: &Node<'_>, metadata: Option<&Node<'_>>, path: &Path<'_>) {
    let path = path.field("volumes");
    let pod = metadata.map_or("", |metadata| metadata.str("name"));
    let volumes = spec.list("volumes");
    checker.volumes.clear();
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index);
        let before = checker.errors.len();
        source(checker, volume, pod, &path);
        let name = volume.str("name");
        if name.is_empty() {
            checker.required(&path.field("name"), "");
        } else {
            checker.problems(&path.field("name"), name, &format::label(name));
        }
        if checker.volumes.iter().any(|(known, _)| known == name) {
            checker.duplicate(&path.field("name"), name);
        }
        if checker.errors.len() == before {
            let block = volume.has("persistentVolumeClaim") || volume.has("ephemeral");
            checker.volumes.push((name.to_owned(), block));
        }
        let claim = volume
            .at(&["persistentVolumeClaim", "claimName"])
            .map_or("", Node::as_str);
        let created = |other: &Node<'_>| other.has("ephemeral") && format!("{pod}-{}", other.str("name")) == claim;
        if !claim.is_empty() && !pod.is_empty() && volumes.iter().any(created) {
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            checker.invalid(&path.field("persistentVolumeClaim").field("claimName"), claim, detail);
        }
    }
}

fn source(checker: &mut Checker<'_>, volume: &Node<'_>, pod: &str, path: &Path<'_>) {
    let mut found = volume.has("emptyDir");
    checker.field_as("core.v1.Volume", volume, "emptyDir", &path.field("emptyDir"));
    for (field, forbidden, name) in SOURCES {
        if !volume.has(field) {
            continue;
        }
        if found {
            checker.forbidden(&path.field(forbidden), "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        checker.field_as("core.v1.Volume", volume, field, &path.field(name));
        if *field == "ephemeral" && !pod.is_empty() && !volume.str("name").is_empty() {
            let claim = format!("{pod}-{}", volume.str("name"));
            checker.problems(&path.field("name"), volume.str("name"), &format::subdomain(&claim));
        }
    }
    if let Some(iscsi) = volume.get("iscsi")
        && iscsi.has("initiatorName")
        && volume.str("name").len() + 1 + iscsi.str("targetPortal").len() > 64
    {
        checker.invalid(
            &path.field("name"),
            volume.str("name"),
            "<volume name>:<iscsi.targetPortal> is too long",
        );
    }
    if !found {
        checker.required(path, "must specify a volume type");
    }
}

pub(super) fn no_dots(checker: &mut Checker<'_>, text: &str, path: &Path<'_>) {
    if text.split('/').any(|part| part == "..") {
        checker.invalid(path, text, "must not contain '..'");
    }
}

/// A relative path without `..` that does not start with two dots.
pub(super) fn non_reserved(checker: &mut Checker<'_>, text: &str, path: &Path<'_>) {
    if text.starts_with('/') {
        checker.invalid(path, text, "must be a relative path");
    }
    no_dots(checker, text, path);
    if text.starts_with("..") && !text.starts_with("../") && text != ".." {
        checker.invalid(path, text, "must not start with '..'");
    }
}

fn mode(checker: &mut Checker<'_>, node: &Node<'_>, field: &str, path: &Path<'_>) {
    if let Some(mode) = node.int(field).filter(|mode| !(0..=0o777).contains(mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        checker.invalid(&path.field(field), &mode.to_string(), detail);
    }
}

fn host_path(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    const TYPES: &[&str] = &[
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    let own = node.str("path");
    if own.is_empty() {
        return checker.required(&path.field("path"), "");
    }
    no_dots(checker, own, &path.field("path"));
    if !TYPES.contains(&node.str("type")) {
        checker.unsupported(&path.field("type"), node.str("type"), TYPES);
    }
}

fn empty_dir(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    if Quantity::parse(node.str("sizeLimit")).is_ok_and(|limit| limit.sign() < 0) {
        checker.forbidden(
            &path.field("sizeLimit"),
            "SizeLimit field must be a valid resource quantity",
        );
    }
}

fn iscsi(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let format = |name: &str| match name.get(..3) {
        Some("iqn") => is_iqn(name),
        Some("eui") => {
            name.len() == 20 && name[3..].starts_with('.') && name[4..].bytes().all(|b| b.is_ascii_hexdigit())
        }
        Some("naa") => {
            matches!(name.len(), 20 | 36)
                && name[3..].starts_with('.')
                && name[4..].bytes().all(|b| b.is_ascii_hexdigit())
        }
        _ => false,
    };
    if node.str("targetPortal").is_empty() {
        checker.required(&path.field("targetPortal"), "");
    }
    match node.str("iqn") {
        "" => checker.required(&path.field("iqn"), ""),
        name if !format(name) => checker.invalid(&path.field("iqn"), name, "must be valid format"),
        _ => {}
    }
    if let Some(lun) = node.int("lun").filter(|lun| !(0..=255).contains(lun)) {
        checker.invalid(
            &path.field("lun"),
            &lun.to_string(),
            "must be between 0 and 255, inclusive",
        );
    }
    if (node.bool("chapAuthDiscovery") || node.bool("chapAuthSession")) && !node.has("secretRef") {
        checker.required(&path.field("secretRef"), "");
    }
    if let Some(name) = node.get("initiatorName").map(Node::as_str).filter(|name| !format(name)) {
        checker.invalid(&path.field("initiatorname"), name, "must be valid format");
    }
}

fn iscsi_persistent(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    iscsi(checker, node, path);
    if node
        .get("secretRef")
        .is_some_and(|secret| secret.str("name").is_empty())
    {
        checker.required(&path.field("secretRef").field("name"), "");
    }
}

/// `iqn.YYYY-MM.reversed.domain[:name]`
fn is_iqn(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("iqn.") else {
        return false;
    };
    let bytes = rest.as_bytes();
    let digits =
        |range: std::ops::Range<usize>| bytes.get(range).is_some_and(|part| part.iter().all(u8::is_ascii_digit));
    let domain = rest.get(8..).unwrap_or_default().split(':').next().unwrap_or_default();
    digits(0..4)
        && bytes.get(4) == Some(&b'-')
        && digits(5..7)
        && bytes.get(7) == Some(&b'.')
        && domain.contains('.')
        && domain
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
}

fn fibre_channel(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let (names, ids) = (!node.list("targetWWNs").is_empty(), !node.list("wwids").is_empty());
    let target = path.field("targetWWNs");
    if !names && !ids {
        checker.required(&target, "must specify either targetWWNs or wwids, but not both");
    }
    if names && ids {
        checker.invalid(&target, "", "targetWWNs and wwids can not be specified simultaneously");
    }
    if names {
        match node.int("lun") {
            None => checker.required(&path.field("lun"), "lun is required if targetWWNs is specified"),
            Some(lun) if !(0..=255).contains(&lun) => {
                checker.invalid(
                    &path.field("lun"),
                    &lun.to_string(),
                    "must be between 0 and 255, inclusive",
                );
            }
            _ => {}
        }
    }
}

fn nfs(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    for field in ["server", "path"] {
        if node.str(field).is_empty() {
            checker.required(&path.field(field), "");
        }
    }
    if !node.str("path").starts_with('/') {
        checker.invalid(&path.field("path"), node.str("path"), "must be an absolute path");
    }
}

fn quobyte(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let detail = "must be a host:port pair or multiple pairs separated by commas";
    let registry = node.str("registry");
    if registry.is_empty() {
        checker.required(&path.field("registry"), detail);
    } else if node.str("tenant").len() >= 65 {
        checker.required(
            &path.field("tenant"),
            "must be a UUID and may not exceed a length of 64 characters",
        );
    } else {
        for pair in registry.split(',') {
            if !pair
                .rsplit_once(':')
                .is_some_and(|(host, _)| host.starts_with('[') || !host.contains(':'))
            {
                checker.invalid(&path.field("registry"), registry, detail);
            }
        }
    }
    if node.str("volume").is_empty() {
        checker.required(&path.field("volume"), "");
    }
}

fn flocker(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let (name, id) = (node.str("datasetName"), node.str("datasetUUID"));
    match (name.is_empty(), id.is_empty()) {
        (true, true) => checker.required(path, "one of datasetName and datasetUUID is required"),
        (false, false) => checker.invalid(
            path,
            "resource",
            "datasetName and datasetUUID can not be specified simultaneously",
        ),
        _ => {}
    }
    if name.contains('/') {
        checker.invalid(&path.field("datasetName"), name, "must not contain '/'");
    }
}

fn key_to_path(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    for field in ["key", "path"] {
        if node.str(field).is_empty() {
            checker.required(&path.field(field), "");
        }
    }
    non_reserved(checker, node.str("path"), &path.field("path"));
    mode(checker, node, "mode", path);
}

fn downward_source(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    mode(checker, node, "defaultMode", path);
    for file in node.list("items") {
        downward_file(checker, file, path);
    }
}

fn downward_file(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    if node.str("path").is_empty() {
        checker.required(&path.field("path"), "");
    }
    non_reserved(checker, node.str("path"), &path.field("path"));
    match (node.get("fieldRef"), node.get("resourceFieldRef")) {
        (Some(field), resource) => {
            super::pod_parts::field_ref(checker, field, true, &path.field("fieldRef"));
            if resource.is_some() {
                checker.invalid(
                    path,
                    "resource",
                    "fieldRef and resourceFieldRef can not be specified simultaneously",
                );
            }
        }
        (None, Some(resource)) => {
            super::pod_parts::resource_field_ref(checker, resource, true, &path.field("resourceFieldRef"));
        }
        (None, None) => checker.required(path, "one of fieldRef and resourceFieldRef is required"),
    }
    mode(checker, node, "mode", path);
}

fn projected(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    mode(checker, node, "defaultMode", path);
    let mut paths: Vec<&str> = Vec::new();
    let sources = path.field("sources");
    for (index, source) in node.list("sources").iter().enumerate() {
        let own = sources.index(index);
        let mut count = 0;
        for field in ["secret", "configMap"] {
            let Some(projection) = source.get(field) else { continue };
            count += 1;
            let at = own.field(field);
            if projection.str("name").is_empty() {
                checker.required(&at.field("name"), "");
            }
            for (index, item) in projection.list("items").iter().enumerate() {
                key_to_path(checker, item, &at.field("items").index(index));
                unique_path(checker, item.str("path"), &mut paths, path);
            }
        }
        if let Some(projection) = source.get("downwardAPI") {
            count += 1;
            for item in projection.list("items") {
                downward_file(checker, item, &own.field("downwardAPI"));
                unique_path(checker, item.str("path"), &mut paths, path);
            }
        }
        if let Some(token) = source.get("serviceAccountToken") {
            count += 1;
            let seconds = token.int("expirationSeconds").unwrap_or(0);
            if !(600..=1 << 32).contains(&seconds) {
                let at = own.field("serviceAccountToken");
                checker.invalid(
                    &at.field("expirationSeconds"),
                    &seconds.to_string(),
                    "may not specify such a duration",
                );
            }
            match token.str("path") {
                "" => checker.required(&path.field("path"), ""),
                own => non_reserved(checker, own, &path.field("path")),
            }
        }
        if count > 1 {
            checker.forbidden(&own, "may not specify more than 1 volume type per source");
        }
    }
}

fn unique_path<'n>(checker: &mut Checker<'_>, own: &'n str, paths: &mut Vec<&'n str>, path: &Path<'_>) {
    if own.is_empty() {
        return;
    }
    if paths.contains(&own) {
        checker.invalid(path, own, "conflicting duplicate paths");
    }
    paths.push(own);
}

fn flex(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    if node.str("driver").is_empty() {
        checker.required(&path.field("driver"), "");
    }
    for (key, _) in node.map("options") {
        let domain = format!(".{}", key.split('/').next().unwrap_or_default().to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            checker.invalid(
                &path.field("options").key(key),
                key,
                "kubernetes.io and k8s.io namespaces are reserved",
            );
        }
    }
}

fn azure_disk(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let disk = node.str("diskURI");
    for field in ["diskName", "diskURI"] {
        if node.str(field).is_empty() {
            checker.required(&path.field(field), "");
        }
    }
    let managed = node.str("kind") == "Managed";
    let prefix = if managed { "/subscriptions/" } else { "https://" };
    if node.has("kind") && !disk.starts_with(prefix) {
        checker.unsupported(&path.field("diskURI"), disk, &[prefix]);
    }
}

pub(super) fn csi_driver(checker: &mut Checker<'_>, driver: &str, path: &Path<'_>) {
    if driver.is_empty() {
        return checker.required(path, "");
    }
    if driver.len() > 63 {
        checker.fail(path, crate::Reason::TooLong, "may not be more than 63 bytes");
    }
    checker.problems(path, driver, &format::subdomain(&driver.to_lowercase()));
}

fn csi(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    csi_driver(checker, node.str("driver"), &path.field("driver"));
    if let Some(secret) = node.get("nodePublishSecretRef") {
        match secret.str("name") {
            "" => checker.required(&path.field("nodePublishSecretRef").field("name"), ""),
            name => checker.problems(&path.field("name"), name, &format::subdomain(name)),
        }
    }
}

fn image(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    if checker.is_pod && node.str("reference").is_empty() {
        checker.required(&path.field("reference"), "");
    }
}
