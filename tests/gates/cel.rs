//! CEL: cel-go's results in the environments of Kubernetes 1.36, Kyverno 1.19 and the reference data.

use std::path::Path;

use kyvtest::{
    cel::{
        host::{Mocks, NoHost},
        print,
        profile::Profile,
        query::{Authorizer, Query, QueryResult, run_query_with, with_value},
        time::Timestamp,
        val::Val,
    },
    value::Document,
};
use serde::Deserialize;

use crate::support::{Gate, fixture, jsonl, read, shared};

#[derive(Debug, Deserialize)]
struct Vector {
    id: String,
    expr: String,
    phase: Option<String>,
    error: Option<String>,
    #[serde(rename = "type")]
    type_name: Option<String>,
    value: Option<String>,
    cost: Option<u64>,
}

/// Costs in the vectors were taken with this limit.
const VECTOR_COST_LIMIT: u64 = 10_000_000;

fn check_vector(row: &Vector, profile: &'static Profile, object: &Document) -> Result<(), String> {
    let mut query = Query::new(&row.expr, profile);
    query.object = Some(object);
    query.cost_limit = Some(VECTOR_COST_LIMIT);
    let mut world = Mocks::new();
    world.set_now(Timestamp::parse("2026-06-07T08:09:10Z").expect("a point in time"));
    world.set_seed(1);
    let got = match run_query_with(&query, &world) {
        QueryResult::Value {
            type_name, value, cost, ..
        } => (None, None, Some(type_name), Some(value), cost),
        QueryResult::Refused(error) => (
            Some(error.phase().to_owned()),
            Some(error.first_line()),
            None,
            None,
            None,
        ),
        QueryResult::Failed { error, cost } => {
            let line = error.lines().next().unwrap_or_default().to_owned();
            (Some("eval".to_owned()), Some(line), None, None, cost)
        }
    };
    let want = (
        row.phase.clone(),
        row.error.clone(),
        row.type_name.clone(),
        row.value.clone(),
        row.cost,
    );
    if got == want {
        Ok(())
    } else {
        Err(format!("{}\n    want {want:?}\n    got  {got:?}", row.expr))
    }
}

fn vectors(name: &'static str, folder: &Path, rows: usize, profile: &'static Profile) {
    let object = Document::from_json(&read(&folder.join("object.json"))).expect("the object is JSON");
    let vectors: Vec<Vector> = jsonl(&folder.join("vectors.jsonl"));
    Gate { name, rows }.run(
        &vectors,
        |row| row.id.clone(),
        |row| check_vector(row, profile, &object),
    );
}

#[test]
fn kubernetes_1_36() {
    vectors("cel-1.36", &fixture("cel/golden-1.36"), 1525, Profile::kubernetes());
    if let Some(folder) = shared("golden/cel-1.36") {
        vectors("cel-1.36", &folder, 1525, Profile::kubernetes());
    }
}

#[test]
fn kyverno_1_19() {
    vectors("cel-kyverno", &fixture("cel/golden-kyverno"), 824, Profile::kyverno());
    if let Some(folder) = shared("golden/cel-kyverno") {
        vectors("cel-kyverno", &folder, 824, Profile::kyverno());
    }
}

/// Own rows for features that only Kyverno's environment has.
#[test]
fn kyverno_libraries() {
    vectors(
        "cel-kyverno-libraries",
        &fixture("cel/kyverno"),
        300,
        Profile::kyverno(),
    );
}

fn golden() -> &'static Profile {
    Profile::named("golden-cel").expect("the profile of the reference data")
}

/// An outcome in the notation of the reference data: a letter and the rest.
fn outcome(query: &Query<'_>) -> (String, Option<u64>) {
    let answered = with_value(query, &NoHost, |value, cost| {
        let text = match value {
            Val::Error(error) => format!("E {error}"),
            value => format!("V {}", print::plain_notation(value)),
        };
        (text, cost)
    });
    match answered {
        Ok(answer) => answer,
        Err(error) if error.phase() == "program" => (format!("P {}", error.first_line()), None),
        Err(error) => (format!("C {}", error.first_line()), None),
    }
}

fn same(expr: &str, want: &str, got: &str) -> Result<(), String> {
    if want == got {
        Ok(())
    } else {
        Err(format!("{expr}\n    want {want}\n    got  {got}"))
    }
}

fn table(name: &str, file: &str, rows: usize) {
    let Some(path) = shared(file) else { return };
    let text = read(&path);
    let lines: Vec<(usize, &str, &str)> = text
        .lines()
        .enumerate()
        .map(|(i, line)| {
            let (expr, want) = line.rsplit_once('\t').expect("two columns");
            (i + 1, expr, want)
        })
        .collect();
    Gate { name, rows }.run(
        &lines,
        |row| row.0.to_string(),
        |(_, expr, want)| {
            let mut query = Query::new(expr, golden());
            query.authorizer = Authorizer::Unbound;
            same(expr, want, &outcome(&query).0)
        },
    );
}

#[test]
fn libraries() {
    table("cel-lib", "golden/cel/lib_go.tsv", 422);
}

#[test]
fn regular_expressions() {
    table("cel-regex", "golden/cel/re_go.tsv", 27);
}

/// A value as Go's `%v` prints its native form.
fn native(value: Val<'_>) -> String {
    let parts = |parts: Vec<String>| parts.join(" ");
    match value {
        Val::Optional(Some(inner)) => native(*inner),
        Val::Type(name) => name.to_owned(),
        Val::Bytes(bytes) => format!("[{}]", parts(bytes.iter().map(u8::to_string).collect())),
        list if list.is_list() => format!("[{}]", parts(list.list_iter().map(native).collect())),
        map if map.is_map() => {
            let mut entries: Vec<String> = map
                .map_iter()
                .map(|(key, value)| format!("{}:{}", native(key), native(value)))
                .collect();
            entries.sort();
            format!("map[{}]", parts(entries))
        }
        scalar => print::go_display(scalar),
    }
}

#[test]
fn semantics() {
    let Some(path) = shared("golden/cel/sem_celgo.txt") else {
        return;
    };
    let object = Document::from_json(&read(&path.with_file_name("sem_obj.json"))).expect("the object is JSON");
    let text = read(&path);
    let lines: Vec<(usize, &str)> = text.lines().enumerate().collect();
    Gate::new("cel-semantics", 151).run(
        &lines,
        |row| (row.0 + 1).to_string(),
        |(_, line)| {
            let (expr, want) = line.rsplit_once('\t').expect("two columns");
            let mut query = Query::new(expr, golden());
            query.object = Some(&object);
            let answered = with_value(&query, &NoHost, |value, _| match value {
                Val::Error(error) => format!("ERR {error}"),
                value => format!("{} {}", value.type_name(), native(value)),
            });
            let got = match answered {
                Ok(text) => text,
                Err(error) if error.phase() == "program" => format!("PROGRAM_ERR {}", error.first_line()),
                Err(error) => format!("COMPILE_ERR {}", error.first_line()),
            };
            same(expr, want, &got)
        },
    );
}

#[derive(Debug, Deserialize)]
struct Compiled {
    expr: String,
    res: String,
}

#[test]
fn compile() {
    let Some(path) = shared("golden/cel/corpus_celgo.jsonl") else {
        return;
    };
    let rows: Vec<(usize, Compiled)> = jsonl(&path).into_iter().enumerate().collect();
    let empty = Document::null();
    Gate::new("cel-compile", 995).run(
        &rows,
        |row| (row.0 + 1).to_string(),
        |(_, row)| {
            let mut query = Query::new(&row.expr, golden());
            query.params = Some(&empty);
            query.namespace_object = Some(&empty);
            query.request = Some(&empty);
            query.variables = Some(&[]);
            query.authorizer = Authorizer::Unbound;
            let got = match with_value(&query, &NoHost, |_, _| ()) {
                Ok(()) => "OK".to_owned(),
                Err(error) if error.phase() == "parse" => {
                    let text = error.to_string();
                    format!("PARSE ERROR: {}", text.strip_prefix("ERROR: ").unwrap_or(&text))
                }
                Err(error) if error.phase() == "check" => {
                    let line = error.first_line();
                    format!("CHECK ERROR: {}", line.strip_prefix("ERROR: ").unwrap_or(&line))
                }
                Err(_) => "OK".to_owned(),
            };
            same(&row.expr, &row.res, &got)
        },
    );
}

#[derive(Debug, Deserialize)]
struct Unit {
    variables: Vec<(String, String)>,
    exprs: Vec<String>,
    resources: Vec<serde_json::Value>,
}

struct Evaluation {
    unit: usize,
    resource: usize,
    label: String,
    cost: Option<u64>,
    want: String,
}

/// The request that the rows imply, see the caveats of the reference data.
fn request_for(resource: &serde_json::Value) -> Document {
    let name = resource.pointer("/metadata/name").cloned().unwrap_or_default();
    let kind = resource.get("kind").cloned().unwrap_or_default();
    Document::from(&serde_json::json!({
        "operation": "CREATE",
        "namespace": "default",
        "name": name,
        "kind": {"kind": kind},
        "userInfo": {"username": "admin", "groups": ["system:masters"]},
    }))
}

fn evaluations() -> Option<(Vec<Unit>, Vec<Evaluation>)> {
    let path = shared("golden/cel/diff_go_cost.tsv")?;
    let units = jsonl(&path.with_file_name("dataset.jsonl"));
    let rows = read(&path)
        .lines()
        .map(|line| {
            let columns: Vec<&str> = line.splitn(5, '\t').collect();
            Evaluation {
                unit: columns[0].parse().expect("a number"),
                resource: columns[1].parse().expect("a number"),
                label: columns[2].to_owned(),
                cost: columns[3].parse().ok(),
                want: columns[4].to_owned(),
            }
        })
        .collect();
    Some((units, rows))
}

fn evaluate(units: &[Unit], row: &Evaluation) -> (String, String, Option<u64>) {
    let unit = &units[row.unit];
    let resource = &unit.resources[row.resource];
    let object = Document::from(resource);
    let namespace = Document::from(&serde_json::json!({"metadata": {"name": "default", "labels": {}}}));
    let request = request_for(resource);
    let expr = match unit.variables.iter().find(|(name, _)| *name == row.label) {
        Some((_, text)) => text,
        None => &unit.exprs[row.label[1..].parse::<usize>().expect("e and a number")],
    };
    let mut query = Query::new(expr, golden());
    let null = Document::null();
    query.object = Some(&object);
    query.params = Some(&null);
    query.namespace_object = Some(&namespace);
    query.request = Some(&request);
    query.variables = Some(&unit.variables);
    query.authorizer = Authorizer::Unbound;
    let (got, cost) = outcome(&query);
    (expr.clone(), got, cost)
}

fn evaluation_id(row: &Evaluation) -> String {
    format!("{}/{}/{}", row.unit, row.resource, row.label)
}

#[test]
fn evaluation() {
    let Some((units, rows)) = evaluations() else { return };
    // The other rows need functions that only Kyverno has.
    let rows: Vec<Evaluation> = rows.into_iter().filter(|row| row.cost.is_some()).collect();
    Gate::new("cel-evaluation", 7201).run(&rows, evaluation_id, |row| {
        let (expr, got, _) = evaluate(&units, row);
        same(&expr, &row.want, &got)
    });
}

#[test]
fn cost() {
    let Some((units, rows)) = evaluations() else { return };
    let rows: Vec<Evaluation> = rows.into_iter().filter(|row| row.cost.is_some()).collect();
    Gate::new("cel-cost", 7201).run(&rows, evaluation_id, |row| {
        let (expr, _, cost) = evaluate(&units, row);
        if cost == row.cost {
            Ok(())
        } else {
            Err(format!("{expr}: want {:?}, got {cost:?}", row.cost))
        }
    });
}

#[test]
fn own_vectors() {
    let folder = fixture("cel/kubernetes-1.36");
    if folder.exists() {
        vectors("cel-1.36-own", &folder, 1, Profile::kubernetes());
    }
}
