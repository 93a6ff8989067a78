//! Kyverno's wildcards in CEL: `*` is any run of characters, `?` one character.
//!
//! Upstream counterpart: `ext/wildcard` (Kyverno 1.19). CEL has no wildcards; the shortest of its text functions that does the same
//! is used.

use crate::Expr;

/// Whether a text has wildcards.
pub(crate) fn is_glob(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// Whether a text matches a pattern that is known.
pub(crate) fn matches_glob(text: &Expr, pattern: &str) -> Expr {
    if !is_glob(pattern) {
        return text.relation("==", &Expr::string(pattern));
    }
    if pattern.bytes().all(|byte| byte == b'*') {
        return Expr::bool(true);
    }
    if matches!(pattern, "?*" | "*?") {
        return text.relation("!=", &Expr::string(""));
    }
    let inner = pattern.trim_matches('*');
    if !is_glob(inner) {
        let literal = [Expr::string(inner)];
        match (pattern.starts_with('*'), pattern.ends_with('*')) {
            (true, true) => return text.call("contains", literal),
            (true, false) => return text.call("endsWith", literal),
            (false, true) => return text.call("startsWith", literal),
            (false, false) => {}
        }
    }
    text.call("matches", [Expr::string(&regex(pattern))])
}

/// The regular expression of a pattern.
fn regex(pattern: &str) -> String {
    let mut out = String::from("(?s)^");
    let mut run = false;
    for c in pattern.chars() {
        if c == '*' {
            if !run {
                out.push_str(".*");
            }
            run = true;
            continue;
        }
        run = false;
        match c {
            '?' => out.push('.'),
            c if c.is_ascii_punctuation()
                && !matches!(
                    c,
                    '_' | '-'
                        | '/'
                        | ':'
                        | '@'
                        | ','
                        | '='
                        | '#'
                        | '&'
                        | '%'
                        | '!'
                        | '~'
                        | '\''
                        | '"'
                        | '`'
                        | ';'
                        | '<'
                        | '>'
                ) =>
            {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out.push('$');
    out
}

/// Whether a text matches a pattern that is known only at run time.
pub(crate) fn text_matches_glob_of(text: &Expr, pattern: &Expr) -> Expr {
    if text.as_str() == "''" {
        return pattern.call("matches", [Expr::string("^[*]*$")]);
    }
    // Everything that regular expressions give a meaning to, but `*` and `?`.
    let special = Expr::primary(r"r'[\\.+^$()|{}\[\]]'");
    let escaped = Expr::function("regex.replace", [pattern.clone(), special, Expr::primary(r"r'\\\0'")]);
    let inner = escaped
        .call("replace", [Expr::string("*"), Expr::string(".*")])
        .call("replace", [Expr::string("?"), Expr::string(".")]);
    let whole = Expr::string("(?s)^").sum("+", &inner).sum("+", &Expr::string("$"));
    text.call("matches", [whole])
}
