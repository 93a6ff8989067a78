//! The resources that webhooks and native policies see.
//!
//! Upstream counterpart (Kubernetes 1.36.4): `IsExemptAdmissionConfigurationResource` of
//! `k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules`, which checks the kind; `admissionResources` of
//! `plugin/policy/generic/plugin.go` and `pkg/kubeapiserver/admission/exclusion`, which check group and resource,
//! regardless of the subresource.
//!
//! | resources | webhooks | native policies |
//! |---|---|---|
//! | webhook configurations | no | yes |
//! | admission policies and their bindings | no | no |
//! | review kinds | yes | no |
//! | everything else | yes | yes |

use super::{Resource, discovery::REVIEWS};

const REGISTRATION: &str = "admissionregistration.k8s.io";

/// Kinds of `admissionregistration.k8s.io` for which webhooks are not called.
const WEBHOOK_CONFIGURATIONS: [&str; 2] = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];

/// Kinds and resources of `admissionregistration.k8s.io` that neither webhooks nor native policies see.
const POLICIES: [(&str, &str); 4] = [
    ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    ("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
    ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
];

impl Resource {
    /// Whether the API server calls webhooks for requests about the resource.
    pub fn reaches_webhooks(&self) -> bool {
        let kind = &self.object_kind;
        let is_policy = || POLICIES.iter().any(|(name, _)| *name == kind.kind);
        kind.group != REGISTRATION || !(WEBHOOK_CONFIGURATIONS.contains(&kind.kind.as_str()) || is_policy())
    }

    /// Whether the API server evaluates native policies for requests about the resource.
    pub fn reaches_native_policies(&self) -> bool {
        let is_policy = || POLICIES.iter().any(|(_, plural)| *plural == self.plural);
        !(self.group == REGISTRATION && is_policy() || REVIEWS.contains(&(self.group.as_str(), self.plural.as_str())))
    }
}
