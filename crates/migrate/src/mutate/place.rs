//! Where a part of a patch belongs: its path, its schemas, and the value that is there before.
//!
//! Two schemas matter: kyaml's says which lists a strategic merge merges by key, structured merge's says what an apply
//! configuration does with the field. A translation needs both to agree.

use kyvtest_patch::{
    strategic,
    structured::{Schema, Type},
};

use super::pointer::Pointer;
use crate::{Refusal, RefusalCode, query::Value};

/// A part of the object under review.
#[derive(Debug, Clone)]
pub(super) struct Place<'k> {
    /// The kinds under review, each with its API version.
    kinds: &'k [(String, String)],
    /// The types of the value, one for each kind; empty without a schema.
    types: Vec<Type<'static>>,
    /// The path; `*` is an element of a list.
    pub(super) steps: Vec<String>,
    /// The name of the type in apply configurations: `Object.spec.containers`.
    pub(super) type_name: String,
    pub(super) pointer: Pointer,
    /// The value before the patch; `None` if it is known to be absent.
    pub(super) value: Option<Value>,
    /// The value whose fields decide about `+()`, if it is another one: Kyverno decides about all elements of a list by
    /// the first one that it patches.
    pub(super) decider: Option<Value>,
}

impl<'k> Place<'k> {
    /// The whole object.
    pub(super) fn root(kinds: &'k [(String, String)], value: Value) -> Self {
        let schema = Schema::builtin();
        let types: Result<Vec<Type<'static>>, _> =
            kinds.iter().map(|(version, kind)| schema.kind(version, kind)).collect();
        Self {
            kinds,
            types: types.unwrap_or_default(),
            steps: Vec::new(),
            type_name: "Object".to_owned(),
            pointer: Pointer::default(),
            value: Some(value),
            decider: None,
        }
    }

    /// Whether every kind has a schema, so that an apply configuration is possible.
    pub(super) fn has_schema(&self) -> bool {
        !self.types.is_empty()
    }

    /// A field of the value.
    pub(super) fn field(&self, name: &str) -> Self {
        let types: Option<Vec<Type<'static>>> = self.types.iter().map(|ty| ty.field(name)).collect();
        Self {
            types: types.unwrap_or_default(),
            steps: extended(&self.steps, name),
            type_name: format!("{}.{name}", self.type_name),
            pointer: self.pointer.key(name),
            value: self.value.as_ref().map(|value| value.field(name)),
            decider: self.decider.as_ref().map(|value| value.field(name)),
            ..self.clone()
        }
    }

    /// An element of the value, which is a list: under a name, or a new one.
    pub(super) fn element(&self, element: Option<Value>, pointer: Pointer) -> Self {
        let types: Option<Vec<Type<'static>>> = self.types.iter().map(|ty| ty.item()).collect();
        Self {
            types: types.unwrap_or_default(),
            steps: extended(&self.steps, "*"),
            pointer,
            value: element,
            decider: None,
            ..self.clone()
        }
    }

    /// The same place without a value.
    pub(super) fn absent(&self) -> Self {
        Self {
            value: None,
            decider: None,
            ..self.clone()
        }
    }

    /// Whether structured merge replaces the value as a whole.
    pub(super) fn is_atomic(&self) -> Result<bool, Refusal> {
        self.agreed(Type::is_atomic)
    }

    /// Whether the value is a map with keys of any name.
    pub(super) fn is_open_map(&self) -> Result<bool, Refusal> {
        self.agreed(Type::is_open_map)
    }

    /// The keys by which structured merge merges the list; none for an atomic list or a set.
    pub(super) fn applied_keys(&self) -> Result<Vec<String>, Refusal> {
        self.agreed(|ty| ty.keys().into_iter().map(str::to_owned).collect::<Vec<String>>())
    }

    /// The keys by which a strategic merge merges the list; `None` if it replaces the list.
    pub(super) fn merged_keys(&self) -> Result<Option<Vec<&'static str>>, Refusal> {
        let steps: Vec<&str> = self.steps.iter().map(String::as_str).collect();
        let mut all = self
            .kinds
            .iter()
            .map(|(version, kind)| strategic::merge_keys(version, kind, &steps));
        let first = all.next().flatten();
        if all.any(|other| other != first) {
            return Err(self.disagreement());
        }
        Ok(first)
    }

    fn agreed<T: PartialEq>(&self, ask: impl Fn(Type<'static>) -> T) -> Result<T, Refusal> {
        let mut all = self.types.iter().map(|ty| ask(*ty));
        let Some(first) = all.next() else {
            let reason = format!("`{}` is not in the schema of the kind", self.steps.join("."));
            return Err(Refusal::new(RefusalCode::Pattern, reason));
        };
        if all.any(|other| other != first) {
            return Err(self.disagreement());
        }
        Ok(first)
    }

    fn disagreement(&self) -> Refusal {
        let reason = format!(
            "the kinds of the rule merge `{}` in different ways; write a rule for each kind",
            self.steps.join(".")
        );
        Refusal::new(RefusalCode::Pattern, reason)
    }
}

fn extended(steps: &[String], step: &str) -> Vec<String> {
    steps.iter().cloned().chain([step.to_owned()]).collect()
}
