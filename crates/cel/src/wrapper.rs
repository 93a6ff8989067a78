//! Protobuf's wrapper messages, which are primitive values that may be null.
//!
//! Upstream counterpart: cel-go `common/types/{types,provider}.go`. A literal such as
//! `google.protobuf.Int64Value{value: 1}` is its value. The other messages of protobuf have no literals here: no policy
//! uses them. The message for a value that does not fit at run time is ours.

use std::sync::LazyLock;

use super::{ast::Name, context::Context, types::Type, val::Val};

const PREFIX: &str = "google.protobuf.";

/// The messages and the types that they wrap.
const MESSAGES: [(&str, Type); 9] = [
    ("google.protobuf.BoolValue", Type::Bool),
    ("google.protobuf.BytesValue", Type::Bytes),
    ("google.protobuf.DoubleValue", Type::Double),
    ("google.protobuf.FloatValue", Type::Double),
    ("google.protobuf.Int32Value", Type::Int),
    ("google.protobuf.Int64Value", Type::Int),
    ("google.protobuf.StringValue", Type::String),
    ("google.protobuf.UInt32Value", Type::Uint),
    ("google.protobuf.UInt64Value", Type::Uint),
];

/// The one field of each message.
static FIELDS: LazyLock<[[(Name, Type); 1]; MESSAGES.len()]> =
    LazyLock::new(|| MESSAGES.map(|(_, inner)| [("value".into(), inner)]));

/// The names and the types that they denote.
pub(super) fn types() -> impl Iterator<Item = (&'static str, Type)> {
    MESSAGES.into_iter().map(|(name, inner)| (name, Type::wrapper(inner)))
}

fn position(name: &str) -> Option<usize> {
    if !name.starts_with(PREFIX) {
        return None;
    }
    MESSAGES.iter().position(|(known, _)| *known == name)
}

/// The fields of a message.
pub(super) fn fields(name: &str) -> Option<&'static [(Name, Type)]> {
    position(name).map(|i| &FIELDS[i][..])
}

/// Whether a name is that of a wrapper message.
pub(super) fn is_message(name: &str) -> bool {
    position(name).is_some()
}

/// The value of a message literal, from its field if set.
pub(super) fn make<'a>(context: &Context<'a>, name: &str, given: Option<(&str, Val<'a>)>) -> Val<'a> {
    let Some(i) = position(name) else {
        return context.error(format_args!("unknown type '{name}'"));
    };
    let fail = |why: &str| {
        context.error(format_args!(
            "field type conversion error for {name}.value value type: {why}"
        ))
    };
    let zero = match MESSAGES[i].1 {
        Type::Bool => Val::Bool(false),
        Type::Bytes => Val::Bytes(b""),
        Type::Double => Val::Double(0.0),
        Type::Int => Val::Int(0),
        Type::Uint => Val::Uint(0),
        _ => Val::String(""),
    };
    let value = match given {
        None => zero,
        Some(("value", value)) => value,
        Some((other, _)) => return context.error(format_args!("no such field: {other}")),
    };
    if value.type_name() != zero.type_name() {
        return fail(&format!("unsupported conversion from '{}'", value.type_name()));
    }
    match (value, &name[PREFIX.len()..]) {
        (Val::Int(i), "Int32Value") if i32::try_from(i).is_err() => fail("integer overflow"),
        (Val::Uint(u), "UInt32Value") if u32::try_from(u).is_err() => fail("unsigned integer overflow"),
        (Val::Double(d), "FloatValue") => Val::Double(f64::from(d as f32)),
        _ => value,
    }
}
