//! Compares the pairs of a file of JSON lines and prints one line each; for development.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::{collections::BTreeMap, time::Instant};

use kyvtest_model::kube::Discovery;
use kyvtest_prove::body::{Options, Side, compare_sides};

fn main() {
    let mut args = std::env::args().skip(1);
    let text = std::fs::read_to_string(args.next().unwrap()).unwrap();
    let filter = args.next().unwrap_or_default();
    let discovery = Discovery::kubernetes();
    let options = Options {
        collections: false,
        ..Options::default()
    };
    let mut table: BTreeMap<(String, String, String), u32> = BTreeMap::new();
    for line in text.lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let id = row["id"].as_str().unwrap();
        if !id.contains(&filter) {
            continue;
        }
        let start = Instant::now();
        let side = |key: &str| Side::from_objects(row[key].as_array().unwrap(), &discovery);
        let (label, reason, fault) = match (side("a"), side("b")) {
            (Ok(a), Ok(b)) => {
                let found = compare_sides(&a, &b, &discovery, &options);
                let mut reason = found.reason.clone();
                if let Some(example) = &found.counterexample {
                    let request = &example.situation().request;
                    let [a, b] = example.verdicts();
                    reason = format!(
                        "{reason} {}/{} {} {} new={} old={}",
                        a.effect,
                        b.effect,
                        request.operation.as_str(),
                        request.resource.name(),
                        request.object.root().to_serde(),
                        request.old_object.root().to_serde()
                    );
                }
                (found.label.as_str().to_owned(), reason, found.fault)
            }
            (Err(error), _) | (_, Err(error)) => ("ERROR".to_owned(), error, false),
        };
        let truth = row["truth"].as_str().unwrap();
        let wrong = fault || matches!((label.as_str(), truth), ("PROVEN", "differs") | ("REFUTED", "equal"));
        let mark = if wrong {
            "WRONG"
        } else if matches!(label.as_str(), "PROVEN" | "REFUTED") {
            "ok"
        } else {
            "open"
        };
        *table
            .entry((
                row["class"].as_str().unwrap().to_owned(),
                truth.to_owned(),
                mark.to_owned(),
            ))
            .or_default() += 1;
        println!(
            "{mark} {id} {truth} {label} {:?} {} {}",
            start.elapsed(),
            row["kinds"],
            reason
        );
    }
    for (key, count) in table {
        println!("{key:?} {count}");
    }
}
