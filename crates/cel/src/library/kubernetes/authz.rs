//! The authorizer: checks are built up call by call; `check` consults the host.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/cel/library/authz.go`, `Authz` and `AuthzSelectors`. As upstream, the
//! values can never be compared with `==`.

use super::{cost, format};
use crate::{
    context::Context,
    decl::{Implementation, Library, member},
    host::{Attributes, Decision},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Opaque, Val},
};

/// The type of `authorizer`.
pub(crate) const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
/// The type of `authorizer.requestResource`.
pub(crate) const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
const DECISION: &str = "kubernetes.authorization.Decision";

macro_rules! incomparable {
    ($value:ident, $name:expr) => {
        impl Opaque for $value {
            fn type_name(&self) -> &'static str {
                $name
            }

            fn equals(&self, _: &dyn Opaque) -> Option<bool> {
                None
            }
        }
    };
}

/// An authorizer for the user of the request, or for a service account.
#[derive(Debug, Clone, Default)]
pub struct Authorizer {
    service_account: Option<(String, String)>,
}

#[derive(Debug)]
struct PathCheck(Attributes);

#[derive(Debug)]
struct GroupCheck(Attributes);

/// A check of a resource with all that is known so far.
#[derive(Debug)]
pub struct ResourceCheck(Attributes);

#[derive(Debug)]
struct DecisionValue(Decision);

incomparable!(Authorizer, AUTHORIZER);
incomparable!(PathCheck, PATH_CHECK);
incomparable!(GroupCheck, GROUP_CHECK);
incomparable!(ResourceCheck, RESOURCE_CHECK);
incomparable!(DecisionValue, DECISION);

impl ResourceCheck {
    /// `authorizer.requestResource`: group, resource, subresource, namespace and name are those of the request.
    pub fn of_request(attributes: Attributes) -> Self {
        Self(attributes)
    }
}

pub(super) fn declare(library: &mut Library) {
    let authorizer = || Type::structure(AUTHORIZER);
    let resource_check = || Type::structure(RESOURCE_CHECK);
    let mut builder = |name, id, receiver: &str, result: &str, implementation: Implementation| {
        let overload = member(id, &[Type::structure(receiver), Type::String], Type::structure(result));
        library.add(name, [overload.binary(implementation)]).cost = Some(cost::nominal);
    };
    builder("path", "authorizer_path", AUTHORIZER, PATH_CHECK, path);
    builder("group", "authorizer_group", AUTHORIZER, GROUP_CHECK, group);
    builder("resource", "groupcheck_resource", GROUP_CHECK, RESOURCE_CHECK, resource);
    let mut setter = |name, id, implementation| builder(name, id, RESOURCE_CHECK, RESOURCE_CHECK, implementation);
    setter("subresource", "resourcecheck_subresource", |context, args| {
        set(context, args, |attributes, value| attributes.subresource = value)
    });
    setter("namespace", "resourcecheck_namespace", |context, args| {
        set(context, args, |attributes, value| attributes.namespace = value)
    });
    setter("name", "resourcecheck_name", |context, args| {
        set(context, args, |attributes, value| attributes.name = value)
    });
    setter("fieldSelector", "authorizer_fieldselector", |context, args| {
        set(context, args, |attributes, value| attributes.field_selector = value)
    });
    setter("labelSelector", "authorizer_labelselector", |context, args| {
        set(context, args, |attributes, value| attributes.label_selector = value)
    });
    for name in ["fieldSelector", "labelSelector"] {
        library.add(name, []).cost = Some(cost::selector);
    }
    library
        .add(
            "serviceAccount",
            [member(
                "authorizer_serviceaccount",
                &[authorizer(), Type::String, Type::String],
                authorizer(),
            )
            .variadic(service_account)],
        )
        .cost = Some(cost::nominal);
    let decision = || Type::structure(DECISION);
    library
        .add(
            "check",
            [
                member(
                    "pathcheck_check",
                    &[Type::structure(PATH_CHECK), Type::String],
                    decision(),
                )
                .binary(check),
                member("resourcecheck_check", &[resource_check(), Type::String], decision()).binary(check),
            ],
        )
        .cost = Some(cost::check);
    let mut accessor = |name, id, result, implementation: Implementation| {
        library
            .add(name, [member(id, &[decision()], result).unary(implementation)])
            .cost = Some(cost::nominal);
    };
    accessor("errored", "decision_errored", Type::Bool, |_, args| {
        with_decision(args, |decision| Val::Bool(decision.error.is_some()))
    });
    accessor("error", "decision_error", Type::String, |_, args| {
        with_decision(args, |decision| Val::String(decision.error.as_deref().unwrap_or("")))
    });
    accessor("allowed", "decision_allowed", Type::Bool, |_, args| {
        with_decision(args, |decision| Val::Bool(decision.allowed))
    });
    accessor("reason", "decision_reason", Type::String, |_, args| {
        with_decision(args, |decision| Val::String(&decision.reason))
    });
}

/// Whether Go's `strings.TrimSpace` leaves nothing of the text.
fn is_blank(text: &str) -> bool {
    text.chars().all(char::is_whitespace)
}

fn path<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match (args.first().and_then(Val::downcast::<Authorizer>), args.get(1)) {
        (Some(_), Some(Val::String(path))) if is_blank(path) => Val::Error("path must not be empty"),
        (Some(authorizer), Some(Val::String(path))) => context.opaque(PathCheck(Attributes {
            service_account: authorizer.service_account.clone(),
            path: Some((*path).to_owned()),
            ..Attributes::default()
        })),
        _ => NO_SUCH_OVERLOAD,
    }
}

fn group<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match (args.first().and_then(Val::downcast::<Authorizer>), args.get(1)) {
        (Some(authorizer), Some(Val::String(group))) => context.opaque(GroupCheck(Attributes {
            service_account: authorizer.service_account.clone(),
            group: (*group).to_owned(),
            ..Attributes::default()
        })),
        _ => NO_SUCH_OVERLOAD,
    }
}

fn service_account<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [authorizer, Val::String(namespace), Val::String(name)] = args else {
        return NO_SUCH_OVERLOAD;
    };
    if authorizer.downcast::<Authorizer>().is_none() {
        return NO_SUCH_OVERLOAD;
    }
    if !format::is_dns_subdomain_name(name) {
        return Val::Error("Invalid service account name");
    }
    if !format::is_dns_label_name(namespace) {
        return Val::Error("Invalid service account namespace");
    }
    context.opaque(Authorizer {
        service_account: Some(((*namespace).to_owned(), (*name).to_owned())),
    })
}

fn resource<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match (args.first().and_then(Val::downcast::<GroupCheck>), args.get(1)) {
        (Some(_), Some(Val::String(resource))) if is_blank(resource) => Val::Error("resource must not be empty"),
        (Some(group), Some(Val::String(resource))) => context.opaque(ResourceCheck(Attributes {
            resource: (*resource).to_owned(),
            ..group.0.clone()
        })),
        _ => NO_SUCH_OVERLOAD,
    }
}

fn set<'a>(context: &Context<'a>, args: &[Val<'a>], set: fn(&mut Attributes, String)) -> Val<'a> {
    match (args.first().and_then(Val::downcast::<ResourceCheck>), args.get(1)) {
        (Some(check), Some(Val::String(value))) => {
            let mut attributes = check.0.clone();
            set(&mut attributes, (*value).to_owned());
            context.opaque(ResourceCheck(attributes))
        }
        _ => NO_SUCH_OVERLOAD,
    }
}

fn check<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [check, Val::String(verb)] = args else {
        return NO_SUCH_OVERLOAD;
    };
    let attributes = match (check.downcast::<PathCheck>(), check.downcast::<ResourceCheck>()) {
        (Some(check), _) => &check.0,
        (_, Some(check)) => &check.0,
        (None, None) => return NO_SUCH_OVERLOAD,
    };
    let attributes = Attributes {
        verb: (*verb).to_owned(),
        ..attributes.clone()
    };
    context.opaque(DecisionValue(context.host.authorize(&attributes).unwrap_or_default()))
}

fn with_decision<'a>(args: &[Val<'a>], get: impl FnOnce(&'a Decision) -> Val<'a>) -> Val<'a> {
    match args.first().and_then(Val::downcast::<DecisionValue>) {
        Some(decision) => get(&decision.0),
        None => NO_SUCH_OVERLOAD,
    }
}
