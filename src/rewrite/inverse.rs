//! Documents on which a JMESPath expression has a given value: what an API would have returned, if a suite says what a rule read
//! from the response.
//!
//! Upstream counterpart: none. An expression is followed backwards from its value, and the document is then tried: an expression
//! that is not understood has no document rather than a wrong one.

use kyvtest_go_compat::{
    text::quantity::Quantity,
    value::{Data, Document},
};
use kyvtest_jmespath::{
    Context, Expression,
    ast::{Comparator, Node},
};
use serde_json::{Map, Value as Json, json};

/// The longest list that is made because a suite asks for its length.
const LONGEST: u64 = 1000;

/// Returns a document on which an expression has a value: the given one with as few changes as possible.
pub(super) fn document(path: &str, wanted: &Json, start: &Json) -> Option<Json> {
    let expression = Expression::parse(path).ok()?;
    let has_value = |document: &Json| evaluated(expression.tree(), document).is_some_and(|value| same(&value, wanted));
    if has_value(start) {
        return Some(start.clone());
    }
    put(expression.tree(), start, wanted).filter(has_value)
}

/// Whether an expression has a value on a document.
pub(super) fn holds(path: &str, wanted: &Json, document: &Json) -> bool {
    let expression = Expression::parse(path).ok();
    let value = expression.and_then(|expression| evaluated(expression.tree(), document));
    value.is_some_and(|value| same(&value, wanted))
}

/// The values that a text in a values file may mean to a rule that compares numbers, lists or quantities: itself, the JSON in it, and
/// the number of a quantity.
pub(super) fn meanings(value: &Json) -> Vec<Json> {
    let mut meanings = vec![value.clone()];
    if let Some(text) = value.as_str() {
        meanings.extend(serde_json::from_str::<Json>(text).ok());
        let number = Quantity::parse(text).ok().and_then(|quantity| quantity.as_i64());
        meanings.extend(
            number
                .into_iter()
                .flat_map(|number| [json!(number), json!(number.to_string())]),
        );
    }
    meanings
}

fn data(json: &Json) -> Data {
    Data::from(Document::from(json).root()).with_doubles()
}

fn same(left: &Json, right: &Json) -> bool {
    data(left) == data(right)
}

fn evaluated(node: &Node, document: &Json) -> Option<Json> {
    let value = Expression::of_tree(node.clone()).search(&data(document), &Context::default());
    Some(with_integers(value.ok()?.to_document().root().to_serde()))
}

/// JMESPath has doubles only, Kubernetes hardly any.
pub(super) fn with_integers(value: Json) -> Json {
    match value {
        Json::Number(number) => {
            let whole = number
                .as_f64()
                .filter(|number| number.fract() == 0.0 && number.abs() < 1e15);
            whole.map_or(Json::Number(number), |whole| json!(whole as i64))
        }
        Json::Array(list) => list.into_iter().map(with_integers).collect(),
        Json::Object(map) => map
            .into_iter()
            .map(|(key, value)| (key, with_integers(value)))
            .collect(),
        other => other,
    }
}

/// The value of a part of an expression; null if it has none.
fn read(node: &Node, document: &Json) -> Json {
    evaluated(node, document).unwrap_or_default()
}

/// Changes a document so that an expression has a value on it.
fn put(node: &Node, document: &Json, wanted: &Json) -> Option<Json> {
    match node {
        Node::Current | Node::Identity => Some(wanted.clone()),
        Node::Field(name) => {
            let mut object = match document {
                Json::Object(object) => object.clone(),
                Json::Null => Map::new(),
                _ => return None,
            };
            object.insert(name.to_string(), wanted.clone());
            Some(Json::Object(object))
        }
        Node::Index(index) => at_index(*index, document, wanted),
        Node::Subexpression(parts) | Node::Pipe(parts) | Node::IndexExpression(parts) => {
            let inner = put(&parts.1, &read(&parts.0, document), wanted)?;
            put(&parts.0, document, &inner)
        }
        Node::Projection(parts) => {
            let elements = wanted.as_array()?.iter().map(|value| put(&parts.1, &Json::Null, value));
            put(&parts.0, document, &elements.collect::<Option<_>>()?)
        }
        Node::FilterProjection(parts) => filtered(parts, document, wanted),
        Node::Flatten(list) => put(list, document, wanted),
        Node::Or(sides) => {
            let falls_back = is_false(&read(&sides.0, document)) && same(&read(&sides.1, document), wanted);
            if falls_back {
                Some(document.clone())
            } else {
                put(&sides.0, document, wanted)
            }
        }
        Node::And(sides) => {
            let left = decide(&sides.0, document, wanted.as_bool()?)?;
            decide(&sides.1, &left, wanted.as_bool()?)
        }
        Node::Not(_) | Node::Comparator(..) => decide(node, document, wanted.as_bool()?),
        Node::MultiSelectHash(entries) => entries.iter().try_fold(document.clone(), |document, (key, node)| {
            put(node, &document, wanted.get(&**key)?)
        }),
        Node::MultiSelectList(nodes) => {
            let values = wanted.as_array().filter(|values| values.len() == nodes.len())?;
            let mut pairs = nodes.iter().zip(values);
            pairs.try_fold(document.clone(), |document, (node, value)| put(node, &document, value))
        }
        Node::Function(Some(name), args) => called(name, args, document, wanted),
        Node::Literal(_)
        | Node::Empty
        | Node::Expref(_)
        | Node::Slice(_)
        | Node::ValueProjection(_)
        | Node::Function(None, _) => None,
    }
}

/// An element of a list; those before it are like it.
fn at_index(index: i64, document: &Json, wanted: &Json) -> Option<Json> {
    let mut list = match document {
        Json::Array(list) => list.clone(),
        Json::Null => Vec::new(),
        _ => return None,
    };
    let index = match usize::try_from(index) {
        Ok(index) => index,
        Err(_) => list
            .len()
            .max(1)
            .checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?,
    };
    if index as u64 >= LONGEST {
        return None;
    }
    while list.len() <= index {
        list.push(wanted.clone());
    }
    list[index] = wanted.clone();
    Some(Json::Array(list))
}

/// The elements that pass a condition are replaced, the others stay.
fn filtered(parts: &(Node, Node, Node), document: &Json, wanted: &Json) -> Option<Json> {
    let (list, projection, condition) = parts;
    let there = read(list, document);
    let passes = |element: &&Json| !is_false(&read(condition, element));
    let others = there
        .as_array()
        .into_iter()
        .flatten()
        .filter(|element| !passes(element));
    let made = wanted.as_array()?.iter().map(|value| match projection {
        Node::Identity | Node::Current => decide(condition, value, true),
        _ => put(projection, &decide(condition, &Json::Null, true)?, value),
    });
    let elements: Option<Vec<Json>> = others.cloned().map(Some).chain(made).collect();
    put(list, document, &Json::Array(elements?))
}

/// Changes a document so that a condition is true or false on it.
fn decide(node: &Node, document: &Json, wanted: bool) -> Option<Json> {
    if evaluated(node, document).is_some_and(|value| is_false(&value) != wanted) {
        return Some(document.clone());
    }
    match node {
        Node::Not(inner) => decide(inner, document, !wanted),
        Node::And(sides) if wanted => decide(&sides.1, &decide(&sides.0, document, true)?, true),
        Node::Or(sides) if wanted => decide(&sides.0, document, true).or_else(|| decide(&sides.1, document, true)),
        Node::Or(sides) => decide(&sides.1, &decide(&sides.0, document, false)?, false),
        Node::And(sides) => decide(&sides.0, document, false).or_else(|| decide(&sides.1, document, false)),
        Node::Comparator(comparator, sides) => {
            let equal = match comparator {
                Comparator::Equal => wanted,
                Comparator::NotEqual => !wanted,
                _ => return None,
            };
            let other = |value: Json| {
                if equal {
                    value
                } else {
                    json!(format!("not-{}", value.as_str().unwrap_or("this")))
                }
            };
            put(&sides.0, document, &other(read(&sides.1, document)))
                .filter(|made| evaluated(node, made) == Some(json!(wanted)))
                .or_else(|| put(&sides.1, document, &other(read(&sides.0, document))))
        }
        Node::Function(Some(name), args) => called(name, args, document, &json!(wanted)),
        _ if wanted => put(node, document, &json!("present")),
        _ => None,
    }
}

fn called(name: &str, args: &[Node], document: &Json, wanted: &Json) -> Option<Json> {
    let (first, second) = (args.first()?, args.get(1));
    match (name, second) {
        ("length", None) => {
            let length = wanted.as_u64().filter(|length| *length <= LONGEST)?;
            let elements = |element: Json| Json::Array(vec![element; usize::try_from(length).unwrap_or_default()]);
            let made = [json!({}), json!("element")].map(|element| put(first, document, &elements(element)));
            made.into_iter().flatten().find(|made| {
                read(first, made)
                    .as_array()
                    .is_some_and(|list| list.len() as u64 == length)
            })
        }
        ("to_string", None) => {
            let number = wanted.as_str().and_then(|text| text.parse::<i64>().ok());
            put(
                first,
                document,
                &number.map_or_else(|| wanted.clone(), |number| json!(number)),
            )
        }
        ("to_number", None) => put(first, document, &json!(wanted.as_f64()?.to_string())),
        ("sum" | "max" | "min" | "to_array", None) => put(first, document, &json!([wanted])),
        ("sort" | "not_null", _) => put(first, document, wanted),
        ("parse_json", None) => put(first, document, &json!(wanted.to_string())),
        ("to_upper" | "to_lower" | "trim_space", None) => put(first, document, wanted),
        ("contains", Some(element)) => {
            let element = read(element, document);
            let list = if wanted.as_bool()? { json!([element]) } else { json!([]) };
            put(first, document, &list)
        }
        ("label_match", Some(labels)) => {
            let labels = if wanted.as_bool()? {
                read(labels, document)
            } else {
                json!({"other": "labels"})
            };
            put(first, document, &labels)
        }
        ("starts_with" | "ends_with", Some(part)) if wanted == &json!(true) => {
            put(first, document, &read(part, document))
        }
        _ => None,
    }
}

/// What JMESPath takes for false.
fn is_false(value: &Json) -> bool {
    match value {
        Json::Null | Json::Bool(false) => true,
        Json::String(text) => text.is_empty(),
        Json::Array(list) => list.is_empty(),
        Json::Object(map) => map.is_empty(),
        Json::Bool(true) | Json::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::{document, holds};

    fn found(path: &str, wanted: &Json) -> Json {
        let made = document(path, wanted, &json!({})).unwrap_or_else(|| panic!("no document for {path}"));
        assert!(holds(path, wanted, &made));
        made
    }

    #[test]
    fn expressions_are_followed_backwards() {
        assert_eq!(found("items | length(@)", &json!(2)), json!({"items": [{}, {}]}));
        assert_eq!(
            found("items[?spec.nodeName=='one'] | length(@)", &json!(1)),
            json!({"items": [{"spec": {"nodeName": "one"}}]})
        );
        assert_eq!(
            found(
                "items[?label_match(spec.labels, `{\"a\": \"b\"}`)] | [0] | spec.min || `0`",
                &json!(2)
            ),
            json!({"items": [{"spec": {"labels": {"a": "b"}, "min": 2}}]})
        );
        assert_eq!(
            found("items[].spec.host", &json!(["a", "b"])),
            json!({"items": [{"spec": {"host": "a"}}, {"spec": {"host": "b"}}]})
        );
        assert_eq!(
            found("to_string(sum(manifest.layers[*].size))", &json!("12")),
            json!({"manifest": {"layers": [{"size": 12}]}})
        );
        assert_eq!(found("metadata.labels.a || ''", &json!("")), json!({}));
    }

    #[test]
    fn what_has_no_document_is_not_guessed() {
        assert_eq!(document("items | length(@)", &json!("many"), &json!({})), None);
        assert_eq!(document("md5(name)", &json!("x"), &json!({})), None);
        assert_eq!(document("to_upper(name)", &json!("x"), &json!({})), None);
    }
}
