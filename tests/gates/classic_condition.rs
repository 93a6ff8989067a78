//! `preconditions` and `deny.conditions`: every operator on every pair of types, and blocks of conditions.

use std::sync::Arc;

use kyvtest::{
    kyverno::classic::{
        condition::{Condition, Conditions},
        context::{Context, NoOutside},
        variables::substitute_preconditions,
    },
    value::{Data, Document},
};
use serde_json::Value;

use crate::{
    classic_pattern::{data, doubles},
    support::{Gate, id, text},
};

fn same(ours: &Value, row: &Value) -> Result<(), String> {
    for part in ["result", "message", "error"] {
        let (ours, theirs) = (ours.get(part), row.get(part));
        if ours != theirs {
            return Err(format!("{part}: ours {ours:?}, expected {theirs:?}"));
        }
    }
    Ok(())
}

fn check(row: &Value) -> Result<(), String> {
    let document = doubles(data(row.get("context").unwrap_or(&Value::Null)));
    let document = if document.is_null() {
        Data::Map(Arc::default())
    } else {
        document
    };
    let mut context = Context::from_data(document, &NoOutside);
    let mut substitute = |data: &Data| substitute_preconditions(data, &mut context).map_err(|error| error.to_string());
    if text(row, "fn") == "cond" {
        let condition = Condition::read(Document::from(row).root());
        let ours = condition.evaluate(&mut substitute);
        if row.get("panic").is_some() {
            return match ours {
                Err(_) => Ok(()),
                Ok(value) => Err(format!("ours {value}, upstream panics")),
            };
        }
        return match ours {
            Ok(result) => same(&serde_json::json!({ "result": result }), row),
            Err(error) => same(&serde_json::json!({ "error": error }), row),
        };
    }
    let blocks: Vec<Conditions> = if let Some(list) = row.get("list") {
        vec![Conditions::read(Document::from(list).root())]
    } else {
        let blocks = row["anyall"].as_array().into_iter().flatten();
        blocks
            .map(|block| Conditions::read(Document::from(block).root()))
            .collect()
    };
    let mut messages = Vec::new();
    for block in &blocks {
        match block.evaluate(&mut substitute) {
            Err(error) => return same(&serde_json::json!({ "error": error }), row),
            Ok(answer) if !answer.holds => {
                return same(&serde_json::json!({ "result": false, "message": answer.message }), row);
            }
            Ok(answer) => messages.push(answer.message),
        }
    }
    messages.retain(|message| !message.is_empty());
    same(
        &serde_json::json!({ "result": true, "message": messages.join(";") }),
        row,
    )
}

#[test]
fn classic_condition() {
    Gate::new("classic-condition", 11490).shared("golden/classic/condition.jsonl", id, check);
    Gate::new("classic-condition-own", 552).fixture("classic/condition.jsonl", id, check);
}
