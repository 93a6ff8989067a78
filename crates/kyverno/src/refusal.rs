//! The response to a client whose request Kyverno denies.
//!
//! Upstream counterpart: `pkg/webhooks/utils/block.go` (classic policies), `pkg/webhooks/policies/validation` (CEL policies),
//! and the API server's `admission/plugin/webhook/errors`.
//!
//! Known deviation: if several webhooks deny a request, the API server reports the one that responds first; here it is
//! the first in order.

use std::{collections::BTreeMap, fmt::Write as _};

use super::response::RuleResponse;
use kyvtest_go_compat::{
    value::{Document, Value},
    yaml::{go_key, go_value},
};
use kyvtest_model::{
    kube::Request,
    policy::PolicyId,
    verdict::{Effect, Status},
};

/// The response of a rule or CEL policy, and the webhook that evaluated it.
#[derive(Debug, Clone)]
pub struct RuleReview {
    /// The webhook's name.
    pub webhook: String,
    pub id: PolicyId,
    /// The policy's name as messages have it.
    pub policy: String,
    /// Whether it is a CEL policy, whose denial has another wording.
    pub(crate) is_cel_policy: bool,
    pub response: RuleResponse,
    /// The objects that the rule generated.
    pub generated: Vec<Document>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub code: u16,
    pub message: String,
}

impl Refusal {
    /// The denial that these responses cause; `None` if the request is admitted.
    pub(crate) fn of(request: &Request, responses: &[RuleReview]) -> Option<Self> {
        let denies = |reviewed: &&RuleReview| reviewed.response.effect == Effect::Deny;
        let first = responses.iter().find(denies)?;
        let same: Vec<&RuleReview> = responses
            .iter()
            .filter(denies)
            .filter(|reviewed| reviewed.webhook == first.webhook)
            .collect();
        let text = if first.is_cel_policy {
            cel_policies(&same)
        } else {
            classic_policies(request, &same)
        };
        Some(Self {
            code: 400,
            message: format!("admission webhook \"{}\" denied the request: {text}", first.webhook),
        })
    }

    /// The refusal by the API server itself, which cannot evaluate a match condition.
    pub(crate) fn by_condition(request: &Request, error: &str) -> Self {
        let resource = &request.resource;
        let group = if resource.group.is_empty() {
            resource.plural.clone()
        } else {
            format!("{}.{}", resource.plural, resource.group)
        };
        Self {
            code: 403,
            message: format!("{group} \"{}\" is forbidden: {error}", request.name),
        }
    }
}

fn cel_policies(responses: &[&RuleReview]) -> String {
    let texts: Vec<String> = responses
        .iter()
        .map(|reviewed| {
            let word = if reviewed.response.status == Status::Fail {
                "failed"
            } else {
                "error"
            };
            format!("Policy {} {word}: {}", reviewed.policy, reviewed.response.message)
        })
        .collect();
    texts.join("; ")
}

/// A heading and a YAML document of policies, rules and messages.
fn classic_policies(request: &Request, responses: &[&RuleReview]) -> String {
    let mut policies: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for reviewed in responses {
        let rules = policies.entry(reviewed.policy.as_str()).or_default();
        rules.insert(reviewed.response.rule.as_str(), reviewed.response.message.as_str());
    }
    let mut document = String::new();
    let mut keys: Vec<&str> = policies.keys().copied().collect();
    keys.sort_by(|a, b| natural(a, b));
    for policy in keys {
        document.push_str(&go_key(policy));
        document.push_str(":\n");
        let Some(rules) = policies.get(policy) else { continue };
        let mut names: Vec<(&str, &str)> = rules.iter().map(|(name, message)| (*name, *message)).collect();
        names.sort_by(|a, b| natural(a.0, b.0));
        for (rule, message) in names {
            let _ = writeln!(document, "  {}: {}", go_key(rule), go_value(message, 4));
        }
    }
    let object = request.subject().map_or(Value::Null, |(_, object)| object);
    let name = object.at(&["metadata", "name"]).and_then(Value::as_str);
    let namespace = if request.cell().namespaced {
        request.namespace.as_str()
    } else {
        ""
    };
    let kind = &request.resource.object_kind.kind;
    let resource = format!("{kind}/{namespace}/{}", name.unwrap_or_default());
    format!("\n\nresource {resource} was blocked due to the following policies \n\n{document}")
}

/// The order of keys in Go's YAML library: letters behind others, runs of digits by their value.
///
/// Upstream counterpart: `go.yaml.in/yaml/v3` `sorter.go`.
fn natural(a: &str, b: &str) -> std::cmp::Ordering {
    let (one, two): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut digits = false;
    for (i, (&x, &y)) in one.iter().zip(&two).enumerate() {
        if x == y {
            digits = x.is_numeric();
            continue;
        }
        let (letter_x, letter_y) = (x.is_alphabetic(), y.is_alphabetic());
        if letter_x && letter_y {
            return x.cmp(&y);
        }
        if letter_x || letter_y {
            // After a digit letters come first, otherwise they come last.
            return if digits == letter_x {
                std::cmp::Ordering::Less
            } else {
                std::cmp::Ordering::Greater
            };
        }
        // A zero behind other digits does not start a number.
        let earlier = one
            .get(..i)
            .unwrap_or_default()
            .iter()
            .rev()
            .take_while(|c| c.is_numeric());
        let inside = (x == '0' || y == '0') && earlier.into_iter().any(|c| *c != '0');
        let run = |letters: &[char]| {
            let run = letters
                .get(i..)
                .unwrap_or_default()
                .iter()
                .take_while(|c| c.is_numeric());
            run.fold((0_u32, i64::from(inside)), |(length, value), c| {
                let digit = i64::from(u32::from(*c)) - i64::from(u32::from('0'));
                (length + 1, value.wrapping_mul(10).wrapping_add(digit))
            })
        };
        let ((length_x, value_x), (length_y, value_y)) = (run(&one), run(&two));
        return value_x.cmp(&value_y).then(length_x.cmp(&length_y)).then(x.cmp(&y));
    }
    one.len().cmp(&two.len())
}
