//! Gate `normalise`: CREATE, from the body to the object of validating admission.

use std::path::Path;

use kyvtest_go_compat::value::Document;
use kyvtest_normalise::{Cluster, Kind, Normalised, Plugin, Raw, Refused, Request, Text, normalise};
use serde::Deserialize;
use serde_json::Value;

use super::support::{self, Rejected};

#[derive(Deserialize)]
pub(crate) struct Row {
    pub(crate) id: String,
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    #[serde(default)]
    raw: Option<Value>,
    #[serde(default)]
    raw_text: Option<String>,
    #[serde(default)]
    request_namespace: Option<String>,
    #[serde(default)]
    stored: Option<Value>,
    #[serde(default)]
    seen: Option<Value>,
    #[serde(default)]
    rejected: Option<Rejected>,
    #[serde(default)]
    volatile: Vec<String>,
    #[serde(default)]
    assigned: Vec<String>,
}

/// The plugins of the recorded server: all but ServiceAccount.
pub(crate) fn plugins() -> Vec<Plugin> {
    Plugin::DEFAULT
        .into_iter()
        .filter(|plugin| *plugin != Plugin::ServiceAccount)
        .collect()
}

fn run(row: &Row, cluster: &Cluster) -> Result<Normalised, Refused> {
    let kind = Kind {
        api_version: &row.api_version,
        name: &row.kind,
    };
    let request = Request {
        namespace: row.request_namespace.as_deref().unwrap_or(""),
        ..Request::default()
    };
    match (&row.raw, &row.raw_text) {
        (_, Some(text)) => {
            let text = Text::parse(text).map_err(|message| Refused {
                stage: kyvtest_normalise::Stage::Decode,
                message,
                errors: Vec::new(),
            })?;
            normalise(kind, Raw::Text(&text), None, request, cluster, false)
        }
        (Some(raw), None) => {
            let document = Document::from_json(&raw.to_string()).expect("a row's raw object");
            normalise(kind, (&document).into(), None, request, cluster, false)
        }
        _ => panic!("{}: no raw object", row.id),
    }
}

/// Compares a row; the second value says whether the causes agree, if there are any.
pub(crate) fn check(row: &Row, cluster: &Cluster) -> (Result<(), String>, Option<Result<(), String>>) {
    compare(row, run(row, cluster))
}

/// Compares what was found for a row.
pub(crate) fn compare(
    row: &Row,
    found: Result<Normalised, Refused>,
) -> (Result<(), String>, Option<Result<(), String>>) {
    let mut ignore: Vec<String> = row.volatile.iter().chain(&row.assigned).cloned().collect();
    ignore.extend(support::CLOCK.iter().map(|&pointer| pointer.to_owned()));
    match (found, &row.rejected) {
        (Ok(found), None) => {
            let mut stored = row.stored.clone().expect("an accepted row has a stored object");
            let mut seen = row.seen.clone().unwrap_or_else(|| stored.clone());
            support::blank(&mut seen, &ignore);
            support::blank(&mut stored, &ignore);
            let object = support::comparable(&found.object, &ignore);
            let own_stored = found
                .stored
                .as_ref()
                .map_or_else(|| object.clone(), |stored| support::comparable(stored, &ignore));
            let result = match (
                support::difference(&object, &seen),
                support::difference(&own_stored, &stored),
            ) {
                (None, None) => Ok(()),
                (Some(difference), _) => Err(difference),
                (None, Some(difference)) => Err(format!("stored: {difference}")),
            };
            (result, None)
        }
        (Err(refused), Some(rejected)) => {
            if refused.stage.name() != rejected.stage || refused.code() != rejected.code {
                let message = format!(
                    "{}: {} instead of {}: {}",
                    refused.stage.name(),
                    refused.message,
                    rejected.stage,
                    rejected.message
                );
                return (Err(message), None);
            }
            let mut expected = rejected.causes.clone();
            expected.sort();
            let found = support::causes(&refused);
            let causes = if found == expected {
                Ok(())
            } else {
                Err(format!("found {} instead of {}", refused.message, rejected.message))
            };
            (Ok(()), Some(causes).filter(|_| rejected.stage == "invalid"))
        }
        (Ok(_), Some(rejected)) => (
            Err(format!("accepted instead of {}: {}", rejected.stage, rejected.message)),
            None,
        ),
        (Err(refused), None) => (Err(format!("refused: {}", refused.message)), None),
    }
}

/// The cluster of the server that answered.
pub(crate) fn cluster() -> Cluster {
    Cluster {
        plugins: plugins(),
        complete: true,
        service_range: Some("10.0.0.0/24".to_owned()),
        ..Cluster::default()
    }
}

/// Compares every row of a file.
pub(crate) fn gate(name: &str, path: &Path) {
    let cluster = cluster();
    let rows: Vec<Row> = kyvtest_gates::jsonl(path);
    let (mut objects, mut causes, mut invalid) = (Vec::new(), Vec::new(), 0);
    for row in &rows {
        let (result, of_causes) = check(row, &cluster);
        if let Err(difference) = result {
            objects.push(format!("{} {}: {difference}", row.id, row.kind));
        }
        if row
            .rejected
            .as_ref()
            .is_some_and(|rejected| rejected.stage == "invalid")
        {
            invalid += 1;
            match of_causes {
                Some(Ok(())) => {}
                Some(Err(difference)) => causes.push(format!("{} {}: {difference}", row.id, row.kind)),
                None => causes.push(format!("{} {}: not refused as invalid", row.id, row.kind)),
            }
        }
    }
    kyvtest_gates::at_least(&format!("{name}-causes"), invalid, &causes, invalid);
    kyvtest_gates::at_least(name, rows.len(), &objects, rows.len());
}
