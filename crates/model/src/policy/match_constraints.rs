//! `matchConstraints` and `matchResources` of native policies and of ValidatingPolicies.
//!
//! Upstream counterpart: `MatchResources` of `k8s.io/api/admissionregistration/v1`.

use super::{
    decode::{Decoder, Fields},
    from_value::from_value,
    located::{Spanned, Text},
    selector::decode_selector,
};
use crate::kube::{LabelSelector, RequestClass, ResourcePattern, RuleWithOperations, Scope};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Severity, Span},
    value::Value,
    yaml::Node,
};

/// The pod controllers with generated rules, as `autogen.podControllers` names them.
pub(crate) const POD_CONTROLLERS: [&str; 6] = [
    "cronjobs",
    "daemonsets",
    "deployments",
    "jobs",
    "replicasets",
    "statefulsets",
];

/// Whether a rule also covers other versions that serve the same objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MatchPolicy {
    /// Only the listed resources.
    Exact,
    /// The listed resources and their equivalents.
    Equivalent,
}

/// The requests that a policy matches.
#[derive(Debug, Clone)]
pub struct MatchConstraints {
    pub namespace_selector: Option<Spanned<LabelSelector>>,
    /// Labels of the object, new or old.
    pub object_selector: Option<Spanned<LabelSelector>>,
    /// One of these must match; empty matches everything.
    pub resource_rules: Vec<NamedRule>,
    /// None of these may match.
    pub exclude_resource_rules: Vec<NamedRule>,
    /// `None` is the API's default, `Equivalent`.
    pub match_policy: Option<Spanned<MatchPolicy>>,
    pub span: Span,
}

#[derive(Debug, Clone)]
pub struct NamedRule {
    /// Names, one of which the request must have; empty matches any.
    pub resource_names: Vec<String>,
    /// Operations and resources.
    pub rule: RuleWithOperations,
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
    /// Whether a rule lists a class of requests, ignoring names; without rules everything is listed.
    pub fn lists(&self, cell: &RequestClass<'_>) -> bool {
        self.resource_rules.is_empty() || self.resource_rules.iter().any(|named| named.rule.matches(cell))
    }

    /// Decodes the block; the decoder collects errors.
    pub(crate) fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        Self::decode_with(decoder, node, |_| {})
    }

    /// Decodes the block together with fields that only the caller knows.
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

    /// Whether it matches only Pods of version 1, without constraints on names or labels: only then are rules for pod
    /// controllers generated.
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

    /// Whether rules for pod controllers are generated; `wanted` are the controllers that the policy names, `None` means all.
    pub(crate) fn has_autogen(&self, wanted: Option<&[Text]>) -> bool {
        let is_controller = |name: &Text| POD_CONTROLLERS.contains(&name.value.as_str());
        self.is_pods_only() && wanted.is_none_or(|wanted| wanted.iter().any(is_controller))
    }

    /// Decodes a block from a value. Spans of diagnostics refer to the value's JSON text.
    pub fn from_value(value: Value<'_>) -> (Option<Self>, Vec<Diagnostic>) {
        from_value(value, |decoder, node, _| Self::decode(decoder, node))
    }
}

/// Decodes `matchPolicy`. The schemas do not list its values, so an unknown one counts as absent; the API server's own
/// validation of native policies is separate.
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
