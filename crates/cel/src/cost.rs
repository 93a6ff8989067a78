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

/// The way to determine a call's cost, chosen when the program is planned.
#[derive(Debug, Clone, Copy)]
pub enum CallCost {
    /// cel-go's default for the overload.
    Default(DefaultCost),
    Overload(CostFunction),
    /// The overload's own function of the arguments only.
    Arguments(ArgumentCost),
    /// The function's estimator, called with an overload id; the default if it returns `None`.
    Function(CostEstimator, &'static str, DefaultCost),
}

/// cel-go's default costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultCost {
    One,
    /// Traversing one string argument.
    Text(usize),
    /// The size of the searched list.
    InList,
    /// Traversing the shorter of two strings.
    Shorter,
    /// Traversing both strings.
    Both,
    Matches,
    /// Matching a constant pattern of this size.
    MatchesPattern(u64),
    Contains,
    /// A cost that does not depend on the arguments.
    Known(u64),
}

/// cel-go's default cost of an overload; `id` is empty if several remain after checking.
fn default_cost(id: &str, behaviour: &Behaviour) -> DefaultCost {
    match id {
        "starts_with_string" | "ends_with_string" => DefaultCost::Text(usize::from(behaviour.affix_cost_by_argument)),
        "string_to_bytes" | "bytes_to_string" | "strings_quote" | "string_format" => DefaultCost::Text(0),
        "in_list" => DefaultCost::InList,
        "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes"
        | "equals"
        | "not_equals" => DefaultCost::Shorter,
        "add_string" | "add_bytes" => DefaultCost::Both,
        "matches_string" => DefaultCost::Matches,
        "matches" if behaviour.global_matches_has_cost => DefaultCost::Matches,
        "contains_string" => DefaultCost::Contains,
        _ => DefaultCost::One,
    }
}

impl CallCost {
    /// The cost of a call of `function`; `only` is the overload if the checker resolved it to a single one.
    pub(crate) fn of(function: &Function, only: Option<usize>, behaviour: &Behaviour) -> Self {
        let overload = only.map(|i| &function.overloads[i]);
        if let Some(cost) = overload.and_then(|overload| overload.cost) {
            return CallCost::Overload(cost);
        }
        if let Some(cost) = overload.and_then(|overload| overload.cost_of_arguments) {
            return CallCost::Arguments(cost);
        }
        let id = overload.map_or("", |overload| overload.id);
        let default = default_cost(id, behaviour);
        match function.cost {
            Some(estimate) => CallCost::Function(estimate, id, default),
            None => CallCost::Default(default),
        }
    }

    /// Precomputes the cost if the relevant arguments are constant.
    pub(crate) fn with_constants(self, constant: impl Fn(usize) -> Option<u64>) -> Self {
        match self {
            CallCost::Default(DefaultCost::Text(i)) => match constant(i) {
                Some(size) => CallCost::Default(DefaultCost::Known(text(size))),
                None => self,
            },
            CallCost::Default(DefaultCost::Matches) => match constant(1) {
                Some(size) => CallCost::Default(DefaultCost::MatchesPattern(size)),
                None => self,
            },
            _ => self,
        }
    }

    /// The cost of a call before it is made; `None` if it depends on the result.
    #[inline]
    pub fn before(&self, args: &[Val<'_>]) -> Option<u64> {
        match self {
            CallCost::Default(default) => Some(default.charge(args)),
            CallCost::Arguments(cost) => Some(cost(args)),
            CallCost::Overload(_) | CallCost::Function(..) => None,
        }
    }

    /// The cost of a completed call.
    #[inline]
    pub(crate) fn charge(&self, args: &[Val<'_>], result: &Val<'_>) -> u64 {
        match self {
            CallCost::Default(default) => default.charge(args),
            CallCost::Overload(cost) => cost(args, result),
            CallCost::Arguments(cost) => cost(args),
            CallCost::Function(estimate, id, default) => {
                estimate(id, args, result).unwrap_or_else(|| default.charge(args))
            }
        }
    }
}

impl DefaultCost {
    #[inline]
    fn charge(self, args: &[Val<'_>]) -> u64 {
        match self {
            DefaultCost::One => 1,
            DefaultCost::Text(i) => text(size(&args[i])),
            DefaultCost::InList => size(&args[1]),
            DefaultCost::Shorter => shorter(&args[0], &args[1]),
            DefaultCost::Both => text(size(&args[0]) + size(&args[1])),
            DefaultCost::Matches => matches(size(&args[0]), size(&args[1])),
            DefaultCost::MatchesPattern(pattern) => matches(size(&args[0]), pattern),
            DefaultCost::Known(price) => price,
            DefaultCost::Contains => text(size(&args[0])) * text(size(&args[1])),
        }
    }
}

/// The size of a value in cel-go's cost accounting; for an optional value, the size inside.
///
/// Upstream: `actualSize`.
pub(crate) fn size(value: &Val<'_>) -> u64 {
    match value {
        Val::Optional(Some(inner)) => size(inner),
        _ => sizes::size(value),
    }
}

/// The cost of traversing a string of some size: a tenth of it, rounded up.
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
        // Avoids traversing both strings in the usual case.
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
