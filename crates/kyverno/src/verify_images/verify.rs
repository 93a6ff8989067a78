//! The verification of one rule's images.
//!
//! Upstream counterpart: `Verify` of `pkg/engine/internal/imageverifier.go` (1.19), texts included.

use super::{
    Evaluation, ImagePatch, ImageRegistry, ImageResult, ImageRuleType, RegistryError, Verified,
    extract::FoundImage,
    flag,
    metadata::{SCOPED, status, word},
    references, refers, texts,
};
use crate::{
    attestor::{AttestorSet, form},
    classic::{context::Context, variables::substitute_all},
    response::RuleResponse,
};
use kyvtest_go_compat::value::Data;
use kyvtest_model::{kube::Operation, verdict::Status};

fn sets<'d>(entry: &'d Data, name: &str) -> &'d [Data] {
    entry.get(name).and_then(Data::as_list).unwrap_or_default()
}

/// The attestors of an entry; a key in the older form is one.
fn attestors(entry: &Data) -> Vec<Data> {
    let mut all = sets(entry, "attestors").to_vec();
    let text = |key: &str| entry.get(key).and_then(Data::as_str).filter(|text| !text.is_empty());
    let form: Option<Data> = if let Some(key) = text("key") {
        let keys: Data = [("publicKeys".into(), key.into())].into_iter().collect();
        Some([("keys".into(), keys)].into_iter().collect())
    } else {
        text("issuer").map(|issuer| {
            let keyless: Data = [("issuer".into(), issuer.into())].into_iter().collect();
            [("keyless".into(), keyless)].into_iter().collect()
        })
    };
    if let Some(attestor) = form.filter(|_| sets(entry, "attestations").is_empty()) {
        let entries: Data = [attestor].into_iter().collect();
        all.push([("entries".into(), entries)].into_iter().collect());
    }
    all
}

impl Evaluation<'_> {
    fn place(&self) -> (&str, &str, &str) {
        (
            self.policy.namespace(),
            self.policy.policy.metadata.name.value.as_str(),
            self.rule.name.as_str(),
        )
    }

    pub(super) fn verify(
        &self,
        context: &mut Context<'_>,
        images: &[FoundImage],
        registry: &dyn ImageRegistry,
        verified: &mut Verified,
    ) -> Vec<ImageResult> {
        let result = |response: RuleResponse| (ImageRuleType::ImageVerify, response);
        let written: Data = self.rule.verify.iter().cloned().collect();
        let rule: Data = [("verifyImages".into(), written)].into_iter().collect();
        let rule = match substitute_all(&rule, context) {
            Ok(rule) => rule,
            Err(error) => {
                let text = format!("failed to substitute variables: {error}");
                return vec![result(self.respond(Status::Error, text))];
            }
        };
        let mut results = Vec::new();
        for entry in sets(&rule, "verifyImages") {
            for image in images {
                if self.was_verified(image) {
                    verified.metadata.add(self.place(), &image.reference, "pass");
                    continue;
                }
                let found = self.verify_image(entry, image, registry);
                let verifies = found.is_some();
                let (mut response, digest) = found.map_or((None, None), |(response, digest)| (Some(response), digest));
                let mut reference = image.reference.clone();
                if flag(entry, "mutateDigest") && image.digest.is_empty() {
                    match digest.map_or_else(|| registry.digest(&image.reference), Ok) {
                        Ok(digest) => {
                            verified.patches.push(ImagePatch {
                                pointer: image.pointer.clone(),
                                image: format!("{}@{digest}", image.reference),
                            });
                            reference = format!("{}@{digest}", image.repository);
                            response.get_or_insert_with(|| self.respond(Status::Pass, "mutated image digest"));
                        }
                        Err(RegistryError::Network(error) | RegistryError::Refused(error)) => {
                            let text = format!(
                                "failed to update digest: failed to fetch image reference: {}, error: {error}",
                                image.reference
                            );
                            results.push(result(self.respond(Status::Error, text)));
                        }
                    }
                }
                let Some(response) = response else { continue };
                if verifies {
                    verified.metadata.add(self.place(), &reference, word(response.status));
                }
                results.push(result(response));
            }
        }
        results
    }

    /// Whether an image that did not change was verified before.
    fn was_verified(&self, image: &FoundImage) -> bool {
        let request = self.input.request;
        if request.operation != Operation::Update {
            return false;
        }
        let annotation = Self::annotation(request.old_object.root(), SCOPED);
        let status = annotation.and_then(|annotation| status(&annotation, self.place(), &image.reference).ok());
        matches!(status.as_deref(), Some("pass" | "skip"))
    }

    /// Verifies one image, and returns its digest if the registry says it; `None` if the entry has nothing to verify.
    fn verify_image(
        &self,
        entry: &Data,
        image: &FoundImage,
        registry: &dyn ImageRegistry,
    ) -> Option<(RuleResponse, Option<String>)> {
        let attestors = attestors(entry);
        let attestations = sets(entry, "attestations");
        if attestors.is_empty() && attestations.is_empty() {
            return None;
        }
        let (_, policy, rule) = self.place();
        let reference = &image.reference;
        if !refers(&references(entry), reference) || refers(&texts(entry, "skipImageReferences"), reference) {
            let text = format!("skipping image reference image {reference}, policy {policy} ruleName {rule}");
            return Some((self.respond(Status::Skip, text), None));
        }
        let mut digest = None;
        let bundle = entry.get("type").and_then(Data::as_str) == Some("SigstoreBundle");
        for (i, set) in attestors.iter().enumerate() {
            let path = format!(".attestors[{i}]");
            let (status, error) = match verify_set(&AttestorSet::read(set), &path, (reference, bundle), registry) {
                Ok(found) => {
                    digest = Some(found);
                    continue;
                }
                Err(RegistryError::Network(error)) => (Status::Error, error),
                Err(RegistryError::Refused(error)) => (Status::Fail, error),
            };
            let text = format!("failed to verify image {reference}: {error}");
            return Some((self.respond(status, text), None));
        }
        if attestations.is_empty() {
            let text = format!("verified image signatures for {reference}");
            return Some((self.respond(Status::Pass, text), digest));
        }
        Some((self.attestations(attestations, (reference, bundle), registry), digest))
    }

    /// Verifies attestations, which fail whatever the reason is.
    fn attestations(
        &self,
        attestations: &[Data],
        (reference, bundle): (&str, bool),
        registry: &dyn ImageRegistry,
    ) -> RuleResponse {
        for (i, attestation) in attestations.iter().enumerate() {
            let text = |key: &str| attestation.get(key).and_then(Data::as_str).unwrap_or_default();
            if text("type").is_empty() && text("predicateType").is_empty() {
                return self.respond(Status::Fail, format!(".attestations[{i}]: missing type"));
            }
            let mut sets: Vec<AttestorSet> = sets(attestation, "attestors").iter().map(AttestorSet::read).collect();
            if sets.is_empty() {
                // An empty attestor allows fetching attestations.
                sets.push(AttestorSet {
                    required: 1,
                    entries: vec![Data::Map(std::sync::Arc::default())],
                });
            }
            let mut errors = Vec::new();
            for set in sets {
                let mut verified = 0;
                for entry in &set.entries {
                    match registry.verify(reference, entry, bundle) {
                        Ok(_) => verified += 1,
                        Err(RegistryError::Network(error) | RegistryError::Refused(error)) => errors.push(error),
                    }
                    if verified >= set.required {
                        break;
                    }
                }
                if verified < set.required {
                    let error = if errors.is_empty() {
                        "attestations verification failed".to_owned()
                    } else {
                        errors.join("; ")
                    };
                    let text = format!(
                        "image attestations verification failed, verifiedCount: {verified}, requiredCount: {}, error: {error}",
                        set.required
                    );
                    return self.respond(Status::Fail, text);
                }
            }
        }
        self.respond(Status::Pass, format!("verified image attestations for {reference}"))
    }
}

/// Verifies a set of attestors and returns the image's digest; nested sets count as one entry.
fn verify_set(
    set: &AttestorSet,
    path: &str,
    image: (&str, bool),
    registry: &dyn ImageRegistry,
) -> Result<String, RegistryError> {
    let (mut verified, mut errors, mut network) = (0, Vec::new(), false);
    for (i, entry) in set.entries.iter().enumerate() {
        let path = format!("{path}.entries[{i}]");
        let nested = entry.get("attestor").filter(|nested| !nested.is_null());
        let result = match nested {
            Some(nested) => verify_set(&AttestorSet::read(nested), &format!("{path}.attestor"), image, registry),
            None => {
                let named = |error: String| format!("{path}{}: {error}", form(entry));
                match registry.verify(image.0, entry, image.1) {
                    Ok(digest) => Ok(digest),
                    Err(RegistryError::Network(error)) => Err(RegistryError::Network(named(error))),
                    Err(RegistryError::Refused(error)) => Err(RegistryError::Refused(named(error))),
                }
            }
        };
        match result {
            Ok(digest) => {
                verified += 1;
                if verified >= set.required {
                    return Ok(digest);
                }
            }
            Err(RegistryError::Network(error)) => {
                network = true;
                errors.push(error);
            }
            Err(RegistryError::Refused(error)) => errors.push(error),
        }
    }
    let errors = errors.join("; ");
    Err(if network {
        RegistryError::Network(errors)
    } else {
        RegistryError::Refused(errors)
    })
}
