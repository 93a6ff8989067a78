//! The run-time cost of calls.
//!
//! Upstream counterpart: cel-go `interpreter/runtimecost.go` and the shared helpers of
//! `k8s.io/apiserver/pkg/cel/library/cost.go`.

use super::{
    decl::{ArgumentCost, CostEstimator, CostFunction, Function},
    library::sizes,
    profile::Behaviour,
    val::Val,
};

/// The cost of reading a variable or a field.
pub(crate) const SELECT: u64 = 1;
/// The cost of making a list.
pub(crate) const LIST: u64 = 10;
/// The cost of making a map.
pub(crate) const MAP: u64 = 30;
/// The cost of making a message.
pub(crate) const STRUCT: u64 = 40;

/// How a call's cost is found, decided when the program is made.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CallCost {
    One,
    /// The walk over one argument's text.
    Text(usize),
    /// The size of the list that is searched.
    InList,
    /// The walk over the shorter of two texts.
    Shorter,
    /// The walk over both texts.
    Both,
    Matches,
    Contains,
    /// The overload's own function.
    Overload(CostFunction),
    /// The overload's own function of the arguments.
    Arguments(ArgumentCost),
    /// The function's estimator, asked with an overload id; another answer where it has none.
    Function(CostEstimator, &'static str, Builtin),
}

/// The defaults, for an estimator that has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Builtin {
    One,
    Text(usize),
    InList,
    Shorter,
    Both,
    Matches,
    Contains,
}

/// cel-go's own cost of an overload; `id` is empty where the checker left several.
fn builtin(id: &str, behaviour: &Behaviour) -> Builtin {
    match id {
        "starts_with_string" | "ends_with_string" => Builtin::Text(usize::from(behaviour.affix_cost_by_argument)),
        "string_to_bytes" | "bytes_to_string" | "strings_quote" | "string_format" => Builtin::Text(0),
        "in_list" => Builtin::InList,
        "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes"
        | "equals"
        | "not_equals" => Builtin::Shorter,
        "add_string" | "add_bytes" => Builtin::Both,
        "matches_string" => Builtin::Matches,
        "matches" if behaviour.global_matches_has_cost => Builtin::Matches,
        "contains_string" => Builtin::Contains,
        _ => Builtin::One,
    }
}

impl CallCost {
    /// The cost of a call of `function` that the checker resolved to the overload `only`, if to a single one.
    pub(crate) fn of(function: &Function, only: Option<usize>, behaviour: &Behaviour) -> Self {
        let overload = only.map(|i| &function.overloads[i]);
        if let Some(cost) = overload.and_then(|overload| overload.cost) {
            return CallCost::Overload(cost);
        }
        if let Some(cost) = overload.and_then(|overload| overload.cost_of_arguments) {
            return CallCost::Arguments(cost);
        }
        let id = overload.map_or("", |overload| overload.id);
        let builtin = builtin(id, behaviour);
        if let Some(estimate) = function.cost {
            return CallCost::Function(estimate, id, builtin);
        }
        match builtin {
            Builtin::One => CallCost::One,
            Builtin::Text(i) => CallCost::Text(i),
            Builtin::InList => CallCost::InList,
            Builtin::Shorter => CallCost::Shorter,
            Builtin::Both => CallCost::Both,
            Builtin::Matches => CallCost::Matches,
            Builtin::Contains => CallCost::Contains,
        }
    }

    /// What a call will cost, where its arguments tell.
    #[inline]
    pub(crate) fn before(&self, args: &[Val<'_>]) -> Option<u64> {
        match self {
            CallCost::Overload(_) | CallCost::Function(..) => None,
            _ => Some(self.charge(args, &Val::Null)),
        }
    }

    /// What a call cost.
    #[inline]
    pub(crate) fn charge(&self, args: &[Val<'_>], result: &Val<'_>) -> u64 {
        match self {
            CallCost::One => 1,
            CallCost::Text(i) => text(size(&args[*i])),
            CallCost::InList => size(&args[1]),
            CallCost::Shorter => shorter(&args[0], &args[1]),
            CallCost::Both => text(size(&args[0]) + size(&args[1])),
            CallCost::Matches => matches(size(&args[0]), size(&args[1])),
            CallCost::Contains => text(size(&args[0])) * text(size(&args[1])),
            CallCost::Overload(cost) => cost(args, result),
            CallCost::Arguments(cost) => cost(args),
            CallCost::Function(estimate, id, builtin) => match estimate(id, args, result) {
                Some(cost) => cost,
                None => match builtin {
                    Builtin::One => 1,
                    Builtin::Text(i) => CallCost::Text(*i).charge(args, result),
                    Builtin::InList => CallCost::InList.charge(args, result),
                    Builtin::Shorter => CallCost::Shorter.charge(args, result),
                    Builtin::Both => CallCost::Both.charge(args, result),
                    Builtin::Matches => CallCost::Matches.charge(args, result),
                    Builtin::Contains => CallCost::Contains.charge(args, result),
                },
            },
        }
    }
}

/// The size of a value as cel-go's cost accounting sees it; that of an optional value is the size inside.
///
/// Upstream: `actualSize`.
pub(crate) fn size(value: &Val<'_>) -> u64 {
    match value {
        Val::Optional(Some(inner)) => size(inner),
        _ => sizes::size(value),
    }
}

/// The cost of walking over a text of some size: a tenth of it, rounded up.
#[inline]
pub(crate) fn text(size: u64) -> u64 {
    // Upstream multiplies by the double 0.1. That is above 1/10 by less than half a unit in the last place of any product,
    // so rounding up gives the quotient.
    size.div_ceil(10)
}

/// The cost of matching a pattern of some size against a text of some size.
pub(crate) fn matches(text_size: u64, pattern_size: u64) -> u64 {
    text(text_size.saturating_add(1)).saturating_mul(pattern_size.div_ceil(4))
}

/// The cost of comparing two values.
#[inline]
pub(crate) fn shorter(a: &Val<'_>, b: &Val<'_>) -> u64 {
    match (a, b) {
        // The usual case without a walk over both texts.
        (Val::String(a), Val::String(b)) if a == b => text(super::ops::characters(a) as u64),
        _ => text(size(a).min(size(b))),
    }
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn a_tenth_is_what_upstream_computes() {
        for size in (0..200_000_u64).chain((0..2_000).map(|i| i * 1_000_003)) {
            assert_eq!(text(size), (size as f64 * 0.1).ceil() as u64, "{size}");
        }
    }
}
