//! Container image names: registry, repository, tag or digest.
//!
//! Upstream counterpart: `github.com/google/go-containerregistry/pkg/name` with its default (weak) validation: a
//! missing registry is Docker Hub, a missing tag is `latest`.

use std::net::Ipv6Addr;

/// The registry of names without one.
const DEFAULT_REGISTRY: &str = "index.docker.io";
const DEFAULT_REGISTRY_ALIAS: &str = "docker.io";
const DEFAULT_NAMESPACE: &str = "library";
const DEFAULT_TAG: &str = "latest";
const DIGEST_PREFIX: &str = "sha256:";

/// Identifies an image within its repository.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Identifier {
    Tag(String),
    /// With its algorithm; a tag before it is dropped.
    Digest(String),
}

/// A parsed image name. Two names are equal only if they were also written the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    repository: Repository,
    identifier: Identifier,
    original: String,
}

impl Reference {
    /// Parses a name; `None` if it is invalid. Upstream's error is always `could not parse reference: NAME`.
    pub fn parse(name: &str) -> Option<Self> {
        Self::tagged(name).or_else(|| Self::digested(name))
    }

    fn tagged(name: &str) -> Option<Self> {
        let (base, tag) = match name.rsplit_once(':') {
            // The part after the last colon of `host:5000/x` is not a tag.
            Some((base, tag)) if !tag.contains('/') => (base, Some(tag)),
            _ => (name, None),
        };
        if let Some(tag) = tag
            && !(within(tag, 1, 128) && tag.bytes().all(is_tag_byte))
        {
            return None;
        }
        Some(Self {
            repository: Repository::parse(base)?,
            identifier: Identifier::Tag(tag.unwrap_or(DEFAULT_TAG).to_owned()),
            original: name.to_owned(),
        })
    }

    fn digested(name: &str) -> Option<Self> {
        let (base, digest) = name.split_once('@')?;
        let hex = digest.strip_prefix(DIGEST_PREFIX)?;
        if hex.len() != 64 || !hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let repository = match Self::tagged(base) {
            // Parsing the full name again makes Docker Hub's implied namespace explicit.
            Some(tagged) => Repository::parse(&tagged.repository.full_name())?,
            None => Repository::parse(base)?,
        };
        Some(Self {
            repository,
            identifier: Identifier::Digest(digest.to_owned()),
            original: name.to_owned(),
        })
    }

    /// The name as written.
    pub fn original(&self) -> &str {
        &self.original
    }

    /// The registry's host, with its port.
    pub fn registry(&self) -> &str {
        &self.repository.registry
    }

    /// The repository within the registry.
    pub fn repository(&self) -> String {
        self.repository.path()
    }

    /// The tag or the digest.
    pub fn identifier(&self) -> &str {
        match &self.identifier {
            Identifier::Tag(text) | Identifier::Digest(text) => text,
        }
    }

    /// The tag; empty for a digest.
    pub fn tag(&self) -> &str {
        match &self.identifier {
            Identifier::Tag(tag) => tag,
            Identifier::Digest(_) => "",
        }
    }

    /// The digest; empty for a tag.
    pub fn digest(&self) -> &str {
        match &self.identifier {
            Identifier::Tag(_) => "",
            Identifier::Digest(digest) => digest,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Repository {
    registry: String,
    /// As written: without the implied namespace.
    repository: String,
}

impl Repository {
    fn parse(name: &str) -> Option<Self> {
        let (registry, repository) = match name.split_once('/') {
            Some((first, rest)) if first == "localhost" || first.contains(['.', ':']) => (first, rest),
            _ => ("", name),
        };
        if !within(repository, 2, 255) || !repository.bytes().all(is_repository_byte) || !is_authority(registry) {
            return None;
        }
        let registry = match registry {
            "" | DEFAULT_REGISTRY_ALIAS => DEFAULT_REGISTRY,
            other => other,
        };
        Some(Self {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
        })
    }

    fn path(&self) -> String {
        if self.registry == DEFAULT_REGISTRY && !self.repository.contains('/') {
            format!("{DEFAULT_NAMESPACE}/{}", self.repository)
        } else {
            self.repository.clone()
        }
    }

    fn full_name(&self) -> String {
        format!("{}/{}", self.registry, self.path())
    }
}

fn within(text: &str, least: usize, most: usize) -> bool {
    (least..=most).contains(&text.chars().count())
}

fn is_tag_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.')
}

fn is_repository_byte(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-' | b'.' | b'/')
}

/// Reports whether Go's URL parser reads `//NAME` as a host that is exactly `NAME`. The name has no slash.
///
/// Upstream: `net/url` `parseHost`. Decoding a percent sign always changes the host, and an `@`, `?` or `#` cuts it
/// short, so none of them may occur.
fn is_authority(name: &str) -> bool {
    if !name.bytes().all(is_host_byte) {
        return false;
    }
    match name.rfind('[') {
        Some(0) => {
            let Some(close) = name.rfind(']') else { return false };
            is_optional_port(&name[close + 1..]) && name[1..close].parse::<Ipv6Addr>().is_ok()
        }
        Some(_) => false,
        None => name.rfind(':').is_none_or(|colon| is_optional_port(&name[colon..])),
    }
}

fn is_optional_port(text: &str) -> bool {
    match text.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|b| b.is_ascii_digit()),
        None => text.is_empty(),
    }
}

fn is_host_byte(b: u8) -> bool {
    b >= 0x80 || b.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&b)
}

#[cfg(test)]
mod tests {
    use super::Reference;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn parts(name: &str) -> Option<(String, String, String)> {
        let reference = Reference::parse(name)?;
        Some((
            reference.registry().to_owned(),
            reference.repository(),
            reference.identifier().to_owned(),
        ))
    }

    fn is(name: &str, registry: &str, repository: &str, identifier: &str) {
        let expected = (registry.to_owned(), repository.to_owned(), identifier.to_owned());
        assert_eq!(parts(name), Some(expected), "{name}");
    }

    #[test]
    fn defaults_are_docker_hub_and_latest() {
        is("nginx", "index.docker.io", "library/nginx", "latest");
        is("a/b:1", "index.docker.io", "a/b", "1");
        is("docker.io/nginx", "index.docker.io", "library/nginx", "latest");
        is("localhost/xy", "localhost", "xy", "latest");
        is("reg.io:5000/a/b/c:v1", "reg.io:5000", "a/b/c", "v1");
        is("[::1]:5000/xy", "[::1]:5000", "xy", "latest");
    }

    #[test]
    fn a_digest_drops_the_tag() {
        is(&format!("nginx:1@{DIGEST}"), "index.docker.io", "library/nginx", DIGEST);
        let reference = Reference::parse(&format!("ghcr.io/ab/c@{DIGEST}")).expect("parses");
        assert_eq!((reference.tag(), reference.digest()), ("", DIGEST));
    }

    #[test]
    fn what_is_no_image() {
        for name in [
            "",
            "x",
            "a b",
            "UPPER/xy",
            "xy:",
            "x:tag:tag",
            "xy@sha256:abc",
            "reg.io/x",
            "reg.io:x/ab",
            "u@reg.io/ab",
            "[::1/ab",
            "[1.2.3.4]/ab",
            "a.b?c/de",
            "xy:tag@",
            "re%41.io/ab",
        ] {
            assert_eq!(parts(name), None, "{name}");
        }
    }

    #[test]
    fn equality_is_of_the_written_form() {
        assert_ne!(
            Reference::parse("nginx"),
            Reference::parse("docker.io/library/nginx:latest")
        );
        assert_eq!(Reference::parse("nginx"), Reference::parse("nginx"));
    }
}
