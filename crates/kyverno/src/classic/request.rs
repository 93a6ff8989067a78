//! The request as variables of classic rules see it.
//!
//! Upstream counterpart: `NewPolicyContext` and `NewPolicyContextFromAdmissionRequest` in
//! `pkg/engine/policycontext/policy_context.go`: the command line has little data about a request, a cluster has all of
//! it.

use super::context::{Context, NoOutside};
use crate::input::Input;
use kyvtest_go_compat::value::Data;
use kyvtest_model::kube::{Request, UserInfo};

/// The document that a context starts with.
pub(crate) fn request_context(input: &Input<'_>) -> Data {
    let request = input.request;
    let mut context = Context::new(&NoOutside);
    let (new, old) = input.resources();
    if input.lens.request_resource {
        let whole = input.request_data().with_doubles();
        context.add_map(&[("request".into(), whole)].into_iter().collect());
    } else {
        if !new.is_null() {
            context.add_resource(new.clone());
        }
        if !old.is_null() {
            context.add_old_resource(old.clone());
        }
        let namespace = new.at(&["metadata", "namespace"]).and_then(Data::as_str);
        context.add_namespace(namespace.unwrap_or_default());
    }
    let known = !request.user.is_absent() || request.roles.is_some() || request.cluster_roles.is_some();
    if known || input.lens.request_resource {
        context.add_user_info(user_info(request));
        context.add_service_account(&request.user.username);
    }
    context.add_operation(request.operation.as_str());
    context.data().clone()
}

/// Roles and user as Go encodes them: an empty list of roles is omitted.
fn user_info(request: &Request) -> Data {
    let roles = [("roles", &request.roles), ("clusterRoles", &request.cluster_roles)];
    let roles = roles.into_iter().filter_map(|(key, list)| {
        let list = list.as_ref().filter(|list| !list.is_empty())?;
        Some((key.into(), list.iter().map(|text| Data::from(text.as_str())).collect()))
    });
    let user = ("userInfo".into(), user(&request.user));
    roles.chain([user]).collect()
}

fn user(user: &UserInfo) -> Data {
    let texts = |list: &[String]| -> Data { list.iter().map(|text| Data::from(text.as_str())).collect() };
    let mut entries = Vec::new();
    for (key, text) in [("username", &user.username), ("uid", &user.uid)] {
        if !text.is_empty() {
            entries.push((key.into(), Data::from(text.as_str())));
        }
    }
    if !user.groups().is_empty() {
        entries.push(("groups".into(), texts(user.groups())));
    }
    if let Some(extra) = user.extra.as_ref().filter(|extra| !extra.is_empty()) {
        let extra = extra.iter().map(|(key, values)| (key.as_str().into(), texts(values)));
        entries.push(("extra".into(), extra.collect()));
    }
    entries.into_iter().collect()
}
