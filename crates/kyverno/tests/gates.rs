//! Gates of mutation against recorded upstream results.

#[path = "gates/mutate.rs"]
mod mutate;
#[path = "gates/support.rs"]
mod support;
