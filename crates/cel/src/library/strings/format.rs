//! The syntax of format strings: text with clauses `%[.precision]verb`; `%%` is a percent sign.
//!
//! Upstream counterpart: `parseFormatString` of cel-go `ext/formatting.go`, the same in both formatters.

use kyvtest_go_compat::text::number;

/// The verb of a clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    String,
    Decimal,
    Fixed,
    Scientific,
    Binary,
    Hex { upper: bool },
    Octal,
}

/// The formatter, and the number of digits it allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style {
    /// The formatter of the CEL specification (strings version 4), or the older one.
    pub spec: bool,
    /// The largest precision that a clause may have.
    max_precision: Option<i64>,
}

impl Style {
    /// The style of a version of the strings library.
    pub(super) fn of_version(version: u32) -> Self {
        Self {
            spec: version >= 4,
            max_precision: (version >= 5).then_some(100),
        }
    }
}

/// A format error: the message, and the offending argument, if any.
pub(super) struct Failure<I> {
    pub(super) text: String,
    pub(super) argument: Option<I>,
}

impl<I> Failure<I> {
    fn plain(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            argument: None,
        }
    }
}

/// Parses a format string and inserts the result of `clause` for the argument at each position.
pub(super) fn interpolate<I>(
    format: &str,
    style: Style,
    has_argument: impl Fn(usize) -> bool,
    missing_argument_first: bool,
    mut clause: impl FnMut(usize, Verb, Option<i64>) -> Result<String, Failure<I>>,
) -> Result<String, Failure<I>> {
    let mut out = String::with_capacity(format.len());
    let mut rest = format;
    let mut next = 0;
    while let Some(position) = rest.find('%') {
        out.push_str(&rest[..position]);
        rest = &rest[position + 1..];
        if let Some(tail) = rest.strip_prefix('%') {
            out.push('%');
            rest = tail;
            continue;
        }
        let missing = || Failure::plain(format!("index {next} out of range"));
        if missing_argument_first && !has_argument(next) {
            return Err(missing());
        }
        if rest.is_empty() {
            return Err(Failure::plain("unexpected end of string"));
        }
        if !has_argument(next) {
            return Err(missing());
        }
        let (verb, precision, tail) = parse_clause(rest, style)
            .map_err(|text| Failure::plain(format!("could not parse formatting clause: {text}")))?;
        let text = clause(next, verb, precision).map_err(|failure| Failure {
            text: format!("error during formatting: {}", failure.text),
            ..failure
        })?;
        out.push_str(&text);
        rest = tail;
        next += 1;
    }
    out.push_str(rest);
    Ok(out)
}

fn parse_clause(text: &str, style: Style) -> Result<(Verb, Option<i64>, &str), String> {
    let (precision, rest) = match text.strip_prefix('.') {
        None => (None, text),
        Some(rest) => {
            let precision = |cause: String| format!("error while parsing precision: {cause}");
            let end = rest
                .find(|c: char| !c.is_ascii_digit())
                .ok_or_else(|| precision("could not find end of precision specifier".to_owned()))?;
            let number = number::atoi(&rest[..end])
                .map_err(|error| precision(format!("error while converting precision to integer: {error}")))?;
            if let Some(max) = style.max_precision.filter(|max| number > *max) {
                return Err(precision(format!(
                    "precision {number} exceeds maximum allowed precision {max}"
                )));
            }
            (Some(number), &rest[end..])
        }
    };
    let verb = match rest.bytes().next() {
        Some(b's') => Verb::String,
        Some(b'd') => Verb::Decimal,
        Some(b'f') => Verb::Fixed,
        Some(b'e') => Verb::Scientific,
        Some(b'b') => Verb::Binary,
        Some(b'x') => Verb::Hex { upper: false },
        Some(b'X') => Verb::Hex { upper: true },
        Some(b'o') => Verb::Octal,
        // Upstream inspects one byte, even inside a multi-byte character.
        byte => {
            let byte = char::from(byte.unwrap_or(0));
            return Err(format!("unrecognized formatting clause \"{byte}\""));
        }
    };
    Ok((verb, precision, &rest[1..]))
}
