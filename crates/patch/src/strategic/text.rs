//! Nodes as text for error messages.
//!
//! Upstream counterpart: the encoder of go.yaml.in/yaml/v3 on nodes that were read from JSON, hence in flow style, on one
//! line of any length.

use kyvtest_go_compat::yaml::{go_double, go_key};

use super::node::{Arena, Body, Id, Tag};

/// Appends a node.
pub(super) fn write(out: &mut String, arena: &Arena<'_>, id: Id) {
    match arena.body(id) {
        Body::Scalar { text, .. } if arena.is_quoted(id) => out.push_str(&go_double(text)),
        Body::Scalar { tag: Tag::String, text } => out.push_str(&go_key(text)),
        Body::Scalar { text, .. } => out.push_str(text),
        Body::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write(out, arena, *item);
            }
            out.push(']');
        }
        Body::Map(entries) => {
            out.push('{');
            for (i, (key, item)) in entries.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                if is_simple(key) {
                    out.push_str(&go_double(key));
                    out.push_str(": ");
                } else {
                    out.push_str("? ");
                    out.push_str(&go_double(key));
                    out.push_str(" : ");
                }
                write(out, arena, *item);
            }
            out.push('}');
        }
    }
}

/// Whether the encoder writes a key without a question mark.
fn is_simple(key: &str) -> bool {
    key.len() <= 128 && !key.contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'])
}
