//! Executes a plan: loads and runs its test files on several threads and hands the results to a sink, in the order of the plan.
//!
//! What a sink sees depends on nothing but the input: not on the number of threads, nor on the order in which they finish.

use std::{
    collections::BTreeSet,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use super::{
    Case, Order, Plan, Selection, Settings, SuiteRun, expect, overrides::Overrides, plan::PlannedFile, run_on,
    schedule, tags,
};
use crate::suite::{self, Dependencies, Disk, Files, Options, RecordingFiles, Suite};
use kyvtest_cel::time::Timestamp;
use kyvtest_go_compat::diagnostic::Sources;

/// How a plan is executed.
#[derive(Clone, Copy)]
pub struct Execution<'e> {
    /// How suites are run.
    pub settings: &'e Settings,
    /// How suites are loaded.
    pub options: &'e Options<'e>,
    /// Which of their cases are run.
    pub selection: &'e Selection,
    /// What the configuration says of single cases.
    pub overrides: &'e Overrides,
    /// The clock of reports.
    pub clock: &'e Clock,
    pub threads: usize,
    pub order: Order,
    /// Record which files suites depend on.
    pub record_files: bool,
}

/// What happens in a run.
pub enum Event<'e> {
    /// The run begins with so many test files.
    Started(usize),
    /// A suite has been run.
    Suite(&'e FinishedSuite),
    /// All suites of a test file have been run; how many problems there were until now.
    File(usize),
}

/// Receives the events of a run, one at a time.
pub trait Sink {
    /// Takes an event.
    fn event(&mut self, event: &Event<'_>);
}

impl<F: FnMut(&Event<'_>)> Sink for F {
    fn event(&mut self, event: &Event<'_>) {
        self(event);
    }
}

/// A suite's run, with the texts that its diagnostics refer to.
#[derive(Debug)]
pub struct FinishedSuite {
    pub run: SuiteRun,
    /// The texts.
    pub sources: Sources,
    /// Which files and directories it depends on, if that is recorded.
    pub dependencies: Dependencies,
    elapsed: Duration,
}

/// When a run was made and how long it took.
#[derive(Debug, Clone, Default)]
pub struct Times {
    /// The begin: seconds since 1970 and nanoseconds.
    pub begin: (i64, u32),
    /// How long all of it took.
    pub elapsed: Duration,
    /// How long each suite took, in the order of the runs.
    pub suites: Vec<Duration>,
    /// The time that expressions see, in RFC 3339: `--now`, or the start of the run.
    pub now: String,
}

/// Why a run ended before its end, and how many test files it did not come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It was cancelled.
    Interrupted(usize),
    /// There were as many problems as there may be.
    MaxFail(usize),
}

impl Stop {
    /// The word in reports.
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
    /// How many test files there were before anything was selected.
    pub found: usize,
    /// The test files that were selected, run or not.
    pub selected: BTreeSet<String>,
    /// Why the run ended before its end.
    pub stopped: Option<Stop>,
    /// The clock.
    pub times: Times,
    /// How long the run took; `None` if the clock stands still.
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

/// What has been run so far.
#[derive(Default)]
struct Collector {
    runs: Vec<FinishedSuite>,
    files: usize,
    done: usize,
    problems: usize,
    /// How many problems there may still be.
    left: Option<usize>,
    stopped: Option<Stop>,
    is_full: bool,
}

impl Collector {
    /// Takes the suites of a file; answers whether there are as many problems as there may be. What comes after the last of
    /// them is left out, whether it was run or not.
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
    /// The runs with the texts that their diagnostics refer to.
    pub fn listed(&self) -> Vec<(&SuiteRun, &Sources)> {
        self.runs.iter().map(|suite| (&suite.run, &suite.sources)).collect()
    }
}

impl FinishedSuite {
    /// How many failing or diverging cases there are, and one for a broken suite.
    pub fn problems(&self) -> usize {
        let cases = self.run.cases.iter();
        cases.filter(|case| is_problem(case)).count() + usize::from(self.run.is_broken())
    }

    /// Leaves out what comes after as many problems as are left, and says whether that was anything.
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

/// The runs of one test file; `None` if they were cancelled.
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

/// Runs what is selected of a suite; `None` if nothing is.
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
    let mut run = run_on(&suite, settings, selection.resources(&suite, &tags));
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

/// The clock of reports. A clock that `--now` fixes stands still, so that the same input gives the same bytes.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    begin: (i64, u32),
    watch: Option<Instant>,
}

impl Clock {
    /// Starts a clock.
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

/// A watch for [`Settings::watch`]: the time since its first use.
pub fn watch() -> Duration {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed()
}
