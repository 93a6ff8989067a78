//! The Kyverno engine as its command line runs it: whole classic rules.

use std::sync::Arc;

use kyvtest::{
    cel::host::NoHost,
    diagnostic::Sources,
    kube::{Discovery, GroupVersionKind, Operation, Request, Roles, UserInfo, World},
    kyverno::{autogen, classic_policy::CompiledClassicPolicy, exception::CompiledException, input::Input, lens::Lens},
    policy::{Loaded, Purpose, load, validate},
    value::Document,
    verdict::Status,
    yaml,
};
use serde_json::Value;

use crate::support::{Gate, id, same, text};

/// Reads policies or exceptions from text.
pub(crate) fn read(text: &str, purpose: Purpose, loaded: &mut Loaded) {
    let file = Sources::new().add("policy.yaml", text);
    let stream = yaml::read(text, yaml::Mode::Lax, &yaml::Limits::default());
    load(stream, file, purpose, loaded);
}

fn check(row: &Value) -> Result<(), String> {
    let mut loaded = Loaded::default();
    read(text(row, "policy"), Purpose::Policies, &mut loaded);
    for exception in row["exceptions"].as_array().into_iter().flatten() {
        let exception = exception.as_str().map_or_else(|| exception.to_string(), str::to_owned);
        read(&exception, Purpose::Exceptions, &mut loaded);
    }
    let policy = loaded.classic().next().ok_or("no policy")?;
    if let Some(expected) = row.get("invalidPolicy") {
        let ours = validate(policy, &autogen::all_rules(policy)).error;
        return if ours.as_deref() == expected.as_str() {
            Ok(())
        } else {
            Err(format!("policy: ours {ours:?}, expected {expected}"))
        };
    }
    let resource = &row["resource"];
    let kind = GroupVersionKind::from_api_version(text(resource, "apiVersion"), text(resource, "kind"));
    let mut discovery = Discovery::kubernetes();
    discovery.add_guess(&kind, true);
    let served = discovery
        .by_kind(&kind.group, &kind.version, &kind.kind)
        .ok_or("no kind")?;
    let operation: Operation = text(row, "operation").parse().map_err(|_| "operation")?;
    let mut request = Request::about(operation, Arc::clone(served), Document::from(resource));
    if operation == Operation::Update {
        request.old_object = Document::from(row.get("oldResource").unwrap_or(resource));
    }
    if let Some(info) = row.get("info") {
        let info = Document::from(info);
        if let Some(user) = info.root().get("userInfo") {
            request.user = UserInfo::from_value(user);
        }
        let roles = Roles::from_value(info.root());
        (request.roles, request.cluster_roles) = (roles.roles, roles.cluster_roles);
    }
    let world = World::new();
    let input = Input::new(&request, &world, &discovery, Lens::CLI);
    let exceptions: Vec<CompiledException> = loaded.exceptions.iter().map(|e| CompiledException::new(e)).collect();
    let response = CompiledClassicPolicy::new(Arc::clone(policy)).decide(&input, &exceptions, &NoHost);
    let ours: Vec<(String, &str, String)> = response
        .rules
        .iter()
        .map(|rule| (rule.rule.clone(), rule.status.as_str(), rule.message.clone()))
        .collect();
    let theirs: Vec<(String, &str, String)> = row["rules"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|rule| {
            (
                text(rule, "rule").to_owned(),
                text(rule, "status"),
                text(rule, "message").to_owned(),
            )
        })
        .collect();
    same(&ours, &theirs)
}

#[test]
fn classic_rules() {
    Gate::new("kyverno-rule", 617).shared("golden/classic/rule.jsonl", id, check);
    Gate::new("kyverno-rule-own", 227).fixture("classic/rule.jsonl", id, check);
}

#[test]
fn statuses_have_the_words_of_reports() {
    assert_eq!(format!("{:>5}|{}", Status::Pass, Status::NoMatch), " pass|no-match");
}
