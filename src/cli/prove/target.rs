//! The target of `prove --to`.

use std::path::PathBuf;

use super::super::{Failure, output::Output};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Severity, Sources};
use kyvtest_model::{
    kube::Discovery,
    policy::{Loaded, Policy},
};

/// Reports the problems of the target: it must have native policies of the kinds that the policies call for, and each should have a
/// binding.
pub(super) fn check(
    to: &[PathBuf],
    (from, native): (&Loaded, &Loaded),
    discovery: &Discovery,
    sources: &Sources,
    output: &mut Output,
) -> Result<(), Failure> {
    let mutates = from.mutating().next().is_some();
    let validates = from.policies.iter().any(Policy::validates) || !mutates;
    let validating = native.bindings.first().map(|binding| &binding.policy_name.value);
    let mutating = native
        .mutating_bindings
        .first()
        .map(|binding| &binding.policy_name.value);
    for (kind, is_missing, bound) in [
        (
            "ValidatingAdmissionPolicy",
            validates && native.native().next().is_none(),
            validating,
        ),
        (
            "MutatingAdmissionPolicy",
            mutates && native.native_mutating().next().is_none(),
            mutating,
        ),
    ] {
        if !is_missing {
            continue;
        }
        let paths: Vec<String> = to.iter().map(|path| format!("`{}`", path.display())).collect();
        let message = format!("no {kind} in {}", paths.join(", "));
        let diagnostic = Diagnostic::new(Code::NothingToConvert, message);
        return Err(match bound {
            Some(policy) => diagnostic
                .with_note(format!("only a binding for policy `{policy}` was given"))
                .into(),
            None => diagnostic.into(),
        });
    }
    let policies: Vec<_> = native.native().map(|policy| &**policy).collect();
    let bindings: Vec<_> = native.bindings.iter().map(|binding| &**binding).collect();
    let mutating: Vec<_> = native.native_mutating().map(|policy| &**policy).collect();
    let mutating_bindings: Vec<_> = native.mutating_bindings.iter().map(|binding| &**binding).collect();
    let found = kyvtest_apiserver::check(&policies, &bindings, discovery);
    let more = kyvtest_apiserver::check(&mutating, &mutating_bindings, discovery);
    for found in found.into_iter().chain(more) {
        if matches!(found.code, Code::UnboundPolicy | Code::DanglingBinding) {
            output.diagnostic(&found.with_severity(Severity::Warning), sources);
        }
    }
    Ok(())
}
