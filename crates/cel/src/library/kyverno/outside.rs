//! Libraries that reach outside the expression: `globalContext`, `resource`, `image.GetMetadata` and `http`.
//!
//! Upstream counterpart: SDK `libs/{globalcontext,resource,imagedata,http}`. The host provides the results; this module
//! has the signatures and upstream's error prefixes. The order in which the libraries add overloads to a shared name
//! (`Get`) is upstream's.

use super::{Receiver, Structure, declare_receiver, native};
use crate::{
    context::Context,
    decl::{Implementation, Library, Overload, member},
    host::{Gvr, HostError, HostResult, HttpRequest},
    profile::PolicyScope,
    types::Type,
    val::{NO_SUCH_OVERLOAD, Opaque, Val},
};
use kyvtest_go_compat::value::Document;

static GLOBAL_CONTEXT: Receiver = Receiver("globalcontext.Context");
static RESOURCE: Receiver = Receiver("resource.Context");
static IMAGE_DATA: Receiver = Receiver("imagedata.Context");
static HTTP: Receiver = Receiver("http.Context");
const GVR: &str = "schema.GroupVersionResource";

impl Structure for Gvr {
    const NAME: &'static str = GVR;

    fn field<'a>(&'a self, name: &str) -> Option<Val<'a>> {
        match name {
            "Group" => Some(Val::String(&self.group)),
            "Version" => Some(Val::String(&self.version)),
            "Resource" => Some(Val::String(&self.resource)),
            _ => None,
        }
    }

    fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

/// A type in a signature.
#[derive(Clone, Copy)]
enum Kind {
    Any,
    Dyn,
    Text,
    /// A map of strings.
    Texts,
    Object,
    Gvr,
    /// A library's receiver.
    Receiver(&'static Receiver),
}

impl Kind {
    fn declared(self) -> Type {
        match self {
            Self::Any => Type::Any,
            Self::Dyn => Type::Dyn,
            Self::Text => Type::String,
            Self::Texts => Type::map(Type::String, Type::String),
            Self::Object => Type::map(Type::String, Type::Any),
            Self::Gvr => Type::opaque(GVR),
            Self::Receiver(receiver) => Type::opaque(receiver.0),
        }
    }
}

/// A function of a library. Names and ids exist in two styles.
struct Function {
    /// In Pascal case, and in camel case.
    names: [&'static str; 2],
    ids: [&'static str; 2],
    parameters: &'static [Kind],
    result: Kind,
    bind: fn(Overload, Implementation) -> Overload,
    implementation: Implementation,
}

/// The functions of a receiver: names, binding, id, types, implementation.
macro_rules! functions {
    ($receiver:ident: $($pascal:literal $camel:literal $bind:ident $id:literal ($($parameter:ident),*) -> $result:expr, $implementation:ident;)*) => {
        &[$(Function {
            names: [$pascal, $camel],
            ids: [concat!($id, "_pascal"), concat!($id, "_camel")],
            parameters: &[Kind::Receiver(&$receiver), $(Kind::$parameter),*],
            result: $result,
            bind: Overload::$bind,
            implementation: $implementation,
        }),*]
    };
}

static GLOBAL_CONTEXT_FUNCTIONS: &[Function] = functions! { GLOBAL_CONTEXT:
    "Get" "get" binary "globalcontext_get_string" (Text) -> Kind::Dyn, global_get;
    "Get" "get" variadic "globalcontext_get_string_string" (Text, Text) -> Kind::Dyn, global_get;
};

static CLUSTER_RESOURCE_FUNCTIONS: &[Function] = functions! { RESOURCE:
    "List" "list" variadic "resource_list_string_string_string" (Text, Text, Text) -> Kind::Object, list;
    "List" "list" variadic "resource_list_string_string_string_map" (Text, Text, Text, Texts) -> Kind::Object, list;
    "List" "list" variadic "list_resources_gvr_string" (Gvr, Text) -> Kind::Object, list;
    "List" "list" variadic "list_resources_gvr_string_map" (Gvr, Text, Texts) -> Kind::Object, list;
    "Get" "get" variadic "resource_get_string_string_string_string" (Text, Text, Text, Text) -> Kind::Object, get;
    "Get" "get" variadic "resource_get_gvr_string_string" (Gvr, Text, Text) -> Kind::Object, get;
    "Post" "post" variadic "resource_post_string_string_string_map" (Text, Text, Text, Object) -> Kind::Object, post;
    "Post" "post" variadic "resource_post_string_string_map" (Text, Text, Object) -> Kind::Object, post;
    "ToGVR" "toGVR" variadic "convert_to_gvr_string_string" (Text, Text) -> Kind::Gvr, to_gvr;
};

static NAMESPACE_RESOURCE_FUNCTIONS: &[Function] = functions! { RESOURCE:
    "List" "list" variadic "resource_list_string_string" (Text, Text) -> Kind::Object, list_here;
    "List" "list" variadic "resource_list_string_string_map" (Text, Text, Texts) -> Kind::Object, list_here;
    "List" "list" variadic "list_resources_gvr" (Gvr) -> Kind::Object, list_here;
    "List" "list" variadic "list_resources_gvr_map" (Gvr, Texts) -> Kind::Object, list_here;
    "Get" "get" variadic "resource_get_string_string_string" (Text, Text, Text) -> Kind::Object, get_here;
    "Get" "get" variadic "resource_get_gvr_string" (Gvr, Text) -> Kind::Object, get_here;
    "Post" "post" variadic "resource_post_string_string_map" (Text, Text, Object) -> Kind::Object, post_here;
    "ToGVR" "toGVR" variadic "convert_to_gvr_string_string" (Text, Text) -> Kind::Gvr, to_gvr;
};

static IMAGE_DATA_FUNCTIONS: &[Function] = functions! { IMAGE_DATA:
    "GetMetadata" "getMetadata" variadic "imagedata_get_string" (Text) -> Kind::Dyn, image_metadata;
};

static HTTP_FUNCTIONS: &[Function] = functions! { HTTP:
    "Get" "get" binary "http_get_string" (Text) -> Kind::Any, http_get;
    "Get" "get" variadic "http_get_string_headers" (Text, Texts) -> Kind::Any, http_get;
    "Post" "post" variadic "http_post_string_any" (Text, Any) -> Kind::Any, http_post;
    "Post" "post" variadic "http_post_string_any_headers" (Text, Any, Texts) -> Kind::Any, http_post;
    "Client" "client" binary "http_client_string" (Text) -> Kind::Receiver(&HTTP), http_client;
};

pub(super) fn declare(library: &mut Library, scope: PolicyScope) {
    declare_receiver(library, "globalContext", &GLOBAL_CONTEXT);
    declare_receivers(library);
    let resources = match scope {
        PolicyScope::Cluster => CLUSTER_RESOURCE_FUNCTIONS,
        PolicyScope::Namespace => NAMESPACE_RESOURCE_FUNCTIONS,
    };
    declare_functions(
        library,
        &[
            GLOBAL_CONTEXT_FUNCTIONS,
            resources,
            IMAGE_DATA_FUNCTIONS,
            HTTP_FUNCTIONS,
        ],
    );
}

/// Declares the libraries of policies on HTTP and Envoy requests: `http`, `resource`, and `image` as a name without
/// functions.
pub(super) fn declare_client(library: &mut Library) {
    declare_receivers(library);
    declare_functions(library, &[HTTP_FUNCTIONS, CLUSTER_RESOURCE_FUNCTIONS]);
}

fn declare_receivers(library: &mut Library) {
    declare_receiver(library, "resource", &RESOURCE);
    declare_receiver(library, "image", &IMAGE_DATA);
    declare_receiver(library, "http", &HTTP);
}

/// Declares functions in both styles; all names in Pascal case come first.
fn declare_functions(library: &mut Library, libraries: &[&[Function]]) {
    for style in 0..2 {
        for function in libraries.iter().copied().flatten() {
            let parameters: Vec<Type> = function.parameters.iter().map(|kind| kind.declared()).collect();
            let overload = member(function.ids[style], &parameters, function.result.declared());
            let overload = (function.bind)(overload, function.implementation);
            library.add(function.names[style], [overload]);
        }
    }
}

fn host_value<'a>(context: &Context<'a>, result: HostResult, failed: &str) -> Val<'a> {
    match result {
        Ok(document) => Val::from(context.document(document)),
        Err(error) => failure(context, &error, failed),
    }
}

fn failure<'a>(context: &Context<'a>, error: &HostError, failed: &str) -> Val<'a> {
    match error {
        HostError::Failed(message) => context.error(format_args!("{failed}: {message}")),
        HostError::Panic(_) => context.error(format_args!("{error}")),
    }
}

/// The API version and resource that a call begins with, and the arguments after them.
fn target<'a, 'v>(args: &'v [Val<'a>]) -> Option<(String, &'a str, &'v [Val<'a>])> {
    match args {
        [_, Val::String(version), Val::String(resource), rest @ ..] => Some(((*version).to_owned(), resource, rest)),
        [_, gvr, rest @ ..] => gvr
            .downcast::<Gvr>()
            .map(|gvr| (gvr.api_version(), gvr.resource.as_str(), rest)),
        _ => None,
    }
}

fn global_get<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let (name, projection) = match args {
        [_, Val::String(name)] => (name, ""),
        [_, Val::String(name), Val::String(projection)] => (name, *projection),
        _ => return NO_SUCH_OVERLOAD,
    };
    let found = context.host.global_context(name, projection);
    host_value(context, found, "failed to get global reference")
}

fn list<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match target(args) {
        Some((version, resource, [Val::String(namespace), rest @ ..])) => {
            list_in(context, &version, resource, namespace, rest)
        }
        _ => NO_SUCH_OVERLOAD,
    }
}

fn list_here<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match target(args) {
        Some((version, resource, rest)) => list_in(context, &version, resource, context.host.policy_namespace(), rest),
        None => NO_SUCH_OVERLOAD,
    }
}

fn list_in<'a>(context: &Context<'a>, version: &str, resource: &str, namespace: &str, rest: &[Val<'a>]) -> Val<'a> {
    let labels = match rest {
        [labels] => native::labels(context, *labels),
        _ => Ok(Vec::new()),
    };
    match labels {
        Ok(labels) => {
            let found = context.host.resource_list(version, resource, namespace, &labels);
            host_value(context, found, "failed to list resource")
        }
        // The labels are the last argument; the receiver is the first, with the number 0.
        Err(Val::Error(error)) => {
            let position = if context.host.policy_namespace().is_empty() {
                4
            } else {
                3
            };
            context.error(format_args!("invalid arg {position}: {error}"))
        }
        Err(other) => other,
    }
}

fn get<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match target(args) {
        Some((version, resource, [Val::String(namespace), Val::String(name)])) => {
            let found = context.host.resource_get(&version, resource, namespace, name);
            host_value(context, found, "failed to get resource")
        }
        _ => NO_SUCH_OVERLOAD,
    }
}

fn get_here<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match target(args) {
        Some((version, resource, [Val::String(name)])) => {
            let namespace = context.host.policy_namespace();
            let found = context.host.resource_get(&version, resource, namespace, name);
            host_value(context, found, "failed to get resource")
        }
        _ => NO_SUCH_OVERLOAD,
    }
}

fn post<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match target(args) {
        Some((version, resource, [Val::String(namespace), body])) => {
            post_in(context, &version, resource, namespace, *body)
        }
        Some((version, resource, [body])) => post_in(context, &version, resource, "", *body),
        _ => NO_SUCH_OVERLOAD,
    }
}

fn post_here<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match target(args) {
        Some((version, resource, [body])) => {
            post_in(context, &version, resource, context.host.policy_namespace(), *body)
        }
        _ => NO_SUCH_OVERLOAD,
    }
}

fn post_in<'a>(context: &Context<'a>, version: &str, resource: &str, namespace: &str, body: Val<'a>) -> Val<'a> {
    match native::body(context, body) {
        Ok(body) => {
            let created = context.host.resource_post(version, resource, namespace, body.root());
            host_value(context, created, "failed to create resource")
        }
        Err(Val::Error(error)) => {
            let position = if context.host.policy_namespace().is_empty() {
                4
            } else {
                3
            };
            context.error(format_args!("invalid arg {position}: {error}"))
        }
        Err(other) => other,
    }
}

fn to_gvr<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [_, Val::String(version), Val::String(kind)] = args else {
        return NO_SUCH_OVERLOAD;
    };
    match context.host.resource_of_kind(version, kind) {
        Ok(gvr) => context.opaque(gvr),
        Err(error) => failure(context, &error, "failed to map kind to resource"),
    }
}

fn image_metadata<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [_, Val::String(reference)] = args else {
        return NO_SUCH_OVERLOAD;
    };
    let found = context.host.image_metadata(reference);
    host_value(context, found, "failed to get image data")
}

fn http_get<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args {
        [_, Val::String(url), headers @ ..] => call(context, "GET", url, None, headers),
        _ => NO_SUCH_OVERLOAD,
    }
}

fn http_post<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [_, Val::String(url), body, headers @ ..] = args else {
        return NO_SUCH_OVERLOAD;
    };
    match native::body(context, *body) {
        Ok(body) => call(context, "POST", url, Some(&body), headers),
        Err(Val::Error(error)) => context.error(format_args!("invalid arg 2: {error}")),
        Err(other) => other,
    }
}

fn call<'a>(context: &Context<'a>, method: &str, url: &str, body: Option<&Document>, headers: &[Val<'a>]) -> Val<'a> {
    let headers = match headers {
        [headers] => native::labels(context, *headers),
        _ => Ok(Vec::new()),
    };
    match headers {
        Ok(headers) => {
            let body = body.map(Document::root);
            let response = context.host.http(&HttpRequest {
                method,
                url,
                body,
                headers,
            });
            host_value(context, response, "request failed")
        }
        Err(Val::Error(error)) => {
            let position = if body.is_some() { 3 } else { 2 };
            context.error(format_args!("invalid arg {position}: {error}"))
        }
        Err(other) => other,
    }
}

/// The result of `http.Client(ca)`. Kyverno 1.19 returns a value of another type than the declared one, so that no
/// method can be called on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Client;

impl Opaque for Client {
    fn type_name(&self) -> &'static str {
        "libs.mockAwareHTTPContext"
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        Some(other.type_name() == self.type_name())
    }

    fn equals_plain(&self) -> Option<bool> {
        Some(false)
    }
}

fn http_client<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [_, Val::String(bundle)] = args else {
        return NO_SUCH_OVERLOAD;
    };
    if bundle.is_empty() || super::x509::has_certificate(bundle) {
        return Val::Opaque(&Client);
    }
    Val::Error("request failed: failed to parse PEM CA bundle for APICall")
}
