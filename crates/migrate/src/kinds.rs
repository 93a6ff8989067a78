//! What the migrations of rules that do not validate have in common: the rule on its own, metadata and settings of new policies.

use kyvtest_go_compat::{
    diagnostic::{Severity, Sources},
    yaml,
};
use kyvtest_kyverno::autogen;
use kyvtest_model::{
    kube::Discovery,
    policy::{self, ClassicPolicy, FailurePolicy, Loaded, PolicyKind, Purpose, Rule, Text, validate_in_cluster},
};
use serde_json::{Map, Value as Json, json};

use kyvtest_prove::repair::RuleScope;

use crate::{Expr, Refusal, RefusalCode, Scope, Subject, assemble::DROPPED, migrate::cut};

/// Policies that replace a rule.
#[derive(Debug)]
pub(crate) struct Translated {
    pub(crate) objects: Vec<Json>,
    /// For each policy, the variants of the rule that it covers.
    pub(crate) variants: Vec<Vec<&'static str>>,
    /// How many requests gave the same on both sides.
    pub(crate) requests: u64,
    /// Whether every request gives the same.
    pub(crate) is_proven: bool,
    /// Why the label is not better.
    pub(crate) reason: String,
    pub(crate) notes: Vec<String>,
}

/// Reads objects as policies and exceptions.
///
/// # Errors
/// The first problem, for people.
pub(crate) fn load(objects: &[Json]) -> Result<Loaded, String> {
    let mut loaded = Loaded::default();
    for object in objects {
        let json = object.to_string();
        let file = Sources::new().add("object.json", json.as_str());
        let stream = yaml::read(json.as_bytes(), yaml::Mode::Lax, &yaml::Limits::default());
        policy::load(stream, file, Purpose::Policies, &mut loaded);
    }
    let mut errors = loaded.diagnostics.iter();
    match errors.find(|problem| problem.severity == Severity::Error) {
        Some(problem) => Err(problem.message.clone()),
        None => Ok(loaded),
    }
}

/// The policy with one rule alone, as Kyverno reads it.
pub(crate) fn alone(policy: &ClassicPolicy, rule: &Rule, discovery: &Discovery) -> Result<ClassicPolicy, Refusal> {
    with_rules(policy, &[rule], discovery).map_err(|refusal| refusal.at(rule.span))
}

/// The policy with some of its rules, as Kyverno reads it.
pub(crate) fn with_rules(
    policy: &ClassicPolicy,
    rules: &[&Rule],
    discovery: &Discovery,
) -> Result<ClassicPolicy, Refusal> {
    let mut object = cut(policy, rules);
    // Rules that change objects have no failure action.
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("validationFailureActionOverrides");
    }
    let reject = |message: String| Refusal::new(RefusalCode::Invalid, message);
    let loaded = load(&[object]).map_err(reject)?;
    let Some(only) = loaded.classic().next() else {
        return Err(reject("the policy cannot be read".to_owned()));
    };
    let checked = validate_in_cluster(only, &autogen::all_rules(only), discovery);
    match checked.error {
        Some(message) => Err(reject(format!("Kyverno rejects the policy: {message}"))),
        None => Ok((**only).clone()),
    }
}

/// A name that is not taken.
pub(crate) fn numbered(name: String, taken: &mut Vec<String>) -> String {
    let mut free = name.clone();
    let mut number = 1;
    while taken.contains(&free) {
        number += 1;
        free = format!("{name}-{number}");
    }
    taken.push(free.clone());
    free
}

/// A new policy: the namespaced kind for a Policy.
pub(crate) fn object(policy: &ClassicPolicy, kind: &str, name: &str, spec: Json) -> Json {
    let namespaced = policy.kind == PolicyKind::Policy;
    let own = policy.metadata.namespace.as_ref().map(|text| text.value.as_str());
    let namespace = namespaced.then(|| own.unwrap_or("default"));
    named_object(&policy.metadata, kind, (name, namespace), spec)
}

/// A new policy with the labels and annotations of the old one.
pub(crate) fn named_object(
    from: &policy::Metadata,
    kind: &str,
    (name, namespace): (&str, Option<&str>),
    spec: Json,
) -> Json {
    let pairs = |list: &[(Text, Text)]| -> Map<String, Json> {
        let kept = list.iter().filter(|(key, _)| !DROPPED.contains(&key.value.as_str()));
        kept.map(|(key, value)| (key.value.clone(), json!(value.value)))
            .collect()
    };
    let mut metadata = json!({"name": name});
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    for (key, list) in [
        ("labels", pairs(&from.labels)),
        ("annotations", pairs(&from.annotations)),
    ] {
        if !list.is_empty() {
            metadata[key] = Json::Object(list);
        }
    }
    let prefix = if namespace.is_some() { "Namespaced" } else { "" };
    json!({
        "apiVersion": "policies.kyverno.io/v1",
        "kind": format!("{prefix}{kind}"),
        "metadata": metadata,
        "spec": spec,
    })
}

/// Failure policy and timeout of the webhook.
pub(crate) fn webhook(policy: &ClassicPolicy, spec: &mut Json) {
    let own = &policy.spec;
    let webhook = own.webhook.as_ref();
    let failure = webhook
        .and_then(|webhook| webhook.failure_policy)
        .or(own.failure_policy);
    if failure.is_some_and(|failure| failure.value == FailurePolicy::Ignore) {
        spec["failurePolicy"] = json!("Ignore");
    }
    let timeout = webhook
        .and_then(|webhook| webhook.timeout_seconds)
        .map(|seconds| seconds.value);
    let written = own.source.document().root().to_serde();
    let timeout = timeout.or_else(|| written["webhookTimeoutSeconds"].as_i64());
    if let Some(seconds) = timeout {
        spec["webhookConfiguration"] = json!({"timeoutSeconds": seconds});
    }
}

/// Reads a translation.
///
/// # Errors
/// A refusal, if Kyverno would not accept it.
pub(crate) fn load_translation(objects: &[Json]) -> Result<Loaded, Refusal> {
    load(objects).map_err(|message| {
        let reason = format!("the translation is not a valid policy: {message}");
        Refusal::new(RefusalCode::Refuted, reason)
    })
}

/// The kinds of a scope, each with its API version and once; none if the scope has more than it names.
pub(crate) fn kinds_of(scope: &RuleScope) -> Vec<(String, String)> {
    let mut kinds: Vec<(String, String)> = Vec::new();
    for kind in scope.kinds.iter().filter(|_| !scope.others) {
        let entry = (kind.api_version(), kind.kind.clone());
        if !kinds.contains(&entry) {
            kinds.push(entry);
        }
    }
    kinds
}

/// The names of a rule about new objects of these kinds.
pub(crate) fn object_scope(kinds: Vec<(String, String)>) -> Scope {
    let mut scope = Scope::default();
    scope.set_kinds(kinds);
    let subject = Subject {
        expr: Expr::primary("object"),
        path: Some(Vec::new()),
    };
    scope.bind("request.object", subject);
    scope
}
