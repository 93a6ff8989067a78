//! `patchesJson6902` as JSON patches of a MutatingPolicy.
//!
//! Upstream counterpart: `pkg/engine/mutate/patch/patchesUtils.go` with json-patch v5 (Kyverno 1.19) on one side, json-patch v4 on the
//! other. The older one neither creates missing parents nor forgives the removal of what is missing, and it adds what it should
//! replace; guards make up for that. Guards see the object before the patch, so operations that build on each other become
//! patches of their own.

use std::collections::BTreeMap;

use kyvtest_go_compat::value::{Data, Document};

use super::pointer::{Pointer, operation, transfer};
use crate::{
    Expr, Refusal, RefusalCode, literal,
    names::Names,
    query::{self, Type, Value},
};

/// The loop around a patch.
#[derive(Debug, Clone)]
pub(super) struct Element {
    /// The path of the list below the object, if it is part of it.
    pub(super) path: Option<Vec<String>>,
    pub(super) value: Value,
    /// The index in the list.
    pub(super) index: Expr,
}

/// A list of JSON patches: an expression, or a list literal.
#[derive(Debug, Clone)]
struct Guarded {
    expr: Expr,
    /// The pointers below which the patch creates what is missing.
    creates: Vec<String>,
    /// Where it writes.
    writes: Vec<String>,
}

fn refused<T>(code: RefusalCode, reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(code, reason))
}

/// Translates the text of a patch. Each expression of the result is a mutation of its own.
///
/// # Errors
/// What has no translation.
pub(super) fn translate(
    text: &str,
    object: &Value,
    elements: &[Element],
    names: &mut Names<'_>,
) -> Result<Vec<Expr>, Refusal> {
    let (operations, marks) = parsed(text)?;
    let mut groups: Vec<Vec<Guarded>> = Vec::new();
    for one in &operations {
        let made = Translator {
            object,
            elements,
            marks: &marks,
            names: &mut *names,
        }
        .operation(one)?;
        let builds_on = groups.last().is_some_and(|group| {
            group.iter().any(|before| {
                let over = |a: &String, b: &String| a.starts_with(b.as_str()) || b.starts_with(a.as_str());
                made.creates
                    .iter()
                    .any(|own| before.writes.iter().any(|other| over(own, other)))
            })
        });
        match groups.last_mut() {
            Some(group) if !builds_on => group.push(made),
            _ => groups.push(vec![made]),
        }
    }
    if groups.len() > 1 && !elements.is_empty() {
        return refused(
            RefusalCode::Pattern,
            "operations on each element that build on each other; write the mutations by hand",
        );
    }
    Ok(groups
        .iter()
        .map(|group| joined(group.iter().map(|one| one.expr.clone())))
        .collect())
}

/// One list of all operations.
fn joined(lists: impl Iterator<Item = Expr>) -> Expr {
    let mut literal: Vec<String> = Vec::new();
    let mut parts: Vec<Expr> = Vec::new();
    let flush = |literal: &mut Vec<String>, parts: &mut Vec<Expr>| {
        if !literal.is_empty() {
            parts.push(Expr::primary(format!("[{}]", literal.join(", "))));
            literal.clear();
        }
    };
    for list in lists {
        let text = list.as_str();
        match text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(inner) if text.starts_with("[JSONPatch{") && !text.contains(" ? ") => literal.push(inner.to_owned()),
            _ => {
                flush(&mut literal, &mut parts);
                parts.push(list);
            }
        }
    }
    flush(&mut literal, &mut parts);
    let mut parts = parts.into_iter();
    let Some(first) = parts.next() else {
        return Expr::list([]);
    };
    parts.fold(first, |sum, part| sum.sum("+", &part))
}

/// Texts in place of the variables of a patch.
type Marks = BTreeMap<String, String>;

/// Reads the text of a patch with marks in place of its variables.
fn parsed(text: &str) -> Result<(Vec<Data>, Marks), Refusal> {
    let mut marks = Marks::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let mut depth = 0_usize;
        let mut end = None;
        let bytes = rest.as_bytes();
        let mut at = start;
        while at + 1 < bytes.len() {
            match &bytes[at..at + 2] {
                b"{{" => {
                    depth += 1;
                    at += 2;
                }
                b"}}" => {
                    depth -= 1;
                    at += 2;
                    if depth == 0 {
                        end = Some(at);
                        break;
                    }
                }
                _ => at += 1,
            }
        }
        let Some(end) = end else {
            return refused(RefusalCode::Query, "a variable without an end");
        };
        let mark = format!("kyvtestmark{}x", marks.len());
        plain.push_str(&rest[..start]);
        let quoted = plain.ends_with(['"', '\'']) && rest[end..].starts_with(['"', '\'']);
        plain.push_str(&mark);
        let variable = &rest[start..end];
        marks.insert(
            mark,
            if quoted {
                format!("\"{variable}")
            } else {
                variable.to_owned()
            },
        );
        rest = &rest[end..];
    }
    plain.push_str(rest);
    let document = Document::from_yaml(&plain)
        .map_err(|error| Refusal::new(RefusalCode::Pattern, format!("the patch cannot be read: {error}")))?;
    match Data::from(document.root()) {
        Data::List(items) => Ok((items.to_vec(), marks)),
        Data::Null => Ok((Vec::new(), marks)),
        Data::String(_) => refused(
            RefusalCode::Query,
            "the whole patch is a variable; write its operations as CEL",
        ),
        _ => refused(RefusalCode::Pattern, "the patch is not a list of operations"),
    }
}

struct Translator<'t, 'n> {
    object: &'t Value,
    elements: &'t [Element],
    marks: &'t Marks,
    names: &'t mut Names<'n>,
}

/// One step of a path, what it leads to, and the path so far.
struct Step {
    part: String,
    /// `None` if unknown.
    value: Option<Value>,
    /// The pointer to the value.
    pointer: Pointer,
}

impl Translator<'_, '_> {
    fn operation(&mut self, one: &Data) -> Result<Guarded, Refusal> {
        let text = |key: &str| one.get(key).and_then(Data::as_str);
        let (Some(op), Some(path)) = (text("op"), text("path")) else {
            return refused(RefusalCode::Pattern, "an operation without `op` or `path`");
        };
        let path = self.restored(path);
        let steps = self.steps(&path)?;
        let Some(last) = steps.last() else {
            return refused(RefusalCode::Pattern, "an operation on the whole object");
        };
        let guarded = |expr: Expr, creates: Vec<String>| Guarded {
            expr,
            creates,
            writes: vec![path.clone()],
        };
        match op {
            "add" => {
                let value = self.value(one)?;
                let (expr, creates) = self.added(&steps, &value)?;
                Ok(guarded(expr, creates))
            }
            "remove" => {
                let remove = Expr::list([operation("remove", &last.pointer, None)]);
                let value = last.value.as_ref();
                if value.is_some_and(Value::is_always_present) {
                    return Ok(guarded(remove, Vec::new()));
                }
                let Some(value) = value else {
                    return refused(RefusalCode::Pattern, format!("whether `{path}` is there is not known"));
                };
                let expr = value.present().choose(&remove, &Expr::list([]));
                Ok(guarded(expr, vec![path.clone()]))
            }
            "replace" => {
                let value = self.value(one)?;
                let always = last.value.as_ref().is_some_and(Value::is_served);
                let index = last.part.parse::<usize>().is_ok();
                let expr = if always || index {
                    Expr::list([operation("replace", &last.pointer, Some(&value))])
                } else {
                    // A key that is missing is an error, which `replace` would add.
                    Expr::list([
                        operation("remove", &last.pointer, None),
                        operation("add", &last.pointer, Some(&value)),
                    ])
                };
                Ok(guarded(expr, Vec::new()))
            }
            "move" | "copy" => {
                let from = self.restored(text("from").unwrap_or_default());
                let source = self.steps(&from)?;
                let Some(source) = source.last() else {
                    return refused(RefusalCode::Pattern, "an operation on the whole object");
                };
                let always = source.value.as_ref().is_some_and(Value::is_always_present);
                if op == "copy" && !always {
                    return refused(
                        RefusalCode::Pattern,
                        format!("`copy` from `{from}`, which may be missing: the new engine would write null"),
                    );
                }
                let expr = Expr::list([transfer(op, &source.pointer, &last.pointer)]);
                let mut made = guarded(expr, Vec::new());
                made.writes.push(from);
                Ok(made)
            }
            "test" => refused(
                RefusalCode::Pattern,
                "a `test` that fails is an error of the rule, and no error of the new engine; write a precondition instead",
            ),
            other => refused(
                RefusalCode::Pattern,
                format!("`{other}` is not an operation of JSON patches"),
            ),
        }
    }

    /// `add`, with what is missing on the way. Also the paths that are created.
    fn added(&mut self, steps: &[Step], value: &Expr) -> Result<(Expr, Vec<String>), Refusal> {
        let Some((last, before)) = steps.split_last() else {
            return refused(RefusalCode::Pattern, "an operation on the whole object");
        };
        let mut made = Expr::list([operation("add", &last.pointer, Some(value))]);
        let mut creates = Vec::new();
        // The literal of what is missing; an index other than the first would need a padded list.
        let mut below = nested(&last.part, value.clone());
        let mut path: Vec<&str> = before.iter().map(|step| step.part.as_str()).collect();
        for step in before.iter().rev() {
            let shown = format!("/{}", path.join("/"));
            path.pop();
            match &step.value {
                Some(parent) if parent.is_always_present() => {}
                Some(parent) => {
                    let create = Expr::list([operation("add", &step.pointer, Some(&below.clone()?))]);
                    made = parent.present().choose(&made, &create);
                    creates.push(shown);
                }
                None => {
                    let reason = format!("whether `{shown}` is there is not known");
                    return refused(RefusalCode::Pattern, reason);
                }
            }
            below = below.and_then(|below| nested(&step.part, below));
        }
        if !creates.is_empty() && !self.elements.is_empty() {
            let indices = steps.iter().filter(|step| step.part.contains("{{")).count();
            if indices < self.elements.len() {
                return refused(
                    RefusalCode::Pattern,
                    "each element adds to the same list or map, which may be missing",
                );
            }
        }
        Ok((made, creates))
    }

    fn value(&mut self, one: &Data) -> Result<Expr, Refusal> {
        let Some(value) = one.get("value") else {
            return refused(RefusalCode::Pattern, "an operation without a value");
        };
        let value = self.unmarked(value)?;
        literal::json(&value, self.names)
    }

    /// The value with its variables.
    fn unmarked(&self, data: &Data) -> Result<Data, Refusal> {
        Ok(match data {
            Data::String(text) => {
                if let Some(variable) = self.marks.get(&**text) {
                    return match variable.strip_prefix('"') {
                        Some(variable) => Ok(Data::from(variable)),
                        None => refused(
                            RefusalCode::Variable,
                            format!("`{variable}` is read as YAML once more; put quotes around it"),
                        ),
                    };
                }
                Data::from(self.restored(text).as_str())
            }
            Data::List(items) => {
                let items = items.iter().map(|item| self.unmarked(item));
                Data::List(items.collect::<Result<Vec<_>, _>>()?.into())
            }
            Data::Map(entries) => {
                let mut plain = BTreeMap::new();
                for (key, value) in entries.iter() {
                    plain.insert(self.restored(key).as_str().into(), self.unmarked(value)?);
                }
                Data::Map(plain.into())
            }
            other => other.clone(),
        })
    }

    /// A text with the variables that were in it.
    fn restored(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (mark, variable) in self.marks {
            text = text.replace(mark, variable.trim_start_matches('"'));
        }
        text
    }

    fn steps(&mut self, path: &str) -> Result<Vec<Step>, Refusal> {
        let mut steps: Vec<Step> = Vec::new();
        let mut value = Some(self.object.clone());
        let mut pointer = Pointer::default();
        let mut known: Vec<String> = Vec::new();
        for part in split(path) {
            let own = value.take();
            (value, pointer) = if part.contains("{{") {
                let index = query::read_text(part, self.names)?;
                let element = self
                    .elements
                    .iter()
                    .find(|element| index.plain() == &element.index && element.path.as_ref() == Some(&known));
                known.push("*".to_owned());
                if element.is_some() {
                    // A list with an element is there.
                    for step in &mut steps {
                        step.value = step.value.as_ref().map(Value::assumed);
                    }
                }
                let pointer = if index.ty == Type::Int {
                    pointer.index(index.plain())
                } else {
                    pointer.made(&query::text_of(&index)?)
                };
                (element.map(|element| element.value.clone()), pointer)
            } else {
                let name = part.replace("~1", "/").replace("~0", "~");
                let next = own.and_then(|own| step(&own, &name));
                known.push(if part.parse::<usize>().is_ok() {
                    "*".to_owned()
                } else {
                    name
                });
                (next, pointer.raw(part))
            };
            steps.push(Step {
                part: part.to_owned(),
                value: value.clone(),
                pointer: pointer.clone(),
            });
        }
        Ok(steps)
    }
}

/// The parts of a path; slashes inside variables do not count.
fn split(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut depth = 0_usize;
    let mut from = None;
    let bytes = path.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b'/' if depth == 0 => {
                if let Some(from) = from {
                    parts.push(&path[from..at]);
                }
                from = Some(at + 1);
            }
            _ => {}
        }
    }
    parts.extend(from.map(|from| &path[from..]));
    parts
}

/// What a part of a path leads to; `None` if unknown.
fn step(value: &Value, part: &str) -> Option<Value> {
    if let Ok(index) = part.parse::<i64>() {
        return (value.ty.is_list() || value.ty == Type::Any).then(|| value.index(index));
    }
    if part == "-" {
        return None;
    }
    (value.ty.is_map() || value.ty == Type::Any).then(|| value.field(part))
}

/// A map or list with one value.
fn nested(part: &str, value: Expr) -> Result<Expr, Refusal> {
    if part == "-" || part == "0" {
        return Ok(Expr::list([value]));
    }
    if part.parse::<usize>().is_ok() || part.contains("{{") {
        return refused(RefusalCode::Pattern, "an index in a list that may be missing");
    }
    let key = part.replace("~1", "/").replace("~0", "~");
    Ok(Expr::primary(format!("{{{}: {value}}}", Expr::string(&key))))
}
