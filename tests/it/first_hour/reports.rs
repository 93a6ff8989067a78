//! Reports, commands over many files, options, the README and the action.

use std::{fs, process::Command};

use serde_json::Value;

use super::{NOW, code, json, kyvtest, scratch, stderr, stdout, text};

/// Runs the script of the action's last step, with a program in place of `kyvtest` that prints its arguments.
#[cfg(unix)]
#[test]
fn the_action_takes_lines_and_quotes() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = scratch("action");
    let program = directory.join("kyvtest");
    fs::write(&program, "#!/bin/sh\nprintf '<%s>\\n' \"$@\"\nexit 3\n").expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions");
    let action = fs::read_to_string("action.yml").expect("the action");
    let script = action.rsplit_once("run: |\n").expect("a script").1;
    let path = format!("{}:/usr/bin:/bin", directory.display());
    let output = Command::new("bash")
        .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script])
        .env_clear()
        .envs([("PATH", path.as_str()), ("PATHS", "policies/a\n'with blank'\n\nb c\n")])
        .envs([
            ("ARGS", "-P ci -E 'policy(=teams) & !tag(slow)'\n--shard \"1/3\""),
            ("JUNIT", "r.xml"),
            ("SARIF", ""),
        ])
        .env("GITHUB_OUTPUT", directory.join("output"))
        .output()
        .expect("bash");
    let expected = "<run>|<policies/a>|<with blank>|<b>|<c>|<-P>|<ci>|<-E>|<policy(=teams) & !tag(slow)>|<--shard>|<1/3>|<--report>|<junit=r.xml>|";
    assert_eq!(stdout(&output).replace('\n', "|"), expected, "{}", stderr(&output));
    assert_eq!(code(&output), 3);
    assert_eq!(
        fs::read_to_string(directory.join("output")).expect("an output"),
        "exit-code=3\n"
    );
}

#[test]
fn divergences_are_grouped_and_failures_come_first() {
    let args = [
        "run",
        "fixtures/first-hour/many",
        "fixtures/report",
        "fixtures/run/unmet",
        NOW,
    ];
    let many = kyvtest(&["run", "fixtures/first-hour/many", NOW]);
    insta::assert_snapshot!("grouped", stdout(&many));
    let shown = stdout(&kyvtest(&args));
    let words: Vec<&str> = shown
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let last_failure = words
        .iter()
        .rposition(|word| ["FAIL", "ERROR", "UNMATCHED"].contains(word));
    let first_group = words.iter().position(|word| *word == "DIVERGE").expect("a group");
    let details = stdout(&kyvtest(&[&args[..], &["--details"]].concat()));
    let count = |text: &str| text.lines().filter(|line| line.starts_with("DIVERGE")).count();
    assert!(count(&shown) < count(&details), "{shown}");
    // Failures come first, and once more in the list at the end.
    let first_failure = words.iter().position(|word| *word == "FAIL").expect("a failure");
    assert!(
        first_failure < first_group && last_failure > Some(first_group),
        "{shown}"
    );
    assert!(shown.contains("explain:  kyvtest explain H27"), "{shown}");
    let github = stdout(&kyvtest(&[&args[..], &["-o", "github"]].concat()));
    let errors: Vec<&str> = github.lines().filter(|line| line.starts_with("::error")).collect();
    let diverge = errors.iter().position(|line| line.contains("title=Diverge"));
    let fail = errors.iter().rposition(|line| line.contains("title=Fail"));
    assert!(diverge.is_none() || fail < diverge, "{github}");
    assert!(fail.is_some(), "{github}");
    let markdown = stdout(&kyvtest(&[&args[..], &["-o", "markdown"]].concat()));
    let html = stdout(&kyvtest(&[&args[..], &["-o", "html"]].concat()));
    for (text, fail, pass) in [(markdown, "| Fail |", "| Pass |"), (html, "<b>Fail</b>", "<b>Pass</b>")] {
        assert!(text.find(fail).expect("a failure") < text.find(pass).expect("a pass"));
    }
}

#[test]
fn failures_are_grouped_by_policy_and_cause() {
    let suite = "fixtures/first-hour/failures";
    let grouped = kyvtest(&["run", suite, NOW]);
    insta::assert_snapshot!("failures", stdout(&grouped));
    let details = stdout(&kyvtest(&["run", suite, NOW, "--details"]));
    let failing = |text: &str| {
        let lines = text
            .lines()
            .filter(|line| line.starts_with("FAIL") || line.starts_with("UNMATCHED"));
        lines.count()
    };
    // Each case in full, and once more in the list at the end.
    assert_eq!((failing(&stdout(&grouped)), failing(&details)), (4, 18));
    assert!(!details.contains("next:"), "{details}");
    let github = stdout(&kyvtest(&["run", suite, NOW, "-o", "github"]));
    let errors = github.lines().filter(|line| line.starts_with("::error"));
    assert_eq!(errors.count(), 2, "{github}");
    // One failure needs no hint.
    let one = stdout(&kyvtest(&[
        "run",
        suite,
        NOW,
        "-E",
        "resource(=a) & rule(=check-owner)",
    ]));
    assert!(!one.contains("next:"), "{one}");
}

/// How many lines two screens have.
const TWO_SCREENS: usize = 120;

#[expect(clippy::print_stderr, reason = "for the reader of a test run")]
#[test]
fn the_library_fits_on_two_screens() {
    let shared = std::env::var("KYVTEST_SHARED").unwrap_or_else(|_| "../shared".to_owned());
    let library = format!("{shared}/corpus/policies");
    if !std::path::Path::new(&library).is_dir() {
        eprintln!("skipped: no shared data");
        return;
    }
    let output = kyvtest(&["run", &library, NOW]);
    let shown = stdout(&output);
    assert_eq!(code(&output), 1);
    assert!(shown.lines().count() <= TWO_SCREENS, "{} lines", shown.lines().count());
    let last: Vec<&str> = shown.lines().rev().take(3).collect();
    assert!(last.iter().all(|line| line.starts_with("next: ")), "{last:?}");
}

#[test]
fn differences_of_messages_are_counted_and_shown_on_request() {
    let (from, to) = ("fixtures/first-hour/wording/from", "fixtures/first-hour/wording/to");
    let plain = kyvtest(&["diff", "--from", from, "--to", to]);
    assert_eq!(code(&plain), 0, "{}", stderr(&plain));
    // Partners of different types say so.
    let heading = "owners (ClusterPolicy -> ValidatingPolicy): 0 equal, 1 message\n";
    assert!(stdout(&plain).starts_with(heading), "{}", stdout(&plain));
    assert!(!stdout(&plain).contains("set the label owner"), "{}", stdout(&plain));
    let messages = kyvtest(&["diff", "--from", from, "--to", to, "--messages"]);
    assert_eq!(code(&messages), 0);
    for line in [
        "  message: CREATE ConfigMap/default/plain\n",
        "    to:   deny (fail): set the label owner\n",
    ] {
        assert!(stdout(&messages).contains(line), "{}", stdout(&messages));
    }
    let same = stdout(&kyvtest(&["diff", "--from", from, "--to", from, "--all"]));
    assert!(same.starts_with("owners: 1 equal\n"), "{same}");
}

/// The bar needs a terminal, which `script` provides.
#[cfg(unix)]
#[expect(clippy::print_stderr, reason = "for the reader of a test run")]
#[test]
fn the_progress_bar_has_a_unit_and_problems() {
    let directory = scratch("progress");
    let numbers: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    let policy = fs::read_to_string("fixtures/run/long/policy.yaml").expect("a policy");
    let policy = policy.replace("LIST", &format!("[{}]", numbers.join(", ")));
    let test = fs::read_to_string("fixtures/run/long/test.yaml").expect("a suite");
    let resources: Vec<String> = (0..60)
        .map(|number| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{number}}}\n"))
        .collect();
    for number in 0..8 {
        let own = directory.join(number.to_string());
        fs::create_dir(&own).expect("a folder");
        fs::write(own.join("policy.yaml"), &policy).expect("a file");
        fs::write(
            own.join("kyverno-test.yaml"),
            test.replace("result: pass", "result: fail"),
        )
        .expect("a file");
        fs::write(own.join("resources.yaml"), resources.join("---\n")).expect("a file");
    }
    let run = format!("{} run {} -j1", env!("CARGO_BIN_EXE_kyvtest"), directory.display());
    let output = Command::new("script")
        .args(["-qec", &run, "/dev/null"])
        .env("TERM", "xterm")
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: no `script`");
        return;
    };
    let shown = stdout(&output);
    assert!(shown.contains("/8 test files"), "{shown}");
    assert!(shown.contains(" · 60 problems"), "{shown}");
}

#[test]
fn explain_knows_hazards_classes_and_labels() {
    for (word, said) in [
        ("H27", "# H27: "),
        ("v01", "# V01: "),
        ("weaker", "# weaker: "),
        ("UNKNOWN", "# UNKNOWN: "),
        ("not-convertible", "# not-convertible: "),
        ("KT001", "# KT001: "),
    ] {
        let output = kyvtest(&["explain", word]);
        assert_eq!(code(&output), 0, "{word}");
        assert!(stdout(&output).starts_with(said), "{word}: {}", stdout(&output));
    }
    let unknown = kyvtest(&["explain", "weakr"]);
    assert_eq!(code(&unknown), 2);
    assert!(
        stderr(&unknown).contains("did you mean `weaker`"),
        "{}",
        stderr(&unknown)
    );
}

#[test]
fn one_engine_is_enough() {
    let suite = "fixtures/report/divergence";
    let run = |engine: &str| {
        let output = kyvtest(&["run", suite, "--engine", engine, "-o", "json", NOW]);
        (code(&output), json(&output))
    };
    let (both, report) = run("both");
    assert_eq!(both, 3);
    assert_ne!(report["summary"]["divergences"], serde_json::json!({}));
    let (kyverno, report) = run("kyverno");
    assert_eq!(kyverno, 0);
    assert_eq!(report["summary"]["divergences"], serde_json::json!({}));
    let (native, report) = run("native");
    assert_eq!(native, 1);
    assert_eq!(report["suites"][0]["cases"][0]["kyverno"], Value::Null);
    let config = scratch("engine").join("kyvtest.toml");
    fs::write(
        &config,
        "[profile.default]\nengine = \"kyverno\"\noutput-format = \"json\"\n",
    )
    .expect("a file");
    let output = kyvtest(&["run", suite, "--config", text(&config)]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(json(&output)["summary"]["divergences"], serde_json::json!({}));
}

#[test]
fn directories_of_policies() {
    let directory = "fixtures/first-hour/prove/directory";
    let prove = kyvtest(&["prove", directory]);
    assert!(
        stdout(&prove).contains("2 policies\n  NOT-CONVERTIBLE (json-mode)  1  plan-has-tags\n"),
        "{}",
        stdout(&prove)
    );
    assert_eq!(stderr(&prove), "");
    let diff = kyvtest(&[
        "diff",
        "--from",
        directory,
        "--to",
        directory,
        "--resources",
        "fixtures/report/divergence/resources.yaml",
    ]);
    assert_eq!(code(&diff), 0, "{}{}", stdout(&diff), stderr(&diff));
    assert!(stdout(&diff).contains("2 pairs: "), "{}", stdout(&diff));
}

#[test]
fn sarif_rules_are_described() {
    let report = json(&kyvtest(&["run", "fixtures/report", "suites", "-o", "sarif"]));
    for rule in report["runs"][0]["tool"]["driver"]["rules"].as_array().expect("rules") {
        for key in ["shortDescription", "fullDescription", "help"] {
            let text = rule[key]["text"].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{key} of {}", rule["id"]);
        }
    }
}

#[test]
fn old_names_of_options_still_work() {
    for args in [
        &["run", "fixtures/run/met", "--output-format", "json"][..],
        &["list", "fixtures/run/met", "--output-format", "json"],
        &["prove", "fixtures/first-hour/prove/policy.yaml", "--format", "json"],
        &["cel", "1 + 1", "--format", "json"],
        &["cover", "fixtures/run/met", "--format", "json"],
    ] {
        let output = kyvtest(args);
        assert!(
            serde_json::from_slice::<Value>(&output.stdout).is_ok(),
            "{args:?}: {}",
            stderr(&output)
        );
    }
}

/// The console blocks of a page: each command with the output that follows it.
fn console(page: &str) -> Vec<(String, String)> {
    let mut commands: Vec<(String, String)> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        for line in block.split("```").next().unwrap_or_default().lines() {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(command), _) => commands.push((command.to_owned(), String::new())),
                (None, Some((_, output))) => {
                    output.push_str(line);
                    output.push('\n');
                }
                (None, None) => panic!("output without a command: {line}"),
            }
        }
    }
    commands
}

/// Output without the clock and the duration of a run.
fn timeless(text: &str) -> String {
    let lines = text.lines().map(|line| line.split(" · clock ").next().unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// The longest line that a reader sees without a scroll bar.
const LINE: usize = 100;

#[test]
fn tables_of_the_readme_have_short_cells() {
    let page = fs::read_to_string("README.md").expect("the README");
    let rows = page.lines().filter(|line| line.starts_with('|'));
    assert!(rows.clone().count() > 10);
    for row in rows {
        // Addresses of links are not shown.
        let cells = row.split('|').map(|cell| {
            cell.split("](")
                .map(|part| part.split_once(')').map_or(part, |(_, rest)| rest))
        });
        for cell in cells {
            let shown: usize = cell.map(|part| part.chars().count()).sum();
            assert!(shown <= LINE, "{row}");
        }
    }
    assert!(page.lines().count() < 150, "two minutes to read");
}

#[test]
fn the_readme_shows_what_the_program_prints() {
    let page = fs::read_to_string("README.md").expect("the README");
    let commands = console(&page);
    assert!(commands.len() >= 3, "{commands:?}");
    let mut last = 0;
    for (command, expected) in commands {
        if command == "echo $?" {
            assert_eq!(expected.trim(), last.to_string());
            continue;
        }
        let words: Vec<&str> = command.split_whitespace().collect();
        assert_eq!(words[0], "kyvtest");
        let output = kyvtest(&words[1..]);
        assert_eq!(timeless(&stdout(&output)), timeless(&expected), "{command}");
        last = code(&output);
    }
}

#[test]
fn a_kind_that_fits_no_resource_is_a_warning() {
    let output = kyvtest(&["run", "fixtures/first-hour/kinds"]);
    assert_eq!(code(&output), 0, "{}", stdout(&output));
    let said = stderr(&output);
    assert!(
        said.contains("warning[KT213]: no resource of this row has the kind `Deployment`"),
        "{said}"
    );
    assert!(said.contains("the resources have the kind `Pod`"), "{said}");
}

#[test]
fn numbers_can_be_searched_for() {
    let output = kyvtest(&["run", "suites", NOW]);
    let line = stdout(&output).lines().last().expect("a summary").to_owned();
    assert!(!line.contains(['\u{2009}', '\u{202f}', '\u{a0}']), "{line}");
}

/// The relative luminance of a colour such as `#1a7f37` (WCAG 2.1).
fn luminance(colour: &str) -> f64 {
    let channel = |at: usize| {
        let value = u8::from_str_radix(&colour[at..at + 2], 16).expect("two digits");
        let value = f64::from(value) / 255.0;
        if value <= 0.03928 {
            value / 12.92
        } else {
            ((value + 0.055) / 1.055).powf(2.4)
        }
    };
    0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
}

#[test]
fn the_page_is_readable_in_both_themes() {
    let page = stdout(&kyvtest(&["run", "fixtures/report", "-o", "html", NOW]));
    let themes: Vec<&str> = page.split(":root {").skip(1).collect();
    assert_eq!(themes.len(), 2, "a light and a dark theme");
    for theme in themes {
        let theme = theme.split('}').next().expect("a block");
        let colour = |name: &str| {
            let value = theme.split(&format!("--{name}: ")).nth(1).expect("a colour");
            value.split(';').next().expect("an end").trim().to_owned()
        };
        let back = luminance(&colour("back"));
        for name in ["text", "good", "bad", "odd"] {
            let front = luminance(&colour(name));
            let contrast = (front.max(back) + 0.05) / (front.min(back) + 0.05);
            assert!(contrast >= 4.5, "{name}: {contrast:.2} in {theme}");
        }
    }
    let header = page
        .lines()
        .find(|line| line.starts_with("header {"))
        .expect("a header");
    assert!(
        header.contains("position: sticky") && header.contains("z-index"),
        "{header}"
    );
    // The box and its words stay together on a narrow screen.
    assert!(
        page.contains("<label class=\"check\"><input id=\"problems\"")
            && page.contains(".check { white-space: nowrap; }")
    );
    for outcome in ["fail", "diverge", "pass"] {
        assert!(page.contains(&format!("<option value=\"{outcome}\">")), "{outcome}");
        assert!(page.contains(&format!("data-outcome=\"{outcome}\"")), "{outcome}");
    }
}

#[test]
fn settled_proposals_and_expired_divergences() {
    let directory = scratch("settled");
    for name in ["kyverno-test.yaml", "policy.yaml", "resources.yaml"] {
        fs::copy(format!("fixtures/first-hour/many/{name}"), directory.join(name)).expect("a file");
    }
    let test = directory.join("kyverno-test.yaml");
    let wrong = fs::read_to_string(&test)
        .expect("a suite")
        .replace("result: fail", "result: pass");
    fs::write(&test, wrong).expect("a suite");
    kyvtest(&["run", text(&directory), "--update"]);
    let proposal = directory.join("kyverno-test.yaml.new");
    assert!(proposal.exists());
    kyvtest(&["run", text(&directory), "--update", "--accept"]);
    assert!(!proposal.exists(), "the proposal is settled");
    let sidecar = "apiVersion: kyvtest.dev/v1\nkind: Sidecar\nrows:\n  - row: 0\n    divergence: {class: weaker, reason: known, \
                   expires: \"2026-11-01\"}\n";
    fs::write(directory.join("kyvtest.yaml"), sidecar).expect("a sidecar");
    let counts = |now: &str| {
        let output = kyvtest(&["run", text(&directory), "--now", now]);
        timeless(
            stdout(&output)
                .lines()
                .find(|line| line.starts_with("run "))
                .unwrap_or_default(),
        )
    };
    assert_eq!(
        counts("2026-10-31T00:00:00Z"),
        "run 5 · pass 5 · 5 accepted differences"
    );
    assert_eq!(counts("2026-11-16T00:00:00Z"), "run 5 · pass 0 · fail 5");
}
