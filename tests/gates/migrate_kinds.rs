//! `kyvtest migrate` for rules that do not validate: every such rule of the corpus, and every suite rewritten with
//! them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use kyvtest::{
    kube::Discovery,
    migrate::{Options, RuleLabel, migrate},
    policy::Rule,
};
use rayon::prelude::*;

use crate::{
    migrate::policies,
    support::{print_count, shared},
};

/// Of the rules of a type: how many there are, how many are translated, and how many of these are proven.
const RECORDED: [(&str, usize, usize, usize); 3] = [
    ("generate", 14, 11, 0),
    ("mutate", 56, 41, 31),
    ("verifyImages", 3, 1, 0),
];

/// How many suites with such rules are rewritten, and how many of these pass as before.
const SUITES: (usize, usize) = (46, 46);

fn type_of(rule: &Rule) -> Option<&'static str> {
    let types = [
        (rule.mutate.is_some(), "mutate"),
        (rule.generate.is_some(), "generate"),
        (rule.verify_images.is_some(), "verifyImages"),
    ];
    types.into_iter().find(|(given, _)| *given).map(|(_, name)| name)
}

#[test]
fn corpus_rules_that_change_objects_are_migrated() {
    let Some(folder) = shared("corpus") else { return };
    let discovery = Discovery::kubernetes();
    let labels: Vec<(&str, String)> = policies(&folder)
        .par_iter()
        .filter(|policy| policy.spec.rules.iter().any(|rule| type_of(rule).is_some()))
        .flat_map_iter(|policy| {
            let migration = migrate(policy, &discovery, &Options::default());
            let rules = policy.spec.rules.iter().zip(migration.rules);
            let each = rules.filter_map(|(rule, migrated)| {
                let label = match &migrated.label {
                    RuleLabel::NotMigrated(code) => format!("NOT-MIGRATED({})", code.as_str()),
                    label => label.as_str().to_owned(),
                };
                type_of(rule).map(|name| (name, label))
            });
            each.collect::<Vec<_>>()
        })
        .collect();
    let mut failures = Vec::new();
    for (name, all, translated, proven) in RECORDED {
        let own = labels.iter().filter(|(found, _)| *found == name);
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, label) in own {
            *counts.entry(label).or_default() += 1;
        }
        let found: usize = counts.values().sum();
        let done: usize = counts
            .iter()
            .filter(|(label, _)| !label.starts_with("NOT-MIGRATED"))
            .map(|(_, count)| count)
            .sum();
        print_count(&format!("gate migrate-{name}: {found} rules, {done} translated"));
        for (label, count) in &counts {
            print_count(&format!("  {count} {label}"));
        }
        let sure = counts.get("PROVEN").copied().unwrap_or_default();
        if found < all || done < translated || sure < proven {
            failures.push(format!(
                "{name}: {done} of {found} rules, {sure} proven, before {translated} of {all}, {proven} proven"
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn kyvtest(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kyvtest"))
        .args(args)
        .output()
        .expect("kyvtest runs")
}

fn test_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("a folder");
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            test_files(&path, found);
        } else if path.file_name().is_some_and(|name| name == "kyverno-test.yaml") {
            found.push(path);
        }
    }
}

/// Whether a file of the directory, or of the directories below, has a rule that changes objects.
fn changes_objects(folder: &Path) -> bool {
    policies(folder)
        .iter()
        .flat_map(|policy| &policy.spec.rules)
        .any(|rule| type_of(rule).is_some())
}

#[test]
fn rewritten_suites_pass_as_before() {
    let Some(folder) = shared("corpus") else { return };
    let mut tests = Vec::new();
    test_files(&folder, &mut tests);
    tests.sort();
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("migrate-kinds");
    let _ = fs::remove_dir_all(&scratch);
    let roots: Vec<PathBuf> = tests
        .iter()
        .filter_map(|test| {
            let own = test.parent()?;
            let hidden = own.file_name().is_some_and(|name| name == ".kyverno-test");
            Some(if hidden { own.parent()? } else { own }.to_path_buf())
        })
        .filter(|root| changes_objects(root))
        .collect();
    let results: Vec<Option<(String, bool)>> = roots
        .par_iter()
        .enumerate()
        .map(|(number, root)| {
            let out = scratch.join(number.to_string());
            let (from, to) = (root.to_string_lossy(), out.to_string_lossy());
            kyvtest(&["migrate", &from, "--out", &to]);
            let mut written = Vec::new();
            if out.is_dir() {
                test_files(&out, &mut written);
            }
            if written.is_empty() {
                return None;
            }
            let [before, after] = [&*from, &*to].map(|path| kyvtest(&["run", "--compat", path]).status.code());
            let shown = root.strip_prefix(&folder).unwrap_or(root).display().to_string();
            Some((shown, before == after))
        })
        .collect();
    let rewritten: Vec<&(String, bool)> = results.iter().flatten().collect();
    let same = rewritten.iter().filter(|(_, same)| *same).count();
    print_count(&format!("gate migrate-kinds-suites: {same}/{}", rewritten.len()));
    for (root, _) in rewritten.iter().filter(|(_, same)| !same) {
        print_count(&format!("  {root}"));
    }
    assert!(
        rewritten.len() >= SUITES.0 && same >= SUITES.1,
        "fewer suites pass than before"
    );
}
