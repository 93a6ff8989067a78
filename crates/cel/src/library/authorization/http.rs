//! HTTP requests and the responses to them: `http.Allowed`, `http.Denied`, `Header`, `QueryParam`, `Response`.
//!
//! Upstream counterpart: kyverno-authz `pkg/cel/libs/authz/http`.
//!
//! Known deviation: fields of a request that is `dyn` to the checker can be selected; upstream finds them by Go's
//! names.

use super::{
    mcp,
    message::{self, Item, Kind, Message, schemas},
};
use crate::{
    context::Context,
    decl::{Library, global, member},
    library::kyverno::native,
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};
use kyvtest_go_compat::value::{Value, go_json};

schemas! { SCHEMAS:
    REQUEST = "http.CheckRequest" {
        "attributes": Kind::Inline(&ATTRIBUTES),
        "mcp": Kind::Inline(&MCP_DATA),
    };
    ATTRIBUTES = "http.CheckRequestAttributes" {
        "method": Kind::Text,
        "header": Kind::TextLists,
        "host": Kind::Text,
        "protocol": Kind::Text,
        "contentLength": Kind::Int,
        "body": Kind::Bytes,
        "scheme": Kind::Text,
        "path": Kind::Text,
        "query": Kind::TextLists,
        "fragment": Kind::Text,
    };
    MCP_DATA = "http.MCPCheckData" {
        "request": Kind::Message(&mcp::REQUEST),
    };
    RESPONSE = "http.CheckResponse" {
        "ok": Kind::Message(&OK),
        "denied": Kind::Message(&DENIED),
    };
    OK = "http.CheckResponseOk" {};
    DENIED = "http.CheckResponseDenied" {
        "reason": Kind::Text,
    };
}

pub(super) fn declare(library: &mut Library) {
    message::declare(library, SCHEMAS);
    let (ok, denied) = (|| Type::structure(OK.name), || Type::structure(DENIED.name));
    let (attributes, response) = (Type::structure(ATTRIBUTES.name), Type::structure(RESPONSE.name));
    let texts = || Type::list(Type::String);
    library.add("http.Allowed", [global("http_allowed", &[], ok()).variadic(allowed)]);
    library.add(
        "http.Denied",
        [global("http_denied_string", &[Type::String], denied()).unary(refused)],
    );
    library.add(
        "Header",
        [member("http_get_header_string", &[attributes.clone(), Type::String], texts()).binary(header)],
    );
    library.add(
        "QueryParam",
        [member("http_get_queryparam_string", &[attributes, Type::String], texts()).binary(query)],
    );
    library.add(
        "Response",
        [
            member("http_response_ok", &[ok()], response.clone()).unary(respond_ok),
            member("http_response_denied", &[denied()], response).unary(respond_denied),
        ],
    );
}

/// Reads a request as Go's `encoding/json` reads it into upstream's structure.
///
/// # Errors
/// Go's message.
pub fn read(text: &str) -> Result<Message, String> {
    let document = go_json::read(text)?;
    super::go_structure::read(&REQUEST, document.root())
}

fn allowed<'a>(context: &Context<'a>, _: &[Val<'a>]) -> Val<'a> {
    context.opaque(Message::new(&OK))
}

fn refused<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [reason] = args else { return NO_SUCH_OVERLOAD };
    match native::string(context, *reason) {
        Ok(reason) => context.opaque(Message::new(&DENIED).with("reason", Item::Text(reason.to_owned()))),
        Err(error) => error,
    }
}

fn respond_ok<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [ok] = args else { return NO_SUCH_OVERLOAD };
    match message::expect(context, *ok, &OK) {
        Ok(ok) => context.opaque(Message::new(&RESPONSE).with("ok", Item::Message(ok.clone()))),
        Err(error) => error,
    }
}

fn respond_denied<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [denied] = args else { return NO_SUCH_OVERLOAD };
    match message::expect(context, *denied, &DENIED) {
        Ok(denied) => context.opaque(Message::new(&RESPONSE).with("denied", Item::Message(denied.clone()))),
        Err(error) => error,
    }
}

fn header<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    values(context, args, "header", canonical_header)
}

fn query<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    values(context, args, "query", str::to_owned)
}

/// The list of a name in one of the maps of a request, empty if it is absent.
fn values<'a>(context: &Context<'a>, args: &[Val<'a>], field: &str, key: fn(&str) -> String) -> Val<'a> {
    let [request, name] = args else { return NO_SUCH_OVERLOAD };
    let request = match message::expect(context, *request, &ATTRIBUTES) {
        Ok(request) => request,
        Err(error) => return error,
    };
    let name = match native::string(context, *name) {
        Ok(name) => key(name),
        Err(error) => return error,
    };
    let map = match request.get(field) {
        Some(Item::Document(document)) => document.root(),
        _ => return Val::List(&[]),
    };
    match map.get(&name) {
        Some(Value::List(list)) => Val::DocumentList(list),
        _ => Val::List(&[]),
    }
}

/// The canonical spelling of a header name in Go: `X-Key`. A name with characters invalid in headers is unchanged.
///
/// Upstream: `net/textproto` `CanonicalMIMEHeaderKey`.
fn canonical_header(name: &str) -> String {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if !name.bytes().all(is_token) {
        return name.to_owned();
    }
    let mut upper = true;
    let spelled = name.chars().map(|letter| {
        let spelled = if upper {
            letter.to_ascii_uppercase()
        } else {
            letter.to_ascii_lowercase()
        };
        upper = letter == '-';
        spelled
    });
    spelled.collect()
}
