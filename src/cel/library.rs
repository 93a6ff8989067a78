//! The function libraries, one module each; a profile says which are there and at which version.

pub(crate) mod comprehensions;
mod encoders;
mod go_sort;
mod kubernetes_cost;
mod kubernetes_lists;
mod kubernetes_regex;
mod lists;
mod math;
mod optional;
pub(crate) mod pattern;
mod regex;
mod sets;
mod sizes;
mod standard;
pub(crate) mod strings;

#[cfg(test)]
mod tests;

use super::{
    decl::Library,
    profile::{Behaviour, Libraries},
};

/// Puts an environment's functions together.
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
        encoders::declare(&mut library);
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
    if libraries.kubernetes_base {
        kubernetes_cost::declare(&mut library);
    }
    library
}
