//! The engines' model of Kubernetes: kinds and resources, selectors, rules, the admission request, the cluster around
//! it, and the questions that matching may ask about a request.
//!
//! Matching code never looks into a request directly. It knows a [`RequestClass`] (resource, operation: the finite part
//! that a proof enumerates) and asks [`Facts`] about everything else, so that tests and proofs run the same code.
//! [`Concrete`] answers from a [`Request`].

mod authorize;
mod cluster;
mod concrete;
mod convert;
mod describe;
mod discovery;
mod facts;
mod find;
mod gvk;
mod numbers;
mod operation;
mod plural;
mod rbac;
mod reach;
mod request;
mod request_class;
mod review;
mod rules;
mod selector;
mod world;

pub use authorize::{Access, Authorized, Role};
pub use cluster::{Cluster, Environment};
pub use concrete::Concrete;
pub use convert::convert;
pub use describe::{Description, describe, namespace_object};
pub use discovery::{Discovery, Resource};
pub use facts::{Atom, Facts, Pairs, Pattern, Text};
pub use gvk::{GroupVersionKind, GroupVersionResource, parse_api_version};
pub use numbers::{decoded_numbers, may_have_floats, webhook_numbers};
pub use operation::{Operation, Operations, UnknownOperation};
pub use plural::guess_plural;
pub use rbac::{Binding, Roles};
pub use request::{Request, UserInfo};
pub use request_class::{RequestClass, Side};
pub use rules::{ResourcePattern, RuleWithOperations, Scope};
pub use selector::{Expression, InvalidSelector, LabelSelector, Operator, Requirement, requirement_error};
pub use world::{NAME_LABEL, Namespace, World, with_name_label};
