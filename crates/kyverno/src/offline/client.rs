//! The private client of generate rules in `kyverno test`: it knows the trigger and the clone sources, and nothing else.
//!
//! Upstream counterpart: `initializeMockController` of `cmd/cli/kubectl-kyverno/processor/generate.go`, `NewFakeClient` of
//! `pkg/clients/dclient/fake.go` and the dynamic fake client of `k8s.io/client-go` (1.19). Objects are filed under the English
//! plural of their kind, and looked up under the kind with an `s`: sources with another plural are never found.
//!
//! Known deviation: if objects of two groups have one plural, upstream picks one of them at random; here the first counts.

use std::collections::{BTreeMap, BTreeSet};

use super::objects::{REGISTERED, selector};
use crate::generate::{Client, ClientError, ObjectRef};
use kyvtest_go_compat::value::{Data, Document, Value};
use kyvtest_model::{
    kube::{GroupVersionResource, LabelSelector, guess_plural, parse_api_version},
    policy::split_kind,
};

/// Objects by namespace and name.
type Objects = BTreeMap<(String, String), Data>;

#[derive(Debug)]
pub(super) struct FakeClient {
    /// The resources that the client's discovery knows.
    registered: Vec<GroupVersionResource>,
    /// The resources that can be listed.
    listed: BTreeSet<GroupVersionResource>,
    objects: BTreeMap<GroupVersionResource, Objects>,
}

fn resource(group: &str, version: &str, plural: &str) -> GroupVersionResource {
    GroupVersionResource {
        group: group.to_owned(),
        version: version.to_owned(),
        resource: plural.to_owned(),
    }
}

/// `deployments.apps "name"`.
fn named(resource: &GroupVersionResource, name: &str) -> String {
    let dot = if resource.group.is_empty() { "" } else { "." };
    format!("{}{dot}{} {name:?}", resource.resource, resource.group)
}

impl FakeClient {
    /// Fills a client. `clone_kinds` are the kinds of all `cloneList`s of the policy, as written.
    ///
    /// # Errors
    /// The text with which upstream panics.
    pub(super) fn new<'d>(
        objects: impl IntoIterator<Item = Value<'d>>,
        clone_kinds: &[String],
    ) -> Result<Self, String> {
        let mut client = Self {
            registered: Vec::new(),
            listed: BTreeSet::new(),
            objects: BTreeMap::new(),
        };
        for object in objects {
            let text = |path: &[&str]| object.at(path).and_then(Value::as_str).unwrap_or_default();
            let (group, version) = parse_api_version(text(&["apiVersion"]));
            let kind = text(&["kind"]);
            if version.is_empty() {
                let text = "version is required on all types: /, Kind= *unstructured.Unstructured";
                return Err(text.to_owned());
            }
            let filed = resource(group, version, &guess_plural(kind));
            let place = (
                text(&["metadata", "namespace"]).to_owned(),
                text(&["metadata", "name"]).to_owned(),
            );
            client.listed.insert(filed.clone());
            let of_kind = client.objects.entry(filed.clone()).or_default();
            if of_kind.contains_key(&place) {
                return Err(format!("{} already exists", named(&filed, &place.1)));
            }
            of_kind.insert(place, Data::from(object));
            let known = resource(group, version, &format!("{}s", kind.to_lowercase()));
            client.registered.push(known);
        }
        let built_in = REGISTERED.iter();
        let built_in = built_in.map(|(group, version, plural)| resource(group, version, plural));
        client.registered.extend(built_in);
        for written in clone_kinds {
            let (api_version, kind) = split_kind(written);
            if !api_version.is_empty() && !kind.is_empty() && api_version.matches('/').count() < 2 {
                let (group, version) = parse_api_version(&api_version);
                let listed = resource(group, version, &format!("{}s", kind.to_lowercase()));
                client.listed.insert(listed);
            }
        }
        Ok(client)
    }

    /// The resource of a kind; groups and versions do not count. Unknown kinds share an empty one.
    fn resource(&self, api_version: &str, kind: &str) -> GroupVersionResource {
        let (api_version, kind) = if api_version.is_empty() {
            split_kind(kind)
        } else {
            (api_version.to_owned(), kind.to_owned())
        };
        let nothing = || resource("", "", "");
        if api_version.matches('/').count() > 1 {
            return nothing();
        }
        let plural = format!("{}s", kind.to_lowercase());
        let mut registered = self.registered.iter();
        let found = registered.find(|resource| resource.resource == plural);
        found.cloned().unwrap_or_else(nothing)
    }

    fn list_panic(resource: &GroupVersionResource) -> ClientError {
        ClientError::Panic(format!(
            "coding error: you must register resource to list kind for every resource you're going to LIST: {}/{}, \
             Resource={}",
            resource.group, resource.version, resource.resource
        ))
    }

    /// The answer to a path of the API: an object, or a list with `items`.
    pub(super) fn by_path(&self, api_version: &str, kind: &str, place: (&str, &str)) -> Result<Data, ClientError> {
        let (namespace, name) = place;
        if name.is_empty() {
            let items: Data = self
                .list(api_version, kind, namespace, &Data::Null)?
                .into_iter()
                .collect();
            return Ok([("items".into(), items)].into_iter().collect());
        }
        self.get(&ObjectRef {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

impl Client for FakeClient {
    fn get(&self, object: &ObjectRef) -> Result<Data, ClientError> {
        if object.name.is_empty() {
            return Err(ClientError::Other("name is required".to_owned()));
        }
        let resource = self.resource(&object.api_version, &object.kind);
        let found = self.objects.get(&resource);
        let found = found.and_then(|objects| objects.get(&(object.namespace.clone(), object.name.clone())));
        let missing = || ClientError::NotFound(format!("{} not found", named(&resource, &object.name)));
        found.cloned().ok_or_else(missing)
    }

    fn list(&self, api_version: &str, kind: &str, namespace: &str, labels: &Data) -> Result<Vec<Data>, ClientError> {
        let resource = self.resource(api_version, kind);
        if !self.listed.contains(&resource) {
            return Err(Self::list_panic(&resource));
        }
        let selector = selector(labels);
        if let Some(selector) = &selector {
            // Upstream prints a selector and parses the text again; that of an empty one is not a selector.
            if selector.error().is_some() {
                return Err(ClientError::Panic("invalid selector \"<error>\"".to_owned()));
            }
            if selector.is_empty() {
                let text = "invalid selector \"<none>\": found '<', expected: !, identifier, or 'end of string'";
                return Err(ClientError::Panic(text.to_owned()));
            }
        }
        let selects = |object: &Document| {
            let selector = selector.as_ref();
            selector.is_none_or(|selector: &LabelSelector| selector.selects(object.root()))
        };
        let objects = self.objects.get(&resource).into_iter().flatten();
        Ok(objects
            .filter(|((of, _), _)| namespace.is_empty() || of == namespace)
            .filter(|(_, object)| selects(&object.to_document()))
            .map(|(_, object)| object.clone())
            .collect())
    }

    fn create(&mut self, at: &ObjectRef, object: Data) -> Result<(), ClientError> {
        let resource = self.resource(&at.api_version, &at.kind);
        let objects = self.objects.entry(resource.clone()).or_default();
        let place = (at.namespace.clone(), at.name.clone());
        if objects.contains_key(&place) {
            let text = format!("{} already exists", named(&resource, &at.name));
            return Err(ClientError::AlreadyExists(text));
        }
        objects.insert(place, object);
        Ok(())
    }

    fn update(&mut self, at: &ObjectRef, object: Data) -> Result<(), ClientError> {
        let resource = self.resource(&at.api_version, &at.kind);
        let objects = self.objects.entry(resource.clone()).or_default();
        match objects.get_mut(&(at.namespace.clone(), at.name.clone())) {
            Some(stored) => {
                *stored = object;
                Ok(())
            }
            None => Err(ClientError::NotFound(format!(
                "{} not found",
                named(&resource, &at.name)
            ))),
        }
    }

    fn is_namespaced(&self, api_version: &str, kind: &str) -> bool {
        // The fake discovery says of every known kind that it is cluster-wide.
        self.resource(api_version, kind).resource.is_empty()
    }
}
