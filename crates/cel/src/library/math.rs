//! Mathematical functions.
//!
//! Upstream counterpart: cel-go `ext/math.go`, versions 0 to 3; `math.least` and `math.greatest` are macros over the
//! families `math.@min` and `math.@max`.

use std::cmp::Ordering;

use super::sizes::{CALL, size};
use crate::{
    context::Context,
    decl::{Library, Overload, global},
    ops::{self, INT_OVERFLOW},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Trait, Val},
};

use Type::{Bool, Double, Dyn, Int, Uint};

/// Declares the functions of a version.
pub(super) fn declare(library: &mut Library, version: u32) {
    /// The overloads of `math.@min` or `math.@max`.
    macro_rules! family {
        ($name:literal, $id:literal, $prefer:expr) => {{
            let pair = |id, a, b, result| -> Overload {
                global(id, &[a, b], result).binary(|context, args| better(context, args[0], args[1], $name, $prefer))
            };
            let list = |id, t: Type| -> Overload {
                let list = global(id, &[Type::list(t.clone())], t)
                    .unary(|context, args| best(context, args[0], $name, $prefer));
                if version >= 3 {
                    list.cost(|args, _| size(&args[0]).saturating_add(CALL))
                } else {
                    list
                }
            };
            library.add(
                $name,
                [
                    global(concat!($id, "_double"), &[Double], Double).unary(identity),
                    global(concat!($id, "_int"), &[Int], Int).unary(identity),
                    global(concat!($id, "_uint"), &[Uint], Uint).unary(identity),
                    pair(concat!($id, "_double_double"), Double, Double, Double),
                    pair(concat!($id, "_int_int"), Int, Int, Int),
                    pair(concat!($id, "_uint_uint"), Uint, Uint, Uint),
                    pair(concat!($id, "_int_uint"), Int, Uint, Dyn),
                    pair(concat!($id, "_int_double"), Int, Double, Dyn),
                    pair(concat!($id, "_double_int"), Double, Int, Dyn),
                    pair(concat!($id, "_double_uint"), Double, Uint, Dyn),
                    pair(concat!($id, "_uint_int"), Uint, Int, Dyn),
                    pair(concat!($id, "_uint_double"), Uint, Double, Dyn),
                    list(concat!($id, "_list_double"), Double),
                    list(concat!($id, "_list_int"), Int),
                    list(concat!($id, "_list_uint"), Uint),
                ],
            );
        }};
    }
    family!("math.@min", "math_@min", Ordering::Greater);
    family!("math.@max", "math_@max", Ordering::Less);
    if version >= 1 {
        declare_rounding(library);
        declare_bits(library);
    }
    if version >= 2 {
        library.add(
            "math.sqrt",
            [
                global("math_sqrt_double", &[Double], Double).unary(sqrt),
                global("math_sqrt_int", &[Int], Double).unary(sqrt),
                global("math_sqrt_uint", &[Uint], Double).unary(sqrt),
            ],
        );
    }
}

fn declare_rounding(library: &mut Library) {
    /// Functions of a double.
    macro_rules! of_double {
        ($name:literal, $id:literal, $result:expr, $apply:expr) => {
            library.add(
                $name,
                [global($id, &[Double], $result).unary(|_, args| match args[0] {
                    Val::Double(d) => $apply(d),
                    _ => NO_SUCH_OVERLOAD,
                })],
            );
        };
    }
    of_double!("math.ceil", "math_ceil_double", Double, |d: f64| Val::Double(d.ceil()));
    of_double!("math.floor", "math_floor_double", Double, |d: f64| Val::Double(
        d.floor()
    ));
    // Go and Rust both round halves away from zero.
    of_double!("math.round", "math_round_double", Double, |d: f64| Val::Double(
        d.round()
    ));
    of_double!("math.trunc", "math_trunc_double", Double, |d: f64| Val::Double(
        d.trunc()
    ));
    of_double!("math.isInf", "math_isInf_double", Bool, |d: f64| Val::Bool(
        d.is_infinite()
    ));
    of_double!("math.isNaN", "math_isNaN_double", Bool, |d: f64| Val::Bool(d.is_nan()));
    of_double!("math.isFinite", "math_isFinite_double", Bool, |d: f64| Val::Bool(
        d.is_finite()
    ));
    library.add(
        "math.abs",
        [
            global("math_abs_double", &[Double], Double).unary(abs),
            global("math_abs_int", &[Int], Int).unary(abs),
            global("math_abs_uint", &[Uint], Uint).unary(abs),
        ],
    );
    library.add(
        "math.sign",
        [
            global("math_sign_double", &[Double], Double).unary(sign),
            global("math_sign_int", &[Int], Int).unary(sign),
            global("math_sign_uint", &[Uint], Uint).unary(sign),
        ],
    );
}

fn declare_bits(library: &mut Library) {
    /// An operation on the bits of two numbers.
    macro_rules! bits {
        ($name:literal, $int:literal, $uint:literal, $operator:tt) => {
            library.add(
                $name,
                [
                    global($int, &[Int, Int], Int).binary(|_, args| match args {
                        [Val::Int(a), Val::Int(b)] => Val::Int(a $operator b),
                        _ => NO_SUCH_OVERLOAD,
                    }),
                    global($uint, &[Uint, Uint], Uint).binary(|_, args| match args {
                        [Val::Uint(a), Val::Uint(b)] => Val::Uint(a $operator b),
                        _ => NO_SUCH_OVERLOAD,
                    }),
                ],
            );
        };
    }
    bits!("math.bitAnd", "math_bitAnd_int_int", "math_bitAnd_uint_uint", &);
    bits!("math.bitOr", "math_bitOr_int_int", "math_bitOr_uint_uint", |);
    bits!("math.bitXor", "math_bitXor_int_int", "math_bitXor_uint_uint", ^);
    library.add(
        "math.bitNot",
        [
            global("math_bitNot_int_int", &[Int], Int).unary(complement),
            global("math_bitNot_uint_uint", &[Uint], Uint).unary(complement),
        ],
    );
    library.add(
        "math.bitShiftLeft",
        [
            global("math_bitShiftLeft_int_int", &[Int, Int], Int).binary(shift_left),
            global("math_bitShiftLeft_uint_int", &[Uint, Int], Uint).binary(shift_left),
        ],
    );
    library.add(
        "math.bitShiftRight",
        [
            global("math_bitShiftRight_int_int", &[Int, Int], Int).binary(shift_right),
            global("math_bitShiftRight_uint_int", &[Uint, Int], Uint).binary(shift_right),
        ],
    );
}

fn identity<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    args[0]
}

/// Returns the second value if it is `prefer` compared to the first, else the first.
fn better<'a>(context: &Context<'a>, first: Val<'a>, second: Val<'a>, name: &str, prefer: Ordering) -> Val<'a> {
    if first.is_error() || !first.has_trait(Trait::Comparer) {
        return if first.is_error() { first } else { NO_SUCH_OVERLOAD };
    }
    match ops::compare(first, second) {
        Ok(order) if order == prefer => second,
        Ok(_) => first,
        Err(Val::Error(text)) if !text.contains(name) => context.error(format_args!("{text}: {name}")),
        Err(error) => error,
    }
}

fn best<'a>(context: &Context<'a>, list: Val<'a>, name: &str, prefer: Ordering) -> Val<'a> {
    let mut items = list.list_iter();
    let Some(first) = items.next() else {
        return context.error(format_args!("{name}(list) argument must not be empty"));
    };
    match items.fold(first, |best, item| better(context, best, item, name, prefer)) {
        best @ (Val::Int(_) | Val::Uint(_) | Val::Double(_)) => best,
        _ => context.error(format_args!("no such overload: {name}")),
    }
}

fn abs<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args[0] {
        Val::Double(d) => Val::Double(d.abs()),
        Val::Int(i) => i.checked_abs().map_or(INT_OVERFLOW, Val::Int),
        Val::Uint(_) => args[0],
        _ => NO_SUCH_OVERLOAD,
    }
}

fn sign<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args[0] {
        Val::Double(d) if d.is_nan() => args[0],
        Val::Double(0.0) => Val::Double(0.0),
        Val::Double(d) => Val::Double(d.signum()),
        Val::Int(i) => Val::Int(i.signum()),
        Val::Uint(u) => Val::Uint(u.min(1)),
        _ => NO_SUCH_OVERLOAD,
    }
}

fn sqrt<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args[0] {
        Val::Double(d) => Val::Double(d.sqrt()),
        Val::Int(i) => Val::Double((i as f64).sqrt()),
        Val::Uint(u) => Val::Double((u as f64).sqrt()),
        _ => Val::Error("no such overload: sqrt"),
    }
}

fn complement<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args[0] {
        Val::Int(i) => Val::Int(!i),
        Val::Uint(u) => Val::Uint(!u),
        _ => NO_SUCH_OVERLOAD,
    }
}

/// The shift distance; 64 and more shift everything out.
fn offset<'a>(context: &Context<'a>, bits: i64, name: &str) -> Result<u32, Val<'a>> {
    if bits < 0 {
        return Err(context.error(format_args!("{name}() negative offset: {bits}")));
    }
    Ok(u32::try_from(bits).unwrap_or(u32::MAX))
}

fn shift_left<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [value, Val::Int(bits)] = *args else {
        return NO_SUCH_OVERLOAD;
    };
    match (value, offset(context, bits, "math.bitShiftLeft")) {
        (_, Err(error)) => error,
        (Val::Int(i), Ok(bits)) => Val::Int((i as u64).checked_shl(bits).unwrap_or(0) as i64),
        (Val::Uint(u), Ok(bits)) => Val::Uint(u.checked_shl(bits).unwrap_or(0)),
        _ => NO_SUCH_OVERLOAD,
    }
}

/// Shifts in zeros from the left, even for signed numbers.
fn shift_right<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [value, Val::Int(bits)] = *args else {
        return NO_SUCH_OVERLOAD;
    };
    match (value, offset(context, bits, "math.bitShiftRight")) {
        (_, Err(error)) => error,
        (Val::Int(i), Ok(bits)) => Val::Int((i as u64).checked_shr(bits).unwrap_or(0) as i64),
        (Val::Uint(u), Ok(bits)) => Val::Uint(u.checked_shr(bits).unwrap_or(0)),
        _ => NO_SUCH_OVERLOAD,
    }
}
