//! CleanupPolicy and ClusterCleanupPolicy as DeletingPolicies.
//!
//! Upstream counterpart: `cmd/cleanup-controller/handlers/cleanup` on one side, `pkg/cel/policies/dpol` on the other (Kyverno 1.19).
//! Neither deletes an object about which it cannot decide. A DeletingPolicy sees no request: what depends on a user has no
//! translation. Both sides run on the same objects with the same clock; there is no proof.

use std::sync::Arc;

use kyvtest_cel::host::Mocks;
use kyvtest_go_compat::{text::time::Timestamp, value::Document};
use kyvtest_kyverno::{
    classic::context::{Given, SuiteSources},
    cleanup_policy::CompiledCleanupPolicy,
    deleting_policy::{CompiledDeletingPolicy, Deletion},
};
use kyvtest_model::{
    kube::{Discovery, Namespace, Operation, Request, RequestClass, namespace_object},
    policy::{ClassicPolicy, CleanupPolicy, Propagation, Rule},
};
use kyvtest_prove::{server::Server, universe};
use serde_json::{Value as Json, json};

use crate::{
    Expr, MigratedRule, Migration, Options, Refusal, RefusalCode, RuleLabel, Scope, Subject,
    assemble::constraints,
    conditions, context,
    draft::scopes_of,
    guess::{Guess, with_kinds},
    kinds::{Translated, load, named_object, numbered},
    layout::layout,
    names::{Names, Variables},
    query::{Seen, Type, Value},
    samples::requests,
};

/// How many objects of each kind are made.
const TRIES: u64 = 80;
const MORE: u64 = 10;
/// How many of them should be deleted; below, more are made.
const ENOUGH: u64 = 5;

/// The clock of the comparison, in seconds: some objects are older than others.
const NOW: i64 = 1_790_000_000;
const AGES: [i64; 7] = [0, 59, 3_500, 7_200, 90_000, 700_000, 40_000_000];

/// Migrates a cleanup policy. It counts as one rule of the policy's name.
pub fn migrate_cleanup(policy: &CleanupPolicy, discovery: &Discovery, options: &Options) -> Migration {
    let mut rule = MigratedRule {
        name: policy.metadata.name.value.clone(),
        label: RuleLabel::Tested(0),
        reason: String::new(),
        place: policy.origin.span,
        objects: Vec::new(),
        variants: Vec::new(),
        rejected: Vec::new(),
        in_cel: false,
        counterexample: None,
        notes: Vec::new(),
    };
    match translate(policy, discovery, options) {
        Ok(translated) => {
            rule.label = RuleLabel::Tested(translated.requests);
            rule.reason = translated.reason;
            rule.objects = translated.objects;
            rule.variants = translated.variants;
            rule.notes = translated.notes;
        }
        Err(refusal) => {
            rule.label = RuleLabel::NotMigrated(refusal.code);
            rule.reason = refusal.reason;
            rule.place = refusal.span.unwrap_or(policy.origin.span);
        }
    }
    Migration { rules: vec![rule] }
}

/// The match block of the policy, as that of a rule that validates.
fn as_rule(policy: &CleanupPolicy) -> Result<Arc<ClassicPolicy>, Refusal> {
    let spec = &policy.spec;
    let mut rule = json!({
        "name": "cleanup",
        "match": spec.matches.to_document().root().to_serde(),
        "validate": {"deny": {}},
    });
    if let Some(exclude) = &spec.exclude {
        rule["exclude"] = exclude.to_document().root().to_serde();
    }
    let object = json!({
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cleanup", "annotations": {"pod-policies.kyverno.io/autogen-controllers": "none"}},
        "spec": {"background": false, "rules": [rule]},
    });
    let loaded = load(&[object]).map_err(|message| Refusal::new(RefusalCode::Match, message))?;
    let classic = loaded.classic().next().cloned();
    classic.ok_or_else(|| Refusal::new(RefusalCode::Match, "the match block cannot be read"))
}

fn translate(policy: &CleanupPolicy, discovery: &Discovery, options: &Options) -> Result<Translated, Refusal> {
    let spec = &policy.spec;
    let classic = as_rule(policy).map_err(|refusal| refusal.at(spec.matches.span))?;
    let Some(rule) = classic.spec.rules.first() else {
        return Err(Refusal::new(RefusalCode::Match, "the match block cannot be read"));
    };
    let (discovery, guesses) = with_kinds(&classic, discovery);
    let scopes =
        scopes_of(&classic, rule, &[Operation::Create], (&discovery, &guesses)).map_err(|refusal| Refusal {
            span: Some(spec.matches.span),
            ..refusal
        })?;
    let mut names = Vec::new();
    let mut objects = Vec::new();
    let mut notes: Vec<String> = guesses.iter().map(Guess::note).collect();
    for scope in &scopes {
        let named = scope.kinds.iter().filter(|_| !scope.others);
        let kinds: Vec<(String, String)> = named.map(|kind| (kind.api_version(), kind.kind.clone())).collect();
        let mut tests: Vec<(&str, String)> = Vec::new();
        if let Some(condition) = &scope.condition {
            tests.push(("match", without_request(condition, policy)?));
        }
        let mut variables = Variables::default();
        if let Some(test) = condition(policy, &kinds, &mut variables)? {
            tests.push(("conditions", test.as_str().to_owned()));
        }
        variables.retain_used(tests.iter().map(|(_, text)| text.as_str()));
        for lookup in variables.lookups() {
            let note = format!(
                "Kyverno's cleanup controller needs permission to {} `{}` ({})",
                lookup.verb, lookup.resource, lookup.api_version
            );
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        let name = numbered(policy.metadata.name.value.clone(), &mut names);
        objects.push(object(
            policy,
            &name,
            &constraints(&scope.constraints),
            &tests,
            &variables,
        ));
    }
    let requests = compare(policy, rule, &objects, &discovery, options)?;
    Ok(Translated {
        is_proven: false,
        variants: objects.iter().map(|_| vec![""]).collect(),
        objects,
        requests,
        reason: "deletions are compared on objects, not proven".to_owned(),
        notes,
    })
}

/// A condition of `match` without the request, which no deletion has.
fn without_request(condition: &str, policy: &CleanupPolicy) -> Result<String, Refusal> {
    let text = condition
        .replace("(request.operation == 'DELETE' ? oldObject : object)", "object")
        .replace("has(request.namespace)", "has(object.metadata.namespace)")
        .replace("request.namespace", "object.metadata.namespace")
        .replace("request.name", "object.metadata.name");
    if text.contains("request.") || text.contains("oldObject") {
        let reason = "`match` or `exclude` is about the user of a request, which a deletion does not have";
        return Err(Refusal::new(RefusalCode::Match, reason).at(policy.spec.matches.span));
    }
    Ok(text)
}

/// The conditions of the policy; `None` without any.
fn condition(
    policy: &CleanupPolicy,
    kinds: &[(String, String)],
    variables: &mut Variables,
) -> Result<Option<Expr>, Refusal> {
    let subject = Subject {
        expr: Expr::primary("object"),
        path: Some(Vec::new()),
    };
    let mut scope = Scope::default();
    scope.set_kinds(kinds.to_vec());
    scope.set_seen(Seen::Stored);
    scope.bind("target", subject);
    let namespace = Expr::primary("object.metadata")
        .optional("namespace")
        .call("orValue", [Expr::string("")]);
    scope.bind_value("request.namespace", Value::new(namespace, Type::name()));
    let mut names = Names::new(scope, variables);
    if let Some(entries) = policy.spec.context.as_ref().filter(|part| !part.node().is_null()) {
        context::context(entries, &mut names);
    }
    let Some(tree) = policy.spec.conditions.as_ref().filter(|part| !part.node().is_null()) else {
        return Ok(None);
    };
    let test = conditions::conditions(tree, &mut names)?;
    let used = variables.iter().map(|(_, expr)| expr.as_str()).chain([test.as_str()]);
    for text in used {
        if text.contains("request.") || text.contains("oldObject") {
            let reason = "the conditions read the request, which a deletion does not have; use `target`";
            return Err(Refusal::new(RefusalCode::Variable, reason).at(tree.span()));
        }
    }
    Ok(Some(test))
}

fn object(
    policy: &CleanupPolicy,
    name: &str,
    constraints: &Json,
    tests: &[(&str, String)],
    variables: &Variables,
) -> Json {
    let mut spec = json!({"schedule": policy.spec.schedule.value});
    if let Some(propagation) = &policy.spec.propagation {
        let word = match propagation.value {
            Propagation::Foreground => "Foreground",
            Propagation::Background => "Background",
            Propagation::Orphan => "Orphan",
        };
        spec["deletionPropagationPolicy"] = json!(word);
    }
    let mut constraints = constraints.clone();
    for rule in constraints["resourceRules"].as_array_mut().into_iter().flatten() {
        rule["operations"] = json!(["*"]);
    }
    spec["matchConstraints"] = constraints;
    let entry = |name: &str, text: &str| json!({"name": name, "expression": layout(text)});
    let own: Vec<Json> = variables
        .iter()
        .map(|(name, expr)| entry(name, expr.as_str()))
        .collect();
    if !own.is_empty() {
        spec["variables"] = Json::Array(own);
    }
    let tests: Vec<Json> = tests.iter().map(|(name, text)| entry(name, text)).collect();
    if !tests.is_empty() {
        spec["conditions"] = Json::Array(tests);
    }
    let namespace = policy.metadata.namespace.as_ref().filter(|_| policy.namespaced);
    let namespace = policy
        .namespaced
        .then(|| namespace.map_or("default", |text| text.value.as_str()));
    named_object(&policy.metadata, "DeletingPolicy", (name, namespace), spec)
}

/// Runs both sides on objects, and counts them.
fn compare(
    policy: &CleanupPolicy,
    rule: &Rule,
    objects: &[Json],
    discovery: &Discovery,
    options: &Options,
) -> Result<u64, Refusal> {
    let refuted = |reason: String| Refusal::new(RefusalCode::Refuted, reason).at(policy.origin.span);
    let invalid = |message: String| refuted(format!("the translation is not a valid policy: {message}"));
    let loaded = load(objects).map_err(invalid)?;
    let mut new = Vec::new();
    for policy in loaded.deleting() {
        new.push(CompiledDeletingPolicy::compile(policy, []).map_err(|errors| invalid(errors.to_string()))?);
    }
    let mut mocks = Mocks::new();
    if let Some(now) = Timestamp::from_seconds(NOW) {
        mocks.set_now(now);
    }
    let sides = Comparison {
        old: CompiledCleanupPolicy::new(policy),
        namespace: policy
            .metadata
            .namespace
            .as_ref()
            .filter(|_| policy.namespaced)
            .map(|text| text.value.clone()),
        new,
        mocks,
    };
    let universe = universe::with_unknown(discovery);
    let server = Server::new(&universe, Vec::new()).without_service_accounts();
    let conditions = policy
        .spec
        .conditions
        .as_ref()
        .map(|part| part.document().root().to_serde());
    let mut sources: Vec<Json> = objects.iter().map(|object| object["spec"].clone()).collect();
    sources.extend(conditions);
    let cells: Vec<RequestClass<'_>> = universe::cells(&universe)
        .into_iter()
        .filter(|cell| cell.operation == Operation::Create && cell.resource.subresource.is_empty())
        .filter(|cell| {
            rule.matches
                .kinds()
                .any(|kind| kyvtest_kyverno::matching::kind_matches(kind, cell.resource, false))
        })
        .collect();
    let (mut tried, mut deleted) = (0, 0);
    for factor in [1, MORE] {
        for cell in &cells {
            let count = TRIES.min(options.proof.tries.max(1) * 2) * factor;
            for (number, scenario) in requests(&sources, &[rule], cell, count).into_iter().enumerate() {
                let mut request = scenario.request;
                if let Some(namespace) = sides.namespace.as_ref().filter(|_| number % 4 != 0 && cell.namespaced) {
                    request.namespace.clone_from(namespace);
                }
                let object = stored(&request, number, &server, cell);
                let Some(object) = object else { continue };
                request.object = object;
                let namespace = scenario.world.namespace(&request.namespace);
                let before = sides.deletes_before(&request, namespace);
                let after = sides.deletes_after(&request, namespace);
                tried += 1;
                deleted += u64::from(before);
                if before != after {
                    let object = request.object.root().to_json();
                    return Err(refuted(format!(
                        "the translation decides about an object differently; it is not written. The policy {}: {object}",
                        if before { "deletes it" } else { "keeps it" }
                    )));
                }
            }
        }
        if deleted >= ENOUGH {
            return Ok(tried);
        }
    }
    if deleted == 0 {
        let reason = "no object was found that the policy deletes, so nothing shows that the translation is right";
        return Err(Refusal::new(RefusalCode::Untested, reason).at(policy.origin.span));
    }
    Ok(tried)
}

/// An object as it is stored, with an age.
fn stored(request: &Request, number: usize, server: &Server, cell: &RequestClass<'_>) -> Option<Document> {
    let mut object = request.object.root().to_serde();
    let age = AGES[number % AGES.len()];
    let created = Timestamp::from_seconds(NOW - age)?;
    object["metadata"]["creationTimestamp"] = json!(created.to_string());
    if cell.namespaced {
        object["metadata"]["namespace"] = json!(request.namespace);
    }
    let kind = &cell.resource.object_kind;
    server.decode(kind, &request.namespace, &Document::from(&object)).ok()
}

/// Both sides.
struct Comparison<'p> {
    old: CompiledCleanupPolicy<'p>,
    /// The namespace of a namespaced policy.
    namespace: Option<String>,
    new: Vec<CompiledDeletingPolicy>,
    mocks: Mocks,
}

impl Comparison<'_> {
    fn deletes_before(&self, request: &Request, namespace: Option<&Namespace>) -> bool {
        let outside = SuiteSources {
            host: &self.mocks,
            values: Vec::new(),
            namespace: self.namespace.as_deref().unwrap_or_default(),
            given: Given::default(),
        };
        self.old.deletes(request, namespace, &outside) == Ok(Some(true))
    }

    fn deletes_after(&self, request: &Request, namespace: Option<&Namespace>) -> bool {
        // The controller lists the objects of the policy's namespace.
        if self.namespace.as_ref().is_some_and(|own| *own != request.namespace) {
            return false;
        }
        let described = namespace.map_or_else(Document::null, |own| namespace_object(own.object.root()));
        self.new.iter().any(|policy| {
            policy.selects(request, namespace) == Ok(true)
                && policy.evaluate(request.object.root(), described.root(), &self.mocks) == Ok(Deletion::Delete)
        })
    }
}
