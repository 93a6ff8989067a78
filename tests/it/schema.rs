//! Validates a document against a JSON Schema. Every keyword is either supported or an error.

use serde_json::Value;

/// All problems, each with its path.
pub(crate) fn problems(schema: &Value, value: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    against(schema, schema, value, "", &mut problems);
    problems
}

/// Keywords without effect on validation.
const SILENT: [&str; 11] = [
    "$schema",
    "$id",
    "id",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    // A format need not be checked.
    "format",
];

fn against(schema: &Value, root: &Value, value: &Value, at: &str, problems: &mut Vec<String>) {
    let Some(keywords) = schema.as_object() else {
        assert!(schema.is_boolean(), "{at}: {schema} is not a schema");
        if *schema == Value::Bool(false) {
            problems.push(format!("{at}: nothing is allowed"));
        }
        return;
    };
    for (keyword, rule) in keywords {
        let problem = match keyword.as_str() {
            "$ref" => {
                let pointer = rule.as_str().and_then(|name| name.strip_prefix('#'));
                let target = pointer.and_then(|pointer| root.pointer(pointer));
                against(
                    target.expect("the reference leads somewhere"),
                    root,
                    value,
                    at,
                    problems,
                );
                None
            }
            "type" => no_type(rule, value),
            "enum" => (!list(rule).contains(value)).then(|| format!("{value} is none of {rule}")),
            "const" => (rule != value).then(|| format!("{value} is not {rule}")),
            "minimum" => beyond(value, rule, |value, bound| value < bound),
            "maximum" => beyond(value, rule, |value, bound| value > bound),
            "pattern" => {
                let pattern = kyvtest::regex::Regex::new(rule.as_str().expect("a pattern")).expect("a pattern");
                let text = value.as_str().filter(|text| !pattern.is_match(text));
                text.map(|text| format!("{text} does not match {rule}"))
            }
            "required" => {
                let mut keys = list(rule).iter().filter_map(Value::as_str);
                let missing = keys.find(|key| value.is_object() && value.get(key).is_none());
                missing.map(|key| format!("no {key}"))
            }
            "minLength" => {
                let short = value
                    .as_str()
                    .is_some_and(|text| (text.chars().count() as f64) < number(rule));
                short.then(|| "too short".to_owned())
            }
            "propertyNames" => {
                for key in value.as_object().into_iter().flat_map(|map| map.keys()) {
                    against(rule, root, &Value::from(key.as_str()), &format!("{at}/{key}"), problems);
                }
                None
            }
            "minItems" => {
                let few = value
                    .as_array()
                    .is_some_and(|items| (items.len() as f64) < number(rule));
                few.then(|| "too few items".to_owned())
            }
            "uniqueItems" => {
                let twice = list(value)
                    .iter()
                    .enumerate()
                    .any(|(i, item)| list(value).iter().take(i).any(|other| other == item));
                (twice && *rule == Value::Bool(true)).then(|| "an item is there twice".to_owned())
            }
            "anyOf" | "oneOf" => {
                let fits = |choice: &&Value| {
                    let mut problems = Vec::new();
                    against(choice, root, value, at, &mut problems);
                    problems.is_empty()
                };
                let fitting = list(rule).iter().filter(fits).count();
                let wrong = fitting == 0 || keyword == "oneOf" && fitting > 1;
                wrong.then(|| format!("{fitting} of the choices fit"))
            }
            "items" => {
                for (i, item) in list(value).iter().enumerate() {
                    against(rule, root, item, &format!("{at}/{i}"), problems);
                }
                None
            }
            "properties" | "additionalProperties" => {
                for (key, item) in value.as_object().into_iter().flatten() {
                    let own = schema["properties"].get(key);
                    let part = if keyword == "properties" {
                        own
                    } else {
                        Some(rule).filter(|_| own.is_none())
                    };
                    if let Some(part) = part {
                        against(part, root, item, &format!("{at}/{key}"), problems);
                    }
                }
                None
            }
            silent if SILENT.contains(&silent) => None,
            unknown => panic!("{at}: the keyword {unknown} is not known"),
        };
        problems.extend(problem.map(|problem| format!("{at}: {problem}")));
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn beyond(value: &Value, bound: &Value, is_beyond: fn(f64, f64) -> bool) -> Option<String> {
    let number = value.as_f64().filter(|value| is_beyond(*value, number(bound)));
    number.map(|number| format!("{number} is beyond {bound}"))
}

fn no_type(rule: &Value, value: &Value) -> Option<String> {
    let is = |word: &Value| match word.as_str() {
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        Some("null") => value.is_null(),
        _ => panic!("{word}: unknown type"),
    };
    let fits = match rule {
        Value::Array(words) => words.iter().any(is),
        word => is(word),
    };
    (!fits).then(|| format!("{value} does not match {rule}"))
}

/// Errors that must be noticed.
#[test]
fn schemas_refuse() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/report/refused-by-schemas.json");
    let rows: Value = serde_json::from_str(&std::fs::read_to_string(path).expect("a file")).expect("JSON");
    for row in list(&rows) {
        for (value, wanted) in [(&row["good"], 0), (&row["bad"], 1)] {
            let found = problems(&row["schema"], value);
            assert_eq!(found.len(), wanted, "{} with {value}: {found:?}", row["schema"]);
        }
    }
    assert!(list(&rows).len() > 12);
}
