//! `validate.pattern`: a tree with anchors that a resource must match.
//!
//! Upstream counterpart: `pkg/engine/validate/validate.go`, `pkg/engine/anchor/{anchormap,handlers}.go`. Variables and
//! references have already been substituted.
//!
//! Known deviation: a tree that nests deeper than [`DEPTH`] is an error of the rule.

mod metadata;
mod mismatch;

use std::{collections::BTreeMap, sync::Arc};

use kyvtest_go_compat::value::Data;
use mismatch::Mismatch;
use thiserror::Error;

use crate::{Anchor, AnchorKind as Kind, scalar};

/// The maximum nesting.
pub const DEPTH: usize = 256;

type Entries = BTreeMap<Arc<str>, Data>;
type Outcome = Result<(), Mismatch>;

/// The reason why a resource does not match a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct PatternError {
    pub message: String,
    /// The path in the resource; empty if the rule is an error.
    pub path: String,
    /// Whether the rule does not apply to the resource.
    pub skip: bool,
}

/// Matches a resource against a pattern.
///
/// # Errors
/// The first mismatch, or the reason why the pattern does not apply to the resource.
pub fn match_pattern(resource: &Data, pattern: &Data) -> Result<(), PatternError> {
    let mut walk = Walk::default();
    let mut pattern = pattern.clone();
    let Err(mismatch) = walk.element(resource, &mut pattern, "/", 0) else {
        return Ok(());
    };
    let skip = mismatch.is_skip();
    let keeps_path = !skip && (mismatch.is_negation() || !walk.keys_are_missing());
    Err(PatternError {
        path: if keeps_path { mismatch.path } else { String::new() },
        message: mismatch.message,
        skip,
    })
}

/// The state of one comparison.
#[derive(Debug, Default)]
struct Walk {
    /// Anchors by their text, and whether a map of the resource had the key.
    seen: BTreeMap<Arc<str>, bool>,
}

impl Walk {
    /// Whether the key of a condition or an existence anchor was missing in every map compared with it.
    fn keys_are_missing(&self) -> bool {
        let negation = |key: &str| Anchor::parse(key).is_some_and(|anchor| anchor.kind == Kind::Negation);
        self.seen.iter().any(|(key, seen)| !seen && !negation(key))
    }

    fn note(&mut self, pattern: &Entries, resource: &Entries) {
        for key in pattern.keys() {
            let Some(anchor) = Anchor::parse(key) else { continue };
            if matches!(anchor.kind, Kind::Condition | Kind::Existence | Kind::Negation) {
                let seen = self.seen.entry(Arc::clone(key)).or_insert(false);
                *seen = *seen || resource.contains_key(anchor.key);
            }
        }
    }

    fn element(&mut self, resource: &Data, pattern: &mut Data, path: &str, depth: usize) -> Outcome {
        if depth > DEPTH {
            let message = format!("pattern has more than {DEPTH} levels of nesting");
            return Err(Mismatch::plain("", message));
        }
        let (expected, found) = (pattern.go_type(), resource.go_type());
        match pattern {
            Data::Map(pattern) => {
                let Data::Map(resource) = resource else {
                    let message = format!(
                        "pattern and resource have different structures. Path: {path}. Expected {expected}, found {found}"
                    );
                    return Err(Mismatch::plain(path, message));
                };
                self.note(pattern, resource);
                self.map(resource, Arc::make_mut(pattern), path, depth)
            }
            Data::List(pattern) => {
                let Data::List(resource) = resource else {
                    let message = format!(
                        "validation rule failed at path {path}, resource does not satisfy the expected overlay pattern"
                    );
                    return Err(Mismatch::plain(path, message));
                };
                self.list(resource, Arc::make_mut(pattern).as_mut_slice(), path, depth)
            }
            _ => scalar(resource, pattern, path),
        }
    }

    fn map(&mut self, resource: &Entries, pattern: &mut Entries, path: &str, depth: usize) -> Outcome {
        metadata::expand(pattern, resource);
        let mut skipped: Vec<Mismatch> = Vec::new();
        let mut applied = false;
        let mut later = Vec::new();
        for (key, part) in pattern.iter_mut() {
            let anchor = match Anchor::parse(key) {
                Some(anchor) if anchor.comes_first() => anchor,
                other => {
                    let global = other.filter(|anchor| anchor.kind == Kind::Global);
                    later.push((key, global, part));
                    continue;
                }
            };
            match self.anchor(anchor, resource, part, path, depth) {
                Ok(()) => applied = true,
                Err(mismatch) if mismatch.is_skip() => skipped.push(mismatch),
                Err(_) if skipped.iter().any(Mismatch::is_direct) => {}
                Err(mismatch) => return Err(mismatch),
            }
        }
        if !skipped.is_empty() && (!applied || skipped.iter().any(Mismatch::is_direct)) {
            return Err(Mismatch::aggregate(path, &skipped));
        }
        // Global anchors and keys with anchors below them come first, the last of them foremost.
        let (mut ordered, plain): (Vec<_>, Vec<_>) = later
            .into_iter()
            .partition(|(_, global, part)| global.is_some() || has_anchors(part, 0));
        ordered.reverse();
        for (key, global, part) in ordered.into_iter().chain(plain) {
            match global {
                Some(anchor) => self.anchor(anchor, resource, part, path, depth)?,
                None => self.plain(key, resource, part, path, depth)?,
            }
        }
        Ok(())
    }

    fn anchor(
        &mut self,
        anchor: Anchor<'_>,
        resource: &Entries,
        pattern: &mut Data,
        path: &str,
        depth: usize,
    ) -> Outcome {
        let below = format!("{path}{}/", anchor.key);
        let Some(value) = resource.get(anchor.key) else {
            if anchor.kind == Kind::Condition {
                let reason = "conditional anchor key doesn't exist in the resource";
                return Err(Mismatch::condition(below, reason));
            }
            return Ok(());
        };
        match anchor.kind {
            Kind::Negation => Err(Mismatch::negation(below)),
            Kind::Existence => self.existence(value, pattern, &below, depth),
            Kind::Condition => self
                .element(value, pattern, &below, depth + 1)
                .map_err(|mismatch| Mismatch::condition(mismatch.path, &mismatch.message)),
            Kind::Global => self
                .element(value, pattern, &below, depth + 1)
                .map_err(|mismatch| Mismatch::global(mismatch.path, &mismatch.message)),
            Kind::Equality | Kind::AddIfNotPresent => self.element(value, pattern, &below, depth + 1),
        }
    }

    fn existence(&mut self, value: &Data, pattern: &mut Data, path: &str, depth: usize) -> Outcome {
        let kind = pattern.go_type();
        let invalid = |what: &str, kind: &str, reason: &str| {
            let message = format!("invalid {what} type {kind}: {reason}");
            Err(Mismatch::plain(path, message))
        };
        let Data::List(elements) = value else {
            let reason = "Existence ^ () anchor can be used only on list/array type resource";
            return invalid("resource", value.go_type(), reason);
        };
        let Data::List(patterns) = pattern else {
            let reason = "Pattern has to be of list to compare against resource";
            return invalid("pattern", kind, reason);
        };
        for pattern in Arc::make_mut(patterns) {
            if !matches!(pattern, Data::Map(_)) {
                let reason = "Pattern has to be of type map to compare against items in resource";
                return invalid("pattern", kind, reason);
            }
            let mut elements = elements.iter().enumerate();
            let found = elements.any(|(i, element)| {
                let below = format!("{path}{i}/");
                self.element(element, pattern, &below, depth + 1).is_ok()
            });
            if !found {
                let message = format!("existence anchor validation failed at path {path}");
                return Err(Mismatch::plain(path, message));
            }
        }
        Ok(())
    }

    fn plain(&mut self, key: &str, resource: &Entries, pattern: &mut Data, path: &str, depth: usize) -> Outcome {
        let value = resource.get(key).unwrap_or(&Data::Null);
        if pattern.as_str() == Some("*") {
            return if value.is_null() {
                Err(Mismatch::plain(path, format!("{path}/{key} not found")))
            } else {
                Ok(())
            };
        }
        self.element(value, pattern, &format!("{path}{key}/"), depth + 1)
    }

    fn list(&mut self, resource: &[Data], pattern: &mut [Data], path: &str, depth: usize) -> Outcome {
        let length = pattern.len();
        match pattern {
            [] => Err(Mismatch::plain(path, "pattern Array empty".to_owned())),
            [first @ Data::Map(_), ..] => {
                let mut outcomes = Outcomes::default();
                for (i, element) in resource.iter().enumerate() {
                    outcomes.add(self.element(element, first, &format!("{path}{i}/"), depth + 1))?;
                }
                outcomes.finish(path)
            }
            [Data::List(_), ..] => {
                if resource.len() < length {
                    let message = format!(
                        "validate Array failed, array length mismatch, resource Array len is {} and pattern Array len \
                         is {length}",
                        resource.len()
                    );
                    return Err(Mismatch::plain("", message));
                }
                let mut outcomes = Outcomes::default();
                for (i, (element, pattern)) in resource.iter().zip(pattern).enumerate() {
                    outcomes.add(self.element(element, pattern, &format!("{path}{i}/"), depth + 1))?;
                }
                outcomes.finish(path)
            }
            [first, ..] => resource.iter().try_for_each(|element| {
                if scalar::satisfies(element, first) {
                    return Ok(());
                }
                let all: Data = resource.iter().cloned().collect();
                Err(differs(&all, first, path))
            }),
        }
    }
}

/// The results of a list's elements: skipped ones count only if no other matches.
#[derive(Default)]
struct Outcomes {
    applied: bool,
    skipped: Vec<Mismatch>,
}

impl Outcomes {
    fn add(&mut self, outcome: Outcome) -> Outcome {
        match outcome {
            Ok(()) => self.applied = true,
            Err(mismatch) if mismatch.is_skip() => self.skipped.push(mismatch),
            Err(mismatch) => return Err(mismatch),
        }
        Ok(())
    }

    fn finish(self, path: &str) -> Outcome {
        if self.applied || self.skipped.is_empty() {
            return Ok(());
        }
        Err(Mismatch::aggregate(path, &self.skipped))
    }
}

/// Compares a scalar of the pattern: every element of a list must match it.
fn scalar(resource: &Data, pattern: &Data, path: &str) -> Outcome {
    let fits = match resource {
        Data::List(elements) => elements.iter().all(|element| scalar::satisfies(element, pattern)),
        _ => scalar::satisfies(resource, pattern),
    };
    if fits {
        return Ok(());
    }
    Err(differs(resource, pattern, path))
}

fn differs(resource: &Data, pattern: &Data, path: &str) -> Mismatch {
    let message = format!(
        "resource value '{}' does not match '{}' at path {path}",
        resource.to_go(),
        pattern.to_go()
    );
    Mismatch::plain(path, message)
}

/// Whether a pattern has anchors at any depth, except those for mutation.
fn has_anchors(pattern: &Data, depth: usize) -> bool {
    if depth > DEPTH {
        return false;
    }
    match pattern {
        Data::Map(entries) => entries.iter().any(|(key, part)| {
            Anchor::parse(key).is_some_and(|anchor| anchor.kind != Kind::AddIfNotPresent)
                || has_anchors(part, depth + 1)
        }),
        Data::List(parts) => parts.iter().any(|part| has_anchors(part, depth + 1)),
        _ => false,
    }
}
