//! `AnyIn`, `AllIn`, `AnyNotIn`, `AllNotIn`, and the deprecated `In` and `NotIn`.
//!
//! Upstream counterpart: `pkg/engine/variables/operator/{in,notin,anyin,allin,anynotin,allnotin}.go` (Kyverno 1.19). Wildcards count
//! on both sides: a key `*` from the request is in every list. Where a text from the request may have wildcards, the
//! expression says so.
//!
//! Known deviation: a text from a ConfigMap that is a range (`10-20`) is taken for a wildcard.

use kyvtest_go_compat::value::{Data, Document};

use super::{guarded, is_text, type_unknown, unknown};
use crate::{
    Expr, Refusal,
    query::{Missing, Type, Value, is_glob, matches_glob, text_matches_glob_of},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Membership {
    In,
    NotIn,
    AnyIn,
    AllIn,
    AnyNotIn,
    AllNotIn,
}

impl Membership {
    fn is_negative(self) -> bool {
        matches!(self, Self::NotIn | Self::AnyNotIn | Self::AllNotIn)
    }

    fn is_deprecated(self) -> bool {
        matches!(self, Self::In | Self::NotIn)
    }
}

/// A list of texts in JSON; one with escapes in it is taken for a wildcard.
const JSON_TEXTS: &str = r#"^\s*\[\s*("[^"\\]*"\s*(,\s*"[^"\\]*"\s*)*)?\]\s*$"#;

/// The list or text that keys are looked up in.
enum Container<'v> {
    /// Constant texts.
    Constants(Vec<String>),
    /// A range of integers, both ends included.
    Range(i64, i64),
    /// A list of texts from the request.
    List(&'v Value),
    /// A name from the request.
    Name(&'v Value),
    /// A text from elsewhere: a list in JSON, or a wildcard.
    Json(&'v Value),
}

pub(super) fn translate(membership: Membership, key: &Value, value: &Value) -> Result<Expr, Refusal> {
    let container = container(membership, value)?;
    let value_guarded = |expr: Expr| guarded(value, expr);
    if let Some(Data::List(keys)) = &key.literal {
        let keys: Vec<Value> = keys.iter().map(Value::literal).collect::<Result<_, _>>()?;
        let constant = Expr::list(keys.iter().map(|key| key.plain().clone()));
        let item = keys.first().map_or_else(Type::text, |key| key.ty.clone());
        let list = Value::new(constant, Type::list(item));
        return Ok(value_guarded(keys_in(membership, &list, Some(&keys), &container)?));
    }
    match &key.ty {
        Type::Null | Type::Map(_) | Type::Object(_) | Type::Resource => Ok(Expr::bool(false)),
        Type::List { .. } => Ok(value_guarded(keys_in(membership, key, None, &container)?)),
        Type::Truth | Type::Duration | Type::Timestamp | Type::Request => type_unknown(key),
        Type::Any => {
            // A field of a custom resource may be a list: what it is shows only in the request.
            let there = key.assumed();
            let list = Value::new(there.plain().clone(), Type::list(Type::Any));
            let each = keys_in(membership, &list, None, &container)?;
            let found = found(&there, &container)?;
            let one = if membership.is_negative() {
                found.negate()
            } else {
                found
            };
            let is_list = Expr::function("type", [there.plain().clone()]).relation("==", &Expr::primary("list"));
            Ok(guarded(key, value_guarded(is_list.choose(&each, &one))))
        }
        _ => {
            let found = found(key, &container)?;
            let expr = if membership.is_negative() {
                found.negate()
            } else {
                found
            };
            Ok(guarded(key, value_guarded(expr)))
        }
    }
}

fn container(membership: Membership, value: &Value) -> Result<Container<'_>, Refusal> {
    match &value.literal {
        Some(Data::List(items)) => {
            return Ok(Container::Constants(items.iter().map(Data::to_go).collect()));
        }
        Some(Data::String(text)) => {
            if let Some((low, high)) = range(text).filter(|_| !membership.is_deprecated()) {
                return Ok(Container::Range(low, high));
            }
            if looks_like_range(text) && !membership.is_deprecated() {
                return unknown(format!(
                    "the range `{text}` has other ends than integers; compare both ends yourself"
                ));
            }
            return match Document::from_json(text).map(|document| Data::from(document.root())) {
                Ok(Data::List(items)) if items.iter().all(|item| item.as_str().is_some()) => {
                    // Wildcards in such a list are taken literally, except that the whole text is one.
                    let texts: Vec<String> = items.iter().map(Data::to_go).collect();
                    if texts.iter().any(|text| is_glob(text)) {
                        return unknown("a list in a text with wildcards; write it as a YAML list");
                    }
                    Ok(Container::Constants(texts))
                }
                Ok(_) => unknown(format!(
                    "`{text}` is neither a list nor a text; write it as a YAML list"
                )),
                Err(_) if membership.is_deprecated() && !is_glob(text) => {
                    Ok(Container::Constants(vec![text.to_string()]))
                }
                Err(_) => Ok(Container::Constants(vec![text.to_string()])),
            };
        }
        Some(Data::Bool(_) | Data::Int(_) | Data::Uint(_) | Data::Double(_)) => {
            return unknown("a list of one number or truth value; write it as a YAML list");
        }
        Some(Data::Null | Data::Map(_)) => return unknown("the value is neither a list nor a text"),
        None => {}
    }
    match &value.ty {
        Type::List { .. } => Ok(Container::List(value)),
        Type::Text(text) if text.plain => Ok(Container::Name(value)),
        Type::Text(_) => Ok(Container::Json(value)),
        _ => type_unknown(value),
    }
}

/// The ends of a range of integers (`10-20`).
fn range(text: &str) -> Option<(i64, i64)> {
    let (low, high) = text.split_once('-')?;
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    (digits(low) && digits(high)).then(|| Some((low.parse().ok()?, high.parse().ok()?)))?
}

fn looks_like_range(text: &str) -> bool {
    let bound = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_digit())
            && kyvtest_go_compat::text::quantity::Quantity::parse(part).is_ok()
    };
    let text = text.strip_prefix('-').unwrap_or(text);
    text.split_once("!-")
        .or_else(|| text.split_once('-'))
        .is_some_and(|(low, high)| bound(low) && bound(high.strip_prefix('-').unwrap_or(high)))
}

/// Several keys.
fn keys_in(
    membership: Membership,
    keys: &Value,
    constants: Option<&[Value]>,
    container: &Container<'_>,
) -> Result<Expr, Refusal> {
    if membership.is_deprecated() {
        return exactly(membership, keys, container);
    }
    // `get AnyIn verbs` reads better than a loop over one key.
    if let (Some([key]), Container::List(_) | Container::Constants(_)) = (constants, container) {
        let found = found(key, container)?;
        return Ok(if membership.is_negative() {
            found.negate()
        } else {
            found
        });
    }
    let variable = Expr::primary(keys.hint.as_deref().filter(|hint| *hint != "item").unwrap_or("key"));
    let key = Value::new(variable.clone(), keys.ty.item());
    let found = found(&key, container)?;
    let (method, test, negate) = match membership {
        Membership::AnyIn => ("exists", found, false),
        Membership::AllIn => ("all", found, false),
        Membership::AnyNotIn => ("exists", found.negated_relation(), false),
        _ => ("exists", found, true),
    };
    let result = keys.list_or_empty().call(method, [variable, test]);
    let result = if negate { result.negate() } else { result };
    // Null is in nothing, and nothing is in null.
    let result = match membership {
        Membership::AllIn | Membership::AllNotIn => guarded(keys, result),
        _ => result,
    };
    if !keys.or_empty_text {
        return Ok(result);
    }
    // Instead of an empty list there is an empty text.
    let empty = self::found(&Value::literal(&Data::from(""))?, container)?;
    let for_empty = if membership.is_negative() {
        empty.negate()
    } else {
        empty
    };
    let as_list = matches!(membership, Membership::AllIn | Membership::AllNotIn);
    if for_empty.is_bool(as_list) {
        return Ok(result);
    }
    if !for_empty.is_bool(!as_list) {
        return type_unknown(keys);
    }
    let is_empty = keys.plain().call("size", []).relation("==", &Expr::int(0));
    Ok(if as_list {
        Expr::all([is_empty.negated_relation(), result])
    } else {
        Expr::any([is_empty, result])
    })
}

/// The deprecated operators: all keys are members, compared as they are.
fn exactly(membership: Membership, keys: &Value, container: &Container<'_>) -> Result<Expr, Refusal> {
    let list = match container {
        Container::Constants(texts) => Expr::list(texts.iter().map(|text| Expr::string(text))),
        Container::List(list) if matches!(list.ty.item(), Type::Text(_)) => list.list_or_empty(),
        _ => return unknown("`In` and `NotIn` on these values; use `AllIn` or `AnyNotIn`"),
    };
    if !matches!(keys.ty.item(), Type::Text(_)) || keys.or_empty_text {
        return type_unknown(keys);
    }
    let key = Expr::primary("key");
    let all = keys
        .list_or_empty()
        .call("all", [key.clone(), key.relation("in", &list)]);
    Ok(guarded(keys, if membership.is_negative() { all.negate() } else { all }))
}

/// Whether one key is in the container.
fn found(key: &Value, container: &Container<'_>) -> Result<Expr, Refusal> {
    match container {
        Container::Constants(texts) => among_constants(key, texts),
        Container::Range(low, high) => match (&key.literal, &key.ty) {
            (Some(_), _) => unknown("a constant and a range"),
            (None, Type::Int | Type::Number) => Ok(Expr::all([
                key.plain().relation(">=", &Expr::int(*low)),
                key.plain().relation("<=", &Expr::int(*high)),
            ])),
            _ => type_unknown(key),
        },
        Container::List(list) => among_list(key, list),
        Container::Name(name) => match (&key.literal, &key.ty) {
            (Some(Data::String(text)), _) if is_glob(text) => type_unknown(name),
            (_, Type::Text(_)) => Ok(key.plain().relation("==", name.plain())),
            _ => type_unknown(key),
        },
        Container::Json(text) => {
            if !is_text(key) && key.ty != Type::Any {
                return type_unknown(key);
            }
            let text = text.plain();
            let members = Expr::primary("json").call("unmarshal", [text.clone()]);
            let is_list = text.call("matches", [Expr::string(JSON_TEXTS)]);
            let fits = text_matches_glob_of(key.plain(), text);
            Ok(is_list.choose(&key.plain().relation("in", &members), &fits))
        }
    }
}

/// Whether a key is one of some constant texts, which may have wildcards.
fn among_constants(key: &Value, texts: &[String]) -> Result<Expr, Refusal> {
    if let Some(literal) = &key.literal {
        let key = literal.to_go();
        let fits = |text: &String| {
            kyvtest_go_compat::text::wildcard::matches(&key, text)
                || kyvtest_go_compat::text::wildcard::matches(text, &key)
        };
        return Ok(Expr::bool(texts.iter().any(fits)));
    }
    let expr = key.plain();
    let numbers: Option<Vec<i64>> = texts.iter().map(|text| text.parse().ok()).collect();
    let text = match &key.ty {
        Type::Bool => {
            let holds = |word: &str| {
                texts
                    .iter()
                    .any(|text| kyvtest_go_compat::text::wildcard::matches(text, word))
            };
            return Ok(match (holds("true"), holds("false")) {
                (true, true) => Expr::bool(true),
                (true, false) => expr.clone(),
                (false, true) => expr.negate(),
                (false, false) => Expr::bool(false),
            });
        }
        Type::Int | Type::Number | Type::Any if numbers.is_some() => {
            let numbers = numbers.unwrap_or_default().into_iter().map(Expr::int);
            return Ok(one_of(expr, numbers.collect()));
        }
        Type::Int | Type::IntOrText => Expr::function("string", [expr.clone()]),
        Type::Text(_) | Type::Any => expr.clone(),
        _ => return type_unknown(key),
    };
    let (globs, plain): (Vec<&String>, Vec<&String>) = texts.iter().partition(|text| is_glob(text));
    let mut parts = Vec::new();
    if !plain.is_empty() {
        parts.push(one_of(&text, plain.iter().map(|text| Expr::string(text)).collect()));
    }
    parts.extend(globs.iter().map(|glob| matches_glob(&text, glob)));
    if let Type::Text(known) = &key.ty
        && !known.plain
    {
        // A key with wildcards is in the list if it fits one of the texts; what fits an empty text fits every text.
        let fitting = texts.iter().filter(|one| !one.is_empty() || texts.len() == 1);
        let fitting: Vec<Expr> = fitting.map(|text| Expr::string(text)).collect();
        if let ([only], true) = (fitting.as_slice(), globs.is_empty()) {
            // Without wildcards it fits if it is equal.
            let others = texts.iter().filter(|text| text.is_empty() && texts.len() > 1);
            let others: Vec<Expr> = others.map(|text| Expr::string(text)).collect();
            let is_empty = (!others.is_empty()).then(|| one_of(&text, others));
            let fits = text_matches_glob_of(only, &text);
            return Ok(Expr::any(is_empty.into_iter().chain([fits])));
        }
        let has_wildcards = text.call("matches", [Expr::string("[*?]")]);
        let listed = if plain.len() == texts.len() {
            Expr::list(texts.iter().map(|text| Expr::string(text)))
        } else {
            Expr::list(fitting)
        };
        let name = Expr::primary("listed");
        let fits = listed.call("exists", [name.clone(), text_matches_glob_of(&name, &text)]);
        parts.push(Expr::all([has_wildcards, fits]));
    }
    Ok(Expr::any(parts))
}

fn one_of(expr: &Expr, mut constants: Vec<Expr>) -> Expr {
    if constants.len() == 1
        && let Some(constant) = constants.pop()
    {
        return expr.relation("==", &constant);
    }
    expr.relation("in", &Expr::list(constants))
}

/// Whether a key is in a list from the request; wildcards count on both sides.
fn among_list(key: &Value, list: &Value) -> Result<Expr, Refusal> {
    let items = list.list_or_empty();
    if list.or_empty_text {
        return type_unknown(list);
    }
    // Names of fields are known to the map itself.
    if let (Some(map), Some(Data::String(name))) = (&list.keys_of, &key.literal)
        && !is_glob(name)
        && (matches!(map.ty, Type::Object(_)) || map.ty == Type::Any)
        && list.missing == Missing::Never
    {
        return Ok(map.field(name).present());
    }
    let plain_items = match list.ty.item() {
        Type::Text(text) => text.plain,
        Type::Any => true,
        Type::Int | Type::Bool if !matches!(key.ty, Type::Text(_)) => true,
        _ => return type_unknown(list),
    };
    let item = Expr::primary(
        list.hint
            .as_deref()
            .filter(|hint| *hint != "item" && *hint != "key")
            .unwrap_or("member"),
    );
    if let Some(literal) = &key.literal {
        let text = literal.to_go();
        if matches!(literal, Data::Bool(_)) && matches!(list.ty.item(), Type::Bool | Type::Any) {
            return Ok(key.plain().relation("in", &items));
        }
        if literal.as_str().is_none() {
            return type_unknown(key);
        }
        let fits = matches_glob(&item, &text);
        if plain_items {
            return Ok(if is_glob(&text) {
                items.call("exists", [item, fits])
            } else {
                key.plain().relation("in", &items)
            });
        }
        let reverse = text_matches_glob_of(key.plain(), &item);
        let test = if is_glob(&text) {
            Expr::any([fits, reverse])
        } else {
            reverse
        };
        return Ok(items.call("exists", [item, test]));
    }
    match &key.ty {
        Type::Text(known) => {
            let exact = known.plain && plain_items;
            if exact {
                return Ok(key.plain().relation("in", &items));
            }
            let forwards = text_matches_glob_of(key.plain(), &item);
            let backwards = text_matches_glob_of(&item, key.plain());
            let mut parts = vec![key.plain().relation("==", &item)];
            if !plain_items {
                parts = vec![forwards];
            }
            if !known.plain {
                parts.push(backwards);
            }
            Ok(items.call("exists", [item, Expr::any(parts)]))
        }
        Type::Any | Type::Int | Type::Number | Type::Bool => Ok(key.plain().relation("in", &items)),
        _ => type_unknown(key),
    }
}
