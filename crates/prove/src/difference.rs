//! How two sides differ on a path, and how that reads.

use super::{
    sides::{BROKEN, PerSide},
    universe,
};
use kyvtest_model::{kube::RequestClass, verdict::Effect};

/// How many resources a text names.
const NAMED: usize = 6;

/// Which way the sides differ on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// Kyverno does more.
    Weaker,
    /// The native policy does more.
    Stricter,
}

/// Which ways the sides differ.
pub(super) fn ways(both: &PerSide) -> Vec<Way> {
    let effect = |said: &[(usize, Effect)], body: usize| {
        let found = said.iter().find(|(other, _)| *other == body);
        found.map_or(Effect::Admit, |(_, effect)| *effect)
    };
    let more = |a: &[(usize, Effect)], b: &[(usize, Effect)]| {
        a.iter().any(|(body, own)| *own > effect(b, *body) || b.is_empty())
    };
    let mut ways = Vec::new();
    if more(&both.kyverno, &both.native) {
        ways.push(Way::Weaker);
    }
    if more(&both.native, &both.kyverno) {
        ways.push(Way::Stricter);
    }
    ways
}

/// Whether each side evaluates expressions that the other does not: matching cannot decide such a difference.
pub(super) fn has_other_text(both: &PerSide) -> bool {
    let lacks = |a: &[(usize, Effect)], b: &[(usize, Effect)]| {
        let mut own = a.iter().filter(|(body, _)| *body != BROKEN);
        own.any(|(body, _)| b.iter().all(|(other, _)| other != body))
    };
    lacks(&both.kyverno, &both.native) && lacks(&both.native, &both.kyverno)
}

/// Describes a region: operations, resources and conditions.
pub(super) fn describe(way: Way, cells: &[RequestClass<'_>], literals: &str) -> String {
    let who = match way {
        Way::Weaker => "the native policy is weaker",
        Way::Stricter => "the native policy is stricter",
    };
    // Resources with the same operations are listed together.
    let mut resources: Vec<(String, Vec<String>)> = Vec::new();
    for cell in cells {
        let (operation, resource) = universe::words(cell);
        match resources.iter_mut().find(|(name, _)| *name == resource) {
            // Versions of a resource have the same name here.
            Some((_, operations)) if operations.contains(&operation) => {}
            Some((_, operations)) => operations.push(operation),
            None => resources.push((resource, vec![operation])),
        }
    }
    for (_, operations) in &mut resources {
        let deletes = operations.iter().any(|operation| operation == "DELETE");
        operations.retain(|operation| !(deletes && operation == "DELETE (collection)"));
    }
    let mut groups: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    for (resource, operations) in resources {
        match groups.iter_mut().find(|(other, _)| *other == operations) {
            Some((_, names)) => names.push(resource),
            None => groups.push((operations, vec![resource])),
        }
    }
    let groups: Vec<String> = groups
        .iter()
        .map(|(operations, names)| {
            let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
            let more = match names.len().saturating_sub(NAMED) {
                0 => String::new(),
                1 => " and 1 more resource".to_owned(),
                more => format!(" and {more} more resources"),
            };
            format!("{} of {shown}{more}", listed(operations))
        })
        .collect();
    let conditions = if literals.is_empty() {
        String::new()
    } else {
        format!(", if {literals}")
    };
    format!("{who}: {}{conditions}", groups.join("; "))
}

/// `CREATE`, `CREATE and UPDATE`, `CREATE, UPDATE and DELETE`.
fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}
