//! The binary as users see it: exit code, standard output and standard error of whole command lines.

use std::{
    fs::File,
    io::Read as _,
    path::Path,
    process::{Command, Stdio},
};

use crate::program::{command, kyvtest, shown};

macro_rules! snapshot {
    ($name:literal, $($arg:literal),*) => {
        insta::assert_snapshot!($name, shown(&kyvtest(&[$($arg),*])));
    };
}

#[test]
fn help_and_version() {
    snapshot!("help", "--help");
    snapshot!("help-short", "-h");
    snapshot!("help-cel", "cel", "--help");
    snapshot!("help-explain", "explain", "--help");
    snapshot!("help-completions", "completions", "--help");
    snapshot!("help-man", "man", "--help");
    let version = kyvtest(&["--version"]);
    assert_eq!(
        String::from_utf8_lossy(&version.stdout),
        concat!("kyvtest ", env!("CARGO_PKG_VERSION"), "\n")
    );
    assert_eq!(version.status.code(), Some(0));
}

#[test]
fn cel_evaluates_expressions() {
    let all = "object.spec.containers.all(c, c.image.startsWith('reg/'))";
    let pod = "fixtures/cel/cli/pod.yaml";
    snapshot!(
        "cel-value",
        "cel",
        "object.spec.containers.all(c, c.image.startsWith('reg/'))",
        "--object",
        "fixtures/cel/cli/pod.yaml",
        "--cost"
    );
    snapshot!(
        "cel-failed",
        "cel",
        "object.spec.containers.all(c, c.imag.startsWith('reg/'))",
        "--object",
        "fixtures/cel/cli/pod.yaml",
        "--cost"
    );
    snapshot!(
        "cel-variables",
        "cel",
        "variables.names.join(', ')",
        "--var",
        "names=object.spec.containers.map(c, c.name)",
        "--object",
        "fixtures/cel/cli/pod.yaml"
    );
    snapshot!(
        "cel-authorizer",
        "cel",
        "authorizer.group('apps').resource('deployments').check('create').allowed()",
        "--authorizer",
        "fixtures/cel/cli/authorizer.yaml",
        "--cost"
    );
    snapshot!(
        "cel-kyverno",
        "cel",
        "image('nginx').registry()",
        "--profile",
        "kyverno-1.19",
        "--format",
        "json"
    );
    let json = kyvtest(&["cel", all, "--object", pod, "--format", "json"]);
    let answer: serde_json::Value =
        serde_json::from_slice(&json.stdout).expect("standard output is the artefact alone");
    assert_eq!(answer["value"], "false");
}

#[test]
fn cel_refusals() {
    snapshot!("cel-syntax", "cel", "object.spec +");
    snapshot!("cel-type", "cel", "1 + 'a' == object.x\n  && undeclared");
    snapshot!("cel-program", "cel", "int('abc')");
    snapshot!(
        "cel-cost-limit",
        "cel",
        "lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))"
    );
    snapshot!("cel-profile", "cel", "1", "--profile", "k8s-1.63");
    snapshot!("cel-no-file", "cel", "1", "--object", "fixtures/cel/cli/absent.yaml");
    snapshot!("cel-bad-yaml", "cel", "1", "--object", "fixtures/cel/cli/bad.yaml");
    snapshot!("cel-bad-rules", "cel", "1", "--authorizer", "fixtures/cel/cli/pod.yaml");
    snapshot!("cel-bad-variable", "cel", "1", "--var", "names");
    snapshot!("cel-bad-lines", "cel", "--jsonl", "fixtures/cel/cli/lines.jsonl");
}

#[test]
fn prove() {
    snapshot!("help-prove", "prove", "--help");
    snapshot!("prove-proven", "prove", "fixtures/prove/proven.yaml", "--explain");
    snapshot!("prove-refuted", "prove", "fixtures/prove/refuted.yaml");
    snapshot!(
        "prove-refuted-json",
        "prove",
        "fixtures/prove/refuted.yaml",
        "--now",
        "2026-11-16T00:00:00Z",
        "--format",
        "json"
    );
    snapshot!(
        "prove-refuted-markdown",
        "prove",
        "fixtures/prove/refuted.yaml",
        "--format",
        "markdown"
    );
    snapshot!("prove-not-convertible", "prove", "fixtures/prove/not-convertible.yaml");
    snapshot!("prove-unknown", "prove", "fixtures/prove/unknown.yaml");
    snapshot!(
        "prove-required",
        "prove",
        "fixtures/prove/unknown.yaml",
        "--require",
        "proven"
    );
    snapshot!("prove-nothing", "prove", "fixtures/cel/cli/pod.yaml");
}

#[test]
fn convert() {
    snapshot!("help-convert", "convert", "--help");
    snapshot!("convert", "convert", "fixtures/convert/pods.yaml");
    snapshot!("convert-explain", "convert", "fixtures/convert/pods.yaml", "--explain");
    snapshot!(
        "convert-json",
        "convert",
        "fixtures/convert/pods.yaml",
        "--format",
        "json"
    );
    snapshot!(
        "convert-exception",
        "convert",
        "fixtures/convert/deployments.yaml",
        "--exception",
        "fixtures/convert/exceptions.yaml",
        "--explain"
    );
    snapshot!("convert-force", "convert", "fixtures/convert/refused.yaml", "--force");
    snapshot!(
        "convert-webhooks",
        "convert",
        "fixtures/convert/webhooks.yaml",
        "--webhooks"
    );
}

#[test]
fn convert_repair() {
    snapshot!(
        "convert-repair",
        "convert",
        "fixtures/prove/repair/exclude-namespaces.yaml",
        "--repair"
    );
    snapshot!("prove-mutation-proven", "prove", "fixtures/prove/mutation/proven.yaml");
    snapshot!(
        "prove-mutation-refuted",
        "prove",
        "fixtures/prove/mutation/selector.yaml"
    );
    snapshot!("prove-mutation-tested", "prove", "fixtures/prove/mutation/tested.yaml");
    snapshot!(
        "convert-repair-mutation",
        "convert",
        "fixtures/prove/mutation/selector.yaml",
        "--repair"
    );
    snapshot!(
        "convert-webhooks-mutation",
        "convert",
        "fixtures/prove/mutation/selector.yaml",
        "suites/mutation/policies.yaml",
        "--webhooks"
    );
    snapshot!(
        "convert-repair-json",
        "convert",
        "fixtures/prove/repair/exclude-namespaces.yaml",
        "--repair",
        "--format",
        "json"
    );
    snapshot!(
        "convert-repair-explain",
        "convert",
        "fixtures/prove/repair/all-kinds.yaml",
        "--repair",
        "--explain"
    );
    snapshot!(
        "convert-repair-refused",
        "convert",
        "fixtures/prove/repair/request-namespace.yaml",
        "--repair"
    );
    snapshot!(
        "convert-repair-refused-explain",
        "convert",
        "fixtures/prove/repair/request-namespace.yaml",
        "--repair",
        "--explain"
    );
}

#[test]
fn convert_refusals() {
    snapshot!("convert-refused", "convert", "fixtures/convert/refused.yaml");
    snapshot!(
        "convert-refused-json",
        "convert",
        "fixtures/convert/refused.yaml",
        "--format",
        "json"
    );
    snapshot!(
        "convert-refused-explain",
        "convert",
        "fixtures/convert/refused.yaml",
        "--explain"
    );
    snapshot!("convert-bad", "convert", "fixtures/convert/bad.yaml");
    snapshot!("convert-no-file", "convert", "fixtures/convert/absent.yaml");
    snapshot!("convert-nothing", "convert", "fixtures/convert/exceptions.yaml");
    snapshot!(
        "convert-bad-exception",
        "convert",
        "fixtures/convert/pods.yaml",
        "--exception",
        "fixtures/convert/bad.yaml"
    );
}

#[test]
fn wrong_command_lines() {
    snapshot!("nothing",);
    snapshot!("unknown-command", "explian");
    snapshot!("unknown-option", "explain", "--colour");
    snapshot!("bad-color", "--color", "pink", "man");
    snapshot!("unknown-shell", "completions", "cmd");
    snapshot!("unknown-option-colored", "--color=always", "--nonsense");
}

#[test]
fn explain() {
    snapshot!("explain-one", "explain", "KT002");
    snapshot!("explain-two", "explain", "kt021", "kt010");
    snapshot!("explain-list", "explain");
    snapshot!("explain-list-colored", "explain", "--color", "always");
    snapshot!("explain-near", "explain", "KT01");
    snapshot!("explain-unknown", "explain", "banana", "KT001", "E0308");
    snapshot!("explain-unknown-colored", "--color", "always", "explain", "KT0021");
}

#[test]
fn every_code_is_explained() {
    for code in kyvtest::diagnostic::Code::ALL {
        let output = kyvtest(&["explain", code.id()]);
        assert_eq!(output.status.code(), Some(0), "{code}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), code.explanation());
        assert!(output.stderr.is_empty(), "{code}");
    }
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = kyvtest(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        assert!(output.stderr.is_empty(), "{shell}");
        let script = String::from_utf8(output.stdout).expect("text");
        for word in ["explain", "completions", "man", "color"] {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
}

#[test]
fn manual_pages() {
    snapshot!("man-unknown", "man", "nonsense");
    let page = kyvtest(&["man"]);
    let text = String::from_utf8(page.stdout).expect("text");
    assert!(text.contains(".TH kyvtest 1"), "{text}");
    assert!(text.contains("Exit codes"), "{text}");
    let page = kyvtest(&["man", "explain"]);
    let text = String::from_utf8(page.stdout).expect("text");
    assert!(text.contains("kyvtest\\-explain"), "{text}");
}

#[test]
fn colour_follows_flag_and_environment() {
    let colored = |args: &[&str], env: &[(&str, &str)]| {
        let output = command(args)
            .envs(env.iter().copied())
            .output()
            .expect("the binary starts");
        (output.stdout.contains(&0x1b), output.stderr.contains(&0x1b))
    };
    assert_eq!(colored(&["explain"], &[]), (false, false));
    assert_eq!(colored(&["explain"], &[("CI", "true")]), (false, false));
    assert_eq!(colored(&["explain"], &[("CLICOLOR_FORCE", "1")]), (true, false));
    assert_eq!(
        colored(&["explain"], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]),
        (false, false)
    );
    assert_eq!(
        colored(&["explain", "--color=always"], &[("NO_COLOR", "1")]),
        (true, false)
    );
    assert_eq!(
        colored(&["explain", "x", "--color=always"], &[("TERM", "dumb")]),
        (false, true)
    );
    assert_eq!(
        colored(&["explain", "x", "--color=never"], &[("CLICOLOR_FORCE", "1")]),
        (false, false)
    );
    // An artefact never has colour.
    assert_eq!(colored(&["explain", "KT001", "--color=always"], &[]), (false, false));
    assert_eq!(colored(&["completions", "bash", "--color=always"], &[]), (false, false));
    assert_eq!(colored(&["--help", "--color=always"], &[]), (true, false));
}

/// `kyvtest eval` on files of `fixtures/eval`.
fn eval(args: &str) -> String {
    let args: Vec<String> = args
        .split_whitespace()
        .map(|word| word.replace('@', "fixtures/eval/"))
        .collect();
    let mut words = vec!["eval"];
    words.extend(args.iter().map(String::as_str));
    shown(&kyvtest(&words))
}

#[test]
fn eval_asks_both_engines() {
    insta::assert_snapshot!("eval-equal", eval("--policy @policy.yaml --object @pod.yaml"));
    insta::assert_snapshot!("eval-weaker", eval("--policy @policy.yaml --object @deployment.yaml"));
    insta::assert_snapshot!(
        "eval-json",
        eval("-p @policy.yaml --object @deployment.yaml --format json --now 2026-11-16T00:00:00Z")
    );
    insta::assert_snapshot!("eval-review", eval("-p @policy.yaml @review.json"));
    insta::assert_snapshot!(
        "eval-native",
        eval("-p @native.yaml --object @pod.yaml --namespace-labels stage=test --user ada --group till")
    );
    insta::assert_snapshot!(
        "eval-delete",
        eval("-p @policy.yaml --object @pod.yaml --operation delete")
    );
    insta::assert_snapshot!("eval-cases", eval("--cases @cases.jsonl"));
}

#[test]
fn eval_explains_bad_input() {
    for (name, args) in [
        ("invalid-native", "-p @invalid.yaml --object @pod.yaml"),
        ("cyclic-variables", "-p @cyclic.yaml --object @pod.yaml"),
        (
            "dangling-binding",
            "-p @native.yaml -p @dangling-binding.yaml --object @pod.yaml --namespace-labels stage=live",
        ),
        ("unknown-params", "-p @unknown-params.yaml --object @pod.yaml"),
        (
            "dangling-exception",
            "-p @policy.yaml -p @dangling-exception.yaml --object @pod.yaml",
        ),
        ("without-object", "-p @policy.yaml @without-object.json"),
        ("without-request", "-p @policy.yaml"),
        (
            "bad-labels",
            "-p @policy.yaml --object @pod.yaml --namespace-labels stage",
        ),
        ("missing-file", "-p @nowhere.yaml --object @pod.yaml"),
    ] {
        let text = eval(args);
        assert!(text.starts_with("exit code: 2\n"), "{text}");
        insta::assert_snapshot!(format!("eval-bad-{name}"), text);
    }
}

#[test]
fn diff_names_what_two_suites_overlook() {
    snapshot!("diff-suites", "run", "examples/seccomp", "--now=2026-11-16T00:00:00Z");
    snapshot!(
        "diff-weaker",
        "diff",
        "--from",
        "examples/seccomp/before",
        "--to",
        "examples/seccomp/after"
    );
    snapshot!(
        "diff-json",
        "diff",
        "--from",
        "examples/seccomp/before",
        "--to",
        "examples/seccomp/after",
        "--now",
        "2026-11-16T00:00:00Z",
        "--format",
        "json"
    );
    snapshot!(
        "diff-native",
        "diff",
        "--from",
        "fixtures/eval/policy.yaml",
        "--to",
        "fixtures/diff/native.yaml",
        "--resources",
        "fixtures/eval/pod.yaml",
        "fixtures/eval/deployment.yaml",
        "--pair",
        "no-host-network=host-network",
        "--all"
    );
    snapshot!(
        "diff-without-partners",
        "diff",
        "--from",
        "fixtures/eval/policy.yaml",
        "--to",
        "fixtures/diff/native.yaml"
    );
    snapshot!(
        "diff-bad-pair",
        "diff",
        "--from",
        "fixtures/eval/policy.yaml",
        "--to",
        "fixtures/diff/native.yaml",
        "--pair",
        "one"
    );
}

#[test]
fn a_closed_pipe_is_quiet_success() {
    for args in [
        &["completions", "zsh"][..],
        &["man"],
        &["--help"],
        &["explain"],
        &["explain", "KT001"],
    ] {
        let mut child = command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        drop(child.stdout.take());
        let mut stderr = String::new();
        child
            .stderr
            .take()
            .expect("a pipe")
            .read_to_string(&mut stderr)
            .expect("text");
        // The result is the same whether the write comes before or after the pipe is closed.
        assert_eq!(
            (child.wait().expect("it ends").code(), stderr.as_str()),
            (Some(0), ""),
            "{args:?}"
        );
    }
}

#[test]
fn a_full_disk_is_reported() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let full = File::options().write(true).open("/dev/full").expect("it opens");
    let output = command(&["explain", "KT001"])
        .stdout(full)
        .output()
        .expect("the binary starts");
    insta::assert_snapshot!("full-disk", shown(&output));
}

/// `docs/cli.md` is what `kyvtest man --markdown` prints.
#[test]
fn the_reference_is_current() {
    let output = Command::new(env!("CARGO_BIN_EXE_kyvtest"))
        .args(["man", "--markdown"])
        .output()
        .expect("the program runs");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let written = std::fs::read_to_string("docs/cli.md").unwrap_or_default();
    assert!(
        written == printed,
        "docs/cli.md is not current; write it anew: kyvtest man --markdown > docs/cli.md"
    );
}
