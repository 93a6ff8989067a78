//! Finds the modules that a Rust file mentions: every path that starts at the crate's root.
//!
//! Comments, string literals and items under `#[cfg(test)]` do not count. `super::` chains that climb to the root do.

/// A path from the crate's root: its first name (`*` for a glob) and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    pub(crate) name: String,
    pub(crate) line: usize,
}

/// The mentions in a file whose own module is `depth` levels below the crate's root.
pub(crate) fn mentions(text: &str, depth: usize) -> Vec<Mention> {
    let tokens = without_tests(tokens(text));
    let mut found = Vec::new();
    // For each open brace: whether it belongs to an inline module, which is one level deeper.
    let mut braces: Vec<bool> = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        let word = tokens[i].word.as_str();
        match word {
            "{" => braces.push(i >= 2 && tokens[i - 2].word == "mod"),
            "}" => {
                braces.pop();
            }
            "crate" | "super" if !follows_path(&tokens, i) => {
                let level = depth + braces.iter().filter(|module| **module).count();
                let mut climbed = usize::from(word == "super");
                let mut next = i + 1;
                while word == "super" && is(&tokens, next, "::") && is(&tokens, next + 1, "super") {
                    climbed += 1;
                    next += 2;
                }
                if is(&tokens, next, "::") && (word == "crate" || climbed >= level) {
                    names(&tokens, next + 1, &mut found);
                }
                i = next;
                continue;
            }
            _ => {}
        }
        i += 1;
    }
    found
}

fn is(tokens: &[Token], at: usize, word: &str) -> bool {
    tokens.get(at).is_some_and(|token| token.word == word)
}

fn follows_path(tokens: &[Token], at: usize) -> bool {
    at > 0 && tokens[at - 1].word == "::"
}

/// The first names of a path or of a group of paths.
fn names(tokens: &[Token], at: usize, found: &mut Vec<Mention>) {
    let Some(first) = tokens.get(at) else { return };
    if first.word != "{" {
        found.push(first.mention());
        return;
    }
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(at) {
        match token.word.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," => {}
            "self" => {}
            _ if depth == 1 && matches!(tokens[i - 1].word.as_str(), "{" | ",") => found.push(token.mention()),
            _ => {}
        }
        if depth == 0 {
            return;
        }
    }
}

#[derive(Debug, Clone)]
struct Token {
    word: String,
    line: usize,
}

impl Token {
    fn mention(&self) -> Mention {
        Mention {
            name: self.word.clone(),
            line: self.line,
        }
    }
}

/// Names, `::` and single other characters, without comments and literals.
fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut tokens: Vec<Token> = Vec::new();
    let mut line = 1;
    let mut i = 0;
    while i < chars.len() {
        let start = i;
        let mut word = None;
        match chars[i] {
            '/' if at(i + 1) == '/' => {
                while i < chars.len() && chars[i] != '\n' {
                    i += 1;
                }
            }
            '/' if at(i + 1) == '*' => i = after_comment(&chars, i),
            '"' => i = after_string(&chars, i),
            '\'' => i = after_quote(&chars, i),
            c if c == '_' || c.is_alphabetic() => {
                while at(i) == '_' || at(i).is_alphanumeric() {
                    i += 1;
                }
                let name: String = chars[start..i].iter().collect();
                let hashes = chars[i..].iter().take_while(|c| **c == '#').count();
                let raw = matches!(name.as_str(), "r" | "br" | "cr");
                if raw && at(i + hashes) == '"' {
                    i = after_raw_string(&chars, i + hashes, hashes);
                } else if name == "r" && hashes == 1 {
                    // A raw name: `r#type`; the name follows as a separate token.
                    i += 1;
                } else {
                    word = Some(name);
                }
            }
            ':' if at(i + 1) == ':' => {
                i += 2;
                word = Some("::".to_owned());
            }
            c if c.is_whitespace() => i += 1,
            c => {
                i += 1;
                word = Some(c.to_string());
            }
        }
        tokens.extend(word.map(|word| Token { word, line }));
        line += chars[start..i.min(chars.len())].iter().filter(|c| **c == '\n').count();
    }
    tokens
}

fn after_comment(chars: &[char], mut i: usize) -> usize {
    let mut depth = 0;
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
            ('*', Some('/')) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            break;
        }
    }
    i
}

fn after_string(chars: &[char], mut i: usize) -> usize {
    i += 1;
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    i.min(chars.len())
}

fn after_raw_string(chars: &[char], quote: usize, hashes: usize) -> usize {
    let mut i = quote + 1;
    while i < chars.len() {
        let closing = chars[i + 1..].iter().take(hashes).filter(|c| **c == '#').count();
        if chars[i] == '"' && closing == hashes {
            return i + 1 + hashes;
        }
        i += 1;
    }
    i
}

/// The index after a character literal, or after the quote of a lifetime.
fn after_quote(chars: &[char], i: usize) -> usize {
    match (chars.get(i + 1), chars.get(i + 2)) {
        (Some('\\'), Some(_)) => {
            let end = chars[i + 3..].iter().position(|c| *c == '\'');
            end.map_or(chars.len(), |end| i + 3 + end + 1)
        }
        (Some(_), Some('\'')) => i + 3,
        _ => i + 1,
    }
}

/// The tokens without items behind `#[cfg(test)]`.
fn without_tests(tokens: Vec<Token>) -> Vec<Token> {
    const TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::with_capacity(tokens.len());
    let mut i = 0;
    while i < tokens.len() {
        if TEST.iter().enumerate().all(|(k, word)| is(&tokens, i + k, word)) {
            i = after_item(&tokens, i + TEST.len());
        } else {
            kept.push(tokens[i].clone());
            i += 1;
        }
    }
    kept
}

/// The index after an item: after its semicolon, or the brace that closes its body.
fn after_item(tokens: &[Token], mut i: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(token) = tokens.get(i) {
        i += 1;
        match token.word.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" if depth == 1 => {
                // `use a::{b};` ends with its semicolon, a function with its brace.
                return if is(tokens, i, ";") { i + 1 } else { i };
            }
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            ";" if depth == 0 => return i,
            _ => {}
        }
    }
    i
}

#[test]
fn all_spellings_are_found() {
    let found = |text: &str, depth: usize| -> Vec<String> {
        let list = mentions(text, depth);
        list.into_iter()
            .map(|mention| format!("{}:{}", mention.name, mention.line))
            .collect()
    };
    assert_eq!(found("use crate::yaml::Node;", 1), ["yaml:1"]);
    assert_eq!(
        found("\nuse crate::{\n  a,\n  b::{c, d::{self, e}},\n  f as g};", 1),
        ["a:3", "b:4", "f:5"]
    );
    assert_eq!(found("pub use crate::*;", 1), ["*:1"]);
    assert_eq!(
        found("fn f(x: &crate::vap::T) { crate :: cel :: eval(x) }", 1),
        ["vap:1", "cel:1"]
    );
    assert_eq!(
        found("use super::x; use super::super::y::Z; use super::super::super::odd;", 2),
        ["y:1", "odd:1"]
    );
    assert_eq!(
        found("mod m { use super::near; use super::super::far; } use super::far;", 1),
        ["far:1", "far:1"]
    );
    assert_eq!(found("macro_rules! m { () => { $crate::cli::f() } }", 1), ["cli:1"]);
    assert_eq!(
        found("// crate::a\n/* crate::b /* crate::c */ crate::d */ crate::e::F", 1),
        ["e:2"]
    );
    assert_eq!(
        found(
            "//! [`crate::a`]\n\"crate::b \\\" crate::c\"; r#\"crate::d \" \"#; crate::e",
            1
        ),
        ["e:2"]
    );
    assert_eq!(
        found(
            "fn f<'a>(c: char) { c == '\"' || c == '\\'' || crate::a::b(r#type) }",
            1
        ),
        ["a:1"]
    );
    assert_eq!(
        found("#[cfg(test)]\nmod tests { use crate::a; fn f() {} }\nuse crate::b;", 1),
        ["b:3"]
    );
    assert_eq!(found("#[cfg(test)]\nuse crate::{a, c};\nuse crate::b;", 1), ["b:3"]);
    assert_eq!(
        found("#[cfg(test)] #[path = \"x\"] mod tests; use crate::b;", 1),
        ["b:1"]
    );
    assert_eq!(found("unfinished \"", 1), Vec::<String>::new());
    assert_eq!(found("unfinished r#\"", 1), Vec::<String>::new());
    assert_eq!(found("unfinished '\\", 1), Vec::<String>::new());
}
