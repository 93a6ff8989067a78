//! `kyvtest run`: runs suites and reports the results.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    path::PathBuf,
    sync::Arc,
};

use clap::{
    ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser as _},
};

use super::{
    Exit, Failure,
    cluster::started,
    github, interrupt,
    output::Output,
    report_file::ReportFile,
    suites::{Planned, Suites},
    unreferenced::{self, Unreferenced},
    update::Update,
};
use crate::{
    report::{self, CaseStatus, Dialect, Format, Level, Per, ReportInput, Run, Summary, human},
    run::{DataNotes, Event, Executed, Extras, FinishedSuite, Order, Stop, SuiteRun, overrides::Override},
};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Severity, Sources},
    value::{Document, diff},
};
use kyvtest_model::policy::{Loaded, Policy};
use kyvtest_prove::{Kind, Label, Proof, body::Side};

/// Run kyverno-test.yaml suites
///
/// Decides every row as Kyverno 1.19 would in a cluster, and compares the result with the one that the row expects. A
/// row that no rule matches fails; `--compat` reproduces the verdicts of `kyverno test`, with a warning for rows that
/// pass although no rule matched.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) suites: Suites,

    /// The output format
    #[arg(short = 'o', long = "output", alias = "output-format", value_name = "FORMAT", default_value = "human", value_parser = formats())]
    format: Format,

    /// Also write a report to a file, such as `junit=report.xml` (may be repeated)
    #[arg(long, value_name = "FORMAT=PATH")]
    pub(super) report: Vec<ReportFile>,

    /// What a test case of a JUnit report represents
    #[arg(long, value_name = "WORD", value_enum, default_value_t)]
    junit_per: JunitPer,

    /// Which attributes JUnit reports have
    #[arg(long, value_name = "WORD", value_enum, default_value_t)]
    junit_dialect: JunitDialect,

    /// Also list every result of every policy, tested by a row or not (JSON)
    #[arg(long)]
    all_responses: bool,

    /// Show cases of LEVEL and above as they finish [default: diverge]
    ///
    /// Each level includes those before it: `none`, `fail`, `diverge`, `skip` (undecided and skipped cases), `pass`, `all`.
    #[arg(long, value_name = "LEVEL", value_parser = levels())]
    status_level: Option<Level>,

    /// List cases of LEVEL and above once more at the end, one line each
    #[arg(long, value_name = "LEVEL", default_value = "fail", value_parser = levels())]
    final_status_level: Level,

    /// Show evaluation traces: what matched, and the value of every expression and its parts
    #[arg(short, long)]
    verbose: bool,

    /// Show every failure and divergence in full instead of grouping them by cause
    #[arg(long)]
    details: bool,

    /// Run everything twice, in a different order and with a different number of threads, and compare
    ///
    /// The engines are pure functions: any difference is a bug and exits with code 70. Time limits are off meanwhile.
    #[arg(long)]
    pub(super) check_determinism: bool,

    /// Also print passing cases, and messages in tables
    #[arg(long)]
    detailed_results: bool,

    /// List only problems; counts still cover the whole run
    #[arg(long)]
    fail_only: bool,

    /// Add the proof label of each policy, as `kyvtest prove` prints it
    ///
    /// A REFUTED label exits with code 3, like any other difference.
    #[arg(long)]
    prove: bool,

    /// Prove that the policies of the same names in these files are equivalent, instead of native counterparts
    #[arg(long, value_name = "FILE", requires = "prove")]
    to: Vec<PathBuf>,

    /// Add the parts of policies that no test exercises to HTML and Markdown reports
    #[arg(long)]
    coverage: bool,

    /// Report resources that no row tests; `reject` also exits with code 5
    #[arg(long, value_name = "WORD", value_enum)]
    unreferenced: Option<Unreferenced>,

    #[command(flatten)]
    pub(super) update: Update,

    /// What to do when no tests are selected
    #[arg(long, value_name = "WORD", value_enum, default_value_t)]
    no_tests: NoTests,

    /// What to do about cases that are not decided
    #[arg(long, value_name = "WORD", value_enum, default_value_t)]
    unsupported: Unsupported,

    /// With `--compat`: fail if no suite is found
    #[arg(long)]
    require_tests: bool,

    /// Exit with code 0 even if tests fail
    #[arg(long)]
    exit_zero: bool,

    /// Accepted for the sake of scripts; output to a pipe has no colours
    #[arg(long, hide = true)]
    remove_color: bool,

    /// Accepted for the sake of scripts; images are never fetched over the network
    #[arg(long, hide = true)]
    registry: bool,

    /// Accepted for the sake of scripts; URLs are rejected regardless of the branch
    #[arg(short = 'b', long, hide = true)]
    git_branch: Option<String>,
}

fn formats() -> impl clap::builder::TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::name)).map(|name| Format::named(&name).unwrap_or_default())
}

fn levels() -> impl clap::builder::TypedValueParser<Value = Level> {
    PossibleValuesParser::new(Level::ALL.map(Level::name)).map(|name| Level::named(&name).unwrap_or_default())
}

/// The unit of a JUnit test case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum JunitPer {
    /// A case, with the results of both engines
    #[default]
    Case,
    /// The result of one engine for a case
    Engine,
}

/// The attributes of JUnit reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum JunitDialect {
    /// `file`, `line` and properties on test cases, as GitLab and annotators read them
    #[default]
    Annotated,
    /// Only what Jenkins' xUnit schema allows
    Strict,
}

/// The treatment of undecided cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum Unsupported {
    /// Say nothing
    Pass,
    /// Warn; exit with code 5 only if nothing was decided
    #[default]
    Warn,
    /// Exit with code 5
    Fail,
}

impl Unsupported {
    /// Reports the number of undecided cases, and returns the exit code for them.
    pub(super) fn check(self, undecided: usize, cases: usize, output: &mut Output) -> Exit {
        if self == Self::Pass || undecided == 0 {
            return Exit::Success;
        }
        let nothing = undecided == cases;
        let count = if nothing && cases == 1 {
            "the only case was not decided".to_owned()
        } else if nothing {
            format!("none of {cases} cases was decided")
        } else if undecided == 1 {
            format!("1 of {cases} cases was not decided")
        } else {
            format!("{undecided} of {cases} cases were not decided")
        };
        let fails = nothing || self == Self::Fail;
        let severity = if fails { Severity::Error } else { Severity::Warning };
        let diagnostic = Diagnostic::new(
            Code::Undecided,
            format!("{count}: an image needs a registry, or the rule is not supported"),
        );
        let help = "`--status-level skip` lists them; `--unsupported pass|warn|fail` chooses the exit code";
        output.diagnostic(&diagnostic.with_severity(severity).with_help(help), &Sources::new());
        if fails { Exit::BelowThreshold } else { Exit::Success }
    }
}

/// The maximum number of rejected objects shown without `--details`.
const REFUSED: usize = 3;

/// The treatment of an empty selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum NoTests {
    #[default]
    Fail,
    Warn,
    Pass,
}

impl Args {
    /// Sets the configuration's overrides for single cases.
    pub(super) fn set_overrides(&mut self, overrides: Vec<Override>) {
        self.suites.overrides = overrides;
    }

    pub(super) fn run(mut self, output: &mut Output) -> Result<Exit, Failure> {
        self.update.check()?;
        if self.suites.paths.is_empty() {
            let diagnostic = Diagnostic::new(Code::CommandLine, "no path given");
            output.diagnostic(
                &diagnostic.with_help("`kyvtest run .` searches the current directory"),
                &Sources::new(),
            );
            return Ok(if self.suites.compat {
                Exit::Mismatch
            } else {
                Exit::Input
            });
        }
        let (exit, executed) = self.once(output)?;
        if !self.update.update || executed.stopped.is_some() {
            return Ok(exit);
        }
        let accepted = self.update.apply(&self.suites, &executed, output)?;
        if accepted.is_empty() || !matches!(exit, Exit::Mismatch | Exit::Divergence) {
            return Ok(exit);
        }
        // Updated suites have new results.
        let others = executed.runs.iter().filter(|timed| !accepted.contains(&timed.run.path));
        let others: Exit = others.map(|timed| exit_of(&timed.run)).collect();
        self.suites.only = Some(accepted);
        let again = self.suites.plan()?.execute_quietly();
        let again: Exit = again.runs.iter().map(|timed| exit_of(&timed.run)).collect();
        Ok(others.combine(again))
    }

    /// Runs the suites and reports the results.
    pub(super) fn once(&mut self, output: &mut Output) -> Result<(Exit, Executed), Failure> {
        self.suites.extras = Extras {
            coverage: self.coverage || self.unreferenced.is_some(),
            behaviours: false,
            proofs: self.prove,
            to: self.target(output)?,
            stop: self.prove.then(interrupt::flag),
        };
        let compat = self.suites.compat;
        if self.check_determinism {
            // Times may differ between the two runs.
            self.suites.forget_timeouts();
        }
        self.suites.trace = self.verbose;
        self.suites.data_notes = self.data_notes();
        self.suites.started = started();
        let replay = self.suites.replay();
        let look = self.look(&replay, output.is_colored());
        let live = self.format == Format::Human;
        let (mut unwritten, mut shown) = (None, human::Shown::default());
        let mut refused = 0;
        let most = if self.details { usize::MAX } else { REFUSED };
        let planned = self.suites.plan()?;
        planned.show_remarks(output);
        let mut listen = |event: &Event<'_>| {
            if let Event::Suite(FinishedSuite { run, sources, .. }) = event {
                for diagnostic in &run.diagnostics {
                    let is_warning = diagnostic.severity != Severity::Error;
                    if diagnostic.code == Code::RefusedObject && is_warning {
                        refused += 1;
                        if refused > most {
                            continue;
                        }
                    }
                    output.diagnostic(diagnostic, sources);
                }
                if live && unwritten.is_none() {
                    let text = human::suite(run, sources, look, &mut shown);
                    let written = output.styled(&text).and_then(|()| output.flush());
                    unwritten = written.err();
                }
            }
        };
        let mut executed = planned.execute(Order::Sorted, &mut listen);
        if refused > most {
            let more = refused - most;
            let message = format!(
                "the API server rejects {} more object{}",
                more,
                if more == 1 { "" } else { "s" }
            );
            let diagnostic = Diagnostic::new(Code::RefusedObject, message);
            output.diagnostic(&diagnostic.with_help("`--details` shows all of them"), &Sources::new());
        }
        let mut exit = Exit::Success;
        if self.check_determinism && executed.stopped.is_none() {
            exit = exit.combine(self.again(&planned, &executed, look, output));
        }
        exit = exit.combine(self.report(&mut executed, look, unwritten, output)?);
        // Kyverno ignores an unreadable selector, unless there are no tests.
        let nothing = executed.found == 0 && (self.require_tests || !planned.remarks.0.is_empty());
        if compat && nothing {
            return Ok((Exit::Mismatch, executed));
        }
        exit = exit.combine(unreferenced::check(self.unreferenced, &executed.listed(), output));
        let exit = if compat { exit.compat() } else { exit };
        let forgiven = matches!(exit, Exit::Mismatch | Exit::Divergence | Exit::BelowThreshold) && self.exit_zero;
        Ok((if forgiven { Exit::Success } else { exit }, executed))
    }

    /// The policies of `--to`, if there are any.
    fn target(&self, output: &mut Output) -> Result<Option<Arc<Loaded>>, Failure> {
        if self.to.is_empty() {
            return Ok(None);
        }
        let mut sources = Sources::new();
        let loaded = super::prove::load(&self.to, &[], &mut sources)?;
        if output.diagnostics(&loaded.diagnostics, &sources) != Exit::Success {
            let message = "the policies of `--to` cannot be read";
            return Err(Diagnostic::new(Code::CommandLine, message).into());
        }
        // A rejected policy decides nothing: as in `diff`, that is an error of the input, and no label.
        let discovery = self.suites.settings()?.discovery;
        let mut rejected = Vec::new();
        let compared = |policy: &&Policy| policy.validates() || policy.as_native().is_some();
        for policy in loaded.policies.iter().filter(compared) {
            let own = Loaded {
                policies: vec![policy.clone()],
                ..Loaded::default()
            };
            if let Err(reason) = Side::new(own, Vec::new(), &discovery) {
                let message = format!("policy `{}` of `--to` is rejected: {reason}", policy.name());
                rejected.push(Diagnostic::new(Code::PolicyRefused, message));
            }
        }
        if rejected.is_empty() {
            return Ok(Some(Arc::new(loaded)));
        }
        Err(Failure::Input(rejected, sources))
    }

    /// All rows if a report shows the effect of the data lens on rows that pass or diverge.
    fn data_notes(&self) -> DataNotes {
        let look = self.look("", false);
        let lists_passing = look.verbose || look.details || look.level.max(self.final_status_level) >= Level::Skip;
        let mut formats = self.report.iter().map(|file| file.format).chain([self.format]);
        if lists_passing
            || self.check_determinism
            || formats.any(|format| matches!(format, Format::Json | Format::Jsonl))
        {
            DataNotes::All
        } else {
            DataNotes::Failing
        }
    }

    /// The options of the human-readable report.
    fn look<'l>(&self, replay: &'l str, color: bool) -> human::HumanOptions<'l> {
        let level = match self.status_level {
            Some(level) => level,
            None if self.fail_only => Level::Diverge,
            None if self.detailed_results || self.verbose => Level::Pass,
            None => Level::Diverge,
        };
        human::HumanOptions {
            level,
            color,
            verbose: self.verbose,
            details: self.details,
            directories: self.suites.compat,
            replay,
        }
    }

    /// Runs everything again, in another order and with another number of threads: nothing may differ.
    fn again(
        &self,
        planned: &Planned<'_>,
        first: &Executed,
        look: human::HumanOptions<'_>,
        output: &mut Output,
    ) -> Exit {
        let second = planned.execute(Order::Shuffled, &mut |_: &Event<'_>| ());
        if second.stopped.is_some() {
            return Exit::Success;
        }
        let text = |executed: &Executed| {
            let listed = executed.listed();
            let summary = Summary::of(executed.runs.iter().map(|timed| &timed.run));
            let view = ReportInput {
                all_responses: true,
                ..self.view(&listed, &summary, look, executed, Exit::Success)
            };
            report::json::render(&view)
        };
        let (first, second) = (text(first), text(&second));
        if first == second {
            return Exit::Success;
        }
        let changes = diff(Document::from(&first).root(), Document::from(&second).root());
        let place = changes.first().map_or("", |change| change.path.as_str());
        let message = format!("two runs gave different results at `{place}` in the JSON report");
        let diagnostic = Diagnostic::new(Code::NotDeterministic, message);
        output.diagnostic(&diagnostic, &Sources::new());
        Exit::Internal
    }

    fn view<'r>(
        &self,
        runs: &'r [Run<'r>],
        summary: &'r Summary,
        look: human::HumanOptions<'r>,
        executed: &'r Executed,
        exit: Exit,
    ) -> ReportInput<'r> {
        ReportInput {
            runs,
            summary,
            closing: "",
            look,
            stopped: executed.stopped.map(Stop::as_str),
            compat: self.suites.compat,
            all_responses: self.all_responses,
            detailed: self.detailed_results,
            fail_only: self.fail_only,
            times: &executed.times,
            junit_per: match self.junit_per {
                JunitPer::Case => Per::Case,
                JunitPer::Engine => Per::Engine,
            },
            junit_dialect: match self.junit_dialect {
                JunitDialect::Annotated => Dialect::Annotated,
                JunitDialect::Strict => Dialect::Strict,
            },
            shard: self.suites.selection.shard,
            exit: exit.code(),
        }
    }

    /// Writes the reports of the suites to the streams and to files. The human-readable lines of each case are already
    /// written, unless that failed.
    fn report(
        &self,
        executed: &mut Executed,
        look: human::HumanOptions<'_>,
        unwritten: Option<io::Error>,
        output: &mut Output,
    ) -> Result<Exit, Failure> {
        let mut exit: Exit = executed.runs.iter().map(|timed| exit_of(&timed.run)).collect();
        if executed.runs.iter().all(|timed| timed.run.cases.is_empty()) && executed.stopped.is_none() {
            exit = exit.combine(self.no_tests(executed, output));
        }
        if let Some(Stop::Interrupted(_)) = executed.stopped {
            exit = exit.combine(Exit::Interrupted);
        }
        let cases = executed.runs.iter().flat_map(|timed| &timed.run.cases);
        let undecided = cases.clone().filter(|case| case.outcome.is_undecided()).count();
        let cases = cases.count();
        // `kyverno test` decides these cases, so its exit code does not reflect them.
        let compat = self.suites.compat && self.unsupported == Unsupported::Warn;
        if !compat {
            exit = exit.combine(self.unsupported.check(undecided, cases, output));
        }
        let whole = || executed.runs.iter().map(|timed| &timed.run);
        let mut counts = human::summary(whole(), executed.elapsed, &executed.times.now);
        match executed.stopped {
            None => {}
            Some(Stop::MaxFail(left)) => {
                let problems = executed.runs.iter().map(FinishedSuite::problems).sum();
                let problems = counted(problems, "problem");
                let _ = writeln!(
                    counts,
                    "stopped after {problems} (`--max-fail`); {} not run",
                    counted(left, "test file")
                );
            }
            Some(Stop::Interrupted(1)) => counts.push_str("interrupted: 1 test file was not run\n"),
            Some(Stop::Interrupted(left)) => {
                let _ = writeln!(counts, "interrupted: {left} test files were not run");
            }
        }
        let mut closing = human::list(whole(), self.final_status_level, look);
        if !closing.is_empty() {
            closing.insert(0, '\n');
        }
        closing.push_str(&counts);
        closing.push_str(&human::next_steps(&executed.listed(), look));
        let divergences = human::divergences(&executed.listed(), look);
        let summary = Summary::of(whole());
        if self.fail_only {
            for timed in &mut executed.runs {
                timed.run.cases.retain(|case| CaseStatus::of(case).is_problem());
            }
        }
        let listed = executed.listed();
        let view = ReportInput {
            closing: &closing,
            ..self.view(&listed, &summary, look, executed, exit)
        };
        for file in &self.report {
            if let Err(diagnostic) = file.write(&report::render(file.format, &view)) {
                output.diagnostic(&diagnostic, &Sources::new());
                exit = exit.combine(Exit::Input);
            }
        }
        if let Some(error) = unwritten {
            return Err(error.into());
        }
        if self.format == Format::Human {
            output.styled(&divergences)?;
            output.styled(&closing)?;
        } else {
            output
                .artefact()
                .write_all(report::render(self.format, &view).as_bytes())?;
            output.remark(&counts);
        }
        if let Err(diagnostic) = github::annotate(&view, self.format, output) {
            output.diagnostic(&diagnostic, &Sources::new());
            exit = exit.combine(Exit::Input);
        }
        Ok(exit)
    }

    /// Reports why there are no tests, and returns the exit code for that.
    fn no_tests(&self, executed: &Executed, output: &mut Output) -> Exit {
        // The problems of the files have been reported.
        let broken = executed.runs.iter().any(|timed| timed.run.is_broken());
        if self.no_tests != NoTests::Pass && !broken {
            let message = self.suites.why_nothing(executed);
            let diagnostic = Diagnostic::new(Code::NoTests, format!("no tests selected: {message}"));
            output.diagnostic(&diagnostic, &Sources::new());
        }
        match self.no_tests {
            NoTests::Fail => Exit::NoTests,
            NoTests::Pass | NoTests::Warn => Exit::Success,
        }
    }
}

/// `1 problem`, `2 problems`.
fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// The exit code of a suite's run.
fn exit_of(run: &SuiteRun) -> Exit {
    let broken = run.is_broken().then_some(Exit::Input);
    let cases = run.cases.iter().map(|case| {
        if case.outcome.fails() {
            Exit::Mismatch
        } else if case.diverges() {
            Exit::Divergence
        } else {
            Exit::Success
        }
    });
    let proofs = run.proofs.iter().map(|found| match &found.found {
        proof if proof.fault => Exit::Internal,
        Proof {
            label: Label::Refuted(Kind::Decision | Kind::Action),
            ..
        } => Exit::Divergence,
        _ => Exit::Success,
    });
    broken.into_iter().chain(cases).chain(proofs).collect()
}
