//! kyvtest: a Kyverno-compatible policy test harness.
//!
//! It loads `kyverno-test.yaml` suites, asks two engines the same admission question (what Kyverno decides, and what the
//! Kubernetes API server decides with the ValidatingAdmissionPolicy that Kyverno would generate), checks both answers
//! against the expectation and diffs them. The crate is a library first; the binary is a thin shell over [`cli`].

pub mod cel;
pub mod cli;
pub mod compare;
pub mod convert;
pub mod diagnostic;
pub mod eval;
pub mod jmespath;
pub mod kube;
pub mod kyverno;
pub mod pair;
pub mod policy;
pub mod prove;
pub mod regex;
pub mod report;
pub mod run;
pub mod suite;
pub mod text;
pub mod value;
pub mod vap;
pub mod verdict;
pub mod yaml;
