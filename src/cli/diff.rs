//! `kyvtest diff`: two sets of policies on the same requests.

use std::{fmt::Write as _, io, io::Write as _};

use clap::ValueEnum;
use serde_json::{Value as Json, json};

use super::{Exit, Failure, cluster::Cluster, output::Output};
use crate::{
    run::{
        Answer, Settings,
        diff::{Diff, DiffCase, diff},
    },
    suite::{self, Disk, Files, Options, Suite},
};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Severity, Sources};
use kyvtest_model::verdict::DivergenceClass;

/// Compare two sets of policies
///
/// Asks the policies of both sides about the resources of both sides, with every operation that a row of a suite names, and shows
/// where they decide differently: `weaker` if `--to` admits what `--from` refuses. Each side is a folder with suites, a test file,
/// or a file with policies; ClusterPolicies, ValidatingPolicies and ValidatingAdmissionPolicies are compared with one another.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What is converted: folders with suites, test files, or files with policies
    #[arg(long, value_name = "PATH", required = true, num_args = 1..)]
    from: Vec<String>,

    /// What it is converted to
    #[arg(long, value_name = "PATH", required = true, num_args = 1..)]
    to: Vec<String>,

    /// More resources to ask about
    #[arg(long, value_name = "FILE", num_args = 1..)]
    resources: Vec<String>,

    /// Policies of different names that belong together; may be given several times
    #[arg(long, value_name = "FROM=TO")]
    pair: Vec<String>,

    /// The name of test files
    #[arg(short = 'f', long, value_name = "NAME", default_value = "kyverno-test.yaml")]
    file_name: String,

    /// Show what is equal, too
    #[arg(long)]
    all: bool,

    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    #[command(flatten)]
    cluster: Cluster,

    /// End with 0 whatever differs
    #[arg(long)]
    exit_zero: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Format {
    #[default]
    Human,
    Json,
}

impl Args {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let settings = Settings {
            discovery: self.cluster.discovery()?,
            now: self.cluster.now()?,
            ..Settings::new(false)
        };
        let mut mapping = Vec::new();
        for pair in &self.pair {
            let Some((from, to)) = pair.split_once('=') else {
                let diagnostic = Diagnostic::new(Code::CommandLine, format!("`{pair}` pairs nothing"));
                return Err(diagnostic.with_help("write `--pair old-name=new-name`").into());
            };
            mapping.push((from.to_owned(), to.to_owned()));
        }
        let mut exit = Exit::Success;
        let mut from = self.side(&self.from, output, &mut exit)?;
        let mut to = self.side(&self.to, output, &mut exit)?;
        let found = diff(&mut from, &mut to, &mapping, &settings);
        for (side, names) in [("--from", &found.only_from), ("--to", &found.only_to)] {
            for name in names {
                let message = format!("policy `{name}` of `{side}` has no partner");
                let diagnostic = Diagnostic::new(Code::NoSuchPolicy, message).with_severity(Severity::Warning);
                output.diagnostic(
                    &diagnostic.with_help("`--pair` pairs policies of different names"),
                    &Sources::new(),
                );
            }
        }
        if found.pairs.is_empty() {
            let diagnostic = Diagnostic::new(Code::NoSuchPolicy, "no policy is on both sides");
            return Err(diagnostic
                .with_help("`--pair` pairs policies of different names")
                .into());
        }
        let text = match self.format {
            Format::Human => human(&found, self.all),
            Format::Json => format!("{:#}\n", to_json(&found)),
        };
        output.artefact().write_all(text.as_bytes())?;
        let differs = |case: &DiffCase| case.divergence.as_ref().is_some_and(|found| found.class.fails());
        if !self.exit_zero && found.pairs.iter().flat_map(|pair| &pair.cases).any(differs) {
            exit = exit.combine(Exit::Divergence);
        }
        Ok(exit)
    }

    /// The suites of a side. What is no suite is taken for a file with policies.
    fn side(&self, paths: &[String], output: &mut Output, exit: &mut Exit) -> Result<Vec<Suite>, Failure> {
        let options = Options {
            file_name: &self.file_name,
            sidecar: false,
            ..Options::default()
        };
        let mut suites = Vec::new();
        let mut bare = Vec::new();
        for path in paths {
            let found = suite::discover(&Disk, path, &options)?;
            let is_folder = Disk.is_folder(path).unwrap_or(false);
            if is_folder && found.is_empty() {
                bare.push(path.clone());
            } else if is_folder || path.ends_with(&self.file_name) {
                let loaded = found.iter().flat_map(|file| suite::load(&Disk, file, &options));
                suites.extend(loaded);
            } else {
                bare.push(path.clone());
            }
        }
        if !bare.is_empty() || !self.resources.is_empty() {
            let written = Written::new(&bare, &self.resources);
            suites.extend(suite::load(&written, WRITTEN, &options));
        }
        for suite in &suites {
            for diagnostic in &suite.diagnostics {
                // A set of policies has no rows, and needs none.
                if diagnostic.code == Code::EmptySuite {
                    continue;
                }
                output.diagnostic(diagnostic, &suite.sources);
                if diagnostic.severity == Severity::Error {
                    *exit = exit.combine(Exit::Input);
                }
            }
        }
        Ok(suites)
    }
}

/// The test file of files that belong to none.
const WRITTEN: &str = "kyvtest-diff.yaml";

/// The disk, with one test file more.
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

    fn is_folder(&self, path: &str) -> io::Result<bool> {
        if path == WRITTEN {
            Ok(false)
        } else {
            Disk.is_folder(path)
        }
    }

    fn list(&self, path: &str) -> io::Result<Vec<(String, bool)>> {
        Disk.list(path)
    }

    fn identity(&self, path: &str) -> Option<String> {
        Disk.identity(path)
    }
}

fn human(found: &Diff, all: bool) -> String {
    let mut out = String::new();
    for pair in &found.pairs {
        let name = if pair.from == pair.to {
            pair.from.clone()
        } else {
            format!("{} -> {}", pair.from, pair.to)
        };
        let _ = writeln!(out, "{name}: {}", counts(pair.cases.iter()));
        if pair.audit_warnings {
            let _ = writeln!(out, "  note: audit-warnings: {}", kyvtest_convert::AUDIT_WARNINGS);
        }
        for case in &pair.cases {
            let class = case.divergence.as_ref().map(|found| found.class.as_str());
            if class.is_none() && !all && !case.unsupported {
                continue;
            }
            let word = if case.unsupported {
                "unsupported"
            } else {
                class.unwrap_or("equal")
            };
            let _ = writeln!(out, "  {word}: {} {}", case.operation, shown(case));
            let _ = writeln!(out, "    from: {}", said(&case.from));
            let _ = writeln!(out, "    to:   {}", said(&case.to));
        }
    }
    let _ = writeln!(
        out,
        "{} {}: {}",
        found.pairs.len(),
        if found.pairs.len() == 1 { "pair" } else { "pairs" },
        counts(found.pairs.iter().flat_map(|pair| &pair.cases))
    );
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

fn said(answer: &Answer) -> String {
    let message = answer.message.replace('\n', " ");
    let colon = if message.is_empty() { "" } else { ": " };
    format!("{} ({}){colon}{message}", answer.effect, answer.status)
}

/// `3 equal, 1 weaker`, classes in their order.
fn counts<'c>(cases: impl Iterator<Item = &'c DiffCase> + Clone) -> String {
    let number = |class: Option<DivergenceClass>| {
        let same = |case: &&DiffCase| case.divergence.as_ref().map(|found| found.class) == class && !case.unsupported;
        cases.clone().filter(same).count()
    };
    let mut parts = vec![format!("{} equal", number(None))];
    for class in DivergenceClass::ALL {
        let n = number(Some(class));
        if n > 0 {
            parts.push(format!("{n} {class}"));
        }
    }
    let unsupported = cases.clone().filter(|case| case.unsupported).count();
    if unsupported > 0 {
        parts.push(format!("{unsupported} unsupported"));
    }
    parts.join(", ")
}

fn to_json(found: &Diff) -> Json {
    let answer = |answer: &Answer| {
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
            "class": if case.unsupported { "unsupported" } else {
                case.divergence.as_ref().map_or("equal", |found| found.class.as_str())
            },
        })
    };
    let pairs: Vec<Json> = found
        .pairs
        .iter()
        .map(|pair| {
            let cases: Vec<Json> = pair.cases.iter().map(case).collect();
            json!({"from": pair.from, "to": pair.to, "cases": cases, "auditWarnings": pair.audit_warnings})
        })
        .collect();
    json!({"version": 1, "pairs": pairs, "onlyFrom": found.only_from, "onlyTo": found.only_to})
}
