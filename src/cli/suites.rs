//! The suites that a command line names, found, selected and run.

use std::{
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};

use rayon::prelude::*;

use super::{
    Failure,
    config::Source,
    input,
    select::{Selected, Selection},
};
use crate::{
    cel::time::Timestamp,
    diagnostic::{Diagnostic, Sources},
    report::Times,
    run::{self, Extras, Settings, SuiteRun},
    suite::{self, BuiltInScopes, Disk, Options, Suite},
};

/// Where the suites are and how they are run.
#[derive(Debug, clap::Args)]
pub(super) struct Suites {
    /// Folders with suites, searched with everything below them
    #[arg(value_name = "PATH")]
    pub(super) paths: Vec<String>,

    /// The name of test files
    #[arg(short = 'f', long, value_name = "NAME", default_value = "kyverno-test.yaml")]
    file_name: String,

    /// Judge rows as `kyverno test` does
    #[arg(long)]
    pub(super) compat: bool,

    #[command(flatten)]
    selection: Selection,

    #[command(flatten)]
    config: Source,

    /// CustomResourceDefinitions that the cluster has
    #[arg(long, value_name = "FILE")]
    crds: Vec<PathBuf>,

    /// What the cluster serves, instead of the table of Kubernetes 1.36
    #[arg(long, value_name = "FILE")]
    discovery: Option<PathBuf>,

    /// The time that expressions see, in RFC 3339
    #[arg(long, value_name = "TIME")]
    now: Option<String>,

    /// Kyverno's configuration: `bare`, `chart` (that of the Helm chart), or a file with its ConfigMap
    ///
    /// It says which requests Kyverno judges at all. `kyverno test` judges all of them, whatever it says.
    #[arg(long, value_name = "bare|chart|FILE", default_value = "bare")]
    kyverno_config: String,

    /// How many threads to use; as many as there are cores unless given
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// What is to be found out besides; set by the command.
    #[arg(skip)]
    pub(super) extras: Extras,
}

/// What came of the suites.
pub(super) struct Executed {
    /// The runs, sorted by path and document.
    pub(super) runs: Vec<Timed>,
    /// How many test files there were before anything was selected.
    pub(super) found: usize,
    /// Whether the run stopped before its end.
    pub(super) stopped: bool,
    /// What was wrong with the selection and did not stop the run.
    pub(super) remarks: (Vec<Diagnostic>, Sources),
    clock: Clock,
}

/// A suite's run, with the texts that its diagnostics refer to.
pub(super) struct Timed {
    pub(super) run: SuiteRun,
    pub(super) sources: Sources,
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
    /// When the run began and how long its parts took.
    pub(super) fn times(&self) -> Times {
        Times {
            begin: self.clock.begin,
            elapsed: self.clock.watch.map_or(Duration::ZERO, |watch| watch.elapsed()),
            suites: self.runs.iter().map(|timed| timed.elapsed).collect(),
        }
    }
}

impl Suites {
    /// Finds and runs the suites. The result does not depend on the number of threads.
    pub(super) fn execute(&self) -> Result<Executed, Failure> {
        let mut selected = self.selection.read(self.compat)?;
        let remarks = (
            std::mem::take(&mut selected.remarks),
            std::mem::take(&mut selected.sources),
        );
        let settings = self.settings()?;
        let options = Options {
            file_name: &self.file_name,
            accept_file: !self.compat,
            scopes: &BuiltInScopes,
            own_crds: !self.compat,
            sidecar: !self.compat,
        };
        let clock = Clock::start(settings.now);
        let mut works = Vec::new();
        for path in &self.paths {
            match suite::discover(&Disk, path, &options) {
                Ok(found) => works.extend(found.into_iter().map(Work::File)),
                Err(diagnostic) => works.push(Work::Unusable(path.clone(), diagnostic)),
            }
        }
        works.sort_by(|a, b| a.path().split('/').cmp(b.path().split('/')));
        let found = works.len();
        works.retain(|work| selected.file(work.path()));
        let one = |work: &Work| one(work, &options, &settings, &selected, &clock);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads.map_or(0, usize::from));
        // The system gives no threads: the one that we have does it.
        let pool = pool.build().ok();
        let all = |works: &[Work]| -> Vec<Timed> {
            match &pool {
                Some(pool) => pool.install(|| works.par_iter().flat_map_iter(one).collect()),
                None => works.iter().flat_map(one).collect(),
            }
        };
        let (runs, stopped) = match selected.max_fail {
            None => (all(&works), false),
            Some(most) => until(most, &works, all),
        };
        Ok(Executed {
            runs,
            found,
            stopped,
            remarks,
            clock,
        })
    }

    fn settings(&self) -> Result<Settings, Failure> {
        Ok(Settings {
            config: input::kyverno_config(&self.kyverno_config)?,
            compat: self.compat,
            discovery: input::cluster(self.discovery.as_deref(), &self.crds)?,
            now: self.now.as_deref().map(input::time).transpose()?,
            extras: self.extras,
        })
    }
}

/// The runs of one test file.
fn one(work: &Work, options: &Options<'_>, settings: &Settings, selected: &Selected, clock: &Clock) -> Vec<Timed> {
    let path = match work {
        Work::File(path) => path,
        Work::Unusable(path, diagnostic) => {
            return vec![Timed {
                run: SuiteRun::unusable(path, diagnostic.clone()),
                sources: Sources::new(),
                elapsed: Duration::ZERO,
            }];
        }
    };
    let mut lap = Instant::now();
    let timed = suite::load(&Disk, path, options).into_iter().filter_map(|suite| {
        let timed = narrowed(suite, settings, selected);
        let elapsed = lap.elapsed();
        lap = Instant::now();
        let (run, sources) = timed?;
        Some(Timed {
            run,
            sources,
            elapsed: clock.shown(elapsed),
        })
    });
    timed.collect()
}

/// Runs what is selected of a suite; `None` where nothing is.
fn narrowed(mut suite: Suite, settings: &Settings, selected: &Selected) -> Option<(SuiteRun, Sources)> {
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
    if let Some(kept) = rows {
        for case in &mut run.cases {
            case.row = case.row.and_then(|row| kept.get(row).copied());
        }
    }
    selected.narrow(&mut run).then_some((run, suite.sources))
}

/// Runs until there are so many problems; what comes after the last of them is left out, whether it was run or not.
fn until(most: usize, works: &[Work], all: impl Fn(&[Work]) -> Vec<Timed>) -> (Vec<Timed>, bool) {
    const TOGETHER: usize = 16;
    let mut runs = Vec::new();
    let mut left = most;
    let mut chunks = works.chunks(TOGETHER).peekable();
    while let Some(chunk) = chunks.next() {
        let mut together = all(chunk).into_iter().peekable();
        while let Some(mut timed) = together.next() {
            let cases = &mut timed.run.cases;
            let problem = |case: &run::Case| case.outcome.fails() || case.diverges();
            let last = cases.iter().enumerate().filter(|(_, case)| problem(case)).nth(left - 1);
            let last = last.map(|(number, _)| number + 1);
            let count = cases.iter().filter(|case| problem(case)).count();
            let count = count + usize::from(timed.run.is_broken());
            let end = last.unwrap_or(timed.run.cases.len());
            let cut = end < timed.run.cases.len();
            timed.run.cases.truncate(end);
            runs.push(timed);
            if count >= left {
                return (runs, cut || together.peek().is_some() || chunks.peek().is_some());
            }
            left -= count;
        }
    }
    (runs, false)
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
