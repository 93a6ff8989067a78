//! Comprehensions: dedicated loops for the standard macros, step by step for everything else.
//!
//! Upstream counterpart: cel-go `interpreter/interpretable.go` `evalFold`. The costs of the nodes that a standard macro
//! expands to are added where the expansion would have been evaluated.

use rustc_hash::FxHashSet;

use super::{
    eval::{Machine, invoke},
    program::{Fold, FoldKind, Insertion, Node, NodeId, Slot},
    val::{NO_SUCH_OVERLOAD, Val},
};

/// `@not_strictly_false(@result)`: the accumulator and the call.
const ALL_CONDITION: u64 = 2;
/// `@not_strictly_false(!@result)`: the accumulator and both calls.
const EXISTS_CONDITION: u64 = 3;
/// Reading the accumulator.
const ACCUMULATOR: u64 = 1;
/// `@result + 1`, `@result == 1`: the accumulator and the operator.
const ACCUMULATOR_AND_OPERATOR: u64 = 2;

impl<'a> Machine<'a> {
    #[inline(never)]
    pub(super) fn eval_fold(&mut self, id: NodeId, fold: &'a Fold) -> Val<'a> {
        let range = self.eval(fold.range);
        let value = match range {
            Val::Error(_) => range,
            Val::List(_) | Val::DocumentList(_) | Val::Map(_) | Val::DocumentMap(_) => self.run_fold(fold, range),
            other if fold.second.is_some() => self.context.error(format_args!(
                "unsupported comprehension range type: {}",
                other.go_type()
            )),
            other => self
                .context
                .error(format_args!("got '{}', expected iterable type", other.go_type())),
        };
        if let Some(trace) = &mut self.trace {
            trace.drop_to(fold.range);
        }
        self.observe_value(id, value);
        value
    }

    /// Sets the iteration variables for one round.
    #[inline]
    pub(super) fn set(&mut self, fold: &Fold, range: Val<'a>, i: usize) {
        let (first, second) = match (range, fold.second) {
            (Val::Map(_) | Val::DocumentMap(_), _) => range.map_entry(i).unwrap_or((Val::Null, Val::Null)),
            (_, None) => (range.list_get(i).unwrap_or(Val::Null), Val::Null),
            (_, Some(_)) => (Val::Int(i as i64), range.list_get(i).unwrap_or(Val::Null)),
        };
        self.slots[fold.variable.0 as usize] = Some(first);
        if let Some(slot) = fold.second {
            self.slots[slot.0 as usize] = Some(second);
        }
    }

    fn run_fold(&mut self, fold: &'a Fold, range: Val<'a>) -> Val<'a> {
        match &fold.kind {
            FoldKind::All(predicate) => self.fold_logical(fold, range, *predicate, false, ALL_CONDITION),
            FoldKind::Exists(predicate) => self.fold_logical(fold, range, *predicate, true, EXISTS_CONDITION),
            FoldKind::ExistsOne(predicate) => self.fold_exists_one(fold, range, *predicate),
            FoldKind::Map {
                transform,
                filter,
                list_cost,
            } => self.fold_map(fold, range, *transform, *filter, *list_cost),
            FoldKind::General {
                accumulator,
                init,
                condition,
                step,
                result,
                insertion,
            } => {
                let outer = self.slots[accumulator.0 as usize].take();
                let done = match insertion {
                    Some(insertion) if self.trace.is_none() => {
                        self.fold_insert(fold, range, *accumulator, *init, *insertion)
                    }
                    _ => 0,
                };
                self.fold_general(fold, range, done, *accumulator, *condition, *step);
                let value = self.eval(*result);
                self.slots[accumulator.0 as usize] = outer;
                value
            }
        }
    }

    /// Evaluates the part of a step after the accumulator, which is removed from the cost stack with it.
    fn eval_behind_accumulator(&mut self, node: NodeId) -> Val<'a> {
        let mark = self.trace.as_ref().map(|trace| trace.len());
        let value = self.eval(node);
        if let (Some(trace), Some(mark)) = (&mut self.trace, mark) {
            trace.truncate(mark);
        }
        value
    }

    fn fold_logical(
        &mut self,
        fold: &'a Fold,
        range: Val<'a>,
        predicate: NodeId,
        decisive: bool,
        condition: u64,
    ) -> Val<'a> {
        let mut accumulator = Val::Bool(!decisive);
        for i in 0..range.len() {
            self.charge(condition);
            if self.cancelled || matches!(accumulator, Val::Bool(b) if b == decisive) {
                break;
            }
            self.set(fold, range, i);
            self.charge(ACCUMULATOR);
            accumulator = match self.eval_behind_accumulator(predicate) {
                Val::Bool(b) if b == decisive => Val::Bool(b),
                Val::Bool(_) => accumulator,
                _ if accumulator.is_error() => accumulator,
                error @ Val::Error(_) => error,
                _ => NO_SUCH_OVERLOAD,
            };
        }
        self.charge(ACCUMULATOR);
        accumulator
    }

    /// Evaluates the condition of a step; leaves nothing of it on the cost stack.
    fn eval_condition(&mut self, node: NodeId) -> Val<'a> {
        match self.eval(node) {
            value @ (Val::Bool(_) | Val::Error(_)) => value,
            _ => NO_SUCH_OVERLOAD,
        }
    }

    fn fold_exists_one(&mut self, fold: &'a Fold, range: Val<'a>, predicate: NodeId) -> Val<'a> {
        let mut count = Val::Int(0);
        for i in 0..range.len() {
            if self.cancelled {
                break;
            }
            self.set(fold, range, i);
            match self.eval_condition(predicate) {
                Val::Bool(true) => {
                    self.charge(ACCUMULATOR_AND_OPERATOR);
                    if let Val::Int(n) = count {
                        count = Val::Int(n + 1);
                    }
                }
                Val::Bool(false) => {}
                error => count = error,
            }
            if let Some(trace) = &mut self.trace {
                trace.drop_to(predicate);
            }
        }
        self.charge(ACCUMULATOR_AND_OPERATOR);
        match count {
            Val::Int(n) => Val::Bool(n == 1),
            error => error,
        }
    }

    fn fold_map(
        &mut self,
        fold: &'a Fold,
        range: Val<'a>,
        transform: NodeId,
        filter: Option<NodeId>,
        list_cost: u64,
    ) -> Val<'a> {
        let mut items = bumpalo::collections::Vec::with_capacity_in(
            if filter.is_none() { range.len() } else { 0 },
            self.context.bump(),
        );
        let mut failed = None;
        for i in 0..range.len() {
            if self.cancelled {
                break;
            }
            self.set(fold, range, i);
            let keep = match filter {
                None => Val::Bool(true),
                Some(filter) => self.eval_condition(filter),
            };
            match keep {
                Val::Bool(true) => {
                    self.charge(ACCUMULATOR);
                    let value = self.eval_behind_accumulator(transform);
                    self.charge(list_cost);
                    self.charge(1);
                    match value {
                        Val::Error(_) => failed = failed.or(Some(value)),
                        value => items.push(value),
                    }
                }
                Val::Bool(false) => {}
                error => failed = Some(error),
            }
            if let (Some(trace), Some(filter)) = (&mut self.trace, filter) {
                trace.drop_to(filter);
            }
        }
        self.charge(ACCUMULATOR);
        failed.unwrap_or_else(|| Val::List(items.into_bump_slice()))
    }

    /// Runs the rounds from some round on, step by step.
    fn fold_general(
        &mut self,
        fold: &'a Fold,
        range: Val<'a>,
        from: usize,
        accumulator: Slot,
        condition: NodeId,
        step: NodeId,
    ) {
        for i in from..range.len() {
            if self.cancelled {
                break;
            }
            self.set(fold, range, i);
            if matches!(self.eval(condition), Val::Bool(false)) {
                break;
            }
            let value = self.eval(step);
            self.slots[accumulator.0 as usize] = Some(value);
        }
    }

    /// Collects entries as long as no error occurs, and leaves the map in the accumulator; returns the number of
    /// rounds. Costs are added where the steps would have added them.
    fn fold_insert(
        &mut self,
        fold: &'a Fold,
        range: Val<'a>,
        accumulator: Slot,
        init: NodeId,
        insertion: Insertion,
    ) -> usize {
        let Node::Call(call) = &self.program.nodes[insertion.call.0 as usize] else {
            return 0;
        };
        let mut entries: Vec<(Val<'a>, Val<'a>)> = Vec::new();
        let mut keys: FxHashSet<PlainKey<'a>> = FxHashSet::default();
        let mut started = false;
        for i in 0..range.len() {
            if self.cancelled {
                return i;
            }
            self.set(fold, range, i);
            match insertion.filter.map(|filter| self.eval_condition(filter)) {
                None | Some(Val::Bool(true)) => {}
                Some(Val::Bool(false)) => continue,
                Some(error) => {
                    self.slots[accumulator.0 as usize] = Some(error);
                    return i + 1;
                }
            }
            if !started {
                started = true;
                self.eval(init);
            }
            self.charge(ACCUMULATOR);
            let mut args = [Val::Map(&[]); 3];
            let mut failed = None;
            for (n, &arg) in call.args.iter().enumerate().skip(1) {
                args[n] = self.eval(arg);
                if args[n].is_error() {
                    failed = Some(args[n]);
                    if n + 1 < call.args.len() {
                        self.stop_early();
                        self.slots[accumulator.0 as usize] = failed;
                        return i + 1;
                    }
                }
            }
            self.charge(1);
            let added: Val<'a> = match call.args.len() {
                3 => Val::Null,
                _ => args[1],
            };
            let single = [(args[1], args[2])];
            let simple = failed.is_none()
                && match added {
                    Val::Null => add(&mut entries, &mut keys, single),
                    map if map.is_map() && map.len() == 1 => add(&mut entries, &mut keys, map.map_iter()),
                    _ => false,
                };
            if !simple {
                args[0] = self.context.map(&entries);
                let args = &args[..call.args.len()];
                let value = failed.unwrap_or_else(|| invoke(&self.context, call, args));
                self.slots[accumulator.0 as usize] = Some(value);
                return i + 1;
            }
            if !self.context.spend(size_of::<(Val<'_>, Val<'_>)>()) {
                break;
            }
        }
        if started {
            self.slots[accumulator.0 as usize] = Some(self.context.map(&entries));
        }
        range.len()
    }
}

/// A key of a type whose values equal only themselves.
#[derive(PartialEq, Eq, Hash)]
enum PlainKey<'a> {
    Text(&'a str),
    Int(i64),
}

/// Adds one entry; returns false, and adds nothing, if its key exists or is not a plain one.
fn add<'a>(
    entries: &mut Vec<(Val<'a>, Val<'a>)>,
    keys: &mut FxHashSet<PlainKey<'a>>,
    new: impl IntoIterator<Item = (Val<'a>, Val<'a>)>,
) -> bool {
    for (key, value) in new {
        let plain = match key {
            Val::String(text) => PlainKey::Text(text),
            Val::Int(i) => PlainKey::Int(i),
            _ => return false,
        };
        if !keys.insert(plain) {
            return false;
        }
        entries.push((key, value));
    }
    true
}
