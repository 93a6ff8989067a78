//! `jwt.Decode(token, secret)`: verifies and decodes a signed token.
//!
//! Upstream counterpart: kyverno-authz `pkg/cel/libs/{jwt,jwk}` on jwx 3.1. With a string as key only HMAC signatures
//! are accepted. A key set comes from the network alone (`jwks.Fetch`), so no token can be verified with one here. A
//! token that is expired or not yet valid is decoded as well; its `Valid` is false.
//!
//! Known deviation: upstream's messages for broken headers and claims are shortened.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Sha256, Sha384, Sha512};

use super::message::{self, Item, Kind, Message, schemas};
use crate::{
    context::Context,
    decl::{Library, global},
    time::Timestamp,
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};
use kyvtest_go_compat::{
    text::{base64, number},
    value::{Data, Document, List, Map, Value, go_json},
};

schemas! { SCHEMAS:
    TOKEN = "jwt.Token" {
        "Claims": Kind::Json,
        "Valid": Kind::Bool,
    };
}

/// The type of key sets.
const SET: &str = "jwk.Set";

pub(super) fn declare(library: &mut Library) {
    message::declare(library, SCHEMAS);
    let set = Type::opaque(SET);
    library.add(
        "jwks.Fetch",
        [global("fetch_string", &[Type::String], set.clone()).unary(fetch)],
    );
    let token = || Type::structure(TOKEN.name);
    library.add(
        "jwt.Decode",
        [
            global("decode_string_string", &[Type::String, Type::String], token()).binary(decode),
            global("decode_string_set", &[Type::String, set], token()).binary(decode),
        ],
    );
}

fn fetch<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args {
        [Val::String(from)] => context.error(format_args!(
            "failed to fetch {from}: key sets come from the network, which is not used"
        )),
        _ => NO_SUCH_OVERLOAD,
    }
}

fn decode<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [Val::String(token), Val::String(key)] = args else {
        return NO_SUCH_OVERLOAD;
    };
    if key.is_empty() {
        return Val::Error("failed to initialize *jwk.symmetricKey from []uint8: non-empty []byte key required");
    }
    let claims = match verified(token.trim(), key.as_bytes()) {
        Ok(payload) => claims(&payload),
        Err(error) => Err(error),
    };
    let claims = match claims {
        Ok(claims) => claims,
        Err(error) => return context.error(format_args!("jwt.Parse: failed to parse token: {error}")),
    };
    if claims.has_null {
        return Val::Error(
            "failed to assign value to dst: source value is invalid (<nil>): invalid value (probably an untyped nil)",
        );
    }
    // Only claims that jwx keeps as a list of strings have no protobuf form here.
    if claims.audience {
        return Val::Error("proto: invalid type: []string");
    }
    let Some(now) = context.host.now() else {
        return Val::Error("the current time is not known");
    };
    let mut decoded = Message::new(&TOKEN).with("Claims", Item::Document(claims.document));
    let now = now.instant().0;
    let valid = claims.expires.is_none_or(|at| now < at)
        && claims.issued.is_none_or(|at| now >= at)
        && claims.not_before.is_none_or(|at| now >= at);
    if valid {
        decoded.set("Valid", Item::Bool(true));
    }
    context.opaque(decoded)
}

/// The payload of a token whose signature matches the key.
fn verified(token: &str, key: &[u8]) -> Result<Vec<u8>, String> {
    let parts: Vec<&str> = token.split('.').collect();
    let (&[header, payload, signature], false) = (&parts[..], token.starts_with('{')) else {
        return Err("unknown payload type (payload is not JWT?)".to_owned());
    };
    let compact = |what: &str, text: &str| {
        bytes(text).map_err(|at| {
            format!(
                "jws.Verify: failed to parse jws: jws.Parse: failed to parse compact format: failed to decode {what}: \
                 failed to decode source: illegal base64 data at input byte {at}"
            )
        })
    };
    let header_bytes = compact("protected headers", header)?;
    let decoded = compact("payload", payload)?;
    let signature = compact("signature", signature)?;
    let text = String::from_utf8_lossy(&header_bytes);
    let header_document = go_json::read(&text).map_err(|error| {
        format!(
            "jws.Verify: failed to parse jws: jws.Parse: failed to parse compact format: \
             failed to parse JOSE headers: {error}"
        )
    })?;
    let nothing_fits = |cause: &str| {
        let none = "jws.Verify: signature #1: no matching keys were provided by any key provider";
        format!("{NOT_VERIFIED}jws.Verify: signature #1: key provider 0 failed: {cause}\n{none}")
    };
    let field = |name: &str| header_document.root().get(name).and_then(Value::as_str);
    if let Some(kid) = field("kid") {
        return Err(nothing_fits(&format!(
            "failed to find key with key ID \"{kid}\" in key set"
        )));
    }
    let signed = format!("{header}.{payload}");
    // Without an algorithm, all are tried.
    let algorithm = header_document.root().get("alg").filter(|name| !name.is_null());
    let algorithms: Vec<&Algorithm> = ALGORITHMS
        .iter()
        .filter(|(name, _)| algorithm.is_none_or(|wanted| wanted.as_str() == Some(name)))
        .collect();
    if algorithms.is_empty() {
        let cause = "algorithm in the message does not match any of the inferred algorithms";
        return Err(nothing_fits(cause));
    }
    if algorithms
        .iter()
        .any(|(_, is_signed)| is_signed(key, &signed, &signature))
    {
        return Ok(decoded);
    }
    let failed = "jws.Verify: failed to verify signature #1 with key *jwk.symmetricKey: invalid HMAC signature\n";
    let failed = failed.repeat(algorithms.len());
    let tried = format!(
        "signature #1: tried {} key(s) but none verified successfully",
        algorithms.len()
    );
    Err(format!("{NOT_VERIFIED}{failed}jws.Verify: {tried}"))
}

/// An algorithm whose key may be a string, and its signature check.
type Algorithm = (&'static str, fn(&[u8], &str, &[u8]) -> bool);

const ALGORITHMS: [Algorithm; 3] = [
    ("HS256", is_signed::<Hmac<Sha256>>),
    ("HS384", is_signed::<Hmac<Sha384>>),
    ("HS512", is_signed::<Hmac<Sha512>>),
];

const NOT_VERIFIED: &str = "jws.Verify: could not verify message using any of the signatures or keys: ";

fn is_signed<M: Mac + KeyInit>(key: &[u8], signed: &str, signature: &[u8]) -> bool {
    // HMAC accepts keys of any length.
    <M as KeyInit>::new_from_slice(key)
        .is_ok_and(|mac| mac.chain_update(signed.as_bytes()).verify_slice(signature).is_ok())
}

/// Base64 in either alphabet, padded or not; the error is the position.
fn bytes(text: &str) -> Result<Vec<u8>, usize> {
    let standard = text.replace('-', "+").replace('_', "/");
    base64::decode(standard.as_bytes(), standard.ends_with('='))
}

/// The claims of a token.
struct Claims {
    document: Document,
    audience: bool,
    /// Whether another claim is null, which jwx cannot return.
    has_null: bool,
    /// `exp` in seconds.
    expires: Option<i64>,
    /// `iat` in seconds.
    issued: Option<i64>,
    /// `nbf` in seconds.
    not_before: Option<i64>,
}

fn claims(payload: &[u8]) -> Result<Claims, String> {
    let text = String::from_utf8_lossy(payload);
    let document = match go_json::read(&text) {
        Ok(document) if document.root().as_map().is_some() => document,
        _ => return Err("unknown payload type (payload is not JWT?)".to_owned()),
    };
    let mut claims = Claims {
        document: Document::null(),
        audience: false,
        has_null: false,
        expires: None,
        issued: None,
        not_before: None,
    };
    let mut fields = Vec::new();
    let entries = document.root().as_map().into_iter().flat_map(Map::iter);
    for (key, value) in entries {
        let key = key.text();
        let wrong = || {
            let value = value.to_json();
            format!("failed to parse token: failed to decode value for key {key}: invalid value {value}")
        };
        let data = match key {
            "exp" | "iat" | "nbf" => {
                let at = seconds(value).ok_or_else(wrong)?;
                let field = match key {
                    "exp" => &mut claims.expires,
                    "iat" => &mut claims.issued,
                    _ => &mut claims.not_before,
                };
                *field = Some(at);
                Data::Double(at as f64)
            }
            "aud" => {
                let mut list = value.as_list().into_iter().flat_map(List::iter);
                let fits = value.as_str().is_some() || value.as_list().is_some();
                if !fits || !list.all(|item| item.as_str().is_some()) {
                    return Err(wrong());
                }
                claims.audience = true;
                Data::Null
            }
            "iss" | "jti" | "sub" => match value {
                Value::String(text) => text.into(),
                Value::Null => "".into(),
                _ => return Err(wrong()),
            },
            _ => {
                claims.has_null |= value.is_null();
                Data::from(value)
            }
        };
        fields.push((key.into(), data));
    }
    let fields: Data = fields.into_iter().collect();
    claims.document = fields.to_document();
    Ok(claims)
}

/// A date: seconds as a number or as text, or RFC 3339.
fn seconds(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int(value) => Some(value),
        Value::Double(value) if value >= 0.0 => Some(value as i64),
        Value::String(text) if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
            let whole = text.split_once('.').map_or(text, |(whole, _)| whole);
            number::parse_int(whole, 10, 64).ok()
        }
        Value::String(text) => Timestamp::parse(text).map(|time| time.instant().0),
        _ => None,
    }
}
