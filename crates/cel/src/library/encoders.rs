//! Base64 and JSON.
//!
//! Upstream counterpart: cel-go `ext/encoders.go`, version 1 as of cel-go 0.30.

use super::sizes::{CALL, STRING_TRAVERSAL, scaled, size};
use crate::{
    context::Context,
    decl::{CostFunction, Library, Overload, global},
    profile::Behaviour,
    time,
    types::Type::{Bytes, Dyn, String},
    val::{NO_SUCH_OVERLOAD, Val},
};
use kyvtest_go_compat::{
    text::{base64, float},
    value::go_json::write_string,
};

/// The largest integer that a double, and so a JSON reader, represents exactly.
const MAX_SAFE: i64 = (1 << 53) - 1;

pub(super) fn declare(library: &mut Library, behaviour: &Behaviour) {
    let costed = |overload: Overload, cost: CostFunction| {
        if behaviour.encoders_have_cost {
            overload.cost(cost)
        } else {
            overload
        }
    };
    library.add(
        "base64.decode",
        [costed(
            global("base64_decode_string", &[String], Bytes).unary(base64_decode),
            size_cost,
        )],
    );
    library.add(
        "base64.encode",
        [costed(
            global("base64_encode_bytes", &[Bytes], String).unary(base64_encode),
            size_cost,
        )],
    );
    // Upstream has no estimate for this one and considers it too expensive to be allowed at all.
    library.add(
        "json.encode",
        [costed(
            global("json_encode_dyn", &[Dyn], String).unary(json_encode),
            |_, _| u64::MAX,
        )],
    );
}

fn size_cost(args: &[Val<'_>], _: &Val<'_>) -> u64 {
    scaled(size(&args[0]), STRING_TRAVERSAL) + CALL
}

fn base64_decode<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args[0] {
        Val::String(text) => match decode(text.as_bytes()) {
            Ok(bytes) => context.bytes(&bytes),
            Err(at) => context.error(format_args!("illegal base64 data at input byte {at}")),
        },
        _ => NO_SUCH_OVERLOAD,
    }
}

fn base64_encode<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args[0] {
        Val::Bytes(bytes) => context.string(&base64::encode(bytes)),
        _ => NO_SUCH_OVERLOAD,
    }
}

/// Base64 with or without padding, line ends ignored; the error is the position of the first invalid byte.
///
/// Go first decodes with padding; if that fails, the error of decoding without padding counts.
fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    base64::decode(text, true).or_else(|_| base64::decode(text, false))
}

fn json_encode<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let mut out = std::string::String::new();
    match write_json(&mut out, args[0]) {
        Ok(()) => context.string(&out),
        Err(text) => context.error(format_args!("{text}")),
    }
}

fn write_json(out: &mut std::string::String, value: Val<'_>) -> Result<(), std::string::String> {
    match value {
        Val::Null => out.push_str("null"),
        Val::Bool(b) => out.push_str(if b { "true" } else { "false" }),
        Val::Int(i) if i.unsigned_abs() <= MAX_SAFE as u64 => out.push_str(&i.to_string()),
        Val::Int(i) => write_string(out, &i.to_string()),
        Val::Uint(u) if u <= MAX_SAFE as u64 => out.push_str(&u.to_string()),
        Val::Uint(u) => write_string(out, &u.to_string()),
        Val::Double(d) => match float::json(d) {
            Some(text) => out.push_str(&text),
            None => {
                let d = float::display(d);
                return Err(format!("proto: google.protobuf.Value.number_value: invalid {d} value"));
            }
        },
        Val::String(text) => write_string(out, text),
        Val::Bytes(bytes) => write_string(out, &base64::encode(bytes)),
        Val::Duration(d) => write_string(out, &time::duration_text(d)),
        Val::Timestamp(t) => write_string(out, &t.to_string()),
        Val::List(_) | Val::DocumentList(_) => {
            out.push('[');
            for (i, item) in value.list_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json(out, item)?;
            }
            out.push(']');
        }
        Val::Map(_) | Val::DocumentMap(_) => {
            let mut entries = value
                .map_iter()
                .map(|(key, value)| match key {
                    Val::String(key) => Ok((key, value)),
                    Val::Bool(_) => Err("type conversion error from bool to 'string'".to_owned()),
                    Val::Double(_) => Err("type conversion error from Double to 'string'".to_owned()),
                    key => Err(format!(
                        "unsupported type conversion from '{}' to string",
                        key.type_name()
                    )),
                })
                .collect::<Result<Vec<_>, _>>()?;
            entries.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (i, (key, value)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(out, key);
                out.push(':');
                write_json(out, value)?;
            }
            out.push('}');
        }
        Val::Optional(Some(inner)) => write_json(out, *inner)?,
        Val::Optional(None) => return Err("optional.none() dereference".to_owned()),
        Val::Type(_) => return Err("type conversion not supported for 'type'".to_owned()),
        Val::Variables | Val::Opaque(_) | Val::Object(_) | Val::Error(_) => {
            return Err(format!("unsupported conversion of {} to JSON", value.type_name()));
        }
    }
    Ok(())
}
