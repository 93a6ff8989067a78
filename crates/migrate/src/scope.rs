//! What names mean where a classic expression is translated.

use kyvtest_model::kube::Operation;

use crate::{
    Expr, Refusal,
    check::Target,
    known::Known,
    query::{Seen, Type, Value},
};

/// What the first name of a path refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The CEL expression of the same value.
    pub expr: Expr,
    /// The path of the value below the object under review, if it is part of it (`["spec", "containers", "*"]`): the schema
    /// of the kind then says which fields are always present.
    pub path: Option<Vec<String>>,
}

/// The names in force: those of the request, context entries, elements of `foreach`.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    names: Vec<(String, Subject)>,
    /// Values whose types are known: context entries, elements.
    values: Vec<(String, Value)>,
    /// Context entries without a translation: Kyverno loads an entry when it is read, so an unread one does not matter.
    refused: Vec<(String, Refusal)>,
    /// Loop variables in use, so that a new one never captures another.
    loops: Vec<String>,
    /// The kinds under review, each with its API version; empty if they are not known.
    kinds: Vec<(String, String)>,
    /// When the object under review is looked at.
    seen: Seen,
    /// The operations that requests may have; empty if they are not known.
    operations: Vec<Operation>,
}

impl Scope {
    /// Says which kinds are under review, each with its API version: their schemas say which fields are always present.
    pub(crate) fn set_kinds(&mut self, kinds: Vec<(String, String)>) {
        self.kinds = kinds;
    }

    /// Says when the object under review is looked at.
    pub(crate) fn set_seen(&mut self, seen: Seen) {
        self.seen = seen;
    }

    /// Says which operations requests may have: conditions on the operation that hold for all or none of them are decided.
    pub(crate) fn set_operations(&mut self, operations: Vec<Operation>) {
        self.operations = operations;
    }

    /// The operations that requests may have; empty if they are not known.
    pub(crate) fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// What is known of a value.
    pub(crate) fn known(&self, subject: &Subject) -> Known {
        let kinds = self
            .kinds
            .iter()
            .map(|(version, kind)| (version.as_str(), kind.as_str()));
        match &subject.path {
            Some(path) => Known::objects(kinds, self.seen).at(path.iter().map(String::as_str)),
            None => Known::nothing(),
        }
    }

    /// Binds a name; later bindings hide earlier ones.
    pub fn bind(&mut self, name: impl Into<String>, subject: Subject) {
        self.names.push((name.into(), subject));
    }

    /// What a name refers to.
    pub(crate) fn get(&self, name: &str) -> Option<&Subject> {
        self.names
            .iter()
            .rev()
            .find(|(bound, _)| bound == name)
            .map(|(_, subject)| subject)
    }

    /// When the object under review is looked at.
    pub(crate) fn seen(&self) -> Seen {
        self.seen
    }

    /// The kinds under review, each with its API version; empty if they are not known.
    pub fn kinds(&self) -> &[(String, String)] {
        &self.kinds
    }

    /// Binds a name to a translated value; later bindings hide earlier ones.
    pub(crate) fn bind_value(&mut self, name: impl Into<String>, value: Value) {
        self.values.push((name.into(), value));
    }

    /// Binds a name to an entry without a translation, which is refused where it is read.
    pub(crate) fn bind_refused(&mut self, name: impl Into<String>, refusal: Refusal) {
        let name = name.into();
        self.values.retain(|(bound, _)| *bound != name);
        self.refused.push((name, refusal));
    }

    /// Why a name has no translation.
    pub(crate) fn refused(&self, name: &str) -> Option<&Refusal> {
        let mut refused = self.refused.iter().rev();
        refused.find(|(bound, _)| bound == name).map(|(_, refusal)| refusal)
    }

    /// The new object, null on DELETE, if the object under review is the old one then.
    pub(crate) fn new_object(&self) -> Option<Value> {
        let reviewed = self.get("request.object")?;
        (reviewed.expr.as_str() == Target::Either.root()).then(|| {
            let ty = Type::of_kinds(&self.kinds, self.seen);
            Value::old_object(Expr::primary(Target::New.root()), ty)
        })
    }

    /// Takes back the latest binding of a value.
    pub(crate) fn unbind_value(&mut self) {
        self.values.pop();
    }

    /// The translated value of a name.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        let mut values = self.values.iter().rev();
        values.find(|(bound, _)| bound == name).map(|(_, value)| value)
    }

    /// Whether a loop variable is in force: what is written here cannot move out.
    pub(crate) fn is_in_loop(&self) -> bool {
        !self.loops.is_empty()
    }

    /// A scope with one more loop, and the name of its variable. `hint` is a word for the elements (`container`); elements of a
    /// second list of the same kind are others (`otherContainer`).
    pub(crate) fn enter(&self, hint: &str) -> (Self, String) {
        let is_free = |name: &String| !self.loops.contains(name);
        let (first, rest) = hint.split_at(hint.len().min(1));
        let prefixed = |prefix: &str| format!("{prefix}{}{rest}", first.to_ascii_uppercase());
        let numbered = (2..).map(|number| format!("{hint}{number}"));
        let mut names = [hint.to_owned(), prefixed("other"), prefixed("inner")]
            .into_iter()
            .chain(numbered);
        let name = names.find(is_free).unwrap_or_default();
        let mut inner = self.clone();
        inner.loops.push(name.clone());
        (inner, name)
    }
}
