//! Kubernetes' CEL libraries: the results of Kubernetes 1.36.4, row by row: value and cost, or the error message.

use kyvtest::{
    cel::{
        host::{Attributes, Decision, Host},
        profile::Profile,
        query::{Authorizer, Query, QueryResult, run_query_with},
    },
    value::Document,
};
use serde::Deserialize;

use crate::support::{Gate, fixture, jsonl, read};

#[derive(Debug, Deserialize)]
struct Row {
    expr: String,
    value: Option<String>,
    error: Option<String>,
    cost: Option<u64>,
}

/// The authorizer of the rows: allows `get`, fails at `fail`, and returns the attributes as its reason.
struct Echo;

impl Host for Echo {
    fn authorize(&self, attributes: &Attributes) -> Option<Decision> {
        let user = match &attributes.service_account {
            Some((namespace, name)) => format!("system:serviceaccount:{namespace}:{name}"),
            None => "u".to_owned(),
        };
        let said: [&str; 8] = [
            &user,
            attributes.path.as_deref().unwrap_or_default(),
            &attributes.verb,
            &attributes.group,
            &attributes.resource,
            &attributes.subresource,
            &attributes.namespace,
            &attributes.name,
        ];
        Some(Decision {
            allowed: attributes.verb == "get",
            reason: said.join("|"),
            error: (attributes.verb == "fail").then(|| "no answer".to_owned()),
        })
    }
}

fn check(row: &Row, request: &Document) -> Result<(), String> {
    let mut query = Query::new(&row.expr, Profile::kubernetes());
    query.authorizer = Authorizer::Bound;
    query.request = Some(request);
    query.cost_limit = Some(100_000_000);
    let got = match run_query_with(&query, &Echo) {
        QueryResult::Value { value, cost, .. } => (Some(value), None, cost),
        QueryResult::Failed { error, .. } => (None, Some(error), None),
        QueryResult::Refused(error) => (None, Some(error.first_line()), None),
    };
    let want = (row.value.clone(), row.error.clone(), row.cost);
    if got == want {
        Ok(())
    } else {
        Err(format!("want {want:?}\n    got  {got:?}"))
    }
}

fn table(name: &str, rows: usize) {
    let request = Document::from_json(&read(&fixture("cel/kubernetes/request.json"))).expect("the request is JSON");
    let data: Vec<Row> = jsonl(&fixture(&format!("cel/kubernetes/{name}.jsonl")));
    let gate = format!("cel-kubernetes-{name}");
    Gate { name: &gate, rows }.run(&data, |row| row.expr.clone(), |row| check(row, &request));
}

#[test]
fn url() {
    table("url", 56);
}

#[test]
fn quantity() {
    table("quantity", 40);
}

#[test]
fn ip() {
    table("ip", 40);
}

#[test]
fn cidr() {
    table("cidr", 40);
}

#[test]
fn semver() {
    table("semver", 40);
}

#[test]
fn format() {
    table("format", 50);
}

#[test]
fn authorizer() {
    table("authz", 34);
}
