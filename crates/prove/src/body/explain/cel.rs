//! One-step edits of CEL expressions: operators, quantifiers, guards, missing lists and constants.
//!
//! Works on tokens. That a candidate compiles, and what it means, is for the engines and the prover to say.

use std::collections::BTreeSet;

/// Constants that only the other side has.
#[derive(Debug, Clone, Default)]
pub(super) struct Hints {
    pub(super) texts: BTreeSet<String>,
    pub(super) numbers: BTreeSet<i64>,
    /// Constants of both sides.
    pub(super) common: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Number,
    Text,
    Sign,
}

#[derive(Debug, Clone, Copy)]
struct Token<'t> {
    start: usize,
    text: &'t str,
    kind: Kind,
}

impl Token<'_> {
    const fn end(&self) -> usize {
        self.start + self.text.len()
    }

    fn is(&self, text: &str) -> bool {
        self.kind != Kind::Text && self.text == text
    }
}

const SIGNS: [&str; 7] = [">=", "<=", "==", "!=", "&&", "||", ".?"];

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let first = rest.chars().next().unwrap_or(' ');
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (kind, length) = if first == '\'' || first == '"' {
            (Kind::Text, quoted(rest, first))
        } else if first.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.');
            (Kind::Number, end.unwrap_or(rest.len()))
        } else if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            (Kind::Word, end.unwrap_or(rest.len()))
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
            (Kind::Sign, sign.map_or(first.len_utf8(), |sign| sign.len()))
        };
        tokens.push(Token {
            start: at,
            text: rest.get(..length).unwrap_or(rest),
            kind,
        });
        at += length;
    }
    tokens
}

/// The length of a literal that begins here.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// A candidate: the new expression, and the change in words.
pub(super) type Candidate = (String, String);

/// All one-step edits of an expression, the most usual mistakes first.
pub(super) fn candidates(text: &str, hints: &Hints) -> Vec<Candidate> {
    let edits = Edits {
        text,
        tokens: tokens(text),
    };
    let mut all = Vec::new();
    edits.lists(&mut all);
    edits.operators(&mut all);
    edits.guards(&mut all);
    edits.constants(hints, &mut all);
    edits.defaults(&mut all);
    edits.operands(&mut all);
    all
}

struct Edits<'t> {
    text: &'t str,
    tokens: Vec<Token<'t>>,
}

/// Operators and functions that are mistaken for each other.
const CONFUSED: [(&str, &[&str]); 14] = [
    (">", &[">="]),
    (">=", &[">"]),
    ("<", &["<="]),
    ("<=", &["<"]),
    ("==", &["!="]),
    ("!=", &["=="]),
    ("&&", &["||"]),
    ("||", &["&&"]),
    ("all", &["exists"]),
    ("exists", &["all"]),
    ("exists_one", &["exists"]),
    ("startsWith", &["endsWith", "contains"]),
    ("endsWith", &["startsWith", "contains"]),
    ("contains", &["startsWith", "endsWith"]),
];

impl<'t> Edits<'t> {
    fn at(&self, number: usize) -> Option<&Token<'t>> {
        self.tokens.get(number)
    }

    fn splice(&self, start: usize, end: usize, new: &str) -> String {
        let before = self.text.get(..start).unwrap_or_default();
        format!("{before}{new}{}", self.text.get(end..).unwrap_or_default())
    }

    fn operators(&self, all: &mut Vec<Candidate>) {
        for (number, token) in self.tokens.iter().enumerate() {
            if token.kind == Kind::Text {
                continue;
            }
            let found = CONFUSED.iter().find(|(own, _)| *own == token.text);
            for other in found.into_iter().flat_map(|(_, others)| *others) {
                let changed = self.splice(token.start, token.end(), other);
                all.push((changed, format!("`{other}` for `{}`", token.text)));
            }
            if token.is("!") && self.at(number + 1).is_some() {
                all.push((self.splice(token.start, token.end(), ""), "without `!`".to_owned()));
            }
            for (word, other) in [("true", "false"), ("false", "true")] {
                if token.is(word) {
                    let changed = self.splice(token.start, token.end(), other);
                    all.push((changed, format!("`{other}` for `{word}`")));
                }
            }
        }
    }

    /// Chains of fields, as numbers of their first and last token: `a.b.?c`, not the names of methods.
    fn chains(&self) -> Vec<(usize, usize)> {
        let mut chains = Vec::new();
        for (first, token) in self.tokens.iter().enumerate() {
            let joined = first > 0 && self.at(first - 1).is_some_and(|sign| sign.is(".") || sign.is(".?"));
            let is_call = self.at(first + 1).is_some_and(|sign| sign.is("("));
            if token.kind != Kind::Word || joined || is_call {
                continue;
            }
            let mut last = first;
            while self.at(last + 1).is_some_and(|sign| sign.is(".") || sign.is(".?"))
                && self.at(last + 2).is_some_and(|word| word.kind == Kind::Word)
                && !self.at(last + 3).is_some_and(|sign| sign.is("("))
            {
                last += 2;
            }
            if last > first {
                chains.push((first, last));
            }
        }
        chains
    }

    fn slice(&self, first: usize, last: usize) -> &'t str {
        match (self.at(first), self.at(last)) {
            (Some(first), Some(last)) => self.text.get(first.start..last.end()).unwrap_or_default(),
            _ => "",
        }
    }

    /// Container lists that are missing or too many.
    fn lists(&self, all: &mut Vec<Candidate>) {
        const OTHERS: [&str; 2] = ["initContainers", "ephemeralContainers"];
        let missing: Vec<&str> = OTHERS.into_iter().filter(|name| !self.text.contains(name)).collect();
        for (first, last) in self.chains() {
            let (Some(begin), Some(end), Some(word)) = (self.at(first), self.at(last), self.at(last)) else {
                continue;
            };
            if word.text != "containers" || last < 2 {
                continue;
            }
            let owner = self.slice(first, last - 2);
            let mut wanted: Vec<Vec<&str>> = missing.iter().map(|name| vec![*name]).collect();
            if missing.len() > 1 {
                wanted.insert(0, missing.clone());
            }
            for names in wanted {
                let lists = names.iter().map(|name| format!(" + {owner}.?{name}.orValue([])"));
                let sum = format!("({}{})", self.slice(first, last), lists.collect::<String>());
                let what = format!("also check `{}`", names.join("` and `"));
                all.push((self.splice(begin.start, end.end(), &sum), what));
            }
        }
        for (number, token) in self.tokens.iter().enumerate() {
            if !token.is("+") {
                continue;
            }
            let end = self.term_end(number + 1, true);
            if let Some(last) = self.at(end) {
                let what = format!("without `{}`", self.slice(number + 1, end));
                all.push((self.splice(token.start, last.end(), ""), what));
            }
        }
    }

    /// The last token of the operand that begins at a token.
    fn term_end(&self, from: usize, sums: bool) -> usize {
        let mut depth = 0_usize;
        let mut last = from;
        for (number, token) in self.tokens.iter().enumerate().skip(from) {
            if token.kind != Kind::Text {
                match token.text {
                    "(" | "[" | "{" => depth += 1,
                    ")" | "]" | "}" if depth == 0 => break,
                    ")" | "]" | "}" => depth -= 1,
                    "&&" | "||" | "," | "?" | ":" if depth == 0 => break,
                    "+" if depth == 0 && sums => break,
                    _ => {}
                }
            }
            last = number;
        }
        last
    }

    /// The first token of the operand that ends at a token.
    fn term_start(&self, from: usize) -> usize {
        let mut depth = 0_usize;
        let mut first = from;
        for number in (0..=from).rev() {
            let Some(token) = self.at(number) else { break };
            if token.kind != Kind::Text {
                match token.text {
                    ")" | "]" | "}" => depth += 1,
                    "(" | "[" | "{" if depth == 0 => break,
                    "(" | "[" | "{" => depth -= 1,
                    "&&" | "||" | "," | "?" | ":" if depth == 0 => break,
                    _ => {}
                }
            }
            first = number;
        }
        first
    }

    /// Guards that are missing, or that let through what they should refuse.
    fn guards(&self, all: &mut Vec<Candidate>) {
        for number in 0..self.tokens.len() {
            self.turned(number, all);
        }
        let mut known = BTreeSet::new();
        for (first, last) in self.chains() {
            let in_has = first > 1
                && self.at(first - 1).is_some_and(|sign| sign.is("("))
                && self.at(first - 2).is_some_and(|word| word.is("has"));
            if in_has {
                continue;
            }
            let (start, end) = (self.term_start(first), self.term_end(last, false));
            let (Some(from), Some(to)) = (self.at(start), self.at(end)) else {
                continue;
            };
            let term = self.slice(start, end);
            let is_whole = start == 0 && end + 1 == self.tokens.len();
            for end_of_path in (first + 2..=last).step_by(2) {
                let path = self.slice(first, end_of_path);
                if path.contains(".?") || !known.insert((from.start, path)) {
                    continue;
                }
                for (guard, what) in [
                    (format!("!has({path}) || {term}"), format!("guard: `!has({path}) ||`")),
                    (format!("has({path}) && {term}"), format!("guard: `has({path}) &&`")),
                ] {
                    let guard = if is_whole { guard } else { format!("({guard})") };
                    all.push((self.splice(from.start, to.end(), &guard), what));
                }
            }
        }
    }

    /// `!has(x) || …` for `has(x) && …`, the reverse, and either without its guard.
    fn turned(&self, number: usize, all: &mut Vec<Candidate>) {
        let Some(has) = self.at(number).filter(|word| word.is("has")) else {
            return;
        };
        let mut close = number + 1;
        while self.at(close).is_some_and(|sign| !sign.is(")")) {
            close += 1;
        }
        let (Some(end), Some(sign)) = (self.at(close), self.at(close + 1)) else {
            return;
        };
        let call = self.slice(number, close);
        let not = number
            .checked_sub(1)
            .and_then(|before| self.at(before))
            .filter(|sign| sign.is("!"));
        let start = not.map_or(has.start, |not| not.start);
        let after = self.at(close + 2).map_or(self.text.len(), |next| next.start);
        let turned = match (not.is_some(), sign.text) {
            (true, "||") => format!("{call} && "),
            (false, "&&") => format!("!{call} || "),
            _ => return,
        };
        all.push((
            self.splice(start, after, &turned),
            format!("guard: `{}`", turned.trim()),
        ));
        all.push((self.splice(start, after, ""), format!("without the guard `{call}`")));
        debug_assert!(end.start >= has.start);
    }

    /// Optional fields with a default.
    fn defaults(&self, all: &mut Vec<Candidate>) {
        for (first, last) in self.chains() {
            for from in (first + 1..last).step_by(2) {
                let Some(dot) = self.at(from).filter(|dot| dot.is(".")) else {
                    continue;
                };
                let tail = self.slice(from, last).replace(".?", ".").replace('.', ".?");
                let Some(end) = self.at(last) else { continue };
                let path = self.slice(first, last);
                for default in ["[]", "''", "false", "true", "0", "{}"] {
                    let changed = self.splice(dot.start, end.end(), &format!("{tail}.orValue({default})"));
                    all.push((changed, format!("`{path}` is {default} if absent")));
                }
            }
        }
    }

    /// Operands that are too many.
    fn operands(&self, all: &mut Vec<Candidate>) {
        for (number, token) in self.tokens.iter().enumerate() {
            if !token.is("&&") && !token.is("||") || number == 0 {
                continue;
            }
            let end = self.term_end(number + 1, false);
            let start = self.term_start(number - 1);
            if let (Some(last), Some(first), Some(next)) = (self.at(end), self.at(start), self.at(number + 1)) {
                let what = format!("without `{}`", self.slice(number + 1, end));
                all.push((self.splice(token.start, last.end(), "").trim_end().to_owned(), what));
                let what = format!("without `{}`", self.slice(start, number - 1));
                all.push((self.splice(first.start, next.start, ""), what));
            }
        }
    }

    fn constants(&self, hints: &Hints, all: &mut Vec<Candidate>) {
        let missing: Vec<String> = hints
            .texts
            .iter()
            .filter(|text| !text.is_empty())
            .map(|text| literal(text))
            .collect();
        for (number, token) in self.tokens.iter().enumerate() {
            match token.kind {
                Kind::Text => {
                    let before = number.checked_sub(1).and_then(|before| self.at(before));
                    let after = self.at(number + 1);
                    let in_list = |sign: Option<&Token<'_>>, signs: [&str; 2]| {
                        sign.is_some_and(|sign| signs.iter().any(|own| sign.is(own)))
                    };
                    let listed = in_list(before, ["[", ","]) && in_list(after, ["]", ","]);
                    if listed && after.is_some_and(|sign| sign.is("]")) && !missing.is_empty() {
                        for added in [missing.join(", ")].iter().chain(&missing) {
                            let changed = self.splice(token.end(), token.end(), &format!(", {added}"));
                            all.push((changed, format!("also {added}")));
                        }
                    }
                    let own = token.text.trim_matches(['\'', '"']);
                    if listed && !hints.common.contains(own) {
                        let (start, end) = match (before, after) {
                            (Some(comma), _) if comma.is(",") => (comma.start, token.end()),
                            (_, Some(comma)) if comma.is(",") => (token.start, comma.end()),
                            _ => (token.start, token.end()),
                        };
                        all.push((self.splice(start, end, ""), format!("without {}", token.text)));
                    }
                    for other in missing.iter().take(12) {
                        let changed = self.splice(token.start, token.end(), other);
                        all.push((changed, format!("{other} for {}", token.text)));
                    }
                }
                Kind::Number => {
                    let own: Option<i64> = token.text.parse().ok();
                    let near = own
                        .into_iter()
                        .flat_map(|own| [own.saturating_add(1), own.saturating_sub(1)]);
                    for other in hints.numbers.iter().copied().take(12).chain(near) {
                        let changed = self.splice(token.start, token.end(), &other.to_string());
                        all.push((changed, format!("`{other}` for `{}`", token.text)));
                    }
                }
                Kind::Word | Kind::Sign => {}
            }
        }
    }
}

/// A CEL literal.
fn literal(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\'', "\\'");
    format!("'{escaped}'")
}
