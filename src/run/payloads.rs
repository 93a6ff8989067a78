//! JSON payloads in `kyverno test`, for policies that are not written for them.
//!
//! Upstream counterpart: the loop over `jsonPayloads` in `runTest` of `cmd/cli/kubectl-kyverno/commands/test/test.go`.
//! A classic policy sees an empty object, so that its rules do not match.

use std::sync::Arc;

use super::{
    engines::Engines,
    offline,
    response::{Key, Response, Responses},
};
use kyvtest_cel::host::Host;
use kyvtest_go_compat::diagnostic::{Code, Diagnostic};
use kyvtest_kyverno::lowered::Lowered;
use kyvtest_model::policy::PolicyId;

/// Evaluates the policies that do not validate payloads on each of them. An error that ends `kyverno test` ends the
/// run.
pub(super) fn evaluate_beside(engines: &Engines<'_>, host: &dyn Host, responses: &mut Responses) {
    for payload in &engines.suite.json_payloads {
        let key = Key::named(&payload.path.value);
        if engines.settings.compat {
            let silent = engines
                .controller
                .policies()
                .iter()
                .filter(|policy| answers_payloads(policy));
            let silent = silent.map(|policy| Response {
                has_rules: true,
                ..Response::new(key.clone(), policy.id().clone().into())
            });
            responses.list.extend(silent);
        }
        let Some(offline) = &engines.offline else { continue };
        let made = match offline.payload_pass(&key.name, &payload.document, host) {
            Ok(made) => made,
            Err(error) => {
                let diagnostic = Diagnostic::at(Code::UpstreamCrash, payload.path.span, error);
                responses.diagnostics.push(diagnostic);
                responses.aborts = true;
                return;
            }
        };
        for mut made in made {
            if !engines.settings.compat {
                made.mark_undecided(&mut Vec::new());
            }
            let objects = offline::objects(&mut made, &payload.document);
            let id = PolicyId {
                group: "policies.kyverno.io",
                kind: made.kind,
                namespace: made.policy_namespace,
                name: made.policy,
            };
            responses.list.push(Response {
                rules: made.rules.into_iter().map(|rule| rule.response).collect(),
                objects: Some(Arc::new(objects)),
                ..Response::new(key.clone(), id.into())
            });
        }
    }
}

/// Whether a classic policy has a response to a payload, which never has rules; one that only generates has none.
fn answers_payloads(policy: &Lowered) -> bool {
    policy.as_classic().is_some_and(|policy| {
        let mut rules = policy.policy().spec.rules.iter();
        rules.any(|rule| rule.validate.is_some() || rule.mutate.is_some() || rule.verify_images.is_some())
    })
}
