//! Kyverno's functions that read and write encodings: base64, JSON, YAML, checksums, images, addresses.
//!
//! Upstream counterpart: Kyverno `pkg/engine/jmespath/functions.go`.

use std::fmt::Write as _;

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::{Call, data, failed, refused};
use crate::interpreter::ItemResult;
use kyvtest_go_compat::{
    regex::{Regex, generate},
    text::{base64, image_info::ImageInfo, ip, url},
    value::{Data, Document, go_json},
};

pub(super) fn base64_encode<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    call.returns(base64::encode(call.text(0)?.as_bytes()))
}

pub(super) fn base64_decode<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    match base64::decode(call.text(0)?.as_bytes(), true) {
        Ok(bytes) => call.returns(lossy(&bytes)),
        Err(at) => refused(format!("illegal base64 data at input byte {at}")),
    }
}

/// Decodes bytes, with U+FFFD for each invalid byte.
fn lossy(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

pub(super) fn parse_json<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let text = call.text(0)?;
    call.interpreter.charge(text.len())?;
    match go_json::read(text) {
        Ok(document) => data(Data::from(document.root())),
        Err(error) => refused(error),
    }
}

pub(super) fn parse_yaml<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let text = call.text(0)?;
    call.interpreter.charge(text.len())?;
    match Document::from_yaml(text) {
        Ok(document) => data(Data::from(document.root()).with_doubles()),
        // The prefix belongs to a decoder into Go types, which Kyverno does not use here.
        Err(error) => refused(error.strip_prefix("error converting YAML to JSON: ").unwrap_or(&error)),
    }
}

fn checksum<'e, D: Digest>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let mut digits = String::new();
    for byte in D::digest(call.text(0)?.as_bytes()) {
        let _ = write!(digits, "{byte:02x}");
    }
    data(digits)
}

pub(super) fn md5<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    checksum::<Md5>(call)
}

pub(super) fn sha1<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    checksum::<Sha1>(call)
}

pub(super) fn sha256<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    checksum::<Sha256>(call)
}

pub(super) fn image_normalize<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    match ImageInfo::parse(call.text(0)?) {
        Ok(image) => data(image.to_string()),
        Err(error) => failed("image_normalize", error),
    }
}

pub(super) fn is_external_url<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let url = match url::parse(call.text(0)?) {
        Ok(url) => url,
        Err(error) => return refused(error),
    };
    let host = url.hostname();
    if host == b"localhost" {
        return data(false);
    }
    match ip::parse_addr(host) {
        // Addresses with a zone need no lookup either.
        Ok(address) => data(!(address.unmapped().is_loopback() || address.unmapped().is_private())),
        _ => refused(format!("lookup {}: no such host", String::from_utf8_lossy(host))),
    }
}

pub(super) fn random<'e>(call: &Call<'_, 'e>) -> ItemResult<'e> {
    let pattern = call.text(0)?;
    if pattern.is_empty() {
        return refused("no pattern provided");
    }
    let build = |pattern: &str| {
        let within = Regex::new_within(pattern, |states| call.interpreter.charge(states as usize).is_ok());
        within.map_err(|error| error.to_string())
    };
    let regex = match generate::compile(pattern, build) {
        Ok(regex) => regex,
        Err(error) => return refused(error),
    };
    let Some(random) = call.interpreter.context.random else {
        return refused("no source of random numbers for `random`");
    };
    match generate::text(&regex, random()) {
        Ok(text) => call.returns(text),
        Err(error) => refused(error),
    }
}
