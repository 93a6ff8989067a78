//! The libraries of ValidatingPolicies that decide about HTTP and Envoy requests.
//!
//! Upstream counterpart: `github.com/kyverno/kyverno-authz` `pkg/cel` at the version that Kyverno 1.19 links.

pub mod envoy;
mod go_structure;
pub mod http;
mod json;
mod jwt;
mod mcp;
pub mod message;
mod proto_json;

use crate::{decl::Library, profile::PolicyLibraries};

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
