//! The body of the target `regex`: the first line is a pattern, the rest a text. The pattern is taken or refused, and what
//! is taken finds the same places by all ways.

use kyvtest::regex;

/// Checks one input.
///
/// # Panics
/// If the front end or the matcher breaks a promise.
pub(crate) fn run(data: &[u8]) {
    let input = String::from_utf8_lossy(data);
    let (pattern, text) = input.split_once('\n').unwrap_or((&input, "aé日 A1_\n"));
    regex::exercise(pattern, text);
}
