//! Both concrete engines on one request, at a layer: the only way to a refutation.

use super::{
    Layer, Target,
    admitted::admitted,
    body::{Counterexample, Lookups, lookups_of},
    server::{Data, Server},
    witness::Scenario,
};
use crate::pair::NativeVerdict;
use kyvtest_apiserver as vap;
use kyvtest_cel::{host::Mocks, profile::Profile};
use kyvtest_convert::Exceptions;
use kyvtest_go_compat::value::Document;
use kyvtest_kyverno::{
    config::Config,
    controller::{Controller, Installed},
    lens::Lens,
};
use kyvtest_model::policy::Policy;
use kyvtest_model::{
    compare,
    kube::{Discovery, Environment},
    policy::PolicyId,
    verdict::{DivergenceClass, Verdict},
};

/// A request with the verdicts of both engines. Only an evaluation makes one.
#[derive(Debug, Clone)]
pub struct Replayed {
    scenario: Scenario,
    kyverno: Verdict,
    native: Verdict,
    class: DivergenceClass,
    /// Why an API server never shows the difference on these objects; `None` if it does, or if that was not checked.
    raw: Option<String>,
    /// The objects after admission, where they are compared.
    objects: [Option<Document>; 2],
}

impl Replayed {
    /// Of a request that went through the mutating phases of both sides.
    pub(crate) fn of_mutation(found: &Counterexample) -> Self {
        let [kyverno, native] = found.verdicts().clone();
        let raw = "the objects of the request are not completed by an API server";
        Self {
            scenario: found.scenario().clone(),
            kyverno,
            native,
            class: found.class(),
            raw: (found.data() == Data::Raw).then(|| raw.to_owned()),
            objects: found.objects().clone(),
        }
    }

    /// The objects after admission by Kyverno and by the API server; `None` where the request is refused, and where objects are
    /// not compared.
    pub fn objects(&self) -> &[Option<Document>; 2] {
        &self.objects
    }

    /// The request and the cluster around it.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// What Kyverno says.
    pub fn kyverno(&self) -> &Verdict {
        &self.kyverno
    }

    /// What the API server says.
    pub fn native(&self) -> &Verdict {
        &self.native
    }

    /// How they differ.
    pub fn class(&self) -> DivergenceClass {
        self.class
    }

    /// Why the objects are `data=raw`: the refusal of the API server, or that the difference vanishes when it completes
    /// them. `None` if the difference shows in a cluster.
    pub fn raw_reason(&self) -> Option<&str> {
        self.raw.as_deref()
    }
}

/// Both engines, ready to evaluate requests.
#[derive(Debug)]
pub struct Engines<'d> {
    controller: Controller,
    id: PolicyId,
    server: vap::Server,
    layer: Layer,
    discovery: &'d Discovery,
    /// Completes the objects of witnesses as an API server does.
    completion: Server,
    mocks: Mocks,
    lookups: Lookups,
    /// Whether a warning to the client counts beside an audit.
    warnings: bool,
    /// Which objects witnesses shall have.
    data: Data,
}

impl<'d> Engines<'d> {
    /// Prepares both engines, the API server's as that of Kubernetes 1.36.
    ///
    /// # Errors
    /// Why Kyverno refuses the policy.
    pub fn new(
        original: &Policy,
        exceptions: Exceptions<'_>,
        target: &Target,
        config: &Config,
        layer: Layer,
        discovery: &'d Discovery,
    ) -> Result<Self, String> {
        let kube = Profile::kubernetes();
        Self::for_profile(original, exceptions, target, config, layer, discovery, kube)
    }

    /// The same for another release of Kubernetes.
    ///
    /// # Errors
    /// Why Kyverno refuses the policy.
    pub(crate) fn for_profile(
        original: &Policy,
        exceptions: Exceptions<'_>,
        target: &Target,
        config: &Config,
        layer: Layer,
        discovery: &'d Discovery,
        kube: &'static Profile,
    ) -> Result<Self, String> {
        let installed = Installed {
            policies: std::slice::from_ref(original),
            exceptions: exceptions.classic,
            cel_exceptions: exceptions.cel,
        };
        let (controller, mut refused) = Controller::new(installed, config.clone(), Lens::at(layer), discovery);
        if let Some(refused) = refused.pop() {
            return Err(refused.errors.to_string());
        }
        let natives = target.policies.iter().map(|policy| &**policy);
        let bindings = target.bindings.iter().map(|binding| &**binding);
        Ok(Self {
            controller,
            id: original.id(),
            server: vap::Server::of_release(natives, bindings, kube),
            layer,
            discovery,
            completion: Server::new(discovery, Vec::new()).without_service_accounts(),
            mocks: Mocks::new(),
            lookups: lookups_of(original),
            warnings: false,
            data: Data::Normalised,
        })
    }

    /// The same with another preference for the objects of witnesses.
    #[must_use]
    pub(crate) fn with_data(mut self, data: Data) -> Self {
        self.data = data;
        self
    }

    /// The same, with warnings to the client as part of the comparison.
    #[must_use]
    pub(crate) fn with_warnings(mut self, warnings: bool) -> Self {
        self.warnings = warnings;
        self
    }

    /// Why the API server rejects the webhook that Kyverno registers for the policy.
    pub(crate) fn registration_problem(&self) -> Option<&str> {
        self.controller.registration_problem()
    }

    /// Compares both verdicts; `warned` says which side warns the client.
    fn compare(&self, kyverno: &Verdict, native: &Verdict, warned: [bool; 2]) -> Option<DivergenceClass> {
        match compare::class(kyverno, native) {
            None | Some(DivergenceClass::Message) if self.warnings && warned[0] != warned[1] => {
                Some(DivergenceClass::Action)
            }
            class => class,
        }
    }

    /// A host that answers the lookups of the policy; `None` if it has none.
    fn host(&self, scenario: &Scenario) -> Option<Mocks> {
        if self.lookups.is_empty() {
            return None;
        }
        let mut mocks = Mocks::new();
        self.lookups.answer(&scenario.world.params, &mut mocks);
        scenario.calls.answer(&mut mocks);
        Some(mocks)
    }

    /// Whether each side warns the client.
    fn warned(&self, scenario: &Scenario) -> [bool; 2] {
        let own = self.host(scenario);
        let host = own.as_ref().unwrap_or(&self.mocks);
        let environment = Environment::new(&scenario.world, self.discovery, host);
        let review = self.controller.review(&scenario.request, environment);
        let answer = self.server.review(&scenario.request, environment);
        let kyverno = self.layer != Layer::Rule && !review.warnings.is_empty();
        [kyverno, !answer.warnings.is_empty()]
    }

    /// Returns the verdicts of both engines.
    pub fn ask(&self, scenario: &Scenario) -> (Verdict, Verdict) {
        let own = self.host(scenario);
        let host = own.as_ref().unwrap_or(&self.mocks);
        let environment = Environment::new(&scenario.world, self.discovery, host);
        let review = self.controller.review(&scenario.request, environment);
        let answer = self.server.review(&scenario.request, environment);
        (review.of_policy(&self.id, true), NativeVerdict::of(answer).verdict)
    }

    /// How they differ about a request.
    pub fn class(&self, scenario: &Scenario) -> Option<DivergenceClass> {
        let (kyverno, native) = self.ask(scenario);
        let warned = if self.warnings {
            self.warned(scenario)
        } else {
            [false; 2]
        };
        self.compare(&kyverno, &native, warned)
    }

    /// Whether the difference shows in a cluster: an API server accepts the objects, and what admission then sees is decided
    /// differently in the same way. Always, if witnesses have objects as written.
    pub(crate) fn shows_in_cluster(&self, found: &Replayed) -> bool {
        self.data == Data::Raw || self.hidden_in_cluster(found).is_none()
    }

    /// Notes why a cluster does not show the difference, see [`Replayed::raw_reason`].
    pub(crate) fn note_data(&self, found: &mut Replayed) {
        found.raw = self.hidden_in_cluster(found);
    }

    fn hidden_in_cluster(&self, found: &Replayed) -> Option<String> {
        match admitted(&found.scenario, &self.completion) {
            Err(refused) => Some(format!("the API server denies the request: {}", refused.message)),
            Ok(seen) if self.class(&seen) == Some(found.class) => None,
            Ok(_) => Some("the difference vanishes when the API server completes the object".to_owned()),
        }
    }

    /// Asks both; `None` if they do not differ, but in their texts.
    pub fn replay(&self, scenario: Scenario) -> Option<Replayed> {
        let found = self.replay_texts(scenario);
        found.filter(|found| found.class != DivergenceClass::Message)
    }

    /// Asks both; `None` if they do not differ at all.
    pub(crate) fn replay_texts(&self, scenario: Scenario) -> Option<Replayed> {
        let (kyverno, native) = self.ask(&scenario);
        let warned = if self.warnings {
            self.warned(&scenario)
        } else {
            [false; 2]
        };
        let class = self.compare(&kyverno, &native, warned)?;
        Some(Replayed {
            scenario,
            kyverno,
            native,
            class,
            raw: None,
            objects: [None, None],
        })
    }
}
