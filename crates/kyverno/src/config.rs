//! Kyverno's own configuration, as far as it decides which requests are judged at all.
//!
//! Upstream counterpart: `pkg/config` (1.19) and `pkg/webhooks/handlers/filter.go`; the API server evaluates the
//! selector of the webhooks.
//!
//! Known deviations: of the chart's filters those that only concern objects of Kyverno's own installation in its namespace
//! are left out: the selector keeps requests about that namespace away.

use kyvtest_go_compat::{
    text::wildcard,
    value::{Document, List, Map, Value},
};
use kyvtest_model::{
    kube::{Atom, Expression, Facts, LabelSelector, Operation, Pairs, Pattern, Request, RequestClass, Text},
    policy::KindSelector,
};

/// Kinds that are never judged (`pkg/webhooks/utils/exclude.go`).
const NEVER: [&str; 5] = [
    "AdmissionReport",
    "ClusterAdmissionReport",
    "BackgroundScanReport",
    "ClusterBackgroundScanReport",
    "UpdateRequest",
];

/// The filters of the Helm chart 1.19 that concern others than Kyverno's own objects.
const CHART_FILTERS: &str = "[Event,*,*][*/*,kube-system,*][*/*,kube-public,*][*/*,kube-node-lease,*][Node,*,*][Node/?*,*,*]\
    [APIService,*,*][APIService/?*,*,*][TokenReview,*,*][SubjectAccessReview,*,*][SelfSubjectAccessReview,*,*][Binding,*,*]\
    [Pod/binding,*,*][ReplicaSet,*,*][ReplicaSet/?*,*,*][EphemeralReport,*,*][ClusterEphemeralReport,*,*]";

/// The controllers whose roles the chart leaves out.
const CONTROLLERS: [&str; 4] = ["admission", "background", "cleanup", "reports"];

/// Which requests Kyverno judges.
#[derive(Debug, Clone, Default)]
pub struct Config {
    filters: Vec<Filter>,
    excluded: Users,
    included: Users,
    namespace_selector: Option<LabelSelector>,
    object_selector: Option<LabelSelector>,
}

/// `[kind,namespace,name]`, each with wildcards.
#[derive(Debug, Clone)]
struct Filter {
    kind: KindSelector,
    namespace: String,
    name: String,
}

/// Patterns of the users who send requests.
#[derive(Debug, Clone, Default)]
struct Users {
    names: Vec<String>,
    groups: Vec<String>,
    roles: Vec<String>,
    cluster_roles: Vec<String>,
}

impl Config {
    /// An empty ConfigMap: only what the code itself leaves out.
    pub fn bare() -> Self {
        Self::default()
    }

    /// The ConfigMap of the Helm chart with default values.
    pub fn chart() -> Self {
        let mut filters = parse_filters(CHART_FILTERS);
        for controller in CONTROLLERS {
            let role = format!("kyverno:{controller}-controller");
            let text = format!(
                "[ClusterRole,*,{role}][ClusterRole,*,{role}:core][ClusterRole,*,{role}:additional]\
                 [ClusterRoleBinding,*,{role}]"
            );
            filters.extend(parse_filters(&text));
        }
        let selector = LabelSelector::new(
            [],
            [Expression {
                key: "kubernetes.io/metadata.name".to_owned(),
                operator: "NotIn".to_owned(),
                values: vec!["kube-system".to_owned(), "kyverno".to_owned()],
            }],
        );
        Self {
            filters,
            excluded: Users {
                groups: vec!["system:nodes".to_owned()],
                ..Users::default()
            },
            namespace_selector: Some(selector),
            ..Self::default()
        }
    }

    /// Reads a ConfigMap as Kyverno does: what it cannot read counts for nothing.
    ///
    /// # Errors
    /// If the document is not a ConfigMap.
    pub fn from_config_map(document: &Document) -> Result<Self, String> {
        let root = document.root();
        if root.get("kind").and_then(Value::as_str) != Some("ConfigMap") {
            return Err("expected a ConfigMap".to_owned());
        }
        let text = |key: &str| root.at(&["data", key]).and_then(Value::as_str).unwrap_or_default();
        let mut config = Self {
            filters: parse_filters(text("resourceFilters")),
            ..Self::default()
        };
        for (key, part) in [
            ("excludeUsernames", 0_usize),
            ("excludeGroups", 1),
            ("excludeRoles", 2),
            ("excludeClusterRoles", 3),
        ] {
            for word in text(key).split(',').map(str::trim) {
                let (users, word) = match word.strip_prefix('!') {
                    Some(word) => (&mut config.included, word.trim()),
                    None => (&mut config.excluded, word),
                };
                if !word.is_empty() {
                    users.part(part).push(word.to_owned());
                }
            }
        }
        if let Ok(webhooks) = Document::from_json(text("webhooks")) {
            config.namespace_selector = webhooks.root().get("namespaceSelector").map(selector);
            config.object_selector = webhooks.root().get("objectSelector").map(selector);
        }
        Ok(config)
    }

    /// Whether Kyverno evaluates the requests of a class. Facts cannot decide patterns of roles with wildcards: without
    /// a request such patterns do not count, so the result is incomplete if [`Config::has_wild_roles`] holds.
    pub(crate) fn judges<'p>(
        &'p self,
        cell: &RequestClass<'_>,
        facts: &mut impl Facts<'p>,
        request: Option<&Request>,
    ) -> bool {
        let roles = request.and_then(|request| request.roles.as_deref()).unwrap_or_default();
        let cluster_roles = request.and_then(|request| request.cluster_roles.as_deref());
        let cluster_roles = cluster_roles.unwrap_or_default();
        let wild = |users: &Users| users.list_wild_roles(roles, cluster_roles);
        self.judges_with(cell, facts, wild)
    }

    /// Whether roles with wildcards are left out or let in.
    pub fn has_wild_roles(&self) -> bool {
        [&self.excluded, &self.included].into_iter().any(|users| {
            let mut roles = users.roles.iter().chain(&users.cluster_roles);
            roles.any(|role| wildcard::has_wildcard(role))
        })
    }

    fn judges_with<'p>(
        &'p self,
        cell: &RequestClass<'_>,
        facts: &mut impl Facts<'p>,
        wild: impl Fn(&Users) -> bool,
    ) -> bool {
        let resource = cell.resource;
        if NEVER.contains(&resource.kind.as_str()) || !self.calls(cell, facts) {
            return false;
        }
        let mut lists = |users: &'p Users| users.list(facts) || wild(users);
        if lists(&self.excluded) && !lists(&self.included) {
            return false;
        }
        let is_namespace = resource.group.is_empty() && resource.version == "v1" && resource.kind == "Namespace";
        let mut fits = |text: Text, pattern: &'p str| facts.ask(Atom::Text(text, Pattern::glob(pattern)));
        // The request about a Namespace has its name as its namespace.
        let namespace = if is_namespace {
            Text::RequestName
        } else {
            Text::Namespace
        };
        !self.filters.iter().any(|filter| {
            wildcard::matches(&filter.kind.group, &resource.group)
                && wildcard::matches(&filter.kind.version, &resource.version)
                && wildcard::matches(&filter.kind.kind, &resource.kind)
                && wildcard::matches(&filter.kind.subresource, &resource.subresource)
                && (fits(namespace, &filter.namespace) && fits(Text::RequestName, &filter.name)
                    || is_namespace && fits(Text::RequestName, &filter.namespace))
        })
    }

    /// Whether the selectors of the webhooks let the API server call them. A cluster-scoped object has no namespace to
    /// match; a Namespace is matched itself.
    fn calls<'p>(&'p self, cell: &RequestClass<'_>, facts: &mut impl Facts<'p>) -> bool {
        let namespaces = self.namespace_selector.as_ref();
        let is_namespace = cell.resource.group.is_empty() && cell.resource.plural == "namespaces";
        let namespace = namespaces.is_none_or(|selector| {
            let has_one = cell.namespaced || is_namespace;
            // A Namespace that is being written has the labels itself.
            let writes = matches!(cell.operation, Operation::Create | Operation::Update);
            let own = is_namespace && writes && cell.resource.subresource.is_empty();
            let labels = if own { Pairs::NewLabels } else { Pairs::NamespaceLabels };
            !has_one || selector.matches(Some(labels), facts)
        });
        namespace
            && self
                .object_selector
                .as_ref()
                .is_none_or(|selector| match cell.operation {
                    Operation::Create => selector.matches(Some(Pairs::NewLabels), facts),
                    Operation::Update => {
                        selector.matches(Some(Pairs::NewLabels), facts)
                            || selector.matches(Some(Pairs::OldLabels), facts)
                    }
                    Operation::Delete => selector.matches(Some(Pairs::OldLabels), facts),
                    Operation::Connect => selector.is_empty(),
                })
    }
}

impl Users {
    fn part(&mut self, part: usize) -> &mut Vec<String> {
        match part {
            0 => &mut self.names,
            1 => &mut self.groups,
            2 => &mut self.roles,
            _ => &mut self.cluster_roles,
        }
    }

    fn list<'p>(&'p self, facts: &mut impl Facts<'p>) -> bool {
        let is_plain = |role: &&String| !wildcard::has_wildcard(role);
        let mut names = self.names.iter();
        let mut groups = self.groups.iter();
        let mut roles = self.roles.iter().filter(is_plain);
        let mut cluster_roles = self.cluster_roles.iter().filter(is_plain);
        names.any(|name| facts.ask(Atom::Text(Text::Username, Pattern::glob(name))))
            || groups.any(|group| facts.ask(Atom::AnyGroup(Pattern::glob(group))))
            || roles.any(|role| facts.ask(Atom::Role(role)))
            || cluster_roles.any(|role| facts.ask(Atom::ClusterRole(role)))
    }

    fn list_wild_roles(&self, roles: &[String], cluster_roles: &[String]) -> bool {
        let any = |patterns: &[String], texts: &[String]| {
            let mut patterns = patterns.iter().filter(|pattern| wildcard::has_wildcard(pattern));
            patterns.any(|pattern| texts.iter().any(|text| wildcard::matches(pattern, text)))
        };
        any(&self.roles, roles) || any(&self.cluster_roles, cluster_roles)
    }
}

/// Parses the bracketed entries. A missing part is empty; an entry with more than three parts is dropped.
fn parse_filters(text: &str) -> Vec<Filter> {
    let mut filters = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('[') {
        let Some(end) = after.find(['[', ']']) else { break };
        let (inside, behind) = after.split_at(end);
        rest = behind;
        let parts: Vec<&str> = inside.split(',').collect();
        let (kind, namespace, name) = match parts[..] {
            [kind] => (kind, "", ""),
            [kind, namespace] => (kind, namespace, ""),
            [kind, namespace, name] => (kind, namespace, name),
            _ => continue,
        };
        if behind.starts_with(']') {
            filters.push(Filter {
                kind: KindSelector::parse(kind),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            });
        }
    }
    filters
}

fn selector(value: Value<'_>) -> LabelSelector {
    let text = |value: Option<Value<'_>>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let labels = value.get("matchLabels").and_then(Value::as_map);
    let labels = labels.into_iter().flat_map(Map::iter);
    let labels: Vec<(String, String)> = labels
        .map(|(key, value)| (key.text().to_owned(), text(Some(value))))
        .collect();
    let expressions = value.get("matchExpressions").and_then(Value::as_list);
    let expressions = expressions.into_iter().flat_map(List::iter);
    let expressions: Vec<Expression> = expressions
        .map(|expression| Expression {
            key: text(expression.get("key")),
            operator: text(expression.get("operator")),
            values: expression
                .get("values")
                .and_then(Value::as_list)
                .into_iter()
                .flat_map(List::iter)
                .map(|value| text(Some(value)))
                .collect(),
        })
        .collect();
    LabelSelector::new(labels, expressions)
}
