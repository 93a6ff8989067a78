//! `verifyImages` of a rule: references, attestors, and no digests changed where violations are only reported.
//!
//! Upstream counterpart: `Validate` of `ImageVerification`, `AttestorSet` and `Attestor` in
//! `api/kyverno/v1/image_verification_types.go`. Known deviations: attestations and notary are not looked into, and a value in
//! a text has its fields sorted unless named here.

use super::{Errors, json};
use crate::{
    policy::{FailureAction, Policy, Rule},
    text::variable::has_variable,
    yaml::{Items, Node},
};

fn text<'t>(node: Node<'t>, name: &str) -> &'t str {
    node.get(name).and_then(Node::as_str).unwrap_or_default()
}

fn items<'t>(node: Node<'t>, name: &str) -> impl Iterator<Item = Node<'t>> {
    node.get(name).and_then(Node::as_seq).into_iter().flat_map(Items::iter)
}

fn images(rule: &Rule) -> impl Iterator<Item = Node<'_>> {
    let list = rule.verify_images.as_ref().and_then(|part| part.node().as_seq());
    list.into_iter().flat_map(Items::iter)
}

/// Whether a reference of a rule has variables, which is not allowed.
pub(super) fn has_variables(rule: &Rule) -> bool {
    images(rule).any(|image| {
        let own = image.get("image").and_then(Node::as_str);
        let mut references = items(image, "imageReferences").filter_map(Node::as_str).chain(own);
        references.any(has_variable)
    })
}

/// Checks a rule in force.
///
/// # Errors
/// All mistakes together, in upstream's words.
pub(super) fn check(policy: &Policy, rule: &Rule, i: usize) -> Result<(), String> {
    let mut errors = Errors::default();
    let mut audit = policy.spec.validation_failure_action == FailureAction::Audit;
    for (j, image) in images(rule).enumerate() {
        let path = format!("spec.rules[{i}].verifyImages[{j}]");
        match text(image, "failureAction") {
            "" => {}
            action => audit = action == "Audit",
        }
        let mutates = image.get("mutateDigest").and_then(Node::as_bool).unwrap_or(true);
        if audit && mutates {
            let detail = "mutateDigest must be set to false for ‘Audit’ failure action";
            errors.invalid(&format!("{path}.mutateDigest"), "true", detail);
        }
        if items(image, "imageReferences").next().is_none() && text(image, "image").is_empty() {
            errors.invalid(&path, &json::image(image), "An image reference is required");
        }
        for (k, set) in items(image, "attestors").enumerate() {
            attestors(set, &format!("{path}.attestors[{k}]"), &mut errors, 0);
        }
    }
    errors.finish()
}

fn attestors(set: Node<'_>, path: &str, errors: &mut Errors, depth: usize) {
    let entries = items(set, "entries").count();
    let count = set.get("count").and_then(Node::number);
    if let Some(crate::yaml::Number::Int(count)) = count
        && usize::try_from(count).is_ok_and(|count| count > entries)
    {
        errors.invalid(
            path,
            &json::attestors(set, depth > 0),
            "Count cannot exceed length of entries",
        );
    }
    if entries == 0 {
        errors.invalid(path, &json::attestors(set, depth > 0), "An entry is required");
    }
    for (i, entry) in items(set, "entries").enumerate() {
        attestor(entry, &format!("{path}.entries[{i}]"), errors, depth);
    }
}

fn attestor(entry: Node<'_>, path: &str, errors: &mut Errors, depth: usize) {
    let part = |name: &str| entry.get(name).filter(|part| !part.is_null());
    let kinds = ["keys", "certificates", "keyless", "attestor"];
    if kinds.iter().filter(|kind| part(kind).is_some()).count() != 1 {
        let detail = "keys, certificates, keyless, or a nested attestor is required";
        errors.invalid(path, &json::attestor(entry, depth > 0), detail);
    }
    let empty = |node: Node<'_>, names: &[&str]| names.iter().all(|name| text(node, name).is_empty());
    if let Some(keys) = part("keys")
        && empty(keys, &["publicKeys", "kms"])
        && keys.get("secret").is_none_or(Node::is_null)
    {
        let detail = "A public key, kms key or secret is required";
        errors.invalid(&format!("{path}.keys"), &json::keys(keys, depth > 0), detail);
    }
    if let Some(certificates) = part("certificates").filter(|part| empty(*part, &["cert", "certChain"])) {
        let value = json::certificates(certificates);
        errors.invalid(&format!("{path}.certificates"), &value, "cert or certChain required");
    }
    if let Some(keyless) = part("keyless") {
        let path = format!("{path}.keyless");
        match keyless.get("rekor").filter(|rekor| !rekor.is_null()) {
            None if text(keyless, "roots").is_empty() => {
                errors.invalid(&path, &json::keyless(keyless), "Either Rekor URL or roots are required");
            }
            Some(rekor) if text(rekor, "url").is_empty() => {
                errors.invalid(&path, &json::keyless(keyless), "An URL is required");
            }
            _ => {}
        }
    }
    if let Some(nested) = part("attestor").filter(|_| depth < 32) {
        attestors(nested, &format!("{path}.attestor"), errors, depth + 1);
    }
}
