//! What became of images, as annotations carry it from the verification to the checks.
//!
//! Upstream counterpart: `pkg/engine/api/imageverifymetadata.go` (1.19).

use std::collections::BTreeMap;

use crate::generate::object::set;
use kyvtest_go_compat::value::{Data, go_json};
use kyvtest_model::verdict::Status;
use serde_json::{Value as Json, json};

pub(super) const ANNOTATION: &str = "kyverno.io/verify-images";
pub(super) const SCOPED: &str = "kyverno.io/verify-images-scoped";

type Scoped = BTreeMap<String, BTreeMap<String, BTreeMap<String, String>>>;

/// The verified images of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    images: BTreeMap<String, String>,
    /// By policy (`namespace/name`), rule and image.
    scoped: Scoped,
}

/// The word for a rule's status.
pub(super) const fn word(status: Status) -> &'static str {
    match status {
        Status::Pass => "pass",
        Status::Skip => "skip",
        _ => "fail",
    }
}

impl Metadata {
    /// Notes an image for its policy and rule.
    pub(super) fn add(&mut self, (namespace, policy, rule): (&str, &str, &str), image: &str, word: &str) {
        self.images.insert(image.to_owned(), word.to_owned());
        let rules = self.scoped.entry(format!("{namespace}/{policy}")).or_default();
        let images = rules.entry(rule.to_owned()).or_default();
        images.insert(image.to_owned(), word.to_owned());
    }

    /// Whether nothing was verified.
    pub(crate) fn is_empty(&self) -> bool {
        self.images.is_empty() && self.scoped.is_empty()
    }

    /// Writes the annotations into an object.
    pub(crate) fn annotate(&self, object: &mut Data) {
        let annotations = ["metadata", "annotations"];
        if object
            .at(&annotations)
            .and_then(Data::as_map)
            .is_none_or(BTreeMap::is_empty)
        {
            set(object, &annotations, Data::Map(std::sync::Arc::default()));
        }
        let mut add = |key: &str, value: String| set(object, &["metadata", "annotations", key], value.into());
        add(ANNOTATION, json!(self.images).to_string());
        if !self.scoped.is_empty() {
            let scoped = json!(self.scoped);
            add(SCOPED, format!("{{\"version\":1,\"policies\":{scoped}}}"));
        }
    }
}

/// The status that an annotation has for an image: any text, `fail` if there is none.
///
/// # Errors
/// If the annotation cannot be read.
pub(super) fn status(
    annotation: &str,
    (namespace, policy, rule): (&str, &str, &str),
    image: &str,
) -> Result<String, String> {
    let parsed = go_json::read(annotation)?.root().to_serde();
    let policies = parsed.get("policies").and_then(Json::as_object);
    let scoped = policies.filter(|_| parsed.get("version").and_then(Json::as_f64) == Some(1.0));
    let is_scoped = scoped.is_some_and(|policies| {
        policies.values().all(|rules| {
            let rules = rules.as_object().map(serde_json::Map::values);
            let mut rules = rules.into_iter().flatten();
            rules.all(|images| {
                let images = images.as_object().map(serde_json::Map::values);
                images.into_iter().flatten().all(Json::is_string)
            })
        })
    });
    if is_scoped {
        let key = format!("{namespace}/{policy}");
        let found = scoped
            .and_then(|policies| policies.get(&key)?.get(rule)?.get(image))
            .and_then(Json::as_str);
        return Ok(found.unwrap_or("fail").to_owned());
    }
    // The older form has no policies, so that no image is verified by it.
    let Some(images) = parsed.as_object() else {
        if parsed.is_null() {
            return Ok("fail".to_owned());
        }
        let found = json_type(&parsed);
        return Err(format!(
            "json: cannot unmarshal {found} into Go value of type map[string]api.ImageVerificationMetadataStatus"
        ));
    };
    match images.values().find(|value| !value.is_string() && !value.is_null()) {
        Some(other) => Err(format!(
            "json: cannot unmarshal {} into Go value of type api.ImageVerificationMetadataStatus",
            json_type(other)
        )),
        None => Ok("fail".to_owned()),
    }
}

fn json_type(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}
