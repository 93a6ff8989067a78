//! Gates of proofs: the label of every policy and native policy of the reference data, and the soundness of the prover.

mod cases;
mod emit;
mod guards;
mod library;
mod live;
mod mutants;
mod mutation;
mod order;
mod pairs;
mod repair;
mod replayed;
mod rewrites;
mod worlds;

use std::{path::Path, sync::Arc};

use kyvtest::{
    convert::{Exceptions, Outcome},
    diagnostic::Sources,
    kube::Discovery,
    pair::Pair,
    policy::{Loaded, Policy, Purpose, Spanned, load},
    prove::{Label, Layer, Options, Proof, Target, prove},
    value::Document,
    yaml,
};
use serde_json::Value;

use self::cases::{all, case};
use crate::support::{Gate, fixture, read, shared};

fn add(loaded: &mut Loaded, text: &str, purpose: Purpose) {
    let file = Sources::new().add("input.yaml", text);
    load(
        yaml::read(text, yaml::Mode::Lax, &yaml::Limits::default()),
        file,
        purpose,
        loaded,
    );
}

/// A policy with its exceptions, and the native policies to compare it with.
#[derive(Debug, Clone, Default)]
struct Case {
    id: String,
    policy: String,
    exceptions: String,
    /// Documents; `None` means those that Kyverno generates.
    native: Option<String>,
    layer: Layer,
    /// A name for the first filter, next to its `names`: Kyverno rejects that, but the generator handles it.
    name: Option<String>,
    /// Whether to leave out kinds that native policies never see.
    spares_exempt: bool,
}

/// The same as models.
struct Models {
    original: Policy,
    loaded: Loaded,
    target: Option<Target>,
}

impl Models {
    fn exceptions(&self) -> Exceptions<'_> {
        Exceptions {
            classic: &self.loaded.exceptions,
            cel: &self.loaded.cel_exceptions,
        }
    }
}

fn target(native: &str) -> Target {
    let mut loaded = Loaded::default();
    add(&mut loaded, native, Purpose::Policies);
    Target {
        policies: loaded.native().cloned().collect(),
        bindings: loaded.bindings,
    }
}

impl Case {
    fn models(&self) -> Result<Models, String> {
        let mut loaded = Loaded::default();
        add(&mut loaded, &self.policy, Purpose::Policies);
        add(&mut loaded, &self.exceptions, Purpose::Exceptions);
        let original = match loaded.policies.first() {
            Some(Policy::Classic(policy)) => {
                let mut policy = Arc::clone(policy);
                if let Some(name) = &self.name {
                    let span = policy.metadata.name.span;
                    let filter = &mut Arc::make_mut(&mut policy).spec.rules[0].matches.any[0];
                    filter.resources.name = Some(Spanned::new(name.clone(), span));
                }
                Policy::Classic(policy)
            }
            Some(policy) if policy.validates() => policy.clone(),
            _ => return Err(format!("no policy: {:?}", loaded.diagnostics)),
        };
        Ok(Models {
            original,
            loaded,
            target: self.native.as_deref().map(target),
        })
    }

    fn prove_with(&self, options: &Options<'_>, discovery: &Discovery) -> Result<Proof, String> {
        let models = self.models()?;
        Ok(prove(
            &models.original,
            models.exceptions(),
            models.target.as_ref(),
            discovery,
            options,
        ))
    }

    fn prove(&self) -> Result<Proof, String> {
        let options = Options {
            layer: self.layer,
            paranoid: true,
            ..Options::default()
        };
        let proof = self.prove_with(&options, &Discovery::kubernetes())?;
        if proof.fault {
            return Err(format!("the prover contradicts itself: {}", proof.reason));
        }
        if let Label::Refuted(_) = proof.label
            && proof.regions.is_empty()
        {
            return Err("refuted without a witness".to_owned());
        }
        Ok(proof)
    }

    /// The native policies and bindings as documents: given, or generated.
    fn natives(&self) -> Result<Vec<Value>, String> {
        if let Some(native) = &self.native {
            return Ok(documents(native));
        }
        let models = self.models()?;
        let pair = Pair::new(
            models.original.clone(),
            models.exceptions(),
            &Discovery::kubernetes(),
            None,
        );
        let Outcome::Generated(generated) = &pair.conversion().outcome else {
            return Err("nothing is generated".to_owned());
        };
        let bindings = generated.bindings.iter().map(|binding| &binding.document);
        let mut natives: Vec<Value> = std::iter::once(&generated.vap.document)
            .chain(bindings)
            .map(|document| document.root().to_serde())
            .collect();
        // The API server rejects duplicate names; the prototype does not.
        if self.name.is_some() {
            let names = natives[0].pointer_mut("/spec/matchConstraints/resourceRules/0/resourceNames");
            let names = names.and_then(Value::as_array_mut).ok_or("no names")?;
            names.sort_by_key(Value::to_string);
            names.dedup();
        }
        Ok(natives)
    }

    /// The same case with these native policies.
    fn against(&self, natives: &[Value]) -> Self {
        let texts: Vec<String> = natives.iter().map(Value::to_string).collect();
        Self {
            native: Some(texts.join("\n---\n")),
            ..self.clone()
        }
    }
}

fn documents(text: &str) -> Vec<Value> {
    let stream = yaml::read(text, yaml::Mode::Lax, &yaml::Limits::default());
    let trees = stream.documents().iter().filter_map(|document| document.tree().ok());
    trees
        .map(|tree| Document::from(tree.root()).root().to_serde())
        .filter(Value::is_object)
        .collect()
}

fn expect(label: &str, proof: &Proof) -> Result<(), String> {
    if proof.label.as_str() == label {
        return Ok(());
    }
    let regions: Vec<String> = proof
        .regions
        .iter()
        .map(|region| format!("{} {:?} {}", region.class, region.hazard, region.text))
        .collect();
    Err(format!(
        "{} instead of {label}: {} {:?} {regions:#?}",
        proof.label.as_str(),
        proof.reason,
        proof.notes
    ))
}

fn layer(word: &str) -> Layer {
    match word {
        "policy" => Layer::Policy,
        "cluster" => Layer::Cluster,
        _ => Layer::Rule,
    }
}

fn rows(name: &str) -> Vec<Vec<String>> {
    let text = read(&fixture(name));
    text.lines()
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect()
}

/// A policy of the hazards: their writer leaves `n` without quotes, which is a boolean to Kubernetes.
fn quoted(text: &str) -> String {
    text.replace("name: n\n", "name: 'n'\n")
}

fn optional(path: &Path) -> String {
    if path.exists() { read(path) } else { String::new() }
}

/// The policy of a hazard, with `background: false` if Kyverno otherwise refuses to store it and it was observed so.
pub(crate) fn storable(folder: &Path) -> String {
    let policy = quoted(&read(&folder.join("policy.yaml")));
    let expected: Value = serde_json::from_str(&read(&folder.join("expected.json"))).expect("JSON");
    if expected.get("obsK_background_false").is_some() {
        policy.replacen("spec:\n", "spec:\n  background: false\n", 1)
    } else {
        policy
    }
}

fn hazard(id: &str, word: &str) -> Case {
    let folder = shared("golden/hazards").unwrap_or_else(|| fixture("hazards")).join(id);
    Case {
        id: format!("{id}/{word}"),
        policy: storable(&folder),
        exceptions: quoted(&optional(&folder.join("exceptions.yaml"))),
        layer: layer(word),
        ..Case::default()
    }
}

/// Every hazard has its label, and its own request lies in a reported region.
#[test]
fn hazards() {
    let rows = rows("gates/prove-hazards.tsv");
    let gate = Gate {
        name: "prove-hazards",
        rows: 58,
    };
    gate.run(
        &rows,
        |row| format!("{}/{}", row[0], row[1]),
        |row| {
            let proof = hazard(&row[0], &row[1]).prove()?;
            expect(&row[2], &proof)?;
            live::hazard_is_in_a_region(&row[0], &proof)
        },
    );
}

/// The conversions that upstream's own tests assert: ten hold for single rules, nine for policies.
#[test]
fn conversions() {
    let Some(folder) = shared("golden/vap-generation") else {
        return;
    };
    let refuted = [
        "cpol-all-match-resource",
        "cpol-any-exclude-namespace-match-resource",
        "cpol-any-exclude-resource-match-with-object-selector",
        "cpol-match-all-exclude-one",
        "cpol-match-kind-with-wildcard",
        "cpol-with-an-exception-excluding-namespaces",
    ];
    let mut rows = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(short) = name.strip_prefix("cpol-generate__") else {
            continue;
        };
        for layer in [Layer::Rule, Layer::Policy] {
            let differs = refuted.contains(&short) || layer == Layer::Policy && short == "block-ephemeral-containers";
            rows.push((short.to_owned(), layer, if differs { "REFUTED" } else { "PROVEN" }));
        }
    }
    rows.sort_by_key(|row| (row.0.clone(), row.1.as_str()));
    let gate = Gate {
        name: "prove-conversions",
        rows: 32,
    };
    gate.run(
        &rows,
        |(name, layer, _)| format!("{name}/{}", layer.as_str()),
        |(name, layer, label)| {
            let folder = folder.join(format!("cpol-generate__{name}"));
            let text = |name: &str| optional(&folder.join(name));
            let native = format!("{}\n---\n{}", text("expected_vap.yaml"), text("expected_vapb.yaml"));
            let case = Case {
                id: name.clone(),
                policy: text("policy.yaml"),
                exceptions: text("exceptions.yaml"),
                native: Some(native),
                layer: *layer,
                ..Case::default()
            };
            expect(label, &case.prove()?)
        },
    );
}

#[test]
fn prototype_cases() {
    let Some(cases) = all() else { return };
    let rows = rows("gates/prove-cases.tsv");
    let gate = Gate {
        name: "prove-cases",
        rows: 130,
    };
    gate.run(
        &rows,
        |row| row[0].clone(),
        |row| {
            let found = cases.get(&row[0]).ok_or("no such case")?;
            let mut case = case(&row[0], found);
            if case.name.is_some() {
                case = case.against(&case.natives()?);
            }
            let proof = case.prove()?;
            if row[1] == "NOT-CONVERTIBLE" && proof.notes.iter().any(|note| note == "not-marked") {
                return Ok(());
            }
            expect(&row[1], &proof)
        },
    );
}

/// Everything that is proven: the hazards that are not real, and the cases of the reference data. Returns the minimum
/// number of cases, with the reference data and without.
fn at_least(with: usize) -> usize {
    if all().is_some() { with } else { 9 }
}

fn proven() -> Vec<Case> {
    let own = rows("gates/prove-hazards.tsv");
    let own = own.iter().filter(|row| row[2] == "PROVEN");
    let mut proven: Vec<Case> = own.map(|row| hazard(&row[0], &row[1])).collect();
    if let Some(cases) = all() {
        let rows = rows("gates/prove-cases.tsv");
        let rows = rows.iter().filter(|row| row[1] == "PROVEN");
        proven.extend(rows.filter_map(|row| Some(case(&row[0], cases.get(&row[0])?))));
    }
    proven
}
