//! Values as strings: the notation of our reference data, and Go's `%v` as cel-go's error messages print a value.

use std::{borrow::Cow, fmt::Write as _};

use super::{time::Timestamp, types::OPTIONAL, val::Val};
use kyvtest_go_compat::{
    text::{duration, float},
    value::{Value, go_json},
};

/// A value in the notation of the reference data: `i1`, `u1`, `d0.5`, `"text"`, `b<hex>`, `[…]`, `{…}` with sorted
/// entries, `opt(…)`, `none`, `dur …`, `ts …`, `type …`; other types by their name.
pub fn notation(value: Val<'_>) -> String {
    let mut out = String::new();
    write_notation(&mut out, value, false);
    out
}

/// A value in the older notation of the reference data: bytes, unsigned integers, durations, timestamps and types
/// appear as the name of their type.
pub fn plain_notation(value: Val<'_>) -> String {
    let mut out = String::new();
    write_notation(&mut out, value, true);
    out
}

fn write_notation(out: &mut String, value: Val<'_>, plain: bool) {
    match value {
        Val::Bool(b) => out.push_str(if b { "true" } else { "false" }),
        Val::Int(i) => push(out, format_args!("i{i}")),
        Val::Double(d) => push(out, format_args!("d{}", float::display(d))),
        Val::String(s) => go_json::write_string_plain(out, s),
        Val::Uint(_) | Val::Bytes(_) | Val::Duration(_) | Val::Timestamp(_) | Val::Type(_) | Val::Null if plain => {
            out.push_str(value.type_name());
        }
        Val::Null => out.push_str("null"),
        Val::Uint(u) => push(out, format_args!("u{u}")),
        Val::Bytes(bytes) => {
            out.push('b');
            for byte in bytes {
                push(out, format_args!("{byte:02x}"));
            }
        }
        Val::Duration(d) => push(out, format_args!("dur {}", duration::format(d))),
        Val::Timestamp(t) => push(out, format_args!("ts {t}")),
        Val::Type(name) => push(out, format_args!("type {name}")),
        Val::List(_) | Val::DocumentList(_) => {
            out.push('[');
            for (i, item) in value.list_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_notation(out, item, plain);
            }
            out.push(']');
        }
        Val::Map(_) | Val::DocumentMap(_) => {
            let mut entries: Vec<String> = value
                .map_iter()
                .map(|(key, value)| {
                    let mut entry = String::new();
                    write_notation(&mut entry, key, plain);
                    entry.push(':');
                    write_notation(&mut entry, value, plain);
                    entry
                })
                .collect();
            entries.sort();
            push(out, format_args!("{{{}}}", entries.join(",")));
        }
        Val::Optional(None) => out.push_str("none"),
        Val::Optional(Some(inner)) => {
            out.push_str("opt(");
            write_notation(out, *inner, plain);
            out.push(')');
        }
        Val::Error(text) => push(out, format_args!("error {text}")),
        Val::Variables | Val::Opaque(_) | Val::Object(_) => out.push_str(value.type_name()),
    }
}

/// A value as Go's `%v` prints cel-go's representation of it.
pub fn go_display(value: Val<'_>) -> String {
    let mut out = String::new();
    write_display(&mut out, value);
    out
}

fn write_display(out: &mut String, value: Val<'_>) {
    match value {
        // A named integer type without a printing method.
        Val::Null => out.push('0'),
        Val::Bool(b) => push(out, format_args!("{b}")),
        Val::Int(i) => push(out, format_args!("{i}")),
        Val::Uint(u) => push(out, format_args!("{u}")),
        Val::Double(d) => out.push_str(&float::display(d)),
        Val::String(s) => out.push_str(s),
        Val::Bytes(bytes) => {
            out.push('[');
            for (i, byte) in bytes.iter().enumerate() {
                let separator = if i > 0 { " " } else { "" };
                push(out, format_args!("{separator}{byte}"));
            }
            out.push(']');
        }
        Val::Duration(d) => out.push_str(&duration::format(d)),
        Val::Timestamp(t) => write_time(out, t),
        Val::Type(name) => out.push_str(&type_display(name)),
        Val::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_display(out, *item);
            }
            out.push(']');
        }
        Val::DocumentList(list) => {
            // Elements are still Go's own values here.
            out.push('[');
            for (i, item) in list.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                item.write_go(out);
            }
            out.push(']');
        }
        Val::Map(_) | Val::DocumentMap(_) => {
            out.push('{');
            for (i, (key, value)) in value.map_iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_display(out, key);
                out.push_str(": ");
                write_display(out, value);
            }
            out.push('}');
        }
        Val::Variables => out.push_str(value.type_name()),
        Val::Optional(None) => out.push_str("optional.none()"),
        Val::Optional(Some(inner)) => {
            out.push_str("optional(");
            write_display(out, *inner);
            out.push(')');
        }
        Val::Opaque(opaque) => out.push_str(&opaque.display()),
        Val::Object(object) => out.push_str(object.type_name),
        Val::Error(text) => out.push_str(text),
    }
}

/// A value as Go's `%v` prints the Go value behind it, as programs that evaluate an expression do.
///
/// Upstream: `ref.Val.Value`. Lists and maps of the expression hold CEL values, those of a document Go's own ones.
pub fn native_display(value: Val<'_>) -> String {
    let mut out = String::new();
    match value {
        Val::Null => out.push('0'),
        Val::Type(name) => out.push_str(name),
        Val::Optional(None) => out.push_str("<nil>"),
        Val::Optional(Some(inner)) => return native_display(*inner),
        Val::List(items) => {
            let items: Vec<String> = items.iter().map(|item| element_display(*item)).collect();
            push(&mut out, format_args!("[{}]", items.join(" ")));
        }
        Val::Map(entries) => {
            let mut entries: Vec<(String, String)> = entries
                .iter()
                .map(|(key, value)| (go_display(*key), element_display(*value)))
                .collect();
            entries.sort();
            let entries: Vec<String> = entries
                .into_iter()
                .map(|(key, value)| format!("{key}:{value}"))
                .collect();
            push(&mut out, format_args!("map[{}]", entries.join(" ")));
        }
        Val::DocumentList(list) => Value::List(list).write_go(&mut out),
        Val::DocumentMap(map) => Value::Map(map).write_go(&mut out),
        _ => write_display(&mut out, value),
    }
    out
}

fn element_display(value: Val<'_>) -> String {
    match value {
        Val::DocumentList(_) | Val::DocumentMap(_) => native_display(value),
        _ => go_display(value),
    }
}

/// Go's `time.Time.String`: an offset without a name is printed twice.
fn write_time(out: &mut String, t: Timestamp) {
    let civil = t.local();
    push(
        out,
        format_args!(
            "{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
            civil.year, civil.month, civil.day, civil.hour, civil.minute, civil.second
        ),
    );
    if t.nanos != 0 {
        let fraction = format!("{:09}", t.nanos);
        push(out, format_args!(".{}", fraction.trim_end_matches('0')));
    }
    if t.offset == 0 {
        out.push_str(" +0000 UTC");
        return;
    }
    let minutes = t.offset / 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    let minutes = minutes.abs();
    let offset = format!("{sign}{:02}{:02}", minutes / 60, minutes % 60);
    push(out, format_args!(" {offset} {offset}"));
}

/// A type's name as Go prints the type: lists and maps with their parameters.
pub fn type_display(name: &str) -> Cow<'_, str> {
    match name {
        "list" => "list(dyn)".into(),
        "map" => "map(dyn, dyn)".into(),
        OPTIONAL => OPTIONAL.into(),
        _ => name.into(),
    }
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing into memory cannot fail.
    let _ = out.write_fmt(text);
}
