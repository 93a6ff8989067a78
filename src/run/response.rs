//! What the policies of a suite say about its resources.

use std::{collections::BTreeSet, fmt, ops::Deref, sync::Arc, time::Duration};

use rustc_hash::FxHashMap;

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

/// Which resource a response is about. Copies share their strings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Key(Arc<KeyParts>);

/// What a [`Key`] consists of; of a payload only the name is set, to its path.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct KeyParts {
    pub api_version: String,
    pub kind: String,
    /// The namespace; empty for cluster-wide kinds.
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
    /// The key of something of which only a name is known: a payload by its path, or what a row names.
    pub(super) fn named(name: &str) -> Self {
        Self(Arc::new(KeyParts {
            name: name.to_owned(),
            ..KeyParts::default()
        }))
    }

    /// The references by which rows name it: `name` and `namespace/name`; a payload has its path only.
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

/// What one policy says about one resource.
#[derive(Debug, Clone)]
pub struct Response {
    /// The operation of the run, if it is one that rows name.
    pub run: Option<Operation>,
    /// The row or case that the request was made for; `None` if any of them may look at it.
    pub check_id: Option<CheckId>,
    /// The operation of the request.
    pub operation: Operation,
    /// The resource.
    pub key: Key,
    pub policy: PolicyId,
    /// Whether violations count.
    pub scored: bool,
    /// Whether rows name the policy's rules.
    pub has_rules: bool,
    /// The answers of the rules; none if the policy does not match.
    pub rules: Vec<RuleResponse>,
    /// What the native counterpart of the policy says; `None` if it was not evaluated.
    pub counterpart: Option<Arc<Counterpart>>,
    /// How long both took, if it was measured.
    pub elapsed: Option<Duration>,
    /// How the rules came to their answers, if the run is traced.
    pub trace: Vec<String>,
    /// How the data lens matters.
    pub lens: LensNote,
    /// The objects that came of it, if rows may expect any.
    pub objects: Option<Arc<ResponseObjects>>,
}

impl Response {
    /// The response of a policy without rules to a request that creates; the caller fills in what it knows.
    pub(super) fn new(key: Key, policy: PolicyId) -> Self {
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

/// The objects that came of a policy.
#[derive(Debug, Clone)]
pub struct ResponseObjects {
    /// The object that the policy received.
    pub resource: Document,
    /// The object after the policy, null if an error lost it; `None` if the policy changes no objects.
    pub patched: Option<Document>,
    /// What came of each rule, in the order of [`Response::rules`].
    pub rules: Vec<RuleObjects>,
}

/// The objects that came of a rule.
#[derive(Debug, Clone)]
pub struct RuleObjects {
    /// What the rule does.
    pub rule_type: RuleType,
    /// The existing object after a mutation.
    pub target: Option<Document>,
    /// The objects that it created.
    pub generated: Vec<Document>,
}

/// All answers of a suite.
#[derive(Debug, Default)]
pub struct Responses {
    /// The answers, by run, resource and policy in the order of the suite.
    pub list: Vec<Response>,
    /// Positions in the list by resource.
    by_key: FxHashMap<Key, Vec<usize>>,
    /// Indexes of the keys by what rows may call them.
    references: FxHashMap<String, Vec<usize>>,
    /// Every resource and payload, sorted.
    pub keys: Vec<Key>,
    /// The resources that policies are evaluated on, if not all.
    pub(super) only: Option<BTreeSet<Key>>,
    /// The names of the policies that were evaluated.
    pub policies: Vec<String>,
    /// The policies that are refused, with the reason.
    pub refused: Vec<(String, String)>,
    /// Whether `kyverno test` ends the run at one of them: expressions of CEL policies do not compile.
    pub aborts: bool,
    /// The rules that policies with named rules have, autogen's among them.
    pub rules: Vec<(String, Vec<String>)>,
    /// What is wrong.
    pub diagnostics: Vec<Diagnostic>,
    /// The objects that rows expect, as the API server would complete them in the default lens.
    pub expected: Vec<ExpectedFile>,
    /// The existing objects that mutations may change.
    pub targets: Vec<Key>,
    /// Resources that the API server refuses; policies were evaluated on them as written.
    pub refusals: Vec<(Key, Refused)>,
    /// Notes on the comparison with native counterparts, by name of the policy.
    pub notes: Vec<(String, Note)>,
    /// What the suite exercises, if requested.
    pub coverage: Option<Coverage>,
    /// The behaviours of the policies, if requested.
    pub behaviours: Vec<PolicyAnalysis<Behaviours>>,
    /// What is proven of them, if requested.
    pub proofs: Vec<PolicyAnalysis<Proof>>,
}

impl Responses {
    /// No responses yet, to be given on some resources if not on all.
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

    /// The answers to a check about a resource: those to a request of its own if there is one.
    pub(super) fn about<'r>(
        &'r self,
        check_id: CheckId,
        run: Option<Operation>,
        key: &'r Key,
    ) -> impl Iterator<Item = &'r Response> {
        let places = self.by_key.get(key).map_or(&[][..], Vec::as_slice);
        let of_key = places.iter().filter_map(|place| self.list.get(*place));
        let own = of_key.clone().any(|response| response.check_id == Some(check_id));
        of_key.filter(move |response| match response.check_id {
            Some(of) => of == check_id,
            None => !own && (response.run == run || response.key.kind.is_empty()),
        })
    }

    /// The resources and payloads that a row's reference names.
    pub(super) fn named(&self, reference: &str) -> impl Iterator<Item = &Key> {
        let indexes = self.references.get(reference).into_iter().flatten();
        indexes.filter_map(|index| self.keys.get(*index))
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

    /// The responses that changed an object as an existing one, each with the number of the first rule that did.
    pub(super) fn patched(&self, key: &Key) -> Vec<(&Response, usize)> {
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
        let first = |response: &'_ Response| {
            let rules = &response.objects.as_deref()?.rules;
            rules.iter().position(|rule| rule.target.as_ref().is_some_and(is_about))
        };
        let list = self.list.iter();
        list.filter_map(|response| Some((response, first(response)?))).collect()
    }

    /// Makes lookups by resource possible once all answers are there.
    pub(super) fn index(&mut self) {
        for (place, response) in self.list.iter().enumerate() {
            match self.by_key.get_mut(&response.key) {
                Some(places) => places.push(place),
                None => {
                    self.by_key.insert(response.key.clone(), vec![place]);
                }
            }
        }
        for (index, key) in self.keys.iter().enumerate() {
            for reference in key.references() {
                self.references.entry(reference).or_default().push(index);
            }
        }
    }
}
