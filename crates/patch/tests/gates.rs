//! Gates of the patch functions against recorded upstream results, and the tables that are generated from them.

#[path = "gates/cases.rs"]
mod cases;
#[path = "gates/literal.rs"]
mod literal;
#[path = "gates/mpol.rs"]
mod mpol;
#[path = "gates/mutation.rs"]
mod mutation;
#[path = "gates/parts.rs"]
mod parts;
#[path = "gates/structured.rs"]
mod structured;
#[path = "gates/tables.rs"]
mod tables;
#[path = "gates/vectors.rs"]
mod vectors;
