//! A cluster for the lookups of both sides: objects, entries of the global context, and sometimes nothing.
//!
//! No upstream counterpart.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use kyvtest_cel::host::{Gvr, Mocks};
use kyvtest_go_compat::value::{Document, Value};

use super::Hunt;
use crate::{
    body::shape::{Inner, Kind, Shape},
    calls::Calls,
};

/// What the policies of both sides look up.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    /// API version and resource.
    resources: BTreeSet<(String, String)>,
    /// Whether something but parameters is looked up.
    reads_others: bool,
    /// Names and namespaces that are written there.
    names: BTreeSet<String>,
    /// Namespaces with names that are written together.
    objects: BTreeSet<(String, String)>,
    globals: BTreeSet<String>,
    urls: BTreeSet<String>,
}

impl Lookups {
    /// Gathers the lookups of a policy.
    pub(super) fn read(&mut self, value: &Json) {
        match value {
            Json::Object(map) => {
                if let Some(entry) = map.get("configMap").filter(|entry| entry["name"].is_string()) {
                    self.resources.insert(("v1".to_owned(), "configmaps".to_owned()));
                    self.reads_others = true;
                    for part in ["name", "namespace"] {
                        self.names.extend(entry[part].as_str().map(str::to_owned));
                    }
                }
                if let Some(kind) = map.get("paramKind") {
                    self.parameter(&kind["apiVersion"], &kind["kind"]);
                }
                if let Some(reference) = map.get("paramRef") {
                    for part in ["name", "namespace"] {
                        self.names.extend(reference[part].as_str().map(str::to_owned));
                    }
                    let text = |part: &str| reference[part].as_str().unwrap_or_default().to_owned();
                    self.objects.insert((text("namespace"), text("name")));
                }
                if let Some(path) = map.get("urlPath").and_then(Json::as_str) {
                    self.path(path);
                }
                if let Some(name) = map.get("globalReference").and_then(|entry| entry["name"].as_str()) {
                    self.globals.extend(name.split('.').next().map(str::to_owned));
                }
                if let Some(url) = map.get("service").and_then(|entry| entry["url"].as_str()) {
                    self.urls.insert(url.to_owned());
                }
                for value in map.values() {
                    self.read(value);
                }
            }
            Json::Array(items) => items.iter().for_each(|item| self.read(item)),
            Json::String(text) => self.expression(text),
            _ => {}
        }
    }

    fn parameter(&mut self, api_version: &Json, kind: &Json) {
        if let (Some(api_version), Some(kind)) = (api_version.as_str(), kind.as_str())
            && let Some(plural) = crate::body::cel::plural_of(api_version, kind)
        {
            self.resources.insert((api_version.to_owned(), plural));
        }
    }

    fn path(&mut self, path: &str) {
        self.reads_others = true;
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let (version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ((*version).to_owned(), rest),
            ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
            _ => return,
        };
        let rest = match rest {
            ["namespaces", namespace, resource, rest @ ..] => {
                self.names.insert((*namespace).to_owned());
                self.resources.insert((version, (*resource).to_owned()));
                rest
            }
            [resource, rest @ ..] => {
                let resource = resource.split('?').next().unwrap_or_default();
                self.resources.insert((version, resource.to_owned()));
                rest
            }
            [] => return,
        };
        self.names.extend(rest.first().map(|name| (*name).to_owned()));
    }

    /// Lookups of CEL: the first texts of the call.
    fn expression(&mut self, text: &str) {
        for (call, found) in [("globalContext.Get(", &mut self.globals), ("http.Get(", &mut self.urls)] {
            for (at, _) in text.match_indices(call) {
                let rest = &text[at + call.len()..];
                let quote = rest.chars().find(|c| matches!(c, '\'' | '"')).unwrap_or('\'');
                found.extend(rest.split(quote).nth(1).map(str::to_owned));
            }
        }
        for call in ["resource.Get(", "resource.List("] {
            for (at, _) in text.match_indices(call) {
                self.reads_others = true;
                let rest = &text[at + call.len()..];
                let quote = rest.chars().find(|c| matches!(c, '\'' | '"')).unwrap_or('\'');
                let mut quoted = rest.split(quote).skip(1).step_by(2);
                if let (Some(version), Some(resource)) = (quoted.next(), quoted.next()) {
                    self.resources.insert((version.to_owned(), resource.to_owned()));
                }
                let written: Vec<String> = quoted.take(2).map(str::to_owned).collect();
                if let [namespace, name] = written.as_slice() {
                    self.objects.insert((namespace.clone(), name.clone()));
                }
                self.names.extend(written);
            }
        }
    }

    /// A host that answers lookups from the given objects.
    pub(crate) fn answer(&self, objects: &[Document], mocks: &mut Mocks) {
        for (api_version, resource) in &self.resources {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let gvr = || Gvr {
                group: group.to_owned(),
                version: version.to_owned(),
                resource: resource.clone(),
            };
            mocks.serve(gvr());
            let (_, kind) = crate::body::cel::kind_of(api_version, resource);
            for object in objects {
                let text = |key: &str| object.root().get(key).and_then(Value::as_str);
                if text("apiVersion") == Some(api_version) && text("kind") == Some(&*kind) {
                    mocks.add_resource(gvr(), object.clone());
                }
            }
        }
    }

    pub(in crate::body) fn reads_objects(&self) -> bool {
        !self.resources.is_empty()
    }

    /// Whether objects are looked up, parameters aside.
    pub(crate) fn reads_others(&self) -> bool {
        self.reads_others
    }

    /// Whether nothing is looked up.
    pub(crate) fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.globals.is_empty() && self.urls.is_empty()
    }
}

impl Hunt {
    /// The objects of a cluster around a request with this name and namespace that both sides look up, or some of them.
    pub(super) fn outside(&mut self, name: &str, namespace: &str) -> Vec<Document> {
        let mut objects = Vec::new();
        if self.lookups.resources.is_empty() {
            return objects;
        }
        let known = self.lookups.names.iter().filter(|name| super::is_key(name)).cloned();
        let names: Vec<String> = known.chain([name.to_owned(), "sample".to_owned()]).collect();
        let mut namespaces: Vec<String> = names.clone();
        namespaces.extend(["", "default", namespace].map(str::to_owned));
        let resources: Vec<(String, String)> = self.lookups.resources.iter().cloned().collect();
        for (api_version, resource) in resources {
            let (shape, kind) = crate::body::cel::kind_of(&api_version, &resource);
            let mut taken = BTreeSet::new();
            let mut written: Vec<(String, String)> = self.lookups.objects.iter().cloned().collect();
            written.retain(|_| self.next(4) > 0);
            for _ in 0..self.next(8) + written.len() {
                let mut object = self.value(&shape, "", 0);
                if !object.is_object() {
                    object = json!({});
                }
                let some = || Some((self.pick(&namespaces).cloned()?, self.pick(&names).cloned()?));
                let Some((namespace, name)) = written.pop().or_else(some) else {
                    continue;
                };
                if !taken.insert((namespace.clone(), name.clone())) {
                    continue;
                }
                object["apiVersion"] = json!(api_version);
                object["kind"] = json!(&*kind);
                if !object["metadata"].is_object() {
                    object["metadata"] = json!({});
                }
                object["metadata"]["name"] = json!(name);
                if !namespace.is_empty() {
                    object["metadata"]["namespace"] = json!(namespace);
                }
                objects.push(Document::from(&object));
            }
        }
        objects
    }

    /// Answers of the global context and of services.
    pub(super) fn call_out(&mut self) -> Calls {
        let mut calls = Calls::default();
        for name in self.lookups.globals.clone() {
            let value = self.anything(&Shape::any(), "", 0);
            // An entry that is null does not exist.
            if !value.is_null() {
                calls.add_global(&name, "", value);
            }
        }
        for url in self.lookups.urls.clone() {
            // Suites have answers that are maps.
            let body = self.anything(&Shape::of(Kind::Map, Inner::Unknown), "", 0);
            calls.add_service(&url, body);
        }
        calls
    }
}
