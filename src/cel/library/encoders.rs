//! Base64 and JSON.
//!
//! Upstream counterpart: cel-go `ext/encoders.go`, version 1 as of cel-go 0.30.

use super::sizes::{CALL, STRING_TRAVERSAL, scaled, size};
use crate::cel::{
    context::Context,
    decl::{CostFunction, Library, Overload, global},
    profile::Behaviour,
    time,
    types::Type::{Bytes, Dyn, String},
    val::{NO_SUCH_OVERLOAD, Val},
};
use crate::text::float;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The largest whole number that a double, and so a JSON reader, is sure to keep.
const MAX_SAFE: i64 = (1 << 53) - 1;

pub(crate) fn declare(library: &mut Library, behaviour: &Behaviour) {
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
    // Upstream has no estimate of this one and takes it for too expensive to be allowed at all.
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
        Val::Bytes(bytes) => context.string(&encode(bytes)),
        _ => NO_SUCH_OVERLOAD,
    }
}

/// Base64 with padding.
pub(crate) fn encode(bytes: &[u8]) -> std::string::String {
    let mut out = std::string::String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let sextet = (bits >> (18 - 6 * i)) as usize & 63;
            out.push(if i <= chunk.len() { ALPHABET[sextet].into() } else { '=' });
        }
    }
    out
}

/// Base64 with or without padding, line ends ignored; the position of the first byte that is wrong.
///
/// Go reads the text with padding first; where that fails, the error of reading it without padding counts.
pub(crate) fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let value = |byte: u8| ALPHABET.iter().position(|letter| *letter == byte);
    let mut sextets = Vec::with_capacity(text.len());
    let mut padding = text.len();
    for (i, byte) in text.iter().enumerate() {
        match value(*byte) {
            Some(sextet) => sextets.push(sextet as u32),
            None if matches!(byte, b'\r' | b'\n') => {}
            None if *byte == b'=' => {
                padding = i;
                break;
            }
            None => return Err(i),
        }
    }
    if padding < text.len() {
        let tail = text[padding..].iter().filter(|byte| !matches!(byte, b'\r' | b'\n'));
        let pads = tail.clone().count();
        if tail.into_iter().any(|byte| *byte != b'=') || pads > 2 || !(sextets.len() + pads).is_multiple_of(4) {
            return Err(padding);
        }
    }
    if sextets.len() % 4 == 1 {
        return Err(text.len() - 1);
    }
    let mut out = Vec::with_capacity(sextets.len() * 3 / 4);
    for chunk in sextets.chunks(4) {
        let bits = (0..4).fold(0, |bits, i| bits << 6 | chunk.get(i).copied().unwrap_or(0));
        out.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    Ok(out)
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
        Val::Int(i) => write_text(out, &i.to_string()),
        Val::Uint(u) if u <= MAX_SAFE as u64 => out.push_str(&u.to_string()),
        Val::Uint(u) => write_text(out, &u.to_string()),
        Val::Double(d) => match float::json(d) {
            Some(text) => out.push_str(&text),
            None => {
                let d = float::display(d);
                return Err(format!("proto: google.protobuf.Value.number_value: invalid {d} value"));
            }
        },
        Val::String(text) => write_text(out, text),
        Val::Bytes(bytes) => write_text(out, &encode(bytes)),
        Val::Duration(d) => write_text(out, &time::duration_text(d)),
        Val::Timestamp(t) => write_text(out, &t.to_string()),
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
                write_text(out, key);
                out.push(':');
                write_json(out, value)?;
            }
            out.push('}');
        }
        Val::Optional(Some(inner)) => write_json(out, *inner)?,
        Val::Optional(None) => return Err("optional.none() dereference".to_owned()),
        Val::Type(_) => return Err("type conversion not supported for 'type'".to_owned()),
        Val::Variables | Val::Opaque(_) | Val::Error(_) => {
            return Err(format!("unsupported conversion of {} to JSON", value.type_name()));
        }
    }
    Ok(())
}

/// A JSON string as Go writes it, what HTML could trip over escaped.
fn write_text(out: &mut std::string::String, text: &str) {
    use std::fmt::Write as _;
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' || matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}') => {
                // Writing into memory cannot fail.
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
