//! The planner: turns a checked expression into a [`Program`].
//!
//! Upstream counterpart: cel-go `interpreter/{planner,decorators}.go` with the options that Kubernetes sets (constants
//! folded, constant regular expressions compiled). Failures here are errors of program construction.

mod comprehension;

use std::sync::Arc;

use super::{
    ast::{Expr, ExprId, MapEntry, Name},
    check::{Checked, Reference},
    constant::literal_constant,
    context::{Context, Scratch},
    cost::CallCost,
    decl::{Binding, Function},
    env::Env,
    eval,
    host::NoHost,
    library::pattern,
    mutation,
    ops::characters,
    program::*,
    types::Type,
    val::Val,
    wrapper,
};

/// An error of program construction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProgramError(pub String);

/// Plans an expression.
///
/// # Errors
/// If a constant part cannot be evaluated, a constant regular expression is invalid, or a function has no
/// implementation.
pub fn plan(checked: &Checked, env: &Env) -> Result<Program, ProgramError> {
    let mut planner = Planner::new(checked, env);
    let root = planner.plan(checked.ast.root())?;
    Ok(Program {
        profile: env.profile(),
        nodes: planner.nodes,
        origins: planner.origins,
        source: Arc::clone(&checked.source),
        root,
        slots: planner.slots,
        variables: env.variables().iter().map(|variable| variable.name.clone()).collect(),
        result: checked.result_type().clone(),
        has_fold: planner.has_fold,
    })
}

/// Plans and evaluates one call whose arguments are literals, for the check of literals.
pub(super) fn plan_literal_call(checked: &Checked, call: ExprId, env: &Env) -> Result<(), ProgramError> {
    let mut planner = Planner::new(checked, env);
    let root = planner.plan(call)?;
    match planner.node(root) {
        Node::Call(call) => {
            let scratch = Scratch::new();
            let context = Context::new(&scratch, env.profile(), &NoHost);
            let args: Vec<Val<'_>> = call
                .args
                .iter()
                .filter_map(|&arg| Some(planner.as_constant(arg)?.value(&context)))
                .collect();
            match eval::invoke(&context, call, &args) {
                Val::Error(text) => Err(ProgramError(text.to_owned())),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

struct Planner<'c> {
    checked: &'c Checked,
    env: &'c Env,
    nodes: Vec<Node>,
    origins: Vec<Option<ExprId>>,
    /// The comprehension variables around the node, innermost last.
    scopes: Vec<(Name, Local)>,
    slots: u32,
    has_fold: bool,
    /// Accounts for the patterns being compiled.
    scratch: Scratch,
}

#[derive(Clone, Copy)]
enum Local {
    Iterated(Slot),
    Accumulator(Slot, NodeId),
}

type Planned = Result<NodeId, ProgramError>;

impl<'c> Planner<'c> {
    fn new(checked: &'c Checked, env: &'c Env) -> Self {
        Self {
            checked,
            env,
            nodes: Vec::new(),
            origins: Vec::new(),
            scopes: Vec::new(),
            slots: 0,
            has_fold: false,
            scratch: Scratch::new(),
        }
    }

    fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() as u32 - 1)
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    fn slot(&mut self) -> Slot {
        self.slots += 1;
        Slot(self.slots - 1)
    }

    fn constant(&mut self, constant: Constant) -> NodeId {
        self.push(Node::Constant(constant))
    }

    fn as_constant(&self, id: NodeId) -> Option<&Constant> {
        match self.node(id) {
            Node::Constant(constant) => Some(constant),
            _ => None,
        }
    }

    fn folding(&self) -> bool {
        self.env.profile().constant_folding
    }

    fn plan(&mut self, id: ExprId) -> Planned {
        let node = self.plan_expr(id)?;
        self.origins.resize(self.nodes.len(), None);
        // A longer expression may take over the node of a part of it.
        if let Some(origin) = self.origins.get_mut(node.0 as usize) {
            *origin = Some(id);
        }
        Ok(node)
    }

    fn plan_expr(&mut self, id: ExprId) -> Planned {
        let checked = self.checked;
        match checked.ast.expr(id) {
            Expr::Literal(literal) => Ok(self.constant(literal_constant(literal))),
            Expr::Ident(name) => self.plan_ident(id, name),
            Expr::Select {
                operand,
                field,
                test_only,
            } => self.plan_select(id, *operand, field, *test_only),
            Expr::Call { function, target, args } => self.plan_call(id, function, *target, args),
            Expr::List { elements, optional } => self.plan_list(elements, optional),
            Expr::Map(entries) => self.plan_map(entries),
            Expr::Struct { type_name, fields } => {
                let mut planned = Vec::with_capacity(fields.len());
                for field in fields {
                    planned.push((field.name.clone(), self.plan(field.value)?, field.optional));
                }
                let Reference::Type(name) = &checked.references[id.index()] else {
                    return Err(ProgramError(format!("unknown type: {type_name}")));
                };
                Ok(self.push(Node::Struct {
                    name: name.clone(),
                    fields: planned.into(),
                }))
            }
            Expr::Comprehension(comprehension) => self.plan_comprehension(comprehension),
        }
    }

    fn plan_ident(&mut self, id: ExprId, name: &str) -> Planned {
        if self.checked.references[id.index()] == Reference::Local
            && let Some((_, local)) = self.scopes.iter().rev().find(|(n, _)| &**n == name)
        {
            let root = match *local {
                Local::Iterated(slot) => Root::Slot(slot),
                Local::Accumulator(slot, init) => Root::LazySlot(slot, init),
            };
            return Ok(self.attribute(root));
        }
        self.plan_global(id, name)
    }

    fn plan_global(&mut self, id: ExprId, name: &str) -> Planned {
        match &self.checked.references[id.index()] {
            Reference::Variable(number) => Ok(self.attribute(Root::Variable(*number))),
            // Upstream knows the messages as types, but not as values.
            Reference::Type(name) if wrapper::is_message(name) => {
                Err(ProgramError(format!("reference to undefined type: {name}")))
            }
            Reference::Type(name) => Ok(self.constant(Constant::Type(name.clone()))),
            Reference::Unbound(names) => Ok(self.push(Node::Unbound(names.clone()))),
            Reference::None | Reference::Local | Reference::Function { .. } | Reference::UnknownFunction => {
                Err(ProgramError(format!("reference to undefined type: {name}")))
            }
        }
    }

    fn attribute(&mut self, root: Root) -> NodeId {
        let id = self.nodes.len() as u32;
        self.push(Node::Attribute(Attribute {
            id,
            root,
            qualifiers: Vec::new(),
            test_only: false,
        }))
    }

    /// The node of an attribute after adding a step.
    fn qualified(&mut self, mut attribute: Attribute, qualifier: Qualifier) -> NodeId {
        let id = self.nodes.len() as u32;
        attribute.add(qualifier, id);
        self.push(Node::Attribute(attribute))
    }

    fn plan_select(&mut self, id: ExprId, operand: ExprId, field: &Name, test_only: bool) -> Planned {
        if self.checked.references[id.index()] != Reference::None {
            return self.plan_global(id, field);
        }
        let typed = self.is_mutation_type(operand);
        let operand = self.plan(operand)?;
        let mut attribute = self.take_attribute(operand);
        attribute.test_only = test_only;
        Ok(self.qualified(attribute, Qualifier::field(field.clone(), false, test_only, typed)))
    }

    /// Whether the checker gave a part one of the types of mutations.
    fn is_mutation_type(&self, id: ExprId) -> bool {
        matches!(self.checked.type_of(id), Type::Struct(name) if mutation::is_mutation_type(name))
    }

    /// The attribute of a node, or one that starts at the node's value.
    fn take_attribute(&mut self, id: NodeId) -> Attribute {
        let node = &mut self.nodes[id.0 as usize];
        if matches!(node, Node::Attribute(_)) {
            // INVARIANT: each node has one parent, which is being planned now.
            let taken = std::mem::replace(node, Node::Constant(Constant::Plain(Val::Null)));
            if let Node::Attribute(mut attribute) = taken {
                attribute.test_only = false;
                return attribute;
            }
        }
        Attribute {
            id: id.0,
            root: Root::Value(id),
            qualifiers: Vec::new(),
            test_only: false,
        }
    }

    fn plan_call(&mut self, id: ExprId, function: &str, target: Option<ExprId>, args: &[ExprId]) -> Planned {
        if function == "_?._" {
            return self.plan_index(args, true);
        }
        if self.checked.references[id.index()] == Reference::UnknownFunction {
            return self.plan_unknown_call(function, target, args);
        }
        let Reference::Function {
            name,
            overloads,
            namespaced,
        } = &self.checked.references[id.index()]
        else {
            return Err(ProgramError(format!("no such overload: {function}()")));
        };
        let receiver = if *namespaced { None } else { target };
        match &**name {
            "_&&_" => return self.plan_logical(args, Node::And),
            "_||_" => return self.plan_logical(args, Node::Or),
            "_?_:_" => return self.plan_conditional(args),
            "_[_]" => return self.plan_index(args, false),
            "_[?_]" => return self.plan_index(args, true),
            _ => {}
        }
        let mut planned = Vec::with_capacity(args.len() + 1);
        for arg in receiver.into_iter().chain(args.iter().copied()) {
            planned.push(self.plan(arg)?);
        }
        let Some(function) = self.env.profile().library().function(name) else {
            return Err(ProgramError(format!("no such overload: {name}")));
        };
        let only = match overloads[..] {
            [only] => Some(only as usize),
            _ => None,
        };
        self.plan_function(function, only, planned)
    }

    /// An undeclared function is an error of evaluation, unless it has no arguments.
    fn plan_unknown_call(&mut self, function: &str, target: Option<ExprId>, args: &[ExprId]) -> Planned {
        let mut planned = Vec::with_capacity(args.len() + 1);
        for arg in target.into_iter().chain(args.iter().copied()) {
            planned.push(self.plan(arg)?);
        }
        if planned.is_empty() {
            return Err(ProgramError(format!("no such overload: {function}()")));
        }
        Ok(self.push(Node::UnknownCall {
            function: function.into(),
            args: planned.into(),
        }))
    }

    fn plan_logical(&mut self, args: &[ExprId], node: impl FnOnce(Box<[NodeId]>) -> Node) -> Planned {
        let mut terms = Vec::with_capacity(args.len());
        for &arg in args {
            terms.push(self.plan(arg)?);
        }
        Ok(self.push(node(terms.into())))
    }

    fn plan_conditional(&mut self, args: &[ExprId]) -> Planned {
        let condition = self.plan(args[0])?;
        let truthy = self.plan(args[1])?;
        let truthy = self.take_attribute(truthy);
        let falsy = self.plan(args[2])?;
        let falsy = self.take_attribute(falsy);
        Ok(self.attribute(Root::Conditional(Box::new((condition, truthy, falsy)))))
    }

    fn plan_index(&mut self, args: &[ExprId], optional: bool) -> Planned {
        let typed = self.is_mutation_type(args[0]);
        let operand = self.plan(args[0])?;
        let index = self.plan(args[1])?;
        let qualifier = match self.as_constant(index) {
            Some(Constant::Text(text)) => Qualifier::field((**text).into(), optional, false, typed),
            Some(Constant::Plain(key @ (Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::Bool(_)))) => {
                Qualifier::Constant { key: *key, optional }
            }
            Some(other) => return Err(ProgramError(format!("invalid qualifier type: {}", other.go_type()))),
            None => Qualifier::Computed { index, optional },
        };
        let attribute = self.take_attribute(operand);
        Ok(self.qualified(attribute, qualifier))
    }

    fn plan_function(&mut self, function: &'static Function, only: Option<usize>, args: Vec<NodeId>) -> Planned {
        let behaviour = &self.env.profile().behaviour;
        let cost = || CallCost::of(function, only, behaviour);
        let operator = match (function.name, &args[..]) {
            ("_==_", &[a, b]) => return Ok(self.push(Node::Equal(a, b))),
            ("_!=_", &[a, b]) => return Ok(self.push(Node::NotEqual(a, b))),
            ("!_", &[a]) => return Ok(self.push(Node::Not(a))),
            ("-_", &[a]) => return Ok(self.push(Node::Negate(a))),
            ("@not_strictly_false", &[a]) => return Ok(self.push(Node::NotStrictlyFalse(a))),
            ("or", &[a, b]) if only.is_none_or(|i| function.overloads[i].id == "optional_or_optional") => {
                return Ok(self.push(Node::OptionalOr(a, b)));
            }
            ("orValue", &[a, b]) if only.is_none_or(|i| function.overloads[i].id == "optional_orValue_value") => {
                return Ok(self.push(Node::OptionalOrValue(a, b)));
            }
            ("_+_", _) => Some(Operator::Add),
            ("_-_", _) => Some(Operator::Subtract),
            ("_*_", _) => Some(Operator::Multiply),
            ("_/_", _) => Some(Operator::Divide),
            ("_%_", _) => Some(Operator::Modulo),
            ("_<_", _) => Some(Operator::Less),
            ("_<=_", _) => Some(Operator::LessEquals),
            ("_>_", _) => Some(Operator::Greater),
            ("_>=_", _) => Some(Operator::GreaterEquals),
            ("@in", _) => Some(Operator::In),
            _ => None,
        };
        if let (Some(operator), &[a, b]) = (operator, &args[..]) {
            let in_list = operator == Operator::In && only.is_some_and(|i| function.overloads[i].id == "in_list");
            if in_list
                && self.folding()
                && let Some(node) = self.plan_membership(a, b)
            {
                return Ok(node);
            }
            let cost = cost();
            return Ok(self.push(Node::Binary(operator, a, b, cost)));
        }
        let cost = cost().with_constants(|i| match self.as_constant(*args.get(i)?)? {
            Constant::Text(text) => Some(characters(text) as u64),
            _ => None,
        });
        let call = self.make_call(function, only, args, cost)?;
        if self.folding()
            && is_conversion(function.name)
            && let [arg] = call.args[..]
            && let Some(constant) = self.as_constant(arg)
        {
            let folded = fold_conversion(&call, constant, self.env)?;
            return Ok(self.constant(folded));
        }
        Ok(self.push(Node::Call(Box::new(call))))
    }

    /// `x in [constants]` as a test against a set, if all of them are plain scalars.
    fn plan_membership(&mut self, needle: NodeId, list: NodeId) -> Option<NodeId> {
        let scratch = Scratch::new();
        let context = Context::new(&scratch, self.env.profile(), &NoHost);
        let list = self.as_constant(list)?.value(&context);
        if !list.is_list() {
            return None;
        }
        if list.is_empty() {
            return Some(self.constant(Constant::Plain(Val::Bool(false))));
        }
        let elements: Option<Box<[Constant]>> = list
            .list_iter()
            .map(|element| match element {
                Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::String(_) => {
                    Constant::from_value(element)
                }
                _ => None,
            })
            .collect();
        let elements = elements?;
        Some(self.push(Node::Member(needle, elements)))
    }

    fn make_call(
        &self,
        function: &'static Function,
        only: Option<usize>,
        args: Vec<NodeId>,
        cost: CallCost,
    ) -> Result<Call, ProgramError> {
        let name = function.name;
        let pattern = args.get(1).and_then(|&arg| match self.as_constant(arg) {
            Some(Constant::Text(pattern)) => Some(pattern),
            _ => None,
        });
        let regex = match name {
            "matches" if self.folding() => Some(RegexFunction::Matches),
            "find" => Some(RegexFunction::Find),
            "findAll" => Some(RegexFunction::FindAll),
            _ => None,
        };
        if let (Some(regex), Some(text)) = (regex, pattern) {
            let context = Context::new(&self.scratch, self.env.profile(), &NoHost);
            let compiled = pattern::build(&context, text).map_err(|error| ProgramError(error.to_string()))?;
            return Ok(Call {
                function,
                args: args.into(),
                binding: Binding::Variadic,
                non_strict: false,
                dispatch: Dispatch::Regex(regex, compiled),
                cost,
            });
        }
        let implemented = || {
            function
                .overloads
                .iter()
                .enumerate()
                .filter(|(_, o)| o.implementation.is_some())
        };
        let (binding, non_strict, dispatch) = if let Some(singleton) = &function.singleton {
            (singleton.binding, false, Dispatch::Singleton)
        } else if let Some((i, binding, implementation)) = only
            .and_then(|i| function.overloads[i].implementation.map(|(binding, f)| (i, binding, f)))
            .or_else(|| {
                // A function with a single implementation is also bound to it under its own name.
                let mut all = implemented();
                match (all.next(), all.next()) {
                    (Some((i, o)), None) => o.implementation.map(|(binding, f)| (i, binding, f)),
                    _ => None,
                }
            })
        {
            (
                binding,
                function.overloads[i].non_strict,
                Dispatch::Overload(i as u16, implementation),
            )
        } else if implemented().next().is_some() {
            (
                Binding::Variadic,
                implemented().any(|(_, o)| o.non_strict),
                Dispatch::Function,
            )
        } else {
            return Err(ProgramError(format!("no such overload: {name}")));
        };
        // Only an unchecked expression can have another number of arguments here.
        let wanted = match binding {
            Binding::Unary => 1,
            Binding::Binary => 2,
            Binding::Variadic => args.len(),
        };
        if args.len() != wanted {
            let signature = match args.len() {
                0 => "",
                1 => "arg",
                2 => "lhs, rhs",
                _ => "...",
            };
            return Err(ProgramError(format!("no such overload: {name}({signature})")));
        }
        Ok(Call {
            function,
            args: args.into(),
            binding,
            non_strict,
            dispatch,
            cost,
        })
    }

    fn plan_list(&mut self, elements: &[ExprId], optional: &[u32]) -> Planned {
        let mut planned = Vec::with_capacity(elements.len());
        for &element in elements {
            planned.push(self.plan(element)?);
        }
        if self.folding() && optional.is_empty() && planned.iter().all(|&id| self.as_constant(id).is_some()) {
            let items: Vec<Constant> = planned.iter().map(|&id| self.take_constant(id)).collect();
            let folded = Constant::list(items);
            return Ok(self.constant(folded));
        }
        let optional = (0..planned.len() as u32).map(|i| optional.contains(&i)).collect();
        Ok(self.push(Node::List {
            elements: planned.into(),
            optional,
        }))
    }

    fn take_constant(&mut self, id: NodeId) -> Constant {
        match std::mem::replace(
            &mut self.nodes[id.0 as usize],
            Node::Constant(Constant::Plain(Val::Null)),
        ) {
            Node::Constant(constant) => constant,
            _ => Constant::Plain(Val::Null),
        }
    }

    fn plan_map(&mut self, entries: &[MapEntry]) -> Planned {
        let mut planned = Vec::with_capacity(entries.len());
        for entry in entries {
            planned.push((self.plan(entry.key)?, self.plan(entry.value)?, entry.optional));
        }
        let constant = planned.iter().all(|&(key, value, optional)| {
            !optional && self.as_constant(key).is_some() && self.as_constant(value).is_some()
        });
        if self.folding() && constant {
            let items: Vec<(Constant, Constant)> = planned
                .iter()
                .map(|&(key, value, _)| (self.take_constant(key), self.take_constant(value)))
                .collect();
            let folded = Constant::map(items);
            return Ok(self.constant(folded));
        }
        Ok(self.push(Node::Map {
            entries: planned.into(),
        }))
    }
}

impl Attribute {
    /// Adds a selection step; to both branches of a conditional.
    fn add(&mut self, qualifier: Qualifier, id: u32) {
        self.id = id;
        match &mut self.root {
            Root::Conditional(branches) => {
                branches.1.add(qualifier.clone(), id);
                branches.2.add(qualifier, id);
            }
            Root::Slot(_) | Root::LazySlot(..) | Root::Variable(_) | Root::Value(_) => self.qualifiers.push(qualifier),
        }
    }
}

/// Functions whose call on a constant is folded.
fn is_conversion(function: &str) -> bool {
    matches!(
        function,
        "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp" | "type" | "uint"
    )
}

fn fold_conversion(call: &Call, arg: &Constant, env: &Env) -> Result<Constant, ProgramError> {
    let scratch = Scratch::new();
    let context = Context::new(&scratch, env.profile(), &NoHost);
    match eval::invoke(&context, call, &[arg.value(&context)]) {
        Val::Error(text) => Err(ProgramError(text.to_owned())),
        value => Constant::from_value(value).ok_or_else(|| ProgramError("constant cannot be kept".to_owned())),
    }
}
