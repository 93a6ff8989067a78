//! The `Test` document and its rows.
//!
//! Upstream counterpart: `cmd/cli/kubectl-kyverno/apis/v1alpha1/test.go`, `test_result.go` and `test/load.go` (1.19).

use super::{
    mocks::{ApiCallResponse, GlobalContextEntry},
    values::Values,
};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Span, nearest},
    yaml::Node,
};
use kyvtest_model::{
    kube::Operation,
    policy::{
        Metadata, Spanned, Text,
        decode::{Decoder, Fields},
    },
};

#[derive(Debug, Clone)]
pub struct Test {
    pub metadata: Metadata,
    /// Policy files and directories.
    pub policies: Vec<Text>,
    /// Files of tested resources.
    pub resources: Vec<Text>,
    /// Files of resources that mutate-existing rules change.
    pub target_resources: Vec<Text>,
    /// Files of parameters.
    pub param_resources: Vec<Text>,
    /// Files of the simulated cluster.
    pub cluster_resources: Vec<Text>,
    /// Files of exceptions.
    pub exceptions: Vec<Text>,
    /// The values file.
    pub variables: Option<Text>,
    /// Inline values; the values file is then ignored.
    pub values: Option<Values>,
    /// The user info file.
    pub userinfo: Option<Text>,
    /// The context file.
    pub context: Option<Text>,
    /// Payloads of policies on JSON.
    pub json_payloads: Vec<Text>,
    /// Payloads of policies on HTTP requests.
    pub http_payloads: Vec<Text>,
    /// Payloads of policies on Envoy's requests.
    pub envoy_payloads: Vec<Text>,
    /// Mocked responses to HTTP calls.
    pub api_call_responses: Vec<ApiCallResponse>,
    pub global_context_entries: Vec<GlobalContextEntry>,
    pub results: Vec<Row>,
    pub span: Span,
}

/// One row: an expected result.
#[derive(Debug, Clone)]
pub struct Row {
    /// As written: a name, or namespace and name; empty if missing.
    pub policy: Text,
    pub rule: Option<Text>,
    pub result: Spanned<Expected>,
    /// The expected result as written, if it is invalid.
    pub unknown_result: Option<String>,
    /// The kind of the resources, which Kyverno ignores.
    pub kind: Option<Text>,
    /// `None` if there is no list at all.
    pub resources: Option<Vec<Text>>,
    /// The resources in another notation.
    pub resource_specs: Vec<ResourceSpec>,
    pub operation: Option<Spanned<Operation>>,
    /// The file of expected mutated objects.
    pub patched_resources: Option<Text>,
    /// The file of the expected generated object.
    pub generated_resource: Option<Text>,
    /// Files of expected generated objects.
    pub generated_resources: Option<Vec<Text>>,
    /// The file of the objects that are cloned.
    pub clone_source_resource: Option<Text>,
    /// Whether an object that is not in the file is a failure.
    pub fail_on_missing_resources: bool,
    /// The flags for the policy's type.
    pub flags: Vec<Spanned<PolicyType>>,
    pub span: Span,
}

/// The expected result of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Expected {
    /// The rule holds.
    Pass,
    /// The rule is violated.
    Fail,
    /// The rule does not apply.
    Skip,
    /// The rule is violated and not scored.
    Warn,
    /// The rule cannot be evaluated.
    Error,
    /// A missing or invalid result, which never occurs.
    Never,
}

/// The type of a row's policy; Kyverno uses only that of deleting policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PolicyType {
    /// `isValidatingAdmissionPolicy`
    ValidatingAdmissionPolicy,
    /// `isMutatingAdmissionPolicy`
    MutatingAdmissionPolicy,
    /// `isValidatingPolicy`
    ValidatingPolicy,
    /// `isMutatingPolicy`
    MutatingPolicy,
    /// `isGeneratingPolicy`
    GeneratingPolicy,
    /// `isImageValidatingPolicy`
    ImageValidatingPolicy,
    /// `isDeletingPolicy`
    DeletingPolicy,
}

/// A resource in a row.
#[derive(Debug, Clone)]
pub struct ResourceSpec {
    /// The API group.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub namespace: String,
    pub subresource: String,
    pub name: String,
    pub span: Span,
}

/// The operations that a row can name.
pub(crate) const OPERATIONS: [(&str, Operation); 3] = [
    ("CREATE", Operation::Create),
    ("UPDATE", Operation::Update),
    ("DELETE", Operation::Delete),
];

impl Expected {
    pub(crate) const WORDS: [(&'static str, Self); 5] = [
        ("pass", Self::Pass),
        ("fail", Self::Fail),
        ("skip", Self::Skip),
        ("warn", Self::Warn),
        ("error", Self::Error),
    ];

    /// The value in a row; empty for an invalid one.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Skip => "skip",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Never => "",
        }
    }
}

/// A decoded `Test` document.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) test: Test,
    /// `apiVersion` or `kind` is missing, or `name` is set.
    pub(crate) deprecated: bool,
}

impl Test {
    pub(crate) fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Decoded> {
        let span = decoder.span(node);
        let mut fields = decoder.fields(node)?;
        let deprecated = header(&mut fields, "a suite", "Test");
        let old_name = fields.string("name").filter(|name| !name.is_empty());
        if let Some(name) = &old_name {
            let message = "the top-level `name` was removed";
            let help = format!("write `metadata: {{name: {}}}`", name.value);
            fields
                .decoder()
                .remark(Diagnostic::at(Code::OldSchema, name.span, message).with_help(help));
        }
        let metadata = Metadata::decode(&mut fields);
        let payload = fields.string("jsonPayload").filter(|payload| !payload.is_empty());
        let mut json_payloads = fields.strings("jsonPayloads");
        if json_payloads.is_empty() {
            json_payloads.extend(payload);
        }
        json_payloads.retain(|payload| !payload.trim().is_empty());
        for payload in &mut json_payloads {
            payload.value = super::files::clean(&payload.value);
        }
        let test = Self {
            metadata,
            policies: distinct(fields.strings("policies")),
            resources: distinct(fields.strings("resources")),
            json_payloads: distinct(json_payloads),
            http_payloads: fields.strings("httpPayloads"),
            envoy_payloads: fields.strings("envoyPayloads"),
            target_resources: fields.strings("targetResources"),
            param_resources: fields.strings("paramResources"),
            cluster_resources: fields.strings("clusterResources"),
            exceptions: fields.strings("exceptions"),
            variables: fields.string("variables").filter(|path| !path.is_empty()),
            values: fields.optional("values", |decoder, node| {
                let mut fields = decoder.fields(node)?;
                let values = Values::decode(&mut fields);
                fields.finish();
                Some(values)
            }),
            userinfo: fields.string("userinfo").filter(|path| !path.is_empty()),
            context: fields.string("context").filter(|path| !path.is_empty()),
            api_call_responses: fields.list("apiCallResponses", ApiCallResponse::decode),
            global_context_entries: fields.list("globalContextEntries", GlobalContextEntry::decode),
            results: fields.list("results", Row::decode),
            span,
        };
        once(
            fields.decoder(),
            "apiCallResponses",
            test.api_call_responses.iter().map(|call| (call.key(), call.url.span)),
        );
        once(
            fields.decoder(),
            "globalContextEntries",
            test.global_context_entries
                .iter()
                .map(|entry| (entry.name.value.clone(), entry.name.span)),
        );
        fields.removed(
            "checks",
            "`kyverno test` no longer supports assertion trees: write a row for each policy, rule and resource \
                under `results`",
        );
        fields.finish();
        Some(Decoded {
            test,
            deprecated: deprecated || old_name.is_some(),
        })
    }

    /// Empty if it has none.
    pub fn name(&self) -> &str {
        &self.metadata.name.value
    }
}

/// Decodes `apiVersion` and `kind`, which must not be empty. Returns whether one of them is.
pub(crate) fn header(fields: &mut Fields<'_, '_>, what: &str, kind: &str) -> bool {
    fields.inline(true);
    let mut missing = Vec::new();
    for name in ["apiVersion", "kind"] {
        let written = fields.entry(name).is_some_and(|entry| !entry.value.is_null());
        // A value of the wrong type has its own diagnostic.
        if fields.string(name).map_or(!written, |text| text.is_empty()) {
            missing.push(name);
        }
    }
    fields.inline(false);
    if missing.is_empty() {
        return false;
    }
    let owner = fields.span();
    let span = Span::point(owner.file, owner.start);
    let message = format!("{what} must have `{}`", missing.join("` and `"));
    let help = format!("write `apiVersion: cli.kyverno.io/v1alpha1` and `kind: {kind}`");
    fields
        .decoder()
        .remark(Diagnostic::at(Code::OldSchema, span, message).with_help(help));
    true
}

/// Reports duplicate mocks.
fn once(decoder: &mut Decoder<'_>, list: &str, keys: impl Iterator<Item = (String, Span)>) {
    let mut seen: Vec<(String, Span)> = Vec::new();
    for (key, span) in keys {
        match seen.iter().find(|(other, _)| *other == key) {
            Some((_, first)) => {
                let message = format!("`{list}` contains `{key}` twice");
                let diagnostic = Diagnostic::at(Code::DuplicateEntry, span, message);
                decoder.refuse(diagnostic.with_label(*first, "first defined here"));
            }
            None => seen.push((key, span)),
        }
    }
}

/// The strings without repetitions.
fn distinct(texts: Vec<Text>) -> Vec<Text> {
    let mut distinct: Vec<Text> = Vec::with_capacity(texts.len());
    for text in texts {
        if distinct.iter().all(|other| other.value != text.value) {
            distinct.push(text);
        }
    }
    distinct
}

impl Row {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let span = decoder.span(node);
        if node.is_null() {
            // Go leaves the row empty.
            decoder.remark(Diagnostic::at(Code::RowWord, span, "this row is empty"));
            return Some(Self::empty(span));
        }
        let mut fields = decoder.fields(node)?;
        fields.inline(true);
        let mut flags = Vec::new();
        for (name, flag) in [
            ("isValidatingAdmissionPolicy", PolicyType::ValidatingAdmissionPolicy),
            ("isMutatingAdmissionPolicy", PolicyType::MutatingAdmissionPolicy),
            ("isValidatingPolicy", PolicyType::ValidatingPolicy),
            ("isMutatingPolicy", PolicyType::MutatingPolicy),
            ("isGeneratingPolicy", PolicyType::GeneratingPolicy),
            ("isImageValidatingPolicy", PolicyType::ImageValidatingPolicy),
            ("isDeletingPolicy", PolicyType::DeletingPolicy),
        ] {
            let set = fields.bool(name).filter(|set| set.value);
            flags.extend(set.map(|set| Spanned::new(flag, set.span)));
        }
        let empty = Self::empty(span);
        let word = fields.string("result");
        let result = word
            .as_ref()
            .map_or(empty.result, |word| expected(fields.decoder(), word));
        if word.is_none() && !fields.has_any(&["result", "status"]) {
            let diagnostic = Diagnostic::at(Code::RowWord, row_start(span), "this row has no `result`");
            fields.decoder().remark(diagnostic.with_help(RESULTS));
        }
        let operation = fields.string("operation").filter(|word| !word.is_empty());
        let operation = operation.and_then(|word| {
            let found = OPERATIONS.iter().find(|(name, _)| *name == word.value);
            if found.is_none() {
                let message = format!("`{}` is not a valid operation", word.value);
                let help = "use `CREATE`, `UPDATE` or `DELETE`";
                fields
                    .decoder()
                    .refuse(Diagnostic::at(Code::RowWord, word.span, message).with_help(help));
            }
            found.map(|(_, operation)| Spanned::new(*operation, word.span))
        });
        if let Some(operation) = operation
            && flags.iter().any(|flag| flag.value == PolicyType::DeletingPolicy)
        {
            let message = "a row for a deleting policy cannot have an `operation`";
            fields
                .decoder()
                .refuse(Diagnostic::at(Code::RowWord, operation.span, message));
        }
        let row = Self {
            policy: fields.string("policy").unwrap_or(empty.policy),
            rule: fields.string("rule").filter(|rule| !rule.is_empty()),
            result,
            unknown_result: word.filter(|_| result.value == Expected::Never).map(|word| word.value),
            kind: fields.string("kind").filter(|kind| !kind.is_empty()),
            resources: fields.optional("resources", Decoder::strings),
            resource_specs: fields.list("resourceSpecs", ResourceSpec::decode),
            operation,
            patched_resources: fields.string("patchedResources").filter(|path| !path.is_empty()),
            generated_resource: fields.string("generatedResource").filter(|path| !path.is_empty()),
            generated_resources: fields.optional("generatedResources", Decoder::strings),
            clone_source_resource: fields.string("cloneSourceResource").filter(|path| !path.is_empty()),
            fail_on_missing_resources: fields.bool("failOnMissingResources").is_some_and(|value| value.value),
            flags,
            span,
        };
        fields.removed("status", "write `result` instead of `status`");
        fields.removed("resource", "write `resources: [name]`, a list, instead of `resource`");
        fields.removed(
            "namespace",
            "write the namespace before the name: `resources: [namespace/name]`; before the policy's name for a Policy",
        );
        fields.removed(
            "patchedResource",
            "write `patchedResources` instead of `patchedResource`",
        );
        fields.removed(
            "generatedResourceFile",
            "write `generatedResource` instead of `generatedResourceFile`",
        );
        let unnamed = row.policy.is_empty() && !fields.has_any(&["policy"]);
        fields.finish();
        if unnamed {
            let message = "this row names no policy";
            decoder.remark(Diagnostic::at(Code::RowWord, row_start(span), message));
        }
        Some(row)
    }

    fn empty(span: Span) -> Self {
        Self {
            policy: Spanned::new(String::new(), span),
            rule: None,
            result: Spanned::new(Expected::Never, span),
            unknown_result: None,
            kind: None,
            resources: None,
            resource_specs: Vec::new(),
            operation: None,
            patched_resources: None,
            generated_resource: None,
            generated_resources: None,
            clone_source_resource: None,
            fail_on_missing_resources: false,
            flags: Vec::new(),
            span,
        }
    }

    /// The policy's name without its namespace.
    pub fn policy_name(&self) -> &str {
        self.policy.rsplit('/').next().unwrap_or_default()
    }
}

/// The first character of a row.
fn row_start(span: Span) -> Span {
    Span::point(span.file, span.start)
}

const RESULTS: &str = "use `pass`, `fail`, `skip`, `warn` or `error`";

/// Parses the expected result; Kyverno accepts other values, which are never met.
fn expected(decoder: &mut Decoder<'_>, word: &Text) -> Spanned<Expected> {
    let found = Expected::WORDS.iter().find(|(name, _)| *name == word.value);
    if found.is_none() {
        let message = format!("`{}` is not a valid result", word.value);
        let mut diagnostic = Diagnostic::at(Code::RowWord, word.span, message).with_help(RESULTS);
        if let [near, ..] = nearest(&word.value, Expected::WORDS.iter().map(|(name, _)| *name)).as_slice() {
            diagnostic = diagnostic.with_label(word.span, format!("did you mean `{near}`?"));
        }
        decoder.remark(diagnostic);
    }
    Spanned::new(found.map_or(Expected::Never, |(_, expected)| *expected), word.span)
}

impl ResourceSpec {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let span = decoder.span(node);
        let mut fields = decoder.fields(node)?;
        let mut text = |name| fields.string(name).map(|text| text.value).unwrap_or_default();
        let spec = Self {
            group: text("group"),
            version: text("version"),
            kind: text("kind"),
            namespace: text("namespace"),
            subresource: text("subresource"),
            name: text("name"),
            span,
        };
        fields.finish();
        Some(spec)
    }
}
