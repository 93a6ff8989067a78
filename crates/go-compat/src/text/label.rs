//! Validation of Kubernetes label keys, label values and DNS names.
//!
//! Upstream counterpart: `k8s.io/apimachinery/pkg/api/validate/content` and `pkg/util/validation`. The patterns are
//! matched by hand; the messages quote them.

/// The wording of label key errors, which depends on the Kubernetes version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wording {
    /// "a valid label key", lengths in bytes (Kubernetes ≥ 1.35).
    LabelKey,
    /// "a qualified name", lengths in characters.
    QualifiedName,
}

impl Wording {
    /// Messages about names use "characters" although they count bytes; those about label keys and values use "bytes".
    fn unit(self) -> &'static str {
        match self {
            Self::LabelKey => "bytes",
            Self::QualifiedName => "characters",
        }
    }
}

/// Adds a problem if a string has more bytes than allowed.
pub(crate) fn expect_length(text: &str, max: usize, unit: &str, out: &mut Vec<String>) {
    if text.len() > max {
        out.push(format!("must be no more than {max} {unit}"));
    }
}

/// A problem that names the rule, examples and the regular expression.
pub(crate) fn regex_problem(rule: &str, regex: &str, examples: &[&str]) -> String {
    let mut problem = format!("{rule} (e.g. ");
    for (i, example) in examples.iter().enumerate() {
        if i > 0 {
            problem.push_str(" or ");
        }
        problem.push('\'');
        problem.push_str(example);
        problem.push_str("', ");
    }
    problem.push_str("regex used for validation is '");
    problem.push_str(regex);
    problem.push_str("')");
    problem
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Reports whether a string is a DNS label, ignoring its length.
pub fn is_label(text: &[u8]) -> bool {
    match text {
        [first, .., last] => is_lower(*first) && is_lower(*last) && text.iter().all(|&b| is_lower(b) || b == b'-'),
        [only] => is_lower(*only),
        [] => false,
    }
}

/// Reports whether a string is a DNS subdomain, ignoring its length.
pub fn is_subdomain(text: &[u8]) -> bool {
    text.split(|&byte| byte == b'.').all(is_label)
}

fn is_key_name(text: &[u8]) -> bool {
    match text {
        [first, .., last] => {
            first.is_ascii_alphanumeric()
                && last.is_ascii_alphanumeric()
                && text.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
        }
        [only] => only.is_ascii_alphanumeric(),
        [] => false,
    }
}

/// Validates a DNS subdomain.
pub fn subdomain_problems(text: &str, unit: &str, out: &mut Vec<String>) {
    expect_length(text, 253, unit, out);
    if !is_subdomain(text.as_bytes()) {
        out.push(regex_problem(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character",
            r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
}

/// Validates a DNS label.
pub fn dns1123_problems(text: &str, out: &mut Vec<String>) {
    expect_length(text, 63, "characters", out);
    if is_label(text.as_bytes()) {
        return;
    }
    if is_subdomain(text.as_bytes()) {
        out.push("must not contain dots".to_owned());
    } else {
        out.push(regex_problem(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
             end with an alphanumeric character",
            "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "123-abc"],
        ));
    }
}

/// Validates a DNS label that starts with a letter.
pub fn dns1035_problems(text: &str, out: &mut Vec<String>) {
    expect_length(text, 63, "characters", out);
    if !(is_label(text.as_bytes()) && text.starts_with(|c: char| c.is_ascii_lowercase())) {
        out.push(regex_problem(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
}

fn key_name_problem() -> String {
    regex_problem(
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
        "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
        &["MyName", "my.name", "123-abc"],
    )
}

/// Validates a label key.
pub fn key_problems(text: &str, wording: Wording, out: &mut Vec<String>) {
    let mut parts = text.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                out.push("prefix part must be non-empty".to_owned());
            } else {
                let before = out.len();
                subdomain_problems(prefix, wording.unit(), out);
                for problem in &mut out[before..] {
                    problem.insert_str(0, "prefix part ");
                }
            }
            name
        }
        (Some(name), None, _) => name,
        _ => {
            let what = match wording {
                Wording::LabelKey => "a valid label key",
                Wording::QualifiedName => "a qualified name",
            };
            out.push(format!(
                "{what} {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                key_name_problem()
            ));
            return;
        }
    };
    if name.is_empty() {
        out.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        out.push(format!("name part must be no more than 63 {}", wording.unit()));
    }
    if !is_key_name(name.as_bytes()) {
        out.push(format!("name part {}", key_name_problem()));
    }
}

/// Validates a label value.
pub fn value_problems(text: &str, wording: Wording, out: &mut Vec<String>) {
    expect_length(text, 63, wording.unit(), out);
    if !(text.is_empty() || is_key_name(text.as_bytes())) {
        out.push(regex_problem(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
}
