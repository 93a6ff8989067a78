//! `math.round(x, digits)`.
//!
//! Upstream counterpart: SDK `libs/math`, and Go's `math.Pow` for whole exponents, whose last bit differs from that of
//! most C libraries.

use crate::{
    context::Context,
    decl::{Library, global},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};

pub(super) fn declare(library: &mut Library) {
    library.add(
        "math.round",
        [global("math_round_float_int", &[Type::Double, Type::Int], Type::Double).binary(round)],
    );
}

fn round<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [Val::Double(x), Val::Int(digits)] = args else {
        return NO_SUCH_OVERLOAD;
    };
    let shift = power_of_ten(*digits);
    Val::Double((x * shift).round() / shift)
}

/// Ten to an integer power, by squaring a fraction between a half and one with a separate binary exponent.
fn power_of_ten(exponent: i64) -> f64 {
    match exponent {
        0 => return 1.0,
        1 => return 10.0,
        _ => {}
    }
    // Upstream's exponent is a double, so it is rounded to one first.
    let mut bits = (exponent as f64).abs() as u64;
    let (mut result, mut result_exponent) = (1.0_f64, 0_i32);
    let (mut square, mut square_exponent) = (0.625_f64, 4_i32);
    while bits != 0 {
        if square_exponent > 1 << 12 {
            // All further bits can only take the result further out of range.
            result_exponent += square_exponent;
            break;
        }
        if bits & 1 == 1 {
            result *= square;
            result_exponent += square_exponent;
        }
        square *= square;
        square_exponent *= 2;
        if square < 0.5 {
            square += square;
            square_exponent -= 1;
        }
        bits >>= 1;
    }
    if exponent < 0 {
        result = 1.0 / result;
        result_exponent = -result_exponent;
    }
    scale(result, result_exponent)
}

/// `x` times two to a power, rounded once.
fn scale(x: f64, exponent: i32) -> f64 {
    // The first factor keeps the product normal, the second rounds it if it becomes subnormal.
    let two = |n: i32| f64::from_bits(((n + 1023) as u64) << 52);
    match exponent {
        e if e > 2000 => f64::INFINITY,
        e if e < -2000 => 0.0,
        e if e > 1000 => x * two(1000) * two((e - 1000).min(1000)),
        e if e < -1000 => x * two(-1000) * two((e + 1000).max(-1000)),
        e => x * two(e),
    }
}

#[cfg(test)]
mod tests {
    use super::power_of_ten;

    #[test]
    fn powers() {
        assert_eq!(power_of_ten(2), 100.0);
        assert_eq!(power_of_ten(22), 1e22);
        assert_eq!(power_of_ten(-2), 0.01);
        assert_eq!(power_of_ten(400), f64::INFINITY);
        assert_eq!(power_of_ten(-400), 0.0);
        assert_eq!(power_of_ten(i64::MIN), 0.0);
        assert_eq!(power_of_ten(i64::MAX), f64::INFINITY);
    }
}
