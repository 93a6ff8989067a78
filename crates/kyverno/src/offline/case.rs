//! A small test, read as `kyverno test` loads its files.
//!
//! Upstream counterpart: the loading half of `cmd/cli/kubectl-kyverno/commands/test/test.go` (1.19).

use super::{
    resource::{BuiltInScopes, Resource, Scopes, resource},
    surroundings::Surroundings,
    values::GivenValues,
};
use kyvtest_go_compat::{
    diagnostic::Sources,
    value::{Document, List, Value},
    yaml,
};
use kyvtest_model::{
    kube::UserInfo,
    policy::{Loaded, Origin, PolicyId, Purpose, load, place},
};

/// Policies, exceptions and objects of a test.
#[derive(Debug)]
pub struct Case {
    /// The file of the policies, as texts name it.
    pub file: &'static str,
    /// Whether the case is for `kyverno apply`, which alone evaluates CleanupPolicies.
    pub applies: bool,
    /// The policies, in load order.
    pub policies: Loaded,
    /// The exceptions, in load order.
    pub exceptions: Loaded,
    /// `resources`, without duplicates.
    pub resources: Vec<Resource>,
    /// Whether images are treated as in a cluster: tags are replaced by digests before policies verify them.
    pub in_cluster: bool,
    /// `jsonPayloads`: one payload at most.
    pub payload: Option<Document>,
    /// `targetResources`.
    pub targets: Vec<Resource>,
    /// The objects that generate rules clone.
    pub clone_sources: Vec<CloneSource>,
    /// What the suite says of the world outside.
    pub surroundings: Surroundings,
    /// The `values` block.
    pub values: GivenValues,
    /// The operation of the test rows as written; `None` leaves it to the values, else it is CREATE.
    pub operation: Option<String>,
    /// The user; by default none.
    pub user: UserInfo,
    /// `roles` of the user info file.
    pub roles: Option<Vec<String>>,
    /// `clusterRoles` of the user info file.
    pub cluster_roles: Option<Vec<String>>,
}

/// The objects of a file that `cloneSourceResource` names.
#[derive(Debug)]
pub struct CloneSource {
    /// The policy and the rule that clone from it; `None` means every rule.
    pub rule: Option<(PolicyId, String)>,
    pub objects: Vec<Resource>,
}

impl Case {
    /// Reads a test with the keys `policies` or `policy`, `exceptions`, `resource`, `jsonPayload`, `targets`, `cloneSource`,
    /// `clusterResources`, `context`, `apiCallResponses`, `globalContextEntries`, `values`, `userInfo` and `operation`.
    /// Policies and exceptions are objects or texts; `resource` is an object or a list of objects. `command` may be `apply`.
    /// `imageMocks` are those of a sidecar, which `kyverno test` does not know.
    ///
    /// # Errors
    /// If there is neither a payload nor a resource with a kind.
    pub fn read(row: Value<'_>) -> Result<Self, String> {
        let part = |key: &str| row.get(key).unwrap_or(Value::Null);
        let (mut policies, mut exceptions) = (Loaded::default(), Loaded::default());
        for policy in listed(part("policies")).chain(given(part("policy"))) {
            read_policy(policy, Purpose::Policies, &mut policies);
        }
        for exception in listed(part("exceptions")) {
            read_policy(exception, Purpose::Exceptions, &mut exceptions);
        }
        let payload = part("jsonPayload");
        let payload = (!payload.is_null()).then(|| payload.to_document());
        let resources = match part("resource") {
            Value::List(items) => unique(items.iter().filter_map(read_resource)),
            object => unique(read_resource(object)),
        };
        if resources.is_empty() && payload.is_none() {
            return Err("the case has no `resource` with a kind".to_owned());
        }
        let user = part("userInfo");
        let texts = |key: &str| {
            let list = user.get(key).and_then(Value::as_list)?;
            Some(
                list.iter()
                    .filter_map(|text| text.as_str().map(str::to_owned))
                    .collect(),
            )
        };
        let sources = part("cloneSource");
        let mut surroundings = Surroundings::read(row);
        surroundings.read_image_mocks(part("imageMocks"))?;
        Ok(Self {
            file: if part("policies").is_null() {
                "policy.yaml"
            } else {
                "policies.yaml"
            },
            applies: part("command").as_str() == Some("apply"),
            policies,
            exceptions,
            resources,
            in_cluster: false,
            payload,
            targets: listed(part("targets")).filter_map(read_resource).collect(),
            clone_sources: given(sources)
                .map(|sources| CloneSource {
                    rule: None,
                    objects: listed(sources).filter_map(read_resource).collect(),
                })
                .collect(),
            values: GivenValues::new(part("values"), surroundings.given()),
            surroundings,
            operation: part("operation").as_str().map(str::to_owned),
            user: user.get("userInfo").map(UserInfo::from_value).unwrap_or_default(),
            roles: texts("roles"),
            cluster_roles: texts("clusterRoles"),
        })
    }
}

/// The first of each apiVersion, kind, namespace and name.
fn unique(resources: impl IntoIterator<Item = Resource>) -> Vec<Resource> {
    let mut kept: Vec<Resource> = Vec::new();
    for resource in resources {
        let same = |other: &Resource| {
            (&other.api_version, &other.kind, &other.namespace, &other.name)
                == (
                    &resource.api_version,
                    &resource.kind,
                    &resource.namespace,
                    &resource.name,
                )
        };
        if !kept.iter().any(same) {
            kept.push(resource);
        }
    }
    kept
}

fn given(value: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    (!value.is_null()).then_some(value).into_iter()
}

/// The items of a list; a text is a list of one.
fn listed(value: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    let items = value.as_list().into_iter().flat_map(List::iter);
    let single = value.as_str().is_some().then_some(value);
    items.chain(single)
}

fn read_policy(policy: Value<'_>, purpose: Purpose, loaded: &mut Loaded) {
    let text = match policy {
        Value::String(text) => text.to_owned(),
        object => object.to_json(),
    };
    let file = Sources::new().add("policy.yaml", text.as_str());
    let stream = yaml::read(&text, yaml::Mode::Lax, &yaml::Limits::default());
    load(stream, file, purpose, loaded);
}

/// Reads a resource as the loader does: namespace and empty maps filled in. `None` if it has no kind.
fn read_resource(object: Value<'_>) -> Option<Resource> {
    let text = match object {
        Value::String(text) => text.to_owned(),
        object => object.to_json(),
    };
    let file = Sources::new().add("resources.yaml", text.as_str());
    let tree = yaml::read_first(&text, yaml::Mode::Lax, &yaml::Limits::default()).ok()?;
    let root = tree.root();
    let origin = Origin {
        file,
        document: 0,
        span: place(file, root.span()),
    };
    resource(
        root,
        None,
        &|group, kind| BuiltInScopes.is_cluster_wide(group, kind),
        origin,
    )
}
