//! Module `regex` against Go's `regexp`: accepted patterns, error messages, matches, groups, replacing, splitting.
//!
//! The rows of `fixtures/regex` are this project's own patterns and strings with the results of Go 1.26.

use kyvtest::regex::{Captures, Regex};
use serde::Deserialize;

use crate::support::{Gate, fixture, jsonl};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    id: String,
    pattern: String,
    error: Option<String>,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    texts: Vec<Answers>,
}

/// Go's results for one string; positions are byte offsets, -1 for a group that took no part.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answers {
    text: String,
    template: String,
    find: Option<[usize; 2]>,
    all: Vec<[usize; 2]>,
    captures: Option<Vec<i64>>,
    captures_all: Vec<Vec<i64>>,
    replace: String,
    literal: String,
    split: Vec<String>,
    split2: Vec<String>,
}

fn flat(captures: &Captures<'_>) -> Vec<i64> {
    let ends = |span: &Option<std::ops::Range<usize>>| match span {
        Some(span) => [span.start as i64, span.end as i64],
        None => [-1, -1],
    };
    captures.spans().iter().flat_map(ends).collect()
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, text: &str, ours: T, theirs: T) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    Err(format!("{what} on {text:?}: {ours:?}, Go: {theirs:?}"))
}

fn check(row: &Row) -> Result<(), String> {
    let regex = match (Regex::new(&row.pattern), &row.error) {
        (Err(error), expected) => {
            return same("error", &row.pattern, Some(&error.to_string()), expected.as_ref());
        }
        (Ok(_), Some(error)) => return Err(format!("accepted, Go: {error}")),
        (Ok(regex), None) => regex,
    };
    let names: Vec<&str> = regex.group_names().map(Option::unwrap_or_default).collect();
    same(
        "names",
        &row.pattern,
        names,
        row.names.iter().map(String::as_str).collect(),
    )?;
    for a in &row.texts {
        let t = a.text.as_str();
        same("is_match", t, regex.is_match(t), a.find.is_some())?;
        same("find", t, regex.find(t).map(|s| [s.start, s.end]), a.find)?;
        let all: Vec<[usize; 2]> = regex.find_all(t, None).iter().map(|s| [s.start, s.end]).collect();
        same("find_all", t, &all, &a.all)?;
        let captures = regex.captures(t).map(|c| flat(&c));
        same("captures", t, &captures, &a.captures)?;
        let captures: Vec<_> = regex.captures_all(t, Some(3)).iter().map(flat).collect();
        same("captures_all", t, &captures, &a.captures_all)?;
        same("replace_all", t, &*regex.replace_all(t, &a.template), &*a.replace)?;
        same(
            "replace_all_literal",
            t,
            &*regex.replace_all_literal(t, &a.template),
            &*a.literal,
        )?;
        same(
            "split",
            t,
            regex.split(t, None),
            a.split.iter().map(String::as_str).collect(),
        )?;
        same(
            "split into two",
            t,
            regex.split(t, Some(2)),
            a.split2.iter().map(String::as_str).collect(),
        )?;
    }
    Ok(())
}

#[test]
fn regex() {
    let mut rows: Vec<Row> = Vec::new();
    for file in ["error", "syntax", "replace", "split", "empty"] {
        rows.extend(jsonl::<Row>(&fixture(&format!("regex/{file}.jsonl"))));
    }
    Gate::new("regex", 340).run(&rows, |row| row.id.clone(), check);
}
