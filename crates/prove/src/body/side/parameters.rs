//! The parameters of policies as unknown objects.
//!
//! Upstream counterpart: `CollectParams` of the API server and of Kyverno, by way of `kyvtest_apiserver` and `kyvtest_kyverno`.
//! A named parameter is the same unknown as the object that a lookup finds under this name; those of a selector are an unknown
//! list. Objects that belong to the side are constants.

use std::{rc::Rc, sync::Arc};

use kyvtest_model::{
    kube::{Discovery, parse_api_version},
    policy::{LabelSelector, ParamKind, ParamRef, Text},
};

use super::Side;
use crate::body::{
    cel,
    formula::{Arena, Formula, Place},
    lookup::{Lookup, Source},
    request::Request,
    shape::{Inner, Kind, Shape},
    value::{Result, Sym, Value, unsupported},
};

/// What a policy is evaluated with, once for each.
pub(super) enum Parameters {
    /// The policy has none.
    None,
    /// One that may not exist.
    One { exists: Formula, value: Value },
    /// Any number of them.
    Each { list: Place, bound: Place },
}

impl Parameters {
    /// What the expressions see.
    pub(super) fn value(&self) -> Option<Value> {
        match self {
            Self::None => None,
            Self::One { value, .. } => Some(value.clone()),
            Self::Each { bound, .. } => Some(Value::of(Sym::At(*bound))),
        }
    }

    /// That something holds of one of the parameters.
    pub(super) fn any(&self, arena: &mut Arena, of_one: Formula) -> Formula {
        match self {
            Self::None => of_one,
            Self::One { exists, .. } => arena.and([*exists, of_one]),
            Self::Each { list, bound } => arena.at_least(*list, *bound, of_one, 1),
        }
    }

    /// That there is none, if the policy wants one.
    pub(super) fn missing(&self, arena: &mut Arena) -> Formula {
        if matches!(self, Self::None) {
            return Formula::FALSE;
        }
        let some = self.any(arena, Formula::TRUE);
        arena.not(some)
    }

    /// When Kyverno cannot evaluate a rule for want of parameters: a named one that does not exist is an error
    /// regardless of `parameterNotFoundAction`.
    pub(super) fn error(&self, arena: &mut Arena, reference: Option<&ParamRef>) -> Formula {
        let action = reference.and_then(|reference| reference.parameter_not_found_action.as_ref());
        let denies = action.is_some_and(|action| action.value == "Deny");
        if matches!(self, Self::Each { .. }) && !denies {
            return Formula::FALSE;
        }
        self.missing(arena)
    }
}

impl Side {
    /// The parameters that a policy names.
    pub(super) fn parameters(
        &self,
        arena: &mut Arena,
        request: &Request<'_>,
        discovery: &Discovery,
        kind: &ParamKind,
        reference: Option<&ParamRef>,
    ) -> Result<Parameters> {
        fn text(text: Option<&Text>) -> &str {
            text.map_or("", |text| text.value.as_str())
        }
        let Some(reference) = reference else {
            return unsupported("parameters without a reference");
        };
        let name = text(reference.name.as_ref());
        let namespace = text(reference.namespace.as_ref());
        let (group, version) = parse_api_version(&kind.api_version);
        let Some(resource) = discovery.by_kind(group, version, &kind.kind) else {
            return unsupported("parameters of an unknown kind");
        };
        if name.is_empty() == reference.selector.is_none() || !resource.namespaced && !namespace.is_empty() {
            return unsupported("a reference to parameters that the server rejects");
        }
        let of_request = resource.namespaced && namespace.is_empty();
        let at = match request.namespace.filter(|_| request.cell.namespaced) {
            Some(own) if of_request => Sym::At(own),
            None if of_request => return unsupported("parameters in the namespace of a request that has none"),
            _ => Sym::Text(Arc::from(namespace)),
        };
        for object in &self.objects {
            let root = object.root().to_serde();
            let metadata = |field: &str| root["metadata"][field].as_str().unwrap_or_default();
            let is_one = root["kind"] == kind.kind.as_str() && root["apiVersion"] == kind.api_version.as_str();
            if is_one && (of_request || reference.selector.is_some()) {
                return unsupported("given parameters by a selector, or in the namespace of the request");
            }
            if is_one && metadata("name") == name && metadata("namespace") == namespace {
                let (exists, value) = (Formula::TRUE, cel::json_value(&root)?);
                return Ok(Parameters::One { exists, value });
            }
        }
        let Some(selector) = &reference.selector else {
            let named = (kind.api_version.as_str(), resource.plural.as_str(), kind.kind.as_str());
            let (exists, value) = cel::object(arena, named, at, name)?;
            return Ok(Parameters::One { exists, value });
        };
        let object = Shape::object(&kind.api_version, &kind.kind);
        let whose = if of_request { "of the request" } else { namespace };
        let list = arena.root(
            &format!(
                "params {} {} {whose} {}",
                kind.api_version,
                kind.kind,
                written(selector)
            ),
            Shape::of(Kind::List, Inner::List(Box::new(object))),
        );
        let Some(bound) = arena.bound(list, 0) else {
            return unsupported("parameters by a selector");
        };
        arena.note_lookup(Lookup {
            place: list,
            fine: Formula::TRUE,
            source: Source::Selected {
                api_version: Arc::from(kind.api_version.as_str()),
                kind: Arc::from(kind.kind.as_str()),
                namespace: at,
                labels: Rc::new(crate::params::labels(selector)),
            },
        });
        Ok(Parameters::Each { list, bound })
    }
}

/// A selector as a text, the same for the same selector wherever it is.
fn written(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter();
    let labels = labels.map(|(key, value)| format!("{}={}", key.value, value.value));
    let requirements = selector.match_expressions.iter().map(|requirement| {
        let values = requirement.values.iter().map(|value| value.value.as_str());
        let values: Vec<&str> = values.collect();
        let operator = &requirement.operator.value;
        format!("{} {operator} ({})", requirement.key.value, values.join(","))
    });
    let mut parts: Vec<String> = labels.chain(requirements).collect();
    parts.sort();
    parts.join(" ")
}
