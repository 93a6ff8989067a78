//! Properties of the CEL crate that hold for any expression: see the modules.

mod bombs;
mod generate;
mod properties;
