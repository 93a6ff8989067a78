//! `prove --pairs`, and `prove A --to B` with policies of any kind: compares two sets of policies for all requests.

use kyvtest_model::policy::Policy;
use std::{collections::BTreeSet, fmt::Write as _, io::Write as _, path::Path};

use clap::ValueEnum;
use serde_json::{Value as Json, json};

use super::{
    super::{
        Exit, Failure,
        color::{HEADING, LITERAL},
        input,
        output::Output,
    },
    explain as shown_explanation,
    limit::Limit,
};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Sources},
    value::{Document, Value},
};
use kyvtest_model::{kube::Discovery, policy::Loaded};
use kyvtest_prove::{
    Label, Layer, World,
    body::{
        Comparison, Counterexample, Options, Setting, Side, compare_sides,
        explain::{Explanation, explain},
        load,
        mutation::{MutatingSide, compare_loaded},
    },
    server::Data,
    witness::Scenario,
};

/// The deletions that a comparison includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(in crate::cli) enum Deletions {
    Named,
    #[default]
    #[value(name = "named,collection")]
    Collection,
}

impl Deletions {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::Collection => "named,collection",
        }
    }
}

/// The settings of a comparison.
pub(in crate::cli) struct Setup<'s> {
    pub(in crate::cli) discovery: &'s Discovery,
    pub(in crate::cli) setting: Setting,
    pub(in crate::cli) options: Options,
    pub(in crate::cli) world: World,
    /// The time limit for one pair, in seconds.
    pub(in crate::cli) timeout: Option<u64>,
    /// Whether to explain refutations, which takes longer than finding them.
    pub(in crate::cli) explain: bool,
}

/// The world of a comparison.
pub(in crate::cli) fn world(discovery: &Discovery, deletions: Deletions, layer: Layer, data: Data) -> World {
    let kinds = if discovery.is_extended() { "ga+2+crds" } else { "ga+2" };
    World {
        kyverno: "1.19",
        kube: "1.36",
        discovery: kinds.to_owned(),
        layer,
        data: data.name(),
        delete: deletions.as_str(),
    }
}

pub(super) fn world_json(world: &World) -> Json {
    json!({
        "kyverno": world.kyverno, "kube": world.kube, "discovery": world.discovery,
        "layer": world.layer.as_str(), "data": world.data, "delete": world.delete,
    })
}

/// Compares the pairs of a file of JSON lines, and prints one line for each, in order.
pub(super) fn run(file: &Path, setup: &Setup<'_>, output: &mut Output) -> Result<Exit, Failure> {
    let mut sources = Sources::new();
    let id = input::read(file, &mut sources)?;
    let text = sources.text(id).cloned().unwrap_or_default();
    let mut exit = Exit::Success;
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let row: Option<Json> = serde_json::from_str(line).ok();
        let objects = |key: &str| row.as_ref().and_then(|row| row[key].as_array().cloned());
        let (Some(a), Some(b)) = (objects("a"), objects("b")) else {
            let message = format!("line {} of `{}` is not a pair", number + 1, file.display());
            let help = "a line is an object with `id`, and the objects of both sides in the lists `a` and `b`";
            output.diagnostic(&Diagnostic::new(Code::BadValue, message).with_help(help), &sources);
            exit = exit.combine(Exit::Input);
            continue;
        };
        let compared = compare(&a, &b, setup);
        if compared.found.fault {
            exit = exit.combine(Exit::Internal);
        }
        let mut answer = answer(&compared, &setup.world, [None; 2]);
        answer["id"] = row.map_or(Json::Null, |row| row["id"].clone());
        output.artefact().write_all(format!("{answer}\n").as_bytes())?;
    }
    Ok(exit)
}

/// The result for a pair, explained if it is refuted.
pub(in crate::cli) struct Compared {
    pub(in crate::cli) found: Comparison,
    explanation: Option<Explanation>,
}

impl Compared {
    /// Compares two sets of policies with the objects that belong to them. Those that change objects are compared by the objects
    /// after admission.
    pub(in crate::cli) fn of_policies(
        a: (Loaded, Vec<Document>),
        b: (Loaded, Vec<Document>),
        samples: &[Json],
        setup: &Setup<'_>,
    ) -> Self {
        if !MutatingSide::concerns(&a.0) && !MutatingSide::concerns(&b.0) {
            let side = |(loaded, objects)| Side::with_setting(loaded, objects, setup.discovery, &setup.setting);
            return Self::new(side(a), side(b), setup);
        }
        let limit = Limit::new(setup.timeout);
        let options = Options {
            stop: Some(limit.shared()),
            ..setup.options.clone()
        };
        let mut found = compare_loaded([a, b], samples, setup.discovery, &setup.setting, &options);
        if limit.is_over() && matches!(found.label, Label::Unknown | Label::Tested { .. }) && !found.fault {
            found.label = Label::Unknown;
            found.reason = format!("{}: {}", limit.reason(), found.reason);
        }
        Self {
            found,
            explanation: None,
        }
    }

    /// Compares two sides; if one cannot be installed there is nothing to compare.
    pub(in crate::cli) fn new(a: Result<Side, String>, b: Result<Side, String>, setup: &Setup<'_>) -> Self {
        let limit = Limit::new(setup.timeout);
        let options = Options {
            stop: Some(limit.shared()),
            ..setup.options.clone()
        };
        match (a, b) {
            (Ok(a), Ok(b)) => {
                let mut found = compare_sides(&a, &b, setup.discovery, &options);
                if limit.is_over() && matches!(found.label, Label::Unknown | Label::Tested { .. }) && !found.fault {
                    found.label = Label::Unknown;
                    found.reason = format!("time: {}; {}", limit.reason(), found.reason);
                }
                let explanation = setup
                    .explain
                    .then(|| explain(&a, &b, setup.discovery, &options, &found));
                Self {
                    found,
                    explanation: explanation.flatten(),
                }
            }
            (Err(reason), _) | (_, Err(reason)) => Self {
                found: Comparison {
                    label: Label::Unknown,
                    reason,
                    counterexample: None,
                    requests: 0,
                    fault: false,
                },
                explanation: None,
            },
        }
    }

    /// The exit code of the result, given the required strength of labels.
    pub(in crate::cli) fn exit(&self, required: u8) -> Exit {
        match (&self.found.label, self.found.label.strength()) {
            _ if self.found.fault => Exit::Internal,
            (Label::Refuted(_), _) => Exit::Divergence,
            (_, Some(strength)) if strength >= required => Exit::Success,
            _ => Exit::BelowThreshold,
        }
    }

    /// The smallest known counterexample.
    fn counterexample(&self) -> Option<&Counterexample> {
        let smallest = self.explanation.as_ref().map(|explanation| &explanation.counterexample);
        smallest.or(self.found.counterexample.as_deref())
    }
}

/// Compares two sets of objects.
fn compare(a: &[Json], b: &[Json], setup: &Setup<'_>) -> Compared {
    match (load(a), load(b)) {
        (Ok(a), Ok(b)) => Compared::of_policies(a, b, &[], setup),
        (Err(reason), _) | (_, Err(reason)) => Compared::new(Err(reason.clone()), Err(reason), setup),
    }
}

pub(in crate::cli) fn answer(compared: &Compared, world: &World, sources: [Option<&Sources>; 2]) -> Json {
    let found = &compared.found;
    let kind = match &found.label {
        Label::Refuted(kind) => Some(kind.as_str()),
        _ => None,
    };
    let example = compared.counterexample();
    json!({
        "id": null,
        "label": found.label.as_str(),
        "class": example.filter(|_| kind.is_some()).map(|example| example.class().as_str()),
        "kind": kind,
        "reason": (!found.reason.is_empty()).then_some(&found.reason),
        "world": world_json(world),
        "witness": example.map(witness),
        "explanation": compared
            .explanation
            .as_ref()
            .map(|explanation| shown_explanation::json(explanation, sources)),
    })
}

/// A counterexample as `kyvtest eval --cases` reads it.
pub(in crate::cli) fn witness(example: &Counterexample) -> Json {
    let scenario = example.scenario();
    let request = &scenario.request;
    let resource = &request.resource;
    let object = |value: Value<'_>| if value.is_null() { Json::Null } else { value.to_serde() };
    let mut sent = json!({
        "operation": request.operation.as_str(),
        "resource": {"group": resource.group, "version": resource.version, "resource": resource.plural},
        "kind": {
            "group": resource.object_kind.group, "version": resource.object_kind.version,
            "kind": resource.object_kind.kind,
        },
        "name": request.name,
        "namespace": request.namespace,
        "userInfo": {"username": request.user.username, "groups": request.user.groups()},
        "object": object(request.object.root()),
        "oldObject": object(request.old_object.root()),
    });
    if !resource.subresource.is_empty() {
        sent["subResource"] = json!(resource.subresource);
    }
    let mut objects = Vec::new();
    if resource.namespaced && !request.namespace.is_empty() {
        let labels: serde_json::Map<String, Json> = scenario
            .namespace_labels
            .iter()
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect();
        objects.push(json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": request.namespace, "labels": labels},
        }));
    }
    objects.extend(scenario.world.params.iter().map(|document| object(document.root())));
    let [a, b] = example.verdicts();
    let mut shown = json!({
        "data": example.data().name(),
        "request": sent,
        "objects": objects,
        "a": {"effect": a.effect.as_str()},
        "b": {"effect": b.effect.as_str()},
    });
    for (field, list) in scenario.calls.fields() {
        shown[field] = json!(list);
    }
    if example.is_about_objects() {
        for (side, after) in ["a", "b"].into_iter().zip(example.objects()) {
            shown[side]["object"] = after.as_ref().map_or(Json::Null, |after| object(after.root()));
        }
    }
    shown
}

/// The distinct names of the policies of a side.
fn names(loaded: &Loaded) -> BTreeSet<String> {
    loaded.policies.iter().map(|policy| policy.name().to_owned()).collect()
}

/// The policies of a name with their bindings, and all exceptions.
fn named(loaded: &Loaded, name: &str) -> Loaded {
    let mut own = Loaded {
        exceptions: loaded.exceptions.clone(),
        cel_exceptions: loaded.cel_exceptions.clone(),
        policies: loaded.policies.clone(),
        bindings: loaded.bindings.clone(),
        mutating_bindings: loaded.mutating_bindings.clone(),
        ..Loaded::default()
    };
    own.policies.retain(|policy| policy.name() == name);
    own.bindings.retain(|binding| binding.policy_name.value == name);
    own.mutating_bindings
        .retain(|binding| binding.policy_name.value == name);
    own
}

/// Whether two sets of policies need the comparison of arbitrary kinds: the target is not purely native, or the source
/// is native.
pub(super) fn concerns(from: &Loaded, to: &Loaded) -> bool {
    let is_native = |loaded: &Loaded| loaded.policies.iter().any(Policy::is_native);
    let mutates = |policy: &Policy| policy.as_mutating().is_some();
    // Only a MutatingPolicy has a native counterpart: mutate rules are compared as any policies are.
    let has_rules = from.classic().next().is_some() && to.native_mutating().next().is_some();
    to.policies.iter().any(|policy| policy.validates() || mutates(policy))
        || (is_native(from) && is_native(to))
        || has_rules
}

/// The output settings and the requirements.
pub(super) struct Shown<'s> {
    pub(super) sources: &'s Sources,
    pub(super) by_name: bool,
    pub(super) as_json: bool,
    pub(super) required: u8,
    /// Objects of the user, which a search for different objects starts from.
    pub(super) samples: &'s [Json],
}

/// Compares all policies of one set with all policies of another, or those of the same name.
pub(super) fn sets(
    from: &Loaded,
    to: &Loaded,
    setup: &Setup<'_>,
    shown: &Shown<'_>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let world = &setup.world;
    let pairs: Vec<(String, Loaded, Loaded)> = if shown.by_name {
        let others = names(to);
        let both = names(from).into_iter().filter(|name| others.contains(name));
        both.map(|name| (name.clone(), named(from, &name), named(to, &name)))
            .collect()
    } else {
        let all = names(from).into_iter().collect::<Vec<_>>().join(", ");
        vec![(all, from.clone(), to.clone())]
    };
    let mut exit = Exit::Success;
    let mut proofs = Vec::new();
    for (name, a, b) in pairs {
        let compared = Compared::of_policies((a, Vec::new()), (b, Vec::new()), shown.samples, setup);
        exit = exit.combine(compared.exit(shown.required));
        if shown.as_json {
            let mut proof = answer(&compared, world, [Some(shown.sources); 2]);
            proof["id"] = json!(name);
            proofs.push(proof);
        } else {
            output.styled(&human(&name, &compared, world, [Some(shown.sources); 2]))?;
        }
    }
    if shown.as_json {
        let text = format!("{:#}\n", json!({"version": 1, "proofs": proofs}));
        output.artefact().write_all(text.as_bytes())?;
    }
    Ok(exit)
}

pub(in crate::cli) fn human(name: &str, compared: &Compared, world: &World, sources: [Option<&Sources>; 2]) -> String {
    let found = &compared.found;
    let kind = match &found.label {
        Label::Refuted(kind) => format!("  kind={}", kind.as_str()),
        Label::Tested { tested } => format!("  requests={tested}"),
        Label::Bounded { k } => format!("  k={k}"),
        _ => String::new(),
    };
    let label = found.label.as_str();
    let mut text = format!("{HEADING}{label}{HEADING:#}  {LITERAL}{name}{LITERAL:#}{kind}\n  world: {world}\n");
    if !found.reason.is_empty() {
        let _ = writeln!(text, "  why: {}", found.reason);
    }
    let Some(example) = compared.counterexample() else {
        return text;
    };
    if example.data() == Data::Raw {
        text.push_str("  data=raw: an API server rejects or changes the objects of the request\n");
    }
    match &compared.explanation {
        Some(explanation) => {
            text.push_str(&shown_explanation::human(explanation, sources));
            text.push_str(&request(&explanation.sent));
            text.push_str(&shown_explanation::suggested(explanation, sources));
        }
        None => {
            let [a, b] = example.verdicts();
            let difference = if example.is_about_objects() {
                example.text(["A", "B"])
            } else {
                format!("A decides {}, B {}", a.effect, b.effect)
            };
            let _ = writeln!(text, "  {}: {difference}", example.class());
            text.push_str(&request(example.scenario()));
        }
    }
    text
}

/// The request of a witness.
fn request(scenario: &Scenario) -> String {
    let request = &scenario.request;
    let mut text = format!(
        "  request: {} {} by user {}\n",
        request.operation.as_str(),
        request.resource.name(),
        request.user.username
    );
    let params = scenario.world.params.iter().map(|document| ("cluster has", document));
    let own = [("object", &request.object), ("oldObject", &request.old_object)];
    let objects = own.into_iter().chain(params);
    let objects = objects.filter(|(_, document)| !document.root().is_null());
    let mut shown: Vec<(&str, Json)> = objects
        .map(|(name, document)| (name, ordered(document.root().to_serde())))
        .collect();
    shown.extend(scenario.calls.fields().map(|(name, list)| (name, Json::Array(list))));
    for (name, value) in shown {
        let _ = writeln!(text, "    {name}:");
        for line in Document::from(&value).root().to_yaml().lines() {
            let _ = writeln!(text, "      {line}");
        }
    }
    text
}

/// An object with its identifying fields first.
fn ordered(mut object: Json) -> Json {
    let Some(map) = object.as_object_mut() else {
        return object;
    };
    let mut first = serde_json::Map::new();
    for key in ["apiVersion", "kind", "metadata"] {
        if let Some(value) = map.shift_remove(key) {
            first.insert(key.to_owned(), value);
        }
    }
    first.append(map);
    Json::Object(first)
}
