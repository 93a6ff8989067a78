//! The MutatingAdmissionPolicies of a suite on one request.
//!
//! Upstream counterpart: in the lens of `kyverno test` the stage of `processor/policy_processor.go` between classic
//! policies and MutatingPolicies (Kyverno 1.19), each policy on the result of the one before; otherwise the mutating
//! phase of the API server, with all policies together.
//!
//! Known deviation: in the default lens the object is decoded and defaulted after each mutation, and the server's
//! plugins do not run, so that it can be compared with a hand-written one.

use super::{
    engines::{Engines, PolicyResponse, native_mutating_id},
    response::{ResponseObjects, RuleObjects},
};
use crate::suite::Resource;
use kyvtest_apiserver::{CompiledMutatingPolicy, DeniedBy, Mutated};
use kyvtest_cel::host::Host;
use kyvtest_go_compat::value::Document;
use kyvtest_kyverno::{offline::RuleType, response::RuleResponse};
use kyvtest_model::{
    kube::{Operation, Request},
    policy::PolicyId,
    verdict::{Effect, Part, Status, Trace, Verdict},
};

/// The response of one policy.
pub(super) struct NativeMutation {
    pub(super) policy: PolicyId,
    pub(super) response: PolicyResponse,
    pub(super) objects: ResponseObjects,
}

/// Runs the policies on the object of a request as written, which is replaced by the result.
pub(super) fn evaluate(
    engines: &Engines<'_>,
    written: &Request,
    resource: &Resource,
    host: &dyn Host,
    object: &mut Document,
) -> Vec<NativeMutation> {
    let policies = engines.server.mutating_policies();
    if policies.is_empty() || object.root().is_null() {
        return Vec::new();
    }
    let environment = engines.environment(host);
    if !engines.settings.compat {
        let mutated = engines.server.mutate(written, environment, &engines.cluster.decoder());
        let before = std::mem::replace(object, mutated.object.clone());
        return policies
            .iter()
            .map(|policy| admitted(policy, &mutated, &before))
            .collect();
    }
    let mut responses = Vec::new();
    for policy in policies {
        let current = Resource {
            object: object.clone().into(),
            ..resource.clone()
        };
        // The command line always creates the object, regardless of the row's operation.
        let request = engines
            .cluster
            .request(engines.suite, &current, Operation::Create, None);
        let Some(mutation) = engines.server.mutate_offline(policy, &request, environment) else {
            continue;
        };
        let before = object.clone();
        if let Some(patched) = mutation.object {
            *object = patched;
        }
        responses.push(response(policy, Some(mutation.verdict), before, object.clone()));
    }
    responses
}

/// The response of one policy in the mutating phase. Every response has the object after the whole phase: policies may
/// run again after one another.
fn admitted(policy: &CompiledMutatingPolicy, mutated: &Mutated, before: &Document) -> NativeMutation {
    let mut verdict = mutated.of_policy(policy.name());
    let refusal = mutated.refusal.as_ref();
    // A later rejection by the server is attributed to the policies that changed the object.
    if let Some(refusal) = refusal.filter(|refusal| refusal.by == DeniedBy::Later)
        && verdict.as_ref().is_some_and(|verdict| verdict.status == Status::Pass)
    {
        verdict = Some(Verdict {
            status: Status::Error,
            effect: Effect::Deny,
            message: refusal.message.clone(),
            trace: Trace::error(Part::All),
        });
    }
    let patched = match refusal {
        Some(_) => Document::null(),
        None => mutated.object.clone(),
    };
    let verdict = verdict.filter(|verdict| verdict.status != Status::NoMatch);
    response(policy, verdict, before.clone(), patched)
}

fn response(
    policy: &CompiledMutatingPolicy,
    verdict: Option<Verdict>,
    before: Document,
    patched: Document,
) -> NativeMutation {
    let rules: Vec<RuleResponse> = verdict
        .into_iter()
        .map(|verdict| {
            let mut rule = RuleResponse::new(policy.name(), verdict.status, verdict.message, verdict.trace);
            rule.effect = verdict.effect;
            rule
        })
        .collect();
    NativeMutation {
        policy: native_mutating_id(policy.name()),
        objects: ResponseObjects {
            resource: before,
            patched: Some(patched),
            rules: rules
                .iter()
                .map(|_| RuleObjects {
                    rule_type: RuleType::Mutation,
                    target: None,
                    generated: Vec::new(),
                })
                .collect(),
        },
        response: PolicyResponse {
            rules,
            trace: Vec::new(),
        },
    }
}
