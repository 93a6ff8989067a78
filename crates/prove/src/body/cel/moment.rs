//! Durations and points in time, in a form that keeps their order.
//!
//! A duration is its number of nanoseconds. A point in time is its number of half seconds since 1970: an even number is a whole
//! second, and the odd one after it is everything before the next second, so that comparisons with whole seconds are exact.
//!
//! Upstream counterpart: cel-go `common/types/{duration,timestamp}.go`, by way of `kyvtest_cel::ops`.

use kyvtest_go_compat::text::{duration, time::Timestamp};

use super::Reader;
use crate::body::{
    formula::{Formula, Place},
    shape::{Inner, Kind, Shape},
    value::{Conversion, Moment, Result, Steps, Sym, Value, unsupported},
};

const NANOSECONDS: i64 = 1_000_000_000;

/// The half seconds of the years 1 to 9999.
const YEARS: (i64, i64) = (2 * -62_135_596_800, 2 * 253_402_300_799 + 1);

/// A point in time that is a whole second.
pub(super) fn timestamp(time: Timestamp) -> Option<Sym> {
    let (seconds, nanos) = time.instant();
    (nanos == 0).then_some(Sym::Moment(Moment {
        duration: false,
        at: None,
        plus: 2 * seconds,
    }))
}

pub(super) fn span(nanoseconds: i64) -> Sym {
    Sym::Moment(Moment {
        duration: true,
        at: None,
        plus: nanoseconds,
    })
}

/// Whole hours, minutes or seconds of a duration, or the year of a point in time; `None` if it is not modelled.
pub(super) fn steps(name: &str, moment: Moment) -> Option<Sym> {
    let place = moment.at.filter(|_| moment.plus == 0)?;
    let unit = match (name, moment.duration) {
        ("getHours", true) => Steps::Unit(3_600 * NANOSECONDS),
        ("getMinutes", true) => Steps::Unit(60 * NANOSECONDS),
        ("getSeconds", true) => Steps::Unit(NANOSECONDS),
        ("getFullYear", false) => Steps::Year,
        _ => return None,
    };
    Some(Sym::Steps(place, unit))
}

impl Reader<'_, '_> {
    /// A call whose result is a duration or a point in time.
    pub(super) fn moment(&mut self, name: &str, args: &[Sym], is_duration: bool) -> Result<Value> {
        match (name, args) {
            ("duration", [Sym::Text(text)]) => {
                return Ok(duration::parse(text).map_or(Value::error(), |nanoseconds| Value::of(span(nanoseconds))));
            }
            ("timestamp", [Sym::Text(text)]) => {
                let time = Timestamp::parse(text).filter(|time| time.is_in_range());
                match time.map(timestamp) {
                    Some(Some(moment)) => return Ok(Value::of(moment)),
                    Some(None) => {}
                    None => return Ok(Value::error()),
                }
            }
            ("duration" | "timestamp", [Sym::Moment(_)]) => return Ok(Value::of(args[0].clone())),
            _ => {}
        }
        let (low, high) = if is_duration { (i64::MIN, i64::MAX) } else { YEARS };
        let value = self.unknown(name, args, Shape::of(Kind::Int, Inner::Int(low, high)))?;
        let conversion = if is_duration {
            Conversion::Duration
        } else {
            Conversion::Time
        };
        if matches!(name, "duration" | "timestamp") {
            self.note_conversion(args, &value, conversion);
        }
        let cases = value.0.into_iter().map(|(guard, sym)| match sym {
            Sym::At(place) => (
                guard,
                Sym::Moment(Moment {
                    duration: is_duration,
                    at: Some(place),
                    plus: 0,
                }),
            ),
            sym => (guard, sym),
        });
        Ok(Value(cases.collect()))
    }

    /// Remembers which text a value was read from, so that a text can be made for a value.
    pub(super) fn note_conversion(&mut self, args: &[Sym], value: &Value, conversion: Conversion) {
        let made = value.0.iter().find_map(|(guard, sym)| match sym {
            Sym::At(place) => Some((*guard, *place)),
            _ => None,
        });
        if let ([Sym::At(source)], Some((fine, place))) = (args, made) {
            self.arena.note_conversion(place, *source, fine, conversion);
        }
    }

    /// `a < b` or `a <= b`, of two durations or of two points in time.
    pub(super) fn moment_order(&mut self, a: Moment, b: Moment, or_equal: bool) -> Result<Formula> {
        let sum = |a: i64, b: i64| match a.checked_sub(b) {
            Some(difference) => Ok(difference),
            None => unsupported("a sum of large numbers"),
        };
        Ok(match (a.at, b.at) {
            (None, None) => Formula::of(if or_equal { a.plus <= b.plus } else { a.plus < b.plus }),
            (Some(place), None) => {
                let most = sum(b.plus, a.plus)?;
                self.most(place, most, or_equal)?
            }
            (None, Some(place)) => {
                let most = sum(a.plus, b.plus)?;
                let below = self.most(place, most, !or_equal)?;
                self.arena.not(below)
            }
            (Some(first), Some(second)) => self.integer_order((first, a.plus), (second, b.plus), or_equal)?,
        })
    }

    fn most(&mut self, place: Place, number: i64, or_equal: bool) -> Result<Formula> {
        match number.checked_sub(i64::from(!or_equal)) {
            Some(number) => Ok(self.arena.at_most(place, number)),
            None => Ok(Formula::FALSE),
        }
    }

    pub(super) fn moments_equal(&mut self, a: Moment, b: Moment) -> Result<Formula> {
        if a.duration != b.duration {
            return Ok(Formula::FALSE);
        }
        if !a.duration && a.at.is_some() && b.at.is_some() && a != b {
            // Two points in time between the same seconds need not be equal.
            return unsupported("two points in time compared for equality");
        }
        let (less, more) = (self.moment_order(a, b, true)?, self.moment_order(b, a, true)?);
        Ok(self.arena.and([less, more]))
    }

    /// A duration or a point in time plus a constant duration; `None` if it is not modelled.
    pub(super) fn moment_plus(&mut self, a: Moment, nanoseconds: i64) -> Option<Value> {
        let (step, (low, high)) = if a.duration {
            (nanoseconds, (i64::MIN, i64::MAX))
        } else if nanoseconds % NANOSECONDS == 0 {
            (nanoseconds / NANOSECONDS * 2, YEARS)
        } else {
            return None;
        };
        let plus = a.plus.checked_add(step)?;
        let Some(place) = a.at else {
            let fits = (low..=high).contains(&plus);
            return Some(if fits {
                Value::of(Sym::Moment(Moment { plus, ..a }))
            } else {
                Value::error()
            });
        };
        if a.plus != 0 {
            return None;
        }
        let fits = if plus >= 0 {
            self.arena.at_most(place, high.checked_sub(plus)?)
        } else {
            let below = self.arena.at_most(place, low.checked_sub(plus)?.checked_sub(1)?);
            self.arena.not(below)
        };
        let overflow = self.arena.not(fits);
        Some(
            self.arena
                .value([(fits, Sym::Moment(Moment { plus, ..a })), (overflow, Sym::Error)]),
        )
    }

    /// Whether there are at least N steps.
    pub(super) fn steps_at_least(&mut self, place: Place, steps: Steps, count: i64) -> Result<Formula> {
        let least = match steps {
            Steps::Square if count <= 0 => return Ok(Formula::TRUE),
            Steps::Square => {
                // The least number whose square is large enough, or the negative one.
                let root = i64::try_from((count - 1).unsigned_abs().isqrt()).unwrap_or(i64::MAX) + 1;
                let less = self.arena.at_most(place, root - 1);
                let (large, negative) = (self.arena.not(less), self.arena.at_most(place, -root));
                return Ok(self.arena.or([large, negative]));
            }
            Steps::Times(_) if count.unsigned_abs() > 1 << 62 => return Ok(Formula::of(count < 0)),
            Steps::Times(factor) if factor < 0 => {
                return Ok(self.arena.at_most(place, (-count).div_euclid(-factor)));
            }
            Steps::Times(factor) => -(-count).div_euclid(factor),
            // Fractions are cut off, also those of negative numbers.
            Steps::Over(_) if count.unsigned_abs() > 1 << 32 => return Ok(Formula::of(count < 0)),
            Steps::Over(divisor) if count > 0 => count * divisor,
            Steps::Over(divisor) => (count - 1) * divisor + 1,
            Steps::Unit(unit) => {
                // Upstream counts with floating-point numbers, which are exact for numbers that are not large.
                let exact = 1_000_000 / (unit / NANOSECONDS);
                if count.abs() > exact {
                    return unsupported("a large number of hours, minutes or seconds");
                }
                // Fractions are cut off, also those of negative durations.
                if count > 0 {
                    count * unit
                } else {
                    (count - 1) * unit + 1
                }
            }
            Steps::Year if count <= 1 => return Ok(Formula::TRUE),
            Steps::Year if count > 9_999 => return Ok(Formula::FALSE),
            Steps::Year => match Timestamp::parse(&format!("{count:04}-01-01T00:00:00Z")) {
                Some(time) => 2 * time.instant().0,
                None => return unsupported("a year"),
            },
        };
        let less = self.arena.at_most(place, least - 1);
        Ok(self.arena.not(less))
    }
}
