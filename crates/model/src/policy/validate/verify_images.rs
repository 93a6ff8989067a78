//! `verifyImages` of a rule: references, attestors, and no digest mutation if violations are only reported.
//!
//! Upstream counterpart: `Validate` of `ImageVerification`, `AttestorSet` and `Attestor` in
//! `api/kyverno/v1/image_verification_types.go`.

use super::{Errors, json};
use crate::policy::{ClassicPolicy, FailureAction, Rule};
use kyvtest_go_compat::{
    text::variable::has_variable,
    yaml::{Entries, Items, Kind, Node},
};

/// The hash algorithms of signatures; the empty one is valid.
const ALGORITHMS: [&str; 5] = ["", "sha224", "sha256", "sha384", "sha512"];

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

/// Whether a reference of a rule has variables, which are forbidden there.
pub(super) fn has_variables(rule: &Rule) -> bool {
    images(rule).any(|image| {
        let own = image.get("image").and_then(Node::as_str);
        let mut references = items(image, "imageReferences").filter_map(Node::as_str).chain(own);
        references.any(has_variable)
    })
}

/// Checks an effective rule.
///
/// # Errors
/// All errors together, with upstream's messages.
pub(super) fn check(policy: &ClassicPolicy, rule: &Rule, i: usize) -> Result<(), String> {
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
        for (k, attestation) in items(image, "attestations").enumerate() {
            for (l, set) in items(attestation, "attestors").enumerate() {
                let place = format!("{path}.attestations[{k}].attestors[{l}]");
                attestors(set, &place, &mut errors, 0);
            }
        }
        for (k, set) in items(image, "attestors").enumerate() {
            attestors(set, &format!("{path}.attestors[{k}]"), &mut errors, 0);
        }
        old_attestor(image, &path, &mut errors);
        if text(image, "type") == "Notary" {
            let entries = items(image, "attestors").flat_map(|set| items(set, "entries"));
            for entry in entries {
                for (part, name) in [("keyless", "Keyless"), ("keys", "Keys")] {
                    if entry.get(part).is_some_and(|part| !part.is_null()) {
                        let detail = format!("{name} field is not allowed for type notary");
                        errors.invalid(&format!("{path}.attestors"), &json::image(image), &detail);
                    }
                }
            }
        }
    }
    errors.finish()
}

/// The attestor that older fields describe; it comes last, and is ignored if there are attestations.
fn old_attestor(image: Node<'_>, path: &str, errors: &mut Errors) {
    let there = |name: &str| !text(image, name).is_empty();
    if !(there("image") || there("issuer")) || there("key") || items(image, "attestations").next().is_some() {
        return;
    }
    let place = format!("{path}.attestors[{}].entries[0]", items(image, "attestors").count());
    let annotations = image.get("annotations").filter(|node| {
        let entries = node.as_map();
        entries.is_some_and(|entries| !entries.is_empty())
    });
    if there("issuer") {
        if !there("roots") {
            let detail = "Either Rekor URL or roots are required";
            errors.invalid(&format!("{place}.keyless"), &json::keyless(image), detail);
        }
    } else if let Some(annotations) = annotations {
        let value = format!("{{\"annotations\":{}}}", json::value(annotations));
        let detail = "keys, certificates, keyless, or a nested attestor is required";
        errors.invalid(&place, &value, detail);
    }
}

/// Image extractors must not compute values that are to be changed.
///
/// # Errors
/// With upstream's message.
pub(super) fn extractors(rule: &Rule) -> Result<(), String> {
    let mutates = |image: Node<'_>| image.get("mutateDigest").and_then(Node::as_bool).unwrap_or(true);
    let extractors = rule.image_extractors.as_ref().and_then(|part| part.node().as_map());
    let mut lists = extractors
        .into_iter()
        .flat_map(Entries::iter)
        .filter_map(|entry| entry.value.as_seq());
    let computed = lists.any(|list| list.iter().any(|extractor| !text(extractor, "jmesPath").is_empty()));
    if computed && images(rule).any(mutates) {
        return Err(
            "jmespath may not be used in an image extractor when mutating digests with verify images".to_owned(),
        );
    }
    Ok(())
}

/// Warns about the older name of an attestation's type.
pub(super) fn deprecated(rule: &Rule, warnings: &mut Vec<String>) {
    for attestation in images(rule).flat_map(|image| items(image, "attestations")) {
        let kind = text(attestation, "predicateType");
        if !kind.is_empty() {
            warnings.push(format!(
                "predicateType has been deprecated use 'type: {kind}' instead of 'predicateType: {kind}'"
            ));
        }
    }
}

/// The validations of verified images as Go writes them.
pub(super) fn validations(rule: &Rule) -> Vec<String> {
    let validate = |image: Node<'_>| image.get("validate").map(json::image_validate);
    let is_set = |image: Node<'_>| {
        let validate = image.get("validate").filter(|node| !node.is_null());
        let deny = validate.and_then(|node| node.get("deny"));
        deny.is_some_and(|deny| !deny.is_null()) || validate.is_some_and(|node| !text(node, "message").is_empty())
    };
    if !images(rule).any(is_set) {
        return Vec::new();
    }
    images(rule).filter_map(validate).collect()
}

/// The names of attestations, with which variables may begin in the validation of verified images.
pub(super) fn attestation_names(rule: &Rule) -> Vec<String> {
    if validations(rule).is_empty() {
        return Vec::new();
    }
    let attestations = images(rule).flat_map(|image| items(image, "attestations"));
    attestations
        .map(|attestation| format!("{}*", text(attestation, "name")))
        .collect()
}

fn attestors(set: Node<'_>, path: &str, errors: &mut Errors, depth: usize) {
    let entries = items(set, "entries").count();
    let count = set.get("count").and_then(Node::number);
    if let Some(kyvtest_go_compat::yaml::Number::Int(count)) = count
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
    if let Some(keys) = part("keys").filter(|keys| !text(*keys, "publicKeys").is_empty())
        && !ALGORITHMS.contains(&text(keys, "signatureAlgorithm"))
    {
        let detail = "Invalid signature algorithm provided";
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
        let path = format!("{path}.attestor");
        let found = match nested.kind() {
            Kind::Map(_) => return attestors(nested, &path, errors, depth + 1),
            Kind::Seq(_) => "array",
            Kind::Str(_) => "string",
            Kind::Bool(_) => "bool",
            _ => "number",
        };
        let value = json::value(nested);
        let detail = format!(
            "failed to unmarshal attestor set {value}: json: cannot unmarshal {found} into Go value of type v1.AttestorSet"
        );
        errors.invalid(&path, &value, &detail);
    }
}
