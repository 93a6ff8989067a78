//! The place of a text as a JMESPath expression, for `{{ @ }}`.
//!
//! Upstream counterpart: `pkg/utils/jsonpointer/pointer.go`.

use std::fmt::Write as _;

/// The same location below `prefix`: the first two parts of the path, such as `mutate/overlay`, name the part of the
/// rule.
pub(super) fn here(path: &str, prefix: &str) -> String {
    let parts = parse(path);
    let after_foreach = parts.iter().position(|part| part == "foreach").map_or(0, |at| at + 1);
    let parts = parts.get(after_foreach + 2..).unwrap_or_default();
    let all = prefix.split('.').chain(parts.iter().map(String::as_str));
    jmespath(all)
}

/// The parts of a path; a backslash takes the next character literally, quotes hide slashes.
fn parse(path: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let (mut escaped, mut quoted) = (false, false);
    for c in path.chars() {
        match c {
            c if escaped => {
                part.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            '/' if !quoted => {
                if !part.is_empty() {
                    parts.push(std::mem::take(&mut part));
                }
            }
            c => part.push(c),
        }
    }
    if escaped {
        part.push(char::REPLACEMENT_CHARACTER);
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}

fn jmespath<'p>(parts: impl Iterator<Item = &'p str>) -> String {
    let mut out = String::new();
    for part in parts {
        if part.parse::<u64>().is_ok() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            let _ = write!(out, "[{part}]");
            continue;
        }
        if !out.is_empty() {
            out.push('.');
        }
        let plain = part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ')');
        if plain {
            out.push_str(part);
            continue;
        }
        out.push('"');
        for c in part.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if c < ' ' => {
                    let _ = write!(out, "\\u{:04x}", u32::from(c));
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
    out
}
