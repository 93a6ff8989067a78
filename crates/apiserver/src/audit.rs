//! The annotations of the audit event.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go` (1.36) and `pkg/audit`. Of
//! several violations only the first becomes an annotation, because an annotation is never overwritten.

use std::collections::BTreeMap;

use kyvtest_go_compat::text::quote::go_json;
use kyvtest_model::policy::ValidationAction;

/// The annotation of a violation.
const FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

/// The number of bytes that an annotation's value is cut to.
const MAX_VALUE: usize = 10 * 1024;

/// Collects annotations.
#[derive(Debug, Default)]
pub(super) struct Audit {
    annotations: BTreeMap<String, String>,
}

/// The annotations of one policy: values by key, each value once.
#[derive(Debug, Default)]
pub(super) struct OfPolicy {
    values: BTreeMap<String, Vec<String>>,
}

impl OfPolicy {
    /// Adds the value of an annotation.
    pub(super) fn add(&mut self, key: &str, value: &str) {
        let value = match value.as_bytes().get(..MAX_VALUE) {
            // Upstream cuts bytes; half a character becomes a replacement character when the event is written.
            Some(cut) if value.len() > MAX_VALUE => String::from_utf8_lossy(cut).into_owned(),
            _ => value.to_owned(),
        };
        let values = self.values.entry(key.to_owned()).or_default();
        if !values.contains(&value) {
            values.push(value);
        }
    }
}

impl Audit {
    /// Publishes the annotations of a policy.
    pub(super) fn publish(&mut self, policy: &str, annotations: OfPolicy) {
        for (key, values) in annotations.values {
            self.add(format!("{policy}/{key}"), values.join(", "));
        }
    }

    /// Records a violation.
    pub(super) fn violation(
        &mut self,
        message: &str,
        [policy, binding]: [&str; 2],
        index: usize,
        actions: &[ValidationAction],
    ) {
        let actions: Vec<String> = actions.iter().map(|action| go_json(action.as_str())).collect();
        let value = format!(
            "[{{\"message\":{},\"policy\":{},\"binding\":{},\"expressionIndex\":{index},\"validationActions\":[{}]}}]",
            go_json(message),
            go_json(policy),
            go_json(binding),
            actions.join(",")
        );
        self.add(FAILURE.to_owned(), value);
    }

    fn add(&mut self, key: String, value: String) {
        self.annotations.entry(key).or_insert(value);
    }

    /// The annotations.
    pub(super) fn finish(self) -> BTreeMap<String, String> {
        self.annotations
    }
}
