//! Evaluates one request with both engines: Kyverno's response, the API server's response with native policies, and the
//! difference.
//!
//! The native policies are those among the given objects; without any, those that Kyverno would generate from the given
//! policies. The result is a function of the given objects and the request.

mod admission;
pub mod compat;
pub mod line;

use std::sync::Arc;

use kyvtest_apiserver as vap;
use kyvtest_cel::time::Timestamp;
use kyvtest_convert::{Conversion, Exceptions, Generated, GeneratedMutation, Options, convert};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, FileId, Severity, Sources, nearest},
    value::{Document, Value},
    yaml,
};
use kyvtest_kyverno::{
    autogen,
    config::Config,
    controller::{Controller, Installed, Review},
    lens::Lens,
    mutating_controller::MutatingController,
    offline::{Beside, Surroundings},
};
use kyvtest_model::{
    compare::{Divergence, compare},
    kube::{Cluster, Discovery, GroupVersionKind, Request, World},
    policy::{
        self, ClassicPolicy, Loaded, MutatingPolicy, Policy, Purpose, validate_admission, validate_exception,
        validate_in_cluster,
    },
    verdict::{DivergenceClass, Effect, Status, Verdict},
};
use kyvtest_prove::{
    mutation::installable,
    pair::{NativeVerdict, Pair},
    server::{Data, Refused, Server},
};

/// Evaluates requests against given objects.
#[derive(Debug)]
pub struct Evaluator {
    loaded: Loaded,
    cluster: Cluster,
    /// Objects that static validation rejects.
    invalid: Vec<Invalid>,
    /// Objects that are stored but have no effect.
    problems: Vec<Diagnostic>,
    controller: Option<Controller>,
    mutating: MutatingController,
    /// Policies of kinds that neither mutate nor validate, and rules of these types.
    beside: Option<Beside>,
    pairs: Vec<Pair>,
    /// The conversion of each MutatingPolicy.
    mutating_conversions: Vec<Conversion>,
    /// The conversion of each policy of a kind without a native counterpart.
    other_conversions: Vec<Conversion>,
    native: Option<Native>,
}

#[derive(Debug)]
struct Native {
    server: vap::Server,
    /// Whether the native policies are generated ones.
    generated: bool,
}

/// The settings of a cluster.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The served kinds, in addition to those of the objects.
    pub discovery: Discovery,
    pub config: Config,
    pub now: Option<Timestamp>,
    /// The data lens of cases that do not name one.
    pub data: Data,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            discovery: Discovery::kubernetes(),
            config: Config::bare(),
            now: None,
            data: Data::Raw,
        }
    }
}

/// An object that cannot be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    pub code: Code,
    /// Kind and name: `ClusterPolicy/no-latest`.
    pub object: String,
    /// Empty if unknown.
    pub field: String,
    pub message: String,
}

/// Kyverno's response.
#[derive(Debug, Clone)]
pub struct KyvernoResponse {
    /// The HTTP status.
    pub code: u16,
    /// The strongest status of all rules.
    pub status: Status,
    /// The strongest effect of all rules.
    pub effect: Effect,
    /// The message to the client; empty if the request is admitted.
    pub message: String,
    /// The complete response.
    pub review: Review,
}

impl KyvernoResponse {
    /// Whether only an image registry can decide about the request.
    pub fn is_undecided(&self) -> bool {
        let mut answers = self.review.responses.iter();
        self.review.refusal.is_none() && answers.any(|answered| answered.response.status.is_undecided())
    }
}

/// The responses of both engines.
#[derive(Debug, Clone)]
pub struct BothResponses {
    /// `None` if there is no Kyverno policy.
    pub kyverno: Option<KyvernoResponse>,
    /// The API server's response; `None` if there is no native policy.
    pub vap: Option<vap::AdmissionResponse>,
    /// Whether the native policies are generated ones.
    pub generated: bool,
    /// The difference between the two.
    pub divergence: Option<Divergence>,
    /// The object after admission by Kyverno; `None` if it denies the request, or there is no object.
    pub kyverno_object: Option<Document>,
    /// The object after admission by the API server; `None` if it denies the request, or there is no object.
    pub vap_object: Option<Document>,
}

impl Evaluator {
    /// Creates a cluster with these objects: policies, bindings, exceptions, Namespaces, CustomResourceDefinitions,
    /// RBAC objects; all others are parameters and cluster objects.
    pub fn new(objects: &[Document], settings: &Settings) -> Self {
        Self::with_mocks(objects, Value::Null, settings)
    }

    /// The same with mocks in place of the world outside of the cluster. `mocks` has the keys `apiCallResponses` and
    /// `globalContextEntries` of a test file, `context` with `resources` and `images`, the `spec` of a Context file, and
    /// `imageMocks` or `images`, the image mocks of a sidecar.
    pub fn with_mocks(objects: &[Document], mocks: Value<'_>, settings: &Settings) -> Self {
        let (mocks, problem) = surroundings(mocks);
        let mut cluster = Cluster::new(settings.discovery.clone());
        cluster.set_now(settings.now);
        mocks.add_data(&mut cluster.mocks);
        mocks.add_calls(&mut cluster.mocks);
        let mut loaded = Loaded::default();
        let mut invalid: Vec<Invalid> = problem.into_iter().collect();
        let mut plain: Vec<&Document> = Vec::new();
        for object in objects {
            let root = object.root();
            match (group(root), text(root, "kind")) {
                ("kyverno.io" | "policies.kyverno.io", kind) => {
                    let purpose = if kind == "PolicyException" {
                        Purpose::Exceptions
                    } else {
                        Purpose::Policies
                    };
                    read(object, purpose, &mut loaded, &mut invalid);
                }
                (
                    "admissionregistration.k8s.io",
                    "ValidatingAdmissionPolicy"
                    | "ValidatingAdmissionPolicyBinding"
                    | "MutatingAdmissionPolicy"
                    | "MutatingAdmissionPolicyBinding",
                ) => {
                    let checked = validate_admission(root);
                    if checked.errors.is_empty() {
                        read(object, Purpose::Policies, &mut loaded, &mut invalid);
                    }
                    invalid.extend(checked.errors.into_iter().map(|error| Invalid {
                        code: Code::NativeRefused,
                        object: label(root),
                        field: error.field,
                        message: error.text,
                    }));
                }
                ("apiextensions.k8s.io", "CustomResourceDefinition") => {
                    if let Err(message) = cluster.add_crd(root) {
                        invalid.push(Invalid {
                            code: Code::BadValue,
                            object: label(root),
                            field: String::new(),
                            message,
                        });
                    }
                    plain.push(object);
                }
                _ => plain.push(object),
            }
        }
        for object in plain.into_iter().chain(&mocks.described) {
            cluster.add(object);
            cluster.world.params.push(object.clone());
        }
        let mut evaluator = Self {
            loaded,
            cluster,
            invalid,
            problems: Vec::new(),
            controller: None,
            mutating: MutatingController::default(),
            beside: None,
            pairs: Vec::new(),
            mutating_conversions: Vec::new(),
            other_conversions: Vec::new(),
            native: None,
        };
        evaluator.problems = evaluator.idle();
        evaluator.install(mocks, settings);
        evaluator
    }

    /// Bindings and exceptions of missing policies, policies without a binding, and parameters of kinds that are not
    /// served.
    fn idle(&self) -> Vec<Diagnostic> {
        let loaded = &self.loaded;
        let vaps: Vec<_> = loaded.native().map(|vap| &**vap).collect();
        let bindings: Vec<_> = loaded.bindings.iter().map(|binding| &**binding).collect();
        let mut problems = vap::check(&vaps, &bindings, &self.cluster.discovery);
        let maps: Vec<_> = loaded.native_mutating().map(|map| &**map).collect();
        let bindings: Vec<_> = loaded.mutating_bindings.iter().map(|binding| &**binding).collect();
        problems.extend(vap::check(&maps, &bindings, &self.cluster.discovery));
        for problem in &mut problems {
            // The objects were passed as values, so diagnostics have no source to point at.
            problem.primary = None;
        }
        let kyverno = loaded.policies.iter().filter(|policy| !policy.is_native());
        let names: Vec<&str> = kyverno.map(Policy::name).collect();
        let mut dangling = |exception: &str, wanted: &str| {
            let plain = wanted.rsplit('/').next().unwrap_or(wanted);
            if names.contains(&plain) {
                return;
            }
            let message = format!("exception `{exception}` refers to unknown policy `{wanted}`");
            let diagnostic = Diagnostic::new(Code::DanglingException, message);
            problems.push(match nearest(plain, names.iter().copied()).first() {
                Some(near) => diagnostic.with_help(format!("did you mean `{near}`?")),
                None => diagnostic,
            });
        };
        for exception in &loaded.exceptions {
            for rules in &exception.exceptions {
                dangling(&exception.metadata.name.value, &rules.policy_name.value);
            }
        }
        for exception in &loaded.cel_exceptions {
            for policy in &exception.policy_refs {
                dangling(&exception.metadata.name.value, &policy.name.value);
            }
        }
        problems
    }

    /// Prepares the engines.
    fn install(&mut self, mocks: Surroundings, settings: &Settings) {
        let loaded = &self.loaded;
        let exceptions = Exceptions {
            classic: &loaded.exceptions,
            cel: &loaded.cel_exceptions,
        };
        let validating = loaded.policies.iter().filter(|policy| policy.validates());
        self.pairs = validating
            .cloned()
            .map(|original| Pair::new(original, exceptions, &self.cluster.discovery, settings.now))
            .collect();
        let refuse = |object: String, message: String| Invalid {
            code: Code::PolicyRefused,
            object,
            field: String::new(),
            message,
        };
        let mut policies = loaded.policies.clone();
        policies.retain(|policy| {
            let Policy::Classic(policy) = policy else {
                return policy.validates();
            };
            let checked = validate_in_cluster(policy, &autogen::all_rules(policy), &self.cluster.discovery);
            let label = format!("{}/{}", policy.kind.name(), policy.metadata.name.value);
            self.invalid
                .extend(checked.error.clone().map(|message| refuse(label, message)));
            checked.error.is_none()
        });
        for exception in &loaded.exceptions {
            let label = format!("PolicyException/{}", exception.metadata.name.value);
            self.invalid
                .extend(validate_exception(exception).map(|message| refuse(label, message)));
        }
        let installed = Installed {
            policies: &policies,
            exceptions: &loaded.exceptions,
            cel_exceptions: &loaded.cel_exceptions,
        };
        let (controller, refused) = Controller::new(
            installed,
            settings.config.clone(),
            Lens::CLUSTER,
            &self.cluster.discovery,
        );
        if let Some(problem) = controller.registration_problem() {
            let message = format!("the API server rejects Kyverno's webhooks, so Kyverno sees no request: {problem}");
            self.problems
                .push(Diagnostic::new(Code::PolicyRefused, message).with_severity(Severity::Warning));
        }
        let accepted = policies.len() - refused.len();
        for policy in refused {
            let label = format!("{}/{}", policy.id.kind, policy.id.name);
            self.invalid.push(refuse(label, policy.errors.to_string()));
        }
        self.controller = (accepted > 0).then_some(controller);
        let mutating: Vec<Arc<MutatingPolicy>> = loaded.mutating().cloned().collect();
        let (mutating, refused) = MutatingController::new(&mutating, &loaded.cel_exceptions);
        let rules: Vec<Arc<ClassicPolicy>> = policies.iter().filter_map(Policy::as_classic).cloned().collect();
        self.mutating = mutating.with_rules(&rules, &loaded.exceptions, &self.cluster.discovery);
        for (policy, errors) in refused {
            let label = format!("{}/{}", policy.kind(), policy.metadata.name.value);
            self.invalid.push(refuse(label, errors.to_string()));
        }
        let objects = &self.cluster.world.params;
        let (beside, refused) = Beside::new(loaded, &rules, objects, mocks, &self.cluster.discovery);
        self.beside = beside;
        for (id, error) in refused {
            self.invalid.push(refuse(format!("{}/{}", id.kind, id.name), error));
        }
        let options = Options {
            force: true,
            now: settings.now,
        };
        let others = loaded.policies.iter();
        let others =
            others.filter(|policy| !policy.validates() && !policy.is_native() && policy.as_mutating().is_none());
        self.other_conversions = others
            .map(|policy| convert(policy, exceptions, &self.cluster.discovery, options))
            .collect();
        let policies = loaded.policies.iter().filter(|policy| policy.as_mutating().is_some());
        self.mutating_conversions = policies
            .map(|policy| convert(policy, exceptions, &self.cluster.discovery, options))
            .collect();
        let generated: Vec<&Generated> = self.pairs.iter().filter_map(Pair::generated).collect();
        let loaded = &self.loaded;
        let mutating: Vec<&GeneratedMutation> = self.mutating_conversions.iter().filter_map(installable).collect();
        let has_generated = !generated.is_empty() || !mutating.is_empty();
        let has_native = loaded.policies.iter().any(Policy::is_native);
        self.native = if !has_native && has_generated {
            let policies = generated.iter().map(|one| &*one.vap.model);
            let bindings = generated.iter().flat_map(|one| &one.bindings);
            let bindings = bindings.map(|binding| &*binding.model);
            Some(Native {
                server: vap::Server::new(policies, bindings, vap::Lens::ApiServer).with_mutation(
                    mutating.iter().map(|one| &*one.map.model),
                    mutating.iter().map(|one| &*one.binding.model),
                ),
                generated: true,
            })
        } else if !has_native && loaded.bindings.is_empty() && loaded.mutating_bindings.is_empty() {
            None
        } else {
            // A binding whose policy is missing has no effect: the server admits the request.
            let policies = loaded.native().map(|policy| &**policy);
            let bindings = loaded.bindings.iter().map(|binding| &**binding);
            let mutating = loaded.native_mutating().map(|policy| &**policy);
            let mutating_bindings = loaded.mutating_bindings.iter().map(|binding| &**binding);
            Some(Native {
                server: vap::Server::new(policies, bindings, vap::Lens::ApiServer)
                    .with_mutation(mutating, mutating_bindings),
                generated: false,
            })
        };
    }

    /// The objects that static validation rejects.
    pub fn invalid(&self) -> &[Invalid] {
        &self.invalid
    }

    /// Problems of objects that would be stored but have no effect, or cannot work.
    pub fn problems(&self) -> &[Diagnostic] {
        &self.problems
    }

    /// The policies and exceptions.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Namespaces, bindings of roles and other objects.
    pub fn world(&self) -> &World {
        &self.cluster.world
    }

    /// The served kinds.
    pub fn discovery(&self) -> &Discovery {
        &self.cluster.discovery
    }

    /// The policies and their native counterparts.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// Parses a request: an AdmissionRequest, or an AdmissionReview that contains one. Missing fields are derived from
    /// the object.
    ///
    /// # Errors
    /// If a required field is missing or malformed.
    pub fn request(&self, value: Value<'_>) -> Result<Request, String> {
        let value = value
            .get("request")
            .filter(|_| value.get("operation").is_none())
            .unwrap_or(value);
        let derived = derive_request(value, &self.cluster.discovery)?;
        let mut request = Request::from_value(derived.root(), &self.cluster.discovery)?;
        if request.object.root().is_null() && request.old_object.root().is_null() {
            return Err("the request has neither `object` nor `oldObject`".to_owned());
        }
        if request.roles.is_none() && request.cluster_roles.is_none() && !request.user.is_absent() {
            let roles = self.cluster.world.roles(&request.user, &request.namespace);
            (request.roles, request.cluster_roles) = (roles.roles, roles.cluster_roles);
        }
        Ok(request)
    }

    /// Replaces the objects of a request by those that admission sees.
    ///
    /// # Errors
    /// If the API server rejects an object; the request is then unchanged.
    pub fn admit(&self, request: &mut Request) -> Result<(), Refused> {
        Server::new(&self.cluster.discovery, self.cluster.world.params.clone()).admit(request)
    }

    /// Evaluates the validating policies of both engines on a request whose objects are those that policies see.
    pub fn decide(&self, request: &Request) -> BothResponses {
        let environment = self.cluster.environment();
        let controller = self.controller.as_ref();
        let review = controller.map(|controller| controller.review(request, environment));
        self.respond(request, review)
    }

    /// Adds the API server's response to Kyverno's, and the difference.
    fn respond(&self, request: &Request, review: Option<Review>) -> BothResponses {
        let environment = self.cluster.environment();
        let native = self.native.as_ref();
        let vap = native.map(|native| native.server.review(request, environment));
        let generated = native.is_some_and(|native| native.generated);
        let divergence = match (&review, &vap) {
            (Some(review), Some(answer)) if !generated => {
                let native = NativeVerdict::of(answer.clone());
                compare(&review.verdict(), &native.verdict, &[])
            }
            (Some(review), _) => self.first_difference(request, review, vap.as_ref()),
            (None, _) => None,
        };
        let object = |admitted: bool| {
            let object = Some(&request.object).filter(|object| admitted && !object.root().is_null());
            object.cloned()
        };
        BothResponses {
            kyverno_object: object(review.as_ref().is_some_and(|review| review.refusal.is_none())),
            vap_object: object(vap.as_ref().is_some_and(|answer| answer.allowed)),
            kyverno: review.map(|review| kyverno_answer(request, review)),
            vap,
            generated,
            divergence,
        }
    }

    /// The first difference between a policy and its native counterpart. If there is only one counterpart, its verdict
    /// is that of the whole response.
    fn first_difference(
        &self,
        request: &Request,
        review: &Review,
        answer: Option<&vap::AdmissionResponse>,
    ) -> Option<Divergence> {
        let environment = self.cluster.environment();
        let divergences = self.pairs.iter().filter_map(|pair| {
            let native = match (&self.pairs[..], answer) {
                ([_], Some(answer)) => Some(NativeVerdict::of(answer.clone())),
                _ => pair.native(request, environment),
            };
            let kyverno = review.of_policy(&pair.original().id(), true);
            pair.compare(&kyverno, native.as_ref(), request, environment)
        });
        // A missing native counterpart is the least specific divergence.
        divergences.min_by_key(|divergence| (divergence.class == DivergenceClass::NotConvertible, divergence.class))
    }
}

/// Reads mocks, and the problem of the image mocks among them.
fn surroundings(mocks: Value<'_>) -> (Surroundings, Option<Invalid>) {
    let mut read = Surroundings::read(mocks);
    let images = mocks.get("imageMocks").or_else(|| mocks.get("images"));
    let problem = read.read_image_mocks(images.unwrap_or(Value::Null)).err();
    let problem = problem.map(|message| Invalid {
        code: Code::BadValue,
        object: "mocks".to_owned(),
        field: String::new(),
        message,
    });
    (read, problem)
}

fn kyverno_answer(request: &Request, review: Review) -> KyvernoResponse {
    let Verdict { status, effect, .. } = review.verdict();
    let strongest = review.responses.iter().map(|answered| answered.response.status);
    let status = strongest.chain([status]).max_by_key(|status| status.strength());
    let (code, message) = match &review.refusal {
        Some(refusal) => (refusal.code, refusal.message.clone()),
        None => (vap::admitted_code(request.operation), String::new()),
    };
    KyvernoResponse {
        code,
        status: status.unwrap_or(Status::NoMatch),
        effect,
        message,
        review,
    }
}

fn text<'v>(value: Value<'v>, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn group(object: Value<'_>) -> &str {
    text(object, "apiVersion")
        .split_once('/')
        .map_or("", |(group, _)| group)
}

/// Kind and name.
fn label(object: Value<'_>) -> String {
    let name = object
        .at(&["metadata", "name"])
        .and_then(Value::as_str)
        .unwrap_or_default();
    format!("{}/{name}", text(object, "kind"))
}

/// Parses a policy, an exception or a binding.
fn read(object: &Document, purpose: Purpose, loaded: &mut Loaded, invalid: &mut Vec<Invalid>) {
    let json = object.root().to_json();
    let file: FileId = Sources::new().add("object.json", json.as_str());
    let before = loaded.diagnostics.len();
    policy::load(
        yaml::read(&json, yaml::Mode::Lax, &yaml::Limits::default()),
        file,
        purpose,
        loaded,
    );
    let problems = loaded.diagnostics.split_off(before);
    invalid.extend(problems.into_iter().map(|problem| Invalid {
        code: problem.code,
        object: label(object.root()),
        field: String::new(),
        message: problem.message,
    }));
}

/// Fills in the optional fields of an AdmissionRequest: resource, kind, name, namespace and operation.
fn derive_request(value: Value<'_>, discovery: &Discovery) -> Result<Document, String> {
    let mut request = value.to_serde();
    let Some(fields) = request.as_object_mut() else {
        return Err("the request is not a map".to_owned());
    };
    let given = |key: &str| value.get(key).filter(|value| !value.is_null());
    let object = given("object").or_else(|| given("oldObject")).unwrap_or(Value::Null);
    if given("operation").is_none() {
        let operation = match (given("object"), given("oldObject")) {
            (None, Some(_)) => "DELETE",
            (Some(_), Some(_)) => "UPDATE",
            _ => "CREATE",
        };
        fields.insert("operation".to_owned(), operation.into());
    }
    let name = |fields: &mut serde_json::Map<String, serde_json::Value>, key: &str| {
        if given(key).is_none()
            && let Some(own) = object.at(&["metadata", key]).and_then(Value::as_str)
        {
            fields.insert(key.to_owned(), own.into());
        }
    };
    name(fields, "name");
    name(fields, "namespace");
    if given("resource").is_none() {
        let (api_version, kind) = match given("kind") {
            Some(kind) => {
                let (group, version) = (text(kind, "group"), text(kind, "version"));
                let api_version = if group.is_empty() {
                    version.to_owned()
                } else {
                    format!("{group}/{version}")
                };
                (api_version, text(kind, "kind"))
            }
            None => (text(object, "apiVersion").to_owned(), text(object, "kind")),
        };
        if kind.is_empty() {
            return Err("the request has neither `resource` nor an object with a kind".to_owned());
        }
        let gvk = GroupVersionKind::from_api_version(&api_version, kind);
        let served = discovery.by_object(&api_version, kind).cloned();
        let served = served.unwrap_or_else(|| {
            let namespaced = object.at(&["metadata", "namespace"]).is_some();
            Arc::new(Discovery::guess(&gvk, namespaced))
        });
        let gvr = served.gvr();
        fields.insert(
            "resource".to_owned(),
            serde_json::json!({"group": gvr.group, "version": gvr.version, "resource": gvr.resource}),
        );
    }
    // To the API server a Namespace is in its own namespace.
    let is_core_namespace = fields
        .get("resource")
        .is_some_and(|gvr| gvr["resource"] == "namespaces" && gvr["group"].as_str().unwrap_or_default().is_empty());
    if is_core_namespace && text(value, "namespace").is_empty() {
        let own = fields.get("name").cloned().unwrap_or_default();
        fields.insert("namespace".to_owned(), own);
    }
    if given("kind").is_none() {
        let gvk = GroupVersionKind::from_api_version(text(object, "apiVersion"), text(object, "kind"));
        fields.insert(
            "kind".to_owned(),
            serde_json::json!({"group": gvk.group, "version": gvk.version, "kind": gvk.kind}),
        );
    }
    Ok(Document::from(&request))
}
