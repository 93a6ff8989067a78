//! `kyvtest eval`: evaluates one request, or many, with both engines.

use std::{
    fmt::Write as _,
    io::Write as _,
    path::{Path, PathBuf},
};

use rayon::prelude::*;
use serde_json::{Value as Json, json};

use super::{
    Exit, Failure,
    cluster::{Cluster as ClusterArgs, KyvernoConfig},
    config::Source,
    data::{DataLens, StrictResources},
    format::{OutputFormat, ResultFormat},
    input,
    output::Output,
};
use crate::{
    eval::{BothResponses, Evaluator, Settings, compat, line},
    run::{Data, lens},
};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Severity, Sources, Span},
    value::Document,
};
use kyvtest_model::{
    compare::Divergence,
    kube::NAME_LABEL,
    verdict::{Effect, Status},
};
use kyvtest_prove::server::Refused;

/// Evaluate one request with both engines
///
/// Prints Kyverno's response with the given policies, the API server's response with the given
/// ValidatingAdmissionPolicies or those that Kyverno would generate, and how the two differ. The request is an
/// AdmissionReview or AdmissionRequest, or is built from `--object`, `--old-object` and similar options. With
/// `--cases`, each line is a case; see `docs/eval.md`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A file with an AdmissionReview or AdmissionRequest; `-` is standard input
    #[arg(value_name = "REQUEST", conflicts_with_all = ["object", "old_object", "cases"])]
    request: Option<PathBuf>,

    /// Files with policies, exceptions, bindings, parameters, Namespaces, CustomResourceDefinitions, RBAC objects
    #[arg(short, long, value_name = "FILE", conflicts_with = "cases")]
    policy: Vec<PathBuf>,

    /// Responses to HTTP calls, global context entries, image metadata and image mocks
    ///
    /// The keys `apiCallResponses` and `globalContextEntries` are those of a test file; `context` has `resources` and
    /// `images`, the `spec` of a Context file; `imageMocks`, or `images` of a sidecar, state what registries would answer.
    /// Other keys are ignored, so that a test file or a sidecar can be given.
    #[arg(long, value_name = "FILE", conflicts_with = "cases")]
    mocks: Option<PathBuf>,

    /// The new object
    #[arg(long, value_name = "FILE", conflicts_with = "cases")]
    object: Option<PathBuf>,

    /// The existing object, for UPDATE and DELETE
    #[arg(long, value_name = "FILE", conflicts_with = "cases")]
    old_object: Option<PathBuf>,

    /// CREATE, UPDATE, DELETE or CONNECT [default: derived from the objects]
    #[arg(long, value_name = "WORD")]
    operation: Option<String>,

    /// The subresource
    #[arg(long, value_name = "NAME")]
    subresource: Option<String>,

    /// The user's name
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// A group of the user (may be repeated)
    #[arg(long, value_name = "NAME")]
    group: Vec<String>,

    /// The labels of the request's namespace: `env=prod,team=a`
    #[arg(long, value_name = "LABELS")]
    namespace_labels: Option<String>,

    /// Cases, one JSON object per line; `-` is standard input
    #[arg(long, value_name = "FILE")]
    cases: Option<PathBuf>,

    /// Evaluate the cases as `kyverno test` does, each as a test of one resource
    #[arg(long, requires = "cases")]
    compat: bool,

    #[command(flatten)]
    output: OutputFormat<ResultFormat>,

    #[command(flatten)]
    config: Source,

    #[command(flatten)]
    cluster: ClusterArgs,

    #[command(flatten)]
    kyverno_config: KyvernoConfig,

    #[command(flatten)]
    data: DataLens,

    #[command(flatten)]
    resources: StrictResources,
}

impl Args {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let settings = Settings {
            discovery: self.cluster.discovery()?,
            config: self.kyverno_config.read("bare")?,
            now: self.cluster.clock()?,
            data: self.data.or(Data::Raw),
        };
        match &self.cases {
            Some(path) if self.compat => cases(path, &settings, compat::answer, output),
            Some(path) => cases(path, &settings, line::answer, output),
            None => self.one(&settings, output),
        }
    }

    fn one(&self, settings: &Settings, output: &mut Output) -> Result<Exit, Failure> {
        let mut sources = Sources::new();
        let mut objects = Vec::new();
        for path in &self.policy {
            objects.extend(read_all(path, &mut sources)?);
        }
        let mut request = self.request(&mut sources)?;
        if let Some(labels) = &self.namespace_labels {
            objects.push(namespace(&request, labels)?);
        }
        self.add_user(&mut request);
        let mocks = match &self.mocks {
            Some(path) => first(path, &mut sources)?,
            None => Document::null(),
        };
        let cluster = Evaluator::with_mocks(&objects, mocks.root(), settings);
        for invalid in cluster.invalid() {
            let message = format!("{} cannot be installed: {}", invalid.object, invalid.message);
            output.diagnostic(&Diagnostic::new(invalid.code, message), &Sources::new());
        }
        for problem in cluster.problems() {
            output.diagnostic(problem, &Sources::new());
        }
        let request = cluster
            .request(Document::from(&request).root())
            .map_err(|problem| Diagnostic::new(Code::BadRequest, format!("the request cannot be used: {problem}")))?;
        let verbatim = if self.request.is_some() {
            Data::Raw
        } else {
            Data::Normalised
        };
        let data = self.data.or(verbatim);
        let (answers, refused) = cluster.evaluate(&request, data);
        if answers.kyverno.is_none() && answers.vap.is_none() && cluster.invalid().is_empty() {
            return Err(Diagnostic::new(Code::CommandLine, "no policy to evaluate")
                .with_help("give files with policies: `--policy FILE`")
                .into());
        }
        let undecided = undecided(&answers);
        let text = match self.output.format {
            ResultFormat::Json => {
                let mut report = line::render(&answers);
                report.insert("now".to_owned(), json!(settings.now.map(|now| now.to_string())));
                if data == Data::Normalised {
                    report.insert("data".to_owned(), line::data(refused.as_ref()));
                }
                format!("{:#}\n", Json::from(report))
            }
            ResultFormat::Human => human(&answers, undecided.is_some()),
        };
        output.artefact().write_all(text.as_bytes())?;
        if data == Data::Normalised
            && refused.is_none()
            && let Some(difference) = difference(&answers, &cluster.evaluate(&request, Data::Raw).0)
        {
            output.remark(&format!("note: {difference}\n"));
        }
        if answers.generated && self.output.format == ResultFormat::Human {
            for pair in cluster.pairs() {
                for note in pair.notes() {
                    let name = pair.original().name();
                    output.remark(&format!("note: policy `{name}`: {}: {}\n", note.as_str(), note.text()));
                }
            }
        }
        let mut exit = match &answers.divergence {
            Some(divergence) if divergence.class.fails() => Exit::Divergence,
            _ => Exit::Success,
        };
        if let Some(policy) = undecided {
            let message = format!("policy `{policy}` needs a registry, which may deny the request");
            let help = "state what the registry would answer in `imageMocks` of `--mocks FILE`";
            output.diagnostic(
                &Diagnostic::new(Code::NeedsRegistry, message).with_help(help),
                &Sources::new(),
            );
            exit = exit.combine(Exit::BelowThreshold);
        }
        if let Some(refused) = &refused {
            let diagnostic = self.refusal(refused, &sources);
            if diagnostic.severity == Severity::Error {
                exit = exit.combine(Exit::Input);
            }
            output.diagnostic(&diagnostic, &sources);
        }
        let wrong = |problem: &Diagnostic| problem.severity == Severity::Error;
        Ok(
            if cluster.invalid().is_empty() && !cluster.problems().iter().any(wrong) {
                exit
            } else {
                exit.combine(Exit::Input)
            },
        )
    }

    /// The warning about an object that the API server rejects, located at its first error.
    fn refusal(&self, refused: &Refused, sources: &Sources) -> Diagnostic {
        let mut diagnostic = lens::refused_object("this object", refused);
        let path = self.object.as_ref().or(self.old_object.as_ref());
        let name = path.map(|path| path.display().to_string());
        let file = sources.files().find(|file| sources.name(*file) == name.as_deref());
        if let (Some(file), Some(cause)) = (file, refused.errors.first()) {
            diagnostic.primary = Some(lens::place(sources, Span::point(file, 0), &cause.field));
        }
        let diagnostic = diagnostic.with_note("the policies were evaluated on the object as written (`data=raw`)");
        if self.resources.strict_resources {
            diagnostic.with_severity(Severity::Error)
        } else {
            diagnostic
        }
    }

    /// The request as given, or built from the objects.
    fn request(&self, sources: &mut Sources) -> Result<Json, Failure> {
        if let Some(path) = &self.request {
            let value = first(path, sources)?.root().to_serde();
            return Ok(match value.get("request") {
                Some(request) => request.clone(),
                None => value,
            });
        }
        let mut read = |path: &Option<PathBuf>| -> Result<Json, Failure> {
            match path {
                Some(path) => Ok(first(path, sources)?.root().to_serde()),
                None => Ok(Json::Null),
            }
        };
        let (object, old) = (read(&self.object)?, read(&self.old_object)?);
        if object.is_null() && old.is_null() {
            return Err(Diagnostic::new(Code::CommandLine, "no request given")
                .with_help("give a file with an AdmissionReview, or `--object FILE`")
                .into());
        }
        let mut request = json!({"object": object, "oldObject": old});
        if let Some(operation) = &self.operation {
            request["operation"] = json!(operation.to_ascii_uppercase());
            match request["operation"].as_str() {
                Some("DELETE") if request["oldObject"].is_null() => {
                    request["oldObject"] = request["object"].take();
                }
                Some("UPDATE") if request["oldObject"].is_null() => {
                    request["oldObject"] = request["object"].clone();
                }
                _ => {}
            }
        }
        if let Some(subresource) = &self.subresource {
            request["subResource"] = json!(subresource);
        }
        Ok(request)
    }

    /// Adds the given user; by default, the administrator of a new cluster.
    fn add_user(&self, request: &mut Json) {
        if self.user.is_none() && self.group.is_empty() {
            if request.get("userInfo").is_none_or(Json::is_null) {
                request["userInfo"] = json!({
                    "username": "kubernetes-admin",
                    "groups": ["system:masters", "system:authenticated"],
                });
            }
            return;
        }
        let mut groups = self.group.clone();
        if !groups.iter().any(|group| group == "system:authenticated") {
            groups.push("system:authenticated".to_owned());
        }
        request["userInfo"] = json!({"username": self.user.clone().unwrap_or_default(), "groups": groups});
    }
}

fn read_all(path: &Path, sources: &mut Sources) -> Result<Vec<Document>, Failure> {
    input::read_values(path, sources).map_err(|problems| Failure::Input(problems, std::mem::take(sources)))
}

fn first(path: &Path, sources: &mut Sources) -> Result<Document, Failure> {
    input::read_value(path, sources).map_err(|problems| Failure::Input(problems, std::mem::take(sources)))
}

/// Compares the verdicts on the object as written with those on the object that the API server completes.
fn difference(answers: &BothResponses, raw: &BothResponses) -> Option<String> {
    let kyverno = |answers: &BothResponses| answers.kyverno.as_ref().map(|answer| (answer.status, answer.effect));
    let vap = |answers: &BothResponses| answers.vap.as_ref().map(|answer| (answer.status, answer.effect));
    let sides = [
        ("kyverno", kyverno(answers), kyverno(raw)),
        ("vap", vap(answers), vap(raw)),
    ];
    let texts = sides.into_iter().filter_map(|(name, now, before)| {
        let (status, effect) = before.filter(|_| before != now)?;
        Some(format!("{name}: status {status}, effect {effect}"))
    });
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| format!("with `--data raw`: {}", texts.join("; ")))
}

/// The first policy that is not decided, unless another one denies the request anyway.
fn undecided(answers: &BothResponses) -> Option<&str> {
    let kyverno = answers.kyverno.as_ref().filter(|kyverno| kyverno.is_undecided())?;
    let mut undecided = kyverno.review.responses.iter();
    let found = undecided.find(|answered| answered.response.status.is_undecided())?;
    Some(&found.policy)
}

/// The Namespace of a request, with labels written as `a=b,c=d`.
fn namespace(request: &Json, labels: &str) -> Result<Document, Diagnostic> {
    let subject = [&request["object"], &request["oldObject"]];
    let names = [&request["namespace"]]
        .into_iter()
        .chain(subject.iter().map(|object| &object["metadata"]["namespace"]));
    let name = names.filter_map(Json::as_str).find(|name| !name.is_empty());
    let Some(name) = name else {
        let message = "`--namespace-labels` needs a request with a namespace";
        return Err(Diagnostic::new(Code::CommandLine, message));
    };
    let mut map = serde_json::Map::new();
    map.insert(NAME_LABEL.to_owned(), name.into());
    for pair in labels.split(',').filter(|pair| !pair.is_empty()) {
        let Some((key, value)) = pair.split_once('=') else {
            let diagnostic = Diagnostic::new(Code::CommandLine, format!("invalid label `{pair}`"));
            return Err(diagnostic.with_help("write labels as `key=value`, such as `env=prod,team=a`"));
        };
        map.insert(key.to_owned(), value.into());
    }
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": map}});
    Ok(Document::from(&object))
}

/// Evaluates a file of cases in order.
fn cases(
    path: &Path,
    settings: &Settings,
    answer: fn(&str, &Settings) -> line::Line,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let mut sources = Sources::new();
    let file = input::read(path, &mut sources)?;
    let text = sources.text(file).cloned().unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut exit = Exit::Success;
    // Process in chunks, so that memory does not grow with the file.
    for portion in lines.chunks(1024) {
        let answers: Vec<line::Line> = portion.par_iter().map(|text| answer(text, settings)).collect();
        for answer in answers {
            writeln!(output.artefact(), "{}", answer.answer)?;
            if !answer.readable {
                exit = Exit::Input;
            }
        }
    }
    Ok(exit)
}

/// The human-readable responses.
fn human(answers: &BothResponses, undecided: bool) -> String {
    let mut out = String::new();
    match &answers.kyverno {
        Some(kyverno) => side(
            &mut out,
            "kyverno",
            match &kyverno.review.refusal {
                Some(_) => "denied",
                None if undecided => "undecided",
                None => "admitted",
            },
            (kyverno.status, kyverno.effect),
            &kyverno.message,
            &kyverno.review.warnings,
        ),
        None => out.push_str("kyverno: no policy\n"),
    }
    match &answers.vap {
        Some(vap) => {
            let name = if answers.generated { "vap (generated)" } else { "vap" };
            let result = (vap.status, vap.effect);
            let word = if vap.allowed { "admitted" } else { "denied" };
            side(&mut out, name, word, result, &vap.message, &vap.warnings);
        }
        None => out.push_str("vap: no native policy\n"),
    }
    match &answers.divergence {
        None if answers.kyverno.is_some() && answers.vap.is_some() => out.push_str("equal\n"),
        None => {}
        Some(Divergence { class, code, cause }) => {
            let code = code.as_deref().map(|code| format!(" [{code}]")).unwrap_or_default();
            let _ = writeln!(out, "{class}{code}: {cause}");
        }
    }
    out
}

fn side(out: &mut String, name: &str, word: &str, result: (Status, Effect), message: &str, warnings: &[String]) {
    let (status, effect) = result;
    // Writing into memory cannot fail.
    let _ = writeln!(out, "{name}: {word} (status {status}, effect {effect})");
    for line in message.lines().filter(|line| !line.trim().is_empty()) {
        let _ = writeln!(out, "  {line}");
    }
    for warning in warnings {
        let _ = writeln!(out, "  warning: {warning}");
    }
}
