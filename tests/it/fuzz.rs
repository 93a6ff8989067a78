//! The bodies of the fuzz targets under a seeded mutation loop, for a stable compiler.
//!
//! `cargo test --release --test fuzz -- --ignored --nocapture`; one test runs a fixed number of inputs and is never ignored. `KYVTEST_FUZZ_SECONDS` (default 5) bounds each target,
//! `KYVTEST_FUZZ_SEED` (default 1) chooses the sequence. A target is one module with `run(&[u8])` in `fuzz/src/`, and one
//! test here with its seeds and dictionary.

#![expect(clippy::print_stdout, reason = "the count of executions is the result")]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

#[path = "../../fuzz/src/cel_eval.rs"]
mod cel_eval;
#[path = "../../fuzz/src/cel_parse.rs"]
mod cel_parse;
#[path = "../../fuzz/src/regex.rs"]
mod regex;
#[path = "../../fuzz/src/run.rs"]
mod run;
#[path = "../../fuzz/src/yaml.rs"]
mod yaml;

#[test]
#[ignore = "runs for as long as KYVTEST_FUZZ_SECONDS says"]
fn fuzz_yaml() {
    let mut seeds = json_lines("fixtures/yaml/vectors.jsonl", "yaml");
    seeds.extend(files("../shared/corpus", 400));
    let words = [
        "- ",
        ": ",
        "? ",
        "  ",
        "\t",
        "\n",
        "\r\n",
        " #c",
        "|",
        ">-",
        "|2",
        "'",
        "\"",
        "\\",
        "\\u00e9",
        "[",
        "]",
        "{",
        "}",
        ",",
        "&a ",
        "*a",
        "<<: *a\n",
        "!!str ",
        "!!binary ",
        "!x ",
        "---\n",
        "...\n",
        "%YAML 1.1\n",
        "é",
        "\u{2028}",
        "\u{85}",
        "\u{feff}",
        "yes",
        "0x1F",
        "1_0",
        "1e3",
        ".inf",
        "~",
        "\u{0}",
        "a: 1\n",
    ];
    Target {
        name: "yaml",
        seeds,
        words: words.iter().map(|word| word.as_bytes().to_vec()).collect(),
        longest: 4096,
    }
    .run(yaml::run);
}

#[test]
#[ignore = "runs for as long as KYVTEST_FUZZ_SECONDS says"]
fn fuzz_cel_parse() {
    Target {
        name: "cel_parse",
        seeds: expressions(),
        words: bytes(&CEL_WORDS),
        longest: 2048,
    }
    .run(cel_parse::run);
}

#[test]
#[ignore = "runs for as long as KYVTEST_FUZZ_SECONDS says"]
fn fuzz_cel_eval() {
    Target {
        name: "cel_eval",
        seeds: expressions(),
        words: bytes(&CEL_WORDS),
        longest: 1024,
    }
    .run(cel_eval::run);
}

#[test]
#[ignore = "runs for as long as KYVTEST_FUZZ_SECONDS says"]
fn fuzz_regex() {
    let mut seeds = json_lines("fixtures/regex/syntax.jsonl", "pattern");
    seeds.extend(bytes(&["(a+)+$\naaaaaaaaaaaaaaaab", "^(?i:é|[^a-z])*\\b\nÉ A"]));
    let words = [
        "(",
        ")",
        "(?:",
        "(?i)",
        "(?P<n>",
        "(?<n>",
        "|",
        "*",
        "+",
        "?",
        "*?",
        "{2}",
        "{2,}",
        "{0,1000}",
        "{1001}",
        "[",
        "]",
        "[^",
        "-",
        "^",
        "$",
        ".",
        "\\",
        "\\d",
        "\\W",
        "\\b",
        "\\B",
        "\\A",
        "\\z",
        "\\pL",
        "\\P{Greek}",
        "\\x{10FFFF}",
        "\\Q",
        "\\E",
        "\\C",
        "[[:alpha:]]",
        "[:^word:]",
        "&&",
        "é",
        "日",
        "\n",
        "a",
        "\u{0}",
    ];
    Target {
        name: "regex",
        seeds,
        words: bytes(&words),
        longest: 512,
    }
    .run(regex::run);
}

#[test]
#[ignore = "runs for as long as KYVTEST_FUZZ_SECONDS says"]
fn fuzz_run() {
    suites_and_policies().run(run::run);
}

/// A few seconds of the target `run`, the same in every build.
#[test]
fn run_survives_mutations() {
    suites_and_policies().some(1500, run::run);
}

/// The project's suites and the bad ones of the fixtures, each in one text.
fn suites_and_policies() -> Target {
    let mut seeds = Vec::new();
    for below in ["suites", "fixtures/suite/bad", "fixtures/bad-input"] {
        let mut directories: Vec<PathBuf> = std::fs::read_dir(root(below))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
            .collect();
        directories.sort();
        for directory in directories {
            let parts = run::FILES.map(|(name, _)| std::fs::read(directory.join(name)).unwrap_or_default());
            seeds.push(parts.join(&0));
        }
    }
    let words = [
        "\0",
        "\n",
        "  ",
        "- ",
        ": ",
        "{}",
        "[]",
        "''",
        "null",
        "true",
        "-1",
        "1e99",
        "*",
        "?",
        "/",
        "//",
        "..",
        "---\n",
        "&a ",
        "*a",
        "<<: *a",
        "!!binary ",
        "kind: List\nitems:\n",
        "kind: ",
        "apiVersion: ",
        "metadata: ",
        "name: ",
        "namespace: ",
        "labels: ",
        "annotations: ",
        "spec: ",
        "rules: ",
        "match: ",
        "exclude: ",
        "any: ",
        "all: ",
        "resources: ",
        "kinds: ",
        "names: ",
        "namespaces: ",
        "selector: ",
        "matchLabels: ",
        "matchExpressions: ",
        "operator: DoesNotExist",
        "operations: ",
        "subjects: ",
        "roles: ",
        "clusterRoles: ",
        "celPreconditions: ",
        "validate: ",
        "cel: ",
        "expressions: ",
        "expression: ",
        "message: ",
        "messageExpression: ",
        "variables: ",
        "params",
        "paramKind: ",
        "paramRef: ",
        "auditAnnotations: ",
        "valueExpression: ",
        "failureAction: Enforce",
        "failureActionOverrides: ",
        "applyRules: One",
        "validations: ",
        "matchConstraints: ",
        "resourceRules: ",
        "matchConditions: ",
        "evaluation: {mode: JSON}",
        "autogen: ",
        "object",
        "oldObject",
        "request.userInfo",
        "namespaceObject",
        "object.spec.containers",
        "resource.List('v1', 'configmaps', 'default')",
        "Pod",
        "v1/Pod",
        "*/*",
        "Deployment/scale",
        "ClusterPolicy",
        "Policy",
        "ValidatingPolicy",
        "NamespacedValidatingPolicy",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "PolicyException",
        "kyverno.io/v1",
        "policies.kyverno.io/v1",
        "results: ",
        "policies: ",
        "policy: ",
        "rule: ",
        "result: skip",
        "operation: UPDATE",
        "resourceSpecs: ",
        "globalValues: ",
        "request.operation: DELETE",
        "subresources: ",
        "rows: ",
        "cases: ",
        "effect: deny",
        "matches: false",
        "oldObject: ",
        "validate: {pattern: {spec: '?*'}}",
        "validate: {deny: {}}",
        "preconditions: ",
        "context: ",
        "foreach: ",
        "{{ request.object }}",
        "podSecurity: {level: baseline, version: latest}",
        "é",
        "\u{feff}",
        "\u{85}",
    ];
    Target {
        name: "run",
        seeds,
        words: bytes(&words),
        longest: 1 << 15,
    }
}

/// Expressions: those of the parser's fixture, and one of each library.
fn expressions() -> Vec<Vec<u8>> {
    let mut seeds = json_lines("fixtures/cel/parse.jsonl", "expr");
    for directory in ["fixtures/cel/kubernetes", "fixtures/cel/kyverno"] {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(root(directory))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|ext| ext == "jsonl"))
            .collect();
        paths.sort();
        for path in paths {
            seeds.extend(json_lines(&path.to_string_lossy(), "expr"));
        }
    }
    seeds
}

fn bytes(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

const CEL_WORDS: [&str; 84] = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    ",",
    "?",
    ":",
    ".?",
    "[?",
    "'",
    "\"",
    "\"\"\"",
    "r'",
    "b'",
    "\\",
    "\\u00e9",
    "\\x41",
    "//",
    "\n",
    " ",
    "+",
    "-",
    "*",
    "/",
    "%",
    "!",
    "&&",
    "||",
    "==",
    "!=",
    "<",
    ">=",
    " in ",
    "1",
    "0",
    "-1",
    "1u",
    "0x1F",
    "1.5",
    "1e9",
    "9223372036854775807",
    "true",
    "false",
    "null",
    "a",
    "x",
    "object",
    "object.spec",
    "oldObject",
    "object.list",
    "'a'",
    "''",
    "has(object.a)",
    ".all(x, x == 1)",
    ".exists(x, true)",
    ".exists_one(x, x)",
    ".map(x, [x, x])",
    ".filter(x, true)",
    ".map(k, true, k)",
    ".all(k, v, k == v)",
    ".transformMap(k, v, v)",
    ".transformMapEntry(k, v, {k: v})",
    ".optMap(x, x)",
    ".orValue(1)",
    ".value()",
    "optional.of(1)",
    "optional.none()",
    "size(",
    "lists.range(9)",
    ".sortBy(x, x)",
    ".flatten()",
    ".distinct()",
    ".join(',')",
    ".split('')",
    ".replace('', 'b')",
    "'%s %d'.format([object, 1])",
    "type(",
    "dyn(",
    "int(",
    "é",
    "\u{0}",
];

/// The inputs of a fuzz target.
struct Target {
    name: &'static str,
    seeds: Vec<Vec<u8>>,
    words: Vec<Vec<u8>>,
    longest: usize,
}

impl Target {
    /// Runs mutated seeds until the time is over.
    fn run(&self, body: impl Fn(&[u8])) {
        let number = |name: &str, default| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
        let limit = Duration::from_secs(number("KYVTEST_FUZZ_SECONDS", 5));
        let seed = number("KYVTEST_FUZZ_SEED", 1);
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        assert!(!self.seeds.is_empty(), "no seeds");
        let start = Instant::now();
        let (mut executions, mut slowest, mut slow_input) = (0u64, Duration::ZERO, Vec::new());
        while start.elapsed() < limit {
            let input = self.input(&mut random);
            let before = Instant::now();
            let held = catch_unwind(AssertUnwindSafe(|| body(&input))).is_ok();
            assert!(held, "{} fails on {:?}", self.name, String::from_utf8_lossy(&input));
            if before.elapsed() > slowest {
                slowest = before.elapsed();
                slow_input = input;
            }
            executions += 1;
        }
        println!(
            "fuzz {}: {executions} executions, seed {seed}, slowest {slowest:?} on {:?}",
            self.name,
            String::from_utf8_lossy(&slow_input)
        );
    }

    /// Runs so many mutated seeds, after the seeds themselves.
    fn some(&self, count: usize, body: impl Fn(&[u8])) {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        for number in 0..self.seeds.len() + count {
            let input = match self.seeds.get(number) {
                Some(seed) => seed.clone(),
                None => self.input(&mut random),
            };
            let held = catch_unwind(AssertUnwindSafe(|| body(&input))).is_ok();
            assert!(held, "{} fails on {:?}", self.name, String::from_utf8_lossy(&input));
        }
    }

    fn input(&self, random: &mut Random) -> Vec<u8> {
        let mut input = random.pick(&self.seeds).clone();
        input.truncate(self.longest);
        for _ in 0..=random.below(6) {
            let at = random.below(input.len() + 1);
            let end = (at + 1 + random.below(12)).min(input.len());
            match random.below(6) {
                0 | 1 => {
                    let word = random.pick(&self.words).clone();
                    input.splice(at..at, word);
                }
                2 => drop(input.drain(at..end)),
                3 => {
                    let copy = input[at..end].to_vec();
                    let to = random.below(input.len() + 1);
                    input.splice(to..to, copy);
                }
                4 => {
                    let other = random.pick(&self.seeds);
                    let from = random.below(other.len() + 1);
                    let to = (from + random.below(40)).min(other.len());
                    input.splice(at..at, other[from..to].iter().copied());
                }
                _ => {
                    if let Some(byte) = input.get_mut(at) {
                        *byte = random.below(256) as u8;
                    }
                }
            }
        }
        input
    }
}

/// A small generator; the sequence depends on the seed alone.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit.max(1)
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// One field of each row of a JSON-lines file.
fn json_lines(path: &str, field: &str) -> Vec<Vec<u8>> {
    let text = std::fs::read_to_string(root(path)).expect("the fixture is there");
    text.lines()
        .filter_map(|line| {
            let mut deserializer = serde_json::Deserializer::from_str(line);
            deserializer.disable_recursion_limit();
            let row: serde_json::Value = serde::Deserialize::deserialize(&mut deserializer).ok()?;
            Some(row[field].as_str()?.as_bytes().to_vec())
        })
        .collect()
}

/// Up to `most` YAML files below a directory that may be missing, spread over it.
fn files(directory: &str, most: usize) -> Vec<Vec<u8>> {
    let mut paths = Vec::new();
    let mut directories = vec![root(directory)];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|ext| ext == "yaml" || ext == "yml") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let step = 1 + paths.len() / most;
    paths
        .iter()
        .step_by(step)
        .filter_map(|path| std::fs::read(path).ok())
        .collect()
}
