//! Names of kinds and resources: group, version, and the rest.

use std::fmt;

/// Group and version of an `apiVersion`: `apps/v1` is (`apps`, `v1`), `v1` is (``, `v1`).
pub fn parse_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupVersionKind {
    /// The API group; empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
}

impl GroupVersionKind {
    /// A kind by its parts.
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        }
    }

    /// A kind as objects name it.
    pub fn from_api_version(api_version: &str, kind: &str) -> Self {
        let (group, version) = parse_api_version(api_version);
        Self::new(group, version, kind)
    }

    /// The `apiVersion` of an object of this kind.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.api_version(), self.kind)
    }
}

/// A resource, as an API path names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupVersionResource {
    /// The API group; empty for the core group.
    pub group: String,
    pub version: String,
    pub resource: String,
}

impl GroupVersionResource {
    /// A resource by its parts.
    pub fn new(group: impl Into<String>, version: impl Into<String>, resource: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            resource: resource.into(),
        }
    }

    /// Group and version in one text.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.api_version(), self.resource)
    }
}
