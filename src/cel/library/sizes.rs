//! Sizes of values as the cost functions of the libraries measure them.
//!
//! Upstream counterpart: the helpers of cel-go `interpreter/runtimecost.go` and `k8s.io/apiserver/pkg/cel/library/cost.go`.

use crate::cel::{ops, val::Val};

/// What looking at one character of a text costs.
pub(crate) const STRING_TRAVERSAL: f64 = 0.1;
/// What one character of a regular expression costs.
pub(crate) const REGEX_LENGTH: f64 = 0.25;
/// What making a list costs.
pub(crate) const LIST_BASE: u64 = 10;
/// What a call costs by itself.
pub(crate) const CALL: u64 = 1;

/// The size of a value: code points, bytes, elements, entries; 1 for what has no size.
pub(crate) fn size(value: &Val<'_>) -> u64 {
    match value {
        Val::String(s) => ops::characters(s) as u64,
        Val::Bytes(bytes) => bytes.len() as u64,
        Val::List(_) | Val::DocumentList(_) | Val::Map(_) | Val::DocumentMap(_) => value.len() as u64,
        Val::Opaque(opaque) => opaque.size().unwrap_or(1),
        _ => 1,
    }
}

/// A size times a factor, rounded up.
pub(crate) fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

/// What looking at all of a value costs.
pub(crate) fn traversal(value: &Val<'_>) -> u64 {
    match value {
        Val::String(s) => (s.len() as f64 * STRING_TRAVERSAL) as u64,
        Val::Bytes(bytes) => (bytes.len() as f64 * STRING_TRAVERSAL) as u64,
        Val::List(_) | Val::DocumentList(_) => value.list_iter().map(|item| traversal(&item)).sum(),
        Val::Map(_) | Val::DocumentMap(_) => value
            .map_iter()
            .map(|(key, value)| traversal(&key) + traversal(&value))
            .sum(),
        _ => 1,
    }
}
