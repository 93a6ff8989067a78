//! IP addresses: `ip`, `isIP`, `ip.isCanonical` and the methods of an address.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/cel/ip.go`, `library/ip.go`.

use super::cost;
use crate::{
    context::Context,
    decl::{Implementation, Library, global, member},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Opaque, Val},
};
use kyvtest_go_compat::text::{
    ip::{Addr, parse_addr},
    quote::quote_bytes,
};

pub(super) const NAME: &str = "net.IP";

/// An address without zone that is not an IPv4-mapped IPv6 address.
#[derive(Debug, Clone, Copy)]
pub(super) struct IpValue(pub(super) Addr);

impl Opaque for IpValue {
    fn type_name(&self) -> &'static str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        let other: &IpValue = super::downcast(other)?;
        Some(self.0 == other.0)
    }

    fn size(&self) -> Option<u64> {
        Some(u64::from(self.0.bit_len() / 8))
    }

    fn display(&self) -> String {
        self.0.to_string()
    }
}

pub(in crate::library) fn declare(library: &mut Library) {
    let ip = || Type::opaque(NAME);
    library.add_type(NAME, ip());
    library
        .add("ip", [global("string_to_ip", &[Type::String], ip()).unary(from_string)])
        .cost = Some(cost::ip);
    library
        .add("isIP", [global("is_ip", &[Type::String], Type::Bool).unary(is_ip)])
        .cost = Some(cost::parse);
    library
        .add(
            "ip.isCanonical",
            [global("ip_is_canonical", &[Type::String], Type::Bool).unary(is_canonical)],
        )
        .cost = Some(cost::parse_twice);
    library.add(
        "string",
        [global("ip_to_string", &[ip()], Type::String).unary(to_string)],
    );
    let mut accessor = |name, id, result, implementation: Implementation| {
        library
            .add(name, [member(id, &[ip()], result).unary(implementation)])
            .cost = Some(cost::nominal);
    };
    accessor("family", "ip_family", Type::Int, |_, args| {
        with(args, |addr| Val::Int(if addr.is_v4() { 4 } else { 6 }))
    });
    accessor("isUnspecified", "ip_is_unspecified", Type::Bool, |_, args| {
        with(args, |addr| Val::Bool(addr.is_unspecified()))
    });
    accessor("isLoopback", "ip_is_loopback", Type::Bool, |_, args| {
        with(args, |addr| Val::Bool(addr.is_loopback()))
    });
    accessor(
        "isLinkLocalMulticast",
        "ip_is_link_local_multicast",
        Type::Bool,
        |_, args| with(args, |addr| Val::Bool(addr.is_link_local_multicast())),
    );
    accessor(
        "isLinkLocalUnicast",
        "ip_is_link_local_unicast",
        Type::Bool,
        |_, args| with(args, |addr| Val::Bool(addr.is_link_local_unicast())),
    );
    accessor("isGlobalUnicast", "ip_is_global_unicast", Type::Bool, |_, args| {
        with(args, |addr| Val::Bool(addr.is_global_unicast()))
    });
}

/// Parses an address that the library accepts.
pub(super) fn parse(text: &str) -> Result<Addr, String> {
    let quoted = || quote_bytes(text.as_bytes());
    let addr = parse_addr(text.as_bytes()).map_err(|error| {
        format!(
            "IP Address {} parse error during conversion from string: {error}",
            quoted()
        )
    })?;
    if addr.has_zone() {
        return Err(format!("IP address {} with zone value is not allowed", quoted()));
    }
    if addr.is_v4_in_v6() {
        return Err(format!("IPv4-mapped IPv6 address {} is not allowed", quoted()));
    }
    Ok(addr)
}

fn with<'a>(args: &[Val<'a>], get: impl FnOnce(Addr) -> Val<'a>) -> Val<'a> {
    match args.first().and_then(Val::downcast::<IpValue>) {
        Some(ip) => get(ip.0),
        None => NO_SUCH_OVERLOAD,
    }
}

fn from_string<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let Some(Val::String(text)) = args.first() else {
        return NO_SUCH_OVERLOAD;
    };
    match parse(text) {
        Ok(addr) => context.opaque(IpValue(addr)),
        Err(error) => context.error(format_args!("{error}")),
    }
}

fn is_ip<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args.first() {
        Some(Val::String(text)) => Val::Bool(parse(text).is_ok()),
        _ => NO_SUCH_OVERLOAD,
    }
}

fn is_canonical<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let Some(Val::String(text)) = args.first() else {
        return NO_SUCH_OVERLOAD;
    };
    match parse(text) {
        Ok(addr) => Val::Bool(addr.to_string() == *text),
        Err(error) => context.error(format_args!("{error}")),
    }
}

fn to_string<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    with(args, |addr| context.string(&addr.to_string()))
}
