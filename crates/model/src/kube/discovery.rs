//! The kinds that a cluster serves: their resources and subresources, scopes, and the operations that admission sees.
//!
//! The table of Kubernetes 1.36 is embedded; custom resource definitions, a file, and kinds that only occur among the
//! given objects (with a guessed plural) add to it.

use std::sync::{Arc, LazyLock};

use rustc_hash::FxHashMap;

use super::{GroupVersionKind, GroupVersionResource, Operation, Operations, guess_plural, parse_api_version};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, FileId, Span},
    value::{Document, Value},
};

/// The table of Kubernetes 1.36; its header describes the format.
const KUBERNETES: &str = include_str!("kubernetes-1.36.txt");

/// Objects of subresources whose group differs from their parent's.
const FOREIGN: [(&str, &str, &str); 3] = [
    ("Scale", "autoscaling", "v1"),
    ("Eviction", "policy", "v1"),
    ("TokenRequest", "authentication.k8s.io", "v1"),
];

/// Main resources that are never stored, other than `bindings`: their objects are reviews and can only be created.
pub(super) const REVIEWS: [(&str, &str); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// One resource or subresource in one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: String,
    pub version: String,
    pub plural: String,
    /// The subresource; empty for the resource itself.
    pub subresource: String,
    /// The kind of the resource itself, also for its subresources: the kind that Kyverno matches.
    pub kind: String,
    /// The kind of the objects in requests: `Scale`, `PodExecOptions`, usually the kind itself.
    pub object_kind: GroupVersionKind,
    pub namespaced: bool,
    /// The operations that admission sees.
    pub operations: Operations,
    /// Whether plural or scope were guessed, because the kind is undeclared.
    pub guessed: bool,
}

impl Resource {
    pub fn main(kind: &GroupVersionKind, plural: &str, namespaced: bool) -> Self {
        let group = kind.group.as_str();
        let operations = if (group, plural) == ("", "bindings") || REVIEWS.contains(&(group, plural)) {
            Operations::of(&[Operation::Create])
        } else if kind.group.is_empty() && plural == "componentstatuses" {
            Operations::NONE
        } else {
            Operations::of(&[Operation::Create, Operation::Update, Operation::Delete])
        };
        Self {
            group: kind.group.clone(),
            version: kind.version.clone(),
            plural: plural.to_owned(),
            subresource: String::new(),
            kind: kind.kind.clone(),
            object_kind: kind.clone(),
            namespaced,
            operations,
            guessed: false,
        }
    }

    pub fn sub(&self, subresource: &str, object_kind: &str) -> Self {
        let operations = match subresource {
            "binding" | "eviction" | "token" => Operations::of(&[Operation::Create]),
            "log" => Operations::NONE,
            _ if object_kind.ends_with("Options") => Operations::of(&[Operation::Connect]),
            _ => Operations::of(&[Operation::Update]),
        };
        let foreign = FOREIGN.iter().find(|(kind, _, _)| *kind == object_kind);
        let (group, version) = foreign.map_or((&*self.group, &*self.version), |(_, group, version)| (group, version));
        Self {
            subresource: subresource.to_owned(),
            object_kind: GroupVersionKind::new(group, version, object_kind),
            operations,
            ..self.clone()
        }
    }

    /// The kind of the resource itself.
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::new(&*self.group, &*self.version, &*self.kind)
    }

    /// The resource's name, without the subresource.
    pub fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource::new(&*self.group, &*self.version, &*self.plural)
    }

    /// The name in rules: `deployments`, `deployments/scale`.
    pub fn name(&self) -> String {
        if self.subresource.is_empty() {
            self.plural.clone()
        } else {
            format!("{}/{}", self.plural, self.subresource)
        }
    }

    fn is(&self, group: &str, version: &str) -> bool {
        self.group == group && self.version == version
    }
}

/// The two groups that events are served in.
fn is_event_group(group: &str) -> bool {
    matches!(group, "" | "events.k8s.io")
}

/// The indices of resources by name.
type Index = FxHashMap<String, Vec<usize>>;

/// Resources with their indices.
#[derive(Debug, Clone, Default)]
struct Table {
    resources: Vec<Arc<Resource>>,
    by_kind: Index,
    by_plural: Index,
}

impl Table {
    /// What Kubernetes 1.36 serves.
    fn kubernetes() -> Self {
        let mut table = Self::default();
        let mut api_version = "";
        for line in KUBERNETES
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let Some(line) = line.strip_prefix("  ") else {
                api_version = line;
                continue;
            };
            let mut words = line.split(' ');
            let kind = words.next().unwrap_or_default();
            let namespaced = words.next() == Some("namespaced");
            let gvk = GroupVersionKind::from_api_version(api_version, kind);
            let main = Resource::main(&gvk, &guess_plural(kind), namespaced);
            let subresources: Vec<Resource> = words
                .map(|word| word.split_once(':').unwrap_or((word, kind)))
                .map(|(name, object_kind)| main.sub(name, object_kind))
                .collect();
            table.add(main);
            for resource in subresources {
                table.add(resource);
            }
        }
        table
    }

    /// The index of a resource of the same name.
    fn place(&self, resource: &Resource) -> Option<usize> {
        let mut places = self.by_plural.get(&resource.plural)?.iter().copied();
        places.find(|&at| {
            let other = &self.resources[at];
            other.is(&resource.group, &resource.version) && other.subresource == resource.subresource
        })
    }

    /// Adds a resource; replaces one of the same name.
    fn add(&mut self, resource: Resource) {
        if let Some(at) = self.place(&resource) {
            if self.resources[at].kind != resource.kind {
                if let Some(places) = self.by_kind.get_mut(&self.resources[at].kind) {
                    places.retain(|place| *place != at);
                }
                self.by_kind.entry(resource.kind.clone()).or_default().push(at);
            }
            self.resources[at] = Arc::new(resource);
            return;
        }
        let at = self.resources.len();
        self.by_kind.entry(resource.kind.clone()).or_default().push(at);
        self.by_plural.entry(resource.plural.clone()).or_default().push(at);
        self.resources.push(Arc::new(resource));
    }

    fn pick<'s, 'n>(
        &'s self,
        places: Option<&'s Vec<usize>>,
        subresource: &'n str,
    ) -> impl Iterator<Item = &'s Arc<Resource>> + use<'s, 'n> {
        let places = places.map_or(&[][..], Vec::as_slice);
        let all = places.iter().map(|&at| &self.resources[at]);
        all.filter(move |resource| resource.subresource == subresource)
    }
}

/// The embedded table, parsed once.
static EMBEDDED: LazyLock<Arc<Table>> = LazyLock::new(|| Arc::new(Table::kubernetes()));

/// The kinds that a cluster serves: the shared embedded table, and additions.
#[derive(Debug, Clone, Default)]
pub struct Discovery {
    shared: Option<Arc<Table>>,
    own: Table,
    definitions: Vec<Arc<Document>>,
}

impl Discovery {
    /// A cluster that serves nothing.
    pub fn empty() -> Self {
        Self::default()
    }

    /// What Kubernetes 1.36 serves.
    pub fn kubernetes() -> Self {
        Self {
            shared: Some(Arc::clone(&EMBEDDED)),
            ..Self::default()
        }
    }

    /// The added CustomResourceDefinitions, in order.
    pub fn definitions(&self) -> &[Arc<Document>] {
        &self.definitions
    }

    /// Whether there are additions to Kubernetes' own kinds.
    pub fn is_extended(&self) -> bool {
        !self.own.resources.is_empty()
    }

    fn tables(&self) -> impl Iterator<Item = &Table> {
        self.shared.as_deref().into_iter().chain([&self.own])
    }

    /// Parses a table: group, version, kind, plural, scope, subresources (`name:Kind`, comma-separated), one kind per
    /// line, tab-separated; lines that start with `#` are comments.
    ///
    /// # Errors
    /// The malformed lines.
    pub fn from_tsv(text: &str, file: FileId) -> Result<Self, Vec<Diagnostic>> {
        let mut discovery = Self::empty();
        let mut diagnostics = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let from = start;
            start += line.len();
            let line = line.trim_end_matches(['\n', '\r']);
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            if let Err(message) = discovery.add_line(line) {
                let span = Span::new(file, from as u32, (from + line.len()) as u32);
                let help = "write group, version, kind, plural, `Namespaced` or `Cluster`, and subresources as \
                            `name:Kind`, separated by tabs";
                diagnostics.push(Diagnostic::at(Code::BadValue, span, message).with_help(help));
            }
        }
        if diagnostics.is_empty() {
            Ok(discovery)
        } else {
            Err(diagnostics)
        }
    }

    fn add_line(&mut self, line: &str) -> Result<(), String> {
        let columns: Vec<&str> = line.split('\t').collect();
        let (&[group, version, kind, plural, scope], rest) = columns.split_first_chunk::<5>().ok_or_else(|| {
            format!(
                "a line of a discovery table has six columns, this one has {}",
                columns.len()
            )
        })?;
        let subresources = match rest {
            [] => "",
            [subresources] => subresources,
            _ => {
                return Err(format!(
                    "a line of a discovery table has six columns, this one has {}",
                    columns.len()
                ));
            }
        };
        if let Some(name) = [("version", version), ("kind", kind), ("plural", plural)]
            .iter()
            .find_map(|(name, text)| text.is_empty().then_some(name))
        {
            return Err(format!("the {name} is empty"));
        }
        let namespaced = match scope {
            "Namespaced" => true,
            "Cluster" => false,
            _ => return Err(format!("unknown scope `{scope}`")),
        };
        let main = Resource::main(&GroupVersionKind::new(group, version, kind), plural, namespaced);
        let mut all = vec![main];
        for item in subresources.split(',').filter(|item| !item.is_empty()) {
            let (name, object_kind) = item
                .split_once(':')
                .filter(|(name, kind)| !name.is_empty() && !kind.is_empty())
                .ok_or_else(|| format!("subresource `{item}` is not of the form `name:Kind`"))?;
            all.push(all[0].sub(name, object_kind));
        }
        for resource in all {
            self.add(resource);
        }
        Ok(())
    }

    /// Adds a resource; replaces one of the same name.
    pub fn add(&mut self, resource: Resource) {
        if let Some(shared) = self.shared.take_if(|shared| shared.place(&resource).is_some()) {
            // The shared table stays unchanged.
            let own = std::mem::replace(&mut self.own, Table::clone(&shared));
            for resource in own.resources {
                self.own.add(Arc::unwrap_or_clone(resource));
            }
        }
        self.own.add(resource);
    }

    /// Adds everything of another table.
    pub fn extend(&mut self, other: &Self) {
        for resource in other.iter() {
            self.add(Resource::clone(resource));
        }
    }

    /// Adds the kinds of a CustomResourceDefinition: each served version with its subresources.
    ///
    /// # Errors
    /// If the definition is incomplete.
    pub fn add_crd(&mut self, crd: Value<'_>) -> Result<(), String> {
        let text = |path: &[&str]| {
            let found = crd.at(path).and_then(Value::as_str).filter(|text| !text.is_empty());
            found.ok_or_else(|| format!("`{}` is missing or not a string", path.join(".")))
        };
        let group = text(&["spec", "group"])?;
        let kind = text(&["spec", "names", "kind"])?;
        let plural = text(&["spec", "names", "plural"])?;
        let namespaced = match crd.at(&["spec", "scope"]).and_then(Value::as_str) {
            // The old v1beta1 definitions default to it.
            Some("Namespaced") | None => true,
            Some("Cluster") => false,
            Some(other) => return Err(format!("unknown scope `{other}` in `spec.scope`")),
        };
        let versions = crd.at(&["spec", "versions"]).and_then(Value::as_list);
        let mut served: Vec<(&str, Option<Value<'_>>)> = Vec::new();
        for version in versions.iter().flat_map(|versions| versions.iter()) {
            let name = version.get("name").and_then(Value::as_str);
            let name = name.ok_or("a version in `spec.versions` has no name")?;
            if version.get("served").and_then(Value::as_bool) != Some(false) {
                served.push((name, version.get("subresources")));
            }
        }
        if versions.is_none() {
            served.push((text(&["spec", "version"])?, None));
        }
        for (version, subresources) in served {
            let subresources = subresources.or_else(|| crd.at(&["spec", "subresources"]));
            let main = Resource::main(&GroupVersionKind::new(group, version, kind), plural, namespaced);
            for (name, object_kind) in [("status", kind), ("scale", "Scale")] {
                if subresources
                    .and_then(|all| all.get(name))
                    .is_some_and(|it| !it.is_null())
                {
                    self.add(main.sub(name, object_kind));
                }
            }
            self.add(main);
        }
        self.definitions.push(Arc::new(crd.to_document()));
        Ok(())
    }

    /// Adds the undeclared kind of an object, with the plural that clients guess; a known kind stays unchanged.
    pub fn add_guess(&mut self, kind: &GroupVersionKind, namespaced: bool) {
        if self.by_kind(&kind.group, &kind.version, &kind.kind).is_none() {
            self.add(Self::guess(kind, namespaced));
        }
    }

    /// The resource that clients guess for an undeclared kind.
    pub fn guess(kind: &GroupVersionKind, namespaced: bool) -> Resource {
        Resource {
            guessed: true,
            ..Resource::main(kind, &guess_plural(&kind.kind), namespaced)
        }
    }

    /// Every resource and subresource, in insertion order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.tables().flat_map(|table| &table.resources)
    }

    /// The resources listed under a name.
    fn under<'s, 'n>(
        &'s self,
        index: fn(&'s Table) -> &'s Index,
        word: &'n str,
        subresource: &'n str,
    ) -> impl Iterator<Item = &'s Arc<Resource>> + use<'s, 'n> {
        let tables = self.tables();
        tables.flat_map(move |table| table.pick(index(table).get(word), subresource))
    }

    /// The resource to which Kubernetes' mapper maps an object. Without a version, it returns the preferred one.
    pub fn mapped(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        if api_version.is_empty() {
            self.kinds(kind).find(|resource| resource.group.is_empty())
        } else {
            self.by_object(api_version, kind)
        }
    }

    /// The resources (not subresources) of a kind, in any group and version.
    pub fn kinds<'s, 'n>(&'s self, kind: &'n str) -> impl Iterator<Item = &'s Arc<Resource>> + use<'s, 'n> {
        self.under(|table| &table.by_kind, kind, "")
    }

    pub fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.kinds(kind).find(|resource| resource.is(group, version))
    }

    /// The resource of a kind, by the object's own `apiVersion`.
    pub fn by_object(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let (group, version) = parse_api_version(api_version);
        self.by_kind(group, version, kind)
    }

    pub fn subresource(&self, kind: &GroupVersionKind, subresource: &str) -> Option<&Arc<Resource>> {
        self.under(|table| &table.by_kind, &kind.kind, subresource)
            .find(|resource| resource.is(&kind.group, &kind.version))
    }

    /// The equivalent resources that serve the same objects: the other versions of its group, and for events the other
    /// group (`pkg/kubeapiserver/default_storage_factory_builder.go` upstream).
    pub fn equivalents<'s>(&'s self, resource: &'s Resource) -> impl Iterator<Item = &'s Arc<Resource>> {
        let events = resource.plural == "events" && is_event_group(&resource.group);
        self.under(|table| &table.by_plural, &resource.plural, &resource.subresource)
            .filter(move |other| {
                let kin = other.group == resource.group || events && is_event_group(&other.group);
                kin && !other.is(&resource.group, &resource.version)
            })
    }

    pub fn by_resource(&self, name: &GroupVersionResource, subresource: &str) -> Option<&Arc<Resource>> {
        self.under(|table| &table.by_plural, &name.resource, subresource)
            .find(|resource| resource.is(&name.group, &name.version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kyvtest_go_compat::{diagnostic::Sources, value::Document};

    #[test]
    fn the_embedded_table_is_whole() {
        let discovery = Discovery::kubernetes();
        assert_eq!(
            discovery
                .iter()
                .filter(|resource| resource.subresource.is_empty())
                .count(),
            68
        );
        assert!(discovery.iter().all(|resource| !resource.version.is_empty()
            && !resource.plural.is_empty()
            && !resource.kind.is_empty()
            && !resource.guessed));
        let pods = discovery.by_object("v1", "Pod").expect("pods");
        assert!(pods.namespaced && pods.plural == "pods");
        let scale = discovery
            .subresource(&GroupVersionKind::new("apps", "v1", "Deployment"), "scale")
            .expect("a scale");
        assert_eq!(scale.object_kind, GroupVersionKind::new("autoscaling", "v1", "Scale"));
        assert_eq!(scale.operations, Operations::of(&[Operation::Update]));
        assert_eq!(scale.kind, "Deployment");
        let exempt: Vec<&str> = discovery
            .iter()
            .filter(|resource| resource.reaches_webhooks() && !resource.reaches_native_policies())
            .map(|resource| &*resource.kind)
            .collect();
        assert_eq!(exempt.len(), 6, "{exempt:?}");
    }

    #[test]
    fn definitions_and_guesses_add_kinds() {
        let crd = r#"{"spec":{"group":"example.com","scope":"Cluster","names":{"kind":"Widget","plural":"widgetz"},
            "versions":[{"name":"v1","served":true,"subresources":{"status":{}}},{"name":"v0","served":false}]}}"#;
        let mut discovery = Discovery::kubernetes();
        let before = discovery.iter().count();
        let crd = Document::from_json(crd).expect("JSON");
        discovery.add_crd(crd.root()).expect("a definition");
        discovery.add_crd(crd.root()).expect("a definition");
        assert_eq!(discovery.iter().count(), before + 2);
        let gvk = GroupVersionKind::new("example.com", "v1", "Widget");
        assert!(
            !discovery
                .by_kind("example.com", "v1", "Widget")
                .expect("known")
                .namespaced
        );
        discovery.add_guess(&gvk, true);
        assert_eq!(discovery.iter().count(), before + 2);
        discovery.add_guess(&GroupVersionKind::new("example.com", "v1", "Gadget"), true);
        assert!(
            discovery
                .by_object("example.com/v1", "Gadget")
                .expect("guessed")
                .guessed
        );
        assert_eq!(
            discovery.add_crd(Value::Null),
            Err("`spec.group` is missing or not a string".to_owned())
        );
    }

    #[test]
    fn tables_in_files_are_read_or_refused_line_by_line() {
        let file = Sources::new().add("discovery.tsv", "");
        let table = "# mine\n\nexample.com\tv1\tWidget\twidgets\tNamespaced\tstatus:Widget,scale:Scale\n\tv1\tPod\tpods\tNamespaced\t\n";
        let discovery = Discovery::from_tsv(table, file).expect("a table");
        assert_eq!(discovery.iter().count(), 4);
        let bad = "a\tv1\tK\tks\tEverywhere\t\nshort\n\tv1\t\tp\tCluster\n\tv1\tK\tp\tCluster\tstatus\n";
        let messages: Vec<String> = Discovery::from_tsv(bad, file)
            .expect_err("refused")
            .into_iter()
            .map(|diagnostic| diagnostic.message)
            .collect();
        assert_eq!(
            messages,
            [
                "unknown scope `Everywhere`",
                "a line of a discovery table has six columns, this one has 1",
                "the kind is empty",
                "subresource `status` is not of the form `name:Kind`"
            ]
        );
    }
}
