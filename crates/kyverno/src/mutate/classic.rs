//! The mutate rules of a ClusterPolicy or Policy, in order, each on what the one before returned.
//!
//! Upstream counterpart: `mutate` of `pkg/engine/mutation.go`, `invokeRuleHandler` of `pkg/engine/engine.go` and
//! `pkg/engine/handlers/mutation/mutate_resource.go` (1.19).

use std::sync::Arc;

use super::{MutateResponse, Targets};
use crate::{
    autogen::all_rules,
    classic::rule::{MutateRule, RuleContext, RuleMutator, outside},
    classic_policy::CompiledClassicPolicy,
    exception::CompiledException,
    input::Input,
    matching::applies,
};
use kyvtest_cel::host::Host;
use kyvtest_go_compat::value::{Document, Value};
use kyvtest_model::{
    kube::{Concrete, Request},
    policy::ClassicPolicy,
};

/// A policy with mutate rules, ready for evaluation.
#[derive(Debug)]
pub struct CompiledMutation {
    policy: CompiledClassicPolicy,
    key: String,
    rules: Vec<MutateRule>,
}

impl CompiledMutation {
    /// Prepares a policy and the rules generated from it; `None` if it has no mutate rule.
    pub fn new(policy: &Arc<ClassicPolicy>) -> Option<Self> {
        let rules: Vec<_> = all_rules(policy)
            .iter()
            .filter_map(|rule| MutateRule::new(rule))
            .collect();
        let written = policy.spec.rules.iter().any(|rule| MutateRule::new(rule).is_some());
        (written || !rules.is_empty()).then(|| Self {
            policy: CompiledClassicPolicy::new(Arc::clone(policy)),
            key: policy.key(),
            rules,
        })
    }

    /// The policy as it was read.
    pub fn policy(&self) -> &Arc<ClassicPolicy> {
        self.policy.policy()
    }

    /// Evaluates the rules on a request. Without `targets`, rules about existing objects are left out, as during
    /// admission.
    pub fn evaluate(
        &self,
        input: &Input<'_>,
        exceptions: &[CompiledException],
        targets: Option<&dyn Targets>,
        host: &dyn Host,
    ) -> MutateResponse {
        let mut response = MutateResponse {
            rules: Vec::new(),
            patched: Document::null(),
        };
        let namespace = self.policy().metadata.namespace.as_ref();
        let policy_namespace = namespace.map_or("", |namespace| namespace.value.as_str());
        let outsides: Vec<_> = self
            .rules
            .iter()
            .map(|rule| outside(input, &self.key, &rule.name, policy_namespace, host))
            .collect();
        let Some(first) = outsides.first() else {
            response.patched = input.resources().0.to_document();
            return response;
        };
        let mut mutator = RuleMutator::new(input, &self.key, &**first);
        response.patched = mutator.resource();
        if self.policy.gate(input).is_some() {
            // The response about a deletion has the old object, which no rule has replaced by the missing new one.
            if response.patched.root().is_null() {
                response.patched = input.resources().1.to_document();
            }
            return response;
        }
        let one = self.policy().spec.applies_one_rule();
        let mut request = with_object(input.request, &response.patched);
        for (rule, outside) in self.rules.iter().zip(&outsides) {
            let selection = rule.selection(policy_namespace);
            let mut facts = Concrete::new(&request, input.namespace());
            if !applies(selection, &request.cell(), &mut facts) {
                continue;
            }
            if rule.body.has_targets() && targets.is_none() {
                continue;
            }
            let rule_context = RuleContext {
                policy: &self.key,
                rule: &rule.name,
                selection,
                exceptions,
            };
            let before = response.rules.len();
            let results = mutator.run(rule, rule_context, &**outside, &response.patched, targets);
            response.rules.extend(results.results);
            if let Some(patched) = results.resource {
                response.patched = patched;
                request = with_object(input.request, &response.patched);
            }
            if one && response.rules[before..].iter().any(|result| result.response.applied()) {
                break;
            }
        }
        response
    }
}

/// The request with another object, for matching: its namespace is that of the object.
fn with_object(request: &Request, object: &Document) -> Request {
    let mut request = request.clone();
    request.object = object.clone();
    let root = object.root();
    if !root.is_null() && request.resource.object_kind.kind != "Namespace" {
        let namespace = root.at(&["metadata", "namespace"]).and_then(Value::as_str);
        namespace.unwrap_or_default().clone_into(&mut request.namespace);
    }
    request
}
