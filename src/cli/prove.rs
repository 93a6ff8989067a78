//! `kyvtest prove`: is the native policy the same policy, for all requests?

mod emit;
mod kube;
mod pairs;
mod summary;
mod target;

use std::{
    fmt::Write as _,
    io::Write as _,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

use clap::ValueEnum;
use serde_json::{Value as Json, json};

use super::{
    Exit, Failure,
    cluster::{Cluster, KyvernoConfig},
    color::{HEADING, LITERAL},
    convert::repair::documents,
    input, interrupt,
    output::Output,
    progress::Progress,
};
use crate::run::{Settings, counterexample};
use kyvtest_convert::Exceptions;
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Severity, Sources},
    value::Value,
    yaml::{self, Limits, Mode},
};
use kyvtest_kyverno::config::Config;
use kyvtest_model::{
    kube::Discovery,
    policy::{self, Loaded, Metadata, Origin, Purpose},
    verdict::Verdict,
};
use kyvtest_prove::{
    Label, Layer, Options, Proof, Region, Target,
    pair::Original,
    prove,
    repair::{Repair, Repaired, repair},
    witness::Situation,
};

/// Prove that two policies are equivalent, or find a request on which they differ
///
/// Compares each policy with the ValidatingAdmissionPolicy that Kyverno would generate from it, or with those given by `--to`,
/// on every request that can occur. The line `world` below each label names the assumptions.
///
/// PROVEN: every request has the same effect. PROVEN-MATCH: both apply to the same requests; the expressions were only tested.
/// TESTED: no difference on the requests that were tried. REFUTED: a request follows that the engines decide differently.
/// NOT-CONVERTIBLE: there is no native policy. UNKNOWN: neither proven nor refuted. `kyvtest explain LABEL` says more.
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

    /// Which deletions are compared where policies of any kind are
    #[arg(long, value_name = "MODES", value_enum, default_value_t)]
    delete: pairs::Deletions,

    /// Files with PolicyExceptions
    #[arg(long, value_name = "FILE")]
    exception: Vec<PathBuf>,

    /// How much of Kyverno is compared: rules, the admission controller, or also its configuration
    #[arg(long, value_enum, default_value_t)]
    layer: LayerWord,

    /// Exit with code 5 if a label is weaker than LABEL
    #[arg(long, value_name = "LABEL", value_enum, default_value_t)]
    require: Required,

    /// Print the assumptions of proofs and how much work they took
    #[arg(long)]
    explain: bool,

    /// The output format
    #[arg(
        short = 'o',
        long = "output",
        alias = "format",
        value_name = "FORMAT",
        value_enum,
        default_value_t
    )]
    format: Format,

    #[command(flatten)]
    cluster: Cluster,

    #[command(flatten)]
    kyverno_config: KyvernoConfig,

    /// The release of Kubernetes whose CEL the native policies are read with
    #[arg(long, value_name = "VERSION", value_enum, default_value_t)]
    kube: kube::Kube,

    /// Also compare the messages of denials
    #[arg(long)]
    messages: bool,

    /// Also compare warnings to the client: a generated `[Audit, Warn]` binding warns, Kyverno does not
    #[arg(long)]
    warnings: bool,

    /// Replay requests for every path and every proof
    #[arg(long)]
    paranoid: bool,

    /// Write each counterexample as a suite into its own directory below DIR
    #[arg(long, value_name = "DIR", conflicts_with = "to")]
    emit_cases: Option<PathBuf>,

    /// How many paths to follow for one policy
    #[arg(long, value_name = "N", default_value_t = 500_000)]
    budget: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Format {
    #[default]
    Human,
    Json,
    Markdown,
}

/// How much of Kyverno counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum LayerWord {
    Rule,
    #[default]
    Policy,
    Cluster,
}

impl LayerWord {
    /// The layer.
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

/// A policy and what is known of it.
struct Row {
    policy: Json,
    original: Original,
    proof: Proof,
    /// Native policies that are the same policy, where the one that was compared is not.
    fix: Option<Box<Repaired>>,
}

/// What every proof rests on.
const TRUST: &str = "\
A proof rests on: the engines decide as Kyverno and the API server do; what holds in every cluster (a namespace's name label is its
name, objects have the request's name and namespace, the items of a collection delete have no request name) holds in yours; the
kinds are those of the world line. It says nothing about texts of messages, nor about what expressions may cost.
";

impl Args {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let discovery = self.cluster.discovery()?;
        let options = Options {
            layer: self.layer.layer(),
            config: self.kyverno_config.read("chart")?,
            now: self.cluster.clock()?,
            paths: self.budget,
            exempt: true,
            paranoid: self.paranoid,
            messages: self.messages,
            warnings: self.warnings,
            kube: self.kube.profile(),
            stop: Some(interrupt::flag()),
            spoil: None,
        };
        if let Some(file) = &self.pairs {
            return pairs::run(file, &discovery, self.delete, output);
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
        let mut exit = Exit::Success;
        for diagnostic in loaded.diagnostics.iter().chain(&native.diagnostics) {
            output.diagnostic(diagnostic, &sources);
            if diagnostic.severity == Severity::Error {
                exit = Exit::Input;
            }
        }
        if self.from.is_some() || pairs::concerns(&loaded, &native) {
            let shown = pairs::Shown {
                // Kyverno's configuration is not compared with that of another side.
                layer: if options.layer == Layer::Rule {
                    Layer::Rule
                } else {
                    Layer::Policy
                },
                by_name: self.from.is_some(),
                as_json: self.format == Format::Json,
                required: self.require.strength(),
            };
            let compared = pairs::sets(&loaded, &native, (&discovery, self.delete), &shown, output)?;
            return Ok(exit.combine(compared));
        }
        if !self.to.is_empty() {
            target::check(&self.to, &native, &discovery, &sources, output)?;
        }
        let target = (!self.to.is_empty()).then_some(Target {
            policies: native.vaps,
            bindings: native.bindings,
        });
        let exceptions = Exceptions {
            classic: &loaded.exceptions,
            cel: &loaded.cel_exceptions,
        };
        let originals = originals(&loaded);
        let progress = Progress::new(originals.len(), "policies", true);
        let rows: Vec<Row> = originals
            .into_iter()
            .map(|(original, policy)| {
                let proof = prove(&original, exceptions, target.as_ref(), &discovery, &options);
                let fix = fix(&proof, &original, exceptions, &discovery, &options);
                progress.step();
                Row {
                    proof,
                    fix,
                    policy: policy_json(&original, policy, &sources),
                    original,
                }
            })
            .collect();
        drop(progress);
        if interrupt::flag().load(Ordering::Relaxed) {
            exit = exit.combine(Exit::Interrupted);
        }
        if rows.is_empty() && exit == Exit::Success {
            let help = "ClusterPolicies and ValidatingPolicies can be compared with native policies";
            let diagnostic = Diagnostic::new(Code::NothingToConvert, "no policy to compare").with_help(help);
            return Err(diagnostic.into());
        }
        match self.format {
            Format::Json => {
                let proofs: Vec<Json> = rows.iter().map(json_of).collect();
                let text = format!(
                    "{:#}\n",
                    json!({"version": 1, "now": options.now.map(|now| now.to_string()), "proofs": proofs})
                );
                output.artefact().write_all(text.as_bytes())?;
            }
            Format::Markdown => output.artefact().write_all(markdown(&rows).as_bytes())?,
            Format::Human => {
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
        if let Some(folder) = &self.emit_cases {
            let exceptions = counterexample::exceptions(&loaded);
            let settings = Settings {
                discovery,
                now: options.now,
                config: if options.layer == Layer::Cluster {
                    options.config.clone()
                } else {
                    Config::bare()
                },
                ..Settings::new(false)
            };
            for row in &rows {
                let left_out = emit::emit(folder, &row.original, &exceptions, &row.proof.regions, &settings)?;
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

/// How many paths the proof of a repair may follow: it is a hint, not what was asked for.
const FIX_PATHS: u64 = 20_000;

/// The repair of a refuted policy, if there is one that is proven.
fn fix(
    proof: &Proof,
    original: &Original,
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

/// What a repair is made of, in one line.
fn fix_text(fix: &Repaired) -> String {
    let steps = fix.steps.iter().map(|step| step.text);
    let texts: Vec<&str> = steps.chain(fix.remarks.iter().map(String::as_str)).collect();
    if texts.is_empty() {
        "the same rules, written out".to_owned()
    } else {
        texts.join("; ")
    }
}

fn load(policies: &[PathBuf], exceptions: &[PathBuf], sources: &mut Sources) -> Result<Loaded, Failure> {
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

/// Every policy in the order of the files.
pub(super) fn originals(loaded: &Loaded) -> Vec<(Original, Origin)> {
    let classic = loaded.policies.iter();
    let classic = classic.map(|policy| (Original::Policy(Arc::clone(policy)), policy.origin));
    let validating = loaded.validating_policies.iter();
    let validating = validating.map(|policy| (Original::ValidatingPolicy(Arc::clone(policy)), policy.origin));
    let mut all: Vec<(Original, Origin)> = classic.chain(validating).collect();
    all.sort_by_key(|(_, origin)| (origin.file, origin.document, origin.span.start));
    all
}

/// The policy as `convert` tells it.
fn policy_json(original: &Original, origin: Origin, sources: &Sources) -> Json {
    let (api_version, metadata): (&str, &Metadata) = match original {
        Original::Policy(policy) => (&policy.api_version, &policy.metadata),
        Original::ValidatingPolicy(policy) => (&policy.api_version, &policy.metadata),
    };
    json!({
        "apiVersion": api_version,
        "kind": original.kind(),
        "namespace": metadata.namespace.as_ref().map(|text| &text.value),
        "name": original.name(),
        "file": sources.name(origin.file),
        "doc": origin.document,
    })
}

fn request_json(situation: &Situation) -> Json {
    let Situation {
        request,
        world,
        namespace_labels,
    } = situation;
    let labels: serde_json::Map<String, Json> = namespace_labels
        .iter()
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    let resource = &request.resource;
    let object = |value: Value<'_>| if value.is_null() { Json::Null } else { value.to_serde() };
    json!({
        "operation": request.operation.as_str(),
        "collection": request.collection,
        "resource": {"group": resource.group, "version": resource.version, "resource": resource.plural},
        "subResource": resource.subresource,
        "name": request.name,
        "namespace": request.namespace,
        "namespaceLabels": labels,
        "userInfo": {"username": request.user.username, "groups": request.user.groups()},
        "roles": request.roles.as_deref().unwrap_or_default(),
        "clusterRoles": request.cluster_roles.as_deref().unwrap_or_default(),
        "object": object(request.object.root()),
        "oldObject": object(request.old_object.root()),
        "params": world.params.iter().map(|document| object(document.root())).collect::<Vec<_>>(),
    })
}

fn verdict_json(verdict: &Verdict) -> Json {
    json!({"status": verdict.status.as_str(), "effect": verdict.effect.as_str(), "message": verdict.message})
}

pub(super) fn region_json(region: &Region) -> Json {
    let situation = region.witness.situation();
    json!({
        "class": region.class.as_str(),
        "hazard": region.hazard,
        "text": region.text,
        "cells": region.cells,
        "witness": {
            "request": request_json(situation),
            "kyverno": verdict_json(region.witness.kyverno()),
            "vap": verdict_json(region.witness.native()),
        },
    })
}

/// The kind of difference, and the code of a refusal.
fn details(label: &Label) -> (Option<&str>, Option<&str>) {
    match label {
        Label::Refuted(kind) => (Some(kind.as_str()), None),
        Label::NotConvertible { code } => (None, Some(code)),
        _ => (None, None),
    }
}

fn json_of(row: &Row) -> Json {
    let Proof {
        label,
        reason,
        world,
        regions,
        notes,
        stats,
        fault: _,
    } = &row.proof;
    let (kind, code) = details(label);
    json!({
        "policy": row.policy,
        "label": label.as_str(),
        "kind": kind,
        "code": code,
        "reason": (!reason.is_empty()).then_some(reason),
        "world": {
            "kyverno": world.kyverno, "kube": world.kube, "discovery": world.discovery,
            "layer": world.layer.as_str(), "data": world.data, "delete": world.delete,
        },
        "regions": regions.iter().map(region_json).collect::<Vec<_>>(),
        "notes": notes,
        "fix": row.fix.as_ref().map(|fix| {
            let objects: Vec<Json> = documents(fix).iter().map(|document| document.root().to_serde()).collect();
            json!({"text": fix_text(fix), "objects": objects})
        }),
        "stats": {"cells": stats.cells, "paths": stats.paths, "requests": stats.requests},
    })
}

/// What stands behind the name of a label.
fn suffix(label: &Label) -> String {
    match label {
        Label::Refuted(kind) => format!("  kind={}", kind.as_str()),
        Label::NotConvertible { code } => format!("  {code}"),
        Label::ProvenMatch { tested } | Label::Tested { tested } => format!("  requests={tested}"),
        Label::Proven | Label::Unknown => String::new(),
    }
}

fn human(row: &Row, explain: bool) -> String {
    let proof = &row.proof;
    let mut text = String::new();
    let label = proof.label.as_str();
    let _ = writeln!(
        text,
        "{HEADING}{label}{HEADING:#}  {LITERAL}{}{LITERAL:#}{}",
        row.original.name(),
        suffix(&proof.label)
    );
    let _ = writeln!(text, "  world: {}", proof.world);
    if proof.fault {
        let _ = writeln!(text, "  internal error, please report it: {}", proof.reason);
    } else if !proof.reason.is_empty() {
        let _ = writeln!(text, "  why: {}", proof.reason);
    }
    for region in &proof.regions {
        let hazard = region
            .hazard
            .as_ref()
            .map(|code| format!(" [{code}]"))
            .unwrap_or_default();
        let _ = writeln!(text, "  {}{hazard}: {}", region.class, region.text);
        if !region.cause.is_empty() {
            let _ = writeln!(text, "    cause: {}", region.cause);
        }
    }
    for region in firsts(&proof.regions) {
        text.push_str(&witness(region));
    }
    if let Some(fix) = &row.fix {
        let _ = writeln!(text, "  fix (PROVEN): {}", fix_text(fix));
        let _ = writeln!(text, "    `kyvtest convert --repair` prints it");
    }
    for note in &proof.notes {
        let _ = writeln!(text, "  note: {note}");
    }
    let stats = &proof.stats;
    if stats.paths > 0 && explain {
        let counted = |number: u64, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
        let _ = writeln!(
            text,
            "  checked {} and {}, replayed {}",
            counted(stats.cells, "request class", "request classes"),
            counted(stats.paths, "path", "paths"),
            counted(stats.requests, "request", "requests"),
        );
    }
    text
}

/// The first region of each class: one request for each direction.
fn firsts(regions: &[Region]) -> impl Iterator<Item = &Region> {
    regions.iter().enumerate().filter_map(|(at, region)| {
        let before = regions.get(..at).unwrap_or_default();
        before.iter().all(|other| other.class != region.class).then_some(region)
    })
}

/// The request of a region, and what both engines say to it.
pub(super) fn witness(region: &Region) -> String {
    let situation = region.witness.situation();
    let request = &situation.request;
    let (kyverno, native) = (region.witness.kyverno(), region.witness.native());
    let mut text = String::new();
    let mode = if request.collection {
        " (of a collection delete)"
    } else {
        ""
    };
    let _ = writeln!(
        text,
        "  request: {}{mode} {} by user {} in groups [{}]",
        request.operation.as_str(),
        request.resource.name(),
        request.user.username,
        request.user.groups().join(", ")
    );
    let _ = writeln!(
        text,
        "    Kyverno: {} ({}), native policy: {} ({})",
        kyverno.effect, kyverno.status, native.effect, native.status
    );
    let params = situation.world.params.iter().map(|document| ("parameter", document));
    for (name, document) in [("object", &request.object), ("oldObject", &request.old_object)]
        .into_iter()
        .chain(params)
    {
        if document.root().is_null() {
            continue;
        }
        let _ = writeln!(text, "    {name}:");
        for line in document.root().to_yaml().lines() {
            let _ = writeln!(text, "      {line}");
        }
    }
    let labels: Vec<String> = situation
        .namespace_labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    if !labels.is_empty() {
        let _ = writeln!(text, "    namespace labels: {}", labels.join(", "));
    }
    text
}

fn markdown(rows: &[Row]) -> String {
    let mut text = String::from("| policy | label | why |\n|---|---|---|\n");
    let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
    for row in rows {
        let proof = &row.proof;
        let first = proof.regions.first().map(|region| region.text.as_str());
        let why = first.unwrap_or(&proof.reason);
        let label = format!("{}{}", proof.label.as_str(), suffix(&proof.label));
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            cell(row.original.name()),
            cell(&label),
            cell(why)
        );
    }
    for row in rows {
        let _ = writeln!(text, "\n{}: world `{}`", cell(row.original.name()), row.proof.world);
        for region in firsts(&row.proof.regions) {
            let _ = write!(text, "\n```\n{}```\n", witness(region));
        }
    }
    text
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
