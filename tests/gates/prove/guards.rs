//! The same source text does not always give the same decision: one policy for each guard. A contradiction never
//! becomes a label.

use kyvtest::{
    cel::profile::Profile,
    kube::Discovery,
    prove::{Options, witness::Scenario},
};

use super::{Case, expect, hazard, layer};
use crate::support::{Gate, fixture, read};

#[test]
fn every_guard_has_a_policy_that_it_stops() {
    let table = read(&fixture("prove/guards.tsv"));
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').collect())
        .collect();
    let gate = Gate {
        name: "prove-guards",
        rows: 18,
    };
    gate.run(
        &rows,
        |row| row[0].to_owned(),
        |row| {
            let [guard, word, kube, label, without, ..] = row[..] else {
                return Err("five fields".to_owned());
            };
            let case = Case {
                id: guard.to_owned(),
                policy: read(&fixture(&format!("prove/guards/{guard}.yaml"))),
                layer: layer(word),
                ..Case::default()
            };
            let at = |kube: &str, word: &str| {
                let options = Options {
                    layer: layer(word),
                    paranoid: true,
                    kube: Profile::named(&format!("k8s-{kube}")).expect("a profile"),
                    ..Options::default()
                };
                case.prove_with(&options, &Discovery::kubernetes())
            };
            let proof = at(kube, word)?;
            if proof.fault {
                return Err(proof.reason);
            }
            expect(label, &proof)?;
            let text = format!(
                "{} {:?}",
                proof.reason,
                proof.regions.iter().map(|region| &region.text).collect::<Vec<_>>()
            );
            if !text.contains(without) {
                return Err(format!("the guard is not named: {text}"));
            }
            Ok(())
        },
    );
}

/// Spoils a request: another name, namespace and kind of user.
fn spoil(scenario: &mut Scenario) {
    let request = &mut scenario.request;
    for text in [&mut request.name, &mut request.namespace, &mut request.user.username] {
        "spoiled".clone_into(text);
    }
    request.object = kyvtest::value::Document::null();
    request.old_object = kyvtest::value::Document::null();
}

/// A witness that does not follow its path is a bug, not a label.
#[test]
fn a_spoiled_witness_is_an_internal_error() {
    for paranoid in [false, true] {
        let case = hazard("H01", "rule");
        let options = Options {
            layer: case.layer,
            paranoid,
            spoil: Some(spoil),
            ..Options::default()
        };
        let proof = case.prove_with(&options, &Discovery::kubernetes()).expect("a policy");
        assert!(proof.fault, "{}", proof.reason);
        assert_eq!(proof.label.as_str(), "UNKNOWN");
        assert!(proof.regions.is_empty());
        assert!(proof.reason.contains("does not follow"), "{}", proof.reason);
    }
}
