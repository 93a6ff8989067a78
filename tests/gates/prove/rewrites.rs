//! The prover detects differences between rewritten policies: proven pairs of the policy library, with one side
//! changed.
//!
//! `fixtures/gates/prove-rewrites.tsv` names the pairs. Each change of a source must be refuted. An equivalent change
//! stays proven, and `fixtures/gates/prove-rewrites.known` gives the reason; the others are counted.

use std::sync::atomic::{AtomicUsize, Ordering};

use kyvtest::{
    kube::Discovery,
    policy::Loaded,
    prove::{
        Label,
        body::{Options, Side, compare_sides},
    },
};
use rayon::prelude::*;
use serde_json::{Value, json};

use super::pairs::folder_pairs;
use crate::support::{Gate, fixture, print_count, read, shared};

/// How many changes of one kind are made of one policy.
const OF_A_KIND: usize = 3;

/// The permitted percentage of changes that are neither proven nor refuted.
const OPEN: usize = 10;

/// A changed policy.
struct Mutant {
    id: String,
    first: Loaded,
    second: Value,
}

/// The positions of a text outside quotes.
fn outside(text: &str) -> Vec<bool> {
    let mut quote = None;
    let mut escaped = false;
    let mut outside = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        outside.push(quote.is_none());
        match (quote, byte) {
            (Some(_), b'\\') if !escaped => {
                escaped = true;
                continue;
            }
            (Some(own), _) if own == byte && !escaped => quote = None,
            (None, b'\'' | b'"') => quote = Some(byte),
            _ => {}
        }
        escaped = false;
    }
    outside
}

/// Every occurrence of a text in an expression, outside quotes, replaced by another.
fn replaced(expression: &str, from: &str, to: &str) -> Vec<String> {
    let outside = outside(expression);
    let found = expression.match_indices(from).filter(|(at, _)| outside[*at]);
    found
        .map(|(at, _)| format!("{}{to}{}", &expression[..at], &expression[at + from.len()..]))
        .collect()
}

/// The end of the bracket that opens at a position.
fn closed(text: &str, open: usize) -> Option<usize> {
    let outside = outside(text);
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' if outside[at] => depth += 1,
            b')' | b']' if outside[at] => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// The changes of an expression (`equivalence.md` §9.2), with their kinds.
fn changes(text: &str) -> Vec<(&'static str, String)> {
    let mut all: Vec<(&'static str, String)> = Vec::new();
    let swaps = [
        ("relation", " >= ", " > "),
        ("relation", " > ", " >= "),
        ("relation", " <= ", " < "),
        ("relation", " < ", " <= "),
        ("relation", " == ", " != "),
        ("relation", " != ", " == "),
        ("logic", "&&", "||"),
        ("logic", "||", "&&"),
        ("quantifier", ".all(", ".exists("),
        ("quantifier", ".exists(", ".all("),
        ("search", ".startsWith(", ".endsWith("),
        ("search", ".endsWith(", ".startsWith("),
        ("search", ".contains(", ".startsWith("),
        ("default", "orValue(false)", "orValue(true)"),
        ("default", "orValue(true)", "orValue(false)"),
    ];
    for (kind, from, to) in swaps {
        let own = replaced(text, from, to);
        all.extend(own.into_iter().map(|changed| (kind, changed)));
    }
    let outside = outside(text);
    for (at, _) in text.match_indices("has(").filter(|(at, _)| outside[*at]) {
        if let Some(end) = closed(text, at + 3) {
            all.push(("has", format!("{}true{}", &text[..at], &text[end + 1..])));
        }
    }
    for (at, _) in text.match_indices(".orValue([])") {
        let before = &text[..at];
        if let Some(plus) = before.rfind('+') {
            let end = at + ".orValue([])".len();
            all.push(("list", format!("{}{}", before[..plus].trim_end(), &text[end..])));
        }
    }
    let mut start = None;
    for (at, byte) in text.bytes().enumerate() {
        match (byte, start) {
            (b'\'' | b'"', None) => start = Some(at),
            (b'\'' | b'"', Some(begin)) if text.as_bytes()[begin] == byte => {
                if at > begin + 1 {
                    all.push(("constant", format!("{}x{}", &text[..at], &text[at..])));
                }
                start = None;
            }
            _ => {}
        }
    }
    all.push(("negation", format!("!({text})")));
    all.push(("validation", "true".to_owned()));
    all
}

/// Replaces every expression of a policy by its changes, one at a time.
pub(super) fn changed_policies(policy: &Value) -> Vec<(&'static str, Value)> {
    fn visit(value: &Value, at: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                for (key, inner) in map {
                    let place = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                    if matches!(key.as_str(), "expression") && inner.is_string() {
                        found.push(place);
                    } else {
                        visit(inner, &place, found);
                    }
                }
            }
            Value::Array(list) => {
                for (number, inner) in list.iter().enumerate() {
                    visit(inner, &format!("{at}/{number}"), found);
                }
            }
            _ => {}
        }
    }
    let mut places = Vec::new();
    visit(&policy["spec"], "/spec", &mut places);
    let mut all = Vec::new();
    for place in places {
        let text = policy.pointer(&place).and_then(Value::as_str).unwrap_or_default();
        for (kind, changed) in changes(text) {
            let mut mutant = policy.clone();
            if let Some(own) = mutant.pointer_mut(&place) {
                *own = json!(changed);
            }
            all.push((kind, mutant));
        }
    }
    let denies = policy["spec"]["validationActions"] == json!(["Deny"]);
    if policy["kind"] == "ValidatingPolicy" {
        let mut other = policy.clone();
        other["spec"]["validationActions"] = json!([if denies { "Audit" } else { "Deny" }]);
        all.push(("action", other));
    }
    all
}

fn source(loaded: &Loaded) -> Option<Value> {
    let policy = loaded.policies.first()?;
    let spec = policy.spec()?;
    let root = spec.node().tree().root();
    Some(kyvtest::value::Document::from(root).root().to_serde())
}

/// The pairs of the list, each with the changes of its second policy.
fn rows(discovery: &Discovery, options: &Options) -> Option<Vec<Mutant>> {
    let root = shared("corpus/policies")?;
    let list = read(&fixture("gates/prove-rewrites.tsv"));
    let wanted: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    let mut rows = Vec::new();
    for (from, to) in [("-cel", "-vpol"), ("", "-cel"), ("", "-vpol")] {
        let pairs = folder_pairs(&root, from, to);
        let own: Vec<Vec<Mutant>> = pairs
            .par_iter()
            .map(|(name, first, second)| {
                let id = format!("{name}{from}{to}");
                if !wanted.contains(&id.as_str()) {
                    return Vec::new();
                }
                let side = |loaded: &Loaded| Side::new(loaded.clone(), Vec::new(), discovery);
                let (Ok(a), Ok(b)) = (side(first), side(second)) else {
                    panic!("{id}: a policy is rejected");
                };
                let label = compare_sides(&a, &b, discovery, options).label;
                assert_eq!(label, Label::Proven, "{id}: the pair is not proven");
                let Some(policy) = source(second) else {
                    return Vec::new();
                };
                let mut counts: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
                let mut own = Vec::new();
                for (kind, mutant) in changed_policies(&policy) {
                    let count = counts.entry(kind).or_default();
                    if *count < OF_A_KIND && mutant != policy {
                        *count += 1;
                        own.push(Mutant {
                            id: format!("{id} {kind} {count}"),
                            first: first.clone(),
                            second: mutant,
                        });
                    }
                }
                own
            })
            .collect();
        rows.extend(own.into_iter().flatten());
    }
    Some(rows)
}

#[test]
fn changed_rewrites_are_refuted() {
    let discovery = Discovery::kubernetes();
    let options = Options {
        collections: false,
        checks: 60,
        tries: 60,
        ..Options::default()
    };
    let Some(rows) = rows(&discovery, &options) else {
        return;
    };
    let (open, rejected) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let gate = Gate {
        name: "prove-rewrites",
        rows: 290,
    };
    gate.run(
        &rows,
        |mutant| mutant.id.clone(),
        |mutant| {
            let first = Side::new(mutant.first.clone(), Vec::new(), &discovery).expect("the first policy");
            let Ok(second) = Side::from_objects(std::slice::from_ref(&mutant.second), &discovery) else {
                rejected.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            };
            let found = compare_sides(&first, &second, &discovery, &options);
            assert!(!found.fault, "{}: {}", mutant.id, found.reason);
            match found.label {
                Label::Refuted(_) => Ok(()),
                Label::Proven => Err("stays proven".to_owned()),
                _ => {
                    open.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                }
            }
        },
    );
    let (open, rejected) = (open.into_inner(), rejected.into_inner());
    print_count(&format!(
        "gate prove-rewrites: {} changes, {rejected} rejected by Kyverno, {open} neither proven nor refuted",
        rows.len()
    ));
    assert!(open * 100 <= OPEN * rows.len(), "{open} changes are not decided");
}
