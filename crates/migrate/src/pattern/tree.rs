//! Trees with anchors: when an object fits, and when the rule does not concern it.
//!
//! Upstream counterpart: `pkg/engine/validate/validate.go`, by way of `kyvtest_pattern::tree`: keys with anchors come first in
//! the order of their names, conditions that do not hold skip, and a skipped element of a list counts only if no other fits.

use std::{collections::BTreeMap, sync::Arc};

use kyvtest_go_compat::{text::wildcard, value::Data};
use kyvtest_pattern::{Anchor, AnchorKind as Kind, scalar::satisfies};

use super::{
    cond::{Cond, Path, Test},
    scalar::{Scalar, Values, glob},
};
use crate::{
    Expr, Refusal, RefusalCode, Scope,
    known::{Known, Type},
    words,
};

type Entries = BTreeMap<Arc<str>, Data>;

/// How a value compares: it fits, it is skipped, or neither.
#[derive(Debug, Clone)]
pub(super) struct Fits {
    pub(super) ok: Cond,
    /// It fits or is skipped.
    pub(super) good: Cond,
    /// It is skipped.
    pub(super) skip: Cond,
    /// Whether a skip may come from a global anchor below, which skips everything around it.
    global: bool,
}

impl Fits {
    fn plain(ok: Cond) -> Self {
        Self {
            good: ok.clone(),
            ok,
            skip: Cond::FALSE,
            global: false,
        }
    }

    fn skips(&self) -> bool {
        self.skip != Cond::FALSE
    }

    /// The value may be absent, with one of three results: it fits, it is skipped, or neither.
    fn or_absent(self, path: &Path, absent: Absent) -> Self {
        Self {
            ok: Cond::at(path, absent == Absent::Ok, self.ok),
            good: Cond::at(path, absent != Absent::Bad, self.good),
            skip: Cond::at(path, absent == Absent::Skip, self.skip),
            global: self.global,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Absent {
    Ok,
    Skip,
    Bad,
}

impl Absent {
    fn fits(fits: bool) -> Self {
        if fits { Self::Ok } else { Self::Bad }
    }
}

fn refuse(reason: impl Into<String>) -> Refusal {
    Refusal::new(RefusalCode::Pattern, reason)
}

/// Where a value is, and what is known of it.
#[derive(Clone)]
pub(super) struct Value {
    pub(super) path: Path,
    pub(super) known: Known,
    /// Whether the value is `metadata.labels` or `metadata.annotations`, whose keys may have wildcards.
    is_metadata: bool,
    /// Whether the value is a `metadata`.
    has_metadata: bool,
    /// Which texts the value may be, and which its fields.
    values: Values,
    field_values: Values,
}

impl Value {
    pub(super) fn new(path: Path, known: Known) -> Self {
        Self {
            path,
            known,
            is_metadata: false,
            has_metadata: false,
            values: Values::Any,
            field_values: Values::Any,
        }
    }

    fn field(&self, key: &str) -> Self {
        let member = self.known.field(key);
        Self {
            path: self.path.present().field(key, member.always, member.nullable),
            known: member.known,
            is_metadata: self.has_metadata && matches!(key, "labels" | "annotations"),
            has_metadata: key == "metadata",
            values: self.field_values,
            field_values: if self.has_metadata && key == "labels" {
                Values::Labels
            } else {
                Values::Any
            },
        }
    }
}

pub(super) struct Walk<'s> {
    pub(super) scope: &'s Scope,
    pub(super) depth: usize,
}

impl Walk<'_> {
    /// Compares a value that is there.
    pub(super) fn element(&mut self, value: &Value, pattern: &Data) -> Result<Fits, Refusal> {
        if self.depth > 40 {
            return Err(refuse("the pattern is nested more than 40 levels deep"));
        }
        self.depth += 1;
        let fits = match pattern {
            Data::Map(entries) => match value.known.kind() {
                Type::Map => self.map(value, entries),
                Type::Unknown => {
                    let inner = self.map(value, entries)?;
                    Ok(typed(value, "map", inner))
                }
                _ => Ok(Fits::plain(Cond::FALSE)),
            },
            Data::List(items) => match value.known.kind() {
                Type::List => self.list(value, items),
                Type::Unknown => {
                    let inner = self.list(value, items)?;
                    Ok(typed(value, "list", inner))
                }
                _ => Ok(Fits::plain(Cond::FALSE)),
            },
            scalar => self.scalar(value, scalar),
        };
        self.depth -= 1;
        fits
    }

    /// A scalar: of a list, every element must satisfy it.
    fn scalar(&mut self, value: &Value, pattern: &Data) -> Result<Fits, Refusal> {
        let path = value.path.present();
        Ok(Fits::plain(match value.known.kind() {
            Type::List => self.each(value, pattern)?,
            Type::Unknown => {
                let scalar = tested(path.clone(), Scalar::new(pattern, &value.known)?);
                let list = Cond::all([is(&path, "list"), self.each(value, pattern)?]);
                Cond::any([scalar, list])
            }
            _ => tested(path, Scalar::of_values(pattern, &value.known, value.values)?),
        }))
    }

    fn map(&mut self, value: &Value, entries: &Entries) -> Result<Fits, Refusal> {
        let (mut conditions, mut others, mut later) = (Vec::new(), Vec::new(), Vec::new());
        for (key, part) in entries {
            match Anchor::parse(key) {
                Some(anchor) if anchor.comes_first() => {
                    let fits = self.anchor(anchor, value, part)?;
                    if anchor.kind == Kind::Condition {
                        conditions.push(fits.ok);
                    } else {
                        others.push(fits);
                    }
                }
                other => later.push((key, other.filter(|anchor| anchor.kind == Kind::Global), part)),
            }
        }
        if others.iter().any(|fits| fits.global) {
            return Err(refuse("a global anchor is below an anchor of another kind"));
        }
        let rest = self.later(value, later)?;
        let goods = || Cond::all(others.iter().map(|fits| fits.good.clone()));
        // A list whose elements are all skipped skips the map only if no other anchor applies.
        let rest = if conditions.is_empty() && !others.is_empty() && others.iter().all(Fits::skips) {
            let skipped = Cond::all(others.iter().map(|fits| fits.skip.clone()));
            let oks = if let [one] = others.as_slice() {
                one.ok.clone()
            } else {
                Cond::all([goods(), skipped.clone().negate()])
            };
            Fits {
                ok: Cond::all([oks.clone(), rest.ok]),
                good: if rest.good == Cond::TRUE {
                    goods()
                } else {
                    Cond::any([skipped.clone(), Cond::all([oks.clone(), rest.good])])
                },
                skip: Cond::any([skipped, Cond::all([oks, rest.skip])]),
                global: rest.global,
            }
        } else {
            Fits {
                ok: Cond::all([goods(), rest.ok]),
                good: Cond::all([goods(), rest.good]),
                skip: Cond::all([goods(), rest.skip]),
                global: rest.global,
            }
        };
        if conditions.is_empty() {
            return Ok(rest);
        }
        let met = Cond::all(conditions);
        let unmet = met.clone().negate();
        Ok(Fits {
            ok: Cond::all([met.clone(), rest.ok]),
            good: Cond::any([unmet.clone(), rest.good]),
            skip: Cond::any([unmet, Cond::all([met, rest.skip])]),
            global: rest.global,
        })
    }

    /// Keys without anchors and global anchors, in the order in which they decide.
    fn later(&mut self, value: &Value, later: Vec<(&Arc<str>, Option<Anchor<'_>>, &Data)>) -> Result<Fits, Refusal> {
        // Global anchors and what has anchors below it come first, the last of them foremost.
        let (mut ordered, plain): (Vec<_>, Vec<_>) = later
            .into_iter()
            .partition(|(_, global, part)| global.is_some() || has_anchors(part));
        ordered.reverse();
        let mut all = Vec::new();
        for (key, global, part) in ordered.into_iter().chain(plain) {
            all.push(match global {
                Some(anchor) => self.anchor(anchor, value, part)?,
                None => self.plain(value, key, part)?,
            });
        }
        // The first that does not fit decides.
        let mut rest = Fits::plain(Cond::TRUE);
        for fits in all.into_iter().rev() {
            let good = if !fits.skips() {
                Cond::all([fits.ok.clone(), rest.good])
            } else if rest.good == Cond::TRUE {
                fits.good.clone()
            } else {
                Cond::any([fits.skip.clone(), Cond::all([fits.ok.clone(), rest.good])])
            };
            rest = Fits {
                good,
                skip: Cond::any([fits.skip, Cond::all([fits.ok.clone(), rest.skip])]),
                ok: Cond::all([fits.ok, rest.ok]),
                global: fits.global || rest.global,
            };
        }
        Ok(rest)
    }

    fn anchor(&mut self, anchor: Anchor<'_>, value: &Value, pattern: &Data) -> Result<Fits, Refusal> {
        if value.is_metadata && wildcard::has_wildcard(anchor.key) {
            if anchor.kind != Kind::Negation {
                return Err(refuse(format!("the key `{}` has wildcards", anchor.key)));
            }
            // A negation is violated by any key that fits.
            let (_, name) = self.scope.enter("key");
            let fits = Cond::Raw(glob(&Expr::primary(name.as_str()), anchor.key));
            return Ok(Fits::plain(
                Cond::At {
                    path: value.path.present(),
                    absent: false,
                    test: Test::Some(name, Box::new(fits)),
                }
                .negate(),
            ));
        }
        check_metadata(value, anchor.key, pattern)?;
        let field = value.field(anchor.key);
        let there = || Cond::at(&field.path, false, Cond::TRUE);
        Ok(match anchor.kind {
            Kind::Negation => Fits::plain(there().negate()),
            Kind::Existence => self.existence(&field, pattern)?.or_absent(&field.path, Absent::Ok),
            Kind::Equality | Kind::AddIfNotPresent => self.element(&field, pattern)?.or_absent(&field.path, Absent::Ok),
            Kind::Condition => {
                let ok = self.element(&field, pattern)?.ok;
                Fits::plain(Cond::at(&field.path, false, ok))
            }
            Kind::Global => {
                let ok = self.element(&field, pattern)?.ok;
                let ok = Cond::at(&field.path, true, ok);
                Fits {
                    skip: ok.clone().negate(),
                    good: Cond::TRUE,
                    ok,
                    global: true,
                }
            }
        })
    }

    fn existence(&mut self, list: &Value, pattern: &Data) -> Result<Fits, Refusal> {
        let Data::List(patterns) = pattern else {
            return Ok(Fits::plain(Cond::FALSE));
        };
        let mut all = Vec::new();
        match list.known.kind() {
            Type::List => {}
            Type::Unknown => all.push(is(&list.path.present(), "list")),
            _ => return Ok(Fits::plain(Cond::FALSE)),
        }
        for pattern in patterns.iter() {
            if !matches!(pattern, Data::Map(_)) {
                return Ok(Fits::plain(Cond::FALSE));
            }
            let (name, fits) = self.over(list, pattern)?;
            all.push(Cond::At {
                path: list.path.present(),
                absent: false,
                test: Test::Some(name, Box::new(fits.ok)),
            });
        }
        Ok(Fits::plain(Cond::all(all)))
    }

    /// Compares the elements of a list: the name of the variable, and the comparison.
    fn over(&mut self, list: &Value, pattern: &Data) -> Result<(String, Fits), Refusal> {
        let (inner, name) = self.scope.enter(&word(&list.path));
        let element = Value::new(Path::new(Expr::primary(name.as_str())), list.known.element());
        let mut walk = Walk {
            scope: &inner,
            depth: self.depth,
        };
        let fits = walk.element(&element, pattern)?;
        Ok((name, fits))
    }

    fn plain(&mut self, value: &Value, key: &str, pattern: &Data) -> Result<Fits, Refusal> {
        if value.is_metadata && wildcard::has_wildcard(key) {
            return Err(refuse(format!("the key `{key}` has wildcards")));
        }
        check_metadata(value, key, pattern)?;
        let field = value.field(key);
        if pattern.as_str() == Some("*") {
            // A value of a custom resource may be null.
            let not_null = match field.known.kind() {
                Type::Unknown => Cond::Raw(field.path.present().plain().relation("!=", &Expr::primary("null"))),
                _ => Cond::TRUE,
            };
            return Ok(Fits::plain(Cond::at(&field.path, false, not_null)));
        }
        let absent = match pattern {
            Data::Map(_) | Data::List(_) => Absent::Bad,
            scalar => Absent::fits(satisfies(&Data::Null, scalar)),
        };
        Ok(self.element(&field, pattern)?.or_absent(&field.path, absent))
    }

    fn list(&mut self, list: &Value, patterns: &[Data]) -> Result<Fits, Refusal> {
        match patterns.first() {
            None => Ok(Fits::plain(Cond::FALSE)),
            Some(first @ Data::Map(_)) => {
                let (name, fits) = self.over(list, first)?;
                let path = list.path.present();
                let each = |body: &Cond| match body {
                    Cond::Known(true) => Cond::TRUE,
                    body => Cond::At {
                        path: path.clone(),
                        absent: true,
                        test: Test::Each(name.clone(), Box::new(body.clone())),
                    },
                };
                if !fits.skips() {
                    return Ok(Fits::plain(each(&fits.ok)));
                }
                let good = each(&fits.good);
                let skipped = each(&fits.skip);
                // An empty list skips nothing.
                let skip = if list.known.nonzero {
                    skipped
                } else {
                    let size = Expr::function("size", [path.plain()]);
                    Cond::all([Cond::Raw(size.relation(">", &Expr::int(0))), skipped])
                };
                Ok(Fits {
                    ok: Cond::all([good.clone(), skip.clone().negate()]),
                    good,
                    skip,
                    global: fits.global,
                })
            }
            Some(Data::List(_)) => Err(refuse("a list of lists")),
            Some(scalar) => Ok(Fits::plain(self.each(list, scalar)?)),
        }
    }

    /// Every element of a list satisfies a scalar.
    fn each(&mut self, list: &Value, scalar: &Data) -> Result<Cond, Refusal> {
        let (_, name) = self.scope.enter(&word(&list.path));
        let scalar = Scalar::new(scalar, &list.known.element())?;
        let body = tested(Path::new(Expr::primary(name.as_str())), scalar);
        Ok(Cond::At {
            path: list.path.present(),
            absent: false,
            test: Test::Each(name, Box::new(body)),
        })
    }
}

/// A word for the elements of a list.
fn word(list: &Path) -> String {
    list.last().map_or_else(|| words::ITEM.to_owned(), words::singular)
}

fn tested(path: Path, scalar: Scalar) -> Cond {
    match scalar.as_known() {
        Some(known) => Cond::Known(known),
        None => Cond::At {
            path,
            absent: false,
            test: Test::Scalar(scalar),
        },
    }
}

/// Whether a value has a type.
fn is(path: &Path, kind: &str) -> Cond {
    let of = Expr::function("type", [path.plain()]);
    Cond::Raw(of.relation("==", &Expr::primary(kind)))
}

/// What holds only of values of one type.
fn typed(value: &Value, kind: &str, fits: Fits) -> Fits {
    let guard = is(&value.path.present(), kind);
    let all = |part: Cond| Cond::all([guard.clone(), part]);
    Fits {
        ok: all(fits.ok),
        good: all(fits.good),
        skip: if fits.skip == Cond::FALSE {
            Cond::FALSE
        } else {
            all(fits.skip)
        },
        global: fits.global,
    }
}

fn has_anchors(pattern: &Data) -> bool {
    match pattern {
        Data::Map(entries) => entries.iter().any(|(key, part)| {
            Anchor::parse(key).is_some_and(|anchor| anchor.kind != Kind::AddIfNotPresent) || has_anchors(part)
        }),
        Data::List(parts) => parts.iter().any(has_anchors),
        _ => false,
    }
}

/// Labels and annotations of a pattern that are no texts are left out upstream.
fn check_metadata(value: &Value, key: &str, pattern: &Data) -> Result<(), Refusal> {
    let below = value.has_metadata && matches!(key, "labels" | "annotations");
    let odd = |map: &Entries| map.values().any(|part| part.as_str().is_none());
    if below && pattern.as_map().is_some_and(odd) {
        return Err(refuse(format!("`metadata.{key}` has values that are not strings")));
    }
    Ok(())
}
