//! Regular expressions: replacing and extracting.
//!
//! Upstream counterpart: cel-go `ext/regex.go`.

use super::{
    pattern,
    sizes::{CALL, LIST_BASE, REGEX_LENGTH, STRING_TRAVERSAL, size},
};
use crate::{
    context::Context,
    decl::{Library, global},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};
use kyvtest_go_compat::{regex::Regex, text::quote::quote};

use Type::{Int, String};

pub(super) fn declare(library: &mut Library) {
    library.add(
        "regex.extract",
        [
            global("regex_extract_string_string", &[String, String], Type::optional(String))
                .binary(extract)
                .cost(|args, result| (search_cost(args, result)).ceil() as u64),
        ],
    );
    library.add(
        "regex.extractAll",
        [
            global("regex_extractAll_string_string", &[String, String], Type::list(String))
                .binary(extract_all)
                .cost(|args, result| (search_cost(args, result) + LIST_BASE as f64).ceil() as u64),
        ],
    );
    library.add(
        "regex.replace",
        [
            global("regex_replace_string_string_string", &[String, String, String], String)
                .variadic(replace)
                .cost(|args, result| search_cost(args, result) as u64),
            global(
                "regex_replace_string_string_string_int",
                &[String, String, String, Int],
                String,
            )
            .variadic(replace)
            .cost(|args, result| search_cost(args, result) as u64),
        ],
    );
}

/// The cost of a search and of its result, before it is rounded.
fn search_cost(args: &[Val<'_>], result: &Val<'_>) -> f64 {
    let text = (size(&args[0]) + 1) as f64 * STRING_TRAVERSAL;
    let pattern = (size(&args[1]) + 1) as f64 * REGEX_LENGTH;
    CALL as f64 + text * pattern + size(result) as f64
}

/// A pattern with at most one group.
fn single<'a>(context: &Context<'a>, pattern: &str, text: &str) -> Result<Regex, Val<'a>> {
    let regex = pattern::compile(context, pattern).map_err(|error| context.error(format_args!("{error}")))?;
    if !context.spend_search(&regex, text) {
        return Err(context.exhausted());
    }
    if regex.group_count() > 1 {
        return Err(context.error(format_args!(
            "regular expression has more than one capturing group: {}",
            quote(pattern)
        )));
    }
    Ok(regex)
}

fn extract<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [Val::String(text), Val::String(pattern)] = *args else {
        return NO_SUCH_OVERLOAD;
    };
    let regex = match single(context, pattern, text) {
        Ok(regex) => regex,
        Err(error) => return error,
    };
    let found = regex.captures(text).and_then(|captures| match regex.group_count() {
        0 => captures.get(0),
        // An empty group counts as absent.
        _ => captures.get(1).filter(|group| !group.is_empty()),
    });
    found.map_or(Val::NONE, |found| context.some(Val::String(found)))
}

fn extract_all<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [Val::String(text), Val::String(pattern)] = *args else {
        return NO_SUCH_OVERLOAD;
    };
    let regex = match single(context, pattern, text) {
        Ok(regex) => regex,
        Err(error) => return error,
    };
    let found: Vec<Val<'a>> = if regex.group_count() == 0 {
        let spans = regex.find_all_within(text, None, |bytes| context.spend_scan(bytes));
        spans
            .into_iter()
            .filter_map(|span| text.get(span))
            .map(Val::String)
            .collect()
    } else {
        let captures = regex.captures_all_within(text, None, |bytes| context.spend_scan(bytes));
        let groups = captures.iter().filter_map(|captures| captures.get(1));
        groups.filter(|group| !group.is_empty()).map(Val::String).collect()
    };
    context.list(&found)
}

fn replace<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let (text, pattern, template, count) = match *args {
        [Val::String(text), Val::String(pattern), Val::String(template)] => (text, pattern, template, -1),
        [
            Val::String(text),
            Val::String(pattern),
            Val::String(template),
            Val::Int(count),
        ] => (text, pattern, template, count),
        _ => return NO_SUCH_OVERLOAD,
    };
    if count == 0 {
        return Val::String(text);
    }
    let regex = match pattern::compile(context, pattern) {
        Ok(regex) => regex,
        Err(error) => return context.error(format_args!("{error}")),
    };
    if !context.spend_search(&regex, text) {
        return context.exhausted();
    }
    let limit = usize::try_from(count).ok();
    let mut out = std::string::String::with_capacity(text.len());
    let mut end = 0;
    for captures in regex.captures_all_within(text, limit, |bytes| context.spend_scan(bytes)) {
        let span = captures.span(0).unwrap_or(end..end);
        out.push_str(text.get(end..span.start).unwrap_or(""));
        let group = |number: usize| captures.get(number).unwrap_or("");
        let references = span.len().saturating_mul(template.matches('\\').count());
        if !context.spend(references.saturating_add(template.len())) {
            return context.exhausted();
        }
        if let Err(error) = expand(&mut out, template, regex.group_count(), group) {
            return context.error(format_args!("{error}"));
        }
        end = span.end;
    }
    out.push_str(&text[end..]);
    context.string(&out)
}

/// Expands a replacement: `\0` to `\9` are groups, `\\` is a backslash.
fn expand<'t>(
    out: &mut std::string::String,
    template: &str,
    groups: usize,
    group: impl Fn(usize) -> &'t str,
) -> Result<(), std::string::String> {
    let mut characters = template.chars();
    while let Some(c) = characters.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let invalid = |why: &str| Err(format!("invalid replacement string: '{template}' \\ {why}"));
        match characters.next() {
            None => return invalid("not allowed at end"),
            Some('\\') => out.push('\\'),
            Some(digit) => match digit.to_digit(10) {
                None => return invalid("must be followed by a digit or \\"),
                Some(number) if number as usize > groups => {
                    return Err(format!(
                        "replacement string references group {number} but regex has only {groups} group(s)"
                    ));
                }
                Some(number) => out.push_str(group(number as usize)),
            },
        }
    }
    Ok(())
}
