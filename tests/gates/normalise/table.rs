//! The committed table is the one that the generator writes.

#[path = "../../../crates/normalise/examples/table/generate.rs"]
mod generate;

use kyvtest_gates::{read, root, shared};

#[test]
fn the_table_is_up_to_date() {
    let Some(golden) = shared("golden") else { return };
    let own = root().join("crates/normalise");
    let shared = golden.parent().expect("the shared data");
    let table = generate::generate(&own.join("data"), shared).expect("complete data");
    let committed = read(&own.join("src/table.tsv"));
    assert!(
        table == committed,
        "run `cargo run -p kyvtest-normalise --example table`"
    );
    assert!(committed.len() <= 300 * 1024, "the table has {} bytes", committed.len());
}
