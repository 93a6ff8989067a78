//! Admission rules as webhooks and native policies write them: operations, groups, versions, resources, scope.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules`. A rule is finite, so
//! matching it needs a [`RequestClass`] and no [`Facts`](super::Facts); the engines match names.

use std::fmt;

use super::RequestClass;

/// The scope of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Scope {
    /// `*`: all requests.
    #[default]
    All,
    /// `Cluster`: requests without a namespace, and those about Namespaces.
    Cluster,
    /// `Namespaced`: requests in a namespace.
    Namespaced,
    /// Any other string: no request.
    Unknown,
}

impl Scope {
    /// Parses the value in a rule.
    pub fn from_text(text: &str) -> Self {
        match text {
            "*" => Self::All,
            "Cluster" => Self::Cluster,
            "Namespaced" => Self::Namespaced,
            _ => Self::Unknown,
        }
    }

    /// The value in a registration; an unknown one is registered as `*`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All | Self::Unknown => "*",
            Self::Cluster => "Cluster",
            Self::Namespaced => "Namespaced",
        }
    }

    fn matches(self, cell: &RequestClass<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Cluster => cell.is_core_namespace() || !cell.namespaced,
            Self::Namespaced => !cell.is_core_namespace() && cell.namespaced,
            Self::Unknown => false,
        }
    }
}

/// One entry of a rule's `resources`: `pods`, `pods/exec`, `*`, `*/scale`, `pods/*`, `*/*`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResourcePattern {
    /// The plural, or `*`.
    pub resource: String,
    /// The subresource, `*` for any including none, empty for none.
    pub subresource: String,
}

impl ResourcePattern {
    /// Splits an entry at its first slash.
    pub fn from_text(text: &str) -> Self {
        let (resource, subresource) = text.split_once('/').unwrap_or((text, ""));
        Self {
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
        }
    }

    /// Whether it covers the resource.
    pub fn matches(&self, cell: &RequestClass<'_>) -> bool {
        (self.resource == "*" || self.resource == cell.resource.plural)
            && (self.subresource == "*" || self.subresource == cell.resource.subresource)
    }
}

impl fmt::Display for ResourcePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if !self.subresource.is_empty() {
            write!(f, "/{}", self.subresource)?;
        }
        Ok(())
    }
}

/// A rule: all of its parts must match, and one entry of each list.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct RuleWithOperations {
    /// Operations as written; `*` is all.
    pub operations: Vec<String>,
    /// API groups, or `*`.
    pub api_groups: Vec<String>,
    /// API versions, or `*`.
    pub api_versions: Vec<String>,
    pub resources: Vec<ResourcePattern>,
    pub scope: Scope,
}

impl RuleWithOperations {
    /// Whether the rule covers a class of requests.
    pub fn matches(&self, cell: &RequestClass<'_>) -> bool {
        let one_of = |list: &[String], text: &str| list.iter().any(|item| item == "*" || item == text);
        self.scope.matches(cell)
            && one_of(&self.operations, cell.operation.as_str())
            && one_of(&self.api_groups, &cell.resource.group)
            && one_of(&self.api_versions, &cell.resource.version)
            && self.resources.iter().any(|resource| resource.matches(cell))
    }
}
