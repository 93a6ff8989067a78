//! Container images as classic policies see them: registry, path, name, tag, digest.
//!
//! Upstream counterpart: Kyverno `pkg/utils/image/infos.go` over github.com/distribution/reference v0.6.0, with the
//! default configuration: the registry of names without one is `docker.io`, without `library/`.

use std::{fmt, sync::LazyLock};

use crate::regex::Regex;

/// The registry of names without one.
pub(crate) const DEFAULT_REGISTRY: &str = "docker.io";

const NAME_LIMIT: usize = 255;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageInfo {
    /// Includes the port.
    pub registry: String,
    /// The last segment of the path.
    pub name: String,
    /// The repository within the registry.
    pub path: String,
    /// `latest` if there is neither tag nor digest.
    pub tag: String,
    /// Includes the algorithm.
    pub digest: String,
    /// The whole image by digest, or by tag if there is no digest.
    pub reference: String,
    /// The whole image by tag, even if the tag is empty.
    pub reference_with_tag: String,
}

struct Grammar {
    reference: Regex,
    name: Regex,
}

static GRAMMAR: LazyLock<Option<Grammar>> = LazyLock::new(|| {
    let component = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
    let domain = format!(r"(?:{component}(?:\.{component})*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?");
    let part = "[a-z0-9]+(?:(?:[._]|__|[-]+)[a-z0-9]+)*";
    let path = format!("{part}(?:/{part})*");
    let digest = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*[:][[:xdigit:]]{32,}";
    Some(Grammar {
        reference: Regex::new(&format!(
            r"^((?:{domain}/)?{path})(?::([\w][\w.-]{{0,127}}))?(?:@({digest}))?$"
        ))
        .ok()?,
        name: Regex::new(&format!("^(?:({domain})/)?({path})$")).ok()?,
    })
});

impl ImageInfo {
    /// Parses an image.
    ///
    /// # Errors
    /// Upstream's message.
    pub fn parse(image: &str) -> Result<Self, String> {
        let full = with_default_registry(image);
        let bad = |problem: &str| {
            format!(
                "bad image: {full}, defaultRegistry: {DEFAULT_REGISTRY}, enableDefaultRegistryMutation: true: {problem}"
            )
        };
        let Some(grammar) = GRAMMAR.as_ref() else {
            return Err(bad("invalid reference format"));
        };
        let Some(found) = grammar.reference.captures(&full) else {
            if full.is_empty() {
                return Err(bad("repository name must have at least one component"));
            }
            if grammar.reference.is_match(&super::case::lower(&full)) {
                return Err(bad("repository name must be lowercase"));
            }
            return Err(bad("invalid reference format"));
        };
        let whole = found.get(1).unwrap_or("");
        let (registry, path) = match grammar.name.captures(whole) {
            Some(name) => (
                name.get(1).unwrap_or("").to_owned(),
                name.get(2).unwrap_or("").to_owned(),
            ),
            None => (String::new(), whole.to_owned()),
        };
        if path.len() > NAME_LIMIT {
            return Err(bad("repository name must not be more than 255 characters"));
        }
        let digest = found.get(3).unwrap_or("");
        if !digest.is_empty() {
            check_digest(digest).map_err(bad)?;
        }
        let mut tag = found.get(2).unwrap_or("");
        if digest.is_empty() && tag.is_empty() {
            tag = "latest";
        }
        let at = if registry.is_empty() {
            path.clone()
        } else {
            format!("{registry}/{path}")
        };
        Ok(Self {
            name: path.rsplit('/').next().unwrap_or("").to_owned(),
            reference: if digest.is_empty() {
                format!("{at}:{tag}")
            } else {
                format!("{at}@{digest}")
            },
            reference_with_tag: format!("{at}:{tag}"),
            tag: tag.to_owned(),
            digest: digest.to_owned(),
            registry,
            path,
        })
    }
}

impl fmt::Display for ImageInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reference)
    }
}

fn with_default_registry(image: &str) -> String {
    let has_registry = image.split_once('/').is_some_and(|(first, _)| {
        first.contains(['.', ':']) || first == "localhost" || super::case::lower(first) != first
    });
    if has_registry {
        image.to_owned()
    } else {
        format!("{DEFAULT_REGISTRY}/{image}")
    }
}

/// Upstream counterpart: github.com/opencontainers/go-digest.
fn check_digest(digest: &str) -> Result<(), &'static str> {
    let invalid = "invalid checksum digest format";
    let (algorithm, encoded) = digest.split_once(':').ok_or(invalid)?;
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ if algorithm.bytes().any(|byte| byte.is_ascii_uppercase()) => return Err(invalid),
        _ => return Err("unsupported digest algorithm"),
    };
    if encoded.len() != length {
        return Err("invalid checksum digest length");
    }
    if encoded.bytes().any(|byte| !matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(invalid);
    }
    Ok(())
}
