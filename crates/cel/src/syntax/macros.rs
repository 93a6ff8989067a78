//! Macros: calls that are rewritten while parsing.
//!
//! Upstream counterpart: cel-go `parser/macro.go`, `cel/library.go` (optionals), `ext/{bindings,comprehensions,lists,
//! math,protos}.go`, Kyverno's `orValueCompatMacro`, and the test macros of cel-spec's `block_ext`. Every node that a
//! macro creates is located at the call's parenthesis.

use std::sync::Arc;

use super::build::{Builder, Op, Reserved, TRADITIONAL_ACCUMULATOR, sort_variable, unused_variable};
use crate::ast::{Comprehension, Expr, ExprId, Literal, Name};

/// A call that may be a macro.
pub(super) struct Call<'a> {
    pub(super) at: Reserved,
    pub(super) function: &'a str,
    pub(super) target: Option<ExprId>,
    pub(super) args: &'a [ExprId],
}

/// A macro expansion error: the offending location and cel-go's message.
#[derive(Debug)]
pub(super) struct MacroError {
    pub(super) offset: i32,
    pub(super) message: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quantifier {
    All,
    Exists,
    ExistsOne,
}

#[derive(Clone, Copy)]
enum Macro {
    Has,
    Quantifier(Quantifier),
    Map,
    Filter,
    Quantifier2(Quantifier),
    TransformList,
    TransformMap,
    TransformMapEntry,
    OptMap { flat: bool },
    Bind,
    Block,
    Index,
    Variable { accumulator: bool },
    SortBy,
    Math { greatest: bool },
    ProtoExt { presence: bool },
    OrValueCompat,
}

/// Expands a call if it is a macro of the environment; `Ok(None)` if it is a plain call.
pub(super) fn expand(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Option<ExprId>, MacroError> {
    let Some(found) = find(b, call) else { return Ok(None) };
    let limit = b.options.node_limit;
    let check = |b: &Builder<'_>| {
        if b.count() > limit as u64 {
            let message = format!(
                "expression count exceeds limit of {limit} while expanding macro '{}'",
                call.function
            );
            return Err(MacroError {
                offset: call.at.offset,
                message,
            });
        }
        Ok(())
    };
    check(b)?;
    let mut expander = Expander {
        b,
        at: call.at.offset,
        target: call.target,
        args: call.args,
    };
    let expanded = expander.expand(found)?;
    check(b)?;
    Ok(expanded)
}

/// cel-go's macro key: name, number of arguments, whether there is a receiver.
fn find(b: &Builder<'_>, call: &Call<'_>) -> Option<Macro> {
    let on = &b.options.macros;
    let count = call.args.len();
    if call.target.is_none() {
        return (call.function == "has" && count == 1 && on.standard).then_some(Macro::Has);
    }
    let (enabled, found) = match (call.function, count) {
        ("all", 2) => (on.standard, Macro::Quantifier(Quantifier::All)),
        ("exists", 2) => (on.standard, Macro::Quantifier(Quantifier::Exists)),
        ("exists_one", 2) => (on.standard, Macro::Quantifier(Quantifier::ExistsOne)),
        ("existsOne", 2) => (on.exists_one_camel, Macro::Quantifier(Quantifier::ExistsOne)),
        ("map", 2 | 3) => (on.standard, Macro::Map),
        ("filter", 2) => (on.standard, Macro::Filter),
        ("all", 3) => (on.two_variable, Macro::Quantifier2(Quantifier::All)),
        ("exists", 3) => (on.two_variable, Macro::Quantifier2(Quantifier::Exists)),
        ("exists_one" | "existsOne", 3) => (on.two_variable, Macro::Quantifier2(Quantifier::ExistsOne)),
        ("transformList", 3 | 4) => (on.two_variable, Macro::TransformList),
        ("transformMap", 3 | 4) => (on.two_variable, Macro::TransformMap),
        ("transformMapEntry", 3 | 4) => (on.two_variable, Macro::TransformMapEntry),
        ("optMap", 2) => (on.opt_map, Macro::OptMap { flat: false }),
        ("optFlatMap", 2) => (on.opt_flat_map, Macro::OptMap { flat: true }),
        ("bind", 3) => (on.bind, Macro::Bind),
        ("block", 2) => (on.block, Macro::Block),
        ("index", 1) => (on.block, Macro::Index),
        ("iterVar", 2) => (on.block, Macro::Variable { accumulator: false }),
        ("accuVar", 2) => (on.block, Macro::Variable { accumulator: true }),
        ("sortBy", 2) => (on.sort_by, Macro::SortBy),
        ("greatest", _) => (on.math, Macro::Math { greatest: true }),
        ("least", _) => (on.math, Macro::Math { greatest: false }),
        ("getExt", 2) => (on.protos, Macro::ProtoExt { presence: false }),
        ("hasExt", 2) => (on.protos, Macro::ProtoExt { presence: true }),
        ("orValue", 1) => (on.or_value_compat, Macro::OrValueCompat),
        _ => return None,
    };
    enabled.then_some(found)
}

struct Expander<'a, 'o> {
    b: &'a mut Builder<'o>,
    /// The location of the call's parenthesis.
    at: i32,
    target: Option<ExprId>,
    args: &'a [ExprId],
}

type Expanded = Result<ExprId, MacroError>;

impl Expander<'_, '_> {
    fn expand(&mut self, found: Macro) -> Result<Option<ExprId>, MacroError> {
        let Some(target) = self.target else {
            return self.has().map(Some);
        };
        match found {
            Macro::Has => self.has(),
            Macro::Quantifier(kind) => self.quantifier(kind, target),
            Macro::Map => self.map(target, self.args),
            Macro::Filter => self.filter(target),
            Macro::Quantifier2(kind) => self.quantifier2(kind, target),
            Macro::TransformList | Macro::TransformMap | Macro::TransformMapEntry => self.transform(found, target),
            Macro::OptMap { flat } => self.opt_map(flat, target),
            Macro::Bind if self.is_namespace(target, "cel") => self.bind(),
            Macro::Block if self.is_namespace(target, "cel") => self.block(),
            Macro::Index if self.is_namespace(target, "cel") => self.block_index(),
            Macro::Variable { accumulator } if self.is_namespace(target, "cel") => self.block_variable(accumulator),
            Macro::SortBy => self.sort_by(target),
            Macro::Math { greatest } if self.is_namespace(target, "math") => self.math(greatest, target),
            Macro::ProtoExt { presence } if self.is_namespace(target, "proto") => self.proto_ext(presence),
            Macro::OrValueCompat => Ok(self.call(Op::OrValueCompat, vec![target, self.args[0]])),
            Macro::Bind
            | Macro::Block
            | Macro::Index
            | Macro::Variable { .. }
            | Macro::Math { .. }
            | Macro::ProtoExt { .. } => return Ok(None),
        }
        .map(Some)
    }

    fn is_namespace(&self, target: ExprId, name: &str) -> bool {
        matches!(self.b.expr(target), Expr::Ident(ident) if **ident == *name)
    }

    fn error<T>(&self, culprit: ExprId, message: impl Into<String>) -> Result<T, MacroError> {
        Err(MacroError {
            offset: self.b.offset(culprit),
            message: message.into(),
        })
    }

    fn name_of(&self, id: ExprId) -> Option<Name> {
        match self.b.expr(id) {
            Expr::Ident(name) => Some(name.clone()),
            _ => None,
        }
    }

    fn call(&mut self, op: Op, args: Vec<ExprId>) -> ExprId {
        self.b.call(self.at, op, args)
    }

    fn literal(&mut self, literal: Literal) -> ExprId {
        self.b.literal(self.at, literal)
    }

    fn accumulator(&mut self) -> ExprId {
        self.b.accumulator(self.at)
    }

    fn has(&mut self) -> Expanded {
        let Expr::Select { operand, field, .. } = self.b.expr(self.args[0]) else {
            return self.error(self.args[0], "invalid argument to has() macro");
        };
        let test = Expr::Select {
            operand: *operand,
            field: field.clone(),
            test_only: true,
        };
        Ok(self.b.add(self.at, test))
    }

    /// The iteration variable, which must be a name other than the accumulator's.
    fn variable(&self, arg: ExprId, not_a_name: &str) -> Result<Name, MacroError> {
        let Some(name) = self.name_of(arg) else {
            return self.error(arg, not_a_name);
        };
        if self.is_accumulator(&name) {
            return self.error(arg, OVERWRITES);
        }
        Ok(name)
    }

    fn is_accumulator(&self, name: &str) -> bool {
        *name == *self.b.accumulator_name() || name == TRADITIONAL_ACCUMULATOR
    }

    fn variables2(&self) -> Result<(Name, Name), MacroError> {
        let (first, second) = (self.args[0], self.args[1]);
        let Some(name1) = self.name_of(first) else {
            return self.error(first, NOT_SIMPLE);
        };
        let Some(name2) = self.name_of(second) else {
            return self.error(second, NOT_SIMPLE);
        };
        if name1 == name2 {
            return self.error(second, format!("duplicate variable name: {name1}"));
        }
        if self.is_accumulator(&name1) {
            return self.error(first, OVERWRITES);
        }
        if self.is_accumulator(&name2) {
            return self.error(second, OVERWRITES);
        }
        Ok((name1, name2))
    }

    fn quantifier(&mut self, kind: Quantifier, target: ExprId) -> Expanded {
        let iter_var = self.variable(self.args[0], NOT_SIMPLE)?;
        Ok(self.quantify(kind, target, iter_var, None, self.args[1]))
    }

    fn quantifier2(&mut self, kind: Quantifier, target: ExprId) -> Expanded {
        let (iter_var, iter_var2) = self.variables2()?;
        Ok(self.quantify(kind, target, iter_var, Some(iter_var2), self.args[2]))
    }

    fn quantify(
        &mut self,
        kind: Quantifier,
        iter_range: ExprId,
        iter_var: Name,
        iter_var2: Option<Name>,
        predicate: ExprId,
    ) -> ExprId {
        let (accu_init, loop_condition, loop_step, result);
        match kind {
            Quantifier::All => {
                accu_init = self.literal(Literal::Bool(true));
                let accu = self.accumulator();
                loop_condition = self.call(Op::NotStrictlyFalse, vec![accu]);
                let accu = self.accumulator();
                loop_step = self.call(Op::And, vec![accu, predicate]);
                result = self.accumulator();
            }
            Quantifier::Exists => {
                accu_init = self.literal(Literal::Bool(false));
                let accu = self.accumulator();
                let not = self.call(Op::Not, vec![accu]);
                loop_condition = self.call(Op::NotStrictlyFalse, vec![not]);
                let accu = self.accumulator();
                loop_step = self.call(Op::Or, vec![accu, predicate]);
                result = self.accumulator();
            }
            Quantifier::ExistsOne => {
                accu_init = self.literal(Literal::Int(0));
                loop_condition = self.literal(Literal::Bool(true));
                let accu = self.accumulator();
                let one = self.literal(Literal::Int(1));
                let more = self.call(Op::Add, vec![accu, one]);
                let same = self.accumulator();
                loop_step = self.call(Op::Conditional, vec![predicate, more, same]);
                let accu = self.accumulator();
                let one = self.literal(Literal::Int(1));
                result = self.call(Op::Equals, vec![accu, one]);
            }
        }
        self.fold(
            iter_range,
            (iter_var, iter_var2),
            [accu_init, loop_condition, loop_step, result],
        )
    }

    /// A fold with its initial value, condition, step and result.
    fn fold(&mut self, iter_range: ExprId, (iter_var, iter_var2): (Name, Option<Name>), parts: [ExprId; 4]) -> ExprId {
        let [accu_init, loop_condition, loop_step, result] = parts;
        let accu_var = self.b.accumulator_name();
        self.b.comprehension(
            self.at,
            Comprehension {
                iter_var,
                iter_var2,
                iter_range,
                accu_var,
                accu_init,
                loop_condition,
                loop_step,
                result,
            },
        )
    }

    /// A fold that adds to the accumulator, under the condition of the filter if there is one.
    fn collect(
        &mut self,
        iter_range: ExprId,
        (iter_var, iter_var2): (Name, Option<Name>),
        accu_init: ExprId,
        filter: Option<ExprId>,
        step: ExprId,
    ) -> ExprId {
        let loop_condition = self.literal(Literal::Bool(true));
        let loop_step = match filter {
            Some(filter) => {
                let same = self.accumulator();
                self.call(Op::Conditional, vec![filter, step, same])
            }
            None => step,
        };
        let result = self.accumulator();
        self.fold(
            iter_range,
            (iter_var, iter_var2),
            [accu_init, loop_condition, loop_step, result],
        )
    }

    fn append(&mut self, element: ExprId) -> ExprId {
        let accu = self.accumulator();
        let list = self.b.list(self.at, vec![element]);
        self.call(Op::Add, vec![accu, list])
    }

    fn map(&mut self, target: ExprId, args: &[ExprId]) -> Expanded {
        let variable = self.variable(args[0], NOT_IDENTIFIER)?;
        let (filter, transform) = match *args {
            [_, filter, transform] => (Some(filter), transform),
            _ => (None, args[1]),
        };
        let init = self.b.list(self.at, Vec::new());
        let step = self.append(transform);
        Ok(self.collect(target, (variable, None), init, filter, step))
    }

    fn filter(&mut self, target: ExprId) -> Expanded {
        let variable = self.variable(self.args[0], NOT_IDENTIFIER)?;
        let init = self.b.list(self.at, Vec::new());
        let step = self.append(self.args[0]);
        Ok(self.collect(target, (variable, None), init, Some(self.args[1]), step))
    }

    fn transform(&mut self, kind: Macro, target: ExprId) -> Expanded {
        let (name1, name2) = self.variables2()?;
        let (filter, transform) = match *self.args {
            [_, _, filter, transform] => (Some(filter), transform),
            _ => (None, self.args[2]),
        };
        let (init, step) = if let Macro::TransformList = kind {
            (self.b.list(self.at, Vec::new()), self.append(transform))
        } else {
            let accu = self.accumulator();
            let mut args = vec![accu];
            if let Macro::TransformMap = kind {
                args.push(self.b.ident(self.at, name1.clone()));
            }
            args.push(transform);
            let step = self.call(Op::MapInsert, args);
            (self.b.add(self.at, Expr::Map(Vec::new())), step)
        };
        Ok(self.collect(target, (name1, Some(name2)), init, filter, step))
    }

    /// A fold over nothing whose accumulator is a local variable.
    fn let_in(&mut self, accu_var: Name, accu_init: ExprId, loop_step: ExprId, result: ExprId) -> ExprId {
        let iter_range = self.b.list(self.at, Vec::new());
        let loop_condition = self.literal(Literal::Bool(false));
        self.b.comprehension(
            self.at,
            Comprehension {
                iter_var: unused_variable(),
                iter_var2: None,
                iter_range,
                accu_var,
                accu_init,
                loop_condition,
                loop_step,
                result,
            },
        )
    }

    fn bind(&mut self) -> Expanded {
        let Some(name) = self.name_of(self.args[0]) else {
            return self.error(self.args[0], "cel.bind() variable names must be simple identifiers");
        };
        let step = self.b.ident(self.at, name.clone());
        Ok(self.let_in(name, self.args[1], step, self.args[2]))
    }

    /// The slots of a block are local variables, each evaluated on first use; one may read those before it.
    fn block(&mut self) -> Expanded {
        let Expr::List { elements, optional } = self.b.expr(self.args[0]) else {
            return self.error(self.args[0], "cel.block() slots must be a list literal");
        };
        if !optional.is_empty() {
            return self.error(self.args[0], "cel.block() slots cannot be optional");
        }
        let slots = elements.clone();
        let mut body = self.args[1];
        for (i, slot) in slots.into_iter().enumerate().rev() {
            let name = Name::from(format!("@index{i}"));
            let step = self.b.ident(self.at, name.clone());
            body = self.let_in(name, slot, step, body);
        }
        Ok(body)
    }

    fn block_index(&mut self) -> Expanded {
        let i = self.small_number(self.args[0])?;
        Ok(self.b.ident(self.at, Name::from(format!("@index{i}"))))
    }

    fn block_variable(&mut self, accumulator: bool) -> Expanded {
        let kind = if accumulator { "ac" } else { "it" };
        let (depth, unique) = (self.small_number(self.args[0])?, self.small_number(self.args[1])?);
        Ok(self.b.ident(self.at, Name::from(format!("@{kind}:{depth}:{unique}"))))
    }

    fn small_number(&self, arg: ExprId) -> Result<u32, MacroError> {
        match self.b.expr(arg) {
            Expr::Literal(Literal::Int(i)) if u32::try_from(*i).is_ok() => Ok(*i as u32),
            _ => self.error(arg, "argument must be a small non-negative integer literal"),
        }
    }

    fn opt_map(&mut self, flat: bool, target: ExprId) -> Expanded {
        let Some(name) = self.name_of(self.args[0]) else {
            let function = if flat { "optFlatMap" } else { "optMap" };
            return self.error(
                self.args[0],
                format!("{function}() variable name must be a simple identifier"),
            );
        };
        let present = self.b.method(self.at, Op::HasValue, target, Vec::new());
        let Some(again) = self.b.copy(self.at, target) else {
            let message = format!(
                "expression count exceeds limit of {} while expanding macro '{}'",
                self.b.options.node_limit,
                if flat { "optFlatMap" } else { "optMap" }
            );
            return Err(MacroError {
                offset: self.at,
                message,
            });
        };
        let value = self.b.method(self.at, Op::Value, again, Vec::new());
        let step = self.b.ident(self.at, name.clone());
        let mut mapped = self.let_in(name, value, step, self.args[1]);
        if !flat {
            mapped = self.call(Op::OptionalOf, vec![mapped]);
        }
        let none = self.call(Op::OptionalNone, Vec::new());
        Ok(self.call(Op::Conditional, vec![present, mapped, none]))
    }

    fn sort_by(&mut self, target: ExprId) -> Expanded {
        let input = self.b.ident(self.at, sort_variable());
        let suitable = match self.b.expr(target) {
            Expr::List { .. } | Expr::Select { .. } | Expr::Ident(_) | Expr::Comprehension(_) | Expr::Call { .. } => {
                true
            }
            Expr::Literal(_) | Expr::Map(_) | Expr::Struct { .. } => false,
        };
        if !suitable {
            return self.error(
                target,
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
            );
        }
        let range = self.b.ident(self.at, sort_variable());
        let keys = self.map(range, self.args)?;
        let receiver = self.b.ident(self.at, sort_variable());
        let sorted = self.b.method(self.at, Op::SortByAssociatedKeys, receiver, vec![keys]);
        Ok(self.let_in(sort_variable(), target, input, sorted))
    }

    fn math(&mut self, greatest: bool, target: ExprId) -> Expanded {
        let (name, op) = if greatest {
            ("math.greatest()", Op::MathMax)
        } else {
            ("math.least()", Op::MathMin)
        };
        match *self.args {
            [] => return self.error(target, format!("{name} requires at least one argument")),
            [single] => {
                let numbers = match self.b.expr(single) {
                    Expr::List { elements, .. } => {
                        !elements.is_empty() && elements.iter().all(|element| self.may_be_number(*element))
                    }
                    _ => self.may_be_number(single),
                };
                if !numbers {
                    return self.error(single, format!("{name} invalid single argument value"));
                }
            }
            _ => {
                if let Some(bad) = self.args.iter().find(|arg| !self.may_be_number(**arg)) {
                    return self.error(*bad, format!("{name} simple literal arguments must be numeric"));
                }
            }
        }
        let args = if self.args.len() > 2 {
            vec![self.b.list(self.at, self.args.to_vec())]
        } else {
            self.args.to_vec()
        };
        Ok(self.call(op, args))
    }

    fn may_be_number(&self, id: ExprId) -> bool {
        match self.b.expr(id) {
            Expr::Literal(literal) => matches!(literal, Literal::Int(_) | Literal::Uint(_) | Literal::Double(_)),
            Expr::List { .. } | Expr::Struct { .. } => false,
            Expr::Map(_) => self.b.is_unspecified(id),
            Expr::Ident(_) | Expr::Select { .. } | Expr::Call { .. } | Expr::Comprehension(_) => true,
        }
    }

    fn proto_ext(&mut self, presence: bool) -> Expanded {
        let Some(field) = self.qualified_name(self.args[1]) else {
            return self.error(self.args[1], "invalid extension field");
        };
        let select = Expr::Select {
            operand: self.args[0],
            field: Arc::from(field),
            test_only: presence,
        };
        Ok(self.b.add(self.at, select))
    }

    /// The dotted name that a chain of selections forms; `None` for a single name.
    fn qualified_name(&self, id: ExprId) -> Option<String> {
        let mut parts = Vec::new();
        let mut id = id;
        loop {
            match self.b.expr(id) {
                Expr::Select {
                    operand,
                    field,
                    test_only: false,
                } => {
                    parts.push(&**field);
                    id = *operand;
                }
                Expr::Ident(name) if !parts.is_empty() => {
                    parts.push(&**name);
                    parts.reverse();
                    return Some(parts.join("."));
                }
                _ => return None,
            }
        }
    }
}

const NOT_SIMPLE: &str = "argument must be a simple name";
const NOT_IDENTIFIER: &str = "argument is not an identifier";
const OVERWRITES: &str = "iteration variable overwrites accumulator variable";
