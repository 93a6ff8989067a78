//! CEL exactly as Kubernetes and Kyverno configure cel-go: parse, check, plan, evaluate, cost, libraries.
//!
//! Upstream counterpart: github.com/google/cel-go with k8s.io/apiserver/pkg/cel and Kyverno's `pkg/cel`.

pub mod admission;
pub mod ast;
pub mod authorizer;
pub mod check;
pub mod compile;
pub mod composite;
mod constant;
pub mod context;
mod cost;
mod cost_stack;
pub mod decl;
pub mod env;
pub mod eval;
mod fold;
pub mod host;
mod infer;
pub mod issue;
pub mod library;
pub mod mutation;
pub mod observe;
mod ops;
pub mod plan;
pub mod print;
pub mod profile;
pub mod program;
pub mod query;
pub mod syntax;
pub mod time;
pub mod trace;
pub mod types;
pub mod val;
mod validate;
mod wrapper;
