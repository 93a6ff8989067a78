//! Paths for people: which answers matter, and how they read.

use super::{solver::Literal, symbolic::Path};
use crate::kube::{Atom, Pairs, Pattern, Text};

/// The answers of a path that matter: without any of the others, every path that agrees with the rest has the property.
pub(super) fn generalise<'p, T>(path: &Path<'p, T>, all: &[Path<'p, T>], has: impl Fn(&T) -> bool) -> Vec<Literal<'p>> {
    let mut kept = path.literals.clone();
    let mut at = 0;
    while at < kept.len() {
        let mut fewer = kept.clone();
        fewer.remove(at);
        let compatible = |other: &&Path<'p, T>| {
            let contradicts = |literal: &Literal<'p>| other.literals.contains(&(literal.0, !literal.1));
            !fewer.iter().any(contradicts)
        };
        if all.iter().filter(compatible).all(|other| has(&other.outcome)) {
            kept = fewer;
        } else {
            at += 1;
        }
    }
    kept
}

fn pattern(pattern: Pattern<'_>, holds: bool) -> String {
    let not = if holds { "" } else { "not " };
    match pattern {
        Pattern::Exact("") => format!("is {not}empty"),
        Pattern::Exact(text) => format!("is {not}`{text}`"),
        Pattern::Glob(text) => format!("is {not}like `{text}`"),
        Pattern::Prefix(text) => format!("does {not}begin with `{text}`").replace("does begin", "begins"),
    }
}

fn pairs(pairs: Pairs) -> &'static str {
    match pairs {
        Pairs::NewLabels => "label",
        Pairs::OldLabels => "old label",
        Pairs::NamespaceLabels => "namespace label",
        Pairs::NewAnnotations => "annotation",
        Pairs::OldAnnotations => "old annotation",
    }
}

fn literal((atom, holds): &Literal<'_>) -> String {
    let is = if *holds { "is" } else { "is not" };
    match atom {
        Atom::Text(text, wanted) => {
            let text = match text {
                Text::Name | Text::BareName | Text::RequestName => "name",
                Text::GenerateName => "generateName",
                Text::Namespace => "namespace",
                Text::Username => "user",
            };
            format!("{text} {}", pattern(*wanted, *holds))
        }
        Atom::Has(map, key) => {
            let there = if *holds { "there" } else { "absent" };
            format!("{} {key} is {there}", pairs(*map))
        }
        Atom::Value(map, key, wanted) => format!("{} {key} {}", pairs(*map), pattern(*wanted, *holds)),
        Atom::AnyPair(map, key, value) => {
            let some = if *holds { "some" } else { "no" };
            format!(
                "{some} {} {} {}",
                pairs(*map),
                pattern(*key, true),
                pattern(*value, true)
            )
        }
        Atom::AnyGroup(wanted) => {
            let some = if *holds { "a group" } else { "no group" };
            format!("{some} of the user {}", pattern(*wanted, true))
        }
        Atom::GroupsAre(groups) => format!(
            "the user's groups {}exactly [{}]",
            if *holds { "are " } else { "are not " },
            groups.join(", ")
        ),
        Atom::Role(role) => format!("`{role}` {is} a role of the user"),
        Atom::ClusterRole(role) => format!("`{role}` {is} a cluster role of the user"),
    }
}

/// Answers as one text; empty for none.
pub(super) fn literals(literals: &[Literal<'_>]) -> String {
    let texts: Vec<String> = literals.iter().map(literal).collect();
    texts.join(", ")
}
