//! How fast policies are proven or refuted, witness, replay and explanation included; one core.
//!
//! `cargo bench --bench prove`. The conversions that upstream asserts and the published policies lie in `../shared` (or where
//! `KYVTEST_SHARED` points); without them only the project's own fixtures are measured.

use std::path::{Path, PathBuf};

use divan::{Bencher, counter::ItemsCount};
use kyvtest::{
    convert::Exceptions,
    diagnostic::Sources,
    kube::Discovery,
    pair::Pair,
    policy::{Loaded, Policy, Purpose, load},
    prove::{
        Layer, Options, Target,
        body::{self, Side, compare_sides},
        prove,
    },
    yaml,
};

fn main() {
    divan::main();
}

/// A policy with its exceptions and what it is compared with.
struct Case {
    original: Policy,
    loaded: Loaded,
    target: Option<Target>,
}

fn add(loaded: &mut Loaded, text: &str, purpose: Purpose) {
    let file = Sources::new().add("input.yaml", text);
    load(
        yaml::read(text, yaml::Mode::Lax, &yaml::Limits::default()),
        file,
        purpose,
        loaded,
    );
}

fn cases(policies: &str, exceptions: &str, native: Option<&str>) -> Vec<Case> {
    let mut loaded = Loaded::default();
    add(&mut loaded, policies, Purpose::Policies);
    add(&mut loaded, exceptions, Purpose::Exceptions);
    let target = native.map(|native| {
        let mut loaded = Loaded::default();
        add(&mut loaded, native, Purpose::Policies);
        Target {
            policies: loaded.native().cloned().collect(),
            bindings: loaded.bindings,
        }
    });
    let exceptions = (loaded.exceptions.clone(), loaded.cel_exceptions.clone());
    let validating = loaded.policies.into_iter().filter(Policy::validates);
    validating
        .map(|original| Case {
            original,
            loaded: Loaded {
                exceptions: exceptions.0.clone(),
                cel_exceptions: exceptions.1.clone(),
                ..Loaded::default()
            },
            target: target.clone(),
        })
        .collect()
}

impl Case {
    fn exceptions(&self) -> Exceptions<'_> {
        Exceptions {
            classic: &self.loaded.exceptions,
            cel: &self.loaded.cel_exceptions,
        }
    }
}

fn fixture(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(path);
    std::fs::read_to_string(path).expect("a fixture")
}

fn shared(path: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shared = std::env::var_os("KYVTEST_SHARED").map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
    let path = root.join(shared).join(path);
    path.exists().then_some(path)
}

fn measure(bencher: Bencher<'_, '_>, cases: &[Case], layer: Layer) {
    let discovery = Discovery::kubernetes();
    let options = Options {
        layer,
        ..Options::default()
    };
    bencher.counter(ItemsCount::new(cases.len())).bench_local(|| {
        let proofs = cases.iter().map(|case| {
            let target = case.target.as_ref();
            prove(&case.original, case.exceptions(), target, &discovery, &options)
        });
        proofs.map(|proof| proof.stats.paths).sum::<u64>()
    });
}

/// One policy of each label, and a few hazards.
#[divan::bench(args = ["prove/proven.yaml", "prove/refuted.yaml", "prove/unknown.yaml", "hazards/H01/policy.yaml", "hazards/H14/policy.yaml"])]
fn typical(bencher: Bencher<'_, '_>, path: &str) {
    measure(bencher, &cases(&fixture(path), "", None), Layer::Policy);
}

/// Twelve patterns of names, twelve of namespaces and six labels on both sides.
#[divan::bench]
fn stress(bencher: Bencher<'_, '_>) {
    let native = fixture("prove/stress-native.yaml");
    measure(
        bencher,
        &cases(&fixture("prove/stress.yaml"), "", Some(&native)),
        Layer::Rule,
    );
}

/// The conversions that upstream's own tests assert.
#[divan::bench]
fn conversions(bencher: Bencher<'_, '_>) {
    let Some(directory) = shared("golden/vap-generation") else {
        return;
    };
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a folder").flatten() {
        if entry.file_name().to_string_lossy().starts_with("cpol-generate__") {
            let text = |name: &str| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
            let native = format!("{}\n---\n{}", text("expected_vap.yaml"), text("expected_vapb.yaml"));
            all.extend(cases(&text("policy.yaml"), &text("exceptions.yaml"), Some(&native)));
        }
    }
    measure(bencher, &all, Layer::Rule);
}

fn yaml_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            yaml_files(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "yaml") {
            found.push(path);
        }
    }
}

/// Every published policy that converts.
#[divan::bench(sample_count = 3)]
fn published(bencher: Bencher<'_, '_>) {
    let Some(directory) = shared("corpus") else { return };
    let mut files = Vec::new();
    yaml_files(&directory, &mut files);
    files.sort();
    let discovery = Discovery::kubernetes();
    let mut seen = std::collections::BTreeSet::new();
    let mut all = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if text.contains("kind: ClusterPolicy") || text.contains("kind: ValidatingPolicy") {
            let own = cases(&text, "", None).into_iter().filter(|case| {
                let pair = Pair::new(case.original.clone(), case.exceptions(), &discovery, None);
                pair.generated().is_some()
            });
            all.extend(own.filter(|_| seen.insert(text.clone())));
        }
    }
    measure(bencher, &all, Layer::Policy);
}

/// The policy of each directory of the library that has exactly one, by the directory's place below a set of policies.
fn library(set: &str) -> Vec<(String, Loaded)> {
    let Some(root) = shared("corpus/policies").map(|root| root.join(set)) else {
        return Vec::new();
    };
    let mut files = Vec::new();
    yaml_files(&root, &mut files);
    files.sort();
    let mut found: Vec<(String, Loaded)> = Vec::new();
    for path in files {
        let mut loaded = Loaded::default();
        add(
            &mut loaded,
            &std::fs::read_to_string(&path).unwrap_or_default(),
            Purpose::Policies,
        );
        let directory = path.parent().and_then(|directory| directory.strip_prefix(&root).ok());
        let name = directory.map_or_else(String::new, |directory| directory.display().to_string());
        let is_new = found.iter().all(|(own, _)| *own != name);
        if is_new && loaded.policies.len() == 1 && loaded.policies.iter().all(Policy::validates) {
            found.push((name, loaded));
        }
    }
    found
}

/// The policies that two sets of the library have in different texts.
fn rewrites() -> Vec<(String, Side, Side)> {
    let discovery = Discovery::kubernetes();
    let Some(root) = shared("corpus/policies") else {
        return Vec::new();
    };
    let mut sets: Vec<String> = std::fs::read_dir(root)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    sets.sort();
    let mut pairs = Vec::new();
    for (from, to) in [("-cel", "-vpol"), ("", "-cel"), ("", "-vpol")] {
        for set in &sets {
            let Some(stem) = set.strip_suffix(from) else { continue };
            let other = format!("{stem}{to}");
            if !sets.contains(&other) {
                continue;
            }
            let mut theirs = library(&other);
            for (name, ours) in library(set) {
                let Some(at) = theirs.iter().position(|(own, _)| *own == name) else {
                    continue;
                };
                let side = |loaded: Loaded| Side::new(loaded, Vec::new(), &discovery);
                if let (Ok(a), Ok(b)) = (side(ours), side(theirs.remove(at).1)) {
                    pairs.push((format!("{set}/{name}"), a, b));
                }
            }
        }
    }
    pairs
}

fn measure_pairs(bencher: Bencher<'_, '_>, pairs: &[(String, Side, Side)]) {
    let discovery = Discovery::kubernetes();
    let options = body::Options::default();
    bencher.counter(ItemsCount::new(pairs.len())).bench_local(|| {
        let found = pairs.iter().map(|(_, a, b)| compare_sides(a, b, &discovery, &options));
        found.map(|found| found.requests).sum::<u64>()
    });
}

/// One policy of the library in two texts: the median of all such pairs, which is measured first.
#[divan::bench]
fn median_rewrite(bencher: Bencher<'_, '_>) {
    let discovery = Discovery::kubernetes();
    let options = body::Options::default();
    let mut timed: Vec<(std::time::Duration, (String, Side, Side))> = rewrites()
        .into_iter()
        .map(|pair| {
            let start = std::time::Instant::now();
            divan::black_box(compare_sides(&pair.1, &pair.2, &discovery, &options));
            (start.elapsed(), pair)
        })
        .collect();
    timed.sort_by_key(|(time, _)| *time);
    if timed.is_empty() {
        return;
    }
    let (_, pair) = timed.swap_remove(timed.len() / 2);
    measure_pairs(bencher, &[pair]);
}

/// All policies of the library that it has in several texts.
#[divan::bench(sample_count = 1, sample_size = 1)]
fn all_rewrites(bencher: Bencher<'_, '_>) {
    measure_pairs(bencher, &rewrites());
}
