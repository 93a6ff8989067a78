//! Parser options: macros, syntax switches and limits, as data.
//!
//! Upstream counterpart: cel-go `parser/options.go`. Differences between the cel-go releases are fields here: 0.26.0
//! (Kubernetes 1.34 to 1.36) has no backtick identifiers unless an environment enables them; 0.30.0 (Kyverno 1.19)
//! limits the number of nodes that macros may produce. The messages are the same in 0.26.0, 0.29.2 and 0.30.0.

/// The macros of an environment. A disabled macro is a plain call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Macros {
    /// `has`, `all`, `exists`, `exists_one`, `map`, `filter`.
    pub standard: bool,
    /// `existsOne(x, p)`, the newer spelling with one variable.
    pub exists_one_camel: bool,
    /// `optMap`.
    pub opt_map: bool,
    /// `optFlatMap`.
    pub opt_flat_map: bool,
    /// The forms with two variables: `all`, `exists`, `existsOne`, `exists_one`, `transformList`, `transformMap`,
    /// `transformMapEntry`.
    pub two_variable: bool,
    /// `cel.bind`.
    pub bind: bool,
    /// `cel.block`, `cel.index`, `cel.iterVar` and `cel.accuVar`, with which cel-spec's tests write the output of an
    /// optimiser.
    pub block: bool,
    /// `sortBy`.
    pub sort_by: bool,
    /// `math.greatest` and `math.least`.
    pub math: bool,
    /// `proto.getExt` and `proto.hasExt`.
    pub protos: bool,
    /// Kyverno's rewrite of `x.orValue(y)` to `__orValueCompat__(x, y)`
    /// (kyverno: pkg/cel/compiler/env.go, `OrValueCompatEnvOptions`, 1.19).
    pub or_value_compat: bool,
}

impl Macros {
    /// No macro at all.
    pub const NONE: Self = Self {
        standard: false,
        exists_one_camel: false,
        opt_map: false,
        opt_flat_map: false,
        two_variable: false,
        bind: false,
        block: false,
        sort_by: false,
        math: false,
        protos: false,
        or_value_compat: false,
    };

    /// The standard macros only.
    pub const STANDARD: Self = Self {
        standard: true,
        ..Self::NONE
    };

    /// Those of Kubernetes' environment since 1.34: standard, optionals, two variables, `sortBy`.
    pub const KUBERNETES: Self = Self {
        opt_map: true,
        opt_flat_map: true,
        two_variable: true,
        sort_by: true,
        ..Self::STANDARD
    };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseOptions {
    pub macros: Macros,
    /// Whether `.?f`, `[?i]` and optional entries are allowed.
    pub optional_syntax: bool,
    /// Whether names in backticks are allowed as fields.
    pub escaped_identifiers: bool,
    /// Whether a chain of `&&` or `||` becomes one call with all operands, instead of a balanced tree of calls.
    pub variadic_logic: bool,
    /// Whether the accumulator of folds is `@result`, which no expression can name, instead of `__result__`.
    pub hidden_accumulator: bool,
    /// How many code points an expression may have.
    pub code_point_limit: usize,
    /// How deep rules, and nodes in the tree, may nest.
    pub recursion_limit: usize,
    /// How many syntax errors are reported before the parser gives up.
    pub error_limit: usize,
    /// How often the parser tries to recover from an error.
    pub recovery_limit: usize,
    /// How many tokens one recovery may skip.
    pub recovery_lookahead_limit: usize,
    /// How many nodes an expression may have when a macro is expanded.
    ///
    /// cel-go has this limit since 0.30.0; before, nested `optMap` calls use memory without bound. There the same value
    /// only keeps such an expression from exhausting ours.
    pub node_limit: usize,
}

impl ParseOptions {
    /// The limits and switches of cel-go 0.26.0 with optional syntax.
    pub const fn cel_go_0_26(macros: Macros) -> Self {
        Self {
            macros,
            optional_syntax: true,
            escaped_identifiers: false,
            variadic_logic: false,
            hidden_accumulator: true,
            code_point_limit: 100_000,
            recursion_limit: 250,
            error_limit: 100,
            recovery_limit: 30,
            recovery_lookahead_limit: 256,
            node_limit: 100_000,
        }
    }

    /// The limits and switches of cel-go 0.29.2 with optional syntax.
    pub const fn cel_go_0_29(macros: Macros) -> Self {
        Self {
            escaped_identifiers: true,
            ..Self::cel_go_0_26(macros)
        }
    }

    /// The limits and switches of cel-go 0.30.0 with optional syntax.
    pub const fn cel_go_0_30(macros: Macros) -> Self {
        Self::cel_go_0_29(macros)
    }
}
