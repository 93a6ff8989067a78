//! Named formats: `format.named`, `format.<name>()` and `validate`.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/cel/format.go`, `library/format.go`, the name rules of
//! `k8s.io/apimachinery/pkg/util/validation` and `pkg/api/validate/content`, and the formats of
//! `k8s.io/kube-openapi/pkg/validation/strfmt`. The patterns are matched by hand; the messages quote them.

use super::cost;
use crate::{
    context::Context,
    decl::{Implementation, Library, global, member},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Opaque, Val},
};
use kyvtest_go_compat::text::{
    label::{self, Wording, is_label, is_subdomain},
    url::parse_request_uri,
};

const NAME: &str = "kubernetes.NamedFormat";

/// The validation errors of a string.
struct Problems {
    texts: Vec<String>,
    wording: Wording,
}

impl Problems {
    fn push(&mut self, problem: impl Into<String>) {
        self.texts.push(problem.into());
    }
}

/// Validates a string.
type Validate = fn(&str, &mut Problems);

/// A format: a rule, and the length of its regular expression, real or estimated, for cost accounting.
#[derive(Debug, Clone, Copy)]
struct Format {
    name: &'static str,
    function: &'static str,
    regex_length: u64,
    validate: Validate,
    constant: Implementation,
}

macro_rules! formats {
    ($($name:literal, $function:literal, $length:literal, $validate:expr;)*) => {
        static FORMATS: &[Format] = &[$(Format {
            name: $name,
            function: $function,
            regex_length: $length,
            validate: $validate,
            constant: |context, _| named(context, $name),
        }),*];
    };
}

formats! {
    "dns1123Label", "format.dns1123Label", 30, dns1123_label;
    "dns1123Subdomain", "format.dns1123Subdomain", 60, dns1123_subdomain;
    "dns1035Label", "format.dns1035Label", 30, dns1035_label;
    "qualifiedName", "format.qualifiedName", 60, qualified_name;
    "dns1123LabelPrefix", "format.dns1123LabelPrefix", 30, |text, out| prefix(text, out, dns1123_label);
    "dns1123SubdomainPrefix", "format.dns1123SubdomainPrefix", 60, |text, out| prefix(text, out, dns1123_subdomain);
    "dns1035LabelPrefix", "format.dns1035LabelPrefix", 30, |text, out| prefix(text, out, dns1035_label);
    "labelValue", "format.labelValue", 40, label_value;
    "uri", "format.uri", 1103, uri;
    "uuid", "format.uuid", 70, |text, out| expect(is_uuid(text), "does not match the UUID format", out);
    "byte", "format.byte", 84, |text, out| expect(is_base64(text), "invalid base64", out);
    "date", "format.date", 71, |text, out| expect(is_date(text), "invalid date", out);
    "datetime", "format.datetime", 71, |text, out| expect(is_date_time(text), "invalid datetime", out);
}

impl Opaque for Format {
    fn type_name(&self) -> &'static str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        let other: &Format = super::downcast(other)?;
        Some(self.name == other.name)
    }
}

pub(super) fn declare(library: &mut Library) {
    let format = || Type::structure(NAME);
    for constant in FORMATS {
        library.add(
            constant.function,
            [global(constant.function, &[], format()).variadic(constant.constant)],
        );
    }
    library
        .add(
            "format.named",
            [global("format-named", &[Type::String], Type::optional(format())).unary(find)],
        )
        .cost = Some(cost::nominal);
    let problems = Type::optional(Type::list(Type::String));
    library
        .add(
            "validate",
            [member("format-validate", &[format(), Type::String], problems).binary(validate)],
        )
        .cost = Some(|_, args, _| match args {
        [format, text, ..] => {
            let format = format.downcast::<Format>()?;
            Some(cost::regex(text, format.regex_length))
        }
        _ => None,
    });
}

fn named<'a>(_: &Context<'a>, name: &str) -> Val<'a> {
    match FORMATS.iter().find(|format| format.name == name) {
        Some(format) => Val::Opaque(format),
        None => NO_SUCH_OVERLOAD,
    }
}

fn find<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args.first() {
        Some(Val::String(name)) => match FORMATS.iter().find(|format| format.name == *name) {
            Some(format) => context.some(Val::Opaque(format)),
            None => Val::NONE,
        },
        _ => NO_SUCH_OVERLOAD,
    }
}

fn validate<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let (Some(format), Some(Val::String(text))) = (args.first().and_then(Val::downcast::<Format>), args.get(1)) else {
        return NO_SUCH_OVERLOAD;
    };
    let mut problems = Problems {
        texts: Vec::new(),
        wording: if context.profile.behaviour.qualified_names_are_label_keys {
            Wording::LabelKey
        } else {
            Wording::QualifiedName
        },
    };
    (format.validate)(text, &mut problems);
    if problems.texts.is_empty() {
        Val::NONE
    } else {
        context.some(context.strings(problems.texts))
    }
}

/// Whether a string is a valid service account name: a DNS subdomain.
pub(super) fn is_dns_subdomain_name(text: &str) -> bool {
    text.len() <= 253 && is_subdomain(text.as_bytes())
}

/// Whether a string is a valid namespace name: a DNS label.
pub(super) fn is_dns_label_name(text: &str) -> bool {
    text.len() <= 63 && is_label(text.as_bytes())
}

fn expect(valid: bool, problem: &str, out: &mut Problems) {
    if !valid {
        out.push(problem);
    }
}

fn dns1123_label(text: &str, out: &mut Problems) {
    label::dns1123_problems(text, &mut out.texts);
}

fn dns1123_subdomain(text: &str, out: &mut Problems) {
    label::subdomain_problems(text, "characters", &mut out.texts);
}

fn dns1035_label(text: &str, out: &mut Problems) {
    label::dns1035_problems(text, &mut out.texts);
}

/// Validates the prefix of a name: a trailing dash is valid, and masks the character before it.
///
/// Upstream: `maskTrailingDash`, which drops two bytes and appends one.
fn prefix(text: &str, out: &mut Problems, validate: Validate) {
    match text.strip_suffix('-').filter(|rest| !rest.is_empty()) {
        Some(rest) => {
            let mut rest = rest.chars();
            // Upstream leaves some bytes of a multi-byte character behind; no rule accepts them, and none accepts
            // these.
            let masked = match rest.next_back() {
                Some(dropped) => format!("{}{}a", rest.as_str(), "~".repeat(dropped.len_utf8() - 1)),
                None => String::new(),
            };
            validate(&masked, out);
        }
        None => validate(text, out),
    }
}

fn qualified_name(text: &str, out: &mut Problems) {
    label::key_problems(text, out.wording, &mut out.texts);
}

fn label_value(text: &str, out: &mut Problems) {
    label::value_problems(text, out.wording, &mut out.texts);
}

fn uri(text: &str, out: &mut Problems) {
    if let Err(error) = parse_request_uri(text) {
        out.push(error);
    }
}

/// Eight, four, four, four and twelve hexadecimal digits, dashes between them optional.
fn is_uuid(text: &str) -> bool {
    let mut rest = text.as_bytes();
    for (i, digits) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if i > 0 {
            rest = rest.strip_prefix(b"-").unwrap_or(rest);
        }
        match rest.split_at_checked(digits) {
            Some((group, after)) if group.iter().all(u8::is_ascii_hexdigit) => rest = after,
            _ => return false,
        }
    }
    rest.is_empty()
}

fn is_base64(text: &str) -> bool {
    let padding = text.bytes().rev().take(2).take_while(|&byte| byte == b'=').count();
    let digits = &text.as_bytes()[..text.len() - padding];
    !digits.is_empty()
        && text.len().is_multiple_of(4)
        && digits.iter().all(|b| b.is_ascii_alphanumeric() || b"+/".contains(b))
}

fn number(digits: &[u8]) -> Option<u32> {
    digits
        .iter()
        .try_fold(0, |sum, byte| Some(sum * 10 + char::from(*byte).to_digit(10)?))
}

/// A day of the calendar as `2006-01-02`.
fn is_date(text: &str) -> bool {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *text.as_bytes() else {
        return false;
    };
    let (Some(year), Some(month), Some(day)) = (number(&[y0, y1, y2, y3]), number(&[m0, m1]), number(&[d0, d1])) else {
        return false;
    };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// A day, `t`, and a time with a zone; anything after another `t` is ignored.
///
/// Upstream: `strfmt.IsDateTime`, whose pattern accepts any character as the point before the fraction.
fn is_date_time(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    let Some((clock, rest)) = time.split_at_checked(8) else {
        return false;
    };
    let [h0, h1, b':', m0, m1, b':', s0, s1] = *clock.as_bytes() else {
        return false;
    };
    let below = |digits: &[u8], limit| number(digits).is_some_and(|number| number < limit);
    is_date(date)
        && below(&[h0, h1], 24)
        && below(&[m0, m1], 60)
        && below(&[s0, s1], 60)
        && (is_zone(rest) || is_fraction_and_zone(rest))
}

fn is_zone(text: &str) -> bool {
    match *text.as_bytes() {
        [b'z'] => true,
        [b'+' | b'-', h0, h1, b':', m0, m1] => [h0, h1, m0, m1].iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn is_fraction_and_zone(text: &str) -> bool {
    let mut rest = text.chars();
    if rest.next().is_none_or(|point| point == '\n') {
        return false;
    }
    let zone = rest.as_str().trim_start_matches(|c: char| c.is_ascii_digit());
    zone.len() < rest.as_str().len() && is_zone(zone)
}
