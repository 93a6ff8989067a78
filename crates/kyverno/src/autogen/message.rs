//! References in messages (`$(./../spec/image)`), shifted to where a pattern goes when it is wrapped.
//!
//! Upstream counterpart: `FindAndShiftReferences` in `pkg/engine/variables/vars.go`, which panics on a reference of an
//! `anyPattern` message that is too short to hold an index; here that reference is left as it is.

use kyvtest_go_compat::text::variable;

/// Puts `shift` behind `pivot` in every reference of a message.
pub(super) fn shift(message: &str, shift: &str, pivot: &str) -> String {
    let mut out = message.to_owned();
    let mut pivot = pivot.to_owned();
    for found in variable::references(message) {
        let whole = &message[found.start..found.end];
        let (before, reference) = match whole.find("$(") {
            Some(at) => whole.split_at(at),
            None => continue,
        };
        if pivot == "anyPattern" {
            // Upstream takes the part behind the pivot even if there is no pivot. The index of the first reference goes
            // for all of them.
            let behind = reference.find(&pivot).map_or(pivot.len(), |at| at + pivot.len() + 1);
            let Some(rest) = reference.get(behind..) else {
                continue;
            };
            let index = rest.split('/').next().unwrap_or_default();
            pivot = format!("{pivot}/{index}");
        }
        let shifted = reference.replace(&pivot, &format!("{pivot}/{shift}"));
        out = out.replacen(whole, &format!("{before}{shifted}"), 1);
    }
    out
}
