//! Certificate extensions.
//!
//! Upstream counterpart: Go's `crypto/x509/parser.go` `processExtensions`.
//!
//! Known deviations: those of [`super`].

use super::{
    Parsed,
    der::{self, CONSTRUCTED, CONTEXT, Der, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, SET},
};
use crate::text::{
    base64::encode as base64,
    quote::quote,
    url::{self, Url},
};

/// The parsed extensions of a certificate.
#[derive(Default)]
pub struct Extensions<'a> {
    pub all: Vec<(Vec<u32>, bool, &'a [u8])>,
    pub key_usage: u32,
    pub extended_key_usage: Vec<u32>,
    pub basic_constraints: Option<(bool, i64)>,
    pub authority_key: Option<&'a [u8]>,
    pub ocsp_servers: Vec<String>,
    pub issuing_urls: Vec<String>,
    pub dns_names: Vec<String>,
    pub emails: Vec<String>,
    pub addresses: Vec<String>,
    pub uris: Vec<Url>,
    pub subject_key: Option<&'a [u8]>,
    pub unknown_key_usage: Vec<Vec<u32>>,
    pub unhandled: Vec<Vec<u32>>,
    pub require_explicit_policy: Option<i64>,
    pub inhibit_policy_mapping: Option<i64>,
    pub inhibit_any_policy: Option<i64>,
    pub policy_mappings: Vec<(Vec<u32>, Vec<u32>)>,
    pub constraints_critical: bool,
    pub permitted: Constraints,
    pub excluded: Constraints,
    pub distribution_points: Vec<String>,
    pub policies: Option<Vec<Vec<u32>>>,
}

/// Names that a certificate permits or excludes.
#[derive(Default)]
pub struct Constraints {
    pub domains: Vec<String>,
    pub ranges: Vec<(String, String)>,
    pub emails: Vec<String>,
    pub uri_domains: Vec<String>,
    /// Names of other types are present.
    unhandled: bool,
}

fn latin(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn address(bytes: &[u8]) -> Option<String> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(std::net::Ipv4Addr::from(four).to_string());
    }
    let six = std::net::Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?);
    // Go prints an IPv4-mapped address as IPv4.
    Some(
        six.to_ipv4_mapped()
            .map_or_else(|| six.to_string(), |four| four.to_string()),
    )
}

impl<'a> Extensions<'a> {
    pub(crate) fn parse(mut list: Der<'a>) -> Parsed<Self> {
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

    /// The extensions that a certificate request contains in one of its attributes.
    pub fn requested(mut attributes: Der<'a>) -> Parsed<Self> {
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

    pub(crate) fn process(&mut self) -> Parsed<()> {
        for (id, critical, value) in self.all.clone() {
            let mut unhandled = false;
            match id[..] {
                [2, 5, 29, 14] => {
                    if critical {
                        return Err("x509: subject key identifier incorrectly marked critical".to_owned());
                    }
                    let key = Der(value)
                        .take(OCTET_STRING)
                        .ok_or("x509: invalid subject key identifier")?;
                    self.subject_key = Some(key.0);
                }
                [2, 5, 29, 15] => {
                    let (bits, _) = Der(value).bit_string().ok_or("x509: invalid key usage")?;
                    let is_set = |i: usize| bits.get(i / 8).is_some_and(|byte| byte >> (7 - i % 8) & 1 == 1);
                    self.key_usage = (0..9).filter(|&i| is_set(i)).map(|i| 1 << i).sum();
                }
                [2, 5, 29, 17] => {
                    self.alternative_names(value)?;
                    unhandled = self.dns_names.is_empty()
                        && self.emails.is_empty()
                        && self.addresses.is_empty()
                        && self.uris.is_empty();
                }
                [2, 5, 29, 19] => self.basic_constraints = Some(basic_constraints(value)?),
                [2, 5, 29, 30] => {
                    self.name_constraints(value, critical)?;
                    unhandled = self.permitted.unhandled || self.excluded.unhandled;
                }
                [2, 5, 29, 31] => self.distribution_points(value)?,
                [2, 5, 29, 33] => {
                    self.policy_mappings(value)
                        .ok_or("x509: invalid policy mappings extension")?;
                }
                [2, 5, 29, 36] => {
                    self.policy_constraints(value)
                        .ok_or("x509: invalid policy constraints extension")?;
                }
                [2, 5, 29, 54] => {
                    let number = Der(value).small_integer();
                    self.inhibit_any_policy = Some(number.ok_or("x509: invalid inhibit any policy extension")?);
                }
                [2, 5, 29, 32] => self.policies = Some(policies(value)?),
                [2, 5, 29, 35] => {
                    if critical {
                        return Err("x509: authority key identifier incorrectly marked critical".to_owned());
                    }
                    let invalid = "x509: invalid authority key identifier";
                    let mut sequence = Der(value).take(SEQUENCE).ok_or(invalid)?;
                    self.authority_key = sequence.optional(CONTEXT).ok_or(invalid)?.map(|key| key.0);
                }
                [2, 5, 29, 37] => self.key_usages(value).ok_or("x509: invalid extended key usages")?,
                [1, 3, 6, 1, 5, 5, 7, 1, 1] => {
                    if critical {
                        return Err("x509: authority info access incorrectly marked critical".to_owned());
                    }
                    self.authority_access(value)
                        .ok_or("x509: invalid authority info access")?;
                }
                _ => unhandled = true,
            }
            if critical && unhandled {
                self.unhandled.push(id);
            }
        }
        Ok(())
    }

    /// Parses the extended key usages: those that Go numbers, and the others.
    fn key_usages(&mut self, value: &[u8]) -> Option<()> {
        let mut list = Der(value).take(SEQUENCE)?;
        while !list.is_empty() {
            let usage = list.object_identifier()?;
            let number = match usage[..] {
                [2, 5, 29, 37, 0] => 0,
                [1, 3, 6, 1, 5, 5, 7, 3, n @ 1..=9] => n,
                [1, 3, 6, 1, 4, 1, 311, 10, 3, 3] => 10,
                [2, 16, 840, 1, 113_730, 4, 1] => 11,
                [1, 3, 6, 1, 4, 1, 311, 2, 1, 22] => 12,
                [1, 3, 6, 1, 4, 1, 311, 61, 1, 1] => 13,
                _ => {
                    self.unknown_key_usage.push(usage);
                    continue;
                }
            };
            self.extended_key_usage.push(number);
        }
        Some(())
    }

    fn policy_mappings(&mut self, value: &[u8]) -> Option<()> {
        let mut list = Der(value).take(SEQUENCE)?;
        while !list.is_empty() {
            let mut pair = list.take(SEQUENCE)?;
            self.policy_mappings
                .push((pair.object_identifier()?, pair.object_identifier()?));
        }
        Some(())
    }

    fn policy_constraints(&mut self, value: &[u8]) -> Option<()> {
        let mut sequence = Der(value).take(SEQUENCE)?;
        if sequence.peek(CONTEXT) {
            self.require_explicit_policy = Some(sequence.small_integer_tagged(CONTEXT)?);
        }
        if sequence.peek(CONTEXT | 1) {
            self.inhibit_policy_mapping = Some(sequence.small_integer_tagged(CONTEXT | 1)?);
        }
        Some(())
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
                    let text = ascii("uniformResourceIdentifier")?;
                    let uri = url::parse(&text)
                        .map_err(|error| format!("x509: cannot parse URI {}: {error}", quote(&text)))?;
                    self.uris.push(uri);
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
                _ => constraints.unhandled = true,
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
