//! What the gates of rules share that run as `kyverno test` runs them.

use kyvtest_cel::{host::Mocks, time::Timestamp};
use kyvtest_go_compat::value::Document;
use kyvtest_kyverno::offline::{Case, run};
use serde_json::{Value, json};

/// What a run shows of a row; `now` is the time of the run.
pub(crate) fn observe(row: &Value, now: Option<&str>) -> Value {
    let document = Document::from(row);
    let case = Case::read(document.root()).unwrap_or_else(|error| panic!("{}: {error}", row["id"]));
    let mut mocks = Mocks::new();
    mocks.set_seed(0);
    if let Some(now) = now {
        mocks.set_now(Timestamp::parse(now).expect("a time"));
    }
    run(&case, &mocks).to_json()
}

/// The results that upstream may have.
pub(crate) fn outcomes(row: &Value) -> Vec<&Value> {
    match row["outcomes"].as_array() {
        Some(outcomes) => outcomes.iter().collect(),
        None => vec![&row["observed"]],
    }
}

/// The value with numbers as doubles, so that `5` equals `5.0`.
pub(crate) fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), normal(value))).collect(),
        other => other.clone(),
    }
}

/// A panic upstream is an error here, of the run or of a rule.
pub(crate) fn is_error(observed: &Value) -> bool {
    let rules = observed["responses"].as_array().into_iter().flatten();
    let mut rules = rules.flat_map(|response| response["rules"].as_array().into_iter().flatten());
    !observed["error"].is_null() || rules.any(|rule| rule["status"] == "error")
}
