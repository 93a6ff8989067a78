//! Requests as an API server hands them to admission: the data that policies see.
//!
//! Between the body of a request and any policy the server decodes the object, fills in defaults and runs its own plugins
//! (crate `normalise`). `run`, `eval`, `diff` and the witnesses of proofs all pass through [`Server::admit`].
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/endpoints/handlers/{create,update,delete}.go`, version 0.36.
//!
//! Known deviations: objects of kinds without a schema are taken as they are, and so are the options of CONNECT.

mod memo;
mod rules;
mod scale;

use std::sync::Arc;

use kyvtest_go_compat::value::{Document, Value};
use kyvtest_model::{
    kube::{Discovery, GroupVersionKind, Operation, Request},
    policy::validate_admission,
};
use kyvtest_normalise::{
    Cause, Cluster, Kind, Mutation, Operation as Writes, Plugin, Raw, Request as Target, decode, decode_changed,
    finish, is_known, locate, mutated, normalise, plugins, same_identity, stored_object,
};

pub use kyvtest_normalise::{Reason, Refused};
pub use memo::Memo;
pub use rules::check as check_rule;

/// The errors of the CEL expressions of an admission policy. The normaliser itself finds all others.
pub fn check_expressions(object: Value<'_>) -> Vec<Cause> {
    let errors = validate_admission(object).errors.into_iter();
    let of_compiler = |detail: &str| {
        ["compilation failed", "must evaluate to"]
            .iter()
            .any(|own| detail.starts_with(own))
    };
    errors
        .filter(|error| of_compiler(&error.detail))
        .map(|error| Cause {
            field: error.field,
            reason: Reason::Invalid,
            detail: error.detail,
        })
        .collect()
}

/// Which object policies see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Data {
    /// The object as it is written.
    Raw,
    /// The object as the API server makes it.
    #[default]
    Normalised,
}

impl Data {
    pub const ALL: [Self; 2] = [Self::Raw, Self::Normalised];

    /// The word on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Normalised => "normalised",
        }
    }

    /// The lens of a word.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|data| data.name() == name)
    }
}

/// What an API server knows when it completes objects.
#[derive(Debug)]
pub struct Server {
    cluster: Cluster,
    /// Objects that servers with the same knowledge have completed before.
    memo: Option<Arc<Memo>>,
}

impl Server {
    /// A server with kube-apiserver's default plugins and the definitions of custom kinds. Plugins find `objects`.
    pub fn new(discovery: &Discovery, objects: Vec<Document>) -> Self {
        Self {
            cluster: Cluster {
                objects,
                definitions: discovery.definitions().to_vec(),
                rules: Some(check_rule),
                expressions: Some(check_expressions),
                ..Cluster::default()
            },
            memo: None,
        }
    }

    /// Shares created objects with other servers. A server that knows objects or definitions of its own does not take part:
    /// they may change what it makes of an object.
    ///
    /// INVARIANT: all servers with the same memo have the same plugins.
    #[must_use]
    pub fn sharing(mut self, memo: &Arc<Memo>) -> Self {
        let is_plain = self.cluster.objects.is_empty() && self.cluster.definitions.is_empty();
        self.memo = is_plain.then(|| Arc::clone(memo));
        self
    }

    /// Switches off the plugin that names service accounts and mounts their tokens.
    #[must_use]
    pub fn without_service_accounts(mut self) -> Self {
        self.cluster.plugins.retain(|plugin| *plugin != Plugin::ServiceAccount);
        self
    }

    /// What the server knows when it completes objects.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Whether the server has a schema for a kind; objects of other kinds stay as they are.
    pub(crate) fn knows(&self, api_version: &str, kind: &str) -> bool {
        let defines = |definition: &Arc<Document>| {
            let text = |path: &[&str]| definition.root().at(path).and_then(Value::as_str);
            text(&["spec", "names", "kind"]) == Some(kind)
                && text(&["spec", "group"]) == api_version.split_once('/').map(|(group, _)| group)
        };
        is_known(Kind {
            api_version,
            name: kind,
        }) || self.cluster.definitions.iter().any(defines)
    }

    /// An object as the server decodes it, with defaults and not validated; one of a kind without a schema as it is.
    ///
    /// # Errors
    /// What cannot be decoded.
    pub fn decode(&self, kind: &GroupVersionKind, namespace: &str, object: &Document) -> Result<Document, Refused> {
        let api_version = kind.api_version();
        if object.root().is_null() || !self.knows(&api_version, &kind.kind) {
            return Ok(object.clone());
        }
        let kind = Kind {
            api_version: &api_version,
            name: &kind.kind,
        };
        let sent = Target {
            operation: Writes::Update,
            namespace,
            ..Target::default()
        };
        Ok(stored_object(kind, Raw::from(object), sent, &self.cluster)?.object())
    }

    /// An object as the server reads it: types and defaults, without what plugins add and the server makes up. One of a kind
    /// without a schema is taken as it is.
    ///
    /// # Errors
    /// What cannot be decoded.
    pub fn read(&self, kind: &GroupVersionKind, object: &Document) -> Result<Document, Refused> {
        let api_version = kind.api_version();
        if object.root().is_null() || !self.knows(&api_version, &kind.kind) {
            return Ok(object.clone());
        }
        let kind = Kind {
            api_version: &api_version,
            name: &kind.kind,
        };
        Ok(decode(kind, Raw::from(object), &self.cluster)?.object())
    }

    /// Replaces the objects of a request by those that mutating policies see: decoded, with defaults, after the plugins, and
    /// not validated. A name that is yet to be generated stays empty. The stored object of an UPDATE is complete.
    ///
    /// # Errors
    /// The refusal of the server; the request is unchanged then.
    pub fn prepare(&self, request: &mut Request) -> Result<(), Refused> {
        let resource = Arc::clone(&request.resource);
        let api_version = resource.object_kind.api_version();
        let kind = Kind {
            api_version: &api_version,
            name: &resource.object_kind.kind,
        };
        if !self.knows(kind.api_version, kind.name) {
            return Ok(());
        }
        let operation = match request.operation {
            Operation::Create => Writes::Create,
            Operation::Update => Writes::Update,
            Operation::Delete | Operation::Connect => return Ok(()),
        };
        let target = target(request, operation);
        let mut decoded = decode(kind, Raw::from(&request.object), &self.cluster)?;
        let old_object = match operation {
            Writes::Create => None,
            Writes::Update => {
                let sent = scale::stored(request);
                let stored = stored_object(kind, Raw::from(&*sent), target, &self.cluster)?;
                same_identity(&decoded, &stored)?;
                Some(stored.object())
            }
        };
        plugins(&mut decoded, target, &self.cluster)?;
        let object = decoded.object();
        if resource.namespaced && request.namespace.is_empty() {
            let namespace = object.root().at(&["metadata", "namespace"]).and_then(Value::as_str);
            namespace.unwrap_or_default().clone_into(&mut request.namespace);
        }
        request.object = object;
        if let Some(old_object) = old_object {
            request.old_object = old_object;
        }
        Ok(())
    }

    /// An object that a webhook has patched, read back by the server.
    ///
    /// # Errors
    /// The server's text.
    pub fn patched(&self, request: &Request, object: &Document) -> Result<Document, String> {
        let api_version = request.resource.object_kind.api_version();
        let kind = Kind {
            api_version: &api_version,
            name: &request.resource.object_kind.kind,
        };
        mutated(kind, object.root(), Mutation::PatchedByWebhook, &self.cluster)
    }

    /// Runs the plugins again on an object that a webhook has changed since. `request` has the object before.
    ///
    /// # Errors
    /// The refusal of a plugin.
    pub(crate) fn reinvoke(&self, request: &Request, object: &Document) -> Result<Document, Refused> {
        kyvtest_apiserver::rerun_plugins(request, object, &self.cluster)
    }

    /// Replaces the object of a prepared and mutated request by the one that validating policies see: after the strategy,
    /// validated. Returns the object of the response.
    ///
    /// # Errors
    /// The refusal of the server; the request is unchanged then.
    pub fn complete(&self, request: &mut Request) -> Result<Document, Refused> {
        let resource = Arc::clone(&request.resource);
        let api_version = resource.object_kind.api_version();
        let kind = Kind {
            api_version: &api_version,
            name: &resource.object_kind.kind,
        };
        if !self.knows(kind.api_version, kind.name) {
            return Ok(request.object.clone());
        }
        let of = |operation| target(request, operation);
        let seen = match request.operation {
            Operation::Create => {
                let mut decoded = decode_changed(kind, request.object.root(), &self.cluster)?;
                locate(&mut decoded, of(Writes::Create), &self.cluster)?;
                finish(decoded, None, of(Writes::Create), &self.cluster)?
            }
            Operation::Update => {
                let (new, old) = with_version(&request.object, &scale::stored(request));
                let mut decoded = decode_changed(kind, new.root(), &self.cluster)?;
                let stored = stored_object(kind, Raw::from(&old), of(Writes::Update), &self.cluster)?;
                locate(&mut decoded, of(Writes::Update), &self.cluster)?;
                finish(decoded, Some(&stored), of(Writes::Update), &self.cluster)?
            }
            Operation::Delete | Operation::Connect => return Ok(request.object.clone()),
        };
        let object = seen.object;
        if request.operation == Operation::Create && request.name.is_empty() {
            let name = object.root().at(&["metadata", "name"]).and_then(Value::as_str);
            name.unwrap_or_default().clone_into(&mut request.name);
        }
        request.object = object;
        Ok(seen.stored.unwrap_or_else(|| request.object.clone()))
    }

    /// Replaces the objects of a request by those that admission sees, and a missing name and namespace.
    ///
    /// CREATE: the object, completed and validated. UPDATE: the old object completed as if it had been created, the new one
    /// with what the server keeps of it. DELETE: the stored object. Other requests stay as they are.
    ///
    /// # Errors
    /// The refusal of the server; the request is unchanged then.
    pub fn admit(&self, request: &mut Request) -> Result<(), Refused> {
        let resource = Arc::clone(&request.resource);
        let api_version = resource.object_kind.api_version();
        let kind = Kind {
            api_version: &api_version,
            name: &resource.object_kind.kind,
        };
        if !self.knows(kind.api_version, kind.name) {
            return Ok(());
        }
        let of = |operation| target(request, operation);
        let (object, old_object) = match request.operation {
            Operation::Create => {
                let sent = of(Writes::Create);
                let complete = || {
                    let raw = Raw::from(&request.object);
                    Ok(normalise(kind, raw, None, sent, &self.cluster, false)?.object)
                };
                let seen = match &self.memo {
                    Some(memo) => memo.completed(kind, sent, &request.object, complete)?,
                    None => complete()?,
                };
                (Some(seen), None)
            }
            Operation::Update => {
                let (new, old) = with_version(&request.object, &scale::stored(request));
                let mut decoded = decode(kind, Raw::from(&new), &self.cluster)?;
                let stored = stored_object(kind, Raw::from(&old), of(Writes::Update), &self.cluster)?;
                same_identity(&decoded, &stored)?;
                plugins(&mut decoded, of(Writes::Update), &self.cluster)?;
                let seen = finish(decoded, Some(&stored), of(Writes::Update), &self.cluster)?;
                (Some(seen.object), Some(stored.object()))
            }
            Operation::Delete => {
                // What is stored was valid when it was created; its version came later.
                let created = without_version(&request.old_object);
                normalise(
                    kind,
                    Raw::from(&created),
                    None,
                    of(Writes::Create),
                    &self.cluster,
                    false,
                )?;
                let raw = Raw::from(&request.old_object);
                let stored = stored_object(kind, raw, of(Writes::Create), &self.cluster)?;
                (None, Some(stored.object()))
            }
            Operation::Connect => return Ok(()),
        };
        let metadata = |field: &str| {
            let seen = object.as_ref().or(old_object.as_ref())?;
            seen.root()
                .at(&["metadata", field])
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        if resource.namespaced && request.namespace.is_empty() {
            request.namespace = metadata("namespace").unwrap_or_default();
        }
        // A generated name is known to admission.
        if request.operation == Operation::Create && request.name.is_empty() {
            request.name = metadata("name").unwrap_or_default();
        }
        if let Some(object) = object {
            request.object = object;
        }
        if let Some(old_object) = old_object {
            request.old_object = old_object;
        }
        Ok(())
    }
}

/// The parts of a request outside its body. A new object names itself, but not its subresource.
fn target(request: &Request, operation: Writes) -> Target<'_> {
    let resource = &request.resource;
    let names_parent = operation == Writes::Create && !resource.subresource.is_empty();
    Target {
        operation,
        namespace: if resource.namespaced { &request.namespace } else { "" },
        name: if names_parent { &request.name } else { "" },
        subresource: &resource.subresource,
        dry_run: request.dry_run,
    }
}

fn version(object: &Document) -> Option<&str> {
    let version = object.root().at(&["metadata", "resourceVersion"]);
    version.and_then(Value::as_str).filter(|version| !version.is_empty())
}

/// Both objects of an UPDATE with the version that a stored object has, and that some kinds demand of an update.
fn with_version(new: &Document, old: &Document) -> (Document, Document) {
    let wanted = version(old).or_else(|| version(new)).unwrap_or("1");
    let complete = |object: &Document| {
        if version(object).is_some() {
            return object.clone();
        }
        let mut json = object.root().to_serde();
        if let Some(metadata) = json.get_mut("metadata").and_then(|metadata| metadata.as_object_mut()) {
            metadata.insert("resourceVersion".to_owned(), wanted.into());
        }
        Document::from(&json)
    };
    (complete(new), complete(old))
}

fn without_version(object: &Document) -> Document {
    if version(object).is_none() {
        return object.clone();
    }
    let mut json = object.root().to_serde();
    if let Some(metadata) = json.get_mut("metadata").and_then(|metadata| metadata.as_object_mut()) {
        metadata.remove("resourceVersion");
    }
    Document::from(&json)
}
