//! Compiled policies and bindings.

use super::select::{Selector, Step};
use kyvtest_cel::{
    admission::{Declarations, Parts, ValidationText, Validator},
    observe::Place,
    profile::Profile,
    program::Program,
};
use kyvtest_model::{
    kube::{self, Facts},
    policy::{
        self, AdmissionPolicyBinding, LabelSelector, MatchConstraints, MutatingAdmissionPolicyBinding, ParamKind, Text,
        ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidationAction,
    },
    verdict::Effect,
};

/// A policy, compiled.
#[derive(Debug)]
pub struct CompiledNativePolicy {
    pub(super) name: String,
    pub(super) constraints: Option<MatchConstraints>,
    pub(super) validator: Validator,
    pub(super) param_kind: Option<ParamKind>,
    pub(super) failure_policy: Failure,
    /// The reason of each validation, as written.
    pub(super) reasons: Vec<Option<String>>,
}

/// What an error means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    Fail,
    Ignore,
    /// A word that the API does not have.
    Unknown(String),
}

impl Failure {
    pub(super) fn named(word: Option<&Text>) -> Self {
        match word.map(|word| word.value.as_str()) {
            None | Some("Fail") => Self::Fail,
            Some("Ignore") => Self::Ignore,
            Some(word) => Self::Unknown(word.to_owned()),
        }
    }
}

impl CompiledNativePolicy {
    /// Compiles a policy as the API server of Kubernetes 1.36 runs it. What cannot be compiled is an error of each request;
    /// whether the server would take the policy at all is the matter of static validation.
    pub fn compile(policy: &ValidatingAdmissionPolicy) -> Self {
        Self::with_profile(policy, Profile::kubernetes(), true)
    }

    /// The same for another release of Kubernetes.
    pub fn for_profile(policy: &ValidatingAdmissionPolicy, profile: &'static Profile) -> Self {
        Self::with_profile(policy, profile, true)
    }

    /// Compiles a policy for another environment.
    pub(super) fn with_profile(
        policy: &ValidatingAdmissionPolicy,
        profile: &'static Profile,
        authorizer: bool,
    ) -> Self {
        let declarations = Declarations {
            params: policy.param_kind.is_some(),
            authorizer,
            variables: true,
        };
        let reason = |reason: &Option<Text>| reason.as_ref().map(|reason| reason.value.clone());
        Self {
            name: policy.metadata.name.value.clone(),
            constraints: policy.match_constraints.clone(),
            validator: Validator::compile(profile, declarations, &parts(policy)),
            param_kind: policy.param_kind.clone(),
            failure_policy: Failure::named(policy.failure_policy.as_ref()),
            reasons: policy
                .rules
                .validations
                .iter()
                .map(|validation| reason(&validation.reason))
                .collect(),
        }
    }

    /// The policy's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is done with the policy on the requests of a class; `bindings` are its own.
    pub fn select<'p, 'd>(
        &'p self,
        bindings: impl IntoIterator<Item = &'p Binding>,
        selector: &Selector<'d>,
        facts: &mut impl Facts<'p>,
    ) -> Vec<Step<'p, 'd>> {
        selector.steps(self.constraints.as_ref(), self.param_kind.as_ref(), bindings, facts)
    }

    /// Whether errors are ignored.
    pub fn ignores_errors(&self) -> bool {
        self.failure_policy == Failure::Ignore
    }

    /// The effect if the policy or one of its bindings cannot be used: a denial regardless of the binding's actions,
    /// unless errors are ignored.
    pub fn misconfiguration_effect(&self) -> Effect {
        if self.ignores_errors() {
            Effect::Admit
        } else {
            Effect::Deny
        }
    }

    /// The programs of the policy, for observers.
    pub fn programs(&self) -> Vec<(Place, &Program)> {
        self.validator.programs()
    }

    /// The policy's match block, if it has one.
    pub fn constraints(&self) -> Option<&MatchConstraints> {
        self.constraints.as_ref()
    }
}

fn parts(policy: &ValidatingAdmissionPolicy) -> Parts<'_> {
    Parts {
        match_conditions: policy
            .match_conditions
            .iter()
            .map(|condition| (condition.name.value.as_str(), condition.expression.text()))
            .collect(),
        variables: policy
            .variables
            .iter()
            .map(|variable| (variable.name.value.as_str(), variable.expression.text()))
            .collect(),
        validations: policy
            .rules
            .validations
            .iter()
            .map(|validation| ValidationText {
                expression: validation.expression.text(),
                message: validation.message.as_ref().map_or("", |message| message.value.as_str()),
                message_expression: validation.message_expression.as_ref().map_or("", |text| text.text()),
            })
            .collect(),
        audit_annotations: policy
            .rules
            .audit_annotations
            .iter()
            .map(|annotation| (annotation.key.value.as_str(), annotation.value_expression.text()))
            .collect(),
    }
}

/// A compiled binding.
#[derive(Debug)]
pub struct Binding {
    pub(super) name: String,
    pub(super) policy: String,
    pub(super) match_resources: Option<MatchConstraints>,
    pub(super) params: Option<ParamRef>,
    pub(super) actions: Vec<ValidationAction>,
}

/// Which parameters a binding wants.
#[derive(Debug, Clone, Default)]
pub(super) struct ParamRef {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) selector: Option<kube::LabelSelector>,
    pub(super) deny_if_missing: bool,
}

impl ParamRef {
    fn new(reference: &policy::ParamRef) -> Self {
        let text = |text: &Option<Text>| text.as_ref().map(|text| text.value.clone()).unwrap_or_default();
        Self {
            name: text(&reference.name),
            namespace: text(&reference.namespace),
            selector: reference.selector.clone().map(LabelSelector::compile),
            deny_if_missing: text(&reference.parameter_not_found_action) == "Deny",
        }
    }
}

impl Binding {
    /// Prepares the binding of a validating policy. Actions that the API does not have are left out.
    pub fn new(binding: &ValidatingAdmissionPolicyBinding) -> Self {
        let actions = binding.validation_actions.iter();
        let actions = actions.filter_map(|action| ValidationAction::from_text(&action.value));
        Self::with_actions(binding, actions.collect())
    }

    /// Prepares the binding of a mutating policy, which has no actions.
    pub fn mutating(binding: &MutatingAdmissionPolicyBinding) -> Self {
        Self::with_actions(binding, Vec::new())
    }

    fn with_actions<A>(binding: &AdmissionPolicyBinding<A>, actions: Vec<ValidationAction>) -> Self {
        Self {
            name: binding.metadata.name.value.clone(),
            policy: binding.policy_name.value.clone(),
            match_resources: binding.match_resources.clone(),
            params: binding.param_ref.as_ref().map(ParamRef::new),
            actions,
        }
    }

    /// The binding's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a violation does: the strongest of the actions.
    pub fn effect(&self) -> Effect {
        let effects = self.actions.iter().map(|action| match action {
            ValidationAction::Deny => Effect::Deny,
            ValidationAction::Audit => Effect::Audit,
            ValidationAction::Warn => Effect::Warn,
        });
        effects.max().unwrap_or(Effect::Admit)
    }

    /// The policy that it binds.
    pub fn policy(&self) -> &str {
        &self.policy
    }
}
