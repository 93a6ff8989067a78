//! The function libraries, one module each; a profile says which are there and at which version.

use super::{
    decl::Library,
    env::Env,
    profile::{Behaviour, Libraries},
};

pub(crate) mod kubernetes;
pub(crate) mod kyverno;

/// Puts an environment's functions together.
pub(crate) fn assemble(libraries: &Libraries, behaviour: &Behaviour) -> Library {
    let mut library = Library::default();
    let _ = behaviour;
    kubernetes::declare(&mut library, libraries);
    if libraries.kyverno {
        kyverno::declare(&mut library);
    }
    library
}

/// Declares what the libraries need in an environment besides functions: structures, receivers, the authorizer.
pub(crate) fn declare_variables(env: &mut Env, authorizer: bool) {
    let _ = authorizer;
    let library = env.profile().library();
    for structure in library.structures() {
        let fields = structure.fields.iter().map(|(name, t)| ((*name).into(), t.clone()));
        env.declare_struct(structure.name, fields);
    }
    for constant in library.constants() {
        env.declare_constant(constant.name, constant.declared.clone(), constant.value);
    }
}
