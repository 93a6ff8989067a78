//! Gates of autogen: the controllers, the names of rules, and their contents.

use std::sync::Arc;

use kyvtest::{
    diagnostic::Sources,
    kyverno::autogen::{self, Eligibility},
    policy::{ClassicPolicy, Loaded, Purpose, Rule, ValidatingPolicy, load},
    yaml,
};
use serde_json::{Map, Value, json};

use crate::support::{Gate, fixture, id, jsonl, text};

pub(crate) fn loaded(policy: &str) -> (Loaded, Sources) {
    let mut sources = Sources::new();
    let file = sources.add("policy.yaml", policy);
    let stream = yaml::read(policy, yaml::Mode::Lax, &yaml::Limits::default());
    let mut loaded = Loaded::default();
    load(stream, file, Purpose::Policies, &mut loaded);
    (loaded, sources)
}

fn same(what: &str, ours: &Value, theirs: &Value) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    Err(format!("{what}: ours {ours}, expected {theirs}"))
}

/// Parts with the author's own text, in which null and empty are significant.
const VERBATIM: [&str; 5] = ["pattern", "anyPattern", "patchStrategicMerge", "value", "key"];

/// Omits what Go omits when it writes a typed value.
fn prune(value: &Value) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(map) => {
            let mut pruned = Map::new();
            for (key, value) in map {
                let value = if VERBATIM.contains(&key.as_str()) {
                    value.clone()
                } else {
                    prune(value)
                };
                if VERBATIM.contains(&key.as_str()) || !(is_empty(&value) || is_schema_default(key, &value)) {
                    pruned.insert(key.clone(), value);
                }
            }
            Value::Object(pruned)
        }
        Value::Array(list) => Value::Array(list.iter().map(prune).collect()),
        _ => value.clone(),
    }
}

/// Schema defaults deep in `verifyImages`, which do not concern autogen.
fn is_schema_default(key: &str, value: &Value) -> bool {
    key == "signatureAlgorithm" && value == "sha256"
}

fn default(map: &mut Value, key: &str, value: Value) {
    if let Some(map) = map.as_object_mut() {
        let place = map.entry(key).or_insert(Value::Null);
        if place.is_null() {
            *place = value;
        }
    }
}

/// The defaults of the schema.
fn defaulted(rule: &Rule) -> Value {
    let mut json = rule.source.document().root().to_serde();
    default(&mut json, "skipBackgroundRequests", json!(true));
    if let Some(validate) = json.get_mut("validate") {
        let existing = rule
            .validate
            .as_ref()
            .and_then(|validate| validate.allow_existing_violations);
        if existing == Some(true) {
            default(validate, "allowExistingViolations", json!(true));
        }
        if let Some(cel) = validate.get_mut("cel") {
            default(cel, "generate", json!(false));
        }
        for item in validate
            .get_mut("foreach")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            contexts(item);
        }
    }
    if let Some(mutate) = json.get_mut("mutate") {
        for item in mutate
            .get_mut("foreach")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            contexts(item);
        }
    }
    contexts(&mut json);
    for images in json
        .get_mut("verifyImages")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        for (key, value) in [
            ("mutateDigest", true),
            ("verifyDigest", true),
            ("required", true),
            ("useCache", true),
        ] {
            default(images, key, json!(value));
        }
    }
    prune(&json)
}

fn contexts(owner: &mut Value) {
    for entry in owner
        .get_mut("context")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(call) = entry.get_mut("apiCall") {
            default(call, "method", json!("GET"));
        }
    }
}

/// The typed rule agrees with its tree.
fn typed(rule: &Rule, json: &Value) -> Result<(), String> {
    same("typed name", &json!(rule.name.value), &json["name"])?;
    if let Some(cel) = rule.validate.as_ref().and_then(|validate| validate.cel.as_ref()) {
        let json = &json["validate"]["cel"];
        let ours: Vec<&str> = cel
            .expressions
            .iter()
            .map(|validation| validation.expression.text())
            .collect();
        let theirs: Vec<&Value> = json["expressions"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|validation| &validation["expression"])
            .collect();
        same("typed expressions", &json!(ours), &json!(theirs))?;
        let ours: Vec<&str> = cel
            .variables
            .iter()
            .map(|variable| variable.expression.text())
            .collect();
        let theirs: Vec<&Value> = json["variables"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|variable| &variable["expression"])
            .collect();
        same("typed variables", &json!(ours), &json!(theirs))?;
    }
    Ok(())
}

fn check_policy(policy: &ClassicPolicy, expected: &Value) -> Result<(), String> {
    let eligibility = autogen::eligibility(policy);
    same(
        "canAutogen",
        &json!(eligibility == Eligibility::Eligible),
        &expected["canAutogen"],
    )?;
    let controllers: &[&str] = match eligibility {
        Eligibility::Eligible => &autogen::CONTROLLERS,
        Eligibility::WrongRule => &["none"],
        Eligibility::WrongMatch => &[],
    };
    same("controllers", &json!(controllers), &expected["controllers"])?;
    let all = autogen::all_rules(policy);
    let mut kinds: Vec<&str> = all
        .iter()
        .flat_map(|rule| rule.matches.kinds())
        .map(|kind| kind.text.as_str())
        .collect();
    kinds.sort_unstable();
    same("autogenKinds", &json!(kinds), &or_empty(&expected["autogenKinds"]))?;
    let names: Vec<&str> = all.iter().map(|rule| rule.name.value.as_str()).collect();
    same(
        "autogenRuleNames",
        &json!(names),
        &or_empty(&expected["autogenRuleNames"]),
    )?;
    for (kind, expected) in expected["perKind"].as_object().into_iter().flatten() {
        let rules = if kind == "all" {
            autogen::all_rules(policy)
        } else {
            autogen::rules_for(policy, kind)
        };
        let names: Vec<&str> = rules.iter().map(|rule| rule.name.value.as_str()).collect();
        if let Some(expected) = expected.get("names") {
            same(&format!("{kind} names"), &json!(names), &or_empty(expected))?;
        }
        let Some(expected) = expected.get("generated").and_then(Value::as_array) else {
            continue;
        };
        let generated: Vec<&Rule> = rules
            .iter()
            .filter(|rule| !policy.spec.rules.iter().any(|written| written.name == rule.name))
            .map(AsRef::as_ref)
            .collect();
        for (rule, expected) in generated.iter().zip(expected) {
            let json = defaulted(rule);
            same(&format!("{kind} {}", rule.name.value), &json, &prune(expected))?;
            typed(rule, expected)?;
        }
        same(
            &format!("{kind} count"),
            &json!(generated.len()),
            &json!(expected.len()),
        )?;
    }
    Ok(())
}

fn or_empty(value: &Value) -> Value {
    if value.is_null() { json!([]) } else { value.clone() }
}

fn check_validating(policy: &ValidatingPolicy, expected: &Value) -> Result<(), String> {
    let mut ours = Map::new();
    for variant in autogen::variants(policy) {
        let targets: Vec<Value> = variant
            .targets
            .iter()
            .map(|target| {
                json!({
                    "group": target.group, "version": target.version, "resource": target.resource, "kind": target.kind,
                })
            })
            .collect();
        let spec = variant.policy.spec.source.document().root().to_serde();
        ours.insert(
            variant.config.name().to_owned(),
            json!({ "targets": targets, "spec": prune(&spec) }),
        );
        let validations = &variant.policy.spec.validations;
        let typed: Vec<&str> = validations
            .iter()
            .map(|validation| validation.expression.text())
            .collect();
        let raw: Vec<&Value> = expected[variant.config.name()]["spec"]["validations"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|validation| &validation["expression"])
            .collect();
        same("typed validations", &json!(typed), &json!(raw))?;
    }
    let theirs: Map<String, Value> = expected
        .as_object()
        .into_iter()
        .flatten()
        .map(|(config, value)| {
            let spec = prune(&value["spec"]);
            (config.clone(), json!({ "targets": value["targets"], "spec": spec }))
        })
        .collect();
    same("autogen", &Value::Object(ours), &Value::Object(theirs))
}

fn check(row: &Value) -> Result<(), String> {
    let (loaded, _) = loaded(text(row, "policy"));
    let expected = row["policies"].as_array().cloned().unwrap_or_default();
    same("policies", &json!(loaded.classic().count()), &json!(expected.len()))?;
    for (policy, expected) in loaded.classic().zip(&expected) {
        check_policy(policy, expected).map_err(|difference| format!("{}: {difference}", text(expected, "policy")))?;
    }
    let validating: Vec<&Arc<ValidatingPolicy>> = loaded.validating().collect();
    let Some(expected) = row.get("validatingPolicies").and_then(Value::as_array) else {
        // Upstream's loader drops policies that are not for Kubernetes, and rows of other kinds have none.
        let made = validating
            .iter()
            .map(|policy| autogen::variants(policy).len())
            .sum::<usize>();
        return same("variants", &json!(made), &json!(0));
    };
    same("validatingPolicies", &json!(validating.len()), &json!(expected.len()))?;
    for (policy, expected) in validating.iter().zip(expected) {
        check_validating(policy, &expected["autogen"])?;
    }
    Ok(())
}

#[test]
fn autogen_own() {
    Gate::new("autogen-own", 99).fixture("classic/autogen.jsonl", id, check);
}

#[test]
fn autogen_shared() {
    Gate::new("autogen", 91).shared("golden/classic/autogen.jsonl", id, check);
}

#[test]
fn autogen_corpus() {
    Gate::new("autogen-corpus", 370).shared("golden/classic/autogen_corpus.jsonl", id, check);
}

#[test]
fn a_generated_expression_points_at_its_source() {
    let rows: Vec<Value> = jsonl(&fixture("classic/autogen.jsonl"));
    let row = rows
        .iter()
        .find(|row| id(row) == "ag-own-0006")
        .expect("the row is there");
    let source = text(row, "policy");
    let (loaded, _) = loaded(source);
    let policy = loaded.classic().next().expect("the row has a policy");
    for kind in ["Deployment", "CronJob"] {
        let rules = autogen::rules_for(policy, kind);
        let cel = rules[1].validate.as_ref().and_then(|validate| validate.cel.as_ref());
        let expression = &cel.expect("a rule in CEL").expressions[0].expression;
        // The last word is on another line of the source, after three rewritten positions.
        for word in ["containers", "namespace", "hostNetwork"] {
            let at = expression.text().find(word).expect("the word is there");
            let place = expression.part(at, at + word.len());
            assert_eq!(&source[place.start as usize..place.end as usize], word);
        }
    }
}
