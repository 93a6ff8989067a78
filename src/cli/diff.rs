//! `kyvtest diff`: compares two sets of policies on the same requests.

use std::{fmt::Write as _, io, io::Write as _};

use serde_json::{Value as Json, json};

use super::{
    Exit, Failure,
    cluster::Cluster,
    config::Source,
    data::{DataLens, StrictResources},
    format::{OutputFormat, ResultFormat},
    input,
    output::Output,
    prove::pairs::{self, Compared, Deletions, Setup},
    run::Unsupported,
};
use crate::{
    run::{
        CaseVerdict, Settings,
        diff::{Diff, DiffCase, PolicyPair, diff, policies_named},
    },
    suite::{self, Disk, Files, Options, Resource, Suite},
};
use kyvtest_cel::time::Timestamp;
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Severity, Sources};
use kyvtest_model::{
    kube::Discovery,
    verdict::{DivergenceClass, Status},
};
use kyvtest_prove::{
    Layer,
    body::{self, Setting},
};

/// Compare two sets of policies
///
/// Evaluates the policies of both sides on the resources of both sides, with every operation that a row of a suite names, and shows
/// where they decide differently: `weaker` if `--to` admits what `--from` denies. Each side is a directory with suites or policies,
/// a test file, or a file with policies; ClusterPolicies, ValidatingPolicies and ValidatingAdmissionPolicies can be mixed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The original: directories with suites or policies, test files, or files with policies
    #[arg(long, value_name = "PATH", required = true, num_args = 1..)]
    from: Vec<String>,

    /// The replacement, given in the same way
    #[arg(long, value_name = "PATH", required = true, num_args = 1..)]
    to: Vec<String>,

    /// Files with more resources
    #[arg(long, value_name = "FILE", num_args = 1..)]
    resources: Vec<String>,

    /// Compare policies of different names (may be repeated)
    #[arg(long, value_name = "FROM=TO")]
    pair: Vec<String>,

    /// The name of test files
    #[arg(short = 'f', long, value_name = "NAME", default_value = "kyverno-test.yaml")]
    file_name: String,

    /// Also show cases that are equal
    #[arg(long)]
    all: bool,

    /// Also show cases in which only the messages differ
    #[arg(long)]
    messages: bool,

    /// Prove or refute the pairs that no resource distinguishes
    ///
    /// A REFUTED pair is a difference: a request follows on which the policies decide differently. UNKNOWN exits with
    /// code 5.
    #[arg(long)]
    prove: bool,

    #[command(flatten)]
    output: OutputFormat<ResultFormat>,

    #[command(flatten)]
    config: Source,

    #[command(flatten)]
    cluster: Cluster,

    #[command(flatten)]
    data: DataLens,

    #[command(flatten)]
    refused: StrictResources,

    /// What to do about cases that are not decided
    #[arg(long, value_name = "WORD", value_enum, default_value_t)]
    unsupported: Unsupported,

    /// Exit with code 0 even if the policies differ
    #[arg(long)]
    exit_zero: bool,
}

impl Args {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let settings = Settings {
            discovery: self.cluster.discovery()?,
            now: self.cluster.clock()?,
            data: self.data.of_run(false),
            strict_resources: self.refused.strict_resources,
            ..Settings::new(false)
        };
        let mut mapping = Vec::new();
        for pair in &self.pair {
            let Some((from, to)) = pair.split_once('=') else {
                let diagnostic = Diagnostic::new(Code::CommandLine, format!("invalid pair `{pair}`"));
                return Err(diagnostic.with_help("write `--pair old-name=new-name`").into());
            };
            mapping.push((from.to_owned(), to.to_owned()));
        }
        let mut exit = Exit::Success;
        let scopes = &settings.discovery;
        let mut from = self.side(&self.from, scopes, output, &mut exit)?;
        let mut to = self.side(&self.to, scopes, output, &mut exit)?;
        let resources = self.resources(scopes, output, &mut exit)?;
        for suite in &mut from {
            suite.resources.extend(resources.iter().cloned());
        }
        let found = diff(&mut from, &mut to, &mapping, &settings);
        for diagnostic in &found.refusals {
            output.diagnostic(diagnostic, &Sources::new());
            if diagnostic.severity == Severity::Error {
                exit = exit.combine(Exit::Input);
            }
        }
        for (side, names) in [("--from", &found.only_from), ("--to", &found.only_to)] {
            for name in names {
                let message = format!("policy `{name}` of `{side}` has no counterpart");
                let diagnostic = Diagnostic::new(Code::NoSuchPolicy, message).with_severity(Severity::Warning);
                output.diagnostic(
                    &diagnostic.with_help("use `--pair OLD=NEW` for policies with different names"),
                    &Sources::new(),
                );
            }
        }
        if found.pairs.is_empty() {
            let diagnostic = Diagnostic::new(Code::NoSuchPolicy, "no policy has a counterpart of the same name");
            return Err(diagnostic
                .with_help("use `--pair OLD=NEW` for policies with different names")
                .into());
        }
        let proofs = self.proofs(&found, (&from, &to), &settings);
        match self.output.format {
            ResultFormat::Human => {
                let text = human(&found, self.all, self.messages);
                output.artefact().write_all(text.as_bytes())?;
                for proof in proofs.iter().flatten() {
                    output.styled(&proof.human)?;
                }
            }
            ResultFormat::Json => {
                let text = format!("{:#}\n", to_json(&found, &proofs, settings.now));
                output.artefact().write_all(text.as_bytes())?;
            }
        }
        for refused in &found.refused {
            let side = if refused.from { "--from" } else { "--to" };
            let message = format!(
                "policy `{}` of `{side}` is rejected: {}",
                refused.policy, refused.reason
            );
            output.diagnostic(&Diagnostic::new(Code::PolicyRefused, message), &Sources::new());
            exit = exit.combine(Exit::Input);
        }
        let cases = found.pairs.iter().flat_map(|pair| &pair.cases);
        if cases.clone().next().is_none() && found.refused.is_empty() && !self.prove {
            let diagnostic = Diagnostic::new(Code::NoTests, "nothing was compared: no resources given");
            let help = "add suites with resources, or `--resources FILE`";
            output.diagnostic(&diagnostic.with_help(help), &Sources::new());
            exit = exit.combine(Exit::NoTests);
        }
        let undecided = cases.clone().filter(|case| case.undecided.is_some()).count();
        if cases.clone().next().is_some() || !self.prove {
            exit = exit.combine(self.unsupported.check(undecided, cases.count(), output));
        }
        for proof in proofs.iter().flatten() {
            if !self.exit_zero || proof.exit == Exit::Internal {
                exit = exit.combine(proof.exit);
            }
        }
        if !self.exit_zero && found.pairs.iter().flat_map(|pair| &pair.cases).any(differs) {
            exit = exit.combine(Exit::Divergence);
        }
        Ok(exit)
    }

    /// The proofs of the pairs that no resource distinguishes, by the index of the pair.
    fn proofs(&self, found: &Diff, (from, to): (&[Suite], &[Suite]), settings: &Settings) -> Vec<Option<PairProof>> {
        if !self.prove {
            return found.pairs.iter().map(|_| None).collect();
        }
        let discovery = &settings.discovery;
        let delete = Deletions::Collection;
        let setup = Setup {
            discovery,
            setting: Setting::default(),
            options: body::Options {
                data: settings.data,
                now: settings.now,
                ..body::Options::default()
            },
            world: pairs::world(discovery, delete, Layer::Policy, settings.data),
            timeout: None,
            explain: true,
        };
        let proof = |pair: &PolicyPair| {
            let is_refused = found
                .refused
                .iter()
                .any(|refused| refused.policy == pair.from || refused.policy == pair.to);
            if is_refused || pair.cases.iter().any(differs) {
                return None;
            }
            let (a, from) = policies_named(from, &pair.from)?;
            let (b, to) = policies_named(to, &pair.to)?;
            let own = from.resources.iter().chain(&to.resources);
            let samples: Vec<serde_json::Value> = own.map(|resource| resource.object.root().to_serde()).collect();
            let compared = Compared::of_policies((a, Vec::new()), (b, Vec::new()), &samples, &setup);
            let sources = [Some(&from.sources), Some(&to.sources)];
            Some(PairProof {
                human: pairs::human(&pair.from, &compared, &setup.world, sources),
                json: pairs::answer(&compared, &setup.world, sources),
                exit: compared.exit(TESTED),
            })
        };
        found.pairs.iter().map(proof).collect()
    }

    /// The suites of a side. A path without a suite is read as a file with policies.
    fn side(
        &self,
        paths: &[String],
        scopes: &Discovery,
        output: &mut Output,
        exit: &mut Exit,
    ) -> Result<Vec<Suite>, Failure> {
        let options = Options {
            file_name: &self.file_name,
            sidecar: false,
            scopes,
            ..Options::default()
        };
        let mut suites = Vec::new();
        let mut bare = Vec::new();
        for path in paths {
            let found = suite::discover(&Disk, path, &options)?;
            let is_directory = Disk.is_directory(path).unwrap_or(false);
            if is_directory && found.is_empty() {
                let files = input::policy_files(path.as_ref());
                bare.extend(files.iter().map(|file| file.display().to_string()));
            } else if is_directory || path.ends_with(&self.file_name) {
                let loaded = found.iter().flat_map(|file| suite::load(&Disk, file, &options));
                suites.extend(loaded);
            } else {
                bare.push(path.clone());
            }
        }
        if !bare.is_empty() {
            let written = Written::new(&bare, &[]);
            suites.extend(suite::load(&written, WRITTEN, &options));
        }
        report(&suites, output, exit);
        Ok(suites)
    }

    /// The resources given in addition to those of the suites.
    fn resources(&self, scopes: &Discovery, output: &mut Output, exit: &mut Exit) -> Result<Vec<Resource>, Failure> {
        if self.resources.is_empty() {
            return Ok(Vec::new());
        }
        for path in &self.resources {
            // Reported here, because no suite names the file.
            if Disk.is_directory(path).is_err() {
                input::read(path.as_ref(), &mut Sources::new())?;
            }
        }
        let options = Options {
            sidecar: false,
            scopes,
            ..Options::default()
        };
        let written = Written::new(&[], &self.resources);
        let mut suites = suite::load(&written, WRITTEN, &options);
        report(&suites, output, exit);
        Ok(suites.iter_mut().flat_map(|suite| suite.resources.drain(..)).collect())
    }
}

/// The required strength of a label.
const TESTED: u8 = 1;

/// The proof of a pair.
struct PairProof {
    human: String,
    json: Json,
    exit: Exit,
}

fn differs(case: &DiffCase) -> bool {
    case.divergence.as_ref().is_some_and(|found| found.class.fails())
}

/// Reports the problems of suites.
fn report(suites: &[Suite], output: &mut Output, exit: &mut Exit) {
    for suite in suites {
        for diagnostic in &suite.diagnostics {
            // A set of policies needs no rows.
            if diagnostic.code == Code::EmptySuite {
                continue;
            }
            output.diagnostic(diagnostic, &suite.sources);
            if diagnostic.severity == Severity::Error {
                *exit = exit.combine(Exit::Input);
            }
        }
    }
}

/// The name of the generated test file for files without one.
const WRITTEN: &str = "kyvtest-diff.yaml";

/// The disk, with one additional test file.
struct Written(String);

impl Written {
    fn new(policies: &[String], resources: &[String]) -> Self {
        let list = |paths: &[String]| paths.iter().map(|path| json!(path)).collect::<Vec<Json>>();
        let test = json!({
            "apiVersion": "cli.kyverno.io/v1alpha1",
            "kind": "Test",
            "metadata": {"name": "diff"},
            "policies": list(policies),
            "resources": list(resources),
            "results": [],
        });
        Self(test.to_string())
    }
}

impl Files for Written {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        if path == WRITTEN {
            return Ok(self.0.clone().into_bytes());
        }
        Disk.read(path)
    }

    fn is_directory(&self, path: &str) -> io::Result<bool> {
        if path == WRITTEN {
            Ok(false)
        } else {
            Disk.is_directory(path)
        }
    }

    fn list(&self, path: &str) -> io::Result<Vec<(String, bool)>> {
        Disk.list(path)
    }

    fn identity(&self, path: &str) -> Option<String> {
        Disk.identity(path)
    }
}

/// The maximum number of policies named in a summary line.
const NAMED: usize = 5;

/// The human-readable result.
fn human(found: &Diff, all: bool, messages: bool) -> String {
    let mut out = String::new();
    for pair in &found.pairs {
        let mut name = if pair.from == pair.to {
            pair.from.clone()
        } else {
            format!("{} -> {}", pair.from, pair.to)
        };
        let (from, to) = pair.kinds;
        if from != to {
            let _ = write!(name, " ({from} -> {to})");
        }
        let _ = writeln!(out, "{name}: {}", counts(pair.cases.iter()));
        if pair.audit_warnings {
            let _ = writeln!(out, "  note: audit-warnings: {}", kyvtest_convert::AUDIT_WARNINGS);
        }
        for case in &pair.cases {
            let class = case.divergence.as_ref().map(|found| found.class.as_str());
            let only_message = class == Some(DivergenceClass::Message.as_str()) && !messages;
            if (class.is_none() || only_message) && !all && case.undecided.is_none() {
                continue;
            }
            let word = case.undecided.map(Status::as_str).or(class).unwrap_or("equal");
            let _ = writeln!(out, "  {word}: {} {}", case.operation, shown(case));
            let _ = writeln!(out, "    from: {}", describe(&case.from));
            let _ = writeln!(out, "    to:   {}", describe(&case.to));
        }
    }
    let _ = writeln!(
        out,
        "{} {}: {}",
        found.pairs.len(),
        if found.pairs.len() == 1 { "pair" } else { "pairs" },
        counts(found.pairs.iter().flat_map(|pair| &pair.cases))
    );
    if found.pairs.len() > 1 {
        for class in DivergenceClass::ALL {
            let has = |case: &DiffCase| case.divergence.as_ref().is_some_and(|found| found.class == class);
            let counted = found.pairs.iter().filter_map(|pair| {
                let count = pair.cases.iter().filter(|case| has(case)).count();
                (count > 0).then(|| format!("{} ({count})", pair.from))
            });
            let names: Vec<String> = counted.collect();
            if names.is_empty() {
                continue;
            }
            let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
            let more = match names.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(", {more} more"),
            };
            let _ = writeln!(out, "  {class:<15} {shown}{more}");
        }
    }
    out
}

fn shown(case: &DiffCase) -> String {
    let key = &case.resource;
    if key.kind.is_empty() {
        return key.name.clone();
    }
    if key.namespace.is_empty() {
        return format!("{}/{}", key.kind, key.name);
    }
    format!("{}/{}/{}", key.kind, key.namespace, key.name)
}

fn describe(answer: &CaseVerdict) -> String {
    let message = answer.message.replace('\n', " ");
    let colon = if message.is_empty() { "" } else { ": " };
    format!("{} ({}){colon}{message}", answer.effect, answer.status)
}

/// `3 equal, 1 weaker`, classes in their order.
fn counts<'c>(cases: impl Iterator<Item = &'c DiffCase> + Clone) -> String {
    let number = |class: Option<DivergenceClass>| {
        let same =
            |case: &&DiffCase| case.divergence.as_ref().map(|found| found.class) == class && case.undecided.is_none();
        cases.clone().filter(same).count()
    };
    let mut parts = vec![format!("{} equal", number(None))];
    for class in DivergenceClass::ALL {
        let n = number(Some(class));
        if n > 0 {
            parts.push(format!("{n} {class}"));
        }
    }
    for status in [Status::NeedsRegistry, Status::Unsupported] {
        let n = cases.clone().filter(|case| case.undecided == Some(status)).count();
        if n > 0 {
            parts.push(format!("{n} {status}"));
        }
    }
    parts.join(", ")
}

fn to_json(found: &Diff, proofs: &[Option<PairProof>], now: Option<Timestamp>) -> Json {
    let answer = |answer: &CaseVerdict| {
        json!({
            "status": answer.status.as_str(),
            "effect": answer.effect.as_str(),
            "message": answer.message,
        })
    };
    let case = |case: &DiffCase| {
        let key = &case.resource;
        json!({
            "resource": {
                "apiVersion": key.api_version, "kind": key.kind, "namespace": key.namespace, "name": key.name,
            },
            "operation": case.operation.as_str(),
            "from": answer(&case.from),
            "to": answer(&case.to),
            "class": case.undecided.map_or_else(
                || case.divergence.as_ref().map_or("equal", |found| found.class.as_str()),
                Status::as_str,
            ),
        })
    };
    let pairs: Vec<Json> = found
        .pairs
        .iter()
        .zip(proofs)
        .map(|(pair, proof)| {
            let cases: Vec<Json> = pair.cases.iter().map(case).collect();
            let mut json =
                json!({"from": pair.from, "to": pair.to, "cases": cases, "auditWarnings": pair.audit_warnings});
            if let Some(proof) = proof {
                json["proof"] = proof.json.clone();
                json["proof"]["id"] = json!(pair.from);
            }
            json
        })
        .collect();
    let refused = found.refused.iter();
    let refused: Vec<Json> = refused
        .map(|refused| {
            let side = if refused.from { "from" } else { "to" };
            json!({"side": side, "policy": refused.policy, "reason": refused.reason})
        })
        .collect();
    json!({
        "version": 1,
        "now": now.map(|now| now.to_string()),
        "pairs": pairs,
        "onlyFrom": found.only_from,
        "onlyTo": found.only_to,
        "refused": refused,
    })
}
