//! Regular expressions that are known only at run time: the last few of a thread are kept, since such a pattern mostly
//! comes back with the next element or the next object.

use std::{cell::RefCell, collections::VecDeque};

use crate::regex::{Error, Regex};

/// How many patterns a thread keeps.
const KEPT: usize = 16;

thread_local! {
    static RECENT: RefCell<VecDeque<Regex>> = const { RefCell::new(VecDeque::new()) };
}

/// Compiles a pattern, or finds it among the recent ones.
pub(crate) fn compile(pattern: &str) -> Result<Regex, Error> {
    RECENT.with_borrow_mut(|recent| {
        if let Some(regex) = recent.iter().find(|regex| regex.as_str() == pattern) {
            return Ok(regex.clone());
        }
        let regex = Regex::new(pattern)?;
        recent.truncate(KEPT - 1);
        recent.push_front(regex.clone());
        Ok(regex)
    })
}
