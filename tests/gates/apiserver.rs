//! A Kubernetes 1.36 API server's responses with native policies: own vectors, and the policies that Kyverno generates
//! from the public ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::LazyLock,
};

use kyvtest::{
    cel::host::NoHost,
    diagnostic::Sources,
    kube::{Discovery, Environment, GroupVersionKind, Namespace, Operation, Request, UserInfo, World},
    policy::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, validate_admission},
    value::Document,
    vap::{AdmissionResponse, Lens, Server},
};
use serde_json::{Value, json};

use crate::support::{Gate, fixture, id, items, jsonl, read, same, shared, text};

fn table(path: &Path) -> Discovery {
    let file = Sources::new().add("discovery.tsv", "");
    Discovery::from_tsv(&read(path), file).expect("a table")
}

static DISCOVERY: LazyLock<Discovery> = LazyLock::new(|| {
    let mut discovery = Discovery::kubernetes();
    discovery.extend(&table(&fixture("apiserver/discovery.tsv")));
    discovery
});

fn policy(object: &Value) -> Result<ValidatingAdmissionPolicy, String> {
    let (policy, diagnostics) = ValidatingAdmissionPolicy::from_value(Document::from(object).root());
    policy.ok_or_else(|| format!("not read: {diagnostics:?}"))
}

fn binding(object: &Value) -> Result<ValidatingAdmissionPolicyBinding, String> {
    let (binding, diagnostics) = ValidatingAdmissionPolicyBinding::from_value(Document::from(object).root());
    binding.ok_or_else(|| format!("not read: {diagnostics:?}"))
}

/// The rules of a row as RBAC objects, with the server's names for them.
fn rbac(rules: &Value, world: &mut World) {
    for (subject, rules) in rules
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| *key != "note")
    {
        let (kind, name) = subject.split_once(':').unwrap_or_default();
        let (role, subject) = if kind == "group" {
            (format!("{name}-basic"), json!({"kind": "Group", "name": name}))
        } else {
            let (namespace, name) = name.split_once('/').unwrap_or_default();
            let subject = json!({"kind": "ServiceAccount", "namespace": namespace, "name": name});
            (name.to_owned(), subject)
        };
        let group = "rbac.authorization.k8s.io/v1";
        let metadata = json!({"name": role});
        let object = json!({"apiVersion": group, "kind": "ClusterRole", "metadata": metadata, "rules": rules});
        world.add(Document::from(&object));
        let object = json!({
            "apiVersion": group, "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [subject],
        });
        world.add(Document::from(&object));
    }
}

fn namespace(name: &str, labels: &Value) -> Namespace {
    let labels = labels.as_object().into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
    Namespace::with_labels(name, labels)
}

fn answer(row: &Value) -> Result<AdmissionResponse, String> {
    let policies = items(row, "policies").map(policy).collect::<Result<Vec<_>, _>>()?;
    let bindings = items(row, "bindings").map(binding).collect::<Result<Vec<_>, _>>()?;
    let mut world = World::new();
    for param in items(row, "params") {
        world.add(Document::from(param));
    }
    for (name, labels) in row["namespaces"].as_object().into_iter().flatten() {
        world.add_namespace(namespace(name, labels));
    }
    if let Some(object) = row.get("namespaceObject") {
        world.add_namespace(Namespace {
            object: Document::from(object),
        });
    }
    rbac(row.get("rbac").unwrap_or(&Value::Null), &mut world);
    let mut request = row["request"].clone();
    if let Some(seen) = row.get("seen") {
        request["object"] = seen.clone();
    }
    let request = Request::from_value(Document::from(&request).root(), &DISCOVERY)?;
    let server = Server::new(&policies, &bindings, Lens::ApiServer);
    Ok(server.review(&request, Environment::new(&world, &DISCOVERY, &NoHost)))
}

/// Whether a warning comes from a policy: a server also warns for other reasons.
fn of_policy(warning: &&str) -> bool {
    warning.starts_with("Validation failed for ValidatingAdmissionPolicy ")
}

fn check_vector(row: &Value) -> Result<(), String> {
    let answer = answer(row)?;
    let observed = &row["observed"];
    let unordered = row["order_undefined"] == true;
    let want = (
        observed["allowed"] == true,
        observed["code"].as_u64(),
        text(observed, "message"),
    );
    let code = match observed.get("after_admission") {
        Some(_) => observed["code"].as_u64(),
        None => Some(u64::from(answer.code)),
    };
    let got = (answer.allowed, code, answer.message.as_str());
    if got != want {
        return Err(format!("want {want:?}, got {got:?}"));
    }
    if answer.reason != text(observed, "reason") {
        return Err(format!("reason {}, not {}", answer.reason, text(observed, "reason")));
    }
    let mut want: Vec<&str> = items(observed, "warnings")
        .filter_map(Value::as_str)
        .filter(of_policy)
        .collect();
    let mut got: Vec<&str> = answer.warnings.iter().map(String::as_str).collect();
    if unordered {
        want.sort_unstable();
        got.sort_unstable();
    }
    if got != want {
        return Err(format!("warnings {got:?}, not {want:?}"));
    }
    let audit = observed.get("audit").and_then(Value::as_object);
    let want: BTreeMap<&str, &str> = audit
        .into_iter()
        .flatten()
        .filter(|(key, _)| !key.starts_with("authentication.kubernetes.io/"))
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
        .collect();
    let got: BTreeMap<&str, &str> = answer
        .audit
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    let parts = |map: &BTreeMap<&str, &str>| -> BTreeSet<(String, Vec<String>)> {
        let split = |value: &str| {
            let mut parts: Vec<String> = value.split(", ").map(str::to_owned).collect();
            parts.sort_unstable();
            parts
        };
        map.iter()
            .map(|(key, value)| ((*key).to_owned(), split(value)))
            .collect()
    };
    let same = if unordered {
        parts(&got) == parts(&want)
    } else {
        got == want
    };
    if same {
        Ok(())
    } else {
        Err(format!("audit {got:?}, not {want:?}"))
    }
}

#[test]
fn vectors() {
    Gate::new("apiserver-vectors-own", 170).fixture("apiserver/vectors.jsonl", id, check_vector);
    Gate::new("apiserver-vectors", 1647).shared("golden/apiserver/vectors.jsonl", id, check_vector);
}

/// Compares the complete error, with all causes in order.
fn check_static(row: &Value) -> Result<(), String> {
    let checked = validate_admission(Document::from(&row["object"]).root());
    let accepted = row["accepted"] == true;
    if checked.errors.is_empty() != accepted {
        return Err(format!("accepted: {accepted}, got {:?}", checked.message));
    }
    // Without a message the server panicked.
    let Some(message) = row.get("message").and_then(Value::as_str).filter(|_| !accepted) else {
        return Ok(());
    };
    let want = (row["code"].as_u64(), message);
    let got = (Some(u64::from(checked.code)), checked.message.as_str());
    same(&got, &want)
}

#[test]
fn refusals() {
    Gate::new("apiserver-static-own", 140).fixture("apiserver/static.jsonl", id, check_static);
    Gate::new("apiserver-static", 302).shared("golden/apiserver/static.jsonl", id, check_static);
}

/// The generated policy on a server, also with `Deny` as the only action.
struct Generated {
    vap: Value,
    binding: Value,
    bound: Server,
    enforced: Server,
}

type PolicyKey = (String, bool, bool);

fn policy_key(row: &Value) -> PolicyKey {
    let flag = |key: &str| row.get(key) == Some(&Value::Bool(true));
    (
        text(row, "source").to_owned(),
        flag("forced"),
        flag("pod_controllers_off"),
    )
}

fn generated(path: &Path) -> BTreeMap<PolicyKey, Generated> {
    let rows: Vec<Value> = jsonl(path);
    let rows = rows.into_iter().filter(|row| text(row, "set") == "corpus");
    let natives = rows.filter(|row| text(&row["vap"], "kind") == "ValidatingAdmissionPolicy");
    let mut generated = BTreeMap::new();
    for row in natives {
        let (vap, object) = (row["vap"].clone(), row["binding"].clone());
        let mut enforced = object.clone();
        enforced["spec"]["validationActions"] = json!(["Deny"]);
        // A policy that was also generated with its exceptions was installed without them.
        let server = |object: &Value| {
            let (policy, binding) = (policy(&vap).expect("a policy"), binding(object).expect("a binding"));
            Server::new([&policy], [&binding], Lens::ApiServer)
        };
        generated.entry(policy_key(&row)).or_insert_with(|| Generated {
            bound: server(&object),
            enforced: server(&enforced),
            vap: vap.clone(),
            binding: object.clone(),
        });
    }
    generated
}

type Resources = BTreeMap<(String, u64), Value>;

/// The request that was sent for a row: an update changes nothing but an annotation.
fn sent(row: &Value, resources: &Resources, discovery: &mut Discovery) -> Result<Request, String> {
    let named = &row["resource"];
    let place = (
        text(named, "file").to_owned(),
        named["doc"].as_u64().unwrap_or_default(),
    );
    let mut object = resources.get(&place).ok_or("no such resource")?.clone();
    let (api_version, kind) = (text(&object, "apiVersion").to_owned(), text(&object, "kind").to_owned());
    discovery.add_guess(&GroupVersionKind::from_api_version(&api_version, &kind), true);
    let served = discovery.by_object(&api_version, &kind).ok_or("not served")?.clone();
    if served.namespaced && text(&object["metadata"], "namespace").is_empty() {
        object["metadata"]["namespace"] = json!("default");
    }
    let operation: Operation = text(row, "operation").parse().map_err(|_| "operation")?;
    let mut request = Request::about(operation, served, Document::from(&object));
    if operation == Operation::Update {
        request.old_object = Document::from(&object);
        object["metadata"]["annotations"]["kyvtest.dev/touched"] = json!("1");
        request.object = Document::from(&object);
    }
    let user = json!({"username": "admin", "groups": ["system:masters", "system:authenticated"]});
    request.user = UserInfo::from_value(Document::from(&user).root());
    request.dry_run = true;
    let kind = match operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete | Operation::Connect => "DeleteOptions",
    };
    let options = json!({"apiVersion": "meta.k8s.io/v1", "kind": kind, "dryRun": ["All"]});
    request.options = Document::from(&options);
    Ok(request)
}

fn check_install(row: &Value, generated: &Generated) -> Result<(), String> {
    let install = &row["install"];
    let object = match text(install, "object") {
        "binding" => &generated.binding,
        _ => &generated.vap,
    };
    let checked = validate_admission(Document::from(object).root());
    if checked.message == text(install, "message") {
        Ok(())
    } else {
        Err(format!("want {}, got {}", text(install, "message"), checked.message))
    }
}

#[test]
fn verdicts() {
    let (Some(verdicts), Some(policies), Some(resources), Some(discovery)) = (
        shared("golden/apiserver/verdicts.jsonl"),
        shared("golden/apiserver/generated.jsonl"),
        shared("golden/apiserver/resources.jsonl"),
        shared("golden/apiserver/discovery.tsv"),
    ) else {
        return;
    };
    let policies = generated(&policies);
    let resources: Vec<Value> = jsonl(&resources);
    let resources: Resources = resources
        .into_iter()
        .map(|mut row| {
            let place = (text(&row, "file").to_owned(), row["doc"].as_u64().unwrap_or_default());
            (place, row["object"].take())
        })
        .collect();
    let mut served = Discovery::kubernetes();
    served.extend(&table(&discovery));
    let rows: Vec<Value> = jsonl(&verdicts);
    let rows: Vec<(usize, Value)> = rows
        .into_iter()
        .enumerate()
        .filter(|(_, row)| row.get("install").is_some() || row["allowed"].is_boolean())
        .collect();
    let id = |(line, row): &(usize, Value)| {
        let (source, named) = (text(row, "source"), &row["resource"]);
        let name = source.rsplit('#').next().unwrap_or_default();
        format!("{name}@{} {} {}", line + 1, text(row, "operation"), text(named, "name"))
    };
    let check = |(_, row): &(usize, Value)| {
        let generated = policies.get(&policy_key(row)).ok_or("no such policy")?;
        if row.get("install").is_some() {
            return check_install(row, generated);
        }
        let mut discovery = served.clone();
        let request = sent(row, &resources, &mut discovery)?;
        let server = if row["enforced"] == true {
            &generated.enforced
        } else {
            &generated.bound
        };
        let world = World::new();
        let answer = server.review(&request, Environment::new(&world, &discovery, &NoHost));
        let got = (answer.allowed, answer.message.as_str());
        let allowed = row["allowed"] == true;
        // Some admitted objects already existed, which does not concern policies.
        let want = (allowed, if allowed { "" } else { text(row, "message") });
        if got != want {
            return Err(format!("want {want:?}, got {got:?}"));
        }
        let warnings: Vec<&str> = items(row, "warnings")
            .filter_map(Value::as_str)
            .filter(of_policy)
            .collect();
        if answer.warnings != warnings {
            return Err(format!("warnings {:?}, not {warnings:?}", answer.warnings));
        }
        Ok(())
    };
    Gate::new("apiserver-verdicts", 7724).run(&rows, id, check);
}

/// The places of a value and of everything in it, as JSON pointers.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    out.push(at.to_owned());
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                places(value, &format!("{at}/{key}"), out);
            }
        }
        Value::Array(list) => {
            for (i, value) in list.iter().enumerate() {
                places(value, &format!("{at}/{i}"), out);
            }
        }
        _ => {}
    }
}

#[test]
fn any_object_is_evaluated_or_rejected() {
    let rows: Vec<Value> = jsonl(&fixture("apiserver/vectors.jsonl"));
    let mut tried = 0;
    for row in rows.iter().step_by(9) {
        let mut all = Vec::new();
        for part in ["policies", "bindings", "request"] {
            places(&row[part], &format!("/{part}"), &mut all);
        }
        for (i, place) in all.iter().enumerate() {
            let others = [
                Value::Null,
                json!(7),
                json!([]),
                json!(""),
                json!({"a": [{"b": null}]}),
                json!("*/*"),
            ];
            let mut row = row.clone();
            row.as_object_mut().expect("a row").remove("seen");
            *row.pointer_mut(place).expect("a place") = others[i % others.len()].clone();
            for object in items(&row, "policies").chain(items(&row, "bindings")) {
                validate_admission(Document::from(object).root());
            }
            // Both results are fine; a panic is not.
            let _ = answer(&row);
            tried += 1;
        }
    }
    assert!(tried > 500, "{tried}");
}
