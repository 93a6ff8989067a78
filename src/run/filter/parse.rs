//! The grammar of filter expressions. `!` binds more tightly than `&` and `-`, these more tightly than `|`.

use super::{Expression, Matcher, Subject};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, FileId, Span, nearest},
    regex::Regex,
    text::wildcard,
};

/// How deeply parentheses and negations may be nested.
const DEEPEST: usize = 64;

pub(super) fn parse(text: &str, file: FileId) -> Result<Expression, Diagnostic> {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
        file,
    };
    let expression = parser.any()?;
    parser.space();
    if parser.rest().is_empty() {
        Ok(expression)
    } else {
        Err(parser.wrong("expected `&`, `|`, `-` or the end"))
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    file: FileId,
}

type Parsed<T> = Result<T, Diagnostic>;

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.file, start as u32, end as u32)
    }

    /// An error about the next character.
    fn wrong(&self, message: &str) -> Diagnostic {
        let length = self.rest().chars().next().map_or(0, char::len_utf8);
        Diagnostic::at(Code::BadFilter, self.span(self.at, self.at + length), message)
    }

    fn takes(&mut self, symbol: char) -> bool {
        let found = self.rest().starts_with(symbol);
        if found {
            self.at += symbol.len_utf8();
        }
        found
    }

    /// The name that comes next; empty if there is none.
    fn name(&self) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-')));
        &rest[..end.unwrap_or(rest.len())]
    }

    /// Consumes one of the operators: a symbol, or a word that is not a predicate's name.
    fn operator(&mut self, symbols: &[char], word: &str) -> Option<&'t str> {
        self.space();
        let rest = self.rest();
        let symbol = rest.chars().next().filter(|c| symbols.contains(c)).map(char::len_utf8);
        let length = symbol.or_else(|| (self.name() == word).then_some(word.len()))?;
        self.at += length;
        Some(&rest[..length])
    }

    fn any(&mut self) -> Parsed<Expression> {
        let mut parts = vec![self.all()?];
        while self.operator(&['|', '+'], "or").is_some() {
            parts.push(self.all()?);
        }
        Ok(joined(parts, Expression::Any))
    }

    fn all(&mut self) -> Parsed<Expression> {
        let mut parts = vec![self.one()?];
        while let Some(operator) = self.operator(&['&', '-'], "and") {
            let part = self.one()?;
            parts.push(if operator == "-" {
                Expression::Not(Box::new(part))
            } else {
                part
            });
        }
        Ok(joined(parts, Expression::All))
    }

    fn one(&mut self) -> Parsed<Expression> {
        self.space();
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wrong("the expression is nested too deeply"));
        }
        let expression = if self.operator(&['!'], "not").is_some() {
            Expression::Not(Box::new(self.one()?))
        } else if self.takes('(') {
            let inner = self.any()?;
            self.close()?;
            inner
        } else {
            self.predicate()?
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn close(&mut self) -> Parsed<()> {
        self.space();
        if self.takes(')') {
            Ok(())
        } else {
            Err(self.wrong("expected `)`"))
        }
    }

    fn predicate(&mut self) -> Parsed<Expression> {
        let (start, name) = (self.at, self.name());
        if name.is_empty() {
            return Err(self.wrong("expected a predicate such as `policy(…)`"));
        }
        self.at += name.len();
        let subject = Subject::ALL.iter().find(|(known, _)| *known == name);
        let constant = match name {
            "all" => Some(true),
            "none" => Some(false),
            _ => None,
        };
        if subject.is_none() && constant.is_none() {
            let known = || Subject::ALL.iter().map(|(known, _)| *known).chain(["all", "none"]);
            let message = format!("unknown predicate `{name}`");
            let help = match nearest(name, known()).first() {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", listed(known())),
            };
            return Err(Diagnostic::at(Code::BadFilter, self.span(start, self.at), message).with_help(help));
        }
        self.space();
        if !self.takes('(') {
            return Err(self.wrong("expected `(`"));
        }
        if let Some(constant) = constant {
            self.close()?;
            return Ok(Expression::Constant(constant));
        }
        let matcher = match subject {
            Some((_, subject)) => Expression::Is(*subject, self.matcher(*subject)?),
            None => return Err(self.wrong("expected a predicate")),
        };
        self.close()?;
        Ok(matcher)
    }

    fn matcher(&mut self, subject: Subject) -> Parsed<Matcher> {
        self.space();
        if self.rest().starts_with('/') && subject != Subject::Path {
            return self.regex();
        }
        // A path may begin with `/`: it is a regular expression if another one closes it before the parenthesis.
        if self.rest().starts_with('/') {
            let before = self.at;
            let tried = self.regex();
            self.space();
            if tried.is_ok() && self.rest().starts_with(')') {
                return tried;
            }
            self.at = before;
        }
        let kind = ['=', '~'].into_iter().find(|&symbol| self.takes(symbol));
        let start = self.at;
        let text = self.until(')');
        let end = start + self.text.get(start..self.at).unwrap_or_default().trim_end().len();
        let text = text.trim_end().to_owned();
        if text.is_empty() {
            return Err(self.wrong("expected a name or a pattern"));
        }
        let words = subject.words();
        let known = |word: &&str| word.eq_ignore_ascii_case(&text);
        if kind != Some('~') && !words.is_empty() && !wildcard::has_wildcard(&text) && !words.iter().any(known) {
            let what = match subject {
                Subject::Operation => "operation",
                Subject::Engine => "engine",
                _ => "result",
            };
            let message = format!("unknown {what} `{text}`");
            let near = nearest(&text, words.iter().copied())
                .first()
                .map(|near| format!("did you mean `{near}`?"));
            let help = near.unwrap_or_else(|| format!("expected {}", listed(words.into_iter())));
            return Err(Diagnostic::at(Code::BadFilter, self.span(start, end), message).with_help(help));
        }
        Ok(match kind {
            Some('=') => Matcher::Exact(text),
            Some(_) => Matcher::Contains(text),
            None => Matcher::Glob(text),
        })
    }

    /// `/…/`, where `\/` is a slash.
    fn regex(&mut self) -> Parsed<Matcher> {
        let start = self.at;
        self.at += 1;
        let mut pattern = String::new();
        let mut escaped = false;
        for (offset, c) in self.rest().char_indices() {
            if c == '/' && !escaped {
                self.at += offset + 1;
                return Regex::new(&pattern)
                    .map(Matcher::Regex)
                    .map_err(|error| Diagnostic::at(Code::BadFilter, self.span(start, self.at), error.to_string()));
            }
            if c == '/' {
                pattern.pop();
            }
            pattern.push(c);
            escaped = c == '\\' && !escaped;
        }
        let span = self.span(start, self.text.len());
        Err(Diagnostic::at(
            Code::BadFilter,
            span,
            "the regular expression has no closing `/`",
        ))
    }

    /// The text up to a closing character; `\` escapes the next character.
    fn until(&mut self, end: char) -> String {
        let mut text = String::new();
        let mut characters = self.rest().chars();
        while let Some(c) = characters.next() {
            if c == end {
                break;
            }
            self.at += c.len_utf8();
            if c != '\\' {
                text.push(c);
            } else if let Some(next) = characters.next() {
                self.at += next.len_utf8();
                text.push(next);
            }
        }
        text
    }
}

fn joined(mut parts: Vec<Expression>, join: impl FnOnce(Vec<Expression>) -> Expression) -> Expression {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            join(parts)
        }
    }
}

fn listed<'w>(words: impl Iterator<Item = &'w str>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
