//! Decodes an object into the tree of its Go type: drops unknown fields, rejects wrong types, writes quantities and
//! times canonically.
//!
//! Upstream counterpart: `sigs.k8s.io/json` with the `UnmarshalJSON` methods of apimachinery 0.36 (Quantity, Time,
//! MicroTime, IntOrString, RawExtension) and of apiextensions.
//!
//! Known deviation: the first error ends decoding; upstream finishes syntax first, so that a syntax error after a wrong
//! type is reported instead of it.

use std::{borrow::Cow, fmt::Write as _};

use kyvtest_go_compat::{
    text::{base64, quantity::Quantity, time::Timestamp, time_layout},
    value::Key,
};

use crate::{
    input::{Input, Number, View, spell},
    node::Node,
    table::{Shape, TABLE, Type, TypeId},
};

type Result<T> = std::result::Result<T, String>;

/// The rules for reading values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The body of a request: unknown fields are dropped.
    #[default]
    Body,
    /// A patched object: unknown fields are collected.
    Strict,
    /// An untyped object whose fields a schema has checked, converted by `runtime.DefaultUnstructuredConverter`.
    Converted,
}

/// The current path of the decoder, for messages.
#[derive(Default)]
pub(crate) struct Decoder {
    path: Vec<Cow<'static, str>>,
    owner: &'static str,
    mode: Mode,
    /// Positions in the lists on the way, each with the length of `path` there. Kept in strict mode only.
    positions: Vec<(usize, usize)>,
    /// Paths of unknown fields. Kept in strict mode only.
    unknown: Vec<String>,
}

impl Decoder {
    pub(crate) fn with_mode(mode: Mode) -> Self {
        Self {
            mode,
            ..Self::default()
        }
    }

    /// The paths of the unknown fields that were found.
    pub(crate) fn into_unknown(self) -> Vec<String> {
        self.unknown
    }

    fn add_unknown(&mut self, key: &str) {
        if self.mode != Mode::Strict {
            return;
        }
        let mut out = String::new();
        let mut positions = self.positions.iter().peekable();
        for (depth, part) in self.path.iter().enumerate() {
            out.push_str(part);
            while let Some((_, position)) = positions.next_if(|(at, _)| *at == depth + 1) {
                // Writing into memory cannot fail.
                let _ = write!(out, "[{position}]");
            }
            out.push('.');
        }
        out.push_str(key);
        self.unknown.push(out);
    }

    /// Decodes into a struct. `existing` is the result of an earlier duplicate of the key.
    pub(crate) fn object<'a, I: Input<'a>>(
        &mut self,
        id: TypeId,
        input: I,
        existing: Option<Node<'a>>,
    ) -> Result<Node<'a>> {
        let found = TABLE.get(id);
        let entries = match input.view() {
            View::Null => return Ok(existing.unwrap_or_else(|| zero(found))),
            View::Map(entries) => entries,
            other => return Err(self.mismatch(&other, go_struct(found.name))),
        };
        let merges = I::DUPLICATES || existing.is_some();
        let mut out = match existing {
            Some(Node::Map(entries)) => entries,
            _ => Vec::with_capacity(entries.len() + 6),
        };
        let outer = std::mem::replace(&mut self.owner, found.name);
        for (key, value) in entries {
            let Some(field) = found.field(key) else {
                self.add_unknown(key.text());
                continue;
            };
            let previous = merges
                .then(|| out.iter().position(|(name, _)| name == field.name))
                .flatten();
            let earlier = previous.map(|at| std::mem::replace(&mut out[at].1, Node::Null));
            self.path.push(Cow::Borrowed(field.name));
            let node = match (field.pointer && matches!(value.view(), View::Null), earlier) {
                (true, _) => Node::Null,
                (false, earlier) => self.value(&field.shape, value, earlier)?,
            };
            self.path.pop();
            match previous {
                Some(at) => out[at].1 = node,
                None if matches!(node, Node::Null) || field.disabled => {}
                None => out.push((Cow::Borrowed(field.name), node)),
            }
        }
        self.owner = outer;
        let mut node = Node::Map(out);
        embed(found, &mut node);
        Ok(node)
    }

    /// Decodes the fields of a struct that fit their types, and drops the others.
    pub(crate) fn fitting<'a, I: Input<'a>>(&mut self, id: TypeId, input: I) -> Node<'a> {
        let mut node = Node::EMPTY;
        if let View::Map(entries) = input.view() {
            for (key, value) in entries {
                let Some(field) = TABLE.get(id).field(key) else {
                    continue;
                };
                match self.value(&field.shape, value, None) {
                    Ok(Node::Null) | Err(_) => {}
                    Ok(value) => node.set(field.name, value),
                }
            }
        }
        node
    }

    fn value<'a, I: Input<'a>>(&mut self, shape: &Shape, input: I, existing: Option<Node<'a>>) -> Result<Node<'a>> {
        let view = input.view();
        if matches!(view, View::Null) && !matches!(shape, Shape::Struct(_) | Shape::List(_) | Shape::Map(_)) {
            // null leaves a scalar unchanged, and makes a map of quantities nil.
            return Ok(match (shape, existing) {
                (Shape::Resources | Shape::Bytes | Shape::Raw, _) | (_, None) => Node::Null,
                (_, Some(existing)) => existing,
            });
        }
        match (shape, view) {
            (Shape::Struct(id), _) => self.object(*id, input, existing),
            (Shape::Text, View::Text(text)) => Ok(Node::Text(Cow::Borrowed(text))),
            (Shape::Bool, View::Bool(value)) => Ok(Node::Bool(value)),
            (Shape::Int32 | Shape::Int64, View::Number(number)) if self.mode == Mode::Converted => {
                converted_integer(shape, number)
            }
            (Shape::IntOrString, View::Number(number)) if self.mode == Mode::Converted => self
                .integer(number, i64::from(i32::MIN), i64::from(i32::MAX), "int32")
                .map_err(|_| {
                    format!(
                        "json: cannot unmarshal number {} into Go value of type int32",
                        spell(number)
                    )
                }),
            (Shape::IntOrString, View::Bool(_)) if self.mode == Mode::Converted => {
                Err("json: cannot unmarshal bool into Go value of type int32".to_owned())
            }
            (Shape::Time | Shape::MicroTime, View::Number(_)) if self.mode == Mode::Converted => {
                Err("json: cannot unmarshal number into Go value of type string".to_owned())
            }
            (Shape::Time | Shape::MicroTime, View::Bool(_)) if self.mode == Mode::Converted => {
                Err("json: cannot unmarshal bool into Go value of type string".to_owned())
            }
            (Shape::Int32, View::Number(number)) => {
                self.integer(number, i64::from(i32::MIN), i64::from(i32::MAX), "int32")
            }
            (Shape::Int64, View::Number(number)) => self.integer(number, i64::MIN, i64::MAX, "int64"),
            (Shape::Float, View::Number(number)) => Ok(float(number)),
            (Shape::Bytes, View::Text(text)) if self.mode == Mode::Converted => {
                Self::bytes(text).map_err(|error| format!("error decoding from json: {error}"))
            }
            (Shape::Bytes, View::Text(text)) => Self::bytes(text),
            (Shape::Bytes, View::List(items)) => self.listed_bytes::<I>(items),
            (Shape::Quantity, view) => Self::quantity(view, false),
            (Shape::IntOrString, View::Text(text)) => Ok(Node::Text(Cow::Borrowed(text))),
            (Shape::IntOrString, View::Number(number)) => {
                self.integer(number, i64::from(i32::MIN), i64::from(i32::MAX), "int32")
            }
            (Shape::Time, View::Text(text)) => time(text),
            (Shape::MicroTime, View::Text(text)) => micro_time(text),
            (Shape::Raw, _) => Ok(raw(input)),
            (Shape::PropsOrBool(_), View::Bool(value)) => Ok(Node::Bool(value)),
            (Shape::PropsOrArray(id), View::List(items)) => items
                .map(|item| self.object(*id, item, None))
                .collect::<Result<_>>()
                .map(Node::List),
            (Shape::PropsOrStrings(_), View::List(_)) => self.list(&Shape::Text, input, None),
            (Shape::PropsOrBool(id) | Shape::PropsOrArray(id) | Shape::PropsOrStrings(id), View::Map(_)) => {
                self.object(*id, input, None)
            }
            (Shape::PropsOrBool(_), _) => Err("boolean or JSON schema expected".to_owned()),
            (Shape::List(item), _) => self.list(item, input, existing),
            (Shape::Map(item), _) => self.map(item, input, existing, false),
            (Shape::Resources, _) => self.map(&Shape::Quantity, input, existing, true),
            (shape, view) => Err(self.mismatch(&view, go_name(shape))),
        }
    }

    fn list<'a, I: Input<'a>>(&mut self, item: &Shape, input: I, existing: Option<Node<'a>>) -> Result<Node<'a>> {
        let items = match input.view() {
            View::Null => return Ok(Node::Null),
            View::List(items) => items,
            other => return Err(self.mismatch(&other, &format!("[]{}", go_name(item)))),
        };
        let mut earlier = match existing {
            Some(Node::List(items)) => items,
            _ => Vec::new(),
        };
        let mut out = Vec::with_capacity(items.len());
        for (position, value) in items.enumerate() {
            let previous = earlier
                .get_mut(position)
                .map(|node| std::mem::replace(node, Node::Null));
            if self.mode == Mode::Strict {
                self.positions.push((self.path.len(), position));
            }
            let node = self.value(item, value, previous)?;
            self.positions.pop();
            out.push(or_zero(item, node));
        }
        Ok(Node::List(out))
    }

    fn map<'a, I: Input<'a>>(
        &mut self,
        item: &Shape,
        input: I,
        existing: Option<Node<'a>>,
        rounded: bool,
    ) -> Result<Node<'a>> {
        let entries = match input.view() {
            View::Null => return Ok(Node::Null),
            View::Map(entries) => entries,
            other if rounded => return Err(self.mismatch(&other, go_name(&Shape::Resources))),
            other => return Err(self.mismatch(&other, &format!("map[string]{}", go_name(item)))),
        };
        let mut out = match existing {
            Some(Node::Map(entries)) => entries,
            _ => Vec::with_capacity(entries.len()),
        };
        for (key, value) in entries {
            let node = match (rounded, value.view()) {
                (_, View::Null) => zero_of(item),
                (true, view) => Self::quantity(view, true)?,
                // A map's value is decoded anew: nothing of an earlier duplicate survives.
                (false, _) => self.value(item, value, None)?,
            };
            match out.iter_mut().find(|(name, _)| I::DUPLICATES && name == key.text()) {
                Some((_, earlier)) => *earlier = node,
                None => out.push((Cow::Borrowed(key.text()), node)),
            }
        }
        Ok(Node::Map(out))
    }

    fn integer<'a>(&self, number: Number<'_>, least: i64, most: i64, go_type: &str) -> Result<Node<'a>> {
        let value = match number {
            Number::Int(value) => Some(value),
            Number::Uint(_) | Number::Double(_) => None,
            Number::Spelled(text) => text.parse().ok(),
        };
        match value.filter(|value| (least..=most).contains(value)) {
            Some(value) => Ok(Node::Int(value)),
            None => Err(self.message(&format!("number {}", spell(number)), go_type)),
        }
    }

    fn bytes(text: &str) -> Result<Node<'_>> {
        match base64::decode(text.as_bytes(), true) {
            Ok(bytes) => {
                let plain =
                    !text.ends_with('=') && !text.contains(['\n', '\r']) && text.len() == bytes.len().div_ceil(3) * 4;
                // The last character before the padding may have bits that are not used.
                let encoded = (!plain)
                    .then(|| base64::encode(&bytes))
                    .filter(|encoded| encoded != text);
                Ok(Node::Text(encoded.map_or(Cow::Borrowed(text), Cow::Owned)))
            }
            Err(position) => Err(format!("illegal base64 data at input byte {position}")),
        }
    }

    /// Bytes written as a list of numbers, which Go also accepts.
    fn listed_bytes<'a, I: Input<'a>>(&self, items: I::Items) -> Result<Node<'a>> {
        let mut bytes = Vec::with_capacity(items.len());
        for item in items {
            match item.view() {
                View::Null => bytes.push(0),
                View::Number(number) => match self.integer(number, 0, 255, "uint8")? {
                    Node::Int(value) => bytes.push(u8::try_from(value).unwrap_or_default()),
                    _ => return Err(self.message("number", "uint8")),
                },
                other => return Err(self.mismatch(&other, "uint8")),
            }
        }
        Ok(Node::Text(Cow::Owned(base64::encode(&bytes))))
    }

    fn quantity<'a, I: Input<'a>>(view: View<'a, I>, rounded: bool) -> Result<Node<'a>> {
        let text = match view {
            // Go parses the JSON spelling, in which these are escaped.
            View::Text(text) if text.contains(|c: char| c < ' ' || matches!(c, '"' | '\\')) => Cow::Borrowed("{"),
            View::Text(text) => Cow::Borrowed(text),
            View::Number(number) => spell(number),
            View::Bool(value) => Cow::Borrowed(if value { "true" } else { "false" }),
            _ => Cow::Borrowed("{"),
        };
        canonical_quantity(text, rounded)
    }

    fn mismatch<'a, I: Input<'a>>(&self, view: &View<'a, I>, go_type: &str) -> String {
        self.message(json_type(view), go_type)
    }

    fn message(&self, found: &str, go_type: &str) -> String {
        let owner = self.owner.rsplit('.').next().unwrap_or_default();
        let path = self.path.join(".");
        format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {go_type}")
    }
}

/// Converts a number as Go does: integers wrap, floats must be whole.
fn converted_integer<'a>(shape: &Shape, number: Number<'_>) -> Result<Node<'a>> {
    let whole = |value: f64| (value.trunc() == value).then_some(value as i64);
    let value = match number {
        Number::Int(value) => Some(value),
        Number::Uint(value) => Some(value.cast_signed()),
        Number::Double(value) => whole(value),
        Number::Spelled(text) => text.parse().ok().or_else(|| whole(text.parse().ok()?)),
    };
    match value {
        Some(value) if matches!(shape, Shape::Int32) => Ok(Node::Int(i64::from(value as i32))),
        Some(value) => Ok(Node::Int(value)),
        None => Err(format!("cannot convert float64 to {}", go_name(shape))),
    }
}

/// Writes a quantity as upstream does; with `rounded`, after rounding up to milli-units.
pub(crate) fn canonical_quantity(text: Cow<'_, str>, rounded: bool) -> Result<Node<'_>> {
    let trimmed = text.trim();
    // The common spellings are canonical: digits without three trailing zeros, with one of the usual suffixes.
    if let Cow::Borrowed(text) = text
        && is_plain(text)
    {
        return Ok(Node::Text(Cow::Borrowed(text)));
    }
    let quantity = Quantity::parse(trimmed).map_err(|error| error.to_string())?;
    let quantity = if rounded { quantity.round_up(-3) } else { quantity };
    Ok(Node::Text(Cow::Owned(quantity.to_string())))
}

/// Whether a quantity is canonical at first sight.
fn is_plain(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    if !(1..=9).contains(&digits) || number.starts_with('0') {
        return false;
    }
    match suffix {
        "" | "m" | "k" | "M" | "G" => !number.ends_with("000"),
        "Mi" | "Gi" | "Ki" => number.parse::<u64>().is_ok_and(|value| value % 1024 != 0),
        _ => false,
    }
}

/// The zero value of a struct: the structs that are part of it.
pub(crate) fn zero(found: &Type) -> Node<'static> {
    let mut node = Node::EMPTY;
    embed(found, &mut node);
    node
}

/// Adds the structs that are part of a struct, so that later steps find them.
fn embed(found: &Type, node: &mut Node<'_>) {
    for &position in &found.embedded {
        let field = &found.fields[position as usize];
        let Shape::Struct(id) = field.shape else { continue };
        if !node.has(field.name) {
            node.set(field.name, zero(TABLE.get(id)));
        }
    }
}

fn zero_of(shape: &Shape) -> Node<'static> {
    match shape {
        Shape::Struct(id) => zero(TABLE.get(*id)),
        Shape::Text => Node::text(""),
        Shape::Quantity => Node::text("0"),
        Shape::Int32 | Shape::Int64 | Shape::IntOrString => Node::Int(0),
        Shape::Bool => Node::Bool(false),
        Shape::Float => Node::Double(0.0),
        _ => Node::Null,
    }
}

fn or_zero<'a>(shape: &Shape, node: Node<'a>) -> Node<'a> {
    match node {
        Node::Null => zero_of(shape),
        node => node,
    }
}

fn float<'a>(number: Number<'_>) -> Node<'a> {
    let value = match number {
        Number::Int(value) => return Node::Int(value),
        Number::Uint(value) => return Node::Uint(value),
        Number::Double(value) => value,
        Number::Spelled(text) => text.parse().unwrap_or_default(),
    };
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return Node::Int(value as i64);
    }
    Node::Double(value)
}

fn time(text: &str) -> Result<Node<'_>> {
    if is_utc_second(text.as_bytes()) && Timestamp::parse(text).is_some_and(|time| !time.is_zero()) {
        return Ok(Node::Text(Cow::Borrowed(text)));
    }
    match Timestamp::parse(text) {
        Some(time) if time.is_zero() => Ok(Node::Null),
        Some(time) => Ok(Node::Text(Cow::Owned(
            time.truncate(1_000_000_000).to_utc().to_string(),
        ))),
        None => Err(time_layout::parse("2006-01-02T15:04:05Z07:00", text)
            .err()
            .unwrap_or_else(|| format!("cannot parse time \"{text}\""))),
    }
}

/// Whether a text has the form `2006-01-02T15:04:05Z`.
fn is_utc_second(text: &[u8]) -> bool {
    text.len() == 20 && text[19] == b'Z' && text[13] == b':'
}

fn micro_time(text: &str) -> Result<Node<'_>> {
    let time = time_layout::parse("2006-01-02T15:04:05.000000Z07:00", text)?;
    if time.is_zero() {
        return Ok(Node::Null);
    }
    let (_, nanos) = time.instant();
    let whole = time.truncate(1_000_000_000).to_utc().to_string();
    let whole = whole.trim_end_matches('Z');
    Ok(Node::Text(Cow::Owned(format!("{whole}.{:06}Z", nanos / 1_000))))
}

/// Copies a value of any form; of duplicate keys the last wins.
pub(crate) fn raw<'a, I: Input<'a>>(input: I) -> Node<'a> {
    match input.view() {
        View::Null => Node::Null,
        View::Bool(value) => Node::Bool(value),
        View::Number(Number::Int(value)) => Node::Int(value),
        View::Number(Number::Uint(value)) => Node::Uint(value),
        View::Number(Number::Double(value)) => Node::Double(value),
        View::Number(Number::Spelled(text)) => match (text.parse(), text.parse()) {
            (Ok(value), _) => Node::Int(value),
            (_, Ok(value)) => Node::Double(value),
            _ => Node::Null,
        },
        View::Text(text) => Node::Text(Cow::Borrowed(text)),
        View::List(items) => Node::List(items.map(raw).collect()),
        View::Map(entries) => {
            let mut out = Node::Map(Vec::with_capacity(entries.len()));
            for (key, value) in entries {
                out.set(key.text(), raw(value));
            }
            out
        }
    }
}

fn go_name(shape: &Shape) -> &'static str {
    match shape {
        Shape::Text | Shape::Time | Shape::MicroTime | Shape::IntOrString => "string",
        Shape::Bool => "bool",
        Shape::Int32 => "int32",
        Shape::Int64 => "int64",
        Shape::Float => "float64",
        Shape::Bytes => "[]uint8",
        Shape::Quantity => "resource.Quantity",
        Shape::Struct(id) => go_struct(TABLE.get(*id).name),
        Shape::Resources => "v1.ResourceList",
        _ => "v1.JSON",
    }
}

/// The kind of a JSON value in messages.
fn json_type<'a, I: Input<'a>>(view: &View<'a, I>) -> &'static str {
    match view {
        View::Null => "null",
        View::Bool(_) => "bool",
        View::Number(_) => "number",
        View::Text(_) => "string",
        View::List(_) => "array",
        View::Map(_) => "object",
    }
}

/// The name of a struct in its Go package: `v1.ObjectMeta` for `meta.v1.ObjectMeta`.
fn go_struct(name: &'static str) -> &'static str {
    name.split_once('.').map_or(name, |(_, own)| own)
}

/// The version and kind that an object names; `Err` if they are not strings.
pub(crate) fn type_meta<'a, I: Input<'a>>(input: I) -> Result<(&'a str, &'a str)> {
    let entries = match input.view() {
        View::Map(entries) => entries,
        View::Null => return Ok(("", "")),
        _ => return Err("couldn't get version/kind; json parse error: the body is not an object".to_owned()),
    };
    let (mut api_version, mut kind) = ("", "");
    for (key, value) in entries {
        let slot = match Key::text(key) {
            "apiVersion" => &mut api_version,
            "kind" => &mut kind,
            _ => continue,
        };
        match value.view() {
            View::Text(text) => *slot = text,
            View::Null => {}
            other => {
                return Err(format!(
                    "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field .{} of \
                     type string",
                    json_type(&other),
                    key.text()
                ));
            }
        }
    }
    Ok((api_version, kind))
}
