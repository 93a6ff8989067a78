//! Pairs of mutations that are written differently, of which it is known whether they make the same objects; and changes of
//! those that do, which must be told apart.

use std::{fs, path::PathBuf};

use kyvtest_go_compat::value::Document;
use kyvtest_model::kube::Discovery;
use kyvtest_prove::{
    Label, Layer,
    body::{
        Comparison, Options, load,
        mutation::{MutatingSide, compare_mutating_sides},
    },
};
use serde_json::{Value as Json, json};

fn cases() -> Vec<Json> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/prove/mutation/texts.yaml");
    let text = fs::read_to_string(path).expect("the fixture");
    let document = Document::from_yaml(&text).expect("YAML");
    document.root().to_serde().as_array().expect("a list").clone()
}

/// The objects of a side: those that are written, or a policy of its own for a rule, or for the spec of a policy.
fn objects(case: &Json) -> Vec<Json> {
    let written = case["objects"].as_array().cloned();
    written.unwrap_or_else(|| vec![policy(case)])
}

fn policy(case: &Json) -> Json {
    let filled = |mut base: Json, own: &Json| {
        for (key, value) in own.as_object().expect("a map") {
            base[key] = value.clone();
        }
        base
    };
    if let Some(rule) = case.get("rule") {
        let kinds = json!({"any": [{"resources": {"kinds": ["Pod"]}}]});
        return json!({
            "apiVersion": "kyverno.io/v1",
            "kind": "ClusterPolicy",
            "metadata": {"name": "mutation", "annotations": {"pod-policies.kyverno.io/autogen-controllers": "none"}},
            "spec": {"rules": [filled(json!({"name": "mutate", "match": kinds}), rule)]},
        });
    }
    let rules = json!([{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
        "resources": ["pods", "pods/ephemeralcontainers"],
    }]);
    let base = json!({
        "autogen": {"podControllers": {"controllers": []}},
        "matchConstraints": {"resourceRules": rules},
    });
    json!({
        "apiVersion": "policies.kyverno.io/v1",
        "kind": "MutatingPolicy",
        "metadata": {"name": "mutation"},
        "spec": filled(base, &case["policy"]),
    })
}

fn compare(a: &[Json], b: &[Json], checks: u64) -> Result<Comparison, String> {
    let discovery = Discovery::kubernetes();
    let side = |objects: &[Json]| {
        let (loaded, _) = load(objects)?;
        MutatingSide::new(loaded, &discovery, Layer::default())
    };
    let options = Options {
        checks,
        ..Options::default()
    };
    Ok(compare_mutating_sides(&side(a)?, &side(b)?, &[], &discovery, &options))
}

const fn word(label: &Label) -> &'static str {
    match label {
        Label::Proven => "PROVEN",
        Label::Refuted(_) => "REFUTED",
        Label::Tested { .. } => "TESTED",
        _ => "UNKNOWN",
    }
}

#[test]
fn mutations_with_different_texts_are_compared_by_their_objects() {
    let mut wrong = Vec::new();
    for case in cases() {
        let found = compare(&objects(&case["a"]), &objects(&case["b"]), Options::THOROUGH).expect("two policies");
        assert!(!found.fault, "{}: {}", case["note"], found.reason);
        let label = word(&found.label);
        if case["label"] != label {
            wrong.push(format!("{}: {label} {}", case["note"], found.reason));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The expressions in which one text constant, Boolean or number is another one.
fn changed(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find('\'').map(|at| from + at + 1) {
        let Some(end) = text[start..].find('\'').map(|at| start + at) else {
            break;
        };
        all.push(format!("{}x{}", &text[..end], &text[end..]));
        from = end + 1;
    }
    for (word, other) in [("true", "false"), ("false", "true"), ("has(", "!has(")] {
        if let Some(at) = text.find(word) {
            all.push(format!("{}{other}{}", &text[..at], &text[at + word.len()..]));
        }
    }
    all
}

#[test]
fn proven_mutations_are_told_from_their_changes() {
    let mut stayed = Vec::new();
    let mut tried = 0;
    for case in cases().iter().filter(|case| case["label"] == "PROVEN") {
        let (a, b) = (objects(&case["a"]), objects(&case["b"]));
        let mutations = b[0]["spec"]["mutations"].as_array().cloned().unwrap_or_default();
        for (number, mutation) in mutations.iter().enumerate() {
            let part = if mutation["patchType"] == "JSONPatch" {
                "jsonPatch"
            } else {
                "applyConfiguration"
            };
            let text = mutation[part]["expression"].as_str().expect("an expression");
            for expression in changed(text) {
                let mut other = b.clone();
                other[0]["spec"]["mutations"][number][part]["expression"] = json!(expression);
                let Ok(found) = compare(&a, &other, 8) else { continue };
                tried += 1;
                assert!(!found.fault, "{expression}: {}", found.reason);
                if found.label == Label::Proven {
                    stayed.push(expression);
                }
            }
        }
    }
    assert!(tried > 60, "{tried} changes");
    // What a later mutation overwrites makes no difference.
    stayed.retain(|expression| !expression.contains("'nonex'"));
    assert!(stayed.is_empty(), "{}", stayed.join("\n"));
}
