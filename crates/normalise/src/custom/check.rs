//! Validation of custom resources: schema and list types.
//!
//! Upstream counterpart: `pkg/apiserver/{validation,schema/listtype,schema/cel}` of apiextensions-apiserver,
//! `k8s.io/kube-openapi/pkg/validation/validate`.
//!
//! Known deviations: of the formats only those with a fixed pattern are checked.

use kyvtest_go_compat::{
    regex::Regex,
    value::{List, Value},
};

use super::{
    flag,
    format::has_format,
    rules::{self, RuleCheck},
    texts,
};
use crate::{Cause, Reason, node::Node};

/// Collects the errors of an object.
#[derive(Default)]
struct Checker {
    errors: Vec<Cause>,
    /// Validators that were run. Of several branches that fail, the one with most of them is reported.
    runs: usize,
}

/// A value, and the stored one in its place. A stored value that is the same is not checked again.
#[derive(Clone, Copy)]
struct Versions<'n, 'a> {
    new: &'n Node<'a>,
    old: Option<&'n Node<'a>>,
}

/// Checks an object against its schema. `old` is the stored object of an UPDATE.
pub(crate) fn object(
    schema: Value<'_>,
    node: &Node<'_>,
    old: Option<&Node<'_>>,
    rules: Option<RuleCheck>,
) -> Vec<Cause> {
    let mut checker = Checker::default();
    checker.value(schema, Versions { new: node, old }, "", true);
    let mut errors = checker.errors;
    let repeated = |node: &Node<'_>| {
        let mut checker = Checker::default();
        checker.list_types(schema, node, "");
        checker.errors
    };
    // Stored objects may have repeated elements.
    if old.is_none_or(|old| repeated(old).is_empty()) {
        errors.extend(repeated(node));
    }
    if rules::any(schema) {
        if errors.iter().any(is_blocking) {
            let detail = "\"null\": some validation rules were not checked because the object was invalid; correct the \
                          existing errors to complete validation";
            errors.push(Cause {
                field: "<nil>".to_owned(),
                reason: Reason::Invalid,
                detail: detail.to_owned(),
            });
        } else if let Some(check) = rules {
            errors.extend(rules::run(schema, node, old, check));
        }
    }
    errors
}

/// Errors after which rules could meet values of wrong types or sizes.
fn is_blocking(cause: &Cause) -> bool {
    matches!(
        cause.reason,
        Reason::NotSupported | Reason::Required | Reason::TooLong | Reason::TooMany | Reason::TypeInvalid
    )
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

/// The largest integer that all smaller ones in a double are exact.
const LARGEST_EXACT: f64 = 9_007_199_254_740_991.0;

fn is_multiple(node: &Node<'_>, number: f64, step: f64) -> bool {
    match node {
        Node::Int(number) => number % (step as i64) == 0,
        _ => {
            let times = if step < 1.0 { 1.0 / step * number } else { number / step };
            times.fract() == 0.0 && times.abs() <= LARGEST_EXACT
        }
    }
}

fn is_type(expected: &str, node: &Node<'_>) -> bool {
    match (expected, node) {
        ("number", Node::Int(_) | Node::Uint(_) | Node::Double(_)) => true,
        ("integer", Node::Double(value)) => value.fract() == 0.0 && value.abs() <= LARGEST_EXACT,
        (expected, node) => kind_of(node) == expected,
    }
}

impl Checker {
    fn fail(&mut self, path: &str, reason: Reason, detail: String) {
        let field = if path.is_empty() { "<nil>" } else { path };
        let cause = Cause {
            field: field.to_owned(),
            reason,
            detail,
        };
        self.add(cause);
    }

    /// Adds an error unless it was reported before.
    fn add(&mut self, cause: Cause) {
        if !self.errors.contains(&cause) {
            self.errors.push(cause);
        }
    }

    fn merge(&mut self, other: Self) {
        self.runs += other.runs;
        for cause in other.errors {
            self.add(cause);
        }
    }

    fn value(&mut self, schema: Value<'_>, value: Versions<'_, '_>, path: &str, root: bool) {
        let node = value.new;
        if value.old.is_some_and(|old| old.same(node)) {
            return;
        }
        let expected = schema.get("type").and_then(Value::as_str).unwrap_or("");
        let format = schema.get("format").and_then(Value::as_str).unwrap_or("");
        self.types(schema, [expected, format], node, path);
        self.enumeration(schema, node, path);
        if matches!(node, Node::Null) {
            return;
        }
        self.runs += 3 + usize::from(!expected.is_empty() || !format.is_empty());
        match node {
            Node::Int(_) | Node::Uint(_) | Node::Double(_) => self.number(schema, node, path),
            Node::Text(text) => self.text(schema, text, path),
            Node::List(items) => self.list(schema, items, value.old, path),
            Node::Map(_) => self.map(schema, value, path, root),
            _ => {}
        }
        self.combinations(schema, value, path);
    }

    fn types(&mut self, schema: Value<'_>, [expected, format]: [&str; 2], node: &Node<'_>, path: &str) {
        let allowed = if flag(schema, "x-kubernetes-int-or-string") {
            "integer,string"
        } else {
            expected
        };
        let is_number = matches!(expected, "number" | "integer");
        let fits = match node {
            Node::Null => flag(schema, "nullable"),
            // Upstream leaves texts and lists to the format.
            Node::Text(_) | Node::List(_) if !format.is_empty() && !is_number => true,
            node => allowed.split(',').any(|expected| is_type(expected, node)),
        };
        if !allowed.is_empty() && !fits {
            let found = kind_of(node);
            self.fail(
                path,
                Reason::TypeInvalid,
                format!("\"{found}\": {path} in body must be of type {allowed}: \"{found}\""),
            );
        }
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
        self.runs += 1;
        let own = match node {
            Node::Int(value) => *value as f64,
            Node::Uint(value) => *value as f64,
            Node::Double(value) => *value,
            _ => return,
        };
        self.range(schema, "Checked", own, path);
        let mut bound = |field: &str, name: &str| {
            let bound = number(schema.get(field));
            if let Some(bound) = bound {
                self.range(schema, name, bound, path);
            }
            bound
        };
        let step = bound("multipleOf", "MultipleOf");
        let most = bound("maximum", "Maximum boundary");
        let least = bound("minimum", "Minimum boundary");
        if let Some(least) = least
            && (own < least || (own == least && flag(schema, "exclusiveMinimum")))
        {
            let detail = format!("{own}: {path} in body should be greater than or equal to {least}");
            self.fail(path, Reason::Invalid, detail);
        }
        if let Some(most) = most
            && (own > most || (own == most && flag(schema, "exclusiveMaximum")))
        {
            let detail = format!("{own}: {path} in body should be less than or equal to {most}");
            self.fail(path, Reason::Invalid, detail);
        }
        let Some(step) = step else { return };
        // Upstream divides integers by integers.
        let step = if matches!(node, Node::Double(_)) {
            step
        } else {
            step.trunc()
        };
        if step <= 0.0 {
            let detail = format!("{step}: factor MultipleOf declared for {path} must be positive: {step}");
            self.fail(path, Reason::Invalid, detail);
        } else if !is_multiple(node, own, step) {
            let detail = format!("{own}: {path} in body should be a multiple of {step}");
            self.fail(path, Reason::Invalid, detail);
        }
    }

    /// Checks that a number fits the integer type of the schema. The error has no field.
    fn range(&mut self, schema: Value<'_>, name: &str, number: f64, path: &str) {
        if schema.get("type").and_then(Value::as_str) != Some("integer") {
            return;
        }
        let format = schema.get("format").and_then(Value::as_str).unwrap_or("");
        let (least, most) = match format {
            "int32" => (f64::from(i32::MIN), f64::from(i32::MAX)),
            "uint32" => (0.0, f64::from(u32::MAX)),
            "uint64" => (0.0, u64::MAX as f64),
            _ => (i64::MIN as f64, i64::MAX as f64),
        };
        if number.fract() != 0.0 || number < least || number > most {
            let format = match format {
                "" => "(default format)".to_owned(),
                format => format!("with format {format}"),
            };
            let detail = format!("{name} value must be of type integer {format} in {path}");
            self.fail("", Reason::Invalid, detail);
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
                Reason::TypeInvalid,
                format!("\"{text}\": {path} in body must be of type {format}: \"{text}\""),
            );
        }
    }

    fn list(&mut self, schema: Value<'_>, items: &[Node<'_>], old: Option<&Node<'_>>, path: &str) {
        self.runs += 1;
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
                let old = old.and_then(|old| stored_element(schema, item, old));
                let value = Versions { new: item, old };
                self.value(own, value, &format!("{path}[{index}]"), false);
            }
        }
    }

    fn map(&mut self, schema: Value<'_>, versions: Versions<'_, '_>, path: &str, root: bool) {
        self.runs += 1;
        let node = versions.new;
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
            if let Some(own) = properties.and_then(|properties| properties.get(key)).or(more) {
                let old = versions.old.and_then(|old| old.get(key));
                self.value(own, Versions { new: value, old }, &join(path, key), false);
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

    /// `allOf`, `anyOf`, `oneOf` and `not`. Their own errors have no field; beside them are the errors of all branches, or
    /// of the best one.
    fn combinations(&mut self, schema: Value<'_>, value: Versions<'_, '_>, path: &str) {
        let probe = |own: Value<'_>| {
            let mut probe = Checker::default();
            probe.value(own, value, path, false);
            probe
        };
        let list = |name: &str| -> Vec<Checker> {
            let list = schema.get(name).and_then(Value::as_list);
            list.into_iter().flat_map(List::iter).map(probe).collect()
        };
        let is_valid = |branch: &Checker| branch.errors.is_empty();
        let any = list("anyOf");
        if !any.is_empty() && !any.iter().any(is_valid) {
            self.fail(
                "",
                Reason::Invalid,
                format!("\"{path}\" must validate at least one schema (anyOf)"),
            );
            self.merge_best(any);
        }
        let one = list("oneOf");
        let valid = one.iter().filter(|branch| is_valid(branch)).count();
        if !one.is_empty() && valid != 1 {
            let found = match valid {
                0 => "Found none valid".to_owned(),
                valid => format!("Found {valid} valid alternatives"),
            };
            let detail = format!("\"{path}\" must validate one and only one schema (oneOf). {found}");
            self.fail("", Reason::Invalid, detail);
            if valid == 0 {
                self.merge_best(one);
            }
        }
        let all = list("allOf");
        let valid = all.iter().filter(|branch| is_valid(branch)).count();
        if valid < all.len() {
            let found = if valid == 0 { ". None validated" } else { "" };
            let detail = format!("\"{path}\" must validate all the schemas (allOf){found}");
            self.fail("", Reason::Invalid, detail);
        }
        for branch in all {
            self.merge(branch);
        }
        if schema.get("not").is_some_and(|own| is_valid(&probe(own))) {
            self.fail(
                "",
                Reason::Invalid,
                format!("\"{path}\" must not validate the schema (not)"),
            );
        }
    }

    /// Adds the errors of the first of the branches in which most validators ran.
    fn merge_best(&mut self, branches: Vec<Checker>) {
        let best = branches
            .into_iter()
            .reduce(|best, branch| if branch.runs > best.runs { branch } else { best });
        if let Some(best) = best {
            self.merge(best);
        }
    }

    /// Elements of sets and keys of maps must be unique.
    fn list_types(&mut self, schema: Value<'_>, node: &Node<'_>, path: &str) {
        match node {
            Node::List(items) => {
                let kind = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
                let keyless = |item: &Node<'_>| !matches!(item, Node::Null | Node::Map(_));
                if kind == Some("map")
                    && let Some(index) = items.iter().position(keyless)
                {
                    let detail = "must be an object for an array of list-type map".to_owned();
                    return self.fail(&format!("{path}[{index}]"), Reason::Invalid, detail);
                }
                let keys: Vec<&str> = texts(schema, "x-kubernetes-list-map-keys").collect();
                let same = |a: &Node<'_>, b: &Node<'_>| match kind {
                    Some("set") => a.same(b),
                    Some("map") => keys.iter().all(|key| match (a.get(key), b.get(key)) {
                        (Some(a), Some(b)) => a.same(b),
                        (None, None) => true,
                        _ => false,
                    }),
                    _ => false,
                };
                for (index, item) in items.iter().enumerate() {
                    // Only the second of several is reported.
                    if items[..index].iter().filter(|other| same(item, other)).count() == 1 {
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
                    if let Some(own) = schema.get("properties").and_then(|all| all.get(key)) {
                        self.list_types(own, value, &join(path, key));
                    } else if let Some(own) = more {
                        self.list_types(own, value, &format!("{path}[{key}]"));
                    }
                }
            }
            _ => {}
        }
    }
}

/// The element of a stored list with the keys of a new one. Elements of other lists have no counterpart.
fn stored_element<'n, 'a>(schema: Value<'_>, item: &Node<'_>, old: &'n Node<'a>) -> Option<&'n Node<'a>> {
    if schema.get("x-kubernetes-list-type").and_then(Value::as_str) != Some("map") {
        return None;
    }
    let same = |other: &Node<'_>| {
        texts(schema, "x-kubernetes-list-map-keys").all(|key| match (item.get(key), other.get(key)) {
            (Some(a), Some(b)) => a.same(b),
            (None, None) => true,
            _ => false,
        })
    };
    old.items().iter().find(|other| same(other))
}
