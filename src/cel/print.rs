//! Values as text: the notation of our reference data.

use super::val::Val;

/// A value in the notation of the reference data: `i1`, `u1`, `d0.5`, `"text"`, `b<hex>`, `[…]`, `{…}` with sorted
/// entries, `opt(…)`, `none`, `dur …`, `ts …`, `type …`; other types by their name.
pub fn notation(value: Val<'_>) -> String {
    let _ = value;
    String::new()
}
