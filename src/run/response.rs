//! The responses of a suite's policies to its resources.

use std::{collections::BTreeSet, fmt, hash::Hasher, ops::Deref, sync::Arc, time::Duration};

use rustc_hash::{FxHashMap, FxHasher};

use super::{
    Note,
    analysis::{PolicyAnalysis, Proof},
    check::CheckId,
    counterpart::Counterpart,
    coverage::Coverage,
    lens::LensNote,
};
use crate::suite::{ExpectedFile, Resource};
use kyvtest_go_compat::{
    diagnostic::Diagnostic,
    value::{Document, Value},
};
use kyvtest_kyverno::{offline::RuleType, response::RuleResponse};
use kyvtest_model::{kube::Operation, policy::PolicyId};
use kyvtest_prove::{behaviour::Behaviours, server::Refused};

/// Identifies the resource of a response. Copies share their strings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Key(Arc<KeyParts>);

/// The parts of a [`Key`]; for a payload only the name is set, to its path.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct KeyParts {
    pub api_version: String,
    pub kind: String,
    /// Empty for cluster-wide kinds.
    pub namespace: String,
    pub name: String,
}

impl Deref for Key {
    type Target = KeyParts;

    fn deref(&self) -> &KeyParts {
        &self.0
    }
}

impl Key {
    /// The key of something known only by name: a payload by its path, or a reference in a row.
    pub(super) fn named(name: &str) -> Self {
        Self(Arc::new(KeyParts {
            name: name.to_owned(),
            ..KeyParts::default()
        }))
    }

    /// The references in rows: `name` and `namespace/name`; for a payload only its path.
    pub(super) fn references(&self) -> Vec<String> {
        if self.kind.is_empty() {
            return vec![self.name.clone()];
        }
        let is_plain = |text: &str| !text.contains('/');
        let mut references = Vec::new();
        if is_plain(&self.name) {
            references.push(self.name.clone());
            if is_plain(&self.namespace) {
                references.push(format!("{}/{}", self.namespace, self.name));
            }
        }
        references
    }

    /// Whether a reference is one of [`Key::references`].
    fn has_reference(&self, reference: &str) -> bool {
        if self.kind.is_empty() {
            return reference == self.name;
        }
        match reference.split_once('/') {
            None => reference == self.name,
            Some((namespace, name)) => !name.contains('/') && namespace == self.namespace && name == self.name,
        }
    }

    pub(super) fn of(resource: &Resource) -> Self {
        Self(Arc::new(KeyParts {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
            namespace: resource.namespace.clone(),
            name: resource.name.clone(),
        }))
    }
}

impl fmt::Display for Key {
    /// `apiVersion,Kind,namespace,name`, as `kyverno test` writes its keys; the path of a payload.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind.is_empty() {
            return f.write_str(&self.name);
        }
        write!(f, "{},{},{},{}", self.api_version, self.kind, self.namespace, self.name)
    }
}

/// The response of one policy to one resource.
#[derive(Debug, Clone)]
pub struct Response {
    /// The operation of the run, if rows name it.
    pub run: Option<Operation>,
    /// The check that the request was made for; `None` if any check may use it.
    pub check_id: Option<CheckId>,
    pub operation: Operation,
    pub key: Key,
    pub policy: Arc<PolicyId>,
    /// Whether violations count.
    pub scored: bool,
    /// Whether rows name the policy's rules.
    pub has_rules: bool,
    /// The results of the rules; empty if the policy does not match.
    pub rules: Vec<RuleResponse>,
    /// The verdict of the policy's native counterpart; `None` if it was not evaluated.
    pub counterpart: Option<Arc<Counterpart>>,
    /// The time for both sides, if measured.
    pub elapsed: Option<Duration>,
    /// The trace, if enabled.
    pub trace: Vec<String>,
    /// The effect of the data lens.
    pub lens: LensNote,
    /// The resulting objects, if rows may expect any.
    pub objects: Option<Arc<ResponseObjects>>,
}

impl Response {
    /// The response of a policy without rules to a CREATE request; the caller sets the other fields.
    pub(super) fn new(key: Key, policy: Arc<PolicyId>) -> Self {
        Self {
            run: None,
            check_id: None,
            operation: Operation::Create,
            key,
            policy,
            scored: true,
            has_rules: false,
            rules: Vec::new(),
            counterpart: None,
            elapsed: None,
            trace: Vec::new(),
            lens: LensNote::default(),
            objects: None,
        }
    }
}

/// The resulting objects of a policy.
#[derive(Debug, Clone)]
pub struct ResponseObjects {
    /// The object that the policy received.
    pub resource: Document,
    /// The object after the policy, null if an error lost it; `None` if the policy does not mutate.
    pub patched: Option<Document>,
    /// The results of each rule, in the order of [`Response::rules`].
    pub rules: Vec<RuleObjects>,
}

/// The resulting objects of a rule.
#[derive(Debug, Clone)]
pub struct RuleObjects {
    pub rule_type: RuleType,
    /// The existing object after a mutation.
    pub target: Option<Document>,
    pub generated: Vec<Document>,
}

/// All responses of a suite.
#[derive(Debug, Default)]
pub struct Responses {
    /// By run, resource and policy, in the order of the suite.
    pub list: Vec<Response>,
    /// Indices into the list, those of a resource one after the other.
    places: Vec<u32>,
    /// Where the indices of each resource begin in `places`, and where the last ones end.
    starts: Vec<u32>,
    /// The index of each resource in `starts`.
    by_key: FxHashMap<Key, u32>,
    /// Indices of the keys by the hash of each of their references, sorted.
    references: Vec<(u64, u32)>,
    /// The keys of the suite's resources, in its order.
    pub(super) resources: Vec<Key>,
    /// Every resource and payload, sorted.
    pub keys: Vec<Key>,
    /// The resources to evaluate, if not all.
    pub(super) only: Option<BTreeSet<Key>>,
    /// The names of the evaluated policies.
    pub policies: Vec<String>,
    /// The rejected policies, with the reason.
    pub refused: Vec<(String, String)>,
    /// Whether `kyverno test` aborts because expressions of a CEL policy do not compile.
    pub aborts: bool,
    /// The rules of policies with named rules, including those of autogen.
    pub rules: Vec<(String, Vec<String>)>,
    pub diagnostics: Vec<Diagnostic>,
    /// The objects that rows expect, in the default lens as the API server would complete them.
    pub expected: Vec<ExpectedFile>,
    /// The existing objects that mutations may change.
    pub targets: Vec<Key>,
    /// Resources that the API server rejects; policies were evaluated on them as written.
    pub refusals: Vec<(Key, Refused)>,
    /// Notes on the comparison with native counterparts, by name of the policy.
    pub notes: Vec<(String, Note)>,
    /// Coverage, if requested.
    pub coverage: Option<Coverage>,
    /// The behaviours of the policies, if requested.
    pub behaviours: Vec<PolicyAnalysis<Behaviours>>,
    /// The proofs of the policies, if requested.
    pub proofs: Vec<PolicyAnalysis<Proof>>,
}

impl Responses {
    /// No responses yet; `only` restricts the resources.
    pub(super) fn on(only: Option<BTreeSet<Key>>) -> Self {
        Self {
            only,
            ..Self::default()
        }
    }

    /// Whether policies are evaluated on a resource.
    pub(super) fn is_wanted(&self, key: &Key) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(key))
    }

    /// The responses for a check on a resource. A check with its own old object has its own request, which takes
    /// precedence.
    pub(super) fn about<'r>(
        &'r self,
        check_id: CheckId,
        run: Option<Operation>,
        key: &'r Key,
    ) -> impl Iterator<Item = &'r Response> {
        let group = self.by_key.get(key).map(|group| *group as usize);
        let range =
            group.and_then(|group| Some(*self.starts.get(group)? as usize..*self.starts.get(group + 1)? as usize));
        let places = range.and_then(|range| self.places.get(range)).unwrap_or_default();
        let of_key = places.iter().filter_map(|place| self.list.get(*place as usize));
        let own = of_key.clone().any(|response| response.check_id == Some(check_id));
        of_key.filter(move |response| match response.check_id {
            Some(of) => of == check_id,
            None => !own && (response.run == run || response.key.kind.is_empty()),
        })
    }

    /// The resources and payloads that a row's reference names.
    pub(super) fn named<'r>(&'r self, reference: &str) -> impl Iterator<Item = &'r Key> {
        let hash = hash(reference);
        let from = self.references.partition_point(|(of, _)| *of < hash);
        let same = self.references[from..].iter().take_while(move |(of, _)| *of == hash);
        let keys = same.filter_map(|(_, index)| self.keys.get(*index as usize));
        keys.filter(move |key| key.has_reference(reference))
    }

    /// The file that a row names.
    pub(super) fn expected(&self, path: &str) -> Option<&ExpectedFile> {
        self.expected.iter().find(|file| file.path == path)
    }

    /// The existing objects that some response changed, each once.
    pub(super) fn patched_keys(&self) -> Vec<&Key> {
        let mut keys: Vec<&Key> = self
            .targets
            .iter()
            .filter(|key| !self.patched(key).is_empty())
            .collect();
        keys.dedup();
        keys
    }

    /// The responses that changed an object as an existing one, each with the index of the first rule that did.
    pub(super) fn patched(&self, key: &Key) -> Vec<(&Response, usize)> {
        let mut all = self.changes(key);
        all.dedup_by(|(later, _), (first, _)| std::ptr::eq(*later, *first));
        all
    }

    /// The rules that changed an object as an existing one: their responses, each with the index of the rule.
    pub(super) fn changes(&self, key: &Key) -> Vec<(&Response, usize)> {
        if !self.targets.contains(key) {
            return Vec::new();
        }
        let is_about = |object: &Document| {
            let root = object.root();
            let text = |path: &[&str]| root.at(path).and_then(Value::as_str).unwrap_or_default();
            text(&["apiVersion"]) == key.api_version
                && text(&["kind"]) == key.kind
                && text(&["metadata", "name"]) == key.name
                && (key.namespace.is_empty() || text(&["metadata", "namespace"]) == key.namespace)
        };
        let rules = self.list.iter().flat_map(|response| {
            let objects = response.objects.as_deref();
            let rules = objects.into_iter().flat_map(|objects| objects.rules.iter().enumerate());
            rules.map(move |(number, rule)| (response, number, rule))
        });
        rules
            .filter(|(_, _, rule)| rule.target.as_ref().is_some_and(is_about))
            .map(|(response, number, _)| (response, number))
            .collect()
    }

    /// Builds the index by resource once all responses are complete.
    pub(super) fn index(&mut self) {
        self.list.shrink_to_fit();
        self.by_key.reserve(self.keys.len());
        let mut groups = Vec::with_capacity(self.list.len());
        for response in &self.list {
            let next = self.by_key.len() as u32;
            let group = match self.by_key.get(&response.key) {
                Some(group) => *group,
                None => *self.by_key.entry(response.key.clone()).or_insert(next),
            };
            groups.push(group);
        }
        // Counts first, then the ends of the groups; filling them from behind turns ends into starts.
        self.starts = vec![0; self.by_key.len() + 1];
        for group in &groups {
            self.starts[*group as usize] += 1;
        }
        let mut end = 0;
        for start in &mut self.starts {
            end += *start;
            *start = end;
        }
        self.places = vec![0; groups.len()];
        for (place, group) in groups.iter().enumerate().rev() {
            let start = &mut self.starts[*group as usize];
            *start -= 1;
            self.places[*start as usize] = place as u32;
        }
        self.references.reserve_exact(2 * self.keys.len());
        for (index, key) in self.keys.iter().enumerate() {
            let hashes = key.references().into_iter().map(|reference| hash(&reference));
            self.references.extend(hashes.map(|hash| (hash, index as u32)));
        }
        self.references.sort_unstable();
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}
