//! The options of commands that run suites, and the run that they describe.

use std::{collections::BTreeSet, fmt::Write as _, time::Duration};

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{
    Failure,
    cluster::{self, Cluster, KyvernoConfig},
    config::Source,
    data::{DataLens, StrictResources},
    interrupt,
    output::Output,
    overrides,
    progress::Progress,
    select::{Remarks, SelectionArgs},
};
use crate::{
    run::{
        self, Clock, DataNotes, Engine, Event, Executed, Execution, Extras, Order, Plan, Selection, Settings, Sink,
        overrides::{Override, Overrides},
    },
    suite::{BuiltInScopes, Disk, Options, Scopes},
};
use kyvtest_cel::time::Timestamp;
use kyvtest_go_compat::text::shell::quoted;

/// The locations of suites and the options of their run.
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
    pub(super) selection: SelectionArgs,

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

    /// The configuration's overrides for single cases.
    #[arg(skip)]
    pub(super) overrides: Vec<Override>,

    /// Whether evaluations are traced; set by the command.
    #[arg(skip)]
    pub(super) trace: bool,

    /// The rows for which the effect of the data lens is recorded; set by the command.
    #[arg(skip)]
    pub(super) data_notes: DataNotes,

    /// Additional analyses; set by the command.
    #[arg(skip)]
    pub(super) extras: Extras,

    /// Restricts the test files to run; set by the command.
    #[arg(skip)]
    pub(super) only: Option<BTreeSet<String>>,

    /// Whether to record the files that suites depend on; set by the command.
    #[arg(skip)]
    pub(super) noted: bool,

    /// The start of the run, if several executions belong to one run; set by the command.
    #[arg(skip)]
    pub(super) started: Option<Timestamp>,
}

fn engines() -> impl TypedValueParser<Value = Engine> {
    PossibleValuesParser::new(Engine::ALL.map(Engine::name)).map(|name| Engine::named(&name).unwrap_or_default())
}

/// The suites of a command line, found and selected; nothing has been run yet.
pub(super) struct Planned<'s> {
    suites: &'s Suites,
    plan: Plan,
    selection: Selection,
    settings: Settings,
    overrides: Overrides,
    clock: Clock,
    /// Problems with the selection that do not stop the run.
    pub(super) remarks: Remarks,
}

impl Planned<'_> {
    /// Reports the problems with the selection.
    pub(super) fn show_remarks(&self, output: &mut Output) {
        let (remarks, sources) = &self.remarks;
        for remark in remarks {
            output.diagnostic(remark, sources);
        }
    }

    /// Runs the suites with just a progress bar.
    pub(super) fn execute_quietly(&self) -> Executed {
        self.execute(Order::Sorted, &mut |_: &Event<'_>| ())
    }

    /// Runs the suites. The result depends neither on the number of threads nor on their order.
    pub(super) fn execute(&self, order: Order, sink: &mut dyn Sink) -> Executed {
        let suites = self.suites;
        let execution = Execution {
            settings: &self.settings,
            options: &suites.options(&self.settings),
            selection: &self.selection,
            overrides: &self.overrides,
            clock: &self.clock,
            threads: suites.threads(),
            order,
            record_files: suites.noted,
        };
        let is_shown = !suites.no_progress && order == Order::Sorted;
        let mut progress = WithProgress {
            progress: Progress::new(self.plan.len(), "test files", is_shown),
            sink,
        };
        run::execute(&self.plan, execution, &mut progress)
    }
}

/// A sink with a progress bar that is hidden while the sink writes.
struct WithProgress<'s> {
    progress: Progress,
    sink: &'s mut dyn Sink,
}

impl Sink for WithProgress<'_> {
    fn event(&mut self, event: &Event<'_>) {
        let Self { progress, sink } = self;
        match event {
            Event::File(problems) => {
                progress.problems(*problems);
                progress.step();
                sink.event(event);
            }
            Event::Started(_) | Event::Suite(_) => progress.aside(|| sink.event(event)),
        }
    }
}

impl Suites {
    /// Finds the suites and parses the selection of their cases.
    pub(super) fn plan(&self) -> Result<Planned<'_>, Failure> {
        let (selection, remarks) = self.selection.read(self.compat)?;
        let pinned = self.cluster.now()?;
        let overrides = Overrides {
            entries: self.overrides.clone(),
            timeout: self.timeout,
        };
        let mut settings = self.settings()?;
        // A pinned clock makes reports reproducible, so timings stay off.
        if pinned.is_none() || overrides.needs_watch() {
            settings.watch = Some(run::execute::watch);
        }
        let clock = Clock::start(pinned);
        let mut plan = Plan::new(&Disk, &self.paths, &self.options(&settings), &selection);
        if let Some(only) = &self.only {
            plan.retain(only);
        }
        Ok(Planned {
            suites: self,
            plan,
            selection,
            settings,
            overrides,
            clock,
            remarks,
        })
    }

    /// The loading options.
    fn options<'o>(&'o self, settings: &'o Settings) -> Options<'o> {
        // `kyverno test` knows only its own kinds.
        let scopes: &dyn Scopes = if self.compat {
            &BuiltInScopes
        } else {
            &settings.discovery
        };
        Options {
            file_name: &self.file_name,
            accept_file: !self.compat,
            scopes,
            own_crds: !self.compat,
            sidecar: !self.compat,
        }
    }

    fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.threads.map_or_else(cores, usize::from)
    }

    /// Explains why an execution had no cases.
    pub(super) fn why_nothing(&self, executed: &Executed) -> String {
        if executed.found == 0 {
            return format!("found no `{}` below `{}`", self.file_name, self.paths.join("`, `"));
        }
        let files = if executed.found == 1 { "test file" } else { "test files" };
        if executed.selected.is_empty() {
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

    /// The current test files; an unreadable directory has none.
    pub(super) fn test_files(&self) -> BTreeSet<String> {
        self.plan().map(|planned| planned.plan.selected).unwrap_or_default()
    }

    /// Removes the time limits of cases.
    pub(super) fn forget_timeouts(&mut self) {
        self.timeout = None;
        for entry in &mut self.overrides {
            entry.timeout = None;
        }
    }

    /// The options that another run needs for the same result, each with a blank before it.
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

    /// The run settings.
    pub(super) fn settings(&self) -> Result<Settings, Failure> {
        Ok(Settings {
            config: self.kyverno_config.read("bare")?,
            discovery: self.cluster.discovery()?,
            now: self.cluster.now()?.or(self.started).or_else(cluster::started),
            extras: self.extras.clone(),
            trace: self.trace,
            engine: self.engine,
            data: self.data.of_run(self.compat),
            data_notes: self.data_notes,
            strict_resources: self.resources.strict_resources,
            stop: Some(interrupt::flag()),
            ..Settings::new(self.compat)
        })
    }
}
