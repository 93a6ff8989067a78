//! Ranges of semantic versions: `>=1.2.0 <2.0.0 || 3.x`.
//!
//! Upstream counterpart: github.com/blang/semver/v4 `ParseRange`, error messages included; like upstream, it drops
//! parts of one character.
//!
//! Deviation: only ASCII digits begin a version.

use std::cmp::Ordering;

use super::{
    number::atoi,
    quote::quote,
    semver::{self, Version},
};

/// Accepts the orderings of one comparison operator.
type Comparator = fn(Ordering) -> bool;

/// A range: a version must satisfy all comparisons of at least one alternative.
pub struct Range(Vec<Vec<(Comparator, Version)>>);

impl Range {
    /// Parses a range; the error is upstream's message.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = split_and_trim(text);
        let mut alternatives = Vec::new();
        for alternative in split_alternatives(&parts)? {
            let mut expanded = Vec::new();
            for part in alternative {
                expand_wildcard(part, &mut expanded)?;
            }
            alternatives.push(expanded);
        }
        let comparisons = alternatives
            .into_iter()
            .map(|alternative| alternative.iter().map(|part| comparison(part)).collect())
            .collect::<Result<_, _>>()?;
        Ok(Self(comparisons))
    }

    /// Reports whether a version lies in the range; `None` if an alternative is empty, for which upstream calls a nil
    /// function.
    pub fn contains(&self, version: &Version) -> Option<bool> {
        for alternative in &self.0 {
            if alternative.is_empty() {
                return None;
            }
            if alternative
                .iter()
                .all(|(accepts, bound)| accepts(version.compare(bound)))
            {
                return Some(true);
            }
        }
        Some(false)
    }
}

/// Splits at blanks; a blank after an operator does not count.
fn split_and_trim(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut last = 0_u8;
    let mut add = |from: usize, to: usize| {
        if to > from + 1 {
            parts.push(text.get(from..to).unwrap_or("").replace(' ', ""));
        }
    };
    for (i, byte) in text.bytes().enumerate() {
        if byte == b' ' && !b"><=".contains(&last) {
            add(start, i);
            start = i + 1;
        } else if byte != b' ' {
            last = byte;
        }
    }
    add(start, text.len());
    parts
}

fn split_alternatives(parts: &[String]) -> Result<Vec<&[String]>, String> {
    if parts.first().is_some_and(|part| part == "||") {
        return Err("First element in range is '||'".to_owned());
    }
    if parts.last().is_none_or(|part| part == "||") {
        return Err("Last element in range is '||'".to_owned());
    }
    Ok(parts.split(|part| part == "||").collect())
}

/// The operator and the version, which begins with the first digit.
fn split_operator(part: &str) -> Result<(&str, &str), String> {
    match part.find(|c: char| c.is_ascii_digit()) {
        Some(at) => Ok((part[..at].trim(), &part[at..])),
        None => Err(format!("Could not get version from string: {}", quote(part))),
    }
}

/// Rewrites a part with an `x` as comparisons with versions.
fn expand_wildcard(part: &str, out: &mut Vec<String>) -> Result<(), String> {
    if !part.contains('x') {
        out.push(part.to_owned());
        return Ok(());
    }
    let (operator, version) = split_operator(part)?;
    let flat = flat(version);
    let (operator, increment) = match operator {
        ">" => (">=", true),
        ">=" => (">=", false),
        "<" => ("<", false),
        "<=" => ("<", true),
        "" | "=" | "==" => {
            out.push(format!(">={flat}"));
            ("<", true)
        }
        "!=" | "!" => {
            out.push(format!("<{flat}"));
            (">=", true)
        }
        _ => ("", false),
    };
    if !increment {
        out.push(format!("{operator}{flat}"));
        return Ok(());
    }
    let count = version.split('.').count();
    let place = match count {
        _ if !version.ends_with('x') || version.rsplit('.').next() != Some("x") => None,
        2 => Some(0),
        3 => Some(1),
        _ => None,
    };
    let version = place.and_then(|place| incremented(&flat, place)).unwrap_or_default();
    out.push(format!("{operator}{version}"));
    Ok(())
}

/// Replaces the wildcards of a version by zeros.
fn flat(version: &str) -> String {
    let flat = version.replacen(".x.x", ".x", 1).replacen(".x", ".0", 1);
    if flat.split('.').count() == 2 {
        return format!("{flat}.0");
    }
    flat
}

fn incremented(version: &str, place: usize) -> Option<String> {
    let mut parts: Vec<String> = version.split('.').map(str::to_owned).collect();
    let part = parts.get_mut(place)?;
    *part = atoi(part).ok()?.wrapping_add(1).to_string();
    Some(parts.join("."))
}

fn comparison(part: &str) -> Result<(Comparator, Version), String> {
    let (operator, version) = split_operator(part)?;
    let bad = |problem: String| format!("Could not parse Range {}: {problem}", quote(part));
    let whole = || quote(&format!("{operator}{version}"));
    let comparator: Comparator = match operator {
        "" | "=" | "==" => Ordering::is_eq,
        ">" => Ordering::is_gt,
        ">=" => Ordering::is_ge,
        "<" => Ordering::is_lt,
        "<=" => Ordering::is_le,
        "!" | "!=" => Ordering::is_ne,
        _ => {
            return Err(bad(format!(
                "Could not parse comparator {} in {}",
                quote(operator),
                whole()
            )));
        }
    };
    match semver::parse(version) {
        Ok(version) => Ok((comparator, version)),
        Err(error) => Err(bad(format!(
            "Could not parse version {} in {}: {error}",
            quote(version),
            whole()
        ))),
    }
}
