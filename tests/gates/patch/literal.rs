//! Literals of mutation expressions, read without a CEL engine. Anything else is `None`.

use std::iter::Peekable;
use std::str::CharIndices;

use kyvtest_go_compat::value::{Builder, Data, Document, Value};
use kyvtest_patch::structured::{Config, Opaque};

/// A literal expression.
#[derive(Debug, Clone)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
    List(Vec<Literal>),
    Map(Vec<(String, Literal)>),
    /// The fields of a typed object.
    Object(Vec<(String, Literal)>),
}

pub(crate) fn parse(text: &str) -> Option<Literal> {
    let mut parser = Parser {
        text,
        chars: text.char_indices().peekable(),
    };
    let literal = parser.value()?;
    parser.space();
    parser.chars.peek().is_none().then_some(literal)
}

struct Parser<'t> {
    text: &'t str,
    chars: Peekable<CharIndices<'t>>,
}

impl Parser<'_> {
    fn space(&mut self) {
        while self.chars.next_if(|(_, c)| c.is_whitespace()).is_some() {}
    }

    fn eat(&mut self, expected: char) -> Option<()> {
        self.space();
        self.chars.next_if(|(_, c)| *c == expected).map(|_| ())
    }

    fn word(&mut self, is_part: impl Fn(char) -> bool) -> String {
        let mut word = String::new();
        while let Some((_, c)) = self.chars.next_if(|(_, c)| is_part(*c)) {
            word.push(c);
        }
        word
    }

    fn value(&mut self) -> Option<Literal> {
        self.space();
        let (_, first) = *self.chars.peek()?;
        match first {
            '"' | '\'' => self.text().map(Literal::Text),
            '[' => {
                self.eat('[')?;
                let mut items = Vec::new();
                while self.eat(']').is_none() {
                    items.push(self.value()?);
                    let _ = self.eat(',');
                }
                Some(Literal::List(items))
            }
            '{' => {
                self.eat('{')?;
                self.entries(true).map(Literal::Map)
            }
            '-' | '0'..='9' => self.number(),
            _ => {
                let word = self.word(|c| c.is_alphanumeric() || c == '.' || c == '_');
                match word.as_str() {
                    "null" => Some(Literal::Null),
                    "true" => Some(Literal::Bool(true)),
                    "false" => Some(Literal::Bool(false)),
                    _ => {
                        self.eat('{')?;
                        self.entries(false).map(Literal::Object)
                    }
                }
            }
        }
    }

    fn entries(&mut self, is_map: bool) -> Option<Vec<(String, Literal)>> {
        let mut entries = Vec::new();
        while self.eat('}').is_none() {
            self.space();
            let key = if is_map {
                self.text()?
            } else {
                let is_escaped = self.eat('`').is_some();
                let key = self.word(|c| c.is_alphanumeric() || c == '_' || is_escaped && c != '`');
                if is_escaped {
                    self.eat('`')?;
                }
                key
            };
            self.eat(':')?;
            entries.push((key, self.value()?));
            let _ = self.eat(',');
        }
        Some(entries)
    }

    /// A string with JSON's escapes at most.
    fn text(&mut self) -> Option<String> {
        let (start, quote) = self.chars.next()?;
        if !matches!(quote, '"' | '\'') {
            return None;
        }
        loop {
            let (at, c) = self.chars.next()?;
            if c == '\\' {
                self.chars.next()?;
            } else if c == quote {
                let inner = &self.text[start + 1..at];
                if !inner.contains('\\') {
                    return Some(inner.to_owned());
                }
                return serde_json::from_str(&format!("\"{inner}\"")).ok();
            }
        }
    }

    fn number(&mut self) -> Option<Literal> {
        let word = self.word(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.'));
        if let Some(uint) = word.strip_suffix('u') {
            return uint.parse().ok().map(Literal::Uint);
        }
        let int = word.parse().ok().map(Literal::Int);
        int.or_else(|| word.parse().ok().map(Literal::Double))
    }
}

impl Literal {
    /// The value that the merge sees. Lists and maps inside list and map literals stay values of CEL.
    pub(crate) fn config(&self) -> Config<'_> {
        self.nested_config(false)
    }

    fn nested_config(&self, is_inside: bool) -> Config<'_> {
        match self {
            Self::Null => Config::Opaque(Opaque::null()),
            Self::Bool(value) => Config::Value(Value::Bool(*value)),
            Self::Int(value) => Config::Value(Value::Int(*value)),
            Self::Uint(value) => Config::Value(Value::Uint(*value)),
            Self::Double(value) => Config::Value(Value::Double(*value)),
            Self::Text(text) => Config::Value(Value::String(text)),
            Self::List(_) | Self::Map(_) if is_inside => {
                let display = Data::from(self.document().root()).to_go();
                Config::Opaque(Opaque {
                    go_type: "ref.Val".to_owned(),
                    debug: display.clone(),
                    display,
                })
            }
            Self::List(items) => Config::List(items.iter().map(|item| item.nested_config(true)).collect()),
            Self::Map(entries) => Config::Map(
                entries
                    .iter()
                    .map(|(key, value)| (key.as_str().into(), value.nested_config(true)))
                    .collect(),
            ),
            Self::Object(fields) => Config::Map(
                fields
                    .iter()
                    .map(|(key, value)| (key.as_str().into(), value.nested_config(false)))
                    .collect(),
            ),
        }
    }

    /// The value as JSON.
    pub(crate) fn document(&self) -> Document {
        let mut builder = Builder::new();
        self.build(&mut builder);
        builder.finish()
    }

    fn build(&self, builder: &mut Builder) {
        /// The largest integer that a double holds exactly; larger ones are written as strings.
        const LARGEST: u64 = (1 << 53) - 1;
        match self {
            Self::Null => builder.null(),
            Self::Bool(value) => builder.bool(*value),
            Self::Int(value) if value.unsigned_abs() > LARGEST => builder.string(&value.to_string()),
            Self::Int(value) => builder.int(*value),
            Self::Uint(value) => builder.int(*value as i64),
            Self::Double(value) => builder.double(*value),
            Self::Text(text) => builder.string(text),
            Self::List(items) => {
                builder.begin_list();
                for item in items {
                    item.build(builder);
                }
                builder.end();
            }
            Self::Map(entries) | Self::Object(entries) => {
                builder.begin_map();
                for (key, value) in entries {
                    builder.key(key);
                    value.build(builder);
                }
                builder.end();
            }
        }
    }
}
