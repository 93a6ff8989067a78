//! Trees with anchors that an object must fit.
//!
//! Upstream counterpart: `pkg/engine/validate/validate.go`, by way of `kyvtest_pattern::tree`: keys with anchors come first in
//! the order of their names, conditions that do not hold skip, and a skipped element of a list counts only if no other fits.

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::scalar::satisfies;
use crate::body::{
    formula::{Arena, Formula, Place},
    shape::Kind,
    text::Predicate,
    value::{Part, Result, Sym, Value, unsupported},
};
use kyvtest_go_compat::text::wildcard;
use kyvtest_kyverno::classic::pattern::{Anchor, AnchorKind};

/// How an object compares; in all other cases it does not fit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fits {
    pub(super) ok: Formula,
    /// A condition itself does not hold.
    pub(super) skip_direct: Formula,
    /// Conditions below do not hold.
    pub(super) skip: Formula,
}

impl Fits {
    const BAD: Self = Self {
        ok: Formula::FALSE,
        skip_direct: Formula::FALSE,
        skip: Formula::FALSE,
    };

    fn or_bad(ok: Formula) -> Self {
        Self { ok, ..Self::BAD }
    }

    fn bad(self, arena: &mut Arena) -> Formula {
        let known = arena.or([self.ok, self.skip_direct, self.skip]);
        arena.not(known)
    }
}

/// Whether a mismatch may be an error of the rule because the key of an anchor is nowhere.
pub(super) fn may_miss_keys(pattern: &Json) -> bool {
    match pattern {
        Json::Object(map) => map.iter().any(|(key, part)| {
            let anchor = Anchor::parse(key);
            anchor.is_some_and(|anchor| matches!(anchor.kind, AnchorKind::Condition | AnchorKind::Existence))
                || may_miss_keys(part)
        }),
        Json::Array(items) => items.iter().any(may_miss_keys),
        _ => false,
    }
}

/// Compares a value with a pattern. Numbers of elements of a loop are floating-point ones, which compares alike.
pub(super) fn compare(arena: &mut Arena, value: &Value, pattern: &Json) -> Result<Fits> {
    let text = pattern.to_string();
    if text.contains("{{") || text.contains("$(") {
        return unsupported("variables in a pattern");
    }
    Walk { depth: 0 }.element(arena, value, pattern)
}

struct Walk {
    depth: u32,
}

impl Walk {
    fn element(&mut self, arena: &mut Arena, value: &Value, pattern: &Json) -> Result<Fits> {
        if self.depth > 40 {
            return unsupported("a pattern that is nested too deeply");
        }
        self.depth += 1;
        let mut all = Fits::BAD;
        for (guard, sym) in &value.0 {
            let own = self.single(arena, sym, pattern)?;
            for (part, own) in [
                (&mut all.ok, own.ok),
                (&mut all.skip_direct, own.skip_direct),
                (&mut all.skip, own.skip),
            ] {
                let own = arena.and([*guard, own]);
                *part = arena.or([*part, own]);
            }
        }
        self.depth -= 1;
        Ok(all)
    }

    fn single(&mut self, arena: &mut Arena, sym: &Sym, pattern: &Json) -> Result<Fits> {
        match pattern {
            Json::Object(entries) => {
                let Sym::At(place) = sym else {
                    return Ok(Fits::BAD);
                };
                let is_map = arena.is_kind(*place, Kind::Map);
                if is_map == Formula::FALSE {
                    return Ok(Fits::BAD);
                }
                let found = self.map(arena, *place, entries)?;
                Ok(guarded(arena, is_map, found))
            }
            Json::Array(items) => {
                let Sym::At(place) = sym else {
                    return Ok(Fits::BAD);
                };
                let is_list = arena.is_kind(*place, Kind::List);
                if is_list == Formula::FALSE {
                    return Ok(Fits::BAD);
                }
                let found = self.list(arena, *place, items)?;
                Ok(guarded(arena, is_list, found))
            }
            scalar => {
                let Sym::At(place) = sym else {
                    let fits = satisfies(arena, sym, scalar)?;
                    return Ok(Fits::or_bad(fits));
                };
                let is_list = arena.is_kind(*place, Kind::List);
                if is_list == Formula::FALSE {
                    let fits = satisfies(arena, sym, scalar)?;
                    return Ok(Fits::or_bad(fits));
                }
                // Of a list every element must satisfy it.
                let every = Self::every(arena, *place, scalar)?;
                let fits = if arena.shape(*place).kinds.is_single() {
                    every
                } else {
                    let every = arena.and([is_list, every]);
                    let single = satisfies(arena, sym, scalar)?;
                    arena.or([every, single])
                };
                Ok(Fits::or_bad(fits))
            }
        }
    }

    fn every(arena: &mut Arena, list: Place, scalar: &Json) -> Result<Formula> {
        let Some(bound) = arena.bound(list, 0) else {
            return unsupported("a pattern for a structure");
        };
        let fits = satisfies(arena, &Sym::At(bound), scalar)?;
        let not = arena.not(fits);
        let some = arena.at_least(list, bound, not, 1);
        Ok(arena.not(some))
    }

    fn map(&mut self, arena: &mut Arena, place: Place, entries: &Map<String, Json>) -> Result<Fits> {
        let mut keys: Vec<(&String, &Json)> = entries.iter().collect();
        keys.sort_by_key(|(key, _)| (*key).clone());
        let (mut applied, mut skipped, mut direct) = (Formula::FALSE, Formula::FALSE, Formula::FALSE);
        // Where the comparison goes on.
        let mut alive = Formula::TRUE;
        let mut later = Vec::new();
        for (key, part) in &keys {
            let anchor = match Anchor::parse(key) {
                Some(anchor) if anchor.comes_first() => anchor,
                other => {
                    later.push((*key, other.filter(|anchor| anchor.kind == AnchorKind::Global), *part));
                    continue;
                }
            };
            let found = self.anchor(arena, anchor, place, part)?;
            let bad = found.bad(arena);
            let not_direct = arena.not(direct);
            let ends = arena.and([bad, not_direct]);
            let goes_on = arena.not(ends);
            alive = arena.and([alive, goes_on]);
            applied = arena.or([applied, found.ok]);
            skipped = arena.or([skipped, found.skip, found.skip_direct]);
            direct = arena.or([direct, found.skip_direct]);
        }
        let none = arena.not(applied);
        let counts = arena.or([none, direct]);
        let mut result = Fits::BAD;
        result.skip = arena.and([alive, skipped, counts]);
        let not = arena.not(result.skip);
        alive = arena.and([alive, not]);
        // Global anchors and what has anchors below it come first, the last of them foremost.
        let (mut ordered, plain): (Vec<_>, Vec<_>) = later
            .into_iter()
            .partition(|(_, global, part)| global.is_some() || has_anchors(part));
        ordered.reverse();
        for (key, global, part) in ordered.into_iter().chain(plain) {
            let found = match global {
                Some(anchor) => self.anchor(arena, anchor, place, part)?,
                None => self.plain(arena, place, key, part)?,
            };
            for (own, all) in [
                (found.skip, &mut result.skip),
                (found.skip_direct, &mut result.skip_direct),
            ] {
                let own = arena.and([alive, own]);
                *all = arena.or([*all, own]);
            }
            alive = arena.and([alive, found.ok]);
        }
        result.ok = alive;
        Ok(result)
    }

    fn anchor(&mut self, arena: &mut Arena, anchor: Anchor<'_>, map: Place, pattern: &Json) -> Result<Fits> {
        if is_metadata(arena, map) && wildcard::has_wildcard(anchor.key) {
            return Self::wild(arena, anchor, map);
        }
        check_metadata(arena, map, anchor.key, pattern)?;
        let missing = Fits {
            ok: Formula::of(anchor.kind != AnchorKind::Condition),
            skip_direct: Formula::of(anchor.kind == AnchorKind::Condition),
            skip: Formula::FALSE,
        };
        let Some(field) = arena.field(map, anchor.key) else {
            return Ok(missing);
        };
        let present = arena.present(field);
        let value = Value::of(Sym::At(field));
        let found = match anchor.kind {
            AnchorKind::Negation => Fits::BAD,
            AnchorKind::Existence => self.existence(arena, field, pattern)?,
            AnchorKind::Condition | AnchorKind::Global => {
                let inner = self.element(arena, &value, pattern)?;
                Fits {
                    ok: inner.ok,
                    skip_direct: arena.not(inner.ok),
                    skip: Formula::FALSE,
                }
            }
            AnchorKind::Equality | AnchorKind::AddIfNotPresent => self.element(arena, &value, pattern)?,
        };
        Ok(Fits {
            ok: arena.choose(present, found.ok, missing.ok),
            skip_direct: arena.choose(present, found.skip_direct, missing.skip_direct),
            skip: arena.choose(present, found.skip, missing.skip),
        })
    }

    /// A key with wildcards among labels or annotations: a negation is violated by any key that fits.
    fn wild(arena: &mut Arena, anchor: Anchor<'_>, map: Place) -> Result<Fits> {
        if anchor.kind != AnchorKind::Negation {
            return unsupported("wildcards in a key of a pattern");
        }
        let Some(entry) = arena.bound(map, 0) else {
            return unsupported("wildcards in a key of a pattern");
        };
        let Some(key) = arena.entry_key(entry) else {
            return unsupported("wildcards in a key of a pattern");
        };
        let fits = arena.text(key, Predicate::Glob(Arc::from(anchor.key)));
        let some = arena.at_least(map, entry, fits, 1);
        Ok(Fits::or_bad(arena.not(some)))
    }

    fn existence(&mut self, arena: &mut Arena, list: Place, pattern: &Json) -> Result<Fits> {
        let is_list = arena.is_kind(list, Kind::List);
        let Some(patterns) = pattern.as_array() else {
            return Ok(Fits::BAD);
        };
        if is_list == Formula::FALSE {
            return Ok(Fits::BAD);
        }
        let mut all = vec![is_list];
        for pattern in patterns {
            if !pattern.is_object() {
                return Ok(Fits::BAD);
            }
            let Some(bound) = arena.bound(list, 0) else {
                return unsupported("a pattern for a structure");
            };
            let found = self.element(arena, &Value::of(Sym::At(bound)), pattern)?;
            all.push(arena.at_least(list, bound, found.ok, 1));
        }
        Ok(Fits::or_bad(arena.and(all)))
    }

    fn plain(&mut self, arena: &mut Arena, map: Place, key: &str, pattern: &Json) -> Result<Fits> {
        if is_metadata(arena, map) && wildcard::has_wildcard(key) {
            return unsupported("wildcards in a key of a pattern");
        }
        check_metadata(arena, map, key, pattern)?;
        let value = match arena.field(map, key) {
            Some(field) => {
                let present = arena.present(field);
                let absent = arena.not(present);
                arena.value([(present, Sym::At(field)), (absent, Sym::Null)])
            }
            None => Value::of(Sym::Null),
        };
        if pattern.as_str() == Some("*") {
            let mut filled = Vec::new();
            for (guard, sym) in &value.0 {
                if let Sym::At(place) = sym {
                    let null = arena.is_kind(*place, Kind::Null);
                    let not = arena.not(null);
                    filled.push(arena.and([*guard, not]));
                }
            }
            return Ok(Fits::or_bad(arena.or(filled)));
        }
        self.element(arena, &value, pattern)
    }

    fn list(&mut self, arena: &mut Arena, list: Place, patterns: &[Json]) -> Result<Fits> {
        let Some(first) = patterns.first() else {
            return Ok(Fits::BAD);
        };
        match first {
            Json::Object(_) => {
                let Some(bound) = arena.bound(list, 0) else {
                    return unsupported("a pattern for a structure");
                };
                let part = Part::each(list, bound);
                let found = self.element(arena, &Value::of(Sym::At(bound)), first)?;
                let bad = found.bad(arena);
                let skips = arena.or([found.skip, found.skip_direct]);
                let any_bad = arena.count(&[(&part, bad)], 1);
                let any_ok = arena.count(&[(&part, found.ok)], 1);
                let any_skip = arena.count(&[(&part, skips)], 1);
                let (fine, none) = (arena.not(any_bad), arena.not(any_skip));
                let applied = arena.or([any_ok, none]);
                let not = arena.not(applied);
                Ok(Fits {
                    ok: arena.and([fine, applied]),
                    skip_direct: Formula::FALSE,
                    skip: arena.and([fine, not]),
                })
            }
            Json::Array(_) => unsupported("a list of lists in a pattern"),
            scalar => {
                let fits = Self::every(arena, list, scalar)?;
                Ok(Fits::or_bad(fits))
            }
        }
    }
}

fn guarded(arena: &mut Arena, guard: Formula, fits: Fits) -> Fits {
    Fits {
        ok: arena.and([guard, fits.ok]),
        skip_direct: arena.and([guard, fits.skip_direct]),
        skip: arena.and([guard, fits.skip]),
    }
}

fn has_anchors(pattern: &Json) -> bool {
    match pattern {
        Json::Object(entries) => entries.iter().any(|(key, part)| {
            Anchor::parse(key).is_some_and(|anchor| anchor.kind != AnchorKind::AddIfNotPresent) || has_anchors(part)
        }),
        Json::Array(items) => items.iter().any(has_anchors),
        _ => false,
    }
}

/// Whether a map is `metadata.labels` or `metadata.annotations`, whose keys may have wildcards.
fn is_metadata(arena: &Arena, map: Place) -> bool {
    let path = arena.generic(map);
    path.ends_with(".metadata.labels") || path.ends_with(".metadata.annotations")
}

/// Labels and annotations of a pattern that are no texts are left out upstream, in a way that is not modelled.
fn check_metadata(arena: &Arena, map: Place, key: &str, pattern: &Json) -> Result<()> {
    let below = arena.generic(map).ends_with(".metadata") && matches!(key, "labels" | "annotations");
    let odd = |map: &Map<String, Json>| map.values().any(|value| !value.is_string());
    if below && pattern.as_object().is_some_and(odd) {
        return unsupported("labels of a pattern that are no texts");
    }
    Ok(())
}
