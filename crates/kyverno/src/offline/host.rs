//! The world outside of expressions in a test: its mocks and objects, with the clock and the random numbers of the caller.
//!
//! Upstream counterpart: `NewContextProvider` of `cmd/cli/kubectl-kyverno/processor`, `pkg/cel/libs/{context,fake_context}.go`
//! and `DClient` of `ext/cluster/fake.go` (1.19). With cluster resources upstream asks a fake client and knows no mocks;
//! without them it asks the mocks of the context file.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use super::{case::Case, registry::Registry, resource::Resource};
use kyvtest_cel::host::{Attestation, Attributes, Decision, Gvr, Host, HostError, HostResult, HttpRequest, Mocks};
use kyvtest_go_compat::value::{Builder, Data, Document, Map, Value};
use kyvtest_model::kube::{Discovery, GroupVersionKind, guess_plural};

/// Who asks the world outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    /// Context entries of classic rules.
    Classic,
    /// Expressions of ValidatingPolicies, MutatingPolicies and GeneratingPolicies.
    Admission,
    /// Expressions of DeletingPolicies and ImageValidatingPolicies, which do not see answers to HTTP calls.
    Unmocked,
    /// Policies of a cluster, which has its own objects and mocks.
    Request,
}

pub(super) struct CaseHost<'b> {
    base: &'b dyn Host,
    mocks: Mocks,
    cluster: Option<RefCell<FakeCluster>>,
    discovery: Discovery,
    asker: Asker,
    registry: Registry<'b>,
}

impl std::fmt::Debug for CaseHost<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaseHost")
            .field("asker", &self.asker)
            .finish_non_exhaustive()
    }
}

/// The resource that the command's own tables have for an object.
fn resource_of(discovery: &Discovery, object: Value<'_>) -> Gvr {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let kind = GroupVersionKind::from_api_version(text("apiVersion"), text("kind"));
    let known = discovery.mapped(text("apiVersion"), text("kind")).cloned();
    let served = known.map_or_else(|| Discovery::guess(&kind, true).gvr(), |served| served.gvr());
    Gvr {
        group: served.group,
        version: served.version,
        resource: served.resource,
    }
}

impl<'b> CaseHost<'b> {
    pub(super) fn new(case: &'b Case, base: &'b dyn Host, asker: Asker) -> Self {
        let surroundings = &case.surroundings;
        let discovery = Discovery::kubernetes();
        let mut mocks = Mocks::new();
        for object in &surroundings.described {
            mocks.add_resource(resource_of(&discovery, object.root()), object.clone());
        }
        let cluster = surroundings.cluster.as_ref().map(|objects| {
            let suite = case.resources.iter().chain(&case.targets);
            let suite = suite.map(|resource: &Resource| &*resource.object);
            RefCell::new(FakeCluster::new(suite.chain(objects)))
        });
        // The provider of cluster mode is made before the mocks are read.
        if cluster.is_none() || asker == Asker::Classic {
            surroundings.add_data(&mut mocks);
            if asker != Asker::Unmocked {
                surroundings.add_calls(&mut mocks);
            }
        }
        Self {
            base,
            mocks,
            cluster,
            discovery,
            asker,
            registry: Registry::new(&surroundings.image_mocks),
        }
    }

    /// Who answers for everything but registries, outside of cluster mode.
    fn lookups(&self) -> &dyn Host {
        match self.asker {
            Asker::Request => self.base,
            Asker::Classic | Asker::Admission | Asker::Unmocked => &self.mocks,
        }
    }

    /// Who answers for registries of images.
    pub(super) fn registry(&self) -> &Registry<'b> {
        &self.registry
    }
}

impl Host for CaseHost<'_> {
    fn resource_get(&self, api_version: &str, resource: &str, namespace: &str, name: &str) -> HostResult {
        match &self.cluster {
            Some(cluster) => cluster.borrow().get(api_version, resource, (namespace, name)),
            None => self.lookups().resource_get(api_version, resource, namespace, name),
        }
    }

    fn resource_list(
        &self,
        api_version: &str,
        resource: &str,
        namespace: &str,
        labels: &[(String, String)],
    ) -> HostResult {
        match &self.cluster {
            Some(cluster) => cluster.borrow().list(api_version, resource, namespace, labels),
            None => self.lookups().resource_list(api_version, resource, namespace, labels),
        }
    }

    fn resource_post(&self, api_version: &str, resource: &str, namespace: &str, body: Value<'_>) -> HostResult {
        match &self.cluster {
            Some(cluster) => cluster.borrow_mut().create(api_version, resource, namespace, body),
            None => self.lookups().resource_post(api_version, resource, namespace, body),
        }
    }

    fn resource_of_kind(&self, api_version: &str, kind: &str) -> Result<Gvr, HostError> {
        if self.cluster.is_none() {
            return self.lookups().resource_of_kind(api_version, kind);
        }
        match self.discovery.by_object(api_version, kind) {
            Some(served) => {
                let served = served.gvr();
                Ok(Gvr {
                    group: served.group,
                    version: served.version,
                    resource: served.resource,
                })
            }
            None => Err(format!("no matches for kind {kind:?} in version {api_version:?}").into()),
        }
    }

    fn global_context(&self, name: &str, projection: &str) -> HostResult {
        self.lookups().global_context(name, projection)
    }

    fn http(&self, request: &HttpRequest<'_>) -> HostResult {
        let answer = self.lookups().http(request);
        if self.asker == Asker::Request {
            return answer;
        }
        // Without a mock upstream makes the call.
        answer.map_err(|_| {
            let (method, url) = (title(request.method), request.url);
            let host = url.split_once("://").map_or(url, |(_, rest)| rest);
            let host = host.split(['/', ':', '?']).next().unwrap_or_default();
            format!("request failed: {method} {url:?}: failed to resolve {host}: lookup {host}: no network").into()
        })
    }

    fn image_metadata(&self, reference: &str) -> HostResult {
        self.lookups().image_metadata(reference)
    }

    fn fetch_image(&self, reference: &str) -> HostResult {
        self.registry
            .fetch(reference, self.lookups().image_metadata(reference).ok())
    }

    fn verify_image(
        &self,
        reference: &str,
        attestation: Option<Attestation<'_>>,
        attestors: &[Document],
    ) -> Result<i64, String> {
        self.registry.count(reference, attestation, attestors)
    }

    fn image_payload(&self, reference: &str, attestation: Attestation<'_>) -> HostResult {
        self.registry.payload(reference, attestation)
    }

    fn authorize(&self, attributes: &Attributes) -> Option<Decision> {
        self.base.authorize(attributes)
    }

    fn ambient(&self) -> Option<&dyn Host> {
        Some(self.base)
    }
}

/// A method as Go's HTTP client names it in errors: `Get`.
fn title(method: &str) -> String {
    let mut letters = method.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first
        .into_iter()
        .chain(letters.map(|c| c.to_ascii_lowercase()))
        .collect()
}

/// The fake client of cluster mode: all objects of the suite and of the cluster, under the English plurals of their kinds.
struct FakeCluster {
    objects: BTreeMap<Gvr, BTreeMap<(String, String), Document>>,
    /// The kinds of the lists.
    lists: BTreeSet<(Gvr, String)>,
}

fn place(object: Value<'_>) -> (String, String) {
    let text = |field: &str| object.at(&["metadata", field]).and_then(Value::as_str);
    let [namespace, name] = ["namespace", "name"].map(|field| text(field).unwrap_or_default().to_owned());
    (namespace, name)
}

/// A resource as Go prints it: `apps/v1, Resource=deployments`.
fn printed(gvr: &Gvr) -> String {
    format!("{}/{}, Resource={}", gvr.group, gvr.version, gvr.resource)
}

impl FakeCluster {
    fn new<'d>(objects: impl Iterator<Item = &'d Document>) -> Self {
        let mut cluster = Self {
            objects: BTreeMap::new(),
            lists: BTreeSet::new(),
        };
        for object in objects {
            let root = object.root();
            let text = |key: &str| root.get(key).and_then(Value::as_str).unwrap_or_default();
            let Ok(gvr) = Gvr::parse(text("apiVersion"), &guess_plural(text("kind"))) else {
                continue;
            };
            cluster.lists.insert((gvr.clone(), format!("{}List", text("kind"))));
            let of_kind = cluster.objects.entry(gvr).or_default();
            of_kind.insert(place(root), object.clone());
        }
        cluster
    }

    fn get(&self, api_version: &str, resource: &str, (namespace, name): (&str, &str)) -> HostResult {
        let objects = self.objects.get(&Gvr::parse(api_version, resource)?);
        let object = objects.and_then(|objects| objects.get(&(namespace.to_owned(), name.to_owned())));
        Ok(object.cloned().unwrap_or_else(Document::null))
    }

    fn list(&self, api_version: &str, resource: &str, namespace: &str, labels: &[(String, String)]) -> HostResult {
        let gvr = Gvr::parse(api_version, resource)?;
        let Some((_, kind)) = self.lists.iter().find(|(known, _)| *known == gvr) else {
            let known = self.lists.iter();
            let known: Vec<String> = known.map(|(gvr, kind)| format!("{}:{kind}", printed(gvr))).collect();
            return Err(HostError::Panic(format!(
                "coding error: you must register resource to list kind for every resource you're going to \
                 LIST when creating the client.  See NewSimpleDynamicClientWithCustomListKinds or register the list into \
                 the scheme: {} out of map[{}]",
                printed(&gvr),
                known.join(" ")
            )));
        };
        let has_labels = |object: &Document| {
            let own = object.root().at(&["metadata", "labels"]).and_then(Value::as_map);
            let value = |key: &str| own.and_then(|own: Map<'_>| own.get(key)).and_then(Value::as_str);
            labels.iter().all(|(key, wanted)| value(key) == Some(wanted))
        };
        let mut list = Builder::new();
        list.begin_map();
        list.key("apiVersion");
        list.string(api_version);
        list.key("kind");
        list.string(kind);
        list.key("items");
        list.begin_list();
        let objects = self.objects.get(&gvr).into_iter().flatten();
        let in_namespace = |of: &str| namespace.is_empty() || of == namespace;
        for (_, object) in objects.filter(|((of, _), object)| in_namespace(of) && has_labels(object)) {
            list.value(object.root());
        }
        list.end();
        list.end();
        Ok(list.finish())
    }

    fn create(&mut self, api_version: &str, resource: &str, namespace: &str, body: Value<'_>) -> HostResult {
        let gvr = Gvr::parse(api_version, resource)?;
        let mut object = Data::from(body);
        crate::generate::object::set_metadata(&mut object, "namespace", namespace);
        let object = object.to_document();
        let place = place(object.root());
        let objects = self.objects.entry(gvr.clone()).or_default();
        if objects.contains_key(&place) {
            let dot = if gvr.group.is_empty() { "" } else { "." };
            return Err(format!("{resource}{dot}{} {:?} already exists", gvr.group, place.1).into());
        }
        objects.insert(place, object.clone());
        Ok(object)
    }
}
