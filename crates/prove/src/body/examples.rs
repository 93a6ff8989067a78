//! Requests that a policy admits and refuses, with the objects that it looks up.
//!
//! A policy refuses what it decides otherwise than no policy at all, and admits what it decides otherwise than itself with checks
//! that always fail. Both are comparisons of two sides, so that ConfigMaps, answered calls and parameters are found like fields
//! of the object: they are in the cluster of the scenario, and answers of the global context and of services beside it. No
//! upstream counterpart.
//!
//! Known limit: answers of image registries are not found.

use serde_json::{Value as Json, json};

use kyvtest_model::{
    kube::Discovery,
    verdict::{Status, Verdict},
};

use super::{Match, Options, Side, Within, compare_within};
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
    let search = ExampleSearch::new(policy, discovery, options.clone())?;
    Ok(Examples {
        passing: search.passing(None),
        failing: search.failing(None),
    })
}

/// A policy with the sides that it is compared with.
pub(crate) struct ExampleSearch<'d> {
    policy: Side,
    /// With checks that always fail.
    refusing: Option<Side>,
    /// With the negation of its checks.
    negated: Option<Side>,
    nothing: Side,
    discovery: &'d Discovery,
    options: Options,
}

impl<'d> ExampleSearch<'d> {
    /// # Errors
    /// What cannot be read, or why Kyverno or the API server rejects the policy.
    pub(crate) fn new(policy: &[Json], discovery: &'d Discovery, options: Options) -> Result<Self, String> {
        let with = |checks: Checks| {
            let objects: Vec<Json> = policy.iter().map(|object| with_checks(object, checks)).collect();
            Side::from_objects(&objects, discovery).ok()
        };
        Ok(Self {
            policy: Side::from_objects(policy, discovery)?,
            refusing: with(Checks::FailAlways),
            negated: with(Checks::Negated),
            nothing: Side::from_objects(&[], discovery)?,
            discovery,
            options,
        })
    }

    /// A request that the policy admits.
    pub(crate) fn passing(&self, within: Option<Within<'_>>) -> Option<Example> {
        self.find([self.refusing.as_ref()?, &self.policy], [passes; 2], within)
    }

    /// A request that the policy refuses.
    pub(crate) fn failing(&self, within: Option<Within<'_>>) -> Option<Example> {
        let found = self.find([&self.nothing, &self.policy], [fails; 2], within);
        // Where the negation of a policy holds, it evaluates to false.
        found.or_else(|| {
            let sides = [self.refusing.as_ref()?, self.negated.as_ref()?];
            self.find(sides, [passes, fails], within)
        })
    }

    /// The smallest request on which two sides differ and the second has a status that counts, if the policy has a wanted one on
    /// it. A policy also refuses what it cannot evaluate: that is not an example.
    fn find(
        &self,
        sides: [&Side; 2],
        [counts, wanted]: [fn(Status) -> bool; 2],
        within: Option<Within<'_>>,
    ) -> Option<Example> {
        let options = Options {
            counts: Some(counts),
            ..self.options.clone()
        };
        let found = compare_within(sides[0], sides[1], self.discovery, &options, within).counterexample?;
        let universe = universe::with_unknown(self.discovery);
        let mut both = Match::new(sides, &universe, self.discovery, &options);
        both.within = within;
        let shown = both.smallest(*found);
        let scenario = shown.found.scenario();
        let mocks = both.host(&scenario.world.params, &scenario.calls);
        let verdict = self.policy.decide(scenario, &universe, &mocks);
        wanted(verdict.status).then_some(Example {
            scenario: shown.sent,
            verdict,
        })
    }
}

fn passes(status: Status) -> bool {
    status == Status::Pass
}

fn fails(status: Status) -> bool {
    matches!(status, Status::Fail | Status::Warn)
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
