//! Expressions made to exhaust time or memory: each ends in a value or in an error that names the exceeded limit.
//!
//! Nothing here is timed; the tests assert that the work was cut short where it would otherwise be endless.
//! `fixtures/cel/bombs.jsonl` has the rows: `expr`, or `repeat` (`[before, count, part, middle, after]`, whose `part`
//! and `after` are repeated), the profile, and the expected part of the result.

use kyvtest::{
    cel::{
        profile::Profile,
        query::{Query, QueryResult, run_query},
    },
    regex::Regex,
    value::Document,
};

struct Bomb {
    name: String,
    text: String,
    object: Option<Document>,
    profiles: Vec<&'static Profile>,
    /// One of them must be in the result.
    answers: Vec<String>,
}

/// A text, or parts and how often they are repeated: `[["(", 100], "1", [")", 100]]`.
fn text(value: &serde_json::Value) -> String {
    let Some(parts) = value.as_array() else {
        return value.as_str().expect("a text").to_owned();
    };
    let part = |part: &serde_json::Value| match part.as_array().map(Vec::as_slice) {
        Some([inner, count]) => text(inner).repeat(count.as_u64().expect("a count") as usize),
        _ => text(part),
    };
    parts.iter().map(part).collect()
}

fn bombs() -> Vec<Bomb> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/cel/bombs.jsonl");
    let rows = std::fs::read_to_string(path).expect("the fixture is there");
    rows.lines()
        .filter(|line| !line.is_empty())
        .map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"));
            let texts = |key: &str| -> Vec<String> {
                let all = row[key].as_array().map(Vec::as_slice).unwrap_or_default();
                all.iter().map(text).collect()
            };
            let profiles = if row["profile"].is_null() {
                vec![Profile::kubernetes(), Profile::kyverno()]
            } else {
                vec![Profile::named(&text(&row["profile"])).expect("a profile")]
            };
            Bomb {
                name: text(&row["name"]),
                text: text(&row["expr"]),
                object: (!row["object"].is_null())
                    .then(|| Document::from_json(&text(&row["object"])).expect("the object is JSON")),
                profiles,
                answers: texts("answers"),
            }
        })
        .collect()
}

fn shown(answer: &QueryResult) -> String {
    match answer {
        QueryResult::Value { value, .. } => format!("value {value}"),
        QueryResult::Refused(error) => format!("{}: {}", error.phase(), error.first_line()),
        QueryResult::Failed { error, .. } => format!("eval: {error}"),
    }
}

fn cut(text: &str) -> &str {
    text.char_indices().nth(200).map_or(text, |(end, _)| &text[..end])
}

#[test]
fn every_bomb_is_defused() {
    for bomb in bombs() {
        for profile in &bomb.profiles {
            let query = Query {
                object: bomb.object.as_ref(),
                ..Query::new(&bomb.text, profile)
            };
            let before = processor_time();
            let answer = run_query(&query);
            report(&format!("{} ({})", bomb.name, profile.name), before);
            let shown = shown(&answer);
            let expected = bomb.answers.iter().any(|expected| shown.contains(expected.as_str()));
            assert!(expected, "{} ({}): {}", bomb.name, profile.name, cut(&shown));
            if shown.contains("cost limit exceeded")
                && let QueryResult::Failed { cost: Some(cost), .. } = answer
            {
                assert!(cost > 1_000_000, "{}: cost {cost}", bomb.name);
            }
        }
    }
}

/// Prints how much processor time something took; `cargo test --release --test cel bomb -- --nocapture` shows it.
#[expect(clippy::print_stderr, reason = "for the reader of a test run")]
fn report(name: &str, before: u64) {
    eprintln!("{:>10.3} ms  {name}", (processor_time() - before) as f64 / 1e6);
}

/// The CPU time of this thread in nanoseconds, independent of other processes; 0 if unknown.
fn processor_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

#[test]
fn regular_expressions_are_built_or_refused() {
    let nested = format!("{}a{}", "(".repeat(1001), ")".repeat(1001));
    let groups = "(a)".repeat(20_000);
    let alternatives = format!("(?:{})", vec!["ab*c"; 10_000].join("|"));
    let classes = r"[\pL\pN\p{Greek}]".repeat(2_000);
    let patterns = [
        r"((((a{10}){10}){10}){10})",
        r"(?:\pL{1,100}){1,10}",
        r"(\pL+\pN*){1,300}$",
        r"((a*)*)*b",
        r"(a|aa)+$",
        r"(?i)(?:[^\x00-\x{10FFFE}]|\pL){1000}",
        r"(?:(?:(?:x{1,30}){1,30})y?){1,1}",
        r"(.*)(.*)(.*)(.*)(.*)[^a]$",
        &nested,
        &groups,
        &alternatives,
        &classes,
    ];
    let text = "aß".repeat(5_000);
    for pattern in patterns {
        let before = processor_time();
        if let Ok(regex) = Regex::new(pattern) {
            report(&format!("built {}", cut(pattern)), before);
            assert_eq!(regex.is_match(&text), regex.find(&text).is_some());
            let _ = regex.captures(&text);
        }
        report(&format!("regex {}", cut(pattern)), before);
    }
}
