//! What an UPDATE may not change.
//!
//! Upstream counterpart: the `Validate…Update` functions below `pkg/apis/*/validation`.

use super::Checker;
use crate::{node::Node, table::Served};

pub(super) fn run(_checker: &mut Checker<'_>, _served: Served, _node: &Node<'_>, _old: &Node<'_>) {}
