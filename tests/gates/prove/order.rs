//! Neither the order of lists nor the order of evaluation matters.

use std::collections::BTreeSet;

use kyvtest::{
    kube::{Discovery, Resource},
    kyverno::config::Config,
    pair::Pair,
    prove::{
        Label, Layer, Proof, Target,
        sides::LoweredSides,
        solver::Solver,
        symbolic::{Budget, explore},
        universe::{cells, name, with_unknown},
    },
    vap::matching::{Match, matches},
};
use serde_json::Value;

use super::{
    Case, all, case, documents, hazard,
    live::{discovery, published},
    proven, rows,
};
use crate::support::{Gate, print_count};

/// Lists whose order is insignificant.
const LISTS: [&str; 15] = [
    "any",
    "all",
    "names",
    "namespaces",
    "kinds",
    "operations",
    "resources",
    "resourceNames",
    "resourceRules",
    "excludeResourceRules",
    "matchConditions",
    "celPreconditions",
    "matchExpressions",
    "values",
    "subjects",
];

fn reversed(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let entries = map.iter().map(|(key, part)| {
                let mut part = reversed(part);
                if let Some(list) = part.as_array_mut().filter(|_| LISTS.contains(&key.as_str())) {
                    list.reverse();
                }
                (key.clone(), part)
            });
            Value::Object(entries.collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(reversed).collect()),
        other => other.clone(),
    }
}

fn text(values: &[Value]) -> String {
    let texts: Vec<String> = values.iter().map(|value| reversed(value).to_string()).collect();
    texts.join("\n---\n")
}

/// The label and the witness of a proof.
fn summary(proof: &Proof) -> (String, String) {
    let witness = proof.regions.first().map(|region| {
        let request = &region.witness.scenario().request;
        format!(
            "{} {} {} {} {:?} {} {}",
            request.operation.as_str(),
            request.resource.name(),
            request.name,
            request.namespace,
            request.user,
            request.object.root().to_json(),
            request.old_object.root().to_json()
        )
    });
    (proof.label.as_str().to_owned(), witness.unwrap_or_default())
}

#[test]
fn the_order_of_lists_changes_nothing() {
    let hazards = rows("gates/prove-hazards.tsv");
    let mut every: Vec<Case> = hazards
        .iter()
        .filter(|row| matches!(row[2].as_str(), "PROVEN" | "REFUTED"))
        .map(|row| hazard(&row[0], &row[1]))
        .collect();
    if let Some(cases) = all() {
        let rows = rows("gates/prove-cases.tsv");
        let rows = rows.iter().filter(|row| row[1] != "NOT-CONVERTIBLE");
        every.extend(rows.filter_map(|row| Some(case(&row[0], cases.get(&row[0])?))));
    }
    let gate = Gate {
        name: "prove-order",
        rows: 40,
    };
    gate.run(
        &every,
        |case| case.id.clone(),
        |case| {
            let natives = case.natives()?;
            let fixed = case.against(&natives);
            let other = Case {
                policy: text(&documents(&case.policy)),
                exceptions: text(&documents(&case.exceptions)),
                native: Some(text(&natives)),
                ..case.clone()
            };
            let (one, two) = (summary(&fixed.prove()?), summary(&other.prove()?));
            if one == two {
                return Ok(());
            }
            Err(format!("{one:#?} and {two:#?}"))
        },
    );
}

/// A native policy is equivalent to itself, parsed twice, regardless of the order of evaluation.
fn check_mirror(case: &Case, discovery: &Discovery) -> Result<(), String> {
    let models = case.models()?;
    let pair = Pair::new(models.original.clone(), models.exceptions(), discovery, None);
    let Some(generated) = pair.generated() else {
        return Ok(());
    };
    let natives = |pair: &Pair| -> Target {
        let generated = pair.generated().expect("it was there");
        Target {
            policies: vec![generated.vap.model.clone()],
            bindings: generated.bindings.iter().map(|binding| binding.model.clone()).collect(),
        }
    };
    let again = Pair::new(models.original.clone(), models.exceptions(), discovery, None);
    let (one, two) = (natives(&pair), natives(&again));
    let universe = with_unknown(discovery);
    let sides = LoweredSides::new(
        &models.original,
        models.exceptions(),
        &one,
        &Config::bare(),
        Layer::Policy,
        discovery,
    );
    let (ours, theirs) = (&one.policies[0], &two.policies[0]);
    let (Some(ours), Some(theirs)) = (&ours.match_constraints, &theirs.match_constraints) else {
        return Ok(());
    };
    let _ = generated;
    for cell in cells(&universe) {
        let equivalents: Vec<&Resource> = universe
            .equivalents(cell.resource)
            .map(|resource| &**resource)
            .collect();
        let applies = |answer: Result<Match, _>| matches!(answer, Ok(Match::Yes(_)));
        let mut budget = Budget {
            paths: 100_000,
            stop: None,
        };
        // Read twice, the policy agrees with itself on every path.
        let mut solver = Solver::default();
        let twice = explore(&mut solver, &mut budget, &cell, |facts| {
            let first = matches(ours, &cell, &equivalents, facts).map_err(|_| ());
            let second = matches(theirs, &cell, &equivalents, facts).map_err(|_| ());
            applies(first) == applies(second)
        });
        if !twice.map_err(|why| format!("{why:?}"))?.iter().all(|path| path.outcome) {
            return Err(format!("not itself: {}", name(&cell)));
        }
        // Kyverno first, or the native policy first: the same outcomes.
        let outcomes = |native_first: bool| -> Result<BTreeSet<String>, String> {
            let mut solver = Solver::default();
            let mut budget = budget;
            let paths = explore(&mut solver, &mut budget, &cell, |facts| {
                if native_first {
                    let _ = matches(ours, &cell, &equivalents, facts);
                }
                sides.run(&cell, &universe, facts)
            });
            let paths = paths.map_err(|why| format!("{why:?}"))?;
            Ok(paths.iter().map(|path| format!("{:?}", path.outcome)).collect())
        };
        if outcomes(false)? != outcomes(true)? {
            return Err(format!("another outcome: {}", name(&cell)));
        }
    }
    Ok(())
}

#[test]
fn a_policy_is_itself() {
    let mut cases = proven();
    cases.retain(|case| case.native.is_none());
    let own = cases.len();
    cases.extend(published());
    let gate = Gate {
        name: "prove-mirror",
        rows: own,
    };
    let discovery = discovery();
    gate.run(
        &cases,
        |case| case.id.clone(),
        |case| match check_mirror(case, &discovery) {
            Err(why) if why.starts_with("no policy") => Ok(()),
            other => other,
        },
    );
    print_count(&format!("  {} policies", cases.len()));
}

/// The order of two native policies does not matter.
#[test]
fn two_native_policies_may_change_places() {
    for id in ["H18", "H01"] {
        let case = hazard(id, "rule");
        let mut natives = case.natives().expect("a native policy");
        let one = case.against(&natives).prove().expect("a proof");
        natives.reverse();
        let two = case.against(&natives).prove().expect("a proof");
        assert_eq!(summary(&one), summary(&two));
        let refuted = matches!(one.label, Label::Refuted(_));
        assert_eq!(refuted, id == "H01");
    }
}
