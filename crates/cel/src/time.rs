//! CEL's additions to points in time: the range error, and the format of durations.
//!
//! Upstream counterpart: cel-go `common/types/{timestamp,duration,overflow}.go`.

pub use kyvtest_go_compat::text::time::{Civil, Timestamp};

use super::val::Val;
use kyvtest_go_compat::text::duration;

/// The error of a point in time outside the years 1 to 9999.
pub(crate) const OVERFLOW: Val<'static> = Val::Error("timestamp overflow");

/// A duration as cel-go's `string()` prints it: seconds as a double, then `s`.
pub(crate) fn duration_text(nanos: i64) -> String {
    format!("{}s", duration::seconds(nanos))
}

/// A duration in some unit as Go's `Hours`, `Minutes` and `Seconds` compute it: integral units and the rest separately,
/// so that the sum may round up.
pub(crate) fn in_units(nanos: i64, unit: i64) -> f64 {
    (nanos / unit) as f64 + (nanos % unit) as f64 / unit as f64
}
