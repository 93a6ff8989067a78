//! The inputs of decoding: a parsed document, or JSON text whose spelling matters.
//!
//! Upstream counterpart: the byte stream of `sigs.k8s.io/json`. A [`Text`] keeps duplicate keys and the spelling of
//! numbers, which decide whether `80.0` is an integer and how a quantity is written.
//!
//! Known deviation: texts that nest deeper than 1,000 levels are rejected; upstream's limit is 10,000.

use std::borrow::Cow;

use kyvtest_go_compat::value::{Key, Value};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Number<'a> {
    Int(i64),
    Uint(u64),
    Double(f64),
    Spelled(&'a str),
}

/// One level of the input.
pub(crate) enum View<'a, I: Input<'a>> {
    Null,
    Bool(bool),
    Number(Number<'a>),
    Text(&'a str),
    List(I::Items),
    Map(I::Entries),
}

/// A value that can be decoded.
pub(crate) trait Input<'a>: Copy {
    type Items: ExactSizeIterator<Item = Self>;
    type Entries: ExactSizeIterator<Item = (Key<'a>, Self)>;
    /// Whether a map may have a key twice.
    const DUPLICATES: bool;

    fn view(self) -> View<'a, Self>;
}

/// Elements of a list in a document.
pub(crate) struct Items<'a> {
    list: kyvtest_go_compat::value::List<'a>,
    next: usize,
}

impl<'a> Iterator for Items<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        let item = self.list.get(self.next)?;
        self.next += 1;
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.list.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Items<'_> {}

/// Entries of a map in a document.
pub(crate) struct Entries<'a> {
    map: kyvtest_go_compat::value::Map<'a>,
    next: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = (Key<'a>, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.map.entry(self.next)?;
        self.next += 1;
        Some(entry)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.map.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Entries<'_> {}

impl<'a> Input<'a> for Value<'a> {
    type Items = Items<'a>;
    type Entries = Entries<'a>;
    const DUPLICATES: bool = false;

    fn view(self) -> View<'a, Self> {
        match self {
            Value::Null => View::Null,
            Value::Bool(value) => View::Bool(value),
            Value::Int(value) => View::Number(Number::Int(value)),
            Value::Uint(value) => View::Number(Number::Uint(value)),
            Value::Double(value) => View::Number(Number::Double(value)),
            Value::String(text) => View::Text(text),
            Value::List(list) => View::List(Items { list, next: 0 }),
            Value::Map(map) => View::Map(Entries { map, next: 0 }),
        }
    }
}

/// Parsed JSON text, with duplicate keys and the spelling of numbers.
#[derive(Debug)]
pub struct Text(Json);

#[derive(Debug)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(Box<str>),
    Text(Box<str>),
    List(Vec<Json>),
    Map(Vec<(Box<str>, Json)>),
}

impl Text {
    /// Parses a JSON text. The error has Go's wording.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser {
            bytes: text.as_bytes(),
            at: 0,
        };
        parser.space();
        let json = parser.value(0)?;
        parser.space();
        if parser.at < parser.bytes.len() {
            return Err(parser.unexpected("after top-level value"));
        }
        Ok(Self(json))
    }

    pub(crate) fn root(&self) -> &Json {
        &self.0
    }
}

/// Entries of a map in a text.
pub(crate) struct TextEntries<'a>(std::slice::Iter<'a, (Box<str>, Json)>);

impl<'a> Iterator for TextEntries<'a> {
    type Item = (Key<'a>, &'a Json);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, value)| (Key::new(key), value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for TextEntries<'_> {}

impl<'a> Input<'a> for &'a Json {
    type Items = std::slice::Iter<'a, Json>;
    type Entries = TextEntries<'a>;
    const DUPLICATES: bool = true;

    fn view(self) -> View<'a, Self> {
        match self {
            Json::Null => View::Null,
            Json::Bool(value) => View::Bool(*value),
            Json::Number(spelling) => View::Number(Number::Spelled(spelling)),
            Json::Text(text) => View::Text(text),
            Json::List(items) => View::List(items.iter()),
            Json::Map(entries) => View::Map(TextEntries(entries.iter())),
        }
    }
}

struct Parser<'t> {
    bytes: &'t [u8],
    at: usize,
}

impl Parser<'_> {
    fn space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn unexpected(&self, place: &str) -> String {
        match String::from_utf8_lossy(&self.bytes[self.at.min(self.bytes.len())..])
            .chars()
            .next()
        {
            Some('\t') => format!("invalid character '\\t' {place}"),
            Some('\n') => format!("invalid character '\\n' {place}"),
            Some(found) => format!("invalid character '{found}' {place}"),
            None => "unexpected end of JSON input".to_owned(),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth > 1_000 {
            return Err("exceeded max depth".to_owned());
        }
        match self.bytes.get(self.at) {
            Some(b'{') => self.map(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Ok(Json::Text(self.string()?.into())),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                for (word, json) in [
                    ("true", Json::Bool(true)),
                    ("false", Json::Bool(false)),
                    ("null", Json::Null),
                ] {
                    if self.bytes[self.at..].starts_with(word.as_bytes()) {
                        self.at += word.len();
                        return Ok(json);
                    }
                }
                Err(self.unexpected("looking for beginning of value"))
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut entries = Vec::new();
        self.space();
        if self.bytes.get(self.at) == Some(&b'}') {
            self.at += 1;
            return Ok(Json::Map(entries));
        }
        loop {
            self.space();
            if self.bytes.get(self.at) != Some(&b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.string()?;
            self.space();
            if self.bytes.get(self.at) != Some(&b':') {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            self.space();
            entries.push((key.into(), self.value(depth + 1)?));
            self.space();
            match self.bytes.get(self.at) {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Json::Map(entries));
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.bytes.get(self.at) == Some(&b']') {
            self.at += 1;
            return Ok(Json::List(items));
        }
        loop {
            self.space();
            items.push(self.value(depth + 1)?);
            self.space();
            match self.bytes.get(self.at) {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Json::List(items));
                }
                _ => return Err(self.unexpected("after array element")),
            }
        }
    }

    fn number(&mut self) -> Result<Json, String> {
        let start = self.at;
        if self.bytes[self.at] == b'-' {
            self.at += 1;
        }
        match self.bytes.get(self.at) {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.unexpected("in numeric literal")),
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        let spelling = String::from_utf8_lossy(&self.bytes[start..self.at]);
        Ok(Json::Number(spelling.into()))
    }

    fn digits(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn some_digits(&mut self, place: &str) -> Result<(), String> {
        if !matches!(self.bytes.get(self.at), Some(b'0'..=b'9')) {
            return Err(self.unexpected(place));
        }
        self.digits();
        Ok(())
    }

    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            match self.bytes.get(self.at) {
                None => return Err("unexpected end of JSON input".to_owned()),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(String::from_utf8_lossy(&out).into_owned());
                }
                Some(b'\\') => self.escape(&mut out)?,
                Some(0..=0x1f) => return Err(self.unexpected("in string literal")),
                Some(byte) => {
                    out.push(*byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        self.at += 1;
        let plain = match self.bytes.get(self.at) {
            Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                self.at += 1;
                let first = self.hex()?;
                let found = self.surrogate(first)?;
                out.extend(found.encode_utf8(&mut [0; 4]).bytes());
                return Ok(());
            }
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        out.push(plain);
        Ok(())
    }

    /// The character of one or two `\u` escapes; half a pair is the replacement character.
    fn surrogate(&mut self, first: u32) -> Result<char, String> {
        if !(0xd800..0xdc00).contains(&first) {
            return Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        if self.bytes.get(self.at..self.at + 2) != Some(b"\\u") {
            return Ok(char::REPLACEMENT_CHARACTER);
        }
        let back = self.at;
        self.at += 2;
        let second = self.hex()?;
        if (0xdc00..0xe000).contains(&second) {
            let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        self.at = back;
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex(&mut self) -> Result<u32, String> {
        let digits = self.bytes.get(self.at..self.at + 4);
        let code = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        match code {
            Some(code) => {
                self.at += 4;
                Ok(code)
            }
            None => Err(self.unexpected("in \\u hexadecimal character escape")),
        }
    }
}

/// Shortest text of a double, as Python and JavaScript write it in JSON.
pub(crate) fn spell(number: Number<'_>) -> Cow<'_, str> {
    match number {
        Number::Int(value) => Cow::Owned(value.to_string()),
        Number::Uint(value) => Cow::Owned(value.to_string()),
        Number::Double(value) if value != 0.0 && (value.abs() < 1e-6 || value.abs() >= 1e21) => {
            Cow::Owned(format!("{value:e}"))
        }
        Number::Double(value) => Cow::Owned(format!("{value}")),
        Number::Spelled(text) => Cow::Borrowed(text),
    }
}
