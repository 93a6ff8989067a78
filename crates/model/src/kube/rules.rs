//! Admission rules as webhooks and native policies write them: operations, groups, versions, resources, scope.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules`. What a rule says is finite, so
//! matching it needs a [`RequestClass`] and no [`Facts`](super::Facts); names are the business of the engines.

use std::fmt;

use super::RequestClass;

/// Which requests a rule is about, by their namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Scope {
    /// `*`: all of them.
    #[default]
    All,
    /// `Cluster`: those without a namespace, and those about Namespaces.
    Cluster,
    /// `Namespaced`: those in a namespace.
    Namespaced,
    /// Any other text: none of them.
    Unknown,
}

impl Scope {
    /// Reads the word of a rule.
    pub fn from_text(text: &str) -> Self {
        match text {
            "*" => Self::All,
            "Cluster" => Self::Cluster,
            "Namespaced" => Self::Namespaced,
            _ => Self::Unknown,
        }
    }

    /// The word as a registration writes it; an unknown one is registered as `*`.
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

    /// Whether a resource is meant.
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

/// A rule: all of its parts must hold, of each list one entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct RuleWithOperations {
    /// Operations as written; `*` is all.
    pub operations: Vec<String>,
    /// API groups, or `*`.
    pub api_groups: Vec<String>,
    /// API versions, or `*`.
    pub api_versions: Vec<String>,
    pub resources: Vec<ResourcePattern>,
    /// By namespace.
    pub scope: Scope,
}

impl RuleWithOperations {
    /// Whether the rule is about requests of a cell.
    pub fn matches(&self, cell: &RequestClass<'_>) -> bool {
        let one_of = |list: &[String], text: &str| list.iter().any(|item| item == "*" || item == text);
        self.scope.matches(cell)
            && one_of(&self.operations, cell.operation.as_str())
            && one_of(&self.api_groups, &cell.resource.group)
            && one_of(&self.api_versions, &cell.resource.version)
            && self.resources.iter().any(|resource| resource.matches(cell))
    }
}
