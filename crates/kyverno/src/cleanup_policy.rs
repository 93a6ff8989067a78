//! CleanupPolicy and ClusterCleanupPolicy: would an object be deleted.
//!
//! Upstream counterpart: `applyCleanupPolicies` of `cmd/cli/kubectl-kyverno/commands/apply/command.go` and
//! `pkg/utils/match` (1.19), which decide as the cleanup controller does. The schedule does not affect the result.

use crate::{
    classic::{
        condition::Conditions,
        context::{Context, Entry, Outside},
        validation::{conditions_of, entries_of},
        variables::substitute_preconditions,
    },
    matching::exempts,
};
use kyvtest_go_compat::value::Data;
use kyvtest_model::{
    kube::{Concrete, Namespace, Request},
    policy::{CleanupPolicy, MatchResources},
};

/// A policy that is ready for evaluation.
#[derive(Debug)]
pub struct CompiledCleanupPolicy<'p> {
    policy: &'p CleanupPolicy,
    entries: Vec<Entry>,
    conditions: Option<Conditions>,
}

impl<'p> CompiledCleanupPolicy<'p> {
    pub fn new(policy: &'p CleanupPolicy) -> Self {
        Self {
            policy,
            entries: entries_of(policy.spec.context.as_ref()),
            conditions: conditions_of(policy.spec.conditions.as_ref()),
        }
    }

    fn namespace(&self) -> &str {
        let namespace = self.policy.metadata.namespace.as_ref();
        namespace
            .filter(|_| self.policy.namespaced)
            .map_or("", |text| text.value.as_str())
    }

    /// Whether an object, given as a new one, would be deleted; `None` if the policy is not about it.
    ///
    /// # Errors
    /// If the context or a condition cannot be evaluated.
    pub fn deletes(
        &self,
        object: &Request,
        namespace: Option<&Namespace>,
        outside: &dyn Outside,
    ) -> Result<Option<bool>, String> {
        // The entries are loaded when a condition first names them; errors show there.
        let mut context = Context::new(outside);
        context.load_entries(&self.entries)?;
        let own = self.namespace();
        if !own.is_empty() && own != object.namespace {
            return Ok(None);
        }
        let selects = |block: &MatchResources| {
            let everything = block.any.is_empty() && block.all.is_empty();
            everything || exempts(block, &object.cell(), &mut Concrete::new(object, namespace))
        };
        let spec = &self.policy.spec;
        if !selects(&spec.matches) || spec.exclude.as_ref().is_some_and(selects) {
            return Ok(None);
        }
        let Some(conditions) = &self.conditions else {
            return Ok(Some(true));
        };
        let target = Data::from(object.object.root());
        context.checkpoint();
        context.set_target_resource(target.clone());
        context.add_namespace(&object.namespace);
        context.add_images(target);
        let mut substitute =
            |data: &Data| substitute_preconditions(data, &mut context).map_err(|error| error.to_string());
        conditions.lift(&mut substitute).map(Some)
    }
}
