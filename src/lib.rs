//! kyvtest: a Kyverno-compatible policy test harness, as a library.
//!
//! Two engines evaluate the same admission request: what Kyverno decides, and what the Kubernetes API server decides with the
//! admission policy that Kyverno would generate. The library runs suites through both ([`run()`]), evaluates single requests
//! ([`Evaluator`]), generates native policies ([`convert()`]), proves that two policies decide alike or finds the request on which they
//! do not ([`prove()`]), and rewrites classic policies ([`migrate`]). The binary is a thin shell over it.
//!
//! Whatever evaluates is a pure function of its arguments: no clock, environment, file system or global state.
//!
//! # Run a suite
//!
//! ```
//! use kyvtest::{run, run::{Outcome, Settings}, suite::{self, Disk, Options}};
//!
//! let path = "suites/getting-started/kyverno-test.yaml";
//! for suite in suite::load(&Disk, path, &Options::default()) {
//!     let run = run(&suite, &Settings::new(false));
//!     assert!(run.cases.iter().all(|case| case.outcome == Outcome::Pass));
//! }
//! ```
//!
//! # Prove a conversion
//!
//! ```
//! use kyvtest::{Policy, convert::Exceptions, diagnostic::Sources, kube::Discovery, prove, prove::{Label, Options}};
//!
//! let text = std::fs::read_to_string("examples/seccomp/before/policy.yaml")?;
//! let mut sources = Sources::new();
//! let file = sources.add("policy.yaml", text.as_str());
//! let policy = Policy::parse(&text, file).map_err(|problems| problems[0].message.clone())?;
//! let proof = prove(&policy, Exceptions::default(), None, &Discovery::kubernetes(), &Options::default());
//! assert!(!matches!(proof.label, Label::Refuted(_)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Evaluate a request
//!
//! ```
//! use kyvtest::{Evaluator, eval::Settings, value::Document, verdict::Effect};
//! use serde_json::json;
//!
//! let policy = json!({
//!     "apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": {"name": "team"},
//!     "spec": {"rules": [{
//!         "name": "label", "match": {"any": [{"resources": {"kinds": ["Pod"]}}]},
//!         "validate": {
//!             "failureAction": "Enforce", "message": "label `team` is required",
//!             "pattern": {"metadata": {"labels": {"team": "?*"}}},
//!         },
//!     }]},
//! });
//! let evaluator = Evaluator::new(&[Document::from(&policy)], &Settings::default());
//! let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"}});
//! let request = Document::from(&json!({"operation": "CREATE", "object": pod}));
//! let request = evaluator.request(request.root())?;
//! let answer = evaluator.decide(&request).kyverno.expect("a policy of Kyverno's is installed");
//! assert_eq!(answer.effect, Effect::Deny);
//! # Ok::<(), String>(())
//! ```
//!
//! `examples/` has programs that do a little more. Modules without an example here are parts of these, and may change.

#[doc(hidden)]
pub mod author;
#[doc(hidden)]
pub mod cli;
pub mod eval;
pub mod report;
#[doc(hidden)]
pub mod rewrite;
pub mod run;
pub mod suite;

pub use eval::Evaluator;
pub use kyvtest_apiserver as vap;
pub use kyvtest_cel as cel;
pub use kyvtest_convert as convert;
pub use kyvtest_convert::convert;
pub use kyvtest_go_compat::{diagnostic, regex, text, value, yaml};
pub use kyvtest_jmespath as jmespath;
pub use kyvtest_kyverno as kyverno;
pub use kyvtest_migrate as migrate;
pub use kyvtest_model::{compare, kube, kube::Cluster, policy, policy::Policy, verdict};
pub use kyvtest_prove as prove;
pub use kyvtest_prove::{pair, prove};
pub use run::run;
pub use suite::Suite;
