//! The costs that Kubernetes charges for functions of cel-go's libraries and of its own lists and regular expressions.
//!
//! Upstream counterpart: `CallCost` of `k8s.io/apiserver/pkg/cel/library/cost.go`.

use super::sizes::{REGEX_LENGTH, STRING_TRAVERSAL, scaled, size, traversal};
use crate::{decl::Library, val::Val};

type Cost = for<'a> fn(&str, &[Val<'a>], &Val<'a>) -> Option<u64>;

/// Adds the costs to the declared functions.
pub(super) fn declare(library: &mut Library) {
    let costs: [(&[&str], Cost); 5] = [
        (
            &["isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"],
            |_, args, _| Some(args.first().map_or(0, traversal)),
        ),
        (&["lowerAscii", "upperAscii", "substring", "trim"], |_, args, _| {
            args.first().map(|text| scaled(size(text), STRING_TRAVERSAL))
        }),
        (&["replace", "split"], |_, args, _| {
            args.first().map(|text| scaled(size(text), 2.0 * STRING_TRAVERSAL))
        }),
        (&["join"], |_, _, result| {
            Some(scaled(size(result), 2.0 * STRING_TRAVERSAL))
        }),
        (&["find", "findAll"], |_, args, _| {
            let [text, pattern, ..] = args else { return None };
            Some(scaled(size(text) + 1, STRING_TRAVERSAL) * scaled(size(pattern), REGEX_LENGTH))
        }),
    ];
    for (names, cost) in costs {
        for name in names {
            if let Some(function) = library.function_mut(name) {
                function.cost = Some(cost);
            }
        }
    }
}
