//! The evaluator.
//!
//! Upstream counterpart: cel-go `interpreter/{interpretable,attributes,runtimecost}.go`. Errors are values; `&&`, `||`
//! and the comprehensions built on them absorb them as cel-go does. Cost is counted at the same places and in the same
//! order as cel-go's observer counts it, so that a limit is hit at the same moment.
//!
//! Maps are iterated in written order, where Go's order is random.
//!
//! Exact costs. cel-go finds the arguments of a call by searching a stack of observed values; a call that stopped at an
//! argument's error is not found there and costs nothing, and what it left behind can make a later search go wrong. That
//! can only happen inside of a comprehension, after such a stop. [`evaluate`] therefore counts without a stack and, in
//! the rare case, runs once more with `trace` doing the search.

use super::{
    context::{Context, Scratch},
    cost,
    decl::Binding,
    host::Host,
    ops,
    program::*,
    trace::Trace,
    val::{NO_SUCH_OVERLOAD, Val},
    wrapper,
};
use crate::value::Key;

/// The values of an expression's variables, by number; `None` is not bound.
#[derive(Clone, Copy)]
pub struct Activation<'a> {
    /// The values.
    pub values: &'a [Option<Val<'a>>],
    /// What [`Val::Variables`] stands for.
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
    /// The value of a variable, or the error that it ended in; `None` if there is no such variable.
    fn get(&'a self, name: &str) -> Option<Val<'a>>;
}

/// What an evaluation came to.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    /// The value or the error.
    pub value: Val<'a>,
    /// The cost; 0 where the profile does not count.
    pub cost: u64,
}

/// The text of the error of an evaluation that went over its limit.
pub const COST_LIMIT_EXCEEDED: &str = "operation cancelled: actual cost limit exceeded";

/// Evaluates a program. `limit` replaces the profile's limit of cost where it is given.
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
    };
    let mut value = machine.eval(program.root);
    if machine.stopped_early && machine.counting && program.has_fold {
        machine.restart();
        value = machine.eval(program.root);
    }
    if machine.cancelled {
        value = Val::Error(COST_LIMIT_EXCEEDED);
    }
    Outcome {
        value,
        cost: if machine.counting { machine.cost } else { 0 },
    }
}

pub(super) struct Machine<'a> {
    pub(super) program: &'a Program,
    pub(super) context: Context<'a>,
    activation: Activation<'a>,
    pub(super) slots: &'a mut [Option<Val<'a>>],
    counting: bool,
    limit: u64,
    cost: u64,
    /// Whether the limit was exceeded; nothing is counted any more then, and loops end.
    pub(super) cancelled: bool,
    final_cost: u64,
    /// Whether a call or literal stopped at an argument's error before all its arguments were evaluated.
    stopped_early: bool,
    pub(super) trace: Option<Box<Trace<'a>>>,
}

impl<'a> Machine<'a> {
    #[cold]
    fn restart(&mut self) {
        self.cost = 0;
        self.cancelled = false;
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

    /// Ends the evaluation at the cost that it had when the limit was first exceeded.
    #[cold]
    fn exceed(&mut self) {
        if self.cancelled {
            self.cost = self.final_cost;
        } else {
            self.cancelled = true;
            self.final_cost = self.cost;
        }
    }

    pub(super) fn eval(&mut self, id: NodeId) -> Val<'a> {
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
                    _ => left.equals(&right).map_or(NO_SUCH_OVERLOAD, Val::Bool),
                };
                if self.counting {
                    // kubernetes: pkg/cel/library/cost.go prices the equality of its own types at 1.
                    let price = if matches!(left, Val::Opaque(_)) {
                        1
                    } else {
                        cost::shorter(&left, &right)
                    };
                    self.charge_call(id, &[*a, *b], price);
                }
                self.observe_value(id, value);
                value
            }
            Node::NotEqual(a, b) => {
                let (left, right) = (self.eval(*a), self.eval(*b));
                let value = match (left, right) {
                    (Val::Error(_), _) => left,
                    (_, Val::Error(_)) => right,
                    _ => Val::Bool(left.equals(&right) != Some(true)),
                };
                if self.counting {
                    self.charge_call(id, &[*a, *b], cost::shorter(&left, &right));
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
                self.charge_call(id, &[*a], 1);
                self.observe_value(id, value);
                value
            }
            Node::NotStrictlyFalse(a) => {
                let value = match self.eval(*a) {
                    Val::Bool(b) => Val::Bool(b),
                    _ => Val::Bool(true),
                };
                self.charge_call(id, &[*a], 1);
                self.observe_value(id, value);
                value
            }
            Node::Negate(a) => {
                let value = match self.eval(*a) {
                    error @ Val::Error(_) => error,
                    operand => ops::negate(&self.context, operand),
                };
                self.charge_call(id, &[*a], 1);
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
                    self.charge_call(id, &[*a, *b], price);
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

    /// Both operators: `decisive` is the value that decides at once. The first error survives.
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

    fn eval_attribute(&mut self, id: NodeId, attribute: &'a Attribute) -> Val<'a> {
        let mut value = self.resolve(attribute);
        if attribute.test_only
            && let Val::Optional(inner) = value
        {
            value = Val::Bool(inner.is_some());
        }
        match &attribute.root {
            Root::Conditional(branches) => {
                if let Some(trace) = &mut self.trace {
                    trace.drop_conditional(branches);
                }
            }
            Root::Slot(_) | Root::LazySlot(..) | Root::Variable(_) | Root::Value(_) => {
                if let Some(trace) = &mut self.trace {
                    trace.drop_attribute(attribute);
                }
                // A presence test pays for its steps only.
                if !attribute.test_only {
                    self.charge(cost::SELECT);
                }
            }
        }
        self.observe_value(id, value);
        value
    }

    /// The value of an attribute without the cost of its root.
    fn resolve(&mut self, attribute: &'a Attribute) -> Val<'a> {
        let root = match &attribute.root {
            Root::Slot(slot) => self.slots[slot.0 as usize].unwrap_or(Val::Null),
            Root::LazySlot(slot, init) => self.read_lazy(*slot, *init),
            Root::Variable(number) => match self.activation.values.get(*number as usize) {
                Some(Some(value)) => *value,
                _ => {
                    let name = &self.program.variables[*number as usize];
                    return self.context.error(format_args!("no such attribute(s): {name}"));
                }
            },
            Root::Value(node) => self.eval(*node),
            Root::Conditional(branches) => {
                let (condition, truthy, falsy) = &**branches;
                return match self.eval(*condition) {
                    Val::Bool(true) => self.resolve(truthy),
                    Val::Bool(false) => self.resolve(falsy),
                    error @ Val::Error(_) => error,
                    _ => NO_SUCH_OVERLOAD,
                };
            }
        };
        if attribute.qualifiers.is_empty() || root.is_error() {
            return root;
        }
        self.apply(root, attribute)
    }

    #[inline]
    fn apply(&mut self, root: Val<'a>, attribute: &'a Attribute) -> Val<'a> {
        let mut object = root;
        let mut optional = false;
        if let Val::Optional(inner) = root {
            match inner {
                None => return Val::NONE,
                Some(inner) => object = *inner,
            }
            optional = true;
        }
        for (i, qualifier) in attribute.qualifiers.iter().enumerate() {
            let optional_so_far = optional;
            let (found, is_optional, test_only) = match qualifier {
                Qualifier::Field {
                    name,
                    hash,
                    optional,
                    test_only,
                } => {
                    let tested = *test_only || *optional || optional_so_far;
                    let found = match object {
                        Val::Opaque(opaque) if tested && opaque.is_set(name) == Some(false) => {
                            Found::Missing(Missing::Key(Val::String(name)))
                        }
                        object => self.field(object, name, *hash),
                    };
                    (found, *optional, *test_only)
                }
                Qualifier::Constant { key, optional } => (self.index(object, *key), *optional, false),
                Qualifier::Computed { index, optional } => {
                    let key = match &self.program.nodes[index.0 as usize] {
                        Node::Attribute(attribute) => self.resolve(attribute),
                        _ => self.eval(*index),
                    };
                    let found = match key {
                        Val::Error(_) => Found::Error(key),
                        Val::String(text) => self.field(object, text, Key::new(text).hash()),
                        key => self.index(object, key),
                    };
                    (found, *optional, false)
                }
            };
            optional |= is_optional;
            // An optional step that is absent or ends in an error is not observed, so it costs nothing.
            match found {
                Found::Error(error) => {
                    if !optional {
                        self.observe_qualifier(attribute, i, error);
                    }
                    return error;
                }
                Found::Value(_) if test_only => {
                    object = if optional { Val::Null } else { Val::Bool(true) };
                    self.observe_qualifier(attribute, i, object);
                }
                Found::Value(value) => {
                    object = value;
                    self.observe_qualifier(attribute, i, object);
                }
                Found::Missing(_) if test_only && !optional => {
                    object = Val::Bool(false);
                    self.observe_qualifier(attribute, i, object);
                }
                Found::Missing(_) if optional => return Val::NONE,
                Found::Missing(error) => {
                    let error = match error {
                        Missing::Key(key) => self.missing_key(key),
                        Missing::Index(index) => self.missing_index(index),
                    };
                    self.observe_qualifier(attribute, i, error);
                    return error;
                }
            }
        }
        if optional { self.context.some(object) } else { object }
    }

    #[inline]
    fn observe_qualifier(&mut self, attribute: &Attribute, i: usize, value: Val<'a>) {
        self.charge(cost::SELECT);
        if let Some(trace) = &mut self.trace {
            let last = i + 1 == attribute.qualifiers.len();
            let computed = match &attribute.qualifiers[i] {
                Qualifier::Computed { index, .. } => {
                    !matches!(self.program.nodes[index.0 as usize], Node::Attribute(_))
                }
                Qualifier::Field { .. } | Qualifier::Constant { .. } => false,
            };
            trace.push_qualifier(attribute.id, last, computed, value);
        }
    }

    #[cold]
    fn missing_key(&self, key: Val<'a>) -> Val<'a> {
        self.context
            .error(format_args!("no such key: {}", super::print::go_display(key)))
    }

    #[cold]
    fn missing_index(&self, index: Val<'a>) -> Val<'a> {
        self.context
            .error(format_args!("index out of bounds: {}", super::print::go_display(index)))
    }

    /// A field of an object by its name.
    #[inline]
    fn field(&mut self, object: Val<'a>, name: &'a str, hash: u32) -> Found<'a> {
        match object {
            Val::DocumentMap(map) => match map.get_key(Key::with_hash(name, hash)) {
                Some(value) => Found::Value(value.into()),
                None => Found::Missing(Missing::Key(Val::String(name))),
            },
            Val::Variables => match self.activation.variables.and_then(|variables| variables.get(name)) {
                Some(error @ Val::Error(_)) => Found::Error(error),
                Some(value) => Found::Value(value),
                None => Found::Missing(Missing::Key(Val::String(name))),
            },
            other => self.index(other, Val::String(name)),
        }
    }

    /// An element of a container by any key.
    fn index(&self, object: Val<'a>, key: Val<'a>) -> Found<'a> {
        if !matches!(
            key,
            Val::String(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::Bool(_)
        ) {
            let kind = if matches!(key, Val::Null) {
                "<nil>"
            } else {
                key.go_type()
            };
            return Found::Error(self.context.error(format_args!("invalid qualifier type: {kind}")));
        }
        match object {
            Val::List(_) | Val::DocumentList(_) => match ops::list_index(&self.context, key) {
                Err(error) => Found::Error(error),
                Ok(index) => match usize::try_from(index).ok().and_then(|index| object.list_get(index)) {
                    Some(value) => Found::Value(value),
                    None => Found::Missing(Missing::Index(key)),
                },
            },
            Val::Map(_) | Val::DocumentMap(_) => match object.map_get(&key) {
                Some(value) => Found::Value(value),
                None => Found::Missing(Missing::Key(key)),
            },
            Val::Opaque(opaque) => match key {
                Val::String(name) => match opaque.field(name) {
                    Some(error @ Val::Error(_)) => Found::Error(error),
                    Some(value) => Found::Value(value),
                    None if opaque.is_structure() => {
                        Found::Error(self.context.error(format_args!("no such field: {name}")))
                    }
                    None => Found::Missing(Missing::Key(key)),
                },
                _ => Found::Missing(Missing::Key(key)),
            },
            Val::Optional(_) => Found::Missing(Missing::Key(key)),
            _ if self.context.profile.behaviour.presence_needs_a_container => Found::Error(self.missing_key(key)),
            _ => Found::Missing(Missing::Key(key)),
        }
    }

    pub(super) fn read_lazy(&mut self, slot: Slot, init: NodeId) -> Val<'a> {
        if let Some(value) = self.slots[slot.0 as usize] {
            return value;
        }
        let value = self.eval(init);
        self.slots[slot.0 as usize] = Some(value);
        value
    }

    fn eval_call(&mut self, id: NodeId, call: &'a Call) -> Val<'a> {
        let mut small = [Val::Null; 3];
        let mut large;
        let args: &mut [Val<'a>] = if call.args.len() <= small.len() {
            &mut small[..call.args.len()]
        } else {
            large = vec![Val::Null; call.args.len()];
            &mut large
        };
        let mut failed = None;
        let stops = call.binding == Binding::Variadic;
        for (i, &arg) in call.args.iter().enumerate() {
            args[i] = self.eval(arg);
            if args[i].is_error() && !call.non_strict && failed.is_none() {
                failed = Some(args[i]);
                if stops && i + 1 < call.args.len() {
                    self.stopped_early = true;
                    let value = args[i];
                    self.charge_stopped_call(call, value);
                    self.observe_value(id, value);
                    return value;
                }
            }
        }
        let value = failed.unwrap_or_else(|| invoke(&self.context, call, args));
        if self.counting {
            let price = call.cost.charge(args, &value);
            self.charge_call(id, &call.args, price);
        }
        self.observe_value(id, value);
        value
    }

    fn eval_unknown_call(&mut self, id: NodeId, function: &str, args: &[NodeId]) -> Val<'a> {
        let values: Vec<Val<'a>> = args.iter().map(|&arg| self.eval(arg)).collect();
        let value = match (values.iter().find(|value| value.is_error()), values.first()) {
            (Some(error), _) => *error,
            (None, Some(first)) => ops::missing_trait(&self.context, *first, function),
            (None, None) => NO_SUCH_OVERLOAD,
        };
        self.observe_value(id, value);
        value
    }

    /// A call that stopped early is charged only if the search finds old values for all its arguments.
    #[cold]
    fn charge_stopped_call(&mut self, call: &'a Call, result: Val<'a>) {
        if let Some(trace) = &mut self.trace
            && let Some(args) = trace.drop_args(&call.args)
        {
            let price = call.cost.charge(&args, &result);
            self.charge(price);
        }
    }

    /// Charges a call all of whose arguments were evaluated.
    #[inline]
    fn charge_call(&mut self, _id: NodeId, args: &[NodeId], price: u64) {
        if let Some(trace) = &mut self.trace
            && trace.drop_args(args).is_none()
        {
            return;
        }
        self.charge(price);
    }

    #[inline]
    pub(super) fn observe_value(&mut self, id: NodeId, value: Val<'a>) {
        if let Some(trace) = &mut self.trace {
            trace.push(id, value);
        }
    }

    fn eval_list(&mut self, id: NodeId, elements: &'a [NodeId], optional: &[bool]) -> Val<'a> {
        let mut items = bumpalo::collections::Vec::with_capacity_in(elements.len(), self.context.bump());
        let mut failed = None;
        for (i, &element) in elements.iter().enumerate() {
            let mut value = self.eval(element);
            if !value.is_error() && optional[i] {
                match value {
                    Val::Optional(None) => continue,
                    Val::Optional(Some(inner)) => value = *inner,
                    other => {
                        value = self.context.error(format_args!(
                            "cannot initialize optional list element from non-optional value {}",
                            super::print::go_display(other)
                        ));
                    }
                }
            }
            if value.is_error() {
                failed = Some(value);
                self.stopped_early |= i + 1 < elements.len();
                break;
            }
            items.push(value);
        }
        let value = failed.unwrap_or_else(|| Val::List(items.into_bump_slice()));
        self.charge_literal(id, elements, cost::LIST, value);
        value
    }

    fn charge_literal(&mut self, id: NodeId, parts: &[NodeId], price: u64, value: Val<'a>) {
        if let Some(trace) = &mut self.trace {
            let _ = trace.drop_args(parts);
        }
        self.charge(price);
        self.observe_value(id, value);
    }

    fn eval_map(&mut self, id: NodeId, entries: &'a [(NodeId, NodeId, bool)]) -> Val<'a> {
        let mut made: bumpalo::collections::Vec<'a, (Val<'a>, Val<'a>)> =
            bumpalo::collections::Vec::with_capacity_in(entries.len(), self.context.bump());
        let mut failed = None;
        for (i, &(key, value, optional)) in entries.iter().enumerate() {
            let key = self.eval(key);
            if key.is_error() {
                failed = Some(key);
                self.stopped_early = true;
                break;
            }
            let mut value = self.eval(value);
            if !value.is_error() && optional {
                match value {
                    Val::Optional(None) => {
                        made.retain(|(known, _)| !same_go_key(known, &key));
                        continue;
                    }
                    Val::Optional(Some(inner)) => value = *inner,
                    other => {
                        value = self.context.error(format_args!(
                            "cannot initialize optional entry '{}' from non-optional value {}",
                            super::print::go_display(key),
                            super::print::go_display(other)
                        ));
                    }
                }
            }
            if value.is_error() {
                failed = Some(value);
                self.stopped_early |= i + 1 < entries.len();
                break;
            }
            match made.iter_mut().find(|(known, _)| same_go_key(known, &key)) {
                Some(known) => known.1 = value,
                None => made.push((key, value)),
            }
        }
        let value = failed.unwrap_or_else(|| Val::Map(made.into_bump_slice()));
        let parts: Vec<NodeId> = match self.trace {
            Some(_) => entries.iter().flat_map(|&(key, value, _)| [key, value]).collect(),
            None => Vec::new(),
        };
        self.charge_literal(id, &parts, cost::MAP, value);
        value
    }

    fn eval_struct(&mut self, id: NodeId, name: &str, fields: &'a [(super::ast::Name, NodeId, bool)]) -> Val<'a> {
        let mut failed = None;
        let mut values = Vec::with_capacity(fields.len());
        for (field, value, optional) in fields {
            let value = self.eval(*value);
            match value {
                Val::Error(_) => {
                    failed = Some(value);
                    break;
                }
                Val::Optional(inner) if *optional => values.extend(inner.map(|inner| (&**field, *inner))),
                value => values.push((&**field, value)),
            }
        }
        let structures = self.context.profile.library().structures();
        let make = structures.iter().find(|s| s.name == name).and_then(|s| s.make);
        let value = failed.unwrap_or_else(|| match make {
            Some(make) => make(&self.context, &values),
            None => wrapper::make(&self.context, name, values.last().copied()),
        });
        let parts: Vec<NodeId> = fields.iter().map(|(_, value, _)| *value).collect();
        self.charge_literal(id, &parts, cost::STRUCT, value);
        value
    }
}

/// What selecting from an object found.
enum Found<'a> {
    Value(Val<'a>),
    Missing(Missing<'a>),
    Error(Val<'a>),
}

enum Missing<'a> {
    Key(Val<'a>),
    Index(Val<'a>),
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
        Operator::In => ops::contains(a, b),
    }
}

/// Calls a function on evaluated arguments.
pub(super) fn invoke<'a>(context: &Context<'a>, call: &'a Call, args: &[Val<'a>]) -> Val<'a> {
    let function = call.function;
    match &call.dispatch {
        Dispatch::Overload(i, implementation) => {
            if function.no_type_guards || function.overloads[*i as usize].accepts(args) {
                implementation(context, args)
            } else {
                context.no_such_overload(function.name, args)
            }
        }
        Dispatch::Function => {
            let chosen = function.overloads.iter().find(|overload| {
                overload.implementation.is_some()
                    && (overload.accepts(args) || (function.no_type_guards && overload.parameters.len() == args.len()))
            });
            match chosen.and_then(|overload| overload.implementation) {
                Some((_, implementation)) => implementation(context, args),
                None => context.no_such_overload(function.name, args),
            }
        }
        Dispatch::Singleton => match (&function.singleton, args.first()) {
            (Some(singleton), Some(first)) if singleton.operand.is_none_or(|operand| first.has_trait(operand)) => {
                (singleton.implementation)(context, args)
            }
            (_, Some(first)) => ops::missing_trait(context, *first, function.name),
            _ => NO_SUCH_OVERLOAD,
        },
        // Upstream takes whatever is a string in Go, and a type is its name there.
        Dispatch::Regex(kind, regex) => match (kind, args) {
            (RegexFunction::Matches, [Val::String(text) | Val::Type(text), ..]) => Val::Bool(regex.is_match(text)),
            (RegexFunction::Find, [Val::String(text) | Val::Type(text), ..]) => match regex.find(text) {
                Some(found) => Val::String(&text[found]),
                None => Val::String(""),
            },
            (RegexFunction::FindAll, [Val::String(text) | Val::Type(text), _]) => find_all(context, regex, text, -1),
            (RegexFunction::FindAll, [Val::String(text) | Val::Type(text), _, Val::Int(n)]) => {
                find_all(context, regex, text, *n)
            }
            _ => NO_SUCH_OVERLOAD,
        },
    }
}

fn find_all<'a>(context: &Context<'a>, regex: &crate::regex::Regex, text: &'a str, n: i64) -> Val<'a> {
    let limit = usize::try_from(n).ok();
    let found: Vec<Val<'a>> = regex
        .find_all(text, limit)
        .into_iter()
        .map(|range| Val::String(&text[range]))
        .collect();
    context.list(&found)
}

/// Whether a Go map would take both for one key: same type and same value.
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
