//! `kyvtest cel`: evaluates CEL as Kubernetes or Kyverno would, one expression or a file of them.

use std::{
    fmt::Write as _,
    io::Write as _,
    path::{Path, PathBuf},
};

use serde_json::{Value as Json, json};

use super::{
    Exit, Failure,
    format::{OutputFormat, ResultFormat},
    input,
    output::Output,
};
use kyvtest_cel::{
    authorizer::AuthorizerRules,
    compile::CompileError,
    eval::COST_LIMIT_EXCEEDED,
    host::Mocks,
    issue::Source,
    profile::Profile,
    query::{Authorizer, Query, QueryResult, run_query_with},
    time::Timestamp,
};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, FileId, Sources, Span, nearest},
    value::Document,
};

/// Evaluate a CEL expression
///
/// Prints the type and the value of the expression, as the Kubernetes API server (profiles k8s-1.34 to k8s-1.37) or
/// Kyverno (kyverno-1.19) would compute them, or the error with its location. Numbers, errors and costs are those of
/// the profile's cel-go release.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The expression
    #[arg(value_name = "EXPR", required_unless_present = "jsonl")]
    expr: Option<String>,

    /// The object of the request, a YAML or JSON file; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "jsonl")]
    object: Option<PathBuf>,

    /// The old object of the request
    #[arg(long, value_name = "FILE", conflicts_with = "jsonl")]
    old_object: Option<PathBuf>,

    /// The parameter object
    #[arg(long, value_name = "FILE", conflicts_with = "jsonl")]
    params: Option<PathBuf>,

    /// The namespace of the request
    #[arg(long, value_name = "FILE", conflicts_with = "jsonl")]
    namespace_object: Option<PathBuf>,

    /// The admission request, available as `request`
    #[arg(long, value_name = "FILE", conflicts_with = "jsonl")]
    request: Option<PathBuf>,

    /// The authorizer's decisions: a list of rules with attributes, `allowed`, `reason` and `error`
    #[arg(long, value_name = "FILE", conflicts_with = "jsonl")]
    authorizer: Option<PathBuf>,

    /// A variable of the policy, `variables.NAME`; later ones see earlier ones
    #[arg(long, value_name = "NAME=EXPR", value_parser = variable, conflicts_with = "jsonl")]
    var: Vec<(String, String)>,

    /// The CEL environment
    #[arg(long, value_name = "PROFILE", default_value = "k8s-1.36")]
    profile: String,

    /// Also print the cost of the evaluation
    #[arg(long)]
    cost: bool,

    #[command(flatten)]
    output: OutputFormat<ResultFormat>,

    /// Evaluate every line of a file of JSON objects instead, in order
    ///
    /// Keys of a line: id, expr, profile, object, oldObject, params, namespaceObject, request, variables (a map of
    /// names to expressions), authorizer (a list of rules). The output line has id and either type, value and cost, or
    /// phase (parse, check, program, eval), error and cost.
    #[arg(long, value_name = "FILE", conflicts_with = "expr")]
    jsonl: Option<PathBuf>,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, expr)) if !name.is_empty() => Ok((name.trim().to_owned(), expr.to_owned())),
        _ => Err("write variables as NAME=EXPR".to_owned()),
    }
}

fn profile_named(name: &str) -> Result<&'static Profile, Diagnostic> {
    Profile::named(name).ok_or_else(|| {
        let names: Vec<&str> = Profile::all().iter().map(|profile| profile.name).collect();
        let mut diagnostic = Diagnostic::new(Code::UnknownProfile, format!("unknown CEL profile `{name}`"))
            .with_help(format!("available profiles: {}", names.join(", ")));
        if let Some(near) = nearest(name, names.iter().copied()).first() {
            diagnostic = diagnostic.with_note(format!("did you mean `{near}`?"));
        }
        diagnostic
    })
}

impl Args {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let profile = profile_named(&self.profile)?;
        match &self.jsonl {
            Some(path) => input::answer_lines(path, output, |line| answer_line(line, profile)),
            None => self.run_one(profile, output),
        }
    }

    fn run_one(&self, profile: &'static Profile, output: &mut Output) -> Result<Exit, Failure> {
        let mut sources = Sources::new();
        let mut problems = Vec::new();
        let mut load = |path: &Option<PathBuf>| -> Option<Document> {
            let path = path.as_ref()?;
            match input::read_value(path, &mut sources) {
                Ok(document) => Some(document),
                Err(mut found) => {
                    problems.append(&mut found);
                    None
                }
            }
        };
        let object = load(&self.object);
        let old_object = load(&self.old_object);
        let params = load(&self.params);
        let namespace_object = load(&self.namespace_object);
        let request = load(&self.request);
        let rules = load(&self.authorizer);
        let rules = match rules
            .as_ref()
            .map(|rules| AuthorizerRules::from_value(rules.root()))
            .transpose()
        {
            Ok(rules) => rules,
            Err(problem) => {
                let name = self.authorizer.as_deref().map(Path::display);
                let name = name.map(|name| format!("`{name}`: ")).unwrap_or_default();
                problems.push(Diagnostic::new(Code::BadValue, name + &problem));
                None
            }
        };
        if !problems.is_empty() {
            return Err(Failure::Input(problems, sources));
        }
        let expr = self.expr.as_deref().unwrap_or_default();
        let query = Query {
            object: object.as_ref(),
            old_object: old_object.as_ref(),
            params: params.as_ref(),
            namespace_object: namespace_object.as_ref(),
            request: request.as_ref(),
            variables: (!self.var.is_empty()).then_some(&self.var[..]),
            authorizer: authorizer(rules.as_ref()),
            ..Query::new(expr, profile)
        };
        let answer = run_query_with(&query, &world(rules));
        if self.output.format == ResultFormat::Json {
            writeln!(output.artefact(), "{}", answer_json(&Json::Null, &answer))?;
        } else if let QueryResult::Value {
            type_name, value, cost, ..
        } = &answer
        {
            let mut text = format!("{type_name}: {value}\n");
            if let (true, Some(cost)) = (self.cost, cost) {
                let _ = writeln!(text, "cost: {cost}{}", share(*cost, profile));
            }
            output.artefact().write_all(text.as_bytes())?;
        }
        Ok(match &answer {
            QueryResult::Value { .. } => Exit::Success,
            QueryResult::Refused(error) => {
                let file = sources.add("<expression>", expr);
                for diagnostic in compile_diagnostics(error, file, expr) {
                    output.diagnostic(&diagnostic, &sources);
                }
                Exit::Input
            }
            QueryResult::Failed { error, cost } => {
                let file = sources.add("<expression>", expr);
                let code = if error == COST_LIMIT_EXCEEDED {
                    Code::CelCost
                } else {
                    Code::CelEvaluation
                };
                let mut diagnostic = Diagnostic::at(code, Span::new(file, 0, expr.len() as u32), error.clone());
                if let (true, Some(cost)) = (self.cost, cost) {
                    diagnostic = diagnostic.with_note(format!("cost so far: {cost}{}", share(*cost, profile)));
                }
                output.diagnostic(&diagnostic, &sources);
                Exit::Mismatch
            }
        })
    }
}

/// The fraction of the cost limit.
fn share(cost: u64, profile: &Profile) -> String {
    match profile.cost_limit {
        Some(limit) => format!(" of {limit} ({:.1} %)", cost as f64 * 100.0 / limit as f64),
        None => String::new(),
    }
}

/// The problems of an expression as diagnostics located in its source.
pub(super) fn compile_diagnostics(error: &CompileError, file: FileId, text: &str) -> Vec<Diagnostic> {
    let (code, issues) = match error {
        CompileError::Parse(issues) => (Code::CelSyntax, issues),
        CompileError::Check(issues) => (Code::CelType, issues),
        CompileError::Program(error) => {
            let span = Span::new(file, 0, text.len() as u32);
            return vec![Diagnostic::at(Code::CelProgram, span, error.to_string())];
        }
    };
    let lines = Source::new(text);
    let place = |offset: i32| {
        let at = text
            .char_indices()
            .nth(usize::try_from(offset).unwrap_or(0))
            .map_or(text.len(), |(byte, _)| byte);
        let end = text[at..].chars().next().map_or(at, |c| at + c.len_utf8());
        Span::new(file, at as u32, end as u32)
    };
    issues
        .list()
        .iter()
        .map(|issue| Diagnostic::at(code, place(lines.offset(issue.location)), issue.message.clone()))
        .collect()
}

fn answer_json(id: &Json, answer: &QueryResult) -> Json {
    match answer {
        QueryResult::Value {
            type_name, value, cost, ..
        } => {
            json!({"id": id, "type": type_name, "value": value, "cost": cost})
        }
        QueryResult::Refused(error) => {
            json!({"id": id, "phase": error.phase(), "error": error.first_line(), "cost": null})
        }
        QueryResult::Failed { error, cost } => {
            let line = error.lines().next().unwrap_or_default();
            json!({"id": id, "phase": "eval", "error": line, "cost": cost})
        }
    }
}

/// The keys that a line may have.
const KEYS: [&str; 10] = [
    "id",
    "expr",
    "profile",
    "object",
    "oldObject",
    "params",
    "namespaceObject",
    "request",
    "variables",
    "authorizer",
];

fn answer_line(line: &str, default: &'static Profile) -> Result<Json, input::LineProblem> {
    let problem = |message: String| (0, Code::BadValue, message);
    let row: Json = serde_json::from_str(line)
        .map_err(|error| (error.column().saturating_sub(1), Code::JsonSyntax, reason(&error)))?;
    let Json::Object(row) = row else {
        return Err(problem("a line must be a JSON object".to_owned()));
    };
    if let Some(unknown) = row.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(problem(format!(
            "unknown key `{unknown}`; a line has {}",
            KEYS.join(", ")
        )));
    }
    let Some(expr) = row.get("expr").and_then(Json::as_str) else {
        return Err(problem("a line needs `expr`, a string".to_owned()));
    };
    let profile = match row.get("profile") {
        None | Some(Json::Null) => default,
        Some(Json::String(name)) => profile_named(name).map_err(|d| (0, Code::UnknownProfile, d.message))?,
        Some(_) => return Err(problem("`profile` must be a string".to_owned())),
    };
    let document = |key: &str| row.get(key).map(Document::from);
    let (object, old_object, params) = (document("object"), document("oldObject"), document("params"));
    let (namespace_object, request) = (document("namespaceObject"), document("request"));
    let variables: Option<Vec<(String, String)>> = match row.get("variables") {
        None => None,
        Some(Json::Object(variables)) => Some(
            variables
                .iter()
                .map(|(name, text)| match text {
                    Json::String(text) => Ok((name.clone(), text.clone())),
                    _ => Err(problem(format!("variable `{name}` must be a string"))),
                })
                .collect::<Result<_, _>>()?,
        ),
        Some(_) => {
            return Err(problem(
                "`variables` must be an object of names and expressions".to_owned(),
            ));
        }
    };
    let rules = match document("authorizer") {
        None => None,
        Some(rules) => Some(AuthorizerRules::from_value(rules.root()).map_err(problem)?),
    };
    let query = Query {
        object: object.as_ref(),
        old_object: old_object.as_ref(),
        params: params.as_ref(),
        namespace_object: namespace_object.as_ref(),
        request: request.as_ref(),
        variables: variables.as_deref(),
        authorizer: authorizer(rules.as_ref()),
        ..Query::new(expr, profile)
    };
    let answer = run_query_with(&query, &world(rules));
    Ok(answer_json(row.get("id").unwrap_or(&Json::Null), &answer))
}

fn authorizer(rules: Option<&AuthorizerRules>) -> Authorizer {
    match rules {
        Some(_) => Authorizer::Bound,
        None => Authorizer::Absent,
    }
}

/// The host of an expression on the command line: a clock, random numbers, an authorizer; a cluster without objects.
fn world(rules: Option<AuthorizerRules>) -> Mocks {
    let mut world = Mocks::new();
    let since_1970 = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    world.set_seed(since_1970.as_nanos() as u64);
    if let Some(now) = Timestamp::from_seconds(since_1970.as_secs() as i64) {
        world.set_now(Timestamp {
            nanos: since_1970.subsec_nanos(),
            ..now
        });
    }
    if let Some(rules) = rules {
        world.set_authorizer(rules);
    }
    world
}

/// The JSON reader's message without the location, which we show ourselves.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}
