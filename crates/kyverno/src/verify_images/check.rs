//! The checks of one rule's images after the verification.
//!
//! Upstream counterpart: `pkg/engine/handlers/validation/validate_image.go` (1.19).

use super::{
    Evaluation, ImageResult, ImageRuleType,
    extract::FoundImage,
    flag,
    metadata::{SCOPED, status},
    references, refers,
};
use kyvtest_go_compat::value::Data;
use kyvtest_model::verdict::Status;

impl Evaluation<'_> {
    pub(super) fn check(&self, images: &[FoundImage]) -> ImageResult {
        let (mut skipped, mut passed) = (Vec::new(), 0);
        for entry in &self.rule.body.verify {
            let references = references(entry);
            for image in images.iter().filter(|image| refers(&references, &image.reference)) {
                match self.check_image(entry, image).as_deref() {
                    Ok("skip") => skipped.push(image.reference.as_str()),
                    Ok("pass") => passed += 1,
                    Ok(_) => {}
                    Err(error) => {
                        let failed = self.respond(Status::Fail, error.clone());
                        return (ImageRuleType::ImageVerify, failed);
                    }
                }
            }
        }
        let list = skipped.join(" ");
        let (status, message) = match (passed > 0, skipped.is_empty()) {
            (true, false) => (Status::Pass, format!("image verified, skipped images: {list}")),
            (_, true) => (Status::Pass, "image verified".to_owned()),
            (false, false) => (Status::Skip, format!("image skipped, skipped images: {list}")),
        };
        (ImageRuleType::ImageVerify, self.respond(status, message))
    }

    /// The word that the annotation has for an image; empty if the image need not be verified.
    fn check_image(&self, entry: &Data, image: &FoundImage) -> Result<String, String> {
        let reference = &image.reference;
        if flag(entry, "verifyDigest") && image.digest.is_empty() {
            return Err(format!("missing digest for {reference}"));
        }
        if !flag(entry, "required") {
            return Ok(String::new());
        }
        let Some(annotation) = Self::annotation(self.input.request.object.root(), SCOPED) else {
            return Err(format!("unverified image {reference}"));
        };
        let place = (
            self.policy.namespace(),
            self.policy.policy.metadata.name.value.as_str(),
            self.rule.name.as_str(),
        );
        let word = status(&annotation, place, reference)
            .map_err(|error| format!("failed to parse scoped image metadata: {error}"))?;
        if word == "fail" {
            return Err(format!("unverified image {reference}"));
        }
        Ok(word)
    }
}
