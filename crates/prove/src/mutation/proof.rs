//! A MutatingPolicy and a MutatingAdmissionPolicy: the objects after admission are the same for all requests, or here is one.

use std::{
    fmt::Write as _,
    sync::{Arc, atomic::AtomicBool},
};

use kyvtest_convert::{Conversion, Exceptions, Options as Generation, convert};
use kyvtest_model::{
    kube::{Discovery, RequestClass},
    policy::{Loaded, MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, Policy, validate_admission},
    verdict::DivergenceClass,
};

use super::{at_layer, installable, missing_counterpart};
use crate::{
    IDLE, Label, NEITHER, Options, Proof, Region,
    body::{
        self, Counterexample,
        mutation::{MutatingSide, compare_mutating_sides, differences},
    },
    pair::Note,
    replay::Replayed,
    universe,
};

/// Native policies that change objects, with their bindings.
#[derive(Debug, Clone, Default)]
pub struct MutatingTarget {
    pub policies: Vec<Arc<MutatingAdmissionPolicy>>,
    pub bindings: Vec<Arc<MutatingAdmissionPolicyBinding>>,
}

/// The code of native policies that the API server rejects.
const MAP_INVALID: &str = "map-invalid";

/// How many kinds of requests a region names.
const NAMED: usize = 8;

/// Compares a MutatingPolicy with native policies, or with the one that Kyverno would generate.
pub fn prove_mutating(
    original: &Policy,
    exceptions: Exceptions<'_>,
    target: Option<&MutatingTarget>,
    discovery: &Discovery,
    options: &Options<'_>,
    stop: Option<Arc<AtomicBool>>,
) -> Proof {
    let mut proof = Proof::undecided(discovery, options);
    let generation = Generation {
        force: true,
        now: options.now,
    };
    let conversion = convert(original, exceptions, discovery, generation);
    let generated;
    let target = match target {
        Some(target) => target,
        None => match counterpart(&conversion) {
            Ok(target) => {
                if !is_marked(original) {
                    proof.notes.push(Note::NotMarked.as_str().to_owned());
                }
                generated = target;
                &generated
            }
            Err((code, text)) => {
                proof.label = Label::NotConvertible { code };
                proof.reason = text;
                return proof;
            }
        },
    };
    if let Some(message) = refused(target) {
        let code = MAP_INVALID.to_owned();
        proof.label = Label::NotConvertible { code };
        proof.reason = message;
        return proof;
    }
    let original = at_layer(original, options.layer);
    let ours = Loaded {
        policies: vec![original],
        exceptions: exceptions.classic.to_vec(),
        cel_exceptions: exceptions.cel.to_vec(),
        ..Loaded::default()
    };
    let theirs = Loaded {
        policies: target.policies.iter().cloned().map(Policy::NativeMutating).collect(),
        mutating_bindings: target.bindings.clone(),
        ..Loaded::default()
    };
    let sides = [ours, theirs].map(|loaded| MutatingSide::new(loaded, discovery, options.layer));
    let [ours, theirs] = match sides {
        [Ok(ours), Ok(theirs)] => [ours, theirs],
        [Err(reason), _] | [_, Err(reason)] => {
            proof.reason = reason;
            return proof;
        }
    };
    let comparison = body::Options {
        data: options.data,
        checks: if options.paranoid { 1_200 } else { 300 },
        stop,
        ..body::Options::default()
    };
    let found = compare_mutating_sides(&ours, &theirs, options.samples, discovery, &comparison);
    proof.stats.requests = found.requests;
    proof.fault = found.fault;
    proof.reason = found.reason;
    if matches!(found.label, Label::Refuted(_)) {
        let universe = universe::with_unknown(discovery);
        let code = |found: &Counterexample| found.cause(&conversion).and_then(|divergence| divergence.code);
        let all = differences(&ours, &theirs, options.samples, &universe, &comparison, code);
        let first = found.counterexample.iter().map(|found| ((**found).clone(), Vec::new()));
        let all = if all.is_empty() { first.collect() } else { all };
        proof.regions = all.into_iter().map(|found| region(found, &conversion)).collect();
        proof.regions.sort_by_key(|region| crate::Kind::of(region.class));
    }
    if found.label == Label::Proven && proof.reason == NEITHER {
        // Nothing was compared, which proves nothing about the policies.
        IDLE.clone_into(&mut proof.reason);
        return proof;
    }
    proof.label = match (&found.label, proof.regions.first()) {
        (Label::Refuted(_), Some(region)) => Label::Refuted(crate::Kind::of(region.class)),
        _ => found.label,
    };
    proof
}

fn is_marked(original: &Policy) -> bool {
    let requested = original
        .as_mutating()
        .and_then(|policy| policy.spec.autogen.native_policy.as_ref());
    requested.is_some_and(|enabled| enabled.value)
}

/// What Kyverno generates, or the code and text of its refusal.
fn counterpart(conversion: &Conversion) -> Result<MutatingTarget, (String, String)> {
    if let Some(generated) = installable(conversion) {
        return Ok(MutatingTarget {
            policies: vec![Arc::clone(&generated.map.model)],
            bindings: vec![Arc::clone(&generated.binding.model)],
        });
    }
    let missing = missing_counterpart(conversion);
    let (code, text) = missing.map(|missing| (missing.code, missing.cause)).unwrap_or_default();
    Err((code.unwrap_or_default(), text))
}

/// What the API server says against native policies that are given.
fn refused(target: &MutatingTarget) -> Option<String> {
    let policies = target.policies.iter().map(|policy| &policy.source);
    let bindings = target.bindings.iter().map(|binding| &binding.source);
    policies.chain(bindings).find_map(|source| {
        let checked = validate_admission(source.document().root());
        (!checked.errors.is_empty()).then_some(checked.message)
    })
}

fn region((found, cells): (Counterexample, Vec<RequestClass<'_>>), conversion: &Conversion) -> Region {
    let cause = found.cause(conversion);
    let mut names: Vec<String> = cells.iter().map(universe::name).collect();
    if names.is_empty() {
        names.push(universe::name(&found.scenario().request.cell()));
    }
    let mut shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > NAMED {
        let _ = write!(shown, " and {} more", names.len() - NAMED);
    }
    let what = match found.class() {
        DivergenceClass::Weaker => "the native policy is weaker",
        DivergenceClass::Stricter => "the native policy is stricter",
        _ => "the objects after admission differ",
    };
    Region {
        class: found.class(),
        hazard: cause.as_ref().and_then(|cause| cause.code.clone()),
        text: format!("{what}: {shown}"),
        cause: cause.map(|cause| cause.cause).unwrap_or_default(),
        cells: names,
        answers: Vec::new(),
        witness: Replayed::of_mutation(&found),
    }
}
