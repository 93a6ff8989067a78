//! Rules of classic policies that are not written in CEL.

use kyvtest_kyverno::failure_action::Actions;
use kyvtest_model::policy::Rule;

use super::{
    formula::Arena,
    request::Request,
    side::RuleOutcome,
    value::{Result, unsupported},
};

/// When a rule that matches fails, and when it is an error.
pub(super) fn outcome(
    _arena: &mut Arena,
    _rule: &Rule,
    _actions: &Actions,
    _request: &Request<'_>,
) -> Result<RuleOutcome> {
    unsupported("a classic rule that is not written in CEL")
}
