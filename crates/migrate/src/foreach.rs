//! `validate.foreach`, translated: each entry is a list whose elements all pass.
//!
//! Upstream counterpart: `validateForEach` in `pkg/engine/handlers/validation/validate_resource.go` (Kyverno 1.19). Elements whose
//! preconditions are not met, or fail, are skipped; a missing list has no elements.

use kyvtest_go_compat::{
    diagnostic::FileId,
    value::{Data, Document},
    yaml::Node,
};
use kyvtest_model::policy::{Subtree, place};

use crate::{
    Expr, Refusal, RefusalCode, Subject,
    conditions::{self, Failure},
    context,
    names::Names,
    pattern,
    query::{self, Type, Value},
};

/// The lists of containers, in the order in which they are joined.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// How deep loops may nest.
const DEPTH: usize = 8;

/// Translates the entries of `foreach`: true where the rule passes or does not concern the request.
///
/// # Errors
/// The first construct without a translation, with its place.
pub(crate) fn foreach(entries: &Subtree, subject: &Subject, names: &mut Names<'_>) -> Result<Expr, Refusal> {
    loops(entries.node(), entries.file(), subject, 0, names)
}

fn loops(
    entries: Node<'_>,
    file: FileId,
    subject: &Subject,
    depth: usize,
    names: &mut Names<'_>,
) -> Result<Expr, Refusal> {
    let entries = entries
        .as_seq()
        .into_iter()
        .flat_map(kyvtest_go_compat::yaml::Items::iter);
    let mut all = Vec::new();
    for (entry, list) in joined(entries) {
        let at = place(file, entry.span());
        all.push(entry_passes(entry, &list, file, subject, depth, names).map_err(|refusal| refusal.at(at))?);
    }
    Ok(Expr::all(all))
}

/// The entries with their lists; what is asked of several lists of containers is asked of all containers.
fn joined<'t>(entries: impl Iterator<Item = Node<'t>>) -> Vec<(Node<'t>, String)> {
    let mut found: Vec<(Node<'t>, Data, &str, Vec<&str>)> = Vec::new();
    for entry in entries {
        let text = entry.get("list").and_then(Node::as_str).unwrap_or_default();
        let mut body = Data::from(Document::from(entry).root());
        if let Data::Map(parts) = &mut body {
            std::sync::Arc::make_mut(parts).remove("list");
        }
        let is_path = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.');
        let list = text
            .rsplit_once('.')
            .filter(|(_, name)| is_path && CONTAINERS.contains(name));
        match list.filter(|_| !body.to_json().contains("elementIndex")) {
            Some((parent, name)) => match found.iter_mut().find(|(_, other, of, names)| {
                *other == body && *of == parent && !names.is_empty() && !names.contains(&name)
            }) {
                Some((.., names)) => names.push(name),
                None => found.push((entry, body, parent, vec![name])),
            },
            None => found.push((entry, body, text, Vec::new())),
        }
    }
    let lists = found.into_iter().map(|(entry, _, parent, names)| {
        let list = match names.as_slice() {
            [] => parent.to_owned(),
            [name] => format!("{parent}.{name}"),
            names => {
                let names = CONTAINERS.into_iter().filter(|name| names.contains(name));
                format!("{parent}.[{}][]", names.collect::<Vec<_>>().join(", "))
            }
        };
        (entry, list)
    });
    lists.collect()
}

fn refused<T>(reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(RefusalCode::Query, reason))
}

fn entry_passes(
    entry: Node<'_>,
    text: &str,
    file: FileId,
    subject: &Subject,
    depth: usize,
    names: &mut Names<'_>,
) -> Result<Expr, Refusal> {
    if depth >= DEPTH {
        return refused("loops nest too deeply");
    }
    let list = query::query(text, names)?;
    if !list.ty.is_list() && list.ty != Type::Any {
        return refused(format!("`{text}` is not a list; Kyverno takes it for its only element"));
    }
    let hint = list.hint.clone().unwrap_or_else(|| "element".to_owned());
    let hint = if hint == "item" { "element".to_owned() } else { hint };
    let (mut inner, variable) = names.scope.enter(&hint);
    let element = list.element(&variable);
    let uses_index = Data::from(Document::from(entry).root())
        .to_json()
        .contains("elementIndex");
    let index = Expr::primary(format!("{variable}Index"));
    for name in ["element".to_owned(), format!("element{depth}")] {
        inner.bind_value(name, element.clone());
    }
    for name in ["elementIndex".to_owned(), format!("elementIndex{depth}")] {
        inner.bind_value(name, Value::new(index.clone(), Type::Int));
    }
    let is_map = element.ty.is_map() || element.ty == Type::Any;
    let scoped = entry.get("elementScope").and_then(Node::as_bool).unwrap_or(is_map);
    let target = if scoped {
        Subject {
            expr: Expr::primary(variable.clone()),
            path: element.path.clone(),
        }
    } else {
        subject.clone()
    };
    let mut names = names.within(inner);
    let test = element_passes(entry, file, &target, depth, &mut names)?;
    if test.is_bool(true) {
        return Ok(test);
    }
    let variables = [
        Some(index).filter(|_| uses_index),
        Some(Expr::primary(variable)),
        Some(test),
    ];
    Ok(list.list_or_empty().call("all", variables.into_iter().flatten()))
}

fn element_passes(
    entry: Node<'_>,
    file: FileId,
    target: &Subject,
    depth: usize,
    names: &mut Names<'_>,
) -> Result<Expr, Refusal> {
    let given = |name: &str| entry.get(name).filter(|part| !part.is_null());
    if let Some(entries) = given("context") {
        context::bind(entries, file, names);
    }
    let precondition = match given("preconditions") {
        Some(node) => {
            let test = conditions::block(node, file, Failure::Unmet, names)?;
            if test.fails {
                let reason = "the preconditions may fail, which passes over the element; CEL cannot catch errors";
                return Err(Refusal::new(RefusalCode::Condition, reason).at(place(file, node.span())));
            }
            Some(test.expr)
        }
        None => None,
    };
    let body = body(entry, file, target, depth, names)?;
    Ok(match precondition {
        Some(precondition) => Expr::any([precondition.negated_relation(), body]),
        None => body,
    })
}

fn body(entry: Node<'_>, file: FileId, target: &Subject, depth: usize, names: &mut Names<'_>) -> Result<Expr, Refusal> {
    let given = |name: &str| entry.get(name).filter(|part| !part.is_null());
    let data = |node: Node<'_>| Data::from(Document::from(node).root());
    if let Some(deny) = given("deny") {
        return match deny.get("conditions").filter(|conditions| !conditions.is_null()) {
            Some(conditions) => {
                let denied = conditions::block(conditions, file, Failure::Kept, names)?;
                Ok(denied.expr.negated_relation())
            }
            None => Ok(Expr::bool(false)),
        };
    }
    if let Some(tree) = given("pattern") {
        let translated = pattern::translate(&data(tree), target, &names.scope);
        return translated.map_err(|refusal| refusal.at(place(file, tree.span())));
    }
    if let Some(trees) = given("anyPattern") {
        let data = data(trees);
        let translated = pattern::translate_any(data.as_list().unwrap_or_default(), target, &names.scope);
        return translated.map_err(|refusal| refusal.at(place(file, trees.span())));
    }
    match given("foreach") {
        Some(entries) => loops(entries, file, target, depth + 1, names),
        None => Ok(Expr::bool(true)),
    }
}
