//! The golden gates: every row of the reference data, compared through the library's own entry points.
//!
//! Each gate is a module; `kyvtest-gates` has the parts that they share.

mod agreement;
mod apiserver;
mod as_sent;
mod autogen;
mod cel;
mod cel_binary;
mod cel_kubernetes;
mod cel_parse;
mod classic_condition;
mod classic_pattern;
mod classic_pod_security;
mod classic_variables;
mod conformance;
mod convert;
mod corpus;
mod eval;
mod generate_rules;
mod jmespath;
mod kyverno;
mod kyverno_cli;
mod kyverno_live;
mod kyverno_probes;
mod map;
mod matching;
mod migrate;
mod migrate_kinds;
mod migrate_stored;
mod mutate_rules;
mod normalise;
mod patch;
mod policy_validate;
mod probes;
mod prove;
mod regex;
mod run_binary;
mod suite;
mod test_suites;
mod text;
mod textproto;
mod yaml;

use kyvtest_gates as support;
