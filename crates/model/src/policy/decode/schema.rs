//! Schema violations with the API server's messages: `kyverno test` prints them for documents that it drops.
//!
//! Upstream counterpart: the validation of `k8s.io/apiextensions-apiserver`, which kubectl-validate calls.

use super::{Decoder, choice};
use kyvtest_go_compat::yaml::{Kind, Node};

impl Decoder<'_> {
    /// Records a schema violation, with the API server's message; the error itself is reported separately.
    pub(in crate::policy) fn schema_problem(&mut self, text: String) {
        self.schema_problems.push(text);
    }

    /// Records that the current field violates the schema. `problem` is the API server's message after the path.
    pub(in crate::policy) fn schema_error(&mut self, node: Node<'_>, problem: String) {
        let path = self.path();
        let short = problem.rsplit(": ").next().unwrap_or(&problem).to_owned();
        self.schema_problems.push(format!("{path}: {problem}"));
        self.bad_value(self.span(node), format!("`{path}` breaks the schema: {short}"));
    }

    /// Records that the current field violates a CEL rule of the schema.
    pub(in crate::policy) fn schema_rule(&mut self, node: Node<'_>, rule: &str) {
        self.schema_error(node, format!("Invalid value: {rule}"));
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
        self.schema_problems.push(format!(
            "<nil>: Invalid value: \"\": \"{path}\" must validate one and only one schema (oneOf). Found {found}"
        ));
        if let (0, Some(first)) = (count, names.first()) {
            self.schema_problems.push(format!("{path}.{first}: Required value"));
        }
        let message = format!("`{path}` must have exactly one of {}", choice(names));
        self.bad_value(self.span(node), message);
    }

    pub(super) fn note_wrong_type(&mut self, node: Node<'_>, wanted: &str) {
        let (path, of, wants) = (self.path(), schema_type(node), schema_word(wanted));
        self.schema_problems.push(format!(
            "{path}: Invalid value: \"{of}\": {path} in body must be of type {wants}: \"{of}\""
        ));
    }

    pub(super) fn note_unsupported(&mut self, found: &str, words: &[&str]) {
        let path = self.path();
        let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
        self.schema_problems.push(format!(
            "{path}: Unsupported value: {found:?}: supported values: {}",
            words.join(", ")
        ));
    }
}

/// The JSON type of a node, as the schema's errors name it.
fn schema_type(node: Node<'_>) -> &'static str {
    match node.kind() {
        Kind::Null => "null",
        Kind::Bool(_) => "boolean",
        Kind::Int(_) | Kind::Uint(_) => "integer",
        Kind::Float(_) => "number",
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
