//! A request as Kyverno's expressions see it.
//!
//! Upstream counterpart: the attributes that `pkg/engine/handlers/validation/validate_cel.go` makes for classic rules
//! and `pkg/cel/engine` for CEL policies; the two differ in subresources, names and absent objects.

use std::{borrow::Cow, cell::OnceCell, sync::Arc};

use super::{
    classic::{context::Start, values::Values},
    lens::{Lens, Namespaces, Numbers},
};
use kyvtest_cel::{admission::Inputs, host::Attributes};
use kyvtest_go_compat::value::{Builder, Data, Document, Value};
use kyvtest_model::kube::{
    Concrete, Description, Discovery, GroupVersionKind, Namespace, Operation, Request, Resource, World,
    decoded_numbers, describe, namespace_object, webhook_numbers,
};

/// A request, its cluster, and the documents that expressions read, built on first use.
#[derive(Debug)]
pub struct Input<'r> {
    pub request: &'r Request,
    /// The cluster around it.
    pub world: &'r World,
    /// What the cluster serves.
    pub discovery: &'r Discovery,
    pub lens: Lens,
    /// The resource of the request, if the webhook lists another version of it.
    requested: Option<Arc<Resource>>,
    namespace: Option<Namespace>,
    minimal: OnceCell<Namespace>,
    classic: OnceCell<Documents>,
    policy: OnceCell<Documents>,
    webhook: OnceCell<Documents>,
    sent: OnceCell<Documents>,
    values: Option<&'r dyn Values>,
    resources: OnceCell<(Data, Data)>,
    json: OnceCell<Data>,
}

impl Start for Input<'_> {
    fn document(&self) -> &Data {
        self.json_context()
    }
}

/// The values of the variables of an expression.
#[derive(Debug)]
pub(super) struct Documents {
    pub(super) object: Document,
    pub(super) old_object: Document,
    pub(super) request: Document,
    pub(super) namespace: Document,
}

impl Documents {
    /// `object`, `oldObject`, `request` and `namespaceObject`.
    pub(super) fn values(&self) -> [Value<'_>; 4] {
        [&self.object, &self.old_object, &self.request, &self.namespace].map(Document::root)
    }

    pub(super) fn inputs<'a>(&'a self, params: Value<'a>) -> Inputs<'a> {
        let [object, old_object, request, namespace] = self.values();
        Inputs {
            object,
            old_object,
            request,
            condition_request: request,
            namespace,
            params,
        }
    }
}

impl<'r> Input<'r> {
    /// A request through a lens.
    pub fn new(request: &'r Request, world: &'r World, discovery: &'r Discovery, lens: Lens) -> Self {
        let name = request.namespace.as_str();
        let stored = world.namespace(name).cloned();
        let namespace = match lens.namespaces {
            Namespaces::Stored if !name.is_empty() => {
                // A Namespace that is updated or deleted is stored, whether it was described or not.
                let own = || {
                    let old = &request.old_object;
                    let is_own = request.cell().is_core_namespace() && !old.root().is_null();
                    is_own.then(|| Namespace { object: old.clone() })
                };
                Some(stored.or_else(own).unwrap_or_else(|| world.minimal_namespace(name)))
            }
            Namespaces::Stored | Namespaces::Described => stored,
        };
        Self {
            request,
            world,
            discovery,
            lens,
            requested: None,
            namespace,
            minimal: OnceCell::new(),
            classic: OnceCell::new(),
            policy: OnceCell::new(),
            webhook: OnceCell::new(),
            sent: OnceCell::new(),
            values: None,
            resources: OnceCell::new(),
            json: OnceCell::new(),
        }
    }

    /// Marks the request as converted from another version, which CEL policies see as well.
    pub(crate) fn converted_from(mut self, requested: Arc<Resource>) -> Self {
        self.requested = Some(requested);
        self
    }

    /// The same with what a suite gives to classic rules.
    pub(crate) fn with_values(mut self, values: &'r dyn Values) -> Self {
        self.values = Some(values);
        self
    }

    /// What a suite gives to classic rules.
    pub(super) fn values(&self) -> Option<&'r dyn Values> {
        self.values
    }

    /// The objects as classic rules see them: the new one and the old one, null if absent.
    pub(super) fn resources(&self) -> &(Data, Data) {
        self.resources.get_or_init(|| {
            let kind = self.request.resource.gvk();
            let data = |object: &Document| Data::from(self.object(object, &kind).root());
            (data(&self.request.object), data(&self.request.old_object))
        })
    }

    /// The document that variables of classic rules are looked up in, before any rule is evaluated.
    pub(super) fn json_context(&self) -> &Data {
        self.json.get_or_init(|| super::classic::request_context(self))
    }

    /// The facts that matching of classic rules reads.
    pub fn facts(&self) -> Concrete<'_> {
        Concrete::new(self.request, self.namespace.as_ref())
    }

    /// The facts that matching of CEL policies reads: an unknown namespace has its name as a label
    /// (`pkg/cel/matching/predicates/namespace`).
    pub(super) fn cel_facts(&self) -> Concrete<'_> {
        let name = self.request.namespace.as_str();
        let minimal = || self.minimal.get_or_init(|| self.world.minimal_namespace(name));
        let namespace = self.namespace.as_ref();
        Concrete::new(self.request, namespace.or_else(|| (!name.is_empty()).then(minimal)))
    }

    /// The namespace that the request is in, if it is known.
    pub fn namespace(&self) -> Option<&Namespace> {
        self.namespace.as_ref()
    }

    fn is_namespace(&self) -> bool {
        let resource = &self.request.resource;
        resource.group.is_empty() && resource.version == "v1" && resource.kind == "Namespace"
    }

    /// A string in the metadata of the object that Kyverno evaluates.
    fn metadata(&self, field: &str) -> &str {
        let subject = self.request.subject().map_or(Value::Null, |(_, value)| value);
        let text = subject.at(&["metadata", field]).and_then(Value::as_str);
        text.unwrap_or_default()
    }

    /// The namespace of the object; empty for Namespaces.
    pub(super) fn object_namespace(&self) -> &str {
        if self.is_namespace() {
            ""
        } else if self.lens.converts_objects && !self.request.namespace.is_empty() {
            &self.request.namespace
        } else {
            self.metadata("namespace")
        }
    }

    /// The attributes that `authorizer.requestResource` of a classic rule checks: the kind of the request, regardless
    /// of the groups and resources in the expression, see [`super::cel_rule`].
    pub(super) fn resource_attributes(&self) -> Attributes {
        self.request.attributes(&self.request.resource)
    }

    /// What expressions of a classic rule see: the parent's kind, no subresource, the object's own name.
    pub(super) fn classic(&self) -> &Documents {
        self.classic.get_or_init(|| {
            let request = self.request;
            let kind = request.resource.gvk();
            let namespace = self.object_namespace();
            Documents {
                object: self.object(&request.object, &kind),
                old_object: self.object(&request.old_object, &kind),
                request: describe(&Description {
                    kind: &kind,
                    resource: self.lens.request_resource.then(|| request.resource.gvr()),
                    requested: None,
                    subresource: "",
                    name: self.metadata("name"),
                    namespace,
                    operation: request.operation,
                    user: &request.user,
                    objects: [Value::Null; 2],
                    dry_run: false,
                    options: Value::Null,
                }),
                namespace: match (self.lens.namespaces, &self.namespace) {
                    _ if namespace.is_empty() => Document::null(),
                    (Namespaces::Stored, Some(stored)) => namespace_object(stored.object.root()),
                    _ => {
                        let named = Namespace::with_labels(namespace, []);
                        let mut named = named.object.root().to_serde();
                        if let Some(metadata) = named.get_mut("metadata").and_then(|m| m.as_object_mut()) {
                            metadata.remove("labels");
                        }
                        namespace_object(Document::from(&named).root())
                    }
                },
            }
        })
    }

    /// The documents for match conditions when the engine evaluates them again: absent objects have only their kind
    /// (`pkg/engine/internal/match.go`).
    pub(super) fn webhook(&self) -> &Documents {
        self.webhook.get_or_init(|| {
            let request = self.request;
            let kind = request.resource.gvk();
            let present = |object: &Document| {
                let object = self.object(object, &kind);
                if object.root().is_null() {
                    typed_map(&kind)
                } else {
                    object
                }
            };
            let text = |field: &str| {
                let text = request.object.root().at(&["metadata", field]).and_then(Value::as_str);
                text.unwrap_or_default()
            };
            let namespace = if request.object.root().is_null() {
                ""
            } else {
                self.object_namespace()
            };
            Documents {
                object: present(&request.object),
                old_object: present(&request.old_object),
                request: describe(&Description {
                    kind: &kind,
                    resource: self.lens.request_resource.then(|| request.resource.gvr()),
                    requested: None,
                    subresource: &request.resource.subresource,
                    name: text("name"),
                    namespace,
                    operation: request.operation,
                    user: &request.user,
                    objects: [Value::Null; 2],
                    dry_run: false,
                    options: Value::Null,
                }),
                namespace: Document::null(),
            }
        })
    }

    /// What match conditions of a webhook see: the request as the API server describes it, absent objects as null
    /// (`plugin/webhook/matchconditions` of the API server).
    pub(super) fn as_sent(&self) -> &Documents {
        self.sent.get_or_init(|| {
            let request = self.request;
            let kind = &request.resource.object_kind;
            let requested = self.requested.as_deref().unwrap_or(&request.resource);
            Documents {
                object: with_kind(decoded_numbers(&request.object, kind), kind),
                old_object: with_kind(decoded_numbers(&request.old_object, kind), kind),
                request: describe(&Description {
                    kind,
                    resource: Some(requested.gvr()),
                    requested: Some(requested),
                    subresource: &request.resource.subresource,
                    name: if request.collection { "" } else { &request.name },
                    namespace: &request.namespace,
                    operation: request.operation,
                    user: &request.user,
                    objects: [Value::Null; 2],
                    dry_run: request.dry_run,
                    options: request.options.root(),
                }),
                namespace: Document::null(),
            }
        })
    }

    /// What `authorizer.requestResource` of a webhook's match condition is about: the request as it was sent.
    pub(super) fn sent_attributes(&self) -> Attributes {
        let resource = self.requested.as_deref().unwrap_or(&self.request.resource);
        self.request.attributes(resource)
    }

    /// What expressions of a CEL policy see: the request as it was sent, and absent objects as empty maps.
    pub(super) fn policy(&self) -> &Documents {
        self.policy.get_or_init(|| {
            let request = self.request;
            let kind = &request.resource.object_kind;
            let present = |object: &Document| {
                let object = self.object(object, kind);
                if object.root().is_null() { empty_map() } else { object }
            };
            let objects = [&request.object, &request.old_object].map(|object| self.numbers(object));
            Documents {
                object: present(&request.object),
                old_object: present(&request.old_object),
                request: self.admission_request([objects[0].root(), objects[1].root()]),
                namespace: self.policy_namespace(self.policy_namespace_name()),
            }
        })
    }

    /// The AdmissionRequest with the given objects.
    fn admission_request(&self, objects: [Value<'_>; 2]) -> Document {
        let request = self.request;
        describe(&Description {
            kind: &request.resource.object_kind,
            resource: Some(request.resource.gvr()),
            requested: self.requested.as_deref(),
            subresource: &request.resource.subresource,
            name: if request.collection { "" } else { &request.name },
            namespace: self.policy_namespace_name(),
            operation: request.operation,
            user: &request.user,
            objects,
            dry_run: request.dry_run,
            options: request.options.root(),
        })
    }

    /// The AdmissionRequest as variables of classic rules see it. Objects that [`Input::resources`] has as they were sent are
    /// shared with it.
    pub(super) fn request_data(&self) -> Data {
        let request = self.request;
        let kind = request.resource.gvk();
        let (new, old) = self.resources();
        let shared = |object: &Document, data: &Data| {
            let sent = self.numbers(object);
            if self.object(object, &kind).is_copy_of(&sent) {
                data.clone()
            } else {
                Data::from(sent.root())
            }
        };
        let objects = [
            ("object".into(), shared(&request.object, new)),
            ("oldObject".into(), shared(&request.old_object, old)),
        ];
        let rest = Data::from(self.admission_request([Value::Null; 2]).root());
        let rest = rest.as_map().cloned().unwrap_or_default();
        rest.into_iter().chain(objects).collect()
    }

    /// An object with numbers as the lens shows them.
    fn numbers<'o>(&self, object: &'o Document) -> Cow<'o, Document> {
        match self.lens.numbers {
            Numbers::Decoded => webhook_numbers(object),
            Numbers::Doubles => Cow::Borrowed(object),
        }
    }

    /// `request.namespace` of a CEL policy.
    fn policy_namespace_name(&self) -> &str {
        if self.is_namespace() && !self.lens.namespace_of_namespaces {
            ""
        } else {
            &self.request.namespace
        }
    }

    /// `namespaceObject` of a CEL policy. For a Namespace itself it is the stored one, which a new one does not have.
    fn policy_namespace(&self, namespace: &str) -> Document {
        if namespace.is_empty() {
            return Document::null();
        }
        if self.is_namespace() && self.lens.namespaces == Namespaces::Stored {
            return match self.request.operation {
                Operation::Create => Document::null(),
                _ if self.request.old_object.root().is_null() => Document::null(),
                _ => namespace_object(self.request.old_object.root()),
            };
        }
        match &self.namespace {
            Some(stored) => namespace_object(stored.object.root()),
            None => Document::null(),
        }
    }

    /// An object with the kind that Kyverno gives it, and with numbers as the lens shows them; null stays null.
    fn object(&self, object: &Document, kind: &GroupVersionKind) -> Document {
        let object = &self.numbers(object);
        let root = object.root();
        let Some(map) = root.as_map() else {
            return object.clone().into_owned();
        };
        let text = |key: &str| root.get(key).and_then(Value::as_str);
        let api_version = kind.api_version();
        let doubles = self.lens.numbers == Numbers::Doubles;
        let namespace = (self.lens.converts_objects && !self.request.namespace.is_empty() && kind.kind != "Namespace")
            .then_some(self.request.namespace.as_str());
        let own = root.at(&["metadata", "namespace"]).and_then(Value::as_str);
        let same = text("apiVersion") == Some(api_version.as_str()) && text("kind") == Some(kind.kind.as_str());
        if same && !doubles && (namespace.is_none() || namespace == own) {
            return object.clone().into_owned();
        }
        let mut builder = Builder::new();
        builder.begin_map();
        builder.key("apiVersion");
        builder.string(&api_version);
        builder.key("kind");
        builder.string(&kind.kind);
        let mut named = namespace.is_none();
        for (key, value) in map.iter() {
            match (key.text(), value, namespace) {
                ("apiVersion" | "kind", _, _) => {}
                ("metadata", Value::Map(metadata), Some(namespace)) => {
                    named = true;
                    builder.key("metadata");
                    builder.begin_map();
                    for (key, value) in metadata.iter().filter(|(key, _)| key.text() != "namespace") {
                        builder.key(key.text());
                        copy(&mut builder, value, doubles);
                    }
                    builder.key("namespace");
                    builder.string(namespace);
                    builder.end();
                }
                (key, value, _) => {
                    builder.key(key);
                    copy(&mut builder, value, doubles);
                }
            }
        }
        if let (false, Some(namespace)) = (named, namespace) {
            builder.key("metadata");
            builder.begin_map();
            builder.key("namespace");
            builder.string(namespace);
            builder.end();
        }
        builder.end();
        builder.finish()
    }
}

/// Returns an object with the version that it is converted to; null stays null.
fn with_kind(object: Cow<'_, Document>, kind: &GroupVersionKind) -> Document {
    let root = object.root();
    let api_version = kind.api_version();
    let same = root.get("apiVersion").and_then(Value::as_str) == Some(api_version.as_str());
    let Some(map) = root.as_map().filter(|_| !same) else {
        return object.into_owned();
    };
    let mut builder = Builder::new();
    builder.begin_map();
    builder.key("apiVersion");
    builder.string(&api_version);
    builder.key("kind");
    builder.string(&kind.kind);
    for (key, value) in map
        .iter()
        .filter(|(key, _)| !matches!(key.text(), "apiVersion" | "kind"))
    {
        builder.key(key.text());
        builder.value(value);
    }
    builder.end();
    builder.finish()
}

/// Copies a value; `doubles` converts integers to doubles.
fn copy(builder: &mut Builder, value: Value<'_>, doubles: bool) {
    if doubles {
        builder.value_with_doubles(value);
    } else {
        builder.value(value);
    }
}

fn empty_map() -> Document {
    let mut builder = Builder::new();
    builder.begin_map();
    builder.end();
    builder.finish()
}

fn typed_map(kind: &GroupVersionKind) -> Document {
    let mut builder = Builder::new();
    builder.begin_map();
    builder.key("apiVersion");
    builder.string(&kind.api_version());
    builder.key("kind");
    builder.string(&kind.kind);
    builder.end();
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(lens: Lens, read: impl FnOnce(&Input<'_>)) {
        let discovery = Discovery::kubernetes();
        let deployments = discovery.by_object("apps/v1", "Deployment").expect("deployments");
        let object = serde_json::json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "d", "namespace": "a"}, "spec": {"replicas": 3, "list": [1, "x"]},
        });
        let request = Request::about(Operation::Create, Arc::clone(deployments), Document::from(&object));
        let world = World::new();
        read(&Input::new(&request, &world, &discovery, lens));
    }

    #[test]
    fn the_command_line_shows_doubles_and_names_of_namespaces() {
        input(Lens::CLI, |input| {
            let classic = input.classic();
            assert!(matches!(
                classic.object.root().at(&["spec", "replicas"]),
                Some(Value::Double(3.0))
            ));
            let namespace = classic.namespace.root().to_serde();
            assert_eq!(
                namespace,
                serde_json::json!({"metadata": {"name": "a"}, "spec": {}, "status": {}})
            );
            let resource = classic.request.root().at(&["resource", "resource"]);
            assert_eq!(resource.and_then(Value::as_str), Some(""));
            let policy = input.policy();
            assert!(matches!(
                policy.object.root().at(&["spec", "replicas"]),
                Some(Value::Double(3.0))
            ));
            let again = policy.request.root().at(&["object", "spec", "replicas"]);
            assert!(matches!(again, Some(Value::Int(3))));
            assert!(policy.namespace.root().is_null());
            assert_eq!(
                policy.request.root().get("userInfo").map(Value::to_serde),
                Some(serde_json::json!({}))
            );
        });
    }

    #[test]
    fn a_cluster_shows_what_it_stores() {
        input(Lens::CLUSTER, |input| {
            let classic = input.classic();
            assert!(matches!(
                classic.object.root().at(&["spec", "replicas"]),
                Some(Value::Int(3))
            ));
            assert!(classic.old_object.root().is_null());
            let resource = classic.request.root().at(&["resource", "resource"]);
            assert_eq!(resource.and_then(Value::as_str), Some("deployments"));
            let policy = input.policy();
            assert_eq!(policy.old_object.root().to_serde(), serde_json::json!({}));
            let labels = policy.namespace.root().at(&["metadata", "labels"]);
            assert_eq!(
                labels.map(Value::to_serde),
                Some(serde_json::json!({"kubernetes.io/metadata.name": "a"}))
            );
        });
    }
}
