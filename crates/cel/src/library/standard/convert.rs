//! Conversions between types: `int`, `uint`, `double`, `string`, `bytes`, `bool`, `duration`, `timestamp`, `type`, `dyn`.
//!
//! Upstream counterpart: the `ConvertToType` methods of cel-go `common/types`.

use crate::{
    context::Context,
    decl::{Binding, Library, Singleton, global},
    ops::{INT_OVERFLOW, UINT_OVERFLOW, double_to_int, double_to_uint},
    print,
    profile::Behaviour,
    time::{self, Timestamp},
    types::{A, Type},
    val::Val,
};
use kyvtest_go_compat::text::{duration, float, number, quote::quote};

use Type::{Bool, Bytes, Double, Duration, Int, String, Uint};

pub(super) fn declare(library: &mut Library, behaviour: &Behaviour) {
    let unary = |implementation| {
        Some(Singleton {
            operand: None,
            binding: Binding::Unary,
            implementation,
        })
    };
    library.add("type", [global("type", &[A], Type::type_of(A))]).singleton = unary(|_, args| match args[0] {
        Val::Opaque(opaque) => match opaque.type_error() {
            Some(error) => Val::Error(error),
            None => Val::Type(opaque.type_name()),
        },
        // The types of mutations convert to a parameterised type, and parameters do not count.
        Val::Object(_) => Val::Type("type"),
        value => Val::Type(value.type_name()),
    });
    library.add("dyn", [global("to_dyn", &[A], Type::Dyn)]).singleton = unary(identity);

    library.add(
        "bool",
        [
            global("bool_to_bool", &[Bool], Bool).unary(identity),
            global("string_to_bool", &[String], Bool).unary(to_bool),
        ],
    );
    library.add(
        "bytes",
        [
            global("bytes_to_bytes", &[Bytes], Bytes).unary(identity),
            global("string_to_bytes", &[String], Bytes).unary(to_bytes),
        ],
    );
    library.add(
        "double",
        [
            global("double_to_double", &[Double], Double).unary(identity),
            global("int64_to_double", &[Int], Double).unary(to_double),
            global("string_to_double", &[String], Double).unary(to_double),
            global("uint64_to_double", &[Uint], Double).unary(to_double),
        ],
    );
    library.add(
        "duration",
        [global("duration_to_duration", &[Duration], Duration).unary(identity)],
    );
    if behaviour.int_to_duration_is_declared {
        library.add(
            "duration",
            [global("int64_to_duration", &[Int], Duration).unary(to_duration)],
        );
    }
    library.add(
        "duration",
        [global("string_to_duration", &[String], Duration).unary(to_duration)],
    );
    library.add(
        "int",
        [
            global("int64_to_int64", &[Int], Int).unary(identity),
            global("double_to_int64", &[Double], Int).unary(to_int),
            global("duration_to_int64", &[Duration], Int).unary(to_int),
            global("string_to_int64", &[String], Int).unary(to_int),
            global("timestamp_to_int64", &[Type::Timestamp], Int).unary(to_int),
            global("uint64_to_int64", &[Uint], Int).unary(to_int),
        ],
    );
    library.add(
        "string",
        [
            global("string_to_string", &[String], String).unary(identity),
            global("bool_to_string", &[Bool], String).unary(to_string),
            global("bytes_to_string", &[Bytes], String).unary(to_string),
            global("double_to_string", &[Double], String).unary(to_string),
            global("duration_to_string", &[Duration], String).unary(to_string),
            global("int64_to_string", &[Int], String).unary(to_string),
            global("timestamp_to_string", &[Type::Timestamp], String).unary(to_string),
            global("uint64_to_string", &[Uint], String).unary(to_string),
        ],
    );
    library.add(
        "timestamp",
        [
            global("timestamp_to_timestamp", &[Type::Timestamp], Type::Timestamp).unary(identity),
            global("int64_to_timestamp", &[Int], Type::Timestamp).unary(to_timestamp),
            global("string_to_timestamp", &[String], Type::Timestamp).unary(to_timestamp),
        ],
    );
    library.add(
        "uint",
        [
            global("uint64_to_uint64", &[Uint], Uint).unary(identity),
            global("double_to_uint64", &[Double], Uint).unary(to_uint),
            global("int64_to_uint64", &[Int], Uint).unary(to_uint),
            global("string_to_uint64", &[String], Uint).unary(to_uint),
        ],
    );
}

fn identity<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    args[0]
}

/// The error of an unsupported conversion, or of a malformed string.
fn failed<'a>(context: &Context<'a>, from: Val<'a>, to: &Type) -> Val<'a> {
    let (from, to) = (print::type_display(from.type_name()), to.runtime_name());
    context.error(format_args!("type conversion error from '{from}' to '{to}'"))
}

fn to_bool<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    args[0]
        .as_str()
        .and_then(|text| number::parse_bool(text).ok())
        .map_or_else(|| failed(context, args[0], &Bool), Val::Bool)
}

fn to_bytes<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args[0] {
        Val::String(s) => Val::Bytes(s.as_bytes()),
        other => failed(context, other, &Bytes),
    }
}

fn to_double<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args[0] {
        Val::Int(i) => Val::Double(i as f64),
        Val::Uint(u) => Val::Double(u as f64),
        Val::String(s) => number::parse_float(s).map_or_else(|_| failed(context, args[0], &Double), Val::Double),
        other => failed(context, other, &Double),
    }
}

fn to_int<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args[0] {
        Val::Double(d) => double_to_int(d).map_or(INT_OVERFLOW, Val::Int),
        Val::Duration(d) => Val::Int(d),
        Val::String(s) => number::parse_int(s, 10, 64).map_or_else(|_| failed(context, args[0], &Int), Val::Int),
        Val::Timestamp(t) => Val::Int(t.seconds),
        Val::Uint(u) => i64::try_from(u).map_or(INT_OVERFLOW, Val::Int),
        other => failed(context, other, &Int),
    }
}

fn to_uint<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args[0] {
        Val::Double(d) => double_to_uint(d).map_or(UINT_OVERFLOW, Val::Uint),
        Val::Int(i) => u64::try_from(i).map_or(UINT_OVERFLOW, Val::Uint),
        Val::String(s) => number::parse_uint(s, 10, 64).map_or_else(|_| failed(context, args[0], &Uint), Val::Uint),
        other => failed(context, other, &Uint),
    }
}

/// `string(v)`, for every type that supports it.
pub(crate) fn to_string<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args[0] {
        Val::String(_) => args[0],
        Val::Bool(b) => Val::String(if b { "true" } else { "false" }),
        Val::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Val::String(text),
            Err(_) => Val::Error("invalid UTF-8 in bytes, cannot convert to string"),
        },
        Val::Double(d) => context.string(&float::display(d)),
        Val::Duration(d) => context.string(&time::duration_text(d)),
        Val::Int(i) => context.string(&i.to_string()),
        Val::Timestamp(t) => context.string(&t.to_string()),
        Val::Uint(u) => context.string(&u.to_string()),
        other => failed(context, other, &String),
    }
}

fn to_duration<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    args[0]
        .as_str()
        .and_then(|text| duration::parse(text).ok())
        .map_or_else(|| failed(context, args[0], &Duration), Val::Duration)
}

fn to_timestamp<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args[0] {
        Val::Int(seconds) => Timestamp::from_seconds(seconds).map_or(time::OVERFLOW, Val::Timestamp),
        Val::String(text) => {
            if context.profile.behaviour.timestamps_are_strict && !Timestamp::is_strict_rfc3339(text) {
                return context.error(format_args!("invalid RFC 3339 timestamp {}", quote(text)));
            }
            match Timestamp::parse(text) {
                Some(t) if t.is_in_range() => Val::Timestamp(t),
                Some(_) => time::OVERFLOW,
                None => failed(context, args[0], &Type::Timestamp),
            }
        }
        other => failed(context, other, &Type::Timestamp),
    }
}
