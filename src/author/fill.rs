//! The behaviours that a suite does not exercise, as new suites for the author to review and accept.
//!
//! A case is a row, and an entry of the sidecar with the effect, the old object and the divergence if there is one. All
//! requests of a suite have one user, and a namespace has one set of labels, so that cases may need several suites.
//! Requests that a suite cannot express (subresources, CONNECT, collection deletes) are left out.
//!
//! Upstream counterpart: none.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};

use super::suite_writer::{self, File, TEST, cluster, reference, result, sidecar, test, user_info, values, yaml};
use crate::run::analysis::Shown;
use crate::suite::{SIDECAR, Test};
use kyvtest_model::{
    kube::{NAME_LABEL, Operation},
    policy::{ParamKind, Text},
    verdict::Status,
};
use kyvtest_prove::calls::Calls;

/// A request to write as a case.
#[derive(Debug, Clone)]
pub struct Missing<'b> {
    pub policy: &'b str,
    /// The rule, if the case is about a single one.
    pub rule: Option<&'b str>,
    /// Whether rules may have different results, so that no single result can be expected.
    pub has_several_rules: bool,
    /// A description of the behaviour.
    pub text: &'b str,
    /// The request with its verdicts.
    pub shown: &'b Shown,
    /// Whether the result depends on the user.
    pub has_user: bool,
    /// What the policy looks up, which replaces what the frame provides; `None` if it looks nothing up.
    pub looked_up: Option<Lookups>,
}

/// What a suite provides for the lookups of its policies.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lookups {
    objects: Vec<Json>,
    params: Vec<Json>,
    /// Whether objects are looked up, also if there are none.
    reads_cluster: bool,
    /// What the global context and services answer.
    calls: Calls,
}

impl Lookups {
    /// What is around a request; objects of one of the kinds are parameters.
    pub fn of(shown: &Shown, param_kinds: &[ParamKind], reads_cluster: bool) -> Self {
        let objects = shown.scenario.world.params.iter();
        let is_param = |object: &Json| {
            let mut kinds = param_kinds.iter();
            kinds.any(|kind| object["apiVersion"] == kind.api_version.as_str() && object["kind"] == kind.kind.as_str())
        };
        let (params, objects) = objects.map(|object| object.root().to_serde()).partition(is_param);
        let calls = shown.scenario.calls.clone();
        Self {
            objects,
            params,
            reads_cluster,
            calls,
        }
    }

    /// Adds what is looked up to a suite. Returns the files with objects of the cluster, and those with parameters.
    fn add(&self, name: &str, document: &mut Json, files: &mut Vec<File>) -> (Vec<String>, Vec<String>) {
        let (mut cluster_files, mut param_files) = (Vec::new(), Vec::new());
        if self.reads_cluster || !self.objects.is_empty() {
            files.push(File::of("cluster.yaml", &cluster(name, &self.objects)));
            cluster_files.push("cluster.yaml".to_owned());
        }
        if !self.params.is_empty() {
            files.push(File::with_all("params.yaml", self.params.iter().cloned()));
            param_files.push("params.yaml".to_owned());
        }
        for (field, list) in self.calls.fields() {
            document[field] = Json::Array(list);
        }
        (cluster_files, param_files)
    }
}

/// The common parts of the written suites.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    pub name: String,
    /// Paths relative to the suites.
    pub policies: Vec<String>,
    pub exceptions: Vec<String>,
    pub cluster_resources: Vec<String>,
    pub param_resources: Vec<String>,
    pub context: Option<String>,
    /// Comment lines at the top of the test file.
    pub head: String,
    /// The command that writes the suites.
    pub command: &'static str,
    /// Whether to write only results, and only relevant fields.
    pub terse: bool,
}

impl Frame {
    /// The frame of suites in a directory below another suite.
    pub fn below(test: &Test) -> Self {
        let paths = |list: &[Text]| list.iter().map(|path| below(path)).collect::<Vec<_>>();
        Self {
            name: format!("{}-behaviours", test.name()),
            policies: paths(&test.policies),
            exceptions: paths(&test.exceptions),
            cluster_resources: paths(&test.cluster_resources),
            param_resources: paths(&test.param_resources),
            context: test.context.as_ref().map(|path| below(path)),
            head: "# Behaviours that no test exercises yet:\n".to_owned(),
            command: "kyvtest fill",
            terse: false,
        }
    }

    /// The same frame, one directory deeper.
    pub(super) fn deeper(&self) -> Self {
        let paths = |list: &[String]| list.iter().map(|path| below(path)).collect::<Vec<_>>();
        Self {
            policies: paths(&self.policies),
            exceptions: paths(&self.exceptions),
            cluster_resources: paths(&self.cluster_resources),
            param_resources: paths(&self.param_resources),
            context: self.context.as_ref().map(|path| below(path)),
            ..self.clone()
        }
    }
}

/// A suite to write.
#[derive(Debug, Clone)]
pub struct Written {
    pub files: Vec<File>,
    /// The indices of its cases; if all are about one rule, in the order of its rows.
    pub cases: Vec<usize>,
}

/// Cases that fit into one suite.
struct Bin<'b> {
    user: Option<Json>,
    looked_up: Option<&'b Lookups>,
    namespaces: Vec<(String, Json)>,
    cases: Vec<(usize, &'b Missing<'b>, Json)>,
}

/// The resource for a request; `None` if a suite cannot express it.
pub(super) fn resource(shown: &Shown) -> Option<Json> {
    let request = &shown.scenario.request;
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

fn namespace(shown: &Shown, terse: bool) -> Option<(String, Json)> {
    let labels = &shown.scenario.namespace_labels;
    // Every namespace has its name as a label.
    let usual = terse && labels.iter().all(|(key, _)| key == NAME_LABEL);
    if labels.is_empty() || usual || shown.scenario.request.namespace.is_empty() {
        return None;
    }
    Some((shown.scenario.request.namespace.clone(), suite_writer::labels(labels)))
}

/// Builds suites for the missing cases, each as files of a directory.
pub fn suites(frame: &Frame, missing: &[Missing<'_>]) -> Vec<Written> {
    let mut bins: Vec<Bin<'_>> = Vec::new();
    for (number, one) in missing.iter().enumerate() {
        let shown = one.shown;
        let Some(object) = resource(shown) else { continue };
        // A result that cannot be decided cannot be expected.
        if shown.kyverno.status == Status::Error || shown.kyverno.status.is_undecided() {
            continue;
        }
        let user = one.has_user.then(|| user_info(&frame.name, &shown.scenario.request));
        let namespace = namespace(shown, frame.terse);
        let fits = |bin: &&mut Bin<'_>| {
            let same_name = |(known, labels): &(String, Json)| {
                let own = namespace.as_ref();
                own.is_none_or(|(name, wanted)| name != known || wanted == labels)
            };
            bin.user == user
                && bin.looked_up == one.looked_up.as_ref()
                && bin.namespaces.iter().all(same_name)
                && bin.cases.iter().all(|(_, _, other)| {
                    let same_name = frame.terse && reference(other) == reference(&object);
                    !same_name && key(other) != key(&object)
                })
        };
        let bin = match bins.iter_mut().find(|bin| fits(bin)) {
            Some(bin) => bin,
            None => {
                bins.push(Bin {
                    user,
                    looked_up: one.looked_up.as_ref(),
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
        bin.cases.push((number, one, object));
    }
    let several = bins.len() > 1;
    let bins = bins.iter().enumerate();
    bins.map(|(number, bin)| {
        let name = if several {
            format!("{}-{}", frame.name, number + 1)
        } else {
            frame.name.clone()
        };
        // Suites for behaviours are siblings, others are below the first one.
        let frame = if frame.terse && number > 0 {
            &frame.deeper()
        } else {
            frame
        };
        Written {
            files: bin.files(frame, &name),
            cases: bin.cases.iter().map(|(number, ..)| *number).collect(),
        }
    })
    .collect()
}

/// A path in a suite, relative to a directory below it.
fn below(path: &str) -> String {
    if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("../{path}")
    }
}

impl Bin<'_> {
    fn files(&self, frame: &Frame, name: &str) -> Vec<File> {
        let mut rows = Vec::new();
        let mut entries = Vec::new();
        let mut cases = Vec::new();
        for (_, missing, object) in &self.cases {
            let shown = missing.shown;
            let mut expectation = expectation(shown, frame);
            let operation = shown.scenario.request.operation;
            let mut about = Map::new();
            about.insert("policy".to_owned(), json!(missing.policy));
            if let Some(rule) = missing.rule {
                about.insert("rule".to_owned(), json!(rule));
            }
            about.insert("resources".to_owned(), json!([reference(object)]));
            if !frame.terse || operation != Operation::Create {
                about.insert("operation".to_owned(), json!(operation.as_str()));
            }
            if missing.has_several_rules {
                expectation.insert("name".to_owned(), json!(missing.text));
                // Only `skip` matches a policy that does not match.
                if shown.kyverno.status == Status::NoMatch {
                    expectation.insert("result".to_owned(), json!("skip"));
                }
                expectation.extend(about);
                cases.push(Json::Object(expectation));
                continue;
            }
            about.insert("kind".to_owned(), object["kind"].clone());
            about.insert("result".to_owned(), json!(result(shown.kyverno.status)));
            if !expectation.is_empty() {
                expectation.insert("row".to_owned(), json!(rows.len()));
                entries.push(Json::Object(expectation));
            }
            rows.push(Json::Object(about));
        }
        let mut document = test(name);
        document["policies"] = json!(frame.policies);
        let mut files = Vec::new();
        let (cluster_files, param_files) = match self.looked_up {
            Some(own) => own.add(name, &mut document, &mut files),
            None => (frame.cluster_resources.clone(), frame.param_resources.clone()),
        };
        for (field, list) in [
            ("exceptions", frame.exceptions.clone()),
            ("clusterResources", cluster_files),
            ("paramResources", param_files),
        ] {
            if !list.is_empty() {
                document[field] = json!(list);
            }
        }
        document["resources"] = json!(["resources.yaml"]);
        if let Some(context) = &frame.context {
            document["context"] = json!(context);
        }
        if !self.namespaces.is_empty() {
            document["variables"] = json!("values.yaml");
            files.push(File::of("values.yaml", &values(name, &self.namespaces, None)));
        }
        if let Some(user) = &self.user {
            document["userinfo"] = json!("user.yaml");
            let mut user = user.clone();
            user["metadata"]["name"] = json!(name);
            files.push(File::of("user.yaml", &user));
        }
        document["results"] = json!(rows);
        if !entries.is_empty() || !cases.is_empty() {
            let mut sidecar = sidecar();
            for (field, list) in [("rows", entries), ("cases", cases)] {
                if !list.is_empty() {
                    sidecar[field] = Json::Array(list);
                }
            }
            files.push(File::of(SIDECAR, &sidecar));
        }
        let resources = self.cases.iter().map(|(_, _, object)| object.clone());
        files.push(File::with_all("resources.yaml", resources));
        let mut lines = String::new();
        for (_, missing, _) in self.cases.iter().filter(|_| !frame.terse) {
            let text = missing.text.replace(char::is_control, " ");
            let _ = writeln!(lines, "# - {}: {text}", missing.policy);
        }
        files.push(File {
            name: TEST,
            text: format!("{}{lines}{}", frame.head, yaml(&document)),
        });
        files
    }
}

/// The expectations besides the result.
fn expectation(shown: &Shown, frame: &Frame) -> Map<String, Json> {
    let mut expectation = Map::new();
    let request = &shown.scenario.request;
    if !frame.terse {
        expectation.insert("effect".to_owned(), json!(shown.kyverno.effect.as_str()));
    }
    if request.operation == Operation::Update {
        expectation.insert("oldObject".to_owned(), request.old_object.root().to_serde());
    }
    if let Some(divergence) = shown.divergence.as_ref().filter(|divergence| divergence.class.fails()) {
        let mut found = json!({
            "class": divergence.class.as_str(),
            "reason": format!("found by `{}`; to be accepted or repaired: {}", frame.command, divergence.cause),
        });
        if let Some(code) = &divergence.code {
            found["code"] = json!(code);
        }
        expectation.insert("divergence".to_owned(), found);
    }
    expectation
}
