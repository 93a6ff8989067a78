//! The costs of Kubernetes' functions, by function name.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/cel/library/cost.go` `CallCost`.

use crate::{
    library::sizes::{LIST_BASE, REGEX_LENGTH, STRING_TRAVERSAL, scaled, size},
    val::Val,
};

const STRUCT_BASE: u64 = 40;

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
    Some(scaled(size(args.first()?), 2.0 * STRING_TRAVERSAL))
}

/// `ip`, which parses a string, and returns the address of a CIDR for free.
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

/// A selector is parsed into requirements of at least two characters each.
pub(super) fn selector(_: &str, args: &[Val<'_>], _: &Val<'_>) -> Option<u64> {
    let length = size(args.get(1)?);
    let requirements = scaled(length, 0.5).saturating_mul(LIST_BASE + STRUCT_BASE);
    Some(LIST_BASE + scaled(length, STRING_TRAVERSAL) + requirements)
}

/// `==` with a value of one of these libraries on the left.
pub(super) fn equality(_: &str, args: &[Val<'_>], _: &Val<'_>) -> Option<u64> {
    match args {
        [Val::Opaque(_), _] => Some(1),
        _ => None,
    }
}
