//! Asks every policy of a suite about every resource.

use std::fmt;

use super::{Settings, surroundings::Surroundings};
use crate::{
    diagnostic::{Code, Diagnostic},
    kube::{LabelSelector, Operation, Request},
    kyverno::{
        autogen,
        classic_policy::CompiledPolicy,
        exception::CompiledException,
        input::Input,
        lens::Lens,
        response::RuleResponse,
        validating_policy::{Answer, CompiledValidatingPolicy},
    },
    policy::{MatchConstraints, Mode, Spanned, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    suite::{Named, Resource, Suite},
    vap::{self, offline},
    verdict::{Status, Verdict},
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
    native: Vec<vap::CompiledPolicy>,
    bindings: Vec<vap::Binding>,
}

/// Asks all policies about all resources: once with the suite's own operation, and once with each operation that rows name.
pub(super) fn respond(suite: &Suite, settings: &Settings) -> Responses {
    let mut responses = Responses::default();
    let surroundings = Surroundings::new(suite, settings);
    let policies = compile(suite, settings, &surroundings, &mut responses);
    let lens = if settings.compat { Lens::CLI } else { Lens::CLUSTER };
    let mut runs: Vec<Option<Operation>> = vec![None];
    for row in suite.rows() {
        let operation = row.operation.as_ref().map(|operation| operation.value);
        if operation.is_some() && !runs.contains(&operation) {
            runs.push(operation);
        }
    }
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
            for (name, verdict) in native(&policies, suite, resource, &request, &surroundings, settings) {
                let rules = verdict.map(|verdict| {
                    let mut rule = RuleResponse::new(name, verdict.status, verdict.message, verdict.trace);
                    rule.effect = verdict.effect;
                    rule
                });
                answer(name, NATIVE, true, false, rules.into_iter().collect());
            }
        }
    }
    for payload in &suite.json_payloads {
        let key = Key {
            name: payload.path.value.clone(),
            ..Key::default()
        };
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

/// The kind of native policies.
const NATIVE: &str = "ValidatingAdmissionPolicy";

/// What each native policy says about a resource; `None` where it does not look at it.
fn native<'p>(
    policies: &'p Policies,
    suite: &Suite,
    resource: &Resource,
    request: &Request,
    surroundings: &Surroundings,
    settings: &Settings,
) -> Vec<(&'p str, Option<Verdict>)> {
    let Policies { native, bindings, .. } = policies;
    if native.is_empty() {
        return Vec::new();
    }
    let Surroundings {
        world,
        discovery,
        mocks,
        ..
    } = surroundings;
    if settings.compat {
        // Whatever operation is asked for, the command line creates the object.
        let request = surroundings.request(suite, resource, Operation::Create);
        let decide = |policy: &'p vap::CompiledPolicy| {
            let verdict = offline::decide(policy, bindings, &request, world, suite.cluster.is_some());
            (policy.name(), verdict)
        };
        return native.iter().map(decide).collect();
    }
    let answer = vap::decide(native, bindings, request, world, discovery, mocks);
    let of_policy = |policy: &'p vap::CompiledPolicy| {
        let verdict = answer.of_policy(policy.name());
        (
            policy.name(),
            verdict.filter(|verdict| verdict.status != Status::NoMatch),
        )
    };
    native.iter().map(of_policy).collect()
}

/// The native policies and bindings of a suite. In the default lens those that the API server refuses are refused here, too.
fn compile_native(
    suite: &Suite,
    settings: &Settings,
    surroundings: &Surroundings,
    responses: &mut Responses,
) -> (Vec<vap::CompiledPolicy>, Vec<vap::Binding>) {
    let loaded = &suite.policies;
    let bindings = || loaded.bindings.iter().map(|binding| &**binding);
    let compiled_bindings = bindings().map(vap::Binding::new).collect();
    if settings.compat {
        let policies = loaded.vaps.iter().map(|policy| offline::compile(policy));
        return (policies.collect(), compiled_bindings);
    }
    let policies: Vec<&ValidatingAdmissionPolicy> = loaded.vaps.iter().map(|policy| &**policy).collect();
    let bindings: Vec<&ValidatingAdmissionPolicyBinding> = bindings().collect();
    let diagnostics = vap::check(&policies, &bindings, &surroundings.discovery);
    let mut compiled = Vec::new();
    for policy in policies {
        let span = policy.source.span();
        let refused = diagnostics.iter().find(|diagnostic| {
            let within = diagnostic
                .primary
                .is_some_and(|place| place.file == span.file && span.start <= place.start && place.end <= span.end);
            diagnostic.code == Code::NativeRefused && within
        });
        match refused {
            None => compiled.push(vap::CompiledPolicy::compile(policy)),
            Some(first) => {
                let name = policy.metadata.name.value.clone();
                responses.refused.push((name, first.message.clone()));
            }
        }
    }
    responses.diagnostics.extend(diagnostics);
    (compiled, compiled_bindings)
}

fn compile(suite: &Suite, settings: &Settings, surroundings: &Surroundings, responses: &mut Responses) -> Policies {
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
                    let message = format!("policy `{name}` cannot be compiled: {errors}");
                    let diagnostic = Diagnostic::at(Code::PolicyRefused, policy.metadata.name.span, message);
                    if !responses.refused.iter().any(|(known, _)| *known == name) {
                        responses.diagnostics.push(diagnostic);
                        responses.refused.push((name, errors.to_string()));
                    }
                }
            }
        }
    }
    let kinds = loaded
        .unsupported
        .iter()
        .map(|policy| (policy.name.clone(), policy.kind.clone()));
    responses.unsupported = kinds.collect();
    let (native, bindings) = compile_native(suite, settings, surroundings, responses);
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
        native,
        bindings,
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
