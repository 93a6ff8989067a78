//! Time to normalise the 2,206 recorded resources, already parsed: at most 20 ms on one core.

use std::{fs, path::PathBuf};

use kyvtest_go_compat::value::{Document, Value};
use kyvtest_normalise::{Cluster, Kind, Request, normalise};

fn main() {
    divan::main();
}

fn resources() -> Vec<Document> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = std::env::var_os("KYVTEST_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
    let text = fs::read_to_string(shared.join("golden/apiserver/resources.jsonl")).unwrap_or_default();
    text.lines()
        .filter_map(|line| Document::from_json(line).ok())
        .filter_map(|row| row.root().get("object").map(Value::to_document))
        .collect()
}

#[divan::bench]
fn recorded_resources(bencher: divan::Bencher<'_, '_>) {
    let resources = resources();
    let cluster = Cluster::default();
    bencher.bench(|| {
        let normalised = resources.iter().filter(|resource| {
            let text = |field| resource.root().get(field).and_then(Value::as_str).unwrap_or_default();
            let kind = Kind {
                api_version: text("apiVersion"),
                name: text("kind"),
            };
            normalise(kind, (*resource).into(), None, Request::default(), &cluster, false).is_ok()
        });
        normalised.count()
    });
}
