//! One request put to one policy of a suite.

use std::{borrow::Cow, cell::RefCell, sync::Arc};

use super::{
    Settings,
    edit::edited,
    respond::{Policies, Validating},
    surroundings::Surroundings,
    told,
    values::SuiteValues,
};
use crate::suite::{Resource, Suite};
use kyvtest_cel::{host::Host, observe::Observer};
use kyvtest_kyverno::{
    classic_policy::CompiledPolicy,
    constraints,
    input::Input,
    lens::Lens,
    response::RuleResponse,
    validating_policy::Answer,
    webhook::{Call, Webhook},
};
use kyvtest_model::{
    kube::{LabelSelector, Request},
    policy::{MatchConstraints, Mode, Rule, Spanned},
};

/// What is told of a request that Kyverno never sees.
const UNDELIVERED: &str = "no webhook hands the request to Kyverno";

/// Asks the policies about one request.
#[derive(Clone, Copy)]
pub(super) struct Asking<'s> {
    pub(super) suite: &'s Suite,
    pub(super) settings: &'s Settings,
    pub(super) surroundings: &'s Surroundings,
    pub(super) policies: &'s Policies,
    pub(super) lens: Lens,
    /// Who answers for the world outside.
    pub(super) host: &'s dyn Host,
    /// Where it is noted how answers come about, if anybody is told.
    pub(super) told: Option<&'s RefCell<Vec<String>>>,
}

impl Asking<'_> {
    pub(super) fn input<'r>(&'r self, request: &'r Request) -> Input<'r> {
        Input::new(
            request,
            &self.surroundings.cluster.world,
            &self.surroundings.cluster.discovery,
            self.lens,
        )
    }

    /// The request as a webhook hands it to Kyverno; `None` where it does not. `kyverno test` has no webhooks.
    pub(super) fn delivered<'r>(&self, webhook: Option<&Webhook>, request: &'r Request) -> Option<Cow<'r, Request>> {
        if self.settings.compat {
            return Some(Cow::Borrowed(request));
        }
        let (input, discovery) = (self.input(request), &self.surroundings.cluster.discovery);
        let delivery = webhook?.delivers(&request.cell(), discovery, &mut input.facts());
        // Kyverno's filters see the request as it arrives, converted to the listed version.
        delivery
            .of(request)
            .filter(|delivered| self.settings.config.judges(&self.input(delivered)))
    }

    /// Evaluates the conditions of a webhook: the error that denies the request, or whether Kyverno is called.
    fn called(&self, webhook: Option<&Webhook>, input: &Input<'_>) -> Result<bool, String> {
        match webhook.filter(|_| !self.settings.compat) {
            None => Ok(true),
            Some(webhook) => match webhook.call(input, self.host) {
                Call::Made => Ok(true),
                Call::NotMade(_) => Ok(false),
                Call::Refused(error) => Err(error),
            },
        }
    }

    pub(super) fn classic(
        &self,
        compiled: &CompiledPolicy,
        webhook: Option<&Webhook>,
        request: &Request,
        resource: &Resource,
    ) -> Vec<RuleResponse> {
        let policy = compiled.policy();
        let edited = edited(self.suite, &policy.metadata.name.value, resource, request);
        let request = edited.as_ref().unwrap_or(request);
        let requested = &request.resource;
        // Mutate rules come by the mutating webhook, which is not registered here.
        let mutates = policy.spec.rules.iter().any(|rule| rule.mutate.is_some());
        let delivered = self.delivered(webhook, request);
        let Some(request) = delivered.or_else(|| mutates.then_some(Cow::Borrowed(request))) else {
            self.tell(|| vec![UNDELIVERED.to_owned()]);
            return Vec::new();
        };
        let values = SuiteValues {
            suite: self.suite,
            resource: &resource.name,
            operation: request.operation,
        };
        let input = self.input(&request).with_values(&values);
        let input = input.converted_from(Arc::clone(requested));
        self.tell(|| compiled.explain(&input));
        match self.called(webhook, &input) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(error) => {
                let rules = policy.spec.rules.iter();
                let refused = |rule: &Rule| RuleResponse::refused_by_condition(&rule.name.value, &error);
                return rules.map(refused).collect();
            }
        }
        compiled.decide(&input, &self.policies.exceptions, self.host).rules
    }

    /// Notes lines, if anybody is told.
    fn tell(&self, lines: impl FnOnce() -> Vec<String>) {
        if let Some(mut told) = self.told.and_then(|told| told.try_borrow_mut().ok()) {
            told.extend(lines());
        }
    }

    /// What was told since the last time about answers.
    pub(super) fn told(&self, rules: &[RuleResponse]) -> Vec<String> {
        let Some(mut lines) = self
            .told
            .and_then(|told| told.try_borrow_mut().ok())
            .map(|mut told| std::mem::take(&mut *told))
        else {
            return Vec::new();
        };
        if let Some(story) = self.host.observer().and_then(Observer::story) {
            lines.extend(told::evaluations(story.take()));
        }
        lines.extend(told::rules(rules));
        lines
    }

    /// The answer of a CEL policy; `None` where upstream has none.
    pub(super) fn validating(
        &self,
        policy: &Validating,
        request: &Request,
        resource: &Resource,
    ) -> Option<Vec<RuleResponse>> {
        let compiled = &policy.compiled;
        if *compiled.mode() == Mode::Json {
            return Some(vec![compiled.decide_payload(resource.object.root(), self.host)]);
        }
        let webhook = self.policies.registration.validating(policy.number);
        let Some(delivered) = self.delivered(webhook, request) else {
            self.tell(|| vec![UNDELIVERED.to_owned()]);
            return Some(Vec::new());
        };
        let input = self.input(&delivered).converted_from(Arc::clone(&request.resource));
        self.tell(|| {
            let constraints = compiled.constraints().into_iter();
            constraints
                .map(|block| constraints::explain(block, &input.request.cell(), &mut input.facts()))
                .collect()
        });
        match self.called(webhook, &input) {
            Ok(true) => {}
            Ok(false) => return Some(Vec::new()),
            Err(error) => return Some(vec![RuleResponse::refused_by_condition("", &error)]),
        }
        match compiled.decide(&input, self.host) {
            Answer::Rule(rule) => Some(vec![rule]),
            // Upstream drops the silence of policies with a plain match block, so that autogen's other variants do not
            // show (`processor/policy_processor.go` `hasSelector`).
            Answer::NoMatch(_) if self.settings.compat && compiled.constraints().is_some_and(is_plain) => None,
            Answer::NoMatch(_) => Some(Vec::new()),
        }
    }
}

/// Whether a match block is nothing but one resource rule.
fn is_plain(constraints: &MatchConstraints) -> bool {
    let selects = |selector: &Option<Spanned<LabelSelector>>| {
        selector.as_ref().is_some_and(|selector| !selector.value.is_empty())
    };
    !selects(&constraints.namespace_selector)
        && !selects(&constraints.object_selector)
        && constraints.exclude_resource_rules.is_empty()
        && matches!(&constraints.resource_rules[..], [rule] if rule.resource_names.is_empty())
}
