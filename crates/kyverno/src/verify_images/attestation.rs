//! The attestations of one image: statements that attestors signed, and the conditions on their predicates.
//!
//! Upstream counterpart: `verifyAttestations` and `validate` of `pkg/engine/internal/imageverifier.go` and `EvaluateConditions` of
//! `pkg/engine/internal/utils.go` (1.19), texts included.

use std::sync::Arc;

use super::{Evaluation, ImageRegistry, RegistryError, Statements, Verification, verify::sets};
use crate::{
    attestor::{AttestorSet, form},
    classic::{
        condition::{Conditions, join},
        context::Context,
        validator::evaluate,
        variables::{substitute_all, substitute_string},
    },
    response::RuleResponse,
};
use kyvtest_go_compat::value::Data;
use kyvtest_model::verdict::Status;

/// An image whose attestations are verified.
pub(super) struct Subject<'i> {
    /// Registry and path, without tag and digest.
    pub(super) repository: &'i str,
    /// The whole reference: by digest if one is known.
    pub(super) reference: String,
    /// Empty if it is not known.
    pub(super) digest: String,
    /// Whether signatures are Sigstore bundles.
    pub(super) bundle: bool,
    /// The annotations that the entry of the rule requires.
    pub(super) annotations: Option<&'i Data>,
}

impl Subject<'_> {
    fn found(&mut self, digest: &str) {
        if self.digest.is_empty() && !digest.is_empty() {
            digest.clone_into(&mut self.digest);
            self.reference = format!("{}@{digest}", self.repository);
        }
    }
}

fn text<'d>(data: &'d Data, key: &str) -> &'d str {
    data.get(key).and_then(Data::as_str).unwrap_or_default()
}

impl Evaluation<'_> {
    /// Verifies the attestations of an entry. Every error is a failure.
    pub(super) fn attestations(
        &self,
        entry: &Data,
        mut image: Subject<'_>,
        registry: &dyn ImageRegistry,
        context: &mut Context<'_>,
    ) -> (RuleResponse, Option<String>) {
        for (i, attestation) in sets(entry, "attestations").iter().enumerate() {
            if let Err(text) = Self::attestation(i, attestation, &mut image, registry, context) {
                return (self.respond(Status::Fail, text), None);
            }
        }
        let digest = Some(image.digest).filter(|digest| !digest.is_empty());
        if self.rule.body.verify.iter().any(has_validation) {
            for entry in &self.rule.body.verify {
                if let Err(error) = validate(entry, context) {
                    let text = format!("validation in verifyImages failed: {error}");
                    return (self.respond(Status::Fail, text), digest);
                }
            }
            let text = format!("verifyImages validation is passed in {} rule", self.rule.name);
            return (self.respond(Status::Pass, text), digest);
        }
        let text = format!("verified image attestations for {}", image.reference);
        (self.respond(Status::Pass, text), digest)
    }

    /// Verifies one attestation.
    fn attestation(
        i: usize,
        attestation: &Data,
        image: &mut Subject<'_>,
        registry: &dyn ImageRegistry,
        context: &mut Context<'_>,
    ) -> Result<(), String> {
        let kind = match (text(attestation, "type"), text(attestation, "predicateType")) {
            ("", "") => return Err(format!(".attestations[{i}]: missing type")),
            ("", older) => older,
            (kind, _) => kind,
        };
        let mut all: Vec<AttestorSet> = sets(attestation, "attestors").iter().map(AttestorSet::read).collect();
        if all.is_empty() {
            // An empty attestor allows fetching attestations.
            all.push(AttestorSet {
                required: 1,
                entries: vec![Data::Map(Arc::default())],
            });
        }
        let mut errors = Vec::new();
        for (j, set) in all.iter().enumerate() {
            let mut verified = 0;
            for attestor in &set.entries {
                let own = attestor.get("annotations").filter(|own| !own.is_null());
                let verification = Verification {
                    image: &image.reference,
                    attestor,
                    annotations: own.or(image.annotations),
                    bundle: image.bundle,
                };
                let statements = match registry.statements(verification, kind) {
                    Ok(statements) => statements,
                    Err(RegistryError::Network(error) | RegistryError::Refused(error)) => {
                        errors.push(error);
                        continue;
                    }
                };
                let Some((_, predicate)) = statements.list.first() else {
                    errors.push("predicate not found in any statement".to_owned());
                    continue;
                };
                let name = text(attestation, "name");
                if !name.is_empty()
                    && let Err(error) = context.add_variable(name, predicate)
                {
                    errors.push(error);
                    continue;
                }
                image.found(&statements.digest);
                match check(attestation, kind, &statements, image, context) {
                    Ok(()) => verified += 1,
                    // Upstream numbers the entry like the attestation.
                    Err(error) => errors.push(format!(
                        ".attestations[{i}].attestors[{j}].entries[{i}]{}: {error}",
                        form(attestor)
                    )),
                }
                if verified >= set.required {
                    break;
                }
            }
            if verified < set.required {
                let error = if errors.is_empty() {
                    "attestations verification failed".to_owned()
                } else {
                    errors.join("; ")
                };
                return Err(format!(
                    "image attestations verification failed, verifiedCount: {verified}, requiredCount: {}, error: {error}",
                    set.required
                ));
            }
        }
        Ok(())
    }
}

/// Checks the conditions of an attestation on all statements of its type.
fn check(
    attestation: &Data,
    kind: &str,
    statements: &Statements,
    image: &Subject<'_>,
    context: &mut Context<'_>,
) -> Result<(), String> {
    let mut of_kind = statements.list.iter().filter(|(own, _)| own == kind).peekable();
    if of_kind.peek().is_none() {
        return Err(format!("attestions not found for predicate type {kind}"));
    }
    let conditions = sets(attestation, "conditions");
    for (_, predicate) in of_kind.filter(|_| !conditions.is_empty()) {
        context.checkpoint();
        context.add_map(predicate);
        let held = hold(conditions, context);
        context.restore();
        let (holds, message) = held.map_err(|error| format!("failed to check attestations: {error}"))?;
        if !holds {
            let reference = &image.reference;
            return Err(format!(
                "attestation checks failed for {reference} and predicate {kind}: {message}"
            ));
        }
    }
    Ok(())
}

/// Whether all blocks of conditions hold, and the message of the deciding one.
fn hold(conditions: &[Data], context: &mut Context<'_>) -> Result<(bool, String), String> {
    let written: Data = conditions.iter().cloned().collect();
    let blocks = substitute_all(&written, context)
        .map_err(|error| format!("failed to substitute variables in attestation conditions: {error}"))?;
    let mut messages = Vec::new();
    for block in blocks.as_list().unwrap_or_default() {
        let conditions = Conditions::read(block.to_document().root());
        let (holds, message) = evaluate(&conditions, context)?;
        if !holds {
            return Ok((false, message));
        }
        messages.push(message);
    }
    Ok((true, join(messages.iter().map(String::as_str).collect(), ";")))
}

fn has_validation(entry: &Data) -> bool {
    let block = entry.get("validate").and_then(Data::as_map);
    block.is_some_and(|block| !block.is_empty())
}

/// Evaluates `validate` of an entry on the predicates.
fn validate(entry: &Data, context: &mut Context<'_>) -> Result<(), String> {
    let Some(block) = entry.get("validate") else {
        return Ok(());
    };
    let Some(deny) = block.get("deny").filter(|deny| !deny.is_null()) else {
        return Ok(());
    };
    let conditions = deny.get("conditions").map(Data::to_document);
    let (denied, message) = match conditions {
        Some(conditions) => evaluate(&Conditions::read(conditions.root()), context)
            .map_err(|error| format!("failed to check deny conditions: {error}"))?,
        None => (true, String::new()),
    };
    if !denied {
        return Ok(());
    }
    let whole = join(vec![text(block, "message"), &message], "; ");
    if whole.is_empty() {
        return Err("validation error: imageVerify  failed".to_owned());
    }
    Err(match substitute_string(&whole, context) {
        Ok(Data::String(text)) => text.to_string(),
        Ok(_) => "the produced message didn't resolve to a string, check your policy definition.".to_owned(),
        Err(_) => message,
    })
}
