//! The verification of one rule's images.
//!
//! Upstream counterpart: `Verify` of `pkg/engine/internal/imageverifier.go` (1.19), texts included.

use super::{
    Evaluation, ImagePatch, ImageRegistry, ImageResult, ImageRuleType, RegistryError, Verification, Verified,
    attestation::Subject,
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
use kyvtest_go_compat::{text::image_info::ImageInfo, value::Data};
use kyvtest_model::{kube::Operation, verdict::Status};

pub(super) fn sets<'d>(entry: &'d Data, name: &str) -> &'d [Data] {
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
        let entries = match self.substituted(context) {
            Ok(entries) => entries,
            Err(error) => {
                let text = format!("failed to substitute variables: {error}");
                return vec![result(self.respond(Status::Error, text))];
            }
        };
        let mut results = Vec::new();
        for entry in &entries {
            for image in images {
                if self.was_verified(image) {
                    verified.metadata.add(self.place(), &image.reference, "pass");
                    continue;
                }
                let found = self.verify_image(entry, image, registry, context);
                let verifies = found.is_some();
                let (mut response, digest) = found.map_or((None, None), |(response, digest)| (Some(response), digest));
                let mut reference = image.reference.clone();
                let mut used = registry.take_use();
                if flag(entry, "mutateDigest") && image.digest.is_empty() {
                    let digest = digest.filter(|digest| !digest.is_empty());
                    let digest = digest.map_or_else(|| registry.digest(&image.reference), Ok);
                    let fetched = registry.take_use();
                    match digest {
                        Ok(digest) => {
                            used = used.max(fetched);
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
                            let mut failed = self.respond(Status::Error, text);
                            failed.registry = fetched;
                            results.push(result(failed));
                        }
                    }
                }
                let Some(mut response) = response else { continue };
                response.registry = used;
                if verifies {
                    verified.metadata.add(self.place(), &reference, word(response.status));
                }
                results.push(result(response));
            }
        }
        results
    }

    /// The entries with values in place of variables; conditions keep theirs until there is something to look at.
    fn substituted(&self, context: &mut Context<'_>) -> Result<Vec<Data>, String> {
        let written: Data = self.rule.body.verify.iter().map(without_conditions).collect();
        let rule: Data = [("verifyImages".into(), written)].into_iter().collect();
        let rule = substitute_all(&rule, context).map_err(|error| error.to_string())?;
        let entries = sets(&rule, "verifyImages").iter().zip(&self.rule.body.verify);
        Ok(entries
            .map(|(entry, written)| with_conditions(entry, written))
            .collect())
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

    /// Verifies one image and returns the digest from the registry, if any; `None` if the entry has nothing to verify.
    fn verify_image(
        &self,
        entry: &Data,
        image: &FoundImage,
        registry: &dyn ImageRegistry,
        context: &mut Context<'_>,
    ) -> Option<(RuleResponse, Option<String>)> {
        let attestors = attestors(entry);
        if attestors.is_empty() && sets(entry, "attestations").is_empty() {
            return None;
        }
        let (_, policy, rule) = self.place();
        let reference = &image.reference;
        add_image(reference, context);
        if !refers(&references(entry), reference) || refers(&texts(entry, "skipImageReferences"), reference) {
            let text = format!("skipping image reference image {reference}, policy {policy} ruleName {rule}");
            return Some((self.respond(Status::Skip, text), None));
        }
        let mut digest = None;
        let empty = Data::Map(std::sync::Arc::default());
        let wanted = Verification {
            image: reference,
            attestor: &empty,
            annotations: entry.get("annotations").filter(|annotations| !annotations.is_null()),
            bundle: entry.get("type").and_then(Data::as_str) == Some("SigstoreBundle"),
        };
        for (i, set) in attestors.iter().enumerate() {
            let path = format!(".attestors[{i}]");
            let (status, error) = match verify_set(&AttestorSet::read(set), &path, wanted, registry) {
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
        if sets(entry, "attestations").is_empty() {
            let text = format!("verified image signatures for {reference}");
            return Some((self.respond(Status::Pass, text), digest));
        }
        let known = match (image.digest.as_str(), digest) {
            ("", found) => found.unwrap_or_default(),
            (own, _) => own.to_owned(),
        };
        let subject = Subject {
            repository: &image.repository,
            reference: match known.as_str() {
                "" => reference.clone(),
                digest => format!("{}@{digest}", image.repository),
            },
            digest: known,
            bundle: wanted.bundle,
            annotations: wanted.annotations,
        };
        Some(self.attestations(entry, subject, registry, context))
    }
}

/// The image as `image` in conditions.
fn add_image(reference: &str, context: &mut Context<'_>) {
    let Ok(info) = ImageInfo::parse(reference) else { return };
    let parts = [
        ("reference", &info.reference),
        ("referenceWithTag", &info.reference_with_tag),
        ("registry", &info.registry),
        ("path", &info.path),
        ("name", &info.name),
        ("tag", &info.tag),
        ("digest", &info.digest),
    ];
    let parts = parts.map(|(key, value)| (key.into(), value.as_str().into()));
    // A map can always be added.
    let _ = context.add_variable("image", &parts.into_iter().collect());
}

fn without_conditions(entry: &Data) -> Data {
    edited(entry, &mut |attestation, _| {
        attestation.remove("conditions");
    })
}

/// An entry with the conditions of the written one.
fn with_conditions(entry: &Data, written: &Data) -> Data {
    let own = sets(written, "attestations");
    let mut entry = edited(entry, &mut |attestation, i| {
        if let Some(conditions) = own.get(i).and_then(|own| own.get("conditions")) {
            attestation.insert("conditions".into(), conditions.clone());
        }
    });
    if let (Data::Map(parts), Some(block)) = (&mut entry, written.get("validate")) {
        std::sync::Arc::make_mut(parts).insert("validate".into(), block.clone());
    }
    entry
}

type Parts = std::collections::BTreeMap<std::sync::Arc<str>, Data>;

/// An entry with changed attestations, each by its number, and without `validate`.
fn edited(entry: &Data, change: &mut dyn FnMut(&mut Parts, usize)) -> Data {
    let Data::Map(parts) = entry else { return entry.clone() };
    let mut parts = (**parts).clone();
    parts.remove("validate");
    if let Some(Data::List(list)) = parts.get("attestations") {
        let attestations = list.iter().enumerate().map(|(i, attestation)| match attestation {
            Data::Map(attestation) => {
                let mut attestation = (**attestation).clone();
                change(&mut attestation, i);
                Data::Map(std::sync::Arc::new(attestation))
            }
            other => other.clone(),
        });
        let attestations: Data = attestations.collect();
        parts.insert("attestations".into(), attestations);
    }
    Data::Map(std::sync::Arc::new(parts))
}

/// Verifies a set of attestors and returns the image's digest; nested sets count as one entry.
fn verify_set(
    set: &AttestorSet,
    path: &str,
    wanted: Verification<'_>,
    registry: &dyn ImageRegistry,
) -> Result<String, RegistryError> {
    let (mut verified, mut errors, mut network) = (0, Vec::new(), false);
    for (i, entry) in set.entries.iter().enumerate() {
        let path = format!("{path}.entries[{i}]");
        let nested = entry.get("attestor").filter(|nested| !nested.is_null());
        let result = match nested {
            Some(nested) => verify_set(
                &AttestorSet::read(nested),
                &format!("{path}.attestor"),
                wanted,
                registry,
            ),
            None => {
                let named = |error: String| format!("{path}{}: {error}", form(entry));
                let own = entry.get("annotations").filter(|own| !own.is_null());
                let verification = Verification {
                    attestor: entry,
                    annotations: own.or(wanted.annotations),
                    ..wanted
                };
                match registry.verify(verification) {
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
