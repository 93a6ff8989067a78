//! Requests of the Model Context Protocol: `mcp.Parse` and the arguments of a request.
//!
//! Upstream counterpart: kyverno-authz `pkg/cel/libs/mcp` and `pkg/cel/impl/mcp.go`, with the structures of mcp-go 0.49.
//!
//! Known deviation: the capabilities of a client are a structure without fields.

use super::{
    go_structure,
    message::{self, Item, Kind, Message, schemas},
};
use crate::{
    context::Context,
    decl::{Library, member},
    library::kyverno::{Receiver, declare_receiver, native},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};
use kyvtest_go_compat::{
    text::{float, number},
    value::{Value, go_json},
};

static MCP: Receiver = Receiver("mcp.MCP");

schemas! { SCHEMAS:
    REQUEST = "mcp.MCPRequest" {
        "Method": Kind::Text,
        "ID": Kind::Message(&REQUEST_ID),
        "Paginated": Kind::Message(&PAGINATED),
        "ToolCall": Kind::Message(&TOOL_CALL),
        "ResourceRead": Kind::Message(&RESOURCE_READ),
        "ResourceSubscribe": Kind::Message(&SUBSCRIBE),
        "ResourceUnsubscribe": Kind::Message(&UNSUBSCRIBE),
        "PromptGet": Kind::Message(&PROMPT_GET),
        "Initialize": Kind::Message(&INITIALIZE),
        "CreateMessage": Kind::Message(&CREATE_MESSAGE),
        "Elicitation": Kind::Message(&ELICITATION),
        "Complete": Kind::Message(&COMPLETE),
        "SetLogLevel": Kind::Message(&SET_LEVEL),
    };
    REQUEST_ID = "mcp.RequestId" {};
    META = "mcp.Meta" {};
    PAGINATED = "mcp.PaginatedParams" { "Cursor": Kind::Text };
    TASK = "mcp.TaskParams" {};
    TOOL_CALL = "mcp.CallToolParams" {
        "Name": Kind::Text,
        "Arguments": Kind::Hidden,
        "Meta": Kind::Message(&META),
        "Task": Kind::Message(&TASK),
    };
    RESOURCE_READ = "mcp.ReadResourceParams" { "URI": Kind::Text, "Arguments": Kind::Hidden };
    SUBSCRIBE = "mcp.SubscribeParams" { "URI": Kind::Text };
    UNSUBSCRIBE = "mcp.UnsubscribeParams" { "URI": Kind::Text };
    PROMPT_GET = "mcp.GetPromptParams" { "Name": Kind::Text, "Arguments": Kind::TextMap };
    INITIALIZE = "mcp.InitializeParams" {
        "ProtocolVersion": Kind::Text,
        "Capabilities": Kind::Inline(&CAPABILITIES),
        "ClientInfo": Kind::Inline(&IMPLEMENTATION),
    };
    CAPABILITIES = "mcp.ClientCapabilities" {};
    IMPLEMENTATION = "mcp.Implementation" {
        "Name": Kind::Text,
        "Version": Kind::Text,
        "Title": Kind::Text,
        "Description": Kind::Text,
        "WebsiteURL": Kind::Text,
        "Icons": Kind::Messages(&ICON),
    };
    ICON = "mcp.Icon" { "Src": Kind::Text, "MIMEType": Kind::Text, "Sizes": Kind::Texts };
    CREATE_MESSAGE = "mcp.CreateMessageParams" {
        "Messages": Kind::Messages(&SAMPLING_MESSAGE),
        "ModelPreferences": Kind::Message(&PREFERENCES),
        "SystemPrompt": Kind::Text,
        "IncludeContext": Kind::Text,
        "Temperature": Kind::Double,
        "MaxTokens": Kind::Int,
        "StopSequences": Kind::Texts,
    };
    SAMPLING_MESSAGE = "mcp.SamplingMessage" { "Role": Kind::Text };
    PREFERENCES = "mcp.ModelPreferences" {
        "Hints": Kind::Messages(&HINT),
        "CostPriority": Kind::Double,
        "SpeedPriority": Kind::Double,
        "IntelligencePriority": Kind::Double,
    };
    HINT = "mcp.ModelHint" { "Name": Kind::Text };
    ELICITATION = "mcp.ElicitationParams" {
        "Meta": Kind::Message(&META),
        "Mode": Kind::Text,
        "Message": Kind::Text,
        "ElicitationID": Kind::Text,
        "URL": Kind::Text,
    };
    COMPLETE = "mcp.CompleteParams" {
        "Argument": Kind::Inline(&COMPLETE_ARGUMENT),
        "Context": Kind::Inline(&COMPLETE_CONTEXT),
    };
    COMPLETE_ARGUMENT = "mcp.CompleteArgument" { "Name": Kind::Text, "Value": Kind::Text };
    COMPLETE_CONTEXT = "mcp.CompleteContext" { "Arguments": Kind::TextMap };
    SET_LEVEL = "mcp.SetLevelParams" { "Level": Kind::Text };
}

schemas! { ENVELOPES:
    // The fields of a JSON-RPC request other than its parameters and its id.
    ENVELOPE = "mcp.JSONRPCRequest" { "jsonrpc": Kind::Text, "method": Kind::Text };
}

/// The methods that have a constant.
const METHODS: [(&str, &str); 11] = [
    ("mcp.InitializeMethod", "initialize"),
    ("mcp.PingMethod", "ping"),
    ("mcp.ResourcesListMethod", "resources/list"),
    ("mcp.ResourcesTemplatesListMethod", "resources/templates/list"),
    ("mcp.ResourcesReadMethod", "resources/read"),
    ("mcp.PromptsListMethod", "prompts/list"),
    ("mcp.PromptsGetMethod", "prompts/get"),
    ("mcp.ToolsListMethod", "tools/list"),
    ("mcp.ToolsCallMethod", "tools/call"),
    ("mcp.SetLogLevelMethod", "logging/setLevel"),
    ("mcp.ElicitationCreateMethod", "elicitation/create"),
];

pub(super) fn declare(library: &mut Library) {
    debug_assert_eq!(ENVELOPES.len(), 1, "the envelope is not visible to expressions");
    declare_receiver(library, "mcp", &MCP);
    message::declare(library, SCHEMAS);
    for (name, method) in METHODS {
        library.add_constant(name, Type::String, Val::String(method));
    }
    let request = Type::structure(REQUEST.name);
    library.add(
        "Parse",
        [member(
            "mcp_parse_bytes_dyn",
            &[Type::opaque(MCP.0), Type::Dyn],
            request.clone(),
        )
        .binary(parse)],
    );
    type Get = for<'a> fn(&Context<'a>, &[Val<'a>]) -> Val<'a>;
    let getters: [(&'static str, &'static str, Type, Get); 4] = [
        ("GetStringArgument", "mcp_get_string", Type::String, one),
        ("GetIntArgument", "mcp_get_int", Type::Int, one),
        ("GetFloatArgument", "mcp_get_float", Type::Double, one),
        ("GetBoolArgument", "mcp_get_bool", Type::Bool, one),
    ];
    for (name, id, result, get) in getters {
        let parameters = [request.clone(), Type::String, result.clone()];
        library.add(name, [member(id, &parameters, result).variadic(get)]);
    }
    let getters: [(&'static str, &'static str, Type, Get); 4] = [
        ("GetStringSliceArgument", "mcp_get_string_slice", Type::String, strings),
        ("GetIntSliceArgument", "mcp_get_int_slice", Type::Int, integers),
        ("GetFloatSliceArgument", "mcp_get_float_slice", Type::Double, doubles),
        ("GetBoolSliceArgument", "mcp_get_bool_slice", Type::Bool, booleans),
    ];
    for (name, id, item, get) in getters {
        let list = Type::list(item);
        let parameters = [request.clone(), Type::String, list.clone()];
        library.add(name, [member(id, &parameters, list).variadic(get)]);
    }
}

fn parse<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [_, text] = args else { return NO_SUCH_OVERLOAD };
    let text = match native::string(context, *text) {
        Ok(text) => text,
        Err(error) => return error,
    };
    match read(text) {
        Ok(request) => context.opaque(request),
        Err(error) => context.error(format_args!("{error}")),
    }
}

/// Parses a JSON-RPC request with the parameters of its method.
fn read(text: &str) -> Result<Message, String> {
    let document = go_json::read(text)?;
    let root = document.root();
    let envelope = go_structure::read(&ENVELOPE, root)?;
    if let Some(id @ (Value::Bool(_) | Value::List(_) | Value::Map(_))) = root.get("id") {
        return Err(format!("invalid request id: {}", id.to_json()));
    }
    let method = envelope.text("method");
    let mut request = Message::new(&REQUEST);
    if !method.is_empty() {
        request.set("Method", Item::Text(method.to_owned()));
    }
    let (field, schema) = match method {
        "initialize" => ("Initialize", &INITIALIZE),
        "resources/list" | "resources/templates/list" | "tools/list" | "prompts/list" => ("Paginated", &PAGINATED),
        "resources/read" => ("ResourceRead", &RESOURCE_READ),
        "tools/call" => ("ToolCall", &TOOL_CALL),
        "logging/setLevel" => ("SetLogLevel", &SET_LEVEL),
        "prompts/get" => ("PromptGet", &PROMPT_GET),
        "elicitation/create" => ("Elicitation", &ELICITATION),
        _ => return Ok(request),
    };
    let parameters = match root.get("params") {
        Some(value) => go_structure::read(schema, value)?,
        None => Message::new(schema),
    };
    Ok(request.with(field, Item::Message(parameters)))
}

/// The arguments of a request: those of a tool, else of a resource, else of a prompt.
fn argument<'a>(request: &'a Message, name: &str) -> Option<Value<'a>> {
    ["ToolCall", "ResourceRead", "PromptGet"].iter().find_map(|field| {
        let Some(Item::Document(arguments)) = request.message(field)?.get("Arguments") else {
            return None;
        };
        let map = arguments.root();
        map.as_map().map(|map| map.get(name))
    })?
}

/// The requested argument of a getter, and its default.
fn getter_arguments<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Result<(Option<Value<'a>>, Val<'a>), Val<'a>> {
    let [request, name, default] = args else {
        return Err(NO_SUCH_OVERLOAD);
    };
    let request = message::expect(context, *request, &REQUEST)?;
    let name = native::string(context, *name)?;
    Ok((argument(request, name), *default))
}

/// An argument of the default's type; a string that contains a number or boolean is converted.
fn one<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let (argument, default) = match getter_arguments(context, args) {
        Ok(arguments) => arguments,
        Err(error) => return error,
    };
    let Some(argument) = argument else { return default };
    let converted = match default {
        Val::String(_) => argument.as_str().map(Val::String),
        Val::Int(_) => integer(argument),
        Val::Double(_) => double(argument),
        Val::Bool(_) => boolean(argument),
        _ => None,
    };
    converted.unwrap_or(default)
}

fn integer(value: Value<'_>) -> Option<Val<'_>> {
    match value {
        Value::Double(value) => Some(Val::Int(float::truncate(value))),
        Value::Int(value) => Some(Val::Int(value)),
        Value::String(text) => number::atoi(text).ok().map(Val::Int),
        _ => None,
    }
}

fn double(value: Value<'_>) -> Option<Val<'_>> {
    match value {
        Value::Double(value) => Some(Val::Double(value)),
        Value::Int(value) => Some(Val::Double(value as f64)),
        Value::String(text) => number::parse_float(text).ok().map(Val::Double),
        _ => None,
    }
}

fn boolean(value: Value<'_>) -> Option<Val<'_>> {
    match value {
        Value::Bool(value) => Some(Val::Bool(value)),
        Value::Double(value) => Some(Val::Bool(value != 0.0)),
        Value::Int(value) => Some(Val::Bool(value != 0)),
        Value::String(text) => number::parse_bool(text).ok().map(Val::Bool),
        _ => None,
    }
}

fn strings<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    several(context, args, |item| item.as_str().map(Val::String))
}

fn integers<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    several(context, args, integer)
}

fn doubles<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    several(context, args, double)
}

fn booleans<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    several(context, args, boolean)
}

/// The items of a list that can be converted; the default if the argument is not a list.
fn several<'a>(context: &Context<'a>, args: &[Val<'a>], convert: fn(Value<'a>) -> Option<Val<'a>>) -> Val<'a> {
    match getter_arguments(context, args) {
        Ok((Some(Value::List(list)), _)) => {
            let items: Vec<Val<'a>> = list.iter().filter_map(convert).collect();
            context.list(&items)
        }
        Ok((_, default)) => default,
        Err(error) => error,
    }
}
