//! Certificates and certificate requests as Go's `crypto/x509` reads them and `encoding/json` writes them.
//!
//! Upstream counterpart: Go's `crypto/x509/parser.go`, and the structures of SDK `libs/x509`. Known deviations: public
//! keys other than RSA's are not looked into, the syntax of names in constraints is not checked, URIs and the attributes
//! of requests are left out of the answer (`null`), and the errors of malformed requests are not told apart.

use num_bigint::BigUint;

use super::{
    der::{self, CONSTRUCTED, CONTEXT, Der, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, SET},
    go_json::base64,
};
use crate::{
    cel::time::Timestamp,
    value::{Builder, Document},
};

type Parsed<T> = Result<T, String>;

const RSA: [u32; 7] = [1, 2, 840, 113_549, 1, 1, 1];
/// The largest modulus in bytes; writing it in decimal digits takes quadratic time.
const MODULUS_LIMIT: usize = 8_192;

/// The answer for a certificate.
pub(super) fn decode(bytes: &[u8]) -> Parsed<Document> {
    let certificate = Certificate::parse(bytes)?;
    let Some(key) = certificate.key else {
        return Err("certificate should use rsa algorithm".to_owned());
    };
    let (modulus, exponent) = key.numbers()?;
    let mut out = Builder::new();
    out.begin_map();
    for (name, bytes) in [
        ("Raw", certificate.raw),
        ("RawTBSCertificate", certificate.raw_body),
        ("RawSubjectPublicKeyInfo", certificate.raw_key),
        ("RawSubject", certificate.raw_subject),
        ("RawIssuer", certificate.raw_issuer),
        ("Signature", certificate.signature),
    ] {
        out.key(name);
        out.string(&base64(bytes));
    }
    public_key(&mut out, &modulus, exponent);
    out.key("SerialNumber");
    out.double(certificate.serial as f64);
    out.key("Issuer");
    certificate.issuer.write(&mut out);
    for (name, time) in [
        ("NotBefore", certificate.not_before),
        ("NotAfter", certificate.not_after),
    ] {
        out.key(name);
        out.string(&Timestamp { nanos: 0, ..time }.to_string());
    }
    certificate.extensions.write(&mut out);
    out.end();
    Ok(out.finish())
}

/// The answer for a certificate request.
pub(super) fn decode_request(bytes: &[u8]) -> Parsed<Document> {
    let request = Request::parse(bytes)?;
    let Some(key) = request.key else {
        return Err("certificate should use rsa algorithm".to_owned());
    };
    let (modulus, exponent) = key.numbers()?;
    let mut out = Builder::new();
    out.begin_map();
    for (name, bytes) in [
        ("Raw", bytes),
        ("RawTBSCertificateRequest", request.raw_body),
        ("RawSubjectPublicKeyInfo", request.raw_key),
        ("RawSubject", request.raw_subject),
        ("Signature", request.signature),
    ] {
        out.key(name);
        out.string(&base64(bytes));
    }
    out.key("Version");
    out.double(request.version as f64);
    out.key("SignatureAlgorithm");
    out.double(f64::from(signature_algorithm(&request.algorithm)));
    public_key(&mut out, &modulus, exponent);
    out.key("Subject");
    request.subject.write(&mut out);
    for name in ["Attributes", "ExtraExtensions", "URIs"] {
        out.key(name);
        out.null();
    }
    out.key("Extensions");
    request.extensions.write_all(&mut out);
    strings(&mut out, "DNSNames", &request.extensions.dns_names);
    strings(&mut out, "EmailAddresses", &request.extensions.emails);
    strings(&mut out, "IPAddresses", &request.extensions.addresses);
    out.end();
    Ok(out.finish())
}

/// Whether these are the bytes of a certificate.
pub(super) fn is_certificate(bytes: &[u8]) -> bool {
    Certificate::parse(bytes).is_ok()
}

fn public_key(out: &mut Builder, modulus: &str, exponent: i64) {
    out.key("PublicKeyAlgorithm");
    out.double(1.0);
    out.key("PublicKey");
    out.begin_map();
    out.key("N");
    out.string(modulus);
    out.key("E");
    out.double(exponent as f64);
    out.end();
}

/// A list of strings; an empty one is null.
fn strings(out: &mut Builder, name: &str, items: &[String]) {
    out.key(name);
    if items.is_empty() {
        out.null();
        return;
    }
    out.begin_list();
    for item in items {
        out.string(item);
    }
    out.end();
}

fn identifier(out: &mut Builder, numbers: &[u32]) {
    out.begin_list();
    for number in numbers {
        out.double(f64::from(*number));
    }
    out.end();
}

/// The place of an algorithm in Go's list, 0 for one that is not among RSA's.
fn signature_algorithm(algorithm: &[u32]) -> u8 {
    match algorithm {
        [1, 2, 840, 113_549, 1, 1, 4] => 2,
        [1, 2, 840, 113_549, 1, 1, 5] | [1, 3, 14, 3, 2, 29] => 3,
        [1, 2, 840, 113_549, 1, 1, 11] => 4,
        [1, 2, 840, 113_549, 1, 1, 12] => 5,
        [1, 2, 840, 113_549, 1, 1, 13] => 6,
        _ => 0,
    }
}

/// An RSA key: the bytes of its two numbers.
struct Key<'a> {
    modulus: &'a [u8],
    exponent: i64,
}

impl<'a> Key<'a> {
    /// The key in a subject's public key info; `None` for one that is not RSA's.
    fn parse(info: &'a [u8]) -> Parsed<Option<Self>> {
        let malformed = || "x509: malformed spki".to_owned();
        let mut info = Der(info).take(SEQUENCE).ok_or_else(malformed)?;
        let mut algorithm = info
            .take(SEQUENCE)
            .ok_or("x509: malformed public key algorithm identifier")?;
        let name = algorithm.object_identifier().ok_or("x509: malformed OID")?;
        let parameters = algorithm.0;
        if !parameters.is_empty() {
            Der(parameters).any().ok_or("x509: malformed parameters")?;
        }
        let (bits, _) = info.bit_string().ok_or("x509: malformed subjectPublicKey")?;
        if name != RSA {
            return Ok(None);
        }
        if parameters != [5, 0] {
            return Err("x509: RSA key missing NULL parameters".to_owned());
        }
        let mut key = Der(bits).take(SEQUENCE).ok_or("x509: invalid RSA public key")?;
        let modulus = key.integer().ok_or("x509: invalid RSA modulus")?;
        let exponent = key.small_integer().ok_or("x509: invalid RSA public exponent")?;
        if modulus[0] & 0x80 != 0 || modulus == [0] {
            return Err("x509: RSA modulus is not a positive number".to_owned());
        }
        if exponent <= 0 {
            return Err("x509: RSA public exponent is not a positive number".to_owned());
        }
        Ok(Some(Self { modulus, exponent }))
    }

    fn numbers(&self) -> Parsed<(String, i64)> {
        if self.modulus.len() > MODULUS_LIMIT {
            return Err(format!("RSA modulus is longer than {MODULUS_LIMIT} bytes"));
        }
        Ok((BigUint::from_bytes_be(self.modulus).to_string(), self.exponent))
    }
}

/// A distinguished name: its attributes in order.
#[derive(Default)]
struct DistinguishedName(Vec<(Vec<u32>, String)>);

impl DistinguishedName {
    fn parse(name: &[u8]) -> Parsed<Self> {
        let invalid = "x509: invalid RDNSequence";
        let mut name = Der(name).take(SEQUENCE).ok_or(invalid)?;
        let mut attributes = Vec::new();
        while !name.is_empty() {
            let mut set = name.take(SET).ok_or(invalid)?;
            while !set.is_empty() {
                let mut attribute = set
                    .take(SEQUENCE)
                    .ok_or_else(|| format!("{invalid}: invalid attribute"))?;
                let kind = attribute
                    .object_identifier()
                    .ok_or_else(|| format!("{invalid}: invalid attribute type"))?;
                let (tag, value, _) = attribute
                    .any()
                    .ok_or_else(|| format!("{invalid}: invalid attribute value"))?;
                let value =
                    text(tag, value.0).map_err(|error| format!("{invalid}: invalid attribute value: {error}"))?;
                attributes.push((kind, value));
            }
        }
        Ok(Self(attributes))
    }

    fn values(&self, last: u32) -> Vec<String> {
        let of_kind = self.0.iter().filter(|(kind, _)| kind[..] == [2, 5, 4, last]);
        of_kind.map(|(_, value)| value.clone()).collect()
    }

    fn write(&self, out: &mut Builder) {
        out.begin_map();
        for (name, number) in [
            ("Country", 6),
            ("Organization", 10),
            ("OrganizationalUnit", 11),
            ("Locality", 7),
            ("Province", 8),
            ("StreetAddress", 9),
            ("PostalCode", 17),
        ] {
            strings(out, name, &self.values(number));
        }
        for (name, number) in [("SerialNumber", 5), ("CommonName", 3)] {
            out.key(name);
            out.string(self.values(number).last().map_or("", String::as_str));
        }
        out.key("Names");
        if self.0.is_empty() {
            out.null();
        } else {
            out.begin_list();
            for (kind, value) in &self.0 {
                out.begin_map();
                out.key("Type");
                identifier(out, kind);
                out.key("Value");
                out.string(value);
                out.end();
            }
            out.end();
        }
        out.key("ExtraNames");
        out.null();
        out.end();
    }
}

/// A string of one of the types that names use.
fn text(tag: u8, bytes: &[u8]) -> Parsed<String> {
    let latin = || bytes.iter().map(|&b| char::from(b)).collect();
    match tag {
        12 => String::from_utf8(bytes.to_vec()).map_err(|_| "invalid UTF-8 string".to_owned()),
        18 if bytes.iter().all(|b| b.is_ascii_digit() || *b == b' ') => Ok(latin()),
        18 => Err("invalid NumericString".to_owned()),
        19 if bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b" '()*+,-./:=?&".contains(b)) =>
        {
            Ok(latin())
        }
        19 => Err("invalid PrintableString".to_owned()),
        20 => Ok(latin()),
        22 if bytes.is_ascii() => Ok(latin()),
        22 => Err("invalid IA5String".to_owned()),
        30 => {
            let bytes = bytes.strip_suffix(&[0, 0]).unwrap_or(bytes);
            let units = bytes.chunks(2).map(|pair| match *pair {
                [high, low] => char::from_u32(u32::from(high) << 8 | u32::from(low)),
                _ => None,
            });
            let reserved = |c: char| matches!(c, '\u{fdd0}'..='\u{fdef}' | '\u{fffe}' | '\u{ffff}');
            let text: Option<String> = units.map(|c| c.filter(|&c| !reserved(c))).collect();
            text.ok_or_else(|| "invalid BMPString".to_owned())
        }
        _ => Err(format!("unsupported string type: {tag}")),
    }
}

struct Certificate<'a> {
    raw: &'a [u8],
    raw_body: &'a [u8],
    raw_key: &'a [u8],
    raw_subject: &'a [u8],
    raw_issuer: &'a [u8],
    signature: &'a [u8],
    key: Option<Key<'a>>,
    /// The lowest 64 bits.
    serial: i64,
    issuer: DistinguishedName,
    not_before: Timestamp,
    not_after: Timestamp,
    extensions: Extensions<'a>,
}

impl<'a> Certificate<'a> {
    fn parse(bytes: &'a [u8]) -> Parsed<Self> {
        let malformed = |what: &str| format!("x509: malformed {what}");
        let mut input = Der(bytes);
        let raw = input.element(SEQUENCE).ok_or_else(|| malformed("certificate"))?;
        let trailing = !input.is_empty();
        let mut input = Der(raw).take(SEQUENCE).ok_or_else(|| malformed("certificate"))?;
        let raw_body = input.element(SEQUENCE).ok_or_else(|| malformed("tbs certificate"))?;
        let mut body = Der(raw_body)
            .take(SEQUENCE)
            .ok_or_else(|| malformed("tbs certificate"))?;
        let version = match body
            .optional(CONTEXT | CONSTRUCTED)
            .ok_or_else(|| malformed("version"))?
        {
            Some(mut version) => {
                let number = version.small_integer().filter(|_| version.is_empty());
                number
                    .filter(|number| *number >= 0)
                    .ok_or_else(|| malformed("version"))?
            }
            None => 0,
        };
        if version > 2 {
            return Err("x509: invalid version".to_owned());
        }
        let serial = body.integer().ok_or_else(|| malformed("serial number"))?;
        if serial[0] & 0x80 != 0 {
            return Err("x509: negative serial number".to_owned());
        }
        let mut algorithm = body
            .take(SEQUENCE)
            .ok_or_else(|| malformed("signature algorithm identifier"))?;
        let outer = input.take(SEQUENCE).ok_or_else(|| malformed("algorithm identifier"))?;
        if outer != algorithm {
            return Err("x509: inner and outer signature algorithm identifiers don't match".to_owned());
        }
        algorithm.object_identifier().ok_or_else(|| malformed("OID"))?;
        if !algorithm.is_empty() {
            algorithm.any().ok_or_else(|| malformed("parameters"))?;
        }
        let raw_issuer = body.element(SEQUENCE).ok_or_else(|| malformed("issuer"))?;
        let issuer = DistinguishedName::parse(raw_issuer)?;
        let mut validity = body.take(SEQUENCE).ok_or_else(|| malformed("validity"))?;
        let not_before = validity.time()?;
        let not_after = validity.time()?;
        let raw_subject = body.element(SEQUENCE).ok_or_else(|| malformed("issuer"))?;
        DistinguishedName::parse(raw_subject)?;
        let raw_key = body.element(SEQUENCE).ok_or_else(|| malformed("spki"))?;
        let key = Key::parse(raw_key)?;
        let mut extensions = Extensions::default();
        if version > 0 {
            body.optional(CONTEXT | 1).ok_or_else(|| malformed("issuerUniqueID"))?;
            body.optional(CONTEXT | 2).ok_or_else(|| malformed("subjectUniqueID"))?;
        }
        if version == 2
            && let Some(mut list) = body
                .optional(CONTEXT | CONSTRUCTED | 3)
                .ok_or_else(|| malformed("extensions"))?
        {
            let list = list.take(SEQUENCE).ok_or_else(|| malformed("extensions"))?;
            extensions = Extensions::parse(list)?;
            extensions.process()?;
        }
        let (signature, _) = input.bit_string().ok_or_else(|| malformed("signature"))?;
        if trailing {
            return Err("x509: trailing data".to_owned());
        }
        Ok(Self {
            raw,
            raw_body,
            raw_key,
            raw_subject,
            raw_issuer,
            signature,
            key,
            serial: serial.iter().fold(0_i64, |value, &b| value << 8 | i64::from(b)),
            issuer,
            not_before,
            not_after,
            extensions,
        })
    }
}

struct Request<'a> {
    raw_body: &'a [u8],
    raw_key: &'a [u8],
    raw_subject: &'a [u8],
    signature: &'a [u8],
    version: i64,
    algorithm: Vec<u32>,
    key: Option<Key<'a>>,
    subject: DistinguishedName,
    extensions: Extensions<'a>,
}

impl<'a> Request<'a> {
    fn parse(bytes: &'a [u8]) -> Parsed<Self> {
        Self::outline(bytes).ok_or_else(|| "x509: malformed certificate request".to_owned())?
    }

    /// The outer `None` is a malformed request.
    fn outline(bytes: &'a [u8]) -> Option<Parsed<Self>> {
        let mut input = Der(bytes);
        let mut outer = input.take(SEQUENCE)?;
        if !input.is_empty() {
            return Some(Err("asn1: syntax error: trailing data".to_owned()));
        }
        let raw_body = outer.element(SEQUENCE)?;
        let algorithm = outer.take(SEQUENCE)?.object_identifier()?;
        let (signature, _) = outer.bit_string()?;
        let mut body = Der(raw_body).take(SEQUENCE)?;
        let version = body.small_integer()?;
        let raw_subject = body.element(SEQUENCE)?;
        let raw_key = body.element(SEQUENCE)?;
        let attributes = body.optional(CONTEXT | CONSTRUCTED)?.unwrap_or(Der(&[]));
        let parsed = || -> Parsed<Self> {
            Ok(Self {
                raw_body,
                raw_key,
                raw_subject,
                signature,
                version,
                algorithm,
                key: Key::parse(raw_key)?,
                subject: DistinguishedName::parse(raw_subject)?,
                extensions: Extensions::requested(attributes)?,
            })
        };
        Some(parsed())
    }
}

#[derive(Default)]
struct Extensions<'a> {
    all: Vec<(Vec<u32>, bool, &'a [u8])>,
    key_usage: u32,
    extended_key_usage: Vec<u32>,
    basic_constraints: Option<(bool, i64)>,
    authority_key: Option<&'a [u8]>,
    ocsp_servers: Vec<String>,
    issuing_urls: Vec<String>,
    dns_names: Vec<String>,
    emails: Vec<String>,
    addresses: Vec<String>,
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
    fn parse(mut list: Der<'a>) -> Parsed<Self> {
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
    fn requested(mut attributes: Der<'a>) -> Parsed<Self> {
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

    fn process(&mut self) -> Parsed<()> {
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

    fn write_all(&self, out: &mut Builder) {
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

    fn write(&self, out: &mut Builder) {
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
