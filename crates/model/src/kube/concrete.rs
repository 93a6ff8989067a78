//! Facts about one given request.
//!
//! The maps are looked up once, and each question reads them; only wildcards in selectors allocate.

use super::{Atom, Facts, Namespace, Operator, Pairs, Pattern, Request, Text, requirement_error, world::string_map};
use kyvtest_go_compat::value::{Map, Value};

/// Answers from a request.
#[derive(Clone, Copy)]
pub struct Concrete<'r> {
    request: &'r Request,
    name: &'r str,
    generate_name: &'r str,
    subject_generate_name: &'r str,
    namespace: &'r str,
    new_labels: Option<Map<'r>>,
    old_labels: Option<Map<'r>>,
    namespace_labels: Option<Map<'r>>,
    new_annotations: Option<Map<'r>>,
    old_annotations: Option<Map<'r>>,
}

fn metadata<'v>(object: Value<'v>, key: &str) -> &'v str {
    let found = object.at(&["metadata", key]).and_then(Value::as_str);
    found.unwrap_or_default()
}

impl<'r> Concrete<'r> {
    /// The facts of a request; `namespace` is `None` if the request has none, or if it is unknown.
    pub fn new(request: &'r Request, namespace: Option<&'r Namespace>) -> Self {
        let (new, old) = (request.object.root(), request.old_object.root());
        let subject = request.subject().map_or(Value::Null, |(_, value)| value);
        // Kyverno sets the namespace of the request on the object, and removes it from a Namespace
        // (`admissionutils.ConvertResource`).
        let namespace_of_object = if request.resource.object_kind.kind == "Namespace" {
            ""
        } else if request.namespace.is_empty() {
            metadata(subject, "namespace")
        } else {
            &request.namespace
        };
        Self {
            request,
            name: metadata(subject, "name"),
            generate_name: metadata(new, "generateName"),
            subject_generate_name: metadata(subject, "generateName"),
            namespace: namespace_of_object,
            new_labels: string_map(new, "labels"),
            old_labels: string_map(old, "labels"),
            namespace_labels: namespace.and_then(Namespace::labels),
            new_annotations: string_map(new, "annotations"),
            old_annotations: string_map(old, "annotations"),
        }
    }

    fn text(&self, text: Text) -> &'r str {
        match text {
            Text::Name if self.name.is_empty() => self.subject_generate_name,
            Text::Name | Text::BareName => self.name,
            Text::GenerateName => self.generate_name,
            Text::Namespace => self.namespace,
            // The items of a collection delete have no name in their requests.
            Text::RequestName if self.request.collection => "",
            Text::RequestName => &self.request.name,
            Text::Username => &self.request.user.username,
        }
    }

    fn pairs(&self, pairs: Pairs) -> Option<Map<'r>> {
        match pairs {
            Pairs::NewLabels => self.new_labels,
            Pairs::OldLabels => self.old_labels,
            Pairs::NamespaceLabels => self.namespace_labels,
            Pairs::NewAnnotations => self.new_annotations,
            Pairs::OldAnnotations => self.old_annotations,
        }
    }

    fn value(&self, pairs: Pairs, key: &str) -> Option<&'r str> {
        self.pairs(pairs)?.get(key)?.as_str()
    }

    fn any_pair(&self, pairs: Pairs, key: Pattern<'_>, value: Pattern<'_>) -> bool {
        self.pairs(pairs).is_some_and(|map| {
            map.iter().any(|(k, v)| {
                let fits = |v: &str| value.matches(v) && can_replace(pairs, k.text(), v);
                key.matches(k.text()) && v.as_str().is_some_and(fits)
            })
        })
    }
}

/// Whether a label can replace wildcards in a selector, by Kyverno's rules: with an invalid label, which only a file
/// can have, the selector is invalid and matches nothing.
fn can_replace(pairs: Pairs, key: &str, value: &str) -> bool {
    match pairs {
        Pairs::NewLabels | Pairs::OldLabels | Pairs::NamespaceLabels => {
            requirement_error(key, Operator::In, &[value.to_owned()]).is_none()
        }
        Pairs::NewAnnotations | Pairs::OldAnnotations => true,
    }
}

impl<'p> Facts<'p> for Concrete<'_> {
    fn ask(&mut self, atom: Atom<'p>) -> bool {
        let listed = |list: &Option<Vec<String>>, name: &str| list.iter().flatten().any(|item| item == name);
        match atom {
            Atom::Text(text, pattern) => pattern.matches(self.text(text)),
            Atom::Has(pairs, key) => self.value(pairs, key).is_some(),
            Atom::Value(pairs, key, pattern) => self.value(pairs, key).is_some_and(|value| {
                pattern.matches(value) && (!matches!(pattern, Pattern::Glob(_)) || can_replace(pairs, key, value))
            }),
            Atom::AnyPair(pairs, key, value) => self.any_pair(pairs, key, value),
            Atom::AnyGroup(pattern) => self.request.user.groups().iter().any(|group| pattern.matches(group)),
            Atom::GroupsAre(groups) => self.request.user.groups() == groups,
            Atom::Role(role) => listed(&self.request.roles, role),
            Atom::ClusterRole(role) => listed(&self.request.cluster_roles, role),
        }
    }
}
