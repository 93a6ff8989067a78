//! Native policies as Kyverno's command line decides them, without a server.
//!
//! Upstream counterpart: `pkg/admissionpolicy/validate.go` (Kyverno 1.19) as `processor/policy_processor.go` calls it. The same
//! validator runs, in Kyverno's environment; what is different, by name:
//!
//! - a policy without a binding is evaluated (`Matcher::Definition`); with bindings its own `matchConstraints` do not
//!   count (`Matcher::BindingOnly`), except with a fake cluster (`Matcher::Server`);
//! - blocks are read as Kyverno reads them ([`Reading::KYVERNO`]), except with a fake cluster;
//! - the request is always the creation of the object, by a user whose empty fields are filled;
//! - numbers of the object are doubles, and there is no authorizer;
//! - several parameters are one list, and a missing one is null, regardless of `parameterNotFoundAction`;
//! - the last binding that selects the request decides, and its actions do not count;
//! - an error is an error, regardless of `failurePolicy`.

pub(super) mod mutation;

pub use mutation::OfflineMutation;

use super::{
    matching::{Match, Reading, matches_as},
    params::metadata,
    policy::{Binding, CompiledNativePolicy, Failure, ParamRef},
};
use kyvtest_cel::{
    admission::{Cause, Decision, Inputs, Outcome},
    context::Scratch,
    host::{Attributes, NoHost},
    profile::Profile,
};
use kyvtest_go_compat::value::{Builder, Document, Value};
use kyvtest_model::{
    kube::{
        Concrete, Description, Namespace, Operation, Request, World, describe, namespace_object, parse_api_version,
    },
    policy::{MatchConstraints, ValidatingAdmissionPolicy},
    verdict::{Effect, Part, Status, Trace, Verdict},
};

/// The user of a request that names none (`pkg/admissionpolicy/user_info.go`).
const SENTINEL: &str = "system:kyverno:background-scan";

/// Compiles a policy for [`decide`].
pub(super) fn compile(policy: &ValidatingAdmissionPolicy) -> CompiledNativePolicy {
    CompiledNativePolicy::with_profile(policy, Profile::kyverno_classic(), false)
}

/// What decides whether a policy looks at a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Matcher {
    /// The policy's own block, read by Kyverno.
    Definition,
    /// Nothing but the binding's block, read by Kyverno.
    BindingOnly,
    /// Both blocks, read by the server's matcher; `matchPolicy` has no default here.
    Server,
}

impl Matcher {
    const fn reading(self) -> Reading {
        match self {
            Self::Definition | Self::BindingOnly => Reading::KYVERNO,
            Self::Server => Reading {
                equivalents: false,
                ..Reading::API_SERVER
            },
        }
    }
}

/// Evaluates an object as the command line does; `None` if the policy does not match it. `fake_cluster`: the suite
/// describes a cluster.
pub(super) fn decide(
    policy: &CompiledNativePolicy,
    bindings: &[Binding],
    request: &Request,
    world: &World,
    fake_cluster: bool,
) -> Option<Verdict> {
    let request = as_created(request);
    let bindings: Vec<&Binding> = bindings
        .iter()
        .filter(|binding| binding.policy == policy.name)
        .collect();
    let matcher = match (bindings.is_empty(), fake_cluster) {
        (true, _) => Matcher::Definition,
        (false, false) => Matcher::BindingOnly,
        (false, true) => Matcher::Server,
    };
    let namespace = namespace(&request, world, matcher);
    let selects = |block: &MatchConstraints| {
        let mut facts = Concrete::new(&request, namespace.as_ref());
        let matched = matches_as(matcher.reading(), block, &request.cell(), &[], &mut facts);
        matches!(matched, Ok(Match::Yes(_)))
    };
    let definition = || policy.constraints.as_ref().is_some_and(selects);
    let evaluation = Evaluation {
        policy,
        request: &request,
        namespace: namespace.as_ref(),
    };
    match matcher {
        Matcher::Definition => return definition().then(|| evaluation.evaluate(Value::Null)),
        Matcher::Server if !definition() => return None,
        Matcher::Server | Matcher::BindingOnly => {}
    }
    let mut result = None;
    for binding in bindings {
        if !binding.match_resources.as_ref().is_none_or(selects) {
            continue;
        }
        let params = match (&binding.params, matcher) {
            (None, _) => Document::null(),
            (Some(reference), Matcher::Server) => match stored_params(policy, reference, world) {
                Some(params) => params,
                // An error ends the loop with the result so far.
                None => return result,
            },
            (Some(reference), _) => given_params(reference, world),
        };
        result = Some(evaluation.evaluate(params.root()));
    }
    result
}

/// The request that the command line makes: the object is created, as what it is.
fn as_created(request: &Request) -> Request {
    let object = match request.subject() {
        Some((_, object)) => object,
        None => Value::Null,
    };
    let text = |field: &str| {
        let text = object.at(&["metadata", field]).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let mut created = request.clone();
    (created.name, created.namespace) = (text("name"), text("namespace"));
    let mut doubles = Builder::new();
    doubles.value_with_doubles(object);
    created.object = doubles.finish();
    created.old_object = Document::null();
    created.operation = Operation::Create;
    created.options = Document::null();
    created.dry_run = false;
    created.collection = false;
    let user = &mut created.user;
    for field in [&mut user.username, &mut user.uid] {
        if field.is_empty() {
            SENTINEL.clone_into(field);
        }
    }
    if user.groups().is_empty() {
        user.groups = Some(vec![SENTINEL.to_owned()]);
    }
    created
}

/// The namespace of the object: its name and labels, or all of it if there is a cluster.
fn namespace(request: &Request, world: &World, matcher: Matcher) -> Option<Namespace> {
    let name = request.namespace.as_str();
    if name.is_empty() || request.resource.kind == "Namespace" && request.resource.group.is_empty() {
        return None;
    }
    let stored = world.namespace(name);
    if let (Some(stored), Matcher::Server) = (stored, matcher) {
        return Some(stored.clone());
    }
    let labels = stored.and_then(Namespace::labels);
    let labels = labels.iter().flat_map(|labels| labels.iter());
    let labels = labels.filter_map(|(key, value)| Some((key.text(), value.as_str()?)));
    Some(Namespace::with_labels(name, labels))
}

/// The parameters among those that a suite gives, of whichever kind.
fn given_params(reference: &ParamRef, world: &World) -> Document {
    let mut params = world.params.iter();
    if let Some(selector) = &reference.selector {
        let found: Vec<&Document> = params.filter(|object| selector.selects(object.root())).collect();
        return if found.is_empty() {
            Document::null()
        } else {
            list(&found)
        };
    }
    let found = params.find(|object| {
        if reference.name.is_empty() {
            !reference.namespace.is_empty() && metadata(object, "namespace") == reference.namespace
        } else {
            metadata(object, "name") == reference.name
        }
    });
    found.cloned().unwrap_or_else(Document::null)
}

/// The parameters in the fake cluster, to which every kind is one of the whole cluster; `None` is an error.
fn stored_params(policy: &CompiledNativePolicy, reference: &ParamRef, world: &World) -> Option<Document> {
    let kind = policy.param_kind.as_ref()?;
    if !reference.namespace.is_empty() {
        return None;
    }
    let (group, version) = parse_api_version(&kind.api_version);
    let mut of_kind = world.objects.iter().filter(|object| {
        let text = |key: &str| object.root().get(key).and_then(Value::as_str).unwrap_or_default();
        parse_api_version(text("apiVersion")) == (group, version) && text("kind") == kind.kind
    });
    if !reference.name.is_empty() {
        let named = of_kind
            .find(|object| metadata(object, "name") == reference.name && metadata(object, "namespace").is_empty());
        return named.cloned();
    }
    let selector = reference.selector.as_ref()?;
    let found: Vec<&Document> = of_kind.filter(|object| selector.selects(object.root())).collect();
    match found[..] {
        [] => None,
        [one] => Some(one.clone()),
        _ => Some(list(&found)),
    }
}

/// Several objects as one.
fn list(items: &[&Document]) -> Document {
    let mut builder = Builder::new();
    builder.begin_map();
    builder.key("items");
    builder.begin_list();
    for item in items {
        builder.value(item.root());
    }
    builder.end();
    builder.end();
    builder.finish()
}

/// `request` in expressions.
fn request_description(request: &Request) -> Document {
    let resource = &request.resource;
    describe(&Description {
        kind: &resource.object_kind,
        resource: Some(resource.gvr()),
        requested: None,
        subresource: "",
        name: &request.name,
        namespace: &request.namespace,
        operation: request.operation,
        user: &request.user,
        objects: [Value::Null; 2],
        dry_run: false,
        options: Value::Null,
    })
}

struct Evaluation<'r> {
    policy: &'r CompiledNativePolicy,
    request: &'r Request,
    namespace: Option<&'r Namespace>,
}

impl Evaluation<'_> {
    fn evaluate(&self, params: Value<'_>) -> Verdict {
        let request = self.request;
        let described = request_description(request);
        // What is in no namespace has one without a name.
        let namespace = namespace_object(self.namespace.map_or(Value::Null, |namespace| namespace.object.root()));
        let inputs = Inputs {
            object: request.object.root(),
            old_object: Value::Null,
            request: described.root(),
            condition_request: described.root(),
            namespace: namespace.root(),
            params,
        };
        let validator = &self.policy.validator;
        let outcome = validator.validate(&inputs, &Attributes::default(), &NoHost, &Scratch::new());
        let (decisions, annotations) = match outcome {
            Outcome::Unmatched(condition) => return skip(Trace::of(Part::Precondition(condition.index))),
            Outcome::Decided { decisions, annotations } => (decisions, annotations),
        };
        if decisions.is_empty() && annotations.is_empty() {
            return skip(Trace::of(Part::All));
        }
        let refused = |status, message, trace| Verdict {
            status,
            effect: Effect::Deny,
            message,
            trace,
        };
        let objection = decisions.into_iter().find_map(|decision| match decision {
            Decision::Admit => None,
            Decision::Deny { index, message } => {
                Some(refused(Status::Fail, message, Trace::of(Part::Validation(index))))
            }
            Decision::Error {
                cause: Cause::MatchCondition(index),
                ..
            } if self.policy.failure_policy == Failure::Ignore => Some(skip(Trace::error(Part::Precondition(index)))),
            Decision::Error { cause, message } => {
                let part = match cause {
                    Cause::MatchCondition(index) => Part::Precondition(index),
                    Cause::Validation(index) => Part::Validation(index),
                    Cause::Budget => Part::Budget,
                };
                Some(refused(Status::Error, message, Trace::error(part)))
            }
        });
        objection.unwrap_or_else(|| Verdict {
            status: Status::Pass,
            effect: Effect::Admit,
            message: String::new(),
            trace: Trace::of(Part::All),
        })
    }
}

fn skip(trace: Trace) -> Verdict {
    Verdict {
        status: Status::Skip,
        effect: Effect::Admit,
        message: "match conditions aren't met".to_owned(),
        trace,
    }
}
