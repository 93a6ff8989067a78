//! The policy kinds as types, decoded once from located trees.
//!
//! Upstream counterpart: the API types of Kyverno 1.19 (`api/kyverno`, github.com/kyverno/api) and of
//! `k8s.io/api/admissionregistration/v1`, with the defaults and the strictness of their schemas. [`load`] determines
//! the kind of a document and reports its problems; everything that a diagnostic may have to point at keeps its span.
//!
//! Known deviations: fields below `manifests`, `mutate`, `generate` and `verifyImages` are kept as located parts and
//! not checked here; neither are `status` and the schemas of kinds that are only recognised.

mod admission;
pub mod autogen;
mod classic;
mod classic_actions;
mod classic_parts;
mod cleanup;
pub mod decode;
mod deleting;
mod exception;
mod from_value;
mod generating;
mod id;
mod image_validating;
mod kind_selector;
mod kinds;
mod load;
mod located;
mod match_constraints;
mod match_resources;
mod match_write;
mod mutating;
mod parts;
mod scoped;
mod selector;
mod validate;
mod validating;

pub use admission::{
    AdmissionPolicy, AdmissionPolicyBinding, AdmissionRules, BindingActions, MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding, MutatingRules, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingRules,
};
pub use classic::{
    ApplyRules, Cel, ClassicPolicy, FailureAction, FailureActionOverride, PolicyKind, Rule, Spec, Validate,
    WebhookConfiguration,
};
pub use cleanup::{CleanupPolicy, CleanupPolicySpec};
pub use deleting::{DeletingPolicy, DeletingPolicySpec, Propagation};
pub use exception::{CelPolicyException, ExceptedRules, PolicyException, PolicyRef, ReportResult};
pub use generating::{GeneratingPolicy, GeneratingPolicySpec, GenerationEntry, GenerationTemplate};
pub use id::PolicyId;
pub use image_validating::{
    Attestor, ImageConfiguration, ImageReference, ImageValidatingPolicy, ImageValidatingPolicySpec,
};
pub use kind_selector::{KindSelector, split_kind};
pub use kinds::Policy;
pub use kyvtest_pattern::{Anchor, AnchorKind};
pub use load::{Dropped, Loaded, Purpose, Refusal, Refused, load};
pub use located::place;
pub use located::{Expression, Origin, Spanned, Subtree, Text};
pub use match_constraints::{MatchConstraints, MatchPolicy, NamedRule, POD_CONTROLLERS};
pub use match_resources::{MatchResources, ResourceDescription, ResourceFilter, Subject, SubjectPattern, UserFilter};
pub use match_write::write_selector;
pub use mutating::{MutatingEvaluation, MutatingPolicy, MutatingPolicySpec, Mutation, TargetMatchConstraints};
pub use parts::{
    AuditAnnotation, FailurePolicy, LabelRequirement, LabelSelector, MatchCondition, Metadata, ParamKind, ParamRef,
    Validation, ValidationAction, Variable,
};
pub use scoped::{PolicySpec, ScopedPolicy};
pub use validate::{
    AdmissionChecked, Checked, FieldError, admission_diagnostics, undecodable, validate, validate_admission,
    validate_exception, validate_in_cluster,
};
pub use validating::{Autogen, Evaluation, Mode, ValidatingPolicy, ValidatingPolicySpec};
