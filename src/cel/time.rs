//! Points in time as Go's `time.Time` keeps them for CEL: an instant and the offset it was written with.

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Nanoseconds within the second, below 1,000,000,000.
    pub nanos: u32,
    /// The offset from UTC in seconds that the text had; it shows when the value is printed.
    pub offset: i32,
}

impl Timestamp {
    /// The instant, whatever the offset it was written with.
    pub fn instant(self) -> (i64, u32) {
        (self.seconds, self.nanos)
    }
}
