//! Gates of Kyverno's matching: classic rules, kind selectors, and path witnesses of both kinds of policies.

use std::sync::Arc;

use kyvtest::{
    diagnostic::Sources,
    kube::{
        Concrete, Discovery, Facts, GroupVersionKind, GroupVersionResource, Namespace, Operation, Operations, Request,
        RequestClass, Resource, UserInfo, guess_plural,
    },
    kyverno::{
        constraints,
        matching::{Selection, applies, exempts, explain, kind_matches},
    },
    policy::{KindSelector, MatchConstraints, MatchResources, split_kind},
    prove::{solver::Solver, symbolic::follow},
    value::Document,
    vap::matching as native,
};
use serde_json::{Value, json};

use crate::support::{Gate, id, jsonl, read, shared, text};

fn strings(value: Option<&Value>) -> Option<Vec<String>> {
    let list = value?.as_array()?;
    Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

fn block(value: &Value) -> Result<MatchResources, String> {
    let (block, diagnostics) = MatchResources::from_value(Document::from(value).root());
    block.ok_or_else(|| format!("not read: {diagnostics:?}"))
}

fn labels(value: Option<&Value>) -> Vec<(&str, &str)> {
    let entries = value.and_then(Value::as_object);
    entries
        .iter()
        .flat_map(|entries| entries.iter())
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
        .collect()
}

/// A resource as a request names it: the kind that is matched, and the kind of the object.
fn resource(gvk: &Value, subresource: &str, object_kind: &str) -> Resource {
    let kind = GroupVersionKind::new(text(gvk, "group"), text(gvk, "version"), text(gvk, "kind"));
    let mut resource = Resource::main(&kind, &guess_plural(&kind.kind), true);
    subresource.clone_into(&mut resource.subresource);
    object_kind.clone_into(&mut resource.object_kind.kind);
    resource
}

fn check_match(row: &Value) -> Result<(), String> {
    let rule = &row["rule"];
    let matches = block(rule.get("match").unwrap_or(&json!({})))?;
    let exclude = rule.get("exclude").map(block).transpose()?;
    let operation: Operation = text(row, "operation").parse().map_err(|_| "operation")?;
    let object = row.get("resource").map_or_else(Document::null, Document::from);
    let object_kind = row.get("resource").map_or("", |object| text(object, "kind"));
    let resource = Arc::new(resource(&row["gvk"], text(row, "subresource"), object_kind));
    let mut request = Request::about(operation, resource, object);
    if let Some(info) = row.get("info") {
        if let Some(user) = info.get("userInfo") {
            request.user = UserInfo::from_value(Document::from(user).root());
        }
        request.roles = strings(info.get("roles"));
        request.cluster_roles = strings(info.get("clusterRoles"));
    }
    let namespace = Namespace::with_labels("n", labels(row.get("namespaceLabels")));
    let mut facts = Concrete::new(&request, Some(&namespace));
    let cell = request.cell();
    let selection = Selection {
        matches: &matches,
        exclude: exclude.as_ref(),
        policy_namespace: text(row, "policyNamespace"),
    };
    let answer = explain(selection, &cell, &mut facts);
    let short = applies(selection, &cell, &mut facts);
    if short != answer.is_ok() {
        return Err(format!("the verdict is {short}, the explanation says otherwise"));
    }
    let reasons = answer.err().map(|mismatch| mismatch.text(text(rule, "name")));
    let wanted = row.get("reasons").and_then(Value::as_str);
    if Some(short) != row["matched"].as_bool() || reasons.as_deref() != wanted {
        return Err(format!(
            "matched {short} for {}, {reasons:?} for {wanted:?}",
            row["matched"]
        ));
    }
    Ok(())
}

fn check_kind(row: &Value) -> Result<(), String> {
    let selector = KindSelector::parse(text(row, "selector"));
    let (version, kind) = split_kind(text(row, "selector"));
    let checks = row["checks"].as_array().ok_or("no checks")?;
    let matches: Vec<bool> = checks
        .iter()
        .map(|check| kind_matches(&selector, &resource(check, text(check, "subresource"), ""), true))
        .collect();
    let answer = json!({
        "group": selector.group, "version": selector.version, "kind": selector.kind,
        "subresource": selector.subresource, "kindFromGVK": [version, kind], "matches": matches,
    });
    let wanted = answer.as_object().ok_or("no answer")?;
    for (key, value) in wanted {
        if row.get(key) != Some(value) {
            return Err(format!("{key} is {value}, not {}", row[key]));
        }
    }
    Ok(())
}

/// The row without empty values, which the file uses for unset.
fn prune(value: &Value) -> Option<Value> {
    let pruned = match value {
        Value::Object(map) => {
            let entries = map.iter().filter_map(|(key, value)| Some((key.clone(), prune(value)?)));
            Value::Object(entries.collect())
        }
        Value::Array(list) => Value::Array(list.iter().filter_map(prune).collect()),
        other => other.clone(),
    };
    let empty = match &pruned {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    (!empty).then_some(pruned)
}

fn object(row: &Value, labels: &str, annotations: &str) -> Document {
    let (res, w) = (&row["res"], &row["w"]);
    let mut metadata = json!({"name": w["name"], "labels": w[labels], "annotations": w[annotations]});
    if res["namespaced"] == true {
        metadata["namespace"] = w["ns"].clone();
    }
    Document::from(&json!({"kind": res["objKind"], "metadata": metadata}))
}

fn witness(row: &Value) -> Result<(Request, Namespace), String> {
    let (res, w) = (&row["res"], &row["w"]);
    let operation: Operation = text(row, "op").parse().map_err(|_| "operation")?;
    let resource = Resource {
        group: text(res, "group").to_owned(),
        version: text(res, "version").to_owned(),
        plural: text(res, "resource").to_owned(),
        subresource: text(res, "sub").to_owned(),
        kind: text(res, "kind").to_owned(),
        object_kind: GroupVersionKind::new(text(res, "group"), text(res, "version"), text(res, "objKind")),
        namespaced: res["namespaced"] == true,
        operations: Operations::NONE,
        guessed: false,
    };
    let mut request = Request::about(operation, Arc::new(resource), Document::null());
    text(w, "name").clone_into(&mut request.name);
    text(w, "ns").clone_into(&mut request.namespace);
    let (new, old) = (object(row, "newLabels", "newAnn"), object(row, "oldLabels", "oldAnn"));
    match operation {
        Operation::Create => request.object = new,
        Operation::Update => (request.object, request.old_object) = (new, old),
        Operation::Delete => request.old_object = old,
        Operation::Connect => request.object = Document::from(&json!({"kind": res["objKind"]})),
    }
    text(w, "user").clone_into(&mut request.user.username);
    request.user.groups = strings(w.get("groups"));
    request.roles = strings(w.get("roles"));
    request.cluster_roles = strings(w.get("clusterRoles"));
    Ok((
        request,
        Namespace::with_labels(text(w, "ns"), labels(w.get("nsLabels"))),
    ))
}

/// Both sides of a row as functions of facts.
struct Pair {
    rule: Option<(MatchResources, MatchResources, Vec<MatchResources>)>,
    constraints: Option<MatchConstraints>,
    native: MatchConstraints,
}

impl Pair {
    fn read(row: &Value) -> Result<Self, String> {
        let block = |value: &Value| block(&prune(value).unwrap_or_else(|| json!({})));
        let constraints = |value: &Value| {
            let (constraints, diagnostics) = MatchConstraints::from_value(Document::from(value).root());
            constraints.ok_or_else(|| format!("not read: {diagnostics:?}"))
        };
        let rule = &row["rule"];
        let exceptions = rule.get("exceptions").and_then(Value::as_array);
        let exceptions: Result<Vec<_>, _> = exceptions.into_iter().flatten().map(block).collect();
        Ok(Self {
            rule: if row["vpol"].is_null() {
                Some((block(&rule["match"])?, block(&rule["exclude"])?, exceptions?))
            } else {
                None
            },
            constraints: (!row["vpol"].is_null())
                .then(|| constraints(&row["vpol"]))
                .transpose()?,
            native: constraints(&row["vap"])?,
        })
    }

    fn kyverno<'p>(&'p self, cell: &RequestClass<'_>, facts: &mut impl Facts<'p>) -> Result<bool, String> {
        if let Some(constraints) = &self.constraints {
            return constraints::applies(constraints, cell, facts).map_err(|error| error.to_string());
        }
        let Some((matches, exclude, exceptions)) = &self.rule else {
            return Err("no rule".to_owned());
        };
        let selection = Selection {
            matches,
            exclude: Some(exclude),
            policy_namespace: "",
        };
        Ok(applies(selection, cell, facts) && !exceptions.iter().any(|exception| exempts(exception, cell, facts)))
    }

    fn native<'p>(&'p self, cell: &RequestClass<'_>, facts: &mut impl Facts<'p>) -> Result<bool, String> {
        match native::matches(&self.native, cell, &[], facts) {
            Ok(native::Match::Yes(_)) => Ok(cell.resource.reaches_native_policies()),
            Ok(native::Match::No(_)) => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn check_witness(row: &Value) -> Result<(), String> {
    let (request, namespace) = witness(row)?;
    let in_namespace = (!request.namespace.is_empty()).then_some(&namespace);
    let pair = Pair::read(row)?;
    let answer = pair.kyverno(&request.cell(), &mut Concrete::new(&request, in_namespace))?;
    if Some(answer) == row["k"].as_bool() {
        Ok(())
    } else {
        Err(format!("applies: {answer}, not {}", row["k"]))
    }
}

/// The file treats a wildcard literally that no server would accept.
fn is_refused(row: &Value) -> bool {
    text(row, "case").starts_with("G8-selector-wildcard")
}

/// The same for the API server's side.
fn check_native_witness(row: &Value) -> Result<(), String> {
    let (request, namespace) = witness(row)?;
    let in_namespace = (!request.namespace.is_empty()).then_some(&namespace);
    let pair = Pair::read(row)?;
    let answer = match pair.native(&request.cell(), &mut Concrete::new(&request, in_namespace)) {
        Err(_) if is_refused(row) => return Ok(()),
        answer => answer?,
    };
    if Some(answer) == row["v"].as_bool() {
        Ok(())
    } else {
        Err(format!("applies: {answer}, not {}", row["v"]))
    }
}

/// Both sides under symbolic facts, along the path of the request: the same answers, each of which is possible.
fn check_path(row: &Value) -> Result<(), String> {
    let (request, namespace) = witness(row)?;
    // The stored labels of a Namespace are those of the old object, and a new one has none, regardless of the row.
    let stored = match request.operation {
        _ if request.resource.kind != "Namespace" => namespace,
        Operation::Create => Namespace::minimal(&request.namespace),
        _ => Namespace::with_labels(&request.namespace, labels(row["w"].get("oldLabels"))),
    };
    let in_namespace = (!request.namespace.is_empty()).then(|| stored.labelled());
    let pair = Pair::read(row)?;
    let cell = request.cell();
    let mut solver = Solver::default();
    let mut concrete = Concrete::new(&request, in_namespace.as_ref());
    let answers = follow(&mut solver, &cell, &mut concrete, |facts| {
        (pair.kyverno(&cell, facts), pair.native(&cell, facts))
    })?;
    let native = match answers.1 {
        Err(_) if is_refused(row) => row["v"].as_bool(),
        answer => Some(answer?),
    };
    if (Some(answers.0?), native) == (row["k"].as_bool(), row["v"].as_bool()) {
        Ok(())
    } else {
        Err("the path ends elsewhere".to_owned())
    }
}

fn check_constraints(row: &Value) -> Result<(), String> {
    let (constraints, diagnostics) = MatchConstraints::from_value(Document::from(&row["constraints"]).root());
    let constraints = constraints.ok_or_else(|| format!("not read: {diagnostics:?}"))?;
    let (gvr, namespace) = (&row["gvr"], text(row, "namespace"));
    let kind = GroupVersionKind::new(text(gvr, "group"), text(gvr, "version"), "K");
    let mut resource = Resource::main(&kind, text(gvr, "resource"), !namespace.is_empty());
    text(row, "subresource").clone_into(&mut resource.subresource);
    let operation: Operation = text(row, "operation").parse().map_err(|_| "operation")?;
    let mut request = Request::about(operation, Arc::new(resource), Document::null());
    text(row, "name").clone_into(&mut request.name);
    namespace.clone_into(&mut request.namespace);
    let part = |key| row.get(key).map_or_else(Document::null, Document::from);
    (request.object, request.old_object) = (part("object"), part("oldObject"));
    let of_namespace = match row.get("nsLabels") {
        Some(given) => Namespace::with_labels(namespace, labels(Some(given))),
        None => Namespace::minimal(namespace),
    };
    let mut facts = Concrete::new(&request, Some(&of_namespace));
    let answer = match constraints::applies(&constraints, &request.cell(), &mut facts) {
        Ok(answer) => answer.to_string(),
        Err(error) => error.to_string(),
    };
    if answer == text(row, "answer") {
        Ok(())
    } else {
        Err(format!("{answer}, not {}", text(row, "answer")))
    }
}

#[test]
fn matching_constraints() {
    Gate::new("matching-constraints", 360).fixture("classic/constraints.jsonl", id, check_constraints);
}

#[test]
fn matching_classic() {
    Gate::new("matching-classic", 2507).shared("golden/classic/match.jsonl", id, check_match);
}

#[test]
fn matching_kinds() {
    Gate::new("matching-kinds", 80).shared("golden/classic/kindselector.jsonl", id, check_kind);
}

#[test]
fn matching_own() {
    Gate::new("matching-own", 491).fixture("classic/match.jsonl", id, check_match);
    Gate::new("matching-own-kinds", 80).fixture("classic/kindselector.jsonl", id, check_kind);
}

/// Describes a resource of a table in one line.
fn line(resource: &Resource) -> String {
    format!(
        "{} {} {} {} {} {}",
        resource.gvr(),
        resource.subresource,
        resource.kind,
        resource.object_kind.kind,
        resource.namespaced,
        resource
            .operations
            .iter()
            .map(Operation::as_str)
            .collect::<Vec<_>>()
            .join(",")
    )
}

#[test]
fn matching_discovery() {
    let discovery = Discovery::kubernetes();
    if let Some(path) = shared("golden/apiserver/discovery.tsv") {
        let file = Sources::new().add("discovery.tsv", "");
        let served = Discovery::from_tsv(&read(&path), file).expect("a table");
        let gate = Gate::new("matching-discovery", 110);
        let rows: Vec<Arc<Resource>> = discovery.iter().cloned().collect();
        gate.run(
            &rows,
            |row| line(row),
            |row| match served.by_resource(&row.gvr(), &row.subresource) {
                Some(other) if other == row => Ok(()),
                other => Err(format!("served as {other:?}")),
            },
        );
    }
    if let Some(path) = shared("proto/matchproof/universe.json") {
        let rows: Vec<Value> = serde_json::from_str(&read(&path)).expect("JSON");
        // Beside what Kubernetes serves it has one unknown kind of each scope.
        let mut discovery = discovery;
        for (kind, namespaced) in [("Widget", true), ("ClusterWidget", false)] {
            discovery.add_guess(&GroupVersionKind::new("crd.example.com", "v1", kind), namespaced);
        }
        // Served by a later version only.
        let rows: Vec<Value> = rows
            .into_iter()
            .filter(|row| text(row, "group") != "storagemigration.k8s.io")
            .collect();
        let gate = Gate::new("matching-universe", 106);
        let name =
            |row: &Value| GroupVersionResource::new(text(row, "group"), text(row, "version"), text(row, "resource"));
        gate.run(
            &rows,
            |row| format!("{} {}", name(row), text(row, "sub")),
            |row| {
                let found = discovery
                    .by_resource(&name(row), text(row, "sub"))
                    .ok_or("not served")?;
                let operations = strings(row.get("ops")).unwrap_or_default().join(",");
                let wanted = format!(
                    "{} {} {} {} {} {operations}",
                    name(row),
                    text(row, "sub"),
                    text(row, "kind"),
                    text(row, "objKind"),
                    row["namespaced"],
                );
                if line(found) != wanted {
                    return Err(format!("{} for {wanted}", line(found)));
                }
                if Some(!found.reaches_native_policies()) != row["vapExcluded"].as_bool() {
                    return Err("exempt".to_owned());
                }
                Ok(())
            },
        );
    }
}

#[test]
fn matching_witnesses() {
    if let Some(path) = shared("golden/match/vectors.jsonl") {
        let rows: Vec<(usize, Value)> = jsonl(&path).into_iter().enumerate().collect();
        let gate = Gate::new("matching-witnesses", 2000);
        let id = |(line, row): &(usize, Value)| format!("{}@{}", text(row, "case"), line + 1);
        gate.run(&rows, id, |(_, row)| check_witness(row));
        Gate::new("matching-native-witnesses", 2000).run(&rows, id, |(_, row)| check_native_witness(row));
        Gate::new("matching-paths", 2000).run(&rows, id, |(_, row)| check_path(row));
    }
}
