//! The webhooks that Kyverno registers, and what the API server does with them.
//!
//! Upstream counterpart: `pkg/controllers/webhook` (Kyverno 1.19), which builds the webhooks, and the API server's
//! `admission/plugin/webhook`, which decides whether to call them. [`Registration`] is the only description of a webhook:
//! evaluation, proofs, repairs and `convert --webhooks` all read it.
//!
//! A webhook that lists another version of the resource gets the object converted to it, unless the policy has
//! `matchPolicy: Exact`. The API server evaluates match conditions itself: a false one keeps Kyverno out, an error
//! denies the request or skips the call, by the policy's `failurePolicy`.
//!
//! Known deviation: a kind that discovery does not know is matched by the
//! kind selector of the policy, because no registration can name its resource.

mod classic;
mod mutating;
mod registration;
mod subject;
mod validating;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    sync::Arc,
};

use sha2::{Digest as _, Sha256};

use super::{autogen::Target, input::Input, matching::kind_matches};
use kyvtest_cel::{
    admission::{Decision, Declarations, Environment, Expression, Inputs, Outcome, Parts, Returns, Validator},
    ast::{Expr, ExprId},
    context::Scratch,
    host::Host,
    observe::Place,
    profile::Profile,
    program::Program,
    syntax::parse,
};
use kyvtest_go_compat::{text::label, value::Value};
use kyvtest_model::{
    kube::{
        Discovery, Facts, LabelSelector, NAME_LABEL, Operation, Pairs, Request, RequestClass, Requirement, Resource,
        RuleWithOperations, convert,
    },
    policy::{KindSelector, MatchCondition, MatchConstraints, Spanned, Text},
};

pub use registration::{Registration, configuration, mutating_configuration};

/// One webhook of Kyverno's ValidatingWebhookConfiguration or MutatingWebhookConfiguration.
#[derive(Debug, Default)]
pub struct Webhook {
    name: String,
    path: String,
    /// Whether an error in a match condition, or in the call, denies the request (`failurePolicy: Fail`).
    fails: bool,
    rules: Vec<RuleWithOperations>,
    /// Kinds that discovery does not know, with their operations; no operations means all.
    unknown_kinds: Vec<(KindSelector, Vec<Operation>)>,
    match_conditions: Vec<RegisteredCondition>,
    match_policy: Option<&'static str>,
    timeout_seconds: Option<i64>,
    /// `reinvocationPolicy` of a mutating webhook, if it has one.
    reinvocation: Option<&'static str>,
    namespace_selector: Option<LabelSelector>,
    object_selector: Option<LabelSelector>,
    conditions: Option<Validator>,
}

/// A match condition as Kyverno registers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredCondition {
    name: String,
    /// The kinds that the condition is for: it holds for all others. Empty means all kinds.
    guard: Vec<Target>,
    expression: String,
}

impl RegisteredCondition {
    fn plain(condition: &MatchCondition) -> Self {
        Self {
            name: condition.name.value.clone(),
            guard: Vec::new(),
            expression: condition.expression.text().to_owned(),
        }
    }

    /// Whether the condition is for some kinds only.
    pub fn is_guarded(&self) -> bool {
        !self.guard.is_empty()
    }

    /// Whether two conditions are for the same kinds.
    pub fn has_guard_of(&self, other: &Self) -> bool {
        self.guard == other.guard
    }

    /// The name, prefixed if the condition is guarded.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The policy's own expression, without the guard.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The expression that the API server evaluates (`CreateMatchConditions` of `pkg/cel/autogen/match.go` upstream).
    pub fn registered(&self) -> String {
        if self.guard.is_empty() {
            return self.expression.clone();
        }
        let tests: BTreeSet<String> = self
            .guard
            .iter()
            .map(|target| {
                let api_version = target.api_version();
                format!(
                    "(object.apiVersion == '{api_version}' && object.kind =='{}')",
                    target.kind
                )
            })
            .collect();
        let tests: Vec<String> = tests.into_iter().collect();
        format!("!({}) || ({})", tests.join(" || "), self.expression)
    }

    /// Evaluates the guard on a request class as it is delivered: the guard reads `object`, so it fails if there is no
    /// object.
    pub fn guard(&self, cell: &RequestClass<'_>) -> Guard {
        if self.guard.is_empty() {
            return Guard::Applies;
        }
        if cell.operation == Operation::Delete {
            return Guard::Error;
        }
        let kind = &cell.resource.object_kind;
        let applies = |target: &Target| target.api_version() == kind.api_version() && target.kind == kind.kind;
        if self.guard.iter().any(applies) {
            Guard::Applies
        } else {
            Guard::Passes
        }
    }
}

/// What the guard of a match condition evaluates to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// The object is of one of the kinds: the condition decides.
    Applies,
    /// The object is of another kind: the condition holds.
    Passes,
    /// Without a new object, the guarded condition is an error unless the condition holds.
    Error,
}

/// What the API server does with a request that a webhook lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// It calls Kyverno.
    Made,
    /// It does not, because this match condition is false, or because an error is ignored.
    NotMade(Option<usize>),
    /// It denies the request: a match condition cannot be evaluated. Holds the error message.
    Refused(String),
}

/// How Kyverno gets requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery<'d> {
    /// It does not get them.
    None,
    /// As they are.
    AsIs,
    /// As requests for an equivalent resource, which serves the same objects under another name or version.
    As(&'d Arc<Resource>),
}

impl<'d> Delivery<'d> {
    /// Returns the request as Kyverno gets it, if it gets it.
    pub(crate) fn of(self, request: &Request) -> Option<Cow<'_, Request>> {
        match self {
            Self::None => None,
            Self::AsIs => Some(Cow::Borrowed(request)),
            Self::As(resource) => Some(Cow::Owned(Request {
                resource: Arc::clone(resource),
                object: convert(request.object.root(), &request.resource, resource),
                old_object: convert(request.old_object.root(), &request.resource, resource),
                ..request.clone()
            })),
        }
    }

    /// Returns the request class as Kyverno gets it, if it gets it.
    pub fn of_cell(self, cell: &RequestClass<'d>) -> Option<RequestClass<'d>> {
        match self {
            Self::None => None,
            Self::AsIs => Some(*cell),
            Self::As(resource) => Some(RequestClass { resource, ..*cell }),
        }
    }
}

impl Webhook {
    /// The webhook's name, which the API server puts into denials.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The match conditions that the API server evaluates before it calls Kyverno.
    pub fn match_conditions(&self) -> &[RegisteredCondition] {
        &self.match_conditions
    }

    /// Whether an error in a match condition denies the request.
    pub fn fails(&self) -> bool {
        self.fails
    }

    /// The rules that select requests, all kinds resolved to resources.
    pub fn rules(&self) -> &[RuleWithOperations] {
        &self.rules
    }

    /// The labels that an object must have, if any are required.
    pub fn object_selector(&self) -> Option<&LabelSelector> {
        self.object_selector.as_ref()
    }

    /// The labels that a namespace must have, if any are required.
    pub fn namespace_selector(&self) -> Option<&LabelSelector> {
        self.namespace_selector.as_ref()
    }

    /// The programs of its match conditions, for observers.
    pub fn programs(&self) -> Vec<(Place, &Program)> {
        self.conditions.as_ref().map(Validator::programs).unwrap_or_default()
    }

    /// Evaluates the match conditions on a request that the webhook lists.
    pub(crate) fn call(&self, input: &Input<'_>, host: &dyn Host) -> Call {
        let Some(conditions) = &self.conditions else {
            return Call::Made;
        };
        let documents = input.as_sent();
        let inputs = Inputs {
            object: documents.object.root(),
            old_object: documents.old_object.root(),
            request: documents.request.root(),
            condition_request: documents.request.root(),
            // The API server binds `namespaceObject` to null in webhook conditions.
            namespace: Value::Null,
            params: Value::Null,
        };
        match conditions.validate(&inputs, &input.sent_attributes(), host, &Scratch::new()) {
            Outcome::Unmatched(condition) => Call::NotMade(Some(condition.index)),
            Outcome::Decided { decisions, .. } => {
                let error = decisions.into_iter().find_map(|decision| match decision {
                    Decision::Error { message, .. } => Some(message),
                    Decision::Admit | Decision::Deny { .. } => None,
                });
                match error {
                    None => Call::Made,
                    Some(message) if self.fails => Call::Refused(message),
                    Some(_) => Call::NotMade(None),
                }
            }
        }
    }

    /// Returns how Kyverno gets the requests of a class, if it gets them.
    pub fn delivers<'p, 'd>(
        &'p self,
        cell: &RequestClass<'d>,
        discovery: &'d Discovery,
        facts: &mut impl Facts<'p>,
    ) -> Delivery<'d> {
        let delivery = self.route(cell, discovery);
        // Skip the selectors if no rule lists the resource: they cannot change the result.
        if delivery == Delivery::None || !self.selects_namespace(cell, facts) || !self.selects_object(cell, facts) {
            return Delivery::None;
        }
        delivery
    }

    /// Returns how the rules alone deliver a request (`predicates/rules` and `ShouldCallHook` of the API server).
    pub fn route<'d>(&self, cell: &RequestClass<'d>, discovery: &'d Discovery) -> Delivery<'d> {
        if !cell.resource.reaches_webhooks() {
            return Delivery::None;
        }
        let unknown = |cell: &RequestClass<'_>| {
            self.unknown_kinds.iter().any(|(selector, operations)| {
                (operations.is_empty() || operations.contains(&cell.operation)) && lists_kind(selector, cell.resource)
            })
        };
        if self.rules.iter().any(|rule| rule.matches(cell)) || unknown(cell) {
            return Delivery::AsIs;
        }
        if self.match_policy == Some("Exact") {
            return Delivery::None;
        }
        let others: Vec<&Arc<Resource>> = discovery.equivalents(cell.resource).collect();
        let as_other = |resource| RequestClass { resource, ..*cell };
        let mut by_rule = self.rules.iter().filter_map(|rule| {
            let mut others = others.iter().copied();
            others.find(|other| rule.matches(&as_other(other)))
        });
        let found = by_rule
            .next()
            .or_else(|| others.iter().copied().find(|other| unknown(&as_other(other))));
        found.map_or(Delivery::None, Delivery::As)
    }

    /// Compares the labels of the objects that the request has; what a CONNECT sends has none.
    fn selects_object<'p>(&'p self, cell: &RequestClass<'_>, facts: &mut impl Facts<'p>) -> bool {
        let Some(selector) = usable(self.object_selector.as_ref()) else {
            return true;
        };
        let mut matches = |pairs| selector.matches(Some(pairs), facts);
        match cell.operation {
            Operation::Create => matches(Pairs::NewLabels),
            Operation::Update => matches(Pairs::NewLabels) || matches(Pairs::OldLabels),
            Operation::Delete => matches(Pairs::OldLabels),
            Operation::Connect => false,
        }
    }

    /// Compares the labels of the request's namespace; a Namespace that is being written has them itself
    /// (`predicates/namespace` of the API server).
    fn selects_namespace<'p>(&'p self, cell: &RequestClass<'_>, facts: &mut impl Facts<'p>) -> bool {
        let Some(selector) = usable(self.namespace_selector.as_ref()) else {
            return true;
        };
        let of_namespaces = cell.resource.plural == "namespaces";
        if !cell.namespaced && !of_namespaces {
            return true;
        }
        let writes = matches!(cell.operation, Operation::Create | Operation::Update);
        let own = of_namespaces && writes && cell.resource.subresource.is_empty();
        let labels = if own { Pairs::NewLabels } else { Pairs::NamespaceLabels };
        selector.matches(Some(labels), facts)
    }

    /// Compiles the match conditions once they are complete.
    fn compile(mut self) -> Self {
        if !self.match_conditions.is_empty() {
            let conditions = self.match_conditions.iter();
            let texts: Vec<(&str, String)> = conditions.map(|one| (one.name.as_str(), one.registered())).collect();
            let parts = Parts {
                match_conditions: texts.iter().map(|(name, text)| (*name, text.as_str())).collect(),
                ..Parts::default()
            };
            self.conditions = Some(Validator::compile(Profile::kubernetes(), DECLARATIONS, &parts));
        }
        self
    }
}

/// A selector that excludes something. Kyverno's API rejects invalid ones, so they never reach a webhook.
fn usable(selector: Option<&LabelSelector>) -> Option<&LabelSelector> {
    selector.filter(|selector| !selector.is_empty() && selector.error().is_none())
}

/// The name of a webhook; a policy with a webhook of its own is named in it.
fn name(base: &str, fails: bool, own: Option<&str>) -> String {
    let failure = if fails { "fail" } else { "ignore" };
    let own = own.map(|own| format!("-finegrained-{own}"));
    format!("{base}-{failure}{}", own.unwrap_or_default())
}

/// The checksum of the selectors of a policy's webhook (`pkg/controllers/webhook/validating.go` `selectorKey`).
fn digest(own: Option<&Text>, constraints: Option<&MatchConstraints>) -> String {
    let namespace = match own {
        Some(namespace) => serde_json::json!({
            "matchExpressions": [{"key": NAME_LABEL, "operator": "In", "values": [namespace.value]}]
        }),
        None => selector(constraints.and_then(|block| block.namespace_selector.as_ref())),
    };
    let object = selector(constraints.and_then(|block| block.object_selector.as_ref()));
    let digest = Sha256::digest(serde_json::json!([namespace, object]).to_string());
    let mut text = String::new();
    for byte in digest {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A selector as Go marshals it.
fn selector(selector: Option<&Spanned<LabelSelector>>) -> serde_json::Value {
    let Some(selector) = selector else {
        return serde_json::Value::Null;
    };
    let (pairs, expressions): (Vec<&Requirement>, Vec<&Requirement>) = selector
        .requirements()
        .iter()
        .partition(|requirement| requirement.is_pair);
    let mut object = serde_json::Map::new();
    let pairs: BTreeMap<&str, &str> = pairs
        .into_iter()
        .map(|pair| (pair.key.as_str(), pair.values.first().map_or("", String::as_str)))
        .collect();
    if !pairs.is_empty() {
        object.insert("matchLabels".to_owned(), serde_json::json!(pairs));
    }
    let expressions: Vec<serde_json::Value> = expressions
        .into_iter()
        .map(|expression| {
            let mut value = serde_json::json!({"key": expression.key, "operator": expression.word});
            if !expression.values.is_empty() {
                value["values"] = serde_json::json!(expression.values);
            }
            value
        })
        .collect();
    if !expressions.is_empty() {
        object.insert("matchExpressions".to_owned(), expressions.into());
    }
    object.into()
}

const DECLARATIONS: Declarations = Declarations {
    params: false,
    authorizer: true,
    variables: true,
};

/// The conditions, if the API server can evaluate them all: it does not know Kyverno's functions. One that it cannot
/// evaluate keeps all of them with Kyverno.
fn offloadable(conditions: &[MatchCondition]) -> &[MatchCondition] {
    let environment = Environment::new(Profile::kubernetes(), DECLARATIONS, []);
    let is_valid = |condition: &MatchCondition| {
        if !is_qualified(&condition.name.value) {
            return false;
        }
        let text = condition.expression.text();
        let compiled = Expression::compile(text, &environment, Returns::Bool, true);
        compiled.flaw().is_none()
    };
    if conditions.iter().all(is_valid) {
        conditions
    } else {
        &[]
    }
}

/// Whether the API server accepts the name of a match condition.
fn is_qualified(name: &str) -> bool {
    let mut problems = Vec::new();
    label::key_problems(name, label::Wording::QualifiedName, &mut problems);
    problems.is_empty()
}

/// Whether an expression mentions `namespaceObject`; one that cannot be parsed may.
fn mentions_namespace(expression: &str) -> bool {
    let Ok(ast) = parse(expression, &Profile::kubernetes().syntax) else {
        return true;
    };
    let mut all = (0..ast.len() as u32).map(ExprId);
    all.any(|id| matches!(ast.expr(id), Expr::Ident(name) if &**name == "namespaceObject"))
}

/// Whether a kind selector lists a resource. Pods bring their ephemeral containers with them.
fn lists_kind(selector: &KindSelector, resource: &Resource) -> bool {
    if kind_matches(selector, resource, false) {
        return true;
    }
    let is_ephemeral = resource.group.is_empty()
        && resource.version == "v1"
        && resource.kind == "Pod"
        && resource.subresource == "ephemeralcontainers";
    is_ephemeral
        && kind_matches(
            selector,
            &Resource {
                subresource: String::new(),
                ..resource.clone()
            },
            false,
        )
}
