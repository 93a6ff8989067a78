//! Extensions of certificates.
//!
//! Upstream counterpart: Go's `crypto/x509/parser.go` `processExtensions`; the deviations are those of `certificate`.

use super::{
    certificate::{Parsed, identifier, strings},
    der::{self, CONSTRUCTED, CONTEXT, Der, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, SET},
};
use crate::{text::base64::encode as base64, value::Builder};

#[derive(Default)]
pub(super) struct Extensions<'a> {
    all: Vec<(Vec<u32>, bool, &'a [u8])>,
    key_usage: u32,
    extended_key_usage: Vec<u32>,
    basic_constraints: Option<(bool, i64)>,
    authority_key: Option<&'a [u8]>,
    ocsp_servers: Vec<String>,
    issuing_urls: Vec<String>,
    pub(super) dns_names: Vec<String>,
    pub(super) emails: Vec<String>,
    pub(super) addresses: Vec<String>,
    constraints_critical: bool,
    permitted: Constraints,
    excluded: Constraints,
    distribution_points: Vec<String>,
    policies: Option<Vec<Vec<u32>>>,
}

#[derive(Default)]
struct Constraints {
    domains: Vec<String>,
    ranges: Vec<(String, String)>,
    emails: Vec<String>,
    uri_domains: Vec<String>,
}

fn latin(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn address(bytes: &[u8]) -> Option<String> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(std::net::Ipv4Addr::from(four).to_string());
    }
    let six = std::net::Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?);
    // Go prints a mapped address as the one it stands for.
    Some(
        six.to_ipv4_mapped()
            .map_or_else(|| six.to_string(), |four| four.to_string()),
    )
}

impl<'a> Extensions<'a> {
    pub(super) fn parse(mut list: Der<'a>) -> Parsed<Self> {
        let mut extensions = Self::default();
        while !list.is_empty() {
            let mut item = list.take(SEQUENCE).ok_or("x509: malformed extension")?;
            let id = item.object_identifier().ok_or("x509: malformed extension OID field")?;
            let critical =
                item.peek(der::BOOLEAN) && item.boolean().ok_or("x509: malformed extension critical field")?;
            let Der(value) = item.take(OCTET_STRING).ok_or("x509: malformed extension value field")?;
            if extensions.all.iter().any(|(other, ..)| *other == id) {
                let id: Vec<String> = id.iter().map(u32::to_string).collect();
                return Err(format!(
                    "x509: certificate contains duplicate extension with OID \"{}\"",
                    id.join(".")
                ));
            }
            extensions.all.push((id, critical, value));
        }
        Ok(extensions)
    }

    /// The extensions that a request asks for, in one of its attributes.
    pub(super) fn requested(mut attributes: Der<'a>) -> Parsed<Self> {
        const EXTENSION_REQUEST: [u32; 7] = [1, 2, 840, 113_549, 1, 9, 14];
        while let Some(mut attribute) = attributes.take(SEQUENCE) {
            if attribute.object_identifier().is_some_and(|id| id == EXTENSION_REQUEST)
                && let Some(mut values) = attribute.take(SET)
                && let Some(list) = values.take(SEQUENCE)
            {
                let mut extensions = Self::parse(list)?;
                let names = extensions
                    .all
                    .iter()
                    .find(|(id, ..)| id[..] == [2, 5, 29, 17])
                    .map(|(_, _, value)| *value);
                if let Some(names) = names {
                    extensions.alternative_names(names)?;
                }
                return Ok(extensions);
            }
        }
        Ok(Self::default())
    }

    pub(super) fn process(&mut self) -> Parsed<()> {
        for (id, critical, value) in self.all.clone() {
            match id[..] {
                [2, 5, 29, 14] => {
                    if critical {
                        return Err("x509: subject key identifier incorrectly marked critical".to_owned());
                    }
                    Der(value)
                        .take(OCTET_STRING)
                        .ok_or("x509: invalid subject key identifier")?;
                }
                [2, 5, 29, 15] => {
                    let (bits, _) = Der(value).bit_string().ok_or("x509: invalid key usage")?;
                    let is_set = |i: usize| bits.get(i / 8).is_some_and(|byte| byte >> (7 - i % 8) & 1 == 1);
                    self.key_usage = (0..9).filter(|&i| is_set(i)).map(|i| 1 << i).sum();
                }
                [2, 5, 29, 17] => self.alternative_names(value)?,
                [2, 5, 29, 19] => self.basic_constraints = Some(basic_constraints(value)?),
                [2, 5, 29, 30] => self.name_constraints(value, critical)?,
                [2, 5, 29, 31] => self.distribution_points(value)?,
                [2, 5, 29, 32] => self.policies = Some(policies(value)?),
                [2, 5, 29, 35] => {
                    if critical {
                        return Err("x509: authority key identifier incorrectly marked critical".to_owned());
                    }
                    let invalid = "x509: invalid authority key identifier";
                    let mut sequence = Der(value).take(SEQUENCE).ok_or(invalid)?;
                    self.authority_key = sequence.optional(CONTEXT).ok_or(invalid)?.map(|key| key.0);
                }
                [2, 5, 29, 37] => self.extended_key_usage = extended_key_usage(value)?,
                [1, 3, 6, 1, 5, 5, 7, 1, 1] => {
                    if critical {
                        return Err("x509: authority info access incorrectly marked critical".to_owned());
                    }
                    self.authority_access(value)
                        .ok_or("x509: invalid authority info access")?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn alternative_names(&mut self, value: &[u8]) -> Parsed<()> {
        let mut names = Der(value)
            .take(SEQUENCE)
            .ok_or("x509: invalid subject alternative names")?;
        while !names.is_empty() {
            let (tag, name, _) = names.any().ok_or("x509: invalid subject alternative name")?;
            let ascii = |what: &str| {
                let text = std::str::from_utf8(name.0).ok().filter(|text| text.is_ascii());
                text.map(str::to_owned)
                    .ok_or_else(|| format!("x509: SAN {what} is malformed"))
            };
            match tag ^ CONTEXT {
                1 => self.emails.push(ascii("rfc822Name")?),
                2 => self.dns_names.push(ascii("dNSName")?),
                6 => {
                    ascii("uniformResourceIdentifier")?;
                }
                7 => {
                    let length = name.0.len();
                    let text = address(name.0);
                    self.addresses
                        .push(text.ok_or_else(|| format!("x509: cannot parse IP address of length {length}"))?);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn name_constraints(&mut self, value: &[u8], critical: bool) -> Parsed<()> {
        let invalid = "x509: invalid NameConstraints extension";
        let mut outer = Der(value);
        let mut both = outer.take(SEQUENCE).filter(|_| outer.is_empty()).ok_or(invalid)?;
        let permitted = both.optional(CONTEXT | CONSTRUCTED).ok_or(invalid)?.unwrap_or(Der(&[]));
        let excluded = both
            .optional(CONTEXT | CONSTRUCTED | 1)
            .ok_or(invalid)?
            .unwrap_or(Der(&[]));
        if !both.is_empty() {
            return Err(invalid.to_owned());
        }
        if permitted.is_empty() && excluded.is_empty() {
            return Err("x509: empty name constraints extension".to_owned());
        }
        self.permitted = Constraints::parse(permitted)?;
        self.excluded = Constraints::parse(excluded)?;
        self.constraints_critical = critical;
        Ok(())
    }

    fn distribution_points(&mut self, value: &[u8]) -> Parsed<()> {
        let mut points = Der(value)
            .take(SEQUENCE)
            .ok_or("x509: invalid CRL distribution points")?;
        let invalid = "x509: invalid CRL distribution point";
        while !points.is_empty() {
            let mut point = points.take(SEQUENCE).ok_or(invalid)?;
            let Some(mut name) = point.optional(CONTEXT | CONSTRUCTED).ok_or(invalid)? else {
                continue;
            };
            let mut names = name.take(CONTEXT | CONSTRUCTED).ok_or(invalid)?;
            while names.peek(CONTEXT | 6) {
                let Der(uri) = names.take(CONTEXT | 6).ok_or(invalid)?;
                self.distribution_points.push(latin(uri));
            }
        }
        Ok(())
    }

    fn authority_access(&mut self, value: &[u8]) -> Option<()> {
        let mut list = Der(value).take(SEQUENCE)?;
        while !list.is_empty() {
            let mut item = list.take(SEQUENCE)?;
            let method = item.object_identifier()?;
            if !item.peek(CONTEXT | 6) {
                continue;
            }
            let Der(uri) = item.take(CONTEXT | 6)?;
            match method[..] {
                [1, 3, 6, 1, 5, 5, 7, 48, 1] => self.ocsp_servers.push(latin(uri)),
                [1, 3, 6, 1, 5, 5, 7, 48, 2] => self.issuing_urls.push(latin(uri)),
                _ => {}
            }
        }
        Some(())
    }

    pub(super) fn write_all(&self, out: &mut Builder) {
        if self.all.is_empty() {
            out.null();
            return;
        }
        out.begin_list();
        for (id, critical, value) in &self.all {
            out.begin_map();
            out.key("Id");
            identifier(out, id);
            out.key("Critical");
            out.bool(*critical);
            out.key("Value");
            out.string(&base64(value));
            out.end();
        }
        out.end();
    }

    pub(super) fn write(&self, out: &mut Builder) {
        out.key("KeyUsage");
        out.double(f64::from(self.key_usage));
        out.key("Extensions");
        self.write_all(out);
        out.key("ExtraExtensions");
        out.null();
        out.key("ExtKeyUsage");
        if self.extended_key_usage.is_empty() {
            out.null();
        } else {
            identifier(out, &self.extended_key_usage);
        }
        let (is_authority, longest_path) = self.basic_constraints.unwrap_or_default();
        let valid = self.basic_constraints.is_some();
        for (name, flag) in [
            ("BasicConstraintsValid", valid),
            ("IsCA", is_authority),
            ("MaxPathLenZero", valid && longest_path == 0),
            ("PermittedDNSDomainsCritical", self.constraints_critical),
        ] {
            out.key(name);
            out.bool(flag);
        }
        out.key("MaxPathLen");
        out.double(longest_path as f64);
        out.key("AuthorityKeyId");
        match self.authority_key {
            Some(key) => out.string(&base64(key)),
            None => out.null(),
        }
        for (name, items) in [
            ("OCSPServer", &self.ocsp_servers),
            ("IssuingCertificateURL", &self.issuing_urls),
            ("DNSNames", &self.dns_names),
            ("EmailAddresses", &self.emails),
            ("IPAddresses", &self.addresses),
            ("PermittedDNSDomains", &self.permitted.domains),
            ("ExcludedDNSDomains", &self.excluded.domains),
            ("PermittedEmailAddresses", &self.permitted.emails),
            ("ExcludedEmailAddresses", &self.excluded.emails),
            ("PermittedURIDomains", &self.permitted.uri_domains),
            ("ExcludedURIDomains", &self.excluded.uri_domains),
            ("CRLDistributionPoints", &self.distribution_points),
        ] {
            strings(out, name, items);
        }
        for (name, ranges) in [
            ("PermittedIPRanges", &self.permitted.ranges),
            ("ExcludedIPRanges", &self.excluded.ranges),
        ] {
            out.key(name);
            if ranges.is_empty() {
                out.null();
                continue;
            }
            out.begin_list();
            for (address, mask) in ranges {
                out.begin_map();
                out.key("IP");
                out.string(address);
                out.key("Mask");
                out.string(mask);
                out.end();
            }
            out.end();
        }
        out.key("PolicyIdentifiers");
        match &self.policies {
            Some(policies) => {
                out.begin_list();
                for policy in policies {
                    identifier(out, policy);
                }
                out.end();
            }
            None => out.null(),
        }
    }
}

impl Constraints {
    fn parse(mut subtrees: Der<'_>) -> Parsed<Self> {
        let mut constraints = Self::default();
        while !subtrees.is_empty() {
            let invalid = "x509: invalid NameConstraints extension";
            let mut subtree = subtrees.take(SEQUENCE).ok_or(invalid)?;
            let (tag, value, _) = subtree.any().ok_or(invalid)?;
            match tag ^ CONTEXT {
                1 => constraints.emails.push(latin(value.0)),
                2 => constraints.domains.push(latin(value.0)),
                6 => constraints.uri_domains.push(latin(value.0)),
                7 => {
                    let length = value.0.len();
                    let (ip, mask) = value.0.split_at(length / 2);
                    let text = address(ip).filter(|_| length % 2 == 0);
                    let text = text.ok_or_else(|| format!("x509: IP constraint contained value of length {length}"))?;
                    constraints.ranges.push((text, base64(mask)));
                }
                _ => {}
            }
        }
        Ok(constraints)
    }
}

fn basic_constraints(value: &[u8]) -> Parsed<(bool, i64)> {
    let parse = || {
        let mut sequence = Der(value).take(SEQUENCE)?;
        let is_authority = if sequence.peek(der::BOOLEAN) {
            sequence.boolean()?
        } else {
            false
        };
        let longest_path = if sequence.peek(der::INTEGER) {
            sequence.small_integer().filter(|length| *length >= 0)?
        } else {
            -1
        };
        Some((is_authority, longest_path))
    };
    parse().ok_or_else(|| "x509: invalid basic constraints".to_owned())
}

fn policies(value: &[u8]) -> Parsed<Vec<Vec<u32>>> {
    let parse = || {
        let mut list = Der(value).take(SEQUENCE)?;
        let mut policies: Vec<Vec<u32>> = Vec::new();
        while !list.is_empty() {
            let Der(id) = list.take(SEQUENCE)?.take(OBJECT_IDENTIFIER)?;
            let id = der::object_identifier(id)?;
            if policies.contains(&id) {
                return None;
            }
            policies.push(id);
        }
        Some(policies)
    };
    parse().ok_or_else(|| "x509: invalid certificate policies".to_owned())
}

/// The uses that Go has numbers for.
fn extended_key_usage(value: &[u8]) -> Parsed<Vec<u32>> {
    let parse = || {
        let mut list = Der(value).take(SEQUENCE)?;
        let mut usages = Vec::new();
        while !list.is_empty() {
            usages.extend(match list.object_identifier()?[..] {
                [2, 5, 29, 37, 0] => Some(0),
                [1, 3, 6, 1, 5, 5, 7, 3, n @ 1..=9] => Some(n),
                [1, 3, 6, 1, 4, 1, 311, 10, 3, 3] => Some(10),
                [2, 16, 840, 1, 113_730, 4, 1] => Some(11),
                [1, 3, 6, 1, 4, 1, 311, 2, 1, 22] => Some(12),
                [1, 3, 6, 1, 4, 1, 311, 61, 1, 1] => Some(13),
                _ => None,
            });
        }
        Some(usages)
    };
    parse().ok_or_else(|| "x509: invalid extended key usages".to_owned())
}
