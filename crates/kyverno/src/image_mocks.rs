//! What a suite states about images in place of a registry: digests, valid signatures, attestations.
//!
//! Upstream counterpart: none. A mock states what the verifiers of `pkg/image/verifiers` (Kyverno 1.19) would find; which of the
//! stated signatures an attestor accepts is decided as they decide it: keys and certificates are compared as text, subjects and
//! issuers with the wildcards and regular expressions of the policy. No signature is computed or checked.
//!
//! What a mock does not state is unknown: it needs a registry.

mod decode;
mod identity;

pub use identity::{Identity, Signer};
pub(crate) use identity::{satisfies_attestor, satisfies_entry};

use kyvtest_go_compat::{
    text::{image_info::ImageInfo, wildcard},
    value::Data,
};

/// What is stated about one image, or about all that fit a pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageMock {
    /// A reference, or a pattern with `*` and `?`.
    pub image: String,
    pub digest: Option<String>,
    /// Whose signatures are valid; `None` if that is not stated.
    pub(crate) signatures: Option<Vec<Signer>>,
    /// All attestations; `None` if they are not stated.
    pub(crate) attestations: Option<Vec<AttestationMock>>,
}

/// An attestation of an image.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AttestationMock {
    /// The predicate's type, or the artifact's.
    pub kind: String,
    pub(crate) predicate: Data,
    /// Whose signatures are valid; `None` if they are those of the image.
    pub(crate) signatures: Option<Vec<Signer>>,
}

impl ImageMock {
    /// Whether the mock is about a reference, as written or in full. A mock with a digest is not about a reference with another
    /// one, and about every reference of its repository with the same one.
    fn is_about(&self, reference: &str) -> bool {
        let info = ImageInfo::parse(reference).ok();
        let digest = info.as_ref().map(|info| info.digest.clone()).unwrap_or_default();
        if let (Some(own), false) = (&self.digest, digest.is_empty())
            && *own != digest
        {
            return false;
        }
        let fits = |pattern: &str, text: &str| wildcard::matches(pattern, text);
        let Some(info) = info else {
            return fits(&self.image, reference);
        };
        let repository = match info.registry.as_str() {
            "" => info.path.clone(),
            registry => format!("{registry}/{}", info.path),
        };
        let mut forms = vec![reference.to_owned(), info.reference.clone()];
        if !info.tag.is_empty() {
            forms.push(info.reference_with_tag.clone());
        }
        let patterns = match ImageInfo::parse(&self.image) {
            Ok(own) if own.digest.is_empty() => vec![own.reference],
            // A tag beside a digest has no effect.
            Ok(own) => vec![own.reference, self.image.clone()],
            Err(_) => vec![self.image.clone()],
        };
        let stated = self.digest.as_deref().is_some_and(|own| own == digest);
        patterns.iter().any(|pattern| {
            forms.iter().any(|form| fits(pattern, form)) || stated && fits(without_tag(pattern), &repository)
        })
    }

    /// The digest of a reference that the mock is about: its own, or the stated one.
    pub(crate) fn digest_of(&self, reference: &str) -> Option<String> {
        let own = ImageInfo::parse(reference).map(|info| info.digest).unwrap_or_default();
        if own.is_empty() { self.digest.clone() } else { Some(own) }
    }
}

/// A reference or pattern without its tag or digest.
fn without_tag(pattern: &str) -> &str {
    let pattern = pattern.split_once('@').map_or(pattern, |(before, _)| before);
    match pattern.rsplit_once(':') {
        Some((before, tag)) if !tag.contains('/') => before,
        _ => pattern,
    }
}

/// The first mock that is about a reference.
pub(crate) fn find<'m>(mocks: &'m [ImageMock], reference: &str) -> Option<&'m ImageMock> {
    mocks.iter().find(|mock| mock.is_about(reference))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mock(image: &str, digest: Option<&str>) -> ImageMock {
        ImageMock {
            image: image.to_owned(),
            digest: digest.map(str::to_owned),
            signatures: None,
            attestations: None,
        }
    }

    #[test]
    fn mocks_are_found_by_reference_pattern_and_digest() {
        let one = format!("sha256:{}", "1".repeat(64));
        let two = format!("sha256:{}", "2".repeat(64));
        let cases = [
            (mock("nginx", None), "nginx".to_owned(), true),
            (mock("nginx", None), "docker.io/nginx:latest".to_owned(), true),
            (mock("nginx:1.27", None), "nginx".to_owned(), false),
            (
                mock("shop.example/*", None),
                "shop.example/team/till:2".to_owned(),
                true,
            ),
            (
                mock("shop.example/till:2", Some(&one)),
                format!("shop.example/till:2@{one}"),
                true,
            ),
            (
                mock("shop.example/till:2", Some(&one)),
                format!("shop.example/till@{one}"),
                true,
            ),
            (
                mock("shop.example/till:2", Some(&one)),
                format!("shop.example/till@{two}"),
                false,
            ),
            (
                mock("shop.example/*", Some(&one)),
                format!("shop.example/till@{two}"),
                false,
            ),
            (
                mock("shop.example/till:2", None),
                format!("shop.example/till@{one}"),
                false,
            ),
        ];
        for (mock, reference, expected) in cases {
            assert_eq!(mock.is_about(&reference), expected, "{} on {reference}", mock.image);
        }
    }
}
