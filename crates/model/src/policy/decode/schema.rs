//! Schema violations with the API server's messages: `kyverno test` prints them for documents that it drops.
//!
//! Upstream counterpart: the validation of `k8s.io/apiextensions-apiserver`, which kubectl-validate calls.

use super::{Decoder, choice};
use kyvtest_go_compat::yaml::{Kind, Node};

/// A schema violation with the API server's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaProblem {
    pub kind: SchemaProblemKind,
    pub message: String,
}

/// The part of the schema that a document violates. It decides whether the schema's CEL rules are evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaProblemKind {
    /// A missing field, a wrong type or an unsupported value: CEL rules are not evaluated.
    Structure,
    /// Any other constraint on a value; CEL rules are still evaluated.
    Value,
    /// A CEL rule.
    Rule,
}

impl Decoder<'_> {
    pub(super) fn add_schema_problem(&mut self, kind: SchemaProblemKind, message: String) {
        self.schema_problems.push(SchemaProblem { kind, message });
    }

    /// Records a schema violation, with the API server's message; the error itself is reported separately.
    pub(in crate::policy) fn schema_problem(&mut self, text: String) {
        self.add_schema_problem(SchemaProblemKind::Value, text);
    }

    /// Records that the current field violates the schema. `problem` is the API server's message after the path.
    pub(in crate::policy) fn schema_error(&mut self, node: Node<'_>, problem: String) {
        self.violation(SchemaProblemKind::Value, node, problem);
    }

    fn violation(&mut self, kind: SchemaProblemKind, node: Node<'_>, problem: String) {
        let path = self.path();
        let short = problem.rsplit(": ").next().unwrap_or(&problem).to_owned();
        self.add_schema_problem(kind, format!("{path}: {problem}"));
        self.bad_value(self.span(node), format!("`{path}` breaks the schema: {short}"));
    }

    /// Records that the current field violates a CEL rule of the schema.
    pub(in crate::policy) fn schema_rule(&mut self, node: Node<'_>, rule: &str) {
        self.violation(SchemaProblemKind::Rule, node, format!("Invalid value: {rule}"));
    }

    /// Checks that a map has exactly one of some fields.
    pub(in crate::policy) fn one_of(&mut self, node: Node<'_>, names: &[&'static str]) {
        let there = |name: &&&'static str| node.get(name).is_some_and(|part| !part.is_null());
        let count = names.iter().filter(there).count();
        if count == 1 || node.as_map().is_none() {
            return;
        }
        let path = self.path();
        let found = match count {
            0 => "none valid".to_owned(),
            count => format!("{count} valid alternatives"),
        };
        self.schema_problem(format!(
            "<nil>: Invalid value: \"\": \"{path}\" must validate one and only one schema (oneOf). Found {found}"
        ));
        if let (0, Some(first)) = (count, names.first()) {
            self.add_schema_problem(SchemaProblemKind::Structure, format!("{path}.{first}: Required value"));
        }
        let message = format!("`{path}` must have exactly one of {}", choice(names));
        self.bad_value(self.span(node), message);
    }

    pub(super) fn note_wrong_type(&mut self, node: Node<'_>, wanted: &str) {
        let (path, of, wants) = (self.path(), schema_type(node), schema_word(wanted));
        let message = format!("{path}: Invalid value: \"{of}\": {path} in body must be of type {wants}: \"{of}\"");
        self.add_schema_problem(SchemaProblemKind::Structure, message);
    }

    /// Records that a value has the form that the schema forbids.
    pub(super) fn note_forbidden(&mut self, path: &str) {
        self.schema_problem(format!(
            "<nil>: Invalid value: \"\": \"{path}\" must not validate the schema (not)"
        ));
    }

    pub(super) fn note_unsupported(&mut self, found: &str, words: &[&str]) {
        let path = self.path();
        let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
        let message = format!(
            "{path}: Unsupported value: {found:?}: supported values: {}",
            words.join(", ")
        );
        self.add_schema_problem(SchemaProblemKind::Structure, message);
    }
}

/// The JSON type of a node, as the schema's errors name it.
fn schema_type(node: Node<'_>) -> &'static str {
    match node.kind() {
        Kind::Null => "null",
        Kind::Bool(_) => "boolean",
        Kind::Int(_) => "integer",
        Kind::Uint(_) | Kind::Float(_) => "number",
        Kind::Str(_) => "string",
        Kind::Seq(_) => "array",
        Kind::Map(_) => "object",
    }
}

/// The schema's name of an expected type.
fn schema_word(wanted: &str) -> &'static str {
    match wanted {
        "a map" => "object",
        "a list" => "array",
        "an integer" => "integer",
        "`true` or `false`" => "boolean",
        _ => "string",
    }
}
