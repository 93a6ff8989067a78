//! `prove --pairs`, and `prove A --to B` with policies of any kind: two sets of policies compared for all requests.

use kyvtest_model::policy::Policy;
use std::{collections::BTreeSet, fmt::Write as _, io::Write as _, path::Path};

use clap::ValueEnum;
use serde_json::{Value as Json, json};

use super::super::{
    Exit, Failure,
    color::{HEADING, LITERAL},
    input,
    output::Output,
};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Sources},
    value::Value,
};
use kyvtest_model::{kube::Discovery, policy::Loaded};
use kyvtest_prove::{
    Label, Layer, World,
    body::{Comparison, Counterexample, Options, Side, compare_sides},
    server::Data,
};

/// Which deletions the world has.
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

/// The world of a comparison.
pub(super) fn world(discovery: &Discovery, deletions: Deletions) -> World {
    let kinds = if discovery.is_extended() { "ga+2+crds" } else { "ga+2" };
    World {
        kyverno: "1.19",
        kube: "1.36",
        discovery: kinds.to_owned(),
        layer: Layer::Policy,
        data: "normalised",
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
pub(super) fn run(
    file: &Path,
    discovery: &Discovery,
    deletions: Deletions,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let mut sources = Sources::new();
    let id = input::read(file, &mut sources)?;
    let text = sources.text(id).cloned().unwrap_or_default();
    let world = world(discovery, deletions);
    let options = Options {
        collections: deletions == Deletions::Collection,
        data: Data::Normalised,
        ..Options::default()
    };
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
        let found = compare(&a, &b, discovery, &options);
        if found.fault {
            exit = exit.combine(Exit::Internal);
        }
        let mut answer = answer(&found, &world);
        answer["id"] = row.map_or(Json::Null, |row| row["id"].clone());
        output.artefact().write_all(format!("{answer}\n").as_bytes())?;
    }
    Ok(exit)
}

/// Compares two sets of objects; a side that cannot be installed leaves nothing to compare.
fn compare(a: &[Json], b: &[Json], discovery: &Discovery, options: &Options) -> Comparison {
    let side = |objects: &[Json]| Side::from_objects(objects, discovery);
    match (side(a), side(b)) {
        (Ok(a), Ok(b)) => compare_sides(&a, &b, discovery, options),
        (Err(reason), _) | (_, Err(reason)) => nothing(reason),
    }
}

fn nothing(reason: String) -> Comparison {
    Comparison {
        label: Label::Unknown,
        reason,
        counterexample: None,
        requests: 0,
        fault: false,
    }
}

/// The answer as JSON.
fn answer(found: &Comparison, world: &World) -> Json {
    let kind = match &found.label {
        Label::Refuted(kind) => Some(kind.as_str()),
        _ => None,
    };
    let example = found.counterexample.as_deref();
    json!({
        "id": null,
        "label": found.label.as_str(),
        "class": example.filter(|_| kind.is_some()).map(|example| example.class().as_str()),
        "kind": kind,
        "reason": (!found.reason.is_empty()).then_some(&found.reason),
        "world": world_json(world),
        "witness": example.map(witness),
    })
}

/// A counterexample as `kyvtest eval --cases` reads it.
pub(in crate::cli) fn witness(example: &Counterexample) -> Json {
    let situation = example.situation();
    let request = &situation.request;
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
        let labels: serde_json::Map<String, Json> = situation
            .namespace_labels
            .iter()
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect();
        objects.push(json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": request.namespace, "labels": labels},
        }));
    }
    objects.extend(situation.world.params.iter().map(|document| object(document.root())));
    let [a, b] = example.verdicts();
    json!({
        "request": sent,
        "objects": objects,
        "a": {"effect": a.effect.as_str()},
        "b": {"effect": b.effect.as_str()},
    })
}

/// The names of the policies of a side, each once.
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
        ..Loaded::default()
    };
    own.policies.retain(|policy| policy.name() == name);
    own.bindings.retain(|binding| binding.policy_name.value == name);
    own
}

/// Whether two sets of policies need the comparison of any kinds: the target is not native alone, or the source is native.
pub(super) fn concerns(from: &Loaded, to: &Loaded) -> bool {
    let is_native = |loaded: &Loaded| loaded.native().next().is_some();
    to.policies.iter().any(Policy::validates) || (is_native(from) && is_native(to))
}

/// How the answers are printed and what they must be.
pub(super) struct Shown {
    pub(super) by_name: bool,
    pub(super) as_json: bool,
    pub(super) required: u8,
}

/// Compares all policies of one set with all policies of another, or those of the same name.
pub(super) fn sets(
    from: &Loaded,
    to: &Loaded,
    (discovery, deletions): (&Discovery, Deletions),
    shown: &Shown,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let world = world(discovery, deletions);
    let options = Options {
        collections: deletions == Deletions::Collection,
        ..Options::default()
    };
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
        let found = match (Side::new(a, Vec::new(), discovery), Side::new(b, Vec::new(), discovery)) {
            (Ok(a), Ok(b)) => compare_sides(&a, &b, discovery, &options),
            (Err(reason), _) | (_, Err(reason)) => nothing(reason),
        };
        exit = exit.combine(match (&found.label, found.label.strength()) {
            _ if found.fault => Exit::Internal,
            (Label::Refuted(_), _) => Exit::Divergence,
            (_, Some(strength)) if strength >= shown.required => Exit::Success,
            _ => Exit::BelowThreshold,
        });
        if shown.as_json {
            let mut proof = answer(&found, &world);
            proof["id"] = json!(name);
            proofs.push(proof);
        } else {
            output.styled(&human(&name, &found, &world))?;
        }
    }
    if shown.as_json {
        let text = format!("{:#}\n", json!({"version": 1, "proofs": proofs}));
        output.artefact().write_all(text.as_bytes())?;
    }
    Ok(exit)
}

fn human(name: &str, found: &Comparison, world: &World) -> String {
    let kind = match &found.label {
        Label::Refuted(kind) => format!("  kind={}", kind.as_str()),
        Label::Tested { tested } => format!("  requests={tested}"),
        _ => String::new(),
    };
    let label = found.label.as_str();
    let mut text = format!("{HEADING}{label}{HEADING:#}  {LITERAL}{name}{LITERAL:#}{kind}\n  world: {world}\n");
    if !found.reason.is_empty() {
        let _ = writeln!(text, "  why: {}", found.reason);
    }
    let Some(example) = &found.counterexample else {
        return text;
    };
    let [first, second] = example.verdicts();
    let request = &example.situation().request;
    let _ = writeln!(
        text,
        "  {}: the first side decides {}, the second {}",
        example.class(),
        first.effect,
        second.effect
    );
    let _ = writeln!(
        text,
        "  request: {} {} by user {}",
        request.operation.as_str(),
        request.resource.name(),
        request.user.username
    );
    for (name, document) in [("object", &request.object), ("oldObject", &request.old_object)] {
        if !document.root().is_null() {
            let _ = writeln!(text, "    {name}:");
            for line in document.root().to_yaml().lines() {
                let _ = writeln!(text, "      {line}");
            }
        }
    }
    text
}
