//! Extended string functions.
//!
//! Upstream counterpart: cel-go `ext/strings.go`, versions 0 to 5; positions count code points.

mod check;
mod format;
mod format_classic;
mod format_spec;

pub(crate) use check::{FormatArgument, check_format_literal};

use self::format::{Failure, Style, interpolate};
use crate::{
    context::Context,
    decl::{Library, global, member},
    ops::characters,
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};

use Type::{Int, String};

/// Smaller replacements are made without counting the matches first.
const MOST_REPLACED: usize = 1 << 16;

/// Declares the functions of a version.
pub(crate) fn declare(library: &mut Library, version: u32) {
    let strings = || Type::list(String);
    library.add(
        "charAt",
        [member("string_char_at_int", &[String, Int], String).binary(char_at)],
    );
    library.add(
        "indexOf",
        [
            member("string_index_of_string", &[String, String], Int).binary(index_of),
            member("string_index_of_string_int", &[String, String, Int], Int).variadic(index_of),
        ],
    );
    library.add(
        "lastIndexOf",
        [
            member("string_last_index_of_string", &[String, String], Int).binary(last_index_of),
            member("string_last_index_of_string_int", &[String, String, Int], Int).variadic(last_index_of),
        ],
    );
    library.add(
        "lowerAscii",
        [member("string_lower_ascii", &[String], String)
            .unary(|context, args| with_text(args, |s| context.string(&s.to_ascii_lowercase())))],
    );
    library.add(
        "replace",
        [
            member("string_replace_string_string", &[String, String, String], String).variadic(replace),
            member(
                "string_replace_string_string_int",
                &[String, String, String, Int],
                String,
            )
            .variadic(replace),
        ],
    );
    library.add(
        "split",
        [
            member("string_split_string", &[String, String], strings()).binary(split),
            member("string_split_string_int", &[String, String, Int], strings()).variadic(split),
        ],
    );
    library.add(
        "substring",
        [
            member("string_substring_int", &[String, Int], String).binary(substring),
            member("string_substring_int_int", &[String, Int, Int], String).variadic(substring),
        ],
    );
    library.add(
        "trim",
        [member("string_trim", &[String], String).unary(|_, args| {
            // Go's and Rust's notions of white space are the same.
            with_text(args, |s| Val::String(s.trim()))
        })],
    );
    library.add(
        "upperAscii",
        [member("string_upper_ascii", &[String], String)
            .unary(|context, args| with_text(args, |s| context.string(&s.to_ascii_uppercase())))],
    );
    if version >= 1 {
        let format = member("string_format", &[String, Type::list(Type::Dyn)], String);
        library.add(
            "format",
            [match version {
                1..=3 => format.variadic(self::format::<3>),
                4 => format.variadic(self::format::<4>),
                _ => format.variadic(self::format::<5>),
            }],
        );
        library.add(
            "strings.quote",
            [global("strings_quote", &[String], String)
                .unary(|context, args| with_text(args, |s| context.string(&quote(s))))],
        );
    }
    library.add(
        "join",
        [
            member("list_join", &[strings()], String).unary(join),
            member("list_join_string", &[strings(), String], String).binary(join),
        ],
    );
    if version >= 3 {
        library.add(
            "reverse",
            [member("string_reverse", &[String], String).unary(|context, args| {
                with_text(args, |s| {
                    let reversed: std::string::String = s.chars().rev().collect();
                    context.string(&reversed)
                })
            })],
        );
    }
}

/// `s.format(list)` of a version of the library.
fn format<'a, const VERSION: u32>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [Val::String(format), list] = args else {
        return NO_SUCH_OVERLOAD;
    };
    // Each clause reads one argument, the text between them has its own length.
    if !context.spend(format.len()) || !list.list_iter().all(|arg| context.spend_walk(arg)) {
        return context.exhausted();
    }
    let style = Style::of_version(VERSION);
    let formatted = interpolate(
        format,
        style,
        |index| index < list.len(),
        true,
        |index, verb, precision| {
            let arg = list.list_get(index).unwrap_or(Val::Null);
            let text = if style.spec {
                format_spec::clause(verb, precision, arg)
            } else {
                format_classic::clause(verb, precision, arg)
            };
            text.map_err(|text| Failure::<()> { text, argument: None })
        },
    );
    match formatted {
        Ok(text) => context.string(&text),
        Err(failure) => context.error(format_args!("{}", failure.text)),
    }
}

fn with_text<'a>(args: &[Val<'a>], apply: impl FnOnce(&'a str) -> Val<'a>) -> Val<'a> {
    args[0].as_str().map_or(NO_SUCH_OVERLOAD, apply)
}

fn out_of_range<'a>(context: &Context<'a>, index: i64) -> Val<'a> {
    context.error(format_args!("index out of range: {index}"))
}

/// The byte offset of a code point; the length of the text is the offset after the last one.
fn byte_offset(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    text.char_indices()
        .map(|(offset, _)| offset)
        .chain([text.len()])
        .nth(index)
}

fn char_at<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [Val::String(text), Val::Int(index)] = *args else {
        return NO_SUCH_OVERLOAD;
    };
    let Some(from) = byte_offset(text, index) else {
        return out_of_range(context, index);
    };
    let to = text[from..].chars().next().map_or(from, |c| from + c.len_utf8());
    Val::String(&text[from..to])
}

fn index_of<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let (text, part, offset) = match *args {
        [Val::String(text), Val::String(part)] => (text, part, 0),
        [Val::String(text), Val::String(part), Val::Int(offset)] => (text, part, offset),
        _ => return NO_SUCH_OVERLOAD,
    };
    if part.is_empty() && !context.profile.behaviour.index_of_empty_is_clamped {
        return Val::Int(offset);
    }
    if offset < 0 {
        return out_of_range(context, offset);
    }
    let Some(from) = byte_offset(text, offset) else {
        // Past the end nothing is found, except that the empty string is found at the end.
        return Val::Int(if part.is_empty() { characters(text) as i64 } else { -1 });
    };
    Val::Int(
        text[from..]
            .find(part)
            .map_or(-1, |found| offset + characters(&text[from..from + found]) as i64),
    )
}

fn last_index_of<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let (text, part, offset) = match *args {
        [Val::String(text), Val::String("")] => return Val::Int(characters(text) as i64),
        [Val::String(text), Val::String(part)] => {
            return Val::Int(text.rfind(part).map_or(-1, |found| characters(&text[..found]) as i64));
        }
        [Val::String(text), Val::String(part), Val::Int(offset)] => (text, part, offset),
        _ => return NO_SUCH_OVERLOAD,
    };
    if part.is_empty() && !context.profile.behaviour.index_of_empty_is_clamped {
        return Val::Int(offset);
    }
    if offset < 0 {
        return out_of_range(context, offset);
    }
    let length = characters(text) as i64;
    if part.is_empty() {
        return Val::Int(offset.min(length));
    }
    if offset >= length {
        return Val::Int(-1);
    }
    // A match that begins at the offset ends that much later.
    let end = byte_offset(text, offset + characters(part) as i64).unwrap_or(text.len());
    Val::Int(
        text[..end]
            .rfind(part)
            .map_or(-1, |found| characters(&text[..found]) as i64),
    )
}

fn replace<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let (text, old, new, count) = match *args {
        [Val::String(text), Val::String(old), Val::String(new)] => (text, old, new, -1),
        [Val::String(text), Val::String(old), Val::String(new), Val::Int(count)] => (text, old, new, count),
        _ => return NO_SUCH_OVERLOAD,
    };
    if count == 0 || old == new || !text.contains(old) {
        return Val::String(text);
    }
    let found = usize::try_from(count).unwrap_or(usize::MAX);
    let found = found.min(if old.is_empty() {
        characters(text) + 1
    } else {
        text.len() / old.len()
    });
    // Exact only if the matches fill the string, but a string that exceeds the limit was made to grow.
    if new.len() > old.len() && found.saturating_mul(new.len()) > MOST_REPLACED {
        let found = found.min(text.matches(old).count());
        if !context.spend(found.saturating_mul(new.len())) {
            return context.exhausted();
        }
    }
    match usize::try_from(count) {
        Ok(count) => context.string(&text.replacen(old, new, count)),
        Err(_) => context.string(&text.replace(old, new)),
    }
}

fn split<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let (text, separator, count) = match *args {
        [Val::String(text), Val::String(separator)] => (text, separator, -1),
        [Val::String(text), Val::String(separator), Val::Int(count)] => (text, separator, count),
        _ => return NO_SUCH_OVERLOAD,
    };
    let limit = usize::try_from(count).unwrap_or(usize::MAX);
    let parts = if separator.is_empty() {
        characters(text)
    } else {
        text.matches(separator).count() + 1
    };
    let parts = parts.min(limit);
    if !context.spend_items(parts) {
        return context.exhausted();
    }
    let mut parts = bumpalo::collections::Vec::with_capacity_in(parts, context.bump());
    if limit == 0 {
        return Val::List(&[]);
    }
    if separator.is_empty() {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if parts.len() + 1 == limit {
                parts.push(Val::String(rest));
                break;
            }
            let (head, tail) = rest.split_at(c.len_utf8());
            parts.push(Val::String(head));
            rest = tail;
        }
    } else {
        parts.extend(text.splitn(limit, separator).map(Val::String));
    }
    Val::List(parts.into_bump_slice())
}

fn substring<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let (text, start, end) = match *args {
        [Val::String(text), Val::Int(start)] => (text, start, None),
        [Val::String(text), Val::Int(start), Val::Int(end)] => (text, start, Some(end)),
        _ => return NO_SUCH_OVERLOAD,
    };
    if let Some(end) = end.filter(|end| start > *end) {
        return context.error(format_args!("invalid substring range. start: {start}, end: {end}"));
    }
    let Some(from) = byte_offset(text, start) else {
        return out_of_range(context, start);
    };
    match end {
        None => Val::String(&text[from..]),
        Some(end) => match byte_offset(text, end) {
            Some(to) => Val::String(&text[from..to]),
            None => out_of_range(context, end),
        },
    }
}

fn join<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let (list, separator) = match *args {
        [list] => (list, ""),
        [list, Val::String(separator)] => (list, separator),
        _ => return NO_SUCH_OVERLOAD,
    };
    let text = |item: Val<'a>| item.as_str().map_or(0, str::len);
    let length = list.list_iter().fold(0usize, |sum, item| {
        sum.saturating_add(text(item)).saturating_add(separator.len())
    });
    if !context.spend(length) {
        return context.exhausted();
    }
    let mut joined = bumpalo::collections::String::with_capacity_in(length, context.bump());
    for (i, item) in list.list_iter().enumerate() {
        if i > 0 {
            joined.push_str(separator);
        }
        match item {
            Val::String(text) => joined.push_str(text),
            _ => return context.error(format_args!("join: invalid input: {}", context.display(item))),
        }
    }
    Val::String(joined.into_bump_str())
}

/// `strings.quote`: the escapes that CEL knows, and no others.
fn quote(text: &str) -> std::string::String {
    let mut out = std::string::String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
