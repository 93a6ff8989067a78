//! The API server's findings about an object, located in its source.

use super::validate_admission;
use crate::policy::{Subtree, place};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Span},
    yaml::Node,
};

/// Checks a native policy or binding as written: a diagnostic for each field that the API server rejects.
pub fn admission_diagnostics(source: &Subtree) -> Vec<Diagnostic> {
    let document = source.document();
    let checked = validate_admission(document.root());
    let errors = checked.errors.into_iter();
    errors
        .map(|error| Diagnostic::at(Code::NativeRefused, find(source, &error.field), error.text))
        .collect()
}

/// The location of a field, or of its nearest existing ancestor.
fn find(source: &Subtree, field: &str) -> Span {
    let mut node = source.node();
    for step in field.split(['.', '[']) {
        let next = match step.strip_suffix(']') {
            Some(place) => item(node, place),
            None => node.get(step),
        };
        match next {
            Some(next) => node = next,
            None => break,
        }
    }
    place(source.file(), node.span())
}

fn item<'n>(node: Node<'n>, place: &str) -> Option<Node<'n>> {
    node.as_seq()?.get(place.parse().ok()?)
}
