//! The webhooks that Kyverno registers with the API server.
//!
//! Upstream counterpart: `buildResourceValidatingWebhookConfiguration` of `pkg/controllers/webhook/controller.go` (1.19).
//!
//! Known deviations: what an installation decides is left out (certificate, labels, owner, the selectors and conditions of
//! Kyverno's configuration), and flags have their defaults.

use super::{classic, validating};
use kyvtest_go_compat::value::{Builder, Document};
use kyvtest_model::{
    kube::{Discovery, LabelSelector},
    policy::{Policy, ValidatingPolicy, write_selector},
};

/// One webhook.
#[derive(Debug, Clone, Default)]
pub(super) struct Registered {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) is_ignore: bool,
    pub(super) rules: Vec<Rule>,
    pub(super) match_conditions: Vec<(String, String)>,
    pub(super) match_policy: Option<&'static str>,
    pub(super) timeout_seconds: Option<i64>,
    pub(super) namespace_selector: Option<LabelSelector>,
    pub(super) object_selector: Option<LabelSelector>,
}

/// A rule of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) groups: Vec<String>,
    pub(super) versions: Vec<String>,
    pub(super) resources: Vec<String>,
    pub(super) operations: Vec<String>,
    pub(super) scope: String,
}

/// The ValidatingWebhookConfiguration of policies that Kyverno decides itself.
pub fn configuration(policies: &[&Policy], validating: &[&ValidatingPolicy], discovery: &Discovery) -> Document {
    let mut webhooks = classic::webhooks(policies, discovery);
    webhooks.extend(validating::webhooks(validating, false));
    webhooks.extend(validating::webhooks(validating, true));
    webhooks.sort_by(|a, b| a.name.cmp(&b.name));
    let mut builder = Builder::new();
    builder.begin_map();
    string(&mut builder, "apiVersion", "admissionregistration.k8s.io/v1");
    string(&mut builder, "kind", "ValidatingWebhookConfiguration");
    builder.key("metadata");
    builder.begin_map();
    string(&mut builder, "name", "kyverno-resource-validating-webhook-cfg");
    builder.key("labels");
    builder.begin_map();
    string(&mut builder, "webhook.kyverno.io/managed-by", "kyverno");
    builder.end();
    builder.end();
    builder.key("webhooks");
    builder.begin_list();
    for webhook in &webhooks {
        webhook.write(&mut builder);
    }
    builder.end();
    builder.end();
    builder.finish()
}

impl Registered {
    fn write(&self, builder: &mut Builder) {
        builder.begin_map();
        string(builder, "name", &self.name);
        builder.key("clientConfig");
        builder.begin_map();
        builder.key("service");
        builder.begin_map();
        string(builder, "namespace", "kyverno");
        string(builder, "name", "kyverno-svc");
        string(builder, "path", &self.path);
        builder.key("port");
        builder.int(443);
        builder.end();
        builder.end();
        builder.key("rules");
        builder.begin_list();
        for rule in &self.rules {
            builder.begin_map();
            texts(builder, "apiGroups", &rule.groups);
            texts(builder, "apiVersions", &rule.versions);
            texts(builder, "operations", &rule.operations);
            texts(builder, "resources", &rule.resources);
            string(builder, "scope", &rule.scope);
            builder.end();
        }
        builder.end();
        string(builder, "failurePolicy", if self.is_ignore { "Ignore" } else { "Fail" });
        if let Some(policy) = self.match_policy {
            string(builder, "matchPolicy", policy);
        }
        for (key, selector) in [
            ("namespaceSelector", &self.namespace_selector),
            ("objectSelector", &self.object_selector),
        ] {
            if let Some(selector) = selector {
                builder.key(key);
                write_selector(builder, selector);
            }
        }
        if !self.match_conditions.is_empty() {
            builder.key("matchConditions");
            builder.begin_list();
            for (name, expression) in &self.match_conditions {
                builder.begin_map();
                string(builder, "name", name);
                string(builder, "expression", expression);
                builder.end();
            }
            builder.end();
        }
        string(builder, "sideEffects", "NoneOnDryRun");
        if let Some(seconds) = self.timeout_seconds {
            builder.key("timeoutSeconds");
            builder.int(seconds);
        }
        texts(builder, "admissionReviewVersions", &["v1".to_owned()]);
        builder.end();
    }
}

/// Rules without repetition, each sorted, in upstream's order: shorter lists first.
pub(super) fn sorted(mut rules: Vec<Rule>) -> Vec<Rule> {
    for rule in &mut rules {
        for list in [
            &mut rule.groups,
            &mut rule.versions,
            &mut rule.resources,
            &mut rule.operations,
        ] {
            list.sort_unstable();
        }
    }
    let key = |rule: &Rule| {
        let list = |list: &Vec<String>| (list.len(), list.clone());
        (
            list(&rule.groups),
            list(&rule.versions),
            list(&rule.resources),
            list(&rule.operations),
            rule.scope.clone(),
        )
    };
    rules.sort_by_cached_key(key);
    rules.dedup();
    rules
}

fn string(builder: &mut Builder, key: &str, text: &str) {
    builder.key(key);
    builder.string(text);
}

fn texts(builder: &mut Builder, key: &str, texts: &[String]) {
    builder.key(key);
    builder.begin_list();
    for text in texts {
        builder.string(text);
    }
    builder.end();
}
