//! The project's own suites: all pass, each has a passing and a failing side, and every part of their policies is
//! exercised.
//!
//! Every rule, expression, precondition, exclusion and exception is removed in turn, and the suite must notice.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use kyvtest::{
    kyverno::autogen,
    policy::{self, FailureAction, MatchResources, Policy, ValidationAction},
    run::{Settings, SuiteRun, run},
    suite::{self, BuiltInScopes, Disk, Expected, Options, Suite, Upstream},
};

/// The name of suites that `kyverno test` must not find.
const NOT_FOR_KYVERNO: &str = "kyvtest-suite.yaml";

/// Suites whose sidecars state the effect of every policy on a request.
const ABOUT_ACTIONS: [&str; 3] = ["failure-actions", "native-overrides", "validation-actions"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("suites")
}

fn called(file_name: &str) -> Vec<Suite> {
    let options = Options {
        file_name,
        accept_file: false,
        scopes: &BuiltInScopes,
        own_crds: true,
        sidecar: true,
    };
    let files = suite::discover(&Disk, &folder().display().to_string(), &options).expect("the folder is there");
    files
        .iter()
        .flat_map(|file| suite::load(&Disk, file, &options))
        .collect()
}

fn suites() -> Vec<Suite> {
    called("kyverno-test.yaml")
}

fn settings(compat: bool) -> Settings {
    Settings::new(compat)
}

fn is_green(run: &SuiteRun) -> bool {
    !run.is_broken()
        && !run.cases.is_empty()
        && run
            .cases
            .iter()
            .all(|case| case.outcome.as_str() == "pass" && !case.diverges())
}

fn assert_green(suite: &Suite, compat: bool) {
    let run = run(suite, &settings(compat));
    let red: Vec<_> = run
        .cases
        .iter()
        .filter(|case| case.outcome.as_str() != "pass" || case.diverges())
        .collect();
    assert!(
        is_green(&run),
        "{} (compat: {compat}): {:#?}\n{red:#?}",
        suite.path,
        run.diagnostics
    );
}

#[test]
fn all_are_green_under_both_lenses() {
    let suites = suites();
    let rows: usize = suites.iter().map(|suite| suite.rows().len()).sum();
    assert!(suites.len() >= 26, "{} suites", suites.len());
    assert!(rows >= 210, "{rows} rows");
    for suite in &suites {
        assert_eq!(suite.upstream, Upstream::Runs, "{}", suite.path);
        assert!(suite.diagnostics.is_empty(), "{}: {:#?}", suite.path, suite.diagnostics);
        assert_green(suite, false);
        assert_green(suite, true);
    }
    for suite in &called(NOT_FOR_KYVERNO) {
        assert!(suite.diagnostics.is_empty(), "{}: {:#?}", suite.path, suite.diagnostics);
        assert_green(suite, false);
    }
}

/// Hazards by which a native policy admits requests that Kyverno denies.
const WEAKER: [&str; 13] = [
    "H02b", "H04", "H05", "H09", "H19", "H27", "H40", "H51", "H59", "H61", "V02", "V04", "V12",
];

#[test]
fn both_engines_are_compared() {
    let mut compared = 0;
    let mut accepted = BTreeSet::new();
    for suite in &suites() {
        let run = run(suite, &settings(false));
        compared += usize::from(run.cases.iter().any(|case| case.vap.is_some()));
        let expected = run.cases.iter().filter_map(|case| case.expected_divergence.as_ref());
        let weaker = expected.filter(|expected| expected.class.value.as_str() == "weaker");
        accepted.extend(weaker.filter_map(|expected| expected.code.as_ref().map(|code| code.value.clone())));
    }
    assert!(compared >= 15, "{compared} suites have a native counterpart");
    for code in WEAKER {
        assert!(accepted.contains(code), "no suite expects {code}");
    }
}

#[test]
fn kyverno_accepts_their_policies() {
    for suite in suites().iter().chain(&called(NOT_FOR_KYVERNO)) {
        for policy in suite.policies.classic() {
            let checked = policy::validate(policy, &autogen::all_rules(policy));
            assert_eq!(checked.error, None, "{}: {}", suite.path, policy.metadata.name.value);
        }
        assert!(suite.policies.dropped.is_empty(), "{}", suite.path);
    }
}

/// Whether a policy validates; others change or create objects, or leave them as they are.
fn validates(policy: &Policy) -> bool {
    match policy {
        Policy::Classic(policy) => policy.spec.rules.iter().any(|rule| rule.validate.is_some()),
        policy => policy.validates() || policy.as_native().is_some(),
    }
}

#[test]
fn each_has_two_sides_and_no_row_twice() {
    for suite in suites().iter().chain(&called(NOT_FOR_KYVERNO)) {
        let expects = |wanted: &[Expected]| suite.rows().iter().any(|row| wanted.contains(&row.result.value));
        assert!(expects(&[Expected::Pass]), "{}: nothing passes", suite.path);
        let other = if suite.policies.policies.iter().any(validates) {
            Expected::Fail
        } else {
            Expected::Skip
        };
        assert!(
            expects(&[other]) || expects(&[Expected::Fail]),
            "{}: nothing fails",
            suite.path
        );
        let mut seen = BTreeSet::new();
        for row in suite.rows() {
            let resources: Vec<&str> = row.resources.iter().flatten().map(|name| name.value.as_str()).collect();
            assert!(!resources.is_empty(), "{}: a row for everything", suite.path);
            let rule = row.rule.as_ref().map(|rule| rule.value.clone());
            let operation = row.operation.as_ref().map(|operation| operation.value.to_string());
            for resource in resources {
                let check = (
                    row.policy.value.clone(),
                    rule.clone(),
                    operation.clone(),
                    resource.to_owned(),
                );
                assert!(seen.insert(check.clone()), "{}: {check:?} twice", suite.path);
            }
        }
    }
}

#[test]
fn each_is_introduced() {
    let tour = std::fs::read_to_string(folder().join("README.md")).expect("the tour");
    let mut named = BTreeSet::new();
    for suite in suites() {
        let text = std::fs::read_to_string(&suite.path).expect("a text");
        let comment = text.lines().take_while(|line| line.starts_with('#')).count();
        assert!(comment >= 2, "{}: no introduction", suite.path);
        let folder = Path::new(&suite.path).parent().and_then(Path::file_name);
        let folder = folder.expect("a folder").to_string_lossy().into_owned();
        assert_eq!(suite.name(), folder);
        assert!(
            tour.contains(&format!("| [{folder}]({folder}/) |")),
            "{folder} is not in the tour"
        );
        named.insert(folder);
    }
    let lines = tour.lines().filter(|line| line.starts_with("| [")).count();
    assert_eq!(lines, named.len(), "the tour names suites that are not there");
}

/// A suite whose parts are removed, and the noticed removals.
struct Mutation {
    suite: Suite,
    tried: usize,
    idle: Vec<String>,
}

impl Mutation {
    /// Whether a row expects a violation of a rule, or of a policy without rules.
    fn fails(&self, policy: &str, rule: Option<&str>) -> bool {
        self.suite.rows().iter().any(|row| {
            let written = row.rule.as_ref().map(|rule| rule.value.as_str());
            row.policy_name() == policy
                && matches!(row.result.value, Expected::Fail | Expected::Warn)
                && rule.is_none_or(|rule| written == Some(rule))
        })
    }

    /// Runs the suite in its current state; it must fail.
    fn expect_red(&mut self, what: String) {
        self.tried += 1;
        if is_green(&run(&self.suite, &settings(false))) {
            self.idle.push(format!("{} without {what}", self.suite.path));
        }
    }

    fn policies(&mut self) {
        for i in 0..self.suite.policies.policies.len() {
            let Policy::Classic(whole) = self.suite.policies.policies[i].clone() else {
                continue;
            };
            let name = whole.metadata.name.value.clone();
            let without = |this: &mut Self, what: String, change: &dyn Fn(&mut policy::ClassicPolicy)| {
                let mut changed = (*whole).clone();
                change(&mut changed);
                this.suite.policies.policies[i] = Policy::Classic(Arc::new(changed));
                this.expect_red(format!("{what} of {name}"));
            };
            for (r, rule) in whole.spec.rules.iter().enumerate() {
                let rule_name = rule.name.value.as_str();
                without(self, format!("rule {rule_name}"), &|policy| {
                    policy.spec.rules.remove(r);
                });
                if rule.exclude.is_some() {
                    without(self, format!("exclude of {rule_name}"), &|policy| {
                        policy.spec.rules[r].exclude = None;
                    });
                }
                for c in 0..rule.cel_preconditions.len() {
                    without(self, format!("precondition {c} of {rule_name}"), &|policy| {
                        policy.spec.rules[r].cel_preconditions.remove(c);
                    });
                }
                let expressions = rule.validate.iter().flat_map(|validate| &validate.cel);
                let expressions: usize = expressions.map(|cel| cel.expressions.len()).sum();
                if !self.fails(&name, Some(rule_name)) {
                    continue;
                }
                for e in 0..expressions {
                    without(self, format!("expression {e} of {rule_name}"), &|policy| {
                        let validate = policy.spec.rules[r].validate.as_mut();
                        let cel = validate.and_then(|validate| validate.cel.as_mut());
                        cel.expect("it has expressions").expressions.remove(e);
                    });
                }
            }
            let conditions = whole.spec.webhook.iter().map(|webhook| webhook.match_conditions.len());
            for c in 0..conditions.sum() {
                without(self, format!("webhook condition {c}"), &|policy| {
                    let webhook = policy.spec.webhook.as_mut().expect("it has conditions");
                    webhook.match_conditions.remove(c);
                });
            }
            self.suite.policies.policies[i] = Policy::Classic(whole);
        }
    }

    /// Inverts every action: the rows of these suites stay unchanged, their sidecars must notice.
    fn actions(&mut self) {
        for i in 0..self.suite.policies.policies.len() {
            let Policy::Classic(whole) = self.suite.policies.policies[i].clone() else {
                continue;
            };
            let name = whole.metadata.name.value.clone();
            for (r, rule) in whole.spec.rules.iter().enumerate() {
                let mut changed = (*whole).clone();
                let validate = changed.spec.rules[r].validate.as_mut().expect("it validates");
                if validate.failure_action_overrides.take().is_none() {
                    let action = validate.failure_action.as_mut().expect("it has an action");
                    action.value = match action.value {
                        FailureAction::Enforce => FailureAction::Audit,
                        FailureAction::Audit => FailureAction::Enforce,
                    };
                }
                self.suite.policies.policies[i] = Policy::Classic(Arc::new(changed));
                self.expect_red(format!("the actions of {} of {name}", rule.name.value));
            }
            self.suite.policies.policies[i] = Policy::Classic(whole);
        }
        for i in 0..self.suite.policies.policies.len() {
            let Policy::Validating(whole) = self.suite.policies.policies[i].clone() else {
                continue;
            };
            let mut changed = (*whole).clone();
            for action in changed.spec.validation_actions.iter_mut().flatten() {
                action.value = match action.value {
                    ValidationAction::Deny => ValidationAction::Warn,
                    ValidationAction::Warn => ValidationAction::Audit,
                    ValidationAction::Audit => ValidationAction::Deny,
                };
            }
            self.suite.policies.policies[i] = Policy::Validating(Arc::new(changed));
            self.expect_red(format!("the actions of {}", whole.metadata.name.value));
            self.suite.policies.policies[i] = Policy::Validating(whole);
        }
    }

    fn validating_policies(&mut self) {
        for i in 0..self.suite.policies.policies.len() {
            let Policy::Validating(whole) = self.suite.policies.policies[i].clone() else {
                continue;
            };
            self.suite.policies.policies.remove(i);
            let name = whole.metadata.name.value.clone();
            self.expect_red(format!("policy {name}"));
            self.suite
                .policies
                .policies
                .insert(i, Policy::Validating(whole.clone()));
            // Autogen rewrites the source of a policy, so that these changes reach only the policy itself.
            let without = |this: &mut Self, what: String, change: &dyn Fn(&mut policy::ValidatingPolicy)| {
                let mut changed = (*whole).clone();
                change(&mut changed);
                this.suite.policies.policies[i] = Policy::Validating(Arc::new(changed));
                this.expect_red(format!("{what} of {name}"));
            };
            for c in 0..whole.spec.match_conditions.len() {
                without(self, format!("match condition {c}"), &|policy| {
                    policy.spec.match_conditions.remove(c);
                });
            }
            if self.fails(&name, None) {
                for v in 0..whole.spec.validations.len() {
                    without(self, format!("validation {v}"), &|policy| {
                        policy.spec.validations.remove(v);
                    });
                }
            }
            self.suite.policies.policies[i] = Policy::Validating(whole);
        }
    }

    fn native_policies(&mut self) {
        for i in 0..self.suite.policies.policies.len() {
            let Policy::Native(whole) = self.suite.policies.policies[i].clone() else {
                continue;
            };
            self.suite.policies.policies.remove(i);
            let name = whole.metadata.name.value.clone();
            self.expect_red(format!("policy {name}"));
            self.suite.policies.policies.insert(i, Policy::Native(whole.clone()));
            let without = |this: &mut Self, what: String, change: &dyn Fn(&mut policy::ValidatingAdmissionPolicy)| {
                let mut changed = (*whole).clone();
                change(&mut changed);
                this.suite.policies.policies[i] = Policy::Native(Arc::new(changed));
                this.expect_red(format!("{what} of {name}"));
            };
            for c in 0..whole.match_conditions.len() {
                without(self, format!("match condition {c}"), &|policy| {
                    policy.match_conditions.remove(c);
                });
            }
            for v in 0..whole.rules.validations.len() {
                without(self, format!("validation {v}"), &|policy| {
                    policy.rules.validations.remove(v);
                });
            }
            self.suite.policies.policies[i] = Policy::Native(whole);
        }
        for i in 0..self.suite.policies.bindings.len() {
            let whole = self.suite.policies.bindings.remove(i);
            self.expect_red(format!("binding {}", whole.metadata.name.value));
            self.suite.policies.bindings.insert(i, whole);
        }
    }

    fn exceptions(&mut self) {
        for i in 0..self.suite.exceptions.exceptions.len() {
            let whole = self.suite.exceptions.exceptions.remove(i);
            let name = whole.metadata.name.value.clone();
            self.expect_red(format!("exception {name}"));
            self.suite.exceptions.exceptions.insert(i, whole.clone());
            for f in 0..filters(&whole.matches) {
                let mut changed = (*whole).clone();
                changed.matches.any.remove(f);
                self.suite.exceptions.exceptions[i] = Arc::new(changed);
                self.expect_red(format!("filter {f} of exception {name}"));
            }
            self.suite.exceptions.exceptions[i] = whole;
        }
        for i in 0..self.suite.exceptions.cel_exceptions.len() {
            let whole = self.suite.exceptions.cel_exceptions.remove(i);
            let name = whole.metadata.name.value.clone();
            self.expect_red(format!("exception {name}"));
            self.suite.exceptions.cel_exceptions.insert(i, whole.clone());
            for c in 0..whole.match_conditions.len() {
                let mut changed = (*whole).clone();
                changed.match_conditions.remove(c);
                self.suite.exceptions.cel_exceptions[i] = Arc::new(changed);
                self.expect_red(format!("condition {c} of exception {name}"));
            }
            self.suite.exceptions.cel_exceptions[i] = whole;
        }
    }
}

fn filters(matches: &MatchResources) -> usize {
    matches.any.len()
}

#[test]
fn nothing_is_idle() {
    let (mut tried, mut idle) = (0, Vec::new());
    for suite in suites().into_iter().chain(called(NOT_FOR_KYVERNO)) {
        let mut mutation = Mutation {
            suite,
            tried: 0,
            idle: Vec::new(),
        };
        mutation.policies();
        mutation.validating_policies();
        mutation.native_policies();
        mutation.exceptions();
        if ABOUT_ACTIONS.contains(&mutation.suite.name()) {
            mutation.actions();
        }
        assert_green(&mutation.suite, false);
        tried += mutation.tried;
        idle.append(&mut mutation.idle);
    }
    assert!(tried >= 250, "{tried} parts were taken away");
    assert!(idle.is_empty(), "still green:\n{}", idle.join("\n"));
}
