//! Regular expressions that are known only at run time: the last few of a thread are kept, since such a pattern mostly
//! comes back with the next element or the next object.

use std::{cell::RefCell, collections::VecDeque};

use crate::{
    cel::context::Context,
    regex::{Error, Regex},
};

/// How many patterns a thread keeps.
const KEPT: usize = 16;

thread_local! {
    static RECENT: RefCell<VecDeque<Regex>> = const { RefCell::new(VecDeque::new()) };
}

/// What one state of an automaton counts towards the work of an evaluation: building it takes about a microsecond.
const STATE: u64 = 256;

/// Compiles a pattern within the limit of work; beyond it is too large.
pub(crate) fn build(context: &Context<'_>, pattern: &str) -> Result<Regex, Error> {
    Regex::new_within(pattern, |states| {
        context.spend(usize::try_from(states.saturating_mul(STATE)).unwrap_or(usize::MAX))
    })
}

/// Compiles a pattern, or finds it among the recent ones.
pub(crate) fn compile(context: &Context<'_>, pattern: &str) -> Result<Regex, Error> {
    RECENT.with_borrow_mut(|recent| {
        if let Some(regex) = recent.iter().find(|regex| regex.as_str() == pattern) {
            return Ok(regex.clone());
        }
        let regex = build(context, pattern)?;
        recent.truncate(KEPT - 1);
        recent.push_front(regex.clone());
        Ok(regex)
    })
}
