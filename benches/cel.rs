//! Evaluating and compiling CEL: the expressions and the pod of the speed table, and a corpus of policy expressions.
//!
//! `cargo bench --bench cel`. The data lies in `../shared/golden/cel` (or where `KYVTEST_SHARED` points); without it the
//! own fixtures are used.

use std::{
    alloc::System,
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use divan::{AllocProfiler, Bencher, black_box};
use kyvtest::{
    cel::{
        compile::compile,
        context::Scratch,
        env::Env,
        eval::{Activation, evaluate},
        host::NoHost,
        profile::Profile,
        types::Type,
        val::Val,
    },
    value::Document,
};

#[global_allocator]
static ALLOC: AllocProfiler<System> = AllocProfiler::new(System);

fn main() {
    divan::main();
}

fn data(name: &str) -> Option<String> {
    let shared = std::env::var_os("KYVTEST_SHARED").map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
    let shared = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(shared)
        .join("golden/cel")
        .join(name);
    let own = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/cel/bench")
        .join(name);
    fs::read_to_string(shared).or_else(|_| fs::read_to_string(own)).ok()
}

static EXPRESSIONS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let text = data("bench_exprs.txt").unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(l, e)| (l.to_owned(), e.to_owned()))
        .collect()
});

static POD: LazyLock<String> = LazyLock::new(|| data("bench_pod.json").unwrap_or_else(|| "{}".to_owned()));

static CORPUS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let text = data("corpus_celgo.jsonl").unwrap_or_default();
    let field = |line: &str| {
        serde_json::from_str::<serde_json::Value>(line)
            .ok()?
            .get("expr")?
            .as_str()
            .map(str::to_owned)
    };
    text.lines().filter_map(field).collect()
});

fn environment() -> Env {
    let mut env = Env::new(Profile::kubernetes());
    env.declare("object", Type::Dyn);
    env.declare("oldObject", Type::Dyn);
    env
}

fn labels() -> Vec<&'static str> {
    EXPRESSIONS.iter().map(|(label, _)| label.as_str()).collect()
}

#[divan::bench(args = labels())]
fn eval(bencher: Bencher<'_, '_>, label: &str) {
    let (_, text) = EXPRESSIONS
        .iter()
        .find(|(known, _)| known == label)
        .expect("a known label");
    let program = compile(text, &environment()).expect("the expression compiles");
    let pod = Document::from_json(&POD).expect("the pod is JSON");
    let mut scratch = Scratch::new();
    bencher.bench_local(|| {
        scratch.reset();
        let values = [Some(Val::from(pod.root())), Some(Val::Null)];
        let activation = Activation {
            values: &values,
            variables: None,
        };
        let outcome = evaluate(black_box(&program), &scratch, activation, &NoHost, None);
        (matches!(outcome.value, Val::Error(_)), outcome.cost)
    });
}

/// Parse, check and plan every expression of the corpus; those of other environments end in their error.
#[divan::bench]
fn compile_corpus(bencher: Bencher<'_, '_>) {
    let env = environment();
    bencher
        .counter(divan::counter::ItemsCount::new(CORPUS.len()))
        .bench_local(|| {
            CORPUS
                .iter()
                .filter(|text| compile(black_box(text), &env).is_ok())
                .count()
        });
}

/// Makes the pod readable.
#[divan::bench]
fn load_pod(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| Document::from_json(black_box(&POD)));
}
