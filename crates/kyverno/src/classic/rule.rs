//! A classic rule on one request: context, preconditions, exceptions, the check, and objects that violated it before.
//!
//! Upstream counterpart: `invokeRuleHandler` in `pkg/engine/engine.go`, `pkg/engine/handlers/validation/{validate_resource,
//! validate_pss,utils}.go`. Deviation: values of a suite that change the resource do not change what matches.

use std::sync::Arc;

pub(crate) use super::mutate_rule::{MutateRule, RuleMutator};

use super::{
    condition::Conditions,
    context::{Api, Context, Entry, Given, Outside, SuiteSources},
    observe::Parts,
    pod_security::{Exclusion, PodSecurity},
    validation::{Validation, conditions_of, entries_of},
    validator::{Unchecked, Validator, ValidatorResult, unmet},
    variables::substitute_preconditions,
};
use crate::{
    exception::{self, CompiledException},
    input::Input,
    manifests::Manifests,
    matching::{Selection, applies},
};
use kyvtest_cel::host::Host;
use kyvtest_go_compat::value::Data;
use kyvtest_model::{
    kube::{Concrete, Operation, Request, UserInfo},
    policy::{ClassicPolicy, FailureAction, Rule},
    verdict::Status,
};

/// What comes before the check of any rule that validates.
#[derive(Debug)]
pub(crate) struct Prelude {
    pub(crate) entries: Vec<Entry>,
    pub(crate) preconditions: Option<Conditions>,
}

impl Prelude {
    /// Loads the context and evaluates the preconditions. Returns a result if the rule ends there.
    pub(crate) fn unmet(&self, context: &mut Context<'_>) -> Option<ValidatorResult> {
        if let Err(error) = context.load_entries(&self.entries) {
            return Some((Status::Error, format!("failed to load context: {error}")));
        }
        unmet(self.preconditions.as_ref(), context)
    }

    /// Reads it from a rule.
    pub(crate) fn new(rule: &Rule) -> Self {
        Self {
            entries: entries_of(rule.context.as_ref()),
            preconditions: conditions_of(rule.preconditions.as_ref()),
        }
    }

    /// Reports the results of its parts.
    pub(crate) fn parts(&self, parts: &mut Parts<'_>) {
        parts.conditions("preconditions", self.preconditions.as_ref());
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.preconditions.is_none()
    }
}

/// A rule with patterns, conditions or loops, or with the Pod Security Standards.
#[derive(Debug)]
pub(crate) struct ClassicRule {
    name: String,
    message: String,
    check: Kind,
    /// Kyverno's `allowExistingViolations`: admit a violation that the old object has as well.
    allow_existing_violations: bool,
    has_preconditions: bool,
}

#[derive(Debug)]
enum Kind {
    Resource(Validation),
    PodSecurity(PodSecurity),
    Manifests(Box<Manifests>),
}

impl ClassicRule {
    /// Reads the check of a rule; `None` if it has no `validate`.
    pub(crate) fn new(policy: &ClassicPolicy, rule: &Rule) -> Option<Self> {
        let validate = rule.validate.as_ref()?;
        let check = match (&validate.manifests, &validate.pod_security) {
            (Some(manifests), _) => Kind::Manifests(Box::new(Manifests::read(&manifests.document()))),
            (None, Some(security)) => Kind::PodSecurity(PodSecurity::read(security.document().root())),
            (None, None) => Kind::Resource(Validation::of_rule(
                validate,
                conditions_of(rule.preconditions.as_ref()),
            )),
        };
        let own = validate.failure_action.as_ref().map(|action| action.value);
        let action = own.unwrap_or(policy.spec.validation_failure_action);
        Some(Self {
            name: rule.name.value.clone(),
            message: validate
                .message
                .as_ref()
                .map(|text| text.value.clone())
                .unwrap_or_default(),
            check,
            allow_existing_violations: action == FailureAction::Enforce
                && validate.allow_existing_violations != Some(false),
            has_preconditions: rule.preconditions.as_ref().is_some_and(|part| !part.node().is_null()),
        })
    }
}

impl ClassicRule {
    /// Whether an exception lifts the rule before its check. Exceptions may be for some Pod Security controls, and a deletion is
    /// not checked at all.
    pub(crate) fn is_lifted_as_a_whole(&self, operation: Operation) -> bool {
        match self.check {
            Kind::Resource(_) => true,
            Kind::Manifests(_) => operation != Operation::Delete,
            Kind::PodSecurity(_) => false,
        }
    }

    /// Reports the results of its parts, without preconditions, which are evaluated before it.
    pub(crate) fn parts(&self, parts: &mut Parts<'_>) {
        if let Kind::Resource(validation) = &self.check {
            parts.check("validate", &validation.check);
        }
    }
}

/// The result of a rule and the exceptions that exempt the resource from it.
#[derive(Debug)]
pub(crate) struct RuleResult {
    pub status: Status,
    pub message: String,
    pub exceptions: Vec<String>,
}

impl From<ValidatorResult> for RuleResult {
    fn from((status, message): ValidatorResult) -> Self {
        Self {
            status,
            message,
            exceptions: Vec::new(),
        }
    }
}

/// The rule that is evaluated, and its policy.
#[derive(Clone, Copy)]
pub(crate) struct RuleContext<'a> {
    /// The policy's key.
    pub policy: &'a str,
    /// The rule's name.
    pub rule: &'a str,
    /// What it is about.
    pub(crate) selection: Selection<'a>,
    pub exceptions: &'a [CompiledException],
}

/// Returns the sources for the context entries of a rule.
pub(crate) fn outside<'a>(
    input: &'a Input<'_>,
    policy: &str,
    rule: &str,
    namespace: &'a str,
    host: &'a dyn Host,
) -> Box<dyn Outside + 'a> {
    match input.values() {
        Some(values) => values.outside(policy, rule, namespace, host),
        // Without values from a suite, lookups use the cluster's own objects.
        None => Box::new(SuiteSources {
            host,
            values: Vec::new(),
            namespace,
            given: Given {
                cluster: true,
                api_calls: host.answers_calls(),
                global_context: true,
                images: true,
                api: Api::Server,
            },
        }),
    }
}

/// The context of a policy on a request, and the objects as values of a suite may have changed them: the new one and the
/// old one, null if absent.
pub(crate) fn start<'d>(input: &'d Input<'_>, policy: &str, outside: &'d dyn Outside) -> (Context<'d>, Data, Data) {
    let mut context = Context::starting_with(input, outside);
    context.add_operation(input.request.operation.as_str());
    let (mut new, mut old) = input.resources().clone();
    context.add_images(new.clone());
    let mut may_have_objects = false;
    for (key, value) in input
        .values()
        .map(|values| values.variables(policy))
        .unwrap_or_default()
    {
        // A key that cannot be read sets nothing.
        let _ = context.add_variable(&key, &value);
        may_have_objects |= key.contains("request") && key != "request.operation";
    }
    // Values may change the objects.
    if may_have_objects {
        let part = |name: &str| {
            let part = context.data().at(&["request", name]);
            part.filter(|part| part.as_map().is_some())
        };
        if !new.is_null() {
            new = part("object").cloned().unwrap_or(new);
        }
        if !old.is_null() {
            old = part("oldObject").cloned().unwrap_or(old);
        }
    }
    (context, new, old)
}

/// A rule at work.
pub(crate) struct Driver<'d> {
    input: &'d Input<'d>,
    rule_context: RuleContext<'d>,
    context: Context<'d>,
    /// The new and the old object; null if absent.
    new: Data,
    old: Data,
    operation: Operation,
}

impl<'d> Driver<'d> {
    /// Sets up the context of a request.
    pub(crate) fn new(input: &'d Input<'_>, rule_context: RuleContext<'d>, outside: &'d dyn Outside) -> Self {
        let (context, new, old) = start(input, rule_context.policy, outside);
        Self {
            input,
            rule_context,
            context,
            new,
            old,
            operation: input.request.operation,
        }
    }

    /// Loads the context and evaluates the preconditions. Returns a result if the rule ends there.
    pub(crate) fn prepare(&mut self, prelude: &Prelude) -> Option<RuleResult> {
        prelude.unmet(&mut self.context).map(RuleResult::from)
    }

    /// Those of the exceptions that match whose conditions hold.
    pub(crate) fn granted<'p>(&mut self, matching: &[&'p CompiledException]) -> Vec<&'p CompiledException> {
        granting(&mut self.context, matching)
    }

    /// Checks the rule; `None` if it produces no result. `lifted` are the exceptions that apply.
    pub(crate) fn check(&mut self, rule: &ClassicRule, lifted: &[&CompiledException]) -> Option<RuleResult> {
        match &rule.check {
            Kind::Resource(validation) => self.resource(rule, validation),
            Kind::Manifests(manifests) => {
                if self.operation == Operation::Delete {
                    return None;
                }
                Some(match manifests.verify(&self.new) {
                    Ok((true, message)) => (Status::Pass, message).into(),
                    Ok((false, message)) => (Status::Fail, message).into(),
                    Err(error) => {
                        let message = format!("error occurred during manifest verification: {error}");
                        (Status::Error, message).into()
                    }
                })
            }
            Kind::PodSecurity(security) => {
                if self.operation == Operation::Delete {
                    return None;
                }
                let result = self.pod_security(rule, security, lifted);
                if result.status == Status::Fail
                    && rule.allow_existing_violations
                    && self.is_update()
                    && self.before_pod_security(rule, security)
                {
                    return Some(existing_violation());
                }
                Some(result)
            }
        }
    }

    fn is_update(&self) -> bool {
        (!self.new.is_null() && !self.old.is_null()) || self.operation == Operation::Update
    }

    fn resource(&mut self, rule: &ClassicRule, validation: &Validation) -> Option<RuleResult> {
        let mut substituted = None;
        let now = match self.validate(rule, validation, &mut substituted) {
            Ok(now) => now,
            Err(Unchecked(result)) => return Some(result.into()),
        };
        if rule.allow_existing_violations && self.is_update() {
            if self.operation != Operation::Update {
                return Some((Status::Skip, "failed to validate old object".to_owned()).into());
            }
            let before = self.with_old(|driver| {
                driver
                    .matches_old(rule)
                    .then(|| driver.validate(rule, validation, &mut substituted).ok().flatten())
                    .flatten()
            });
            let fails = |result: &Option<ValidatorResult>| matches!(result, Some((Status::Fail, _)));
            if fails(&now) && fails(&before) {
                return Some(existing_violation());
            }
        }
        now.map(RuleResult::from)
    }

    fn validate(
        &mut self,
        rule: &ClassicRule,
        validation: &Validation,
        substituted: &mut Option<Data>,
    ) -> Result<Option<ValidatorResult>, Unchecked> {
        let mut validator = Validator {
            rule: &rule.name,
            message: &rule.message,
            context: &mut self.context,
            resource: &self.new,
            operation: self.operation,
            substituted,
            elements: 0,
        };
        validator.validate(validation, None, 0)
    }

    /// Looks at the object as it was, as if it were created now.
    fn with_old<T>(&mut self, look: impl FnOnce(&mut Self) -> T) -> T {
        let old = std::mem::take(&mut self.old);
        let new = std::mem::replace(&mut self.new, old);
        self.context.add_resource(self.new.clone());
        self.context.add_old_resource(Data::Map(Arc::default()));
        self.context.add_operation(Operation::Create.as_str());
        self.operation = Operation::Create;
        let seen = look(self);
        self.old = std::mem::replace(&mut self.new, new);
        self.operation = Operation::Update;
        self.context.add_resource(self.new.clone());
        self.context.add_old_resource(self.old.clone());
        self.context.add_operation(Operation::Update.as_str());
        seen
    }

    /// The request that would have created the old object, by a user without a name.
    fn creation(&self) -> Request {
        let request = self.input.request;
        let mut resource = Arc::clone(&request.resource);
        if !resource.subresource.is_empty() {
            let main = self
                .input
                .discovery
                .by_kind(&resource.group, &resource.version, &resource.kind);
            resource = main.cloned().unwrap_or(resource);
        }
        let mut creation = Request::about(Operation::Create, resource, request.old_object.clone());
        if self.input.lens.converts_objects {
            creation.namespace.clone_from(&request.namespace);
        }
        creation.user = UserInfo {
            username: "kyverno:kyverno-invalid-controller".to_owned(),
            uid: "kyverno:invaliduid".to_owned(),
            groups: Some(vec!["kyverno:invalidgroup".to_owned()]),
            extra: None,
        };
        let roles = Some(vec!["kyverno:invalidrole".to_owned()]);
        creation.roles.clone_from(&roles);
        creation.cluster_roles = roles;
        creation
    }

    /// Whether the rule would have matched the creation of the old object. One with preconditions never matches:
    /// upstream passes them in a form that its own evaluation does not recognise.
    fn matches_old(&self, rule: &ClassicRule) -> bool {
        if rule.has_preconditions {
            return false;
        }
        let creation = self.creation();
        let mut facts = Concrete::new(&creation, self.input.namespace());
        applies(self.rule_context.selection, &creation.cell(), &mut facts)
    }

    fn pod_security(
        &mut self,
        rule: &ClassicRule,
        security: &PodSecurity,
        lifted: &[&CompiledException],
    ) -> RuleResult {
        let whole = lifted.iter().find(|exception| exception.pod_security().is_empty());
        if let Some(exception) = whole {
            return RuleResult {
                status: Status::Skip,
                message: format!("rule is skipped due to policy exception {}", exception.key()),
                exceptions: vec![exception.key().to_owned()],
            };
        }
        let resource = if self.new.is_null() { &self.old } else { &self.new };
        let kind = resource.get("kind").and_then(Data::as_str).unwrap_or_default();
        let mut evaluation = match security.evaluate(kind, resource) {
            Ok(evaluation) => evaluation,
            Err(error) => return (Status::Error, error).into(),
        };
        if evaluation.violations.is_empty() {
            return (Status::Pass, format!("Validation rule '{}' passed.", rule.name)).into();
        }
        let exclusions: Vec<Exclusion> = lifted
            .iter()
            .flat_map(|exception| exception.pod_security())
            .cloned()
            .collect();
        evaluation.exclude(&exclusions);
        if evaluation.violations.is_empty() {
            let keys: Vec<String> = lifted.iter().map(|exception| exception.key().to_owned()).collect();
            return RuleResult {
                status: Status::Skip,
                message: format!("rule is skipped due to policy exceptions {}", keys.join(", ")),
                exceptions: keys,
            };
        }
        (Status::Fail, security.message(&rule.name, kind, &evaluation)).into()
    }

    /// Whether the old object violated the rule already.
    fn before_pod_security(&mut self, rule: &ClassicRule, security: &PodSecurity) -> bool {
        if self.operation != Operation::Update || !self.matches_old(rule) {
            return false;
        }
        let creation = self.creation();
        let namespace = self.input.namespace();
        let rule_context = self.rule_context;
        let result = self.with_old(|driver| {
            let mut facts = Concrete::new(&creation, namespace);
            let lifted = granted(&mut driver.context, &creation.cell(), &mut facts, rule_context);
            driver.pod_security(rule, security, &lifted)
        });
        result.status == Status::Fail
    }
}

/// The exceptions that lift a rule for the requests of a cell.
pub(crate) fn granted<'p>(
    context: &mut Context<'_>,
    cell: &kyvtest_model::kube::RequestClass<'_>,
    facts: &mut Concrete<'_>,
    rule_context: RuleContext<'p>,
) -> Vec<&'p CompiledException> {
    let matching = exception::matching(
        rule_context.exceptions,
        (rule_context.policy, rule_context.rule),
        cell,
        facts,
    );
    granting(context, &matching)
}

/// Those of the exceptions that match whose conditions hold.
fn granting<'p>(context: &mut Context<'_>, matching: &[&'p CompiledException]) -> Vec<&'p CompiledException> {
    let holds = |exception: &&&'p CompiledException| {
        let mut substitute = |data: &Data| substitute_preconditions(data, context).map_err(|error| error.to_string());
        // One whose conditions cannot be evaluated is left out.
        let lifts = |conditions: &Conditions| conditions.lift(&mut substitute) == Ok(true);
        exception.conditions().is_none_or(lifts)
    };
    matching.iter().filter(holds).copied().collect()
}

fn existing_violation() -> RuleResult {
    let message = "skipping the rule evaluation as pre-existing violations are allowed";
    (Status::Skip, message.to_owned()).into()
}

/// The result of a rule from which exceptions exempt the resource.
pub(crate) fn lifted_by(exceptions: &[&CompiledException]) -> RuleResult {
    let keys: Vec<String> = exceptions.iter().map(|exception| exception.key().to_owned()).collect();
    RuleResult {
        status: Status::Skip,
        // Upstream puts nothing between the two.
        message: format!("rule is skipped due to policy exceptions{}", keys.join(", ")),
        exceptions: keys,
    }
}
