//! What generate rules make of a request: whether each rule applies, and the objects that it creates.
//!
//! Upstream counterpart: `pkg/engine/background.go` for the statuses of the rules, `pkg/background/generate` for the objects
//! (1.19). Upstream decides twice, in the admission controller and in the background controller, and the two do not look at
//! the same parts of a rule: `Generation::check` is the first, `Generation::apply` the second.
//!
//! Known deviations: loops end at a limit of elements; an update of an existing object replaces it, server-side apply is not
//! simulated.

mod apply;
pub(crate) mod object;
mod rule;

pub use apply::GenerateError;
pub use rule::{CloneList, GenerateBody, GenerateRule};

use crate::{
    classic::{
        context::{Context, Outside},
        rule::{RuleContext, granted, outside, start},
        validator::evaluate,
        values::Values,
    },
    exception::CompiledException,
    input::Input,
    matching::{Selection, applies},
    response::RuleResponse,
    rule_set::RuleSet,
};
use kyvtest_cel::host::Host;
use kyvtest_go_compat::value::{Data, Document, Value};
use kyvtest_model::{
    kube::{Concrete, Namespace, Request},
    verdict::{Part, Status, Trace},
};

/// Which object of the cluster is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectRef {
    /// Group and version, as the rule writes them.
    pub api_version: String,
    pub kind: String,
    /// Empty for cluster-wide objects.
    pub namespace: String,
    pub name: String,
}

/// Why a call of the cluster's API failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClientError {
    /// The object does not exist.
    NotFound(String),
    /// An object of this name exists.
    AlreadyExists(String),
    /// The client rejects the call.
    Other(String),
    /// Upstream's fake client panics: there is no verdict.
    Panic(String),
}

impl ClientError {
    /// The client's message.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::NotFound(text) | Self::AlreadyExists(text) | Self::Other(text) | Self::Panic(text) => text,
        }
    }
}

/// The cluster as generate rules read and write it.
pub(crate) trait Client {
    /// Returns one object.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] if there is none.
    fn get(&self, object: &ObjectRef) -> Result<Data, ClientError>;

    /// Returns the objects of a kind in a namespace, by namespace and name. `selector` is a label selector as the rule writes
    /// it, or null.
    ///
    /// # Errors
    /// If the kind cannot be listed.
    fn list(&self, api_version: &str, kind: &str, namespace: &str, selector: &Data) -> Result<Vec<Data>, ClientError>;

    /// Stores a new object.
    ///
    /// # Errors
    /// [`ClientError::AlreadyExists`] if there is one of this name.
    fn create(&mut self, at: &ObjectRef, object: Data) -> Result<(), ClientError>;

    /// Replaces an object.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] if there is none.
    fn update(&mut self, at: &ObjectRef, object: Data) -> Result<(), ClientError>;

    /// Whether objects of a kind have a namespace.
    fn is_namespaced(&self, api_version: &str, kind: &str) -> bool;
}

/// A policy with generate rules, ready for evaluation. These rules have no autogen variants.
pub(crate) type CompiledGeneration = RuleSet<GenerateBody>;

impl CompiledGeneration {
    /// Returns the sources of each rule's context entries, from the values of the request or from others.
    pub(crate) fn outsides<'a>(
        &'a self,
        input: &'a Input<'_>,
        values: Option<&'a dyn Values>,
        host: &'a dyn Host,
    ) -> Vec<Box<dyn Outside + 'a>> {
        let rules = self.rules.iter();
        rules
            .map(|rule| match values {
                Some(values) => values.outside(&self.key, &rule.name, self.namespace(), host),
                None => outside(input, &self.key, &rule.name, self.namespace(), host),
            })
            .collect()
    }

    /// Sets up the evaluation of a request. The lists have one entry per rule: the sources of its context entries in
    /// the first and in the second step.
    ///
    /// # Panics
    /// If the lists are shorter than that of the rules.
    pub(crate) fn start<'d>(
        &'d self,
        input: &'d Input<'d>,
        first: &'d [Box<dyn Outside + 'd>],
        second: &'d [Box<dyn Outside + 'd>],
    ) -> Generation<'d> {
        let (context, new, old) = start(input, &self.key, &*first[0]);
        Generation {
            policy: self,
            input,
            first,
            second,
            context,
            new,
            old,
        }
    }
}

/// The generate rules of a policy at work on one request. One JSON context serves all rules.
pub(crate) struct Generation<'d> {
    policy: &'d CompiledGeneration,
    input: &'d Input<'d>,
    first: &'d [Box<dyn Outside + 'd>],
    second: &'d [Box<dyn Outside + 'd>],
    context: Context<'d>,
    /// The object of the request, as values of a suite may have changed it; null for DELETE.
    new: Data,
    old: Data,
}

/// The rule's index in its policy, and its response.
pub type Checked = (usize, RuleResponse);

impl std::fmt::Debug for Generation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Generation")
            .field("policy", &self.policy.key)
            .finish_non_exhaustive()
    }
}

impl Generation<'_> {
    /// The object that the rules react to, as values of a suite may have changed it; null for DELETE.
    pub(crate) fn trigger(&self) -> Document {
        self.new.to_document()
    }

    /// Evaluates exceptions, matching and preconditions. Rules that neither the new nor the old object matches are absent.
    /// `namespace` is the one that exceptions see, which upstream reads once more from the cluster.
    pub(crate) fn check(&mut self, exceptions: &[CompiledException], namespace: Option<&Namespace>) -> Vec<Checked> {
        let one = self.policy.policy.spec.applies_one_rule();
        let mut checked = Vec::new();
        for (index, rule) in self.policy.rules.iter().enumerate() {
            let Some((status, message, keys)) = self.check_rule(index, rule, exceptions, namespace) else {
                continue;
            };
            let mut response = RuleResponse::new(&rule.name, status, message, trace(status, !keys.is_empty()));
            response.exceptions = keys;
            response.properties.clone_from(&rule.properties);
            checked.push((index, response));
            if one && status != Status::Skip {
                break;
            }
        }
        checked
    }

    fn check_rule(
        &mut self,
        index: usize,
        rule: &GenerateRule,
        exceptions: &[CompiledException],
        namespace: Option<&Namespace>,
    ) -> Option<(Status, String, Vec<String>)> {
        let selection = rule.selection(self.policy.namespace());
        let rule_context = RuleContext {
            policy: &self.policy.key,
            rule: &rule.name,
            selection,
            exceptions,
        };
        self.context.set_outside(&*self.first[index]);
        let cell = self.input.request.cell();
        let mut facts = Concrete::new(self.input.request, namespace);
        let exempt = granted(&mut self.context, &cell, &mut facts, rule_context);
        if !exempt.is_empty() {
            let keys: Vec<String> = exempt.iter().map(|exception| exception.key().to_owned()).collect();
            let message = format!("rule is skipped due to policy exception {}", keys.join(", "));
            return Some((Status::Skip, message, keys));
        }
        if !self.selects(&self.new, selection) {
            let old_matches = self.selects(&self.old, selection);
            return old_matches.then(|| (Status::Fail, String::new(), Vec::new()));
        }
        self.context.checkpoint();
        let result = self.preconditions(rule);
        self.context.restore();
        result.map(|(status, message)| (status, message, Vec::new()))
    }

    /// Whether a rule selects the new or the old object; an absent one is never selected.
    fn selects(&self, object: &Data, selection: Selection<'_>) -> bool {
        if object.is_null() {
            return false;
        }
        let request = with_object(self.input.request, &object.to_document());
        let mut facts = Concrete::new(&request, self.input.namespace());
        applies(selection, &request.cell(), &mut facts)
    }

    fn preconditions(&mut self, rule: &GenerateRule) -> Option<(Status, String)> {
        // Upstream only logs that the context cannot be loaded.
        self.context.load_entries(&rule.prelude.entries).ok()?;
        let Some(conditions) = &rule.prelude.preconditions else {
            return Some((Status::Pass, String::new()));
        };
        match evaluate(conditions, &mut self.context) {
            Ok((true, _)) => return Some((Status::Pass, String::new())),
            Ok((false, _)) => {}
            Err(error) => return Some((Status::Error, format!("failed to evaluate conditions: {error}"))),
        }
        if !self.old.is_null() {
            self.context.add_resource(self.old.clone());
            match evaluate(conditions, &mut self.context) {
                Ok((true, message)) => return Some((Status::Fail, message)),
                Ok((false, _)) => {}
                Err(error) => {
                    let message = format!("failed to evaluate conditions for old resource: {error}");
                    return Some((Status::Error, message));
                }
            }
        }
        Some((Status::Skip, String::new()))
    }
}

fn trace(status: Status, exempted: bool) -> Trace {
    match status {
        _ if exempted => Trace::of(Part::Exception),
        Status::Error => Trace::error(Part::Precondition(0)),
        Status::Skip => Trace::of(Part::Precondition(0)),
        _ => Trace::of(Part::All),
    }
}

/// The request with another object in both places, for matching: its namespace is that of the object.
fn with_object(request: &Request, object: &Document) -> Request {
    let mut request = request.clone();
    if !request.object.root().is_null() {
        request.object = object.clone();
    }
    if !request.old_object.root().is_null() {
        request.old_object = object.clone();
    }
    if request.resource.object_kind.kind != "Namespace" {
        let namespace = object.root().at(&["metadata", "namespace"]).and_then(Value::as_str);
        namespace.unwrap_or_default().clone_into(&mut request.namespace);
    }
    request
}
