//! Tests of the library and of the program that need no reference data, one module per subject.
//!
//! They are one binary, because each binary links the whole program again.

mod architecture;
mod authoring;
mod bad_input;
mod cel;
mod cli;
mod config;
mod cover;
mod crash;
mod crd_rules;
mod diagnostic;
mod first_hour;
mod fuzz;
mod html;
mod jmespath;
mod kill;
mod leaf;
mod matching;
mod migrate;
mod migrated;
mod mutation_proofs;
mod one_way;
mod pairs;
mod program;
mod report;
mod run;
mod schema;
mod suite;
mod suites;
mod yaml;
