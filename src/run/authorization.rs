//! Policies on HTTP and Envoy requests, and their payloads.

use super::{
    Settings,
    engines::Engines,
    evaluate::Stopwatch,
    response::{Key, Response, Responses},
};
use crate::suite::{Payload, Suite};
use kyvtest_cel::{
    host::{Host, HostResult, HttpRequest},
    library::authorization::Mode,
};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic},
    value::Value,
};
use kyvtest_kyverno::{authorization::AuthorizationPolicy, cel_policy::FieldError};
use kyvtest_model::policy;

/// Compiles the policies. A compile error ends the run; `kyverno test` compiles a policy only if there is a payload for
/// it.
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

/// The key of an HTTP or Envoy payload; in `kyverno test`, its path from the working directory.
pub(super) fn key(payload: &Payload, settings: &Settings) -> Key {
    Key::named(if settings.compat {
        &payload.full_path
    } else {
        &payload.path.value
    })
}

/// Evaluates the policies on the payloads of their mode.
pub(super) fn evaluate(engines: &Engines<'_>, host: &dyn Host, responses: &mut Responses) {
    let Engines { suite, settings, .. } = *engines;
    let unmocked = Unmocked {
        host,
        has_cluster: suite.cluster.is_some(),
    };
    let host: &dyn Host = if settings.compat { &unmocked } else { host };
    let watch = Stopwatch(settings.watch);
    let http = suite.http_payloads.iter().map(|payload| (Mode::Http, payload));
    let envoy = suite.envoy_payloads.iter().map(|payload| (Mode::Envoy, payload));
    for (mode, payload) in http.chain(envoy) {
        let Some(request) = &payload.request else { continue };
        for policy in engines.authorization.iter().filter(|policy| policy.mode() == mode) {
            let begin = watch.time();
            let rule = policy.evaluate(request, host);
            responses.list.push(Response {
                rules: vec![rule],
                elapsed: watch.since(begin),
                ..Response::new(key(payload, settings), policy.id().clone().into())
            });
        }
    }
}

/// The host of expressions in `kyverno test`: the cluster's objects, if the suite has some, and no mocks.
struct Unmocked<'h> {
    host: &'h dyn Host,
    has_cluster: bool,
}

impl Unmocked<'_> {
    fn cluster(&self, resource: &str, name: &str) -> Result<&dyn Host, String> {
        let missing = || format!("{resource} \"{name}\" not found");
        self.has_cluster.then_some(self.host).ok_or_else(missing)
    }
}

impl Host for Unmocked<'_> {
    fn resource_get(&self, api_version: &str, resource: &str, namespace: &str, name: &str) -> HostResult {
        let cluster = self.cluster(resource, name)?;
        cluster.resource_get(api_version, resource, namespace, name)
    }

    fn resource_list(
        &self,
        api_version: &str,
        resource: &str,
        namespace: &str,
        labels: &[(String, String)],
    ) -> HostResult {
        let cluster = self.cluster(resource, "")?;
        cluster.resource_list(api_version, resource, namespace, labels)
    }

    fn resource_post(&self, api_version: &str, resource: &str, namespace: &str, body: Value<'_>) -> HostResult {
        let cluster = self.cluster(resource, "")?;
        cluster.resource_post(api_version, resource, namespace, body)
    }

    fn http(&self, request: &HttpRequest<'_>) -> HostResult {
        let (method, url) = (request.method, request.url);
        Err(format!("request failed: {method} {url:?}: the network is not used").into())
    }

    fn ambient(&self) -> Option<&dyn Host> {
        Some(self.host)
    }
}
