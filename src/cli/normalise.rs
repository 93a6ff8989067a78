//! `kyvtest normalise`: prints objects as the API server shows them to validating admission.
//!
//! Upstream counterpart: none; `kubectl create --dry-run=server -o yaml` on a cluster comes close.

mod lines;

use std::{
    fmt::Write as _,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Exit, Failure, input, output::Output};
use crate::run::lens;
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Severity, Sources},
    value::{Document, Value},
};
use kyvtest_line_diff::unified;
use kyvtest_normalise::{Change, Cluster, Kind, Normalised, Refused, Request, normalise};
use kyvtest_prove::server::{check_expressions, check_rule};

/// Print objects as the API server shows them to admission
///
/// Decodes each object of FILE as Kubernetes 1.36 does, applies the defaults of its version, the mutating admission
/// plugins and the strategy of its kind, and validates it. Values that a cluster assigns (uid, addresses, node ports,
/// generated names) are made up. Rejected objects are reported, and the command exits with code 1.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Objects, a YAML or JSON file; `-` is standard input
    #[arg(value_name = "FILE", required_unless_present = "jsonl")]
    file: Option<PathBuf>,

    /// Show the difference from FILE instead of the object
    #[arg(long, conflicts_with_all = ["jsonl", "why"])]
    diff: bool,

    /// List the changes with the step that makes each
    #[arg(long, conflicts_with = "jsonl")]
    why: bool,

    /// CustomResourceDefinitions of the cluster (may be repeated)
    #[arg(long, value_name = "FILE")]
    crds: Vec<PathBuf>,

    /// Other objects of the cluster, such as LimitRange or PriorityClass (may be repeated)
    #[arg(long, value_name = "FILE", conflicts_with = "jsonl")]
    cluster: Vec<PathBuf>,

    /// Normalise every line of a file of JSON objects instead, in order
    ///
    /// Keys of a line: id, operation (CREATE or UPDATE), apiVersion, kind, namespace, name, subresource, raw or raw_text,
    /// old, plugins, objects; all but id, kind and one of the raws are optional. `plugins` lists admission plugins, by
    /// default those of kube-apiserver without ServiceAccount; `objects` are all other objects of the cluster. The
    /// output line has id and object (what validating admission sees), and stored if the stored object differs, or id
    /// and rejected with stage, code, causes and message.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    jsonl: Option<PathBuf>,
}

impl Args {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let definitions = read_all(&self.crds)?;
        match (&self.jsonl, &self.file) {
            (Some(path), _) => {
                let definitions: Vec<_> = definitions.into_iter().map(Arc::new).collect();
                lines::run(path, &definitions, output)
            }
            (None, Some(path)) => self.run_file(path, definitions, output),
            (None, None) => Ok(Exit::Input),
        }
    }

    fn run_file(&self, path: &Path, definitions: Vec<Document>, output: &mut Output) -> Result<Exit, Failure> {
        let mut sources = Sources::new();
        let documents = input::read_values(path, &mut sources).map_err(|problems| Failure::Input(problems, sources))?;
        let cluster = Cluster {
            objects: read_all(&self.cluster)?,
            definitions: definitions.into_iter().map(Arc::new).collect(),
            rules: Some(check_rule),
            expressions: Some(check_expressions),
            ..Cluster::default()
        };
        let mut exit = Exit::Success;
        let mut printed = 0;
        for document in documents.iter().filter(|document| !document.root().is_null()) {
            match self.normalise(document, &cluster) {
                Ok(found) => {
                    for warning in &found.warnings {
                        output.remark(&format!("note: {warning}\n"));
                    }
                    if printed > 0 && !self.diff && !self.why {
                        output.artefact().write_all(b"---\n")?;
                    }
                    printed += 1;
                    output.artefact().write_all(self.show(document, &found).as_bytes())?;
                }
                Err(refused) => {
                    exit = exit.combine(Exit::Mismatch);
                    output.diagnostic(&refusal(document, &refused), &Sources::new());
                }
            }
        }
        if documents.iter().all(|document| document.root().is_null()) {
            let message = format!("`{}` contains no object", path.display());
            return Err(Diagnostic::new(Code::NothingInFile, message)
                .with_severity(Severity::Error)
                .into());
        }
        Ok(exit)
    }

    fn normalise(&self, document: &Document, cluster: &Cluster) -> Result<Normalised, Refused> {
        let kind = Kind {
            api_version: text(document, "apiVersion"),
            name: text(document, "kind"),
        };
        normalise(kind, document.into(), None, Request::default(), cluster, self.why)
    }

    fn show(&self, document: &Document, found: &Normalised) -> String {
        let yaml = found.object.root().to_yaml();
        if self.why {
            return explain(document, &found.changes);
        }
        if !self.diff {
            return yaml;
        }
        let before = document.root().to_yaml();
        let title = title(document);
        unified(&before, &yaml, [&title, &format!("{title} (normalised)")], 3)
    }
}

/// Reads the documents of several files.
fn read_all(paths: &[PathBuf]) -> Result<Vec<Document>, Failure> {
    let mut all = Vec::new();
    for path in paths {
        let mut sources = Sources::new();
        match input::read_values(path, &mut sources) {
            Ok(documents) => all.extend(documents),
            Err(problems) => return Err(Failure::Input(problems, sources)),
        }
    }
    Ok(all)
}

fn text<'d>(document: &'d Document, field: &str) -> &'d str {
    document.root().get(field).and_then(Value::as_str).unwrap_or_default()
}

/// `Pod default/web`
fn title(document: &Document) -> String {
    let metadata = |field| document.root().at(&["metadata", field]).and_then(Value::as_str);
    let kind = text(document, "kind");
    let name = metadata("name")
        .or_else(|| metadata("generateName"))
        .unwrap_or("(unnamed)");
    match metadata("namespace") {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

fn refusal(document: &Document, refused: &Refused) -> Diagnostic {
    lens::refused_object(&title(document), refused)
}

fn explain(document: &Document, changes: &[Change]) -> String {
    let mut out = format!("{}\n", title(document));
    let json = |side: &Option<Document>| {
        side.as_ref()
            .map_or_else(|| "(none)".to_owned(), |side| side.root().to_json())
    };
    for change in changes {
        let path = if change.path.is_empty() { "." } else { &change.path };
        let (before, after) = (json(&change.before), json(&change.after));
        let _ = writeln!(out, "  {path}: {before} → {after} ({})", change.source.name());
    }
    out
}
