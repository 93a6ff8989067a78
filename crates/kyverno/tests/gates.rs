//! Gates of mutation, generation, deletion and image verification against recorded upstream results.

#[path = "gates/generate.rs"]
mod generate;
#[path = "gates/mutate.rs"]
mod mutate;
#[path = "gates/support.rs"]
mod support;
