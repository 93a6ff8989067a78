//! Reads both sides from policies.

use std::{collections::BTreeMap, sync::Arc};

use super::{ClassicRule, Kyverno, LoweredRule, MatchConditions, Native, Variant};
use crate::{
    Target,
    condition::{Condition, Reader},
    inline::inline,
};
use kyvtest_convert::Exceptions;
use kyvtest_go_compat::text::wildcard;
use kyvtest_kyverno::{autogen, lens::Lens};
use kyvtest_model::policy::{
    ApplyRules, ClassicPolicy, FailurePolicy, MatchCondition, MatchResources, Mode, PolicyException, Rule,
    ValidatingPolicy, Validation, validate_exception,
};

fn text_of(conditions: &[MatchCondition]) -> Vec<String> {
    let texts = conditions.iter().map(|condition| condition.expression.text().trim());
    texts.map(str::to_owned).collect()
}

/// The validations that may object: `true` never does.
fn objecting(validations: &[Validation]) -> Vec<String> {
    let texts = validations.iter().map(|part| part.expression.text().trim());
    texts.filter(|text| *text != "true").map(str::to_owned).collect()
}

/// All expressions, each once.
#[derive(Default)]
pub(super) struct LoweredRules(pub(super) Vec<LoweredRule>);

impl LoweredRules {
    /// The number of a body. Audit annotations make no other body of it: a guard looks whether there are any on either side.
    fn number(&mut self, mut body: LoweredRule) -> usize {
        let annotations = std::mem::take(&mut body.annotations);
        let same = |other: &LoweredRule| {
            let LoweredRule {
                conditions,
                variables,
                validations,
                annotations: _,
                params,
                opaque,
            } = other;
            (conditions, variables, validations) == (&body.conditions, &body.variables, &body.validations)
                && (params, opaque) == (&body.params, &body.opaque)
        };
        let at = self.0.iter().position(same).unwrap_or_else(|| {
            self.0.push(body);
            self.0.len() - 1
        });
        if let Some(body) = self.0.get_mut(at) {
            body.annotations.extend(annotations);
        }
        at
    }

    /// Represents webhook conditions outside the decidable fragment.
    pub(super) fn of_conditions(&mut self, texts: &[String]) -> Option<usize> {
        let conditions = unreadable(texts);
        (!conditions.is_empty()).then(|| {
            self.number(LoweredRule {
                conditions,
                opaque: None,
                ..LoweredRule::default()
            })
        })
    }
}

/// The conditions outside the decidable fragment, each once. They belong to the body: the same ones decide alike on both
/// sides.
pub(super) fn unreadable(texts: &[String]) -> Vec<String> {
    let mut list: Vec<String> = texts
        .iter()
        .filter(|text| Condition::read(text, Reader::Native).is_none())
        .cloned()
        .collect();
    list.sort_unstable();
    list.dedup();
    list
}

/// The conditions of the decidable fragment.
pub(super) fn readable(texts: &[String], reader: Reader) -> Vec<Condition> {
    texts.iter().filter_map(|text| Condition::read(text, reader)).collect()
}

fn classic_body(rule: &Rule, conditions: Vec<String>) -> LoweredRule {
    let Some(cel) = rule.validate.as_ref().and_then(|validate| validate.cel.as_ref()) else {
        return LoweredRule {
            conditions,
            opaque: Some("a rule without `validate.cel`"),
            ..LoweredRule::default()
        };
    };
    let text = |text: &str| text.trim().to_owned();
    LoweredRule {
        conditions,
        variables: cel
            .variables
            .iter()
            .map(|variable| (variable.name.value.clone(), text(variable.expression.text())))
            .collect(),
        validations: objecting(&cel.expressions),
        // Kyverno does not evaluate them.
        annotations: Vec::new(),
        params: cel
            .param_kind
            .as_ref()
            .map(|kind| format!("{}/{}", kind.api_version, kind.kind)),
        opaque: if rule.preconditions.is_some() || rule.context.is_some() {
            Some("`preconditions` or `context`")
        } else {
            None
        },
    }
}

pub(super) fn native(target: &Target, bodies: &mut LoweredRules) -> Vec<Native> {
    let text = |text: &str| text.trim().to_owned();
    let policies = target.policies.iter();
    let policies = policies.map(|policy| (policy, text_of(&policy.match_conditions)));
    policies
        .map(|(policy, texts)| Native {
            conditions: MatchConditions {
                conditions: readable(&texts, Reader::Native),
                ignores_errors: policy
                    .failure_policy
                    .as_ref()
                    .is_some_and(|word| word.value == "Ignore"),
            },
            unread: unreadable(&texts),
            body: bodies.number(LoweredRule {
                conditions: unreadable(&texts),
                variables: policy
                    .variables
                    .iter()
                    .map(|variable| (variable.name.value.clone(), text(variable.expression.text())))
                    .collect(),
                validations: objecting(&policy.rules.validations),
                annotations: policy
                    .rules
                    .audit_annotations
                    .iter()
                    .map(|part| (part.key.value.clone(), text(part.value_expression.text())))
                    .collect(),
                params: policy
                    .param_kind
                    .as_ref()
                    .map(|kind| format!("{}/{}", kind.api_version, kind.kind)),
                opaque: None,
            }),
        })
        .collect()
}

pub(super) fn classic(
    policy: &ClassicPolicy,
    exceptions: Exceptions<'_>,
    lens: Lens,
    called: &[String],
    bodies: &mut LoweredRules,
    inexact: &mut Vec<String>,
) -> Kyverno {
    let usable = exceptions.classic.iter();
    let usable: Vec<_> = usable
        .filter(|exception| validate_exception(exception).is_none())
        .collect();
    let key = policy.key();
    let mut make = |rule: &Rule| {
        let blocks = [Some(&rule.matches), rule.exclude.as_ref()].into_iter().flatten();
        if blocks.clone().any(is_random) {
            inexact.push("label wildcards that match the same key: Kyverno's result is random".to_owned());
        }
        let mut conditional = usable.iter().filter(|exception| exception.conditions.is_some());
        let names = |exception: &&&Arc<PolicyException>| {
            let mut rules = exception.exceptions.iter();
            rules.any(|rules| rules.names(&key, &rule.name.value))
        };
        if conditional.find(names).is_some() {
            inexact.push("an exception has conditions".to_owned());
        }
        let cel = rule.validate.as_ref().and_then(|validate| validate.cel.as_ref());
        let variables: Vec<(String, String)> = cel
            .into_iter()
            .flat_map(|cel| &cel.variables)
            .map(|variable| (variable.name.value.clone(), variable.expression.text().to_owned()))
            .collect();
        let texts: Vec<String> = text_of(&rule.cel_preconditions)
            .iter()
            .map(|text| inline(text, &variables))
            .collect();
        let unread = unreadable(&[texts.as_slice(), called].concat());
        ClassicRule {
            may_fail_before: rule.preconditions.is_some() || rule.context.is_some(),
            conditions: MatchConditions {
                conditions: readable(&texts, Reader::Classic),
                ignores_errors: false,
            },
            body: bodies.number(classic_body(rule, unread)),
        }
    };
    let mut rules = BTreeMap::new();
    for kind in autogen::kinds_at(policy, lens) {
        let own = autogen::rules_for(policy, &kind);
        rules.insert(kind, own.iter().map(|rule| make(rule)).collect::<Vec<_>>());
    }
    let apply = policy.spec.apply_rules.as_ref();
    let only_one = apply.is_some_and(|apply| apply.value == ApplyRules::One);
    if only_one && policy.spec.rules.len() > 1 {
        inexact.push("`applyRules: One` with several rules".to_owned());
    }
    Kyverno::Classic(rules)
}

/// Whether a wildcard of a selector may find a key that another pair of it names: which of the two is compared then depends on
/// the order of a Go map (`pkg/engine/wildcards` upstream).
fn is_random(block: &MatchResources) -> bool {
    let filters = std::iter::once(&block.inline).chain(&block.any).chain(&block.all);
    let mut selectors = filters
        .flat_map(|filter| {
            [
                filter.resources.selector.as_deref(),
                filter.resources.namespace_selector.as_deref(),
            ]
        })
        .flatten();
    selectors.any(|selector| {
        let pairs: Vec<&str> = selector
            .requirements()
            .iter()
            .filter(|requirement| requirement.is_pair)
            .map(|requirement| requirement.key.as_str())
            .collect();
        let wild = pairs.iter().filter(|key| wildcard::has_wildcard(key));
        let several = wild.clone().count() > 1;
        let meets = |wild: &&str| pairs.iter().any(|key| key != wild && wildcard::matches(wild, key));
        several || wild.clone().any(meets)
    })
}

pub(super) fn validating(
    policy: &ValidatingPolicy,
    exceptions: Exceptions<'_>,
    lens: Lens,
    bodies: &mut LoweredRules,
    inexact: &mut Vec<String>,
) -> Kyverno {
    let own = exceptions.cel.iter().filter(|exception| {
        let mut refs = exception.policy_refs.iter();
        refs.any(|named| named.name.value == policy.metadata.name.value && named.kind.value == policy.kind())
    });
    let mut lifting: Vec<MatchConditions> = Vec::new();
    for exception in own {
        if !exception.images.is_empty() || !exception.allowed_values.is_empty() || exception.expires_at.is_some() {
            inexact.push("an exception is for some values or for some time only".to_owned());
        }
        let texts = text_of(&exception.match_conditions);
        let conditions: Vec<Condition> = texts
            .iter()
            .filter_map(|text| Condition::read(text, Reader::Validating))
            .collect();
        if conditions.len() < texts.len() {
            inexact.push("a condition of an exception is too complex to decide".to_owned());
        }
        lifting.push(MatchConditions {
            conditions,
            ignores_errors: ignores(policy),
        });
    }
    match policy.spec.evaluation.mode {
        Mode::Kubernetes => {}
        // Such a policy is never evaluated on a request.
        Mode::Json => return Kyverno::Validating(Vec::new()),
        Mode::Http | Mode::Envoy | Mode::Other(_) => inexact.push("a policy for other input than requests".to_owned()),
    }
    let generated = autogen::variants_at(policy, lens);
    let all = std::iter::once(policy).chain(generated.iter().map(|variant| &variant.policy));
    let text = |text: &str| text.trim().to_owned();
    let variants = all
        .map(|policy| {
            let spec = &policy.spec;
            let texts = text_of(&spec.match_conditions);
            let unread = unreadable(&texts);
            Variant {
                conditions: MatchConditions {
                    conditions: readable(&texts, Reader::Validating),
                    ignores_errors: ignores(policy),
                },
                exceptions: lifting.clone(),
                body: bodies.number(LoweredRule {
                    conditions: unread,
                    variables: spec
                        .variables
                        .iter()
                        .map(|variable| (variable.name.value.clone(), text(variable.expression.text())))
                        .collect(),
                    validations: objecting(&spec.validations),
                    annotations: spec
                        .audit_annotations
                        .iter()
                        .map(|part| (part.key.value.clone(), text(part.value_expression.text())))
                        .collect(),
                    params: None,
                    opaque: None,
                }),
            }
        })
        .collect();
    Kyverno::Validating(variants)
}

/// Whether a ValidatingPolicy ignores errors.
pub(crate) fn ignores(policy: &ValidatingPolicy) -> bool {
    let word = policy.spec.failure_policy.as_ref();
    word.is_some_and(|word| word.value == FailurePolicy::Ignore)
}
