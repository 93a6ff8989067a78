//! A planned expression, ready for the evaluator.
//!
//! Upstream counterpart: cel-go `interpreter/{interpretable,attributes}.go`. Names are resolved: comprehension
//! variables are slots, variables are numbers, functions are pointers, constant regular expressions and sets are
//! precomputed.

use std::sync::Arc;

use super::{
    ast::{ExprId, Name},
    cost::CallCost,
    decl::{Binding, Function, Implementation},
    profile::Profile,
    types::Type,
    val::Val,
};
use kyvtest_go_compat::{
    regex::Regex,
    value::{Document, Key},
};

/// A node of a [`Program`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeId(pub u32);

/// A variable of a comprehension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(pub u32);

/// An expression that can be evaluated any number of times, from any thread.
#[derive(Debug)]
pub struct Program {
    pub profile: &'static Profile,
    pub nodes: Vec<Node>,
    /// The source expression of each node, for its location; see `observe`.
    pub(crate) origins: Vec<Option<ExprId>>,
    /// The source text, for traces.
    pub source: Arc<str>,
    pub root: NodeId,
    pub slots: u32,
    /// Names of the variables, by number, for the error of an unbound one.
    pub variables: Vec<Name>,
    pub result: Type,
    /// Whether there is a comprehension, see `eval`'s note on exact costs.
    pub(crate) has_fold: bool,
}

impl Program {
    /// The static type of the result.
    pub(crate) fn result_type(&self) -> &Type {
        &self.result
    }

    /// Reports whether the program may read a variable of its environment.
    pub fn reads(&self, variable: &str) -> bool {
        let is_variable = |number: u32| &*self.variables[number as usize] == variable;
        self.nodes.iter().any(|node| match node {
            Node::Attribute(attribute) => attribute.any_variable(&is_variable),
            _ => false,
        })
    }

    /// The environment it was made for.
    pub fn profile(&self) -> &'static Profile {
        self.profile
    }
}

#[derive(Debug)]
pub enum Constant {
    /// A value that owns nothing.
    Plain(Val<'static>),
    Text(Box<str>),
    Bytes(Box<[u8]>),
    Type(Name),
    /// A list or map of plain JSON values.
    Document(Document),
    /// A list with values that JSON does not have.
    List(Box<[Constant]>),
    /// A map with values that JSON does not have.
    Map(Box<[(Constant, Constant)]>),
}

#[derive(Debug)]
pub enum Node {
    Constant(Constant),
    Attribute(Attribute),
    And(Box<[NodeId]>),
    Or(Box<[NodeId]>),
    Equal(NodeId, NodeId),
    NotEqual(NodeId, NodeId),
    Not(NodeId),
    NotStrictlyFalse(NodeId),
    Negate(NodeId),
    Binary(Operator, NodeId, NodeId, CallCost),
    /// `x in [constants]`
    Member(NodeId, Box<[Constant]>),
    Call(Box<Call>),
    List {
        elements: Box<[NodeId]>,
        optional: Box<[bool]>,
    },
    Map {
        entries: Box<[(NodeId, NodeId, bool)]>,
    },
    /// A message literal. Only wrapper messages can be constructed; for others only the fields are evaluated.
    Struct {
        name: Name,
        fields: Box<[(Name, NodeId, bool)]>,
    },
    Fold(Box<Fold>),
    /// `cel.bind` and similar macros: the bound value is evaluated when the slot is first read, if ever.
    Bind {
        slot: Slot,
        body: NodeId,
    },
    /// `o.or(p)`
    OptionalOr(NodeId, NodeId),
    /// `o.orValue(v)`
    OptionalOrValue(NodeId, NodeId),
    /// An undeclared name of an unchecked expression: the error, with the names that it may be short for.
    Unbound(Name),
    /// A call of an undeclared function in an unchecked expression: the error, after the arguments.
    UnknownCall {
        function: Name,
        args: Box<[NodeId]>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Less,
    LessEquals,
    Greater,
    GreaterEquals,
    In,
}

/// A variable or other value with the selections from it.
#[derive(Debug)]
pub struct Attribute {
    /// The id under which the cost stack knows the value, see `cost_stack`.
    pub id: u32,
    pub root: Root,
    pub qualifiers: Vec<Qualifier>,
    /// Whether the last qualifier is a presence test and the value its result.
    pub test_only: bool,
}

impl Attribute {
    /// Whether the attribute starts at a variable for which `is_wanted` holds, in any of its branches.
    fn any_variable(&self, is_wanted: &impl Fn(u32) -> bool) -> bool {
        match &self.root {
            Root::Variable(number) => is_wanted(*number),
            Root::Conditional(branches) => {
                let (_, yes, no) = &**branches;
                yes.any_variable(is_wanted) || no.any_variable(is_wanted)
            }
            Root::Slot(_) | Root::LazySlot(..) | Root::Value(_) => false,
        }
    }
}

#[derive(Debug)]
pub enum Root {
    Slot(Slot),
    /// An accumulator: evaluated when first read.
    LazySlot(Slot, NodeId),
    Variable(u32),
    Value(NodeId),
    Conditional(Box<(NodeId, Attribute, Attribute)>),
}

#[derive(Debug, Clone)]
pub enum Qualifier {
    /// `.name`, `['name']`
    Field {
        name: Name,
        hash: u32,
        optional: bool,
        test_only: bool,
        /// Whether the checker knows the operand as one of the types of mutations. Only then do their values have fields.
        typed: bool,
    },
    /// `[0]` and other constants that are not strings.
    Constant { key: Val<'static>, optional: bool },
    /// `[e]`: the value of a node; an attribute's own root costs nothing there.
    Computed { index: NodeId, optional: bool },
}

impl Qualifier {
    pub fn field(name: Name, optional: bool, test_only: bool, typed: bool) -> Self {
        let hash = Key::new(&name).hash();
        Qualifier::Field {
            name,
            hash,
            optional,
            test_only,
            typed,
        }
    }
}

/// A call of a library function.
#[derive(Debug)]
pub struct Call {
    pub function: &'static Function,
    pub args: Box<[NodeId]>,
    pub binding: Binding,
    pub non_strict: bool,
    pub dispatch: Dispatch,
    pub cost: CallCost,
}

#[derive(Debug)]
pub enum Dispatch {
    /// One overload, by its index in the function.
    Overload(u16, Implementation),
    /// The first overload that accepts the arguments.
    Function,
    /// One implementation for all.
    Singleton,
    /// A constant regular expression.
    Regex(RegexFunction, Regex),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegexFunction {
    Matches,
    Find,
    FindAll,
}

/// A comprehension.
#[derive(Debug)]
pub struct Fold {
    pub range: NodeId,
    pub variable: Slot,
    pub second: Option<Slot>,
    pub kind: FoldKind,
}

#[derive(Debug)]
pub enum FoldKind {
    All(NodeId),
    Exists(NodeId),
    ExistsOne(NodeId),
    /// `map` and `filter`: the kept element, the condition if there is one, and the cost of the one-element list.
    Map {
        transform: NodeId,
        filter: Option<NodeId>,
        list_cost: u64,
    },
    General {
        accumulator: Slot,
        init: NodeId,
        condition: NodeId,
        step: NodeId,
        result: NodeId,
        insertion: Option<Insertion>,
    },
}

/// The step of a fold that only adds entries to a map, such as `transformMap`: they are collected in one place instead
/// of copying the map each time.
#[derive(Debug, Clone, Copy)]
pub struct Insertion {
    pub(crate) filter: Option<NodeId>,
    /// The call of `cel.@mapInsert`, whose first argument is the accumulator.
    pub(crate) call: NodeId,
}
