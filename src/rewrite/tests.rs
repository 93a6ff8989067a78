//! Suites of `fixtures/migrate`, rewritten and run.
//!
//! Upstream counterpart: none.

use kyvtest_go_compat::{diagnostic::Sources, value::Document, yaml};
use kyvtest_migrate::{Options as Migrating, RefusalCode, Replaced, RewrittenSuite, migrate, migrate_exception};
use kyvtest_model::{
    kube::Discovery,
    policy::{self, Loaded, Purpose},
};

use super::{Moved, rewrite};
use crate::{
    run::{Outcome, Settings, run},
    suite::{Files, Memory, Options, load},
};

/// A suite of `fixtures/migrate` and its rewriting.
struct Fixture {
    directory: String,
    files: Memory,
    rewritten: RewrittenSuite,
}

fn loaded(text: &str, purpose: Purpose) -> Loaded {
    let mut loaded = Loaded::default();
    let file = Sources::new().add("fixture", text);
    let stream = yaml::read(text.as_bytes(), yaml::Mode::Lax, &yaml::Limits::default());
    policy::load(stream, file, purpose, &mut loaded);
    loaded
}

impl Fixture {
    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(format!("{}/{name}", self.directory)).expect("a fixture")
    }

    /// Rewrites a suite for its migrated policies.
    fn new(directory: &str, names: &[&str]) -> Self {
        let directory = format!("{}/fixtures/migrate/{directory}", env!("CARGO_MANIFEST_DIR"));
        let text = |name: &str| std::fs::read_to_string(format!("{directory}/{name}")).expect("a fixture");
        let mut files = Memory::default();
        for name in names {
            files.add(&format!("suite/{name}"), text(name));
        }
        let policies = loaded(&text("policy.yaml"), Purpose::Policies);
        let discovery = Discovery::kubernetes();
        let exceptions = if names.contains(&"exception.yaml") {
            loaded(&text("exception.yaml"), Purpose::Exceptions).exceptions
        } else {
            Vec::new()
        };
        let options = Migrating {
            exceptions: exceptions.clone(),
            ..Migrating::default()
        };
        let replaced: Vec<Replaced> = policies
            .classic()
            .map(|policy| Replaced {
                key: policy.key(),
                migration: migrate(policy, &discovery, &options),
            })
            .collect();
        let yaml = |object: &serde_json::Value| Document::from(object).root().to_yaml();
        let objects = replaced.iter().flat_map(|one| one.migration.objects()).map(yaml);
        let moved = |name: &str, text: String| Moved {
            old: format!("suite/{name}.yaml"),
            stays: false,
            new: vec![(format!("new-{name}.yaml"), text)],
        };
        let mut replacements = vec![moved("policy", objects.collect::<Vec<_>>().join("---\n"))];
        for exception in &exceptions {
            let exception = migrate_exception(exception, &replaced);
            let exception = exception.expect("a translation").expect("a migrated rule");
            replacements.push(moved("exception", yaml(&exception.object)));
        }
        // A policy of the same name that the suite does not read changes nothing.
        let placed: Vec<(String, Replaced)> = replaced
            .into_iter()
            .flat_map(|one| ["elsewhere", "suite"].map(|directory| (format!("{directory}/policy.yaml"), one.clone())))
            .collect();
        let rewritten = rewrite(&files, "suite/kyverno-test.yaml", &replacements, &placed, None);
        let rewritten = rewritten.expect("YAML").expect("a change");
        for (name, text) in replacements.iter().flat_map(|moved| &moved.new).chain(&rewritten.files) {
            files.add(&format!("suite/{name}"), text.as_str());
        }
        files.add("suite/kyverno-test.yaml", rewritten.text.as_str());
        Self {
            directory,
            files,
            rewritten,
        }
    }

    fn passes_as_recorded(&self) {
        assert_eq!(self.rewritten.refusal, None);
        assert_eq!(self.rewritten.text, self.text("rewritten.yaml"));
        let notes = self.rewritten.notes.iter().map(|note| format!("{note}\n"));
        assert_eq!(notes.collect::<String>(), self.text("notes.txt"));
        let suites = load(
            &self.files as &dyn Files,
            "suite/kyverno-test.yaml",
            &Options::default(),
        );
        for suite in &suites {
            let result = run(suite, &Settings::new(true));
            assert!(!result.cases.is_empty());
            for case in &result.cases {
                assert_eq!(case.outcome, Outcome::Pass, "{}: {}", case.policy, case.reason);
            }
        }
    }
}

#[test]
fn a_rewritten_suite_passes_as_the_original_did() {
    let names = ["policy.yaml", "exception.yaml", "resources.yaml", "kyverno-test.yaml"];
    Fixture::new("suite", &names).passes_as_recorded();
}

#[test]
fn rows_of_rules_that_share_a_policy_are_joined() {
    let names = ["policy.yaml", "resources.yaml", "kyverno-test.yaml"];
    Fixture::new("shared-policy-suite", &names).passes_as_recorded();
}

#[test]
fn a_suite_whose_original_fails_says_so() {
    let names = ["policy.yaml", "resources.yaml", "kyverno-test.yaml"];
    let notes = Fixture::new("failing-suite", &names).rewritten.notes;
    let first = "`kyvtest run` fails 1 of 2 results of the original as well";
    assert_eq!(notes.first().map(String::as_str), Some(first));
}

#[test]
fn users_and_namespaces_that_new_policies_see_are_described() {
    let fixture = Fixture::new("companions", &["policy.yaml", "resources.yaml", "kyverno-test.yaml"]);
    fixture.passes_as_recorded();
    let names: Vec<&str> = fixture.rewritten.files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["user-info-migrated.yaml", "values-migrated.yaml"]);
}

#[test]
fn image_data_in_values_is_moved_to_the_context() {
    let names = ["policy.yaml", "resources.yaml", "values.yaml", "kyverno-test.yaml"];
    let fixture = Fixture::new("images", &names);
    fixture.passes_as_recorded();
    let names: Vec<&str> = fixture.rewritten.files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["context-migrated.yaml"]);
}

#[test]
fn objects_are_described_in_place_of_values_that_replace_lookups() {
    let names = ["policy.yaml", "resources.yaml", "values.yaml", "kyverno-test.yaml"];
    let fixture = Fixture::new("lookups", &names);
    fixture.passes_as_recorded();
    let contexts = ["context-migrated.yaml", "context-migrated-2.yaml"];
    for (name, (written, text)) in contexts.iter().zip(&fixture.rewritten.files) {
        assert_eq!(name, written);
        assert_eq!(*text, fixture.text(name));
    }
    assert_eq!(fixture.rewritten.files.len(), contexts.len());
}

#[test]
fn entries_of_the_global_context_are_described_in_the_test_file() {
    let names = ["policy.yaml", "resources.yaml", "kyverno-test.yaml"];
    Fixture::new("global-context", &names).passes_as_recorded();
}

#[test]
fn rows_about_excluded_resources_expect_what_the_new_policy_reports() {
    let names = ["policy.yaml", "resources.yaml", "kyverno-test.yaml"];
    Fixture::new("excluded", &names).passes_as_recorded();
}

#[test]
fn a_suite_whose_values_replace_a_lookup_of_an_unknown_kind_is_refused() {
    let names = ["policy.yaml", "resources.yaml", "values.yaml", "kyverno-test.yaml"];
    let refusal = Fixture::new("lookups-of-unknown-kinds", &names).rewritten.refusal;
    assert_eq!(refusal.map(|refusal| refusal.code), Some(RefusalCode::Context));
}
