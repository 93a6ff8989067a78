//! What a Kubernetes 1.36 API server answers to native policies: own vectors, and the policies that Kyverno generates from
//! the public ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::LazyLock,
};

use kyvtest::{
    cel::host::NoHost,
    diagnostic::Sources,
    kube::{Discovery, Namespace, Request, World},
    policy::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    value::Document,
    vap::{Answer, Binding, CompiledPolicy, decide},
};
use serde_json::{Value, json};

use crate::support::{Gate, fixture, jsonl, read, shared};

fn table(path: PathBuf) -> Discovery {
    let file = Sources::new().add("discovery.tsv", "");
    Discovery::from_tsv(&read(&path), file).expect("a table")
}

static DISCOVERY: LazyLock<Discovery> = LazyLock::new(|| {
    let mut discovery = Discovery::kubernetes();
    discovery.extend(&table(fixture("apiserver/discovery.tsv")));
    discovery
});

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn id(row: &Value) -> String {
    text(row, "id").to_owned()
}

fn items<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn policy(object: &Value) -> Result<CompiledPolicy, String> {
    let (policy, diagnostics) = ValidatingAdmissionPolicy::from_value(Document::from(object).root());
    let policy = policy.ok_or_else(|| format!("not read: {diagnostics:?}"))?;
    Ok(CompiledPolicy::compile(&policy))
}

fn binding(object: &Value) -> Result<Binding, String> {
    let (binding, diagnostics) = ValidatingAdmissionPolicyBinding::from_value(Document::from(object).root());
    Ok(Binding::new(
        &binding.ok_or_else(|| format!("not read: {diagnostics:?}"))?,
    ))
}

/// The rules of a row as RBAC objects, in the names that the server had for them.
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

fn answer(row: &Value) -> Result<Answer, String> {
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
    Ok(decide(&policies, &bindings, &request, &world, &DISCOVERY, &NoHost))
}

/// Whether a warning is one of a policy: a server warns for other reasons, too.
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
    let Some(path) = shared("golden/apiserver/vectors.jsonl") else {
        return;
    };
    let gate = Gate {
        name: "apiserver-vectors",
        rows: 1647,
    };
    gate.run(&jsonl::<Value>(&path), id, check_vector);
}
