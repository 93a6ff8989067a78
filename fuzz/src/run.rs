//! The body of the target `run`: any bytes as test file, policies, resources and companions are loaded and run through
//! both lenses, and every diagnostic, report and place can be rendered.
//!
//! The input is cut at bytes `0x00`: test file, policies, resources, exceptions, values, sidecar, context. What is missing is filled
//! with something that works, so that a mutation of one part meets the others whole.

use kyvtest::{
    cel::time::Timestamp,
    diagnostic::render,
    report::{self, Dialect, Format, Level, Per, ReportInput, Run, Summary, human},
    run::{self, Settings, SuiteRun, Times},
    suite::{self, Memory, Options},
};

/// The files of the input, in order, with what stands there otherwise.
pub(crate) const FILES: [(&str, &str); 7] = [
    ("kyverno-test.yaml", TEST),
    ("policy.yaml", POLICY),
    ("resources.yaml", RESOURCES),
    ("exceptions.yaml", ""),
    ("values.yaml", VALUES),
    ("kyvtest.yaml", ""),
    ("context.yaml", CONTEXT),
];

const TEST: &str = "
apiVersion: cli.kyverno.io/v1alpha1
kind: Test
metadata: {name: fuzz}
policies: [policy.yaml]
resources: [resources.yaml]
variables: values.yaml
context: context.yaml
exceptions: [exceptions.yaml]
results:
  - {policy: p, rule: r, resources: [a, b], result: pass}
  - {policy: p, resources: [a], operation: UPDATE, result: fail}
  - {policy: v, resources: [a], operation: DELETE, result: fail}
";

const POLICY: &str = "
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p}
spec:
  rules:
    - name: r
      match: {any: [{resources: {kinds: [Pod]}}]}
      validate: {cel: {expressions: [{expression: 'object.spec.containers.size() > 0'}]}}
---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: v}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods]}]}
  validations: [{expression: 'object.spec.containers.size() > 0'}]
";

const RESOURCES: &str = "
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {team: blue}}
spec: {containers: [{name: c, image: 'r.test/i:1'}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: b}
spec: {replicas: 2, template: {spec: {containers: [{name: c, image: i}]}}}
";

const VALUES: &str = "
apiVersion: cli.kyverno.io/v1alpha1
kind: Values
namespaceSelector: [{name: default, labels: {stage: live}}]
";

const CONTEXT: &str = "
apiVersion: cli.kyverno.io/v1alpha1
kind: Context
spec: {resources: [{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: default}}]}
";

/// Checks one input.
///
/// # Panics
/// If loading, running or reporting breaks a promise.
pub(crate) fn run(data: &[u8]) {
    let mut files = Memory::default();
    let mut parts = data.split(|byte| *byte == 0);
    for (name, usual) in FILES {
        let bytes = match parts.next() {
            Some(part) if !part.is_empty() => part,
            _ => usual.as_bytes(),
        };
        files.add(name, bytes);
    }
    let options = Options::default();
    let suites = suite::load(&files, "kyverno-test.yaml", &options);
    for compat in [false, true] {
        let settings = Settings {
            now: Timestamp::parse("2026-11-16T00:00:00Z"),
            trace: true,
            ..Settings::new(compat)
        };
        let runs: Vec<_> = suites.iter().map(|suite| run::run(suite, &settings)).collect();
        for (run, suite) in runs.iter().zip(&suites) {
            for diagnostic in &run.diagnostics {
                assert!(!render::full(diagnostic, &suite.sources, false).is_empty());
                let line = render::concise(diagnostic, &suite.sources);
                assert!(!line.contains('\n'), "{line:?}");
            }
            let _ = human::suite(run, &suite.sources, LOOK, &mut human::Shown::default());
            // A suite that cannot be used decides nothing; `kyverno test` survives more.
            assert!(compat || !suite.has_errors() || run.cases.is_empty());
        }
        let pairs: Vec<_> = runs
            .iter()
            .zip(&suites)
            .map(|(run, suite)| (run, &suite.sources))
            .collect();
        let report = reports(&runs, &pairs, compat);
        for (format, text) in &report {
            // JSON may have the control characters above ASCII.
            let odd = |c: char| (c < ' ' || *format == Format::Junit && c.is_control()) && !"\n\r\t".contains(c);
            assert!(!text.contains(odd), "{format:?}: {text:?}");
        }
        // The same once more: nothing may depend on the order of a map.
        let again: Vec<_> = suites.iter().map(|suite| run::run(suite, &settings)).collect();
        let pairs: Vec<_> = again
            .iter()
            .zip(&suites)
            .map(|(run, suite)| (run, &suite.sources))
            .collect();
        assert_eq!(report, reports(&again, &pairs, compat), "the second report differs");
    }
}

/// As much as people can be shown.
const LOOK: human::HumanOptions<'_> = human::HumanOptions {
    level: Level::All,
    color: false,
    details: true,
    verbose: true,
    directories: false,
    replay: "",
};

/// The run in every format.
fn reports(runs: &[SuiteRun], pairs: &[Run<'_>], compat: bool) -> Vec<(Format, String)> {
    let view = ReportInput {
        runs: pairs,
        summary: &Summary::of(runs),
        closing: &human::summary(runs, None, ""),
        look: LOOK,
        stopped: None,
        compat,
        all_responses: true,
        detailed: true,
        fail_only: false,
        times: &Times::default(),
        junit_per: Per::Engine,
        junit_dialect: Dialect::default(),
        shard: None,
        exit: 0,
    };
    Format::ALL
        .into_iter()
        .map(|format| (format, report::render(format, &view)))
        .collect()
}
