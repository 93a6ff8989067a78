//! Evaluates one expression with given inputs: the interface of `kyvtest cel` and of the comparison with reference
//! data.

use super::{
    compile::{CompileError, compile},
    composite::{Composite, Composition},
    context::{Context, Scratch, WORK_LIMIT_EXCEEDED},
    env::Env,
    eval::{Activation, evaluate},
    host::{Host, NoHost},
    library, print,
    profile::Profile,
    types::Type,
    val::Val,
};
use kyvtest_go_compat::value::Document;

/// An expression with the values of its variables.
#[derive(Debug, Clone)]
pub struct Query<'q> {
    pub expr: &'q str,
    pub profile: &'static Profile,
    /// The object of the request; absent is null.
    pub object: Option<&'q Document>,
    /// The old object; absent is null.
    pub old_object: Option<&'q Document>,
    /// The parameters; declared only if given.
    pub params: Option<&'q Document>,
    /// The namespace; declared only if given.
    pub namespace_object: Option<&'q Document>,
    /// The admission request; declared only if given.
    pub request: Option<&'q Document>,
    /// Composited variables, in order; `None` leaves `variables` undeclared in Kubernetes' profiles.
    pub variables: Option<&'q [(String, String)]>,
    pub authorizer: Authorizer,
    /// Overrides the profile's cost limit.
    pub cost_limit: Option<u64>,
}

impl<'q> Query<'q> {
    /// A query without inputs.
    pub fn new(expr: &'q str, profile: &'static Profile) -> Self {
        Self {
            expr,
            profile,
            object: None,
            old_object: None,
            params: None,
            namespace_object: None,
            request: None,
            variables: None,
            authorizer: Authorizer::Absent,
            cost_limit: None,
        }
    }
}

/// Whether an expression has an authorizer; its decisions come from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authorizer {
    /// The name is not declared.
    Absent,
    /// The name is declared, and reading it is an error.
    Unbound,
    /// The name is declared and bound.
    Bound,
}

/// The result of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryResult {
    Value {
        /// The run-time type.
        type_name: String,
        /// In the notation of [`print::notation`].
        value: String,
        /// As Go prints it.
        display: String,
        /// `None` if the profile does not count cost.
        cost: Option<u64>,
    },
    /// The expression does not compile.
    Refused(CompileError),
    /// An error at run time.
    Failed {
        error: String,
        /// The cost up to the error; `None` if the profile does not count cost.
        cost: Option<u64>,
    },
}

pub fn run_query(query: &Query<'_>) -> QueryResult {
    run_query_with(query, &NoHost)
}

/// Evaluates a query with a host.
pub fn run_query_with(query: &Query<'_>, host: &dyn Host) -> QueryResult {
    let evaluated = with_value(query, host, |value, cost| match value {
        value if !value.is_printable() => QueryResult::Failed {
            error: WORK_LIMIT_EXCEEDED.to_owned(),
            cost,
        },
        Val::Error(error) => QueryResult::Failed {
            error: error.to_owned(),
            cost,
        },
        value => QueryResult::Value {
            type_name: value.type_name().to_owned(),
            value: print::notation(value),
            display: print::go_display(value),
            cost,
        },
    });
    evaluated.unwrap_or_else(QueryResult::Refused)
}

/// Evaluates a query and passes the value or error with its cost to `read`.
///
/// # Errors
/// If the expression does not compile.
pub fn with_value<T>(
    query: &Query<'_>,
    host: &dyn Host,
    read: impl FnOnce(Val<'_>, Option<u64>) -> T,
) -> Result<T, CompileError> {
    let mut env = Env::new(query.profile);
    let declared = declare(query, &mut env);
    let null = Document::null();
    let scratch = Scratch::new();
    let values: Vec<Option<Val<'_>>> = {
        let mut values = env.initial_values();
        let roots = [
            query.object,
            query.old_object,
            query.params,
            query.namespace_object,
            query.request,
        ];
        for (i, root) in declared.documents.iter().zip(roots) {
            // Variables that Kyverno declares but the caller does not give are unbound; only the objects always exist.
            let root = root.or_else(|| (*i == declared.documents[0] || *i == declared.documents[1]).then_some(&null));
            if let (Some(i), Some(root)) = (i, root) {
                values[*i as usize] = Some(Val::from(root.root()));
            }
        }
        if let Some(composite) = declared.variables
            && query.variables.is_some()
        {
            values[composite as usize] = Some(Val::Variables);
        }
        let context = Context::new(&scratch, query.profile, host);
        library::bind_variables(&context, &env, query, &mut values);
        values
    };
    let composition = composition(query.profile);
    let composite = declared.variables.map(|_| {
        let variables = query.variables.unwrap_or_default();
        Composite::compile(
            variables.iter().map(|(name, text)| (name.as_str(), text.as_str())),
            &mut env,
            composition,
        )
    });
    let program = compile(query.expr, &env)?;
    let lazy = composite
        .as_ref()
        .map(|composite| composite.bind(&scratch, &values, host));
    let activation = Activation {
        values: &values,
        variables: lazy.as_ref().map(|lazy| lazy as _),
    };
    let outcome = evaluate(&program, &scratch, activation, host, query.cost_limit);
    // The cost of variables is charged to a policy's budget, not to the expression.
    let cost = query.profile.shows_cost.then_some(outcome.cost);
    Ok(read(outcome.value, cost))
}

struct Declared {
    documents: [Option<u32>; 5],
    variables: Option<u32>,
}

fn composition(profile: &Profile) -> Composition {
    if profile.libraries.kyverno.is_some() {
        Composition::Kyverno
    } else if profile.dynamic_variables {
        Composition::Golden
    } else {
        Composition::Kubernetes
    }
}

fn declare(query: &Query<'_>, env: &mut Env) -> Declared {
    let kyverno = query.profile.libraries.kyverno.is_some();
    let dynamic = query.profile.dynamic_variables;
    let object = env.declare("object", Type::Dyn);
    let old_object = env.declare("oldObject", Type::Dyn);
    let params = query.params.map(|_| env.declare("params", Type::Dyn));
    let typed = |env: &mut Env, name: &str, structure: &str| {
        let declared = if dynamic && name != "request" {
            Type::Dyn
        } else {
            Type::structure(structure)
        };
        env.declare(name, declared)
    };
    let namespace =
        (query.namespace_object.is_some() || kyverno).then(|| typed(env, "namespaceObject", "kubernetes.Namespace"));
    let request = (query.request.is_some() || kyverno).then(|| typed(env, "request", "kubernetes.AdmissionRequest"));
    let variables = (query.variables.is_some() || kyverno).then(|| env.declare("variables", Type::Dyn));
    library::declare_variables(env, query.authorizer != Authorizer::Absent);
    Declared {
        documents: [Some(object), Some(old_object), params, namespace, request],
        variables,
    }
}
