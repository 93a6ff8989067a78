//! Which policies, bindings and parameters a request is evaluated with: the same for validating and mutating policies, for a
//! request and for all requests of a class.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go` `Dispatch`. Deviation: the
//! objects that are parameters are collected when a step is evaluated, where upstream collects those of all bindings first.

use super::{
    matching::{Match, matches},
    params::{self, Served},
    policy::Binding,
};
use kyvtest_model::{
    kube::{Discovery, Facts, InvalidSelector, RequestClass, Resource},
    policy::{MatchConstraints, ParamKind},
    verdict::Part,
};

/// What is done with a policy on the requests of a class.
#[derive(Debug, Clone)]
pub enum Step<'p, 'd> {
    /// The policy, or one of its bindings, does not look at them because of a part of it.
    Unselected(Option<&'p Binding>, Part),
    /// The policy, or one of its bindings, cannot be used, with the server's message.
    Misconfigured(Option<&'p Binding>, String, Part),
    /// The policy is evaluated with a binding: parameters, match conditions, validations, audit annotations.
    Bound {
        binding: &'p Binding,
        /// The resource as which the requests are matched.
        matched: &'d Resource,
        /// The resource of the parameters, if the policy has any.
        params: Option<&'d Resource>,
    },
}

/// Selects what the requests of a class are evaluated with.
#[derive(Debug)]
pub struct Selector<'d> {
    cell: RequestClass<'d>,
    discovery: &'d Discovery,
    equivalents: Vec<&'d Resource>,
}

impl<'d> Selector<'d> {
    /// A selector for the requests of a class.
    pub(crate) fn new(cell: RequestClass<'d>, discovery: &'d Discovery) -> Self {
        let equivalents = discovery.equivalents(cell.resource);
        Self {
            cell,
            discovery,
            equivalents: equivalents.map(|resource| &**resource).collect(),
        }
    }

    /// The steps of a policy with these constraints and parameters, one for each of its bindings unless the policy itself
    /// decides.
    pub fn steps<'p>(
        &self,
        constraints: Option<&'p MatchConstraints>,
        param_kind: Option<&ParamKind>,
        bindings: impl IntoIterator<Item = &'p Binding>,
        facts: &mut impl Facts<'p>,
    ) -> Vec<Step<'p, 'd>> {
        let mut bindings = bindings.into_iter().peekable();
        if !self.cell.resource.reaches_native_policies() {
            return Vec::new();
        }
        if bindings.peek().is_none() {
            return vec![Step::Unselected(None, Part::Binding)];
        }
        let (matched, params) = match self.policy(constraints, param_kind, facts) {
            Ok(selected) => selected,
            Err(step) => return vec![step],
        };
        let mut steps = Vec::new();
        for binding in bindings {
            let block = binding.match_resources.as_ref();
            steps.push(match block.map(|block| self.select(block, facts)) {
                None | Some(Ok(Match::Yes(_))) => Step::Bound {
                    binding,
                    matched,
                    params,
                },
                Some(Ok(Match::No(_))) => Step::Unselected(Some(binding), Part::Binding),
                Some(Err(error)) => Step::Misconfigured(Some(binding), error.to_string(), Part::Binding),
            });
        }
        steps
    }

    /// The resource as which a policy matches the requests, and that of its parameters.
    fn policy<'p>(
        &self,
        constraints: Option<&'p MatchConstraints>,
        param_kind: Option<&ParamKind>,
        facts: &mut impl Facts<'p>,
    ) -> Result<(&'d Resource, Option<&'d Resource>), Step<'p, 'd>> {
        let params = params::served(param_kind, self.discovery);
        if params == Served::Unreadable {
            return Err(Step::Unselected(None, Part::Params));
        }
        let Some(constraints) = constraints else {
            let error = "policy contained no match constraints, a required field";
            return Err(Step::Misconfigured(None, error.to_owned(), Part::Match));
        };
        let matched = match self.select(constraints, facts) {
            Ok(Match::Yes(resource)) => resource,
            Ok(Match::No(part)) => return Err(Step::Unselected(None, part)),
            Err(error) => return Err(Step::Misconfigured(None, error.to_string(), Part::Match)),
        };
        match params {
            Served::As(resource) => Ok((matched, Some(resource))),
            Served::Unknown(error) => Err(Step::Misconfigured(None, error, Part::Params)),
            Served::None | Served::Unreadable => Ok((matched, None)),
        }
    }

    fn select<'p>(
        &self,
        constraints: &'p MatchConstraints,
        facts: &mut impl Facts<'p>,
    ) -> Result<Match<'d>, InvalidSelector<'p>> {
        matches(constraints, &self.cell, &self.equivalents, facts)
    }
}

/// In the order of names; a server has no order.
pub(super) fn by_name<T>(items: &[T], name: impl Fn(&T) -> &str) -> Vec<&T> {
    let mut items: Vec<&T> = items.iter().collect();
    items.sort_by(|a, b| name(a).cmp(name(b)));
    items
}
