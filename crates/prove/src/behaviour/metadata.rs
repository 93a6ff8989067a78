//! Labels and annotations to try: what the expressions of a body name, with the texts that they compare with.
//!
//! This is search, not proof. The match part decides whether a label may be set at all: after a change, the caller checks that
//! the request still takes the path it was made for.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use crate::{sides::LoweredRule, witness::Scenario};
use kyvtest_cel::{
    ast::{Expr, ExprId, Literal},
    profile::Profile,
    syntax::parse,
};
use kyvtest_go_compat::value::Document;
use kyvtest_model::kube::Operation;

/// How many keys and values are tried.
const KEYS: usize = 12;
const VALUES: usize = 8;

/// Names that stand on the way to a label and are none.
const STRUCTURE: [&str; 8] = [
    "metadata",
    "labels",
    "annotations",
    "spec",
    "name",
    "namespace",
    "template",
    "status",
];

/// The same request with one more label or annotation on its new object.
pub(super) fn decorated(scenario: &Scenario, body: &LoweredRule) -> Vec<Scenario> {
    let request = &scenario.request;
    let is_written = matches!(request.operation, Operation::Create | Operation::Update);
    if !is_written || request.object.root().is_null() {
        return Vec::new();
    }
    let (keys, values) = words(body);
    let object = request.object.root().to_serde();
    let mut found = Vec::new();
    for value in &values {
        for key in &keys {
            for map in ["labels", "annotations"] {
                let mut object = object.clone();
                if object["metadata"][map].get(key).is_some() {
                    continue;
                }
                object["metadata"][map][key.as_str()] = json!(value);
                let mut one = scenario.clone();
                one.request.object = Document::from(&object);
                found.push(one);
            }
        }
    }
    // All of them at once, for expressions that ask for several.
    for map in ["labels", "annotations"] {
        let mut object: Json = object.clone();
        for key in &keys {
            object["metadata"][map][key.as_str()] = json!("x");
        }
        let mut one = scenario.clone();
        one.request.object = Document::from(&object);
        found.push(one);
    }
    found
}

/// The names that may be keys, and the texts that may be values, in a fixed order.
fn words(body: &LoweredRule) -> (Vec<String>, Vec<String>) {
    let mut keys: BTreeSet<String> = BTreeSet::new();
    let mut values: BTreeSet<String> = BTreeSet::new();
    let texts = body.variables.iter().map(|(_, text)| text);
    for text in texts.chain(&body.conditions).chain(&body.validations) {
        let Ok(ast) = parse(text, &Profile::kubernetes().syntax) else {
            continue;
        };
        for id in (0..ast.len() as u32).map(ExprId) {
            match ast.expr(id) {
                Expr::Select { field, .. } => {
                    keys.insert(field.to_string());
                }
                Expr::Literal(Literal::String(text)) => {
                    values.insert(text.to_string());
                    keys.insert(text.to_string());
                }
                _ => {}
            }
        }
    }
    let is_key = |key: &String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        !key.is_empty() && key.len() < 64 && key.chars().all(plain) && !STRUCTURE.contains(&key.as_str())
    };
    let is_value = |value: &String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        !value.is_empty() && value.len() < 64 && value.chars().all(plain)
    };
    let values = values.into_iter().filter(is_value).take(VALUES);
    (
        keys.into_iter().filter(is_key).take(KEYS).collect(),
        std::iter::once("x".to_owned()).chain(values).collect(),
    )
}
