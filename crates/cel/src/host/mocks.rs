//! Mocked lookups.
//!
//! Upstream counterpart: Kyverno's `pkg/cel/libs/fake_context.go` and `http_mock.go`, which its command line uses;
//! missing data gives their errors.
//!
//! Deviations: a list is sorted by name, an HTTP call without a mock is an error instead of a call.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use super::{Attributes, Decision, Gvr, Host, HostError, HostResult, HttpRequest};
use crate::{authorizer::AuthorizerRules, time::Timestamp};
use kyvtest_go_compat::value::{Builder, Document, Value};

/// Objects by namespace and name.
type Objects = BTreeMap<(String, String), Document>;

/// Prepared results; see [`Host`] for the lookups.
#[derive(Debug, Default)]
pub struct Mocks {
    resources: BTreeMap<Gvr, Objects>,
    /// Resources that are served although there is no object of them.
    served: Option<fn(&Gvr) -> bool>,
    images: BTreeMap<String, Document>,
    global: BTreeMap<String, Document>,
    http: BTreeMap<String, Document>,
    authorizer: Option<AuthorizerRules>,
    now: Option<Timestamp>,
    random: Option<AtomicU64>,
}

impl Mocks {
    /// No data.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an object of the cluster; its metadata has namespace and name.
    pub fn add_resource(&mut self, gvr: Gvr, object: Document) {
        let of = |field: &str| {
            let value = object.root().at(&["metadata", field]).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let place = (of("namespace"), of("name"));
        self.resources.entry(gvr).or_default().insert(place, object);
    }

    /// Sets the resources that are served although there is no object of them: listing one gives an empty list.
    pub fn set_served(&mut self, served: fn(&Gvr) -> bool) {
        self.served = Some(served);
    }

    /// Serves a further resource.
    pub fn serve(&mut self, gvr: Gvr) {
        self.resources.entry(gvr).or_default();
    }

    /// Adds the metadata of an image.
    pub fn add_image(&mut self, reference: &str, metadata: Document) {
        self.images.insert(reference.to_owned(), metadata);
    }

    /// Adds an entry of the global context.
    pub fn add_global(&mut self, name: &str, value: Document) {
        self.global.insert(name.to_owned(), value);
    }

    /// Adds the response to an HTTP call, by URL or by `METHOD:URL`.
    pub fn add_http(&mut self, call: &str, response: Document) {
        self.http.insert(call.to_owned(), response);
    }

    /// Sets the rules of the authorizer.
    pub fn set_authorizer(&mut self, rules: AuthorizerRules) {
        self.authorizer = Some(rules);
    }

    /// Sets the clock.
    pub fn set_now(&mut self, now: Timestamp) {
        self.now = Some(now);
    }

    /// Sets the seed of random numbers.
    pub fn set_seed(&mut self, seed: u64) {
        self.random = Some(AtomicU64::new(seed));
    }
}

impl Host for Mocks {
    fn resource_get(&self, api_version: &str, resource: &str, namespace: &str, name: &str) -> HostResult {
        let objects = self.resources.get(&Gvr::parse(api_version, resource)?);
        let object = objects.and_then(|objects| objects.get(&(namespace.to_owned(), name.to_owned())));
        Ok(object.cloned().unwrap_or_else(Document::null))
    }

    fn resource_list(&self, api_version: &str, resource: &str, namespace: &str, _: &[(String, String)]) -> HostResult {
        let gvr = Gvr::parse(api_version, resource)?;
        let objects = self.resources.get(&gvr);
        if objects.is_none() && !self.served.is_some_and(|served| served(&gvr)) {
            let dot = if gvr.group.is_empty() { "" } else { "." };
            return Err(format!("{resource}{dot}{} resource not found", gvr.group).into());
        }
        let mut list = Builder::new();
        list.begin_map();
        list.key("items");
        list.begin_list();
        let objects = objects.into_iter().flatten();
        for ((_, _), object) in objects.filter(|((of, _), _)| of == namespace) {
            list.value(object.root());
        }
        list.end();
        list.end();
        Ok(list.finish())
    }

    fn resource_post(&self, _: &str, _: &str, _: &str, _: Value<'_>) -> HostResult {
        Err(HostError::Panic("not implemented".to_owned()))
    }

    fn resource_of_kind(&self, _: &str, _: &str) -> Result<Gvr, HostError> {
        Err(HostError::Panic("not implemented".to_owned()))
    }

    fn global_context(&self, name: &str, projection: &str) -> HostResult {
        let Some(entry) = self.global.get(name) else {
            return Ok(Document::null());
        };
        if projection.is_empty() {
            return Ok(entry.clone());
        }
        let missing = format!("projection {projection:?} not found in global context entry {name:?}");
        match entry.root() {
            Value::Map(map) => match map.get(projection) {
                Some(value) => {
                    let mut copy = Builder::new();
                    copy.value(value);
                    Ok(copy.finish())
                }
                None => Err(missing.into()),
            },
            _ => Err(format!("{missing}: stored value is not an object").into()),
        }
    }

    fn http(&self, request: &HttpRequest<'_>) -> HostResult {
        let named = self.http.get(&format!("{}:{}", request.method, request.url));
        match named.or_else(|| self.http.get(request.url)) {
            Some(response) => Ok(response.clone()),
            None => Err(format!("no mock for {} {}", request.method, request.url).into()),
        }
    }

    fn answers_calls(&self) -> bool {
        !self.http.is_empty()
    }

    fn image_metadata(&self, reference: &str) -> HostResult {
        let metadata = self.images.get(reference);
        metadata
            .cloned()
            .ok_or_else(|| format!("image data for {reference} not found in the context").into())
    }

    fn authorize(&self, attributes: &Attributes) -> Option<Decision> {
        self.authorizer.as_ref().and_then(|rules| rules.authorize(attributes))
    }

    fn now(&self) -> Option<Timestamp> {
        self.now
    }

    fn random(&self) -> Option<u64> {
        // Seeds this far apart give streams that do not overlap.
        let random = self.random.as_ref()?;
        Some(random.fetch_add(0x5851_f42d_4c95_7f2d, Ordering::Relaxed))
    }
}
