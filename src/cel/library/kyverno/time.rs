//! `time.now()`, `time.toCron(t)`, `time.truncate(t, d)`.
//!
//! Upstream counterpart: SDK `libs/time` over Go's `time` package.

use crate::cel::{
    context::Context,
    decl::{Library, global},
    time::Timestamp,
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};

pub(super) fn declare(library: &mut Library) {
    library.add("time.now", [global("time_now", &[], Type::Timestamp).variadic(now)]);
    library.add(
        "time.toCron",
        [global("time_to_cron", &[Type::Timestamp], Type::String).unary(to_cron)],
    );
    library.add(
        "time.truncate",
        [global("time_truncate", &[Type::Timestamp, Type::Duration], Type::Timestamp).binary(truncate)],
    );
}

fn now<'a>(context: &Context<'a>, _: &[Val<'a>]) -> Val<'a> {
    match context.host.now() {
        Some(now) => Val::Timestamp(now),
        None => Val::Error("no clock for `time.now`"),
    }
}

/// The parts of a point in time, in the zone it was written with.
struct Civil {
    year: i64,
    month: i64,
    day: i64,
    weekday: i64,
    second_of_day: i64,
}

/// Days from 0000-03-01 to 1970-01-01 in the Gregorian calendar.
const DAYS_TO_1970: i64 = 719_468;
const DAYS_IN_400_YEARS: i64 = 146_097;

fn civil(timestamp: Timestamp) -> Civil {
    let local = timestamp.seconds.saturating_add(i64::from(timestamp.offset));
    let (days, second_of_day) = (local.div_euclid(86_400), local.rem_euclid(86_400));
    // Years begin in March here, so that the leap day is the last of its year.
    let shifted = days + DAYS_TO_1970;
    let (era, day_of_era) = (shifted.div_euclid(DAYS_IN_400_YEARS), shifted.rem_euclid(DAYS_IN_400_YEARS));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    Civil {
        year: era * 400 + year_of_era + i64::from(month <= 2),
        month,
        day: day_of_year - (153 * shifted_month + 2) / 5 + 1,
        weekday: (days + 4).rem_euclid(7),
        second_of_day,
    }
}

fn to_cron<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [Val::Timestamp(timestamp)] = args else { return NO_SUCH_OVERLOAD };
    let civil = civil(*timestamp);
    let (hour, minute) = (civil.second_of_day / 3_600, civil.second_of_day / 60 % 60);
    context.string(&format!("{minute} {hour} {} {} {}", civil.day, civil.month, civil.weekday))
}

/// Seconds from the year 1, where Go starts to count, to 1970.
const SECONDS_TO_1970: i128 = 62_135_596_800;
const NANOS: i128 = 1_000_000_000;

fn truncate<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [Val::Timestamp(timestamp), Val::Duration(step)] = args else { return NO_SUCH_OVERLOAD };
    if *step <= 0 {
        return Val::Timestamp(*timestamp);
    }
    let since_year_1 = (i128::from(timestamp.seconds) + SECONDS_TO_1970) * NANOS + i128::from(timestamp.nanos);
    let truncated = since_year_1 - since_year_1.rem_euclid(i128::from(*step));
    Val::Timestamp(Timestamp {
        seconds: (truncated.div_euclid(NANOS) - SECONDS_TO_1970) as i64,
        nanos: truncated.rem_euclid(NANOS) as u32,
        offset: timestamp.offset,
    })
}

/// A point in time as Go's layout RFC3339Nano prints it.
pub(super) fn timestamp_text(timestamp: Timestamp) -> String {
    let civil = civil(timestamp);
    let second = civil.second_of_day;
    let mut text = format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        civil.year,
        civil.month,
        civil.day,
        second / 3_600,
        second / 60 % 60,
        second % 60
    );
    if timestamp.nanos != 0 {
        let fraction = format!("{:09}", timestamp.nanos);
        text.push('.');
        text.push_str(fraction.trim_end_matches('0'));
    }
    if timestamp.offset == 0 {
        text.push('Z');
    } else {
        let minutes = timestamp.offset.abs() / 60;
        let sign = if timestamp.offset < 0 { '-' } else { '+' };
        text.push_str(&format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60));
    }
    text
}

/// A duration as `string(d)` prints it: seconds in decimal digits.
pub(super) fn duration_text(nanos: i64) -> String {
    // Go adds the whole seconds and the fraction as doubles.
    let seconds = (nanos / 1_000_000_000) as f64 + (nanos % 1_000_000_000) as f64 / 1e9;
    format!("{seconds}s")
}
