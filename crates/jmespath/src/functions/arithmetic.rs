//! Arithmetic on numbers, Kubernetes quantities and Go durations.
//!
//! Upstream counterpart: Kyverno `pkg/engine/jmespath/arithmetic.go`. A string is a quantity if it parses as one,
//! otherwise a duration.

use super::{Call, collections::integer, data, failed, refused};
use crate::{Error, interpreter::ItemResult, item::Item};
use kyvtest_go_compat::{
    text::{duration, float, quantity::Quantity},
    value::Data,
};

enum Operand {
    Scalar(f64),
    Quantity(Quantity),
    Duration(i64),
}

use Operand::{Duration, Scalar};

fn operand(item: &Item<'_>, function: &str) -> Result<Operand, Error> {
    match item {
        Item::Data(Data::Double(number)) => return Ok(Scalar(*number)),
        Item::Data(Data::String(text)) => {
            if let Ok(quantity) = Quantity::parse(text) {
                return Ok(Operand::Quantity(quantity));
            }
            if let Ok(nanos) = duration::parse(text) {
                return Ok(Duration(nanos));
            }
        }
        _ => {}
    }
    failed(function, "invalid operand")
}

fn operands(call: &Call<'_, '_>, function: &str) -> Result<(Operand, Operand), Error> {
    Ok((operand(call.arg(0), function)?, operand(call.arg(1), function)?))
}

fn mismatch(function: &str) -> ItemResult<'static> {
    failed(function, "Types mismatch")
}

fn zero_divisor(function: &str) -> ItemResult<'static> {
    failed(function, "Zero divisor passed")
}

/// A duration of seconds as a float, as Go converts it.
fn seconds(seconds: f64) -> ItemResult<'static> {
    data(duration::format(float::truncate(seconds * 1e9)))
}

/// Converts a float to a quantity by way of its text.
fn as_quantity(number: f64) -> Result<Quantity, Error> {
    Quantity::parse(&float::display(number)).map_err(|error| Error::Function(error.to_string()))
}

fn plus(left: &Item<'_>, right: &Item<'_>, function: &str) -> Result<Data, Error> {
    let result = match (operand(left, function)?, operand(right, function)?) {
        (Operand::Quantity(a), Operand::Quantity(b)) => Data::from(a.add(&b).to_string()),
        (Duration(a), Duration(b)) => Data::from(duration::format(a.wrapping_add(b))),
        (Scalar(a), Scalar(b)) => Data::from(a + b),
        _ => return failed(function, "Types mismatch"),
    };
    Ok(result)
}

pub(super) fn add<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    Ok(Item::Data(plus(call.arg(0), call.arg(1), "add")?))
}

pub(super) fn sum<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let Item::Data(Data::List(items)) = call.arg(0) else {
        return mismatch("sum");
    };
    call.interpreter.charge(items.len())?;
    let Some((first, rest)) = items.split_first() else {
        return failed("sum", "at least one element in the array is required");
    };
    let mut sum = first.clone();
    for item in rest {
        sum = plus(&Item::Data(sum), &Item::Data(item.clone()), "sum")?;
    }
    Ok(Item::Data(sum))
}

pub(super) fn subtract<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    match operands(call, "subtract")? {
        (Operand::Quantity(a), Operand::Quantity(b)) => data(a.sub(&b).to_string()),
        (Duration(a), Duration(b)) => data(duration::format(a.wrapping_sub(b))),
        (Scalar(a), Scalar(b)) => data(a - b),
        _ => mismatch("subtract"),
    }
}

pub(super) fn multiply<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    match operands(call, "multiply")? {
        (Operand::Quantity(quantity), Scalar(number)) | (Scalar(number), Operand::Quantity(quantity)) => {
            data(quantity.mul(&as_quantity(number)?).to_string())
        }
        (Duration(nanos), Scalar(number)) | (Scalar(number), Duration(nanos)) => {
            seconds(duration::seconds(nanos) * number)
        }
        (Scalar(a), Scalar(b)) => data(a * b),
        _ => mismatch("multiply"),
    }
}

pub(super) fn divide<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    match operands(call, "divide")? {
        (_, Scalar(0.0)) => zero_divisor("divide"),
        (Operand::Quantity(a), Operand::Quantity(b)) => {
            let divisor = b.approximate();
            if divisor == 0.0 {
                return zero_divisor("divide");
            }
            data(a.approximate() / divisor)
        }
        (Operand::Quantity(quantity), Scalar(number)) => match quantity.div(&as_quantity(number)?) {
            Some(quotient) => data(quotient.to_string()),
            None => super::panic("division by zero"),
        },
        (Duration(a), Duration(b)) => {
            let divisor = duration::seconds(b);
            if divisor == 0.0 {
                return zero_divisor("divide");
            }
            data(duration::seconds(a) / divisor)
        }
        (Duration(nanos), Scalar(number)) => seconds(duration::seconds(nanos) / number),
        (Scalar(a), Scalar(b)) => data(a / b),
        _ => mismatch("divide"),
    }
}

/// The remainder of two floats that are integers.
fn remainder(a: f64, b: f64) -> Result<i64, Error> {
    let (whole_a, whole_b) = (float::truncate(a), float::truncate(b));
    if a != whole_a as f64 || b != whole_b as f64 {
        return failed("modulo", "Non-integer argument(s) passed for modulo");
    }
    if whole_b == 0 {
        return failed("modulo", "Zero divisor passed");
    }
    Ok(whole_a.wrapping_rem(whole_b))
}

pub(super) fn modulo<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    match operands(call, "modulo")? {
        (Operand::Quantity(a), Operand::Quantity(b)) => {
            let float =
                |quantity: &Quantity| Quantity::from_decimal(quantity.to_decimal(), quantity.format()).approximate();
            let remainder = remainder(float(&a), float(&b))?;
            data(Quantity::new(remainder, a.format()).to_string())
        }
        (Duration(_), Duration(0)) => zero_divisor("modulo"),
        (Duration(a), Duration(b)) => data(duration::format(a.wrapping_rem(b))),
        (Scalar(a), Scalar(b)) => data(remainder(a, b)? as f64),
        _ => mismatch("modulo"),
    }
}

pub(super) fn round<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let number = call.number(0)?;
    let Ok(digits) = integer(call.number(1)?) else {
        return failed("round", "Non-integer argument(s) passed for round off");
    };
    if digits < 0 {
        // Upstream's message lacks the number of the argument.
        return refused("JMESPath function 'round': %!d(MISSING) argument is out of bounds (%!d(MISSING))");
    }
    let shift = power_of_ten(digits as u64);
    data((number * shift).round() / shift)
}

/// Go's `math.Pow(10, n)`: repeated squaring of the fraction, which rounds in its own way beyond 10^22.
fn power_of_ten(mut exponent: u64) -> f64 {
    if exponent > 400 {
        return f64::INFINITY;
    }
    // 10 = 0.625 × 2^4
    let (mut base, mut base_exponent) = (0.625, 4_i32);
    let (mut result, mut result_exponent) = (1.0_f64, 0_i32);
    while exponent != 0 {
        if exponent & 1 == 1 {
            result *= base;
            result_exponent += base_exponent;
        }
        base *= base;
        base_exponent <<= 1;
        if base < 0.5 {
            base += base;
            base_exponent -= 1;
        }
        exponent >>= 1;
    }
    // In two steps, so that neither factor overflows on its own.
    let half = result_exponent / 2;
    result * 2_f64.powi(half) * 2_f64.powi(result_exponent - half)
}
