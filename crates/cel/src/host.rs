//! Data outside an expression, for the libraries that need it.
//!
//! A run uses a suite's mocks; a lookup without a mock is an error. Nothing here accesses a network, a cluster or a
//! clock.

mod mocks;

pub use mocks::Mocks;

use std::fmt;

use super::{observe::Observer, time::Timestamp};
use kyvtest_go_compat::value::{Document, Value};

/// The result of a lookup.
pub type HostResult = Result<Document, HostError>;

/// Why a lookup failed. The display is upstream's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostError {
    /// An ordinary error, which the libraries prefix with the failed operation.
    Failed(String),
    /// Upstream's code panics: cel-go reports an `internal error: …` without a prefix.
    Panic(String),
}

impl From<String> for HostError {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

impl From<HostError> for String {
    fn from(error: HostError) -> Self {
        error.to_string()
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(message) => f.write_str(message),
            Self::Panic(message) => write!(f, "internal error: {message}"),
        }
    }
}

/// The attributes of one authorization check.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attributes {
    /// The name of the checked user; empty if the host does not know it.
    pub user: String,
    /// The checked service account; `None` means the user of the request.
    pub service_account: Option<(String, String)>,
    /// A non-resource path; the resource fields are then empty.
    pub path: Option<String>,
    pub verb: String,
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    /// A field selector as written.
    pub field_selector: String,
    /// A label selector as written.
    pub label_selector: String,
}

/// The decision of an authorizer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether access is explicitly allowed.
    pub allowed: bool,
    pub reason: String,
    /// The error message, if the decision failed.
    pub error: Option<String>,
}

/// An HTTP call of the `http` library.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpRequest<'a> {
    /// `GET` or `POST`.
    pub method: &'a str,
    pub url: &'a str,
    /// The body of a `POST`.
    pub body: Option<Value<'a>>,
    pub headers: Vec<(String, String)>,
}

/// An API resource: the result of `resource.ToGVR`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvr {
    /// The API group; empty for the core group.
    pub group: String,
    pub version: String,
    /// The plural resource.
    pub resource: String,
}

impl Gvr {
    /// The resource of an API version.
    ///
    /// # Errors
    /// Upstream's message for a version with more than one slash.
    pub fn parse(api_version: &str, resource: &str) -> Result<Self, String> {
        let (group, version) = match api_version.split_once('/') {
            Some((_, version)) if version.contains('/') => {
                return Err(format!("unexpected GroupVersion string: {api_version}"));
            }
            Some((group, version)) => (group, version),
            None => ("", api_version),
        };
        Ok(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
        })
    }

    /// The API version as objects write it: `apps/v1`, `v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// The lookups of libraries.
///
/// Every method has a default: the result of the host behind this one or, if there is none, an error that names the missing
/// data.
pub trait Host {
    /// The host behind this one, which decides everything that this one leaves to the defaults.
    fn base(&self) -> Option<&dyn Host> {
        None
    }

    /// The host whose clock, random numbers and observer this one shares.
    fn ambient(&self) -> Option<&dyn Host> {
        self.base()
    }

    /// `resource.Get`; a missing object is a `null` document.
    fn resource_get(&self, api_version: &str, resource: &str, namespace: &str, name: &str) -> HostResult {
        match self.base() {
            Some(base) => base.resource_get(api_version, resource, namespace, name),
            None => Err(format!("no mock for resource `{resource}` of `{api_version}`: {namespace}/{name}").into()),
        }
    }

    /// `resource.List`; the result has `items`.
    fn resource_list(
        &self,
        api_version: &str,
        resource: &str,
        namespace: &str,
        labels: &[(String, String)],
    ) -> HostResult {
        match self.base() {
            Some(base) => base.resource_list(api_version, resource, namespace, labels),
            None => {
                Err(format!("no mock for the list of resource `{resource}` of `{api_version}` in `{namespace}`").into())
            }
        }
    }

    /// `resource.Post`.
    fn resource_post(&self, api_version: &str, resource: &str, namespace: &str, body: Value<'_>) -> HostResult {
        match self.base() {
            Some(base) => base.resource_post(api_version, resource, namespace, body),
            None => Err(format!("no mock for creating resource `{resource}` of `{api_version}`").into()),
        }
    }

    /// `generator.Apply`: generates objects in a namespace.
    ///
    /// # Errors
    /// If the objects cannot be generated.
    fn generate(&self, namespace: &str, objects: &[Document]) -> Result<(), String> {
        match self.base() {
            Some(base) => base.generate(namespace, objects),
            None => Err("this policy does not generate objects".to_owned()),
        }
    }

    fn fetch_image(&self, reference: &str) -> HostResult {
        match self.base() {
            Some(base) => base.fetch_image(reference),
            None => Err(format!("no registry to ask for the image `{reference}`").into()),
        }
    }

    /// Counts the attestors that vouch for an image, or for an attestation of it.
    ///
    /// # Errors
    /// If nothing can be verified.
    fn verify_image(
        &self,
        reference: &str,
        attestation: Option<Attestation<'_>>,
        attestors: &[Document],
    ) -> Result<i64, String> {
        match self.base() {
            Some(base) => base.verify_image(reference, attestation, attestors),
            None => Err(format!("no registry to ask for the image `{reference}`")),
        }
    }

    /// The payload of a verified attestation.
    fn image_payload(&self, reference: &str, attestation: Attestation<'_>) -> HostResult {
        match self.base() {
            Some(base) => base.image_payload(reference, attestation),
            None => Err(format!("failed to get imagedata: no registry to ask for the image `{reference}`").into()),
        }
    }

    /// The images that the evaluated policy selects; `None` for policies that do not verify images.
    fn image_scope(&self) -> Option<&dyn ImageScope> {
        self.base()?.image_scope()
    }

    /// The namespace of the evaluated policy; empty for a cluster-wide one. A namespaced policy looks up objects of
    /// this namespace.
    fn policy_namespace(&self) -> &str {
        self.base().map_or("", Host::policy_namespace)
    }

    /// `resource.ToGVR`: the plural resource of a kind.
    fn resource_of_kind(&self, api_version: &str, kind: &str) -> Result<Gvr, HostError> {
        match self.base() {
            Some(base) => base.resource_of_kind(api_version, kind),
            None => Err(format!("no mock for the resource of kind `{kind}` of `{api_version}`").into()),
        }
    }

    /// `globalContext.Get`; an unknown entry is a `null` document. The projection is empty if none is named.
    fn global_context(&self, name: &str, projection: &str) -> HostResult {
        match self.base() {
            Some(base) => base.global_context(name, projection),
            None => Err(format!("no mock for global context entry `{name}`").into()),
        }
    }

    /// `http.Get` and `http.Post`. If the body is a map, the result is that map with the member `statusCode`; any other
    /// body is in the member `body`.
    fn http(&self, request: &HttpRequest<'_>) -> HostResult {
        match self.base() {
            Some(base) => base.http(request),
            None => Err(format!("no mock for {} {}", request.method, request.url).into()),
        }
    }

    /// Whether calls of services may be answered.
    fn answers_calls(&self) -> bool {
        self.base().is_some_and(Host::answers_calls)
    }

    /// `image.GetMetadata`.
    fn image_metadata(&self, reference: &str) -> HostResult {
        match self.base() {
            Some(base) => base.image_metadata(reference),
            None => Err(format!("no mock for the metadata of image `{reference}`").into()),
        }
    }

    /// `authorizer…check(verb)`; `None` if nothing is declared about it, which means no opinion.
    fn authorize(&self, attributes: &Attributes) -> Option<Decision> {
        self.base()?.authorize(attributes)
    }

    /// The clock; `None` if none was given.
    fn now(&self) -> Option<Timestamp> {
        self.ambient()?.now()
    }

    /// A source of random numbers; `None` if none was given.
    fn random(&self) -> Option<u64> {
        self.ambient()?.random()
    }

    /// Records the results of expression parts; `None` unless requested.
    fn observer(&self) -> Option<&Observer> {
        self.ambient()?.observer()
    }
}

/// An attestation that a policy declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attestation<'p> {
    /// The type of the predicate, or of the artifact that refers to the image.
    pub kind: &'p str,
    /// Whether it is an artifact that refers to the image.
    pub is_referrer: bool,
}

/// The images that a policy selects, and their verification results.
pub trait ImageScope {
    /// Reports whether the policy selects an image.
    ///
    /// # Errors
    /// If that cannot be evaluated.
    fn selects(&self, reference: &str) -> Result<bool, String>;

    /// The attestation that the policy declares under a name.
    fn attestation(&self, name: &str) -> Option<Attestation<'_>>;

    /// Records whether an image was verified.
    fn record(&self, reference: &str, verified: bool);
}

/// Receives the objects of `generator.Apply`.
pub type Generator<'h> = dyn Fn(&str, &[Document]) -> Result<(), String> + 'h;

/// A host with overrides: a policy's namespace, an observer, or a generator.
#[derive(Clone, Copy)]
pub struct Wrapped<'h> {
    host: &'h dyn Host,
    namespace: Option<&'h str>,
    observer: Option<&'h Observer>,
    generator: Option<&'h Generator<'h>>,
    images: Option<&'h dyn ImageScope>,
}

impl<'h> Wrapped<'h> {
    fn new(host: &'h dyn Host) -> Self {
        Self {
            host,
            namespace: None,
            observer: None,
            generator: None,
            images: None,
        }
    }

    /// A host for a policy of a namespace; empty for a cluster-wide policy.
    pub fn in_namespace(host: &'h dyn Host, namespace: &'h str) -> Self {
        Self {
            namespace: Some(namespace).filter(|namespace| !namespace.is_empty()),
            ..Self::new(host)
        }
    }

    /// A host that generates objects.
    pub fn generating(host: &'h dyn Host, generator: &'h Generator<'h>) -> Self {
        Self {
            generator: Some(generator),
            ..Self::new(host)
        }
    }

    /// A host for a policy that verifies images.
    pub fn verifying(host: &'h dyn Host, images: &'h dyn ImageScope) -> Self {
        Self {
            images: Some(images),
            ..Self::new(host)
        }
    }

    pub fn observed(host: &'h dyn Host, observer: &'h Observer) -> Self {
        Self {
            observer: Some(observer),
            ..Self::new(host)
        }
    }
}

impl fmt::Debug for Wrapped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wrapped")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl Host for Wrapped<'_> {
    fn base(&self) -> Option<&dyn Host> {
        Some(self.host)
    }

    fn image_scope(&self) -> Option<&dyn ImageScope> {
        self.images.or_else(|| self.host.image_scope())
    }

    fn generate(&self, namespace: &str, objects: &[Document]) -> Result<(), String> {
        match self.generator {
            Some(generator) => generator(namespace, objects),
            None => self.host.generate(namespace, objects),
        }
    }

    fn policy_namespace(&self) -> &str {
        self.namespace.unwrap_or_else(|| self.host.policy_namespace())
    }

    fn observer(&self) -> Option<&Observer> {
        self.observer.or_else(|| self.host.observer())
    }
}

/// A host whose authorizer is the cluster's; the decisions of the host itself take precedence.
///
/// All other lookups fail: policies that may use an authorizer have no other library that reaches outside.
#[derive(Clone, Copy)]
pub struct Authorizing<'h> {
    /// Consulted first.
    pub host: &'h dyn Host,
    /// Consulted if the host has no opinion.
    pub authorize: &'h dyn Fn(&Attributes) -> Decision,
    /// The name of the user of the request.
    pub user: &'h str,
}

impl fmt::Debug for Authorizing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorizing")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl Host for Authorizing<'_> {
    fn ambient(&self) -> Option<&dyn Host> {
        Some(self.host)
    }

    fn authorize(&self, attributes: &Attributes) -> Option<Decision> {
        let attributes = Attributes {
            user: match &attributes.service_account {
                Some((namespace, name)) => format!("system:serviceaccount:{namespace}:{name}"),
                None => self.user.to_owned(),
            },
            ..attributes.clone()
        };
        let own = self.host.authorize(&attributes);
        own.or_else(|| Some((self.authorize)(&attributes)))
    }
}

/// The host of an expression that has nothing but its variables.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHost;

impl Host for NoHost {}
