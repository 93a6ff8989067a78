//! Both engines with the policies of a suite, and their cluster.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::{
    Engine, Settings, authorization,
    cluster::SuiteCluster,
    counterpart::Counterparts,
    edit::edited,
    offline::Offline,
    response::{Key, Responses},
    values::SuiteValues,
};
use crate::suite::{Resource, Suite};
use kyvtest_apiserver::{self as apiserver, CompiledMutatingPolicy, CompiledNativePolicy, Server};
use kyvtest_cel::host::Host;
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Severity, Span};
use kyvtest_kyverno::{
    authorization::AuthorizationPolicy,
    autogen,
    classic::values::Values,
    controller::{Controller, Evaluation, Installed},
    lens::Lens,
    lowered::{self, EngineResponse, Lowered},
    response::RuleResponse,
    schedule,
};
use kyvtest_model::{
    kube::{Environment, LabelSelector, Operation, Request},
    policy::{
        MatchConstraints, Mode, MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, Policy, PolicyId, Spanned,
        Text, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, validate, validate_exception,
        validate_in_cluster,
    },
};

/// The identity of a native policy.
pub(super) fn native_id(name: &str) -> PolicyId {
    PolicyId {
        group: "admissionregistration.k8s.io",
        kind: "ValidatingAdmissionPolicy",
        namespace: String::new(),
        name: name.to_owned(),
    }
}

/// The identity of a native policy that mutates.
pub(super) fn native_mutating_id(name: &str) -> PolicyId {
    PolicyId {
        kind: "MutatingAdmissionPolicy",
        ..native_id(name)
    }
}

/// Both engines with the policies of a suite.
pub(super) struct Engines<'s> {
    pub(super) suite: &'s Suite,
    pub(super) settings: &'s Settings,
    /// The keys of the suite's resources, in its order.
    pub(super) keys: Vec<Key>,
    /// The identities of the policies.
    ids: FxHashSet<Arc<PolicyId>>,
    pub(super) cluster: SuiteCluster,
    pub(super) controller: Controller,
    /// The API server with the suite's own native policies.
    pub(super) server: Server,
    /// The policies with their generated native counterparts.
    pub(super) counterparts: Counterparts,
    /// The stages other than validation, if the suite has policies for them.
    pub(super) offline: Option<Offline>,
    /// The policies on HTTP and Envoy requests.
    pub(super) authorization: Vec<AuthorizationPolicy>,
}

/// One response to a request.
pub(super) struct PolicyResponse {
    /// The results of the matching rules.
    pub(super) rules: Vec<RuleResponse>,
    /// The trace, if enabled.
    pub(super) trace: Vec<String>,
}

impl From<EngineResponse> for PolicyResponse {
    fn from(response: EngineResponse) -> Self {
        Self {
            rules: response.rules,
            trace: response.trace,
        }
    }
}

impl<'s> Engines<'s> {
    /// Compiles the policies of a suite. Errors are added to the responses.
    pub(super) fn new(suite: &'s Suite, settings: &'s Settings, responses: &mut Responses) -> Self {
        let cluster = SuiteCluster::new(suite, settings);
        let validating = evaluated(suite);
        let server = server(suite, settings, &cluster, responses);
        let mut policies = accepted(suite, settings, &cluster, responses);
        policies.extend(validating);
        let installed = Installed {
            policies: &policies,
            exceptions: &suite.exceptions.exceptions,
            cel_exceptions: &suite.exceptions.cel_exceptions,
        };
        let discovery = &cluster.cluster.discovery;
        let (controller, refused) = Controller::new(installed, settings.config.clone(), lens(settings), discovery);
        // `kyverno test` compiles these policies for each resource and each JSON payload, and not before.
        let is_used = !settings.compat || !suite.resources.is_empty() || !suite.json_payloads.is_empty();
        for policy in refused {
            let name = policy.id.name;
            let reasons: Vec<String> = policy
                .errors
                .errors
                .iter()
                .map(|error| format!("`{}`: {}", error.path, error.reason))
                .collect();
            let errors = policy.errors.errors.iter().zip(&reasons);
            responses.diagnostics.extend(errors.map(|(error, reason)| {
                let message = format!("policy `{name}` is rejected: {reason}");
                let diagnostic = Diagnostic::at(Code::PolicyRefused, error.place, message);
                if is_used {
                    diagnostic
                } else {
                    diagnostic.with_severity(Severity::Warning)
                }
            }));
            if is_used {
                responses.refused.push((name, reasons.join("; ")));
                responses.aborts = true;
            }
        }
        if !settings.compat {
            warn_about_exceptions(suite, responses);
        }
        if !settings.compat {
            schedules(suite, responses);
        }
        let authorization = authorization::compile(suite, settings, responses);
        let kyverno = controller.policies().iter().map(Lowered::name);
        let kyverno = kyverno.chain(authorization.iter().map(|policy| policy.id().name.as_str()));
        let native = server.policies().iter().map(CompiledNativePolicy::name);
        let mutating = server.mutating_policies().iter().map(CompiledMutatingPolicy::name);
        let beside = suite.policies.policies.iter().filter(|policy| is_beside(policy));
        let beside = beside.map(Policy::name);
        let names = kyverno.chain(native).chain(mutating).chain(beside);
        responses.policies = names.map(str::to_owned).collect();
        responses.policies.sort();
        responses.policies.dedup();
        let counterparts = if settings.compat || settings.engine == Engine::Kyverno {
            Counterparts::default()
        } else {
            Counterparts::new(suite, settings, discovery)
        };
        let ids = controller.policies().iter().map(|policy| policy.id().clone());
        let ids = ids.chain(server.policies().iter().map(|policy| native_id(policy.name())));
        let ids: FxHashSet<Arc<PolicyId>> = ids.map(Arc::new).collect();
        let offline = Offline::new(suite, &cluster, settings.compat);
        Self {
            suite,
            settings,
            ids,
            keys: suite.resources.iter().map(Key::of).collect(),
            cluster,
            controller,
            server,
            counterparts,
            offline,
            authorization,
        }
    }

    /// A copy of a policy's identity that responses share.
    pub(super) fn shared_id(&self, id: &PolicyId) -> Arc<PolicyId> {
        self.ids.get(id).cloned().unwrap_or_else(|| Arc::new(id.clone()))
    }

    /// Kyverno's lens.
    pub(super) fn lens(&self) -> Lens {
        lens(self.settings)
    }

    /// The environment of evaluations, with another host.
    pub(super) fn environment<'e>(&'e self, host: &'e dyn Host) -> Environment<'e> {
        Environment {
            host,
            ..self.cluster.cluster.environment()
        }
    }

    /// The request as a Kyverno policy sees it: values may edit the objects of classic policies.
    pub(super) fn edited(&self, policy: &Lowered, request: &Request, resource: &Resource) -> Option<Request> {
        policy.as_classic()?;
        edited(self.suite, policy.name(), resource, request)
    }

    /// The results of a Kyverno policy for a request; empty if upstream has no response.
    pub(super) fn kyverno(
        &self,
        policy: &Lowered,
        request: &Request,
        resource: &Resource,
        host: &dyn Host,
    ) -> Vec<PolicyResponse> {
        // `kyverno test` treats resources as payloads; in a cluster no request reaches a policy for payloads, and a
        // suite that lists resources for one means payloads.
        let is_payload = if self.settings.compat {
            policy.is_for_payloads()
        } else {
            policy.is_for_payloads_only()
        };
        if is_payload {
            let responses = policy.evaluate_payload(resource.object.root(), host);
            return responses.into_iter().map(PolicyResponse::from).collect();
        }
        let edited = self.edited(policy, request, resource);
        let request = edited.as_ref().unwrap_or(request);
        let values = SuiteValues {
            suite: self.suite,
            resource: &resource.name,
            operation: request.operation,
        };
        let values = policy.as_classic().map(|_| &values as &dyn Values);
        let mut environment = self.environment(host);
        if policy.as_classic().is_some() {
            environment.world = self.cluster.classic_world();
        }
        match self.controller.evaluate(policy, request, environment, values) {
            Evaluation::NotCalled(_, trace) => vec![PolicyResponse {
                rules: Vec::new(),
                trace,
            }],
            Evaluation::Denied(error, mut trace) => {
                let rules = match policy.as_classic() {
                    Some(classic) => classic
                        .policy()
                        .spec
                        .rules
                        .iter()
                        .map(|rule| &*rule.name.value)
                        .collect(),
                    None => vec![""],
                };
                let denied = |rule: &str| RuleResponse::denied_by_condition(rule, &error);
                let rules: Vec<RuleResponse> = rules.into_iter().map(denied).collect();
                if self.settings.trace {
                    trace.extend(lowered::decided(&rules));
                }
                vec![PolicyResponse { rules, trace }]
            }
            Evaluation::Evaluated(responses) => {
                // Upstream drops the missing match of policies with a plain match block, so that autogen's other
                // variants do not show (`processor/policy_processor.go` `hasSelector`).
                let mut variants = policy.variants().iter();
                let mut is_dropped = |silent: bool| {
                    let constraints = variants.next().and_then(|variant| variant.constraints());
                    silent && self.settings.compat && constraints.is_some_and(is_plain)
                };
                let responses = responses.into_iter();
                responses
                    .filter(|response| !is_dropped(response.rules.is_empty()))
                    .map(PolicyResponse::from)
                    .collect()
            }
        }
    }

    /// The result of one of the suite's native policies for a request. It has the policy's name instead of a rule's.
    pub(super) fn native(
        &self,
        policy: &CompiledNativePolicy,
        request: &Request,
        resource: &Resource,
        host: &dyn Host,
    ) -> PolicyResponse {
        let created;
        let request = if self.settings.compat {
            // The command line always creates the object, regardless of the row's operation.
            created = self.cluster.request(self.suite, resource, Operation::Create, None);
            &created
        } else {
            request
        };
        let evaluated = self.server.evaluate(policy, request, self.environment(host));
        let rule = evaluated.verdict.map(|verdict| {
            let mut rule = RuleResponse::new(policy.name(), verdict.status, verdict.message, verdict.trace);
            rule.effect = verdict.effect;
            rule
        });
        PolicyResponse {
            rules: rule.into_iter().collect(),
            trace: evaluated.trace,
        }
    }
}

fn lens(settings: &Settings) -> Lens {
    if settings.compat { Lens::CLI } else { Lens::CLUSTER }
}

/// The CEL policies of the evaluated modes.
fn evaluated(suite: &Suite) -> Vec<Policy> {
    let mut evaluated = Vec::new();
    for policy in suite.policies.validating() {
        // The others are for payloads only; a namespaced one is treated like a policy on admission requests.
        if policy.namespaced || !matches!(policy.spec.evaluation.mode, Mode::Http | Mode::Envoy) {
            evaluated.push(Policy::Validating(Arc::clone(policy)));
        }
    }
    evaluated
}

/// The classic policies that Kyverno accepts.
fn accepted(suite: &Suite, settings: &Settings, cluster: &SuiteCluster, responses: &mut Responses) -> Vec<Policy> {
    let mut accepted = Vec::new();
    for policy in suite.policies.classic() {
        let name = policy.metadata.name.value.clone();
        let rules = autogen::all_rules(policy);
        let checked = if settings.compat {
            validate(policy, &rules)
        } else {
            validate_in_cluster(policy, &rules, &cluster.cluster.discovery)
        };
        if let Some(error) = checked.error {
            let message = format!("policy `{name}` is rejected: {error}");
            let diagnostic = Diagnostic::at(Code::PolicyRefused, policy.metadata.name.span, message);
            responses.diagnostics.push(diagnostic);
            responses.refused.push((name, error));
            continue;
        }
        // `kyverno test` does not evaluate a policy without rules.
        if settings.compat && policy.spec.rules.is_empty() {
            continue;
        }
        let names = rules.iter().map(|rule| rule.name.value.clone()).collect();
        responses.rules.push((name, names));
        accepted.push(Policy::Classic(Arc::clone(policy)));
    }
    accepted
}

/// The API server's message for a version that it does not serve.
const NOT_SERVED: &str = "the server could not find the requested resource";

/// The API server with the native policies of a suite. The default lens rejects policies that a server would reject.
fn server(suite: &Suite, settings: &Settings, cluster: &SuiteCluster, responses: &mut Responses) -> Server {
    let loaded = &suite.policies;
    let bindings: Vec<&ValidatingAdmissionPolicyBinding> = loaded.bindings.iter().map(|binding| &**binding).collect();
    let mut policies: Vec<&ValidatingAdmissionPolicy> = loaded.native().map(|policy| &**policy).collect();
    let mut mutating: Vec<&MutatingAdmissionPolicy> = loaded.native_mutating().map(|policy| &**policy).collect();
    let mutating_bindings = loaded.mutating_bindings.iter().map(|binding| &**binding);
    let mut mutating_bindings: Vec<&MutatingAdmissionPolicyBinding> = mutating_bindings.collect();
    if settings.compat {
        let has_cluster = suite.cluster.is_some();
        // The schemas of Kyverno's command line have one version of these; others are not loaded.
        mutating.retain(|policy| policy.api_version.ends_with("v1alpha1"));
        mutating_bindings.retain(|binding| binding.api_version.ends_with("v1alpha1"));
        return Server::new(policies, bindings, apiserver::Lens::Cli { has_cluster })
            .with_mutation(mutating, mutating_bindings);
    }
    let discovery = &cluster.cluster.discovery;
    let mut diagnostics = apiserver::check(&policies, &bindings, discovery);
    let mut of_mutation = apiserver::check(&mutating, &mutating_bindings, discovery);
    for diagnostic in &mut of_mutation {
        // `kyverno test` reads only `v1alpha1`, so suites have it; it is evaluated as `v1`.
        if diagnostic.code == Code::NativeRefused && diagnostic.message == NOT_SERVED {
            diagnostic.severity = Severity::Warning;
            diagnostic
                .help
                .push("the object is evaluated as `admissionregistration.k8s.io/v1`".to_owned());
        }
    }
    diagnostics.extend(of_mutation);
    let mut accepts = |name: &Text, span: Span| {
        let refused = diagnostics.iter().find(|diagnostic| {
            let within = diagnostic
                .primary
                .is_some_and(|place| place.file == span.file && span.start <= place.start && place.end <= span.end);
            diagnostic.code == Code::NativeRefused && diagnostic.severity == Severity::Error && within
        });
        let Some(first) = refused else { return true };
        responses.refused.push((name.value.clone(), first.message.clone()));
        false
    };
    policies.retain(|policy| accepts(&policy.metadata.name, policy.source.span()));
    mutating.retain(|policy| accepts(&policy.metadata.name, policy.source.span()));
    responses.diagnostics.extend(diagnostics);
    Server::new(policies, bindings, apiserver::Lens::ApiServer).with_mutation(mutating, mutating_bindings)
}

/// Whether a policy takes part in the stages other than validation.
fn is_beside(policy: &Policy) -> bool {
    matches!(
        policy,
        Policy::Mutating(_)
            | Policy::Generating(_)
            | Policy::Deleting(_)
            | Policy::Cleanup(_)
            | Policy::ImageValidating(_)
    )
}

/// Rejects policies with an invalid schedule.
fn schedules(suite: &Suite, responses: &mut Responses) {
    let deleting = suite
        .policies
        .deleting()
        .map(|policy| (&policy.metadata, &policy.spec.schedule));
    let cleanup = suite
        .policies
        .cleanup()
        .map(|policy| (&policy.metadata, &policy.spec.schedule));
    for (metadata, written) in deleting.chain(cleanup) {
        let Err(error) = schedule::check(&written.value) else {
            continue;
        };
        let name = &metadata.name.value;
        let reason = format!("`spec.schedule` is not in the form of cron: {error}");
        let message = format!("policy `{name}` is rejected: {reason}");
        let diagnostic = Diagnostic::at(Code::PolicyRefused, written.span, message);
        responses
            .diagnostics
            .push(diagnostic.with_help("write five fields, such as `0 3 * * *`, or `@daily`"));
        responses.refused.push((name.clone(), reason));
    }
}

fn warn_about_exceptions(suite: &Suite, responses: &mut Responses) {
    for exception in &suite.exceptions.exceptions {
        let Some(error) = validate_exception(exception) else {
            continue;
        };
        let name = &exception.metadata.name;
        let message = format!("exception `{}` is rejected: {error}", name.value);
        let diagnostic = Diagnostic::at(Code::PolicyRefused, name.span, message);
        responses.diagnostics.push(diagnostic.with_severity(Severity::Warning));
    }
}

/// Whether a match block is just one resource rule.
fn is_plain(constraints: &MatchConstraints) -> bool {
    let selects = |selector: &Option<Spanned<LabelSelector>>| {
        selector.as_ref().is_some_and(|selector| !selector.value.is_empty())
    };
    !selects(&constraints.namespace_selector)
        && !selects(&constraints.object_selector)
        && constraints.exclude_resource_rules.is_empty()
        && matches!(&constraints.resource_rules[..], [rule] if rule.resource_names.is_empty())
}
