//! Formulas against engines, one by one: random checks are modelled as formulas, the formulas are evaluated on random objects,
//! and the engines must decide likewise.
//!
//! The checks and objects come from the grammar in `fixtures/prove/differential.json`, always the same ones. Objects are those
//! that a server makes of the generated ones, so that the facts about fields on which formulas rest are tested as well.

use std::{collections::BTreeMap, path::Path};

use kyvtest_model::{
    kube::{Discovery, Operation},
    verdict::Effect,
};
use serde_json::{Value as Json, json};

use super::{
    Match, Options, Request, Side,
    build::make,
    formula::{Arena, Atom, Formula, Node, Place, Step},
    shape::Kind,
};
use crate::{admitted::decoded, server::Data, universe};
use kyvtest_go_compat::text::quantity::Quantity;
use kyvtest_model::kube::UserInfo;

/// A grammar: what each name may become.
struct Grammar {
    rules: BTreeMap<String, Vec<String>>,
    seed: u64,
}

/// From which depth on only the first of the alternatives without names is taken.
const DEPTH: u32 = 5;

impl Grammar {
    fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/prove/differential.json");
        let text = std::fs::read_to_string(path).expect("the grammar");
        Self {
            rules: serde_json::from_str(&text).expect("a grammar"),
            seed: 0x2545_f491_4f6c_dd1d,
        }
    }

    fn next(&mut self, below: usize) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        usize::try_from((self.seed >> 11) % (below.max(1) as u64)).expect("a small number")
    }

    fn make(&mut self, name: &str, depth: u32) -> String {
        let own = self.rules[name].clone();
        let flat: Vec<&String> = own.iter().filter(|text| !text.contains(&format!("<{name}>"))).collect();
        let chosen = if depth >= DEPTH && !flat.is_empty() {
            flat[self.next(flat.len())].clone()
        } else {
            own[self.next(own.len())].clone()
        };
        let mut made = String::new();
        let mut rest = chosen.as_str();
        while let Some(start) = rest.find('<') {
            made.push_str(&rest[..start]);
            let behind = &rest[start + 1..];
            match behind.find('>').filter(|end| self.rules.contains_key(&behind[..*end])) {
                Some(end) => {
                    made.push_str(&self.make(&behind[..end], depth + 1));
                    rest = &behind[end + 1..];
                }
                None => {
                    made.push('<');
                    rest = behind;
                }
            }
        }
        made + rest
    }
}

/// What is at a place.
#[derive(Clone, Copy)]
enum At<'j> {
    Value(&'j Json),
    Entry(&'j str, &'j Json),
    Text(&'j str),
}

/// The value of a place is not part of the object.
struct Unknown;

/// A formula's value on an object; `None` if it depends on something unknown.
struct Evaluation<'j> {
    arena: &'j Arena,
    object: &'j Json,
    bound: Vec<(Place, At<'j>)>,
}

impl<'j> Evaluation<'j> {
    /// What is at a place; `None` if it is absent.
    fn at(&self, place: Place) -> Result<Option<At<'j>>, Unknown> {
        if let Some((_, value)) = self.bound.iter().rev().find(|(own, _)| *own == place) {
            return Ok(Some(*value));
        }
        let parent = self.arena.parent(place);
        match (self.arena.step(place), parent) {
            (Step::Root(name), None) if &**name == "object" => Ok(Some(At::Value(self.object))),
            (Step::Field(key), Some(parent)) => Ok(match self.at(parent)? {
                Some(At::Value(value)) => value.get(&**key).map(At::Value),
                _ => None,
            }),
            (Step::Item(number), Some(parent)) => Ok(match self.at(parent)? {
                Some(At::Value(value)) => value.get(*number as usize).map(At::Value),
                _ => None,
            }),
            (Step::Key, Some(parent)) => Ok(match self.at(parent)? {
                Some(At::Entry(key, _)) => Some(At::Text(key)),
                _ => None,
            }),
            (Step::Value, Some(parent)) => Ok(match self.at(parent)? {
                Some(At::Entry(_, value)) => Some(At::Value(value)),
                _ => None,
            }),
            _ => Err(Unknown),
        }
    }

    fn text(&self, place: Place) -> Option<&'j str> {
        match self.at(place).ok()?? {
            At::Text(text) => Some(text),
            At::Value(value) => value.as_str(),
            At::Entry(..) => None,
        }
    }

    fn integer(&self, place: Place) -> Option<i64> {
        match self.at(place).ok()?? {
            At::Value(value) => value.as_i64(),
            _ => None,
        }
    }

    fn quantity(&self, place: Place) -> Option<Quantity> {
        Quantity::parse(self.text(place)?).ok()
    }

    fn atom(&mut self, atom: &Atom) -> Option<bool> {
        match atom {
            Atom::Present(place) => Some(self.at(*place).ok()?.is_some()),
            Atom::Kind(place, kind) => Some(kind_of(self.at(*place).ok()??) == *kind),
            Atom::Text(place, predicate) => Some(predicate.holds(self.text(*place)?)),
            Atom::True(place) => match self.at(*place).ok()?? {
                At::Value(value) => value.as_bool(),
                _ => None,
            },
            Atom::AtMost(place, number) => Some(self.integer(*place)? <= *number),
            Atom::Difference(a, b, most) => {
                let difference = i128::from(self.integer(*a)?) - i128::from(self.integer(*b)?);
                Some(difference <= i128::from(*most))
            }
            Atom::Quantity(place, amount, strict) => {
                let order = self.quantity(*place)?.cmp(&amount.0);
                Some(order.is_lt() || order.is_eq() && !strict)
            }
            Atom::QuantityOrder(a, b, strict) => {
                let order = self.quantity(*a)?.cmp(&self.quantity(*b)?);
                Some(order.is_lt() || order.is_eq() && !strict)
            }
            Atom::Same(a, b) => match (self.at(*a).ok()??, self.at(*b).ok()??) {
                (At::Value(a), At::Value(b)) => Some(a == b),
                (At::Text(a), At::Value(b)) | (At::Value(b), At::Text(a)) => Some(b.as_str() == Some(a)),
                (At::Text(a), At::Text(b)) => Some(a == b),
                _ => None,
            },
            Atom::AtLeast(list, bound, body, count) => self.at_least(*list, *bound, *body, *count),
            Atom::Double(..) | Atom::Free(_) => None,
        }
    }

    fn at_least(&mut self, list: Place, bound: Place, body: Formula, count: u32) -> Option<bool> {
        let elements: Vec<At<'j>> = match self.at(list).ok()?? {
            At::Value(Json::Array(items)) => items.iter().map(At::Value).collect(),
            At::Value(Json::Object(map)) => map.iter().map(|(key, value)| At::Entry(key, value)).collect(),
            _ => return None,
        };
        let (mut yes, mut maybe) = (0, 0);
        for element in elements {
            self.bound.push((bound, element));
            match self.holds(body) {
                Some(true) => yes += 1,
                Some(false) => {}
                None => maybe += 1,
            }
            self.bound.pop();
        }
        if yes >= count {
            Some(true)
        } else {
            (yes + maybe < count).then_some(false)
        }
    }

    fn holds(&mut self, formula: Formula) -> Option<bool> {
        match self.arena.look(formula).clone() {
            Node::True => Some(true),
            Node::False => Some(false),
            Node::Literal(atom, sign) => Some(self.atom(&self.arena.atom(atom).clone())? == sign),
            Node::And(parts) => self.all(&parts, false),
            Node::Or(parts) => self.all(&parts, true),
        }
    }

    /// One part that is `decisive` decides; then an unknown one.
    fn all(&mut self, parts: &[Formula], decisive: bool) -> Option<bool> {
        let mut open = false;
        for part in parts {
            match self.holds(*part) {
                Some(value) if value == decisive => return Some(decisive),
                Some(_) => {}
                None => open = true,
            }
        }
        (!open).then_some(!decisive)
    }
}

fn kind_of(at: At<'_>) -> Kind {
    match at {
        At::Text(_) => Kind::Text,
        At::Entry(..) => Kind::Map,
        At::Value(value) => match value {
            Json::Null => Kind::Null,
            Json::Bool(_) => Kind::Bool,
            Json::Number(number) if number.is_i64() => Kind::Int,
            Json::Number(_) => Kind::Double,
            Json::String(_) => Kind::Text,
            Json::Array(_) => Kind::List,
            Json::Object(_) => Kind::Map,
        },
    }
}

/// A policy with one check: an expression, or what the name says of a classic rule.
fn policy(check: &str, start: &str) -> Json {
    if start != "expression" {
        let check: Json = serde_json::from_str(check).expect("a check");
        let mut rule = match start {
            "pattern" => json!({"validate": {"pattern": check}}),
            "security" => json!({"validate": {"podSecurity": check}}),
            _ => check,
        };
        rule["name"] = json!("r");
        rule["match"] = json!({"any": [{"resources": {"kinds": ["Pod"], "operations": ["CREATE"]}}]});
        rule["validate"]["failureAction"] = json!("Enforce");
        rule["validate"]["message"] = json!("m");
        return json!({
            "apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy",
            "metadata": {"name": "p", "annotations": {"pod-policies.kyverno.io/autogen-controllers": "none"}},
            "spec": {"background": false, "rules": [rule]},
        });
    }
    json!({
        "apiVersion": "policies.kyverno.io/v1", "kind": "ValidatingPolicy", "metadata": {"name": "p"},
        "spec": {
            "validationActions": ["Deny"], "autogen": {"podControllers": {"controllers": []}},
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
            ]},
            "validations": [{"expression": check, "message": "m"}],
        },
    })
}

#[derive(Default)]
struct Counts {
    checks: usize,
    agree: usize,
    open: usize,
    wrong: Vec<String>,
}

/// Compares the formula of a check with what the engine decides about objects.
fn compare(check: &str, start: &str, grammar: &mut Grammar, discovery: &Discovery, counts: &mut Counts) {
    let Ok(side) = Side::from_objects(&[policy(check, start)], discovery) else {
        return;
    };
    let documents = if start == "security" { "secured" } else { "document" };
    let options = Options::default();
    let both = Match::new([&side, &side], discovery, discovery, &options);
    let cells = universe::cells(discovery);
    let cell = cells.into_iter().find(|cell| {
        cell.resource.plural == "pods" && cell.resource.subresource.is_empty() && cell.operation == Operation::Create
    });
    let cell = cell.expect("Pods");
    let mut arena = Arena::new();
    let request = Request::new(&mut arena, cell, cell.resource, Data::Normalised);
    let Ok(effects) = side.model(&mut arena, &request, discovery) else {
        return;
    };
    let formula = effects.at_least(&mut arena, Effect::Deny);
    counts.checks += 1;
    for _ in 0..12 {
        let document = grammar.make(documents, 0);
        let mut object: Json = serde_json::from_str(&document).expect("a document");
        object["metadata"]["namespace"] = json!("apps");
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let user = UserInfo {
            username: "alice".to_owned(),
            groups: Some(vec!["system:authenticated".to_owned()]),
            ..UserInfo::default()
        };
        let scenario = make(&request, (Some(object), None), (&name, Some("apps")), user, Vec::new());
        let Ok(seen) = decoded(&scenario, &both.server) else {
            continue;
        };
        let denied = side.decide(&seen, discovery, &both.mocks).effect == Effect::Deny;
        let object = seen.request.object.root().to_serde();
        let mut evaluation = Evaluation {
            arena: &arena,
            object: &object,
            bound: Vec::new(),
        };
        for assumption in &request.assumptions {
            if evaluation.holds(*assumption) == Some(false) {
                counts.wrong.push(format!("an assumption does not hold of {object}"));
            }
        }
        match evaluation.holds(formula) {
            Some(value) if value == denied => counts.agree += 1,
            Some(value) => counts
                .wrong
                .push(format!("{check}\n  on {object}\n  formula {value}, engine {denied}")),
            None => counts.open += 1,
        }
    }
}

fn run(start: &str, checks: usize) -> Counts {
    let mut grammar = Grammar::read();
    let discovery = universe::with_unknown(&Discovery::kubernetes());
    let mut counts = Counts::default();
    for _ in 0..checks {
        let check = grammar.make(start, 0);
        compare(&check, start, &mut grammar, &discovery, &mut counts);
    }
    counts
}

/// Checks so many random checks that start as `start`: no formula is wrong, objects enough count, and of `least` checks or more
/// the formulas decide all objects but one in `open` (none may stay open if it is 0).
fn agrees(start: &str, checks: usize, least: usize, open: usize) {
    let counts = run(start, checks);
    assert!(counts.wrong.is_empty(), "{}", counts.wrong.join("\n"));
    assert!(counts.agree >= 5 * counts.checks, "only {} objects count", counts.agree);
    assert!(counts.checks >= least, "only {} checks are modelled", counts.checks);
    let allowed = counts.agree.checked_div(open).unwrap_or(0);
    assert!(counts.open <= allowed, "{} open, {} agree", counts.open, counts.agree);
}

#[test]
fn formulas_of_expressions_say_what_the_evaluator_does() {
    agrees("expression", 1_500, 1_000, 20);
}

#[test]
fn formulas_of_patterns_say_what_the_evaluator_does() {
    agrees("pattern", 500, 300, 20);
}

/// Conditions with JMESPath, loops and alternative patterns.
#[test]
fn formulas_of_classic_rules_say_what_the_evaluator_does() {
    agrees("rule", 800, 400, 10);
}

/// Pod Security Standards of both levels, with exclusions.
#[test]
fn formulas_of_pod_security_say_what_the_evaluator_does() {
    agrees("security", 400, 200, 0);
}
