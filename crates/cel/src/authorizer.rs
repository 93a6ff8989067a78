//! Authorizers that decide by a list of rules, for expressions that use `authorizer`.
//!
//! A rule constrains the attributes that it names and ignores the others. The first matching rule decides. If no rule
//! matches, the RBAC objects of the cluster decide, if there is a cluster; otherwise the result is "no opinion", which
//! means "not allowed": an authorizer that allows undeclared access would hide mistakes.
//!
//! Upstream counterpart: none.

use super::host::{Attributes, Decision, Host};
use kyvtest_go_compat::value::Value;

/// Rules in evaluation order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizerRules {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rule {
    conditions: Vec<(Attribute, String)>,
    decision: Decision,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attribute {
    User,
    ServiceAccount,
    Path,
    Verb,
    Group,
    Resource,
    Subresource,
    Namespace,
    Name,
    FieldSelector,
    LabelSelector,
}

const ATTRIBUTES: [(&str, Attribute); 11] = [
    ("user", Attribute::User),
    ("serviceAccount", Attribute::ServiceAccount),
    ("path", Attribute::Path),
    ("verb", Attribute::Verb),
    ("group", Attribute::Group),
    ("resource", Attribute::Resource),
    ("subresource", Attribute::Subresource),
    ("namespace", Attribute::Namespace),
    ("name", Attribute::Name),
    ("fieldSelector", Attribute::FieldSelector),
    ("labelSelector", Attribute::LabelSelector),
];

impl AuthorizerRules {
    /// Reads rules from a list of maps: attributes (`user` by name, `serviceAccount` as `namespace/name`), `allowed`,
    /// `reason`, `error`.
    ///
    /// # Errors
    /// A message about the invalid rule.
    pub fn from_value(value: Value<'_>) -> Result<Self, String> {
        let list = match value {
            Value::Null => return Ok(Self::default()),
            Value::List(list) => list,
            other => return Err(format!("authorizer rules must be a list, not a {}", other.kind())),
        };
        let rules = list
            .iter()
            .enumerate()
            .map(|(i, rule)| Rule::from_value(rule).map_err(|problem| format!("authorizer rule {i}: {problem}")));
        Ok(Self {
            rules: rules.collect::<Result<_, _>>()?,
        })
    }
}

impl Rule {
    fn from_value(value: Value<'_>) -> Result<Self, String> {
        let Value::Map(map) = value else {
            return Err(format!("must be a map, not a {}", value.kind()));
        };
        let mut rule = Rule::default();
        for (key, value) in map.iter() {
            let text = || {
                value
                    .as_str()
                    .map(str::to_owned)
                    .ok_or_else(|| format!("`{}` must be a string", key.text()))
            };
            match key.text() {
                "allowed" => rule.decision.allowed = value.as_bool().ok_or("`allowed` must be true or false")?,
                "reason" => rule.decision.reason = text()?,
                "error" => rule.decision.error = Some(text()?),
                name => match ATTRIBUTES.iter().find(|(known, _)| *known == name) {
                    Some((_, attribute)) => rule.conditions.push((*attribute, text()?)),
                    None => return Err(format!("unknown field `{name}`")),
                },
            }
        }
        Ok(rule)
    }

    fn fits(&self, attributes: &Attributes) -> bool {
        self.conditions.iter().all(|(attribute, wanted)| match attribute {
            Attribute::ServiceAccount => attributes
                .service_account
                .as_ref()
                .is_some_and(|(namespace, name)| wanted.split_once('/') == Some((namespace.as_str(), name.as_str()))),
            Attribute::User => attributes.user == *wanted,
            Attribute::Path => attributes.path.as_ref() == Some(wanted),
            Attribute::Verb => attributes.verb == *wanted,
            Attribute::Group => attributes.group == *wanted,
            Attribute::Resource => attributes.resource == *wanted,
            Attribute::Subresource => attributes.subresource == *wanted,
            Attribute::Namespace => attributes.namespace == *wanted,
            Attribute::Name => attributes.name == *wanted,
            Attribute::FieldSelector => attributes.field_selector == *wanted,
            Attribute::LabelSelector => attributes.label_selector == *wanted,
        })
    }
}

impl Host for AuthorizerRules {
    fn authorize(&self, attributes: &Attributes) -> Option<Decision> {
        let rule = self.rules.iter().find(|rule| rule.fits(attributes));
        rule.map(|rule| rule.decision.clone())
    }
}
