//! One evaluation of a policy: conditions, exceptions, images, validations.

use std::{cell::RefCell, collections::BTreeMap};

use super::{CompiledImagePolicy, ImageInput};
use crate::{
    cel_policy::evaluate::{Quotes, Run},
    generate::object::set,
    verify_images::{ImagePatch, extract},
};
use kyvtest_cel::{
    context::{Context, Scratch},
    host::{Attestation, Host, ImageScope, Wrapped},
    library::kyverno::to_texts,
    val::Val,
};
use kyvtest_go_compat::{text::image::Reference, value::Data};

/// What a policy decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageOutcome {
    /// A match condition is false.
    NoMatch,
    /// Exceptions exempt the object, `namespace/name` each.
    Exempt(Vec<String>),
    /// A validation is false, or an image has no digest.
    Fail {
        message: String,
        properties: Vec<(String, String)>,
    },
    /// All validations hold. Whether the images had to be verified is decided after all policies.
    Pass {
        properties: Vec<(String, String)>,
        /// The images that the policy is about.
        images: Vec<String>,
    },
    /// The policy cannot be evaluated; holds the text.
    Error(String),
}

/// The images that the policies of a request tried to verify, and whether one of them did.
#[derive(Debug, Default)]
pub struct Verifications(RefCell<BTreeMap<String, bool>>);

impl CompiledImagePolicy {
    /// Why an image that the policy is about was not verified by any policy of the request; `None` if all were, or need not
    /// be.
    pub(crate) fn unverified(&self, images: &[String], verifications: &Verifications) -> Option<String> {
        if !self.configuration.required {
            return None;
        }
        let verified = verifications.0.borrow();
        images.iter().find_map(|image| match verified.get(image) {
            Some(true) => None,
            Some(false) => Some(format!("image {image} failed signature or attestation verification")),
            None => Some(format!(
                "image {image} is not verified: no policy performed a signature or attestation check on it"
            )),
        })
    }

    /// Replaces the tags of a request's images by digests, as `resolve` finds them, and returns how many were replaced. Only images
    /// in well-known places count.
    ///
    /// # Errors
    /// If an image cannot be resolved; the others have their digests.
    pub(crate) fn mutate_digests(
        &self,
        input: ImageInput<'_>,
        object: &mut Data,
        resolve: &dyn Fn(&str) -> Result<String, String>,
        host: &dyn Host,
    ) -> Result<usize, String> {
        if !self.configuration.mutate_digest || !self.applies(input, host)? {
            return Ok(0);
        }
        let images = extract::images(object, None)?.map_err(|error| format!("failed to extract images: {error}"))?;
        let (mut patches, mut errors) = (Vec::new(), Vec::new());
        for image in images.iter().filter(|image| image.digest.is_empty()) {
            let reference = &image.reference;
            if !self.references.select(reference)? {
                continue;
            }
            match resolve(reference) {
                Ok(digest) => patches.push(ImagePatch {
                    pointer: image.pointer.clone(),
                    image: format!("{reference}@{digest}"),
                }),
                Err(error) => errors.push(format!("failed to resolve digest for image {reference}: {error}")),
            }
        }
        for patch in &patches {
            patch.apply(object);
        }
        if errors.is_empty() {
            Ok(patches.len())
        } else {
            Err(errors.join("; "))
        }
    }

    /// Whether the match conditions hold and no exception does.
    fn applies(&self, input: ImageInput<'_>, host: &dyn Host) -> Result<bool, String> {
        let scratch = Scratch::new();
        let values = self.first_values(input);
        let run = Run::new(&values, &scratch, host).ignoring_errors(self.ignores_errors);
        let holds = |conditions| match run.matches(conditions) {
            Ok(failed) => Ok(failed.is_none()),
            Err((_, error)) => Err(error),
        };
        if !holds(&self.match_conditions)? {
            return Ok(false);
        }
        for exception in &self.exceptions {
            if holds(exception.conditions())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The variables of conditions.
    fn first_values<'v>(&self, input: ImageInput<'v>) -> Vec<Option<Val<'v>>> {
        let mut values = self.env.initial_values();
        values[self.slots.object as usize] = Some(Val::from(input.object));
        if let (Some(slots), Some([old_object, request, namespace])) = (self.slots.request, input.request) {
            values[slots.old_object as usize] = Some(Val::from(old_object));
            values[slots.request as usize] = Some(Val::from(request));
            values[slots.namespace as usize] = Some(Val::from(namespace));
        }
        values
    }

    pub(crate) fn evaluate(
        &self,
        input: ImageInput<'_>,
        verifications: &Verifications,
        host: &dyn Host,
    ) -> ImageOutcome {
        let scope = Scope {
            policy: self,
            verifications,
        };
        let host = Wrapped::verifying(host, &scope);
        let outcome = self.run(input, &Wrapped::in_namespace(&host, &self.namespace));
        outcome.unwrap_or_else(ImageOutcome::Error)
    }

    fn run(&self, input: ImageInput<'_>, host: &dyn Host) -> Result<ImageOutcome, String> {
        let scratch = Scratch::new();
        let context = Context::new(&scratch, self.env.profile(), host);
        let mut values = self.first_values(input);
        let first = context.bump().alloc_slice_copy(&values);
        let before = Run::new(first, &scratch, host).ignoring_errors(self.ignores_errors);
        match before.matches(&self.match_conditions) {
            Ok(None) => {}
            Ok(Some(_)) => return Ok(ImageOutcome::NoMatch),
            Err((_, error)) => return Err(error),
        }
        let mut exempt = Vec::new();
        for exception in &self.exceptions {
            match before.matches(exception.conditions()) {
                Ok(None) => exempt.push(exception.key().to_owned()),
                Ok(Some(_)) => {}
                Err((_, error)) => return Err(error),
            }
        }
        if !exempt.is_empty() {
            return Ok(ImageOutcome::Exempt(exempt));
        }
        if let Some(slots) = self.slots.request {
            values[slots.variables as usize] = Some(Val::Variables);
        }
        let second = context.bump().alloc_slice_copy(&values);
        let lazy = self.composite.bind(&scratch, second, host);
        let run = Run {
            values: second,
            variables: self.slots.request.is_some().then_some(&lazy as _),
            ..before
        };
        let (found, images) = self.images(&run, &context)?;
        if let Some(outcome) = self.without_digest(&images)? {
            return Ok(outcome);
        }
        for image in &images {
            host.fetch_image(image)?;
        }
        values[self.slots.images as usize] = Some(found);
        let names = self.attestations.iter();
        let names: Vec<(Val<'_>, Val<'_>)> = names
            .map(|declared| (Val::String(&declared.name), Val::String(&declared.name)))
            .collect();
        values[self.slots.attestations as usize] = Some(context.map(&names));
        let third = context.bump().alloc_slice_copy(&values);
        lazy.set_values(third);
        let run = Run { values: third, ..run };
        values[self.slots.attestors as usize] = Some(self.attestors(&run, &context));
        let fourth = context.bump().alloc_slice_copy(&values);
        lazy.set_values(fourth);
        self.validate(&Run { values: fourth, ..run }, images)
    }

    /// The images that the policy is about, as `images` has them and in one list.
    fn images<'a>(&'a self, run: &Run<'a>, context: &Context<'a>) -> Result<(Val<'a>, Vec<String>), String> {
        let (mut found, mut all) = (Vec::new(), Vec::new());
        for (name, program) in &self.extractors {
            let value = run.value(program);
            if let Val::Error(error) = value {
                return Err(error.to_owned());
            }
            let mut selected = Vec::new();
            for image in to_texts(context, value)? {
                if self.references.select(&image)? {
                    selected.push(context.string(&image));
                    all.push(image);
                }
            }
            found.push((context.string(name), context.list(&selected)));
        }
        Ok((context.map(&found), all))
    }

    fn without_digest(&self, images: &[String]) -> Result<Option<ImageOutcome>, String> {
        if !self.configuration.verify_digest {
            return Ok(None);
        }
        for image in images {
            let Some(reference) = Reference::parse(image) else {
                return Err(format!(
                    "failed to parse image reference {image}: could not parse reference: {image}"
                ));
            };
            if reference.digest().is_empty() {
                return Ok(Some(ImageOutcome::Fail {
                    message: format!("image {image} does not have a digest"),
                    properties: Vec::new(),
                }));
            }
        }
        Ok(None)
    }

    /// `attestors`: an attestor whose expressions fail is an error only where it is used.
    fn attestors<'a>(&'a self, run: &Run<'a>, context: &Context<'a>) -> Val<'a> {
        let mut attestors = Vec::new();
        for attestor in &self.attestors {
            let mut body = Data::from(attestor.body.root());
            let mut failed = None;
            for (path, program) in &attestor.expressions {
                let mut keys: Vec<&str> = path.split('.').collect();
                keys.push(if *path == "cosign.key" { "data" } else { "value" });
                match run.value(program) {
                    Val::String(text) => set(&mut body, &keys, text.into()),
                    Val::Error(error) => {
                        let name = &attestor.name;
                        failed = Some(context.error(format_args!(
                            "failed to convert key in compiled attestor: {name}, error: failed to evaluate compiled \
                             attestor: {name}, error: {error}"
                        )));
                    }
                    other => {
                        let name = &attestor.name;
                        let kind = other.type_name();
                        failed = Some(context.error(format_args!(
                            "failed to convert key in compiled attestor: {name}, error: failed to convert expression in \
                             compiled attestor: {name}, error: type conversion error from '{kind}' to 'string'"
                        )));
                    }
                }
            }
            let value = failed.unwrap_or_else(|| Val::from(context.document(body.to_document())));
            attestors.push((context.string(&attestor.name), value));
        }
        context.map(&attestors)
    }

    fn validate<'a>(&'a self, run: &Run<'a>, images: Vec<String>) -> Result<ImageOutcome, String> {
        for (index, validation) in self.validations.iter().enumerate() {
            match run.value(&validation.program) {
                Val::Error(error) => return Err(error.to_owned()),
                Val::Bool(false) => {}
                _ => continue,
            }
            let message = run.failure_message(validation, index);
            let properties = run
                .annotations(&self.audit_annotations, Quotes::Single)
                .map_err(|(_, error)| error)?;
            return Ok(ImageOutcome::Fail { message, properties });
        }
        let properties = run
            .annotations(&self.audit_annotations, Quotes::Single)
            .map_err(|(_, error)| error)?;
        Ok(ImageOutcome::Pass { properties, images })
    }
}

/// The images of a policy, as the functions that verify them see it.
struct Scope<'p> {
    policy: &'p CompiledImagePolicy,
    verifications: &'p Verifications,
}

impl ImageScope for Scope<'_> {
    fn selects(&self, reference: &str) -> Result<bool, String> {
        self.policy.references.select(reference)
    }

    fn attestation(&self, name: &str) -> Option<Attestation<'_>> {
        let declared = self.policy.attestations.iter().find(|own| own.name == name)?;
        Some(Attestation {
            kind: &declared.kind,
            is_referrer: declared.is_referrer,
        })
    }

    fn record(&self, reference: &str, verified: bool) {
        let mut all = self.verifications.0.borrow_mut();
        *all.entry(reference.to_owned()).or_default() |= verified;
    }
}
