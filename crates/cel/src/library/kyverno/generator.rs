//! `generator.Apply`: passes objects to the host, which generates them.
//!
//! Upstream counterpart: SDK `libs/generator`.

use std::sync::Arc;

use super::{Receiver, declare_receiver, native};
use crate::{
    context::Context,
    decl::{Library, member},
    profile::PolicyScope,
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};
use kyvtest_go_compat::value::{Data, Document};

static GENERATOR: Receiver = Receiver("generator.Context");

pub(super) fn declare(library: &mut Library, scope: PolicyScope) {
    declare_receiver(library, "generator", &GENERATOR);
    let receiver = Type::opaque(GENERATOR.0);
    let objects = || Type::list(Type::map(Type::String, Type::Any));
    for (name, cluster, namespaced) in [
        (
            "Apply",
            "generator_apply_string_list_pascal",
            "generator_apply_list_pascal",
        ),
        (
            "apply",
            "generator_apply_string_list_camel",
            "generator_apply_list_camel",
        ),
    ] {
        let overload = match scope {
            PolicyScope::Cluster => {
                member(cluster, &[receiver.clone(), Type::String, objects()], Type::Bool).variadic(apply)
            }
            PolicyScope::Namespace => {
                member(namespaced, &[receiver.clone(), objects()], Type::Bool).variadic(apply_here)
            }
        };
        library.add(name, [overload]);
    }
}

fn apply<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args {
        [_, Val::String(namespace), objects] => generate(context, namespace, *objects, 2),
        _ => NO_SUCH_OVERLOAD,
    }
}

fn apply_here<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args {
        [_, objects] => generate(context, context.host.policy_namespace(), *objects, 1),
        _ => NO_SUCH_OVERLOAD,
    }
}

fn generate<'a>(context: &Context<'a>, namespace: &str, objects: Val<'a>, position: usize) -> Val<'a> {
    let mut documents = Vec::new();
    for object in objects.list_iter() {
        let document = if object.is_map() {
            native::body(context, object)
        } else {
            Err(native::mismatch(context, object, "*structpb.Struct"))
        };
        match document {
            Ok(document) => documents.push(as_interface(&document)),
            Err(Val::Error(error)) => return context.error(format_args!("invalid arg {position}: {error}")),
            Err(other) => return other,
        }
    }
    match context.host.generate(namespace, &documents) {
        Ok(()) => Val::Bool(true),
        Err(error) => context.error(format_args!("failed to generate resources: {error}")),
    }
}

/// Numbers that JSON does not have become strings, as in protobuf's `AsInterface`.
pub(crate) fn as_interface(document: &Document) -> Document {
    finite(&Data::from(document.root())).to_document()
}

fn finite(data: &Data) -> Data {
    match data {
        Data::Double(number) if number.is_nan() => "NaN".into(),
        Data::Double(number) if *number == f64::INFINITY => "Infinity".into(),
        Data::Double(number) if *number == f64::NEG_INFINITY => "-Infinity".into(),
        Data::List(items) => items.iter().map(finite).collect(),
        Data::Map(entries) => entries
            .iter()
            .map(|(key, value)| (Arc::clone(key), finite(value)))
            .collect(),
        other => other.clone(),
    }
}
