//! `mutate.foreach`: each block is one mutation or several, in order.
//!
//! Upstream counterpart: `pkg/engine/handlers/mutation/common.go` (Kyverno 1.19). A block with a strategic merge runs from the last
//! element to the first; each merge puts its element first, so that the order stays as it was. `request.object` changes only
//! after a block, as `object` changes after a mutation.

use kyvtest_go_compat::{
    diagnostic::FileId,
    value::{Data, Document},
    yaml::{Items, Node},
};
use kyvtest_model::policy::place;

use super::{
    json_patch::{self, Element},
    overlay::{Loop, Overlay, Walker},
    place::Place,
};
use crate::{
    Expr, Refusal, RefusalCode, Scope,
    conditions::{self, Failure},
    context, literal,
    names::Names,
    query::{self, Missing, Type, Value},
};

/// How deep loops may nest.
const DEPTH: usize = 4;

fn refused<T>(code: RefusalCode, reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(code, reason))
}

/// Translates the blocks.
pub(super) fn blocks(
    entries: Node<'_>,
    file: FileId,
    root: &Place<'_>,
    names: &mut Names<'_>,
) -> Result<Vec<Overlay>, Refusal> {
    let mut all = Vec::new();
    for entry in entries.as_seq().into_iter().flat_map(Items::iter) {
        let at = place(file, entry.span());
        let made = block(entry, file, root, names).map_err(|refusal| refusal.at(at))?;
        all.push(made);
    }
    Ok(all)
}

/// A list with the names that are in force for its elements.
struct Opened {
    list: Value,
    scope: Scope,
    variable: String,
    element: Value,
    index: Expr,
}

fn open(entry: Node<'_>, depth: usize, names: &mut Names<'_>) -> Result<Opened, Refusal> {
    let text = entry.get("list").and_then(Node::as_str).unwrap_or_default();
    let list = query::query(text, names)?;
    if !list.ty.is_list() && list.ty != Type::Any {
        return refused(
            RefusalCode::Query,
            format!("`{text}` is not a list; Kyverno takes it for its only element"),
        );
    }
    let hint = list.hint.clone().filter(|hint| hint != "item");
    let (mut scope, variable) = names.scope.enter(hint.as_deref().unwrap_or("element"));
    let element = list.element(&variable);
    let index = Expr::primary(format!("{variable}Index"));
    for name in ["element".to_owned(), format!("element{depth}")] {
        scope.bind_value(name, element.clone());
    }
    for name in ["elementIndex".to_owned(), format!("elementIndex{depth}")] {
        scope.bind_value(name, Value::new(index.clone(), Type::Int));
    }
    Ok(Opened {
        list,
        scope,
        variable,
        element,
        index,
    })
}

/// The list that is looped over: one that is missing is an error of the rule, one that is null has no elements.
///
/// # Errors
/// A list of which neither is certain.
pub(super) fn looped(list: &Value) -> Result<Expr, Refusal> {
    match list.missing {
        Missing::Null => Ok(list.list_or_empty()),
        Missing::Never | Missing::Error => Ok(list.plain().clone()),
        Missing::Either => {
            list.read()?;
            Ok(list.plain().clone())
        }
    }
}

/// The context and the preconditions of a block, for one element.
fn guard(entry: Node<'_>, file: FileId, names: &mut Names<'_>) -> Result<Option<Expr>, Refusal> {
    let given = |name: &str| entry.get(name).filter(|part| !part.is_null());
    if let Some(entries) = given("context") {
        context::bind(entries, file, names);
    }
    match given("preconditions") {
        Some(node) => Ok(Some(conditions::block(node, file, Failure::Kept, names)?.expr)),
        None => Ok(None),
    }
}

fn data(node: Node<'_>) -> Data {
    Data::from(Document::from(node).root())
}

fn block(entry: Node<'_>, file: FileId, root: &Place<'_>, names: &mut Names<'_>) -> Result<Overlay, Refusal> {
    let given = |name: &str| entry.get(name).filter(|part| !part.is_null());
    if let Some(patch) = given("patchStrategicMerge") {
        return merge(entry, file, &data(patch), root, names);
    }
    let Some(object) = root.value.clone() else {
        return refused(RefusalCode::Pattern, "no object");
    };
    let patch = nested(entry, file, &object, &mut Vec::new(), names)?;
    Ok(Overlay {
        patches: vec![patch],
        ..Overlay::default()
    })
}

/// A block with a strategic merge.
fn merge(
    entry: Node<'_>,
    file: FileId,
    patch: &Data,
    root: &Place<'_>,
    names: &mut Names<'_>,
) -> Result<Overlay, Refusal> {
    if entry.get("order").and_then(Node::as_str) == Some("Ascending") {
        return refused(
            RefusalCode::Pattern,
            "`order: Ascending` reverses the list with a strategic merge; write a JSON patch instead",
        );
    }
    let opened = open(entry, 0, names)?;
    let outer = names.scope.clone();
    names.scope = opened.scope.clone();
    let made = merge_elements(entry, file, patch, root, &opened, names);
    names.scope = outer;
    made
}

fn merge_elements(
    entry: Node<'_>,
    file: FileId,
    patch: &Data,
    root: &Place<'_>,
    opened: &Opened,
    names: &mut Names<'_>,
) -> Result<Overlay, Refusal> {
    let filter = guard(entry, file, names)?;
    if let Some(keys) = keys_by_element(patch) {
        return keyed(&keys, root, opened, filter, names);
    }
    let Some(path) = &opened.list.path else {
        return refused(
            RefusalCode::Pattern,
            "the elements are not those of one list of the object; write a mutation for each list",
        );
    };
    if mentions_element(patch, path) {
        return refused(
            RefusalCode::Pattern,
            "the patch reads `element` outside of the list of the loop; write the mutation by hand",
        );
    }
    let element = Loop {
        list: opened.list.clone(),
        variable: opened.variable.clone(),
        filter,
    };
    let walker = Walker::new(names, Some(element));
    walker.object(patch, root)
}

/// Whether a patch reads `element` elsewhere than in the list that is looped over.
fn mentions_element(patch: &Data, list: &[String]) -> bool {
    match (patch, list) {
        (Data::Map(entries), [first, rest @ ..]) => entries.iter().any(|(key, value)| {
            if **key == **first {
                !rest.is_empty() && mentions_element(value, rest)
            } else {
                mentions(value) || key.contains("element")
            }
        }),
        (data, _) => mentions(data),
    }
}

fn mentions(data: &Data) -> bool {
    let text = data.to_json();
    text.contains("{{") && text.contains("element")
}

/// A path of maps, and the entries of the last one.
type Keyed = (Vec<String>, Vec<(String, Data)>);

/// A map whose keys have the element in them, at the end of a path of maps: the path and the entries.
fn keys_by_element(patch: &Data) -> Option<Keyed> {
    let entries = patch.as_map()?;
    if entries.keys().all(|key| key.contains("{{") && key.contains("element")) {
        let entries = entries.iter().map(|(key, value)| (key.to_string(), value.clone()));
        return Some((Vec::new(), entries.collect()));
    }
    let mut only = entries.iter();
    let (key, value) = only.next()?;
    if only.next().is_some() {
        return None;
    }
    let (mut path, found) = keys_by_element(value)?;
    path.insert(0, key.to_string());
    Some((path, found))
}

/// A map with one entry for each element.
fn keyed(
    (path, entries): &Keyed,
    root: &Place<'_>,
    opened: &Opened,
    filter: Option<Expr>,
    names: &mut Names<'_>,
) -> Result<Overlay, Refusal> {
    let at = path.iter().fold(root.clone(), |place, step| place.field(step));
    let [(key, value)] = entries.as_slice() else {
        return refused(RefusalCode::Pattern, "several keys for each element");
    };
    if key.starts_with("+(") || !at.has_schema() || !at.is_open_map()? || at.is_atomic()? {
        return refused(
            RefusalCode::Pattern,
            "keys with `element` in them, in a map that cannot be applied",
        );
    }
    let key = literal::key(key, names)?;
    let value = literal::json(value, names)?;
    let entry = Expr::primary(format!("{{{key}: {value}}}"));
    let variable = Expr::primary(opened.variable.clone());
    let args = [Some(opened.index.clone()), Some(variable), filter, Some(entry)];
    let map = looped(&opened.list)?.call("transformMapEntry", args.into_iter().flatten());
    let mut made = map;
    let mut place = root.clone();
    let mut types = Vec::new();
    for step in path {
        types.push((place.type_name.clone(), step.clone()));
        place = place.field(step);
    }
    for (type_name, step) in types.iter().rev() {
        made = Expr::primary(format!("{type_name}{{{step}: {made}}}"));
    }
    Ok(Overlay {
        apply: Some(made),
        ..Overlay::default()
    })
}

/// A block with a JSON patch, or with blocks of its own: one list of operations.
fn nested(
    entry: Node<'_>,
    file: FileId,
    object: &Value,
    elements: &mut Vec<Element>,
    names: &mut Names<'_>,
) -> Result<Expr, Refusal> {
    let depth = elements.len();
    if depth >= DEPTH {
        return refused(RefusalCode::Query, "loops nest too deeply");
    }
    let opened = open(entry, depth, names)?;
    let outer = names.scope.clone();
    names.scope = opened.scope.clone();
    let made = of_elements(entry, file, object, &opened, elements, names);
    names.scope = outer;
    made
}

fn of_elements(
    entry: Node<'_>,
    file: FileId,
    object: &Value,
    opened: &Opened,
    elements: &mut Vec<Element>,
    names: &mut Names<'_>,
) -> Result<Expr, Refusal> {
    let given = |name: &str| entry.get(name).filter(|part| !part.is_null());
    let filter = guard(entry, file, names)?;
    elements.push(Element {
        path: opened.list.path.clone(),
        value: opened.element.clone(),
        index: opened.index.clone(),
    });
    let made = if let Some(blocks) = given("foreach") {
        let blocks = blocks.as_seq().into_iter().flat_map(Items::iter);
        let lists = blocks
            .map(|block| nested(block, file, object, elements, names))
            .collect::<Result<Vec<_>, _>>()?;
        let mut lists = lists.into_iter();
        match lists.next() {
            Some(first) => Ok(lists.fold(first, |sum, list| sum.sum("+", &list))),
            None => refused(RefusalCode::Pattern, "a loop without a patch"),
        }
    } else {
        let text = given("patchesJson6902").and_then(Node::as_str).unwrap_or_default();
        let groups = json_patch::translate(text, object, elements, names)?;
        match groups.as_slice() {
            [one] => Ok(one.clone()),
            _ => refused(RefusalCode::Pattern, "a loop without a patch"),
        }
    };
    elements.pop();
    let made = made?;
    let list = looped(&opened.list)?;
    let variable = Expr::primary(opened.variable.clone());
    let single = one_operation(&made);
    let body = single.clone().unwrap_or(made);
    let args = [Some(opened.index.clone()), Some(variable), filter, Some(body)];
    let mut all = list.call("transformList", args.into_iter().flatten());
    if entry.get("order").and_then(Node::as_str) == Some("Descending") {
        all = all.call("reverse", []);
    }
    if single.is_none() {
        all = all.call("flatten", []);
    }
    Ok(all)
}

/// The operation of a list that has exactly one.
fn one_operation(list: &Expr) -> Option<Expr> {
    let text = list.as_str();
    let inner = text.strip_prefix("[JSONPatch{")?.strip_suffix("}]")?;
    let plain = !inner.contains("JSONPatch{") && !text.contains("}] + [");
    plain.then(|| Expr::primary(format!("JSONPatch{{{inner}}}")))
}
