//! A test of one resource, read as `kyverno test` loads its files.
//!
//! Upstream counterpart: the loading half of `cmd/cli/kubectl-kyverno/commands/test/test.go` (1.19).

use super::{
    resource::{BuiltInScopes, Resource, Scopes, resource},
    values::GivenValues,
};
use kyvtest_go_compat::{
    diagnostic::Sources,
    value::{List, Value},
    yaml,
};
use kyvtest_model::{
    kube::{Operation, UserInfo},
    policy::{Loaded, Origin, Purpose, load, place},
};

/// Policies, exceptions and objects of a test of one resource.
#[derive(Debug)]
pub struct Case {
    /// The policies, in load order.
    pub policies: Loaded,
    /// The exceptions, in load order.
    pub exceptions: Loaded,
    /// The resource.
    pub resource: Resource,
    /// `targetResources`.
    pub targets: Vec<Resource>,
    /// The `values` block.
    pub values: GivenValues,
    /// The operation of the test row; `None` leaves it to the values, else it is CREATE.
    pub operation: Option<Operation>,
    /// The user; the default is no user.
    pub user: UserInfo,
    /// `roles` of the user info file.
    pub roles: Option<Vec<String>>,
    /// `clusterRoles` of the user info file.
    pub cluster_roles: Option<Vec<String>>,
}

impl Case {
    /// Reads a test with the keys `policies` or `policy`, `exceptions`, `resource`, `targets`, `values`, `userInfo` and
    /// `operation`. Policies and exceptions are objects or texts.
    ///
    /// # Errors
    /// If there is no resource with a kind, or the operation is unknown.
    pub fn read(row: Value<'_>) -> Result<Self, String> {
        let part = |key: &str| row.get(key).unwrap_or(Value::Null);
        let (mut policies, mut exceptions) = (Loaded::default(), Loaded::default());
        for policy in listed(part("policies")).chain(given(part("policy"))) {
            read_policy(policy, Purpose::Policies, &mut policies);
        }
        for exception in listed(part("exceptions")) {
            read_policy(exception, Purpose::Exceptions, &mut exceptions);
        }
        let resource = read_resource(part("resource")).ok_or("the case has no `resource` with a kind")?;
        let operation = match part("operation").as_str() {
            Some(word) => Some(word.parse().map_err(|_| format!("unknown operation `{word}`"))?),
            None => None,
        };
        let user = part("userInfo");
        let texts = |key: &str| {
            let list = user.get(key).and_then(Value::as_list)?;
            Some(
                list.iter()
                    .filter_map(|text| text.as_str().map(str::to_owned))
                    .collect(),
            )
        };
        let mut values = GivenValues::new(part("values"), &resource.name);
        values.operation = operation.or_else(|| values.operation()).unwrap_or(Operation::Create);
        Ok(Self {
            policies,
            exceptions,
            targets: listed(part("targets")).filter_map(read_resource).collect(),
            values,
            operation,
            user: user.get("userInfo").map(UserInfo::from_value).unwrap_or_default(),
            roles: texts("roles"),
            cluster_roles: texts("clusterRoles"),
            resource,
        })
    }
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
    let file = Sources::new().add("policies.yaml", text.as_str());
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
