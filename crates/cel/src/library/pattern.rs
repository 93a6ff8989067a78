//! Regular expressions that are only known at run time. The last few of an evaluation are cached, since such a pattern
//! usually recurs with the next element.

use std::collections::VecDeque;

use crate::context::Context;
use kyvtest_go_compat::regex::{Error, Regex};

/// How many patterns an evaluation keeps.
const KEPT: usize = 16;

/// The patterns that an evaluation used last, the latest first.
#[derive(Debug, Default)]
pub(crate) struct Recent(VecDeque<Regex>);

impl Recent {
    fn get(&mut self, pattern: &str) -> Option<Regex> {
        let at = self.0.iter().position(|regex| regex.as_str() == pattern)?;
        let regex = self.0.remove(at)?;
        self.0.push_front(regex.clone());
        Some(regex)
    }

    fn put(&mut self, regex: Regex) {
        self.0.truncate(KEPT - 1);
        self.0.push_front(regex);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The work of building one state of an automaton: about a microsecond.
const STATE: u64 = 256;

/// Compiles a pattern within the work limit; a larger one is an error.
pub(crate) fn build(context: &Context<'_>, pattern: &str) -> Result<Regex, Error> {
    Regex::new_within(pattern, |states| {
        context.spend(usize::try_from(states.saturating_mul(STATE)).unwrap_or(usize::MAX))
    })
}

/// Compiles a pattern, or returns it from the cache of the evaluation.
pub(crate) fn compile(context: &Context<'_>, pattern: &str) -> Result<Regex, Error> {
    let recent = context.recent_patterns();
    if let Some(regex) = recent.borrow_mut().get(pattern) {
        return Ok(regex);
    }
    let regex = build(context, pattern)?;
    recent.borrow_mut().put(regex.clone());
    Ok(regex)
}
