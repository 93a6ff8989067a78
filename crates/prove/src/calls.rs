//! What the global context and services answer around a request.
//!
//! Upstream counterpart: `globalContextEntries` and `apiCallResponses` of a test file, which [`Calls::entries`] and
//! [`Calls::responses`] write.

use serde_json::{Value as Json, json};

use kyvtest_cel::host::Mocks;
use kyvtest_go_compat::value::Document;

/// The answers; entries without one do not exist, and calls without one fail.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calls {
    /// Entries of the global context by name.
    globals: Vec<(String, Json)>,
    /// The answers of services by URL, as the `http` library of CEL shows them in a cluster.
    services: Vec<(String, Json)>,
}

impl Calls {
    /// Whether nothing is answered.
    pub fn is_empty(&self) -> bool {
        self.globals.is_empty() && self.services.is_empty()
    }

    /// Adds an entry of the global context, or the projection of one; `false` if it contradicts what is there.
    pub(crate) fn add_global(&mut self, name: &str, projection: &str, value: Json) -> bool {
        let known = self.globals.iter_mut().find(|(own, _)| own == name);
        match (known, projection) {
            (None, "") => self.globals.push((name.to_owned(), value)),
            (None, _) => self.globals.push((name.to_owned(), json!({projection: value}))),
            (Some((_, Json::Object(entries))), _) if !projection.is_empty() => {
                entries.insert(projection.to_owned(), value);
            }
            (Some((_, known)), "") => match (known.as_object_mut(), value) {
                // The projections of an entry are among its keys.
                (Some(known), Json::Object(value)) => known.extend(value),
                _ => return false,
            },
            _ => return false,
        }
        true
    }

    /// Adds the answer of a service.
    pub(crate) fn add_service(&mut self, url: &str, body: Json) {
        let mut answer = match body {
            body @ Json::Object(_) => body,
            body => json!({ "body": body }),
        };
        if answer.get("statusCode").is_none() {
            answer["statusCode"] = json!(200);
        }
        self.services.push((url.to_owned(), answer));
    }

    pub(crate) fn answer(&self, mocks: &mut Mocks) {
        for (name, value) in &self.globals {
            mocks.add_global(name, Document::from(value));
        }
        for (url, value) in &self.services {
            mocks.add_http(url, Document::from(value));
        }
    }

    /// The fields of a test file that describe the calls, with their lists; without those that are empty.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, Vec<Json>)> {
        let all = [
            ("globalContextEntries", self.entries()),
            ("apiCallResponses", self.responses()),
        ];
        all.into_iter().filter(|(_, list)| !list.is_empty())
    }

    /// The entries of the global context as a test file has them.
    pub fn entries(&self) -> Vec<Json> {
        let entry = |(name, value): &(String, Json)| {
            if value.is_object() {
                json!({"name": name, "data": value})
            } else {
                // The data of an entry are a map.
                json!({"name": name, "data": {"value": value}, "fieldPath": "value"})
            }
        };
        self.globals.iter().map(entry).collect()
    }

    /// The answers of services as a test file has them.
    pub fn responses(&self) -> Vec<Json> {
        let response = |(url, value): &(String, Json)| {
            let mut body = value.clone();
            let status = body.as_object_mut().and_then(|body| body.remove("statusCode"));
            let only = body.as_object().filter(|body| body.len() == 1);
            let body = only.and_then(|body| body.get("body")).cloned().unwrap_or(body);
            json!({"url": url, "response": {"statusCode": status, "body": body}})
        };
        self.services.iter().map(response).collect()
    }
}
