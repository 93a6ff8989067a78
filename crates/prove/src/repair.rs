//! Native policies that are the same policy: built from what the policy says, and shown only if they are proven.
//!
//! The generator of Kyverno loses much of `match` and `exclude`. Here every rule becomes a `formula` for each
//! `place`, the formulas become native policies (`group`), and [`prove`] compares them with the policy. What is not
//! proven is refused, with the request that defeats the candidate where there is one.
//!
//! No upstream counterpart: these are the constructions that Kyverno's design proposals promise. Known limits: rules that are
//! not CEL, roles, parameters and JMESPath conditions have no native form and are refused.

mod cel;
mod classic;
mod formula;
mod group;
mod mutating;
mod object;
mod place;
mod rules;
mod scopes;
mod steps;
mod validating;

use std::{collections::BTreeSet, sync::Arc};

pub use self::scopes::{Before, NoScope, RuleScope, applied_before, rule_scopes};
use self::{object::Objects, steps::Steps};
use super::{Label, Layer, NEITHER, Options, Proof, Region, Target, out_of_scope, prove, sides::ignores};
use crate::pair::Pair;
use kyvtest_convert::{Exceptions, Object, Outcome};
use kyvtest_go_compat::value::Document;
use kyvtest_kyverno::lens::Lens;
use kyvtest_model::policy::Policy;
use kyvtest_model::{
    kube::Discovery,
    policy::{
        MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ValidatingAdmissionPolicy,
        ValidatingAdmissionPolicyBinding,
    },
};

/// What came of a repair.
#[derive(Debug, Clone)]
pub enum Repair {
    /// Native policies that are proven.
    Done(Box<Repaired>),
    /// There are none, or none that is proven.
    Refused(Box<Refused>),
}

/// Native policies that are proven to be the same policy.
#[derive(Debug, Clone)]
pub struct Repaired {
    pub policies: Vec<Object<ValidatingAdmissionPolicy>>,
    pub bindings: Vec<Object<ValidatingAdmissionPolicyBinding>>,
    /// Policies that change objects, with their bindings.
    pub mutating: Vec<RepairedMutation>,
    /// What they are made of.
    pub steps: Vec<Step>,
    /// What is to be known besides.
    pub remarks: Vec<String>,
    pub proof: Proof,
}

/// A native policy that changes objects, as it is written and as engines read it.
#[derive(Debug, Clone)]
pub struct RepairedMutation {
    pub policy: (Document, Arc<MutatingAdmissionPolicy>),
    pub binding: (Document, Arc<MutatingAdmissionPolicyBinding>),
}

impl Repaired {
    /// The kind of the native policies.
    pub fn kind(&self) -> &'static str {
        if self.mutating.is_empty() {
            "ValidatingAdmissionPolicy"
        } else {
            "MutatingAdmissionPolicy"
        }
    }

    /// The names of the native policies.
    pub fn names(&self) -> Vec<&str> {
        let validating = self
            .policies
            .iter()
            .map(|policy| policy.model.metadata.name.value.as_str());
        let mutating = self
            .mutating
            .iter()
            .map(|one| one.policy.1.metadata.name.value.as_str());
        validating.chain(mutating).collect()
    }
}

/// One construction of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its name, for tools.
    pub construct: &'static str,
    /// The hazards of the generator that it avoids.
    pub hazards: Vec<&'static str>,
    /// What it does, for people.
    pub text: &'static str,
}

/// Why there is no repair.
#[derive(Debug, Clone)]
pub struct Refused {
    /// A code, for tools.
    pub code: &'static str,
    /// Why, for people.
    pub reason: String,
    /// The request that defeats the best candidate, where there is one.
    pub witness: Option<Box<Region>>,
}

/// Codes of refusals.
mod code {
    /// The policy applies to no request.
    pub(super) const NEVER: &str = "never-applies";
    /// The cluster serves none of its kinds.
    pub(super) const UNKNOWN_KIND: &str = "unknown-kind";
    /// A rule is not CEL.
    pub(super) const NOT_CEL: &str = "not-cel";
    /// A rule has JMESPath in it.
    pub(super) const JMESPATH: &str = "jmespath";
    /// The policy reads what native policies cannot see.
    pub(super) const HIDDEN: &str = "hidden-from-native";
    /// It would take too many native policies.
    pub(super) const TOO_MANY: &str = "too-many-policies";
    /// Exceptions that a native policy cannot express.
    pub(super) const EXCEPTION: &str = "exception";
    /// Kyverno refuses to store the policy.
    pub(super) const REJECTED: &str = "rejected-by-kyverno";
    /// The API server would refuse the candidate.
    pub(super) const INVALID: &str = "vap-invalid";
    /// A request tells the candidate from the policy.
    pub(super) const REFUTED: &str = "refuted";
    /// Whether the candidate is the same policy is unknown.
    pub(super) const UNPROVEN: &str = "not-proven";
}

impl Refused {
    fn new(code: &'static str, reason: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
            witness: None,
        }
    }
}

/// What is said of kinds that native policies never see.
const EXEMPT: &str = "except for kinds that no native policy applies to: reviews, and native policies themselves";

/// Native policies in place of a policy, if there are any that are proven.
pub fn repair(original: &Policy, exceptions: Exceptions<'_>, discovery: &Discovery, options: &Options<'_>) -> Repair {
    match repaired(original, exceptions, discovery, options) {
        Ok(repaired) => Repair::Done(Box::new(repaired)),
        Err(refused) => Repair::Refused(Box::new(refused)),
    }
}

fn repaired(
    original: &Policy,
    exceptions: Exceptions<'_>,
    discovery: &Discovery,
    options: &Options<'_>,
) -> Result<Repaired, Refused> {
    if original.as_mutating().is_some() {
        let (mutating, steps, proof) = mutating::repaired(original, exceptions, discovery, options)?;
        return Ok(Repaired {
            policies: Vec::new(),
            bindings: Vec::new(),
            mutating,
            steps,
            remarks: Vec::new(),
            proof,
        });
    }
    if let Some(reason) = out_of_scope(original, discovery) {
        return Err(Refused::new(code::REJECTED, reason));
    }
    let mut shapes = vec![Shape::default()];
    if let Policy::Validating(policy) = original {
        if options.layer != Layer::Rule && validating::may_refuse_errors(policy, discovery) {
            shapes.push(Shape {
                refuses_errors: true,
                ..Shape::default()
            });
        }
        // Kyverno ignores errors of match conditions only.
        if ignores(policy) {
            shapes.push(Shape {
                fails: true,
                ..Shape::default()
            });
        }
    }
    let mut first = None;
    for shape in shapes {
        match candidate(original, exceptions, discovery, options, shape) {
            Ok(repaired) => return Ok(repaired),
            Err(refused) => first = first.or(Some(refused)),
        }
    }
    Err(first.unwrap_or_else(|| Refused::new(code::UNPROVEN, "there is no candidate")))
}

/// What a candidate for a ValidatingPolicy may have beyond what is written.
#[derive(Debug, Clone, Copy, Default)]
struct Shape {
    /// A native policy of its own refuses what match conditions err on.
    refuses_errors: bool,
    /// Errors are not ignored.
    fails: bool,
}

/// Builds a candidate and proves it.
fn candidate(
    original: &Policy,
    exceptions: Exceptions<'_>,
    discovery: &Discovery,
    options: &Options<'_>,
    shape: Shape,
) -> Result<Repaired, Refused> {
    let mut steps = Steps::default();
    let mut objects = Objects::new(original.kind(), original.name());
    match original {
        Policy::Classic(policy) => {
            rules::add(policy, exceptions, (discovery, options.layer), &mut objects, &mut steps)?;
        }
        Policy::Validating(policy) => {
            let lens = Lens::at(options.layer);
            validating::add(policy, exceptions, (discovery, lens, shape), &mut objects, &mut steps)?;
        }
        // Out of scope, hence never a candidate.
        _ => {}
    }
    let reviews_requests = options.layer == Layer::Rule || is_evaluated_at_admission(original);
    if !reviews_requests {
        objects.policies.clear();
        objects.bindings.clear();
    }
    let target = Target {
        policies: objects.policies.iter().map(|object| object.model.clone()).collect(),
        bindings: objects.bindings.iter().map(|object| object.model.clone()).collect(),
    };
    if target.policies.is_empty() {
        return Err(never(original, exceptions, discovery, options));
    }
    let mut proof = prove(original, exceptions, Some(&target), discovery, options);
    let mut remarks = Vec::new();
    let exempt = |region: &Region| !region.witness.scenario().request.resource.reaches_native_policies();
    if proof.regions.iter().any(exempt) {
        let options = Options {
            exempt: false,
            ..options.clone()
        };
        proof = prove(original, exceptions, Some(&target), discovery, &options);
        remarks.push(EXEMPT.to_owned());
    }
    if proof.label != Label::Proven {
        return Err(unproven(proof));
    }
    if !remarks.is_empty() && proof.notes.iter().any(|note| note == NEITHER) {
        let reason = "no native policy is evaluated for the kinds of the policy";
        return Err(Refused::new(code::HIDDEN, reason));
    }
    let pair = Pair::new(original.clone(), exceptions, discovery, options.now);
    Ok(Repaired {
        policies: objects.policies,
        bindings: objects.bindings,
        mutating: Vec::new(),
        steps: steps.avoiding(&hazards(&pair)),
        remarks,
        proof,
    })
}

/// Whether the policy is evaluated on admission requests.
fn is_evaluated_at_admission(original: &Policy) -> bool {
    match original {
        Policy::Classic(policy) => policy.spec.admission,
        Policy::Validating(policy) => policy.spec.evaluation.admission,
        _ => false,
    }
}

/// The hazards that the generator runs into.
fn hazards(pair: &Pair) -> BTreeSet<&'static str> {
    let conversion = pair.conversion();
    let mut codes: BTreeSet<&'static str> = conversion
        .report
        .iter()
        .filter_map(|item| item.hazard)
        .map(|hazard| hazard.code)
        .collect();
    if let Outcome::Refused(refusal) = &conversion.outcome {
        codes.extend(refusal.code.hazard().map(|hazard| hazard.code));
    }
    codes
}

/// A policy that seems to apply to nothing, compared with nothing.
fn never(original: &Policy, exceptions: Exceptions<'_>, discovery: &Discovery, options: &Options<'_>) -> Refused {
    let nothing = Target::default();
    let mut proof = prove(original, exceptions, Some(&nothing), discovery, options);
    match proof.label {
        Label::Refuted(_) => {
            let mut refused = unproven(proof);
            refused.reason = format!("no native policy could be built: {}", refused.reason);
            refused
        }
        _ if proof.stats.paths > 0 && proof.reason == super::IDLE => Refused::new(
            code::NEVER,
            "Kyverno applies this policy to no request: it is at fault itself, or lifted by an exception",
        ),
        _ => Refused::new(code::UNPROVEN, std::mem::take(&mut proof.reason)),
    }
}

fn unproven(proof: Proof) -> Refused {
    let (code, reason) = match proof.label {
        Label::Refuted(_) => {
            let first = proof.regions.first();
            let text = first.map_or("", |region| region.text.as_str());
            (code::REFUTED, format!("the best candidate is not equivalent: {text}"))
        }
        Label::NotConvertible { .. } => (
            code::INVALID,
            format!(
                "the API server would reject the candidate: {}",
                first_line(&proof.reason)
            ),
        ),
        _ => (
            code::UNPROVEN,
            format!("the best candidate is not proven: {}", first_line(&proof.reason)),
        ),
    };
    // What the region says of causes is about the generator.
    let witness = proof.regions.into_iter().next().map(|region| {
        Box::new(Region {
            hazard: None,
            cause: String::new(),
            ..region
        })
    });
    Refused { code, reason, witness }
}

/// The first line of a text.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
