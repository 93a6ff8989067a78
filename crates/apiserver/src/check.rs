//! What is wrong with a set of native policies and bindings before anything is decided.

use super::params;
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, nearest};
use kyvtest_model::{
    kube::Discovery,
    policy::{AdmissionPolicy, AdmissionPolicyBinding, admission_diagnostics},
};

/// Checks policies and bindings: objects that the API server rejects, policies without a binding, bindings without a
/// policy, parameter kinds that the cluster does not serve.
pub fn check<R, A>(
    policies: &[&AdmissionPolicy<R>],
    bindings: &[&AdmissionPolicyBinding<A>],
    discovery: &Discovery,
) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for policy in policies {
        diagnostics.extend(admission_diagnostics(&policy.source));
        let name = &policy.metadata.name;
        if !bindings.iter().any(|binding| binding.policy_name.value == name.value) {
            let message = format!("policy `{}` has no binding", name.value);
            let note = "the API server evaluates a policy only through a binding";
            diagnostics.push(Diagnostic::at(Code::UnboundPolicy, name.span, message).with_note(note));
        }
        if let Some(kind) = &policy.param_kind
            && let params::Served::Unknown(error) = params::served(Some(kind), discovery)
        {
            diagnostics.push(Diagnostic::at(Code::UnknownParamKind, kind.span, error));
        }
    }
    for binding in bindings {
        diagnostics.extend(admission_diagnostics(&binding.source));
        let wanted = &binding.policy_name;
        if policies.iter().any(|policy| policy.metadata.name.value == wanted.value) {
            continue;
        }
        let message = format!("policy `{}` not found", wanted.value);
        let mut diagnostic = Diagnostic::at(Code::DanglingBinding, wanted.span, message);
        let names = policies.iter().map(|policy| policy.metadata.name.value.as_str());
        if let Some(near) = nearest(&wanted.value, names).first() {
            diagnostic = diagnostic.with_help(format!("did you mean `{near}`?"));
        }
        diagnostics.push(diagnostic);
    }
    diagnostics
}
