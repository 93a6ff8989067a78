//! `kyvtest prove`: proves or refutes that policies are equivalent.

mod emit;
mod explain;
mod human;
mod json;
mod kube;
mod limit;
pub(super) mod pairs;
mod samples;
mod summary;
mod target;

use std::{collections::BTreeSet, io::Write as _, path::PathBuf, sync::atomic::Ordering};

use clap::ValueEnum;
use serde_json::{Value as Json, json};

pub(super) use self::{human::witness, json::region_json, pairs::witness as comparison_witness};
use self::{
    human::{human, markdown},
    json::{json_of, policy_json},
    limit::Limit,
    samples::Samples,
};
use super::{
    Exit, Failure,
    cluster::{Cluster, KyvernoConfig},
    color::HEADING,
    config::Source,
    convert::repair::documents,
    data::DataLens,
    format::{OutputFormat, ReportFormat},
    input, interrupt,
    output::Output,
    progress::Progress,
};
use crate::{
    author::counterexample,
    run::{Data, Settings},
};
use kyvtest_convert::{Exceptions, RefusalCode, missing_kind};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Severity, Sources, Span},
    yaml::{self, Limits, Mode},
};
use kyvtest_kyverno::config::Config;
use kyvtest_model::{
    kube::Discovery,
    policy::{self, Loaded, Policy, Purpose},
};
use kyvtest_prove::{
    Label, Layer, Options, Proof, Target, body,
    mutation::{MutatingTarget, prove_mutating},
    prove,
    repair::{Repair, Repaired, repair},
};

/// Prove that two policies are equivalent, or find a request on which they differ
///
/// Compares each policy with the ValidatingAdmissionPolicy or MutatingAdmissionPolicy that Kyverno would generate from it, or
/// with those given by `--to`, on every request that can occur. The line `world` below each label names the assumptions.
///
/// PROVEN: every request has the same effect, and the objects after admission are equal. PROVEN-MATCH: both apply to the same requests; the expressions were only
/// tested. TESTED: no difference on the requests that were tried. REFUTED: a request follows that the engines decide
/// differently. NOT-CONVERTIBLE: there is no native policy. UNKNOWN: neither proven nor refuted. See `kyvtest explain
/// LABEL`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files with policies, or directories that are searched for them; `-` is standard input
    #[arg(value_name = "POLICY", required_unless_present_any = ["pairs", "from"])]
    policies: Vec<PathBuf>,

    /// Files with the policies to compare with instead of the generated ones: native policies with their bindings, or
    /// policies of any kind
    #[arg(long, value_name = "FILE")]
    to: Vec<PathBuf>,

    /// A directory whose policies are compared with those of the same name in `--to`
    #[arg(long, value_name = "DIR", requires = "to", conflicts_with = "policies")]
    from: Option<PathBuf>,

    /// A file of JSON lines `{"id", "a": [objects], "b": [objects]}`, each a pair to compare; prints a line for each
    #[arg(long, value_name = "FILE", conflicts_with_all = ["policies", "to", "from"])]
    pairs: Option<PathBuf>,

    /// Deletions to compare, for policies of any kind [default: named,collection]
    #[arg(long, value_name = "MODES", value_enum)]
    delete: Option<pairs::Deletions>,

    /// Files with PolicyExceptions
    #[arg(long, value_name = "FILE")]
    exception: Vec<PathBuf>,

    /// Files with resources, or directories with suites, whose objects to try first
    ///
    /// The resources of a suite beside the policy are tried in any case.
    #[arg(long, value_name = "PATH")]
    resources: Vec<PathBuf>,

    /// Compare rules, the whole admission controller, or also Kyverno's configuration
    #[arg(long, value_enum, default_value_t)]
    layer: LayerWord,

    /// Exit with code 5 if a label is weaker than LABEL
    #[arg(long, value_name = "LABEL", value_enum, default_value_t)]
    require: Required,

    /// Print the assumptions of proofs and how much work they took; with `--pairs`, explain refutations
    #[arg(long)]
    explain: bool,

    #[command(flatten)]
    output: OutputFormat<ReportFormat>,

    #[command(flatten)]
    config: Source,

    #[command(flatten)]
    cluster: Cluster,

    #[command(flatten)]
    kyverno_config: KyvernoConfig,

    #[command(flatten)]
    data: DataLens,

    /// The Kubernetes release whose CEL environment native policies use
    #[arg(long, value_name = "VERSION", value_enum, default_value_t)]
    kube: kube::Kube,

    /// Also compare the messages of denials
    #[arg(long)]
    messages: bool,

    /// Also compare warnings to the client: a generated `[Audit, Warn]` binding warns, Kyverno does not
    #[arg(long)]
    warnings: bool,

    /// Replay requests for every path, and many requests against every proof
    #[arg(long)]
    paranoid: bool,

    /// Write each counterexample as a suite into its own directory below DIR
    #[arg(long, value_name = "DIR", conflicts_with = "to")]
    emit_cases: Option<PathBuf>,

    /// Give up on a policy after N paths [default: 500000]
    ///
    /// For policies of any kind, N limits the cases of one query; the default is then 8000.
    #[arg(long, value_name = "N")]
    budget: Option<u64>,

    /// Give up on a policy or pair after SECONDS; the label is then UNKNOWN
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
}

/// The part of Kyverno that a proof includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum LayerWord {
    Rule,
    #[default]
    Policy,
    Cluster,
}

impl LayerWord {
    pub(super) const fn layer(self) -> Layer {
        match self {
            Self::Rule => Layer::Rule,
            Self::Policy => Layer::Policy,
            Self::Cluster => Layer::Cluster,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Required {
    Proven,
    Bounded,
    Match,
    #[default]
    Tested,
}

impl Required {
    const fn strength(self) -> u8 {
        match self {
            Self::Proven => 4,
            Self::Bounded => 3,
            Self::Match => 2,
            Self::Tested => 1,
        }
    }
}

/// A policy with its proof.
struct Row {
    policy: Json,
    original: Policy,
    proof: Proof,
    /// A repaired native policy, if the compared one is not equivalent.
    fix: Option<Box<Repaired>>,
}

/// The assumptions of every proof.
const TRUST: &str = "\
A proof rests on: the engines decide as Kyverno and the API server do; what holds in every cluster (a namespace's name label is its
name, objects have the request's name and namespace, the items of a collection delete have no request name) holds in yours; the
kinds are those of the world line. It says nothing about texts of messages, nor about what expressions may cost.
";

impl Args {
    /// Rejects the options that the comparison of arbitrary policy kinds does not support: none is ignored silently.
    fn check_any_pair(&self) -> Result<(), Failure> {
        let why_messages = "messages of policies of different kinds always differ";
        let why_native = "it applies to a policy and its native counterpart: `kyvtest prove POLICY`";
        let given = [
            ("--kube", self.kube != kube::Kube::default(), why_native),
            ("--messages", self.messages, why_messages),
            ("--warnings", self.warnings, why_native),
            ("--resources", !self.resources.is_empty(), why_native),
            (
                "--output markdown",
                self.output.format == ReportFormat::Markdown,
                "use `-o human` or `-o json`",
            ),
        ];
        let Some((option, _, help)) = given.into_iter().find(|(_, given, _)| *given) else {
            return Ok(());
        };
        let message = format!("`{option}` is not available when policies of any kind are compared");
        Err(Diagnostic::new(Code::CommandLine, message).with_help(help).into())
    }

    /// Rejects the options that only the comparison of arbitrary policy kinds supports.
    fn check_native_pair(&self) -> Result<(), Failure> {
        if self.delete.is_none() {
            return Ok(());
        }
        let message = "`--delete` is only available when policies of any kind are compared";
        let help = "the comparison with a native counterpart has both named and collection deletions";
        Err(Diagnostic::new(Code::CommandLine, message).with_help(help).into())
    }

    /// The settings for comparing arbitrary policy kinds.
    fn comparison<'a>(&self, discovery: &'a Discovery, options: &Options<'_>) -> pairs::Setup<'a> {
        let delete = self.delete.unwrap_or_default();
        let defaults = body::Options::default();
        pairs::Setup {
            discovery,
            setting: body::Setting {
                layer: options.layer,
                config: options.config.clone(),
            },
            options: body::Options {
                collections: delete == pairs::Deletions::Collection,
                data: options.data,
                cases: self.budget.unwrap_or(defaults.cases),
                now: options.now,
                checks: if self.paranoid {
                    body::Options::THOROUGH
                } else {
                    defaults.checks
                },
                ..defaults
            },
            world: pairs::world(discovery, delete, options.layer, options.data),
            timeout: self.timeout,
            explain: self.explain || self.pairs.is_none(),
        }
    }

    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let discovery = self.cluster.discovery()?;
        let options = Options {
            layer: self.layer.layer(),
            config: self.kyverno_config.read("chart")?,
            now: self.cluster.clock()?,
            paths: self.budget.unwrap_or(500_000),
            exempt: true,
            paranoid: self.paranoid,
            messages: self.messages,
            warnings: self.warnings,
            kube: self.kube.profile(),
            data: self.data.or(Data::Normalised),
            samples: &[],
            stop: Some(interrupt::flag()),
            spoil: None,
        };
        if options.layer != Layer::Cluster && self.kyverno_config.is_given() {
            let message = "`--kyverno-config` has no effect without `--layer cluster`";
            let diagnostic = Diagnostic::new(Code::CommandLine, message).with_severity(Severity::Warning);
            output.diagnostic(&diagnostic, &Sources::new());
        }
        if let Some(file) = &self.pairs {
            self.check_any_pair()?;
            return pairs::run(file, &self.comparison(&discovery, &options), output);
        }
        let mut sources = Sources::new();
        let policies = self
            .from
            .as_slice()
            .iter()
            .chain(&self.policies)
            .cloned()
            .collect::<Vec<_>>();
        let loaded = load(&policies, &self.exception, &mut sources)?;
        let native = load(&self.to, &[], &mut sources)?;
        let exit = output.diagnostics(&loaded.diagnostics, &sources);
        let mut exit = exit.combine(output.diagnostics(&native.diagnostics, &sources));
        if self.from.is_some() || pairs::concerns(&loaded, &native) {
            self.check_any_pair()?;
            let mut samples = Samples::read(&[], output)?;
            let origins = loaded
                .policies
                .iter()
                .chain(&native.policies)
                .map(|policy| policy.origin().file);
            let files: BTreeSet<&str> = origins.filter_map(|file| sources.name(file)).collect();
            let samples: Vec<Json> = files.into_iter().flat_map(|file| samples.of(file)).collect();
            let shown = pairs::Shown {
                sources: &sources,
                by_name: self.from.is_some(),
                as_json: self.output.format == ReportFormat::Json,
                required: self.require.strength(),
                samples: &samples,
            };
            let setup = self.comparison(&discovery, &options);
            let compared = pairs::sets(&loaded, &native, &setup, &shown, output)?;
            return Ok(exit.combine(compared));
        }
        self.check_native_pair()?;
        if !self.to.is_empty() {
            target::check(&self.to, (&loaded, &native), &discovery, &sources, output)?;
        }
        let mutating_target = (!self.to.is_empty()).then(|| MutatingTarget {
            policies: native.native_mutating().cloned().collect(),
            bindings: native.mutating_bindings.clone(),
        });
        let target = (!self.to.is_empty()).then_some(Target {
            policies: native.native().cloned().collect(),
            bindings: native.bindings,
        });
        let exceptions = Exceptions {
            classic: &loaded.exceptions,
            cel: &loaded.cel_exceptions,
        };
        for policy in &loaded.policies {
            if let Some(reason) = missing_kind(policy.kind()) {
                output.diagnostic(&not_compared(policy, reason), &sources);
            }
        }
        let originals = originals(&loaded);
        let mut samples = Samples::read(&self.resources, output)?;
        let progress = Progress::new(originals.len(), "policies", true);
        let rows: Vec<Row> = originals
            .into_iter()
            .map(|original| {
                let own = samples.of(sources.name(original.origin().file).unwrap_or_default());
                let limit = Limit::new(self.timeout);
                let options = Options {
                    samples: &own,
                    stop: Some(limit.flag()),
                    ..options.clone()
                };
                let mut proof = if original.as_mutating().is_some() {
                    let (target, stop) = (mutating_target.as_ref(), Some(limit.shared()));
                    prove_mutating(&original, exceptions, target, &discovery, &options, stop)
                } else {
                    prove(&original, exceptions, target.as_ref(), &discovery, &options)
                };
                if limit.is_over() && proof.label == Label::Unknown {
                    proof.reason = limit.reason();
                }
                let fix = fix(&proof, &original, exceptions, &discovery, &options);
                progress.step();
                Row {
                    proof,
                    fix,
                    policy: policy_json(&original, &sources),
                    original,
                }
            })
            .collect();
        drop(progress);
        if interrupt::flag().load(Ordering::Relaxed) {
            exit = exit.combine(Exit::Interrupted);
        }
        if rows.is_empty() && exit == Exit::Success {
            let help = "ClusterPolicies, ValidatingPolicies and MutatingPolicies can be compared with native policies";
            let diagnostic = Diagnostic::new(Code::NothingToConvert, "no policy to compare").with_help(help);
            return Err(diagnostic.into());
        }
        match self.output.format {
            ReportFormat::Json => {
                let proofs: Vec<Json> = rows.iter().map(json_of).collect();
                let text = format!(
                    "{:#}\n",
                    json!({"version": 1, "now": options.now.map(|now| now.to_string()), "proofs": proofs})
                );
                output.artefact().write_all(text.as_bytes())?;
            }
            ReportFormat::Markdown => output.artefact().write_all(markdown(&rows).as_bytes())?,
            ReportFormat::Human => {
                for (i, row) in rows.iter().enumerate() {
                    let gap = if i > 0 { "\n" } else { "" };
                    output.styled(&format!("{gap}{}", human(row, self.explain)))?;
                }
                if rows.len() > 1 {
                    output.styled(&format!("\n{}", summary::table(&rows)))?;
                }
                if self.explain {
                    output.styled(&format!("\n{TRUST}"))?;
                }
            }
        }
        if let Some(directory) = &self.emit_cases {
            let exceptions = counterexample::exceptions(&loaded);
            let settings = Settings {
                discovery,
                now: options.now,
                config: if options.layer == Layer::Cluster {
                    options.config.clone()
                } else {
                    Config::bare()
                },
                data: options.data,
                ..Settings::new(false)
            };
            for row in &rows {
                let left_out = emit::emit(directory, &row.original, &exceptions, &row.proof.regions, &settings)?;
                for diagnostic in &left_out {
                    output.diagnostic(diagnostic, &sources);
                }
            }
        }
        let exits = rows.iter().map(|row| exit_of(&row.proof, self.require));
        Ok(exits.fold(exit, Exit::combine))
    }
}

fn exit_of(proof: &Proof, required: Required) -> Exit {
    if proof.fault {
        return Exit::Internal;
    }
    match (&proof.label, proof.label.strength()) {
        (Label::Refuted(_), _) => Exit::Divergence,
        (_, Some(strength)) if strength >= required.strength() => Exit::Success,
        _ => Exit::BelowThreshold,
    }
}

/// The path limit for proving a repair, which is only a hint.
const FIX_PATHS: u64 = 20_000;

/// The repair of a refuted policy, if one is proven.
fn fix(
    proof: &Proof,
    original: &Policy,
    exceptions: Exceptions<'_>,
    discovery: &Discovery,
    options: &Options<'_>,
) -> Option<Box<Repaired>> {
    if !matches!(proof.label, Label::Refuted(_)) {
        return None;
    }
    let options = Options {
        paths: options.paths.min(FIX_PATHS),
        ..options.clone()
    };
    match repair(original, exceptions, discovery, &options) {
        Repair::Done(repaired) => Some(repaired),
        Repair::Refused(_) => None,
    }
}

/// Describes a repair in one line.
fn fix_text(fix: &Repaired) -> String {
    let steps = fix.steps.iter().map(|step| step.text);
    let texts: Vec<&str> = steps.chain(fix.remarks.iter().map(String::as_str)).collect();
    if texts.is_empty() {
        "the same rules in explicit form".to_owned()
    } else {
        texts.join("; ")
    }
}

pub(super) fn load(policies: &[PathBuf], exceptions: &[PathBuf], sources: &mut Sources) -> Result<Loaded, Failure> {
    let mut loaded = Loaded::default();
    let files = policies.iter().map(|path| (path, Purpose::Policies));
    let exceptions = exceptions.iter().map(|path| (path, Purpose::Exceptions));
    let exceptions = exceptions.map(|(path, purpose)| (path.clone(), purpose));
    let files = files.flat_map(|(path, purpose)| {
        let found = if path.is_dir() {
            input::policy_files(path)
        } else {
            vec![path.clone()]
        };
        found.into_iter().map(move |path| (path, purpose))
    });
    for (path, purpose) in files.chain(exceptions) {
        let path = &path;
        let file = input::read(path, sources)?;
        let text = sources.text(file).cloned().unwrap_or_default();
        let stream = yaml::read(text.as_bytes(), Mode::Lax, &Limits::default());
        policy::load(stream, file, purpose, &mut loaded);
    }
    Ok(loaded)
}

/// Reports a policy of a kind without native counterpart.
fn not_compared(policy: &Policy, reason: &str) -> Diagnostic {
    let code = RefusalCode::UnsupportedKind.as_str();
    let message = format!("{} `{}` is not compared: {code}", policy.kind(), policy.name());
    let span = policy.origin().span;
    let start = Span::point(span.file, span.start);
    let diagnostic = Diagnostic::at(Code::NotConverted, start, message);
    diagnostic.with_severity(Severity::Warning).with_help(reason)
}

/// Every policy in the order of the files.
pub(super) fn originals(loaded: &Loaded) -> Vec<Policy> {
    let compared = |policy: &&Policy| policy.validates() || policy.as_mutating().is_some();
    let mut all: Vec<Policy> = loaded.policies.iter().filter(compared).cloned().collect();
    all.sort_by_key(|policy| {
        let origin = policy.origin();
        (origin.file, origin.document, origin.span.start)
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use kyvtest_prove::{Stats, World};

    #[test]
    fn a_contradiction_is_an_internal_error() {
        let mut proof = Proof {
            label: Label::Proven,
            reason: String::new(),
            world: World {
                kyverno: "1.19",
                kube: "1.36",
                discovery: "ga+2".to_owned(),
                layer: Layer::Policy,
                data: "normalised",
                delete: "named,collection",
            },
            regions: Vec::new(),
            notes: Vec::new(),
            stats: Stats::default(),
            fault: false,
        };
        assert_eq!(exit_of(&proof, Required::Tested), Exit::Success);
        proof.fault = true;
        assert_eq!(exit_of(&proof, Required::Tested), Exit::Internal);
        assert_eq!(Exit::Internal.code(), 70);
    }
}
