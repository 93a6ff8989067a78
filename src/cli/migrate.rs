//! `kyvtest migrate`: the policies that replace ClusterPolicies, each rule proven, tested or refused with a code.

mod files;
mod report;
mod suites;

use std::{io::Write as _, path::PathBuf, sync::Arc};

use clap::ValueEnum;
use rayon::prelude::*;

use super::{
    Exit, Failure,
    cluster::Cluster,
    format::{OutputFormat, ReportFormat},
    input, interrupt,
    output::Output,
};
use kyvtest_convert::Exceptions;
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, FileId, Sources, Span},
    value::Document,
    yaml::{self, Limits, Mode, emit::Emitter},
};
use kyvtest_migrate::{
    Existing, MigratedException, MigratedRule, Migration, Options, Refusal, Replaced, RuleLabel, migrate,
    migrate_cleanup, migrate_exception,
};
use kyvtest_model::{
    kube::Discovery,
    policy::{self, Loaded, Policy, PolicyException, Purpose},
};
use kyvtest_prove::{
    body::Side,
    repair::{Repair, repair},
};
use serde_json::Value as Json;

/// Migrate ClusterPolicies to ValidatingPolicies and the other new kinds, rule by rule
///
/// Writes the policies that replace ClusterPolicies, Policies and cleanup policies. Rules that validate or mutate are compared with
/// their translation on every request that can occur; rules that generate, delete or verify images on many. A rule whose
/// translation decides a request differently or makes another object, or that has no translation, is not written: the report
/// names the construct, its place and what to do by hand.
///
/// PolicyExceptions are rewritten with the policies that they name, and so are the test files (kyverno-test.yaml) of directories:
/// with `--out`, new policies, test files and the files that they read are written below DIR as they are arranged below PATH.
///
/// PROVEN: every request has the same effect. TESTED: no difference on the requests that were tried. NOT-MIGRATED: no
/// policy was written for the rule.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files with policies, or directories that are searched for them; `-` is standard input
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,

    /// Write a file for each policy to this directory, and rewritten test files [default: standard output]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Overwrite existing files
    #[arg(long, requires = "out")]
    force: bool,

    #[command(flatten)]
    output: OutputFormat<ReportFormat>,

    /// Print the change of each document instead of the new policies
    #[arg(long, conflicts_with = "out")]
    diff: bool,

    /// Explain each label: why it is not better, and the request that a refused translation decides differently
    #[arg(long)]
    explain: bool,

    /// Exit with code 5 if a label is weaker than LABEL
    #[arg(long, value_name = "LABEL", value_enum, default_value_t)]
    require: Required,

    /// How to treat updates of objects that already violated a rule
    ///
    /// Kyverno lets them through unless a rule says `allowExistingViolations: false`. `keep` writes that into the new policy,
    /// `drop` leaves it out and prints a request that is then refused.
    #[arg(long, value_name = "MODE", value_enum, default_value_t)]
    existing_violations: ExistingWord,

    /// Write separate policies for each rule
    ///
    /// By default rules share a policy if their policies differ only in validations and variables, and no error can hide a
    /// violation. An exception then lifts all of these rules: split policies if exceptions for single rules are elsewhere.
    #[arg(long)]
    split: bool,

    /// Continue to ValidatingAdmissionPolicies if the policy has a proven native form
    #[arg(long, value_name = "KIND", value_enum)]
    to: Option<Kind>,

    #[command(flatten)]
    cluster: Cluster,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Required {
    Proven,
    Bounded,
    #[default]
    Tested,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum ExistingWord {
    #[default]
    Keep,
    Drop,
}

/// The target kinds of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Vap,
}

/// A policy of the input and its migration.
struct Row {
    policy: Policy,
    migration: Migration,
    /// The new objects, as they are written.
    objects: Vec<Json>,
    /// The comments at the head of the policy's document.
    head: String,
    notes: Vec<String>,
}

impl Row {
    fn file(&self) -> FileId {
        self.policy.origin().file
    }

    /// The name in rows and exceptions.
    fn key(&self) -> String {
        match self.policy.namespace() {
            Some(namespace) if matches!(self.policy.kind(), "Policy" | "CleanupPolicy") => {
                format!("{namespace}/{}", self.policy.name())
            }
            _ => self.policy.name().to_owned(),
        }
    }

    fn rules(&self) -> &[MigratedRule] {
        &self.migration.rules
    }

    /// The new policies as YAML documents, below the comments at the head of the old one.
    fn yaml(&self) -> String {
        if self.objects.is_empty() {
            return String::new();
        }
        format!("{}{}", self.head, documents(&self.objects))
    }
}

/// Objects as YAML documents.
fn documents(objects: &[Json]) -> String {
    let mut emitter = Emitter::new();
    for object in objects {
        emitter.document();
        Document::from(object).root().emit(&mut emitter);
    }
    emitter.finish()
}

/// The comments at the head of a document.
fn head(span: Span, sources: &Sources) -> String {
    let text = sources.text(span.file).map_or("", |text| text);
    let before = text.get(..span.start as usize).unwrap_or_default();
    let own = before.rfind("\n---").map_or(before, |at| &before[at + 1..]);
    let own = own
        .lines()
        .chain(text.get(span.start as usize..).into_iter().flat_map(str::lines));
    let own = own.filter(|line| !line.starts_with("---") && !line.trim().is_empty());
    let comments = own.take_while(|line| line.starts_with('#'));
    comments.flat_map(|line| [line, "\n"]).collect()
}

/// An exception of the input and its migration.
struct ExceptionRow {
    exception: Arc<PolicyException>,
    /// `None` if it names no migrated rule.
    result: Result<Option<MigratedException>, Refusal>,
}

impl ExceptionRow {
    /// Whether rules that were not migrated still need it.
    fn stays(&self) -> bool {
        match &self.result {
            Ok(Some(migrated)) => !migrated.remaining.is_empty(),
            Ok(None) | Err(_) => true,
        }
    }

    /// The new exception as a YAML document; empty if there is none.
    fn yaml(&self) -> String {
        let mut emitter = Emitter::new();
        if let Ok(Some(migrated)) = &self.result {
            emitter.document();
            Document::from(&migrated.object).root().emit(&mut emitter);
        }
        emitter.finish()
    }
}

/// All results of a run of the command.
struct Outcome {
    rows: Vec<Row>,
    exceptions: Vec<ExceptionRow>,
    rewritten: Vec<suites::Rewritten>,
}

impl Outcome {
    fn suites(&self) -> impl Iterator<Item = &suites::SuiteRow> {
        self.rewritten.iter().flat_map(|rewritten| &rewritten.suites)
    }
}

impl Args {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let discovery = self.cluster.discovery()?;
        let mut sources = Sources::new();
        let loaded = self.load(&mut sources)?;
        let mut exit = output.diagnostics(&loaded.diagnostics, &sources);
        if !loaded.policies.iter().any(is_migrated) && exit == Exit::Success {
            let help = "ClusterPolicies, Policies and cleanup policies can be migrated";
            return Err(Diagnostic::new(Code::NothingToConvert, "no policy to migrate")
                .with_help(help)
                .into());
        }
        let rows = self.rows(&loaded, &discovery, &sources);
        if interrupt::flag().load(std::sync::atomic::Ordering::Relaxed) {
            return Ok(Exit::Interrupted);
        }
        let outcome = self.outcome(rows, &loaded, &sources)?;
        if let Some(directory) = &self.out {
            files::write(directory, self.force, &outcome, &sources)?;
        }
        self.print(&outcome, &sources, output)?;
        let refused = outcome.suites().any(|suite| suite.refusal.is_some());
        let rows = outcome.rows;
        if refused || outcome.exceptions.iter().any(|row| row.result.is_err()) {
            exit = exit.combine(Exit::BelowThreshold);
        }
        let weak = |rule: &MigratedRule| match rule.label {
            RuleLabel::Proven => false,
            RuleLabel::Bounded(_) => self.require == Required::Proven,
            RuleLabel::Tested(_) => self.require != Required::Tested,
            RuleLabel::NotMigrated(_) => true,
        };
        if rows.iter().flat_map(Row::rules).any(weak) {
            exit = exit.combine(Exit::BelowThreshold);
        }
        Ok(exit)
    }

    fn load(&self, sources: &mut Sources) -> Result<Loaded, Failure> {
        let mut loaded = Loaded::default();
        for path in &self.paths {
            let files = if path.is_dir() {
                input::policy_and_exception_files(path)
            } else {
                vec![path.clone()]
            };
            for path in files {
                let file = input::read(&path, sources)?;
                let text = sources.text(file).cloned().unwrap_or_default();
                let stream = yaml::read(text.as_bytes(), Mode::Lax, &Limits::default());
                policy::load(stream, file, Purpose::Policies, &mut loaded);
            }
        }
        Ok(loaded)
    }

    /// Migrates the exceptions, and rewrites the test files of directories.
    fn outcome(&self, rows: Vec<Row>, loaded: &Loaded, sources: &Sources) -> Result<Outcome, Failure> {
        let replaced: Vec<Replaced> = rows
            .iter()
            .map(|row| Replaced {
                key: row.key(),
                migration: row.migration.clone(),
            })
            .collect();
        let exceptions: Vec<ExceptionRow> = loaded
            .exceptions
            .iter()
            .map(|exception| ExceptionRow {
                result: migrate_exception(exception, &replaced),
                exception: Arc::clone(exception),
            })
            .collect();
        let mut rewritten = Vec::new();
        // Test files name ValidatingPolicies, not their native forms.
        if self.to.is_none() {
            for directory in self.paths.iter().filter(|path| path.is_dir()) {
                rewritten.push(suites::rewritten(
                    directory,
                    &rows,
                    &exceptions,
                    sources,
                    self.cluster.clock()?,
                )?);
            }
        }
        Ok(Outcome {
            rows,
            exceptions,
            rewritten,
        })
    }

    /// Migrates every policy, in the order of the files.
    fn rows(&self, loaded: &Loaded, discovery: &Discovery, sources: &Sources) -> Vec<Row> {
        let options = Options {
            existing: match self.existing_violations {
                ExistingWord::Keep => Existing::Keep,
                ExistingWord::Drop => Existing::Drop,
            },
            split: self.split,
            exceptions: loaded.exceptions.clone(),
            ..Options::default()
        };
        let policies: Vec<&Policy> = loaded.policies.iter().filter(|policy| is_migrated(policy)).collect();
        policies
            .into_par_iter()
            .map(|policy| {
                let migration = match policy {
                    Policy::Classic(policy) => migrate(policy, discovery, &options),
                    Policy::Cleanup(policy) => migrate_cleanup(policy, discovery, &options),
                    _ => Migration { rules: Vec::new() },
                };
                let mut row = Row {
                    head: head(policy.origin().span, sources),
                    policy: policy.clone(),
                    objects: migration.objects().cloned().collect(),
                    migration,
                    notes: Vec::new(),
                };
                if self.to == Some(Kind::Vap) {
                    nativise(&mut row, discovery);
                }
                row
            })
            .collect()
    }

    fn print(&self, outcome: &Outcome, sources: &Sources, output: &mut Output) -> Result<(), Failure> {
        let rows = &outcome.rows;
        match self.output.format {
            ReportFormat::Json => {
                let text = format!("{:#}\n", report::json(outcome, sources));
                output.artefact().write_all(text.as_bytes())?;
            }
            ReportFormat::Markdown => {
                let text = report::markdown(outcome, sources, self.explain);
                output.artefact().write_all(text.as_bytes())?;
            }
            ReportFormat::Human => {
                if self.diff {
                    output.artefact().write_all(report::diff(outcome, sources).as_bytes())?;
                } else if self.out.is_none() {
                    let exceptions = outcome.exceptions.iter().map(ExceptionRow::yaml);
                    let texts = rows.iter().map(Row::yaml).chain(exceptions);
                    let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
                    output.artefact().write_all(texts.join("---\n").as_bytes())?;
                }
                let text = report::human(outcome, sources, self.explain);
                if self.out.is_some() {
                    output.styled(&text)?;
                } else {
                    output.remark(&text);
                }
            }
        }
        Ok(())
    }
}

/// Whether a policy is of a kind that is migrated.
fn is_migrated(policy: &Policy) -> bool {
    policy.as_classic().is_some() || policy.as_cleanup().is_some()
}

/// Replaces ValidatingPolicies by native policies if the equivalence is proven.
fn nativise(row: &mut Row, discovery: &Discovery) {
    let mut objects = Vec::new();
    for object in std::mem::take(&mut row.objects) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let side = Side::from_objects(std::slice::from_ref(&object), discovery).ok();
        let policy = side.and_then(|side| side.loaded().validating().next().cloned());
        let Some(policy) = policy else {
            objects.push(object);
            continue;
        };
        let original = Policy::Validating(policy);
        let options = kyvtest_prove::Options {
            stop: Some(interrupt::flag()),
            ..kyvtest_prove::Options::default()
        };
        let exceptions = Exceptions { classic: &[], cel: &[] };
        match repair(&original, exceptions, discovery, &options) {
            Repair::Done(repaired) => {
                let documents = super::convert::repair::documents(&repaired);
                objects.extend(documents.into_iter().map(|document| document.root().to_serde()));
            }
            Repair::Refused(refused) => {
                row.notes.push(format!(
                    "`{name}` stays a ValidatingPolicy ({}): {}",
                    refused.code, refused.reason
                ));
                objects.push(object);
            }
        }
    }
    row.objects = objects;
}
