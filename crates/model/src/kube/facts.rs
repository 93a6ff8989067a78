//! The questions that matching may ask about a request.
//!
//! Every atom is a regular predicate on one string, a presence or a regular predicate on one key of a map, an
//! existential with regular bodies, or a free boolean. A proof needs a decision procedure for each of them: a new kind
//! of atom or pattern comes with its solver.

use kyvtest_go_compat::text::wildcard;

/// A predicate on a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pattern<'p> {
    /// The string itself, wildcard characters included.
    Exact(&'p str),
    /// Kyverno's wildcards: `*` any run of characters, `?` exactly one.
    Glob(&'p str),
    /// The beginning of the string.
    Prefix(&'p str),
}

impl<'p> Pattern<'p> {
    /// A pattern as Kyverno reads it: a glob only if it contains a wildcard.
    pub fn glob(text: &'p str) -> Self {
        if wildcard::has_wildcard(text) {
            Self::Glob(text)
        } else {
            Self::Exact(text)
        }
    }

    /// Whether a string matches.
    pub fn matches(self, text: &str) -> bool {
        match self {
            Self::Exact(exact) => exact == text,
            Self::Glob(glob) => wildcard::matches(glob, text),
            Self::Prefix(prefix) => text.starts_with(prefix),
        }
    }
}

/// A string of the request. *The object* is the new one, or the old one if there is no new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Text {
    /// The object's name, or its `generateName` if it has no name yet.
    Name,
    /// The object's name, empty if it has none yet.
    BareName,
    /// The new object's `generateName`.
    GenerateName,
    /// The object's namespace; empty for cluster-scoped objects and for Namespaces.
    Namespace,
    /// The name in the request; empty for a collection delete and for a name to be generated.
    RequestName,
    Username,
}

/// A map of strings of the request. It is empty if the request lacks the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pairs {
    /// Labels of the new object.
    NewLabels,
    /// Labels of the old object.
    OldLabels,
    /// Labels of the namespace that the request is about.
    NamespaceLabels,
    /// Annotations of the new object.
    NewAnnotations,
    /// Annotations of the old object.
    OldAnnotations,
}

/// A question about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Atom<'p> {
    /// Does a string match this pattern?
    Text(Text, Pattern<'p>),
    /// Is there a key?
    Has(Pairs, &'p str),
    /// Does the value of a key match this pattern? Valid only if [`Atom::Has`] holds.
    Value(Pairs, &'p str, Pattern<'p>),
    /// Is there an entry whose key and value match these patterns?
    AnyPair(Pairs, Pattern<'p>, Pattern<'p>),
    /// Is the user in a group that matches this pattern?
    AnyGroup(Pattern<'p>),
    /// Are the user's groups exactly these, in this order?
    GroupsAre(&'p [String]),
    /// Does the user have this role, written `namespace:name`?
    Role(&'p str),
    /// Does the user have this cluster role?
    ClusterRole(&'p str),
}

/// Answers questions about one request, or about all of them.
///
/// The lifetime is the policy's: patterns composed of several fields are built when the policy is parsed.
pub trait Facts<'p> {
    /// The same question always has the same answer.
    fn ask(&mut self, atom: Atom<'p>) -> bool;
}
