//! Compares translations with the engines: JMESPath and conditions on one side, CEL on the other, on many objects.
//!
//! Each fixture names its objects. From each of them come more: one for every field that the schema of the kind lets be absent.

use std::path::PathBuf;

use kyvtest_cel::{
    profile::Profile,
    query::{Query, QueryResult, run_query},
};
use kyvtest_go_compat::{
    diagnostic::{FileId, Sources},
    value::{Data, Document},
    yaml::{self, Node},
};
use kyvtest_jmespath as jmespath;
use kyvtest_kyverno::classic::{
    condition::Conditions,
    context::{Context, NoOutside},
    variables::substitute_preconditions,
};
use serde_json::{Value as Json, json};

use crate::{
    Scope,
    conditions::{self, Failure},
    names::{Names, Variables},
    query::{self, Missing, Type},
};

fn fixture(name: &str) -> (yaml::Tree, FileId) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/migrate")
        .join(name);
    let text = std::fs::read_to_string(&path).expect("a fixture");
    let file = Sources::new().add(name, text.as_str());
    let tree = yaml::read_first(&text, yaml::Mode::Lax, &yaml::Limits::default());
    (tree.expect("YAML"), file)
}

fn json_of(node: Node<'_>) -> Json {
    Document::from(node).root().to_serde()
}

fn kinds(row: Node<'_>) -> Vec<(String, String)> {
    let kinds = row
        .get("kinds")
        .and_then(Node::as_seq)
        .into_iter()
        .flat_map(yaml::Items::iter);
    let pair = |kind: Node<'_>| {
        let (version, kind) = kind.as_str()?.rsplit_once('/')?;
        Some((version.to_owned(), kind.to_owned()))
    };
    kinds.filter_map(pair).collect()
}

/// The object, and the object without each of the parts that may be absent.
fn variants(object: &Json, ty: &Type, served: bool) -> Vec<Json> {
    let mut all = vec![object.clone()];
    match object {
        Json::Object(entries) => {
            for (key, value) in entries {
                let field = ty.field(key);
                if !(if served { field.always } else { field.required }) {
                    let mut without = entries.clone();
                    without.remove(key);
                    all.push(Json::Object(without));
                }
                for inner in variants(value, &field.ty, served).into_iter().skip(1) {
                    let mut changed = entries.clone();
                    changed.insert(key.clone(), inner);
                    all.push(Json::Object(changed));
                }
            }
        }
        Json::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                for inner in variants(item, &ty.item(), served).into_iter().skip(1) {
                    let mut changed = items.clone();
                    changed[i] = inner;
                    all.push(Json::Array(changed));
                }
            }
        }
        _ => {}
    }
    all
}

struct Case {
    object: Json,
    /// Whether the API server could show the object.
    served: bool,
    old_object: Json,
    request: Json,
}

fn cases(row: Node<'_>, defaults: Node<'_>, kinds: &[(String, String)]) -> Vec<Case> {
    let ty = Type::of_kinds(kinds, query::Seen::Validated);
    let request = |row: Node<'_>| row.get("request").map(json_of);
    let request = request(row).or_else(|| request(defaults)).unwrap_or(json!({}));
    let old_object = row.get("oldObject").map_or(Json::Null, json_of);
    let objects = row
        .get("objects")
        .and_then(Node::as_seq)
        .into_iter()
        .flat_map(yaml::Items::iter);
    let mut all = Vec::new();
    for object in objects {
        let served = variants(&json_of(object), &ty, true);
        for object in variants(&json_of(object), &ty, false) {
            all.push(Case {
                served: served.contains(&object),
                object,
                old_object: old_object.clone(),
                request: request.clone(),
            });
        }
    }
    all
}

impl Case {
    /// The document that JMESPath reads.
    fn context(&self) -> Data {
        let mut request = self.request.clone();
        request["object"] = self.object.clone();
        request["oldObject"] = self.old_object.clone();
        Data::from(Document::from(&json!({ "request": request })).root()).with_doubles()
    }

    fn evaluate(&self, expr: &str, variables: &Variables, expected: &Data) -> Result<bool, String> {
        let variables: Vec<(String, String)> = variables
            .iter()
            .map(|(name, expr)| (name.to_owned(), expr.as_str().to_owned()))
            .collect();
        let object = Document::from(&self.object);
        let old = if self.old_object.is_null() {
            json!({})
        } else {
            self.old_object.clone()
        };
        let old_object = Document::from(&old);
        let request = Document::from(&self.request);
        let params = expected.to_document();
        let mut query = Query::new(expr, Profile::kyverno());
        query.object = Some(&object);
        query.old_object = Some(&old_object);
        query.request = Some(&request);
        query.params = Some(&params);
        query.variables = Some(&variables);
        match run_query(&query) {
            QueryResult::Value { value, .. } => Ok(value == "true"),
            QueryResult::Failed { error, .. } => Err(error),
            QueryResult::Refused(error) => panic!("{expr}: {}", error.detail()),
        }
    }
}

fn note(row: Node<'_>) -> String {
    row.get("note").and_then(Node::as_str).unwrap_or_default().to_owned()
}

fn names<'v>(row: Node<'_>, variables: &'v mut Variables) -> (Names<'v>, Vec<(String, String)>) {
    let kinds = kinds(row);
    let mut scope = Scope::default();
    scope.set_kinds(kinds.clone());
    (Names::new(scope, variables), kinds)
}

/// Checks the text of a translation, or of its refusal; whether there is something to evaluate.
fn check_text(row: Node<'_>, translated: Result<&str, &crate::Refusal>) -> Result<bool, String> {
    let wanted = |key: &str| row.get(key).and_then(Node::as_str).map(str::trim_end);
    match (translated, wanted("cel"), wanted("refused")) {
        (Ok(expr), Some(cel), None) if expr != cel => Err(format!("{expr}\n  instead of {cel}")),
        (Ok(_), _, None) => Ok(true),
        (Err(refusal), None, Some(code)) if refusal.code.as_str() == code => Ok(false),
        (Ok(expr), _, Some(_)) => Err(format!("{expr} instead of a refusal")),
        (Err(refusal), ..) => Err(format!("{}: {}", refusal.code.as_str(), refusal.reason)),
    }
}

/// Runs a check for all rows of a fixture; it answers how many comparisons it made.
fn check_rows(name: &str, check: impl Fn(Node<'_>, Node<'_>, FileId) -> Result<usize, String>) {
    let (tree, file) = fixture(name);
    let root = tree.root();
    let mut problems = Vec::new();
    let mut compared = 0;
    for row in root
        .get("rows")
        .and_then(Node::as_seq)
        .into_iter()
        .flat_map(yaml::Items::iter)
    {
        match check(row, root, file) {
            Ok(count) => compared += count,
            Err(problem) => problems.push(format!("{}: {problem}", note(row))),
        }
    }
    assert!(problems.is_empty(), "{} rows:\n{}", problems.len(), problems.join("\n"));
    assert!(compared > 100, "only {compared} comparisons");
}

fn check_query(row: Node<'_>, root: Node<'_>) -> Result<usize, String> {
    let mut variables = Variables::default();
    let (mut names, kinds) = names(row, &mut variables);
    let text = row.get("query").and_then(Node::as_str).unwrap_or_default();
    let value = query::query(text, &mut names);
    if !check_text(row, value.as_ref().map(|value| value.plain().as_str()))? {
        return Ok(0);
    }
    let value = value.expect("checked");
    let expression = jmespath::Expression::parse(text).expect("JMESPath");
    let all = cases(row, root, &kinds);
    for case in &all {
        let theirs = expression.search(&case.context(), &jmespath::Context::default());
        let with = |expected: &Data| Data::from_iter([("expected".into(), expected.clone())]);
        let evaluate = |expr: &str, expected: &Data| case.evaluate(expr, names.variables, &with(expected));
        let same = format!("dyn({}) == params.expected", value.plain());
        let optional = format!("({}) == optional.of(dyn(params.expected))", value.as_optional());
        let agrees = match &theirs {
            Ok(Data::Null) if value.ty == Type::Null => true,
            Ok(Data::Null) | Err(jmespath::Error::NotFound(_)) => {
                let missing = if theirs.is_ok() { Missing::Null } else { Missing::Error };
                evaluate(value.present().as_str(), &Data::Null) == Ok(false)
                    && [missing, Missing::Either].contains(&value.missing)
            }
            Ok(theirs) => {
                evaluate(&same, theirs) == Ok(true)
                    && evaluate(value.present().as_str(), theirs) == Ok(true)
                    && evaluate(&optional, theirs) == Ok(true)
            }
            Err(_) => evaluate(&same, &Data::Null).is_err() && (value.fails || !case.served),
        };
        if !agrees {
            let ours = evaluate(&same, &Data::Null);
            let (expr, object) = (value.plain(), &case.object);
            return Err(format!(
                "{expr} ({:?}): {ours:?}\n  JMESPath: {theirs:?}\n  {object}",
                value.missing
            ));
        }
    }
    Ok(all.len())
}

#[test]
fn queries_have_the_same_values() {
    check_rows("query.yaml", |row, root, _| check_query(row, root));
}

fn check_conditions(row: Node<'_>, root: Node<'_>, file: FileId) -> Result<usize, String> {
    let mut variables = Variables::default();
    let (mut names, kinds) = names(row, &mut variables);
    let block = row.get("conditions").expect("conditions");
    let test = conditions::block(block, file, Failure::Kept, &mut names);
    if !check_text(row, test.as_ref().map(|test| test.expr.as_str()))? {
        return Ok(0);
    }
    let test = test.expect("checked");
    let classic = Conditions::read(Document::from(block).root());
    let all = cases(row, root, &kinds);
    for case in &all {
        let mut context = Context::from_data(case.context(), &NoOutside);
        let mut substitute =
            |data: &Data| substitute_preconditions(data, &mut context).map_err(|error| error.to_string());
        let theirs = classic.evaluate(&mut substitute).map(|answer| answer.holds);
        let ours = case.evaluate(test.expr.as_str(), names.variables, &Data::Null);
        if ours.as_ref().ok() != theirs.as_ref().ok() || theirs.is_err() && !test.fails && case.served {
            let (expr, object) = (&test.expr, &case.object);
            return Err(format!("{expr}: {ours:?}\n  Kyverno: {theirs:?}\n  {object}"));
        }
    }
    Ok(all.len())
}

#[test]
fn conditions_hold_on_the_same_objects() {
    check_rows("conditions.yaml", check_conditions);
}
