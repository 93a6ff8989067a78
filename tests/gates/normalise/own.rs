//! A selection of our own rows, for machines without the shared reference data: every area of CREATE, all of UPDATE, the
//! ServiceAccount plugin, schemas of custom resources, and subresources.

use std::{path::PathBuf, sync::Arc};

use kyvtest_go_compat::value::Document;
use kyvtest_normalise::{Cluster, Kind, Operation, Raw, Request, normalise};
use serde::Deserialize;
use serde_json::Value;

use super::{account, create, update};

fn fixture(name: &str) -> PathBuf {
    kyvtest_gates::fixture("normalise").join(name)
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

/// A request to a subresource, as a dry run.
#[derive(Deserialize)]
struct Part {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    subresource: String,
    name: String,
    namespace: String,
    raw: Value,
    #[serde(default)]
    old: Option<Value>,
}

#[test]
fn subresources_agree() {
    let parts: Vec<Part> = kyvtest_gates::jsonl(&fixture("subresources.jsonl"));
    let rows: Vec<create::Row> = kyvtest_gates::jsonl(&fixture("subresources.jsonl"));
    let cluster = Cluster {
        plugins: create::plugins(),
        complete: true,
        ..Cluster::default()
    };
    let mut disagreements = Vec::new();
    for (part, row) in parts.iter().zip(&rows) {
        let kind = Kind {
            api_version: &part.api_version,
            name: &part.kind,
        };
        let operation = if part.old.is_some() {
            Operation::Update
        } else {
            Operation::Create
        };
        let request = Request {
            operation,
            namespace: &part.namespace,
            name: &part.name,
            subresource: &part.subresource,
            dry_run: true,
        };
        let raw = Document::from(&part.raw);
        let old = part.old.as_ref().map(Document::from);
        let found = normalise(
            kind,
            Raw::from(&raw),
            old.as_ref().map(Raw::from),
            request,
            &cluster,
            false,
        );
        let (result, causes) = create::compare(row, found);
        if let Err(difference) = result.and_then(|()| causes.unwrap_or(Ok(()))) {
            disagreements.push(format!("{}: {difference}", row.id));
        }
    }
    kyvtest_gates::at_least("fixtures-subresources", rows.len(), &disagreements, rows.len());
}
