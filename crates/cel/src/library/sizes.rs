//! Sizes of values as the cost functions of the libraries measure them.
//!
//! Upstream counterpart: the helpers of cel-go `interpreter/runtimecost.go` and `k8s.io/apiserver/pkg/cel/library/cost.go`.

use crate::{ops, val::Val};

/// The cost of visiting one character of a string.
pub(crate) const STRING_TRAVERSAL: f64 = 0.1;
/// The cost of one character of a regular expression.
pub(crate) const REGEX_LENGTH: f64 = 0.25;
/// The cost of creating a list.
pub(crate) const LIST_BASE: u64 = 10;
/// The base cost of a call.
pub(crate) const CALL: u64 = 1;

/// The size of a value: code points, bytes, elements, entries; 1 if it has no size.
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

/// The cost of traversing a value.
pub(crate) fn traversal(value: &Val<'_>) -> u64 {
    let mut steps = MOST_STEPS;
    let sum = traversal_within(value, &mut steps);
    if steps == 0 { u64::MAX / 2 } else { sum }
}

/// Bounds the traversal of values with shared parts, which are visited each time; far above all cost limits.
const MOST_STEPS: u64 = 1 << 21;

fn traversal_within(value: &Val<'_>, steps: &mut u64) -> u64 {
    *steps = steps.saturating_sub(1);
    if *steps == 0 {
        return 0;
    }
    match value {
        Val::String(s) => (s.len() as f64 * STRING_TRAVERSAL) as u64,
        Val::Bytes(bytes) => (bytes.len() as f64 * STRING_TRAVERSAL) as u64,
        Val::List(_) | Val::DocumentList(_) => {
            let items = value
                .list_iter()
                .map_while(|item| (*steps > 0).then(|| traversal_within(&item, steps)));
            items.fold(0, u64::saturating_add)
        }
        Val::Map(_) | Val::DocumentMap(_) => value
            .map_iter()
            .map_while(|(key, value)| {
                (*steps > 0).then(|| traversal_within(&key, steps).saturating_add(traversal_within(&value, steps)))
            })
            .fold(0, u64::saturating_add),
        _ => 1,
    }
}
