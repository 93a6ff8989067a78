//! Executes a plan: loads and runs its test files on several threads and passes the results to a sink, in the order of
//! the plan.
//!
//! The events depend only on the input: neither on the number of threads, nor on the order in which they finish.

use std::{
    collections::BTreeSet,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use super::{
    Case, Order, Plan, Selection, Settings, SuiteRun, evaluate, expect, judge, overrides::Overrides, plan::PlannedFile,
    schedule, tags,
};
use crate::suite::{self, Dependencies, Disk, Files, Options, RecordingFiles, Suite};
use kyvtest_cel::time::Timestamp;
use kyvtest_go_compat::diagnostic::Sources;

/// The settings of an execution.
#[derive(Clone, Copy)]
pub struct Execution<'e> {
    pub settings: &'e Settings,
    /// The loading options.
    pub options: &'e Options<'e>,
    pub selection: &'e Selection,
    /// The configuration's overrides for single cases.
    pub overrides: &'e Overrides,
    pub clock: &'e Clock,
    pub threads: usize,
    pub order: Order,
    /// Record the files that suites depend on.
    pub record_files: bool,
}

/// An event of a run.
pub enum Event<'e> {
    /// The run begins; the number of test files.
    Started(usize),
    /// A suite has been run.
    Suite(&'e FinishedSuite),
    /// All suites of a test file have been run; the number of problems so far.
    File(usize),
}

/// Receives the events of a run, one at a time.
pub trait Sink {
    fn event(&mut self, event: &Event<'_>);
}

impl<F: FnMut(&Event<'_>)> Sink for F {
    fn event(&mut self, event: &Event<'_>) {
        self(event);
    }
}

/// A suite's run, with the sources of its diagnostics.
#[derive(Debug)]
pub struct FinishedSuite {
    pub run: SuiteRun,
    pub sources: Sources,
    /// The files and directories that it depends on, if recorded.
    pub dependencies: Dependencies,
    elapsed: Duration,
}

/// The start and duration of a run.
#[derive(Debug, Clone, Default)]
pub struct Times {
    /// Seconds since 1970 and nanoseconds.
    pub begin: (i64, u32),
    /// The total duration.
    pub elapsed: Duration,
    /// The duration of each suite, in the order of the runs.
    pub suites: Vec<Duration>,
    /// The time that expressions see, in RFC 3339: `--now`, or the start of the run.
    pub now: String,
}

/// The reason for an early end, and the number of test files not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The run was cancelled.
    Interrupted(usize),
    /// The limit of problems was reached.
    MaxFail(usize),
}

impl Stop {
    /// The name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Interrupted(_) => "interrupted",
            Self::MaxFail(_) => "max-fail",
        }
    }
}

/// The result of an execution.
#[derive(Debug)]
pub struct Executed {
    /// The runs, sorted by path and document.
    pub runs: Vec<FinishedSuite>,
    /// The number of test files before selection.
    pub found: usize,
    /// The selected test files, run or not.
    pub selected: BTreeSet<String>,
    /// The reason for an early end.
    pub stopped: Option<Stop>,
    pub times: Times,
    /// The duration of the run; `None` if the clock is pinned.
    pub elapsed: Option<Duration>,
}

/// Runs the files of a plan.
pub fn execute(plan: &Plan, execution: Execution<'_>, sink: &mut dyn Sink) -> Executed {
    let Execution {
        settings,
        selection,
        clock,
        ..
    } = execution;
    let cancelled = || settings.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
    let enough = AtomicBool::new(false);
    let stop = || cancelled() || enough.load(Ordering::Relaxed);
    let (order, threads) = plan.schedule(execution.order, execution.threads);
    let one = |file: &PlannedFile| run_file(file, &execution);
    let mut collector = Collector {
        left: selection.max_fail,
        files: plan.files.len(),
        ..Collector::default()
    };
    sink.event(&Event::Started(plan.files.len()));
    schedule::in_order(&plan.files, &order, threads, &stop, &one, |index, suites| {
        let Some(suites) = suites else { return };
        if collector.take(index, suites, sink) {
            enough.store(true, Ordering::Relaxed);
        }
    });
    if cancelled() {
        collector.stopped = Some(Stop::Interrupted(plan.files.len() - collector.done));
    }
    let elapsed = clock.watch.map(|watch| watch.elapsed());
    Executed {
        times: Times {
            begin: clock.begin,
            elapsed: elapsed.unwrap_or_default(),
            suites: collector.runs.iter().map(|suite| suite.elapsed).collect(),
            now: settings.now.map(|now| now.to_string()).unwrap_or_default(),
        },
        elapsed,
        found: plan.found,
        selected: plan.selected.clone(),
        runs: collector.runs,
        stopped: collector.stopped,
    }
}

/// The results so far.
#[derive(Default)]
struct Collector {
    runs: Vec<FinishedSuite>,
    files: usize,
    done: usize,
    problems: usize,
    /// The remaining limit of problems.
    left: Option<usize>,
    stopped: Option<Stop>,
    is_full: bool,
}

impl Collector {
    /// Adds the suites of a file; returns whether the limit of problems is reached. Results after the limit are
    /// dropped, even if they were run.
    fn take(&mut self, index: usize, suites: Vec<FinishedSuite>, sink: &mut dyn Sink) -> bool {
        self.done += 1;
        let mut suites = suites.into_iter().peekable();
        while let Some(mut suite) = suites.next() {
            if self.is_full {
                return true;
            }
            let cut = self.left.as_mut().is_some_and(|left| suite.cut(left));
            self.problems += suite.problems();
            sink.event(&Event::Suite(&suite));
            self.runs.push(suite);
            if self.left == Some(0) {
                self.is_full = true;
                if cut || suites.peek().is_some() || index + 1 < self.files {
                    self.stopped = Some(Stop::MaxFail(self.files - index - 1));
                }
            }
        }
        sink.event(&Event::File(self.problems));
        self.is_full
    }
}

impl Executed {
    /// The runs with the sources of their diagnostics.
    pub fn listed(&self) -> Vec<(&SuiteRun, &Sources)> {
        self.runs.iter().map(|suite| (&suite.run, &suite.sources)).collect()
    }
}

impl FinishedSuite {
    /// The number of failing or diverging cases, plus one for a broken suite.
    pub fn problems(&self) -> usize {
        let cases = self.run.cases.iter();
        cases.filter(|case| is_problem(case)).count() + usize::from(self.run.is_broken())
    }

    /// Drops results after the remaining limit of problems, and returns whether there were any.
    fn cut(&mut self, left: &mut usize) -> bool {
        let broken = usize::from(self.run.is_broken());
        let cases = &mut self.run.cases;
        let problems = cases.iter().enumerate().filter(|(_, case)| is_problem(case));
        let last = left.checked_sub(1).and_then(|skipped| problems.clone().nth(skipped));
        let end = last.map_or(cases.len(), |(number, _)| number + 1);
        let count = problems.count() + broken;
        let cut = end < cases.len();
        cases.truncate(end);
        *left = left.saturating_sub(count);
        cut
    }
}

fn is_problem(case: &Case) -> bool {
    case.outcome.fails() || case.diverges()
}

/// The runs of one test file; `None` if cancelled.
fn run_file(file: &PlannedFile, execution: &Execution<'_>) -> Option<Vec<FinishedSuite>> {
    let path = match file {
        PlannedFile::File(path) => path,
        PlannedFile::Unusable(path, diagnostic) => {
            return Some(vec![FinishedSuite {
                run: SuiteRun::unusable(path, diagnostic.clone()),
                sources: Sources::new(),
                dependencies: Dependencies::default(),
                elapsed: Duration::ZERO,
            }]);
        }
    };
    let mut lap = Instant::now();
    let recording = RecordingFiles::new(&Disk);
    let files: &dyn Files = if execution.record_files { &recording } else { &Disk };
    let loaded = suite::load(files, path, execution.options);
    let dependencies = recording.dependencies();
    let mut all = Vec::new();
    for suite in loaded {
        let finished = run_suite(suite, execution);
        let elapsed = lap.elapsed();
        lap = Instant::now();
        let Some((run, sources)) = finished else { continue };
        if run.interrupted {
            return None;
        }
        all.push(FinishedSuite {
            run,
            sources,
            dependencies: dependencies.clone(),
            elapsed: execution.clock.shown(elapsed),
        });
    }
    Some(all)
}

/// Runs the selected cases of a suite; `None` if there are none.
fn run_suite(mut suite: Suite, execution: &Execution<'_>) -> Option<(SuiteRun, Sources)> {
    let Execution {
        settings,
        selection,
        clock,
        ..
    } = execution;
    let tags = tags(&suite);
    if !selection.suite(&suite.path, suite.name(), &tags) {
        return None;
    }
    let mut rows = None;
    if let Some(selector) = selection.selector.as_ref().filter(|_| settings.compat) {
        let kept = selector.apply(&mut suite);
        if kept.is_empty() && suite.test.is_some() {
            return None;
        }
        rows = Some(kept);
    }
    let evaluated = evaluate(&suite, settings, selection.resources(&suite, &tags));
    suite.release_objects();
    let mut run = judge(&suite, settings, evaluated);
    if run.interrupted {
        return Some((run, suite.sources));
    }
    if let Some(kept) = rows {
        for case in &mut run.cases {
            case.row = case.row.and_then(|row| kept.get(row).copied());
        }
    }
    expect::expire(&mut run.cases, clock.begin.0);
    execution.overrides.apply(&mut run);
    if clock.watch.is_none() {
        for case in &mut run.cases {
            case.elapsed = None;
        }
    }
    selection.narrow(&mut run).then_some((run, suite.sources))
}

/// The clock of reports. `--now` pins it, so that the same input gives the same bytes.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    begin: (i64, u32),
    watch: Option<Instant>,
}

impl Clock {
    pub fn start(fixed: Option<Timestamp>) -> Self {
        if let Some(now) = fixed {
            return Self {
                begin: now.instant(),
                watch: None,
            };
        }
        let since = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            begin: (i64::try_from(since.as_secs()).unwrap_or_default(), since.subsec_nanos()),
            watch: Some(Instant::now()),
        }
    }

    fn shown(&self, elapsed: Duration) -> Duration {
        self.watch.map_or(Duration::ZERO, |_| elapsed)
    }
}

/// A clock for [`Settings::watch`]: the time since its first use.
pub fn watch() -> Duration {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed()
}
