//! Gate of repairs: refuted before, proven after, and the same on random requests.

use std::{path::Path, sync::Arc};

use kyvtest::{
    convert::Exceptions,
    diagnostic::Sources,
    kube::Discovery,
    pair::Original,
    policy::{Loaded, Purpose, load},
    prove::{
        Label, Layer, Options, Target, prove,
        repair::{Repair, repair},
    },
    yaml,
};

use crate::{
    random_requests::{Random, first_difference},
    support::{Gate, fixture, read, shared},
};

fn add(loaded: &mut Loaded, text: &str, purpose: Purpose) {
    let file = Sources::new().add("input.yaml", text);
    let stream = yaml::read(text, yaml::Mode::Lax, &yaml::Limits::default());
    load(stream, file, purpose, loaded);
}

/// A policy and its exceptions.
struct Case {
    text: String,
    original: Original,
    loaded: Loaded,
}

impl Case {
    fn new(policy: &str, exceptions: &str) -> Result<Self, String> {
        let mut loaded = Loaded::default();
        add(&mut loaded, policy, Purpose::Policies);
        add(&mut loaded, exceptions, Purpose::Exceptions);
        let original = match (loaded.policies.as_slice(), loaded.validating_policies.as_slice()) {
            ([policy, ..], _) => Original::Policy(Arc::clone(policy)),
            (_, [policy, ..]) => Original::ValidatingPolicy(Arc::clone(policy)),
            _ => return Err(format!("no policy: {:?}", loaded.diagnostics)),
        };
        let text = format!("{policy}\n{exceptions}");
        Ok(Self { text, original, loaded })
    }

    fn exceptions(&self) -> Exceptions<'_> {
        Exceptions {
            classic: &self.loaded.exceptions,
            cel: &self.loaded.cel_exceptions,
        }
    }

    /// Checks the label before and what comes of the repair: `PROVEN`, `PROVEN*` (with a remark), or the code of a refusal.
    fn check(&self, layer: Layer, before: &str, after: &str) -> Result<(), String> {
        let discovery = Discovery::kubernetes();
        let options = Options {
            layer,
            paranoid: true,
            ..Options::default()
        };
        let generated = prove(&self.original, self.exceptions(), None, &discovery, &options);
        if generated.label.as_str() != before {
            return Err(format!("{} instead of {before} before", generated.label.as_str()));
        }
        let repaired = match repair(&self.original, self.exceptions(), &discovery, &options) {
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
            "PROVEN*"
        };
        if repaired.proof.label != Label::Proven || word != after {
            return Err(format!("{word} instead of {after}: {:?}", repaired.remarks));
        }
        self.round_trip(
            &repaired.policies,
            &repaired.bindings,
            &discovery,
            &options,
            after == "PROVEN*",
        )
    }

    /// What is written is read again, is proven again, and decides random requests alike.
    fn round_trip(
        &self,
        policies: &[kyvtest::convert::Object<kyvtest::policy::ValidatingAdmissionPolicy>],
        bindings: &[kyvtest::convert::Object<kyvtest::policy::ValidatingAdmissionPolicyBinding>],
        discovery: &Discovery,
        options: &Options<'_>,
        exempt: bool,
    ) -> Result<(), String> {
        let documents = policies.iter().map(|object| &object.document);
        let documents = documents.chain(bindings.iter().map(|object| &object.document));
        let texts: Vec<String> = documents.map(|document| document.root().to_yaml()).collect();
        let mut read = Loaded::default();
        add(&mut read, &texts.join("---\n"), Purpose::Policies);
        if !read.diagnostics.is_empty() {
            return Err(format!("{:?}", read.diagnostics));
        }
        let target = Target {
            policies: read.vaps,
            bindings: read.bindings,
        };
        let options = Options {
            exempt: !exempt,
            ..options.clone()
        };
        let again = prove(&self.original, self.exceptions(), Some(&target), discovery, &options);
        if again.label != Label::Proven {
            return Err(format!("{} when read again: {}", again.label.as_str(), again.reason));
        }
        let mut random = Random::new(&[self.text.as_str(), &texts.join("---\n")]);
        random.exempt = !exempt;
        first_difference(
            &mut random,
            &self.original,
            self.exceptions(),
            &target,
            discovery,
            &options,
        )
    }
}

fn layer(word: &str) -> Layer {
    match word {
        "rule" => Layer::Rule,
        "cluster" => Layer::Cluster,
        _ => Layer::Policy,
    }
}

fn optional(path: &Path) -> String {
    if path.exists() { read(path) } else { String::new() }
}

/// The writer of the hazards leaves `n` without quotes, which is a truth value to Kubernetes.
fn quoted(text: &str) -> String {
    text.replace("name: n\n", "name: 'n'\n")
}

#[test]
fn hazards() {
    let Some(folder) = shared("golden/hazards") else { return };
    let text = read(&fixture("gates/prove-repair.tsv"));
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    let gate = Gate {
        name: "prove-repair",
        rows: rows.len(),
    };
    gate.run(
        &rows,
        |row| format!("{}/{}", row[0], row[1]),
        |row| {
            let folder = folder.join(row[0]);
            let policy = quoted(&read(&folder.join("policy.yaml")));
            let exceptions = quoted(&optional(&folder.join("exceptions.yaml")));
            Case::new(&policy, &exceptions)?.check(layer(row[1]), row[2], row[3])
        },
    );
}

/// One policy for every construction, with what is expected in its first comment: layer, label before, what comes of it.
#[test]
fn own_policies() {
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
            let ["#", layer_word, before, after] = words.as_slice() else {
                return Err("no expectation in the first line".to_owned());
            };
            let (policy, exceptions) = text.split_once("# exceptions\n").unwrap_or((&text, ""));
            Case::new(policy, exceptions)?.check(layer(layer_word), before, after)
        },
    );
}
