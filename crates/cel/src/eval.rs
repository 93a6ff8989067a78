//! The evaluator.
//!
//! Upstream counterpart: cel-go `interpreter/{interpretable,attributes,runtimecost}.go`. Errors are values; `&&`, `||`
//! and the comprehensions built on them absorb errors as cel-go does. Cost is counted at the same points and in the
//! same order as by cel-go's observer, so that a limit is hit at the same moment.
//!
//! Known deviation: maps are iterated in document order; Go's order is random.
//!
//! Exact costs: cel-go finds the arguments of a call by searching a stack of observed values. A call that stopped at an
//! argument's error is not found there and costs nothing, and the values it left behind can mislead a later search.
//! That can only happen inside a comprehension, after such a stop. [`evaluate`] therefore counts without a stack and,
//! in the rare case, runs again with `cost_stack` doing the search.

mod attribute;
mod call;
mod literal;
mod parts;

pub(crate) use call::invoke;

use super::{
    context::{Context, Scratch, WORK_LIMIT_EXCEEDED},
    cost,
    cost_stack::CostStack,
    host::Host,
    observe::Observer,
    ops,
    program::*,
    val::{NO_SUCH_OVERLOAD, Val},
};

/// The values of an expression's variables, by number; `None` is not bound.
#[derive(Clone, Copy)]
pub struct Activation<'a> {
    pub values: &'a [Option<Val<'a>>],
    /// The value of [`Val::Variables`].
    pub variables: Option<&'a dyn Variables<'a>>,
}

impl std::fmt::Debug for Activation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Activation")
            .field("values", &self.values)
            .finish_non_exhaustive()
    }
}

/// The composited `variables` of a policy: evaluated on first use.
pub trait Variables<'a> {
    /// The value of a variable, or its error; `None` if there is no such variable.
    fn get(&'a self, name: &str) -> Option<Val<'a>>;
}

/// The result of an evaluation.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    pub value: Val<'a>,
    /// 0 if the profile does not count cost.
    pub cost: u64,
}

/// The error of an evaluation that exceeds its cost limit.
pub const COST_LIMIT_EXCEEDED: &str = "operation cancelled: actual cost limit exceeded";

/// Evaluates a program. `limit` overrides the profile's cost limit.
pub fn evaluate<'a>(
    program: &'a Program,
    scratch: &'a Scratch,
    activation: Activation<'a>,
    host: &'a dyn Host,
    limit: Option<u64>,
) -> Outcome<'a> {
    let context = Context::new(scratch, program.profile, host);
    let counting = program.profile.cost_limit.map(|default| limit.unwrap_or(default));
    let mut machine = Machine {
        program,
        context,
        activation,
        slots: context.bump().alloc_slice_fill_copy(program.slots as usize, None),
        counting: counting.is_some(),
        limit: counting.unwrap_or(u64::MAX),
        cost: 0,
        cancelled: false,
        final_cost: 0,
        stopped_early: false,
        trace: None,
        observer: host.observer(),
        detour: false,
    };
    machine.detour = machine.observer.is_some();
    let outer = scratch.account(0);
    let mut value = machine.eval(program.root);
    if machine.stopped_early && machine.counting && program.has_fold {
        let first = (value, machine.cost, machine.cancelled);
        let exhausted = scratch.is_exhausted();
        machine.restart();
        scratch.account(0);
        value = machine.eval(program.root);
        // The stack itself may exceed the work limit.
        if scratch.is_exhausted() && !exhausted {
            (value, machine.cost, machine.cancelled) = first;
            scratch.account(0);
        }
    }
    if machine.cancelled {
        value = Val::Error(COST_LIMIT_EXCEEDED);
    } else if scratch.is_exhausted() {
        value = Val::Error(WORK_LIMIT_EXCEEDED);
    }
    let cost = if machine.counting { machine.cost } else { 0 };
    if let Some(trace) = machine.observer.and_then(Observer::trace) {
        machine.record_parts(trace, value);
    }
    scratch.account(outer);
    Outcome { value, cost }
}

pub(super) struct Machine<'a> {
    pub(super) program: &'a Program,
    pub(super) context: Context<'a>,
    activation: Activation<'a>,
    pub(super) slots: &'a mut [Option<Val<'a>>],
    counting: bool,
    limit: u64,
    cost: u64,
    /// Whether the limit was exceeded; nothing is counted from then on, and loops end.
    pub(super) cancelled: bool,
    final_cost: u64,
    /// Whether a call or literal stopped at an argument's error before all its arguments were evaluated.
    stopped_early: bool,
    pub(super) trace: Option<Box<CostStack<'a>>>,
    observer: Option<&'a Observer>,
    /// Whether nodes are evaluated in [`Machine::eval_detour`]: there is an observer, or the limit was exceeded.
    detour: bool,
}

impl<'a> Machine<'a> {
    /// The value of a comprehension's variable.
    fn slot(&self, slot: Slot) -> Option<Val<'a>> {
        self.slots.get(slot.0 as usize).copied().flatten()
    }

    fn set_slot(&mut self, slot: Slot, value: Option<Val<'a>>) {
        if let Some(place) = self.slots.get_mut(slot.0 as usize) {
            *place = value;
        }
    }

    #[cold]
    fn restart(&mut self) {
        self.cost = 0;
        self.cancelled = false;
        self.detour = self.observer.is_some();
        self.slots.fill(None);
        self.trace = Some(Box::default());
    }

    /// Adds to the cost.
    #[inline]
    pub(super) fn charge(&mut self, amount: u64) {
        self.cost = self.cost.saturating_add(amount);
        if self.cost > self.limit {
            self.exceed();
        }
    }

    /// Records that evaluation stopped at an argument's error before all arguments were evaluated.
    pub(super) fn stop_early(&mut self) {
        self.stopped_early |= !self.cancelled;
    }

    /// Ends the evaluation at the cost that it had when the limit was first exceeded.
    #[cold]
    fn exceed(&mut self) {
        if self.cancelled {
            self.cost = self.final_cost;
        } else {
            self.cancelled = true;
            self.detour = true;
            self.final_cost = self.cost;
        }
    }

    #[inline]
    pub(super) fn eval(&mut self, id: NodeId) -> Val<'a> {
        if self.detour {
            return self.eval_detour(id);
        }
        self.eval_node(id)
    }

    #[cold]
    #[inline(never)]
    fn eval_detour(&mut self, id: NodeId) -> Val<'a> {
        // Upstream unwinds from the point where the limit was exceeded.
        if self.cancelled {
            return Val::Error(COST_LIMIT_EXCEEDED);
        }
        let value = self.eval_node(id);
        if let Some(observer) = self.observer {
            observer.value(self.program, id, &value);
        }
        value
    }

    fn eval_node(&mut self, id: NodeId) -> Val<'a> {
        let program = self.program;
        match &program.nodes[id.0 as usize] {
            Node::Constant(constant) => {
                let value = constant.value(&self.context);
                self.observe_value(id, value);
                value
            }
            Node::Attribute(attribute) => self.eval_attribute(id, attribute),
            Node::And(terms) => self.eval_logical(id, terms, false),
            Node::Or(terms) => self.eval_logical(id, terms, true),
            Node::Equal(a, b) => {
                let (left, right) = (self.eval(*a), self.eval(*b));
                let value = match (left, right) {
                    (Val::Error(_), _) => left,
                    (_, Val::Error(_)) => right,
                    _ => self.context.equals(&left, &right).map_or(NO_SUCH_OVERLOAD, Val::Bool),
                };
                if self.counting {
                    // kubernetes: pkg/cel/library/cost.go prices the equality of its own types at 1.
                    let price = if matches!(left, Val::Opaque(_)) {
                        1
                    } else {
                        cost::shorter(&left, &right)
                    };
                    self.charge_call(&[*a, *b], price);
                }
                self.observe_value(id, value);
                value
            }
            Node::NotEqual(a, b) => {
                let (left, right) = (self.eval(*a), self.eval(*b));
                let value = match (left, right) {
                    (Val::Error(_), _) => left,
                    (_, Val::Error(_)) => right,
                    _ => Val::Bool(self.context.equals(&left, &right) != Some(true)),
                };
                if self.counting {
                    self.charge_call(&[*a, *b], cost::shorter(&left, &right));
                }
                self.observe_value(id, value);
                value
            }
            Node::Not(a) => {
                let value = match self.eval(*a) {
                    Val::Bool(b) => Val::Bool(!b),
                    error @ Val::Error(_) => error,
                    _ => NO_SUCH_OVERLOAD,
                };
                self.charge_call(&[*a], 1);
                self.observe_value(id, value);
                value
            }
            Node::NotStrictlyFalse(a) => {
                let value = match self.eval(*a) {
                    Val::Bool(b) => Val::Bool(b),
                    _ => Val::Bool(true),
                };
                self.charge_call(&[*a], 1);
                self.observe_value(id, value);
                value
            }
            Node::Negate(a) => {
                let value = match self.eval(*a) {
                    error @ Val::Error(_) => error,
                    operand => ops::negate(&self.context, operand),
                };
                self.charge_call(&[*a], 1);
                self.observe_value(id, value);
                value
            }
            Node::Binary(operator, a, b, price) => {
                let (left, right) = (self.eval(*a), self.eval(*b));
                let value = match (left, right) {
                    (Val::Error(_), _) => left,
                    (_, Val::Error(_)) => right,
                    _ => binary(&self.context, *operator, left, right),
                };
                if self.counting {
                    let price = price.charge(&[left, right], &value);
                    self.charge_call(&[*a, *b], price);
                }
                self.observe_value(id, value);
                value
            }
            Node::Member(needle, elements) => {
                let value = match self.eval(*needle) {
                    error @ Val::Error(_) => error,
                    value => Val::Bool(
                        elements
                            .iter()
                            .any(|element| element.value(&self.context).equals(&value) == Some(true)),
                    ),
                };
                self.observe_value(id, value);
                value
            }
            Node::Call(call) => self.eval_call(id, call),
            Node::List { elements, optional } => self.eval_list(id, elements, optional),
            Node::Map { entries } => self.eval_map(id, entries),
            Node::Struct { name, fields } => self.eval_struct(id, name, fields),
            Node::Fold(fold) => self.eval_fold(id, fold),
            Node::Bind { slot, body } => {
                let mark = self.trace.as_ref().map(|trace| trace.len());
                let outer = self.slots[slot.0 as usize].take();
                let value = self.eval(*body);
                self.slots[slot.0 as usize] = outer;
                if let (Some(trace), Some(mark)) = (&mut self.trace, mark) {
                    trace.truncate(mark);
                }
                self.observe_value(id, value);
                value
            }
            Node::Unbound(names) => {
                let value = self.context.error(format_args!("no such attribute(s): {names}"));
                self.observe_value(id, value);
                value
            }
            Node::UnknownCall { function, args } => self.eval_unknown_call(id, function, args),
            Node::OptionalOr(a, b) => {
                let value = match self.eval(*a) {
                    Val::Optional(None) => self.eval(*b),
                    other => self.not_optional(other),
                };
                self.observe_value(id, value);
                value
            }
            Node::OptionalOrValue(a, b) => {
                let value = match self.eval(*a) {
                    Val::Optional(None) => self.eval(*b),
                    Val::Optional(Some(value)) => *value,
                    other => self.not_optional(other),
                };
                self.observe_value(id, value);
                value
            }
        }
    }

    fn not_optional(&self, value: Val<'a>) -> Val<'a> {
        match value {
            Val::Error(_) | Val::Optional(_) => value,
            _ if self.context.profile.behaviour.or_value_needs_optional => NO_SUCH_OVERLOAD,
            _ => value,
        }
    }

    /// Evaluates `&&` or `||`: `decisive` is the value that decides at once. The first error survives.
    fn eval_logical(&mut self, id: NodeId, terms: &[NodeId], decisive: bool) -> Val<'a> {
        let mut error = None;
        let mut value = Val::Bool(!decisive);
        for &term in terms {
            match self.eval(term) {
                Val::Bool(b) if b == decisive => {
                    value = Val::Bool(decisive);
                    error = None;
                    break;
                }
                Val::Bool(_) => {}
                failed @ Val::Error(_) => {
                    error = error.or(Some(failed));
                    if self.cancelled {
                        break;
                    }
                }
                _ => error = error.or(Some(NO_SUCH_OVERLOAD)),
            }
        }
        let value = error.unwrap_or(value);
        if let Some(trace) = &mut self.trace {
            for &term in terms {
                trace.drop_to(term);
            }
            trace.push(id, value);
        }
        value
    }

    pub(super) fn read_lazy(&mut self, slot: Slot, init: NodeId) -> Val<'a> {
        if let Some(value) = self.slots[slot.0 as usize] {
            return value;
        }
        let value = self.eval(init);
        self.slots[slot.0 as usize] = Some(value);
        value
    }

    #[inline]
    pub(super) fn observe_value(&mut self, id: NodeId, value: Val<'a>) {
        if let Some(trace) = &mut self.trace {
            trace.push(id, value);
        }
    }
}

fn binary<'a>(context: &Context<'a>, operator: Operator, a: Val<'a>, b: Val<'a>) -> Val<'a> {
    match operator {
        Operator::Add => ops::add(context, a, b),
        Operator::Subtract => ops::subtract(context, a, b),
        Operator::Multiply => ops::multiply(context, a, b),
        Operator::Divide => ops::divide(context, a, b),
        Operator::Modulo => ops::modulo(context, a, b),
        Operator::Less => ops::less(context, a, b),
        Operator::LessEquals => ops::less_equals(context, a, b),
        Operator::Greater => ops::greater(context, a, b),
        Operator::GreaterEquals => ops::greater_equals(context, a, b),
        Operator::In => ops::contains(context, a, b),
    }
}

/// Whether both are the same key of a Go map: same type and same value.
pub(super) fn same_go_key(a: &Val<'_>, b: &Val<'_>) -> bool {
    match (a, b) {
        (Val::String(a), Val::String(b)) => a == b,
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Int(a), Val::Int(b)) => a == b,
        (Val::Uint(a), Val::Uint(b)) => a == b,
        (Val::Double(a), Val::Double(b)) => a == b,
        _ => false,
    }
}
