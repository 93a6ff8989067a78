//! Runs suites: evaluates every policy on every resource, then checks every row against the results.
//!
//! Two lenses: by default a row without a result fails; [`compat`] reproduces the verdicts of `kyverno test`, including
//! vacuous ones.
//!
//! Upstream counterpart: Kyverno `cmd/cli/kubectl-kyverno/commands/test`.

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
pub use kyvtest_prove::server::{Data, Memo};
pub use lens::DataNotes;
pub(crate) use offline::given_values;
pub use plan::{Order, Plan};
pub use response::{Key, KeyParts, Response, ResponseObjects, Responses, RuleObjects};
pub use selection::{Selection, Shard};
pub use source_map::SourceMap;

#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether to judge rows as `kyverno test` does.
    pub compat: bool,
    /// The served kinds, in addition to those of suites.
    pub discovery: Discovery,
    /// The clock of expressions.
    pub now: Option<Timestamp>,
    /// Determines the requests that Kyverno evaluates; `kyverno test` evaluates all of them.
    pub config: Config,
    /// Whether evaluations are traced.
    pub trace: bool,
    /// A monotonic clock by which cases are timed. Nothing else depends on it.
    pub watch: Option<fn() -> Duration>,
    /// The engines to use; `kyverno test` has only one.
    pub engine: Engine,
    pub data: Data,
    /// The rows for which the effect of the data lens is recorded.
    pub data_notes: DataNotes,
    /// Treat objects that the API server rejects as errors.
    pub strict_resources: bool,
    /// Objects of other suites that the API server has completed.
    pub memo: Arc<Memo>,
    /// Cancels the run of a suite when set, see [`SuiteRun::interrupted`].
    pub stop: Option<&'static AtomicBool>,
    /// Additional analyses.
    pub extras: Extras,
}

/// The analyses of a run besides the results of its rows.
#[derive(Debug, Clone, Default)]
pub struct Extras {
    /// Coverage of the policies.
    pub coverage: bool,
    /// Exercised behaviours of the policies.
    pub behaviours: bool,
    /// A proof label for each policy.
    pub proofs: bool,
    /// The policies to prove equivalent, by name; native counterparts if `None`.
    pub to: Option<Arc<Loaded>>,
    /// Cancels proofs and behaviours when set.
    pub stop: Option<&'static AtomicBool>,
}

impl Settings {
    /// Whether the run was cancelled.
    fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// The settings of a lens with defaults for everything else: the kinds of Kubernetes, a bare configuration, no
    /// clock, objects as the API server completes them (as written in `kyverno test`).
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
            data_notes: DataNotes::All,
            strict_resources: false,
            memo: Arc::default(),
            stop: None,
            extras: Extras::default(),
        }
    }
}

#[derive(Debug)]
pub struct SuiteRun {
    pub path: String,
    /// The index of the document in the test file.
    pub doc: usize,
    pub name: String,
    /// The problems of the suite or its policies; spans refer to the suite's sources.
    pub diagnostics: Vec<Diagnostic>,
    pub cases: Vec<Case>,
    /// Every response of every policy.
    pub responses: Vec<Response>,
    /// The objects that rows expect.
    pub expected: Vec<ExpectedFile>,
    /// The locations of policies and resources.
    pub source_map: SourceMap,
    /// The labels of the suite: `key`, and `key=value` if there is one.
    pub tags: Vec<String>,
    /// Notes on the comparison of policies with their native counterparts, by name of the policy.
    pub notes: Vec<(String, Note)>,
    /// Coverage, if requested.
    pub coverage: Option<Coverage>,
    /// The behaviours of its policies, if requested.
    pub behaviours: Vec<PolicyAnalysis<Behaviours>>,
    /// The proofs of its policies, if requested.
    pub proofs: Vec<PolicyAnalysis<Proof>>,
    /// Whether the run was cancelled, see [`Settings::stop`]. It then has no cases, because earlier results may be
    /// wrong.
    pub interrupted: bool,
}

impl SuiteRun {
    /// Whether the suite could not be run. A readable policy that is rejected fails its rows instead, if there are any.
    pub fn is_broken(&self) -> bool {
        let breaks = |diagnostic: &Diagnostic| {
            diagnostic.severity == Severity::Error && (diagnostic.code != Code::PolicyRefused || self.cases.is_empty())
        };
        self.diagnostics.iter().any(breaks)
    }

    /// All diagnostics: the problems of the suite, and unmet expectations.
    pub fn all_diagnostics(&self) -> impl Iterator<Item = &Diagnostic> {
        let findings = self.cases.iter().flat_map(|case| &case.findings);
        self.diagnostics.iter().chain(findings)
    }

    /// The run of a path that could not be read.
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

/// One row applied to one resource, with one result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The index of the row; `None` for a case of the sidecar.
    pub row: Option<usize>,
    /// The name of the case in the sidecar.
    pub name: Option<String>,
    /// The policy in the row.
    pub policy: String,
    /// The rule with the result, or the one in the row.
    pub rule: Option<String>,
    pub resource: Key,
    pub operation: Operation,
    /// The expected result; empty if a case of the sidecar has none.
    pub expected: &'static str,
    pub outcome: Outcome,
    /// A short explanation of the outcome.
    pub reason: String,
    pub kyverno: Option<CaseVerdict>,
    /// The verdict of the policy's native counterpart.
    pub vap: Option<Arc<NativeCaseVerdict>>,
    /// The divergence between the two.
    pub divergence: Option<Arc<Divergence>>,
    /// The divergence that the suite accepts, see [`expect::settle`].
    pub expected_divergence: Option<Box<ExpectedDivergence>>,
    /// The configuration's reason to accept the divergence, see [`Case::accept`].
    pub accepted: Option<String>,
    /// The evaluation time on both sides, if measured.
    pub elapsed: Option<Duration>,
    /// The evaluation traces, if enabled.
    pub trace: CaseTrace,
    /// A sentence on the effect of the data lens; `None` if it has none.
    pub data: Option<String>,
    /// Whether a mock replaced an image registry.
    pub mocked: bool,
    /// The location of the expectation.
    pub place: Option<Span>,
    /// Unmet expectations.
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

    /// `policy/rule  Kind namespace/name [OPERATION]`, with `(mocked)` if a mock replaced an image registry.
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

/// The evaluation traces of a case, as human-readable lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CaseTrace {
    pub kyverno: Vec<String>,
    pub vap: Vec<String>,
}

/// The verdict of a native policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeCaseVerdict {
    pub answer: CaseVerdict,
    pub policy: String,
    pub binding: String,
}

/// The verdict of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseVerdict {
    pub status: Status,
    pub effect: Effect,
    pub message: String,
}

/// The outcome of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The result is as expected.
    Pass,
    /// The result differs from the expected one.
    Fail,
    /// The policy could not be evaluated.
    Error,
    /// Only an image registry can decide, and no mock states its answer.
    NeedsRegistry,
    /// No release of Kyverno's command line evaluates the rule, or there is no policy for the chosen engine.
    Unsupported,
    /// No policy or rule produced a result for the row.
    Unmatched,
    /// `kyverno test` skips the row.
    Skip,
    /// `kyverno test` prints nothing for the row.
    Silent,
}

impl Outcome {
    /// Whether the case fails a run.
    pub fn fails(self) -> bool {
        matches!(self, Outcome::Fail | Outcome::Error | Outcome::Unmatched)
    }

    /// Whether the case neither passes nor fails because it was not decided.
    pub fn is_undecided(self) -> bool {
        matches!(self, Outcome::NeedsRegistry | Outcome::Unsupported)
    }

    /// The name in the default lens.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Pass => "pass",
            Outcome::Fail => "fail",
            Outcome::Error => "error",
            Outcome::NeedsRegistry => "needs-registry",
            Outcome::Unsupported => "unsupported",
            Outcome::Unmatched => "unmatched",
            Outcome::Skip => "skip",
            Outcome::Silent => "",
        }
    }

    /// The name that `kyverno test` prints.
    pub fn printed(self) -> &'static str {
        match self {
            Outcome::Pass => "Pass",
            Outcome::Skip => "Skip",
            Outcome::Silent => "",
            Outcome::NeedsRegistry => "Needs registry",
            Outcome::Unsupported => "Unsupported",
            Outcome::Fail | Outcome::Error | Outcome::Unmatched => "Fail",
        }
    }
}

pub fn run(suite: &Suite, settings: &Settings) -> SuiteRun {
    judge(suite, settings, evaluate(suite, settings, None))
}

/// The results of a suite before its rows are checked.
struct Evaluated {
    diagnostics: Vec<Diagnostic>,
    /// `None` if the suite cannot be run.
    responses: Option<Responses>,
}

/// Evaluates the policies of a suite, on all or some of its resources.
fn evaluate(suite: &Suite, settings: &Settings, only: Option<BTreeSet<Key>>) -> Evaluated {
    let mut diagnostics = suite.diagnostics.clone();
    if settings.compat {
        compat::reconsider(suite, &mut diagnostics);
    }
    // Kyverno's own rules decide which errors end a suite; ours are stricter, so only a usable suite is run.
    let usable = diagnostics
        .iter()
        .all(|diagnostic| diagnostic.severity != Severity::Error);
    let skipped = settings.compat && suite.upstream == Upstream::Skips;
    let runs = suite.test.is_some() && usable && !skipped;
    let responses = runs.then(|| evaluate::evaluate(suite, settings, only));
    diagnostics.extend(
        responses
            .iter()
            .flat_map(|responses| responses.diagnostics.iter().cloned()),
    );
    Evaluated { diagnostics, responses }
}

/// Checks the rows of an evaluated suite. The objects of its resources are not read any more.
fn judge(suite: &Suite, settings: &Settings, evaluated: Evaluated) -> SuiteRun {
    let Evaluated {
        mut diagnostics,
        responses,
    } = evaluated;
    let mut cases = Vec::new();
    if let Some(responses) = &responses {
        cases = if settings.compat && responses.aborts {
            // `kyverno test` ends here and prints no line.
            Vec::new()
        } else if settings.compat {
            compat::judge(suite, responses, settings)
        } else {
            strict::judge(suite, responses, settings)
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
            diagnostics.extend(strict::unfitting_kinds(suite, responses));
        }
    }
    let responses = responses.unwrap_or_default();
    SuiteRun {
        path: suite.path.clone(),
        doc: suite.document,
        name: suite.name().to_owned(),
        diagnostics,
        cases,
        responses: responses.list,
        expected: responses.expected,
        source_map: SourceMap::of(suite, &responses.resources),
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
