//! The stage of the ImageValidatingPolicies.
//!
//! Upstream counterpart: `applyImageValidatingPolicies` of `cmd/cli/kubectl-kyverno/commands/test/test.go`, `HandleValidating`
//! of `pkg/cel/policies/ivpol/engine/engine.go` and `Evaluate` of `pkg/image/verification/evaluator/eval.go` (1.19). Of several
//! responses for one policy name the last one stays.
//!
//! Known deviation: upstream's order of several policies is random; here they are in load order.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    effect,
    host::CaseHost,
    observed::{PolicyResponse, RuleResult, RuleType},
    stages::Stages,
};
use crate::{
    autogen::image_variants,
    image_policy::{CompiledImagePolicy, ImageInput, ImageOutcome, Verifications, selects},
    input::Input,
    offline::Case,
    response::{RegistryUse, RuleResponse},
    verify_images::{ImageRegistry as _, RegistryError},
};
use kyvtest_go_compat::value::{Builder, Data, Document};
use kyvtest_model::{
    kube::Operation,
    policy::{CelPolicyException, ImageValidatingPolicy, Mode},
    verdict::{Part, Status, Trace},
};

fn rule(name: &str, status: Status, message: String, part: Part) -> RuleResponse {
    let trace = if status == Status::Error {
        Trace::error(part)
    } else {
        Trace::of(part)
    };
    RuleResponse::new(name, status, message, trace)
}

/// The response of a policy, with its type.
fn response(key: &str, policy: &ImageValidatingPolicy, rule_type: RuleType, rule: RuleResponse) -> PolicyResponse {
    PolicyResponse::new(
        key.to_owned(),
        policy.kind(),
        (policy.metadata.name.value.clone(), policy.namespace().to_owned()),
        vec![RuleResult::new(rule_type, rule)],
    )
}

/// What became of replacing tags by digests, by policy: what it owes to a registry, and why it failed.
pub(super) type Digests = BTreeMap<String, Vec<(RegistryUse, Option<String>)>>;

impl PolicyResponse {
    /// What the results owe to a registry.
    fn owes(&self) -> RegistryUse {
        let results = self.rules.iter();
        results.map(|result| result.response.registry).max().unwrap_or_default()
    }

    fn owe(&mut self, used: RegistryUse) {
        for result in &mut self.rules {
            result.response.registry = result.response.registry.max(used);
        }
    }
}

/// Keeps a response in place of an earlier one of the same policy name.
fn keep(responses: &mut Vec<PolicyResponse>, response: PolicyResponse) {
    match responses.iter_mut().find(|other| other.policy == response.policy) {
        Some(other) => *other = response,
        None => responses.push(response),
    }
}

impl Stages<'_> {
    /// The policies; in a cluster, those of a namespace are for its requests only.
    fn image_validating(&self) -> impl Iterator<Item = &Arc<ImageValidatingPolicy>> {
        let is_here = |policy: &&Arc<ImageValidatingPolicy>| {
            let namespace = policy.metadata.namespace.as_ref().map_or("default", |text| &text.value);
            !self.is_request() || !policy.namespaced || namespace == self.namespace
        };
        self.case.policies.image_validating().filter(is_here)
    }

    /// Replaces the tags of images by digests, as the mutating webhook does for each policy that wants it; `kyverno test` does not.
    /// What became of it, by policy.
    ///
    /// Upstream counterpart: `HandleMutating` of `pkg/cel/policies/ivpol/engine/engine.go`.
    pub(super) fn mutate_digests(&self, object: &mut Document) -> Digests {
        let mut digests = Digests::new();
        if !self.case.in_cluster || object.root().is_null() {
            return digests;
        }
        for policy in self.image_validating() {
            let generated = image_variants(policy);
            let name = &policy.metadata.name.value;
            for (i, variant) in std::iter::once(&**policy).chain(&generated).enumerate() {
                let exceptions = self.case.exceptions.cel_exceptions.iter().map(|exception| &**exception);
                let named = exceptions.filter(|exception| i == 0 && exception.refers_to(policy));
                let request = self.request_of_row(object);
                if request.operation == Operation::Delete || request.resource.guessed {
                    continue;
                }
                let input = Input::new(&request, &self.world, &self.discovery, self.lens);
                let gvr = request.resource.gvr();
                let selected = selects(variant.spec.match_constraints.as_ref(), &input);
                // What cannot be matched or compiled shows where the policy is evaluated.
                let (Ok(true), Ok(compiled)) = (selected, CompiledImagePolicy::compile(variant, Some(&gvr), named))
                else {
                    continue;
                };
                let registry = self.unmocked_host.registry();
                let resolve = |image: &str| match registry.digest(image) {
                    Ok(digest) => Ok(digest),
                    Err(RegistryError::Network(error) | RegistryError::Refused(error)) => Err(error),
                };
                let mut changed = Data::from(object.root());
                let input = ImageInput::of_request(&input);
                let result = compiled.mutate_digests(input, &mut changed, &resolve, self.unmocked_host);
                let used = registry.take_use();
                if used != RegistryUse::NotAsked {
                    *object = changed.to_document();
                }
                digests.entry(name.clone()).or_default().push((used, result.err()));
            }
        }
        digests
    }

    /// Evaluates the ImageValidatingPolicies on a resource: in `kyverno test`, on what it was before all other policies.
    ///
    /// # Errors
    /// The text with which the run ends.
    pub(super) fn image_policies(&self, resource: &Document, digests: &Digests) -> Result<Vec<PolicyResponse>, String> {
        let policies: Vec<_> = self.image_validating().collect();
        if policies.is_empty() {
            return Ok(Vec::new());
        }
        let request = self.request_of_row(resource);
        if request.resource.guessed {
            let kind = &request.resource.object_kind;
            let (group, version, name) = (&kind.group, &kind.version, &kind.kind);
            return Err(format!(
                "failed to map gvk to gvr {group}/{version}, Kind={name} (no matches for kind {name:?} in version {:?})\n",
                kind.api_version()
            ));
        }
        let input = Input::new(&request, &self.world, &self.discovery, self.lens);
        let verifications = Verifications::default();
        let mut responses = Vec::new();
        let mut passed: Vec<(String, CompiledImagePolicy, Vec<String>)> = Vec::new();
        for policy in policies {
            // Generated policies have no exceptions.
            let generated = image_variants(policy);
            let generated = generated.iter().map(|generated| (generated, false));
            for (variant, has_exceptions) in std::iter::once((&**policy, true)).chain(generated) {
                let exceptions = self.case.exceptions.cel_exceptions.iter().map(|exception| &**exception);
                let named = exceptions.filter(|exception| has_exceptions && exception.refers_to(policy));
                let found = self.image_policy(variant, named, &input, &verifications, &mut passed);
                let used = self.unmocked_host.registry().take_use();
                let Some(mut found) = found else { continue };
                found.owe(used);
                keep(&mut responses, found);
            }
        }
        for (name, policy, images) in passed {
            if let Some(problem) = policy.unverified(&images, &verifications)
                && let Some(kept) = responses.iter_mut().find(|response| response.policy == name)
            {
                let owed = kept.owes();
                let failed = rule(&name, Status::Fail, problem, Part::All);
                kept.rules = vec![RuleResult::new(RuleType::ImageVerify, failed)];
                kept.owe(owed);
            }
        }
        for response in &mut responses {
            for (used, error) in digests.get(&response.policy).into_iter().flatten() {
                if let Some(error) = error {
                    let text = format!("failed to update digest: {error}");
                    let failed = rule("mutateDigest", Status::Error, text, Part::All);
                    response.rules = vec![RuleResult::new(RuleType::ImageVerify, failed)];
                }
                response.owe(*used);
                if *used != RegistryUse::NotAsked {
                    response.patched = Some(resource.clone());
                }
            }
        }
        if self.case.in_cluster {
            for response in &mut responses {
                let mut policies = self.case.policies.image_validating();
                if let Some(policy) = policies.find(|policy| policy.metadata.name.value == response.policy) {
                    effect::of_image_policy(policy, &mut response.rules);
                }
            }
        }
        Ok(responses)
    }

    fn image_policy<'e>(
        &self,
        policy: &ImageValidatingPolicy,
        exceptions: impl Iterator<Item = &'e CelPolicyException>,
        input: &Input<'_>,
        verifications: &Verifications,
        passed: &mut Vec<(String, CompiledImagePolicy, Vec<String>)>,
    ) -> Option<PolicyResponse> {
        let respond = |rule_type, rule| Some(response(&self.key, policy, rule_type, rule));
        let failed = |name: &str, text: String, part: Part| {
            respond(RuleType::ImageVerify, rule(name, Status::Error, text, part))
        };
        match selects(policy.spec.match_constraints.as_ref(), input) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return failed("match", format!("failed to execute matching: {error}"), Part::Match),
        }
        let gvr = input.request.resource.gvr();
        let compiled = match CompiledImagePolicy::compile(policy, Some(&gvr), exceptions) {
            Ok(compiled) => compiled,
            Err(error) => return failed("evaluation", format!("failed to compile policy: {error}"), Part::All),
        };
        let name = &policy.metadata.name.value;
        match compiled.evaluate(ImageInput::of_request(input), verifications, self.unmocked_host) {
            ImageOutcome::NoMatch => None,
            ImageOutcome::Error(error) => {
                failed("evaluation", format!("failed to evaluate policy: {error}"), Part::All)
            }
            ImageOutcome::Exempt(keys) => {
                let message = format!("rule is skipped due to policy exception: {}", keys.join(", "));
                let mut skipped = rule("exception", Status::Skip, message, Part::Exception);
                skipped.exceptions = keys;
                respond(RuleType::Validation, skipped)
            }
            ImageOutcome::Fail { message, properties } => {
                let mut failed = rule(name, Status::Fail, message, Part::All);
                failed.properties = properties;
                respond(RuleType::ImageVerify, failed)
            }
            ImageOutcome::Pass { properties, images } => {
                let mut pass = rule(name, Status::Pass, "success".to_owned(), Part::All);
                pass.properties = properties;
                passed.push((name.clone(), compiled, images));
                respond(RuleType::ImageVerify, pass)
            }
        }
    }
}

/// Evaluates the policies for payloads on one.
///
/// # Errors
/// The text with which the run ends.
pub(super) fn payload_policies(
    case: &Case,
    key: &str,
    payload: &Document,
    host: &CaseHost<'_>,
) -> Result<Vec<PolicyResponse>, String> {
    let mut builder = Builder::new();
    builder.value_with_doubles(payload.root());
    let payload = builder.finish();
    let verifications = Verifications::default();
    let mut responses = Vec::new();
    for policy in case.policies.image_validating() {
        if policy.spec.evaluation.mode != Mode::Json {
            continue;
        }
        let name = &policy.metadata.name.value;
        let compiled = CompiledImagePolicy::compile(policy, None, [])
            .map_err(|error| format!("failed to compile policy {error}"))?;
        let input = ImageInput {
            object: payload.root(),
            request: None,
        };
        let found = match compiled.evaluate(input, &verifications, host) {
            ImageOutcome::NoMatch if case.in_cluster => continue,
            ImageOutcome::Error(error) if case.in_cluster => rule("evaluation", Status::Error, error, Part::All),
            ImageOutcome::NoMatch | ImageOutcome::Exempt(_) => {
                return Err("`kyverno test` panics: invalid memory address or nil pointer dereference".to_owned());
            }
            ImageOutcome::Error(error) => return Err(error),
            ImageOutcome::Fail { message, .. } => rule(name, Status::Fail, message, Part::All),
            ImageOutcome::Pass { images, .. } => match compiled.unverified(&images, &verifications) {
                Some(problem) => rule(name, Status::Fail, problem, Part::All),
                None => rule(name, Status::Pass, "success".to_owned(), Part::All),
            },
        };
        let mut found = response(key, policy, RuleType::ImageVerify, found);
        found.owe(host.registry().take_use());
        keep(&mut responses, found);
    }
    Ok(responses)
}
