//! A selection of our own rows, for machines without the shared reference data: every area of CREATE, all of UPDATE, the
//! ServiceAccount plugin, and schemas of custom resources.

#[path = "gates/support.rs"]
mod support;

#[path = "gates/account.rs"]
mod account;
#[path = "gates/create.rs"]
mod create;
#[path = "gates/update.rs"]
mod update;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use kyvtest_go_compat::value::Document;
use kyvtest_normalise::Cluster;
use serde::Deserialize;
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/normalise")
        .join(name)
}

#[test]
fn created_fixtures_agree() {
    create::gate("fixtures-create", &fixture("create.jsonl"));
}

#[test]
fn updated_fixtures_agree() {
    update::gate("fixtures-update", &fixture("update.jsonl"));
}

#[test]
fn account_fixtures_agree() {
    account::gate("fixtures-serviceaccount", &fixture("serviceaccount.jsonl"));
}

/// A row with the definition of its kind.
#[derive(Deserialize)]
struct Defined {
    definition: Value,
    #[serde(flatten)]
    row: create::Row,
}

#[test]
fn custom_resources_agree() {
    let rows: Vec<Defined> = kyvtest_gates::jsonl(&fixture("definitions.jsonl"));
    let mut disagreements = Vec::new();
    for Defined { definition, row } in &rows {
        let cluster = Cluster {
            definitions: vec![Arc::new(Document::from(definition))],
            plugins: create::plugins(),
            complete: true,
            ..Cluster::default()
        };
        let (result, causes) = create::check(row, &cluster);
        if let Err(difference) = result.and_then(|()| causes.unwrap_or(Ok(()))) {
            disagreements.push(format!("{}: {difference}", row.id));
        }
    }
    kyvtest_gates::at_least("fixtures-definitions", rows.len(), &disagreements, rows.len());
}
