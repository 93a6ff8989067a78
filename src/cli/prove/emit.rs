//! Counterexamples as suites: `prove --emit-cases DIR`.
//!
//! Each region becomes a folder that `kyvtest run` accepts, with the difference recorded in the sidecar, and `kyverno test` as far
//! as its format can say it. What is written is run first, in memory: the expectations are what came out, and a suite on which
//! the difference does not show is not written at all.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value as Json, json};

use super::super::input::reason;
use crate::{
    diagnostic::{Code, Diagnostic},
    kube::{NAME_LABEL, Operation, Request},
    pair::Original,
    policy::{CelPolicyException, Loaded, Metadata, Policy, PolicyException, Subtree},
    prove::{Region, witness::Situation},
    run::{self, Case, Outcome, Settings},
    suite::{self, Memory, Options, SIDECAR},
    value::{Document, Value},
    verdict::Status,
};

/// The files of one suite, by name.
type Suite = BTreeMap<String, String>;

const TEST: &str = "kyverno-test.yaml";

/// Writes the suites of a policy's regions into a folder; the answer is what could not be written.
///
/// # Errors
/// If a folder is there already, or cannot be written.
pub(super) fn emit(
    folder: &Path,
    original: &Original,
    exceptions: &[Json],
    regions: &[Region],
    settings: &Settings,
) -> Result<Vec<Diagnostic>, Diagnostic> {
    let mut left_out = Vec::new();
    for (number, region) in regions.iter().enumerate() {
        let name = format!("{}-{}", original.name(), number + 1);
        match suite_of(&name, original, exceptions, region, settings) {
            Ok(files) => write(&folder.join(&name), &files)?,
            Err(why) => {
                let message = format!(
                    "counterexample {} of `{}` is not written: {why}",
                    number + 1,
                    original.name()
                );
                left_out.push(Diagnostic::new(Code::NotASuite, message));
            }
        }
    }
    Ok(left_out)
}

/// Writes a folder that is not there yet: into a folder beside it, which then gets the name.
fn write(folder: &Path, files: &Suite) -> Result<(), Diagnostic> {
    let failed = |error: &io::Error| {
        let message = format!("cannot write `{}`: {}", folder.display(), reason(error));
        Diagnostic::new(Code::OutputFailed, message)
    };
    if folder.exists() {
        let message = format!("`{}` is there already", folder.display());
        return Err(Diagnostic::new(Code::OutputFailed, message).with_help("name another folder, or remove this one"));
    }
    let mut part = folder.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    let fill = || {
        fs::create_dir_all(&part)?;
        for (name, text) in files {
            fs::write(part.join(name), text)?;
        }
        fs::rename(&part, folder)
    };
    fill().map_err(|error| {
        let _ = fs::remove_dir_all(&part);
        failed(&error)
    })
}

/// The suite of a region, or why there is none.
fn suite_of(
    name: &str,
    original: &Original,
    exceptions: &[Json],
    region: &Region,
    settings: &Settings,
) -> Result<Suite, String> {
    let situation = region.witness.situation();
    let request = &situation.request;
    if request.operation == Operation::Connect {
        return Err("a suite cannot connect".to_owned());
    }
    if request.collection {
        return Err("a suite cannot delete collections".to_owned());
    }
    let resource = &request.resource;
    if !resource.subresource.is_empty() && resource.object_kind.kind == resource.kind {
        return Err(format!("a suite cannot say that an object is `{}`", resource.name()));
    }
    let mut files = Suite::new();
    let mut test = json!({
        "apiVersion": "cli.kyverno.io/v1alpha1", "kind": "Test", "metadata": {"name": name},
        "policies": ["policy.yaml"], "resources": ["resource.yaml"],
    });
    files.insert("policy.yaml".to_owned(), text_of(&policy(original)));
    let has_new = !request.object.root().is_null();
    let object = if has_new { &request.object } else { &request.old_object };
    files.insert("resource.yaml".to_owned(), text(object));
    if !exceptions.is_empty() {
        let texts: Vec<String> = exceptions.iter().map(text_of).collect();
        files.insert("exceptions.yaml".to_owned(), texts.join("---\n"));
        test["exceptions"] = json!(["exceptions.yaml"]);
    }
    if let Some(values) = values(situation) {
        files.insert("values.yaml".to_owned(), text_of(&values));
        test["variables"] = json!("values.yaml");
    }
    files.insert("user.yaml".to_owned(), text_of(&user(request)));
    test["userinfo"] = json!("user.yaml");
    let params = &situation.world.params;
    if !params.is_empty() {
        let texts: Vec<String> = params.iter().map(text).collect();
        files.insert("params.yaml".to_owned(), texts.join("---\n"));
        test["paramResources"] = json!(["params.yaml"]);
    }
    let mut sidecar = json!({"apiVersion": "kyvtest.dev/v1", "kind": "Sidecar"});
    if request.operation == Operation::Update && request.old_object != request.object {
        files.insert("before.yaml".to_owned(), text(&request.old_object));
        sidecar["oldResources"] = json!(["before.yaml"]);
    }
    // First as questions only, then with the answers.
    let mut rows: Vec<Json> = rows(original, request);
    test["results"] = Json::Array(rows.clone());
    let answers = run(&files, &test, &sidecar, settings)?;
    let mut notes = Vec::new();
    for (number, row) in rows.iter_mut().enumerate() {
        let case = answers.iter().find(|case| case.row == Some(number));
        let case = case.ok_or("no row answers")?;
        let status = case.kyverno.as_ref().map(|answer| answer.status);
        row["result"] = json!(match status {
            Some(Status::Pass) => "pass",
            Some(Status::Fail) => "fail",
            Some(Status::Error) => "error",
            Some(Status::Warn) => "warn",
            _ => "skip",
        });
        if let Some(divergence) = &case.divergence {
            let mut expected = json!({"class": divergence.class.as_str(), "reason": told(region)});
            if let Some(code) = &divergence.code {
                expected["code"] = json!(code);
            }
            notes.push(json!({"row": number, "divergence": expected}));
        }
    }
    if notes.is_empty() {
        return Err("the difference does not show in a suite".to_owned());
    }
    sidecar["rows"] = Json::Array(notes);
    test["results"] = Json::Array(rows);
    let judged = run(&files, &test, &sidecar, settings)?;
    if let Some(case) = judged
        .iter()
        .find(|case| case.outcome != Outcome::Pass || !case.findings.is_empty())
    {
        return Err(format!("a row would not hold: {}", case.reason));
    }
    let comment = comment(region);
    files.insert(TEST.to_owned(), format!("{comment}{}", text_of(&test)));
    files.insert(SIDECAR.to_owned(), text_of(&sidecar));
    Ok(files)
}

/// An object as it stands in its file, but for metadata that say nothing to engines.
fn object(api_version: &str, kind: &str, metadata: &Metadata, spec: &Subtree) -> Json {
    let mut own = json!({"name": metadata.name.value});
    if let Some(namespace) = &metadata.namespace {
        own["namespace"] = json!(namespace.value);
    }
    let annotations: Map<String, Json> = metadata
        .annotations
        .iter()
        .map(|(key, value)| (key.value.clone(), json!(value.value)))
        .collect();
    if !annotations.is_empty() {
        own["annotations"] = Json::Object(annotations);
    }
    let spec = spec.document().root().to_serde();
    json!({"apiVersion": api_version, "kind": kind, "metadata": own, "spec": spec})
}

fn policy(original: &Original) -> Json {
    let (api_version, metadata, spec) = match original {
        Original::Policy(policy) => (&policy.api_version, &policy.metadata, &policy.spec.source),
        Original::ValidatingPolicy(policy) => (&policy.api_version, &policy.metadata, &policy.spec.source),
    };
    object(api_version, original.kind(), metadata, spec)
}

/// The exceptions as objects.
pub(super) fn exceptions(loaded: &Loaded) -> Vec<Json> {
    let classic = loaded.exceptions.iter().map(|exception| {
        let PolicyException {
            api_version,
            metadata,
            source,
            ..
        } = &**exception;
        (api_version, metadata, source)
    });
    let cel = loaded.cel_exceptions.iter().map(|exception| {
        let CelPolicyException {
            api_version,
            metadata,
            source,
            ..
        } = &**exception;
        (api_version, metadata, source)
    });
    classic
        .chain(cel)
        .map(|(api_version, metadata, source)| object(api_version, "PolicyException", metadata, source))
        .collect()
}

fn told(region: &Region) -> String {
    let text = if region.cause.is_empty() {
        &region.text
    } else {
        &region.cause
    };
    text.clone()
}

/// What the suite is about, as a comment.
fn comment(region: &Region) -> String {
    let (kyverno, native) = (region.witness.kyverno(), region.witness.native());
    format!(
        "# A counterexample of `kyvtest prove`: Kyverno says {}, the native policy says {}.\n# {}\n",
        kyverno.effect,
        native.effect,
        region.text.replace('\n', " ")
    )
}

/// One row for each rule, or one for the whole policy.
fn rows(original: &Original, request: &Request) -> Vec<Json> {
    let object = request.subject().map_or(Value::Null, |(_, value)| value);
    let of = |key: &str| {
        object
            .at(&["metadata", key])
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let resource = match of("namespace") {
        "" => of("name").to_owned(),
        namespace => format!("{namespace}/{}", of("name")),
    };
    let row = |policy: &str| {
        let mut row = json!({
            "policy": policy, "kind": request.resource.object_kind.kind, "resources": [resource], "result": "skip",
        });
        if request.operation != Operation::Create {
            row["operation"] = json!(request.operation.as_str());
        }
        row
    };
    match original {
        Original::Policy(policy) => rules(policy)
            .into_iter()
            .map(|rule| {
                let name = match &policy.metadata.namespace {
                    Some(namespace) => format!("{}/{}", namespace.value, policy.metadata.name.value),
                    None => policy.metadata.name.value.clone(),
                };
                let mut row = row(&name);
                row["rule"] = json!(rule);
                row
            })
            .collect(),
        Original::ValidatingPolicy(policy) => {
            let mut row = row(&policy.metadata.name.value);
            row["isValidatingPolicy"] = json!(true);
            vec![row]
        }
    }
}

fn rules(policy: &Policy) -> Vec<&str> {
    policy.spec.rules.iter().map(|rule| rule.name.value.as_str()).collect()
}

/// The labels of the request's namespace, and what its object is a part of.
fn values(situation: &Situation) -> Option<Json> {
    let request = &situation.request;
    let mut values = json!({"apiVersion": "cli.kyverno.io/v1alpha1", "kind": "Values", "metadata": {"name": "values"}});
    let mut needed = false;
    if request.resource.namespaced && !situation.namespace_labels.is_empty() {
        let labels: Map<String, Json> = situation
            .namespace_labels
            .iter()
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect();
        needed = situation.namespace_labels.iter().any(|(key, _)| key != NAME_LABEL) || needed;
        values["namespaceSelector"] = json!([{"name": request.namespace, "labels": labels}]);
    }
    let resource = &request.resource;
    if !resource.subresource.is_empty() {
        needed = true;
        let own = &resource.object_kind;
        values["subresources"] = json!([{
            "subresource": {"name": resource.name(), "kind": own.kind, "group": own.group, "version": own.version},
            "parentResource": {"name": resource.plural, "kind": resource.kind, "group": resource.group, "version": resource.version},
        }]);
    }
    needed.then_some(values)
}

fn user(request: &Request) -> Json {
    let mut info = json!({
        "apiVersion": "cli.kyverno.io/v1alpha1", "kind": "UserInfo", "metadata": {"name": "user"},
        "userInfo": {"username": request.user.username, "groups": request.user.groups()},
    });
    for (key, list) in [("roles", &request.roles), ("clusterRoles", &request.cluster_roles)] {
        if let Some(list) = list.as_ref().filter(|list| !list.is_empty()) {
            info[key] = json!(list);
        }
    }
    info
}

fn text(document: &Document) -> String {
    let mut text = document.root().to_yaml();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn text_of(json: &Json) -> String {
    text(&Document::from(json))
}

/// What becomes of the rows.
fn run(files: &Suite, test: &Json, sidecar: &Json, settings: &Settings) -> Result<Vec<Case>, String> {
    let mut memory = Memory::default();
    for (name, text) in files {
        memory.add(name, text.as_str());
    }
    memory.add(TEST, text_of(test));
    memory.add(SIDECAR, text_of(sidecar));
    let suites = suite::load(&memory, TEST, &Options::default());
    let suite = suites.first().ok_or("there is no suite")?;
    let done = run::run(suite, settings);
    match done.diagnostics.first() {
        Some(diagnostic) if done.is_broken() => Err(diagnostic.message.clone()),
        _ => Ok(done.cases),
    }
}
