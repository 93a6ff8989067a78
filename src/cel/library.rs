//! The function libraries, one module each; a profile says which are there and at which version.

use super::{
    decl::Library,
    env::Env,
    profile::{Behaviour, Libraries},
};

pub(crate) mod kubernetes;

/// Puts an environment's functions together.
pub(crate) fn assemble(libraries: &Libraries, behaviour: &Behaviour) -> Library {
    let mut library = Library::default();
    let _ = behaviour;
    kubernetes::declare(&mut library, libraries);
    library
}

/// Declares what the libraries need in an environment besides functions: structures, receivers, the authorizer.
pub(crate) fn declare_variables(env: &mut Env, authorizer: bool) {
    let _ = (env, authorizer);
}
