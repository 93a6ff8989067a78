//! Repairs: refuted before, proven after, and equivalent on requests independent of the prover.

use kyvtest::{
    kube::Discovery,
    prove::{
        Label, Options,
        repair::{Repair, Repaired, repair},
    },
};

use super::{Case, documents, hazard, layer, rows, worlds::counterexample};
use crate::support::{Gate, fixture, read, shared};

/// The claim of a repair: `PROVEN`, or `PROVEN*` with a remark on kinds that native policies never see.
const EXCEPT_EXEMPT: &str = "PROVEN*";

/// Checks the label before and the result of the repair: that it is proven, or the code of a refusal.
fn check(mut case: Case, before: &str, after: &str) -> Result<(), String> {
    let generated = case.prove()?;
    if generated.label.as_str() != before {
        return Err(format!("{} instead of {before} before", generated.label.as_str()));
    }
    let options = Options {
        layer: case.layer,
        paranoid: true,
        ..Options::default()
    };
    let models = case.models()?;
    let repaired = match repair(
        &models.original,
        models.exceptions(),
        &Discovery::kubernetes(),
        &options,
    ) {
        Repair::Refused(refused) if refused.code == after => return Ok(()),
        Repair::Refused(refused) => {
            let witness = refused.witness.map(|region| (region.text, region.cause));
            return Err(format!(
                "{} instead of {after}: {} {witness:?}",
                refused.code, refused.reason
            ));
        }
        Repair::Done(repaired) => repaired,
    };
    let word = if repaired.remarks.is_empty() {
        "PROVEN"
    } else {
        EXCEPT_EXEMPT
    };
    if repaired.proof.label != Label::Proven || word != after {
        return Err(format!("{word} instead of {after}: {:?}", repaired.remarks));
    }
    // The written policy is parsed again, proven again, and decides other requests alike.
    case.native = Some(written(&repaired));
    case.spares_exempt = word == EXCEPT_EXEMPT;
    let options = Options {
        exempt: !case.spares_exempt,
        ..options
    };
    let again = case.prove_with(&options, &Discovery::kubernetes())?;
    if again.label != Label::Proven {
        return Err(format!("{} when read again: {}", again.label.as_str(), again.reason));
    }
    let natives = case.natives()?;
    counterexample(&case, &natives, 400, true).map(|_| ())
}

pub(super) fn written(repaired: &Repaired) -> String {
    let policies = repaired.policies.iter().map(|object| &object.document);
    let bindings = repaired.bindings.iter().map(|object| &object.document);
    let texts: Vec<String> = policies
        .chain(bindings)
        .map(|document| document.root().to_yaml())
        .collect();
    texts.join("---\n")
}

#[test]
fn repaired_hazards() {
    if shared("golden/hazards").is_none() {
        return;
    }
    let rows = rows("gates/prove-repair.tsv");
    let gate = Gate {
        name: "prove-repair",
        rows: rows.len(),
    };
    gate.run(
        &rows,
        |row| format!("{}/{}", row[0], row[1]),
        |row| check(hazard(&row[0], &row[1]), &row[2], &row[3]),
    );
}

/// One policy for every construction, with the expectation in its first comment: layer, label before, result.
#[test]
fn repaired_policies() {
    let folder = fixture("prove/repair");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("a folder")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    let gate = Gate {
        name: "prove-repair-own",
        rows: files.len(),
    };
    gate.run(
        &files,
        |path| path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        |path| {
            let text = read(path);
            let words: Vec<&str> = text.lines().next().unwrap_or_default().split_whitespace().collect();
            let ["#", word, before, after] = words.as_slice() else {
                return Err("no expectation in the first line".to_owned());
            };
            let (policy, exceptions) = text.split_once("# exceptions\n").unwrap_or((&text, ""));
            assert!(!documents(policy).is_empty(), "a policy");
            let case = Case {
                policy: policy.to_owned(),
                exceptions: exceptions.to_owned(),
                layer: layer(word),
                ..Case::default()
            };
            check(case, before, after)
        },
    );
}
