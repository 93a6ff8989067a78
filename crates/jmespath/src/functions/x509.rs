//! `x509_decode(pem)`: an RSA certificate or certificate request with Go's field names.
//!
//! Upstream counterpart: Kyverno `pkg/engine/jmespath/functions.go` (`jpX509Decode`): Go's whole structure by way of
//! JSON.

use std::sync::Arc;

use num_bigint::BigUint;

use super::{Call, refused};
use crate::{interpreter::ItemResult, item::Item};
use kyvtest_go_compat::{
    text::{
        base64,
        time::Timestamp,
        url::Url,
        x509::{
            Certificate, DistinguishedName, Key, Parsed, Request,
            der::{self, Der},
            extensions::{Constraints, Extensions},
            pem, signature_algorithm,
        },
    },
    value::Data,
};

/// Fields under construction.
type Fields = Vec<(Arc<str>, Data)>;

pub(super) fn x509_decode<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let Some((block, _)) = pem::decode(call.text(0)?.as_bytes()) else {
        return refused("failed to decode PEM block");
    };
    let decoded = match block.kind.as_str() {
        "CERTIFICATE" => certificate(&block.bytes),
        "CERTIFICATE REQUEST" => request(&block.bytes),
        _ => Err("PEM block neither contains a CERTIFICATE or CERTIFICATE REQUEST".to_owned()),
    };
    match decoded {
        Ok(data) => Ok(Item::Data(data)),
        Err(error) => refused(error),
    }
}

fn put(fields: &mut Fields, name: &str, value: impl Into<Data>) {
    fields.push((Arc::from(name), value.into()));
}

fn bytes(bytes: &[u8]) -> Data {
    Data::from(base64::encode(bytes))
}

/// A list; an empty one is null, like Go's nil.
fn list(items: impl Iterator<Item = Data>) -> Data {
    let items: Vec<Data> = items.collect();
    if items.is_empty() {
        Data::Null
    } else {
        items.into_iter().collect()
    }
}

fn texts(items: &[String]) -> Data {
    list(items.iter().map(|item| Data::from(item.as_str())))
}

fn identifier(numbers: &[u32]) -> Data {
    numbers.iter().map(|number| Data::from(f64::from(*number))).collect()
}

/// An object identifier in dotted form, which newer parts of Go's structure use.
fn dotted(numbers: &[u32]) -> Data {
    let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
    Data::from(numbers.join("."))
}

fn public_key(fields: &mut Fields, key: Option<&Key<'_>>) -> Parsed<()> {
    let Some(key) = key else {
        return Err("certificate should use rsa algorithm".to_owned());
    };
    let (modulus, exponent) = key.numbers()?;
    put(fields, "PublicKeyAlgorithm", 1.0);
    let mut numbers = Fields::new();
    put(&mut numbers, "N", modulus);
    put(&mut numbers, "E", exponent as f64);
    put(fields, "PublicKey", Data::from_iter(numbers));
    Ok(())
}

fn certificate(der: &[u8]) -> Parsed<Data> {
    let certificate = Certificate::parse(der)?;
    let mut fields = Fields::new();
    public_key(&mut fields, certificate.key.as_ref())?;
    for (name, value) in [
        ("Raw", certificate.raw),
        ("RawTBSCertificate", certificate.raw_body),
        ("RawSubjectPublicKeyInfo", certificate.raw_key),
        ("RawSubject", certificate.raw_subject),
        ("RawIssuer", certificate.raw_issuer),
        ("Signature", certificate.signature),
    ] {
        put(&mut fields, name, bytes(value));
    }
    let algorithm = signature_algorithm(&certificate.algorithm);
    put(&mut fields, "SignatureAlgorithm", f64::from(algorithm));
    put(&mut fields, "Version", certificate.version as f64);
    let serial = BigUint::from_bytes_be(certificate.serial).to_string();
    put(&mut fields, "SerialNumber", serial.parse().unwrap_or(f64::INFINITY));
    put(&mut fields, "Issuer", name(&certificate.issuer));
    put(&mut fields, "Subject", name(&certificate.subject));
    for (name, time) in [
        ("NotBefore", certificate.not_before),
        ("NotAfter", certificate.not_after),
    ] {
        put(&mut fields, name, Timestamp { nanos: 0, ..time }.to_string());
    }
    extensions(&mut fields, &certificate.extensions);
    Ok(Data::from_iter(fields))
}

fn request(der: &[u8]) -> Parsed<Data> {
    let request = Request::parse(der)?;
    let mut fields = Fields::new();
    public_key(&mut fields, request.key.as_ref())?;
    for (name, value) in [
        ("Raw", der),
        ("RawTBSCertificateRequest", request.raw_body),
        ("RawSubjectPublicKeyInfo", request.raw_key),
        ("RawSubject", request.raw_subject),
        ("Signature", request.signature),
    ] {
        put(&mut fields, name, bytes(value));
    }
    put(&mut fields, "Version", request.version as f64);
    let algorithm = signature_algorithm(&request.algorithm);
    put(&mut fields, "SignatureAlgorithm", f64::from(algorithm));
    put(&mut fields, "Subject", name(&request.subject));
    put(&mut fields, "Attributes", attributes(request.attributes));
    put(&mut fields, "ExtraExtensions", Data::Null);
    put(&mut fields, "Extensions", extension_list(&request.extensions));
    alternative_names(&mut fields, &request.extensions);
    Ok(Data::from_iter(fields))
}

fn name(name: &DistinguishedName) -> Data {
    let mut fields = Fields::new();
    for (key, values) in name.lists() {
        put(&mut fields, key, texts(&values));
    }
    for (key, value) in name.strings() {
        put(&mut fields, key, value);
    }
    let attributes = name.0.iter();
    let names = attributes.map(|(kind, value)| typed_value(kind, Data::from(value.as_str())));
    put(&mut fields, "Names", list(names));
    put(&mut fields, "ExtraNames", Data::Null);
    Data::from_iter(fields)
}

fn typed_value(kind: &[u32], value: Data) -> Data {
    Data::from_iter([(Arc::from("Type"), identifier(kind)), (Arc::from("Value"), value)])
}

fn extension_list(extensions: &Extensions<'_>) -> Data {
    list(extensions.all.iter().map(|(id, critical, value)| {
        let mut fields = Fields::new();
        put(&mut fields, "Id", identifier(id));
        put(&mut fields, "Critical", *critical);
        put(&mut fields, "Value", bytes(value));
        Data::from_iter(fields)
    }))
}

fn alternative_names(fields: &mut Fields, extensions: &Extensions<'_>) {
    put(fields, "DNSNames", texts(&extensions.dns_names));
    put(fields, "EmailAddresses", texts(&extensions.emails));
    put(fields, "IPAddresses", texts(&extensions.addresses));
    put(fields, "URIs", list(extensions.uris.iter().map(uri)));
}

fn uri(uri: &Url) -> Data {
    let parts = uri.fields();
    let mut fields = Fields::new();
    for (name, text) in parts.texts {
        put(&mut fields, name, text.into_owned());
    }
    // Go's user info has no exported fields.
    let user = if parts.user {
        Data::Map(Arc::default())
    } else {
        Data::Null
    };
    put(&mut fields, "User", user);
    put(&mut fields, "ForceQuery", parts.force_query);
    put(&mut fields, "OmitHost", parts.omit_host);
    Data::from_iter(fields)
}

fn extensions(fields: &mut Fields, extensions: &Extensions<'_>) {
    alternative_names(fields, extensions);
    put(fields, "KeyUsage", f64::from(extensions.key_usage));
    put(fields, "Extensions", extension_list(extensions));
    put(fields, "ExtraExtensions", Data::Null);
    let unhandled = extensions.unhandled.iter();
    put(
        fields,
        "UnhandledCriticalExtensions",
        list(unhandled.map(|id| identifier(id))),
    );
    let usages = extensions.extended_key_usage.iter();
    put(
        fields,
        "ExtKeyUsage",
        list(usages.map(|usage| Data::from(f64::from(*usage)))),
    );
    let unknown = extensions.unknown_key_usage.iter();
    put(fields, "UnknownExtKeyUsage", list(unknown.map(|id| identifier(id))));
    let (is_authority, longest_path) = extensions.basic_constraints.unwrap_or_default();
    let valid = extensions.basic_constraints.is_some();
    put(fields, "BasicConstraintsValid", valid);
    put(fields, "IsCA", is_authority);
    put(fields, "MaxPathLen", longest_path as f64);
    put(fields, "MaxPathLenZero", valid && longest_path == 0);
    put(fields, "SubjectKeyId", extensions.subject_key.map_or(Data::Null, bytes));
    put(
        fields,
        "AuthorityKeyId",
        extensions.authority_key.map_or(Data::Null, bytes),
    );
    put(fields, "OCSPServer", texts(&extensions.ocsp_servers));
    put(fields, "IssuingCertificateURL", texts(&extensions.issuing_urls));
    put(fields, "CRLDistributionPoints", texts(&extensions.distribution_points));
    put(fields, "PermittedDNSDomainsCritical", extensions.constraints_critical);
    constraints(fields, "Permitted", &extensions.permitted);
    constraints(fields, "Excluded", &extensions.excluded);
    let policies = extensions.policies.as_ref();
    let of =
        |one: fn(&[u32]) -> Data| policies.map_or(Data::Null, |policies| policies.iter().map(|id| one(id)).collect());
    put(fields, "PolicyIdentifiers", of(identifier));
    put(fields, "Policies", of(dotted));
    for (name, number) in [
        ("InhibitAnyPolicy", extensions.inhibit_any_policy),
        ("InhibitPolicyMapping", extensions.inhibit_policy_mapping),
        ("RequireExplicitPolicy", extensions.require_explicit_policy),
    ] {
        put(fields, name, number.unwrap_or_default() as f64);
        put(fields, &format!("{name}Zero"), number == Some(0));
    }
    let mappings = extensions.policy_mappings.iter().map(|(issuer, subject)| {
        let mut fields = Fields::new();
        put(&mut fields, "IssuerDomainPolicy", dotted(issuer));
        put(&mut fields, "SubjectDomainPolicy", dotted(subject));
        Data::from_iter(fields)
    });
    put(fields, "PolicyMappings", list(mappings));
}

fn constraints(fields: &mut Fields, prefix: &str, constraints: &Constraints) {
    put(fields, &format!("{prefix}DNSDomains"), texts(&constraints.domains));
    put(fields, &format!("{prefix}EmailAddresses"), texts(&constraints.emails));
    put(fields, &format!("{prefix}URIDomains"), texts(&constraints.uri_domains));
    let ranges = constraints.ranges.iter().map(|(address, mask)| {
        let mut fields = Fields::new();
        put(&mut fields, "IP", address.as_str());
        put(&mut fields, "Mask", mask.as_str());
        Data::from_iter(fields)
    });
    put(fields, &format!("{prefix}IPRanges"), list(ranges));
}

/// The attributes of a request that are sets of sets of typed values; like upstream, drops others.
fn attributes(mut der: Der<'_>) -> Data {
    let mut found = Vec::new();
    while let Some(attribute) = der.take(der::SEQUENCE) {
        found.extend(attribute_of(attribute));
    }
    list(found.into_iter())
}

fn attribute_of(mut attribute: Der<'_>) -> Option<Data> {
    let kind = attribute.object_identifier()?;
    let mut values = attribute.take(der::SET)?;
    let mut sets = Vec::new();
    while !values.is_empty() {
        let mut set = values.take(der::SEQUENCE)?;
        let mut members = Vec::new();
        while !set.is_empty() {
            let mut member = set.take(der::SEQUENCE)?;
            let kind = member.object_identifier()?;
            let (tag, value, _) = member.any()?;
            members.push(typed_value(&kind, any_value(tag, value)));
        }
        sets.push(members.into_iter().collect::<Data>());
    }
    Some(typed_value(&kind, sets.into_iter().collect()))
}

/// A value whose type is given by its tag.
fn any_value(tag: u8, Der(content): Der<'_>) -> Data {
    match tag {
        der::BOOLEAN => Data::from(content != [0]),
        der::OCTET_STRING => bytes(content),
        der::OBJECT_IDENTIFIER => der::object_identifier(content).map_or(Data::Null, |id| identifier(&id)),
        der::INTEGER if content.len() <= 8 => {
            let sign = if content.first().is_some_and(|byte| byte & 0x80 != 0) {
                -1
            } else {
                0
            };
            let number = content
                .iter()
                .fold(sign, |number: i64, &byte| number << 8 | i64::from(byte));
            Data::from(number as f64)
        }
        12 | 18 | 19 | 20 | 22 => Data::from(String::from_utf8_lossy(content).into_owned()),
        _ => Data::Null,
    }
}
