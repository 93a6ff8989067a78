//! The Kyverno engine as an admission controller runs it: requests that a live Kyverno admitted and denied.

use std::{collections::HashMap, sync::Arc};

use kyvtest::{
    cel::host::NoHost,
    diagnostic::Sources,
    kube::{
        Discovery, Environment, GroupVersionResource, NAME_LABEL, Namespace, Operation, Request, Resource, UserInfo,
        World,
    },
    kyverno::{
        autogen,
        config::Config,
        controller::{Controller, Installed, Review},
        lens::Lens,
        refusal::RuleReview,
        validating_policy::CompiledValidatingPolicy,
    },
    policy::{Loaded, Purpose, validate_exception, validate_in_cluster},
    value::Document,
    verdict::Status,
};
use serde_json::{Value, json};

use crate::{
    kyverno::read,
    support::{self, Gate, fixture, id, jsonl, shared, text},
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

/// What is installed besides the request.
struct Cluster<'r> {
    policies: &'r [Value],
    exceptions: &'r [Value],
    config: &'r Config,
    world: &'r World,
    discovery: &'r Discovery,
}

fn load(policies: &[Value], exceptions: &[Value]) -> Result<Loaded, String> {
    let mut loaded = Loaded::default();
    for policy in policies {
        read(&policy.to_string(), Purpose::Policies, &mut loaded);
    }
    for exception in exceptions {
        read(&exception.to_string(), Purpose::Exceptions, &mut loaded);
    }
    if loaded.policies.len() != policies.len() {
        return Err(format!("not all policies are read: {:?}", loaded.diagnostics));
    }
    Ok(loaded)
}

/// The admission controller's review of a request, or the reason why a policy cannot be installed.
fn decide(cluster: &Cluster<'_>, request: &Request) -> Result<Review, String> {
    let loaded = load(cluster.policies, cluster.exceptions)?;
    let installed = Installed {
        policies: &loaded.policies,
        exceptions: &loaded.exceptions,
        cel_exceptions: &loaded.cel_exceptions,
    };
    let (controller, refused) = Controller::new(installed, cluster.config.clone(), Lens::CLUSTER, cluster.discovery);
    match refused.into_iter().next() {
        Some(refused) => Err(refused.errors.to_string()),
        None => Ok(controller.review(request, Environment::new(cluster.world, cluster.discovery, &NoHost))),
    }
}

/// A gate's comparison of a review with the row and its observation.
type Judge = fn(&Review, &Value, &Value) -> Result<(), String>;

/// Admitted or denied.
fn same_verdict(decided: &Review, _: &Value, observed: &Value) -> Result<(), String> {
    let unsupported = |reviewed: &RuleReview| reviewed.response.status == Status::Unsupported;
    if decided.responses.iter().any(unsupported) {
        return Err("a rule is unsupported".to_owned());
    }
    let allowed = decided.refusal.is_none();
    if Some(allowed) == observed["allowed"].as_bool() {
        return Ok(());
    }
    let wanted = &observed["allowed"];
    Err(format!(
        "allowed {allowed}, observed {wanted} ({}); ours {decided:?}",
        text(observed, "message")
    ))
}

/// The client's error message with its code; rows with different verdicts belong to another gate.
fn same_text(decided: &Review, row: &Value, observed: &Value) -> Result<(), String> {
    let (Some(refusal), Some(false)) = (&decided.refusal, observed["allowed"].as_bool()) else {
        return Ok(());
    };
    let ours = masked(&refusal.message, row);
    let theirs = masked(text(observed, "message"), row);
    if ours != theirs {
        return Err(format!("ours {ours:?}, expected {theirs:?}"));
    }
    let code = observed["code"].as_u64();
    if code.is_some_and(|code| code != u64::from(refusal.code)) {
        return Err(format!("ours {}, expected {code:?}", refusal.code));
    }
    Ok(())
}

/// The message without parts that differ between requests: names that the API server generated.
fn masked(message: &str, row: &Value) -> String {
    let prefix = text(&row["request"]["object"]["metadata"], "generateName");
    if prefix.is_empty() {
        return message.to_owned();
    }
    let mut parts = message.split(prefix);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(prefix);
        let made = part.chars().take_while(char::is_ascii_alphanumeric).count();
        out.push_str(if made >= 5 {
            part.get(5..).unwrap_or_default()
        } else {
            part
        });
    }
    out
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
    // The API server generates a name before it calls webhooks.
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
    let cluster = Cluster {
        policies: &list("policies"),
        exceptions: &list("exceptions"),
        config: &config(row),
        world: &world,
        discovery,
    };
    judge(&decide(&cluster, &request)?, row, &row["observed"])
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
    let cluster = Cluster {
        policies: &list("policies"),
        exceptions: &list("exceptions"),
        config: &config(row),
        world: &world,
        discovery,
    };
    judge(&decide(&cluster, &request)?, row, &row["observed"])
}

/// Rows with Kyverno's verdict.
fn decided(row: &&Value) -> bool {
    row["observed"]["allowed"].is_boolean()
}

fn config(row: &Value) -> Config {
    if text(row, "config") == "chart" {
        Config::chart()
    } else {
        Config::bare()
    }
}

/// Rows without a verdict: a policy or an exception is rejected when it is created. The first line of the message
/// counts.
fn check_refused(row: &Value, discovery: &Discovery) -> Result<(), String> {
    let refused = row["install"].as_array().into_iter().flatten();
    let Some(theirs) = refused
        .into_iter()
        .map(|object| text(object, "message"))
        .find(|text| !text.is_empty())
    else {
        return Err("nothing is refused".to_owned());
    };
    let theirs = theirs.lines().next().unwrap_or_default();
    let list = |key: &str| row[key].as_array().cloned().unwrap_or_default();
    let loaded = load(&list("policies"), &list("exceptions"));
    let ours = match &loaded {
        Err(problem) => Some(problem.clone()),
        Ok(loaded) => {
            let classic = loaded
                .classic()
                .filter_map(|policy| validate_in_cluster(policy, &autogen::all_rules(policy), discovery).error);
            let cel = loaded.validating().filter_map(|policy| {
                let exceptions = loaded.cel_exceptions.iter().map(|exception| &**exception);
                let compiled = CompiledValidatingPolicy::compile_all(policy, exceptions, Lens::CLUSTER);
                compiled.err().map(|error| error.to_string())
            });
            let said =
                |text: String| format!("admission webhook \"validate-policy.kyverno.svc\" denied the request: {text}");
            let exceptions = loaded
                .exceptions
                .iter()
                .filter_map(|exception| validate_exception(exception));
            let exception = exceptions
                .into_iter()
                .next()
                .map(|text| format!("admission webhook \"kyverno-svc.kyverno.svc\" denied the request: {text}"));
            exception.or_else(|| classic.chain(cel).next().map(said))
        }
    };
    let ours = ours.ok_or_else(|| format!("the policy is accepted; expected {theirs:?}"))?;
    if ours.lines().next() == Some(theirs) {
        Ok(())
    } else {
        Err(format!("ours {ours:?}, expected {theirs:?}"))
    }
}

fn run_vectors(rows: &[Value], name: &str, least: usize, judge: Judge) {
    let discovery = discovery("");
    let rows: Vec<&Value> = rows.iter().filter(decided).collect();
    Gate { name, rows: least }.run(&rows, |row| id(row), |row| check_vector(row, &discovery, judge));
}

/// The messages of all rows: those of denied requests, and those of rejected policies.
fn run_texts(rows: &[Value], name: &str, least: usize) {
    let discovery = discovery("");
    let has_message = |row: &&Value| row["observed"]["allowed"] == json!(false) || row.get("observed").is_none();
    let rows: Vec<&Value> = rows.iter().filter(has_message).collect();
    Gate { name, rows: least }.run(
        &rows,
        |row| id(row),
        |row| {
            if row.get("observed").is_none() {
                check_refused(row, &discovery)
            } else {
                check_vector(row, &discovery, same_text)
            }
        },
    );
}

fn hazard_id(row: &&Value) -> String {
    let parts = [text(row, "id"), text(row, "variant"), text(row, "config")];
    let parts: Vec<&str> = parts
        .into_iter()
        .filter(|part| !part.is_empty() && *part != "bare")
        .collect();
    parts.join(" ")
}

fn run_hazards(rows: &[Value], name: &str, least: usize, judge: Judge) {
    let discovery = discovery("");
    let rows: Vec<&Value> = rows.iter().filter(decided).collect();
    Gate { name, rows: least }.run(&rows, hazard_id, |row| check_hazard(row, &discovery, judge));
}

#[test]
fn hazards() {
    if let Some(path) = shared("golden/kyverno-live/hazards.jsonl") {
        run_hazards(&jsonl(&path), "kyverno-live-hazards", 50, same_verdict);
    }
}

#[test]
fn texts_of_hazards() {
    if let Some(path) = shared("golden/kyverno-live/hazards.jsonl") {
        run_hazards(&jsonl(&path), "kyverno-live-hazard-texts", 50, same_text);
    }
}

#[test]
fn texts_of_vectors() {
    if let Some(path) = shared("golden/kyverno-live/vectors.jsonl") {
        run_texts(&jsonl(&path), "kyverno-live-texts", 850);
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

/// A policy as installed: every violation is enforced.
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

/// The upstream suites: their policies and resources.
pub(crate) struct Corpus {
    pub(crate) discovery: Discovery,
    resources: HashMap<(String, u64), Value>,
    policies: HashMap<String, Value>,
}

impl Corpus {
    /// The policy and the object of a row, as they were installed and sent.
    pub(crate) fn row(&self, row: &Value) -> Result<(Value, Value), String> {
        let policy = self.policies.get(text(row, "source")).ok_or("no policy")?;
        let of = &row["resource"];
        let place = (text(of, "file").to_owned(), of["doc"].as_u64().unwrap_or_default());
        let mut object = match self.resources.get(&place) {
            Some(object) => object.clone(),
            None => documents(&place.0)
                .into_iter()
                .nth(place.1 as usize)
                .ok_or("no resource")?,
        };
        let resource = resource_of_object(&self.discovery, &object, "").ok_or("no kind")?;
        if resource.namespaced && text(&object["metadata"], "namespace").is_empty() {
            object["metadata"]["namespace"] = json!("default");
        }
        Ok((enforced(policy.clone(), row), object))
    }
}

fn check_verdict(row: &Value, corpus: &Corpus, judge: Judge) -> Result<(), String> {
    let (policy, mut object) = corpus.row(row)?;
    let resource = resource_of_object(&corpus.discovery, &object, "").ok_or("no kind")?;
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
    let cluster = Cluster {
        policies: &[policy],
        exceptions: &[],
        config: &Config::bare(),
        world: &world,
        discovery: &corpus.discovery,
    };
    judge(&decide(&cluster, &request)?, row, row)
}

#[test]
fn verdicts() {
    run_verdicts("kyverno-live-verdicts", same_verdict);
}

#[test]
fn texts_of_verdicts() {
    run_verdicts("kyverno-live-verdict-texts", same_text);
}

fn run_verdicts(name: &str, judge: Judge) {
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
    let usable = |row: &Value| row["allowed"].is_boolean() && row.get("resource").is_some();
    let (rows, others): (Vec<_>, Vec<_>) = rows
        .iter()
        .enumerate()
        .filter(|(_, row)| usable(row))
        .partition(|(_, row)| apart.iter().all(|key| row.get(key).is_none()));
    let corpus = corpus(rows.iter().chain(&others).map(|(_, row)| *row));
    let gate = Gate { name, rows: 6500 };
    // Their suites have values, users, exceptions or outside data that the cluster did not have.
    let agree = others
        .iter()
        .filter(|(_, row)| check_verdict(row, &corpus, judge).is_ok());
    support::print_count(&format!("{name}, apart: {}/{}", agree.count(), others.len()));
    gate.run(
        &rows,
        |(line, _)| format!("line-{}", line + 1),
        |(_, row)| check_verdict(row, &corpus, judge),
    );
}

/// What the rows of `verdicts.jsonl` refer to.
pub(crate) fn corpus<'r>(rows: impl Iterator<Item = &'r Value>) -> Corpus {
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
    for row in rows {
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
    corpus
}

#[test]
fn own_rows() {
    run_hazards(
        &jsonl(&fixture("kyverno/hazards.jsonl")),
        "kyverno-live-hazards-own",
        50,
        same_verdict,
    );
    run_vectors(
        &jsonl(&fixture("kyverno/vectors.jsonl")),
        "kyverno-live-vectors-own",
        200,
        same_verdict,
    );
}
