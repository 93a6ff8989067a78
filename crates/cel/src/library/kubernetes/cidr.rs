//! Networks: `cidr`, `isCIDR` and the methods of a network.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/cel/cidr.go`, `library/cidr.go`.

use super::{
    cost,
    ip::{self, IpValue},
};
use crate::{
    context::Context,
    decl::{Library, global, member},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Opaque, Val},
};
use kyvtest_go_compat::text::{
    ip::{Prefix, parse_prefix},
    quote::quote_bytes,
};

pub(in crate::library) const NAME: &str = "net.CIDR";

#[derive(Debug, Clone, Copy)]
struct CidrValue(Prefix);

impl Opaque for CidrValue {
    fn type_name(&self) -> &'static str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        let other: &CidrValue = super::downcast(other)?;
        Some(self.0 == other.0)
    }

    fn size(&self) -> Option<u64> {
        Some(u64::from(self.0.len().div_ceil(8)))
    }

    fn display(&self) -> String {
        self.0.to_string()
    }
}

pub(in crate::library) fn declare(library: &mut Library) {
    let cidr = || Type::opaque(NAME);
    let ip = || Type::opaque(ip::NAME);
    library.add_type(NAME, cidr());
    library
        .add(
            "cidr",
            [global("string_to_cidr", &[Type::String], cidr()).unary(from_string)],
        )
        .cost = Some(cost::parse);
    library
        .add(
            "containsIP",
            [
                member("cidr_contains_ip_string", &[cidr(), Type::String], Type::Bool).binary(contains_ip_text),
                member("cidr_contains_ip_ip", &[cidr(), ip()], Type::Bool).binary(contains_ip),
            ],
        )
        .cost = Some(cost::contains_ip);
    library
        .add(
            "containsCIDR",
            [
                member("cidr_contains_cidr_string", &[cidr(), Type::String], Type::Bool).binary(contains_cidr_text),
                member("cidr_contains_cidr", &[cidr(), cidr()], Type::Bool).binary(contains_cidr),
            ],
        )
        .cost = Some(cost::contains_cidr);
    library
        .add("ip", [member("cidr_ip", &[cidr()], ip()).unary(to_ip)])
        .cost = Some(cost::ip);
    library
        .add(
            "prefixLength",
            [member("cidr_prefix_length", &[cidr()], Type::Int).unary(prefix_length)],
        )
        .cost = Some(cost::nominal);
    library
        .add("masked", [member("cidr_masked", &[cidr()], cidr()).unary(masked)])
        .cost = Some(cost::nominal);
    library
        .add(
            "isCIDR",
            [global("is_cidr", &[Type::String], Type::Bool).unary(is_cidr)],
        )
        .cost = Some(cost::parse);
    library.add(
        "string",
        [global("cidr_to_string", &[cidr()], Type::String).unary(to_string)],
    );
}

fn parse(text: &str) -> Result<Prefix, String> {
    let prefix = parse_prefix(text.as_bytes())
        .map_err(|error| format!("network address parse error during conversion from string: {error}"))?;
    if prefix.addr().is_v4_in_v6() {
        return Err(format!(
            "IPv4-mapped IPv6 address {} is not allowed",
            quote_bytes(text.as_bytes())
        ));
    }
    Ok(prefix)
}

pub(in crate::library) fn argument(args: &[Val<'_>], at: usize) -> Option<Prefix> {
    args.get(at)?.downcast::<CidrValue>().map(|cidr| cidr.0)
}

fn with<'a>(args: &[Val<'a>], get: impl FnOnce(Prefix) -> Val<'a>) -> Val<'a> {
    argument(args, 0).map_or(NO_SUCH_OVERLOAD, get)
}

fn from_string<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let Some(Val::String(text)) = args.first() else {
        return NO_SUCH_OVERLOAD;
    };
    match parse(text) {
        Ok(prefix) => context.opaque(CidrValue(prefix)),
        // The message repeats itself, as upstream.
        Err(error) => context.error(format_args!(
            "network address parse error during conversion from string: {error}"
        )),
    }
}

fn contains_ip_text<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    // Upstream drops the reason why the string is not an address.
    let addr = args.get(1).and_then(Val::as_str).and_then(|text| ip::parse(text).ok());
    match (argument(args, 0), addr) {
        (Some(prefix), Some(addr)) => Val::Bool(prefix.contains(addr)),
        _ => NO_SUCH_OVERLOAD,
    }
}

fn contains_ip<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match (argument(args, 0), args.get(1).and_then(Val::downcast::<IpValue>)) {
        (Some(prefix), Some(ip)) => Val::Bool(prefix.contains(ip.0)),
        _ => NO_SUCH_OVERLOAD,
    }
}

fn contains_cidr_text<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args {
        [cidr, text] => match from_string(context, &[*text]) {
            error @ Val::Error(_) => error,
            other => contains_cidr(context, &[*cidr, other]),
        },
        _ => NO_SUCH_OVERLOAD,
    }
}

fn contains_cidr<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match (argument(args, 0), argument(args, 1)) {
        (Some(outer), Some(inner)) => Val::Bool(outer.overlaps(inner) && outer.len() <= inner.len()),
        _ => NO_SUCH_OVERLOAD,
    }
}

fn to_ip<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    with(args, |prefix| context.opaque(IpValue(prefix.addr())))
}

fn prefix_length<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    with(args, |prefix| Val::Int(i64::from(prefix.len())))
}

fn masked<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    with(args, |prefix| context.opaque(CidrValue(prefix.masked())))
}

fn is_cidr<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args.first() {
        Some(Val::String(text)) => Val::Bool(parse(text).is_ok()),
        _ => NO_SUCH_OVERLOAD,
    }
}

fn to_string<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    with(args, |prefix| context.string(&prefix.to_string()))
}
