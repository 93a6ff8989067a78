//! Which policies, bindings and parameters a request is evaluated with: the same for validating and mutating policies.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go` `Dispatch`.

use super::{
    input::Input,
    matching::{Match, matches},
    params::{self, Served},
    policy::Binding,
};
use kyvtest_go_compat::value::Document;
use kyvtest_model::{
    kube::Resource,
    policy::{MatchConstraints, ParamKind},
    verdict::Part,
};

/// Selects what a request is evaluated with.
pub(super) struct Selector<'i> {
    input: &'i Input<'i>,
    equivalents: Vec<&'i Resource>,
}

/// Whether a policy looks at a request.
pub(super) enum PolicySelection<'i> {
    /// It does not, because of a part of it.
    No(Part),
    /// It cannot be used, in the server's words.
    Misconfigured(String, Part),
    /// It does.
    Yes {
        /// The resource as which the request is matched.
        matched: &'i Resource,
        /// The resource of the parameters, if the policy has any.
        params: Option<&'i Resource>,
    },
}

/// Whether a binding selects a request, and with which parameters.
pub(super) enum BindingSelection {
    No,
    /// It cannot be used, in the server's words.
    Misconfigured(String, Part),
    /// One evaluation for each; `None` is the one without parameters.
    Yes(Vec<Option<Document>>),
}

impl<'i> Selector<'i> {
    pub(super) fn new(input: &'i Input<'i>) -> Self {
        Self {
            input,
            equivalents: input.equivalents(),
        }
    }

    pub(super) fn policy(
        &self,
        constraints: Option<&MatchConstraints>,
        param_kind: Option<&ParamKind>,
    ) -> PolicySelection<'i> {
        let params = params::served(param_kind, self.input.discovery);
        if params == Served::Unreadable {
            return PolicySelection::No(Part::Params);
        }
        let Some(constraints) = constraints else {
            let error = "policy contained no match constraints, a required field";
            return PolicySelection::Misconfigured(error.to_owned(), Part::Match);
        };
        let matched = match self.select(constraints) {
            Ok(Match::Yes(resource)) => resource,
            Ok(Match::No(part)) => return PolicySelection::No(part),
            Err(error) => return PolicySelection::Misconfigured(error, Part::Match),
        };
        let params = match params {
            Served::As(resource) => Some(resource),
            Served::Unknown(error) => return PolicySelection::Misconfigured(error, Part::Params),
            Served::None | Served::Unreadable => None,
        };
        PolicySelection::Yes { matched, params }
    }

    pub(super) fn binding(&self, binding: &Binding, params: Option<&Resource>) -> BindingSelection {
        match binding.match_resources.as_ref().map(|block| self.select(block)) {
            None | Some(Ok(Match::Yes(_))) => {}
            Some(Ok(Match::No(_))) => return BindingSelection::No,
            Some(Err(error)) => return BindingSelection::Misconfigured(error, Part::Binding),
        }
        let params = match params {
            Some(resource) => params::collect(resource, binding.params.as_ref(), self.input),
            None => Ok(vec![None]),
        };
        match params {
            Ok(params) => BindingSelection::Yes(params),
            Err(error) => BindingSelection::Misconfigured(error, Part::Params),
        }
    }

    fn select(&self, constraints: &MatchConstraints) -> Result<Match<'i>, String> {
        let cell = self.input.request.cell();
        matches(constraints, &cell, &self.equivalents, &mut self.input.facts()).map_err(|error| error.to_string())
    }
}

/// In the order of names; a server has no order.
pub(super) fn by_name<T>(items: &[T], name: impl Fn(&T) -> &str) -> Vec<&T> {
    let mut items: Vec<&T> = items.iter().collect();
    items.sort_by(|a, b| name(a).cmp(name(b)));
    items
}
