//! Builds the tree: the arena, the location of each node, and cel-go's operator names.
//!
//! Upstream counterpart: cel-go `parser/helper.go` and `common/operators`. Both the fast parser and the
//! error-recovering one use this builder, so that the same code expands macros.

use std::sync::{Arc, LazyLock};

use super::options::ParseOptions;
use crate::ast::{Ast, Comprehension, Expr, ExprId, Literal, MapEntry, Name, StructField};

/// Operators and the functions that macros call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Conditional,
    And,
    Or,
    Not,
    Negate,
    Equals,
    NotEquals,
    Less,
    LessEquals,
    Greater,
    GreaterEquals,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Index,
    OptIndex,
    OptSelect,
    NotStrictlyFalse,
    MapInsert,
    HasValue,
    Value,
    OptionalOf,
    OptionalNone,
    SortByAssociatedKeys,
    MathMin,
    MathMax,
    OrValueCompat,
}

const OP_NAMES: [&str; 30] = [
    "_?_:_",
    "_&&_",
    "_||_",
    "!_",
    "-_",
    "_==_",
    "_!=_",
    "_<_",
    "_<=_",
    "_>_",
    "_>=_",
    "@in",
    "_+_",
    "_-_",
    "_*_",
    "_/_",
    "_%_",
    "_[_]",
    "_[?_]",
    "_?._",
    "@not_strictly_false",
    "cel.@mapInsert",
    "hasValue",
    "value",
    "optional.of",
    "optional.none",
    "@sortByAssociatedKeys",
    "math.@min",
    "math.@max",
    "__orValueCompat__",
];

/// Shared strings, so that a node costs a counter and no copy.
struct Shared {
    ops: [Name; 30],
    hidden: Name,
    traditional: Name,
    unused: Name,
    sort_input: Name,
}

static SHARED: LazyLock<Shared> = LazyLock::new(|| Shared {
    ops: OP_NAMES.map(Arc::from),
    hidden: Arc::from("@result"),
    traditional: Arc::from(TRADITIONAL_ACCUMULATOR),
    unused: Arc::from("#unused"),
    sort_input: Arc::from("@__sortBy_input__"),
});

/// The accumulator's name before it was hidden; never a valid iteration variable.
pub(super) const TRADITIONAL_ACCUMULATOR: &str = "__result__";

/// The variable of a fold that iterates over nothing.
pub(super) fn unused_variable() -> Name {
    SHARED.unused.clone()
}

/// The variable that holds the list of `sortBy`.
pub(super) fn sort_variable() -> Name {
    SHARED.sort_input.clone()
}

/// Whether a word cannot be a variable: the grammar's own words, and those that it reserves.
///
/// Kubernetes has the same list for names of variables and for names of fields (`celReserved` of
/// `pkg/apis/admissionregistration/validation`, `celReservedSymbols` of `k8s.io/apiserver/pkg/cel`).
pub fn is_reserved(name: &str) -> bool {
    matches!(
        name,
        "as" | "break"
            | "const"
            | "continue"
            | "else"
            | "false"
            | "for"
            | "function"
            | "if"
            | "import"
            | "in"
            | "let"
            | "loop"
            | "package"
            | "namespace"
            | "null"
            | "return"
            | "true"
            | "var"
            | "void"
            | "while"
    )
}

/// The offset of a node whose location cel-go does not know.
pub(super) const NO_OFFSET: i32 = i32::MIN;

/// An id that cel-go has assigned to a node that is created later.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reserved {
    id: u64,
    pub(super) offset: i32,
}

/// A tree under construction.
pub(super) struct Builder<'o> {
    pub(super) options: &'o ParseOptions,
    exprs: Vec<Expr>,
    offsets: Vec<i32>,
    /// Nodes in place of unreadable text; only the error-recovering parser creates them.
    unspecified: Vec<ExprId>,
    /// The next id that cel-go would assign: entries and calls that became macros also have ids.
    next_id: u64,
}

impl<'o> Builder<'o> {
    pub(super) fn new(options: &'o ParseOptions, capacity: usize) -> Self {
        Self {
            options,
            exprs: Vec::with_capacity(capacity),
            offsets: Vec::with_capacity(capacity),
            unspecified: Vec::new(),
            next_id: 1,
        }
    }

    /// The number of ids that cel-go would have assigned.
    pub(super) fn count(&self) -> u64 {
        self.next_id - 1
    }

    pub(super) fn expr(&self, id: ExprId) -> &Expr {
        &self.exprs[id.index()]
    }

    pub(super) fn offset(&self, id: ExprId) -> i32 {
        self.offsets[id.index()]
    }

    /// Assigns an id to a node at `offset`.
    pub(super) fn reserve(&mut self, offset: i32) -> Reserved {
        let id = self.next_id;
        self.next_id += 1;
        Reserved { id, offset }
    }

    /// The id of a node whose operator is missing.
    pub(super) fn reserve_nowhere() -> Reserved {
        Reserved {
            id: 0,
            offset: NO_OFFSET,
        }
    }

    /// Takes back the id of a call that became something else.
    pub(super) fn release(&mut self, reserved: Reserved) {
        if reserved.id + 1 == self.next_id {
            self.next_id -= 1;
        }
    }

    /// Creates the node for which an id was reserved.
    pub(super) fn place(&mut self, reserved: Reserved, expr: Expr) -> ExprId {
        let id = ExprId(self.exprs.len() as u32);
        self.exprs.push(expr);
        self.offsets.push(reserved.offset);
        id
    }

    /// Makes a node.
    pub(super) fn add(&mut self, offset: i32, expr: Expr) -> ExprId {
        let reserved = self.reserve(offset);
        self.place(reserved, expr)
    }

    /// Adds a node in place of unreadable text.
    pub(super) fn add_unspecified(&mut self, offset: i32) -> ExprId {
        let id = self.add(offset, Expr::Map(Vec::new()));
        self.unspecified.push(id);
        id
    }

    pub(super) fn is_unspecified(&self, id: ExprId) -> bool {
        !self.unspecified.is_empty() && self.unspecified.contains(&id)
    }

    pub(super) fn literal(&mut self, offset: i32, literal: Literal) -> ExprId {
        self.add(offset, Expr::Literal(literal))
    }

    pub(super) fn ident(&mut self, offset: i32, name: Name) -> ExprId {
        self.add(offset, Expr::Ident(name))
    }

    /// The accumulator of a fold.
    pub(super) fn accumulator(&mut self, offset: i32) -> ExprId {
        let name = self.accumulator_name();
        self.ident(offset, name)
    }

    pub(super) fn accumulator_name(&self) -> Name {
        if self.options.hidden_accumulator {
            SHARED.hidden.clone()
        } else {
            SHARED.traditional.clone()
        }
    }

    /// A call of an operator or well-known function.
    pub(super) fn call(&mut self, offset: i32, op: Op, args: Vec<ExprId>) -> ExprId {
        let reserved = self.reserve(offset);
        self.place_call(reserved, op, args)
    }

    pub(super) fn place_call(&mut self, reserved: Reserved, op: Op, args: Vec<ExprId>) -> ExprId {
        self.place(
            reserved,
            Expr::Call {
                function: SHARED.ops[op as usize].clone(),
                target: None,
                args,
            },
        )
    }

    /// A method of a well-known function.
    pub(super) fn method(&mut self, offset: i32, op: Op, target: ExprId, args: Vec<ExprId>) -> ExprId {
        self.add(
            offset,
            Expr::Call {
                function: SHARED.ops[op as usize].clone(),
                target: Some(target),
                args,
            },
        )
    }

    pub(super) fn list(&mut self, offset: i32, elements: Vec<ExprId>) -> ExprId {
        self.add(
            offset,
            Expr::List {
                elements,
                optional: Vec::new(),
            },
        )
    }

    pub(super) fn comprehension(&mut self, offset: i32, fold: Comprehension) -> ExprId {
        self.add(offset, Expr::Comprehension(Box::new(fold)))
    }

    /// Joins the operands of a chain of `&&` or `||`; `ops` has one element fewer than `terms`.
    pub(super) fn logic(&mut self, op: Op, terms: &[ExprId], ops: &[Reserved]) -> ExprId {
        if self.options.variadic_logic && terms.len() > 1 {
            return self.place_call(ops[0], op, terms.to_vec());
        }
        match ops.len() {
            0 => terms[0],
            n => {
                // The middle operator is the root, the later one of two.
                let middle = n / 2;
                let left = self.logic(op, &terms[..=middle], &ops[..middle]);
                let right = self.logic(op, &terms[middle + 1..], &ops[middle + 1..]);
                self.place_call(ops[middle], op, vec![left, right])
            }
        }
    }

    /// Copies a subtree; its nodes keep their locations, except that entries get the location of the macro, as in
    /// cel-go. `None` if the tree would exceed the limit.
    pub(super) fn copy(&mut self, macro_offset: i32, id: ExprId) -> Option<ExprId> {
        if self.count() > 2 * self.options.node_limit as u64 {
            return None;
        }
        let reserved = self.reserve(self.offset(id));
        let expr = match self.expr(id).clone() {
            leaf @ (Expr::Literal(_) | Expr::Ident(_)) => leaf,
            Expr::Select {
                operand,
                field,
                test_only,
            } => Expr::Select {
                operand: self.copy(macro_offset, operand)?,
                field,
                test_only,
            },
            Expr::Call { function, target, args } => {
                let args = self.copy_all(macro_offset, &args)?;
                let target = match target {
                    Some(target) => Some(self.copy(macro_offset, target)?),
                    None => None,
                };
                Expr::Call { function, target, args }
            }
            Expr::List { elements, optional } => Expr::List {
                elements: self.copy_all(macro_offset, &elements)?,
                optional,
            },
            Expr::Map(entries) => Expr::Map(
                entries
                    .iter()
                    .map(|entry| {
                        let at = self.reserve(macro_offset);
                        Some(MapEntry {
                            key: self.copy(macro_offset, entry.key)?,
                            value: self.copy(macro_offset, entry.value)?,
                            optional: entry.optional,
                            offset: at.offset.max(0) as u32,
                        })
                    })
                    .collect::<Option<_>>()?,
            ),
            Expr::Struct { type_name, fields } => Expr::Struct {
                type_name,
                fields: fields
                    .iter()
                    .map(|field| {
                        let at = self.reserve(macro_offset);
                        Some(StructField {
                            name: field.name.clone(),
                            value: self.copy(macro_offset, field.value)?,
                            optional: field.optional,
                            offset: at.offset.max(0) as u32,
                        })
                    })
                    .collect::<Option<_>>()?,
            },
            Expr::Comprehension(fold) => {
                let Comprehension {
                    iter_var,
                    iter_var2,
                    accu_var,
                    ..
                } = (*fold).clone();
                Expr::Comprehension(Box::new(Comprehension {
                    iter_var,
                    iter_var2,
                    iter_range: self.copy(macro_offset, fold.iter_range)?,
                    accu_var,
                    accu_init: self.copy(macro_offset, fold.accu_init)?,
                    loop_condition: self.copy(macro_offset, fold.loop_condition)?,
                    loop_step: self.copy(macro_offset, fold.loop_step)?,
                    result: self.copy(macro_offset, fold.result)?,
                }))
            }
        };
        Some(self.place(reserved, expr))
    }

    fn copy_all(&mut self, macro_offset: i32, ids: &[ExprId]) -> Option<Vec<ExprId>> {
        ids.iter().map(|id| self.copy(macro_offset, *id)).collect()
    }

    /// Drops the nodes from `first` on: they turned out to be the parts of a message's name.
    pub(super) fn truncate(&mut self, first: ExprId) {
        self.next_id -= (self.exprs.len() - first.index()) as u64;
        self.exprs.truncate(first.index());
        self.offsets.truncate(first.index());
    }

    pub(super) fn finish(self, root: ExprId) -> Ast {
        let offsets = self.offsets.into_iter().map(|offset| offset.max(0) as u32).collect();
        Ast::new(self.exprs, offsets, root)
    }
}
