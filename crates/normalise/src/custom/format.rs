//! String formats of custom resources.
//!
//! Upstream counterpart: `k8s.io/kube-openapi/pkg/validation/strfmt`, the formats of
//! `pkg/apiserver/validation/formats.go` of apiextensions-apiserver.
//!
//! Known deviations: numbers of books, cards and social insurance, colours and `uri` are not checked.

use kyvtest_go_compat::text::{base64, duration, ip, time::Timestamp};

/// Whether a text has a format; unknown formats are not checked.
pub(super) fn has_format(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => Timestamp::parse(text).is_some(),
        "date" => Timestamp::parse(&format!("{text}T00:00:00Z")).is_some(),
        "ipv4" => ip::parse_addr(text.as_bytes()).is_ok_and(ip::Addr::is_v4),
        "ipv6" => ip::parse_addr(text.as_bytes()).is_ok_and(|addr| !addr.is_v4()),
        "cidr" => ip::parse_prefix(text.as_bytes()).is_ok(),
        "byte" => !text.is_empty() && base64::decode(text.as_bytes(), true).is_ok(),
        "duration" => duration::parse(text).is_ok(),
        "email" => is_email(text),
        "mac" => is_hardware_address(text),
        "k8s-short-name" => crate::validate::is_label(text),
        "k8s-long-name" => crate::validate::is_subdomain(text),
        "uuid" => {
            let parts: Vec<&str> = text.split('-').collect();
            let hex: String = parts.concat();
            hex.len() == 32 && hex.bytes().all(|b| b.is_ascii_hexdigit())
        }
        _ => true,
    }
}

/// An address such as `a@b.c`, or `Name <a@b.c>`.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
        Some((_, address)) => address,
        None => text,
    };
    let is_atom = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| !c.is_whitespace() && !r#"()<>[]:;@\,""#.contains(c))
    };
    let is_dotted = |text: &str| text.split('.').all(is_atom);
    address
        .rsplit_once('@')
        .is_some_and(|(local, domain)| is_dotted(local) && is_dotted(domain))
}

/// Six, eight or twenty bytes in hexadecimal.
fn is_hardware_address(text: &str) -> bool {
    let separator = if text.contains('-') { '-' } else { ':' };
    let parts: Vec<&str> = text.split(separator).collect();
    matches!(parts.len(), 6 | 8 | 20)
        && parts
            .iter()
            .all(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()))
}
