//! A proven policy has no counterexample: requests built without the prover, from the constants of the policies.
//!
//! Small worlds: every constant unchanged, with a letter more, with one less, changed, and something else; every label
//! absent, with each value, with another one. Their product on every request class, or all pairs of choices if that is
//! too large. In addition, random requests; the seed is printed.

use std::{collections::BTreeSet, sync::Arc};

use kyvtest::{
    kube::{Discovery, NAME_LABEL, Namespace, Operation, Request, RequestClass, UserInfo, World},
    kyverno::config::Config,
    prove::{
        Target,
        calls::Calls,
        replay::Engines,
        universe::{cells, with_unknown},
        witness::Scenario,
    },
    value::Document,
    verdict::DivergenceClass,
};
use serde_json::{Map, Value, json};

use super::{Case, at_least, documents, proven, target};
use crate::support::{Gate, print_count};

const SEED: u64 = 20_261_116;

/// The maximum size of a product on one request class before pairs are used.
const PRODUCT: usize = 300;

/// A small generator of numbers.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides.max(1)
    }
}

type Pairs = Vec<(String, String)>;

/// The constants for requests.
#[derive(Default)]
struct Constants {
    names: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    users: BTreeSet<String>,
    groups: BTreeSet<String>,
    roles: BTreeSet<String>,
    labels: BTreeSet<(String, String)>,
    annotations: BTreeSet<(String, String)>,
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(list) => list.iter().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// The string literals in an expression.
fn quoted(expression: &str) -> Vec<String> {
    let mut found = Vec::new();
    for quote in ['\'', '"'] {
        let parts: Vec<&str> = expression.split(quote).collect();
        found.extend(parts.iter().skip(1).step_by(2).map(|part| (*part).to_owned()));
    }
    found
}

impl Constants {
    fn collect(&mut self, value: &Value) {
        let Value::Object(map) = value else {
            for part in value.as_array().into_iter().flatten() {
                self.collect(part);
            }
            return;
        };
        for (key, part) in map {
            match key.as_str() {
                "names" | "name" | "resourceNames" => self.names.extend(texts(part)),
                "namespaces" => self.namespaces.extend(texts(part)),
                "roles" | "clusterRoles" => self.roles.extend(texts(part)),
                "matchLabels" => self.labels.extend(entries(part)),
                "annotations" => self.annotations.extend(entries(part)),
                "subjects" => {
                    for subject in part.as_array().into_iter().flatten() {
                        let text = |key: &str| subject[key].as_str().unwrap_or_default();
                        let name = match text("kind") {
                            "ServiceAccount" => format!("system:serviceaccount:{}:{}", text("namespace"), text("name")),
                            _ => text("name").to_owned(),
                        };
                        self.users.insert(name.clone());
                        self.groups.insert(name);
                    }
                }
                "matchExpressions" => {
                    for part in part.as_array().into_iter().flatten() {
                        let key = part["key"].as_str().unwrap_or_default();
                        if key == NAME_LABEL {
                            self.namespaces.extend(texts(&part["values"]));
                        } else {
                            self.labels.insert((key.to_owned(), "v".to_owned()));
                            self.labels
                                .extend(texts(&part["values"]).into_iter().map(|value| (key.to_owned(), value)));
                        }
                    }
                }
                "expression" => {
                    let found = quoted(part.as_str().unwrap_or_default());
                    self.labels.extend(
                        found
                            .iter()
                            .flat_map(|key| found.iter().map(|value| (key.clone(), value.clone())))
                            .take(12),
                    );
                    for set in [&mut self.names, &mut self.namespaces, &mut self.users, &mut self.groups] {
                        set.extend(found.iter().cloned());
                    }
                }
                _ => {}
            }
            self.collect(part);
        }
    }
}

fn entries(value: &Value) -> Vec<(String, String)> {
    let map = value.as_object().into_iter().flatten();
    map.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}

/// Texts like these, as far as they are allowed.
fn variants(constants: &BTreeSet<String>, allowed: impl Fn(&str) -> bool, usual: &str, most: usize) -> Vec<String> {
    let mut all = vec![usual.to_owned(), "zz".to_owned()];
    for text in constants {
        for run in ["", "x"] {
            let text = text.replace('*', run).replace('?', "y");
            let less = text.chars().take(text.chars().count().saturating_sub(1)).collect();
            let changed = format!("{less}q");
            for variant in [text.clone(), format!("{text}x"), less, changed] {
                if allowed(&variant) && !all.contains(&variant) {
                    all.push(variant);
                }
            }
        }
    }
    // Of many constants each is there with something.
    let step = all.len().div_ceil(most).max(1);
    all.into_iter().step_by(step).collect()
}

fn is_label(text: &str) -> bool {
    let end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    text.len() <= 63
        && end(text.chars().next())
        && end(text.chars().last())
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn is_value(text: &str) -> bool {
    let end = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.len() <= 63 && end(text.chars().next()) && end(text.chars().last()) && text.chars().all(inner)
}

fn is_key(text: &str) -> bool {
    let name = text.rsplit('/').next().unwrap_or_default();
    !name.is_empty() && is_value(name) && text != NAME_LABEL
}

/// Maps like these pairs.
fn maps(pairs: &BTreeSet<(String, String)>, labels: bool) -> Vec<Pairs> {
    let plain = |text: &str| text.replace('*', "x").replace('?', "y");
    let mut all: Vec<Pairs> = vec![Vec::new()];
    for (key, value) in pairs {
        let key = plain(key);
        for value in [plain(value), format!("{}x", plain(value)), String::new()] {
            let fits = is_key(&key) && (!labels || is_value(&value));
            let map = vec![(key.clone(), value)];
            if fits && !all.contains(&map) {
                all.push(map);
            }
        }
    }
    let mut firsts: Pairs = Vec::new();
    for map in all.iter().flatten() {
        if firsts.iter().all(|(key, _)| *key != map.0) {
            firsts.push(map.clone());
        }
    }
    if firsts.len() > 1 {
        all.push(firsts);
    }
    let step = all.len().div_ceil(9).max(1);
    all.into_iter().step_by(step).collect()
}

/// The choices of a case.
struct Choices {
    names: Vec<String>,
    namespaces: Vec<String>,
    users: Vec<String>,
    groups: Vec<Vec<String>>,
    roles: Vec<Vec<String>>,
    labels: Vec<Pairs>,
    annotations: Vec<Pairs>,
    bodies: [Value; 2],
}

impl Choices {
    fn new(case: &Case, natives: &[Value]) -> Self {
        let mut constants = Constants::default();
        for value in documents(&case.policy)
            .iter()
            .chain(&documents(&case.exceptions))
            .chain(natives)
        {
            constants.collect(value);
        }
        let segment = |text: &str| !text.is_empty() && is_label(text);
        let listed = |set: &BTreeSet<String>| -> Vec<Vec<String>> {
            let mut all = vec![Vec::new()];
            all.extend(set.iter().map(|text| vec![text.replace('*', "x").replace('?', "y")]));
            all.truncate(5);
            all
        };
        let mut groups = listed(&constants.groups);
        for list in &mut groups {
            list.push("system:authenticated".to_owned());
        }
        Self {
            names: variants(&constants.names, segment, "sample", 10),
            namespaces: variants(&constants.namespaces, is_label, "apps", 10),
            users: variants(&constants.users, |text| !text.is_empty(), "alice", 6),
            groups,
            roles: listed(&constants.roles),
            labels: maps(&constants.labels, true),
            annotations: maps(&constants.annotations, false),
            bodies: [
                json!({}),
                json!({"spec": {"replicas": 100, "containers": [{"name": "c", "image": "i"}],
                    "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
            ],
        }
    }

    fn sizes(&self) -> [usize; 11] {
        let (labels, annotations) = (self.labels.len(), self.annotations.len());
        [
            self.names.len(),
            self.namespaces.len(),
            self.users.len(),
            self.groups.len(),
            self.roles.len(),
            labels,
            labels,
            labels,
            annotations,
            annotations,
            self.bodies.len(),
        ]
    }

    /// The request of a cell with these choices.
    fn scenario(&self, cell: &RequestClass<'_>, at: [usize; 11]) -> Scenario {
        let resource = cell.resource;
        let is_namespace = resource.group.is_empty() && resource.object_kind.kind == "Namespace";
        let same = resource.subresource == "ephemeralcontainers";
        let (has_new, has_old) = (
            cell.operation != Operation::Delete,
            matches!(cell.operation, Operation::Update | Operation::Delete),
        );
        let name = self.names[at[0]].as_str();
        let namespace = if is_namespace {
            name
        } else if cell.namespaced {
            self.namespaces[at[1]].as_str()
        } else {
            ""
        };
        let (new, old) = (at[5], if same { at[5] } else { at[6] });
        let annotations = (at[8], if same { at[8] } else { at[9] });
        let object = |labels: usize, annotations: usize| {
            let mut object =
                json!({"apiVersion": resource.object_kind.api_version(), "kind": resource.object_kind.kind});
            if cell.operation == Operation::Connect {
                return Document::from(&object);
            }
            let mut labels = map(&self.labels[labels]);
            if is_namespace {
                labels.insert(NAME_LABEL.to_owned(), json!(name));
            }
            object["metadata"] =
                json!({"name": name, "labels": labels, "annotations": map(&self.annotations[annotations])});
            if cell.namespaced {
                object["metadata"]["namespace"] = json!(namespace);
            }
            if let Some(spec) = self.bodies[at[10]].get("spec") {
                object["spec"] = spec.clone();
            }
            Document::from(&object)
        };
        let mut world = World::new();
        let stored = if is_namespace {
            &self.labels[old]
        } else {
            &self.labels[at[7]]
        };
        if cell.namespaced || is_namespace && has_old {
            let labels = stored.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            world.add_namespace(Namespace::with_labels(
                namespace,
                labels.chain([(NAME_LABEL, namespace)]),
            ));
        }
        let request = Request {
            operation: cell.operation,
            resource: Arc::new(resource.clone()),
            name: if cell.collection {
                String::new()
            } else {
                name.to_owned()
            },
            namespace: namespace.to_owned(),
            object: if has_new {
                object(new, annotations.0)
            } else {
                Document::null()
            },
            old_object: if has_old {
                object(old, annotations.1)
            } else {
                Document::null()
            },
            user: UserInfo {
                username: self.users[at[2]].clone(),
                groups: Some(self.groups[at[3]].clone()),
                ..UserInfo::default()
            },
            roles: Some(self.roles[at[4]].clone()),
            cluster_roles: Some(self.roles[at[4]].clone()),
            dry_run: false,
            options: Document::null(),
            collection: cell.collection,
        };
        Scenario {
            request,
            world,
            namespace_labels: Vec::new(),
            calls: Calls::default(),
        }
    }
}

fn map(pairs: &Pairs) -> Map<String, Value> {
    pairs.iter().map(|(key, value)| (key.clone(), json!(value))).collect()
}

/// Choices that a cell of this kind looks at.
fn used(cell: &RequestClass<'_>) -> [bool; 11] {
    let new = matches!(cell.operation, Operation::Create | Operation::Update);
    let old = matches!(cell.operation, Operation::Update | Operation::Delete);
    [
        true,
        cell.namespaced,
        true,
        true,
        true,
        new,
        old,
        cell.namespaced,
        new,
        old,
        new || old,
    ]
}

/// The whole product, or every pair of choices with the rest at random.
fn product(sizes: &[usize; 11], used: [bool; 11], dice: &mut Dice) -> Vec<[usize; 11]> {
    let axes: Vec<usize> = (0..11).filter(|axis| used[*axis] && sizes[*axis] > 1).collect();
    let total = axes
        .iter()
        .fold(1_usize, |total, axis| total.saturating_mul(sizes[*axis]));
    let mut all = Vec::new();
    if total <= PRODUCT {
        for mut number in 0..total {
            let mut at = [0; 11];
            for axis in &axes {
                at[*axis] = number % sizes[*axis];
                number /= sizes[*axis];
            }
            all.push(at);
        }
        return all;
    }
    for (i, first) in axes.iter().enumerate() {
        for second in &axes[i + 1..] {
            for (a, b) in (0..sizes[*first]).flat_map(|a| (0..sizes[*second]).map(move |b| (a, b))) {
                let mut at = [0; 11];
                for axis in &axes {
                    // Half of the rest is usual, or nothing would match.
                    at[*axis] = if dice.roll(2) == 0 { 0 } else { dice.roll(sizes[*axis]) };
                }
                (at[*first], at[*second]) = (a, b);
                all.push(at);
            }
        }
    }
    let step = all.len().div_ceil(2 * PRODUCT).max(1);
    all.into_iter().step_by(step).collect()
}

/// The requests of a case on which the engines differ, of at least this many random ones and all of small worlds;
/// returns how many there were.
pub(super) fn counterexample(case: &Case, natives: &[Value], random: usize, small: bool) -> Result<usize, String> {
    let models = case.models()?;
    let universe = with_unknown(&Discovery::kubernetes());
    let texts: Vec<String> = natives.iter().map(Value::to_string).collect();
    let target: Target = target(&texts.join("\n---\n"));
    let original = &models.original;
    let engines = Engines::new(
        original,
        models.exceptions(),
        &target,
        &Config::chart(),
        case.layer,
        &universe,
    )?;
    let choices = Choices::new(case, natives);
    let sizes = choices.sizes();
    let mut dice = Dice::new(SEED);
    let whole = format!("{}{}", case.policy, texts.join(""));
    let mut all = cells(&universe);
    if case.spares_exempt {
        all.retain(|cell| cell.resource.reaches_native_policies());
    }
    // Kinds that are named are worth more requests than the others.
    let (named, others): (Vec<&RequestClass<'_>>, Vec<&RequestClass<'_>>) = all
        .iter()
        .partition(|cell| whole.contains(&cell.resource.kind) || whole.contains(&cell.resource.plural));
    let mut count = 0;
    let mut try_one = |cell: &RequestClass<'_>, at: [usize; 11]| -> Result<(), String> {
        count += 1;
        let found = engines.replay(choices.scenario(cell, at));
        // An error on one side with the same effect does not contradict the claim.
        let found = found.filter(|found| found.class() != DivergenceClass::Error);
        found.map_or(Ok(()), |found| {
            Err(format!(
                "{} {}: {:?} {:?}",
                found.class(),
                kyvtest::prove::universe::name(cell),
                found.scenario().request,
                found.scenario().world
            ))
        })
    };
    for number in 0..random {
        let from = if number % 4 == 3 || named.is_empty() {
            &others
        } else {
            &named
        };
        let cell = from[dice.roll(from.len())];
        let mut at = [0; 11];
        for (axis, at) in at.iter_mut().enumerate() {
            *at = dice.roll(sizes[axis]);
        }
        try_one(cell, at)?;
    }
    if small {
        for cell in &named {
            for at in product(&sizes, used(cell), &mut dice) {
                try_one(cell, at)?;
            }
        }
        for cell in &others {
            for at in product(&sizes, used(cell), &mut dice).into_iter().step_by(16) {
                try_one(cell, at)?;
            }
        }
    }
    Ok(count)
}

#[test]
fn proven_policies_have_no_counterexample() {
    let cases = proven();
    let gate = Gate {
        name: "prove-worlds",
        rows: at_least(57),
    };
    let total = std::sync::atomic::AtomicUsize::new(0);
    gate.run(
        &cases,
        |case| case.id.clone(),
        |case| {
            let natives = case.natives()?;
            let count = counterexample(case, &natives, 400, true)?;
            total.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        },
    );
    print_count(&format!(
        "  seed {SEED}, {} requests on {} proofs",
        total.into_inner(),
        cases.len()
    ));
}

/// The test itself can fail: a refuted policy usually has a counterexample in a small world.
#[test]
fn refuted_policies_have_counterexamples() {
    let ids = [
        "H01", "H02", "H03", "H05", "H08", "H10", "H11", "H12", "H13", "H14", "H19", "H30",
    ];
    let found = ids.iter().filter(|id| {
        let case = super::hazard(id, "rule");
        let natives = case.natives().expect("a native policy");
        counterexample(&case, &natives, 400, true).is_err()
    });
    let found = found.count();
    print_count(&format!("  {found} of {} are found in small worlds", ids.len()));
    assert!(found >= 9, "{found}");
}
