//! URLs: `url`, `isURL` and the parts of a URL.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/cel/url.go`, `library/urls.go`.
//!
//! Known deviation: parts that decode to invalid UTF-8, which a CEL string cannot hold here, have U+FFFD for each
//! invalid byte.

use super::cost;
use crate::{
    context::Context,
    decl::{Library, global, member},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Opaque, Val},
};
use kyvtest_go_compat::text::url::{Url, parse, parse_request_uri};

const NAME: &str = "kubernetes.URL";

#[derive(Debug)]
struct UrlValue(Url);

impl Opaque for UrlValue {
    fn type_name(&self) -> &'static str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        let other: &UrlValue = super::downcast(other)?;
        Some(self.0.to_string() == other.0.to_string())
    }

    fn display(&self) -> String {
        self.0.to_string()
    }
}

pub(super) fn declare(library: &mut Library) {
    let url = || Type::structure(NAME);
    library
        .add(
            "url",
            [global("string_to_url", &[Type::String], url()).unary(from_string)],
        )
        .cost = Some(cost::parse);
    library.add(
        "isURL",
        [global("is_url_string", &[Type::String], Type::Bool).unary(is_url)],
    );
    let mut part = |name, id, implementation| {
        library
            .add(name, [member(id, &[url()], Type::String).unary(implementation)])
            .cost = Some(cost::nominal);
    };
    part("getScheme", "url_get_scheme", |context, args| {
        with(args, |url| context.string(url.scheme()))
    });
    part("getHost", "url_get_host", |context, args| {
        with(args, |url| text(context, url.host()))
    });
    part("getHostname", "url_get_hostname", |context, args| {
        with(args, |url| text(context, url.hostname()))
    });
    part("getPort", "url_get_port", |context, args| {
        with(args, |url| text(context, url.port()))
    });
    part("getEscapedPath", "url_get_escaped_path", |context, args| {
        with(args, |url| context.string(&url.escaped_path()))
    });
    let query = Type::map(Type::String, Type::list(Type::String));
    library
        .add("getQuery", [member("url_get_query", &[url()], query).unary(get_query)])
        .cost = Some(cost::nominal);
}

fn with<'a>(args: &[Val<'a>], get: impl FnOnce(&Url) -> Val<'a>) -> Val<'a> {
    match args.first().and_then(Val::downcast::<UrlValue>) {
        Some(url) => get(&url.0),
        None => NO_SUCH_OVERLOAD,
    }
}

fn text<'a>(context: &Context<'a>, bytes: &[u8]) -> Val<'a> {
    match std::str::from_utf8(bytes) {
        Ok(text) => context.string(text),
        Err(_) => {
            let mut text = String::with_capacity(bytes.len());
            for chunk in bytes.utf8_chunks() {
                text.push_str(chunk.valid());
                text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
            }
            context.string(&text)
        }
    }
}

fn from_string<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let Some(Val::String(text)) = args.first() else {
        return NO_SUCH_OVERLOAD;
    };
    match parse_request_uri(text).and_then(|_| parse(text)) {
        Ok(url) => context.opaque(UrlValue(url)),
        Err(error) => context.error(format_args!("URL parse error during conversion from string: {error}")),
    }
}

fn is_url<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args.first() {
        Some(Val::String(text)) => Val::Bool(parse_request_uri(text).is_ok()),
        _ => NO_SUCH_OVERLOAD,
    }
}

fn get_query<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    with(args, |url| {
        let entries: Vec<(Val<'a>, Val<'a>)> = url
            .query()
            .iter()
            .map(|(key, values)| {
                let values: Vec<Val<'a>> = values.iter().map(|value| text(context, value)).collect();
                (text(context, key), context.list(&values))
            })
            .collect();
        context.map(&entries)
    })
}
