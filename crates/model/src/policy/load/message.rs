//! The messages of `kyverno test` and of the API server about documents that cannot be used.
//!
//! Upstream counterpart: `cmd/cli/kubectl-kyverno/data` with `sigs.k8s.io/kubectl-validate` (Kyverno 1.19), and
//! `pkg/api/validation/objectmeta.go` of apimachinery.

use crate::{
    kube::{Discovery, parse_api_version},
    policy::{
        decode::{SchemaProblem, SchemaProblemKind},
        located::place,
    },
};
use kyvtest_go_compat::{
    diagnostic::{FileId, Span},
    text::{
        label::{Wording, dns1123_problems, key_problems, subdomain_problems, value_problems},
        quote::quote,
    },
    yaml::{Entries, Kind, Node},
};

/// The message of `kyverno test` about a document that violates its schema; empty if the problems are unknown.
/// `has_rules`: the schema has CEL rules, which are not evaluated on an invalid object.
pub(super) fn schema_text(
    mut problems: Vec<SchemaProblem>,
    (api_version, kind, name): (&str, &str, &str),
    has_rules: bool,
) -> String {
    if problems.is_empty() {
        return String::new();
    }
    let blocks_rules = |problem: &SchemaProblem| problem.kind == SchemaProblemKind::Structure;
    let rules_are_blocked = has_rules && problems.iter().any(blocks_rules);
    if rules_are_blocked {
        problems.retain(|problem| problem.kind != SchemaProblemKind::Rule);
    }
    let mut messages: Vec<String> = problems.into_iter().map(|problem| problem.message).collect();
    defer_missing(&mut messages);
    if rules_are_blocked {
        messages.push(
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; \
             correct the existing errors to complete validation"
                .to_owned(),
        );
    }
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let problems = match messages.as_slice() {
        [single] => single.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    format!("failed to validate resource ({kind}.{group} {name:?} is invalid: {problems})")
}

/// Moves messages about missing fields behind all others about the same object, as the validation reports them.
fn defer_missing(messages: &mut Vec<String>) {
    const MISSING: &str = ": Required value";
    let owner = |message: &str| {
        let path = message.strip_suffix(MISSING)?;
        Some(path.rsplit_once('.').map_or("", |(owner, _)| owner).to_owned())
    };
    let mut missing: Vec<String> = Vec::new();
    messages.retain(|message| {
        let deferred = owner(message).is_some_and(|owner| !owner.is_empty());
        if deferred {
            missing.push(message.clone());
        }
        !deferred
    });
    missing.sort();
    // The innermost objects come first.
    missing.sort_by_key(|message| std::cmp::Reverse(message.matches(['.', '[']).count()));
    for message in missing {
        let owner = owner(&message).unwrap_or_default();
        let about = |other: &String| {
            let path = other.strip_prefix("<nil>: Invalid value: \"\": \"").unwrap_or(other);
            let rest = path.strip_prefix(owner.as_str());
            rest.is_some_and(|rest| rest.starts_with(['.', '[', ':', '"']))
        };
        let at = messages.iter().rposition(about).map_or_else(
            || {
                let later = messages
                    .iter()
                    .position(|other| !other.starts_with('<') && *other > message);
                later.unwrap_or(messages.len())
            },
            |last| last + 1,
        );
        messages.insert(at, message);
    }
}

/// The message of `kyverno test` about metadata that Go cannot decode; `None` if it can.
pub(super) fn metadata_text(node: Node<'_>) -> Option<String> {
    let metadata = node.get("metadata").filter(|metadata| !metadata.is_null())?;
    let word = |node: Node<'_>| match node.kind() {
        Kind::Bool(_) => "bool",
        Kind::Int(_) | Kind::Uint(_) | Kind::Float(_) => "number",
        Kind::Str(_) => "string",
        Kind::Seq(_) => "array",
        Kind::Map(_) => "object",
        Kind::Null => "null",
    };
    let failed = |problem: String| Some(format!("failed to parse document (json: cannot unmarshal {problem})"));
    let Some(entries) = metadata.as_map() else {
        return failed(format!("{} into Go value of type v1.ObjectMeta", word(metadata)));
    };
    let mut entries: Vec<_> = entries.iter().filter(|entry| !entry.value.is_null()).collect();
    entries.sort_by_key(|entry| entry.key);
    for entry in entries {
        let field = |node: Node<'_>, wanted: &str| {
            failed(format!(
                "{} into Go struct field ObjectMeta.{} of type {wanted}",
                word(node),
                entry.key
            ))
        };
        match (entry.key, entry.value.as_map()) {
            ("labels" | "annotations", None) => return field(entry.value, "map[string]string"),
            ("labels" | "annotations", Some(texts)) => {
                let mut texts: Vec<_> = texts.iter().collect();
                texts.sort_by_key(|text| text.key);
                let mut wrong = texts.iter().map(|text| text.value);
                if let Some(value) = wrong.find(|value| !value.is_null() && value.as_str().is_none()) {
                    return field(value, "string");
                }
            }
            ("name" | "namespace" | "generateName" | "uid" | "resourceVersion" | "selfLink", _)
                if entry.value.as_str().is_none() =>
            {
                return field(entry.value, "string");
            }
            _ => {}
        }
    }
    None
}

/// The violations of the API server's rules for names and namespaces, with its messages.
pub(super) fn violations_of_metadata(node: Node<'_>, namespaced: bool) -> Vec<SchemaProblem> {
    let mut found = Vec::new();
    let mut add = |message: String| {
        found.push(SchemaProblem {
            kind: SchemaProblemKind::Value,
            message,
        });
    };
    let (name, namespace) = (member(node, "name"), member(node, "namespace"));
    let mut problems = Vec::new();
    if name.is_empty() && member(node, "generateName").is_empty() {
        add("metadata.name: Required value: name or generateName is required".to_owned());
    } else if !name.is_empty() {
        subdomain_problems(&name, "characters", &mut problems);
        for problem in problems.drain(..) {
            add(format!("metadata.name: Invalid value: {}: {problem}", quote(&name)));
        }
    }
    if namespaced && !namespace.is_empty() {
        dns1123_problems(&namespace, &mut problems);
        for problem in problems.drain(..) {
            add(format!(
                "metadata.namespace: Invalid value: {}: {problem}",
                quote(&namespace)
            ));
        }
    }
    found
}

/// The message of `kyverno test` about an unknown version or kind.
pub(super) fn version_text(api_version: &str, kind: &str) -> String {
    let (group, version) = parse_api_version(api_version);
    let served = Discovery::kubernetes();
    let is_known = KNOWN_VERSIONS.contains(&api_version)
        || served
            .iter()
            .any(|resource| resource.group == group && resource.version == version);
    let problem = if is_known {
        format!("kind {kind} not found in {api_version} groupversion")
    } else {
        format!("failed to locate OpenAPI spec for GV: {api_version}")
    };
    format!("failed to parse document (failed to retrieve validator: {problem})")
}

/// The versions of Kyverno's groups for which its command line has schemas.
const KNOWN_VERSIONS: [&str; 8] = [
    "kyverno.io/v1",
    "kyverno.io/v1beta1",
    "kyverno.io/v2alpha1",
    "kyverno.io/v2beta1",
    "kyverno.io/v2",
    "policies.kyverno.io/v1alpha1",
    "policies.kyverno.io/v1beta1",
    "policies.kyverno.io/v1",
];

/// The API server's errors about names, labels and annotations, with their locations.
pub(super) fn metadata_problems(node: Node<'_>, file: FileId, namespaced: bool) -> Vec<(Span, String)> {
    let mut found = Vec::new();
    let mut add = |what: String, text: &str, span, problems: Vec<String>| {
        if !problems.is_empty() {
            let message = format!("{what} cannot be `{text}`: {}", problems.join("; "));
            found.push((place(file, span), message));
        }
    };
    let member = |key: &str| node.get("metadata").and_then(|metadata| metadata.get(key));
    let text = |key: &str| member(key).and_then(|node| Some((node.as_str()?, node.span())));
    let mut problems = Vec::new();
    if let Some((name, span)) = text("name").filter(|(name, _)| !name.is_empty()) {
        subdomain_problems(name, "characters", &mut problems);
        add("`metadata.name`".to_owned(), name, span, std::mem::take(&mut problems));
    }
    if let Some((namespace, span)) = text("namespace").filter(|(name, _)| namespaced && !name.is_empty()) {
        dns1123_problems(namespace, &mut problems);
        let problems = std::mem::take(&mut problems);
        add("`metadata.namespace`".to_owned(), namespace, span, problems);
    }
    let entries = |key: &str| member(key).and_then(Node::as_map).into_iter().flat_map(Entries::iter);
    for entry in entries("labels") {
        key_problems(entry.key, Wording::QualifiedName, &mut problems);
        let key = std::mem::take(&mut problems);
        add("a key of `metadata.labels`".to_owned(), entry.key, entry.key_span, key);
        let value = entry.value.as_str().unwrap_or_default();
        value_problems(value, Wording::QualifiedName, &mut problems);
        let problems = std::mem::take(&mut problems);
        add(
            format!("the label `{}`", entry.key),
            value,
            entry.value.span(),
            problems,
        );
    }
    for entry in entries("annotations") {
        // Upper case is accepted in the whole key.
        key_problems(&entry.key.to_lowercase(), Wording::QualifiedName, &mut problems);
        let key = std::mem::take(&mut problems);
        add(
            "a key of `metadata.annotations`".to_owned(),
            entry.key,
            entry.key_span,
            key,
        );
    }
    found
}

/// A string of the metadata.
pub(super) fn member(node: Node<'_>, key: &str) -> String {
    let found = node.get("metadata").and_then(|metadata| metadata.get(key));
    found.and_then(Node::as_str).unwrap_or_default().to_owned()
}
