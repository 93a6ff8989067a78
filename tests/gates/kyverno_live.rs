//! The Kyverno engine as an admission controller runs it: what a live Kyverno admitted and refused.

use std::{collections::HashMap, sync::Arc};

use kyvtest::{
    cel::host::NoHost,
    diagnostic::Sources,
    kube::{Discovery, GroupVersionResource, NAME_LABEL, Namespace, Operation, Request, Resource, UserInfo, World},
    kyverno::{
        classic_policy::CompiledPolicy,
        exception::CompiledException,
        input::Input,
        lens::Lens,
        response::RuleResponse,
        validating_policy::{Answer, CompiledValidatingPolicy},
        webhook::Webhook,
    },
    policy::{Loaded, Purpose},
    value::Document,
    verdict::{Effect, Status},
};
use serde_json::{Value, json};

use crate::{
    kyverno::{read, text},
    support::{self, Gate, fixture, jsonl, shared},
};

/// What the clusters of the reference data served, besides Kubernetes' own kinds.
const KINDS: &str = "\
example.kyvtest.dev\tv1\tWidget\twidgets\tNamespaced\tstatus:Widget,scale:Scale
example.kyvtest.dev\tv2\tWidget\twidgets\tNamespaced\tstatus:Widget,scale:Scale
example.kyvtest.dev\tv1\tClusterWidget\tclusterwidgets\tCluster\tstatus:ClusterWidget
example.kyvtest.dev\tv1\tParam\tparams\tNamespaced\t
example.kyvtest.dev\tv1\tClusterParam\tclusterparams\tCluster\t
";

fn discovery(more: &str) -> Discovery {
    let mut discovery = Discovery::kubernetes();
    for table in [KINDS, more] {
        let file = Sources::new().add("discovery.tsv", table);
        discovery.extend(&Discovery::from_tsv(table, file).expect("a table of kinds"));
    }
    discovery
}

/// The bindings that every cluster has.
fn default_bindings() -> Vec<Value> {
    let binding = |role: &str, group: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": role}, "roleRef": {"kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "Group", "name": group}]})
    };
    vec![
        binding("cluster-admin", "system:masters"),
        binding("system:basic-user", "system:authenticated"),
        binding("system:discovery", "system:authenticated"),
        binding("system:public-info-viewer", "system:authenticated"),
    ]
}

fn world(namespaces: &Value, objects: &[&Value], params: &Value) -> World {
    let mut world = World::new();
    for (name, labels) in namespaces.as_object().into_iter().flatten() {
        let labels = labels.as_object().into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
        world.add_namespace(Namespace::with_labels(
            name,
            labels.chain([(NAME_LABEL, name.as_str())]),
        ));
    }
    for object in default_bindings().iter().chain(objects.iter().copied()) {
        world.add(Document::from(object));
    }
    world.params = params.as_array().into_iter().flatten().map(Document::from).collect();
    world
}

/// The request as Kyverno gets it, if it gets it.
fn deliver(webhook: &Webhook, request: &Request, world: &World, discovery: &Discovery) -> Option<Request> {
    let input = Input::new(request, world, discovery, Lens::CLUSTER);
    let resource = webhook.delivers(&request.cell(), discovery, &mut input.facts())?;
    Some(Request {
        resource,
        ..request.clone()
    })
}

/// All answers to a request; or why a policy cannot be installed.
fn decide(
    policies: &[Value],
    exceptions: &[Value],
    request: &Request,
    world: &World,
    discovery: &Discovery,
) -> Result<Vec<Said>, String> {
    let mut loaded = Loaded::default();
    for policy in policies {
        read(&policy.to_string(), Purpose::Policies, &mut loaded);
    }
    for exception in exceptions {
        read(&exception.to_string(), Purpose::Exceptions, &mut loaded);
    }
    if loaded.policies.len() + loaded.validating_policies.len() != policies.len() {
        return Err(format!("not all policies are read: {:?}", loaded.diagnostics));
    }
    let compiled: Vec<CompiledException> = loaded.exceptions.iter().map(|e| CompiledException::new(e)).collect();
    let mut responses = Vec::new();
    for policy in &loaded.policies {
        let Some(delivered) = deliver(&Webhook::of_policy(policy), request, world, discovery) else {
            continue;
        };
        let input = Input::new(&delivered, world, discovery, Lens::CLUSTER);
        let answers = CompiledPolicy::new(Arc::clone(policy))
            .decide(&input, &compiled, &NoHost)
            .rules;
        let name = &policy.metadata.name.value;
        responses.extend(answers.into_iter().map(|response| Said::new(name, false, response)));
    }
    for policy in &loaded.validating_policies {
        let exceptions = loaded.cel_exceptions.iter().map(|exception| &**exception);
        let all = CompiledValidatingPolicy::compile_all(policy, exceptions).map_err(|error| error.to_string())?;
        let Some(delivered) = deliver(&Webhook::of_validating_policy(policy), request, world, discovery) else {
            continue;
        };
        let input = Input::new(&delivered, world, discovery, Lens::CLUSTER);
        let input = input.converted_from(Arc::clone(&request.resource));
        for policy in &all {
            if let Answer::Rule(response) = policy.decide(&input, &NoHost) {
                responses.push(Said::new(policy.name(), true, response));
            }
        }
    }
    Ok(responses)
}

/// An answer and whose it is.
#[derive(Debug)]
struct Said {
    policy: String,
    is_cel_policy: bool,
    response: RuleResponse,
}

impl Said {
    fn new(policy: &str, is_cel_policy: bool, response: RuleResponse) -> Self {
        Self {
            policy: policy.to_owned(),
            is_cel_policy,
            response,
        }
    }
}

/// How a gate judges the answers to a request.
type Judge = fn(&[Said], &Value) -> Result<(), String>;

/// Admitted or refused.
fn same_verdict(answers: &[Said], observed: &Value) -> Result<(), String> {
    let allowed = answers.iter().all(|said| said.response.effect != Effect::Deny);
    if answers.iter().any(|said| said.response.status == Status::Unsupported) {
        return Err("a rule is unsupported".to_owned());
    }
    if Some(allowed) == observed["allowed"].as_bool() {
        return Ok(());
    }
    let wanted = &observed["allowed"];
    Err(format!(
        "allowed {allowed}, observed {wanted} ({}); ours {answers:?}",
        text(observed, "message")
    ))
}

/// What is said to a client whose request is refused; rows on which the verdict differs are another gate's.
fn same_text(answers: &[Said], observed: &Value) -> Result<(), String> {
    let denials: Vec<&Said> = answers
        .iter()
        .filter(|said| said.response.effect == Effect::Deny)
        .collect();
    let Some((_, theirs)) = text(observed, "message").split_once("denied the request: ") else {
        return Ok(());
    };
    let Some(first) = denials.first() else {
        return Ok(());
    };
    if first.is_cel_policy {
        let ours: Vec<String> = denials
            .iter()
            .map(|said| {
                let word = if said.response.status == Status::Fail {
                    "failed"
                } else {
                    "error"
                };
                format!("Policy {} {word}: {}", said.policy, said.response.message)
            })
            .collect();
        let ours = ours.join("; ");
        return if ours == theirs {
            Ok(())
        } else {
            Err(format!("ours {ours:?}, expected {theirs:?}"))
        };
    }
    let Some((_, policies)) = theirs.split_once("due to the following policies \n\n") else {
        return Err(format!("unknown text {theirs:?}"));
    };
    let mut ours = json!({});
    for said in denials {
        ours[said.policy.as_str()][said.response.rule.as_str()] = json!(said.response.message);
    }
    let theirs = Document::from_yaml(policies)?.root().to_serde();
    if ours == theirs {
        Ok(())
    } else {
        Err(format!("ours {ours}, expected {theirs}"))
    }
}

fn user(value: &Value) -> UserInfo {
    UserInfo::from_value(Document::from(value).root())
}

fn resource_of_object(discovery: &Discovery, object: &Value, subresource: &str) -> Option<Arc<Resource>> {
    let kind = text(object, "kind");
    let Some(main) = discovery.by_object(text(object, "apiVersion"), kind) else {
        // What a connection sends has a kind of its own.
        let mut resources = discovery.iter();
        return resources
            .find(|other| other.subresource == subresource && other.object_kind.kind == kind)
            .cloned();
    };
    if subresource.is_empty() {
        return Some(Arc::clone(main));
    }
    discovery.subresource(&main.gvk(), subresource).cloned()
}

fn check_vector(row: &Value, discovery: &Discovery, judge: Judge) -> Result<(), String> {
    let sent = &row["request"];
    let plural = &sent["resource"];
    let plural = GroupVersionResource::new(text(plural, "group"), text(plural, "version"), text(plural, "resource"));
    let resource = discovery.by_resource(&plural, text(sent, "subResource"));
    let resource = resource.ok_or_else(|| format!("no resource {plural:?}"))?;
    let rbac: Vec<&Value> = row["rbac"].as_array().into_iter().flatten().collect();
    let world = world(&row["namespaces"], &rbac, &row["params"]);
    let object = row.get("seen").unwrap_or(&sent["object"]);
    let sent_name = text(sent, "name");
    // The API server makes a name before it asks anybody.
    let generated = sent["operation"] == "CREATE" && sent_name.is_empty();
    let name = if generated {
        text(&object["metadata"], "name")
    } else {
        sent_name
    };
    let user = user(&sent["userInfo"]);
    let roles = world.roles(&user, text(sent, "namespace"));
    let request = Request {
        operation: text(sent, "operation").parse().map_err(|_| "operation")?,
        resource: Arc::clone(resource),
        name: name.to_owned(),
        namespace: text(sent, "namespace").to_owned(),
        object: Document::from(object),
        old_object: Document::from(&sent["oldObject"]),
        user,
        roles: roles.roles,
        cluster_roles: roles.cluster_roles,
        dry_run: sent["dryRun"].as_bool().unwrap_or_default(),
        options: Document::from(&sent["options"]),
        collection: sent["collection"].as_bool().unwrap_or_default(),
    };
    let list = |key: &str| row[key].as_array().cloned().unwrap_or_default();
    let responses = decide(&list("policies"), &list("exceptions"), &request, &world, discovery)?;
    judge(&responses, &row["observed"])
}

fn check_hazard(row: &Value, discovery: &Discovery, judge: Judge) -> Result<(), String> {
    let sent = &row["request"];
    let (operation, collection) = match text(sent, "operation") {
        "DELETE (collection)" => (Operation::Delete, true),
        word => (word.parse().map_err(|_| "operation")?, false),
    };
    let object = if sent["object"].is_null() {
        &sent["oldObject"]
    } else {
        &sent["object"]
    };
    let subresource = text(sent, "subresource");
    let resource = resource_of_object(discovery, object, subresource).ok_or("no resource")?;
    let world = world(&sent["namespaces"], &[], &sent["params"]);
    let mut object = object.clone();
    let metadata = &object["metadata"];
    if metadata.get("name").is_none() && metadata.get("generateName").is_some() {
        object["metadata"]["name"] = json!(format!("{}x7k2p", text(metadata, "generateName")));
    }
    let mut request = Request::about(operation, resource, Document::from(&object));
    if operation != Operation::Delete {
        request.object = Document::from(&object);
    }
    request.old_object = Document::from(&sent["oldObject"]);
    if collection {
        request.name.clear();
        request.collection = true;
    }
    request.user = user(&sent["user"]);
    let roles = world.roles(&request.user, &request.namespace);
    (request.roles, request.cluster_roles) = (roles.roles, roles.cluster_roles);
    let list = |key: &str| row[key].as_array().cloned().unwrap_or_default();
    let responses = decide(&list("policies"), &list("exceptions"), &request, &world, discovery)?;
    judge(&responses, &row["observed"])
}

/// Rows with an answer of Kyverno's, under the configuration that the engine stands for.
fn decided(row: &&Value) -> bool {
    row["observed"]["allowed"].is_boolean() && text(row, "config") == "bare"
}

fn run_vectors(rows: &[Value], name: &str, least: usize, judge: Judge) {
    let discovery = discovery("");
    let rows: Vec<&Value> = rows.iter().filter(decided).collect();
    Gate { name, rows: least }.run(
        &rows,
        |row| text(row, "id").to_owned(),
        |row| check_vector(row, &discovery, judge),
    );
}

fn run_hazards(rows: &[Value], name: &str, least: usize) {
    let discovery = discovery("");
    let rows: Vec<&Value> = rows.iter().filter(decided).collect();
    let id = |row: &&Value| {
        format!("{} {}", text(row, "id"), text(row, "variant"))
            .trim()
            .to_owned()
    };
    Gate { name, rows: least }.run(&rows, id, |row| check_hazard(row, &discovery, same_verdict));
}

#[test]
fn hazards() {
    if let Some(path) = shared("golden/kyverno-live/hazards.jsonl") {
        run_hazards(&jsonl(&path), "kyverno-live-hazards", 50);
    }
}

#[test]
fn texts_of_vectors() {
    if let Some(path) = shared("golden/kyverno-live/vectors.jsonl") {
        run_vectors(&jsonl(&path), "kyverno-live-texts", 1400, same_text);
    }
}

#[test]
fn vectors() {
    if let Some(path) = shared("golden/kyverno-live/vectors.jsonl") {
        run_vectors(&jsonl(&path), "kyverno-live-vectors", 1400, same_verdict);
    }
}

/// Where a source of the corpus lies.
fn corpus_path(source: &str) -> Option<String> {
    let policies = source
        .strip_prefix("kyverno+policies/")
        .map(|path| format!("corpus/policies/{path}"));
    policies.or_else(|| {
        let path = source.strip_prefix("kyverno+kyverno/test/cli/")?;
        Some(format!("corpus/kyverno-cli/{path}"))
    })
}

/// The mapping documents of a file of the corpus.
fn documents(path: &str) -> Vec<Value> {
    let Some(path) = corpus_path(path).and_then(|path| shared(&path)) else {
        return Vec::new();
    };
    let stream = kyvtest::yaml::read(
        support::read(&path),
        kyvtest::yaml::Mode::Lax,
        &kyvtest::yaml::Limits::default(),
    );
    let trees = stream.documents().iter().filter_map(|document| document.tree().ok());
    trees
        .map(|tree| Document::from(tree.root()).root().to_serde())
        .filter(Value::is_object)
        .collect()
}

/// A policy as it was installed: with every verdict showing as a refusal.
fn enforced(mut policy: Value, row: &Value) -> Value {
    let notes: Vec<&str> = row["enforced"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let spec = &mut policy["spec"];
    if notes.contains(&"validationActions [Deny]") {
        spec["validationActions"] = json!(["Deny"]);
    }
    if row["pod_controllers_off"] == json!(true) {
        spec["autogen"]["podControllers"] = json!({"controllers": []});
    }
    if notes.contains(&"failureAction Enforce") {
        if let Some(spec) = spec.as_object_mut() {
            spec.remove("validationFailureAction");
            spec.remove("validationFailureActionOverrides");
        }
        for rule in spec["rules"].as_array_mut().into_iter().flatten() {
            if let Some(validate) = rule.get_mut("validate").and_then(Value::as_object_mut) {
                validate.insert("failureAction".to_owned(), json!("Enforce"));
                validate.remove("failureActionOverrides");
            }
        }
    }
    policy
}

struct Corpus {
    discovery: Discovery,
    resources: HashMap<(String, u64), Value>,
    policies: HashMap<String, Value>,
}

fn check_verdict(row: &Value, corpus: &Corpus, judge: Judge) -> Result<(), String> {
    let policy = corpus.policies.get(text(row, "source")).ok_or("no policy")?;
    let of = &row["resource"];
    let place = (text(of, "file").to_owned(), of["doc"].as_u64().unwrap_or_default());
    let mut object = match corpus.resources.get(&place) {
        Some(object) => object.clone(),
        None => documents(&place.0)
            .into_iter()
            .nth(place.1 as usize)
            .ok_or("no resource")?,
    };
    let resource = resource_of_object(&corpus.discovery, &object, "").ok_or("no kind")?;
    if resource.namespaced && text(&object["metadata"], "namespace").is_empty() {
        object["metadata"]["namespace"] = json!("default");
    }
    let operation: Operation = text(row, "operation").parse().map_err(|_| "operation")?;
    let mut request = Request::about(operation, resource, Document::from(&object));
    if operation == Operation::Update {
        request.old_object = Document::from(&object);
        object["metadata"]["annotations"]["kyvtest.dev/touched"] = json!("1");
        request.object = Document::from(&object);
    }
    let world = world(&Value::Null, &[], &Value::Null);
    request.user = user(&json!({"username": "admin", "groups": ["system:masters", "system:authenticated"]}));
    let roles = world.roles(&request.user, &request.namespace);
    (request.roles, request.cluster_roles) = (roles.roles, roles.cluster_roles);
    let policy = enforced(policy.clone(), row);
    let responses = decide(&[policy], &[], &request, &world, &corpus.discovery)?;
    judge(&responses, row)
}

#[test]
fn verdicts() {
    let Some(path) = shared("golden/kyverno-live/verdicts.jsonl") else {
        return;
    };
    let rows: Vec<Value> = jsonl(&path);
    let apart = [
        "suite_has_values",
        "suite_has_userinfo",
        "suite_has_exceptions",
        "external_context",
    ];
    let mut rows: Vec<(usize, &Value)> = rows
        .iter()
        .enumerate()
        .filter(|(_, row)| {
            text(row, "set") == "cel" && row["allowed"].is_boolean() && apart.iter().all(|key| row.get(key).is_none())
        })
        .collect();
    let resources = shared("golden/apiserver/resources.jsonl").map(|path| jsonl::<Value>(&path));
    let table = shared("golden/apiserver/discovery.tsv").map(|path| support::read(&path));
    let mut corpus = Corpus {
        discovery: discovery(&table.unwrap_or_default()),
        resources: HashMap::new(),
        policies: HashMap::new(),
    };
    for resource in resources.into_iter().flatten() {
        let place = (
            text(&resource, "file").to_owned(),
            resource["doc"].as_u64().unwrap_or_default(),
        );
        corpus.resources.insert(place, resource["object"].clone());
    }
    for row in shared("golden/apiserver/generated.jsonl")
        .iter()
        .flat_map(|path| jsonl::<Value>(path))
    {
        if text(&row, "set") == "corpus" && row["forced"] != json!(true) {
            corpus
                .policies
                .insert(text(&row, "source").to_owned(), row["policy"].clone());
        }
    }
    for (_, row) in &rows {
        let source = text(row, "source");
        let Some((file, name)) = source.split_once('#') else {
            continue;
        };
        if !corpus.policies.contains_key(source) {
            let found = documents(file).into_iter().find(|document| {
                text(&document["metadata"], "name") == name && text(document, "kind").contains("Policy")
            });
            corpus.policies.extend(found.map(|policy| (source.to_owned(), policy)));
        }
    }
    let gate = Gate {
        name: "kyverno-live-verdicts",
        rows: 5000,
    };
    rows.retain(|(_, row)| row.get("resource").is_some());
    gate.run(
        &rows,
        |(line, _)| format!("line-{}", line + 1),
        |(_, row)| check_verdict(row, &corpus, same_verdict),
    );
}

#[test]
fn own_rows() {
    run_hazards(
        &jsonl(&fixture("kyverno/hazards.jsonl")),
        "kyverno-live-hazards-own",
        50,
    );
    run_vectors(
        &jsonl(&fixture("kyverno/vectors.jsonl")),
        "kyverno-live-vectors-own",
        200,
        same_verdict,
    );
}
