//! The RBAC authorizer of a cluster.
//!
//! Upstream counterpart: `plugin/pkg/auth/authorizer/rbac` and `pkg/registry/rbac/validation` of kubernetes/kubernetes,
//! behind the authorizer that allows `system:masters` everything.
//!
//! Known deviations: of the default roles of a new cluster, only `cluster-admin` and those of every authenticated user
//! are built in; roles are not aggregated; bindings are evaluated in the given order, cluster-wide ones first.

use super::{Binding, request::texts};
use kyvtest_go_compat::{text::quote::quote, value::Value};

/// The group that may do everything.
const MASTERS: &str = "system:masters";

/// An access to authorise.
#[derive(Debug, Clone, Copy, Default)]
pub struct Access<'a> {
    pub user: &'a str,
    /// The user's groups.
    pub groups: &'a [String],
    pub verb: &'a str,
    /// A non-resource path; the resource fields are then ignored.
    pub path: Option<&'a str>,
    /// The API group.
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    /// Empty for all namespaces, and for cluster-scoped objects.
    pub namespace: &'a str,
    /// Empty for all objects.
    pub name: &'a str,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Authorized {
    /// Whether a rule allows it. RBAC never denies explicitly.
    pub allowed: bool,
    /// The authorizer's reason.
    pub reason: String,
}

/// A Role or ClusterRole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// `None` for a ClusterRole.
    namespace: Option<String>,
    name: String,
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Rule {
    verbs: Vec<String>,
    api_groups: Vec<String>,
    resources: Vec<String>,
    resource_names: Vec<String>,
    non_resource_urls: Vec<String>,
}

impl Role {
    /// Parses an object; `None` if it is not a role.
    pub(crate) fn from_value(object: Value<'_>) -> Option<Self> {
        let text = |path: &[&str]| object.at(path).and_then(Value::as_str).unwrap_or_default();
        if !text(&["apiVersion"]).starts_with("rbac.authorization.k8s.io/") {
            return None;
        }
        let namespace = match text(&["kind"]) {
            "Role" => Some(text(&["metadata", "namespace"]).to_owned()),
            "ClusterRole" => None,
            _ => return None,
        };
        let rules = object.get("rules").and_then(Value::as_list);
        let rules = rules.iter().flat_map(|rules| rules.iter()).map(|rule| {
            let list = |key: &str| rule.get(key).and_then(texts).unwrap_or_default();
            Rule {
                verbs: list("verbs"),
                api_groups: list("apiGroups"),
                resources: list("resources"),
                resource_names: list("resourceNames"),
                non_resource_urls: list("nonResourceURLs"),
            }
        });
        Some(Self {
            namespace,
            name: text(&["metadata", "name"]).to_owned(),
            rules: rules.collect(),
        })
    }
}

impl Role {
    /// The permissions of all users on every API server: read its health and discovery, and review their own access.
    pub(super) fn of_new_cluster() -> Vec<Self> {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<String>>();
        let role = |name: &str, rules: Vec<Rule>| Self {
            namespace: None,
            name: name.to_owned(),
            rules,
        };
        let paths = |list: &[&str]| Rule {
            verbs: texts(&["get"]),
            non_resource_urls: texts(list),
            ..Rule::default()
        };
        let create = |group: &str, resources: &[&str]| Rule {
            verbs: texts(&["create"]),
            api_groups: texts(&[group]),
            resources: texts(resources),
            ..Rule::default()
        };
        let health = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
        let documents = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"];
        vec![
            role("system:public-info-viewer", vec![paths(&health)]),
            role("system:discovery", vec![paths(&health), paths(&documents)]),
            role(
                "system:basic-user",
                vec![
                    create(
                        "authorization.k8s.io",
                        &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                    ),
                    create("authentication.k8s.io", &["selfsubjectreviews"]),
                ],
            ),
        ]
    }
}

impl Rule {
    fn allows(&self, access: &Access<'_>) -> bool {
        let one_of = |list: &[String], text: &str| list.iter().any(|item| item == "*" || item == text);
        if !one_of(&self.verbs, access.verb) {
            return false;
        }
        if let Some(path) = access.path {
            return self.non_resource_urls.iter().any(|url| {
                let prefix = url.ends_with('*').then(|| url.trim_end_matches('*'));
                url == path || prefix.is_some_and(|prefix| path.starts_with(prefix))
            });
        }
        let resource = self.resources.iter().any(|item| {
            let (main, sub) = item.split_once('/').unwrap_or((item, ""));
            item == "*" || (main == access.resource || main == "*" && !sub.is_empty()) && sub == access.subresource
        });
        resource
            && one_of(&self.api_groups, access.group)
            && (self.resource_names.is_empty() || self.resource_names.iter().any(|name| name == access.name))
    }
}

/// Evaluates the bindings and roles of a cluster.
pub(super) fn authorize(bindings: &[Binding], roles: &[Role], access: &Access<'_>) -> Authorized {
    if access.groups.iter().any(|group| group == MASTERS) {
        return Authorized {
            allowed: true,
            reason: String::new(),
        };
    }
    let cluster_wide = bindings.iter().filter(|binding| binding.namespace.is_none());
    let own = bindings.iter().filter(|binding| {
        let namespace = binding.namespace.as_deref();
        !access.namespace.is_empty() && namespace == Some(access.namespace)
    });
    let mut missing: Vec<String> = Vec::new();
    for binding in cluster_wide.chain(own) {
        let Some(subject) = binding.subject(access.user, access.groups) else {
            continue;
        };
        let in_namespace = (binding.role_kind == "Role").then_some(binding.namespace.as_deref().unwrap_or_default());
        // Given roles come later and take precedence over the default ones.
        let role = roles
            .iter()
            .rev()
            .find(|role| role.name == binding.role && role.namespace.as_deref() == in_namespace);
        let allows = match role {
            Some(role) => role.rules.iter().any(|rule| rule.allows(access)),
            None if in_namespace.is_none() && binding.role == "cluster-admin" => true,
            None => {
                let kind = binding.role_kind.to_lowercase();
                let text = format!("{kind}.rbac.authorization.k8s.io {} not found", quote(&binding.role));
                if !missing.contains(&text) {
                    missing.push(text);
                }
                false
            }
        };
        if allows {
            let (kind, name) = match &binding.namespace {
                Some(namespace) => ("RoleBinding", format!("{}/{namespace}", binding.name)),
                None => ("ClusterRoleBinding", binding.name.clone()),
            };
            let reason = format!(
                "RBAC: allowed by {kind} {} of {} {} to {subject}",
                quote(&name),
                binding.role_kind,
                quote(&binding.role)
            );
            return Authorized { allowed: true, reason };
        }
    }
    let reason = match missing.as_slice() {
        [] => String::new(),
        [one] => format!("RBAC: {one}"),
        several => format!("RBAC: [{}]", several.join(", ")),
    };
    Authorized { allowed: false, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kyvtest_go_compat::value::Document;

    #[test]
    fn roles_allow_and_bindings_say_why() {
        let group = "rbac.authorization.k8s.io/v1";
        let role = serde_json::json!({"apiVersion": group, "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": [
            {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["open"]},
            {"verbs": ["update"], "apiGroups": ["apps"], "resources": ["*/scale"]},
            {"verbs": ["get"], "nonResourceURLs": ["/healthz/*"]},
        ]});
        let binding = serde_json::json!({"apiVersion": group, "kind": "ClusterRoleBinding", "metadata": {"name": "b"},
            "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "Group", "name": "dev"}]});
        let lost = serde_json::json!({"apiVersion": group, "kind": "RoleBinding", "metadata": {"name": "l", "namespace": "n"},
            "roleRef": {"kind": "Role", "name": "gone"}, "subjects": [{"kind": "User", "name": "ann"}]});
        let roles: Vec<Role> = Role::from_value(Document::from(&role).root()).into_iter().collect();
        let bindings: Vec<Binding> = [&binding, &lost]
            .into_iter()
            .filter_map(|value| Binding::from_value(Document::from(value).root()))
            .collect();
        let groups = ["dev".to_owned()];
        let ask = |access: Access<'_>| {
            let access = Access {
                user: "ann",
                groups: &groups,
                ..access
            };
            let decision = authorize(&bindings, &roles, &access);
            (decision.allowed, decision.reason)
        };
        let because = "RBAC: allowed by ClusterRoleBinding \"b\" of ClusterRole \"r\" to Group \"dev\"".to_owned();
        let secret = |name| Access {
            verb: "get",
            resource: "secrets",
            name,
            ..Access::default()
        };
        assert_eq!(ask(secret("open")), (true, because.clone()));
        assert_eq!(ask(secret("")), (false, String::new()));
        let scale = Access {
            verb: "update",
            group: "apps",
            resource: "deployments",
            subresource: "scale",
            namespace: "n",
            ..Access::default()
        };
        assert_eq!(ask(scale), (true, because));
        let plain = Access {
            subresource: "",
            ..scale
        };
        let missing = "RBAC: role.rbac.authorization.k8s.io \"gone\" not found".to_owned();
        assert_eq!(ask(plain), (false, missing));
        let path = |path| Access {
            verb: "get",
            path: Some(path),
            ..Access::default()
        };
        assert!(ask(path("/healthz/etcd")).0 && !ask(path("/metrics")).0);
        let masters = [MASTERS.to_owned()];
        assert!(
            authorize(
                &[],
                &[],
                &Access {
                    groups: &masters,
                    ..plain
                }
            )
            .allowed
        );
    }
}
