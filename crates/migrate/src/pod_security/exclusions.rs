//! `podSecurity.exclude`: controls that are let through for the Pod, or for containers with certain images.
//!
//! Upstream counterpart: `exemptExclusions` in `pkg/pss/evaluate.go`. An exclusion without images also takes away one violation of
//! a container that sets nothing, whichever comes first; controls where that matters are refused.

use kyvtest_kyverno::classic::pod_security::Exclusion;

use super::refused;
use crate::{Expr, Refusal, query};

/// The exclusions of one rule.
pub(super) struct Exclusions {
    entries: Vec<Exclusion>,
}

/// Controls that a container violates by setting nothing, the last two at the restricted level only.
const MUST_BE_SET: [&str; 4] = ["Privilege Escalation", "Running as Non-root", "Capabilities", "Seccomp"];

impl Exclusions {
    pub(super) fn new(entries: &[Exclusion], restricted: bool) -> Result<Self, Refusal> {
        let own = Self {
            entries: entries.to_vec(),
        };
        for entry in entries {
            let control = entry.control_name.as_str();
            if !entry.restricted_field.is_empty() || !entry.values.is_empty() {
                return refused(format!("the exclusion of `{control}` is about a field or its values"));
            }
            let one_taken = restricted && MUST_BE_SET.contains(&control) && entry.images.is_empty();
            if one_taken && !own.covers_all_images(control) {
                let reason =
                    format!("the exclusion of `{control}` without images lets one of several containers through");
                return refused(reason);
            }
        }
        Ok(own)
    }

    fn of<'c>(&self, control: &'c str) -> impl Iterator<Item = &Exclusion> + use<'_, 'c> {
        self.entries.iter().filter(move |entry| entry.control_name == control)
    }

    fn covers_all_images(&self, control: &str) -> bool {
        self.of(control)
            .any(|entry| entry.images.iter().any(|image| image == "*"))
    }

    /// Whether the Pod's own violations of a control are let through.
    pub(super) fn of_pod(&self, control: &str) -> bool {
        self.of(control).any(|entry| entry.images.is_empty())
    }

    /// Whether those of some containers are let through, but not those of all.
    pub(super) fn of_some_containers(&self, control: &str) -> bool {
        !self.covers_all_images(control) && self.of(control).any(|entry| !entry.images.is_empty())
    }

    /// When a container's violations of a control are let through; `None` if always.
    pub(super) fn of_container(&self, control: &str, container: &Expr) -> Option<Expr> {
        if self.covers_all_images(control) {
            return None;
        }
        let image = container.optional("image").call("orValue", [Expr::string("")]);
        let images = self.of(control).flat_map(|entry| &entry.images);
        let tests: Vec<Expr> = images.map(|pattern| query::matches_glob(&image, pattern)).collect();
        Some(Expr::any(tests))
    }
}
