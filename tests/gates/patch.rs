//! Gates of the patch functions against recorded upstream results, and the tables that are generated from them.

mod cases;
mod literal;
mod mpol;
mod mutation;
mod parts;
mod structured;
mod tables;
mod vectors;
