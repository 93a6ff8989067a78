//! Why a rule does not apply, in Kyverno's words.

use std::{borrow::Cow, fmt};

use kyvtest_model::policy::{KindSelector, Spanned};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason<'p> {
    /// No filter of `any` matches.
    NoFilter,
    EmptyFilter,
    /// Another operation.
    Operation,
    /// Another kind.
    Kind(&'p [Spanned<KindSelector>]),
    /// The name does not have the pattern.
    Name,
    /// The name has none of the patterns.
    Names,
    /// Another namespace.
    Namespace,
    /// Annotations are missing.
    Annotations,
    /// The labels do not match.
    Selector,
    InvalidSelector(Cow<'p, str>),
    /// A namespace selector does not apply to Namespaces.
    NamespaceObject,
    /// The labels of the namespace do not match.
    NamespaceSelector,
    InvalidNamespaceSelector(Cow<'p, str>),
    /// The user has none of the roles.
    Roles,
    /// The user has none of the cluster roles.
    ClusterRoles,
    /// The user is none of the subjects.
    Subjects,
    /// A filter of `exclude` matches.
    Excluded,
    /// All filters of `exclude.all` match.
    ExcludedByAll,
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoFilter => "no resource matched",
            Self::EmptyFilter => "match cannot be empty",
            Self::Operation => "operation does not match",
            Self::Kind(kinds) => {
                let kinds: Vec<&str> = kinds.iter().map(|kind| kind.text.as_str()).collect();
                return write!(f, "kind does not match [{}]", kinds.join(" "));
            }
            Self::Name => "name does not match",
            Self::Names => "none of the names match",
            Self::Namespace => "namespace does not match",
            Self::Annotations => "annotations does not match",
            Self::Selector => "selector does not match",
            Self::InvalidSelector(error) => return write!(f, "failed to parse selector: {error}"),
            Self::NamespaceObject => "namespace selector is not applicable for namespace resource",
            Self::NamespaceSelector => "namespace selector does not match labels",
            Self::InvalidNamespaceSelector(error) => return write!(f, "failed to parse namespace selector: {error}"),
            Self::Roles => "user info does not match roles for the given conditionBlock",
            Self::ClusterRoles => "user info does not match clustersRoles for the given conditionBlock",
            Self::Subjects => "user info does not match subject for the given conditionBlock",
            Self::Excluded => "resource excluded since one of the criteria excluded it",
            Self::ExcludedByAll => "resource excluded since the combination of all criteria exclude it",
        })
    }
}

/// Where reasons go, and whether to look for more of them.
pub(super) trait Sink<'p> {
    /// Takes a reason; returns [`Sink::wants_more`].
    fn note(&mut self, reason: Reason<'p>) -> bool;

    /// Whether further reasons are of interest: a verdict needs one, an explanation all.
    fn wants_more(&self) -> bool;
}

/// Only the verdict counts.
pub(super) struct Quiet;

impl<'p> Sink<'p> for Quiet {
    fn note(&mut self, _: Reason<'p>) -> bool {
        false
    }

    fn wants_more(&self) -> bool {
        false
    }
}

/// All reasons count.
#[derive(Default)]
pub(super) struct Listing<'p> {
    pub(super) reasons: Vec<Reason<'p>>,
}

impl<'p> Sink<'p> for Listing<'p> {
    fn note(&mut self, reason: Reason<'p>) -> bool {
        self.reasons.push(reason);
        true
    }

    fn wants_more(&self) -> bool {
        true
    }
}
