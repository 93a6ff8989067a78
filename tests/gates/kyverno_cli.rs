//! The Kyverno engine through the lens of `kyverno test`: the rule responses of suites that consist of policies and
//! resources and nothing else.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use kyvtest::{
    cel::host::Mocks,
    kube::{Discovery, GroupVersionKind, Operation, Request, World},
    kyverno::{
        classic_policy::CompiledPolicy,
        input::Input,
        lens::Lens,
        response::RuleResponse,
        validating_policy::{Answer, CompiledValidatingPolicy},
    },
    policy::{Loaded, Purpose},
    value::Document,
    yaml,
};
use serde_json::{Value, json};

use crate::{
    kyverno::{read, text},
    support::{self, Gate, jsonl, shared},
};

/// The fields of suites that the gate does without.
const PLAIN: [&str; 6] = ["apiVersion", "kind", "metadata", "policies", "resources", "results"];

/// The responses of one policy to one resource of a suite.
struct Case {
    id: String,
    policies: Vec<PathBuf>,
    resource: Value,
    policy: String,
    expected: Vec<(String, String, String)>,
}

fn documents(path: &Path) -> Vec<Value> {
    let stream = yaml::read(support::read(path), yaml::Mode::Lax, &yaml::Limits::default());
    let trees = stream.documents().iter().filter_map(|document| document.tree().ok());
    trees
        .map(|tree| Document::from(tree.root()).root().to_serde())
        .collect()
}

fn files(suite: &Value, field: &str, folder: &Path) -> Vec<PathBuf> {
    let names = suite[field].as_array().into_iter().flatten().filter_map(Value::as_str);
    names.map(|name| folder.join(name)).collect()
}

fn cases(rows: &[Value]) -> Vec<Case> {
    let mut groups: BTreeMap<(String, u64, String, String), Vec<&Value>> = BTreeMap::new();
    for row in rows {
        let decided = text(row, "pk") == "ValidatingPolicy" || text(row, "body") == "validate.cel";
        if decided && row.get("op").is_none() && row.get("unstable").is_none() && text(row, "st") != "none" {
            let [suite, key, policy] = ["suite", "key", "pol"].map(|field| text(row, field).to_owned());
            let doc = row["doc"].as_u64().unwrap_or_default();
            groups.entry((suite, doc, key, policy)).or_default().push(row);
        }
    }
    let mut cases = Vec::new();
    for ((suite, doc, key, policy), rows) in groups {
        let Some(path) = shared(&format!("corpus/{suite}")) else {
            continue;
        };
        let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
        let Some(test) = documents(&path).into_iter().nth(doc as usize) else {
            continue;
        };
        let plain = test
            .as_object()
            .is_some_and(|test| test.keys().all(|field| PLAIN.contains(&field.as_str())));
        let policies = files(&test, "policies", &folder);
        let resources = files(&test, "resources", &folder);
        if !plain || !policies.iter().chain(&resources).all(|path| path.is_file()) {
            continue;
        }
        let mut found = resources
            .iter()
            .flat_map(|path| documents(path))
            .filter_map(|resource| named(resource, &key));
        let (Some(resource), None) = (found.next(), found.next()) else {
            continue;
        };
        let field = |row: &Value, field: &str| text(row, field).to_owned();
        let mut expected: Vec<_> = rows
            .iter()
            .map(|row| (field(row, "rule"), field(row, "st"), field(row, "msg")))
            .collect();
        expected.sort();
        cases.push(Case {
            id: format!("{suite} {doc} {key} {policy}"),
            policies,
            resource,
            policy,
            expected,
        });
    }
    cases
}

/// The resource if this is its name: `apiVersion,Kind,namespace,name`. One without a namespace gets that of the name.
fn named(mut resource: Value, key: &str) -> Option<Value> {
    let parts: Vec<&str> = key.split(',').collect();
    let [api_version, kind, namespace, name] = parts.try_into().ok()?;
    let metadata = &resource["metadata"];
    let own = text(metadata, "namespace");
    let same = text(&resource, "apiVersion") == api_version
        && text(&resource, "kind") == kind
        && text(metadata, "name") == name
        && (own == namespace || own.is_empty() && namespace == "default");
    if same && !namespace.is_empty() {
        resource["metadata"]["namespace"] = json!(namespace);
    }
    same.then_some(resource)
}

fn check(case: &Case) -> Result<(), String> {
    let mut loaded = Loaded::default();
    for path in &case.policies {
        read(&support::read(path), Purpose::Policies, &mut loaded);
    }
    let resource = &case.resource;
    let kind = GroupVersionKind::from_api_version(text(resource, "apiVersion"), text(resource, "kind"));
    let mut discovery = Discovery::kubernetes();
    discovery.add_guess(&kind, !text(&resource["metadata"], "namespace").is_empty());
    let served = discovery
        .by_kind(&kind.group, &kind.version, &kind.kind)
        .ok_or("no kind")?;
    let request = Request::about(Operation::Create, Arc::clone(served), Document::from(resource));
    let world = World::new();
    let input = Input::new(&request, &world, &discovery, Lens::CLI);
    let host = Mocks::new();
    let mut responses: Vec<RuleResponse> = Vec::new();
    for policy in loaded
        .policies
        .iter()
        .filter(|policy| policy.metadata.name.value == case.policy)
    {
        responses.extend(CompiledPolicy::new(Arc::clone(policy)).decide(&input, &[], &host).rules);
    }
    for policy in loaded
        .validating_policies
        .iter()
        .filter(|policy| policy.metadata.name.value == case.policy)
    {
        let all = CompiledValidatingPolicy::compile_all(policy, []).map_err(|error| error.to_string())?;
        for policy in &all {
            if let Answer::Rule(response) = policy.decide(&input, &host) {
                responses.push(response);
            }
        }
    }
    let mut ours: Vec<(String, String, String)> = responses
        .into_iter()
        .map(|response| (response.rule, response.status.to_string(), response.message))
        .collect();
    ours.sort();
    if ours == case.expected {
        Ok(())
    } else {
        Err(format!("ours {ours:?}, expected {:?}", case.expected))
    }
}

#[test]
fn plain_suites() {
    if let Some(path) = shared("golden/kyverno-cli/engine.jsonl") {
        let cases = cases(&jsonl(&path));
        let gate = Gate {
            name: "kyverno-cli-engine",
            rows: 1500,
        };
        gate.run(&cases, |case| case.id.clone(), check);
    }
}
