//! Calling functions: arguments, dispatch, cost.

use super::{COST_LIMIT_EXCEEDED, Machine};
use crate::{
    context::Context,
    decl::Binding,
    ops,
    program::*,
    val::{NO_SUCH_OVERLOAD, Val},
};
use kyvtest_go_compat::regex::Regex;

impl<'a> Machine<'a> {
    // Separate from `eval`, to keep the stack frame of every node small.
    #[inline(never)]
    pub(super) fn eval_call(&mut self, id: NodeId, call: &'a Call) -> Val<'a> {
        // Operators and most methods have one or two arguments: no array to fill, no loop.
        match *call.args {
            [only] => {
                let args = [self.eval(only)];
                let failed = (args[0].is_error() && !call.non_strict).then_some(args[0]);
                self.call(id, call, &args, failed)
            }
            [left, right] => {
                let first = self.eval(left);
                if call.binding == Binding::Variadic && first.is_error() && !call.non_strict {
                    return self.stop(id, call, first);
                }
                let args = [first, self.operand(right)];
                let failed = args.iter().find(|arg| arg.is_error() && !call.non_strict).copied();
                self.call(id, call, &args, failed)
            }
            _ => self.eval_wide_call(id, call),
        }
    }

    /// The value of an argument. Most second arguments are constant strings, which need no further step.
    #[inline]
    fn operand(&mut self, id: NodeId) -> Val<'a> {
        let program = self.program;
        match &program.nodes[id.0 as usize] {
            Node::Constant(Constant::Text(text)) if self.trace.is_none() => Val::String(text),
            _ => self.eval(id),
        }
    }

    #[inline(never)]
    fn eval_wide_call(&mut self, id: NodeId, call: &'a Call) -> Val<'a> {
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
                    return self.stop(id, call, args[i]);
                }
            }
        }
        self.call(id, call, args, failed)
    }

    /// Ends a call at the error of an argument before all of them were evaluated.
    #[cold]
    fn stop(&mut self, id: NodeId, call: &'a Call, error: Val<'a>) -> Val<'a> {
        self.stop_early();
        self.charge_stopped_call(call, error);
        self.observe_value(id, error);
        error
    }

    /// Calls and charges a function whose arguments are all evaluated; `failed` is the first error among them.
    #[inline(always)]
    fn call(&mut self, id: NodeId, call: &'a Call, args: &[Val<'a>], failed: Option<Val<'a>>) -> Val<'a> {
        let paid = if self.counting { call.cost.before(args) } else { None };
        if let Some(price) = paid {
            self.charge_call(&call.args, price);
        }
        let value = match failed {
            Some(error) => error,
            None if self.cancelled => Val::Error(COST_LIMIT_EXCEEDED),
            // Some functions have no cost that depends on the size of their arguments.
            None if !self.context.spend(args.iter().map(Val::text_len).sum()) => self.context.exhausted(),
            None => invoke(&self.context, call, args),
        };
        if self.counting && paid.is_none() {
            let price = call.cost.charge(args, &value);
            self.charge_call(&call.args, price);
        }
        self.observe_value(id, value);
        value
    }

    #[cold]
    pub(super) fn eval_unknown_call(&mut self, id: NodeId, function: &str, args: &[NodeId]) -> Val<'a> {
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
    pub(super) fn charge_call(&mut self, args: &[NodeId], price: u64) {
        if let Some(trace) = &mut self.trace
            && trace.drop_args(args).is_none()
        {
            return;
        }
        self.charge(price);
    }
}

/// Calls a function on evaluated arguments.
pub(crate) fn invoke<'a>(context: &Context<'a>, call: &'a Call, args: &[Val<'a>]) -> Val<'a> {
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
        // Upstream accepts any Go string, and a type is its name there.
        Dispatch::Regex(kind, regex) => match (kind, args) {
            (_, [Val::String(text) | Val::Type(text), ..]) if !context.spend_search(regex, text) => context.exhausted(),
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

fn find_all<'a>(context: &Context<'a>, regex: &Regex, text: &'a str, n: i64) -> Val<'a> {
    let limit = usize::try_from(n).ok();
    let found: Vec<Val<'a>> = regex
        .find_all_within(text, limit, |bytes| context.spend_scan(bytes))
        .into_iter()
        .map(|range| Val::String(&text[range]))
        .collect();
    context.list(&found)
}
