//! Proofs, repairs and single verdicts against the decisions of a live Kyverno and live API servers
//! (`golden/live-replay`).

use kyvtest::{
    eval::{Settings, line},
    kube::Discovery,
    prove::{
        Label, Layer, Options, Proof,
        repair::{Repair, repair},
    },
    value::Document,
};
use serde_json::{Value, json};

use super::{Case, repair::written};
use crate::support::{Gate, fixture, jsonl, print_count, read, shared};

/// The policies that `prove` must still prove, of those without an observed difference, in percent.
const STILL_PROVEN: usize = 97;

fn yaml(objects: &[Value]) -> String {
    let texts: Vec<String> = objects
        .iter()
        .map(|object| Document::from(object).root().to_yaml())
        .collect();
    texts.join("---\n")
}

/// Kubernetes' kinds, and the custom kind of the rows.
fn discovery(folder: &std::path::Path) -> Discovery {
    let mut discovery = Discovery::kubernetes();
    let definition = Document::from_json(&read(&folder.join("widget-crd.json"))).expect("JSON");
    discovery.add_crd(definition.root()).expect("a definition");
    discovery
}

fn case(row: &Value) -> Case {
    let objects = row["objects"].as_array().expect("objects");
    let is_exception = |object: &&Value| object["kind"] == "PolicyException";
    let (exceptions, policies): (Vec<&Value>, Vec<&Value>) = objects.iter().partition(is_exception);
    let owned = |list: Vec<&Value>| list.into_iter().cloned().collect::<Vec<_>>();
    Case {
        id: row["id"].as_str().unwrap_or_default().to_owned(),
        policy: yaml(&owned(policies)),
        exceptions: yaml(&owned(exceptions)),
        ..Case::default()
    }
}

fn proof(row: &Value, discovery: &Discovery, warnings: bool) -> Result<Proof, String> {
    let options = Options {
        warnings,
        ..Options::default()
    };
    let proof = case(row).prove_with(&options, discovery)?;
    if proof.fault {
        return Err(format!("the prover contradicts itself: {}", proof.reason));
    }
    Ok(proof)
}

#[test]
fn no_live_difference_is_proven() {
    let Some(folder) = shared("golden/live-replay") else {
        return;
    };
    let discovery = discovery(&folder);
    let rows: Vec<Value> = jsonl(&folder.join("proofs.jsonl"));
    let differing: Vec<&Value> = rows.iter().filter(|row| row["truth"] == "differs").collect();
    let gate = Gate {
        name: "live-replay-differs",
        rows: 12,
    };
    gate.run(
        &differing,
        |row| row["id"].as_str().unwrap_or_default().to_owned(),
        |row| {
            let plain = proof(row, &discovery, false)?;
            if row["finding"] == "F6" {
                let warned = proof(row, &discovery, true)?;
                let noted = plain.notes.iter().any(|note| note == "audit-warnings");
                return match (&plain.label, &warned.label) {
                    (Label::Proven, Label::Refuted(_)) if noted => Ok(()),
                    labels => Err(format!("{labels:?}, noted: {noted}: {}", warned.reason)),
                };
            }
            match plain.label {
                Label::Refuted(_) => Ok(()),
                label if label != Label::Proven && !plain.reason.is_empty() => {
                    print_count(&format!("  {}: {}: {}", row["id"], label.as_str(), plain.reason));
                    Ok(())
                }
                label => Err(format!("{}: {}", label.as_str(), plain.reason)),
            }
        },
    );
}

#[test]
fn what_no_live_request_refuted_stays_proven() {
    let Some(folder) = shared("golden/live-replay") else {
        return;
    };
    let discovery = discovery(&folder);
    let rows: Vec<Value> = jsonl(&folder.join("proofs.jsonl"));
    let alike: Vec<&Value> = rows.iter().filter(|row| row["truth"] != "differs").collect();
    let mut proven = 0;
    for row in &alike {
        let proof = proof(row, &discovery, false).expect("a proof");
        if proof.label == Label::Proven {
            proven += 1;
        } else {
            let label = proof.label.as_str();
            let region = proof.regions.first().map(|region| region.text.as_str());
            print_count(&format!(
                "  {}: {label}: {} {}",
                row["id"],
                proof.reason,
                region.unwrap_or_default()
            ));
        }
    }
    print_count(&format!("gate live-replay-alike: {proven}/{}", alike.len()));
    assert!(
        proven * 100 >= alike.len() * STILL_PROVEN,
        "{proven} of {} still proven",
        alike.len()
    );
}

#[test]
fn live_requests() {
    let Some(folder) = shared("golden/live-replay") else {
        return;
    };
    let settings = Settings {
        discovery: discovery(&folder),
        ..Settings::default()
    };
    let rows: Vec<Value> = jsonl(&folder.join("requests.jsonl"));
    let gate = Gate {
        name: "live-replay-requests",
        rows: 116,
    };
    gate.run(
        &rows,
        |row| row["id"].as_str().unwrap_or_default().to_owned(),
        |row| {
            let line = json!({"id": row["id"], "objects": row["objects"], "request": row["request"]});
            let answer = line::answer(&line.to_string(), &settings).answer;
            for side in ["kyverno", "vap"] {
                let wanted = row["observed"][side].as_str();
                let effect = answer[side]["effect"].as_str();
                let got = if effect == Some("deny") { "deny" } else { "admit" };
                if wanted.is_some_and(|wanted| wanted != got) {
                    return Err(format!("{side}: {got} instead of {wanted:?}: {answer}"));
                }
            }
            Ok(())
        },
    );
}

/// One policy for each finding, with its label and a word of the explanation in the first comment.
#[test]
fn findings() {
    let folder = fixture("prove/live");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("a directory")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    let gate = Gate {
        name: "live-findings-own",
        rows: 12,
    };
    gate.run(
        &files,
        |path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        |path| {
            let policy = read(path);
            let first = policy.lines().next().unwrap_or_default().trim_start_matches("# ");
            let (label, words) = first.split_once(' ').ok_or("no expectation in the first line")?;
            let case = Case {
                policy: policy.clone(),
                layer: Layer::Policy,
                ..Case::default()
            };
            let proof = case.prove()?;
            let regions = proof.regions.iter().map(|region| region.text.as_str());
            let text: Vec<&str> = regions.chain([proof.reason.as_str()]).collect();
            let text = format!("{} {}", text.join(" "), proof.notes.join(" "));
            if proof.label.as_str() != label || !text.contains(words) {
                return Err(format!("{} instead of {first}: {text}", proof.label.as_str()));
            }
            Ok(())
        },
    );
}

/// A request of `repairs.jsonl` as an AdmissionRequest.
fn admission_request(given: &Value, discovery: &Discovery) -> Value {
    let mut request = json!({
        "operation": given["op"],
        "resource": {"group": given["g"], "version": given["v"], "resource": given["res"]},
        "name": given["name"],
        "namespace": given["ns"],
        "userInfo": {"username": given["user"], "groups": given["groups"]},
    });
    if given["op"] == "DELETE" {
        let selector = given["fieldSelector"].as_str().unwrap_or_default();
        let name = selector
            .strip_prefix("metadata.name=")
            .map_or(given["name"].clone(), |name| json!(name));
        let api_version = match (given["g"].as_str(), given["v"].as_str().unwrap_or_default()) {
            (Some(group), version) if !group.is_empty() => format!("{group}/{version}"),
            (_, version) => version.to_owned(),
        };
        let resource = discovery
            .iter()
            .find(|resource| given["res"] == resource.plural.as_str());
        request["oldObject"] = json!({
            "apiVersion": api_version,
            "kind": resource.map_or("", |resource| resource.kind.as_str()),
            "metadata": {"name": name, "namespace": given["ns"]},
        });
    } else {
        request["object"] = given["obj"].clone();
        if given["op"] == "UPDATE" {
            request["oldObject"] = given["obj"].clone();
        }
    }
    if given["collection"] == true {
        request["name"] = json!("");
    }
    request
}

#[test]
fn repairs_agree_with_live_verdicts() {
    let Some(folder) = shared("golden/live-replay") else {
        return;
    };
    let discovery = discovery(&folder);
    let settings = Settings {
        discovery: discovery.clone(),
        ..Settings::default()
    };
    let rows: Vec<Value> = jsonl(&folder.join("repairs.jsonl"));
    let gate = Gate {
        name: "live-replay-repairs",
        rows: 54,
    };
    gate.run(
        &rows,
        |row| row["id"].as_str().unwrap_or_default().to_owned(),
        |row| {
            let models = case(row).models()?;
            let repaired = match repair(&models.original, models.exceptions(), &discovery, &Options::default()) {
                Repair::Done(repaired) => repaired,
                Repair::Refused(refused) => return Err(format!("{}: {}", refused.code, refused.reason)),
            };
            let natives: Vec<Value> = super::documents(&written(&repaired));
            for difference in row["differences"].as_array().into_iter().flatten() {
                let line =
                    json!({"objects": natives, "request": admission_request(&difference["request"], &discovery)});
                let answer = line::answer(&line.to_string(), &settings).answer;
                let got = if answer["vap"]["effect"] == "deny" {
                    "deny"
                } else {
                    "admit"
                };
                if difference["kyverno"] != got {
                    return Err(format!(
                        "{got} instead of {}: {answer} {difference}",
                        difference["kyverno"]
                    ));
                }
            }
            Ok(())
        },
    );
}
