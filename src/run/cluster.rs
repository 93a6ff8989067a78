//! The cluster of a suite: its kinds and objects, the mocks of CEL's libraries, the user.

use std::sync::Arc;

use super::{Settings, lens::Seen};
use crate::suite::{GlobalContextEntry, Resource, Subresource, Suite};
use kyvtest_cel::host::{Gvr, Mocks};
use kyvtest_go_compat::value::{Data, Document, Value};
use kyvtest_jmespath as jmespath;
use kyvtest_model::{
    kube::{Cluster, Discovery, GroupVersionKind, Namespace, Operation, Request, Resource as Served, UserInfo, World},
    policy::Spanned,
};
use kyvtest_normalise as normalise;
use kyvtest_prove::server::{self, Server};

/// Objects of larger suites are not remembered: they would take memory, and hardly come again.
const REMEMBERED: usize = 1000;

/// The cluster of a suite, and the sender of its requests.
pub(super) struct SuiteCluster {
    pub(super) cluster: Cluster,
    /// Whether the suite's old states are used.
    old_states: bool,
    pub(super) user: UserInfo,
    pub(super) roles: Option<Vec<String>>,
    pub(super) cluster_roles: Option<Vec<String>>,
    server: Server,
    /// Whether policies see objects as the server completes them, or as written.
    completes: bool,
    /// The namespaces that classic policies see, if they differ from those of CEL policies.
    classic_world: Option<World>,
}

impl SuiteCluster {
    pub(super) fn new(suite: &Suite, settings: &Settings) -> Self {
        let (user, roles, cluster_roles) = user(suite, settings);
        let cluster = cluster(suite, settings);
        let stored = suite.cluster.iter().flat_map(|cluster| &cluster.resources);
        let stored = || stored.map(|object| object.value.clone()).collect();
        let mut server = Server::new(&cluster.discovery, stored());
        if suite.resources.len() <= REMEMBERED {
            server = server.sharing(&settings.memo);
        }
        let classic_world = settings.compat.then(|| classic_world(suite, &cluster.world)).flatten();
        Self {
            cluster,
            server,
            completes: settings.data == server::Data::Normalised,
            classic_world,
            old_states: !settings.compat,
            user,
            roles,
            cluster_roles,
        }
    }

    /// The cluster as classic policies know it.
    pub(super) fn classic_world(&self) -> &World {
        self.classic_world.as_ref().unwrap_or(&self.cluster.world)
    }

    /// The request about a resource of the suite, as policies see it; arguments as in [`Self::written`].
    pub(super) fn request(
        &self,
        suite: &Suite,
        resource: &Resource,
        operation: Operation,
        old: Option<Document>,
    ) -> Request {
        self.seen(self.written(suite, resource, operation, old)).request
    }

    /// The request as policies see it: completed by the API server, unless they see objects as written.
    pub(super) fn seen(&self, written: Request) -> Seen {
        let mut request = written.clone();
        let admitted = self.completes.then(|| self.server.admit(&mut request));
        Seen {
            request,
            refused: admitted.clone().and_then(Result::err),
            written: admitted.is_some_and(|admitted| admitted.is_ok()).then_some(written),
        }
    }

    /// An object as the API server decodes it: types and defaults. Fields from plugins and assigned values are omitted,
    /// so that the object can be compared with a hand-written one. An object that cannot be decoded is unchanged.
    pub(super) fn decoded(&self, object: &Document) -> Document {
        let root = object.root();
        let text = |path: &[&str]| root.at(path).and_then(Value::as_str).unwrap_or_default();
        if !self.completes || root.is_null() {
            return object.clone();
        }
        let kind = GroupVersionKind::from_api_version(text(&["apiVersion"]), text(&["kind"]));
        self.server.read(&kind, object).unwrap_or_else(|_| object.clone())
    }

    /// The API server that completes objects.
    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    pub(super) fn data(&self) -> server::Data {
        if self.completes {
            server::Data::Normalised
        } else {
            server::Data::Raw
        }
    }

    /// The API server's cluster for decoding the object after a mutation; without plugins, see [`Self::decoded`].
    pub(super) fn decoder(&self) -> normalise::Cluster {
        normalise::Cluster {
            plugins: Vec::new(),
            definitions: self.server.cluster().definitions.clone(),
            ..normalise::Cluster::default()
        }
    }

    /// The request as written. For UPDATE and DELETE `old` is the object before it, else the one among the suite's old
    /// states, else the resource itself, which is all that `kyverno test` knows.
    pub(super) fn written(
        &self,
        suite: &Suite,
        resource: &Resource,
        operation: Operation,
        old: Option<Document>,
    ) -> Request {
        let served = self.served(suite, resource);
        let object = (*resource.object).clone();
        let mut request = Request::about(operation, served, object);
        let old = old.or_else(|| {
            let same = |old: &&Resource| {
                old.group() == resource.group()
                    && old.kind == resource.kind
                    && old.namespace == resource.namespace
                    && old.name == resource.name
            };
            let stored = suite.old_resources.iter().find(same).filter(|_| self.old_states);
            stored.map(|old| (*old.object).clone())
        });
        match (operation, old) {
            (Operation::Update | Operation::Delete, Some(old)) => request.old_object = old,
            (Operation::Update, None) => request.old_object = request.object.clone(),
            (Operation::Delete | Operation::Create | Operation::Connect, _) => {}
        }
        request.user = self.user.clone();
        request.roles.clone_from(&self.roles);
        request.cluster_roles.clone_from(&self.cluster_roles);
        if request.roles.is_none() && request.cluster_roles.is_none() && !self.user.is_absent() {
            let resolved = self.cluster.world.roles(&self.user, &request.namespace);
            request.roles = resolved.roles;
            request.cluster_roles = resolved.cluster_roles;
        }
        request
    }

    /// The resource that serves an object; a subresource if the values declare it as one.
    fn served(&self, suite: &Suite, resource: &Resource) -> Arc<Served> {
        let kind = GroupVersionKind::from_api_version(&resource.api_version, &resource.kind);
        if let Some(entry) = subresource(suite, &kind) {
            let parent = GroupVersionKind::new(&entry.parent.group, &entry.parent.version, &entry.parent.kind);
            let plural = entry.parent.name.as_str();
            let name = entry.subresource.name.split_once('/').map_or("", |(_, name)| name);
            let known = self.cluster.discovery.subresource(&parent, name);
            return known.cloned().unwrap_or_else(|| {
                Arc::new(Served::main(&parent, plural, entry.parent.namespaced).sub(name, &kind.kind))
            });
        }
        self.cluster
            .discovery
            .by_object(&resource.api_version, &resource.kind)
            .cloned()
            .unwrap_or_else(|| Arc::new(Discovery::guess(&kind, !resource.namespace.is_empty())))
    }
}

/// The subresource that the values declare for a kind.
fn subresource<'s>(suite: &'s Suite, kind: &GroupVersionKind) -> Option<&'s Subresource> {
    suite.values.subresources.iter().find(|entry| {
        entry.subresource.group == kind.group
            && entry.subresource.version == kind.version
            && entry.subresource.kind == kind.kind
    })
}

/// The cluster of a suite: `kyverno test` simulates one, every other command evaluates against a complete one.
fn cluster(suite: &Suite, settings: &Settings) -> Cluster {
    let discovery = settings.discovery.clone();
    let mut cluster = if settings.compat {
        Cluster::simulated(discovery)
    } else {
        Cluster::new(discovery)
    };
    for crd in suite.cluster.iter().flat_map(|cluster| &cluster.crds) {
        // The loader reports an incomplete definition.
        let _ = cluster.add_crd(crd.value.root());
    }
    let discovery = &mut cluster.discovery;
    let known = |resource: &Resource| discovery.by_object(&resource.api_version, &resource.kind).is_some();
    // A subresource in the values is not a separate kind.
    let mapped = |resource: &Resource| {
        let kind = GroupVersionKind::from_api_version(&resource.api_version, &resource.kind);
        subresource(suite, &kind).is_some()
    };
    let unknown = suite.resources.iter();
    let unknown: Vec<&Resource> = unknown
        .filter(|resource| !known(resource) && !mapped(resource))
        .collect();
    for resource in unknown {
        let kind = GroupVersionKind::from_api_version(&resource.api_version, &resource.kind);
        discovery.add_guess(&kind, !resource.namespace.is_empty());
    }
    for resource in &suite.resources {
        cluster.world.prepare_namespace(&resource.namespace);
    }
    add_objects(suite, settings.compat, &mut cluster);
    add_mocks(suite, &mut cluster.mocks);
    cluster.set_now(settings.now);
    cluster
}

fn add_objects(suite: &Suite, compat: bool, cluster: &mut Cluster) {
    for entry in &suite.values.namespace_selectors {
        let labels = entry
            .labels
            .iter()
            .map(|(key, value)| (key.value.as_str(), value.value.as_str()));
        cluster.add_namespace(Namespace::with_labels(&entry.name.value, labels));
    }
    for entry in &suite.values.namespaces {
        cluster.add_namespace(Namespace {
            object: entry.object.clone(),
        });
    }
    let stored = suite.cluster.iter().flat_map(|cluster| &cluster.resources);
    for object in stored.filter(|object| !compat || !is_namespace(&object.value)) {
        cluster.world.add(object.value.clone());
    }
    let params = suite.params.iter().map(|param| (*param.object).clone());
    cluster.world.params.extend(params);
    let described = suite.context.iter().flat_map(|context| &context.resources);
    let stored = suite.cluster.iter().flat_map(|cluster| &cluster.resources);
    let objects: Vec<&Spanned<Document>> = match suite.cluster {
        Some(_) => stored.collect(),
        None => described.collect(),
    };
    for object in objects {
        let root = object.value.root();
        let text = |key: &str| root.get(key).and_then(Value::as_str).unwrap_or_default();
        let kind = GroupVersionKind::from_api_version(text("apiVersion"), text("kind"));
        let known = cluster.discovery.mapped(text("apiVersion"), text("kind")).cloned();
        let served = known.unwrap_or_else(|| Arc::new(Discovery::guess(&kind, true))).gvr();
        let gvr = Gvr {
            group: served.group,
            version: served.version,
            resource: served.resource,
        };
        cluster.mocks.add_resource(gvr, object.value.clone());
    }
}

/// The namespaces that selectors of classic policies read in `kyverno test`: unless the values describe them, those
/// among the suite's own resources and in its cluster (`GetResourceNamespace…` of `processor/policy_processor.go`). CEL
/// policies see only those in the values.
fn classic_world(suite: &Suite, world: &World) -> Option<World> {
    let stored = &suite.cluster.as_ref()?.resources;
    let own = suite.resources.iter().chain(&suite.targets);
    let own = own.map(|resource| &*resource.object);
    let mut classic = world.clone();
    let has_labels = |namespace: &Namespace| namespace.labels().is_some_and(|labels| !labels.is_empty());
    // The first of a name counts.
    let all: Vec<&Document> = own.chain(stored.iter().map(|object| &object.value)).collect();
    for object in all.into_iter().rev().filter(|object| is_namespace(object)) {
        let namespace = Namespace { object: object.clone() };
        if !world.namespace(namespace.name()).is_some_and(has_labels) {
            classic.add_namespace(namespace);
        }
    }
    Some(classic)
}

fn is_namespace(object: &Document) -> bool {
    let text = |key: &str| object.root().get(key).and_then(Value::as_str);
    text("apiVersion") == Some("v1") && text("kind") == Some("Namespace")
}

fn add_mocks(suite: &Suite, mocks: &mut Mocks) {
    for (reference, metadata) in suite.context.iter().flat_map(|context| &context.images) {
        mocks.add_image(&reference.value, metadata.value.clone());
    }
    for entry in &suite.global_context {
        mocks.add_global(&entry.name.value, global_value(entry));
    }
    for response in suite.test.iter().flat_map(|test| &test.api_call_responses) {
        mocks.add_http(&response.key(), response.answer());
    }
}

/// The data of an entry of the global context, after its path and projections. Data that cannot be evaluated is absent.
fn global_value(entry: &GlobalContextEntry) -> Document {
    let root = entry.data();
    let search = |path: &str, data: &Data| jmespath::search(path, &data.with_doubles(), &jmespath::Context::default());
    let root = match &entry.field_path {
        Some(path) => search(&path.value, &root).unwrap_or_default(),
        None => root,
    };
    if entry.projections.is_empty() {
        return root.to_document();
    }
    let projections = entry.projections.iter();
    let projected: Result<Data, _> = projections
        .map(|(name, path)| Ok((Arc::from(name.value.as_str()), search(&path.value, &root)?)))
        .collect::<Result<Vec<_>, jmespath::Error>>()
        .map(|entries| entries.into_iter().collect());
    projected.unwrap_or_default().to_document()
}

type User = (UserInfo, Option<Vec<String>>, Option<Vec<String>>);

fn user(suite: &Suite, settings: &Settings) -> User {
    let Some(info) = &suite.user_info else {
        if settings.compat {
            return User::default();
        }
        // The user of `kubectl` on a new cluster.
        let groups = ["system:masters", "system:authenticated"].map(str::to_owned);
        let admin = UserInfo {
            username: "kubernetes-admin".to_owned(),
            groups: Some(groups.into()),
            ..UserInfo::default()
        };
        return (admin, None, None);
    };
    let texts = |list: &Option<Vec<Spanned<String>>>| {
        list.as_ref()
            .map(|list| list.iter().map(|text| text.value.clone()).collect::<Vec<_>>())
    };
    let extra: Vec<(String, Vec<String>)> = info
        .extra
        .iter()
        .map(|(key, values)| {
            (
                key.value.clone(),
                values.iter().map(|value| value.value.clone()).collect(),
            )
        })
        .collect();
    let user = UserInfo {
        username: info.username.clone(),
        uid: info.uid.clone(),
        groups: texts(&info.groups),
        extra: (!extra.is_empty()).then_some(extra),
    };
    (user, texts(&info.roles), texts(&info.cluster_roles))
}
