//! Go's number printing: `strconv.FormatFloat` and its use in `fmt` and `encoding/json`.
//!
//! The digits come from Rust's standard library, whose shortest form is Go's and whose exact form rounds half to even
//! as Go's does.

use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `-d.dddde±dd`.
    Exponent,
    /// `-d.ddddE±dd`.
    UpperExponent,
    /// `-ddd.dddd`.
    Fixed,
    /// `Exponent` for small and large numbers, else `Fixed`.
    General,
    /// `General` with an upper case exponent.
    UpperGeneral,
}

/// The digits of a number and the position of its decimal point: `0.d1d2d3… × 10^point`.
struct Digits {
    digits: String,
    point: i32,
}

/// `strconv.FormatFloat` for 64 bits; without a precision, as many digits as are needed to read the number back.
pub fn format(value: f64, layout: Layout, precision: Option<usize>) -> String {
    layout_number(value, layout, precision, || {
        settle(value.abs(), &format!("{:e}", value.abs()), |text| {
            text.parse() == Ok(value.abs())
        })
    })
}

/// `strconv.FormatFloat` for 32 bits.
pub fn format32(value: f32, layout: Layout, precision: Option<usize>) -> String {
    layout_number(value.into(), layout, precision, || {
        settle(value.abs().into(), &format!("{:e}", value.abs()), |text| {
            text.parse() == Ok(value.abs())
        })
    })
}

/// Of two shortest forms that are equally near, Go takes the one with the even last digit, Rust's standard library the
/// larger one.
fn settle(value: f64, shortest: &str, reads_back: impl Fn(&str) -> bool) -> Digits {
    let count = shortest
        .bytes()
        .take_while(|b| *b != b'e')
        .filter(u8::is_ascii_digit)
        .count();
    let nearest = format!("{:.*e}", count.saturating_sub(1), value);
    digits(if reads_back(&nearest) { &nearest } else { shortest })
}

/// Go's conversion to `int64` on a 64-bit machine: it truncates, and numbers out of range become the smallest integer.
pub fn truncate(value: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&value) {
        value as i64
    } else {
        i64::MIN
    }
}

/// `%v` and `%g`: the shortest form, with an exponent below 10^-4 and from 10^6 on.
pub fn display(value: f64) -> String {
    format(value, Layout::General, None)
}

/// The form that `encoding/json` writes; `None` for numbers that JSON cannot express.
pub fn json(value: f64) -> Option<String> {
    if !value.is_finite() {
        return None;
    }
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-6..1e21).contains(&magnitude) {
        return Some(format(value, Layout::Fixed, None));
    }
    let mut out = format(value, Layout::Exponent, None);
    // A negative exponent of one digit loses its zero.
    if let Some(at) = out.len().checked_sub(4)
        && out.get(at..).is_some_and(|tail| tail.starts_with("e-0"))
    {
        out.remove(at + 2);
    }
    Some(out)
}

fn layout_number(value: f64, layout: Layout, precision: Option<usize>, shortest: impl Fn() -> Digits) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let mut out = String::new();
    if value.is_sign_negative() {
        out.push('-');
    }
    let exact = |after_first: usize| digits(&format!("{:.*e}", after_first, value.abs()));
    match (layout, precision) {
        (Layout::Fixed, Some(precision)) => {
            let _ = write!(out, "{:.*}", precision, value.abs());
        }
        (Layout::Fixed, None) => fixed(&mut out, &shortest()),
        (Layout::Exponent | Layout::UpperExponent, precision) => {
            let number = precision.map_or_else(&shortest, exact);
            exponent(&mut out, &number, layout == Layout::UpperExponent);
        }
        (Layout::General | Layout::UpperGeneral, precision) => {
            let mut number = match precision {
                None => shortest(),
                Some(precision) => exact(precision.max(1) - 1),
            };
            let trimmed = number.digits.trim_end_matches('0').len();
            number.digits.truncate(trimmed.max(1));
            let count = number.digits.len() as i32;
            let limit = match precision {
                // Without a precision the decision is made as for six digits.
                None => 6,
                Some(precision) => {
                    let precision = precision.max(1) as i32;
                    if precision > count && count >= number.point {
                        count
                    } else {
                        precision
                    }
                }
            };
            let power = number.point - 1;
            if power < -4 || power >= limit {
                exponent(&mut out, &number, layout == Layout::UpperGeneral);
            } else {
                fixed(&mut out, &number);
            }
        }
    }
    out
}

/// Splits the output of the standard library's `{:e}`.
fn digits(text: &str) -> Digits {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let zero = digits.bytes().all(|b| b == b'0');
    Digits {
        digits,
        point: if zero {
            1
        } else {
            exponent.parse::<i32>().unwrap_or(0) + 1
        },
    }
}

fn exponent(out: &mut String, number: &Digits, upper: bool) {
    let (first, rest) = number.digits.split_at(1);
    out.push_str(first);
    if !rest.is_empty() {
        out.push('.');
        out.push_str(rest);
    }
    let power = number.point - 1;
    out.push(if upper { 'E' } else { 'e' });
    out.push(if power < 0 { '-' } else { '+' });
    let _ = write!(out, "{:02}", power.abs());
}

fn fixed(out: &mut String, number: &Digits) {
    let digits = number.digits.as_str();
    let count = digits.len() as i32;
    if number.point <= 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', -number.point as usize));
        out.push_str(digits);
    } else if number.point >= count {
        out.push_str(digits);
        out.extend(std::iter::repeat_n('0', (number.point - count) as usize));
    } else {
        let (whole, rest) = digits.split_at(number.point as usize);
        out.push_str(whole);
        out.push('.');
        out.push_str(rest);
    }
}
