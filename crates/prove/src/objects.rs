//! What bodies read of objects, and the least objects of each kind.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

use super::{language::Base, sides::LoweredRule};
use kyvtest_cel::{
    ast::{Ast, Expr, ExprId, Literal},
    profile::Profile,
    syntax::parse,
};
use kyvtest_model::kube::Resource;
use kyvtest_model::policy::Policy;

/// One step into an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Field(String),
    Item,
}

/// A place in an object.
pub(super) type Steps = Vec<Step>;

/// How deep expressions are followed.
const DEPTH: usize = 100;

/// The least object of a kind that a cluster would take, without metadata.
pub(super) fn least(resource: &Resource) -> Json {
    let pod = json!({"containers": [{"name": "c", "image": "nginx"}]});
    let labels = json!({"app": "sample"});
    let template = json!({"metadata": {"labels": labels}, "spec": pod});
    if !resource.subresource.is_empty()
        && resource.subresource != "ephemeralcontainers"
        && resource.subresource != "status"
    {
        return json!({});
    }
    let once = json!({"spec": {"containers": pod["containers"], "restartPolicy": "Never"}});
    match resource.kind.as_str() {
        "Pod" => json!({"spec": pod}),
        "Deployment" | "DaemonSet" | "ReplicaSet" => {
            json!({"spec": {"selector": {"matchLabels": labels}, "template": template}})
        }
        "StatefulSet" => {
            json!({"spec": {"selector": {"matchLabels": labels}, "serviceName": "sample", "template": template}})
        }
        "ReplicationController" => json!({"spec": {"selector": labels, "template": template}}),
        "Job" => json!({"spec": {"template": once}}),
        "CronJob" => json!({"spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": once}}}}),
        "Service" => json!({"spec": {"ports": [{"port": 80}]}}),
        _ => json!({}),
    }
}

/// What is read by expressions that are not CEL.
#[derive(Debug, Default)]
pub(super) struct Hints {
    /// The places.
    pub(super) found: BTreeSet<Steps>,
    /// What they may be compared with.
    pub(super) constants: BTreeSet<Constant>,
}

impl Hints {
    /// Of the preconditions of a policy's rules: what they read of the object, and what they compare it with.
    pub(super) fn new(original: &Policy) -> Self {
        let mut hints = Self::default();
        if let Policy::Classic(policy) = original {
            let preconditions = policy.spec.rules.iter().filter_map(|rule| rule.preconditions.as_ref());
            for part in preconditions {
                hints.collect(&part.document().root().to_serde(), 0);
            }
        }
        hints
    }

    fn collect(&mut self, value: &Json, depth: usize) {
        if depth > DEPTH {
            return;
        }
        match value {
            Json::Object(map) => {
                for (key, value) in map {
                    if let (true, Some(text)) = (key == "value", value.as_str()) {
                        self.constants.insert(Constant::Text(text.to_owned()));
                    }
                    self.collect(value, depth + 1);
                }
            }
            Json::Array(list) => {
                for value in list {
                    self.collect(value, depth + 1);
                }
            }
            Json::String(text) => {
                for part in text.split("request.object.").skip(1) {
                    let end = part.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '_' | '-'));
                    let path = part.get(..end.unwrap_or(part.len())).unwrap_or_default();
                    let steps = path.split('.').filter(|name| !name.is_empty());
                    self.found
                        .insert(steps.map(|name| Step::Field(name.to_owned())).collect());
                }
            }
            _ => {}
        }
    }
}

/// Labels to try where a body reads some: each text of it as a key, with any value and with the other texts.
pub(super) fn labels(body: Option<&LoweredRule>) -> Vec<Vec<(String, String)>> {
    let Some(body) = body else { return Vec::new() };
    let reading = Reading::of(body, &["object", "oldObject"]);
    let texts = reading.constants.iter().filter_map(|constant| match constant {
        Constant::Text(text) if !text.is_empty() && Base::LabelKey.contains(text) => Some(text),
        _ => None,
    });
    let texts: Vec<&String> = texts.take(6).collect();
    if texts.is_empty() {
        return Vec::new();
    }
    let mut all = vec![
        texts
            .iter()
            .map(|text| ((*text).clone(), "x".to_owned()))
            .collect::<Vec<_>>(),
    ];
    for key in &texts {
        let values = texts
            .iter()
            .filter(|value| *value != key && Base::LabelValue.contains(value));
        all.extend(values.map(|value| vec![((*key).clone(), (*value).clone())]));
    }
    all
}

/// The first texts that a body compares with.
pub(super) fn texts(body: &LoweredRule) -> Vec<String> {
    let reading = Reading::of(body, &["object", "oldObject"]);
    let texts = reading.constants.into_iter().filter_map(|constant| match constant {
        Constant::Text(text) if !text.is_empty() => Some(text),
        _ => None,
    });
    texts.take(6).collect()
}

/// Parameters without metadata, the least one first.
pub(super) fn parameters(bodies: &[LoweredRule]) -> Vec<Json> {
    let mut all = vec![json!({})];
    for body in bodies.iter().filter(|body| body.params.is_some()) {
        let reading = Reading::of(body, &["params"]);
        let mut values = vec![json!("x"), json!(1)];
        values.extend(reading.constants.iter().map(|constant| match constant {
            Constant::Text(text) => json!(text),
            Constant::Int(number) => json!(number),
        }));
        for value in values {
            let mut object = json!({});
            for steps in &reading.found {
                set(&mut object, steps, &value);
            }
            if all.len() < 8 && !all.contains(&object) {
                all.push(object);
            }
        }
    }
    all
}

/// Sets what steps lead to.
pub(super) fn set(object: &mut Json, steps: &[Step], value: &Json) {
    match steps.split_first() {
        None => {
            // A list or map that was filled by a longer path stays.
            if !object.is_array() && !object.is_object() || object.as_object().is_some_and(serde_json::Map::is_empty) {
                *object = value.clone();
            }
        }
        Some((Step::Field(name), rest)) => {
            if !object.is_object() {
                *object = json!({});
            }
            if let Some(map) = object.as_object_mut() {
                let inner = map.entry(name.clone()).or_insert(Json::Null);
                set(inner, rest, value);
            }
        }
        Some((Step::Item, rest)) => {
            if !object.is_array() {
                *object = json!([Json::Null]);
            }
            if let Some(first) = object.as_array_mut().and_then(|list| list.first_mut()) {
                set(first, rest, value);
            }
        }
    }
}

/// What a place may be compared with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Constant {
    Text(String),
    Int(i64),
}

/// What expressions read.
#[derive(Default)]
pub(super) struct Reading {
    roots: &'static [&'static str],
    /// The places.
    pub(super) found: BTreeSet<Steps>,
    /// What they may be compared with.
    pub(super) constants: BTreeSet<Constant>,
    variables: BTreeMap<String, Vec<Steps>>,
}

impl Reading {
    /// What a body reads of the variables with these names.
    pub(super) fn of(body: &LoweredRule, roots: &'static [&'static str]) -> Self {
        let mut reading = Self {
            roots,
            ..Self::default()
        };
        for (name, text) in &body.variables {
            if let Ok(ast) = parse(text, &Profile::kubernetes().syntax) {
                let steps = reading.paths(&ast, ast.root(), &BTreeMap::new(), 0);
                reading.variables.insert(name.clone(), steps);
                reading.literals(&ast);
            }
        }
        let annotations = body.annotations.iter().map(|(_, text)| text);
        for text in body.conditions.iter().chain(&body.validations).chain(annotations) {
            if let Ok(ast) = parse(text, &Profile::kubernetes().syntax) {
                reading.paths(&ast, ast.root(), &BTreeMap::new(), 0);
                reading.literals(&ast);
            }
        }
        reading
    }

    fn literals(&mut self, ast: &Ast) {
        for id in (0..ast.len() as u32).map(ExprId) {
            match ast.expr(id) {
                Expr::Literal(Literal::String(text)) => {
                    self.constants.insert(Constant::Text(text.to_string()));
                }
                Expr::Literal(Literal::Int(number)) => {
                    self.constants.insert(Constant::Int(*number));
                }
                _ => {}
            }
        }
    }

    /// The places that an expression may stand for; all places on the way are noted.
    fn paths(&mut self, ast: &Ast, id: ExprId, bound: &BTreeMap<String, Vec<Steps>>, depth: usize) -> Vec<Steps> {
        if depth > DEPTH {
            return Vec::new();
        }
        match ast.expr(id) {
            Expr::Ident(name) => match &**name {
                name if self.roots.contains(&name) => vec![Steps::new()],
                name => bound.get(name).cloned().unwrap_or_default(),
            },
            Expr::Select { operand, field, .. } => {
                if matches!(ast.expr(*operand), Expr::Ident(name) if &**name == "variables") {
                    return self.variables.get(&**field).cloned().unwrap_or_default();
                }
                let of = self.paths(ast, *operand, bound, depth + 1);
                self.extend(of, &Step::Field(field.to_string()))
            }
            Expr::Call { function, target, args } => {
                if let ("_[_]" | "_?._" | "_[?_]", [operand, key]) = (&**function, args.as_slice()) {
                    let of = self.paths(ast, *operand, bound, depth + 1);
                    let step = match ast.expr(*key) {
                        Expr::Literal(Literal::String(text)) => Step::Field(text.to_string()),
                        _ => Step::Item,
                    };
                    return self.extend(of, &step);
                }
                let mut all = Vec::new();
                for part in target.iter().chain(args) {
                    all.extend(self.paths(ast, *part, bound, depth + 1));
                }
                if matches!(&**function, "_+_" | "orValue" | "or" | "_?_:_" | "dyn") {
                    all
                } else {
                    Vec::new()
                }
            }
            Expr::List { elements, .. } => {
                for element in elements {
                    self.paths(ast, *element, bound, depth + 1);
                }
                Vec::new()
            }
            Expr::Comprehension(parts) => {
                let range = self.paths(ast, parts.iter_range, bound, depth + 1);
                let items = self.extend(range.clone(), &Step::Item);
                let mut bound = bound.clone();
                bound.insert(parts.iter_var.to_string(), items);
                self.paths(ast, parts.loop_step, &bound, depth + 1);
                // `filter` and `map` give items of the same list.
                range
            }
            Expr::Literal(_) | Expr::Map(_) | Expr::Struct { .. } => Vec::new(),
        }
    }

    fn extend(&mut self, mut of: Vec<Steps>, step: &Step) -> Vec<Steps> {
        for steps in &mut of {
            steps.push(step.clone());
            if steps.len() < 12 {
                self.found.insert(steps.clone());
            }
        }
        of
    }
}
