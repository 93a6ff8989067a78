//! The responses of a test, and their form as JSON.
//!
//! Upstream counterpart: `EngineResponse` of `pkg/engine/api/engineresponse.go` (1.19).

use crate::{
    mutate::MutateResult,
    response::{RegistryUse, RuleResponse},
};
use kyvtest_go_compat::value::Document;
use kyvtest_model::verdict::{Effect, Status};
use serde_json::{Map, Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleType {
    /// It changes the object of the request, or existing objects.
    Mutation,
    /// It validates the object of the request.
    Validation,
    /// It creates objects.
    Generation,
    /// It deletes existing objects.
    Deletion,
    /// It verifies the images of the object of the request.
    ImageVerify,
}

impl RuleType {
    /// Kyverno's name of the type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutation => "Mutation",
            Self::Validation => "Validation",
            Self::Generation => "Generation",
            Self::Deletion => "Deletion",
            Self::ImageVerify => "ImageVerify",
        }
    }
}

#[derive(Debug, Clone)]
pub struct RuleResult {
    pub rule_type: RuleType,
    pub response: RuleResponse,
    /// The existing object after a mutate rule, if the rule changed one.
    pub target: Option<Document>,
    /// The objects that a generate rule created.
    pub generated: Vec<Document>,
}

impl RuleResult {
    pub(super) fn new(rule_type: RuleType, response: RuleResponse) -> Self {
        Self {
            rule_type,
            response,
            target: None,
            generated: Vec::new(),
        }
    }
}

impl From<MutateResult> for RuleResult {
    fn from(result: MutateResult) -> Self {
        Self {
            target: result.target,
            ..Self::new(RuleType::Mutation, result.response)
        }
    }
}

/// The response of one policy in one stage.
#[derive(Debug, Clone, Default)]
pub struct PolicyResponse {
    /// `apiVersion,kind,namespace,name` of the resource, or the name of the payload.
    pub resource: String,
    /// The policy's name.
    pub policy: String,
    pub kind: &'static str,
    /// The policy's namespace; empty for cluster-wide kinds.
    pub policy_namespace: String,
    pub rules: Vec<RuleResult>,
    /// The object after the policy, null if it is lost; `None` in responses that carry no object.
    pub patched: Option<Document>,
    /// Whether [`PolicyResponse::patched`] equals the object that the policy received.
    pub(crate) is_unchanged: bool,
}

/// What `kyverno apply` reports about one CleanupPolicy and resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanupResult {
    /// `apiVersion,kind,namespace,name`.
    pub resource: String,
    /// The policy's name, after its namespace if it has one.
    pub policy: String,
    pub rule: String,
    pub status: Status,
    pub message: String,
}

/// What `kyverno test` computes for one resource.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// The responses, in order.
    pub responses: Vec<PolicyResponse>,
    /// Policies that Kyverno refuses, with the text; they are not evaluated.
    pub invalid: Vec<(String, String)>,
    /// What the loader prints about documents that it leaves out.
    pub(crate) printed: Vec<String>,
    /// What `kyverno apply` reports about CleanupPolicies; `None` in a run of `kyverno test`.
    pub(crate) results: Option<Vec<CleanupResult>>,
    /// The text with which the run ends; there are no responses then.
    pub error: Option<String>,
}

impl Observed {
    /// A run that ends with an error.
    pub(super) fn failed(error: String) -> Self {
        Self {
            error: Some(error),
            ..Self::default()
        }
    }

    /// The responses as JSON: `responses`, and where there are any `invalid` and `printed`; or `error`.
    pub fn to_json(&self) -> Value {
        if let Some(error) = &self.error {
            return json!({ "error": error });
        }
        let responses = self.responses.iter().map(PolicyResponse::to_json);
        let mut observed = Map::new();
        if let Some(results) = &self.results {
            let bad = results.iter().any(|result| result.status != Status::Pass);
            observed.insert("exit".to_owned(), i32::from(bad).into());
            let results = results.iter().map(|result| {
                json!({
                    "resource": result.resource,
                    "policy": result.policy,
                    "rule": result.rule,
                    "status": result.status.as_str(),
                    "message": result.message,
                })
            });
            observed.insert("results".to_owned(), results.collect());
            return observed.into();
        }
        observed.insert("responses".to_owned(), responses.collect());
        if !self.invalid.is_empty() {
            let invalid = self.invalid.iter();
            let invalid: Map<_, _> = invalid
                .map(|(policy, text)| (policy.clone(), text.as_str().into()))
                .collect();
            observed.insert("invalid".to_owned(), invalid.into());
        }
        if !self.printed.is_empty() {
            observed.insert("printed".to_owned(), self.printed.clone().into());
        }
        observed.into()
    }
}

/// The message of a result that requires a registry.
const NEEDS_REGISTRY: &str = "needs a registry; `images` in the sidecar can state what it would answer";

impl PolicyResponse {
    /// The response of a policy with this name and namespace that carries no object.
    pub(super) fn new(
        resource: String,
        kind: &'static str,
        (policy, policy_namespace): (String, String),
        rules: Vec<RuleResult>,
    ) -> Self {
        Self {
            resource,
            policy,
            kind,
            policy_namespace,
            rules,
            patched: None,
            is_unchanged: false,
        }
    }

    /// Marks results that only a registry can decide; `kyverno test` contacts one that does not respond. Once a result of
    /// a rule is undecided, further ones are redundant and removed; `undecided` are such rules of earlier responses, by
    /// policy and rule.
    pub fn mark_undecided(&mut self, undecided: &mut Vec<(String, String)>) {
        let policy = self.policy.clone();
        self.rules.retain_mut(|rule| {
            if rule.response.registry != RegistryUse::Unanswered {
                return true;
            }
            let key = (policy.clone(), rule.response.rule.clone());
            if undecided.contains(&key) {
                return false;
            }
            rule.response.status = Status::NeedsRegistry;
            rule.response.effect = Effect::Admit;
            NEEDS_REGISTRY.clone_into(&mut rule.response.message);
            undecided.push(key);
            true
        });
    }

    fn to_json(&self) -> Value {
        let rules = self.rules.iter().map(rule);
        let mut response = Map::new();
        response.insert("resource".to_owned(), self.resource.as_str().into());
        response.insert("policy".to_owned(), self.policy.as_str().into());
        response.insert("kind".to_owned(), self.kind.into());
        if !self.policy_namespace.is_empty() {
            response.insert("policyNamespace".to_owned(), self.policy_namespace.as_str().into());
        }
        response.insert("rules".to_owned(), rules.collect());
        if let Some(patched) = &self.patched {
            let patched = if self.is_unchanged {
                "unchanged".into()
            } else {
                patched.root().to_serde()
            };
            response.insert("patched".to_owned(), patched);
        }
        response.into()
    }
}

fn rule(result: &RuleResult) -> Value {
    let response = &result.response;
    let mut rule = Map::new();
    rule.insert("rule".to_owned(), response.rule.as_str().into());
    rule.insert("type".to_owned(), result.rule_type.name().into());
    rule.insert("status".to_owned(), response.status.as_str().into());
    rule.insert("message".to_owned(), response.message.as_str().into());
    if let Some(target) = &result.target {
        rule.insert("target".to_owned(), target.root().to_serde());
    }
    if !result.generated.is_empty() {
        let generated = result.generated.iter().map(|object| object.root().to_serde());
        rule.insert("generated".to_owned(), generated.collect());
    }
    if !response.exceptions.is_empty() {
        rule.insert("exceptions".to_owned(), response.exceptions.clone().into());
    }
    if !response.properties.is_empty() {
        let properties = response.properties.iter();
        let properties: Map<_, _> = properties
            .map(|(key, value)| (key.clone(), value.as_str().into()))
            .collect();
        rule.insert("properties".to_owned(), properties.into());
    }
    rule.into()
}
