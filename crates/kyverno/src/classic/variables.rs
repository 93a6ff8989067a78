//! Values in place of variables (`{{ … }}`) and references (`$( … )`) in a tree.
//!
//! Upstream counterpart: `pkg/engine/variables/vars.go` over `pkg/engine/jsonutils/traverse.go`, error texts included. First all
//! references are replaced, then all variables, in keys and texts; members of maps come in order of their keys, where
//! upstream's order is random. Deviations: what upstream panics about (`x{{- 5 }}`) is an error, and so is what it would
//! never end with: a variable that leads to itself.

mod pointer;
mod reference;

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use thiserror::Error;

use super::context::Context;
use kyvtest_go_compat::{text::variable, value::Data};

/// Why a tree could not be substituted; prints as upstream does.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SubstituteError(pub String);

/// How many texts one substitution may look at, those that variables lead to included.
const TEXTS: usize = 200_000;
/// How deep a tree may be, with everything that variables put into it.
const DEPTH: usize = 400;
/// How often one text is searched for variables again.
const ROUNDS: usize = 200;
/// How many bytes all replacements in one text may copy.
const COPIED: usize = 128 << 20;

/// The tree with values in place of its references and variables.
///
/// # Errors
/// The first that has no value.
pub fn substitute_all(document: &Data, context: &mut Context<'_>) -> Result<Data, SubstituteError> {
    if is_plain(document, &mut 0, 0) {
        return Ok(document.clone());
    }
    let document = reference::substitute(document)?;
    let is_delete = context.operation() == "DELETE";
    let mut action = |text: &str, path: &str| substitute_text(text, path, context, is_delete);
    Traversal::new(&mut action).value(&document, "", 0)
}

/// Like [`substitute_all`], for a key or value of preconditions: a scalar number is a double.
///
/// # Errors
/// The first reference or variable that has no value.
pub fn substitute_preconditions(document: &Data, context: &mut Context<'_>) -> Result<Data, SubstituteError> {
    match document {
        Data::Int(_) | Data::Uint(_) => Ok(document.with_doubles()),
        document => substitute_all(document, context),
    }
}

/// Like [`substitute_all`], for a single string such as a message. The result may be of any type.
///
/// # Errors
/// The first reference or variable that has no value.
pub fn substitute_string(text: &str, context: &mut Context<'_>) -> Result<Data, SubstituteError> {
    if !text.contains("{{") && !text.contains("$(") {
        return Ok(Data::from(text));
    }
    substitute_all(&Data::from(text), context)
}

/// Whether no text of a tree may hold a variable or reference, so that substitution changes nothing. False for trees beyond the
/// limits of a [`Traversal`].
fn is_plain(value: &Data, texts: &mut usize, depth: usize) -> bool {
    let mut is_plain_text = |text: &str| {
        *texts += 1;
        *texts <= TEXTS && !text.contains("{{") && !text.contains("$(")
    };
    match value {
        _ if depth > DEPTH => false,
        Data::String(text) => is_plain_text(text),
        Data::List(items) => items.iter().all(|item| is_plain(item, texts, depth + 1)),
        Data::Map(entries) => {
            entries.keys().all(|key| is_plain_text(key))
                && entries.values().all(|item| is_plain(item, texts, depth + 1))
        }
        _ => true,
    }
}

fn problem<T>(text: String) -> Result<T, SubstituteError> {
    Err(SubstituteError(text))
}

/// What is done to the texts of a tree, with the place of each.
type Action<'a> = dyn FnMut(&str, &str) -> Result<Data, SubstituteError> + 'a;

/// A walk over a tree that replaces texts and keys, and goes on into what they are replaced by.
struct Traversal<'a, 'b> {
    action: &'a mut Action<'b>,
    texts: usize,
}

impl<'a, 'b> Traversal<'a, 'b> {
    fn new(action: &'a mut Action<'b>) -> Self {
        Self { action, texts: 0 }
    }

    fn value(&mut self, value: &Data, path: &str, depth: usize) -> Result<Data, SubstituteError> {
        if depth > DEPTH {
            return problem(format!("variables lead too deep at path {}", shortened(path)));
        }
        match value {
            Data::String(text) => match self.text(text, path)? {
                made @ (Data::List(_) | Data::Map(_)) => self.value(&made, path, depth + 1),
                made => Ok(made),
            },
            Data::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for (i, item) in items.iter().enumerate() {
                    list.push(self.value(item, &format!("{path}/{i}"), depth + 1)?);
                }
                Ok(list.into_iter().collect())
            }
            Data::Map(entries) => self.map(entries, path, depth),
            scalar => Ok(scalar.clone()),
        }
    }

    fn map(&mut self, entries: &BTreeMap<Arc<str>, Data>, path: &str, depth: usize) -> Result<Data, SubstituteError> {
        let mut map = BTreeMap::new();
        let mut renamed = Vec::new();
        for (key, item) in entries {
            let new_key = match self.text(key, path)? {
                Data::String(new_key) => new_key,
                Data::Null => key.clone(),
                made => {
                    if let Data::List(_) | Data::Map(_) = made {
                        self.value(&made, path, depth + 1)?;
                    }
                    return problem(format!("expected string after substituting variables in key \"{key}\""));
                }
            };
            let item = self.value(item, &format!("{path}/{}", key.replace('/', "\\/")), depth + 1)?;
            if new_key == *key {
                map.insert(new_key, item);
            } else {
                renamed.push((new_key, item));
            }
        }
        map.extend(renamed);
        Ok(Data::Map(Arc::new(map)))
    }

    fn text(&mut self, text: &str, path: &str) -> Result<Data, SubstituteError> {
        self.texts += 1;
        if self.texts > TEXTS {
            return problem(format!("variables lead to too many texts at path {}", shortened(path)));
        }
        (self.action)(text, path)
    }
}

/// A path that may have become very long.
fn shortened(path: &str) -> &str {
    path.char_indices().nth(200).map_or(path, |(end, _)| &path[..end])
}

fn endless(path: &str) -> String {
    format!(
        "variables of a text lead to ever more variables at path {}",
        shortened(path)
    )
}

/// A match without the character before it, if it has one. Upstream cuts off a byte, which leaves a torso of what is longer.
fn without_prefix(found: &str, initial: bool) -> Cow<'_, str> {
    if initial {
        return Cow::Borrowed(found);
    }
    let first = found.chars().next().map_or(0, char::len_utf8);
    let rest = found.get(first..).unwrap_or("");
    if first <= 1 {
        return Cow::Borrowed(rest);
    }
    let torso = char::REPLACEMENT_CHARACTER.to_string().repeat(first - 1);
    Cow::Owned(torso + rest)
}

/// What upstream puts back in front: the first byte, as a character.
fn prefix_of(found: &str, initial: bool) -> String {
    match found.bytes().next() {
        Some(byte) if !initial => char::from(byte).to_string(),
        _ => String::new(),
    }
}

/// The expression in a variable, and whether its value is final.
fn expression(variable: &str) -> (String, bool) {
    let bare = variable.replace("{{", "").replace("}}", "");
    let bare = bare.trim();
    match bare.strip_prefix('-') {
        Some(bare) => (bare.trim().to_owned(), true),
        None => (bare.to_owned(), false),
    }
}

/// Replaces the variables of one text until there are none left.
fn substitute_text(
    text: &str,
    path: &str,
    context: &mut Context<'_>,
    is_delete: bool,
) -> Result<Data, SubstituteError> {
    if !text.contains("{{") {
        return Ok(Data::from(text));
    }
    let find = |text: &str| -> Vec<String> {
        let spans = variable::variables(text);
        spans.into_iter().map(|span| text[span].to_owned()).collect()
    };
    let mut value = text.to_owned();
    let mut found = find(&value);
    let (mut rounds, mut copied) = (0, 0);
    while !found.is_empty() {
        rounds += 1;
        if rounds > ROUNDS {
            return problem(endless(path));
        }
        let original = value.clone();
        let mut is_final = false;
        for old in &found {
            let initial = variable::begins_with_variable(old);
            let variable = without_prefix(old, initial);
            let (mut query, final_value) = expression(&variable);
            is_final = final_value;
            if query == "@" {
                let prefix = if context.query("target").is_ok() {
                    "target"
                } else {
                    "request.object"
                };
                query = pointer::here(path, prefix);
            }
            if is_delete {
                query = query.replace("request.object", "request.oldObject");
            }
            let failed = |error: &dyn std::fmt::Display| format!("failed to resolve {query} at path {path}: {error}");
            let mut resolved = match context.query(&query) {
                Ok(resolved) => resolved,
                Err(error) => return problem(failed(&error)),
            };
            if original == *variable {
                return Ok(resolved);
            }
            if is_final {
                resolved = match resolved {
                    Data::Null => Data::Null,
                    Data::String(text) => Data::from(text.replace("{{", "\\{{")),
                    other => {
                        return problem(failed(&format_args!(
                            "interface conversion: interface {{}} is {}, not string",
                            other.go_type()
                        )));
                    }
                };
            }
            let replacement = match &resolved {
                Data::String(text) => text.to_string(),
                other => match jsoniter(other) {
                    Ok(json) => json,
                    Err(_) => {
                        let problem_text = format_args!("failed to marshal {}: {}", other.go_type(), other.to_go());
                        return problem(failed(&problem_text));
                    }
                },
            };
            copied += value.len() + replacement.len();
            if copied > COPIED {
                return problem(endless(path));
            }
            let prefix = prefix_of(old, initial);
            value = value.replacen(&format!("{prefix}{variable}"), &format!("{prefix}{replacement}"), 1);
        }
        found = if is_final { Vec::new() } else { find(&value) };
    }
    Ok(Data::from(value.replace("\\{{", "{{")))
}

/// A value as upstream's JSON library puts it into a text: exponents of small numbers have two digits.
fn jsoniter(value: &Data) -> Result<String, String> {
    let json = value.to_go_json()?;
    match value {
        Data::Double(number) if number.abs() < 1e-6 && *number != 0.0 => Ok(match json.split_once("e-") {
            Some((digits, exponent)) if exponent.len() == 1 => format!("{digits}e-0{exponent}"),
            _ => json,
        }),
        _ => Ok(json),
    }
}
