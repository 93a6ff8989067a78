//! Formats of names, keys, ports and addresses.
//!
//! Upstream counterpart: `k8s.io/apimachinery/pkg/util/validation`, `k8s.io/utils/net`.

use kyvtest_go_compat::text::{ip, label};

pub(super) fn label(text: &str) -> Vec<String> {
    if text.len() <= 63 && label::is_label(text.as_bytes()) {
        return Vec::new();
    }
    let mut out = Vec::new();
    label::dns1123_problems(text, &mut out);
    out
}

pub(super) fn subdomain(text: &str) -> Vec<String> {
    if text.len() <= 253 && label::is_label(text.as_bytes()) {
        return Vec::new();
    }
    let mut out = Vec::new();
    label::subdomain_problems(text, "characters", &mut out);
    out
}

pub(super) fn dns1035(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    label::dns1035_problems(text, &mut out);
    out
}

pub(super) fn qualified(text: &str) -> Vec<String> {
    if is_plain_name(text) {
        return Vec::new();
    }
    let mut out = Vec::new();
    label::key_problems(text, label::Wording::LabelKey, &mut out);
    out
}

/// A name without a domain that follows the rules of labels.
fn is_plain_name(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

pub(super) fn label_value(text: &str) -> Vec<String> {
    if text.is_empty() || is_plain_name(text) {
        return Vec::new();
    }
    let mut out = Vec::new();
    label::value_problems(text, label::Wording::LabelKey, &mut out);
    out
}

pub(super) fn port_name(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut problem = |text: &str| out.push(text.to_owned());
    if text.len() > 15 {
        problem("must be no more than 15 characters");
    }
    if text.is_empty()
        || !text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    {
        problem("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        problem("must contain at least one letter (a-z)");
    }
    if text.contains("--") {
        problem("must not contain consecutive hyphens");
    }
    if !text.is_empty() && (text.starts_with('-') || text.ends_with('-')) {
        problem("must not begin or end with a hyphen");
    }
    out
}

/// Relaxed names of environment variables: printable ASCII without `=`.
pub(super) fn env_name(text: &str) -> Vec<String> {
    let fits = !text.is_empty() && text.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=');
    if fits {
        return Vec::new();
    }
    vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()]
}

pub(super) fn path_segment(text: &str) -> Vec<String> {
    match text {
        "." | ".." => vec![format!("may not be '{text}'")],
        _ => ["/", "%"]
            .iter()
            .filter(|part| text.contains(**part))
            .map(|part| format!("may not contain '{part}'"))
            .collect(),
    }
}

pub(super) fn config_key(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 253 {
        out.push("must be no more than 253 characters".to_owned());
    }
    let fits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if !fits {
        let text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                    'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
        out.push(text.to_owned());
    } else if text == "." {
        out.push("must not be '.'".to_owned());
    } else if text == ".." {
        out.push("must not be '..'".to_owned());
    } else if text.starts_with("..") {
        out.push("must not start with '..'".to_owned());
    }
    out
}

pub(super) fn http_header(text: &str) -> Vec<String> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    vec!["a valid HTTP header must consist of alphanumeric characters or '-'".to_owned()]
}

/// `*.` followed by a subdomain.
pub(super) fn wildcard(text: &str) -> Vec<String> {
    match text.strip_prefix("*.") {
        Some(rest) if subdomain(rest).is_empty() => Vec::new(),
        _ => vec!["a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain".to_owned()],
    }
}

/// A percentage such as `25%`.
pub(super) fn is_percent(text: &str) -> bool {
    text.strip_suffix('%')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// An address as Go's old parser accepts it: with leading zeros.
pub(super) fn is_ip(text: &str) -> bool {
    parse_ip(text).is_some()
}

pub(super) fn parse_ip(text: &str) -> Option<ip::Addr> {
    let plain;
    let text = if text.contains(':') || !text.split('.').any(|part| part.len() > 1 && part.starts_with('0')) {
        text
    } else {
        plain = text
            .split('.')
            .map(|part| {
                if part.len() > 1 {
                    part.trim_start_matches('0')
                } else {
                    part
                }
            })
            .map(|part| if part.is_empty() { "0" } else { part })
            .collect::<Vec<_>>()
            .join(".");
        &plain
    };
    ip::parse_addr(text.as_bytes()).ok().filter(|addr| !addr.has_zone())
}

pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.rsplit_once('/') else {
        return false;
    };
    let most = if address.contains(':') { 128 } else { 32 };
    is_ip(address)
        && !bits.is_empty()
        && bits.bytes().all(|b| b.is_ascii_digit())
        && bits.parse::<u32>().is_ok_and(|bits| bits <= most)
}
