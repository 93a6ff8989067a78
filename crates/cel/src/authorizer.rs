//! Authorizers that answer from a list of rules, for expressions that ask `authorizer`.
//!
//! Each rule names the attributes that it is about; what it leaves out, it does not care about. The first rule that fits
//! decides. A question that no rule fits is left to the RBAC objects of the cluster, if there is one, and else gets no
//! opinion, which is "not allowed": an authorizer that allows what is not declared would hide mistakes.

use super::host::{Attributes, Decision, Host};
use kyvtest_go_compat::value::Value;

/// Rules in the order in which they are tried.
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
    /// Reads rules from a list of maps: attributes (`user` by name,
    /// `serviceAccount` as `namespace/name`), `allowed`, `reason`, `error`.
    ///
    /// # Errors
    /// What is wrong, in our own words.
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

    fn fits(&self, asked: &Attributes) -> bool {
        self.conditions.iter().all(|(attribute, wanted)| match attribute {
            Attribute::ServiceAccount => asked
                .service_account
                .as_ref()
                .is_some_and(|(namespace, name)| wanted.split_once('/') == Some((namespace.as_str(), name.as_str()))),
            Attribute::User => asked.user == *wanted,
            Attribute::Path => asked.path.as_ref() == Some(wanted),
            Attribute::Verb => asked.verb == *wanted,
            Attribute::Group => asked.group == *wanted,
            Attribute::Resource => asked.resource == *wanted,
            Attribute::Subresource => asked.subresource == *wanted,
            Attribute::Namespace => asked.namespace == *wanted,
            Attribute::Name => asked.name == *wanted,
            Attribute::FieldSelector => asked.field_selector == *wanted,
            Attribute::LabelSelector => asked.label_selector == *wanted,
        })
    }
}

impl Host for AuthorizerRules {
    fn authorize(&self, attributes: &Attributes) -> Option<Decision> {
        let rule = self.rules.iter().find(|rule| rule.fits(attributes));
        rule.map(|rule| rule.decision.clone())
    }
}
