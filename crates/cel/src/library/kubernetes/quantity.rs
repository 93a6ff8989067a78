//! Quantities: `quantity`, `isQuantity`, arithmetic and order.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/cel/quantity.go`, `library/quantity.go`. Three accidents of upstream are
//! visible and kept: a sum or difference on the right of `==` is `no such overload`; comparing a quantity with a
//! decimal one turns the receiver into a decimal, which is then not an integer; and until Kubernetes 1.37, `add` and
//! `sub` on a decimal also change the receiver.

use std::{
    cmp::Ordering,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::cost;
use crate::{
    context::Context,
    decl::{Implementation, Library, global, member},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Opaque, Val},
};
use kyvtest_go_compat::text::quantity::{Format, Quantity};

const NAME: &str = "kubernetes.Quantity";

#[derive(Debug)]
struct QuantityValue {
    /// Shared if upstream shares the digits of a decimal.
    amount: Arc<Mutex<Quantity>>,
    /// Whether upstream returns a pointer, which `==` does not accept on its right.
    is_pointer: bool,
}

impl QuantityValue {
    fn lock(&self) -> MutexGuard<'_, Quantity> {
        self.amount.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self) -> Quantity {
        self.lock().clone()
    }
}

impl Opaque for QuantityValue {
    fn type_name(&self) -> &'static str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        let other: &QuantityValue = super::downcast(other)?;
        (!other.is_pointer).then(|| self.get() == other.get())
    }

    fn display(&self) -> String {
        self.lock().to_string()
    }
}

pub(super) fn declare(library: &mut Library) {
    let quantity = || Type::structure(NAME);
    library
        .add(
            "quantity",
            [global("string_to_quantity", &[Type::String], quantity()).unary(from_string)],
        )
        .cost = Some(cost::parse);
    library
        .add(
            "isQuantity",
            [global("is_quantity_string", &[Type::String], Type::Bool).unary(is_quantity)],
        )
        .cost = Some(cost::parse);
    library
        .add(
            "sign",
            [global("quantity_sign", &[quantity()], Type::Int)
                .unary(|_, args| with(args, |quantity| Val::Int(i64::from(quantity.lock().sign()))))],
        )
        .cost = Some(cost::nominal);
    let mut add = |name, overloads: Vec<_>| library.add(name, overloads).cost = Some(cost::nominal);
    let mut order = |name, id, result, implementation: Implementation| {
        add(
            name,
            vec![member(id, &[quantity(), quantity()], result).binary(implementation)],
        );
    };
    order("isGreaterThan", "quantity_is_greater_than", Type::Bool, |_, args| {
        compare(args, |order| Val::Bool(order.is_gt()))
    });
    order("isLessThan", "quantity_is_less_than", Type::Bool, |_, args| {
        compare(args, |order| Val::Bool(order.is_lt()))
    });
    order("compareTo", "quantity_compare_to", Type::Int, |_, args| {
        compare(args, |order| Val::Int(order as i64))
    });
    let mut accessor = |name, id, result, implementation: Implementation| {
        add(name, vec![member(id, &[quantity()], result).unary(implementation)]);
    };
    accessor("asApproximateFloat", "quantity_get_float", Type::Double, |_, args| {
        with(args, |quantity| Val::Double(quantity.lock().approximate()))
    });
    accessor("asInteger", "quantity_get_int", Type::Int, |_, args| {
        with(args, |quantity| match quantity.lock().as_i64() {
            Some(value) => Val::Int(value),
            None => Val::Error("cannot convert value to integer"),
        })
    });
    accessor("isInteger", "quantity_is_integer", Type::Bool, |_, args| {
        with(args, |quantity| Val::Bool(quantity.lock().as_i64().is_some()))
    });
    let mut arithmetic = |name, id, id_int, implementation: Implementation| {
        add(
            name,
            vec![
                member(id, &[quantity(), quantity()], quantity()).binary(implementation),
                member(id_int, &[quantity(), Type::Int], quantity()).binary(implementation),
            ],
        );
    };
    arithmetic("add", "quantity_add", "quantity_add_int", |context, args| {
        combine(context, args, Quantity::add)
    });
    arithmetic("sub", "quantity_sub", "quantity_sub_int", |context, args| {
        combine(context, args, Quantity::sub)
    });
}

fn with<'a>(args: &[Val<'a>], get: impl FnOnce(&QuantityValue) -> Val<'a>) -> Val<'a> {
    match args.first().and_then(Val::downcast::<QuantityValue>) {
        Some(quantity) => get(quantity),
        None => NO_SUCH_OVERLOAD,
    }
}

fn from_string<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let Some(Val::String(text)) = args.first() else {
        return NO_SUCH_OVERLOAD;
    };
    match Quantity::parse(text) {
        Ok(quantity) => context.opaque(QuantityValue {
            amount: Arc::new(Mutex::new(quantity)),
            is_pointer: false,
        }),
        Err(error) => context.error(format_args!("{error}")),
    }
}

fn is_quantity<'a>(_: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    match args.first() {
        Some(Val::String(text)) => Val::Bool(Quantity::parse(text).is_ok()),
        _ => NO_SUCH_OVERLOAD,
    }
}

fn compare<'a>(args: &[Val<'a>], get: impl FnOnce(Ordering) -> Val<'a>) -> Val<'a> {
    let Some(other) = args.get(1).and_then(Val::downcast::<QuantityValue>) else {
        return NO_SUCH_OVERLOAD;
    };
    let other = other.get();
    with(args, |quantity| {
        let mut quantity = quantity.lock();
        if other.is_decimal() && !quantity.is_decimal() {
            // kubernetes: apimachinery/pkg/api/resource/quantity.go `Cmp`, whose receiver is a pointer.
            *quantity = Quantity::from_decimal(quantity.to_decimal(), quantity.format());
        }
        get((*quantity).cmp(&other))
    })
}

fn combine<'a>(context: &Context<'a>, args: &[Val<'a>], how: fn(&Quantity, &Quantity) -> Quantity) -> Val<'a> {
    let other = match args.get(1) {
        Some(Val::Int(value)) => Quantity::new(*value, Format::DecimalExponent),
        Some(other) => match other.downcast::<QuantityValue>() {
            Some(other) => other.get(),
            None => return NO_SUCH_OVERLOAD,
        },
        None => return NO_SUCH_OVERLOAD,
    };
    with(args, |quantity| {
        let mut receiver = quantity.lock();
        let result = how(&receiver, &other);
        let amount = if receiver.is_decimal() && !context.profile.behaviour.quantity_sums_are_copies {
            *receiver = result;
            Arc::clone(&quantity.amount)
        } else {
            Arc::new(Mutex::new(result))
        };
        context.opaque(QuantityValue {
            amount,
            is_pointer: true,
        })
    })
}
