//! Examples that the prover finds where the search has none: requests that depend on parameters and looked-up objects.
//!
//! Upstream counterpart: none.

use serde_json::Value as Json;

use crate::{
    author::counterexample,
    run::{Settings, analysis::Shown},
    suite::Suite,
};
use kyvtest_prove::body::{
    Options,
    examples::{Example, examples},
};

/// The limit of the search for one rule.
const CASES: u64 = 2_000;

/// How many requests of a class are tried where the prover decides nothing.
const TRIES: u64 = 3_000;

/// A passing and a failing request, as far as they exist and are found.
pub(super) fn shown(objects: &[Json], probe: &Suite, settings: &Settings) -> [Option<Shown>; 2] {
    let mut objects = objects.to_vec();
    objects.extend(counterexample::exceptions(&probe.policies));
    objects.extend(counterexample::exceptions(&probe.exceptions));
    let options = Options {
        collections: false,
        cases: CASES,
        tries: TRIES,
        now: settings.now,
        ..Options::default()
    };
    let found = examples(&objects, &settings.discovery, &options).unwrap_or_default();
    let shown = |example: Example| Shown {
        scenario: example.scenario,
        kyverno: example.verdict,
        native: None,
        divergence: None,
    };
    [found.passing.map(shown), found.failing.map(shown)]
}
