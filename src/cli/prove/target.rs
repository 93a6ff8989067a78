//! What `prove --to` compares with.

use std::path::PathBuf;

use super::super::{Failure, output::Output};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Severity, Sources};
use kyvtest_model::{kube::Discovery, policy::Loaded};

/// Reports what is wrong with the target: it must have native policies, each of which should have a binding.
pub(super) fn check(
    to: &[PathBuf],
    native: &Loaded,
    discovery: &Discovery,
    sources: &Sources,
    output: &mut Output,
) -> Result<(), Failure> {
    let others = native.policies.iter().map(|policy| ("ClusterPolicy", &policy.metadata));
    let validating = native.validating_policies.iter();
    let mut others = others.chain(validating.map(|policy| ("ValidatingPolicy", &policy.metadata)));
    if let Some((kind, metadata)) = others.next() {
        let message = format!("{kind} `{}` cannot be a target", metadata.name.value);
        let diagnostic = Diagnostic::at(Code::WrongKind, metadata.name.span, message)
            .with_note("`--to` accepts ValidatingAdmissionPolicies and their bindings")
            .with_help("`kyvtest diff --from A --to B` compares policies of any kind on given resources");
        return Err(Failure::Input(vec![diagnostic], sources.clone()));
    }
    if native.vaps.is_empty() {
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
    let policies: Vec<_> = native.vaps.iter().map(|policy| &**policy).collect();
    let bindings: Vec<_> = native.bindings.iter().map(|binding| &**binding).collect();
    for found in kyvtest_apiserver::check(&policies, &bindings, discovery) {
        if matches!(found.code, Code::UnboundPolicy | Code::DanglingBinding) {
            output.diagnostic(&found.with_severity(Severity::Warning), sources);
        }
    }
    Ok(())
}
