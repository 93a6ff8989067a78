//! Validation of values.
//!
//! Upstream counterpart: `pkg/apis/*/validation` of Kubernetes 1.36.

use crate::{Cluster, Refused, Request, node::Node, step::Decoded};

/// A check of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {}

/// A check of a struct.
pub(crate) type TypeCheck = fn(&Node<'_>);

pub(crate) fn parse_check(text: &str) -> Check {
    panic!("unknown check `{text}`")
}

pub(crate) fn type_check(_name: &str) -> Option<TypeCheck> {
    None
}

pub(crate) fn run(
    _decoded: &Decoded<'_>,
    _old: Option<&Decoded<'_>>,
    _request: Request<'_>,
    _cluster: &Cluster,
) -> Result<(), Refused> {
    Ok(())
}
