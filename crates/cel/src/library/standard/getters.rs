//! Fields of timestamps and durations: `getFullYear`, `getHours`, …
//!
//! Upstream counterpart: the time part of cel-go `common/stdlib/standard.go`.

use crate::{
    context::Context,
    decl::{Implementation, Library, member},
    time::{Civil, in_units},
    types::Type::{Duration, Int, String, Timestamp},
    val::{NO_SUCH_OVERLOAD, Val},
};

pub(super) fn declare(library: &mut Library) {
    /// The overloads of one field: in UTC, and in a zone.
    macro_rules! getter {
        ($name:literal, $id:literal, $zoned:literal, $field:expr) => {{
            let implementation: Implementation = |context, args| field(context, args, $field);
            library.add(
                $name,
                [
                    member($id, &[Timestamp], Int).unary(implementation),
                    member($zoned, &[Timestamp, String], Int).binary(implementation),
                ],
            );
        }};
    }
    getter!("getFullYear", "timestamp_to_year", "timestamp_to_year_with_tz", |t| t
        .year);
    getter!("getMonth", "timestamp_to_month", "timestamp_to_month_with_tz", |t| t
        .month
        - 1);
    getter!(
        "getDayOfYear",
        "timestamp_to_day_of_year",
        "timestamp_to_day_of_year_with_tz",
        |t| t.day_of_year
    );
    getter!(
        "getDayOfMonth",
        "timestamp_to_day_of_month",
        "timestamp_to_day_of_month_with_tz",
        |t| t.day - 1
    );
    getter!(
        "getDate",
        "timestamp_to_day_of_month_1_based",
        "timestamp_to_day_of_month_1_based_with_tz",
        |t| t.day
    );
    getter!(
        "getDayOfWeek",
        "timestamp_to_day_of_week",
        "timestamp_to_day_of_week_with_tz",
        |t| t.weekday
    );
    getter!("getHours", "timestamp_to_hours", "timestamp_to_hours_with_tz", |t| t
        .hour);
    getter!(
        "getMinutes",
        "timestamp_to_minutes",
        "timestamp_to_minutes_with_tz",
        |t| t.minute
    );
    getter!("getSeconds", "timestamp_to_seconds", "timestamp_to_seconds_tz", |t| t
        .second);
    getter!(
        "getMilliseconds",
        "timestamp_to_milliseconds",
        "timestamp_to_milliseconds_with_tz",
        |t| t.millisecond
    );

    let duration = |id, implementation| member(id, &[Duration], Int).unary(implementation);
    library.add(
        "getHours",
        [duration("duration_to_hours", |_, args| units(args, 3_600_000_000_000))],
    );
    library.add(
        "getMinutes",
        [duration("duration_to_minutes", |_, args| units(args, 60_000_000_000))],
    );
    library.add(
        "getSeconds",
        [duration("duration_to_seconds", |_, args| units(args, 1_000_000_000))],
    );
    library.add(
        "getMilliseconds",
        [duration("duration_to_milliseconds", |_, args| match args[0] {
            Val::Duration(nanos) => Val::Int(nanos / 1_000_000),
            _ => NO_SUCH_OVERLOAD,
        })],
    );
}

fn field<'a>(context: &Context<'a>, args: &[Val<'a>], field: fn(Civil) -> i64) -> Val<'a> {
    match args {
        [Val::Timestamp(t)] => Val::Int(field(t.utc())),
        [Val::Timestamp(t), Val::String(zone)] => match t.in_zone(zone) {
            Ok(civil) => Val::Int(field(civil)),
            Err(text) => context.error(format_args!("{text}")),
        },
        _ => NO_SUCH_OVERLOAD,
    }
}

fn units<'a>(args: &[Val<'a>], unit: i64) -> Val<'a> {
    match args[0] {
        Val::Duration(nanos) => Val::Int(in_units(nanos, unit) as i64),
        _ => NO_SUCH_OVERLOAD,
    }
}
