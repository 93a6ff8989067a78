//! Label selectors with wildcards in `matchLabels`.
//!
//! Upstream counterpart: `pkg/engine/wildcards` and `pkg/utils/match/labels.go`. Upstream replaces a pair with wildcards by
//! a label that fits, or, if there is none, puts `0` for each wildcard character; then Kubernetes matches the selector. A
//! label that equals the replacement would have fitted before, so without a fitting label the selector never matches: the
//! replacement only decides whether the selector counts as invalid.

use std::borrow::Cow;

use kyvtest_go_compat::text::wildcard::has_wildcard;
use kyvtest_model::kube::{Atom, Facts, LabelSelector, Operator, Pairs, Pattern, Requirement, requirement_error};

/// Why a selector does not match.
pub(super) enum Mismatch<'p> {
    /// The labels differ.
    Labels,
    /// The selector is invalid.
    Invalid(Cow<'p, str>),
}

fn is_wild(requirement: &Requirement) -> bool {
    requirement.is_pair
        && (has_wildcard(&requirement.key) || requirement.values.iter().any(|value| has_wildcard(value)))
}

/// Whether an entry of a map fits a pair of patterns.
pub(super) fn pair_fits<'p>(pairs: Pairs, key: &'p str, value: &'p str, facts: &mut impl Facts<'p>) -> bool {
    let value = Pattern::glob(value);
    if has_wildcard(key) {
        facts.ask(Atom::AnyPair(pairs, Pattern::Glob(key), value))
    } else {
        facts.ask(Atom::Has(pairs, key)) && facts.ask(Atom::Value(pairs, key, value))
    }
}

/// What is wrong with a pair after its wildcards were replaced.
fn replaced_error(requirement: &Requirement) -> Option<String> {
    let replace = |text: &str| text.replace(['*', '?'], "0");
    let values: Vec<String> = requirement.values.iter().map(|value| replace(value)).collect();
    requirement_error(&replace(&requirement.key), Operator::In, &values)
}

/// What is wrong with a pair after a label took its place: the key, if it is written without wildcards. Labels themselves
/// count as valid.
fn kept_error(requirement: &Requirement) -> Option<String> {
    if has_wildcard(&requirement.key) {
        return None;
    }
    requirement_error(&requirement.key, Operator::Exists, &[])
}

/// Whether labels match a selector as Kyverno reads it.
pub(super) fn check<'p>(
    selector: &'p LabelSelector,
    pairs: Pairs,
    facts: &mut impl Facts<'p>,
) -> Result<(), Mismatch<'p>> {
    let requirements = selector.requirements();
    // Upstream builds all requirements before it looks at a label: an invalid one comes before any mismatch.
    let mut fits = true;
    for requirement in requirements {
        let error = if !is_wild(requirement) {
            requirement.error().map(Cow::Borrowed)
        } else if wild_fits(requirement, pairs, facts) {
            kept_error(requirement).map(Cow::Owned)
        } else {
            fits = false;
            replaced_error(requirement).map(Cow::Owned)
        };
        if let Some(error) = error {
            return Err(Mismatch::Invalid(error));
        }
    }
    let mut plain = requirements.iter().filter(|requirement| !is_wild(requirement));
    if fits && plain.all(|requirement| requirement.holds(Some(pairs), facts)) {
        Ok(())
    } else {
        Err(Mismatch::Labels)
    }
}

fn wild_fits<'p>(requirement: &'p Requirement, pairs: Pairs, facts: &mut impl Facts<'p>) -> bool {
    let value = requirement.values.first().map_or("", String::as_str);
    pair_fits(pairs, &requirement.key, value, facts)
}
