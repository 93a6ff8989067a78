//! CEL exactly as Kubernetes and Kyverno configure cel-go: parse, check, plan, evaluate, cost, libraries.
//!
//! Upstream counterpart: github.com/google/cel-go with k8s.io/apiserver/pkg/cel and Kyverno's `pkg/cel`.

pub mod ast;
pub mod context;
pub mod decl;
pub mod host;
pub mod library;
pub(crate) mod ops;
pub mod print;
pub mod profile;
pub mod time;
pub mod types;
pub mod val;
