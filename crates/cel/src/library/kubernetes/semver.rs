//! Semantic versions: `semver`, `isSemver`, their numbers and their order.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/cel/semver.go`, `library/semverlib.go` (version 1, with `normalize`).

use std::borrow::Cow;

use super::cost;
use crate::{
    context::Context,
    decl::{Library, global, member},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Opaque, Val},
};
use kyvtest_go_compat::text::semver::{self, Version};

const NAME: &str = "kubernetes.Semver";

#[derive(Debug)]
struct SemverValue(Version);

impl Opaque for SemverValue {
    fn type_name(&self) -> &'static str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        let other: &SemverValue = super::downcast(other)?;
        Some(self.0.compare(&other.0).is_eq())
    }

    fn display(&self) -> String {
        self.0.to_string()
    }
}

pub(super) fn declare(library: &mut Library) {
    let version = || Type::structure(NAME);
    library
        .add(
            "semver",
            [
                global("string_to_semver", &[Type::String], version()).unary(from_string),
                global("string_bool_to_semver", &[Type::String, Type::Bool], version()).binary(from_string),
            ],
        )
        .cost = Some(cost::parse);
    library
        .add(
            "isSemver",
            [
                global("is_semver_string", &[Type::String], Type::Bool).unary(is_semver),
                global("is_semver_string_bool", &[Type::String, Type::Bool], Type::Bool).binary(is_semver),
            ],
        )
        .cost = Some(cost::parse);
    let pair = || [version(), version()];
    library
        .add(
            "isGreaterThan",
            [member("semver_is_greater_than", &pair(), Type::Bool).binary(is_greater)],
        )
        .cost = Some(cost::nominal);
    library
        .add(
            "isLessThan",
            [member("semver_is_less_than", &pair(), Type::Bool).binary(is_less)],
        )
        .cost = Some(cost::nominal);
    library
        .add(
            "compareTo",
            [member("semver_compare_to", &pair(), Type::Int).binary(compare)],
        )
        .cost = Some(cost::nominal);
    let mut number = |name, id, implementation| {
        library
            .add(name, [member(id, &[version()], Type::Int).unary(implementation)])
            .cost = Some(cost::nominal);
    };
    // Numbers beyond the range of an int wrap, as upstream's conversion does.
    number("major", "semver_major", |_, args| {
        with(args, |v| Val::Int(v.major as i64))
    });
    number("minor", "semver_minor", |_, args| {
        with(args, |v| Val::Int(v.minor as i64))
    });
    number("patch", "semver_patch", |_, args| {
        with(args, |v| Val::Int(v.patch as i64))
    });
}

fn version<'a>(args: &[Val<'a>], at: usize) -> Option<&'a Version> {
    args.get(at)?.downcast::<SemverValue>().map(|version| &version.0)
}

fn with<'a>(args: &[Val<'a>], get: impl FnOnce(&Version) -> Val<'a>) -> Val<'a> {
    version(args, 0).map_or(NO_SUCH_OVERLOAD, get)
}

fn with_pair<'a>(args: &[Val<'a>], get: impl FnOnce(std::cmp::Ordering) -> Val<'a>) -> Val<'a> {
    match (version(args, 0), version(args, 1)) {
        (Some(left), Some(right)) => get(left.compare(right)),
        _ => NO_SUCH_OVERLOAD,
    }
}

fn is_greater<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    with_pair(args, |order| Val::Bool(order.is_gt()))
}

fn is_less<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    with_pair(args, |order| Val::Bool(order.is_lt()))
}

fn compare<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    with_pair(args, |order| Val::Int(order as i64))
}

/// The version in the arguments; `None` if they are of other types.
fn parse(args: &[Val<'_>]) -> Option<Result<Version, String>> {
    match args {
        [Val::String(text)] | [Val::String(text), Val::Bool(false)] => Some(semver::parse(text)),
        [Val::String(text), Val::Bool(true)] => Some(normalize(text).and_then(|text| semver::parse(&text))),
        _ => None,
    }
}

/// Drops a leading `v` and leading zeros, and adds missing numbers.
fn normalize(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<Cow<'_, str>> = text.splitn(3, '.').map(without_leading_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err("short version cannot contain PreRelease/Build meta data".to_owned());
    }
    parts.resize(3, Cow::Borrowed("0"));
    Ok(parts.join("."))
}

fn without_leading_zeros(part: &str) -> Cow<'_, str> {
    if part.len() <= 1 {
        return Cow::Borrowed(part);
    }
    let trimmed = part.trim_start_matches('0');
    if trimmed.starts_with(|c: char| c.is_ascii_digit()) {
        Cow::Borrowed(trimmed)
    } else {
        Cow::Owned(format!("0{trimmed}"))
    }
}

fn from_string<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match parse(args) {
        Some(Ok(version)) => context.opaque(SemverValue(version)),
        Some(Err(error)) => context.error(format_args!("{error}")),
        None => NO_SUCH_OVERLOAD,
    }
}

fn is_semver<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match parse(args) {
        Some(version) => Val::Bool(version.is_ok()),
        None => NO_SUCH_OVERLOAD,
    }
}
