//! The compile-time check of literal format strings against literal argument lists.
//!
//! Upstream counterpart: the validators of cel-go `ext/formatting.go` and `ext/formatting_v2.go`.

use super::{
    format::{Failure, Style, Verb, interpolate},
    format_classic::STRING_CLAUSE,
};
use crate::types::Type;

/// An argument of a format call: an expression, its type, and the contents of a list or map literal (keys and values,
/// in order).
#[derive(Debug, Clone)]
pub(crate) struct FormatArgument<I> {
    /// Identifies the expression in errors.
    pub id: I,
    /// The type that the checker found.
    pub(crate) t: Type,
    /// The elements, or keys and values, of a literal.
    pub(crate) nested: Vec<FormatArgument<I>>,
}

/// A problem in a format call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FormatError<I> {
    pub text: String,
    /// The offending expression; `None` is the call itself.
    pub(crate) argument: Option<I>,
}

/// Checks a format string against the elements of its argument list, by the rules of a version of the strings library.
pub(crate) fn check_format_literal<I: Copy>(
    format: &str,
    args: &[FormatArgument<I>],
    version: u32,
) -> Result<(), FormatError<I>> {
    let style = Style::of_version(version);
    let mut seen = 0;
    let checked = interpolate(
        format,
        style,
        |index| index < args.len(),
        false,
        |index, verb, _| {
            seen = index + 1;
            verify(&args[index], verb, style).map(|()| String::new())
        },
    );
    if let Err(Failure { text, argument }) = checked {
        return Err(FormatError { text, argument });
    }
    if args.len() > seen {
        return Err(FormatError {
            text: format!(
                "too many arguments supplied to string.format (expected {seen}, got {})",
                args.len()
            ),
            argument: None,
        });
    }
    Ok(())
}

fn verify<I: Copy>(arg: &FormatArgument<I>, verb: Verb, style: Style) -> Result<(), Failure<I>> {
    use Type::{Bool, Bytes, Double, Dyn, Int, String, Uint};
    if verb == Verb::String {
        return verify_string(arg);
    }
    let t = &arg.t;
    let fits = match verb {
        _ if matches!(t, Dyn) => true,
        Verb::Decimal if style.spec => matches!(t, Int | Uint | Double),
        Verb::Decimal | Verb::Octal => matches!(t, Int | Uint),
        Verb::Fixed | Verb::Scientific if style.spec => matches!(t, Int | Uint | Double),
        Verb::Fixed | Verb::Scientific => matches!(t, Double | String),
        Verb::Binary => matches!(t, Int | Uint | Bool),
        Verb::Hex { .. } => matches!(t, Int | Uint | String | Bytes),
        Verb::String => true,
    };
    if fits {
        return Ok(());
    }
    Err(refusal(
        arg,
        match (verb, style.spec) {
            (Verb::String, _) => STRING_CLAUSE,
            (Verb::Decimal, false) => "decimal clause can only be used on integers",
            (Verb::Decimal, true) => "decimal clause can only be used on ints, uints, and doubles",
            (Verb::Fixed, false) => "fixed-point clause can only be used on doubles",
            (Verb::Fixed, true) => "fixed-point clause can only be used on ints, uints, and doubles",
            (Verb::Scientific, false) => "scientific clause can only be used on doubles",
            (Verb::Scientific, true) => "scientific clause can only be used on ints, uints, and doubles",
            (Verb::Binary, false) => "only integers and bools can be formatted as binary",
            (Verb::Binary, true) => "only ints, uints, and bools can be formatted as binary",
            (Verb::Hex { .. }, false) => "only integers, byte buffers, and strings can be formatted as hex",
            (Verb::Hex { .. }, true) => "only ints, uints, bytes, and strings can be formatted as hex",
            (Verb::Octal, false) => "octal clause can only be used on integers",
            (Verb::Octal, true) => "octal clause can only be used on ints and uints",
        },
    ))
}

fn verify_string<I: Copy>(arg: &FormatArgument<I>) -> Result<(), Failure<I>> {
    match &arg.t {
        Type::Error | Type::Struct(_) | Type::Opaque(..) | Type::Param(_) => Err(refusal(arg, STRING_CLAUSE)),
        _ => arg.nested.iter().try_for_each(verify_string),
    }
}

fn refusal<I: Copy>(arg: &FormatArgument<I>, what: &str) -> Failure<I> {
    Failure {
        text: format!("{what}, was given {}", arg.t.runtime_name()),
        argument: Some(arg.id),
    }
}
