//! The committed table is the one that the generator writes.

#[path = "../examples/table/generate.rs"]
mod generate;

use std::{fs, path::Path};

#[test]
fn the_table_is_up_to_date() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = manifest.join("../..");
    // A relative path is one from the root of the workspace, not from this crate, where cargo runs the test.
    let shared = workspace.join(std::env::var_os("KYVTEST_SHARED").unwrap_or_else(|| "../shared".into()));
    if !shared.join("golden/normalise/schema.tsv").exists() {
        let required = std::env::var_os("KYVTEST_REQUIRE_SHARED").is_some_and(|value| value == "1");
        assert!(
            !required,
            "KYVTEST_REQUIRE_SHARED=1, but there is no {}",
            shared.display()
        );
        return;
    }
    let table = generate::generate(&manifest.join("data"), &shared).expect("complete data");
    let committed = fs::read_to_string(manifest.join("src/table.tsv")).expect("a committed table");
    assert!(
        table == committed,
        "run `cargo run -p kyvtest-normalise --example table`"
    );
    assert!(committed.len() <= 300 * 1024, "the table has {} bytes", committed.len());
}
