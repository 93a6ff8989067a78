//! Asks every policy of a suite about every resource.

use std::{cell::RefCell, fmt, sync::Arc, time::Duration};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    Note, Settings,
    asking::Asking,
    coverage::{self, Coverage},
    found::{self, Found, Proof},
    lens::{self, LensNote},
    native::{self, Natives},
    question::{Asker, Question},
    surroundings::Surroundings,
    twins::{Twin, Twins},
};
use crate::suite::{Named, OldObject, Resource, Suite};
use kyvtest_cel::{host::Wrapped, observe::Observer};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Severity},
    value::Document,
};
use kyvtest_kyverno::{
    autogen,
    classic_policy::CompiledPolicy,
    exception::CompiledException,
    lens::Lens,
    response::RuleResponse,
    validating_policy::CompiledValidatingPolicy,
    webhook::{Registration, Webhook},
};
use kyvtest_model::{
    kube::Operation,
    policy::{Mode, Policy, PolicyId, ValidatingPolicy, validate, validate_exception, validate_in_cluster},
};
use kyvtest_prove::{behaviour::Behaviours, server::Refused};

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
    /// The references by which rows name it: `name` and `namespace/name`; a payload has its path only.
    pub(super) fn references(&self) -> Vec<String> {
        if self.kind.is_empty() {
            return vec![self.name.clone()];
        }
        let is_plain = |text: &str| !text.contains('/');
        let mut references = Vec::new();
        if is_plain(&self.name) {
            references.push(self.name.clone());
            if is_plain(&self.namespace) {
                references.push(format!("{}/{}", self.namespace, self.name));
            }
        }
        references
    }

    pub(super) fn of(resource: &Resource) -> Self {
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
    /// The row or case that the request was made for; `None` for a request that is anybody's.
    pub asker: Option<Asker>,
    /// The operation of the request.
    pub operation: Operation,
    /// The resource.
    pub key: Key,
    pub policy: PolicyId,
    /// Whether violations count.
    pub scored: bool,
    /// Whether rows name the policy's rules.
    pub has_rules: bool,
    /// The answers of the rules; none where the policy does not match.
    pub rules: Vec<RuleResponse>,
    /// What the native policy says that stands for the policy; `None` where nobody asked it.
    pub twin: Option<Arc<Twin>>,
    /// How long both took, where that was measured.
    pub elapsed: Option<Duration>,
    /// How the rules came to their answers, where that is told.
    pub told: Vec<String>,
    pub lens: LensNote,
}

/// All answers of a suite.
#[derive(Debug, Default)]
pub struct Responses {
    /// The answers, by run, resource and policy in the order of the suite.
    pub list: Vec<Response>,
    /// Places in the list by resource.
    by_key: FxHashMap<Key, Vec<usize>>,
    /// What rows may call the resources and payloads.
    references: FxHashSet<String>,
    /// Every resource and payload that is asked about, sorted.
    pub keys: Vec<Key>,
    /// The names of the policies that were asked.
    pub policies: Vec<String>,
    /// The policies that cannot be asked, with the reason.
    pub refused: Vec<(String, String)>,
    /// Whether `kyverno test` ends the run at one of them: expressions of CEL policies do not compile.
    pub aborts: bool,
    /// The policies of kinds that are not decided.
    pub unsupported: Vec<(String, String)>,
    /// The rules that policies with named rules have, autogen's among them.
    pub rules: Vec<(String, Vec<String>)>,
    /// What is wrong.
    pub diagnostics: Vec<Diagnostic>,
    /// Resources that the API server refuses; policies were evaluated on them as written.
    pub refusals: Vec<(Key, Refused)>,
    /// What is to be known about the comparison with native twins, by name of the policy.
    pub notes: Vec<(String, Note)>,
    /// What was tried, where somebody asked.
    pub coverage: Option<Coverage>,
    /// The behaviours of the policies, where somebody asked.
    pub behaviours: Vec<Found<Behaviours>>,
    /// What is proven of them, where somebody asked.
    pub proofs: Vec<Found<Proof>>,
}

impl Responses {
    /// The answers to a question about a resource: those to a request of its own where there is one.
    pub(super) fn about<'r>(
        &'r self,
        asker: Asker,
        run: Option<Operation>,
        key: &'r Key,
    ) -> impl Iterator<Item = &'r Response> {
        let places = self.by_key.get(key).map_or(&[][..], Vec::as_slice);
        let of_key = places.iter().filter_map(|place| self.list.get(*place));
        let own = of_key.clone().any(|response| response.asker == Some(asker));
        of_key.filter(move |response| match response.asker {
            Some(of) => of == asker,
            None => !own && (response.run == run || response.key.kind.is_empty()),
        })
    }

    /// Whether a row's reference names a resource or payload of the suite.
    pub(super) fn has_resource(&self, reference: &str) -> bool {
        self.references.contains(reference)
    }

    /// Makes lookups by resource possible once all answers are there.
    fn index(&mut self) {
        for (place, response) in self.list.iter().enumerate() {
            match self.by_key.get_mut(&response.key) {
                Some(places) => places.push(place),
                None => {
                    self.by_key.insert(response.key.clone(), vec![place]);
                }
            }
        }
        self.references = self.keys.iter().flat_map(Key::references).collect();
    }
}

/// One request that policies are asked about.
pub(super) struct Asked<'s> {
    pub(super) run: Option<Operation>,
    pub(super) asker: Option<Asker>,
    pub(super) resource: &'s Resource,
    pub(super) old: Option<Document>,
}

pub(super) struct Policies {
    pub(super) classic: Vec<CompiledPolicy>,
    pub(super) registration: Registration,
    pub(super) exceptions: Vec<CompiledException>,
    pub(super) validating: Vec<Validating>,
    pub(super) native: Natives,
}

impl Policies {
    /// The classic policies, each with its webhook.
    pub(super) fn classic(&self) -> impl Iterator<Item = (&CompiledPolicy, Option<&Webhook>)> {
        let classic = self.classic.iter().enumerate();
        classic.map(|(number, compiled)| (compiled, self.registration.classic(number)))
    }
}

/// A CEL policy, or what autogen made of one.
pub(super) struct Validating {
    pub(super) compiled: CompiledValidatingPolicy,
    pub(super) kind: &'static str,
    pub(super) id: PolicyId,
    /// The index of the written policy in the registration.
    pub(super) number: usize,
}

/// Asks all policies about all resources: once with the suite's own operation, and once with each operation that rows name.
pub(super) fn respond(suite: &Suite, settings: &Settings) -> Responses {
    respond_about(suite, settings, &[])
}

/// The same with more operations than the rows name.
pub(super) fn respond_about(suite: &Suite, settings: &Settings, operations: &[Operation]) -> Responses {
    let mut responses = Responses::default();
    let surroundings = Surroundings::new(suite, settings);
    let policies = compile(suite, settings, &surroundings, &mut responses);
    let twins = Twins::new(suite, settings, &surroundings);
    responses.notes = twins.notes();
    let time = || settings.watch.map(|watch| watch());
    let since = |begin: Option<Duration>| Some(time()?.saturating_sub(begin?));
    let lens = if settings.compat { Lens::CLI } else { Lens::CLUSTER };
    let observer = Observer::with_story();
    let observed = Wrapped::observed(&surroundings.cluster.mocks, &observer);
    let told = RefCell::default();
    let asking = Asking {
        suite,
        settings,
        surroundings: &surroundings,
        policies: &policies,
        lens,
        host: if settings.trace {
            &observed
        } else {
            &surroundings.cluster.mocks
        },
        told: settings.trace.then_some(&told),
    };
    responses.keys = keys(suite);
    let rows = lens::Rows::of(suite);
    for asked in requests(suite, settings, operations) {
        if settings.is_stopped() {
            return responses;
        }
        let (run, resource) = (asked.run, asked.resource);
        let operation = run.unwrap_or_else(|| default_operation(suite, resource));
        let seen = surroundings.seen(surroundings.written(suite, resource, operation, asked.old));
        let request = &seen.request;
        if let Some(refused) = &seen.refused {
            let warning = lens::refusal(suite, resource, refused, settings);
            if !responses.diagnostics.contains(&warning) {
                responses.diagnostics.push(warning);
                responses.refusals.push((Key::of(resource), refused.clone()));
            }
        }
        let key = Key::of(resource);
        let before = responses.list.len();
        let mut answer = |policy: PolicyId, scored, has_rules, rules, elapsed, told| {
            responses.list.push(Response {
                run,
                asker: asked.asker,
                operation,
                key: key.clone(),
                policy,
                scored,
                has_rules,
                rules,
                twin: None,
                elapsed,
                told,
                lens: LensNote::default(),
            });
        };
        for (compiled, webhook) in policies.classic() {
            let policy = compiled.policy();
            let begin = time();
            let rules = asking.classic(compiled, webhook, request, resource);
            let (elapsed, told) = (since(begin), asking.told(&rules));
            answer(policy.id(), compiled.is_scored(), true, rules, elapsed, told);
        }
        for policy in &policies.validating {
            let begin = time();
            let rules = asking.validating(policy, request, resource);
            let compiled = &policy.compiled;
            if let Some(rules) = rules {
                let (elapsed, told) = (since(begin), asking.told(&rules));
                answer(policy.id.clone(), compiled.is_scored(), false, rules, elapsed, told);
            } else {
                // Discard the trace: it must not show up with the next resource.
                asking.told(&[]);
            }
        }
        let begin = time();
        for (name, rules) in policies
            .native
            .answers(suite, resource, request, &surroundings, asking.host)
        {
            let (elapsed, told) = (since(begin), asking.told(&rules));
            answer(native::id(name), true, false, rules, elapsed, told);
        }
        twins.ask(
            request,
            &surroundings,
            asking.host,
            &mut responses.list[before..],
            settings.watch,
        );
        lens::note_differences(asking, &twins, &rows, &seen, resource, &mut responses.list[before..]);
    }
    for payload in &suite.json_payloads {
        let key = Key {
            name: payload.path.value.clone(),
            ..Key::default()
        };
        for policy in &policies.validating {
            let compiled = &policy.compiled;
            if *compiled.mode() != Mode::Json {
                continue;
            }
            let begin = time();
            let rule = compiled.decide_payload(payload.document.root(), &surroundings.cluster.mocks);
            responses.list.push(Response {
                run: None,
                asker: None,
                operation: Operation::Create,
                key: key.clone(),
                policy: policy.id.clone(),
                scored: compiled.is_scored(),
                has_rules: false,
                told: asking.told(std::slice::from_ref(&rule)),
                rules: vec![rule],
                twin: None,
                elapsed: since(begin),
                lens: LensNote::default(),
            });
        }
    }
    if settings.extras.coverage {
        responses.coverage = Some(coverage::observe(asking));
    }
    if settings.extras.behaviours {
        responses.behaviours = found::all_behaviours(asking);
    }
    if settings.extras.proofs {
        responses.proofs = found::proofs(asking);
    }
    responses.index();
    responses
}

/// Every resource in every run, and then what rows and cases with an old object of their own ask. `kyverno test` knows
/// nothing of the latter.
pub(super) fn requests<'s>(suite: &'s Suite, settings: &Settings, operations: &[Operation]) -> Vec<Asked<'s>> {
    let questions: Vec<Question<'s>> = Question::all(suite)
        .filter(|question| !settings.compat || question.row().is_some())
        .collect();
    let mut runs: Vec<Option<Operation>> = vec![None];
    for question in &questions {
        if !runs.contains(&question.operation) {
            runs.push(question.operation);
        }
    }
    for operation in operations {
        if !runs.contains(&Some(*operation)) {
            runs.push(Some(*operation));
        }
    }
    let mut asked = Vec::new();
    for run in runs {
        asked.extend(suite.resources.iter().map(|resource| Asked {
            run,
            asker: None,
            resource,
            old: None,
        }));
    }
    if settings.compat {
        return asked;
    }
    for question in &questions {
        for resource in &suite.resources {
            let key = Key::of(resource);
            if !question.concerns(&key, &question.listed()) {
                continue;
            }
            let old = question.wanted(suite, &key).old_object;
            asked.extend(old.and_then(|old| old_object(suite, resource, old)).map(|old| Asked {
                run: question.operation,
                asker: Some(question.asker),
                resource,
                old: Some(old),
            }));
        }
    }
    asked
}

/// The old object that an expectation gives; `None` where its file could not be read. What no update can change is taken
/// from the resource where the object does not say it.
fn old_object(suite: &Suite, resource: &Resource, old: &OldObject) -> Option<Document> {
    let given = match old {
        OldObject::Inline(part) => part.document(),
        OldObject::File(path) => {
            let (_, found) = suite.old_objects.iter().find(|(known, _)| *known == path.value)?;
            (*found.object).clone()
        }
    };
    let mut object = given.root().to_serde();
    let fields = object.as_object_mut()?;
    let text = |text: &str| serde_json::Value::from(text);
    fields
        .entry("apiVersion")
        .or_insert_with(|| text(&resource.api_version));
    fields.entry("kind").or_insert_with(|| text(&resource.kind));
    let metadata = fields.entry("metadata").or_insert_with(|| serde_json::json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.entry("name").or_insert_with(|| text(&resource.name));
        if !resource.namespace.is_empty() {
            metadata.entry("namespace").or_insert_with(|| text(&resource.namespace));
        }
    }
    Some(Document::from(&object))
}

fn keys(suite: &Suite) -> Vec<Key> {
    let resources = suite.resources.iter().map(Key::of);
    let payloads = suite.json_payloads.iter();
    let payloads = payloads.chain(&suite.http_payloads).chain(&suite.envoy_payloads);
    let payloads = payloads.map(|payload| Key {
        name: payload.path.value.clone(),
        ..Key::default()
    });
    let mut keys: Vec<Key> = resources.chain(payloads).collect();
    keys.sort();
    keys.dedup();
    keys
}

fn compile(suite: &Suite, settings: &Settings, surroundings: &Surroundings, responses: &mut Responses) -> Policies {
    let loaded = &suite.policies;
    let mut validating = Vec::new();
    let mut registered: Vec<&ValidatingPolicy> = Vec::new();
    for policy in &loaded.validating_policies {
        let kind = if policy.namespaced {
            "NamespacedValidatingPolicy"
        } else {
            "ValidatingPolicy"
        };
        let mode = match &policy.spec.evaluation.mode {
            Mode::Http => Some("HTTP"),
            Mode::Envoy => Some("Envoy"),
            Mode::Kubernetes | Mode::Json | Mode::Other(_) => None,
        };
        if let Some(mode) = mode {
            let what = format!("{kind} with the evaluation mode {mode}");
            responses.unsupported.push((policy.metadata.name.value.clone(), what));
            continue;
        }
        let (number, id) = (registered.len(), policy.id());
        registered.push(&**policy);
        let variants = autogen::variants(policy);
        let rewritten = variants.iter().map(|variant| &variant.policy);
        for policy in std::iter::once(&**policy).chain(rewritten) {
            let exceptions = suite.exceptions.cel_exceptions.iter().map(|exception| &**exception);
            match CompiledValidatingPolicy::compile(policy, exceptions) {
                Ok(compiled) => validating.push(Validating {
                    compiled,
                    kind,
                    id: id.clone(),
                    number,
                }),
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
                        responses.aborts = true;
                    }
                }
            }
        }
    }
    let kinds = loaded
        .unsupported
        .iter()
        .map(|policy| (policy.name.clone(), policy.kind.clone()));
    responses.unsupported.extend(kinds);
    let native = Natives::compile(suite, settings, surroundings, responses);
    let mut classic = Vec::new();
    for policy in &loaded.policies {
        let name = policy.metadata.name.value.clone();
        let rules = autogen::all_rules(policy);
        let checked = if settings.compat {
            validate(policy, &rules)
        } else {
            validate_in_cluster(policy, &rules, &surroundings.cluster.discovery)
        };
        if let Some(error) = checked.error {
            let message = format!("policy `{name}` is refused: {error}");
            let diagnostic = Diagnostic::at(Code::PolicyRefused, policy.metadata.name.span, message);
            responses.diagnostics.push(diagnostic);
            responses.refused.push((name, error));
            continue;
        }
        // `kyverno test` does not ask a policy that has nothing to ask.
        if settings.compat && policy.spec.rules.is_empty() {
            continue;
        }
        let names = rules.iter().map(|rule| rule.name.value.clone()).collect();
        responses.rules.push((name, names));
        classic.push(CompiledPolicy::new(Arc::clone(policy)));
    }
    let names = classic
        .iter()
        .map(|compiled| compiled.policy().metadata.name.value.as_str());
    let names = names.chain(validating.iter().map(|policy| policy.compiled.name()));
    responses.policies = names.chain(native.names()).map(str::to_owned).collect();
    responses.policies.sort();
    responses.policies.dedup();
    let mut exceptions = Vec::new();
    for exception in &suite.exceptions.exceptions {
        let refusal = validate_exception(exception).filter(|_| !settings.compat);
        if let Some(error) = refusal {
            let name = &exception.metadata.name;
            let message = format!("exception `{}` is refused: {error}", name.value);
            let diagnostic = Diagnostic::at(Code::PolicyRefused, name.span, message);
            responses.diagnostics.push(diagnostic.with_severity(Severity::Warning));
        } else {
            exceptions.push(CompiledException::new(exception));
        }
    }
    let accepted: Vec<&Policy> = classic.iter().map(|compiled| &**compiled.policy()).collect();
    let registration = Registration::new(&accepted, &registered, &surroundings.cluster.discovery);
    Policies {
        classic,
        registration,
        exceptions,
        validating,
        native,
    }
}

/// The operation that the values ask for, else CREATE.
pub(super) fn default_operation(suite: &Suite, resource: &Resource) -> Operation {
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
