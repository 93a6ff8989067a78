//! Match conditions as questions: the fragment of CEL that reads nothing but what matching reads.
//!
//! `&&`, `||`, `!`, `?:`, comparisons of metadata, of the user and of the request's own fields with constants, `in`,
//! `startsWith`, `endsWith`, `contains`, `matches` of anchored expressions that are wildcards, and `exists` over the user's
//! groups and over labels and annotations. Whatever is beyond it is not read at all, and the proof says so. Errors are
//! values: an absent field decides as it does in CEL.

mod read;

use self::read::node;
use kyvtest_cel::{profile::Profile, syntax::parse};
use kyvtest_model::kube::{Atom, Facts, GroupVersionKind, Operation, Pairs, Pattern, RequestClass, Resource, Text};

/// The result of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tri {
    /// It does not hold.
    False,
    /// It cannot be evaluated.
    Error,
    /// It holds.
    True,
}

/// The kind of policy that an expression belongs to: they see different requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A classic rule of Kyverno's.
    Classic,
    /// A ValidatingPolicy.
    Validating,
    /// A native policy.
    Native,
}

/// A condition of the decidable fragment.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    reader: Reader,
    node: Node,
}

/// Which object an expression names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Object {
    New,
    Old,
    /// `object != null ? object : oldObject`
    Subject,
    /// `namespaceObject`, which only a ValidatingPolicy's conditions are given.
    Namespace,
}

#[derive(Debug, Clone)]
enum Node {
    Known(bool),
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    If(Box<Node>, Box<Node>, Box<Node>),
    IsNull(Object),
    Fits(Term, Vec<Wanted>),
    HasNamespace,
    HasSubresource,
    HasMap(Object, bool),
    HasKey(Object, bool, String),
    /// `….metadata.?labels[?'key'].hasValue()`
    HasEntry(Object, bool, String),
    /// `….metadata.?labels.orValue({}).exists(…)`
    AnyEntry(Object, bool, Wanted, Wanted),
    InGroup(Wanted),
    GroupsAre(Vec<String>),
}

/// A text of the request.
#[derive(Debug, Clone)]
enum Term {
    Name(Object),
    /// `….metadata.namespace`
    OwnNamespace(Object),
    RequestName,
    Namespace,
    Username,
    Operation,
    Kind,
    Resource,
    /// `request.resource.group`
    Group,
    Subresource,
    /// `….apiVersion`
    ApiVersion(Object),
    /// `….kind`
    ObjectKind(Object),
    /// A label or annotation (`true`), and the value for an absent one.
    Entry(Object, bool, String, Option<String>),
}

#[derive(Debug, Clone)]
enum Wanted {
    Exact(String),
    Glob(String),
    Prefix(String),
}

impl Wanted {
    fn pattern(&self) -> Pattern<'_> {
        match self {
            Self::Exact(text) => Pattern::Exact(text),
            Self::Glob(text) => Pattern::Glob(text),
            Self::Prefix(text) => Pattern::Prefix(text),
        }
    }
}

impl Condition {
    /// Reads a condition; `None` if it is outside the decidable fragment.
    pub(crate) fn read(text: &str, reader: Reader) -> Option<Self> {
        let ast = parse(text, &Profile::kubernetes().syntax).ok()?;
        let node = node(&ast, ast.root(), 0)?;
        Some(Self { reader, node })
    }

    /// Evaluates the condition on a request class. `requested` is the requested resource, which is not the class's
    /// own if the request was converted.
    pub(crate) fn ask<'p>(&'p self, cell: &RequestClass<'_>, requested: &Resource, facts: &mut impl Facts<'p>) -> Tri {
        Asking {
            reader: self.reader,
            cell,
            requested,
            facts,
        }
        .ask(&self.node)
    }
}

struct Asking<'c, 'u, F> {
    reader: Reader,
    cell: &'c RequestClass<'u>,
    requested: &'c Resource,
    facts: &'c mut F,
}

impl From<bool> for Tri {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

impl<F> Asking<'_, '_, F> {
    /// The labels or annotations of an object; `None` if there is no such object, or none with metadata.
    fn pairs(&self, object: Object, annotations: bool) -> Option<Pairs> {
        let is_old = match (object, self.cell.operation) {
            (Object::Namespace, operation) => {
                let stored = self.cell.namespaced || self.cell.is_core_namespace() && operation != Operation::Create;
                let given = self.reader == Reader::Validating && !annotations && stored;
                return given.then_some(Pairs::NamespaceLabels);
            }
            (_, Operation::Connect) => return None,
            (Object::New, Operation::Delete) | (Object::Old, Operation::Create) => return None,
            (Object::Old, _) => true,
            (Object::Subject, operation) => operation == Operation::Delete,
            (Object::New, _) => false,
        };
        Some(match (is_old, annotations) {
            (false, false) => Pairs::NewLabels,
            (true, false) => Pairs::OldLabels,
            (false, true) => Pairs::NewAnnotations,
            (true, true) => Pairs::OldAnnotations,
        })
    }

    fn ask<'p>(&mut self, node: &'p Node) -> Tri
    where
        F: Facts<'p>,
    {
        match node {
            Node::Known(holds) => (*holds).into(),
            Node::Not(inner) => match self.ask(inner) {
                Tri::False => Tri::True,
                Tri::Error => Tri::Error,
                Tri::True => Tri::False,
            },
            Node::And(a, b) => match self.ask(a) {
                Tri::False => Tri::False,
                Tri::True => self.ask(b),
                Tri::Error if self.ask(b) == Tri::False => Tri::False,
                Tri::Error => Tri::Error,
            },
            Node::Or(a, b) => match self.ask(a) {
                Tri::True => Tri::True,
                Tri::False => self.ask(b),
                Tri::Error if self.ask(b) == Tri::True => Tri::True,
                Tri::Error => Tri::Error,
            },
            Node::If(condition, yes, no) => match self.ask(condition) {
                Tri::True => self.ask(yes),
                Tri::False => self.ask(no),
                Tri::Error => Tri::Error,
            },
            Node::IsNull(object) => {
                // To a ValidatingPolicy an absent object is an empty map.
                let absent = match object {
                    Object::New => self.cell.operation == Operation::Delete,
                    Object::Old => matches!(self.cell.operation, Operation::Create | Operation::Connect),
                    Object::Subject | Object::Namespace => false,
                };
                (absent && self.reader != Reader::Validating).into()
            }
            Node::Fits(term, wanted) => self.fits(term, wanted),
            Node::HasNamespace => self.namespace().is_some().into(),
            Node::HasSubresource => self.subresource().is_some().into(),
            Node::HasMap(object, annotations) => match self.pairs(*object, *annotations) {
                None => Tri::Error,
                Some(pairs) => self.has_any(pairs).into(),
            },
            Node::HasKey(object, annotations, key) => match self.pairs(*object, *annotations) {
                Some(pairs) if self.has_any(pairs) => self.facts.ask(Atom::Has(pairs, key)).into(),
                _ => Tri::Error,
            },
            Node::HasEntry(object, annotations, key) => match self.pairs(*object, *annotations) {
                Some(pairs) => self.facts.ask(Atom::Has(pairs, key)).into(),
                None => Tri::Error,
            },
            Node::AnyEntry(object, annotations, key, value) => match self.pairs(*object, *annotations) {
                Some(pairs) => self
                    .facts
                    .ask(Atom::AnyPair(pairs, key.pattern(), value.pattern()))
                    .into(),
                None => Tri::Error,
            },
            Node::InGroup(wanted) => self.facts.ask(Atom::AnyGroup(wanted.pattern())).into(),
            Node::GroupsAre(groups) => self.facts.ask(Atom::GroupsAre(groups)).into(),
        }
    }

    /// The kind of an object; `None` if there is no such object. A classic rule sees a subresource's object with the kind of
    /// its parent.
    fn object_kind(&self, object: Object) -> Option<GroupVersionKind> {
        let present = match (object, self.cell.operation) {
            (Object::Namespace, _) => false,
            (Object::New, operation) => operation != Operation::Delete,
            (Object::Old, operation) => matches!(operation, Operation::Update | Operation::Delete),
            (Object::Subject, _) => true,
        };
        let resource = self.cell.resource;
        present.then(|| match self.reader {
            Reader::Classic => resource.gvk(),
            Reader::Validating | Reader::Native => resource.object_kind.clone(),
        })
    }

    /// Whether a map has an entry: an empty one is left out of the object.
    fn has_any<'p>(&mut self, pairs: Pairs) -> bool
    where
        F: Facts<'p>,
    {
        let all = Pattern::Glob("*");
        self.facts.ask(Atom::AnyPair(pairs, all, all))
    }

    /// The text that `request.namespace` is, if it is there.
    fn namespace(&self) -> Option<Text> {
        if self.cell.is_core_namespace() {
            (self.reader != Reader::Classic).then_some(Text::BareName)
        } else {
            self.cell.namespaced.then_some(Text::Namespace)
        }
    }

    /// The text that `request.subResource` is, if it is there: a classic rule never gets one.
    fn subresource(&self) -> Option<&str> {
        let subresource = self.cell.resource.subresource.as_str();
        (self.reader != Reader::Classic && !subresource.is_empty()).then_some(subresource)
    }

    fn fits<'p>(&mut self, term: &'p Term, wanted: &'p [Wanted]) -> Tri
    where
        F: Facts<'p>,
    {
        let known = |text: &str| Tri::from(wanted.iter().any(|wanted| wanted.pattern().matches(text)));
        let text = match term {
            Term::Operation => return known(self.cell.operation.as_str()),
            Term::Kind if self.reader == Reader::Classic => return known(&self.cell.resource.kind),
            Term::Kind => return known(&self.cell.resource.object_kind.kind),
            Term::Resource => return known(&self.requested.plural),
            Term::Group => return known(&self.requested.group),
            Term::ApiVersion(object) | Term::ObjectKind(object) => {
                let Some(kind) = self.object_kind(*object) else {
                    return Tri::Error;
                };
                return match term {
                    Term::ApiVersion(_) => known(&kind.api_version()),
                    _ => known(&kind.kind),
                };
            }
            Term::Subresource => return self.subresource().map_or(Tri::Error, known),
            Term::Username => Text::Username,
            Term::Namespace => match self.namespace() {
                Some(text) => text,
                None => return Tri::Error,
            },
            Term::Name(object) => match self.pairs(*object, false) {
                Some(Pairs::NamespaceLabels) if self.cell.namespaced => Text::Namespace,
                Some(_) => Text::BareName,
                None => return Tri::Error,
            },
            Term::OwnNamespace(object) => match self.pairs(*object, false) {
                Some(pairs) if pairs != Pairs::NamespaceLabels && self.cell.namespaced => Text::Namespace,
                _ => return Tri::Error,
            },
            Term::RequestName if self.reader == Reader::Classic => Text::BareName,
            Term::RequestName if self.cell.collection => return Tri::Error,
            // An empty name is left out of the request.
            Term::RequestName if self.facts.ask(Atom::Text(Text::RequestName, Pattern::Exact(""))) => {
                return Tri::Error;
            }
            Term::RequestName => Text::RequestName,
            Term::Entry(object, annotations, key, default) => {
                let Some(pairs) = self.pairs(*object, *annotations) else {
                    return Tri::Error;
                };
                if !self.facts.ask(Atom::Has(pairs, key)) {
                    return default.as_deref().map_or(Tri::Error, known);
                }
                let mut wanted = wanted.iter();
                return wanted
                    .any(|wanted| self.facts.ask(Atom::Value(pairs, key, wanted.pattern())))
                    .into();
            }
        };
        let mut wanted = wanted.iter();
        wanted
            .any(|wanted| self.facts.ask(Atom::Text(text, wanted.pattern())))
            .into()
    }
}
