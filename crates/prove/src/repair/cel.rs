//! Formulas as match conditions.
//!
//! A condition reads the new object, or the old one where there is no new one, never errs on what its policy lists, and uses
//! neither `variables` nor `namespaceObject`, which conditions of native policies do not have.

use super::formula::{Entries, Formula, Need};
use kyvtest_go_compat::text::{
    quote::quote,
    wildcard::{self, has_wildcard},
};

/// How a condition names things.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names {
    /// The object that Kyverno looks at.
    pub(super) subject: &'static str,
    /// Whether every request has a namespace.
    pub(super) in_namespace: bool,
}

pub(super) fn literal(text: &str) -> String {
    let plain = |c: char| c == ' ' || c.is_ascii_graphic() && !matches!(c, '\'' | '\\');
    if text.chars().all(plain) {
        format!("'{text}'")
    } else {
        quote(text)
    }
}

/// Texts as a list literal.
pub(super) fn literals(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| literal(text)).collect();
    format!("[{}]", texts.join(", "))
}

/// `x == 'a'`, or `x in ['a', 'b']`.
pub(super) fn one_of(term: &str, texts: &[String]) -> String {
    match texts {
        [text] => format!("{term} == {}", literal(text)),
        _ => format!("{term} in {}", literals(texts)),
    }
}

/// Patterns of a text; of several wildcards the expression of each.
fn fits(term: &str, patterns: &[String]) -> String {
    let (wild, plain): (Vec<&String>, Vec<&String>) = patterns.iter().partition(|pattern| has_wildcard(pattern));
    let mut parts = Vec::new();
    if !plain.is_empty() {
        let plain: Vec<String> = plain.into_iter().cloned().collect();
        parts.push(one_of(term, &plain));
    }
    parts.extend(wild.into_iter().map(|pattern| glob(term, pattern)));
    joined(parts, " || ")
}

/// A pattern with wildcards.
fn glob(term: &str, pattern: &str) -> String {
    if pattern.chars().all(|c| c == '*') {
        return "true".to_owned();
    }
    let inner = pattern.trim_matches('*');
    if !has_wildcard(inner) {
        let method = match (pattern.starts_with('*'), pattern.ends_with('*')) {
            (true, true) => "contains",
            (true, false) => "endsWith",
            (false, _) => "startsWith",
        };
        return format!("{term}.{method}({})", literal(inner));
    }
    // A dot is any character, line ends included.
    let mut regex = String::from("(?s)^");
    for c in pattern.chars() {
        match c {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            c if c.is_ascii_punctuation() && !matches!(c, '-' | '_' | ':' | '/' | '@') => regex.extend(['\\', c]),
            c => regex.push(c),
        }
    }
    regex.push('$');
    format!("{term}.matches({})", literal(&regex))
}

fn joined(mut parts: Vec<String>, word: &str) -> String {
    if parts.len() == 1 {
        return parts.swap_remove(0);
    }
    let parts: Vec<String> = parts.iter().map(|part| inside(part)).collect();
    parts.join(word)
}

/// An expression as an operand: in parentheses where it has operators of its own outside of any.
fn inside(expression: &str) -> String {
    let mut depth = 0_i32;
    let mut in_quotes = None;
    let mut before = ' ';
    let mut loose = false;
    for c in expression.chars() {
        match (in_quotes, c) {
            (Some(quote), c) if c == quote && before != '\\' => in_quotes = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => in_quotes = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth -= 1,
            (None, '&' | '|') if depth == 0 => loose = true,
            (None, '?') if depth == 0 && before == ' ' => loose = true,
            _ => {}
        }
        before = if before == '\\' { ' ' } else { c };
    }
    if loose || in_quotes.is_some() {
        format!("({expression})")
    } else {
        expression.to_owned()
    }
}

/// All of these expressions.
pub(super) fn and(parts: Vec<String>) -> String {
    joined(parts, " && ")
}

/// One of these expressions.
pub(super) fn or(parts: Vec<String>) -> String {
    joined(parts, " || ")
}

impl Names {
    pub(super) fn expression(self, formula: &Formula) -> String {
        match formula {
            Formula::Known(known) => known.to_string(),
            Formula::All(parts) => and(parts.iter().map(|part| self.expression(part)).collect()),
            Formula::Any(parts) => or(parts.iter().map(|part| self.expression(part)).collect()),
            Formula::Not(inner) => self.negated(inner),
            Formula::Name(patterns) => fits(&format!("{}.metadata.name", self.subject), patterns),
            Formula::Namespace(patterns) => {
                let fits = fits("request.namespace", patterns);
                if self.in_namespace || fits == "true" {
                    fits
                } else {
                    and(vec!["has(request.namespace)".to_owned(), fits])
                }
            }
            Formula::Label(need) => self.label(need),
            Formula::Pair(entries, key, value) => self.pair(*entries, key, value),
            Formula::User(pattern) => fits("request.userInfo.username", std::slice::from_ref(pattern)),
            Formula::Group(pattern) if has_wildcard(pattern) => {
                format!("request.userInfo.groups.exists(group, {})", glob("group", pattern))
            }
            Formula::Group(name) => format!("{} in request.userInfo.groups", literal(name)),
            // These have gone to selectors, or the policy is refused.
            Formula::NamespaceLabel(_) | Formula::Hidden(_) => "false".to_owned(),
        }
    }

    fn negated(self, leaf: &Formula) -> String {
        let differs = |term: &str, text: &str| format!("{term} != {}", literal(text));
        match leaf {
            Formula::Name(names) if !names.iter().any(|name| has_wildcard(name)) && names.len() == 1 => {
                differs(&format!("{}.metadata.name", self.subject), &names.concat())
            }
            Formula::Namespace(names)
                if self.in_namespace && !names.iter().any(|name| has_wildcard(name)) && names.len() == 1 =>
            {
                differs("request.namespace", &names.concat())
            }
            Formula::User(name) if !has_wildcard(name) => differs("request.userInfo.username", name),
            leaf => format!("!({})", self.expression(leaf)),
        }
    }

    fn entry(self, entries: Entries, key: &str) -> String {
        format!("{}.metadata.?{}[?{}]", self.subject, entries.field(), literal(key))
    }

    fn label(self, need: &Need) -> String {
        let entry = self.entry(Entries::Labels, &need.key);
        let there = format!("{entry}.hasValue()");
        let text = if need.values.is_empty() {
            there
        } else {
            let fits = one_of(&format!("{entry}.orValue('')"), &need.values);
            if need.values.iter().any(String::is_empty) {
                and(vec![there, fits])
            } else {
                fits
            }
        };
        if need.holds { text } else { format!("!({text})") }
    }

    fn pair(self, entries: Entries, key: &str, value: &str) -> String {
        if has_wildcard(key) {
            let all = format!("{}.metadata.?{}.orValue({{}})", self.subject, entries.field());
            let mut parts = vec![glob("key", key)];
            if !value.chars().all(|c| c == '*') || value.is_empty() {
                let own = format!("{}.metadata.{}[key]", self.subject, entries.field());
                parts.push(fits(&own, &[value.to_owned()]));
            }
            return format!("{all}.exists(key, {})", and(parts));
        }
        let entry = self.entry(entries, key);
        let there = format!("{entry}.hasValue()");
        if !value.is_empty() && value.chars().all(|c| c == '*') {
            return there;
        }
        let fits = fits(&format!("{entry}.orValue('')"), &[value.to_owned()]);
        if wildcard::matches(value, "") {
            and(vec![there, fits])
        } else {
            fits
        }
    }
}
