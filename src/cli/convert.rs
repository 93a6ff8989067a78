//! `kyvtest convert`: the native policies that Kyverno would generate, or the reasons for its refusal.

pub(super) mod repair;
mod show;

use std::{io::Write as _, path::PathBuf};

use clap::ValueEnum;

use super::{Exit, Failure, cluster::Cluster, input, interrupt, output::Output, prove::LayerWord};
use kyvtest_cel::time::Timestamp;
use kyvtest_convert::{Conversion, Exceptions, Options, Outcome, Refusal, convert};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Sources},
    value::{Builder, Document, Map, Value},
    yaml::{self, Limits, Mode, emit::Emitter},
};
use kyvtest_kyverno::webhook;
use kyvtest_model::{
    kube::Discovery,
    policy::{self, ClassicPolicy, Loaded, MutatingPolicy, Origin, Policy, Purpose, ValidatingPolicy},
};

/// Convert policies to ValidatingAdmissionPolicies and MutatingAdmissionPolicies
///
/// Prints what Kyverno 1.19 would generate from ClusterPolicies, ValidatingPolicies and MutatingPolicies, as YAML for
/// `kubectl apply`. A policy that Kyverno would not convert is rejected with Kyverno's own message and a code. The YAML has no owner
/// references: they need the `uid` of the policy in the cluster.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files with policies; `-` is standard input
    #[arg(value_name = "POLICY", required = true)]
    policies: Vec<PathBuf>,

    /// Files with PolicyExceptions
    #[arg(long, value_name = "FILE")]
    exception: Vec<PathBuf>,

    /// Also convert policies that do not request it
    #[arg(long)]
    force: bool,

    /// Explain how each part of a policy is converted
    #[arg(long)]
    explain: bool,

    /// The output format
    #[arg(
        short = 'o',
        long = "output",
        aliases = ["format", "output-format"],
        value_name = "FORMAT",
        value_enum,
        default_value_t
    )]
    format: Format,

    /// Print the webhooks that Kyverno registers for the policies instead
    ///
    /// A policy with a generated ValidatingAdmissionPolicy has none. The selectors of Kyverno's configuration are not
    /// included.
    #[arg(long, conflicts_with = "explain")]
    webhooks: bool,

    /// Build equivalent native policies, and print them only if the equivalence is proven
    ///
    /// Kyverno's generator loses parts of many policies. This builds ValidatingAdmissionPolicies and bindings from the
    /// policy itself and proves that every request has the same effect. A policy without a proof is rejected, with a
    /// counterexample if there is one.
    #[arg(long, conflicts_with = "webhooks")]
    repair: bool,

    /// With `--repair`, compare rules, the admission controller, or also Kyverno's configuration
    #[arg(long, value_enum, default_value_t, requires = "repair")]
    layer: LayerWord,

    #[command(flatten)]
    cluster: Cluster,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Format {
    #[default]
    Yaml,
    Json,
}

/// A policy of the command line and its conversion.
struct Row {
    head: Head,
    conversion: Conversion,
}

/// The identity of a policy.
struct Head {
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
    origin: Origin,
}

impl Head {
    fn new(policy: &Policy) -> Self {
        Self {
            api_version: policy.api_version().to_owned(),
            kind: policy.kind().to_owned(),
            namespace: policy.namespace().map(str::to_owned),
            name: policy.name().to_owned(),
            origin: policy.origin(),
        }
    }
}

impl Args {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let discovery = self.cluster.discovery()?;
        let options = Options {
            force: self.force,
            now: self.cluster.clock()?,
        };
        let mut sources = Sources::new();
        let loaded = self.load(&mut sources)?;
        let mut exit = output.diagnostics(&loaded.diagnostics, &sources);
        if self.webhooks {
            self.print_webhooks(&loaded, &discovery, options.now, output)?;
            return Ok(exit);
        }
        if self.repair {
            let options = kyvtest_prove::Options {
                layer: self.layer.layer(),
                now: options.now,
                stop: Some(interrupt::flag()),
                ..kyvtest_prove::Options::default()
            };
            let policies = originals(&loaded);
            if policies.is_empty() && exit == Exit::Success {
                return Err(nothing().into());
            }
            let style = (self.format, self.explain);
            let out = (&sources, output);
            let repaired = repair::run(policies, exceptions(&loaded), &discovery, &options, style, out)?;
            return Ok(exit.combine(repaired));
        }
        let rows = rows(&loaded, &discovery, options);
        if rows.is_empty() && exit == Exit::Success {
            return Err(nothing().into());
        }
        if rows
            .iter()
            .any(|row| matches!(row.conversion.outcome, Outcome::Refused(_)))
        {
            exit = exit.combine(Exit::Mismatch);
        }
        match (self.format, self.explain) {
            (Format::Json, _) => {
                let list: Vec<serde_json::Value> = rows.iter().map(|row| show::json(row, &sources)).collect();
                let text = format!("{:#}\n", serde_json::Value::Array(list));
                output.artefact().write_all(text.as_bytes())?;
            }
            (Format::Yaml, true) => {
                for (i, row) in rows.iter().enumerate() {
                    let gap = if i > 0 { "\n" } else { "" };
                    output.styled(&format!("{gap}{}", show::explanation(row, &sources)))?;
                }
            }
            (Format::Yaml, false) => print_yaml(&rows, &sources, output)?,
        }
        Ok(exit)
    }

    fn load(&self, sources: &mut Sources) -> Result<Loaded, Failure> {
        let mut loaded = Loaded::default();
        let files = self.policies.iter().map(|path| (path, Purpose::Policies));
        let exceptions = self.exception.iter().map(|path| (path, Purpose::Exceptions));
        for (path, purpose) in files.chain(exceptions) {
            let file = input::read(path, sources)?;
            let text = sources.text(file).cloned().unwrap_or_default();
            let stream = yaml::read(text.as_bytes(), Mode::Lax, &Limits::default());
            policy::load(stream, file, purpose, &mut loaded);
        }
        Ok(loaded)
    }

    fn print_webhooks(
        &self,
        loaded: &Loaded,
        discovery: &Discovery,
        now: Option<Timestamp>,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let options = Options { force: self.force, now };
        let mut by_kyverno = loaded.clone();
        by_kyverno.policies.retain(|policy| {
            let conversion = convert(policy, exceptions(loaded), discovery, options);
            matches!(conversion.outcome, Outcome::Refused(_))
        });
        let policies: Vec<&ClassicPolicy> = by_kyverno.classic().map(AsRef::as_ref).collect();
        let validating: Vec<&ValidatingPolicy> = by_kyverno.validating().map(AsRef::as_ref).collect();
        let mutating: Vec<&MutatingPolicy> = by_kyverno.mutating().map(AsRef::as_ref).collect();
        let configuration = webhook::configuration(&policies, &validating, discovery);
        let mutation = webhook::mutating_configuration(&policies, &mutating, discovery);
        let all: Vec<&Document> = std::iter::once(&configuration).chain(&mutation).collect();
        let text = match (self.format, all.as_slice()) {
            (Format::Yaml, [only]) => only.root().to_yaml(),
            (Format::Yaml, all) => {
                let mut emitter = Emitter::new();
                for document in all {
                    emitter.document();
                    document.root().emit(&mut emitter);
                }
                emitter.finish()
            }
            (Format::Json, [only]) => format!("{:#}\n", only.root().to_serde()),
            (Format::Json, all) => {
                let items: Vec<serde_json::Value> = all.iter().map(|document| document.root().to_serde()).collect();
                let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
                format!("{list:#}\n")
            }
        };
        output.artefact().write_all(text.as_bytes())?;
        Ok(())
    }
}

fn nothing() -> Diagnostic {
    let help = "ClusterPolicies, ValidatingPolicies and MutatingPolicies can be converted";
    Diagnostic::new(Code::NothingToConvert, "no policy to convert").with_help(help)
}

/// Every readable policy, in the order of the files.
fn originals(loaded: &Loaded) -> Vec<(Head, Policy)> {
    let all = super::prove::originals(loaded).into_iter();
    all.map(|policy| (Head::new(&policy), policy)).collect()
}

fn exceptions(loaded: &Loaded) -> Exceptions<'_> {
    Exceptions {
        classic: &loaded.exceptions,
        cel: &loaded.cel_exceptions,
    }
}

/// Every policy in the order of the files, including unreadable ones.
fn rows(loaded: &Loaded, discovery: &Discovery, options: Options) -> Vec<Row> {
    let policies = loaded.policies.iter().filter(|policy| !policy.is_native());
    let mut rows: Vec<Row> = policies
        .map(|policy| Row {
            head: Head::new(policy),
            conversion: convert(policy, exceptions(loaded), discovery, options),
        })
        .collect();
    for dropped in &loaded.dropped {
        let is_policy = dropped.kind.ends_with("Policy") && !dropped.kind.ends_with("AdmissionPolicy");
        if is_policy {
            let refusal = Refusal::invalid();
            rows.push(Row {
                head: Head {
                    api_version: String::new(),
                    kind: dropped.kind.clone(),
                    namespace: None,
                    name: dropped.name.clone(),
                    origin: dropped.origin,
                },
                conversion: Conversion {
                    report: vec![refusal.item()],
                    outcome: Outcome::Refused(refusal),
                },
            });
        }
    }
    rows.sort_by_key(|row| {
        (
            row.head.origin.file,
            row.head.origin.document,
            row.head.origin.span.start,
        )
    });
    rows
}

/// Prints the objects on standard output, refusals and a summary of differences on standard error.
fn print_yaml(rows: &[Row], sources: &Sources, output: &mut Output) -> Result<(), Failure> {
    let mut emitter = Emitter::new();
    for row in rows {
        for document in documents(&row.conversion.outcome) {
            emitter.document();
            without_owners(document).root().emit(&mut emitter);
        }
    }
    output.artefact().write_all(emitter.finish().as_bytes())?;
    for row in rows {
        match &row.conversion.outcome {
            Outcome::Refused(refusal) => {
                if let Some(diagnostic) = show::refusal(&row.head, refusal) {
                    output.diagnostic(&diagnostic, sources);
                }
            }
            Outcome::Generated(_) | Outcome::Mutating(_) => {
                if let Some(diagnostic) = show::summary(row) {
                    output.diagnostic(&diagnostic, sources);
                }
            }
        }
    }
    Ok(())
}

/// The generated objects, the policy first.
fn documents(outcome: &Outcome) -> Vec<&Document> {
    match outcome {
        Outcome::Generated(generated) => {
            let bindings = generated.bindings.iter().map(|binding| &binding.document);
            std::iter::once(&generated.vap.document).chain(bindings).collect()
        }
        Outcome::Mutating(generated) => vec![&generated.map.document, &generated.binding.document],
        Outcome::Refused(_) => Vec::new(),
    }
}

/// The object without its owner, whose `uid` only a cluster knows.
fn without_owners(document: &Document) -> Document {
    let mut builder = Builder::new();
    builder.begin_map();
    for (key, value) in document.root().as_map().into_iter().flat_map(Map::iter) {
        builder.key(key.text());
        match value {
            Value::Map(metadata) if key.text() == "metadata" => {
                builder.begin_map();
                for (key, value) in metadata.iter().filter(|(key, _)| key.text() != "ownerReferences") {
                    builder.key(key.text());
                    builder.value(value);
                }
                builder.end();
            }
            _ => builder.value(value),
        }
    }
    builder.end();
    builder.finish()
}
