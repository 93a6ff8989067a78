//! Libraries that reach outside the expression: `globalContext`, `resource`, `image.GetMetadata` and `http`.
//!
//! Upstream counterpart: SDK `libs/{globalcontext,resource,imagedata,http}`. The host provides the results; this module
//! has the signatures and upstream's error prefixes. The order in which the libraries add overloads to a shared name
//! (`Get`) is upstream's.

use super::{Receiver, Structure, declare_receiver, native};
use crate::{
    context::Context,
    decl::{Library, Overload, member},
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

/// An overload id in the style of the name it belongs to.
macro_rules! id {
    ($pascal:expr, $id:literal) => {
        if $pascal {
            concat!($id, "_pascal")
        } else {
            concat!($id, "_camel")
        }
    };
}

pub(super) fn declare(library: &mut Library, scope: PolicyScope) {
    declare_receiver(library, "globalContext", &GLOBAL_CONTEXT);
    let (global, image) = (Type::opaque(GLOBAL_CONTEXT.0), Type::opaque(IMAGE_DATA.0));
    declare_receivers(library);
    let string = || Type::String;
    for pascal in [true, false] {
        let name = |pascal_name: &'static str, camel_name| if pascal { pascal_name } else { camel_name };
        library.add(
            name("Get", "get"),
            [
                member(
                    id!(pascal, "globalcontext_get_string"),
                    &[global.clone(), string()],
                    Type::Dyn,
                )
                .binary(global_get),
                member(
                    id!(pascal, "globalcontext_get_string_string"),
                    &[global.clone(), string(), string()],
                    Type::Dyn,
                )
                .variadic(global_get),
            ],
        );
        declare_resources(library, scope, pascal);
        library.add(
            name("GetMetadata", "getMetadata"),
            [member(
                id!(pascal, "imagedata_get_string"),
                &[image.clone(), string()],
                Type::Dyn,
            )
            .variadic(image_metadata)],
        );
        declare_http(library, pascal);
    }
}

/// Declares the libraries of policies on HTTP and Envoy requests: `http`, `resource`, and `image` as a name without
/// functions.
pub(super) fn declare_client(library: &mut Library) {
    declare_receivers(library);
    for pascal in [true, false] {
        declare_http(library, pascal);
        declare_resources(library, PolicyScope::Cluster, pascal);
    }
}

fn declare_receivers(library: &mut Library) {
    declare_receiver(library, "resource", &RESOURCE);
    declare_receiver(library, "image", &IMAGE_DATA);
    declare_receiver(library, "http", &HTTP);
}

fn declare_resources(library: &mut Library, scope: PolicyScope, pascal: bool) {
    let name = |pascal_name: &'static str, camel_name| if pascal { pascal_name } else { camel_name };
    let resource = &Type::opaque(RESOURCE.0);
    let [list, get, post, to_gvr] = match scope {
        PolicyScope::Cluster => cluster_resources(pascal),
        PolicyScope::Namespace => namespace_resources(pascal),
    };
    let own = |overloads: Vec<(&'static str, Vec<Type>, Type, _)>| {
        overloads
            .into_iter()
            .map(move |(id, parameters, result, implementation)| -> Overload {
                let parameters: Vec<Type> = [resource.clone()].into_iter().chain(parameters).collect();
                member(id, &parameters, result).variadic(implementation)
            })
    };
    library.add(name("List", "list"), own(list));
    library.add(name("Get", "get"), own(get));
    library.add(name("Post", "post"), own(post));
    library.add(name("ToGVR", "toGVR"), own(to_gvr));
}

fn declare_http(library: &mut Library, pascal: bool) {
    let name = |pascal_name: &'static str, camel_name| if pascal { pascal_name } else { camel_name };
    let http = Type::opaque(HTTP.0);
    let (string, any) = (|| Type::String, || Type::Any);
    let strings = || Type::map(Type::String, Type::String);
    library.add(
        name("Get", "get"),
        [
            member(id!(pascal, "http_get_string"), &[http.clone(), string()], any()).binary(http_get),
            member(
                id!(pascal, "http_get_string_headers"),
                &[http.clone(), string(), strings()],
                any(),
            )
            .variadic(http_get),
        ],
    );
    library.add(
        name("Post", "post"),
        [
            member(
                id!(pascal, "http_post_string_any"),
                &[http.clone(), string(), any()],
                any(),
            )
            .variadic(http_post),
            member(
                id!(pascal, "http_post_string_any_headers"),
                &[http.clone(), string(), any(), strings()],
                any(),
            )
            .variadic(http_post),
        ],
    );
    library.add(
        name("Client", "client"),
        [member(
            id!(pascal, "http_client_string"),
            &[http.clone(), string()],
            http.clone(),
        )
        .binary(http_client)],
    );
}

type Signature = (
    &'static str,
    Vec<Type>,
    Type,
    for<'a> fn(&Context<'a>, &[Val<'a>]) -> Val<'a>,
);

/// List, get, post and conversion of kinds, each without the receiver.
type Resources = [Vec<Signature>; 4];

fn cluster_resources(pascal: bool) -> Resources {
    let (string, gvr) = (|| Type::String, || Type::opaque(GVR));
    let strings = || Type::map(Type::String, Type::String);
    let object = || Type::map(Type::String, Type::Any);
    [
        vec![
            (
                id!(pascal, "resource_list_string_string_string"),
                vec![string(), string(), string()],
                object(),
                list,
            ),
            (
                id!(pascal, "resource_list_string_string_string_map"),
                vec![string(), string(), string(), strings()],
                object(),
                list,
            ),
            (
                id!(pascal, "list_resources_gvr_string"),
                vec![gvr(), string()],
                object(),
                list,
            ),
            (
                id!(pascal, "list_resources_gvr_string_map"),
                vec![gvr(), string(), strings()],
                object(),
                list,
            ),
        ],
        vec![
            (
                id!(pascal, "resource_get_string_string_string_string"),
                vec![string(), string(), string(), string()],
                object(),
                get,
            ),
            (
                id!(pascal, "resource_get_gvr_string_string"),
                vec![gvr(), string(), string()],
                object(),
                get,
            ),
        ],
        vec![
            (
                id!(pascal, "resource_post_string_string_string_map"),
                vec![string(), string(), string(), object()],
                object(),
                post,
            ),
            (
                id!(pascal, "resource_post_string_string_map"),
                vec![string(), string(), object()],
                object(),
                post,
            ),
        ],
        vec![(
            id!(pascal, "convert_to_gvr_string_string"),
            vec![string(), string()],
            gvr(),
            to_gvr,
        )],
    ]
}

fn namespace_resources(pascal: bool) -> Resources {
    let (string, gvr) = (|| Type::String, || Type::opaque(GVR));
    let strings = || Type::map(Type::String, Type::String);
    let object = || Type::map(Type::String, Type::Any);
    [
        vec![
            (
                id!(pascal, "resource_list_string_string"),
                vec![string(), string()],
                object(),
                list_here,
            ),
            (
                id!(pascal, "resource_list_string_string_map"),
                vec![string(), string(), strings()],
                object(),
                list_here,
            ),
            (id!(pascal, "list_resources_gvr"), vec![gvr()], object(), list_here),
            (
                id!(pascal, "list_resources_gvr_map"),
                vec![gvr(), strings()],
                object(),
                list_here,
            ),
        ],
        vec![
            (
                id!(pascal, "resource_get_string_string_string"),
                vec![string(), string(), string()],
                object(),
                get_here,
            ),
            (
                id!(pascal, "resource_get_gvr_string"),
                vec![gvr(), string()],
                object(),
                get_here,
            ),
        ],
        vec![(
            id!(pascal, "resource_post_string_string_map"),
            vec![string(), string(), object()],
            object(),
            post_here,
        )],
        vec![(
            id!(pascal, "convert_to_gvr_string_string"),
            vec![string(), string()],
            gvr(),
            to_gvr,
        )],
    ]
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
