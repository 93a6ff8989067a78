//! Certificates and certificate requests as `encoding/json` writes the SDK's structures.
//!
//! Upstream counterpart: the structures of SDK `libs/x509`.
//!
//! Known deviations: those of [`kyvtest_go_compat::text::x509`]; URIs and the attributes of requests are `null`.

use kyvtest_go_compat::{
    text::{
        base64::encode as base64,
        time::Timestamp,
        x509::{Certificate, DistinguishedName, Parsed, Request, extensions::Extensions, signature_algorithm},
    },
    value::{Builder, Document},
};

/// Decodes a certificate to JSON.
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
    // The lowest 64 bits.
    let serial = certificate
        .serial
        .iter()
        .fold(0_i64, |value, &b| value << 8 | i64::from(b));
    out.double(serial as f64);
    out.key("Issuer");
    write_name(&certificate.issuer, &mut out);
    for (name, time) in [
        ("NotBefore", certificate.not_before),
        ("NotAfter", certificate.not_after),
    ] {
        out.key(name);
        out.string(&Timestamp { nanos: 0, ..time }.to_string());
    }
    write_extensions(&certificate.extensions, &mut out);
    out.end();
    Ok(out.finish())
}

/// Decodes a certificate request to JSON.
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
    write_name(&request.subject, &mut out);
    for name in ["Attributes", "ExtraExtensions", "URIs"] {
        out.key(name);
        out.null();
    }
    out.key("Extensions");
    write_extension_list(&request.extensions, &mut out);
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

fn write_name(name: &DistinguishedName, out: &mut Builder) {
    out.begin_map();
    for (key, values) in name.lists() {
        strings(out, key, &values);
    }
    for (key, value) in name.strings() {
        out.key(key);
        out.string(&value);
    }
    out.key("Names");
    if name.0.is_empty() {
        out.null();
    } else {
        out.begin_list();
        for (kind, value) in &name.0 {
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

fn write_extension_list(extensions: &Extensions<'_>, out: &mut Builder) {
    if extensions.all.is_empty() {
        out.null();
        return;
    }
    out.begin_list();
    for (id, critical, value) in &extensions.all {
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

fn write_extensions(extensions: &Extensions<'_>, out: &mut Builder) {
    out.key("KeyUsage");
    out.double(f64::from(extensions.key_usage));
    out.key("Extensions");
    write_extension_list(extensions, out);
    out.key("ExtraExtensions");
    out.null();
    out.key("ExtKeyUsage");
    if extensions.extended_key_usage.is_empty() {
        out.null();
    } else {
        identifier(out, &extensions.extended_key_usage);
    }
    let (is_authority, longest_path) = extensions.basic_constraints.unwrap_or_default();
    let valid = extensions.basic_constraints.is_some();
    for (name, flag) in [
        ("BasicConstraintsValid", valid),
        ("IsCA", is_authority),
        ("MaxPathLenZero", valid && longest_path == 0),
        ("PermittedDNSDomainsCritical", extensions.constraints_critical),
    ] {
        out.key(name);
        out.bool(flag);
    }
    out.key("MaxPathLen");
    out.double(longest_path as f64);
    out.key("AuthorityKeyId");
    match extensions.authority_key {
        Some(key) => out.string(&base64(key)),
        None => out.null(),
    }
    for (name, items) in [
        ("OCSPServer", &extensions.ocsp_servers),
        ("IssuingCertificateURL", &extensions.issuing_urls),
        ("DNSNames", &extensions.dns_names),
        ("EmailAddresses", &extensions.emails),
        ("IPAddresses", &extensions.addresses),
        ("PermittedDNSDomains", &extensions.permitted.domains),
        ("ExcludedDNSDomains", &extensions.excluded.domains),
        ("PermittedEmailAddresses", &extensions.permitted.emails),
        ("ExcludedEmailAddresses", &extensions.excluded.emails),
        ("PermittedURIDomains", &extensions.permitted.uri_domains),
        ("ExcludedURIDomains", &extensions.excluded.uri_domains),
        ("CRLDistributionPoints", &extensions.distribution_points),
    ] {
        strings(out, name, items);
    }
    for (name, ranges) in [
        ("PermittedIPRanges", &extensions.permitted.ranges),
        ("ExcludedIPRanges", &extensions.excluded.ranges),
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
    match &extensions.policies {
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
