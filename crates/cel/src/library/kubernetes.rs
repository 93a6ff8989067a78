//! Kubernetes' own libraries: url, quantity, ip, cidr, format, semver, authorizer, jsonpatch.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/cel` and `pkg/cel/library` (0.36.4), in the order in which
//! `pkg/cel/environment/base.go` adds them. The lists and regex libraries live in modules of their own.

use std::any::Any;

use crate::{decl::Library, profile::Libraries, val::Opaque};

pub mod authz;
pub(super) mod cidr;
mod cost;
mod format;
pub(super) mod ip;
mod json_patch;
mod quantity;
mod semver;
pub mod structs;
mod url;

/// Adds the libraries that an environment has.
pub(crate) fn declare(library: &mut Library, libraries: &Libraries) {
    if libraries.kubernetes_base {
        url::declare(library);
        library.add("_==_", []).cost = Some(cost::equality);
    }
    if libraries.authorizer {
        authz::declare(library);
    }
    if libraries.kubernetes_types {
        quantity::declare(library);
        ip::declare(library);
        cidr::declare(library);
        format::declare(library);
        semver::declare(library);
    }
    if libraries.json_patch {
        json_patch::declare(library);
    }
}

/// Another opaque value, if it is of a type.
fn downcast<T: Opaque>(value: &dyn Opaque) -> Option<&T> {
    (value as &dyn Any).downcast_ref()
}
