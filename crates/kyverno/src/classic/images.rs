//! The images of a resource, as the variable `images` has them.
//!
//! Upstream counterpart: `pkg/utils/api/image.go`, `pkg/engine/context/context.go` (`convertImagesToUnstructured`). Images of
//! other kinds than Pods and their controllers need extractors, which only `verifyImages` rules have.

use std::{collections::BTreeMap, sync::Arc};

use kyvtest_go_compat::{text::image_info::ImageInfo, value::Data};

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Where the Pod of a kind is.
pub(crate) fn pod_path(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "Pod" => &["spec"],
        "DaemonSet" | "Deployment" | "ReplicaSet" | "ReplicationController" | "StatefulSet" | "Job" => {
            &["spec", "template", "spec"]
        }
        "CronJob" => &["spec", "jobTemplate", "spec", "template", "spec"],
        _ => return None,
    })
}

/// The images of a resource by kind of container and by name; null where it has none.
///
/// # Errors
/// If an image is invalid, or a container is not a map or has no name, with upstream's message.
pub fn images(resource: &Data) -> Result<Data, String> {
    let kind = resource.get("kind").and_then(Data::as_str).unwrap_or_default();
    let Some(path) = pod_path(kind) else {
        return Ok(Data::Null);
    };
    let mut all: BTreeMap<Arc<str>, Data> = BTreeMap::new();
    for list in CONTAINERS {
        let found = containers(resource, path, list)?;
        if !found.is_empty() {
            all.insert(list.into(), Data::Map(Arc::new(found)));
        }
    }
    Ok(if all.is_empty() {
        Data::Null
    } else {
        Data::Map(Arc::new(all))
    })
}

fn containers(resource: &Data, path: &[&str], list: &str) -> Result<BTreeMap<Arc<str>, Data>, String> {
    let mut found = BTreeMap::new();
    let mut at = resource;
    let mut pointer = String::new();
    for field in path.iter().copied().chain([list]) {
        let entries = at.as_map().ok_or("invalid image config")?;
        match entries.get(field) {
            None | Some(Data::Null) => return Ok(found),
            Some(inner) => at = inner,
        }
        pointer.push('/');
        pointer.push_str(field);
    }
    for (place, container) in children(at)? {
        let container = match container {
            Data::Null => continue,
            Data::Map(container) => container,
            _ => return Err("invalid image config".to_owned()),
        };
        let Some(Data::String(name)) = container.get("name") else {
            return Err("invalid key".to_owned());
        };
        let image = match container.get("image") {
            Some(Data::String(image)) if !image.trim().is_empty() => image,
            _ => continue,
        };
        let info = ImageInfo::parse(image).map_err(|error| format!("invalid image '{image}' ({error})"))?;
        found.insert(name.clone(), describe(&info, &format!("{pointer}/{place}/image")));
    }
    Ok(found)
}

/// The parts of an image; those that may be left out are where they are empty.
fn describe(info: &ImageInfo, pointer: &str) -> Data {
    let always = [
        ("name", info.name.as_str()),
        ("path", &info.path),
        ("jsonPointer", pointer),
    ];
    let optional = [
        ("registry", info.registry.as_str()),
        ("tag", &info.tag),
        ("digest", &info.digest),
        ("reference", &info.reference),
        ("referenceWithTag", &info.reference_with_tag),
    ];
    always
        .into_iter()
        .chain(optional.into_iter().filter(|(_, text)| !text.is_empty()))
        .map(|(key, text)| (Arc::from(key), Data::from(text)))
        .collect()
}

/// The items of a list or the values of a map, each with its step in a path.
///
/// # Errors
/// Upstream's message for another value.
pub(crate) fn children(at: &Data) -> Result<Vec<(String, &Data)>, String> {
    match at {
        Data::List(items) => Ok(items
            .iter()
            .enumerate()
            .map(|(i, item)| (i.to_string(), item))
            .collect()),
        Data::Map(entries) => Ok(entries.iter().map(|(key, item)| (key.to_string(), item)).collect()),
        _ => Err("invalid type".to_owned()),
    }
}
