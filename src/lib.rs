//! kyvtest: a Kyverno-compatible policy test harness.
//!
//! It loads `kyverno-test.yaml` suites, asks two engines the same admission question (what Kyverno decides, and what the
//! Kubernetes API server decides with the ValidatingAdmissionPolicy that Kyverno would generate), checks both answers
//! against the expectation and diffs them. The crate is a library first; the binary is a thin shell over [`cli`].

pub mod cli;
pub mod eval;
pub mod mutation;
pub mod report;
pub mod rewrite;
pub mod run;
pub mod suite;

pub use kyvtest_apiserver as vap;
pub use kyvtest_cel as cel;
pub use kyvtest_convert as convert;
pub use kyvtest_go_compat::{diagnostic, regex, text, value, yaml};
pub use kyvtest_jmespath as jmespath;
pub use kyvtest_kyverno as kyverno;
pub use kyvtest_migrate as migrate;
pub use kyvtest_model::{compare, kube, policy, verdict};
pub use kyvtest_prove as prove;
pub use kyvtest_prove::pair;
