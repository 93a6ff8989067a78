//! Probes of single behaviours of `kyverno test`: the lines that it prints and its exit code, through the binary.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use kyvtest::suite::{self, BuiltInScopes, Disk, Options};
use serde_json::Value;

use crate::support::{Gate, read, shared};

/// One recorded command.
#[derive(Debug)]
struct Probe {
    id: String,
    args: Vec<String>,
    /// POLICY, RULE, RESOURCE, RESULT, REASON.
    lines: Vec<[String; 5]>,
    code: i32,
    aborted: bool,
    /// Whether only failing lines are printed.
    fail_only: bool,
}

/// The commands of a probe that are in scope: `test` with flags that do not change what is printed.
fn probes(folder: &Path) -> Vec<Probe> {
    let name = folder
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let text = read(&folder.join("observed.txt"));
    let blocks = text.split("\n$ ").skip(1).enumerate();
    blocks
        .filter_map(|(number, block)| {
            let (command, output) = block.split_once('\n')?;
            let words: Vec<&str> = command.split_whitespace().collect();
            let args = words.strip_prefix(&["kyverno", "test"])?;
            let mut kept = Vec::new();
            let mut format = "table";
            let mut words = args.iter();
            while let Some(word) = words.next() {
                match *word {
                    "--remove-color" | "--detailed-results" => {}
                    "--fail-only" | "--require-tests" => kept.push((*word).to_owned()),
                    "-o" => format = words.next()?,
                    flag @ ("-f" | "-t") => {
                        kept.extend([flag.to_owned(), words.next()?.trim_matches('\'').to_owned()]);
                    }
                    flag if flag.starts_with('-') => return None,
                    path => kept.push(path.to_owned()),
                }
            }
            if format == "xml" {
                kept.extend(["-o".to_owned(), "xml".to_owned()]);
            }
            let code = output.rsplit_once("--- exit code ")?.1.trim().parse().ok()?;
            Some(Probe {
                id: format!("{name} {number}"),
                args: kept,
                lines: lines(format, output)?,
                fail_only: args.contains(&"--fail-only"),
                code,
                aborted: output.contains("\nError: failed to run test") || output.contains("errors after loading"),
            })
        })
        .collect()
}

/// The lines of the printed reports.
fn lines(format: &str, output: &str) -> Option<Vec<[String; 5]>> {
    let keys = ["POLICY", "RULE", "RESOURCE", "RESULT", "REASON"];
    let read = |text: &str| -> Option<Vec<[String; 5]>> {
        let list = kyvtest::value::Document::from_yaml(text).ok()?.root().to_serde();
        let line = |line: &Value| keys.map(|key| line[key].as_str().unwrap_or_default().to_owned());
        Some(list.as_array()?.iter().map(line).collect())
    };
    let part = |begin: &str, end: &str| -> String {
        let inside = output.lines().skip_while(|line| !line.starts_with(begin));
        let inside = inside.take_while(|line| *line != end).collect::<Vec<_>>();
        inside.join("\n")
    };
    match format {
        "table" => Some(table(output)),
        "json" => read(&format!("{}]", part("[", "]"))),
        "yaml" => read(&part("- ID", "")),
        // Cells are not escaped: only the lines of plain ones can be distinguished.
        "markdown" if !output.contains("\"team\" |") => Some(table(&output.replace("| ", "│ ").replace(" |", " │"))),
        // Unknown formats, and JUnit that is not XML: only the exit code.
        "xml" => Some(Vec::new()),
        _ => None,
    }
}

/// The lines of the printed tables.
fn table(output: &str) -> Vec<[String; 5]> {
    let rows = output.lines().filter(|line| line.starts_with("│ "));
    let cells = rows.map(|line| {
        line.trim_matches('│')
            .split('│')
            .map(|cell| cell.trim().to_owned())
            .collect::<Vec<_>>()
    });
    cells
        .filter(|cells| cells.first().is_some_and(|id| id.parse::<usize>().is_ok()))
        .filter_map(|cells| cells.get(1..6).and_then(|cells| cells.to_vec().try_into().ok()))
        .collect()
}

/// Whether all policies of the suites below the paths are decided: CEL in all its forms. Probes of the command line
/// itself always are.
fn in_scope(base: &Path, probe: &Probe) -> bool {
    if COMMAND_LINE.iter().any(|name| probe.id.starts_with(name)) {
        return true;
    }
    let mut args = probe.args.iter();
    let mut file_name = "kyverno-test.yaml";
    let mut paths = Vec::new();
    while let Some(arg) = args.next() {
        if arg == "-t" {
            args.next();
        } else if arg == "-f" {
            file_name = args.next().map_or(file_name, String::as_str);
        } else if !arg.starts_with("--") {
            paths.push(base.join(arg).display().to_string());
        }
    }
    let options = Options {
        file_name,
        accept_file: false,
        scopes: &BuiltInScopes,
        own_crds: false,
        sidecar: false,
    };
    let files = paths
        .iter()
        .filter_map(|path| suite::discover(&Disk, path, &options).ok())
        .flatten();
    files.flat_map(|file| suite::load(&Disk, &file, &options)).all(|suite| {
        let rules = suite.policies.classic().flat_map(|policy| &policy.spec.rules);
        let mut rules = rules.map(|rule| rule.validate.as_ref());
        let is_cel = rules.all(|validate| {
            validate
                .is_some_and(|validate| validate.cel.is_some() || validate.pattern.is_none() && validate.deny.is_none())
        });
        is_cel
            && suite.policies.policies.iter().all(|policy| {
                policy.validates()
                    || policy.as_native_mutating().is_some() && !policy.api_version().ends_with("v1alpha1")
            })
    })
}

/// The probes that are about options.
const COMMAND_LINE: [&str; 6] = [
    "selector ",
    "fail-only",
    "output-formats ",
    "output-escaping ",
    "empty-dir ",
    "color-in-pipe ",
];

fn check(base: &Path, probe: &Probe) -> Result<(), String> {
    let no_format = probe.args.iter().any(|arg| arg == "xml");
    let format: &[&str] = if no_format { &[] } else { &["-o", "json"] };
    let output = Command::new(env!("CARGO_BIN_EXE_kyvtest"))
        .current_dir(base)
        .args(["run", "--compat"])
        .args(format)
        .args(&probe.args)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let code = output.status.code().unwrap_or(-1);
    let stderr = String::from_utf8_lossy(&output.stderr);
    if probe.code == 2 {
        // Kyverno panics.
        return if code != 0 && stderr.contains("[KT") {
            Ok(())
        } else {
            Err(format!("exit code {code}, stderr {stderr}"))
        };
    }
    if no_format {
        return if code == probe.code {
            Ok(())
        } else {
            Err(format!("exit code {code}"))
        };
    }
    if code != probe.code {
        return Err(format!("exit code {code}, expected {}; {stderr}", probe.code));
    }
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let suites = report["suites"].as_array().into_iter().flatten();
    let cases = suites.flat_map(|suite| suite["cases"].as_array().into_iter().flatten());
    let mut ours: Vec<[String; 5]> = cases
        .filter(|case| case["outcome"] != "")
        .filter(|case| !probe.fail_only || case["outcome"] == "Fail")
        .map(|case| {
            let of = &case["resource"];
            let parts = ["apiVersion", "kind", "namespace", "name"].map(|key| text(&of[key]));
            let resource = if of["kind"].is_null() {
                format!("/{}", parts[3])
            } else {
                parts.join("/")
            };
            let rule = text(&case["rule"]);
            [
                text(&case["policy"]),
                rule,
                resource,
                text(&case["outcome"]),
                text(&case["reason"]),
            ]
        })
        .collect();
    let mut theirs = probe.lines.clone();
    for lines in [&mut ours, &mut theirs] {
        // `Excluded` beside another line of the same policy and resource depends on Go's map order.
        let all = lines.clone();
        lines.retain(|line| {
            let same = |other: &&[String; 5]| other[0] == line[0] && other[2] == line[2] && other[4] != "Excluded";
            line[4] != "Excluded" || !all.iter().any(|other| same(&other))
        });
        lines.sort();
    }
    if probe.aborted {
        // Kyverno stops at the first suite that it cannot run; others still run here.
        theirs.retain(|line| !ours.contains(line));
        return if theirs.is_empty() {
            Ok(())
        } else {
            Err(format!("missing {theirs:?}"))
        };
    }
    if ours == theirs {
        Ok(())
    } else {
        Err(format!("ours {ours:?}\n    expected {theirs:?}\n    {stderr}"))
    }
}

fn all(base: &Path) -> Vec<Probe> {
    let mut folders: Vec<_> = std::fs::read_dir(base)
        .expect("the folder is there")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("observed.txt").is_file())
        .collect();
    folders.sort();
    folders
        .iter()
        .flat_map(|folder| probes(folder))
        .filter(|probe| in_scope(base, probe))
        .collect()
}

#[test]
fn probes_of_the_command_line() {
    let Some(base) = shared("golden/kyverno-cli/probes") else {
        return;
    };
    let rows = all(&base);
    Gate::new("kyverno-probes", 64).run(&rows, |probe| probe.id.clone(), |probe| check(&base, probe));
}
