//! Decodes models from values, without a file.

use std::sync::Arc;

use super::decode::{Decoder, Style};
use kyvtest_go_compat::{
    diagnostic::{Diagnostic, FileId, Sources},
    value::Value,
    yaml::{self, Node},
};

/// Decodes a value. Spans of diagnostics refer to the value's JSON text.
pub(super) fn from_value<T>(
    value: Value<'_>,
    decode: impl for<'t> FnOnce(&mut Decoder<'t>, Node<'t>, FileId) -> Option<T>,
) -> (Option<T>, Vec<Diagnostic>) {
    let text = value.to_json();
    let mut sources = Sources::new();
    let file = sources.add("value", text.as_str());
    match yaml::read_first(&text, yaml::Mode::Lax, &yaml::Limits::default()) {
        Ok(tree) => {
            let tree = Arc::new(tree);
            let mut decoder = Decoder::new(&tree, file, Style::Schema);
            let decoded = decode(&mut decoder, tree.root(), file);
            (decoded, decoder.finish().diagnostics)
        }
        Err(error) => (None, vec![Diagnostic::from_yaml(file, &error)]),
    }
}
