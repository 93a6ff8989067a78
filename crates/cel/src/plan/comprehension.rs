//! Planning of comprehensions: `cel.bind`, the standard macros with dedicated loops, and the general fold.

use super::{Local, Planned, Planner, ProgramError};
use crate::{
    ast::{Comprehension, Expr, ExprId, Literal},
    cost,
    program::*,
};

impl Planner<'_> {
    pub(super) fn plan_comprehension(&mut self, comprehension: &Comprehension) -> Planned {
        let accumulator = &comprehension.accu_var;
        let init = self.plan(comprehension.accu_init)?;
        if self.is_bind(comprehension) {
            let slot = self.slot();
            self.scopes.push((accumulator.clone(), Local::Accumulator(slot, init)));
            let body = self.plan(comprehension.result);
            self.scopes.pop();
            return Ok(self.push(Node::Bind { slot, body: body? }));
        }
        self.has_fold = true;
        let range = self.plan(comprehension.iter_range)?;
        let depth = self.scopes.len();
        let accumulator_slot = self.slot();
        self.scopes
            .push((accumulator.clone(), Local::Accumulator(accumulator_slot, init)));
        let variable = self.slot();
        self.scopes
            .push((comprehension.iter_var.clone(), Local::Iterated(variable)));
        let second = comprehension.iter_var2.as_ref().map(|name| {
            let slot = self.slot();
            self.scopes.push((name.clone(), Local::Iterated(slot)));
            slot
        });
        let kind = match self.plan_known_fold(comprehension)? {
            Some(kind) => kind,
            None => {
                let condition = self.plan(comprehension.loop_condition)?;
                let step = self.plan(comprehension.loop_step)?;
                self.scopes.truncate(depth + 1);
                let result = self.plan(comprehension.result)?;
                FoldKind::General {
                    insertion: self.insertion(step, accumulator_slot, None),
                    accumulator: accumulator_slot,
                    init,
                    condition,
                    step,
                    result,
                }
            }
        };
        self.scopes.truncate(depth);
        Ok(self.push(Node::Fold(Box::new(Fold {
            range,
            variable,
            second,
            kind,
        }))))
    }

    /// Whether a step only adds to the accumulated map, possibly under a condition.
    fn insertion(&self, step: NodeId, accumulator: Slot, filter: Option<NodeId>) -> Option<Insertion> {
        let is_accumulator = |attribute: &Attribute| {
            attribute.qualifiers.is_empty() && matches!(attribute.root, Root::LazySlot(slot, _) if slot == accumulator)
        };
        match self.node(step) {
            Node::Call(call)
                if call.function.name == "cel.@mapInsert"
                    && matches!(call.cost, cost::CallCost::Default(cost::DefaultCost::One)) =>
            {
                let first = self.node(*call.args.first()?);
                let adds = matches!(first, Node::Attribute(attribute) if is_accumulator(attribute));
                adds.then_some(Insertion { filter, call: step })
            }
            Node::Attribute(attribute) if attribute.qualifiers.is_empty() && filter.is_none() => {
                let Root::Conditional(branches) = &attribute.root else {
                    return None;
                };
                match (&branches.1.root, is_accumulator(&branches.2)) {
                    (Root::Value(call), true) if branches.1.qualifiers.is_empty() => {
                        self.insertion(*call, accumulator, Some(branches.0))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// `cel.bind` and the macros built like it fold over an empty list with a condition that is false.
    fn is_bind(&self, comprehension: &Comprehension) -> bool {
        let ast = &self.checked.ast;
        let empty = matches!(ast.expr(comprehension.iter_range), Expr::List { elements, .. } if elements.is_empty());
        empty && *ast.expr(comprehension.loop_condition) == Expr::Literal(Literal::Bool(false))
    }

    /// The fold of a standard macro; the evaluator knows the costs of its fixed parts.
    fn plan_known_fold(&mut self, comprehension: &Comprehension) -> Result<Option<FoldKind>, ProgramError> {
        let checked = self.checked;
        let ast = &checked.ast;
        let accumulator = &*comprehension.accu_var;
        if !accumulator.starts_with('@') {
            return Ok(None);
        }
        let is_accumulator = |id: ExprId| matches!(ast.expr(id), Expr::Ident(name) if &**name == accumulator);
        let is_int = |id: ExprId, n: i64| *ast.expr(id) == Expr::Literal(Literal::Int(n));
        let call = |id: ExprId| match ast.expr(id) {
            Expr::Call {
                function,
                target: None,
                args,
            } => Some((&**function, &args[..])),
            _ => None,
        };
        let always = *ast.expr(comprehension.loop_condition) == Expr::Literal(Literal::Bool(true));
        let Some(step) = call(comprehension.loop_step) else {
            return Ok(None);
        };
        let plain_result = is_accumulator(comprehension.result);
        match (ast.expr(comprehension.accu_init), step) {
            (Expr::Literal(Literal::Bool(true)), ("_&&_", &[acc, predicate]))
                if plain_result && is_accumulator(acc) =>
            {
                match call(comprehension.loop_condition) {
                    Some(("@not_strictly_false", &[inner])) if is_accumulator(inner) => {
                        Ok(Some(FoldKind::All(self.plan(predicate)?)))
                    }
                    _ => Ok(None),
                }
            }
            (Expr::Literal(Literal::Bool(false)), ("_||_", &[acc, predicate]))
                if plain_result && is_accumulator(acc) =>
            {
                match call(comprehension.loop_condition) {
                    Some(("@not_strictly_false", &[inner])) if matches!(call(inner), Some(("!_", &[negated])) if is_accumulator(negated)) => {
                        Ok(Some(FoldKind::Exists(self.plan(predicate)?)))
                    }
                    _ => Ok(None),
                }
            }
            (Expr::Literal(Literal::Int(0)), ("_?_:_", &[predicate, then, otherwise]))
                if always && is_accumulator(otherwise) =>
            {
                let counts = matches!(call(then), Some(("_+_", &[acc, one])) if is_accumulator(acc) && is_int(one, 1));
                let single = matches!(call(comprehension.result),
                    Some(("_==_", &[acc, one])) if is_accumulator(acc) && is_int(one, 1));
                if counts && single {
                    Ok(Some(FoldKind::ExistsOne(self.plan(predicate)?)))
                } else {
                    Ok(None)
                }
            }
            (Expr::List { elements, .. }, (function, args)) if always && plain_result && elements.is_empty() => {
                let (predicate, append) = match (function, args) {
                    ("_?_:_", &[predicate, then, otherwise]) if is_accumulator(otherwise) => {
                        (Some(predicate), call(then))
                    }
                    ("_+_", _) => (None, Some(step)),
                    _ => return Ok(None),
                };
                let Some(("_+_", &[acc, list])) = append else {
                    return Ok(None);
                };
                let Expr::List { elements, optional } = ast.expr(list) else {
                    return Ok(None);
                };
                let &[element] = &elements[..] else {
                    return Ok(None);
                };
                if !is_accumulator(acc) || !optional.is_empty() {
                    return Ok(None);
                }
                let filter = predicate.map(|predicate| self.plan(predicate)).transpose()?;
                let transform = self.plan(element)?;
                let folded = self.folding() && self.as_constant(transform).is_some();
                let list_cost = if folded { 0 } else { cost::LIST };
                Ok(Some(FoldKind::Map {
                    transform,
                    filter,
                    list_cost,
                }))
            }
            _ => Ok(None),
        }
    }
}
