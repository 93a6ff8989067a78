//! `validate.manifests`: does an object equal the manifest that its annotations carry, and is that manifest signed.
//!
//! Upstream counterpart: `pkg/engine/handlers/validation/validate_manifest.go` (1.19) and `k8s-manifest-sigstore` at the version
//! that it links, texts included. Everything is decided from the policy and the object: a signature by a public key needs no
//! transparency log.
//!
//! Known deviations: keys other than ECDSA on P-256, certificates, keyless signatures, bundles and manifests in images
//! are not verified: the rule has an error that names the reason, never a pass. Dry runs need a cluster and change
//! nothing, as offline upstream.

mod diff;
mod ignore;
mod message;
mod signature;

use crate::attestor::{AttestorSet, form};
use ignore::IgnoreFields;
use kyvtest_go_compat::value::{Data, Document};

/// The `manifests` part of a rule, ready for evaluation.
#[derive(Debug, Clone)]
pub(crate) struct Manifests {
    attestors: Vec<Data>,
    domain: String,
    ignore: IgnoreFields,
    repository: String,
}

const DOMAIN: &str = "cosign.sigstore.dev";

/// What a set of attestors, or one of its entries, decides.
enum Decision {
    Verified(String),
    Failed(String),
    Error(String),
}

impl Manifests {
    /// Reads the part as a rule writes it.
    pub(crate) fn read(block: &Document) -> Self {
        let block = Data::from(block.root());
        let text = |key: &str| block.get(key).and_then(Data::as_str).unwrap_or_default().to_owned();
        let domain = match text("annotationDomain") {
            domain if domain.is_empty() => DOMAIN.to_owned(),
            domain => domain,
        };
        Self {
            attestors: block
                .get("attestors")
                .and_then(Data::as_list)
                .unwrap_or_default()
                .to_vec(),
            ignore: IgnoreFields::new(block.get("ignoreFields"), &domain),
            domain,
            repository: text("repository"),
        }
    }

    /// Verifies an object: whether it passes, and the message.
    ///
    /// # Errors
    /// If the verification cannot be done; holds the message.
    pub(crate) fn verify(&self, object: &Data) -> Result<(bool, String), String> {
        let mut messages = Vec::new();
        for (i, set) in self.attestors.iter().enumerate() {
            match self.verify_set(object, &AttestorSet::read(set), &format!(".attestors[{i}]")) {
                Decision::Verified(message) => messages.push(message),
                Decision::Failed(message) => return Ok((false, message)),
                Decision::Error(error) => return Err(error),
            }
        }
        Ok((true, format!("verified manifest signatures; {}", messages.join(","))))
    }

    fn verify_set(&self, object: &Data, set: &AttestorSet, path: &str) -> Decision {
        let (mut verified, mut failed, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for (i, entry) in set.entries.iter().enumerate() {
            let path = format!("{path}.entries[{i}]");
            let decision = match entry.get("attestor").filter(|nested| !nested.is_null()) {
                Some(nested) => {
                    let path = format!("{path}.attestor");
                    match self.verify_set(object, &AttestorSet::read(nested), &path) {
                        Decision::Error(error) => {
                            Decision::Error(format!("failed to verify signature; {path}: {error}"))
                        }
                        decision => decision,
                    }
                }
                None => self.verify_entry(object, entry, &format!("{path}{}", form(entry))),
            };
            match decision {
                Decision::Verified(message) => verified.push(message),
                Decision::Failed(message) => failed.push(message),
                Decision::Error(error) => errors.push(error),
            }
            if verified.len() >= set.required {
                return Decision::Verified(format!(
                    "manifest verification succeeded; verifiedCount {}; requiredCount {}; message {}",
                    verified.len(),
                    set.required,
                    verified.join(",")
                ));
            }
        }
        if !errors.is_empty() {
            return Decision::Error(errors.join("; "));
        }
        Decision::Failed(format!(
            "manifest verification failed; verifiedCount {}; requiredCount {}; message {}",
            verified.len(),
            set.required,
            failed.join(",")
        ))
    }

    fn verify_entry(&self, object: &Data, entry: &Data, path: &str) -> Decision {
        let annotation = |key: &str| object.at(&["metadata", "annotations", key]).and_then(Data::as_str);
        let expected = entry.get("annotations").and_then(Data::as_map);
        for (key, wanted) in expected.into_iter().flatten() {
            let (wanted, actual) = (wanted.as_str().unwrap_or_default(), annotation(key).unwrap_or_default());
            if wanted != actual {
                return Decision::Error(format!(
                    "annotations mismatch: {actual} does not match expected value {wanted} for key {key}"
                ));
            }
        }
        match self.verify_resource(object, entry) {
            Ok(None) => Decision::Verified("singed by a valid signer: ".to_owned()),
            Ok(Some(difference)) => {
                Decision::Failed(format!("{path}: failed to verify signature. diff found; {difference}"))
            }
            Err(Problem::NotFound(error)) => Decision::Failed(format!("{path}: {error}")),
            Err(Problem::Other(error)) => Decision::Error(format!("{path}: {error}")),
        }
    }

    /// Compares an object with its manifest and verifies the signature; returns the difference, if there is one.
    fn verify_resource(&self, object: &Data, entry: &Data) -> Result<Option<String>, Problem> {
        let other = |text: &str| Problem::Other(text.to_owned());
        if let Some(roots) = entry.at(&["keyless", "roots"]).and_then(Data::as_str)
            && !roots.is_empty()
            && !roots.contains("-----BEGIN CERTIFICATE-----")
        {
            return Err(other("failed to load Root certificates: error creating root cert pool"));
        }
        let annotation = |name: &str| {
            let key = format!("{}/{name}", self.domain);
            object
                .at(&["metadata", "annotations", &key])
                .and_then(Data::as_str)
                .map(str::to_owned)
        };
        let image = annotation("resourceBundleRef").or_else(|| (!self.repository.is_empty()).then(String::new));
        if image.is_some() {
            return Err(other("manifests in images are not verified: needs registry"));
        }
        let manifest = |error: String| format!("YAML manifest not found for this resource: {error}");
        let Some(written) = annotation("message") else {
            return Err(Problem::NotFound(manifest("message not found".to_owned())));
        };
        let signed = message::decode(&written).map_err(|error| Problem::Other(manifest(error)))?;
        let manifests = message::manifests(&signed, object, &self.ignore)
            .map_err(|error| Problem::Other(manifest(error)))?
            .ok_or_else(|| {
                let error = "failed to find a YAML manifest in the gzipped message";
                Problem::NotFound(manifest(error.to_owned()))
            })?;
        let differences: Vec<Option<String>> = manifests
            .iter()
            .map(|manifest| diff::difference(manifest, object, &self.ignore))
            .collect();
        let matched = differences.iter().any(Option::is_none);
        let signatures: Vec<String> = (0..)
            .map_while(|i| match i {
                0 => annotation("signature"),
                i => annotation(&format!("signature_{i}")),
            })
            .collect();
        if annotation("certificate").is_some() || annotation("bundle").is_some() {
            return Err(other(
                "failed to verify signature: certificates and bundles are not verified",
            ));
        }
        signature::verify(entry, &signed, &signatures).map_err(|error| match error {
            Problem::NotFound(error) => Problem::NotFound(format!("failed to verify signature: {error}")),
            Problem::Other(error) => Problem::Other(format!("failed to verify signature: {error}")),
        })?;
        Ok(if matched {
            None
        } else {
            differences.into_iter().next().flatten()
        })
    }
}

/// Why an entry does not verify an object.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    /// The message or the signature is missing: the entry fails.
    NotFound(String),
    /// The entry has an error.
    Other(String),
}
