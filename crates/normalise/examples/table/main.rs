//! Writes `src/table.tsv`: `cargo run -p kyvtest-normalise --example table`.
//!
//! Upstream counterpart: none. The reference data is looked for in `KYVTEST_SHARED`, else in `../shared`.

mod generate;

use std::{env, fs, path::Path};

fn main() -> Result<(), String> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shared = manifest
        .join("../..")
        .join(env::var_os("KYVTEST_SHARED").unwrap_or_else(|| "../shared".into()));
    let table = generate::generate(&manifest.join("data"), &shared)?;
    fs::write(manifest.join("src/table.tsv"), table).map_err(|error| error.to_string())
}
