//! Kyverno's kind selectors: `Pod`, `v1/Pod`, `apps/v1/Deployment`, `Pod/status`, `Pod.status`, `*/scale`, `*/*`.
//!
//! Upstream counterpart: `pkg/utils/kube/kind.go`. Each part may contain wildcards, which the engine matches.

/// A parsed kind selector.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KindSelector {
    /// The selector as written.
    pub text: String,
    /// Pattern of the API group.
    pub group: String,
    /// Pattern of the version.
    pub version: String,
    /// Pattern of the kind.
    pub kind: String,
    /// Pattern of the subresource; empty for the resource itself.
    pub subresource: String,
}

impl KindSelector {
    /// Parses a selector. One with too many parts has only empty patterns, so it matches nothing.
    ///
    /// Slashes separate, and so do dots after the last slash: a group with dots needs a slash after it.
    pub fn parse(text: &str) -> Self {
        let (front, last) = text
            .rsplit_once('/')
            .map_or((None, text), |(front, last)| (Some(front), last));
        let parts: Vec<&str> = front
            .into_iter()
            .flat_map(|front| front.split('/'))
            .chain(last.split('.'))
            .take(5)
            .collect();
        let (group, version, kind, subresource) = match parts[..] {
            [kind] => ("*", "*", kind, ""),
            ["*", "*"] => ("*", "*", "*", "*"),
            ["*", subresource] if is_lower(subresource) => ("*", "*", "*", subresource),
            [version, kind] if is_version(version) => ("*", version, kind, ""),
            [kind, subresource] => ("*", "*", kind, subresource),
            [version, kind, subresource] if is_version(version) => ("*", version, kind, subresource),
            [group, version, kind] => (group, version, kind, ""),
            [group, version, kind, subresource] => (group, version, kind, subresource),
            _ => ("", "", "", ""),
        };
        Self {
            text: text.to_owned(),
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            subresource: subresource.to_owned(),
        }
    }
}

/// The other way in which upstream splits a selector: the part before the kind, and the kind with its subresource.
/// Autogen and policy validation use it (`GetKindFromGVK`).
pub fn split_kind(text: &str) -> (String, String) {
    let kind = |text: &str| text.replacen('.', "/", 1);
    let parts: Vec<&str> = text.split('/').take(5).collect();
    match parts[..] {
        [only] => (String::new(), kind(only)),
        ["*", "*"] => (String::new(), "*/*".to_owned()),
        [version, last] if is_version(version) => (version.to_owned(), kind(last)),
        [first, subresource] => (String::new(), format!("{first}/{subresource}")),
        [version, name, subresource] if is_version(version) => (version.to_owned(), format!("{name}/{subresource}")),
        [group, version, last] => (format!("{group}/{version}"), kind(last)),
        [group, version, name, subresource] => (format!("{group}/{version}"), format!("{name}/{subresource}")),
        _ => (String::new(), String::new()),
    }
}

/// `*`, or `v` and one digit, optionally followed by `alpha` or `beta` and one digit. `v10` is a kind to Kyverno.
fn is_version(text: &str) -> bool {
    match text.as_bytes() {
        b"*" => true,
        [b'v', digit, rest @ ..] if digit.is_ascii_digit() => match rest {
            [] => true,
            [stage @ .., digit] => digit.is_ascii_digit() && (stage == b"alpha" || stage == b"beta"),
        },
        _ => false,
    }
}

/// Whether the string equals its lower case, character by character as in Go.
fn is_lower(text: &str) -> bool {
    text.chars().all(|c| c.to_lowercase().eq([c]))
}
