//! Regular expressions of Kubernetes: `find` and `findAll`.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/cel/library/regex.go`.

use super::pattern;
use crate::{
    context::Context,
    decl::{Library, member},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};

use Type::{Int, String};

pub(super) fn declare(library: &mut Library) {
    library.add(
        "find",
        [member("string_find_string", &[String, String], String).binary(find)],
    );
    library.add(
        "findAll",
        [
            member("string_find_all_string", &[String, String], Type::list(String)).binary(find_all),
            member("string_find_all_string_int", &[String, String, Int], Type::list(String)).variadic(find_all),
        ],
    );
}

fn find<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [Val::String(text), Val::String(pattern)] = *args else {
        return NO_SUCH_OVERLOAD;
    };
    match pattern::compile(context, pattern) {
        Ok(regex) if !context.spend_search(&regex, text) => context.exhausted(),
        Ok(regex) => Val::String(regex.find(text).and_then(|span| text.get(span)).unwrap_or("")),
        Err(error) => context.error(format_args!("Illegal regex: {error}")),
    }
}

fn find_all<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let (text, pattern, count) = match *args {
        [Val::String(text), Val::String(pattern)] => (text, pattern, -1),
        [Val::String(text), Val::String(pattern), Val::Int(count)] => (text, pattern, count),
        _ => return NO_SUCH_OVERLOAD,
    };
    match pattern::compile(context, pattern) {
        Ok(regex) if !context.spend_search(&regex, text) => context.exhausted(),
        Ok(regex) => {
            let spans = regex.find_all_within(text, usize::try_from(count).ok(), |bytes| context.spend_scan(bytes));
            let found: Vec<Val<'a>> = spans
                .into_iter()
                .filter_map(|span| text.get(span))
                .map(Val::String)
                .collect();
            context.list(&found)
        }
        Err(error) => context.error(format_args!("Illegal regex: {error}")),
    }
}
