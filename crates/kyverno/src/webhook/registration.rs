//! The webhooks that Kyverno registers with the API server.
//!
//! Upstream counterpart: `buildResourceValidatingWebhookConfiguration` and `buildResourceMutatingWebhookConfiguration` of
//! `pkg/controllers/webhook/controller.go` (1.19).
//!
//! Known deviations: what an installation decides is left out (certificate, labels, owner, the selectors and conditions of
//! Kyverno's configuration), and flags have their defaults.

use super::{
    Webhook,
    classic::{self, Phase},
    is_qualified, mutating, validating,
};
use crate::lens::Lens;
use kyvtest_cel::{profile::Profile, syntax::parse};
use kyvtest_go_compat::value::{Builder, Document};
use kyvtest_model::{
    kube::{Discovery, RuleWithOperations},
    policy::{ClassicPolicy, MutatingPolicy, ValidatingPolicy, write_selector},
};

/// The webhooks of a set of policies, and which policy is behind which webhook.
#[derive(Debug, Default)]
pub struct Registration {
    webhooks: Vec<Webhook>,
    classic: Vec<Option<usize>>,
    validating: Vec<Option<usize>>,
    problem: Option<String>,
}

/// The most match conditions that the API server accepts in one webhook.
const CONDITIONS: usize = 64;

/// The range of `timeoutSeconds` that the API server accepts.
const TIMEOUTS: std::ops::RangeInclusive<i64> = 1..=30;

/// The longest name of a webhook.
const LONGEST_NAME: usize = 253;

/// A webhook with the indexes of its policies.
pub(super) type Members = (Webhook, Vec<usize>);

impl Registration {
    /// Registers all policies that are installed together, as far as they count with a lens: those without settings of their
    /// own share webhooks.
    pub(crate) fn new(
        policies: &[&ClassicPolicy],
        validating: &[&ValidatingPolicy],
        discovery: &Discovery,
        lens: Lens,
    ) -> Self {
        let mut registration = Self {
            webhooks: Vec::new(),
            classic: vec![None; policies.len()],
            validating: vec![None; validating.len()],
            problem: None,
        };
        let mut add = |(webhook, members): Members, slots: fn(&mut Self) -> &mut Vec<Option<usize>>| {
            let number = registration.webhooks.len();
            registration.webhooks.push(webhook.compile());
            for member in members {
                if let Some(slot) = slots(&mut registration).get_mut(member) {
                    *slot = Some(number);
                }
            }
        };
        for webhook in classic::webhooks(policies, discovery, lens, Phase::Validating) {
            add(webhook, |registration| &mut registration.classic);
        }
        for namespaced in [false, true] {
            for webhook in validating::webhooks(validating, namespaced, lens) {
                add(webhook, |registration| &mut registration.validating);
            }
        }
        registration.problem = registration.webhooks.iter().find_map(Webhook::problem);
        registration
    }

    /// Why the API server rejects the configuration; Kyverno is then called for none of the policies.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    fn webhook(&self, number: Option<usize>) -> Option<&Webhook> {
        self.webhooks.get(number?).filter(|_| self.problem.is_none())
    }

    /// Registers a ValidatingPolicy that is alone in its cluster.
    pub fn of_validating_policy(policy: &ValidatingPolicy, discovery: &Discovery, lens: Lens) -> Self {
        Self::new(&[], &[policy], discovery, lens)
    }

    /// The webhook of the classic policy at an index; `None` if Kyverno registers none for it.
    pub fn classic(&self, index: usize) -> Option<&Webhook> {
        self.webhook(self.classic.get(index).copied().flatten())
    }

    /// The webhook of the ValidatingPolicy at an index; `None` if Kyverno registers none for it.
    pub fn validating(&self, index: usize) -> Option<&Webhook> {
        self.webhook(self.validating.get(index).copied().flatten())
    }

    /// The only webhook of a policy that is alone.
    pub fn only(&self) -> Option<&Webhook> {
        self.webhook(Some(0))
    }

    /// The ValidatingWebhookConfiguration as Kyverno writes it.
    pub fn configuration(&self) -> Document {
        let webhooks: Vec<&Webhook> = self.webhooks.iter().collect();
        written(
            "ValidatingWebhookConfiguration",
            "kyverno-resource-validating-webhook-cfg",
            webhooks,
        )
    }
}

/// A configuration as Kyverno writes it.
fn written(kind: &str, name: &str, mut webhooks: Vec<&Webhook>) -> Document {
    webhooks.sort_by(|a, b| a.name.cmp(&b.name));
    let mut builder = Builder::new();
    builder.begin_map();
    string(&mut builder, "apiVersion", "admissionregistration.k8s.io/v1");
    string(&mut builder, "kind", kind);
    builder.key("metadata");
    builder.begin_map();
    string(&mut builder, "name", name);
    builder.key("labels");
    builder.begin_map();
    string(&mut builder, "webhook.kyverno.io/managed-by", "kyverno");
    builder.end();
    builder.end();
    builder.key("webhooks");
    builder.begin_list();
    for webhook in webhooks {
        webhook.write(&mut builder);
    }
    builder.end();
    builder.end();
    builder.finish()
}

/// The MutatingWebhookConfiguration of policies that Kyverno evaluates itself; `None` if none of them changes objects.
pub fn mutating_configuration(
    policies: &[&ClassicPolicy],
    mutating: &[&MutatingPolicy],
    discovery: &Discovery,
) -> Option<Document> {
    let mut webhooks: Vec<Webhook> = Vec::new();
    let classic = classic::webhooks(policies, discovery, Lens::CLUSTER, Phase::Mutating);
    webhooks.extend(classic.into_iter().map(|(webhook, _)| webhook));
    for namespaced in [false, true] {
        webhooks.extend(mutating::webhooks(mutating, namespaced));
    }
    let all: Vec<&Webhook> = webhooks.iter().collect();
    let name = "kyverno-resource-mutating-webhook-cfg";
    (!all.is_empty()).then(|| written("MutatingWebhookConfiguration", name, all))
}

impl Webhook {
    /// The webhook that delivers requests to the mutate rules of a policy that is alone in its cluster.
    pub fn of_mutate_rules(policy: &ClassicPolicy, discovery: &Discovery) -> Option<Self> {
        let mut webhooks = classic::webhooks(&[policy], discovery, Lens::CLUSTER, Phase::Mutating);
        webhooks.pop().map(|(webhook, _)| webhook.compile())
    }
}

/// The ValidatingWebhookConfiguration of policies that Kyverno evaluates itself.
pub fn configuration(policies: &[&ClassicPolicy], validating: &[&ValidatingPolicy], discovery: &Discovery) -> Document {
    Registration::new(policies, validating, discovery, Lens::CLUSTER).configuration()
}

impl Webhook {
    /// Why the API server rejects the webhook (`pkg/apis/admissionregistration/validation` of Kubernetes): Kyverno
    /// checks neither the timeout of a ValidatingPolicy nor the names and counts after autogen adds its prefixes.
    fn problem(&self) -> Option<String> {
        let name = &self.name;
        if let Some(seconds) = self.timeout_seconds.filter(|seconds| !TIMEOUTS.contains(seconds)) {
            return Some(format!(
                "webhook `{name}` has a timeout of {seconds} s; 1 to 30 are allowed"
            ));
        }
        let count = self.match_conditions.len();
        if count > CONDITIONS {
            return Some(format!("webhook `{name}` has {count} match conditions; 64 are allowed"));
        }
        if name.len() > LONGEST_NAME {
            return Some(format!("the webhook name `{name}` is longer than 253 characters"));
        }
        // The guard wraps the source of the condition: a comment at its end hides the closing parenthesis.
        let syntax = &Profile::kubernetes().syntax;
        let mut guarded = self.match_conditions.iter().filter(|condition| condition.is_guarded());
        if let Some(broken) = guarded.find(|condition| parse(&condition.registered(), syntax).is_err()) {
            let condition = &broken.name;
            return Some(format!(
                "webhook `{name}` has the match condition `{condition}`, which does not compile"
            ));
        }
        let mut names = self.match_conditions.iter().map(|condition| condition.name.as_str());
        let invalid = names.find(|name| !is_qualified(name))?;
        Some(format!(
            "webhook `{name}` has a match condition with the invalid name `{invalid}`"
        ))
    }

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
            texts(builder, "apiGroups", &rule.api_groups);
            texts(builder, "apiVersions", &rule.api_versions);
            texts(builder, "operations", &rule.operations);
            let resources: Vec<String> = rule.resources.iter().map(ToString::to_string).collect();
            texts(builder, "resources", &resources);
            string(builder, "scope", rule.scope.as_str());
            builder.end();
        }
        builder.end();
        string(builder, "failurePolicy", if self.fails { "Fail" } else { "Ignore" });
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
            for condition in &self.match_conditions {
                builder.begin_map();
                string(builder, "name", &condition.name);
                string(builder, "expression", &condition.registered());
                builder.end();
            }
            builder.end();
        }
        string(builder, "sideEffects", "NoneOnDryRun");
        if let Some(word) = self.reinvocation {
            string(builder, "reinvocationPolicy", word);
        }
        if let Some(seconds) = self.timeout_seconds {
            builder.key("timeoutSeconds");
            builder.int(seconds);
        }
        texts(builder, "admissionReviewVersions", &["v1".to_owned()]);
        builder.end();
    }
}

/// Rules without repetition, each sorted, in upstream's order: shorter lists first.
pub(super) fn sorted(mut rules: Vec<RuleWithOperations>) -> Vec<RuleWithOperations> {
    for rule in &mut rules {
        for list in [&mut rule.api_groups, &mut rule.api_versions, &mut rule.operations] {
            list.sort_unstable();
        }
        rule.resources.sort_by_cached_key(ToString::to_string);
    }
    let key = |rule: &RuleWithOperations| {
        let list = |list: &Vec<String>| (list.len(), list.clone());
        let resources: Vec<String> = rule.resources.iter().map(ToString::to_string).collect();
        (
            list(&rule.api_groups),
            list(&rule.api_versions),
            list(&resources),
            list(&rule.operations),
            rule.scope.as_str(),
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
