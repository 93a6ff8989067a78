//! Which hazards apply to a conversion, and where.
use super::{Item, classic, validating};
use crate::kube::Discovery;
pub(super) fn classic(_plan: &classic::Plan<'_>, _discovery: &Discovery, _report: &mut Vec<Item>) {}
pub(super) fn validating(_plan: &validating::Plan<'_>, _report: &mut Vec<Item>) {}
