//! Points in time as Go's `time.Time` keeps them: an instant and the offset it was written with.
//!
//! Upstream counterpart: Go's `time` package as cel-go's `common/types/timestamp.go` uses it: `time.Parse` with the
//! layout RFC3339 (lenient as upstream), RFC3339Nano for printing, `time.LoadLocation` for zones. Other layouts are in
//! `time_layout`.
//!
//! Deviations: the zone `Local` is UTC, and names of files that are not zones (`zone.tab`, directories) are unknown
//! zones.

use std::fmt;

use super::{duration, number};

/// 0001-01-01T00:00:00Z
const MIN_SECONDS: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z
const MAX_SECONDS: i64 = 253_402_300_799;

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Nanoseconds within the second, below 1,000,000,000.
    pub nanos: u32,
    /// The offset from UTC in seconds that the source text had; it shows when the value is printed.
    pub offset: i32,
}

impl Timestamp {
    /// Returns a point in time in UTC; `None` outside the years 1 to 9999.
    pub fn from_seconds(seconds: i64) -> Option<Self> {
        (MIN_SECONDS..=MAX_SECONDS).contains(&seconds).then_some(Self {
            seconds,
            nanos: 0,
            offset: 0,
        })
    }

    /// The instant, regardless of the offset.
    pub fn instant(self) -> (i64, u32) {
        (self.seconds, self.nanos)
    }

    /// Go's zero time, which `optional.ofNonZeroValue` tests for: the first instant of year 1.
    pub fn is_zero(self) -> bool {
        self.instant() == (MIN_SECONDS, 0)
    }

    /// Reports whether the instant lies within the years 1 to 9999.
    pub fn is_in_range(self) -> bool {
        (MIN_SECONDS..=MAX_SECONDS).contains(&self.seconds)
    }

    /// Adds nanoseconds; `None` outside the years 1 to 9999.
    pub fn plus(self, nanos: i64) -> Option<Self> {
        let total = i64::from(self.nanos) + nanos.rem_euclid(NANOS_PER_SECOND);
        let seconds = nanos.div_euclid(NANOS_PER_SECOND) + total / NANOS_PER_SECOND;
        let later = Self {
            seconds: self.seconds.checked_add(seconds)?,
            nanos: (total % NANOS_PER_SECOND) as u32,
            offset: self.offset,
        };
        later.is_in_range().then_some(later)
    }

    /// Rounds down to a multiple of `step` nanoseconds since the year 1; returns the time itself if `step` is not
    /// positive (Go's `Time.Truncate`).
    pub fn truncate(self, step: i64) -> Self {
        if step <= 0 {
            return self;
        }
        let nanos = i128::from(NANOS_PER_SECOND);
        let since_year_1 = (i128::from(self.seconds) - i128::from(MIN_SECONDS)) * nanos + i128::from(self.nanos);
        let truncated = since_year_1 - since_year_1.rem_euclid(i128::from(step));
        Self {
            seconds: (truncated.div_euclid(nanos) + i128::from(MIN_SECONDS)) as i64,
            nanos: truncated.rem_euclid(nanos) as u32,
            offset: self.offset,
        }
    }

    /// The nanoseconds since another time; `None` if they do not fit 64 bits.
    pub fn since(self, earlier: Self) -> Option<i64> {
        (self.seconds.checked_sub(earlier.seconds)?)
            .checked_mul(NANOS_PER_SECOND)?
            .checked_add(i64::from(self.nanos) - i64::from(earlier.nanos))
    }

    /// Parses a time like Go's `time.Parse(time.RFC3339, …)`: beyond the RFC it accepts hours of one digit, a comma
    /// before the fraction, and offsets up to 24:60.
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = text.as_bytes();
        let year = digits(&mut rest, 4)?;
        literal(&mut rest, b'-')?;
        let month = digits(&mut rest, 2)?;
        literal(&mut rest, b'-')?;
        let day = digits(&mut rest, 2)?;
        literal(&mut rest, b'T')?;
        let hour = if rest.get(1).is_some_and(u8::is_ascii_digit) {
            digits(&mut rest, 2)?
        } else {
            digits(&mut rest, 1)?
        };
        literal(&mut rest, b':')?;
        let minute = digits(&mut rest, 2)?;
        literal(&mut rest, b':')?;
        let second = digits(&mut rest, 2)?;
        let nanos = fraction(&mut rest);
        let offset = offset(&mut rest)?;
        if !rest.is_empty()
            || !(1..=12).contains(&month)
            || !(1..=days_in_month(year, month)).contains(&day)
            || hour > 23
            || minute > 59
            || second > 59
        {
            return None;
        }
        let local = days_from_civil(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
        Some(Self {
            seconds: local - i64::from(offset),
            nanos,
            offset,
        })
    }

    /// Reports whether a string has the form of RFC 3339, without the extensions of [`Timestamp::parse`]. Does not
    /// check the calendar.
    pub fn is_strict_rfc3339(text: &str) -> bool {
        fn strict(mut rest: &[u8]) -> Option<()> {
            let mut within = |count, low: i64, high: i64, after: &[u8]| {
                let number = digits(&mut rest, count)?;
                let (separator, tail) = if after.is_empty() {
                    return (low..=high).contains(&number).then_some(rest);
                } else {
                    rest.split_first()?
                };
                rest = tail;
                ((low..=high).contains(&number) && after.contains(separator)).then_some(rest)
            };
            within(4, 0, 9999, b"-")?;
            within(2, 1, 12, b"-")?;
            within(2, 1, 31, b"-Tt".get(1..)?)?;
            within(2, 0, 23, b":")?;
            within(2, 0, 59, b":")?;
            rest = within(2, 0, 60, b"")?;
            if let [b'.', tail @ ..] = rest {
                let count = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
                rest = tail.get(count..).filter(|_| count > 0)?;
            }
            match rest {
                [b'Z' | b'z'] => Some(()),
                [b'+' | b'-', offset @ ..] if offset.len() == 5 => {
                    let mut offset = offset;
                    let hours = digits(&mut offset, 2)?;
                    literal(&mut offset, b':')?;
                    let minutes = digits(&mut offset, 2)?;
                    (hours <= 23 && minutes <= 59).then_some(())
                }
                _ => None,
            }
        }
        strict(text.as_bytes()).is_some()
    }

    /// Date and time of day at the offset the time was written with.
    pub fn local(self) -> Civil {
        Civil::new(self.seconds + i64::from(self.offset), self.nanos)
    }

    /// Date and time of day in UTC.
    pub fn utc(self) -> Civil {
        Civil::new(self.seconds, self.nanos)
    }

    /// Date and time of day in a zone as cel-go reads it: a zone name, or `±HH:MM`. The error is cel-go's message.
    pub fn in_zone(self, zone: &str) -> Result<Civil, String> {
        let offset = match zone.split_once(':') {
            Some((hours, minutes)) => fixed_offset(zone, hours, minutes)?,
            None => named_offset(zone, self)?,
        };
        Ok(Civil::new(self.seconds + offset, self.nanos))
    }

    /// The same instant with the offset of UTC.
    pub fn to_utc(self) -> Self {
        Self { offset: 0, ..self }
    }
}

impl fmt::Display for Timestamp {
    /// Go's layout RFC3339Nano: the fraction without trailing zeros, `Z` for no offset.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let civil = self.local();
        let sign = if civil.year < 0 { "-" } else { "" };
        write!(
            f,
            "{sign}{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            civil.year.unsigned_abs(),
            civil.month,
            civil.day,
            civil.hour,
            civil.minute,
            civil.second
        )?;
        if self.nanos != 0 {
            let fraction = format!("{:09}", self.nanos);
            write!(f, ".{}", fraction.trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return f.write_str("Z");
        }
        // Go drops the seconds of an offset before it determines the sign.
        let minutes = self.offset / 60;
        let sign = if minutes < 0 { '-' } else { '+' };
        let minutes = minutes.abs();
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Civil {
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
    /// From 0.
    pub day_of_year: i64,
    /// Sunday is 0.
    pub weekday: i64,
    /// 0 to 23.
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub millisecond: i64,
}

impl Civil {
    fn new(local_seconds: i64, nanos: u32) -> Self {
        let days = local_seconds.div_euclid(SECONDS_PER_DAY);
        let second = local_seconds.rem_euclid(SECONDS_PER_DAY);
        let (year, month, day) = civil_from_days(days);
        Self {
            year,
            month,
            day,
            day_of_year: days - days_from_civil(year, 1, 1),
            // 1970-01-01 was a Thursday.
            weekday: (days + 4).rem_euclid(7),
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
            millisecond: i64::from(nanos / 1_000_000),
        }
    }
}

fn literal(rest: &mut &[u8], wanted: u8) -> Option<()> {
    let (first, tail) = rest.split_first()?;
    *rest = tail;
    (*first == wanted).then_some(())
}

fn digits(rest: &mut &[u8], count: usize) -> Option<i64> {
    let (head, tail) = rest.split_at_checked(count)?;
    *rest = tail;
    head.iter().try_fold(0, |number, byte| {
        byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'))
    })
}

/// The digits after `.` or `,`; digits after the ninth are dropped.
fn fraction(rest: &mut &[u8]) -> u32 {
    let [b'.' | b',', tail @ ..] = *rest else { return 0 };
    let count = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return 0;
    }
    let nanos = (0..9).fold(0, |nanos, i| {
        let digit = if i < count { tail[i] - b'0' } else { 0 };
        nanos * 10 + u32::from(digit)
    });
    *rest = &tail[count..];
    nanos
}

fn offset(rest: &mut &[u8]) -> Option<i32> {
    let (sign, tail) = rest.split_first()?;
    *rest = tail;
    let sign = match sign {
        b'Z' => return Some(0),
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let hours = digits(rest, 2)?;
    literal(rest, b':')?;
    let minutes = digits(rest, 2)?;
    (hours <= 24 && minutes <= 60).then_some(sign * (hours * 60 + minutes) as i32 * 60)
}

/// The seconds of an offset `±HH:MM`; hours and minutes are any numbers that Go's `Atoi` accepts.
fn fixed_offset(zone: &str, hours: &str, minutes: &str) -> Result<i64, String> {
    let number = |text| number::atoi(text).map_err(|error| error.to_string());
    let hours = number(hours)?;
    let minutes = number(minutes)?;
    let hours = hours.wrapping_mul(60);
    let total = if zone.starts_with('-') {
        hours.wrapping_sub(minutes)
    } else {
        hours.wrapping_add(minutes)
    };
    // Upstream goes through a duration, which wraps around.
    Ok(duration::seconds(total.wrapping_mul(60 * NANOS_PER_SECOND)) as i64)
}

/// The offset of a named zone at an instant, as Go's `time.LoadLocation` finds it.
fn named_offset(name: &str, at: Timestamp) -> Result<i64, String> {
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(0);
    }
    let invalid = name.contains("..") || name.starts_with(['/', '\\']);
    if invalid {
        return Err("time: invalid location name".to_owned());
    }
    // Go looks for a file of that name, so names are case-sensitive.
    let zone = jiff::tz::TimeZone::get(name)
        .ok()
        .filter(|zone| zone.iana_name() == Some(name))
        .ok_or_else(|| format!("unknown time zone {name}"))?;
    let instant = jiff::Timestamp::new(at.seconds, at.nanos as i32).unwrap_or(jiff::Timestamp::MAX);
    Ok(i64::from(zone.to_offset(instant).seconds()))
}

pub(crate) fn is_leap_year(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub(crate) fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap_year(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a date of the Gregorian calendar. Years start in March, so that the leap day comes last.
pub(crate) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}
