//! The registry of a test: the suite's mocks answer in its place, and every other question ends where the network would fail.
//!
//! Upstream counterpart: none; see [`crate::image_mocks`].

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
};

use crate::{
    image_mocks::{AttestationMock, ImageMock, Signer, find, satisfies_attestor, satisfies_entry},
    response::RegistryUse,
    verify_images::{ImageRegistry, RegistryError, Statements, Verification},
};
use kyvtest_cel::host::{Attestation, HostResult};
use kyvtest_go_compat::{
    text::image::Reference,
    value::{Data, Document},
};
use serde_json::json;

#[derive(Debug)]
pub(super) struct Registry<'m> {
    mocks: &'m [ImageMock],
    used: Cell<RegistryUse>,
    /// The images and types of the in-toto attestations that were verified.
    verified: RefCell<BTreeSet<(String, String)>>,
}

/// Upstream's message for an image whose registry cannot be reached. This engine never contacts a registry.
fn unreachable(image: &str) -> String {
    let registry = match Reference::parse(image) {
        Some(reference) => reference.registry().to_owned(),
        None => return format!("could not parse reference: {image}"),
    };
    format!("Get \"https://{registry}/v2/\": dial tcp: needs registry")
}

/// The types of predicates that cosign knows by a short name.
const PREDICATES: [(&str, &str); 10] = [
    ("custom", "https://cosign.sigstore.dev/attestation/v1"),
    ("slsaprovenance", "https://slsa.dev/provenance/v0.2"),
    ("slsaprovenance02", "https://slsa.dev/provenance/v0.2"),
    ("slsaprovenance1", "https://slsa.dev/provenance/v1"),
    ("spdx", "https://spdx.dev/Document"),
    ("spdxjson", "https://spdx.dev/Document"),
    ("cyclonedx", "https://cyclonedx.org/bom"),
    ("link", "https://in-toto.io/Link/v1"),
    ("vuln", "https://cosign.sigstore.dev/attestation/vuln/v1"),
    ("openvex", "https://openvex.dev/ns"),
];

fn predicate_type(kind: &str) -> &str {
    let known = PREDICATES.iter().find(|(name, _)| *name == kind);
    known.map_or(kind, |(_, long)| *long)
}

impl<'m> Registry<'m> {
    pub(super) fn new(mocks: &'m [ImageMock]) -> Self {
        Self {
            mocks,
            used: Cell::default(),
            verified: RefCell::default(),
        }
    }

    /// What a mock states about an image, noted as used; if nothing does, the text of a network that cannot be reached.
    fn stated<T>(&self, image: &str, part: impl FnOnce(&'m ImageMock) -> Option<T>) -> Result<T, String> {
        let found = find(self.mocks, image).and_then(part);
        let used = if found.is_some() {
            RegistryUse::Mocked
        } else {
            RegistryUse::Unanswered
        };
        self.used.set(self.used.get().max(used));
        found.ok_or_else(|| unreachable(image))
    }

    /// What a registry knows of an image; `metadata` comes from the test's context file.
    pub(super) fn fetch(&self, image: &str, metadata: Option<Document>) -> HostResult {
        let mock = self.stated(image, Some)?;
        if let Some(metadata) = metadata {
            return Ok(metadata);
        }
        let parsed = Reference::parse(image);
        let [registry, identifier, tag] = match &parsed {
            Some(reference) => [reference.registry(), reference.identifier(), reference.tag()],
            None => ["", "", ""],
        };
        let digest = mock.digest_of(image).unwrap_or_default();
        let repository = parsed.as_ref().map(Reference::repository).unwrap_or_default();
        let resolved = format!("{registry}/{repository}@{digest}");
        Ok(Document::from(&json!({
            "image": image,
            "resolvedImage": if digest.is_empty() { String::new() } else { resolved },
            "registry": registry,
            "repository": repository,
            "tag": tag,
            "identifier": identifier,
            "digest": digest,
        })))
    }

    /// Counts the attestors that vouch for an image, or for an attestation of it.
    pub(super) fn count(
        &self,
        image: &str,
        attestation: Option<Attestation<'_>>,
        attestors: &[Document],
    ) -> Result<i64, String> {
        let attestors: Vec<Data> = attestors.iter().map(|attestor| Data::from(attestor.root())).collect();
        let Some(attestation) = attestation else {
            let signers = self.stated(image, |mock| mock.signatures.as_deref())?;
            let vouch = attestors
                .iter()
                .filter(|attestor| satisfies_attestor(attestor, signers));
            return count(vouch);
        };
        let of_kind = self.of_kind(image, attestation)?;
        let is_referrer = attestation.is_referrer;
        let mut vouching = 0;
        for attestor in &attestors {
            let is_notary = attestor.get("notary").is_some_and(|form| !form.is_null());
            // Cosign has in-toto attestations only, Notary has referrers only.
            if is_notary && !is_referrer {
                return Err("notary verifier only supports oci 1.1 referrers as attestations".to_owned());
            }
            let vouches = |(_, signers): &(&AttestationMock, &[Signer])| satisfies_attestor(attestor, signers);
            if is_notary == is_referrer && of_kind.iter().any(vouches) {
                vouching += 1;
                let key = (image.to_owned(), predicate_type(attestation.kind).to_owned());
                self.verified.borrow_mut().insert(key);
            }
        }
        Ok(vouching)
    }

    /// The stated attestations of a type, each with its signers.
    fn of_kind(
        &self,
        image: &str,
        attestation: Attestation<'_>,
    ) -> Result<Vec<(&'m AttestationMock, &'m [Signer])>, String> {
        let wanted = if attestation.is_referrer {
            attestation.kind
        } else {
            predicate_type(attestation.kind)
        };
        self.stated(image, |mock| {
            let list = mock.attestations.as_ref()?.iter();
            let of_kind = list.filter(|stated| stated.kind == wanted);
            of_kind
                .map(|stated| {
                    let signers = stated.signatures.as_ref().or(mock.signatures.as_ref())?;
                    Some((stated, signers.as_slice()))
                })
                .collect()
        })
    }

    /// The payload of an attestation: the statement of one that was verified, the artifact that refers to the image.
    pub(super) fn payload(&self, image: &str, attestation: Attestation<'_>) -> HostResult {
        let found = self.stated(image, |mock| Some((mock, mock.attestations.as_ref()?)));
        let (mock, list) = found.map_err(|error| format!("failed to get imagedata: {error}"))?;
        let stated = list.iter().find(|stated| stated.kind == attestation.kind);
        if attestation.is_referrer {
            let stated = stated.ok_or_else(|| {
                let kind = attestation.kind;
                format!("failed to get payload: artifact of type {kind} not found")
            })?;
            return Ok(stated.predicate.to_document());
        }
        let key = (image.to_owned(), attestation.kind.to_owned());
        // Upstream looks the type up as written, so that short names find nothing.
        let stated = stated
            .filter(|_| self.verified.borrow().contains(&key))
            .ok_or_else(|| {
                "failed to get payload: intoto attestation payload cannot be fetch before verifying intoto attestation"
                    .to_owned()
            })?;
        let digest = mock.digest_of(image).unwrap_or_default();
        let repository = Reference::parse(image).map(|reference| reference.repository());
        let predicate = stated.predicate.to_document();
        Ok(Document::from(&json!({
            "_type": "https://in-toto.io/Statement/v0.1",
            "predicateType": stated.kind,
            "subject": [{
                "name": repository.unwrap_or_default(),
                "digest": {"sha256": digest.trim_start_matches("sha256:")},
            }],
            "predicate": predicate.root().to_serde(),
        })))
    }
}

fn count<T>(items: impl Iterator<Item = T>) -> Result<i64, String> {
    i64::try_from(items.count()).map_err(|error| error.to_string())
}

impl ImageRegistry for Registry<'_> {
    fn digest(&self, image: &str) -> Result<String, RegistryError> {
        self.stated(image, |mock| mock.digest_of(image))
            .map_err(RegistryError::Network)
    }

    fn verify(&self, wanted: Verification<'_>) -> Result<String, RegistryError> {
        readable_key(wanted.attestor)?;
        let image = wanted.image;
        let found = self.stated(image, |mock| Some((mock, mock.signatures.as_ref()?)));
        let (mock, signers) = found.map_err(|error| network(error, wanted))?;
        satisfies_entry(wanted.attestor, wanted.annotations, signers).map_err(RegistryError::Refused)?;
        Ok(mock.digest_of(image).unwrap_or_default())
    }

    fn statements(&self, wanted: Verification<'_>, kind: &str) -> Result<Statements, RegistryError> {
        readable_key(wanted.attestor)?;
        let anyone = wanted.attestor.as_map().is_some_and(BTreeMap::is_empty);
        let found = self.stated(wanted.image, |mock| {
            let list = mock.attestations.as_ref()?.iter();
            let list = list.map(|stated| {
                let signers = stated.signatures.as_deref().or(mock.signatures.as_deref());
                Some((stated, if anyone { &[] } else { signers? }))
            });
            Some((mock, list.collect::<Option<Vec<_>>>()?))
        });
        let (mock, list) = found.map_err(|error| network(error, wanted))?;
        let (mut statements, mut refused) = (Vec::new(), None);
        for (stated, signers) in list {
            match satisfies_entry(wanted.attestor, wanted.annotations, signers) {
                Ok(()) => statements.push((stated.kind.clone(), stated.predicate.clone())),
                Err(_) if anyone => statements.push((stated.kind.clone(), stated.predicate.clone())),
                Err(error) if stated.kind == kind => refused = refused.or(Some(error)),
                Err(_) => {}
            }
        }
        if statements.is_empty() {
            let error = refused.unwrap_or_else(|| "no matching attestations".to_owned());
            return Err(RegistryError::Refused(error));
        }
        // Only bundles name the digest beside the statement.
        let digest = mock.digest_of(wanted.image).filter(|_| wanted.bundle);
        Ok(Statements {
            digest: digest.unwrap_or_default(),
            list: statements,
        })
    }

    fn take_use(&self) -> RegistryUse {
        self.used.take()
    }
}

fn network(error: String, wanted: Verification<'_>) -> RegistryError {
    RegistryError::Network(if wanted.bundle {
        format!("failed to fetch bundles: {}: {error}", wanted.image)
    } else {
        error
    })
}

/// Reads keys before any network access, as upstream does. A key that is not PEM is treated as a file name.
fn readable_key(attestor: &Data) -> Result<(), RegistryError> {
    let key = attestor
        .at(&["keys", "publicKeys"])
        .and_then(Data::as_str)
        .unwrap_or_default();
    if key.is_empty() || key.trim_start().starts_with("-----BEGIN PUBLIC KEY-----") || key.contains("://") {
        return Ok(());
    }
    Err(RegistryError::Refused(format!(
        "failed to load public key from {key}: open {key}: no such file or directory"
    )))
}
