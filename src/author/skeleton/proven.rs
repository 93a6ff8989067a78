//! Examples that the prover finds where the search has none: requests that depend on parameters and looked-up objects.
//!
//! Upstream counterpart: none.

use serde_json::Value as Json;

use crate::{
    author::{counterexample, fill::Lookups},
    run::{Settings, analysis::Shown},
    suite::Suite,
};
use kyvtest_model::policy::ParamKind;
use kyvtest_prove::body::{
    Options,
    examples::{Example, examples},
};

/// The limit of the search for one rule.
const CASES: u64 = 2_000;

/// A passing and a failing request, as far as they exist and are found.
pub(super) fn shown(objects: &[Json], probe: &Suite, settings: &Settings) -> [Option<Shown>; 2] {
    let mut objects = objects.to_vec();
    objects.extend(counterexample::exceptions(&probe.policies));
    objects.extend(counterexample::exceptions(&probe.exceptions));
    let options = Options {
        collections: false,
        cases: CASES,
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

/// What the policy looks up for a request; objects of `param_kind` are parameters.
pub(super) fn looked_up(shown: &Shown, param_kind: Option<&ParamKind>) -> Lookups {
    let objects = shown.scenario.world.params.iter();
    let is_param = |object: &Json| {
        let of_kind = |kind: &ParamKind| {
            object["apiVersion"] == kind.api_version.as_str() && object["kind"] == kind.kind.as_str()
        };
        param_kind.is_some_and(of_kind)
    };
    let (params, objects) = objects.map(|object| object.root().to_serde()).partition(is_param);
    Lookups { objects, params }
}
