//! The data that a suite gives to classic rules beside the request: values of variables and sources of context entries.

use std::fmt;

use super::context::Outside;
use kyvtest_cel::host::Host;
use kyvtest_go_compat::value::Data;

/// The values for one resource.
pub trait Values: fmt::Debug {
    /// The values of variables during the evaluation of a policy, by dotted path.
    fn variables(&self, policy: &str) -> Vec<(String, Data)>;

    /// The sources of a rule's context entries.
    fn outside<'a>(&'a self, policy: &str, rule: &str, namespace: &'a str, host: &'a dyn Host)
    -> Box<dyn Outside + 'a>;
}
