//! PolicyException of kyverno.io (for ClusterPolicy and Policy) and of policies.kyverno.io (for CEL policies).
//!
//! Upstream counterpart: `api/kyverno/v2` and `api/policies.kyverno.io/v1alpha1` (1.19) with their schemas.

use super::{
    decode::Decoder,
    located::{Origin, Spanned, Subtree, Text},
    match_resources::MatchResources,
    parts::{MatchCondition, Metadata, conditions},
    scoped::{PolicySpec, ScopedPolicy},
};
use kyvtest_go_compat::{text::wildcard, yaml::Node};

/// A PolicyException of kyverno.io.
#[derive(Debug, Clone)]
pub struct PolicyException {
    /// The API version as written.
    pub api_version: String,
    pub metadata: Metadata,
    /// Whether it also applies to background scans.
    pub background: bool,
    pub matches: MatchResources,
    /// Conditions with variables.
    pub conditions: Option<Subtree>,
    /// The exempted rules.
    pub exceptions: Vec<ExceptedRules>,
    /// The exempted controls of the Pod Security Standards.
    pub pod_security: Option<Subtree>,
    /// The spec as written.
    pub source: Subtree,
    pub origin: Origin,
}

/// Rules of one policy.
#[derive(Debug, Clone)]
pub struct ExceptedRules {
    /// The policy: `name`, or `namespace/name` of a Policy.
    pub policy_name: Text,
    /// The rules; wildcards are allowed.
    pub rule_names: Vec<Text>,
}

impl ExceptedRules {
    /// Whether it exempts a rule of a policy.
    pub fn names(&self, policy: &str, rule: &str) -> bool {
        self.policy_name.value == policy && self.rule_names.iter().any(|pattern| wildcard::matches(pattern, rule))
    }
}

impl PolicyException {
    /// Whether it exempts a rule of a policy.
    pub fn names(&self, policy: &str, rule: &str) -> bool {
        self.exceptions.iter().any(|rules| rules.names(policy, rule))
    }

    pub(crate) fn decode<'t>(
        api_version: &str,
        decoder: &mut Decoder<'t>,
        node: Node<'t>,
        origin: Origin,
    ) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        fields.ignore(&["apiVersion", "kind"]);
        let metadata = Metadata::decode(&mut fields);
        let exception = fields.required("spec", |decoder, node| {
            let source = decoder.subtree(node)?;
            let mut fields = decoder.fields(node)?;
            let background = fields.bool("background");
            let matches = fields.required("match", MatchResources::decode_any_all);
            let conditions = fields.optional("conditions", conditions);
            let exceptions = fields.required("exceptions", |decoder, node| {
                decoder.list(node, |decoder, node| {
                    let mut fields = decoder.fields(node)?;
                    let policy_name = fields.required_string("policyName");
                    let rule_names = fields.required("ruleNames", Decoder::strings);
                    fields.finish();
                    Some(ExceptedRules {
                        policy_name: policy_name?,
                        rule_names: rule_names?,
                    })
                })
            });
            let pod_security = fields.subtree("podSecurity");
            fields.finish();
            Some(Self {
                api_version: api_version.to_owned(),
                metadata,
                background: background.is_none_or(|value| value.value),
                matches: matches?,
                conditions,
                exceptions: exceptions?,
                pod_security,
                source,
                origin,
            })
        });
        fields.finish();
        exception
    }
}

/// A PolicyException of policies.kyverno.io.
#[derive(Debug, Clone)]
pub struct CelPolicyException {
    /// The API version as written.
    pub api_version: String,
    pub metadata: Metadata,
    /// The exempted policies.
    pub policy_refs: Vec<PolicyRef>,
    pub match_conditions: Vec<MatchCondition>,
    /// Images that expressions see as allowed.
    pub images: Vec<Text>,
    /// Values that expressions see as allowed.
    pub allowed_values: Vec<Text>,
    /// The reported result of an exempted policy.
    pub report_result: ReportResult,
    /// The expiry time, as written.
    pub expires_at: Option<Text>,
    /// The kind of input, as written.
    pub evaluation_mode: Option<Text>,
    /// Properties for the report.
    pub properties: Vec<(Text, Text)>,
    /// The spec as written.
    pub source: Subtree,
    pub origin: Origin,
}

/// A policy by name and kind.
#[derive(Debug, Clone)]
pub struct PolicyRef {
    pub name: Text,
    pub kind: Text,
}

/// The reported result of an exempted policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReportResult {
    /// The policy is reported as skipped.
    Skip,
    Pass,
}

impl CelPolicyException {
    pub fn references(&self, kind: &str, name: &str) -> impl Iterator<Item = &PolicyRef> {
        let references = self.policy_refs.iter();
        references.filter(move |to| to.name.value == name && to.kind.value == kind)
    }

    /// Whether it refers to a policy.
    pub fn refers_to<S: PolicySpec>(&self, policy: &ScopedPolicy<S>) -> bool {
        let name = &policy.metadata.name.value;
        self.references(policy.kind(), name).next().is_some()
    }

    pub(crate) fn decode<'t>(
        api_version: &str,
        decoder: &mut Decoder<'t>,
        node: Node<'t>,
        origin: Origin,
    ) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        fields.ignore(&["apiVersion", "kind"]);
        let metadata = Metadata::decode(&mut fields);
        let exception = fields.required("spec", |decoder, node| {
            let source = decoder.subtree(node)?;
            let mut fields = decoder.fields(node)?;
            let policy_refs = fields.required("policyRefs", |decoder, node| {
                decoder.list(node, |decoder, node| {
                    let mut fields = decoder.fields(node)?;
                    let name = fields.required_string("name");
                    let kind = fields.required_string("kind");
                    fields.finish();
                    Some(PolicyRef {
                        name: name?,
                        kind: kind?,
                    })
                })
            });
            let words = [("skip", ReportResult::Skip), ("pass", ReportResult::Pass)];
            let match_conditions = fields.list("matchConditions", MatchCondition::decode);
            let images = fields.strings("images");
            let allowed_values = fields.strings("allowedValues");
            let report_result = fields.word("reportResult", &words);
            let expires_at = fields.optional("expiresAt", date_time);
            let evaluation_mode = fields.string("evaluationMode");
            let properties = fields.optional("properties", Decoder::string_map).unwrap_or_default();
            fields.finish();
            Some(Self {
                api_version: api_version.to_owned(),
                metadata,
                policy_refs: policy_refs?,
                match_conditions,
                images,
                allowed_values,
                report_result: report_result.map_or(ReportResult::Skip, |word: Spanned<_>| word.value),
                expires_at,
                evaluation_mode,
                properties,
                source,
                origin,
            })
        });
        fields.finish();
        exception
    }
}

/// Validates `format: date-time`.
fn date_time<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Text> {
    let text = decoder.string(node)?;
    if text.value.parse::<jiff::Timestamp>().is_err() {
        let message = format!("`{}`: invalid time `{}`", decoder.path(), text.value);
        decoder.bad_value(text.span, message);
        return None;
    }
    Some(text)
}
