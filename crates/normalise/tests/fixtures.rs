//! A selection of our own rows, for machines without the shared reference data: every area of CREATE, all of UPDATE, and
//! the ServiceAccount plugin.

#[path = "gates/support.rs"]
#[expect(dead_code, reason = "the fixtures need no shared data")]
mod support;

#[path = "gates/account.rs"]
mod account;
#[path = "gates/create.rs"]
mod create;
#[path = "gates/update.rs"]
mod update;

use std::path::{Path, PathBuf};

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
