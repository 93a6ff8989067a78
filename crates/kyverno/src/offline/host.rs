//! The world outside of expressions in a test: its mocks, with the clock and the random numbers of the caller.
//!
//! Upstream counterpart: `NewContextProvider` of `cmd/cli/kubectl-kyverno/processor/context.go` (1.19).

use super::{case::Case, resource::Resource};
use kyvtest_cel::{
    host::{Answer, Attributes, Decision, Gvr, Host, HttpRequest, Mocks},
    observe::Observer,
    time::Timestamp,
};
use kyvtest_go_compat::value::{Document, Value};
use kyvtest_model::kube::{Discovery, GroupVersionKind};

pub(super) struct CaseHost<'b> {
    base: &'b dyn Host,
    mocks: Mocks,
}

impl std::fmt::Debug for CaseHost<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaseHost")
            .field("mocks", &self.mocks)
            .finish_non_exhaustive()
    }
}

/// The resource that the command's own tables have for an object.
pub(super) fn resource_of(discovery: &Discovery, object: Value<'_>) -> Gvr {
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
    pub(super) fn new(case: &Case, base: &'b dyn Host) -> Self {
        let surroundings = &case.surroundings;
        let discovery = Discovery::kubernetes();
        let mut mocks = Mocks::new();
        let mut add = |object: &Document| mocks.add_resource(resource_of(&discovery, object.root()), object.clone());
        match &surroundings.cluster {
            Some(objects) => {
                let suite = case.resources.iter().chain(&case.targets);
                suite.for_each(|resource: &Resource| add(&resource.object));
                objects.iter().for_each(add);
            }
            None => surroundings.described.iter().for_each(add),
        }
        for (reference, metadata) in &surroundings.images {
            mocks.add_image(reference, metadata.clone());
        }
        for (name, value) in &surroundings.globals {
            if let Ok(value) = value {
                mocks.add_global(name, value.to_document());
            }
        }
        for (call, answer) in &surroundings.api_calls {
            mocks.add_http(call, answer.clone());
        }
        Self { base, mocks }
    }
}

impl Host for CaseHost<'_> {
    fn resource_get(&self, api_version: &str, resource: &str, namespace: &str, name: &str) -> Answer {
        self.mocks.resource_get(api_version, resource, namespace, name)
    }

    fn resource_list(&self, api_version: &str, resource: &str, namespace: &str, labels: &[(String, String)]) -> Answer {
        self.mocks.resource_list(api_version, resource, namespace, labels)
    }

    fn resource_post(&self, api_version: &str, resource: &str, namespace: &str, body: Value<'_>) -> Answer {
        self.mocks.resource_post(api_version, resource, namespace, body)
    }

    fn resource_of_kind(&self, api_version: &str, kind: &str) -> Result<Gvr, String> {
        self.mocks.resource_of_kind(api_version, kind)
    }

    fn global_context(&self, name: &str, projection: &str) -> Answer {
        self.mocks.global_context(name, projection)
    }

    fn http(&self, request: &HttpRequest<'_>) -> Answer {
        self.mocks.http(request)
    }

    fn image_metadata(&self, reference: &str) -> Answer {
        self.mocks.image_metadata(reference)
    }

    fn authorize(&self, attributes: &Attributes) -> Option<Decision> {
        self.base.authorize(attributes)
    }

    fn now(&self) -> Option<Timestamp> {
        self.base.now()
    }

    fn random(&self) -> Option<u64> {
        self.base.random()
    }

    fn observer(&self) -> Option<&Observer> {
        self.base.observer()
    }
}
