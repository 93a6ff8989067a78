//! Conversions of values to Go's native ones, with their error messages.
//!
//! Upstream counterpart: `ConvertToNative` of the types of cel-go `common/types`.

use super::image::Image;
use crate::{context::Context, time::duration_text, val::Val};
use kyvtest_go_compat::value::{Builder, Document};

/// Converts a value to a string.
pub(in crate::library) fn string<'a>(context: &Context<'a>, value: Val<'a>) -> Result<&'a str, Val<'a>> {
    match value {
        Val::String(text) => Ok(text),
        Val::Optional(Some(inner)) => string(context, *inner),
        Val::Error(_) => Err(value),
        Val::Opaque(opaque) if is_textual(value) => Ok(context.text(&opaque.display())),
        _ => Err(mismatch(context, value, "string")),
    }
}

/// Whether an opaque value converts to Go's string, which is then its display.
pub(super) fn is_textual(value: Val<'_>) -> bool {
    matches!(
        value.type_name(),
        "kyverno.image" | "kubernetes.Quantity" | "kubernetes.URL" | "net.IP" | "net.CIDR"
    )
}

/// The error of a conversion that a type does not have.
pub(in crate::library) fn mismatch<'a>(context: &Context<'a>, value: Val<'a>, wanted: &str) -> Val<'a> {
    match value {
        Val::Error(_) => value,
        Val::Int(_) => context.error(format_args!("unsupported type conversion from 'int' to {wanted}")),
        Val::Uint(_) => context.error(format_args!("unsupported type conversion from 'uint' to {wanted}")),
        Val::String(_) => context.error(format_args!("unsupported native conversion from string to '{wanted}'")),
        Val::Type(_) => Val::Error("type conversion not supported for 'type'"),
        Val::Optional(None) => Val::Error("optional.none() dereference"),
        Val::Optional(Some(inner)) => mismatch(context, *inner, wanted),
        Val::Bool(_) => plain(context, "bool", wanted),
        Val::Double(_) => plain(context, "Double", wanted),
        Val::Bytes(_) => plain(context, "Bytes", wanted),
        Val::List(_) | Val::DocumentList(_) => plain(context, "list", wanted),
        Val::Map(_) | Val::DocumentMap(_) | Val::Variables => plain(context, "map", wanted),
        Val::Duration(_) => plain(context, "'Duration'", wanted),
        Val::Timestamp(_) => plain(context, "'Timestamp'", wanted),
        Val::Object(_) => context.error(format_args!("unable to convert to {wanted}")),
        Val::Null | Val::Opaque(_) => {
            let name = match value.downcast::<Image>() {
                Some(_) => "Image",
                None => go_name(value.type_name()),
            };
            context.error(format_args!("type conversion error from '{name}' to '{wanted}'"))
        }
    }
}

/// The name that a type has in the errors of its conversions.
fn go_name(name: &str) -> &str {
    match name.split_once('.') {
        Some(("kubernetes", "NamedFormat")) => "Format",
        Some(("kubernetes" | "net", name)) => name,
        _ => name,
    }
}

fn plain<'a>(context: &Context<'a>, from: &str, wanted: &str) -> Val<'a> {
    context.error(format_args!("type conversion error from {from} to '{wanted}'"))
}

/// Integers that a double holds exactly, as protobuf's JSON draws the line.
const LARGEST_SAFE: u64 = (1 << 53) - 1;

/// Converts the value to protobuf's JSON value, the form of HTTP bodies: all numbers are doubles, integers that a
/// double cannot hold are strings.
pub(crate) fn body<'a>(context: &Context<'a>, value: Val<'a>) -> Result<Document, Val<'a>> {
    if !context.spend_walk(value) {
        return Err(context.exhausted());
    }
    let mut builder = Builder::new();
    add(context, &mut builder, value, 0)?;
    Ok(builder.finish())
}

fn add<'a>(context: &Context<'a>, builder: &mut Builder, value: Val<'a>, depth: usize) -> Result<(), Val<'a>> {
    if depth > kyvtest_go_compat::value::go_json::DEPTH_LIMIT {
        return Err(Val::Error("value is nested too deeply"));
    }
    match value {
        Val::Null => builder.null(),
        Val::Bool(b) => builder.bool(b),
        Val::Int(i) if i.unsigned_abs() <= LARGEST_SAFE => builder.double(i as f64),
        Val::Int(i) => builder.string(&i.to_string()),
        Val::Uint(u) if u <= LARGEST_SAFE => builder.double(u as f64),
        Val::Uint(u) => builder.string(&u.to_string()),
        Val::Double(d) => builder.double(d),
        Val::String(text) => builder.string(text),
        Val::Bytes(bytes) => builder.string(&kyvtest_go_compat::text::base64::encode(bytes)),
        Val::Duration(nanos) => builder.string(&duration_text(nanos)),
        Val::Timestamp(timestamp) => builder.string(&timestamp.to_string()),
        Val::Optional(Some(inner)) => add(context, builder, *inner, depth + 1)?,
        Val::List(_) | Val::DocumentList(_) => {
            builder.begin_list();
            for item in value.list_iter() {
                add(context, builder, item, depth + 1)?;
            }
            builder.end();
        }
        Val::Map(_) | Val::DocumentMap(_) => {
            builder.begin_map();
            for (key, item) in value.map_iter() {
                builder.key(string(context, key)?);
                add(context, builder, item, depth + 1)?;
            }
            builder.end();
        }
        Val::Object(object) => {
            builder.begin_map();
            for (name, item) in object.fields {
                builder.key(name);
                add(context, builder, *item, depth + 1)?;
            }
            builder.end();
        }
        Val::Type(_) | Val::Variables | Val::Optional(None) | Val::Opaque(_) | Val::Error(_) => {
            return Err(mismatch(context, value, "*structpb.Value"));
        }
    }
    Ok(())
}

/// Converts a literal of the expression to a list or map made by the expression.
pub(super) fn unfold<'a>(context: &Context<'a>, value: Val<'a>) -> Val<'a> {
    match value {
        Val::DocumentList(list) if list.is_literal() => {
            let items: Vec<Val<'a>> = list.iter().map(|item| unfold(context, item.into())).collect();
            context.list(&items)
        }
        Val::DocumentMap(map) if map.is_literal() => {
            let entries: Vec<(Val<'a>, Val<'a>)> = map
                .iter()
                .map(|(key, item)| (Val::String(key.text()), unfold(context, item.into())))
                .collect();
            context.map(&entries)
        }
        value => value,
    }
}

/// Whether a value inside a list or map made by the expression converts to a Go value of any type.
pub(super) fn convertible<'a>(context: &Context<'a>, value: Val<'a>, depth: usize) -> Result<(), Val<'a>> {
    if depth > kyvtest_go_compat::value::go_json::DEPTH_LIMIT {
        return Err(Val::Error("value is nested too deeply"));
    }
    match value {
        Val::List(items) => items.iter().try_for_each(|item| convertible(context, *item, depth + 1)),
        Val::Map(entries) => entries.iter().try_for_each(|(key, item)| {
            convertible(context, *key, depth + 1)?;
            convertible(context, *item, depth + 1)
        }),
        Val::Optional(Some(inner)) => convertible(context, *inner, depth + 1),
        Val::Type(_) | Val::Optional(None) | Val::Error(_) | Val::Variables => {
            Err(mismatch(context, value, "interface {}"))
        }
        Val::Opaque(_) if !is_textual(value) && value.type_name() != "kubernetes.Semver" => {
            Err(mismatch(context, value, "interface {}"))
        }
        _ => Ok(()),
    }
}

/// The labels of a list call. The checker and the guards have seen only the first entry.
pub(super) fn labels<'a>(context: &Context<'a>, value: Val<'a>) -> Result<Vec<(String, String)>, Val<'a>> {
    value
        .map_iter()
        .map(|(key, value)| Ok((string(context, key)?.to_owned(), string(context, value)?.to_owned())))
        .collect()
}
