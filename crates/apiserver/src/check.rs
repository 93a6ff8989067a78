//! What is wrong with a set of native policies and bindings before anything is decided.

use super::params;
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, nearest};
use kyvtest_model::{
    kube::Discovery,
    policy::{
        MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ParamKind, Subtree, Text, ValidatingAdmissionPolicy,
        ValidatingAdmissionPolicyBinding, admission_diagnostics,
    },
};

/// Checks policies and bindings: objects that the API server rejects, policies without a binding, bindings without a
/// policy, parameter kinds that the cluster does not serve.
pub fn check(
    policies: &[&ValidatingAdmissionPolicy],
    bindings: &[&ValidatingAdmissionPolicyBinding],
    discovery: &Discovery,
) -> Vec<Diagnostic> {
    let policies = policies.iter().map(|policy| CheckedPolicy {
        name: &policy.metadata.name,
        param_kind: policy.param_kind.as_ref(),
        source: &policy.source,
    });
    let bindings = bindings.iter().map(|binding| (&binding.policy_name, &binding.source));
    check_all(&policies.collect::<Vec<_>>(), &bindings.collect::<Vec<_>>(), discovery)
}

/// The same for mutating policies.
pub fn check_mutating(
    policies: &[&MutatingAdmissionPolicy],
    bindings: &[&MutatingAdmissionPolicyBinding],
    discovery: &Discovery,
) -> Vec<Diagnostic> {
    let policies = policies.iter().map(|policy| CheckedPolicy {
        name: &policy.metadata.name,
        param_kind: policy.param_kind.as_ref(),
        source: &policy.source,
    });
    let bindings = bindings.iter().map(|binding| (&binding.policy_name, &binding.source));
    check_all(&policies.collect::<Vec<_>>(), &bindings.collect::<Vec<_>>(), discovery)
}

/// The parts of a policy that are checked.
struct CheckedPolicy<'p> {
    name: &'p Text,
    param_kind: Option<&'p ParamKind>,
    source: &'p Subtree,
}

fn check_all(policies: &[CheckedPolicy<'_>], bindings: &[(&Text, &Subtree)], discovery: &Discovery) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for policy in policies {
        diagnostics.extend(admission_diagnostics(policy.source));
        let name = policy.name;
        if !bindings.iter().any(|(wanted, _)| wanted.value == name.value) {
            let message = format!("policy `{}` has no binding", name.value);
            let note = "the API server evaluates a policy only through a binding";
            diagnostics.push(Diagnostic::at(Code::UnboundPolicy, name.span, message).with_note(note));
        }
        if let Some(kind) = policy.param_kind
            && let params::Served::Unknown(error) = params::served(Some(kind), discovery)
        {
            diagnostics.push(Diagnostic::at(Code::UnknownParamKind, kind.span, error));
        }
    }
    for (wanted, source) in bindings {
        diagnostics.extend(admission_diagnostics(source));
        if policies.iter().any(|policy| policy.name.value == wanted.value) {
            continue;
        }
        let message = format!("policy `{}` not found", wanted.value);
        let mut diagnostic = Diagnostic::at(Code::DanglingBinding, wanted.span, message);
        let names = policies.iter().map(|policy| policy.name.value.as_str());
        if let Some(near) = nearest(&wanted.value, names).first() {
            diagnostic = diagnostic.with_help(format!("did you mean `{near}`?"));
        }
        diagnostics.push(diagnostic);
    }
    diagnostics
}
