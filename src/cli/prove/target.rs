//! The target of `prove --to`.

use std::path::PathBuf;

use super::super::{Failure, output::Output};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Severity, Sources};
use kyvtest_model::{kube::Discovery, policy::Loaded};

/// Reports the problems of the target: it must have native policies, and each should have a binding.
pub(super) fn check(
    to: &[PathBuf],
    native: &Loaded,
    discovery: &Discovery,
    sources: &Sources,
    output: &mut Output,
) -> Result<(), Failure> {
    if native.native().next().is_none() {
        let paths: Vec<String> = to.iter().map(|path| format!("`{}`", path.display())).collect();
        let message = format!("no ValidatingAdmissionPolicy in {}", paths.join(", "));
        let diagnostic = Diagnostic::new(Code::NothingToConvert, message);
        return Err(match native.bindings.first() {
            Some(binding) => {
                let note = format!("only a binding for policy `{}` was given", binding.policy_name.value);
                diagnostic.with_note(note).into()
            }
            None => diagnostic.into(),
        });
    }
    let policies: Vec<_> = native.native().map(|policy| &**policy).collect();
    let bindings: Vec<_> = native.bindings.iter().map(|binding| &**binding).collect();
    for found in kyvtest_apiserver::check(&policies, &bindings, discovery) {
        if matches!(found.code, Code::UnboundPolicy | Code::DanglingBinding) {
            output.diagnostic(&found.with_severity(Severity::Warning), sources);
        }
    }
    Ok(())
}
