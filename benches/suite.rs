//! How fast suites are loaded: every suite of the shared corpus, or the project's own where there is none.
//!
//! `cargo bench --bench suite`; one core, files read from the disk cache.

use std::path::{Path, PathBuf};

use divan::{Bencher, counter::ItemsCount};
use kyvtest::suite::{self, Disk, Options};

fn main() {
    divan::main();
}

/// The test files.
fn tests() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shared = std::env::var_os("KYVTEST_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
    let options = Options::default();
    let of = |directory: &Path| suite::discover(&Disk, &directory.to_string_lossy(), &options).unwrap_or_default();
    let tests = of(&shared.join("corpus"));
    if tests.is_empty() {
        return of(&root.join("fixtures/suite"));
    }
    tests
}

#[divan::bench(sample_count = 10)]
fn load_all(bencher: Bencher) {
    let tests = tests();
    bencher.counter(ItemsCount::new(tests.len())).bench_local(|| {
        for path in &tests {
            divan::black_box(suite::load(&Disk, path, &Options::default()));
        }
    });
}
