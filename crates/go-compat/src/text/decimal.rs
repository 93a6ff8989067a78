//! Decimals of any length (`gopkg.in/inf.v0`), as Kubernetes quantities use them beyond 64 bits.
//!
//! Deviation: Go aligns two decimals at any cost, so that `1` plus `1e2000000000` never terminates. Here decimals more
//! than `MAX_SHIFT` digits apart are not aligned: their sum is the larger operand. Comparison is always exact.

use std::{cmp::Ordering, fmt};

use num_bigint::{BigInt, Sign};

/// The maximum shift of a decimal, in digits.
pub(crate) const MAX_SHIFT: u32 = 20_000;

/// `unscaled × 10^-scale`.
#[derive(Clone, Debug)]
pub struct Decimal {
    unscaled: BigInt,
    scale: i32,
}

/// How a quotient is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// Towards zero.
    Down,
    /// Away from zero.
    Up,
}

impl Decimal {
    /// `unscaled × 10^-scale`.
    pub(crate) fn new(unscaled: i64, scale: i32) -> Self {
        Self::from_big(unscaled.into(), scale)
    }

    pub(super) fn from_big(unscaled: BigInt, scale: i32) -> Self {
        Self { unscaled, scale }
    }

    /// Parses digits with an optional sign and an optional point; the scale is the number of digits after the point.
    ///
    /// `None` for any other string, or if there are too many digits to compute with.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_SHIFT as usize {
            return None;
        }
        // A sign may occur only before the first digit, and not after the point.
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let mut unscaled = BigInt::parse_bytes(digits.as_bytes(), 10)?;
        if text.starts_with('-') {
            unscaled = -unscaled;
        }
        Some(Self::from_big(unscaled, fraction.len() as i32))
    }

    /// The number of digits after the point; negative if trailing zeros before the point are not stored.
    pub fn scale(&self) -> i32 {
        self.scale
    }

    pub(super) fn set_scale(&mut self, scale: i32) {
        self.scale = scale;
    }

    /// The digits as an integer.
    pub(crate) fn unscaled(&self) -> &BigInt {
        &self.unscaled
    }

    pub(super) fn unscaled_mut(&mut self) -> &mut BigInt {
        &mut self.unscaled
    }

    /// -1, 0 or 1.
    pub(crate) fn sign(&self) -> i32 {
        match self.unscaled.sign() {
            Sign::Minus => -1,
            Sign::NoSign => 0,
            Sign::Plus => 1,
        }
    }

    /// Returns the number with the opposite sign.
    pub(crate) fn negate(&self) -> Self {
        Self::from_big(-&self.unscaled, self.scale)
    }

    /// Returns the sum, with the larger of the two scales.
    pub(crate) fn add(&self, other: &Self) -> Self {
        match self.align(other) {
            Ok((a, b, scale)) => Self::from_big(a + b, scale),
            Err(larger) => larger.clone(),
        }
    }

    /// Returns the product; its scale is the sum of both scales.
    pub(crate) fn mul(&self, other: &Self) -> Self {
        Self::from_big(&self.unscaled * &other.unscaled, self.scale.wrapping_add(other.scale))
    }

    /// Returns the quotient rounded to a scale; `None` if the divisor is zero or the result would have too many digits.
    pub(crate) fn quo(&self, other: &Self, scale: i32, rounding: Rounding) -> Option<Self> {
        if other.sign() == 0 {
            return None;
        }
        let shift = i64::from(scale) - (i64::from(self.scale) - i64::from(other.scale));
        let (mut dividend, mut divisor) = (self.unscaled.clone(), other.unscaled.clone());
        if shift > 0 {
            dividend *= power_of_ten(shift)?;
        } else if let Some(power) = power_of_ten(-shift) {
            divisor *= power;
        } else if -shift > digits(&dividend) {
            // The quotient is below one for any divisor.
            let up = rounding == Rounding::Up && self.sign() != 0;
            return Some(Self::new(i64::from(up) * i64::from(self.sign() * other.sign()), scale));
        } else {
            return None;
        }
        let mut quotient = &dividend / &divisor;
        if rounding == Rounding::Up && &quotient * &divisor != dividend {
            quotient += self.sign() * other.sign();
        }
        Some(Self::from_big(quotient, scale))
    }

    /// Returns the number rounded away from zero to a scale, or padded to it; `None` if it would have too many digits.
    pub(crate) fn round_up(&self, scale: i32) -> Option<Self> {
        self.quo(&Self::new(1, 0), scale, Rounding::Up)
    }

    /// Converts both to integers of the same scale; `Err` is the larger one by magnitude if they are too far apart.
    fn align<'a>(&'a self, other: &'a Self) -> Result<(BigInt, BigInt, i32), &'a Self> {
        let gap = i64::from(self.scale) - i64::from(other.scale);
        let Some(power) = power_of_ten(gap.abs()) else {
            let larger = if self.magnitude() >= other.magnitude() {
                self
            } else {
                other
            };
            return Err(larger);
        };
        Ok(if gap >= 0 {
            (self.unscaled.clone(), &other.unscaled * power, self.scale)
        } else {
            (&self.unscaled * power, other.unscaled.clone(), other.scale)
        })
    }

    /// The power of ten above the leading digit; the minimum for zero.
    fn magnitude(&self) -> i64 {
        if self.sign() == 0 {
            return i64::MIN;
        }
        digits(&self.unscaled) - i64::from(self.scale)
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let signs = self.sign().cmp(&other.sign());
        if signs != Ordering::Equal || self.sign() == 0 {
            return signs;
        }
        let by_magnitude = self.magnitude().cmp(&other.magnitude());
        if by_magnitude != Ordering::Equal {
            return if self.sign() > 0 {
                by_magnitude
            } else {
                by_magnitude.reverse()
            };
        }
        // With the same leading digit position the scales differ by at most the number of digits.
        match self.align(other) {
            Ok((a, b, _)) => a.cmp(&b),
            Err(_) => Ordering::Equal,
        }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.unscaled.magnitude().to_string();
        if self.sign() < 0 {
            f.write_str("-")?;
        }
        if self.scale <= 0 {
            f.write_str(&digits)?;
            if self.sign() != 0 {
                let zeros = self.scale.unsigned_abs().min(MAX_SHIFT);
                f.write_str(&"0".repeat(zeros as usize))?;
            }
            return Ok(());
        }
        let scale = self.scale as usize;
        if digits.len() <= scale {
            let zeros = (scale - digits.len()).min(MAX_SHIFT as usize);
            return write!(f, "0.{}{digits}", "0".repeat(zeros));
        }
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        write!(f, "{whole}.{fraction}")
    }
}

/// The number of decimal digits of an integer.
fn digits(value: &BigInt) -> i64 {
    value.magnitude().to_string().len() as i64
}

fn power_of_ten(exponent: i64) -> Option<BigInt> {
    let exponent = u32::try_from(exponent).ok().filter(|e| *e <= MAX_SHIFT)?;
    Some(BigInt::from(10).pow(exponent))
}
