//! `verifyImages` rules: the verification of signatures and attestations, and the checks of digests and verified images.
//!
//! Upstream counterpart: `pkg/engine/{image_verify,validation}.go`, `pkg/engine/handlers/mutation/mutate_image.go`,
//! `pkg/engine/handlers/validation/validate_image.go`, `pkg/engine/internal/imageverifier.go` and `pkg/engine/utils/image.go`
//! (1.19). Whatever a registry knows comes from an `ImageRegistry`.
//!
//! Known deviation: images are looked at in the order of their lists and names, upstream's order is random.

mod attestation;
mod check;
pub(crate) mod extract;
mod metadata;
mod verify;

pub use metadata::Metadata;

use std::sync::Arc;

use crate::{
    classic::{
        context::{Context, Outside},
        rule::{RuleContext, RuleResult, granted, lifted_by, start},
    },
    exception::CompiledException,
    input::Input,
    matching::applies,
    response::{RegistryUse, RuleResponse},
    rule_set::{PreparedRule, RuleBody, RuleSet},
};
use extract::{Extractors, FoundImage};
use kyvtest_go_compat::value::{Data, Value};
use kyvtest_model::{
    policy::Rule,
    verdict::{Part, Status, Trace},
};

/// Why a registry lookup or verification failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RegistryError {
    /// The network fails: the rule has an error.
    Network(String),
    /// The registry or verifier rejects the image: the rule fails.
    Refused(String),
}

/// What a verifier looks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verification<'v> {
    pub image: &'v str,
    /// The entry of a set of attestors; empty if anyone may vouch.
    pub(crate) attestor: &'v Data,
    /// What the signature must be annotated with.
    pub annotations: Option<&'v Data>,
    /// Whether the signature is a Sigstore bundle.
    pub(crate) bundle: bool,
}

/// The signed statements about an image, each with its type and its predicate.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Statements {
    /// The digest, if the verifier finds it; it does in Sigstore bundles.
    pub digest: String,
    pub list: Vec<(String, Data)>,
}

/// What registries know of images.
pub(crate) trait ImageRegistry {
    /// The digest of an image.
    ///
    /// # Errors
    /// If the registry returns no digest.
    fn digest(&self, image: &str) -> Result<String, RegistryError>;

    /// Verifies a signature and returns the digest.
    ///
    /// # Errors
    /// If there is no valid signature.
    fn verify(&self, verification: Verification<'_>) -> Result<String, RegistryError>;

    /// Fetches the statements that an attestor signed. The signatures of those of the type `kind` are compared with the attestor.
    ///
    /// # Errors
    /// If there is none.
    fn statements(&self, verification: Verification<'_>, kind: &str) -> Result<Statements, RegistryError>;

    /// What the results since the last call owe to a registry.
    fn take_use(&self) -> RegistryUse {
        RegistryUse::NotAsked
    }
}

/// The type of a result, which upstream does not choose uniformly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImageRuleType {
    Mutation,
    Validation,
    ImageVerify,
}

/// An image that gets its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImagePatch {
    /// The keys and numbers that lead to the image.
    pub(crate) pointer: Vec<String>,
    /// The image with its digest.
    pub image: String,
}

impl ImagePatch {
    /// Writes the image into an object.
    pub(crate) fn apply(&self, object: &mut Data) {
        replace(object, &self.pointer, &self.image);
    }
}

/// What the verification of a request's images came up with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verified {
    pub(crate) results: Vec<ImageResult>,
    pub metadata: Metadata,
    pub(crate) patches: Vec<ImagePatch>,
}

impl Verified {
    /// The object with the digests of its images and with the annotations; `None` if it does not change.
    pub(crate) fn patched(&self, object: &Data) -> Option<Data> {
        if self.patches.is_empty() && self.metadata.is_empty() {
            return None;
        }
        let mut object = object.clone();
        for patch in &self.patches {
            patch.apply(&mut object);
        }
        if !self.metadata.is_empty() {
            self.metadata.annotate(&mut object);
        }
        Some(object)
    }
}

/// Replaces the value at an existing path by a string.
fn replace(value: &mut Data, pointer: &[String], text: &str) {
    let Some((first, rest)) = pointer.split_first() else {
        *value = text.into();
        return;
    };
    let inner = match value {
        Data::Map(entries) => Arc::make_mut(entries).get_mut(first.as_str()),
        Data::List(items) => first.parse().ok().and_then(|i: usize| Arc::make_mut(items).get_mut(i)),
        _ => None,
    };
    if let Some(inner) = inner {
        replace(inner, rest, text);
    }
}

pub(crate) type ImageResult = (ImageRuleType, RuleResponse);

/// A policy with `verifyImages` rules, ready for evaluation.
pub(crate) type CompiledImageRules = RuleSet<ImageBody>;

/// The `verifyImages` block of a rule.
#[derive(Debug)]
pub(crate) struct ImageBody {
    extractors: Option<Extractors>,
    /// The entries of `verifyImages`.
    verify: Vec<Data>,
}

type ImageRule = PreparedRule<ImageBody>;

fn flag(entry: &Data, name: &str) -> bool {
    !matches!(entry.get(name), Some(Data::Bool(false)))
}

fn texts(entry: &Data, name: &str) -> Vec<String> {
    let list = entry.get(name).and_then(Data::as_list).unwrap_or_default();
    list.iter()
        .filter_map(|text| text.as_str().map(str::to_owned))
        .collect()
}

/// The references of an entry, the older form included.
fn references(entry: &Data) -> Vec<String> {
    let mut references = texts(entry, "imageReferences");
    let old = entry
        .get("image")
        .and_then(Data::as_str)
        .filter(|image| !image.is_empty());
    references.extend(old.map(str::to_owned));
    references
}

impl RuleBody for ImageBody {
    fn read(rule: &Rule) -> Option<Self> {
        let block = rule.verify_images.as_ref()?.document();
        let verify = Data::from(block.root());
        let verify = verify.as_list().filter(|list| !list.is_empty())?.to_vec();
        let extractors = rule.image_extractors.as_ref();
        Some(Self {
            extractors: extractors.map(|part| Extractors::read(&Data::from(part.document().root()))),
            verify,
        })
    }
}

impl ImageRule {
    /// Whether the rule checks digests or verified images after the verification.
    fn has_checks(&self) -> bool {
        let mut entries = self.body.verify.iter();
        entries.any(|entry| flag(entry, "verifyDigest") || flag(entry, "required"))
    }
}

impl CompiledImageRules {
    /// Whether a rule checks digests or verified images.
    pub(crate) fn has_checks(&self) -> bool {
        self.rules.iter().any(ImageRule::has_checks)
    }

    /// Verifies the images of a request, and notes what became of them.
    ///
    /// # Errors
    /// What upstream panics about.
    pub(crate) fn verify(
        &self,
        input: &Input<'_>,
        exceptions: &[CompiledException],
        outside: &dyn Outside,
        registry: &dyn ImageRegistry,
    ) -> Result<Verified, String> {
        let mut verified = Verified::default();
        for rule in &self.rules {
            let evaluation = Evaluation {
                policy: self,
                rule,
                input,
                exceptions,
                default_type: ImageRuleType::ImageVerify,
                exception_type: ImageRuleType::Mutation,
            };
            let found = evaluation.run(outside, |context, images, _| {
                evaluation.verify(context, images, registry, &mut verified)
            })?;
            verified.results.extend(found);
        }
        Ok(verified)
    }

    /// Checks the images of a request after the verification: their digests, and whether they were verified. One list of
    /// results for each rule with checks, by the rule's name.
    ///
    /// # Errors
    /// What upstream panics about.
    pub(crate) fn check(
        &self,
        input: &Input<'_>,
        exceptions: &[CompiledException],
        outside: &dyn Outside,
    ) -> Result<Vec<(String, Vec<ImageResult>)>, String> {
        let mut results = Vec::new();
        for rule in self.rules.iter().filter(|rule| rule.has_checks()) {
            let evaluation = Evaluation {
                policy: self,
                rule,
                input,
                exceptions,
                default_type: ImageRuleType::Validation,
                exception_type: ImageRuleType::Validation,
            };
            let found = evaluation.run(outside, |_, _, all| vec![evaluation.check(all)])?;
            results.push((rule.name.clone(), found));
        }
        Ok(results)
    }
}

/// One rule on one request.
struct Evaluation<'e> {
    policy: &'e CompiledImageRules,
    rule: &'e ImageRule,
    input: &'e Input<'e>,
    exceptions: &'e [CompiledException],
    /// The type of results that come before the images are looked at.
    default_type: ImageRuleType,
    exception_type: ImageRuleType,
}

impl Evaluation<'_> {
    fn respond(&self, status: Status, message: impl Into<String>) -> RuleResponse {
        let trace = if status == Status::Error {
            Trace::error(Part::All)
        } else {
            Trace::of(Part::All)
        };
        let mut response = RuleResponse::new(&self.rule.name, status, message, trace);
        response.properties.clone_from(&self.rule.properties);
        response
    }

    /// Does what comes before the images are looked at: matching, extraction, context, preconditions, exceptions. `process`
    /// gets the images that the rule is about, and all images.
    fn run(
        &self,
        outside: &dyn Outside,
        process: impl FnOnce(&mut Context<'_>, &[FoundImage], &[FoundImage]) -> Vec<ImageResult>,
    ) -> Result<Vec<ImageResult>, String> {
        let rule = self.rule;
        let selection = rule.selection(self.policy.namespace());
        let (mut context, new, _) = start(self.input, &self.policy.key, outside);
        let cell = self.input.request.cell();
        if new.is_null() || !applies(selection, &cell, &mut self.input.facts()) {
            return Ok(Vec::new());
        }
        let failed = |text: String| vec![(self.default_type, self.respond(Status::Error, text))];
        let all = match extract::images(&new, rule.body.extractors.as_ref())? {
            Ok(all) => all,
            Err(error) if rule.body.extractors.is_some() => {
                return Ok(failed(format!(
                    "failed to instantiate handler: failed to extract images: {error}"
                )));
            }
            // Images that cannot be read are not in the context.
            Err(_) => Vec::new(),
        };
        let images = self.matching(&all);
        if images.is_empty() {
            return Ok(Vec::new());
        }
        if let Some((status, message)) = rule.prelude.unmet(&mut context) {
            return Ok(vec![(self.default_type, self.respond(status, message))]);
        }
        let rule_context = RuleContext {
            policy: &self.policy.key,
            rule: &rule.name,
            selection,
            exceptions: self.exceptions,
        };
        let exempt = granted(&mut context, &cell, &mut self.input.facts(), rule_context);
        if !exempt.is_empty() {
            let RuleResult {
                status,
                message,
                exceptions,
            } = lifted_by(&exempt);
            let mut response = self.respond(status, message);
            response.exceptions = exceptions;
            return Ok(vec![(self.exception_type, response)]);
        }
        Ok(process(&mut context, &images, &all))
    }

    /// The images that an entry of the rule refers to, once for each such entry.
    fn matching(&self, all: &[FoundImage]) -> Vec<FoundImage> {
        let mut images = Vec::new();
        for image in all {
            let entries = self.rule.body.verify.iter();
            let count = entries
                .filter(|entry| refers(&references(entry), &image.reference))
                .count();
            images.extend(std::iter::repeat_n(image.clone(), count));
        }
        images
    }

    /// The annotations of an object of the request.
    fn annotation(object: Value<'_>, key: &str) -> Option<String> {
        let annotations = object.at(&["metadata", "annotations"])?;
        annotations.get(key).and_then(Value::as_str).map(str::to_owned)
    }
}

/// Whether one of the patterns fits an image.
fn refers(patterns: &[String], image: &str) -> bool {
    let mut patterns = patterns.iter();
    patterns.any(|pattern| kyvtest_go_compat::text::wildcard::matches(pattern, image))
}
