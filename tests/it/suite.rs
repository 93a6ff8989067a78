//! Suites from the fixtures: the messages about bad ones, and the contents of good ones.

use std::{fmt::Write as _, fs, path::Path};

use kyvtest::{
    diagnostic::{Sources, render},
    kube::Operation,
    suite::{self, Expected, Memory, OldObject, Options, Suite, Upstream},
    verdict::Effect,
};

/// Every suite below a directory of the fixtures, paths as if that directory were the working directory.
fn load(directory: &str) -> Vec<Suite> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/suite");
    let mut files = Memory::default();
    collect(&root, &root, &mut files);
    let found = suite::discover(&files, directory, &Options::default()).expect("a folder");
    let load = |path: &String| suite::load(&files, path, &Options::default());
    found.iter().flat_map(load).collect()
}

fn collect(root: &Path, directory: &Path, files: &mut Memory) {
    for entry in fs::read_dir(directory).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let name = path
                .strip_prefix(root)
                .expect("below")
                .to_string_lossy()
                .replace('\\', "/");
            files.add(&name, fs::read(&path).expect("a file"));
        }
    }
}

/// The messages about a suite: one line per diagnostic, notes and help below it.
fn messages(suite: &Suite) -> String {
    let mut text = format!(
        "suite {} of {}: kyverno test {}\n",
        suite.document,
        suite.path,
        match suite.upstream {
            Upstream::Runs => "runs it",
            Upstream::Skips => "passes over it",
            Upstream::Undecodable => "cannot decode it",
            Upstream::Deprecated => "calls its schema deprecated",
            Upstream::Aborts => "stops at it",
            Upstream::Panics => "panics",
        }
    );
    for diagnostic in &suite.diagnostics {
        let _ = writeln!(text, "{}", render::concise(diagnostic, &suite.sources));
        for label in diagnostic.labels.iter().filter(|label| !label.message.is_empty()) {
            let place = suite
                .sources
                .position(label.span.file, label.span.start)
                .expect("a place");
            let _ = writeln!(text, "  {}:{}: {}", place.line, place.column, label.message);
        }
        for help in &diagnostic.help {
            let _ = writeln!(text, "  help: {help}");
        }
    }
    text
}

#[test]
fn bad_suites() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/suite/bad");
    let mut names: Vec<String> = fs::read_dir(root)
        .expect("the fixtures")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert!(names.len() >= 40, "{} bad suites", names.len());
    for name in names {
        let directory = format!("bad/{name}");
        let suites = if name == "test-is-a-folder" {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/suite");
            let mut files = Memory::default();
            collect(&root, &root, &mut files);
            suite::load(&files, &format!("{directory}/kyverno-test.yaml"), &Options::default())
        } else {
            load(&directory)
        };
        let text: Vec<String> = suites.iter().map(messages).collect();
        assert!(
            suites.iter().any(|suite| !suite.diagnostics.is_empty()),
            "{name}: nothing is said"
        );
        insta::assert_snapshot!(format!("bad-{name}"), text.join("\n"));
    }
}

#[test]
fn a_bad_suite_leaves_its_neighbours_alone() {
    let suites = load("bad/test-second-document");
    let errors: Vec<bool> = suites.iter().map(Suite::has_errors).collect();
    assert_eq!(errors, [false, true, false]);
    assert_eq!(suites[2].name(), "third");
    assert_eq!(suites[2].policies.policies.len(), 1);
}

fn one(directory: &str) -> Suite {
    let mut suites = load(directory);
    assert_eq!(suites.len(), 1);
    let suite = suites.remove(0);
    assert_eq!(messages(&suite).lines().count(), 1, "{}", messages(&suite));
    suite
}

#[test]
fn a_plain_suite() {
    let suite = one("good/plain");
    assert_eq!((suite.name(), suite.upstream), ("plain", Upstream::Runs));
    let row = &suite.rows()[0];
    assert_eq!((row.policy_name(), row.result.value), ("require-team", Expected::Pass));
    let policy = suite.policies.classic().next().expect("the suite has a policy");
    let rule = &policy.spec.rules[0];
    let validate = rule.validate.as_ref().expect("it validates");
    assert_eq!(validate.allow_existing_violations, Some(true));
    let cel = validate.cel.as_ref().expect("in CEL");
    assert!(!cel.generate);
    let expression = &cel.expressions[0].expression;
    let part = expression.part(0, 3);
    let text = suite.sources.text(part.file).expect("a text");
    assert_eq!(&text[part.start as usize..part.end as usize], "has");
}

#[test]
fn spellings_of_go() {
    let suite = one("good/spellings");
    assert_eq!(suite.name(), "spellings");
    assert_eq!(suite.policies.policies.len(), 1);
    let labels = &suite.values.namespace_selectors[0];
    assert_eq!(labels.name.value, "12");
    let pairs: Vec<(&str, &str)> = labels.labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(pairs, [("tier", "1"), ("public", "true")]);
    let namespace = &suite.values.namespaces[0].object;
    assert_eq!(
        namespace.root().to_json(),
        r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"full","labels":{"level":"3"}},"spec":{},"status":{}}"#
    );
    let user = suite.user_info.expect("user info");
    assert_eq!(user.username, "ann");
    assert_eq!(
        (user.groups.map(|groups| groups.len()), user.cluster_roles.is_none()),
        (Some(0), true)
    );
    assert_eq!(suite.test.expect("a test").results[0].flags.len(), 1);
}

#[test]
fn defaults_of_resources() {
    let suite = one("good/defaults");
    let objects: Vec<String> = suite
        .resources
        .iter()
        .map(|resource| resource.object.root().to_json())
        .collect();
    assert_eq!(
        objects,
        [
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{},"annotations":{},"namespace":"default"},"spec":{"nodeSelector":{},"tolerations":[{"labels":{}}],"replicas":3}}"#,
            r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team-a"}}"#,
            r#"{"apiVersion":"example.test/v1","kind":"Widget","spec":{},"metadata":{"namespace":"default"}}"#,
            r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"named","namespace":"other"}}"#,
        ]
    );
}

#[test]
fn a_sidecar() {
    let suite = one("good/sidecar");
    assert_eq!(suite.old_resources.len(), 1);
    let first: Vec<_> = suite.expectations(0, "web").collect();
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].effect.expect("an effect").value, Effect::Admit);
    let second: Vec<_> = suite.expectations(1, "web").collect();
    assert!(matches!(second[0].old_object, Some(OldObject::Inline(_))));
    let divergence = second[0].divergence.as_ref().expect("a divergence");
    assert_eq!(divergence.reason.value, "the generated policy does not look at updates");
    assert_eq!(suite.expectations(1, "other").count(), 0);
    let case = &suite.cases[0];
    assert_eq!(case.operation.expect("an operation").value, Operation::Delete);
    assert_eq!(
        suite.old_objects[0]
            .1
            .object
            .root()
            .at(&["metadata", "labels", "team"])
            .and_then(kyvtest::value::Value::as_str),
        Some("blue")
    );
}

#[test]
fn urls_and_files_are_distinguished() {
    let mut files = Memory::default();
    files.add("a/kyverno-test.yaml", "");
    let options = Options::default();
    let found = |path: &str, options: &Options<'_>| {
        suite::discover(&files, path, options).map_err(|diagnostic| render::concise(&diagnostic, &Sources::new()))
    };
    assert_eq!(found("a", &options), Ok(vec!["a/kyverno-test.yaml".to_owned()]));
    assert_eq!(
        found("./a/kyverno-test.yaml", &options),
        Ok(vec!["a/kyverno-test.yaml".to_owned()])
    );
    let strict = Options {
        accept_file: false,
        ..options
    };
    let refused = |path: &str, options: &Options<'_>| found(path, options).expect_err("it is refused");
    assert_eq!(
        refused("a/kyverno-test.yaml", &strict),
        "error[KT037]: expected a directory, found the file `a/kyverno-test.yaml`"
    );
    assert_eq!(
        refused("https://github.com/a/b", &options),
        "error[KT038]: `https://github.com/a/b` is an address; suites are only read from directories"
    );
    assert_eq!(
        refused("b", &options),
        "error[KT036]: cannot read `b`: no such file or directory"
    );
    let other = Options {
        file_name: "other.yaml",
        ..options
    };
    assert_eq!(found("a", &other), Ok(Vec::new()));
}
