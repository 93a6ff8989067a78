//! Gates of proofs: the label of every policy and native policy of the reference data.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use kyvtest::{
    convert::Exceptions,
    diagnostic::Sources,
    eval::{Cluster, Settings},
    kube::Discovery,
    pair::Original,
    policy::{Loaded, Purpose, load},
    prove::{Label, Layer, Options, Proof, Target, prove},
    value::Document,
    yaml,
};
use serde_json::{Value, json};

use crate::support::{Gate, fixture, jsonl, read, shared};

fn add(loaded: &mut Loaded, text: &str, purpose: Purpose) {
    let file = Sources::new().add("input.yaml", text);
    load(
        yaml::read(text, yaml::Mode::Lax, &yaml::Limits::default()),
        file,
        purpose,
        loaded,
    );
}

/// The proof of the one policy among these texts.
fn proof(policy: &str, exceptions: &str, native: Option<&str>, layer: Layer) -> Result<Proof, String> {
    let mut loaded = Loaded::default();
    add(&mut loaded, policy, Purpose::Policies);
    add(&mut loaded, exceptions, Purpose::Exceptions);
    let original = match (loaded.policies.as_slice(), loaded.validating_policies.as_slice()) {
        ([policy, ..], _) => Original::Policy(Arc::clone(policy)),
        (_, [policy, ..]) => Original::ValidatingPolicy(Arc::clone(policy)),
        _ => return Err(format!("no policy: {:?}", loaded.diagnostics)),
    };
    let target = native.map(|native| {
        let mut other = Loaded::default();
        add(&mut other, native, Purpose::Policies);
        Target {
            policies: other.vaps,
            bindings: other.bindings,
        }
    });
    let exceptions = Exceptions {
        classic: &loaded.exceptions,
        cel: &loaded.cel_exceptions,
    };
    let options = Options {
        layer,
        paranoid: true,
        ..Options::default()
    };
    Ok(prove(
        &original,
        exceptions,
        target.as_ref(),
        &Discovery::kubernetes(),
        &options,
    ))
}

fn expect(label: &str, proof: &Proof) -> Result<(), String> {
    if proof.label.as_str() == label {
        return Ok(());
    }
    let regions: Vec<String> = proof
        .regions
        .iter()
        .map(|region| format!("{} {:?} {}", region.class, region.hazard, region.text))
        .collect();
    Err(format!(
        "{} instead of {label}: {} {:?} {regions:#?}",
        proof.label.as_str(),
        proof.reason,
        proof.notes
    ))
}

fn layer(word: &str) -> Layer {
    match word {
        "policy" => Layer::Policy,
        "cluster" => Layer::Cluster,
        _ => Layer::Rule,
    }
}

fn rows(name: &str) -> Vec<Vec<String>> {
    let text = read(&fixture(name));
    text.lines()
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect()
}

/// A policy of the hazards: their writer leaves `n` without quotes, which is a truth value to Kubernetes.
fn quoted(text: &str) -> String {
    text.replace("name: n\n", "name: 'n'\n")
}

fn optional(path: &Path) -> String {
    if path.exists() { read(path) } else { String::new() }
}

#[test]
fn hazards() {
    let Some(folder) = shared("golden/hazards") else { return };
    let rows = rows("gates/prove-hazards.tsv");
    let gate = Gate {
        name: "prove-hazards",
        rows: 58,
    };
    gate.run(
        &rows,
        |row| format!("{}/{}", row[0], row[1]),
        |row| {
            let folder = folder.join(&row[0]);
            let policy = read(&folder.join("policy.yaml"));
            let exceptions = optional(&folder.join("exceptions.yaml"));
            expect(
                &row[2],
                &proof(&quoted(&policy), &quoted(&exceptions), None, layer(&row[1]))?,
            )
        },
    );
}

/// The conversions that upstream's own tests assert: ten hold for single rules, nine for policies.
#[test]
fn conversions() {
    let Some(folder) = shared("golden/vap-generation") else {
        return;
    };
    let refuted = [
        "cpol-all-match-resource",
        "cpol-any-exclude-namespace-match-resource",
        "cpol-any-exclude-resource-match-with-object-selector",
        "cpol-match-all-exclude-one",
        "cpol-match-kind-with-wildcard",
        "cpol-with-an-exception-excluding-namespaces",
    ];
    let mut rows = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(short) = name.strip_prefix("cpol-generate__") else {
            continue;
        };
        for layer in [Layer::Rule, Layer::Policy] {
            let differs = refuted.contains(&short) || layer == Layer::Policy && short == "block-ephemeral-containers";
            rows.push((short.to_owned(), layer, if differs { "REFUTED" } else { "PROVEN" }));
        }
    }
    rows.sort_by_key(|row| (row.0.clone(), row.1.as_str()));
    let gate = Gate {
        name: "prove-conversions",
        rows: 32,
    };
    gate.run(
        &rows,
        |(name, layer, _)| format!("{name}/{}", layer.as_str()),
        |(name, layer, label)| {
            let folder = folder.join(format!("cpol-generate__{name}"));
            let text = |name: &str| optional(&folder.join(name));
            let native = format!("{}\n---\n{}", text("expected_vap.yaml"), text("expected_vapb.yaml"));
            expect(
                label,
                &proof(&text("policy.yaml"), &text("exceptions.yaml"), Some(&native), *layer)?,
            )
        },
    );
}

/// A stand-in of the cases for a match condition, written in CEL.
fn condition(value: &Value) -> String {
    let subject = "(object != null ? object : oldObject)";
    if let Some(word) = value.as_str() {
        return word.to_owned();
    }
    if let Some(word) = value.as_bool() {
        return word.to_string();
    }
    let (name, inner) = value
        .as_object()
        .and_then(|map| map.iter().next())
        .expect("a condition");
    let list = || inner.to_string();
    let all = |word: &str| {
        let parts: Vec<String> = inner.as_array().expect("a list").iter().map(condition).collect();
        format!("({})", parts.join(word))
    };
    let regex = || {
        let text = inner.as_str().expect("a glob");
        format!("matches('^{}$')", text.replace('*', ".*").replace('?', "."))
    };
    let entry = |map: &str| {
        let (key, value) = (&inner[0], &inner[1]);
        format!("{subject}.metadata.?{map}[?{key}].orValue('') == {value}")
    };
    match name.as_str() {
        "not" => format!("!({})", condition(inner)),
        "and" => all(" && "),
        "or" => all(" || "),
        "namespaceIn" => format!("request.namespace in {}", list()),
        "nameIn" => format!("{subject}.metadata.name in {}", list()),
        "nameGlob" => format!("{subject}.metadata.name.{}", regex()),
        "namespaceGlob" => format!("request.namespace.{}", regex()),
        "usernameIn" => format!("request.userInfo.username in {}", list()),
        "usernameGlob" => {
            let text = inner.as_str().expect("a glob").trim_end_matches('*');
            format!("request.userInfo.username.startsWith('{text}')")
        }
        "groupsEq" => format!("request.userInfo.groups == {}", list()),
        "annotation" => entry("annotations"),
        "label" => entry("labels"),
        "kindIn" => format!("request.kind.kind in {}", list()),
        "operationIn" => format!("request.operation in {}", list()),
        other => panic!("unknown condition {other}"),
    }
}

fn conditions(value: &Value) -> Vec<Value> {
    let all = value.as_array().into_iter().flatten().enumerate();
    all.map(|(i, value)| json!({"name": format!("c{i}"), "expression": condition(value)}))
        .collect()
}

fn cases() -> Option<BTreeMap<String, Value>> {
    let folder = shared("proto/matchproof")?;
    let mut all = BTreeMap::new();
    for name in ["cases_seeds.yaml", "cases_gen.yaml", "cases_conf.yaml"] {
        let text = read(&folder.join(name));
        let list = Document::from_yaml(&text).expect("YAML").root().to_serde();
        for case in list.as_array().expect("a list") {
            all.insert(case["id"].as_str().expect("an id").to_owned(), case.clone());
        }
    }
    Some(all)
}

fn prove_case(id: &str, case: &Value, skipped: Option<&Path>) -> Result<Proof, String> {
    let layer = match (&case["autogen"], case["layer"].as_str()) {
        (_, Some("helm")) => Layer::Cluster,
        (Value::Bool(true), _) => Layer::Policy,
        _ => Layer::Rule,
    };
    if let (Some(folder), Some(_)) = (skipped, case["notConvertible"].as_str()) {
        let name = id.rsplit('/').next().unwrap_or_default();
        let folder = folder.join(format!("cpol-skip__{name}"));
        return proof(
            &read(&folder.join("policy.yaml")),
            &optional(&folder.join("exceptions.yaml")),
            None,
            layer,
        );
    }
    let validations = json!([{"expression": "false", "message": "no"}]);
    let policy = if case["vpol"].is_object() {
        let mut spec = case["vpol"].clone();
        spec["matchConditions"] = conditions(&case["vpol"]["matchConditions"]).into();
        spec["validations"] = validations.clone();
        json!({"apiVersion": "policies.kyverno.io/v1", "kind": "ValidatingPolicy", "metadata": {"name": "p"}, "spec": spec})
    } else {
        let mut rule = case["rule"].clone();
        rule.as_object_mut().expect("a rule").remove("exceptions");
        rule["name"] = json!("r");
        rule["celPreconditions"] = conditions(&case["ruleConditions"]).into();
        rule["validate"] =
            json!({"failureAction": "Enforce", "cel": {"generate": true, "expressions": validations.clone()}});
        json!({
            "apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"},
            "spec": {"background": false, "rules": [rule]}
        })
    };
    let exceptions = case["rule"]["exceptions"].as_array().into_iter().flatten().enumerate();
    let exceptions: Vec<String> = exceptions
        .map(|(i, block)| {
            let object = json!({
                "apiVersion": "kyverno.io/v2", "kind": "PolicyException",
                "metadata": {"name": format!("e{i}"), "namespace": "default"},
                "spec": {"match": block, "exceptions": [{"policyName": "p", "ruleNames": if layer == Layer::Rule { vec!["r"] } else { vec!["r", "autogen-r"] }}]}
            });
            object.to_string()
        })
        .collect();
    let native = case["vap"].is_object().then(|| {
        let mut spec = case["vap"].clone();
        spec["matchConditions"] = conditions(&case["vap"]["matchConditions"]).into();
        spec["validations"] = validations;
        spec["failurePolicy"] = json!("Fail");
        let vap = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "v"}, "spec": spec
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "b"}, "spec": {"policyName": "v", "validationActions": ["Deny"]}
        });
        format!("{vap}\n---\n{binding}")
    });
    proof(
        &policy.to_string(),
        &exceptions.join("\n---\n"),
        native.as_deref(),
        layer,
    )
}

#[test]
fn prototype_cases() {
    let Some(cases) = cases() else { return };
    let skipped = shared("golden/vap-generation");
    let rows = rows("gates/prove-cases.tsv");
    let gate = Gate {
        name: "prove-cases",
        rows: 130,
    };
    gate.run(
        &rows,
        |row| row[0].clone(),
        |row| {
            let case = cases.get(&row[0]).ok_or("no such case")?;
            let proof = prove_case(&row[0], case, skipped.as_deref())?;
            if row[1] == "NOT-CONVERTIBLE" && proof.notes.iter().any(|note| note == "not-marked") {
                return Ok(());
            }
            if let Label::Refuted(_) = proof.label
                && proof.regions.is_empty()
            {
                return Err("refuted without a witness".to_owned());
            }
            expect(&row[1], &proof)
        },
    );
}

/// Every small change of a native policy that is proven, and how many of them the prover tells apart. What stays proven must be
/// the same policy where the kinds are those of the table: rules for groups, scopes and operations that a resource does not have.
#[test]
fn mutants_of_proven_policies_are_refuted() {
    let Some(folder) = shared("golden/vap-generation") else {
        return;
    };
    let (mut refuted, mut proven, mut other) = (0, 0, 0);
    for name in [
        "cpol-any-exclude-resource",
        "cpol-any-match-multiple-resources",
        "cpol-any-match-resources-by-names",
        "cpol-match-resource-in-specific-namespace",
        "cpol-with-an-exception",
        "cpol-any-exclude-resource-match-with-namespace-selector",
    ] {
        let folder = folder.join(format!("cpol-generate__{name}"));
        let text = |name: &str| optional(&folder.join(name));
        let vap = Document::from_yaml(&text("expected_vap.yaml"))
            .expect("YAML")
            .root()
            .to_serde();
        for mutant in mutants(&vap) {
            let native = format!("{mutant}\n---\n{}", text("expected_vapb.yaml"));
            let proof = proof(
                &text("policy.yaml"),
                &text("exceptions.yaml"),
                Some(&native),
                Layer::Rule,
            )
            .expect("a policy");
            match proof.label {
                Label::Refuted(_) => refuted += 1,
                Label::Proven => proven += 1,
                _ => other += 1,
            }
        }
    }
    assert_eq!(other, 0, "labels other than proven and refuted");
    assert!(
        refuted >= 40 && proven * 4 <= refuted * 3,
        "{refuted} refuted, {proven} proven"
    );
}

fn mutants(vap: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    let constraints = &vap["spec"]["matchConstraints"];
    for key in ["excludeResourceRules", "namespaceSelector", "objectSelector"] {
        if !constraints[key].is_null() {
            let mut mutant = vap.clone();
            mutant["spec"]["matchConstraints"]
                .as_object_mut()
                .expect("a map")
                .remove(key);
            all.push(mutant);
        }
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        for i in 0..constraints[list].as_array().map_or(0, Vec::len) {
            let rule = format!("/spec/matchConstraints/{list}/{i}");
            for key in ["operations", "resources", "resourceNames"] {
                let count = vap
                    .pointer(&format!("{rule}/{key}"))
                    .and_then(Value::as_array)
                    .map_or(0, Vec::len);
                for at in 0..count {
                    let mut changed = vap.clone();
                    *changed.pointer_mut(&format!("{rule}/{key}/{at}")).expect("an entry") = match key {
                        "operations" => json!("CONNECT"),
                        "resources" => json!("configmaps"),
                        _ => json!("another"),
                    };
                    all.push(changed);
                    if count > 1 {
                        let mut fewer = vap.clone();
                        let entries = fewer
                            .pointer_mut(&format!("{rule}/{key}"))
                            .and_then(Value::as_array_mut);
                        entries.expect("a list").remove(at);
                        all.push(fewer);
                    }
                }
            }
        }
    }
    all
}

/// What a live cluster was seen to decide differently is never proven to be the same.
#[test]
fn observed_differences_are_not_proven() {
    let Some(folder) = shared("golden/kyverno-live") else {
        return;
    };
    let mut all: BTreeMap<String, (String, String, Layer)> = BTreeMap::new();
    for name in ["conversions.jsonl", "vectors.jsonl"] {
        for row in jsonl::<Value>(&folder.join(name)) {
            let differs = row["pair"].as_str().is_some_and(|pair| pair != "agree");
            let texts = |key: &str| -> String {
                let objects: Vec<String> = row[key]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(Value::to_string)
                    .collect();
                objects.join("\n---\n")
            };
            let single = row["policies"].as_array().is_some_and(|list| list.len() == 1);
            if differs && single {
                let layer = if row["config"] == "chart" {
                    Layer::Cluster
                } else {
                    Layer::Policy
                };
                let (policy, exceptions) = (texts("policies"), texts("exceptions"));
                all.insert(format!("{policy}{exceptions}"), (policy, exceptions, layer));
            }
        }
    }
    let rows: Vec<(String, String, Layer)> = all.into_values().collect();
    let gate = Gate {
        name: "prove-live",
        rows: 40,
    };
    gate.run(
        &rows,
        |(policy, ..)| {
            let value: Value = serde_json::from_str(policy).expect("JSON");
            value["metadata"]["name"].to_string()
        },
        |(policy, exceptions, layer)| match proof(policy, exceptions, None, *layer)?.label {
            Label::Proven => Err("proven, but observed to differ".to_owned()),
            _ => Ok(()),
        },
    );
}

/// A small world: every constant as it is and with a letter more, on every resource and operation of the policy's kinds. Nothing of
/// the prover is used, so what it proved is tested independently.
#[test]
fn proven_policies_have_no_small_counterexample() {
    let Some(folder) = shared("golden/vap-generation") else {
        return;
    };
    for name in [
        "cpol-any-exclude-resource",
        "cpol-any-match-multiple-resources",
        "cpol-any-match-resources-by-names",
        "cpol-match-resource-in-specific-namespace",
        "cpol-with-an-exception",
        "cpol-with-two-exceptions",
        "cpol-any-exclude-resource-match-with-namespace-selector",
    ] {
        let folder = folder.join(format!("cpol-generate__{name}"));
        let text = |name: &str| optional(&folder.join(name));
        let mut documents = Vec::new();
        for part in [
            "policy.yaml",
            "exceptions.yaml",
            "expected_vap.yaml",
            "expected_vapb.yaml",
        ] {
            let whole = text(part);
            let pieces = whole.split("\n---").filter(|piece| !piece.trim().is_empty());
            documents.extend(pieces.map(|piece| Document::from_yaml(piece).expect("YAML")));
        }
        let names = [
            "x",
            "staging",
            "important-tool",
            "important-toolx",
            "testing",
            "testingx",
        ];
        let namespaces = ["apps", "prod", "production", "staging", "testing-ns", "default"];
        for labels in [
            json!({}),
            json!({"app": "critical"}),
            json!({"type": "connector"}),
            json!({"app": "x"}),
        ] {
            let mut objects = documents.clone();
            objects.extend(namespaces.map(|namespace| {
                let metadata = json!({"name": namespace, "labels": labels});
                Document::from(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
            }));
            let cluster = Cluster::new(&objects, &Settings::default());
            for (api, kind) in [
                ("apps/v1", "Deployment"),
                ("apps/v1", "StatefulSet"),
                ("v1", "ConfigMap"),
                ("v1", "Pod"),
            ] {
                for (name, namespace) in names
                    .iter()
                    .flat_map(|name| namespaces.map(|namespace| (*name, namespace)))
                {
                    let object = json!({
                        "apiVersion": api, "kind": kind,
                        "metadata": {"name": name, "namespace": namespace, "labels": labels},
                        "spec": {"replicas": 100, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
                    });
                    for request in [
                        json!({"operation": "CREATE", "object": object}),
                        json!({"operation": "UPDATE", "object": object, "oldObject": object}),
                        json!({"operation": "DELETE", "oldObject": object}),
                    ] {
                        let mut request = request;
                        request["userInfo"] = json!({"username": "alice", "groups": ["system:authenticated"]});
                        let read = cluster.request(Document::from(&request).root()).expect("a request");
                        let answers = cluster.decide(&read);
                        let class = answers.divergence.map(|divergence| divergence.class);
                        assert!(class.is_none_or(|class| !class.fails()), "{class:?} {request}");
                    }
                }
            }
        }
    }
}
