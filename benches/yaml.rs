//! How fast files become trees: all YAML of the shared corpus, or of the fixtures where there is none.
//!
//! `cargo bench --bench yaml`; the throughput is that of one core.

use std::{
    fs,
    path::{Path, PathBuf},
};

use divan::{Bencher, counter::BytesCount};
use kyvtest::yaml::{Limits, Mode, Stream, emit, read};

fn main() {
    divan::main();
}

fn collect(directory: &Path, out: &mut Vec<Vec<u8>>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, out);
        } else if path.extension().is_some_and(|ext| ext == "yaml" || ext == "yml") {
            out.extend(fs::read(&path));
        }
    }
}

fn corpus() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shared = std::env::var_os("KYVTEST_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
    let mut files = Vec::new();
    collect(&shared.join("corpus"), &mut files);
    if files.is_empty() {
        collect(&root.join("fixtures"), &mut files);
        collect(&root.join("suites"), &mut files);
    }
    files
}

fn size(files: &[Vec<u8>]) -> BytesCount {
    BytesCount::new(files.iter().map(Vec::len).sum::<usize>())
}

#[divan::bench(sample_count = 20)]
fn read_all(bencher: Bencher) {
    let files = corpus();
    bencher.counter(size(&files)).bench_local(|| {
        for file in &files {
            divan::black_box(read(file, Mode::Lax, &Limits::default()));
        }
    });
}

#[divan::bench(sample_count = 10)]
fn emit_all(bencher: Bencher) {
    let files = corpus();
    let streams: Vec<_> = files
        .iter()
        .map(|file| read(file, Mode::Lax, &Limits::default()))
        .collect();
    bencher.counter(size(&files)).bench_local(|| {
        for document in streams.iter().flat_map(Stream::documents) {
            if let Ok(tree) = document.tree() {
                divan::black_box(emit::to_string(tree.root()));
            }
        }
    });
}
