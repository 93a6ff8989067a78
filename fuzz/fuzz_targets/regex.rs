//! `cargo fuzz run regex`
#![no_main]

#[path = "../src/regex.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
