//! Semantic versions.
//!
//! Upstream counterpart: github.com/blang/semver/v4 `Parse` and `Compare`, error messages included.

use std::{cmp::Ordering, fmt};

use super::quote::quote_bytes;

/// A version; build metadata does not affect the order.
#[derive(Debug, Clone)]
pub struct Version {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    pre: Vec<Identifier>,
    build: Vec<String>,
}

/// One part of a pre-release; numbers sort before text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Text(String),
}

/// Parses a version; the error is upstream's message.
pub fn parse(text: &str) -> Result<Version, String> {
    if text.is_empty() {
        return Err("Version string empty".to_owned());
    }
    let mut parts = text.splitn(3, '.');
    let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("No Major.Minor.Patch elements found".to_owned());
    };
    let major = number("Major", major)?;
    let minor = number("Minor", minor)?;
    let (rest, build) = cut(rest, '+');
    let (patch, pre) = cut(rest, '-');
    let patch = number("Patch", patch)?;
    let pre = pre.map(|pre| pre.split('.').map(identifier).collect()).transpose()?;
    let build = build
        .map(|build| build.split('.').map(metadata).collect())
        .transpose()?;
    Ok(Version {
        major,
        minor,
        patch,
        pre: pre.unwrap_or_default(),
        build: build.unwrap_or_default(),
    })
}

fn cut(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn all_alphanumeric(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn has_leading_zeroes(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0')
}

fn number(which: &str, text: &str) -> Result<u64, String> {
    if !all_digits(text) {
        return Err(format!(
            "Invalid character(s) found in {} number {}",
            which.to_ascii_lowercase(),
            quote_bytes(text.as_bytes())
        ));
    }
    if has_leading_zeroes(text) {
        return Err(format!(
            "{which} number must not contain leading zeroes {}",
            quote_bytes(text.as_bytes())
        ));
    }
    parse_uint(text)
}

fn parse_uint(digits: &str) -> Result<u64, String> {
    digits.parse().map_err(|_| {
        let cause = if digits.is_empty() {
            "invalid syntax"
        } else {
            "value out of range"
        };
        format!("strconv.ParseUint: parsing {}: {cause}", quote_bytes(digits.as_bytes()))
    })
}

fn identifier(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if all_digits(text) {
        if has_leading_zeroes(text) {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {}",
                quote_bytes(text.as_bytes())
            ));
        }
        return parse_uint(text).map(Identifier::Number);
    }
    if all_alphanumeric(text) {
        return Ok(Identifier::Text(text.to_owned()));
    }
    Err(format!(
        "Invalid character(s) found in prerelease {}",
        quote_bytes(text.as_bytes())
    ))
}

fn metadata(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("Build meta data is empty".to_owned());
    }
    if !all_alphanumeric(text) {
        return Err(format!(
            "Invalid character(s) found in build meta data {}",
            quote_bytes(text.as_bytes())
        ));
    }
    Ok(text.to_owned())
}

impl Version {
    pub fn compare(&self, other: &Version) -> Ordering {
        let numbers = |version: &Version| (version.major, version.minor, version.patch);
        numbers(self)
            .cmp(&numbers(other))
            .then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
                // A release comes after its pre-releases.
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                _ => self.pre.cmp(&other.pre),
            })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        for (i, part) in self.pre.iter().enumerate() {
            f.write_str(if i == 0 { "-" } else { "." })?;
            match part {
                Identifier::Number(number) => write!(f, "{number}")?,
                Identifier::Text(text) => f.write_str(text)?,
            }
        }
        for (i, part) in self.build.iter().enumerate() {
            write!(f, "{}{part}", if i == 0 { '+' } else { '.' })?;
        }
        Ok(())
    }
}
