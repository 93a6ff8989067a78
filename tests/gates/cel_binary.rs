//! Rows of the CEL gates, through the binary: `kyvtest cel --jsonl`.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{fixture, jsonl, read, shared};

/// Evaluates lines with the binary; there must be one result per line.
fn evaluate(lines: &[Value]) -> Vec<Value> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kyvtest"))
        .args(["cel", "--jsonl", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut input = lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    input.push('\n');
    let mut stdin = child.stdin.take().expect("standard input is piped");
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("the binary ends");
    writer
        .join()
        .expect("the writer ends")
        .expect("the binary reads its input");
    assert_eq!(output.status.code(), Some(0));
    let answers: Vec<Value> = String::from_utf8(output.stdout)
        .expect("answers are text")
        .lines()
        .map(|line| serde_json::from_str(line).expect("an answer is JSON"))
        .collect();
    assert_eq!(answers.len(), lines.len(), "an answer for each line");
    answers
}

/// About `count` rows, spread over all of them.
fn spread<T>(rows: Vec<T>, count: usize) -> Vec<T> {
    let step = (rows.len() / count).max(1);
    rows.into_iter().step_by(step).collect()
}

fn vectors(directory: &Path, profile: &str) {
    let object: Value = serde_json::from_str(&read(&directory.join("object.json"))).expect("the object is JSON");
    let rows = spread(jsonl::<Value>(&directory.join("vectors.jsonl")), 60);
    let lines: Vec<Value> = rows
        .iter()
        .map(|row| json!({"id": row["id"], "expr": row["expr"], "profile": profile, "object": object}))
        .collect();
    for (row, answer) in rows.iter().zip(evaluate(&lines)) {
        for key in ["id", "type", "value", "phase", "error", "cost"] {
            assert_eq!(row[key], answer[key], "{key} of {row}");
        }
    }
}

#[test]
fn vectors_of_kubernetes() {
    vectors(&fixture("cel/golden-1.36"), "k8s-1.36");
}

#[test]
fn vectors_of_kyverno() {
    vectors(&fixture("cel/golden-kyverno"), "kyverno-1.19");
}

/// A result in the letters of the tables: `V` for every value, since the tables write values differently.
fn letter(answer: &Value) -> String {
    match answer["phase"].as_str() {
        None => "V".to_owned(),
        Some("eval") => format!("E {}", answer["error"].as_str().unwrap_or_default()),
        Some("program") => format!("P {}", answer["error"].as_str().unwrap_or_default()),
        Some(_) => format!("C {}", answer["error"].as_str().unwrap_or_default()),
    }
}

#[test]
fn tables() {
    for file in ["golden/cel/lib_go.tsv", "golden/cel/re_go.tsv"] {
        let Some(path) = shared(file) else { return };
        let text = read(&path);
        let rows: Vec<(&str, &str)> = text.lines().filter_map(|line| line.rsplit_once('\t')).collect();
        let rows = spread(
            rows.into_iter()
                .filter(|(expr, _)| !expr.contains("authorizer"))
                .collect(),
            20,
        );
        let lines: Vec<Value> = rows
            .iter()
            .map(|(expr, _)| json!({"expr": expr, "profile": "golden-cel"}))
            .collect();
        for ((expr, want), answer) in rows.iter().zip(evaluate(&lines)) {
            let want = if want.starts_with("V ") { "V" } else { want };
            assert_eq!(letter(&answer), want, "{expr}");
        }
    }
}

#[test]
fn semantics_and_compile() {
    let Some(path) = shared("golden/cel/sem_celgo.txt") else {
        return;
    };
    let object: Value = serde_json::from_str(&read(&path.with_file_name("sem_obj.json"))).expect("JSON");
    let text = read(&path);
    let rows = spread(text.lines().filter_map(|line| line.rsplit_once('\t')).collect(), 20);
    let lines: Vec<Value> = rows
        .iter()
        .map(|(expr, _)| json!({"expr": expr, "profile": "golden-cel", "object": object}))
        .collect();
    for ((expr, want), answer) in rows.iter().zip(evaluate(&lines)) {
        let got = letter(&answer);
        let want = match want.split_once(' ') {
            Some(("ERR", text)) => format!("E {text}"),
            Some(("COMPILE_ERR", text)) => format!("C {text}"),
            Some(("PROGRAM_ERR", text)) => format!("P {text}"),
            _ => "V".to_owned(),
        };
        assert_eq!(got, want, "{expr}");
    }
    let rows = spread(jsonl::<Value>(&path.with_file_name("corpus_celgo.jsonl")), 40);
    let lines: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({"expr": row["expr"], "profile": "golden-cel", "params": null, "namespaceObject": null,
                   "request": null, "variables": {}, "authorizer": []})
        })
        .collect();
    for (row, answer) in rows.iter().zip(evaluate(&lines)) {
        let refused = matches!(answer["phase"].as_str(), Some("check" | "parse"));
        assert_eq!(refused, row["res"] != "OK", "{row}");
    }
}

#[test]
fn evaluations() {
    let Some(path) = shared("golden/cel/diff_go_cost.tsv") else {
        return;
    };
    let units: Vec<Value> = jsonl(&path.with_file_name("dataset.jsonl"));
    let text = read(&path);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.splitn(5, '\t').collect()).collect();
    let rows = spread(rows.into_iter().filter(|row: &Vec<&str>| row[3] != "-").collect(), 40);
    // Rows that read the implied request belong to the gates themselves.
    let rows: Vec<Vec<&str>> = rows.into_iter().filter(|row| !row[4].contains("authorizer")).collect();
    let mut wanted = Vec::new();
    let mut lines = Vec::new();
    for row in &rows {
        let unit = &units[row[0].parse::<usize>().expect("a number")];
        let resource = &unit["resources"][row[1].parse::<usize>().expect("a number")];
        let variables = unit["variables"].as_array().expect("a list");
        let named = variables.iter().find(|pair| pair[0] == row[2]);
        let expr = named.map_or_else(
            || &unit["exprs"][row[2].trim_start_matches('e').parse::<usize>().expect("a number")],
            |pair| &pair[1],
        );
        let variables: serde_json::Map<String, Value> = variables
            .iter()
            .map(|pair| (pair[0].as_str().expect("a name").to_owned(), pair[1].clone()))
            .collect();
        let reads = variables.values().chain([expr]).any(|text| {
            let text = text.as_str().unwrap_or_default();
            text.contains("request") || text.contains("namespaceObject") || text.contains("params")
        });
        if reads {
            continue;
        }
        lines.push(json!({"expr": expr, "profile": "golden-cel", "object": resource, "variables": variables}));
        wanted.push((row[3].parse::<u64>().expect("a cost"), row[4]));
    }
    assert!(lines.len() >= 10, "at least ten rows");
    for ((cost, want), answer) in wanted.into_iter().zip(evaluate(&lines)) {
        let want = if want.starts_with("V ") { "V" } else { want };
        assert_eq!(letter(&answer), want);
        assert_eq!(answer["cost"], cost);
    }
}
