//! `cargo fuzz run run`
#![no_main]

#[path = "../src/run.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
