//! The function libraries, one module each; a profile says which are there and at which version.

use super::{
    decl::Library,
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
