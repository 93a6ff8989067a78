//! A policy compiled for Kyverno's side: its rules after autogen, with conditions and exceptions.
//!
//! Upstream counterpart: `pkg/engine` for classic policies, `pkg/cel/policies/vpol` for CEL policies (1.19), each with
//! `pkg/autogen` before it.

use std::{borrow::Cow, sync::Arc};

use super::{
    cel_policy::CompileErrors,
    classic_policy::CompiledClassicPolicy,
    constraints,
    evaluator::Evaluator,
    exception::CompiledException,
    input::Input,
    lens::{Lens, Route},
    response::RuleResponse,
    select::{Selection, Step},
    validating_policy::{CompiledValidatingPolicy, PolicyResult},
    webhook::{Call, Registration, Webhook},
};
use kyvtest_cel::{host::Host, observe::Observer, trace};
use kyvtest_go_compat::value::Value;
use kyvtest_model::{
    kube::{Concrete, Facts, RequestClass},
    policy::{CelPolicyException, ClassicPolicy, Mode, PolicyId, ValidatingPolicy, ValidationAction},
    verdict::Part,
};

/// A policy that is ready to be evaluated.
#[derive(Debug)]
pub struct Lowered {
    id: PolicyId,
    /// The index of the policy among those of its kind in the registration.
    number: usize,
    /// Whether a native policy is to be generated from it.
    marked: bool,
    rules: Rules,
}

#[derive(Debug)]
enum Rules {
    Classic(Box<CompiledClassicPolicy>),
    /// The policy as it is written, then what autogen makes of it.
    Validating(Vec<CompiledValidatingPolicy>),
}

/// One response of Kyverno's engine.
#[derive(Debug, Clone)]
pub struct EngineResponse {
    /// The policy's name as messages have it.
    pub policy: String,
    /// The responses of the rules that match.
    pub rules: Vec<RuleResponse>,
    /// The last part that was evaluated if no rule matches.
    pub part: Part,
    /// Whether violations warn the client.
    pub(crate) warns: bool,
    /// The evaluation trace, if the observer records one.
    pub trace: Vec<String>,
}

impl Lowered {
    /// Lowers a ClusterPolicy or Policy.
    pub(super) fn classic(policy: Arc<ClassicPolicy>, number: usize, lens: Lens) -> Self {
        Self {
            id: policy.id(),
            number,
            marked: false,
            rules: Rules::Classic(Box::new(CompiledClassicPolicy::with_lens(policy, lens))),
        }
    }

    /// Lowers a ValidatingPolicy with the exceptions that refer to it.
    pub(super) fn validating<'e>(
        policy: &ValidatingPolicy,
        exceptions: impl IntoIterator<Item = &'e CelPolicyException> + Clone,
        number: usize,
        lens: Lens,
    ) -> Result<Self, CompileErrors> {
        let id = policy.id();
        // `kyverno test` sees policies that no API server has stored.
        let policy = match lens.route {
            Route::Direct => Cow::Borrowed(policy),
            Route::Webhooks | Route::Converted => policy.as_stored(),
        };
        Ok(Self {
            id,
            number,
            marked: policy.is_marked(),
            rules: Rules::Validating(CompiledValidatingPolicy::compile_all(&policy, exceptions, lens)?),
        })
    }

    /// The policy's identity.
    pub fn id(&self) -> &PolicyId {
        &self.id
    }

    /// The policy's name.
    pub fn name(&self) -> &str {
        &self.id.name
    }

    /// Whether it is a CEL policy, which has no named rules.
    pub fn is_cel(&self) -> bool {
        matches!(self.rules, Rules::Validating(_))
    }

    /// The names of the rules as written; a CEL policy has one without a name.
    pub fn rule_names(&self) -> Vec<&str> {
        match self.as_classic() {
            Some(classic) => classic
                .policy()
                .spec
                .rules
                .iter()
                .map(|rule| &*rule.name.value)
                .collect(),
            None => vec![""],
        }
    }

    /// The rules of a ClusterPolicy or Policy.
    pub fn as_classic(&self) -> Option<&CompiledClassicPolicy> {
        match &self.rules {
            Rules::Classic(policy) => Some(policy),
            Rules::Validating(_) => None,
        }
    }

    /// A CEL policy as it is written, then what autogen makes of it.
    pub fn variants(&self) -> &[CompiledValidatingPolicy] {
        match &self.rules {
            Rules::Classic(_) => &[],
            Rules::Validating(variants) => variants,
        }
    }

    /// Whether violations count: without that they are warnings in reports.
    pub fn is_scored(&self) -> bool {
        match &self.rules {
            Rules::Classic(policy) => policy.is_scored(),
            Rules::Validating(variants) => variants.iter().all(CompiledValidatingPolicy::is_scored),
        }
    }

    /// Whether it evaluates JSON payloads instead of admission requests.
    pub fn is_for_payloads(&self) -> bool {
        self.variants().iter().any(|policy| *policy.mode() == Mode::Json)
    }

    /// Whether it is written for JSON payloads only, so that Kyverno generates no native policy from it.
    pub fn is_for_payloads_only(&self) -> bool {
        self.is_for_payloads() && !self.marked
    }

    /// Whether violations that do not deny the request warn the client.
    pub(super) fn emits_warnings(&self) -> bool {
        self.as_classic()
            .is_some_and(|policy| policy.policy().spec.emit_warning)
    }

    /// Whether a rule mutates.
    pub(super) fn mutates(&self) -> bool {
        let mutates =
            |policy: &CompiledClassicPolicy| policy.policy().spec.rules.iter().any(|rule| rule.mutate.is_some());
        self.as_classic().is_some_and(mutates)
    }

    pub(super) fn webhook<'r>(&self, registration: &'r Registration) -> Option<&'r Webhook> {
        match self.rules {
            Rules::Classic(_) => registration.classic(self.number),
            Rules::Validating(_) => registration.validating(self.number),
        }
    }

    /// Which parts of the policy decide about the requests of a class that Kyverno gets, in order.
    pub fn select<'p>(
        &'p self,
        cell: &RequestClass<'_>,
        facts: &mut impl Facts<'p>,
        exceptions: &'p [CompiledException],
        lens: Lens,
    ) -> Selection<'p, bool> {
        match &self.rules {
            Rules::Classic(policy) => policy.select(cell, facts, exceptions, lens),
            Rules::Validating(variants) => {
                let variants = variants.iter().enumerate();
                let steps = variants.map(|(number, variant)| (variant.select(number, cell, facts, lens), true));
                Selection {
                    webhook: None,
                    delivered: true,
                    open: true,
                    closed: None,
                    evaluates_again: false,
                    only_one: false,
                    steps: steps.collect(),
                }
            }
        }
    }

    /// The facts that matching reads.
    pub(super) fn facts<'i>(&self, input: &'i Input<'_>) -> Concrete<'i> {
        match self.rules {
            Rules::Classic(_) => input.facts(),
            Rules::Validating(_) => input.cel_facts(),
        }
    }

    /// Evaluates what is selected of the policy on a request. There are no responses if the API server does not call Kyverno.
    pub(super) fn evaluate<'p>(
        &'p self,
        selection: Selection<'p, bool>,
        input: &Input<'_>,
        exceptions: &'p [CompiledException],
        host: &dyn Host,
    ) -> (Call, Vec<EngineResponse>) {
        match &self.rules {
            Rules::Classic(policy) => {
                let (call, decided) = policy.evaluate(selection, input, exceptions, host);
                if call != Call::Made {
                    return (call, Vec::new());
                }
                let mut response = EngineResponse {
                    policy: self.name().to_owned(),
                    part: decided.part.unwrap_or(Part::Match),
                    warns: false,
                    rules: decided.rules,
                    trace: Vec::new(),
                };
                response.trace = trace(host, || policy.explain(input), &response.rules);
                (call, vec![response])
            }
            Rules::Validating(variants) => {
                let mut responses: Vec<Option<EngineResponse>> = vec![None; variants.len()];
                let mut respond = |step: &Step<'_>| {
                    if let (Some(policy), Some(slot)) = (variants.get(step.number), responses.get_mut(step.number)) {
                        *slot = Some(variant(policy, policy.respond(step, input, host), input, host));
                    }
                };
                let call = Evaluator::new(
                    input,
                    host,
                    || true,
                    |step: &Step<'p>| {
                        respond(step);
                        true
                    },
                )
                .evaluate(&selection);
                if call != Call::Made {
                    return (call, Vec::new());
                }
                for (step, _) in selection.steps.iter().filter(|(step, _)| !step.is_evaluated()) {
                    respond(step);
                }
                (call, responses.into_iter().flatten().collect())
            }
        }
    }

    /// Evaluates a policy for JSON payloads.
    pub fn evaluate_payload(&self, payload: Value<'_>, host: &dyn Host) -> Vec<EngineResponse> {
        let one = |policy: &CompiledValidatingPolicy| {
            let rules = vec![policy.decide_payload(payload, host)];
            EngineResponse {
                policy: policy.name().to_owned(),
                part: Part::Match,
                warns: false,
                trace: trace(host, Vec::new, &rules),
                rules,
            }
        };
        self.variants().iter().map(one).collect()
    }

    /// Why the match part selects a request or does not, if the observer has a trace.
    pub(super) fn trace(&self, input: &Input<'_>, host: &dyn Host) -> Vec<String> {
        let explain = || match &self.rules {
            Rules::Classic(policy) => policy.explain(input),
            Rules::Validating(variants) => {
                let constraints = variants.iter().filter_map(CompiledValidatingPolicy::constraints);
                constraints.map(|block| explain(block, input)).collect()
            }
        };
        trace(host, explain, &[])
    }
}

fn variant(
    policy: &CompiledValidatingPolicy,
    result: PolicyResult,
    input: &Input<'_>,
    host: &dyn Host,
) -> EngineResponse {
    let (rules, part) = match result {
        PolicyResult::NoMatch(part) => (Vec::new(), part),
        PolicyResult::Rule(rule) => (vec![rule], Part::Match),
    };
    let explain = || {
        let constraints = policy.constraints().into_iter();
        constraints.map(|block| explain(block, input)).collect()
    };
    EngineResponse {
        policy: policy.name().to_owned(),
        part,
        warns: policy.actions().contains(&ValidationAction::Warn),
        trace: trace(host, explain, &rules),
        rules,
    }
}

fn explain(block: &kyvtest_model::policy::MatchConstraints, input: &Input<'_>) -> String {
    constraints::explain(block, &input.request.cell(), &mut input.facts())
}

/// Builds the human-readable trace: why the request is selected, the values of expressions, and the deciding parts.
fn trace(host: &dyn Host, explain: impl FnOnce() -> Vec<String>, rules: &[RuleResponse]) -> Vec<String> {
    let Some(trace) = host.observer().and_then(Observer::trace) else {
        return Vec::new();
    };
    // Take the evaluations out of the trace first: the explanation must not add to it.
    let evaluations = trace.take();
    let mut lines = explain();
    lines.extend(trace::lines(evaluations));
    lines.extend(decided(rules));
    lines
}

/// Human-readable lines with the part that decided each response.
pub fn decided(rules: &[RuleResponse]) -> impl Iterator<Item = String> {
    rules.iter().map(|response| {
        let rule = if response.rule.is_empty() {
            String::new()
        } else {
            format!("rule `{}`: ", response.rule)
        };
        format!("{rule}{}, decided by {}", response.status, response.trace)
    })
}
