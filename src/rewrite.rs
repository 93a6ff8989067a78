//! Rewrites test files for migrated policies: the results of the new policies decide which of them a row names.
//!
//! Upstream counterpart: none. `kyvtest_migrate::rewrite_suite` changes the text; this module runs the rewritten file
//! in memory as `kyverno test` would, and rewrites it again with the results: a policy that does not match a resource
//! gets no row for it, and a row that expected `skip` expects `pass` if the new policy has no condition to skip by.

use std::{collections::BTreeMap, io};

use kyvtest_go_compat::{text::path::clean, value::Document, yaml};
use kyvtest_migrate::{Replaced, Reported, ResourceType, RewrittenSuite, rewrite_suite};
use kyvtest_model::{kube::Discovery, verdict::Status};

use crate::{
    run::{Outcome, Settings, run},
    suite::{Files, Memory, Options, Overlay, Suite, load},
};

/// A file of policies or exceptions, and the files that replace it in the same directory.
#[derive(Debug, Clone)]
pub struct Moved {
    pub old: String,
    /// Whether something in it was not migrated, so that it stays in use.
    pub stays: bool,
    /// Names and texts of the new files, in the same directory.
    pub new: Vec<(String, String)>,
}

/// Rewrites a test file; `None` if nothing in it changes. `policies` come with the files that they are in.
///
/// # Errors
/// If the file cannot be read.
pub fn rewrite(
    files: &dyn Files,
    test: &str,
    moved: &[Moved],
    policies: &[(String, Replaced)],
) -> io::Result<Option<RewrittenSuite>> {
    let text = String::from_utf8_lossy(&files.read(test)?).into_owned();
    let suites = load(files, test, &Options::default());
    let paths: Vec<(String, Vec<String>)> = suites.iter().flat_map(|suite| new_paths(suite, test, moved)).collect();
    // Another policy of the same name may be elsewhere.
    let policies: Vec<Replaced> = policies
        .iter()
        .filter(|(file, _)| suites.iter().any(|suite| reads(suite, test, file)))
        .map(|(_, replaced)| replaced.clone())
        .collect();
    let policies = policies.as_slice();
    let discovery = Discovery::kubernetes();
    let types = |name: &str, kind: Option<&str>| types(&suites, &discovery, name, kind);
    let operations = |policy: &str, resource: &str| operation(&suites, policy, resource);
    let attempt = |reports: &dyn Fn(&str, &str) -> Option<Reported>| {
        let suite = kyvtest_migrate::Suite {
            policies,
            paths: &paths,
            types: &types,
            operations: &operations,
            reports,
            context: CONTEXT,
        };
        rewrite_suite(&text, &suite).map_err(io::Error::other)
    };
    let Some(first) = attempt(&|_, _| None)? else {
        return Ok(None);
    };
    let context = context(files, test, &first)?;
    let reported = reported(files, test, &first.text, moved, context.as_deref());
    let second = attempt(&|policy, resource| reported.get(&(policy.to_owned(), resource.to_owned())).copied())?;
    Ok(second.map(|mut second| {
        second.files.extend(context.map(|text| (CONTEXT.to_owned(), text)));
        second
    }))
}

/// The name of the file with the objects that the new policies copy, next to the test file.
const CONTEXT: &str = "context-migrated.yaml";

/// The text of that file; `None` if nothing is copied.
fn context(files: &dyn Files, test: &str, suite: &RewrittenSuite) -> io::Result<Option<String>> {
    if suite.copied.is_empty() {
        return Ok(None);
    }
    let mut resources = Vec::new();
    for path in &suite.copied {
        let path = clean(&format!("{}/{path}", folder(test)));
        let text = files.read(&path)?;
        let stream = yaml::read(&text, yaml::Mode::Lax, &yaml::Limits::default());
        let trees = stream.documents().iter().filter_map(|document| document.tree().ok());
        let objects = trees.map(|tree| Document::from(tree.root()).root().to_serde());
        resources.extend(objects.filter(serde_json::Value::is_object));
    }
    let context = serde_json::json!({
        "apiVersion": "cli.kyverno.io/v1alpha1",
        "kind": "Context",
        "metadata": {"name": "context"},
        "spec": {"resources": resources},
    });
    Ok(Some(Document::from(&context).root().to_yaml()))
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or(".", |(folder, _)| folder)
}

/// Whether a suite names a file of policies, or a folder that holds it.
fn reads(suite: &Suite, test: &str, file: &str) -> bool {
    let Some(document) = &suite.test else { return false };
    document.policies.iter().any(|path| {
        let full = clean(&format!("{}/{}", folder(test), path.value));
        let rest = file.strip_prefix(full.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// The changed paths of a suite, as written.
fn new_paths(suite: &Suite, test: &str, moved: &[Moved]) -> Vec<(String, Vec<String>)> {
    let Some(document) = &suite.test else { return Vec::new() };
    let written = document.policies.iter().chain(&document.exceptions);
    let changed = written.filter_map(|path| {
        let full = clean(&format!("{}/{}", folder(test), path.value));
        let moved = moved.iter().find(|moved| clean(&moved.old) == full)?;
        let own = path.value.rsplit_once('/').map(|(folder, _)| folder);
        let beside = |name: &String| own.map_or_else(|| name.clone(), |folder| format!("{folder}/{name}"));
        let stays = moved.stays.then(|| path.value.clone());
        let new = moved.new.iter().map(|(name, _)| beside(name));
        Some((path.value.clone(), stays.into_iter().chain(new).collect()))
    });
    changed.collect()
}

/// The types of the resources that a row names.
fn types(suites: &[Suite], discovery: &Discovery, name: &str, kind: Option<&str>) -> Vec<ResourceType> {
    let own = name.rsplit('/').next().unwrap_or(name);
    let kind = kind.map(|kind| kind.rsplit('/').next().unwrap_or(kind));
    let resources = suites.iter().flat_map(|suite| &suite.resources);
    let meant = resources
        .filter(|resource| (name.is_empty() || resource.name == own) && kind.is_none_or(|kind| resource.kind == kind));
    let found = meant.filter_map(|resource| {
        let served = discovery.by_object(&resource.api_version, &resource.kind)?;
        Some(ResourceType {
            group: served.group.clone(),
            resource: served.plural.clone(),
        })
    });
    found.collect()
}

/// The operation that the values of a suite give a resource.
fn operation(suites: &[Suite], policy: &str, resource: &str) -> Option<String> {
    let own = resource.rsplit('/').next().unwrap_or(resource);
    let policies = suites.iter().flat_map(|suite| &suite.values.policies);
    let policies = policies.filter(|values| values.name.value == policy);
    let resources = policies.flat_map(|values| &values.resources);
    let named = resources.filter(|values| values.name.value == own);
    let mut operations = named
        .flat_map(|values| &values.values)
        .filter(|(name, _)| name.value == "request.operation");
    let (_, value) = operations.next()?;
    value.value.root().as_str().map(str::to_owned)
}

/// The results of the new policies for the resources of the rows that name them.
fn reported(
    files: &dyn Files,
    test: &str,
    text: &str,
    moved: &[Moved],
    context: Option<&str>,
) -> BTreeMap<(String, String), Reported> {
    let mut over = Memory::default();
    over.add(test, text);
    if let Some(context) = context {
        over.add(&format!("{}/{CONTEXT}", folder(test)), context);
    }
    for moved in moved {
        for (name, text) in &moved.new {
            over.add(&format!("{}/{name}", folder(&moved.old)), text.as_str());
        }
    }
    let overlay = Overlay { under: files, over };
    let settings = Settings::new(true);
    let mut reported = BTreeMap::new();
    for suite in load(&overlay, test, &Options::default()) {
        for case in run(&suite, &settings).cases {
            let result = match (&case.kyverno, case.outcome) {
                (Some(answer), _) => match answer.status {
                    Status::Pass => Reported::Pass,
                    Status::Fail | Status::Warn => Reported::Fail,
                    Status::Skip => Reported::Skip,
                    Status::NoMatch => Reported::Nothing,
                    _ => Reported::Error,
                },
                (None, Outcome::Unmatched | Outcome::Skip | Outcome::Silent) => Reported::Nothing,
                (None, _) => continue,
            };
            let key = &case.resource;
            for name in [key.name.clone(), format!("{}/{}", key.namespace, key.name)] {
                reported.insert((case.policy.clone(), name), result);
            }
        }
    }
    reported
}

#[cfg(test)]
mod tests {
    use kyvtest_go_compat::{diagnostic::Sources, value::Document, yaml};
    use kyvtest_migrate::{Options as Migrating, Replaced, migrate, migrate_exception};
    use kyvtest_model::{
        kube::Discovery,
        policy::{self, Loaded, Purpose},
    };

    use super::{Moved, rewrite};
    use crate::{
        run::{Outcome, Settings, run},
        suite::{Files, Memory, Options, load},
    };

    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/migrate/suite");

    fn fixture(name: &str) -> String {
        std::fs::read_to_string(format!("{FOLDER}/{name}")).expect("a fixture")
    }

    fn loaded(name: &str, purpose: Purpose) -> Loaded {
        let text = fixture(name);
        let mut loaded = Loaded::default();
        let file = Sources::new().add(name, text.as_str());
        let stream = yaml::read(text.as_bytes(), yaml::Mode::Lax, &yaml::Limits::default());
        policy::load(stream, file, purpose, &mut loaded);
        loaded
    }

    #[test]
    fn a_rewritten_suite_passes_as_the_original_did() {
        let mut files = Memory::default();
        for name in ["policy.yaml", "exception.yaml", "resources.yaml", "kyverno-test.yaml"] {
            files.add(&format!("suite/{name}"), fixture(name));
        }
        let policies = loaded("policy.yaml", Purpose::Policies);
        let discovery = Discovery::kubernetes();
        let replaced: Vec<Replaced> = policies
            .classic()
            .map(|policy| Replaced {
                key: policy.key(),
                migration: migrate(policy, &discovery, &Migrating::default()),
            })
            .collect();
        let yaml = |object: &serde_json::Value| Document::from(object).root().to_yaml();
        let objects: Vec<String> = replaced
            .iter()
            .flat_map(|one| one.migration.objects())
            .map(yaml)
            .collect();
        let exceptions = loaded("exception.yaml", Purpose::Exceptions);
        let exception = migrate_exception(&exceptions.exceptions[0], &replaced);
        let exception = exception.expect("a translation").expect("a migrated rule");
        let moved = [
            Moved {
                old: "suite/policy.yaml".to_owned(),
                stays: false,
                new: vec![("new-policy.yaml".to_owned(), objects.join("---\n"))],
            },
            Moved {
                old: "suite/exception.yaml".to_owned(),
                stays: false,
                new: vec![("new-exception.yaml".to_owned(), yaml(&exception.object))],
            },
        ];
        let placed = replaced.into_iter().map(|one| ("suite/policy.yaml".to_owned(), one));
        // A policy of the same name that the suite does not read changes nothing.
        let placed: Vec<(String, Replaced)> = placed
            .flat_map(|(file, one)| [("elsewhere/policy.yaml".to_owned(), one.clone()), (file, one)])
            .collect();
        let rewritten = rewrite(&files, "suite/kyverno-test.yaml", &moved, &placed);
        let rewritten = rewritten.expect("YAML").expect("a change");
        assert_eq!(rewritten.text, fixture("rewritten.yaml"));
        assert_eq!(rewritten.notes.join("\n") + "\n", fixture("notes.txt"));
        for moved in &moved {
            for (name, text) in &moved.new {
                files.add(&format!("suite/{name}"), text.as_str());
            }
        }
        files.add("suite/kyverno-test.yaml", rewritten.text);
        let suites = load(&files as &dyn Files, "suite/kyverno-test.yaml", &Options::default());
        let result = run(&suites[0], &Settings::new(true));
        assert!(!result.cases.is_empty());
        for case in &result.cases {
            assert_eq!(case.outcome, Outcome::Pass, "{}: {}", case.policy, case.reason);
        }
    }
}
