//! `json.unmarshal(text)` and `json.marshal(value)`.
//!
//! Upstream counterpart: SDK `libs/json`. cel-go's conversions determine which values can be marshalled: a map or list
//! of a document is written unchanged; one that the expression made is converted first, after which maps inside it are
//! of a Go type without JSON form, and `null` is the number 0.

use super::{Receiver, declare_receiver, native};
use crate::{
    context::Context,
    decl::{Library, member},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};
use kyvtest_go_compat::{
    text::base64,
    value::{Value, go_json},
};

static JSON: Receiver = Receiver("json.Json");

pub(super) fn declare(library: &mut Library) {
    declare_receiver(library, "json", &JSON);
    let json = || Type::opaque(JSON.0);
    library.add(
        "unmarshal",
        [member("unmarshal_string_dyn", &[json(), Type::Dyn], Type::Dyn).binary(unmarshal)],
    );
    library.add(
        "marshal",
        [member("marshal_dyn_string", &[json(), Type::Dyn], Type::String).binary(marshal)],
    );
}

pub(in crate::library) fn unmarshal<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [_, text] = args else { return NO_SUCH_OVERLOAD };
    let text = match native::string(context, *text) {
        Ok(text) => text,
        Err(error) => return error,
    };
    match go_json::read(text) {
        Ok(document) => Val::from(context.document(document)),
        Err(error) => context.error(format_args!("{error}")),
    }
}

fn marshal<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [_, value] = args else { return NO_SUCH_OVERLOAD };
    if !context.spend_walk(*value) {
        return context.exhausted();
    }
    let mut out = String::new();
    match write(context, &mut out, *value) {
        Ok(()) => context.string(&out),
        Err(error) => error,
    }
}

type Written<'a> = Result<(), Val<'a>>;

fn failed<'a>(context: &Context<'a>, written: Result<(), String>) -> Written<'a> {
    written.map_err(|error| context.error(format_args!("{error}")))
}

/// Writes the argument of `marshal`.
fn write<'a>(context: &Context<'a>, out: &mut String, value: Val<'a>) -> Written<'a> {
    match native::unfold(context, value) {
        Val::Map(entries) => {
            let mut named = Vec::with_capacity(entries.len());
            for (key, item) in entries {
                let key = native::string(context, *key)?;
                native::convertible(context, *item, 0)?;
                named.push((key, *item));
            }
            named.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (i, (key, item)) in named.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                go_json::write_string(out, key);
                out.push(':');
                write_inner(context, out, item)?;
            }
            out.push('}');
            Ok(())
        }
        made @ Val::List(_) => {
            native::convertible(context, made, 0)?;
            write_inner(context, out, made)
        }
        Val::DocumentMap(map) => failed(context, go_json::write_value(out, Value::Map(map))),
        Val::Type(name) => {
            go_json::write_string(out, name);
            Ok(())
        }
        Val::Optional(None) => {
            out.push_str("null");
            Ok(())
        }
        Val::Optional(Some(inner)) => match native::unfold(context, *inner) {
            Val::Map(_) => Err(Val::Error("json: unsupported type: map[ref.Val]ref.Val")),
            inner => write(context, out, inner),
        },
        _ => write_inner(context, out, value),
    }
}

fn write_inner<'a>(context: &Context<'a>, out: &mut String, value: Val<'a>) -> Written<'a> {
    let value = native::unfold(context, value);
    match value {
        // Upstream's null is an enumeration's only member here.
        Val::Null => out.push('0'),
        Val::Bool(b) => out.push_str(if b { "true" } else { "false" }),
        Val::Int(i) | Val::Duration(i) => go_json::write_display(out, i),
        Val::Uint(u) => go_json::write_display(out, u),
        Val::Double(d) => failed(context, go_json::write_double(out, d))?,
        Val::String(text) => go_json::write_string(out, text),
        Val::Bytes(bytes) => go_json::write_string(out, &base64::encode(bytes)),
        Val::Timestamp(timestamp) => go_json::write_string(out, &timestamp.to_string()),
        Val::DocumentList(list) => failed(context, go_json::write_value(out, Value::List(list)))?,
        Val::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_inner(context, out, *item)?;
            }
            out.push(']');
        }
        Val::Map(_) | Val::DocumentMap(_) => {
            return Err(Val::Error("json: unsupported type: map[interface {}]interface {}"));
        }
        Val::Optional(Some(inner)) => write_inner(context, out, *inner)?,
        Val::Opaque(opaque) => match opaque.go_json() {
            Some(json) => out.push_str(&json),
            None if opaque.type_name() == "kubernetes.Semver" || native::is_textual(value) => {
                go_json::write_string(out, &opaque.display());
            }
            None => return Err(native::mismatch(context, value, "interface {}")),
        },
        Val::Type(_) | Val::Variables | Val::Optional(None) | Val::Object(_) | Val::Error(_) => {
            return Err(native::mismatch(context, value, "interface {}"));
        }
    }
    Ok(())
}
