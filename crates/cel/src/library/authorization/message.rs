//! Structures with declared fields: payloads, and the responses of policies.
//!
//! Upstream counterpart: cel-go `common/types/object.go` for protobuf messages and `ext/native.go` for Go structures.
//! An unset field reads as the zero value of its type; `has` distinguishes the two.
//!
//! Known deviation: the items of a list of structures are maps with all fields, so that `has` is true for each of them.

use std::sync::Arc;

use crate::{
    context::Context,
    decl::{Library, Make},
    library::kyverno::native,
    time::Timestamp,
    types::Type,
    val::{NO_SUCH_OVERLOAD, Opaque, Val},
};
use kyvtest_go_compat::{
    text::base64,
    value::{Data, Document},
};

/// A structure: its name in expressions, its fields, and its mutually exclusive fields.
#[derive(Debug)]
pub struct Schema {
    pub name: &'static str,
    pub fields: &'static [(&'static str, Kind)],
    /// Protobuf's `oneof` groups by name.
    pub oneofs: &'static [(&'static str, &'static [&'static str])],
    /// The structure without any field set.
    pub empty: Message,
}

/// The type of a field.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Bool,
    Int,
    /// An unsigned number of 32 bits.
    Uint,
    Double,
    Text,
    Bytes,
    Timestamp,
    /// A boolean that may be null.
    OptionalBool,
    /// A named number.
    Enumeration(&'static [(&'static str, i64)]),
    /// A structure, set even if it is empty.
    Message(&'static Schema),
    /// A Go structure that is not a pointer: unset if it is empty.
    Inline(&'static Schema),
    Messages(&'static Schema),
    Texts,
    TextMap,
    /// Lists of strings by name.
    TextLists,
    /// A JSON object.
    Json,
    /// JSON objects by name.
    Jsons,
    /// Messages of any type by name.
    Anys,
    /// A list of messages of any type.
    AnyList,
    /// JSON that expressions cannot select: its Go type has no counterpart in CEL.
    Hidden,
}

impl Kind {
    /// The type in expressions; `None` for a field that they cannot select.
    fn declared(self) -> Option<Type> {
        let json = || Type::map(Type::String, Type::Dyn);
        Some(match self {
            Self::Bool => Type::Bool,
            Self::Int | Self::Enumeration(_) => Type::Int,
            Self::Uint => Type::Uint,
            Self::Double => Type::Double,
            Self::Text => Type::String,
            Self::Bytes => Type::Bytes,
            Self::Timestamp => Type::Timestamp,
            Self::OptionalBool => Type::wrapper(Type::Bool),
            Self::Message(schema) | Self::Inline(schema) => Type::structure(schema.name),
            Self::Messages(schema) => Type::list(Type::structure(schema.name)),
            Self::Texts => Type::list(Type::String),
            Self::TextMap => Type::map(Type::String, Type::String),
            Self::TextLists => Type::map(Type::String, Type::list(Type::String)),
            Self::Json => json(),
            Self::Jsons => Type::map(Type::String, json()),
            Self::Anys => Type::map(Type::String, Type::Any),
            Self::AnyList => Type::list(Type::Any),
            Self::Hidden => return None,
        })
    }

    /// The value of an unset field.
    fn zero<'a>(self) -> Val<'a> {
        match self {
            Self::Bool => Val::Bool(false),
            Self::Int | Self::Enumeration(_) => Val::Int(0),
            Self::Uint => Val::Uint(0),
            Self::Double => Val::Double(0.0),
            Self::Text => Val::String(""),
            Self::Bytes => Val::Bytes(&[]),
            Self::Timestamp => Timestamp::from_seconds(0).map_or(Val::Null, Val::Timestamp),
            Self::OptionalBool | Self::Hidden => Val::Null,
            Self::Message(schema) | Self::Inline(schema) => Val::Opaque(&schema.empty),
            Self::Messages(_) | Self::Texts | Self::AnyList => Val::List(&[]),
            Self::TextMap | Self::TextLists | Self::Json | Self::Jsons | Self::Anys => Val::Map(&[]),
        }
    }
}

/// The value of a field.
#[derive(Debug, Clone)]
pub enum Item {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    Timestamp(Timestamp),
    Message(Message),
    /// Lists, maps and JSON.
    Document(Document),
}

impl Item {
    fn value(&self) -> Val<'_> {
        match self {
            Self::Bool(value) => Val::Bool(*value),
            Self::Int(value) => Val::Int(*value),
            Self::Uint(value) => Val::Uint(*value),
            Self::Double(value) => Val::Double(*value),
            Self::Text(text) => Val::String(text),
            Self::Bytes(bytes) => Val::Bytes(bytes),
            Self::Timestamp(value) => Val::Timestamp(*value),
            Self::Message(message) => Val::Opaque(message),
            Self::Document(document) => Val::from(document.root()),
        }
    }

    /// Whether protobuf and Go treat the value as unset.
    pub fn is_zero(&self) -> bool {
        match self {
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::Text(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Timestamp(_) | Self::Message(_) | Self::Document(_) => false,
        }
    }

    fn data(&self) -> Data {
        match self {
            Self::Bool(value) => Data::Bool(*value),
            Self::Int(value) => Data::Int(*value),
            Self::Uint(value) => Data::Uint(*value),
            Self::Double(value) => Data::Double(*value),
            Self::Text(text) => text.as_str().into(),
            Self::Bytes(bytes) => base64::encode(bytes).into(),
            Self::Timestamp(value) => value.to_string().into(),
            Self::Message(message) => message.data(),
            Self::Document(document) => Data::from(document.root()),
        }
    }
}

/// A value of a structure.
#[derive(Debug, Clone)]
pub struct Message {
    pub schema: &'static Schema,
    /// The fields that are set.
    pub fields: Vec<(&'static str, Item)>,
    /// Whether an expression constructed it by naming its type.
    pub is_literal: bool,
}

impl Message {
    pub fn new(schema: &'static Schema) -> Self {
        Self {
            schema,
            fields: Vec::new(),
            is_literal: false,
        }
    }

    /// The value of a field; `None` if unset.
    pub fn get(&self, name: &str) -> Option<&Item> {
        self.fields
            .iter()
            .find(|(field, _)| *field == name)
            .map(|(_, item)| item)
    }

    /// The structure in a field; `None` if unset.
    pub fn message(&self, name: &str) -> Option<&Message> {
        match self.get(name) {
            Some(Item::Message(message)) => Some(message),
            _ => None,
        }
    }

    /// The string in a field; empty if unset.
    pub fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Some(Item::Text(text)) => text,
            _ => "",
        }
    }

    pub fn set(&mut self, name: &'static str, item: Item) {
        self.fields.retain(|(field, _)| *field != name);
        self.fields.push((name, item));
    }

    #[must_use]
    pub fn with(mut self, name: &'static str, item: Item) -> Self {
        self.set(name, item);
        self
    }

    /// Adds to the list in a field.
    #[must_use]
    pub(crate) fn with_added(mut self, name: &'static str, added: Data) -> Self {
        let mut items = match self.get(name) {
            Some(Item::Document(document)) => match Data::from(document.root()) {
                Data::List(items) => items.to_vec(),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        items.push(added);
        let list: Data = items.into_iter().collect();
        self.set(name, Item::Document(list.to_document()));
        self
    }

    /// The structure as a map with all fields.
    pub fn data(&self) -> Data {
        let fields = self.schema.fields.iter().map(|(name, kind)| {
            let value = match (self.get(name), kind) {
                (Some(item), _) => item.data(),
                (None, Kind::Message(schema) | Kind::Inline(schema)) => schema.empty.data(),
                (None, kind) => zero_data(*kind),
            };
            (Arc::from(*name), value)
        });
        fields.collect()
    }

    fn kind(&self, name: &str) -> Option<Kind> {
        let mut fields = self.schema.fields.iter();
        fields.find(|(field, _)| *field == name).map(|(_, kind)| *kind)
    }
}

fn zero_data(kind: Kind) -> Data {
    match kind {
        Kind::Bool => Data::Bool(false),
        Kind::Int | Kind::Enumeration(_) => Data::Int(0),
        Kind::Uint => Data::Uint(0),
        Kind::Double => Data::Double(0.0),
        Kind::Text | Kind::Bytes => "".into(),
        Kind::Messages(_) | Kind::Texts | Kind::AnyList => std::iter::empty::<Data>().collect(),
        Kind::TextMap | Kind::TextLists | Kind::Json | Kind::Jsons | Kind::Anys => {
            std::iter::empty::<(Arc<str>, Data)>().collect()
        }
        Kind::Timestamp | Kind::OptionalBool | Kind::Hidden | Kind::Message(_) | Kind::Inline(_) => Data::Null,
    }
}

impl Opaque for Message {
    fn type_name(&self) -> &'static str {
        self.schema.name
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        let Some(other) = (other as &dyn std::any::Any).downcast_ref::<Self>() else {
            return Some(false);
        };
        let same = self.schema.name == other.schema.name && self.fields.len() == other.fields.len();
        Some(
            same && self.fields.iter().all(|(name, item)| {
                let theirs = other.get(name);
                theirs.is_some_and(|theirs| item.value().equals(&theirs.value()) == Some(true))
            }),
        )
    }

    fn equals_plain(&self) -> Option<bool> {
        Some(false)
    }

    fn is_structure(&self) -> bool {
        true
    }

    fn field<'a>(&'a self, name: &str) -> Option<Val<'a>> {
        let kind = self.kind(name)?;
        kind.declared()?;
        Some(self.get(name).map_or_else(|| kind.zero(), Item::value))
    }

    fn is_set(&self, name: &str) -> Option<bool> {
        self.kind(name).map(|_| self.get(name).is_some())
    }

    fn is_zero(&self) -> bool {
        self.fields.is_empty()
    }

    /// Expressions find some fields of Go structures by Go's names, which differ.
    fn has_no_optional_fields(&self) -> bool {
        self.schema.name.starts_with("http.")
    }
}

macro_rules! schemas {
    ($table:ident: $($id:ident = $name:literal { $($field:literal: $kind:expr),* $(,)? } $(oneof $group:literal [$($member:literal),*])*;)*) => {
        $(
            pub(super) static $id: $crate::library::authorization::message::Schema =
                $crate::library::authorization::message::Schema {
                    name: $name,
                    fields: &[$(($field, $kind)),*],
                    oneofs: &[$(($group, &[$($member),*])),*],
                    empty: $crate::library::authorization::message::Message { schema: &$id, fields: Vec::new(), is_literal: false },
                };
        )*
        static $table: &[(&$crate::library::authorization::message::Schema, $crate::decl::Make)] = &[
            $((&$id, |context, fields| $crate::library::authorization::message::make(context, &$id, fields))),*
        ];
    };
}
pub(super) use schemas;

pub(super) fn declare(library: &mut Library, table: &'static [(&'static Schema, Make)]) {
    for (schema, make) in table {
        let fields = schema.fields.iter();
        let fields: Vec<(&'static str, Type)> = fields
            .filter_map(|(name, kind)| Some((*name, kind.declared()?)))
            .collect();
        library.add_structure(schema.name, &fields, Some(*make));
    }
}

/// Converts a value to a structure of a schema, or returns the conversion error.
pub(super) fn expect<'a>(
    context: &Context<'a>,
    value: Val<'a>,
    schema: &'static Schema,
) -> Result<&'a Message, Val<'a>> {
    match value.downcast::<Message>() {
        Some(message) if message.schema.name == schema.name => Ok(message),
        _ => Err(native::mismatch(context, value, schema.name)),
    }
}

/// Constructs the value of `NAME{FIELD: VALUE, …}`.
pub(super) fn make<'a>(context: &Context<'a>, schema: &'static Schema, fields: &[(&'a str, Val<'a>)]) -> Val<'a> {
    let mut message = Message::new(schema);
    for (name, value) in fields {
        let Some((name, kind)) = schema.fields.iter().find(|(field, _)| field == name) else {
            return context.error(format_args!("no such field: {name}"));
        };
        let in_oneof = schema.oneofs.iter().any(|(_, members)| members.contains(name));
        match item(context, *kind, *value) {
            Ok(Some(item)) if in_oneof || !item.is_zero() => message.set(name, item),
            Ok(_) => {}
            Err(error) => return error,
        }
    }
    message.is_literal = true;
    context.opaque(message)
}

/// The value of a field; `None` if unset.
fn item<'a>(context: &Context<'a>, kind: Kind, value: Val<'a>) -> Result<Option<Item>, Val<'a>> {
    if let Val::Null = value {
        return Ok(None);
    }
    Ok(Some(match (kind, value) {
        (Kind::Bool | Kind::OptionalBool, Val::Bool(value)) => Item::Bool(value),
        (Kind::Int | Kind::Enumeration(_), Val::Int(value)) => Item::Int(value),
        (Kind::Uint, Val::Uint(value)) => match u32::try_from(value) {
            Ok(value) => Item::Uint(value.into()),
            Err(_) => return Err(Val::Error("unsigned integer overflow")),
        },
        (Kind::Double, Val::Double(value)) => Item::Double(value),
        (Kind::Text, Val::String(text)) => Item::Text(text.to_owned()),
        (Kind::Bytes, Val::Bytes(bytes)) => Item::Bytes(bytes.to_vec()),
        (Kind::Timestamp, Val::Timestamp(value)) => Item::Timestamp(value),
        (Kind::Message(schema) | Kind::Inline(schema), value) => Item::Message(expect(context, value, schema)?.clone()),
        (Kind::Messages(schema), value) if value.is_list() => {
            let items = value.list_iter();
            let items: Result<Data, Val<'a>> = items
                .map(|item| Ok(expect(context, item, schema)?.data()))
                .collect::<Result<Vec<Data>, Val<'a>>>()
                .map(|items| items.into_iter().collect());
            Item::Document(items?.to_document())
        }
        (Kind::Texts | Kind::AnyList, value) if value.is_list() => Item::Document(native::body(context, value)?),
        (Kind::TextMap | Kind::TextLists | Kind::Json | Kind::Jsons | Kind::Anys, value) if value.is_map() => {
            Item::Document(native::body(context, value)?)
        }
        _ => return Err(NO_SUCH_OVERLOAD),
    }))
}
