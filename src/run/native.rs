//! The native policies of a suite: through the API server's engine, or as `kyverno test` decides them.

use super::{Settings, respond::Responses, surroundings::Surroundings};
use crate::suite::{Resource, Suite};
use kyvtest_apiserver::{self as vap, offline};
use kyvtest_cel::host::Host;
use kyvtest_go_compat::diagnostic::Code;
use kyvtest_kyverno::response::RuleResponse;
use kyvtest_model::{
    kube::{Cluster, Operation, Request},
    policy::{PolicyId, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    verdict::{Status, Verdict},
};

/// The kind of native policies.
pub(super) const KIND: &str = "ValidatingAdmissionPolicy";

/// The identity of a native policy.
pub(super) fn id(name: &str) -> PolicyId {
    PolicyId {
        group: "admissionregistration.k8s.io",
        kind: KIND,
        namespace: String::new(),
        name: name.to_owned(),
    }
}

/// Native policies and bindings, ready to be asked.
pub(super) struct Natives {
    pub(super) policies: Vec<vap::CompiledPolicy>,
    bindings: Vec<vap::Binding>,
    compat: bool,
}

impl Natives {
    /// The native policies of a suite. In the default lens those that the API server refuses are refused here, too.
    pub(super) fn compile(
        suite: &Suite,
        settings: &Settings,
        surroundings: &Surroundings,
        responses: &mut Responses,
    ) -> Self {
        let loaded = &suite.policies;
        let bindings: Vec<&ValidatingAdmissionPolicyBinding> =
            loaded.bindings.iter().map(|binding| &**binding).collect();
        let policies: Vec<&ValidatingAdmissionPolicy> = loaded.vaps.iter().map(|policy| &**policy).collect();
        let mut natives = Self {
            policies: Vec::new(),
            bindings: bindings.iter().copied().map(vap::Binding::new).collect(),
            compat: settings.compat,
        };
        if settings.compat {
            natives.policies = policies.into_iter().map(offline::compile).collect();
            return natives;
        }
        let diagnostics = vap::check(&policies, &bindings, &surroundings.cluster.discovery);
        for policy in policies {
            let span = policy.source.span();
            let refused = diagnostics.iter().find(|diagnostic| {
                let within = diagnostic
                    .primary
                    .is_some_and(|place| place.file == span.file && span.start <= place.start && place.end <= span.end);
                diagnostic.code == Code::NativeRefused && within
            });
            match refused {
                None => natives.policies.push(vap::CompiledPolicy::compile(policy)),
                Some(first) => {
                    let name = policy.metadata.name.value.clone();
                    responses.refused.push((name, first.message.clone()));
                }
            }
        }
        responses.diagnostics.extend(diagnostics);
        natives
    }

    /// The names of the policies that are asked.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.policies.iter().map(vap::CompiledPolicy::name)
    }

    /// What each policy says about a resource: one answer, none where it does not look at it. Answers have the policy's
    /// name as that of their rule.
    pub(super) fn answers(
        &self,
        suite: &Suite,
        resource: &Resource,
        request: &Request,
        surroundings: &Surroundings,
        host: &dyn Host,
    ) -> Vec<(&str, Vec<RuleResponse>)> {
        if self.policies.is_empty() {
            return Vec::new();
        }
        let verdicts = self.verdicts(suite, resource, request, surroundings, host);
        let answer = |(name, verdict): (_, Option<Verdict>)| {
            let rule = verdict.map(|verdict| {
                let mut rule = RuleResponse::new(name, verdict.status, verdict.message, verdict.trace);
                rule.effect = verdict.effect;
                rule
            });
            (name, rule.into_iter().collect())
        };
        verdicts.into_iter().map(answer).collect()
    }

    fn verdicts(
        &self,
        suite: &Suite,
        resource: &Resource,
        request: &Request,
        surroundings: &Surroundings,
        host: &dyn Host,
    ) -> Vec<(&str, Option<Verdict>)> {
        let Cluster { world, discovery, .. } = &surroundings.cluster;
        if self.compat {
            // Whatever operation is asked for, the command line creates the object.
            let request = surroundings.request(suite, resource, Operation::Create, None);
            let cluster = suite.cluster.is_some();
            let policies = self.policies.iter();
            return policies
                .map(|policy| {
                    let verdict = offline::decide(policy, &self.bindings, &request, world, cluster);
                    (policy.name(), verdict)
                })
                .collect();
        }
        let answer = vap::decide(&self.policies, &self.bindings, request, world, discovery, host);
        let of_policy = |name| {
            let verdict = answer.of_policy(name);
            (name, verdict.filter(|verdict| verdict.status != Status::NoMatch))
        };
        self.names().map(of_policy).collect()
    }
}
