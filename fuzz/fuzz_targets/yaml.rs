//! `cargo fuzz run yaml`
#![no_main]

#[path = "../src/yaml.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
