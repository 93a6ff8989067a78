//! The images of a resource, found in well-known places or by a rule's own extractors.
//!
//! Upstream counterpart: `pkg/utils/api/image.go` (1.19).

use std::collections::BTreeMap;

use kyvtest_go_compat::{text::image_info::ImageInfo, value::Data};
use kyvtest_jmespath as jmespath;

use crate::classic::images::children;

/// An image of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundImage {
    /// The reference in full: `docker.io/nginx:latest`.
    pub(crate) reference: String,
    pub(crate) digest: String,
    /// Registry and path, without tag and digest.
    pub(crate) repository: String,
    /// The keys and numbers that lead to the image.
    pub(crate) pointer: Vec<String>,
}

/// The extractors of a rule, by kind.
#[derive(Debug, Clone)]
pub(crate) struct Extractors(BTreeMap<String, Vec<Extractor>>);

#[derive(Debug, Clone)]
struct Extractor {
    path: String,
    value: String,
    key: String,
    jmes_path: String,
}

impl Extractors {
    pub(crate) fn read(block: &Data) -> Self {
        let text = |entry: &Data, key: &str| entry.get(key).and_then(Data::as_str).unwrap_or_default().to_owned();
        let kinds = block.as_map().into_iter().flatten();
        let kinds = kinds.map(|(kind, list)| {
            let list = list.as_list().unwrap_or_default().iter();
            let list = list.map(|entry| Extractor {
                path: text(entry, "path"),
                value: text(entry, "value"),
                key: text(entry, "key"),
                jmes_path: text(entry, "jmesPath"),
            });
            (kind.to_string(), list.collect())
        });
        Self(kinds.collect())
    }
}

/// What is looked for in a resource.
struct Search<'s> {
    key: &'s str,
    value: &'s str,
    jmes_path: &'s str,
    found: BTreeMap<String, FoundImage>,
}

/// The images of a resource, by list and key.
///
/// # Errors
/// The outer one is what upstream panics about, the inner one its error.
pub(crate) fn images(
    resource: &Data,
    extractors: Option<&Extractors>,
) -> Result<Result<Vec<FoundImage>, String>, String> {
    let kind = resource.get("kind").and_then(Data::as_str).unwrap_or_default();
    let own = extractors.and_then(|extractors| extractors.0.get(kind));
    if own.is_some_and(Vec::is_empty) {
        return Ok(Err(format!("no extractors found for {kind}")));
    }
    let mut all = Vec::new();
    match own {
        Some(own) => {
            for extractor in own {
                let mut fields: Vec<&str> = extractor.path.split('/').map(|field| field.trim_matches(' ')).collect();
                fields.retain(|field| !field.is_empty());
                let value = if extractor.value.is_empty() {
                    match fields.pop() {
                        Some(last) => last,
                        None => return Err("runtime error: index out of range [-1]".to_owned()),
                    }
                } else {
                    extractor.value.as_str()
                };
                let mut search = Search {
                    key: &extractor.key,
                    value,
                    jmes_path: &extractor.jmes_path,
                    found: BTreeMap::new(),
                };
                if let Err(error) = search.walk(resource, &mut Vec::new(), &fields) {
                    return Ok(Err(error));
                }
                all.extend(search.found.into_values());
            }
        }
        None => {
            let Some(pod) = crate::classic::images::pod_path(kind) else {
                return Ok(Ok(all));
            };
            for list in ["initContainers", "containers", "ephemeralContainers"] {
                let fields: Vec<&str> = pod.iter().copied().chain([list, "*"]).collect();
                let mut search = Search {
                    key: "name",
                    value: "image",
                    jmes_path: "",
                    found: BTreeMap::new(),
                };
                if let Err(error) = search.walk(resource, &mut Vec::new(), &fields) {
                    return Ok(Err(error));
                }
                all.extend(search.found.into_values());
            }
        }
    }
    Ok(Ok(all))
}

impl Search<'_> {
    fn walk(&mut self, at: &Data, path: &mut Vec<String>, fields: &[&str]) -> Result<(), String> {
        if at.is_null() {
            return Ok(());
        }
        if let Some(("*", rest)) = fields.split_first().map(|(first, rest)| (*first, rest)) {
            for (step, item) in children(at)? {
                path.push(step);
                self.walk(item, path, rest)?;
                path.pop();
            }
            return Ok(());
        }
        let Some(map) = at.as_map() else {
            return Err("invalid image config".to_owned());
        };
        let Some((first, rest)) = fields.split_first() else {
            return self.image(at, path);
        };
        path.push((*first).to_owned());
        let walked = match map.get(*first) {
            Some(inner) => self.walk(inner, path, rest),
            None => Ok(()),
        };
        path.pop();
        walked
    }

    fn image(&mut self, at: &Data, path: &[String]) -> Result<(), String> {
        let mut key = format!("/{}/{}", path.join("/"), self.value);
        if !self.key.is_empty() {
            match at.get(self.key) {
                Some(Data::String(text)) => key = text.to_string(),
                _ => return Err("invalid key".to_owned()),
            }
        }
        let Some(written) = at
            .get(self.value)
            .and_then(Data::as_str)
            .filter(|text| !text.trim().is_empty())
        else {
            return Ok(());
        };
        let mut image = written.to_owned();
        if !self.jmes_path.is_empty() {
            let query = self.jmes_path;
            let found = jmespath::search(query, &Data::from(written), &jmespath::Context::default())
                .map_err(|error| format!("failed to apply jmespath {query}: {error}"))?;
            let Data::String(text) = &found else {
                let found = found.to_go();
                return Err(format!("jmespath {query} must produce a string, but produced {found}"));
            };
            image = text.to_string();
        }
        let info = ImageInfo::parse(&image).map_err(|error| format!("invalid image '{image}' ({error})"))?;
        let repository = match info.registry.as_str() {
            "" => info.path.clone(),
            registry => format!("{registry}/{}", info.path),
        };
        let pointer = path.iter().cloned().chain([self.value.to_owned()]);
        let found = FoundImage {
            reference: info.reference,
            digest: info.digest,
            repository,
            pointer: pointer.collect(),
        };
        self.found.insert(key, found);
        Ok(())
    }
}
