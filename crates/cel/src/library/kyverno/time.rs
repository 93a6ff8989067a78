//! `time.now()`, `time.toCron(t)`, `time.truncate(t, d)`.
//!
//! Upstream counterpart: SDK `libs/time` over Go's `time` package.

use crate::{
    context::Context,
    decl::{Library, global},
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

fn to_cron<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [Val::Timestamp(timestamp)] = args else {
        return NO_SUCH_OVERLOAD;
    };
    let civil = timestamp.local();
    context.string(&format!(
        "{} {} {} {} {}",
        civil.minute, civil.hour, civil.day, civil.month, civil.weekday
    ))
}

fn truncate<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [Val::Timestamp(timestamp), Val::Duration(step)] = args else {
        return NO_SUCH_OVERLOAD;
    };
    Val::Timestamp(timestamp.truncate(*step))
}
