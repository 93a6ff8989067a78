//! `matchConstraints` and `matchResources` of native policies and of ValidatingPolicies.
//!
//! Upstream counterpart: `MatchResources` of `k8s.io/api/admissionregistration/v1`.

use std::sync::Arc;

use super::{
    decode::{Decoder, Fields, Style},
    from_value::from_value,
    located::{Spanned, Text},
    selector::decode_selector,
};
use crate::kube::{LabelSelector, RequestClass, ResourcePattern, RuleWithOperations, Scope};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, FileId, Severity, Span},
    value::Value,
    yaml::{Node, Tree},
};

/// Whether a rule also means the other versions in which the same objects are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MatchPolicy {
    /// Only what is listed.
    Exact,
    /// What is listed, and the same under another name.
    Equivalent,
}

/// Which requests a policy is about.
#[derive(Debug, Clone)]
pub struct MatchConstraints {
    pub namespace_selector: Option<Spanned<LabelSelector>>,
    /// Labels of the object, new or old.
    pub object_selector: Option<Spanned<LabelSelector>>,
    /// One of these must match; none means everything.
    pub resource_rules: Vec<NamedRule>,
    /// None of these may match.
    pub exclude_resource_rules: Vec<NamedRule>,
    /// How rules are read; absent is the API's default, `Equivalent`.
    pub match_policy: Option<Spanned<MatchPolicy>>,
    /// Where the block stands.
    pub span: Span,
}

#[derive(Debug, Clone)]
pub struct NamedRule {
    /// Names of which the request must have one; none means any.
    pub resource_names: Vec<String>,
    /// Operations and resources.
    pub rule: RuleWithOperations,
    /// Where the rule stands.
    pub span: Span,
}

fn values(texts: Vec<Text>) -> Vec<String> {
    texts.into_iter().map(|text| text.value).collect()
}

impl NamedRule {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let rule = Self {
            resource_names: values(fields.strings("resourceNames")),
            rule: RuleWithOperations {
                operations: values(fields.strings("operations")),
                api_groups: values(fields.strings("apiGroups")),
                api_versions: values(fields.strings("apiVersions")),
                resources: fields
                    .strings("resources")
                    .iter()
                    .map(|text| ResourcePattern::from_text(text))
                    .collect(),
                scope: fields
                    .string("scope")
                    .map_or(Scope::All, |text| Scope::from_text(&text)),
            },
            span: fields.span(),
        };
        fields.finish();
        Some(rule)
    }
}

impl MatchConstraints {
    /// Whether a rule lists what is done in a cell, names aside; without rules everything is listed.
    pub fn lists(&self, cell: &RequestClass<'_>) -> bool {
        self.resource_rules.is_empty() || self.resource_rules.iter().any(|named| named.rule.matches(cell))
    }

    /// Reads the block; mistakes are the decoder's to keep.
    pub fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        Self::decode_with(decoder, node, |_| {})
    }

    /// Reads the block together with fields that only the caller knows.
    pub(super) fn decode_with<'t>(
        decoder: &mut Decoder<'t>,
        node: Node<'t>,
        others: impl FnOnce(&mut Fields<'t, '_>),
    ) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        others(&mut fields);
        let constraints = Self {
            namespace_selector: fields.optional("namespaceSelector", decode_selector),
            object_selector: fields.optional("objectSelector", decode_selector),
            resource_rules: fields.list("resourceRules", NamedRule::decode),
            exclude_resource_rules: fields.list("excludeResourceRules", NamedRule::decode),
            match_policy: fields.optional("matchPolicy", match_policy),
            span: fields.span(),
        };
        fields.finish();
        Some(constraints)
    }

    /// Whether it is about Pods of version 1 and nothing else, with no word on names or labels: only then rules for pod
    /// controllers are made.
    ///
    /// kyverno: `CanAutoGen` of pkg/cel/autogen/support.go (1.19).
    pub fn is_pods_only(&self) -> bool {
        let [rule] = self.resource_rules.as_slice() else {
            return false;
        };
        let (groups, versions) = (&rule.rule.api_groups, &rule.rule.api_versions);
        let [resource] = rule.rule.resources.as_slice() else {
            return false;
        };
        let selector = self.object_selector.as_ref().map(|selector| &selector.value);
        selector.is_none_or(LabelSelector::is_empty)
            && self.exclude_resource_rules.is_empty()
            && rule.resource_names.is_empty()
            && groups == &[""]
            && versions == &["v1"]
            && resource.resource == "pods"
            && resource.subresource.is_empty()
    }

    /// Reads a block that stands alone, with everything that is wrong with it.
    pub fn from_node(tree: &Arc<Tree>, node: Node<'_>, file: FileId) -> (Option<Self>, Vec<Diagnostic>) {
        let mut decoder = Decoder::new(tree, file, Style::Schema);
        let block = Self::decode(&mut decoder, tree.node(node.id()));
        (block, decoder.finish().diagnostics)
    }

    /// Reads a block from a value. Places of diagnostics refer to the value's JSON text.
    pub fn from_value(value: Value<'_>) -> (Option<Self>, Vec<Diagnostic>) {
        from_value(value, |decoder, node, _| Self::decode(decoder, node))
    }
}

/// Reads `matchPolicy`. The schemas have no list of its values, so that another one counts as none; what the API server makes of
/// it in its own policies is a matter of their validation.
fn match_policy<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Spanned<MatchPolicy>> {
    let text = decoder.string(node)?;
    let policy = match text.value.as_str() {
        "Exact" => MatchPolicy::Exact,
        "Equivalent" => MatchPolicy::Equivalent,
        other => {
            let message = format!("`{}` is `{other}`, which is none of its values", decoder.path());
            let diagnostic = Diagnostic::at(Code::BadValue, text.span, message).with_severity(Severity::Warning);
            decoder.remark(diagnostic.with_help("write `Exact` or `Equivalent`"));
            return None;
        }
    };
    Some(Spanned::new(policy, text.span))
}
