//! `cargo fuzz run cel_eval`
#![no_main]

#[path = "../src/cel_eval.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
