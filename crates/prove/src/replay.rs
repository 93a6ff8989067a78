//! Both concrete engines on one request, at a layer: the only way to a refutation.

use std::sync::Arc;

use super::{
    Layer, Target,
    admitted::admitted,
    server::{Data, Server},
    sides::delivered,
    witness::Situation,
};
use crate::pair::{NativeVerdict, Original};
use kyvtest_apiserver as vap;
use kyvtest_cel::{host::Mocks, profile::Profile};
use kyvtest_convert::Exceptions;
use kyvtest_kyverno::{
    admission::{Controller, Installed},
    classic_policy::CompiledPolicy,
    config::Config,
    exception::CompiledException,
    input::Input,
    lens::Lens,
    validating_policy::{Answer, CompiledValidatingPolicy},
    webhook::Registration,
};
use kyvtest_model::{
    compare,
    kube::Discovery,
    policy::{PolicyId, validate_exception},
    verdict::{DivergenceClass, Effect, Part, Status, Trace, Verdict},
};

/// A request on which both engines were asked, and what they said. There is no other way to make one than to ask them.
#[derive(Debug, Clone)]
pub struct Replayed {
    situation: Situation,
    kyverno: Verdict,
    native: Verdict,
    class: DivergenceClass,
    /// Why an API server never shows the difference on these objects; `None` if it does, or if nobody looked.
    raw: Option<String>,
}

impl Replayed {
    /// The request and the cluster around it.
    pub fn situation(&self) -> &Situation {
        &self.situation
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

#[derive(Debug)]
enum Kyverno {
    Rule {
        policy: Box<CompiledPolicy>,
        exceptions: Vec<CompiledException>,
    },
    Variants(Vec<CompiledValidatingPolicy>),
    Controller(Box<Controller>),
}

/// Both engines, ready to be asked.
#[derive(Debug)]
pub struct Engines<'d> {
    kyverno: Kyverno,
    id: PolicyId,
    registration: Registration,
    native: Vec<vap::CompiledPolicy>,
    bindings: Vec<vap::Binding>,
    discovery: &'d Discovery,
    /// The API server that witnesses are sent to.
    server: Server,
    mocks: Mocks,
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
        original: &Original,
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
    pub fn for_profile(
        original: &Original,
        exceptions: Exceptions<'_>,
        target: &Target,
        config: &Config,
        layer: Layer,
        discovery: &'d Discovery,
        kube: &'static Profile,
    ) -> Result<Self, String> {
        let cel = exceptions.cel.iter().map(|exception| &**exception);
        let kyverno = match (original, layer) {
            (Original::Policy(policy), Layer::Rule) => {
                let usable = exceptions
                    .classic
                    .iter()
                    .filter(|exception| validate_exception(exception).is_none());
                Kyverno::Rule {
                    policy: Box::new(CompiledPolicy::new(Arc::clone(policy))),
                    exceptions: usable.map(|exception| CompiledException::new(exception)).collect(),
                }
            }
            (Original::ValidatingPolicy(policy), Layer::Rule) => {
                let compiled = CompiledValidatingPolicy::compile_all(policy, cel);
                Kyverno::Variants(compiled.map_err(|error| error.to_string())?)
            }
            (_, Layer::Policy | Layer::Cluster) => {
                let (mut policies, mut validating) = (Vec::new(), Vec::new());
                match original {
                    Original::Policy(policy) => policies.push(Arc::clone(policy)),
                    Original::ValidatingPolicy(policy) => validating.push(Arc::clone(policy)),
                }
                let installed = Installed {
                    policies: &policies,
                    exceptions: exceptions.classic,
                    validating_policies: &validating,
                    cel_exceptions: exceptions.cel,
                };
                let (controller, mut refused) = Controller::new(installed, config.clone(), discovery);
                if let Some((_, error)) = refused.pop() {
                    return Err(error);
                }
                Kyverno::Controller(Box::new(controller))
            }
        };
        Ok(Self {
            kyverno,
            id: original.id(),
            registration: match original {
                Original::Policy(policy) => Registration::of_policy(policy, discovery),
                Original::ValidatingPolicy(policy) => Registration::of_validating_policy(policy, discovery),
            },
            native: target
                .policies
                .iter()
                .map(|policy| vap::CompiledPolicy::for_profile(policy, kube))
                .collect(),
            bindings: target
                .bindings
                .iter()
                .map(|binding| vap::Binding::new(binding))
                .collect(),
            discovery,
            server: Server::new(discovery, Vec::new()).without_service_accounts(),
            mocks: Mocks::new(),
            warnings: false,
            data: Data::Normalised,
        })
    }

    /// The same with another preference for the objects of witnesses.
    #[must_use]
    pub fn with_data(mut self, data: Data) -> Self {
        self.data = data;
        self
    }

    /// The same, with warnings to the client as part of the comparison.
    #[must_use]
    pub fn with_warnings(mut self, warnings: bool) -> Self {
        self.warnings = warnings;
        self
    }

    /// Why the API server refuses the webhook that Kyverno registers for the policy.
    pub fn registration_problem(&self) -> Option<&str> {
        self.registration.problem()
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

    /// Whether each side warns the client.
    fn warned(&self, situation: &Situation) -> [bool; 2] {
        let Situation { request, world, .. } = situation;
        let kyverno = match &self.kyverno {
            Kyverno::Controller(controller) => {
                let review = controller.review(request, world, self.discovery, &self.mocks);
                !review.warnings.is_empty()
            }
            Kyverno::Rule { .. } | Kyverno::Variants(_) => false,
        };
        let (policies, bindings) = (&self.native, &self.bindings);
        let answer = vap::decide(policies, bindings, request, world, self.discovery, &self.mocks);
        [kyverno, !answer.warnings.is_empty()]
    }

    fn kyverno(&self, situation: &Situation) -> Verdict {
        let Situation { request, world, .. } = situation;
        let nothing = || Verdict {
            status: Status::NoMatch,
            effect: Effect::Admit,
            message: String::new(),
            trace: Trace::of(Part::Match),
        };
        if let Kyverno::Controller(controller) = &self.kyverno {
            let review = controller.review(request, world, self.discovery, &self.mocks);
            return review.of_policy(&self.id, true);
        }
        let input = Input::new(request, world, self.discovery, Lens::CLUSTER);
        let delivery = delivered(
            self.registration.only(),
            Layer::Rule,
            &request.cell(),
            self.discovery,
            &mut input.facts(),
        );
        let Some(request) = delivery.of(request) else {
            return nothing();
        };
        let input = Input::new(&request, world, self.discovery, Lens::CLUSTER);
        let verdicts: Vec<Verdict> = match &self.kyverno {
            Kyverno::Rule { policy, exceptions } => {
                let response = policy.decide(&input, exceptions, &self.mocks);
                response.rules.iter().map(|rule| rule.verdict(true)).collect()
            }
            Kyverno::Variants(variants) => variants
                .iter()
                .filter_map(|policy| match policy.decide(&input, &self.mocks) {
                    Answer::NoMatch(_) => None,
                    Answer::Rule(response) => Some(response.verdict(true)),
                })
                .collect(),
            Kyverno::Controller(_) => Vec::new(),
        };
        if verdicts.is_empty() {
            nothing()
        } else {
            Verdict::strongest(verdicts)
        }
    }

    /// What both say.
    pub fn ask(&self, situation: &Situation) -> (Verdict, Verdict) {
        let Situation { request, world, .. } = situation;
        let answer = vap::decide(
            &self.native,
            &self.bindings,
            request,
            world,
            self.discovery,
            &self.mocks,
        );
        (self.kyverno(situation), NativeVerdict::of(answer).verdict)
    }

    /// How they differ about a request.
    pub fn class(&self, situation: &Situation) -> Option<DivergenceClass> {
        let (kyverno, native) = self.ask(situation);
        let warned = if self.warnings {
            self.warned(situation)
        } else {
            [false; 2]
        };
        self.compare(&kyverno, &native, warned)
    }

    /// Whether the difference shows in a cluster: an API server accepts the objects, and what admission then sees is decided
    /// differently in the same way. Always, if witnesses have objects as written.
    pub fn shows_in_cluster(&self, found: &Replayed) -> bool {
        self.data == Data::Raw || self.hidden_in_cluster(found).is_none()
    }

    /// Notes why a cluster does not show the difference, see [`Replayed::raw_reason`].
    pub fn note_data(&self, found: &mut Replayed) {
        found.raw = self.hidden_in_cluster(found);
    }

    fn hidden_in_cluster(&self, found: &Replayed) -> Option<String> {
        match admitted(&found.situation, &self.server) {
            Err(refused) => Some(format!("the API server refuses the request: {}", refused.message)),
            Ok(seen) if self.class(&seen) == Some(found.class) => None,
            Ok(_) => Some("the difference vanishes when the API server completes the object".to_owned()),
        }
    }

    /// Asks both; `None` if they do not differ, but in their texts.
    pub fn replay(&self, situation: Situation) -> Option<Replayed> {
        let found = self.replay_texts(situation);
        found.filter(|found| found.class != DivergenceClass::Message)
    }

    /// Asks both; `None` if they do not differ at all.
    pub fn replay_texts(&self, situation: Situation) -> Option<Replayed> {
        let (kyverno, native) = self.ask(&situation);
        let warned = if self.warnings {
            self.warned(&situation)
        } else {
            [false; 2]
        };
        let class = self.compare(&kyverno, &native, warned)?;
        Some(Replayed {
            situation,
            kyverno,
            native,
            class,
            raw: None,
        })
    }
}
