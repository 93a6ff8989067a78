//! Determines the kind of each document and decodes it.
//!
//! Upstream counterpart: `cmd/cli/kubectl-kyverno/policy/load.go` and `exception/load.go` (1.19). Upstream has three
//! outcomes: a document is used, is dropped (the run continues without it), or ends the whole run ([`Refused`]). The
//! schemas of kinds that are not evaluated here are not checked.

mod message;

use std::sync::Arc;

use self::message::{member, metadata_problems, metadata_text, schema_text, version_text, violations_of_metadata};

use super::{
    AdmissionRules as _, CelPolicyException, ClassicPolicy, CleanupPolicySpec, DeletingPolicySpec,
    GeneratingPolicySpec, ImageValidatingPolicySpec, MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding,
    MutatingPolicySpec, MutatingRules, Policy, PolicyException, PolicyKind, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding, ValidatingPolicySpec, ValidatingRules,
    decode::{Decoder, Style, choice},
    located::{Origin, Spanned, Text, place},
    scoped::{PolicySpec, ScopedPolicy},
};
use crate::kube::Discovery;
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, FileId, Span},
    yaml::{self, Node, Tree},
};

/// The contents of policy and exception files, each kind in the order of the files.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// The policies of all kinds.
    pub policies: Vec<Policy>,
    /// Exceptions to ClusterPolicies and Policies.
    pub exceptions: Vec<Arc<PolicyException>>,
    pub cel_exceptions: Vec<Arc<CelPolicyException>>,
    pub bindings: Vec<Arc<ValidatingAdmissionPolicyBinding>>,
    pub mutating_bindings: Vec<Arc<MutatingAdmissionPolicyBinding>>,
    /// Documents dropped because of an error.
    pub dropped: Vec<Dropped>,
    /// The first document that ends a run of `kyverno test`.
    pub refused: Option<Refused>,
    /// The paths of unknown fields that end a run of `kyverno test`.
    pub unknown_fields: Vec<String>,
    /// The version and kind of the document that the schema accepts and Go cannot decode, which ends a run of `kyverno test`.
    pub undecodable: Option<String>,
    pub diagnostics: Vec<Diagnostic>,
}

impl Loaded {
    /// The number of documents, regardless of their outcome.
    pub fn count(&self) -> usize {
        let exceptions = self.exceptions.len() + self.cel_exceptions.len();
        self.policies.len() + self.bindings.len() + self.mutating_bindings.len() + exceptions + self.dropped.len()
    }
}

/// A document dropped because of an error.
#[derive(Debug, Clone)]
pub struct Dropped {
    /// May be empty.
    pub kind: String,
    /// May be empty.
    pub name: String,
    pub origin: Origin,
    /// The message of `kyverno test`; empty if unknown.
    pub text: String,
}

/// The reason why a document ends the run of `kyverno test`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    pub reason: Refusal,
    pub span: Span,
}

/// The reasons for which `kyverno test` ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A field that the schema does not have.
    UnknownField,
    /// The schema accepts the document, but it cannot be decoded.
    Undecodable,
    /// A kind that is not a policy.
    Kind,
    /// An invalid exception file.
    Exception,
}

/// The purpose of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// `policies` of a suite.
    Policies,
    /// `exceptions` of a suite.
    Exceptions,
}

/// The versions of a kind.
type Versions = &'static [&'static str];

const CLASSIC_VERSIONS: Versions = &["v1", "v2beta1"];
const CLEANUP_VERSIONS: Versions = &["v2beta1", "v2"];
const CEL_VERSIONS: Versions = &["v1alpha1", "v1beta1", "v1"];
const NAMESPACED_CEL_VERSIONS: Versions = &["v1beta1", "v1"];
/// The versions of native mutating policies. The schemas that Kyverno's command line carries are those of Kubernetes 1.32, which
/// has `v1alpha1` only.
const MUTATING_ADMISSION_VERSIONS: Versions = &["v1alpha1", "v1beta1", "v1"];

/// A kind that is evaluated.
struct Known {
    group: &'static str,
    kind: &'static str,
    versions: Versions,
    is_namespaced: bool,
    is_exception: bool,
    /// Decodes a document of an API version.
    decode: for<'t> fn(&str, &mut Decoder<'t>, Node<'t>, Origin) -> Option<Any>,
}

impl Known {
    const fn new(
        group: &'static str,
        kind: &'static str,
        versions: Versions,
        decode: for<'t> fn(&str, &mut Decoder<'t>, Node<'t>, Origin) -> Option<Any>,
    ) -> Self {
        Self {
            group,
            kind,
            versions,
            is_namespaced: false,
            is_exception: false,
            decode,
        }
    }

    const fn namespaced(self) -> Self {
        Self {
            is_namespaced: true,
            ..self
        }
    }

    /// A kind of exceptions, all of which have a namespace.
    const fn exception(self) -> Self {
        Self {
            is_exception: true,
            ..self.namespaced()
        }
    }
}

/// The cluster-wide and the namespaced kind of a policy.
const fn scoped<S: PolicySpec>(cluster: Versions, namespaced: Versions) -> [Known; 2]
where
    Policy: From<ScopedPolicy<S>>,
{
    [
        Known::new(S::GROUP, S::KINDS[0], cluster, |version, decoder, node, origin| {
            ScopedPolicy::<S>::decode(false, version, decoder, node, origin).map(Any::policy)
        }),
        Known::new(S::GROUP, S::KINDS[1], namespaced, |version, decoder, node, origin| {
            ScopedPolicy::<S>::decode(true, version, decoder, node, origin).map(Any::policy)
        })
        .namespaced(),
    ]
}

static KNOWN: [[Known; 2]; 10] = [
    [
        Known::new(
            "kyverno.io",
            "ClusterPolicy",
            CLASSIC_VERSIONS,
            |version, decoder, node, origin| {
                ClassicPolicy::decode(PolicyKind::ClusterPolicy, version, decoder, node, origin).map(Any::policy)
            },
        ),
        Known::new(
            "kyverno.io",
            "Policy",
            CLASSIC_VERSIONS,
            |version, decoder, node, origin| {
                ClassicPolicy::decode(PolicyKind::Policy, version, decoder, node, origin).map(Any::policy)
            },
        )
        .namespaced(),
    ],
    scoped::<ValidatingPolicySpec>(CEL_VERSIONS, NAMESPACED_CEL_VERSIONS),
    scoped::<MutatingPolicySpec>(CEL_VERSIONS, NAMESPACED_CEL_VERSIONS),
    scoped::<GeneratingPolicySpec>(CEL_VERSIONS, NAMESPACED_CEL_VERSIONS),
    scoped::<DeletingPolicySpec>(CEL_VERSIONS, NAMESPACED_CEL_VERSIONS),
    scoped::<ImageValidatingPolicySpec>(CEL_VERSIONS, NAMESPACED_CEL_VERSIONS),
    scoped::<CleanupPolicySpec>(CLEANUP_VERSIONS, CLEANUP_VERSIONS),
    [
        Known::new(
            "kyverno.io",
            "PolicyException",
            &["v2", "v2beta1"],
            |version, decoder, node, origin| {
                PolicyException::decode(version, decoder, node, origin).map(Any::Exception)
            },
        )
        .exception(),
        Known::new(
            "policies.kyverno.io",
            "PolicyException",
            CEL_VERSIONS,
            |version, decoder, node, origin| {
                CelPolicyException::decode(version, decoder, node, origin).map(Any::CelException)
            },
        )
        .exception(),
    ],
    [
        Known::new(
            NATIVE,
            ValidatingRules::KIND,
            &["v1"],
            |version, decoder, node, origin| {
                ValidatingAdmissionPolicy::decode(version, decoder, node, origin).map(Any::policy)
            },
        ),
        Known::new(
            NATIVE,
            "ValidatingAdmissionPolicyBinding",
            &["v1"],
            |version, decoder, node, origin| {
                ValidatingAdmissionPolicyBinding::decode(version, decoder, node, origin).map(Any::Binding)
            },
        ),
    ],
    [
        Known::new(
            NATIVE,
            MutatingRules::KIND,
            MUTATING_ADMISSION_VERSIONS,
            |version, decoder, node, origin| {
                MutatingAdmissionPolicy::decode(version, decoder, node, origin).map(Any::policy)
            },
        ),
        Known::new(
            NATIVE,
            "MutatingAdmissionPolicyBinding",
            MUTATING_ADMISSION_VERSIONS,
            |version, decoder, node, origin| {
                MutatingAdmissionPolicyBinding::decode(version, decoder, node, origin).map(Any::MapBinding)
            },
        ),
    ],
];

const NATIVE: &str = "admissionregistration.k8s.io";

/// Kinds of these groups that are not policies.
const NOT_POLICIES: [(&str, &str); 3] = [
    ("kyverno.io", "GlobalContextEntry"),
    ("kyverno.io", "UpdateRequest"),
    ("wgpolicyk8s.io", "PolicyReport"),
];

/// The treatment of a document by group, version and kind.
enum Decision {
    Decode(&'static Known),
    /// The kind does not have this version; lists those it has.
    Version(Versions),
    NotAPolicy,
    Unknown,
}

fn decide(group: &str, version: &str, kind: &str, purpose: Purpose) -> Decision {
    let known = KNOWN.iter().flatten();
    let Some(known) = known
        .into_iter()
        .find(|known| (known.group, known.kind) == (group, kind))
    else {
        let known = NOT_POLICIES.contains(&(group, kind));
        return if known || is_served(group, version, kind) {
            Decision::NotAPolicy
        } else {
            Decision::Unknown
        };
    };
    if !known.versions.contains(&version) {
        return Decision::Version(known.versions);
    }
    let is_cel_exception = known.is_exception && group != "kyverno.io";
    match purpose {
        // Among policies the loader knows one version of these.
        Purpose::Policies if is_cel_exception && version != "v1beta1" => Decision::NotAPolicy,
        Purpose::Policies => Decision::Decode(known),
        Purpose::Exceptions if known.is_exception => Decision::Decode(known),
        Purpose::Exceptions => Decision::NotAPolicy,
    }
}

/// Whether Kubernetes has the kind. The loader has schemas for these kinds and finds out later that they are no policies.
fn is_served(group: &str, version: &str, kind: &str) -> bool {
    Discovery::kubernetes().by_kind(group, version, kind).is_some()
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
    loaded.dropped.push(Dropped {
        kind,
        name,
        origin,
        text: String::new(),
    });
}

/// One document or one item of a list being loaded.
struct Load<'l, 't> {
    purpose: Purpose,
    tree: &'t Arc<Tree>,
    origin: Origin,
    /// Whether it is an item of a list, which never ends the run.
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
            let given = |text: Option<Text>| text.map(|text| text.value).unwrap_or_default();
            let (api_version, kind) = (given(text("apiVersion")), given(text("kind")));
            self.explain(if api_version.is_empty() && kind.is_empty() {
                "failed to parse document (GVK cannot be empty)".to_owned()
            } else {
                version_text(&api_version, &kind)
            });
            return;
        };
        if api_version.value == "v1" && kind.value == "List" && self.purpose == Purpose::Policies && !self.item {
            self.list(node);
            return;
        }
        let (group, version) = api_version.value.split_once('/').unwrap_or(("", &api_version.value));
        match decide(group, version, &kind.value, self.purpose) {
            Decision::Decode(known) => self.decode(known, &api_version.value, node),
            Decision::Version(versions) => {
                let message = format!("unknown version `{version}` of `{}` in `{group}`", kind.value);
                // A version that Kubernetes has and Kyverno does not accept ends the run upstream.
                let fatal = kind.value.starts_with("ValidatingAdmission");
                let help = format!("write {}", choice(versions));
                self.wrong_kind(api_version.span, message, help, fatal);
                self.explain(version_text(&api_version.value, &kind.value));
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
                self.explain(version_text(&api_version.value, &kind.value));
            }
        }
    }

    /// Sets the text of `kyverno test` about the document that was dropped last.
    fn explain(&mut self, text: String) {
        if let Some(dropped) = self.loaded.dropped.last_mut() {
            dropped.text = text;
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

    fn decode(&mut self, known: &Known, api_version: &str, node: Node<'t>) {
        let mut decoder = Decoder::new(self.tree, self.origin.file, Style::Schema);
        let Known {
            kind, is_namespaced, ..
        } = *known;
        let origin = self.origin;
        let decoded = (known.decode)(api_version, &mut decoder, node, origin);
        let name = member(node, "name");
        let written = node.get("metadata").and_then(|metadata| metadata.get("name"));
        // Metadata that is not a map has its own diagnostic.
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
            for (span, problem) in metadata_problems(node, origin.file, is_namespaced) {
                decoder.bad_value(span, problem);
            }
        }
        let findings = decoder.finish();
        let (fatal, wrong) = (findings.fatal(), findings.wrong());
        let first = findings.diagnostics.first().and_then(|diagnostic| diagnostic.primary);
        self.loaded.diagnostics.extend(findings.diagnostics);
        if fatal && !self.item {
            let reason = if findings.unknown {
                Refusal::UnknownField
            } else {
                Refusal::Undecodable
            };
            if self.loaded.refused.is_none() {
                self.loaded.unknown_fields = findings.unknown_paths;
                self.loaded.undecodable = Some(format!("{api_version}, Kind={kind}"));
            }
            refuse(self.loaded, reason, first.unwrap_or(origin.span));
        }
        let has_rules = GeneratingPolicySpec::KINDS.contains(&kind);
        match decoded.filter(|_| !wrong) {
            Some(any) => any.add(self.loaded),
            None => {
                let text = metadata_text(node).unwrap_or_else(|| {
                    let mut problems = violations_of_metadata(node, is_namespaced);
                    problems.extend(findings.schema_problems);
                    schema_text(problems, (api_version, kind, &name), has_rules)
                });
                drop_document(self.loaded, self.purpose, kind.to_owned(), name, origin);
                self.explain(text);
            }
        }
    }
}

enum Any {
    Policy(Policy),
    Exception(PolicyException),
    CelException(CelPolicyException),
    Binding(ValidatingAdmissionPolicyBinding),
    MapBinding(MutatingAdmissionPolicyBinding),
}

impl Any {
    fn policy(policy: impl Into<Policy>) -> Self {
        Self::Policy(policy.into())
    }

    fn add(self, loaded: &mut Loaded) {
        match self {
            Self::Policy(policy) => loaded.policies.push(policy),
            Self::Exception(exception) => loaded.exceptions.push(Arc::new(exception)),
            Self::CelException(exception) => loaded.cel_exceptions.push(Arc::new(exception)),
            Self::Binding(binding) => loaded.bindings.push(Arc::new(binding)),
            Self::MapBinding(binding) => loaded.mutating_bindings.push(Arc::new(binding)),
        }
    }
}
