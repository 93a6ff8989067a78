//! DER: the elements of certificates.
//!
//! Upstream counterpart: `golang.org/x/crypto/cryptobyte`, which Go's certificate parser uses.

use crate::text::time::Timestamp;

pub const BOOLEAN: u8 = 1;
pub const INTEGER: u8 = 2;
pub(crate) const BIT_STRING: u8 = 3;
pub const OCTET_STRING: u8 = 4;
pub const OBJECT_IDENTIFIER: u8 = 6;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;
/// A tag of the surrounding type; add `CONSTRUCTED` if it holds other elements.
pub(crate) const CONTEXT: u8 = 0x80;
pub(crate) const CONSTRUCTED: u8 = 0x20;

/// Bytes from which elements are read in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Der<'a>(pub &'a [u8]);

impl<'a> Der<'a> {
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The next element: its tag, its content, and the complete element.
    pub fn any(&mut self) -> Option<(u8, Der<'a>, &'a [u8])> {
        let [tag, first, ..] = *self.0 else { return None };
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (header, length) = if first < 0x80 {
            (2, usize::from(first))
        } else {
            let count = usize::from(first & 0x7f);
            if !(1..=4).contains(&count) {
                return None;
            }
            let digits = self.0.get(2..2 + count)?;
            let length = digits.iter().fold(0_u64, |length, &b| length << 8 | u64::from(b));
            // Only the shortest form is valid.
            if length < 128 || digits[0] == 0 {
                return None;
            }
            (2 + count, usize::try_from(length).ok()?)
        };
        let whole = self.0.get(..header.checked_add(length)?)?;
        self.0 = &self.0[whole.len()..];
        Some((tag, Der(&whole[header..]), whole))
    }

    pub(crate) fn peek(self, tag: u8) -> bool {
        self.0.first() == Some(&tag)
    }

    /// The content of the next element, which must have this tag.
    pub fn take(&mut self, tag: u8) -> Option<Der<'a>> {
        if !self.peek(tag) {
            return None;
        }
        self.any().map(|(_, content, _)| content)
    }

    /// The complete next element, which must have this tag.
    pub(crate) fn element(&mut self, tag: u8) -> Option<&'a [u8]> {
        if !self.peek(tag) {
            return None;
        }
        self.any().map(|(_, _, whole)| whole)
    }

    /// The content of the next element if it has this tag; the outer `None` is an error.
    pub fn optional(&mut self, tag: u8) -> Option<Option<Der<'a>>> {
        if self.peek(tag) {
            self.take(tag).map(Some)
        } else {
            Some(None)
        }
    }

    /// The bytes of an integer, in minimal two's complement.
    pub(crate) fn integer(&mut self) -> Option<&'a [u8]> {
        self.integer_tagged(INTEGER)
    }

    fn integer_tagged(&mut self, tag: u8) -> Option<&'a [u8]> {
        let Der(bytes) = self.take(tag)?;
        match bytes {
            [] | [0, 0..=0x7f, ..] | [0xff, 0x80..=0xff, ..] => None,
            _ => Some(bytes),
        }
    }

    /// An integer that fits 64 bits.
    pub(crate) fn small_integer(&mut self) -> Option<i64> {
        self.small_integer_tagged(INTEGER)
    }

    /// An integer that fits 64 bits under another tag than its own.
    pub(crate) fn small_integer_tagged(&mut self, tag: u8) -> Option<i64> {
        let bytes = self.integer_tagged(tag)?;
        if bytes.len() > 8 {
            return None;
        }
        let sign = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
        Some(bytes.iter().fold(sign, |value, &b| value << 8 | i64::from(b)))
    }

    pub(crate) fn boolean(&mut self) -> Option<bool> {
        match self.take(BOOLEAN)?.0 {
            [0] => Some(false),
            [0xff] => Some(true),
            _ => None,
        }
    }

    /// The bytes of a bit string and the number of unused bits in the last one.
    pub(crate) fn bit_string(&mut self) -> Option<(&'a [u8], u8)> {
        let (&padding, bytes) = self.take(BIT_STRING)?.0.split_first()?;
        let unused = bytes.last().map_or(0xff, |last| *last);
        if padding > 7 || padding > 0 && unused & ((1 << padding) - 1) != 0 {
            return None;
        }
        Some((bytes, padding))
    }

    pub fn object_identifier(&mut self) -> Option<Vec<u32>> {
        let Der(bytes) = self.take(OBJECT_IDENTIFIER)?;
        object_identifier(bytes)
    }

    /// A time in either form (UTCTime or GeneralizedTime).
    pub(crate) fn time(&mut self) -> Result<Timestamp, &'static str> {
        match self.0.first() {
            Some(0x17) => self
                .take(0x17)
                .and_then(|text| utc_time(text.0))
                .ok_or("x509: malformed UTCTime"),
            Some(0x18) => {
                let time = self.take(0x18).and_then(|text| date(text.0, 4));
                time.ok_or("x509: malformed GeneralizedTime")
            }
            _ => Err("x509: unsupported time format"),
        }
    }
}

/// Decodes an object identifier.
pub fn object_identifier(bytes: &[u8]) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let length = rest.iter().position(|b| b & 0x80 == 0)? + 1;
        let value = rest[..length].iter().try_fold(0_u64, |value, b| {
            (value < 1 << 24).then(|| value << 7 | u64::from(b & 0x7f))
        })?;
        if rest[0] == 0x80 || length > 5 {
            return None;
        }
        rest = &rest[length..];
        if numbers.is_empty() {
            // The first byte encodes the first two numbers.
            let first = (value / 40).min(2);
            numbers.extend([first as u32, (value - 40 * first) as u32]);
        } else {
            numbers.push(value as u32);
        }
    }
    (!numbers.is_empty()).then_some(numbers)
}

fn utc_time(text: &[u8]) -> Option<Timestamp> {
    date(text, 2).or_else(|| {
        // The seconds may be missing.
        let with_seconds = [text.get(..10)?, b"00", &text[10..]].concat();
        date(&with_seconds, 2)
    })
}

fn date(text: &[u8], year_digits: usize) -> Option<Timestamp> {
    let number = |from: usize, count: usize| {
        let digits = text.get(from..from + count)?;
        digits.iter().try_fold(0_u32, |number, b| {
            b.is_ascii_digit().then(|| number * 10 + u32::from(b - b'0'))
        })
    };
    let mut year = number(0, year_digits)?;
    if year_digits == 2 {
        year += if year >= 50 { 1900 } else { 2000 };
    }
    let at = |i: usize| number(year_digits + 2 * i, 2);
    let (month, day, hour, minute, second) = (at(0)?, at(1)?, at(2)?, at(3)?, at(4)?);
    let zone = std::str::from_utf8(&text[year_digits + 10..]).ok()?;
    let zone = match zone.as_bytes() {
        b"Z" => "Z".to_owned(),
        [b'+' | b'-', _, _, _, _] if &zone[1..] != "0000" => format!("{}:{}", &zone[..3], &zone[3..]),
        _ => return None,
    };
    Timestamp::parse(&format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{zone}"
    ))
}
