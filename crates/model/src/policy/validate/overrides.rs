//! Failure actions by namespace that contradict each other.

use std::collections::BTreeSet;

use crate::policy::{FailureAction, FailureActionOverride};
use kyvtest_go_compat::text::wildcard;

/// The namespaces and patterns of each action so far.
#[derive(Default)]
struct Seen<'p> {
    names: BTreeSet<&'p str>,
    patterns: BTreeSet<&'p str>,
}

/// Checks a list of overrides.
///
/// # Errors
/// The first contradiction, with upstream's message.
pub(super) fn check(overrides: &[FailureActionOverride], path: &str) -> Result<(), String> {
    let (mut enforce, mut audit) = (Seen::default(), Seen::default());
    for (i, item) in overrides.iter().enumerate() {
        let Some(action) = &item.action else {
            return Err("invalid action".to_owned());
        };
        let texts = item.namespaces.iter().map(|text| text.value.as_str());
        let (patterns, names): (Vec<&str>, Vec<&str>) = texts.partition(|text| wildcard::has_wildcard(text));
        let (own, other) = match action.value {
            FailureAction::Audit => (&mut audit, &enforce),
            FailureAction::Enforce => (&mut enforce, &audit),
        };
        let both: BTreeSet<&str> = names
            .iter()
            .copied()
            .filter(|name| other.names.contains(name))
            .collect();
        if !both.is_empty() {
            let both: Vec<&str> = both.into_iter().collect();
            return Err(format!(
                "conflicting namespaces found in path: {path}[{i}].namespaces: {}",
                both.join(", ")
            ));
        }
        own.patterns.extend(patterns);
        own.names.extend(names);
        conflict(&enforce, &audit).map_err(|error| format!("path: {path}[{i}].namespaces: {error}"))?;
    }
    Ok(())
}

fn conflict(enforce: &Seen<'_>, audit: &Seen<'_>) -> Result<(), String> {
    for (patterns, names) in [(&audit.patterns, &enforce.names), (&enforce.patterns, &audit.names)] {
        if let Some((pattern, name)) = matching(patterns, names) {
            return Err(format!("wildcard pattern '{pattern}' matches with namespace '{name}'"));
        }
    }
    for (patterns, others) in [
        (&audit.patterns, &enforce.patterns),
        (&enforce.patterns, &audit.patterns),
    ] {
        if let Some((pattern, other)) = matching(patterns, others) {
            return Err(format!(
                "wildcard pattern '{pattern}' conflicts with the pattern '{other}'"
            ));
        }
    }
    Ok(())
}

/// The first name that a pattern matches, names first.
fn matching<'p>(patterns: &BTreeSet<&'p str>, names: &BTreeSet<&'p str>) -> Option<(&'p str, &'p str)> {
    names.iter().find_map(|name| {
        let found = patterns.iter().find(|pattern| wildcard::matches(pattern, name));
        found.map(|pattern| (*pattern, *name))
    })
}
