//! Validation of custom resources: schema and list types.
//!
//! Upstream counterpart: `pkg/apiserver/{validation,schema/listtype,schema/cel}` of apiextensions-apiserver,
//! `k8s.io/kube-openapi/pkg/validation/validate`.
//!
//! Known deviations: of the formats only those with a fixed pattern are checked; `oneOf`, `anyOf`, `allOf` and `not` are
//! checked as wholes, without the causes inside their branches.

use kyvtest_go_compat::{
    regex::Regex,
    text::{ip, time::Timestamp},
    value::Value,
};

use super::{
    flag,
    rules::{self, RuleCheck},
    texts,
};
use crate::{Cause, Reason, node::Node};

/// Collects the errors of an object.
struct Checker {
    errors: Vec<Cause>,
}

/// Checks an object against its schema. `old` is the stored object of an UPDATE.
pub(crate) fn object(
    schema: Value<'_>,
    node: &Node<'_>,
    old: Option<&Node<'_>>,
    rules: Option<RuleCheck>,
) -> Vec<Cause> {
    let mut checker = Checker { errors: Vec::new() };
    checker.value(schema, node, "", true);
    if checker.errors.is_empty() {
        checker.list_types(schema, node, "");
        if let Some(check) = rules {
            checker.errors.extend(rules::run(schema, node, old, check));
        }
    }
    checker.errors
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn number(value: Option<Value<'_>>) -> Option<f64> {
    match value? {
        Value::Int(value) => Some(value as f64),
        Value::Uint(value) => Some(value as f64),
        Value::Double(value) => Some(value),
        _ => None,
    }
}

fn kind_of(node: &Node<'_>) -> &'static str {
    match node {
        Node::Null => "null",
        Node::Bool(_) => "boolean",
        Node::Int(_) | Node::Uint(_) => "integer",
        Node::Double(_) => "number",
        Node::Text(_) => "string",
        Node::List(_) => "array",
        Node::Map(_) => "object",
    }
}

fn is_type(expected: &str, node: &Node<'_>) -> bool {
    match (expected, node) {
        ("number", Node::Int(_) | Node::Uint(_) | Node::Double(_)) => true,
        ("integer", Node::Double(value)) => value.fract() == 0.0,
        (expected, node) => kind_of(node) == expected,
    }
}

impl Checker {
    fn fail(&mut self, path: &str, reason: Reason, detail: String) {
        let field = if path.is_empty() { "<nil>" } else { path };
        self.errors.push(Cause {
            field: field.to_owned(),
            reason,
            detail,
        });
    }

    fn value(&mut self, schema: Value<'_>, node: &Node<'_>, path: &str, root: bool) {
        if matches!(node, Node::Null) && flag(schema, "nullable") {
            return;
        }
        let expected = schema.get("type").and_then(Value::as_str).unwrap_or("");
        if flag(schema, "x-kubernetes-int-or-string") {
            if !matches!(node, Node::Int(_) | Node::Text(_)) {
                let found = kind_of(node);
                self.fail(
                    path,
                    Reason::TypeInvalid,
                    format!("\"{found}\": {path} in body must be of type integer,string: \"{found}\""),
                );
                return;
            }
        } else if !expected.is_empty() && !is_type(expected, node) {
            let found = kind_of(node);
            self.fail(
                path,
                Reason::TypeInvalid,
                format!("\"{found}\": {path} in body must be of type {expected}: \"{found}\""),
            );
            return;
        }
        self.enumeration(schema, node, path);
        match node {
            Node::Int(_) | Node::Uint(_) | Node::Double(_) => self.number(schema, node, path),
            Node::Text(text) => self.text(schema, text, path),
            Node::List(items) => self.list(schema, items, path),
            Node::Map(_) => self.map(schema, node, path, root),
            _ => {}
        }
        self.combinations(schema, node, path);
    }

    fn enumeration(&mut self, schema: Value<'_>, node: &Node<'_>, path: &str) {
        let Some(values) = schema.get("enum").and_then(Value::as_list) else {
            return;
        };
        if !values.iter().any(|value| Node::of(value).same(node)) {
            let values: Vec<String> = values.iter().map(Value::to_json).collect();
            self.fail(
                path,
                Reason::NotSupported,
                format!("supported values: {}", values.join(", ")),
            );
        }
    }

    fn number(&mut self, schema: Value<'_>, node: &Node<'_>, path: &str) {
        let own = match node {
            Node::Int(value) => *value as f64,
            Node::Uint(value) => *value as f64,
            Node::Double(value) => *value,
            _ => return,
        };
        if let Some(least) = number(schema.get("minimum"))
            && (own < least || (own == least && flag(schema, "exclusiveMinimum")))
        {
            self.fail(
                path,
                Reason::Invalid,
                format!("{own}: {path} in body should be greater than or equal to {least}"),
            );
        }
        if let Some(most) = number(schema.get("maximum"))
            && (own > most || (own == most && flag(schema, "exclusiveMaximum")))
        {
            self.fail(
                path,
                Reason::Invalid,
                format!("{own}: {path} in body should be less than or equal to {most}"),
            );
        }
        if let Some(step) = number(schema.get("multipleOf")).filter(|step| *step != 0.0)
            && (own / step).fract() != 0.0
        {
            self.fail(
                path,
                Reason::Invalid,
                format!("{own}: {path} in body should be a multiple of {step}"),
            );
        }
        let format = schema.get("format").and_then(Value::as_str);
        if format == Some("int32") && own.abs() > f64::from(i32::MAX) {
            self.fail(
                path,
                Reason::Invalid,
                format!("{own}: {path} in body must be of type int32"),
            );
        }
    }

    fn text(&mut self, schema: Value<'_>, text: &str, path: &str) {
        let length = text.chars().count() as f64;
        if let Some(least) = number(schema.get("minLength")).filter(|least| length < *least) {
            self.fail(
                path,
                Reason::Invalid,
                format!("\"{text}\": {path} in body should be at least {least} chars long"),
            );
        }
        if let Some(most) = number(schema.get("maxLength")).filter(|most| length > *most) {
            self.fail(path, Reason::TooLong, format!("may not be more than {most} bytes"));
        }
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
            && Regex::new(pattern).is_ok_and(|regex| !regex.is_match(text))
        {
            self.fail(
                path,
                Reason::Invalid,
                format!("\"{text}\": {path} in body should match '{pattern}'"),
            );
        }
        let format = schema.get("format").and_then(Value::as_str).unwrap_or("");
        if !has_format(format, text) {
            self.fail(
                path,
                Reason::Invalid,
                format!("\"{text}\": {path} in body must be of type {format}: \"{text}\""),
            );
        }
    }

    fn list(&mut self, schema: Value<'_>, items: &[Node<'_>], path: &str) {
        let length = items.len() as f64;
        if let Some(least) = number(schema.get("minItems")).filter(|least| length < *least) {
            self.fail(
                path,
                Reason::Invalid,
                format!("{length}: {path} in body should have at least {least} items"),
            );
        }
        if let Some(most) = number(schema.get("maxItems")).filter(|most| length > *most) {
            self.fail(
                path,
                Reason::TooMany,
                format!("{length}: must have at most {most} items"),
            );
        }
        if let Some(own) = schema.get("items").filter(|own| own.as_map().is_some()) {
            for (index, item) in items.iter().enumerate() {
                self.value(own, item, &format!("{path}[{index}]"), false);
            }
        }
    }

    fn map(&mut self, schema: Value<'_>, node: &Node<'_>, path: &str, root: bool) {
        let entries = node.entries();
        let length = entries.len() as f64;
        if let Some(least) = number(schema.get("minProperties")).filter(|least| length < *least) {
            self.fail(
                path,
                Reason::Invalid,
                format!("{length}: {path} in body should have at least {least} properties"),
            );
        }
        if let Some(most) = number(schema.get("maxProperties")).filter(|most| length > *most) {
            self.fail(
                path,
                Reason::TooMany,
                format!("{length}: must have at most {most} items"),
            );
        }
        for name in texts(schema, "required") {
            if !entries.iter().any(|(key, _)| key == name) {
                self.fail(&join(path, name), Reason::Required, String::new());
            }
        }
        let properties = schema.get("properties");
        let more = schema
            .get("additionalProperties")
            .filter(|more| more.as_map().is_some());
        for (key, value) in entries {
            let standard = matches!(key.as_ref(), "apiVersion" | "kind" | "metadata");
            if root && standard && key != "metadata" {
                continue;
            }
            match (properties.and_then(|properties| properties.get(key)), more) {
                (Some(own), _) => self.value(own, value, &join(path, key), false),
                (None, Some(own)) => self.value(own, value, &join(path, key), false),
                (None, None) => {}
            }
        }
        if flag(schema, "x-kubernetes-embedded-resource") {
            for name in ["apiVersion", "kind"] {
                if node.str(name).is_empty() {
                    self.fail(&join(path, name), Reason::Required, "must not be empty".to_owned());
                }
            }
        }
    }

    /// `allOf`, `anyOf`, `oneOf` and `not`, each as a whole.
    fn combinations(&mut self, schema: Value<'_>, node: &Node<'_>, path: &str) {
        let fits = |own: Value<'_>| {
            let mut probe = Checker { errors: Vec::new() };
            probe.value(own, node, path, false);
            probe.errors.is_empty()
        };
        let list = |name: &str| schema.get(name).and_then(Value::as_list);
        if let Some(all) = list("allOf") {
            for own in all.iter() {
                self.value(own, node, path, false);
            }
        }
        if let Some(any) = list("anyOf").filter(|any| !any.is_empty())
            && !any.iter().any(fits)
        {
            self.fail(
                path,
                Reason::Invalid,
                format!("\"{path}\" must validate at least one schema (anyOf)"),
            );
        }
        if let Some(one) = list("oneOf").filter(|one| !one.is_empty())
            && one.iter().filter(|own| fits(*own)).count() != 1
        {
            self.fail(
                path,
                Reason::Invalid,
                format!("\"{path}\" must validate one and only one schema (oneOf)"),
            );
        }
        if schema.get("not").is_some_and(fits) {
            self.fail(
                path,
                Reason::Invalid,
                format!("\"{path}\" must not validate the schema (not)"),
            );
        }
    }

    /// Elements of sets and keys of maps must be unique.
    fn list_types(&mut self, schema: Value<'_>, node: &Node<'_>, path: &str) {
        match node {
            Node::List(items) => {
                let keys: Vec<&str> = texts(schema, "x-kubernetes-list-map-keys").collect();
                let same =
                    |a: &Node<'_>, b: &Node<'_>| match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
                        Some("set") => a.same(b),
                        Some("map") => keys.iter().all(|key| match (a.get(key), b.get(key)) {
                            (Some(a), Some(b)) => a.same(b),
                            (None, None) => true,
                            _ => false,
                        }),
                        _ => false,
                    };
                for (index, item) in items.iter().enumerate() {
                    if items[..index].iter().any(|other| same(item, other)) {
                        self.fail(&format!("{path}[{index}]"), Reason::Duplicate, String::new());
                    }
                }
                if let Some(own) = schema.get("items") {
                    for (index, item) in items.iter().enumerate() {
                        self.list_types(own, item, &format!("{path}[{index}]"));
                    }
                }
            }
            Node::Map(entries) => {
                let more = schema.get("additionalProperties");
                for (key, value) in entries {
                    if let Some(own) = schema.get("properties").and_then(|all| all.get(key)).or(more) {
                        self.list_types(own, value, &join(path, key));
                    }
                }
            }
            _ => {}
        }
    }
}

/// Whether a text has a format; unknown formats are not checked.
fn has_format(format: &str, text: &str) -> bool {
    match format {
        "date-time" => Timestamp::parse(text).is_some(),
        "date" => Timestamp::parse(&format!("{text}T00:00:00Z")).is_some(),
        "ipv4" => ip::parse_addr(text.as_bytes()).is_ok_and(ip::Addr::is_v4),
        "ipv6" => ip::parse_addr(text.as_bytes()).is_ok_and(|addr| !addr.is_v4()),
        "cidr" => ip::parse_prefix(text.as_bytes()).is_ok(),
        "byte" => kyvtest_go_compat::text::base64::decode(text.as_bytes(), true).is_ok(),
        "duration" => kyvtest_go_compat::text::duration::parse(text).is_ok(),
        "uuid" => {
            let parts: Vec<&str> = text.split('-').collect();
            let hex: String = parts.concat();
            hex.len() == 32 && hex.bytes().all(|b| b.is_ascii_hexdigit())
        }
        _ => true,
    }
}
