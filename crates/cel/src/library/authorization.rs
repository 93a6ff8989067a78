//! The libraries of ValidatingPolicies that authorise HTTP and Envoy requests.
//!
//! Upstream counterpart: `github.com/kyverno/kyverno-authz` `pkg/cel` at the version that Kyverno 1.19 links.

mod constants;
pub mod envoy;
mod go_structure;
pub mod http;
mod json;
mod jwt;
mod mcp;
pub mod message;
mod proto_json;

use crate::{
    decl::Library,
    profile::{PolicyLibraries, Profile},
};

/// The subject of a policy's decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// HTTP requests.
    Http,
    /// Envoy's check requests.
    Envoy,
}

impl Mode {
    /// The environment of the expressions.
    pub fn profile(self) -> &'static Profile {
        match self {
            Self::Http => Profile::kyverno_http(),
            Self::Envoy => Profile::kyverno_envoy(),
        }
    }

    /// The type of `object`.
    pub fn request_type(self) -> &'static str {
        match self {
            Self::Http => http::REQUEST.name,
            Self::Envoy => envoy::REQUEST.name,
        }
    }

    /// The type of a validation's result.
    pub fn response_type(self) -> &'static str {
        match self {
            Self::Http => http::RESPONSE.name,
            Self::Envoy => envoy::RESPONSE.name,
        }
    }
}

/// Adds the libraries of a mode.
pub(super) fn declare(library: &mut Library, policy: PolicyLibraries) {
    if policy == PolicyLibraries::Envoy {
        envoy::declare(library);
    } else {
        http::declare(library);
    }
    jwt::declare(library);
    json::declare(library);
    mcp::declare(library);
}
