//! Mutating policies as Kyverno's command line runs them.
//!
//! Upstream counterpart: `pkg/admissionpolicy/mutate.go` (Kyverno 1.19) as `processor/policy_processor.go` calls it. Requests are
//! those of [`super`]; what is different from an API server, by name:
//!
//! - a policy without a binding runs; with bindings its own `matchConstraints` do not count;
//! - every binding starts from the object as it was: the last one that runs decides;
//! - `Object` and `JSONPatch` are known to variables and conditions as well, and `params` only if a parameter was found;
//! - conditions find the variables, mutations do not (`no such key`);
//! - lists are replaced, because types are deduced from the object; nothing is decoded or defaulted;
//! - a mutation that fails ends its binding without a result, and so does a condition that fails, unless errors are
//!   ignored.

use super::{Matcher, as_created, given_params, namespace, request_description};
use crate::{
    matching::{Match, matches_as},
    mutating::CompiledMutatingPolicy,
    policy::{Binding, Failure},
};
use kyvtest_cel::{
    admission::{Inputs, Mutator, PatchKind},
    context::{Context, Scratch},
    host::{Attributes, NoHost},
    profile::Profile,
    val::Val,
};
use kyvtest_go_compat::value::{Document, Value};
use kyvtest_model::{
    kube::{Concrete, Namespace, Request, World, namespace_object},
    policy::MatchConstraints,
    verdict::{Effect, Part, Status, Trace, Verdict},
};
use kyvtest_patch::{
    expression,
    structured::{self, Atomics, Schema},
};

/// What the command line makes of an object.
#[derive(Debug, Clone)]
pub struct OfflineMutation {
    /// `pass`, or `skip` if a condition is false.
    pub verdict: Verdict,
    /// The object after the policy; `None` if it was skipped.
    pub object: Option<Document>,
}

/// Runs a policy; `None` if it has no result.
pub(crate) fn mutate(
    policy: &CompiledMutatingPolicy,
    bindings: &[Binding],
    request: &Request,
    world: &World,
) -> Option<OfflineMutation> {
    let request = as_created(request);
    let mut bindings = bindings
        .iter()
        .filter(|binding| binding.policy == policy.name)
        .peekable();
    let namespace = namespace(&request, world, Matcher::Definition);
    let run = Run {
        policy,
        request: &request,
        namespace: namespace.as_ref(),
    };
    if bindings.peek().is_none() {
        let applies = policy.constraints.as_ref().is_none_or(|block| run.selects(block));
        return applies.then(|| run.mutate(None)).and_then(Ran::result);
    }
    let mut result = None;
    for binding in bindings {
        if !binding.match_resources.as_ref().is_none_or(|block| run.selects(block)) {
            continue;
        }
        let params = binding.params.as_ref().map(|reference| given_params(reference, world));
        let params = params.filter(|params| !params.root().is_null());
        match run.mutate(params.as_ref()) {
            Ran::Error => {}
            ran => result = ran.result(),
        }
    }
    result
}

/// What came of one binding.
enum Ran {
    /// A condition cannot be evaluated: the binding does not count.
    Error,
    /// A mutation failed: the policy has no result, and those of earlier bindings are dropped.
    Nothing,
    Skipped(usize),
    Mutated(Document),
}

impl Ran {
    fn result(self) -> Option<OfflineMutation> {
        let result = |status, message: &str, part, object| OfflineMutation {
            verdict: Verdict {
                status,
                effect: Effect::Admit,
                message: message.to_owned(),
                trace: Trace::of(part),
            },
            object,
        };
        match self {
            Self::Error | Self::Nothing => None,
            Self::Skipped(index) => Some(result(
                Status::Skip,
                "match conditions aren't met",
                Part::Precondition(index),
                None,
            )),
            Self::Mutated(object) => Some(result(
                Status::Pass,
                "mutation is successfully applied",
                Part::All,
                Some(object),
            )),
        }
    }
}

struct Run<'r> {
    policy: &'r CompiledMutatingPolicy,
    request: &'r Request,
    namespace: Option<&'r Namespace>,
}

impl Run<'_> {
    fn selects(&self, block: &MatchConstraints) -> bool {
        let mut facts = Concrete::new(self.request, self.namespace);
        let reading = Matcher::Definition.reading();
        let matched = matches_as(reading, block, &self.request.cell(), &[], &mut facts);
        matches!(matched, Ok(Match::Yes(_)))
    }

    fn mutate(&self, params: Option<&Document>) -> Ran {
        let mutator = self.policy.mutator_with(params.is_some());
        let described = request_description(self.request);
        let namespace = namespace_object(self.namespace.map_or(Value::Null, |namespace| namespace.object.root()));
        let mut object = self.request.object.clone();
        let surroundings = Inputs {
            object: Value::Null,
            old_object: Value::Null,
            request: described.root(),
            condition_request: described.root(),
            namespace: namespace.root(),
            params: Value::Null,
        };
        let attributes = Attributes::default();
        let scratch = Scratch::new();
        // Conditions do not see the parameter.
        let conditions = Inputs {
            object: object.root(),
            ..surroundings
        };
        match mutator.unmatched(&conditions, &attributes, &NoHost, &scratch) {
            Ok(None) => {}
            Ok(Some(condition)) => return Ran::Skipped(condition.index),
            Err(_) if self.policy.failure_policy == Failure::Ignore => return Ran::Skipped(0),
            Err(_) => return Ran::Error,
        }
        let params = params.map_or(Value::Null, Document::root);
        for index in 0..mutator.mutations().len() {
            let inputs = Inputs {
                object: object.root(),
                params,
                ..surroundings
            };
            match patch(mutator, index, &inputs) {
                Some(patched) => object = patched,
                None => return Ran::Nothing,
            }
        }
        Ran::Mutated(object)
    }
}

/// The object after a mutation; `None` if it fails.
fn patch(mutator: &Mutator, index: usize, inputs: &Inputs<'_>) -> Option<Document> {
    let kind = mutator.mutations().nth(index)?;
    let scratch = Scratch::new();
    let object = inputs.object;
    let then = |value: Result<Val<'_>, String>| {
        let value = value.ok()?;
        match kind {
            PatchKind::ApplyConfiguration => {
                let config = expression::apply_configuration(value).ok()?;
                structured::apply(Schema::deduced(), object, &config, Atomics::Reject).ok()
            }
            PatchKind::JsonPatch => {
                let context = Context::new(&scratch, Profile::kyverno_native_mutating(), &NoHost);
                let patched = expression::json_patch(value, object, &context).ok()?;
                // A failed `test` leaves the object as it is.
                let Some(patched) = patched else {
                    return Some(object.to_document());
                };
                // What has no kind cannot be decoded.
                let kind = patched.root().get("kind").and_then(Value::as_str);
                kind.is_some_and(|kind| !kind.is_empty()).then_some(patched)
            }
        }
    };
    mutator.evaluate(index, inputs, &Attributes::default(), &NoHost, &scratch, then)
}
