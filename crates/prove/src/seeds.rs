//! Objects to start from where a rule is not written in CEL: patterns filled in, and paths of conditions set to what they are
//! compared with.
//!
//! This is search, as in `objects`: an object may be of no use, and the engines say what becomes of it. No upstream
//! counterpart. Known limits: values that come from a context, and JMESPath beyond plain paths.

use serde_json::{Map, Value as Json, json};

use kyvtest_model::policy::{Anchor, AnchorKind, Rule, Subtree};

/// How many objects there may be.
const LIMIT: usize = 120;

/// How many values are tried for one leaf.
const WAYS: usize = 3;

/// How deep patterns are followed.
const DEPTH: usize = 40;

/// One step into an object.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(String),
    Item,
}

/// Parts of objects that a rule may be about, the most promising first.
pub fn seeds(rule: &Rule) -> Vec<Json> {
    let mut found = Found::default();
    let base = rule.preconditions.as_ref().map_or(Json::Null, |conditions| {
        let mut base = Json::Null;
        for condition in conditions_of(&json(conditions)) {
            if let Some((steps, values)) = choices(&condition, &[]) {
                // What is tried first is what lets the condition hold.
                if let Some(value) = values.first() {
                    put(&mut base, &steps, value);
                }
            }
        }
        base
    });
    let Some(validate) = &rule.validate else {
        return found.over(&base);
    };
    if let Some(pattern) = &validate.pattern {
        found.pattern(&json(pattern), &[]);
    }
    for pattern in validate.any_pattern.iter().flat_map(|list| items(&json(list))) {
        found.pattern(&pattern, &[]);
    }
    if let Some(deny) = &validate.deny {
        found.conditions(&json(deny)["conditions"], &[]);
    }
    for each in validate.foreach.iter().flat_map(|list| items(&json(list))) {
        let mut steps = path(each["list"].as_str().unwrap_or_default(), &[]).unwrap_or_default();
        steps.push(Step::Item);
        found.pattern(&each["pattern"], &steps);
        for pattern in items(&each["anyPattern"]) {
            found.pattern(&pattern, &steps);
        }
        found.conditions(&each["deny"]["conditions"], &steps);
    }
    if validate.pod_security.is_some() {
        found.pods();
    }
    found.over(&base)
}

fn json(part: &Subtree) -> Json {
    part.document().root().to_serde()
}

fn items(list: &Json) -> Vec<Json> {
    list.as_array().cloned().unwrap_or_default()
}

/// Puts one object over another: maps are merged, lists item by item.
pub fn merge(under: &Json, over: &Json) -> Json {
    match (under, over) {
        (Json::Object(under), Json::Object(over)) => {
            let mut merged = under.clone();
            for (key, value) in over {
                let value = under.get(key).map_or_else(|| value.clone(), |own| merge(own, value));
                merged.insert(key.clone(), value);
            }
            Json::Object(merged)
        }
        (Json::Array(under), Json::Array(over)) => {
            let mut merged = under.clone();
            for (place, value) in over.iter().enumerate() {
                match merged.get_mut(place) {
                    Some(own) => *own = merge(own, value),
                    None => merged.push(value.clone()),
                }
            }
            Json::Array(merged)
        }
        (under, Json::Null) => under.clone(),
        (_, over) => over.clone(),
    }
}

#[derive(Debug, Default)]
struct Found(Vec<Json>);

impl Found {
    fn add(&mut self, object: Json) {
        if self.0.len() < LIMIT && !self.0.contains(&object) && !object.is_null() {
            self.0.push(object);
        }
    }

    /// All of them, each over what the preconditions want.
    fn over(self, base: &Json) -> Vec<Json> {
        if base.is_null() {
            return self.0;
        }
        let mut all: Vec<Json> = self.0.iter().map(|object| merge(base, object)).collect();
        all.insert(0, base.clone());
        all.extend(self.0);
        all
    }

    /// Objects that fit a pattern, and objects that miss it in one place each.
    fn pattern(&mut self, pattern: &Json, below: &[Step]) {
        if pattern.is_null() {
            return;
        }
        let wrap = |part: Json| {
            let mut object = Json::Null;
            put(&mut object, below, &part);
            object
        };
        for way in 0..WAYS {
            let mut filler = Filler {
                way,
                broken: None,
                leaves: 0,
            };
            if let Some(object) = filler.fill(pattern, 0) {
                self.add(wrap(object));
            }
        }
        let mut counter = Filler {
            way: 0,
            broken: None,
            leaves: 0,
        };
        counter.fill(pattern, 0);
        for leaf in 0..counter.leaves.min(LIMIT) {
            for way in 0..2 {
                let mut filler = Filler {
                    way,
                    broken: Some(leaf),
                    leaves: 0,
                };
                if let Some(object) = filler.fill(pattern, 0) {
                    self.add(wrap(object));
                }
            }
        }
    }

    /// Objects with the paths of conditions set to what they are compared with, together and one at a time.
    fn conditions(&mut self, conditions: &Json, below: &[Step]) {
        let choices: Vec<_> = conditions_of(conditions)
            .iter()
            .filter_map(|condition| choices(condition, below))
            .collect();
        for way in 0..WAYS {
            let mut object = Json::Null;
            for (steps, values) in &choices {
                if let Some(value) = values.get(way).or(values.last()) {
                    put(&mut object, steps, value);
                }
            }
            self.add(object);
        }
        for (steps, values) in &choices {
            for value in values {
                let mut object = Json::Null;
                put(&mut object, steps, value);
                self.add(object);
            }
        }
    }

    /// A Pod that meets the restricted standard, and ordinary violations.
    fn pods(&mut self) {
        let good = json!({
            "runAsNonRoot": true,
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        });
        let pod = |spec: Json| json!({"spec": spec});
        let container = |context: &Json| json!({"containers": [{"securityContext": context}]});
        self.add(pod(container(&good)));
        for (key, value) in [
            ("privileged", json!(true)),
            ("allowPrivilegeEscalation", json!(true)),
            ("runAsUser", json!(0)),
            ("runAsNonRoot", json!(false)),
            ("procMount", json!("Unmasked")),
            ("seccompProfile", json!({"type": "Unconfined"})),
            ("capabilities", json!({"add": ["NET_RAW", "SYS_ADMIN"]})),
        ] {
            let mut context = good.clone();
            context[key] = value;
            self.add(pod(container(&context)));
        }
        for (key, value) in [
            ("hostNetwork", json!(true)),
            ("hostPID", json!(true)),
            ("hostIPC", json!(true)),
            ("volumes", json!([{"name": "v", "hostPath": {"path": "/"}}])),
            (
                "securityContext",
                json!({"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
            ),
        ] {
            let mut spec = container(&good);
            spec[key] = value;
            self.add(pod(spec));
        }
        self.add(pod(
            json!({"containers": [{"ports": [{"containerPort": 80, "hostPort": 80}]}]}),
        ));
    }
}

/// Fills a pattern in.
struct Filler {
    /// Which of several values.
    way: usize,
    /// The leaf that is to be wrong.
    broken: Option<usize>,
    /// How many leaves there were so far.
    leaves: usize,
}

impl Filler {
    /// Whether the leaf at hand is to be wrong.
    fn is_broken(&mut self) -> bool {
        let own = self.leaves;
        self.leaves += 1;
        self.broken == Some(own)
    }

    /// What fits a pattern; `None` where nothing must be there.
    fn fill(&mut self, pattern: &Json, depth: usize) -> Option<Json> {
        if depth > DEPTH {
            return None;
        }
        match pattern {
            Json::Object(entries) => {
                let mut object = Map::new();
                for (key, value) in entries {
                    let (kind, key) = match Anchor::parse(key) {
                        Some(anchor) => (Some(anchor.kind), anchor.key),
                        None => (None, key.as_str()),
                    };
                    match kind {
                        Some(AnchorKind::AddIfNotPresent) => continue,
                        Some(AnchorKind::Negation) => {
                            if self.is_broken() {
                                object.insert(filled(key), json!("x"));
                            }
                            continue;
                        }
                        _ => {}
                    }
                    if let Some(value) = self.fill(value, depth + 1) {
                        object.insert(filled(key), value);
                    }
                }
                Some(Json::Object(object))
            }
            Json::Array(list) => {
                let items = list.iter().filter_map(|item| self.fill(item, depth + 1));
                Some(Json::Array(items.collect()))
            }
            Json::Null => None,
            leaf => {
                let broken = self.is_broken();
                if !broken {
                    let values = fitting(leaf);
                    return values.get(self.way).or(values.first()).cloned();
                }
                // The second way to be wrong is not to be there.
                if self.way == 0 { missing_it(leaf) } else { None }
            }
        }
    }
}

/// A text with something in the place of its wildcards.
fn filled(text: &str) -> String {
    text.replace("?*", "x").replace(['*', '?'], "x")
}

/// A number if it is one, else the text.
fn scalar(text: &str) -> Json {
    text.parse::<i64>().map_or_else(|_| json!(text), |number| json!(number))
}

/// A number with its unit, moved.
fn moved(text: &str, by: i64) -> Json {
    let end = text
        .char_indices()
        .find(|(place, letter)| !(letter.is_ascii_digit() || *place == 0 && *letter == '-'))
        .map_or(text.len(), |(place, _)| place);
    let (digits, unit) = text.split_at(end);
    match digits.parse::<i64>() {
        Ok(number) => scalar(&format!("{}{unit}", number.saturating_add(by))),
        Err(_) => json!(format!("{text}x")),
    }
}

/// The parts of a leaf: alternatives, each of which may want several things.
fn parts(text: &str) -> Vec<String> {
    let parts = text.split(['|', '&']).map(str::trim);
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Values that may fit a leaf.
fn fitting(leaf: &Json) -> Vec<Json> {
    let Some(text) = leaf.as_str() else {
        return vec![leaf.clone()];
    };
    if text.is_empty() || text.contains("{{") {
        return vec![json!(if text.is_empty() { "" } else { "x" })];
    }
    parts(text).iter().map(|part| one_fitting(part)).collect()
}

fn one_fitting(part: &str) -> Json {
    if let Some(rest) = part.strip_prefix(">=").or(part.strip_prefix("<=")) {
        return scalar(rest.trim());
    }
    if let Some(rest) = part.strip_prefix('>') {
        return moved(rest.trim(), 1);
    }
    if let Some(rest) = part.strip_prefix('<') {
        return moved(rest.trim(), -1);
    }
    if let Some(rest) = part.strip_prefix('!') {
        return if rest.contains(['*', '?']) {
            json!("x")
        } else if rest == "true" || rest == "false" {
            json!(rest == "false")
        } else {
            moved(rest.trim(), 1)
        };
    }
    match range(part) {
        Some((low, _, false)) => scalar(&low),
        Some((low, _, true)) => moved(&low, -1),
        None if part == "true" || part == "false" => json!(part == "true"),
        None => scalar(&filled(part)),
    }
}

/// `1-5`, and with `true`, `1!-5`: all but those.
fn range(part: &str) -> Option<(String, String, bool)> {
    let begins = |text: &str| text.starts_with(|letter: char| letter.is_ascii_digit());
    let (low, high) = part.split_once('-')?;
    let (low, outside) = low.strip_suffix('!').map_or((low, false), |low| (low, true));
    (begins(low) && begins(high)).then(|| (low.to_owned(), high.to_owned(), outside))
}

/// A value that does not fit a leaf; `None` where only its absence does not.
fn missing_it(leaf: &Json) -> Option<Json> {
    match leaf {
        Json::Bool(value) => return Some(json!(!value)),
        Json::Number(_) => return Some(leaf.as_i64().map_or(json!(0), |number| json!(number.saturating_add(1)))),
        _ => {}
    }
    let text = leaf.as_str()?;
    let parts = parts(text);
    let first = parts.first()?.as_str();
    if let Some(rest) = first.strip_prefix(">=") {
        return Some(moved(rest.trim(), -1));
    }
    if let Some(rest) = first.strip_prefix("<=") {
        return Some(moved(rest.trim(), 1));
    }
    if let Some(rest) = first.strip_prefix(['>', '<']) {
        return Some(scalar(rest.trim()));
    }
    if let Some(rest) = first.strip_prefix('!') {
        return Some(match rest {
            "true" | "false" => json!(rest == "true"),
            rest => scalar(&filled(rest)),
        });
    }
    match range(first) {
        Some((_, high, false)) => Some(moved(&high, 1)),
        Some((low, _, true)) => Some(scalar(&low)),
        None if matches!(first, "*" | "?*") => None,
        None if first == "true" || first == "false" => Some(json!(first == "false")),
        None => Some(json!("other")),
    }
}

/// Conditions in `any` and `all` blocks, or in a list of the old form.
fn conditions_of(value: &Json) -> Vec<Json> {
    match value {
        Json::Array(list) => list
            .iter()
            .flat_map(|one| {
                if one.get("key").is_some() {
                    vec![one.clone()]
                } else {
                    conditions_of(one)
                }
            })
            .collect(),
        Json::Object(blocks) => ["all", "any"]
            .iter()
            .filter_map(|name| blocks.get(*name))
            .flat_map(items)
            .collect(),
        _ => Vec::new(),
    }
}

/// The path that a condition looks at, and values to put there: first those that let it hold.
fn choices(condition: &Json, below: &[Step]) -> Option<(Vec<Step>, Vec<Json>)> {
    let key = condition["key"].as_str()?;
    let expression = key.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    let steps = path(expression, below).filter(|steps| !steps.is_empty())?;
    let operator = condition["operator"].as_str().unwrap_or_default().to_lowercase();
    let compared = match &condition["value"] {
        Json::Array(list) => list.clone(),
        value => vec![value.clone()],
    };
    let mut near = Vec::new();
    let mut far = Vec::new();
    for value in compared {
        match &value {
            Json::String(text) if text.contains("{{") => {}
            Json::String(text) => {
                near.push(scalar(&filled(text)));
                far.push(moved(text, 1));
                far.push(moved(text, -1));
            }
            Json::Number(_) => {
                let number = value.as_i64().unwrap_or_default();
                near.push(value.clone());
                far.push(json!(number.saturating_add(1)));
                far.push(json!(number.saturating_sub(1)));
            }
            Json::Bool(own) => {
                near.push(value.clone());
                far.push(json!(!own));
            }
            _ => {}
        }
    }
    far.push(json!("x"));
    let negative = operator.contains("not") || matches!(operator.as_str(), "greaterthan" | "lessthan");
    let mut all = if negative { far.clone() } else { near.clone() };
    all.extend(if negative { near } else { far });
    Some((steps, all))
}

/// A plain path of JMESPath into the object of the request, or below an element of a loop.
fn path(expression: &str, element: &[Step]) -> Option<Vec<Step>> {
    let plain = expression.split("||").next().unwrap_or_default();
    let plain = plain.split(" | ").next().unwrap_or_default().trim();
    let plain = plain.trim_start_matches('(').trim_end_matches(')').trim();
    let (mut steps, rest) = if let Some(rest) = plain.strip_prefix("request.object") {
        (Vec::new(), rest)
    } else {
        (element.to_vec(), plain.strip_prefix("element")?)
    };
    let mut letters = rest.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '.' => {}
            '[' => {
                let inner: String = letters.by_ref().take_while(|letter| *letter != ']').collect();
                if inner.starts_with('?') {
                    return None;
                }
                steps.push(Step::Item);
            }
            '"' => {
                let name: String = letters.by_ref().take_while(|letter| *letter != '"').collect();
                steps.push(Step::Field(name));
            }
            letter if letter.is_alphanumeric() || letter == '_' => {
                let mut name = String::from(letter);
                while let Some(next) = letters.next_if(|next| next.is_alphanumeric() || *next == '_') {
                    name.push(next);
                }
                steps.push(Step::Field(name));
            }
            _ => return None,
        }
    }
    Some(steps)
}

/// Sets a place of an object.
fn put(object: &mut Json, steps: &[Step], value: &Json) {
    match steps.split_first() {
        None => *object = merge(object, value),
        Some((Step::Field(name), rest)) => {
            if !object.is_object() {
                *object = json!({});
            }
            if let Some(map) = object.as_object_mut() {
                put(map.entry(name.clone()).or_insert(Json::Null), rest, value);
            }
        }
        Some((Step::Item, rest)) => {
            if !object.is_array() {
                *object = json!([Json::Null]);
            }
            if let Some(first) = object.as_array_mut().and_then(|list| list.first_mut()) {
                put(first, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_met_and_missed() {
        for (leaf, good, bad) in [
            (json!("?*"), json!("x"), None),
            (json!("!*:latest"), json!("x"), Some(json!("x:latest"))),
            (json!(">=2"), json!(2), Some(json!(1))),
            (json!("<10"), json!(9), Some(json!(10))),
            (json!("1-5"), json!(1), Some(json!(6))),
            (json!("1!-5"), json!(0), Some(json!(1))),
            (json!("<=100Mi"), json!("100Mi"), Some(json!("101Mi"))),
            (json!("a | b"), json!("a"), Some(json!("other"))),
            (json!("!Always"), json!("Alwaysx"), Some(json!("Always"))),
            (json!(false), json!(false), Some(json!(true))),
            (json!("false"), json!(false), Some(json!(true))),
        ] {
            assert_eq!(fitting(&leaf).first(), Some(&good), "{leaf}");
            assert_eq!(missing_it(&leaf), bad, "{leaf}");
        }
    }

    #[test]
    fn paths_are_read_and_set() {
        let steps = path(" request.object.metadata.annotations.\"a/b\" || '' ", &[]).expect("a path");
        let mut object = Json::Null;
        put(&mut object, &steps, &json!("v"));
        assert_eq!(object, json!({"metadata": {"annotations": {"a/b": "v"}}}));
        let list = path("request.object.spec.containers[].image", &[]).expect("a path");
        let mut object = json!({"spec": {"containers": [{"name": "c"}]}});
        put(&mut object, &list, &json!("i"));
        assert_eq!(object, json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}));
        assert_eq!(path("request.object.spec.containers[?name=='x']", &[]), None);
        assert_eq!(path("request.userInfo.username", &[]), None);
    }
}
