//! Evaluates the rules (`x-kubernetes-validations`) of custom resource definitions.
//!
//! Upstream counterpart: `pkg/apiserver/schema/cel` of apiextensions-apiserver and `pkg/cel/common/values.go` of
//! k8s.io/apiserver, version 0.36: `self` and `oldSelf` have the types of the schema.
//!
//! Known deviations: expressions are checked against dynamic values, so a rule whose types do not fit fails when it is
//! evaluated and not when the definition is created; lists of type `set` and `map` compare and add like plain lists.

use kyvtest_cel::{
    compile::compile,
    context::{Context, Scratch},
    env::Env,
    eval::{Activation, evaluate},
    host::NoHost,
    profile::Profile,
    syntax::is_reserved,
    time::Timestamp,
    types::Type,
    val::Val,
};
use kyvtest_go_compat::{
    text::{base64, duration},
    value::{Map, Value},
};
use kyvtest_normalise::{Rule, RuleValue};

/// Evaluates a rule or its message expression.
///
/// # Errors
/// The text of the compilation or evaluation error.
pub fn check(rule: &Rule<'_>) -> Result<RuleValue, String> {
    let profile = Profile::kubernetes();
    let mut env = Env::new(profile);
    env.declare("self", Type::Dyn);
    env.declare("oldSelf", Type::Dyn);
    let program = compile(rule.expression, &env).map_err(|error| format!("rule compile error: {}", error.detail()))?;
    let scratch = Scratch::new();
    let context = Context::new(&scratch, profile, &NoHost);
    let old = rule.old.map(|old| typed(old, rule.schema, rule.resource, context));
    let old = match (old, rule.optional_old) {
        (Some(old), true) => Some(context.some(old)),
        (None, true) => Some(Val::NONE),
        (old, false) => old,
    };
    let values = [Some(typed(rule.value, rule.schema, rule.resource, context)), old];
    let activation = Activation {
        values: &values,
        variables: None,
    };
    match evaluate(&program, &scratch, activation, &NoHost, None).value {
        Val::Bool(holds) => Ok(RuleValue::Bool(holds)),
        Val::String(text) => Ok(RuleValue::Text(text.to_owned())),
        Val::Error(error) => Err(error.to_owned()),
        other => Err(format!("unexpected result of type {}", other.type_name())),
    }
}

/// A value with the types of its schema.
fn typed<'a>(value: Value<'a>, schema: Value<'_>, resource: bool, context: Context<'a>) -> Val<'a> {
    let text = |field: &str| schema.get(field).and_then(Value::as_str).unwrap_or_default();
    match value {
        Value::List(list) => {
            let Some(items) = schema.get("items") else {
                return value.into();
            };
            let all: Vec<Val<'a>> = list.iter().map(|item| typed(item, items, false, context)).collect();
            context.list(&all)
        }
        Value::Map(map) => object(map, schema, resource, context),
        Value::String(string) => of_format(string, text("format"), context),
        Value::Int(int) if text("type") == "number" => Val::Double(int as f64),
        Value::Uint(uint) if text("type") == "number" => Val::Double(uint as f64),
        // JSON writes whole numbers as it likes.
        Value::Double(double) if text("type") == "integer" => Val::Int(double as i64),
        other => other.into(),
    }
}

fn of_format<'a>(text: &'a str, format: &str, context: Context<'a>) -> Val<'a> {
    let found = match format {
        "date-time" => Timestamp::parse(text).map(Val::Timestamp),
        "date" => Timestamp::parse(&format!("{text}T00:00:00Z")).map(Val::Timestamp),
        "duration" => duration::parse(text).ok().map(Val::Duration),
        "byte" => base64::decode(text.as_bytes(), true)
            .ok()
            .map(|bytes| context.bytes(&bytes)),
        _ => None,
    };
    found.unwrap_or(Val::String(text))
}

/// A map. Properties have the names by which expressions select them; fields that the schema does not have are not visible.
fn object<'a>(map: Map<'a>, schema: Value<'_>, resource: bool, context: Context<'a>) -> Val<'a> {
    let properties = schema.get("properties");
    let more = schema.get("additionalProperties");
    if properties.is_none() && !resource {
        let Some(own) = more.filter(|more| more.as_map().is_some()) else {
            return Value::Map(map).into();
        };
        let entries = map.iter().map(|(key, value)| {
            let key = Val::String(key.text());
            (key, typed(value, own, false, context))
        });
        return context.map(&entries.collect::<Vec<_>>());
    }
    let mut entries = Vec::new();
    for (key, value) in map.iter() {
        let name = key.text();
        if resource && name == "metadata" {
            entries.push((Val::String(name), visible_metadata(value, context)));
        } else if resource && matches!(name, "apiVersion" | "kind") {
            entries.push((Val::String(name), value.into()));
        } else if let Some(own) = properties.and_then(|all| all.get(name)) {
            entries.push((context.string(&escaped(name)), typed(value, own, false, context)));
        }
    }
    context.map(&entries)
}

/// Of metadata, rules see the name only.
fn visible_metadata<'a>(metadata: Value<'a>, context: Context<'a>) -> Val<'a> {
    let fields = ["name", "generateName"].into_iter().filter_map(|field| {
        let value = metadata.get(field)?;
        Some((Val::String(field), value.into()))
    });
    context.map(&fields.collect::<Vec<_>>())
}

/// The name of a property as expressions write it: `__name__` for a reserved word.
fn escaped(name: &str) -> String {
    if is_reserved(name) {
        return format!("__{name}__");
    }
    let name = name.replace("__", "__underscores__");
    name.replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}
