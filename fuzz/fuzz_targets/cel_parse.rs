//! `cargo fuzz run cel_parse`
#![no_main]

#[path = "../src/cel_parse.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
