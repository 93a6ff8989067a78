//! Kyverno's functions on times: RFC 3339 unless a layout is given.
//!
//! Upstream counterpart: Kyverno `pkg/engine/jmespath/time.go`.
//!
//! Deviation: the local zone of `time_now` is UTC.

use super::{Call, data, refused};
use crate::{Error, interpreter::ItemResult};
use kyvtest_go_compat::text::{
    duration, number,
    time::Timestamp,
    time_layout::{self, RFC3339},
};

const NANOS: i128 = 1_000_000_000;

fn read(layout: &str, text: &str) -> Result<Timestamp, Error> {
    time_layout::parse(layout, text).map_err(Error::Function)
}

fn time(call: &Call<'_, '_>, index: usize) -> Result<Timestamp, Error> {
    read(RFC3339, call.text(index)?)
}

fn duration_of(call: &Call<'_, '_>, index: usize) -> Result<i64, Error> {
    duration::parse(call.text(index)?).map_err(|error| Error::Function(error.to_string()))
}

/// The layout RFC 3339 has no fraction.
fn show(time: Timestamp) -> ItemResult<'static> {
    data(Timestamp { nanos: 0, ..time }.to_string())
}

/// The duration between two times; saturates like Go's.
fn between_times(from: Timestamp, to: Timestamp) -> i64 {
    let nanos = |time: Timestamp| i128::from(time.seconds) * NANOS + i128::from(time.nanos);
    let between = nanos(to) - nanos(from);
    i64::try_from(between).unwrap_or(if between < 0 { i64::MIN } else { i64::MAX })
}

fn clock(call: &Call<'_, '_>) -> Result<Timestamp, Error> {
    match call.interpreter.context.now {
        Some(now) => Ok(now.to_utc()),
        None => refused("no clock for `time_now`"),
    }
}

pub(super) fn now<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    show(clock(call)?)
}

pub(super) fn since<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let layout = match call.text(0)? {
        "" => RFC3339,
        layout => layout,
    };
    let from = read(layout, call.text(1)?)?;
    let to = match call.text(2)? {
        "" => clock(call)?,
        text => read(layout, text)?,
    };
    data(duration::format(between_times(from, to)))
}

pub(super) fn diff<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let from = time(call, 0)?;
    let to = time(call, 1)?;
    data(duration::format(between_times(from, to)))
}

pub(super) fn before<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let first = time(call, 0)?;
    data(first.instant() < time(call, 1)?.instant())
}

pub(super) fn after<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let first = time(call, 0)?;
    data(first.instant() > time(call, 1)?.instant())
}

pub(super) fn between<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let at = time(call, 0)?.instant();
    let start = time(call, 1)?.instant();
    let end = time(call, 2)?.instant();
    data(start < at && at < end)
}

pub(super) fn add<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let time = time(call, 0)?;
    let nanos = i128::from(time.seconds) * NANOS + i128::from(time.nanos) + i128::from(duration_of(call, 1)?);
    show(Timestamp {
        seconds: nanos.div_euclid(NANOS) as i64,
        nanos: nanos.rem_euclid(NANOS) as u32,
        offset: time.offset,
    })
}

pub(super) fn truncate<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let time = time(call, 0)?;
    show(time.truncate(duration_of(call, 1)?))
}

pub(super) fn utc<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    show(time(call, 0)?.to_utc())
}

pub(super) fn to_cron<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let civil = time(call, 0)?.local();
    data(format!(
        "{} {} {} {} {}",
        civil.minute, civil.hour, civil.day, civil.month, civil.weekday
    ))
}

pub(super) fn parse<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let layout = call.text(0)?;
    let text = call.text(1)?;
    if number::parse_int(layout, 10, 64).is_err() {
        return show(read(layout, text)?);
    }
    // A layout that is a number: seconds since 1970.
    match number::parse_int(text, 10, 64) {
        Ok(seconds) => show(Timestamp {
            seconds,
            nanos: 0,
            offset: 0,
        }),
        Err(error) => refused(error.to_string()),
    }
}
