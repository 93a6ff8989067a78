//! Properties of the CEL room that hold for any expression: see the modules.

mod bombs;
mod generate;
mod properties;
