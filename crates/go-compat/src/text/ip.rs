//! IP addresses and prefixes.
//!
//! Upstream counterpart: Go `net/netip` (1.26), error messages included. The name of a zone is not kept, only its
//! presence: no caller accepts zones.

use std::fmt;

use super::quote::quote_bytes;

/// An IP address of either family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Addr {
    bits: u128,
    is_v4: bool,
    has_zone: bool,
}

/// An address with the length of its network part; host bits are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix {
    addr: Addr,
    len: u8,
}

/// Parses an address; the error is Go's message.
///
/// Upstream: `netip.ParseAddr`.
pub fn parse_addr(text: &[u8]) -> Result<Addr, String> {
    match text.iter().find(|byte| matches!(byte, b'.' | b':' | b'%')) {
        Some(b'.') => {
            let octets = parse_v4_fields(text, 0..text.len())?;
            Ok(Addr {
                bits: u128::from(u32::from_be_bytes(octets)),
                is_v4: true,
                has_zone: false,
            })
        }
        Some(b':') => parse_v6(text),
        Some(_) => Err(addr_error(text, "missing IPv6 address", b"")),
        None => Err(addr_error(text, "unable to parse IP", b"")),
    }
}

fn addr_error(text: &[u8], message: &str, at: &[u8]) -> String {
    if at.is_empty() {
        format!("ParseAddr({}): {message}", quote_bytes(text))
    } else {
        format!("ParseAddr({}): {message} (at {})", quote_bytes(text), quote_bytes(at))
    }
}

fn parse_v4_fields(text: &[u8], range: std::ops::Range<usize>) -> Result<[u8; 4], String> {
    let part = &text[range];
    let mut fields = [0u8; 4];
    let mut done = 0;
    let mut field: Option<u16> = None;
    for (i, &byte) in part.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if field == Some(0) {
                    return Err(addr_error(text, "IPv4 field has octet with leading zero", b""));
                }
                let grown = field.unwrap_or(0) * 10 + u16::from(byte - b'0');
                if grown > 255 {
                    return Err(addr_error(text, "IPv4 field has value >255", b""));
                }
                field = Some(grown);
            }
            b'.' => {
                let Some(value) = field.take().filter(|_| i + 1 < part.len()) else {
                    return Err(addr_error(text, "IPv4 field must have at least one digit", &part[i..]));
                };
                if done == 3 {
                    return Err(addr_error(text, "IPv4 address too long", b""));
                }
                fields[done] = value as u8;
                done += 1;
            }
            _ => return Err(addr_error(text, "unexpected character", &part[i..])),
        }
    }
    if done < 3 {
        return Err(addr_error(text, "IPv4 address too short", b""));
    }
    fields[3] = field.unwrap_or(0) as u8;
    Ok(fields)
}

fn parse_v6(text: &[u8]) -> Result<Addr, String> {
    let fail = |message: &str, at: &[u8]| Err(addr_error(text, message, at));
    let zone = text.iter().position(|&byte| byte == b'%');
    if zone == Some(text.len() - 1) {
        return fail("zone must be a non-empty string", b"");
    }
    let end = zone.unwrap_or(text.len());
    let mut rest = &text[..end];
    let mut ip = [0u8; 16];
    let mut filled = 0;
    let mut ellipsis = None;
    if let Some(after) = rest.strip_prefix(b"::") {
        ellipsis = Some(0);
        rest = after;
    }
    while filled < 16 && !(rest.is_empty() && filled == 0 && ellipsis.is_some()) {
        let mut digits = 0;
        let mut group: u32 = 0;
        while let Some(digit) = rest.get(digits).and_then(|&byte| char::from(byte).to_digit(16)) {
            if digits > 3 {
                return fail("each group must have 4 or less digits", rest);
            }
            group = group << 4 | digit;
            digits += 1;
        }
        if digits == 0 {
            return fail("each colon-separated field must have at least one digit", rest);
        }
        if rest.get(digits) == Some(&b'.') {
            if ellipsis.is_none() && filled != 12 {
                return fail(
                    "embedded IPv4 address must replace the final 2 fields of the address",
                    rest,
                );
            }
            if filled + 4 > 16 {
                return fail(
                    "too many hex fields to fit an embedded IPv4 at the end of the address",
                    rest,
                );
            }
            let octets = parse_v4_fields(text, end - rest.len()..end)?;
            ip[filled..filled + 4].copy_from_slice(&octets);
            filled += 4;
            rest = b"";
            break;
        }
        ip[filled..filled + 2].copy_from_slice(&(group as u16).to_be_bytes());
        filled += 2;
        rest = &rest[digits..];
        match rest {
            [] => break,
            [b':'] => return fail("colon must be followed by more characters", rest),
            [b':', after @ ..] => rest = after,
            _ => return fail("unexpected character, want colon", rest),
        }
        if let Some(after) = rest.strip_prefix(b":") {
            if ellipsis.is_some() {
                return fail("multiple :: in address", rest);
            }
            ellipsis = Some(filled);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return fail("trailing garbage after address", rest);
    }
    match ellipsis {
        None if filled < 16 => return fail("address string too short", b""),
        Some(_) if filled == 16 => return fail("the :: must expand to at least one field of zeros", b""),
        Some(at) => {
            ip.copy_within(at..filled, 16 - (filled - at));
            ip[at..16 - (filled - at)].fill(0);
        }
        None => {}
    }
    Ok(Addr {
        bits: u128::from_be_bytes(ip),
        is_v4: false,
        has_zone: zone.is_some(),
    })
}

/// Parses a prefix; the error is Go's message.
///
/// Upstream: `netip.ParsePrefix`.
pub fn parse_prefix(text: &[u8]) -> Result<Prefix, String> {
    let fail = |message: &str| Err(format!("netip.ParsePrefix({}): {message}", quote_bytes(text)));
    let Some(slash) = text.iter().rposition(|&byte| byte == b'/') else {
        return fail("no '/'");
    };
    let addr = match parse_addr(&text[..slash]) {
        Ok(addr) => addr,
        Err(error) => return fail(&error),
    };
    if addr.has_zone {
        return fail("IPv6 zones cannot be present in a prefix");
    }
    let bits = &text[slash + 1..];
    let leading = bits.len() > 1 && !matches!(bits[0], b'1'..=b'9');
    if leading || bits.is_empty() || !bits.iter().all(u8::is_ascii_digit) {
        return fail(&format!("bad bits after slash: {}", quote_bytes(bits)));
    }
    let parsed: Option<u64> = std::str::from_utf8(bits).ok().and_then(|bits| bits.parse().ok());
    match parsed {
        Some(len) if len <= u64::from(addr.bit_len()) => Ok(Prefix { addr, len: len as u8 }),
        Some(len) if i64::try_from(len).is_ok() => fail("prefix length out of range"),
        _ => fail(&format!("bad bits after slash: {}", quote_bytes(bits))),
    }
}

impl Addr {
    /// Reports whether this is an IPv4 address; false for an IPv4-mapped IPv6 address.
    pub fn is_v4(self) -> bool {
        self.is_v4
    }

    /// Reports whether this is an IPv4-mapped IPv6 address.
    pub fn is_v4_in_v6(self) -> bool {
        !self.is_v4 && self.bits >> 32 == 0xffff
    }

    /// Reports whether the text named a zone.
    pub fn has_zone(self) -> bool {
        self.has_zone
    }

    /// The IPv4 address of an IPv4-mapped IPv6 address, else the address itself.
    pub fn unmapped(self) -> Addr {
        if self.is_v4_in_v6() {
            Addr {
                bits: self.bits & u128::from(u32::MAX),
                is_v4: true,
                ..self
            }
        } else {
            self
        }
    }

    /// `10.0.0.0/8`, `172.16.0.0/12`, `192.168.0.0/16` or `fc00::/7`.
    pub fn is_private(self) -> bool {
        if self.is_v4 {
            self.bits >> 24 == 10 || self.first_16_bits() & 0xfff0 == 0xac10 || self.first_16_bits() == 0xc0a8
        } else {
            self.bits >> 121 == 0xfc >> 1
        }
    }

    /// 32 or 128.
    pub fn bit_len(self) -> u8 {
        if self.is_v4 { 32 } else { 128 }
    }

    fn first_16_bits(self) -> u16 {
        (self.bits >> (self.bit_len() - 16)) as u16
    }

    /// `0.0.0.0` or `::`.
    pub fn is_unspecified(self) -> bool {
        self.bits == 0 && !self.has_zone
    }

    /// `127.0.0.0/8` or `::1`.
    pub fn is_loopback(self) -> bool {
        if self.is_v4 {
            self.bits >> 24 == 127
        } else {
            self.bits == 1
        }
    }

    /// `224.0.0.0/24` or `ffx2::/16`.
    pub fn is_link_local_multicast(self) -> bool {
        if self.is_v4 {
            self.bits >> 8 == 0x00e0_0000
        } else {
            self.first_16_bits() & 0xff0f == 0xff02
        }
    }

    /// `169.254.0.0/16` or `fe80::/10`.
    pub fn is_link_local_unicast(self) -> bool {
        if self.is_v4 {
            self.first_16_bits() == 0xa9fe
        } else {
            self.first_16_bits() & 0xffc0 == 0xfe80
        }
    }

    fn is_multicast(self) -> bool {
        if self.is_v4 {
            self.bits >> 28 == 0xe
        } else {
            self.bits >> 120 == 0xff
        }
    }

    /// Every unicast address that is not link-local; private ranges count.
    pub fn is_global_unicast(self) -> bool {
        !(self.is_unspecified()
            || self.is_v4 && self.bits == u128::from(u32::MAX)
            || self.is_loopback()
            || self.is_multicast()
            || self.is_link_local_unicast())
    }

    fn masked(self, len: u8) -> Addr {
        let shift = u32::from(self.bit_len() - len);
        Addr {
            bits: self.bits.checked_shr(shift).map_or(0, |high| high << shift),
            ..self
        }
    }
}

impl Prefix {
    /// The address as written.
    pub fn addr(self) -> Addr {
        self.addr
    }

    /// The length of the network part.
    #[expect(clippy::len_without_is_empty, reason = "the length of a prefix is not a size")]
    pub fn len(self) -> u8 {
        self.len
    }

    /// The prefix without host bits.
    pub fn masked(self) -> Prefix {
        Prefix {
            addr: self.addr.masked(self.len),
            len: self.len,
        }
    }

    /// Whether an address lies in the network.
    pub fn contains(self, addr: Addr) -> bool {
        !addr.has_zone && addr.is_v4 == self.addr.is_v4 && addr.masked(self.len) == self.addr.masked(self.len)
    }

    /// Whether two networks have an address in common.
    pub fn overlaps(self, other: Prefix) -> bool {
        let len = self.len.min(other.len);
        self.addr.is_v4 == other.addr.is_v4 && self.addr.masked(len) == other.addr.masked(len)
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_v4 || self.is_v4_in_v6() {
            let [a, b, c, d] = (self.bits as u32).to_be_bytes();
            let mapped = if self.is_v4 { "" } else { "::ffff:" };
            return write!(f, "{mapped}{a}.{b}.{c}.{d}");
        }
        let group = |i: usize| (self.bits >> (112 - 16 * i)) as u16;
        // The first of the longest runs of at least two zero groups is abbreviated.
        let mut zeros = 0..0;
        for start in 0..8 {
            let end = (start..8).find(|&i| group(i) != 0).unwrap_or(8);
            if end - start >= 2 && end - start > zeros.len() {
                zeros = start..end;
            }
        }
        let mut i = 0;
        while i < 8 {
            if i == zeros.start && !zeros.is_empty() {
                f.write_str("::")?;
                i = zeros.end;
                if i == 8 {
                    break;
                }
            } else if i > 0 {
                f.write_str(":")?;
            }
            write!(f, "{:x}", group(i))?;
            i += 1;
        }
        Ok(())
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}
