//! The suites that a command line names, found, selected and run.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{
    Failure,
    cluster::{self, Cluster, KyvernoConfig},
    config::Source,
    data::{DataLens, StrictResources},
    interrupt,
    overrides::{self, Override, Overrides},
    progress::Progress,
    schedule,
    select::{Selected, Selection},
};
use crate::{
    report::{Run, Times},
    run::{self, Engine, Extras, Settings, SuiteRun, places},
    suite::{self, Asked, BuiltInScopes, Disk, Files, Noting, Options, Scopes, Suite},
};
use kyvtest_cel::time::Timestamp;
use kyvtest_go_compat::{
    diagnostic::{Diagnostic, Sources},
    text::shell::quoted,
};

/// Where the suites are and how they are run.
#[derive(Debug, clap::Args)]
pub(super) struct Suites {
    /// Directories with suites, searched recursively
    #[arg(value_name = "PATH")]
    pub(super) paths: Vec<String>,

    /// The name of test files
    #[arg(short = 'f', long, value_name = "NAME", default_value = "kyverno-test.yaml")]
    file_name: String,

    /// Reproduce the verdicts of `kyverno test`
    #[arg(long)]
    pub(super) compat: bool,

    /// Evaluate with Kyverno and compare native policies, with Kyverno only, or with native policies only
    #[arg(long, value_name = "ENGINE", default_value = "both", value_parser = engines())]
    engine: Engine,

    #[command(flatten)]
    data: DataLens,

    #[command(flatten)]
    resources: StrictResources,

    #[command(flatten)]
    pub(super) selection: Selection,

    #[command(flatten)]
    config: Source,

    #[command(flatten)]
    pub(super) cluster: Cluster,

    #[command(flatten)]
    kyverno_config: KyvernoConfig,

    /// Use N threads [default: one per core]
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// Fail cases that take longer than DURATION, such as `500ms`
    ///
    /// The cost of expressions is limited in any case, as in a cluster; this option is for slow machines. Kyverno has
    /// no such limit, so `--compat` ignores it.
    #[arg(long, value_name = "DURATION", value_parser = overrides::limit)]
    timeout: Option<Duration>,

    /// Show no progress bar
    #[arg(long)]
    no_progress: bool,

    /// What the configuration says of single cases.
    #[arg(skip)]
    pub(super) overrides: Vec<Override>,

    /// Whether it is told how the engines come to their answers; set by the command.
    #[arg(skip)]
    pub(super) trace: bool,

    /// What is to be found out besides; set by the command.
    #[arg(skip)]
    pub(super) extras: Extras,

    /// The test files to run of those that are found, if not all; set by the command.
    #[arg(skip)]
    pub(super) only: Option<BTreeSet<String>>,

    /// Whether it is noted which files suites depend on; set by the command.
    #[arg(skip)]
    pub(super) noted: bool,

    /// When the run started, if several executions belong to one run; set by the command.
    #[arg(skip)]
    pub(super) started: Option<Timestamp>,
}

fn engines() -> impl TypedValueParser<Value = Engine> {
    PossibleValuesParser::new(Engine::ALL.map(Engine::name)).map(|name| Engine::named(&name).unwrap_or_default())
}

/// What came of the suites.
pub(super) struct Executed {
    /// The runs, sorted by path and document.
    pub(super) runs: Vec<Timed>,
    /// How many test files there were before anything was selected.
    pub(super) found: usize,
    /// The test files that were selected, run or not.
    pub(super) listed_files: BTreeSet<String>,
    /// Why the run ended before its end.
    pub(super) stopped: Option<Stop>,
    /// What was wrong with the selection and did not stop the run.
    pub(super) remarks: (Vec<Diagnostic>, Sources),
    times: Times,
    elapsed: Option<Duration>,
}

/// What happens in a run, in an order that depends on nothing but the input.
pub(super) enum Event<'e> {
    /// Something is odd about the selection.
    Remark(&'e Diagnostic, &'e Sources),
    /// A suite has been run.
    Decided(&'e Timed),
}

/// Why a run ended before its end, and how many test files it did not come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The user asked for it.
    Interrupted(usize),
    /// There were as many problems as there may be; how many test files were not run.
    MaxFail(usize),
}

impl Stop {
    /// The word in reports.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Interrupted(_) => "interrupted",
            Self::MaxFail(_) => "max-fail",
        }
    }
}

/// In which order and on how many threads suites are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// By path, on as many threads as the user wants.
    Sorted,
    /// In another order and on another number of threads, with the same result.
    Shuffled,
}

/// A suite's run, with the texts that its diagnostics refer to.
pub(super) struct Timed {
    pub(super) run: SuiteRun,
    pub(super) sources: Sources,
    /// Which files and folders it depends on, where that is noted.
    pub(super) asked: Asked,
    elapsed: Duration,
}

/// A test file, or what is wrong with a path.
enum Work {
    File(String),
    Unusable(String, Diagnostic),
}

impl Work {
    fn path(&self) -> &str {
        match self {
            Self::File(path) | Self::Unusable(path, _) => path,
        }
    }
}

impl Executed {
    /// The runs with their sources, as reports want them.
    pub(super) fn listed(&self) -> Vec<Run<'_>> {
        self.runs.iter().map(|timed| (&timed.run, &timed.sources)).collect()
    }

    /// How long the run took; `None` where the clock stands still.
    pub(super) fn elapsed(&self) -> Option<Duration> {
        self.elapsed
    }

    /// When the run began and how long its parts took.
    pub(super) fn times(&self) -> &Times {
        &self.times
    }
}

impl Suites {
    /// Finds and runs the suites.
    pub(super) fn execute(&self) -> Result<Executed, Failure> {
        self.execute_with(Order::Sorted, &mut |_| ())
    }

    /// Finds and runs the suites. The result does not depend on the number of threads, nor on the order in which they work.
    pub(super) fn execute_with(&self, order: Order, listen: &mut dyn FnMut(Event<'_>)) -> Result<Executed, Failure> {
        let mut selected = self.selection.read(self.compat)?;
        let remarks = (
            std::mem::take(&mut selected.remarks),
            std::mem::take(&mut selected.sources),
        );
        for remark in &remarks.0 {
            listen(Event::Remark(remark, &remarks.1));
        }
        let pinned = self.cluster.now()?;
        let clock = Clock::start(pinned);
        let overrides = Overrides {
            entries: self.overrides.clone(),
            timeout: self.timeout,
        };
        let mut settings = self.settings()?;
        // A pinned clock makes reports reproducible, so timings stay off.
        if pinned.is_none() || overrides.needs_watch() {
            settings.watch = Some(watch);
        }
        let now = settings.now;
        // `kyverno test` knows no kinds but its own.
        let scopes: &dyn Scopes = if self.compat {
            &BuiltInScopes
        } else {
            &settings.discovery
        };
        let options = Options {
            file_name: &self.file_name,
            accept_file: !self.compat,
            scopes,
            own_crds: !self.compat,
            sidecar: !self.compat,
        };
        let mut works = Vec::new();
        for path in &self.paths {
            match suite::discover_all(&Disk, path, &options) {
                Ok((found, unreadable)) => {
                    works.extend(found.into_iter().map(Work::File));
                    works.extend(unreadable.into_iter().map(|(path, why)| Work::Unusable(path, why)));
                }
                Err(diagnostic) => works.push(Work::Unusable(path.clone(), diagnostic)),
            }
        }
        works.sort_by(|a, b| a.path().split('/').cmp(b.path().split('/')));
        let found = works.len();
        works.retain(|work| selected.file(work.path()));
        let listed = works.iter().map(|work| work.path().to_owned()).collect();
        if let Some(only) = &self.only {
            works.retain(|work| only.contains(work.path()));
        }
        let one = |work: &Work| one(work, self.noted, &options, &settings, &selected, &clock, &overrides);
        let (order_of_works, threads) = self.schedule(order, &works);
        let progress = Progress::new(works.len(), "test files", !self.no_progress && order == Order::Sorted);
        let interrupted = interrupt::flag();
        let enough = AtomicBool::new(false);
        let stop = || interrupted.load(Ordering::Relaxed) || enough.load(Ordering::Relaxed);
        let mut runs = Vec::new();
        let mut stopped = None;
        let mut left = selected.max_fail;
        let mut done = 0;
        let mut problems = 0;
        schedule::in_order(
            &works,
            &order_of_works,
            threads,
            &stop,
            &one,
            |index, found: Option<Vec<Timed>>| {
                let Some(found) = found else { return };
                done += 1;
                progress.step();
                let mut found = found.into_iter().peekable();
                while let Some(mut timed) = found.next() {
                    // What comes after the last problem is left out, whether it was run or not.
                    if enough.load(Ordering::Relaxed) {
                        return;
                    }
                    let cut = left.as_mut().is_some_and(|left| timed.cut(left));
                    let last = left == Some(0);
                    problems += timed.problems();
                    progress.problems(problems);
                    progress.aside(|| listen(Event::Decided(&timed)));
                    runs.push(timed);
                    if last {
                        enough.store(true, Ordering::Relaxed);
                        if cut || found.peek().is_some() || index + 1 < works.len() {
                            stopped = Some(Stop::MaxFail(works.len() - index - 1));
                        }
                    }
                }
            },
        );
        if interrupted.load(Ordering::Relaxed) {
            stopped = Some(Stop::Interrupted(works.len() - done));
        }
        let elapsed = clock.watch.map(|watch| watch.elapsed());
        Ok(Executed {
            times: Times {
                begin: clock.begin,
                elapsed: elapsed.unwrap_or_default(),
                suites: runs.iter().map(|timed| timed.elapsed).collect(),
                now: now.map(|now| now.to_string()).unwrap_or_default(),
            },
            elapsed,
            runs,
            found,
            listed_files: listed,
            stopped,
            remarks,
        })
    }

    /// Why an execution had no cases.
    pub(super) fn why_nothing(&self, executed: &Executed) -> String {
        if executed.found == 0 {
            return format!("found no `{}` below `{}`", self.file_name, self.paths.join("`, `"));
        }
        let files = if executed.found == 1 { "test file" } else { "test files" };
        if executed.listed_files.is_empty() {
            return format!("the filters and the shard exclude all {} {files}", executed.found);
        }
        let rows = executed.runs.iter().any(|timed| !timed.run.responses.is_empty());
        let why = if rows || executed.runs.is_empty() {
            "no case matches the filters"
        } else {
            "no suite has expectations"
        };
        format!("{why} ({} {files} found)", executed.found)
    }

    /// The test files that there are now; what cannot be looked into has none.
    pub(super) fn test_files(&self) -> BTreeSet<String> {
        let Ok(selected) = self.selection.read(self.compat) else {
            return BTreeSet::new();
        };
        let options = Options {
            file_name: &self.file_name,
            accept_file: !self.compat,
            ..Options::default()
        };
        let found = self
            .paths
            .iter()
            .map(|path| (path, suite::discover_all(&Disk, path, &options)));
        // A path that cannot be used represents itself, as in a run.
        let found = found.flat_map(|(path, found)| match found {
            Ok((mut files, unreadable)) => {
                files.extend(unreadable.into_iter().map(|(path, _)| path));
                files
            }
            Err(_) => vec![path.clone()],
        });
        found.filter(|path| selected.file(path)).collect()
    }

    /// The numbers of the works in the order in which they are done, and on how many threads.
    fn schedule(&self, order: Order, works: &[Work]) -> (Vec<usize>, usize) {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = self.threads.map_or_else(cores, usize::from);
        let mut numbers: Vec<usize> = (0..works.len()).collect();
        match order {
            Order::Sorted => (numbers, threads),
            Order::Shuffled => {
                numbers.sort_by_key(|&number| works.get(number).map(|work| places::fingerprint(&[work.path()])));
                (numbers, if threads == 1 { 2 } else { 1 })
            }
        }
    }

    /// Lets cases take as long as they like.
    pub(super) fn forget_timeouts(&mut self) {
        self.timeout = None;
        self.overrides.iter_mut().for_each(Override::forget_timeout);
    }

    /// The options that another run needs to come to the same, each with a blank before it.
    pub(super) fn replay(&self) -> String {
        let mut words = String::new();
        if self.compat {
            words.push_str(" --compat");
        }
        if self.file_name != "kyverno-test.yaml" {
            let _ = write!(words, " --file-name {}", quoted(&self.file_name));
        }
        if self.engine != Engine::Both {
            let _ = write!(words, " --engine {}", self.engine.name());
        }
        self.data.replay(&mut words);
        self.cluster.replay(&mut words);
        self.kyverno_config.replay(&mut words);
        words
    }

    /// How suites are run.
    pub(super) fn settings(&self) -> Result<Settings, Failure> {
        Ok(Settings {
            config: self.kyverno_config.read("bare")?,
            discovery: self.cluster.discovery()?,
            now: self.cluster.now()?.or(self.started).or_else(cluster::started),
            extras: self.extras.clone(),
            trace: self.trace,
            engine: self.engine,
            data: self.data.of_run(self.compat),
            strict_resources: self.resources.strict_resources,
            stop: Some(interrupt::flag()),
            ..Settings::new(self.compat)
        })
    }
}

/// The watch of this process.
fn watch() -> Duration {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed()
}

impl Timed {
    /// How many failing or diverging cases there are, and one for a broken suite.
    pub(super) fn problems(&self) -> usize {
        let cases = self.run.cases.iter();
        let problems = cases.filter(|case| case.outcome.fails() || case.diverges()).count();
        problems + usize::from(self.run.is_broken())
    }

    /// Leaves out what comes after as many problems as are left, and says whether that was anything.
    fn cut(&mut self, left: &mut usize) -> bool {
        let problem = |case: &run::Case| case.outcome.fails() || case.diverges();
        let broken = usize::from(self.run.is_broken());
        let cases = &mut self.run.cases;
        let problems = cases.iter().enumerate().filter(|(_, case)| problem(case));
        let last = left.checked_sub(1).and_then(|skipped| problems.clone().nth(skipped));
        let end = last.map_or(cases.len(), |(number, _)| number + 1);
        let count = problems.count() + broken;
        let cut = end < cases.len();
        cases.truncate(end);
        *left = left.saturating_sub(count);
        cut
    }
}

/// The runs of one test file; `None` if the user interrupted them.
fn one(
    work: &Work,
    noted: bool,
    options: &Options<'_>,
    settings: &Settings,
    selected: &Selected,
    clock: &Clock,
    overrides: &Overrides,
) -> Option<Vec<Timed>> {
    let path = match work {
        Work::File(path) => path,
        Work::Unusable(path, diagnostic) => {
            return Some(vec![Timed {
                run: SuiteRun::unusable(path, diagnostic.clone()),
                sources: Sources::new(),
                asked: Asked::default(),
                elapsed: Duration::ZERO,
            }]);
        }
    };
    let mut lap = Instant::now();
    let noting = Noting::new(&Disk);
    let files: &dyn Files = if noted { &noting } else { &Disk };
    let loaded = suite::load(files, path, options);
    let asked = noting.asked();
    let mut all = Vec::new();
    for suite in loaded {
        let timed = narrowed(suite, settings, selected, overrides, clock);
        let elapsed = lap.elapsed();
        lap = Instant::now();
        let Some((run, sources)) = timed else { continue };
        if run.interrupted {
            return None;
        }
        all.push(Timed {
            run,
            sources,
            asked: asked.clone(),
            elapsed: clock.shown(elapsed),
        });
    }
    Some(all)
}

/// Runs what is selected of a suite; `None` where nothing is.
fn narrowed(
    mut suite: Suite,
    settings: &Settings,
    selected: &Selected,
    overrides: &Overrides,
    clock: &Clock,
) -> Option<(SuiteRun, Sources)> {
    if !selected.suite(&suite.path, suite.name(), &run::tags(&suite)) {
        return None;
    }
    let mut rows = None;
    if let Some(selector) = selected.selector.as_ref().filter(|_| settings.compat) {
        let kept = selector.apply(&mut suite);
        if kept.is_empty() && suite.test.is_some() {
            return None;
        }
        rows = Some(kept);
    }
    let mut run = run::run(&suite, settings);
    if run.interrupted {
        return Some((run, suite.sources));
    }
    if let Some(kept) = rows {
        for case in &mut run.cases {
            case.row = case.row.and_then(|row| kept.get(row).copied());
        }
    }
    run::expect::expire(&mut run.cases, clock.begin.0);
    overrides.apply(&mut run);
    if clock.watch.is_none() {
        for case in &mut run.cases {
            case.elapsed = None;
        }
    }
    selected.narrow(&mut run).then_some((run, suite.sources))
}

/// The clock of reports. A clock that `--now` fixes stands still, so that the same input gives the same bytes.
struct Clock {
    begin: (i64, u32),
    watch: Option<Instant>,
}

impl Clock {
    fn start(fixed: Option<Timestamp>) -> Self {
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
