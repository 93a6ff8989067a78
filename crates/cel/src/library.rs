//! The function libraries, one module each; a profile selects them and their versions.

pub mod authorization;
pub mod comprehensions;
mod encoders;
mod go_sort;
mod kubernetes_cost;
mod kubernetes_lists;
mod kubernetes_regex;
mod lists;
mod math;
mod network;
mod optional;
pub mod pattern;
mod regex;
mod sets;
pub mod sizes;
mod standard;
pub mod strings;

#[cfg(test)]
mod tests;

use super::{
    ast::Name,
    context::Context,
    decl::Library,
    env::Env,
    host::Attributes,
    profile::{Behaviour, Libraries, PolicyLibraries},
    query::{Authorizer, Query},
    types::Type,
    val::Val,
};
use kyvtest_go_compat::value::Value;

pub mod kubernetes;
pub mod kyverno;

/// Builds the functions of an environment.
pub(crate) fn assemble(libraries: &Libraries, behaviour: &Behaviour) -> Library {
    let mut library = Library::default();
    standard::declare(&mut library, behaviour);
    if let Some(version) = libraries.optional {
        optional::declare(&mut library, version, behaviour);
    }
    if libraries.kubernetes_base {
        kubernetes_regex::declare(&mut library);
    }
    if let Some(version) = libraries.kubernetes_lists {
        kubernetes_lists::declare(&mut library, version);
    }
    if let Some(version) = libraries.strings {
        strings::declare(&mut library, version);
    }
    if let Some(version) = libraries.lists {
        lists::declare(&mut library, version);
    }
    if libraries.sets {
        sets::declare(&mut library);
    }
    if let Some(version) = libraries.math {
        math::declare(&mut library, version);
    }
    if libraries.encoders {
        encoders::declare(&mut library, behaviour);
    }
    if libraries.regex {
        regex::declare(&mut library);
    }
    if libraries.two_variables {
        comprehensions::declare_two_variables(&mut library);
    }
    if libraries.bindings {
        comprehensions::declare_bindings(&mut library);
    }
    if libraries.network {
        network::declare(&mut library);
    }
    kubernetes::declare(&mut library, libraries);
    if libraries.kubernetes_base {
        kubernetes_cost::declare(&mut library);
    }
    if libraries.or_value_compat {
        kyverno::declare_or_value(&mut library);
    }
    if let Some(scope) = libraries.kyverno {
        kyverno::declare(&mut library, scope, libraries.policy);
        if matches!(libraries.policy, PolicyLibraries::Http | PolicyLibraries::Envoy) {
            authorization::declare(&mut library, libraries.policy);
        }
    }
    set_fields(&mut library, libraries.kyverno.is_some());
    library
}

/// Declares the structures that policies see: those of a request, and those of the libraries.
fn set_fields(library: &mut Library, kyverno: bool) {
    for structure in kubernetes::structs::structs() {
        // Kyverno's request also has the objects.
        let objects = ["object", "oldObject"].map(|name| (name.into(), Type::Dyn));
        let objects = objects
            .into_iter()
            .filter(|_| kyverno && &*structure.name == kubernetes::structs::ADMISSION_REQUEST);
        let fields = structure.fields.into_iter().chain(objects).collect();
        library.set_fields(structure.name, fields);
    }
    let own: Vec<(Name, Vec<(Name, Type)>)> = library
        .structures()
        .iter()
        .map(|structure| {
            let fields = structure.fields.iter().map(|(name, t)| ((*name).into(), t.clone()));
            (structure.name.into(), fields.collect())
        })
        .collect();
    for (name, fields) in own {
        library.set_fields(name, fields);
    }
}

/// Declares the variables that the libraries need in an environment: structures, receivers, the authorizer.
pub fn declare_variables(env: &mut Env, authorizer: bool) {
    let kyverno = env.profile().libraries.kyverno.is_some();
    env.declare_library_structs();
    let library = env.profile().library();
    for constant in library.constants() {
        env.declare_constant(constant.name, constant.declared.clone(), constant.value);
    }
    let policy = env.profile().libraries.policy;
    if kyverno && matches!(policy, PolicyLibraries::Admission | PolicyLibraries::Generating) {
        env.declare("exceptions", Type::structure(kyverno::EXCEPTION));
    }
    if authorizer {
        env.declare("authorizer", Type::structure(kubernetes::authz::AUTHORIZER));
        env.declare(
            "authorizer.requestResource",
            Type::structure(kubernetes::authz::RESOURCE_CHECK),
        );
    }
}

/// Binds the variables that [`declare_variables`] declared.
pub(crate) fn bind_variables<'a>(context: &Context<'a>, env: &Env, query: &Query<'_>, values: &mut [Option<Val<'a>>]) {
    if query.authorizer == Authorizer::Bound {
        let text = |path: &[&str]| {
            query
                .request
                .and_then(|request| request.root().at(path))
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let attributes = Attributes {
            group: text(&["requestResource", "group"]),
            resource: text(&["requestResource", "resource"]),
            subresource: text(&["requestSubResource"]),
            namespace: text(&["namespace"]),
            name: text(&["name"]),
            ..Attributes::default()
        };
        bind_authorizer(context, env, attributes, values);
    }
}

/// Binds `authorizer` and `authorizer.requestResource`, which refers to the resource of these attributes.
pub(crate) fn bind_authorizer<'a>(
    context: &Context<'a>,
    env: &Env,
    request: Attributes,
    values: &mut [Option<Val<'a>>],
) {
    let mut bind = |name: &str, value: Val<'a>| {
        if let Some(i) = env.variables().iter().position(|variable| &*variable.name == name) {
            values[i] = Some(value);
        }
    };
    bind("authorizer", context.opaque(kubernetes::authz::Authorizer::default()));
    bind(
        "authorizer.requestResource",
        context.opaque(kubernetes::authz::ResourceCheck::of_request(request)),
    );
}
