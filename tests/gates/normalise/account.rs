//! Gate `normalise-serviceaccount`: CREATE with the ServiceAccount plugin on.

use std::path::Path;

use kyvtest_go_compat::value::Document;
use kyvtest_normalise::{Cluster, Plugin};

use super::create;

/// The accounts of the recorded cluster.
const ACCOUNTS: &[&str] = &[
    r#"{"kind":"ServiceAccount","metadata":{"name":"default","namespace":"default"}}"#,
    r#"{"kind":"ServiceAccount","metadata":{"name":"pull","namespace":"default"},
        "imagePullSecrets":[{"name":"p1"},{"name":"p2"}]}"#,
    r#"{"kind":"ServiceAccount","metadata":{"name":"noauto","namespace":"default"},"automountServiceAccountToken":false}"#,
    r#"{"kind":"ServiceAccount","metadata":{"name":"enforce","namespace":"default",
        "annotations":{"kubernetes.io/enforce-mountable-secrets":"true"}},"secrets":[{"name":"allowed"}]}"#,
];

/// Compares every row of a file.
pub(crate) fn gate(name: &str, path: &Path) {
    let objects = ACCOUNTS
        .iter()
        .map(|text| Document::from_json(text).expect("an account"));
    let cluster = Cluster {
        plugins: Plugin::DEFAULT.to_vec(),
        objects: objects.collect(),
        complete: true,
        ..Cluster::default()
    };
    let rows: Vec<create::Row> = kyvtest_gates::jsonl(path);
    let mut disagreements = Vec::new();
    for row in &rows {
        let (result, causes) = create::check(row, &cluster);
        if let Err(difference) = result.and_then(|()| causes.unwrap_or(Ok(()))) {
            disagreements.push(format!("{}: {difference}", row.id));
        }
    }
    kyvtest_gates::at_least(name, rows.len(), &disagreements, rows.len());
}
