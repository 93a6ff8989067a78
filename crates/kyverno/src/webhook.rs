//! Which requests reach Kyverno at all, and as what.
//!
//! Upstream counterpart: `pkg/controllers/webhook` (1.19), which builds the webhooks, and the API server's
//! `admission/plugin/webhook`, which decides whether to call them. A webhook that lists another version of the resource
//! gets the object converted to it, unless the policy says `matchPolicy: Exact`.
//!
//! Match conditions go to the API server where it can evaluate them: a false one keeps Kyverno out, an error refuses the
//! request or is passed over, as the policy's `failurePolicy` says.
//!
//! Known deviation: a conversion changes the version and nothing else.

mod classic;
mod registration;
mod validating;

use std::{borrow::Cow, collections::BTreeMap, fmt::Write as _, sync::Arc};

use sha2::{Digest as _, Sha256};

use super::{autogen, input::Input, matching::kind_matches};
use kyvtest_cel::{
    admission::{Decision, Declarations, Environment, Expression, Inputs, Outcome, Parts, Returns, Validator},
    ast::{Expr, ExprId},
    context::Scratch,
    host::{Attributes, Host},
    observe::Place,
    profile::Profile,
    program::Program,
    syntax::parse,
};
use kyvtest_go_compat::value::Value;
use kyvtest_model::{
    kube::{Cell, Discovery, Facts, LabelSelector, NAME_LABEL, Operation, Pairs, Request, Requirement, Resource},
    policy::{FailurePolicy, KindSelector, MatchCondition, MatchPolicy, Policy, Spanned, ValidatingPolicy},
};

pub use registration::configuration;

/// The webhook of one policy.
#[derive(Debug)]
pub struct Webhook {
    name: String,
    listed: Vec<Listed>,
    object_selector: Option<LabelSelector>,
    is_exact: bool,
    conditions: Option<Validator>,
    /// The texts of the conditions.
    asked: Vec<String>,
    fails: bool,
    /// The checksum of the selectors of a CEL policy that shares its webhook with others.
    group: Option<String>,
}

/// What the API server does with a request that a webhook lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// It asks Kyverno.
    Made,
    /// It does not, for the sake of this match condition, or of an error that is passed over.
    NotMade(Option<usize>),
    /// It refuses the request: a match condition cannot be evaluated. The text is the error's.
    Refused(String),
}

/// What a webhook lists.
#[derive(Debug, Clone)]
enum Listed {
    Kind {
        selector: KindSelector,
        /// None is all of them.
        operations: Vec<String>,
    },
    Rule(kyvtest_model::kube::RuleWithOperations),
}

/// How Kyverno gets requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery<'d> {
    /// It does not get them.
    None,
    /// As they are.
    AsIs,
    /// As requests about a resource under whose name the same objects are served.
    As(&'d Arc<Resource>),
}

impl<'d> Delivery<'d> {
    /// A request as Kyverno gets it, if it gets it.
    pub fn of(self, request: &Request) -> Option<Cow<'_, Request>> {
        match self {
            Self::None => None,
            Self::AsIs => Some(Cow::Borrowed(request)),
            Self::As(resource) => Some(Cow::Owned(Request {
                resource: Arc::clone(resource),
                ..request.clone()
            })),
        }
    }

    /// A cell as Kyverno gets it, if it gets it.
    pub fn of_cell(self, cell: &Cell<'d>) -> Option<Cell<'d>> {
        match self {
            Self::None => None,
            Self::AsIs => Some(*cell),
            Self::As(resource) => Some(Cell { resource, ..*cell }),
        }
    }
}

impl Webhook {
    /// The webhook of a ClusterPolicy or Policy: the kinds of its rules, generated ones included.
    pub fn of_policy(policy: &Policy) -> Self {
        let mut listed = Vec::new();
        for rule in autogen::all_rules(policy) {
            let block = &rule.matches;
            for filter in std::iter::once(&block.inline).chain(&block.all).chain(&block.any) {
                let operations = &filter.resources.operations;
                listed.extend(filter.resources.kinds.iter().map(|kind| Listed::Kind {
                    selector: kind.value.clone(),
                    operations: operations.iter().map(|text| text.value.clone()).collect(),
                }));
            }
        }
        let webhook = policy.spec.webhook.as_ref();
        let conditions = webhook.map_or(&[][..], |webhook| &webhook.match_conditions);
        let failure_policy = webhook
            .and_then(|webhook| webhook.failure_policy.as_ref())
            .or(policy.spec.failure_policy.as_ref());
        let fails = failure_policy.is_none_or(|policy| policy.value == FailurePolicy::Fail);
        let own = (!conditions.is_empty()).then(|| policy.key().replace('/', "-"));
        Self {
            name: name("validate.kyverno.svc", fails, own.as_deref()),
            listed,
            object_selector: None,
            is_exact: false,
            conditions: compile(conditions.iter()),
            asked: texts(conditions.iter()),
            fails,
            group: None,
        }
    }

    /// The webhook's name, which the API server tells with a refusal.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The conditions that the API server asks before it asks Kyverno.
    pub fn asked(&self) -> &[String] {
        &self.asked
    }

    /// Whether an error in a condition refuses the request.
    pub fn fails(&self) -> bool {
        self.fails
    }

    /// The programs of its match conditions, for somebody who looks on.
    pub fn programs(&self) -> Vec<(Place, &Program)> {
        self.conditions.as_ref().map(Validator::programs).unwrap_or_default()
    }

    /// Whether the API server asks Kyverno about a request that the webhook lists.
    pub fn call(&self, input: &Input<'_>, host: &dyn Host) -> Call {
        let Some(conditions) = &self.conditions else {
            return Call::Made;
        };
        let documents = input.classic();
        let inputs = Inputs {
            object: documents.object.root(),
            old_object: documents.old_object.root(),
            request: documents.request.root(),
            condition_request: documents.request.root(),
            namespace: Value::Null,
            params: Value::Null,
        };
        match conditions.validate(&inputs, &Attributes::default(), host, &Scratch::new()) {
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

    /// The webhooks of all ValidatingPolicies of a cluster. Those with different selectors cannot share one, and have a
    /// checksum of them in their names.
    pub fn of_validating_policies<'p>(policies: impl IntoIterator<Item = &'p ValidatingPolicy>) -> Vec<Self> {
        let mut all: Vec<(bool, Self)> = policies
            .into_iter()
            .map(|policy| (policy.namespaced, Self::of_validating_policy(policy)))
            .collect();
        for namespaced in [false, true] {
            let of_kind = |(is, _): &&(bool, Self)| *is == namespaced;
            let mut groups: Vec<String> = all
                .iter()
                .filter(of_kind)
                .filter_map(|(_, own)| own.group.clone())
                .collect();
            groups.sort();
            groups.dedup();
            if groups.len() > 1 {
                for (_, webhook) in all.iter_mut().filter(|(is, _)| *is == namespaced) {
                    let digits = webhook.group.as_deref().and_then(|group| group.get(..8));
                    webhook.name.extend(digits.map(|digits| format!("-{digits}")));
                }
            }
        }
        all.into_iter().map(|(_, webhook)| webhook).collect()
    }

    /// The webhook of a ValidatingPolicy that is alone: its resource rules, those of what is generated from it, and its object selector.
    pub fn of_validating_policy(policy: &ValidatingPolicy) -> Self {
        let generated = autogen::variants(policy);
        let constraints = policy.spec.match_constraints.as_ref();
        let variants = generated
            .iter()
            .filter_map(|variant| variant.policy.spec.match_constraints.as_ref());
        let rules = constraints
            .into_iter()
            .chain(variants)
            .flat_map(|block| &block.resource_rules);
        let fails = policy
            .spec
            .failure_policy
            .as_ref()
            .is_none_or(|policy| policy.value == FailurePolicy::Fail);
        let is_exact = constraints
            .and_then(|block| block.match_policy.as_ref())
            .is_some_and(|word| word.value == MatchPolicy::Exact);
        let valid = offloadable(&policy.spec.match_conditions);
        let own = (!valid.is_empty() || is_exact || policy.spec.timeout_seconds.is_some()).then(|| {
            let namespace = policy.metadata.namespace.as_ref().filter(|_| policy.namespaced);
            let namespace = namespace.map(|namespace| format!("{}-", namespace.value));
            format!("{}{}", namespace.unwrap_or_default(), policy.metadata.name.value)
        });
        let group = own.is_none().then(|| selectors(policy));
        let base = if policy.namespaced {
            "nvpol.validate.kyverno.svc"
        } else {
            "vpol.validate.kyverno.svc"
        };
        // The API server knows no namespace here, so conditions about it are left to Kyverno.
        let offered = valid
            .iter()
            .filter(|condition| !mentions_namespace(condition.expression.text()));
        Self {
            name: name(base, fails, own.as_deref()),
            conditions: compile(offered.clone()),
            asked: texts(offered),
            fails,
            group,
            is_exact,
            listed: rules.map(|rule| Listed::Rule(rule.rule.clone())).collect(),
            object_selector: constraints
                .and_then(|block| block.object_selector.as_ref())
                .map(|selector| selector.value.clone()),
        }
    }

    /// How Kyverno gets the requests of a cell, if it gets them.
    pub fn delivers<'p, 'd>(
        &'p self,
        cell: &Cell<'d>,
        discovery: &'d Discovery,
        facts: &mut impl Facts<'p>,
    ) -> Delivery<'d> {
        let delivery = if self.lists(cell) {
            Delivery::AsIs
        } else if self.is_exact {
            Delivery::None
        } else {
            let listed = |other: &&Arc<Resource>| {
                self.lists(&Cell {
                    resource: other,
                    ..*cell
                })
            };
            let mut others = discovery.equivalents(cell.resource);
            others.find(listed).map_or(Delivery::None, Delivery::As)
        };
        // Nobody needs to ask the selector about what no rule lists.
        if delivery == Delivery::None || !self.selects_object(cell, facts) {
            return Delivery::None;
        }
        delivery
    }

    fn lists(&self, cell: &Cell<'_>) -> bool {
        self.listed.iter().any(|listed| match listed {
            Listed::Kind { selector, operations } => {
                let operation = cell.operation.as_str();
                (operations.is_empty() || operations.iter().any(|listed| listed == operation))
                    && lists_kind(selector, cell.resource)
            }
            Listed::Rule(rule) => rule.matches(cell),
        })
    }

    /// The API server asks the labels of the objects that there are; what a connection sends has none.
    fn selects_object<'p>(&'p self, cell: &Cell<'_>, facts: &mut impl Facts<'p>) -> bool {
        let Some(selector) = self.object_selector.as_ref().filter(|selector| !selector.is_empty()) else {
            return true;
        };
        if selector.error().is_some() {
            return true;
        }
        let mut matches = |pairs| selector.matches(Some(pairs), facts);
        match cell.operation {
            Operation::Create => matches(Pairs::NewLabels),
            Operation::Update => matches(Pairs::NewLabels) || matches(Pairs::OldLabels),
            Operation::Delete => matches(Pairs::OldLabels),
            Operation::Connect => false,
        }
    }
}

/// The name of a webhook; a policy with a webhook of its own is named in it.
fn name(base: &str, fails: bool, own: Option<&str>) -> String {
    let failure = if fails { "fail" } else { "ignore" };
    let own = own.map(|own| format!("-finegrained-{own}"));
    format!("{base}-{failure}{}", own.unwrap_or_default())
}

/// The checksum of the selectors of a policy's webhook (`pkg/controllers/webhook/validating.go` `selectorKey`).
fn selectors(policy: &ValidatingPolicy) -> String {
    let constraints = policy.spec.match_constraints.as_ref();
    let own = policy.metadata.namespace.as_ref().filter(|_| policy.namespaced);
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

fn compile<'p>(conditions: impl Iterator<Item = &'p MatchCondition>) -> Option<Validator> {
    let match_conditions: Vec<(&str, &str)> = conditions
        .map(|condition| (condition.name.value.as_str(), condition.expression.text()))
        .collect();
    (!match_conditions.is_empty()).then(|| {
        let parts = Parts {
            match_conditions,
            ..Parts::default()
        };
        Validator::compile(Profile::kubernetes(), DECLARATIONS, &parts)
    })
}

fn texts<'p>(conditions: impl Iterator<Item = &'p MatchCondition>) -> Vec<String> {
    conditions
        .map(|condition| condition.expression.text().trim().to_owned())
        .collect()
}

/// The conditions, if the API server can evaluate them all: it does not know Kyverno's functions. One that it cannot
/// evaluate keeps all of them with Kyverno.
fn offloadable(conditions: &[MatchCondition]) -> &[MatchCondition] {
    let environment = Environment::new(Profile::kubernetes(), DECLARATIONS, []);
    let is_valid = |condition: &MatchCondition| {
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
