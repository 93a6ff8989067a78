//! Asks every policy of a suite about every resource.

use std::fmt;

use super::{Settings, surroundings::Surroundings};
use crate::{
    diagnostic::{Code, Diagnostic},
    kube::{LabelSelector, Operation},
    kyverno::{
        autogen,
        classic_policy::CompiledPolicy,
        exception::CompiledException,
        input::Input,
        lens::Lens,
        response::RuleResponse,
        validating_policy::{Answer, CompiledValidatingPolicy},
    },
    policy::{MatchConstraints, Mode, Spanned},
    suite::{Named, Resource, Suite},
};

/// Which resource an answer is about; of a payload only the name is set, to its path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Key {
    /// The API version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace; empty for cluster-wide kinds.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    fn of(resource: &Resource) -> Self {
        Self {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
            namespace: resource.namespace.clone(),
            name: resource.name.clone(),
        }
    }
}

impl fmt::Display for Key {
    /// `apiVersion,Kind,namespace,name`, as `kyverno test` writes its keys; the path of a payload.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind.is_empty() {
            return f.write_str(&self.name);
        }
        write!(f, "{},{},{},{}", self.api_version, self.kind, self.namespace, self.name)
    }
}

/// What one policy answered about one resource.
#[derive(Debug, Clone)]
pub struct Response {
    /// The operation of the run, where it is one that rows ask for.
    pub run: Option<Operation>,
    /// The operation of the request.
    pub operation: Operation,
    /// The resource.
    pub key: Key,
    /// The policy's name.
    pub policy: String,
    /// Its kind.
    pub policy_kind: &'static str,
    /// Whether violations count.
    pub scored: bool,
    /// Whether rows name the policy's rules.
    pub has_rules: bool,
    /// The answers of the rules; none where the policy does not match.
    pub rules: Vec<RuleResponse>,
}

/// All answers of a suite.
#[derive(Debug, Default)]
pub struct Responses {
    /// The answers, by run, resource and policy in the order of the suite.
    pub list: Vec<Response>,
    /// Everything that policies were asked about.
    pub keys: Vec<Key>,
    /// The policies that cannot be asked, with the reason.
    pub refused: Vec<(String, String)>,
    /// The policies of kinds that are not decided.
    pub unsupported: Vec<(String, String)>,
    /// The rules that policies with named rules have, autogen's among them.
    pub rules: Vec<(String, Vec<String>)>,
    /// What is wrong.
    pub diagnostics: Vec<Diagnostic>,
}

struct Policies {
    classic: Vec<CompiledPolicy>,
    exceptions: Vec<CompiledException>,
    validating: Vec<(CompiledValidatingPolicy, &'static str)>,
}

/// Asks all policies about all resources: once with the suite's own operation, and once with each operation that rows name.
pub(super) fn respond(suite: &Suite, settings: &Settings) -> Responses {
    let mut responses = Responses::default();
    let policies = compile(suite, &mut responses);
    let surroundings = Surroundings::new(suite, settings);
    let lens = if settings.compat { Lens::CLI } else { Lens::CLUSTER };
    let mut runs: Vec<Option<Operation>> = vec![None];
    for row in suite.rows() {
        let operation = row.operation.as_ref().map(|operation| operation.value);
        if operation.is_some() && !runs.contains(&operation) {
            runs.push(operation);
        }
    }
    responses.keys.extend(suite.resources.iter().map(Key::of));
    for run in runs {
        for resource in &suite.resources {
            let operation = run.unwrap_or_else(|| default_operation(suite, resource));
            let request = surroundings.request(suite, resource, operation);
            let input = Input::new(&request, &surroundings.world, &surroundings.discovery, lens);
            let key = Key::of(resource);
            let mut answer = |policy: &str, kind, scored, has_rules, rules| {
                responses.list.push(Response {
                    run,
                    operation,
                    key: key.clone(),
                    policy: policy.to_owned(),
                    policy_kind: kind,
                    scored,
                    has_rules,
                    rules,
                });
            };
            for compiled in &policies.classic {
                let policy = compiled.policy();
                let decided = compiled.decide(&input, &policies.exceptions, &surroundings.mocks);
                let name = policy.metadata.name.value.as_str();
                answer(name, policy.kind.name(), compiled.is_scored(), true, decided.rules);
            }
            for (compiled, kind) in &policies.validating {
                let rules = match (compiled.mode(), compiled.decide(&input, &surroundings.mocks)) {
                    (Mode::Json, _) => {
                        vec![compiled.decide_payload(resource.object.root(), &surroundings.mocks)]
                    }
                    (_, Answer::Rule(rule)) => vec![rule],
                    // Upstream drops the silence of policies with a plain match block, so that autogen's other variants
                    // do not show (`processor/policy_processor.go` `hasSelector`).
                    (_, Answer::NoMatch(_)) if settings.compat && compiled.constraints().is_some_and(is_plain) => {
                        continue;
                    }
                    (_, Answer::NoMatch(_)) => Vec::new(),
                };
                answer(compiled.name(), kind, compiled.is_scored(), false, rules);
            }
        }
    }
    for payload in &suite.json_payloads {
        let key = Key {
            name: payload.path.value.clone(),
            ..Key::default()
        };
        responses.keys.push(key.clone());
        for (compiled, kind) in policies
            .validating
            .iter()
            .filter(|(policy, _)| *policy.mode() == Mode::Json)
        {
            let rule = compiled.decide_payload(payload.document.root(), &surroundings.mocks);
            responses.list.push(Response {
                run: None,
                operation: Operation::Create,
                key: key.clone(),
                policy: compiled.name().to_owned(),
                policy_kind: kind,
                scored: compiled.is_scored(),
                has_rules: false,
                rules: vec![rule],
            });
        }
    }
    responses
}

fn compile(suite: &Suite, responses: &mut Responses) -> Policies {
    let loaded = &suite.policies;
    let mut validating = Vec::new();
    for policy in &loaded.validating_policies {
        let kind = if policy.namespaced {
            "NamespacedValidatingPolicy"
        } else {
            "ValidatingPolicy"
        };
        let variants = autogen::variants(policy);
        let rewritten = variants.iter().map(|variant| &variant.policy);
        for policy in std::iter::once(&**policy).chain(rewritten) {
            let exceptions = suite.exceptions.cel_exceptions.iter().map(|exception| &**exception);
            match CompiledValidatingPolicy::compile(policy, exceptions) {
                Ok(compiled) => validating.push((compiled, kind)),
                Err(errors) => {
                    let name = policy.metadata.name.value.clone();
                    if !responses.refused.iter().any(|(known, _)| *known == name) {
                        responses.diagnostics.extend(errors.errors.iter().map(|error| {
                            let message = format!("policy `{name}` is refused: `{}`: {}", error.path, error.reason);
                            Diagnostic::at(Code::PolicyRefused, error.place, message)
                        }));
                        let reasons = errors
                            .errors
                            .iter()
                            .map(|error| format!("`{}`: {}", error.path, error.reason));
                        responses.refused.push((name, reasons.collect::<Vec<_>>().join("; ")));
                    }
                }
            }
        }
    }
    let kinds = loaded
        .unsupported
        .iter()
        .map(|policy| (policy.name.clone(), policy.kind.clone()));
    let vaps = loaded
        .vaps
        .iter()
        .map(|vap| (vap.metadata.name.value.clone(), "ValidatingAdmissionPolicy".to_owned()));
    responses.unsupported = kinds.chain(vaps).collect();
    let rules = loaded.policies.iter().map(|policy| {
        let names = autogen::all_rules(policy)
            .iter()
            .map(|rule| rule.name.value.clone())
            .collect();
        (policy.metadata.name.value.clone(), names)
    });
    responses.rules = rules.collect();
    Policies {
        classic: loaded.policies.iter().cloned().map(CompiledPolicy::new).collect(),
        exceptions: suite
            .exceptions
            .exceptions
            .iter()
            .map(|exception| CompiledException::new(exception))
            .collect(),
        validating,
    }
}

/// Whether a match block is nothing but one resource rule.
fn is_plain(constraints: &MatchConstraints) -> bool {
    let selects = |selector: &Option<Spanned<LabelSelector>>| {
        selector.as_ref().is_some_and(|selector| !selector.value.is_empty())
    };
    !selects(&constraints.namespace_selector)
        && !selects(&constraints.object_selector)
        && constraints.exclude_resource_rules.is_empty()
        && matches!(&constraints.resource_rules[..], [rule] if rule.resource_names.is_empty())
}

/// The operation that the values ask for, else CREATE.
fn default_operation(suite: &Suite, resource: &Resource) -> Operation {
    let operation = |values: &[Named]| {
        let value = values.iter().rev().find(|(name, _)| name.value == "request.operation");
        value
            .and_then(|(_, value)| value.value.root().as_str())
            .and_then(|text| text.parse().ok())
    };
    let own = suite.values.policies.iter().flat_map(|policy| &policy.resources);
    let own = own
        .filter(|entry| entry.name.value == resource.name)
        .find_map(|entry| operation(&entry.values));
    own.or_else(|| operation(&suite.values.global_values))
        .unwrap_or(Operation::Create)
}
