//! Counterexamples of a proof as suites.
//!
//! Each becomes a suite that `kyvtest run` accepts, with the difference recorded in the sidecar, and that `kyverno
//! test` accepts as far as its format can express it. A suite is first run in memory: its expectations are the results,
//! and a suite that does not show the difference is discarded.
//!
//! Upstream counterpart: none.

use kyvtest_model::policy::Policy;
use serde_json::{Value as Json, json};

use super::suite_writer::{File, TEST, labels, reference, result, sidecar, test, user_info, values, yaml};
use crate::run::{Case, Outcome, Settings, run};
use crate::suite::{self, Memory, Options, SIDECAR};
use kyvtest_convert::Exceptions;
use kyvtest_go_compat::value::Document;
use kyvtest_model::{
    kube::{NAME_LABEL, Operation, Request},
    policy::Loaded,
    verdict::Status,
};
use kyvtest_prove::{
    Region,
    body::{exception_objects, policy_object},
    witness::Scenario,
};

/// Builds the suite of a region.
///
/// # Errors
/// If a suite cannot express the request, or does not show the difference.
pub fn suite_of(
    name: &str,
    original: &Policy,
    exceptions: &[Json],
    region: &Region,
    settings: &Settings,
) -> Result<Vec<File>, String> {
    let scenario = region.witness.scenario();
    let request = &scenario.request;
    expressible(request)?;
    let mut test = test(name);
    let mut sidecar = sidecar();
    let mut files = files(name, original, exceptions, scenario, &mut test, &mut sidecar);
    // Run with the checks only first, then add the results.
    let mut rows = rows(original, request);
    test["results"] = Json::Array(rows.clone());
    let answers = cases(&files, &test, &sidecar, settings)?;
    let mut notes = Vec::new();
    for (number, row) in rows.iter_mut().enumerate() {
        let case = answers.iter().find(|case| case.row == Some(number));
        let case = case.ok_or("no row has a result")?;
        let status = case.kyverno.as_ref().map_or(Status::NoMatch, |answer| answer.status);
        row["result"] = json!(match status {
            status if status.is_undecided() => "skip",
            status => result(status),
        });
        if let Some(divergence) = &case.divergence {
            let mut expected = json!({"class": divergence.class.as_str(), "reason": cause(region)});
            if let Some(code) = &divergence.code {
                expected["code"] = json!(code);
            }
            notes.push(json!({"row": number, "divergence": expected}));
        }
    }
    if notes.is_empty() {
        return Err("the difference does not appear in a suite".to_owned());
    }
    sidecar["rows"] = Json::Array(notes);
    test["results"] = Json::Array(rows);
    let judged = cases(&files, &test, &sidecar, settings)?;
    let mut judged = judged.iter();
    if let Some(case) = judged.find(|case| case.outcome != Outcome::Pass || !case.findings.is_empty()) {
        return Err(format!("a row would not hold: {}", case.reason));
    }
    files.push(File::of(SIDECAR, &sidecar));
    files.push(File {
        name: TEST,
        text: format!("{}{}", comment(region), yaml(&test)),
    });
    Ok(files)
}

/// Checks that a suite can express the request.
///
/// # Errors
/// The part that it cannot express.
fn expressible(request: &Request) -> Result<(), String> {
    if request.operation == Operation::Connect {
        return Err("a suite cannot express CONNECT requests".to_owned());
    }
    if request.collection {
        return Err("a suite cannot express collection deletes".to_owned());
    }
    let resource = &request.resource;
    if !resource.subresource.is_empty() && resource.object_kind.kind == resource.kind {
        return Err(format!("a suite cannot mark an object as `{}`", resource.name()));
    }
    Ok(())
}

/// Runs one request as a suite: one case for each rule, or one for the whole policy.
///
/// # Errors
/// If a suite cannot express the request, or does not run.
pub fn run_request(
    original: &Policy,
    exceptions: &[Json],
    scenario: &Scenario,
    settings: &Settings,
) -> Result<Vec<Case>, String> {
    expressible(&scenario.request)?;
    let (mut test, mut sidecar) = (test("request"), sidecar());
    let files = files("request", original, exceptions, scenario, &mut test, &mut sidecar);
    test["results"] = Json::Array(rows(original, &scenario.request));
    cases(&files, &test, &sidecar, settings)
}

/// The files besides the test file and the sidecar; their paths are added to the test file.
fn files(
    name: &str,
    original: &Policy,
    exceptions: &[Json],
    scenario: &Scenario,
    test: &mut Json,
    sidecar: &mut Json,
) -> Vec<File> {
    let request = &scenario.request;
    let json = |document: &Document| document.root().to_serde();
    let has_new = !request.object.root().is_null();
    let object = if has_new { &request.object } else { &request.old_object };
    test["policies"] = json!(["policy.yaml"]);
    test["resources"] = json!(["resource.yaml"]);
    let mut files = vec![
        File::of("policy.yaml", &policy_object(original)),
        File::of("resource.yaml", &json(object)),
    ];
    if !exceptions.is_empty() {
        files.push(File::with_all("exceptions.yaml", exceptions.iter().cloned()));
        test["exceptions"] = json!(["exceptions.yaml"]);
    }
    let own = &scenario.namespace_labels;
    let is_usual = own.iter().all(|(key, _)| key == NAME_LABEL);
    let subresource = Some(&*request.resource).filter(|resource| !resource.subresource.is_empty());
    if !is_usual && request.resource.namespaced || subresource.is_some() {
        let namespace = request.resource.namespaced && !own.is_empty();
        let namespaces: Vec<(String, Json)> = namespace
            .then(|| (request.namespace.clone(), labels(own)))
            .into_iter()
            .collect();
        files.push(File::of("values.yaml", &values(name, &namespaces, subresource)));
        test["variables"] = json!("values.yaml");
    }
    files.push(File::of("user.yaml", &user_info(name, request)));
    test["userinfo"] = json!("user.yaml");
    let params = &scenario.world.params;
    if !params.is_empty() {
        files.push(File::with_all("params.yaml", params.iter().map(json)));
        test["paramResources"] = json!(["params.yaml"]);
    }
    if request.operation == Operation::Update && request.old_object != request.object {
        files.push(File::of("before.yaml", &json(&request.old_object)));
        sidecar["oldResources"] = json!(["before.yaml"]);
    }
    files
}

/// Exceptions as objects.
pub fn exceptions(loaded: &Loaded) -> Vec<Json> {
    exception_objects(Exceptions {
        classic: &loaded.exceptions,
        cel: &loaded.cel_exceptions,
    })
}

fn cause(region: &Region) -> &str {
    if region.cause.is_empty() {
        &region.text
    } else {
        &region.cause
    }
}

/// A comment that describes the suite.
fn comment(region: &Region) -> String {
    let (kyverno, native) = (region.witness.kyverno(), region.witness.native());
    format!(
        "# A counterexample of `kyvtest prove`: Kyverno: {}, native policy: {}.\n# {}\n",
        kyverno.effect,
        native.effect,
        region.text.replace('\n', " ")
    )
}

/// One row for each rule, or one for the whole policy.
fn rows(original: &Policy, request: &Request) -> Vec<Json> {
    let object = request.subject().map_or(Json::Null, |(_, value)| value.to_serde());
    let row = |policy: &str| {
        let mut row = json!({
            "policy": policy,
            "kind": request.resource.object_kind.kind,
            "resources": [reference(&object)],
            "result": "skip",
        });
        if request.operation != Operation::Create {
            row["operation"] = json!(request.operation.as_str());
        }
        row
    };
    match original {
        Policy::Classic(policy) => {
            let rules = policy.spec.rules.iter();
            let row_of = |rule: &kyvtest_model::policy::Rule| {
                let mut row = row(&policy.key());
                row["rule"] = json!(rule.name.value);
                row
            };
            rules.map(row_of).collect()
        }
        Policy::Validating(policy) => {
            let mut row = row(&policy.metadata.name.value);
            row["isValidatingPolicy"] = json!(true);
            vec![row]
        }
        _ => Vec::new(),
    }
}

/// Runs the rows.
fn cases(files: &[File], test: &Json, sidecar: &Json, settings: &Settings) -> Result<Vec<Case>, String> {
    let mut memory = Memory::default();
    for file in files {
        memory.add(file.name, file.text.as_str());
    }
    memory.add(TEST, yaml(test));
    memory.add(SIDECAR, yaml(sidecar));
    let suites = suite::load(&memory, TEST, &Options::in_cluster(&settings.discovery));
    let suite = suites.first().ok_or("no suite")?;
    let done = run(suite, settings);
    match done.diagnostics.first() {
        Some(diagnostic) if done.is_broken() => Err(diagnostic.message.clone()),
        _ => Ok(done.cases),
    }
}
