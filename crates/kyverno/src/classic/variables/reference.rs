//! References to other places of the same tree: `$(./../limits/memory)`, `$(>=/spec/replicas)`.
//!
//! Upstream counterpart: `substituteReferences` in `pkg/engine/variables/vars.go`. A reference to a map yields one of its
//! keys, here the last one; upstream takes any.

use std::sync::LazyLock;

use super::{SubstituteError, Traversal, prefix_of, problem, without_prefix};
use crate::classic::pattern::{Anchor, scalar::Operator};
use kyvtest_go_compat::{
    regex::Regex,
    text::{
        float::{self, Layout},
        path, variable,
    },
    value::Data,
};

/// A reference behind a backslash.
static ESCAPED: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\\\$\(.[^\ \)]*\)").ok());

/// The tree with the values of its references.
pub(super) fn substitute(document: &Data) -> Result<Data, SubstituteError> {
    let mut work = 0;
    let mut action = |text: &str, at: &str| substitute_text(text, at, document, &mut work);
    Traversal::new(&mut action).value(document, "", 0)
}

/// How many places all references of a tree may visit; 64 bytes of text that is copied count as one.
const VISITS: usize = 20_000_000;

fn substitute_text(text: &str, at: &str, document: &Data, work: &mut usize) -> Result<Data, SubstituteError> {
    if !text.contains("$(") {
        return Ok(Data::from(text));
    }
    let mut value = text.to_owned();
    for span in variable::references(text) {
        *work += value.len() / 64;
        let old = &text[span];
        let initial = old.starts_with("$(");
        let reference = without_prefix(old, initial);
        match resolve(document, &reference, at, work) {
            Err(error) => return problem(format!("failed to resolve {reference} at path {at}: {error}")),
            Ok(Data::Null) => {
                return problem(format!("got nil resolved variable {reference} at path {at}: <nil>"));
            }
            Ok(Data::String(found)) => {
                let replacement = prefix_of(old, initial) + &found;
                value = value.replacen(old, &replacement, 1);
            }
            Ok(_) => {
                return problem(format!(
                    "NotResolvedReferenceErr,reference {reference} not resolved at path {at}"
                ));
            }
        }
    }
    let escaped = ESCAPED.as_ref().map(|pattern| pattern.find_all(&value, None));
    let escaped = escaped.into_iter().flatten();
    let escaped: Vec<String> = escaped.map(|span| value[span].to_owned()).collect();
    for escaped in escaped {
        value = value.replace(&escaped, escaped.strip_prefix('\\').unwrap_or(&escaped));
    }
    Ok(Data::from(value))
}

fn resolve(document: &Data, reference: &str, at: &str, work: &mut usize) -> Result<Data, String> {
    let target = reference.trim_matches(['$', '(', ')']);
    let operator = match Operator::read(target).0 {
        Operator::Equal => "",
        Operator::NotEqual => "!",
        Operator::More => ">",
        Operator::MoreEqual => ">=",
        Operator::Less => "<",
        Operator::LessEqual => "<=",
        Operator::InRange(..) => "-",
        Operator::NotInRange(..) => "!-",
    };
    // Upstream cuts off as many bytes as the operator has, wherever the operator is in the string.
    let target = target.get(operator.len()..).unwrap_or("");
    if target.is_empty() {
        return Err("expected path, found empty reference".to_owned());
    }
    let target = if target.starts_with('/') {
        target.to_owned()
    } else {
        path::join(at, target)
    };
    let mut found = Data::Null;
    find(document, "", &target, &mut found, work)?;
    if operator.is_empty() {
        return Ok(found);
    }
    let text = match &found {
        Data::String(text) => text.to_string(),
        Data::Int(number) => number.to_string(),
        Data::Double(number) => float::format(*number, Layout::Fixed, Some(6)),
        other => {
            let value = other.to_go();
            return Err(format!(
                "incorrect expression: operator {operator} does not match with value {value}"
            ));
        }
    };
    Ok(Data::from(format!("{operator}{text}")))
}

/// The last leaf or key that is visited at a path; a key has the path of its map.
fn find(value: &Data, at: &str, target: &str, found: &mut Data, work: &mut usize) -> Result<(), String> {
    *work += 1;
    if *work > VISITS {
        return Err("too many references".to_owned());
    }
    match value {
        Data::Map(entries) => {
            let here = without_anchors(at) == target;
            for (key, item) in entries.iter() {
                if here {
                    *found = Data::String(key.clone());
                }
                find(item, &format!("{at}/{}", key.replace('/', "\\/")), target, found, work)?;
            }
        }
        Data::List(items) => {
            for (i, item) in items.iter().enumerate() {
                find(item, &format!("{at}/{i}"), target, found, work)?;
            }
        }
        leaf => {
            if without_anchors(at) == target {
                *found = leaf.clone();
            }
        }
    }
    Ok(())
}

/// A path with the keys of its anchors in their place.
fn without_anchors(at: &str) -> String {
    if !at.contains('(') {
        return match at {
            "" => String::new(),
            at => path::clean(at),
        };
    }
    let parts = at.strip_prefix('/').unwrap_or(at).split('/');
    let parts: Vec<&str> = parts
        .map(|part| Anchor::parse(part).map_or(part, |anchor| anchor.key))
        .collect();
    let joined = path::clean(&parts.join("/"));
    if at.starts_with('/') {
        format!("/{joined}")
    } else {
        joined
    }
}
