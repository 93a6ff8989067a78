//! What calls of Kubernetes' functions cost, by the name of the function.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/cel/library/cost.go` `CallCost`.

use crate::cel::val::Val;

const STRING_TRAVERSAL: f64 = 0.1;
const REGEX_LENGTH: f64 = 0.25;
const LIST_CREATE: u64 = 10;
const STRUCT_CREATE: u64 = 40;

/// The size of a value as cost accounting sees it: characters, bytes, elements, entries; 1 for what has no size.
pub(super) fn size(value: &Val<'_>) -> u64 {
    match value {
        Val::String(text) => text.chars().count() as u64,
        Val::Bytes(bytes) => bytes.len() as u64,
        Val::List(_) | Val::DocumentList(_) | Val::Map(_) | Val::DocumentMap(_) => value.len() as u64,
        Val::Opaque(opaque) => opaque.size().unwrap_or(1),
        _ => 1,
    }
}

fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

/// Accessors and builders.
pub(super) fn nominal(_: &str, _: &[Val<'_>], _: &Val<'_>) -> Option<u64> {
    Some(1)
}

/// Functions that read their first argument once.
pub(super) fn parse(_: &str, args: &[Val<'_>], _: &Val<'_>) -> Option<u64> {
    Some(scaled(size(args.first()?), STRING_TRAVERSAL))
}

/// Functions that read their first argument twice.
pub(super) fn parse_twice(_: &str, args: &[Val<'_>], _: &Val<'_>) -> Option<u64> {
    // Upstream multiplies from the left; the order of roundings shows for some sizes.
    let doubled = size(args.first()?) as f64 * 2.0;
    Some((doubled * STRING_TRAVERSAL).ceil() as u64)
}

/// `ip`, which parses text, and takes the address of a CIDR for nothing.
pub(super) fn ip(overload: &str, args: &[Val<'_>], result: &Val<'_>) -> Option<u64> {
    if overload == "cidr_ip" && !args.is_empty() {
        return Some(1);
    }
    parse(overload, args, result)
}

/// `containsIP`: compares the bytes of the prefix, and parses text.
pub(super) fn contains_ip(overload: &str, args: &[Val<'_>], _: &Val<'_>) -> Option<u64> {
    let [cidr, other, ..] = args else { return None };
    let mut cost = scaled(size(cidr) * 2, STRING_TRAVERSAL);
    if overload == "cidr_contains_ip_string" {
        cost += scaled(size(other), STRING_TRAVERSAL);
    }
    Some(cost)
}

/// `containsCIDR`: as `containsIP`, and masks the receiver.
pub(super) fn contains_cidr(overload: &str, args: &[Val<'_>], _: &Val<'_>) -> Option<u64> {
    let [cidr, other, ..] = args else { return None };
    let mut cost = scaled(size(cidr) * 2, STRING_TRAVERSAL) + scaled(size(cidr), STRING_TRAVERSAL) + 1;
    if overload == "cidr_contains_cidr_string" {
        cost += scaled(size(other), STRING_TRAVERSAL);
    }
    Some(cost)
}

/// The cost of running a regular expression of some length over text.
pub(super) fn regex(text: &Val<'_>, regex_length: u64) -> u64 {
    scaled(size(text) + 1, STRING_TRAVERSAL).saturating_mul(scaled(regex_length, REGEX_LENGTH))
}

/// An authorization check: about two fit into the limit of one expression.
pub(super) fn check(_: &str, _: &[Val<'_>], _: &Val<'_>) -> Option<u64> {
    Some(350_000)
}

/// A selector is parsed into requirements, of which each takes at least two characters.
pub(super) fn selector(_: &str, args: &[Val<'_>], _: &Val<'_>) -> Option<u64> {
    let length = size(args.get(1)?);
    let requirements = scaled(length, 0.5).saturating_mul(LIST_CREATE + STRUCT_CREATE);
    Some(LIST_CREATE + scaled(length, STRING_TRAVERSAL) + requirements)
}

/// `==` with a value of one of these libraries on the left.
pub(super) fn equality(_: &str, args: &[Val<'_>], _: &Val<'_>) -> Option<u64> {
    match args {
        [Val::Opaque(_), _] => Some(1),
        _ => None,
    }
}
