//! The signatures of a message.
//!
//! Upstream counterpart: `BlobSignatureVerifier` of `pkg/k8smanifest/verify.go`, `pkg/cosign/verify.go` of
//! `k8s-manifest-sigstore` and the ECDSA verifier of `sigstore/pkg/signature`, texts included.

use super::Problem;
use kyvtest_go_compat::{
    text::{base64, quote::go_json},
    value::Data,
};
use p256::{
    ecdsa::{Signature, VerifyingKey, signature::Verifier as _},
    pkcs8::DecodePublicKey as _,
};

/// Verifies a message with the key of an attestor: one of the signatures must be valid.
///
/// # Errors
/// If there is no signature, the key cannot be read, or no signature is valid.
pub(super) fn verify(entry: &Data, message: &[u8], signatures: &[String]) -> Result<(), Problem> {
    let other = |text: String| Err(Problem::Other(text));
    if signatures.is_empty() {
        return Err(Problem::NotFound("signature not found".to_owned()));
    }
    let Some(key) = entry.at(&["keys", "publicKeys"]).and_then(Data::as_str) else {
        return other("only signatures by public keys are verified".to_owned());
    };
    // A key that does not begin with its first line is taken for the name of a file.
    let is_pem = key.starts_with("-----BEGIN PUBLIC KEY-----");
    let Ok(verifier) = VerifyingKey::from_public_key_pem(key.trim()) else {
        return other(if is_pem && is_other_key(key) {
            "only ECDSA keys on the curve P-256 are verified".to_owned()
        } else {
            "failed to judge signature type from public key configuration".to_owned()
        });
    };
    if !is_pem {
        return other("failed to judge signature type from public key configuration".to_owned());
    }
    let mut trials = Vec::new();
    for (i, signature) in signatures.iter().enumerate() {
        match verify_one(&verifier, message, signature) {
            Ok(()) => return Ok(()),
            Err(error) => trials.push(go_json(&format!(
                "[publickey 1/1] [signature {}/{}] error: cosign.VerifyBlobCmd.Exec() returned an error: {error}",
                i + 1,
                signatures.len()
            ))),
        }
    }
    other(format!(
        "verification failed for {} signature. all trials: [{}]",
        signatures.len(),
        trials.join(",")
    ))
}

/// Whether a text is a key of another algorithm: PEM whose content is a sequence of ASN.1.
fn is_other_key(key: &str) -> bool {
    let body: String = key.lines().filter(|line| !line.starts_with("-----")).collect();
    base64::decode(body.as_bytes(), true).is_ok_and(|bytes| bytes.first() == Some(&0x30))
}

fn verify_one(verifier: &VerifyingKey, message: &[u8], written: &str) -> Result<(), &'static str> {
    // What is not base64 is the signature itself.
    let bytes = base64::decode(written.as_bytes(), true).unwrap_or_else(|_| written.as_bytes().to_vec());
    if let Ok(signature) = Signature::from_der(&bytes) {
        let valid = verifier.verify(message, &signature).is_ok();
        return valid
            .then_some(())
            .ok_or("invalid signature when validating ASN.1 encoded signature");
    }
    if bytes.is_empty() || bytes.len() > 132 || !bytes.len().is_multiple_of(2) {
        return Err("ecdsa: Invalid IEEE_P1363 encoded bytes");
    }
    let valid = Signature::from_slice(&bytes).is_ok_and(|signature| verifier.verify(message, &signature).is_ok());
    valid
        .then_some(())
        .ok_or("invalid signature when validating IEEE_P1363 encoded signature")
}
