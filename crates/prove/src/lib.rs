//! For all requests, or here is the one: is a native policy the same policy as Kyverno's?
//!
//! The engines' own matching runs under symbolic facts ([`symbolic`]), once for every path through both sides and for every
//! [request class](universe) of a cluster. Where both apply, the same expressions decide alike under the
//! [guards]. Whatever is cut off makes the answer [`Label::Unknown`], never a proof; a refutation is a request that both
//! concrete engines decided differently ([`replay::Replayed`] has no other constructor).
//!
//! Known limits: expressions that differ are searched and not proven; the table of kinds is that of Kubernetes 1.36 for
//! every release unless another one is given.

mod admitted;
pub mod behaviour;
pub mod body;
pub mod calls;
mod candidates;
pub mod condition;
mod dialect;
mod difference;
mod example;
mod explain;
pub mod guards;
mod inline;
pub mod language;
pub mod mutation;
mod objects;
pub mod pair;
mod params;
mod region;
pub mod repair;
pub mod replay;
mod search;
pub mod seeds;
pub mod server;
pub mod shrink;
pub mod sides;
pub mod solver;
pub mod symbolic;
pub mod universe;
pub mod witness;

use std::{
    cell::LazyCell,
    fmt,
    sync::{Arc, atomic::AtomicBool},
};

pub use self::{
    inline::inline,
    region::{OwnedLiteral, Region},
};
use self::{
    replay::{Engines, Replayed},
    search::Search,
    server::Data,
    sides::LoweredSides,
    solver::Solver,
    symbolic::{Budget, Incomplete},
    witness::Scenario,
};
use crate::pair::{JSON_MODE, Pair, VAP_INVALID};
use kyvtest_cel::{profile::Profile, time::Timestamp};
use kyvtest_convert::{Exceptions, RefusalCode};
pub use kyvtest_kyverno::lens::Layer;
use kyvtest_kyverno::{autogen, config::Config, lens::Lens};
use kyvtest_model::policy::Policy;
use kyvtest_model::{
    kube::Discovery,
    policy::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, validate_admission, validate_in_cluster},
    verdict::DivergenceClass,
};

/// How two policies differ, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One side denies or objects and the other does not.
    Decision,
    /// Both object, with different effects.
    Action,
    /// Both admit, with different objects.
    Object,
    /// Only one side evaluates: only reports change.
    Applicability,
    /// Both object, with different messages.
    Message,
}

impl Kind {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Decision => "decision",
            Self::Action => "action",
            Self::Object => "object",
            Self::Applicability => "applicability",
            Self::Message => "message",
        }
    }

    fn of(class: DivergenceClass) -> Self {
        match class {
            DivergenceClass::Weaker | DivergenceClass::Stricter => Self::Decision,
            DivergenceClass::Action => Self::Action,
            DivergenceClass::Changed => Self::Object,
            DivergenceClass::Message => Self::Message,
            _ => Self::Applicability,
        }
    }
}

/// What is known of a policy and its native counterpart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Label {
    /// Every request has the same effect.
    Proven,
    /// Every request whose lists are not longer than a number has the same effect.
    Bounded {
        /// How many elements the lists that both sides read have at most.
        k: u32,
    },
    /// Both apply to the same requests with the same actions; the expressions were only searched.
    ProvenMatch {
        /// How many requests were tried.
        tested: u64,
    },
    /// Requests were tried, and nothing else is claimed.
    Tested {
        /// How many.
        tested: u64,
    },
    /// A request has different effects; it is in the first region.
    Refuted(Kind),
    /// There is no native policy to compare with.
    NotConvertible {
        /// The code of the refusal.
        code: String,
    },
    /// Nothing is known.
    Unknown,
}

impl Label {
    /// The word.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Proven => "PROVEN",
            Self::Bounded { .. } => "BOUNDED",
            Self::ProvenMatch { .. } => "PROVEN-MATCH",
            Self::Tested { .. } => "TESTED",
            Self::Refuted(_) => "REFUTED",
            Self::NotConvertible { .. } => "NOT-CONVERTIBLE",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// How strong a claim it is; `None` where nothing holds.
    pub const fn strength(&self) -> Option<u8> {
        match self {
            Self::Proven => Some(4),
            Self::Bounded { .. } => Some(3),
            Self::ProvenMatch { .. } => Some(2),
            Self::Tested { .. } => Some(1),
            Self::Refuted(_) | Self::NotConvertible { .. } | Self::Unknown => None,
        }
    }
}

/// What a claim is relative to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    /// Kyverno's minor version.
    pub kyverno: &'static str,
    /// Kubernetes' minor version.
    pub kube: &'static str,
    /// Which kinds there are.
    pub discovery: String,
    /// How much of Kyverno counts.
    pub layer: Layer,
    /// Which data there are.
    pub data: &'static str,
    /// Which deletions there are.
    pub delete: &'static str,
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kyverno,
            kube,
            discovery,
            layer,
            data,
            delete,
        } = self;
        let layer = layer.as_str();
        write!(
            f,
            "kyverno={kyverno} kube={kube} discovery={discovery} layer={layer} data={data} delete={delete}"
        )
    }
}

/// How much was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Cells.
    pub cells: u64,
    /// Paths in them.
    pub paths: u64,
    /// Requests that were replayed.
    pub requests: u64,
}

/// The answer.
#[derive(Debug, Clone)]
pub struct Proof {
    /// What is known.
    pub label: Label,
    /// Why it is not more; empty where nothing is missing.
    pub reason: String,
    /// What it is relative to.
    pub world: World,
    /// Where the sides differ.
    pub regions: Vec<Region>,
    /// What else is to be known.
    pub notes: Vec<String>,
    /// How much was done.
    pub stats: Stats,
    /// Whether the prover contradicts itself: then `reason` says where, and nothing is claimed.
    pub fault: bool,
}

impl Proof {
    /// A proof that claims nothing yet.
    pub(crate) fn undecided(discovery: &Discovery, options: &Options<'_>) -> Self {
        Self {
            label: Label::Unknown,
            reason: String::new(),
            world: world_of(discovery, options),
            regions: Vec::new(),
            notes: Vec::new(),
            stats: Stats::default(),
            fault: false,
        }
    }
}

/// Native policies with their bindings.
#[derive(Debug, Clone, Default)]
pub struct Target {
    /// The policies.
    pub policies: Vec<Arc<ValidatingAdmissionPolicy>>,
    /// Their bindings.
    pub bindings: Vec<Arc<ValidatingAdmissionPolicyBinding>>,
}

/// How to prove.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    /// How much of Kyverno counts.
    pub layer: Layer,
    /// Kyverno's configuration at the layer `cluster`.
    pub config: Config,
    /// The time at which exceptions may have expired.
    pub now: Option<Timestamp>,
    /// The maximum number of paths.
    pub paths: u64,
    /// Whether every path is checked with a request of its own, and every proof with requests.
    pub paranoid: bool,
    /// Whether kinds count on which no native policy is ever evaluated.
    pub exempt: bool,
    /// Whether messages count.
    pub messages: bool,
    /// Whether warnings to the client count beside an audit.
    pub warnings: bool,
    /// The API server's dialect of CEL.
    pub kube: &'static Profile,
    /// Which objects witnesses have: `normalised` prefers those that an API server accepts and that show the difference as it
    /// completes them.
    pub data: Data,
    /// Objects that the user has, such as the resources of suites: a search starts from them.
    pub samples: &'a [serde_json::Value],
    /// Cancels the proof when set.
    pub stop: Option<&'a AtomicBool>,
    /// Changes every request before its evaluation: tests spoil witnesses with it.
    #[doc(hidden)]
    pub spoil: Option<fn(&mut Scenario)>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            layer: Layer::default(),
            config: Config::chart(),
            now: None,
            paths: 500_000,
            paranoid: false,
            exempt: true,
            messages: false,
            warnings: false,
            kube: Profile::kubernetes(),
            data: Data::Normalised,
            samples: &[],
            stop: None,
            spoil: None,
        }
    }
}

/// The note of a proof about nothing.
const NEITHER: &str = "neither side applies to any request";

/// Why nothing is claimed where the native policies are about nothing.
const IDLE: &str = "the native policy lists no resource that the cluster serves";

/// Compares a policy with native ones, or with those that Kyverno would generate.
pub fn prove(
    original: &Policy,
    exceptions: Exceptions<'_>,
    target: Option<&Target>,
    discovery: &Discovery,
    options: &Options<'_>,
) -> Proof {
    let mut proof = Proof::undecided(discovery, options);
    if proof.world.kube != "1.36" && proof.world.discovery == "ga+2" {
        proof.notes.push("the kinds are those of Kubernetes 1.36".to_owned());
    }
    if target.is_none() && original.is_for_payloads() {
        let code = JSON_MODE.to_owned();
        proof.label = Label::NotConvertible { code };
        "the policy is evaluated on JSON payloads, not on admission requests".clone_into(&mut proof.reason);
        return proof;
    }
    let universe = universe::with_unknown(discovery);
    let pair = LazyCell::new(|| Pair::new(original.clone(), exceptions, discovery, options.now));
    let cause = |witness: &Replayed| {
        let Scenario { request, .. } = witness.scenario();
        pair.cause(witness.kyverno(), witness.native(), request)
    };
    let generated;
    let target = match target {
        Some(target) => match refused(target) {
            None => target,
            Some(message) => {
                proof.label = Label::NotConvertible {
                    code: VAP_INVALID.to_owned(),
                };
                proof.reason = message;
                return proof;
            }
        },
        None => match native_target(&pair) {
            Ok(target) => {
                let notes = pair.notes().into_iter();
                proof.notes.extend(notes.map(|note| note.as_str().to_owned()));
                generated = target;
                &generated
            }
            Err((code, text)) => {
                proof.label = Label::NotConvertible { code };
                proof.reason = text;
                return proof;
            }
        },
    };
    if let Some(reason) = out_of_scope(original, discovery) {
        proof.reason = reason;
        return proof;
    }
    let engines = Engines::for_profile(
        original,
        exceptions,
        target,
        &options.config,
        options.layer,
        &universe,
        options.kube,
    );
    let engines = match engines {
        Ok(engines) => engines.with_warnings(options.warnings).with_data(options.data),
        Err(message) => {
            proof.reason = format!("Kyverno rejects the policy: {message}");
            return proof;
        }
    };
    if let Some(problem) = engines.registration_problem() {
        let text = format!("the API server rejects Kyverno's webhook, so Kyverno receives no requests: {problem}");
        proof.notes.push(text);
    }
    let mut sides = LoweredSides::new(original, exceptions, target, &options.config, options.layer, &universe);
    if options.layer != Layer::Rule && asks_again(original) {
        let problem = "Kyverno evaluates the conditions of its webhook a second time, and sees absent objects as \
            empty ones";
        sides.inexact.push(problem.to_owned());
    }
    let mut solver = Solver::default();
    let mut budget = Budget {
        paths: options.paths,
        stop: options.stop,
    };
    let mut search = Search::new(
        (original, Lens::at(options.layer)),
        target,
        &sides,
        &engines,
        &universe,
        &cause,
        options,
    );
    let explored = search.explore(&mut solver, &mut budget);
    match explored {
        Ok(()) => search.conclude(&mut solver, &mut proof),
        Err(Incomplete::Budget) => {
            proof.reason = format!("gave up after {} paths; raise the limit with `--budget`", options.paths);
        }
        Err(Incomplete::Stopped) => "the proof was interrupted".clone_into(&mut proof.reason),
        Err(Incomplete::Solver) => {
            "a match condition is too complex to decide".clone_into(&mut proof.reason);
        }
    }
    proof.stats = search.stats();
    proof.notes.extend(search.notes());
    proof
}

/// The world of a proof.
fn world_of(discovery: &Discovery, options: &Options<'_>) -> World {
    let mut world = World {
        kyverno: "1.19",
        kube: options.kube.name.trim_start_matches("k8s-"),
        discovery: "ga+2".to_owned(),
        layer: options.layer,
        data: "normalised",
        delete: "named,collection",
    };
    if discovery.is_extended() {
        world.discovery.push_str("+crds");
    }
    if !options.exempt {
        world.discovery.push_str("-exempt");
    }
    world
}

/// Why nothing is claimed about a policy: Kyverno does not store it, or does not validate with it.
fn out_of_scope(policy: &Policy, discovery: &Discovery) -> Option<String> {
    match policy {
        Policy::Classic(policy) => validate_in_cluster(policy, &autogen::all_rules(policy), discovery)
            .error
            .map(|message| format!("Kyverno rejects the policy: {message}")),
        Policy::Validating(_) => None,
        _ => Some(format!(
            "Kyverno does not validate requests with policies of kind `{}`",
            policy.kind()
        )),
    }
}

/// What Kyverno generates, or why it does not.
fn native_target(pair: &Pair) -> Result<Target, (String, String)> {
    if pair.without_autogen() {
        let code = RefusalCode::Autogen;
        return Err((code.as_str().to_owned(), code.advice().to_owned()));
    }
    if let Some(missing) = pair.missing() {
        return Err((missing.code.to_owned(), missing.text.clone()));
    }
    let Some(generated) = pair.generated() else {
        return Err((VAP_INVALID.to_owned(), String::new()));
    };
    Ok(Target {
        policies: vec![Arc::clone(&generated.vap.model)],
        bindings: generated
            .bindings
            .iter()
            .map(|binding| Arc::clone(&binding.model))
            .collect(),
    })
}

/// What the API server says against native policies that are given.
fn refused(target: &Target) -> Option<String> {
    let policies = target.policies.iter().map(|policy| &policy.source);
    let bindings = target.bindings.iter().map(|binding| &binding.source);
    policies.chain(bindings).find_map(|source| {
        let checked = validate_admission(source.document().root());
        (!checked.errors.is_empty()).then_some(checked.message)
    })
}

/// Whether conditions of the webhook may come to something else when Kyverno asks them itself, after the API server
/// (`pkg/engine/internal/match.go` upstream): they read more than objects that are there, the user and the operation.
fn asks_again(original: &Policy) -> bool {
    let Policy::Classic(policy) = original else {
        return false;
    };
    let webhook = policy.spec.webhook.as_ref();
    let conditions = webhook.map_or(&[][..], |webhook| &webhook.match_conditions);
    conditions.iter().any(|condition| {
        let text = condition.expression.text();
        let plain = text.replace("request.userInfo", "").replace("request.operation", "");
        let odd = ["oldObject", "null", "request", "namespaceObject", "authorizer"];
        odd.iter().any(|word| plain.contains(word))
    })
}
