//! The output of the Kyverno 1.19 CLI about native policies in small suites of single behaviours.

use std::{collections::BTreeMap, path::Path};

use kyvtest::{
    run::{self, Case, Settings},
    suite::{self, BuiltInScopes, Disk, Options},
};

use crate::support::{Gate, fixture, read};

/// One line of a printed table.
struct Line {
    suite: String,
    number: String,
    policy: String,
    resource: String,
    result: String,
    reason: String,
    /// The first line of the message, if messages are printed.
    message: Option<String>,
}

/// The lines of all tables about native policies; the policies of the probes are named after their kinds.
fn lines(observed: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut suite = "";
    for line in observed.lines() {
        if let Some(command) = line.strip_prefix("$ kyverno test ") {
            suite = command.rsplit(' ').next().unwrap_or_default();
        }
        let cells: Vec<&str> = line.split('│').map(str::trim).collect();
        let [_, number, policy, _, resource, result, reason, rest @ ..] = cells.as_slice() else {
            continue;
        };
        if number.parse::<u32>().is_err() || !policy.starts_with("vap") {
            continue;
        }
        lines.push(Line {
            suite: suite.to_owned(),
            number: (*number).to_owned(),
            policy: (*policy).to_owned(),
            resource: (*resource).to_owned(),
            result: (*result).to_owned(),
            reason: (*reason).to_owned(),
            message: match rest {
                [message, _] => Some((*message).to_owned()),
                _ => None,
            },
        });
    }
    lines
}

fn cases(folder: &Path) -> Vec<Case> {
    let settings = Settings::new(true);
    let options = Options {
        file_name: "kyverno-test.yaml",
        accept_file: false,
        scopes: &BuiltInScopes,
        own_crds: false,
        sidecar: false,
    };
    let files = suite::discover(&Disk, &folder.display().to_string(), &options).expect("a folder");
    let suites = files.iter().flat_map(|file| suite::load(&Disk, file, &options));
    suites.flat_map(|suite| run::run(&suite, &settings).cases).collect()
}

#[test]
fn native_policies() {
    let root = fixture("kyverno/probes");
    let probes = std::fs::read_dir(&root).expect("the probes");
    let mut probes: Vec<_> = probes.map(|probe| probe.expect("a probe").path()).collect();
    probes.sort();
    let lines: Vec<Line> = probes
        .iter()
        .flat_map(|probe| lines(&read(&probe.join("observed.txt"))))
        // The suites of other kinds are not here.
        .filter(|line| root.join(&line.suite).exists())
        .collect();
    let mut runs: BTreeMap<&str, Vec<Case>> = BTreeMap::new();
    for line in &lines {
        runs.entry(&line.suite)
            .or_insert_with(|| cases(&root.join(&line.suite)));
    }
    Gate::new("kyverno-probes", 25).run(
        &lines,
        |line| format!("{} {}", line.suite, line.number),
        |line| {
            let cases = runs[line.suite.as_str()].iter();
            let cases: Vec<(&str, &str, &str)> = cases
                .filter(|case| {
                    case.policy == line.policy && case.resource.to_string().replace(',', "/") == line.resource
                })
                .map(|case| {
                    let message = case.kyverno.as_ref().map_or("", |answer| answer.message.as_str());
                    let first = message.lines().next().unwrap_or_default();
                    (case.outcome.printed(), case.reason.as_str(), first)
                })
                .collect();
            let fits = |(result, reason, message): &(&str, &str, &str)| {
                let said = line.message.as_ref().is_none_or(|wanted| wanted == message);
                *result == line.result && *reason == line.reason && said
            };
            if cases.iter().any(fits) {
                return Ok(());
            }
            let want = (&line.result, &line.reason, &line.message);
            Err(format!("want {want:?}, got {cases:?}"))
        },
    );
}
