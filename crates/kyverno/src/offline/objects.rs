//! The objects of a test, as the fake client of `kyverno test` finds them.
//!
//! Upstream counterpart: `fakeDiscoveryClient` of `pkg/clients/dclient/fake.go`, `DClient` of the playground's fake cluster
//! and `GetResources` of `pkg/clients/dclient/helpers.go` (1.19).
//!
//! Known deviation: listing a kind without objects, at which upstream panics, is an error.

use std::cell::OnceCell;

use super::{case::Case, resource::Resource};
use crate::classic::target::{TargetQuery, Targets};
use kyvtest_go_compat::value::{Data, Document, Value};
use kyvtest_model::{
    kube::{Expression, GroupVersionKind, LabelSelector, guess_plural},
    policy::split_kind,
};

/// The kinds that the fake client knows without objects.
pub(super) const REGISTERED: [(&str, &str, &str); 9] = [
    ("", "v1", "configmaps"),
    ("", "v1", "endpoints"),
    ("", "v1", "namespaces"),
    ("", "v1", "resourcequotas"),
    ("", "v1", "secrets"),
    ("", "v1", "serviceaccounts"),
    ("apps", "v1", "daemonsets"),
    ("apps", "v1", "deployments"),
    ("apps", "v1", "statefulsets"),
];

/// The objects of a test, listed when a rule looks for one: few rules do, and a test may have many objects.
#[derive(Debug)]
pub(super) struct GivenObjects<'c> {
    case: &'c Case,
    listed: OnceCell<Objects>,
}

impl<'c> GivenObjects<'c> {
    pub(super) fn new(case: &'c Case) -> Self {
        Self {
            case,
            listed: OnceCell::new(),
        }
    }
}

impl Targets for GivenObjects<'_> {
    fn find(&self, query: &TargetQuery) -> Result<Vec<Document>, String> {
        let Case { resources, targets, .. } = self.case;
        let listed = self
            .listed
            .get_or_init(|| Objects::new(resources.iter().chain(targets)));
        listed.find(query)
    }
}

/// The given objects, with the names of their resources.
#[derive(Debug)]
struct Objects {
    list: Vec<Object>,
}

#[derive(Debug)]
struct Object {
    kind: GroupVersionKind,
    plural: String,
    namespace: String,
    name: String,
    content: Document,
}

impl Objects {
    fn new<'r>(resources: impl IntoIterator<Item = &'r Resource>) -> Self {
        let object = |resource: &Resource| Object {
            kind: GroupVersionKind::from_api_version(&resource.api_version, &resource.kind),
            plural: guess_plural(&resource.kind),
            namespace: resource.namespace.clone(),
            name: resource.name.clone(),
            content: (*resource.object).clone(),
        };
        Self {
            list: resources.into_iter().map(object).collect(),
        }
    }

    /// Group and version under which a resource is registered.
    fn registered(&self, plural: &str) -> Option<(&str, &str)> {
        let own = self.list.iter().find(|object| object.plural == plural);
        let own = own.map(|object| (object.kind.group.as_str(), object.kind.version.as_str()));
        own.or_else(|| {
            let known = REGISTERED.iter().find(|(_, _, resource)| *resource == plural);
            known.map(|(group, version, _)| (*group, *version))
        })
    }
}

impl Objects {
    fn find(&self, query: &TargetQuery) -> Result<Vec<Document>, String> {
        let written = format!("{}/{}", query.api_version, query.kind);
        let (_, kind) = split_kind(&written);
        let (kind, subresource) = kind.split_once('/').unwrap_or((&kind, ""));
        let plural = format!("{}s", kind.to_lowercase());
        let Some((group, version)) = self.registered(&plural) else {
            return Err("not found".to_owned());
        };
        let missing = |name: &str| {
            let dot = if group.is_empty() { "" } else { "." };
            format!("{plural}{dot}{group} \"{name}\" not found")
        };
        let of_kind = self
            .list
            .iter()
            .filter(|object| object.plural == plural && object.kind.group == group && object.kind.version == version);
        let mut of_kind: Vec<&Object> = of_kind.collect();
        if query.is_single() {
            let mut found = of_kind.iter();
            let found = found.find(|object| object.namespace == query.namespace && object.name == query.name);
            return match found {
                Some(object) => Ok(vec![object.content.clone()]),
                None => Err(missing(&query.name)),
            };
        }
        if of_kind.is_empty() {
            return Err(format!("cannot list {plural}: no object of this kind was given"));
        }
        let selector = selector(&query.selector);
        if let Some(error) = selector.as_ref().and_then(LabelSelector::error) {
            return Err(error.to_owned());
        }
        of_kind.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        of_kind.retain(|object| {
            let labels = selector.as_ref();
            query.selects(&object.namespace, &object.name)
                && labels.is_none_or(|selector| selector.selects(object.content.root()))
        });
        if !subresource.is_empty() && !of_kind.is_empty() {
            // Upstream gets each object by the name of the query, not by its own.
            let by_name = |object: &&Object| {
                let mut same = self.list.iter().filter(|other| other.plural == plural);
                let found = same.find(|other| other.namespace == object.namespace && other.name == query.name);
                found
                    .map(|found| found.content.clone())
                    .ok_or_else(|| missing(&query.name))
            };
            return of_kind.iter().map(by_name).collect();
        }
        Ok(of_kind.into_iter().map(|object| object.content.clone()).collect())
    }
}

/// Reads a label selector; `None` if there is none.
pub(super) fn selector(value: &Data) -> Option<LabelSelector> {
    let document = value.to_document();
    let root = document.root();
    root.as_map()?;
    let labels = root.get("matchLabels").and_then(Value::as_map);
    let labels = labels.into_iter().flat_map(kyvtest_go_compat::value::Map::iter);
    let labels = labels.map(|(key, value)| (key.text().to_owned(), value.as_str().unwrap_or_default().to_owned()));
    let expressions = root.get("matchExpressions").and_then(Value::as_list);
    let expressions = expressions.into_iter().flat_map(kyvtest_go_compat::value::List::iter);
    let text = |value: Value<'_>, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let expressions = expressions.map(|value| Expression {
        key: text(value, "key"),
        operator: text(value, "operator"),
        values: value
            .get("values")
            .and_then(Value::as_list)
            .into_iter()
            .flat_map(kyvtest_go_compat::value::List::iter)
            .filter_map(|value| value.as_str().map(str::to_owned))
            .collect(),
    });
    Some(LabelSelector::new(
        labels.collect::<Vec<_>>(),
        expressions.collect::<Vec<_>>(),
    ))
}
