//! Times in the layouts of Go's `time` package.
//!
//! Upstream counterpart: Go's `time/format.go` (`Parse`, `nextStdChunk`), error messages included.
//!
//! Known deviation: the local zone is UTC, so that the abbreviation of any other zone means an offset of zero, as for
//! Go on a machine that runs in UTC.

use std::fmt::Write as _;

use super::time::{Timestamp, days_from_civil, days_in_month, is_leap_year};

pub const RFC3339: &str = "2006-01-02T15:04:05Z07:00";

/// The names of the months in English.
pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// A piece of a layout that denotes a part of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunk {
    LongMonth,
    Month,
    NumMonth,
    ZeroMonth,
    LongWeekDay,
    WeekDay,
    Day,
    UnderDay,
    ZeroDay,
    UnderYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    UpperPm,
    LowerPm,
    ZoneName,
    /// A numeric offset; `z` accepts `Z` for UTC.
    Zone {
        z: bool,
        form: ZoneForm,
    },
    /// As many digits after the point as the layout has.
    ExactFraction(usize),
    /// Any number of digits after the point, or no point.
    Fraction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ZoneForm {
    Hours,
    Minutes,
    ColonMinutes,
    Seconds,
    ColonSeconds,
}

/// The first chunk of a layout with its start and length.
fn next_chunk(layout: &[u8]) -> Option<(usize, usize, Chunk)> {
    (0..layout.len()).find_map(|at| chunk_at(layout, at))
}

fn chunk_at(layout: &[u8], at: usize) -> Option<(usize, usize, Chunk)> {
    let rest = layout.get(at..)?;
    let lower_after = |length: usize| rest.get(length).is_some_and(u8::is_ascii_lowercase);
    let found = |length, chunk| Some((at, length, chunk));
    match rest {
        [b'J', ..] if rest.starts_with(b"January") => found(7, Chunk::LongMonth),
        [b'J', ..] if rest.starts_with(b"Jan") && !lower_after(3) => found(3, Chunk::Month),
        [b'M', ..] if rest.starts_with(b"Monday") => found(6, Chunk::LongWeekDay),
        [b'M', ..] if rest.starts_with(b"Mon") && !lower_after(3) => found(3, Chunk::WeekDay),
        [b'M', b'S', b'T', ..] => found(3, Chunk::ZoneName),
        [b'0', digit @ b'1'..=b'6', ..] => {
            let chunk = match digit {
                b'1' => Chunk::ZeroMonth,
                b'2' => Chunk::ZeroDay,
                b'3' => Chunk::ZeroHour12,
                b'4' => Chunk::ZeroMinute,
                b'5' => Chunk::ZeroSecond,
                _ => Chunk::Year,
            };
            found(2, chunk)
        }
        [b'0', b'0', b'2', ..] => found(3, Chunk::ZeroYearDay),
        [b'1', b'5', ..] => found(2, Chunk::Hour),
        [b'1', ..] => found(1, Chunk::NumMonth),
        [b'2', b'0', b'0', b'6', ..] => found(4, Chunk::LongYear),
        [b'2', ..] => found(1, Chunk::Day),
        // A literal underscore before a year.
        [b'_', b'2', b'0', b'0', b'6', ..] => Some((at + 1, 4, Chunk::LongYear)),
        [b'_', b'2', ..] => found(2, Chunk::UnderDay),
        [b'_', b'_', b'2', ..] => found(3, Chunk::UnderYearDay),
        [b'3', ..] => found(1, Chunk::Hour12),
        [b'4', ..] => found(1, Chunk::Minute),
        [b'5', ..] => found(1, Chunk::Second),
        [b'P', b'M', ..] => found(2, Chunk::UpperPm),
        [b'p', b'm', ..] => found(2, Chunk::LowerPm),
        [sign @ (b'-' | b'Z'), zone @ ..] => {
            let z = *sign == b'Z';
            let forms: [(&[u8], ZoneForm); 5] = [
                (b"070000", ZoneForm::Seconds),
                (b"07:00:00", ZoneForm::ColonSeconds),
                (b"0700", ZoneForm::Minutes),
                (b"07:00", ZoneForm::ColonMinutes),
                (b"07", ZoneForm::Hours),
            ];
            let (text, form) = forms.into_iter().find(|(text, _)| zone.starts_with(text))?;
            found(1 + text.len(), Chunk::Zone { z, form })
        }
        [b'.' | b',', digit @ (b'0' | b'9'), ..] => {
            let count = rest.iter().skip(1).take_while(|byte| *byte == digit).count();
            if rest.get(1 + count).is_some_and(u8::is_ascii_digit) {
                return None;
            }
            let chunk = if *digit == b'0' {
                Chunk::ExactFraction(count)
            } else {
                Chunk::Fraction
            };
            found(1 + count, chunk)
        }
        _ => None,
    }
}

/// The cause of a failure to read a chunk.
enum Failure {
    Bad,
    OutOfRange(&'static str),
}

type Read<T> = Result<T, Failure>;

/// The parts read so far.
struct Parts {
    year: i64,
    month: Option<i64>,
    day: Option<i64>,
    year_day: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    nanos: u32,
    pm: bool,
    am: bool,
    utc: bool,
    /// Go's marker for "no offset" is the offset of minus one second.
    offset: i64,
    zone_name: Vec<u8>,
}

/// Parses a time like Go's `time.Parse`; the error is Go's message.
pub fn parse(layout: &str, text: &str) -> Result<Timestamp, String> {
    let problem = |message: &str| format!("parsing time {}{message}", quote(text.as_bytes()));
    let mismatch = |element: &[u8], value: &[u8]| {
        problem(&format!(
            " as {}: cannot parse {} as {}",
            quote(layout.as_bytes()),
            quote(value),
            quote(element)
        ))
    };
    let mut parts = Parts {
        year: 0,
        month: None,
        day: None,
        year_day: None,
        hour: 0,
        minute: 0,
        second: 0,
        nanos: 0,
        pm: false,
        am: false,
        utc: false,
        offset: -1,
        zone_name: Vec::new(),
    };
    let mut rest_layout = layout.as_bytes();
    let mut value = text.as_bytes();
    loop {
        let next = next_chunk(rest_layout);
        let (start, length) = next.map_or((rest_layout.len(), 0), |(start, length, _)| (start, length));
        let (prefix, after) = rest_layout.split_at(start);
        value = match skip(value, prefix) {
            Ok(value) => value,
            Err(value) => return Err(mismatch(prefix, value)),
        };
        let Some((_, _, chunk)) = next else {
            if value.is_empty() {
                break;
            }
            return Err(problem(&format!(": extra text: {}", quote(value))));
        };
        let (element, after) = after.split_at(length);
        rest_layout = after;
        let hold = value;
        match parts.read(chunk, &mut value, rest_layout) {
            Ok(()) => {}
            Err(Failure::OutOfRange(what)) => return Err(problem(&format!(": {what} out of range"))),
            Err(Failure::Bad) => return Err(mismatch(element, hold)),
        }
    }
    parts.finish().map_err(problem)
}

impl Parts {
    fn read(&mut self, chunk: Chunk, value: &mut &[u8], rest_layout: &[u8]) -> Read<()> {
        let in_range = |number: i64, low: i64, high: i64, what| {
            if (low..=high).contains(&number) {
                Ok(number)
            } else {
                Err(Failure::OutOfRange(what))
            }
        };
        match chunk {
            Chunk::Year => {
                let year = atoi(take(value, 2)?)?;
                self.year = if year >= 69 { year + 1900 } else { year + 2000 };
            }
            Chunk::LongYear => {
                if value.len() < 4 || !is_digit(value, 0) {
                    return Err(Failure::Bad);
                }
                self.year = atoi(take(value, 4)?)?;
            }
            Chunk::Month => self.month = Some(name(value, &MONTHS, Some(3))? + 1),
            Chunk::LongMonth => self.month = Some(name(value, &MONTHS, None)? + 1),
            Chunk::NumMonth | Chunk::ZeroMonth => {
                let month = number(value, chunk == Chunk::ZeroMonth)?;
                self.month = Some(in_range(month, 1, 12, "month")?);
            }
            Chunk::WeekDay => drop(name(value, &DAYS, Some(3))?),
            Chunk::LongWeekDay => drop(name(value, &DAYS, None)?),
            Chunk::Day | Chunk::UnderDay | Chunk::ZeroDay => {
                if chunk == Chunk::UnderDay {
                    *value = value.strip_prefix(b" ").unwrap_or(value);
                }
                self.day = Some(number(value, chunk == Chunk::ZeroDay)?);
            }
            Chunk::UnderYearDay | Chunk::ZeroYearDay => {
                for _ in 0..2 {
                    if chunk == Chunk::UnderYearDay {
                        *value = value.strip_prefix(b" ").unwrap_or(value);
                    }
                }
                let count = value.iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
                if count == 0 || chunk == Chunk::ZeroYearDay && count != 3 {
                    return Err(Failure::Bad);
                }
                self.year_day = Some(atoi(take(value, count)?)?);
            }
            Chunk::Hour => self.hour = in_range(number(value, false)?, 0, 23, "hour")?,
            Chunk::Hour12 | Chunk::ZeroHour12 => {
                self.hour = in_range(number(value, chunk == Chunk::ZeroHour12)?, 0, 12, "hour")?;
            }
            Chunk::Minute | Chunk::ZeroMinute => {
                self.minute = in_range(number(value, chunk == Chunk::ZeroMinute)?, 0, 59, "minute")?;
            }
            Chunk::Second | Chunk::ZeroSecond => {
                self.second = in_range(number(value, chunk == Chunk::ZeroSecond)?, 0, 59, "second")?;
                // A fraction is accepted even if the layout has none.
                if let [b'.' | b',', b'0'..=b'9', ..] = **value {
                    let fraction = next_chunk(rest_layout).map(|(_, _, chunk)| chunk);
                    if !matches!(fraction, Some(Chunk::ExactFraction(_) | Chunk::Fraction)) {
                        self.fraction(value)?;
                    }
                }
            }
            Chunk::UpperPm | Chunk::LowerPm => {
                let half = take(value, 2)?;
                let (pm, am): (&[u8], &[u8]) = if chunk == Chunk::UpperPm {
                    (b"PM", b"AM")
                } else {
                    (b"pm", b"am")
                };
                if half == pm {
                    self.pm = true;
                } else if half == am {
                    self.am = true;
                } else {
                    return Err(Failure::Bad);
                }
            }
            Chunk::Zone { z, form } => match **value {
                [b'Z', ..] if z => {
                    *value = value.get(1..).unwrap_or_default();
                    self.utc = true;
                }
                _ => self.offset = offset(value, form)?,
            },
            Chunk::ZoneName => {
                if let Some(after) = value.strip_prefix(b"UTC") {
                    self.utc = true;
                    *value = after;
                } else {
                    let length = zone_name(value).ok_or(Failure::Bad)?;
                    self.zone_name = take(value, length)?.to_vec();
                }
            }
            Chunk::ExactFraction(count) => {
                let digits = take(value, 1 + count)?;
                self.nanos = nanoseconds(digits)?;
            }
            Chunk::Fraction => {
                if let [b'.' | b',', b'0'..=b'9', ..] = **value {
                    self.fraction(value)?;
                }
            }
        }
        Ok(())
    }

    /// All digits after a point.
    fn fraction(&mut self, value: &mut &[u8]) -> Read<()> {
        let count = value.iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count();
        self.nanos = nanoseconds(take(value, 1 + count)?)?;
        Ok(())
    }

    fn finish(mut self) -> Result<Timestamp, &'static str> {
        if self.pm && self.hour < 12 {
            self.hour += 12;
        } else if self.am && self.hour == 12 {
            self.hour = 0;
        }
        let (month, day) = match self.year_day {
            Some(year_day) => self.month_and_day(year_day)?,
            None => (self.month.unwrap_or(1), self.day.unwrap_or(1)),
        };
        if !(1..=days_in_month(self.year, month)).contains(&day) {
            return Err(": day out of range");
        }
        let seconds =
            days_from_civil(self.year, month, day) * 86_400 + self.hour * 3600 + self.minute * 60 + self.second;
        let at = |seconds: i64, offset: i64| Timestamp {
            seconds,
            nanos: self.nanos,
            offset: offset as i32,
        };
        if self.utc {
            return Ok(at(seconds, 0));
        }
        if self.offset != -1 {
            return Ok(at(seconds - self.offset, self.offset));
        }
        // A zone name has an unknown offset: the time is taken as UTC, and `GMT+3` only changes the offset that is
        // shown.
        let hours = match self.zone_name.strip_prefix(b"GMT") {
            Some(hours) if !hours.is_empty() => atoi(hours).unwrap_or(0),
            _ => 0,
        };
        Ok(at(seconds, hours * 3600))
    }

    /// Month and day of a day of the year.
    fn month_and_day(&self, mut year_day: i64) -> Result<(i64, i64), &'static str> {
        let mut found = None;
        if is_leap_year(self.year) {
            if year_day == 31 + 29 {
                found = Some((2, 29));
            } else if year_day > 31 + 29 {
                year_day -= 1;
            }
        }
        if !(1..=365).contains(&year_day) {
            return Err(": day-of-year out of range");
        }
        let (month, day) = found.unwrap_or_else(|| {
            let mut day = year_day;
            let mut month = 1;
            // Year 1 is not a leap year.
            while day > days_in_month(1, month) {
                day -= days_in_month(1, month);
                month += 1;
            }
            (month, day)
        });
        if self.month.is_some_and(|written| written != month) {
            return Err(": day-of-year does not match month");
        }
        if self.day.is_some_and(|written| written != day) {
            return Err(": day-of-year does not match day");
        }
        Ok((month, day))
    }
}

/// The text after a literal piece of the layout; if it does not match, the text from the mismatch on.
fn skip<'t>(mut value: &'t [u8], mut prefix: &[u8]) -> Result<&'t [u8], &'t [u8]> {
    while let Some((&wanted, after)) = prefix.split_first() {
        if wanted == b' ' {
            if value.first().is_some_and(|byte| *byte != b' ') {
                return Err(value);
            }
            prefix = cut_space(prefix);
            value = cut_space(value);
            continue;
        }
        match value.split_first() {
            Some((&found, rest)) if found == wanted => value = rest,
            _ => return Err(value),
        }
        prefix = after;
    }
    Ok(value)
}

fn cut_space(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] = text {
        text = rest;
    }
    text
}

fn take<'t>(value: &mut &'t [u8], count: usize) -> Read<&'t [u8]> {
    let (head, tail) = value.split_at_checked(count).ok_or(Failure::Bad)?;
    *value = tail;
    Ok(head)
}

fn is_digit(text: &[u8], at: usize) -> bool {
    text.get(at).is_some_and(u8::is_ascii_digit)
}

/// One or two digits; exactly two if `fixed`.
fn number(value: &mut &[u8], fixed: bool) -> Read<i64> {
    match **value {
        [a @ b'0'..=b'9', b @ b'0'..=b'9', ref rest @ ..] => {
            *value = rest;
            Ok(i64::from(a - b'0') * 10 + i64::from(b - b'0'))
        }
        [a @ b'0'..=b'9', ref rest @ ..] if !fixed => {
            *value = rest;
            Ok(i64::from(a - b'0'))
        }
        _ => Err(Failure::Bad),
    }
}

/// A number with an optional sign; the strings are short.
fn atoi(text: &[u8]) -> Read<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let mut number = 0_i64;
    for byte in digits {
        if !byte.is_ascii_digit() {
            return Err(Failure::Bad);
        }
        number = number
            .checked_mul(10)
            .and_then(|number| number.checked_add(i64::from(byte - b'0')))
            .ok_or(Failure::Bad)?;
    }
    Ok(if negative { -number } else { number })
}

/// The index of the name at the start, ignoring case.
fn name(value: &mut &[u8], names: &[&str], length: Option<usize>) -> Read<i64> {
    for (i, name) in names.iter().enumerate() {
        let name = name.as_bytes();
        let name = length.and_then(|length| name.get(..length)).unwrap_or(name);
        if value.len() >= name.len() && value[..name.len()].eq_ignore_ascii_case(name) {
            *value = &value[name.len()..];
            return Ok(i as i64);
        }
    }
    Err(Failure::Bad)
}

/// The nanoseconds of a point and the digits after it; digits after the ninth are dropped.
fn nanoseconds(text: &[u8]) -> Read<u32> {
    let [b'.' | b',', digits @ ..] = text else {
        return Err(Failure::Bad);
    };
    let digits = digits.get(..9).unwrap_or(digits);
    let mut nanos = atoi(digits)?;
    if nanos < 0 {
        return Err(Failure::OutOfRange("fractional second"));
    }
    for _ in digits.len()..9 {
        nanos *= 10;
    }
    Ok(nanos as u32)
}

/// A numeric offset in seconds.
fn offset(value: &mut &[u8], form: ZoneForm) -> Read<i64> {
    let length = match form {
        ZoneForm::Hours => 3,
        ZoneForm::Minutes => 5,
        ZoneForm::ColonMinutes => 6,
        ZoneForm::Seconds => 7,
        ZoneForm::ColonSeconds => 9,
    };
    let mut rest = *value;
    let text = take(&mut rest, length)?;
    let (sign, hours, minutes, seconds) = match (form, text) {
        (ZoneForm::Hours, &[sign, a, b]) => (sign, [a, b], *b"00", *b"00"),
        (ZoneForm::Minutes, &[sign, a, b, c, d]) => (sign, [a, b], [c, d], *b"00"),
        (ZoneForm::ColonMinutes, &[sign, a, b, b':', c, d]) => (sign, [a, b], [c, d], *b"00"),
        (ZoneForm::Seconds, &[sign, a, b, c, d, e, f]) => (sign, [a, b], [c, d], [e, f]),
        (ZoneForm::ColonSeconds, &[sign, a, b, b':', c, d, b':', e, f]) => (sign, [a, b], [c, d], [e, f]),
        _ => return Err(Failure::Bad),
    };
    *value = rest;
    clock_offset(sign, [hours, minutes, seconds])
}

fn clock_offset(sign: u8, clock: [[u8; 2]; 3]) -> Read<i64> {
    let limits = [
        (24, "time zone offset hour"),
        (60, "time zone offset minute"),
        (60, "time zone offset second"),
    ];
    // A range error takes precedence over a later syntax error.
    let mut out_of_range = None;
    let mut total = 0;
    let mut bad = false;
    for (part, (limit, what)) in clock.iter().zip(limits) {
        let Ok(number) = number(&mut &part[..], true) else {
            bad = true;
            break;
        };
        if number > limit {
            out_of_range = Some(what);
        }
        total = total * 60 + number;
    }
    match (out_of_range, sign) {
        (Some(what), _) => Err(Failure::OutOfRange(what)),
        _ if bad => Err(Failure::Bad),
        (None, b'+') => Ok(total),
        (None, b'-') => Ok(-total),
        _ => Err(Failure::Bad),
    }
}

/// The length of a possible zone abbreviation.
fn zone_name(value: &[u8]) -> Option<usize> {
    if value.len() < 3 {
        return None;
    }
    if value.starts_with(b"ChST") || value.starts_with(b"MeST") {
        return Some(4);
    }
    if let Some(hours) = value.strip_prefix(b"GMT") {
        return Some(3 + signed_hours(hours));
    }
    if let [b'+' | b'-', ..] = value {
        return Some(signed_hours(value)).filter(|length| *length > 0);
    }
    let upper = value
        .iter()
        .take(6)
        .take_while(|byte| byte.is_ascii_uppercase())
        .count();
    let accepted = match upper {
        5 => value.get(4) == Some(&b'T'),
        4 => value.get(3) == Some(&b'T') || value.starts_with(b"WITA"),
        3 => true,
        _ => false,
    };
    accepted.then_some(upper)
}

/// The length of a sign and up to 23 hours; 0 if absent.
fn signed_hours(value: &[u8]) -> usize {
    let [b'+' | b'-', digits @ ..] = value else { return 0 };
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match atoi(&digits[..count]) {
        Ok(hours) if count > 0 && hours <= 23 => 1 + count,
        _ => 0,
    }
}

/// Go's `time` package has its own quoting: bytes other than printable ASCII are written in hexadecimal.
fn quote(text: &[u8]) -> String {
    let mut out = String::from("\"");
    for &byte in text {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            0x20..0x80 => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.push('"');
    out
}
