//! `run`, `eval` and `prove` on the same request: every live row that a suite can express goes through all three.

use std::{collections::BTreeMap, sync::Mutex};

use kyvtest::{
    author::counterexample::{self, run_request},
    convert::Exceptions,
    eval::{Evaluator, Settings},
    kube::NAME_LABEL,
    kyverno::config::Config,
    pair::Pair,
    prove::{Label, Layer, Options, Target, calls::Calls, prove, replay::Engines, universe, witness::Scenario},
    run,
    value::{Document, Value as Node},
    verdict::{Effect, Verdict},
};
use serde_json::Value;

use crate::{
    eval::{live, settings},
    support::{Gate, jsonl, print_count, shared},
};

/// The effects of both sides; the native one is absent if there is no native policy.
type Effects = (Effect, Option<Effect>);

/// The comparison of a row: agreement, or the reason why not all three commands can be compared.
enum Compared {
    Agree,
    Left(String),
}

fn strongest(effects: impl Iterator<Item = Effect>) -> Effect {
    effects.max().unwrap_or(Effect::Admit)
}

fn compare(row: &Value, settings: &Settings) -> Result<Compared, String> {
    let left = |reason: &str| Ok(Compared::Left(reason.to_owned()));
    let (objects, request) = live(row);
    let documents: Vec<Document> = objects.iter().map(Document::from).collect();
    let cluster = Evaluator::new(&documents, settings);
    if let Some(invalid) = cluster.invalid().first() {
        return left(&format!("not stored: {}", invalid.code.id()));
    }
    let [pair] = cluster.pairs() else {
        return left("not exactly one policy");
    };
    let kinds = objects.iter().filter_map(|object| object["kind"].as_str());
    let known = ["Namespace", "PolicyException", pair.original().kind()];
    if let Some(other) = kinds.clone().find(|kind| !known.contains(kind)) {
        return left(&format!("a suite has no {other}"));
    }
    if request["operation"]
        .as_str()
        .is_some_and(|operation| operation.contains("collection"))
    {
        return left("a suite cannot delete collections");
    }
    let mut request = request;
    let metadata = request.get("object").and_then(|object| object.get("metadata"));
    let prefix = metadata.and_then(|metadata| metadata.get("generateName")?.as_str());
    if let Some(prefix) = prefix.filter(|_| metadata.is_some_and(|metadata| metadata.get("name").is_none())) {
        let name = format!("{prefix}x7k2p");
        request["name"] = name.as_str().into();
        request["object"]["metadata"]["name"] = name.into();
    }
    let mut request = cluster.request(Document::from(&request).root())?;
    let reads = |word: &str| objects.iter().any(|object| object.to_string().contains(word));
    if reads("dryRun") || reads("request.options") {
        return left("a suite has no dry run and no options");
    }
    (request.dry_run, request.options) = (false, Document::null());
    if reads("extra") || reads("userInfo.uid") {
        return left("the suite's user has neither uid nor extra");
    }
    (request.user.uid, request.user.extra) = (String::new(), None);
    let namespace = cluster.world().namespace(&request.namespace);
    let labels = namespace.and_then(|namespace| namespace.object.root().at(&["metadata", "labels"]));
    let labels = labels
        .and_then(Node::as_map)
        .into_iter()
        .flat_map(kyvtest::value::Map::iter);
    let mut namespace_labels: Vec<(String, String)> = labels
        .filter_map(|(key, value)| Some((key.text().to_owned(), value.as_str()?.to_owned())))
        .collect();
    if namespace_labels.is_empty() && !request.namespace.is_empty() {
        namespace_labels.push((NAME_LABEL.to_owned(), request.namespace.clone()));
    }
    let evaluated = cluster.decide(&request);
    let eval: Effects = (
        evaluated
            .kyverno
            .as_ref()
            .map_or(Effect::Admit, |kyverno| kyverno.effect),
        evaluated
            .vap
            .as_ref()
            .map(|vap| kyvtest::pair::NativeVerdict::of(vap.clone()).verdict.effect),
    );
    let scenario = Scenario {
        request,
        world: cluster.world().clone(),
        namespace_labels,
        calls: Calls::default(),
    };
    let loaded = cluster.loaded();
    let exceptions = Exceptions {
        classic: &loaded.exceptions,
        cel: &loaded.cel_exceptions,
    };
    proven(pair, exceptions, &scenario, &cluster, eval)?;
    let run_settings = run::Settings {
        discovery: settings.discovery.clone(),
        // The vectors record what the server made of the objects.
        data: run::Data::Raw,
        ..run::Settings::new(false)
    };
    let texts = counterexample::exceptions(loaded);
    let cases = match run_request(pair.original(), &texts, &scenario, &run_settings) {
        Ok(cases) => cases,
        Err(reason) => return Ok(Compared::Left(reason)),
    };
    let kyverno = cases
        .iter()
        .filter_map(|case| case.kyverno.as_ref())
        .map(|answer| answer.effect);
    let native: Vec<Effect> = cases
        .iter()
        .filter_map(|case| case.vap.as_ref())
        .map(|native| native.answer.effect)
        .collect();
    let native = (!native.is_empty()).then(|| strongest(native.iter().copied()));
    let ran: Effects = (strongest(kyverno), native.or(eval.1));
    if ran == eval {
        Ok(Compared::Agree)
    } else {
        Err(format!("run: {ran:?}, eval: {eval:?}"))
    }
}

/// The replay of the request gives the same effects, and no PROVEN contradicts them.
fn proven(
    pair: &Pair,
    exceptions: Exceptions<'_>,
    scenario: &Scenario,
    cluster: &Evaluator,
    eval: Effects,
) -> Result<(), String> {
    let (Some(generated), Some(native)) = (pair.generated(), eval.1) else {
        return Ok(());
    };
    if pair.without_autogen() || pair.missing().is_some() {
        return Ok(());
    }
    let target = Target {
        policies: vec![generated.vap.model.clone()],
        bindings: generated.bindings.iter().map(|binding| binding.model.clone()).collect(),
    };
    let universe = universe::with_unknown(cluster.discovery());
    let (original, config) = (pair.original(), Config::bare());
    let engines = Engines::new(original, exceptions, &target, &config, Layer::Policy, &universe)?;
    let (kyverno, vap): (Verdict, Verdict) = engines.ask(scenario);
    if (kyverno.effect, vap.effect) != (eval.0, native) {
        let effects = (kyverno.effect, vap.effect);
        return Err(format!("prove: {effects:?}, eval: {eval:?}"));
    }
    if eval.0 != native {
        let proof = prove(
            original,
            exceptions,
            Some(&target),
            cluster.discovery(),
            &Options::default(),
        );
        if proof.label == Label::Proven {
            return Err(format!("PROVEN, but {eval:?}"));
        }
    }
    Ok(())
}

/// `least` is the number of rows that a suite can express; a smaller number means that the gate compares less than
/// before.
fn agree(name: &str, file: &str, minimum: usize, least: usize) {
    let Some(path) = shared(file) else { return };
    let rows: Vec<(usize, Value)> = jsonl(&path).into_iter().enumerate().collect();
    let settings = settings();
    let left: Mutex<BTreeMap<String, usize>> = Mutex::default();
    let gate = Gate { name, rows: minimum };
    let total = rows.len();
    gate.run(
        &rows,
        |(number, row)| format!("{}#{number}", row["id"].as_str().unwrap_or_default()),
        |(_, row)| match compare(row, &settings)? {
            Compared::Agree => Ok(()),
            Compared::Left(reason) => {
                *left.lock().expect("a count").entry(reason).or_default() += 1;
                Ok(())
            }
        },
    );
    let left = left.into_inner().expect("counts");
    for (reason, count) in &left {
        print_count(&format!("  {count} rows not as suites: {reason}"));
    }
    let compared = total - left.values().sum::<usize>();
    print_count(&format!("  {compared} of {total} rows compared in all three ways"));
    assert!(compared >= least, "only {compared} rows were compared");
}

#[test]
fn live_vectors_agree() {
    agree("agreement-vectors", "golden/kyverno-live/vectors.jsonl", 1500, 1195);
}

#[test]
fn live_hazards_agree() {
    agree("agreement-hazards", "golden/kyverno-live/hazards.jsonl", 50, 56);
}
