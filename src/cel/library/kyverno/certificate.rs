//! Certificates and certificate requests as Go's `crypto/x509` reads them and `encoding/json` writes them.
//!
//! Upstream counterpart: Go's `crypto/x509/parser.go`, and the structures of SDK `libs/x509`. Known deviations: public
//! keys other than RSA's are not looked into, the syntax of names in constraints is not checked, URIs and the attributes
//! of requests are left out of the answer (`null`), and the errors of malformed requests are not told apart.

use num_bigint::BigUint;

use super::{
    der::{CONSTRUCTED, CONTEXT, Der, SEQUENCE, SET},
    extensions::Extensions,
};
use crate::{
    text::{base64::encode as base64, time::Timestamp},
    value::{Builder, Document},
};

pub(super) type Parsed<T> = Result<T, String>;

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
pub(super) fn strings(out: &mut Builder, name: &str, items: &[String]) {
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

pub(super) fn identifier(out: &mut Builder, numbers: &[u32]) {
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
