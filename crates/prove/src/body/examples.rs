//! Requests that a policy admits and refuses, with the objects that it looks up.
//!
//! A policy refuses what it decides otherwise than no policy at all, and admits what it decides otherwise than itself with checks
//! that always fail. Both are comparisons of two sides, so that ConfigMaps, answered calls and parameters are found like fields
//! of the object: they are in the cluster of the scenario. No upstream counterpart.
//!
//! Known limit: answers of the global context, of services and of image registries are not objects, and are not found.

use serde_json::{Value as Json, json};

use kyvtest_model::{
    kube::Discovery,
    verdict::{Status, Verdict},
};

use super::{Match, Options, Side, compare_sides};
use crate::{universe, witness::Scenario};

/// A request as it is sent, and the verdict of the policy.
#[derive(Debug, Clone)]
pub struct Example {
    pub scenario: Scenario,
    pub verdict: Verdict,
}

/// What was found for a policy.
#[derive(Debug, Clone, Default)]
pub struct Examples {
    pub passing: Option<Example>,
    pub failing: Option<Example>,
}

/// Finds a passing and a failing request for a policy, given as objects with its bindings and exceptions.
///
/// # Errors
/// What cannot be read, or why Kyverno or the API server rejects the policy.
pub fn examples(policy: &[Json], discovery: &Discovery, options: &Options) -> Result<Examples, String> {
    let search = Search {
        policy: Side::from_objects(policy, discovery)?,
        discovery,
        options,
    };
    let with = |checks: Checks| {
        let objects: Vec<Json> = policy.iter().map(|object| with_checks(object, checks)).collect();
        Side::from_objects(&objects, discovery).ok()
    };
    let refusing = with(Checks::FailAlways);
    let passes = |status| status == Status::Pass;
    let passing = refusing
        .as_ref()
        .and_then(|refusing| search.find([refusing, &search.policy], passes, passes));
    let fails = |status| matches!(status, Status::Fail | Status::Warn);
    let nothing = Side::from_objects(&[], discovery)?;
    let negated = || {
        let negated = with(Checks::Negated)?;
        search.find([refusing.as_ref()?, &negated], passes, fails)
    };
    // Where the negation of a policy holds, it evaluates to false.
    let failing = search.find([&nothing, &search.policy], fails, fails).or_else(negated);
    Ok(Examples { passing, failing })
}

struct Search<'s> {
    policy: Side,
    discovery: &'s Discovery,
    options: &'s Options,
}

impl Search<'_> {
    /// The smallest request on which two sides differ and the second has a status that counts, if the policy has a wanted one on
    /// it. A policy also refuses what it cannot evaluate: that is no example.
    fn find(&self, sides: [&Side; 2], counts: fn(Status) -> bool, wanted: fn(Status) -> bool) -> Option<Example> {
        let options = Options {
            counts: Some(counts),
            ..self.options.clone()
        };
        let found = compare_sides(sides[0], sides[1], self.discovery, &options).counterexample?;
        let universe = universe::with_unknown(self.discovery);
        let mut both = Match::new(sides, &universe, self.discovery, &options);
        let shown = both.smallest(*found);
        let scenario = shown.found.scenario();
        let mocks = both.host(&scenario.world.params);
        let verdict = self.policy.decide(scenario, &universe, &mocks);
        wanted(verdict.status).then_some(Example {
            scenario: shown.sent,
            verdict,
        })
    }
}

/// What replaces the checks of a policy; what decides whether it applies stays.
#[derive(Debug, Clone, Copy)]
enum Checks {
    FailAlways,
    /// The negation of all expressions; checks in other languages stay.
    Negated,
}

fn with_checks(object: &Json, checks: Checks) -> Json {
    let mut object = object.clone();
    let Some(spec) = object.get_mut("spec") else {
        return object;
    };
    let rules = spec.get_mut("rules").and_then(Json::as_array_mut);
    for rule in rules.into_iter().flatten() {
        let Some(validate) = rule["validate"].as_object_mut() else {
            continue;
        };
        if let Some(cel) = validate.get_mut("cel") {
            cel["expressions"] = checks.expressions(&cel["expressions"]);
        } else if matches!(checks, Checks::FailAlways) {
            for check in ["pattern", "anyPattern", "deny", "foreach", "podSecurity"] {
                validate.remove(check);
            }
            validate.insert("deny".to_owned(), json!({}));
        }
    }
    if spec["validations"].is_array() {
        spec["validations"] = checks.expressions(&spec["validations"]);
    }
    object
}

impl Checks {
    fn expressions(self, written: &Json) -> Json {
        let expression = match self {
            Self::FailAlways => "false".to_owned(),
            Self::Negated => {
                let written = written.as_array().into_iter().flatten();
                let all = written.filter_map(|one| one["expression"].as_str());
                let all: Vec<String> = all.map(|one| format!("({one})")).collect();
                format!("!({})", all.join(" && "))
            }
        };
        json!([{"expression": expression, "message": "refused"}])
    }
}
