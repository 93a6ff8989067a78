//! Runs suites: every resource through every policy, then every row against the answers.
//!
//! Two lenses. In the default one a row that nothing satisfies is a failure; [`compat`] gives the verdicts that
//! `kyverno test` prints, vacuous ones included. Upstream counterpart: Kyverno `cmd/cli/kubectl-kyverno/commands/test`.

pub mod analysis;
mod authorization;
mod check;
mod cluster;
pub mod compat;
mod counterpart;
pub mod coverage;
pub mod diff;
mod edit;
mod engine;
mod engines;
mod evaluate;
pub mod execute;
pub mod expect;
pub mod filter;
pub mod lens;
mod native_mutation;
pub mod objects;
mod offline;
pub mod overrides;
mod payloads;
mod plan;
mod requests;
mod response;
mod schedule;
mod selection;
pub mod selector;
pub mod source_map;
pub mod strict;
mod values;

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::suite::{ExpectedDivergence, ExpectedFile, Suite, Upstream};
use kyvtest_cel::time::Timestamp;
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Severity, Span};
use kyvtest_kyverno::config::Config;
use kyvtest_model::{
    kube::{Discovery, Operation},
    policy::Loaded,
    verdict::{Effect, Status},
};
use kyvtest_prove::behaviour::Behaviours;

pub use analysis::{PolicyAnalysis, Proof};
pub use check::CheckId;
pub use counterpart::Counterpart;
pub use coverage::Coverage;
pub use engine::Engine;
pub use execute::{Clock, Event, Executed, Execution, FinishedSuite, Sink, Stop, Times, execute};
pub use kyvtest_model::{compare::Divergence, verdict::DivergenceClass};
pub use kyvtest_prove::pair::Note;
pub use kyvtest_prove::server::Data;
pub use plan::{Order, Plan};
pub use response::{Key, KeyParts, Response, ResponseObjects, Responses, RuleObjects};
pub use selection::{Selection, Shard};
pub use source_map::SourceMap;

/// How suites are run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether rows are judged as `kyverno test` judges them.
    pub compat: bool,
    /// What the cluster serves, besides what suites bring.
    pub discovery: Discovery,
    /// The clock of expressions that ask for it.
    pub now: Option<Timestamp>,
    /// Which requests Kyverno judges; `kyverno test` judges all of them.
    pub config: Config,
    /// Whether evaluations are traced.
    pub trace: bool,
    /// The watch by which cases are timed: a time that only grows. Nothing else depends on it.
    pub watch: Option<fn() -> Duration>,
    /// Which engines evaluate the policies; `kyverno test` has one only.
    pub engine: Engine,
    /// Which objects policies see.
    pub data: Data,
    /// Treat objects that the API server refuses as errors.
    pub strict_resources: bool,
    /// Cancels the run of a suite when set, see [`SuiteRun::interrupted`].
    pub stop: Option<&'static AtomicBool>,
    /// What else is analysed.
    pub extras: Extras,
}

/// What a run may analyse besides the results of its rows.
#[derive(Debug, Clone, Default)]
pub struct Extras {
    /// What the suites try of their policies.
    pub coverage: bool,
    /// Which behaviours of their policies they exercise.
    pub behaviours: bool,
    /// The label of a proof for each policy.
    pub proofs: bool,
    /// The policies that proofs compare those of the suites with, by name; their native counterparts if there are none.
    pub to: Option<Arc<Loaded>>,
    /// Cancels proofs and behaviours when set.
    pub stop: Option<&'static AtomicBool>,
}

impl Settings {
    /// Whether the run was cancelled.
    fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// A lens with everything else as a cluster has it: what Kubernetes serves, a bare configuration, no clock, objects as
    /// the API server makes them. `kyverno test` evaluates them as written.
    pub fn new(compat: bool) -> Self {
        Self {
            compat,
            discovery: Discovery::kubernetes(),
            now: None,
            config: Config::bare(),
            trace: false,
            watch: None,
            engine: Engine::Both,
            data: if compat { Data::Raw } else { Data::Normalised },
            strict_resources: false,
            stop: None,
            extras: Extras::default(),
        }
    }
}

/// What became of a suite.
#[derive(Debug)]
pub struct SuiteRun {
    /// The test file.
    pub path: String,
    /// The document's number in it.
    pub doc: usize,
    /// The suite's name.
    pub name: String,
    /// The problems of the suite or its policies; places refer to the suite's sources.
    pub diagnostics: Vec<Diagnostic>,
    /// What became of the rows.
    pub cases: Vec<Case>,
    /// Every answer of every policy.
    pub responses: Vec<Response>,
    /// The objects that rows expect.
    pub expected: Vec<ExpectedFile>,
    /// Where policies and resources stand.
    pub source_map: SourceMap,
    /// The labels of the suite: `key`, and `key=value` if there is one.
    pub tags: Vec<String>,
    /// Notes on the comparison of policies with their native counterparts, by name of the policy.
    pub notes: Vec<(String, Note)>,
    /// Which parts of its policies the suite exercises, if requested.
    pub coverage: Option<Coverage>,
    /// The behaviours of its policies, if requested.
    pub behaviours: Vec<PolicyAnalysis<Behaviours>>,
    /// What is proven of its policies, if requested.
    pub proofs: Vec<PolicyAnalysis<Proof>>,
    /// Whether the run was cancelled, see [`Settings::stop`]. It has no cases then: what was decided until then may be wrong.
    pub interrupted: bool,
}

impl SuiteRun {
    /// Whether the suite could not be run. A policy that can be read and is refused fails its rows instead, if there are
    /// any.
    pub fn is_broken(&self) -> bool {
        let breaks = |diagnostic: &Diagnostic| {
            diagnostic.severity == Severity::Error && (diagnostic.code != Code::PolicyRefused || self.cases.is_empty())
        };
        self.diagnostics.iter().any(breaks)
    }

    /// Everything that there is to tell: the problems of the suite, and which expectations are not met.
    pub fn all_diagnostics(&self) -> impl Iterator<Item = &Diagnostic> {
        let findings = self.cases.iter().flat_map(|case| &case.findings);
        self.diagnostics.iter().chain(findings)
    }

    /// A run of what could not even be found: the path, and why.
    pub fn unusable(path: &str, diagnostic: Diagnostic) -> Self {
        Self {
            path: path.to_owned(),
            doc: 0,
            name: path.to_owned(),
            diagnostics: vec![diagnostic],
            cases: Vec::new(),
            responses: Vec::new(),
            expected: Vec::new(),
            source_map: SourceMap::default(),
            tags: Vec::new(),
            notes: Vec::new(),
            coverage: None,
            behaviours: Vec::new(),
            proofs: Vec::new(),
            interrupted: false,
        }
    }
}

/// One row on one resource, with one answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The row, from 0; `None` for a case of the sidecar.
    pub row: Option<usize>,
    /// What the case is called in the sidecar.
    pub name: Option<String>,
    /// The policy that the row names.
    pub policy: String,
    /// The rule that answered, or the one that the row names.
    pub rule: Option<String>,
    pub resource: Key,
    pub operation: Operation,
    /// The result that the row expects; empty if a case of the sidecar expects none.
    pub expected: &'static str,
    /// What came of it.
    pub outcome: Outcome,
    /// Why, in a few words.
    pub reason: String,
    /// What Kyverno answers.
    pub kyverno: Option<CaseVerdict>,
    /// The answer of the policy's native counterpart.
    pub vap: Option<NativeCaseVerdict>,
    /// How the two differ.
    pub divergence: Option<Divergence>,
    /// The difference that the suite accepts, see [`expect::settle`].
    pub expected_divergence: Option<ExpectedDivergence>,
    /// Why the configuration accepts the difference, see [`Case::accept`].
    pub accepted: Option<String>,
    /// How long it took to decide it on both sides, where that was measured.
    pub elapsed: Option<Duration>,
    /// How the engines came to their verdicts, if the run is traced.
    pub trace: CaseTrace,
    /// How the data lens matters to the case: a sentence; `None` if it does not.
    pub data: Option<String>,
    /// Whether a mock answered in place of a registry of images.
    pub mocked: bool,
    /// Where the expectation stands.
    pub place: Option<Span>,
    /// Which expectations are not met, and why.
    pub findings: Vec<Diagnostic>,
}

impl Case {
    /// `Kind namespace/name [OPERATION]`
    pub fn subject(&self) -> String {
        let key = &self.resource;
        let mut text = String::new();
        if !key.kind.is_empty() {
            let _ = write!(text, "{} ", key.kind);
        }
        if !key.namespace.is_empty() {
            let _ = write!(text, "{}/", key.namespace);
        }
        let _ = write!(text, "{} [{}]", key.name, self.operation);
        text
    }

    /// `policy/rule  Kind namespace/name [OPERATION]`, with `(mocked)` if a mock answered in place of a registry.
    pub fn title(&self) -> String {
        let mut text = self.policy.clone();
        if let Some(rule) = self.rule.as_deref().filter(|rule| !rule.is_empty()) {
            let _ = write!(text, "/{rule}");
        }
        let gap = if self.resource.kind.is_empty() { " " } else { "  " };
        let _ = write!(text, "{gap}{}", self.subject());
        if self.mocked {
            text.push_str(" (mocked)");
        }
        text
    }
}

/// How the engines came to their verdicts on a case, in lines for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CaseTrace {
    /// Of Kyverno's engine.
    pub kyverno: Vec<String>,
    /// Of the API server's.
    pub vap: Vec<String>,
}

/// What a native policy answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeCaseVerdict {
    pub answer: CaseVerdict,
    /// The policy's name.
    pub policy: String,
    /// The binding's name.
    pub binding: String,
}

/// What an engine answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseVerdict {
    pub status: Status,
    pub effect: Effect,
    /// The text.
    pub message: String,
}

/// What came of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// As expected.
    Pass,
    /// Otherwise than expected.
    Fail,
    /// The policy could not be asked.
    Error,
    /// The policy or rule is of a type that is not decided.
    Unsupported,
    /// Nothing answered.
    Unmatched,
    /// `kyverno test` skips the row.
    Skip,
    /// `kyverno test` prints nothing for the row.
    Silent,
}

impl Outcome {
    /// Whether the case lets a run fail.
    pub fn fails(self) -> bool {
        matches!(self, Outcome::Fail | Outcome::Error | Outcome::Unmatched)
    }

    /// The word of the default lens.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Pass => "pass",
            Outcome::Fail => "fail",
            Outcome::Error => "error",
            Outcome::Unsupported => "unsupported",
            Outcome::Unmatched => "unmatched",
            Outcome::Skip => "skip",
            Outcome::Silent => "",
        }
    }

    /// The word that `kyverno test` prints.
    pub fn printed(self) -> &'static str {
        match self {
            Outcome::Pass => "Pass",
            Outcome::Skip => "Skip",
            Outcome::Silent => "",
            Outcome::Unsupported => "Unsupported",
            Outcome::Fail | Outcome::Error | Outcome::Unmatched => "Fail",
        }
    }
}

pub fn run(suite: &Suite, settings: &Settings) -> SuiteRun {
    run_on(suite, settings, None)
}

/// Runs one suite, on some of its resources if not on all.
fn run_on(suite: &Suite, settings: &Settings, only: Option<BTreeSet<Key>>) -> SuiteRun {
    let mut diagnostics = suite.diagnostics.clone();
    let mut cases = Vec::new();
    let mut responses = Responses::default();
    if settings.compat {
        compat::reconsider(suite, &mut diagnostics);
    }
    // Kyverno's own rules say which mistakes of a suite end it; ours are stricter, so only a usable suite is run.
    let usable = diagnostics
        .iter()
        .all(|diagnostic| diagnostic.severity != Severity::Error);
    let skipped = settings.compat && suite.upstream == Upstream::Skips;
    if suite.test.is_some() && usable && !skipped {
        responses = evaluate::evaluate(suite, settings, only);
        diagnostics.extend(responses.diagnostics.iter().cloned());
        cases = if settings.compat && responses.aborts {
            // `kyverno test` ends here and prints no line.
            Vec::new()
        } else if settings.compat {
            compat::judge(suite, &responses, settings)
        } else {
            strict::judge(suite, &responses, settings)
        };
        if settings.engine == Engine::Native && !settings.compat {
            engine::judge_native(&mut cases);
        }
        if settings.is_stopped() {
            cases.clear();
        }
        if settings.compat {
            diagnostics.extend(compat::vacuous(suite, &cases));
        } else {
            diagnostics.extend(strict::unfitting_kinds(suite, &responses));
        }
    }
    SuiteRun {
        path: suite.path.clone(),
        doc: suite.document,
        name: suite.name().to_owned(),
        diagnostics,
        cases,
        responses: responses.list,
        expected: responses.expected,
        source_map: SourceMap::of(suite),
        tags: tags(suite),
        notes: responses.notes,
        coverage: responses.coverage,
        behaviours: responses.behaviours,
        proofs: responses.proofs,
        interrupted: settings.is_stopped(),
    }
}

/// The labels of a suite, by which it can be selected.
pub fn tags(suite: &Suite) -> Vec<String> {
    let labels = suite.test.iter().flat_map(|test| &test.metadata.labels);
    labels
        .flat_map(|(key, value)| {
            let pair = (!value.value.is_empty()).then(|| format!("{}={}", key.value, value.value));
            [key.value.clone()].into_iter().chain(pair)
        })
        .collect()
}
