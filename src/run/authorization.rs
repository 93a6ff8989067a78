//! Policies on HTTP and Envoy requests, and the payloads that they decide about.

use super::{
    Settings,
    engines::Engines,
    evaluate::Watch,
    lens::LensNote,
    response::{Key, Response, Responses},
};
use crate::suite::{Payload, Suite};
use kyvtest_cel::{host::Host, library::authorization::Mode};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic};
use kyvtest_kyverno::{authorization::AuthorizationPolicy, validating_policy::FieldError};
use kyvtest_model::{kube::Operation, policy};

/// Compiles the policies. Those that cannot be compiled end the run; `kyverno test` compiles none without a payload for it.
pub(super) fn compile(suite: &Suite, settings: &Settings, responses: &mut Responses) -> Vec<AuthorizationPolicy> {
    let mut compiled = Vec::new();
    for policy in suite.policies.validating() {
        match AuthorizationPolicy::compile(policy) {
            None => {}
            Some(Ok(policy)) => compiled.push(policy),
            Some(Err(error)) => {
                let is_http = policy.spec.evaluation.mode == policy::Mode::Http;
                let payloads = if is_http {
                    &suite.http_payloads
                } else {
                    &suite.envoy_payloads
                };
                if !settings.compat || !payloads.is_empty() {
                    refuse(&policy.metadata.name.value, &error, responses);
                }
            }
        }
    }
    compiled
}

fn refuse(name: &str, error: &FieldError, responses: &mut Responses) {
    let reason = format!("`{}`: {}", error.path, error.reason);
    let message = format!("policy `{name}` is rejected: {reason}");
    let diagnostic = Diagnostic::at(Code::PolicyRefused, error.place, message);
    responses.diagnostics.push(diagnostic);
    responses.refused.push((name.to_owned(), reason));
    responses.aborts = true;
}

/// The key of an HTTP or Envoy payload. `kyverno test` knows it by its path from the working folder.
pub(super) fn key(payload: &Payload, settings: &Settings) -> Key {
    Key {
        name: if settings.compat {
            payload.full_path.clone()
        } else {
            payload.path.value.clone()
        },
        ..Key::default()
    }
}

/// Evaluates the policies on the payloads of their mode.
pub(super) fn evaluate(engines: &Engines<'_>, host: &dyn Host, responses: &mut Responses) {
    let Engines { suite, settings, .. } = *engines;
    let watch = Watch(settings.watch);
    let http = suite.http_payloads.iter().map(|payload| (Mode::Http, payload));
    let envoy = suite.envoy_payloads.iter().map(|payload| (Mode::Envoy, payload));
    for (mode, payload) in http.chain(envoy) {
        let Some(request) = &payload.request else { continue };
        for policy in engines.authorization.iter().filter(|policy| policy.mode() == mode) {
            let begin = watch.time();
            let rule = policy.evaluate(request, host);
            responses.list.push(Response {
                run: None,
                asker: None,
                operation: Operation::Create,
                key: key(payload, settings),
                policy: policy.id().clone(),
                scored: true,
                has_rules: false,
                rules: vec![rule],
                counterpart: None,
                elapsed: watch.since(begin),
                trace: Vec::new(),
                lens: LensNote::default(),
                objects: None,
            });
        }
    }
}
