//! The cluster that requests are evaluated against: served kinds, stored objects, and the mocks for lookups.
//!
//! Built once and used by every command, so that all of them see the same cluster.
//!
//! Upstream counterpart: none.
//!
//! Known deviation: an undeclared kind is guessed from the object, which `kubectl` could not do.

use kyvtest_cel::{
    host::{Gvr, Host, Mocks},
    time::Timestamp,
};
use kyvtest_go_compat::value::{Document, List, Value};

use super::{Discovery, GroupVersionKind, GroupVersionResource, Namespace, World};

/// The state of the cluster when a request arrives.
#[derive(Debug)]
pub struct Cluster {
    pub discovery: Discovery,
    /// Namespaces, RBAC objects, parameters.
    pub world: World,
    /// Results of lookups of objects, HTTP calls, image data and the global context.
    pub mocks: Mocks,
}

/// The inputs of an evaluation in addition to the request: the parts of a cluster, each of which a caller may replace.
#[derive(Clone, Copy)]
pub struct Environment<'e> {
    /// Namespaces, RBAC objects, parameters.
    pub world: &'e World,
    /// The kinds that are served.
    pub discovery: &'e Discovery,
    /// Performs lookups. If its observer has a trace, every evaluation is recorded there.
    pub host: &'e dyn Host,
}

impl<'e> Environment<'e> {
    pub fn new(world: &'e World, discovery: &'e Discovery, host: &'e dyn Host) -> Self {
        Self { world, discovery, host }
    }
}

impl Cluster {
    /// The cluster as evaluations see it.
    pub fn environment(&self) -> Environment<'_> {
        Environment::new(&self.world, &self.discovery, &self.mocks)
    }

    /// A cluster as an API server starts it: with the default RBAC bindings, and an empty list for every served kind.
    pub fn new(discovery: Discovery) -> Self {
        let mut mocks = Mocks::new();
        mocks.set_served(is_builtin);
        mocks.set_seed(0);
        Self {
            discovery,
            world: World::with_default_bindings(),
            mocks,
        }
    }

    /// The cluster that `kyverno test` simulates: nothing exists unless it is given.
    pub fn simulated(discovery: Discovery) -> Self {
        let mut mocks = Mocks::new();
        mocks.set_seed(0);
        Self {
            discovery,
            world: World::new(),
            mocks,
        }
    }

    /// Serves the kinds of a CustomResourceDefinition.
    ///
    /// # Errors
    /// If the definition is incomplete.
    pub fn add_crd(&mut self, definition: Value<'_>) -> Result<(), String> {
        self.discovery.add_crd(definition)?;
        let text = |path: &[&str]| definition.at(path).and_then(Value::as_str).unwrap_or_default();
        let (group, plural) = (text(&["spec", "group"]), text(&["spec", "names", "plural"]));
        let versions = definition.at(&["spec", "versions"]).and_then(Value::as_list);
        for version in versions.into_iter().flat_map(List::iter) {
            let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
            self.mocks.serve(gvr(GroupVersionResource::new(group, name, plural)));
        }
        Ok(())
    }

    /// Stores a Namespace.
    pub fn add_namespace(&mut self, namespace: Namespace) {
        self.world.add_namespace(namespace);
    }

    /// Stores an object for lookups, selectors and RBAC.
    pub fn add(&mut self, object: &Document) {
        self.world.add(object.clone());
        self.add_lookup(object);
    }

    /// Stores an object for lookups only. An undeclared kind is guessed.
    pub(crate) fn add_lookup(&mut self, object: &Document) {
        let root = object.root();
        let text = |key: &str| root.get(key).and_then(Value::as_str).unwrap_or_default();
        let kind = GroupVersionKind::from_api_version(text("apiVersion"), text("kind"));
        if self.discovery.by_object(text("apiVersion"), &kind.kind).is_none() {
            let namespaced = root.at(&["metadata", "namespace"]).is_some();
            self.discovery.add_guess(&kind, namespaced);
        }
        if let Some(served) = self.discovery.by_object(text("apiVersion"), &kind.kind) {
            self.mocks.add_resource(gvr(served.gvr()), object.clone());
        }
    }

    /// Pins the clock.
    pub fn set_now(&mut self, now: Option<Timestamp>) {
        if let Some(now) = now {
            self.mocks.set_now(now);
        }
    }
}

fn gvr(resource: GroupVersionResource) -> Gvr {
    Gvr {
        group: resource.group,
        version: resource.version,
        resource: resource.resource,
    }
}

/// Whether Kubernetes itself serves a resource.
fn is_builtin(gvr: &Gvr) -> bool {
    let resource = GroupVersionResource::new(&*gvr.group, &*gvr.version, &*gvr.resource);
    Discovery::kubernetes().by_resource(&resource, "").is_some()
}
