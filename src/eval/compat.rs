//! The lines of `kyvtest eval --compat --cases`: one JSON object per line with a test of one resource in, the responses
//! of `kyverno test` out.
//!
//! Upstream counterpart: see [`kyvtest_kyverno::offline`].

use serde_json::{Value as Json, json};

use super::{
    Settings,
    line::{Line, unreadable},
};
use kyvtest_cel::host::Mocks;
use kyvtest_go_compat::value::Document;
use kyvtest_kyverno::offline::{Case, run};

/// Evaluates one line.
pub fn answer(text: &str, settings: &Settings) -> Line {
    let row: Json = match serde_json::from_str(text) {
        Ok(row) => row,
        Err(error) => return unreadable(Json::Null, &format!("not JSON: {error}")),
    };
    let id = row.get("id").cloned().unwrap_or(Json::Null);
    let case = match Case::read(Document::from(&row).root()) {
        Ok(case) => case,
        Err(problem) => return unreadable(id, &problem),
    };
    let mut mocks = Mocks::new();
    mocks.set_seed(0);
    if let Some(now) = settings.now {
        mocks.set_now(now);
    }
    Line {
        answer: json!({"id": id, "observed": run(&case, &mocks).to_json()}),
        readable: true,
    }
}
