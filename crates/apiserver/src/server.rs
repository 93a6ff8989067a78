//! An API server with native policies and bindings.
//!
//! Upstream counterpart: the plugin `ValidatingAdmissionPolicy` of the API server. With [`Lens::Cli`] it is the processor of
//! `kyverno test`, which creates every object and has a matcher of its own.

use super::{
    decide::decide,
    mutate::{Mutated, mutate},
    mutating::CompiledMutatingPolicy,
    offline::{self, OfflineMutation},
    policy::{Binding, CompiledNativePolicy},
    response::{AdmissionResponse, PolicyVerdict},
    select::{Selector, Step, by_name},
};
use kyvtest_cel::{observe::Observer, profile::Profile, trace};
use kyvtest_model::{
    kube::{Discovery, Environment, Facts, Request, RequestClass},
    policy::{
        MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ValidatingAdmissionPolicy,
        ValidatingAdmissionPolicyBinding,
    },
    verdict::{Status, Verdict},
};
use kyvtest_normalise::Cluster;

/// Who evaluates native policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lens {
    ApiServer,
    /// `kyverno test`.
    Cli {
        /// Whether the suite describes a cluster.
        has_cluster: bool,
    },
}

/// An API server with its policies and bindings.
#[derive(Debug)]
pub struct Server {
    policies: Vec<CompiledNativePolicy>,
    bindings: Vec<Binding>,
    mutating_policies: Vec<CompiledMutatingPolicy>,
    mutating_bindings: Vec<Binding>,
    lens: Lens,
}

/// The result of one policy for a request.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// The verdict; `None` if the policy does not look at the request.
    pub verdict: Option<Verdict>,
    /// How it came about, if the observer has a trace.
    pub trace: Vec<String>,
}

impl Server {
    /// A server with these policies and bindings. A binding whose policy is missing does nothing.
    pub fn new<'p>(
        policies: impl IntoIterator<Item = &'p ValidatingAdmissionPolicy>,
        bindings: impl IntoIterator<Item = &'p ValidatingAdmissionPolicyBinding>,
        lens: Lens,
    ) -> Self {
        let compile = |policy| match lens {
            Lens::ApiServer => CompiledNativePolicy::compile(policy),
            Lens::Cli { .. } => offline::compile(policy),
        };
        Self {
            policies: policies.into_iter().map(compile).collect(),
            bindings: bindings.into_iter().map(Binding::new).collect(),
            mutating_policies: Vec::new(),
            mutating_bindings: Vec::new(),
            lens,
        }
    }

    /// Adds mutating policies and their bindings.
    #[must_use]
    pub fn with_mutation<'p>(
        mut self,
        policies: impl IntoIterator<Item = &'p MutatingAdmissionPolicy>,
        bindings: impl IntoIterator<Item = &'p MutatingAdmissionPolicyBinding>,
    ) -> Self {
        let compile = match self.lens {
            Lens::ApiServer => CompiledMutatingPolicy::compile,
            Lens::Cli { .. } => CompiledMutatingPolicy::compile_for_cli,
        };
        self.mutating_policies.extend(policies.into_iter().map(compile));
        self.mutating_bindings
            .extend(bindings.into_iter().map(Binding::mutating));
        self
    }

    /// A server of another release of Kubernetes.
    pub fn of_release<'p>(
        policies: impl IntoIterator<Item = &'p ValidatingAdmissionPolicy>,
        bindings: impl IntoIterator<Item = &'p ValidatingAdmissionPolicyBinding>,
        profile: &'static Profile,
    ) -> Self {
        let policies = policies.into_iter();
        Self {
            policies: policies
                .map(|policy| CompiledNativePolicy::for_profile(policy, profile))
                .collect(),
            bindings: bindings.into_iter().map(Binding::new).collect(),
            mutating_policies: Vec::new(),
            mutating_bindings: Vec::new(),
            lens: Lens::ApiServer,
        }
    }

    pub fn policies(&self) -> &[CompiledNativePolicy] {
        &self.policies
    }

    pub fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// What is done with a validating policy on the requests of a class.
    pub fn select<'p, 'd>(
        &'p self,
        policy: &'p CompiledNativePolicy,
        cell: RequestClass<'d>,
        discovery: &'d Discovery,
        facts: &mut impl Facts<'p>,
    ) -> Vec<Step<'p, 'd>> {
        let bindings = by_name(&self.bindings, Binding::name).into_iter();
        let own = bindings.filter(|binding| binding.policy == policy.name);
        policy.select(own, &Selector::new(cell, discovery), facts)
    }

    pub fn mutating_policies(&self) -> &[CompiledMutatingPolicy] {
        &self.mutating_policies
    }

    /// Runs the mutating phase on a request whose objects are those that mutating admission sees. `cluster` is what the
    /// server knows when it completes objects.
    pub fn mutate(&self, request: &Request, environment: Environment<'_>, cluster: &Cluster) -> Mutated {
        mutate(
            &self.mutating_policies,
            &self.mutating_bindings,
            request,
            environment,
            cluster,
        )
    }

    /// Runs one of the mutating policies as Kyverno's command line does; `None` if it has no result. The server must
    /// have that lens.
    pub fn mutate_offline(
        &self,
        policy: &CompiledMutatingPolicy,
        request: &Request,
        environment: Environment<'_>,
    ) -> Option<OfflineMutation> {
        offline::mutation::mutate(policy, &self.mutating_bindings, request, environment.world)
    }

    /// Answers a request with all validating policies.
    pub fn review(&self, request: &Request, environment: Environment<'_>) -> AdmissionResponse {
        self.review_with(&self.policies, request, environment)
    }

    /// Evaluates one of the policies with its bindings.
    pub fn evaluate(
        &self,
        policy: &CompiledNativePolicy,
        request: &Request,
        environment: Environment<'_>,
    ) -> Evaluation {
        match self.lens {
            Lens::ApiServer => {
                let response = self.review_with(std::slice::from_ref(policy), request, environment);
                let verdict = response.of_policy(policy.name());
                Evaluation {
                    verdict: verdict.filter(|verdict| verdict.status != Status::NoMatch),
                    trace: response.trace(environment),
                }
            }
            Lens::Cli { has_cluster } => Evaluation {
                verdict: offline::decide(policy, &self.bindings, request, environment.world, has_cluster),
                trace: Vec::new(),
            },
        }
    }

    fn review_with(
        &self,
        policies: &[CompiledNativePolicy],
        request: &Request,
        environment: Environment<'_>,
    ) -> AdmissionResponse {
        let Environment { world, discovery, host } = environment;
        decide(policies, &self.bindings, request, world, discovery, host)
    }
}

impl AdmissionResponse {
    /// The values of expressions since the last call, and the part that decided each verdict, if the observer has a
    /// trace.
    pub fn trace(&self, environment: Environment<'_>) -> Vec<String> {
        let Some(trace) = environment.host.observer().and_then(Observer::trace) else {
            return Vec::new();
        };
        let verdicts = self.verdicts.iter().map(|verdict: &PolicyVerdict| {
            let binding = verdict.binding.as_ref().map(|binding| format!("binding `{binding}`: "));
            let param = verdict.param.as_ref().map(|param| format!("params `{param}`: "));
            let (binding, param) = (binding.unwrap_or_default(), param.unwrap_or_default());
            let verdict = &verdict.verdict;
            format!("{binding}{param}{}, decided by {}", verdict.status, verdict.trace)
        });
        trace::lines(trace.take()).chain(verdicts).collect()
    }
}
