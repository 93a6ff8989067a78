//! Envoy's check requests and the responses to them: `envoy.Allowed`, `envoy.Denied` and their methods.
//!
//! Upstream counterpart: kyverno-authz `pkg/cel/libs/authz/envoy`, with the messages of go-control-plane 1.37.
//!
//! Known deviation: only the enumerations that the messages use have constants.

use super::{
    constants,
    message::{self, Item, Kind, Message, Schema, schemas},
    proto_json,
};
use crate::{
    context::Context,
    decl::{Library, global, member},
    library::kyverno::native,
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};
use kyvtest_go_compat::value::{Data, Value};

schemas! { SCHEMAS:
    REQUEST = "envoy.service.auth.v3.CheckRequest" {
        "attributes": Kind::Message(&ATTRIBUTES),
    };
    ATTRIBUTES = "envoy.service.auth.v3.AttributeContext" {
        "source": Kind::Message(&PEER),
        "destination": Kind::Message(&PEER),
        "request": Kind::Message(&CONTENT),
        "context_extensions": Kind::TextMap,
        "metadata_context": Kind::Message(&METADATA),
        "route_metadata_context": Kind::Message(&METADATA),
        "tls_session": Kind::Message(&TLS_SESSION),
    };
    PEER = "envoy.service.auth.v3.AttributeContext.Peer" {
        "address": Kind::Message(&ADDRESS),
        "service": Kind::Text,
        "labels": Kind::TextMap,
        "principal": Kind::Text,
        "certificate": Kind::Text,
    };
    CONTENT = "envoy.service.auth.v3.AttributeContext.Request" {
        "time": Kind::Timestamp,
        "http": Kind::Message(&HTTP_REQUEST),
    };
    HTTP_REQUEST = "envoy.service.auth.v3.AttributeContext.HttpRequest" {
        "id": Kind::Text,
        "method": Kind::Text,
        "headers": Kind::TextMap,
        "header_map": Kind::Message(&HEADER_MAP),
        "path": Kind::Text,
        "host": Kind::Text,
        "scheme": Kind::Text,
        "query": Kind::Text,
        "fragment": Kind::Text,
        "size": Kind::Int,
        "protocol": Kind::Text,
        "body": Kind::Text,
        "raw_body": Kind::Bytes,
    };
    TLS_SESSION = "envoy.service.auth.v3.AttributeContext.TLSSession" {
        "sni": Kind::Text,
    };
    ADDRESS = "envoy.config.core.v3.Address" {
        "socket_address": Kind::Message(&SOCKET_ADDRESS),
        "pipe": Kind::Message(&PIPE),
        "envoy_internal_address": Kind::Message(&INTERNAL_ADDRESS),
    } oneof "envoy.config.core.v3.Address.address" ["socket_address", "pipe", "envoy_internal_address"];
    SOCKET_ADDRESS = "envoy.config.core.v3.SocketAddress" {
        "protocol": Kind::Enumeration(&[("TCP", 0), ("UDP", 1)]),
        "address": Kind::Text,
        "port_value": Kind::Uint,
        "named_port": Kind::Text,
        "resolver_name": Kind::Text,
        "ipv4_compat": Kind::Bool,
        "network_namespace_filepath": Kind::Text,
    } oneof "envoy.config.core.v3.SocketAddress.port_specifier" ["port_value", "named_port"];
    PIPE = "envoy.config.core.v3.Pipe" {
        "path": Kind::Text,
        "mode": Kind::Uint,
    };
    INTERNAL_ADDRESS = "envoy.config.core.v3.EnvoyInternalAddress" {
        "server_listener_name": Kind::Text,
        "endpoint_id": Kind::Text,
    } oneof "envoy.config.core.v3.EnvoyInternalAddress.address_name_specifier" ["server_listener_name"];
    METADATA = "envoy.config.core.v3.Metadata" {
        "filter_metadata": Kind::Jsons,
        "typed_filter_metadata": Kind::Anys,
    };
    HEADER_MAP = "envoy.config.core.v3.HeaderMap" {
        "headers": Kind::Messages(&HEADER_VALUE),
    };
    HEADER_VALUE = "envoy.config.core.v3.HeaderValue" {
        "key": Kind::Text,
        "value": Kind::Text,
        "raw_value": Kind::Bytes,
    };
    HEADER = "envoy.config.core.v3.HeaderValueOption" {
        "header": Kind::Message(&HEADER_VALUE),
        "append": Kind::OptionalBool,
        "append_action": Kind::Enumeration(&[
            ("APPEND_IF_EXISTS_OR_ADD", 0),
            ("ADD_IF_ABSENT", 1),
            ("OVERWRITE_IF_EXISTS_OR_ADD", 2),
            ("OVERWRITE_IF_EXISTS", 3),
        ]),
        "keep_empty_value": Kind::Bool,
    };
    QUERY_PARAMETER = "envoy.config.core.v3.QueryParameter" {
        "key": Kind::Text,
        "value": Kind::Text,
    };
    HTTP_STATUS = "envoy.type.v3.HttpStatus" {
        "code": Kind::Enumeration(&[]),
    };
    STATUS = "google.rpc.Status" {
        "code": Kind::Int,
        "message": Kind::Text,
        "details": Kind::AnyList,
    };
    DENIED = "envoy.service.auth.v3.DeniedHttpResponse" {
        "status": Kind::Message(&HTTP_STATUS),
        "headers": Kind::Messages(&HEADER),
        "body": Kind::Text,
    };
    OK = "envoy.service.auth.v3.OkHttpResponse" {
        "headers": Kind::Messages(&HEADER),
        "headers_to_remove": Kind::Texts,
        "dynamic_metadata": Kind::Json,
        "response_headers_to_add": Kind::Messages(&HEADER),
        "query_parameters_to_set": Kind::Messages(&QUERY_PARAMETER),
        "query_parameters_to_remove": Kind::Texts,
    };
    RESPONSE = "envoy.service.auth.v3.CheckResponse" {
        "status": Kind::Message(&STATUS),
        "denied_response": Kind::Message(&DENIED),
        "ok_response": Kind::Message(&OK),
        "error_response": Kind::Message(&DENIED),
        "dynamic_metadata": Kind::Json,
    } oneof "envoy.service.auth.v3.CheckResponse.http_response" ["denied_response", "ok_response", "error_response"];
}

/// The gRPC code of a denied request.
const PERMISSION_DENIED: i64 = 7;

/// Parses a request from protobuf's JSON.
///
/// # Errors
/// The cause; with upstream's message if that does not depend on the position.
pub fn read(value: Value<'_>) -> Result<Message, String> {
    proto_json::read(&REQUEST, value)
}

pub(super) fn declare(library: &mut Library) {
    message::declare(library, SCHEMAS);
    for (name, number) in constants::ENUMERATIONS {
        library.add_constant(name, Type::Int, Val::Int(*number));
    }
    let of = |schema: &Schema| Type::structure(schema.name);
    let (string, ok, denied) = (|| Type::String, || of(&OK), || of(&DENIED));
    library.add("envoy.Allowed", [global("allowed", &[], ok()).variadic(allowed)]);
    library.add(
        "envoy.Denied",
        [global("denied", &[Type::Int], denied()).unary(refused)],
    );
    library.add(
        "envoy.Header",
        [global("header_key_value", &[string(), string()], of(&HEADER)).binary(header)],
    );
    library.add(
        "envoy.QueryParam",
        [global("queryparam_key_value", &[string(), string()], of(&QUERY_PARAMETER)).binary(query_parameter)],
    );
    library.add(
        "WithBody",
        [member("denied_with_body", &[denied(), string()], denied()).binary(with_body)],
    );
    library.add(
        "WithHeader",
        [
            member("ok_with_header_header", &[ok(), of(&HEADER)], ok()).binary(with_header),
            member("ok_with_header_string_string", &[ok(), string(), string()], ok()).variadic(with_header),
            member("denied_with_header_header", &[denied(), of(&HEADER)], denied()).binary(with_header),
            member(
                "denied_with_header_string_string",
                &[denied(), string(), string()],
                denied(),
            )
            .variadic(with_header),
        ],
    );
    library.add(
        "WithoutHeader",
        [member("ok_without_header", &[ok(), string()], ok()).binary(without_header)],
    );
    library.add(
        "WithResponseHeader",
        [
            member("ok_with_response_header_header", &[ok(), of(&HEADER)], ok()).binary(with_response_header),
            member(
                "ok_with_response_header_string_string",
                &[ok(), string(), string()],
                ok(),
            )
            .variadic(with_response_header),
        ],
    );
    library.add(
        "WithQueryParam",
        [
            member("ok_with_queryparam_param", &[ok(), of(&QUERY_PARAMETER)], ok()).binary(with_query_parameter),
            member("ok_with_queryparam_string_string", &[ok(), string(), string()], ok())
                .variadic(with_query_parameter),
        ],
    );
    library.add(
        "WithoutQueryParam",
        [member("ok_without_queryparam_string", &[ok(), string()], ok()).binary(without_query_parameter)],
    );
    library.add(
        "KeepEmptyValue",
        [
            member("header_keep_empty_value", &[of(&HEADER)], of(&HEADER)).unary(keep_empty_value),
            member("header_keep_empty_value_bool", &[of(&HEADER), Type::Bool], of(&HEADER)).binary(keep_empty_value),
        ],
    );
    library.add(
        "Response",
        [
            member("ok_response", &[ok()], of(&RESPONSE)).unary(respond),
            member("denied_response", &[denied()], of(&RESPONSE)).unary(respond),
        ],
    );
    library.add(
        "WithMessage",
        [member("response_ok_with_message", &[of(&RESPONSE), string()], of(&RESPONSE)).binary(with_message)],
    );
    library.add(
        "WithMetadata",
        [member(
            "response_ok_with_metadata",
            &[of(&RESPONSE), Type::map(Type::String, Type::Dyn)],
            of(&RESPONSE),
        )
        .binary(with_metadata)],
    );
}

fn allowed<'a>(context: &Context<'a>, _: &[Val<'a>]) -> Val<'a> {
    context.opaque(Message::new(&OK))
}

fn refused<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [Val::Int(code)] = args else {
        return NO_SUCH_OVERLOAD;
    };
    if i32::try_from(*code).is_err() {
        return Val::Error("integer overflow");
    }
    let status = Message::new(&HTTP_STATUS).with("code", Item::Int(*code));
    context.opaque(Message::new(&DENIED).with("status", Item::Message(status)))
}

fn pair(schema: &'static Schema, key: &str, value: &str) -> Message {
    let mut pair = Message::new(schema);
    for (name, text) in [("key", key), ("value", value)] {
        if !text.is_empty() {
            pair.set(name, Item::Text(text.to_owned()));
        }
    }
    pair
}

fn header_of(key: &str, value: &str) -> Message {
    Message::new(&HEADER).with("header", Item::Message(pair(&HEADER_VALUE, key, value)))
}

fn header<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args {
        [Val::String(key), Val::String(value)] => context.opaque(header_of(key, value)),
        _ => NO_SUCH_OVERLOAD,
    }
}

fn query_parameter<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args {
        [Val::String(key), Val::String(value)] => context.opaque(pair(&QUERY_PARAMETER, key, value)),
        _ => NO_SUCH_OVERLOAD,
    }
}

/// Changes a copy of the structure that a method is called on.
fn changed<'a>(context: &Context<'a>, receiver: Val<'a>, change: impl FnOnce(Message) -> Message) -> Val<'a> {
    match receiver.downcast::<Message>() {
        Some(message) => {
            let mut changed = change(message.clone());
            changed.is_literal = false;
            context.opaque(changed)
        }
        None => NO_SUCH_OVERLOAD,
    }
}

/// Adds a structure, or a key with a value, to a list of the receiver.
fn added<'a>(context: &Context<'a>, args: &[Val<'a>], list: &'static str, make: fn(&str, &str) -> Message) -> Val<'a> {
    let item = match args {
        [_, item] => match item.downcast::<Message>() {
            Some(item) => item.data(),
            None => return NO_SUCH_OVERLOAD,
        },
        [_, Val::String(key), Val::String(value)] => make(key, value).data(),
        _ => return NO_SUCH_OVERLOAD,
    };
    changed(context, args[0], |message| message.with_added(list, item))
}

fn with_header<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    added(context, args, "headers", header_of)
}

fn with_response_header<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    added(context, args, "response_headers_to_add", header_of)
}

fn with_query_parameter<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    added(context, args, "query_parameters_to_set", |key, value| {
        pair(&QUERY_PARAMETER, key, value)
    })
}

fn without_header<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    removed(context, args, "headers_to_remove")
}

fn without_query_parameter<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    removed(context, args, "query_parameters_to_remove")
}

fn removed<'a>(context: &Context<'a>, args: &[Val<'a>], list: &'static str) -> Val<'a> {
    match args {
        [receiver, Val::String(name)] => changed(context, *receiver, |message| {
            message.with_added(list, Data::from(*name))
        }),
        _ => NO_SUCH_OVERLOAD,
    }
}

fn with_body<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args {
        [receiver, Val::String(body)] => {
            let body = Item::Text((*body).to_owned());
            changed(context, *receiver, |message| message.with("body", body))
        }
        _ => NO_SUCH_OVERLOAD,
    }
}

fn keep_empty_value<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let (receiver, flag) = match args {
        [receiver] => (receiver, true),
        [receiver, Val::Bool(flag)] => (receiver, *flag),
        _ => return NO_SUCH_OVERLOAD,
    };
    changed(context, *receiver, |message| {
        message.with("keep_empty_value", Item::Bool(flag))
    })
}

fn respond<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [receiver] = args else { return NO_SUCH_OVERLOAD };
    changed(context, *receiver, |message| {
        let (field, code) = if message.schema.name == OK.name {
            ("ok_response", 0)
        } else {
            ("denied_response", PERMISSION_DENIED)
        };
        let mut status = Message::new(&STATUS);
        if code != 0 {
            status.set("code", Item::Int(code));
        }
        Message::new(&RESPONSE)
            .with("status", Item::Message(status))
            .with(field, Item::Message(message))
    })
}

fn with_message<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args {
        [receiver, Val::String(text)] => changed(context, *receiver, |message| {
            let status = message.message("status").cloned();
            let status = status.unwrap_or_else(|| Message::new(&STATUS));
            let status = status.with("message", Item::Text((*text).to_owned()));
            message.with("status", Item::Message(status))
        }),
        _ => NO_SUCH_OVERLOAD,
    }
}

fn with_metadata<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [receiver, metadata] = args else {
        return NO_SUCH_OVERLOAD;
    };
    match native::body(context, *metadata) {
        Ok(metadata) => changed(context, *receiver, |message| {
            message.with("dynamic_metadata", Item::Document(metadata))
        }),
        Err(error) => error,
    }
}
