//! The roles of a user, from the bindings of a cluster.
//!
//! Upstream counterpart: Kyverno's `pkg/userinfo/roleRef.go`. Roles of every namespace count, regardless of the
//! request's namespace; a cluster role from a RoleBinding counts in the binding's namespace only.

use super::{UserInfo, request::texts};
use kyvtest_go_compat::{text::quote::quote, value::Value};

/// A RoleBinding, or a ClusterRoleBinding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    pub name: String,
    /// `None` for a ClusterRoleBinding.
    pub namespace: Option<String>,
    /// The kind of the bound role: `Role` or `ClusterRole`.
    pub(crate) role_kind: String,
    /// The name of the bound role.
    pub(crate) role: String,
    subjects: Vec<Subject>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Subject {
    who: Who,
    /// The authorizer's description.
    shown: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Who {
    User(String),
    Group(String),
}

/// Roles and cluster roles of a user, sorted, each once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Roles {
    /// Roles, `namespace:name`; `None` if there is none.
    pub roles: Option<Vec<String>>,
    /// Cluster roles; `None` if there is none.
    pub cluster_roles: Option<Vec<String>>,
}

impl Binding {
    /// A ClusterRoleBinding of a cluster role to the group of the same name.
    pub(super) fn of_group(role: &str, group: &str) -> Self {
        Self {
            name: role.to_owned(),
            namespace: None,
            role_kind: "ClusterRole".to_owned(),
            role: role.to_owned(),
            subjects: vec![Subject {
                who: Who::Group(group.to_owned()),
                shown: format!("Group {}", quote(group)),
            }],
        }
    }

    /// Parses an object; `None` if it is not a binding.
    pub fn from_value(object: Value<'_>) -> Option<Self> {
        let text = |value: Value<'_>, path: &[&str]| {
            let found = value.at(path).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        let api_version = text(object, &["apiVersion"]);
        if !api_version.starts_with("rbac.authorization.k8s.io/") {
            return None;
        }
        let namespace = match object.get("kind").and_then(Value::as_str)? {
            "RoleBinding" => Some(text(object, &["metadata", "namespace"])),
            "ClusterRoleBinding" => None,
            _ => return None,
        };
        let subjects = object.get("subjects").and_then(Value::as_list);
        let subjects = subjects
            .iter()
            .flat_map(|subjects| subjects.iter())
            .filter_map(|subject| {
                let name = text(subject, &["name"]);
                let kind = subject.get("kind").and_then(Value::as_str)?;
                let mut shown = format!("{kind} {}", quote(&name));
                let who = match kind {
                    "User" => Who::User(name),
                    "Group" => Who::Group(name),
                    "ServiceAccount" => {
                        let own = text(subject, &["namespace"]);
                        let namespace = Some(own)
                            .filter(|own| !own.is_empty())
                            .or_else(|| namespace.clone())
                            .filter(|namespace| !namespace.is_empty())?;
                        shown = format!("{kind} {}", quote(&format!("{name}/{namespace}")));
                        Who::User(format!("system:serviceaccount:{namespace}:{name}"))
                    }
                    _ => return None,
                };
                Some(Subject { who, shown })
            })
            .collect();
        Some(Self {
            name: text(object, &["metadata", "name"]),
            role_kind: text(object, &["roleRef", "kind"]),
            role: text(object, &["roleRef", "name"]),
            namespace,
            subjects,
        })
    }

    fn is_for(&self, user: &UserInfo) -> bool {
        self.subject(&user.username, user.groups()).is_some()
    }

    /// The authorizer's name for a user, or for a group of the user, if the binding has it as a subject.
    pub fn subject(&self, user: &str, groups: &[String]) -> Option<&str> {
        let found = self.subjects.iter().find(|subject| match &subject.who {
            Who::User(name) => name == user,
            Who::Group(name) => groups.contains(name),
        });
        found.map(|subject| subject.shown.as_str())
    }
}

impl Roles {
    /// The roles that the bindings of a cluster give a user for a request in a namespace.
    pub(crate) fn resolve<'b>(
        bindings: impl IntoIterator<Item = &'b Binding>,
        user: &UserInfo,
        namespace: &str,
    ) -> Self {
        let (mut roles, mut cluster_roles) = (Vec::new(), Vec::new());
        for binding in bindings.into_iter().filter(|binding| binding.is_for(user)) {
            match (binding.role_kind.as_str(), &binding.namespace) {
                ("Role", Some(own)) => roles.push(format!("{own}:{}", binding.role)),
                ("ClusterRole", Some(own)) if own == namespace => cluster_roles.push(binding.role.clone()),
                ("ClusterRole", None) => cluster_roles.push(binding.role.clone()),
                _ => {}
            }
        }
        let sorted = |mut names: Vec<String>| {
            names.sort_unstable();
            names.dedup();
            Some(names).filter(|names| !names.is_empty())
        };
        Self {
            roles: sorted(roles),
            cluster_roles: sorted(cluster_roles),
        }
    }

    /// Parses the `roles` and `clusterRoles` of a user info file.
    pub fn from_value(value: Value<'_>) -> Self {
        Self {
            roles: value.get("roles").and_then(texts),
            cluster_roles: value.get("clusterRoles").and_then(texts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kyvtest_go_compat::value::Document;

    fn binding(kind: &str, namespace: &str, role: (&str, &str), subject: (&str, &str, &str)) -> Binding {
        let object = serde_json::json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": "b", "namespace": namespace},
            "roleRef": {"kind": role.0, "name": role.1},
            "subjects": [{"kind": subject.0, "namespace": subject.1, "name": subject.2}],
        });
        Binding::from_value(Document::from(&object).root()).expect("a binding")
    }

    #[test]
    fn roles_of_all_namespaces_and_cluster_roles_of_this_one() {
        let bindings = [
            binding("RoleBinding", "b", ("Role", "edit"), ("Group", "", "dev")),
            binding("RoleBinding", "a", ("Role", "edit"), ("User", "", "ann")),
            binding("RoleBinding", "a", ("ClusterRole", "view"), ("User", "", "ann")),
            binding("RoleBinding", "b", ("ClusterRole", "admin"), ("User", "", "ann")),
            binding("ClusterRoleBinding", "", ("ClusterRole", "view"), ("Group", "", "dev")),
            binding("ClusterRoleBinding", "", ("Role", "odd"), ("Group", "", "dev")),
            binding("RoleBinding", "a", ("Role", "sa"), ("ServiceAccount", "", "robot")),
        ];
        let user = |name: &str| UserInfo {
            username: name.to_owned(),
            groups: Some(vec!["dev".to_owned()]),
            ..UserInfo::default()
        };
        let roles = Roles::resolve(&bindings, &user("ann"), "a");
        assert_eq!(roles.roles, Some(vec!["a:edit".to_owned(), "b:edit".to_owned()]));
        assert_eq!(roles.cluster_roles, Some(vec!["view".to_owned()]));
        let robot = Roles::resolve(&bindings, &user("system:serviceaccount:a:robot"), "b");
        assert_eq!(robot.roles, Some(vec!["a:sa".to_owned(), "b:edit".to_owned()]));
        assert_eq!(Roles::resolve(&bindings, &UserInfo::default(), "a"), Roles::default());
    }
}
