//! Which kind of document is it, and what is made of it.
//!
//! Counterpart: `cmd/cli/kubectl-kyverno/policy/load.go` and `exception/load.go` (1.19). Upstream tells three outcomes
//! apart: a document is used, is dropped (the rest of the run goes on without it), or ends the whole run ([`Refused`]).
//! The schemas of kinds that are not decided here are not checked.

use std::sync::Arc;

use super::{
    CelPolicyException, Policy, PolicyException, PolicyKind, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding, ValidatingPolicy,
    decode::{Decoder, Style, choice},
    located::{Origin, Spanned, Text, place},
    mutating::MutatingPolicy,
    mutating_admission::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding},
    parts::Metadata,
};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, FileId, Span},
    text::label::{Wording, dns1123_problems, key_problems, subdomain_problems, value_problems},
    yaml::{self, Entries, Node, Tree},
};

/// What is read from policy and exception files, each kind in the order of the files.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// ClusterPolicies and Policies.
    pub policies: Vec<Arc<Policy>>,
    /// ValidatingPolicies and NamespacedValidatingPolicies.
    pub validating_policies: Vec<Arc<ValidatingPolicy>>,
    /// MutatingPolicies and NamespacedMutatingPolicies. They are among the unsupported ones as well, for callers that do
    /// not evaluate them.
    pub mutating_policies: Vec<Arc<MutatingPolicy>>,
    /// Exceptions to ClusterPolicies and Policies.
    pub exceptions: Vec<Arc<PolicyException>>,
    /// Exceptions to CEL policies.
    pub cel_exceptions: Vec<Arc<CelPolicyException>>,
    /// ValidatingAdmissionPolicies.
    pub vaps: Vec<Arc<ValidatingAdmissionPolicy>>,
    /// Their bindings.
    pub bindings: Vec<Arc<ValidatingAdmissionPolicyBinding>>,
    /// MutatingAdmissionPolicies. They and their bindings are among the unsupported or dropped ones as well, for callers
    /// that do not evaluate them.
    pub maps: Vec<Arc<MutatingAdmissionPolicy>>,
    /// Their bindings.
    pub map_bindings: Vec<Arc<MutatingAdmissionPolicyBinding>>,
    /// Policies of kinds that are recognised and not decided.
    pub unsupported: Vec<Unsupported>,
    /// Documents that are left out because of a mistake.
    pub dropped: Vec<Dropped>,
    /// The first document that ends a run of `kyverno test`.
    pub refused: Option<Refused>,
    /// The paths of the fields that end a run of `kyverno test` because the schema does not have them.
    pub unknown_fields: Vec<String>,
    /// What is wrong.
    pub diagnostics: Vec<Diagnostic>,
}

impl Loaded {
    /// How many documents there were, whatever became of them.
    pub fn count(&self) -> usize {
        let policies = self.policies.len() + self.validating_policies.len() + self.vaps.len() + self.bindings.len();
        let exceptions = self.exceptions.len() + self.cel_exceptions.len();
        policies + exceptions + self.unsupported.len() + self.dropped.len()
    }
}

/// A policy of a kind that is recognised and not decided.
#[derive(Debug, Clone)]
pub struct Unsupported {
    /// The API version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The name; empty where there is none.
    pub name: String,
    /// The namespace; empty where there is none.
    pub namespace: String,
    /// Where it comes from.
    pub origin: Origin,
}

/// A document that is left out because of a mistake.
#[derive(Debug, Clone)]
pub struct Dropped {
    /// The kind; empty where there is none.
    pub kind: String,
    /// The name; empty where there is none.
    pub name: String,
    /// Where it comes from.
    pub origin: Origin,
}

/// Why a document ends the run of `kyverno test`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// The reason.
    pub reason: Refusal,
    /// Where.
    pub span: Span,
}

/// The reasons for which `kyverno test` ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A field that the schema does not have.
    UnknownField,
    /// A kind that is no policy.
    Kind,
    /// An exception file with a mistake.
    Exception,
}

/// What a file is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// `policies` of a suite.
    Policies,
    /// `exceptions` of a suite.
    Exceptions,
}

/// The kinds that are decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Policy(PolicyKind),
    ValidatingPolicy { namespaced: bool },
    MutatingPolicy { namespaced: bool },
    Exception,
    CelException,
    Vap,
    Binding,
    Map,
    MapBinding,
}

impl Known {
    fn is_namespaced(self) -> bool {
        match self {
            Self::Policy(kind) => kind == PolicyKind::Policy,
            Self::ValidatingPolicy { namespaced } | Self::MutatingPolicy { namespaced } => namespaced,
            Self::Exception | Self::CelException => true,
            Self::Vap | Self::Binding | Self::Map | Self::MapBinding => false,
        }
    }
}

/// The kinds that are recognised and not decided, with the versions that Kyverno's loader takes.
const UNSUPPORTED: [(&str, &str, &[&str]); 11] = [
    (
        "policies.kyverno.io",
        "ImageValidatingPolicy",
        &["v1alpha1", "v1beta1", "v1"],
    ),
    (
        "policies.kyverno.io",
        "NamespacedImageValidatingPolicy",
        &["v1beta1", "v1"],
    ),
    (
        "policies.kyverno.io",
        "GeneratingPolicy",
        &["v1alpha1", "v1beta1", "v1"],
    ),
    ("policies.kyverno.io", "NamespacedGeneratingPolicy", &["v1beta1", "v1"]),
    ("policies.kyverno.io", "DeletingPolicy", &["v1alpha1", "v1beta1", "v1"]),
    ("policies.kyverno.io", "NamespacedDeletingPolicy", &["v1beta1", "v1"]),
    ("kyverno.io", "CleanupPolicy", &["v2beta1", "v2"]),
    ("kyverno.io", "ClusterCleanupPolicy", &["v2beta1", "v2"]),
    ("kyverno.io", "GlobalContextEntry", &[]),
    ("kyverno.io", "UpdateRequest", &[]),
    ("wgpolicyk8s.io", "PolicyReport", &[]),
];

/// Kubernetes 1.36 serves v1; the schemas of Kyverno's command line are those of 1.32, which has v1alpha1 only.
const MUTATING_ADMISSION_VERSIONS: [&str; 3] = ["v1alpha1", "v1beta1", "v1"];

/// What is to be done with a document of some group, version and kind.
enum Decision {
    Decode(Known),
    Unsupported,
    /// No version of this kind.
    Version(&'static [&'static str]),
    NotAPolicy,
    Unknown,
}

fn decide(group: &str, version: &str, kind: &str, purpose: Purpose) -> Decision {
    let versions: &'static [&'static str];
    let known = match (group, kind) {
        ("kyverno.io", "ClusterPolicy") => {
            versions = &["v1", "v2beta1"];
            Known::Policy(PolicyKind::ClusterPolicy)
        }
        ("kyverno.io", "Policy") => {
            versions = &["v1", "v2beta1"];
            Known::Policy(PolicyKind::Policy)
        }
        ("policies.kyverno.io", "ValidatingPolicy") => {
            versions = &["v1alpha1", "v1beta1", "v1"];
            Known::ValidatingPolicy { namespaced: false }
        }
        ("policies.kyverno.io", "NamespacedValidatingPolicy") => {
            versions = &["v1beta1", "v1"];
            Known::ValidatingPolicy { namespaced: true }
        }
        ("policies.kyverno.io", "MutatingPolicy") => {
            versions = &["v1alpha1", "v1beta1", "v1"];
            Known::MutatingPolicy { namespaced: false }
        }
        ("policies.kyverno.io", "NamespacedMutatingPolicy") => {
            versions = &["v1beta1", "v1"];
            Known::MutatingPolicy { namespaced: true }
        }
        ("kyverno.io", "PolicyException") => {
            versions = &["v2", "v2beta1"];
            Known::Exception
        }
        ("policies.kyverno.io", "PolicyException") => {
            versions = &["v1alpha1", "v1beta1", "v1"];
            Known::CelException
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            versions = &["v1"];
            Known::Vap
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            versions = &["v1"];
            Known::Binding
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => {
            versions = &MUTATING_ADMISSION_VERSIONS;
            Known::Map
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding") => {
            versions = &MUTATING_ADMISSION_VERSIONS;
            Known::MapBinding
        }
        _ => {
            let found = UNSUPPORTED.iter().find(|known| known.0 == group && known.1 == kind);
            return match found {
                Some((_, _, [])) => Decision::NotAPolicy,
                Some((_, _, versions)) if versions.contains(&version) => Decision::Unsupported,
                Some((_, _, versions)) => Decision::Version(versions),
                None if built_in(group) => Decision::NotAPolicy,
                None => Decision::Unknown,
            };
        }
    };
    if !versions.contains(&version) {
        return Decision::Version(versions);
    }
    let exception = matches!(known, Known::Exception | Known::CelException);
    match purpose {
        // Among policies the loader knows one version of these.
        Purpose::Policies if known == Known::CelException && version != "v1beta1" => Decision::NotAPolicy,
        Purpose::Policies => Decision::Decode(known),
        Purpose::Exceptions if exception => Decision::Decode(known),
        Purpose::Exceptions => Decision::NotAPolicy,
    }
}

/// Whether the group is one of Kubernetes' own.
fn built_in(group: &str) -> bool {
    group.ends_with(".k8s.io") || matches!(group, "" | "apps" | "autoscaling" | "batch" | "policy" | "extensions")
}

/// Reads the documents of one file.
pub fn load(stream: yaml::Stream, file: FileId, purpose: Purpose, loaded: &mut Loaded) {
    if let Some(error) = stream.error() {
        loaded.diagnostics.push(Diagnostic::from_yaml(file, error));
        if purpose == Purpose::Exceptions {
            refuse(loaded, Refusal::Exception, Span::point(file, 0));
        }
        return;
    }
    for (number, document) in stream.into_documents().into_iter().enumerate() {
        let span = place(file, document.span());
        let origin = Origin {
            file,
            document: number,
            span,
        };
        match document.into_tree() {
            Ok(tree) => {
                let tree = Arc::new(tree);
                let place = place(file, tree.root().span());
                let origin = Origin { span: place, ..origin };
                Load {
                    purpose,
                    tree: &tree,
                    origin,
                    item: false,
                    loaded,
                }
                .document(tree.root());
            }
            Err(error) => {
                loaded.diagnostics.push(Diagnostic::from_yaml(file, &error));
                drop_document(loaded, purpose, String::new(), String::new(), origin);
            }
        }
    }
}

fn refuse(loaded: &mut Loaded, reason: Refusal, span: Span) {
    loaded.refused.get_or_insert(Refused { reason, span });
}

fn drop_document(loaded: &mut Loaded, purpose: Purpose, kind: String, name: String, origin: Origin) {
    if purpose == Purpose::Exceptions {
        refuse(loaded, Refusal::Exception, origin.span);
    }
    loaded.dropped.push(Dropped { kind, name, origin });
}

/// One document or one item of a list on its way.
struct Load<'l, 't> {
    purpose: Purpose,
    tree: &'t Arc<Tree>,
    origin: Origin,
    /// Whether it is an item of a list: nothing ends the run then.
    item: bool,
    loaded: &'l mut Loaded,
}

impl<'t> Load<'_, 't> {
    fn document(&mut self, node: Node<'t>) {
        let file = self.origin.file;
        if node.as_map().is_none() {
            let message = "expected an object with `apiVersion` and `kind`";
            self.reject(Code::WrongType, self.origin.span, message.to_owned());
            return;
        }
        let text = |key: &str| -> Option<Text> {
            let node = node.get(key)?;
            Some(Spanned::new(node.as_str()?.to_owned(), place(file, node.span())))
        };
        let (Some(api_version), Some(kind)) = (text("apiVersion"), text("kind")) else {
            let missing = if text("kind").is_none() { "kind" } else { "apiVersion" };
            let first = node.as_map().and_then(|map| map.at(0)).map(|entry| entry.key_span);
            let span = first.map_or(self.origin.span, |span| place(file, span));
            self.reject(Code::MissingField, span, format!("the document has no `{missing}`"));
            return;
        };
        if api_version.value == "v1" && kind.value == "List" && self.purpose == Purpose::Policies && !self.item {
            self.list(node);
            return;
        }
        let (group, version) = api_version.value.split_once('/').unwrap_or(("", &api_version.value));
        match decide(group, version, &kind.value, self.purpose) {
            Decision::Decode(known) => self.decode(known, &api_version.value, node, &kind.value),
            Decision::Unsupported => self.loaded.unsupported.push(Unsupported {
                api_version: api_version.value,
                kind: kind.value,
                name: member(node, "name"),
                namespace: member(node, "namespace"),
                origin: self.origin,
            }),
            Decision::Version(versions) => {
                let message = format!("there is no version `{version}` of `{}` in `{group}`", kind.value);
                // A version that Kubernetes has and Kyverno does not take ends the run upstream.
                let fatal = kind.value.starts_with("ValidatingAdmission");
                let help = format!("write {}", choice(versions));
                self.wrong_kind(api_version.span, message, help, fatal);
            }
            Decision::NotAPolicy => {
                let wanted = match self.purpose {
                    Purpose::Policies => "a policy",
                    Purpose::Exceptions => "a policy exception",
                };
                let message = format!("`{}` of `{}` is not {wanted}", kind.value, api_version.value);
                let help = match self.purpose {
                    Purpose::Policies => "list objects under `resources`, exceptions under `exceptions`",
                    Purpose::Exceptions => "list policies under `policies`, objects under `resources`",
                };
                self.wrong_kind(kind.span, message, help.to_owned(), true);
            }
            Decision::Unknown => {
                let message = format!("the kind `{}` of `{}` is not known", kind.value, api_version.value);
                let help =
                    "policies are of the groups `kyverno.io`, `policies.kyverno.io` and `admissionregistration.k8s.io`";
                self.wrong_kind(kind.span, message, help.to_owned(), false);
            }
        }
    }

    fn list(&mut self, node: Node<'t>) {
        let Some(items) = node.get("items").and_then(Node::as_seq) else {
            return;
        };
        for item in items.iter() {
            let span = place(self.origin.file, item.span());
            Load {
                purpose: self.purpose,
                tree: self.tree,
                origin: Origin { span, ..self.origin },
                item: true,
                loaded: self.loaded,
            }
            .document(item);
        }
    }

    fn reject(&mut self, code: Code, span: Span, message: String) {
        self.loaded.diagnostics.push(Diagnostic::at(code, span, message));
        drop_document(self.loaded, self.purpose, String::new(), String::new(), self.origin);
    }

    fn wrong_kind(&mut self, span: Span, message: String, help: String, fatal: bool) {
        let diagnostic = Diagnostic::at(Code::WrongKind, span, message).with_help(help);
        self.loaded.diagnostics.push(diagnostic);
        if fatal && !self.item {
            refuse(self.loaded, Refusal::Kind, span);
        }
        drop_document(self.loaded, self.purpose, String::new(), String::new(), self.origin);
    }

    fn decode(&mut self, known: Known, api_version: &str, node: Node<'t>, kind: &str) {
        let mut decoder = Decoder::new(self.tree, self.origin.file, Style::Schema);
        let origin = self.origin;
        let d = &mut decoder;
        let decoded = match known {
            Known::Policy(kind) => Policy::decode(kind, api_version, d, node, origin).map(Any::Policy),
            Known::ValidatingPolicy { namespaced } => {
                ValidatingPolicy::decode(namespaced, api_version, d, node, origin).map(Any::ValidatingPolicy)
            }
            Known::MutatingPolicy { namespaced } => {
                MutatingPolicy::decode(namespaced, api_version, d, node, origin).map(Any::MutatingPolicy)
            }
            Known::Exception => PolicyException::decode(api_version, d, node, origin).map(Any::Exception),
            Known::CelException => CelPolicyException::decode(api_version, d, node, origin).map(Any::CelException),
            Known::Vap => ValidatingAdmissionPolicy::decode(api_version, d, node, origin).map(Any::Vap),
            Known::Binding => ValidatingAdmissionPolicyBinding::decode(api_version, d, node, origin).map(Any::Binding),
            Known::Map => MutatingAdmissionPolicy::decode(api_version, d, node, origin).map(Any::Map),
            Known::MapBinding => {
                MutatingAdmissionPolicyBinding::decode(api_version, d, node, origin).map(Any::MapBinding)
            }
        };
        let name = member(node, "name");
        let written = node.get("metadata").and_then(|metadata| metadata.get("name"));
        // Metadata that is no map has its own diagnostic.
        let readable = node
            .get("metadata")
            .is_none_or(|metadata| metadata.is_null() || metadata.as_map().is_some());
        if readable && written.is_none_or(|name| name.is_null() || name.as_str() == Some("")) && !self.item {
            let first = node.get("metadata").map_or(node.span(), Node::span);
            let span = place(origin.file, first);
            decoder.error(Diagnostic::at(
                Code::MissingField,
                Span::new(span.file, span.start, span.start),
                "`metadata.name` is required and missing",
            ));
        }
        if !self.item {
            for (span, problem) in metadata_problems(node, origin.file, known.is_namespaced()) {
                decoder.bad_value(span, problem);
            }
        }
        let findings = decoder.finish();
        let (fatal, wrong) = (findings.fatal(), findings.wrong());
        let first = findings.diagnostics.first().and_then(|diagnostic| diagnostic.primary);
        self.loaded.diagnostics.extend(findings.diagnostics);
        if fatal && !self.item {
            if self.loaded.refused.is_none() {
                self.loaded.unknown_fields = findings.unknown_paths;
            }
            refuse(self.loaded, Refusal::UnknownField, first.unwrap_or(origin.span));
        }
        match decoded.filter(|_| !wrong) {
            Some(any) => any.add(self.loaded),
            None => drop_document(self.loaded, self.purpose, kind.to_owned(), name, origin),
        }
    }
}

enum Any {
    Policy(Policy),
    ValidatingPolicy(ValidatingPolicy),
    MutatingPolicy(MutatingPolicy),
    Exception(PolicyException),
    CelException(CelPolicyException),
    Vap(ValidatingAdmissionPolicy),
    Binding(ValidatingAdmissionPolicyBinding),
    Map(MutatingAdmissionPolicy),
    MapBinding(MutatingAdmissionPolicyBinding),
}

impl Any {
    fn add(self, loaded: &mut Loaded) {
        match self {
            Self::Policy(policy) => loaded.policies.push(Arc::new(policy)),
            Self::ValidatingPolicy(policy) => loaded.validating_policies.push(Arc::new(policy)),
            Self::MutatingPolicy(policy) => {
                let namespace = policy.metadata.namespace.as_ref();
                loaded.unsupported.push(Unsupported {
                    api_version: policy.api_version.clone(),
                    kind: policy.kind().to_owned(),
                    name: policy.metadata.name.value.clone(),
                    namespace: namespace.map(|text| text.value.clone()).unwrap_or_default(),
                    origin: policy.origin,
                });
                loaded.mutating_policies.push(Arc::new(policy));
            }
            Self::Exception(exception) => loaded.exceptions.push(Arc::new(exception)),
            Self::CelException(exception) => loaded.cel_exceptions.push(Arc::new(exception)),
            Self::Vap(policy) => loaded.vaps.push(Arc::new(policy)),
            Self::Binding(binding) => loaded.bindings.push(Arc::new(binding)),
            Self::Map(policy) => {
                let kind = "MutatingAdmissionPolicy";
                left_out_upstream(loaded, kind, &policy.api_version, &policy.metadata, policy.origin);
                loaded.maps.push(Arc::new(policy));
            }
            Self::MapBinding(binding) => {
                let kind = "MutatingAdmissionPolicyBinding";
                left_out_upstream(loaded, kind, &binding.api_version, &binding.metadata, binding.origin);
                loaded.map_bindings.push(Arc::new(binding));
            }
        }
    }
}

/// Notes a mutating native object for `kyverno test`, which takes v1alpha1 only and drops other versions.
fn left_out_upstream(loaded: &mut Loaded, kind: &str, api_version: &str, metadata: &Metadata, origin: Origin) {
    let (kind, name) = (kind.to_owned(), metadata.name.value.clone());
    if api_version.ends_with("/v1alpha1") {
        loaded.unsupported.push(Unsupported {
            api_version: api_version.to_owned(),
            kind,
            name,
            namespace: String::new(),
            origin,
        });
    } else {
        loaded.dropped.push(Dropped { kind, name, origin });
    }
}

/// What the API server has against names, labels and annotations, each with its place.
fn metadata_problems(node: Node<'_>, file: FileId, namespaced: bool) -> Vec<(Span, String)> {
    let mut found = Vec::new();
    let mut add = |what: String, text: &str, span, problems: Vec<String>| {
        if !problems.is_empty() {
            let message = format!("{what} cannot be `{text}`: {}", problems.join("; "));
            found.push((place(file, span), message));
        }
    };
    let member = |key: &str| node.get("metadata").and_then(|metadata| metadata.get(key));
    let text = |key: &str| member(key).and_then(|node| Some((node.as_str()?, node.span())));
    let mut problems = Vec::new();
    if let Some((name, span)) = text("name").filter(|(name, _)| !name.is_empty()) {
        subdomain_problems(name, "characters", &mut problems);
        add("`metadata.name`".to_owned(), name, span, std::mem::take(&mut problems));
    }
    if let Some((namespace, span)) = text("namespace").filter(|(name, _)| namespaced && !name.is_empty()) {
        dns1123_problems(namespace, &mut problems);
        let problems = std::mem::take(&mut problems);
        add("`metadata.namespace`".to_owned(), namespace, span, problems);
    }
    let entries = |key: &str| member(key).and_then(Node::as_map).into_iter().flat_map(Entries::iter);
    for entry in entries("labels") {
        key_problems(entry.key, Wording::QualifiedName, &mut problems);
        let key = std::mem::take(&mut problems);
        add("a key of `metadata.labels`".to_owned(), entry.key, entry.key_span, key);
        let value = entry.value.as_str().unwrap_or_default();
        value_problems(value, Wording::QualifiedName, &mut problems);
        let problems = std::mem::take(&mut problems);
        add(
            format!("the label `{}`", entry.key),
            value,
            entry.value.span(),
            problems,
        );
    }
    for entry in entries("annotations") {
        // Upper case is let through in the whole key.
        key_problems(&entry.key.to_lowercase(), Wording::QualifiedName, &mut problems);
        let key = std::mem::take(&mut problems);
        add(
            "a key of `metadata.annotations`".to_owned(),
            entry.key,
            entry.key_span,
            key,
        );
    }
    found
}

/// A string of the metadata.
fn member(node: Node<'_>, key: &str) -> String {
    let found = node.get("metadata").and_then(|metadata| metadata.get(key));
    found.and_then(Node::as_str).unwrap_or_default().to_owned()
}
