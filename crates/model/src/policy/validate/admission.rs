//! The API server's validation of new ValidatingAdmissionPolicies, MutatingAdmissionPolicies and their bindings.
//!
//! Upstream counterpart: `pkg/apis/admissionregistration/validation` of kubernetes/kubernetes (1.36), after the
//! defaults of `pkg/apis/admissionregistration/v1`. Objects are read as written, not as models: an absent field and an
//! empty one differ.
//!
//! Known deviations: the author's permission to read the parameters is not checked; `matchLabels` are checked in source
//! order; `ownerReferences` and `managedFields` are not checked.

mod diagnose;
mod expressions;
mod field;
mod mutations;
mod rules;
mod shape;

pub use diagnose::admission_diagnostics;
pub use field::FieldError;

use std::collections::BTreeSet;

use self::{expressions::Compiler, field::Errors};
use kyvtest_go_compat::{
    text::label::{Wording, dns1035_problems, key_problems, subdomain_problems},
    value::Value,
};

/// Names with this suffix are reserved for policies in files of the server.
const STATIC_SUFFIX: &str = ".static.k8s.io";

/// The maximum total size of an object's annotations, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The API server's findings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdmissionChecked {
    /// In the server's order.
    pub errors: Vec<FieldError>,
    /// The HTTP status: 422, 400 if a field has the wrong type, 404 if the version is not served; 0 if the object is
    /// valid.
    pub code: u16,
    /// The complete error message; empty if the object is valid.
    pub message: String,
    /// Warnings to the author.
    pub warnings: Vec<String>,
}

/// The kinds to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Validating,
    ValidatingBinding,
    Mutating,
    MutatingBinding,
}

impl Kind {
    fn named(name: &str) -> Option<Self> {
        match name {
            "ValidatingAdmissionPolicy" => Some(Self::Validating),
            "ValidatingAdmissionPolicyBinding" => Some(Self::ValidatingBinding),
            "MutatingAdmissionPolicy" => Some(Self::Mutating),
            "MutatingAdmissionPolicyBinding" => Some(Self::MutatingBinding),
            _ => None,
        }
    }

    fn is_mutating(self) -> bool {
        matches!(self, Self::Mutating | Self::MutatingBinding)
    }
}

/// Checks a native policy or a binding as written. An object of another kind has no findings.
pub fn validate_admission(object: Value<'_>) -> AdmissionChecked {
    let kind = text(object, "kind");
    let Some(of) = Kind::named(kind) else {
        return AdmissionChecked::default();
    };
    if of.is_mutating() && text(object, "apiVersion") != "admissionregistration.k8s.io/v1" {
        return not_served();
    }
    if let Some(error) = shape::mismatch(object, of) {
        return AdmissionChecked {
            code: 400,
            message: format!("{kind} in version \"v1\" cannot be handled as a {kind}: {}", error.text),
            errors: vec![error],
            warnings: Vec::new(),
        };
    }
    let metadata = object.get("metadata").unwrap_or(Value::Null);
    let mut errors = Errors::default();
    check_metadata(metadata, &mut errors);
    let spec = object.get("spec").unwrap_or(Value::Null);
    match of {
        Kind::Validating => check_policy(metadata, spec, &mut errors),
        Kind::ValidatingBinding => {
            check_binding(spec, &mut errors);
            check_actions(&texts(spec, "validationActions"), &mut errors);
        }
        Kind::Mutating => mutations::check_policy(spec, &mut errors),
        Kind::MutatingBinding => mutations::check_binding(spec, &mut errors),
    }
    let name = text(metadata, "name");
    let mut warnings = shape::unknown_fields(object, of);
    if name.ends_with(STATIC_SUFFIX) {
        warnings.push(format!(
            "metadata.name: names ending with \"{STATIC_SUFFIX}\" are reserved for static manifest-based configurations \
             and cannot be managed via the API"
        ));
    }
    let (errors, list) = errors.finish();
    if errors.is_empty() {
        return AdmissionChecked {
            warnings,
            ..AdmissionChecked::default()
        };
    }
    AdmissionChecked {
        code: 422,
        message: format!("{kind}.admissionregistration.k8s.io \"{name}\" is invalid: {list}"),
        errors,
        warnings,
    }
}

/// Releases that served other versions are older than the modelled one.
fn not_served() -> AdmissionChecked {
    let message = "the server could not find the requested resource";
    AdmissionChecked {
        code: 404,
        message: message.to_owned(),
        errors: vec![FieldError {
            field: "apiVersion".to_owned(),
            detail: message.to_owned(),
            text: message.to_owned(),
        }],
        warnings: Vec::new(),
    }
}

/// A string; empty if absent.
fn text<'v>(value: Value<'v>, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A value that is present and not null.
fn present<'v>(value: Value<'v>, key: &str) -> Option<Value<'v>> {
    value.get(key).filter(|value| !value.is_null())
}

/// The items of a list.
fn items<'v>(value: Value<'v>, key: &str) -> Vec<Value<'v>> {
    let list = value.get(key).and_then(Value::as_list);
    list.iter().flat_map(|list| list.iter()).collect()
}

/// The strings of a list; null is an empty one.
fn texts<'v>(value: Value<'v>, key: &str) -> Vec<&'v str> {
    let items = items(value, key);
    items
        .into_iter()
        .map(|item| item.as_str().unwrap_or_default())
        .collect()
}

fn check_metadata(metadata: Value<'_>, errors: &mut Errors) {
    let mut problems = Vec::new();
    let generate_name = text(metadata, "generateName");
    if !generate_name.is_empty() {
        // More text follows the prefix, so it may end in a dash.
        let masked = match generate_name.strip_suffix('-').filter(|rest| !rest.is_empty()) {
            Some(rest) => {
                let mut rest = rest.chars();
                rest.next_back();
                format!("{}a", rest.as_str())
            }
            None => generate_name.to_owned(),
        };
        subdomain_problems(&masked, "characters", &mut problems);
        errors.all_invalid("metadata.generateName", generate_name, &mut problems);
    }
    let name = text(metadata, "name");
    if name.is_empty() && generate_name.is_empty() {
        errors.required("metadata.name", "name or generateName is required");
    } else if !name.is_empty() {
        subdomain_problems(name, "characters", &mut problems);
        errors.all_invalid("metadata.name", name, &mut problems);
    }
    if let Some(labels) = metadata.get("labels").and_then(Value::as_map) {
        rules::check_labels(labels, "metadata.labels", errors);
    }
    let annotations = metadata.get("annotations").and_then(Value::as_map);
    let mut size = 0;
    for (key, value) in annotations.iter().flat_map(|annotations| annotations.iter()) {
        key_problems(&key.text().to_lowercase(), Wording::LabelKey, &mut problems);
        errors.all_invalid("metadata.annotations", key.text(), &mut problems);
        size += key.text().len() + value.as_str().map_or(0, str::len);
    }
    if size > MAX_ANNOTATIONS {
        errors.push(
            "metadata.annotations",
            format!("Too long: may not be more than {MAX_ANNOTATIONS} bytes"),
            "",
        );
    }
    for finalizer in texts(metadata, "finalizers") {
        key_problems(finalizer, Wording::LabelKey, &mut problems);
        errors.all_invalid("metadata.finalizers", finalizer, &mut problems);
    }
}

/// Checks what policies of both kinds have before their conditions. Returns the match constraints, and whether there are
/// parameters.
fn check_head<'v>(spec: Value<'v>, errors: &mut Errors) -> (Option<Value<'v>>, bool) {
    if let Some(policy) = present(spec, "failurePolicy").and_then(Value::as_str) {
        errors.supported("spec.failurePolicy", policy, &["Fail", "Ignore"]);
    }
    let param_kind = present(spec, "paramKind");
    if let Some(kind) = param_kind {
        check_param_kind(kind, errors);
    }
    let constraints = present(spec, "matchConstraints");
    match constraints {
        None => errors.required("spec.matchConstraints", ""),
        Some(block) => {
            rules::check_block(block, "spec.matchConstraints", errors);
            if items(block, "resourceRules").is_empty() {
                errors.required("spec.matchConstraints.resourceRules", "");
            }
        }
    }
    (constraints, param_kind.is_some())
}

fn check_policy(metadata: Value<'_>, spec: Value<'_>, errors: &mut Errors) {
    let (_, has_params) = check_head(spec, errors);
    let mut compiler = Compiler::new(spec, has_params);
    compiler.check_conditions(errors);
    compiler.check_variables(errors);
    let (validations, annotations) = (items(spec, "validations"), items(spec, "auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        for field in ["spec.validations", "spec.auditAnnotations"] {
            errors.required(field, "validations or auditAnnotations must contain at least one item");
        }
        return;
    }
    compiler.check_validations(&validations, errors);
    // A generated name exists before the object is checked; its suffix is always valid.
    let name = match text(metadata, "name") {
        "" => format!("{}00000", text(metadata, "generateName")),
        name => name.to_owned(),
    };
    compiler.check_annotations(&name, &annotations, errors);
}

fn check_param_kind(kind: Value<'_>, errors: &mut Errors) {
    let field = "spec.paramKind.apiVersion";
    let mut problems = Vec::new();
    let api_version = text(kind, "apiVersion");
    match api_version.split('/').collect::<Vec<_>>()[..] {
        [""] => errors.required(field, ""),
        [_, _, _, ..] => errors.invalid(
            field,
            api_version,
            &format!("unexpected GroupVersion string: {api_version}"),
        ),
        [ref group @ .., version] => {
            if let Some(group) = group.first().filter(|group| !group.is_empty()) {
                subdomain_problems(group, "characters", &mut problems);
                errors.joined_invalid(field, group, "", &mut problems);
            }
            if version.is_empty() {
                errors.invalid(field, api_version, "version must be specified");
            } else {
                dns1035_problems(version, &mut problems);
                errors.joined_invalid(field, version, "", &mut problems);
            }
        }
        [] => {}
    }
    let field = "spec.paramKind.kind";
    let word = text(kind, "kind");
    if word.is_empty() {
        errors.required(field, "");
    } else {
        dns1035_problems(&word.to_lowercase(), &mut problems);
        let before = "may have mixed case, but should otherwise match: ";
        errors.joined_invalid(field, word, before, &mut problems);
    }
}

fn check_binding(spec: Value<'_>, errors: &mut Errors) {
    let policy = text(spec, "policyName");
    if policy.is_empty() {
        errors.required("spec.policyName", "");
    } else {
        let mut problems = Vec::new();
        subdomain_problems(policy, "characters", &mut problems);
        errors.all_invalid("spec.policyName", policy, &mut problems);
    }
    if let Some(reference) = present(spec, "paramRef") {
        check_param_ref(reference, errors);
    }
    if let Some(block) = present(spec, "matchResources") {
        rules::check_block(block, "spec.matchResources", errors);
    }
}

fn check_param_ref(reference: Value<'_>, errors: &mut Errors) {
    const BOTH: &str = "name and selector are mutually exclusive";
    let name = text(reference, "name");
    let selector = present(reference, "selector");
    if !name.is_empty() {
        rules::check_path_segment(name, "spec.paramRef.name", errors);
        if selector.is_some() {
            errors.forbidden("spec.paramRef.name", BOTH);
        }
    }
    if let Some(selector) = selector {
        rules::check_selector(selector, "spec.paramRef.selector", errors);
        if !name.is_empty() {
            errors.forbidden("spec.paramRef.selector", BOTH);
        }
    }
    if name.is_empty() && selector.is_none() {
        errors.required("spec.paramRef", "one of name or selector must be specified");
    }
    let field = "spec.paramRef.parameterNotFoundAction";
    match text(reference, "parameterNotFoundAction") {
        "" => errors.required(field, ""),
        action => errors.supported(field, action, &["Deny", "Allow"]),
    }
}

fn check_actions(actions: &[&str], errors: &mut Errors) {
    let field = "spec.validationActions";
    let mut seen = BTreeSet::new();
    for (i, action) in actions.iter().enumerate() {
        let field = format!("{field}[{i}]");
        errors.supported(&field, action, &["Audit", "Deny", "Warn"]);
        if !seen.insert(*action) {
            errors.duplicate(&field, action);
        }
    }
    if actions.contains(&"Deny") && actions.contains(&"Warn") {
        errors.invalid_list(
            field,
            actions,
            "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
        );
    }
    if actions.is_empty() {
        errors.required(field, "at least one validation action is required");
    }
}
