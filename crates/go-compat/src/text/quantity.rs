//! Kubernetes' `resource.Quantity` (apimachinery 0.36).
//!
//! Upstream keeps small amounts as a scaled 64-bit integer and others as a decimal, and the choice is visible: CEL's
//! `isInteger` and `asInteger` only know the first. So both forms are kept here, with upstream's rules for converting
//! one into the other.
//!
//! Deviations: amounts with more than 20,000 digits are rejected or not aligned (see `decimal`). Upstream's `Cmp` turns
//! its receiver into a decimal if the other side is one; here a comparison changes nothing.

use std::{cmp::Ordering, fmt, str};

use num_bigint::BigInt;
use thiserror::Error;

use super::decimal::{Decimal, Rounding};

/// The finest scale: smaller amounts are rounded up.
const NANO: i32 = -9;
/// The number of decimal digits that the integer form holds.
const INT_DIGITS: i32 = 18;

/// An invalid quantity; prints as upstream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// Not a number with a suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// An invalid number.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// An unknown suffix.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The notation of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `12e6`.
    DecimalExponent,
    /// `12Mi`.
    BinarySi,
    /// `12M`.
    DecimalSi,
}

impl Format {
    /// Upstream's name.
    pub fn name(self) -> &'static str {
        match self {
            Format::DecimalExponent => "DecimalExponent",
            Format::BinarySi => "BinarySI",
            Format::DecimalSi => "DecimalSI",
        }
    }
}

#[derive(Clone, Debug)]
enum Amount {
    /// `value × 10^scale`.
    Int {
        value: i64,
        scale: i32,
    },
    Dec(Decimal),
}

/// An amount of a resource.
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// The source text, if upstream considers it canonical.
    text: Option<Box<str>>,
}

/// The parts of a quantity's source text.
struct Parts<'t> {
    negative: bool,
    /// Includes the sign.
    number: &'t str,
    whole: &'t str,
    fraction: &'t str,
    suffix: &'t str,
}

impl Quantity {
    /// An integer amount.
    pub fn new(value: i64, format: Format) -> Self {
        Self::int(value, 0, format)
    }

    /// Creates a decimal amount; it never counts as an integer (upstream's `NewDecimalQuantity`).
    pub fn from_decimal(value: Decimal, format: Format) -> Self {
        Self {
            amount: Amount::Dec(value),
            format,
            text: None,
        }
    }

    fn int(value: i64, scale: i32, format: Format) -> Self {
        Self {
            amount: Amount::Int { value, scale },
            format,
            text: None,
        }
    }

    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let parts = split(text)?;
        let (base, exponent, format) = suffix(parts.suffix).ok_or(QuantityError::Suffix)?;
        if let Some((value, scale)) = fast(&parts, exponent, format) {
            let mut quantity = Self::int(value, scale, format);
            if text == "0" || is_canonical(&parts, value, exponent, scale, format) {
                quantity.text = Some(text.into());
            }
            return Ok(quantity);
        }
        let mut amount = Decimal::parse(parts.number).ok_or(QuantityError::Numeric)?;
        if base == 10 {
            amount.set_scale(amount.scale().wrapping_sub(exponent));
        } else {
            *amount.unscaled_mut() <<= exponent.unsigned_abs();
        }
        let negative = amount.sign() < 0;
        if negative {
            amount = amount.negate();
        }
        if amount.sign() != 0 {
            amount = amount.round_up(-NANO).ok_or(QuantityError::Numeric)?;
        }
        let mut format = format;
        if format == Format::BinarySi {
            let largest = Decimal::new(i64::MAX, 0);
            if amount > largest {
                amount = largest;
            }
            if amount.sign() > 0 && amount < Decimal::new(1, 0) {
                format = Format::DecimalSi;
            }
        }
        if negative {
            amount = amount.negate();
        }
        Ok(Self::from_decimal(amount, format))
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        match &self.amount {
            Amount::Int { value, .. } => value.signum() as i32,
            Amount::Dec(decimal) => decimal.sign(),
        }
    }

    /// The amount as an integer, if it is kept as one and fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self.amount {
            Amount::Int { value, scale: 0 } => Some(value),
            Amount::Int { value, scale } if scale > 0 => scale_up(value, scale),
            Amount::Int { .. } | Amount::Dec(_) => None,
        }
    }

    /// Reports whether the amount is kept as a decimal rather than as an integer with a scale.
    pub fn is_decimal(&self) -> bool {
        matches!(self.amount, Amount::Dec(_))
    }

    /// The amount as a decimal.
    pub fn to_decimal(&self) -> Decimal {
        match &self.amount {
            Amount::Int { value, scale } => Decimal::new(*value, scale.wrapping_neg()),
            Amount::Dec(decimal) => decimal.clone(),
        }
    }

    /// The amount as a float, with upstream's loss of precision.
    pub fn approximate(&self) -> f64 {
        let (base, exponent) = match &self.amount {
            Amount::Int { value, scale } => (*value as f64, *scale),
            Amount::Dec(decimal) => (
                // Digits always read as a float.
                decimal.unscaled().to_string().parse().unwrap_or(f64::NAN),
                decimal.scale().wrapping_neg(),
            ),
        };
        if exponent == 0 { base } else { base * pow10(exponent) }
    }

    /// The amount rounded away from zero to an integer; wraps like upstream if it does not fit.
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// The amount in thousandths, rounded away from zero; wraps like upstream if it does not fit.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    fn scaled_value(&self, to: i32) -> i64 {
        match &self.amount {
            Amount::Int { value, scale } if *scale < to => scale_down(*value, to.wrapping_sub(*scale)).0,
            Amount::Int { value, scale } => match scale.wrapping_sub(to) {
                // Upstream has shortcuts for these, which wrap; the general path ends in zero.
                by @ (1 | 2 | 3 | 6 | 9) if *value != i64::MIN => value.wrapping_mul(10i64.pow(by.unsigned_abs())),
                by => scale_up(*value, by).unwrap_or(0),
            },
            Amount::Dec(decimal) => scaled_decimal(decimal, to),
        }
    }

    /// The sum. The format is that of `self`, unless that is zero.
    pub fn add(&self, other: &Self) -> Self {
        let format = if self.sign() == 0 { other.format } else { self.format };
        if let (&Amount::Int { value: a, scale: s }, &Amount::Int { value: b, scale: t }) =
            (&self.amount, &other.amount)
            && let Some((value, scale)) = add_ints(a, s, b, t)
        {
            return Self::int(value, scale, format);
        }
        Self::from_decimal(self.to_decimal().add(&other.to_decimal()), format)
    }

    /// The difference. The format is that of `self`, unless that is zero.
    pub fn sub(&self, other: &Self) -> Self {
        let format = if self.sign() == 0 { other.format } else { self.format };
        if let (&Amount::Int { value: a, scale: s }, &Amount::Int { value: b, scale: t }) =
            (&self.amount, &other.amount)
            && let Some((value, scale)) = add_ints(a, s, b.wrapping_neg(), t)
        {
            return Self::int(value, scale, format);
        }
        Self::from_decimal(self.to_decimal().add(&other.to_decimal().negate()), format)
    }

    /// The product with an integer, and whether its digits fit into 64 bits.
    pub fn mul_int(&self, factor: i64) -> (Self, bool) {
        if let Amount::Int { value, scale } = self.amount
            && let Some((value, scale)) = mul_int(value, scale, factor)
        {
            return (Self::int(value, scale, self.format), true);
        }
        let product = self.to_decimal().mul(&Decimal::new(factor, 0));
        let fits = i64::try_from(product.unscaled()).is_ok();
        (Self::from_decimal(product, self.format), fits)
    }

    /// The product of two quantities as a decimal one, as Kyverno's `multiply` computes it.
    pub fn mul(&self, other: &Self) -> Self {
        Self::from_decimal(self.to_decimal().mul(&other.to_decimal()), self.format)
    }

    /// The quotient of two quantities to the finer of their scales, rounded towards zero, as Kyverno's `divide`
    /// computes it; `None` for a division by zero.
    pub fn div(&self, other: &Self) -> Option<Self> {
        let (a, b) = (self.to_decimal(), other.to_decimal());
        let quotient = a.quo(&b, a.scale().max(b.scale()), Rounding::Down)?;
        Some(Self::from_decimal(quotient, self.format))
    }

    /// Rounds up to a power of ten; like upstream, keeps the source text if nothing needs rounding.
    pub fn round_up(self, scale: i32) -> Self {
        let amount = match self.amount {
            Amount::Int { scale: own, .. } if own >= scale => return self,
            Amount::Int { value, scale: own } => Amount::Int {
                value: scale_down(value, scale.wrapping_sub(own)).0,
                scale,
            },
            Amount::Dec(decimal) => match decimal.round_up(scale.wrapping_neg()) {
                Some(rounded) => Amount::Dec(rounded),
                None => Amount::Dec(decimal),
            },
        };
        Self {
            amount,
            format: self.format,
            text: None,
        }
    }

    /// The canonical form: an integer with the largest suffix that loses nothing.
    pub fn canonical(&self) -> String {
        if self.sign() == 0 {
            return "0".to_owned();
        }
        if self.format == Format::BinarySi {
            let bound = |n| Quantity::new(n, Format::DecimalSi);
            let small = *self > bound(-1024) && *self < bound(1024);
            if !small && let Some((number, exponent)) = self.binary() {
                return number + binary_suffix(exponent);
            }
        }
        let (number, exponent) = self.decimal();
        match self.format {
            Format::DecimalExponent if exponent == 0 => number,
            Format::DecimalExponent => format!("{number}e{exponent}"),
            Format::BinarySi | Format::DecimalSi => number + decimal_suffix(exponent),
        }
    }

    /// Digits and an exponent that is a multiple of three.
    fn decimal(&self) -> (String, i32) {
        if let Amount::Int { value, scale } = self.amount {
            let (digits, times) = remove_factors(value, 10);
            let exponent = scale.wrapping_add(times);
            let extra = exponent.rem_euclid(3);
            if let Some(digits) = digits.checked_mul(10i64.pow(extra.unsigned_abs())) {
                return (digits.to_string(), exponent.wrapping_sub(extra));
            }
        }
        let decimal = self.to_decimal();
        let digits = decimal.unscaled().to_string();
        let trimmed = digits.trim_end_matches('0');
        let exponent = decimal
            .scale()
            .wrapping_neg()
            .wrapping_add((digits.len() - trimmed.len()) as i32);
        let extra = exponent.rem_euclid(3);
        let number = format!("{trimmed}{}", "0".repeat(extra as usize));
        (number, exponent.wrapping_sub(extra))
    }

    /// Digits and a power of 1024; `None` if the amount is not an integer.
    fn binary(&self) -> Option<(String, i32)> {
        if let Amount::Int { value, scale } = self.amount {
            if scale < 0 && !scale_down(value, scale.wrapping_neg()).1 {
                return None;
            }
            let whole = if scale < 0 {
                Some(scale_down(value, scale.wrapping_neg()).0)
            } else {
                scale_up(value, scale)
            };
            if let Some(whole) = whole {
                let (digits, times) = remove_factors(whole, 1024);
                return Some((digits.to_string(), times));
            }
        }
        let decimal = self.to_decimal();
        let whole = decimal.round_up(0)?;
        if whole != decimal {
            return None;
        }
        let (mut digits, mut times) = (whole.unscaled().clone(), 0);
        while &digits % 1024 == BigInt::ZERO {
            digits /= 1024;
            times += 1;
        }
        Some((digits.to_string(), times))
    }
}

impl fmt::Display for Quantity {
    /// Prints the source text if upstream's quick check considers it canonical, else the canonical form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => f.write_str(&self.canonical()),
        }
    }
}

impl str::FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        if let (&Amount::Int { value: a, scale: s }, &Amount::Int { value: b, scale: t }) =
            (&self.amount, &other.amount)
        {
            let gap = i64::from(s) - i64::from(t);
            if gap.abs() <= 18 {
                // Exact: 64 bits times 10^18 fit into 128.
                let power = 10i128.pow(gap.unsigned_abs() as u32);
                let (a, b) = if gap >= 0 {
                    (i128::from(a) * power, b.into())
                } else {
                    (a.into(), i128::from(b) * power)
                };
                return a.cmp(&b);
            }
        }
        self.to_decimal().cmp(&other.to_decimal())
    }
}

/// Splits a quantity. Leading zeros of the integer part are dropped, and a string without any digit counts as zero.
fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let stripped = unsigned.trim_start_matches('0');
    if stripped.is_empty() {
        return Ok(Parts {
            negative,
            number: "0",
            whole: "0",
            fraction: "",
            suffix: "",
        });
    }
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = stripped.split_at(digits(stripped));
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    // A suffix has letters, at most one sign, and digits.
    let letters = rest.bytes().take_while(|b| b"eEinumkKMGTP".contains(b)).count();
    let tail = &rest[letters..];
    let tail = tail.strip_prefix(['-', '+']).unwrap_or(tail);
    if digits(tail) != tail.len() {
        return Err(QuantityError::Format);
    }
    Ok(Parts {
        negative,
        number: &text[..text.len() - rest.len()],
        whole: if whole.is_empty() { "0" } else { whole },
        fraction,
        suffix: rest,
    })
}

/// Base, exponent and format of a suffix.
fn suffix(text: &str) -> Option<(u32, i32, Format)> {
    let decimal = |exponent| Some((10, exponent, Format::DecimalSi));
    let binary = |exponent| Some((2, exponent, Format::BinarySi));
    match text {
        "" => decimal(0),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let digits = text.strip_prefix(['e', 'E'])?;
            // The exponent is read with 64 bits and then truncated to 32.
            let exponent: i64 = digits.parse().ok()?;
            Some((10, exponent as i32, Format::DecimalExponent))
        }
    }
}

/// The integer form, if upstream's estimate of the number of digits permits it.
fn fast(parts: &Parts<'_>, exponent: i32, format: Format) -> Option<(i64, i32)> {
    let (whole, fraction) = (parts.whole.len() as i32, parts.fraction.len() as i32);
    let (factor, scale, spare) = match format {
        Format::DecimalExponent | Format::DecimalSi => (1, exponent, INT_DIGITS - (whole + fraction)),
        Format::BinarySi if fraction > 0 => return None,
        Format::BinarySi => (1i64 << exponent, 0, 15 - whole - exponent * 3 / 10 - 1),
    };
    let scale = scale.wrapping_sub(fraction);
    if spare < 0 || scale < NANO {
        return None;
    }
    let magnitude: i64 = format!("{}{}", parts.whole, parts.fraction).parse().ok()?;
    let value = magnitude.checked_mul(factor)?;
    Some((if parts.negative { -value } else { value }, scale))
}

/// Upstream's quick check that a string is its own canonical form; it is occasionally wrong, which shows in printed
/// quantities.
fn is_canonical(parts: &Parts<'_>, value: i64, exponent: i32, scale: i32, format: Format) -> bool {
    match format {
        Format::BinarySi => exponent % 10 == 0 && (value >> exponent) & 7 != 0,
        Format::DecimalExponent | Format::DecimalSi => {
            let ends = format!("{}{}", parts.whole, parts.fraction);
            scale % 3 == 0 && !ends.ends_with("000") && !ends.starts_with('0')
        }
    }
}

fn add_ints(a: i64, a_scale: i32, b: i64, b_scale: i32) -> Option<(i64, i32)> {
    if b == 0 {
        return Some((a, a_scale));
    }
    if a == 0 {
        return Some((b, b_scale));
    }
    if a_scale >= b_scale {
        let a = scale_up(a, a_scale.wrapping_sub(b_scale))?;
        return Some((a.checked_add(b)?, b_scale));
    }
    let b = scale_up(b, b_scale.wrapping_sub(a_scale))?;
    Some((a.checked_add(b)?, a_scale))
}

fn mul_int(value: i64, scale: i32, factor: i64) -> Option<(i64, i32)> {
    if value == 0 {
        return Some((0, scale));
    }
    if factor == 0 {
        return Some((0, 0));
    }
    let product = value.checked_mul(factor)?;
    if scale > 0 {
        scale_up(product, scale)?;
    } else if scale < 0 && !scale_down(product, scale.wrapping_neg()).1 {
        return None;
    }
    Some((product, scale))
}

/// `value × 10^by`.
fn scale_up(value: i64, by: i32) -> Option<i64> {
    if value == 0 || by <= 0 {
        return Some(value);
    }
    // 10^19 does not fit.
    value.checked_mul(10i64.checked_pow(by.unsigned_abs())?)
}

/// `value / 10^by` rounded away from zero, and whether the division was exact.
fn scale_down(value: i64, by: i32) -> (i64, bool) {
    if by <= 0 || value == 0 {
        return (value, true);
    }
    let Some(divisor) = 10i64.checked_pow(by.unsigned_abs()) else {
        return (value.signum(), false);
    };
    let exact = value % divisor == 0;
    (value / divisor + if exact { 0 } else { value.signum() }, exact)
}

/// Upstream's `scaledValue`: rounds up (not away from zero) when digits are cut, wraps when they are added.
fn scaled_decimal(decimal: &Decimal, to: i32) -> i64 {
    let gap = i64::from(decimal.scale()) + i64::from(to);
    let low = low_bits(decimal.unscaled());
    match gap {
        0 => low,
        ..0 => low.wrapping_mul(go_int(pow10(i32::try_from(-gap).unwrap_or(i32::MAX)))),
        1.. => {
            let max = BigInt::from(i64::MAX);
            if decimal.unscaled() < &max && gap < 19 {
                let divisor = 10i64.pow(gap as u32);
                return (low / divisor).wrapping_add(i64::from(low % divisor != 0));
            }
            let floor = if gap <= i64::from(super::decimal::MAX_SHIFT) {
                let divisor = BigInt::from(10).pow(gap as u32);
                let quotient = decimal.unscaled() / &divisor;
                let exact = &quotient * &divisor == *decimal.unscaled();
                let floor = if decimal.sign() < 0 && !exact {
                    quotient - 1
                } else {
                    quotient
                };
                return low_bits(&floor).wrapping_add(i64::from(!exact));
            } else {
                i64::from(decimal.sign().min(0))
            };
            floor.wrapping_add(i64::from(decimal.sign() != 0))
        }
    }
}

/// The low 64 bits with the number's sign, as Go's `big.Int.Int64` takes them.
fn low_bits(value: &BigInt) -> i64 {
    let low = value.magnitude().iter_u64_digits().next().unwrap_or(0) as i64;
    if value.sign() == num_bigint::Sign::Minus {
        low.wrapping_neg()
    } else {
        low
    }
}

/// Go's conversion of a float to an integer on x86-64: values out of range become the smallest integer.
fn go_int(value: f64) -> i64 {
    if value < 9_223_372_036_854_775_808.0 {
        value as i64
    } else {
        i64::MIN
    }
}

/// Go's `math.Pow10`, which multiplies two table entries and so sometimes differs from the nearest float.
fn pow10(exponent: i32) -> f64 {
    const COARSE: [f64; 10] = [1e0, 1e32, 1e64, 1e96, 1e128, 1e160, 1e192, 1e224, 1e256, 1e288];
    const COARSE_NEGATIVE: [f64; 11] = [
        1e-0, 1e-32, 1e-64, 1e-96, 1e-128, 1e-160, 1e-192, 1e-224, 1e-256, 1e-288, 1e-320,
    ];
    const FINE: [f64; 32] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
        1e20, 1e21, 1e22, 1e23, 1e24, 1e25, 1e26, 1e27, 1e28, 1e29, 1e30, 1e31,
    ];
    let n = exponent.unsigned_abs() as usize;
    match exponent {
        0..=308 => COARSE[n / 32] * FINE[n % 32],
        -323..0 => COARSE_NEGATIVE[n / 32] / FINE[n % 32],
        309.. => f64::INFINITY,
        _ => 0.0,
    }
}

fn remove_factors(value: i64, base: i64) -> (i64, i32) {
    let (mut value, mut times) = (value, 0);
    while value != 0 && value != i64::MIN && value % base == 0 {
        value /= base;
        times += 1;
    }
    (value, times)
}

fn decimal_suffix(exponent: i32) -> &'static str {
    match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        // Upstream has no suffix for others and prints the digits alone.
        _ => "",
    }
}

fn binary_suffix(power: i32) -> &'static str {
    match power {
        1 => "Ki",
        2 => "Mi",
        3 => "Gi",
        4 => "Ti",
        5 => "Pi",
        6 => "Ei",
        _ => "",
    }
}
