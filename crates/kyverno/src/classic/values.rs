//! What a suite gives to classic rules beside the request: values of variables, and who answers for context entries.

use std::fmt;

use super::context::Outside;
use kyvtest_cel::host::Host;
use kyvtest_go_compat::value::Data;

/// The values for one resource.
pub trait Values: fmt::Debug {
    /// The values of variables while a policy is asked, by their paths with dots.
    fn variables(&self, policy: &str) -> Vec<(String, Data)>;

    /// Who answers for the context entries of a rule.
    fn outside<'a>(&'a self, policy: &str, rule: &str, namespace: &'a str, host: &'a dyn Host)
    -> Box<dyn Outside + 'a>;
}
