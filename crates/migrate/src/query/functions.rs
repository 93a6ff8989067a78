//! Calls of functions: their CEL counterparts.
//!
//! Upstream counterpart: go-jmespath's `functions.go` and Kyverno `pkg/engine/jmespath/functions.go` (1.19). A function refuses a
//! missing argument as it refuses one of another type; in CEL that is the error of reading it.

use kyvtest_go_compat::{regex::Regex, value::Data};
use kyvtest_jmespath::ast::Node;

use super::{
    glob::matches_glob,
    text::text_of,
    types::{Text, Type},
    value::Value,
    walk::{Current, Translator, refused},
};
use crate::{Expr, Refusal, RefusalCode};

/// A call whose arguments are translated.
pub(super) struct Call<'c> {
    pub(super) name: &'c str,
    pub(super) args: Vec<Value>,
}

pub(super) fn unsupported<T>(name: &str, why: &str) -> Result<T, Refusal> {
    let reason = format!("the function `{name}` has no counterpart in CEL{why}");
    Err(Refusal::new(RefusalCode::Function, reason))
}

impl Call<'_> {
    /// An argument, given that it is there.
    pub(super) fn plain(&self, index: usize) -> Result<&Expr, Refusal> {
        match self.args.get(index) {
            Some(arg) if arg.drops_nulls => refused("the list may have nulls, which count in JMESPath"),
            Some(arg) => Ok(arg.plain()),
            None => refused(format!("`{}` has too few arguments", self.name)),
        }
    }

    pub(super) fn arg(&self, index: usize) -> Result<&Value, Refusal> {
        self.plain(index)?;
        Ok(&self.args[index])
    }

    /// An argument that is a text. One of an unknown type is taken for a text.
    pub(super) fn text(&self, index: usize) -> Result<&Expr, Refusal> {
        match &self.arg(index)?.ty {
            Type::Text(_) | Type::Any => self.plain(index),
            _ => refused(format!("argument {} of `{}` is never a text", index + 1, self.name)),
        }
    }

    /// The text of an argument that is constant.
    pub(super) fn literal(&self, index: usize) -> Result<&str, Refusal> {
        match &self.arg(index)?.literal {
            Some(Data::String(text)) => Ok(text),
            _ => refused(format!(
                "argument {} of `{}` is not a constant text",
                index + 1,
                self.name
            )),
        }
    }

    /// The value that is made of the arguments.
    pub(super) fn made(&self, expr: Expr, ty: Type) -> Value {
        let mut value = Value::new(expr, ty);
        value.fails = self.args.iter().any(|arg| !arg.is_served() || arg.fails);
        value
    }

    fn made_fallible(&self, expr: Expr, ty: Type) -> Value {
        self.made(expr, ty).failing_if(true)
    }

    fn arity(&self, count: usize) -> Result<(), Refusal> {
        if self.args.len() == count {
            return Ok(());
        }
        refused(format!("`{}` takes {count} arguments", self.name))
    }
}

impl Translator<'_, '_> {
    pub(super) fn function(&mut self, name: &str, args: &[Node], current: Current<'_>) -> Result<Value, Refusal> {
        if matches!(name, "map" | "sort_by" | "max_by" | "min_by") {
            return self.with_expression(name, args, current);
        }
        if let ("merge", [map, Node::MultiSelectHash(entries)]) = (name, args) {
            let added = entries.iter().map(|(key, node)| match node {
                Node::Literal(Data::String(text)) => Some((key.to_string(), Some(text.to_string()))),
                Node::Literal(Data::Null) => Some((key.to_string(), None)),
                // `{label: null}` reads a field `null`, which no map is expected to have.
                Node::Field(field) if &**field == "null" => Some((key.to_string(), None)),
                _ => None,
            });
            let added: Option<Vec<_>> = added.collect();
            let map = self.node(map, current)?.or_null();
            return merged(&map, added);
        }
        if let ("merge", [map, Node::Literal(Data::Map(entries))]) = (name, args) {
            let added = entries
                .iter()
                .map(|(key, value)| Some((key.to_string(), Some(value.as_str()?.to_owned()))));
            let added: Option<Vec<_>> = added.collect();
            let map = self.node(map, current)?.or_null();
            return merged(&map, added);
        }
        if let ("join", [Node::Literal(Data::String(separator)), Node::MultiSelectList(parts)]) = (name, args)
            && !parts.is_empty()
            && self.marked.literal(separator).is_none()
        {
            return self.joined_texts(separator, parts, current);
        }
        let args: Vec<Value> = args
            .iter()
            .map(|arg| self.node(arg, current).map(Value::or_null))
            .collect::<Result<_, _>>()?;
        let call = Call { name, args };
        let made = match name {
            "length" | "contains" | "keys" | "values" | "reverse" | "sort" | "max" | "min" | "to_array"
            | "not_null" | "type" | "label_match" | "lookup" | "merge" => Self::collection(&call)?,
            "starts_with" | "ends_with" | "split" | "join" | "to_upper" | "to_lower" | "to_string" | "replace_all"
            | "trim_prefix" | "truncate" | "equal_fold" | "to_boolean" => text_function(&call)?,
            "regex_match" | "regex_replace_all" | "regex_replace_all_literal" | "pattern_match" => pattern(&call)?,
            "base64_decode" | "base64_encode" | "parse_json" | "parse_yaml" | "sha256" | "sha1" | "md5"
            | "x509_decode" => encoding(&call)?,
            "random" => return unsupported(name, " with the same meaning: each look gives another value"),
            "items" | "object_from_lists" => return unsupported(name, "; read the map itself"),
            "image_normalize" => return unsupported(name, "; use `image()` and its parts"),
            "compare" | "trim" | "path_canonicalize" | "is_external_url" | "replace" => return unsupported(name, ""),
            _ => match super::arithmetic::call(&call)? {
                Some(value) => value,
                None => return refused(format!("there is no function `{name}`")),
            },
        };
        Ok(made)
    }

    /// `join('-', [a, b])`: a sum of texts.
    fn joined_texts(&mut self, separator: &str, parts: &[Node], current: Current<'_>) -> Result<Value, Refusal> {
        let list = self.multi_select(parts, current)?;
        let mut sum: Option<Expr> = None;
        for part in parts {
            let part = self.node(part, current)?;
            if !matches!(part.ty, Type::Text(_) | Type::Any) {
                return refused("`join` of something that is not a text");
            }
            sum = Some(match sum {
                None => part.plain().clone(),
                Some(sum) if separator.is_empty() => sum.sum("+", part.plain()),
                Some(sum) => sum.sum("+", &Expr::string(separator)).sum("+", part.plain()),
            });
        }
        let sum = sum.unwrap_or_else(|| Expr::string(separator));
        Ok(Value::new(sum, Type::text()).failing_if(list.fails))
    }

    fn collection(call: &Call<'_>) -> Result<Value, Refusal> {
        let first = call.arg(0)?;
        match call.name {
            "length" => {
                call.arity(1)?;
                if let Some(map) = &first.keys_of {
                    return Ok(call.made(map.plain().call("size", []), Type::Int));
                }
                match &first.ty {
                    Type::Text(_) | Type::List { .. } | Type::Map(_) | Type::Object(_) | Type::Any => {
                        Ok(call.made(first.plain().call("size", []), Type::Int))
                    }
                    _ => refused("`length` of something that has none"),
                }
            }
            "contains" => contains(call),
            "keys" => {
                if !first.ty.is_map() && first.ty != Type::Any {
                    return refused("`keys` of something that is not a map");
                }
                let key = Expr::primary("key");
                let names = match &first.ty {
                    Type::Object(_) => Type::name(),
                    _ => Type::text(),
                };
                let mut value = call.made(first.plain().call("map", [key.clone(), key]), Type::list(names));
                value.keys_of = Some(Box::new(first.assumed()));
                value.hint = Some("key".to_owned());
                Ok(value)
            }
            "values" => {
                let item = match &first.ty {
                    Type::Map(value) => (**value).clone(),
                    Type::Any | Type::Object(_) => Type::Any,
                    _ => return refused("`values` of something that is not a map"),
                };
                let args = ["key", "value", "value"].map(Expr::primary);
                Ok(call.made(first.plain().call("transformList", args), Type::list(item)))
            }
            "reverse" if first.ty.is_list() => Ok(call.made(first.plain().call("reverse", []), first.ty.clone())),
            "sort" if first.ty.is_list() => {
                // CEL's checker takes the elements for numbers if it knows nothing of them.
                let sorted = Expr::function("dyn", [first.plain().call("sort", [])]);
                Ok(call.made(sorted, first.ty.clone()))
            }
            "max" | "min" if first.ty.item().is_number() => {
                let name = if call.name == "max" {
                    "math.greatest"
                } else {
                    "math.least"
                };
                let Type::List { nonempty: true, .. } = first.ty else {
                    return refused(format!("`{}` of a list that may be empty", call.name));
                };
                Ok(call.made(Expr::function(name, [first.plain().clone()]), first.ty.item()))
            }
            "to_array" if first.ty.is_list() && first.is_always_present() => Ok(first.clone()),
            "to_array" if first.is_always_present() && first.ty != Type::Any => {
                Ok(call.made(Expr::list([first.plain().clone()]), Type::list(first.ty.clone())))
            }
            "type" => type_of(call),
            "label_match" => {
                call.arity(2)?;
                let (wanted, found) = (call.plain(0)?, call.plain(1)?);
                let key = Expr::primary("label");
                let test = Expr::all([
                    key.relation("in", found),
                    found.index(&key).relation("==", &wanted.index(&key)),
                ]);
                Ok(call.made(wanted.call("all", [key, test]), Type::Bool))
            }
            "lookup" => match &call.arg(1)?.literal {
                Some(Data::String(key)) if first.is_always_present() => Ok(first.field(key).or_null()),
                _ => unsupported("lookup", " for keys that are computed"),
            },
            _ => unsupported(call.name, " for these arguments"),
        }
    }

    /// Functions that take an expression: `map(&expr, list)` and the like.
    fn with_expression(&mut self, name: &str, args: &[Node], current: Current<'_>) -> Result<Value, Refusal> {
        let ("map", [Node::Expref(expression), list]) = (name, args) else {
            return unsupported(name, " for these arguments");
        };
        let list = self.node(list, current)?.or_null();
        if list.drops_nulls || !list.ty.is_list() && list.ty != Type::Any {
            return refused("`map` needs a list without nulls");
        }
        let (inner, variable) = self.names.scope.enter(list.hint.as_deref().unwrap_or("item"));
        let element = Value::new(Expr::primary(variable.clone()), list.ty.item());
        let mut names = self.names.within(inner);
        let mut translator = Translator {
            names: &mut names,
            marked: self.marked,
        };
        let made = translator.node(expression, Current::Value(&element))?;
        if !made.is_always_present() {
            return refused("`map` makes nulls of missing values");
        }
        let expr = list
            .plain()
            .call("map", [Expr::primary(variable), made.plain().clone()]);
        let mut value = Value::new(expr, Type::list(made.ty.clone()));
        value.fails = made.fails || !list.is_always_present();
        Ok(value)
    }
}

/// A map with constant entries added.
fn merged(map: &Value, added: Option<Vec<(String, Option<String>)>>) -> Result<Value, Refusal> {
    let is_texts = matches!(&map.ty, Type::Map(value) if matches!(**value, Type::Text(_) | Type::Any));
    let (true, Some(added)) = (is_texts, added) else {
        return unsupported("merge", " for other maps than one of texts and a constant one");
    };
    let keys = Expr::list(added.iter().map(|(key, _)| Expr::string(key)));
    let [key, value] = ["key", "value"].map(Expr::primary);
    let kept = match added.as_slice() {
        [(only, _)] => key.relation("!=", &Expr::string(only)),
        _ => key.relation("in", &keys).negate(),
    };
    let rest = map.plain().call("transformMap", [key, value.clone(), kept, value]);
    let fails = map.fails || !map.is_always_present();
    Ok(Value::new(rest, Type::Merged(added)).failing_if(fails))
}

fn contains(call: &Call<'_>) -> Result<Value, Refusal> {
    call.arity(2)?;
    let (whole, part) = (call.arg(0)?, call.arg(1)?);
    if let Some(map) = &whole.keys_of
        && let Some(Data::String(key)) = &part.literal
    {
        return Ok(call.made(map.field(key).present(), Type::Bool));
    }
    if !part.is_always_present() {
        return refused("`contains` of a value that may be missing");
    }
    let expr = match &whole.ty {
        Type::Text(_) => match &part.ty {
            Type::Text(_) | Type::Any => whole.plain().call("contains", [part.plain().clone()]),
            _ => Expr::bool(false),
        },
        Type::List { .. } => part.plain().relation("in", whole.plain()),
        // A text or a list: anything else is an error on both sides.
        Type::Any if part.ty.as_text().is_some() => {
            let is_text = Expr::function("type", [whole.plain().clone()]).relation("==", &Expr::primary("string"));
            let in_text = whole.plain().call("contains", [part.plain().clone()]);
            is_text.choose(&in_text, &part.plain().relation("in", whole.plain()))
        }
        Type::Any => return refused("`contains` looks into a text or a list, and which of them this is, is not known"),
        _ => return refused("`contains` of something that is neither a text nor a list"),
    };
    Ok(call.made(expr, Type::Bool))
}

fn type_of(call: &Call<'_>) -> Result<Value, Refusal> {
    let first = call.arg(0)?;
    let word = match &first.ty {
        Type::Int | Type::Number => "number",
        Type::Text(_) => "string",
        Type::List { .. } => "array",
        Type::Map(_) | Type::Object(_) | Type::Resource => "object",
        Type::Bool => "boolean",
        _ => return unsupported("type", " for values whose type is not known"),
    };
    let expr = if first.is_always_present() {
        Expr::string(word)
    } else {
        first.present().choose(&Expr::string(word), &Expr::string("null"))
    };
    Ok(Value::new(expr, Type::name()))
}

fn text_function(call: &Call<'_>) -> Result<Value, Refusal> {
    let text = || call.text(0).cloned();
    let value = match call.name {
        "starts_with" => call.made(text()?.call("startsWith", [call.text(1)?.clone()]), Type::Bool),
        "ends_with" => call.made(text()?.call("endsWith", [call.text(1)?.clone()]), Type::Bool),
        "split" => {
            let separator = call.literal(1)?;
            let item = Type::Text(Text {
                plain: call.arg(0)?.ty.as_text().is_some_and(|text| text.plain),
                ..Text::default()
            });
            let nonempty = !separator.is_empty();
            let item = Box::new(item);
            call.made(
                text()?.call("split", [Expr::string(separator)]),
                Type::List { item, nonempty },
            )
        }
        "join" => call.made(call.plain(1)?.call("join", [text()?]), Type::text()),
        "to_upper" => call.made(text()?.call("upperAscii", []), call.arg(0)?.ty.clone()),
        "to_lower" => call.made(text()?.call("lowerAscii", []), call.arg(0)?.ty.clone()),
        "to_string" => {
            let first = call.arg(0)?;
            let mut value = Value::new(text_of(first)?, Type::text());
            value.fails = first.fails;
            value
        }
        "replace_all" => {
            let args = [call.text(1)?.clone(), call.text(2)?.clone()];
            call.made(text()?.call("replace", args), Type::text())
        }
        "trim_prefix" => {
            let prefix = call.literal(1)?;
            let text = text()?;
            let length = i64::try_from(prefix.chars().count()).unwrap_or(i64::MAX);
            let rest = text.call("substring", [Expr::int(length)]);
            let starts = text.call("startsWith", [Expr::string(prefix)]);
            call.made(starts.choose(&rest, &text), Type::text())
        }
        "equal_fold" => {
            let sides = [text()?, call.text(1)?.clone()].map(|side| side.call("lowerAscii", []));
            call.made(sides[0].relation("==", &sides[1]), Type::Bool)
        }
        _ => return unsupported(call.name, ""),
    };
    Ok(value)
}

/// A regular expression that Go accepts, for CEL.
fn regex(call: &Call<'_>, index: usize) -> Result<Expr, Refusal> {
    let pattern = call.literal(index)?;
    if Regex::new(pattern).is_err() {
        return refused(format!("`{pattern}` is not a regular expression"));
    }
    Ok(Expr::string(pattern))
}

fn pattern(call: &Call<'_>) -> Result<Value, Refusal> {
    let subject = |index: usize| match call.arg(index)?.ty {
        Type::Int | Type::IntOrText => Ok(Expr::function("string", [call.plain(index)?.clone()])),
        _ => call.text(index).cloned(),
    };
    Ok(match call.name {
        "regex_match" => call.made(subject(1)?.call("matches", [regex(call, 0)?]), Type::Bool),
        "pattern_match" => call.made(matches_glob(&subject(1)?, call.literal(0)?), Type::Bool),
        _ => {
            let replacement = call.literal(2)?;
            if replacement.contains(['\\', '$']) {
                return unsupported(call.name, " with references to groups");
            }
            let args = [subject(1)?, regex(call, 0)?, Expr::string(replacement)];
            call.made(Expr::function("regex.replace", args), Type::text())
        }
    })
}

fn encoding(call: &Call<'_>) -> Result<Value, Refusal> {
    let text = call.text(0)?.clone();
    Ok(match call.name {
        "base64_decode" => {
            let decoded = Expr::function("base64.decode", [text]);
            call.made_fallible(Expr::function("string", [decoded]), Type::text())
        }
        "base64_encode" => {
            let bytes = Expr::function("bytes", [text]);
            call.made(Expr::function("base64.encode", [bytes]), Type::text())
        }
        "parse_json" => call.made_fallible(Expr::primary("json").call("unmarshal", [text]), Type::Any),
        "parse_yaml" => call.made_fallible(Expr::primary("yaml").call("parse", [text]), Type::Any),
        "x509_decode" => call.made_fallible(Expr::function("x509.decode", [text]), Type::Any),
        name => call.made(Expr::function(name, [text]), Type::name()),
    })
}
