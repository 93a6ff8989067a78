//! Certificates and certificate requests.
//!
//! Upstream counterpart: Go's `crypto/x509/parser.go`.
//!
//! Known deviations: only RSA public keys are parsed, the syntax of names in constraints is not checked, and most
//! errors in malformed requests are not distinguished.

pub mod der;
pub mod extensions;
pub mod pem;

use num_bigint::BigUint;

use super::time::Timestamp;
use der::{CONSTRUCTED, CONTEXT, Der, SEQUENCE, SET};
use extensions::Extensions;

/// The parsed value, or upstream's error message.
pub type Parsed<T> = Result<T, String>;

const RSA: [u32; 7] = [1, 2, 840, 113_549, 1, 1, 1];
/// The largest modulus in bytes; printing it in decimal takes quadratic time.
const MODULUS_LIMIT: usize = 8_192;

/// The index of an algorithm in Go's list; 0 if unknown. The three variants of RSA-PSS share a name and are not
/// distinguished.
pub fn signature_algorithm(algorithm: &[u32]) -> u8 {
    match algorithm {
        [1, 2, 840, 113_549, 1, 1, 4] => 2,
        [1, 2, 840, 113_549, 1, 1, 5] | [1, 3, 14, 3, 2, 29] => 3,
        [1, 2, 840, 113_549, 1, 1, 11] => 4,
        [1, 2, 840, 113_549, 1, 1, 12] => 5,
        [1, 2, 840, 113_549, 1, 1, 13] => 6,
        [1, 2, 840, 10_040, 4, 3] => 7,
        [2, 16, 840, 1, 101, 3, 4, 3, 2] => 8,
        [1, 2, 840, 10_045, 4, 1] => 9,
        [1, 2, 840, 10_045, 4, 3, n @ 2..=4] => *n as u8 + 8,
        [1, 3, 101, 112] => 16,
        _ => 0,
    }
}

/// An RSA key: the bytes of its two numbers.
pub struct Key<'a> {
    modulus: &'a [u8],
    exponent: i64,
}

impl<'a> Key<'a> {
    /// The key in a subject's public key info; `None` if it is not an RSA key.
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

    /// The modulus in decimal digits, and the exponent.
    pub fn numbers(&self) -> Parsed<(String, i64)> {
        if self.modulus.len() > MODULUS_LIMIT {
            return Err(format!("RSA modulus is longer than {MODULUS_LIMIT} bytes"));
        }
        Ok((BigUint::from_bytes_be(self.modulus).to_string(), self.exponent))
    }
}

/// A distinguished name: its attributes in order.
#[derive(Default)]
pub struct DistinguishedName(pub Vec<(Vec<u32>, String)>);

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

    /// The fields of Go's `pkix.Name` that are lists.
    pub fn lists(&self) -> impl Iterator<Item = (&'static str, Vec<String>)> {
        let fields = [
            ("Country", 6),
            ("Organization", 10),
            ("OrganizationalUnit", 11),
            ("Locality", 7),
            ("Province", 8),
            ("StreetAddress", 9),
            ("PostalCode", 17),
        ];
        fields.into_iter().map(|(field, number)| (field, self.values(number)))
    }

    /// The fields of Go's `pkix.Name` that are strings: the last value, or an empty one.
    pub fn strings(&self) -> impl Iterator<Item = (&'static str, String)> {
        let fields = [("SerialNumber", 5), ("CommonName", 3)];
        fields
            .into_iter()
            .map(|(field, number)| (field, self.values(number).pop().unwrap_or_default()))
    }

    /// The values of the attribute `2.5.4.last`.
    fn values(&self, last: u32) -> Vec<String> {
        let of_kind = self.0.iter().filter(|(kind, _)| kind[..] == [2, 5, 4, last]);
        of_kind.map(|(_, value)| value.clone()).collect()
    }
}

/// Decodes a string of one of the types that names use.
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

pub struct Certificate<'a> {
    pub raw: &'a [u8],
    pub raw_body: &'a [u8],
    pub raw_key: &'a [u8],
    pub raw_subject: &'a [u8],
    pub raw_issuer: &'a [u8],
    pub signature: &'a [u8],
    pub key: Option<Key<'a>>,
    /// In two's complement.
    pub serial: &'a [u8],
    /// 1 to 3.
    pub version: i64,
    pub subject: DistinguishedName,
    /// The algorithm of the signature.
    pub algorithm: Vec<u32>,
    pub issuer: DistinguishedName,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    pub extensions: Extensions<'a>,
}

impl<'a> Certificate<'a> {
    pub fn parse(bytes: &'a [u8]) -> Parsed<Self> {
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
        let algorithm_name = algorithm.object_identifier().ok_or_else(|| malformed("OID"))?;
        if !algorithm.is_empty() {
            algorithm.any().ok_or_else(|| malformed("parameters"))?;
        }
        let raw_issuer = body.element(SEQUENCE).ok_or_else(|| malformed("issuer"))?;
        let issuer = DistinguishedName::parse(raw_issuer)?;
        let mut validity = body.take(SEQUENCE).ok_or_else(|| malformed("validity"))?;
        let not_before = validity.time()?;
        let not_after = validity.time()?;
        let raw_subject = body.element(SEQUENCE).ok_or_else(|| malformed("issuer"))?;
        let subject = DistinguishedName::parse(raw_subject)?;
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
            serial,
            version: version + 1,
            subject,
            algorithm: algorithm_name,
            issuer,
            not_before,
            not_after,
            extensions,
        })
    }
}

/// A certificate request.
pub struct Request<'a> {
    pub raw_body: &'a [u8],
    pub raw_key: &'a [u8],
    pub raw_subject: &'a [u8],
    pub signature: &'a [u8],
    pub version: i64,
    pub algorithm: Vec<u32>,
    pub key: Option<Key<'a>>,
    pub subject: DistinguishedName,
    /// The attributes, not yet parsed.
    pub attributes: Der<'a>,
    pub extensions: Extensions<'a>,
}

impl<'a> Request<'a> {
    pub fn parse(bytes: &'a [u8]) -> Parsed<Self> {
        Self::outline(bytes).ok_or_else(|| "x509: malformed certificate request".to_owned())?
    }

    /// The outer `None` is a malformed request.
    fn outline(bytes: &'a [u8]) -> Option<Parsed<Self>> {
        let mut input = Der(bytes);
        let mut outer = input.take(SEQUENCE)?;
        if outer.is_empty() {
            return Some(Err("asn1: syntax error: sequence truncated".to_owned()));
        }
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
                attributes,
                extensions: Extensions::requested(attributes)?,
            })
        };
        Some(parsed())
    }
}
