//! The behaviours that a suite does not exercise, as suites of their own for the author to read and accept.
//!
//! A case is a row, and an entry of the sidecar with the effect, the old object and the difference between the engines where
//! there is one. All requests of a suite have one user, and a namespace has one set of labels, so that cases may need several
//! suites. Requests that a suite cannot express (subresources, CONNECT, collection deletes) are left out. No upstream
//! counterpart.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};

use super::found::{Behaviour, Shown};
use crate::{kube::Operation, suite::Test, value::Document, verdict::Status};

/// A file that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name.
    pub name: &'static str,
    /// What is in it.
    pub text: String,
}

/// A policy and what is missing of it.
#[derive(Debug)]
pub struct Missing<'b> {
    /// Its name.
    pub policy: &'b str,
    /// Its rule, if it has one only.
    pub rule: Option<&'b str>,
    /// Whether its rules may answer differently, so that no single result can be expected.
    pub has_several_rules: bool,
    /// The behaviour.
    pub behaviour: &'b Behaviour,
}

/// Cases that can stand in one suite.
struct Bin<'b> {
    user: Json,
    namespaces: Vec<(String, Json)>,
    cases: Vec<(&'b Missing<'b>, &'b Shown, Json)>,
}

/// What a request looks like as a resource of a suite; `None` where it cannot be one.
fn resource(shown: &Shown) -> Option<Json> {
    let request = &shown.situation.request;
    if !request.resource.subresource.is_empty() || request.collection {
        return None;
    }
    let document = match request.operation {
        Operation::Create | Operation::Update => &request.object,
        Operation::Delete => &request.old_object,
        Operation::Connect => return None,
    };
    Some(document.root().to_serde())
}

fn key(object: &Json) -> [&Json; 4] {
    let metadata = &object["metadata"];
    [
        &object["apiVersion"],
        &object["kind"],
        &metadata["namespace"],
        &metadata["name"],
    ]
}

fn user(shown: &Shown) -> Json {
    let request = &shown.situation.request;
    json!({
        "roles": request.roles.as_deref().unwrap_or_default(),
        "clusterRoles": request.cluster_roles.as_deref().unwrap_or_default(),
        "userInfo": {"username": request.user.username, "groups": request.user.groups()},
    })
}

fn namespace(shown: &Shown) -> Option<(String, Json)> {
    let labels = &shown.situation.namespace_labels;
    if labels.is_empty() || shown.situation.request.namespace.is_empty() {
        return None;
    }
    let labels: Map<String, Json> = labels.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    Some((shown.situation.request.namespace.clone(), Json::Object(labels)))
}

/// The suites that exercise what is missing, each as files of a folder beside the suite at hand.
pub fn suites(test: &Test, missing: &[Missing<'_>]) -> Vec<Vec<File>> {
    let mut bins: Vec<Bin<'_>> = Vec::new();
    for one in missing {
        let Some((shown, object)) = one
            .behaviour
            .witness
            .as_ref()
            .and_then(|shown| Some((shown, resource(shown)?)))
        else {
            continue;
        };
        // What cannot be decided cannot be expected.
        if matches!(shown.kyverno.status, Status::Error | Status::Unsupported) {
            continue;
        }
        let (user, namespace) = (user(shown), namespace(shown));
        let fits = |bin: &&mut Bin<'_>| {
            let same_name = |(known, labels): &(String, Json)| {
                let own = namespace.as_ref();
                own.is_none_or(|(name, wanted)| name != known || wanted == labels)
            };
            bin.user == user
                && bin.namespaces.iter().all(same_name)
                && bin.cases.iter().all(|(_, _, other)| key(other) != key(&object))
        };
        let bin = match bins.iter_mut().find(|bin| fits(bin)) {
            Some(bin) => bin,
            None => {
                bins.push(Bin {
                    user,
                    namespaces: Vec::new(),
                    cases: Vec::new(),
                });
                match bins.last_mut() {
                    Some(bin) => bin,
                    None => continue,
                }
            }
        };
        if let Some(namespace) = namespace.filter(|own| !bin.namespaces.contains(own)) {
            bin.namespaces.push(namespace);
        }
        bin.cases.push((one, shown, object));
    }
    let name = test.name();
    let several = bins.len() > 1;
    let bins = bins.iter().enumerate();
    bins.map(|(number, bin)| {
        let name = if several {
            format!("{name}-behaviours-{}", number + 1)
        } else {
            format!("{name}-behaviours")
        };
        bin.files(test, &name)
    })
    .collect()
}

fn yaml(value: &Json) -> String {
    Document::from(value).root().to_yaml()
}

/// A path that stands in a suite, seen from a folder below it.
fn below(path: &str) -> String {
    if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("../{path}")
    }
}

impl Bin<'_> {
    fn files(&self, test: &Test, name: &str) -> Vec<File> {
        let mut rows = Vec::new();
        let mut entries = Vec::new();
        let mut cases = Vec::new();
        for (missing, shown, object) in &self.cases {
            let mut expectation = expectation(shown);
            let mut about = Map::new();
            about.insert("policy".to_owned(), json!(missing.policy));
            if let Some(rule) = missing.rule {
                about.insert("rule".to_owned(), json!(rule));
            }
            about.insert("resources".to_owned(), json!([reference(object)]));
            about.insert(
                "operation".to_owned(),
                json!(shown.situation.request.operation.as_str()),
            );
            if missing.has_several_rules {
                expectation.insert("name".to_owned(), json!(missing.behaviour.text));
                // Silence is met by `skip` only.
                if shown.kyverno.status == Status::NoMatch {
                    expectation.insert("result".to_owned(), json!("skip"));
                }
                expectation.extend(about);
                cases.push(Json::Object(expectation));
                continue;
            }
            about.insert("kind".to_owned(), object["kind"].clone());
            about.insert("result".to_owned(), json!(result(shown.kyverno.status)));
            expectation.insert("row".to_owned(), json!(rows.len()));
            rows.push(Json::Object(about));
            entries.push(Json::Object(expectation));
        }
        let paths = |list: &[crate::policy::Text]| list.iter().map(|path| below(path)).collect::<Vec<_>>();
        let mut document = json!({
            "apiVersion": "cli.kyverno.io/v1alpha1",
            "kind": "Test",
            "metadata": {"name": name},
            "policies": paths(&test.policies),
            "resources": ["resources.yaml"],
            "userinfo": "user.yaml",
            "results": rows,
        });
        for (field, list) in [
            ("exceptions", &test.exceptions),
            ("clusterResources", &test.cluster_resources),
            ("paramResources", &test.param_resources),
        ] {
            if !list.is_empty() {
                document[field] = json!(paths(list));
            }
        }
        if let Some(context) = &test.context {
            document["context"] = json!(below(context));
        }
        let mut files = Vec::new();
        if !self.namespaces.is_empty() {
            document["variables"] = json!("values.yaml");
            let selectors = self.namespaces.iter();
            let selectors: Vec<Json> = selectors
                .map(|(name, labels)| json!({"name": name, "labels": labels}))
                .collect();
            files.push(File {
                name: "values.yaml",
                text: yaml(&json!({
                    "apiVersion": "cli.kyverno.io/v1alpha1",
                    "kind": "Values",
                    "metadata": {"name": name},
                    "namespaceSelector": selectors,
                })),
            });
        }
        let mut user = self.user.clone();
        user["apiVersion"] = json!("cli.kyverno.io/v1alpha1");
        user["kind"] = json!("UserInfo");
        user["metadata"] = json!({"name": name});
        files.push(File {
            name: "user.yaml",
            text: yaml(&user),
        });
        files.push(File {
            name: "kyvtest.yaml",
            text: yaml(&json!({
                "apiVersion": "kyvtest.dev/v1",
                "kind": "Sidecar",
                "rows": entries,
                "cases": cases,
            })),
        });
        let resources: Vec<String> = self.cases.iter().map(|(_, _, object)| yaml(object)).collect();
        files.push(File {
            name: "resources.yaml",
            text: resources.join("---\n"),
        });
        let mut behaviours = String::new();
        for (missing, ..) in &self.cases {
            let text = missing.behaviour.text.replace(char::is_control, " ");
            let _ = writeln!(behaviours, "# - {}: {text}", missing.policy);
        }
        files.push(File {
            name: "kyverno-test.yaml",
            text: format!(
                "# Behaviours that were found and not yet tried:\n{behaviours}{}",
                yaml(&document)
            ),
        });
        files
    }
}

/// How a row names a resource.
fn reference(object: &Json) -> String {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text("namespace"), text("name"));
    if namespace.is_empty() {
        name
    } else {
        format!("{namespace}/{name}")
    }
}

/// The word for a result: where nothing matches, that is `skip`.
const fn result(status: Status) -> &'static str {
    match status {
        Status::NoMatch => "skip",
        status => status.as_str(),
    }
}

/// What is expected besides the result.
fn expectation(shown: &Shown) -> Map<String, Json> {
    let mut expectation = Map::new();
    let request = &shown.situation.request;
    expectation.insert("effect".to_owned(), json!(shown.kyverno.effect.as_str()));
    if request.operation == Operation::Update {
        expectation.insert("oldObject".to_owned(), request.old_object.root().to_serde());
    }
    if let Some(divergence) = shown.divergence.as_ref().filter(|divergence| divergence.class.fails()) {
        let mut found = json!({
            "class": divergence.class.as_str(),
            "reason": format!("found by `kyvtest fill`; to be accepted or repaired: {}", divergence.cause),
        });
        if let Some(code) = &divergence.code {
            found["code"] = json!(code);
        }
        expectation.insert("divergence".to_owned(), found);
    }
    expectation
}
