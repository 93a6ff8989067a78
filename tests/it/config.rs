//! `kyvtest.toml`: profiles, overrides, and which commands read which keys.

use std::fs;

use serde_json::Value;

use crate::{
    program::{kyvtest, with},
    report::{NOW, scratch},
};

#[test]
fn profiles_are_options() {
    let file = "fixtures/report/kyvtest.toml";
    let run = |more: &[&str]| {
        let args = [&["run", "fixtures/report/outcomes", "--config", file][..], more].concat();
        let output = kyvtest(&args);
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        (
            output.status.code(),
            stdout,
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, stdout, stderr) = run(&[]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(
        stdout.starts_with("fixtures/report/outcomes/kyverno-test.yaml\n│"),
        "{stdout}"
    );
    assert!(
        stderr.contains("KT026") && stderr.contains("did you mean `fail-only`?"),
        "{stderr}"
    );
    assert!(
        run(&["-P", "ci"]).1.starts_with("TAP version 14\n1..2\n"),
        "{:?}",
        run(&["-P", "ci"])
    );
    assert!(run(&["-P", "ci", "-o", "json"]).1.starts_with('{'));
    let (code, _, stderr) = run(&["-P", "cii"]);
    assert!(code == Some(2) && stderr.contains("did you mean `ci`?"), "{stderr}");
    let show = kyvtest(&["show-config", "--config", file, "-P", "ci"]);
    insta::assert_snapshot!("show-config", String::from_utf8_lossy(&show.stdout));
    let environment = [("KYVTEST_OUTPUT_FORMAT", "json"), ("KYVTEST_FAIL_ONLY", "true")];
    let output = with(&["run", "fixtures/report/outcomes", "--config", file], &environment);
    assert!(output.stdout.starts_with(b"{"));
    for (name, text) in [("type", "[profile.default]\nfail-only = 1\n"), ("syntax", "[profile\n")] {
        let path = scratch(&format!("{name}.toml"));
        fs::write(&path, text).expect("a file");
        let output = kyvtest(&["run", "fixtures/report", "--config", &path.display().to_string()]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("KT025"), "{name}");
    }
}

#[test]
fn overrides_are_for_single_cases() {
    let file = "fixtures/report/overrides.toml";
    let run = |more: &[&str]| {
        let args = [&["run", "fixtures/report/divergence", "--config", file][..], more, &NOW].concat();
        let output = kyvtest(&args);
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, stdout, stderr) = run(&[]);
    assert_eq!(code, Some(3), "{stdout}\n{stderr}");
    assert!(
        stdout.contains("· diverge 2 (1 stricter, 1 error) · 2 accepted differences"),
        "{stdout}"
    );
    assert!(
        stderr.contains("KT026") && stderr.contains("did you mean `timeout`?"),
        "{stderr}"
    );
    let (code, stdout, _) = run(&["-P", "slow"]);
    assert_eq!(code, Some(1), "{stdout}");
    assert!(
        stdout.contains("KT320") && stdout.contains("· error 4 · clock "),
        "{stdout}"
    );
    let (code, stdout, _) = run(&["-P", "slow", "--timeout", "10m"]);
    assert_eq!(code, Some(3), "{stdout}");
    let show = kyvtest(&["show-config", "--config", file, "-P", "slow"]);
    insta::assert_snapshot!("show-config-overrides", String::from_utf8_lossy(&show.stdout));
    for (name, text) in [
        ("no-filter", "[[profile.default.overrides]]\ntimeout = \"1s\"\n"),
        ("bad-filter", "[[profile.default.overrides]]\nfilter = \"polcy(a)\"\n"),
        (
            "no-reason",
            "[[profile.default.overrides]]\nfilter = \"all()\"\naccept-divergence = \"H27\"\n",
        ),
        (
            "no-duration",
            "[[profile.default.overrides]]\nfilter = \"all()\"\ntimeout = \"soon\"\n",
        ),
        ("no-table", "[profile.default]\noverrides = 1\n"),
    ] {
        let path = scratch(&format!("{name}.toml"));
        fs::write(&path, text).expect("a file");
        let output = kyvtest(&["run", "fixtures/run/met", "--config", &path.display().to_string()]);
        assert_eq!(output.status.code(), Some(2), "{name}");
    }
}

#[test]
fn the_default_configuration_is_a_file() {
    let output = kyvtest(&["show-config", "--default"]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let path = scratch("default.toml");
    let run = |text: &str| {
        fs::write(&path, text).expect("a file");
        let output = kyvtest(&["run", "fixtures/run/met", "--config", &path.display().to_string()]);
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    assert_eq!(run(&text), (Some(0), String::new()));
    // Every key in it is known, and no flag that is off changes anything.
    let keys = |line: &&str| line.starts_with("# ") && line.contains(" = ") && line.ends_with(" = false");
    let flags: Vec<&str> = text
        .lines()
        .filter(keys)
        .filter_map(|line| line.strip_prefix("# "))
        .collect();
    assert!(flags.len() > 8, "{flags:?}");
    assert_eq!(
        run(&format!("[profile.default]\n{}\n", flags.join("\n"))),
        (Some(0), String::new())
    );
    let schema = kyvtest(&["schema", "config"]);
    let schema: Value = serde_json::from_slice(&schema.stdout).expect("JSON");
    let known = &schema["$defs"]["profile"]["properties"];
    for line in text
        .lines()
        .filter(|line| line.starts_with("# ") && line.contains(" = "))
    {
        let key = line[2..].split(" = ").next().unwrap_or_default();
        let own = ["filter", "timeout", "accept-divergence", "reason"].contains(&key);
        assert!(own || known.get(key).is_some(), "{key}");
    }
}

/// The data lens of a configuration reaches every command that has one; the command line still wins.
#[test]
fn the_cluster_is_the_same_for_all_commands() {
    let config = scratch("data.toml");
    fs::write(&config, "[profile.default]\ndata = \"raw\"\noutput = \"junit\"\n").expect("a file");
    let config = config.display().to_string();
    let suite = "fixtures/run/data";
    let policy = format!("{suite}/policy.yaml");
    let resources = format!("{suite}/resources.yaml");
    let commands: [&[&str]; 4] = [
        &["run", suite],
        &["cover", suite, "-o", "json"],
        &["diff", "--from", suite, "--to", suite, "--all"],
        &["eval", "--policy", &policy, "--object", &resources],
    ];
    for command in commands {
        let output = |more: &[&str]| {
            let args = [command, &NOW, more].concat();
            let output = kyvtest(&args);
            (output.status.code(), output.stdout, output.stderr)
        };
        let lens = ["--config", &config];
        let explicit = [&lens[..], &["--data", "normalised"]].concat();
        let junit = ["-o", "junit"];
        let more: &[&str] = if command[0] == "run" { &junit } else { &[] };
        assert_eq!(
            output(&lens),
            output(&[&["--data", "raw"], more].concat()),
            "{command:?}"
        );
        assert_eq!(
            output(&explicit),
            output(&[&["--data", "normalised"], more].concat()),
            "{command:?}"
        );
    }
}
