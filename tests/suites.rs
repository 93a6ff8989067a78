//! The project's own suites: all green, and each of their rules is needed for that.

use std::{path::Path, sync::Arc};

use kyvtest::{
    diagnostic::Code,
    kube::Discovery,
    run::{Settings, SuiteRun, run},
    suite::{self, BuiltInScopes, Disk, Options, Suite},
};

fn suites() -> Vec<Suite> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites");
    let options = Options {
        file_name: "kyverno-test.yaml",
        accept_file: false,
        scopes: &BuiltInScopes,
        own_crds: true,
        sidecar: true,
    };
    let files = suite::discover(&Disk, &folder.display().to_string(), &options).expect("the folder is there");
    files
        .iter()
        .flat_map(|file| suite::load(&Disk, file, &options))
        .collect()
}

fn settings(compat: bool) -> Settings {
    Settings {
        compat,
        discovery: Discovery::kubernetes(),
        now: None,
    }
}

fn is_green(run: &SuiteRun) -> bool {
    !run.is_broken() && !run.cases.is_empty() && run.cases.iter().all(|case| case.outcome.as_str() == "pass")
}

#[test]
fn all_are_green_under_both_lenses() {
    let suites = suites();
    assert!(suites.len() >= 7, "the suites are found");
    for suite in &suites {
        for compat in [false, true] {
            let run = run(suite, &settings(compat));
            assert!(
                is_green(&run),
                "{} (compat: {compat}): {:#?}\n{:#?}",
                suite.path,
                run.diagnostics,
                run.cases
            );
        }
    }
}

#[test]
fn every_rule_and_policy_is_needed() {
    for suite in &mut suites() {
        for i in 0..suite.policies.policies.len() {
            let whole = suite.policies.policies[i].clone();
            for rule in 0..whole.spec.rules.len() {
                let mut without = (*whole).clone();
                let gone = without.spec.rules.remove(rule);
                suite.policies.policies[i] = Arc::new(without);
                assert!(
                    !is_green(&run(suite, &settings(false))),
                    "{} without rule {}",
                    suite.path,
                    gone.name.value
                );
            }
            suite.policies.policies[i] = whole;
        }
        for i in 0..suite.policies.validating_policies.len() {
            let gone = suite.policies.validating_policies.remove(i);
            let name = gone.metadata.name.value.clone();
            assert!(
                !is_green(&run(suite, &settings(false))),
                "{} without policy {name}",
                suite.path
            );
            suite.policies.validating_policies.insert(i, gone);
        }
        for i in 0..suite.policies.bindings.len() {
            let gone = suite.policies.bindings.remove(i);
            let name = gone.metadata.name.value.clone();
            let run = run(suite, &settings(false));
            assert!(!is_green(&run), "{} without binding {name}", suite.path);
            assert!(run.diagnostics.iter().any(|d| d.code == Code::UnboundPolicy), "{name}");
            suite.policies.bindings.insert(i, gone);
        }
    }
}
